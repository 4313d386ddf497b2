/* conv_dnn.c: convolutions by cuDNN: forward with bias, residual and relu, and both gradients.
 *
 * Place in the flow: asked first by conv.c. cuDNN is fast where channels are innermost in memory (conv_sides.c);
 * images of few channels are folded on the way there (conv_fold.c). Where few tiles keep few multiprocessors busy
 * the kernel of conv_small.c is tried beside cuDNN's engines, and runs instead if it is faster. Invariant: float32
 * is computed in float32 unless the program allows to round (cn_set_conv_precision): engines that do are passed over
 * (dnn.c), and so are those that add in no fixed order where results must repeat, and those that fill up groups of
 * few channels to what Tensor Cores take: they copy up to eight times as much as there is, and gradients of two
 * groups of one channel, for which cuDNN 9.19 names such engines first, ended the process. */
#include "conv.h"

#include <string.h>

#include "conv_graph.h"

#ifndef CNI_HAVE_CUDNN_H
int cni_cuda_conv_dnn(cn_call *c, const cni_cuda_conv *v)
{
  (void)v;
  return cni_cuda_refuse(c, "built without cuDNN's headers");
}
#else

static const double TRIED_FROM = 1e7; /* multiplications */

/* ---- the call ---- */

/* Is it worth trying which engine is fastest? */
static bool is_work(const cni_cuda_conv *v)
{
  const int64_t *w = v->w->shape;
  return (double)v->y->numel * (double)(w[1] * w[2] * w[3]) >= TRIED_FROM;
}

static cni_conv_form form_of(const cni_cuda_device *d, const cni_cuda_conv *v, const cni_cuda_side *s)
{
  cni_conv_form k;
  memset(&k, 0, sizeof k);
  memcpy(k.what, "conv2d", sizeof k.what);
  k.kind = (int32_t)v->kind;
  k.dtype = v->x->dtype;
  k.strict = k.dtype == CN_F32 && cni_cuda_host->conv_precision() == CN_PRECISION_FLOAT32;
  k.repeats = cni_cuda_host->deterministic_mode() != CN_DETERMINISTIC_OFF;
  k.rival = !k.repeats && !s->folded && is_work(v) && cni_cuda_conv_competes(d, v);
  k.bias = v->b != NULL;
  k.residual = v->z != NULL;
  k.relu = v->relu;
  memcpy(k.x, s[0].last.shape, sizeof k.x);
  memcpy(k.w, s[1].last.shape, sizeof k.w);
  memcpy(k.y, s[2].last.shape, sizeof k.y);
  for (int i = 0; i < 2; i++) {
    k.stride[i] = s->folded ? 1 : v->stride[i];
    k.padding[i] = s->folded ? 0 : v->padding[i];
    k.dilation[i] = v->dilation[i];
  }
  k.groups = v->groups;
  k.as_they_lie = cni_conv_as_they_lie(&k);
  return k;
}

static bool takes(const cni_cuda_conv *v)
{
  int t = v->x->dtype;
  bool type = (t == CN_BF16 || t == CN_F16 || t == CN_F32) && v->w->dtype == t && v->y->dtype == t;
  type = type && (!v->z || v->z->dtype == t);
  return type && v->x->numel && v->w->numel && v->y->numel;
}

static int run_rival(void *small) { return cni_cuda_conv_small_launch(small); }
static void say_rival(char *text, size_t size, const void *small) { cni_cuda_conv_small_say(text, size, small); }

/* By the faster of both ways, on operands that lie as they are to. */
static int run(cni_dnn_plan *plan, const cni_conv_form *k, cni_cuda_small_conv *small)
{
  int64_t uids[] = {CNI_CONV_X, CNI_CONV_W, CNI_CONV_Y, CNI_CONV_Z, CNI_CONV_Z};
  void *pointers[5];
  int count = 0;
  for (; count < (k->residual ? 4 : 3); count++) pointers[count] = small->sides[count].last.data;
  if (k->bias) uids[count] = CNI_CONV_B, pointers[count++] = small->bias;
  cni_dnn_operands operands = {count, uids, pointers};
  cni_dnn_rival rival = {run_rival, say_rival, small};
  int status = CN_OK;
  if (!k->repeats && is_work(small->conv))
    status = cni_dnn_settle(plan, small->device, k, sizeof *k, cni_conv_describe, &operands, k->rival ? &rival : NULL);
  if (status) return status;
  return plan->beaten ? run_rival(small) : cni_dnn_run(small->device, small->name, plan, &operands);
}

int cni_cuda_conv_dnn(cn_call *c, const cni_cuda_conv *v)
{
  cni_cuda_device *d = cni_cuda_of(c);
  cni_cuda_side s[CNI_CUDA_SIDES];
  cni_cuda_operand b = {0};
  cni_dnn_plan plan;
  if (!d) return CN_ERR_DEVICE;
  if (!takes(v)) return cni_cuda_refuse(c, "a type, or an empty tensor, that cuDNN does not take");
  cni_cuda_sides_open(s, v);
  if (cni_cuda_conv_folds(v)) cni_cuda_sides_fold(s, v);
  cni_conv_form k = form_of(d, v, s);
  if (cni_dnn_find(&plan, d, &k, sizeof k, cni_conv_describe))
    return cni_cuda_refuse(c, "cuDNN is not there, or knows no way");
  const char *name = cni_cuda_host->op_name(c->op);
  int status = v->b ? cni_cuda_take(&b, d, name, v->b, v->x->dtype) : CN_OK;
  if (!status) status = cni_cuda_sides_bring(s, v, d, name);
  cni_cuda_small_conv small = {d, name, v, s, b.data};
  if (!status) status = run(&plan, &k, &small);
  status = cni_cuda_sides_leave(s, v, d, name, status);
  cni_cuda_drop(&b, d);
  return status;
}
#endif
