/* decoder_attend.cu: attention in a decoder's layer, for one row: its norm, queries, keys and values of a key head, the
 * cache, and the product with the columns of the last weight that are this head's.
 *
 * A cluster of CLUSTER blocks has one key head, and the SHARE query heads that use it. Each block makes a part of
 * queries, key and value, and sends it to the others; attends to a part of the cache, and sends the others what it has
 * seen; and makes a part of the head's share of the result, which decoder_feed.cu adds up over the heads. Weights, and
 * the cache, are on their way to shared memory before the kernel in front has ended: what is left then is short. T0 is
 * the element type, N the width of a head, FORM: CLUSTER, SHARE, BLOCKS (decoder.cuh). Invariants: a block ends after
 * it has got all that others send to it; the last key and value come from the row, so that no block reads what another
 * writes. */
#define CLUSTER (FORM & 15)
#define BLOCKS_AT_ONCE ((FORM >> 8 & 15) > 4 ? 1 : 2) /* two, where their weights fit side by side */
enum { SHARE = FORM >> 4 & 15 };
#include "codegen/device.cuh"
#include "common.cuh"
#include "cluster.cuh"
#include "tensor_core.cuh"
#include "step.cuh"
#include "attend.cuh"
#include "decoder.cuh"

struct attend_job {
  const T0 *x;                     /* (width) */
  norm_weights norm;
  const T0 *q, *k, *v;             /* (key_heads SHARE N, width), (key_heads N, width) twice */
  const T0 *out;                   /* (width, key_heads SHARE N) */
  const T0 *q_bias, *k_bias, *v_bias;
  T0 *keys, *values;               /* (key_heads, length, N) */
  const i64 *position;             /* (1) */
  angles turn;
  f32 *parts;                      /* (key_heads, width) */
  u32 *turns;                      /* (TURNS), which this sets to zero for decoder_feed.cu */
  i64 length;
  i32 width, kind;                 /* kind: of norm */
  f32 eps, scale;
  i32 steady, unused; /* is nothing written to weights, cache and position by what was queued just before? */
  fault_slot fault;
};

enum { LINES = (SHARE + 2) * N, OWN = LINES / CLUSTER, UNITS = (OWN + 7) / 8 }; /* OWN: at most THREADS */
enum { SENT = OWN * (int)sizeof(T0) / 16, OF_HEAD = N / 4 + 1 }; /* parcels: of a block's lines; of what it has seen */
enum { ALL_PACKS = SHARE * N / V, DEEP = (ALL_PACKS + 3) / 4 };  /* of all heads' results; four at a time */
enum { UNITS_OUT = 2 };                                          /* of a warp at a time */

/* What a block shares. */
struct rooms {
  u64 *box;                  /* for lines, for what was seen */
  f32 *joined;               /* (CLUSTER, SHARE, OF_HEAD * 4): values, the largest score, the sum of weights */
  T0 *lines, *own;           /* of all blocks; this one's */
  words *row, *results;      /* the row behind its norm; the heads' results */
  f32 *statistics, *products; /* four a warp; (WARPS, UNITS, 8) */
  f32 *sums, *mosts, *totals; /* (SHARE, WARPS, N), (SHARE, WARPS) twice */
  words *weights, *out, *cache;
};
FN int rounds_out(int slice) { return (slice + WARPS * UNITS_OUT * 8 - 1) / (WARPS * UNITS_OUT * 8); }
FN rooms divide(int slice)
{
  DYNAMIC_SHARED(u8, memory);
  rooms r;
  r.box = (u64 *)memory;
  r.joined = (f32 *)(memory + 16);
  r.lines = (T0 *)(r.joined + CLUSTER * SHARE * OF_HEAD * 4);
  r.own = r.lines + LINES;
  r.row = (words *)(r.own + OWN);
  r.results = r.row + WARPS * WARP_PACKS;
  r.statistics = (f32 *)(r.results + 4 * DEEP);
  r.products = r.statistics + 4 * WARPS;
  r.sums = r.products + WARPS * UNITS * 8;
  r.mosts = r.sums + SHARE * WARPS * N;
  r.totals = r.mosts + SHARE * WARPS;
  r.weights = (words *)(r.totals + SHARE * WARPS);
  r.out = r.weights + UNITS * BLOCKS * THREADS;
  r.cache = r.out + rounds_out(slice) * UNITS_OUT * DEEP * THREADS;
  return r;
}

/* ---- queries, key and value ---- */

/* Of the head's lines: rows of the three weights in turn; 0: the queries', 1, 2. */
FN int kind_of_line(int line) { return line < SHARE * N ? 0 : line < (SHARE + 1) * N ? 1 : 2; }
FN const T0 *of_line(const T0 *q, const T0 *k, const T0 *v, i64 width, i64 head, int line)
{
  const int kind = kind_of_line(line);
  const T0 *first = kind == 0 ? q : kind == 1 ? k : v;
  const i64 row = kind == 0 ? head * SHARE * N + line : head * N + line - (SHARE + kind - 1) * N;
  return first ? first + row * width : 0;
}

FN void ask_weights(const rooms &r, const attend_job &p, i64 head, int rank)
{
  const int first = WARP * WARP_PACKS, packs = p.width / V - first;
#pragma unroll 1
  for (int u = 0; u < UNITS; u++) {
    const int own = u * 8 + UNIT_ROW < OWN ? u * 8 + UNIT_ROW : OWN - 1; /* lines that nobody has are nobody's sums */
    ask_packs<BLOCKS>(r.weights + u * BLOCKS * THREADS + (int)threadIdx.x,
                      of_line(p.q, p.k, p.v, p.width, head, rank * OWN + own) + (packs > 0 ? first * V : 0), packs);
  }
  portion_ends();
}

/* bias: of this thread's line. */
FN void make_lines(const rooms &r, const attend_job &p, f32 bias, int rank)
{
  multiply_row<UNITS>(r.products, r.weights, r.row);
  __syncthreads();
  if (threadIdx.x < OWN) r.own[threadIdx.x] = put<T0>(sum_of_warps<UNITS>(r.products, (int)threadIdx.x) + bias);
  __syncthreads();
  for (int k = threadIdx.x; k < CLUSTER * SENT; k += THREADS) {
    const int parcel = k % SENT;
    send_parcel((words *)r.lines + rank * SENT + parcel, &r.box[0], (u32)(rank + k / SENT) % CLUSTER,
                ((const words *)r.own)[parcel]);
  }
  wait_for_parcels(&r.box[0], false);
}

/* ---- the cache ---- */

/* The part of the cache that is this block's: it begins at *begin; returns how many keys. */
FN int own_keys(i64 at, int rank, i64 *begin)
{
  const i64 each = (at + CLUSTER - 1) / CLUSTER;
  *begin = rank * each < at ? rank * each : at;
  return (int)(at - *begin < each ? at - *begin : each);
}

/* A thread's packs of the head at x. */
FN void packs_at(words *to, const T0 *x, int lane)
{
#pragma unroll
  for (int e = 0; e < EACH_LANE; e++)
    if (PIECE(e, lane) < PACKS) to[e] = ((const words *)x)[PIECE(e, lane)];
}

/* The keys of this block, the last of which, if it has that, is the one that comes now, and whose group keeps it. */
FN void see_keys(seen *s, const rooms &r, const attend_job &p, const f32 (*q)[EACH_LANE][V], i64 head, i64 first, int n,
                 i64 at, bool adds, int group, int lane)
{
  const T0 *const keys = p.keys + first, *const values = p.values + first, *const key = r.lines + SHARE * N;
  words new_k[EACH_LANE], new_v[EACH_LANE];
  if (adds) {
    packs_at(new_k, key, lane);
    packs_at(new_v, key + N, lane);
    take_new(new_k, new_k, p.turn, key, at, lane);
  }
#pragma unroll 1
  for (int j = group, slot = 0; j - group < n + adds; j += KEYS, slot = slot == AHEAD - 1 ? 0 : slot + 1) {
    const bool now = adds && j == n;
    words k[EACH_LANE], v[EACH_LANE];
    portions_arrive<AHEAD - 1>();
#pragma unroll
    for (int e = 0; e < EACH_LANE; e++) {
      k[e] = room_of(r.cache, slot)[2 * e * THREADS];
      v[e] = room_of(r.cache, slot)[(2 * e + 1) * THREADS];
      if (now) k[e] = new_k[e], v[e] = new_v[e];
    }
#pragma unroll
    for (int h = 0; h < SHARE; h++) {
      const f32 score = score_of(q[h], k, lane, j < n || now, p.scale);
      if (j < n || now) add_key(s[h], score, v, lane);
    }
    ask(r.cache, slot, keys, values, j + AHEAD * KEYS, n, lane);
    if (now) keep_new(p.keys + (head * p.length + at) * N, p.values + (head * p.length + at) * N, k, v, lane);
  }
}

/* What this block's warps have seen of a head: four columns, or, behind them, the largest score and the sum of
 * weights. */
FN words joined_piece(const rooms &r, int h, int piece_of_head)
{
  const f32 *mosts = r.mosts + h * WARPS, *totals = r.totals + h * WARPS, *sums = r.sums + h * WARPS * N;
  f32 most = -INF_F32, total = 0, four[4] = {0, 0, 0, 0};
#pragma unroll
  for (int w = 0; w < WARPS; w++) most = larger(most, mosts[w]);
#pragma unroll
  for (int w = 0; w < WARPS; w++) {
    const f32 by = shrunk(mosts[w], most);
    total += by * totals[w];
    if (piece_of_head == OF_HEAD - 1) continue;
#pragma unroll
    for (int i = 0; i < 4; i++) four[i] += by * sums[w * N + piece_of_head * 4 + i];
  }
  return piece_of_head == OF_HEAD - 1 ? as_words(most, total, 0, 0) : as_words(four[0], four[1], four[2], four[3]);
}

/* What all blocks have seen is there behind this. */
FN void join_blocks(seen *s, const rooms &r, int rank)
{
  const int lane = (int)threadIdx.x % LANES;
#pragma unroll
  for (int h = 0; h < SHARE; h++) {
    join_groups(s[h]);
    if (LANE == 0) r.mosts[h * WARPS + WARP] = s[h].most, r.totals[h * WARPS + WARP] = s[h].total;
    if (LANE >= LANES) continue;
#pragma unroll
    for (int e = 0; e < EACH_LANE; e++)
#pragma unroll
      for (int i = 0; i < V; i++)
        if (PIECE(e, lane) < PACKS) r.sums[(h * WARPS + WARP) * N + PIECE(e, lane) * V + i] = s[h].sum[e][i];
  }
  __syncthreads();
#pragma unroll 1
  for (int k = threadIdx.x; k < CLUSTER * SHARE * OF_HEAD; k += THREADS) {
    const int at = k % (SHARE * OF_HEAD);
    send_parcel((words *)r.joined + rank * SHARE * OF_HEAD + at, &r.box[1],
                (u32)(rank + k / (SHARE * OF_HEAD)) % CLUSTER, joined_piece(r, at / OF_HEAD, at % OF_HEAD));
  }
  wait_for_parcels(&r.box[1], false);
}

/* The heads' results, a column a thread. */
FN void make_results(const rooms &r)
{
  for (int column = threadIdx.x; column < DEEP * 4 * V; column += THREADS) {
    const int h = column / N;
    const f32 *all = r.joined + h * OF_HEAD * 4;
    f32 most = -INF_F32, total = 0, y = 0;
    if (h < SHARE) {
#pragma unroll
      for (int b = 0; b < CLUSTER; b++) most = larger(most, all[b * SHARE * OF_HEAD * 4 + N]);
#pragma unroll
      for (int b = 0; b < CLUSTER; b++) {
        const f32 *its = all + b * SHARE * OF_HEAD * 4, by = shrunk(its[N], most);
        total += by * its[N + 1];
        y += by * its[column - h * N];
      }
      y /= total;
    }
    ((T0 *)r.results)[column] = put<T0>(y);
  }
  __syncthreads();
}

/* Asks for this block's rows of the last weight, of this head's columns alone. */
FN void ask_out(const rooms &r, const attend_job &p, i64 head, int rank)
{
  const int slice = p.width / CLUSTER;
  const i64 columns = (i64)(gridDim.x / CLUSTER) * SHARE * N;
  const T0 *from = p.out + rank * slice * columns + head * SHARE * N;
  words *to = r.out + (int)threadIdx.x;
#pragma unroll 1
  for (int unit = WARP; unit < rounds_out(slice) * WARPS * UNITS_OUT; unit += WARPS, to += DEEP * THREADS) {
    const int row = unit * 8 + UNIT_ROW;
    ask_packs<DEEP>(to, from + (row < slice ? row : 0) * columns, ALL_PACKS);
  }
  portion_ends();
}

/* This block's slice of the result, of this head's columns alone. */
FN void multiply_out(const rooms &r, const attend_job &p, i64 head, int rank)
{
  const int slice = p.width / CLUSTER;
  f32 *to = p.parts + head * p.width + rank * slice;
  const words *w = r.out;
  portions_arrive<0>();
#pragma unroll 1
  for (int unit = WARP; unit * 8 < slice; unit += WARPS * UNITS_OUT, w += UNITS_OUT * DEEP * THREADS) {
    f32 sum[UNITS_OUT];
    multiply_units<UNITS_OUT, DEEP>(sum, w, r.results);
#pragma unroll
    for (int u = 0; u < UNITS_OUT; u++) {
      const int row = (unit + u * WARPS) * 8 + UNIT_ROW;
      if (MEMBER == 0 && row < slice) to[row] = sum[u];
    }
  }
}

KERNEL(decoder_attend, attend_job)
{
  const int rank = (int)block_of_cluster(), lane = (int)threadIdx.x % LANES, group = (int)threadIdx.x / LANES;
  const int packs = p.width / V;
  const i64 head = blockIdx.x / CLUSTER;
  const rooms r = divide(p.width / CLUSTER);
  begin_next();
  if (!p.steady) wait_for_previous();
  if (threadIdx.x == 0) {
    open_mailbox(&r.box[0]), open_mailbox(&r.box[1]);
    expect_parcels(&r.box[0], CLUSTER * SENT * 16);
    expect_parcels(&r.box[1], CLUSTER * SHARE * OF_HEAD * 16);
  }
  ask_weights(r, p, head, rank);
  ask_out(r, p, head, rank);
  const i64 at = *p.position;
  const bool inside = at >= 0 && at < p.length;
  i64 begin = 0;
  const int n = inside ? own_keys(at, rank, &begin) : 0;
  const i64 first = (head * p.length + begin) * N;
#pragma unroll 1
  for (int a = 0; a < AHEAD; a++) ask(r.cache, a, p.keys + first, p.values + first, a * KEYS + group, n, lane);
  const norm_packs norm = ask_norm(p.norm, packs);
  const int line = rank * OWN + (int)threadIdx.x;
  const T0 *bias = threadIdx.x < OWN ? of_line(p.q_bias, p.k_bias, p.v_bias, 1, head, line) : 0;
  const f32 own_bias = bias ? get(*bias) : 0;
  cluster_barrier();
  if (p.steady) wait_for_previous();
  if (!inside) {
    if (threadIdx.x == 0) report_fault(p.fault, FAULT_INDEX, at, p.length);
    return;
  }
  words given = {};
  f32 x[V], q[SHARE][EACH_LANE][V];
  seen s[SHARE];
  if (has_pack(packs)) given = ((const words *)p.x)[own_pack()];
  const f32 center = get(p.x[0]);
  if (blockIdx.x == 0 && threadIdx.x < TURNS) p.turns[threadIdx.x] = 0;
  unpack(x, as_pack<piece>(given));
  put_row(r.row, x, norm, p.norm, p.kind, p.eps, packs, center, r.statistics);
  portions_arrive<AHEAD + 1>();
  make_lines(r, p, own_bias, rank);
#pragma unroll
  for (int h = 0; h < SHARE; h++) {
    words query[EACH_LANE];
    packs_at(query, r.lines + h * N, lane);
    columns_of(q[h], query, p.turn, r.lines + h * N, at, lane);
    s[h] = seen{-INF_F32, 0, {}};
  }
  see_keys(s, r, p, q, head, first, n, at, rank == CLUSTER - 1, group, lane);
  join_blocks(s, r, rank);
  make_results(r);
  multiply_out(r, p, head, rank);
}
