/* step.cuh: what steps of language models do to a row of T0: norms, activations, products with rows of weights.
 *
 * Invariant: values are rounded to T0 where the ops that this stands for round them; sums are float32. */
enum { V = 16 / sizeof(T0) };
enum { NORM_NONE, NORM_LAYER, NORM_RMS };
enum { ACT_NONE, ACT_GELU, ACT_GELU_TANH, ACT_RELU, ACT_SILU };
typedef pack<T0, V> piece;

FN f32 rounded(f32 v) { return get(put<T0>(v)); }
FN f32 or_else(const T0 *x, i64 i, f32 none) { return x ? get(x[i]) : none; }

/* The hyperbolic tangent; of 16-bit results the processor's own. */
FN f32 tangent(f32 v)
{
#ifndef CN_SIMT
  f32 y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(v));
  if (sizeof(T0) == 2) return y;
#endif
  return tanhf(v);
}

FN f32 activated(f32 v, int act)
{
  switch (act) {
  case ACT_GELU: return rounded(0.5f * v * (1 + erff(v * 0.70710678f)));
  case ACT_GELU_TANH: return rounded(0.5f * v * (1 + tangent(0.79788456f * (v + 0.044715f * v * v * v))));
  case ACT_RELU: return v < 0 ? 0 : v;
  case ACT_SILU: return rounded(v / (1 + expf(-v)));
  default: return v;
  }
}

FN f32 dot(const piece &a, const piece &b, f32 sum)
{
#pragma unroll
  for (int i = 0; i < V; i++) sum += get(a.v[i]) * get(b.v[i]);
  return sum;
}

FN piece normed(const piece &x, const piece &w, const piece &b, bool has_w, bool has_b, f32 mean, f32 rstd)
{
  piece y;
#pragma unroll
  for (int i = 0; i < V; i++) {
    f32 v = (get(x.v[i]) - mean) * rstd;
    if (has_w) v *= get(w.v[i]);
    if (has_b) v += get(b.v[i]);
    y.v[i] = put<T0>(v);
  }
  return y;
}

/* The first sum of a norm, about 0, or the second, about the mean. */
FN f32 spread(const piece &x, int norm, f32 mean, bool first)
{
  f32 s = 0;
#pragma unroll
  for (int i = 0; i < V; i++) {
    const f32 v = get(x.v[i]) - mean;
    s += first && norm == NORM_LAYER ? v : v * v;
  }
  return s;
}

FN f32 inverse_root(f32 v)
{
#ifndef CN_SIMT
  f32 y;
  asm("rsqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(v)); /* right to 22 bits */
  if (sizeof(T0) == 2) return y;
#endif
  return 1 / sqrtf(v);
}
