/* norm.cu: layer norm and RMS norm over rows, forward and backward. OP: layer or rms.
 *
 * T0 is the type of rows, T1 that of weight and bias; statistics are of the type rows are computed in. Rows are read
 * once and kept (rows.cuh). Invariant: gradients of weight and bias are sums over fixed pieces of the rows, joined in
 * order, so they are the same every time. */
#if N <= 0 && THREADS <= 768
#define BLOCKS_AT_ONCE (768 / THREADS) /* at most 85 registers a thread, so that many rows are under way */
#endif
#include "common.cuh"
#include "rows.cuh"

enum norm_kind { layer, rms };

typedef wide_of<T0>::type A;
enum { V = 16 / sizeof(T0) };

struct norm_job {
  const T0 *x, *g;   /* (rows, n) */
  const T1 *w, *b;   /* (n) or NULL */
  T0 *y;             /* result, or gradient of x */
  A *mean, *rstd;    /* (rows); mean NULL for rms */
  A *partial;        /* (pieces, 2, n): sums for the gradients of weight and bias */
  T1 *gw, *gb;       /* (n) or NULL */
  i64 rows, n, piece, pieces;
  f64 eps;
  i32 aligned, stash;
};

FN A root_of(A v) { return sizeof(A) == 4 ? (A)sqrtf((f32)v) : (A)sqrt((f64)v); }

template <class T> FN A element(const T *w, i64 i, i64 n, A none) { return w && i < n ? (A)get(w[i]) : none; }

KERNEL(norm_forward, norm_job)
{
  DYNAMIC_SHARED(char, room);
  for (i64 r = FIRST_ROW; r < p.rows; r += ROW_STEP) {
    kept<T0, V> row = kept<T0, V>::of(p.x + r * p.n, p.n, p.aligned, put<T0>(0), p.stash ? room : 0);
    A sum = 0, square = 0, mean = 0;
#pragma unroll
    for (int k = 0; k < PACKS(p.n); k++) {
      const pack<T0, V> e = first_read(row, k);
#pragma unroll
      for (int i = 0; i < V; i++) sum += OP == layer ? get(e.v[i]) : get(e.v[i]) * get(e.v[i]);
    }
    if (OP == layer) {
      mean = group_sum(sum) / (A)p.n;
#pragma unroll
      for (int k = 0; k < PACKS(p.n); k++) {
        const pack<T0, V> e = read_again(row, k);
#pragma unroll
        for (int i = 0; i < V; i++) {
          const A d = get(e.v[i]) - mean;
          square += PACK_AT(k) + i < p.n ? d * d : (A)0;
        }
      }
      sum = square;
    }
    const A rstd = (A)1 / root_of(group_sum(sum) / (A)p.n + (A)p.eps);
    if (GROUP_LANE == 0) {
      if (p.mean) p.mean[r] = mean;
      p.rstd[r] = rstd;
    }
#pragma unroll
    for (int k = 0; k < PACKS(p.n); k++) {
      const i64 at = PACK_AT(k);
      if (at >= p.n) continue;
      const pack<T0, V> e = read_again(row, k);
      pack<T1, V> w, b;
      if (p.w) w = load_pack<T1, V>(p.w, at, p.n, p.aligned, put<T1>(1));
      if (p.b) b = load_pack<T1, V>(p.b, at, p.n, p.aligned, put<T1>(0));
      pack<T0, V> out;
#pragma unroll
      for (int i = 0; i < V; i++) {
        A v = (get(e.v[i]) - mean) * rstd;
        if (p.w) v *= (A)get(w.v[i]);
        if (p.b) v += (A)get(b.v[i]);
        out.v[i] = put<T0>(v);
      }
      store_pack<T0, V>(p.y + r * p.n, at, p.n, p.aligned, out);
    }
  }
}

/* rstd (gw - mean(gw) - h mean(gw h)), h the normalised row, gw = g * weight; mean(gw) for layer norm only. */
KERNEL(norm_backward, norm_job)
{
  DYNAMIC_SHARED(char, room);
  const i64 half = (i64)PACKS(p.n) * GROUP * sizeof(pack<T0, V>);
  for (i64 r = FIRST_ROW; r < p.rows; r += ROW_STEP) {
    kept<T0, V> xs = kept<T0, V>::of(p.x + r * p.n, p.n, p.aligned, put<T0>(0), p.stash ? room : 0);
    kept<T0, V> gs = kept<T0, V>::of(p.g + r * p.n, p.n, p.aligned, put<T0>(0), p.stash ? room + half : 0);
    const A mean = p.mean ? p.mean[r] : (A)0, rstd = p.rstd[r];
    A s1 = 0, s2 = 0;
#pragma unroll
    for (int k = 0; k < PACKS(p.n); k++) {
      const i64 at = PACK_AT(k);
      const pack<T0, V> x = first_read(xs, k), g = first_read(gs, k);
      pack<T1, V> w;
      if (p.w && at < p.n) w = load_pack<T1, V>(p.w, at, p.n, p.aligned, put<T1>(0));
#pragma unroll
      for (int i = 0; i < V; i++) {
        const A gw = at + i < p.n ? (p.w ? get(g.v[i]) * (A)get(w.v[i]) : get(g.v[i])) : (A)0;
        s1 += gw;
        s2 += gw * ((get(x.v[i]) - mean) * rstd);
      }
    }
    s1 = OP == layer ? group_sum(s1) / (A)p.n : (A)0;
    s2 = group_sum(s2) / (A)p.n;
#pragma unroll
    for (int k = 0; k < PACKS(p.n); k++) {
      const i64 at = PACK_AT(k);
      if (at >= p.n) continue;
      const pack<T0, V> x = read_again(xs, k), g = read_again(gs, k);
      pack<T1, V> w;
      if (p.w) w = load_pack<T1, V>(p.w, at, p.n, p.aligned, put<T1>(0));
      pack<T0, V> out;
#pragma unroll
      for (int i = 0; i < V; i++) {
        const A gw = p.w ? get(g.v[i]) * (A)get(w.v[i]) : get(g.v[i]), h = (get(x.v[i]) - mean) * rstd;
        out.v[i] = put<T0>(rstd * (gw - s1 - h * s2));
      }
      store_pack<T0, V>(p.y + r * p.n, at, p.n, p.aligned, out);
    }
  }
}

/* What a piece of the rows adds to the gradients of weight and bias: a warp's lanes are neighbouring packs of columns,
 * the block's warps take rows in turn. */
KERNEL(norm_affine, norm_job)
{
  __shared__ A sums[2][THREADS / 32][32 * V];
  const i64 column = ((i64)blockIdx.x * 32 + LANE) * V, begin = blockIdx.y * p.piece;
  const i64 end = begin + p.piece < p.rows ? begin + p.piece : p.rows;
  const int warp = (int)threadIdx.x >> 5;
  A sw[V] = {}, sb[V] = {};
  if (column < p.n)
    for (i64 r = begin + warp; r < end; r += THREADS / 32) {
      const pack<T0, V> x = load_pack<T0, V>(p.x + r * p.n, column, p.n, p.aligned, put<T0>(0));
      const pack<T0, V> g = load_pack<T0, V>(p.g + r * p.n, column, p.n, p.aligned, put<T0>(0));
      const A mean = p.mean ? p.mean[r] : (A)0, rstd = p.rstd[r];
#pragma unroll
      for (int i = 0; i < V; i++) {
        sw[i] += get(g.v[i]) * ((get(x.v[i]) - mean) * rstd);
        sb[i] += get(g.v[i]);
      }
    }
#pragma unroll
  for (int i = 0; i < V; i++) {
    sums[0][warp][i * 32 + LANE] = sw[i];
    sums[1][warp][i * 32 + LANE] = sb[i];
  }
  __syncthreads();
  for (int t = threadIdx.x; t < 2 * 32 * V; t += THREADS) {
    const int which = t / (32 * V), at = t % (32 * V);
    const i64 c = ((i64)blockIdx.x * 32 + at % 32) * V + at / 32;
    A sum = 0;
    for (int k = 0; k < THREADS / 32; k++) sum += sums[which][k][at];
    if (c < p.n) p.partial[(blockIdx.y * 2 + which) * p.n + c] = sum;
  }
}

KERNEL(norm_affine_join, norm_job)
{
  EACH(column, p.n)
  {
    A sw = 0, sb = 0;
    for (i64 k = 0; k < p.pieces; k++) {
      sw += p.partial[k * 2 * p.n + column];
      sb += p.partial[(k * 2 + 1) * p.n + column];
    }
    if (p.gw) p.gw[column] = put<T1>(sw);
    if (p.gb) p.gb[column] = put<T1>(sb);
  }
}
