/* turn_isa.c: the blocks of turn.h, compiled once per instruction set.
 *
 * Place in the flow: the leaves below turn.h. Blocks of N x N elements, one vector a side, are turned by interleaving
 * row i with row i + N / 2, log2 N times; the edges one by one. */
#include "turn.h"

#include <string.h>

#if CNI_ISA_LEVEL == 2
#include <immintrin.h>
#endif

#define ITEMS(...) __VA_ARGS__
#if defined(__clang__)
#define WHOLE _Pragma("clang loop unroll(full)")
#else
#define WHOLE _Pragma("GCC unroll 16") /* or the vectors would live in memory */
#endif

/* Stores N turned rows, one vector each. */
#define KEEP(to, x) memcpy(to, &(x), sizeof(x))
#define SEND(to, x) _mm512_stream_si512((void *)(to), (__m512i)(x))

#define BLOCK(T, N, STAGES, LOW, HIGH, STORE)                                                                  \
  do {                                                                                                         \
    typedef T vector __attribute__((vector_size(N * sizeof(T))));                                              \
    vector x[N], y[N];                                                                                         \
    WHOLE for (int k = 0; k < N; k++) memcpy(&x[k], from + (c + k) * fstep + r * (int64_t)sizeof(T), sizeof x[k]); \
    WHOLE for (int stage = 0; stage < STAGES; stage++) {                                                       \
      WHOLE for (int k = 0; k < N / 2; k++) {                                                                  \
        y[2 * k] = __builtin_shufflevector(x[k], x[k + N / 2], ITEMS LOW);                                     \
        y[2 * k + 1] = __builtin_shufflevector(x[k], x[k + N / 2], ITEMS HIGH);                                \
      }                                                                                                        \
      WHOLE for (int k = 0; k < N; k++) x[k] = y[k];                                                           \
    }                                                                                                          \
    WHOLE for (int k = 0; k < N; k++) STORE(to + (r + k) * tstep + c * (int64_t)sizeof(T), x[k]);              \
  } while (0)

#define TURN(name, T, N, STAGES, LOW, HIGH)                                                                    \
  static void name(void *to_, int64_t tstep, const void *from_, int64_t fstep, int64_t nr, int64_t nc)         \
  {                                                                                                            \
    char *to = to_;                                                                                            \
    const char *from = from_;                                                                                  \
    int64_t whole_r = nr - nr % N, whole_c = nc - nc % N;                                                      \
    for (int64_t c = 0; c < whole_c; c += N)                                                                   \
      for (int64_t r = 0; r < whole_r; r += N) BLOCK(T, N, STAGES, LOW, HIGH, KEEP);                           \
    for (int64_t c = 0; c < nc; c++)                                                                           \
      for (int64_t r = c < whole_c ? whole_r : 0; r < nr; r++)                                                 \
        memcpy(to + r * tstep + c * (int64_t)sizeof(T), from + c * fstep + r * (int64_t)sizeof(T), sizeof(T)); \
  }
#define TURN_STREAM(name, T, N, STAGES, LOW, HIGH)                                                             \
  static void name(void *to_, int64_t tstep, const void *from_, int64_t fstep, int64_t nr, int64_t nc)         \
  {                                                                                                            \
    char *to = to_;                                                                                            \
    const char *from = from_;                                                                                  \
    for (int64_t r = 0; r < nr; r += N)                                                                        \
      for (int64_t c = 0; c < nc; c += N) BLOCK(T, N, STAGES, LOW, HIGH, SEND);                                \
  }

TURN(turn_2, uint16_t, 8, 3, (0, 8, 1, 9, 2, 10, 3, 11), (4, 12, 5, 13, 6, 14, 7, 15))
TURN(turn_1, uint8_t, 16, 4, (0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23),
     (8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31))

#if CNI_ISA_LEVEL == 2
#define LOW8 (0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH8 (4, 12, 5, 13, 6, 14, 7, 15)
#define LOW16 (0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH16 (8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
TURN(turn_8, uint64_t, 8, 3, LOW8, HIGH8)
TURN(turn_4, uint32_t, 16, 4, LOW16, HIGH16)
TURN_STREAM(stream_8, uint64_t, 8, 3, LOW8, HIGH8)
TURN_STREAM(stream_4, uint32_t, 16, 4, LOW16, HIGH16)
#define STREAMS .stream = {[4] = stream_4, [8] = stream_8}, .side = {[4] = 16, [8] = 8},
#else
TURN(turn_8, uint64_t, 2, 1, (0, 2), (1, 3))
TURN(turn_4, uint32_t, 4, 2, (0, 4, 1, 5), (2, 6, 3, 7))
#define STREAMS
#endif

const cni_turn_table CNI_ISA_NAME(cni_turn_table) = {
    .turn = {[1] = turn_1, [2] = turn_2, [4] = turn_4, [8] = turn_8}, STREAMS};
