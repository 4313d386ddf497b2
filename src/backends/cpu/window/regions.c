/* regions.c: the CPU kernels of region_means, its gradient and region_max.
 *
 * Place in the flow: below apply; roi_align and its kin are made of them. Invariant: a block of channels of a region,
 * and in the gradient a channel of the map, is one thread's work in one order, so results never depend on the number of
 * threads. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/reduce/moments.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "ops/infer.h"

enum { BLOCK = 32, TOGETHER = 4, GRAIN_WORK = 1 << 15 };
enum kind { EDGES, CENTRES, PLACES, PIXELS };

/* x: (images, channels, size), boxes: (regions, 5), y and index: (regions, out, bins), all packed */
typedef struct job {
  int64_t images, channels, size[2], regions, out, bins[2], blocks;
  int64_t sampling, room[2]; /* room: elements that make up a bin at most */
  enum kind kind;
  bool by_place; /* each bin has channels of its own */
  double scale;
  void *x, *boxes, *y;
  int64_t *index;
} job;

/* x as one of 0 to n. */
static int64_t within(double x, int64_t n) { return x > 0 ? x < (double)n ? (int64_t)x : n < 0 ? 0 : n : 0; }

#define T float
#define NAME(name) name##_f32
#define LARGEST FLT_MAX
#include "regions_kernel.inc"

#define T double
#define NAME(name) name##_f64
#define LARGEST DBL_MAX
#include "regions_kernel.inc"

static enum kind kind_of(const cn_call *c)
{
  static const char *const names[] = {"edges", "centres", "places", "pixels"};
  int k = 0;
  while (k < PIXELS && !cni_arg_is(c->args, 5, names[k])) k++;
  return (enum kind)k;
}

/* The job of a call; x: the map, given or made. */
static job job_of(const cn_call *c, const cn_desc *x, const cn_desc *y)
{
  job j = {.images = x->shape[0], .channels = x->shape[1], .size = {x->shape[2], x->shape[3]}};
  j.regions = y->shape[0];
  j.out = y->shape[1];
  j.bins[0] = y->shape[2], j.bins[1] = y->shape[3];
  j.blocks = (j.out + BLOCK - 1) / BLOCK;
  j.scale = cni_arg_float(c->args, 3);
  return j;
}

/* Operands of the map, the boxes and the regions, two to be read and one to be written. */
typedef struct operands {
  cni_operand x, boxes, y;
} operands;

static int take(operands *o, job *j, const cn_desc *x, const cn_desc *boxes, const cn_desc *y, bool into_x)
{
  *o = (operands){{0}, {0}, {0}};
  int status = cni_operand_take(&o->boxes, boxes, x->dtype, NULL);
  if (!status)
    status = into_x ? cni_operand_room(&o->x, x, x->dtype, NULL) : cni_operand_take(&o->x, x, x->dtype, NULL);
  if (!status)
    status = into_x ? cni_operand_take(&o->y, y, x->dtype, NULL) : cni_operand_room(&o->y, y, x->dtype, NULL);
  j->x = o->x.data, j->boxes = o->boxes.data, j->y = o->y.data;
  return status;
}

static void give(operands *o, const cn_desc *x, const cn_desc *y, bool into_x, int status)
{
  cni_operand_drop(&o->boxes);
  if (into_x) cni_operand_put(&o->x, x, status), cni_operand_drop(&o->y);
  else cni_operand_put(&o->y, y, status), cni_operand_drop(&o->x);
}

static int means(cn_call *c, const cn_desc *x, const cn_desc *y, bool back)
{
  job j = job_of(c, x, y);
  bool single = x->dtype == CN_F32;
  operands o;
  j.kind = kind_of(c);
  j.by_place = j.kind == PLACES || j.kind == PIXELS;
  j.sampling = cni_arg_int(c->args, 4);
  for (int d = 0; d < 2; d++) j.room[d] = j.sampling > 0 && j.kind != PIXELS ? 2 * j.sampling : j.size[d];
  int status = take(&o, &j, x, cn_desc_of(c->in[1]), y, back);
  if (!status) status = single ? check_images_f32(c, &j) : check_images_f64(c, &j);
  int64_t bins = j.bins[0] * j.bins[1];
  if (!status && back && x->numel) {
    int64_t work = j.regions * bins * 16 + x->numel / j.channels;
    cni_parallel_for(j.out, GRAIN_WORK / work + 1, single ? means_back_f32 : means_back_f64, &j);
  } else if (!status && !back && y->numel) {
    int64_t work = bins * BLOCK * 16;
    cni_parallel_for(j.regions * j.blocks, GRAIN_WORK / work + 1, single ? means_f32 : means_f64, &j);
  }
  if (!status) status = cn_err();
  give(&o, x, y, back, status);
  return status;
}

static int means_kernel(cn_call *c) { return means(c, cn_desc_of(c->in[0]), cn_desc_of(c->out[0]), false); }
static int means_grad_kernel(cn_call *c) { return means(c, cn_desc_of(c->out[0]), cn_desc_of(c->in[0]), true); }

static int max_kernel(cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[0]), *y = cn_desc_of(c->out[0]), *index = cn_desc_of(c->out[1]);
  job j = job_of(c, x, y);
  bool single = x->dtype == CN_F32;
  operands o;
  cni_operand where = {0};
  int status = take(&o, &j, x, cn_desc_of(c->in[1]), y, false);
  if (!status) status = cni_operand_room(&where, index, CN_I64, NULL);
  j.index = where.data;
  if (!status) status = single ? check_images_f32(c, &j) : check_images_f64(c, &j);
  if (!status && y->numel) cni_parallel_for(j.regions, 1, single ? maxima_f32 : maxima_f64, &j);
  if (!status) status = cn_err();
  give(&o, x, y, false, status);
  cni_operand_put(&where, index, status);
  return status;
}

const cn_kernel cni_cpu_regions_kernels[] = {
    {"region_means", "rows and columns", means_kernel},
    {"region_means_grad", "rows and columns", means_grad_kernel},
    {"region_max", "reference", max_kernel},
    {NULL, NULL, NULL},
};
