/* im2col.c: the CPU kernels of im2col and col2im.
 *
 * Place in the flow: brings both sides into packed memory, then works plane by plane. Invariant: a plane of the image
 * is one thread's work, and its windows are added in order, so results never depend on the number of threads. f16
 * and bf16 add up in f32, integers in int64. */
#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/reduce/moments.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "ops/window.h"

enum { GRAIN_WORK = 1 << 15 };

typedef struct job {
  int64_t h, w, oh, ow;
  int64_t kernel[2], dilation[2], padding[2], stride[2];
  char *image, *columns; /* packed: (planes, h, w), (planes, kh, kw, oh, ow) */
  int64_t elem;          /* bytes of an element */
  void (*add)(const struct job *j, void *row, const void *windows, int64_t first, int64_t last, int64_t left);
} job;

/* Windows [first, last) along the width whose tap at column `left` (of window 0) lies inside the image. */
static void inside(const job *j, int64_t left, int64_t *first, int64_t *last)
{
  int64_t step = j->stride[1], end = j->w - left;
  *first = left < 0 ? (-left + step - 1) / step : 0;
  *last = end <= 0 ? 0 : (end + step - 1) / step;
  if (*last > j->ow) *last = j->ow;
  if (*first > *last) *first = *last;
}

/* One row of windows, from a row of the image. */
static void copy_row(const job *j, char *windows, const char *row, int64_t left)
{
  int64_t first, last, step = j->stride[1];
  size_t size = (size_t)j->elem;
  inside(j, left, &first, &last);
  memset(windows, 0, (size_t)first * size);
  if (step == 1 && last > first) memcpy(windows + (size_t)first * size, row + (left + first) * j->elem,
                                        (size_t)(last - first) * size);
  else
    for (int64_t o = first; o < last; o++)
      memcpy(windows + (size_t)o * size, row + (left + o * step) * j->elem, size);
  memset(windows + (size_t)last * size, 0, (size_t)(j->ow - last) * size);
}

static void gather_planes(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  int64_t line = j->ow * j->elem;
  char *to = j->columns + begin * j->kernel[0] * j->kernel[1] * j->oh * line;
  for (int64_t p = begin; p < end; p++)
    for (int64_t a = 0; a < j->kernel[0]; a++)
      for (int64_t b = 0; b < j->kernel[1]; b++)
        for (int64_t o = 0; o < j->oh; o++, to += line) {
          int64_t y = o * j->stride[0] - j->padding[0] + a * j->dilation[0];
          if (y < 0 || y >= j->h) memset(to, 0, (size_t)line);
          else copy_row(j, to, j->image + (p * j->h + y) * j->w * j->elem, b * j->dilation[1] - j->padding[1]);
        }
}

#define ADD(name, T)                                                                                                 \
  static void name(const job *j, void *row, const void *windows, int64_t first, int64_t last, int64_t left)          \
  {                                                                                                                  \
    T *to = row;                                                                                                     \
    const T *from = windows;                                                                                         \
    int64_t step = j->stride[1];                                                                                     \
    if (step == 1)                                                                                                   \
      for (int64_t o = first; o < last; o++) to[left + o] += from[o];                                                \
    else                                                                                                             \
      for (int64_t o = first; o < last; o++) to[left + o * step] += from[o];                                         \
  }
ADD(add_f32, float)
ADD(add_f64, double)
ADD(add_i64, int64_t)

static void scatter_planes(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  int64_t line = j->ow * j->elem, plane = j->h * j->w * j->elem;
  const char *from = j->columns + begin * j->kernel[0] * j->kernel[1] * j->oh * line;
  for (int64_t p = begin; p < end; p++) {
    memset(j->image + p * plane, 0, (size_t)plane);
    for (int64_t a = 0; a < j->kernel[0]; a++)
      for (int64_t b = 0; b < j->kernel[1]; b++)
        for (int64_t o = 0; o < j->oh; o++, from += line) {
          int64_t y = o * j->stride[0] - j->padding[0] + a * j->dilation[0], first, last;
          int64_t left = b * j->dilation[1] - j->padding[1];
          if (y < 0 || y >= j->h) continue;
          inside(j, left, &first, &last);
          j->add(j, j->image + p * plane + y * j->w * j->elem, from, first, last, left);
        }
  }
}

/* first: the index of kernel_size. image, columns: the two sides. */
static job read_call(const cn_call *c, int first, const cn_desc *image)
{
  job j = {.h = image->shape[image->ndim - 2], .w = image->shape[image->ndim - 1]};
  int64_t windows[2];
  for (int i = 0; i < 2; i++) {
    j.kernel[i] = cni_pair(&c->args[first], i);
    j.dilation[i] = cni_pair(&c->args[first + 1], i);
    j.padding[i] = cni_pair(&c->args[first + 2], i);
    j.stride[i] = cni_pair(&c->args[first + 3], i);
    windows[i] = ((i ? j.w : j.h) + 2 * j.padding[i] - j.dilation[i] * (j.kernel[i] - 1) - 1) / j.stride[i] + 1;
  }
  j.oh = windows[0];
  j.ow = windows[1];
  return j;
}

static void run(job *j, int64_t planes, cni_range_fn fn)
{
  int64_t work = j->kernel[0] * j->kernel[1] * j->oh * j->ow;
  cni_parallel_for(planes, GRAIN_WORK / (work < 1 ? 1 : work) + 1, fn, j);
}

static int im2col_kernel(cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[0]), *y = cn_desc_of(c->out[0]);
  cni_operand from = {0}, to = {0};
  job j = read_call(c, 1, x);
  int status = cni_operand_take(&from, x, x->dtype, NULL);
  if (!status) status = cni_operand_room(&to, y, y->dtype, NULL);
  if (!status && x->numel) {
    j.elem = (int64_t)cni_dtype_size(x->dtype);
    j.image = from.data;
    j.columns = to.data;
    run(&j, x->numel / (j.h * j.w), gather_planes);
  }
  cni_operand_drop(&from);
  cni_operand_put(&to, y, status);
  return status;
}

static int col2im_kernel(cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[0]), *y = cn_desc_of(c->out[0]);
  int compute = x->dtype == CN_F64 ? CN_F64 : cni_dtype_is_float(x->dtype) ? CN_F32 : CN_I64;
  cni_operand from = {0}, to = {0};
  job j = read_call(c, 2, y);
  int status = cni_operand_take(&from, x, compute, NULL);
  if (!status) status = cni_operand_room(&to, y, compute, NULL);
  if (!status && y->numel) {
    j.elem = (int64_t)cni_dtype_size(compute);
    j.image = to.data;
    j.columns = from.data;
    j.add = compute == CN_F32 ? add_f32 : compute == CN_F64 ? add_f64 : add_i64;
    run(&j, y->numel / (j.h * j.w), scatter_planes);
  }
  cni_operand_drop(&from);
  cni_operand_put(&to, y, status);
  return status;
}

const cn_kernel cni_cpu_im2col_kernels[] = {
    {"im2col", "planes", im2col_kernel},
    {"col2im", "planes", col2im_kernel},
    {NULL, NULL, NULL},
};
