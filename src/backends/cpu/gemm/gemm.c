/* gemm.c: chooses how a matrix product is done and runs it on the threads.
 *
 * Flow: normalise (C row-major) -> a library, if the caller names one -> row or dot kernel for a few,
 * direct kernel where both operands can be read in place, else the blocked one (gemm_blocked.c).
 * Invariant: work is cut into pieces of C only, and an element of C is computed by the same chain of
 * operations whichever piece it falls into. */
#include "gemm.h"

#include <string.h>

#include "backends/cpu/lib/blas.h"
#include "base/alloc.h"
#include "gemm_blocked.h"
#include "ops/product.h"

enum {
  A_BYTES = 256 << 10, /* transposed A up to this size is read in place */
  B_BYTES = 40 << 10   /* and so is row-major B, this much for each row of a tile that shares a load */
};

static const cni_gemm_kernels *kernels_of(bool f64)
{
  const cni_gemm_kernels *by_type = CNI_BY_ISA(cni_gemm_kernels);
  return &by_type[f64];
}

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
                    .by = g->by,
                    .bias = g->across,
                    .across = g->bias,
                    .limits = g->limits};
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

/* C = a number of each row, or of each column. */
static void put_bias(const cni_gemm *g, bool f64)
{
  const void *from = g->bias ? g->bias : g->across;
  for (int64_t i = 0; i < g->m; i++) {
    if (g->across && g->c_col == 1) {
      size_t size = f64 ? sizeof(double) : sizeof(float);
      memcpy((char *)g->c + i * g->c_row * (int64_t)size, from, (size_t)g->n * size);
      continue;
    }
    for (int64_t j = 0; j < g->n; j++) {
      int64_t at = i * g->c_row + j * g->c_col, which = g->bias ? i : j;
      if (f64) ((double *)g->c)[at] = ((const double *)from)[which];
      else ((float *)g->c)[at] = ((const float *)from)[which];
    }
  }
}

/* ---- kernels that need no preparation: parallel over columns or rows of C ---- */

typedef struct simple_job {
  const cni_gemm *g;
  void (*fn)(const cni_gemm *g, int64_t begin, int64_t end);
  int64_t unit, total; /* items are `unit` columns or rows of `total` */
} simple_job;

static void simple_range(int64_t begin, int64_t end, void *payload)
{
  const simple_job *job = payload;
  job->fn(job->g, begin * job->unit, least(end * job->unit, job->total));
}

static void run_simple(simple_job *job)
{
  in_parallel(parts(job->total, job->unit), work_of(job->g), GRAIN_WORK, simple_range, job);
}

/* Rows are cut where columns alone share the work out badly. */
typedef struct direct_job {
  const cni_gemm *g;
  const cni_gemm_kernels *ker;
  int64_t rows, columns; /* of a tile; panels of the product */
} direct_job;

/* Items: panels of columns, then the same of the next rows. */
static void direct_range(int64_t begin, int64_t end, void *payload)
{
  const direct_job *job = payload;
  const int64_t size = (int64_t)job->ker->size, nr = job->ker->nr;
  while (begin < end) {
    int64_t i = begin / job->columns * job->rows, j = begin % job->columns;
    int64_t some = least(end - begin, job->columns - j);
    cni_gemm g = *job->g;
    g.m = least(job->rows, g.m - i);
    g.a = (const char *)g.a + i * g.a_row * size;
    g.c = (char *)g.c + i * g.c_row * size;
    if (g.bias) g.bias = (const char *)g.bias + i * size;
    job->ker->direct(&g, j * nr, least((j + some) * nr, g.n));
    begin += some;
  }
}

/* In how many parts rows are cut: so that the busiest thread has least to do, counting that a panel of columns is
 * packed for each of them where it does not lie in one piece. */
static int64_t cuts_of_rows(const direct_job *job)
{
  enum { PACKING = 6 /* costs as much as so many rows */, MOST_ITEMS = 8 };
  const cni_gemm *g = job->g;
  int64_t threads = cn_num_threads(), panels = parts(g->m, job->ker->mr), best = 1, busiest = INT64_MAX;
  int64_t packing = g->b_col == 1 || g->packed ? 1 : PACKING;
  threads = least(threads, (int64_t)(work_of(g) / (GRAIN_WORK / 4)));
  for (int64_t cuts = 1; cuts <= panels && (cuts == 1 || cuts * job->columns <= MOST_ITEMS * threads); cuts++) {
    int64_t rows = parts(panels, cuts), rounds = parts(parts(panels, rows) * job->columns, threads);
    int64_t cost = rounds * (least(rows * job->ker->mr, g->m) + packing);
    if (cost >= busiest) continue;
    busiest = cost;
    best = cuts;
  }
  return best;
}

static int run_direct(const cni_gemm *given, const cni_gemm_kernels *ker)
{
  cni_gemm g = *given;
  if (g.packed_depth != ker->direct_kc) g.packed = NULL;
  if (work_of(&g) < 2.0 * GRAIN_WORK || cn_num_threads() == 1) {
    ker->direct(&g, 0, g.n);
    return CN_OK;
  }
  direct_job job = {.g = &g, .ker = ker, .columns = parts(g.n, ker->nr)};
  job.rows = parts(parts(g.m, ker->mr), cuts_of_rows(&job)) * ker->mr;
  in_parallel(parts(g.m, job.rows) * job.columns, work_of(&g), GRAIN_WORK, direct_range, &job);
  return CN_OK;
}

/* Products with a vector or a few of them, where B (or A) is read once and reading it well is all that counts. */
static bool is_dots(const cni_gemm *g)
{
  enum { FEW = 8, LONG = 128 };
  return g->a_col == 1 && g->b_row == 1 && (g->n == 1 || (g->n <= FEW && g->k >= LONG));
}

/* Are rows of B best read in long runs? Always by one row of A; where B does not stay in the caches by two, and by a
 * few more where each of its rows lies on pages of its own, of which tiles would want a line each. */
static bool is_few_rows(const cni_gemm *g, size_t size)
{
  enum { CACHED = 256 << 10, PAGES = 2 * 4096 };
  if (g->b_col != 1 || g->c_col != 1 || g->alpha != 1) return false;
  if (g->m == 1) return true;
  return g->m <= (g->b_row * (int64_t)size > PAGES ? CNI_FEW_ROWS : 2) &&
         (double)g->k * (double)g->n * (double)size > CACHED;
}

static bool is_flat(const cni_gemm *g, size_t size) { return is_dots(g) || is_few_rows(g, size); }

static int run_flat(const cni_gemm *g, const cni_gemm_kernels *ker)
{
  simple_job job = {.g = g, .fn = ker->dots, .unit = 16, .total = g->m};
  if (!is_dots(g)) job = (simple_job){.g = g, .fn = ker->few_rows, .unit = 4 * ker->nr, .total = g->n};
  run_simple(&job);
  return CN_OK;
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
  if (is_flat(g, ker->size)) return FLAT;
  cni_gemm flipped = transposed(g);
  if (is_flat(&flipped, ker->size)) return FLAT_FLIPPED;
  if (work_of(g) > CNI_SMALL_PRODUCT && better_flipped(g, ker)) return BLOCKED_FLIPPED;
  return fits_direct(g, ker, work_of(g)) ? DIRECT : BLOCKED;
}

/* Where tiles do not add the bias, C begins with it: the same sums. */
static cni_gemm without_bias(const cni_gemm *given, bool f64)
{
  cni_gemm g = *given;
  put_bias(&g, f64);
  g.bias = g.across = NULL;
  g.beta = 1;
  return g;
}

static bool by_library(const cni_gemm *g, bool f64)
{
  return work_of(g) > CNI_SMALL_PRODUCT && !cni_blas_against(g, f64);
}

static int product(const cni_gemm *given, bool f64);

/* Ways that multiply and nothing else: what belongs to the sums is done before and behind. */
static int bare_product(const cni_gemm *given, bool f64)
{
  cni_gemm g = given->bias || given->across ? without_bias(given, f64) : *given;
  g.limits = NULL;
  int status = product(&g, f64);
  if (!status && given->limits) kernels_of(f64)->limit(g.c, g.c_row, g.c_col, g.m, g.n, given->limits);
  return status;
}

static int product(const cni_gemm *given, bool f64)
{
  if (given->m <= 0 || given->n <= 0) return CN_OK;
  if (given->bias || given->across || given->limits) {
    cni_gemm g = *given;
    normalise(&g);
    way how = g.k > 0 && !by_library(&g, f64) ? way_of(&g, kernels_of(f64)) : FLAT;
    if (how == FLAT || how == FLAT_FLIPPED) return bare_product(given, f64);
  }
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
  return how == DIRECT ? run_direct(&g, ker) : cni_gemm_blocked(&g, ker);
}

int cni_gemm_f32(const cni_gemm *g) { return product(g, false); }
int cni_gemm_f64(const cni_gemm *g) { return product(g, true); }

/* ---- a B that is packed once ---- */

size_t cni_gemm_packed_bytes(const cni_gemm *given, bool f64, int64_t *depth)
{
  enum { NEAR_BYTES = 256 << 10 }; /* a larger B comes from memory, which likes long runs */
  const cni_gemm_kernels *ker = kernels_of(f64);
  cni_gemm g = *given;
  size_t bytes;
  if (g.m <= 0 || g.n <= 0 || g.k <= 0) return 0;
  normalise(&g);
  way how = way_of(&g, ker);
  bool in_blocks = how == BLOCKED || how == BLOCKED_FLIPPED; /* which is done as it stands where B is packed */
  if (cni_mul_overflows((size_t)(parts(g.n, ker->nr) * ker->nr), (size_t)g.k * ker->size, &bytes)) return 0;
  bool kind = g.b_col == 1 && bytes <= NEAR_BYTES;
  bool as_it_is = g.b != given->b || (!in_blocks && (how != DIRECT || kind));
  *depth = how == DIRECT ? ker->direct_kc : block_depth(&g, ker);
  return as_it_is ? 0 : bytes;
}

void cni_gemm_pack(const cni_gemm *g, bool f64, int64_t depth, void *to)
{
  cni_gemm_pack_b(g, kernels_of(f64), depth, to);
}

/* Where columns leave lanes empty, or A comes from memory and kernels read its rows where they lie: packed it is one
 * long run. */
bool cni_gemm_turns(int64_t m, int64_t n, int64_t k, bool f64)
{
  enum { MOST_COLUMNS = 320, LEAST_DEPTH = 64, FAR_BYTES = 512 << 10 };
  const cni_gemm_kernels *ker = kernels_of(f64);
  const int64_t lanes = ker->nr / 2;
  if (n >= MOST_COLUMNS || k < LEAST_DEPTH) return false;
  return parts(n, lanes) * lanes * 8 > 9 * n || (!ker->mc && m * k * (int64_t)ker->size >= FAR_BYTES);
}

size_t cni_gemm_turned_bytes(const cni_gemm *g, bool f64)
{
  const cni_gemm_kernels *ker = kernels_of(f64);
  size_t bytes;
  bool over = cni_mul_overflows((size_t)(parts(g->m, ker->nr) * ker->nr), (size_t)g->k * ker->size, &bytes);
  return over ? 0 : bytes;
}

void cni_gemm_turned_pack(const cni_gemm *g, bool f64, void *to)
{
  const cni_gemm t = transposed(g);
  cni_gemm_pack_b(&t, kernels_of(f64), block_depth(&t, kernels_of(f64)), to);
}

int cni_gemm_turned(const cni_gemm *g, bool f64)
{
  cni_gemm t = transposed(g);
  t.packed = g->packed;
  t.packed_depth = block_depth(&t, kernels_of(f64));
  return cni_gemm_blocked(&t, kernels_of(f64));
}

int64_t cni_gemm_apart_row(int64_t a_row, bool f64)
{
  enum { LINE = 64 };
  const cni_gemm_kernels *ker = kernels_of(f64);
  const int64_t bytes = a_row * (int64_t)ker->size;
  if (ker->mc || !cni_rows_collide(bytes, ker->mr)) return 0;
  return (parts(bytes, LINE) | 1) * LINE / (int64_t)ker->size;
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
