/* control.c: branches and loops, which hold graphs: If, Loop and Scan.
 *
 * Place in the flow: graph.c asks for every node. ext/graph.h says what each kind holds. Invariant: inner graphs read
 * what lies outside by its name, and what goes round a loop keeps its type; rows that no step writes are zero. */
#include <string.h>

#include "row.h"

typedef struct looping {
  cni_oxcall *c;
  const cn_graph *cond, *body;
  int ncarried, nxs, noperands, nys;
  int64_t length;
  bool counted, reverse;
  cni_oxval steps;             /* how many; absent in a loop that asks alone */
  cni_oxval *args, *results;   /* of the graphs */
  cni_oxval *in, *out, *inner; /* of the node; of its graph: inputs, then results */
} looping;

static cni_oxval solid(cni_oxcall *c, int k) { return cni_ox_solid(c->x, c->in[k], c->in[k].dtype); }

static cni_oxval scalar(cni_ox *x, cni_oxval v, int dtype)
{
  v = cni_ox_cast(x, cni_ox_solid(x, v, dtype), dtype);
  return v.ndim ? cni_ox_reshape(x, v, 0, NULL) : v;
}

/* ---- branches ---- */

static void branch(cni_oxcall *c, const cn_graph_node *n)
{
  static const char *const names[] = {"then_branch", "else_branch"};
  cni_ox *x = c->x;
  size_t bytes = (size_t)(c->nin + c->nout + 1) * sizeof(cni_oxval);
  cni_oxval pred = scalar(x, c->in[0], CN_BOOL), *args = cn_alloc_zero(bytes);
  int graphs[2] = {0, 0};
  if (!args) x->failed = true;
  for (int k = 1; k < c->nin && args; k++) args[k - 1] = solid(c, k);
  for (int k = 0; k < 2 && !x->failed; k++) {
    cni_oxval *results = args + c->nin;
    graphs[k] = cni_ox_graph_begin(x);
    cni_ox_write_graph(x, n->subs[k], args, results);
    cni_ox_graph_end(x, graphs[k], 0, NULL, c->nout, results);
  }
  for (int k = 0; k < 2 && !x->failed; k++) cni_ox_graph(x, names[k], graphs[k]);
  if (!x->failed) cni_ox_node(x, "If", 1, &pred, c->nout, c->out);
  if (args) cn_free(args, bytes);
}

/* ---- loops ---- */

/* The row of an operand that step `at` reads. */
static cni_oxval row_of(cni_ox *x, cni_oxval v, cni_oxval at)
{
  cni_ox_int(x, "axis", 0);
  cni_oxval row = CNI_OX_EMIT(x, "Gather", v, at);
  return cni_ox_shaped(row, v.ndim - 1, v.shape + 1, v.open >> 1);
}

static cni_oxval goes_on(looping *l, const cni_oxval *carried)
{
  cni_oxval go = cni_ox_absent();
  cni_ox *x = l->c->x;
  if (!l->cond) return cni_ox_const(x, cni_ox_whole(1), CN_BOOL);
  memcpy(l->args, carried, (size_t)l->ncarried * sizeof *carried);
  for (int k = 0; k < l->noperands; k++) l->args[l->ncarried + k] = solid(l->c, l->ncarried + k);
  cni_ox_write_graph(x, l->cond, l->args, &go);
  return scalar(x, go, CN_BOOL);
}

/* What a step computes of carried values and rows: into l->results. */
static void body_of(looping *l, const cni_oxval *carried, const cni_oxval *rows)
{
  int n = 0;
  for (int k = 0; k < l->ncarried; k++) l->args[n++] = carried[k];
  for (int k = 0; k < l->nxs; k++) l->args[n++] = rows[k];
  for (int k = 0; k < l->noperands; k++) l->args[n++] = solid(l->c, l->ncarried + l->nxs + k);
  cni_ox_write_graph(l->c->x, l->body, l->args, l->results);
}

/* Rows as the steps gave them: turned round, and zeros where there were fewer steps. */
static cni_oxval stacked(looping *l, cni_oxval v, const cni_oxval *want, bool fewer)
{
  cni_ox *x = l->c->x;
  if (l->reverse) v = cni_ox_slice(x, v, 0, cni_ox_whole(-1), cni_ox_absent(), -1);
  v = cni_ox_shaped(v, want->ndim, want->shape, want->open | 1);
  if (!fewer || x->failed) return v;
  cni_oxval sizes[CN_MAX_DIMS];
  for (int k = 0; k < want->ndim; k++) sizes[k] = cni_ox_size(x, *want, k);
  sizes[0] = cni_ox_math(x, "Sub", cni_ox_whole(l->length), cni_ox_size(x, v, 0));
  cni_oxval rest = cni_ox_cast(x, cni_ox_full(x, CN_F32, want->ndim, sizes, 0), v.dtype);
  return cni_ox_concat(x, 2, (cni_oxval[]){v, rest}, 0);
}

/* The graph of Loop: (step, goes on, carried, count) -> (goes on, carried, count, rows). */
static int loop_graph(looping *l)
{
  cni_ox *x = l->c->x;
  int graph = cni_ox_graph_begin(x), n = 0;
  cni_oxval *in = l->inner, *out = in + 2 + l->ncarried + l->counted, rows[32];
  if (l->nxs > 32) cni_ox_fail(x, CN_ERR_UNSUPPORTED, "a loop over more than 32 tensors");
  in[n++] = cni_ox_fresh(x, CN_I64, 0, NULL, 0);
  in[n++] = cni_ox_fresh(x, CN_BOOL, 0, NULL, 0);
  for (int k = 0; k < l->ncarried + l->counted; k++, n++)
    in[n] = cni_ox_fresh(x, l->in[2 + k].dtype, l->in[2 + k].ndim, l->in[2 + k].shape, l->in[2 + k].open);
  cni_oxval at = in[0];
  if (l->reverse)
    at = cni_ox_binary(x, "Sub", cni_ox_binary(x, "Sub", l->steps, cni_ox_const(x, cni_ox_whole(1), CN_I64)), at);
  for (int k = 0; k < l->nxs && !x->failed; k++) rows[k] = row_of(x, solid(l->c, l->ncarried + k), at);
  body_of(l, in + 2, rows);
  int m = 0;
  out[m++] = goes_on(l, l->results);
  for (int k = 0; k < l->ncarried && !x->failed; k++) out[m++] = l->results[k];
  if (l->counted) out[m++] = cni_ox_binary(x, "Add", in[0], cni_ox_const(x, cni_ox_whole(1), CN_I64));
  for (int k = 0; k < l->nys && !x->failed; k++) out[m++] = l->results[l->ncarried + k];
  if (!x->failed) cni_ox_graph_end(x, graph, n, in, m, out);
  return graph;
}

static void write_loop(looping *l)
{
  cni_oxcall *c = l->c;
  cni_ox *x = c->x;
  int n = 2;
  for (int k = 0; k < l->ncarried; k++) l->in[n++] = solid(c, k);
  if (l->counted) l->in[n++] = cni_ox_const(x, cni_ox_whole(0), CN_I64);
  l->in[0] = l->steps;
  l->in[1] = goes_on(l, l->in + 2);
  int graph = x->failed ? 0 : loop_graph(l);
  int nout = l->ncarried + l->counted + l->nys;
  for (int k = 0; k < l->ncarried + l->counted; k++) l->out[k] = l->in[2 + k];
  for (int k = 0; k < l->nys; k++) l->out[l->ncarried + l->counted + k] = c->out[l->ncarried + k];
  if (x->failed) return;
  cni_ox_graph(x, "body", graph);
  cni_ox_node(x, "Loop", n, l->in, nout, l->out);
  bool fewer = l->cond || l->steps.number || cni_ox_there(&c->in[c->nin - 1]);
  for (int k = 0; k < l->ncarried; k++) cni_ox_give(c, k, l->out[k]);
  for (int k = 0; k < l->nys; k++)
    cni_ox_give(c, l->ncarried + k,
                stacked(l, l->out[l->ncarried + l->counted + k], &c->out[l->ncarried + k], fewer));
  if (!l->counted) return;
  cni_oxval count = l->out[l->ncarried];
  cni_ox_give(c, c->nout - 1, c->out[c->nout - 1].ndim ? cni_ox_reshape_like(x, count, c->out[c->nout - 1]) : count);
}

/* As many steps as there are rows: Scan. */
static void write_scan(looping *l)
{
  cni_oxcall *c = l->c;
  cni_ox *x = c->x;
  int n = l->ncarried + l->nxs, nout = l->ncarried + l->nys;
  int64_t back[32];
  if (n > 32 || nout > 32) return (void)cni_ox_fail(x, CN_ERR_UNSUPPORTED, "a loop over more than 32 tensors");
  for (int k = 0; k < 32; k++) back[k] = 1;
  int graph = cni_ox_graph_begin(x);
  for (int k = 0; k < n; k++) {
    cni_oxval v = l->in[k] = solid(c, k);
    bool row = k >= l->ncarried;
    l->inner[k] = cni_ox_fresh(x, v.dtype, v.ndim - row, v.shape + row, v.open >> row);
  }
  body_of(l, l->inner, l->inner + l->ncarried);
  if (!x->failed) cni_ox_graph_end(x, graph, n, l->inner, nout, l->results);
  if (x->failed) return;
  cni_ox_int(x, "num_scan_inputs", l->nxs);
  if (l->reverse) cni_ox_ints(x, "scan_input_directions", back, l->nxs);
  if (l->reverse && l->nys) cni_ox_ints(x, "scan_output_directions", back, l->nys);
  cni_ox_graph(x, "body", graph);
  cni_ox_node(x, "Scan", n, l->in, nout, c->out);
}

static void loop(looping *l, bool scan)
{
  cni_oxcall *c = l->c;
  size_t part = (size_t)(c->nin + c->nout + 6), bytes = 6 * part * sizeof(cni_oxval);
  cni_oxval *room = cn_alloc_zero(bytes);
  if (!room) {
    c->x->failed = true;
    return;
  }
  l->nys = (int)cn_graph_outputs(l->body) - l->ncarried;
  l->args = room, l->results = l->args + part, l->in = l->results + part;
  l->out = l->in + part, l->inner = l->out + part;
  if (scan) write_scan(l);
  else write_loop(l);
  cn_free(room, bytes);
}

static void counted_loop(looping *l, int steps_at)
{
  cni_oxcall *c = l->c;
  cni_ox *x = c->x;
  cni_oxval given = steps_at >= 0 ? c->in[c->nin - 1] : cni_ox_absent();
  cni_oxval length = cni_ox_const(x, cni_ox_whole(l->length), CN_I64);
  l->steps = length;
  if (cni_ox_there(&given)) {
    given = scalar(x, given, CN_I64);
    cni_oxval none = cni_ox_const(x, cni_ox_whole(0), CN_I64);
    l->steps = cni_ox_binary(x, "Min", cni_ox_binary(x, "Max", given, none), length);
  }
  loop(l, !cni_ox_there(&given) && l->nxs);
}

bool cni_ox_control(cni_oxcall *c, const cn_graph_node *n)
{
  looping l = {.c = c, .body = n->nsubs ? n->subs[n->nsubs - 1] : NULL, .steps = cni_ox_absent()};
  if (!n->nsubs) return false;
  if (!strcmp(n->name, "cond")) {
    branch(c, n);
  } else if (!strcmp(n->name, "while")) {
    l.cond = n->subs[0], l.ncarried = c->args[0].n, l.noperands = c->args[1].n, l.length = cni_oxarg_int(c, 2);
    l.counted = l.length > 0;
    if (l.counted) l.steps = cni_ox_const(c->x, cni_ox_whole(l.length), CN_I64);
    loop(&l, false);
  } else if (!strcmp(n->name, "scan")) {
    l.ncarried = c->args[0].n, l.nxs = c->args[1].n, l.noperands = c->args[2].n, l.length = cni_oxarg_int(c, 4);
    l.reverse = cni_oxarg_int(c, 5);
    counted_loop(&l, 3);
  } else if (!strcmp(n->name, "map")) {
    l.nxs = c->args[0].n, l.noperands = c->args[1].n, l.length = cni_oxarg_int(c, 2);
    counted_loop(&l, -1);
  } else {
    cni_ox_fail(c->x, CN_ERR_UNSUPPORTED, "%s: it has no form in ONNX", n->name);
  }
  return true;
}
