/* resample.c: the CPU kernels of resample and its transpose: a table of which elements make up each element of the
 * result, then rows of the other dims are added up by it.
 *
 * Place in the flow: interpolate calls it once per dim. Invariant: what lies in front of the dim is shared out to the
 * threads, each piece is one thread's work in one order, so results never depend on their number. */
#include <math.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/reduce/moments.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "ops/infer.h"
#include "ops/resample.h"

enum { GRAIN_WORK = 1 << 15 };

typedef struct plan {
  int64_t in, out, inner; /* sizes along the dim, of the input and the result; elements behind it */
  int mode;
  bool corners, antialias;
  double scale; /* 0: the ratio of the sizes */
  int64_t most; /* elements of the input that make up one of the result, at most */
  int64_t *index, *count; /* (out, most), (out) */
  void *weight;           /* (out, most) of the compute type; f64 for bytes, which use ... */
  int32_t *whole;         /* ... these: weights as multiples of 2^-bits */
  int bits;
  const char *from;
  char *to;
  int64_t elem;
  void (*run)(const struct plan *p, const void *from, void *to);
  bool back;
} plan;

#define T float
#define NAME(name) name##_f32
static inline float floor_f32(float x) { return floorf(x); }
static inline float fma_f32(float x, float y, float z) { return fmaf(x, y, z); }
#include "resample_kernel.inc"

#define T double
#define NAME(name) name##_f64
static inline double floor_f64(double x) { return floor(x); }
static inline double fma_f64(double x, double y, double z) { return fma(x, y, z); }
#include "resample_kernel.inc"

/* ---- bytes ---- */

/* Elements named twice, at a border, count once, by the sum of their weights. */
static void merge_equal(plan *p)
{
  double *weight = p->weight;
  for (int64_t i = 0; i < p->out; i++, weight += p->most) {
    int64_t *index = p->index + i * p->most, n = 0;
    for (int64_t k = 0; k < p->count[i]; k++)
      if (n && index[n - 1] == index[k]) weight[n - 1] += weight[k];
      else {
        weight[n] = weight[k];
        index[n++] = index[k];
      }
    p->count[i] = n;
  }
}

/* Weights as whole numbers of 16 bits, as fine as the largest of them allows. */
static void make_whole(plan *p)
{
  const double *weight = p->weight;
  double most = 0;
  merge_equal(p);
  for (int64_t i = 0; i < p->out; i++)
    for (int64_t k = 0; k < p->count[i]; k++) most = fmax(most, weight[i * p->most + k]);
  for (p->bits = 0; p->bits < 22; p->bits++)
    if (0.5 + most * (double)(1 << (p->bits + 1)) >= 1 << 15) break;
  for (int64_t i = 0; i < p->out; i++)
    for (int64_t k = 0; k < p->count[i]; k++) {
      double w = weight[i * p->most + k] * (double)(1 << p->bits);
      p->whole[i * p->most + k] = (int32_t)(w < 0 ? w - 0.5 : w + 0.5);
    }
}

static void forward_u8(const plan *p, const void *from, void *to)
{
  const uint8_t *x = from;
  uint8_t *y = to;
  for (int64_t i = 0; i < p->out; i++) {
    const int64_t *index = p->index + i * p->most;
    const int32_t *weight = p->whole + i * p->most;
    for (int64_t e = 0; e < p->inner; e++) {
      int32_t sum = p->bits ? 1 << (p->bits - 1) : 0;
      for (int64_t k = 0; k < p->count[i]; k++) sum += weight[k] * x[index[k] * p->inner + e];
      sum >>= p->bits;
      *y++ = (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
    }
  }
}

/* ---- all types ---- */

static void outer_range(int64_t begin, int64_t end, void *payload)
{
  const plan *p = payload;
  int64_t before = (p->back ? p->out : p->in) * p->inner * p->elem;
  int64_t after = (p->back ? p->in : p->out) * p->inner * p->elem;
  for (int64_t o = begin; o < end; o++) p->run(p, p->from + o * before, p->to + o * after);
}

/* How many elements of the input an element of the result may have. */
static int64_t most_of(const plan *p)
{
  if (p->mode == CNI_NEAREST || p->mode == CNI_NEAREST_EXACT) return 1;
  int64_t width = p->mode == CNI_LINEAR ? 2 : 4;
  if (!p->antialias) return width;
  double ratio = p->corners       ? (p->out > 1 ? (double)(p->in - 1) / (double)(p->out - 1) : 0)
                 : p->scale > 0 ? 1 / p->scale
                                : (double)p->in / (double)p->out;
  double most = ceil((double)width / 2 * (ratio > 1 ? ratio : 1)) * 2 + 2;
  return most < (double)p->in ? (int64_t)most : p->in;
}

static plan read_call(const cn_call *c, const cn_desc *x, const cn_desc *y, int dim, bool back)
{
  plan p = {.in = (back ? y : x)->shape[dim],
            .out = (back ? x : y)->shape[dim],
            .inner = 1,
            .mode = cni_resample_mode_find(cni_arg_str(c->args, 3)),
            .corners = cni_arg_bool(c->args, 4),
            .scale = cni_arg_float(c->args, 5),
            .antialias = cni_arg_bool(c->args, 6),
            .back = back};
  for (int i = dim + 1; i < x->ndim; i++) p.inner *= x->shape[i];
  p.elem = (int64_t)cni_dtype_size(x->dtype);
  p.most = most_of(&p);
  if (x->dtype == CN_U8) p.run = forward_u8;
  else if (x->dtype == CN_F32) p.run = back ? backward_f32 : forward_f32;
  else p.run = back ? backward_f64 : forward_f64;
  return p;
}

static int run(cn_call *c, bool back)
{
  const cn_desc *x = cn_desc_of(c->in[0]), *y = cn_desc_of(c->out[0]);
  int dim = (int)cni_arg_int(c->args, 1);
  if (dim < 0) dim += x->ndim;
  plan p = read_call(c, x, y, dim, back);
  cni_operand from = {0}, to = {0};
  size_t table = (size_t)(p.out * p.most), bytes = table * 20 + (size_t)p.out * 8;
  char *block = cni_scratch_alloc(bytes);
  int status = block ? CN_OK : CN_ERR_MEMORY;
  if (!status) status = cni_operand_take(&from, x, x->dtype, NULL);
  if (!status) status = cni_operand_room(&to, y, y->dtype, NULL);
  if (!status && x->numel) {
    p.index = (int64_t *)(void *)block;
    p.count = p.index + table;
    p.weight = p.count + p.out;
    p.whole = (int32_t *)(void *)((char *)p.weight + table * 8);
    if (x->dtype == CN_F32) weights_f32(&p);
    else weights_f64(&p);
    if (x->dtype == CN_U8) make_whole(&p);
    p.from = from.data;
    p.to = to.data;
    int64_t work = p.out * p.most * p.inner;
    cni_parallel_for(x->numel / (x->shape[dim] * p.inner), GRAIN_WORK / (work < 1 ? 1 : work) + 1, outer_range, &p);
  }
  cni_scratch_free(block, bytes);
  cni_operand_drop(&from);
  cni_operand_put(&to, y, status);
  return status;
}

static int resample_kernel(cn_call *c) { return run(c, false); }
static int resample_backward_kernel(cn_call *c) { return run(c, true); }

const cn_kernel cni_cpu_resample_kernels[] = {
    {"resample", "rows", resample_kernel},
    {"resample_backward", "rows", resample_backward_kernel},
    {NULL, NULL, NULL},
};
