/* pick.c: multinomial, repeat_interleave_indices and embedding_renorm.
 *
 * Place in the flow: launches of kernels/pick.cu. Invariant: the one wait is that of repeat_interleave_indices, whose
 * result's size depends on its input. */
#include <string.h>

#include "plugin.h"

/* As in kernels/pick.cu. */
typedef struct choosing {
  const void *p;
  void *y, *trees;
  int64_t rows, categories, samples, leaves;
  uint64_t seed, offset;
  const uint64_t *random;
  int32_t replace, unused;
  cni_cuda_slot fault;
} choosing;

/* multinomial(input, num_samples, replacement) */
static int multinomial_kernel(cn_call *c)
{
  const cn_desc *p = cn_desc_of(c->in[0]), *y = cn_desc_of(c->out[0]);
  const char *name = cni_cuda_host->op_name(c->op);
  cni_cuda_device *d = cni_cuda_of(c);
  cni_cuda_operand op = {0}, oy = {0};
  if (!d) return CN_ERR_DEVICE;
  if (!cni_cuda_is_float(p->dtype)) return cni_cuda_refuse(c, "not for this type");
  choosing j = {.rows = p->ndim == 2 ? p->shape[0] : 1, .categories = p->shape[p->ndim - 1], .leaves = 2};
  j.samples = c->args[1].u.i;
  j.replace = c->args[2].u.i != 0;
  j.seed = c->seed;
  j.offset = c->offset;
  j.random = c->random;
  j.fault = cni_cuda_slot_for(d, name);
  while (j.leaves < j.categories) j.leaves *= 2;
  if (j.rows == 0) return CN_OK;
  size_t bytes = (size_t)(j.rows * 2 * j.leaves) * sizeof(double);
  int status = cni_cuda_take(&op, d, name, p, 0);
  if (!status) status = cni_cuda_room(&oy, d, name, y, CN_I64);
  if (!status && !(j.trees = cni_cuda_scratch(d, name, bytes))) status = CN_ERR_MEMORY;
  j.p = op.data;
  j.y = oy.data;
  cni_cuda_code code = {.file = "pick.cu", .entry = "choose", .types = {p->dtype}, .exact = true};
  if (!status) status = cni_cuda_run(d, name, &code, (cni_cuda_grid){j.rows, 1, CNI_CUDA_THREADS, 0}, &j);
  if (j.trees) cni_cuda_free(d, j.trees, bytes);
  cni_cuda_drop(&op, d);
  return oy.desc ? cni_cuda_give(&oy, d, name, status) : status;
}

/* ---- repeat_interleave_indices(repeats, output_size) ---- */

typedef struct repeating {
  const void *counts;
  int64_t *ends;
  void *y;
  int64_t n, total;
} repeating;

/* The last end and whether a count was negative, from the device. */
static int read_total(cn_call *c, cni_cuda_device *d, repeating *j)
{
  int64_t found[2] = {0, 0};
  const char *name = cni_cuda_host->op_name(c->op);
  int status = j->n ? cni_cuda_copy_out(d->index, found, j->ends + j->n - 1, sizeof found, c->stream) : CN_OK;
  if (status) return status;
  if (found[1]) return cni_cuda_host->fail(CN_ERR_VALUE, "%s: repeats must not be negative", name);
  j->total = found[0];
  if (!c->spec[0].data_dependent && found[0] != c->args[1].u.i)
    return cni_cuda_host->fail(CN_ERR_VALUE, "%s: repeats add up to %lld, but output_size is %lld", name,
                               (long long)found[0], (long long)c->args[1].u.i);
  return c->spec[0].data_dependent ? cni_cuda_host->out_alloc(c, 0, 1, &j->total) : CN_OK;
}

static int repeat_interleave_indices_kernel(cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[0]);
  const char *name = cni_cuda_host->op_name(c->op);
  cni_cuda_device *d = cni_cuda_of(c);
  cni_cuda_operand o = {0}, oy = {0};
  if (!d) return CN_ERR_DEVICE;
  repeating j = {.n = x->numel};
  size_t bytes = (size_t)(j.n + 1) * sizeof(int64_t);
  int status = cni_cuda_take(&o, d, name, x, CN_I64);
  if (!status && !(j.ends = cni_cuda_scratch(d, name, bytes))) status = CN_ERR_MEMORY;
  j.counts = o.data;
  cni_cuda_code code = {.file = "pick.cu", .entry = "repeat_ends", .types = {x->dtype}, .exact = true};
  if (!status && j.n) status = cni_cuda_run(d, name, &code, (cni_cuda_grid){1, 1, CNI_CUDA_THREADS, 0}, &j);
  if (!status) status = read_total(c, d, &j);
  if (!status) status = cni_cuda_room(&oy, d, name, cn_desc_of(c->out[0]), 0);
  j.y = oy.data;
  code.entry = "repeat_fill";
  if (!status && j.total) status = cni_cuda_run(d, name, &code, cni_cuda_grid_for(d, j.total), &j);
  if (j.ends) cni_cuda_free(d, j.ends, bytes);
  cni_cuda_drop(&o, d);
  return oy.desc ? cni_cuda_give(&oy, d, name, status) : status;
}

/* ---- embedding_renorm(input, indices, max_norm, norm_type) ---- */

typedef struct renorming {
  void *w;
  const void *index;
  void *seen;
  int64_t n, rows, width;
  double most, norm;
  cni_cuda_slot fault;
} renorming;

static int renorm_kernel(cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[0]), *index = cn_desc_of(c->in[1]), *y = cn_desc_of(c->out[0]);
  const char *name = cni_cuda_host->op_name(c->op);
  cni_cuda_device *d = cni_cuda_of(c);
  cni_cuda_operand oi = {0}, oy = {0};
  if (!d) return CN_ERR_DEVICE;
  if (!cni_cuda_is_float(y->dtype)) return cni_cuda_refuse(c, "not for this type");
  renorming j = {.n = index->numel, .rows = x->shape[0], .width = x->shape[1]};
  j.most = c->args[2].u.f;
  j.norm = c->args[3].u.f;
  j.fault = cni_cuda_slot_for(d, name);
  size_t bytes = (size_t)j.rows * sizeof(int32_t);
  int status = cni_cuda_take(&oi, d, name, index, CN_I64);
  if (!status) status = cni_cuda_room_of(&oy, d, name, y, 0, x);
  if (!status && !(j.seen = cni_cuda_scratch(d, name, bytes))) status = CN_ERR_MEMORY;
  if (!status && bytes) status = cni_cuda_zero(d, j.seen, bytes);
  j.w = oy.data;
  j.index = oi.data;
  cni_cuda_code code = {.file = "pick.cu", .entry = "renorm", .types = {y->dtype}, .exact = true};
  cni_cuda_grid grid = {j.n < 4096 ? j.n : 4096, 1, CNI_CUDA_THREADS, 0};
  if (!status && j.n) status = cni_cuda_run(d, name, &code, grid, &j);
  if (j.seen) cni_cuda_free(d, j.seen, bytes ? bytes : 1);
  cni_cuda_drop(&oi, d);
  return oy.desc ? cni_cuda_give(&oy, d, name, status) : status;
}

const cn_kernel cni_cuda_pick_kernels[] = {
    {"multinomial", "pick.cu", multinomial_kernel},
    {"repeat_interleave_indices", "pick.cu", repeat_interleave_indices_kernel},
    {"embedding_renorm", "pick.cu", renorm_kernel},
    {NULL, NULL, NULL},
};
