/* fft.h: cuFFT's functions, found when first needed (libraries.c). */
#ifndef CNI_CUDA_FFT_H
#define CNI_CUDA_FFT_H

#include "plugin.h"

#if defined(__has_include)
#if __has_include(<cufft.h>)
#define CNI_HAVE_CUFFT_H 1
#endif
#endif

#ifdef CNI_HAVE_CUFFT_H
#include <cufft.h>

/* clang-format off */
#define CNI_CUDA_FFT(X) \
  X(cufftCreate) X(cufftSetAutoAllocation) X(cufftMakePlanMany64) X(cufftDestroy) X(cufftSetStream) \
  X(cufftSetWorkArea) X(cufftExecC2C) X(cufftExecZ2Z) X(cufftExecR2C) X(cufftExecD2Z)
/* clang-format on */
typedef struct cni_cuda_fft_table {
  CNI_CUDA_FFT(CNI_CUDA_FIELD)
} cni_cuda_fft_table;
const cni_cuda_fft_table *cni_cuda_fft(void); /* NULL, without an error, where it is absent */

#endif
#endif
