/* cost.c: what the nodes of a graph cost, and a call that is not made.
 *
 * Place in the flow: each op's own rule (ops/cost.c) on the types that infer.c finds; what is made of other ops is
 * traced, and its parts are added up. Invariant: nothing is computed; a branch costs what the dearer side does, a loop
 * its steps, a while, whose steps nobody knows, one. */
#include <string.h>

#include "base/alloc.h"
#include "control.h"
#include "ops/cost.h"
#include "ops/families.h"
#include "tensor/tensor.h"

static int sum_of(cn_cost *sum, const cn_graph *g);

static int cost_of_control(cn_cost *cost, const cni_gnode *n)
{
  cni_control c;
  cni_control_read(&c, n, n->args);
  *cost = (cn_cost){.size = sizeof *cost};
  int status = CN_OK;
  bool rows = c.kind == CNI_CONTROL_SCAN || c.kind == CNI_CONTROL_MAP;
  for (int k = 0; k < n->nsubs && !status; k++) {
    cn_cost part;
    if ((status = sum_of(&part, n->subs[k]))) break;
    if (c.kind == CNI_CONTROL_COND && part.flops + part.read + part.written <= cost->flops + cost->read + cost->written)
      continue;
    if (c.kind == CNI_CONTROL_COND) *cost = part;
    else cni_cost_add(cost, &part, rows ? (double)c.length : 1);
  }
  return status;
}

static int cost_of_parts(cn_cost *cost, cn_call *c)
{
  cn_graph *parts = cni_trace_call(c);
  int status = parts ? sum_of(cost, parts) : cn_err();
  cn_graph_free(parts);
  return status;
}

/* in, out, spec: room for the node's tensors and results. */
static int cost_of_call(cn_cost *cost, const cn_graph *g, const cni_types *t, const cni_gnode *n, cn_tensor **in,
                        cn_tensor **out, cn_spec *spec)
{
  cn_value args[CN_MAX_ARGS];
  cn_call c;
  for (int k = 0; k < n->nin; k++) in[k] = n->in[k] >= 0 ? t->v[n->in[k]].handle : NULL;
  memcpy(args, n->args, (size_t)n->nargs * sizeof *args);
  cni_fill_slots(n->info, args, in);
  cni_node_call(&c, g, n, args, in);
  c.out = out;
  c.spec = spec;
  for (int k = 0; k < n->nout; k++) {
    const cn_tensor *made = t->v[n->out[k]].handle;
    spec[k] = (cn_spec){.dtype = made->d.dtype, .ndim = made->d.ndim,
                        .view_of = t->v[n->out[k]].root == n->out[k] ? -1 : 0};
    memcpy(spec[k].shape, made->d.shape, (size_t)made->d.ndim * sizeof *made->d.shape);
    out[k] = NULL;
  }
  c.compute = spec[0].dtype;
  if (n->info->row->flags & CN_OP_COMPOSITE) return cost_of_parts(cost, &c);
  cni_cost(cost, &c);
  return cn_err();
}

static int cost_of_node(cn_cost *cost, const cn_graph *g, const cni_types *t, const cni_gnode *n)
{
  if (cni_is_control(n)) return cost_of_control(cost, n);
  size_t tensors = (size_t)(n->nin + n->nout + 1) * sizeof(cn_tensor *), specs = (size_t)n->nout * sizeof(cn_spec);
  cn_tensor **in = cni_alloc(tensors);
  cn_spec *spec = in ? cni_alloc(specs) : NULL;
  int status = spec ? cost_of_call(cost, g, t, n, in, in + n->nin, spec) : CN_ERR_MEMORY;
  cni_free(spec, specs);
  cni_free(in, tensors);
  return status;
}

int cn_graph_costs(cn_cost *costs, const cn_graph *g)
{
  cni_types types = {NULL};
  if (cn_err()) return cn_err();
  if (!g) return cni_fail(CN_ERR_TYPE, "graph_costs: the graph is NULL");
  int status = cni_types_fill(&types, g);
  for (size_t i = 0; i < g->nnodes && !status; i++) status = cost_of_node(&costs[i], g, &types, &g->nodes[i]);
  cni_types_free(&types);
  return status;
}

static int sum_of(cn_cost *sum, const cn_graph *g)
{
  size_t bytes = (g->nnodes + 1) * sizeof(cn_cost);
  cn_cost *costs = cni_alloc(bytes);
  *sum = (cn_cost){.size = sizeof *sum};
  int status = costs ? cn_graph_costs(costs, g) : CN_ERR_MEMORY;
  for (size_t i = 0; i < g->nnodes && !status; i++) cni_cost_add(sum, &costs[i], 1);
  cni_free(costs, bytes);
  return status;
}

/* ---- a call by itself: a graph of one node ---- */

static int add_operand(cn_graph *g, const cni_opinfo *info, const cn_value *v)
{
  if (v->tag == CN_V_TENSOR) return cn_graph_add_state(g, v->u.t);
  if (v->tag == CN_V_FLOAT || v->tag == CN_V_INT || v->tag == CN_V_BOOL) return cn_graph_add_number(g, *v);
  return cni_fail(CN_ERR_TYPE, "%s: a tensor is missing", info->name);
}

static int add_operands(int *in, cn_value *args, cn_graph *g, const cni_opinfo *info)
{
  int n = 0;
  for (int i = 0; i < info->ntensors; i++) {
    cn_value *v = &args[info->tensors[i]];
    bool list = v->tag == CN_V_TENSORS;
    for (int k = 0; k < (list ? v->n : 1); k++) {
      cn_value one = list ? cn_v_tensor(v->u.ts[k]) : *v;
      in[n++] = one.tag == CN_V_NONE ? -1 : add_operand(g, info, &one);
      if (cn_err()) return cn_err();
    }
    if (list) v->u.ts = NULL;
  }
  return n;
}

static int count_operands(const cni_opinfo *info, const cn_value *args)
{
  int n = 0;
  for (int i = 0; i < info->ntensors; i++)
    n += args[info->tensors[i]].tag == CN_V_TENSORS ? args[info->tensors[i]].n : 1;
  return n;
}

int cn_op_cost(cn_cost *cost, const cn_op *op, const cn_value *args, size_t nargs)
{
  enum { MOST = 64 };
  cn_value full[CN_MAX_ARGS];
  cni_few room[CN_MAX_ARGS];
  int out[MOST];
  size_t nout = MOST;
  if (cn_err()) return cn_err();
  cni_init();
  const cni_opinfo *info = op ? cni_op_info(op) : NULL;
  if (!info) return cni_fail(CN_ERR_UNSUPPORTED, "op_cost: there is no such op");
  int status = cni_complete(info, full, room, args, nargs);
  cn_graph *g = status ? NULL : cn_graph_new();
  size_t bytes = g ? (size_t)(count_operands(info, full) + 1) * sizeof(int) : 0;
  int *in = g ? cni_alloc(bytes) : NULL, n = in ? add_operands(in, full, g, info) : cn_err();
  if (n >= 0) n = cn_graph_add_node(out, &nout, g, op, full, (size_t)info->nparams, in, (size_t)n);
  if (n >= 0) status = sum_of(cost, g);
  cni_free(in, bytes);
  cn_graph_free(g);
  return n < 0 ? n : status;
}
