/* flash.cuh: what attention's kernels share, forward (flash.cu) and backward (flash_grad.cu): where a block's work is,
 * tiles on their way to shared memory, scores, and dropout's draws.
 *
 * T0 is the type of queries, keys and values, T1 the mask's, N the widest of a key and a value, rounded up to 16: what
 * is beyond a row's width is zeros. A warp multiplies 16 rows by 16 keys or queries at a time. Element (query, key) of
 * the scores is number (head, query, key) of a dense tensor, whose draw is native_dropout's. Invariant: the same
 * element is dropped in every kernel, and every sum has a fixed order. */

enum {
  CAUSAL = FORM & 1,      /* a query sees keys up to its own position */
  MASKED = FORM >> 1 & 1,
  DROPS = FORM >> 2 & 1,
  ODD = FORM >> 3 & 1,    /* fours of keys do not begin where those of draws do */
  ROWS = 16,              /* of a warp */
  WARPS = THREADS / 32,
  TILE = 64,              /* keys or queries of a tile */
  DEPTH = N / 16,         /* steps of a product over the width */
  PITCH = N + 8           /* of a tile's rows: 8 of them lie in different banks */
};
typedef tensor_core<T0> cores;

/* Scores are in units of a logarithm to the base 2, those with a mask in natural ones: numbers near a mask's least
 * would become infinite. */
#define UNIT (MASKED ? 1.44269504f : 1.0f)
#define OF_NATURAL (MASKED ? 1.0f : 1.44269504f)

struct flash_job {
  const T0 *q, *k, *v;
  T0 *out;             /* (B, H, Tq, values): written forward, read backward */
  f32 *lse;            /* (B, H, Tq), likewise */
  const T1 *mask;
  const u64 *draws;    /* key and first counter */
  const T0 *grad;      /* backward: of out, and of its operands */
  T0 *gq, *gk, *gv;
  f32 *delta;          /* (B, H, Tq): each query's sum of grad * out */
  i64 qs[3], ks[3], vs[3], os[3], gs[3], gqs[3], gks[3], gvs[3], ms[4]; /* strides over batch, heads, rows (and keys) */
  i64 rows;            /* queries of all heads */
  i32 heads, share, queries, keys, width, values; /* share: query heads of a key head */
  f32 scale;           /* into the units of scores */
  f32 natural;         /* the same, into natural units */
  f32 rise;            /* what is kept is multiplied by */
  u32 kept;            /* the last word that keeps an element */
};

FN const T0 *at(const T0 *x, const i64 *strides, i64 b, i64 h) { return x + b * strides[0] + h * strides[1]; }
FN T0 *at(T0 *x, const i64 *strides, i64 b, i64 h) { return x + b * strides[0] + h * strides[1]; }

/* TILE rows of x from `first` on, of n, on their way to `tile`, each at its own place. PAIRS: pairs of keys lie so that
 * a thread has four neighbours of a row of scores: keys 4 t and on are columns 2 t and on of both halves of 16. */
template <bool PAIRS> FN void fetch(T0 *tile, const T0 *x, i64 stride, int first, int n, int width)
{
#pragma unroll
  for (int i = 0; i < TILE * N / 8 / THREADS; i++) {
    const int c = i * THREADS + (int)threadIdx.x, row = c / (N / 8), column = c % (N / 8) * 8;
    const int place = PAIRS ? (row & ~15) + (row / 2 % 2 * 8) + row % 16 / 4 * 2 + row % 2 : row;
    const bool there = first + row < n && column < width;
    copy_async<16>(tile + place * PITCH + column, there ? x + (first + row) * stride + column : x, there ? 16 : 0);
  }
}

/* Rows `low` and `high` of x, one of the 8 above and one of the 8 below of a warp's, as the left factor of products over
 * the width. */
FN void take_rows(u32 (*to)[4], const T0 *x, i64 stride, int low, int high, int n, int width)
{
#pragma unroll
  for (int i = 0; i < DEPTH; i++)
#pragma unroll
    for (int part = 0; part < 4; part++) {
      const int row = part % 2 ? high : low, column = i * 16 + part / 2 * 8 + LANE % 4 * 2;
      to[i][part] = row < n && column < width ? *(const u32 *)(x + row * stride + column) : 0;
    }
}

/* Such rows of a result: sums[c] has columns 8 c and on. */
FN void put_rows(T0 *x, i64 stride, int low, int high, int n, int width, const f32 (*sums)[4], f32 by_low, f32 by_high)
{
#pragma unroll
  for (int c = 0; c < N / 8; c++) {
    const int column = c * 8 + LANE % 4 * 2;
    if (column >= width) continue;
    if (low < n) *(u32 *)(x + low * stride + column) = word_of(sums[c][0] * by_low, sums[c][1] * by_low);
    if (high < n) *(u32 *)(x + high * stride + column) = word_of(sums[c][2] * by_high, sums[c][3] * by_high);
  }
}

/* made (16, 16) = rows times the tile's rows 16 `step` and on. */
FN void multiply_rows(f32 (*made)[4], const u32 (*rows)[4], const T0 *tile, int step)
{
  const T0 *from = tile + (step * 16 + LANE / 16 * 8 + LANE % 8) * PITCH + LANE / 8 % 2 * 8;
#pragma unroll
  for (int i = 0; i < 4; i++) made[0][i] = made[1][i] = 0;
#pragma unroll
  for (int i = 0; i < DEPTH; i++) {
    u32 b[4];
    load_matrices(b, (const words *)(from + i * 16));
    cores::multiply(made[0], rows[i][0], rows[i][1], rows[i][2], rows[i][3], b[0], b[1]);
    cores::multiply(made[1], rows[i][0], rows[i][1], rows[i][2], rows[i][3], b[2], b[3]);
  }
}

/* sums (16, N) += w (16, 16) times the tile's rows 16 `step` and on. */
FN void add_rows(f32 (*sums)[4], const f32 (*w)[4], const T0 *tile, int step)
{
  const u32 a[4] = {word_of(w[0][0], w[0][1]), word_of(w[0][2], w[0][3]), word_of(w[1][0], w[1][1]),
                    word_of(w[1][2], w[1][3])};
  const T0 *from = tile + (step * 16 + LANE / 8 % 2 * 8 + LANE % 8) * PITCH + LANE / 16 * 8;
#pragma unroll
  for (int i = 0; i < DEPTH; i++) {
    u32 b[4];
    load_turned(b, (const words *)(from + i * 16));
    cores::multiply(sums[2 * i], a[0], a[1], a[2], a[3], b[0], b[1]);
    cores::multiply(sums[2 * i + 1], a[0], a[1], a[2], a[3], b[2], b[3]);
  }
}

FN f32 with_mask(f32 score, b8 m) { return m.bits ? score : -INF_F32; }
template <class T> FN f32 with_mask(f32 score, T m) { return score + (f32)get(m); }

/* Products (16, 16) become scores. Rows are queries and columns keys in pairs, or, TURNED, columns are queries in order
 * and rows keys. low, high: this thread's rows; column: its first. edge: some are not seen. mask: of the head. */
template <bool TURNED>
FN void make_scores(f32 (*s)[4], const flash_job &p, const T1 *mask, int low, int high, int column, bool edge)
{
#pragma unroll
  for (int i = 0; i < 8; i++) {
    const int row = i % 4 / 2 ? high : low, beside = column + i / 4 * (TURNED ? 8 : 2) + i % 2;
    const int query = TURNED ? beside : row, key = TURNED ? row : beside;
    s[i / 4][i % 4] *= p.scale;
    if (MASKED && (!edge || (query < p.queries && key < p.keys)))
      s[i / 4][i % 4] = with_mask(s[i / 4][i % 4], mask[query * p.ms[2] + key * p.ms[3]]);
  }
  if (!edge) return;
#pragma unroll
  for (int i = 0; i < 8; i++) {
    const int row = i % 4 / 2 ? high : low, beside = column + i / 4 * (TURNED ? 8 : 2) + i % 2;
    const int query = TURNED ? beside : row, key = TURNED ? row : beside;
    if (key >= p.keys || (CAUSAL && key > query)) s[i / 4][i % 4] = -INF_F32;
  }
}

/* The words of keys `key` (a multiple of 4) to `key` + 3 of a query, `row` among those of all heads. */
FN void draw(u32 *w, const flash_job &p, u64 seed, u64 first, i64 row, int key)
{
  if (!ODD) {
    cni_philox(seed, first + (u64)(row * (p.keys / 4) + key / 4), 0, w);
    return;
  }
  const u64 at = (u64)(row * p.keys + key);
  u32 both[8];
  cni_philox(seed, first + at / 4, 0, both);
  cni_philox(seed, first + at / 4 + 1, 0, both + 4);
#pragma unroll
  for (int i = 0; i < 4; i++) {
    w[i] = both[i];
#pragma unroll
    for (int skip = 1; skip < 4; skip++)
      if ((int)(at % 4) == skip) w[i] = both[i + skip];
  }
}

/* Zeros in the place of what is dropped of w (16 queries, 16 keys in pairs). row: of the first of this thread's two
 * queries, the other is 8 on. */
FN void drop(f32 (*w)[4], const flash_job &p, u64 seed, u64 first, i64 row, int key)
{
#pragma unroll
  for (int half = 0; half < 2; half++) {
    u32 words[4];
    draw(words, p, seed, first, row + half * 8, key);
#pragma unroll
    for (int i = 0; i < 4; i++)
      if (words[i] > p.kept) w[i / 2][half * 2 + i % 2] = 0;
  }
}

/* Over the four threads that have a row. */
FN f32 row_sum(f32 v)
{
  v += __shfl_xor_sync(FULL, v, 1);
  return v + __shfl_xor_sync(FULL, v, 2);
}
FN f32 row_max(f32 v)
{
  v = fmaxf(v, __shfl_xor_sync(FULL, v, 1));
  return fmaxf(v, __shfl_xor_sync(FULL, v, 2));
}
