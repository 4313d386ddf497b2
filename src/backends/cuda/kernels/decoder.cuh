/* decoder.cuh: what the two halves of a decoder's layer (decoder_attend.cu, decoder_feed.cu) share: a row behind its norm,
 * products of rows of weights with it, and a row of which the kernel before has made parts.
 *
 * Weights go in units of 8 rows, of which four threads have one: of 4 packs beside each other each has its own. Whoever
 * asks for a weight multiplies it, so that nobody waits for others' copies; 16-bit floats are multiplied by Tensor Cores,
 * whose order of columns does not matter. The columns of a long row are dealt out to the warps (BLOCKS times 4 packs
 * each), whose sums meet in shared memory. Invariant: what lies beyond a row is zero in both factors. */
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

/* The row, of which a thread has its pack in x, behind its norm: into `row`, where a warp finds its own packs. room: four
 * numbers a warp. Sums are about the first element, which 16 bits cannot tell from others; wider ones about the mean. */
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

/* ---- a row and what is added to it ---- */

FN words as_words(f32 a, f32 b, f32 c, f32 d)
{
  return words{{__float_as_uint(a), __float_as_uint(b), __float_as_uint(c), __float_as_uint(d)}};
}

/* What the kernel before this one has made in parts: a row is x, and the sum of all parts and the bias. */
struct row_parts {
  const T0 *x;      /* (width) */
  const f32 *parts; /* (n, width) */
  const T0 *bias;   /* (width), or NULL */
  T0 *to;           /* (width): where the row goes, too; NULL: nowhere */
  i64 n;            /* 0: the row is x */
};

/* Four columns of a block's slice of the row are a team's: of CLUSTER lanes, which add up parts together. Long rows have
 * several rounds. */
#define TEAM_LANE ((int)threadIdx.x % CLUSTER)
FN int team_of(int round) { return (round * THREADS + (int)threadIdx.x) / CLUSTER; }

/* Four elements that begin at a multiple of four. */
FN void read_four(f32 *to, const T0 *x, int column) { unpack(to, *(const pack<T0, 4> *)(x + column)); }

/* The bias at the team's columns in the first round, asked for before it is needed. */
FN pack<T0, 4> ask_bias(const row_parts &r, int rank, int slice)
{
  const T0 *bias = r.n && team_of(0) < slice / 4 ? r.bias : 0;
  return bias ? *(const pack<T0, 4> *)(bias + rank * slice + team_of(0) * 4) : pack<T0, 4>{};
}

/* The sum over the parts of four columns, to each lane of a team, which is there or not; its order depends on n alone. */
FN void part_sums(f32 *sum, const row_parts &r, int width, int column, bool there)
{
  enum { AT_ONCE = CLUSTER > 1 ? 2 : 16 };
#pragma unroll
  for (int i = 0; i < 4; i++) sum[i] = 0;
#pragma unroll 1
  for (int k = there ? TEAM_LANE : (int)r.n; k < r.n; k += AT_ONCE * CLUSTER) {
    pack<f32, 4> w[AT_ONCE];
#pragma unroll
    for (int j = 0; j < AT_ONCE; j++)
      w[j] = k + j * CLUSTER < r.n ? *(const pack<f32, 4> *)(r.parts + (i64)(k + j * CLUSTER) * width + column)
                                   : pack<f32, 4>{};
#pragma unroll
    for (int j = 0; j < AT_ONCE; j++)
#pragma unroll
      for (int i = 0; i < 4; i++) sum[i] += w[j].v[i];
  }
#pragma unroll
  for (int m = 1; m < CLUSTER; m <<= 1)
#pragma unroll
    for (int i = 0; i < 4; i++) sum[i] += __shfl_xor_sync(FULL, sum[i], m);
}

/* Each block makes a slice of the row, and sends it to all: `box` expects 4 width bytes. bias: what was asked for. The
 * first cluster writes the row to r.to. */
FN void add_parts(f32 *row, u64 *box, const row_parts &r, const pack<T0, 4> &bias, int width, int rank)
{
  const int slice = width / CLUSTER;
#pragma unroll 1
  for (int round = 0; round * THREADS < slice / 4 * CLUSTER; round++) {
    const int column = rank * slice + team_of(round) * 4;
    const bool there = team_of(round) < slice / 4;
    f32 sum[4], x[4], b[4];
    if (there) read_four(x, r.x, column);
    part_sums(sum, r, width, column, there);
    if (!there) continue;
    unpack(b, round && r.n && r.bias ? *(const pack<T0, 4> *)(r.bias + column) : bias);
#pragma unroll
    for (int i = 0; i < 4; i++)
      if (r.n) x[i] = rounded(rounded(sum[i] + b[i]) + x[i]);
    send_parcel(row + column, box, (u32)TEAM_LANE, as_words(x[0], x[1], x[2], x[3]));
    if (r.to && blockIdx.x < CLUSTER && TEAM_LANE == 0) *(pack<T0, 4> *)(r.to + column) = packed<T0, 4>(x);
  }
  wait_for_parcels(box, false);
}

/* This thread's pack of a row that the block has. */
FN void take_pack(f32 *x, const f32 *row, int packs)
{
#pragma unroll
  for (int i = 0; i < V; i += 4) {
    const pack<f32, 4> four = has_pack(packs) ? *(const pack<f32, 4> *)(row + own_pack() * V + i) : pack<f32, 4>{};
    unpack(x + i, four);
  }
}
