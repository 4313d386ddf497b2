/* decoder.cuh: what the two halves of a decoder's layer (decoder_attend.cu, decoder_feed.cu) share: a row behind its
 * norm, products of rows of weights with it, and sums of which each cluster, or each head, has made a part.
 *
 * Weights go in units of 8 rows, of which four threads have one: of 4 packs beside each other each has its own. Whoever
 * asks for a weight multiplies it, so that nobody waits for others' copies; 16-bit floats are multiplied by Tensor
 * Cores, whose order of columns does not matter. The columns of a long row are dealt out to the warps (BLOCKS times 4
 * packs each), whose sums meet in shared memory. Invariant: what lies beyond a row is zero in both factors. */
enum { TURNS = 8 }; /* as many as a cluster may have blocks */
enum { BLOCKS = FORM >> 8 & 15, WARPS = THREADS / 32, WARP_PACKS = 4 * BLOCKS, LOW = sizeof(T0) == 2 };
#define WARP ((int)(threadIdx.x >> 5))
#define UNIT_ROW (LANE >> 2) /* of a unit, this thread's */
#define MEMBER (LANE & 3)

struct norm_weights {
  const T0 *w, *b; /* (width), or NULL */
};

/* ---- the row ---- */

/* The pack of the row that is this thread's, or has none. */
FN int own_pack() { return WARP * WARP_PACKS + LANE; }
FN bool has_pack(int packs) { return LANE < WARP_PACKS && own_pack() < packs; }

/* What threads have of a norm's weights, asked for before they are needed. */
struct norm_packs {
  words w, b;
};
FN norm_packs ask_norm(const norm_weights &n, int packs)
{
  norm_packs p = {};
  if (n.w && has_pack(packs)) p.w = ((const words *)n.w)[own_pack()];
  if (n.b && has_pack(packs)) p.b = ((const words *)n.b)[own_pack()];
  return p;
}

/* Sums over the block of what each thread has; room: two numbers a warp, of no other call. */
FN void block_sums(f32 &a, f32 &b, f32 *room)
{
  a = warp_sum(a), b = warp_sum(b);
  if (LANE == 0) room[WARP * 2] = a, room[WARP * 2 + 1] = b;
  __syncthreads();
  a = b = 0;
#pragma unroll
  for (int w = 0; w < WARPS; w++) a += room[w * 2], b += room[w * 2 + 1];
}

/* The row, of which a thread has its pack in x, behind its norm: into `row`, where a warp finds its own packs. room:
 * four numbers a warp. Sums are about the first element, which 16 bits cannot tell from others; wider ones about the
 * mean. */
FN void put_row(words *row, const f32 *x, const norm_packs &packs_of, const norm_weights &n, int kind, f32 eps,
                int packs, f32 first, f32 *room)
{
  const f32 each = 1 / (f32)(packs * V), center = kind == NORM_LAYER ? first : 0;
  const bool there = has_pack(packs);
  f32 sum = 0, squares = 0, w[V], b[V], y[V];
#pragma unroll
  for (int i = 0; i < V; i++) {
    const f32 v = there ? x[i] - center : 0;
    sum += v, squares += v * v;
  }
  block_sums(sum, squares, room);
  sum *= each;
  squares = kind == NORM_LAYER ? larger(squares * each - sum * sum, 0.0f) : squares * each;
  const f32 mean = kind == NORM_LAYER ? center + sum : 0;
  if (!LOW && kind == NORM_LAYER) {
    f32 none = 0;
    squares = 0;
#pragma unroll
    for (int i = 0; i < V; i++) squares += there ? (x[i] - mean) * (x[i] - mean) : 0;
    block_sums(squares, none, room + 2 * WARPS);
    squares *= each;
  }
  const f32 rstd = inverse_root(squares + eps);
  unpack(w, as_pack<piece>(packs_of.w)), unpack(b, as_pack<piece>(packs_of.b));
#pragma unroll
  for (int i = 0; i < V; i++) {
    y[i] = (x[i] - mean) * rstd;
    if (n.w) y[i] *= w[i];
    if (n.b) y[i] += b[i];
    if (!there) y[i] = 0;
  }
  if (LANE < WARP_PACKS) *(piece *)&row[own_pack()] = packed<T0, V>(y);
  __syncwarp();
}

/* ---- products ---- */

/* Asks for MOST packs, 4 apart, from the thread's own on, of a row of weights, of which `packs` are there. */
template <int MOST> FN void ask_packs(words *to, const T0 *row, int packs)
{
#pragma unroll
  for (int b = 0; b < MOST; b++)
    copy_async<16>(to + b * THREADS, (const words *)row + (4 * b + MEMBER < packs ? 4 * b + MEMBER : 0),
                   4 * b + MEMBER < packs ? 16 : 0);
}

/* sum[u] = row UNIT_ROW of unit u times x (4 MOST packs), in the first thread of four. */
template <int UNITS, int MOST> FN void multiply_units(f32 *sum, const words *weights, const words *x)
{
  const words *w = weights + (int)threadIdx.x;
  if (LOW) {
    f32 all[(UNITS + 1) / 2][4] = {};
#pragma unroll
    for (int b = 0; b < MOST; b++) {
      words v = {};
      if (LANE < 4) v = x[4 * b + LANE]; /* the other columns of the right factor are zero */
#pragma unroll
      for (int u = 0; u < UNITS; u += 2) {
        words one = w[(u * MOST + b) * THREADS], two = {};
        if (u + 1 < UNITS) two = w[((u + 1) * MOST + b) * THREADS];
        tensor_core<T0>::multiply(all[u / 2], one.v[0], two.v[0], one.v[1], two.v[1], v.v[0], v.v[1]);
        tensor_core<T0>::multiply(all[u / 2], one.v[2], two.v[2], one.v[3], two.v[3], v.v[2], v.v[3]);
      }
    }
#pragma unroll
    for (int u = 0; u < UNITS; u++) sum[u] = all[u / 2][u % 2 * 2];
    return;
  }
#pragma unroll
  for (int u = 0; u < UNITS; u++) {
    sum[u] = 0;
#pragma unroll
    for (int b = 0; b < MOST; b++)
      sum[u] = dot(*(const piece *)&w[(u * MOST + b) * THREADS], *(const piece *)&x[4 * b + MEMBER], sum[u]);
    sum[u] += __shfl_xor_sync(FULL, sum[u], 1);
    sum[u] += __shfl_xor_sync(FULL, sum[u], 2);
  }
}

/* Units whose columns are dealt out to the warps: what a warp has of them, to `sums` (WARPS, 8 UNITS). */
template <int UNITS> FN void multiply_row(f32 *sums, const words *weights, const words *row)
{
  f32 sum[UNITS];
  multiply_units<UNITS, BLOCKS>(sum, weights, row + WARP * WARP_PACKS);
  if (MEMBER == 0)
#pragma unroll
    for (int u = 0; u < UNITS; u++) sums[(WARP * UNITS + u) * 8 + UNIT_ROW] = sum[u];
}
/* ... and, behind a barrier, of all of them. */
template <int UNITS> FN f32 sum_of_warps(const f32 *sums, int row)
{
  f32 sum = 0;
#pragma unroll
  for (int w = 0; w < WARPS; w++) sum += sums[w * UNITS * 8 + row];
  return sum;
}

/* ---- sums of parts ---- */

/* 16 bytes that other blocks of this launch may have written. */
FN words read_fresh(const void *from)
{
#ifdef CN_SIMT
  return *(const words *)from;
#else
  words v;
  asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.v[0]), "=r"(v.v[1]), "=r"(v.v[2]), "=r"(v.v[3])
               : "l"(from));
  return v;
#endif
}

/* What this thread has written is there for whoever sees what it writes from now on; likewise reads. */
FN void publish()
{
#ifndef CN_SIMT
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
#endif
}

/* The sum over n parts (n, width) of four columns, to each of the CLUSTER lanes that add them up together; `there` is
 * the same for these lanes. Its order depends on n alone. */
FN void part_sums(f32 *sum, const f32 *parts, i64 width, int n, int member, bool there)
{
  enum { AT_ONCE = 2 };
#pragma unroll
  for (int i = 0; i < 4; i++) sum[i] = 0;
#pragma unroll 1
  for (int k = there ? member : n; k < n; k += AT_ONCE * CLUSTER) {
    words w[AT_ONCE] = {};
#pragma unroll
    for (int j = 0; j < AT_ONCE; j++)
      if (k + j * CLUSTER < n) w[j] = read_fresh(parts + (k + j * CLUSTER) * width);
#pragma unroll
    for (int j = 0; j < AT_ONCE; j++)
#pragma unroll
      for (int i = 0; i < 4; i++) sum[i] += __uint_as_float(w[j].v[i]);
  }
#pragma unroll
  for (int m = 1; m < CLUSTER; m <<= 1)
#pragma unroll
    for (int i = 0; i < 4; i++) sum[i] += __shfl_xor_sync(FULL, sum[i], m);
}

FN words as_words(f32 a, f32 b, f32 c, f32 d)
{
  return words{{__float_as_uint(a), __float_as_uint(b), __float_as_uint(c), __float_as_uint(d)}};
}

/* Four elements that begin at a multiple of four. */
FN void read_four(f32 *to, const T0 *x, i64 at)
{
  const pack<T0, 4> four = x ? *(const pack<T0, 4> *)(x + at) : pack<T0, 4>{};
  unpack(to, four);
}
