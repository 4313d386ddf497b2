/* conv_fold.cu: images and filters of few channels, with the taps of a line and the lines of a stride side by side as
 * channels, and filters back from there.
 *
 * T0 is an integer of the elements' size; N is 1 where folded elements are scattered back. y is (images, rows, columns,
 * packs); its pixel (row, column) has the elements of x around (row * stride - padding, column * stride - padding) that
 * `taps` name, and zeros for those outside of x. Invariant: every element of the result is written once. */
#include "codegen/device.cuh"
#include "common.cuh"

enum { MOST_DEEP = 64, PACK = 16 / sizeof(T0) };

struct tap {
  i64 offset;   /* in x, from a pixel's first element */
  i32 row, col; /* row < 0: a channel of zeros */
};
struct fold_job {
  T0 *x, *y;
  i64 images, rows, cols, packs;
  i64 h, w, image, line, pixel; /* of x: its size, and strides in elements */
  i64 stride[2], padding[2];
  tap taps[MOST_DEEP];
};

/* In 32 bits where they fit: 64-bit division is several times slower. */
FN i64 quotient(i64 n, i64 by) { return (u64)(n | by) >> 32 ? n / by : (i64)((u32)n / (u32)by); }

KERNEL(conv_fold, fold_job)
{
  __shared__ tap taps[MOST_DEEP];
  if (threadIdx.x < MOST_DEEP) taps[threadIdx.x] = p.taps[threadIdx.x];
  __syncthreads();
  EACH(i, p.images * p.rows * p.cols * p.packs)
  {
    const i64 at = quotient(i, p.packs), row = quotient(at, p.cols), n = quotient(row, p.rows);
    const i64 top = (row - n * p.rows) * p.stride[0] - p.padding[0];
    const i64 left = (at - row * p.cols) * p.stride[1] - p.padding[1];
    const int first = (int)(i - at * p.packs) * PACK;
    T0 *x = p.x + n * p.image + top * p.line + left * p.pixel;
    pack<T0, PACK> e;
    if (N) e = *(const pack<T0, PACK> *)(p.y + i * PACK);
#pragma unroll
    for (int k = 0; k < PACK; k++) {
      const tap t = taps[first + k];
      const i64 r = top + t.row, c = left + t.col;
      const bool inside = t.row >= 0 && r >= 0 && r < p.h && c >= 0 && c < p.w;
      if (!N) e.v[k] = inside ? x[t.offset] : (T0)0;
      else if (inside) x[t.offset] = e.v[k];
    }
    if (!N) *(pack<T0, PACK> *)(p.y + i * PACK) = e;
  }
}
