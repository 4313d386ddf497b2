/* pool.c: the CPU kernels of the pools: brings images into packed planes of a compute type, spreads the planes over
 * the threads, writes results back.
 *
 * Place in the flow: loops over one plane are in pool_isa.c. Invariant: a plane is one thread's work, so results
 * never depend on their number. f16 and bf16 compute in f32, integers in int64. */
#include "pool_isa.h"

#include <string.h>

#include "backends/cpu/cpu.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "ops/window.h"

enum { GRAIN_WORK = 1 << 15 };

static int compute_type(int dtype)
{
  return dtype == CN_F64 ? CN_F64 : cni_dtype_is_float(dtype) ? CN_F32 : CN_I64;
}

static const cni_pool_kernels *kernels_of(int compute)
{
  int type = compute == CN_F32 ? 0 : compute == CN_F64 ? 1 : 2;
  const cni_pool_kernels *by_type = CNI_BY_ISA(cni_pool_kernels);
  return &by_type[type];
}

/* ---- packed operands ---- */

/* A tensor as packed memory of another type: its own where it fits. */
typedef struct packed {
  const cn_desc *d;
  int dtype;
  void *data, *room; /* room: our memory, or NULL */
  size_t bytes;
} packed;

static int pack(packed *p, const cn_desc *d, int dtype, bool read)
{
  *p = (packed){.d = d, .dtype = dtype, .data = d->data};
  if (d->dtype == dtype && cni_is_contiguous(d->ndim, d->shape, d->strides)) return CN_OK;
  p->bytes = cni_dtype_bytes(dtype, d->numel);
  p->data = p->room = cni_scratch_alloc(p->bytes);
  if (!p->room) return CN_ERR_MEMORY;
  if (read) {
    cn_desc to = cni_cpu_packed(d, dtype, p->data);
    cni_cpu_copy(&to, d);
  }
  return CN_OK;
}

/* Writes it back when `write`, and frees. */
static void unpack(packed *p, bool write)
{
  if (!p->room) return;
  if (write) {
    cn_desc from = cni_cpu_packed(p->d, p->dtype, p->data);
    cni_cpu_copy(p->d, &from);
  }
  cni_scratch_free(p->room, p->bytes);
}

/* ---- one call ---- */

enum kind { MAX, MAX_VALUES, MAX_BACKWARD, AVG, AVG_BACKWARD, ADAPTIVE, ADAPTIVE_MAX, ADAPTIVE_BACKWARD };

typedef struct job {
  cni_pool p;
  enum kind kind;
  const cni_pool_kernels *ker;
  packed x, y, index;
  int64_t size; /* bytes of an element */
  const cn_call *c;
} job;

static void plane_range(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  const cni_pool *p = &j->p;
  for (int64_t i = begin; i < end; i++) {
    char *x = (char *)j->x.data + i * p->h * p->w * j->size,
         *y = (char *)j->y.data + i * p->oh * p->ow * j->size;
    int64_t *index = j->index.data ? (int64_t *)j->index.data + i * p->oh * p->ow : NULL;
    switch (j->kind) {
    case MAX: j->ker->max(p, x, y, index); break;
    case MAX_VALUES: j->ker->max_values(p, x, y); break;
    case MAX_BACKWARD:
      if (!j->ker->max_backward(p, x, y, index)) {
        cn_call_fail(j->c, CN_ERR_INDEX, "an index lies outside the image of %lld x %lld", (long long)p->h,
                     (long long)p->w);
        return;
      }
      break;
    case AVG: j->ker->avg(p, x, y); break;
    case AVG_BACKWARD: j->ker->avg_backward(p, x, y); break;
    case ADAPTIVE: j->ker->adaptive(p, x, y); break;
    case ADAPTIVE_MAX: j->ker->adaptive_max(p, x, y, index); break;
    case ADAPTIVE_BACKWARD: j->ker->adaptive_backward(p, x, y); break;
    }
  }
}

/* Runs the planes of image tensors x (h, w) and y (oh, ow); index may be NULL. Backward kinds read y and write x. */
static int run(cn_call *c, job *j, const cn_desc *x, const cn_desc *y, const cn_desc *index)
{
  bool back = j->kind == MAX_BACKWARD || j->kind == AVG_BACKWARD || j->kind == ADAPTIVE_BACKWARD;
  int compute = compute_type(x->dtype);
  cni_pool *p = &j->p;
  j->c = c;
  j->ker = kernels_of(compute);
  j->size = (int64_t)cni_dtype_size(compute);
  p->h = x->shape[x->ndim - 2];
  p->w = x->shape[x->ndim - 1];
  p->oh = y->shape[y->ndim - 2];
  p->ow = y->shape[y->ndim - 1];
  if (y->numel == 0) p->oh = p->ow = 0; /* many empty rows are no work either */
  int status = pack(&j->x, x, compute, !back);
  if (!status) status = pack(&j->y, y, compute, back);
  if (!status && index) status = pack(&j->index, index, CN_I64, back);
  if (!status) {
    int64_t planes = x->numel / (p->h * p->w), window = p->kernel[0] * p->kernel[1];
    int64_t work = p->oh * p->ow * (window < 1 ? 1 : window) + p->h * p->w;
    cni_parallel_for(planes, GRAIN_WORK / work + 1, plane_range, j);
    status = cn_err();
  }
  unpack(&j->x, back && !status);
  unpack(&j->y, !back && !status);
  unpack(&j->index, !back && !status);
  return status;
}

/* Reads pairs; stride None means the kernel's. */
static void read_windows(cni_pool *p, const cn_value *kernel, const cn_value *stride, const cn_value *padding)
{
  bool none = stride->tag == CN_V_NONE || (stride->tag == CN_V_INTS && stride->n == 0);
  for (int i = 0; i < 2; i++) {
    p->kernel[i] = cni_pair(kernel, i);
    p->stride[i] = cni_pair(none ? kernel : stride, i);
    p->padding[i] = cni_pair(padding, i);
    p->dilation[i] = 1;
  }
}

static int max_of(cn_call *c, enum kind kind, const cn_desc *index)
{
  job j = {.kind = kind};
  read_windows(&j.p, &c->args[1], &c->args[2], &c->args[3]);
  for (int i = 0; i < 2; i++) j.p.dilation[i] = cni_pair(&c->args[4], i);
  return run(c, &j, cn_desc_of(c->in[0]), cn_desc_of(c->out[0]), index);
}
static int max_kernel(cn_call *c) { return max_of(c, MAX, cn_desc_of(c->out[1])); }
static int max_values_kernel(cn_call *c)
{
  if (compute_type(cn_desc_of(c->in[0])->dtype) == CN_F32) return max_of(c, MAX_VALUES, NULL);
  c->refusal = "not a type that computes in float32";
  return CN_REFUSED;
}

static int max_backward_kernel(cn_call *c)
{
  job j = {.kind = MAX_BACKWARD};
  return run(c, &j, cn_desc_of(c->out[0]), cn_desc_of(c->in[0]), cn_desc_of(c->in[1]));
}

/* first: the index of kernel_size; stride, padding, ceil_mode, count_include_pad, divisor_override follow. */
static void read_average(cni_pool *p, const cn_value *args, int first)
{
  read_windows(p, &args[first], &args[first + 1], &args[first + 2]);
  p->include_pad = cni_arg_bool(args, first + 4);
  p->divisor = cni_arg_int_or(args, first + 5, 0);
}

static int avg_kernel(cn_call *c)
{
  job j = {.kind = AVG};
  read_average(&j.p, c->args, 1);
  return run(c, &j, cn_desc_of(c->in[0]), cn_desc_of(c->out[0]), NULL);
}

static int avg_backward_kernel(cn_call *c)
{
  job j = {.kind = AVG_BACKWARD};
  read_average(&j.p, c->args, 2);
  return run(c, &j, cn_desc_of(c->out[0]), cn_desc_of(c->in[0]), NULL);
}

static int adaptive_kernel(cn_call *c)
{
  job j = {.kind = ADAPTIVE};
  return run(c, &j, cn_desc_of(c->in[0]), cn_desc_of(c->out[0]), NULL);
}

static int adaptive_max_kernel(cn_call *c)
{
  job j = {.kind = ADAPTIVE_MAX};
  return run(c, &j, cn_desc_of(c->in[0]), cn_desc_of(c->out[0]), cn_desc_of(c->out[1]));
}

static int adaptive_backward_kernel(cn_call *c)
{
  job j = {.kind = ADAPTIVE_BACKWARD};
  return run(c, &j, cn_desc_of(c->out[0]), cn_desc_of(c->in[0]), NULL);
}

const cn_kernel cni_cpu_pool_kernels[] = {
    {"max_pool2d_with_indices", "planes", max_kernel},
    {"max_pool2d_values", "planes", max_values_kernel},
    {"max_pool2d_backward", "planes", max_backward_kernel},
    {"avg_pool2d", "planes", avg_kernel},
    {"avg_pool2d_backward", "planes", avg_backward_kernel},
    {"adaptive_avg_pool2d", "planes", adaptive_kernel},
    {"adaptive_max_pool2d_with_indices", "planes", adaptive_max_kernel},
    {"adaptive_avg_pool2d_backward", "planes", adaptive_backward_kernel},
    {NULL, NULL, NULL},
};
