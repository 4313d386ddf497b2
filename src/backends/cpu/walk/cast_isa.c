/* cast_isa.c: the conversion loops, compiled once per instruction-set level (see isa.h).
 *
 * Place in the flow: cast.c picks one of the tables exported here. Invariant: plain loops over convert.h,
 * which the compiler vectorises; the written-out pairs, float16 with F16C and NEON and bfloat16 with AVX-512,
 * give the same bits. */
#include "cast.h"

#include <string.h>

#include "backends/cpu/isa.h"
#include "base/convert.h"
#if CNI_FOR_AVX512
#include "backends/cpu/walk/avx512/bf16x16.h"
#endif

#if CNI_FOR_AVX2 || CNI_FOR_AVX512
#include <immintrin.h>
#elif CNI_FOR_NEON
#include <arm_neon.h>
#endif

/* Every natural type as a destination. (A macro cannot expand inside itself, so this repeats
 * CNI_EACH_NATURAL.) */
#define TO_INTS(X, SID, ST, SK)                                                                            \
  X(BOOL, uint8_t, SID, ST, SK) X(U8, uint8_t, SID, ST, SK) X(U16, uint16_t, SID, ST, SK)                  \
  X(I32, int32_t, SID, ST, SK) X(I64, int64_t, SID, ST, SK)
#define TO_FLOATS(X, SID, ST, SK) X(F32, float, SID, ST, SK) X(F64, double, SID, ST, SK)
#define TO_WIDE_UNSIGNED(X, SID, ST, SK) X(U32, uint32_t, SID, ST, SK) X(U64, uint64_t, SID, ST, SK)

#define LOOP(DID, DT, SID, ST, SK)                                             \
  static void SID##_to_##DID(void *dst, const void *src, size_t n)             \
  {                                                                            \
    DT *restrict d = dst;                                                      \
    const ST *restrict s = src;                                                \
    for (size_t i = 0; i < n; i++) d[i] = CNI_TO_##DID(SK, (CN_##SID == CN_BOOL ? s[i] != 0 : s[i])); \
  }
/* A wrapped integer has the same bits signed or unsigned, so integers need one loop per width; floats
 * differ in the two wide unsigned types. */
#define LOOPS_FROM_I(SID, ST) TO_INTS(LOOP, SID, ST, I) TO_FLOATS(LOOP, SID, ST, I)
#define LOOPS_FROM_F(SID, ST) \
  TO_INTS(LOOP, SID, ST, F) TO_WIDE_UNSIGNED(LOOP, SID, ST, F) TO_FLOATS(LOOP, SID, ST, F)
#define LOOPS_FROM_D(SID, ST) \
  TO_INTS(LOOP, SID, ST, D) TO_WIDE_UNSIGNED(LOOP, SID, ST, D) TO_FLOATS(LOOP, SID, ST, D)
#define LOOPS(SID, ST, SK, unused) LOOPS_FROM_##SK(SID, ST)
CNI_EACH_NATURAL(LOOPS, )

#define SMALL_LOOPS(ID, T, HUB, K, to, from, unused)                           \
  static void ID##_to_##HUB(void *dst, const void *src, size_t n)              \
  {                                                                            \
    HUB##_TYPE *restrict d = dst;                                              \
    const T *restrict s = src;                                                 \
    for (size_t i = 0; i < n; i++) d[i] = to(s[i]);                            \
  }                                                                            \
  static void HUB##_to_##ID(void *dst, const void *src, size_t n)              \
  {                                                                            \
    T *restrict d = dst;                                                       \
    const HUB##_TYPE *restrict s = src;                                        \
    for (size_t i = 0; i < n; i++) d[i] = from(s[i]);                          \
  }
#define F32_TYPE float
#define I32_TYPE int32_t
CNI_EACH_SMALL(SMALL_LOOPS, )

#if CNI_FOR_AVX2 || CNI_FOR_AVX512
static void f16_to_f32_f16c(void *dst, const void *src, size_t n)
{
  float *d = dst;
  const uint16_t *s = src;
  size_t i = 0;
#if CNI_FOR_AVX512
  for (; i + 16 <= n; i += 16)
    _mm512_storeu_ps(d + i, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(s + i))));
#endif
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(d + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(s + i))));
  F16_to_F32(d + i, s + i, n - i);
}

static void f32_to_f16_f16c(void *dst, const void *src, size_t n)
{
  uint16_t *d = dst;
  const float *s = src;
  size_t i = 0;
#if CNI_FOR_AVX512
  for (; i + 16 <= n; i += 16)
    _mm256_storeu_si256((void *)(d + i),
                        _mm512_maskz_cvtps_ph((__mmask16)0xffff, _mm512_loadu_ps(s + i), _MM_FROUND_TO_NEAREST_INT));
#endif
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128((void *)(d + i), _mm256_cvtps_ph(_mm256_loadu_ps(s + i), _MM_FROUND_TO_NEAREST_INT));
  F32_to_F16(d + i, s + i, n - i);
}
#define F16_TO_F32 f16_to_f32_f16c
#define F32_TO_F16 f32_to_f16_f16c
#elif CNI_FOR_NEON
static void f16_to_f32_neon(void *dst, const void *src, size_t n)
{
  float *d = dst;
  const uint16_t *s = src;
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    float16x8_t x = vreinterpretq_f16_u16(vld1q_u16(s + i));
    vst1q_f32(d + i, vcvt_f32_f16(vget_low_f16(x)));
    vst1q_f32(d + i + 4, vcvt_high_f32_f16(x));
  }
  F16_to_F32(d + i, s + i, n - i);
}

static void f32_to_f16_neon(void *dst, const void *src, size_t n)
{
  uint16_t *d = dst;
  const float *s = src;
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    float16x8_t x = vcvt_high_f16_f32(vcvt_f16_f32(vld1q_f32(s + i)), vld1q_f32(s + i + 4));
    vst1q_u16(d + i, vreinterpretq_u16_f16(x));
  }
  F32_to_F16(d + i, s + i, n - i);
}
#define F16_TO_F32 f16_to_f32_neon
#define F32_TO_F16 f32_to_f16_neon
#else
#define F16_TO_F32 F16_to_F32
#define F32_TO_F16 F32_to_F16
#endif

#if CNI_FOR_AVX512
static void bf16_to_f32_avx512(void *dst, const void *src, size_t n)
{
  uint32_t *d = dst;
  const uint16_t *s = src;
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    __m512i h = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)(s + i)));
    _mm512_storeu_si512(d + i, _mm512_slli_epi32(h, 16));
  }
  BF16_to_F32(d + i, s + i, n - i);
}

static void f32_to_bf16_avx512(void *dst, const void *src, size_t n)
{
  uint16_t *d = dst;
  const float *s = src;
  size_t i = 0;
  for (; i + 16 <= n; i += 16) _mm256_storeu_si256((void *)(d + i), cni_bf16x16(_mm512_loadu_ps(s + i)));
  F32_to_BF16(d + i, s + i, n - i);
}
#define BF16_TO_F32 bf16_to_f32_avx512
#define F32_TO_BF16 f32_to_bf16_avx512
#else
#define BF16_TO_F32 BF16_to_F32
#define F32_TO_BF16 F32_to_BF16
#endif

/* The cells of one row of the table, for integers and for floats. */
#define CELL(DID, DT, SID, ST, SK) [CN_##DID] = SID##_to_##DID,
#define CELLS_I(SID, ST)                                                                                   \
  TO_INTS(CELL, SID, ST, I) TO_FLOATS(CELL, SID, ST, I)[CN_I8] = SID##_to_U8, [CN_I16] = SID##_to_U16,     \
  [CN_U32] = SID##_to_I32, [CN_U64] = SID##_to_I64
#define CELLS_F(SID, ST)                                                                                   \
  TO_INTS(CELL, SID, ST, F) TO_FLOATS(CELL, SID, ST, F) TO_WIDE_UNSIGNED(CELL, SID, ST, F)                 \
  [CN_I8] = SID##_to_U8, [CN_I16] = SID##_to_U16

const cni_cast_table CNI_ISA_NAME(cni_cast_table) = {.direct = {
#define ROW_I(SID, ST) [CN_##SID] = {CELLS_I(SID, ST)},
    ROW_I(BOOL, uint8_t) ROW_I(U8, uint8_t) ROW_I(I8, int8_t) ROW_I(I16, int16_t) ROW_I(I64, int64_t)
    ROW_I(U16, uint16_t) ROW_I(U32, uint32_t) ROW_I(U64, uint64_t)
    [CN_F64] = {CELLS_F(F64, double)},
    [CN_I32] = {CELLS_I(I32, int32_t), [CN_I4] = I32_to_I4, [CN_U4] = I32_to_U4, [CN_I2] = I32_to_I2,
                [CN_U2] = I32_to_U2},
    [CN_F32] = {CELLS_F(F32, float), [CN_F16] = F32_TO_F16, [CN_BF16] = F32_TO_BF16,
                [CN_F8E4M3] = F32_to_F8E4M3, [CN_F8E5M2] = F32_to_F8E5M2, [CN_F8E4M3FNUZ] = F32_to_F8E4M3FNUZ,
                [CN_F8E5M2FNUZ] = F32_to_F8E5M2FNUZ, [CN_F8E8M0] = F32_to_F8E8M0,
                [CN_F4E2M1] = F32_to_F4E2M1},
    [CN_F16] = {[CN_F32] = F16_TO_F32},
    [CN_BF16] = {[CN_F32] = BF16_TO_F32},
    [CN_F8E4M3] = {[CN_F32] = F8E4M3_to_F32},
    [CN_F8E5M2] = {[CN_F32] = F8E5M2_to_F32},
    [CN_F8E4M3FNUZ] = {[CN_F32] = F8E4M3FNUZ_to_F32},
    [CN_F8E5M2FNUZ] = {[CN_F32] = F8E5M2FNUZ_to_F32},
    [CN_F8E8M0] = {[CN_F32] = F8E8M0_to_F32},
    [CN_F4E2M1] = {[CN_F32] = F4E2M1_to_F32},
    [CN_I4] = {[CN_I32] = I4_to_I32},
    [CN_U4] = {[CN_I32] = U4_to_I32},
    [CN_I2] = {[CN_I32] = I2_to_I32},
    [CN_U2] = {[CN_I32] = U2_to_I32},
}};
