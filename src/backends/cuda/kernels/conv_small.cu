/* conv_small.cu: a convolution of few pixels by Tensor Cores: tiles of the result whose sums are shared by the
 * blocks of a cluster, so that few tiles keep all multiprocessors busy.
 *
 * The result is a matrix: a row is a pixel of an image, a column a channel. What is summed are taps and channels, a
 * pack of 8 channels at a time, which are neighbours in the image and in the filter: channels are innermost
 * everywhere. T0 is the element type. A cluster of CLUSTER blocks has a tile of ROWS x COLS (FORM: these three);
 * each block adds up a part of the sum, by chunks of DEEP packs, of which STAGES (N) are on their way to shared
 * memory. A warp has SIDE x SIDE of the tile; where warps are left over, GROUPS of them share each chunk. In the end
 * all parts of a fragment (16 x 8) are sent, by each thread its four numbers, to the block that it is dealt out to,
 * where one thread adds up its own.
 * Invariants: parts are added in the order of blocks and groups, so that results repeat; what lies beyond the image,
 * the filter and the sum is brought as zeros, and never read. */
#define CLUSTER (FORM & 15)
#include "codegen/device.cuh"
#include "common.cuh"
#include "cluster.cuh"
#include "tensor_core.cuh"

enum { SIDE = 32, ROWS = (FORM >> 4 & 7) * SIDE, COLS = (FORM >> 7 & 7) * SIDE, STAGES = N };
enum { WARPS = THREADS / 32, ACROSS = COLS / SIDE, PLACES = ROWS / SIDE * ACROSS, GROUPS = WARPS / PLACES };
enum { DEEP = 8, STEPS = DEEP / 2 }; /* packs of a chunk; products of 16 numbers in it */
enum { LINES = THREADS / DEEP, STAGE = (ROWS + COLS) * DEEP }; /* lines of a tile that are brought at once; packs */
enum { FRAGMENTS = SIDE / 16 * (SIDE / 8), DEALT = FRAGMENTS / CLUSTER, SENDERS = CLUSTER * GROUPS };
enum { UNITS = DEALT * PLACES, EACH = (UNITS + WARPS - 1) / WARPS }; /* fragments that a block, a warp finishes */

struct conv_small_job {
  const T0 *x, *w, *b, *z; /* b: a number a channel, z: like y; or NULL */
  T0 *y;
  i32 rows, cols, row_tiles;
  i32 h, width, packs;      /* of an image; of its channels */
  i32 oh, ow, r, s;         /* of the result; the filter's */
  i32 stride[2], padding[2], dilation[2];
  i32 relu, unused;
};

#define WARP ((int)threadIdx.x >> 5)
#define LINE ((int)threadIdx.x / DEEP)
#define PACK ((int)threadIdx.x % DEEP) /* of each chunk, the one that this thread brings */
#define PLACE (WARP % PLACES)

/* ---- what comes to shared memory ---- */

/* A pack of a line: moved about so that eight lines of a matrix lie in different banks. */
FN int at_line(int line, int pack) { return line * DEEP + (pack ^ (line & 7)); }

/* Where the first tap of a pixel reads: its image, and a place in it. */
struct pixel {
  i32 image, top, left;
};
FN pixel pixel_at(const conv_small_job &p, i32 row)
{
  const i32 size = p.oh * p.ow, in = row % size;
  pixel a;
  a.image = row / size * p.h * p.width;
  a.top = row < p.rows ? in / p.ow * p.stride[0] - p.padding[0] : -(1 << 30); /* then every tap lies outside */
  a.left = in % p.ow * p.stride[1] - p.padding[1];
  return a;
}

/* A place in the sum: pack k is pack c of tap (r, s). */
struct walk {
  i32 k, c, r, s;
};
FN walk walk_from(const conv_small_job &p, i32 k)
{
  const i32 tap = k / p.packs;
  return walk{k, k % p.packs, tap / p.s, tap % p.s};
}
FN void go_on(const conv_small_job &p, walk &a)
{
  a.k += DEEP, a.c += DEEP;
  while (a.c >= p.packs) {
    a.c -= p.packs;
    if (++a.s == p.s) a.s = 0, a.r++;
  }
}

/* Asks for a chunk of the image, ROWS lines, and of the filter, COLS lines. */
FN void ask(words *stage, const conv_small_job &p, const pixel *pixels, const walk &a, i32 first_col)
{
  const i32 all = p.r * p.s * p.packs;
#pragma unroll
  for (int i = 0; i < ROWS / LINES; i++) {
    const i32 h = pixels[i].top + a.r * p.dilation[0], w = pixels[i].left + a.s * p.dilation[1];
    const bool is = a.r < p.r && (u32)h < (u32)p.h && (u32)w < (u32)p.width;
    const i32 from = is ? (pixels[i].image + h * p.width + w) * p.packs + a.c : 0;
    copy_async<16>(&stage[at_line(i * LINES + LINE, PACK)], (const words *)p.x + from, is ? 16 : 0);
  }
#pragma unroll
  for (int i = 0; i < COLS / LINES; i++) {
    const i32 col = first_col + i * LINES + LINE;
    const bool is = a.r < p.r && col < p.cols;
    words *const to = &stage[ROWS * DEEP + at_line(i * LINES + LINE, PACK)];
    copy_async<16>(to, (const words *)p.w + (is ? col * all + a.k : 0), is ? 16 : 0);
  }
}

/* sums += a chunk's products: fragment 4 i + j has rows 16 i and columns 8 j of the warp's. */
FN void multiply(f32 (*sums)[4], const words *stage)
{
  const words *const left = stage, *const right = stage + ROWS * DEEP;
  const int row = PLACE / ACROSS * SIDE + LANE % 16, col = PLACE % ACROSS * SIDE + LANE % 8 + LANE / 16 * 8;
#pragma unroll
  for (int i = 0; i < STEPS / GROUPS; i++) {
    const int pack = 2 * (i * GROUPS + WARP / PLACES);
    u32 a[2][4], b[2][4];
#pragma unroll
    for (int j = 0; j < 2; j++) {
      load_matrices(a[j], &left[at_line(row + j * 16, pack + LANE / 16)]);
      load_matrices(b[j], &right[at_line(col + j * 16, pack + LANE / 8 % 2)]);
    }
#pragma unroll
    for (int j = 0; j < FRAGMENTS; j++) {
      const u32 *const u = a[j / 4], *const v = &b[j % 4 / 2][j % 2 * 2];
      tensor_core<T0>::multiply(sums[j], u[0], u[1], u[2], u[3], v[0], v[1]);
    }
  }
}

/* ---- what becomes of the parts ---- */

/* Fragments that this warp finishes: number i of them is unit WARP + i WARPS of the block's, fragment DEALT rank +
 * unit / PLACES of place unit % PLACES. Of it a thread has two columns in each of two rows. */
struct corner {
  i32 row, col;
};
FN corner corner_of(int i, u32 rank, i32 first_row, i32 first_col)
{
  const int unit = WARP + i * WARPS, fragment = (int)rank * DEALT + unit / PLACES, place = unit % PLACES;
  return corner{first_row + place / ACROSS * SIDE + fragment / 4 * 16 + LANE / 4,
                first_col + place % ACROSS * SIDE + fragment % 4 * 8 + (LANE & 3) * 2};
}

/* What is added to a thread's numbers of a fragment. */
struct addend {
  f32 bias[2];
  pack<T0, 2> other[2];
};
FN addend addend_of(const conv_small_job &p, const corner &at)
{
  addend a = {};
  if (at.col >= p.cols) return a;
#pragma unroll
  for (int i = 0; i < 2; i++) {
    if (p.b) a.bias[i] = get(p.b[at.col + i]);
    if (p.z && at.row + 8 * i < p.rows) a.other[i] = *(const pack<T0, 2> *)&p.z[(at.row + 8 * i) * p.cols + at.col];
  }
  return a;
}
FN void finish(const conv_small_job &p, const corner &at, const f32 *sum, const addend &a)
{
#pragma unroll
  for (int i = 0; i < 2; i++) {
    f32 v[2];
#pragma unroll
    for (int j = 0; j < 2; j++) {
      v[j] = sum[2 * i + j] + get(a.other[i].v[j]) + a.bias[j];
      if (p.relu) v[j] = v[j] < 0 ? 0 : v[j];
    }
    if (at.row + 8 * i < p.rows && at.col < p.cols)
      *(pack<T0, 2> *)&p.y[(at.row + 8 * i) * p.cols + at.col] = packed<T0, 2>(v);
  }
}

/* All parts of the warp's fragments go to where they are dealt out. */
FN void send_all(words *parts, u64 *box, u32 rank, const f32 (*sums)[4])
{
  words *const to = parts + ((int)rank * GROUPS + WARP / PLACES) * UNITS * 32 + PLACE * 32 + LANE;
#pragma unroll
  for (int i = 0; i < FRAGMENTS; i++) {
    words four;
#pragma unroll
    for (int j = 0; j < 4; j++) four.v[j] = __float_as_uint(sums[i][j]);
    send_parcel(to + i % DEALT * PLACES * 32, box, i / DEALT, four);
  }
}
FN void add_up(f32 *sum, const words *parts, int i)
{
#pragma unroll
  for (int s = 0; s < SENDERS; s++) {
    const words four = parts[(s * UNITS + WARP + i * WARPS) * 32 + LANE];
#pragma unroll
    for (int j = 0; j < 4; j++) sum[j] = (s ? sum[j] : 0) + __uint_as_float(four.v[j]);
  }
}

KERNEL(conv_small, conv_small_job)
{
  DYNAMIC_SHARED(words, room);
  words *const parts = room + STAGES * STAGE; /* (SENDERS, UNITS, 32) */
  u64 *const box = (u64 *)(parts + WARPS * FRAGMENTS * 32);
  const u32 rank = block_of_cluster();
  const i32 tile = (i32)(blockIdx.x / CLUSTER), first_row = tile % p.row_tiles * ROWS;
  const i32 first_col = tile / p.row_tiles * COLS, chunks = (p.r * p.s * p.packs + DEEP - 1) / DEEP;
  const i32 end = chunks * (i32)(rank + 1) / CLUSTER;
  i32 next = chunks * (i32)rank / CLUSTER;
  f32 sums[FRAGMENTS][4] = {};
  pixel pixels[ROWS / LINES];
  walk at = walk_from(p, next * DEEP + PACK);
  if (threadIdx.x == 0) {
    open_mailbox(box);
    expect_parcels(box, WARPS * FRAGMENTS * 32 * sizeof(words));
  }
#pragma unroll
  for (int i = 0; i < ROWS / LINES; i++) pixels[i] = pixel_at(p, first_row + i * LINES + LINE);
  i32 left = end - next; /* chunks to be multiplied */
  for (int s = 0; s < STAGES - 1; s++) {
    if (next < end) ask(room + s * STAGE, p, pixels, at, first_col), go_on(p, at), next++;
    portion_ends();
  }
  if (CLUSTER > 1) cluster_barrier(); /* mailboxes are open */
  int slot = 0, free_slot = STAGES - 1;
#pragma unroll 1
  for (; left > 0; left--) {
    portions_arrive<STAGES - 2>();
    __syncthreads(); /* everybody's part of the chunk is there, and the slot before it was read */
    if (next < end) ask(room + free_slot * STAGE, p, pixels, at, first_col), go_on(p, at), next++;
    portion_ends();
    multiply(sums, room + slot * STAGE);
    free_slot = slot;
    slot = slot == STAGES - 1 ? 0 : slot + 1;
  }
  addend more[EACH];
  if (SENDERS > 1) send_all(parts, box, rank, sums);
#pragma unroll
  for (int i = 0; i < EACH; i++) more[i] = addend_of(p, corner_of(i, rank, first_row, first_col));
  if (SENDERS > 1) wait_for_parcels(box, false);
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    if (WARP + i * WARPS >= UNITS) break;
    if (SENDERS > 1) add_up(sums[i], parts, i);
    finish(p, corner_of(i, rank, first_row, first_col), sums[i], more[i]);
  }
}
