/* conv.cu: convolutions where cuDNN is not there, or not for the type: plain loops, a thread per element of a result.
 *
 * T0 is the element type; all tensors row-major: x (n, c, h, w), weight (k, c / groups, r, s), y (n, k, oh, ow).
 * Invariant: each element is one chain (a weight's gradient: one per thread, joined in a fixed order). */
#include "codegen/device.cuh"
#include "common.cuh"

struct conv_job {
  T0 *x, *w, *y;
  const T0 *b; /* (k) or NULL */
  i64 n, c, h, width, k, r, s, oh, ow, groups;
  i64 stride[2], padding[2], dilation[2];
};

typedef wide_of<T0>::type A;

KERNEL(conv_forward, conv_job)
{
  const i64 cg = p.c / p.groups, kg = p.k / p.groups;
  EACH(i, p.n * p.k * p.oh * p.ow)
  {
    const i64 ow = i % p.ow, oh = i / p.ow % p.oh, k = i / p.ow / p.oh % p.k, n = i / p.ow / p.oh / p.k;
    A sum = p.b ? (A)get(p.b[k]) : (A)0;
    for (i64 c = 0; c < cg; c++)
      for (i64 a = 0; a < p.r; a++) {
        const i64 y = oh * p.stride[0] - p.padding[0] + a * p.dilation[0];
        if (y < 0 || y >= p.h) continue;
        for (i64 b = 0; b < p.s; b++) {
          const i64 x = ow * p.stride[1] - p.padding[1] + b * p.dilation[1];
          if (x < 0 || x >= p.width) continue;
          sum += (A)get(p.x[((n * p.c + k / kg * cg + c) * p.h + y) * p.width + x]) *
                 (A)get(p.w[((k * cg + c) * p.r + a) * p.s + b]);
        }
      }
    p.y[i] = put<T0>(sum);
  }
}

KERNEL(conv_input, conv_job)
{
  const i64 cg = p.c / p.groups, kg = p.k / p.groups;
  EACH(i, p.n * p.c * p.h * p.width)
  {
    const i64 x = i % p.width, y = i / p.width % p.h, c = i / p.width / p.h % p.c, n = i / p.width / p.h / p.c;
    const i64 first = c / cg * kg;
    A sum = 0;
    for (i64 a = 0; a < p.r; a++) {
      const i64 top = y + p.padding[0] - a * p.dilation[0], oh = top / p.stride[0];
      if (top < 0 || top % p.stride[0] || oh >= p.oh) continue;
      for (i64 b = 0; b < p.s; b++) {
        const i64 left = x + p.padding[1] - b * p.dilation[1], ow = left / p.stride[1];
        if (left < 0 || left % p.stride[1] || ow >= p.ow) continue;
        for (i64 k = first; k < first + kg; k++)
          sum += (A)get(p.y[((n * p.k + k) * p.oh + oh) * p.ow + ow]) *
                 (A)get(p.w[((k * cg + c % cg) * p.r + a) * p.s + b]);
      }
    }
    p.x[i] = put<T0>(sum);
  }
}

/* A block per weight. */
KERNEL(conv_weight, conv_job)
{
  const i64 cg = p.c / p.groups, kg = p.k / p.groups, pixels = p.oh * p.ow;
  for (i64 i = blockIdx.x; i < p.k * cg * p.r * p.s; i += gridDim.x) {
    const i64 b = i % p.s, a = i / p.s % p.r, c = i / p.s / p.r % cg, k = i / p.s / p.r / cg;
    A sum = 0;
    for (i64 e = threadIdx.x; e < p.n * pixels; e += blockDim.x) {
      const i64 n = e / pixels, oh = e % pixels / p.ow, ow = e % p.ow;
      const i64 y = oh * p.stride[0] - p.padding[0] + a * p.dilation[0];
      const i64 x = ow * p.stride[1] - p.padding[1] + b * p.dilation[1];
      if (y < 0 || y >= p.h || x < 0 || x >= p.width) continue;
      sum += (A)get(p.y[(n * p.k + k) * pixels + e % pixels]) *
             (A)get(p.x[((n * p.c + k / kg * cg + c) * p.h + y) * p.width + x]);
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) p.w[i] = put<T0>(sum);
  }
}
