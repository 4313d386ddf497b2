/* batch_norm.c: native_batch_norm and its gradient: sums per channel, coefficients per channel, one pass that applies
 * them.
 *
 * Place in the flow: launches of kernels/batch_norm.cu. Invariant: x is seen as (outer, channels, inner): channels-last
 * memory with inner 1, row-major memory with inner the pixels; anything else is copied to row-major first. */
#include <string.h>

#include "plugin.h"

enum { BLOCKS_PER_UNIT = 8, LEAST_WORK = 2048, WARP = 32 };

/* As in kernels/batch_norm.cu. */
typedef struct job {
  const void *x, *g;
  void *y;
  const void *mean, *rstd;
  void *save_mean, *save_rstd, *var;
  const void *w, *b;
  void *gw, *gb, *partial, *scale, *shift, *slope;
  int64_t outer, channels, inner, pieces, piece;
  double eps;
  int32_t training, aligned;
  int32_t width, unused;
} job;

typedef struct call {
  cni_cuda_device *d;
  const char *name;
  int type, wide;
  cni_cuda_operand x, g, y, mean, rstd, w, b, gw, gb;
  void *room; /* coefficients, then partial sums */
  size_t bytes;
  job j;
} call;

/* Are the elements dense with channels innermost? */
static bool channels_innermost(const cn_desc *d)
{
  int64_t stride = d->shape[1];
  if (d->ndim < 3 || d->strides[1] != 1) return false;
  for (int i = d->ndim - 1; i != 1; i = i == 2 ? 0 : i - 1) {
    if (d->shape[i] != 1 && d->strides[i] != stride) return false;
    stride *= d->shape[i];
    if (i == 0) return true;
  }
  return true;
}

static bool same_strides(const cn_desc *a, const cn_desc *b)
{
  for (int i = 0; i < a->ndim; i++)
    if (a->shape[i] != 1 && a->strides[i] != b->strides[i]) return false;
  return true;
}

/* As it lies in memory, channels innermost. */
static void use_as_is(cni_cuda_operand *o, const cn_desc *d)
{
  memset(o, 0, sizeof *o);
  o->desc = d;
  o->dense = *d;
  o->data = d->data;
}

/* x, g (may be NULL) and the result y (may be NULL). */
static int open_tensors(call *k, const cn_desc *x, const cn_desc *g, const cn_desc *y)
{
  job *j = &k->j;
  bool last = channels_innermost(x) && (!y || (y->dtype == x->dtype && same_strides(x, y))) &&
              (!g || (g->dtype == x->dtype && same_strides(x, g)));
  int status = CN_OK;
  j->channels = x->shape[1];
  j->inner = 1;
  for (int i = 2; i < x->ndim && !last; i++) j->inner *= x->shape[i];
  j->outer = x->numel / (j->channels * j->inner);
  if (last) {
    use_as_is(&k->x, x);
    if (g) use_as_is(&k->g, g);
    if (y) use_as_is(&k->y, y);
  } else {
    status = cni_cuda_take(&k->x, k->d, k->name, x, 0);
    if (!status && g) status = cni_cuda_take(&k->g, k->d, k->name, g, x->dtype);
    if (!status && y) status = cni_cuda_room(&k->y, k->d, k->name, y, 0);
  }
  j->x = k->x.data, j->g = k->g.data, j->y = k->y.data;
  int64_t vector = 16 / (int64_t)cn_element_size(x->dtype), run = j->inner == 1 ? j->channels : j->inner;
  j->aligned = run % vector == 0 && ((uintptr_t)j->x | (uintptr_t)j->g | (uintptr_t)j->y) % 16 == 0;
  if (j->aligned && j->inner == 1)
    for (j->width = 1; j->width < WARP && j->width * vector < j->channels;) j->width *= 2;
  return status;
}

/* Per-channel inputs, in the type that is computed in. */
static int open_vector(call *k, cni_cuda_operand *o, const cn_tensor *t)
{
  return t ? cni_cuda_take(o, k->d, k->name, cn_desc_of(t), k->wide) : CN_OK;
}

/* How many blocks lie side by side over the channels. */
static int64_t block_columns(const call *k)
{
  const job *j = &k->j;
  if (j->inner > 1) return j->channels;
  int64_t side = j->width ? j->width * (16 / (int64_t)cn_element_size(k->type)) : WARP;
  return (j->channels + side - 1) / side;
}

static int make_room(call *k)
{
  job *j = &k->j;
  int64_t count = j->outer * j->inner, columns = block_columns(k);
  int64_t wanted = ((int64_t)k->d->units * BLOCKS_PER_UNIT + columns - 1) / columns;
  int64_t side = j->width ? j->width * (16 / (int64_t)cn_element_size(k->type)) : j->inner == 1 ? WARP : 1;
  int64_t most = count * side / LEAST_WORK;
  j->pieces = wanted < most ? wanted : most > 0 ? most : 1;
  j->piece = (count + j->pieces - 1) / j->pieces;
  j->pieces = (count + j->piece - 1) / j->piece;
  size_t coefficients = 3 * (size_t)j->channels * 8;
  k->bytes = coefficients + (size_t)(3 * j->pieces * j->channels) * sizeof(double);
  k->room = cni_cuda_scratch(k->d, k->name, k->bytes);
  if (!k->room) return CN_ERR_MEMORY;
  j->scale = k->room;
  j->shift = (char *)k->room + j->channels * 8;
  j->slope = (char *)k->room + 2 * j->channels * 8;
  j->partial = (char *)k->room + coefficients;
  return CN_OK;
}

static int launch(call *k, const char *entry, cni_cuda_grid grid)
{
  cni_cuda_code code = {.file = "batch_norm.cu", .entry = entry, .types = {k->type}};
  return cni_cuda_run(k->d, k->name, &code, grid, &k->j);
}

static int launch_all(call *k, bool sums, const char *coefficients)
{
  job *j = &k->j;
  const char *entry = j->width ? "channel_pack_sums" : "channel_sums";
  int status = make_room(k);
  if (!status && sums)
    status = launch(k, entry, (cni_cuda_grid){block_columns(k), j->pieces, CNI_CUDA_THREADS, 0});
  if (!status) status = launch(k, coefficients, cni_cuda_grid_for(k->d, j->channels * WARP));
  cni_cuda_grid all = cni_cuda_grid_for(k->d, k->x.desc->numel / (j->aligned ? 4 : 1));
  if (!status && j->y) status = launch(k, "channel_apply", all);
  if (k->room) cni_cuda_free(k->d, k->room, k->bytes);
  return status;
}

static int close_call(call *k, int status)
{
  cni_cuda_operand *inputs[] = {&k->x, &k->g, &k->mean, &k->rstd, &k->w, &k->b};
  cni_cuda_operand *results[] = {&k->y, &k->gw, &k->gb};
  for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) cni_cuda_drop(inputs[i], k->d);
  for (size_t i = 0; i < sizeof results / sizeof *results; i++)
    if (results[i]->desc) status = cni_cuda_give(results[i], k->d, k->name, status);
  return status;
}

static bool begin(call *k, cn_call *c, const cn_desc *x)
{
  memset(k, 0, sizeof *k);
  k->d = cni_cuda_of(c);
  k->name = cni_cuda_host->op_name(c->op);
  k->type = x->dtype;
  k->wide = cni_cuda_wide(x->dtype);
  return k->d != NULL;
}

/* native_batch_norm(input, weight, bias, running_mean, running_var, training, eps) */
static int batch_norm_kernel(cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[0]);
  call k;
  if (!begin(&k, c, x)) return CN_ERR_DEVICE;
  if (x->numel == 0) return cni_cuda_refuse(c, "nothing to normalise");
  int status = open_tensors(&k, x, NULL, cn_desc_of(c->out[0]));
  k.j.training = c->args[5].u.i != 0;
  k.j.eps = c->args[6].tag == CN_V_FLOAT ? c->args[6].u.f : (double)c->args[6].u.i;
  if (!status) status = open_vector(&k, &k.w, c->in[1]);
  if (!status) status = open_vector(&k, &k.b, c->in[2]);
  if (!status && !k.j.training) status = open_vector(&k, &k.mean, c->in[3]);
  if (!status && !k.j.training) status = open_vector(&k, &k.rstd, c->in[4]);
  k.j.w = k.w.data, k.j.b = k.b.data, k.j.mean = k.mean.data, k.j.rstd = k.rstd.data;
  k.j.save_mean = cn_desc_of(c->out[1])->data;
  k.j.save_rstd = cn_desc_of(c->out[2])->data;
  k.j.var = cn_desc_of(c->out[3])->data;
  if (!status) status = launch_all(&k, k.j.training, "channel_forward");
  return close_call(&k, status);
}

static bool wanted(const cn_value *mask, int i) { return i < mask->n && mask->u.is[i]; }

/* (grad_out, input, weight, save_mean, save_invstd, training, output_mask) */
static int batch_norm_backward_kernel(cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[1]);
  const cn_value *mask = &c->args[6];
  call k;
  if (!begin(&k, c, x)) return CN_ERR_DEVICE;
  if (x->numel == 0) return cni_cuda_refuse(c, "nothing to normalise");
  int status = open_tensors(&k, x, cn_desc_of(c->in[0]), wanted(mask, 0) ? cn_desc_of(c->out[0]) : NULL);
  k.j.training = c->args[5].u.i != 0;
  if (!status) status = open_vector(&k, &k.w, c->in[2]);
  if (!status) status = open_vector(&k, &k.mean, c->in[3]);
  if (!status) status = open_vector(&k, &k.rstd, c->in[4]);
  if (!status && wanted(mask, 1)) status = cni_cuda_room(&k.gw, k.d, k.name, cn_desc_of(c->out[1]), k.wide);
  if (!status && wanted(mask, 2)) status = cni_cuda_room(&k.gb, k.d, k.name, cn_desc_of(c->out[2]), k.wide);
  k.j.w = k.w.data, k.j.mean = k.mean.data, k.j.rstd = k.rstd.data, k.j.gw = k.gw.data, k.j.gb = k.gb.data;
  if (!status) status = launch_all(&k, true, "channel_backward");
  return close_call(&k, status);
}

const cn_kernel cni_cuda_batch_norm_kernels[] = {
    {"native_batch_norm", "batch_norm.cu", batch_norm_kernel},
    {"native_batch_norm_backward", "batch_norm.cu", batch_norm_backward_kernel},
    {NULL, NULL, NULL},
};
