/* conv_depthwise.c: depthwise convolutions (every channel by itself), planes shared out to the threads.
 *
 * Flow: refuse what the kernels of this machine are not for -> tensors whose planes have gaps (channels-last) are
 * copied -> planes in parallel, or channels for the gradient of the weight, which sums over images -> copied back.
 * The gradient of the input at stride 1 is the convolution by the flipped weight. Invariant: a plane, or a
 * channel's weight, is computed by one thread. */
#include "conv_depthwise_isa.h"

#include <math.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "conv_direct.h"
#include "tensor/tensor.h"

enum { GRAIN_WORK = 1 << 18 }; /* multiply-adds worth waking a thread for */

typedef struct job {
  const cni_conv *v;
  const cni_depthwise_kernels *ker;
  cni_depthwise d;
  cni_conv_tensor x, y; /* with whole planes */
  bool half;            /* stride 2 */
} job;

/* ---- masks ---- */

static int64_t masks_of(const cni_depthwise *d) { return d->vectors * 2 * d->taps; }

/* Bits [first, last) of so many. */
static uint16_t bits(int64_t first, int64_t last, int lanes)
{
  first = first < 0 ? 0 : first;
  last = last > lanes ? lanes : last;
  return (uint16_t)(first < last ? (1u << last) - (1u << first) : 0);
}

/* Of the lanes from pixel p on, `column` of its row: those that have a pixel so many columns behind. */
static uint16_t bits_beside(const cni_depthwise *d, int64_t p, int64_t column, int64_t behind, int lanes)
{
  const int64_t total = d->h * d->w, from = behind < 0 ? -behind : 0, to = behind > 0 ? d->w - behind : d->w;
  uint16_t found = 0;
  for (int64_t row = -column; row < lanes; row += d->w) found = (uint16_t)(found | bits(row + from, row + to, lanes));
  return (uint16_t)(found & bits(0, total - p, lanes));
}

/* left: columns moved to the left, for the gradient of the weight. */
static void fill_masks(const cni_depthwise *d, int lanes, uint16_t *masks, bool left)
{
  const int64_t total = d->h * d->w;
  const int mid = d->taps / 2;
  for (int64_t v = 0; v < d->vectors; v++, masks += 2 * d->taps) {
    const int64_t p = v * lanes;
    for (int i = 0; i < d->taps; i++) {
      const int64_t at = p + (i - mid) * d->w;
      masks[i] = bits(-at, total - at, lanes);
      masks[d->taps + i] = bits_beside(d, p, p % d->w, left ? mid - i : i - mid, lanes);
    }
  }
}

/* ---- planes ---- */

static float *plane(const cni_conv_tensor *t, int64_t n, int64_t c)
{
  return (float *)(void *)t->data + n * t->strides[0] + c * t->strides[1];
}

/* The taps of channel c: in place if they are contiguous, else in room. */
static const float *read_weight(const cni_conv *v, int64_t c, float *room)
{
  const int64_t *s = v->weight.strides;
  const float *from = (const float *)(const void *)v->weight.data + c * s[0];
  if (s[3] == 1 && s[2] == v->kw) return from;
  for (int64_t i = 0; i < v->kh; i++)
    for (int64_t j = 0; j < v->kw; j++) room[i * v->kw + j] = from[i * s[2] + j * s[3]];
  return room;
}

/* Items are planes. */
static void plane_range(int64_t begin, int64_t end, void *payload)
{
  const job *k = payload;
  const cni_conv *v = k->v;
  const int64_t taps = v->kh * v->kw;
  float room[CNI_DEPTHWISE_MOST * CNI_DEPTHWISE_MOST], flipped[CNI_DEPTHWISE_MOST * CNI_DEPTHWISE_MOST];
  for (int64_t item = begin; item < end; item++) {
    int64_t n = item / v->c, c = item % v->c;
    float *x = plane(&k->x, n, c), *y = plane(&k->y, n, c), bias = 0;
    const float *w = read_weight(v, c, room);
    if (v->bias) memcpy(&bias, (const char *)v->bias->data + 4 * c * v->bias->strides[0], 4);
    if (v->kind == CNI_CONV_FORWARD) {
      (k->half ? k->ker->half_forward : k->ker->forward)(&k->d, y, x, w, bias);
    } else if (k->half) {
      k->ker->half_input(&k->d, x, y, w);
    } else {
      for (int64_t i = 0; i < taps; i++) flipped[i] = w[taps - 1 - i];
      k->ker->forward(&k->d, x, y, flipped, 0);
    }
  }
}

/* Items are channels. */
static void channel_range(int64_t begin, int64_t end, void *payload)
{
  const job *k = payload;
  const cni_conv *v = k->v;
  const int64_t *s = v->weight.strides;
  for (int64_t c = begin; c < end; c++) {
    float w[CNI_DEPTHWISE_MOST * CNI_DEPTHWISE_MOST] = {0}, *to = (float *)(void *)v->weight.data + c * s[0];
    (k->half ? k->ker->half_weight : k->ker->weight)(&k->d, w, plane(&k->x, 0, c), k->x.strides[0],
                                                     plane(&k->y, 0, c), k->y.strides[0], v->n);
    for (int64_t i = 0; i < v->kh; i++)
      for (int64_t j = 0; j < v->kw; j++) to[i * s[2] + j * s[3]] = w[i * v->kw + j];
  }
}

/* ---- the whole ---- */

/* Makes t's planes whole: in place, or by a copy in *room. 0 or CN_ERR_MEMORY. */
static int whole(cni_conv_tensor *t, const cni_conv_tensor *of, bool fill, void **room, size_t *bytes)
{
  *t = *of;
  if ((of->shape[3] == 1 || of->strides[3] == 1) && (of->shape[2] == 1 || of->strides[2] == of->shape[3]) &&
      of->strides[0] >= 0 && of->strides[1] >= 0)
    return CN_OK;
  cn_desc from = cni_conv_desc(of, CN_F32);
  *bytes = (size_t)from.numel * 4;
  if (!(*room = cni_scratch_alloc(*bytes))) return CN_ERR_MEMORY;
  t->data = *room;
  cni_contiguous_strides(4, t->shape, t->strides);
  cn_desc to = cni_conv_desc(t, CN_F32);
  if (fill) cni_cpu_copy(&to, &from);
  return CN_OK;
}

static void run(job *k, const cni_conv_tensor *given, const cni_conv_tensor *own)
{
  const cni_conv *v = k->v;
  int64_t items = v->kind == CNI_CONV_WEIGHT ? v->c : v->n * v->c;
  cni_parallel_for(items, cni_grain(cni_conv_work(v), items, GRAIN_WORK),
                   v->kind == CNI_CONV_WEIGHT ? channel_range : plane_range, k);
  if (!given || given->data == own->data) return;
  cn_desc to = cni_conv_desc(given, CN_F32), from = cni_conv_desc(own, CN_F32);
  cni_cpu_copy(&to, &from);
}

const char *cni_conv_depthwise_against(const cni_conv *v)
{
  bool half = v->stride[0] == 2;
  if (v->dtype != CN_F32 || v->groups < 2 || v->c != v->groups || v->k != v->groups)
    return "not depthwise in float32";
  if (v->kh != v->kw || v->stride[0] != v->stride[1] || v->stride[0] > 2 || v->dilation[0] != 1 ||
      v->dilation[1] != 1)
    return "not the plain form of a depthwise convolution";
  if (v->padding[0] != v->kh / 2 || v->padding[1] != v->kh / 2) return "not padded by half the window";
  if (v->kh != 3 && (half || (v->kh != 5 && v->kh != 7))) return "not a window of 3, 5 or 7";
  if (!v->n || !v->h || !v->w) return "empty";
  const cni_depthwise_kernels *kernels = CNI_IF_VECTORS(cni_depthwise);
  return kernels ? NULL : "no depthwise kernels for this processor";
}

int cni_conv_depthwise(const cni_conv *v)
{
  job k = {.v = v, .ker = CNI_IF_VECTORS(cni_depthwise), .half = v->stride[0] == 2};
  void *room[2] = {NULL, NULL};
  size_t bytes[2] = {0, 0}, masks_bytes = 0;
  uint16_t *masks = NULL;
  k.d = (cni_depthwise){.h = v->h, .w = v->w, .oh = v->oh, .ow = v->ow, .taps = (int)v->kh};
  k.d.low = v->limited ? (float)v->limits.low : -INFINITY;
  k.d.high = v->limited ? (float)v->limits.high : INFINITY;
  k.d.zero = v->limited && v->limits.relu ? 0.0f : -0.0f;
  int status = whole(&k.x, &v->x, v->kind != CNI_CONV_INPUT, &room[0], &bytes[0]);
  if (!status) status = whole(&k.y, &v->y, v->kind != CNI_CONV_FORWARD, &room[1], &bytes[1]);
  if (!status && !k.half) {
    k.d.vectors = cni_parts(v->h * v->w, k.ker->lanes);
    masks_bytes = (size_t)masks_of(&k.d) * sizeof *masks;
    masks = cni_scratch_alloc(masks_bytes);
    if (masks) fill_masks(&k.d, k.ker->lanes, masks, v->kind == CNI_CONV_WEIGHT);
    else status = CN_ERR_MEMORY;
    k.d.masks = masks;
  }
  if (!status && v->kind == CNI_CONV_FORWARD) run(&k, &v->y, &k.y);
  else if (!status && v->kind == CNI_CONV_INPUT) run(&k, &v->x, &k.x);
  else if (!status) run(&k, NULL, NULL);
  if (!status) status = cn_err();
  cni_scratch_free(masks, masks_bytes);
  cni_scratch_free(room[0], bytes[0]);
  cni_scratch_free(room[1], bytes[1]);
  return status;
}
