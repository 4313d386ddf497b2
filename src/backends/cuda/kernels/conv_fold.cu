/* conv_fold.cu: images and filters of few channels, with the pixels of a stride side by side as channels, and filters
 * back from there.
 *
 * T0 is an integer of the elements' size; N is 1 where folded elements are scattered back. y is (images, rows, columns,
 * DEEP); its pixel (row, column) has the elements of x around (row * stride - padding, column * stride - padding) that
 * `taps` name, and zeros for those outside of x. Invariant: every element of the result is written once. */
#include "codegen/device.cuh"
#include "common.cuh"

enum { DEEP = 16, PACK = 16 / sizeof(T0) };

struct tap {
  i64 offset;   /* in x, from a pixel's first element */
  i32 row, col; /* row < 0: a channel of zeros */
};
struct fold_job {
  T0 *x, *y;
  i64 images, rows, cols;
  i64 h, w, image, line, pixel; /* of x: its size, and strides in elements */
  i64 stride[2], padding[2];
  tap taps[DEEP];
};

KERNEL(conv_fold, fold_job)
{
  EACH(i, p.images * p.rows * p.cols)
  {
    const i64 row = i / p.cols, n = row / p.rows;
    const i64 top = (row - n * p.rows) * p.stride[0] - p.padding[0];
    const i64 left = (i - row * p.cols) * p.stride[1] - p.padding[1];
    T0 *x = p.x + n * p.image + top * p.line + left * p.pixel;
    pack<T0, PACK> *y = (pack<T0, PACK> *)(p.y + i * DEEP), e[DEEP / PACK];
#pragma unroll
    for (int k = 0; k < DEEP / PACK; k++)
      if (N) e[k] = y[k];
#pragma unroll
    for (int k = 0; k < DEEP; k++) {
      const tap t = p.taps[k];
      const i64 r = top + t.row, c = left + t.col;
      const bool inside = t.row >= 0 && r >= 0 && r < p.h && c >= 0 && c < p.w;
      T0 &v = e[k / PACK].v[k % PACK];
      if (!N) v = inside ? x[t.offset] : (T0)0;
      else if (inside) x[t.offset] = v;
    }
#pragma unroll
    for (int k = 0; k < DEEP / PACK; k++)
      if (!N) y[k] = e[k];
  }
}
