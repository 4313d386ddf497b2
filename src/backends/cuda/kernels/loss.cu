/* loss.cu: cross-entropy of rows of logits and class numbers, and its gradient.
 *
 * T0 is the type of the logits, T1 that of losses and their gradients; logarithms of sums are of the type they are
 * computed in. Rows are taken as rows.cuh says. Invariant: the losses of rows are added in an order that the number of
 * blocks fixes. */
/* At most 64 registers a thread, so that many rows are under way; more for float64: as in loss.c. */
#define RESIDENT (sizeof(T0) > 4 ? 512 : 1024)
#define BLOCKS_AT_ONCE (THREADS < 1024 ? RESIDENT / THREADS : 1)
#include "codegen/device.cuh"
#include "common.cuh"
#include "rows.cuh"

typedef wide_of<T0>::type A;
/* AT_ONCE, of long rows, and TOGETHER: packs of a thread that are read before the first of them is waited for. */
enum { SHORT = sizeof(T0) == 2, V = 16 / sizeof(T0) };
enum { AT_ONCE = APART ? 1 : 4, TOGETHER = KEPT > 8 ? 8 : KEPT };
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

/* Packs of a long row that are on their way while those before them are gone over. */
struct portion {
  pack<T0, V> e[AT_ONCE];
};
/* Those from pack k of this thread on; what is not among `own` is nothing. mine: its first one. */
FN portion read_portion(const T0 *mine, const span &own, int k)
{
  portion made;
#pragma unroll
  for (int i = 0; i < AT_ONCE; i++)
    made.e[i] = stream_whole<T0, V>(PACK_AT(mine, k + i), k + i >= own.from && k + i < own.to, put<T0>(least()));
  return made;
}

/* The sum over a row that is kept, for every thread of its group: the largest first, so that it is never scaled. value:
 * element `at`, which another thread may have: the group has met, and meets again before its place is used anew. */
FN exponentials sum_kept(kept<T0, V> &row, place at, A &value, int slot)
{
  pack<T0, V> e[KEPT ? KEPT : 1];
#pragma unroll
  for (int k = 0; k < KEPT; k++) e[KEPT ? k : 0] = first_read(row, k);
  exponentials all = {group_max<0>(most_in<T0>::template of<V, KEPT ? KEPT : 1>(e), slot), 0};
  const A off = taken_off(all.most);
  if (AHEAD) {
    __syncwarp();
    value = (A)get(((const T0 *)(row.room - GROUP_LANE))[at + row.shift]);
  } else if (row.n) value = (A)get(row.x[at]);
#pragma unroll
  for (int k = 0; k < KEPT; k++) all.sum += parts_of<T0, V>(e[KEPT ? k : 0], off);
  all.sum = group_sum<1>(all.sum, slot);
  return all;
}

/* The same over a long row; portion `soon` is its first one, and then the next row's. */
FN exponentials sum_long(const kept<T0, V> &row, const kept<T0, V> &next, portion &soon, int slot)
{
  const span own = span_of(row);
  const pack<T0, 1> edge = {{edge_of(row, own)}};
  exponentials all = {least(), 0};
#pragma unroll 1
  for (int k = AT_ONCE; k < own.to; k += AT_ONCE) {
    const portion now = soon;
    soon = read_portion(row.mine, own, k);
    add_packs<T0, V, AT_ONCE>(all, now.e);
  }
  const portion now = soon;
  soon = read_portion(next.mine, span_of(next), 0);
  add_packs<T0, V, AT_ONCE>(all, now.e);
  add_pack<T0, 1>(all, edge);
  return join(all, slot);
}

/* A row's loss waits in a lane of its group until each has one: their logarithms, classes and places are seen to
 * together. */
struct waiting {
  A most, sum, value; /* value: the logit of the class */
  i64 t, next;        /* the classes of this lane's row, and of its next one */
};
FN i64 class_of(const loss_job &p, i64 r) { return r < p.rows ? p.target[r] : 0; }
FN bool fits(const loss_job &p, i64 t) { return t >= 0 && t < p.n; }

/* By the lane that has row r. */
FN void finish(const loss_job &p, i64 r, const waiting &w, f64 &sum, f64 &count)
{
  const bool alone = w.most == (A)INF_F64 || (w.most == least() && w.sum == 0);
  const A lse = alone ? w.most : w.most + log_of(w.sum);
  if (w.t != p.ignore && !fits(p, w.t)) report_fault(p.fault, FAULT_CLASS, w.t, p.n);
  const A loss = w.t == p.ignore || !fits(p, w.t) ? (A)0 : lse - w.value;
  p.lse[r] = lse;
  if (!p.reduce) p.loss[r] = put<T1>(loss);
  sum += (f64)loss;
  count += w.t != p.ignore;
}

KERNEL(loss_rows, loss_job)
{
  DYNAMIC_SHARED(char, room);
  const int lane = N > 0 ? GROUP_LANE : LANE;
  const bool finishes = GROUP_LANE < LANES;
  i64 own = FIRST_ROW + lane * ROW_STEP; /* the row of this lane */
  waiting w = {0, 0, 0, class_of(p, own), class_of(p, own + LANES * ROW_STEP)};
  int turn = 0;
  f64 sum = 0, count = 0;
  portion soon;
  if (!KEPT) {
    const kept<T0, V> first = logits(p, FIRST_ROW, 0, 0);
    soon = read_portion(first.mine, span_of(first), 0);
  }
  for (int a = 0; a < AHEAD; a++) ask_row(p, FIRST_ROW + a * ROW_STEP, a, room);
  EACH_ROW(r, slot, p.rows)
  {
    if (AHEAD) ask_row(p, r + AHEAD * ROW_STEP, SLOT_AHEAD(slot), room);
    portions_arrive<AHEAD>();
    kept<T0, V> row = logits(p, r, slot, room);
    const place at = __shfl_sync(FULL, (place)(fits(p, w.t) ? w.t : 0), turn, LANES);
    A value = KEPT || r >= p.rows ? (A)0 : (A)get(row.x[at]);
    const exponentials all = KEPT ? sum_kept(row, at, value, slot)
                                  : sum_long(row, logits(p, r + ROW_STEP, slot, 0), soon, slot);
    if (lane == turn) w.most = all.most, w.sum = all.sum, w.value = value;
    if (++turn < LANES) continue;
    if (finishes && own < p.rows) finish(p, own, w, sum, count);
    own += LANES * ROW_STEP;
    w.t = w.next;
    w.next = class_of(p, own + LANES * ROW_STEP);
    turn = 0;
  }
  if (finishes && lane < turn && own < p.rows) finish(p, own, w, sum, count);
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

/* (softmax(x) - [class]) * g / count, of AT_MOST packs of a row from pack k on, which are read before any is stored. */
template <int AT_MOST>
FN void gradients_of(const kept<T0, V> &row, T0 *y, int k, i64 t, A lse, A scale, bool counts)
{
  pack<T0, V> e[AT_MOST];
#pragma unroll
  for (int i = 0; i < AT_MOST; i++)
    e[i] = load_pack<T0, V>(PACK_AT(row.mine, k + i), PLACE_OF(row, k + i), row.n, row.none, EDGE(k + i));
#pragma unroll
  for (int i = 0; i < AT_MOST; i++) {
    const place at = PLACE_OF(row, k + i);
    const i64 hit = t - at;
    A v[V];
    if (EDGE(k + i) && at >= row.n) break;
    unpack<T0, V>(v, e[i]);
#pragma unroll
    for (int j = 0; j < V; j++) v[j] = part_of(v[j], lse);
    if (hit >= 0 && hit < V) /* one pack of a row */
#pragma unroll
      for (int j = 0; j < V; j++) v[j] -= (A)(j == hit);
#pragma unroll
    for (int j = 0; j < V; j++) v[j] = counts ? v[j] * scale : (A)0;
    store_pack<T0, V>(PACK_AT(y, k + i), at, row.n, packed<T0, V>(v), EDGE(k + i));
  }
}

/* The same of a long row's whole packs, and of the element at its edge. y: the row. */
FN void gradients_long(const kept<T0, V> &row, T0 *y, i64 t, A lse, A scale, bool counts)
{
  const span own = span_of(row);
  const A edge = (A)get(edge_of(row, own));
  const i64 pack_of_class = (t + row.shift) / V;
  const int hit = pack_of_class % THREADS == threadIdx.x ? (int)(pack_of_class / THREADS) : -1; /* its class's pack */
  const int which = (int)((t + row.shift) % V);
  T0 *const mine = FIRST_OF(row, y);
#pragma unroll 1
  for (int k = own.from; k < own.to; k += AT_ONCE) {
    pack<T0, V> e[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) e[i] = stream_whole<T0, V>(PACK_AT(row.mine, k + i), k + i < own.to, row.none);
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) {
      A v[V];
      if (k + i >= own.to) break;
      unpack<T0, V>(v, e[i]);
#pragma unroll
      for (int j = 0; j < V; j++) v[j] = part_of(v[j], lse);
      if (k + i == hit)
#pragma unroll
        for (int j = 0; j < V; j++) v[j] -= (A)(j == which);
#pragma unroll
      for (int j = 0; j < V; j++) v[j] = counts ? v[j] * scale : (A)0;
      give_whole<T0, V>(PACK_AT(mine, k + i), packed<T0, V>(v));
    }
  }
  if (own.edge >= 0) y[own.edge] = put<T0>(counts ? (part_of(edge, lse) - (A)(own.edge == t)) * scale : (A)0);
}

KERNEL(loss_grad, loss_job)
{
  const f64 share = share_of(p);
  for (i64 r = FIRST_ROW; r < p.rows; r += ROW_STEP) {
    const kept<T0, V> row = row_at<T0, V>(p.x, r, p.rows, p.n, put<T0>(0), 0);
    const i64 t = p.target[r];
    const A lse = p.lse[r], scale = (A)((f64)get(p.g[p.reduce ? 0 : r]) * share);
    T0 *const y = p.y + r * p.n;
    if (!KEPT) gradients_long(row, y, t, lse, scale, t != p.ignore);
    for (int k = 0; k < KEPT; k += TOGETHER)
      gradients_of<TOGETHER ? TOGETHER : 1>(row, FIRST_OF(row, y), k, t, lse, scale, t != p.ignore);
  }
}
