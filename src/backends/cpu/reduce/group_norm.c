/* group_norm.c: group norm on the CPU, forward and backward.
 *
 * Place in the flow: kernels of ops/group_norm.c; statistics from moments.c, loops in moments_isa.c. The input is taken
 * as planes (N * C, L), of which C / groups neighbours make a group. Invariant: sums are taken per plane and joined in
 * order, so results never depend on the number of threads. */
#include <math.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "base/convert.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "moments.h"
#include "ops/infer.h"

enum { GRAIN = 16384 };

/* y of a plane is g * k - (x - mean) * a - b; forward: x * k + b. Sums: of g, and of g (x - mean). */
typedef struct plane {
  double k, mean, a, b, sums[2];
} plane;

typedef struct job {
  const cni_moment_loops *loops;
  int64_t n, channels, length, groups, size; /* size: bytes of an element of the compute type */
  const char *x, *g;
  char *y;
  plane *planes; /* (N * C) */
} job;

static int64_t planes_of(const job *j) { return j->n * j->channels; }
static size_t plane_bytes(const job *j) { return (size_t)planes_of(j) * sizeof(plane); }
static int64_t group_of(const job *j, int64_t of) { return of / (j->channels / j->groups); }

static int describe(job *j, const cn_desc *x, int64_t groups)
{
  enum cni_compute class = cni_compute_class(x->dtype);
  memset(j, 0, sizeof *j);
  j->loops = cni_moment_loops_of(class);
  j->size = class == CNI_C_F32 ? 4 : 8;
  j->n = x->shape[0];
  j->channels = x->shape[1];
  j->length = cni_numel(x->ndim - 2, x->shape + 2);
  j->groups = groups;
  j->planes = cni_scratch_alloc_zero(plane_bytes(j));
  return j->planes ? CN_OK : CN_ERR_MEMORY;
}

/* A number of t, (N, groups), that belongs to a group of all samples'. */
static double of_group(const job *j, const cn_tensor *t, int64_t group)
{
  const cn_desc *d = cn_desc_of(t);
  return cni_load_f64(d->data, group / j->groups * d->strides[0] + group % j->groups * d->strides[1], d->dtype);
}

static void each_plane(job *j, cni_range_fn fn)
{
  cni_parallel_for(planes_of(j), j->length < GRAIN ? GRAIN / j->length : 1, fn, j);
}

/* ---- forward ---- */

typedef struct stats {
  const cn_desc *mean, *rstd;
  double eps;
} stats;

static void take_stats(void *payload, int64_t at, int64_t stride, const cni_moment *m, int64_t n)
{
  const stats *s = payload;
  for (int64_t i = 0; i < n; i++) {
    cni_store_f64(s->mean->data, at + i * stride, s->mean->dtype, m[i].mean);
    cni_store_f64(s->rstd->data, at + i * stride, s->rstd->dtype, 1 / sqrt(m[i].m2 / m[i].count + s->eps));
  }
}

/* Row-major elements at x as (N, groups, elements of a group). */
static cn_desc by_groups(const job *j, const cni_operand *x)
{
  int64_t row = j->channels / j->groups * j->length;
  cn_desc d = x->view;
  d.ndim = 3;
  d.shape[0] = j->n, d.shape[1] = j->groups, d.shape[2] = row;
  d.strides[0] = j->groups * row, d.strides[1] = row, d.strides[2] = 1;
  return d;
}

static void scale_planes(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  for (int64_t u = begin; u < end; u++) {
    int64_t at = u * j->length * j->size;
    j->loops->scale_row(j->y + at, j->x + at, j->length, j->planes[u].k, j->planes[u].b);
  }
}

static int run_forward(cn_call *c, job *j, const cni_operand *x)
{
  const cn_desc rows = by_groups(j, x);
  stats s = {cn_desc_of(c->out[1]), cn_desc_of(c->out[2]), cni_arg_float(c->args, 4)};
  int status = cni_moments(&rows, 1u << 2, take_stats, &s);
  for (int64_t u = 0; u < planes_of(j) && !status; u++) {
    int64_t group = group_of(j, u), channel = u % j->channels;
    plane *p = &j->planes[u];
    p->k = cni_load_channel(c->in[1], channel, 1) * of_group(j, c->out[2], group);
    p->b = cni_load_channel(c->in[2], channel, 0) - of_group(j, c->out[1], group) * p->k;
  }
  if (!status) each_plane(j, scale_planes);
  return status;
}

/* native_group_norm(input, weight, bias, num_groups, eps) */
static int group_norm_kernel(cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[0]), *y = cn_desc_of(c->out[0]);
  int compute = cni_compute_dtype(cni_compute_class(x->dtype));
  cni_operand ox = {.owned = NULL}, oy = {.owned = NULL};
  job j;
  if (x->numel == 0) return CN_REFUSED; /* nothing to normalise */
  int status = describe(&j, x, cni_arg_int(c->args, 3));
  if (!status) status = cni_operand_take(&ox, x, compute, NULL);
  if (!status) status = cni_operand_room(&oy, y, compute, NULL);
  j.x = ox.data, j.y = oy.data;
  if (!status) status = run_forward(c, &j, &ox);
  cni_operand_drop(&ox);
  cni_operand_put(&oy, y, status);
  cni_scratch_free(j.planes, plane_bytes(&j));
  return status;
}

/* ---- backward ---- */

static void sum_planes(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  for (int64_t u = begin; u < end; u++) {
    int64_t at = u * j->length * j->size;
    j->loops->dots_row(j->planes[u].sums, j->g + at, j->x + at, j->length, j->planes[u].mean);
  }
}

static void grad_planes(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  for (int64_t u = begin; u < end; u++) {
    const plane *p = &j->planes[u];
    int64_t at = u * j->length * j->size;
    j->loops->plane_grad_row(j->y + at, j->g + at, j->x + at, j->length, p->k, p->mean, p->a, p->b);
  }
}

/* dx = rstd (w g - sum(w g) / n - (x - mean) rstd^2 sum(w g (x - mean)) / n), the sums and n those of the group. */
static void finish_groups(const cn_call *c, job *j)
{
  int64_t each = j->channels / j->groups;
  double count = (double)(each * j->length);
  for (int64_t group = 0; group < j->n * j->groups; group++) {
    plane *p = j->planes + group * each;
    const double rstd = of_group(j, c->in[3], group);
    double sums[2] = {0, 0};
    for (int64_t i = 0; i < each; i++) {
      const double w = cni_load_channel(c->in[4], (group * each + i) % j->channels, 1);
      p[i].k = rstd * w;
      for (int k = 0; k < 2; k++) sums[k] += w * p[i].sums[k];
    }
    for (int64_t i = 0; i < each; i++) {
      p[i].a = rstd * rstd * rstd * sums[1] / count;
      p[i].b = rstd * sums[0] / count;
    }
  }
}

/* Of weight (1: sums of g times the normalised input) or bias (0: sums of g), per channel. */
static void store_sums(const cn_call *c, const job *j, const cn_desc *to, int which)
{
  for (int64_t k = 0; k < j->channels; k++) {
    double sum = 0;
    for (int64_t u = k; u < planes_of(j); u += j->channels)
      sum += j->planes[u].sums[which] * (which ? of_group(j, c->in[3], group_of(j, u)) : 1);
    cni_store_f64(to->data, k, to->dtype, sum);
  }
}

static void run_backward(const cn_call *c, job *j)
{
  const cn_value *mask = &c->args[6];
  for (int64_t u = 0; u < planes_of(j); u++) j->planes[u].mean = of_group(j, c->in[2], group_of(j, u));
  each_plane(j, sum_planes);
  for (int i = 1; i < 3 && i < mask->n; i++)
    if (mask->u.is[i]) store_sums(c, j, cn_desc_of(c->out[i]), i == 1);
  if (!j->y) return;
  finish_groups(c, j);
  each_plane(j, grad_planes);
}

/* native_group_norm_backward(grad_out, input, mean, rstd, weight, num_groups, output_mask) */
static int group_norm_backward_kernel(cn_call *c)
{
  const cn_desc *g = cn_desc_of(c->in[0]), *x = cn_desc_of(c->in[1]), *y = cn_desc_of(c->out[0]);
  int compute = cni_compute_dtype(cni_compute_class(x->dtype));
  bool want = c->args[6].n > 0 && c->args[6].u.is[0];
  cni_operand ox = {.owned = NULL}, og = {.owned = NULL}, oy = {.owned = NULL};
  job j;
  if (x->numel == 0) return CN_REFUSED; /* nothing to normalise */
  int status = describe(&j, x, cni_arg_int(c->args, 5));
  if (!status) status = cni_operand_take(&ox, x, compute, NULL);
  if (!status) status = cni_operand_take(&og, g, compute, NULL);
  if (!status && want) status = cni_operand_room(&oy, y, compute, NULL);
  j.x = ox.data, j.g = og.data, j.y = want ? oy.data : NULL;
  if (!status) run_backward(c, &j);
  cni_operand_drop(&ox);
  cni_operand_drop(&og);
  if (want) cni_operand_put(&oy, y, status);
  cni_scratch_free(j.planes, plane_bytes(&j));
  return status;
}

const cn_kernel cni_cpu_group_norm_kernels[] = {
    {"native_group_norm", "planes", group_norm_kernel},
    {"native_group_norm_backward", "planes", group_norm_backward_kernel},
    {NULL, NULL, NULL},
};
