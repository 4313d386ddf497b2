/* gemm_blocked.c: large matrix products, in blocks that the caches hold.
 *
 * Flow: B is packed (and A where it lies the other way round, or its rows collide), as many blocks of k as there is
 * room for, by all threads together; then tiles of C are shared out, each of which goes through those blocks. Threads
 * meet twice for each such group of blocks. Invariant: work is cut into pieces of C only; the depth of a block depends
 * on the shapes alone. */
#include "gemm_blocked.h"

#include <string.h>

#include "base/alloc.h"
#include "base/scratch.h"

enum {
  GRAIN_PACK = 1 << 15, /* elements worth waking a thread for */
  ROOM_BYTES = 4 << 20, /* packed blocks of k that are held at once */
  COPY_BYTES = 8 << 20  /* rows of A that are copied at once */
};

typedef enum a_form {
  A_IN_PLACE,
  A_ROWS,   /* rows of a panel copied to a kinder distance when their turn comes */
  A_COPIED, /* all of them before */
  A_PANELS  /* packed: k-major panels of mr rows */
} a_form;

typedef struct block_job {
  const cni_gemm *g;
  const cni_gemm_kernels *ker;
  char *a;       /* packed: row panels (depth, mr), one after the other */
  const char *b; /* packed: column panels (depth, nr), likewise */
  char *room;    /* owned: packed B of some blocks of k, unless it was packed before, and A where it is packed */
  bool packed;   /* B was packed before */
  int64_t first_k, depth;  /* of a block of k; within a region, of the first one */
  int64_t blocks;          /* of k, that a region works on */
  size_t a_bytes, b_bytes; /* that a block of k takes of the room */
  int64_t mr, longer;      /* rows of the first `longer` panels, the kernels' or less; the others have one less */
  int64_t nc;              /* columns of an item: the kernels' or less, so that threads have enough */
  int64_t row_panels, col_panels;
  int64_t block_panels; /* row panels of an item */
  int64_t a_pitch;      /* elements of packed A per row */
  a_form form;
} block_job;

/* The first row of panel p. */
static int64_t row_of(const block_job *job, int64_t p) { return p * job->mr - (p > job->longer ? p - job->longer : 0); }

/* Block k of those that a region works on. */
static block_job block_of(const block_job *all, int64_t k)
{
  block_job one = *all;
  one.first_k += k * all->depth;
  one.depth = least(all->depth, all->g->k - one.first_k);
  one.a += (size_t)k * all->a_bytes;
  one.b = all->packed
              ? (const char *)all->g->packed + one.first_k * all->col_panels * all->ker->nr * (int64_t)all->ker->size
              : all->room + (size_t)k * all->b_bytes;
  if (all->form == A_PANELS) one.a_pitch = one.depth;
  return one;
}

/* Rows [i, i + rows) of A, this block of k, to `to`. */
static void copy_rows(const block_job *job, char *to, int64_t i, int64_t rows)
{
  const cni_gemm *g = job->g;
  const int64_t size = (int64_t)job->ker->size;
  const char *from = (const char *)g->a + (i * g->a_row + job->first_k) * size;
  for (int64_t r = 0; r < rows; r++, to += job->a_pitch * size, from += g->a_row * size)
    memcpy(to, from, (size_t)(job->depth * size));
}

/* What one operand is packed from and to. A panel is up to `width` rows of A or columns of B. */
typedef struct pack_source {
  const char *from; /* element (0, 0) of this block of k */
  char *to;
  int64_t i_step, k_step, count, width;
  int64_t longer; /* panels of that width, of A; the others are one less */
  bool pad;       /* the last panel to full width */
} pack_source;

/* Panels [begin, end). Where k is not contiguous they go side by side through slices of k, so that what
 * lies in one page or cache line is read together. */
static void pack_panels(const block_job *job, const pack_source *s, int64_t begin, int64_t end)
{
  enum { SLICE = 8 };
  const int64_t size = (int64_t)job->ker->size, slice = s->k_step == 1 ? job->depth : SLICE;
  for (int64_t k = 0; k < job->depth; k += slice)
    for (int64_t p = begin; p < end; p++) {
      int64_t first = p * s->width - (p > s->longer ? p - s->longer : 0), full = s->width - (p >= s->longer);
      int64_t count = least(full, s->count - first), width = s->pad ? full : count;
      job->ker->pack(s->to + (first * job->depth + k * width) * size,
                     s->from + (first * s->i_step + k * s->k_step) * size, s->i_step, s->k_step, (int)count,
                     (int)width, least(slice, job->depth - k));
    }
}

static void pack_b(const block_job *job, char *to, int64_t begin, int64_t end)
{
  const cni_gemm *g = job->g;
  pack_source b = {.from = (const char *)g->b + job->first_k * g->b_row * (int64_t)job->ker->size,
                   .to = to,
                   .i_step = g->b_col,
                   .k_step = g->b_row,
                   .count = g->n,
                   .width = job->ker->nr,
                   .longer = job->col_panels,
                   .pad = true};
  pack_panels(job, &b, begin, end);
}

static void pack_a(const block_job *job, int64_t begin, int64_t end)
{
  const cni_gemm *g = job->g;
  if (job->form == A_COPIED) {
    const int64_t i = row_of(job, begin);
    copy_rows(job, job->a + i * job->a_pitch * (int64_t)job->ker->size, i, row_of(job, end) - i);
    return;
  }
  pack_source a = {.from = (const char *)g->a + job->first_k * g->a_col * (int64_t)job->ker->size,
                   .to = job->a,
                   .i_step = g->a_row,
                   .k_step = g->a_col,
                   .count = g->m,
                   .width = job->mr,
                   .longer = job->longer};
  pack_panels(job, &a, begin, end);
}

/* Whether A has a part of the room. */
static bool packs_a(const block_job *job) { return job->form == A_PANELS || job->form == A_COPIED; }

static int64_t panels_to_pack(const block_job *job)
{
  return (job->packed ? 0 : job->col_panels) + (packs_a(job) ? job->row_panels : 0);
}

/* Items: for each block of k column panels of B, then row panels of A, of these what is packed. */
static void pack_range(int64_t begin, int64_t end, void *payload)
{
  const block_job *all = payload;
  const int64_t each = panels_to_pack(all), split = all->packed ? 0 : all->col_panels;
  while (begin < end) {
    block_job job = block_of(all, begin / each);
    int64_t at = begin % each, last = least(each, at + end - begin);
    if (at < split) pack_b(&job, all->room + begin / each * (int64_t)all->b_bytes, at, least(last, split));
    if (last > split) pack_a(&job, at > split ? at - split : 0, last - split);
    begin += last - at;
  }
}

/* Whether a block of A stays in the second-level cache, rather than one of B. */
static bool stays(const block_job *job) { return job->ker->mc && job->form == A_PANELS; }

/* Row panel p of A against columns [j, j + cols). */
static void run_panel(const block_job *job, const char *rows, int64_t p, int64_t j, int64_t cols)
{
  const cni_gemm *g = job->g;
  const int64_t size = (int64_t)job->ker->size, i = row_of(job, p);
  cni_gemm_run r = {.a = rows,
                    .a_row = job->a_pitch,
                    .a_col = 1,
                    .b = job->b + j * job->depth * size,
                    .c = (char *)g->c + (i * g->c_row + j * g->c_col) * size,
                    .c_row = g->c_row,
                    .c_col = g->c_col,
                    .rows = (int)(row_of(job, p + 1) - i),
                    .cols = cols,
                    .depth = job->depth,
                    .alpha = g->alpha,
                    .beta = job->first_k ? 1 : g->beta};
  if (g->bias && !job->first_k) r.bias = (const char *)g->bias + i * size;
  if (g->across && !job->first_k) r.across = (const char *)g->across + j * size;
  if (job->first_k + job->depth == g->k) r.limits = g->limits;
  if (packs_a(job)) r.a = job->a + i * job->a_pitch * size;
  if (job->form == A_PANELS) {
    r.a_row = 1;
    r.a_col = r.rows;
  } else if (job->form == A_IN_PLACE) {
    r.a_row = job->a_pitch;
    r.a = (const char *)(g->apart ? g->apart : g->a) + (job->first_k + i * r.a_row) * size;
  }
  if (job->form != A_PANELS && job->form != A_ROWS && p + 1 < job->row_panels)
    r.next = (const char *)r.a + r.rows * r.a_row * size;
  job->ker->run(&r);
}

/* The row panels from p on, a block of them, against columns [j, j + cols): panel by panel of B, each of which stays
 * in the first-level cache while A's pass by. */
static void run_block(const block_job *job, int64_t p, int64_t j, int64_t cols)
{
  const int64_t nr = job->ker->nr, end = least(p + job->block_panels, job->row_panels);
  for (int64_t at = j; at < j + cols; at += nr)
    for (int64_t panel = p; panel < end; panel++) run_panel(job, NULL, panel, at, least(nr, j + cols - at));
}

/* One block of k of items [begin, end). rows: room for a panel of copied rows, or NULL */
static void run_items(const block_job *job, char *rows, int64_t begin, int64_t end)
{
  const cni_gemm *g = job->g;
  const int64_t nc = job->nc, col_blocks = parts(g->n, nc);
  for (int64_t item = begin; item < end; item++) {
    if (stays(job)) {
      int64_t j = item % col_blocks * nc;
      run_block(job, item / col_blocks * job->block_panels, j, least(nc, g->n - j));
      continue;
    }
    int64_t j = item / job->row_panels * nc, p = item % job->row_panels, i = row_of(job, p);
    if (job->form == A_ROWS) copy_rows(job, rows, i, row_of(job, p + 1) - i);
    run_panel(job, rows, p, j, least(nc, g->n - j));
  }
}

/* Items: a block of row panels of A against a block of columns. What stays in the second-level cache changes slowest:
 * the rows, or B's columns while row panels pass by; then the block of k. */
static void tile_range(int64_t begin, int64_t end, void *payload)
{
  const block_job *all = payload;
  const int64_t run = stays(all) ? parts(all->g->n, all->nc) : all->row_panels;
  size_t bytes = all->form == A_ROWS ? (size_t)(all->mr * all->a_pitch * (int64_t)all->ker->size) : 0;
  char *rows = bytes ? cni_scratch_alloc(bytes) : NULL;
  if (bytes && !rows) return; /* the error is set, and reaches the caller */
  while (begin < end) {
    int64_t last = least(end, (begin / run + 1) * run);
    for (int64_t k = 0; k < all->blocks; k++) {
      block_job job = block_of(all, k);
      run_items(&job, rows, begin, last);
    }
    begin = last;
  }
  cni_scratch_free(rows, bytes);
}

/* Rows that collide are copied for every block of columns (see prepare for once), unless they lie apart once more, or
 * packed once where kernels have a use for that. */
static a_form a_form_of(const cni_gemm *g, const cni_gemm_kernels *ker)
{
  if (g->a_col != 1) return A_PANELS;
  if (!cni_rows_collide(g->a_row * (int64_t)ker->size, ker->mr)) return A_IN_PLACE;
  if (!ker->mc && g->apart) return A_IN_PLACE;
  return ker->mc ? A_PANELS : A_ROWS;
}

/* Row panels of an item: as many as stay in the cache, fewer where threads would lack work. */
static int64_t block_panels(const block_job *job)
{
  enum { ITEMS = 4, LEAST = 4 };
  const int64_t most = job->ker->mc / job->ker->mr, columns = parts(job->g->n, job->nc);
  if (!stays(job)) return 1;
  int64_t blocks = parts(job->row_panels, most), wanted = cn_num_threads() > 1 ? ITEMS * cn_num_threads() : 1;
  if (blocks * columns < wanted) blocks = least(parts(wanted, columns), parts(job->row_panels, LEAST));
  return parts(job->row_panels, blocks);
}

/* Columns of an item: fewer where the busiest thread has less to do then, counting what it costs to fetch a row
 * panel. */
static int64_t item_columns(const block_job *job)
{
  enum { FETCHING = 8 /* costs as much as so many columns */ };
  const int64_t nr = job->ker->nr, threads = cn_num_threads();
  int64_t best = job->ker->nc, busiest = INT64_MAX;
  if (stays(job)) return best;
  for (int64_t items = parts(job->g->n, best), nc = best; items == 1 || nc > 2 * nr; items *= 2) {
    nc = parts(parts(job->g->n, items), nr) * nr;
    int64_t cost = parts(items * job->row_panels, threads) * (nc + FETCHING);
    if (cost < busiest) busiest = cost, best = nc;
  }
  return best;
}

/* Sizes the panels and allocates them. A copy of a row is an odd number of cache lines long, so that rows never
 * collide. CN_ERR_MEMORY with the error set on failure; *bytes goes to cni_free with job->room. */
static int prepare(block_job *job, size_t *bytes)
{
  const cni_gemm *g = job->g;
  const cni_gemm_kernels *ker = job->ker;
  const int64_t line = 64 / (int64_t)ker->size, depth = job->depth;
  job->row_panels = parts(g->m, ker->mr);
  job->mr = parts(g->m, job->row_panels);
  job->longer = g->m - job->row_panels * (job->mr - 1);
  job->col_panels = parts(g->n, ker->nr);
  job->form = a_form_of(g, ker);
  job->nc = item_columns(job);
  job->block_panels = block_panels(job);
  job->a_pitch = job->form == A_ROWS ? (parts(depth, line) | 1) * line : depth;
  if (job->form == A_ROWS && g->n > job->nc && g->m * job->a_pitch * (int64_t)ker->size <= COPY_BYTES)
    job->form = A_COPIED;
  if (job->form == A_IN_PLACE) job->a_pitch = g->apart ? g->apart_row : g->a_row;
  job->packed = g->packed && g->packed_depth == depth;
  size_t each;
  if ((!job->packed &&
       cni_mul_overflows((size_t)(job->col_panels * ker->nr), (size_t)depth * ker->size, &job->b_bytes)) ||
      (packs_a(job) &&
       cni_mul_overflows((size_t)(job->row_panels * job->mr), (size_t)job->a_pitch * ker->size, &job->a_bytes)) ||
      __builtin_add_overflow(job->a_bytes, job->b_bytes, &each))
    return cn_err_set(CN_ERR_MEMORY, "matrix product: operands are too large");
  job->blocks = parts(g->k, depth);
  if (each) job->blocks = least(job->blocks, ROOM_BYTES / each ? (int64_t)(ROOM_BYTES / each) : 1);
  *bytes = (size_t)job->blocks * each;
  job->room = cni_scratch_alloc(*bytes); /* b_bytes is a multiple of 64, since nr elements are */
  if (!job->room) return CN_ERR_MEMORY;
  job->a = job->room + (size_t)job->blocks * job->b_bytes;
  return CN_OK;
}

/* As many blocks of k at a time as there is room for, so that threads meet seldom. */
int cni_gemm_blocked(const cni_gemm *g, const cni_gemm_kernels *ker)
{
  block_job job = {.g = g, .ker = ker, .depth = block_depth(g, ker)};
  size_t bytes = 0;
  int status = prepare(&job, &bytes);
  if (status) return status;
  const int64_t most = job.blocks, step = most * job.depth, pack_items = panels_to_pack(&job);
  const int64_t tile_items = parts(g->n, job.nc) * parts(job.row_panels, job.block_panels);
  for (; job.first_k < g->k; job.first_k += step) {
    double depth = (double)least(step, g->k - job.first_k);
    job.blocks = least(most, parts(g->k - job.first_k, job.depth));
    double packed = depth * (double)((job.packed ? 0 : g->n) + (packs_a(&job) ? g->m : 0));
    if (pack_items) in_parallel(job.blocks * pack_items, packed, GRAIN_PACK, pack_range, &job);
    in_parallel(tile_items, (double)g->m * (double)g->n * depth, GRAIN_WORK, tile_range, &job);
  }
  cni_scratch_free(job.room, bytes);
  return cn_err();
}

void cni_gemm_pack_b(const cni_gemm *g, const cni_gemm_kernels *ker, int64_t depth, void *to)
{
  block_job job = {.g = g, .ker = ker, .depth = depth, .blocks = parts(g->k, depth), .room = to, .a = to};
  job.form = A_IN_PLACE;
  job.col_panels = parts(g->n, ker->nr);
  job.b_bytes = (size_t)(depth * job.col_panels * ker->nr) * ker->size;
  in_parallel(job.blocks * job.col_panels, (double)g->k * (double)g->n, GRAIN_PACK, pack_range, &job);
}
