/* matmul.c: kernels of the matrix products: mm, bmm, addmm, baddbmm and linear are one thing here, a batch of
 * C = alpha * A B + beta * I with I broadcast (a bias, say) or absent.
 *
 * Flow: a kernel describes its call as a `product`; floats go to the gemm seam as they are, 16-bit floats in
 * converted blocks, integers through plain loops. Invariant: work is cut into pieces of C that depend on the
 * shapes alone, so no result depends on the number of threads. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/convert.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "cast.h"
#include "cpu.h"
#include "gemm.h"
#include "isa.h"
#include "matmul.h"
#include "ops/infer.h"
#include "tensor/tensor.h"

/* A batch of matrices; strides in elements. */
typedef struct matrix {
  char *data;
  int64_t row, col, step;
} matrix;

typedef struct product {
  int dtype;
  int64_t size; /* bytes of an element */
  int64_t batch, m, n, k;
  matrix a, b, c; /* (batch, m, k), (batch, k, n), (batch, m, n) */
  matrix init;    /* (batch, m, n); data NULL: nothing is added */
  double alpha, beta;
} product;

enum {
  GRAIN_COPY = 1 << 16, /* elements worth waking a thread for */
  GRAIN_WORK = 1 << 18, /* multiply-adds of 16-bit floats or integers */
  BLOCK = 256,          /* rows, columns and depth of a converted block */
  FEW_ROWS = 16,        /* of A: up to here reading B is what costs */
  DOTS = 4              /* columns of B at a time then */
};

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t parts(int64_t n, int64_t size) { return (n + size - 1) / size; }

static inline char *at(const product *p, const matrix *x, int64_t b, int64_t i, int64_t j)
{
  return x->data + (b * x->step + i * x->row + j * x->col) * p->size;
}

/* Items that carry `enough` work, if each has `work`. */
static int64_t grain_of(double work, double enough)
{
  double grain = enough / (work < 1 ? 1 : work);
  return grain < 1 ? 1 : (int64_t)grain;
}

/* ---- float32 and float64 ---- */

/* Rows of C set to those of init. */
static void init_rows(int64_t begin, int64_t end, void *payload)
{
  const product *p = payload;
  for (int64_t r = begin; r < end; r++) {
    int64_t b = r / p->m, i = r % p->m;
    char *to = at(p, &p->c, b, i, 0), *from = at(p, &p->init, b, i, 0);
    if (p->c.col == 1 && p->init.col == 1) {
      memcpy(to, from, (size_t)(p->n * p->size));
      continue;
    }
    for (int64_t j = 0; j < p->n; j++)
      memcpy(to + j * p->c.col * p->size, from + j * p->init.col * p->size, (size_t)p->size);
  }
}

static cni_gemm gemm_of(const product *p)
{
  return (cni_gemm){.m = p->m,
                    .n = p->n,
                    .k = p->k,
                    .a = p->a.data,
                    .a_row = p->a.row,
                    .a_col = p->a.col,
                    .b = p->b.data,
                    .b_row = p->b.row,
                    .b_col = p->b.col,
                    .c = p->c.data,
                    .c_row = p->c.row,
                    .c_col = p->c.col,
                    .alpha = p->alpha,
                    .beta = p->beta};
}

static int run_float(product *p)
{
  if (!p->init.data) p->beta = 0;
  if (p->beta != 0) cni_parallel_for(p->batch * p->m, grain_of((double)p->n, GRAIN_COPY), init_rows, p);
  cni_gemm g = gemm_of(p);
  if (p->batch == 1) return p->dtype == CN_F32 ? cni_gemm_f32(&g) : cni_gemm_f64(&g);
  return cni_gemm_batch((cn_dtype)p->dtype, &g, p->batch, p->a.step, p->b.step, p->c.step);
}

/* ---- float16 and bfloat16: blocks converted to float32 and back ---- */

typedef struct half_job {
  const product *p;
  cni_cast_fn load, store;
  int64_t row_blocks, col_blocks;
  int64_t a_size, b_size, c_size; /* elements of a converted block */
} half_job;

/* (rows, cols) elements from `from` as float32 into dense memory, whichever way round they lie closer
 * together; answers the strides they got. */
static void load_block(const half_job *job, float *to, const char *from, int64_t rows, int64_t cols,
                       const matrix *x, int64_t *to_row, int64_t *to_col)
{
  int64_t row = x->row, col = x->col, outer = rows, inner = cols;
  bool by_columns = row == 1 && col != 1;
  uint16_t gathered[BLOCK];
  *to_row = by_columns ? 1 : cols;
  *to_col = by_columns ? rows : 1;
  if (by_columns) row = x->col, col = 1, outer = cols, inner = rows;
  for (int64_t i = 0; i < outer; i++, to += inner) {
    const char *line = from + i * row * 2;
    for (int64_t j = 0; col != 1 && j < inner; j++) memcpy(&gathered[j], line + j * col * 2, 2);
    job->load(to, col == 1 ? line : (const char *)gathered, (size_t)inner);
  }
}

static void store_block(const half_job *job, char *to, const float *from, int64_t rows, int64_t cols)
{
  const matrix *c = &job->p->c;
  uint16_t line[BLOCK];
  for (int64_t i = 0; i < rows; i++, from += cols) {
    char *row = to + i * c->row * 2;
    job->store(c->col == 1 ? (void *)row : (void *)line, from, (size_t)cols);
    for (int64_t j = 0; c->col != 1 && j < cols; j++) memcpy(row + j * c->col * 2, &line[j], 2);
  }
}

/* One block of C: depth block by depth block into float32, rounded once. room: blocks of A, B and C. */
static int half_block(const half_job *job, int64_t item, float *room)
{
  const product *p = job->p;
  int64_t j = item % job->col_blocks * BLOCK, i = item / job->col_blocks % job->row_blocks * BLOCK;
  int64_t b = item / job->col_blocks / job->row_blocks;
  cni_gemm g = {.m = least(BLOCK, p->m - i), .n = least(BLOCK, p->n - j), .alpha = p->alpha, .beta = p->beta};
  float *a_room = room, *b_room = room + job->a_size, *c_room = b_room + job->b_size;
  int64_t init_row, init_col;
  g.a = a_room, g.b = b_room, g.c = c_room;
  g.c_row = g.n, g.c_col = 1;
  if (p->beta != 0) {
    load_block(job, a_room, at(p, &p->init, b, i, j), g.m, g.n, &p->init, &init_row, &init_col);
    for (int64_t r = 0; r < g.m; r++)
      for (int64_t s = 0; s < g.n; s++) c_room[r * g.n + s] = a_room[r * init_row + s * init_col];
  }
  int64_t t = 0;
  do {
    g.k = least(BLOCK, p->k - t);
    load_block(job, a_room, at(p, &p->a, b, i, t), g.m, g.k, &p->a, &g.a_row, &g.a_col);
    load_block(job, b_room, at(p, &p->b, b, t, j), g.k, g.n, &p->b, &g.b_row, &g.b_col);
    int status = cni_gemm_f32(&g);
    if (status) return status;
    g.beta = 1;
    t += BLOCK;
  } while (t < p->k);
  store_block(job, at(p, &p->c, b, i, j), c_room, g.m, g.n);
  return CN_OK;
}

static void half_range(int64_t begin, int64_t end, void *payload)
{
  const half_job *job = payload;
  const size_t bytes = sizeof(float) * (size_t)(job->a_size + job->b_size + job->c_size);
  float *room = cni_alloc(bytes);
  for (int64_t item = begin; room && item < end; item++)
    if (half_block(job, item, room)) break;
  cni_free(room, bytes);
}

/* ---- ... a few rows times a large matrix whose columns lie in one piece: read once, never stored ---- */

typedef struct few_job {
  const product *p;
  cni_half_dots dots;
  const float *a; /* (batch, m, k), dense */
  int64_t groups; /* of DOTS columns */
} few_job;

static float half_at(const product *p, const char *x)
{
  uint16_t h;
  memcpy(&h, x, sizeof h);
  return p->dtype == CN_F16 ? cni_f16_to_f32(h) : cni_bf16_to_f32(h);
}

/* Items: groups of columns of C. */
static void few_range(int64_t begin, int64_t end, void *payload)
{
  const few_job *job = payload;
  const product *p = job->p;
  const int64_t step = p->b.col;
  for (int64_t item = begin; item < end; item++) {
    int64_t b = item / job->groups, j = item % job->groups * DOTS, cols = least(DOTS, p->n - j);
    const char *columns = at(p, &p->b, b, 0, j);
    for (int64_t i = 0; i < p->m; i++) {
      const float *row = job->a + (b * p->m + i) * p->k;
      float c[DOTS], one[DOTS];
      if (cols == DOTS) job->dots(c, row, (const uint16_t *)(const void *)columns, step, p->k);
      else
        for (int64_t t = 0; t < cols; t++, c[t - 1] = one[0])
          job->dots(one, row, (const uint16_t *)(const void *)(columns + t * step * 2), 0, p->k);
      for (int64_t t = 0; t < cols; t++) {
        float y = (float)p->alpha * c[t];
        if (p->beta != 0) y += (float)p->beta * half_at(p, at(p, &p->init, b, i, j + t));
        uint16_t h = p->dtype == CN_F16 ? cni_f32_to_f16(y) : cni_f32_to_bf16(y);
        memcpy(at(p, &p->c, b, i, j + t), &h, sizeof h);
      }
    }
  }
}

static const cni_half_dots *half_dots(void) { return CNI_BY_ISA(cni_half_dots_table); }

static int run_few(const product *p)
{
  size_t bytes = (size_t)(p->batch * p->m * p->k) * sizeof(float);
  float *a = cni_alloc(bytes);
  if (!a) return CN_ERR_MEMORY;
  const int64_t shape[3] = {p->batch, p->m, p->k}, strides[3] = {p->a.step, p->a.row, p->a.col};
  cn_desc from = {
      .data = p->a.data, .numel = p->batch * p->m * p->k, .dtype = p->dtype, .ndim = 3, .device = CN_CPU};
  memcpy(from.shape, shape, sizeof shape);
  memcpy(from.strides, strides, sizeof strides);
  cn_desc to = cni_cpu_packed(&from, CN_F32, a);
  cni_cpu_copy(&to, &from);
  few_job job = {.p = p, .dots = half_dots()[p->dtype == CN_BF16], .a = a, .groups = parts(p->n, DOTS)};
  cni_parallel_for(p->batch * job.groups, grain_of((double)p->m * DOTS * (double)p->k, GRAIN_WORK), few_range,
                   &job);
  cni_free(a, bytes);
  return CN_OK;
}

static int run_half(product *p)
{
  if (!p->init.data) p->beta = 0;
  if (p->m <= FEW_ROWS && p->b.row == 1) return run_few(p);
  int64_t rows = least(p->m, BLOCK), cols = least(p->n, BLOCK), depth = least(p->k, BLOCK);
  half_job job = {.p = p,
                  .load = cni_cast_find(p->dtype, CN_F32),
                  .store = cni_cast_find(CN_F32, p->dtype),
                  .row_blocks = parts(p->m, BLOCK),
                  .col_blocks = parts(p->n, BLOCK)};
  job.a_size = rows * (depth > cols ? depth : cols); /* holds a block of init for a moment */
  job.b_size = depth * cols;
  job.c_size = rows * cols;
  double work = (double)rows * (double)cols * (double)(p->k + 1);
  cni_parallel_for(p->batch * job.row_blocks * job.col_blocks, grain_of(work, GRAIN_WORK), half_range, &job);
  return cn_err();
}

/* ---- integers ---- */

/* Rows of C. U: a type in which sums and products wrap as T's do. */
#define INTEGER_ROWS(name, T, U)                                                                             \
  static void name##_rows(int64_t begin, int64_t end, void *payload)                                         \
  {                                                                                                          \
    const product *p = payload;                                                                              \
    const U alpha = (U)(int64_t)p->alpha, beta = (U)(int64_t)p->beta;                                        \
    const int64_t a_col = p->a.col, b_row = p->b.row, b_col = p->b.col, c_col = p->c.col, n = p->n;          \
    for (int64_t r = begin; r < end; r++) {                                                                  \
      const T *a = (const void *)at(p, &p->a, r / p->m, r % p->m, 0);                                        \
      const T *b = (const void *)at(p, &p->b, r / p->m, 0, 0);                                               \
      const T *x = p->init.data && beta ? (const void *)at(p, &p->init, r / p->m, r % p->m, 0) : NULL;       \
      T *c = (void *)at(p, &p->c, r / p->m, r % p->m, 0);                                                    \
      for (int64_t j = 0; j < n; j++) c[j * c_col] = x ? (T)(beta * (U)x[j * p->init.col]) : 0;              \
      for (int64_t t = 0; t < p->k; t++, b += b_row) {                                                       \
        const U f = alpha * (U)a[t * a_col];                                                                 \
        if (b_col == 1 && c_col == 1)                                                                        \
          for (int64_t j = 0; j < n; j++) c[j] = (T)((U)c[j] + f * (U)b[j]);                                 \
        else                                                                                                 \
          for (int64_t j = 0; j < n; j++) c[j * c_col] = (T)((U)c[j * c_col] + f * (U)b[j * b_col]);         \
      }                                                                                                      \
    }                                                                                                        \
  }
INTEGER_ROWS(u8, uint8_t, int32_t)
INTEGER_ROWS(i8, int8_t, int32_t)
INTEGER_ROWS(i16, int16_t, int32_t)
INTEGER_ROWS(i32, int32_t, int32_t)
INTEGER_ROWS(i64, int64_t, int64_t)
INTEGER_ROWS(u16, uint16_t, int32_t)
INTEGER_ROWS(u32, uint32_t, uint32_t)
INTEGER_ROWS(u64, uint64_t, uint64_t)

static int run_integer(product *p)
{
  static const cni_range_fn rows[CN_DTYPE_COUNT] = {
      [CN_U8] = u8_rows,   [CN_I8] = i8_rows,   [CN_I16] = i16_rows, [CN_I32] = i32_rows,
      [CN_I64] = i64_rows, [CN_U16] = u16_rows, [CN_U32] = u32_rows, [CN_U64] = u64_rows,
  };
  cni_parallel_for(p->batch * p->m, grain_of((double)p->n * (double)p->k, GRAIN_WORK), rows[p->dtype], p);
  return CN_OK;
}

static int run(cn_call *c, product *p)
{
  p->size = (int64_t)cni_dtype_size(p->dtype);
  if (p->batch == 0 || p->m == 0 || p->n == 0) return CN_OK;
  if (p->dtype == CN_F32 || p->dtype == CN_F64) return run_float(p);
  if (p->dtype == CN_F16 || p->dtype == CN_BF16) return run_half(p);
  if (cni_dtype_is_int(p->dtype) && cni_dtype_computes(p->dtype)) return run_integer(p);
  c->refusal = "no product of this type";
  return CN_REFUSED;
}

/* ---- from calls to products ---- */

/* d: (rows, cols) or (batch, rows, cols) */
static matrix matrix_of(const cn_desc *d)
{
  const int64_t *s = d->strides + d->ndim - 2;
  return (matrix){d->data, s[0], s[1], d->ndim == 3 ? d->strides[0] : 0};
}

/* ... broadcast to the shape of `out`. */
static matrix broadcast_of(const cn_desc *d, const cn_desc *out)
{
  int64_t strides[3] = {0, 0, 0}; /* batch, row, col */
  for (int i = 0; i < d->ndim; i++)
    if (d->shape[i] != 1) strides[3 - d->ndim + i] = d->strides[i];
  return (matrix){d->data, strides[1], strides[2], out->ndim == 3 ? strides[0] : 0};
}

/* a: (m, k), b: (k, n), either with a batch in front */
static product product_of(const cn_desc *a, const cn_desc *b, const cn_desc *out)
{
  return (product){.dtype = a->dtype,
                   .batch = out->ndim == 3 ? out->shape[0] : 1,
                   .m = out->shape[out->ndim - 2],
                   .n = out->shape[out->ndim - 1],
                   .k = a->shape[a->ndim - 1],
                   .a = matrix_of(a),
                   .b = matrix_of(b),
                   .c = matrix_of(out),
                   .alpha = 1};
}

static int product_kernel(cn_call *c)
{
  product p = product_of(cn_desc_of(c->in[0]), cn_desc_of(c->in[1]), cn_desc_of(c->out[0]));
  return run(c, &p);
}

/* addmm(input, mat1, mat2, beta, alpha), baddbmm */
static int added_kernel(cn_call *c)
{
  const cn_desc *out = cn_desc_of(c->out[0]);
  product p = product_of(cn_desc_of(c->in[1]), cn_desc_of(c->in[2]), out);
  p.init = broadcast_of(cn_desc_of(c->in[0]), out);
  p.beta = cni_arg_float(c->args, 3);
  p.alpha = cni_arg_float(c->args, 4);
  if (!cni_dtype_is_float(out->dtype)) p.beta = trunc(p.beta), p.alpha = trunc(p.alpha);
  return run(c, &p);
}

/* x: (..., k) as a matrix of rows. Where its strides do not allow that, *copy owns a row-major copy of
 * *bytes. */
static int rows_of(const cn_desc *x, int64_t rows, matrix *a, void **copy, size_t *bytes)
{
  const int64_t k = x->shape[x->ndim - 1], shape[2] = {rows, k};
  int64_t strides[2];
  *copy = NULL;
  *a = (matrix){x->data, 0, x->strides[x->ndim - 1], 0};
  if (x->ndim == 1 || x->numel == 0) return CN_OK;
  if (x->ndim == 2 || cni_view_strides(x->ndim, x->shape, x->strides, 2, shape, strides)) {
    a->row = x->ndim == 2 ? x->strides[0] : strides[0];
    a->col = x->ndim == 2 ? x->strides[1] : strides[1];
    return CN_OK;
  }
  *bytes = (size_t)x->numel * cni_dtype_size(x->dtype);
  *copy = cni_alloc(*bytes);
  if (!*copy) return CN_ERR_MEMORY;
  cn_desc packed = cni_cpu_packed(x, x->dtype, *copy);
  cni_cpu_copy(&packed, x);
  *a = (matrix){*copy, k, 1, 0};
  return CN_OK;
}

/* linear(input (..., k), weight (n, k) or (k), bias (n), () or absent) */
static int linear_kernel(cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[0]), *w = cn_desc_of(c->in[1]), *out = cn_desc_of(c->out[0]);
  const bool flat = w->ndim == 1;
  void *copy;
  size_t bytes = 0;
  product p = {.dtype = x->dtype,
               .batch = 1,
               .n = flat ? 1 : w->shape[0],
               .k = x->shape[x->ndim - 1],
               .alpha = 1,
               .beta = 1,
               .b = {w->data, w->strides[w->ndim - 1], flat ? 0 : w->strides[0], 0}};
  p.m = p.n ? out->numel / p.n : 0;
  p.c = (matrix){out->data, p.n, 1, 0};
  if (c->in[2]) {
    const cn_desc *b = cn_desc_of(c->in[2]);
    p.init = (matrix){b->data, 0, b->ndim && b->shape[0] != 1 ? b->strides[0] : 0, 0};
  }
  int status = rows_of(x, p.m, &p.a, &copy, &bytes);
  if (status) return status;
  status = run(c, &p);
  cni_free(copy, bytes);
  return status;
}

const cn_kernel cni_cpu_matmul_kernels[] = {
    {"mm", "gemm", product_kernel},    {"bmm", "gemm", product_kernel},   {"addmm", "gemm", added_kernel},
    {"baddbmm", "gemm", added_kernel}, {"linear", "gemm", linear_kernel}, {NULL, NULL, NULL},
};
