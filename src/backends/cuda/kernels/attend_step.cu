/* attend_step.cu: attention of one query row a head to keys and values in a cache, of which the last pair is put there
 * by the same launch.
 *
 * A block has one head of one row of the batch, and a chunk of the keys; only those up to the present position are
 * read. A group of LANES threads has a key at a time, 16 bytes each, and keeps to itself what it has seen until the
 * end. Where there are several chunks, attend_join adds up their parts. T0 is the element type, N the width of a head.
 * Invariant: the new key and value are taken from the operands, so that no block reads what another writes. */
#include "codegen/device.cuh"
#include "common.cuh"
#include "step.cuh"
#include "attend.cuh"

enum { WARPS = THREADS / 32 };

struct attend_job {
  T0 *keys, *values;                /* (B, key_heads, length, N) */
  T0 *y;                            /* (B, heads, N) */
  const T0 *q, *k, *v;              /* (B, heads or key_heads, 1, N), by these strides: */
  i64 qb, qh, kb, kh, vb, vh;
  const i64 *position;              /* (B) */
  angles turn;                      /* of all positions there is room for */
  f32 *parts;                       /* (B heads, splits, N + 2): largest score, sum of weights, weighted values */
  i64 length, chunk;
  i32 heads, key_heads, splits;
  f32 scale;
  i32 steady, unused; /* is nothing written to the cache and positions by what was queued just before? */
  fault_slot fault;
};

/* The key and value that come now: the first warp scores them, its first group puts them into the cache. */
FN void add_new(seen &s, const attend_job &p, const f32 (*q)[V], const words *new_k, const words *new_v, i64 b, i64 kh,
                i64 at, bool writes, int lane)
{
  const i64 to = ((b * p.key_heads + kh) * p.length + at) * N;
  words k[EACH_LANE];
  take_new(k, new_k, p.turn, p.k + b * p.kb + kh * p.kh, at, lane);
  const f32 score = score_of(q, k, lane, true, p.scale);
  if (threadIdx.x >= LANES) return;
  add_key(s, score, new_v, lane);
  if (writes) keep_new(p.keys + to, p.values + to, k, new_v, lane);
}

/* What the warps of a block have seen: this thread's columns of the sum of values. */
FN void join_warps(seen &s, f32 *all, int lane)
{
  __shared__ f32 room[WARPS][N], mosts[WARPS], totals[WARPS];
  const int warp = (int)threadIdx.x >> 5, one = LANE % WARPS;
#pragma unroll
  for (int e = 0; e < EACH_LANE; e++)
#pragma unroll
    for (int i = 0; i < V; i++)
      if (LANE < LANES && PIECE(e, lane) < PACKS) room[warp][PIECE(e, lane) * V + i] = s.sum[e][i];
  if (LANE == 0) mosts[warp] = s.most, totals[warp] = s.total;
  __syncthreads();
  f32 most = mosts[one];
#pragma unroll
  for (int m = WARPS / 2; m > 0; m >>= 1) most = larger(most, __shfl_xor_sync(FULL, most, m));
  const f32 by = shrunk(mosts[one], most);
  f32 total = by * totals[one];
#pragma unroll
  for (int m = WARPS / 2; m > 0; m >>= 1) total += __shfl_xor_sync(FULL, total, m);
  s.most = most, s.total = total;
#pragma unroll
  for (int i = 0; i < (N + THREADS - 1) / THREADS; i++) {
    const int column = (int)threadIdx.x + i * THREADS;
    all[i] = 0;
#pragma unroll 4
    for (int w = 0; w < WARPS; w++) {
      const f32 its = __shfl_sync(FULL, by, w);
      if (column < N) all[i] += its * room[w][column];
    }
  }
}

KERNEL(attend_step, attend_job)
{
  DYNAMIC_SHARED(words, room);
  const u32 head = blockIdx.x % (u32)p.heads, share = (u32)p.heads / (u32)p.key_heads;
  const i64 b = blockIdx.x / (u32)p.heads, kh = head / share;
  const int lane = (int)threadIdx.x % LANES, group = (int)threadIdx.x / LANES;
  f32 *part = p.parts + ((i64)blockIdx.x * p.splits + blockIdx.y) * (N + 2);
  begin_next();
  if (!p.steady) wait_for_previous();
  const i64 at = p.position[b], begin = blockIdx.y * p.chunk, base = (b * p.key_heads + kh) * p.length * N;
  const bool last = at < begin + p.chunk, inside = at >= 0 && at < p.length;
  const int n = inside ? (int)((last ? at : begin + p.chunk) - begin) : 0;
  const T0 *const keys = p.keys + base + begin * N, *const values = p.values + base + begin * N;
#pragma unroll 1
  for (int a = 0; a < AHEAD; a++) ask(room, a, keys, values, a * KEYS + group, n, lane);
  if (p.steady) wait_for_previous();
  if (!inside) {
    if (threadIdx.x == 0) report_fault(p.fault, FAULT_INDEX, at, p.length);
    return;
  }
  if (begin > at) { /* nothing here yet */
    if (threadIdx.x == 0) part[0] = -INF_F32;
    return;
  }
  f32 q[EACH_LANE][V], all[(N + THREADS - 1) / THREADS];
  const T0 *const own_q = p.q + b * p.qb + head * p.qh;
  const bool adds = last && threadIdx.x < 32;
  words query[EACH_LANE], new_k[EACH_LANE], new_v[EACH_LANE];
  seen s = {-INF_F32, 0, {}};
  fetch(query, own_q, lane);
  if (adds) {
    fetch(new_k, p.k + b * p.kb + kh * p.kh, lane);
    fetch(new_v, p.v + b * p.vb + kh * p.vh, lane);
  }
  columns_of(q, query, p.turn, own_q, at, lane);
  if (adds) add_new(s, p, q, new_k, new_v, b, kh, at, head % share == 0, lane);
#pragma unroll 1
  for (int j = group, slot = 0; j - group < n; j += KEYS, slot = slot == AHEAD - 1 ? 0 : slot + 1) {
    words k[EACH_LANE], v[EACH_LANE];
    portions_arrive<AHEAD - 1>();
#pragma unroll
    for (int e = 0; e < EACH_LANE; e++) {
      k[e] = room_of(room, slot)[2 * e * THREADS];
      v[e] = room_of(room, slot)[(2 * e + 1) * THREADS];
    }
    const f32 score = score_of(q, k, lane, j < n, p.scale);
    if (j < n) add_key(s, score, v, lane);
    ask(room, slot, keys, values, j + AHEAD * KEYS, n, lane);
  }
  join_groups(s);
  join_warps(s, all, lane);
#pragma unroll
  for (int i = 0; i < (N + THREADS - 1) / THREADS; i++) {
    const int column = (int)threadIdx.x + i * THREADS;
    if (column >= N) continue;
    if (p.splits == 1) p.y[(i64)blockIdx.x * N + column] = put<T0>(all[i] / s.total);
    else part[2 + column] = all[i];
  }
  if (p.splits > 1 && threadIdx.x == 0) part[0] = s.most, part[1] = s.total;
}

/* A block for each head of each row. */
KERNEL(attend_join, attend_job)
{
  const f32 *part = p.parts + (i64)blockIdx.x * p.splits * (N + 2);
  begin_next();
  wait_for_previous();
  f32 most = -INF_F32, total = 0;
  for (int s = 0; s < p.splits; s++) most = larger(most, part[s * (N + 2)]);
  for (int s = 0; s < p.splits; s++)
    if (part[s * (N + 2)] > -INF_F32) total += part[s * (N + 2) + 1] * expf(part[s * (N + 2)] - most);
  for (int i = threadIdx.x; i < N; i += THREADS) {
    f32 all = 0;
    for (int s = 0; s < p.splits; s++)
      if (part[s * (N + 2)] > -INF_F32) all += part[s * (N + 2) + 2 + i] * expf(part[s * (N + 2)] - most);
    p.y[(i64)blockIdx.x * N + i] = put<T0>(all / total);
  }
}
