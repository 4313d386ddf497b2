/* choose_token.cu: the token that follows, by its scores: temperature, top-k, top-p, repetition penalty. A block for each
 * row.
 *
 * Tokens are never sorted: in the order of their weights, the likeliest first, a cut is where the weights, or the tokens,
 * before it make up a certain mass, and it is found bit by bit, two bits of a weight in each pass over the row. Masses
 * are integers, so that they do not depend on the order of additions. T0 is the type of scores. Invariant: the choice is
 * the CPU's for these scores, but where its number meets the very edge of a token's share. */
#include "codegen/device.cuh"
#include "common.cuh"

enum { V = 16 / sizeof(T0) };
typedef pack<T0, V> piece;

struct choose_job {
  i64 *tokens, *current, *position, *ended; /* (rows, length), (rows, 1), (rows), (rows) */
  const T0 *scores;                         /* (rows, vocab), `stride` from row to row */
  const f64 *uniforms;
  u32 *keys;                                /* (rows, vocab): weights as integers; NULL: all tokens are in the draw */
  i64 length, vocab, stride, nuniforms, prompt, top_k, stop;
  f64 temperature, top_p, penalty;
  i32 rows, aligned;                        /* do rows begin with a pack? */
  fault_slot fault;
};

/* ---- scores ---- */

/* Bits of the tokens that came already. */
FN void mark(const choose_job &p, u32 *marks, const i64 *tokens, i64 n)
{
  for (i64 i = threadIdx.x; i < (p.vocab + 31) / 32; i += THREADS) marks[i] = 0;
  __syncthreads();
  for (i64 i = threadIdx.x; i < n; i += THREADS)
    if (tokens[i] >= 0 && tokens[i] < p.vocab) atomicOr(&marks[tokens[i] >> 5], 1u << (tokens[i] & 31));
  __syncthreads();
}

FN f32 penalised(const choose_job &p, const u32 *marks, i64 i, f32 v)
{
  if (!marks || !(marks[i >> 5] >> (i & 31) & 1)) return v;
  return (f32)(v > 0 ? (f64)v / p.penalty : (f64)v * p.penalty);
}

struct best {
  f32 v;
  i64 i;
};

FN best better(best a, best b) { return b.v > a.v || (b.v == a.v && b.i < a.i) ? b : a; }

FN best block_best(best a)
{
  __shared__ best room[THREADS / 32];
  for (int m = 16; m > 0; m >>= 1) {
    const best b = {__shfl_xor_sync(FULL, a.v, m), __shfl_xor_sync(FULL, a.i, m)};
    a = better(a, b);
  }
  if (LANE == 0) room[threadIdx.x >> 5] = a;
  __syncthreads();
  a = room[LANE % (THREADS / 32)];
  for (int m = THREADS / 64; m > 0; m >>= 1) {
    const best b = {__shfl_xor_sync(FULL, a.v, m), __shfl_xor_sync(FULL, a.i, m)};
    a = better(a, b);
  }
  return a;
}

/* The first of the largest scores. */
FN best likeliest(const choose_job &p, const T0 *scores, const u32 *marks)
{
  best a = {-INF_F32, 0x7fffffffffffffffll};
  const i64 packed = p.aligned ? p.vocab / V : 0;
#pragma unroll 8
  for (i64 i = threadIdx.x; i < packed; i += THREADS) {
    const piece e = ((const piece *)scores)[i];
#pragma unroll
    for (int k = 0; k < V; k++) { /* from the first on, so that none of the same score comes before */
      const f32 v = penalised(p, marks, i * V + k, (f32)get(e.v[k]));
      if (v > a.v) a.v = v, a.i = i * V + k;
    }
  }
  for (i64 i = packed * V + threadIdx.x; i < p.vocab; i += THREADS) {
    const best b = {penalised(p, marks, i, (f32)get(scores[i])), i};
    a = better(a, b);
  }
  a = block_best(a);
  if (a.i >= p.vocab) a.i = 0; /* none is a number */
  return a;
}

/* ---- weights: at most 1, which is ONE as an integer ---- */
static const u64 ONE = 1ull << 40;

FN u64 mass_of(f32 w) { return (u64)(w * (f32)ONE); }

FN f32 weight_of(const choose_job &p, const T0 *scores, const u32 *marks, i64 i, f32 most)
{
  return expf((f32)((f64)(penalised(p, marks, i, (f32)get(scores[i])) - most) / p.temperature));
}

/* The sum of what threads before this one have; *all: of all. */
FN u64 before_me(u64 mine, u64 *all)
{
  __shared__ u64 room[THREADS];
  u64 sum = mine;
  __syncthreads();
  for (int m = 1; m < THREADS; m *= 2) {
    room[threadIdx.x] = sum;
    __syncthreads();
    if ((int)threadIdx.x >= m) sum += room[threadIdx.x - m];
    __syncthreads();
  }
  room[threadIdx.x] = sum;
  __syncthreads();
  *all = room[THREADS - 1];
  return sum - mine;
}

/* A thread's own stretch of the vocabulary. */
#define STRETCH ((p.vocab + THREADS - 1) / THREADS)
#define STRETCH_BEGIN(t) ((t) * STRETCH < p.vocab ? (t) * STRETCH : p.vocab)

/* Among all tokens, the last one first. */
FN i64 draw_any(const choose_job &p, const T0 *scores, const u32 *marks, f32 most, f64 uniform)
{
  __shared__ i64 chosen;
  const i64 turn = THREADS - 1 - (i64)threadIdx.x, begin = STRETCH_BEGIN(turn), end = STRETCH_BEGIN(turn + 1);
  u64 mine = 0, all;
  int bad = 0;
  for (i64 i = begin; i < end; i++) {
    const f32 w = weight_of(p, scores, marks, i, most);
    bad |= w != w;
    mine += mass_of(w);
  }
  if (bad) report_fault(p.fault, FAULT_VALUE, 0, 0);
  if (threadIdx.x == 0) chosen = 0;
  const u64 first = before_me(mine, &all), wanted = (u64)(uniform * (f64)all);
  if (wanted >= first && wanted - first < mine) {
    u64 rest = wanted - first;
    i64 i = end - 1;
    for (u64 w; i > begin && rest >= (w = mass_of(weight_of(p, scores, marks, i, most))); i--) rest -= w;
    chosen = i;
  }
  __syncthreads();
  return chosen;
}

/* ---- the likeliest ones ---- */

struct cut {
  u32 key;          /* the least weight that is still needed, as an integer */
  u64 count, above; /* tokens, and their mass, of larger weights */
};

FN u64 key_mass(u32 key) { return mass_of(__uint_as_float(key)); }

/* Where the first n tokens of keys (counted), or their masses, from the likeliest on make up `wanted`. */
FN cut find_cut(const u32 *keys, i64 n, u64 wanted, bool counted)
{
  cut c = {0, 0, 0};
  for (int shift = 28; shift >= 0; shift -= 2) {
    u64 m[3] = {0, 0, 0};
#pragma unroll 8
    for (i64 i = threadIdx.x; i < n; i += THREADS) {
      const u32 key = keys[i];
      if (key < c.key + (1u << shift)) continue;
      const u64 w = counted ? 1 : key_mass(key);
#pragma unroll
      for (u32 k = 0; k < 3; k++)
        if (key >= c.key + ((k + 1) << shift)) m[k] += w;
    }
#pragma unroll
    for (int k = 0; k < 3; k++) m[k] = block_sum(m[k]);
    c.key += (m[2] >= wanted ? 3u : m[1] >= wanted ? 2u : m[0] >= wanted ? 1u : 0u) << shift;
  }
#pragma unroll 8
  for (i64 i = threadIdx.x; i < n; i += THREADS)
    if (keys[i] > c.key) c.count++, c.above += key_mass(keys[i]);
  c.count = block_sum(c.count);
  c.above = block_sum(c.above);
  return c;
}

/* The n-th token of this weight. */
FN i64 nth_of(const choose_job &p, const u32 *keys, u32 key, u64 n)
{
  __shared__ i64 chosen;
  const i64 begin = STRETCH_BEGIN((i64)threadIdx.x), end = STRETCH_BEGIN((i64)threadIdx.x + 1);
  u64 mine = 0, all;
  for (i64 i = begin; i < end; i++) mine += keys[i] == key;
  if (threadIdx.x == 0) chosen = 0;
  u64 first = before_me(mine, &all);
  for (i64 i = begin; i < end && n >= first && n - first < mine; i++)
    if (keys[i] == key && first++ == n) {
      chosen = i;
      break;
    }
  __syncthreads();
  return chosen;
}

/* What is left of keys behind a cut is all that matters from then on: the others move together, if they are few. */
struct remaining {
  const u32 *keys;
  i64 n;
};

FN remaining keep(const choose_job &p, const u32 *keys, u32 least)
{
  __shared__ u32 few[THREADS];
  __shared__ int n;
  if (threadIdx.x == 0) n = 0;
  __syncthreads();
#pragma unroll 8
  for (i64 i = threadIdx.x; i < p.vocab; i += THREADS)
    if (keys[i] >= least) {
      const int at = atomicAdd(&n, 1);
      if (at < THREADS) few[at] = keys[i];
    }
  __syncthreads();
  const remaining all = {keys, p.vocab}, short_list = {few, n};
  return n <= THREADS ? short_list : all;
}

FN i64 draw_likely(const choose_job &p, u32 *keys, const T0 *scores, const u32 *marks, f32 most, f64 uniform)
{
  u64 all = 0;
  int bad = 0;
  for (i64 i = threadIdx.x; i < p.vocab; i += THREADS) {
    const f32 w = weight_of(p, scores, marks, i, most);
    bad |= w != w;
    keys[i] = w == w ? __float_as_uint(w) : 0;
    all += mass_of(w == w ? w : 0);
  }
  if (bad) report_fault(p.fault, FAULT_VALUE, 0, 0);
  all = block_sum(all); /* all keys are there behind its barrier */
  remaining r = {keys, p.vocab};
  if (p.top_k < p.vocab) {
    const cut c = find_cut(r.keys, r.n, (u64)p.top_k, true);
    r = keep(p, keys, c.key);
    all = c.above + ((u64)p.top_k - c.count) * key_mass(c.key);
  }
  if (p.top_p < 1) {
    u64 wanted = (u64)ceil(p.top_p * (f64)all);
    wanted = wanted < 1 ? 1 : wanted > all ? all : wanted;
    const cut c = find_cut(r.keys, r.n, wanted, false);
    const u64 each = key_mass(c.key);
    if (r.keys == keys) r = keep(p, keys, c.key);
    all = c.above + (each ? (wanted - c.above + each - 1) / each * each : 0);
  }
  u64 at = (u64)(uniform * (f64)all);
  if (at >= all) at = all - 1;
  const cut c = find_cut(r.keys, r.n, at + 1, false);
  const u64 each = key_mass(c.key);
  return nth_of(p, keys, c.key, each ? (at - c.above) / each : 0);
}

/* ---- a row ---- */

/* How many draws came before that of this row, whose last token is at `at`. A row that ends meanwhile counts alike. */
FN i64 draws_before(const choose_job &p, i64 row, i64 at)
{
  i64 n = 0;
  for (i64 r = threadIdx.x; r < p.rows; r += THREADS) {
    const i64 end = *(volatile const i64 *)&p.ended[r];
    n += (end < at ? end : at) + 1 - p.prompt + (r < row && end > at);
  }
  return block_sum(n);
}

KERNEL(choose_token, choose_job)
{
  DYNAMIC_SHARED(u32, room);
  wait_for_previous();
  const i64 row = blockIdx.x, at = p.position[row];
  i64 *tokens = p.tokens + row * p.length, token = p.stop;
  const T0 *scores = p.scores + row * p.stride;
  u32 *marks = p.penalty != 1 ? room : 0;
  if (at < 0 || at + 1 >= p.length) return;
  const bool over = p.ended[row] <= at;
  if (!over) {
    if (marks) mark(p, marks, tokens, at + 1);
    const best b = likeliest(p, scores, marks);
    token = b.i;
    if (p.temperature != 0) {
      const i64 n = draws_before(p, row, at);
      const bool known = n >= 0 && n < p.nuniforms;
      const f64 uniform = known ? p.uniforms[n] : 0;
      if (!known && threadIdx.x == 0) report_fault(p.fault, FAULT_INDEX, n, p.nuniforms);
      token = p.keys ? draw_likely(p, p.keys + row * p.vocab, scores, marks, b.v, uniform)
                     : draw_any(p, scores, marks, b.v, uniform);
    }
  }
  __syncthreads(); /* the row's state is read */
  if (threadIdx.x) return;
  tokens[at + 1] = token;
  p.current[row] = token;
  p.position[row] = at + 1;
  if (!over && token == p.stop) p.ended[row] = at + 1;
}
