/* conv_tiles.h: what conv_tiles.c needs of the vectors of its machines. */
#ifndef CNI_CPU_CONV_TILES_H
#define CNI_CPU_CONV_TILES_H

#include <stdint.h>

/* to[t * pitch + c] = from[c * taps + t] for t < taps, c < count; taps at most CNI_SPLIT_TAPS (avx512/conv_amx.c). */
enum { CNI_SPLIT_TAPS = 9 };
void cni_conv_split_taps(uint16_t *to, int64_t pitch, const uint16_t *from, int taps, int64_t count);

#endif
