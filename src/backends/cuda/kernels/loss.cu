/* loss.cu: cross-entropy of rows of logits and class numbers, and its gradient.
 *
 * T0 is the type of the logits, T1 that of losses and their gradients; logarithms of sums are of the type they are
 * computed in. Rows are taken as rows.cuh says. Invariant: the losses of rows are added in a fixed order. */
#if N <= 0 && THREADS <= 768
#define BLOCKS_AT_ONCE (768 / THREADS) /* at most 85 registers a thread, so that many rows are under way */
#endif
#include "codegen/device.cuh"
#include "common.cuh"
#include "rows.cuh"

typedef wide_of<T0>::type A;
enum { SHORT = sizeof(T0) == 2, V = 16 / sizeof(T0), AT_ONCE = N > 0 && N < 4 ? N : 4 };
#include "exponent.cuh"

struct loss_job {
  const T0 *x;       /* (rows, n) */
  const i64 *target; /* (rows) */
  A *lse, *losses;   /* (rows) */
  T1 *loss;          /* (rows), or one */
  const T1 *g;       /* (rows), or one */
  T0 *y;             /* gradient */
  f64 *count;        /* 1 over how many rows count, where the mean is wanted */
  i64 rows, n, ignore;
  i32 aligned, reduce, mean, joins; /* reduce: one loss of all rows; joins: the one block of loss_rows makes it, too */
  fault_slot fault;
};

FN A log_of(A v) { return sizeof(A) == 4 ? (A)logf((f32)v) : (A)log((f64)v); }

/* By a block: the sum, or the mean over rows that count. */
FN void join_rows(const loss_job &p)
{
  f64 sum = 0, count = 0;
  for (i64 r = threadIdx.x; r < p.rows; r += blockDim.x) {
    if (p.losses) sum += (f64)p.losses[r];
    count += p.target[r] != p.ignore;
  }
  sum = block_sum(sum);
  count = block_sum(count);
  if (threadIdx.x) return;
  if (p.loss) p.loss[0] = put<T1>(p.mean ? sum / count : sum);
  if (p.count) p.count[0] = 1 / count;
}

KERNEL(loss_rows, loss_job)
{
  for (i64 r = FIRST_ROW; r < p.rows; r += ROW_STEP) {
    const T0 *x = p.x + r * p.n;
    const int shift = SHIFT_OF(r);
    const i64 t = p.target[r]; /* on its way with the row */
    exponentials all = {least(), 0};
    for (int k = 0; k < PACKS(p.n); k += AT_ONCE) { /* read together, before any of them is waited for */
      pack<T0, V> e[AT_ONCE];
#pragma unroll
      for (int i = 0; i < AT_ONCE; i++)
        e[i] = load_pack<T0, V>(x, PACK_AT(k + i), p.n, p.aligned, put<T0>(least()));
#pragma unroll
      for (int i = 0; i < AT_ONCE; i++)
        if (i == 0 || k + i < PACKS(p.n)) add_pack<T0, V>(all, e[i]);
    }
    all = join(all);
    if (GROUP_LANE) continue;
    const bool alone = all.most == (A)INF_F64 || (all.most == least() && all.sum == 0);
    const A lse = alone ? all.most : all.most + log_of(all.sum);
    const bool fits = t >= 0 && t < p.n;
    if (t != p.ignore && !fits) report_fault(p.fault, FAULT_CLASS, t, p.n);
    p.lse[r] = lse;
    const A loss = t == p.ignore || !fits ? (A)0 : lse - get(x[t]);
    if (p.reduce) p.losses[r] = loss;
    else p.loss[r] = put<T1>(loss);
  }
  if (!p.joins) return;
  __syncthreads(); /* all losses are there */
  join_rows(p);
}

KERNEL(loss_join, loss_job) { join_rows(p); }

/* 1 over how many rows count, where the mean is wanted: as found before, or, of few rows, by each block. */
FN f64 share_of(const loss_job &p)
{
  if (!p.mean || p.count) return p.mean ? p.count[0] : 1;
  f64 count = 0;
  for (i64 r = threadIdx.x; r < p.rows; r += blockDim.x) count += p.target[r] != p.ignore;
  return 1 / block_sum(count);
}

/* (softmax(x) - [class]) * g / count */
KERNEL(loss_grad, loss_job)
{
  const f64 share = share_of(p);
  for (i64 r = FIRST_ROW; r < p.rows; r += ROW_STEP) {
    const T0 *x = p.x + r * p.n;
    const int shift = SHIFT_OF(r);
    const i64 t = p.target[r];
    const bool counts = t != p.ignore;
    const A lse = p.lse[r], scale = (A)((f64)get(p.g[p.reduce ? 0 : r]) * share);
#pragma unroll 4
    for (int k = 0; k < PACKS(p.n); k++) {
      const place at = PACK_AT(k);
      if (at >= p.n) break;
      pack<T0, V> e = load_pack<T0, V>(x, at, p.n, p.aligned, put<T0>(0)), y;
      const int hit = t - at < V ? (int)(t - at) : -1;
#pragma unroll
      for (int i = 0; i < V; i++)
        y.v[i] = put<T0>(counts ? (exp_of(get(e.v[i]), lse) - (A)(i == hit)) * scale : (A)0);
      store_pack<T0, V>(p.y + r * p.n, at, p.n, p.aligned, y);
    }
  }
}
