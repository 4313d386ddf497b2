/* sort.cu: stable sorting of rows, and the first k of them.
 *
 * T0 is the element type. Elements become unsigned keys whose order is theirs (NaN last; all bits flipped for
 * descending order); equal keys keep the order of their indices. Short rows: one block sorts (key, index) pairs in
 * shared memory. The first k of long rows: one block finds the k-th key digit by digit, collects, sorts; where k is
 * small, it takes the best of each of many groups, of which the k-th bounds the row's, and sorts what is within. Long rows:
 * radix sort by eight bits a pass, each pass one kernel, whose blocks learn from those before them where their elements
 * go. Invariant: ties are always broken by the lower index. */
#include "codegen/device.cuh"
#include "common.cuh"

struct sort_job {
  const T0 *x;     /* (rows, n) */
  T0 *values;      /* (rows, k); NULL: not wanted */
  i64 *indices;    /* (rows, k) */
  i64 rows, n, k;
  i32 flip, only_last, padded, shift; /* padded: a power of two; only_last: write the k-th alone */
  i32 tiles, pass, passes, unused;    /* tiles of a row: radix; sort_few: parts that are rows by themselves, the last */
                                      /* one longer */
  void *keys_in, *keys_out;           /* (rows, n) */
  u32 *order_in, *order_out;          /* (rows, n) */
  u32 *totals, *tickets;              /* (rows, passes, 256): elements by digit; (rows, passes): tiles begun */
  u64 *status;                        /* (rows, tiles, 256): of this pass, zero at first; see STATED */
  const i64 *from; /* (rows, n): x are the first k of parts of rows, which stood there; NULL: they are rows */
  i64 part;        /* elements of such a part */
};

template <int BYTES> struct key_of { typedef u32 type; };
template <> struct key_of<8> { typedef u64 type; };
typedef key_of<sizeof(T0)>::type K;
enum { BITS = 8 * sizeof(T0), WARPS = THREADS / 32, ROUNDS = sizeof(K) == 8 ? 8 : 16, TILE = THREADS * ROUNDS };

FN K signed_key(i64 v) { return (K)v ^ (K)1 << (BITS - 1); }
FN K key(b8 v) { return v.bits != 0; }
FN K key(u8 v) { return v; }
FN K key(u16 v) { return v; }
FN K key(u32 v) { return v; }
FN K key(u64 v) { return (K)v; }
FN K key(i8 v) { return (u8)(v ^ 0x80); }
FN K key(i16 v) { return (u16)(v ^ 0x8000); }
FN K key(i32 v) { return (u32)v ^ 0x80000000u; }
FN K key(i64 v) { return signed_key(v); }
/* Zeros are equal whatever their sign, NaNs equal and above all. */
FN K float_key(u64 bits, bool nan, bool zero)
{
  const u64 sign = (u64)1 << (BITS - 1), all = sign | (sign - 1);
  if (nan) return (K)all;
  if (zero) return (K)sign;
  return (K)((bits & sign ? ~bits : bits | sign) & all);
}
FN K key(f16 v) { return float_key(v.bits, get(v) != get(v), get(v) == 0); }
FN K key(bf16 v) { return float_key(v.bits, get(v) != get(v), get(v) == 0); }
FN K key(f32 v) { return float_key(__float_as_uint(v), v != v, v == 0); }
FN K key(f64 v) { return float_key((u64)__double_as_longlong(v), v != v, v == 0); }
FN K all_bits() { return BITS >= 32 ? ~(K)0 : (K)(((u64)1 << BITS) - 1); }
/* The element of a key; false: several have it, zeros or NaNs. */
FN bool unkey(K k, b8 *v) { v->bits = (u8)k; return true; }
FN bool unkey(K k, u8 *v) { *v = (u8)k; return true; }
FN bool unkey(K k, u16 *v) { *v = (u16)k; return true; }
FN bool unkey(K k, u32 *v) { *v = (u32)k; return true; }
FN bool unkey(K k, u64 *v) { *v = (u64)k; return true; }
FN bool unkey(K k, i8 *v) { *v = (i8)(k ^ 0x80); return true; }
FN bool unkey(K k, i16 *v) { *v = (i16)(k ^ 0x8000); return true; }
FN bool unkey(K k, i32 *v) { *v = (i32)((u32)k ^ 0x80000000u); return true; }
FN bool unkey(K k, i64 *v) { *v = (i64)((u64)k ^ (u64)1 << 63); return true; }
FN bool float_bits(K k, u64 *bits)
{
  const u64 sign = (u64)1 << (BITS - 1), all = sign | (sign - 1);
  *bits = k & sign ? k ^ sign : ~(u64)k & all;
  return k != all && k != sign;
}
FN bool unkey(K k, f16 *v)
{
  u64 bits;
  const bool one = float_bits(k, &bits);
  v->bits = (u16)bits;
  return one;
}
FN bool unkey(K k, bf16 *v)
{
  u64 bits;
  const bool one = float_bits(k, &bits);
  v->bits = (u16)bits;
  return one;
}
FN bool unkey(K k, f32 *v)
{
  u64 bits;
  const bool one = float_bits(k, &bits);
  *v = __uint_as_float((u32)bits);
  return one;
}
FN bool unkey(K k, f64 *v)
{
  u64 bits;
  const bool one = float_bits(k, &bits);
  *v = __longlong_as_double((i64)bits);
  return one;
}
FN K key_at(const sort_job &p, const T0 *x, i64 i) { return p.flip ? key(x[i]) ^ all_bits() : key(x[i]); }

/* ---- pairs in shared memory ---- */
struct item {
  K key;
  u32 at;
};
FN bool after(const item &a, const item &b) { return a.key > b.key || (a.key == b.key && a.at > b.at); }

/* Sorts m items, a power of two, by the block. */
FN void sort_items(item *items, int m)
{
  for (int size = 2; size <= m; size *= 2)
    for (int step = size / 2; step > 0; step /= 2) {
      __syncthreads();
      for (int i = threadIdx.x; i < m / 2; i += THREADS) {
        const int a = 2 * step * (i / step) + i % step, b = a + step;
        const bool down = (a & size) != 0;
        if (after(items[a], items[b]) != down) {
          const item kept = items[a];
          items[a] = items[b];
          items[b] = kept;
        }
      }
    }
  __syncthreads();
}

FN void put_item(const sort_job &p, const T0 *x, i64 to, u32 at)
{
  if (p.values) p.values[to] = x[at];
  p.indices[to] = p.from ? p.from[x - p.x + at] + at / (u32)p.k * p.part : at;
}

FN void put_items(const sort_job &p, const T0 *x, i64 row, const item *items)
{
  if (p.only_last) {
    if (threadIdx.x == 0) put_item(p, x, row, items[p.k - 1].at);
    return;
  }
  for (i64 i = threadIdx.x; i < p.k; i += THREADS) put_item(p, x, row * p.k + i, items[i].at);
}

KERNEL(sort_short, sort_job)
{
  DYNAMIC_SHARED(item, items);
  for (i64 row = blockIdx.x; row < p.rows; row += gridDim.x) {
    const T0 *x = p.x + row * p.n;
    for (int i = threadIdx.x; i < p.padded; i += THREADS)
      items[i] = i < p.n ? item{key_at(p, x, i), (u32)i} : item{~(K)0, 0xffffffffu};
    sort_items(items, p.padded);
    put_items(p, x, row, items);
    __syncthreads();
  }
}

/* ---- the first k of a long row ---- */

/* How many of the block's threads before this one say yes; *all: how many do. */
FN u32 count_before(bool yes, u32 *all)
{
  __shared__ u32 room[WARPS];
  const u32 votes = __ballot_sync(FULL, yes);
  __syncthreads();
  if (LANE == 0) room[threadIdx.x >> 5] = __popc(votes);
  __syncthreads();
  u32 before = __popc(votes & ((1u << LANE) - 1)), total = 0;
  for (int w = 0; w < WARPS; w++) {
    if (w < (int)(threadIdx.x >> 5)) before += room[w];
    total += room[w];
  }
  *all = total;
  return before;
}

/* The k-th key of n, by its digits from the highest; *equals: how many keys like it are among the first k. */
FN K kth_key(const sort_job &p, const T0 *x, i64 n, i64 *equals)
{
  __shared__ u32 counts[256];
  __shared__ u32 found[2];
  K prefix = 0;
  i64 left = p.k;
  for (int shift = BITS - 8; shift >= 0; shift -= 8) {
    for (int i = threadIdx.x; i < 256; i += THREADS) counts[i] = 0;
    __syncthreads();
    for (i64 i = threadIdx.x; i < n; i += THREADS) {
      const K v = key_at(p, x, i);
      const int done = shift + 8 < BITS ? shift + 8 : 0; /* bits above are known */
      const bool same = shift + 8 == BITS || v >> done == prefix >> done;
      if (same) atomicAdd(&counts[(u32)(v >> shift) & 255], 1u);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      u32 before = 0, digit = 0;
      while (digit < 255 && before + counts[digit] < left) before += counts[digit++];
      found[0] = digit;
      found[1] = before;
    }
    __syncthreads();
    prefix |= (K)found[0] << shift;
    left -= found[1];
    __syncthreads();
  }
  *equals = left;
  return prefix;
}

/* By a block, for one row of n. items: p.padded of them. */
FN void first_by_digits(const sort_job &p, const T0 *x, i64 n, i64 row, item *items)
{
  i64 equals;
  const K bound = kth_key(p, x, n, &equals);
  u32 below = 0, same = 0, all;
  const u32 first_equal = (u32)(p.k - equals);
  for (i64 tile = 0; tile < n; tile += THREADS) {
    const i64 i = tile + threadIdx.x;
    const K v = i < n ? key_at(p, x, i) : ~(K)0;
    const bool less = i < n && v < bound, equal = i < n && v == bound;
    const u32 a = count_before(less, &all);
    if (less) items[below + a] = item{v, (u32)i};
    below += all;
    const u32 b = count_before(equal, &all);
    if (equal && same + b < equals) items[first_equal + same + b] = item{v, (u32)i};
    same += all;
  }
  for (int i = (int)p.k + threadIdx.x; i < p.padded; i += THREADS) items[i] = item{~(K)0, 0xffffffffu};
  sort_items(items, p.padded);
  put_items(p, x, row, items);
  __syncthreads();
}

KERNEL(sort_first, sort_job)
{
  DYNAMIC_SHARED(item, items);
  for (i64 row = blockIdx.x; row < p.rows; row += gridDim.x) first_by_digits(p, p.x + row * p.n, p.n, row, items);
}

/* ---- the first few of a long row ---- */

enum { GROUPS = 4, FEW_ITEMS = 2048 }; /* groups of a thread; items that there is room for */

/* f(i, x[i], group) for the elements of a row that fall to this thread, 16 bytes and GROUPS of them at a time. */
template <class F> FN void each_of_row(const T0 *x, i64 n, F f)
{
  enum { P = 16 / sizeof(T0) };
  typedef pack<T0, P> piece;
  const int ahead = (int)((16 - (u64)x % 16) % 16 / sizeof(T0)), t = (int)threadIdx.x; /* rows are longer than that */
  const piece *body = (const piece *)(x + ahead);
  const i64 pieces = (n - ahead) / P;
  i64 i = t;
  if (t < ahead) f((i64)t, x[t], 0);
  for (; i + (GROUPS - 1) * THREADS < pieces; i += GROUPS * THREADS) {
    piece v[GROUPS];
#pragma unroll
    for (int g = 0; g < GROUPS; g++) v[g] = body[i + g * THREADS];
#pragma unroll
    for (int g = 0; g < GROUPS; g++)
#pragma unroll
      for (int e = 0; e < P; e++) f(ahead + (i + g * THREADS) * P + e, v[g].v[e], g);
  }
  for (; i < pieces; i += THREADS) {
    const piece v = body[i];
#pragma unroll
    for (int e = 0; e < P; e++) f(ahead + i * P + e, v.v[e], 0);
  }
  for (i = ahead + pieces * P + t; i < n; i += THREADS) f(i, x[i], 0);
}

/* k is at most half of the groups' number. Of rows in no special order few more than k are within the bound; where there
 * is no room for all of them, digits decide. */
KERNEL(sort_few, sort_job)
{
  DYNAMIC_SHARED(item, items); /* FEW_ITEMS, which p.padded is */
  __shared__ u32 within;
  const K flipped = p.flip ? all_bits() : (K)0;
  for (i64 row = blockIdx.x; row < p.rows * p.tiles; row += gridDim.x) { /* or a part of one */
    const i64 part = row % p.tiles, even = p.n / p.tiles, n = part < p.tiles - 1 ? even : p.n - part * even;
    const T0 *x = p.x + row / p.tiles * p.n + part * even;
    K best[GROUPS];
#pragma unroll
    for (int g = 0; g < GROUPS; g++) best[g] = ~(K)0; /* of a group without elements */
    each_of_row(x, n, [&](i64, T0 v, int g) {
      const K k = key(v) ^ flipped;
      if (k < best[g]) best[g] = k;
    });
#pragma unroll
    for (int g = 0; g < GROUPS; g++) items[g * THREADS + threadIdx.x] = item{best[g], 0};
    if (threadIdx.x == 0) within = 0;
    sort_items(items, GROUPS * THREADS);
    const K bound = items[p.k - 1].key;
    __syncthreads();
    each_of_row(x, n, [&](i64 i, T0 v, int) {
      const K k = key(v) ^ flipped;
      if (k > bound) return;
      const u32 at = atomicAdd(&within, 1u);
      if (at < FEW_ITEMS) items[at] = item{k, (u32)i};
    });
    __syncthreads();
    const u32 count = within;
    __syncthreads(); /* before it is zero again */
    if (count > FEW_ITEMS) {
      first_by_digits(p, x, n, row, items);
      continue;
    }
    int m = 2;
    while (m < (int)count) m *= 2;
    for (int i = (int)count + threadIdx.x; i < m; i += THREADS) items[i] = item{~(K)0, 0xffffffffu};
    sort_items(items, m);
    put_items(p, x, row, items);
    __syncthreads();
  }
}

/* ---- radix sort of long rows ---- */

FN K radix_key(const sort_job &p, i64 row, i64 i)
{
  return p.pass == 0 ? key_at(p, p.x + row * p.n, i) : ((const K *)p.keys_in)[row * p.n + i];
}

/* How often each digit of each pass occurs in a row. */
KERNEL(radix_totals, sort_job)
{
  __shared__ u32 counts[sizeof(K)][256];
  const i64 row = blockIdx.y, step = (i64)gridDim.x * THREADS;
  for (int i = threadIdx.x; i < (int)sizeof(K) * 256; i += THREADS) counts[i >> 8][i & 255] = 0;
  __syncthreads();
  for (i64 i = (i64)blockIdx.x * THREADS + threadIdx.x; i < p.n; i += step) {
    const K v = key_at(p, p.x + row * p.n, i);
#pragma unroll
    for (int k = 0; k < (int)sizeof(K); k++)
      if (k < p.passes) atomicAdd(&counts[k][(u32)(v >> (8 * k)) & 255], 1u);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < p.passes * 256; i += THREADS)
    if (counts[i >> 8][i & 255]) atomicAdd(&p.totals[row * p.passes * 256 + i], counts[i >> 8][i & 255]);
}

/* What a tile says of a digit, one word, so that it is read whole: nothing yet (0), how many it has, or how many it and
 * all tiles before it have. */
enum { STATED = 62 };
FN u64 stated(u64 kind, u64 count) { return kind << STATED | count; }

/* How many of digit t the tiles before this one have, which has `own` itself. Tiles are begun in their order: those
 * before it are at work or done. */
FN u64 before_tile(const sort_job &p, i64 row, int tile, int t, u32 own)
{
  volatile u64 *said = p.status + row * p.tiles * 256 + t;
  u64 sum = 0;
  if (tile) said[(i64)tile * 256] = stated(1, own);
  for (int other = tile - 1; other >= 0; other--) {
    u64 v = said[(i64)other * 256];
    while (!v) v = said[(i64)other * 256];
    sum += v & (((u64)1 << STATED) - 1);
    if (v >> STATED == 2) break;
  }
  said[(i64)tile * 256] = stated(2, sum + own);
  return sum;
}

/* The sum of `own` over the threads before this one. */
FN u32 sum_before(u32 own)
{
  __shared__ u32 room[WARPS];
  u32 sum = own;
  __syncthreads();
  for (int m = 1; m < 32; m <<= 1) {
    const u32 other = __shfl_up_sync(FULL, sum, m);
    if (LANE >= m) sum += other;
  }
  if (LANE == 31) room[threadIdx.x >> 5] = sum;
  __syncthreads();
  for (int w = 0; w < (int)(threadIdx.x >> 5); w++) sum += room[w];
  return sum - own;
}

/* Element i of the result. */
FN void put_sorted(const sort_job &p, i64 row, i64 i, K k, u32 at)
{
  if (i >= p.k) return;
  T0 v;
  if (!unkey((K)(p.flip ? k ^ all_bits() : k), &v)) v = p.x[row * p.n + at];
  if (p.values) p.values[row * p.k + i] = v;
  p.indices[row * p.k + i] = at;
}

/* Each warp ranks a run of its own, 32 elements at a time, with counts of its own; the warps' counts are added up; then
 * elements are laid in order in shared memory, so that each digit's go out as one run. THREADS is 256: one a digit. */
KERNEL(radix_move, sort_job)
{
  __shared__ u32 counts[WARPS][256], starts[256]; /* starts: of a digit in the tile */
  __shared__ i64 bases[256];                      /* of a digit, in the row, less its start */
  __shared__ K sorted[TILE];
  __shared__ u32 order[TILE];
  __shared__ int ticket;
  const i64 row = blockIdx.y;
  const int warp = (int)threadIdx.x >> 5, t = (int)threadIdx.x, shift = 8 * p.pass;
  if (t == 0) ticket = (int)atomicAdd(&p.tickets[row * p.passes + p.pass], 1u);
  for (int j = t; j < WARPS * 256; j += THREADS) counts[j >> 8][j & 255] = 0;
  __syncthreads();
  const int tile = ticket;
  const i64 begin = (i64)tile * TILE, first = begin + (i64)warp * (32 * ROUNDS) + LANE;
  K keys[ROUNDS];
  u32 orders[ROUNDS];
  u16 ranks[ROUNDS];
#pragma unroll
  for (int k = 0; k < ROUNDS; k++) {
    const i64 i = first + 32 * k;
    keys[k] = i < p.n ? radix_key(p, row, i) : 0;
    orders[k] = p.pass == 0 || i >= p.n ? (u32)i : p.order_in[row * p.n + i];
  }
#pragma unroll
  for (int k = 0; k < ROUNDS; k++) {
    const bool here = first + 32 * k < p.n;
    const u32 digit = here ? (u32)(keys[k] >> shift) & 255 : 256u;
    const u32 same = __match_any_sync(FULL, digit), before = __popc(same & ((1u << LANE) - 1));
    u32 old = 0;
    if (here && before == 0) {
      old = counts[warp][digit];
      counts[warp][digit] = old + __popc(same);
    }
    old = __shfl_sync(FULL, old, __ffs((int)same) - 1);
    ranks[k] = (u16)(old + before);
    __syncwarp();
  }
  __syncthreads();
  u32 sum = 0;
  for (int w = 0; w < WARPS; w++) { /* of this thread's digit: where each warp's begin */
    const u32 own = counts[w][t];
    counts[w][t] = sum;
    sum += own;
  }
  starts[t] = sum_before(sum);
  const i64 smaller = sum_before(p.totals[(row * p.passes + p.pass) * 256 + t]);
  bases[t] = smaller + (i64)before_tile(p, row, tile, t, sum) - starts[t];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < ROUNDS; k++) {
    if (first + 32 * k >= p.n) continue;
    const u32 digit = (u32)(keys[k] >> shift) & 255, to = starts[digit] + counts[warp][digit] + ranks[k];
    sorted[to] = keys[k];
    order[to] = orders[k];
  }
  __syncthreads();
  const int here = p.n - begin < TILE ? (int)(p.n - begin) : TILE;
  for (int i = t; i < here; i += THREADS) {
    const i64 to = bases[(u32)(sorted[i] >> shift) & 255] + i;
    if (p.pass == p.passes - 1) put_sorted(p, row, to, sorted[i], order[i]);
    else {
      ((K *)p.keys_out)[row * p.n + to] = sorted[i];
      p.order_out[row * p.n + to] = order[i];
    }
  }
}
