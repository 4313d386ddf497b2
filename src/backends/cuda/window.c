/* window.c: pools, im2col and col2im.
 *
 * Place in the flow: reads windows off the call for kernels/window.cu. Invariant: images and results are row-major
 * here, or, for pools that have a kernel for that, have channels innermost, all of them; others are copied. */
#include <string.h>

#include "plugin.h"

/* As in kernels/window.cu. */
typedef struct denominator {
  int64_t by;
  uint32_t factor, shift;
} denominator;
typedef struct job {
  const void *x;
  void *y, *index;
  int64_t planes, h, w, oh, ow;
  int64_t kernel[2], stride[2], padding[2], dilation[2];
  int64_t divisor;
  int64_t images, channels;
  denominator groups, columns, lines, step[2];
  int32_t include_pad, aligned;
  cni_cuda_slot fault;
} job;

/* Element i of a pair that may be one number for both. */
static int64_t pair(const cn_value *v, int i)
{
  if (v->tag == CN_V_INT) return v->u.i;
  return v->n == 1 ? v->u.is[0] : v->u.is[i];
}

static void read_windows(job *j, const cn_value *kernel, const cn_value *stride, const cn_value *padding)
{
  bool none = stride->tag == CN_V_NONE || (stride->tag == CN_V_INTS && stride->n == 0);
  for (int i = 0; i < 2; i++) {
    j->kernel[i] = pair(kernel, i);
    j->stride[i] = pair(none ? kernel : stride, i);
    j->padding[i] = pair(padding, i);
    j->dilation[i] = 1;
  }
}

/* image (h, w) and windows (oh, ow): the sizes of the last two dims. */
static void read_sizes(job *j, const cn_desc *image, const cn_desc *windows)
{
  j->h = image->shape[image->ndim - 2];
  j->w = image->shape[image->ndim - 1];
  j->oh = windows->shape[windows->ndim - 2];
  j->ow = windows->shape[windows->ndim - 1];
  j->planes = j->h && j->w ? image->numel / (j->h * j->w) : 0;
}

typedef struct request {
  const char *entry;
  const cn_desc *x, *y, *index_in, *index_out;
  bool folds;       /* into zeros of the type that is computed in */
  const char *last; /* the kernel for images whose channels are innermost; NULL: there is none */
  const char *shared; /* ... for few results of these, which the threads of a block make together; NULL likewise */
} request;
enum { WARP = 32 };

/* Are the elements of (N, C, H, W) or (C, H, W) dense with channels innermost? */
static bool channels_innermost(const cn_desc *d)
{
  const int64_t *shape = d->shape + d->ndim - 3, *strides = d->strides + d->ndim - 3;
  const int64_t want[] = {1, shape[0] * shape[2], shape[0]};
  for (int i = 0; i < 3; i++)
    if (shape[i] != 1 && strides[i] != want[i]) return false;
  return d->ndim == 3 || d->shape[0] == 1 || d->strides[0] == shape[0] * shape[1] * shape[2];
}

/* Is there a kernel for the memory order that all tensors have? */
static bool is_last(const request *r)
{
  const cn_desc *tensors[] = {r->x, r->y, r->index_in, r->index_out};
  if (!r->last || r->x->dtype != r->y->dtype) return false;
  for (int i = 0; i < 4; i++)
    if (tensors[i] && tensors[i]->numel > 1 && !channels_innermost(tensors[i])) return false;
  return true;
}

/* With shift s so that 2^s >= by, and factor 2^32 (2^s - by) / by + 1, the quotient is exact below 2^31. */
static denominator denominator_of(int64_t by)
{
  denominator d = {by, 0, 0};
  if (by < 1 || by > INT32_MAX) return d; /* positions are 64 bits wide then, or there are none */
  while (((int64_t)1 << d.shift) < by) d.shift++;
  d.factor = (uint32_t)((((uint64_t)1 << 32) * (((uint64_t)1 << d.shift) - (uint64_t)by)) / (uint64_t)by + 1);
  return d;
}

/* Is a block better for few results than a thread? */
static bool shares(const cni_cuda_device *d, const job *j, const request *r, int64_t packs)
{
  enum { LEAST = 16 }; /* elements of a result */
  return r->shared && packs <= (int64_t)d->units * CNI_CUDA_THREADS && j->h * j->w >= LEAST * j->oh * j->ow;
}

/* Tensors are used where they lie. */
static int run_last(cn_call *c, job *j, const request *r)
{
  const char *name = cni_cuda_host->op_name(c->op);
  cni_cuda_device *d = cni_cuda_of(c);
  const cn_desc *x = r->x, *y = r->y, *index = r->index_in ? r->index_in : r->index_out;
  if (!d) return CN_ERR_DEVICE;
  j->x = x->data;
  j->y = y->data;
  j->index = index ? index->data : NULL;
  j->channels = x->shape[x->ndim - 3];
  j->images = x->ndim == 4 ? x->shape[0] : 1;
  int64_t vector = 8 / (int64_t)cn_element_size(y->dtype);
  j->aligned = j->channels % vector == 0 && ((uintptr_t)j->x | (uintptr_t)j->y | (uintptr_t)j->index) % 16 == 0;
  int64_t pack = j->aligned ? vector : 1, packs = y->numel / pack;
  j->groups = denominator_of(j->channels / pack);
  bool narrow = x->numel < INT32_MAX && y->numel < INT32_MAX, shared = shares(d, j, r, packs);
  cni_cuda_code code = {.file = "window.cu", .entry = shared ? r->shared : r->last, .types = {y->dtype},
                        .number = narrow ? 32 : 64};
  return cni_cuda_run(d, name, &code, cni_cuda_grid_for(d, shared ? packs * (CNI_CUDA_THREADS / WARP) : packs), j);
}

static int run(cn_call *c, job *j, const request *r)
{
  const char *name = cni_cuda_host->op_name(c->op);
  cni_cuda_device *d = cni_cuda_of(c);
  cni_cuda_operand ox = {0}, oy = {0}, in = {0}, out = {0};
  if (!d) return CN_ERR_DEVICE;
  if (!cni_cuda_known(r->y->dtype)) return cni_cuda_refuse(c, "a type for storage only");
  if (r->y->numel == 0) return CN_OK;
  j->columns = denominator_of(r->y->shape[r->y->ndim - 1]);
  j->lines = denominator_of(r->y->shape[r->y->ndim - 2]);
  for (int i = 0; i < 2; i++) j->step[i] = denominator_of(j->stride[i]);
  if (is_last(r)) return run_last(c, j, r);
  int type = r->folds ? cni_cuda_wide(r->y->dtype) : r->y->dtype;
  int status = cni_cuda_take(&ox, d, name, r->x, r->y->dtype);
  if (!status) status = cni_cuda_room(&oy, d, name, r->y, type);
  if (!status && r->index_in) status = cni_cuda_take(&in, d, name, r->index_in, CN_I64);
  if (!status && r->index_out) status = cni_cuda_room(&out, d, name, r->index_out, CN_I64);
  if (!status && r->folds) status = cni_cuda_zero(d, oy.data, cn_element_bytes(type, r->y->numel));
  j->x = ox.data;
  j->y = oy.data;
  j->index = r->index_in ? in.data : out.data;
  j->fault = cni_cuda_slot_for(d, name);
  bool narrow = r->x->numel < INT32_MAX && r->y->numel < INT32_MAX;
  cni_cuda_code code = {.file = "window.cu", .entry = r->entry, .types = {r->y->dtype}, .number = narrow ? 32 : 64};
  int64_t n = r->folds ? r->x->numel : r->y->numel;
  if (!status && n) status = cni_cuda_run(d, name, &code, cni_cuda_grid_for(d, n), j);
  cni_cuda_drop(&ox, d);
  cni_cuda_drop(&in, d);
  if (out.desc) status = cni_cuda_give(&out, d, name, status);
  return cni_cuda_give(&oy, d, name, status);
}

/* ---- pools ---- */

/* max_pool2d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode) */
static int max_kernel(cn_call *c)
{
  job j = {0};
  request r = {"max_pool", cn_desc_of(c->in[0]), cn_desc_of(c->out[0]), NULL, cn_desc_of(c->out[1]), false,
               "max_pool_last"};
  read_windows(&j, &c->args[1], &c->args[2], &c->args[3]);
  for (int i = 0; i < 2; i++) j.dilation[i] = pair(&c->args[4], i);
  read_sizes(&j, r.x, r.y);
  return run(c, &j, &r);
}

/* max_pool2d_backward(grad, indices, input_size, windows) */
static int max_backward_kernel(cn_call *c)
{
  job j = {0};
  request r = {"max_pool_grad", cn_desc_of(c->in[0]), cn_desc_of(c->out[0]), cn_desc_of(c->in[1]), NULL, true, NULL};
  read_sizes(&j, r.y, r.x);
  if (c->args[3].tag != CN_V_NONE) {
    int64_t *const pairs[] = {j.kernel, j.stride, j.padding, j.dilation};
    for (int i = 0; i < 8; i++) pairs[i / 2][i % 2] = c->args[3].u.is[i];
    r.entry = "max_pool_gather";
    r.last = "max_pool_gather_last";
    r.folds = false;
  }
  int repeats = r.folds ? cni_cuda_host->not_deterministic(cni_cuda_host->op_name(c->op)) : CN_OK;
  return repeats ? repeats : run(c, &j, &r);
}

/* first: the index of kernel_size; stride, padding, ceil_mode, count_include_pad, divisor_override follow. */
static void read_average(job *j, const cn_value *args, int first)
{
  read_windows(j, &args[first], &args[first + 1], &args[first + 2]);
  j->include_pad = args[first + 4].u.i != 0;
  j->divisor = args[first + 5].tag == CN_V_NONE ? 0 : args[first + 5].u.i;
}

static int avg_kernel(cn_call *c)
{
  job j = {0};
  request r = {"avg_pool", cn_desc_of(c->in[0]), cn_desc_of(c->out[0]), NULL, NULL, false, NULL};
  read_average(&j, c->args, 1);
  read_sizes(&j, r.x, r.y);
  return run(c, &j, &r);
}

static int avg_backward_kernel(cn_call *c)
{
  job j = {0};
  request r = {"avg_pool_grad", cn_desc_of(c->in[0]), cn_desc_of(c->out[0]), NULL, NULL, false, NULL};
  read_average(&j, c->args, 2);
  read_sizes(&j, r.y, r.x);
  return run(c, &j, &r);
}

static int adaptive_kernel(cn_call *c)
{
  job j = {0};
  request r = {"adaptive_avg_pool", cn_desc_of(c->in[0]), cn_desc_of(c->out[0]), NULL, NULL, false,
               "adaptive_avg_pool_last", "adaptive_avg_pool_shared"};
  read_sizes(&j, r.x, r.y);
  return run(c, &j, &r);
}

static int adaptive_max_kernel(cn_call *c)
{
  job j = {0};
  request r = {"adaptive_max_pool", cn_desc_of(c->in[0]), cn_desc_of(c->out[0]), NULL, cn_desc_of(c->out[1]), false,
               NULL};
  read_sizes(&j, r.x, r.y);
  return run(c, &j, &r);
}

static int adaptive_backward_kernel(cn_call *c)
{
  job j = {0};
  request r = {"adaptive_avg_pool_grad", cn_desc_of(c->in[0]), cn_desc_of(c->out[0]), NULL, NULL, false,
               "adaptive_avg_pool_grad_last"};
  read_sizes(&j, r.y, r.x);
  return run(c, &j, &r);
}

/* ---- columns: kernel_size, dilation, padding, stride from args[first] on ---- */

static void read_columns(job *j, const cn_value *args, int first, const cn_desc *image)
{
  j->h = image->shape[image->ndim - 2];
  j->w = image->shape[image->ndim - 1];
  j->planes = j->h && j->w ? image->numel / (j->h * j->w) : 0;
  int64_t windows[2];
  for (int i = 0; i < 2; i++) {
    j->kernel[i] = pair(&args[first], i);
    j->dilation[i] = pair(&args[first + 1], i);
    j->padding[i] = pair(&args[first + 2], i);
    j->stride[i] = pair(&args[first + 3], i);
    int64_t size = i ? j->w : j->h;
    windows[i] = (size + 2 * j->padding[i] - j->dilation[i] * (j->kernel[i] - 1) - 1) / j->stride[i] + 1;
  }
  j->oh = windows[0];
  j->ow = windows[1];
}

static int im2col_kernel(cn_call *c)
{
  job j = {0};
  request r = {"im2col", cn_desc_of(c->in[0]), cn_desc_of(c->out[0]), NULL, NULL, false, NULL};
  read_columns(&j, c->args, 1, r.x);
  return run(c, &j, &r);
}

static int col2im_kernel(cn_call *c)
{
  job j = {0};
  request r = {"col2im", cn_desc_of(c->in[0]), cn_desc_of(c->out[0]), NULL, NULL, false, NULL};
  read_columns(&j, c->args, 2, r.y);
  return run(c, &j, &r);
}

const cn_kernel cni_cuda_window_kernels[] = {
    {"max_pool2d_with_indices", "window.cu", max_kernel},
    {"max_pool2d_backward", "window.cu", max_backward_kernel},
    {"avg_pool2d", "window.cu", avg_kernel},
    {"avg_pool2d_backward", "window.cu", avg_backward_kernel},
    {"adaptive_avg_pool2d", "window.cu", adaptive_kernel},
    {"adaptive_max_pool2d_with_indices", "window.cu", adaptive_max_kernel},
    {"adaptive_avg_pool2d_backward", "window.cu", adaptive_backward_kernel},
    {"im2col", "window.cu", im2col_kernel},
    {"col2im", "window.cu", col2im_kernel},
    {NULL, NULL, NULL},
};
