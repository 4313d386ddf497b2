/* sample.cu: sums of a few elements per place: resampling along a dim, gathering by index and weight (grid_sample), and
 * searching in sorted sequences.
 *
 * T0 is the element type. Invariant: positions and weights are computed as the CPU computes them. Gradients add into
 * zeros with atomic additions. */
#include "codegen/device.cuh"
#include "common.cuh"

FN void add_to(f32 *to, f32 v) { atomicAdd(to, v); }
FN void add_to(f64 *to, f64 v) { atomicAdd(to, v); }

/* ---- resample ---- */
enum resample_mode { NEAREST, NEAREST_EXACT, LINEAR, CUBIC };

struct resample_job {
  const T0 *x;
  T0 *y;
  i64 outer, in, out, inner, most; /* most: elements of the input that make up one of the result */
  i32 mode, corners, antialias, unused;
  f64 scale; /* 0: the ratio of the sizes */
};

FN T0 ratio_of(const resample_job &p)
{
  if (p.corners) return p.out > 1 ? (T0)(p.in - 1) / (T0)(p.out - 1) : (T0)0;
  return p.scale > 0 ? (T0)(1 / p.scale) : (T0)p.in / (T0)p.out;
}
FN f32 floor_of(f32 v) { return floorf(v); }
FN f64 floor_of(f64 v) { return floor(v); }
FN f32 fma_of(f32 a, f32 b, f32 c) { return fmaf(a, b, c); }
FN f64 fma_of(f64 a, f64 b, f64 c) { return fma(a, b, c); }

FN i64 nearest_of(const resample_job &p, i64 i)
{
  const f32 ratio = p.scale > 0 ? (f32)(1 / p.scale) : (f32)p.in / (f32)p.out;
  i64 at;
  if (p.mode == NEAREST_EXACT) at = (i64)floorf(((f32)i + 0.5f) * ratio);
  else if (p.out == p.in) at = i;
  else if (p.out == 2 * p.in) at = i / 2;
  else at = (i64)floorf((f32)i * ratio);
  if (at < 0) at = 0;
  return at < p.in - 1 ? at : p.in - 1;
}

FN T0 place_of(const resample_job &p, i64 i, i64 *whole)
{
  const T0 ratio = ratio_of(p);
  T0 at = p.corners ? ratio * (T0)i : fma_of(ratio, (T0)i + (T0)0.5, (T0)-0.5);
  if (!p.corners && p.mode == LINEAR && at < 0) at = 0;
  const T0 low = floor_of(at);
  *whole = low < (T0)(p.in - 1) ? (i64)low : p.in - 1;
  const T0 part = at - (T0)*whole;
  return part < 0 ? (T0)0 : part > 1 ? (T0)1 : part;
}

FN T0 near_weight(T0 x, T0 a) { return ((a + 2) * x - (a + 3)) * x * x + 1; }
FN T0 far_weight(T0 x, T0 a) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; }
FN T0 filter(int mode, T0 x)
{
  const T0 a = (T0)-0.5;
  x = x < 0 ? -x : x;
  if (mode == LINEAR) return x < 1 ? 1 - x : (T0)0;
  return x < 1 ? near_weight(x, a) : x < 2 ? far_weight(x, a) : (T0)0;
}

/* Which elements make up element i of the result: first and count; weight_at gives each one's share. */
struct cover {
  i64 first, count;
  T0 part, centre, inverse, sum;
};
FN cover cover_of(const resample_job &p, i64 i)
{
  cover c = {0, 1, 0, 0, 1, 1};
  if (p.mode <= NEAREST_EXACT) {
    c.first = nearest_of(p, i);
  } else if (!p.antialias) {
    c.part = place_of(p, i, &c.first);
    c.count = p.mode == LINEAR ? 2 : 4;
    if (p.mode == CUBIC) c.first--;
  } else {
    const T0 ratio = ratio_of(p), width = p.mode == LINEAR ? 1 : 2, support = ratio >= 1 ? width * ratio : width;
    c.inverse = ratio >= 1 ? 1 / ratio : (T0)1;
    c.centre = ratio * ((T0)i + (T0)0.5);
    i64 last = (i64)(c.centre + support + (T0)0.5);
    c.first = (i64)(c.centre - support + (T0)0.5);
    if (c.first > p.in - 1) c.first = p.in - 1;
    if (c.first < 0) c.first = 0;
    if (last > p.in) last = p.in;
    if (last <= c.first) last = c.first + 1;
    c.count = last - c.first < p.most ? last - c.first : p.most;
    c.sum = 0;
    for (i64 k = 0; k < c.count; k++) c.sum += filter(p.mode, ((T0)(k + c.first) - c.centre + (T0)0.5) * c.inverse);
  }
  return c;
}
FN T0 weight_at(const resample_job &p, const cover &c, i64 k)
{
  const T0 a = (T0)-0.75;
  if (p.mode <= NEAREST_EXACT) return 1;
  if (p.antialias) {
    const T0 w = filter(p.mode, ((T0)(k + c.first) - c.centre + (T0)0.5) * c.inverse);
    return c.sum != 0 ? w / c.sum : w;
  }
  if (p.mode == LINEAR) return k ? c.part : 1 - c.part;
  return k == 0   ? far_weight(c.part + 1, a)
         : k == 1 ? near_weight(c.part, a)
         : k == 2 ? near_weight(1 - c.part, a)
                  : far_weight(2 - c.part, a);
}
FN i64 inside(const resample_job &p, i64 at) { return at < 0 ? 0 : at < p.in ? at : p.in - 1; }

KERNEL(resample, resample_job)
{
  EACH(i, p.outer * p.out * p.inner)
  {
    const i64 e = i % p.inner, o = i / p.inner % p.out;
    const T0 *x = p.x + i / p.inner / p.out * p.in * p.inner + e;
    const cover c = cover_of(p, o);
    T0 sum = 0;
    for (i64 k = 0; k < c.count; k++) sum += x[inside(p, c.first + k) * p.inner] * weight_at(p, c, k);
    p.y[i] = sum;
  }
}

/* x: gradients (outer, out, inner); y: (outer, in, inner), zero at first. */
KERNEL(resample_grad, resample_job)
{
  EACH(i, p.outer * p.out * p.inner)
  {
    const i64 e = i % p.inner, o = i / p.inner % p.out;
    T0 *y = p.y + i / p.inner / p.out * p.in * p.inner + e;
    const cover c = cover_of(p, o);
    for (i64 k = 0; k < c.count; k++) add_to(&y[inside(p, c.first + k) * p.inner], p.x[i] * weight_at(p, c, k));
  }
}

/* ---- bytes: weights of 16 bits, made of f64 (which T0 is) once for all lines ---- */
struct bytes_job {
  resample_job r; /* x, y: NULL */
  const u8 *x;
  u8 *y;
  f64 *weight; /* (out, r.most): those that the first element of the input and the ones behind it count with */
  i64 *first;  /* (out): which that is, then (out): how many there are */
  i32 *whole;  /* (out, r.most): the weights as multiples of 2^-bits, then bits */
};

/* The weights of element i of the result; elements named twice, at a border, count once. Returns the largest, or 0. */
FN f64 merge_weights(const bytes_job &p, i64 i)
{
  const cover c = cover_of(p.r, i);
  f64 most = 0, *weight = p.weight + i * p.r.most;
  i64 n = 0;
  for (i64 k = 0; k < c.count; k++) {
    const f64 w = weight_at(p.r, c, k);
    if (n && inside(p.r, c.first + k) == inside(p.r, c.first + k - 1)) weight[n - 1] += w;
    else weight[n++] = w;
  }
  for (i64 k = 0; k < n; k++) most = weight[k] > most ? weight[k] : most;
  p.first[i] = inside(p.r, c.first);
  p.first[p.r.out + i] = n;
  return most;
}

/* One block: the largest weight says how fine all of them are. */
KERNEL(byte_weights, bytes_job)
{
  f64 most = 0;
  for (i64 i = threadIdx.x; i < p.r.out; i += THREADS) most = larger(most, merge_weights(p, i));
  most = block_max(most);
  int bits = 0;
  while (bits < 22 && !(0.5 + most * (f64)(1 << (bits + 1)) >= 1 << 15)) bits++;
  for (i64 i = threadIdx.x; i < p.r.out; i += THREADS) /* those that this thread has written */
    for (i64 k = 0; k < p.first[p.r.out + i]; k++) {
      const f64 w = p.weight[i * p.r.most + k] * (f64)(1 << bits);
      p.whole[i * p.r.most + k] = (i32)(w < 0 ? w - 0.5 : w + 0.5);
    }
  if (threadIdx.x == 0) p.whole[p.r.out * p.r.most] = bits;
}

KERNEL(resample_bytes, bytes_job)
{
  const int bits = p.whole[p.r.out * p.r.most];
  EACH(i, p.r.outer * p.r.out * p.r.inner)
  {
    const i64 e = i % p.r.inner, o = i / p.r.inner % p.r.out, count = p.first[p.r.out + o];
    const u8 *x = p.x + (i / p.r.inner / p.r.out * p.r.in + p.first[o]) * p.r.inner + e;
    const i32 *whole = p.whole + o * p.r.most;
    i32 sum = bits ? 1 << (bits - 1) : 0;
    for (i64 k = 0; k < count; k++) sum += whole[k] * x[k * p.r.inner];
    sum >>= bits;
    p.y[i] = (u8)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
  }
}

/* ---- by index and weight: x (n, c, s), index, weight (n, k, p), y (n, c, p); an index below 0 counts nothing ---- */
struct weighted_job {
  T0 *x, *weight, *y;
  const i64 *index;
  i64 n, c, s, k, p;
  fault_slot fault;
};

FN bool usable(const weighted_job &j, i64 at)
{
  if (at >= j.s) report_fault(j.fault, FAULT_INDEX, at, j.s);
  return at >= 0 && at < j.s;
}

KERNEL(weighted_gather, weighted_job)
{
  EACH(i, p.n * p.c * p.p)
  {
    const i64 q = i % p.p, row = i / p.p, first = row / p.c * p.k * p.p + q;
    T0 sum = 0;
    for (i64 k = 0; k < p.k; k++) {
      const i64 at = p.index[first + k * p.p];
      if (usable(p, at)) sum += p.weight[first + k * p.p] * p.x[row * p.s + at];
    }
    p.y[i] = sum;
  }
}

KERNEL(weighted_scatter, weighted_job)
{
  EACH(i, p.n * p.c * p.p)
  {
    const i64 q = i % p.p, row = i / p.p, first = row / p.c * p.k * p.p + q;
    for (i64 k = 0; k < p.k; k++) {
      const i64 at = p.index[first + k * p.p];
      if (usable(p, at)) add_to(&p.x[row * p.s + at], p.weight[first + k * p.p] * p.y[i]);
    }
  }
}

KERNEL(weighted_dot, weighted_job)
{
  EACH(i, p.n * p.k * p.p)
  {
    const i64 q = i % p.p, n = i / p.p / p.k, at = p.index[i];
    T0 sum = 0;
    if (usable(p, at))
      for (i64 c = 0; c < p.c; c++) sum += p.y[(n * p.c + c) * p.p + q] * p.x[(n * p.c + c) * p.s + at];
    p.weight[i] = sum;
  }
}
