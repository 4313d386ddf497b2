/* dropout.c: the CPU kernels of native_dropout, and of what is drawn later.
 *
 * Place in the flow: the family of ops/dropout.c; dropout_isa.c has the loops. Invariant: an element is kept or not by
 * its own draw, whichever thread makes it; halves are computed in float32. */
#include "dropout.h"

#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/random/random.h"
#include "backends/cpu/walk/iter.h"
#include "base/convert.h"
#include "base/parallel.h"
#include "base/philox.h"
#include "base/scratch.h"
#include "tensor/tensor.h"

enum { GRAIN = 8192, UNIT = CNI_DRAWS_32 };

static const cni_dropout_table *loops(void) { return CNI_BY_ISA(cni_dropout_table); }
static const cni_random_table *draws(void) { return CNI_BY_ISA(cni_random_table); }

typedef struct dropping {
  uint64_t seed, offset;
  uint8_t *mask;
  int64_t n;
  double keep, scale; /* probability; 1 / keep */
} dropping;

static void mask_range(int64_t begin, int64_t end, void *payload)
{
  const dropping *d = payload;
  _Alignas(64) float u[UNIT];
  float keep = (float)d->keep;
  for (int64_t unit = begin; unit < end; unit++) {
    int64_t first = unit * UNIT, m = d->n - first < UNIT ? d->n - first : UNIT;
    draws()->unit_f32(u, first, m, d->seed, d->offset, 24);
    loops()->below(d->mask + first, u, m, keep);
  }
}

#define HALF_ROW(name, to, from)                                                                                     \
  static void name(char *const *ptr, const int64_t *stride, int64_t n, void *payload)                                \
  {                                                                                                                  \
    float scale = (float)((const dropping *)payload)->scale;                                                         \
    for (int64_t i = 0; i < n; i++) {                                                                                \
      uint16_t x = *(const uint16_t *)(const void *)(ptr[1] + i * stride[1]);                                        \
      float kept = (float)*(const uint8_t *)(ptr[2] + i * stride[2]) * scale;                                        \
      *(uint16_t *)(void *)(ptr[0] + i * stride[0]) = from(to(x) * kept);                                            \
    }                                                                                                                \
  }
HALF_ROW(drop_f16, cni_f16_to_f32, cni_f32_to_f16)
HALF_ROW(drop_bf16, cni_bf16_to_f32, cni_f32_to_bf16)

#define FLOAT_ROW(name, T, loop)                                                                                     \
  static void name(char *const *ptr, const int64_t *stride, int64_t n, void *payload)                                \
  {                                                                                                                  \
    T scale = (T)((const dropping *)payload)->scale;                                                                 \
    if (stride[0] == (int64_t)sizeof(T) && stride[1] == stride[0] && stride[2] == 1) {                               \
      loops()->loop((T *)(void *)ptr[0], (const T *)(const void *)ptr[1], (const uint8_t *)ptr[2], n, scale);        \
      return;                                                                                                        \
    }                                                                                                                \
    for (int64_t i = 0; i < n; i++)                                                                                  \
      *(T *)(void *)(ptr[0] + i * stride[0]) = *(const T *)(const void *)(ptr[1] + i * stride[1]) *                  \
                                               ((T) * (const uint8_t *)(ptr[2] + i * stride[2]) * scale);            \
  }
FLOAT_ROW(drop_f32, float, masked_f32)
FLOAT_ROW(drop_f64, double, masked_f64)

/* y = x where a draw keeps an element, scaled. mask: which those are. */
static int drop(const cn_desc *y, const cn_desc *x, const cn_desc *mask, double p, uint64_t seed, uint64_t offset)
{
  static const cni_row_fn row[CN_DTYPE_COUNT] = {
      [CN_F16] = drop_f16, [CN_BF16] = drop_bf16, [CN_F32] = drop_f32, [CN_F64] = drop_f64};
  double keep = 1 - p;
  dropping d = {seed, offset, mask->data, y->numel, keep, 1 / keep};
  cni_parallel_for((d.n + UNIT - 1) / UNIT, GRAIN / UNIT, mask_range, &d);
  cni_iter it;
  cni_iter_begin(&it, y->ndim, y->shape);
  cni_iter_add(&it, y);
  cni_iter_add(&it, x);
  cni_iter_add(&it, mask);
  cni_iter_finish(&it);
  cni_iter_run(&it, GRAIN * 4, row[x->dtype], &d);
  return CN_OK;
}

void cni_dropout_choices(void *kept, bool f64, int64_t first, int64_t n, const uint64_t from[2], double keep)
{
  _Alignas(64) float u[UNIT];
  for (int64_t m; n > 0; first += m, n -= m, kept = (char *)kept + m * (f64 ? 8 : 4)) {
    m = UNIT - first % UNIT < n ? UNIT - first % UNIT : n;
    draws()->unit_f32(u, first, m, from[0], from[1], 24);
    if (f64) loops()->kept_f64(kept, u, m, (float)keep);
    else loops()->kept_f32(kept, u, m, (float)keep);
  }
}

static double number(const cn_value *v) { return v->tag == CN_V_FLOAT ? v->u.f : (double)v->u.i; }

/* native_dropout(input, p) */
static int native_dropout_kernel(cn_call *c)
{
  return drop(cn_desc_of(c->out[0]), cn_desc_of(c->in[0]), cn_desc_of(c->out[1]), number(&c->args[1]), c->seed,
              c->offset);
}

/* reserve_draws(size, device) */
static int reserve_kernel(cn_call *c)
{
  int64_t *to = cn_desc_of(c->out[0])->data;
  to[0] = (int64_t)c->seed;
  to[1] = (int64_t)c->offset;
  return CN_OK;
}

/* dropped_ones(draws, size, p, dtype) */
static int dropped_ones_kernel(cn_call *c)
{
  static const uint16_t one_f16 = 0x3c00, one_bf16 = 0x3f80;
  static const float one_f32 = 1;
  static const double one_f64 = 1;
  static const void *const ones[CN_DTYPE_COUNT] = {
      [CN_F16] = &one_f16, [CN_BF16] = &one_bf16, [CN_F32] = &one_f32, [CN_F64] = &one_f64};
  const cn_desc *y = cn_desc_of(c->out[0]), *draws = cn_desc_of(c->in[0]);
  const int64_t *begin = draws->data;
  cn_desc x = *y, mask;
  if (!y->numel) return CN_OK;
  void *room = cni_scratch_alloc((size_t)y->numel);
  if (!room) return CN_ERR_MEMORY;
  mask = cni_cpu_packed(y, CN_BOOL, room);
  x.data = (void *)(uintptr_t)ones[y->dtype];
  memset(x.strides, 0, sizeof x.strides);
  int status = drop(y, &x, &mask, number(&c->args[2]), (uint64_t)begin[0], (uint64_t)begin[draws->strides[0]]);
  cni_scratch_free(room, (size_t)y->numel);
  return status;
}

const cn_kernel cni_cpu_dropout_kernels[] = {
    {"native_dropout", "philox", native_dropout_kernel},
    {"reserve_draws", "philox", reserve_kernel},
    {"dropped_ones", "philox", dropped_ones_kernel},
    {NULL, NULL, NULL},
};
