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

/* The same as a part of a sum that is 1 or more: what is below 2^-126 is nothing there. */
FN f32 part_of(f32 v, f32 most)
{
#ifndef CN_SIMT
  if (SHORT) {
    f32 y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(v * LOG2_E - most * LOG2_E));
    return y;
  }
#endif
  return exp_of(v, most);
}
FN f64 part_of(f64 v, f64 most) { return exp_of(v, most); }

struct exponentials {
  A most, sum;
};

/* What is taken off elements of which `most` is the largest: of -inf and NaN alone 0, so that -inf gives 0. */
FN A taken_off(A most) { return most == least() ? (A)0 : most; }

template <class T, int V, int COUNT> FN void add_packs(exponentials &x, const pack<T, V> *e)
{
  A m = x.most, s = 0;
#pragma unroll
  for (int i = 0; i < COUNT * V; i++) m = largest_of(m, (A)get(e[i / V].v[i % V]));
  const A off = taken_off(m);
  if (m > x.most) {
    x.sum *= part_of(x.most, off);
    x.most = m;
  }
#pragma unroll
  for (int i = 0; i < COUNT * V; i++) s += part_of((A)get(e[i / V].v[i % V]), off);
  x.sum += s;
}
template <class T, int V> FN void add_pack(exponentials &x, const pack<T, V> &e) { add_packs<T, V, 1>(x, &e); }

/* What the threads of a group have, as one. */
FN exponentials join(const exponentials &x)
{
  const A all = group_max<0>(x.most);
  return exponentials{all, group_sum<1>(x.most == least() ? x.sum : x.sum * exp_of(x.most, all))};
}
