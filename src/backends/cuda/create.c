/* create.c: arange, linspace, eye, tril, triu, cat and nonzero.
 *
 * Place in the flow: launches of kernels/create.cu; cat is copies. Invariant: results equal the CPU's bit for bit. */
#include <string.h>

#include "plugin.h"

enum { TILE = CNI_CUDA_THREADS * 16 };

/* As in kernels/create.cu. */
typedef struct range {
  void *y;
  int64_t n, half, last;
  double start, step, end;
  int64_t istart, istep;
  int32_t ints, unused;
} range;

static double as_float(const cn_value *v) { return v->tag == CN_V_FLOAT ? v->u.f : (double)v->u.i; }

/* As the CPU casts: out of range and NaN become the least number. */
static int64_t as_int(const cn_value *v)
{
  if (v->tag != CN_V_FLOAT) return v->u.i;
  return v->u.f >= -0x1p63 && v->u.f < 0x1p63 ? (int64_t)v->u.f : INT64_MIN;
}

static int run_range(cn_call *c, cni_cuda_device *d, range *r)
{
  const cn_desc *y = cn_desc_of(c->out[0]);
  const char *name = cni_cuda_host->op_name(c->op);
  cni_cuda_operand o;
  if (!cni_cuda_known(y->dtype)) return cni_cuda_refuse(c, "a type for storage only");
  if (y->numel == 0) return CN_OK;
  int status = cni_cuda_room(&o, d, name, y, 0);
  cni_cuda_code code = {.file = "create.cu", .entry = "range", .types = {y->dtype}, .exact = true};
  r->y = o.data;
  r->n = y->numel;
  if (!status) status = cni_cuda_run(d, name, &code, cni_cuda_grid_for(d, r->n), r);
  return cni_cuda_give(&o, d, name, status);
}

/* arange(start, end, step): in integers when all three are or the result is. */
static int arange_kernel(cn_call *c)
{
  const cn_desc *y = cn_desc_of(c->out[0]);
  cni_cuda_device *d = cni_cuda_of(c);
  if (!d) return CN_ERR_DEVICE;
  bool given_ints = c->args[0].tag != CN_V_FLOAT && c->args[2].tag != CN_V_FLOAT;
  range r = {.ints = given_ints || !cni_cuda_is_float(y->dtype), .half = INT64_MAX};
  r.start = as_float(&c->args[0]);
  r.step = as_float(&c->args[2]);
  r.istart = as_int(&c->args[0]);
  r.istep = as_int(&c->args[2]);
  return run_range(c, d, &r);
}

/* A number as the type holds it. */
static double as_stored(double x, int dtype)
{
  if (dtype == CN_F64) return x;
  if (dtype == CN_F32) return (double)(float)x;
  float f = (float)x;
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  if (dtype == CN_BF16) {
    u = (u + 0x7fff + (u >> 16 & 1)) & 0xffff0000u;
    memcpy(&f, &u, sizeof f);
    return (double)f;
  }
  /* float16: eleven bits, fewer below 2^-14 */
  int exponent = (int)(u >> 23 & 0xff) - 127, low = exponent < -14 ? -14 : exponent;
  double step = 1;
  for (int i = low - 10; i < 0; i++) step /= 2;
  for (int i = 0; i < low - 10; i++) step *= 2;
  double scaled = (double)f / step;
  if (scaled > 0x1p30 || scaled < -0x1p30 || scaled != scaled) return (double)f;
  int64_t whole = (int64_t)scaled;
  double rest = scaled - (double)whole, size = rest < 0 ? -rest : rest;
  if (size > 0.5 || (size == 0.5 && whole % 2)) whole += rest < 0 ? -1 : 1;
  double rounded = (double)whole * step;
  return rounded > 65504 ? 1e300 * 1e300 : rounded < -65504 ? -1e300 * 1e300 : rounded;
}

/* linspace(start, end, steps): the first half counts from start, the second from end. */
static int linspace_kernel(cn_call *c)
{
  const cn_desc *y = cn_desc_of(c->out[0]);
  cni_cuda_device *d = cni_cuda_of(c);
  if (!d) return CN_ERR_DEVICE;
  range r = {.start = as_float(&c->args[0]), .end = as_float(&c->args[1]), .last = y->numel - 1};
  if (!cni_cuda_is_float(y->dtype)) {
    r.start = (double)as_int(&c->args[0]);
    r.end = (double)as_int(&c->args[1]);
  } else {
    r.start = as_stored(r.start, y->dtype);
    r.end = as_stored(r.end, y->dtype);
  }
  if (y->numel > 1) r.step = (r.end - r.start) / (double)r.last;
  r.half = y->numel == 1 ? 1 : y->numel / 2;
  return run_range(c, d, &r);
}

/* ---- matrices ---- */

typedef struct matrix {
  void *y;
  const void *x;
  int64_t n, rows, cols, diagonal;
  int32_t lower, unused;
} matrix;

static int eye_kernel(cn_call *c)
{
  const cn_desc *y = cn_desc_of(c->out[0]);
  const char *name = cni_cuda_host->op_name(c->op);
  cni_cuda_device *d = cni_cuda_of(c);
  cni_cuda_operand o;
  if (!d) return CN_ERR_DEVICE;
  if (!cni_cuda_known(y->dtype)) return cni_cuda_refuse(c, "a type for storage only");
  if (y->numel == 0) return CN_OK;
  int status = cni_cuda_room(&o, d, name, y, 0);
  matrix m = {.y = o.data, .n = y->numel, .rows = y->shape[0], .cols = y->shape[1]};
  cni_cuda_code code = {.file = "create.cu", .entry = "eye", .types = {y->dtype}};
  if (!status) status = cni_cuda_run(d, name, &code, cni_cuda_grid_for(d, m.n), &m);
  return cni_cuda_give(&o, d, name, status);
}

/* tril(input, diagonal), triu(input, diagonal) */
static int triangle(cn_call *c, bool lower)
{
  const cn_desc *x = cn_desc_of(c->in[0]), *y = cn_desc_of(c->out[0]);
  const char *name = cni_cuda_host->op_name(c->op);
  cni_cuda_device *d = cni_cuda_of(c);
  cni_cuda_operand ox = {0}, oy = {0};
  if (!d) return CN_ERR_DEVICE;
  if (y->numel == 0) return CN_OK;
  int status = cni_cuda_take(&ox, d, name, x, 0);
  if (!status) status = cni_cuda_room(&oy, d, name, y, 0);
  matrix m = {.y = oy.data, .x = ox.data, .n = y->numel, .rows = y->shape[y->ndim - 2], .cols = y->shape[y->ndim - 1]};
  m.diagonal = c->args[1].u.i;
  m.lower = lower;
  cni_cuda_code code = {.file = "create.cu", .entry = "triangle", .types = {cni_cuda_bits_of(y->dtype)}};
  if (!status) status = cni_cuda_run(d, name, &code, cni_cuda_grid_for(d, m.n), &m);
  cni_cuda_drop(&ox, d);
  return cni_cuda_give(&oy, d, name, status);
}
static int tril_kernel(cn_call *c) { return triangle(c, true); }
static int triu_kernel(cn_call *c) { return triangle(c, false); }

/* cat(tensors, dim): a copy of each into its part of the result. */
static int cat_kernel(cn_call *c)
{
  const cn_desc *y = cn_desc_of(c->out[0]);
  cni_cuda_device *d = cni_cuda_of(c);
  if (!d) return CN_ERR_DEVICE;
  int dim = cni_cuda_dim(c->args[1].u.i, y->ndim), status = CN_OK;
  int64_t at = 0;
  for (int i = 0; i < c->nin && !status; i++) {
    const cn_desc *x = cn_desc_of(c->in[i]);
    if (x->numel == 0) continue;
    cn_desc part = *y;
    part.data = (char *)y->data + at * y->strides[dim] * (int64_t)cn_element_size(y->dtype);
    memcpy(part.shape, x->shape, (size_t)x->ndim * sizeof *x->shape);
    part.numel = x->numel;
    at += x->shape[dim];
    status = cni_cuda_copy_desc(d, cni_cuda_host->op_name(c->op), &part, x);
  }
  return status;
}

/* ---- nonzero ---- */

typedef struct nonzero {
  const void *x;
  int64_t *y, *counts;
  int64_t n, tiles;
  int32_t ndim, unused;
  int64_t shape[CN_MAX_DIMS];
} nonzero;

/* Counts, waits to know the size of the result, writes. */
static int nonzero_kernel(cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[0]);
  const char *name = cni_cuda_host->op_name(c->op);
  cni_cuda_device *d = cni_cuda_of(c);
  cni_cuda_operand o = {0};
  int64_t shape[2] = {0, x->ndim};
  if (!d) return CN_ERR_DEVICE;
  if (!cni_cuda_known(x->dtype)) return cni_cuda_refuse(c, "a type for storage only");
  if (x->numel == 0) return cni_cuda_host->out_alloc(c, 0, 2, shape);
  nonzero j = {.n = x->numel, .tiles = (x->numel + TILE - 1) / TILE, .ndim = x->ndim};
  memcpy(j.shape, x->shape, (size_t)x->ndim * sizeof *x->shape);
  size_t bytes = (size_t)(j.tiles + 1) * sizeof(int64_t);
  int status = cni_cuda_take(&o, d, name, x, 0);
  j.x = o.data;
  j.counts = status ? NULL : cni_cuda_scratch(d, name, bytes);
  if (!status && !j.counts) status = CN_ERR_MEMORY;
  cni_cuda_code code = {.file = "create.cu", .entry = "nonzero_count", .types = {x->dtype}};
  cni_cuda_grid tiles = {j.tiles, 1, CNI_CUDA_THREADS, 0}, one = {1, 1, CNI_CUDA_THREADS, 0};
  if (!status) status = cni_cuda_run(d, name, &code, tiles, &j);
  code.entry = "nonzero_places";
  if (!status) status = cni_cuda_run(d, name, &code, one, &j);
  if (!status) status = cni_cuda_copy_out(d->index, &shape[0], j.counts + j.tiles, sizeof shape[0], c->stream);
  if (!status) status = cni_cuda_host->out_alloc(c, 0, 2, shape);
  code.entry = "nonzero_write";
  if (!status && shape[0] && x->ndim) {
    j.y = cn_desc_of(c->out[0])->data;
    status = cni_cuda_run(d, name, &code, tiles, &j);
  }
  if (j.counts) cni_cuda_free(d, j.counts, bytes);
  cni_cuda_drop(&o, d);
  return status;
}

const cn_kernel cni_cuda_create_kernels[] = {
    {"arange", "create.cu", arange_kernel},
    {"linspace", "create.cu", linspace_kernel},
    {"eye", "create.cu", eye_kernel},
    {"tril", "create.cu", tril_kernel},
    {"triu", "create.cu", triu_kernel},
    {"cat", "copies", cat_kernel},
    {"nonzero", "create.cu", nonzero_kernel},
    {NULL, NULL, NULL},
};
