/* exponent.cuh: sums of exponentials over elements that come in packs, without overflow: the largest element so far is
 * taken off, and the sum is scaled when a larger one comes.
 *
 * For kernels that define A, the type sums are taken in. SHORT: results have 16 bits, so the processor's own
 * exponential will do. Invariant: NaN anywhere makes the sum NaN; a line of -inf has the sum 0. */
#define LOG2_E 1.44269504f

FN f32 largest_of(f32 a, f32 b) { return fmaxf(a, b); }
FN f64 largest_of(f64 a, f64 b) { return fmax(a, b); }
FN A least() { return (A)-INF_F64; }

/* e^(v - most) */
FN f32 exp_of(f32 v, f32 most) { return SHORT ? cnd_exp2(v * LOG2_E - most * LOG2_E) : expf(v - most); }
FN f64 exp_of(f64 v, f64 most) { return exp(v - most); }

struct exponentials {
  A most, sum;
};

template <class T, int V> FN void add_pack(exponentials &x, const pack<T, V> &e)
{
  A m = (A)get(e.v[0]), s = 0;
#pragma unroll
  for (int i = 1; i < V; i++) m = largest_of(m, (A)get(e.v[i]));
  if (m > x.most) {
    x.sum *= exp_of(x.most, m);
    x.most = m;
  }
  if (x.most == least()) { /* -inf and NaN so far */
#pragma unroll
    for (int i = 0; i < V; i++) s += (A)get(e.v[i]) == least() ? (A)0 : (A)get(e.v[i]);
  } else {
#pragma unroll
    for (int i = 0; i < V; i++) s += exp_of((A)get(e.v[i]), x.most);
  }
  x.sum += s;
}

/* What the threads of a group have, as one. */
FN exponentials join(const exponentials &x)
{
  const A all = group_max<0>(x.most);
  return exponentials{all, group_sum<1>(x.most == least() ? x.sum : x.sum * exp_of(x.most, all))};
}
