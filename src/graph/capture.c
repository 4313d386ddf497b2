/* capture.c: the capture mode: ops record a node instead of running, and their results have a shape but no memory.
 *
 * Place in the flow: the last mode of apply, below autograd, so that backward passes and in-place updates are
 * captured like everything else. Writes become new values: each memory has a present value and a count of writes; a
 * view that was made before a write is made anew from its base when it is read, and a write through a view is
 * scattered into the base. Invariant: nothing outside is changed by a capture except write counts; external tensors
 * become states. */
#include "capture.h"

#include <cairn/autograd.h>
#include <string.h>

#include "base/dtype.h"
#include "ops/api.gen.h"
#include "ops/families.h"
#include "tensor/tensor.h"

/* ---- handles ---- */

static void tag(const cni_capture *cap, cn_tensor *t, int value, uint64_t writes)
{
  t->value = cap->serial << 32 | (uint32_t)(value + 1);
  t->value_version = writes;
}
static int tagged_value(const cni_capture *cap, const cn_tensor *t)
{
  return t->value >> 32 == cap->serial ? (int)(uint32_t)t->value - 1 : -1;
}

cn_tensor *cni_capture_handle(const cni_capture *cap, cn_device device, int dtype, int ndim, const int64_t *shape,
                              const int64_t *strides, int value)
{
  size_t size = cni_dtype_bytes(dtype, cni_numel(ndim, shape));
  cn_tensor *t = cni_tensor_over(cni_storage_meta(device, size, cap->live), 0, dtype, ndim, shape, strides);
  if (t) tag(cap, t, value, 0);
  return t;
}

bool cni_capture_has(cni_capture *cap, const cn_tensor *t)
{
  if (tagged_value(cap, t) >= 0) return true;
  for (size_t i = 0; i < cap->nmemories; i++)
    if (cap->memories[i].storage == t->storage) return true;
  return false;
}

/* ---- memories ---- */

static cni_memory_record *find_memory(cni_capture *cap, const cni_storage *s)
{
  for (size_t i = cap->nmemories; i-- > 0;)
    if (cap->memories[i].storage == s) return &cap->memories[i];
  return NULL;
}

static cni_memory_record *add_memory(cni_capture *cap, cn_tensor *root, int value, int state)
{
  if (cni_grow((void **)&cap->memories, &cap->memories_cap, cap->nmemories + 1, sizeof *cap->memories)) return NULL;
  cn_tensor *alias = cni_tensor_alias(root);
  if (!alias) return NULL;
  cni_memory_record *m = &cap->memories[cap->nmemories++];
  *m = (cni_memory_record){cni_storage_keep(root->storage), alias, value, state, 0};
  return m;
}

cn_tensor *cni_root_of(cn_tensor *t)
{
  while (t->view) t = t->view->parent;
  return t;
}

static int add_state(cni_capture *cap, cn_tensor *t)
{
  cn_graph *g = cap->g;
  cni_gvalue v = {.kind = CNI_VALUE_STATE, .dtype = t->d.dtype, .ndim = t->d.ndim, .device = t->d.device,
                  .index = (int32_t)g->nstates};
  memcpy(v.shape, t->d.shape, (size_t)t->d.ndim * sizeof *v.shape);
  memcpy(v.strides, t->d.strides, (size_t)t->d.ndim * sizeof *v.strides);
  v.has_strides = !cni_is_contiguous(t->d.ndim, t->d.shape, t->d.strides);
  if (cni_grow((void **)&g->states, &g->states_cap, g->nstates + 1, sizeof *g->states)) return CN_ERR_MEMORY;
  int value = cni_graph_add_value(g, &v);
  if (value >= 0)
    g->states[g->nstates++] = (cni_gstate){cni_tensor_keep(t), value, -1, NULL, cn_needs_grad(t) && cn_is_leaf(t)};
  return value;
}

static int of_another_capture(void)
{
  return cni_fail(CN_ERR_CAPTURE, "capture: a tensor of another capture is used");
}

/* The record of t's memory; external memory is made a state. NULL with the error set. */
static cni_memory_record *memory_of(cni_capture *cap, cn_tensor *t)
{
  cni_memory_record *m = find_memory(cap, t->storage);
  if (m) return m;
  cn_tensor *root = cni_root_of(t);
  int value = tagged_value(cap, root);
  if (value >= 0) return add_memory(cap, root, value, -1);
  if (!root->storage->data && root->d.numel) return of_another_capture(), NULL;
  if ((value = add_state(cap, root)) < 0) return NULL;
  return add_memory(cap, root, value, (int)cap->g->nstates - 1);
}

int cni_capture_place_read(cn_tensor *t)
{
  const cni_capture *cap = cni_capturing();
  if (!cap || !cap->parts) return CN_OK;
  int value = tagged_value(cap, cni_root_of(t));
  const cni_gvalue *v = value < 0 ? NULL : &cap->g->values[value];
  if (!v || v->kind != CNI_VALUE_INPUT || !cap->parts[v->index]) return CN_OK;
  return cni_fail(CN_ERR_CAPTURE, "capture: input %d is a part of a larger tensor, and as_strided counts from where "
                                  "that begins", v->index);
}

/* ---- values ---- */

static int scalar_value(cni_capture *cap, const cn_tensor *t)
{
  cn_graph *g = cap->g;
  cni_gvalue v = {.kind = CNI_VALUE_SCALAR, .dtype = t->d.dtype, .device = CN_CPU, .weak = true};
  if (!t->d.data) return of_another_capture();
  if (t->d.dtype == CN_F64) memcpy(&v.number, t->d.data, sizeof v.number);
  else if (t->d.dtype == CN_BOOL) v.integer = *(const uint8_t *)t->d.data;
  else memcpy(&v.integer, t->d.data, sizeof v.integer);
  return cni_graph_add_value(g, &v);
}

static bool same_geometry(const cn_tensor *a, const cn_tensor *b)
{
  return a->offset == b->offset && a->d.dtype == b->d.dtype && cni_same_layout(&a->d, &b->d);
}

/* Has the program switched gradients off? Functions with a backward of their own, and the capture itself, do it, too,
 * which says nothing about what goes through. */
static bool switched_off(const cni_capture *cap)
{
  if (!cap->grad || cap->own || !cni_state()->no_grad) return false;
  for (size_t i = 0; i < cap->nopen; i++) {
    const cni_gscope *s = &cap->g->scopes[cap->open[i]];
    if (!s->op && (!strcmp(s->kind, CNI_SCOPE_FUNCTION) || !strcmp(s->kind, CNI_SCOPE_CHECKPOINT))) return false;
  }
  return true;
}

/* Or nothing: whoever goes on after a failure finds a sound graph. */
int cni_capture_call(cni_capture *cap, const cni_opinfo *info, const cn_value *args, int nargs, const int *in, int nin,
                     const cn_desc *results, int nout)
{
  cn_graph *g = cap->g;
  size_t nvalues = g->nvalues;
  int node = cni_graph_add_node(g, info, args, nargs, in, nin, nout);
  for (int i = 0; node >= 0 && i < nout; i++)
    if (cni_graph_add_result(g, node, i, &results[i]) < 0) {
      cni_gnode_free(&g->nodes[--g->nnodes]);
      g->nvalues = nvalues;
      return CN_ERR_MEMORY;
    }
  if (node < 0) return node;
  g->nodes[node].scope = cni_scope_now(cap);
  g->nodes[node].quiet = switched_off(cap);
  return node;
}

/* Records the view that made t, on its parent's present value. */
static int view_value(cni_capture *cap, cn_tensor *t)
{
  int parent = cni_capture_value(cap, t->view->parent);
  if (parent < 0) return parent;
  int node = cni_capture_call(cap, cni_op_info(t->view->op), t->view->args, t->view->nargs, &parent, 1, &t->d, 1);
  return node < 0 ? node : cap->g->nodes[node].out[0];
}

int cni_capture_value(cni_capture *cap, cn_tensor *t)
{
  int value = tagged_value(cap, t);
  if (t->d.weak) return value >= 0 ? value : scalar_value(cap, t); /* an input, or part of the graph */
  if (value < 0 && cni_leaf_met(cap, t)) return cn_err();
  cni_memory_record *m = find_memory(cap, t->storage);
  if (value >= 0 && t->value_version == (m ? m->writes : 0)) return value;
  if (t->view) {
    if (!(m = memory_of(cap, t))) return cn_err();
    uint64_t writes = m->writes;
    if ((value = view_value(cap, t)) >= 0 && tagged_value(cap, t) >= 0) tag(cap, t, value, writes);
    return value;
  }
  if (!(m = memory_of(cap, t))) return cn_err();
  if (same_geometry(t, m->root)) return m->value;
  if (m->state < 0 || m->writes)
    return cni_fail(CN_ERR_CAPTURE,
                    "capture: a tensor shares memory that the captured code writes to in a way that is "
                    "not recorded as a view");
  return add_state(cap, t);
}

/* Code that records gradients reads what was made while they were switched off: the graph says so by a detach, so that
 * none goes through when it is replayed. */
int cni_capture_read(cni_capture *cap, cn_tensor *t)
{
  cn_graph *g = cap->g;
  int value = cni_capture_value(cap, t);
  if (value < 0 || cni_state()->no_grad || !cni_dtype_is_inexact(t->d.dtype)) return value;
  const cni_gvalue *v = &g->values[value];
  if (v->kind != CNI_VALUE_RESULT || !g->nodes[v->node].quiet || cn_needs_grad(t)) return value;
  cn_value arg = {CN_V_TENSOR, 1, {0}};
  int node = cni_capture_call(cap, cni_ops[CNI_OP_detach], &arg, 1, &value, 1, &t->d, 1);
  return node < 0 ? node : g->nodes[node].out[0];
}

int cni_capture_now(const cni_capture *cap, int input)
{
  for (size_t i = 0; i < cap->nmemories; i++)
    if (cap->memories[i].state < 0 && tagged_value(cap, cap->memories[i].root) == input) return cap->memories[i].value;
  return input;
}

int cni_capture_saves(cn_tensor *alias, cn_tensor *view)
{
  cni_capture *cap = cni_capturing();
  int value = cni_capture_value(cap, view);
  if (value < 0) return cn_err();
  const cni_memory_record *m = find_memory(cap, view->storage);
  tag(cap, alias, value, m ? m->writes : 0);
  return CN_OK;
}

void cni_capture_hooked(void) { cni_capturing()->hooked = true; }

int cni_capture_known(cni_capture *cap, cn_tensor *t)
{
  int value = tagged_value(cap, t);
  if (t->d.weak) return value >= 0 ? value : scalar_value(cap, t);
  const cni_memory_record *m = find_memory(cap, t->storage);
  if (value >= 0) return t->value_version == (m ? m->writes : 0) ? value : -1;
  return m && !m->writes && same_geometry(t, m->root) ? m->value : -1;
}

cn_tensor *cn_trace_first(cn_tensor *t)
{
  cni_capture *cap = cni_capturing();
  cni_memory_record *m = cap && t && !t->view ? memory_of(cap, t) : NULL;
  if (!m || m->state < 0 || !same_geometry(t, m->root)) {
    if (!cn_err()) cni_fail(CN_ERR_CAPTURE, "trace_first: nothing is traced, or it is no tensor from outside");
    return NULL;
  }
  return cni_scope_add(cni_capture_handle(cap, t->d.device, t->d.dtype, t->d.ndim, t->d.shape, t->d.strides,
                                          cap->g->states[m->state].value));
}

/* ---- writes ---- */

/* The handle's present value as a tensor without history, for scatter rules; owned by the scope. */
static cn_tensor *present(cni_capture *cap, cn_tensor *t)
{
  int value = cni_capture_value(cap, t);
  if (value < 0) return NULL;
  return cni_scope_add(cni_capture_handle(cap, t->d.device, t->d.dtype, t->d.ndim, t->d.shape, t->d.strides, value));
}

/* The root's value after t became `value`: scattered upwards view by view. */
static int scattered(cni_capture *cap, cn_tensor *t, int value)
{
  cn_tensor *src = cni_scope_add(
    cni_capture_handle(cap, t->d.device, t->d.dtype, t->d.ndim, t->d.shape, t->d.strides, value));
  for (; src && t->view; t = t->view->parent) {
    const cni_view *v = t->view;
    cn_call call = {.op = v->op, .args = v->args, .nargs = v->nargs, .device = t->d.device};
    if (!v->op->scatter)
      return cni_fail(CN_ERR_CAPTURE, "capture: writing through %s is not possible", cni_op_info(v->op)->name);
    cn_tensor *base = present(cap, v->parent);
    src = base ? v->op->scatter(&call, base, src) : NULL;
  }
  return src ? cni_capture_value(cap, src) : cn_err();
}

static int write_value(cni_capture *cap, cn_tensor *dest, int value)
{
  cn_state *st = cni_state();
  bool no_grad = st->no_grad;
  size_t depth = cni_scope_push();
  st->no_grad = true;
  cap->own += !no_grad;
  int whole = memory_of(cap, dest) && !cni_storage_settle(dest->storage) ? scattered(cap, dest, value) : cn_err();
  st->no_grad = no_grad;
  cap->own -= !no_grad;
  cni_scope_pop(depth);
  if (whole < 0) return whole;
  cni_memory_record *m = find_memory(cap, dest->storage);
  if (!dest->view && !same_geometry(dest, m->root))
    return cni_fail(CN_ERR_CAPTURE, "capture: a write to memory that is shared without a recorded view");
  m->value = whole;
  m->writes++;
  cap->writes += m->state >= 0;
  if (m->state >= 0) cap->g->states[m->state].final = whole;
  else tag(cap, dest, value, m->writes);
  cni_count_write(dest);
  return CN_OK;
}

/* ---- the mode ---- */

static void spec_desc(cn_desc *d, const cn_call *c, int i)
{
  const cn_spec *s = &c->spec[i];
  d->dtype = s->dtype;
  d->ndim = s->ndim;
  d->device = c->device;
  memcpy(d->shape, s->shape, (size_t)s->ndim * sizeof *d->shape);
  if (s->has_strides || s->view_of >= 0) memcpy(d->strides, s->strides, (size_t)s->ndim * sizeof *d->strides);
  else cni_contiguous_strides(s->ndim, s->shape, d->strides);
}

/* Records the call; its node, negative on failure. */
static int record(cni_capture *cap, const cni_applying *a)
{
  const cn_call *c = &a->c;
  cn_desc results[CNI_MAX_RESULTS];
  int room[64], *in = room, node = 0, draw = -1;
  if (c->nin > 64 && !(in = cni_alloc((size_t)c->nin * sizeof *in))) return CN_ERR_MEMORY;
  for (int i = 0; i < c->nin && node >= 0; i++) {
    in[i] = c->in[i] ? cni_capture_read(cap, c->in[i]) : -1;
    if (c->in[i] && in[i] < 0) node = in[i];
  }
  if (node >= 0 && (a->info->row->flags & CN_OP_RANDOM) && (draw = cni_draw(cap, c)) < 0) node = draw;
  for (int i = 0; i < c->nout; i++) spec_desc(&results[i], c, i);
  if (node >= 0) node = cni_capture_call(cap, a->info, c->args, c->nargs, in, c->nin, results, c->nout);
  if (node >= 0) cap->g->nodes[node].draw = draw;
  if (in != room) cni_free(in, (size_t)c->nin * sizeof *in);
  return node;
}

static int result_handle(cni_capture *cap, cn_call *c, int i, int value)
{
  const cn_spec *s = &c->spec[i];
  if (s->view_of < 0) {
    const int64_t *strides = s->has_strides ? s->strides : NULL;
    c->out[i] = cni_capture_handle(cap, c->device, s->dtype, s->ndim, s->shape, strides, value);
    return c->out[i] ? CN_OK : CN_ERR_MEMORY;
  }
  const cni_memory_record *m = find_memory(cap, c->in[s->view_of]->storage);
  tag(cap, c->out[i], value, m ? m->writes : 0);
  return CN_OK;
}

/* In place: result i (cast to its destination's type) becomes the destination's value. */
static int record_write(cni_capture *cap, cni_applying *a, int i, int value)
{
  cn_tensor *dest = cni_dest(a, i);
  if (a->c.spec[i].dtype != dest->d.dtype) {
    const cni_opinfo *cast = cni_op_by_name("cast");
    cn_value args[2] = {{CN_V_TENSOR, 1, {0}}, cn_v_int(dest->d.dtype)};
    int node = cni_capture_call(cap, cast, args, 2, &value, 1, &dest->d, 1);
    if (node < 0) return CN_ERR_MEMORY;
    value = cap->g->nodes[node].out[0];
  }
  int status = write_value(cap, dest, value);
  if (!status) a->c.out[i] = cni_tensor_keep(dest);
  return status;
}

int cni_capture_mode(cni_applying *a)
{
  cni_capture *cap = cni_capturing();
  cn_call *c = &a->c;
  bool unknown = cni_has_unknown(c);
  int count = -1, begun = unknown ? cni_count_begin(cap, a, &count) : CN_OK;
  if (begun || (unknown && count < 0)) return begun; /* it was made of others */
  int node = record(cap, a), status = node < 0 ? (cn_err() ? cn_err() : CN_ERR_MEMORY) : CN_OK;
  if (unknown && !status) cni_count_end(cap, c, node, count);
  if (!status && c->spec[0].view_of >= 0) status = cni_make_results(c);
  for (int i = 0; i < c->nout && !status; i++) {
    int value = cap->g->nodes[node].out[i];
    status = a->dest ? record_write(cap, a, i, value) : result_handle(cap, c, i, value);
  }
  if (status) cni_drop_results(c);
  return status;
}
