/* grouped.c: grouped_product: a product for each group of rows, columns or of what is summed.
 *
 * Place in the flow: looks at the ends, clears what no group has, and gives each group's product to matmul.c; many
 * small groups are shared out to threads whole. Invariant: each product is what it would be alone, so results depend
 * neither on threads nor on other groups. */
#include <string.h>

#include "backends/cpu/cpu.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "matmul.h"
#include "tensor/tensor.h"

enum { GRAIN_WORK = 1 << 20 }; /* multiply-adds worth handing to a thread */

typedef struct grouped {
  const cn_desc *a, *b, *y, *offs;
} grouped;

static int64_t end_of(const grouped *w, int64_t g)
{
  const int64_t at = g * w->offs->strides[0];
  if (g < 0) return 0;
  return w->offs->dtype == CN_I32 ? ((const int32_t *)w->offs->data)[at] : ((const int64_t *)w->offs->data)[at];
}

/* The dimension that is cut: of a's rows, of b's columns, or of what is summed. */
static int64_t cut_size(const grouped *w)
{
  return w->b->ndim == 3 ? w->a->shape[0] : w->a->ndim == 3 ? w->b->shape[1] : w->a->shape[1];
}

static int check_ends(const cn_call *c, const grouped *w)
{
  const int64_t n = cut_size(w);
  for (int64_t g = 0; g < w->offs->shape[0]; g++) {
    const int64_t end = end_of(w, g), before = end_of(w, g - 1);
    if (end < before || end > n)
      return cn_call_fail(c, CN_ERR_INDEX, "group %lld ends at %lld, but must end between %lld and %lld", (long long)g,
                          (long long)end, (long long)before, (long long)n);
  }
  return CN_OK;
}

static cni_matrix from(const cn_desc *d, int64_t row, int64_t col)
{
  const int64_t r = d->strides[d->ndim - 2], s = d->strides[d->ndim - 1];
  return (cni_matrix){(char *)d->data + (row * r + col * s) * (int64_t)cni_dtype_size(d->dtype), r, s, 0};
}
static cni_matrix matrix_of(const cn_desc *d, int64_t g)
{
  return (cni_matrix){(char *)d->data + g * d->strides[0] * (int64_t)cni_dtype_size(d->dtype), d->strides[1],
                      d->strides[2], 0};
}

static cni_product product_of(const grouped *w, int64_t g)
{
  const int64_t first = end_of(w, g - 1), n = end_of(w, g) - first;
  cni_product p = {.dtype = w->y->dtype, .batch = 1, .m = w->a->shape[w->a->ndim - 2],
                   .n = w->b->shape[w->b->ndim - 1], .k = w->a->shape[w->a->ndim - 1], .alpha = 1};
  if (w->b->ndim == 3) {
    p.m = n;
    p.a = from(w->a, first, 0), p.b = matrix_of(w->b, g), p.c = from(w->y, first, 0);
  } else if (w->a->ndim == 3) {
    p.n = n;
    p.a = matrix_of(w->a, g), p.b = from(w->b, 0, first), p.c = from(w->y, 0, first);
  } else {
    p.k = n;
    p.a = from(w->a, 0, first), p.b = from(w->b, first, 0), p.c = matrix_of(w->y, g);
  }
  return p;
}

static void multiply_groups(int64_t begin, int64_t end, void *payload)
{
  for (int64_t g = begin; g < end; g++) {
    cni_product p = product_of(payload, g);
    cni_cpu_multiply(&p); /* its errors are pending */
  }
}

/* Rows or columns of the result, which is row-major, behind the last group's. */
static void clear_rest(const grouped *w)
{
  const cn_desc *y = w->y;
  if (y->ndim == 3) return;
  const size_t size = cni_dtype_size(y->dtype);
  const int64_t last = end_of(w, w->offs->shape[0] - 1), cols = y->shape[1];
  const bool rows = w->b->ndim == 3;
  for (int64_t i = rows ? last : 0; i < y->shape[0]; i++) {
    const int64_t first = rows ? 0 : last;
    memset((char *)y->data + (size_t)(i * cols + first) * size, 0, (size_t)(cols - first) * size);
  }
}

static int grouped_product(cn_call *c)
{
  const grouped w = {cn_desc_of(c->in[0]), cn_desc_of(c->in[1]), cn_desc_of(c->out[0]), cn_desc_of(c->in[2])};
  if (w.y->dtype != w.a->dtype) {
    c->refusal = "a result wider than the operands";
    return CN_REFUSED;
  }
  int status = check_ends(c, &w);
  if (status) return status;
  clear_rest(&w);
  const int64_t groups = w.offs->shape[0];
  const double work = (double)w.a->shape[w.a->ndim - 2] * (double)w.a->shape[w.a->ndim - 1] *
                      (double)w.b->shape[w.b->ndim - 1] / (double)(groups ? groups : 1);
  if (work < GRAIN_WORK || groups >= 4 * cn_num_threads())
    cni_parallel_for(groups, cni_product_grain(work, GRAIN_WORK), multiply_groups, (void *)&w);
  else multiply_groups(0, groups, (void *)&w);
  return cn_err();
}

const cn_kernel cni_cpu_grouped_kernels[] = {{"grouped_product", "groups", grouped_product}, {NULL, NULL, NULL}};
