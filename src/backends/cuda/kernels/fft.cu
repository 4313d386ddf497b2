/* fft.cu: what transforms by cuFFT need besides: a factor. T0 is the type of the numbers. */
#include "codegen/device.cuh"
#include "common.cuh"

struct scale_job {
  T0 *y;
  i64 n;
  f64 factor;
};

KERNEL(scale, scale_job)
{
  EACH(i, p.n) p.y[i] *= (T0)p.factor;
}
