/* batch_norm.c: native_batch_norm and its gradient, alone and with the addition and relu that compiled functions put
 * behind it, and native_group_norm: sums per channel, coefficients per channel, one pass that applies them.
 *
 * Place in the flow: launches of kernels/batch_norm.cu. Invariant: x is seen as (outer, channels, inner): channels-last
 * memory with inner 1, row-major memory with inner the pixels; anything else is copied to row-major first. */
#include <string.h>

#include "plugin.h"

enum { SUMS_PER_UNIT = 3, PASSES_PER_UNIT = 4 }; /* blocks that run at a time (BLOCKS_AT_ONCE in the kernels) */
enum { LEAST_WORK = 16384, WARP = 32, JOIN_THREADS = 1024 };

/* As in kernels/batch_norm.cu. */
typedef enum mode { FORWARD, BACKWARD, GATED, RUNNING, JOINED, GROUPS, GROUPS_BACK } mode;
typedef struct job {
  const void *x, *g, *r;
  void *y;
  const void *other, *result;
  void *total;
  const void *mean, *rstd, *w, *b, *running_mean, *running_var;
  void *save_mean, *save_rstd, *var, *gw, *gb, *partial, *scale, *shift, *slope;
  int64_t outer, channels, inner, pieces, piece, chunk;
  double eps;
  int32_t relu, aligned, width, training;
  int64_t share, weights;
} job;

/* Rows that a thread of the sums has at once. */
static const int rows_at_once[] = {[FORWARD] = 8, [BACKWARD] = 4, [GATED] = 4, [RUNNING] = 8, [JOINED] = 3,
                                   [GROUPS_BACK] = 4};

enum { MOST_VECTORS = 4 }; /* per channel, of the program's own types */

typedef struct call {
  cni_cuda_device *d;
  const char *name;
  mode mode;
  int type, wide;
  int vector_type; /* of weight, bias, running statistics */
  cni_cuda_operand x, other, y, mean, rstd, vectors[MOST_VECTORS], gw, gb;
  cni_cuda_operand part, result, total; /* of JOINED */
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

static bool lies_like(const cn_desc *a, const cn_desc *b)
{
  for (int i = 0; i < a->ndim; i++)
    if (a->shape[i] != 1 && a->strides[i] != b->strides[i]) return false;
  return a->dtype == b->dtype;
}

/* As it lies in memory, channels innermost. */
static void use_as_is(cni_cuda_operand *o, const cn_desc *d)
{
  memset(o, 0, sizeof *o);
  o->desc = d;
  o->dense = *d;
  o->data = d->data;
}

/* Elements that are read at once: neighbours of one channel, or neighbouring channels. */
static int64_t pack_of(const call *k) { return (k->j.inner == 1 ? 8 : 16) / (int64_t)cn_element_size(k->type); }

/* addresses: of all tensors, or'ed. */
static void choose_packs(call *k, uintptr_t addresses)
{
  job *j = &k->j;
  int64_t vector = pack_of(k), run = j->inner == 1 ? j->channels : j->inner;
  bool packs = addresses % ((size_t)vector * cn_element_size(k->type)) == 0;
  j->aligned = !packs ? 0 : run % vector == 0 ? 1 : j->inner >= vector ? 2 : 0;
  j->width = 0;
  if (j->aligned && j->inner == 1)
    for (j->width = 1; j->width < WARP && j->width * vector < j->channels;) j->width *= 2;
}

/* The tensors of x's shape: what is read, x first, and what is written; NULL where absent. */
typedef struct tensors {
  const cn_desc *x, *other, *part, *result; /* other: the gradient, or what is added */
  const cn_desc *y, *total;
} tensors;

static int open_tensors(call *k, const tensors *t)
{
  const cn_desc *read[] = {t->x, t->other, t->part, t->result}, *written[] = {t->y, t->total};
  cni_cuda_operand *sources[] = {&k->x, &k->other, &k->part, &k->result}, *results[] = {&k->y, &k->total};
  job *j = &k->j;
  const cn_desc *x = t->x;
  bool last = channels_innermost(x);
  int status = CN_OK;
  for (int i = 0; i < 4 && last; i++) last = !read[i] || lies_like(x, read[i]);
  for (int i = 0; i < 2 && last; i++) last = !written[i] || lies_like(x, written[i]);
  j->channels = x->shape[1];
  j->inner = 1;
  for (int i = 2; i < x->ndim && !last; i++) j->inner *= x->shape[i];
  j->outer = x->numel / (j->channels * j->inner);
  uintptr_t addresses = 0;
  for (int i = 0; i < 4 && !status; i++) {
    if (read[i] && last) use_as_is(sources[i], read[i]);
    else if (read[i]) status = cni_cuda_take(sources[i], k->d, k->name, read[i], x->dtype);
    addresses |= (uintptr_t)sources[i]->data;
  }
  for (int i = 0; i < 2 && !status; i++) {
    if (written[i] && last) use_as_is(results[i], written[i]);
    else if (written[i]) status = cni_cuda_room(results[i], k->d, k->name, written[i], 0);
    addresses |= (uintptr_t)results[i]->data;
  }
  j->x = k->x.data, j->y = k->y.data, j->other = k->part.data, j->result = k->result.data, j->total = k->total.data;
  *(k->mode == FORWARD || k->mode == RUNNING ? &j->r : &j->g) = k->other.data;
  choose_packs(k, addresses);
  return status;
}

/* Weight, bias, running statistics (NULL where absent) are read in their own type if they share one. */
static int open_vectors(call *k, cn_tensor *const *t, const void **const *places, int n)
{
  int type = 0, status = CN_OK;
  for (int i = 0; i < n; i++) {
    int own = t[i] ? cn_desc_of(t[i])->dtype : type;
    type = !type || type == own ? own : k->wide;
  }
  k->vector_type = cni_cuda_is_float(type) ? type : k->wide;
  for (int i = 0; i < n && !status; i++) {
    if (!t[i]) continue;
    status = cni_cuda_take(&k->vectors[i], k->d, k->name, cn_desc_of(t[i]), k->vector_type);
    *places[i] = k->vectors[i].data;
  }
  return status;
}

static int open_statistics(call *k, const cn_tensor *mean, const cn_tensor *rstd)
{
  int status = cni_cuda_take(&k->mean, k->d, k->name, cn_desc_of(mean), k->wide);
  if (!status) status = cni_cuda_take(&k->rstd, k->d, k->name, cn_desc_of(rstd), k->wide);
  k->j.mean = k->mean.data, k->j.rstd = k->rstd.data;
  return status;
}

/* ---- launches ---- */

/* How many channels a block of sums has side by side. */
static int64_t block_side(const call *k)
{
  const job *j = &k->j;
  return j->inner > 1 ? 1 : j->width ? j->width * pack_of(k) : WARP;
}

static int64_t up(int64_t a, int64_t b) { return (a + b - 1) / b; }

static int make_room(call *k)
{
  job *j = &k->j;
  int64_t count = j->outer * j->inner, side = block_side(k);
  int64_t wanted = (int64_t)k->d->units * SUMS_PER_UNIT / up(j->channels, side);
  int64_t most = count * side / LEAST_WORK;
  j->pieces = wanted < most ? wanted : most;
  if (j->pieces < 1) j->pieces = 1;
  j->piece = up(count, j->pieces);
  if (j->inner > 1 && j->aligned == 1) j->piece = up(j->piece, pack_of(k)) * pack_of(k);
  j->chunk = j->width ? rows_at_once[k->mode] * (CNI_CUDA_THREADS / j->width) : 0;
  int64_t parts = up(count, j->chunk ? j->chunk : j->piece);
  if (!j->chunk || j->pieces > parts) j->pieces = parts;
  size_t coefficients = 3 * (size_t)j->channels * 8;
  k->bytes = coefficients + (size_t)(2 * j->pieces * j->channels) * sizeof(double);
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
  cni_cuda_code code = {.file = "batch_norm.cu", .entry = entry, .types = {k->type, k->vector_type},
                        .number = (int)k->mode, .threads = grid.threads};
  return cni_cuda_run(k->d, k->name, &code, grid, &k->j);
}

/* Threads for a pass over all elements. Where channels are innermost a thread stays at its channels, whose coefficients
 * it reads once: as many as run at a time, and so many that their packs make whole rows. */
static cni_cuda_grid pass_over(const call *k)
{
  const job *j = &k->j;
  cni_cuda_grid grid = cni_cuda_grid_for(k->d, k->x.desc->numel / (j->aligned ? pack_of(k) : 1));
  int64_t a = j->channels, b = CNI_CUDA_THREADS * pack_of(k), most = (int64_t)k->d->units * PASSES_PER_UNIT;
  if (!j->width) return grid;
  while (b) {
    int64_t rest = a % b;
    a = b, b = rest;
  }
  grid.x = up(grid.x < most ? grid.x : most, j->channels / a) * (j->channels / a);
  return grid;
}

static int launch_plane_sums(call *k)
{
  const job *j = &k->j;
  const char *sums = j->inner > 1 ? "channel_plane_sums" : j->width ? "channel_pack_sums" : "channel_column_sums";
  int status = make_room(k);
  if (status) return status;
  return launch(k, sums, (cni_cuda_grid){up(j->channels, block_side(k)), j->pieces, CNI_CUDA_THREADS, 0});
}

/* Sums, and what is made of them per channel. */
static int launch_sums(call *k)
{
  const job *j = &k->j;
  int status = launch_plane_sums(k);
  if (k->mode == JOINED) k->mode = BACKWARD, k->j.g = j->total; /* the gradient is whole now */
  return status ? status : launch(k, "channel_join", (cni_cuda_grid){up(j->channels, WARP), 1, JOIN_THREADS, 0});
}

static int close_call(call *k, int status)
{
  cni_cuda_operand *inputs[] = {&k->x, &k->other, &k->part, &k->result, &k->mean, &k->rstd};
  cni_cuda_operand *results[] = {&k->y, &k->total, &k->gw, &k->gb};
  for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) cni_cuda_drop(inputs[i], k->d);
  for (int i = 0; i < MOST_VECTORS; i++) cni_cuda_drop(&k->vectors[i], k->d);
  for (size_t i = 0; i < sizeof results / sizeof *results; i++)
    if (results[i]->desc) status = cni_cuda_give(results[i], k->d, k->name, status);
  if (k->room) cni_cuda_free(k->d, k->room, k->bytes);
  return status;
}

static bool begin(call *k, cn_call *c, const cn_desc *x, mode which)
{
  memset(k, 0, sizeof *k);
  k->d = cni_cuda_of(c);
  k->name = cni_cuda_host->op_name(c->op);
  k->mode = which;
  k->type = x->dtype;
  k->wide = cni_cuda_wide(x->dtype);
  return k->d != NULL;
}

/* ---- the calls ---- */

static double number(const cn_value *v) { return v->tag == CN_V_FLOAT ? v->u.f : (double)v->u.i; }

static void found(job *j, cn_tensor *const *out)
{
  j->save_mean = cn_desc_of(out[0])->data;
  j->save_rstd = cn_desc_of(out[1])->data;
  j->var = cn_desc_of(out[2])->data;
}

/* native_batch_norm(input, weight, bias, running_mean, running_var, training, eps) */
static int norm_kernel(cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[0]);
  call k;
  job *j = &k.j;
  if (!begin(&k, c, x, c->args[5].u.i ? FORWARD : RUNNING)) return CN_ERR_DEVICE;
  if (x->numel == 0) return cni_cuda_refuse(c, "nothing to normalise");
  const void **places[] = {&j->w, &j->b, &j->running_mean, &j->running_var};
  int status = open_tensors(&k, &(tensors){.x = x, .y = cn_desc_of(c->out[0])});
  if (!status) status = open_vectors(&k, c->in + 1, places, k.mode == RUNNING ? 4 : 2);
  j->eps = number(&c->args[6]);
  found(j, c->out + 1);
  j->mean = j->save_mean, j->rstd = j->save_rstd;
  if (!status && k.mode == FORWARD) status = launch_sums(&k);
  if (!status) status = launch(&k, "channel_apply", pass_over(&k));
  return close_call(&k, status);
}

/* batch_norm_stats(input, eps) */
static int stats_kernel(cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[0]);
  call k;
  if (!begin(&k, c, x, FORWARD)) return CN_ERR_DEVICE;
  if (x->numel == 0) return cni_cuda_refuse(c, "nothing to normalise");
  int status = open_tensors(&k, &(tensors){.x = x});
  k.vector_type = k.wide;
  k.j.eps = number(&c->args[1]);
  found(&k.j, c->out);
  if (!status) status = launch_sums(&k);
  return close_call(&k, status);
}

/* batch_norm_apply(input, weight, bias, mean, var, residual, eps, inverted, relu) */
static int apply_kernel(cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[0]);
  bool running = !c->args[7].u.i;
  call k;
  job *j = &k.j;
  if (!begin(&k, c, x, running ? RUNNING : FORWARD)) return CN_ERR_DEVICE;
  if (x->numel == 0) return CN_OK;
  const void **places[] = {&j->w, &j->b, &j->running_mean, &j->running_var};
  tensors t = {.x = x, .other = c->in[5] ? cn_desc_of(c->in[5]) : NULL, .y = cn_desc_of(c->out[0])};
  int status = open_tensors(&k, &t);
  if (!status) status = open_vectors(&k, c->in + 1, places, running ? 4 : 2);
  if (!status && !running) status = open_statistics(&k, c->in[3], c->in[4]);
  j->eps = number(&c->args[6]);
  j->relu = c->args[8].u.i != 0;
  if (!status) status = launch(&k, "channel_apply", pass_over(&k));
  return close_call(&k, status);
}

static bool wanted(const cn_value *mask, int i) { return i < mask->n && mask->u.is[i]; }

/* What is behind native_batch_norm_backward's tensors: input, weight, [bias,] save_mean, save_invstd from in[first] on,
 * training and output_mask from args[flags] on. bias: there is one. */
static int backward(cn_call *c, mode which, tensors t, int first, int flags, bool bias)
{
  cn_tensor *const *in = c->in + first;
  const cn_value *training = &c->args[flags], *mask = training + 1;
  call k;
  job *j = &k.j;
  t.x = cn_desc_of(in[0]);
  if (!begin(&k, c, t.x, which)) return CN_ERR_DEVICE;
  if (t.x->numel == 0) return cni_cuda_refuse(c, "nothing to normalise");
  const void **places[] = {&j->w, &j->b};
  if (wanted(mask, 0)) t.y = cn_desc_of(c->out[0]);
  int status = open_tensors(&k, &t);
  if (!status) status = open_vectors(&k, in + 1, places, bias ? 2 : 1);
  if (!status) status = open_statistics(&k, in[bias ? 3 : 2], in[bias ? 4 : 3]);
  if (!status && wanted(mask, 1)) status = cni_cuda_room(&k.gw, k.d, k.name, cn_desc_of(c->out[1]), k.wide);
  if (!status && wanted(mask, 2)) status = cni_cuda_room(&k.gb, k.d, k.name, cn_desc_of(c->out[2]), k.wide);
  j->gw = k.gw.data, j->gb = k.gb.data;
  j->training = training->u.i != 0;
  if (!status) status = launch_sums(&k);
  if (!status && j->y) status = launch(&k, "channel_apply", pass_over(&k));
  return close_call(&k, status);
}

/* native_batch_norm_backward(grad_out, input, weight, save_mean, save_invstd, training, output_mask) */
static int backward_kernel(cn_call *c)
{
  return backward(c, BACKWARD, (tensors){.other = cn_desc_of(c->in[0])}, 1, 5, false);
}
/* batch_norm_relu_backward(grad_out, input, weight, bias, save_mean, save_invstd, training, output_mask) */
static int relu_backward_kernel(cn_call *c)
{
  return backward(c, GATED, (tensors){.other = cn_desc_of(c->in[0])}, 1, 6, true);
}
/* batch_norm_add_relu_backward(grad_out, other, result, input, weight, save_mean, save_invstd, training, mask) */
static int add_relu_backward_kernel(cn_call *c)
{
  tensors t = {.other = cn_desc_of(c->in[0]), .part = cn_desc_of(c->in[1]), .result = cn_desc_of(c->in[2]),
               .total = cn_desc_of(c->out[3])};
  return backward(c, JOINED, t, 3, 7, false);
}

/* ---- group norm ---- */

/* x as `channels` planes of what is behind them: a group's, or a channel's of a sample. */
static void see_planes(call *k, int64_t channels)
{
  job *j = &k->j;
  uintptr_t addresses = (uintptr_t)j->x | (uintptr_t)j->g | (uintptr_t)j->y;
  j->outer = 1;
  j->channels = channels;
  j->inner = k->x.desc->numel / channels;
  choose_packs(k, addresses);
}

static int open_groups(call *k, cn_call *c, const cn_desc *x, mode which, int64_t groups)
{
  if (!begin(k, c, x, which)) return CN_ERR_DEVICE;
  k->j.share = x->shape[1] / groups;
  k->j.weights = x->shape[1];
  return cni_cuda_take(&k->x, k->d, k->name, x, 0);
}

/* native_group_norm(input, weight, bias, num_groups, eps) */
static int group_norm_kernel(cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[0]);
  call k;
  job *j = &k.j;
  if (x->numel == 0) return cni_cuda_refuse(c, "nothing to normalise");
  int64_t groups = x->shape[0] * c->args[3].u.i, planes = x->shape[0] * x->shape[1];
  const void **places[] = {&j->w, &j->b};
  int status = open_groups(&k, c, x, FORWARD, c->args[3].u.i);
  if (status) return status;
  status = cni_cuda_room(&k.y, k.d, k.name, cn_desc_of(c->out[0]), 0);
  if (!status) status = open_vectors(&k, c->in + 1, places, 2);
  j->x = k.x.data, j->y = k.y.data;
  j->eps = number(&c->args[4]);
  j->save_mean = cn_desc_of(c->out[1])->data;
  j->save_rstd = cn_desc_of(c->out[2])->data;
  see_planes(&k, groups);
  if (!status) status = launch_sums(&k);
  j->mean = j->save_mean, j->rstd = j->save_rstd;
  k.mode = GROUPS;
  see_planes(&k, planes);
  if (!status) status = launch(&k, "channel_apply", pass_over(&k));
  return close_call(&k, status);
}

/* native_group_norm_backward(grad_out, input, mean, rstd, weight, num_groups, output_mask) */
static int group_norm_backward_kernel(cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[1]);
  const cn_value *mask = &c->args[6];
  call k;
  job *j = &k.j;
  if (x->numel == 0) return cni_cuda_refuse(c, "nothing to normalise");
  const void **places[] = {&j->w};
  int status = open_groups(&k, c, x, GROUPS_BACK, c->args[5].u.i);
  if (status) return status;
  status = cni_cuda_take(&k.other, k.d, k.name, cn_desc_of(c->in[0]), k.type);
  if (!status && wanted(mask, 0)) status = cni_cuda_room(&k.y, k.d, k.name, cn_desc_of(c->out[0]), 0);
  if (!status) status = open_vectors(&k, c->in + 4, places, 1);
  if (!status) status = open_statistics(&k, c->in[2], c->in[3]);
  if (!status && wanted(mask, 1)) status = cni_cuda_room(&k.gw, k.d, k.name, cn_desc_of(c->out[1]), k.wide);
  if (!status && wanted(mask, 2)) status = cni_cuda_room(&k.gb, k.d, k.name, cn_desc_of(c->out[2]), k.wide);
  j->x = k.x.data, j->g = k.other.data, j->y = k.y.data, j->gw = k.gw.data, j->gb = k.gb.data;
  see_planes(&k, x->shape[0] * x->shape[1]);
  if (!status) status = launch_plane_sums(&k);
  if (!status) status = launch(&k, "group_join", cni_cuda_grid_for(k.d, j->channels / j->share * CNI_CUDA_THREADS));
  if (!status && (j->gw || j->gb)) status = launch(&k, "group_affine", cni_cuda_grid_for(k.d, j->weights));
  if (!status && j->y) status = launch(&k, "channel_apply", pass_over(&k));
  return close_call(&k, status);
}

const cn_kernel cni_cuda_batch_norm_kernels[] = {
    {"native_batch_norm", "batch_norm.cu", norm_kernel},
    {"native_batch_norm_backward", "batch_norm.cu", backward_kernel},
    {"batch_norm_stats", "batch_norm.cu", stats_kernel},
    {"batch_norm_apply", "batch_norm.cu", apply_kernel},
    {"batch_norm_relu_backward", "batch_norm.cu", relu_backward_kernel},
    {"batch_norm_add_relu_backward", "batch_norm.cu", add_relu_backward_kernel},
    {"native_group_norm", "batch_norm.cu", group_norm_kernel},
    {"native_group_norm_backward", "batch_norm.cu", group_norm_backward_kernel},
    {NULL, NULL, NULL},
};
