/* control_wire.c: graphs with other inputs and outputs: what the sub-graphs of one node take and give must agree.
 *
 * Place in the flow: control_capture.c, control_cond.c and control_loop.c say which value stands where. Invariant: a
 * value that a graph has not got is an input that nobody reads, or zeros. */
#include <cairn/ops.h>
#include <string.h>

#include "control.h"
#include "graph/extract.h"
#include "graph/passes/passes.h"

cn_graph_value cni_type_of(const cn_graph *g, int value)
{
  const cni_gvalue *v = &g->values[value];
  cn_graph_value type = {(cn_dtype)v->dtype, v->device, v->ndim, {0}};
  memcpy(type.shape, v->shape, (size_t)v->ndim * sizeof *v->shape);
  return type;
}

cn_graph_value cni_type_of_tensor(const cn_tensor *t)
{
  cn_graph_value type = {(cn_dtype)t->d.dtype, t->d.device, t->d.ndim, {0}};
  memcpy(type.shape, t->d.shape, (size_t)t->d.ndim * sizeof *type.shape);
  return type;
}

int cni_carried_fits(const char *who, size_t i, const cn_graph_value *had, const cn_graph_value *made)
{
  char have[CNI_SHAPE_TEXT], other[CNI_SHAPE_TEXT];
  if (cni_type_same(had, made)) return CN_OK;
  return cni_fail(CN_ERR_SHAPE, "%s: carried value %zu is %s %s, and a step makes it %s %s", who, i,
                  cn_dtype_name(had->dtype), cni_shape_text(have, sizeof have, had->ndim, had->shape),
                  cn_dtype_name(made->dtype), cni_shape_text(other, sizeof other, made->ndim, made->shape));
}

bool cni_type_same(const cn_graph_value *a, const cn_graph_value *b)
{
  return a->dtype == b->dtype && a->device == b->device && cni_same_shape(a->ndim, a->shape, b->ndim, b->shape);
}

cni_wire cni_wire_of(const cn_graph *g, int value) { return (cni_wire){value, cni_type_of(g, value), false}; }

cn_tensor *cni_zeros_typed(const cn_graph_value *type, int64_t rows)
{
  int64_t shape[CN_MAX_DIMS + 1] = {rows};
  size_t lead = rows >= 0 ? 1 : 0;
  memcpy(shape + lead, type->shape, (size_t)type->ndim * sizeof *shape);
  cn_zeros_opts o = {.size = sizeof o, .dtype = type->dtype, .device = type->device};
  return cn_zeros_with(shape, (size_t)type->ndim + lead, &o);
}

/* A node that makes zeros; its value, negative on failure. */
static int add_zeros(cn_graph *g, const cn_graph_value *type)
{
  const cn_op *op = cn_op_find("full");
  const cn_value args[] = {cn_v_ints(type->shape, (size_t)type->ndim), cn_v_int(0), cn_v_int((int64_t)type->dtype),
                           cn_v_int((int64_t)type->device)};
  int out[1];
  size_t nout = 1;
  int node = cn_graph_add_node(out, &nout, g, op, args, 4, NULL, 0);
  return node < 0 ? node : out[0];
}

static int find_values(cn_graph *g, int *values, const cni_wire *wires, size_t n, bool inputs)
{
  for (size_t i = 0; i < n; i++) {
    const cn_graph_value *t = &wires[i].type;
    values[i] = wires[i].value >= 0 ? wires[i].value
              : inputs ? cn_graph_add_input(g, t->device, t->dtype, t->ndim, t->shape) : add_zeros(g, t);
    if (values[i] < 0) return values[i];
    if (wires[i].weak) g->values[values[i]].weak = true;
  }
  return CN_OK;
}

/* Nodes that read nothing of the inputs that are left out. */
static int mark_nodes(bool *nodes, const cn_graph *g, const int *inputs, size_t n)
{
  bool *absent = cni_alloc_zero(g->nvalues + 1);
  if (!absent) return CN_ERR_MEMORY;
  for (size_t i = 0; i < g->ninputs; i++) absent[g->inputs[i]] = true;
  for (size_t i = 0; i < n; i++) absent[inputs[i]] = false;
  for (size_t i = 0; i < g->nnodes; i++) {
    const cni_gnode *node = &g->nodes[i];
    bool reads = false;
    for (int k = 0; k < node->nin; k++) reads |= node->in[k] >= 0 && absent[node->in[k]];
    for (int k = 0; k < node->nout; k++) absent[node->out[k]] = reads;
    nodes[i] = !reads;
  }
  cni_free(absent, g->nvalues + 1);
  return CN_OK;
}

cn_graph *cni_arrange(cn_graph *g, const cni_wire *in, size_t nin, const cni_wire *out, size_t nout)
{
  int *values = cni_alloc((nin + nout + 1) * sizeof *values);
  int status = values ? find_values(g, values, in, nin, true) : CN_ERR_MEMORY;
  if (!status) status = find_values(g, values + nin, out, nout, false);
  bool *all = status ? NULL : cni_alloc(g->nnodes + 1);
  cn_graph *made = NULL;
  if (all && !mark_nodes(all, g, values, nin)) {
    cni_part part = {all, values, nin, values + nin, nout, false};
    made = cni_graph_extract(g, &part);
  }
  cni_free(all, g->nnodes + 1);
  cni_free(values, (nin + nout + 1) * sizeof *values);
  if (!made || cni_graph_tidy(made) >= 0) return made;
  cn_graph_free(made);
  return NULL;
}

int cni_check_again(const char *who, const cn_graph *g)
{
  for (size_t i = 0; i < g->nnodes; i++)
    if (cni_node_flags(&g->nodes[i]) & CN_OP_EFFECTS)
      return cni_fail(CN_ERR_UNSUPPORTED, "%s: gradients of gradients do not go through it, because what calls the "
                      "host would be computed again", who);
  return CN_OK;
}
