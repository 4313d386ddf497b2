/* softmax.cu: softmax, log_softmax and their gradients along one dim. OP is the kind.
 *
 * T0 is the type of the inputs, T1 that of the result. Rows (the dim is innermost) are read once: see rows.cuh. Other
 * lines (`inner` elements apart) are taken by one thread each, neighbours side by side. Invariant: sums are taken in
 * float32, or float64 for float64. */
/* At most 48 registers a thread, so that many rows are under way; 85 where a warp has two inputs or takes packs
 * apart. */
#define BLOCKS_AT_ONCE (THREADS <= 512 ? (N > 0 && (GRAD || !EVEN) ? 768 : 1280) / THREADS : 1)
#include "codegen/device.cuh"
#include "common.cuh"
#include "rows.cuh"

typedef wide_of<T1>::type A;
enum { SHORT = sizeof(T1) == 2 };
#include "exponent.cuh"

enum kind { softmax, log_softmax, softmax_grad, log_softmax_grad };
enum { GRAD = OP == softmax_grad || OP == log_softmax_grad };

struct softmax_job {
  const T0 *x, *b; /* input; or gradient and result */
  T1 *y;
  i64 rows, n, inner;
  i32 aligned, stash;
};

enum { V = 16 / (sizeof(T0) > sizeof(T1) ? sizeof(T0) : sizeof(T1)) };

FN f32 log_of(f32 v) { return logf(v); }
FN f64 log_of(f64 v) { return log(v); }

/* last: 1 / the sum of exponentials, or its logarithm. Where all elements are -inf this is NaN, as it should be. */
FN A forward_of(A v, A most, A last) { return OP == softmax ? exp_of(v, most) * last : v - most - last; }
FN A gradient_of(A g, A y, A sum) { return OP == softmax_grad ? y * (g - sum) : g - exp_of(y, 0) * sum; }

/* Rows kept in registers: the largest first, so that each exponential is taken once. */
FN void forward_kept(const softmax_job &p, kept<T0, V> &row, T1 *y, int shift)
{
  A v[KEPT ? KEPT : 1][V], most = least(), sum = 0;
#pragma unroll
  for (int k = 0; k < KEPT; k++) {
    const pack<T0, V> e = first_read(row, k);
#pragma unroll
    for (int i = 0; i < V; i++) most = larger(most, (A)get(e.v[i]));
  }
  most = group_max(most);
#pragma unroll
  for (int k = 0; k < KEPT; k++) {
    const pack<T0, V> e = read_again(row, k);
#pragma unroll
    for (int i = 0; i < V; i++) {
      v[KEPT ? k : 0][i] = OP == softmax ? exp_of((A)get(e.v[i]), most) : (A)get(e.v[i]) - most;
      sum += OP == softmax ? v[KEPT ? k : 0][i] : exp_of(v[KEPT ? k : 0][i], 0);
    }
  }
  sum = group_sum(sum);
  const A last = OP == softmax ? (A)1 / sum : log_of(sum);
#pragma unroll
  for (int k = 0; k < KEPT; k++) {
#pragma unroll
    for (int i = 0; i < V; i++) v[KEPT ? k : 0][i] = OP == softmax ? v[KEPT ? k : 0][i] * last : v[KEPT ? k : 0][i] - last;
    store_pack<T1, V>(y, PACK_AT(k), p.n, p.aligned, packed<T1, V>(v[KEPT ? k : 0]));
  }
}

FN void forward_row(const softmax_job &p, const T0 *from, T1 *y, int shift, void *room)
{
  kept<T0, V> row = kept<T0, V>::of(from, p.n, p.aligned, shift, put<T0>(least()), p.stash ? room : 0);
  if (KEPT) {
    forward_kept(p, row, y, shift);
    return;
  }
  exponentials x = {least(), 0};
#pragma unroll
  for (int k = 0; k < PACKS(p.n); k++) add_pack<T0, V>(x, first_read(row, k));
  x = join(x);
  const A last = OP == softmax ? (A)1 / x.sum : log_of(x.sum);
#pragma unroll
  for (int k = 0; k < PACKS(p.n); k++) {
    const pack<T0, V> e = read_again(row, k);
    A v[V];
#pragma unroll
    for (int i = 0; i < V; i++) v[i] = forward_of((A)get(e.v[i]), x.most, last);
    store_pack<T1, V>(y, PACK_AT(k), p.n, p.aligned, packed<T1, V>(v));
  }
}

FN void gradient_row(const softmax_job &p, const T0 *g, const T0 *b, T1 *y, int shift, char *room)
{
  const i64 half = (i64)PACKS(p.n) * GROUP * sizeof(pack<T0, V>);
  kept<T0, V> gs = kept<T0, V>::of(g, p.n, p.aligned, shift, put<T0>(0), p.stash ? room : 0);
  kept<T0, V> ys = kept<T0, V>::of(b, p.n, p.aligned, shift, put<T0>(0), p.stash ? room + half : 0);
  A sum = 0;
#pragma unroll
  for (int k = 0; k < PACKS(p.n); k++) {
    const pack<T0, V> e = first_read(gs, k), o = first_read(ys, k);
#pragma unroll
    for (int i = 0; i < V; i++) sum += OP == softmax_grad ? (A)get(e.v[i]) * (A)get(o.v[i]) : (A)get(e.v[i]);
  }
  sum = group_sum(sum);
#pragma unroll
  for (int k = 0; k < PACKS(p.n); k++) {
    const pack<T0, V> e = read_again(gs, k), o = read_again(ys, k);
    A v[V];
#pragma unroll
    for (int i = 0; i < V; i++) v[i] = gradient_of((A)get(e.v[i]), (A)get(o.v[i]), sum);
    store_pack<T1, V>(y, PACK_AT(k), p.n, p.aligned, packed<T1, V>(v));
  }
}

KERNEL(softmax_rows, softmax_job)
{
  DYNAMIC_SHARED(char, room);
  for (i64 row = FIRST_ROW; row < p.rows; row += ROW_STEP) {
    const int shift = SHIFT_OF(row);
    if (GRAD) gradient_row(p, p.x + row * p.n, p.b + row * p.n, p.y + row * p.n, shift, room);
    else forward_row(p, p.x + row * p.n, p.y + row * p.n, shift, room);
  }
}

/* Lines whose elements are `inner` apart. */
KERNEL(softmax_lines, softmax_job)
{
  EACH(line, p.rows)
  {
    const i64 first = line / p.inner * p.inner * p.n + line % p.inner, end = first + p.n * p.inner;
    A sum = 0;
    if (GRAD) {
      for (i64 i = first; i < end; i += p.inner)
        sum += OP == softmax_grad ? (A)get(p.x[i]) * (A)get(p.b[i]) : (A)get(p.x[i]);
      for (i64 i = first; i < end; i += p.inner)
        p.y[i] = put<T1>(gradient_of((A)get(p.x[i]), (A)get(p.b[i]), sum));
      continue;
    }
    exponentials x = {least(), 0};
    for (i64 i = first; i < end; i += p.inner) add_pack<T0, 1>(x, *(const pack<T0, 1> *)(p.x + i));
    const A last = OP == softmax ? (A)1 / x.sum : log_of(x.sum);
    for (i64 i = first; i < end; i += p.inner) p.y[i] = put<T1>(forward_of((A)get(p.x[i]), x.most, last));
  }
}
