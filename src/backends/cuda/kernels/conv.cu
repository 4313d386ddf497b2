/* conv.cu: convolutions where cuDNN is not there, or not for the type: plain loops, a thread per element of a result.
 *
 * T0 is the element type; all tensors row-major: x (n, c, h, w), weight (k, c / groups, r, s), y (n, k, oh, ow). An
 * image has less than 2^31 pixels.
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

/* Places in a plane are 32 bits wide, planes are found by 64. */
FN bool within(int at, i64 size) { return (u32)at < (u32)size; }

KERNEL(conv_forward, conv_job)
{
  const i64 cg = p.c / p.groups, kg = p.k / p.groups, plane = p.h * p.width;
  const int s = (int)p.s, width = (int)p.width, dilation[2] = {(int)p.dilation[0], (int)p.dilation[1]};
  EACH(i, p.n * p.k * p.oh * p.ow)
  {
    const i64 k = i / p.ow / p.oh % p.k, n = i / p.ow / p.oh / p.k;
    const int top = (int)(i / p.ow % p.oh * p.stride[0] - p.padding[0]);
    const int left = (int)(i % p.ow * p.stride[1] - p.padding[1]);
    const T0 *x = p.x + (n * p.c + k / kg * cg) * plane, *w = p.w + k * cg * p.r * p.s;
    A sum = p.b ? (A)get(p.b[k]) : (A)0;
    for (i64 c = 0; c < cg; c++, x += plane)
      for (int a = 0; a < (int)p.r; a++, w += s) {
        const int y = top + a * dilation[0];
        if (!within(y, p.h)) continue;
#pragma unroll 2
        for (int b = 0; b < s; b++) {
          const int at = left + b * dilation[1];
          if (within(at, width)) sum += (A)get(x[(i64)y * width + at]) * (A)get(w[b]);
        }
      }
    p.y[i] = put<T0>(sum);
  }
}

KERNEL(conv_input, conv_job)
{
  const i64 cg = p.c / p.groups, kg = p.k / p.groups, plane = p.oh * p.ow, filter = p.r * p.s;
  const int stride[2] = {(int)p.stride[0], (int)p.stride[1]};
  EACH(i, p.n * p.c * p.h * p.width)
  {
    const i64 c = i / p.width / p.h % p.c, n = i / p.width / p.h / p.c, first = c / cg * kg;
    const int y = (int)(i / p.width % p.h + p.padding[0]), x = (int)(i % p.width + p.padding[1]);
    A sum = 0;
    for (int a = 0; a < (int)p.r; a++) {
      const int top = y - a * (int)p.dilation[0], oh = top / stride[0];
      if (top < 0 || top % stride[0] || !within(oh, p.oh)) continue;
      for (int b = 0; b < (int)p.s; b++) {
        const int left = x - b * (int)p.dilation[1], ow = left / stride[1];
        if (left < 0 || left % stride[1] || !within(ow, p.ow)) continue;
        const T0 *g = p.y + (n * p.k + first) * plane + (i64)oh * p.ow + ow;
        const T0 *w = p.w + (first * cg + c % cg) * filter + a * (int)p.s + b;
#pragma unroll 2
        for (i64 k = 0; k < kg; k++) sum += (A)get(g[k * plane]) * (A)get(w[k * cg * filter]);
      }
    }
    p.x[i] = put<T0>(sum);
  }
}

/* A block per weight. */
KERNEL(conv_weight, conv_job)
{
  const i64 cg = p.c / p.groups, kg = p.k / p.groups, plane = p.h * p.width;
  const int pixels = (int)(p.oh * p.ow), across = (int)p.ow;
  for (i64 i = blockIdx.x; i < p.k * cg * p.r * p.s; i += gridDim.x) {
    const i64 c = i / p.s / p.r % cg, k = i / p.s / p.r / cg;
    const int down = (int)(i / p.s % p.r * p.dilation[0] - p.padding[0]);
    const int right = (int)(i % p.s * p.dilation[1] - p.padding[1]);
    const T0 *xs = p.x + (k / kg * cg + c) * plane, *gs = p.y + k * pixels;
    A sum = 0;
    for (i64 n = 0; n < p.n; n++, xs += p.c * plane, gs += p.k * pixels)
#pragma unroll 2
      for (int e = threadIdx.x; e < pixels; e += THREADS) {
        const int y = e / across * (int)p.stride[0] + down, x = e % across * (int)p.stride[1] + right;
        if (within(y, p.h) && within(x, p.width)) sum += (A)get(gs[e]) * (A)get(xs[(i64)y * p.width + x]);
      }
    sum = block_sum(sum);
    if (threadIdx.x == 0) p.w[i] = put<T0>(sum);
  }
}
