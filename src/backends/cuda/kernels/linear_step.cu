/* linear_step.cu: a linear layer of one or a few rows, with the norm before it, its activation, and what is added or
 * multiplied behind.
 *
 * A warp computes one result of each row after the other: a weight is read once, 16 bytes a thread, as many at a time as
 * registers hold, and where it is steady before the kernel in front has ended. T0 is the element type, OP the number of rows. Invariant: values are
 * rounded to T0 where the ops that this stands for round them; sums are float32. */
#include "codegen/device.cuh"
#include "common.cuh"

enum { V = 16 / sizeof(T0), WARPS = THREADS / 32 };
enum { NORM_NONE, NORM_LAYER, NORM_RMS };
enum { ACT_NONE, ACT_GELU, ACT_GELU_TANH, ACT_RELU, ACT_SILU };
enum { JOIN_NONE, JOIN_ADD, JOIN_MUL };
typedef pack<T0, V> piece;

struct linear_job {
  const T0 *x, *w, *b;     /* (OP, k), (n, k) with ld from row to row, (n) */
  const T0 *nw, *nb;       /* (k), of the norm */
  const T0 *other;
  T0 *y;                   /* (OP, n) */
  i64 n, ld;
  i32 k, norm, act, join;
  f32 eps;
  i32 steady; /* is nothing written to weights by what was queued just before? */
};

FN f32 rounded(f32 v) { return get(put<T0>(v)); }
FN f32 or_else(const T0 *x, i64 i, f32 none) { return x ? get(x[i]) : none; }

FN f32 activated(f32 v, int act)
{
  switch (act) {
  case ACT_GELU: return rounded(0.5f * v * (1 + erff(v * 0.70710678f)));
  case ACT_GELU_TANH: return rounded(0.5f * v * (1 + tanhf(0.79788456f * (v + 0.044715f * v * v * v))));
  case ACT_RELU: return v < 0 ? 0 : v;
  case ACT_SILU: return rounded(v / (1 + expf(-v)));
  default: return v;
  }
}

/* What is behind the product: b and other are those of this result. */
FN T0 finished(const linear_job &p, f32 sum, f32 b, f32 other)
{
  f32 v = activated(rounded(sum + b), p.act);
  if (p.join == JOIN_ADD) v += other;
  if (p.join == JOIN_MUL) v *= other;
  return put<T0>(v);
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

/* ---- one row, which a thread keeps its part of: packs LANE, LANE + 32, ..., N of them ---- */

#define PLACE(j) ((j) * 32 + LANE)

enum { KEPT = N && N <= 8 ? N : 1 }; /* of a norm's weights */

struct part {
  piece w[N ? N : 1];
  f32 b;
};

struct affine {
  piece w[KEPT], b[KEPT];
};

FN void fetch(part &m, const linear_job &p, i64 o)
{
  if (o >= p.n) return;
  const piece *row = (const piece *)(p.w + o * p.ld);
#pragma unroll
  for (int j = 0; j < N; j++)
    if (PLACE(j) < p.k / V) m.w[j] = row[PLACE(j)];
  m.b = or_else(p.b, o, 0);
}

FN void fetch(affine &a, const linear_job &p)
{
#pragma unroll
  for (int j = 0; j < KEPT; j++) {
    if (PLACE(j) >= p.k / V) continue;
    if (p.nw) a.w[j] = ((const piece *)p.nw)[PLACE(j)];
    if (p.nb) a.b[j] = ((const piece *)p.nb)[PLACE(j)];
  }
}

FN void norm_row(piece *x, const affine &a, const linear_job &p)
{
  f32 sum = 0, mean = 0;
#pragma unroll
  for (int j = 0; j < KEPT; j++)
    if (PLACE(j) < p.k / V) sum += spread(x[j], p.norm, 0, true);
  sum = warp_sum(sum);
  if (p.norm == NORM_LAYER) {
    mean = sum / (f32)p.k;
    sum = 0;
#pragma unroll
    for (int j = 0; j < KEPT; j++)
      if (PLACE(j) < p.k / V) sum += spread(x[j], p.norm, mean, false);
    sum = warp_sum(sum);
  }
  const f32 rstd = 1 / sqrtf(sum / (f32)p.k + p.eps);
#pragma unroll
  for (int j = 0; j < KEPT; j++)
    if (PLACE(j) < p.k / V) x[j] = normed(x[j], a.w[j], a.b[j], p.nw != 0, p.nb != 0, mean, rstd);
}

KERNEL(linear_row, linear_job)
{
  i64 o = (i64)blockIdx.x * WARPS + (threadIdx.x >> 5);
  const i64 step = (i64)gridDim.x * WARPS;
  part m;
  affine a;
  piece x[N ? N : 1];
  begin_next();
  if (!p.steady) wait_for_previous();
  fetch(m, p, o);
  fetch(a, p);
  if (p.steady) wait_for_previous();
  f32 other = p.join && o < p.n ? get(p.other[o]) : 0;
#pragma unroll
  for (int j = 0; j < N; j++)
    if (PLACE(j) < p.k / V) x[j] = ((const piece *)p.x)[PLACE(j)];
  if (N <= 8 && p.norm) norm_row(x, a, p);
  while (o < p.n) {
    f32 sum = 0;
#pragma unroll
    for (int j = 0; j < N; j++)
      if (PLACE(j) < p.k / V) sum = dot(x[j], m.w[j], sum);
    const f32 b = m.b, joined = other;
    const i64 mine = o;
    o += step;
    fetch(m, p, o);
    other = p.join && o < p.n ? get(p.other[o]) : 0;
    sum = warp_sum(sum);
    if (LANE == 0) p.y[mine] = finished(p, sum, b, joined);
  }
}

/* ---- rows of any length, and several of them: N packs of the weight at a time ---- */

FN void statistics(f32 *mean, f32 *rstd, const linear_job &p)
{
#pragma unroll
  for (int r = 0; r < OP; r++) {
    const piece *x = (const piece *)(p.x + (i64)r * p.k);
    f32 sum = 0;
    mean[r] = 0;
    for (int i = LANE; i < p.k / V; i += 32) sum += spread(x[i], p.norm, 0, true);
    sum = warp_sum(sum);
    if (p.norm == NORM_LAYER) {
      mean[r] = sum / (f32)p.k;
      sum = 0;
      for (int i = LANE; i < p.k / V; i += 32) sum += spread(x[i], p.norm, mean[r], false);
      sum = warp_sum(sum);
    }
    rstd[r] = 1 / sqrtf(sum / (f32)p.k + p.eps);
  }
}

KERNEL(linear_rows, linear_job)
{
  const i64 step = (i64)gridDim.x * WARPS;
  const int packs = p.k / V;
  f32 mean[OP], rstd[OP];
  begin_next();
  wait_for_previous();
  if (p.norm) statistics(mean, rstd, p);
  for (i64 o = (i64)blockIdx.x * WARPS + (threadIdx.x >> 5); o < p.n; o += step) {
    const piece *row = (const piece *)(p.w + o * p.ld);
    f32 sum[OP] = {};
    for (int base = LANE; base < packs; base += 32 * N) {
      piece w[N ? N : 1];
#pragma unroll
      for (int j = 0; j < N; j++)
        if (base + j * 32 < packs) w[j] = row[base + j * 32];
#pragma unroll
      for (int j = 0; j < N; j++) {
        const int i = base + j * 32;
        if (i >= packs) continue;
        piece nw, nb;
        if (p.norm && p.nw) nw = ((const piece *)p.nw)[i];
        if (p.norm && p.nb) nb = ((const piece *)p.nb)[i];
#pragma unroll
        for (int r = 0; r < OP; r++) {
          piece x = ((const piece *)(p.x + (i64)r * p.k))[i];
          if (p.norm) x = normed(x, nw, nb, p.nw != 0, p.nb != 0, mean[r], rstd[r]);
          sum[r] = dot(x, w[j], sum[r]);
        }
      }
    }
    const f32 b = or_else(p.b, o, 0);
#pragma unroll
    for (int r = 0; r < OP; r++) {
      const f32 all = warp_sum(sum[r]);
      if (LANE == 0) p.y[r * p.n + o] = finished(p, all, b, p.join ? get(p.other[r * p.n + o]) : 0);
    }
  }
}
