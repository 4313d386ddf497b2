/* batch_norm.cu: batch norm per channel of (outer, channels, inner), forward and backward, with the addition and the
 * relu behind it; group norm by the same passes.
 *
 * T0 is the type of x, T1 that of weight, bias and running statistics; sums and coefficients are of the type that is
 * computed in. N says which way: FORWARD and the two backward ones are three kernels, sums of pieces of a channel, their
 * join to statistics or coefficients per channel, and one pass that applies those; RUNNING is that pass alone, with a
 * mean and a variance that are given. GATED is the gradient of a relu behind the norm, too: whether it let an element
 * through is found again from x. JOINED makes the sums alone, of a gradient in two parts that comes through a relu whose
 * result is there, and leaves that gradient. GROUPS applies the statistics of group norm, GROUPS_BACK is its gradient:
 * channels are planes then, those of all samples, of which `share` neighbours are a group.
 * y may lie where x, g, other or result do, total where g, other or result do.
 * Invariants: sums are the same every time; a gate opens where relu(x * scale + shift) was above 0, since forward and
 * backward make scale and shift of the same rounded statistics by the same operations. */
#define BLOCKS_AT_ONCE (THREADS == 256 ? 3 : 1) /* as many sums as batch_norm.c launches */
#include "codegen/device.cuh"
#include "common.cuh"

typedef wide_of<T0>::type A;
/* V: neighbours of one channel that are read at once; H: neighbouring channels, fewer, since each has numbers of its own
 * in registers, and threads that wait for memory are worth more than long reads. */
enum { WARPS = THREADS / 32, V = 16 / sizeof(T0), H = 8 / sizeof(T0) };
enum { FORWARD, BACKWARD, GATED, RUNNING, JOINED, GROUPS, GROUPS_BACK };
#define BACK (N == BACKWARD || N == GATED || N == JOINED || N == GROUPS_BACK)
#define GROUPED (N == GROUPS || N == GROUPS_BACK)

struct channel_job {
  const T0 *x, *g, *r;         /* g: of backward; r: added before relu, or NULL */
  T0 *y;
  const T0 *other, *result;    /* JOINED: g's other part, and what the relu gave */
  T0 *total;                   /* ... what it lets through of both */
  const A *mean, *rstd;        /* (channels): what is applied, and of backward */
  const T1 *w, *b;             /* (channels) or NULL */
  const T1 *running_mean, *running_var;
  A *save_mean, *save_rstd, *var; /* (channels) or NULL: what is found */
  A *gw, *gb;                  /* (channels) or NULL */
  f64 *partial;                /* (pieces, 2, channels): mean and sum of squares about it; sums of g, g * (x - mean) */
  A *scale, *shift, *slope;    /* (channels), of backward: x * scale + shift + g * slope */
  i64 outer, channels, inner, pieces, piece;
  i64 chunk;                   /* rows: a piece is every pieces-th chunk of these; 0: `piece` rows or elements in a run */
  f64 eps;
  i32 relu;
  i32 aligned;                 /* what may be read by packs: nothing (0), runs of a channel (1), all of the tensor (2) */
  i32 width;                   /* packs of neighbouring channels that a block takes side by side, a power of two */
  i32 training;                /* of backward: statistics are those of x, not constants */
  i64 share, weights;          /* GROUPED: planes of a group, and channels, each of which has a weight */
};

/* n / by, in 32 bits where they fit: 64-bit division is several times slower. */
FN i64 quotient(i64 n, i64 by) { return (u64)(n | by) >> 32 ? n / by : (i64)((u32)n / (u32)by); }

/* Whose statistics and whose weight a channel has. */
FN i64 group_of(const channel_job &p, i64 c) { return GROUPED ? quotient(c, p.share) : c; }
FN i64 weight_of(const channel_job &p, i64 c) { return GROUPED ? c - quotient(c, p.weights) * p.weights : c; }

FN f32 fused(f32 a, f32 b, f32 c) { return fmaf(a, b, c); }
FN f64 fused(f64 a, f64 b, f64 c) { return fma(a, b, c); }

struct affine {
  A scale, shift;
};
FN affine affine_of(const channel_job &p, i64 c, A mean, A rstd)
{
  const i64 at = weight_of(p, c);
  const A scale = (p.w ? (A)get(p.w[at]) : (A)1) * rstd;
  return affine{scale, fused(-mean, scale, p.b ? (A)get(p.b[at]) : (A)0)};
}
FN A gated(affine gate, A x, A g) { return fused(x, gate.scale, gate.shift) <= 0 ? (A)0 : g; }

/* ---- sums of pieces ---- */

/* Sums of one channel: about `center`, some dozens of elements in A, then in float64. */
struct sums {
  A center, s, q;
  affine gate;
};
FN void add(sums &a, A x, A g)
{
  const A d = x - a.center, e = !BACK ? d : N == GATED ? gated(a.gate, x, g) : g;
  a.s += e;
  a.q += e * d;
}
/* first: where the piece's first element of the channel is, about which forward sums. */
FN sums sums_of(const channel_job &p, i64 c, i64 first)
{
  sums a = {};
  a.center = BACK ? p.mean[group_of(p, c)] : (A)get(p.x[first]);
  if (N == GATED) a.gate = affine_of(p, c, p.mean[c], p.rstd[c]);
  return a;
}

/* Leaves a channel's sums over the n elements of a piece. */
FN void leave(const channel_job &p, i64 c, i64 first, i64 n, f64 s, f64 q)
{
  f64 *to = p.partial + (i64)blockIdx.y * 2 * p.channels + c;
  to[0] = BACK ? s : (f64)get(p.x[first]) + s / (f64)n;
  to[p.channels] = BACK ? q : q - s * s / (f64)n;
}

/* How many elements of a channel piece k has. */
FN i64 count_of(const channel_job &p, i64 k)
{
  const i64 count = p.outer * p.inner, left = count - k * p.piece;
  if (!p.chunk) return left < p.piece ? left : p.piece;
  const i64 whole = count / p.chunk, turns = whole / p.pieces, over = whole - turns * p.pieces;
  return (turns + (k < over)) * p.chunk + (k == over ? count - whole * p.chunk : 0);
}

/* The rows or elements of a channel that the block has. */
struct extent {
  i64 begin, end;
};
FN extent extent_of(const channel_job &p)
{
  const i64 count = p.outer * p.inner, begin = blockIdx.y * p.piece;
  return extent{begin, begin + p.piece < count ? begin + p.piece : count};
}

/* M neighbours on their way: of x and of the gradient, with what makes it. */
template <int M> struct elements {
  pack<T0, M> x, g, other, result;
};
template <int M> FN void fetch(elements<M> &e, const channel_job &p, i64 at)
{
  e.x = *(const pack<T0, M> *)(p.x + at);
  if (BACK) e.g = *(const pack<T0, M> *)(p.g + at);
  if (N != JOINED) return;
  e.other = *(const pack<T0, M> *)(p.other + at);
  e.result = *(const pack<T0, M> *)(p.result + at);
}
/* The gradient is whole after this: the sum is rounded, and left, as an addition and a gate behind it would. */
template <int M> FN void join_parts(elements<M> &e, const channel_job &p, i64 at)
{
  if (N != JOINED) return;
#pragma unroll
  for (int i = 0; i < M; i++)
    e.g.v[i] = put<T0>(get(e.result.v[i]) <= 0 ? (A)0 : (A)(get(e.g.v[i]) + get(e.other.v[i])));
  *(pack<T0, M> *)(p.total + at) = e.g;
}
template <int M> FN A gradient_of(const elements<M> &e, int i) { return BACK ? (A)get(e.g.v[i]) : (A)0; }

/* `many` rows from `at` on, `apart` elements apart, of which `there` are: all are read before any is added. */
template <int many> FN void add_rows(sums *a, const channel_job &p, i64 at, i64 apart, int there)
{
  elements<H> e[many];
#pragma unroll
  for (int k = 0; k < many; k++)
    if (k < there) fetch(e[k], p, at + k * apart);
#pragma unroll
  for (int k = 0; k < many; k++) {
    if (k >= there) continue;
    join_parts(e[k], p, at + k * apart);
#pragma unroll
    for (int i = 0; i < H; i++) add(a[i], get(e[k].x.v[i]), gradient_of(e[k], i));
  }
}

/* Channels innermost, by packs: a thread has H neighbouring channels of every (THREADS / width)th row of a chunk. What
 * it has in float64 lies in shared memory: registers are for rows on their way. All blocks go through the rows together,
 * from the last one down: what a convolution wrote last, and what the pass over elements reads first, is in the cache. */
KERNEL(channel_pack_sums, channel_job)
{
  enum { AT_ONCE = N == JOINED ? 3 : BACK ? 4 : 8, IN_CHAIN = 64 }; /* a chunk is AT_ONCE * THREADS / width rows */
  __shared__ f64 room[2 * H][THREADS];
  const int t = (int)threadIdx.x, step = THREADS / p.width, side = p.width * H;
  const i64 channel = ((i64)blockIdx.x * p.width + t % p.width) * H, apart = step * p.channels;
  const i64 chunks = (p.outer + p.chunk - 1) / p.chunk, piece = blockIdx.y;
  const bool mine = channel < p.channels;
  sums a[H];
#pragma unroll
  for (int i = 0; i < H; i++) {
    a[i] = mine ? sums_of(p, channel + i, piece * p.chunk * p.channels + channel + i) : sums{};
    room[i][t] = room[H + i][t] = 0;
  }
  int chain = 0;
  for (i64 c = piece + (chunks - 1 - piece) / p.pieces * p.pieces; mine && c >= piece; c -= p.pieces) {
    const i64 row = c * p.chunk + t / p.width, left = (p.outer - row + step - 1) / step;
    if (row < p.outer)
      add_rows<AT_ONCE>(a, p, row * p.channels + channel, apart, left < AT_ONCE ? (int)left : AT_ONCE);
    if (c > piece && ++chain % (IN_CHAIN / AT_ONCE)) continue;
#pragma unroll
    for (int i = 0; i < H; i++) {
      room[i][t] += (f64)a[i].s;
      room[H + i][t] += (f64)a[i].q;
      a[i].s = a[i].q = 0;
    }
  }
  for (int half = THREADS / 2; half >= p.width; half /= 2) {
    __syncthreads();
    if (t < half)
#pragma unroll
      for (int i = 0; i < 2 * H; i++) room[i][t] += room[i][t + half];
  }
  __syncthreads();
  for (int k = t; k < side; k += THREADS) {
    const i64 c = (i64)blockIdx.x * side + k;
    if (c < p.channels)
      leave(p, c, piece * p.chunk * p.channels + c, count_of(p, piece), room[k % H][k / H], room[H + k % H][k / H]);
  }
}

/* Channels innermost, of any number: lanes are neighbouring channels, warps take rows in turn. */
KERNEL(channel_column_sums, channel_job)
{
  enum { AT_ONCE = 4 };
  __shared__ f64 room[2][WARPS][32];
  const int warp = (int)threadIdx.x >> 5;
  const i64 channel = (i64)blockIdx.x * 32 + LANE;
  const extent e = extent_of(p);
  const bool mine = channel < p.channels;
  f64 s = 0, q = 0;
  sums a = mine ? sums_of(p, channel, e.begin * p.channels + channel) : sums{};
  for (i64 row = e.begin + warp; mine && row < e.end; row += AT_ONCE * WARPS) {
#pragma unroll
    for (int k = 0; k < AT_ONCE; k++) {
      const i64 at = (row + k * WARPS) * p.channels + channel;
      if (row + k * WARPS >= e.end) continue;
      elements<1> v;
      fetch(v, p, at);
      join_parts(v, p, at);
      add(a, get(v.x.v[0]), gradient_of(v, 0));
    }
    s += (f64)a.s, q += (f64)a.q;
    a.s = a.q = 0;
  }
  room[0][warp][LANE] = s, room[1][warp][LANE] = q;
  __syncthreads();
  if (warp || !mine) return;
  for (int w = 1; w < WARPS; w++) s += room[0][w][LANE], q += room[1][w][LANE];
  leave(p, channel, e.begin * p.channels + channel, e.end - e.begin, s, q);
}

/* The sums over runs of M neighbours that fall to this thread: of one channel, in planes of `inner` elements. */
template <int M> FN void add_planes(sums &a, f64 &s, f64 &q, const channel_job &p, i64 channel, extent e)
{
  enum { AT_ONCE = N == JOINED ? 2 : M > 1 ? 4 : 8 };
  const i64 runs = p.inner / M, last = e.end / M;
  for (i64 first = e.begin / M + threadIdx.x; first < last; first += AT_ONCE * THREADS) {
    elements<M> v[AT_ONCE];
    i64 at[AT_ONCE];
#pragma unroll
    for (int k = 0; k < AT_ONCE; k++) {
      const i64 run = first + k * THREADS, plane = quotient(run, runs);
      at[k] = (plane * p.channels + channel) * p.inner + (run - plane * runs) * M;
      if (run < last) fetch(v[k], p, at[k]);
    }
#pragma unroll
    for (int k = 0; k < AT_ONCE; k++) {
      if (first + k * THREADS >= last) continue;
      join_parts(v[k], p, at[k]);
#pragma unroll
      for (int i = 0; i < M; i++) add(a, get(v[k].x.v[i]), gradient_of(v[k], i));
    }
    s += (f64)a.s, q += (f64)a.q;
    a.s = a.q = 0;
  }
}

/* The same where planes begin and end anywhere in packs: those that a plane lies in are read, and taken apart. */
FN void add_odd_planes(sums &a, f64 &s, f64 &q, const channel_job &p, i64 channel, extent e)
{
  enum { AT_ONCE = 2 };
  const i64 packs = p.inner / V + 2, last = p.outer * p.channels * p.inner; /* of a plane, at most; elements in all */
  const i64 begin = quotient(e.begin, p.inner), end = quotient(e.end - 1, p.inner) + 1; /* planes */
  for (i64 first = threadIdx.x; first < (end - begin) * packs; first += AT_ONCE * THREADS) {
    elements<V> v[AT_ONCE];
    i64 at[AT_ONCE], from[AT_ONCE], to[AT_ONCE];
#pragma unroll
    for (int k = 0; k < AT_ONCE; k++) {
      const i64 index = first + k * THREADS, plane = quotient(index, packs), outer = begin + plane;
      const i64 start = (outer * p.channels + channel) * p.inner; /* of the plane; from, to: what of it the block has */
      from[k] = start + (outer * p.inner < e.begin ? e.begin - outer * p.inner : 0);
      to[k] = start + ((outer + 1) * p.inner > e.end ? e.end - outer * p.inner : p.inner);
      at[k] = (from[k] & ~(i64)(V - 1)) + (index - plane * packs) * V;
      if (outer >= end) to[k] = from[k];
      if (at[k] >= to[k]) continue;
      if (at[k] + V <= last) fetch(v[k], p, at[k]);
      else
#pragma unroll
        for (int i = 0; i < V; i++)
          if (at[k] + i < last) {
            v[k].x.v[i] = p.x[at[k] + i];
            if (BACK) v[k].g.v[i] = p.g[at[k] + i];
          }
    }
#pragma unroll
    for (int k = 0; k < AT_ONCE; k++)
#pragma unroll
      for (int i = 0; i < V; i++)
        if (at[k] + i >= from[k] && at[k] + i < to[k]) add(a, get(v[k].x.v[i]), gradient_of(v[k], i));
    s += (f64)a.s, q += (f64)a.q;
    a.s = a.q = 0;
  }
}

/* inner > 1: blockIdx.x is a channel. */
KERNEL(channel_plane_sums, channel_job)
{
  const i64 channel = blockIdx.x;
  const extent e = extent_of(p);
  const i64 plane = quotient(e.begin, p.inner);
  const i64 begin = (plane * p.channels + channel) * p.inner + e.begin - plane * p.inner;
  f64 s = 0, q = 0;
  sums a = sums_of(p, channel, begin);
  if (p.aligned == 1) add_planes<V>(a, s, q, p, channel, e);
  else if (p.aligned == 2 && N != JOINED) add_odd_planes(a, s, q, p, channel, e);
  else add_planes<1>(a, s, q, p, channel, e);
  s = block_sum(s);
  q = block_sum(q);
  if (threadIdx.x == 0) leave(p, channel, begin, e.end - e.begin, s, q);
}

/* ---- coefficients ---- */

/* m: the sum of squares about the mean. */
FN void finish_forward(const channel_job &p, i64 c, f64 n, f64 mean, f64 m)
{
  if (m < 0) m = 0;
  p.save_mean[c] = (A)mean;
  p.save_rstd[c] = (A)(1 / sqrt(m / n + p.eps));
  if (p.var) p.var[c] = (A)(m / (n - 1));
}

/* dx = slope (g - sum g / n - (x - mean) rstd^2 sum(g (x - mean)) / n); running statistics are constants: slope g */
FN void finish_backward(const channel_job &p, i64 c, f64 n, f64 sum, f64 along)
{
  const f64 mean = (f64)p.mean[c], rstd = (f64)p.rstd[c], slope = (p.w ? (f64)get(p.w[c]) : 1) * rstd;
  if (p.gw) p.gw[c] = (A)(along * rstd);
  if (p.gb) p.gb[c] = (A)sum;
  const f64 scale = p.training ? -slope * rstd * rstd * along / n : 0;
  p.slope[c] = (A)slope;
  p.scale[c] = (A)scale;
  p.shift[c] = (A)(p.training ? -slope * sum / n - scale * mean : 0);
}

/* Joins the pieces of 32 channels: lanes are channels, warps take pieces in turn. Forward refers means to that of the
 * first piece: nothing is divided, and nothing cancels. */
KERNEL(channel_join, channel_job)
{
  __shared__ f64 room[2][WARPS][33];
  const int warp = (int)threadIdx.x >> 5;
  const i64 first = (i64)blockIdx.x * 32, channel = first + LANE, count = p.outer * p.inner;
  f64 s = 0, q = 0;
  if (channel < p.channels) {
    const f64 *from = p.partial + channel, about = from[0];
#pragma unroll 4
    for (i64 k = warp; k < p.pieces; k += WARPS) {
      const f64 a = from[k * 2 * p.channels], b = from[(k * 2 + 1) * p.channels];
      const f64 n = (f64)count_of(p, k), d = a - about;
      s += BACK ? a : n * d;
      q += BACK ? b : b + n * d * d;
    }
  }
  room[0][warp][LANE] = s;
  room[1][warp][LANE] = q;
  __syncthreads();
  for (int k = warp; k < 32 && first + k < p.channels; k += WARPS) {
    const f64 n = (f64)count, a = warp_sum(LANE < WARPS ? room[0][LANE][k] : 0);
    const f64 b = warp_sum(LANE < WARPS ? room[1][LANE][k] : 0);
    if (LANE) continue;
    if (BACK) finish_backward(p, first + k, n, a, b);
    else finish_forward(p, first + k, n, p.partial[first + k] + a / n, b - a * a / n);
  }
}

/* Group norm's gradient: the sums of a group's planes, which stay in place of their first pieces, and coefficients:
 * dx = rstd (w g - sum(w g) / n - (x - mean) rstd^2 sum(w g (x - mean)) / n), the sums and n those of the group. */
KERNEL(group_join, channel_job)
{
  for (i64 group = blockIdx.x; group < p.channels / p.share; group += gridDim.x) {
    const f64 mean = (f64)p.mean[group], rstd = (f64)p.rstd[group], n = (f64)(p.share * p.inner);
    f64 sum = 0, along = 0;
    for (i64 c = group * p.share + threadIdx.x; c < (group + 1) * p.share; c += THREADS) {
      f64 s = 0, q = 0, w = p.w ? (f64)get(p.w[weight_of(p, c)]) : 1;
      for (i64 k = 0; k < p.pieces; k++) s += p.partial[k * 2 * p.channels + c], q += p.partial[(k * 2 + 1) * p.channels + c];
      p.partial[c] = s, p.partial[p.channels + c] = q;
      sum += w * s, along += w * q;
    }
    sum = block_sum(sum), along = block_sum(along);
    const f64 scale = -rstd * rstd * rstd * along / n;
    for (i64 c = group * p.share + threadIdx.x; c < (group + 1) * p.share; c += THREADS) {
      p.slope[c] = (A)(rstd * (p.w ? (f64)get(p.w[weight_of(p, c)]) : 1));
      p.scale[c] = (A)scale;
      p.shift[c] = (A)(-rstd * sum / n - scale * mean);
    }
  }
}

/* ... and of weight and bias, from those sums: over all samples, in order. */
KERNEL(group_affine, channel_job)
{
  EACH(w, p.weights)
  {
    f64 s = 0, q = 0;
    for (i64 c = w; c < p.channels; c += p.weights) {
      s += p.partial[c];
      q += p.partial[p.channels + c] * (f64)p.rstd[group_of(p, c)];
    }
    if (p.gw) p.gw[w] = (A)q;
    if (p.gb) p.gb[w] = (A)s;
  }
}

/* ---- the pass over elements ---- */

struct coefficients {
  A scale, shift, slope;
  affine gate;
};
FN coefficients coefficients_of(const channel_job &p, i64 c)
{
  const affine f = N == RUNNING ? affine_of(p, c, (A)get(p.running_mean[c]),
                                            1 / sqrt((A)get(p.running_var[c]) + (A)p.eps))
                   : N == BACKWARD || N == GROUPS_BACK ? affine{}
                                                       : affine_of(p, c, p.mean[group_of(p, c)], p.rstd[group_of(p, c)]);
  return BACK ? coefficients{p.scale[c], p.shift[c], p.slope[c], f} : coefficients{f.scale, f.shift};
}

/* other: the gradient, or what is added, where BOTH. */
template <bool BOTH> FN T0 applied(const channel_job &p, const coefficients &k, T0 of, T0 other)
{
  const A x = get(of);
  A v = fused(x, k.scale, k.shift);
  if (BACK) v = fused(N == GATED ? gated(k.gate, x, (A)get(other)) : (A)get(other), k.slope, v);
  else {
    if (BOTH) v += get(other);
    if (p.relu && v <= 0) v = 0;
  }
  return put<T0>(v);
}

#define OTHER (BACK ? p.g : p.r)

/* Channels innermost, and the packs of all threads make whole rows: a thread's channels stay the same. */
template <bool BOTH> FN void apply_columns(const channel_job &p, i64 packs)
{
  enum { AT_ONCE = BOTH ? 4 : 8 };
  const i64 step = (i64)gridDim.x * THREADS, first = (i64)blockIdx.x * THREADS + threadIdx.x;
  coefficients c[H];
#pragma unroll
  for (int i = 0; i < H; i++) c[i] = coefficients_of(p, first * H % p.channels + i);
  for (i64 k = first; k < packs; k += AT_ONCE * step) {
    pack<T0, H> x[AT_ONCE], o[AT_ONCE];
#pragma unroll
    for (int a = 0; a < AT_ONCE; a++) {
      if (k + a * step >= packs) continue;
      x[a] = *(const pack<T0, H> *)(p.x + (k + a * step) * H);
      if (BOTH) o[a] = *(const pack<T0, H> *)(OTHER + (k + a * step) * H);
    }
#pragma unroll
    for (int a = 0; a < AT_ONCE; a++) {
      if (k + a * step >= packs) continue;
#pragma unroll
      for (int i = 0; i < H; i++) x[a].v[i] = applied<BOTH>(p, c[i], x[a].v[i], BOTH ? o[a].v[i] : T0{});
      *(pack<T0, H> *)(p.y + (k + a * step) * H) = x[a];
    }
  }
}

FN coefficients of_plane(const channel_job &p, i64 plane)
{
  return coefficients_of(p, plane - quotient(plane, p.channels) * p.channels);
}

/* Runs of M neighbours of one channel, or, where channels are innermost, single elements. */
template <int M, bool BOTH> FN void apply_runs(const channel_job &p, i64 n)
{
  enum { AT_ONCE = BOTH ? 2 : 4 };
  const i64 runs = p.inner / M, step = (i64)gridDim.x * THREADS;
  for (i64 k = (i64)blockIdx.x * THREADS + threadIdx.x; k < n / M; k += AT_ONCE * step) {
    pack<T0, M> x[AT_ONCE], o[AT_ONCE];
#pragma unroll
    for (int a = 0; a < AT_ONCE; a++) {
      if (k + a * step >= n / M) continue;
      x[a] = *(const pack<T0, M> *)(p.x + (k + a * step) * M);
      if (BOTH) o[a] = *(const pack<T0, M> *)(OTHER + (k + a * step) * M);
    }
#pragma unroll
    for (int a = 0; a < AT_ONCE; a++) {
      if (k + a * step >= n / M) continue;
      const coefficients f = of_plane(p, quotient(k + a * step, runs));
#pragma unroll
      for (int i = 0; i < M; i++) x[a].v[i] = applied<BOTH>(p, f, x[a].v[i], BOTH ? o[a].v[i] : T0{});
      *(pack<T0, M> *)(p.y + (k + a * step) * M) = x[a];
    }
  }
}

/* Packs that may lie in two planes, which have at least V elements. */
template <bool BOTH> FN void apply_across(const channel_job &p, i64 n)
{
  const i64 step = (i64)gridDim.x * THREADS;
  for (i64 k = (i64)blockIdx.x * THREADS + threadIdx.x; k < (n + V - 1) / V; k += step) {
    const i64 at = k * V, plane = quotient(at, p.inner), own = (plane + 1) * p.inner - at; /* elements of the first */
    const bool whole = at + V <= n;
    const coefficients f = of_plane(p, plane), g = own < V && at + own < n ? of_plane(p, plane + 1) : f;
    pack<T0, V> x = {}, o = {};
    if (whole) x = *(const pack<T0, V> *)(p.x + at);
    if (whole && BOTH) o = *(const pack<T0, V> *)(OTHER + at);
#pragma unroll
    for (int i = 0; i < V; i++) {
      if (!whole && at + i < n) x.v[i] = p.x[at + i];
      if (!whole && BOTH && at + i < n) o.v[i] = OTHER[at + i];
      x.v[i] = applied<BOTH>(p, i < own ? f : g, x.v[i], BOTH ? o.v[i] : T0{});
      if (!whole && at + i < n) p.y[at + i] = x.v[i];
    }
    if (whole) *(pack<T0, V> *)(p.y + at) = x;
  }
}

template <bool BOTH> FN void apply(const channel_job &p)
{
  const i64 n = p.outer * p.channels * p.inner;
  if (p.aligned == 1 && p.inner == 1) apply_columns<BOTH>(p, n / H);
  else if (p.aligned == 1) apply_runs<V, BOTH>(p, n);
  else if (p.aligned == 2) apply_across<BOTH>(p, n);
  else apply_runs<1, BOTH>(p, n);
}

#undef BLOCKS_AT_ONCE
#define BLOCKS_AT_ONCE (1024 / THREADS) /* as many passes */
KERNEL(channel_apply, channel_job)
{
  if (N == RUNNING && p.save_mean) {
    EACH(c, p.channels)
    {
      const A var = (A)get(p.running_var[c]);
      p.save_mean[c] = (A)get(p.running_mean[c]);
      p.save_rstd[c] = 1 / sqrt(var + (A)p.eps);
      p.var[c] = var;
    }
  }
  if (BACK || p.r) apply<true>(p);
  else apply<BACK>(p);
}
