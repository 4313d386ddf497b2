/* boxes.c: the CPU kernel of kept_boxes: of boxes with the best first, those that none before them drops.
 *
 * Place in the flow: nms sorts, this keeps. One thread walks from box to box, since each depends on all before it; how
 * a box overlaps with those behind it is a loop over vectors. Invariant: a limit that the type does not hold is rounded
 * down, which changes no comparison. */
#include "boxes.h"

#include <math.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/reduce/moments.h"
#include "base/scratch.h"
#include "tensor/tensor.h"

enum { ROUNDS = 16 }; /* boxes kept before those that are dropped are taken out */

typedef struct search {
  int64_t n, kept, *at, *out; /* at: the numbers of the boxes that are left; out: of those that stay */
  cni_boxes b;
  cni_drop_boxes *drop;
  double limit;
  bool single;
} search;

static void set(void *array, bool single, int64_t i, double v)
{
  if (single) ((float *)array)[i] = (float)v;
  else ((double *)array)[i] = v;
}

static double get(const void *array, bool single, int64_t i)
{
  return single ? (double)((const float *)array)[i] : ((const double *)array)[i];
}

static bool dropped(const search *s, int64_t i)
{
  return s->single ? ((const int32_t *)s->b.dropped)[i] : ((const int64_t *)s->b.dropped)[i];
}

/* Boxes [first, last) by their sides, none dropped. */
static void begin(search *s, const void *boxes, int64_t first, int64_t last)
{
  for (int64_t i = first; i < last; i++) {
    double side[4];
    for (int k = 0; k < 4; k++) set(s->b.side[k], s->single, i - first, side[k] = get(boxes, s->single, 4 * i + k));
    if (s->single) {
      float w = (float)side[2] - (float)side[0], h = (float)side[3] - (float)side[1];
      ((float *)s->b.area)[i - first] = w * h;
      ((int32_t *)s->b.dropped)[i - first] = 0;
    } else {
      ((double *)s->b.area)[i - first] = (side[2] - side[0]) * (side[3] - side[1]);
      ((int64_t *)s->b.dropped)[i - first] = 0;
    }
    s->at[i - first] = i;
  }
  s->n = last - first;
}

/* Takes dropped boxes behind `from` out; the others move together behind it. */
static void tidy(search *s, int64_t from)
{
  int64_t to = 0;
  for (int64_t i = from; i < s->n; i++) {
    if (dropped(s, i)) continue;
    for (int k = 0; k < 4; k++) set(s->b.side[k], s->single, to, get(s->b.side[k], s->single, i));
    set(s->b.area, s->single, to, get(s->b.area, s->single, i));
    s->at[to++] = s->at[i];
  }
  s->n = to;
  memset(s->b.dropped, 0, (size_t)to * (s->single ? sizeof(int32_t) : sizeof(int64_t)));
}

/* Boxes of one class: those that stay are appended. */
static void keep(search *s)
{
  int rounds = 0;
  for (int64_t i = 0; i < s->n; i++) {
    if (dropped(s, i)) continue;
    s->out[s->kept++] = s->at[i];
    s->drop(&s->b, i, s->n, s->limit);
    if (++rounds % ROUNDS) continue;
    tidy(s, i + 1);
    i = -1;
  }
}

static double rounded_down(double limit, bool single)
{
  float near = (float)limit;
  return !single ? limit : (double)near > limit ? (double)nextafterf(near, -INFINITY) : (double)near;
}

/* kept_boxes(boxes, classes, iou_threshold) */
static int kept_kernel(cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[0]), *classes = c->in[1] ? cn_desc_of(c->in[1]) : NULL;
  int64_t n = x->shape[0];
  cni_operand boxes = {0}, class = {0};
  search s = {.single = x->dtype == CN_F32};
  size_t elem = s.single ? 4 : 8, bytes = (size_t)n * (6 * elem + 2 * sizeof(int64_t));
  const cni_box_loops *loops = CNI_BY_ISA(cni_box_loops);
  s.drop = s.single ? loops->f32 : loops->f64;
  s.limit = rounded_down(c->args[2].tag == CN_V_FLOAT ? c->args[2].u.f : (double)c->args[2].u.i, s.single);
  int status = cni_operand_take(&boxes, x, x->dtype, NULL);
  if (!status && classes) status = cni_operand_take(&class, classes, CN_I64, NULL);
  s.at = status ? NULL : cni_scratch_alloc(bytes ? bytes : 1);
  if (!status && !s.at) status = CN_ERR_MEMORY;
  if (!status) {
    s.out = s.at + n;
    char *more = (char *)(s.out + n);
    for (int k = 0; k < 4; k++) s.b.side[k] = more + (size_t)k * (size_t)n * elem;
    s.b.area = more + 4 * (size_t)n * elem, s.b.dropped = more + 5 * (size_t)n * elem;
    const int64_t *of = class.data;
    for (int64_t first = 0, last; first < n; first = last) {
      for (last = first + 1; last < n && (!of || of[last] == of[first]);) last++;
      begin(&s, boxes.data, first, last);
      keep(&s);
    }
    c->out[0] = cni_tensor_new(c->device, CN_I64, 1, &s.kept, NULL);
    if (c->out[0] && s.kept) memcpy(c->out[0]->d.data, s.out, (size_t)s.kept * sizeof *s.out);
    status = c->out[0] ? CN_OK : CN_ERR_MEMORY;
  }
  cni_scratch_free(s.at, bytes ? bytes : 1);
  cni_operand_drop(&boxes);
  cni_operand_drop(&class);
  return status;
}

const cn_kernel cni_cpu_boxes_kernels[] = {{"kept_boxes", "vector loops", kept_kernel}, {NULL, NULL, NULL}};
