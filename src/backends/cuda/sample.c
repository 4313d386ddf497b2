/* sample.c: resampling along a dim, weighted sums by index, binary search.
 *
 * Place in the flow: launches of kernels/sample.cu and kernels/search.cu. Invariant: operands are row-major here. */
#include <math.h>
#include <string.h>

#include "plugin.h"

/* As in kernels/sample.cu. */
typedef struct resampling {
  const void *x;
  void *y;
  int64_t outer, in, out, inner, most;
  int32_t mode, corners, antialias, unused;
  double scale;
} resampling;
typedef struct resampling_of_bytes {
  resampling r;
  const void *x;
  void *y;
  double *weight;
  int64_t *first;
  int32_t *whole;
} resampling_of_bytes;

enum { NEAREST_EXACT = 1, LINEAR = 2 };

static int mode_of(const char *name)
{
  static const char *const names[] = {"nearest", "nearest-exact", "linear", "cubic"};
  int i = 0;
  while (i < 3 && strcmp(name, names[i]) != 0) i++;
  return i;
}

/* How many elements of the input an element of the result may have: as the CPU counts. */
static int64_t most_of(const resampling *j)
{
  if (j->mode <= NEAREST_EXACT) return 1;
  int64_t width = j->mode == LINEAR ? 2 : 4;
  if (!j->antialias) return width;
  double ratio = j->corners      ? (j->out > 1 ? (double)(j->in - 1) / (double)(j->out - 1) : 0)
                 : j->scale > 0 ? 1 / j->scale
                                : (double)j->in / (double)j->out;
  double most = ceil((double)width / 2 * (ratio > 1 ? ratio : 1)) * 2 + 2;
  return most < (double)j->in ? (int64_t)most : j->in;
}

/* Bytes: a table of weights as whole numbers, then sums by it. */
static int resample_bytes(cni_cuda_device *d, const char *name, const resampling *r, int64_t n)
{
  resampling_of_bytes j = {.r = *r, .x = r->x, .y = r->y};
  size_t table = (size_t)(r->out * r->most), lines = (size_t)r->out * 2;
  size_t bytes = table * sizeof *j.weight + lines * sizeof *j.first + (table + 1) * sizeof *j.whole;
  j.weight = cni_cuda_scratch(d, name, bytes);
  if (!j.weight) return CN_ERR_MEMORY;
  j.first = (int64_t *)(void *)(j.weight + table);
  j.whole = (int32_t *)(void *)(j.first + lines);
  j.r.x = NULL, j.r.y = NULL;
  cni_cuda_code code = {.file = "sample.cu", .entry = "byte_weights", .types = {CN_F64}, .exact = true};
  int status = cni_cuda_run(d, name, &code, (cni_cuda_grid){.x = 1, .y = 1, .threads = CNI_CUDA_THREADS}, &j);
  code.entry = "resample_bytes";
  if (!status) status = cni_cuda_run(d, name, &code, cni_cuda_grid_for(d, n), &j);
  cni_cuda_free(d, j.weight, bytes);
  return status;
}

/* resample(input, dim, size, mode, align_corners, scale, antialias), and its transpose */
static int resample(cn_call *c, bool back)
{
  const cn_desc *x = cn_desc_of(c->in[0]), *y = cn_desc_of(c->out[0]);
  const char *name = cni_cuda_host->op_name(c->op);
  cni_cuda_device *d = cni_cuda_of(c);
  cni_cuda_operand ox = {0}, oy = {0};
  if (!d) return CN_ERR_DEVICE;
  if (y->numel == 0) return CN_OK;
  int repeats = back ? cni_cuda_host->not_deterministic(name) : CN_OK;
  if (repeats) return repeats;
  int dim = cni_cuda_dim(c->args[1].u.i, x->ndim);
  cni_cuda_lines l = cni_cuda_lines_of(x, dim);
  resampling j = {.outer = l.outer, .inner = l.inner};
  j.in = (back ? y : x)->shape[dim];
  j.out = (back ? x : y)->shape[dim];
  j.mode = mode_of(c->args[3].u.s);
  j.corners = c->args[4].u.i != 0;
  j.scale = c->args[5].tag == CN_V_FLOAT ? c->args[5].u.f : (double)c->args[5].u.i;
  j.antialias = c->args[6].u.i != 0;
  j.most = most_of(&j);
  int status = cni_cuda_take(&ox, d, name, x, 0);
  if (!status) status = cni_cuda_room(&oy, d, name, y, 0);
  if (!status && back) status = cni_cuda_zero(d, oy.data, cn_element_bytes(y->dtype, y->numel));
  j.x = ox.data;
  j.y = oy.data;
  cni_cuda_code code = {.file = "sample.cu", .entry = "resample", .types = {x->dtype}, .exact = true};
  if (back) code.entry = "resample_grad";
  int64_t n = j.outer * j.out * j.inner;
  if (!status && n && x->dtype == CN_U8) status = resample_bytes(d, name, &j, n);
  else if (!status && n) status = cni_cuda_run(d, name, &code, cni_cuda_grid_for(d, n), &j);
  cni_cuda_drop(&ox, d);
  return cni_cuda_give(&oy, d, name, status);
}
static int resample_kernel(cn_call *c) { return resample(c, false); }
static int resample_backward_kernel(cn_call *c) { return resample(c, true); }

/* ---- weighted sums: x (n, c, s), index and weight (n, k, p), y (n, c, p) ---- */

typedef struct weighted {
  void *x, *weight, *y;
  const void *index;
  int64_t n, c, s, k, p;
  cni_cuda_slot fault;
} weighted;

/* tensors: x, weight, y; the one at `written` is the call's result. */
static int run_weighted(cn_call *c, const char *entry, const cn_desc *index, const cn_desc *const *tensors, int written)
{
  const cn_desc *x = tensors[0], *y = tensors[2], *out = tensors[written];
  const char *name = cni_cuda_host->op_name(c->op);
  cni_cuda_device *d = cni_cuda_of(c);
  cni_cuda_operand o[3] = {{0}}, at = {0};
  if (!d) return CN_ERR_DEVICE;
  if (out->dtype != CN_F32 && out->dtype != CN_F64) return cni_cuda_refuse(c, "not for this type");
  if (out->numel == 0) return CN_OK;
  int repeats = written == 0 ? cni_cuda_host->not_deterministic(name) : CN_OK;
  if (repeats) return repeats;
  weighted j = {.n = x->shape[0], .c = x->shape[1], .s = x->shape[2], .k = index->shape[1], .p = index->shape[2]};
  int status = cni_cuda_take(&at, d, name, index, CN_I64);
  for (int i = 0; i < 3 && !status; i++)
    status = i == written ? cni_cuda_room(&o[i], d, name, out, 0)
                          : cni_cuda_take(&o[i], d, name, tensors[i], out->dtype);
  if (!status && written == 0) status = cni_cuda_zero(d, o[0].data, cn_element_bytes(out->dtype, out->numel));
  j.index = at.data, j.x = o[0].data, j.weight = o[1].data, j.y = o[2].data;
  j.fault = cni_cuda_slot_for(d, name);
  cni_cuda_code code = {.file = "sample.cu", .entry = entry, .types = {out->dtype}};
  int64_t n = written == 1 ? out->numel : y->numel;
  if (!status && n) status = cni_cuda_run(d, name, &code, cni_cuda_grid_for(d, n), &j);
  cni_cuda_drop(&at, d);
  for (int i = 0; i < 3; i++)
    if (i != written) cni_cuda_drop(&o[i], d);
  return o[written].desc ? cni_cuda_give(&o[written], d, name, status) : status;
}

/* weighted_gather(input, index, weight) */
static int gather_kernel(cn_call *c)
{
  const cn_desc *tensors[] = {cn_desc_of(c->in[0]), cn_desc_of(c->in[2]), cn_desc_of(c->out[0])};
  return run_weighted(c, "weighted_gather", cn_desc_of(c->in[1]), tensors, 2);
}
/* weighted_scatter(grad, index, weight, size) */
static int scatter_kernel(cn_call *c)
{
  const cn_desc *tensors[] = {cn_desc_of(c->out[0]), cn_desc_of(c->in[2]), cn_desc_of(c->in[0])};
  return run_weighted(c, "weighted_scatter", cn_desc_of(c->in[1]), tensors, 0);
}
/* weighted_dot(grad, input, index) */
static int dot_kernel(cn_call *c)
{
  const cn_desc *tensors[] = {cn_desc_of(c->in[1]), cn_desc_of(c->out[0]), cn_desc_of(c->in[0])};
  return run_weighted(c, "weighted_dot", cn_desc_of(c->in[2]), tensors, 1);
}

/* ---- searchsorted(sorted_sequence, input, out_int32, right, side, sorter) ---- */

typedef struct search {
  const void *sequence, *x, *sorter;
  void *y;
  int64_t count, n, each;
  int32_t right, unused;
  cni_cuda_slot fault;
} search;

/* The type that both are compared in: a weak number takes the sequence's kind. */
static int compared_in(const cn_desc *a, const cn_desc *b)
{
  int x = cni_cuda_wide(a->dtype), y = cni_cuda_wide(b->dtype);
  if (b->weak && (cni_cuda_is_float(a->dtype) || !cni_cuda_is_float(b->dtype))) return x;
  if (b->weak) return CN_F32;
  if (x == CN_F64 || y == CN_F64) return CN_F64;
  if (x == CN_F32 || y == CN_F32) return CN_F32;
  return x == CN_U64 && y == CN_U64 ? CN_U64 : CN_I64;
}

static int searchsorted_kernel(cn_call *c)
{
  const cn_desc *sequence = cn_desc_of(c->in[0]), *x = cn_desc_of(c->in[1]), *y = cn_desc_of(c->out[0]);
  const char *name = cni_cuda_host->op_name(c->op), *side = c->args[4].tag == CN_V_STR ? c->args[4].u.s : "";
  cni_cuda_device *d = cni_cuda_of(c);
  cni_cuda_operand os = {0}, ox = {0}, oo = {0}, oy = {0};
  if (!d) return CN_ERR_DEVICE;
  if (x->numel == 0) return CN_OK;
  int type = compared_in(sequence, x);
  search j = {.count = x->numel, .n = sequence->ndim ? sequence->shape[sequence->ndim - 1] : 1};
  j.each = sequence->ndim <= 1 ? x->numel : x->shape[x->ndim - 1];
  j.right = c->args[3].u.i != 0 || !strcmp(side, "right");
  j.fault = cni_cuda_slot_for(d, name);
  int status = cni_cuda_take(&os, d, name, sequence, type);
  if (!status) status = cni_cuda_take(&ox, d, name, x, type);
  if (!status && c->in[2]) status = cni_cuda_take(&oo, d, name, cn_desc_of(c->in[2]), CN_I64);
  if (!status) status = cni_cuda_room(&oy, d, name, y, 0);
  j.sequence = os.data, j.x = ox.data, j.sorter = oo.data, j.y = oy.data;
  cni_cuda_code code = {.file = "search.cu", .entry = "search_sorted", .types = {type, y->dtype}};
  if (!status) status = cni_cuda_run(d, name, &code, cni_cuda_grid_for(d, j.count), &j);
  cni_cuda_drop(&os, d);
  cni_cuda_drop(&ox, d);
  cni_cuda_drop(&oo, d);
  return cni_cuda_give(&oy, d, name, status);
}

const cn_kernel cni_cuda_grid_kernels[] = {
    {"resample", "sample.cu", resample_kernel},
    {"resample_backward", "sample.cu", resample_backward_kernel},
    {"weighted_gather", "sample.cu", gather_kernel},
    {"weighted_scatter", "sample.cu", scatter_kernel},
    {"weighted_dot", "sample.cu", dot_kernel},
    {"searchsorted", "search.cu", searchsorted_kernel},
    {NULL, NULL, NULL},
};
