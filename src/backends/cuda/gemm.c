/* gemm.c: matrix products by kernels of ours: small ones, of any strides and without a second launch for a bias, and
 * all where cuBLASLt is not there or not for the type.
 *
 * Place in the flow: launches of kernels/gemm.cu; of the kernels of "mm", "bmm" and "linear" the small ones come before
 * matmul.c's, the plain ones behind them, and cni_cuda_multiply takes either. Invariant: which products are small
 * depends on their sizes alone. */
#include <string.h>

#include "plugin.h"

enum { SIDE = 64, SMALL_SIDE = 16, SMALL_K = 256, MOST_BATCH = 65535 };
static const double SMALL = 1 << 20; /* multiplications: the library takes two kernels, of which each is as long */

bool cni_cuda_gemm_is_small(const cni_cuda_gemm *g, int dtype)
{
  return cni_cuda_is_float(dtype) && g->k <= SMALL_K &&
         (double)g->m * (double)g->n * (double)g->k * (double)g->batch <= SMALL;
}

static int run(cni_cuda_device *d, const char *name, cni_cuda_gemm *g, int dtype, int to, const char *entry, int side)
{
  cni_cuda_code code = {.file = "gemm.cu", .entry = entry, .types = {dtype, to}};
  cni_cuda_grid grid = {((g->m + side - 1) / side) * ((g->n + side - 1) / side),
                        g->batch < MOST_BATCH ? g->batch : MOST_BATCH, CNI_CUDA_THREADS, 0};
  return cni_cuda_run(d, name, &code, grid, g);
}

int cni_cuda_gemm_small(cni_cuda_device *d, const char *name, cni_cuda_gemm *g, int dtype, int to)
{
  return run(d, name, g, dtype, to, "gemm_small", SMALL_SIDE);
}

int cni_cuda_gemm_plain(cni_cuda_device *d, const char *name, cni_cuda_gemm *g, int dtype, int to)
{
  return run(d, name, g, dtype, to, "gemm", SIDE);
}

/* ---- the kernels ---- */

/* mm(a (m, k), b (k, n)); bmm with a batch in front; mm_dtype and bmm_dtype likewise, of 16-bit floats into float32. */
static cni_cuda_gemm product_of(const cn_desc *a, const cn_desc *b, const cn_desc *y)
{
  int i = a->ndim - 2, j = i + 1;
  bool batched = i > 0;
  return (cni_cuda_gemm){.a = a->data, .b = b->data, .y = y->data, .m = y->shape[i], .n = y->shape[j],
                         .k = a->shape[j], .batch = batched ? y->shape[0] : 1, .a_row = a->strides[i],
                         .a_col = a->strides[j], .a_step = batched ? a->strides[0] : 0, .b_row = b->strides[i],
                         .b_col = b->strides[j], .b_step = batched ? b->strides[0] : 0, .y_row = y->strides[i],
                         .y_col = y->strides[j], .y_step = batched ? y->strides[0] : 0};
}

static int mm_with(cn_call *c, bool small)
{
  const cn_desc *a = cn_desc_of(c->in[0]), *b = cn_desc_of(c->in[1]), *y = cn_desc_of(c->out[0]);
  const char *name = cni_cuda_host->op_name(c->op);
  bool widens = y->dtype == CN_F32 && (a->dtype == CN_F16 || a->dtype == CN_BF16);
  if (!cni_cuda_known(y->dtype) || (a->dtype != y->dtype && !widens) || b->dtype != a->dtype)
    return cni_cuda_refuse(c, "not for these types");
  if (y->numel == 0) return CN_OK;
  cni_cuda_gemm g = product_of(a, b, y);
  if (small && !cni_cuda_gemm_is_small(&g, a->dtype)) return cni_cuda_refuse(c, "not a small product of floats");
  cni_cuda_device *d = cni_cuda_of(c);
  if (!d) return CN_ERR_DEVICE;
  return small ? cni_cuda_gemm_small(d, name, &g, a->dtype, y->dtype)
               : cni_cuda_gemm_plain(d, name, &g, a->dtype, y->dtype);
}
static int mm_small(cn_call *c) { return mm_with(c, true); }
static int mm_plain(cn_call *c) { return mm_with(c, false); }

/* linear(input (..., k), weight (n, k), bias (n) or absent), where the rows of the input are evenly apart. */
static int linear_small(cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[0]), *w = cn_desc_of(c->in[1]), *y = cn_desc_of(c->out[0]);
  const cn_desc *bias = c->in[2] ? cn_desc_of(c->in[2]) : NULL;
  int64_t rows, apart;
  if (w->ndim != 2 || x->numel == 0 || y->numel == 0 || !cni_cuda_rows_of(&rows, &apart, x))
    return cni_cuda_refuse(c, "a form that its decomposition does as well");
  if (bias && (bias->ndim != 1 || bias->numel != w->shape[0] || bias->device != c->device))
    return cni_cuda_refuse(c, "a bias that its decomposition adds as well");
  cni_cuda_gemm g = {.a = x->data, .b = w->data, .y = y->data, .m = rows, .n = w->shape[0], .k = w->shape[1],
                     .batch = 1, .a_row = apart, .a_col = x->strides[x->ndim - 1], .b_row = w->strides[1],
                     .b_col = w->strides[0], .y_row = w->shape[0], .y_col = 1};
  if (!cni_cuda_gemm_is_small(&g, x->dtype)) return cni_cuda_refuse(c, "not a small product of floats");
  const char *name = cni_cuda_host->op_name(c->op);
  cni_cuda_operand added = {0}; /* the bias, dense */
  cni_cuda_device *d = cni_cuda_of(c);
  if (!d) return CN_ERR_DEVICE;
  int status = bias ? cni_cuda_take(&added, d, name, bias, 0) : CN_OK;
  g.bias = added.data;
  if (!status) status = cni_cuda_gemm_small(d, name, &g, x->dtype, y->dtype);
  cni_cuda_drop(&added, d);
  return status;
}

const cn_kernel cni_cuda_small_product_kernels[] = {
    {"mm", "small", mm_small},
    {"bmm", "small", mm_small},
    {"mm_dtype", "small", mm_small},
    {"bmm_dtype", "small", mm_small},
    {"linear", "small", linear_small},
    {NULL, NULL, NULL},
};
const cn_kernel cni_cuda_plain_product_kernels[] = {
    {"mm", "gemm.cu", mm_plain},
    {"bmm", "gemm.cu", mm_plain},
    {"mm_dtype", "gemm.cu", mm_plain},
    {"bmm_dtype", "gemm.cu", mm_plain},
    {NULL, NULL, NULL},
};
