/* random.c: CPU kernels of the ops that draw random numbers.
 *
 * Place in the flow: the create family's random ops; apply gives each call its seed and first counter.
 * Invariant: element i, in row-major order whatever the memory order, depends on (seed, offset, i) alone. */
#include "random.h"

#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/walk/cast.h"
#include "base/convert.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "base/philox.h"
#include "base/scratch.h"
#include "tensor/tensor.h"

/* Elements of the unit that work is split in; units a thread takes at least. */
enum { UNIT = CNI_DRAWS_32, GRAIN = 64 };

static const cni_random_table *table(void) { return CNI_BY_ISA(cni_random_table); }

/* Bits of precision of a floating-point type that can be drawn; 0 for other types. */
static int precision(int dtype)
{
  switch (dtype) {
  case CN_F16: return 11;
  case CN_BF16: return 8;
  case CN_F32: return 24;
  case CN_F64: return 53;
  default: return 0;
  }
}

/* One call's work over contiguous memory. */
typedef struct drawing {
  const cn_call *c;
  char *out;
  int64_t n;
  size_t elem;
  cni_draw_fn draw;
  cni_cast_fn cast; /* from what draw makes; NULL: that is the result's type */
  int bits;
  int64_t low;      /* randint */
  uint64_t span;    /* ... high - low; 0 stands for 2^64 */
  const char *p;    /* bernoulli: probabilities, contiguous, in the type drawn */
  size_t psize;
  cni_trial_fn trials;
} drawing;

/* ---- where the result goes ---- */

/* Contiguous memory of the result's type and shape: its own, or a temporary that finish copies and frees. */
static char *start_result(const cn_desc *d)
{
  if (cni_is_contiguous(d->ndim, d->shape, d->strides)) return d->data;
  return cni_scratch_alloc(cni_dtype_bytes(d->dtype, d->numel));
}

static void finish_result(const cn_desc *d, char *memory)
{
  if (memory == d->data) return;
  cn_desc from = cni_cpu_packed(d, d->dtype, memory);
  cni_cpu_copy(d, &from);
  cni_scratch_free(memory, cni_dtype_bytes(d->dtype, d->numel));
}

/* Runs fn over units of the result. */
static int run_drawing(drawing *w, cni_range_fn fn)
{
  const cn_desc *d = cn_desc_of(w->c->out[0]);
  w->n = d->numel;
  w->elem = cni_dtype_size(d->dtype);
  if (w->n == 0) return CN_OK;
  w->out = start_result(d);
  if (!w->out) return CN_ERR_MEMORY;
  cni_parallel_for((w->n + UNIT - 1) / UNIT, GRAIN, fn, w);
  finish_result(d, w->out);
  return cn_err();
}

static int64_t unit_end(const drawing *w, int64_t units) { return units * UNIT < w->n ? units * UNIT : w->n; }

/* ---- floats ---- */

static void draw_floats(int64_t begin, int64_t end, void *payload)
{
  const drawing *w = payload;
  int64_t first = begin * UNIT, last = unit_end(w, end);
  _Alignas(64) float block[UNIT];
  if (!w->cast) {
    w->draw(w->out + first * (int64_t)w->elem, first, last - first, w->c->seed, w->c->offset, w->bits);
    return;
  }
  for (; first < last; first += UNIT) {
    int64_t m = last - first < UNIT ? last - first : UNIT;
    w->draw(block, first, m, w->c->seed, w->c->offset, w->bits);
    w->cast(w->out + first * (int64_t)w->elem, block, (size_t)m);
  }
}

static int run_floats(cn_call *c, cni_draw_fn f32, cni_draw_fn f64)
{
  int dtype = cn_desc_of(c->out[0])->dtype;
  drawing w = {.c = c, .bits = precision(dtype), .draw = dtype == CN_F64 ? f64 : f32};
  if (!w.bits)
    return cn_call_fail(c, CN_ERR_DTYPE, "draws float32, float64, float16 or bfloat16, not %s",
                        cn_dtype_name((cn_dtype)dtype));
  if (w.bits < 24) w.cast = cni_cast_find(CN_F32, dtype);
  return run_drawing(&w, draw_floats);
}

static int rand_kernel(cn_call *c) { return run_floats(c, table()->unit_f32, table()->unit_f64); }
static int randn_kernel(cn_call *c) { return run_floats(c, table()->normal_f32, table()->normal_f64); }

/* ---- integers ---- */

__extension__ typedef unsigned __int128 wide;

/* 0 .. span - 1 from 64 random bits; uneven by less than span / 2^64. span 0 stands for 2^64. */
static uint64_t below(uint64_t word, uint64_t span)
{
  return span ? (uint64_t)((wide)word * span >> 64) : word;
}

static void draw_ints(int64_t begin, int64_t end, void *payload)
{
  const drawing *w = payload;
  uint64_t block[UNIT];
  int64_t last = unit_end(w, end);
  for (int64_t first = begin * UNIT; first < last; first += UNIT) {
    int64_t m = last - first < UNIT ? last - first : UNIT;
    w->draw(block, first, m, w->c->seed, w->c->offset, 0);
    for (int64_t k = 0; k < m; k++) block[k] = (uint64_t)w->low + below(block[k], w->span);
    w->cast(w->out + first * (int64_t)w->elem, block, (size_t)m);
  }
}

static bool fits(int64_t value, int dtype)
{
  char element[8];
  if (!cni_dtype_is_float(dtype)) {
    cni_store_i64(element, 0, dtype, value);
    return cni_load_i64(element, 0, dtype) == value;
  }
  int bits = precision(dtype);
  return bits && value <= (int64_t)1 << bits && value >= -((int64_t)1 << bits);
}

/* randint(low, high, size, ...) */
static int randint_kernel(cn_call *c)
{
  int dtype = cn_desc_of(c->out[0])->dtype;
  int64_t low = c->args[0].u.i, high = c->args[1].u.i;
  if (!fits(low, dtype) || !fits(high - 1, dtype))
    return cn_call_fail(c, CN_ERR_VALUE, "%s does not hold all integers from %lld to %lld",
                        cn_dtype_name((cn_dtype)dtype), (long long)low, (long long)(high - 1));
  drawing w = {.c = c, .draw = table()->u64, .low = low, .span = (uint64_t)high - (uint64_t)low,
               .cast = cni_cast_find(CN_I64, dtype)};
  return run_drawing(&w, draw_ints);
}

/* Fisher and Yates: place i gets one of the n - i numbers not yet placed; word i of the call decides.
 * Sequential, because each step reads what the ones before it moved. */
static void shuffle(int64_t *order, int64_t n, const cn_call *c)
{
  uint64_t block[UNIT];
  for (int64_t i = 0; i < n; i++) order[i] = i;
  for (int64_t first = 0; first < n; first += UNIT) {
    int64_t m = n - first < UNIT ? n - first : UNIT;
    table()->u64(block, first, m, c->seed, c->offset, 0);
    for (int64_t k = 0; k < m; k++) {
      int64_t i = first + k, other = i + (int64_t)below(block[k], (uint64_t)(n - i)), kept = order[i];
      order[i] = order[other];
      order[other] = kept;
    }
  }
}

/* randperm(n, ...) */
static int randperm_kernel(cn_call *c)
{
  const cn_desc *d = cn_desc_of(c->out[0]);
  size_t size = (size_t)d->numel * sizeof(int64_t);
  if (d->numel == 0) return CN_OK;
  if (!fits(d->numel - 1, d->dtype))
    return cn_call_fail(c, CN_ERR_VALUE, "%s does not hold all integers up to %lld",
                        cn_dtype_name((cn_dtype)d->dtype), (long long)(d->numel - 1));
  bool direct = d->dtype == CN_I64 && d->strides[0] == 1;
  int64_t *order = direct ? d->data : cni_scratch_alloc(size);
  if (!order) return CN_ERR_MEMORY;
  shuffle(order, d->numel, c);
  if (direct) return CN_OK;
  cn_desc from = cni_cpu_packed(d, CN_I64, order);
  cni_cpu_copy(d, &from);
  cni_scratch_free(order, size);
  return CN_OK;
}

/* ---- bernoulli ---- */

static void draw_trials(int64_t begin, int64_t end, void *payload)
{
  const drawing *w = payload;
  union {
    float f[UNIT];
    double d[UNIT];
  } u;
  int64_t last = unit_end(w, end);
  for (int64_t first = begin * UNIT; first < last; first += UNIT) {
    int64_t m = last - first < UNIT ? last - first : UNIT;
    w->draw(&u, first, m, w->c->seed, w->c->offset, 24);
    if (!w->trials(&u, w->p + first * (int64_t)w->psize, m)) {
      cn_call_fail(w->c, CN_ERR_VALUE, "a probability lies outside 0 to 1");
      return;
    }
    w->cast(w->out + first * (int64_t)w->elem, &u, (size_t)m);
  }
}

/* bernoulli(input): the draws are float32 whatever the type (float64 for float64), so that small
 * probabilities of float16 are met. */
static int bernoulli_kernel(cn_call *c)
{
  const cn_desc *p = cn_desc_of(c->in[0]), *d = cn_desc_of(c->out[0]);
  bool is_double = p->dtype == CN_F64;
  int dtype = is_double ? CN_F64 : CN_F32;
  drawing w = {.c = c, .psize = cni_dtype_size(dtype), .cast = cni_cast_find(dtype, d->dtype)};
  w.draw = is_double ? table()->unit_f64 : table()->unit_f32;
  w.trials = is_double ? table()->trials_f64 : table()->trials_f32;
  bool direct = p->dtype == dtype && cni_is_contiguous(p->ndim, p->shape, p->strides);
  size_t size = (size_t)p->numel * w.psize;
  void *copy = direct ? NULL : cni_scratch_alloc(size);
  if (!direct && !copy) return CN_ERR_MEMORY;
  w.p = direct ? p->data : copy;
  if (!direct) {
    cn_desc to = cni_cpu_packed(p, dtype, copy);
    cni_cpu_copy(&to, p);
  }
  int status = run_drawing(&w, draw_trials);
  cni_scratch_free(copy, size);
  return status;
}

const cn_kernel cni_cpu_random_kernels[] = {
    {"rand", "philox", rand_kernel},
    {"rand_like", "philox", rand_kernel},
    {"randn", "philox", randn_kernel},
    {"randn_like", "philox", randn_kernel},
    {"randint", "philox", randint_kernel},
    {"randperm", "philox", randperm_kernel},
    {"bernoulli", "philox", bernoulli_kernel},
    {NULL, NULL, NULL},
};
