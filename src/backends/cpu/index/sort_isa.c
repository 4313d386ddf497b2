/* sort_isa.c: see sort.h; compiled once per instruction set. */
#include "sort.h"

#include <string.h>

#include "backends/cpu/isa.h"

/* u holds the bits of a float: sign, then `inf` is the code of infinity. */
#define FLOAT_KEY(T, sign, inf)                                                                              \
  ((T)(u & (T)((sign)-1)) > (T)(inf) ? (T) ~(T)0                                                             \
   : (T)(u & (T)((sign)-1)) == 0     ? (T)(sign)                                                             \
                                     : (T)(u & (T)(sign) ? (T)~u : (T)(u | (T)(sign))))

#define KEYS(S, T, EXPRESSION)                                                                               \
  static void keys_##S(uint64_t *key, const char *x, int64_t step, int64_t n, uint64_t flip)                 \
  {                                                                                                          \
    T u, line[256];                                                                                          \
    if (step == sizeof u) {                                                                                  \
      for (int64_t i = 0; i < n; i += 256) { /* through memory whose alignment is known */                   \
        int64_t some = n - i < 256 ? n - i : 256;                                                            \
        memcpy(line, x + i * (int64_t)sizeof u, (size_t)some * sizeof u);                                    \
        for (int64_t k = 0; k < some; k++) {                                                                 \
          u = line[k];                                                                                       \
          key[i + k] = (uint64_t)(T)(EXPRESSION) ^ flip;                                                     \
        }                                                                                                    \
      }                                                                                                      \
      return;                                                                                                \
    }                                                                                                        \
    for (int64_t i = 0; i < n; i++, x += step) {                                                             \
      memcpy(&u, x, sizeof u);                                                                               \
      key[i] = (uint64_t)(T)(EXPRESSION) ^ flip;                                                             \
    }                                                                                                        \
  }
KEYS(f64, uint64_t, FLOAT_KEY(uint64_t, UINT64_C(1) << 63, UINT64_C(0x7ff0000000000000)))
KEYS(f32, uint32_t, FLOAT_KEY(uint32_t, UINT32_C(1) << 31, 0x7f800000))
KEYS(f16, uint16_t, FLOAT_KEY(uint16_t, 1 << 15, 0x7c00))
KEYS(bf16, uint16_t, FLOAT_KEY(uint16_t, 1 << 15, 0x7f80))
KEYS(i64, uint64_t, u ^ UINT64_C(1) << 63)
KEYS(i32, uint32_t, u ^ UINT32_C(1) << 31)
KEYS(i16, uint16_t, u ^ 1 << 15)
KEYS(i8, uint8_t, u ^ 1 << 7)
KEYS(u64, uint64_t, u)
KEYS(u32, uint32_t, u)
KEYS(u16, uint16_t, u)
KEYS(u8, uint8_t, u)
KEYS(truth, uint8_t, u != 0)

static int64_t pick(uint16_t *at, const uint64_t *key, int64_t n, uint64_t low, uint64_t span)
{
  enum { PIECE = 16 };
  int64_t count = 0, i = 0;
  for (; i + PIECE <= n; i += PIECE) { /* most pieces have none */
    uint64_t any = 0;
    for (int k = 0; k < PIECE; k++) any |= (uint64_t)(key[i + k] - low <= span);
    if (!any) continue;
    for (int k = 0; k < PIECE; k++) {
      at[count] = (uint16_t)(i + k);
      count += key[i + k] - low <= span;
    }
  }
  for (; i < n; i++) {
    at[count] = (uint16_t)i;
    count += key[i] - low <= span;
  }
  return count;
}

/* By counting how many are less than each: no branch depends on the numbers. */
static void run(uint64_t *a, int64_t n)
{
  uint64_t x[CNI_SORT_RUN], rank[CNI_SORT_RUN] = {0};
  for (int64_t i = 0; i < CNI_SORT_RUN; i++) x[i] = i < n ? a[i] : UINT64_MAX;
  if (n <= CNI_SORT_RUN / 2)
    for (int64_t j = 0; j < n; j++)
      for (int i = 0; i < CNI_SORT_RUN / 2; i++) rank[i] += x[i] > x[j];
  else
    for (int64_t j = 0; j < n; j++)
      for (int i = 0; i < CNI_SORT_RUN; i++) rank[i] += x[i] > x[j];
  for (int64_t i = 0; i < n; i++) a[rank[i]] = x[i];
}

static uint64_t least(const uint64_t *key, int64_t n)
{
  uint64_t x = key[0];
  for (int64_t i = 1; i < n; i++) x = key[i] < x ? key[i] : x;
  return x;
}

static uint64_t differ(const uint64_t *key, int64_t n, uint64_t first)
{
  uint64_t x = 0;
  for (int64_t i = 0; i < n; i++) x |= key[i] ^ first;
  return x;
}

const cni_sort_loops CNI_ISA_NAME(cni_sort_loops) = {
    .keys = {[CN_BOOL] = keys_truth,
             [CN_U8] = keys_u8,
             [CN_I8] = keys_i8,
             [CN_I16] = keys_i16,
             [CN_U16] = keys_u16,
             [CN_I32] = keys_i32,
             [CN_U32] = keys_u32,
             [CN_I64] = keys_i64,
             [CN_U64] = keys_u64,
             [CN_F16] = keys_f16,
             [CN_BF16] = keys_bf16,
             [CN_F32] = keys_f32,
             [CN_F64] = keys_f64},
    .pick = pick,
    .run = run,
    .least = least,
    .differ = differ,
};
