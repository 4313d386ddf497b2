/* scan.cu: running folds along a dim of (outer, n, inner): sums, products, extremes with their places, logarithms of
 * sums of exponentials. OP says which.
 *
 * A line is cut into `chunks` pieces: what each adds up to (scan_totals), these folded in order (scan_carries), then
 * each piece from what lies before it (scan_apply). Lines of one chunk need the last alone. Threads of a block share a
 * piece of a line (inner == 1) or take neighbouring lines (inner > 1). Invariant: the cut depends on shapes alone. */
#include "codegen/device.cuh"
#include "common.cuh"

struct scan_job {
  const T0 *x;
  T0 *y;
  i64 *index;
  void *totals; /* (lines, chunks) states */
  i64 outer, n, inner, chunk, chunks;
  i32 aligned, unused; /* rows can be read eight elements at a time */
};

typedef wide_of<T0>::type A;
template <class V> struct sums_in { typedef V type; };
template <> struct sums_in<f32> { typedef f64 type; };
typedef sums_in<A>::type W;

struct sum_op {
  typedef W state;
  FN state none() { return 0; }
  FN state of(A v, i64) { return (W)v; }
  FN state join(state a, state b) { return a + b; }
  FN A value(state s) { return (A)s; }
  FN i64 place(state) { return 0; }
};
struct prod_op {
  typedef W state;
  FN state none() { return 1; }
  FN state of(A v, i64) { return (W)v; }
  FN state join(state a, state b) { return a * b; }
  FN A value(state s) { return (A)s; }
  FN i64 place(state) { return 0; }
};
/* The last of equal elements; NaN stays. at < 0: none yet. */
struct extreme {
  A value;
  i64 at;
};
template <bool MAX> struct extreme_op {
  typedef extreme state;
  FN state none() { return extreme{0, -1}; }
  FN state of(A v, i64 at) { return extreme{v, at}; }
  FN state join(state a, state b)
  {
    if (a.at < 0 || b.at < 0) return a.at < 0 ? b : a;
    if (b.value != b.value) return b;
    return a.value == a.value && (MAX ? b.value >= a.value : b.value <= a.value) ? b : a;
  }
  FN A value(state s) { return s.value; }
  FN i64 place(state s) { return s.at; }
};
typedef extreme_op<true> max_op;
typedef extreme_op<false> min_op;
struct log_op {
  typedef f64 state;
  FN state none() { return -INF_F64; }
  FN state of(A v, i64) { return (f64)v; }
  FN state join(state a, state b)
  {
    const f64 low = b < a ? b : a, high = b < a ? a : b;
    if (a != a || b != b) return a + b;
    return low == high && (low == INF_F64 || low == -INF_F64) ? b : high + log1p(exp(low - high));
  }
  FN A value(state s) { return (A)s; }
  FN i64 place(state) { return 0; }
};

typedef OP::state S;
enum { PER = 8, TILE = THREADS * PER };

template <class T> FN T up(T v, int by) { return __shfl_up_sync(FULL, v, by); }
FN extreme up(extreme v, int by)
{
  v.value = __shfl_up_sync(FULL, v.value, by);
  v.at = __shfl_up_sync(FULL, v.at, by);
  return v;
}

/* The fold of everything before this thread's value, over the block; *all: of all of it. */
FN S block_before(S v, S *all)
{
  __shared__ S room[THREADS / 32];
  S inclusive = v;
  for (int m = 1; m < 32; m <<= 1) {
    const S other = up(inclusive, m);
    if (LANE >= m) inclusive = OP::join(other, inclusive);
  }
  __syncthreads(); /* an earlier call's results were read */
  if (LANE == 31) room[threadIdx.x >> 5] = inclusive;
  __syncthreads();
  S before = OP::none(), total = OP::none();
  for (int w = 0; w < THREADS / 32; w++) {
    if (w == (int)(threadIdx.x >> 5)) before = total;
    total = OP::join(total, room[w]);
  }
  *all = total;
  const S left = up(inclusive, 1);
  return LANE ? OP::join(before, left) : before;
}

FN void put_at(const scan_job &p, i64 o, S s)
{
  p.y[o] = put<T0>(OP::value(s));
  if (p.index) p.index[o] = OP::place(s);
}

/* Piece blockIdx.y of row blockIdx.x. */
FN S fold_row(const scan_job &p, i64 row, S carry, bool store)
{
  const T0 *x = p.x + row * p.n;
  const i64 begin = blockIdx.y * p.chunk, end = begin + p.chunk < p.n ? begin + p.chunk : p.n;
  for (i64 tile = begin; tile < end; tile += TILE) {
    const i64 first = tile + (i64)threadIdx.x * PER;
    const bool whole = p.aligned && first + PER <= end;
    S own[PER], sum = OP::none(), all;
    pack<T0, PER> v;
    if (whole) v = *(const pack<T0, PER> *)(x + first);
#pragma unroll
    for (int i = 0; i < PER; i++) {
      if (!whole && first + i < end) v.v[i] = x[first + i];
      if (first + i < end) sum = OP::join(sum, OP::of(get(v.v[i]), first + i));
      own[i] = sum;
    }
    const S before = OP::join(carry, block_before(sum, &all));
    if (store && whole && !p.index) {
#pragma unroll
      for (int i = 0; i < PER; i++) v.v[i] = put<T0>(OP::value(OP::join(before, own[i])));
      *(pack<T0, PER> *)(p.y + row * p.n + first) = v;
    } else if (store) {
#pragma unroll
      for (int i = 0; i < PER; i++)
        if (first + i < end) put_at(p, row * p.n + first + i, OP::join(before, own[i]));
    }
    carry = OP::join(carry, all);
  }
  return carry;
}

FN S fold_column(const scan_job &p, i64 line, S carry, bool store)
{
  const i64 first = line / p.inner * p.n * p.inner + line % p.inner, begin = blockIdx.y * p.chunk;
  const i64 end = begin + p.chunk < p.n ? begin + p.chunk : p.n;
  for (i64 i = begin; i < end; i++) {
    carry = OP::join(carry, OP::of(get(p.x[first + i * p.inner]), i));
    if (store) put_at(p, first + i * p.inner, carry);
  }
  return carry;
}

KERNEL(scan_totals, scan_job)
{
  S *totals = (S *)p.totals;
  if (p.inner == 1) {
    for (i64 row = blockIdx.x; row < p.outer; row += gridDim.x) {
      const S s = fold_row(p, row, OP::none(), false);
      if (threadIdx.x == 0) totals[row * p.chunks + blockIdx.y] = s;
    }
    return;
  }
  EACH(line, p.outer * p.inner) totals[line * p.chunks + blockIdx.y] = fold_column(p, line, OP::none(), false);
}

/* Each becomes the fold of those before it. */
KERNEL(scan_carries, scan_job)
{
  EACH(line, p.outer * p.inner)
  {
    S carry = OP::none(), *totals = (S *)p.totals + line * p.chunks;
    for (i64 k = 0; k < p.chunks; k++) {
      const S next = OP::join(carry, totals[k]);
      totals[k] = carry;
      carry = next;
    }
  }
}

KERNEL(scan_apply, scan_job)
{
  const S *totals = (const S *)p.totals;
  if (p.inner == 1) {
    for (i64 row = blockIdx.x; row < p.outer; row += gridDim.x)
      fold_row(p, row, totals ? totals[row * p.chunks + blockIdx.y] : OP::none(), true);
    return;
  }
  EACH(line, p.outer * p.inner)
  fold_column(p, line, totals ? totals[line * p.chunks + blockIdx.y] : OP::none(), true);
}
