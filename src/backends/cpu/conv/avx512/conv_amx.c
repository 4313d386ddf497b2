/* conv_amx.c: the taps of convolutions' weights brought apart, for conv_tiles.c.
 *
 * Place in the flow: called while weights are packed, on machines with tiles, whose AVX-512 permutes 16-bit lanes.
 * Invariant: nothing is read or written beyond what the contract in conv_tiles.h names. */
#include "backends/cpu/conv/conv_tiles.h"

#include <immintrin.h>

enum { LANES = 32 };

/* Lane c of a result is number 32 v + lane of `taps` vectors; from[v] says for which c that v is the one. */
typedef struct choice {
  __m512i lane;
  __mmask32 from[CNI_SPLIT_TAPS];
} choice;

static void choose(choice *to, int tap, int taps)
{
  uint16_t lane[LANES];
  for (int v = 0; v < taps; v++) to->from[v] = 0;
  for (int c = 0; c < LANES; c++) {
    int at = c * taps + tap;
    lane[c] = (uint16_t)(at % LANES);
    to->from[at / LANES] |= (__mmask32)1 << c;
  }
  to->lane = _mm512_loadu_si512(lane);
}

void cni_conv_split_taps(uint16_t *to, int64_t pitch, const uint16_t *from, int taps, int64_t count)
{
  choice choices[CNI_SPLIT_TAPS];
  int64_t c = 0;
  for (int t = 0; t < taps; t++) choose(&choices[t], t, taps);
  for (; c + LANES <= count; c += LANES, from += LANES * taps) {
    for (int t = 0; t < taps; t++) {
      __m512i x = _mm512_setzero_si512();
      for (int v = 0; v < taps; v++)
        x = _mm512_mask_permutexvar_epi16(x, choices[t].from[v], choices[t].lane,
                                          _mm512_loadu_si512(from + v * LANES));
      _mm512_storeu_si512(to + t * pitch + c, x);
    }
  }
  for (; c < count; c++, from += taps)
    for (int t = 0; t < taps; t++) to[t * pitch + c] = from[t];
}
