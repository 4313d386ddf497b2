/* transpose_isa.c: the blocks of transpose.h, compiled once per instruction set.
 *
 * Place in the flow: the leaves below transpose.h. Blocks of N x N elements, one vector a side, the edges one by one.
 * Where vectors are 16 bytes, row i is interleaved with row i + N / 2, log2 N times. Wider ones are put together from
 * pieces of 16 bytes of as many rows, which costs loads in place of most of the shuffles, and then transposed within
 * the pieces. */
#include "transpose.h"

#include <string.h>

#if CNI_FOR_AVX2 || CNI_FOR_AVX512
#include <immintrin.h>
#endif

#define ITEMS(...) __VA_ARGS__
#if defined(__clang__)
#define WHOLE _Pragma("clang loop unroll(full)")
#else
#define WHOLE _Pragma("GCC unroll 16") /* or the vectors would live in memory */
#endif

/* Stores N transposed rows, one vector each. */
#define KEEP(to, x) memcpy(to, &(x), sizeof(x))
#define SEND(to, x) _mm512_stream_si512((void *)(to), (__m512i)(x))

#define BLOCK(T, N, FILL, STORE)                                                                               \
  do {                                                                                                         \
    FILL##_vector x[N];                                                                                        \
    FILL(x, from + c * fstep + r * (int64_t)sizeof(T), fstep);                                                 \
    WHOLE for (int k = 0; k < N; k++) STORE(to + (r + k) * tstep + c * (int64_t)sizeof(T), x[k]);              \
  } while (0)

#define TRANSPOSE(name, T, N, FILL)                                                                                  \
  static void name(void *to_, int64_t tstep, const void *from_, int64_t fstep, int64_t nr, int64_t nc)               \
  {                                                                                                                  \
    char *to = to_;                                                                                                  \
    const char *from = from_;                                                                                        \
    int64_t whole_r = nr - nr % N, whole_c = nc - nc % N;                                                            \
    for (int64_t c = 0; c < whole_c; c += N)                                                                         \
      for (int64_t r = 0; r < whole_r; r += N) BLOCK(T, N, FILL, KEEP);                                              \
    for (int64_t c = 0; c < nc; c++)                                                                                 \
      for (int64_t r = c < whole_c ? whole_r : 0; r < nr; r++)                                                       \
        memcpy(to + r * tstep + c * (int64_t)sizeof(T), from + c * fstep + r * (int64_t)sizeof(T), sizeof(T));       \
  }
#define TRANSPOSE_NONTEMPORAL(name, T, N, FILL)                                                                      \
  static void name(void *to_, int64_t tstep, const void *from_, int64_t fstep, int64_t nr, int64_t nc)               \
  {                                                                                                                  \
    char *to = to_;                                                                                                  \
    const char *from = from_;                                                                                        \
    for (int64_t r = 0; r < nr; r += N)                                                                              \
      for (int64_t c = 0; c < nc; c += N) BLOCK(T, N, FILL, SEND);                                                   \
  }

/* Fills x with a block of `from`, transposed. */
#define FILL_BY_STAGES(name, T, N, STAGES, LOW, HIGH)                                                          \
  typedef T name##_vector __attribute__((vector_size(N * sizeof(T))));                                         \
  static inline void name(name##_vector x[N], const char *from, int64_t step)                                  \
  {                                                                                                            \
    name##_vector y[N];                                                                                        \
    WHOLE for (int k = 0; k < N; k++) memcpy(&x[k], from + k * step, sizeof x[k]);                             \
    WHOLE for (int stage = 0; stage < STAGES; stage++) {                                                       \
      WHOLE for (int k = 0; k < N / 2; k++) {                                                                  \
        y[2 * k] = __builtin_shufflevector(x[k], x[k + N / 2], ITEMS LOW);                                     \
        y[2 * k + 1] = __builtin_shufflevector(x[k], x[k + N / 2], ITEMS HIGH);                                \
      }                                                                                                        \
      WHOLE for (int k = 0; k < N; k++) x[k] = y[k];                                                           \
    }                                                                                                          \
  }

FILL_BY_STAGES(fill_2, uint16_t, 8, 3, (0, 8, 1, 9, 2, 10, 3, 11), (4, 12, 5, 13, 6, 14, 7, 15))
FILL_BY_STAGES(fill_1, uint8_t, 16, 4, (0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23),
               (8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31))
TRANSPOSE(transpose_2, uint16_t, 8, fill_2)
TRANSPOSE(transpose_1, uint8_t, 16, fill_1)

#if CNI_FOR_AVX512
enum { SIDE_4 = 16, SIDE_8 = 8, PIECES = 4 };
typedef __m512i wide;
/* 16 bytes of each of four rows, `step` bytes apart. */
static inline wide pieces(const char *from, int64_t step)
{
  wide v = _mm512_castsi128_si512(_mm_loadu_si128((const void *)from));
  v = _mm512_inserti32x4(v, _mm_loadu_si128((const void *)(from + step)), 1);
  v = _mm512_inserti32x4(v, _mm_loadu_si128((const void *)(from + 2 * step)), 2);
  return _mm512_inserti32x4(v, _mm_loadu_si128((const void *)(from + 3 * step)), 3);
}
#define LOW_4 _mm512_unpacklo_epi32
#define HIGH_4 _mm512_unpackhi_epi32
#define LOW_8 _mm512_unpacklo_epi64
#define HIGH_8 _mm512_unpackhi_epi64
#elif CNI_FOR_AVX2
enum { SIDE_4 = 8, SIDE_8 = 4, PIECES = 2 };
typedef __m256i wide;
static inline wide pieces(const char *from, int64_t step)
{
  wide v = _mm256_castsi128_si256(_mm_loadu_si128((const void *)from));
  return _mm256_inserti128_si256(v, _mm_loadu_si128((const void *)(from + step)), 1);
}
#define LOW_4 _mm256_unpacklo_epi32
#define HIGH_4 _mm256_unpackhi_epi32
#define LOW_8 _mm256_unpacklo_epi64
#define HIGH_8 _mm256_unpackhi_epi64
#endif

#if CNI_FOR_AVX2 || CNI_FOR_AVX512
typedef wide fill_4_vector, fill_8_vector;
/* Piece p of a vector holds rows 4 p to 4 p + 3, so each four of the transposed rows are made within pieces. */
static inline void fill_4(wide x[SIDE_4], const char *from, int64_t step)
{
  WHOLE for (int q = 0; q < PIECES; q++) {
    wide t[4], low[2], high[2];
    WHOLE for (int k = 0; k < 4; k++) t[k] = pieces(from + k * step + 16 * q, 4 * step);
    WHOLE for (int k = 0; k < 2; k++) low[k] = LOW_4(t[2 * k], t[2 * k + 1]), high[k] = HIGH_4(t[2 * k], t[2 * k + 1]);
    x[4 * q] = LOW_8(low[0], low[1]), x[4 * q + 1] = HIGH_8(low[0], low[1]);
    x[4 * q + 2] = LOW_8(high[0], high[1]), x[4 * q + 3] = HIGH_8(high[0], high[1]);
  }
}

static inline void fill_8(wide x[SIDE_8], const char *from, int64_t step)
{
  WHOLE for (int q = 0; q < PIECES; q++) {
    wide even = pieces(from + 16 * q, 2 * step), odd = pieces(from + step + 16 * q, 2 * step);
    x[2 * q] = LOW_8(even, odd), x[2 * q + 1] = HIGH_8(even, odd);
  }
}
#else
enum { SIDE_4 = 4, SIDE_8 = 2 };
FILL_BY_STAGES(fill_8, uint64_t, 2, 1, (0, 2), (1, 3))
FILL_BY_STAGES(fill_4, uint32_t, 4, 2, (0, 4, 1, 5), (2, 6, 3, 7))
#endif
TRANSPOSE(transpose_8, uint64_t, SIDE_8, fill_8)
TRANSPOSE(transpose_4, uint32_t, SIDE_4, fill_4)

#if CNI_FOR_AVX512
TRANSPOSE_NONTEMPORAL(nontemporal_8, uint64_t, SIDE_8, fill_8)
TRANSPOSE_NONTEMPORAL(nontemporal_4, uint32_t, SIDE_4, fill_4)
#define NONTEMPORAL .nontemporal = {[4] = nontemporal_4, [8] = nontemporal_8}, .side = {[4] = SIDE_4, [8] = SIDE_8},
#else
#define NONTEMPORAL
#endif

const cni_transpose_table CNI_ISA_NAME(cni_transpose_table) = {
    .transpose = {[1] = transpose_1, [2] = transpose_2, [4] = transpose_4, [8] = transpose_8}, NONTEMPORAL};
