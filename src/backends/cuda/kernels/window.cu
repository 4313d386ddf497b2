/* window.cu: windows over images: pools, im2col and col2im, forward and backward.
 *
 * T0 is the element type; positions are computed in N bits, 32 where they fit. Images are (planes, h, w), results
 * (planes, oh, ow), columns (planes, kh, kw, oh, ow), all row-major; kernels named _last have (images, h, w, channels),
 * and take packs of neighbouring channels. Invariant: every element of a result is made by one thread, in one order;
 * gradients gather from the windows that an element lies in (max, where windows are not known: atomic additions into
 * the type that is computed in). */
#include "codegen/device.cuh"
#include "common.cuh"

/* What positions are divided by: n / by is (n * factor >> 32) + n >> shift for n below 2^31. */
struct denominator {
  i64 by;
  u32 factor, shift;
};

struct window_job {
  const void *x;
  void *y;
  i64 *index;
  i64 planes, h, w, oh, ow;
  i64 kernel[2], stride[2], padding[2], dilation[2];
  i64 divisor;
  i64 images, channels; /* where channels are innermost */
  denominator groups, columns, lines, step[2]; /* of results: packs of a pixel, pixels of a line, lines; strides */
  i32 include_pad, aligned;
  fault_slot fault;
};

typedef wide_of<T0>::type A;
template <int BITS> struct position { typedef i64 type; };
template <> struct position<32> { typedef i32 type; };
typedef position<N>::type I;
/* Element `at` of (planes, rows, columns). */
struct place {
  I plane, row, column;
};
FN place place_of(i64 at, i64 rows, i64 columns)
{
  const I line = (I)at / (I)columns, plane = line / (I)rows;
  return place{plane, line - plane * (I)rows, (I)at - line * (I)columns};
}

FN I divided(I n, const denominator &d)
{
  return N == 32 ? (I)(((u32)((u64)(u32)n * d.factor >> 32) + (u32)n) >> d.shift) : n / (I)d.by;
}

/* The result's element `at`. */
FN place place_of_result(i64 at, const window_job &p)
{
  const I line = divided((I)at, p.columns), plane = divided(line, p.lines);
  return place{plane, line - plane * (I)p.lines.by, (I)at - line * (I)p.columns.by};
}

/* Packs of M channels of (images, rows, columns, channels): the result's of a number, and where its first element is. */
struct pixel {
  I image, row, column, group;
};
FN pixel pixel_of(i64 at, const window_job &p)
{
  const I line = divided((I)at, p.groups), row = divided(line, p.columns), image = divided(row, p.lines);
  return pixel{image, row - image * (I)p.lines.by, line - row * (I)p.columns.by, (I)at - line * (I)p.groups.by};
}
template <int M> FN i64 start_of(pixel e, i64 rows, i64 columns, i64 channels)
{
  return ((e.image * (I)rows + e.row) * (I)columns + e.column) * (I)channels + e.group * M;
}
/* 8 bytes each: indices, which are wider, then are read and written by neighbouring threads in few lines. */
enum { PACK = 8 / sizeof(T0) };
enum { AHEAD = 4 }; /* packs that a thread of a max pool asks for before it looks at the first */
#define BY_PACKS(function) \
  if (p.aligned) function<PACK>(p); \
  else function<1>(p)

FN i64 least(i64 a, i64 b) { return a < b ? a : b; }
FN i64 most(i64 a, i64 b) { return a > b ? a : b; }

/* Taps [*first, *last) of window o along dim d that lie inside the image. */
FN void taps(const window_job &p, int d, i64 o, i64 size, i64 *first, i64 *last)
{
  const I begin = (I)(o * p.stride[d] - p.padding[d]), step = (I)p.dilation[d];
  *first = begin < 0 ? (step == 1 ? -begin : (-begin + step - 1) / step) : 0;
  *last = least(p.kernel[d], begin >= size ? 0 : step == 1 ? (I)size - begin : ((I)size - begin + step - 1) / step);
  *first = least(*first, *last);
}

template <class W> struct lowest_of { FN W value() { return (W)-INF_F64; } };
template <> struct lowest_of<i64> { FN i64 value() { return (i64)((u64)1 << 63); } };
template <> struct lowest_of<u64> { FN u64 value() { return 0; } };

/* A thread per window; the threads of a warp have neighbouring windows, so that their loads are of few lines. */
KERNEL(max_pool, window_job)
{
  const I width = (I)p.w, across = (I)p.dilation[1], down = (I)p.dilation[0] * width;
  EACH(i, p.planes * p.oh * p.ow)
  {
    const place own = place_of_result(i, p);
    const T0 *x = (const T0 *)p.x + own.plane * p.h * p.w;
    i64 i0, i1, j0, j1;
    taps(p, 0, own.row, p.h, &i0, &i1);
    taps(p, 1, own.column, p.w, &j0, &j1);
    const I rows = (I)(i1 - i0), columns = (I)(j1 - j0);
    I line = (own.row * (I)p.stride[0] - (I)p.padding[0]) * width + (I)i0 * down + own.column * (I)p.stride[1] -
             (I)p.padding[1] + (I)j0 * across;
    A best = lowest_of<A>::value();
    I at = line;
    for (I a = 0; a < rows; a++, line += down)
      for (I b = 0, e = line; b < columns; b++, e += across) {
        const A v = get(x[e]);
        if (v > best || v != v) best = v, at = e;
      }
    ((T0 *)p.y)[i] = put<T0>(best);
    p.index[i] = rows > 0 && columns > 0 ? (i64)at : -1;
  }
}

template <int M> FN void max_pool_packs(const window_job &p)
{
  EACH(i, p.images * p.oh * p.ow * (p.channels / M))
  {
    const pixel own = pixel_of(i, p);
    const I top = own.row * (I)p.stride[0] - (I)p.padding[0], left = own.column * (I)p.stride[1] - (I)p.padding[1];
    A best[M];
    I at[M];
#pragma unroll
    for (int k = 0; k < M; k++) best[k] = lowest_of<A>::value(), at[k] = -1;
    for (I a = 0, r = top; a < (I)p.kernel[0]; a++, r += (I)p.dilation[0]) {
      if (r < 0 || r >= p.h) continue;
      for (I b = 0; b < (I)p.kernel[1]; b += AHEAD) {
        pack<T0, M> x[AHEAD];
#pragma unroll
        for (int n = 0; n < AHEAD; n++) {
          const I c = left + (b + n) * (I)p.dilation[1];
          const i64 from = start_of<M>(pixel{own.image, r, c, own.group}, p.h, p.w, p.channels);
          if (b + n < (I)p.kernel[1] && c >= 0 && c < p.w) x[n] = *(const pack<T0, M> *)((const T0 *)p.x + from);
        }
#pragma unroll
        for (int n = 0; n < AHEAD; n++) {
          const I c = left + (b + n) * (I)p.dilation[1];
          if (b + n >= (I)p.kernel[1] || c < 0 || c >= p.w) continue;
#pragma unroll
          for (int k = 0; k < M; k++) {
            const A v = get(x[n].v[k]);
            if (at[k] < 0 || v > best[k] || v != v) best[k] = v, at[k] = r * (I)p.w + c;
          }
        }
      }
    }
    pack<T0, M> y;
#pragma unroll
    for (int k = 0; k < M; k++) y.v[k] = put<T0>(best[k]);
    *(pack<T0, M> *)((T0 *)p.y + i * M) = y;
    enum { PAIR = M > 1 ? 2 : 1 };
#pragma unroll
    for (int k = 0; k < M; k += PAIR) {
      pack<i64, PAIR> places;
      for (int n = 0; n < PAIR; n++) places.v[n] = at[k + n];
      *(pack<i64, PAIR> *)(p.index + i * M + k) = places;
    }
  }
}
KERNEL(max_pool_last, window_job) { BY_PACKS(max_pool_packs); }

/* Bin o of n over `size` elements. */
FN i64 quotient(i64 a, i64 b) { return (u64)(a | b) >> 32 ? a / b : (i64)((u32)a / (u32)b); } /* short ones are fast */
FN i64 bin_first(i64 o, i64 n, i64 size) { return quotient(o * size, n); }
FN i64 bin_last(i64 o, i64 n, i64 size) { return quotient((o + 1) * size + n - 1, n); }

KERNEL(adaptive_max_pool, window_job)
{
  EACH(i, p.planes * p.oh * p.ow)
  {
    const place own = place_of(i, p.oh, p.ow);
    const i64 ow = own.column, oh = own.row;
    const T0 *x = (const T0 *)p.x + own.plane * p.h * p.w;
    const i64 i0 = bin_first(oh, p.oh, p.h), j0 = bin_first(ow, p.ow, p.w);
    A best = lowest_of<A>::value();
    i64 at = i0 * p.w + j0;
    for (i64 a = i0; a < bin_last(oh, p.oh, p.h); a++)
      for (i64 b = j0; b < bin_last(ow, p.ow, p.w); b++) {
        const A v = get(x[a * p.w + b]);
        if (v > best || v != v) best = v, at = a * p.w + b;
      }
    ((T0 *)p.y)[i] = put<T0>(best);
    p.index[i] = at;
  }
}

FN void add_to(f32 *to, f32 v) { atomicAdd(to, v); }
FN void add_to(f64 *to, f64 v) { atomicAdd(to, v); }
FN void add_to(i64 *to, i64 v) { atomicAdd((u64 *)to, (u64)v); }
FN void add_to(u64 *to, u64 v) { atomicAdd(to, v); }

/* x: gradients of the results; y: those of the image, zero at first, of the type that is computed in. */
KERNEL(max_pool_grad, window_job)
{
  EACH(i, p.planes * p.oh * p.ow)
  {
    const i64 at = p.index[i];
    if (at >= p.h * p.w || at < -1) report_fault(p.fault, FAULT_INDEX, at, p.h * p.w);
    else if (at >= 0) add_to((A *)p.y + i / p.ow / p.oh * p.h * p.w + at, (A)get(((const T0 *)p.x)[i]));
  }
}

/* The windows along dim d that may have element e among their taps. */
FN void windows_around(const window_job &p, int d, I e, i64 count, I *first, I *last)
{
  const I at = e + (I)p.padding[d], reach = (I)((p.kernel[d] - 1) * p.dilation[d]), step = (I)p.stride[d];
  *first = at <= reach ? 0 : divided(at - reach + step - 1, p.step[d]);
  *last = (I)least(divided(at, p.step[d]) + 1, count);
}

/* ... where windows are known: an element gathers from those whose largest it was. */
KERNEL(max_pool_gather, window_job)
{
  EACH(i, p.planes * p.h * p.w)
  {
    const place own = place_of_result(i, p);
    const i64 plane = (i64)own.plane * p.oh * p.ow;
    const I at = own.row * (I)p.w + own.column;
    I i0, i1, j0, j1;
    windows_around(p, 0, own.row, p.oh, &i0, &i1);
    windows_around(p, 1, own.column, p.ow, &j0, &j1);
    A sum = 0;
    for (I a = i0; a < i1; a++)
      for (I b = j0; b < j1; b++) {
        const i64 from = plane + a * (I)p.ow + b;
        if ((I)p.index[from] == at) sum += get(((const T0 *)p.x)[from]);
      }
    ((T0 *)p.y)[i] = put<T0>(sum);
  }
}

template <int M> FN void max_gather_packs(const window_job &p)
{
  EACH(i, p.images * p.h * p.w * (p.channels / M))
  {
    const pixel own = pixel_of(i, p);
    const I at = own.row * (I)p.w + own.column;
    I i0, i1, j0, j1;
    windows_around(p, 0, own.row, p.oh, &i0, &i1);
    windows_around(p, 1, own.column, p.ow, &j0, &j1);
    A sum[M] = {};
    I a = i0, b = j0;
    for (I left = (i1 - i0) * (j1 - j0); left > 0; left -= AHEAD) {
      enum { PAIR = M > 1 ? 2 : 1 };
      pack<T0, M> g[AHEAD];
      pack<i64, PAIR> places[AHEAD][M / PAIR];
#pragma unroll
      for (int n = 0; n < AHEAD; n++) {
        if (n >= left) continue;
        const i64 from = start_of<M>(pixel{own.image, a, b, own.group}, p.oh, p.ow, p.channels);
        g[n] = *(const pack<T0, M> *)((const T0 *)p.x + from);
#pragma unroll
        for (int k = 0; k < M / PAIR; k++) places[n][k] = *(const pack<i64, PAIR> *)(p.index + from + k * PAIR);
        b = b + 1 < j1 ? b + 1 : j0;
        a += b == j0;
      }
#pragma unroll
      for (int n = 0; n < AHEAD; n++) {
        if (n >= left) continue;
#pragma unroll
        for (int k = 0; k < M; k++) sum[k] += (I)places[n][k / PAIR].v[k % PAIR] == at ? (A)get(g[n].v[k]) : (A)0;
      }
    }
    pack<T0, M> y;
#pragma unroll
    for (int k = 0; k < M; k++) y.v[k] = put<T0>(sum[k]);
    *(pack<T0, M> *)((T0 *)p.y + i * M) = y;
  }
}
KERNEL(max_pool_gather_last, window_job) { BY_PACKS(max_gather_packs); }

FN i64 divisor_of(const window_job &p, i64 oh, i64 ow, i64 rows, i64 cols)
{
  if (p.divisor) return p.divisor;
  if (!p.include_pad) return rows * cols;
  const i64 y = oh * p.stride[0] - p.padding[0], x = ow * p.stride[1] - p.padding[1];
  return (least(y + p.kernel[0], p.h + p.padding[0]) - y) * (least(x + p.kernel[1], p.w + p.padding[1]) - x);
}

KERNEL(avg_pool, window_job)
{
  EACH(i, p.planes * p.oh * p.ow)
  {
    const place own = place_of(i, p.oh, p.ow);
    const i64 ow = own.column, oh = own.row;
    const T0 *x = (const T0 *)p.x + own.plane * p.h * p.w;
    const i64 top = oh * p.stride[0] - p.padding[0], left = ow * p.stride[1] - p.padding[1];
    const i64 i0 = most(top, 0), i1 = least(top + p.kernel[0], p.h);
    const i64 j0 = most(left, 0), j1 = least(left + p.kernel[1], p.w);
    A sum = 0;
    for (i64 a = i0; a < i1; a++)
      for (i64 b = j0; b < j1; b++) sum += get(x[a * p.w + b]);
    if (i0 < i1 && j0 < j1) sum /= (A)divisor_of(p, oh, ow, i1 - i0, j1 - j0);
    ((T0 *)p.y)[i] = put<T0>(sum);
  }
}

/* The windows along dim d that element e lies in. */
FN void windows_of(const window_job &p, int d, i64 e, i64 count, i64 *first, i64 *last)
{
  const i64 at = e + p.padding[d];
  *first = at < p.kernel[d] ? 0 : (at - p.kernel[d]) / p.stride[d] + 1;
  *last = least(at / p.stride[d] + 1, count);
}

KERNEL(avg_pool_grad, window_job)
{
  EACH(i, p.planes * p.h * p.w)
  {
    const place own = place_of(i, p.h, p.w);
    const i64 c = own.column, r = own.row;
    const T0 *g = (const T0 *)p.x + own.plane * p.oh * p.ow;
    i64 i0, i1, j0, j1;
    windows_of(p, 0, r, p.oh, &i0, &i1);
    windows_of(p, 1, c, p.ow, &j0, &j1);
    A sum = 0;
    for (i64 a = i0; a < i1; a++)
      for (i64 b = j0; b < j1; b++) {
        const i64 top = a * p.stride[0] - p.padding[0], left = b * p.stride[1] - p.padding[1];
        const i64 rows = least(top + p.kernel[0], p.h) - most(top, 0);
        const i64 cols = least(left + p.kernel[1], p.w) - most(left, 0);
        sum += (A)get(g[a * p.ow + b]) / (A)divisor_of(p, a, b, rows, cols);
      }
    ((T0 *)p.y)[i] = put<T0>(sum);
  }
}

KERNEL(adaptive_avg_pool, window_job)
{
  EACH(i, p.planes * p.oh * p.ow)
  {
    const place own = place_of(i, p.oh, p.ow);
    const i64 ow = own.column, oh = own.row;
    const T0 *x = (const T0 *)p.x + own.plane * p.h * p.w;
    const i64 i0 = bin_first(oh, p.oh, p.h), i1 = bin_last(oh, p.oh, p.h);
    const i64 j0 = bin_first(ow, p.ow, p.w), j1 = bin_last(ow, p.ow, p.w);
    A sum = 0;
    for (i64 a = i0; a < i1; a++)
      for (i64 b = j0; b < j1; b++) sum += get(x[a * p.w + b]);
    ((T0 *)p.y)[i] = put<T0>(sum / (A)(i1 - i0) / (A)(j1 - j0));
  }
}

KERNEL(adaptive_avg_pool_grad, window_job)
{
  EACH(i, p.planes * p.h * p.w)
  {
    const place own = place_of(i, p.h, p.w);
    const i64 c = own.column, r = own.row;
    const T0 *g = (const T0 *)p.x + own.plane * p.oh * p.ow;
    A sum = 0;
    for (i64 a = bin_first(r, p.h, p.oh); a < p.oh && bin_first(a, p.oh, p.h) <= r; a++) {
      if (bin_last(a, p.oh, p.h) <= r) continue;
      for (i64 b = bin_first(c, p.w, p.ow); b < p.ow && bin_first(b, p.ow, p.w) <= c; b++) {
        if (bin_last(b, p.ow, p.w) <= c) continue;
        const A rows = (A)(bin_last(a, p.oh, p.h) - bin_first(a, p.oh, p.h));
        const A cols = (A)(bin_last(b, p.ow, p.w) - bin_first(b, p.ow, p.w));
        sum += (A)get(g[a * p.ow + b]) / rows / cols;
      }
    }
    ((T0 *)p.y)[i] = put<T0>(sum);
  }
}

template <int M> FN void adaptive_packs(const window_job &p)
{
  EACH(i, p.images * p.oh * p.ow * (p.channels / M))
  {
    const pixel own = pixel_of(i, p);
    const I i0 = (I)bin_first(own.row, p.oh, p.h), i1 = (I)bin_last(own.row, p.oh, p.h);
    const I j0 = (I)bin_first(own.column, p.ow, p.w), j1 = (I)bin_last(own.column, p.ow, p.w);
    enum { AT_ONCE = 8 };
    const I wide = j1 - j0, count = (i1 - i0) * wide;
    A sum[M] = {};
    for (I e = 0; e < count; e += AT_ONCE) {
      pack<T0, M> x[AT_ONCE];
#pragma unroll
      for (int n = 0; n < AT_ONCE; n++) {
        const I a = (e + n) / wide, b = e + n - a * wide;
        if (e + n >= count) continue;
        const i64 from = start_of<M>(pixel{own.image, i0 + a, j0 + b, own.group}, p.h, p.w, p.channels);
        x[n] = *(const pack<T0, M> *)((const T0 *)p.x + from);
      }
#pragma unroll
      for (int n = 0; n < AT_ONCE; n++)
#pragma unroll
        for (int k = 0; k < M; k++) sum[k] += e + n < count ? (A)get(x[n].v[k]) : (A)0;
    }
    pack<T0, M> y;
#pragma unroll
    for (int k = 0; k < M; k++) y.v[k] = put<T0>(sum[k] / (A)(i1 - i0) / (A)(j1 - j0));
    *(pack<T0, M> *)((T0 *)p.y + i * M) = y;
  }
}
KERNEL(adaptive_avg_pool_last, window_job) { BY_PACKS(adaptive_packs); }

/* The same for few results of many elements each: lanes are packs, the warps of a block share the elements. */
template <int M> FN void adaptive_shared(const window_job &p)
{
  enum { WARPS = THREADS / 32 };
  __shared__ A room[WARPS][M][32];
  const i64 packs = p.images * p.oh * p.ow * (p.channels / M);
  const int warp = (int)threadIdx.x >> 5;
  for (i64 first = (i64)blockIdx.x * 32; first < packs; first += (i64)gridDim.x * 32) {
    const pixel own = pixel_of(first + LANE < packs ? first + LANE : packs - 1, p);
    const I i0 = (I)bin_first(own.row, p.oh, p.h), i1 = (I)bin_last(own.row, p.oh, p.h);
    const I j0 = (I)bin_first(own.column, p.ow, p.w), j1 = (I)bin_last(own.column, p.ow, p.w);
    const I wide = j1 - j0, count = (i1 - i0) * wide;
    A sum[M] = {};
#pragma unroll 8
    for (I e = warp; e < count; e += WARPS) {
      const I a = e / wide, b = e - a * wide;
      const i64 from = start_of<M>(pixel{own.image, i0 + a, j0 + b, own.group}, p.h, p.w, p.channels);
      const pack<T0, M> x = *(const pack<T0, M> *)((const T0 *)p.x + from);
#pragma unroll
      for (int k = 0; k < M; k++) sum[k] += get(x.v[k]);
    }
#pragma unroll
    for (int k = 0; k < M; k++) room[warp][k][LANE] = sum[k];
    __syncthreads();
    if (warp == 0 && first + LANE < packs) {
      pack<T0, M> y;
#pragma unroll
      for (int k = 0; k < M; k++) {
        A all = room[0][k][LANE];
        for (int w = 1; w < WARPS; w++) all += room[w][k][LANE];
        y.v[k] = put<T0>(all / (A)(i1 - i0) / (A)wide);
      }
      *(pack<T0, M> *)((T0 *)p.y + (first + LANE) * M) = y;
    }
    __syncthreads();
  }
}
KERNEL(adaptive_avg_pool_shared, window_job) { BY_PACKS(adaptive_shared); }

template <int M> FN void adaptive_grad_packs(const window_job &p)
{
  EACH(i, p.images * p.h * p.w * (p.channels / M))
  {
    const pixel own = pixel_of(i, p);
    A sum[M] = {};
    for (I a = (I)bin_first(own.row, p.h, p.oh); a < p.oh && bin_first(a, p.oh, p.h) <= own.row; a++)
      for (I b = (I)bin_first(own.column, p.w, p.ow); b < p.ow && bin_first(b, p.ow, p.w) <= own.column; b++) {
        if (bin_last(a, p.oh, p.h) <= own.row || bin_last(b, p.ow, p.w) <= own.column) continue;
        const A rows = (A)(bin_last(a, p.oh, p.h) - bin_first(a, p.oh, p.h));
        const A columns = (A)(bin_last(b, p.ow, p.w) - bin_first(b, p.ow, p.w));
        const i64 from = start_of<M>(pixel{own.image, a, b, own.group}, p.oh, p.ow, p.channels);
        const pack<T0, M> g = *(const pack<T0, M> *)((const T0 *)p.x + from);
#pragma unroll
        for (int k = 0; k < M; k++) sum[k] += (A)get(g.v[k]) / rows / columns;
      }
    pack<T0, M> y;
#pragma unroll
    for (int k = 0; k < M; k++) y.v[k] = put<T0>(sum[k]);
    *(pack<T0, M> *)((T0 *)p.y + i * M) = y;
  }
}
KERNEL(adaptive_avg_pool_grad_last, window_job) { BY_PACKS(adaptive_grad_packs); }

/* ---- columns ---- */

KERNEL(im2col, window_job)
{
  EACH(i, p.planes * p.kernel[0] * p.kernel[1] * p.oh * p.ow)
  {
    i64 rest = i / p.ow;
    const i64 ow = i % p.ow, oh = rest % p.oh;
    rest /= p.oh;
    const i64 b = rest % p.kernel[1], a = rest / p.kernel[1] % p.kernel[0], plane = rest / p.kernel[1] / p.kernel[0];
    const i64 r = oh * p.stride[0] - p.padding[0] + a * p.dilation[0];
    const i64 c = ow * p.stride[1] - p.padding[1] + b * p.dilation[1];
    const bool inside = r >= 0 && r < p.h && c >= 0 && c < p.w;
    ((T0 *)p.y)[i] = inside ? ((const T0 *)p.x)[(plane * p.h + r) * p.w + c] : put<T0>(0);
  }
}

KERNEL(col2im, window_job)
{
  EACH(i, p.planes * p.h * p.w)
  {
    const i64 c = i % p.w, r = i / p.w % p.h, plane = i / p.w / p.h;
    const T0 *x = (const T0 *)p.x + plane * p.kernel[0] * p.kernel[1] * p.oh * p.ow;
    A sum = 0;
    for (i64 a = 0; a < p.kernel[0]; a++) {
      const i64 top = r + p.padding[0] - a * p.dilation[0], oh = top / p.stride[0];
      if (top < 0 || top % p.stride[0] || oh >= p.oh) continue;
      for (i64 b = 0; b < p.kernel[1]; b++) {
        const i64 left = c + p.padding[1] - b * p.dilation[1], ow = left / p.stride[1];
        if (left < 0 || left % p.stride[1] || ow >= p.ow) continue;
        sum += get(x[((a * p.kernel[1] + b) * p.oh + oh) * p.ow + ow]);
      }
    }
    ((T0 *)p.y)[i] = put<T0>(sum);
  }
}
