/* flash.cu: attention a tile of keys at a time: no score is ever in memory, and dropout's numbers, the CPU's, are drawn
 * where they are needed.
 *
 * A block has TILE queries of a head, a warp ROWS of them, and goes through the keys that these see; the next tile is
 * on its way meanwhile. Invariant: a query that sees no key gives zeros, and minus infinity for its logarithm. */
#include "philox.cuh"
#include "base/maths.h"
#include "base/maths_f64.h"
#include "base/maths_f32.h"
#include "base/philox.h"
#include "codegen/device.cuh"
#define BLOCKS_AT_ONCE (N > 64 || FORM & 2 ? 2 : 3) /* with a mask, too, registers are what lacks */
#include "common.cuh"
#include "tensor_core.cuh"
#include "tiles.cuh"
#include "flash.cuh"

/* What a warp knows of its rows so far: of this thread's two, the largest score and its share of the sum. */
struct rows {
  f32 sums[N / 8][4], most[2], total[2];
};

/* The scores of a tile become weights beside the largest so far; what was added up before shrinks. */
FN void weigh(rows &r, f32 (*s)[4])
{
#pragma unroll
  for (int half = 0; half < 2; half++) {
    f32 most = r.most[half];
#pragma unroll
    for (int i = 0; i < TILE / 8; i++) most = fmaxf(most, fmaxf(s[i][2 * half], s[i][2 * half + 1]));
    most = row_max(most);
    const f32 from = most == -INF_F32 ? 0 : most, shrink = cnd_exp2_normal((r.most[half] - from) * UNIT);
    f32 total = 0;
#pragma unroll
    for (int i = 0; i < TILE / 8; i++)
#pragma unroll
      for (int k = 2 * half; k < 2 * half + 2; k++) total += s[i][k] = cnd_exp2_normal((s[i][k] - from) * UNIT);
    r.most[half] = most;
    r.total[half] = r.total[half] * shrink + total;
#pragma unroll
    for (int c = 0; c < N / 8; c++) r.sums[c][2 * half] *= shrink, r.sums[c][2 * half + 1] *= shrink;
  }
}

KERNEL(flash_forward, flash_job)
{
  DYNAMIC_SHARED(T0, tiles); /* keys and values, twice */
  const int tiles_of_queries = (p.queries + TILE - 1) / TILE;
  const i64 head = blockIdx.x / tiles_of_queries, b = head / p.heads, h = head % p.heads;
  /* the last queries see most keys and begin first */
  const int block = (tiles_of_queries - 1 - (int)(blockIdx.x % tiles_of_queries)) * TILE;
  const int warp_first = block + (int)threadIdx.x / 32 * ROWS, low = warp_first + LANE / 4, high = low + 8;
  const int seen = CAUSAL && block + TILE < p.keys ? block + TILE : p.keys, n = (seen + TILE - 1) / TILE;
  const T0 *const k = at(p.k, p.ks, b, h / p.share), *const v = at(p.v, p.vs, b, h / p.share);
  const T1 *const mask = MASKED ? p.mask + b * p.ms[0] + h * p.ms[1] : p.mask;
  const u64 seed = DROPS ? p.draws[0] : 0, first = DROPS ? p.draws[1] : 0;
  u32 q[DEPTH][4];
  rows r = {{}, {-INF_F32, -INF_F32}, {}};
  fetch<true>(tiles, k, p.ks[2], 0, p.keys, p.width);
  fetch<true>(tiles + TILE * PITCH, v, p.vs[2], 0, p.keys, p.values);
  portion_ends();
  take_rows(q, at(p.q, p.qs, b, h), p.qs[2], low, high, p.queries, p.width);
  for (int t = 0; t < n; t++) {
    const T0 *const keys = tiles + t % 2 * 2 * TILE * PITCH, *const values = keys + TILE * PITCH;
    T0 *const next = tiles + (t + 1) % 2 * 2 * TILE * PITCH;
    const bool edge = (t + 1) * TILE > p.keys || (MASKED && block + TILE > p.queries) ||
                      (CAUSAL && (t + 1) * TILE - 1 > warp_first);
    f32 s[TILE / 8][4];
    if (t + 1 < n) {
      fetch<true>(next, k, p.ks[2], (t + 1) * TILE, p.keys, p.width);
      fetch<true>(next + TILE * PITCH, v, p.vs[2], (t + 1) * TILE, p.keys, p.values);
    }
    portion_ends();
    portions_arrive<1>();
    __syncthreads();
#pragma unroll
    for (int step = 0; step < TILE / 16; step++) {
      const int key = t * TILE + step * 16 + LANE % 4 * 4;
      multiply_rows(s + 2 * step, q, keys, step);
      make_scores<false>(s + 2 * step, p, mask, low, high, key, edge);
    }
    weigh(r, s);
#pragma unroll
    for (int step = 0; step < TILE / 16; step++) {
      if (DROPS) drop(s + 2 * step, p, seed, first, head * p.queries + low, t * TILE + step * 16 + LANE % 4 * 4);
      add_rows(r.sums, s + 2 * step, values, step);
    }
    __syncthreads(); /* before the tile's memory gets the one after the next */
  }
  f32 by[2];
  for (int half = 0; half < 2; half++) {
    const f32 total = row_sum(r.total[half]);
    const int query = half ? high : low;
    by[half] = total == 0 ? (f32)0 : (DROPS ? p.rise : (f32)1) / total;
    if (LANE % 4 == 0 && query < p.queries)
      p.lse[head * p.queries + query] = total == 0 ? -INF_F32 : r.most[half] / OF_NATURAL + logf(total);
  }
  put_rows(at(p.out, p.os, b, h), p.os[2], low, high, p.queries, p.values, r.sums, by[0], by[1]);
}
