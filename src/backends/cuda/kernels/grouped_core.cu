/* grouped_core.cu: a product for each group (grouped.cuh), of 16-bit floats by Tensor Cores.
 *
 * FORM: bit 0, neighbours in memory of a lie along its rows, bit 1, those of b along its columns (otherwise both lie
 * along k); the rest, how many times 32 rows a tile has. DEEP of k at a time come to shared memory in packs of 8
 * neighbours, STAGES of these chunks at once: as lines of k, or, where neighbours lie the other way, as lines of rows
 * or columns, which are turned over on their way to registers. A warp has half the rows of a tile and 32 columns.
 * Invariants: packs begin at multiples of 8 in both operands; what lies outside of the group's part of k is brought as
 * zeros in both, whatever stands there; sums are added in the order of k. */
#include "codegen/device.cuh"
#include "common.cuh"
#include "tensor_core.cuh"
#include "tiles.cuh"
enum { A_TURNED = FORM & 1, B_TURNED = FORM >> 1 & 1, ROWS = (FORM >> 2) * 32, COLS = 128 };
#include "grouped.cuh"

enum { PACK = 8, DEEP = 64, PACKS = DEEP / PACK, STAGES = 3, STAGE = (ROWS + COLS) * PACKS, ACROSS = 4 };
enum { SIDE = ROWS / 2, HIGH = SIDE / 16, WIDE = 4 }; /* a warp's: rows; fragments of 16 rows, and of 8 columns */

#define WARP ((int)threadIdx.x >> 5)
#define FIRST_ROW (WARP / ACROSS * SIDE)
#define FIRST_COL (WARP % ACROSS * WIDE * 8)

/* ---- what comes to shared memory ---- */

/* Pack number `pack` of a line of so many: moved about so that eight lines of a matrix lie in different banks. */
template <int PACKS_OF_LINE> FN int at_line(int line, int pack)
{
  return line * PACKS_OF_LINE + (pack ^ (PACKS_OF_LINE < 8 ? line >> 1 & (PACKS_OF_LINE - 1) : line & 7));
}

FN int elements(i64 left) { return left < 0 ? 0 : left > PACK ? PACK : (int)left; }

/* A pack of which some elements at its beginning are not the group's. */
FN words without_head(const T0 *x, i64 at, const range &depth)
{
  pack<T0, PACK> v;
#pragma unroll
  for (int i = 0; i < PACK; i++) v.v[i] = is_in(depth, at + i) ? x[i] : T0{0};
  return *(const words *)&v;
}

/* Asks for a chunk from k on, of LINES rows (or columns of b) from `first` on; there are `bound`. */
template <bool TURNED, int LINES>
FN void ask(words *room, const T0 *x, i64 apart, i64 first, i64 bound, i64 k, const range &depth)
{
  enum { EACH_LINE = TURNED ? LINES / PACK : PACKS };
#pragma unroll
  for (int i = 0; i < LINES * PACKS / THREADS; i++) {
    const int q = (int)threadIdx.x + i * THREADS, line = q / EACH_LINE, piece = q % EACH_LINE;
    words *const to = &room[at_line<EACH_LINE>(line, piece)];
    const i64 at = k + (TURNED ? line : piece * PACK), row = first + (TURNED ? piece * PACK : line);
    const int n = TURNED ? (is_in(depth, at) ? elements(bound - row) : 0) : row < bound ? elements(depth.to - at) : 0;
    const T0 *const from = n ? x + (TURNED ? at * apart + row : row * apart + at) : x;
    if (!TURNED && n && at < depth.from) *to = without_head(from, at, depth);
    else copy_async<16>(to, from, n * (int)sizeof(T0));
  }
}

/* ---- products ---- */

FN void multiply(f32 (*sums)[WIDE][4], const words *left, const words *right)
{
#pragma unroll
  for (int k = 0; k < DEEP; k += 16) {
    u32 a[HIGH][4], b[WIDE / 2][4];
#pragma unroll
    for (int i = 0; i < HIGH; i++) {
      const int row = FIRST_ROW + i * 16;
      const int line = k + LANE % 8 + LANE / 16 * 8; /* where turned */
      if (A_TURNED) load_turned(a[i], &left[at_line<ROWS / PACK>(line, row / 8 + LANE / 8 % 2)]);
      else load_matrices(a[i], &left[at_line<PACKS>(row + LANE % 16, k / 8 + LANE / 16)]);
    }
#pragma unroll
    for (int j = 0; j < WIDE / 2; j++) {
      const int col = FIRST_COL + j * 16;
      if (B_TURNED) load_turned(b[j], &right[at_line<COLS / PACK>(k + LANE % 16, col / 8 + LANE / 16)]);
      else load_matrices(b[j], &right[at_line<PACKS>(col + LANE % 8 + LANE / 16 * 8, k / 8 + LANE / 8 % 2)]);
    }
#pragma unroll
    for (int i = 0; i < HIGH; i++)
#pragma unroll
      for (int j = 0; j < WIDE; j++)
        tensor_core<T0>::multiply(sums[i][j], a[i][0], a[i][1], a[i][2], a[i][3], b[j / 2][j % 2 * 2],
                                  b[j / 2][j % 2 * 2 + 1]);
  }
}

/* Two neighbours of a row. */
FN void store(const grouped_job &p, const tile &t, i64 row, i64 col, const f32 *v)
{
  if (!is_in(t.rows, row)) return;
  const i64 at = place_in_result(p, t, row, col);
  const bool first = is_in(t.cols, col), second = is_in(t.cols, col + 1);
  if (p.pairs && first && second && at % 2 == 0) {
    *(pack<T1, 2> *)&p.y[at] = packed<T1, 2>(v);
    return;
  }
  if (first) p.y[at] = put<T1>(v[0]);
  if (second) p.y[at + p.y_col] = put<T1>(v[1]);
}

KERNEL(grouped_core, grouped_job)
{
  DYNAMIC_SHARED(words, room); /* (STAGES, STAGE) */
  tile t;
  check_ends(p);
  if (!find_tile(p, t)) return;
  const T0 *const a = p.a + t.group * p.a_step, *const b = p.b + t.group * p.b_step;
  const i64 a_apart = A_TURNED ? p.a_col : p.a_row, b_apart = B_TURNED ? p.b_row : p.b_col;
  const i64 begin = t.depth.from / PACK * PACK;
  const i64 chunks = t.depth.to > t.depth.from ? (t.depth.to - begin + DEEP - 1) / DEEP : 0;
  f32 sums[HIGH][WIDE][4] = {};
#pragma unroll 1
  for (i64 i = 1 - STAGES; i < chunks; i++) { /* a chunk is multiplied STAGES - 1 steps after it was asked for */
    const i64 next = i + STAGES - 1;
    if (i >= 0) {
      portions_arrive<STAGES - 2>();
      __syncthreads(); /* everybody's part of the chunk is there, and the one before it was read */
    }
    if (next < chunks) {
      words *const to = room + next % STAGES * STAGE;
      ask<A_TURNED, ROWS>(to, a, a_apart, t.row, p.m, begin + next * DEEP, t.depth);
      ask<B_TURNED, COLS>(to + ROWS * PACKS, b, b_apart, t.col, p.n, begin + next * DEEP, t.depth);
    }
    portion_ends();
    if (i >= 0) multiply(sums, room + i % STAGES * STAGE, room + i % STAGES * STAGE + ROWS * PACKS);
  }
#pragma unroll
  for (int i = 0; i < HIGH; i++)
#pragma unroll
    for (int j = 0; j < WIDE; j++) {
      const i64 row = t.row + FIRST_ROW + i * 16 + LANE / 4, col = t.col + FIRST_COL + j * 8 + (LANE & 3) * 2;
      store(p, t, row, col, sums[i][j]);
      store(p, t, row + 8, col, sums[i][j] + 2);
    }
}
