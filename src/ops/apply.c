/* apply.c: the one entry of every op: gather inputs, infer, modes in fixed order, then memory and kernel.
 *
 * Place in the flow:  api.gen.c -> cni_apply -> [profile autocast autograd check capture] -> cni_run_kernel.
 * Invariants: a failed call leaves no result and changes no tensor's history; the fast path (no mode) allocates
 * nothing but one pooled block per small result; what is rare stands in functions apart, so that it costs nothing. */
#include "apply.h"

#include <cairn/ext/backend.h>
#include <cairn/ops.h>
#include <string.h>

#include "api.gen.h"
#include "autocast.h"
#include "base/dtype.h"
#include "base/hooks.h"
#include "base/limits.h"
#include "batch.h"
#include "complex.h"
#include "families.h"
#include "hot.h"
#include "inplace.h"
#include "profile.h"
#include "sparse.h"

cni_mode_fn cni_mode_handlers[CNI_MODE_COUNT];
int (*cni_run_kernel)(cn_call *call, const cni_opinfo *info);

enum { STACK_INPUTS = 32 };

/* ---- inputs ---- */

/* What stands in args where a tensor does not: a list, nothing, or a mistake. Returns how many are in `in` then. */
static CNI_APART int gather_other(const cni_opinfo *info, const cni_param *p, const cn_value *v, cn_tensor **in, int n)
{
  if (!p->list) {
    if (!p->optional)
      return cni_fail(CN_ERR_TYPE, "%s: tensor argument '%s' is missing (NULL)", info->name, p->name);
    in[n++] = NULL;
    return n;
  }
  for (int k = 0; k < v->n; k++) {
    if (!v->u.ts[k] && !p->elem_optional)
      return cni_fail(CN_ERR_TYPE, "%s: element %d of '%s' is NULL", info->name, k, p->name);
    in[n++] = v->u.ts[k];
  }
  return n;
}

/* Flattens the tensors among args into in, which has room for them all. Returns how many; negative on failure. */
static inline int gather(const cni_opinfo *info, const cn_value *args, cn_tensor **in)
{
  int n = 0;
  for (int i = 0; i < info->ntensors; i++) {
    const cn_value *v = &args[info->tensors[i]];
    if (CNI_LIKELY(v->tag == CN_V_TENSOR)) in[n++] = v->u.t;
    else if ((n = gather_other(info, &info->params[info->tensors[i]], v, in, n)) < 0) break;
  }
  return n;
}

static int count_inputs(const cni_opinfo *info, const cn_value *args)
{
  int n = 0;
  for (int i = 0; i < info->ntensors; i++)
    n += info->params[info->tensors[i]].list ? args[info->tensors[i]].n : 1;
  return n;
}

static bool follows(const cn_tensor *t) { return t->d.weak || (t->d.ndim == 0 && t->d.device == CN_CPU); }

/* Tensors that a captured function left outside have a shape, but never had a value. */
static bool without_value(const cn_tensor *t, const cn_state *st)
{
  return CNI_UNLIKELY(!t->d.data) && t->d.numel && !st->capture && !t->sparse;
}

static int no_value(const cni_applying *a)
{
  for (int i = 0; i <= a->c.nin; i++) {
    const cn_tensor *t = i < a->c.nin ? a->c.in[i] : a->dest;
    if (t && t->batch)
      return cni_fail(CN_ERR_VALUE, "%s: a tensor that stands for one example of a batch was used outside of the vmap "
                      "that made it; return it from the function instead", a->info->name);
  }
  return cni_fail(CN_ERR_CAPTURE, "%s: a tensor has no value: it was made while a graph was captured", a->info->name);
}

static inline bool may_need_grad(const cn_tensor *t)
{
  return t && ((t->view && cni_tensor_stale(t)) || t->node);
}

/* What one look at every input tells. */
typedef struct inputs {
  bool grad;    /* one may need a gradient */
  bool storage; /* one is of a type that only stores numbers */
  bool complex; /* one is complex */
  int sparse;   /* one is sparse */
} inputs;

/* Looks at the inputs, and finds where the call runs: where its tensors are. Numbers, and zero-dimensional host
 * tensors, go along with any device. */
static int look(inputs *found, cni_applying *a, const cn_state *st)
{
  cn_device device = 0, first = 0;
  for (int i = 0; i < a->c.nin; i++) {
    const cn_tensor *t = a->c.in[i];
    if (!t) continue;
    found->sparse |= t->d.layout;
    if (without_value(t, st) && !(t->batch && st->vmap)) return no_value(a);
    found->grad |= may_need_grad(t);
    found->storage |= !cni_dtype_computes(t->d.dtype);
    found->complex |= cni_dtype_is_complex(t->d.dtype);
    if (!first) first = t->d.device;
    if (CNI_LIKELY(t->d.device == device) || follows(t)) continue;
    if (device)
      return cni_fail(CN_ERR_DEVICE, "%s: its tensors are on different devices; move them together with cn_to_device",
                      a->info->name);
    device = t->d.device;
  }
  a->c.device = device ? device : first ? first : st->default_device;
  if (a->dest) found->sparse |= a->dest->d.layout;
  return a->dest && without_value(a->dest, st) && !(a->dest->batch && st->vmap) ? no_value(a) : CN_OK;
}

static bool wants_autograd(const cni_applying *a, const cn_state *st, bool inputs_may)
{
  if (st->no_grad) return false;
  if (a->dest && may_need_grad(a->dest)) return true; /* its history ends here, whatever is written */
  return inputs_may && !(a->info->row->flags & (CN_OP_SHAPE_ONLY | CN_OP_NO_GRAD));
}

/* Types that only store numbers reach kernels of ops that say so. */
static CNI_APART int check_types(const cni_applying *a)
{
  if (a->info->row->flags & (CN_OP_ANY_DTYPE | CN_OP_VIEW)) return CN_OK;
  int i = 0;
  while (i < a->c.nin && (!a->c.in[i] || cni_dtype_computes(a->c.in[i]->d.dtype) ||
                          cni_dtype_is_complex(a->c.in[i]->d.dtype)))
    i++;
  if (i == a->c.nin) return CN_OK;
  return cni_fail(CN_ERR_DTYPE, "%s: %s is for storage only; cast it with cn_cast first", a->info->name,
                  cn_dtype_name((cn_dtype)a->c.in[i]->d.dtype));
}

/* ---- below the modes: memory and kernel ---- */

/* What a detached view may be a view of: t and the views above it, as aliases where they have a history, so that the
 * view keeps memory alive but no record. Owned; NULL when out of memory. */
static cn_tensor *without_history(cn_tensor *t)
{
  cn_tensor *result = NULL, *below = NULL;
  const cni_view *v = NULL; /* below's, in the original */
  for (;;) {
    bool plain = !t->node;
    cn_tensor *a = plain ? cni_tensor_keep(t) : cni_tensor_alias(t);
    int status = !a ? CN_ERR_MEMORY : below ? cni_tensor_set_view(below, a, v->op, v->args, v->nargs) : CN_OK;
    if (!below) result = a;
    else cni_tensor_release(a); /* below keeps it */
    if (status) {
      cni_tensor_release(result);
      return NULL;
    }
    if (plain || !t->view) return result;
    a->detached = true;
    below = a;
    v = t->view;
    t = v->parent;
  }
}

/* Makes result i of a view op: a handle over the input's storage, with its record. */
static CNI_APART int make_view(cn_call *c, int i)
{
  const cn_spec *s = &c->spec[i];
  cn_tensor *of = c->in[s->view_of];
  cn_tensor *t = cni_tensor_over(cni_storage_keep(of->storage),
                                 cni_view_at(of->offset, of->d.dtype, s->dtype, s->offset), s->dtype, s->ndim,
                                 s->shape, s->strides);
  if (!t) return CN_ERR_MEMORY;
  t->inference = of->inference;
  t->detached = cni_state()->no_grad || of->detached || (c->op->flags & CN_OP_NO_GRAD);
  if (CNI_UNLIKELY(of->versions != NULL)) cni_versions_set(t, of);
  atomic_init(&t->node_version, cni_version(of));
  c->out[i] = t;
  if (!t->detached || !of->node || cni_state()->capture)
    return cni_tensor_set_view(t, of, c->op, c->args, c->nargs);
  cn_tensor *parent = without_history(of);
  int status = parent ? cni_tensor_set_view(t, parent, c->op, c->args, c->nargs) : CN_ERR_MEMORY;
  cni_tensor_release(parent);
  return status;
}

static inline int make_result(cn_call *c, int i)
{
  const cn_spec *s = &c->spec[i];
  if (s->data_dependent) return CN_OK;
  if (s->view_of >= 0) return make_view(c, i);
  bool strides = s->has_strides && cni_device_can(c->device, CN_CAN_STRIDES);
  c->out[i] = cni_tensor_new(c->device, s->dtype, s->ndim, s->shape, strides ? s->strides : NULL);
  return c->out[i] ? CN_OK : CN_ERR_MEMORY;
}

int cni_make_results(cn_call *c)
{
  int status = CN_OK;
  for (int i = 0; i < c->nout && !status; i++) status = make_result(c, i);
  return status;
}

void cni_drop_results(cn_call *c)
{
  for (int i = 0; i < c->nout; i++) {
    cni_tensor_release(c->out[i]);
    c->out[i] = NULL;
  }
}

bool cni_copies(const cni_copying *c, const struct cni_storage *s)
{
  for (; c; c = c->around)
    for (int i = 0; i < c->call->nin && i < 16; i++)
      if (c->mask & CN_IN(i) && c->call->in[i] && c->call->in[i]->storage == s) return true;
  return false;
}

/* Runs the op's decomposition; its results become owned. */
static int decompose(cni_applying *a)
{
  size_t depth = cni_scope_push();
  cn_state *st = cni_state();
  cni_copying copying = {st->copying, &a->c, a->info->row->copied};
  if (CNI_UNLIKELY(copying.mask)) st->copying = &copying;
  int status = a->lowered ? a->lowered(&a->c) : a->info->row->decompose(&a->c);
  st->copying = copying.around;
  if (!status && cn_err()) status = cn_err();
  for (int i = 0; i < a->c.nout; i++)
    a->c.out[i] = !status && a->c.out[i] ? cni_scope_take_inside(depth, a->c.out[i]) : NULL;
  cni_scope_pop(depth);
  return status;
}

/* The last implementation of any op: its own decomposition, run without history. What it draws are the numbers that the
 * call took already, as where there is a kernel. */
static CNI_APART int run_decomposed(cni_applying *a)
{
  cn_state *st = cni_state();
  bool no_grad = st->no_grad, draws = (a->info->row->flags & CN_OP_RANDOM) != 0;
  uint64_t seed, after;
  cni_drop_results(&a->c);
  cn_random_state(&seed, &after);
  if (draws) cn_random_set_state(a->c.seed, a->c.offset);
  st->no_grad = true;
  int status = decompose(a);
  st->no_grad = no_grad;
  if (draws) cn_random_set_state(seed, after);
  return status;
}

static int no_kernel(const cni_applying *a)
{
  return cni_fail(CN_ERR_UNSUPPORTED, "%s: no implementation for this call on this device%s%s", a->info->name,
                  a->c.refusal ? ": " : "", a->c.refusal ? a->c.refusal : "");
}

/* For devices that take row-major inputs alone: the others are replaced by copies, which the scope owns. `in` and
 * `args` have room for the call's. copy itself takes any strides everywhere. */
static int make_dense(cn_call *c, const cni_opinfo *info, cn_tensor **in, cn_value *args)
{
  memcpy(in, c->in, (size_t)c->nin * sizeof *in);
  memcpy(args, c->args, (size_t)c->nargs * sizeof *args);
  for (int i = 0; i < c->nin; i++) {
    const cn_tensor *t = in[i];
    if (!t || t->d.device != c->device || cni_is_contiguous(t->d.ndim, t->d.shape, t->d.strides)) continue;
    cn_tensor *dense = cni_tensor_new(c->device, t->d.dtype, t->d.ndim, t->d.shape, NULL);
    if (!dense || cni_copy_elements(dense, in[i]) || !cni_scope_add(dense)) return cn_err();
    in[i] = dense;
  }
  for (int i = 0, k = 0; i < info->ntensors; i++) { /* and where the arguments name them */
    cn_value *v = &args[info->tensors[i]];
    if (v->tag == CN_V_TENSORS) v->u.ts = in + k, k += v->n;
    else *v = cn_v_tensor(in[k++]);
  }
  c->in = in;
  c->args = args;
  return CN_OK;
}

static CNI_APART int run_dense(cni_applying *a)
{
  cn_call *c = &a->c;
  cn_tensor *const *given_in = c->in, *stack[STACK_INPUTS], **in = stack;
  const cn_value *given = c->args;
  cn_value args[CN_MAX_ARGS];
  size_t bytes = (size_t)c->nin * sizeof *in, depth = cni_scope_push();
  if (c->nin > STACK_INPUTS) in = cni_alloc(bytes);
  int status = in ? make_dense(c, a->info, in, args) : CN_ERR_MEMORY;
  if (!status) status = cni_run_kernel(c, a->info);
  c->in = given_in;
  c->args = given;
  if (in != stack) cni_free(in, bytes);
  cni_scope_pop(depth);
  return status;
}

static inline int run_kernel(cni_applying *a)
{
  bool as_they_are = cni_device_can(a->c.device, CN_CAN_STRIDES) || a->info->id == CNI_OP_copy;
  return CNI_LIKELY(as_they_are) ? cni_run_kernel(&a->c, a->info) : run_dense(a);
}

static inline int run_fresh(cni_applying *a)
{
  cn_call *c = &a->c;
  int status = CNI_LIKELY(c->nout == 1) ? make_result(c, 0) : cni_make_results(c);
  if (!status && c->spec[0].view_of < 0) {
    status = run_kernel(a);
    if (status == CN_REFUSED) status = a->info->row->decompose ? run_decomposed(a) : no_kernel(a);
  }
  if (status) cni_drop_results(c);
  return status;
}

int cni_apply_run(cni_applying *a)
{
  cn_state *st = cni_state();
  if (CNI_UNLIKELY(st->nstreams)) a->c.stream = cni_memory.stream(a->c.device);
  if (a->info->row->flags & CN_OP_RANDOM) cni_random_take(&a->c.seed, &a->c.offset, cni_random_draws(&a->c));
  const char *around = st->running; /* ops inside of a decomposition */
  st->running = a->info->name;
  int status = a->dest ? cni_run_inplace(a) : run_fresh(a);
  st->running = around;
  if (CNI_UNLIKELY(!status && st->inference))
    for (int i = 0; i < a->c.nout; i++)
      if (a->c.out[i] && !a->dest) a->c.out[i]->inference = true;
  return status;
}

int cni_apply_next(cni_applying *a)
{
  if (CNI_LIKELY(!a->mask)) return cni_apply_run(a);
  int mode = __builtin_ctz(a->mask);
  a->mask &= a->mask - 1;
  return cni_mode_handlers[mode] ? cni_mode_handlers[mode](a) : cni_apply_next(a);
}

/* ---- composites: decompose above the modes ---- */

/* In graphs what a composite op is made of stands in a scope that knows the call. */
static int decompose_captured(cni_applying *a)
{
  int scope = cni_hooks.scope_call_begin(a->info, &a->c);
  int status = scope < 0 ? scope : cni_hooks.scope_call_end(scope, &a->c, decompose(a));
  if (status) cni_drop_results(&a->c);
  return status;
}

/* A composite op's own results are known by its name. */
static CNI_APART int decompose_named(cni_applying *a)
{
  bool apart = a->lowered || a->info->row->flags & CN_OP_SPARSE; /* the op itself has no such node */
  bool scope = CNI_UNLIKELY(cni_state()->capture != NULL) && !apart;
  int status = scope ? decompose_captured(a) : decompose(a);
  for (int i = 0; !status && i < a->c.nout; i++) {
    struct cni_node *n = a->c.out[i] ? cni_history_of(a->c.out[i])->node : NULL;
    for (int k = 0; n && k < a->c.nin; k++)
      if (a->c.in[k] && cni_history_of(a->c.in[k])->node == n) n = NULL; /* an input as it is */
    if (n) ((cni_node_head *)(void *)n)->call = a->info->row;
  }
  return status;
}

/* Copies the fresh result into dest, through all modes, and makes dest the result. */
static int copy_into(cni_applying *a, int status)
{
  cn_tensor *result = a->c.out[0];
  a->c.out[0] = NULL;
  if (!status) status = cni_copy_op(a->dest, result);
  cni_tensor_release(result);
  if (!status) a->c.out[0] = cni_tensor_keep(a->dest);
  return status;
}

/* In place: the result is copied into dest, which carries the history along. Where gradients are recorded the ops
 * work on a copy of dest, since they may save it. */
static CNI_APART int decompose_into(cni_applying *a, const cn_state *st)
{
  if (a->c.nout != 1) return cni_fail_several(a);
  cn_value args[CN_MAX_ARGS];
  cn_tensor *in[STACK_INPUTS];
  size_t depth = cni_scope_push();
  bool copies = !st->no_grad && may_need_grad(a->dest) && a->c.nin > 0 && a->c.nin <= STACK_INPUTS &&
                a->c.in[0] == a->dest;
  if (copies) {
    memcpy(args, a->c.args, (size_t)a->c.nargs * sizeof *args);
    memcpy(in, a->c.in, (size_t)a->c.nin * sizeof *in);
    in[0] = cn_clone(a->dest);
    args[a->info->tensors[0]] = cn_v_tensor(in[0]);
    a->c.args = args;
    a->c.in = in;
  }
  int status = copies && !in[0] ? cn_err() : decompose(a);
  cni_scope_pop(depth);
  if (status) return status;
  const cn_tensor *result = a->c.out[0];
  if (a->c.nout != 1 || !result) return cni_fail_several(a);
  status = cni_check_dest(a, a->dest, result->d.dtype, result->d.ndim, result->d.shape);
  return copy_into(a, status);
}

/* In place into a sparse tensor. */
static CNI_APART int decompose_into_sparse(cni_applying *a)
{
  size_t depth = cni_scope_push();
  int status = a->c.nout == 1 ? decompose(a) : cni_fail_several(a);
  cn_tensor *result = a->c.out[0];
  a->c.out[0] = NULL;
  if (!status) status = cni_sparse_write(a->info->name, a->dest, result);
  cni_tensor_release(result);
  cni_scope_pop(depth);
  if (!status) a->c.out[0] = cni_tensor_keep(a->dest);
  return status;
}

/* Sparse tensors are added to dense ones where they are; CN_REFUSED: it is another call. */
static CNI_APART int add_in_place(cni_applying *a)
{
  size_t depth = cni_scope_push();
  int status = cni_sparse_add_into(&a->c, a->info->id, a->dest);
  cni_scope_pop(depth);
  if (!status) a->c.out[0] = cni_tensor_keep(a->dest);
  return status;
}

/* In place into another type while gradients are recorded: the op as it is, then a copy that knows both types. */
static CNI_APART int cast_into(cni_applying *a)
{
  cn_tensor *dest = a->dest;
  a->dest = NULL;
  int status = cni_apply_next(a);
  a->dest = dest;
  return copy_into(a, status);
}

/* ---- the door ---- */

/* While a graph is captured: a composite op that has nothing to do (contiguous, of what is) hands its input back as in
 * eager code, so that gradients are added up in the same order. */
static bool returns_input(const cn_call *c, const cn_state *st)
{
  const cn_spec *s = &c->spec[0];
  const cn_desc *d = s->view_of < 0 ? NULL : &c->in[s->view_of]->d;
  bool same = d && !s->offset && s->dtype == d->dtype && cni_same_shape(s->ndim, s->shape, d->ndim, d->shape) &&
              !memcmp(s->strides, d->strides, (size_t)d->ndim * sizeof *d->strides);
  return st->tracing_sizes ? cni_hooks.takes_shortcut(same) : same;
}

/* An entry of the profile around what it is made of. A failed call's error is kept. */
static CNI_APART int decompose_profiled(cni_applying *a, const cn_state *st)
{
  cni_saved_error failed;
  cni_profile_composite_begin(a->info, &a->c);
  int status = a->dest ? decompose_into(a, st) : decompose_named(a);
  if (status) cni_error_take(&failed);
  cni_profile_composite_end();
  if (status) cni_error_restore(&failed);
  return status;
}

/* By its decomposition, above the modes. */
static int apply_decomposed(cni_applying *a, const cn_state *st)
{
  if (CNI_UNLIKELY(st->profile != NULL) && !st->capture) return decompose_profiled(a, st);
  return a->dest ? decompose_into(a, st) : decompose_named(a);
}

/* A vmap is running: calls with its examples become calls with batches. Of other calls *done is false. */
static CNI_APART int apply_batched(cni_applying *a, cn_state *st, bool *done)
{
  const cni_vmap *vmap;
  bool composite = a->lowered || (a->info->row->flags & CN_OP_COMPOSITE && !cni_batch_has_rule(a->info));
  *done = false;
  int status = cni_batch_find(&vmap, a, st);
  if (status || !vmap || (composite && !st->capture)) return status;
  *done = true;
  bool no_grad = st->no_grad, constant = !composite && (a->info->row->flags & CN_OP_NO_GRAD);
  if (constant) st->no_grad = true; /* its parts may have gradients */
  status = composite ? CN_REFUSED : cni_batch_run(a, vmap);
  if (status == CN_REFUSED && !a->lowered) a->lowered = a->info->row->decompose; /* graphs see the parts alone */
  if (status == CN_REFUSED) status = apply_decomposed(a, st);
  st->no_grad = no_grad;
  return status;
}

static int apply_with(cni_applying *a, cn_state *st)
{
  const cn_op *row = a->info->row;
  inputs found = {false, false, false, 0};
  int status = look(&found, a, st);
  if (status) return status;
  if (CNI_UNLIKELY(found.sparse)) {
    if ((status = cni_sparse_lower(a->info, &a->c, &a->lowered))) return status;
    if (cni_is_sparse(a->dest)) return decompose_into_sparse(a);
    if (a->dest && (status = add_in_place(a)) <= 0) return status;
  } else {
    if (!a->info->ntensors && cni_has_complex_number(a->info, a->c.args)) found.complex = true;
    if (a->info->dtype_at && cni_wants_complex(&a->c.args[a->info->dtype_at - 1])) found.complex = true;
    if (CNI_UNLIKELY(found.complex)) status = cni_complex_lower(a->info, &a->c, &a->lowered);
    if (status) return status;
  }
  /* Of a sparse tensor what it consists of may be a batch. */
  if (CNI_UNLIKELY(st->modes & CNI_MODE_BATCH) && !found.sparse) {
    bool done;
    status = apply_batched(a, st, &done);
    if (status || done) return status;
  }
  if (a->lowered || (row->flags & CN_OP_COMPOSITE && (!st->capture || !row->infer))) return apply_decomposed(a, st);
  if (CNI_UNLIKELY(found.storage)) status = check_types(a);
  if (!status) status = row->infer(&a->c);
  if (CNI_UNLIKELY(status)) return status;
  if (row->flags & CN_OP_COMPOSITE && !a->dest && returns_input(&a->c, st)) return decompose_named(a);
  if (a->dest && (status = cni_check_dests(a))) return status;
  a->mask = st->modes;
  if (wants_autograd(a, st, found.grad)) a->mask |= CNI_MODE_AUTOGRAD;
  if (a->dest && (a->mask & CNI_MODE_AUTOGRAD) && a->c.spec[0].dtype != a->dest->d.dtype) return cast_into(a);
  return cni_apply_next(a);
}

/* The tensors among args as the sub-graph that is captured knows them. room: for the elements of lists. */
static int bring_inside(const cni_opinfo *info, cn_value *args, cn_tensor **room)
{
  for (int i = 0; i < info->ntensors; i++) {
    cn_value *v = &args[info->tensors[i]];
    if (v->tag == CN_V_TENSOR && !(v->u.t = cni_hooks.bring_inside(v->u.t))) return cn_err();
    if (v->tag != CN_V_TENSORS) continue;
    for (int k = 0; k < v->n; k++) {
      room[k] = v->u.ts[k] ? cni_hooks.bring_inside(v->u.ts[k]) : NULL;
      if (v->u.ts[k] && !room[k]) return cn_err();
    }
    v->u.ts = room;
    room += v->n;
  }
  return CN_OK;
}

/* While a sub-graph is captured: the call with the tensors that the sub-graph knows. Casts of autocast come behind. */
static CNI_APART int apply_inside(const cni_opinfo *info, const cn_value *args, int nargs, cn_tensor *dest,
                                  cn_tensor **out, int *nout)
{
  cn_state *st = cni_state();
  cn_value known[CN_MAX_ARGS];
  cn_tensor *stack[STACK_INPUTS], **room = stack;
  int count = count_inputs(info, args);
  if (count > STACK_INPUTS && !(room = cni_alloc((size_t)count * sizeof *room))) return CN_ERR_MEMORY;
  memcpy(known, args, (size_t)nargs * sizeof *known);
  int status = bring_inside(info, known, room);
  if (!status && dest && !(dest = cni_hooks.bring_written(dest))) status = cn_err();
  if (!status) {
    st->modes &= ~(uint32_t)CNI_MODE_INSIDE; /* what the op is made of gets these tensors, or makes its own */
    status = cni_apply(info, known, nargs, dest, out, nout);
    st->modes |= CNI_MODE_INSIDE;
  }
  if (room != stack) cni_free(room, (size_t)count * sizeof *room);
  return status;
}

int cni_apply(const cni_opinfo *info, const cn_value *args, int nargs, cn_tensor *dest, cn_tensor **out, int *nout)
{
  cn_state *st = cni_state();
  if (CNI_UNLIKELY(st->err)) return st->err;
  if (CNI_UNLIKELY(st->modes & (CNI_MODE_LIMITS | CNI_MODE_INSIDE))) {
    if (cni_limits_hold(info->name)) return st->err;
    if (st->modes & CNI_MODE_INSIDE) return apply_inside(info, args, nargs, dest, out, nout);
  }
  int rule = CNI_UNLIKELY(st->modes & CNI_MODE_AUTOCAST) && !dest ? cni_autocast_rule(info, args) : CNI_AMP_NONE;
  if (rule) return cni_autocast(rule, info, args, nargs, out, nout);
  cn_tensor *stack[STACK_INPUTS], **in = stack;
  cn_spec spec[CNI_MAX_RESULTS];
  int count = CNI_LIKELY(!info->takes_list) ? info->ntensors : count_inputs(info, args);
  if (CNI_UNLIKELY(count > STACK_INPUTS) && !(in = cni_alloc((size_t)count * sizeof *in))) return CN_ERR_MEMORY;
  int status = gather(info, args, in);
  if (status >= 0) {
    cni_applying a;
    a.info = info;
    a.dest = dest;
    a.lowered = NULL;
    a.c = (cn_call){.op = info->row, .args = args, .in = in, .out = out, .spec = spec, .nargs = nargs, .nin = status,
                    .nout = info->list_result ? *nout : info->nresults};
    if (CNI_LIKELY(a.c.nout == 1)) out[0] = NULL;
    else if (a.c.nout > 0) memset(out, 0, (size_t)a.c.nout * sizeof *out);
    status = apply_with(&a, st);
    *nout = a.c.nout;
  }
  if (in != stack) cni_free(in, (size_t)count * sizeof *in);
  /* What is pending says why; a code that came up through several layers may not. */
  return CNI_LIKELY(!status) ? CN_OK : cni_fail(status, "%s: failed", info->name);
}

static const cni_opinfo *info_of(int op_id)
{
  if (CNI_UNLIKELY(!cni_ready())) {
    cni_init();
    if (!cni_ready()) {
      cni_fail(CN_ERR_INTERNAL, "cairn could not start: its tables are incomplete");
      return NULL;
    }
  }
  return cni_ops[op_id];
}

int cni_fit_lists(int op_id, cn_value *args, cni_few *room)
{
  const cni_opinfo *info = info_of(op_id);
  int status = cn_err();
  for (int i = 0; !status && i < info->nparams; i++)
    if (info->params[i].fixed) status = cni_fit_list(info, &info->params[i], &args[i], &room[i]);
  return status;
}

cn_tensor *cni_apply1(int op_id, cn_value *args, int nargs, cn_tensor *dest)
{
  cn_tensor *out = NULL;
  int nout = 1;
  const cni_opinfo *info = info_of(op_id);
  if (!info || cni_apply(info, args, nargs, dest, &out, &nout)) return NULL;
  if (dest) { /* the caller has this handle already: no new owner */
    cni_tensor_release(out);
    return dest;
  }
  return cni_scope_add(out);
}

/* Gives n owned results to the scope; when it cannot take one, those after it are released. */
static int add_all(cn_tensor **out, int n)
{
  int status = CN_OK;
  for (int i = 0; i < n; i++) {
    if (status) {
      cni_tensor_release(out[i]);
      out[i] = NULL;
    } else if (out[i] && !(out[i] = cni_scope_add(out[i]))) status = CN_ERR_MEMORY;
  }
  return status;
}

int cni_applyn(int op_id, cn_value *args, int nargs, cn_tensor **out, int nout)
{
  const cni_opinfo *info = info_of(op_id);
  int status = info ? cni_apply(info, args, nargs, NULL, out, &nout) : cn_err();
  for (int i = 0; status && i < nout; i++) out[i] = NULL;
  return status ? status : add_all(out, nout);
}

/* What updates of complex parameters write over: pairs in their memory. The views live in the innermost scope. */
static CNI_APART int views_of_pairs(cn_value *args, int nargs)
{
  for (int i = 0; i < nargs; i++)
    if (args[i].tag == CN_V_TENSOR && cni_is_z(args[i].u.t)) args[i].u.t = cn_view_as_real(args[i].u.t);
  return cn_err();
}

int cni_apply_over(int op_id, cn_value *args, int nargs)
{
  cn_tensor *out[CNI_MAX_RESULTS] = {NULL};
  int nout = CNI_MAX_RESULTS;
  const cni_opinfo *info = info_of(op_id);
  if (info && args[0].tag == CN_V_TENSOR && CNI_UNLIKELY(cni_is_z(args[0].u.t))) {
    size_t depth = cni_scope_push();
    int status = views_of_pairs(args, nargs);
    if (!status) status = cni_apply_over(op_id, args, nargs);
    cni_scope_pop(depth);
    return status;
  }
  cn_tensor *first = info && args[0].tag == CN_V_TENSOR ? args[0].u.t : NULL;
  if (info && !cn_err() && !first)
    cni_fail(CN_ERR_TYPE, "%s: tensor argument '%s' is missing (NULL)", info->name, info->params[0].name);
  int status = cn_err() ? cn_err() : cni_apply(info, args, nargs, first, out, &nout);
  for (int i = 0; i < CNI_MAX_RESULTS; i++) cni_tensor_release(out[i]); /* the caller has these handles already */
  return status;
}

int cni_apply_list(int op_id, cn_value *args, int nargs, cn_tensor **out, size_t capacity)
{
  int nout = capacity > INT32_MAX ? INT32_MAX : (int)capacity;
  const cni_opinfo *info = info_of(op_id);
  int status = info ? cni_apply(info, args, nargs, NULL, out, &nout) : cn_err();
  if (!status) status = add_all(out, nout);
  return status ? status : nout;
}
