/* exponent.cuh: sums of exponentials over elements that come in packs, without overflow: the largest element so far is
 * taken off, and the sum is scaled when a larger one comes.
 *
 * For kernels that define A, the type sums are taken in. SHORT: results have 16 bits, so the processor's own
 * exponential will do. Invariant: NaN anywhere makes the sum NaN; a line of -inf has the sum 0. */
#define LOG2_E 1.44269504f

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

/* The largest element of packs, or NaN: 16-bit floats two at a time. */
template <class T> struct most_in {
  template <int V, int COUNT> FN A of(const pack<T, V> *e)
  {
    A most = least();
#pragma unroll
    for (int i = 0; i < COUNT * V; i++) most = top_of(most, (A)get(e[i / V].v[i % V]));
    return most;
  }
};
#if !defined(CN_SIMT) && __CUDA_ARCH__ >= 800
#define MOST_IN(T, type)                                                                        \
  template <> struct most_in<T> {                                                               \
    template <int V, int COUNT> FN A of(const pack<T, V> *e)                                    \
    {                                                                                           \
      if (V == 1) return (A)get(e->v[0]);                                                       \
      u32 most = ((const u32 *)e)[0];                                                           \
      _Pragma("unroll") for (int i = 1; i < COUNT * V / 2; i++)                                 \
        asm("max.NaN." type "x2 %0, %0, %1;" : "+r"(most) : "r"(((const u32 *)e)[i]));          \
      A both[2];                                                                                \
      unpack<T, 2>(both, *(const pack<T, 2> *)&most);                                           \
      return top_of(both[0], both[1]);                                                          \
    }                                                                                           \
  };
MOST_IN(bf16, "bf16")
MOST_IN(f16, "f16")
#endif

struct exponentials {
  A most, sum;
};

/* What is taken off elements of which `most` is the largest: of -inf and NaN alone 0, so that -inf gives 0. */
FN A taken_off(A most) { return most == least() ? (A)0 : most; }

/* The sum over a pack. */
template <class T, int V> FN A parts_of(const pack<T, V> &e, A off)
{
  A v[V], sum = 0;
  unpack<T, V>(v, e);
#pragma unroll
  for (int i = 0; i < V; i++) sum += part_of(v[i], off);
  return sum;
}

template <class T, int V, int COUNT> FN void add_packs(exponentials &x, const pack<T, V> *e)
{
  const A m = top_of(x.most, most_in<T>::template of<V, COUNT>(e)), off = taken_off(m);
  if (m != x.most) {
    x.sum *= part_of(x.most, off);
    x.most = m;
  }
#pragma unroll
  for (int i = 0; i < COUNT; i++) x.sum += parts_of<T, V>(e[i], off);
}
template <class T, int V> FN void add_pack(exponentials &x, const pack<T, V> &e) { add_packs<T, V, 1>(x, &e); }

/* What the threads of a group have, as one. */
FN exponentials join(const exponentials &x, int slot)
{
  const A all = group_max<0>(x.most, slot);
  return exponentials{all, group_sum<1>(x.most == least() ? x.sum : x.sum * exp_of(x.most, all), slot)};
}
