/* create.c: CPU kernels of the ops that make tensors from a formula: full, fill, arange, linspace, eye,
 * empty.
 *
 * Place in the flow: the create family of ops/create.c, without its random numbers (random.c) and copies
 * (copy.c). Invariant: element i depends on the arguments and i alone, never on strides or threads. */
#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/walk/cast.h"
#include "backends/cpu/walk/iter.h"
#include "backends/cpu/walk/rows.h"
#include "base/alloc.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "ops/infer.h"
#include "tensor/tensor.h"

enum { BLOCK = 512, GRAIN = 32768 };

/* ---- one value everywhere ---- */

typedef struct filling {
  char *data;
  size_t elem;
  char value[8];
} filling;

static void fill_range(int64_t begin, int64_t end, void *payload)
{
  const filling *f = payload;
  cni_row_fill(f->data + begin * (int64_t)f->elem, (int64_t)f->elem, f->value, f->elem, end - begin);
}

static void fill_row(char *const *ptr, const int64_t *stride, int64_t n, void *payload)
{
  const filling *f = payload;
  cni_row_fill(ptr[0], stride[0], f->value, f->elem, n);
}

/* value: one element of d's type. */
static void fill_with(const cn_desc *d, const void *value)
{
  filling f = {.data = d->data, .elem = cni_dtype_size(d->dtype)};
  memcpy(f.value, value, f.elem);
  if (cni_is_dense(d->ndim, d->shape, d->strides)) {
    cni_parallel_for(d->numel, GRAIN, fill_range, &f);
    return;
  }
  cni_iter it;
  cni_iter_begin(&it, d->ndim, d->shape);
  cni_iter_add(&it, d);
  cni_iter_finish(&it);
  cni_iter_run(&it, GRAIN, fill_row, &f);
}

/* A Scalar argument as one element of a type; integers exactly. */
static void scalar_element(void *element, const cn_value *v, int dtype)
{
  if (v->tag == CN_V_FLOAT) cni_cast_find(CN_F64, dtype)(element, &v->u.f, 1);
  else cni_cast_find(CN_I64, dtype)(element, &v->u.i, 1);
}

/* full(size, fill_value, ...) and full_like(input, fill_value, ...) */
static int full_kernel(cn_call *c)
{
  const cn_desc *d = cn_desc_of(c->out[0]);
  _Alignas(8) char element[8];
  if (cni_dtype_is_complex(d->dtype)) {
    double real = cni_arg_float(c->args, 1);
    cni_cpu_copy(d, &(cn_desc){.data = &real, .numel = 1, .dtype = CN_F64, .device = CN_CPU});
    return CN_OK;
  }
  scalar_element(element, &c->args[1], d->dtype);
  fill_with(d, element);
  return CN_OK;
}

/* fill(input, value): of input only the shape counts, and apply gave it to the result. */
static int fill_kernel(cn_call *c)
{
  const cn_desc *d = cn_desc_of(c->out[0]), *value = cn_desc_of(c->in[1]);
  _Alignas(8) char element[8];
  if (cni_dtype_is_complex(d->dtype)) {
    cni_cpu_copy(d, value);
    return CN_OK;
  }
  cni_cast_find(value->dtype, d->dtype)(element, value->data, 1);
  fill_with(d, element);
  return CN_OK;
}

static int empty_kernel(cn_call *c)
{
  (void)c;
  return CN_OK;
}

/* eye(n, m): zeros, then ones along the diagonal. */
static int eye_kernel(cn_call *c)
{
  const cn_desc *d = cn_desc_of(c->out[0]);
  int64_t one = 1, diagonal = d->shape[0] < d->shape[1] ? d->shape[0] : d->shape[1];
  _Alignas(8) char element[8] = {0};
  fill_with(d, element); /* all types write zero as zero bytes but float8_e8m0, which has none */
  cni_cast_find(CN_I64, d->dtype)(element, &one, 1);
  size_t elem = cni_dtype_size(d->dtype);
  cni_row_fill(d->data, (d->strides[0] + d->strides[1]) * (int64_t)elem, element, elem, diagonal);
  return CN_OK;
}

/* ---- ranges ---- */

/* A one-dimensional result made of blocks in float64 or int64 that are then cast. */
typedef struct range {
  double start, step, end; /* float64 */
  int64_t istart, istep;   /* int64 */
  int64_t half, last;      /* linspace: where counting from the end begins; index of the last element */
  bool ints;
  const cn_desc *out; /* (n) */
  cni_cast_fn cast;
} range;

static double range_value(const range *r, int64_t i)
{
  if (i < r->half) return r->start + r->step * (double)i;
  return r->end - r->step * (double)(r->last - i);
}

static void range_part(int64_t begin, int64_t end, void *payload)
{
  const range *r = payload;
  union {
    double f[BLOCK];
    int64_t i[BLOCK];
  } block;
  _Alignas(64) char cooked[BLOCK * 8];
  size_t elem = cni_dtype_size(r->out->dtype);
  int64_t stride = r->out->strides[0] * (int64_t)elem;
  for (int64_t at = begin; at < end; at += BLOCK) {
    int64_t m = end - at < BLOCK ? end - at : BLOCK;
    for (int64_t k = 0; k < m; k++) {
      if (r->ints) block.i[k] = r->istart + (at + k) * r->istep;
      else block.f[k] = range_value(r, at + k);
    }
    r->cast(cooked, &block, (size_t)m);
    cni_row_scatter((char *)r->out->data + at * stride, stride, cooked, elem, m);
  }
}

static void run_range(range *r, const cn_desc *out)
{
  r->out = out;
  r->cast = cni_cast_find(r->ints ? CN_I64 : CN_F64, out->dtype);
  cni_parallel_for(out->numel, GRAIN, range_part, r);
}

static int64_t as_int(const cn_value *v)
{
  int64_t i = v->u.i;
  if (v->tag == CN_V_FLOAT) cni_cast_find(CN_F64, CN_I64)(&i, &v->u.f, 1);
  return i;
}

/* arange(start, end, step): counted in integers when all three are or the result is, so that no digit is
 * lost. */
static int arange_kernel(cn_call *c)
{
  const cn_desc *d = cn_desc_of(c->out[0]);
  bool given_ints = c->args[0].tag != CN_V_FLOAT && c->args[2].tag != CN_V_FLOAT;
  range r = {.ints = given_ints || !cni_dtype_is_float(d->dtype), .half = INT64_MAX};
  r.start = cni_arg_float(c->args, 0);
  r.step = cni_arg_float(c->args, 2);
  r.istart = as_int(&c->args[0]);
  r.istep = as_int(&c->args[2]);
  run_range(&r, d);
  return CN_OK;
}

static double as_stored(double x, int dtype)
{
  char stored[8];
  cni_cast_find(CN_F64, dtype)(stored, &x, 1);
  cni_cast_find(dtype, CN_F64)(&x, stored, 1);
  return x;
}

/* linspace(start, end, steps): the first half counts from start, the second from end, so that both ends are
 * exact and the result is symmetric. Both ends are rounded to the type first. */
static int linspace_kernel(cn_call *c)
{
  const cn_desc *d = cn_desc_of(c->out[0]);
  range r = {.start = cni_arg_float(c->args, 0), .end = cni_arg_float(c->args, 1), .last = d->numel - 1};
  if (!cni_dtype_is_float(d->dtype)) {
    r.start = (double)as_int(&c->args[0]);
    r.end = (double)as_int(&c->args[1]);
  }
  if (cni_dtype_is_float(d->dtype)) {
    r.start = as_stored(r.start, d->dtype);
    r.end = as_stored(r.end, d->dtype);
  }
  if (d->numel > 1) r.step = (r.end - r.start) / (double)r.last;
  r.half = d->numel == 1 ? 1 : d->numel / 2;
  run_range(&r, d);
  return CN_OK;
}

const cn_kernel cni_cpu_create_kernels[] = {
    {"empty", "reference", empty_kernel},
    {"empty_like", "reference", empty_kernel},
    {"full", "reference", full_kernel},
    {"full_like", "reference", full_kernel},
    {"fill", "reference", fill_kernel},
    {"arange", "reference", arange_kernel},
    {"linspace", "reference", linspace_kernel},
    {"eye", "reference", eye_kernel},
    {NULL, NULL, NULL},
};
