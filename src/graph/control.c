/* control.c: what control nodes take and make, and whether their sub-graphs fit. See control.h.
 *
 * Place in the flow: infer.c asks here for the types of a control node's results, verify.c whether what it holds is
 * sound, passes what flags it has. Invariant: everything follows from the node, its arguments and its sub-graphs' first
 * and last values; nothing of a run is known here. */
#include "control.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "tensor/tensor.h"

/* ---- rows: no programs call these by name, so they are not in the table of ops ---- */

static const cn_op rows[CNI_CONTROL_COUNT] = {
  {.sig = "cond(Tensor pred, Tensor[] operands) -> Tensor[] ; internal", .doc = "One of two sub-graphs.",
   .flags = CN_OP_NO_GRAD},
  {.sig = "while(Tensor[] carried, Tensor[] operands, int max_steps=0) -> Tensor[] ; internal",
   .doc = "A sub-graph as long as another one says so.", .flags = CN_OP_NO_GRAD},
  {.sig = "scan(Tensor[] carried, Tensor[] xs, Tensor[] operands, Tensor? steps, int length, bool reverse=False, "
          "bool countdown=False) -> Tensor[] ; internal",
   .doc = "A sub-graph for each row, one after the other.", .flags = CN_OP_NO_GRAD},
  {.sig = "map(Tensor[] xs, Tensor[] operands, int length) -> Tensor[] ; internal",
   .doc = "A sub-graph for each row.", .flags = CN_OP_NO_GRAD},
  {.sig = "host_call(Tensor[] inputs) -> Tensor[] ; internal", .doc = "A C function.",
   .flags = CN_OP_NO_GRAD | CN_OP_EFFECTS},
};

static cni_opinfo infos[CNI_CONTROL_COUNT]; /* params NULL: not read yet */

const cni_opinfo *cni_control_op(cni_control_kind kind)
{
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  cni_opinfo *info = &infos[kind];
  pthread_mutex_lock(&lock);
  if (!info->params && !cni_signature_parse(info, rows[kind].sig)) {
    info->row = &rows[kind];
    info->id = -1 - (int)kind;
  }
  pthread_mutex_unlock(&lock);
  return info->params ? info : NULL;
}

cni_control_kind cni_control_of(const cni_opinfo *info)
{
  return info >= infos && info < infos + CNI_CONTROL_COUNT ? (cni_control_kind)(info - infos) : CNI_CONTROL_NONE;
}

const cni_opinfo *cni_graph_op(const char *name)
{
  size_t n = strlen(name);
  for (int i = 0; i < CNI_CONTROL_COUNT; i++)
    if (!strncmp(rows[i].sig, name, n) && rows[i].sig[n] == '(') return cni_control_op((cni_control_kind)i);
  return cni_op_by_name(name);
}

/* ---- shapes of nodes ---- */

void cni_control_read(cni_control *c, const cni_gnode *n, const cn_value *args)
{
  *c = (cni_control){.kind = cni_control_of(n->info), .steps = -1};
  switch (c->kind) {
  case CNI_CONTROL_COND:
    c->first = 1;
    c->noperands = args[1].n;
    break;
  case CNI_CONTROL_WHILE:
    c->ncarried = args[0].n;
    c->noperands = args[1].n;
    c->length = args[2].u.i;
    break;
  case CNI_CONTROL_SCAN:
    c->ncarried = args[0].n;
    c->nxs = args[1].n;
    c->noperands = args[2].n;
    if (args[3].tag == CN_V_TENSOR) c->steps = n->nin - 1;
    c->length = args[4].u.i;
    c->reverse = args[5].u.i != 0;
    c->countdown = args[6].u.i != 0;
    break;
  case CNI_CONTROL_MAP:
    c->nxs = args[0].n;
    c->noperands = args[1].n;
    c->length = args[2].u.i;
    break;
  default: c->noperands = n->nin;
  }
}

static int nsubs_of(cni_control_kind kind)
{
  static const int count[CNI_CONTROL_COUNT] = {2, 2, 1, 1, 0};
  return count[kind];
}

/* ---- do sub-graphs fit? ---- */

static const cni_gvalue *input_of(const cn_graph *g, size_t i) { return &g->values[g->inputs[i]]; }
static const cni_gvalue *output_of(const cn_graph *g, size_t i) { return &g->values[g->outputs[i]]; }

static bool same_type(const cni_gvalue *a, const cni_gvalue *b)
{
  return a->dtype == b->dtype && a->device == b->device && cni_same_shape(a->ndim, a->shape, b->ndim, b->shape);
}

static int misfit(const cni_gnode *n, int sub, const char *what, size_t i)
{
  return cni_fail(CN_ERR_SHAPE, "graph: %s: %s %zu of its sub-graph %d is of another type or shape, or is not there",
                  n->info->name, what, i, sub);
}

/* Input `at` of a sub-graph takes the tensor, or, with row, a row of it. */
static bool takes(const cn_graph *sub, size_t at, const cn_tensor *t, bool row)
{
  const cni_gvalue *v = at < sub->ninputs ? input_of(sub, at) : NULL;
  if (!v || !t || (t->d.weak && !v->weak) || t->d.ndim < row) return false;
  return v->dtype == t->d.dtype && v->device == t->d.device &&
         cni_same_shape(v->ndim, v->shape, t->d.ndim - row, t->d.shape + row);
}

/* Inputs of sub-graph k: carried values, rows of xs, operands. */
static int check_inputs(const cni_control *c, const cni_gnode *n, int k, cn_tensor *const *in)
{
  const cn_graph *sub = n->subs[k];
  int count = c->ncarried + c->nxs + c->noperands;
  for (int i = 0; i < count; i++) {
    cn_tensor *t = in[c->first + i];
    bool row = i >= c->ncarried && i < c->ncarried + c->nxs;
    if (!takes(sub, (size_t)i, t, row) || (row && t->d.shape[0] != c->length))
      return misfit(n, k, "input", (size_t)i);
  }
  return sub->ninputs == (size_t)count ? CN_OK : misfit(n, k, "input", (size_t)count);
}

static int check_carried(const cni_control *c, const cni_gnode *n, int k)
{
  const cn_graph *sub = n->subs[k];
  for (int i = 0; i < c->ncarried; i++)
    if ((size_t)i >= sub->noutputs || !same_type(input_of(sub, (size_t)i), output_of(sub, (size_t)i)))
      return misfit(n, k, "output", (size_t)i);
  return CN_OK;
}

static int check_cond(const cni_gnode *n, cn_tensor *const *in)
{
  const cn_graph *a = n->subs[0], *b = n->subs[1];
  if (!in[0] || in[0]->d.numel != 1) return cni_fail(CN_ERR_SHAPE, "graph: cond: its predicate is not one element");
  if (a->noutputs != b->noutputs) return misfit(n, 1, "output", a->noutputs < b->noutputs ? a->noutputs : b->noutputs);
  for (size_t i = 0; i < a->noutputs; i++)
    if (!same_type(output_of(a, i), output_of(b, i))) return misfit(n, 1, "output", i);
  return CN_OK;
}

static int check_while(const cni_control *c, const cni_gnode *n)
{
  const cn_graph *cond = n->subs[0], *body = n->subs[1];
  if (cond->noutputs != 1 || cni_numel(output_of(cond, 0)->ndim, output_of(cond, 0)->shape) != 1)
    return cni_fail(CN_ERR_SHAPE, "graph: while: its condition does not give one element");
  if (c->length < 0 || (!c->length && body->noutputs > (size_t)c->ncarried))
    return cni_fail(CN_ERR_VALUE, "graph: while: rows need a max_steps");
  return CN_OK;
}

static int check_scan(const cni_control *c, cn_tensor *const *in)
{
  const cn_tensor *steps = c->steps >= 0 ? in[c->steps] : NULL;
  if (c->length < 0) return cni_fail(CN_ERR_VALUE, "graph: scan: its length is negative");
  if (c->steps >= 0 && (!steps || steps->d.numel != 1 || steps->d.dtype != CN_I64))
    return cni_fail(CN_ERR_SHAPE, "graph: scan: its count of steps is not one int64");
  return CN_OK;
}

static int check_subs(const cni_control *c, const cni_gnode *n, cn_tensor *const *in)
{
  int status = CN_OK;
  if (n->nsubs != nsubs_of(c->kind))
    return cni_fail(CN_ERR_VALUE, "graph: %s has %d sub-graphs, not %d", n->info->name, nsubs_of(c->kind), n->nsubs);
  for (int k = 0; k < n->nsubs && !status; k++) status = check_inputs(c, n, k, in);
  if (!status && n->nsubs) status = check_carried(c, n, n->nsubs - 1);
  if (status) return status;
  if (c->kind == CNI_CONTROL_COND) return check_cond(n, in);
  if (c->kind == CNI_CONTROL_WHILE) return check_while(c, n);
  return check_scan(c, in);
}

/* ---- types of results ---- */

static int row_spec(cn_spec *s, const cni_gvalue *v, bool stacked, int64_t length)
{
  int lead = stacked ? 1 : 0;
  *s = (cn_spec){.dtype = v->dtype, .ndim = v->ndim + lead, .view_of = -1};
  if (s->ndim > CN_MAX_DIMS) return cni_fail(CN_ERR_SHAPE, "graph: a result would have more than %d dims", CN_MAX_DIMS);
  if (stacked) s->shape[0] = length;
  memcpy(s->shape + lead, v->shape, (size_t)v->ndim * sizeof *s->shape);
  return CN_OK;
}

static int host_specs(cn_spec *spec, cn_device *device, const cni_gnode *n, cn_tensor *const *in)
{
  if (!n->host || n->host->nresults != (size_t)n->nout)
    return cni_fail(CN_ERR_VALUE, "graph: a host call belongs to the process that captured it");
  for (int k = 0; k < n->nout; k++) {
    const cn_host_result *r = &n->host->results[k];
    spec[k] = (cn_spec){.dtype = (int32_t)r->dtype, .ndim = r->ndim, .view_of = -1};
    memcpy(spec[k].shape, r->shape, (size_t)r->ndim * sizeof *r->shape);
  }
  *device = n->nin && in[0] ? in[0]->d.device : CN_CPU;
  return CN_OK;
}

static int loop_specs(cn_spec *spec, const cni_control *c, const cni_gnode *n, const cn_graph *body)
{
  bool counts = c->kind == CNI_CONTROL_WHILE && c->length;
  if ((size_t)n->nout != body->noutputs + counts)
    return cni_fail(CN_ERR_VALUE, "graph: %s: it makes %zu results, not %d", n->info->name, body->noutputs + counts,
                    n->nout);
  bool loop = c->kind != CNI_CONTROL_COND;
  for (size_t i = 0; i < body->noutputs; i++) {
    int status = row_spec(&spec[i], output_of(body, i), loop && i >= (size_t)c->ncarried, c->length);
    if (status) return status;
    if (output_of(body, i)->device != output_of(body, 0)->device)
      return cni_fail(CN_ERR_DEVICE, "graph: %s: its results are on different devices", n->info->name);
  }
  if (counts) spec[body->noutputs] = (cn_spec){.dtype = CN_I64, .view_of = -1};
  return CN_OK;
}

int cni_control_infer(cn_spec *spec, cn_device *device, const cni_gnode *n, const cn_value *args, cn_tensor *const *in)
{
  cni_control c;
  cni_control_read(&c, n, args);
  int status = check_subs(&c, n, in);
  if (status) return status;
  if (c.kind == CNI_CONTROL_HOST) status = host_specs(spec, device, n, in);
  else {
    const cn_graph *body = n->subs[n->nsubs - 1];
    status = loop_specs(spec, &c, n, body);
    *device = body->noutputs ? output_of(body, 0)->device : CN_CPU;
  }
  for (int k = 0; k < n->nout && !status; k++) {
    int64_t numel;
    status = cni_shape_check(n->info->name, spec[k].ndim, spec[k].shape, cni_dtype_size(spec[k].dtype), &numel);
    cni_contiguous_strides(spec[k].ndim, spec[k].shape, spec[k].strides);
    spec[k].has_strides = true;
  }
  return status;
}

/* ---- sub-graphs by themselves ---- */

int64_t cni_graph_draws(const cn_graph *g)
{
  int64_t total = 0;
  for (size_t i = 0; i < g->ndraws; i++) total += g->draws[i].count;
  return total;
}

int64_t cni_control_draws(const cni_gnode *n)
{
  cni_control c;
  int64_t most = 0;
  cni_control_read(&c, n, n->args);
  for (int k = 0; k < n->nsubs; k++) {
    int64_t draws = cni_graph_draws(n->subs[k]);
    if (draws > most) most = draws;
  }
  if (c.kind != CNI_CONTROL_COND && __builtin_mul_overflow(most, c.length, &most)) return INT64_MAX;
  return most;
}

static int verify_sub(const cni_gnode *n, const cn_graph *sub)
{
  const char *what = sub->nstates ? "a state" : sub->nleaves ? "a gradient" : sub->nsizes ? "a size that varies" : NULL;
  for (size_t i = 0; i < sub->ninputs; i++)
    if (sub->input_finals[i] >= 0) what = "a write to an input";
  if (what) return cni_fail(CN_ERR_VALUE, "graph: %s: its sub-graph has %s", n->info->name, what);
  return cn_graph_verify(sub);
}

int cni_control_verify(const cn_graph *g, size_t node)
{
  const cni_gnode *n = &g->nodes[node];
  int status = CN_OK;
  for (int k = 0; k < n->nsubs && !status; k++) status = verify_sub(n, n->subs[k]);
  if (status || !n->nsubs) return status;
  int64_t draws = cni_control_draws(n);
  if (n->nsubs == 2 && cni_control_of(n->info) == CNI_CONTROL_WHILE && n->subs[0]->ndraws)
    return cni_fail(CN_ERR_VALUE, "graph: while: its condition draws random numbers");
  if (cni_control_of(n->info) == CNI_CONTROL_WHILE && !n->args[2].u.i && n->subs[1]->ndraws)
    return cni_fail(CN_ERR_VALUE, "graph: while: random numbers need a max_steps");
  if (draws && (n->draw < 0 || g->draws[n->draw].count < draws))
    return cni_fail(CN_ERR_VALUE, "graph: %s: its draw is not there, or too small", n->info->name);
  return CN_OK;
}

uint32_t cni_node_flags(const cni_gnode *n)
{
  uint32_t flags = n->info->row->flags;
  for (int k = 0; k < n->nsubs; k++)
    for (size_t i = 0; i < n->subs[k]->nnodes; i++)
      flags |= cni_node_flags(&n->subs[k]->nodes[i]) & (CN_OP_CHECKS | CN_OP_EFFECTS);
  return flags;
}

bool cni_subs_same(const cni_gnode *a, const cni_gnode *b)
{
  if (a->nsubs != b->nsubs || a->host != b->host) return false;
  for (int k = 0; k < a->nsubs; k++) {
    char *x = cn_graph_to_string(a->subs[k]), *y = cn_graph_to_string(b->subs[k]);
    bool same = x && y && !strcmp(x, y);
    cn_string_free(x);
    cn_string_free(y);
    if (!same) return false;
  }
  return true;
}
