/* matmul_isa.c: dot products of float32 rows with 16-bit rows, which are converted in registers; compiled
 * once per instruction set.
 *
 * Place in the flow: matmul.c uses them where a large 16-bit matrix meets a few rows, a product that is bound
 * by reading that matrix. Several rows are read at a time, since one stream does not fill the memory bus.
 * Invariant: an element is summed in the same order on every instruction set. */
#include <string.h>

#include "base/convert.h"
#include "isa.h"
#include "matmul.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

enum { LANES = 16 };

typedef float lanes_f32 __attribute__((vector_size(64)));
typedef uint32_t lanes_u32 __attribute__((vector_size(64)));
typedef uint16_t lanes_u16 __attribute__((vector_size(32)));

/* By pointer, because passing vectors by value depends on the instruction set. */
static inline void load_bf16(lanes_f32 *x, const uint16_t *from)
{
  lanes_u16 h;
  memcpy(&h, from, sizeof h);
  lanes_u32 u = __builtin_convertvector(h, lanes_u32) << 16;
  memcpy(x, &u, sizeof *x);
}

static inline void load_f16(lanes_f32 *x, const uint16_t *from)
{
  float y[LANES];
#if defined(__F16C__)
  for (int i = 0; i < LANES; i += 8)
    _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(from + i))));
#else
  for (int i = 0; i < LANES; i++) y[i] = cni_f16_to_f32(from[i]);
#endif
  memcpy(x, y, sizeof *x);
}

static inline float total(const lanes_f32 *x)
{
  float sum = 0;
  for (int i = 0; i < LANES; i++) sum += (*x)[i];
  return sum;
}

#define DOTS(S)                                                                                              \
  static void dots_##S(float *c, const float *a, const uint16_t *b, int64_t step, int64_t k)                 \
  {                                                                                                          \
    const uint16_t *b0 = b, *b1 = b + step, *b2 = b1 + step, *b3 = b2 + step;                                \
    lanes_f32 s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0}, x, y0, y1, y2, y3;                                     \
    int64_t p = 0;                                                                                           \
    for (; p + LANES <= k; p += LANES) {                                                                     \
      memcpy(&x, a + p, sizeof x);                                                                           \
      load_##S(&y0, b0 + p), load_##S(&y1, b1 + p), load_##S(&y2, b2 + p), load_##S(&y3, b3 + p);            \
      s0 += x * y0, s1 += x * y1, s2 += x * y2, s3 += x * y3;                                                \
    }                                                                                                        \
    c[0] = total(&s0), c[1] = total(&s1), c[2] = total(&s2), c[3] = total(&s3);                              \
    for (; p < k; p++) {                                                                                     \
      c[0] += a[p] * cni_##S##_to_f32(b0[p]), c[1] += a[p] * cni_##S##_to_f32(b1[p]);                        \
      c[2] += a[p] * cni_##S##_to_f32(b2[p]), c[3] += a[p] * cni_##S##_to_f32(b3[p]);                        \
    }                                                                                                        \
  }
DOTS(f16)
DOTS(bf16)

const cni_half_dots CNI_ISA_NAME(cni_half_dots_table)[2] = {dots_f16, dots_bf16};
