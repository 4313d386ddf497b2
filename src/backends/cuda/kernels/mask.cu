/* mask.cu: what attention's masks need besides cuDNN's kernels: a mask as numbers to be added to the scores, and the
 * queries that see no key.
 *
 * T0 is the mask's type, T1 that of the numbers. Invariant: what is added is never below `lowest`, so that no row of
 * scores has an infinity, and no difference of scores is NaN that was not NaN before. */
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

struct hidden_job {
  const T0 *mask;
  f32 *lse; /* (B, H, Tq) */
  u16 *out; /* (B, H, Tq, width): any type of 16 bits, whose zero has no bits */
  i64 rows, heads, queries, keys, width;
  i64 stride[4], step[3]; /* of the mask over (B, H, Tq, Tk), of out */
  f32 lowest;
};

/* A warp: does a row of the mask hide every key? */
FN bool hides_all(const T0 *m, i64 stride, i64 keys)
{
  for (i64 at = 0; at < keys; at += 32) {
    const i64 j = at + LANE;
    if (__any_sync(FULL, j < keys && !hides(m[j * stride]))) return false;
  }
  return true;
}

/* Queries that see no key give zeros, and the logarithm of zero. Only rows whose sum is as low as a mask makes it are
 * looked at. */
KERNEL(hidden_rows, hidden_job)
{
  for (i64 first = ((i64)blockIdx.x * blockDim.x + threadIdx.x) & ~(i64)31; first < p.rows;
       first += (i64)gridDim.x * blockDim.x) {
    u32 low = __ballot_sync(FULL, first + LANE < p.rows && p.lse[first + LANE] <= p.lowest / 2);
    for (; low; low &= low - 1) {
      const i64 row = first + __ffs(low) - 1, head = row / p.queries, t = row % p.queries;
      const i64 b = head / p.heads, h = head % p.heads;
      if (!hides_all(p.mask + b * p.stride[0] + h * p.stride[1] + t * p.stride[2], p.stride[3], p.keys)) continue;
      for (i64 j = LANE; j < p.width; j += 32) p.out[b * p.step[0] + h * p.step[1] + t * p.step[2] + j] = 0;
      if (LANE == 0) p.lse[row] = -INF_F32;
    }
  }
}

struct stats_job {
  const f32 *lse;
  f32 *stats;
  i64 n;
  f32 highest;
};

/* For backward: a query that sees no key weighs nothing. */
KERNEL(mask_stats, stats_job)
{
  EACH(i, p.n) p.stats[i] = p.lse[i] == -INF_F32 ? p.highest : p.lse[i];
}
