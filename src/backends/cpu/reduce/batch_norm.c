/* batch_norm.c: batch norm on the CPU, forward and backward.
 *
 * Place in the flow: kernels of ops/norm.c; statistics from moments.c, loops in moments_isa.c. The input is
 * taken as planes (N, C, L) or, where channels lie next to each other, as pixels (N * L, C); anything else is
 * copied into planes first. Invariant: sums over the batch are taken per channel, or in pieces that depend on
 * the shape alone, so results never depend on the number of threads. */
#include <math.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/walk/cast.h"
#include "base/convert.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "moments.h"
#include "ops/infer.h"

enum { GRAIN = 16384, PIECES = 32, ROWS = 256 };

typedef struct job {
  const cni_moment_loops *loops;
  bool single, pixels;
  int64_t n, channels, length, size; /* N, C, L, bytes of an element of the compute type */
  int64_t strides[CN_MAX_DIMS];      /* of the layout */
  const char *x, *g;
  char *y;
  /* Per channel, (C) each: double for planes; coefficients for pixels also in the compute type. */
  double *mean, *invstd, *k, *a, *b;
  char *k_t, *a_t, *mean_t, *b_t;
  double *sums; /* (pieces, 2, C) */
  int64_t piece;
} job;

static void describe(job *j, const cn_desc *x)
{
  enum cni_compute class = cni_compute_class(x->dtype);
  memset(j, 0, sizeof *j);
  j->loops = cni_moment_loops_of(class);
  j->single = class == CNI_C_F32;
  j->size = j->single ? 4 : 8;
  j->n = x->shape[0];
  j->channels = x->shape[1];
  j->length = 1;
  for (int i = 2; i < x->ndim; i++) j->length *= x->shape[i];
  bool last = cni_is_channels_last(x->ndim, x->shape, x->strides) && j->length > 1;
  j->pixels = last || j->length == 1;
  if (last) cni_channels_last_strides(x->ndim, x->shape, j->strides);
  else cni_contiguous_strides(x->ndim, x->shape, j->strides);
}

/* Room for the per-channel numbers: five of double, four of the compute type. */
static size_t channel_bytes(const job *j) { return (size_t)j->channels * (5 * 8 + 4 * 8); }

static void place_channels(job *j, void *room)
{
  j->mean = room;
  j->invstd = j->mean + j->channels;
  j->k = j->invstd + j->channels;
  j->a = j->k + j->channels;
  j->b = j->a + j->channels;
  j->k_t = (char *)(j->b + j->channels);
  j->a_t = j->k_t + j->channels * 8;
  j->mean_t = j->a_t + j->channels * 8;
  j->b_t = j->mean_t + j->channels * 8;
}

static void to_compute(const job *j, char *to, const double *from)
{
  if (!j->single) memcpy(to, from, (size_t)j->channels * sizeof *from);
  else
    for (int64_t c = 0; c < j->channels; c++) ((float *)(void *)to)[c] = (float)from[c];
}

double cni_load_channel(const cn_tensor *t, int64_t c, double otherwise)
{
  if (!t) return otherwise;
  const cn_desc *d = cn_desc_of(t);
  return cni_load_f64(d->data, c * d->strides[0], d->dtype);
}

/* ---- forward: y = x * k + b ---- */

static void scale_planes(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  for (int64_t u = begin; u < end; u++) {
    int64_t at = u * j->length * j->size, c = u % j->channels;
    j->loops->scale_row(j->y + at, j->x + at, j->length, j->k[c], j->b[c]);
  }
}

static void scale_pixels(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  for (int64_t i = begin; i < end; i++) {
    int64_t at = i * j->channels * j->size;
    j->loops->scale_columns(j->y + at, j->x + at, j->k_t, j->b_t, j->channels);
  }
}

/* Runs a function per plane or per pixel. */
static void each(job *j, cni_range_fn planes, cni_range_fn pixels)
{
  int64_t units = j->pixels ? j->n * j->length : j->n * j->channels,
          work = j->pixels ? j->channels : j->length;
  cni_parallel_for(units, work && work < GRAIN ? GRAIN / work : 1, j->pixels ? pixels : planes, j);
}

typedef struct stats {
  job *j;
  double eps;
  void *var; /* the unbiased variance, in dtype */
  int dtype;
} stats;

static void take_stats(void *payload, int64_t at, int64_t stride, const cni_moment *m, int64_t n)
{
  const stats *s = payload;
  for (int64_t i = 0; i < n; i++) {
    int64_t c = at + i * stride;
    s->j->mean[c] = m[i].mean;
    s->j->invstd[c] = 1 / sqrt(m[i].m2 / m[i].count + s->eps);
    cni_store_f64(s->var, c, s->dtype, m[i].m2 / (m[i].count - 1));
  }
}

/* Where the normalisation's mean and deviation come from: the batch, or the running statistics. */
static int find_stats(cn_call *c, job *j)
{
  const cn_desc *x = cn_desc_of(c->in[0]), *var = cn_desc_of(c->out[3]);
  stats s = {j, cni_arg_float(c->args, 6), var->data, var->dtype};
  if (cni_arg_bool(c->args, 5)) return cni_moments(x, ((1u << x->ndim) - 1) & ~2u, take_stats, &s);
  for (int64_t k = 0; k < j->channels; k++) {
    double v = cni_load_channel(c->in[4], k, 1);
    j->mean[k] = cni_load_channel(c->in[3], k, 0);
    j->invstd[k] = 1 / sqrt(v + s.eps);
    cni_store_f64(s.var, k, s.dtype, v);
  }
  return CN_OK;
}

/* The statistics of a batch have the parameters' type: PyTorch keeps those of a float16 or bfloat16 layer in it. */
static void store_stats(const cn_call *c, job *j)
{
  int dtype = cn_desc_of(c->in[0])->dtype;
  char stored[8];
  for (int i = 1; i < 5; i++)
    if (c->in[i] && cn_desc_of(c->in[i])->dtype != dtype) return;
  if (dtype != CN_F16 && dtype != CN_BF16) return;
  for (int64_t k = 0; k < 2 * j->channels; k++) {
    double *at = k < j->channels ? &j->mean[k] : &j->invstd[k - j->channels];
    cni_store_f64(stored, 0, dtype, *at);
    *at = cni_load_f64(stored, 0, dtype);
  }
}

/* (input, weight, bias, running_mean, running_var, training, eps) -> (output, save_mean, save_invstd,
 * batch_var) */
static int batch_norm_kernel(cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[0]), *y = cn_desc_of(c->out[0]);
  int stat = cn_desc_of(c->out[1])->dtype;
  cni_operand ox = {.owned = NULL}, oy = {.owned = NULL};
  job j;
  describe(&j, x);
  void *room = cni_scratch_alloc(channel_bytes(&j));
  if (!room) return CN_ERR_MEMORY;
  place_channels(&j, room);
  int status = find_stats(c, &j);
  if (!status && cni_arg_bool(c->args, 5)) store_stats(c, &j);
  for (int64_t k = 0; k < j.channels && !status; k++) {
    cni_store_f64(cn_desc_of(c->out[1])->data, k, stat, j.mean[k]);
    cni_store_f64(cn_desc_of(c->out[2])->data, k, stat, j.invstd[k]);
    j.k[k] = cni_load_channel(c->in[1], k, 1) * j.invstd[k];
    j.b[k] = cni_load_channel(c->in[2], k, 0) - j.mean[k] * j.k[k];
  }
  if (!status) status = cni_operand_take(&ox, x, stat, j.strides);
  if (!status) status = cni_operand_room(&oy, y, stat, j.strides);
  if (!status) {
    j.x = ox.data, j.y = oy.data;
    to_compute(&j, j.k_t, j.k);
    to_compute(&j, j.b_t, j.b);
    each(&j, scale_planes, scale_pixels);
  }
  cni_operand_drop(&ox);
  cni_operand_put(&oy, y, status);
  cni_scratch_free(room, channel_bytes(&j));
  return status;
}

/* ---- backward ---- */

/* Sums over the batch for channels [begin, end). */
static void sum_planes(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  for (int64_t c = begin; c < end; c++) {
    double sums[2] = {0, 0};
    for (int64_t i = 0; i < j->n; i++) {
      int64_t at = (i * j->channels + c) * j->length * j->size;
      j->loops->dots_row(sums, j->g + at, j->x + at, j->length, j->mean[c]);
    }
    j->sums[c] = sums[0];
    j->sums[j->channels + c] = sums[1];
  }
}

static void add_running(const job *j, double *sums, void *running)
{
  for (int64_t c = 0; c < j->channels; c++)
    sums[c] += j->single ? (double)((float *)running)[c] : ((double *)running)[c];
  memset(running, 0, (size_t)(j->channels * j->size));
}

/* Pieces [begin, end) of the pixels. */
static void sum_pixels(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  size_t bytes = (size_t)(2 * j->channels * j->size);
  char *sg = cni_scratch_alloc_zero(bytes), *sgx = sg + bytes / 2;
  int64_t rows = j->n * j->length;
  if (!sg) return; /* the error is set, and reaches the caller */
  for (int64_t p = begin; p < end; p++) {
    double *sums = j->sums + p * 2 * j->channels;
    int64_t first = p * j->piece, stop = first + j->piece < rows ? first + j->piece : rows;
    for (int64_t i = first; i < stop; i++) {
      int64_t at = i * j->channels * j->size;
      j->loops->dots_columns(sg, sgx, j->g + at, j->x + at, j->mean_t, j->channels);
      if ((i - first) % ROWS < ROWS - 1 && i < stop - 1) continue;
      add_running(j, sums, sg);
      add_running(j, sums + j->channels, sgx);
    }
  }
  cni_scratch_free(sg, bytes);
}

static void grad_planes(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  for (int64_t u = begin; u < end; u++) {
    int64_t at = u * j->length * j->size, c = u % j->channels;
    j->loops->channel_grad_row(j->y + at, j->g + at, j->x + at, j->length, j->k[c], j->a[c], j->mean[c],
                               j->b[c]);
  }
}

static void grad_pixels(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  for (int64_t i = begin; i < end; i++) {
    int64_t at = i * j->channels * j->size;
    j->loops->channel_grad_columns(j->y + at, j->g + at, j->x + at, j->k_t, j->a_t, j->mean_t, j->b_t,
                                   j->channels);
  }
}

/* Fills j->sums: sum of g and of g (x - mean) per channel. Its size goes to *bytes; the caller frees it. */
static int batch_sums(job *j, size_t *bytes)
{
  int64_t rows = j->n * j->length, pieces = 1,
          grain = j->channels < GRAIN ? GRAIN / (j->channels ? j->channels : 1) : 1;
  j->piece = (rows + PIECES - 1) / PIECES;
  if (j->piece < grain) j->piece = grain;
  if (j->pixels && rows) pieces = (rows + j->piece - 1) / j->piece;
  *bytes = (size_t)(pieces * 2 * j->channels) * sizeof *j->sums;
  if (!(j->sums = cni_scratch_alloc_zero(*bytes))) return CN_ERR_MEMORY;
  if (j->pixels) cni_parallel_for(pieces, 1, sum_pixels, j);
  else cni_parallel_for(j->channels, rows && rows < GRAIN ? GRAIN / rows : 1, sum_planes, j);
  for (int64_t p = 1; p < pieces; p++)
    for (int64_t c = 0; c < 2 * j->channels; c++) j->sums[c] += j->sums[2 * p * j->channels + c];
  return cn_err();
}

/* dx = k * (g - a - (x - mean) * b), whose numbers follow from the sums; the gradients of weight and bias are
 * sums. */
static void coefficients(cn_call *c, job *j, bool training)
{
  double count = (double)(j->n * j->length);
  const cn_desc *gw = cn_desc_of(c->out[1]), *gb = cn_desc_of(c->out[2]);
  const cn_value *mask = &c->args[6];
  for (int64_t k = 0; k < j->channels; k++) {
    double sg = j->sums[k], sgx = j->sums[j->channels + k];
    j->k[k] = cni_load_channel(c->in[2], k, 1) * j->invstd[k];
    j->a[k] = training ? sg / count : 0;
    j->b[k] = training ? sgx * j->invstd[k] * j->invstd[k] / count : 0;
    if (mask->n > 1 && mask->u.is[1]) cni_store_f64(gw->data, k, gw->dtype, sgx * j->invstd[k]);
    if (mask->n > 2 && mask->u.is[2]) cni_store_f64(gb->data, k, gb->dtype, sg);
  }
  to_compute(j, j->k_t, j->k);
  to_compute(j, j->a_t, j->a);
  to_compute(j, j->b_t, j->b);
}

static int run_backward(cn_call *c, job *j)
{
  size_t bytes = 0;
  for (int64_t k = 0; k < j->channels; k++) {
    j->mean[k] = cni_load_channel(c->in[3], k, 0);
    j->invstd[k] = cni_load_channel(c->in[4], k, 1);
  }
  to_compute(j, j->mean_t, j->mean);
  int status = batch_sums(j, &bytes);
  if (!status) {
    coefficients(c, j, cni_arg_bool(c->args, 5));
    if (j->y) each(j, grad_planes, grad_pixels);
  }
  cni_scratch_free(j->sums, j->sums ? bytes : 0);
  return status;
}

/* (grad_out, input, weight, save_mean, save_invstd, training, output_mask) */
static int batch_norm_backward_kernel(cn_call *c)
{
  const cn_desc *g = cn_desc_of(c->in[0]), *x = cn_desc_of(c->in[1]), *y = cn_desc_of(c->out[0]);
  int compute = cni_compute_dtype(cni_compute_class(x->dtype));
  cni_operand ox = {.owned = NULL}, og = {.owned = NULL}, oy = {.owned = NULL};
  bool want = c->args[6].n > 0 && c->args[6].u.is[0];
  job j;
  describe(&j, x);
  void *room = cni_scratch_alloc(channel_bytes(&j));
  if (!room) return CN_ERR_MEMORY;
  place_channels(&j, room);
  int status = cni_operand_take(&ox, x, compute, j.strides);
  if (!status) status = cni_operand_take(&og, g, compute, j.strides);
  if (!status && want) status = cni_operand_room(&oy, y, compute, j.strides);
  if (!status) {
    j.x = ox.data, j.g = og.data, j.y = want ? oy.data : NULL;
    status = run_backward(c, &j);
  }
  cni_operand_drop(&ox);
  cni_operand_drop(&og);
  cni_operand_put(&oy, y, status);
  cni_scratch_free(room, channel_bytes(&j));
  return status;
}

const cn_kernel cni_cpu_batch_norm_kernels[] = {
    {"native_batch_norm", "planes and pixels", batch_norm_kernel},
    {"native_batch_norm_backward", "planes and pixels", batch_norm_backward_kernel},
    {NULL, NULL, NULL},
};
