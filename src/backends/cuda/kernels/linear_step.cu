/* linear_step.cu: a linear layer of one or a few rows, with the norm before it, its activation, and what is added or
 * multiplied behind.
 *
 * Warps compute one result after the other: a weight is read once, 16 bytes a thread, many at a time, and where it is
 * steady before the kernel in front has ended. T0 is the element type, OP the number of rows. Invariant: values are
 * rounded to T0 where the ops that this stands for round them; sums are float32. */
#define BLOCKS_AT_ONCE ((OP == 1 && N <= 4 ? 1408 : 512) / THREADS) /* of few registers many wait side by side */
#include "codegen/device.cuh"
#include "common.cuh"
#include "step.cuh"

enum { WARPS = THREADS / 32 };
enum { JOIN_NONE, JOIN_ADD, JOIN_MUL };

struct linear_job {
  const T0 *x, *w, *b;     /* (OP, k), (n, k) with ld from row to row, (n) */
  const T0 *nw, *nb;       /* (k), of the norm */
  const T0 *other;
  T0 *y;                   /* (OP, n) */
  i64 n, ld;
  i32 k, norm, act, join;
  f32 eps;
  i32 steady; /* is nothing written to weights by what was queued just before? */
};

/* What is behind the product: b and other are those of this result. */
FN T0 finished(const linear_job &p, f32 sum, f32 b, f32 other)
{
  f32 v = activated(rounded(sum + b), p.act);
  if (p.join == JOIN_ADD) v += other;
  if (p.join == JOIN_MUL) v *= other;
  return put<T0>(v);
}

/* ---- one row, which a block has in shared memory ----
 *
 * TEAM warps have a result together, N packs a thread, and AT_ONCE results at a time. Their weights are on their way to
 * shared memory, SLOTS times as many, long before they are needed: a thread keeps little in registers, so that blocks of
 * kernels that wait for those in front of them, and have asked for their weights, are on a multiprocessor side by side.
 * What is left then is short: reading the code takes as long as running it, so loops are not unrolled. Invariant: a
 * thread reads back only weights that it asked for itself. */

enum { TEAM = FORM & 7 ? FORM & 7 : 1, AT_ONCE = FORM >> 3 & 3 ? FORM >> 3 & 3 : 1 };
enum { SLOTS = FORM >> 5 & 7 ? FORM >> 5 & 7 : 1, NORMS = FORM >> 8 };
enum { TEAMS = WARPS / TEAM, ROW_PACKS = (N ? N : 1) * TEAM * 32, OWN_PACKS = (ROW_PACKS + THREADS - 1) / THREADS };
#define MEMBER ((int)(threadIdx.x >> 5) % TEAM)
#define PLACE(j) (((j) * TEAM + MEMBER) * 32 + LANE)
#define OWN_PLACE(j) ((j) * THREADS + (int)threadIdx.x)

/* Asks for weights of the results from o on, TEAMS apart: pack j of the r-th one is this thread's at (r N + j) THREADS. */
FN void ask(words *room, int slot, const linear_job &p, i64 o)
{
  words *to = room + slot * AT_ONCE * N * THREADS + (int)threadIdx.x;
#pragma unroll 1
  for (int r = 0; r < AT_ONCE; r++) {
    const words *const row = (const words *)(p.w + (o + r * TEAMS) * p.ld);
#pragma unroll 1
    for (int j = 0; j < N; j++, to += THREADS)
      if (o + r * TEAMS < p.n && PLACE(j) < p.k / V) copy_async<16>(to, row + PLACE(j), 16);
  }
  portion_ends();
}

/* Sums over the block; place: of memory that no other call uses. */
template <int PLACE> FN void block_sums(f32 &a, f32 &b)
{
  __shared__ f32 room[2][WARPS];
  a = warp_sum(a), b = warp_sum(b);
  if (LANE == 0) room[0][threadIdx.x >> 5] = a, room[1][threadIdx.x >> 5] = b;
  __syncthreads();
  a = b = 0;
#pragma unroll
  for (int i = 0; i < WARPS; i++) a += room[0][i], b += room[1][i];
}

/* The mean and 1 / the deviation of a row, of which each thread has packs: sums about its first element, which 16 bits
 * cannot tell from others; wider ones about the mean. */
FN void statistics(const words *x, const linear_job &p, f32 each, f32 &mean, f32 &rstd)
{
  f32 center = p.norm == NORM_LAYER ? get(p.x[0]) : 0, sum = 0, squares = 0;
#pragma unroll
  for (int j = 0; j < OWN_PACKS; j++) {
    if (OWN_PLACE(j) >= p.k / V) continue;
    const piece e = as_pack<piece>(x[j]);
    sum += spread(e, NORM_LAYER, center, true), squares += spread(e, p.norm, center, false);
  }
  block_sums<0>(sum, squares);
  sum *= each;
  mean = p.norm == NORM_LAYER ? center + sum : 0;
  squares = larger(squares * each - (p.norm == NORM_LAYER ? sum * sum : 0), 0.0f);
  if (sizeof(T0) > 2 && p.norm == NORM_LAYER) {
    squares = 0;
#pragma unroll
    for (int j = 0; j < OWN_PACKS; j++)
      if (OWN_PLACE(j) < p.k / V) squares += spread(as_pack<piece>(x[j]), p.norm, mean, false);
    block_sums<1>(squares, sum);
    squares *= each;
  }
  rstd = inverse_root(squares + p.eps);
}

/* The row, normed, into memory of the block's. */
FN void fetch(words *row, const linear_job &p)
{
  const f32 each = NORMS ? 1 / (f32)p.k : 0;
  words x[OWN_PACKS], w[OWN_PACKS], b[OWN_PACKS];
#pragma unroll
  for (int j = 0; j < OWN_PACKS; j++) {
    if (!NORMS || OWN_PLACE(j) >= p.k / V) continue;
    if (p.nw) w[j] = ((const words *)p.nw)[OWN_PLACE(j)];
    if (p.nb) b[j] = ((const words *)p.nb)[OWN_PLACE(j)];
  }
  if (p.steady) wait_for_previous();
#pragma unroll
  for (int j = 0; j < OWN_PACKS; j++)
    if (OWN_PLACE(j) < p.k / V) x[j] = ((const words *)p.x)[OWN_PLACE(j)];
  if (NORMS) {
    f32 mean, rstd;
    statistics(x, p, each, mean, rstd);
#pragma unroll
    for (int j = 0; j < OWN_PACKS; j++)
      if (OWN_PLACE(j) < p.k / V)
        *(piece *)&x[j] = normed(as_pack<piece>(x[j]), as_pack<piece>(w[j]), as_pack<piece>(b[j]), p.nw != 0, p.nb != 0,
                                 mean, rstd);
  }
#pragma unroll
  for (int j = 0; j < OWN_PACKS; j++)
    if (OWN_PLACE(j) < p.k / V) row[OWN_PLACE(j)] = x[j];
  __syncthreads();
}

/* Products of a slot's weights with the row: one for each result. */
FN void multiply(f32 *sum, const words *row, const words *room, int slot, const linear_job &p)
{
  const words *w = room + slot * AT_ONCE * N * THREADS + (int)threadIdx.x;
#pragma unroll
  for (int r = 0; r < AT_ONCE; r++) sum[r] = 0;
#pragma unroll 1
  for (int j = 0; j < N; j++) {
    if (PLACE(j) >= p.k / V) break;
    const piece x = *(const piece *)&row[PLACE(j)];
#pragma unroll
    for (int r = 0; r < AT_ONCE; r++) sum[r] = dot(x, *(const piece *)&w[(r * N + j) * THREADS], sum[r]);
  }
}

/* The sums over a result's warps. turn: of two places in memory, so that a call need not wait for an earlier one's. */
FN void join_team(f32 *sum, int &turn)
{
  __shared__ f32 room[2][AT_ONCE][WARPS];
#pragma unroll
  for (int r = 0; r < AT_ONCE; r++) sum[r] = warp_sum(sum[r]);
  if (TEAM == 1) return;
  turn ^= 1;
  if (LANE < AT_ONCE) room[turn][LANE][threadIdx.x >> 5] = LANE ? sum[AT_ONCE - 1] : sum[0];
  __syncthreads();
#pragma unroll
  for (int r = 0; r < AT_ONCE; r++) {
    sum[r] = 0;
#pragma unroll
    for (int i = 0; i < TEAM; i++) sum[r] += room[turn][r][(int)(threadIdx.x >> 5) - MEMBER + i];
  }
}

KERNEL(linear_row, linear_job)
{
  DYNAMIC_SHARED(words, room);
  __shared__ words row[ROW_PACKS];
  const i64 step = (i64)gridDim.x * TEAMS * AT_ONCE, own = (int)(threadIdx.x >> 5) / TEAM;
  i64 first = (i64)blockIdx.x * TEAMS * AT_ONCE; /* of the block's: all of its warps go on together */
  i64 mine = first + own + (LANE < AT_ONCE ? LANE : 0) * TEAMS; /* the result that this thread finishes, if any */
  int turn = 0, slot = 0;
  begin_next();
  if (!p.steady) wait_for_previous();
#pragma unroll 1
  for (int s = 0; s < SLOTS; s++) ask(room, s, p, first + s * step + own);
  f32 b = mine < p.n ? or_else(p.b, mine, 0) : 0;
  fetch(row, p);
#pragma unroll 1
  for (; first < p.n; first += step, slot = slot == SLOTS - 1 ? 0 : slot + 1) {
    const f32 other = p.join && mine < p.n ? get(p.other[mine]) : 0, bias = b;
    const i64 now = mine;
    f32 sum[AT_ONCE];
    portions_arrive<SLOTS - 1>();
    multiply(sum, row, room, slot, p);
    mine += step;
    if (first + step < p.n) {
      ask(room, slot, p, first + SLOTS * step + own);
      b = mine < p.n ? or_else(p.b, mine, 0) : 0;
    }
    join_team(sum, turn);
    if (LANE < AT_ONCE && MEMBER == 0 && now < p.n)
      p.y[now] = finished(p, LANE ? sum[AT_ONCE - 1] : sum[0], bias, other);
  }
}

/* ---- rows of any length, and several of them: N packs of the weight at a time ---- */

FN void statistics(f32 *mean, f32 *rstd, const linear_job &p)
{
#pragma unroll
  for (int r = 0; r < OP; r++) {
    const piece *x = (const piece *)(p.x + (i64)r * p.k);
    f32 sum = 0;
    mean[r] = 0;
    for (int i = LANE; i < p.k / V; i += 32) sum += spread(x[i], p.norm, 0, true);
    sum = warp_sum(sum);
    if (p.norm == NORM_LAYER) {
      mean[r] = sum / (f32)p.k;
      sum = 0;
      for (int i = LANE; i < p.k / V; i += 32) sum += spread(x[i], p.norm, mean[r], false);
      sum = warp_sum(sum);
    }
    rstd[r] = 1 / sqrtf(sum / (f32)p.k + p.eps);
  }
}

KERNEL(linear_rows, linear_job)
{
  const i64 step = (i64)gridDim.x * WARPS;
  const int packs = p.k / V;
  f32 mean[OP], rstd[OP];
  begin_next();
  wait_for_previous();
  if (p.norm) statistics(mean, rstd, p);
  for (i64 o = (i64)blockIdx.x * WARPS + (threadIdx.x >> 5); o < p.n; o += step) {
    const piece *row = (const piece *)(p.w + o * p.ld);
    f32 sum[OP] = {};
    for (int base = LANE; base < packs; base += 32 * N) {
      piece w[N ? N : 1];
#pragma unroll
      for (int j = 0; j < N; j++)
        if (base + j * 32 < packs) w[j] = row[base + j * 32];
#pragma unroll
      for (int j = 0; j < N; j++) {
        const int i = base + j * 32;
        if (i >= packs) continue;
        piece nw, nb;
        if (p.norm && p.nw) nw = ((const piece *)p.nw)[i];
        if (p.norm && p.nb) nb = ((const piece *)p.nb)[i];
#pragma unroll
        for (int r = 0; r < OP; r++) {
          piece x = ((const piece *)(p.x + (i64)r * p.k))[i];
          if (p.norm) x = normed(x, nw, nb, p.nw != 0, p.nb != 0, mean[r], rstd[r]);
          sum[r] = dot(x, w[j], sum[r]);
        }
      }
    }
    const f32 b = or_else(p.b, o, 0);
#pragma unroll
    for (int r = 0; r < OP; r++) {
      const f32 all = warp_sum(sum[r]);
      if (LANE == 0) p.y[r * p.n + o] = finished(p, all, b, p.join ? get(p.other[r * p.n + o]) : 0);
    }
  }
}
