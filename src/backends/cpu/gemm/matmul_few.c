/* matmul_few.c: a few rows of float16 or bfloat16 times a large matrix whose columns, or rows, lie in one piece, which
 * is read once and never stored: dot products straight from memory, or sums of its rows.
 *
 * Place in the flow: matmul_half.c comes here where reading that matrix is what costs. Invariant: an element is one
 * chain of sums over k, so no result depends on the number of threads. */
#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "base/convert.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "matmul.h"

enum {
  GRAIN_WORK = 1 << 19, /* multiply-adds worth waking a thread for */
  MOST_ROWS = CNI_HALF_FEW,
  DOTS = CNI_HALF_DOTS, /* columns at a time */
  BLOCK = 512           /* of rows: what a page has */
};

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t parts(int64_t n, int64_t size) { return (n + size - 1) / size; }

static const cni_half_loops *loops(void) { return CNI_BY_ISA(cni_half_loops); }

/* ---- ... converted to float32 in registers ---- */

typedef struct few_job {
  const cni_product *p;
  const cni_half_loops *loops;
  const float *a; /* (batch, m, k), dense */
  int64_t groups; /* of DOTS or BLOCK columns */
} few_job;

static float half_at(const cni_product *p, const char *x)
{
  uint16_t h;
  memcpy(&h, x, sizeof h);
  return p->dtype == CN_F16 ? cni_f16_to_f32(h) : cni_bf16_to_f32(h);
}

/* Sums (rows, cols), rows `pitch` apart, into C from (i, j) on. */
static void finish(const cni_product *p, const float *sums, int64_t pitch, int64_t b, int64_t i, int64_t j,
                   int64_t rows, int64_t cols)
{
  for (int64_t r = 0; r < rows; r++)
    for (int64_t t = 0; t < cols; t++) {
      float y = (float)p->alpha * sums[r * pitch + t];
      if (p->beta != 0) y += (float)p->beta * half_at(p, cni_product_at(p, &p->init, b, i + r, j + t));
      uint16_t h = p->dtype == CN_F16 ? cni_f32_to_f16(y) : cni_f32_to_bf16(y);
      memcpy(cni_product_at(p, &p->c, b, i + r, j + t), &h, sizeof h);
    }
}

/* Items: groups of columns of C. */
static void few_range(int64_t begin, int64_t end, void *payload)
{
  const few_job *job = payload;
  const cni_product *p = job->p;
  const cni_half_dots dots = job->loops->dots[p->dtype == CN_BF16];
  const int64_t step = p->b.col;
  float c[MOST_ROWS * DOTS], one[MOST_ROWS * DOTS];
  for (int64_t item = begin; item < end; item++) {
    int64_t b = item / job->groups, j = item % job->groups * DOTS, cols = least(DOTS, p->n - j);
    const uint16_t *columns = (const void *)cni_product_at(p, &p->b, b, 0, j);
    const float *rows = job->a + b * p->m * p->k;
    if (cols == DOTS) dots(c, rows, p->m, columns, step, p->k);
    for (int64_t t = 0; cols < DOTS && t < cols; t++) { /* what is too much repeats a column */
      dots(one, rows, p->m, columns + t * step, 0, p->k);
      for (int64_t i = 0; i < p->m; i++) c[i * DOTS + t] = one[i * DOTS];
    }
    finish(p, c, DOTS, b, 0, j, p->m, cols);
  }
}

/* Items: blocks of columns of C, whose sums stay in the first-level cache while rows of B go by. */
static void along_range(int64_t begin, int64_t end, void *payload)
{
  const few_job *job = payload;
  const cni_product *p = job->p;
  float c[MOST_ROWS * BLOCK];
  for (int64_t item = begin; item < end; item++) {
    const int64_t b = item / job->groups, j = item % job->groups * BLOCK, cols = least(BLOCK, p->n - j);
    memset(c, 0, (size_t)(p->m * BLOCK) * sizeof *c);
    job->loops->along[p->dtype == CN_BF16](c, BLOCK, job->a + b * p->m * p->k, p->m,
                                           (const void *)cni_product_at(p, &p->b, b, 0, j), p->b.row, p->k, cols);
    finish(p, c, BLOCK, b, 0, j, p->m, cols);
  }
}

/* A as (batch, m, k) */
static cn_desc desc_of_a(const cni_product *p)
{
  const int64_t shape[3] = {p->batch, p->m, p->k}, strides[3] = {p->a.step, p->a.row, p->a.col};
  cn_desc d = {.data = p->a.data, .numel = p->batch * p->m * p->k, .dtype = p->dtype, .ndim = 3, .device = CN_CPU};
  memcpy(d.shape, shape, sizeof shape);
  memcpy(d.strides, strides, sizeof strides);
  return d;
}

/* Columns of C that an item has: `each`. */
static int run_few(const cni_product *p, int64_t each, cni_range_fn range)
{
  size_t bytes = (size_t)(p->batch * p->m * p->k) * sizeof(float);
  float *a = cni_scratch_alloc(bytes);
  if (!a) return CN_ERR_MEMORY;
  cn_desc from = desc_of_a(p), to = cni_cpu_packed(&from, CN_F32, a);
  cni_cpu_copy(&to, &from);
  few_job job = {.p = p, .loops = loops(), .a = a, .groups = parts(p->n, each)};
  const double work = (double)p->m * (double)each * (double)p->k;
  cni_parallel_for(p->batch * job.groups, cni_product_grain(work, GRAIN_WORK), range, &job);
  cni_scratch_free(a, bytes);
  return CN_OK;
}

/* ---- ... of bfloat16, by the instruction for pairs ---- */

typedef struct pair_job {
  const cni_product *p;
  const cni_half_loops *loops;
  const char *a; /* (batch, m, k), dense */
  int64_t groups;
} pair_job;

/* Items: groups of columns of C. */
static void pairs_range(int64_t begin, int64_t end, void *payload)
{
  const pair_job *job = payload;
  const cni_product *p = job->p;
  for (int64_t item = begin; item < end; item++) {
    int64_t b = item / job->groups, j = item % job->groups * DOTS, cols = least(DOTS, p->n - j);
    const uint16_t *columns = (const void *)cni_product_at(p, &p->b, b, 0, j);
    for (int64_t i = 0; i < p->m; i += DOTS) {
      int64_t rows = least(DOTS, p->m - i);
      float c[DOTS * DOTS];
      const uint16_t *row = (const void *)(job->a + (b * p->m + i) * p->k * 2);
      job->loops->pair_dots(c, row, p->k, (int)rows, columns, p->b.col, (int)cols, p->k);
      finish(p, c, DOTS, b, i, j, rows, cols);
    }
  }
}

static int run_pairs(const cni_product *p)
{
  size_t bytes = (size_t)(p->batch * p->m * p->k) * 2;
  char *a = cni_scratch_alloc(bytes);
  if (!a) return CN_ERR_MEMORY;
  cn_desc from = desc_of_a(p), to = cni_cpu_packed(&from, p->dtype, a);
  cni_cpu_copy(&to, &from);
  pair_job job = {.p = p, .loops = loops(), .a = a, .groups = parts(p->n, DOTS)};
  cni_parallel_for(p->batch * job.groups, cni_product_grain((double)p->m * DOTS * (double)p->k, GRAIN_WORK),
                   pairs_range, &job);
  cni_scratch_free(a, bytes);
  return CN_OK;
}

/* One row alone is read faster than pairs are multiplied. */
int cni_half_few(const cni_product *p)
{
  return p->m > 1 && p->dtype == CN_BF16 && cni_cpu_multiplies_bf16() ? run_pairs(p) : run_few(p, DOTS, few_range);
}

int cni_half_few_along(const cni_product *p) { return run_few(p, BLOCK, along_range); }
