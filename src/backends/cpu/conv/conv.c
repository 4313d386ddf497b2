/* conv.c: the CPU kernels of conv2d and its gradients: reads the call for the implementations, each a row of its own.
 *
 * Order: tiles, own, bfloat16 where the machine has tile registers; own ones for shapes that have something better
 * than the general way (winograd, winograd_1d, gemm, im2col, depthwise); onednn, a library, where it is faster: windows
 * over 8 channels or more, 4 images or more; direct, own, every shape; reference, plain loops: integers, and what tests
 * compare with. CAIRN_KERNEL=conv2d=direct (or another name) changes it. Invariant: a result does not depend on the
 * number of threads in any of them. */
#include "conv.h"

#include <string.h>

#include "backends/common/dispatch.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/gemm/gemm_isa.h"
#include "backends/cpu/lib/onednn.h"
#include "base/convert.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "ops/api.gen.h"
#include "ops/window.h"

/* ---- reading the call ---- */

static void read_tensor(cni_conv_tensor *t, const cn_tensor *from)
{
  const cn_desc *d = cn_desc_of(from);
  t->data = d->data;
  cni_batched(d, t->shape, t->strides);
}

static void swap(int64_t *a, int64_t *b)
{
  const int64_t t = *a;
  *a = *b, *b = t;
}

static void turn(cni_conv_tensor *t)
{
  swap(&t->shape[2], &t->shape[3]);
  swap(&t->strides[2], &t->strides[3]);
  t->strides[2] = t->shape[3] * t->strides[3]; /* of one row: as if more of them followed */
}

/* Images that are one pixel wide, as exporters make of signals, are those of one row, along which kernels have their
 * vectors. */
static void lay_flat(cni_conv *v)
{
  if (v->w != 1 || v->kw != 1 || v->ow != 1 || v->padding[1] || v->h == 1) return;
  turn(&v->x), turn(&v->weight), turn(&v->y);
  swap(&v->h, &v->w), swap(&v->kh, &v->kw), swap(&v->oh, &v->ow);
  swap(&v->stride[0], &v->stride[1]), swap(&v->padding[0], &v->padding[1]), swap(&v->dilation[0], &v->dilation[1]);
}

static cni_conv read_call(const cn_call *c, enum cni_conv_kind kind)
{
  cni_conv v = {.kind = kind, .dtype = cn_desc_of(c->out[0])->dtype, .groups = c->args[6].u.i, .fast = c->fast};
  const cn_tensor *out = c->out[0];
  read_tensor(&v.x, kind == CNI_CONV_FORWARD ? c->in[0] : kind == CNI_CONV_INPUT ? out : c->in[1]);
  read_tensor(&v.weight, kind == CNI_CONV_WEIGHT ? out : c->in[1]);
  read_tensor(&v.y, kind == CNI_CONV_FORWARD ? out : c->in[0]);
  v.n = v.x.shape[0];
  v.c = v.x.shape[1];
  v.h = v.x.shape[2];
  v.w = v.x.shape[3];
  v.k = v.weight.shape[0];
  v.kh = v.weight.shape[2];
  v.kw = v.weight.shape[3];
  v.oh = v.y.shape[2];
  v.ow = v.y.shape[3];
  for (int i = 0; i < 2; i++) {
    v.stride[i] = cni_pair(&c->args[3], i);
    v.padding[i] = cni_pair(&c->args[4], i);
    v.dilation[i] = cni_pair(&c->args[5], i);
  }
  lay_flat(&v);
  if (kind == CNI_CONV_FORWARD && c->in[2]) v.bias = cn_desc_of(c->in[2]);
  if (cni_op_info(c->op)->id == CNI_OP_conv2d_clamped) {
    const double low = c->args[7].u.f, high = c->args[8].u.f;
    v.limited = true;
    v.limits = (cni_gemm_limits){low, high, cni_conv_is_relu(low, high)};
  }
  if (c->prepared) v.prepared = c->prepared->memory;
  return v;
}

void cni_conv_limit(const cni_conv *v, float *y, int64_t n)
{
  const cni_gemm_kernels *kernels = CNI_BY_ISA(cni_gemm_kernels);
  if (v->limited) kernels->limit(y, n, 1, 1, n, &v->limits);
}

cn_desc cni_conv_desc(const cni_conv_tensor *t, int dtype)
{
  cn_desc d = {.data = t->data, .numel = cni_numel(4, t->shape), .dtype = dtype, .ndim = 4, .device = CN_CPU};
  memcpy(d.shape, t->shape, sizeof t->shape);
  memcpy(d.strides, t->strides, sizeof t->strides);
  return d;
}

/* ---- the reference: one result at a time, in double or int64 ---- */

typedef struct sum {
  double f;
  int64_t i;
} sum;

static int64_t at(const cni_conv_tensor *t, int64_t a, int64_t b, int64_t c, int64_t d)
{
  return a * t->strides[0] + b * t->strides[1] + c * t->strides[2] + d * t->strides[3];
}

static void add_product(const cni_conv *v, sum *s, const cni_conv_tensor *a, int64_t i,
                        const cni_conv_tensor *b, int64_t j)
{
  if (cni_dtype_is_float(v->dtype))
    s->f += cni_load_f64(a->data, i, v->dtype) * cni_load_f64(b->data, j, v->dtype);
  else s->i += cni_load_i64(a->data, i, v->dtype) * cni_load_i64(b->data, j, v->dtype);
}

static void store(const cni_conv *v, const cni_conv_tensor *t, int64_t i, sum s)
{
  if (cni_dtype_is_float(v->dtype)) cni_store_f64(t->data, i, v->dtype, s.f);
  else cni_store_i64(t->data, i, v->dtype, s.i);
}

/* The input's coordinate under tap t of window o; -1 in the border. */
static int64_t under(const cni_conv *v, int dim, int64_t o, int64_t t)
{
  int64_t p = o * v->stride[dim] - v->padding[dim] + t * v->dilation[dim];
  return p < 0 || p >= (dim ? v->w : v->h) ? -1 : p;
}

static sum forward_at(const cni_conv *v, int64_t n, int64_t k, int64_t oh, int64_t ow)
{
  sum s = {0, 0};
  int64_t cg = v->c / v->groups, first = k / (v->k / v->groups) * cg;
  if (v->bias) {
    s.f = cni_load_f64(v->bias->data, k * v->bias->strides[0], v->dtype);
    s.i = cni_load_i64(v->bias->data, k * v->bias->strides[0], v->dtype);
  }
  for (int64_t c = 0; c < cg; c++)
    for (int64_t i = 0; i < v->kh; i++)
      for (int64_t j = 0; j < v->kw; j++) {
        int64_t y = under(v, 0, oh, i), x = under(v, 1, ow, j);
        if (y >= 0 && x >= 0)
          add_product(v, &s, &v->x, at(&v->x, n, first + c, y, x), &v->weight, at(&v->weight, k, c, i, j));
      }
  return s;
}

/* The window whose tap t lies on p; -1 when there is none. */
static int64_t window_over(const cni_conv *v, int dim, int64_t p, int64_t t)
{
  int64_t o = p + v->padding[dim] - t * v->dilation[dim];
  if (o < 0 || o % v->stride[dim]) return -1;
  o /= v->stride[dim];
  return o < (dim ? v->ow : v->oh) ? o : -1;
}

static sum input_at(const cni_conv *v, int64_t n, int64_t c, int64_t y, int64_t x)
{
  sum s = {0, 0};
  int64_t cg = v->c / v->groups, kg = v->k / v->groups, first = c / cg * kg;
  for (int64_t k = first; k < first + kg; k++)
    for (int64_t i = 0; i < v->kh; i++)
      for (int64_t j = 0; j < v->kw; j++) {
        int64_t oh = window_over(v, 0, y, i), ow = window_over(v, 1, x, j);
        if (oh >= 0 && ow >= 0)
          add_product(v, &s, &v->y, at(&v->y, n, k, oh, ow), &v->weight, at(&v->weight, k, c % cg, i, j));
      }
  return s;
}

static sum weight_at(const cni_conv *v, int64_t k, int64_t c, int64_t i, int64_t j)
{
  sum s = {0, 0};
  int64_t channel = k / (v->k / v->groups) * (v->c / v->groups) + c;
  for (int64_t n = 0; n < v->n; n++)
    for (int64_t oh = 0; oh < v->oh; oh++)
      for (int64_t ow = 0; ow < v->ow; ow++) {
        int64_t y = under(v, 0, oh, i), x = under(v, 1, ow, j);
        if (y >= 0 && x >= 0)
          add_product(v, &s, &v->x, at(&v->x, n, channel, y, x), &v->y, at(&v->y, n, k, oh, ow));
      }
  return s;
}

static void reference_range(int64_t begin, int64_t end, void *payload)
{
  static sum (*const by_kind[])(const cni_conv *, int64_t, int64_t, int64_t, int64_t) = {forward_at, input_at,
                                                                                         weight_at};
  const cni_conv *v = payload;
  const cni_conv_tensor *t = v->kind == CNI_CONV_FORWARD ? &v->y
                             : v->kind == CNI_CONV_INPUT ? &v->x
                                                         : &v->weight;
  for (int64_t e = begin; e < end; e++) {
    int64_t d = e % t->shape[3], c = e / t->shape[3] % t->shape[2], b = e / t->shape[3] / t->shape[2];
    int64_t a = b / t->shape[1];
    b %= t->shape[1];
    store(v, t, at(t, a, b, c, d), by_kind[v->kind](v, a, b, c, d));
  }
}

/* ---- kernels ---- */

static int run_reference(const cni_conv *v)
{
  const cni_conv_tensor *t = v->kind == CNI_CONV_FORWARD ? &v->y : v->kind == CNI_CONV_INPUT ? &v->x : &v->weight;
  cni_parallel_for(cni_numel(4, t->shape), 64, reference_range, (void *)v);
  return CN_OK;
}

static const char *direct_against(const cni_conv *v)
{
  return cni_dtype_is_float(v->dtype) ? NULL : "not a floating-point type";
}

/* Own kernels read rows of the images and taps of the weights. */
static int can(const cn_call *c, cn_plan *plan, enum cni_conv_kind kind, const char *(*against)(const cni_conv *v))
{
  cni_conv v = read_call(c, kind);
  v.contest = plan->contest;
  plan->order[0] = plan->order[1] = CN_ORDER_ROW_MAJOR;
  plan->refusal = v.limited && v.dtype != CN_F32 ? "limits of float32 alone" : against(&v);
  return plan->refusal ? CN_REFUSED : CN_OK;
}

static int can_onednn(const cn_call *c, cn_plan *plan, enum cni_conv_kind kind)
{
  cni_conv v = read_call(c, kind);
  bool wished = plan->contest || cni_kernel_wish(cni_op_info(c->op), "onednn") == CNI_FIRST;
  plan->refusal = cni_onednn_conv_against(&v, wished);
  return plan->refusal ? CN_REFUSED : CN_OK;
}

static int run_onednn(cn_call *c, enum cni_conv_kind kind)
{
  cni_conv v = read_call(c, kind);
  return cni_onednn_conv(&v, &c->refusal);
}

#if defined(__x86_64__)
/* Tiles read and write what lies in any order. */
static int can_tiles(const cn_call *c, cn_plan *plan, enum cni_conv_kind kind)
{
  cni_conv v = read_call(c, kind);
  plan->refusal = cni_conv_tiles_against(&v);
  return plan->refusal ? CN_REFUSED : CN_OK;
}
static int can_tiles_forward(const cn_call *c, cn_plan *plan) { return can_tiles(c, plan, CNI_CONV_FORWARD); }
static int can_tiles_input(const cn_call *c, cn_plan *plan) { return can_tiles(c, plan, CNI_CONV_INPUT); }
static int tiles_forward(cn_call *c)
{
  cni_conv v = read_call(c, CNI_CONV_FORWARD);
  return cni_conv_tiles(&v);
}
static int tiles_input(cn_call *c)
{
  cni_conv v = read_call(c, CNI_CONV_INPUT);
  return cni_conv_tiles(&v);
}

static int prepare_tiles(const cn_call *c, cn_prepared *made)
{
  cni_conv v = read_call(c, CNI_CONV_FORWARD);
  made->of = 1u << 1;
  return cni_conv_tiles_prepare(&v, made);
}
#endif

/* One implementation for the three ops: what it says of a call, and running it. */
#define ENTRY(name, kind, KIND, against, compute)                                                                    \
  static int can_##name##_##kind(const cn_call *c, cn_plan *plan) { return can(c, plan, KIND, against); }            \
  static int name##_##kind(cn_call *c)                                                                               \
  {                                                                                                                  \
    cni_conv v = read_call(c, KIND);                                                                                 \
    return compute(&v);                                                                                              \
  }
#define ENTRIES(name, against, compute)                                                                              \
  ENTRY(name, forward, CNI_CONV_FORWARD, against, compute)                                                           \
  ENTRY(name, input, CNI_CONV_INPUT, against, compute)                                                               \
  ENTRY(name, weight, CNI_CONV_WEIGHT, against, compute)
ENTRIES(winograd, cni_conv_winograd_against, cni_conv_winograd)
ENTRIES(winograd_1d, cni_conv_winograd_1d_against, cni_conv_winograd_1d)
ENTRIES(gemm, cni_conv_gemm_against, cni_conv_gemm)
ENTRIES(im2col, cni_conv_im2col_against, cni_conv_im2col)
ENTRIES(depthwise, cni_conv_depthwise_against, cni_conv_depthwise)
ENTRIES(direct, direct_against, cni_conv_direct)

/* conv2d_clamped: where a kernel does not limit what it stores, planes are gone over behind it. */
static void limit_range(int64_t begin, int64_t end, void *payload)
{
  const cni_conv *v = payload;
  const int64_t *s = v->y.strides;
  const cni_gemm_kernels *kernels = CNI_BY_ISA(cni_gemm_kernels);
  const bool whole = s[3] == 1 && s[2] == v->ow;
  for (int64_t i = begin; i < end; i++) {
    float *plane = (float *)(void *)v->y.data + i / v->k * s[0] + i % v->k * s[1];
    if (whole) cni_conv_limit(v, plane, v->oh * v->ow);
    else kernels->limit(plane, s[2], s[3], v->oh, v->ow, &v->limits);
  }
}

static int limit_planes(const cni_conv *v, int status)
{
  enum { GRAIN = 1 << 15 };
  const int64_t plane = v->oh * v->ow;
  if (status || !plane) return status;
  cni_parallel_for(v->n * v->k, GRAIN / plane + 1, limit_range, (void *)(uintptr_t)v);
  return cn_err();
}

#define CLAMPED(name, against, compute)                                                                              \
  static int can_##name##_clamped(const cn_call *c, cn_plan *plan) { return can(c, plan, CNI_CONV_FORWARD, against); } \
  static int name##_clamped(cn_call *c)                                                                              \
  {                                                                                                                  \
    cni_conv v = read_call(c, CNI_CONV_FORWARD);                                                                     \
    return limit_planes(&v, compute(&v));                                                                            \
  }
CLAMPED(winograd, cni_conv_winograd_against, cni_conv_winograd)
CLAMPED(winograd_1d, cni_conv_winograd_1d_against, cni_conv_winograd_1d)
CLAMPED(im2col, cni_conv_im2col_against, cni_conv_im2col)
CLAMPED(direct, direct_against, cni_conv_direct)

#define LIBRARY(kind, KIND)                                                                                          \
  static int can_onednn_##kind(const cn_call *c, cn_plan *plan) { return can_onednn(c, plan, KIND); }                \
  static int onednn_##kind(cn_call *c) { return run_onednn(c, KIND); }                                               \
  static int reference_##kind(cn_call *c)                                                                            \
  {                                                                                                                  \
    cni_conv v = read_call(c, KIND);                                                                                 \
    return run_reference(&v);                                                                                        \
  }
LIBRARY(forward, CNI_CONV_FORWARD)
LIBRARY(input, CNI_CONV_INPUT)
LIBRARY(weight, CNI_CONV_WEIGHT)

/* What is made of a weight once. */
#define PREPARE(name)                                                                                                \
  static int prepare_##name(const cn_call *c, cn_prepared *made)                                                       \
  {                                                                                                                    \
    cni_conv v = read_call(c, CNI_CONV_FORWARD);                                                                       \
    made->of = 1u << 1;                                                                                                \
    return cni_conv_##name##_prepare(&v, made);                                                                        \
  }
PREPARE(winograd)
PREPARE(gemm)
PREPARE(direct)

#define ROW(op, name, kind, prepare) {op, #name, name##_##kind, can_##name##_##kind, prepare, CN_KERNEL_NEAR}
#define ROWS(op, kind, winograd_too, gemm_too, direct_too)                                                           \
  ROW(op, winograd, kind, winograd_too), ROW(op, winograd_1d, kind, NULL), ROW(op, gemm, kind, gemm_too),              \
      ROW(op, im2col, kind, NULL), ROW(op, depthwise, kind, NULL), ROW(op, onednn, kind, NULL),                        \
      ROW(op, direct, kind, direct_too), {op, "reference", reference_##kind}

const cn_kernel cni_cpu_conv_kernels[] = {
#if defined(__x86_64__)
    ROW("conv2d", tiles, forward, prepare_tiles),
    ROW("conv2d_grad_input", tiles, input, NULL),
#endif
    ROWS("conv2d", forward, prepare_winograd, prepare_gemm, prepare_direct),
    ROWS("conv2d_grad_input", input, NULL, NULL, NULL),
    ROWS("conv2d_grad_weight", weight, NULL, NULL, NULL),
    ROW("conv2d_clamped", winograd, clamped, prepare_winograd),
    ROW("conv2d_clamped", winograd_1d, clamped, NULL),
    ROW("conv2d_clamped", gemm, forward, prepare_gemm),
    ROW("conv2d_clamped", im2col, clamped, NULL),
    ROW("conv2d_clamped", depthwise, forward, NULL),
    ROW("conv2d_clamped", direct, clamped, prepare_direct),
    {NULL, NULL, NULL},
};
