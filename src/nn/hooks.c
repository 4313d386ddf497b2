/* hooks.c: functions that run before and after a module's forward, and in its backward. See module.h.
 *
 * Backward hooks: the module's tensor inputs and results pass through functions that do nothing but tell their
 * gradients. Those of results are known before those of inputs, so a hook runs when the inputs' arrive.
 * Invariant: a module without hooks pays one comparison a call. */
#include <cairn/autograd.h>
#include <string.h>

#include "module.h"

static int64_t add(cn_module *module, cni_module_hook hook)
{
  cni_module *m = cni_m(module);
  if (cn_grow((void **)&m->hooks, &m->hooks_cap, m->nhooks + 1, sizeof hook)) {
    if (hook.free) hook.free(hook.payload);
    return CN_ERR_MEMORY;
  }
  hook.id = ++m->next_hook;
  m->hooks[m->nhooks++] = hook;
  return hook.id;
}

int64_t cn_module_hook_before(cn_module *m, cn_module_hook hook, void *payload, void (*free)(void *))
{
  return add(m, (cni_module_hook){.kind = CNI_HOOK_BEFORE, .fn.call = hook, .payload = payload, .free = free});
}

int64_t cn_module_hook_after(cn_module *m, cn_module_hook hook, void *payload, void (*free)(void *))
{
  return add(m, (cni_module_hook){.kind = CNI_HOOK_AFTER, .fn.call = hook, .payload = payload, .free = free});
}

int64_t cn_module_hook_backward(cn_module *m, cn_module_grad_hook hook, void *payload, void (*free)(void *))
{
  return add(m, (cni_module_hook){.kind = CNI_HOOK_BACKWARD, .fn.grad = hook, .payload = payload, .free = free});
}

int cn_module_hook_remove(cn_module *module, int64_t id)
{
  cni_module *m = cni_m(module);
  for (size_t i = 0; i < m->nhooks; i++) {
    if (m->hooks[i].id != id) continue;
    cni_module_hook gone = m->hooks[i];
    memmove(&m->hooks[i], &m->hooks[i + 1], (--m->nhooks - i) * sizeof gone);
    if (gone.free) gone.free(gone.payload);
    return CN_OK;
  }
  return cn_err_set(CN_ERR_VALUE, "%s: has no hook %lld", module->cls->name, (long long)id);
}

void cni_hooks_free(cni_module *m)
{
  for (size_t i = 0; i < m->nhooks; i++)
    if (m->hooks[i].free) m->hooks[i].free(m->hooks[i].payload);
  cn_free(m->hooks, m->hooks_cap * sizeof *m->hooks);
}

bool cni_hooks_any(const cni_module *m, enum cni_module_hook_kind kind)
{
  for (size_t i = 0; i < m->nhooks; i++)
    if (m->hooks[i].kind == kind) return true;
  return false;
}

int cni_hooks_run(cni_module *m, enum cni_module_hook_kind kind, cn_module_call *call)
{
  int status = CN_OK;
  for (size_t i = 0; !status && i < m->nhooks; i++)
    if (m->hooks[i].kind == kind) status = m->hooks[i].fn.call(&m->head, call, m->hooks[i].payload);
  return cn_err() ? cn_err() : status;
}

/* ---- backward ---- */

/* What one call's two watching functions share; counted, because either may outlive the other. */
typedef struct watch {
  _Atomic int refs;
  cn_module *module; /* kept */
  size_t nout;
  cn_tensor *grads[8]; /* of results, kept until the inputs' are known */
} watch;

static void watch_drop(void *payload)
{
  watch *w = payload;
  if (atomic_fetch_sub(&w->refs, 1) != 1) return;
  for (size_t i = 0; i < w->nout; i++) cn_release(w->grads[i]);
  cn_module_release(w->module);
  cn_free(w, sizeof *w);
}

/* Results share the inputs' memory: other handles, so that they get a place of their own in the record. */
static int pass_on(cn_context *ctx, cn_tensor **outputs, cn_tensor *const *inputs)
{
  const watch *w = cn_context_payload(ctx);
  for (size_t i = 0; i < w->nout; i++)
    if (!(outputs[i] = cn_detach(inputs[i]))) return cn_err();
  return CN_OK;
}

static int results_known(cn_context *ctx, cn_tensor **grad_inputs, cn_tensor *const *grad_outputs)
{
  watch *w = cn_context_payload(ctx);
  for (size_t i = 0; i < w->nout; i++) {
    grad_inputs[i] = grad_outputs[i];
    cn_release(w->grads[i]);
    w->grads[i] = cn_keep(grad_outputs[i]);
  }
  return CN_OK;
}

typedef struct inputs_watch {
  watch *shared;
  size_t n;
} inputs_watch;

static void inputs_drop(void *payload)
{
  inputs_watch *in = payload;
  watch_drop(in->shared);
  cn_free(in, sizeof *in);
}

static int pass_inputs(cn_context *ctx, cn_tensor **outputs, cn_tensor *const *inputs)
{
  const inputs_watch *in = cn_context_payload(ctx);
  for (size_t i = 0; i < in->n; i++)
    if (!(outputs[i] = cn_detach(inputs[i]))) return cn_err();
  return CN_OK;
}

static int inputs_known(cn_context *ctx, cn_tensor **grad_inputs, cn_tensor *const *grad_outputs)
{
  const inputs_watch *in = cn_context_payload(ctx);
  cni_module *m = cni_m(in->shared->module);
  for (size_t i = 0; i < in->n; i++) grad_inputs[i] = grad_outputs[i];
  int status = CN_OK;
  for (size_t i = 0; !status && i < m->nhooks; i++)
    if (m->hooks[i].kind == CNI_HOOK_BACKWARD)
      status = m->hooks[i].fn.grad(&m->head, grad_inputs, in->n, in->shared->grads, in->shared->nout,
                                   m->hooks[i].payload);
  return cn_err() ? cn_err() : status;
}

static watch *watch_new(cni_module *m)
{
  watch *w = cn_alloc_zero(sizeof *w);
  if (!w) return NULL;
  atomic_init(&w->refs, 1);
  w->module = cn_module_keep(&m->head);
  return w;
}

/* *state: a reference to what watch_results goes on with; NULL when nothing is to be watched. */
int cni_hooks_watch_inputs(cni_module *m, cn_module_call *call, void **state)
{
  static const cn_function watcher = {sizeof(cn_function), "BackwardHook", pass_inputs, inputs_known, inputs_drop};
  cn_tensor *in[CN_MAX_ARGS], *out[CN_MAX_ARGS];
  cn_value *args = (cn_value *)(uintptr_t)call->args;
  size_t n = 0;
  *state = NULL;
  if (!cni_hooks_any(m, CNI_HOOK_BACKWARD) || !cn_grad_enabled()) return CN_OK;
  for (size_t i = 0; i < call->nargs; i++)
    if (args[i].tag == CN_V_TENSOR) in[n++] = args[i].u.t;
  watch *w = watch_new(m);
  inputs_watch *mine = w ? cn_alloc(sizeof *mine) : NULL;
  if (!mine) {
    if (w) watch_drop(w);
    return CN_ERR_MEMORY;
  }
  *mine = (inputs_watch){w, n};
  atomic_fetch_add(&w->refs, 1); /* for watch_results */
  int status = cn_function_apply(out, n, &watcher, in, n, mine);
  if (status) {
    watch_drop(w);
    return status;
  }
  n = 0;
  for (size_t i = 0; i < call->nargs; i++)
    if (args[i].tag == CN_V_TENSOR) args[i].u.t = out[n++];
  *state = w;
  return CN_OK;
}

int cni_hooks_watch_results(cni_module *m, cn_module_call *call, void *state)
{
  static const cn_function watcher = {sizeof(cn_function), "BackwardHook", pass_on, results_known, watch_drop};
  watch *w = state;
  cn_tensor *in[8], *out[8];
  (void)m;
  if (!w) return CN_OK;
  for (size_t i = 0; i < call->nout && call->out[i]; i++) in[w->nout++] = call->out[i];
  size_t n = w->nout;
  int status = cn_function_apply(out, n, &watcher, in, n, w);
  for (size_t i = 0; !status && i < n; i++) call->out[i] = out[i];
  return status;
}

void cni_hooks_unwatch(void *state)
{
  if (state) watch_drop(state);
}
