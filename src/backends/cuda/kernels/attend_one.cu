/* attend_one.cu: attention of one query of each head to any number of keys and values, as when text is written token by
 * token: each key and value is read once, for all the query's heads that share it.
 *
 * A block has HEADS heads that share keys, of one row of the batch, and a chunk of the keys. A group of LANES threads
 * has a key at a time, 16 bytes each; the chunk's scores lie in shared memory. Where there are several chunks,
 * attend_one_join adds up their parts. T0 is the element type, T1 that of the mask (FORM & 1: there is one), N the
 * width of a head. Invariant: a head that sees no key gives zeros. */
#include "codegen/device.cuh"
#include "common.cuh"

enum {
  MASKED = FORM & 1,
  HEADS = FORM >> 1,
  V = 16 / sizeof(T0),
  PACKS = N / V,
  LANES = PACKS > 16 ? 32 : PACKS > 8 ? 16 : PACKS > 4 ? 8 : PACKS > 2 ? 4 : PACKS > 1 ? 2 : 1,
  EACH_LANE = (PACKS + LANES - 1) / LANES,
  KEYS = THREADS / LANES, /* at a time */
  AHEAD = EACH_LANE > 1 ? 2 : 4,
  WARPS = THREADS / 32
};
typedef pack<T0, V> piece;

struct one_job {
  const T0 *q, *k, *v;
  T0 *y;
  f32 *lse;                              /* (B, heads) */
  f32 *parts;                            /* (B heads, splits, N + 2): largest score, sum of weights, weighted values */
  const T1 *mask;
  i64 qs[2], ks[3], vs[3], ys[2], ms[3]; /* strides over batch, heads and keys */
  i64 keys, chunk;
  i32 key_heads, share, splits;          /* share: query heads of a key head */
  f32 scale;
};

#define PIECE(e, lane) ((e) * LANES + (lane))

FN f32 masked(f32 score, b8 m) { return m.bits ? score : -INF_F32; }
template <class T> FN f32 masked(f32 score, T m) { return score + (f32)get(m); }

FN f32 group_total(f32 v)
{
#pragma unroll
  for (int m = LANES / 2; m > 0; m >>= 1) v += __shfl_xor_sync(FULL, v, m);
  return v;
}

/* AHEAD keys or values of this group, from `first` on, `step` elements apart. */
FN void fetch(piece (*to)[EACH_LANE], const T0 *from, i64 step, int first, int n, int group, int lane)
{
#pragma unroll
  for (int a = 0; a < AHEAD; a++)
#pragma unroll
    for (int e = 0; e < EACH_LANE; e++) {
      const int j = first + a * KEYS + group;
      if (j < n && PIECE(e, lane) < PACKS) to[a][e] = ((const piece *)(from + j * step))[PIECE(e, lane)];
    }
}

/* Where a block's work is. */
struct place {
  i64 b, key_head, head, begin; /* head: the first of the block's; begin: the first key */
  int heads, n;                 /* how many of each */
};
FN place here(const one_job &p)
{
  const i64 blocks = (p.share + HEADS - 1) / HEADS, row = blockIdx.x / blocks, first = blockIdx.x % blocks * HEADS;
  place at;
  at.b = row / p.key_heads;
  at.key_head = row % p.key_heads;
  at.head = at.key_head * p.share + first;
  at.heads = (int)(p.share - first < HEADS ? p.share - first : HEADS);
  at.begin = blockIdx.y * p.chunk;
  at.n = (int)(p.keys - at.begin < p.chunk ? p.keys - at.begin : p.chunk);
  return at;
}

/* weight[h][j] = scale * q_h . k_j + mask */
FN void score_keys(const one_job &p, const place &at, f32 *weight, int group, int lane)
{
  f32 q[HEADS][EACH_LANE][V];
#pragma unroll
  for (int h = 0; h < HEADS; h++)
#pragma unroll
    for (int e = 0; e < EACH_LANE; e++)
#pragma unroll
      for (int i = 0; i < V; i++)
        q[h][e][i] = h < at.heads && PIECE(e, lane) < PACKS
                         ? get(p.q[at.b * p.qs[0] + (at.head + h) * p.qs[1] + PIECE(e, lane) * V + i]) * p.scale
                         : (f32)0;
  const T0 *keys = p.k + at.b * p.ks[0] + at.key_head * p.ks[1] + at.begin * p.ks[2];
  for (int first = 0; first < at.n; first += KEYS * AHEAD) {
    piece k[AHEAD][EACH_LANE];
    fetch(k, keys, p.ks[2], first, at.n, group, lane);
#pragma unroll
    for (int a = 0; a < AHEAD; a++) {
      const int j = first + a * KEYS + group;
      f32 s[HEADS] = {};
#pragma unroll
      for (int e = 0; e < EACH_LANE; e++)
        if (j < at.n && PIECE(e, lane) < PACKS)
#pragma unroll
          for (int i = 0; i < V; i++) {
            const f32 element = get(k[a][e].v[i]);
#pragma unroll
            for (int h = 0; h < HEADS; h++) s[h] += q[h][e][i] * element;
          }
#pragma unroll
      for (int h = 0; h < HEADS; h++) {
        s[h] = group_total(s[h]);
        if (lane || j >= at.n) continue;
        if (MASKED && h < at.heads)
          s[h] = masked(s[h], p.mask[at.b * p.ms[0] + (at.head + h) * p.ms[1] + (at.begin + j) * p.ms[2]]);
        weight[h * p.chunk + j] = s[h];
      }
    }
  }
  __syncthreads();
}

/* sum[h] = the weighted values of this group. */
FN void weigh_values(const one_job &p, const place &at, const f32 *weight, f32 (*sum)[EACH_LANE][V], int group,
                     int lane)
{
  const T0 *values = p.v + at.b * p.vs[0] + at.key_head * p.vs[1] + at.begin * p.vs[2];
  for (int first = 0; first < at.n; first += KEYS * AHEAD) {
    piece v[AHEAD][EACH_LANE];
    fetch(v, values, p.vs[2], first, at.n, group, lane);
#pragma unroll
    for (int a = 0; a < AHEAD; a++) {
      const int j = first + a * KEYS + group;
      if (j >= at.n) continue;
      f32 w[HEADS];
#pragma unroll
      for (int h = 0; h < HEADS; h++) w[h] = weight[h * p.chunk + j];
#pragma unroll
      for (int e = 0; e < EACH_LANE; e++)
        if (PIECE(e, lane) < PACKS)
#pragma unroll
          for (int i = 0; i < V; i++) {
            const f32 element = get(v[a][e].v[i]);
#pragma unroll
            for (int h = 0; h < HEADS; h++) sum[h][e][i] += w[h] * element;
          }
    }
  }
}

/* Sums of the block's groups, by column: element i of head h in room[warp][i]. */
FN void join_groups(f32 (*room)[N], f32 (*sum)[V], int lane)
{
  __syncthreads(); /* an earlier head's were read */
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

FN f32 lse_of(f32 most, f32 total) { return total > 0 || total != total ? most + logf(total) : -INF_F32; }
FN f32 share_of(f32 all, f32 total) { return total == 0 ? (f32)0 : all / total; }

KERNEL(attend_one, one_job)
{
  DYNAMIC_SHARED(f32, weight); /* (HEADS, chunk) */
  __shared__ f32 room[WARPS][N];
  const int lane = (int)threadIdx.x % LANES, group = (int)threadIdx.x / LANES;
  const place at = here(p);
  score_keys(p, at, weight, group, lane);
  f32 most[HEADS], total[HEADS], sum[HEADS][EACH_LANE][V] = {};
#pragma unroll
  for (int h = 0; h < HEADS; h++) {
    f32 *const own = weight + h * p.chunk;
    most[h] = -INF_F32, total[h] = 0;
    for (int j = threadIdx.x; j < at.n; j += THREADS) most[h] = larger(most[h], own[j]);
    most[h] = block_max(most[h]);
    for (int j = threadIdx.x; j < at.n; j += THREADS) {
      own[j] = most[h] == -INF_F32 ? (f32)0 : expf(own[j] - most[h]);
      total[h] += own[j];
    }
    total[h] = block_sum(total[h]); /* weights are there for all behind its barrier */
  }
  weigh_values(p, at, weight, sum, group, lane);
#pragma unroll
  for (int h = 0; h < HEADS; h++) {
    join_groups(room, sum[h], lane);
    if (h >= at.heads) continue;
    const i64 head = at.b * p.key_heads * p.share + at.head + h;
    f32 *const part = p.parts + (head * p.splits + blockIdx.y) * (N + 2);
    for (int i = threadIdx.x; i < N; i += THREADS) {
      f32 all = 0;
      for (int w = 0; w < WARPS; w++) all += room[w][i];
      if (p.splits == 1) p.y[at.b * p.ys[0] + (at.head + h) * p.ys[1] + i] = put<T0>(share_of(all, total[h]));
      else part[2 + i] = all;
    }
    if (threadIdx.x) continue;
    if (p.splits == 1) p.lse[head] = lse_of(most[h], total[h]);
    else part[0] = most[h], part[1] = total[h];
  }
}

/* A block for each head of each row. */
KERNEL(attend_one_join, one_job)
{
  const i64 heads = (i64)p.key_heads * p.share;
  const f32 *part = p.parts + (i64)blockIdx.x * p.splits * (N + 2);
  f32 most = -INF_F32, total = 0;
  for (int s = 0; s < p.splits; s++) most = larger(most, part[s * (N + 2)]);
  for (int s = 0; s < p.splits; s++)
    if (part[s * (N + 2)] != -INF_F32) total += part[s * (N + 2) + 1] * expf(part[s * (N + 2)] - most);
  for (int i = threadIdx.x; i < N; i += THREADS) {
    f32 all = 0;
    for (int s = 0; s < p.splits; s++)
      if (part[s * (N + 2)] != -INF_F32) all += part[s * (N + 2) + 2 + i] * expf(part[s * (N + 2)] - most);
    p.y[blockIdx.x / heads * p.ys[0] + blockIdx.x % heads * p.ys[1] + i] = put<T0>(share_of(all, total));
  }
  if (threadIdx.x == 0) p.lse[blockIdx.x] = lse_of(most, total);
}
