/* batch_norm.cu: batch norm per channel of (outer, channels, inner), forward and backward.
 *
 * T0 is the type of x; statistics and coefficients are of the type it is computed in. A block sums a piece of one
 * channel (inner > 1) or of neighbouring channels (inner == 1: channels-last and matrices), by packs where they are
 * whole; a second kernel joins pieces in order. Invariant: sums are the same every time. */
#include "codegen/device.cuh"
#include "common.cuh"

typedef wide_of<T0>::type A;
enum { WARPS = THREADS / 32, V = 16 / sizeof(T0) };

struct channel_job {
  const T0 *x, *g;
  T0 *y;
  const A *mean, *rstd;        /* (channels): given for backward, and for forward by running statistics */
  A *save_mean, *save_rstd, *var;
  const A *w, *b;              /* (channels) or NULL, in the type that is computed in */
  A *gw, *gb;                  /* (channels) or NULL */
  f64 *partial;                /* (pieces, 3, channels) */
  A *scale, *shift, *slope;    /* (channels): y = x * scale + shift [+ g * slope] */
  i64 outer, channels, inner, pieces, piece;
  f64 eps;
  i32 training, aligned;
  i32 width, unused; /* packs of neighbouring channels that a block takes side by side, a power of two */
};

/* Sums of a thread: n, mean and m2 (forward); or sum g, sum g * (x - mean) (backward). */
struct sums {
  f64 a, b, c;
};
FN sums merged(sums s, sums t, bool moments)
{
  if (!moments) return sums{s.a + t.a, s.b + t.b, 0};
  if (s.a == 0 || t.a == 0) return s.a == 0 ? t : s;
  const f64 n = s.a + t.a, d = t.b - s.b;
  return sums{n, s.b + d * (t.a / n), s.c + t.c + d * d * (s.a * (t.a / n))};
}

/* Adds an element to a short chain: shifted sums, so that nothing cancels. */
struct chain {
  A n, first, s, q;
};
FN void add_moment(chain &c, A v)
{
  if (c.n == 0) c.first = v;
  const A d = v - c.first;
  c.n += 1;
  c.s += d;
  c.q += d * d;
}
FN sums of_chain(chain c)
{
  if (c.n == 0) return sums{0, 0, 0};
  const f64 n = (f64)c.n, s = (f64)c.s;
  return sums{n, (f64)c.first + s / n, (f64)c.q - s * s / n};
}

#define BACKWARD (p.g != 0)

FN sums part_of(const channel_job &p, i64 channel, i64 begin, i64 end, i64 step, i64 first)
{
  sums total = sums{0, 0, 0};
  const A mean = BACKWARD ? p.mean[channel] : (A)0;
  chain c = chain{0, 0, 0, 0};
  int left = 64;
  for (i64 i = begin + first; i < end; i += step) {
    const i64 at = (i / p.inner * p.channels + channel) * p.inner + i % p.inner;
    const A v = get(p.x[at]);
    if (BACKWARD) {
      const A g = get(p.g[at]);
      c.s += g;
      c.q += g * (v - mean);
    } else {
      add_moment(c, v);
    }
    if (--left == 0) {
      total = merged(total, BACKWARD ? sums{(f64)c.s, (f64)c.q, 0} : of_chain(c), !BACKWARD);
      c = chain{0, 0, 0, 0};
      left = 64;
    }
  }
  return merged(total, BACKWARD ? sums{(f64)c.s, (f64)c.q, 0} : of_chain(c), !BACKWARD);
}

/* inner > 1: blockIdx.x is a channel, all threads take its elements. inner == 1: lanes are neighbouring channels. */
KERNEL(channel_sums, channel_job)
{
  __shared__ sums room[THREADS];
  const int t = (int)threadIdx.x;
  const bool wide = p.inner == 1;
  const i64 channel = wide ? (i64)blockIdx.x * 32 + LANE : blockIdx.x, begin = blockIdx.y * p.piece;
  const i64 count = p.outer * p.inner, end = begin + p.piece < count ? begin + p.piece : count;
  sums s = sums{0, 0, 0};
  if (channel < p.channels) s = part_of(p, channel, begin, end, wide ? WARPS : THREADS, wide ? t >> 5 : t);
  room[t] = s;
  for (int w = THREADS / 2; w >= (wide ? 32 : 1); w /= 2) {
    __syncthreads();
    if (t < w) room[t] = merged(room[t], room[t + w], !BACKWARD);
  }
  if (t >= (wide ? 32 : 1) || channel >= p.channels) return;
  f64 *to = p.partial + blockIdx.y * 3 * p.channels + channel;
  to[0] = room[t].a;
  to[p.channels] = room[t].b;
  to[2 * p.channels] = room[t].c;
}

/* Sums of V channels over some rows: about `center`, 64 rows or a few more in A, then in float64. */
struct pack_sums {
  A center[V], s[V], q[V];
  f64 all_s[V], all_q[V];
};

/* `many` rows from `at` on, `apart` elements apart: all are read before any is added. */
template <int many> FN void add_rows(pack_sums &a, const channel_job &p, i64 at, i64 apart)
{
  pack<T0, V> x[many], g[many];
#pragma unroll
  for (int k = 0; k < many; k++) {
    x[k] = *(const pack<T0, V> *)(p.x + at + k * apart);
    if (BACKWARD) g[k] = *(const pack<T0, V> *)(p.g + at + k * apart);
  }
#pragma unroll
  for (int k = 0; k < many; k++)
#pragma unroll
    for (int i = 0; i < V; i++) {
      const A d = get(x[k].v[i]) - a.center[i], e = BACKWARD ? (A)get(g[k].v[i]) : d;
      a.s[i] += e;
      a.q[i] += e * d;
    }
}

FN void fold(pack_sums &a)
{
#pragma unroll
  for (int i = 0; i < V; i++) {
    a.all_s[i] += (f64)a.s[i];
    a.all_q[i] += (f64)a.q[i];
    a.s[i] = a.q[i] = 0;
  }
}

/* Channels innermost, by packs: a thread has V neighbouring channels of every (THREADS / width)th row of the piece.
 * Sums are about the piece's first row (forward) or the mean (backward), so that nothing cancels. */
KERNEL(channel_pack_sums, channel_job)
{
  enum { AT_ONCE = 4, IN_CHAIN = 64 };
  __shared__ sums room[THREADS];
  const int t = (int)threadIdx.x, step = THREADS / p.width;
  const i64 channel = ((i64)blockIdx.x * p.width + t % p.width) * V, begin = blockIdx.y * p.piece;
  const i64 end = begin + p.piece < p.outer ? begin + p.piece : p.outer, apart = step * p.channels;
  const bool mine = channel < p.channels;
  pack_sums a = {};
  i64 row = begin + t / p.width, rows = 0;
#pragma unroll
  for (int i = 0; i < V; i++)
    a.center[i] = !mine ? (A)0 : BACKWARD ? p.mean[channel + i] : (A)get(p.x[begin * p.channels + channel + i]);
  for (int chain = 0; mine && row < end; chain++) {
    const bool whole = row + (AT_ONCE - 1) * step < end;
    if (whole) add_rows<AT_ONCE>(a, p, row * p.channels + channel, apart);
    else add_rows<1>(a, p, row * p.channels + channel, apart);
    row += (whole ? AT_ONCE : 1) * step;
    rows += whole ? AT_ONCE : 1;
    if (chain % (IN_CHAIN / AT_ONCE) == 0) fold(a);
  }
  fold(a);
#pragma unroll
  for (int i = 0; i < V; i++) {
    const f64 n = (f64)rows;
    __syncthreads();
    room[t] = BACKWARD    ? sums{a.all_s[i], a.all_q[i], 0}
              : rows == 0 ? sums{0, 0, 0}
                          : sums{n, (f64)a.center[i] + a.all_s[i] / n,
                                 a.all_q[i] - a.all_s[i] * a.all_s[i] / n};
    for (int w = THREADS / 2; w >= p.width; w /= 2) {
      __syncthreads();
      if (t < w) room[t] = merged(room[t], room[t + w], !BACKWARD);
    }
    if (t >= p.width || !mine) continue;
    f64 *to = p.partial + blockIdx.y * 3 * p.channels + channel + i;
    to[0] = room[t].a;
    to[p.channels] = room[t].b;
    to[2 * p.channels] = room[t].c;
  }
}

/* The sums of a channel, by a warp: all lanes have them. */
FN sums joined(const channel_job &p, i64 channel)
{
  sums s = sums{0, 0, 0};
  for (i64 k = LANE; k < p.pieces; k += 32) {
    const f64 *from = p.partial + k * 3 * p.channels + channel;
    s = merged(s, sums{from[0], from[p.channels], from[2 * p.channels]}, !BACKWARD);
  }
  for (int m = 1; m < 32; m *= 2) {
    sums other;
    other.a = __shfl_xor_sync(FULL, s.a, m);
    other.b = __shfl_xor_sync(FULL, s.b, m);
    other.c = __shfl_xor_sync(FULL, s.c, m);
    s = LANE & m ? merged(other, s, !BACKWARD) : merged(s, other, !BACKWARD); /* in one order on both sides */
  }
  return s;
}

/* A warp for each channel. */
#define EACH_CHANNEL(c) \
  for (i64 c = (i64)blockIdx.x * WARPS + (threadIdx.x >> 5); c < p.channels; c += (i64)gridDim.x * WARPS)

KERNEL(channel_forward, channel_job)
{
  EACH_CHANNEL(c)
  {
    f64 mean, rstd, unbiased;
    if (p.training) {
      const sums s = joined(p, c);
      mean = s.b;
      rstd = 1 / sqrt(s.c / s.a + p.eps);
      unbiased = s.c / (s.a - 1);
    } else {
      mean = (f64)p.mean[c];
      unbiased = (f64)p.rstd[c]; /* the running variance */
      rstd = 1 / sqrt(unbiased + p.eps);
    }
    if (LANE) continue;
    p.save_mean[c] = (A)mean;
    p.save_rstd[c] = (A)rstd;
    p.var[c] = (A)unbiased;
    const f64 w = p.w ? (f64)p.w[c] : 1, b = p.b ? (f64)p.b[c] : 0;
    p.scale[c] = (A)(w * rstd);
    p.shift[c] = (A)(b - mean * w * rstd);
  }
}

KERNEL(channel_backward, channel_job)
{
  EACH_CHANNEL(c)
  {
    const sums s = joined(p, c);
    if (LANE) continue;
    const f64 mean = (f64)p.mean[c], rstd = (f64)p.rstd[c], w = p.w ? (f64)p.w[c] : 1;
    const f64 n = (f64)p.outer * (f64)p.inner, slope = w * rstd;
    if (p.gw) p.gw[c] = (A)(s.b * rstd);
    if (p.gb) p.gb[c] = (A)s.a;
    /* dx = slope (g - sum g / n - (x - mean) rstd^2 sum(g (x - mean)) / n) */
    const f64 along = p.training ? -slope * rstd * rstd * s.b / n : 0;
    p.slope[c] = (A)slope;
    p.scale[c] = (A)along;
    p.shift[c] = (A)(p.training ? -slope * s.a / n - along * mean : 0);
  }
}

/* y = x * scale + shift + g * slope. Channels innermost, and the packs of all threads make whole rows: a thread's
 * channels stay the same. */
FN void apply_columns(const channel_job &p, i64 packs)
{
  const i64 step = (i64)gridDim.x * THREADS;
  i64 k = (i64)blockIdx.x * THREADS + threadIdx.x;
  const i64 c = k * V % p.channels;
  A scale[V], shift[V], slope[V];
#pragma unroll
  for (int i = 0; i < V; i++) {
    scale[i] = p.scale[c + i];
    shift[i] = p.shift[c + i];
    slope[i] = BACKWARD ? p.slope[c + i] : (A)0;
  }
#pragma unroll 2
  for (; k < packs; k += step) {
    const pack<T0, V> x = *(const pack<T0, V> *)(p.x + k * V);
    pack<T0, V> g, y;
    if (BACKWARD) g = *(const pack<T0, V> *)(p.g + k * V);
#pragma unroll
    for (int i = 0; i < V; i++) {
      A v = get(x.v[i]) * scale[i] + shift[i];
      if (BACKWARD) v += get(g.v[i]) * slope[i];
      y.v[i] = put<T0>(v);
    }
    *(pack<T0, V> *)(p.y + k * V) = y;
  }
}

/* The same, V elements at a time where they are of one channel or of neighbouring ones. */
KERNEL(channel_apply, channel_job)
{
  const i64 n = p.outer * p.channels * p.inner, packs = p.aligned ? n / V : 0;
  if (p.aligned && p.inner == 1 && (i64)gridDim.x * THREADS * V % p.channels == 0) {
    apply_columns(p, packs);
    return;
  }
  EACH(k, packs)
  {
    const i64 first = k * V;
    const pack<T0, V> x = *(const pack<T0, V> *)(p.x + first);
    pack<T0, V> g, y;
    if (BACKWARD) g = *(const pack<T0, V> *)(p.g + first);
    i64 c = p.inner == 1 ? first % p.channels : first / p.inner % p.channels;
#pragma unroll
    for (int i = 0; i < V; i++) {
      A v = get(x.v[i]) * p.scale[c] + p.shift[c];
      if (BACKWARD) v += get(g.v[i]) * p.slope[c];
      y.v[i] = put<T0>(v);
      if (p.inner == 1) c++;
    }
    *(pack<T0, V> *)(p.y + first) = y;
  }
  if (p.aligned) return;
  EACH(i, n)
  {
    const i64 c = i / p.inner % p.channels;
    A v = get(p.x[i]) * p.scale[c] + p.shift[c];
    if (BACKWARD) v += get(p.g[i]) * p.slope[c];
    p.y[i] = put<T0>(v);
  }
}
