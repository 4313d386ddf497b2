/* scan.c: running sums, products and extremes along a dim on the CPU.
 *
 * Place in the flow: kernels of ops/order.c; sums and products run in scan_isa.c. The input is brought into
 * the result's memory first where its type or layout differs, so every loop reads and writes rows of one
 * type. Invariant: each line is one chain, so results depend neither on the layout nor on the number of
 * threads. */
#include "scan.h"

#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/walk/nontemporal.h"
#include "base/convert.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "ops/infer.h"

enum { COLUMNS = CNI_SCAN_COLUMNS, GRAIN = 8192, BLOCK = 512 };

/* The input as (outer, n, inner), row-major like the results. */
typedef struct scan {
  int64_t outer, n, inner, blocks; /* blocks of COLUMNS columns in inner */
  int dtype, kind;                 /* kind: 0 sum or max, 1 product or min */
  const void *x;
  void *y;
  int64_t *index;
  bool nontemporal; /* y goes past the caches */
} scan;

static const cni_scan_table *table(void) { return CNI_BY_ISA(cni_scan_table); }

/* CNI_SCAN_LINES lines from byte `at` on, one behind the other, block by block past the caches. */
static void nontemporal_lines(const scan *s, int64_t at)
{
  /* Lines a power of two apart fall into the same sets of the cache: those of the buffer do not. */
  _Alignas(64) char made[CNI_SCAN_LINES][BLOCK * 8 + CNI_LINE];
  double carry[CNI_SCAN_LINES];
  int64_t size = (int64_t)cni_dtype_size(s->dtype), pitch = (int64_t)sizeof made[0] / size;
  cni_scan_lines_fn fn = table()->lines[s->dtype][s->kind];
  for (int64_t done = 0; done < s->n; done += BLOCK) {
    int64_t m = s->n - done < BLOCK ? s->n - done : BLOCK;
    fn(made, pitch, (const char *)s->x + at + done * size, s->n, m, carry, done == 0);
    for (int k = 0; k < CNI_SCAN_LINES; k++)
      cni_nontemporal_copy((char *)s->y + at + (k * s->n + done) * size, made[k], (size_t)(m * size));
  }
}

/* Lines [begin, end), one behind the other. */
static void lines_range(int64_t begin, int64_t end, void *payload)
{
  const scan *s = payload;
  double carry[CNI_SCAN_LINES];
  int64_t line = s->n * (int64_t)cni_dtype_size(s->dtype), u = begin;
  for (; u + CNI_SCAN_LINES <= end; u += CNI_SCAN_LINES) {
    if (s->nontemporal) nontemporal_lines(s, u * line);
    else
      table()->lines[s->dtype][s->kind]((char *)s->y + u * line, s->n, (const char *)s->x + u * line, s->n, s->n, carry,
                                        true);
  }
  for (; u < end; u++)
    table()->scan[s->dtype][s->kind]((char *)s->y + u * line, (const char *)s->x + u * line, s->n, 1, 1);
  if (s->nontemporal) cni_nontemporal_end();
}

static void scan_range(int64_t begin, int64_t end, void *payload)
{
  const scan *s = payload;
  cni_scan_fn fn = table()->scan[s->dtype][s->kind];
  int64_t size = (int64_t)cni_dtype_size(s->dtype);
  for (int64_t u = begin; u < end; u++) {
    int64_t column = u % s->blocks * COLUMNS, m = s->inner - column < COLUMNS ? s->inner - column : COLUMNS;
    int64_t at = (u / s->blocks * s->n * s->inner + column) * size;
    fn((char *)s->y + at, (const char *)s->x + at, s->n, s->inner, m);
  }
}

/* ---- cummax and cummin ---- */

#define SAME(v) (v)
#define EXTREME(S, T, V, LOAD, IS_NAN)                                                                       \
  static void extreme_##S(const scan *s, int64_t at)                                                         \
  {                                                                                                          \
    const T *x = (const T *)s->x + at;                                                                       \
    T *y = (T *)s->y + at;                                                                                   \
    int64_t *index = s->index + at, best_at = 0;                                                             \
    V best = 0;                                                                                              \
    for (int64_t i = 0; i < s->n; i++) {                                                                     \
      V v = LOAD(x[i * s->inner]);                                                                           \
      if (i == 0 || IS_NAN(v) || (!IS_NAN(best) && (s->kind ? v <= best : v >= best))) {                     \
        best = v;                                                                                            \
        best_at = i;                                                                                         \
      }                                                                                                      \
      y[i * s->inner] = x[best_at * s->inner];                                                               \
      index[i * s->inner] = best_at;                                                                         \
    }                                                                                                        \
  }
#define NEVER(v) false
#define IS_NAN(v) ((v) != (v))
EXTREME(f64, double, double, SAME, IS_NAN)
EXTREME(f32, float, float, SAME, IS_NAN)
EXTREME(f16, uint16_t, float, cni_f16_to_f32, IS_NAN)
EXTREME(bf16, uint16_t, float, cni_bf16_to_f32, IS_NAN)
EXTREME(i64, int64_t, int64_t, SAME, NEVER)
EXTREME(i32, int32_t, int32_t, SAME, NEVER)
EXTREME(i16, int16_t, int16_t, SAME, NEVER)
EXTREME(i8, int8_t, int8_t, SAME, NEVER)
EXTREME(u64, uint64_t, uint64_t, SAME, NEVER)
EXTREME(u32, uint32_t, uint32_t, SAME, NEVER)
EXTREME(u16, uint16_t, uint16_t, SAME, NEVER)
EXTREME(u8, uint8_t, uint8_t, SAME, NEVER)

static void extreme_range(int64_t begin, int64_t end, void *payload)
{
  static void (*const table[CN_DTYPE_COUNT])(const scan *, int64_t) = {
      [CN_BOOL] = extreme_u8, [CN_U8] = extreme_u8,   [CN_I8] = extreme_i8,     [CN_I16] = extreme_i16,
      [CN_U16] = extreme_u16, [CN_I32] = extreme_i32, [CN_U32] = extreme_u32,   [CN_I64] = extreme_i64,
      [CN_U64] = extreme_u64, [CN_F16] = extreme_f16, [CN_BF16] = extreme_bf16, [CN_F32] = extreme_f32,
      [CN_F64] = extreme_f64};
  const scan *s = payload;
  for (int64_t u = begin; u < end; u++) table[s->dtype](s, u / s->inner * s->n * s->inner + u % s->inner);
}

/* ---- kernels ---- */

/* Describes the call; false when there is nothing to do. */
static bool prepare(scan *s, cn_call *c, int kind)
{
  const cn_desc *x = cn_desc_of(c->in[0]), *y = cn_desc_of(c->out[0]);
  int dim = cn_call_dim(c, c->args[1].u.i, x->ndim);
  if (y->numel == 0) return false;
  *s = (scan){.outer = 1,
              .n = x->ndim ? x->shape[dim] : 1,
              .inner = 1,
              .dtype = y->dtype,
              .kind = kind,
              .y = y->data};
  for (int i = 0; i < dim; i++) s->outer *= x->shape[i];
  for (int i = dim + 1; i < x->ndim; i++) s->inner *= x->shape[i];
  s->blocks = (s->inner + COLUMNS - 1) / COLUMNS;
  s->x = x->data;
  if (s->n == 1 && s->inner == 1) { /* lines of one element, which may as well lie side by side */
    s->inner = s->outer;
    s->outer = 1;
    s->blocks = (s->inner + COLUMNS - 1) / COLUMNS;
  }
  if (x->dtype != y->dtype || !cni_is_contiguous(x->ndim, x->shape, x->strides)) {
    cni_cpu_copy(y, x); /* then scan the result in place */
    s->x = y->data;
  }
  return true;
}

static int scan_kernel(cn_call *c, int kind)
{
  scan s;
  if (!prepare(&s, c, kind)) return CN_OK;
  if (s.inner == 1) {
    int64_t bytes = 2 * (int64_t)cni_dtype_bytes(s.dtype, s.outer * s.n);
    s.nontemporal = s.x != s.y && s.n >= BLOCK / 4 && cni_nontemporal_pays(bytes);
    cni_parallel_for(s.outer, s.n < GRAIN / CNI_SCAN_LINES ? GRAIN / s.n : CNI_SCAN_LINES, lines_range, &s);
    return CN_OK;
  }
  int64_t work = s.n * (s.inner < COLUMNS ? s.inner : COLUMNS);
  cni_parallel_for(s.outer * s.blocks, work < GRAIN ? GRAIN / work : 1, scan_range, &s);
  return CN_OK;
}

static int extreme_kernel(cn_call *c, int kind)
{
  scan s;
  if (!prepare(&s, c, kind)) return CN_OK;
  s.index = cn_desc_of(c->out[1])->data;
  if (s.n == 1) {
    cni_cpu_copy(cn_desc_of(c->out[0]), cn_desc_of(c->in[0]));
    memset(s.index, 0, (size_t)(s.outer * s.inner) * sizeof *s.index);
    return CN_OK;
  }
  cni_parallel_for(s.outer * s.inner, s.n < GRAIN ? GRAIN / s.n : 1, extreme_range, &s);
  return CN_OK;
}

static int cumsum_kernel(cn_call *c) { return scan_kernel(c, 0); }
static int cumprod_kernel(cn_call *c) { return scan_kernel(c, 1); }
static int cummax_kernel(cn_call *c) { return extreme_kernel(c, 0); }
static int cummin_kernel(cn_call *c) { return extreme_kernel(c, 1); }

const cn_kernel cni_cpu_scan_kernels[] = {
    {"cumsum", "rows and columns", cumsum_kernel},
    {"cumprod", "rows and columns", cumprod_kernel},
    {"cummax", "reference", cummax_kernel},
    {"cummin", "reference", cummin_kernel},
    {NULL, NULL, NULL},
};
