/* fft.c: discrete Fourier transforms by cuFFT: fft_c2c and fft_r2c along lines of any length; fft_c2r is left to its
 * decomposition, which ignores what cuFFT does not promise to ignore.
 *
 * Place in the flow: opened by libraries.c when first needed; without cuFFT the CPU's kernel on copies. Plans are kept
 * by what they were made for. Invariant: a plan stays for good, because a recorded graph reads its tables; it has no
 * memory to work in of its own, that comes with each call. */
#include "fft.h"

#include <math.h>
#include <string.h>

#ifndef CNI_HAVE_CUFFT_H
const cn_kernel cni_cuda_fft_kernels[] = {{NULL, NULL, NULL}};
#else

enum { MOST_PLANS = 1024 };
enum { UNSCALED, ORTHO, BY_COUNT }; /* as in ops/fft.c */

typedef struct plan {
  int device;
  cufftType type;
  int64_t points, lines;
  cufftHandle handle;
  size_t work;
  bool refused;
} plan;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list, and of plans, that have one stream at a time */
static plan plans[MOST_PLANS];
static int nplans;

/* ---- plans ---- */

static cufftResult make(plan *p)
{
  const cni_cuda_fft_table *fft = cni_cuda_fft();
  long long n = p->points;
  cufftResult r = fft->cufftCreate(&p->handle);
  if (r != CUFFT_SUCCESS) return r;
  r = fft->cufftSetAutoAllocation(p->handle, 0);
  if (r == CUFFT_SUCCESS)
    r = fft->cufftMakePlanMany64(p->handle, 1, &n, NULL, 1, n, NULL, 1, n, p->type, p->lines, &p->work);
  if (r != CUFFT_SUCCESS) fft->cufftDestroy(p->handle);
  return r;
}

/* NULL: cuFFT cannot, or too many are kept. Holds the lock. */
static plan *find(const plan *wanted)
{
  for (int i = 0; i < nplans; i++)
    if (plans[i].device == wanted->device && plans[i].type == wanted->type && plans[i].points == wanted->points &&
        plans[i].lines == wanted->lines)
      return plans[i].refused ? NULL : &plans[i];
  if (nplans == MOST_PLANS) return NULL;
  plan *p = &plans[nplans++];
  *p = *wanted;
  cufftResult r = make(p);
  p->refused = r != CUFFT_SUCCESS;
  if (p->refused) cni_cuda_host->log(CN_LOG_DEBUG, "cuda: cuFFT has no plan: status %d", (int)r);
  return p->refused ? NULL : p;
}

static cufftResult execute(const plan *p, void *in, void *out, int direction)
{
  const cni_cuda_fft_table *fft = cni_cuda_fft();
  switch (p->type) {
  case CUFFT_C2C: return fft->cufftExecC2C(p->handle, in, out, direction);
  case CUFFT_Z2Z: return fft->cufftExecZ2Z(p->handle, in, out, direction);
  case CUFFT_R2C: return fft->cufftExecR2C(p->handle, in, out);
  default: return fft->cufftExecD2Z(p->handle, in, out);
  }
}

/* CN_REFUSED: there is no plan. */
static int transform(cni_cuda_device *d, const char *name, const plan *wanted, void *in, void *out, int direction)
{
  const cni_cuda_fft_table *fft = cni_cuda_fft();
  cufftResult r = CUFFT_SUCCESS;
  int status = CN_OK;
  pthread_mutex_lock(&lock);
  const plan *p = find(wanted);
  void *work = p && p->work ? cni_cuda_scratch(d, name, p->work) : NULL;
  if (!p) status = CN_REFUSED;
  else if (p->work && !work) status = CN_ERR_MEMORY;
  else {
    r = fft->cufftSetStream(p->handle, (cudaStream_t)cni_cuda_now(d)->stream);
    if (r == CUFFT_SUCCESS && work) r = fft->cufftSetWorkArea(p->handle, work);
    if (r == CUFFT_SUCCESS) r = execute(p, in, out, direction);
  }
  if (work) cni_cuda_free(d, work, p->work);
  pthread_mutex_unlock(&lock);
  if (r != CUFFT_SUCCESS) return cni_cuda_host->fail(CN_ERR_DEVICE, "%s: cuFFT: status %d", name, (int)r);
  return status ? status : cni_cuda_launched(d, name);
}

/* ---- the ops ---- */

/* As in kernels/fft.cu. */
typedef struct scale_job {
  void *y;
  int64_t n;
  double factor;
} scale_job;

static int scale(cni_cuda_device *d, const char *name, const cni_cuda_operand *y, int64_t points, int64_t scaling)
{
  scale_job job = {y->data, y->desc->numel, scaling == ORTHO ? 1 / sqrt((double)points) : 1 / (double)points};
  if (scaling == UNSCALED) return CN_OK;
  cni_cuda_code code = {.file = "fft.cu", .entry = "scale", .types = {y->dense.dtype}};
  return cni_cuda_run(d, name, &code, cni_cuda_grid_for(d, job.n), &job);
}

/* cuFFT takes a complex number at a multiple of its size alone: a part of a tensor may begin between two. Then the
 * operand becomes memory of ours, with what it held. */
static int align(cni_cuda_operand *o, cni_cuda_device *d, const char *name)
{
  if ((uintptr_t)o->data % (2 * cn_element_size(o->dense.dtype)) == 0) return CN_OK;
  o->bytes = cn_element_bytes(o->dense.dtype, o->dense.numel);
  o->copy = o->data = o->dense.data = cni_cuda_scratch(d, name, o->bytes);
  return o->copy ? cni_cuda_copy_desc(d, name, &o->dense, o->desc) : CN_ERR_MEMORY;
}

/* points of each of x's lines, which have `scalars` numbers. */
static int run(cn_call *c, cufftType narrow, cufftType wide, int64_t points, int64_t scalars, int direction,
               int64_t scaling)
{
  const cn_desc *x = cn_desc_of(c->in[0]), *y = cn_desc_of(c->out[0]);
  const char *name = cni_cuda_host->op_name(c->op);
  cni_cuda_device *d = cni_cuda_of(c);
  cni_cuda_operand ox = {0}, oy = {0};
  if (!d) return CN_ERR_DEVICE;
  if (!cni_cuda_fft()) return cni_cuda_refuse(c, "cuFFT is not there");
  if (x->numel == 0) return CN_OK;
  int type = x->dtype == CN_F64 ? CN_F64 : CN_F32;
  plan wanted = {.device = d->index, .type = type == CN_F64 ? wide : narrow, .points = points};
  wanted.lines = x->numel / scalars;
  int status = cni_cuda_take(&ox, d, name, x, type);
  if (!status) status = align(&ox, d, name);
  if (!status) status = cni_cuda_room(&oy, d, name, y, type);
  if (!status) status = align(&oy, d, name);
  if (!status) status = transform(d, name, &wanted, ox.data, oy.data, direction);
  if (status == CN_REFUSED) c->refusal = "cuFFT has no plan";
  if (!status) status = scale(d, name, &oy, points, scaling);
  cni_cuda_drop(&ox, d);
  return oy.desc ? cni_cuda_give(&oy, d, name, status) : status;
}

/* fft_c2c(input (..., n, 2), inverse, scaling) */
static int pairs_kernel(cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[0]);
  int64_t n = x->shape[x->ndim - 2];
  return run(c, CUFFT_C2C, CUFFT_Z2Z, n, 2 * n, c->args[1].u.i ? CUFFT_INVERSE : CUFFT_FORWARD, c->args[2].u.i);
}

/* fft_r2c(input (..., n), scaling) */
static int real_kernel(cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[0]);
  int64_t n = x->shape[x->ndim - 1];
  return run(c, CUFFT_R2C, CUFFT_D2Z, n, n, CUFFT_FORWARD, c->args[1].u.i);
}

const cn_kernel cni_cuda_fft_kernels[] = {
    {"fft_c2c", "cufft", pairs_kernel},
    {"fft_r2c", "cufft", real_kernel},
    {NULL, NULL, NULL},
};
#endif
