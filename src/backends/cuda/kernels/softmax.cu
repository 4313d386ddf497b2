/* softmax.cu: softmax, log_softmax and their gradients along one dim. OP is the kind.
 *
 * T0 is the type of the inputs, T1 that of the result. Rows (the dim is innermost) are read once: see rows.cuh. Other
 * lines (`inner` elements apart) are taken by one thread each, neighbours side by side. Invariant: sums are taken in
 * float32, or float64 for float64. */
#if N <= 0 && THREADS <= 768
#define BLOCKS_AT_ONCE (768 / THREADS) /* at most 85 registers a thread, so that many rows are under way */
#endif
#include "common.cuh"
#include "rows.cuh"

enum kind { softmax, log_softmax, softmax_grad, log_softmax_grad };
enum { GRAD = OP == softmax_grad || OP == log_softmax_grad };

struct softmax_job {
  const T0 *x, *b; /* input; or gradient and result */
  T1 *y;
  i64 rows, n, inner;
  i32 aligned, stash;
};

typedef wide_of<T1>::type A;
enum { V = 16 / (sizeof(T0) > sizeof(T1) ? sizeof(T0) : sizeof(T1)) };

FN f32 exp_of(f32 v) { return sizeof(T1) == 2 ? __expf(v) : expf(v); }
FN f64 exp_of(f64 v) { return exp(v); }
FN f32 log_of(f32 v) { return logf(v); }
FN f64 log_of(f64 v) { return log(v); }
FN A least() { return (A)-INF_F64; }

/* last: 1 / the sum of exponentials, or its logarithm. Where all elements are -inf this is NaN, as it should be. */
FN A forward_of(A v, A most, A last) { return OP == softmax ? exp_of(v - most) * last : v - most - last; }
FN A gradient_of(A g, A y, A sum) { return OP == softmax_grad ? y * (g - sum) : g - exp_of(y) * sum; }

FN void forward_row(const softmax_job &p, const T0 *x, T1 *y, void *room)
{
  kept<T0, V> row = kept<T0, V>::of(x, p.n, p.aligned, put<T0>(least()), p.stash ? room : 0);
  A most = least(), sum = 0;
#pragma unroll
  for (int k = 0; k < PACKS(p.n); k++) {
    const pack<T0, V> e = first_read(row, k);
    A m = (A)get(e.v[0]), s = 0;
#pragma unroll
    for (int i = 1; i < V; i++) m = larger(m, (A)get(e.v[i]));
    if (m > most || m != m) {
      sum *= most == least() ? (A)0 : exp_of(most - m);
      most = m;
    }
#pragma unroll
    for (int i = 0; i < V; i++) s += most == least() ? (A)0 : exp_of((A)get(e.v[i]) - most);
    sum += s;
  }
  const A all = group_max(most);
  sum = group_sum(most == least() ? (A)0 : sum * exp_of(most - all));
  const A last = OP == softmax ? (A)1 / sum : log_of(sum);
#pragma unroll
  for (int k = 0; k < PACKS(p.n); k++) {
    const pack<T0, V> e = read_again(row, k);
    pack<T1, V> out;
#pragma unroll
    for (int i = 0; i < V; i++) out.v[i] = put<T1>(forward_of((A)get(e.v[i]), all, last));
    store_pack<T1, V>(y, PACK_AT(k), p.n, p.aligned, out);
  }
}

FN void gradient_row(const softmax_job &p, const T0 *g, const T0 *b, T1 *y, char *room)
{
  const i64 half = (i64)PACKS(p.n) * GROUP * sizeof(pack<T0, V>);
  kept<T0, V> gs = kept<T0, V>::of(g, p.n, p.aligned, put<T0>(0), p.stash ? room : 0);
  kept<T0, V> ys = kept<T0, V>::of(b, p.n, p.aligned, put<T0>(0), p.stash ? room + half : 0);
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
    pack<T1, V> out;
#pragma unroll
    for (int i = 0; i < V; i++) out.v[i] = put<T1>(gradient_of((A)get(e.v[i]), (A)get(o.v[i]), sum));
    store_pack<T1, V>(y, PACK_AT(k), p.n, p.aligned, out);
  }
}

KERNEL(softmax_rows, softmax_job)
{
  DYNAMIC_SHARED(char, room);
  for (i64 row = FIRST_ROW; row < p.rows; row += ROW_STEP) {
    if (GRAD) gradient_row(p, p.x + row * p.n, p.b + row * p.n, p.y + row * p.n, room);
    else forward_row(p, p.x + row * p.n, p.y + row * p.n, room);
  }
}

/* Lines whose elements are `inner` apart. */
KERNEL(softmax_lines, softmax_job)
{
  EACH(line, p.rows)
  {
    const i64 first = line / p.inner * p.inner * p.n + line % p.inner, end = first + p.n * p.inner;
    A most = least(), sum = 0;
    if (GRAD) {
      for (i64 i = first; i < end; i += p.inner)
        sum += OP == softmax_grad ? (A)get(p.x[i]) * (A)get(p.b[i]) : (A)get(p.x[i]);
      for (i64 i = first; i < end; i += p.inner)
        p.y[i] = put<T1>(gradient_of((A)get(p.x[i]), (A)get(p.b[i]), sum));
      continue;
    }
    for (i64 i = first; i < end; i += p.inner) {
      const A v = (A)get(p.x[i]);
      if (v > most || v != v) {
        sum *= most == least() ? (A)0 : exp_of(most - v);
        most = v;
      }
      sum += most == least() ? (A)0 : exp_of(v - most);
    }
    const A last = OP == softmax ? (A)1 / sum : log_of(sum);
    for (i64 i = first; i < end; i += p.inner) p.y[i] = put<T1>(forward_of((A)get(p.x[i]), most, last));
  }
}
