/* tiles.c: pointwise programs whose operands run along another dim than their results: operands are transposed tile by
 * tile.
 *
 * Place in the flow: pointwise.c offers it walks with long rows that it would read by strides. Invariant: a tile is a
 * few rows of a walk, which are computed like any others (cni_pw_some_of_row). */
#include <string.h>

#include "backends/cpu/walk/nontemporal.h"
#include "backends/cpu/walk/transpose.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "plan.h"

enum {
  TILE_COLUMNS = 480,
  TILE_ROW_BYTES =
      8 * CNI_LINE, /* of a transposed operand, along its run: enough for the hardware to see it coming */
  TRANSPOSED = 2,   /* operands at most */
  TILE_AHEAD = 4,   /* rows that are asked for before they are worked on */
  TILE_LEAST = 16   /* elements of a side */
};

typedef struct tiles {
  cni_pw_plan *pl;
  const cni_iter *it;
  int row;                           /* the dim that the operands run along; the results run along the last */
  int transposed[TRANSPOSED], ntransposed; /* which operands of the walk */
  int64_t elem[TRANSPOSED];                /* their bytes per element */
  int64_t rows, per_row, per_column; /* rows of a tile; tiles along the last dim, and along `row` */
  int64_t line;                      /* elements of a line of the result, if stored past the caches, or 0 */
} tiles;

/* Columns [c, c + columns) of rows [r, r + rows), and their operands. */
typedef struct tile {
  char *base[CNI_ITER_FEW];
  int64_t rows, columns, next; /* next: columns of the one beside it, if it follows at once */
  bool follows;                /* the one before it was left of it: what it left over is in the room's first columns */
} tile;

/* Bytes of a transposed operand's row in a room: `line` columns from the tile before, then the tile's. */
static int64_t pitch(const tiles *t, int i) { return (t->line + TILE_COLUMNS) * t->elem[i]; }
static size_t room_size(const tiles *t, int i) { return (size_t)(t->rows * pitch(t, i)); }

static void transpose_tile(const tiles *t, const tile *one, int i, char *room)
{
  int k = t->transposed[i];
  int64_t elem = t->elem[i], lead = t->line * elem, step = pitch(t, i);
  if (one->follows && lead)
    for (char *at = room; at < room + one->rows * step; at += step) memcpy(at, at + TILE_COLUMNS * elem, (size_t)lead);
  cni_transposes()->transpose[elem](room + lead, step, one->base[k], t->it->stride[k][t->it->ndim - 1], one->rows,
                                    one->columns);
}

/* A function that does nothing but prefetch looks like one without effect to gcc, which leaves calls of it out. */
#define FETCHES static inline __attribute__((always_inline)) void

/* Asks for a row of what lies as the result does: a tile's rows are too short for the hardware to look ahead. */
FETCHES fetch_row(const tiles *t, const tile *one, char *const *ptr, const int64_t *stride, int64_t r)
{
  for (int k = t->pl->p->nout; t->pl->nontemporal && r < one->rows && k < t->it->n; k++)
    if (k != t->transposed[0] && (t->ntransposed < 2 || k != t->transposed[1]) && stride[k] > 0 && stride[k] <= 8)
      cni_prefetch(ptr[k] + r * t->it->stride[k][t->row], one->columns * stride[k]);
}

/* Row r's part of asking for the next tile of a transposed operand. */
FETCHES prefetch_some(const tiles *t, const tile *one, int i, int64_t r)
{
  int k = t->transposed[i];
  int64_t each = (one->next + one->rows - 1) / one->rows, step = t->it->stride[k][t->it->ndim - 1];
  for (int64_t c = r * each; c < (r + 1) * each && c < one->next; c++) {
    const char *at = one->base[k] + (one->columns + c) * step;
    for (int64_t b = 0; b < one->rows * t->elem[i]; b += CNI_LINE) __builtin_prefetch(at + b, 0, 2);
  }
}

/* Streamed results are written in whole lines: a row ends where its last line does and leaves the rest to the next
 * tile. */
static void run_tile(const tiles *t, const tile *one, char *const *room)
{
  const cni_iter *it = t->it;
  int last = it->ndim - 1;
  int64_t stride[CNI_ITER_FEW], across[CNI_ITER_FEW];
  char *ptr[CNI_ITER_FEW], *at[CNI_ITER_FEW];
  for (int k = 0; k < it->n; k++)
    stride[k] = it->stride[k][last], across[k] = it->stride[k][t->row], ptr[k] = one->base[k];
  for (int64_t r = 0; r < TILE_AHEAD; r++) fetch_row(t, one, ptr, stride, r);
  for (int i = 0; i < t->ntransposed; i++) {
    int k = t->transposed[i];
    transpose_tile(t, one, i, room[i]);
    ptr[k] = room[i] + t->line * t->elem[i], across[k] = pitch(t, i), stride[k] = t->elem[i];
  }
  for (int64_t r = 0; r < one->rows; r++) {
    int64_t back = 0, rest = 0;
    if (t->line && one->follows) back = cni_into_line(ptr[0], stride[0]);
    if (t->line && one->next) rest = cni_into_line(ptr[0] + one->columns * stride[0], stride[0]);
    for (int i = 0; i < t->ntransposed && one->next && t->pl->nontemporal; i++) prefetch_some(t, one, i, r);
    fetch_row(t, one, one->base, stride, r + TILE_AHEAD);
    for (int k = 0; k < it->n; k++) at[k] = ptr[k] - back * stride[k], ptr[k] += across[k];
    int64_t n = back + one->columns - rest, head = t->line && !one->follows ? cni_pw_to_line(at[0], stride[0]) : 0;
    if (head && head < n) { /* up to the first line */
      cni_pw_some_of_row(t->pl, at, stride, head);
      for (int k = 0; k < it->n; k++) at[k] += head * stride[k];
      n -= head;
    }
    if (n > 0) cni_pw_some_of_row(t->pl, at, stride, n);
  }
}

/* Tiles [begin, end): along the last dim fastest, then along `row`, then the other dims. */
static void tile_range(int64_t begin, int64_t end, void *payload)
{
  const tiles *t = payload;
  const cni_iter *it = t->it;
  int last = it->ndim - 1;
  size_t size = room_size(t, 0) + (t->ntransposed > 1 ? room_size(t, 1) : 0);
  char *room[TRANSPOSED];
  if (!(room[0] = cni_scratch_alloc(size))) return;
  room[1] = room[0] + room_size(t, 0);
  for (int64_t at = begin; at < end; at++) {
    int64_t column = at % t->per_row, c = column * TILE_COLUMNS, r = at / t->per_row % t->per_column * t->rows;
    int64_t rest = at / t->per_row / t->per_column, columns = it->shape[last] - c, rows = it->shape[t->row] - r;
    tile one = {.rows = rows < t->rows ? rows : t->rows, .follows = at > begin && column > 0};
    for (int k = 0; k < it->n; k++) one.base[k] = it->base[k] + c * it->stride[k][last] + r * it->stride[k][t->row];
    for (int i = last - 1; i >= 0; i--) {
      if (i == t->row) continue;
      for (int k = 0; k < it->n; k++) one.base[k] += rest % it->shape[i] * it->stride[k][i];
      rest /= it->shape[i];
    }
    one.columns = columns < TILE_COLUMNS ? columns : TILE_COLUMNS;
    if (at + 1 < end) one.next = columns - one.columns < TILE_COLUMNS ? columns - one.columns : TILE_COLUMNS;
    run_tile(t, &one, room);
  }
  cni_scratch_free(room[0], size);
  if (t->pl->nontemporal) cni_nontemporal_end();
}

/* Takes the walk where an operand lies dense along another dim than the last, and both dims are long. */
bool cni_pw_tiles(cni_pw_plan *pl, const cni_iter *it)
{
  tiles t = {.pl = pl, .it = it, .row = -1, .rows = TILE_ROW_BYTES};
  int64_t wide = (int64_t)cni_dtype_size(cn_desc_of(pl->c->out[0])->dtype);
  int last = it->ndim - 1;
  for (int i = 0; i < pl->p->nin && t.ntransposed < TRANSPOSED; i++) {
    int k = pl->p->nout + i, row = -1;
    int64_t elem = (int64_t)cni_dtype_size(cn_desc_of(pl->c->in[i])->dtype);
    if (it->stride[k][last] == elem || it->stride[k][last] == 0) continue;
    for (int d = 0; d < last; d++)
      if (it->stride[k][d] == elem && it->shape[d] >= TILE_LEAST) row = d;
    if (row < 0 || (t.row >= 0 && t.row != row)) continue;
    t.row = row;
    t.elem[t.ntransposed] = elem;
    t.transposed[t.ntransposed++] = k;
    if (TILE_ROW_BYTES / elem < t.rows) t.rows = TILE_ROW_BYTES / elem;
  }
  if (!t.ntransposed || it->shape[last] < TILE_LEAST || it->n > CNI_ITER_FEW) return false;
  pl->nontemporal =
      cni_nontemporal_pays(2 * pl->bytes); /* transposing reads a line's neighbours later: they had better stay */
  if (pl->nontemporal && it->stride[0][last] == wide) t.line = CNI_LINE / wide;
  t.per_row = (it->shape[last] + TILE_COLUMNS - 1) / TILE_COLUMNS;
  t.per_column = (it->shape[t.row] + t.rows - 1) / t.rows;
  int64_t matrix = it->shape[last] * it->shape[t.row];
  int64_t count = it->numel / matrix * t.per_row * t.per_column;
  cni_parallel_for(count, CNI_PW_GRAIN / (t.rows * TILE_COLUMNS) + 1, tile_range, &t);
  return true;
}
