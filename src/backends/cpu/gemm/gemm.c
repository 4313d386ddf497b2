/* gemm.c: chooses how a matrix product is done and runs it on the threads.
 *
 * Flow: normalise (C row-major) -> a library, if the caller names one -> row or dot kernel for vectors,
 * direct kernel where both operands can be read in place, else the blocked one: for each block of k, pack
 * B (and A where it lies the other way round, or its rows collide), then tiles of C in parallel.
 * Invariant: work is cut into pieces of C only, and an element of C is computed by the same chain of
 * operations whichever piece it falls into. */
#include "gemm.h"

#include <string.h>

#include "backends/cpu/lib/blas.h"
#include "base/alloc.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "gemm_isa.h"
#include "ops/product.h"

enum {
  GRAIN_WORK = 1 << 20,      /* multiply-adds worth waking a thread for */
  GRAIN_PACK = 1 << 16,      /* elements */
  A_BYTES = 256 << 10,       /* transposed A up to this size is read in place */
  B_BYTES = 40 << 10         /* and so is row-major B, this much for each row of a tile that shares a load */
};

static const cni_gemm_kernels *kernels_of(bool f64)
{
  const cni_gemm_kernels *by_type = CNI_BY_ISA(cni_gemm_kernels);
  return &by_type[f64];
}

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t parts(int64_t n, int64_t size) { return (n + size - 1) / size; }

/* In floating point, since it may exceed 64 bits. */
static inline double work_of(const cni_gemm *g) { return (double)g->m * (double)g->n * (double)g->k; }

/* C^T = B^T A^T */
static cni_gemm transposed(const cni_gemm *g)
{
  return (cni_gemm){.m = g->n,
                    .n = g->m,
                    .k = g->k,
                    .a = g->b,
                    .a_row = g->b_col,
                    .a_col = g->b_row,
                    .b = g->a,
                    .b_row = g->a_col,
                    .b_col = g->a_row,
                    .c = g->c,
                    .c_row = g->c_col,
                    .c_col = g->c_row,
                    .alpha = g->alpha,
                    .beta = g->beta,
                    .by = g->by};
}

/* No depth: C = beta * C. */
static void scale_only(const cni_gemm *g, bool f64)
{
  for (int64_t i = 0; i < g->m; i++)
    for (int64_t j = 0; j < g->n; j++) {
      int64_t at = i * g->c_row + j * g->c_col;
      if (f64) {
        double *c = (double *)g->c + at;
        *c = g->beta == 0 ? 0 : g->beta * *c;
      } else {
        float *c = (float *)g->c + at;
        *c = g->beta == 0 ? 0 : (float)g->beta * *c;
      }
    }
}

/* ---- items of work over the threads ---- */

typedef struct spread {
  cni_range_fn fn;
  void *payload;
  int64_t items, pieces;
} spread;

static void spread_range(int64_t begin, int64_t end, void *payload)
{
  const spread *s = payload;
  s->fn(begin * s->items / s->pieces, end * s->items / s->pieces, s->payload);
}

/* Runs fn over [0, items) in pieces as equal as can be: a few for each thread, since cores differ in speed,
 * but none with less than `enough` of the `work`. */
static void in_parallel(int64_t items, double work, double enough, cni_range_fn fn, void *payload)
{
  spread s = {.fn = fn, .payload = payload, .items = items, .pieces = 1};
  if (work >= 2 * enough) {
    int64_t threads = cn_num_threads();
    double most = work / enough;
    s.pieces = most < 4.0 * (double)threads ? (int64_t)most : 4 * threads;
    if (s.pieces > threads) s.pieces -= s.pieces % threads;
    s.pieces = least(s.pieces, items);
  }
  if (s.pieces <= 1) fn(0, items, payload);
  else cni_parallel_for(s.pieces, 1, spread_range, &s);
}

/* ---- kernels that need no preparation: parallel over columns or rows of C ---- */

typedef struct simple_job {
  const cni_gemm *g;
  const cni_gemm_kernels *ker;
  void (*fn)(const cni_gemm *g, int64_t begin, int64_t end);
  int64_t unit, total; /* items are `unit` columns or rows of `total` */
} simple_job;

static void simple_range(int64_t begin, int64_t end, void *payload)
{
  const simple_job *job = payload;
  job->fn(job->g, begin * job->unit, least(end * job->unit, job->total));
}

static void rows_range(int64_t begin, int64_t end, void *payload)
{
  const simple_job *job = payload;
  cni_gemm g = *job->g;
  const int64_t first = begin * job->unit, size = (int64_t)job->ker->size;
  g.m = least(end * job->unit, job->total) - first;
  g.a = (const char *)g.a + first * g.a_row * size;
  g.c = (char *)g.c + first * g.c_row * size;
  job->fn(&g, 0, g.n);
}

static void run_simple(simple_job *job, cni_range_fn range)
{
  in_parallel(parts(job->total, job->unit), work_of(job->g), GRAIN_WORK, range, job);
}

/* How evenly `items` fill the threads: 1 at best. */
static double evenness(int64_t items)
{
  int64_t threads = cn_num_threads();
  return (double)items / (double)(parts(items, threads) * threads);
}

/* By columns, which keeps a panel of B with one thread, unless rows share the work out better. */
static int run_direct(const cni_gemm *given, const cni_gemm_kernels *ker)
{
  cni_gemm g = *given;
  simple_job job = {.g = &g, .ker = ker, .fn = ker->direct, .unit = ker->nr, .total = g.n};
  if (g.packed_depth != ker->direct_kc) g.packed = NULL;
  if (work_of(&g) < 2.0 * GRAIN_WORK) {
    ker->direct(&g, 0, g.n);
  } else if (evenness(parts(g.n, ker->nr)) + 0.05 >= evenness(parts(g.m, ker->mr))) {
    run_simple(&job, simple_range);
  } else {
    job.unit = ker->mr;
    job.total = g.m;
    run_simple(&job, rows_range);
  }
  return CN_OK;
}

/* Products with a vector or a few of them, where B (or A) is read once and reading it well is all that counts. */
static bool is_dots(const cni_gemm *g)
{
  enum { FEW = 8, LONG = 128 };
  return g->a_col == 1 && g->b_row == 1 && (g->n == 1 || (g->n <= FEW && g->k >= LONG));
}

static bool is_flat(const cni_gemm *g)
{
  return is_dots(g) || (g->m == 1 && g->b_col == 1 && g->c_col == 1 && g->alpha == 1);
}

static int run_flat(const cni_gemm *g, const cni_gemm_kernels *ker)
{
  simple_job job = {.g = g, .ker = ker, .fn = ker->dots, .unit = 16, .total = g->m};
  if (!is_dots(g)) job = (simple_job){.g = g, .ker = ker, .fn = ker->row, .unit = 4 * ker->nr, .total = g->n};
  run_simple(&job, simple_range);
  return CN_OK;
}

/* ---- blocked ---- */

typedef enum a_form {
  A_IN_PLACE,
  A_ROWS,  /* rows of a panel copied to a kinder distance when their turn comes */
  A_PANELS /* packed: k-major panels of mr rows */
} a_form;

typedef struct block_job {
  const cni_gemm *g;
  const cni_gemm_kernels *ker;
  char *a;                /* packed: row panels (depth, mr), one after the other */
  const char *b;          /* packed: column panels (depth, nr), likewise */
  char *room;             /* owned: both, or A alone */
  bool packed;            /* B was packed before */
  int64_t first_k, depth; /* this block of k */
  int64_t mr;             /* rows of a panel: the kernels' or a little less, so that all are about equal */
  int64_t row_panels, col_panels;
  int64_t block_panels; /* row panels of an item */
  int64_t a_pitch; /* elements of packed A per row */
  a_form form;
} block_job;

/* Rows [i, i + rows) of A, this block of k, to `to`. */
static void copy_rows(const block_job *job, char *to, int64_t i, int rows)
{
  const cni_gemm *g = job->g;
  const int64_t size = (int64_t)job->ker->size;
  const char *from = (const char *)g->a + (i * g->a_row + job->first_k) * size;
  for (int r = 0; r < rows; r++, to += job->a_pitch * size, from += g->a_row * size)
    memcpy(to, from, (size_t)(job->depth * size));
}

/* What one operand is packed from and to. A panel is up to `width` rows of A or columns of B. */
typedef struct pack_source {
  const char *from; /* element (0, 0) of this block of k */
  char *to;
  int64_t i_step, k_step, count, width;
  bool pad; /* the last panel to full width */
} pack_source;

/* Panels [begin, end). Where k is not contiguous they go side by side through slices of k, so that what
 * lies in one page or cache line is read together. */
static void pack_panels(const block_job *job, const pack_source *s, int64_t begin, int64_t end)
{
  enum { SLICE = 8 };
  const int64_t size = (int64_t)job->ker->size, slice = s->k_step == 1 ? job->depth : SLICE;
  for (int64_t k = 0; k < job->depth; k += slice)
    for (int64_t p = begin; p < end; p++) {
      int64_t count = least(s->width, s->count - p * s->width), width = s->pad ? s->width : count;
      job->ker->pack(s->to + (p * s->width * job->depth + k * width) * size,
                     s->from + (p * s->width * s->i_step + k * s->k_step) * size, s->i_step, s->k_step,
                     (int)count, (int)width, least(slice, job->depth - k));
    }
}

/* Items: column panels of B, then row panels of A if it is packed. */
static void pack_range(int64_t begin, int64_t end, void *payload)
{
  const block_job *job = payload;
  const cni_gemm *g = job->g;
  const int64_t size = (int64_t)job->ker->size, split = job->packed ? 0 : job->col_panels;
  if (begin < split) {
    pack_source b = {.from = (const char *)g->b + job->first_k * g->b_row * size,
                     .to = job->room,
                     .i_step = g->b_col,
                     .k_step = g->b_row,
                     .count = g->n,
                     .width = job->ker->nr,
                     .pad = true};
    pack_panels(job, &b, begin, least(end, split));
    begin = split;
  }
  if (begin >= end) return;
  pack_source a = {.from = (const char *)g->a + job->first_k * g->a_col * size,
                   .to = job->a,
                   .i_step = g->a_row,
                   .k_step = g->a_col,
                   .count = g->m,
                   .width = job->mr};
  pack_panels(job, &a, begin - split, end - split);
}

/* Whether a block of A stays in the second-level cache, rather than one of B. */
static bool stays(const block_job *job) { return job->ker->mc && job->form == A_PANELS; }

/* One row panel of A against columns [j, j + cols). */
static void run_panel(const block_job *job, const char *rows, int64_t i, int64_t j, int64_t cols)
{
  const cni_gemm *g = job->g;
  const int64_t size = (int64_t)job->ker->size;
  cni_gemm_run r = {.a = rows,
                    .a_row = job->a_pitch,
                    .a_col = 1,
                    .b = job->b + j * job->depth * size,
                    .c = (char *)g->c + (i * g->c_row + j * g->c_col) * size,
                    .c_row = g->c_row,
                    .c_col = g->c_col,
                    .rows = (int)least(job->mr, g->m - i),
                    .cols = cols,
                    .depth = job->depth,
                    .alpha = g->alpha,
                    .beta = job->first_k ? 1 : g->beta};
  if (job->form == A_PANELS) {
    r.a = job->a + i * job->a_pitch * size;
    r.a_row = 1;
    r.a_col = r.rows;
  } else if (job->form == A_IN_PLACE) {
    r.a = (const char *)g->a + (job->first_k + i * g->a_row) * size;
    r.a_row = g->a_row;
  }
  job->ker->run(&r);
}

/* The row panels from `i` on, a block of them, against columns [j, j + cols): panel by panel of B, each of which stays
 * in the first-level cache while A's pass by. */
static void run_block(const block_job *job, int64_t i, int64_t j, int64_t cols)
{
  const int64_t nr = job->ker->nr, end = least(i + job->block_panels * job->mr, job->g->m);
  for (int64_t at = j; at < j + cols; at += nr)
    for (int64_t row = i; row < end; row += job->mr) run_panel(job, NULL, row, at, least(nr, j + cols - at));
}

/* Items: a block of row panels of A against a block of columns. What stays in the second-level cache changes slowest:
 * the rows, or B's columns while row panels pass by. */
static void tile_range(int64_t begin, int64_t end, void *payload)
{
  const block_job *job = payload;
  const cni_gemm *g = job->g;
  const int64_t mr = job->mr, nc = job->ker->nc, col_blocks = parts(g->n, nc);
  size_t bytes = job->form == A_ROWS ? (size_t)(mr * job->a_pitch * (int64_t)job->ker->size) : 0;
  char *rows = bytes ? cni_scratch_alloc(bytes) : NULL;
  if (bytes && !rows) return; /* the error is set, and reaches the caller */
  for (int64_t p = begin; p < end; p++) {
    if (stays(job)) {
      int64_t j = p % col_blocks * nc;
      run_block(job, p / col_blocks * job->block_panels * mr, j, least(nc, g->n - j));
      continue;
    }
    int64_t j = p / job->row_panels * nc, i = p % job->row_panels * mr;
    if (job->form == A_ROWS) copy_rows(job, rows, i, (int)least(mr, g->m - i));
    run_panel(job, rows, i, j, least(nc, g->n - j));
  }
  cni_scratch_free(rows, bytes);
}

/* Rows that collide are copied for every block of columns, or packed once where kernels have a use for that. */
static a_form a_form_of(const cni_gemm *g, const cni_gemm_kernels *ker)
{
  if (g->a_col != 1) return A_PANELS;
  if (!cni_rows_collide(g->a_row * (int64_t)ker->size, ker->mr)) return A_IN_PLACE;
  return ker->mc ? A_PANELS : A_ROWS;
}

/* Row panels of an item: as many as stay in the cache, fewer where threads would lack work. */
static int64_t block_panels(const block_job *job)
{
  enum { ITEMS = 4, LEAST = 4 };
  const int64_t most = job->ker->mc / job->ker->mr, columns = parts(job->g->n, job->ker->nc);
  if (!stays(job)) return 1;
  int64_t blocks = parts(job->row_panels, most), wanted = cn_num_threads() > 1 ? ITEMS * cn_num_threads() : 1;
  if (blocks * columns < wanted) blocks = least(parts(wanted, columns), parts(job->row_panels, LEAST));
  return parts(job->row_panels, blocks);
}

/* Sizes the panels and allocates them. A copy of a row is an odd number of cache lines long, so that rows never
 * collide. CN_ERR_MEMORY with the error set on failure; *bytes goes to cni_free with job->room. */
static int prepare(block_job *job, int64_t depth, size_t *bytes)
{
  const cni_gemm *g = job->g;
  const cni_gemm_kernels *ker = job->ker;
  const int64_t line = 64 / (int64_t)ker->size;
  job->row_panels = parts(g->m, ker->mr);
  job->mr = parts(g->m, job->row_panels);
  job->col_panels = parts(g->n, ker->nr);
  job->form = a_form_of(g, ker);
  job->block_panels = block_panels(job);
  job->a_pitch = job->form == A_ROWS ? (parts(depth, line) | 1) * line : depth;
  size_t a_size = 0, b_size = 0;
  job->packed = g->packed && g->packed_depth == depth;
  if ((!job->packed && cni_mul_overflows((size_t)(job->col_panels * ker->nr), (size_t)depth * ker->size, &b_size)) ||
      (job->form == A_PANELS &&
       cni_mul_overflows((size_t)(job->row_panels * job->mr), (size_t)job->a_pitch * ker->size, &a_size)) ||
      __builtin_add_overflow(a_size, b_size, bytes))
    return cn_err_set(CN_ERR_MEMORY, "matrix product: operands are too large");
  job->room = cni_scratch_alloc(*bytes); /* b_size is a multiple of 64, since nr elements are */
  if (!job->room) return CN_ERR_MEMORY;
  job->b = job->room;
  job->a = job->room + b_size;
  return CN_OK;
}

/* Blocks of k of equal depth: a short last one would pay for C's traffic with little work. */
static int64_t block_depth(const cni_gemm *g, const cni_gemm_kernels *ker) { return parts(g->k, parts(g->k, ker->kc)); }

static int run_blocked(const cni_gemm *g, const cni_gemm_kernels *ker)
{
  block_job job = {.g = g, .ker = ker};
  int64_t depth = block_depth(g, ker);
  size_t bytes = 0;
  int status = prepare(&job, depth, &bytes);
  if (status) return status;
  int64_t pack_items = (job.packed ? 0 : job.col_panels) + (job.form == A_PANELS ? job.row_panels : 0);
  int64_t tile_items = parts(g->n, ker->nc) * parts(job.row_panels, job.block_panels);
  for (int64_t k = 0; k < g->k; k += depth) {
    job.first_k = k;
    job.depth = least(depth, g->k - k);
    if (job.form == A_PANELS) job.a_pitch = job.depth;
    if (job.packed) job.b = (const char *)g->packed + k * job.col_panels * ker->nr * (int64_t)ker->size;
    double packed = (double)job.depth * (double)((job.packed ? 0 : g->n) + (job.form == A_PANELS ? g->m : 0));
    double work = (double)g->m * (double)g->n * (double)job.depth;
    if (pack_items) in_parallel(pack_items, packed, GRAIN_PACK, pack_range, &job);
    in_parallel(tile_items, work, GRAIN_WORK, tile_range, &job);
  }
  cni_scratch_free(job.room, bytes);
  return cn_err();
}

/* ---- picking ---- */

/* Whether B is large, used by few rows, and lies with k contiguous: then it had better pass by once, as A. */
static bool better_flipped(const cni_gemm *g, const cni_gemm_kernels *ker)
{
  return g->b_row == 1 && g->b_col != 1 && g->m > 2 * ker->mr && g->m <= 8 * ker->nr / 2 && g->n >= 4 * g->m &&
         g->k >= 128;
}


/* Whether the direct kernel is the best: everything small; operands that are used too few times to be
 * worth packing; or both kind to the caches in place. */
static bool fits_direct(const cni_gemm *g, const cni_gemm_kernels *ker, double work)
{
  if (work <= CNI_SMALL_PRODUCT || g->m <= 2 * ker->mr || g->n <= ker->nr) return true;
  const int64_t size = (int64_t)ker->size;
  bool few_rows = g->m <= 16 * ker->mr, few_cols = g->n <= 2 * ker->nr;
  bool a_small = (double)g->m * (double)g->k * (double)size <= A_BYTES;
  bool a_kind = g->a_col == 1
                    ? !cni_rows_collide(g->a_row * size, ker->mr)
                    : g->a_row == 1 && (a_small || (few_cols && !cni_rows_collide(g->a_col * size, 16)));
  bool b_kind =
      g->b_col == 1 && (few_rows || (double)g->k * (double)g->n * (double)size <= B_BYTES * ker->mr);
  return a_kind && (b_kind || few_cols);
}

/* How a product is done; *g is as the caller gave it, C row-major from then on. */
typedef enum way { FLAT, FLAT_FLIPPED, BLOCKED_FLIPPED, BLOCKED, DIRECT } way;

static void normalise(cni_gemm *g)
{
  /* Steps along dimensions of one element are free: make them fit. */
  if (g->n == 1) g->b_col = g->c_col = 1;
  if (g->m == 1) g->a_row = g->c_row = 1;
  if (g->k == 1) g->a_col = 1;
  if (g->c_col != 1 && g->c_row == 1) *g = transposed(g);
}

static way way_of(const cni_gemm *g, const cni_gemm_kernels *ker)
{
  if (is_flat(g)) return FLAT;
  cni_gemm flipped = transposed(g);
  if (is_flat(&flipped)) return FLAT_FLIPPED;
  if (work_of(g) > CNI_SMALL_PRODUCT && better_flipped(g, ker)) return BLOCKED_FLIPPED;
  return fits_direct(g, ker, work_of(g)) ? DIRECT : BLOCKED;
}

static int product(const cni_gemm *given, bool f64)
{
  if (given->m <= 0 || given->n <= 0) return CN_OK;
  if (given->k <= 0) {
    scale_only(given, f64);
    return CN_OK;
  }
  const cni_gemm_kernels *ker = kernels_of(f64);
  cni_gemm g = *given;
  normalise(&g);
  if (work_of(&g) > CNI_SMALL_PRODUCT && cni_blas_product(&g, f64)) return CN_OK;
  way how = way_of(&g, ker);
  if (how == BLOCKED_FLIPPED && g.packed && g.packed_depth == block_depth(&g, ker)) how = BLOCKED;
  if (how == FLAT_FLIPPED || how == BLOCKED_FLIPPED) g = transposed(&g);
  if (how == FLAT || how == FLAT_FLIPPED) return run_flat(&g, ker);
  return how == DIRECT ? run_direct(&g, ker) : run_blocked(&g, ker);
}

int cni_gemm_f32(const cni_gemm *g) { return product(g, false); }
int cni_gemm_f64(const cni_gemm *g) { return product(g, true); }

/* ---- a B that is packed once ---- */

size_t cni_gemm_packed_bytes(const cni_gemm *given, bool f64, int64_t *depth)
{
  const cni_gemm_kernels *ker = kernels_of(f64);
  cni_gemm g = *given;
  size_t bytes;
  if (g.m <= 0 || g.n <= 0 || g.k <= 0) return 0;
  normalise(&g);
  way how = way_of(&g, ker);
  bool in_blocks = how == BLOCKED || how == BLOCKED_FLIPPED; /* which is done as it stands where B is packed */
  bool as_it_is = g.b != given->b || (!in_blocks && (how != DIRECT || g.b_col == 1));
  *depth = how == DIRECT ? ker->direct_kc : block_depth(&g, ker);
  if (as_it_is || cni_mul_overflows((size_t)(parts(g.n, ker->nr) * ker->nr), (size_t)g.k * ker->size, &bytes)) return 0;
  return bytes;
}

void cni_gemm_pack(const cni_gemm *g, bool f64, int64_t depth, void *to)
{
  const cni_gemm_kernels *ker = kernels_of(f64);
  block_job job = {.g = g, .ker = ker, .col_panels = parts(g->n, ker->nr)};
  for (int64_t k = 0; k < g->k; k += depth) {
    job.first_k = k;
    job.depth = least(depth, g->k - k);
    job.room = (char *)to + k * job.col_panels * ker->nr * (int64_t)ker->size;
    in_parallel(job.col_panels, (double)job.depth * (double)g->n, GRAIN_PACK, pack_range, &job);
  }
}

/* ---- batches ---- */

typedef struct batch_job {
  const cni_gemm *g;
  int64_t a_bytes, b_bytes, c_bytes; /* from product to product */
  bool f64;
} batch_job;

static int one_of(const batch_job *job, int64_t i)
{
  cni_gemm g = *job->g;
  g.a = (const char *)g.a + i * job->a_bytes;
  g.b = (const char *)g.b + i * job->b_bytes;
  g.c = (char *)g.c + i * job->c_bytes;
  return product(&g, job->f64);
}

/* An error inside reaches the caller through the thread's state. */
static void batch_range(int64_t begin, int64_t end, void *payload)
{
  for (int64_t i = begin; i < end; i++)
    if (one_of(payload, i)) return;
}

int cni_gemm_batch(cn_dtype dtype, const cni_gemm *g, int64_t batch, int64_t a_step, int64_t b_step,
                   int64_t c_step)
{
  if (dtype != CN_F32 && dtype != CN_F64)
    return cn_err_set(CN_ERR_DTYPE, "matrix product: %s is neither float32 nor float64",
                      cn_dtype_name(dtype));
  const int64_t size = (int64_t)cn_dtype_size(dtype);
  batch_job job = {.g = g,
                   .a_bytes = a_step * size,
                   .b_bytes = b_step * size,
                   .c_bytes = c_step * size,
                   .f64 = dtype == CN_F64};
  double work = work_of(g), total = work * (double)batch;
  /* Whole products in parallel when each thread gets some; a library brings threads of its own. */
  if (total >= 2.0 * GRAIN_WORK && (batch >= 2 * cn_num_threads() || work < GRAIN_WORK) &&
      cni_blas_against(g, dtype == CN_F64)) {
    in_parallel(batch, total, GRAIN_WORK, batch_range, &job);
    return cn_err();
  }
  for (int64_t i = 0; i < batch; i++) {
    int status = one_of(&job, i);
    if (status) return status;
  }
  return CN_OK;
}
