/* shapes.c: what ext/graph.h lets others see of sizes that may differ from run to run: their names and ranges, what
 * follows from them, and the shapes of all values at sizes of the caller's choice.
 *
 * Place in the flow: exporters read by it which sizes to leave open. Invariant: nothing here changes the graph, and no
 * data is read. */
#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "plan.h"

static int give(void *out, const void *full, size_t most)
{
  size_t size;
  memcpy(&size, out, sizeof size);
  if (size < sizeof size) return cni_fail(CN_ERR_VALUE, "graph: the struct's size is not set");
  memcpy((char *)out + sizeof size, (const char *)full + sizeof size, (size < most ? size : most) - sizeof size);
  return CN_OK;
}

size_t cn_graph_sizes(const cn_graph *g) { return g ? g->nsizes : 0; }

int cn_graph_size_at(cn_graph_size *out, const cn_graph *g, int i)
{
  if (!out || !g || i < 0 || (size_t)i >= g->nsizes) return cni_fail(CN_ERR_INDEX, "graph: there is no size %d", i);
  const cni_gsize *z = &g->sizes[i];
  cn_graph_size full = {.name = z->name, .traced = z->traced, .min = z->min, .max = z->max};
  return give(out, &full, sizeof full);
}

int cn_graph_expr_at(cn_graph_expr *out, const cn_graph *g, int i)
{
  if (!out || !g || i < 1 || (size_t)i >= g->exprs.n)
    return cni_fail(CN_ERR_INDEX, "graph: there is no expression %d", i);
  const cni_expr *e = &g->exprs.v[i];
  cn_graph_expr full = {.op = e->op, .a = e->a, .b = e->b, .value = e->value};
  return give(out, &full, sizeof full);
}

int cn_graph_dim_expr(const cn_graph *g, int value, int dim)
{
  if (!g || !cni_is_value(g, value) || dim < 0 || dim >= g->values[value].ndim) return 0;
  return g->values[value].dims[dim];
}

int cn_graph_number_expr(const cn_graph *g, int value)
{
  return g && cni_is_value(g, value) && g->values[value].kind == CNI_VALUE_SCALAR ? g->values[value].expr : 0;
}

int cn_graph_arg_expr(const cn_graph *g, int node, int arg, int element)
{
  if (!g || node < 0 || (size_t)node >= g->nnodes) return 0;
  const cni_gsyms *syms = &g->nodes[node].syms;
  for (size_t i = 0; i < syms->n; i++)
    if (syms->v[i].arg == arg && syms->v[i].element == element) return syms->v[i].expr;
  return 0;
}

/* ---- shapes ---- */

/* What no node makes, at these sizes. Owned; NULL when out of memory. */
static cn_tensor *source(const cn_graph *g, const cni_gvalue *v, const int64_t *values)
{
  int64_t shape[CN_MAX_DIMS], strides[CN_MAX_DIMS];
  if (v->kind == CNI_VALUE_SCALAR) return cni_scalar_at(g, v, values);
  if (v->kind == CNI_VALUE_CONST) return cni_tensor_keep(v->tensor);
  for (int k = 0; k < v->ndim; k++) shape[k] = v->dims[k] ? values[v->dims[k]] : v->shape[k];
  cni_traced_order(v, shape, strides);
  size_t size = cni_dtype_bytes(v->dtype, cni_numel(v->ndim, shape));
  if (v->kind == CNI_VALUE_STATE && g->states[v->index].tensor) return cni_tensor_keep(g->states[v->index].tensor);
  cn_tensor *t = cni_tensor_over(cni_storage_meta(v->device, size, NULL), 0, v->dtype, v->ndim, shape, strides);
  if (t) t->d.weak = v->weak;
  return t;
}

static int infer(cn_tensor **now, const cn_graph *g, const cni_gnode *n, const int64_t *values)
{
  size_t in_bytes = (size_t)(n->nin + 1) * sizeof(cn_tensor *), spec_bytes = (size_t)(n->nout + 1) * sizeof(cn_spec);
  cn_tensor **in = cni_alloc(in_bytes);
  cn_spec *spec = cni_alloc_zero(spec_bytes);
  cn_value *args = in && spec ? cni_args_at(g, n, values) : NULL;
  cn_device device;
  int32_t compute;
  for (int k = 0; k < n->nin && args; k++) in[k] = n->in[k] >= 0 ? now[n->in[k]] : NULL;
  int status = args ? cni_infer_node(spec, &compute, &device, g, n, args, in) : cn_err() ? cn_err() : CN_ERR_MEMORY;
  for (int k = 0; k < n->nout && !status; k++) {
    cn_spec *s = &spec[k];
    const cni_gvalue *v = &g->values[n->out[k]];
    if (v->dims[0] && s->ndim) s->shape[0] = values[v->dims[0]];
    size_t size = cni_dtype_bytes(s->dtype, cni_numel(s->ndim, s->shape));
    now[n->out[k]] =
        cni_tensor_over(cni_storage_meta(device, size, NULL), 0, s->dtype, s->ndim, s->shape, s->strides);
    if (!now[n->out[k]]) status = CN_ERR_MEMORY;
  }
  cni_args_at_free(args);
  cni_free(spec, spec_bytes);
  cni_free(in, in_bytes);
  return status;
}

int cn_graph_shapes(int64_t *shapes, const cn_graph *g, const int64_t *sizes)
{
  if (!shapes || !g || (g->nsizes && !sizes))
    return cni_fail(CN_ERR_VALUE, "graph_shapes: there is no graph, or no room");
  size_t bytes = (g->nvalues + 1) * sizeof(cn_tensor *), number = (g->exprs.n + 1) * sizeof(int64_t);
  cn_tensor **now = cni_alloc_zero(bytes);
  int64_t *values = cni_alloc(number);
  int status = now && values ? CN_OK : CN_ERR_MEMORY;
  if (!status) cni_exprs_values(&g->exprs, sizes, values);
  for (size_t i = 0; i < g->nvalues && !status; i++)
    if (g->values[i].kind != CNI_VALUE_RESULT && !(now[i] = source(g, &g->values[i], values)))
      status = cn_err() ? cn_err() : CN_ERR_MEMORY;
  for (size_t i = 0; i < g->nnodes && !status; i++) status = infer(now, g, &g->nodes[i], values);
  for (size_t i = 0; i < g->nvalues && !status; i++)
    for (int k = 0; now[i] && k < now[i]->d.ndim; k++) shapes[i * CN_MAX_DIMS + (size_t)k] = now[i]->d.shape[k];
  for (size_t i = 0; i < g->nvalues && now; i++) cni_tensor_release(now[i]);
  cni_free(values, number);
  cni_free(now, bytes);
  return status;
}
