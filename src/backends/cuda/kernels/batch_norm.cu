/* batch_norm.cu: batch norm per channel of (outer, channels, inner), forward and backward.
 *
 * T0 is the type of x; statistics and coefficients are of the type it is computed in. A block sums a piece of one
 * channel (inner > 1) or of a warp's width of neighbouring channels (inner == 1: channels-last and matrices); a second
 * kernel joins pieces in order. Invariant: sums are the same every time. */
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

FN sums joined(const channel_job &p, i64 channel)
{
  sums s = sums{0, 0, 0};
  for (i64 k = 0; k < p.pieces; k++) {
    const f64 *from = p.partial + k * 3 * p.channels + channel;
    s = merged(s, sums{from[0], from[p.channels], from[2 * p.channels]}, !BACKWARD);
  }
  return s;
}

KERNEL(channel_forward, channel_job)
{
  EACH(c, p.channels)
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
  EACH(c, p.channels)
  {
    const sums s = joined(p, c);
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

/* y = x * scale + shift + g * slope, V elements at a time where they are of one channel or of neighbouring ones. */
KERNEL(channel_apply, channel_job)
{
  const i64 n = p.outer * p.channels * p.inner, packs = p.aligned ? n / V : 0;
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
