/* infer.c: types of values: what the infer rules say of a graph's nodes at the traced sizes, or at those of a plan.
 *
 * Place in the flow: the verifier compares with what is recorded; building, rewriting and lifting ask for the types of
 * new nodes; plan.c runs the same rule at the sizes it plans for. Invariant: no data is read or written. */
#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "control.h"
#include "ops/program.h"
#include "tensor/tensor.h"

void cni_fill_slots(const cni_opinfo *info, cn_value *args, cn_tensor *const *in)
{
  for (int i = 0, k = 0; i < info->nparams; i++) {
    if (args[i].tag == CN_V_TENSORS) {
      args[i].u.ts = in + k;
      k += args[i].n;
    } else if (info->params[i].type == CNI_T_TENSOR && !info->params[i].list) args[i] = cn_v_tensor(in[k++]);
  }
}

void cni_node_call(cn_call *c, const cn_graph *g, const cni_gnode *n, const cn_value *args, cn_tensor *const *in)
{
  cn_device found = 0;
  for (int k = 0; k < n->nin; k++)
    if (in[k] && !in[k]->d.weak && (!found || in[k]->d.ndim)) found = in[k]->d.device;
  if (!found && n->out[0] >= 0) found = g->values[n->out[0]].device;
  *c = (cn_call){.op = n->info->row, .args = args, .in = in, .nargs = n->nargs, .nin = n->nin, .nout = n->nout,
                 .device = found ? found : CN_CPU};
}

void cni_defaults_begin(cni_defaults *saved, const cn_graph *g, const cni_gnode *n)
{
  cn_state *st = cni_state();
  const cni_gvalue *v = n->out[0] >= 0 ? &g->values[n->out[0]] : NULL;
  *saved = (cni_defaults){st->default_dtype, st->default_device};
  if (!v) return;
  if (cni_dtype_is_float(v->dtype) && cni_dtype_computes(v->dtype)) st->default_dtype = (cn_dtype)v->dtype;
  if (v->device) st->default_device = v->device;
}

void cni_defaults_end(const cni_defaults *saved)
{
  cn_state *st = cni_state();
  st->default_dtype = saved->dtype;
  st->default_device = saved->device;
}

int cni_infer_node(cn_spec *spec, int32_t *compute, cn_device *device, const cn_graph *g, const cni_gnode *n,
                   const cn_value *args, cn_tensor **in)
{
  cn_tensor *out[CNI_MAX_RESULTS] = {NULL};
  cn_value full[CN_MAX_ARGS];
  if (cni_is_control(n)) {
    *compute = 0;
    return cni_control_infer(spec, device, n, args, in);
  }
  cn_call c;
  cni_node_call(&c, g, n, args, in);
  c.out = out;
  c.spec = spec;
  bool composite = cni_is_composite(n->info->row);
  if (composite) {
    memcpy(full, args, sizeof full);
    cni_fill_slots(n->info, full, in);
    c.args = full;
  }
  cni_defaults defaults;
  cni_defaults_begin(&defaults, g, n);
  int status = composite ? cni_capture_infer(&c) : n->info->row->infer(&c);
  cni_defaults_end(&defaults);
  if (status) return status;
  if (c.nout != n->nout) return cni_fail(CN_ERR_INTERNAL, "graph: %s has %d results, not %d", n->info->name, c.nout,
                                         n->nout);
  for (int k = 0; k < n->nout; k++) /* what depends on data is as it was traced */
    if (spec[k].data_dependent && n->out[k] >= 0 && spec[k].ndim) spec[k].shape[0] = g->values[n->out[k]].shape[0];
  for (int k = 0; k < n->nout; k++)
    if (!spec[k].has_strides) cni_contiguous_strides(spec[k].ndim, spec[k].shape, spec[k].strides);
  *compute = c.compute;
  *device = c.device;
  return CN_OK;
}

/* ---- of a whole graph ---- */

cn_tensor *cni_number_tensor(const cni_gvalue *v)
{
  cn_tensor *t = cni_tensor_new(CN_CPU, v->dtype, 0, NULL, NULL);
  if (!t) return NULL;
  t->d.weak = v->weak;
  if (v->dtype == CN_F64) memcpy(t->d.data, &v->number, sizeof v->number);
  else if (v->dtype == CN_BOOL) *(uint8_t *)t->d.data = v->integer != 0;
  else memcpy(t->d.data, &v->integer, sizeof v->integer);
  return t;
}

static cn_tensor *layout(cn_device device, int dtype, int ndim, const int64_t *shape, const int64_t *strides)
{
  size_t size = cni_dtype_bytes(dtype, cni_numel(ndim, shape));
  return cni_tensor_over(cni_storage_meta(device, size, NULL), 0, dtype, ndim, shape, strides);
}

/* A state that is not bound yet: how much memory it will be a part of is not known. */
static cn_tensor *unbound(const cni_gvalue *v)
{
  const size_t much = (size_t)1 << 60;
  return cni_tensor_over(cni_storage_meta(v->device, much, NULL), (int64_t)1 << 50, v->dtype, v->ndim, v->shape, NULL);
}

static bool may_vary(const cni_gvalue *v)
{
  for (int i = 0; v->kind == CNI_VALUE_INPUT && i < v->ndim; i++)
    if (v->dims[i]) return true;
  return false;
}

/* A value that no node makes. */
static int type_source(cni_types *t, const cn_graph *g, int id)
{
  const cni_gvalue *v = &g->values[id];
  cni_gtype *type = &t->v[id];
  cn_tensor *bound = v->kind == CNI_VALUE_STATE ? g->states[v->index].tensor : NULL;
  type->root = id;
  type->varies = may_vary(v);
  if (v->kind == CNI_VALUE_SCALAR) type->handle = cni_number_tensor(v);
  else if (v->kind == CNI_VALUE_CONST) type->handle = cni_tensor_keep(v->tensor);
  else if (v->kind == CNI_VALUE_STATE) type->handle = bound ? cni_tensor_keep(bound) : unbound(v);
  else type->handle = layout(v->device, v->dtype, v->ndim, v->shape, v->has_strides ? v->strides : NULL);
  if (type->handle && v->kind == CNI_VALUE_INPUT) type->handle->d.weak = v->weak;
  return type->handle ? CN_OK : CN_ERR_MEMORY;
}

static int type_results(cni_types *t, const cni_gnode *n, const cn_spec *spec, cn_device device, bool varies)
{
  for (int k = 0; k < n->nout; k++) {
    cni_gtype *type = &t->v[n->out[k]];
    const cn_spec *s = &spec[k];
    cni_tensor_release(type->handle);
    *type = (cni_gtype){.root = n->out[k], .varies = varies || s->data_dependent, .counted = s->data_dependent};
    if (s->view_of >= 0) {
      const cni_gtype *of = &t->v[n->in[s->view_of]];
      type->root = of->root;
      type->base = cni_view_at(of->base, of->handle->d.dtype, s->dtype, s->offset);
    }
    type->handle = layout(device, s->dtype, s->ndim, s->shape, s->strides);
    if (!type->handle) return CN_ERR_MEMORY;
  }
  return CN_OK;
}

static int make_room(cni_types *t, const cn_graph *g)
{
  if (cni_grow((void **)&t->v, &t->cap, g->nvalues, sizeof *t->v)) return CN_ERR_MEMORY;
  for (; t->n < g->nvalues; t->n++) t->v[t->n] = (cni_gtype){.root = (int)t->n};
  return CN_OK;
}

static int type_inputs(cni_types *t, const cn_graph *g, const cni_gnode *n, cn_tensor **in, bool *varies)
{
  for (int k = 0; k < n->nin; k++) {
    int v = n->in[k];
    in[k] = NULL;
    if (v < 0) continue;
    if (!t->v[v].handle && g->values[v].kind == CNI_VALUE_RESULT)
      return cni_fail(CN_ERR_INTERNAL, "graph: %s reads a value that is made later", n->info->name);
    if (!t->v[v].handle && type_source(t, g, v)) return CN_ERR_MEMORY;
    in[k] = t->v[v].handle;
    *varies |= t->v[v].varies;
  }
  return CN_OK;
}

int cni_types_of_node(cni_types *t, const cn_graph *g, int node)
{
  const cni_gnode *n = &g->nodes[node];
  cn_tensor *room[64], **in = room;
  cn_value args[CN_MAX_ARGS];
  cn_spec few[CNI_MAX_RESULTS], *spec = few;
  cn_device device;
  int32_t compute;
  bool varies = n->syms.n > 0;
  size_t in_bytes = (size_t)n->nin * sizeof *in, spec_bytes = (size_t)n->nout * sizeof *spec;
  if (make_room(t, g)) return CN_ERR_MEMORY;
  if (n->nin > 64) in = cni_alloc(in_bytes);
  if (n->nout > CNI_MAX_RESULTS) spec = cni_alloc(spec_bytes);
  int status = in && spec ? CN_OK : CN_ERR_MEMORY;
  memset(args, 0, sizeof args);
  if (!status) memset(spec, 0, spec_bytes);
  memcpy(args, n->args, (size_t)n->nargs * sizeof *args);
  if (!status) status = type_inputs(t, g, n, in, &varies);
  if (!status) status = cni_infer_node(spec, &compute, &device, g, n, args, in);
  if (!status) status = type_results(t, n, spec, device, varies);
  if (in != room) cni_free(in, in_bytes);
  if (spec != few) cni_free(spec, spec_bytes);
  return status;
}

int cni_types_fill(cni_types *t, const cn_graph *g)
{
  int status = make_room(t, g);
  for (size_t i = 0; i < g->nvalues && !status; i++)
    if (!t->v[i].handle && g->values[i].kind != CNI_VALUE_RESULT) status = type_source(t, g, (int)i);
  for (size_t i = 0; i < g->nnodes && !status; i++)
    if (!t->v[g->nodes[i].out[0]].handle) status = cni_types_of_node(t, g, (int)i);
  return status;
}

void cni_types_free(cni_types *t)
{
  for (size_t i = 0; i < t->n; i++) cni_tensor_release(t->v[i].handle);
  cni_free(t->v, t->cap * sizeof *t->v);
  *t = (cni_types){NULL, 0, 0};
}

bool cni_same_type(const cni_types *t, int a, int b)
{
  const cn_desc *x = &t->v[a].handle->d, *y = &t->v[b].handle->d;
  return x->dtype == y->dtype && x->device == y->device && x->weak == y->weak && cni_same_layout(x, y);
}

/* ---- formulas ---- */

/* A value as it is recorded, in no memory. Owned. */
static cn_tensor *recorded(const cn_graph *g, int id)
{
  const cni_gvalue *v = &g->values[id];
  if (v->kind == CNI_VALUE_SCALAR) return cni_number_tensor(v);
  cn_tensor *t = layout(v->device, v->dtype, v->ndim, v->shape, NULL);
  if (t) t->d.weak = v->weak;
  return t;
}

static int find_formula(cn_graph_formula *out, const cn_graph *g, const cni_gnode *n, cn_tensor **in)
{
  cn_spec spec[CNI_MAX_RESULTS] = {{0}};
  cn_value args[CN_MAX_ARGS] = {{0}};
  int32_t compute;
  cn_device device;
  cn_call c;
  for (int k = 0; k < n->nin; k++)
    if (n->in[k] >= 0 && !(in[k] = recorded(g, n->in[k]))) return CN_ERR_MEMORY;
  memcpy(args, n->args, (size_t)n->nargs * sizeof *args);
  int status = cni_infer_node(spec, &compute, &device, g, n, args, in);
  if (status) return status;
  cni_node_call(&c, g, n, args, in);
  c.compute = compute;
  const cni_program *p = cni_program_of(&c);
  if (!p) return CN_ERR_VALUE;
  *out = (cn_graph_formula){.size = out->size, .text = p->text, .compute = compute};
  for (int k = 0; k < n->nin && k < 64; k++)
    if (in[k] && cni_program_rounds(&c, k)) out->rounded |= (uint64_t)1 << k;
  return CN_OK;
}

int cn_graph_formula_at(cn_graph_formula *out, const cn_graph *g, int node)
{
  if (!out || out->size < sizeof *out || !g || node < 0 || (size_t)node >= g->nnodes)
    return cni_fail(CN_ERR_INDEX, "graph: there is no node %d, or the struct's size is not set", node);
  const cni_gnode *n = &g->nodes[node];
  if (cni_is_control(n) || (!n->info->row->pointwise && strcmp(n->info->name, "pointwise")))
    return cni_fail(CN_ERR_VALUE, "graph: %s is no formula", n->info->name);
  size_t bytes = (size_t)(n->nin + 1) * sizeof(cn_tensor *);
  cn_tensor **in = cni_alloc_zero(bytes);
  int status = in ? find_formula(out, g, n, in) : CN_ERR_MEMORY;
  for (int k = 0; in && k < n->nin; k++) cni_tensor_release(in[k]);
  if (in) cni_free(in, bytes);
  return status;
}
