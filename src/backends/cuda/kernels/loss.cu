/* loss.cu: cross-entropy of rows of logits and class numbers, and its gradient.
 *
 * T0 is the type of the logits, T1 that of losses and their gradients; logarithms of sums are of the type they are
 * computed in. Rows are taken as rows.cuh says. Invariant: the losses of rows are added in an order that the number of
 * blocks fixes. */
/* At most 64 registers a thread, so that many rows are under way: as in loss.c. */
#define BLOCKS_AT_ONCE (THREADS < 1024 ? 1024 / THREADS : 1)
#include "codegen/device.cuh"
#include "common.cuh"
#include "rows.cuh"

typedef wide_of<T0>::type A;
enum { SHORT = sizeof(T0) == 2, V = 16 / sizeof(T0), AT_ONCE = 4, UNROLLED = KEPT ? KEPT : 4 };
#include "exponent.cuh"

struct loss_job {
  const T0 *x;       /* (rows, n) */
  const i64 *target; /* (rows) */
  A *lse;            /* (rows) */
  f64 *parts;        /* (blocks, 2): sums of losses, and how many rows count; where one loss of all rows is wanted */
  T1 *loss;          /* (rows), or one */
  const T1 *g;       /* (rows), or one */
  T0 *y;             /* gradient */
  u64 *count;        /* how many rows count, where the mean is wanted and they are many */
  i64 rows, n, ignore;
  i32 reduce, mean, blocks, unused; /* reduce: one loss of all rows; blocks: of loss_rows */
  fault_slot fault;
};

FN A log_of(A v) { return sizeof(A) == 4 ? (A)logf((f32)v) : (A)log((f64)v); }

/* By a block, of what its threads have: the sum of losses, or the mean over rows that count. */
FN void give_all(const loss_job &p, f64 sum, f64 count, bool last)
{
  sum = block_sum(sum);
  count = block_sum(count);
  if (threadIdx.x) return;
  if (last) p.loss[0] = put<T1>(p.mean ? sum / count : sum);
  else p.parts[2 * blockIdx.x] = sum, p.parts[2 * blockIdx.x + 1] = count;
}

FN kept<T0, V> logits(const loss_job &p, i64 r, int slot, char *room)
{
  return row_at<T0, V>(p.x, r, p.rows, p.n, put<T0>(least()), AHEAD ? room_of<T0, V>(room, 0, slot, p.n) : 0);
}
FN void ask_row(const loss_job &p, i64 r, int slot, char *room)
{
  ask(logits(p, r, slot, room));
  portion_ends();
}

/* The sum over a row, for every thread of its group. */
FN exponentials sum_of(kept<T0, V> &row)
{
  exponentials all = {least(), 0};
  if (KEPT) { /* the largest first, so that the sum is never scaled */
#pragma unroll
    for (int k = 0; k < KEPT; k++) {
      const pack<T0, V> e = first_read(row, k);
#pragma unroll
      for (int i = 0; i < V; i++) all.most = largest_of(all.most, (A)get(e.v[i]));
    }
    all.most = group_max<0>(all.most);
    const A off = taken_off(all.most);
#pragma unroll
    for (int k = 0; k < KEPT; k++) {
      const pack<T0, V> e = read_again(row, k);
#pragma unroll
      for (int i = 0; i < V; i++) all.sum += part_of((A)get(e.v[i]), off);
    }
    all.sum = group_sum<1>(all.sum);
    return all;
  }
  for (int k = 0; k < PACKS(row.n); k += AT_ONCE) { /* read together, before any of them is waited for */
    pack<T0, V> e[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) e[i] = load_pack<T0, V>(row.x, PLACE_OF(row, k + i), row.n, row.none);
    add_packs<T0, V, AT_ONCE>(all, e);
  }
  return join(all);
}

/* By the thread that has the class, or, where none has, by the first. */
FN A give_loss(const loss_job &p, i64 r, i64 t, A value, A lse)
{
  const bool fits = t >= 0 && t < p.n;
  if (t != p.ignore && !fits) report_fault(p.fault, FAULT_CLASS, t, p.n);
  const A loss = t == p.ignore || !fits ? (A)0 : lse - value;
  if (!p.reduce) p.loss[r] = put<T1>(loss);
  return loss;
}

FN i64 class_of(const loss_job &p, i64 r) { return r < p.rows ? p.target[r] : 0; }

KERNEL(loss_rows, loss_job)
{
  DYNAMIC_SHARED(char, room);
  i64 next_class = class_of(p, FIRST_ROW);
  f64 sum = 0, count = 0;
  for (int a = 0; a < AHEAD; a++) ask_row(p, FIRST_ROW + a * ROW_STEP, a, room);
  EACH_ROW(r, slot, p.rows)
  {
    const i64 t = next_class;
    if (AHEAD) ask_row(p, r + AHEAD * ROW_STEP, SLOT_AHEAD(slot), room);
    next_class = class_of(p, r + ROW_STEP);
    portions_arrive<AHEAD>();
    kept<T0, V> row = logits(p, r, slot, room);
    const i64 at = t + row.shift, mine = at / V % GROUP, hit = at / V / GROUP; /* whose pack it is, and which */
    const bool has = t >= 0 && t < row.n && mine == GROUP_LANE, none = (t < 0 || t >= row.n) && GROUP_LANE == 0;
    const exponentials all = sum_of(row);
    const bool alone = all.most == (A)INF_F64 || (all.most == least() && all.sum == 0);
    const A lse = alone ? all.most : all.most + log_of(all.sum);
    if (r < p.rows) {
      if (GROUP_LANE == 0) p.lse[r] = lse;
      if (has) sum += (f64)give_loss(p, r, t, (A)get(AHEAD ? row.room[hit * THREADS].v[at % V] : row.x[t]), lse);
      if (none) sum += (f64)give_loss(p, r, t, 0, lse);
      count += (has || none) && t != p.ignore;
    }
  }
  if (p.reduce) give_all(p, sum, count, p.blocks == 1);
}

/* What the blocks have, in their order. */
KERNEL(loss_join, loss_job)
{
  f64 sum = 0, count = 0;
  for (int b = threadIdx.x; b < p.blocks; b += THREADS) sum += p.parts[2 * b], count += p.parts[2 * b + 1];
  give_all(p, sum, count, true);
}

FN u64 counted(const loss_job &p, i64 first, i64 step)
{
  u64 count = 0;
#pragma unroll 1
  for (i64 r = first; r < p.rows; r += step) count += p.target[r] != p.ignore;
  return block_sum(count);
}
KERNEL(loss_count, loss_job)
{
  const u64 count = counted(p, (i64)blockIdx.x * THREADS + threadIdx.x, (i64)gridDim.x * THREADS);
  if (threadIdx.x == 0) atomicAdd(p.count, count);
}

/* 1 over how many rows count, where the mean is wanted: as found before, or, of few rows, by each block. */
FN f64 share_of(const loss_job &p)
{
  if (!p.mean) return 1;
  return 1 / (f64)(p.count ? p.count[0] : counted(p, threadIdx.x, THREADS));
}

#undef BLOCKS_AT_ONCE
#define BLOCKS_AT_ONCE (THREADS < 1024 ? 1536 / THREADS : 1) /* nothing is asked for ahead here */

/* (softmax(x) - [class]) * g / count */
KERNEL(loss_grad, loss_job)
{
  const f64 share = share_of(p);
  for (i64 r = FIRST_ROW; r < p.rows; r += ROW_STEP) {
    const kept<T0, V> row = row_at<T0, V>(p.x, r, p.rows, p.n, put<T0>(0), 0);
    const i64 t = p.target[r];
    const bool counts = t != p.ignore;
    const A lse = p.lse[r], scale = (A)((f64)get(p.g[p.reduce ? 0 : r]) * share);
#pragma unroll UNROLLED
    for (int k = 0; k < PACKS(p.n); k++) {
      const place at = PLACE_OF(row, k);
      if (EDGE(k) && at >= row.n) break;
      pack<T0, V> e = load_pack<T0, V>(row.x, at, row.n, row.none, EDGE(k)), y;
      const int hit = t - at < V ? (int)(t - at) : -1;
#pragma unroll
      for (int i = 0; i < V; i++)
        y.v[i] = put<T0>(counts ? (exp_of(get(e.v[i]), lse) - (A)(i == hit)) * scale : (A)0);
      store_pack<T0, V>(p.y + r * p.n, at, row.n, y, EDGE(k));
    }
  }
}
