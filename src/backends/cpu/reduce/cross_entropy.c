/* cross_entropy.c: CPU kernels of cross_entropy_rows and its gradient.
 *
 * Place in the flow: below apply; cross_entropy_isa.c has the loops. Invariants: rows are independent and their losses
 * are added in order, so results do not depend on threads; halves are computed in float32. */
#include "cross_entropy.h"

#include <math.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/index/index.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/walk/iter.h"
#include "base/convert.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "tensor/tensor.h"

enum { GRAIN = 8192 };

static const cni_cross_entropy_table *loops(void) { return CNI_BY_ISA(cni_cross_entropy_table); }

/* Element i of data, as conversions of any type have it; most often it is float32, in loops of few instructions. */
static inline double load_at(const void *data, int64_t i, int dtype)
{
  return dtype == CN_F32 ? (double)((const float *)data)[i] : cni_load_f64(data, i, dtype);
}
static inline void store_at(void *data, int64_t i, int dtype, double v)
{
  if (dtype == CN_F32) ((float *)data)[i] = (float)v;
  else cni_store_f64(data, i, dtype, v);
}

/* ---- rows of classes ---- */

/* x: (rows, classes). Rows are read in the work type (float32 or float64). */
typedef struct rows {
  const cn_call *c;
  const cn_desc *x, *y;
  const int64_t *target; /* (rows), packed */
  const cn_desc *lse, *g;
  int64_t classes, ignore;
  double share; /* of the gradient that each row gets; what g is multiplied with */
  int type;
  bool direct; /* rows of x can be read in place */
} rows;

static rows rows_of(const cn_call *c, const cn_desc *x, int64_t ignore)
{
  rows r = {.c = c, .x = x, .classes = x->shape[1], .ignore = ignore, .type = x->dtype == CN_F64 ? CN_F64 : CN_F32};
  r.direct = x->dtype == r.type && (x->strides[1] == 1 || r.classes == 1);
  return r;
}

static char *row_at(const cn_desc *d, int64_t i)
{
  return (char *)d->data + i * d->strides[0] * (int64_t)cni_dtype_size(d->dtype);
}

/* Row i of d as a vector of its own. */
static cn_desc row_desc(const cn_desc *d, int64_t i)
{
  cn_desc row = {.data = row_at(d, i), .numel = d->shape[1], .dtype = d->dtype, .ndim = 1, .device = CN_CPU};
  row.shape[0] = d->shape[1];
  row.strides[0] = d->strides[1];
  return row;
}

/* Row i in the work type: in place, or converted into room. */
static const void *load_row(const rows *r, int64_t i, void *room)
{
  if (r->direct) return row_at(r->x, i);
  cn_desc from = row_desc(r->x, i), to = cni_cpu_packed(&from, r->type, room);
  cni_cpu_copy(&to, &from);
  return room;
}

static void lse_range(int64_t begin, int64_t end, void *payload)
{
  const rows *r = payload;
  size_t size = cni_dtype_bytes(r->type, r->classes);
  void *room = r->direct ? NULL : cni_scratch_alloc(size);
  if (!r->direct && !room) return;
  for (int64_t i = begin; i < end; i++) {
    const void *row = load_row(r, i, room);
    double lse = r->type == CN_F32 ? (double)loops()->lse_f32(row, r->classes) : loops()->lse_f64(row, r->classes);
    store_at(row_at(r->lse, i), 0, r->type, lse);
  }
  cni_scratch_free(room, size);
}

/* Short rows, which can be read in place: blocks of them at once. lse is row-major. */
static void short_range(int64_t begin, int64_t end, void *payload)
{
  const rows *r = payload;
  for (int64_t block = begin; block < end; block++) {
    int64_t first = block * CNI_CROSS_ENTROPY_ROWS, n = r->x->shape[0] - first;
    if (n > CNI_CROSS_ENTROPY_ROWS) n = CNI_CROSS_ENTROPY_ROWS;
    char *x = row_at(r->x, first), *lse = row_at(r->lse, first);
    int64_t stride = r->x->strides[0];
    if (r->type == CN_F32) loops()->lses_f32((float *)(void *)lse, (const float *)(void *)x, stride, n, r->classes);
    else loops()->lses_f64((double *)(void *)lse, (const double *)(void *)x, stride, n, r->classes);
  }
}

static void fill_lse(const rows *r)
{
  int64_t n = r->x->shape[0], blocks = (n + CNI_CROSS_ENTROPY_ROWS - 1) / CNI_CROSS_ENTROPY_ROWS;
  if (r->classes == 0)
    for (int64_t i = 0; i < n; i++) store_at(row_at(r->lse, i), 0, r->type, -(double)INFINITY);
  else if (r->classes <= CNI_CROSS_ENTROPY_SHORT && r->direct)
    cni_parallel_for(blocks, GRAIN / (CNI_CROSS_ENTROPY_ROWS * r->classes) + 1, short_range, (void *)r);
  else cni_parallel_for(n, GRAIN / r->classes + 1, lse_range, (void *)r);
}

/* Every class is in range or ignored; returns how many count, or an error. */
static int64_t count_targets(const cn_call *c, const int64_t *target, int64_t n, int64_t classes, int64_t ignore)
{
  int64_t count = 0;
  for (int64_t i = 0; i < n; i++) {
    if (target[i] == ignore) continue;
    if (target[i] < 0 || target[i] >= classes)
      return cn_call_fail(c, CN_ERR_INDEX, "target %lld at row %lld is out of range for %lld classes (dimension 1)",
                          (long long)target[i], (long long)i, (long long)classes);
    count++;
  }
  return count;
}

/* The loss of each row, stored or added up; lse is known. */
static void row_losses(const rows *r, const cn_desc *out, bool mean, int64_t count)
{
  double total = 0;
  int64_t n = r->x->shape[0];
  for (int64_t i = 0; i < n; i++) {
    double loss = 0;
    if (r->target[i] != r->ignore)
      loss = load_at(row_at(r->lse, i), 0, r->type) -
             load_at(row_at(r->x, i), r->target[i] * r->x->strides[1], r->x->dtype);
    if (out->ndim) store_at(row_at(out, i), 0, out->dtype, loss);
    total += loss;
  }
  if (!out->ndim) store_at(out->data, 0, out->dtype, mean ? total / (double)count : total);
}

/* cross_entropy_rows(input, target, ignore_index, reduction) */
static int cross_entropy_kernel(cn_call *c)
{
  rows r = rows_of(c, cn_desc_of(c->in[0]), c->args[2].u.i);
  int64_t n = r.x->shape[0];
  cni_numbers t;
  int status = cni_numbers_open(&t, cn_desc_of(c->in[1]), true);
  r.target = t.d.data;
  r.lse = cn_desc_of(c->out[1]);
  int64_t count = status ? status : count_targets(c, r.target, n, r.classes, r.ignore);
  if (count >= 0) fill_lse(&r);
  status = count < 0 ? (int)count : cn_err();
  if (!status) row_losses(&r, cn_desc_of(c->out[0]), !strcmp(c->args[3].u.s, "mean"), count);
  cni_numbers_close(&t);
  return status;
}

static double row_scale(const rows *r, int64_t i)
{
  return r->share * load_at(r->g->ndim ? row_at(r->g, i) : r->g->data, 0, r->g->dtype);
}

/* One row of the gradient into y (work type). */
static void grad_row(const rows *r, int64_t i, void *y, const void *x)
{
  double lse = load_at(row_at(r->lse, i), 0, r->lse->dtype), scale = row_scale(r, i);
  if (r->type == CN_F32) {
    loops()->softmax_f32(y, x, r->classes, (float)lse, (float)scale);
    ((float *)y)[r->target[i]] -= (float)scale;
  } else {
    loops()->softmax_f64(y, x, r->classes, lse, scale);
    ((double *)y)[r->target[i]] -= scale;
  }
}

static void grad_range(int64_t begin, int64_t end, void *payload)
{
  const rows *r = payload;
  size_t size = cni_dtype_bytes(r->type, r->classes);
  size_t row_size = cni_dtype_bytes(r->y->dtype, r->classes);
  bool store = r->y->dtype != r->type; /* the result is row-major, as infer asked for */
  char *room = cni_scratch_alloc(2 * size);
  if (!room) return;
  for (int64_t i = begin; i < end; i++) {
    if (r->target[i] == r->ignore) {
      memset(row_at(r->y, i), 0, row_size);
      continue;
    }
    grad_row(r, i, store ? room + size : row_at(r->y, i), load_row(r, i, room));
    if (!store) continue;
    cn_desc to = row_desc(r->y, i), from = cni_cpu_packed(&to, r->type, room + size);
    cni_cpu_copy(&to, &from);
  }
  cni_scratch_free(room, 2 * size);
}

/* Blocks of short rows that are read and written in place. */
static void short_grad_range(int64_t begin, int64_t end, void *payload)
{
  const rows *r = payload;
  int64_t stride = r->x->strides[0], classes = r->classes;
  for (int64_t block = begin; block < end; block++) {
    union {
      float f[CNI_CROSS_ENTROPY_ROWS];
      double d[CNI_CROSS_ENTROPY_ROWS];
    } lse, scale;
    int64_t first = block * CNI_CROSS_ENTROPY_ROWS, n = r->x->shape[0] - first;
    if (n > CNI_CROSS_ENTROPY_ROWS) n = CNI_CROSS_ENTROPY_ROWS;
    for (int64_t i = 0; i < n; i++) {
      store_at(&lse, i, r->type, load_at(row_at(r->lse, first + i), 0, r->lse->dtype));
      store_at(&scale, i, r->type, row_scale(r, first + i));
    }
    void *x = row_at(r->x, first), *y = row_at(r->y, first);
    if (r->type == CN_F32) loops()->softmaxes_f32(y, x, stride, n, classes, lse.f, scale.f);
    else loops()->softmaxes_f64(y, x, stride, n, classes, lse.d, scale.d);
    for (int64_t i = 0; i < n; i++) {
      char *row = row_at(r->y, first + i);
      int64_t t = r->target[first + i];
      if (t == r->ignore) memset(row, 0, cni_dtype_bytes(r->type, classes));
      else if (r->type == CN_F32) ((float *)(void *)row)[t] -= scale.f[i];
      else ((double *)(void *)row)[t] -= scale.d[i];
    }
  }
}

static void fill_grad(const rows *r)
{
  int64_t n = r->x->shape[0], blocks = (n + CNI_CROSS_ENTROPY_ROWS - 1) / CNI_CROSS_ENTROPY_ROWS;
  if (r->classes == 0) return;
  if (r->classes <= CNI_CROSS_ENTROPY_SHORT && r->direct)
    cni_parallel_for(blocks, GRAIN / (CNI_CROSS_ENTROPY_ROWS * r->classes) + 1, short_grad_range, (void *)r);
  else cni_parallel_for(n, GRAIN / r->classes + 1, grad_range, (void *)r);
}

/* cross_entropy_rows_grad(grad, input, target, lse, ignore_index, reduction) */
static int cross_entropy_grad_kernel(cn_call *c)
{
  rows r = rows_of(c, cn_desc_of(c->in[1]), c->args[4].u.i);
  cni_numbers t;
  int status = cni_numbers_open(&t, cn_desc_of(c->in[2]), true);
  r.y = cn_desc_of(c->out[0]);
  r.g = cn_desc_of(c->in[0]);
  r.lse = cn_desc_of(c->in[3]);
  r.target = t.d.data;
  int64_t count = status ? status : count_targets(c, r.target, r.x->shape[0], r.classes, r.ignore);
  r.share = !strcmp(c->args[5].u.s, "mean") ? 1 / (double)count : 1;
  if (count >= 0) fill_grad(&r);
  cni_numbers_close(&t);
  return count < 0 ? (int)count : cn_err();
}

const cn_kernel cni_cpu_cross_entropy_kernels[] = {
    {"cross_entropy_rows", "fused", cross_entropy_kernel},
    {"cross_entropy_rows_grad", "fused", cross_entropy_grad_kernel},
    {NULL, NULL, NULL},
};
