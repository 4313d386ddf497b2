/* matmul.c: kernels of the matrix products: mm, bmm, addmm, baddbmm and linear are one thing here, a batch of
 * C = alpha * A B + beta * I with I broadcast (a bias, say) or absent.
 *
 * Flow: a kernel describes its call as a `product`; floats go to the gemm seam as they are, 16-bit floats to
 * matmul_half.c, integers through plain loops. Invariant: work is cut into pieces of C that depend on the
 * shapes alone, so no result depends on the number of threads. */
#include <math.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/lib/blas.h"
#include "backends/cpu/walk/cast.h"
#include "base/convert.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "gemm.h"
#include "matmul.h"
#include "ops/infer.h"
#include "tensor/tensor.h"

typedef cni_matrix matrix;
typedef cni_product product;

enum {
  GRAIN_COPY = 1 << 16, /* elements worth waking a thread for */
  GRAIN_WORK = 1 << 18  /* multiply-adds of integers */
};

static inline char *at(const product *p, const matrix *x, int64_t b, int64_t i, int64_t j)
{
  return cni_product_at(p, x, b, i, j);
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
                    .beta = p->beta,
                    .by = p->by,
                    .packed = p->packed,
                    .packed_depth = p->packed_depth};
}

/* Is C where init is, element by element? */
static bool adds_to_itself(const product *p)
{
  const matrix *c = &p->c, *x = &p->init;
  return x->data == c->data && x->row == c->row && x->col == c->col && x->step == c->step;
}

/* Is init one row for all of C, which the product adds as it stores its sums? */
static bool adds_a_row(const product *p)
{
  return p->alpha == 1 && p->beta == 1 && p->init.row == 0 && p->init.step == 0 && (p->init.col == 1 || p->n == 1);
}

static int run_float(product *p)
{
  if (!p->init.data) p->beta = 0;
  const bool row = p->beta != 0 && adds_a_row(p);
  if (p->beta != 0 && !row && !adds_to_itself(p))
    cni_parallel_for(p->batch * p->m, cni_product_grain((double)p->n, GRAIN_COPY), init_rows, p);
  cni_gemm g = gemm_of(p);
  if (row) g.across = p->init.data, g.beta = 0;
  if (p->batch == 1) return p->dtype == CN_F32 ? cni_gemm_f32(&g) : cni_gemm_f64(&g);
  return cni_gemm_batch((cn_dtype)p->dtype, &g, p->batch, p->a.step, p->b.step, p->c.step);
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
  cni_parallel_for(p->batch * p->m, cni_product_grain((double)p->n * (double)p->k, GRAIN_WORK), rows[p->dtype], p);
  return CN_OK;
}

int cni_cpu_multiply(product *p)
{
  p->size = (int64_t)cni_dtype_size(p->dtype);
  if (p->batch == 0 || p->m == 0 || p->n == 0) return CN_OK;
  if (p->dtype == CN_F32 || p->dtype == CN_F64) return run_float(p);
  if (p->dtype == CN_F16 || p->dtype == CN_BF16) return cni_half_product(p);
  if (cni_dtype_is_int(p->dtype) && cni_dtype_computes(p->dtype)) return run_integer(p);
  return CN_REFUSED;
}

static int run(cn_call *c, product *p)
{
  if (c->prepared) p->packed = c->prepared->memory, p->packed_depth = (int64_t)c->prepared->form;
  int status = cni_cpu_multiply(p);
  if (status == CN_REFUSED) c->refusal = "no product of this type";
  return status;
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

/* mm(input, mat2), bmm */
static product read_product(const cn_call *c)
{
  return product_of(cn_desc_of(c->in[0]), cn_desc_of(c->in[1]), cn_desc_of(c->out[0]));
}

static int run_product(cn_call *c, enum cni_blas by)
{
  product p = read_product(c);
  p.by = by;
  return run(c, &p);
}

/* addmm(input, mat1, mat2, beta, alpha), baddbmm */
static product read_added(const cn_call *c)
{
  const cn_desc *out = cn_desc_of(c->out[0]);
  product p = product_of(cn_desc_of(c->in[1]), cn_desc_of(c->in[2]), out);
  p.init = broadcast_of(cn_desc_of(c->in[0]), out);
  p.beta = cni_arg_float(c->args, 3);
  p.alpha = cni_arg_float(c->args, 4);
  if (!cni_dtype_is_float(out->dtype)) p.beta = trunc(p.beta), p.alpha = trunc(p.alpha);
  return p;
}

static int run_added(cn_call *c, enum cni_blas by)
{
  product p = read_added(c);
  p.by = by;
  return run(c, &p);
}

/* x: (..., k) as a matrix of rows; false where its strides do not allow that, and a is as a row-major copy of it would
 * be. */
static bool view_rows(const cn_desc *x, int64_t rows, matrix *a)
{
  const int64_t k = x->shape[x->ndim - 1], shape[2] = {rows, k};
  int64_t strides[2];
  *a = (matrix){x->data, 0, x->strides[x->ndim - 1], 0};
  if (x->ndim == 1 || x->numel == 0) return true;
  bool fits = x->ndim == 2 || cni_view_strides(x->ndim, x->shape, x->strides, 2, shape, strides);
  a->row = !fits ? k : x->ndim == 2 ? x->strides[0] : strides[0];
  a->col = !fits ? 1 : x->ndim == 2 ? x->strides[1] : strides[1];
  return fits;
}

/* The same; *copy owns such a copy of *bytes. */
static int rows_of(const cn_desc *x, int64_t rows, matrix *a, void **copy, size_t *bytes)
{
  *copy = NULL;
  if (view_rows(x, rows, a)) return CN_OK;
  *bytes = cni_dtype_bytes(x->dtype, x->numel);
  *copy = cni_scratch_alloc(*bytes);
  if (!*copy) return CN_ERR_MEMORY;
  cn_desc packed = cni_cpu_packed(x, x->dtype, *copy);
  cni_cpu_copy(&packed, x);
  a->data = *copy;
  return CN_OK;
}

/* linear(input (..., k), weight (n, k) or (k), bias (n), () or absent); the rows of A are still to be found */
static product read_linear(const cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[0]), *w = cn_desc_of(c->in[1]), *out = cn_desc_of(c->out[0]);
  const bool flat = w->ndim == 1;
  product p = {.dtype = x->dtype,
               .batch = 1,
               .n = flat ? 1 : w->shape[0],
               .k = x->shape[x->ndim - 1],
               .alpha = 1,
               .beta = 1,
               .a = {x->data, x->shape[x->ndim - 1], 1, 0}, /* as if x were row-major */
               .b = {w->data, w->strides[w->ndim - 1], flat ? 0 : w->strides[0], 0}};
  p.m = p.n ? out->numel / p.n : 0;
  p.c = (matrix){out->data, p.n, 1, 0};
  if (c->in[2]) {
    const cn_desc *b = cn_desc_of(c->in[2]);
    p.init = (matrix){b->data, 0, b->ndim && b->shape[0] != 1 ? b->strides[0] : 0, 0};
  }
  return p;
}

static int run_linear(cn_call *c, enum cni_blas by)
{
  product p = read_linear(c);
  void *copy;
  size_t bytes = 0;
  p.by = by;
  int status = rows_of(cn_desc_of(c->in[0]), p.m, &p.a, &copy, &bytes);
  if (status) return status;
  status = run(c, &p);
  cni_scratch_free(copy, bytes);
  return status;
}

/* ---- weights that are packed once ---- */

/* weight: which input b is. */
static int prepare(cn_prepared *made, const product *p, int weight)
{
  cni_gemm g = gemm_of(p);
  bool f64 = p->dtype == CN_F64;
  int64_t depth;
  if ((!f64 && p->dtype != CN_F32) || p->batch != 1) return CN_OK;
  if (made->memory) {
    cni_gemm_pack(&g, f64, (int64_t)made->form, made->memory);
    return CN_OK;
  }
  made->bytes = cni_gemm_packed_bytes(&g, f64, &depth);
  made->of = 1u << weight;
  made->form = (uint64_t)depth;
  return CN_OK;
}

static int prepare_product(const cn_call *c, cn_prepared *made)
{
  product p = read_product(c);
  return prepare(made, &p, 1);
}

static int prepare_added(const cn_call *c, cn_prepared *made)
{
  product p = read_added(c);
  return prepare(made, &p, 2);
}

static int prepare_linear(const cn_call *c, cn_prepared *made)
{
  product p = read_linear(c);
  view_rows(cn_desc_of(c->in[0]), p.m, &p.a);
  return prepare(made, &p, 1);
}

/* ---- rows: own kernels, and the libraries, which take what they are worth loading for ---- */

static int can(cn_plan *plan, const product *p, enum cni_blas by)
{
  cni_gemm g = gemm_of(p);
  g.by = by;
  plan->refusal = p->dtype != CN_F32 && p->dtype != CN_F64 ? "float32 and float64 alone"
                                                           : cni_blas_against(&g, p->dtype == CN_F64);
  return plan->refusal ? CN_REFUSED : CN_OK;
}

#define ROWS_OF(form)                                                                                                \
  static int own_##form(cn_call *c) { return run_##form(c, CNI_BLAS_OWN); }                                          \
  static int openblas_##form(cn_call *c) { return run_##form(c, CNI_BLAS_OPENBLAS); }                                \
  static int onednn_##form(cn_call *c) { return run_##form(c, CNI_BLAS_ONEDNN); }                                    \
  static int can_openblas_##form(const cn_call *c, cn_plan *plan)                                                    \
  {                                                                                                                  \
    product p = read_##form(c);                                                                                      \
    return can(plan, &p, CNI_BLAS_OPENBLAS);                                                                         \
  }                                                                                                                  \
  static int can_onednn_##form(const cn_call *c, cn_plan *plan)                                                      \
  {                                                                                                                  \
    product p = read_##form(c);                                                                                      \
    return can(plan, &p, CNI_BLAS_ONEDNN);                                                                           \
  }
ROWS_OF(product)
ROWS_OF(added)
ROWS_OF(linear)

#define OWN(op, form) {op, "own", own_##form, NULL, prepare_##form, CN_KERNEL_NEAR}
#define OPENBLAS(op, form) {op, "openblas", openblas_##form, can_openblas_##form, NULL, CN_KERNEL_NEAR}
#define ONEDNN(op, form) {op, "onednn", onednn_##form, can_onednn_##form, NULL, CN_KERNEL_NEAR}
#if CNI_HAS_LEVELS
#define ROWS(op, form) OWN(op, form), OPENBLAS(op, form), ONEDNN(op, form)
#else /* no own kernels for its vectors yet */
#define ROWS(op, form) OPENBLAS(op, form), OWN(op, form), ONEDNN(op, form)
#endif

const cn_kernel cni_cpu_matmul_kernels[] = {
    ROWS("mm", product),    ROWS("bmm", product),   ROWS("addmm", added),
    ROWS("baddbmm", added), ROWS("linear", linear), {NULL, NULL, NULL},
};
