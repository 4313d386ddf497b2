/* conv_sides.c: the tensors of a convolution with channels innermost in memory, as cuDNN and kernels/conv_small.cu want
 * them.
 *
 * Place in the flow: between a call and its launches, for conv_dnn.c and conv_small.c. Tensors that lie so are used
 * where they are, others are copied so, and results copied back. Invariant: what was brought is left, whatever fails
 * between; memory of ours is freed while work is still queued, because whoever gets it next is queued behind
 * (memory.c). */
#include <string.h>

#include "conv.h"

static void open_side(cni_cuda_side *s, const cn_desc *d)
{
  memset(s, 0, sizeof *s);
  s->own = *d;
  if (d->ndim == 3) {
    memmove(s->own.shape + 1, d->shape, 3 * sizeof *d->shape);
    memmove(s->own.strides + 1, d->strides, 3 * sizeof *d->strides);
    s->own.shape[0] = 1;
    s->own.strides[0] = d->numel;
    s->own.ndim = 4;
  }
  s->last = s->own;
  cni_cuda_innermost_channels(s->own.shape, s->last.strides);
}

static int count(const cni_cuda_conv *v) { return v->z ? CNI_CUDA_SIDES : CNI_CUDA_SIDES - 1; }

void cni_cuda_sides_open(cni_cuda_side *s, const cni_cuda_conv *v)
{
  const cn_desc *tensors[CNI_CUDA_SIDES] = {v->x, v->w, v->y, v->z};
  for (int i = 0; i < count(v); i++) open_side(&s[i], tensors[i]);
}

void cni_cuda_sides_fold(cni_cuda_side *s, const cni_cuda_conv *v)
{
  cni_cuda_fold_shapes(v, s[0].last.shape, s[1].last.shape);
  for (int i = 0; i < 2; i++) {
    cn_desc *d = &s[i].last;
    cni_cuda_innermost_channels(d->shape, d->strides);
    d->numel = d->shape[0] * d->strides[0];
    s[i].folded = v;
    s[i].filter = i == 1;
  }
}

static bool lies_so(const cni_cuda_side *s)
{
  if (s->folded) return false;
  for (int i = 0; i < 4; i++)
    if (s->own.shape[i] != 1 && s->own.strides[i] != s->last.strides[i]) return false;
  return (uintptr_t)s->own.data % 16 == 0;
}

/* Copies elements to where they are seen from, or back. */
static int move(const cni_cuda_side *s, cni_cuda_device *d, const char *name, bool back)
{
  if (s->folded) return cni_cuda_fold(d, name, s->folded, &s->last, &s->own, s->filter, back);
  return cni_cuda_copy_desc(d, name, back ? &s->own : &s->last, back ? &s->last : &s->own);
}

/* read: with the tensor's elements; else room for them. */
static int bring(cni_cuda_side *s, cni_cuda_device *d, const char *name, bool read)
{
  if (lies_so(s)) return CN_OK;
  s->bytes = cn_element_bytes(s->last.dtype, s->last.numel);
  s->copy = s->last.data = cni_cuda_scratch(d, name, s->bytes);
  if (!s->copy) return CN_ERR_MEMORY;
  return read ? move(s, d, name, false) : CN_OK;
}

static int leave(cni_cuda_side *s, cni_cuda_device *d, const char *name, bool written, int status)
{
  if (!status && s->copy && written) status = move(s, d, name, true);
  if (s->copy) cni_cuda_free(d, s->copy, s->bytes);
  return status;
}

static int written_by(const cni_cuda_conv *v)
{
  static const int written[] = {[CNI_CUDA_CONV_FORWARD] = 2, [CNI_CUDA_CONV_INPUT] = 0, [CNI_CUDA_CONV_WEIGHT] = 1};
  return written[v->kind];
}

int cni_cuda_sides_bring(cni_cuda_side *s, const cni_cuda_conv *v, cni_cuda_device *d, const char *name)
{
  int status = CN_OK;
  for (int i = 0; i < count(v) && !status; i++) status = bring(&s[i], d, name, i != written_by(v));
  return status;
}

int cni_cuda_sides_leave(cni_cuda_side *s, const cni_cuda_conv *v, cni_cuda_device *d, const char *name, int status)
{
  for (int i = 0; i < count(v); i++) status = leave(&s[i], d, name, i == written_by(v), status);
  return status;
}
