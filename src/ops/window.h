/* window.h: what convolution and pooling share: pairs of integers, window arithmetic, memory order.
 *
 * Place in the flow: infer rules and CPU kernels of conv2d and the pools read their arguments with these. Invariant:
 * a pair argument is one number for both directions or two, height first. */
#ifndef CNI_OPS_WINDOW_H
#define CNI_OPS_WINDOW_H

#include <cairn/ext/op.h>
#include <math.h>

#include "infer.h"

/* Element i (0: height, 1: width) of an int[2] argument, or of any list that may also be one number. */
static inline int64_t cni_pair(const cn_value *v, int i)
{
  if (v->tag == CN_V_INT) return v->u.i;
  return v->u.is[v->n > 1 ? i : 0];
}

/* What conv2d_clamped takes for a relu, which makes 0 of -0. */
static inline bool cni_conv_is_relu(double low, double high) { return low == 0 && isinf(high); }

/* An argument of `count` numbers (or one for all of them), each at least `least`; an error that names it. */
static inline int cni_tuple_check(const cn_call *c, int arg, const char *name, int count, int64_t least)
{
  const cn_value *v = &c->args[arg];
  if (v->tag != CN_V_INT && (v->tag != CN_V_INTS || (v->n != 1 && v->n != count)))
    return cn_call_fail(c, CN_ERR_VALUE, "%s takes one number%s", name,
                        count == 2   ? " or two"
                        : count == 3 ? " or three"
                                     : "");
  for (int i = 0; i < count; i++)
    if (cni_pair(v, i) < least || cni_pair(v, i) > INT32_MAX)
      return cn_call_fail(c, CN_ERR_VALUE, "%s must be at least %lld, but is %lld", name, (long long)least,
                          (long long)cni_pair(v, i));
  return CN_OK;
}

static inline int cni_pair_check(const cn_call *c, int arg, const char *name, int64_t least)
{
  return cni_tuple_check(c, arg, name, 2, least);
}

/* Sizes and strides of a (C, H, W) or (N, C, H, W) tensor as four of each; an unbatched one has N = 1. */
static inline void cni_batched(const cn_desc *d, int64_t *shape, int64_t *strides)
{
  int lead = 4 - d->ndim;
  for (int i = 0; i < 4; i++) {
    shape[i] = i < lead ? 1 : d->shape[i - lead];
    strides[i] = i < lead ? d->shape[0] * d->strides[0] : d->strides[i - lead];
  }
}

/* Does the memory order of this batch of images look like channels-last? Where it could be either (sizes of 1), the
 * strides decide, as in PyTorch; it is not when nothing decides. */
static inline bool cni_like_channels_last(const int64_t *shape, const int64_t *strides)
{
  static const int order[4] = {1, 3, 2, 0};
  int64_t least = 0;
  if (strides[1] == 0) return false;
  for (int i = 0; i < 4; i++) {
    int d = order[i];
    if (shape[d] == 0 || strides[d] < least) return false;
    if (d == 0 && least == strides[1]) return false;
    least = strides[d];
    if (shape[d] > 1) least *= shape[d];
  }
  return true;
}

static inline bool cni_is_like_channels_last(const cn_desc *d)
{
  int64_t shape[4], strides[4];
  if (d->ndim != 3 && d->ndim != 4) return false;
  cni_batched(d, shape, strides);
  return cni_like_channels_last(shape, strides);
}

/* Gives result i, of 3 or 4 dims, channels-last memory order. */
static inline void cni_spec_channels_last(cn_call *c, int i)
{
  cn_spec *s = &c->spec[i];
  int64_t shape[4], strides[4];
  int lead = 4 - s->ndim;
  for (int d = 0; d < 4; d++) shape[d] = d < lead ? 1 : s->shape[d - lead];
  cni_channels_last_strides(4, shape, strides);
  for (int d = lead; d < 4; d++) s->strides[d - lead] = strides[d];
  s->has_strides = true;
}

#endif
