/* matmul_half.c: matrix products of float16 and bfloat16, summed in float32.
 *
 * Flow: a few rows against columns that lie in one piece: matmul_few.c. Else B is packed once, as float32 or, where
 * the machine multiplies bfloat16, as pairs along k; then row panels of A, packed likewise or tile by tile, meet chunks
 * of B that stay in the second-level cache, and sums are rounded into C, by the kernel itself or from a strip of them.
 * Invariant: an element of C is one chain of sums whichever panel it falls into, so no result depends on the number of
 * threads. */
#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/walk/cast.h"
#include "base/alloc.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "gemm_isa.h"
#include "matmul.h"

enum {
  GRAIN_WORK = 1 << 19, /* multiply-adds worth waking a thread for */
  GRAIN_PACK = 1 << 15, /* elements */
  FEW_ROWS = CNI_HALF_FEW,
  ALONG_ROWS = 8,       /* up to here B is read as it lies, row by row; half as many where instructions take pairs */
  LONG_ROWS = 64,       /* k from where on that pays */
  DOT_ROWS = 4,         /* up to here nothing beats dot products */
  TURNED_ROWS = 64,
  SLICE = 16, /* elements along k that are packed together over all panels */
  CHUNK_BYTES = 384 << 10,
  TILE_CHUNK_BYTES = 1 << 20, /* for tiles, whose machines have 2 MiB of second-level cache */
  MOST_COLUMNS = 1024         /* of a chunk */
};

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t parts(int64_t n, int64_t size) { return (n + size - 1) / size; }

static const cni_half_loops *loops(void) { return CNI_BY_ISA(cni_half_loops); }

/* How B is packed: its rows one after the other; columns that are pairs as they lie; columns made such first. */
typedef enum b_form { ALONG, AS_PAIRS, BY_COPY } b_form;

typedef struct panels {
  const cni_product *p;
  const cni_gemm_kernels *ker;
  const cni_half_loops *loops;
  void (*pack)(void *to, const void *from, int64_t i_step, int64_t k_step, int count, int width, int64_t depth);
  cni_cast_fn load, store;
  bool pairs;             /* elements of panels are pairs of bfloat16, else float32 */
  int64_t tile;           /* elements along k of a tile, by which depths are multiples of it; 1: by vectors */
  int64_t depth, kc;      /* elements along k: all, of a block */
  int64_t mr, row_panels; /* rows of a panel, all about equal */
  int64_t nc, chunks;     /* columns that a strip has */
  int64_t width, pitch;   /* columns with padding; elements of a row of packed A */
  int64_t each;           /* k per element: 1 or 2 */
  bool rounds;            /* the kernel writes C itself */
  bool in_place;          /* A's rows are pairs as they are */
  bool passing;           /* one row panel: B is packed panel by panel as it passes by */
  bool lines;             /* A is packed before: a panel is (depth, rows), or as cni_tiles_pack says */
  b_form b_form;
} panels;

/* Whether what lies along k can be read as aligned pairs. */
static bool are_pairs(const cni_matrix *x, int64_t k_step, int64_t i_step, int64_t k)
{
  return k_step == 1 && i_step % 2 == 0 && x->step % 2 == 0 && k % 2 == 0 && (uintptr_t)x->data % 4 == 0;
}

/* Whether rows are whole lines of the cache, as tiles are read best. */
static bool are_lines(const cni_matrix *a, int64_t k)
{
  enum { LINE = 64, NUMBERS = LINE / 2 };
  return a->col == 1 && k % NUMBERS == 0 && a->row % NUMBERS == 0 && a->step % NUMBERS == 0 &&
         (uintptr_t)a->data % LINE == 0;
}

/* bfloat16 by the best instruction for it. */
static void choose_pairs(panels *w)
{
#if CNI_HAS_LEVELS
  if (w->p->dtype != CN_BF16 || !cni_cpu_multiplies_bf16()) return;
  w->ker = &cni_gemm_pairs, w->pack = cni_gemm_pairs.pack, w->pairs = true, w->each = 2;
#endif
#if defined(__x86_64__)
  if (cni_cpu_multiplies_tiles()) w->ker = &cni_gemm_tile_pairs, w->tile = CNI_TILE;
#endif
}

static panels panels_of(const cni_product *p)
{
  const cni_gemm_kernels *by_type = CNI_BY_ISA(cni_gemm_kernels);
  panels w = {.p = p,
              .ker = by_type,
              .pack = by_type->pack,
              .loops = loops(),
              .load = cni_cast_find(p->dtype, CN_F32),
              .store = cni_cast_find(CN_F32, p->dtype),
              .each = 1,
              .tile = 1};
  choose_pairs(&w);
  const int64_t nr = w.ker->nr;
  w.depth = p->k ? parts(parts(p->k, w.each), w.tile) * w.tile : 1;
  w.kc = parts(parts(w.depth, parts(w.depth, w.ker->kc)), w.tile) * w.tile;
  w.row_panels = parts(p->m, w.ker->mr);
  w.mr = parts(p->m, w.row_panels);
  w.width = parts(p->n, nr) * nr;
  w.nc = (w.tile > 1 ? TILE_CHUNK_BYTES : CHUNK_BYTES) / (4 * w.depth) / nr * nr;
  w.nc = w.nc < 2 * nr ? 2 * nr : least(w.nc, MOST_COLUMNS);
  w.chunks = parts(p->n, w.nc);
  w.nc = parts(parts(p->n, w.chunks), nr) * nr; /* chunks of about one size */
  w.chunks = parts(p->n, w.nc);
  w.passing = w.row_panels == 1;
  if (w.passing) w.nc = nr;
  w.rounds = w.tile > 1 && p->c.col == 1;
  w.in_place = w.tile > 1 ? are_lines(&p->a, p->k)
                          : w.pairs && !w.passing && are_pairs(&p->a, p->a.col, p->a.row, p->k) &&
                                !cni_rows_collide(p->a.row * 2, w.ker->mr);
  w.lines = w.tile > 1 ? !w.in_place : (!w.passing && p->a.row == 1 && p->a.col != 1);
  w.b_form = p->b.col == 1 ? ALONG : w.pairs && are_pairs(&p->b, p->b.row, p->b.col, p->k) ? AS_PAIRS : BY_COPY;
  w.pitch = (parts(w.depth, 16) | 1) * 16; /* an odd number of cache lines, so that rows never collide */
  return w;
}

static uint16_t half_bits(const char *x)
{
  uint16_t h;
  memcpy(&h, x, sizeof h);
  return h;
}

/* Elements [first, first + depth) along k of `count` rows of A (columns of B) at x, k_step and i_step apart, as
 * to[i * pitch + t]. */
static void rows_to(const panels *w, char *to, int64_t pitch, const char *x, int64_t i_step, int64_t k_step,
                    int count, int64_t first, int64_t depth)
{
  const int64_t k = w->p->k, begin = first * w->each, have = least(depth * w->each, k - begin);
  const size_t missing = (size_t)(depth - parts(have, w->each)) * 4;
  for (int i = 0; i < count; i++, to += pitch * 4) {
    memset(to + depth * 4 - missing, 0, missing);
    const char *row = x + (i * i_step + begin * k_step) * 2;
    if (w->pairs) {
      if (k_step == 1) memcpy(to, row, (size_t)have * 2);
      else
        for (int64_t t = 0; t < have; t++) memcpy(to + t * 2, row + t * k_step * 2, 2);
      if (have % 2) memset(to + have * 2, 0, 2);
    } else if (k_step == 1) {
      w->load(to, row, (size_t)have);
    } else {
      uint16_t h[64];
      for (int64_t t = 0; t < have; t += 64) {
        int64_t some = least(64, have - t);
        for (int64_t s = 0; s < some; s++) h[s] = half_bits(row + (t + s) * k_step * 2);
        w->load(to + t * 4, h, (size_t)some);
      }
    }
  }
}

/* The same, i contiguous, as to[t * width + i], padded with 0. */
static void lines_to(const panels *w, char *to, int width, const char *x, int64_t k_step, int count, int64_t first,
                     int64_t depth)
{
  const int64_t begin = first * w->each, have = least(depth * w->each, w->p->k - begin);
  const char *from = x + begin * k_step * 2;
  if (w->pairs) {
    const int64_t pairs = parts(have, 2);
    w->loops->pairs((uint32_t *)(void *)to, (const uint16_t *)(const void *)from, k_step, count, width, have);
    memset(to + pairs * width * 4, 0, (size_t)((depth - pairs) * width) * 4);
    return;
  }
  for (int64_t t = 0; t < have; t++, to += width * 4) {
    w->load(to, from + t * k_step * 2, (size_t)count);
    if (count < width) memset(to + count * 4, 0, (size_t)(width - count) * 4);
  }
}

/* One column panel of B, elements [k, k + depth). rows: room for a panel. */
static void pack_panel(const panels *w, char *to, const char *from, int count, int64_t k, int64_t depth, char *rows)
{
  const cni_matrix *b = &w->p->b;
  const int nr = w->ker->nr;
  if (w->b_form == ALONG) {
    lines_to(w, to, nr, from, b->row, count, k, depth);
  } else if (w->b_form == AS_PAIRS) {
    const int64_t have = least(depth, w->p->k / 2 - k);
    w->pack(to, from + k * 4, b->col / 2, 1, count, nr, have);
    memset(to + have * nr * 4, 0, (size_t)((depth - have) * nr) * 4);
  } else {
    rows_to(w, rows, depth, from, b->col, b->row, count, k, depth);
    w->pack(to, rows, depth, 1, count, nr, depth);
  }
}

typedef struct packing {
  const panels *w;
  int64_t batch;
  char *a; /* if packed: row panels (depth, rows), or the rows of the only one, pitch apart */
  char *b; /* block of k after block: column panels (depth, nr) */
} packing;

/* Items: column panels of B; where rows are read, neighbours in memory together. */
static void pack_range(int64_t begin, int64_t end, void *payload)
{
  const packing *job = payload;
  const panels *w = job->w;
  const cni_product *p = w->p;
  const int nr = w->ker->nr;
  size_t bytes = (size_t)(w->kc * nr) * 4;
  char *rows = w->b_form == BY_COPY ? cni_scratch_alloc(bytes) : NULL;
  if (w->b_form == BY_COPY && !rows) return;
  for (int64_t k = 0; k < w->depth; k += w->kc) {
    const int64_t depth = least(w->kc, w->depth - k), slice = w->b_form == ALONG ? SLICE : depth;
    for (int64_t at = 0; at < depth; at += slice)
      for (int64_t item = begin; item < end; item++) {
        int64_t j = item * nr;
        char *to = job->b + (k * w->width + j * depth + at * nr) * 4;
        pack_panel(w, to, cni_product_at(p, &p->b, job->batch, 0, j), (int)least(nr, p->n - j), k + at,
                   least(slice, depth - at), rows);
      }
  }
  cni_scratch_free(rows, bytes);
}

/* Whether the first row of a strip starts all of them: a row is added, and sums are not kept in the strip. */
static bool one_row_starts(const panels *w) { return w->rounds && w->kc >= w->depth && w->p->init.row == 0; }

/* Where a strip begins: (rows, nc) of beta * init's numbers. */
static void start_strip(const panels *w, float *strip, int64_t b, int64_t i, int64_t j, int64_t rows, int64_t cols)
{
  const cni_product *p = w->p;
  if (one_row_starts(w)) rows = 1;
  for (int64_t r = 0; r < rows; r++, strip += w->nc) {
    const char *from = cni_product_at(p, &p->init, b, i + r, j);
    if (r && p->init.row == 0) memcpy(strip, strip - w->nc, (size_t)cols * sizeof *strip);
    else if (p->init.col == 1) w->load(strip, from, (size_t)cols);
    else if (p->init.col == 0) {
      w->load(strip, from, 1);
      for (int64_t s = 1; s < cols; s++) strip[s] = strip[0];
    } else
      for (int64_t s = 0; s < cols; s++, from += p->init.col * 2) w->load(strip + s, from, 1);
  }
}

/* Where C's columns lie in one piece. */
static void give_columns(const panels *w, const float *strip, int64_t b, int64_t i, int64_t j, int64_t rows,
                         int64_t cols)
{
  float column[64]; /* more than a panel's rows */
  for (int64_t s = 0; s < cols; s++) {
    for (int64_t r = 0; r < rows; r++) column[r] = strip[r * w->nc + s];
    w->store(cni_product_at(w->p, &w->p->c, b, i, j + s), column, (size_t)rows);
  }
}

static void finish_strip(const panels *w, const float *strip, int64_t b, int64_t i, int64_t j, int64_t rows,
                         int64_t cols)
{
  const cni_product *p = w->p;
  if (w->rounds) return;
  if (cols == w->nc && p->c.col == 1 && p->c.row == cols) { /* all in one piece */
    w->store(cni_product_at(p, &p->c, b, i, j), strip, (size_t)(rows * cols));
    return;
  }
  if (p->c.row == 1 && p->c.col != 1) {
    give_columns(w, strip, b, i, j, rows, cols);
    return;
  }
  for (int64_t r = 0; r < rows; r++, strip += w->nc) {
    char *to = cni_product_at(p, &p->c, b, i + r, j);
    if (p->c.col == 1) w->store(to, strip, (size_t)cols);
    else
      for (int64_t s = 0; s < cols; s++, to += p->c.col * 2) w->store(to, strip + s, 1);
  }
}

/* Elements [k, k + depth) along k of the row panel from row i on, where it lies in packed A. */
static void pack_a_slice(const packing *job, int64_t i, int rows, int64_t k, int64_t depth)
{
  const panels *w = job->w;
  const cni_product *p = w->p;
  char *to = job->a + (i * w->depth + k * rows) * 4;
#if defined(__x86_64__)
  if (w->tile > 1) {
    cni_tiles_pack(to, cni_product_at(p, &p->a, job->batch, i, k * 2), p->a.row, p->a.col, rows,
                   least(depth * 2, p->k - k * 2), 2);
    return;
  }
#endif
  lines_to(w, to, rows, cni_product_at(p, &p->a, job->batch, i, 0), p->a.col, rows, k, depth);
}

/* Items: slices of A's panels; neighbours in memory together. */
static void pack_a_range(int64_t begin, int64_t end, void *payload)
{
  const packing *job = payload;
  const panels *w = job->w;
  const cni_product *p = w->p;
  const int64_t slice = p->a.col == 1 ? w->depth : SLICE;
  for (int64_t k = 0; k < w->depth; k += slice)
    for (int64_t item = begin; item < end; item++) {
      int64_t i = item * w->mr;
      pack_a_slice(job, i, (int)least(w->mr, p->m - i), k, least(slice, w->depth - k));
    }
}

/* How the kernel steps through A of `rows` rows. */
static void set_steps(const panels *w, cni_gemm_run *r, int64_t rows)
{
  r->rows = (int)rows;
  if (w->tile > 1 && w->lines) r->a_row = w->tile, r->a_col = w->tile * rows;
  else if (w->tile > 1) r->a_row = w->p->a.row / 2, r->a_col = w->tile;
  else if (w->lines) r->a_row = 1, r->a_col = rows;
  else r->a_row = w->in_place ? w->p->a.row / 2 : w->pitch, r->a_col = 1;
}

/* One run of a strip that begins at (i, j): the last one rounds, if it can; a strip of one row is all of them. */
static void run_strip(const packing *job, cni_gemm_run *r, int64_t i, int64_t j, int64_t rows, bool last)
{
  const panels *w = job->w;
  set_steps(w, r, rows);
  if (w->rounds && last) {
    r->rounded = (uint16_t *)(void *)cni_product_at(w->p, &w->p->c, job->batch, i, j);
    r->rounded_row = w->p->c.row;
  }
  if (one_row_starts(w)) r->c_row = 0;
  w->ker->run(r);
}

/* Rows [i, i + rows) against columns [j, j + cols). a: room for a panel, unless A is packed. */
static void one_strip(const packing *job, float *strip, char *room, int64_t i, int64_t j, int64_t rows, int64_t cols)
{
  const panels *w = job->w;
  const cni_product *p = w->p;
  const char *from = cni_product_at(p, &p->a, job->batch, i, 0), *a = w->in_place ? from : room;
  if (w->lines) a = job->a + i * w->depth * 4;
  else if (!w->in_place) rows_to(w, room, w->pitch, from, p->a.row, p->a.col, (int)rows, 0, w->depth);
  if (p->beta != 0) start_strip(w, strip, job->batch, i, j, rows, cols);
  for (int64_t k = 0; k < w->depth; k += w->kc) {
    cni_gemm_run r = {.a = a + (w->lines ? k * rows : k) * 4,
                      .b = job->b + (k * w->width + j * least(w->kc, w->depth - k)) * 4,
                      .c = strip,
                      .c_row = w->nc,
                      .c_col = 1,
                      .cols = cols,
                      .depth = least(w->kc, w->depth - k),
                      .alpha = p->alpha,
                      .beta = k ? 1 : p->beta};
    if (w->tile > 1 && i + 2 * rows <= p->m)
      r.next = (const char *)r.a + rows * (w->in_place ? p->a.row * 2 : w->depth * 4);
    run_strip(job, &r, i, j, rows, k + w->kc >= w->depth);
  }
  finish_strip(w, strip, job->batch, i, j, rows, cols);
}

/* Items: a row panel against a chunk of columns, the chunks changing slowest. */
static void tile_range(int64_t begin, int64_t end, void *payload)
{
  const packing *job = payload;
  const panels *w = job->w;
  const cni_product *p = w->p;
  size_t bytes = (size_t)(w->mr * (w->nc + (w->lines || w->in_place ? 0 : w->pitch))) * 4;
  float *strip = cni_scratch_alloc(bytes);
  if (!strip) return;
  for (int64_t item = begin; item < end; item++) {
    int64_t j = item / w->row_panels * w->nc, i = item % w->row_panels * w->mr;
    one_strip(job, strip, (char *)(strip + w->mr * w->nc), i, j, least(w->mr, p->m - i), least(w->nc, p->n - j));
  }
  cni_scratch_free(strip, bytes);
}

/* Items: column panels, each packed, used by the one row panel there is, and forgotten. */
static void passing_range(int64_t begin, int64_t end, void *payload)
{
  const packing *job = payload;
  const panels *w = job->w;
  const cni_product *p = w->p;
  const int nr = w->ker->nr;
  size_t bytes = (size_t)(2 * w->kc * nr + p->m * nr) * 4;
  char *b = cni_scratch_alloc(bytes);
  if (!b) return;
  char *rows = b + w->kc * nr * 4;
  float *strip = (float *)(void *)(rows + w->kc * nr * 4);
  for (int64_t item = begin; item < end; item++) {
    int64_t j = item * nr, cols = least(nr, p->n - j);
    if (p->beta != 0) start_strip(w, strip, job->batch, 0, j, p->m, cols);
    for (int64_t k = 0; k < w->depth; k += w->kc) {
      int64_t depth = least(w->kc, w->depth - k);
      pack_panel(w, b, cni_product_at(p, &p->b, job->batch, 0, j), (int)cols, k, depth, rows);
      cni_gemm_run r = {.a = job->a + (w->lines ? k * p->m : k) * 4,
                        .b = b,
                        .c = strip,
                        .c_row = nr,
                        .c_col = 1,
                        .cols = cols,
                        .depth = depth,
                        .alpha = p->alpha,
                        .beta = k ? 1 : p->beta};
      run_strip(job, &r, 0, j, p->m, k + w->kc >= w->depth);
    }
    finish_strip(w, strip, job->batch, 0, j, p->m, cols);
  }
  cni_scratch_free(b, bytes);
}

/* No depth: C = beta * init. */
static void scale_only(const panels *w, int64_t b)
{
  const cni_product *p = w->p;
  for (int64_t i = 0; i < p->m; i++)
    for (int64_t j = 0; j < p->n; j++) {
      float x = 0;
      if (p->beta != 0) w->load(&x, cni_product_at(p, &p->init, b, i, j), 1);
      x *= (float)p->beta;
      w->store(cni_product_at(p, &p->c, b, i, j), &x, 1);
    }
}

/* One product. room: as panels_room says. */
static void one_product(const panels *w, int64_t b, char *room)
{
  const cni_product *p = w->p;
  const double unit = (double)w->depth * (double)w->ker->nr;
  packing job = {w, b, room, room + (w->passing ? 0 : w->lines ? w->depth * p->m * 4 : 0)};
  const int64_t col_panels = w->width / w->ker->nr;
  if (!p->k) {
    scale_only(w, b);
  } else if (w->passing) {
    if (w->in_place) job.a = cni_product_at(p, &p->a, b, 0, 0);
    else if (w->lines) pack_a_slice(&job, 0, (int)p->m, 0, w->depth);
    else rows_to(w, job.a, w->pitch, cni_product_at(p, &p->a, b, 0, 0), p->a.row, p->a.col, (int)p->m, 0, w->depth);
    cni_parallel_for(col_panels, cni_product_grain(unit, GRAIN_PACK), passing_range, &job);
  } else {
    cni_parallel_for(col_panels, cni_product_grain(unit, GRAIN_PACK), pack_range, &job);
    if (w->lines)
      cni_parallel_for(w->row_panels, cni_product_grain((double)(w->depth * w->mr), GRAIN_PACK), pack_a_range, &job);
    double work = (double)w->depth * (double)w->mr * (double)w->nc;
    if (!cn_err()) cni_parallel_for(w->chunks * w->row_panels, cni_product_grain(work, GRAIN_WORK), tile_range, &job);
  }
}

/* Bytes for packed operands. false: more than can be. */
static bool panels_room(const panels *w, size_t *bytes)
{
  size_t a = 0;
  if (w->passing) return !cni_mul_overflows((size_t)w->p->m * 4, (size_t)w->pitch, bytes);
  if (w->lines && cni_mul_overflows((size_t)w->p->m * 4, (size_t)w->depth, &a)) return false;
  return !cni_mul_overflows((size_t)w->width * 4, (size_t)w->depth, bytes) &&
         !__builtin_add_overflow(*bytes, a, bytes);
}

/* Items: products. */
static void product_range(int64_t begin, int64_t end, void *payload)
{
  const panels *w = payload;
  size_t bytes;
  if (!panels_room(w, &bytes)) {
    cn_err_set(CN_ERR_MEMORY, "matrix product: operands are too large");
    return;
  }
  char *room = cni_scratch_alloc(bytes);
  for (int64_t b = begin; room && b < end && !cn_err(); b++) one_product(w, b, room);
  cni_scratch_free(room, bytes);
}

/* C^T = B^T A^T */
static cni_matrix transposed(cni_matrix x)
{
  int64_t row = x.row;
  x.row = x.col;
  x.col = row;
  return x;
}
static void transpose(cni_product *p)
{
  cni_matrix a = transposed(p->b), b = transposed(p->a);
  int64_t m = p->n, n = p->m;
  p->a = a, p->b = b, p->c = transposed(p->c), p->init = transposed(p->init);
  p->m = m, p->n = n;
}

/* Whether tiles had better read B's columns as rows of A, and pack A, by far the smaller. Alignment must not decide:
 * where it is not kind, what is read is copied. */
static bool better_turned(const cni_product *p)
{
  return p->dtype == CN_BF16 && p->m > DOT_ROWS && p->m <= TURNED_ROWS && p->n >= 4 * p->m && p->b.row == 1 &&
         p->k >= LONG_ROWS && cni_cpu_multiplies_tiles();
}

static int64_t along_rows(const cni_product *p)
{
  return p->dtype == CN_BF16 && cni_cpu_multiplies_bf16() ? ALONG_ROWS / 2 : ALONG_ROWS;
}

int cni_half_product(cni_product *p)
{
  if (!p->init.data) p->beta = 0;
  if (p->n == 1) p->c.col = 1, p->b.col = p->k;
  if (p->m == 1) p->a.row = p->k;
  if (p->n < p->m && p->n <= FEW_ROWS && (p->a.col == 1 || p->n == 1)) transpose(p);
  if (better_turned(p)) transpose(p);
  else if (p->m <= FEW_ROWS && p->b.row == 1 && p->k >= LONG_ROWS) return cni_half_few(p);
  else if (p->m <= along_rows(p) && p->b.col == 1) return cni_half_few_along(p);
  panels w = panels_of(p);
  double work = (double)p->m * (double)p->n * (double)(p->k + 1);
  if (p->batch >= 2 * cn_num_threads() || work < GRAIN_WORK)
    cni_parallel_for(p->batch, cni_product_grain(work, GRAIN_WORK), product_range, &w);
  else product_range(0, p->batch, &w);
  return cn_err();
}
