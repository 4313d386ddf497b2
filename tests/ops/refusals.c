/* refusals.c: the driver that watches kernels refuse: whether an implementation was asked, or refused when it ran, it
 * has not touched the results. Every sample goes through all implementations that its ops have, in order.
 *
 * Place in the flow: takes the place of the dispatcher (cni_run_kernel) while a sample runs. Invariant: results that
 * share memory with an input are left alone. */
#include <stdio.h>
#include <string.h>

#include "backends/common/dispatch.h"
#include "drivers.h"
#include "ops/apply.h"
#include "tensor/tensor.h"

enum { PATTERN = 0x5A };

static int (*dispatcher)(cn_call *call, const cni_opinfo *info);
static char touched[200]; /* the first that wrote and then refused; "": none */

static bool is_fresh(const cn_call *c, const cn_tensor *out)
{
  for (int i = 0; i < c->nin; i++)
    if (c->in[i] && c->in[i]->storage == out->storage) return false;
  return out->d.device == CN_CPU && cni_is_dense(out->d.ndim, out->d.shape, out->d.strides);
}

static size_t bytes_of(const cn_tensor *t) { return (size_t)t->d.numel * cn_dtype_size((cn_dtype)t->d.dtype); }

static void fill(const cn_call *c)
{
  for (int i = 0; i < c->nout; i++) {
    cn_tensor *t = c->out[i];
    if (t && t->d.numel && is_fresh(c, t)) memset(t->d.data, PATTERN, bytes_of(t));
  }
}

static bool is_filled(const cn_call *c)
{
  for (int i = 0; i < c->nout; i++) {
    if (!c->out[i] || !c->out[i]->d.numel || !is_fresh(c, c->out[i])) continue;
    const unsigned char *p = c->out[i]->d.data;
    for (size_t k = 0; k < bytes_of(c->out[i]); k++)
      if (p[k] != PATTERN) return false;
  }
  return true;
}

static int run_with_workspace(cn_call *c, const cni_choice *choice)
{
  size_t bytes = choice->plan.size ? choice->plan.workspace : 0;
  c->plan = choice->plan.size ? &choice->plan : NULL;
  c->workspace = bytes ? cni_memory.alloc(c->device, bytes, c->stream) : NULL;
  int status = bytes && !c->workspace ? CN_ERR_MEMORY : choice->kernel->run(c);
  if (c->workspace) cni_memory.free(c->device, c->workspace, bytes, c->stream);
  c->workspace = NULL;
  return status;
}

static int watch(cn_call *c, const cni_opinfo *info)
{
  const cni_kernel_list *list = c->device == CN_CPU ? cni_kernels_at((c->device >> 8) - 1, info) : NULL;
  if (!list) return dispatcher(c, info);
  cni_choice choice = {.next = 0};
  fill(c);
  do {
    cni_kernel_choose(&choice, c, list, choice.next);
    int status = choice.kernel ? run_with_workspace(c, &choice) : CN_REFUSED;
    if (status != CN_REFUSED) return status;
    if (!is_filled(c) && !touched[0])
      snprintf(touched, sizeof touched, "%s/%s wrote, then refused: %s", info->name,
               choice.kernel ? choice.kernel->name : "", c->refusal ? c->refusal : "");
  } while (choice.kernel);
  return dispatcher(c, info); /* whatever stands behind the kernels */
}

enum outcome drive_refusals(const trial *t)
{
  call c;
  call_result r = {0};
  if (call_make(&c, t->s, &(call_setup){.grad = differentiable(t->s)})) return cn_err_clear(), PASS;
  touched[0] = 0;
  dispatcher = cni_run_kernel;
  cni_run_kernel = watch;
  call_run_grad(&r, &c, NULL, NULL); /* whether it works is for the other drivers */
  cni_run_kernel = dispatcher;
  cn_err_clear();
  call_result_free(&r);
  call_free(&c);
  return touched[0] ? trial_fail(t, "%s", touched) : PASS;
}
