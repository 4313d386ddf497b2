/* control.c: branches and loops. Where what decides is known they are plain branches and loops; where a graph is
 * captured and it is not, they are those that graphs hold (cairn/control.h). See call.h. */
#include <cairn/ext/graph.h>
#include <stdio.h>
#include <string.h>

#include "formats/onnx/loops.h"

/* ---- If ---- */

typedef struct branches {
  const cni_onnx_call *call;
  const cni_onnx_graph *yes, *no;
  cn_onnx_value **made;
} branches;

/* One branch as a function of no operands: what it reads lies around it. */
static int branch(cn_tensor **outputs, size_t *noutputs, const branches *b, const cni_onnx_graph *g)
{
  cn_onnx_value **made = b->made;
  if (*noutputs < g->noutputs) return cni_onnx_fail(b->call, CN_ERR_VALUE, "too many results");
  if (cni_onnx_walk_inside(made, b->call, g, NULL, 0)) return cn_err();
  *noutputs = g->noutputs;
  for (size_t i = 0; i < g->noutputs; i++) {
    cn_tensor *t = cn_onnx_value_as_tensor(made[i]);
    if (!t) cni_onnx_fail(b->call, CN_ERR_CAPTURE, "capture: a branch gives what is no tensor");
    outputs[i] = t ? cn_scope_give(cn_keep(t)) : NULL;
    cn_onnx_value_release(made[i]);
  }
  return cn_err();
}
static int branch_yes(cn_tensor **o, size_t *n, cn_tensor *const *in, size_t nin, void *payload)
{
  const branches *b = payload;
  (void)in, (void)nin;
  return branch(o, n, b, b->yes);
}
static int branch_no(cn_tensor **o, size_t *n, cn_tensor *const *in, size_t nin, void *payload)
{
  const branches *b = payload;
  (void)in, (void)nin;
  return branch(o, n, b, b->no);
}

/* A graph has both branches, and one that these sizes never take may be wrong for them: then there is no graph, and the
 * call, run as it is, takes the other one, unless it is a compiled one, which may be captured for the value alone. */
static int not_both(const cni_onnx_call *c)
{
  char said[400];
  if (cn_err() != CN_ERR_SHAPE && cn_err() != CN_ERR_VALUE && cn_err() != CN_ERR_INDEX && cn_err() != CN_ERR_DTYPE)
    return cn_err();
  snprintf(said, sizeof said, "%s", cn_err_message());
  cn_err_clear();
  cn_trace_wants_values();
  return cni_onnx_fail(c, CN_ERR_CAPTURE, "capture: its branches cannot both be computed: %s", said);
}

static int if_else(cni_onnx_call *c)
{
  branches b = {.call = c, .yes = cni_onnx_graph_of(c, "then_branch"), .no = cni_onnx_graph_of(c, "else_branch")};
  cn_tensor *condition = cni_onnx_in(c, 0);
  if (!b.yes || !b.no || !condition) return cn_err();
  size_t n = b.yes->noutputs > b.no->noutputs ? b.yes->noutputs : b.no->noutputs;
  b.made = cni_onnx_room(c, n + 1, sizeof *b.made);
  cn_tensor **out = cni_onnx_room(c, n + 1, sizeof *out);
  if (!b.made || !out) return cn_err();
  if (!cni_onnx_is_known(c, 0)) {
    if (cn_cond(out, &n, cn_reshape(condition, CN_SCALAR_SHAPE), NULL, 0, branch_yes, branch_no, &b))
      return not_both(c);
    for (size_t i = 0; i < n && i < c->nout; i++)
      if (cni_onnx_out(c, i, out[i])) return cn_err();
    return CN_OK;
  }
  bool yes = cni_onnx_int_in(c, 0, 0) != 0;
  const cni_onnx_graph *g = yes ? b.yes : b.no;
  if (cn_err() || cni_onnx_walk_inside(b.made, c, g, NULL, 0)) return cn_err();
  for (size_t i = 0; i < g->noutputs; i++)
    if (i < c->nout) cni_onnx_out_value(c, i, b.made[i]);
    else cn_onnx_value_release(b.made[i]);
  return cn_err();
}

/* ---- Loop and Scan, step by step ---- */

/* Rows that steps give, one list for each scan output. */
typedef struct rows {
  cn_tensor **t;
  size_t n, cap;
} rows;

static int rows_add(rows *r, const cni_onnx_call *c, const cn_onnx_value *v)
{
  cn_tensor *t = cn_onnx_value_as_tensor(v);
  if (!t) return cni_onnx_fail(c, CN_ERR_TYPE, "a step gives what is no tensor to be stacked");
  if (cn_grow((void **)&r->t, &r->cap, r->n + 1, sizeof *r->t)) return cn_err();
  r->t[r->n++] = cn_keep(t);
  return CN_OK;
}

static void rows_free(rows *r, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    for (size_t k = 0; k < r[i].n; k++) cn_release(r[i].t[k]);
    cn_free(r[i].t, r[i].cap * sizeof *r[i].t);
  }
}

/* Values that go from step to step: carried[i] is owned. */
static void carry(cn_onnx_value **carried, cn_onnx_value **made, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    cn_onnx_value_release(carried[i]);
    carried[i] = made[i];
  }
}

static cn_onnx_value *number(cn_dtype dtype, int64_t value)
{
  void *paused = cn_trace_pause();
  bool truth = value != 0;
  cn_tensor *t = cn_from_data(dtype == CN_BOOL ? (const void *)&truth : (const void *)&value, NULL, 0, dtype);
  cn_onnx_value *v = cni_onnx_value_know(cni_onnx_take(t), t);
  cn_trace_resume(paused);
  return v;
}

/* What a condition says; while a graph is captured it must be known. */
static int truth(bool *yes, const cni_onnx_call *c, const cn_onnx_value *v)
{
  if (!v || v->kind != CN_ONNX_TENSOR) return cni_onnx_fail(c, CN_ERR_TYPE, "the condition is no tensor");
  void *paused = v->known ? cn_trace_pause() : NULL;
  *yes = cn_item(v->known ? v->known : v->t) != 0;
  if (v->known) cn_trace_resume(paused);
  return cn_err();
}

/* An empty tensor of a scan output that no step gave a row to; what the graph says of its shape. */
static cn_tensor *no_rows(const cni_onnx_call *c, const cni_onnx_name *name)
{
  int64_t shape[CN_MAX_DIMS] = {0};
  size_t n = name->type.ranked && name->type.ndims < CN_MAX_DIMS ? name->type.ndims : 0;
  cn_dtype dtype = cni_onnx_dtype(name->type.element);
  for (size_t i = 0; i < n; i++) shape[i + 1] = name->type.dims[i] > 0 ? name->type.dims[i] : 0;
  return cn_zeros(shape, n + 1, .dtype = dtype ? dtype : CN_F32, .device = cni_onnx_device(c));
}

static int out_rows(cni_onnx_call *c, size_t i, const rows *r, const cni_onnx_name *name, int64_t dim)
{
  return cni_onnx_out(c, i, r->n ? cn_stack(r->t, r->n, .dim = dim ? dim : CN_ZERO) : no_rows(c, name));
}

typedef struct loop {
  const cni_onnx_graph *body;
  size_t ncarried, nrows;
  cn_onnx_value **in, **made, *condition; /* in[2...]: carried, owned */
  rows *rows;
} loop;

static int loop_begin(loop *l, cni_onnx_call *c)
{
  l->body = cni_onnx_graph_of(c, "body");
  l->ncarried = c->nin > 2 ? c->nin - 2 : 0;
  if (!l->body) return cn_err();
  if (l->body->noutputs < l->ncarried + 1) return cni_onnx_fail(c, CN_ERR_VALUE, "its body gives too few results");
  l->nrows = l->body->noutputs - l->ncarried - 1;
  l->in = cni_onnx_room(c, l->ncarried + 3, sizeof *l->in);
  l->made = cni_onnx_room(c, l->body->noutputs + 1, sizeof *l->made);
  l->rows = cni_onnx_room(c, l->nrows + 1, sizeof *l->rows);
  for (size_t i = 0; l->in && i < l->ncarried; i++) l->in[2 + i] = cn_onnx_value_keep(c->in[2 + i]);
  return l->in && l->made && l->rows ? CN_OK : cn_err();
}

/* One round; *on: another one follows. */
static int loop_step(bool *on, loop *l, cni_onnx_call *c, int64_t i)
{
  cn_onnx_value *step = number(CN_I64, i);
  l->in[0] = step;
  l->in[1] = l->condition;
  int status = step ? cni_onnx_walk_inside(l->made, c, l->body, l->in, l->ncarried + 2) : cn_err();
  cn_onnx_value_release(step);
  if (status) return status;
  cn_onnx_value_release(l->condition);
  l->condition = l->made[0];
  carry(l->in + 2, l->made + 1, l->ncarried);
  for (size_t k = 0; k < l->nrows; k++) {
    cn_onnx_value *row = l->made[1 + l->ncarried + k];
    if (!status) status = rows_add(&l->rows[k], c, row);
    cn_onnx_value_release(row);
  }
  /* where it is not known in a capture, a loop of the graph takes over */
  return status || (cn_tracing() && !l->condition->known) ? status : truth(on, c, l->condition);
}

/* Is what is left of it, step i and those behind, a loop of the graph that is captured, rather than step by step? */
static bool is_held(const loop *l, const cni_onnx_call *c, int64_t i, int64_t most)
{
  if (!cn_tracing()) return false;
  return !cni_onnx_is_known(c, 0) || !l->condition->known || cn_tracing_sizes() || most - i > CNI_ONNX_UNROLLED;
}

/* Steps from i on as a loop of the graph. Rows: where none were made yet, and the number of steps is known. */
static int held_loop(loop *l, cni_onnx_call *c, int64_t i, int64_t most)
{
  cni_onnx_loop held = {c, l->body, l->ncarried, l->nrows, NULL, l->made};
  cn_tensor **stacked = cni_onnx_room(c, l->nrows + 1, sizeof *stacked);
  cn_tensor *condition = cn_onnx_value_as_tensor(l->condition);
  if (!(held.in = cni_onnx_room(c, l->ncarried + 3, sizeof *held.in)) || !stacked) return cn_err();
  if (i || !cni_onnx_has(c, 0) || !cni_onnx_is_known(c, 0) || !l->condition->known)
    return cni_onnx_loop_while(&held, l->in + 2, i, condition, cni_onnx_maybe(c, 0));
  if (cni_onnx_loop_steps(&held, l->in + 2, stacked, l->condition, most)) return cn_err();
  for (size_t k = 0; k < l->nrows; k++)
    if (cni_onnx_out(c, l->ncarried + k, stacked[k])) return cn_err();
  return CN_OK;
}

static int all_steps(loop *l, cni_onnx_call *c)
{
  int64_t most = cni_onnx_has(c, 0) && cni_onnx_is_known(c, 0) ? cni_onnx_int_in(c, 0, 0) : INT64_MAX;
  bool on = true, held = false;
  int status = cn_err();
  for (int64_t i = 0; !status; i++) {
    if ((held = is_held(l, c, i, most))) status = held_loop(l, c, i, most);
    else if (!i) status = truth(&on, c, l->condition);
    if (status || held || !on || i >= most) break;
    cn_scope *scope = cn_scope_begin();
    status = cn_limits_check() ? cn_err() : loop_step(&on, l, c, i);
    cn_scope_end(scope);
  }
  for (size_t k = 0; !status && !held && k < l->nrows; k++)
    status = out_rows(c, l->ncarried + k, &l->rows[k], &l->body->outputs[1 + l->ncarried + k], 0);
  return status;
}

static int run_loop(cni_onnx_call *c)
{
  loop l = {NULL};
  int status = loop_begin(&l, c);
  if (!status && !(l.condition = cni_onnx_has(c, 1) ? cn_onnx_value_keep(c->in[1]) : number(CN_BOOL, 1)))
    status = cn_err();
  if (!status) status = all_steps(&l, c);
  for (size_t i = 0; !status && i < l.ncarried; i++)
    status = cni_onnx_out_value(c, i, cn_onnx_value_keep(l.in[2 + i]));
  for (size_t i = 0; l.in && i < l.ncarried; i++) cn_onnx_value_release(l.in[2 + i]);
  cn_onnx_value_release(l.condition);
  if (l.rows) rows_free(l.rows, l.nrows);
  return status;
}

/* ---- Scan ---- */

typedef struct scan {
  const cni_onnx_graph *body;
  size_t ncarried, nxs, nys;
  cn_onnx_value **in, **made;
  cn_tensor **xs;
  rows *ys;
  cni_onnx_ints x_axes, x_ways, y_axes, y_ways;
} scan;

static int64_t entry(cni_onnx_ints list, size_t i) { return list.v && i < list.n ? list.v[i] : 0; }

/* first: the input that the states begin with. */
static int scan_begin(scan *s, cni_onnx_call *c, size_t first)
{
  size_t nin = c->nin > first ? c->nin - first : 0;
  s->body = cni_onnx_graph_of(c, "body");
  s->nxs = (size_t)cni_onnx_int(c, "num_scan_inputs", 0);
  if (!s->body) return cn_err();
  if (!s->nxs || s->nxs > nin || s->body->noutputs < nin - s->nxs)
    return cni_onnx_fail(c, CN_ERR_VALUE, "num_scan_inputs does not fit inputs and body");
  s->ncarried = nin - s->nxs;
  s->nys = s->body->noutputs - s->ncarried;
  s->in = cni_onnx_room(c, nin + 1, sizeof *s->in);
  s->xs = cni_onnx_room(c, s->nxs, sizeof *s->xs);
  s->made = cni_onnx_room(c, s->body->noutputs + 1, sizeof *s->made);
  s->ys = cni_onnx_room(c, s->nys + 1, sizeof *s->ys);
  s->x_axes = cni_onnx_ints_of(c, "scan_input_axes");
  s->x_ways = cni_onnx_ints_of(c, "scan_input_directions");
  s->y_axes = cni_onnx_ints_of(c, "scan_output_axes");
  s->y_ways = cni_onnx_ints_of(c, "scan_output_directions");
  for (size_t k = 0; s->xs && k < s->nxs; k++) s->xs[k] = cni_onnx_in(c, first + s->ncarried + k);
  return cn_err();
}

static int scan_step(scan *s, cni_onnx_call *c, int64_t i)
{
  int status = CN_OK;
  for (size_t k = 0; k < s->nxs && !status; k++) {
    cn_tensor *x = s->xs[k];
    int64_t axis = x ? cni_onnx_axis(c, entry(s->x_axes, k), cn_ndim(x)) : -1, n = axis < 0 ? 0 : cn_size(x, axis);
    cn_tensor *row = axis < 0 ? NULL : cn_select(x, axis, entry(s->x_ways, k) ? n - 1 - i : i);
    s->in[s->ncarried + k] = cni_onnx_take(row);
    status = cn_err();
  }
  if (!status) status = cni_onnx_walk_inside(s->made, c, s->body, s->in, s->ncarried + s->nxs);
  for (size_t k = 0; k < s->nxs; k++) {
    cn_onnx_value_release(s->in[s->ncarried + k]);
    s->in[s->ncarried + k] = NULL;
  }
  if (status) return status;
  carry(s->in, s->made, s->ncarried);
  for (size_t k = 0; k < s->nys; k++) {
    if (!status) status = rows_add(&s->ys[k], c, s->made[s->ncarried + k]);
    cn_onnx_value_release(s->made[s->ncarried + k]);
  }
  return status;
}

static int scan_out(scan *s, cni_onnx_call *c, size_t k)
{
  rows *r = &s->ys[k];
  if (entry(s->y_ways, k))
    for (size_t i = 0; i < r->n / 2; i++) {
      cn_tensor *t = r->t[i];
      r->t[i] = r->t[r->n - 1 - i];
      r->t[r->n - 1 - i] = t;
    }
  return out_rows(c, s->ncarried + k, r, &s->body->outputs[s->ncarried + k], entry(s->y_axes, k));
}

/* Rows in the order of steps, along dimension 0; and back. */
static cn_tensor *to_front(cn_tensor *t, int64_t axis, bool backwards)
{
  cn_tensor *front = axis && t ? cn_movedim(t, &axis, 1, CN_SHAPE(0)) : t;
  return backwards && front ? cn_flip(front, CN_SHAPE(0)) : front;
}
static cn_tensor *from_front(cn_tensor *t, int64_t axis, bool backwards)
{
  cn_tensor *front = backwards && t ? cn_flip(t, CN_SHAPE(0)) : t;
  return axis && front ? cn_movedim(front, CN_SHAPE(0), &axis, 1) : front;
}

/* All steps as one loop of the graph that is captured. */
static int held_scan(scan *s, cni_onnx_call *c)
{
  cni_onnx_loop held = {c, s->body, s->ncarried, s->nys, NULL, s->made};
  cn_tensor **xs = cni_onnx_room(c, s->nxs + 1, sizeof *xs), **ys = cni_onnx_room(c, s->nys + 1, sizeof *ys);
  if (!(held.in = cni_onnx_room(c, c->nin + 1, sizeof *held.in)) || !xs || !ys) return cn_err();
  for (size_t k = 0; k < s->nxs; k++) {
    cn_tensor *x = s->xs[k];
    int64_t axis = x ? cni_onnx_axis(c, entry(s->x_axes, k), cn_ndim(x)) : -1;
    if (axis < 0 || !(xs[k] = to_front(x, axis, entry(s->x_ways, k) != 0))) return cn_err();
  }
  if (cni_onnx_loop_rows(&held, s->in, ys, xs, s->nxs)) return cn_err();
  for (size_t k = 0; k < s->nys; k++) {
    int64_t axis = cni_onnx_axis(c, entry(s->y_axes, k), cn_ndim(ys[k]));
    if (axis < 0 || cni_onnx_out(c, s->ncarried + k, from_front(ys[k], axis, entry(s->y_ways, k) != 0)))
      return cn_err();
  }
  return CN_OK;
}

/* So many steps, with states in s->in. */
static int scan_steps(scan *s, cni_onnx_call *c, int64_t steps)
{
  int status = CN_OK;
  for (int64_t i = 0; i < steps && !status; i++) {
    cn_scope *scope = cn_scope_begin();
    status = cn_limits_check() ? cn_err() : scan_step(s, c, i);
    cn_scope_end(scope);
  }
  return status;
}

static void scan_end(scan *s)
{
  for (size_t i = 0; s->in && i < s->ncarried; i++) cn_onnx_value_release(s->in[i]);
  if (s->ys) rows_free(s->ys, s->nys);
}

/* The first inputs are carried from step to step, the others are taken row by row. */
static int run_scan(cni_onnx_call *c)
{
  scan s = {NULL};
  int status = scan_begin(&s, c, 0);
  cn_tensor *x = status ? NULL : s.xs[0];
  int64_t axis = x ? cni_onnx_axis(c, entry(s.x_axes, 0), cn_ndim(x)) : -1, steps = axis < 0 ? 0 : cn_size(x, axis);
  bool held = cn_tracing() && (cn_tracing_sizes() || steps > CNI_ONNX_UNROLLED);
  for (size_t i = 0; axis >= 0 && i < s.ncarried; i++) s.in[i] = cn_onnx_value_keep(c->in[i]);
  status = axis < 0 ? cn_err() : held ? held_scan(&s, c) : scan_steps(&s, c, steps);
  for (size_t k = 0; k < s.nys && !status && !held; k++) status = scan_out(&s, c, k);
  for (size_t i = 0; i < s.ncarried && !status; i++) status = cni_onnx_out_value(c, i, cn_onnx_value_keep(s.in[i]));
  scan_end(&s);
  return status;
}

/* ---- Scan of opset 8: each of a batch by itself, of a length of its own ---- */

/* Entry b of the batch: its states and rows, the steps, then what it gives behind those before it. */
static int scan_one(rows *all, cni_onnx_call *c, int64_t b, int64_t steps)
{
  scan s = {NULL};
  int status = scan_begin(&s, c, 1);
  int64_t longest = status ? 0 : cn_size(s.xs[0], 1);
  s.x_ways = cni_onnx_ints_of(c, "directions");
  s.x_axes = s.y_axes = s.y_ways = (cni_onnx_ints){NULL, 0};
  if (!status && (steps < 0 || steps > longest))
    status = cni_onnx_fail(c, CN_ERR_VALUE, "%lld steps of %lld", (long long)steps, (long long)longest);
  for (size_t k = 0; k < s.nxs && !status; k++) /* what is behind the end does not take part */
    status = (s.xs[k] = cn_narrow(cn_select(s.xs[k], 0, b), 0, 0, steps)) ? CN_OK : cn_err();
  for (size_t i = 0; i < s.ncarried && !status; i++)
    status = (s.in[i] = cni_onnx_take(cn_select(cni_onnx_in(c, 1 + i), 0, b))) ? CN_OK : cn_err();
  if (!status) status = scan_steps(&s, c, steps);
  for (size_t i = 0; i < s.ncarried && !status; i++) status = rows_add(&all[i], c, s.in[i]);
  for (size_t k = 0; k < s.nys && !status; k++) {
    cn_tensor *t = s.ys[k].n ? cn_stack(s.ys[k].t, s.ys[k].n) : no_rows(c, &s.body->outputs[s.ncarried + k]);
    int64_t pad[2 * CN_MAX_DIMS] = {0}, ndim = cn_ndim(t);
    if (t && steps < longest) pad[2 * ndim - 1] = longest - steps;
    cn_onnx_value *v = t ? cni_onnx_take(cn_constant_pad_nd(t, pad, 2 * (size_t)ndim)) : NULL;
    status = v ? rows_add(&all[s.ncarried + k], c, v) : cn_err();
    cn_onnx_value_release(v);
  }
  scan_end(&s);
  return status;
}

static int run_batched_scan(cni_onnx_call *c)
{
  const cni_onnx_graph *body = cni_onnx_graph_of(c, "body");
  cn_tensor *x = c->nin > 1 ? cni_onnx_in(c, c->nin - 1) : NULL;
  cni_onnx_ints lengths = cni_onnx_ints_in(c, 0);
  if (!body || !x || cn_ndim(x) < 2 || cn_err())
    return cn_err() ? cn_err() : cni_onnx_fail(c, CN_ERR_SHAPE, "it takes (batch, steps, ...)");
  int64_t batch = cn_size(x, 0);
  if (lengths.v && lengths.n != (size_t)batch)
    return cni_onnx_fail(c, CN_ERR_SHAPE, "%zu lengths for %lld of a batch", lengths.n, (long long)batch);
  rows *all = cni_onnx_room(c, body->noutputs + 1, sizeof *all);
  int status = all ? CN_OK : cn_err();
  for (int64_t b = 0; b < batch && !status; b++)
    status = scan_one(all, c, b, lengths.v ? lengths.v[b] : cn_size(x, 1));
  for (size_t i = 0; i < body->noutputs && !status; i++) status = out_rows(c, i, &all[i], &body->outputs[i], 0);
  if (all) rows_free(all, body->noutputs);
  return status;
}

/* ---- SequenceMap ---- */

/* The body's results for member i of each sequence; inputs that are no sequences are the same for all. */
static int map_one(cn_onnx_value **made, cni_onnx_call *c, const cni_onnx_graph *body, size_t i)
{
  cn_onnx_value **in = cni_onnx_room(c, c->nin + 1, sizeof *in);
  for (size_t k = 0; in && k < c->nin; k++) {
    in[k] = cni_onnx_value_in(c, k);
    if (!in[k]) return cn_err();
    if (in[k]->kind != CN_ONNX_SEQUENCE) continue;
    if (i >= in[k]->n) return cni_onnx_fail(c, CN_ERR_VALUE, "its sequences are not as long as one another");
    in[k] = in[k]->items[i];
  }
  return in ? cni_onnx_walk_inside(made, c, body, in, c->nin) : cn_err();
}

static int sequence_map(cni_onnx_call *c)
{
  const cni_onnx_graph *body = cni_onnx_graph_of(c, "body");
  const cn_onnx_value *first = cni_onnx_value_in(c, 0);
  if (!body || !first) return cn_err();
  if (first->kind != CN_ONNX_SEQUENCE) return cni_onnx_fail(c, CN_ERR_TYPE, "its first input is no sequence");
  size_t n = first->n, nout = body->noutputs, have = 0;
  cn_onnx_value **all = cni_onnx_room(c, (n + 1) * (nout + 1), sizeof *all);
  cn_onnx_value **column = cni_onnx_room(c, n + 1, sizeof *column);
  int status = all && column ? CN_OK : cn_err();
  for (; have < n && !status; have += !status) {
    cn_scope *scope = cn_scope_begin();
    status = cn_limits_check() ? cn_err() : map_one(all + have * nout, c, body, have);
    cn_scope_end(scope);
  }
  for (size_t k = 0; k < nout && k < c->nout && !status; k++) {
    for (size_t i = 0; i < n; i++) column[i] = all[i * nout + k];
    status = cni_onnx_out_value(c, k, cn_onnx_value_sequence(column, n));
  }
  for (size_t i = 0; all && i < have * nout; i++) cn_onnx_value_release(all[i]);
  return status;
}

const cni_onnx_op cni_onnx_control_ops[] = {
    ONNX_FRESH("If", 1, if_else),
    ONNX_FRESH("Loop", 1, run_loop),
    ONNX_FRESH("Scan", 8, run_batched_scan),
    ONNX_FRESH("Scan", 9, run_scan),
    ONNX_FRESH("SequenceMap", 17, sequence_map),
    {NULL, NULL, NULL, 0, 0},
};
