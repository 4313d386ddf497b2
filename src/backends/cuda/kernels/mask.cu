/* mask.cu: what attention's masks and dropout need besides cuDNN's kernels: a mask as numbers to be added to the
 * scores, and the queries that see no key.
 *
 * T0 is the mask's type, T1 that of the numbers, T2 that of queries, keys and values. Invariant: what is added is never
 * below `lowest`, so that no row of scores has an infinity, and no difference of scores is NaN that was not NaN before.
 */
#include "codegen/device.cuh"
#include "common.cuh"

enum { WIDTH = 8 };

FN bool hides(b8 v) { return !v.bits; }
template <class T> FN bool hides(T v) { return get(v) == -INF_F32; }
FN f32 added(b8 v, f32 lowest) { return v.bits ? 0 : lowest; }
template <class T> FN f32 added(T v, f32 lowest) { return get(v) < lowest ? lowest : get(v); }

struct bias_job {
  const T0 *mask;
  T1 *bias;                   /* (batch, heads, queries, room), row-major */
  i64 heads, queries, packs;  /* of WIDTH in each row */
  i64 all, keys;              /* packs in all; columns of which the mask has one */
  i64 stride[4];              /* of the mask */
  f32 lowest;
};

KERNEL(mask_bias, bias_job)
{
  EACH(i, p.all)
  {
    const i64 row = i / p.packs, first = (i - row * p.packs) * WIDTH, head = row / p.queries;
    const T0 *m = p.mask + head / p.heads * p.stride[0] + head % p.heads * p.stride[1] + row % p.queries * p.stride[2];
    pack<T1, WIDTH> made;
    for (int k = 0; k < WIDTH; k++)
      made.v[k] = put<T1>(first + k < p.keys ? added(m[(first + k) * p.stride[3]], p.lowest) : p.lowest);
    ((pack<T1, WIDTH> *)p.bias)[i] = made;
  }
}

struct rows_job {
  const T0 *mask;
  f32 *lse; /* (B, H, Tq) */
  T2 *out;  /* (B, H, Tq, values) */
  const T2 *q, *k, *v, *dropped; /* dropped: (B, H, Tq, room), or NULL */
  i64 rows, heads, share, queries, keys, width, values, room;
  i64 stride[4], os[3], qs[3], ks[3], vs[3]; /* of the mask over (B, H, Tq, Tk); of out, q, k, v */
  f32 lowest, scale, rise;
};
struct query {
  i64 row, b, h, t;
  const T0 *mask;
};
FN i64 offset(const i64 *strides, i64 b, i64 h, i64 t) { return b * strides[0] + h * strides[1] + t * strides[2]; }

/* A warp: does a row of the mask hide every key? */
FN bool hides_all(const T0 *m, i64 stride, i64 keys)
{
  for (i64 at = 0; at < keys; at += 32) {
    const i64 j = at + LANE;
    if (__any_sync(FULL, j < keys && !hides(m[j * stride]))) return false;
  }
  return true;
}

FN f32 score(const rows_job &p, const query &i, i64 j)
{
  const T2 *q = p.q + offset(p.qs, i.b, i.h, i.t), *k = p.k + offset(p.ks, i.b, i.h / p.share, j);
  f32 s = 0;
  for (i64 e = 0; e < p.width; e++) s += get(q[e]) * get(k[e]);
  const T0 m = i.mask[j * p.stride[3]];
  return hides(m) ? -INF_F32 : s * p.scale + added(m, -INF_F32);
}

/* A warp makes the row of a query whose scores are so low that cuDNN took them for infinities. */
FN void plain_row(const rows_job &p, const query &i)
{
  enum { EACH_LANE = 8 }; /* values are 256 wide at most */
  f32 most = -INF_F32, sum = 0, out[EACH_LANE] = {};
  for (i64 j = LANE; j < p.keys; j += 32) most = larger(most, score(p, i, j));
  most = warp_max(most);
  for (i64 at = 0; at < p.keys; at += 32) {
    const i64 j = at + LANE;
    f32 w = j < p.keys ? expf(score(p, i, j) - most) : (f32)0;
    sum += w;
    if (p.dropped && j < p.keys) w *= get(p.dropped[i.row * p.room + j]) * p.rise;
    for (int other = 0; other < 32 && at + other < p.keys; other++) {
      const f32 one = __shfl_sync(FULL, w, other);
      const T2 *v = p.v + offset(p.vs, i.b, i.h / p.share, at + other);
#pragma unroll
      for (int e = 0; e < EACH_LANE; e++)
        if (one != 0 && e * 32 + LANE < p.values) out[e] += one * get(v[e * 32 + LANE]);
    }
  }
  sum = warp_sum(sum);
#pragma unroll
  for (int e = 0; e < EACH_LANE; e++)
    if (e * 32 + LANE < p.values) p.out[offset(p.os, i.b, i.h, i.t) + e * 32 + LANE] = put<T2>(out[e] / sum);
  if (LANE == 0) p.lse[i.row] = most + logf(sum);
}

/* Queries that see no key give zeros, and the logarithm of zero; those that cuDNN left out are made here. Only rows
 * whose sum is as low as a mask makes it are looked at. */
KERNEL(mend_rows, rows_job)
{
  for (i64 first = ((i64)blockIdx.x * blockDim.x + threadIdx.x) & ~(i64)31; first < p.rows;
       first += (i64)gridDim.x * blockDim.x) {
    const f32 own = first + LANE < p.rows ? p.lse[first + LANE] : (f32)0;
    const u32 left_out = __ballot_sync(FULL, own == -INF_F32);
    for (u32 low = __ballot_sync(FULL, own <= p.lowest / 2); low; low &= low - 1) {
      query i;
      i.row = first + __ffs(low) - 1, i.t = i.row % p.queries;
      i.b = i.row / p.queries / p.heads, i.h = i.row / p.queries % p.heads;
      i.mask = p.mask + offset(p.stride, i.b, i.h, i.t);
      if (!hides_all(i.mask, p.stride[3], p.keys)) {
        if (left_out >> (__ffs(low) - 1) & 1) plain_row(p, i);
        continue;
      }
      for (i64 j = LANE; j < p.values; j += 32) p.out[offset(p.os, i.b, i.h, i.t) + j] = put<T2>(0);
      if (LANE == 0) p.lse[i.row] = -INF_F32;
    }
  }
}

struct stats_job {
  const f32 *lse;
  f32 *stats;
  i64 n;
  f32 lowest;
};

/* For backward: a query that sees no key weighs nothing, nor does one that cuDNN left out. */
KERNEL(mask_stats, stats_job)
{
  EACH(i, p.n) p.stats[i] = p.lse[i] < p.lowest ? -p.lowest : p.lse[i];
}
