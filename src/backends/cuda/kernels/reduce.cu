/* reduce.cu: one engine for every reduction over dims: OP says what is folded and how, N the order of a norm (1, 2,
 * 3: infinity), and whether the kernel for columns by vectors is meant (8).
 *
 * T0 is the type of x, T1 that of y (elements are cast to it first, where OP folds values of y's type). A block has
 * `lanes` threads for each of its THREADS / lanes results; `parts` blocks share a result's elements, and a second
 * launch (stage 1) joins what they found. Threads side by side read neighbouring elements: they are lanes of one
 * result (rows) or belong to neighbouring results (columns). Invariant: what is joined with what depends on shapes
 * and the device alone, so results are the same every time. */
#include "codegen/device.cuh"
#include "common.cuh"

#define COLUMNS (N & 8) /* the kernel for columns alone, which has more registers */
#define ORDER (N & 3)

enum { DIMS = 16, ROWS_AT_ONCE = 4, PACKS_AT_ONCE = 4 };

struct reduce_job {
  const void *x;
  void *y, *y2, *partial;
  i64 outputs, count, chunk;
  i32 parts, lanes, columns, nk, nr, stage, vectors, root;
  f64 number; /* correction of a variance, order of a norm */
  i64 ksize[DIMS], kin[DIMS]; /* kept dims, in the result's order */
  i64 rsize[DIMS], rin[DIMS]; /* reduced ones, largest stride first (argmax: in the input's order) */
};

typedef wide_of<T0>::type X;
typedef wide_of<T1>::type A;
template <class V> struct sums_in { typedef V type; };
template <> struct sums_in<f32> { typedef f64 type; };
typedef sums_in<A>::type W;

template <class F, class T> struct same_type { enum { value = 0 }; };
template <class F> struct same_type<F, F> { enum { value = 1 }; };
FN A cast(T0 v)
{
  if (same_type<T0, T1>::value) return (A)get(v);
  return get(put<T1>(get(v)));
}
FN X larger_size(X v) { return v < (X)0 ? (X)0 - v : v; }

/* The elements of a pack, cast. */
template <int V> FN void casts(A *v, const pack<T0, V> &p)
{
  if (same_type<T0, T1>::value || same_type<T1, A>::value) unpack<T0, V>(v, p);
  else
#pragma unroll
    for (int i = 0; i < V; i++) v[i] = cast(p.v[i]);
}

/* ---- what is folded: state, neutral state, adding elements, joining, storing. adds: a pack of one result's; lines:
 * COUNT packs, `step` apart, of V results ---- */
struct sum_op {
  typedef W state;
  FN state none() { return 0; }
  FN void add(state &s, T0 v, i64) { s += (W)cast(v); }
  template <int V> FN void adds(state &s, const pack<T0, V> &p, i64)
  {
    A v[V], a = 0;
    casts<V>(v, p);
#pragma unroll
    for (int i = 0; i < V; i++) a += v[i];
    s += (W)a;
  }
  template <int V, int COUNT> FN void lines(state *s, const pack<T0, V> *p, i64, i64)
  {
    A v[V], a[V] = {};
#pragma unroll
    for (int k = 0; k < COUNT; k++) {
      casts<V>(v, p[k]);
#pragma unroll
      for (int i = 0; i < V; i++) a[i] += v[i];
    }
#pragma unroll
    for (int i = 0; i < V; i++) s[i] += (W)a[i];
  }
  FN state join(state a, state b) { return a + b; }
  FN void finish(const reduce_job &p, i64 o, state s) { ((T1 *)p.y)[o] = put<T1>(s); }
};

struct mean_op : sum_op {
  FN void finish(const reduce_job &p, i64 o, state s) { ((T1 *)p.y)[o] = put<T1>(s / (W)p.count); }
};

#define EACH_LINE                                                                                 \
  template <int V, int COUNT> FN void lines(state *s, const pack<T0, V> *p, i64 at, i64 step)     \
  {                                                                                               \
    _Pragma("unroll") for (int k = 0; k < COUNT; k++)                                             \
      _Pragma("unroll") for (int i = 0; i < V; i++) add(s[i], p[k].v[i], at + k * step);          \
  }
#define ADD_EACH                                                                                  \
  template <int V> FN void adds(state &s, const pack<T0, V> &p, i64 at)                           \
  {                                                                                               \
    for (int i = 0; i < V; i++) add(s, p.v[i], at + i);                                           \
  }                                                                                               \
  EACH_LINE

struct prod_op {
  typedef W state;
  FN state none() { return 1; }
  FN void add(state &s, T0 v, i64) { s *= (W)cast(v); }
  ADD_EACH
  FN state join(state a, state b) { return a * b; }
  FN void finish(const reduce_job &p, i64 o, state s) { ((T1 *)p.y)[o] = put<T1>(s); }
};

/* An extreme and where it stands first; NaN is more extreme than any number. at < 0: none yet. */
struct extreme {
  X value;
  i64 at;
};
template <bool MAX> struct extreme_op {
  typedef extreme state;
  FN state none() { return extreme{0, -1}; }
  FN bool better(X v, X than)
  {
    if (than != than) return false;
    return v != v || (MAX ? v > than : v < than);
  }
  FN void add(state &s, T0 e, i64 at)
  {
    const X v = get(e);
    if (s.at < 0 || better(v, s.value)) s = extreme{v, at};
  }
  ADD_EACH
  FN state join(state a, state b)
  {
    if (a.at < 0 || b.at < 0) return a.at < 0 ? b : a;
    if (better(b.value, a.value)) return b;
    return !better(a.value, b.value) && b.at < a.at ? b : a;
  }
  FN void finish(const reduce_job &p, i64 o, state s)
  {
    if (p.y) ((T0 *)p.y)[o] = put<T0>(s.value);
    if (p.y2) ((i64 *)p.y2)[o] = s.at;
  }
};
typedef extreme_op<true> max_op;
typedef extreme_op<false> min_op;

struct count_op {
  typedef i64 state;
  FN state none() { return 0; }
  FN void add(state &s, T0 v, i64) { s += get(v) != (X)0; }
  ADD_EACH
  FN state join(state a, state b) { return a + b; }
  FN void finish(const reduce_job &p, i64 o, state s) { ((T1 *)p.y)[o] = put<T1>(s); }
};
struct any_op : count_op {
  FN void finish(const reduce_job &p, i64 o, state s) { ((T1 *)p.y)[o] = put<T1>((i64)(s > 0)); }
};
struct all_op : count_op {
  FN void finish(const reduce_job &p, i64 o, state s) { ((T1 *)p.y)[o] = put<T1>((i64)(s == p.count)); }
};

/* Mean and sum of squared distances from it (Welford, Chan). */
struct moments {
  f64 n, mean, m2;
};
struct var_op {
  typedef moments state;
  FN state none() { return moments{0, 0, 0}; }
  FN void add(state &s, T0 e, i64)
  {
    const f64 v = (f64)get(e), d = v - s.mean;
    s.n += 1;
    s.mean += d / s.n;
    s.m2 += d * (v - s.mean);
  }
  template <int V> FN void adds(state &s, const pack<T0, V> &p, i64)
  {
    X v[V], sum = 0, m2 = 0;
    unpack<T0, V>(v, p);
#pragma unroll
    for (int i = 0; i < V; i++) sum += v[i];
    const X mean = sum / (X)V;
#pragma unroll
    for (int i = 0; i < V; i++) m2 += (v[i] - mean) * (v[i] - mean);
    s = join(s, moments{(f64)V, (f64)mean, (f64)m2});
  }
  EACH_LINE
  FN state join(state a, state b)
  {
    if (a.n == 0 || b.n == 0) return a.n == 0 ? b : a;
    const f64 n = a.n + b.n, d = b.mean - a.mean;
    return moments{n, a.mean + d * (b.n / n), a.m2 + b.m2 + d * d * (a.n * (b.n / n))};
  }
  FN void finish(const reduce_job &p, i64 o, state s)
  {
    const f64 left = s.n - p.number, var = s.m2 / (left > 0 ? left : 0), mean = s.n > 0 ? s.mean : NAN_F64;
    if (p.y) ((T1 *)p.y)[o] = put<T1>(s.n > 0 ? (p.root ? sqrt(var) : var) : NAN_F64);
    if (p.y2) ((T1 *)p.y2)[o] = put<T1>(mean + (mean - mean)); /* an infinite mean is NaN */
  }
};

/* sum |x|^p, then its root, p 1 or 2; the largest |x| for 3, which stands for infinity. */
struct norm_op {
  typedef f64 state;
  FN state none() { return 0; }
  FN void add(state &s, T0 v, i64) { s = join(s, power((f64)larger_size((X)cast(v)))); }
  FN f64 power(f64 v) { return ORDER == 2 ? v * v : v; }
  ADD_EACH
  FN state join(state a, state b) { return ORDER == 3 ? larger(a, b) : a + b; }
  FN void finish(const reduce_job &p, i64 o, state s) { ((T1 *)p.y)[o] = put<T1>(ORDER == 2 ? sqrt(s) : s); }
};

/* log(sum(exp(x))) as a largest element and a sum relative to it. */
struct lse {
  f64 sum;
  X most;
};
struct logsumexp_op {
  typedef lse state;
  FN state none() { return lse{0, (X)-INF_F64}; }
  FN f64 exp_of(X v) { return sizeof(X) == 4 ? (f64)expf((f32)v) : exp((f64)v); }
  FN void merge(state &s, X most, f64 sum)
  {
    if (most == s.most) s.sum += sum;
    else if (most > s.most) s = lse{(s.sum > 0 ? s.sum * exp_of(s.most - most) : s.sum) + sum, most};
    else if (sum != 0) s.sum += most == most ? sum * exp_of(most - s.most) : (f64)most;
  }
  FN void add(state &s, T0 v, i64) { merge(s, get(v), 1); }
  ADD_EACH
  FN state join(state a, state b)
  {
    merge(a, b.most, b.sum);
    return a;
  }
  FN void finish(const reduce_job &p, i64 o, state s)
  {
    const f64 most = (f64)s.most;
    f64 y = most + log(s.sum);
    if (most == INF_F64 || most == -INF_F64) y = s.sum == s.sum ? most : s.sum;
    ((T1 *)p.y)[o] = put<T1>(y);
  }
};

/* ---- the engine ---- */

typedef OP::state S;
enum { V = sizeof(T0) >= 8 ? 2 : 16 / sizeof(T0) >= 8 ? 8 : 16 / sizeof(T0) };

/* Elements begin, begin + step, ... below end of the range at x. */
FN S fold(const T0 *x, i64 begin, i64 end, i64 step, const reduce_job &p)
{
  S s = OP::none();
  i64 j = begin;
  if (p.nr > 1) {
    for (; j < end; j += step) OP::add(s, x[offset_of(j, p.nr, p.rsize, p.rin)], j);
    return s;
  }
  const i64 stride = p.nr ? p.rin[0] : 0;
  for (; j + (ROWS_AT_ONCE - 1) * step < end; j += ROWS_AT_ONCE * step) {
    T0 v[ROWS_AT_ONCE];
#pragma unroll
    for (int k = 0; k < ROWS_AT_ONCE; k++) v[k] = x[(j + k * step) * stride];
#pragma unroll
    for (int k = 0; k < ROWS_AT_ONCE; k++) OP::add(s, v[k], j + k * step);
  }
  for (; j < end; j += step) OP::add(s, x[j * stride], j);
  return s;
}

/* The same of a dense range, V elements at a time: all but the first and the last ones are whole packs of memory. */
FN S fold_vectors(const T0 *x, i64 begin, i64 end, int lane, int lanes)
{
  S s = OP::none();
  const i64 step = (i64)lanes * V, first = begin - (i64)((u64)(x + begin) / sizeof(T0) & (V - 1));
  i64 j = first + (i64)lane * V;
  if (j < begin) {
    for (i64 k = begin; k < j + V && k < end; k++) OP::add(s, x[k], k);
    j += step;
  }
  for (; j + (PACKS_AT_ONCE - 1) * step + V <= end; j += PACKS_AT_ONCE * step) {
    pack<T0, V> a[PACKS_AT_ONCE];
#pragma unroll
    for (int k = 0; k < PACKS_AT_ONCE; k++) a[k] = *(const pack<T0, V> *)(x + j + k * step);
#pragma unroll
    for (int k = 0; k < PACKS_AT_ONCE; k++) OP::template adds<V>(s, a[k], j + k * step);
  }
  for (; j < end; j += step)
    if (j + V <= end) OP::template adds<V>(s, *(const pack<T0, V> *)(x + j), j);
    else
      for (i64 k = j; k < end; k++) OP::add(s, x[k], k);
  return s;
}

/* The lanes of each result, `apart` from each other, join in the first one's place. All threads of a block call it. */
FN void join_lanes(S *room, int lane, int lanes, int apart)
{
  const bool in_warp = lanes * apart <= 32;
  for (int w = lanes / 2; w > 0; w /= 2) {
    if (in_warp) __syncwarp();
    else __syncthreads();
    if (lane < w) room[threadIdx.x] = OP::join(room[threadIdx.x], room[threadIdx.x + w * apart]);
  }
}

FN void put_state(const reduce_job &p, i64 o, S s)
{
  if (p.parts > 1 && !p.stage) ((S *)p.partial)[blockIdx.y * p.outputs + o] = s;
  else OP::finish(p, o, s);
}

#if COLUMNS
/* V neighbouring results of a thread: columns of dense rows, `rin[0]` apart. */
KERNEL(reduce_columns, reduce_job)
{
  __shared__ S room[THREADS];
  const int per = THREADS / p.lanes, t = (int)threadIdx.x, lane = t / per, mine = t & (per - 1);
  const i64 o = ((i64)blockIdx.x * per + mine) * V, begin = blockIdx.y * p.chunk;
  const i64 end = begin + p.chunk < p.count ? begin + p.chunk : p.count;
  const T0 *x = (const T0 *)p.x + (o < p.outputs ? offset_of(o, p.nk, p.ksize, p.kin) : 0);
  S s[V];
#pragma unroll
  for (int i = 0; i < V; i++) s[i] = OP::none();
  if (o < p.outputs) {
    i64 j = begin + lane;
    for (; j + (ROWS_AT_ONCE - 1) * p.lanes < end; j += ROWS_AT_ONCE * p.lanes) {
      pack<T0, V> a[ROWS_AT_ONCE];
#pragma unroll
      for (int k = 0; k < ROWS_AT_ONCE; k++) a[k] = *(const pack<T0, V> *)(x + (j + k * p.lanes) * p.rin[0]);
      OP::template lines<V, ROWS_AT_ONCE>(s, a, j, p.lanes);
    }
    for (; j < end; j += p.lanes) OP::template lines<V, 1>(s, (const pack<T0, V> *)(x + j * p.rin[0]), j, 0);
  }
#pragma unroll
  for (int i = 0; i < V; i++) {
    __syncthreads();
    room[t] = s[i];
    join_lanes(room, lane, p.lanes, per);
    if (lane == 0 && o < p.outputs) put_state(p, o + i, room[t]);
  }
}

#else
KERNEL(reduce, reduce_job)
{
  __shared__ S room[THREADS];
  const int per = THREADS / p.lanes, t = (int)threadIdx.x;
  const int lane = p.columns ? t / per : t & (p.lanes - 1), mine = p.columns ? t & (per - 1) : t / p.lanes;
  const i64 o = (i64)blockIdx.x * per + mine, begin = blockIdx.y * p.chunk;
  const i64 end = begin + p.chunk < p.count ? begin + p.chunk : p.count;
  S s = OP::none();
  if (o < p.outputs) {
    if (p.stage) {
      for (int k = lane; k < p.parts; k += p.lanes) s = OP::join(s, ((const S *)p.partial)[k * p.outputs + o]);
    } else {
      const T0 *x = (const T0 *)p.x + offset_of(o, p.nk, p.ksize, p.kin);
      s = p.vectors ? fold_vectors(x, begin, end, lane, p.lanes) : fold(x, begin + lane, end, p.lanes, p);
    }
  }
  room[t] = s;
  join_lanes(room, lane, p.lanes, p.columns ? per : 1);
  if (lane == 0 && o < p.outputs) put_state(p, o, room[t]);
}
#endif
