/* api.c: the public functions of autograd.h around the engine: leaves, gradients, modes, hooks.
 *
 * Invariant: every function leaves tensors as they were when it fails. */
#include <cairn/ops.h>
#include <string.h>

#include "autograd.h"
#include "base/dtype.h"
#include "base/hooks.h"
#include "ops/batch.h"
#include "ops/families.h"

static const char *label(const struct cni_node *n) { return n->kind == CNI_NODE_LEAF ? NULL : cni_node_name(n); }

void cni_autograd_init(void)
{
  cni_hooks.node_label = label;
  cni_hooks.node_free = cni_node_free;
  cni_hooks.copy_guarded = cni_copy_guarded;
  cni_mode_handlers[__builtin_ctz(CNI_MODE_AUTOGRAD)] = cni_autograd_mode;
  cni_mode_handlers[__builtin_ctz(CNI_MODE_CHECK)] = cni_check_mode;
}

/* ---- leaves ---- */

static bool is_leaf_node(const cni_node *n) { return !n || n->kind == CNI_NODE_LEAF; }

/* An example of a batch has the history of its batch. */
cn_tensor *cn_requires_grad(cn_tensor *t, bool on)
{
  if (!t || cn_err()) return NULL;
  cni_init();
  if (t->batch) return cn_requires_grad(t->batch, on) ? t : NULL;
  if (cni_is_sparse(t)) return cni_sparse_requires_grad(t, on);
  cni_node *n = cni_node_of(t);
  if (!on) {
    if (!is_leaf_node(n)) {
      cni_fail(CN_ERR_GRAD, "requires_grad: only leaves can be switched off; use cn_detach for the result of an op");
      return NULL;
    }
    if (n) cni_node_attach(t, NULL, 0);
    return t;
  }
  if (n) return t;
  if (!cni_dtype_is_inexact(t->d.dtype) || t->d.weak) {
    cni_fail(CN_ERR_DTYPE, "requires_grad: only floating-point and complex tensors can have gradients, not %s",
             cn_dtype_name((cn_dtype)t->d.dtype));
    return NULL;
  }
  if (t->inference) {
    cni_fail(CN_ERR_GRAD, "requires_grad: this tensor was made in inference mode; clone it outside");
    return NULL;
  }
  if (!(n = cni_leaf_new(t))) return NULL;
  cni_node_attach(t, n, 0);
  return t;
}

int cn_set_data(cn_tensor *t, cn_tensor *other)
{
  if (cn_err()) return cn_err();
  if (!t || !other) return cni_fail(CN_ERR_TYPE, "set_data: a tensor is missing (NULL)");
  if (!cn_is_leaf(t) || t->view || t->d.weak || other->d.weak)
    return cni_fail(CN_ERR_GRAD, "set_data: only leaves with memory of their own can be given other data");
  bool records = cn_needs_grad(t);
  if (records && !cni_dtype_is_inexact(other->d.dtype))
    return cni_fail(CN_ERR_DTYPE, "set_data: %s has no gradients, which the tensor requires",
                    cn_dtype_name((cn_dtype)other->d.dtype));
  if (records && !cn_requires_grad(t, false)) return cn_err();
  cni_tensor_set_storage(t, cni_storage_keep(other->storage), other->offset, &other->d);
  return records && !cn_requires_grad(t, true) ? cn_err() : CN_OK;
}

cn_tensor *cn_data_of(cn_tensor *t)
{
  cn_tensor *data = cn_detach(t);
  return data && !cni_versions_set(data, NULL) ? data : NULL;
}

bool cn_needs_grad(const cn_tensor *t) { return t && cni_node_of(cni_history_of(t)) != NULL; }
bool cn_is_leaf(const cn_tensor *t) { return t && is_leaf_node(cni_node_of(cni_history_of(t))); }

int cn_retain_grad(cn_tensor *t)
{
  if (cni_is_sparse(t) && !cn_is_leaf(t))
    return cni_fail(CN_ERR_UNSUPPORTED, "retain_grad: is for leaves and dense tensors, not for sparse results");
  t = cni_history_of(t);
  cni_node *n = t ? cni_node_of(t) : NULL;
  if (!n) return cni_fail(CN_ERR_GRAD, "retain_grad: the tensor does not require a gradient");
  if (t->out_index >= CNI_MAX_RETAINED)
    return cni_fail(CN_ERR_UNSUPPORTED, "retain_grad: only for the first %d results of an op", CNI_MAX_RETAINED);
  cni_extra *extra = cni_node_extra(n);
  if (!extra) return CN_ERR_MEMORY;
  extra->retain |= 1u << t->out_index;
  return CN_OK;
}

bool cn_retains_grad(const cn_tensor *t)
{
  t = cni_history_of(t);
  const cni_node *n = t ? t->node : NULL;
  return !is_leaf_node(n) && n->extra && t->out_index < CNI_MAX_RETAINED && n->extra->retain >> t->out_index & 1;
}

cn_tensor *cn_grad_of(const cn_tensor *t)
{
  t = cni_history_of(t);
  cni_node *n = t ? t->node : NULL;
  if (!n || t->out_index >= CNI_MAX_RETAINED || cni_leaf_touch((cn_tensor *)t, n, false)) return NULL;
  return n->extra ? n->extra->grads[t->out_index] : NULL;
}

int cn_set_grad(cn_tensor *t, cn_tensor *grad)
{
  const cn_desc *own = t ? &t->d : NULL; /* of a sparse tensor, whose node is that of its values */
  t = cni_history_of(t);
  cni_node *n = t ? cni_node_of(t) : NULL;
  if (cn_err()) return cn_err();
  if (!n || t->out_index >= CNI_MAX_RETAINED)
    return grad ? cni_fail(CN_ERR_GRAD, "set_grad: the tensor does not require a gradient") : CN_OK;
  bool fits = !grad || (grad->d.ndim == own->ndim && grad->d.dtype == t->d.dtype && grad->d.device == t->d.device);
  for (int i = 0; fits && grad && i < own->ndim; i++) fits = grad->d.shape[i] == own->shape[i];
  if (!fits)
    return cni_fail(CN_ERR_SHAPE, "set_grad: shape, type or device of the gradient differ from the tensor's");
  int status = cni_leaf_touch(t, n, true);
  if (status || (!grad && !n->extra)) return status;
  cni_extra *extra = cni_node_extra(n);
  if (!extra) return CN_ERR_MEMORY;
  cn_tensor *old = extra->grads[t->out_index];
  extra->grads[t->out_index] = cni_tensor_keep(grad);
  cni_tensor_release(old);
  return CN_OK;
}

int cn_zero_grad(cn_tensor *t) { return cn_set_grad(t, NULL); }

/* ---- backward ---- */

/* The gradient to begin with: given (and fitting), or 1 for a one-element result. Borrowed. */
static cn_tensor *seed_for(cn_tensor *root, cn_tensor *given)
{
  if (!cni_node_of(cni_history_of(root))) {
    cni_fail(CN_ERR_GRAD, "backward: the tensor does not require a gradient and was not computed from one that does");
    return NULL;
  }
  if (!given) {
    if (cni_dtype_is_complex(root->d.dtype)) {
      cni_fail(CN_ERR_GRAD, "backward: a gradient must be given for a complex result; only a real one counts as 1");
      return NULL;
    }
    if (root->d.numel != 1 || cni_is_sparse(root)) {
      char shape[CNI_SHAPE_TEXT];
      cni_fail(CN_ERR_GRAD,
               "backward: a gradient must be given for a result of shape %s; only one element counts as 1",
               cni_shape_text(shape, sizeof shape, root->d.ndim, root->d.shape));
      return NULL;
    }
    return cn_full_like_with(root, 1, &(cn_full_like_opts){.size = sizeof(cn_full_like_opts)});
  }
  if (!cni_same_shape(given->d.ndim, given->d.shape, root->d.ndim, root->d.shape)) {
    char have[CNI_SHAPE_TEXT], want[CNI_SHAPE_TEXT];
    cni_fail(CN_ERR_SHAPE, "backward: the gradient has shape %s, the result %s",
             cni_shape_text(have, sizeof have, given->d.ndim, given->d.shape),
             cni_shape_text(want, sizeof want, root->d.ndim, root->d.shape));
    return NULL;
  }
  if (cni_is_sparse(root)) given = cni_sparse_seed(root, given);
  return !given || given->d.dtype == root->d.dtype ? given : cn_cast(given, (cn_dtype)root->d.dtype);
}

int cn_backward_with(cn_tensor *t, const cn_backward_opts *opts)
{
  if (cn_err()) return cn_err();
  if (!t) return cni_fail(CN_ERR_TYPE, "backward: the tensor is NULL");
  cn_backward_opts none = {.size = sizeof none};
  if (!opts) opts = &none;
  size_t depth = cni_scope_push();
  cn_tensor *seed = seed_for(t, opts->gradient);
  t = cni_history_of(t);
  cni_backward b = {.roots = &t, .seeds = &seed, .nroots = 1, .retain = opts->retain_graph,
                    .create = opts->create_graph};
  int status = seed ? cni_backward_run(&b) : cn_err();
  cni_scope_pop(depth);
  return status;
}

static int check_unused(const cni_backward *b, bool allowed)
{
  for (int i = 0; i < b->ninputs && !allowed; i++)
    if (!b->results[i])
      return cni_fail(CN_ERR_GRAD,
                      "grad: input %d was not used to compute the outputs; .allow_unused = true gives NULL "
                      "for it",
                      i);
  return CN_OK;
}

static int grad_run(cni_backward *b, cn_tensor **seeds, const cn_grad_opts *o)
{
  for (int i = 0; i < b->nroots; i++) {
    if (!b->roots[i]) return cni_fail(CN_ERR_TYPE, "grad: output %d is NULL", i);
    seeds[i] = seed_for(b->roots[i], o->grad_outputs ? o->grad_outputs[i] : NULL);
    if (!seeds[i]) return cn_err();
  }
  for (int i = 0; i < b->ninputs; i++) {
    if (!b->inputs[i]) return cni_fail(CN_ERR_TYPE, "grad: input %d is NULL", i);
    if (!cni_node_of(cni_history_of(b->inputs[i])))
      return cni_fail(CN_ERR_GRAD, "grad: input %d does not require a gradient", i);
  }
  int status = cni_backward_run(b);
  return status ? status : check_unused(b, o->allow_unused);
}

int cn_backward_all(cn_tensor *const *outputs, size_t noutputs, const cn_grad_opts *opts)
{
  if (cn_err()) return cn_err();
  cn_grad_opts none = {.size = sizeof none};
  if (!opts) opts = &none;
  if (noutputs > INT32_MAX) return cni_fail(CN_ERR_VALUE, "backward: too many tensors");
  cn_tensor **seeds = cni_alloc((noutputs + 1) * sizeof *seeds);
  if (!seeds) return CN_ERR_MEMORY;
  cni_backward b = {.roots = outputs, .seeds = seeds, .nroots = (int)noutputs, .retain = opts->retain_graph,
                    .create = opts->create_graph};
  size_t depth = cni_scope_push();
  int status = grad_run(&b, seeds, opts);
  cni_scope_pop(depth);
  cni_free(seeds, (noutputs + 1) * sizeof *seeds);
  return status;
}

int cn_grad_with(cn_tensor **grads, cn_tensor *const *outputs, size_t noutputs, cn_tensor *const *inputs,
                 size_t ninputs, const cn_grad_opts *opts)
{
  if (cn_err()) return cn_err();
  cn_grad_opts none = {.size = sizeof none};
  if (!opts) opts = &none;
  for (size_t i = 0; i < ninputs; i++) grads[i] = NULL;
  if (CNI_UNLIKELY(cni_state()->vmap != NULL)) {
    const cni_vmap *vmap, *other;
    if (cni_batch_innermost(&vmap, outputs, noutputs) || cni_batch_innermost(&other, inputs, ninputs)) return cn_err();
    if (vmap) return cni_batch_grad(grads, outputs, noutputs, inputs, ninputs, opts, vmap->id);
    if (other) return cni_batch_grad(grads, outputs, noutputs, inputs, ninputs, opts, other->id);
  }
  if (noutputs > INT32_MAX || ninputs > INT32_MAX) return cni_fail(CN_ERR_VALUE, "grad: too many tensors");
  cn_tensor **seeds = cni_alloc((noutputs + 1) * sizeof *seeds);
  if (!seeds) return CN_ERR_MEMORY;
  cni_backward b = {.roots = outputs, .seeds = seeds, .nroots = (int)noutputs, .inputs = inputs, .results = grads,
                    .ninputs = (int)ninputs, .retain = opts->retain_graph, .create = opts->create_graph};
  size_t depth = cni_scope_push();
  int status = grad_run(&b, seeds, opts);
  cni_scope_pop(depth);
  cni_free(seeds, (noutputs + 1) * sizeof *seeds);
  for (size_t i = 0; i < ninputs; i++) {
    if (status) {
      cni_tensor_release(grads[i]);
      grads[i] = NULL;
    } else if (grads[i] && !(grads[i] = cni_scope_add(grads[i]))) status = CN_ERR_MEMORY;
    else if (cni_is_sparse(inputs[i]) && !(grads[i] = cni_sparse_like(inputs[i], grads[i]))) status = cn_err();
  }
  return status;
}

/* ---- modes ---- */

static int mode_begin(bool no_grad, bool inference)
{
  cn_state *s = cni_state();
  int saved = s->no_grad | s->inference << 1;
  s->no_grad = no_grad;
  s->inference = inference;
  return saved;
}
static void mode_end(int saved)
{
  cn_state *s = cni_state();
  s->no_grad = saved & 1;
  s->inference = saved >> 1 & 1;
}

int cn_no_grad_begin(void) { return mode_begin(true, cni_state()->inference); }
void cn_no_grad_end(int saved) { mode_end(saved); }
int cn_enable_grad_begin(void) { return mode_begin(false, false); }
void cn_enable_grad_end(int saved) { mode_end(saved); }
int cn_inference_begin(void) { return mode_begin(true, true); }
void cn_inference_end(int saved) { mode_end(saved); }
bool cn_grad_enabled(void) { return !cni_state()->no_grad; }
bool cn_inference_enabled(void) { return cni_state()->inference; }
bool cn_is_inference(const cn_tensor *t) { return t && t->inference; }

/* ---- hooks ---- */

static int64_t hook_add(cn_tensor *t, cn_grad_hook hook, void *payload, void (*free_payload)(void *), bool after)
{
  static _Atomic int64_t next_id = 1;
  if (cn_err()) return cn_err();
  t = cni_history_of(t);
  cni_node *n = t ? cni_node_of(t) : NULL;
  if (!n || !hook) return cni_fail(CN_ERR_GRAD, "hook: the tensor does not require a gradient, or the hook is NULL");
  cni_extra *e = cni_node_extra(n);
  if (cni_state()->capture) cni_hooks.capture_hooked();
  if (!e || cni_grow((void **)&e->hooks, &e->hooks_cap, e->nhooks + 1, sizeof *e->hooks)) return CN_ERR_MEMORY;
  int64_t id = atomic_fetch_add(&next_id, 1);
  e->hooks[e->nhooks++] = (cni_hook){id, after ? ~t->out_index : t->out_index, hook, payload, free_payload};
  return id;
}

int64_t cn_hook_add(cn_tensor *t, cn_grad_hook hook, void *payload) { return hook_add(t, hook, payload, NULL, false); }

int64_t cn_hook_add_owned(cn_tensor *t, cn_grad_hook hook, void *payload, void (*free_payload)(void *))
{
  int64_t id = hook_add(t, hook, payload, free_payload, false);
  if (id < 0 && free_payload) free_payload(payload);
  return id;
}

int64_t cn_hook_add_after(cn_tensor *t, cn_grad_hook hook, void *payload, void (*free_payload)(void *))
{
  int64_t id = !cn_err() && t && !cn_is_leaf(t)
                   ? cni_fail(CN_ERR_GRAD, "hook: only the gradients of leaves add up; this is the result of an op")
                   : hook_add(t, hook, payload, free_payload, true);
  if (id < 0 && free_payload) free_payload(payload);
  return id;
}

int cn_hook_remove(cn_tensor *t, int64_t id)
{
  t = cni_history_of(t);
  cni_extra *e = t && t->node ? t->node->extra : NULL;
  for (size_t i = 0; e && i < e->nhooks; i++) {
    if (e->hooks[i].id != id) continue;
    cni_hook gone = e->hooks[i];
    memmove(&e->hooks[i], &e->hooks[i + 1], (e->nhooks - i - 1) * sizeof *e->hooks);
    e->nhooks--;
    if (gone.free) gone.free(gone.payload);
    return CN_OK;
  }
  return cni_fail(CN_ERR_VALUE, "hook: there is no hook %lld on this tensor", (long long)id);
}

/* ---- looking at the record ---- */

/* To the public a node is opaque: the same pointer under another name. */
static cn_node *shown(cni_node *n) { return (cn_node *)(void *)cni_node_keep(n); }
static cni_node *inside(const cn_node *n) { return (cni_node *)(void *)(uintptr_t)n; }

cn_node *cn_node_of(cn_tensor *t, int *result)
{
  t = cni_history_of(t);
  cni_node *n = t ? cni_node_of(t) : NULL;
  if (result) *result = n ? t->out_index : 0;
  return shown(n);
}

void cn_node_release(cn_node *n) { cni_node_release(inside(n)); }
const char *cn_node_name(const cn_node *n) { return n ? cni_node_name(inside(n)) : "none"; }
const char *cn_node_call(const cn_node *n)
{
  const cn_op *call = n ? inside(n)->head.call : NULL;
  const cni_opinfo *info = call ? cni_op_info(call) : NULL;
  return info ? info->name : cn_node_name(n);
}
size_t cn_node_ninputs(const cn_node *n) { return n ? (size_t)inside(n)->nin : 0; }

cn_node *cn_node_input(const cn_node *n, size_t i, int *result)
{
  if (result) *result = 0;
  if (i >= cn_node_ninputs(n)) return NULL;
  const cni_edge *e = &inside(n)->edges[i];
  if (result) *result = e->index;
  return shown(e->node);
}
