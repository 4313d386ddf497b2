/* attend_step.cu: attention of one query row a head to keys and values in a cache, of which the last pair is put there
 * by the same launch.
 *
 * A block has one head of one row of the batch, and a chunk of the keys; only those up to the present position are read.
 * A group of LANES threads has a key at a time, 16 bytes each. Where there are several chunks, attend_join adds up their
 * parts. T0 is the element type, N the width of a head. Invariant: the new key and value are taken from the operands, so
 * that no block reads what another writes. */
#include "codegen/device.cuh"
#include "common.cuh"

enum {
  V = 16 / sizeof(T0),
  PACKS = N / V,
  LANES = PACKS > 16 ? 32 : PACKS > 8 ? 16 : PACKS > 4 ? 8 : PACKS > 2 ? 4 : PACKS > 1 ? 2 : 1,
  EACH_LANE = (PACKS + LANES - 1) / LANES,
  KEYS = THREADS / LANES, /* at a time */
  AHEAD = EACH_LANE > 1 ? 2 : 4,
  WARPS = THREADS / 32
};
typedef pack<T0, V> piece;

struct attend_job {
  T0 *keys, *values;                /* (B, key_heads, length, N) */
  T0 *y;                            /* (B, heads, N) */
  const T0 *q, *k, *v;              /* (B, heads or key_heads, 1, N), by these strides: */
  i64 qb, qh, kb, kh, vb, vh;
  const i64 *position;              /* (B) */
  const T0 *cosines, *sines;        /* (length, N), or NULL */
  f32 *parts;                       /* (B heads, splits, N + 2): largest score, sum of weights, weighted values */
  i64 length, chunk;
  i32 heads, key_heads, splits;
  f32 scale;
  i32 steady, unused; /* is nothing written to the cache and positions by what was queued just before? */
  fault_slot fault;
};

#define PIECE(e, lane) ((e) * LANES + (lane))

/* Element i of a head at x, turned by the angles of position `at`. */
FN f32 turned(const attend_job &p, const T0 *x, i64 at, int i)
{
  const f32 own = get(x[i]);
  if (!p.cosines) return own;
  const f32 c = get(p.cosines[at * N + i]), s = get(p.sines[at * N + i]), other = get(x[(i + N / 2) % N]);
  return get(put<T0>(get(put<T0>(own * c)) + other * s));
}

/* AHEAD keys or values of this group, from `first` on. */
FN void fetch(piece (*to)[EACH_LANE], const T0 *from, int first, int n, int group, int lane)
{
#pragma unroll
  for (int a = 0; a < AHEAD; a++)
#pragma unroll
    for (int e = 0; e < EACH_LANE; e++) {
      const int j = first + a * KEYS + group;
      if (j < n && PIECE(e, lane) < PACKS) to[a][e] = ((const piece *)(from + (i64)j * N))[PIECE(e, lane)];
    }
}

FN f32 group_total(f32 v)
{
#pragma unroll
  for (int m = LANES / 2; m > 0; m >>= 1) v += __shfl_xor_sync(FULL, v, m);
  return v;
}

/* weight[j] = scale * q . k_j for the keys that are in the cache; k has the first ones. */
FN void score_keys(f32 *weight, const f32 (*q)[V], piece (*k)[EACH_LANE], const T0 *keys, int n, int group, int lane,
                   f32 scale)
{
  for (int first = 0; first < n; first += KEYS * AHEAD) {
    if (first) fetch(k, keys, first, n, group, lane);
#pragma unroll
    for (int a = 0; a < AHEAD; a++) {
      const int j = first + a * KEYS + group;
      f32 s = 0;
#pragma unroll
      for (int e = 0; e < EACH_LANE; e++)
        if (j < n && PIECE(e, lane) < PACKS)
#pragma unroll
          for (int i = 0; i < V; i++) s += q[e][i] * get(k[a][e].v[i]);
      s = group_total(s);
      if (lane == 0 && j < n) weight[j] = s * scale;
    }
  }
}

/* The key that comes now: by the first warp. */
FN f32 score_new(const attend_job &p, const f32 (*q)[V], const T0 *k, T0 *to, i64 at, int lane)
{
  f32 s = 0;
#pragma unroll
  for (int e = 0; e < EACH_LANE; e++) {
    if (PIECE(e, lane) >= PACKS) continue;
#pragma unroll
    for (int i = 0; i < V; i++) {
      const int column = PIECE(e, lane) * V + i;
      const T0 element = put<T0>(turned(p, k, at, column));
      s += q[e][i] * get(element);
      if (to) to[column] = element;
    }
  }
  return group_total(s) * p.scale;
}

/* Sums of the block's groups, by column. */
FN void join_groups(f32 (*room)[N], f32 (*sum)[V], int lane)
{
#pragma unroll
  for (int e = 0; e < EACH_LANE; e++)
#pragma unroll
    for (int i = 0; i < V; i++) {
#pragma unroll
      for (int m = LANES; m < 32; m <<= 1) sum[e][i] += __shfl_xor_sync(FULL, sum[e][i], m);
      if (LANE < LANES && PIECE(e, lane) < PACKS) room[threadIdx.x >> 5][PIECE(e, lane) * V + i] = sum[e][i];
    }
  __syncthreads();
}

KERNEL(attend_step, attend_job)
{
  DYNAMIC_SHARED(f32, weight); /* of each key of the chunk */
  __shared__ f32 room[WARPS][N];
  const i64 b = blockIdx.x / p.heads, h = blockIdx.x % p.heads, share = p.heads / p.key_heads, kh = h / share;
  const int lane = (int)threadIdx.x % LANES, group = (int)threadIdx.x / LANES;
  f32 *part = p.parts + ((i64)blockIdx.x * p.splits + blockIdx.y) * (N + 2);
  begin_next();
  if (!p.steady) wait_for_previous();
  const i64 at = p.position[b], begin = blockIdx.y * p.chunk, base = (b * p.key_heads + kh) * p.length * N;
  const bool last = at < begin + p.chunk, writes = last && h % share == 0;
  const int n = (int)((last ? at : begin + p.chunk) - begin);
  piece k[AHEAD][EACH_LANE];
  if (at < p.length) fetch(k, p.keys + base + begin * N, 0, n, group, lane);
  if (p.steady) wait_for_previous();
  if (at < 0 || at >= p.length) {
    if (threadIdx.x == 0) report_fault(p.fault, FAULT_INDEX, at, p.length);
    return;
  }
  if (begin > at) { /* nothing here yet */
    if (threadIdx.x == 0) part[0] = -INF_F32;
    return;
  }
  const T0 *own_q = p.q + b * p.qb + h * p.qh, *own_v = p.v + b * p.vb + kh * p.vh;
  f32 q[EACH_LANE][V] = {}, sum[EACH_LANE][V] = {};
#pragma unroll
  for (int e = 0; e < EACH_LANE; e++)
    if (PIECE(e, lane) < PACKS)
#pragma unroll
      for (int i = 0; i < V; i++) q[e][i] = turned(p, own_q, at, PIECE(e, lane) * V + i);
  score_keys(weight, q, k, p.keys + base + begin * N, n, group, lane, p.scale);
  if (last && threadIdx.x < 32) {
    T0 *to = writes && group == 0 ? p.keys + base + at * N : 0;
    const f32 s = score_new(p, q, p.k + b * p.kb + kh * p.kh, to, at, lane);
    if (threadIdx.x == 0) weight[n] = s;
  }
  __syncthreads();
  f32 most = -INF_F32, total = 0;
  for (int j = threadIdx.x; j < n + last; j += THREADS) most = larger(most, weight[j]);
  most = block_max(most);
  for (int j = threadIdx.x; j < n + last; j += THREADS) {
    weight[j] = expf(weight[j] - most);
    total += weight[j];
  }
  total = block_sum(total); /* weights are there for all behind its barrier */
  const T0 *values = p.values + base + begin * N;
  for (int first = 0; first < n; first += KEYS * AHEAD) {
    piece v[AHEAD][EACH_LANE];
    fetch(v, values, first, n, group, lane);
#pragma unroll
    for (int a = 0; a < AHEAD; a++) {
      const int j = first + a * KEYS + group;
      if (j >= n) continue;
      const f32 w = weight[j];
#pragma unroll
      for (int e = 0; e < EACH_LANE; e++)
        if (PIECE(e, lane) < PACKS)
#pragma unroll
          for (int i = 0; i < V; i++) sum[e][i] += w * get(v[a][e].v[i]);
    }
  }
  if (last && group == 0)
#pragma unroll
    for (int e = 0; e < EACH_LANE; e++)
      if (PIECE(e, lane) < PACKS)
#pragma unroll
        for (int i = 0; i < V; i++) {
          const int column = PIECE(e, lane) * V + i;
          sum[e][i] += weight[n] * get(own_v[column]);
          if (writes) p.values[base + at * N + column] = own_v[column];
        }
  join_groups(room, sum, lane);
  for (int i = threadIdx.x; i < N; i += THREADS) {
    f32 all = 0;
    for (int w = 0; w < WARPS; w++) all += room[w][i];
    if (p.splits == 1) p.y[(i64)blockIdx.x * N + i] = put<T0>(all / total);
    else part[2 + i] = all;
  }
  if (p.splits > 1 && threadIdx.x == 0) part[0] = most, part[1] = total;
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
