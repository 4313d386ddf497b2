/* pick.cu: choices with given weights (multinomial), positions from counts (repeat_interleave_indices), and rows of an
 * embedding brought below a norm.
 *
 * T0 is the element type. Invariant: results are the CPU's: the tree of sums is added up in the same order, draw i of
 * the call decides choice i. */
#define CNM_EMBEDDED 1
typedef unsigned int uint32_t;
typedef int int32_t;
typedef unsigned long uint64_t;
typedef long int64_t;
#define __builtin_inf() CNM_INF
#define __builtin_fabs fabs
#define __builtin_fabsf fabsf
#define __builtin_sqrt sqrt
#define __builtin_sqrtf sqrtf
#define __builtin_floor floor
#define __builtin_floorf floorf
#define __builtin_rint rint
#define __builtin_rintf rintf
#define __builtin_copysign copysign
#define __builtin_copysignf copysignf
#include "base/maths.h"
#include "base/maths_f64.h"
#include "base/maths_f32.h"
#include "base/philox.h"
#include "codegen/device.cuh"
#include "common.cuh"

/* ---- multinomial: a block per row ---- */
struct choose_job {
  const T0 *p;  /* (rows, categories) */
  i64 *y;       /* (rows, samples) */
  f64 *trees;   /* (rows, 2 leaves): node 1 is the root, those of k are 2 k and 2 k + 1 */
  i64 rows, categories, samples, leaves;
  u64 seed, offset;
  const u64 *random; /* recorded work: seed, and what offset counts from, as they are now; NULL: as above */
  i32 replace, unused;
  fault_slot fault;
};

FN i64 descend(const f64 *tree, i64 leaves, f64 u)
{
  i64 k = 1;
  f64 rest = u * tree[1];
  while (k < leaves) {
    k *= 2;
    if (tree[k + 1] > 0 && (rest >= tree[k] || !(tree[k] > 0))) rest -= tree[k++];
  }
  return k - leaves;
}

FN f64 draw(const choose_job &p, i64 i)
{
  uint32_t w[4];
  const u64 seed = p.random ? p.random[0] : p.seed, first = p.offset + (p.random ? p.random[1] : 0);
  cni_philox(seed, first + (u64)(i / 2), 0, w);
  return cni_unit_f64(i % 2 ? cni_word_64(w[2], w[3]) : cni_word_64(w[0], w[1]));
}

KERNEL(choose, choose_job)
{
  const i64 row = blockIdx.x;
  f64 *tree = p.trees + row * 2 * p.leaves;
  i64 possible = 0;
  for (i64 k = threadIdx.x; k < p.leaves; k += THREADS) {
    const f64 w = k < p.categories ? (f64)get(p.p[row * p.categories + k]) : 0;
    if (!(w >= 0) || w == INF_F64) report_fault(p.fault, FAULT_VALUE, k, 0);
    possible += w > 0;
    tree[p.leaves + k] = w;
  }
  possible = block_sum(possible);
  for (i64 level = p.leaves / 2; level > 0; level /= 2) {
    __syncthreads();
    for (i64 k = level + threadIdx.x; k < 2 * level; k += THREADS) tree[k] = tree[2 * k] + tree[2 * k + 1];
  }
  __syncthreads();
  const bool usable = tree[1] > 0 && tree[1] != INF_F64 && (p.replace || possible >= p.samples);
  if (!usable && threadIdx.x == 0) report_fault(p.fault, FAULT_VALUE, row, 0);
  if (p.replace) {
    for (i64 i = threadIdx.x; i < p.samples; i += THREADS)
      p.y[row * p.samples + i] = usable ? descend(tree, p.leaves, draw(p, row * p.samples + i)) : 0;
    return;
  }
  if (threadIdx.x) return; /* each choice changes the tree for the next */
  for (i64 i = 0; i < p.samples; i++) {
    i64 k = usable ? descend(tree, p.leaves, draw(p, row * p.samples + i)) : 0;
    p.y[row * p.samples + i] = k;
    k += p.leaves;
    tree[k] = 0;
    while (k /= 2) tree[k] = tree[2 * k] + tree[2 * k + 1];
  }
}

/* ---- repeat_interleave_indices ---- */
struct repeat_job {
  const i64 *counts; /* (n) */
  i64 *ends;         /* (n + 1): where the places of each end; behind them 1 if a count is negative */
  T0 *y;
  i64 n, total;
};

/* One block. */
KERNEL(repeat_ends, repeat_job)
{
  __shared__ i64 room[THREADS];
  i64 carry = 0, negative = 0;
  for (i64 tile = 0; tile < p.n; tile += THREADS) {
    const i64 i = tile + threadIdx.x;
    i64 sum = i < p.n ? p.counts[i] : 0;
    negative += sum < 0;
    for (int m = 1; m < THREADS; m *= 2) {
      room[threadIdx.x] = sum;
      __syncthreads();
      if ((int)threadIdx.x >= m) sum += room[threadIdx.x - m];
      __syncthreads();
    }
    room[threadIdx.x] = sum;
    __syncthreads();
    if (i < p.n) p.ends[i] = carry + sum;
    carry += room[THREADS - 1];
    __syncthreads();
  }
  negative = block_sum(negative);
  if (threadIdx.x == 0) p.ends[p.n] = negative;
}

KERNEL(repeat_fill, repeat_job)
{
  EACH(i, p.total)
  {
    i64 low = 0, high = p.n;
    while (low < high) {
      const i64 mid = low + (high - low) / 2;
      if (p.ends[mid] > i) high = mid;
      else low = mid + 1;
    }
    p.y[i] = put<T0>(low);
  }
}

/* ---- embedding_renorm: a block per index ---- */
struct renorm_job {
  T0 *w;            /* (rows, width) */
  const i64 *index; /* (n) */
  i32 *seen;        /* (rows), zero at first */
  i64 n, rows, width;
  f64 most, norm;
  fault_slot fault;
};

/* A number as an element holds it. */
FN f64 stored(f64 v) { return (f64)get(put<T0>(v)); }

KERNEL(renorm, renorm_job)
{
  __shared__ i32 first;
  for (i64 i = blockIdx.x; i < p.n; i += gridDim.x) {
    const i64 row = p.index[i];
    const bool fits = row >= 0 && row < p.rows;
    if (threadIdx.x == 0) {
      if (!fits) report_fault(p.fault, FAULT_INDEX, row, p.rows);
      first = fits ? atomicAdd(&p.seen[row], 1) : 1;
    }
    __syncthreads();
    const bool mine = first == 0; /* a row named twice is scaled once */
    __syncthreads();
    if (!mine) continue;
    f64 sum = 0, largest = 0;
    for (i64 k = threadIdx.x; k < p.width; k += THREADS) {
      const f64 v = fabs((f64)get(p.w[row * p.width + k]));
      largest = v > largest ? v : largest;
      sum += p.norm == 2 ? v * v : p.norm == 1 ? v : pow(v, p.norm);
    }
    sum = block_sum(sum);
    largest = block_max(largest);
    const f64 root = p.norm == 1 ? sum : p.norm == 2 ? sqrt(sum) : pow(sum, 1 / p.norm);
    const f64 norm = stored(p.norm == INF_F64 ? largest : root);
    if (!(norm > p.most)) continue;
    const f64 factor = stored(p.most / (norm + 1e-7));
    for (i64 k = threadIdx.x; k < p.width; k += THREADS)
      p.w[row * p.width + k] = put<T0>((f64)get(p.w[row * p.width + k]) * factor);
  }
}
