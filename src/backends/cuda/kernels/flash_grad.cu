/* flash_grad.cu: gradients of attention, whose scores are made again a tile at a time, and whose draws are made again.
 *
 * flash_delta makes each query's sum of grad * out; flash_keys gradients of keys and values, a block TILE keys that go
 * through the queries that see them; flash_queries those of queries, a block TILE queries that go through the keys. The
 * scores are made twice, seven products instead of five, and nothing is added up by atomics: results repeat, and there
 * is no float32 copy of the queries' gradients to be cleared, added to by every block, and rounded. Invariant: a query
 * that sees no key, and one beyond the last, weighs nothing. */
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

KERNEL(flash_delta, flash_job)
{
  const i64 row = blockIdx.x * (i64)WARPS + threadIdx.x / 32, head = row / p.queries, t = row % p.queries;
  if (row >= p.rows) return;
  const T0 *const out = at((const T0 *)p.out, p.os, head / p.heads, head % p.heads) + t * p.os[2];
  const T0 *const grad = at(p.grad, p.gs, head / p.heads, head % p.heads) + t * p.gs[2];
  f32 sum = 0;
  for (int i = LANE * 2; i < p.values; i += 64) {
    f32 a[2], b[2];
    unpack<T0, 2>(a, *(const pack<T0, 2> *)(out + i));
    unpack<T0, 2>(b, *(const pack<T0, 2> *)(grad + i));
    sum += a[0] * b[0] + a[1] * b[1];
  }
  sum = warp_sum(sum);
  if (LANE == 0) p.delta[row] = sum;
}

/* What is subtracted from a query's scores before they are weights. */
FN f32 level_of(const flash_job &p, i64 head, int query)
{
  if (query >= p.queries) return INF_F32;
  const f32 lse = p.lse[head * p.queries + query];
  return lse == -INF_F32 ? (f32)0 : lse * OF_NATURAL;
}

/* ---- of queries ---- */

KERNEL(flash_queries, flash_job)
{
  DYNAMIC_SHARED(T0, tiles); /* keys and values, twice */
  const int tiles_of_queries = (p.queries + TILE - 1) / TILE;
  const i64 head = blockIdx.x / tiles_of_queries, b = head / p.heads, h = head % p.heads;
  const int block = (tiles_of_queries - 1 - (int)(blockIdx.x % tiles_of_queries)) * TILE;
  const int warp_first = block + (int)threadIdx.x / 32 * ROWS, low = warp_first + LANE / 4, high = low + 8;
  const int seen = CAUSAL && block + TILE < p.keys ? block + TILE : p.keys, n = (seen + TILE - 1) / TILE;
  const T0 *const k = at(p.k, p.ks, b, h / p.share), *const v = at(p.v, p.vs, b, h / p.share);
  const T1 *const mask = MASKED ? p.mask + b * p.ms[0] + h * p.ms[1] : p.mask;
  const u64 seed = DROPS ? p.draws[0] : 0, first = DROPS ? p.draws[1] : 0;
  const f32 level[2] = {level_of(p, head, low), level_of(p, head, high)};
  const f32 delta[2] = {low < p.queries ? p.delta[head * p.queries + low] : (f32)0,
                        high < p.queries ? p.delta[head * p.queries + high] : (f32)0};
  u32 q[DEPTH][4], grad[DEPTH][4];
  f32 sums[N / 8][4] = {};
  fetch<true>(tiles, k, p.ks[2], 0, p.keys, p.width);
  fetch<true>(tiles + TILE * PITCH, v, p.vs[2], 0, p.keys, p.values);
  portion_ends();
  take_rows(q, at(p.q, p.qs, b, h), p.qs[2], low, high, p.queries, p.width);
  take_rows(grad, at(p.grad, p.gs, b, h), p.gs[2], low, high, p.queries, p.values);
  for (int t = 0; t < n; t++) {
    const T0 *const keys = tiles + t % 2 * 2 * TILE * PITCH, *const values = keys + TILE * PITCH;
    T0 *const next = tiles + (t + 1) % 2 * 2 * TILE * PITCH;
    const bool edge = (t + 1) * TILE > p.keys || (MASKED && block + TILE > p.queries) ||
                      (CAUSAL && (t + 1) * TILE - 1 > warp_first);
    if (t + 1 < n) {
      fetch<true>(next, k, p.ks[2], (t + 1) * TILE, p.keys, p.width);
      fetch<true>(next + TILE * PITCH, v, p.vs[2], (t + 1) * TILE, p.keys, p.values);
    }
    portion_ends();
    portions_arrive<1>();
    __syncthreads();
#pragma unroll (N > 64 || MASKED ? 1 : 2)
    for (int step = 0; step < TILE / 16; step++) {
      const int key = t * TILE + step * 16 + LANE % 4 * 4;
      f32 s[2][4], left[2][4];
      if (CAUSAL && t * TILE + step * 16 > warp_first + ROWS - 1) break;
      multiply_rows(s, q, keys, step);
      multiply_rows(left, grad, values, step);
      if (DROPS) drop(left, p, seed, first, head * p.queries + low, key);
      make_scores<false>(s, p, mask, low, high, key, edge);
#pragma unroll
      for (int i = 0; i < 8; i++) {
        const int half = i % 4 / 2;
        const f32 w = cnd_exp2_normal((s[i / 4][i % 4] - level[half]) * UNIT);
        s[i / 4][i % 4] = w * (left[i / 4][i % 4] * (DROPS ? p.rise : (f32)1) - delta[half]);
      }
      add_rows(sums, s, keys, step);
    }
    __syncthreads();
  }
  put_rows(at(p.gq, p.gqs, b, h), p.gqs[2], low, high, p.queries, p.width, sums, p.natural, p.natural);
}

/* ---- of keys and values ---- */

/* Bits of what is kept of four keys in each of this thread's queries, bit 4 query + key; the thread four lanes on has
 * the other two of these keys, of the same queries: each draws for half of the queries. row: of the first query. */
FN u32 kept_bits(const flash_job &p, u64 seed, u64 first, i64 row, int key)
{
  const int own = LANE / 4 % 2;
  u32 bits = 0;
#pragma unroll
  for (int query = 0; query < 2; query++) {
    u32 words[4];
    draw(words, p, seed, first, row + own * 8 + query, key);
#pragma unroll
    for (int i = 0; i < 4; i++) bits |= (u32)(words[i] <= p.kept) << (4 * query + i);
  }
  const u32 other = __shfl_xor_sync(FULL, bits, 4);
  return (own ? other | bits << 8 : bits | other << 8) >> 2 * own;
}

/* A tile of a head's queries, with their gradients, and what goes with each query. */
struct query_tile {
  T0 q[TILE * PITCH], grad[TILE * PITCH];
  f32 level[TILE], delta[TILE];
};

FN void fetch_queries(query_tile &to, const flash_job &p, i64 b, i64 h, int first)
{
  const i64 head = b * p.heads + h;
  fetch<false>(to.q, at(p.q, p.qs, b, h), p.qs[2], first, p.queries, p.width);
  fetch<false>(to.grad, at(p.grad, p.gs, b, h), p.gs[2], first, p.queries, p.values);
  for (int i = threadIdx.x; i < TILE; i += THREADS) {
    to.level[i] = level_of(p, head, first + i);
    to.delta[i] = first + i < p.queries ? p.delta[head * p.queries + first + i] : (f32)0;
  }
}

KERNEL(flash_keys, flash_job)
{
  DYNAMIC_SHARED(query_tile, tiles); /* two */
  const int tiles_of_keys = (p.keys + TILE - 1) / TILE, key_heads = p.heads / p.share;
  const i64 head = blockIdx.x / tiles_of_keys, b = head / key_heads, key_head = head % key_heads;
  const int block = (int)(blockIdx.x % tiles_of_keys) * TILE, warp_first = block + (int)threadIdx.x / 32 * ROWS;
  const int low = warp_first + LANE / 4 * 2, high = low + 1; /* neighbours, so that two threads have a draw's four */
  const int all = (p.queries + TILE - 1) / TILE, skip = !CAUSAL ? 0 : block / TILE < all ? block / TILE : all;
  const int each = all - skip, n = each * p.share; /* tiles: of the heads that share these keys, one after another */
  const u64 seed = DROPS ? p.draws[0] : 0, first = DROPS ? p.draws[1] : 0;
  u32 k[DEPTH][4], v[DEPTH][4];
  f32 gk[N / 8][4] = {}, gv[N / 8][4] = {};
  if (n) fetch_queries(tiles[0], p, b, key_head * p.share, skip * TILE);
  portion_ends();
  take_rows(k, at(p.k, p.ks, b, key_head), p.ks[2], low, high, p.keys, p.width);
  take_rows(v, at(p.v, p.vs, b, key_head), p.vs[2], low, high, p.keys, p.values);
  for (int t = 0; t < n; t++) {
    const query_tile &tile = tiles[t % 2];
    const i64 h = key_head * p.share + t / each;
    const int begin = (skip + t % each) * TILE;
    const T1 *const mask = MASKED ? p.mask + b * p.ms[0] + h * p.ms[1] : p.mask;
    const bool edge = block + TILE > p.keys || (MASKED && begin + TILE > p.queries) ||
                      (CAUSAL && warp_first + ROWS - 1 > begin);
    if (t + 1 < n) fetch_queries(tiles[(t + 1) % 2], p, b, key_head * p.share + (t + 1) / each,
                                 (skip + (t + 1) % each) * TILE);
    portion_ends();
    portions_arrive<1>();
    __syncthreads();
#pragma unroll 1
    for (int step = 0; step < TILE / 16; step++) {
      if (CAUSAL && begin + step * 16 + 15 < warp_first) continue;
      const int column = step * 16 + LANE % 4 * 2; /* of this thread's first query; others are 1, 8 and 9 on */
      const u32 kept = DROPS ? kept_bits(p, seed, first, (b * p.heads + h) * p.queries + begin + column, low & ~3) : 0;
      f32 w[2][4], left[2][4];
      multiply_rows(w, k, tile.q, step);
      multiply_rows(left, v, tile.grad, step);
      make_scores<true>(w, p, mask, low, high, begin + column, edge);
#pragma unroll
      for (int i = 0; i < 8; i++) {
        const int query = column + i / 4 * 8 + i % 2;
        const bool keep = !DROPS || (kept >> (i / 4 * 8 + i % 2 * 4 + i % 4 / 2) & 1);
        const f32 weight = cnd_exp2_normal((w[i / 4][i % 4] - tile.level[query]) * UNIT);
        const f32 gain = keep ? left[i / 4][i % 4] * (DROPS ? p.rise : (f32)1) : (f32)0;
        w[i / 4][i % 4] = keep ? weight : (f32)0;
        left[i / 4][i % 4] = weight * (gain - tile.delta[query]);
      }
      add_rows(gv, w, tile.grad, step);
      add_rows(gk, left, tile.q, step);
    }
    __syncthreads();
  }
  const f32 rise = DROPS ? p.rise : (f32)1;
  put_rows(at(p.gk, p.gks, b, key_head), p.gks[2], low, high, p.keys, p.width, gk, p.natural, p.natural);
  put_rows(at(p.gv, p.gvs, b, key_head), p.gvs[2], low, high, p.keys, p.values, gv, rise, rise);
}
