/* norm.c: layer norm and RMS norm, forward and backward.
 *
 * Place in the flow: launches of kernels/norm.cu over rows of normalized_shape. Invariant: weight and bias come in one
 * type; rows are row-major, or copied so. */
#include <string.h>

#include "plugin.h"
#include "rows.h"

enum { PIECES_PER_UNIT = 6, LEAST_ROWS = 32, THREADS_PER_UNIT = 1024, SUM_THREADS = 128, WARP = 32 };

/* As in kernels/norm.cu. */
typedef struct job {
  const void *x, *g, *w, *b;
  void *y, *mean, *rstd, *partial, *gw, *gb;
  int64_t rows, n, piece, pieces;
  double eps;
  int32_t aligned, stash;
} job;

typedef struct call {
  cni_cuda_device *d;
  const char *name, *kind;
  int x_type, w_type;
} call;

static cni_cuda_rows plan(const call *c, const job *j, int inputs)
{
  const void *pointers[] = {j->x, j->g, j->w, j->b, j->y};
  cni_cuda_rows r = cni_cuda_rows_plan(c->d, j->rows, j->n, c->x_type, c->x_type, inputs, pointers, 5);
  /* A pack of weights may be wider than 16 bytes, and then must lie so. */
  size_t wide = cn_element_size(c->w_type) / cn_element_size(c->x_type);
  if (wide > 1)
    for (int i = 2; i < 4; i++) r.aligned = r.aligned && (uintptr_t)pointers[i] % (16 * wide) == 0;
  return r;
}

static int launch_rows(const call *c, job *j, const char *entry, cni_cuda_rows r)
{
  cni_cuda_code code = {.file = "norm.cu", .entry = entry, .types = {c->x_type, c->w_type}, .op = c->kind};
  code.number = r.packs;
  code.threads = r.grid.threads;
  j->aligned = r.aligned;
  j->stash = r.grid.shared != 0;
  return cni_cuda_run(c->d, c->name, &code, r.grid, j);
}

static int64_t row_length(const cn_value *shape)
{
  int64_t n = 1;
  for (int i = 0; i < shape->n; i++) n *= shape->u.is[i];
  return n;
}

/* ---- forward: (input, normalized_shape, weight, bias, eps) -> (output, mean, rstd), or without bias and mean ---- */

static int forward(cn_call *c, const char *kind)
{
  bool layer = !strcmp(kind, "layer");
  const cn_desc *x = cn_desc_of(c->in[0]), *w = c->in[1] ? cn_desc_of(c->in[1]) : NULL;
  const cn_desc *b = layer && c->in[2] ? cn_desc_of(c->in[2]) : NULL, *y = cn_desc_of(c->out[0]);
  const cn_value *eps = &c->args[layer ? 4 : 3];
  call k = {cni_cuda_of(c), cni_cuda_host->op_name(c->op), kind, x->dtype, w ? w->dtype : b ? b->dtype : x->dtype};
  cni_cuda_operand ox = {0}, ow = {0}, ob = {0}, oy = {0};
  job j;
  if (!k.d) return CN_ERR_DEVICE;
  if (x->numel == 0) return cni_cuda_refuse(c, "nothing to normalise");
  memset(&j, 0, sizeof j);
  j.n = row_length(&c->args[1]);
  j.rows = x->numel / j.n;
  j.eps = eps->tag == CN_V_FLOAT ? eps->u.f : (double)eps->u.i;
  j.mean = layer ? cn_desc_of(c->out[1])->data : NULL;
  j.rstd = cn_desc_of(c->out[layer ? 2 : 1])->data;
  int status = cni_cuda_take(&ox, k.d, k.name, x, 0);
  if (!status && w) status = cni_cuda_take(&ow, k.d, k.name, w, 0);
  if (!status && b) status = cni_cuda_take(&ob, k.d, k.name, b, k.w_type);
  if (!status) status = cni_cuda_room(&oy, k.d, k.name, y, 0);
  j.x = ox.data, j.w = ow.data, j.b = ob.data, j.y = oy.data;
  if (!status) status = launch_rows(&k, &j, "norm_forward", plan(&k, &j, 1));
  cni_cuda_drop(&ox, k.d);
  cni_cuda_drop(&ow, k.d);
  cni_cuda_drop(&ob, k.d);
  return cni_cuda_give(&oy, k.d, k.name, status);
}
static int layer_norm_kernel(cn_call *c) { return forward(c, "layer"); }
static int rms_norm_kernel(cn_call *c) { return forward(c, "rms"); }

/* ---- backward ---- */

/* Adds up the pieces' sums to the gradients of weight and bias. */
static int join(const call *k, job *j)
{
  cni_cuda_code code = {.file = "norm.cu", .entry = "norm_affine_join", .types = {k->x_type, k->w_type}, .op = k->kind};
  return cni_cuda_run(k->d, k->name, &code, (cni_cuda_grid){(j->n + WARP - 1) / WARP, 2, CNI_CUDA_THREADS, 0}, j);
}

static size_t partial_bytes(const call *k, const job *j)
{
  return (size_t)(j->pieces * 2) * cn_element_bytes(cni_cuda_wide(k->x_type), j->n);
}

/* Gradients of weight and bias alone, in a pass over the rows of their own. */
static int affine(const call *k, job *j)
{
  int64_t width = WARP * (16 / (int64_t)cn_element_size(k->x_type)); /* of a block */
  int64_t columns = (j->n + width - 1) / width, most = j->rows / LEAST_ROWS;
  int64_t wanted = ((int64_t)k->d->units * PIECES_PER_UNIT + columns - 1) / columns;
  j->pieces = wanted < most ? wanted : most > 0 ? most : 1;
  j->piece = (j->rows + j->pieces - 1) / j->pieces;
  j->pieces = (j->rows + j->piece - 1) / j->piece;
  j->aligned = cn_element_bytes(k->x_type, j->n) % 16 == 0 && ((uintptr_t)j->x | (uintptr_t)j->g) % 16 == 0;
  size_t bytes = partial_bytes(k, j);
  j->partial = cni_cuda_scratch(k->d, k->name, bytes);
  if (!j->partial) return CN_ERR_MEMORY;
  cni_cuda_code code = {.file = "norm.cu", .entry = "norm_affine", .types = {k->x_type, k->w_type}, .op = k->kind};
  int status = cni_cuda_run(k->d, k->name, &code, (cni_cuda_grid){columns, j->pieces, CNI_CUDA_THREADS, 0}, j);
  if (!status) status = join(k, j);
  cni_cuda_free(k->d, j->partial, bytes);
  return status;
}

/* All three gradients in one pass: few blocks, each of which keeps sums over its rows. */
static int all_at_once(const call *k, job *j, cni_cuda_rows r)
{
  int64_t most = (int64_t)k->d->units * (THREADS_PER_UNIT / r.grid.threads);
  if (r.packs > 0) { /* a warp's sums take many registers: blocks of 4, 3 of them at a time */
    r.grid.threads = SUM_THREADS;
    r.grid.x = (j->rows + SUM_THREADS / WARP - 1) / (SUM_THREADS / WARP);
    most = (int64_t)k->d->units * 3;
  }
  if (r.grid.x > most) r.grid.x = most;
  j->pieces = r.grid.x;
  if (cn_element_bytes(k->x_type, j->n) % 16) r.aligned = false; /* a thread keeps to its columns */
  size_t bytes = partial_bytes(k, j);
  j->partial = cni_cuda_scratch(k->d, k->name, bytes);
  if (!j->partial) return CN_ERR_MEMORY;
  int status = launch_rows(k, j, "norm_backward_all", r);
  if (!status) status = join(k, j);
  cni_cuda_free(k->d, j->partial, bytes);
  return status;
}

static int launch_backward(const call *k, job *j)
{
  bool sums = j->gw || j->gb;
  int status = CN_OK;
  if (j->y) {
    cni_cuda_rows r = plan(k, j, 2);
    if (sums && r.packs) return all_at_once(k, j, r);
    status = launch_rows(k, j, "norm_backward", r);
  }
  return !status && sums ? affine(k, j) : status;
}

static bool wanted(const cn_value *mask, int i) { return i < mask->n && mask->u.is[i]; }

/* (grad_out, input, normalized_shape, mean, rstd, weight, output_mask) -> (grad_input, grad_weight, grad_bias), or
 * without mean and bias */
static int backward(cn_call *c, const char *kind)
{
  bool layer = !strcmp(kind, "layer");
  const cn_desc *g = cn_desc_of(c->in[0]), *x = cn_desc_of(c->in[1]), *w = NULL;
  const cn_value *mask = &c->args[layer ? 6 : 5];
  int last = layer ? 4 : 3;
  if (c->in[last]) w = cn_desc_of(c->in[last]);
  call k = {cni_cuda_of(c), cni_cuda_host->op_name(c->op), kind, x->dtype, w ? w->dtype : x->dtype};
  cni_cuda_operand ox = {0}, og = {0}, ow = {0}, om = {0}, or = {0}, oy = {0};
  job j;
  if (!k.d) return CN_ERR_DEVICE;
  if (x->numel == 0) return cni_cuda_refuse(c, "nothing to normalise");
  memset(&j, 0, sizeof j);
  j.n = row_length(&c->args[2]);
  j.rows = x->numel / j.n;
  int status = cni_cuda_take(&ox, k.d, k.name, x, 0);
  if (!status) status = cni_cuda_take(&og, k.d, k.name, g, k.x_type);
  if (!status && w) status = cni_cuda_take(&ow, k.d, k.name, w, 0);
  if (!status && layer) status = cni_cuda_take(&om, k.d, k.name, cn_desc_of(c->in[2]), 0);
  if (!status) status = cni_cuda_take(&or, k.d, k.name, cn_desc_of(c->in[layer ? 3 : 2]), 0);
  if (!status && wanted(mask, 0)) status = cni_cuda_room(&oy, k.d, k.name, cn_desc_of(c->out[0]), 0);
  j.x = ox.data, j.g = og.data, j.w = ow.data, j.mean = om.data, j.rstd = or.data, j.y = oy.data;
  if (wanted(mask, 1)) j.gw = cn_desc_of(c->out[1])->data;
  if (layer && wanted(mask, 2)) j.gb = cn_desc_of(c->out[2])->data;
  if (!status) status = launch_backward(&k, &j);
  cni_cuda_drop(&ox, k.d);
  cni_cuda_drop(&og, k.d);
  cni_cuda_drop(&ow, k.d);
  cni_cuda_drop(&om, k.d);
  cni_cuda_drop(&or, k.d);
  return oy.desc ? cni_cuda_give(&oy, k.d, k.name, status) : status;
}
static int layer_norm_backward_kernel(cn_call *c) { return backward(c, "layer"); }
static int rms_norm_backward_kernel(cn_call *c) { return backward(c, "rms"); }

const cn_kernel cni_cuda_norm_kernels[] = {
    {"native_layer_norm", "norm.cu", layer_norm_kernel},
    {"native_layer_norm_backward", "norm.cu", layer_norm_backward_kernel},
    {"native_rms_norm", "norm.cu", rms_norm_kernel},
    {"native_rms_norm_backward", "norm.cu", rms_norm_backward_kernel},
    {NULL, NULL, NULL},
};
