/* control.c: cn_cond, cn_while, cn_scan and cn_map: checks, and what they do in eager code.
 *
 * Place in the flow: in eager code a function is called, and called again; while a graph is captured control_cond.c and
 * control_loop.c record a node. Invariants: a step's temporary values are gone when the next one begins; what is
 * carried, and rows, are row-major, as they are in a graph, so that kernels do the same in both. */
#include <cairn/autograd.h>
#include <cairn/ops.h>
#include <string.h>

#include "base/limits.h"
#include "control.h"
#include "ops/families.h"

/* ---- checks ---- */

/* The tensors as the capture that goes on knows them; owned array of n + 1, the last NULL. NULL with the error set. */
static cn_tensor **checked(const char *who, const char *what, cn_tensor *const *tensors, size_t n)
{
  if (cn_err()) return NULL;
  cni_init();
  cn_tensor **known = cni_alloc_zero((n + 1) * sizeof *known);
  bool inside = (cni_state()->modes & CNI_MODE_INSIDE) != 0;
  for (size_t i = 0; known && i < n; i++) {
    if (!tensors[i]) cni_fail(CN_ERR_TYPE, "%s: %s %zu is NULL", who, what, i);
    else if (tensors[i]->d.weak) cni_fail(CN_ERR_TYPE, "%s: %s %zu is a number, not a tensor", who, what, i);
    else known[i] = inside ? cni_bring_one_inside(tensors[i]) : tensors[i];
    if (known[i]) continue;
    cni_free(known, (n + 1) * sizeof *known);
    return NULL;
  }
  return known;
}

static int row_major(cn_tensor **tensors, size_t n)
{
  for (size_t i = 0; i < n; i++)
    if (!(tensors[i] = cn_contiguous(tensors[i]))) return cn_err();
  return CN_OK;
}

static int no_function(const char *who) { return cni_fail(CN_ERR_TYPE, "%s: a function is NULL", who); }

/* ---- calling in eager code ---- */

/* Calls fn in a scope of its own; results are owned, the first `carried` of them row-major. *n: room, then count. */
static int call(cn_tensor **out, size_t *n, const char *who, cn_control_fn fn, cn_tensor *const *in, size_t nin,
                void *payload, size_t carried)
{
  size_t most = *n, depth = cni_scope_push();
  memset(out, 0, most * sizeof *out);
  int status = fn(out, n, in, nin, payload);
  if (!status) status = cn_err();
  if (status && !cn_err()) cni_fail(status, "%s: the function failed", who);
  if (!status && *n > most) status = cni_fail(CN_ERR_VALUE, "%s: more results than there is room for", who);
  for (size_t i = 0; i < *n && !status; i++) {
    if (!out[i]) status = cni_fail(CN_ERR_VALUE, "%s: the function left result %zu unset", who, i);
    else if (out[i]->d.weak) status = cni_fail(CN_ERR_TYPE, "%s: result %zu is a number, not a tensor", who, i);
    else if (i < carried && !(out[i] = cn_contiguous(out[i]))) status = cn_err();
  }
  for (size_t i = 0; i < *n && !status; i++) cni_tensor_keep(out[i]);
  if (status) *n = 0;
  cni_scope_pop(depth);
  return status;
}

static void release_all(cn_tensor **t, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    cni_tensor_release(t[i]);
    t[i] = NULL;
  }
}

/* Owned tensors become the scope's. */
static int hand_over(cn_tensor **t, size_t n)
{
  int status = CN_OK;
  for (size_t i = 0; i < n; i++) {
    if (status) cni_tensor_release(t[i]);
    else if (!cni_scope_add(t[i])) status = CN_ERR_MEMORY;
    if (status) t[i] = NULL;
  }
  return status;
}

/* Carried values keep their types and shapes. */
static int check_carried(const char *who, cn_tensor *const *made, size_t nmade, cn_tensor *const *had, size_t n,
                         bool all)
{
  if (nmade < n || (all && nmade != n))
    return cni_fail(CN_ERR_VALUE, "%s: it carries %zu values, and a step gives %zu", who, n, nmade);
  for (size_t i = 0; i < n; i++) {
    const cn_desc *a = &had[i]->d, *b = &made[i]->d;
    char have[CNI_SHAPE_TEXT], other[CNI_SHAPE_TEXT];
    if (a->dtype != b->dtype || a->device != b->device || !cni_same_shape(a->ndim, a->shape, b->ndim, b->shape))
      return cni_fail(CN_ERR_SHAPE, "%s: carried value %zu is %s %s, and a step makes it %s %s", who, i,
                      cn_dtype_name((cn_dtype)a->dtype), cni_shape_text(have, sizeof have, a->ndim, a->shape),
                      cn_dtype_name((cn_dtype)b->dtype), cni_shape_text(other, sizeof other, b->ndim, b->shape));
  }
  return CN_OK;
}

/* ---- cond ---- */

/* Which branch a predicate means: 1, 0 or an error. */
static int truth(const char *who, cn_tensor *t)
{
  if (t->d.numel != 1) return cni_fail(CN_ERR_SHAPE, "%s: the predicate must have one element", who);
  double v = cn_item(t);
  return cn_err() ? cn_err() : v != 0;
}

int cn_cond(cn_tensor **outputs, size_t *noutputs, cn_tensor *pred, cn_tensor *const *operands, size_t noperands,
            cn_control_fn true_fn, cn_control_fn false_fn, void *payload)
{
  if (cn_err()) return cn_err();
  if (!pred || !noutputs) return cni_fail(CN_ERR_TYPE, "cond: the predicate is NULL");
  if (!true_fn || !false_fn) return no_function("cond");
  cn_tensor **known = checked("cond", "operand", operands, noperands);
  if (!known) return cn_err();
  int status;
  if (cni_capturing() && !pred->d.weak) {
    cn_tensor **p = checked("cond", "predicate", &pred, 1);
    if (!p) status = cn_err();
    else if (p[0]->d.numel != 1) status = cni_fail(CN_ERR_SHAPE, "cond: the predicate must have one element");
    else status = cni_capture_cond(outputs, noutputs, p[0], known, noperands, true_fn, false_fn, payload);
    cni_free(p, 2 * sizeof *p);
  } else {
    int yes = truth("cond", pred);
    status = yes < 0 ? yes : call(outputs, noutputs, "cond", yes ? true_fn : false_fn, known, noperands, payload, 0);
    if (!status) status = hand_over(outputs, *noutputs);
  }
  cni_free(known, (noperands + 1) * sizeof *known);
  return status;
}

/* ---- while ---- */

/* now: owned values, which become those of the next step. room: as many places, and one more. */
static int while_step(cn_tensor **now, cn_tensor **room, size_t n, cn_control_fn body, void *payload)
{
  size_t made = n + 1;
  int status = call(room, &made, "while", body, now, n, payload, n);
  if (!status) status = check_carried("while", room, made, now, n, true);
  if (status) {
    release_all(room, made);
    return status;
  }
  release_all(now, n);
  memcpy(now, room, n * sizeof *now);
  return CN_OK;
}

static int goes_on(cn_tensor **room, cn_tensor *const *now, size_t n, cn_control_fn cond, void *payload)
{
  size_t made = n + 1;
  int status = call(room, &made, "while", cond, now, n, payload, 0);
  if (!status && made != 1) status = cni_fail(CN_ERR_VALUE, "while: its condition must give one result of one element");
  int yes = status ? status : truth("while", room[0]);
  release_all(room, made);
  return yes;
}

static int while_eager(cn_tensor **outputs, cn_tensor *const *carried, size_t n, cn_control_fn cond, cn_control_fn body,
                       void *payload, int64_t max_steps)
{
  size_t bytes = (2 * n + 2) * sizeof(cn_tensor *);
  cn_tensor **now = cni_alloc_zero(bytes), **room = now + n;
  if (!now) return CN_ERR_MEMORY;
  int status = CN_OK, go = 1;
  for (size_t i = 0; i < n; i++) now[i] = cni_tensor_keep(carried[i]);
  for (int64_t s = 0; !status && (!max_steps || s < max_steps); s++) {
    if ((go = goes_on(room, now, n, cond, payload)) <= 0) break;
    status = cni_limits_hold("while");
    if (!status) status = while_step(now, room, n, body, payload);
  }
  if (!status && go < 0) status = go;
  memcpy(outputs, now, n * sizeof *outputs);
  cni_free(now, bytes);
  if (!status) return hand_over(outputs, n);
  release_all(outputs, n);
  return status;
}

int cn_while_with(cn_tensor **outputs, cn_tensor *const *carried, size_t n, cn_control_fn cond_fn,
                  cn_control_fn body_fn, void *payload, const cn_while_opts *opts)
{
  cn_while_opts o = {.size = sizeof o};
  if (opts) memcpy(&o, opts, opts->size < sizeof o ? opts->size : sizeof o);
  if (cn_err()) return cn_err();
  if (!cond_fn || !body_fn) return no_function("while");
  if (!n) return cni_fail(CN_ERR_VALUE, "while: it must carry a value");
  if (o.max_steps < 0) return cni_fail(CN_ERR_VALUE, "while: max_steps is negative");
  cn_tensor **known = checked("while", "carried value", carried, n);
  if (!known) return cn_err();
  if (row_major(known, n)) {
    cni_free(known, (n + 1) * sizeof *known);
    return cn_err();
  }
  cni_loop loop = {.kind = CNI_CONTROL_WHILE, .who = "while", .fn = body_fn, .cond = cond_fn, .payload = payload,
                   .in = known, .ncarried = n, .length = o.max_steps};
  size_t nout = n;
  int status = cni_capturing() ? cni_capture_loop(outputs, &nout, &loop)
                               : while_eager(outputs, known, n, cond_fn, body_fn, payload, o.max_steps);
  cni_free(known, (n + 1) * sizeof *known);
  return status;
}

/* ---- scan and map in eager code ---- */

typedef struct scanning {
  const cni_loop *loop;
  cn_tensor **now;   /* owned: carried values */
  cn_tensor **in;    /* of one step */
  cn_tensor **made;  /* of one step: room for CNI_MOST_RESULTS */
  cn_tensor **rows;  /* owned: of y k, step i: rows[k * length + i] */
  size_t nys;
} scanning;

static int note_rows(scanning *s, size_t nys, int64_t at)
{
  size_t length = (size_t)s->loop->length;
  if (!s->rows) {
    if (!(s->rows = cni_alloc_zero((nys * length + 1) * sizeof *s->rows))) return CN_ERR_MEMORY;
    s->nys = nys;
  }
  if (nys != s->nys)
    return cni_fail(CN_ERR_VALUE, "%s: a step gives %zu results, and one before gave %zu", s->loop->who, nys, s->nys);
  for (size_t k = 0; k < nys; k++) s->rows[k * length + (size_t)at] = s->made[s->loop->ncarried + k];
  return CN_OK;
}

static int scan_step(scanning *s, int64_t at)
{
  const cni_loop *p = s->loop;
  size_t n = CNI_MOST_RESULTS, depth = cni_scope_push();
  int status = CN_OK;
  for (size_t i = 0; i < p->ncarried; i++) s->in[i] = s->now[i];
  for (size_t i = 0; i < p->nxs && !status; i++)
    if (!(s->in[p->ncarried + i] = cn_select(p->in[p->ncarried + i], 0, at))) status = cn_err();
  if (status) n = 0;
  else status = call(s->made, &n, p->who, p->fn, s->in, p->ncarried + p->nxs, p->payload, p->ncarried);
  cni_scope_pop(depth);
  if (!status) status = check_carried(p->who, s->made, n, s->now, p->ncarried, false);
  if (!status) status = note_rows(s, n - p->ncarried, at);
  if (status) {
    release_all(s->made, n);
    return status;
  }
  release_all(s->now, p->ncarried);
  memcpy(s->now, s->made, p->ncarried * sizeof *s->now);
  return CN_OK;
}

/* Without a step: what a step would make is found by tracing one. */
static int empty_rows(cn_tensor **ys, size_t *nys, scanning *s)
{
  const cni_loop *p = s->loop;
  size_t n = CNI_MOST_RESULTS, given = p->ncarried + p->nxs;
  int64_t shapes[CN_MAX_DIMS + 1];
  cni_capture cap;
  if (cni_trace_begin(&cap)) return cn_err();
  int status = CN_OK, no_grad = cn_no_grad_begin();
  for (size_t i = 0; i < given && !status; i++) {
    cn_desc d = p->in[i]->d;
    if (i >= p->ncarried) memmove(d.shape, d.shape + 1, (size_t)--d.ndim * sizeof *d.shape);
    cni_contiguous_strides(d.ndim, d.shape, d.strides);
    if (!(s->in[i] = cni_trace_input(&cap, &d))) status = cn_err();
  }
  if (!status) status = call(s->made, &n, p->who, p->fn, s->in, given, p->payload, 0);
  else n = 0;
  cn_no_grad_end(no_grad);
  cn_graph_free(cni_trace_end(&cap, status));
  if (!status) status = check_carried(p->who, s->made, n, p->in, p->ncarried, false);
  if (!status && n - p->ncarried > *nys)
    status = cni_fail(CN_ERR_VALUE, "%s: there is no room for its results", p->who);
  for (size_t i = p->ncarried; i < n && !status; i++) {
    const cn_desc *d = &s->made[i]->d;
    cn_zeros_opts o = {.size = sizeof o, .dtype = (cn_dtype)d->dtype, .device = d->device};
    shapes[0] = 0;
    memcpy(shapes + 1, d->shape, (size_t)d->ndim * sizeof *shapes);
    if (!(ys[i - p->ncarried] = cn_zeros_with(shapes, (size_t)d->ndim + 1, &o))) status = cn_err();
  }
  release_all(s->made, n);
  *nys = status ? 0 : n - p->ncarried;
  return status;
}

static int stack_rows(cn_tensor **ys, size_t *nys, const scanning *s)
{
  size_t length = (size_t)s->loop->length;
  if (s->nys > *nys) return cni_fail(CN_ERR_VALUE, "%s: there is no room for its results", s->loop->who);
  for (size_t k = 0; k < s->nys; k++)
    if (!(ys[k] = cn_stack_with(s->rows + k * length, length, NULL))) return cn_err();
  *nys = s->nys;
  return CN_OK;
}

static int run_scan(cn_tensor **out, size_t *nout, scanning *s)
{
  const cni_loop *p = s->loop;
  size_t nys = *nout - p->ncarried;
  int status = CN_OK;
  for (size_t i = 0; i < p->ncarried; i++) s->now[i] = cni_tensor_keep(p->in[i]);
  for (int64_t i = 0; i < p->length && !status; i++) status = scan_step(s, p->reverse ? p->length - 1 - i : i);
  if (!status) status = p->length ? stack_rows(out + p->ncarried, &nys, s) : empty_rows(out + p->ncarried, &nys, s);
  if (s->rows) release_all(s->rows, s->nys * (size_t)p->length);
  if (s->rows) cni_free(s->rows, (s->nys * (size_t)p->length + 1) * sizeof *s->rows);
  memcpy(out, s->now, p->ncarried * sizeof *out);
  *nout = p->ncarried + nys;
  if (!status) return hand_over(out, p->ncarried);
  release_all(out, p->ncarried);
  return status;
}

static int loop_eager(cn_tensor **out, size_t *nout, const cni_loop *loop)
{
  size_t n = 2 * loop->ncarried + loop->nxs + CNI_MOST_RESULTS + 1;
  cn_tensor **room = cni_alloc_zero(n * sizeof *room);
  if (!room) return CN_ERR_MEMORY;
  scanning s = {.loop = loop, .now = room, .in = room + loop->ncarried,
                .made = room + 2 * loop->ncarried + loop->nxs};
  int status = run_scan(out, nout, &s);
  cni_free(room, n * sizeof *room);
  return status;
}

/* ---- scan and map ---- */

/* Rows of xs come first; *length: how many. */
static int bring_rows_first(const char *who, cn_tensor **xs, size_t n, int64_t dim, int64_t *length)
{
  int64_t given = *length;
  for (size_t i = 0; i < n; i++) {
    int64_t from = dim < 0 ? dim + xs[i]->d.ndim : dim;
    if (from < 0 || from >= xs[i]->d.ndim)
      return cni_fail(CN_ERR_INDEX, "%s: x %zu has %d dimensions, and no dimension %d", who, i, (int)xs[i]->d.ndim,
                      (int)dim);
    if (i && xs[i]->d.shape[from] != *length)
      return cni_fail(CN_ERR_SHAPE, "%s: x %zu has %d rows, and x 0 has %d", who, i, (int)xs[i]->d.shape[from],
                      (int)*length);
    *length = xs[i]->d.shape[from];
    if (from && !(xs[i] = cn_movedim(xs[i], &from, 1, (const int64_t[]){0}, 1))) return cn_err();
  }
  if (row_major(xs, n)) return cn_err();
  if (n && given && given != *length)
    return cni_fail(CN_ERR_SHAPE, "%s: its length is %d, and xs have %d rows", who, (int)given, (int)*length);
  return CN_OK;
}

static int run_loop(cn_tensor **out, size_t *nout, const cni_loop *loop)
{
  return cni_capturing() ? cni_capture_loop(out, nout, loop) : loop_eager(out, nout, loop);
}

static int scan(cn_tensor **out, size_t *nout, cni_loop *loop, cn_tensor *const *given, int64_t dim)
{
  size_t n = loop->ncarried + loop->nxs;
  cn_tensor **known = checked(loop->who, loop->nxs == n ? "x" : "input", given, n);
  if (!known) return cn_err();
  int status = row_major(known, loop->ncarried);
  if (!status) status = bring_rows_first(loop->who, known + loop->ncarried, loop->nxs, dim, &loop->length);
  loop->in = known;
  if (!status) status = run_loop(out, nout, loop);
  for (size_t i = loop->ncarried; i < *nout && !status && dim; i++) {
    int64_t to = dim < 0 ? dim + given[loop->ncarried]->d.ndim : dim;
    if (to < out[i]->d.ndim && to && !(out[i] = cn_movedim(out[i], (const int64_t[]){0}, 1, &to, 1))) status = cn_err();
  }
  cni_free(known, (n + 1) * sizeof *known);
  return status;
}

int cn_scan_with(cn_tensor **last, cn_tensor **ys, size_t *nys, cn_tensor *const *init, size_t ncarries,
                 cn_tensor *const *xs, size_t nxs, cn_control_fn combine, void *payload, const cn_scan_opts *opts)
{
  cn_scan_opts o = {.size = sizeof o};
  if (opts) memcpy(&o, opts, opts->size < sizeof o ? opts->size : sizeof o);
  if (cn_err()) return cn_err();
  if (!combine) return no_function("scan");
  if (!ncarries) return cni_fail(CN_ERR_VALUE, "scan: it must carry a value; cn_map carries none");
  if (o.length < 0) return cni_fail(CN_ERR_VALUE, "scan: its length is negative");
  if (!nxs && o.dim) return cni_fail(CN_ERR_VALUE, "scan: there are no xs, and so no dimension %d", (int)o.dim);
  size_t most = ncarries + (nys ? *nys : 0), bytes = (most + ncarries + nxs + 1) * sizeof *last;
  cn_tensor **out = cni_alloc_zero(bytes), **given = out + most;
  if (!out) return CN_ERR_MEMORY;
  memcpy(given, init, ncarries * sizeof *given);
  if (nxs) memcpy(given + ncarries, xs, nxs * sizeof *given);
  cni_loop loop = {.kind = CNI_CONTROL_SCAN, .who = "scan", .fn = combine, .payload = payload, .ncarried = ncarries,
                   .nxs = nxs, .length = o.length, .reverse = o.reverse};
  int status = scan(out, &most, &loop, given, o.dim);
  size_t count = status ? 0 : most - ncarries;
  memcpy(last, out, ncarries * sizeof *last);
  if (count) memcpy(ys, out + ncarries, count * sizeof *ys);
  if (nys) *nys = count;
  cni_free(out, bytes);
  return status;
}

int cn_map(cn_tensor **ys, size_t *nys, cn_tensor *const *xs, size_t nxs, cn_control_fn fn, void *payload)
{
  if (cn_err()) return cn_err();
  if (!fn) return no_function("map");
  if (!nxs || !nys) return cni_fail(CN_ERR_VALUE, "map: there is nothing to go along");
  cni_loop loop = {.kind = CNI_CONTROL_MAP, .who = "map", .fn = fn, .payload = payload, .nxs = nxs};
  return scan(ys, nys, &loop, xs, 0);
}
