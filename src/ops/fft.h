/* fft.h: what fft.c and fft_nd.c agree on: how a transform of n points is scaled. */
#ifndef CNI_OPS_FFT_H
#define CNI_OPS_FFT_H

enum { CNI_FFT_UNSCALED, CNI_FFT_ORTHO, CNI_FFT_BY_COUNT }; /* times 1, n^-1/2, 1/n */

#endif
