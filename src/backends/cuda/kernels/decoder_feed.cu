/* decoder_feed.cu: the second half of a decoder's layer, for one row: what attention gave is added up and added to the
 * row, then its norm, the linear layers to more columns and back, and their sum with the row.
 *
 * A block has N of the columns in between: it makes them, and multiplies them by its columns of the last weight. The
 * CLUSTER blocks of a cluster add up what that gives, each a slice of the row; so do they with attention's parts, one
 * per head, at the beginning. The cluster that is the last to have its sums of a slice adds up those of all clusters.
 * Weights are on their way to shared memory before the kernel in front has ended. T0 is the element type, FORM:
 * CLUSTER, whether there is a gate, BLOCKS (decoder.cuh). Invariant: a block ends after it has got all that others send
 * to it; sums are in an order that depends on shapes alone. */
#define CLUSTER (FORM & 15)
#define BLOCKS_AT_ONCE ((FORM >> 8 & 15) > 4 ? 1 : 2) /* two, where their weights fit side by side */
enum { GATED = FORM >> 4 & 1 };
#include "codegen/device.cuh"
#include "common.cuh"
#include "cluster.cuh"
#include "tensor_core.cuh"
#include "step.cuh"
#include "decoder.cuh"

struct feed_job {
  const T0 *x;                      /* (width) */
  const f32 *parts;                 /* (heads, width): what is added to it, together with out_bias */
  const T0 *out_bias;
  norm_weights norm;
  const T0 *gate, *up, *down;       /* (inner, width) twice, (width, inner) */
  const T0 *gate_bias, *up_bias, *down_bias;
  f32 *sums;                        /* (clusters, width) */
  u32 *turns;                       /* (TURNS): clusters that have their sums of a slice; zero at first */
  T0 *y;                            /* (width) */
  i32 width, inner, heads, kind, act; /* kind: of norm */
  f32 eps;
  i32 steady, unused;               /* is nothing written to weights by what was queued just before? */
};

enum { UNITS = (N + 7) / 8, SUMS = UNITS * 8 * WARPS }; /* of the columns in between, of which THREADS are the most */
enum { DEEP = (N / V + 3) / 4, UNITS_DOWN = 4 };        /* of the last weight: packs of a row, by fours; at a time */

/* What a block shares. */
struct rooms {
  u64 *box;                    /* for the row, for sums */
  u32 *last;
  f32 *added, *sums, *products; /* (width), (CLUSTER, slice), (1 + GATED, SUMS) */
  f32 *statistics, *given;     /* four a warp; (WARPS, UNITS_DOWN, 8) */
  words *row, *inner;          /* the row behind its norm; the columns in between */
  words *weights, *down;
};
FN rooms divide(int width)
{
  DYNAMIC_SHARED(u8, memory);
  rooms r;
  r.box = (u64 *)memory;
  r.last = (u32 *)(memory + 16);
  r.added = (f32 *)(memory + 32);
  r.sums = r.added + width;
  r.products = r.sums + width;
  r.statistics = r.products + (1 + GATED) * SUMS;
  r.given = r.statistics + 4 * WARPS;
  r.row = (words *)(r.given + WARPS * UNITS_DOWN * 8);
  r.inner = r.row + WARPS * WARP_PACKS;
  r.weights = r.inner + 4 * DEEP;
  r.down = r.weights + (1 + GATED) * UNITS * BLOCKS * THREADS;
  return r;
}
FN int rounds_down(int width) { return (width + WARPS * UNITS_DOWN * 8 - 1) / (WARPS * UNITS_DOWN * 8); }

/* ---- weights ---- */

/* Those of the columns in between, of which `mine` are this block's. */
FN void ask_up(const rooms &r, const feed_job &p, int mine)
{
  const int first = WARP * WARP_PACKS, packs = p.width / V - first;
#pragma unroll 1
  for (int i = 0; i < (1 + GATED) * UNITS; i++) {
    const int own = i % UNITS * 8 + UNIT_ROW;
    const i64 row = (i64)blockIdx.x * N + own;
    ask_packs<BLOCKS>(r.weights + i * BLOCKS * THREADS + (int)threadIdx.x,
                      (i < UNITS ? p.up : p.gate) + (own < mine ? row * p.width : 0) + (packs > 0 ? first * V : 0),
                      packs);
  }
  portion_ends();
}

FN void ask_down(const rooms &r, const feed_job &p, int mine)
{
  const T0 *from = p.down + (mine > 0 ? (i64)blockIdx.x * N : 0);
  words *to = r.down + (int)threadIdx.x;
#pragma unroll 1
  for (int unit = WARP; unit < rounds_down(p.width) * WARPS * UNITS_DOWN; unit += WARPS, to += DEEP * THREADS) {
    const int row = unit * 8 + UNIT_ROW;
    ask_packs<DEEP>(to, from + (i64)(row < p.width ? row : 0) * p.inner, mine / V);
  }
  portion_ends();
}

/* ---- the row ---- */

/* Four columns of the slice are a team's: of CLUSTER lanes, which add up parts together. Long rows have several
 * rounds. */
FN int team_of(int round) { return (round * THREADS + (int)threadIdx.x) / CLUSTER; }
FN int rounds_of(int slice) { return (slice / 4 * CLUSTER + THREADS - 1) / THREADS; }

/* A bias at the team's columns in the first round, asked for before it is needed. */
FN pack<T0, 4> ask_bias(const T0 *bias, int rank, int slice)
{
  return bias && team_of(0) < slice / 4 ? *(const pack<T0, 4> *)(bias + rank * slice + team_of(0) * 4) : pack<T0, 4>{};
}

/* What attention added to it: each block makes a slice, and sends it to all. first: of out_bias. */
FN void make_row(const rooms &r, const feed_job &p, const pack<T0, 4> &first, int rank, int slice)
{
  const int member = (int)threadIdx.x % CLUSTER;
#pragma unroll 1
  for (int round = 0; round < rounds_of(slice); round++) {
    const int column = rank * slice + team_of(round) * 4;
    const bool there = team_of(round) < slice / 4;
    f32 sum[4], x[4], bias[4];
    if (there) read_four(x, p.x, column);
    part_sums(sum, p.parts + column, p.width, p.heads, member, there);
    if (!there) continue;
    if (round) read_four(bias, p.out_bias, column);
    else unpack(bias, first);
#pragma unroll
    for (int i = 0; i < 4; i++) x[i] = rounded(rounded(sum[i] + bias[i]) + x[i]);
    send_parcel(r.added + column, &r.box[0], (u32)member, as_words(x[0], x[1], x[2], x[3]));
  }
  wait_for_parcels(&r.box[0], false);
}

/* The columns in between, zero where there are none; bias, gate_bias: of this thread's. */
FN void make_inner(const rooms &r, const feed_job &p, int mine, f32 bias, f32 gate_bias)
{
  multiply_row<UNITS>(r.products, r.weights, r.row);
  if (GATED) multiply_row<UNITS>(r.products + SUMS, r.weights + UNITS * BLOCKS * THREADS, r.row);
  __syncthreads();
  if (threadIdx.x < 4 * DEEP * V) {
    const int own = (int)threadIdx.x;
    f32 v = 0;
    if (own < mine) {
      v = rounded(sum_of_warps<UNITS>(r.products, own) + bias);
      if (GATED) v *= activated(rounded(sum_of_warps<UNITS>(r.products + SUMS, own) + gate_bias), p.act);
      else v = activated(v, p.act);
    }
    ((T0 *)r.inner)[own] = put<T0>(v);
  }
  __syncthreads();
}

/* What this block's columns add to the row goes to who adds up its slice, four columns at a time. */
FN void multiply_down(const rooms &r, const feed_job &p, int rank, int slice)
{
  const f32 of_slice = 1 / (f32)slice;
  const words *w = r.down;
  f32 *const own = r.given + WARP * UNITS_DOWN * 8; /* what a warp has of them */
  portions_arrive<0>();
#pragma unroll 1
  for (int unit = WARP; unit * 8 < p.width; unit += WARPS * UNITS_DOWN, w += UNITS_DOWN * DEEP * THREADS) {
    const int row = (unit + LANE / 2 * WARPS) * 8 + LANE % 2 * 4;
    const int block = (int)(((f32)row + 0.5f) * of_slice); /* row / slice, of so small numbers */
    f32 sum[UNITS_DOWN];
    multiply_units<UNITS_DOWN, DEEP>(sum, w, r.inner);
    __syncwarp();
#pragma unroll
    for (int u = 0; u < UNITS_DOWN; u++)
      if (MEMBER == 0) own[u * 8 + UNIT_ROW] = sum[u];
    __syncwarp();
    if (LANE < 2 * UNITS_DOWN && row < p.width)
      send_parcel(r.sums + rank * slice + (row - block * slice), &r.box[1], (u32)block, ((const words *)own)[LANE]);
  }
  wait_for_parcels(&r.box[1], false);
}

/* ---- the sum over clusters ---- */

/* Writes this cluster's sums of a slice; is it the last one to do so? All threads call it. */
FN bool give_sums(const rooms &r, const feed_job &p, int rank, int slice)
{
  const u32 cluster = blockIdx.x / CLUSTER;
  for (int four = threadIdx.x; four < slice / 4; four += THREADS) {
    f32 sum[4] = {0, 0, 0, 0};
#pragma unroll
    for (int b = 0; b < CLUSTER; b++)
#pragma unroll
      for (int i = 0; i < 4; i++) sum[i] += r.sums[b * slice + four * 4 + i];
    *(words *)(p.sums + (i64)cluster * p.width + rank * slice + four * 4) = as_words(sum[0], sum[1], sum[2], sum[3]);
    publish();
  }
  __syncthreads();
  if (threadIdx.x == 0) *r.last = atomicAdd(&p.turns[rank], 1u) == gridDim.x / CLUSTER - 1;
  __syncthreads();
  if (*r.last) publish();
  return *r.last;
}

/* first: of down_bias. */
FN void finish(const rooms &r, const feed_job &p, const pack<T0, 4> &first, int rank, int slice)
{
  const int member = (int)threadIdx.x % CLUSTER;
#pragma unroll 1
  for (int round = 0; round < rounds_of(slice); round++) {
    const int column = rank * slice + team_of(round) * 4;
    const bool there = team_of(round) < slice / 4;
    f32 sum[4], bias[4];
    pack<T0, 4> y;
    part_sums(sum, p.sums + column, p.width, (int)(gridDim.x / CLUSTER), member, there);
    if (!there || member) continue;
    if (round) read_four(bias, p.down_bias, column);
    else unpack(bias, first);
#pragma unroll
    for (int i = 0; i < 4; i++) y.v[i] = put<T0>(rounded(sum[i] + bias[i]) + r.added[column + i]);
    *(pack<T0, 4> *)(p.y + column) = y;
  }
}

KERNEL(decoder_feed, feed_job)
{
  const int rank = (int)block_of_cluster(), packs = p.width / V, slice = p.width / CLUSTER;
  const i64 left = p.inner - (i64)blockIdx.x * N;
  const int mine = left < 0 ? 0 : left < N ? (int)left : N;
  const rooms r = divide(p.width);
  begin_next();
  if (!p.steady) wait_for_previous();
  if (threadIdx.x == 0) {
    open_mailbox(&r.box[0]), open_mailbox(&r.box[1]);
    expect_parcels(&r.box[0], (u32)p.width * 4);
    expect_parcels(&r.box[1], (u32)p.width * 4);
  }
  ask_up(r, p, mine);
  ask_down(r, p, mine);
  const norm_packs norm = ask_norm(p.norm, packs);
  const i64 own = (i64)blockIdx.x * N + threadIdx.x;
  const bool has_own = (int)threadIdx.x < mine;
  const f32 bias = has_own ? or_else(p.up_bias, own, 0) : 0, gate_bias = has_own ? or_else(p.gate_bias, own, 0) : 0;
  const pack<T0, 4> out_bias = ask_bias(p.out_bias, rank, slice), down_bias = ask_bias(p.down_bias, rank, slice);
  cluster_barrier();
  if (p.steady) wait_for_previous();
  make_row(r, p, out_bias, rank, slice);
  f32 x[V];
#pragma unroll
  for (int i = 0; i < V; i += 4) {
    const pack<f32, 4> four = has_pack(packs) ? *(const pack<f32, 4> *)(r.added + own_pack() * V + i) : pack<f32, 4>{};
    unpack(x + i, four);
  }
  put_row(r.row, x, norm, p.norm, p.kind, p.eps, packs, r.added[0], r.statistics);
  portions_arrive<1>();
  make_inner(r, p, mine, bias, gate_bias);
  multiply_down(r, p, rank, slice);
  if (give_sums(r, p, rank, slice)) finish(r, p, down_bias, rank, slice);
}
