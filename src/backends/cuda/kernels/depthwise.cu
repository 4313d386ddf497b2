/* depthwise.cu: convolutions whose filters see one channel: forward, with what is added behind, and both gradients.
 *
 * T0 is the element type, sums are float32. N is the filter, the strides, how many neighbouring results of a line (a
 * strip) and neighbouring channels (a pack) a thread has; FORM says what is made. A thread goes down the lines with a
 * strip: each line that is read adds to all lines of results that it is part of, which are in registers meanwhile
 * (forward and gradient of the input), or to all taps, by the lines of the result's gradient that are in registers
 * (gradient of the filter). So a pixel is read once by a thread, and again by its neighbours to the left and right only.
 * Where the stride is 1, lines and columns of a dilated filter are those of a class, every dilation-th one.
 * Tensors may have any strides. A gradient of the filter is sums of blocks, which a second kernel joins.
 * Invariant: each result is added up in a fixed order by one thread, or one thread after another. */
#define FILTER ((N & 63) * (N >> 6 & 63)) /* taps; blocks that leave each thread the registers for their results */
#ifdef WANT_depthwise_weight
#define BLOCKS_AT_ONCE (FILTER <= 9 ? 4 : 3)
#else
#define BLOCKS_AT_ONCE (THREADS > 128 ? 1 : FILTER <= 9 ? 4 : FILTER > 36 && FILTER <= 49 ? 4 : 3)
#endif
#include "codegen/device.cuh"
#include "common.cuh"

/* The gradient of the input; neighbours of a line are neighbours in memory; filters share channels; a line's classes are
 * apart; how far the first result is from one that the first tap takes to a pixel; z is added; relu is behind that. */
enum { BACK = FORM & 1, NEXT = FORM >> 1 & 1, MANY = FORM >> 2 & 1, SPREAD = FORM >> 3 & 1, PHASE = FORM >> 4 & 3,
       ADDS = FORM >> 6 & 1, GATED = FORM >> 7 & 1 };
enum { HIGH = N & 63, WIDE = N >> 6 & 63, DOWN = N >> 12 & 15, ACROSS = N >> 16 & 15, STRIP = N >> 20 & 15,
       PACK = N >> 24 & 7 };
/* Columns that a strip's results are made of; how many lines before a thread's first one are part of it. */
enum { SPAN = (WIDE - 1) / ACROSS, LEAD = (HIGH - 1) / DOWN };
enum { COLUMNS = BACK ? (STRIP - 1 + PHASE) / ACROSS + SPAN + 1 : (STRIP - 1) * ACROSS + WIDE };
/* Lines that are read and that are done at a time, and results on their way. */
enum { IN = BACK ? 1 : DOWN, OUT = BACK ? DOWN : 1, LIVE = !BACK ? LEAD + 1 : HIGH > DOWN ? HIGH : DOWN };
enum { TAPS = HIGH * WIDE, KEPT = TAPS * PACK <= 40 && !(BACK && MANY) };
enum { WHOLE = STRIP & (STRIP - 1) ? 1 : STRIP }; /* of a strip that is written at once */
/* Small ones are unrolled until results are where they were, so that nothing moves. */
enum { TURN = LIVE <= 5 && LIVE * TAPS * STRIP * PACK <= 2500 ? LIVE : 1 };

/* Where a tensor's elements are, in elements. */
struct lay {
  i64 image, row, column, channel;
};
struct depthwise_job {
  const T0 *x, *w, *b, *z; /* what is read; (filters, taps); bias (filters) or NULL; what is added */
  T0 *y;                   /* the result; of depthwise_weight its gradient, which is read, too */
  f32 *partial;            /* (pieces, taps, filters) */
  T0 *gw;                  /* (filters, taps) */
  lay at_x, at_y, at_z;
  i64 channels, filters;   /* of y */
  i64 items;               /* strips of columns, of all lines' segments and images */
  i32 in[2], out[2];       /* lines and columns of x and y */
  i32 step[2], shift[2];   /* classes; from a result's place to that of the first that it is made of */
  i32 above;               /* lines that the first unit begins above the result */
  i32 first, units, rows;  /* units are OUT lines: the first, behind the last, so many for a thread */
  i32 segments, strips;    /* of all classes */
  i32 side, held, many;    /* of a block: packs beside each other, filters; filters of a channel */
  i32 packs;               /* whole strips of y are written at once */
  i32 kernel[2], dilation[2], parts, pieces; /* of depthwise_weight: the whole filter, parts of HIGH x WIDE taps */
};

FN i64 quotient(i64 n, i64 by) { return (u64)(n | by) >> 32 ? n / by : (i64)((u32)n / (u32)by); }
FN bool within(int at, int size) { return (u32)at < (u32)size; }

/* Which tap takes line i of those that are read to the k-th of those on their way; below 0 or beyond HIGH: none. */
FN int tap_of(int i, int k) { return BACK ? k : (LEAD - k) * DOWN + i; }
/* Which column that is read goes by tap k to the strip's result u; below 0: none. */
FN int column_of(int u, int k)
{
  const int d = u + PHASE - k;
  return !BACK ? u * ACROSS + k : d % ACROSS ? -1 : d / ACROSS + SPAN;
}

/* ---- who does what ---- */

/* A thread's channels and its place among the block's items. */
struct lane {
  i64 channel;
  int pack, slot, slots;
  bool mine;
};
FN lane lane_of(const depthwise_job &p, i64 group)
{
  const int t = (int)threadIdx.x;
  lane l;
  l.slots = THREADS / p.side;
  l.slot = NEXT ? t % l.slots : t / p.side;
  l.pack = NEXT ? t / l.slots : t % p.side;
  l.channel = (group * p.side + l.pack) * PACK;
  l.mine = l.pack < p.side && l.slot < l.slots && l.channel < p.channels;
  return l;
}

/* An item: lines `begin` to `end`, in units, of the class `row`, of an image, from the columns `in` and `out` on. */
struct place {
  i64 image;
  int begin, end, row, in, out;
};
FN place place_of(const depthwise_job &p, i64 item)
{
  const i64 line = quotient(item, p.strips), image = quotient(line, p.segments);
  const int s = (int)(item - line * p.strips), g = (int)(line - image * p.segments);
  const int strip = s / p.step[1], column = s % p.step[1];
  place e;
  e.image = image;
  e.row = g % p.step[0];
  e.begin = p.first + g / p.step[0] * p.rows;
  e.end = e.begin + p.rows < p.units ? e.begin + p.rows : p.units;
  e.in = p.step[1] * (BACK ? strip * STRIP / ACROSS : strip * STRIP * ACROSS) + column + p.shift[1];
  e.out = p.step[1] * strip * STRIP + column;
  return e;
}

/* ---- lines ---- */

/* M neighbours, `step` apart, of which bit i of `there` says whether it is in the image; zeros stand for the others. */
template <int M> struct line {
  pack<T0, PACK> v[M];
};
template <int M> FN u32 inside(int first, int step, int size)
{
  u32 there = 0;
#pragma unroll
  for (int j = 0; j < M; j++) there |= (u32)within(first + j * step, size) << j;
  return there;
}
/* A place is found by an addition from the one before: the compiler would keep all of them, two registers each. */
template <class T> FN void move_on(T *&at, i64 step)
{
  at += step;
#ifndef CN_SIMT
  if (!NEXT || SPREAD) asm volatile("" : "+l"(at));
#endif
}
template <int M> FN void fetch(line<M> &to, const T0 *from, i64 step, u32 there)
{
#pragma unroll
  for (int j = 0; j < M; j++) {
    to.v[j] = pack<T0, PACK>{};
    if (there >> j & 1) to.v[j] = *(const pack<T0, PACK> *)from;
    move_on(from, step);
  }
}
template <int M> FN void numbers(f32 (&to)[M][PACK], const line<M> &l)
{
#pragma unroll
  for (int j = 0; j < M; j++) unpack(to[j], l.v[j]);
}
/* Elements between neighbours of a line. */
FN i64 apart(const depthwise_job &p, const lay &l) { return NEXT && !SPREAD ? 1 : p.step[1] * l.column; }

/* The IN lines of x that unit t is the last to need, of the thread's columns. */
struct source {
  const T0 *x; /* its first column */
  u32 there;
};
FN void fetch_lines(line<COLUMNS> (&to)[IN], const depthwise_job &p, const source &s, const place &e, int t, bool wanted)
{
#pragma unroll
  for (int i = 0; i < IN; i++) {
    if (!BACK && i >= HIGH) continue; /* between filters */
    const int row = p.step[0] * (t * IN + i) + e.row + p.shift[0];
    fetch(to[i], s.x + row * p.at_x.row, apart(p, p.at_x), wanted && within(row, p.in[0]) ? s.there : 0);
  }
}

/* ---- forward, and the gradient of the input ---- */

/* The thread's part of the filters, in shared memory, and where there are few taps in registers. */
struct filter {
  const f32 *taps;
  int apart;
  f32 bias[PACK];
  pack<f32, PACK> kept[KEPT ? TAPS : 1];
};
FN void weights_of(f32 *to, const filter &f, int tap, int at)
{
  pack<f32, PACK> w;
  if (!KEPT) w = *(const pack<f32, PACK> *)(f.taps + tap * f.apart + at);
#pragma unroll
  for (int c = 0; c < PACK; c++) to[c] = KEPT ? f.kept[KEPT ? tap : 0].v[c] : w.v[c];
}

typedef f32 results[LIVE][STRIP][PACK];

/* Adds line i to all results that it is part of. */
FN void add_line(results &a, const line<COLUMNS> &x, int i, const filter &f, int at)
{
  f32 v[COLUMNS][PACK];
  numbers(v, x);
#pragma unroll
  for (int k = 0; k < LIVE; k++) {
    const int down = tap_of(i, k);
    if (down < 0 || down >= HIGH) continue;
#pragma unroll
    for (int b = 0; b < WIDE; b++) {
      f32 w[PACK];
      weights_of(w, f, down * WIDE + b, at);
#pragma unroll
      for (int u = 0; u < STRIP; u++) {
        const int j = column_of(u, b);
        if (j < 0) continue;
#pragma unroll
        for (int c = 0; c < PACK; c++) a[k][u][c] = fmaf(v[j][c], w[c], a[k][u][c]);
      }
    }
  }
}

FN pack<T0, PACK> as_elements(const f32 *v)
{
  pack<T0, PACK> e;
  if (PACK > 1) return packed<T0, PACK>(v);
  e.v[0] = put<T0>(v[0]);
  return e;
}

/* One line of results: what is added behind the convolution, and into memory. */
FN void leave_line(f32 (&a)[STRIP][PACK], const depthwise_job &p, const lane &l, const place &e, int row)
{
  T0 *y = p.y + e.image * p.at_y.image + row * p.at_y.row + e.out * p.at_y.column + l.channel * p.at_y.channel;
  const u32 there = inside<STRIP>(e.out, p.step[1], p.out[1]);
  line<STRIP> other;
  if (ADDS)
    fetch(other, p.z + e.image * p.at_z.image + row * p.at_z.row + e.out * p.at_z.column + l.channel * p.at_z.channel,
          apart(p, p.at_z), there);
#pragma unroll
  for (int u = 0; u < STRIP; u++) {
#pragma unroll
    for (int c = 0; c < PACK; c++) {
      if (ADDS) a[u][c] += get(other.v[u].v[c]);
      if (GATED) a[u][c] = a[u][c] < 0 ? 0.0f : a[u][c];
    }
  }
  if (NEXT && p.packs && there == (1u << STRIP) - 1) {
    pack<T0, WHOLE> whole;
#pragma unroll
    for (int u = 0; u < WHOLE; u++) whole.v[u] = put<T0>(a[u][0]);
    *(pack<T0, WHOLE> *)y = whole;
    return;
  }
#pragma unroll
  for (int u = 0; u < STRIP; u++) {
    if (there >> u & 1) *(pack<T0, PACK> *)y = as_elements(a[u]);
    move_on(y, apart(p, p.at_y));
  }
}

/* Unit t is done: leaves its lines, and makes room for as many, which begin with the bias. */
FN void finish(results &a, const depthwise_job &p, const lane &l, const place &e, const filter &f, int t)
{
#pragma unroll
  for (int o = 0; o < OUT; o++) {
    const int row = p.step[0] * (t * OUT + o) + e.row - p.above;
    if (t >= e.begin && within(row, p.out[0])) leave_line(a[o], p, l, e, row);
  }
#pragma unroll
  for (int k = 0; k < LIVE; k++)
#pragma unroll
    for (int u = 0; u < STRIP; u++)
#pragma unroll
      for (int c = 0; c < PACK; c++) a[k][u][c] = k + OUT < LIVE ? a[k + OUT < LIVE ? k + OUT : k][u][c] : f.bias[c];
}

/* An offset that the compiler cannot know: it would keep all weights that are read by it, more than there is room for. */
FN void forget(int &at)
{
#ifndef CN_SIMT
  if (!KEPT) asm volatile("" : "+r"(at));
#endif
}

FN void walk(const depthwise_job &p, const lane &l, const place &e, const filter &f)
{
  const i64 channel = !MANY ? l.channel : BACK ? l.channel * p.many : quotient(l.channel, p.many);
  source s = {p.x + e.image * p.at_x.image + e.in * p.at_x.column + channel * p.at_x.channel,
              inside<COLUMNS>(e.in, p.step[1], p.in[1])};
  line<COLUMNS> now[IN], next[IN];
  results a;
  int at = 0;
#pragma unroll
  for (int k = 0; k < LIVE; k++)
#pragma unroll
    for (int u = 0; u < STRIP; u++)
#pragma unroll
      for (int c = 0; c < PACK; c++) a[k][u][c] = f.bias[c];
  fetch_lines(next, p, s, e, e.begin - LEAD, true);
#pragma unroll TURN
  for (int t = e.begin - LEAD; t < e.end; t++) {
    for (int m = 0; m < (BACK && MANY ? p.many : 1); m++) {
      const bool last = !(BACK && MANY) || m == p.many - 1;
      const source other = {s.x + (last ? 0 : m + 1) * p.at_x.channel, s.there};
#pragma unroll
      for (int i = 0; i < IN; i++) now[i] = next[i];
      fetch_lines(next, p, other, e, t + last, t + last < e.end);
      forget(at);
#pragma unroll
      for (int i = 0; i < IN; i++)
        if (BACK || i < HIGH) add_line(a, now[i], i, f, at + m * PACK);
    }
    finish(a, p, l, e, f, t);
  }
}

/* The filters of the block's channels as numbers, those of neighbouring channels beside each other. */
FN void lay_filters(f32 *taps, const depthwise_job &p, i64 group)
{
  const i64 first = group * p.held;
  for (int k = (int)threadIdx.x; k < p.held * TAPS; k += THREADS)
    if (first + k / TAPS < p.filters) taps[k % TAPS * p.held + k / TAPS] = get(p.w[first * TAPS + k]);
  __syncthreads();
}

KERNEL(depthwise, depthwise_job)
{
  DYNAMIC_SHARED(f32, taps);
  const lane l = lane_of(p, blockIdx.x);
  filter f;
  lay_filters(taps, p, blockIdx.x);
  if (!l.mine) return;
  f.taps = taps + l.pack * PACK * (BACK && MANY ? p.many : 1);
  f.apart = p.held;
#pragma unroll
  for (int c = 0; c < PACK; c++) f.bias[c] = p.b ? get(p.b[l.channel + c]) : 0.0f;
  if (KEPT)
#pragma unroll
    for (int k = 0; k < TAPS; k++) f.kept[KEPT ? k : 0] = *(const pack<f32, PACK> *)(f.taps + k * f.apart);
  for (i64 i = (i64)blockIdx.y * l.slots + l.slot; i < p.items; i += (i64)gridDim.y * l.slots)
    walk(p, l, place_of(p, i), f);
}

/* ---- the gradient of the filter ---- */

typedef f32 sums[HIGH][WIDE][PACK];

/* g: the lines of the result's gradient that line i of x is part of. */
FN void add_taps(sums &s, const line<COLUMNS> &x, const results &g, int i)
{
  f32 v[COLUMNS][PACK];
  numbers(v, x);
#pragma unroll
  for (int k = 0; k < LIVE; k++) {
    const int down = tap_of(i, k);
    if (down < 0 || down >= HIGH) continue;
#pragma unroll
    for (int b = 0; b < WIDE; b++)
#pragma unroll
      for (int u = 0; u < STRIP; u++)
#pragma unroll
        for (int c = 0; c < PACK; c++)
          s[down][b][c] = fmaf(v[column_of(u, b)][c], g[k][u][c], s[down][b][c]);
  }
}

/* The line of the result's gradient that is needed from unit t on; what other segments have is left out. */
FN void fetch_gradient(line<STRIP> &to, const depthwise_job &p, const T0 *y, const place &e, u32 there, int t)
{
  const int unit = t + LEAD, row = p.step[0] * unit + e.row;
  const bool own = unit >= e.begin && unit < e.end && within(row, p.out[0]);
  fetch(to, y + row * p.at_y.row, apart(p, p.at_y), own ? there : 0);
}

/* up, left: where the first tap of the part is. */
FN void gather(sums &s, const depthwise_job &p, const lane &l, const place &e, int up, int left)
{
  place from = e; /* of x */
  from.row += up, from.in += left;
  const i64 channel = MANY ? quotient(l.channel, p.many) : l.channel;
  const source x = {p.x + e.image * p.at_x.image + from.in * p.at_x.column + channel * p.at_x.channel,
                    inside<COLUMNS>(from.in, p.step[1], p.in[1])};
  const T0 *y = p.y + e.image * p.at_y.image + e.out * p.at_y.column + l.channel * p.at_y.channel;
  const u32 there = inside<STRIP>(e.out, p.step[1], p.out[1]);
  line<COLUMNS> now[IN], next[IN];
  line<STRIP> gradient;
  results g = {};
  fetch_lines(next, p, x, from, e.begin - LEAD, true);
  fetch_gradient(gradient, p, y, e, there, e.begin - LEAD);
#pragma unroll 1
  for (int t = e.begin - LEAD; t < e.end; t++) {
#pragma unroll
    for (int i = 0; i < IN; i++) now[i] = next[i];
    numbers(g[LEAD], gradient);
    fetch_lines(next, p, x, from, t + 1, t + 1 < e.end);
    fetch_gradient(gradient, p, y, e, there, t + 1);
#pragma unroll
    for (int i = 0; i < IN; i++)
      if (i < HIGH) add_taps(s, now[i], g, i);
#pragma unroll
    for (int k = 0; k < LEAD; k++)
#pragma unroll
      for (int u = 0; u < STRIP; u++)
#pragma unroll
        for (int c = 0; c < PACK; c++) g[k][u][c] = g[k + 1][u][c];
  }
}

/* What the block's threads have of the taps, one after another, into partial: a line of taps at a time. */
FN void leave_taps(const sums &s, const depthwise_job &p, const lane &l, i64 group, int up, int left)
{
  __shared__ f32 room[WIDE * THREADS * PACK];
  const int side = p.side * PACK, across = WIDE < p.kernel[1] - left ? WIDE : p.kernel[1] - left;
#pragma unroll
  for (int a = 0; a < HIGH; a++) {
    if (up + a >= p.kernel[0]) return;
    __syncthreads();
#pragma unroll
    for (int b = 0; b < WIDE; b++)
#pragma unroll
      for (int c = 0; c < PACK; c++)
        if (l.pack < p.side && l.slot < l.slots) room[((b * l.slots + l.slot) * p.side + l.pack) * PACK + c] = s[a][b][c];
    __syncthreads();
    const i64 first = ((i64)blockIdx.y * p.kernel[0] + up + a) * p.kernel[1] + left;
    for (int k = (int)threadIdx.x; k < across * side; k += THREADS) {
      const int b = k / side, c = k % side;
      if (group * side + c >= p.channels) continue;
      f32 sum = 0;
      for (int from = 0; from < l.slots; from++) sum += room[(b * l.slots + from) * side + c];
      p.partial[(first + b) * p.channels + group * side + c] = sum;
    }
  }
}

/* Blocks beside each other have parts of the same channels' filters: they read the same. */
KERNEL(depthwise_weight, depthwise_job)
{
  const i64 group = blockIdx.x / p.parts;
  const int part = (int)(blockIdx.x - group * p.parts), across = (p.kernel[1] + WIDE - 1) / WIDE;
  const int up = part / across * HIGH, left = part % across * WIDE;
  const lane l = lane_of(p, group);
  sums s = {};
  if (l.mine)
    for (i64 i = (i64)blockIdx.y * l.slots + l.slot; i < p.items; i += (i64)gridDim.y * l.slots)
      gather(s, p, l, place_of(p, i), up * p.dilation[0], left * p.dilation[1]);
  leave_taps(s, p, l, group, up, left);
}

/* A warp's lanes have weights beside each other, the block's warps every 32nd piece of these. */
KERNEL(depthwise_join, depthwise_job)
{
  __shared__ f64 room[THREADS];
  const i64 taps = (i64)p.kernel[0] * p.kernel[1], n = taps * p.channels, i = (i64)blockIdx.x * 32 + LANE;
  const int warp = (int)threadIdx.x >> 5, warps = THREADS / 32;
  f64 sum = 0;
  if (i < n)
#pragma unroll 4
    for (int k = warp; k < p.pieces; k += warps) sum += p.partial[k * n + i];
  room[threadIdx.x] = sum;
  __syncthreads();
  if (warp || i >= n) return;
  for (int k = 1; k < warps; k++) sum += room[k * 32 + LANE];
  const i64 tap = quotient(i, p.channels);
  p.gw[(i - tap * p.channels) * taps + tap] = put<T0>((f32)sum);
}
