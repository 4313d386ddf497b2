/* operand.c: tensors in the form most kernels want: row-major memory of one type.
 *
 * Place in the flow: between a cn_call and a launch. A tensor that already has that form is used where it lies; another
 * is copied, queued before the kernel. Invariant: memory of ours is freed while work is still queued, because whoever
 * gets it next is queued behind (memory.c). */
#include <string.h>

#include "plugin.h"

bool cni_cuda_is_dense(const cn_desc *d)
{
  int64_t stride = 1;
  for (int i = d->ndim - 1; i >= 0; i--) {
    if (d->shape[i] != 1 && d->strides[i] != stride) return d->numel == 0;
    stride *= d->shape[i];
  }
  return true;
}

void *cni_cuda_scratch(cni_cuda_device *d, const char *name, size_t bytes)
{
  void *memory = cni_cuda_alloc(d, bytes ? bytes : 1);
  if (!memory) cni_cuda_short(d, name, bytes);
  return memory;
}

/* desc's own memory, or row-major memory of ours. *own: whose. */
static int place(cni_cuda_operand *o, cni_cuda_device *d, const char *name, const cn_desc *desc, int dtype, bool *own)
{
  memset(o, 0, sizeof *o);
  o->desc = desc;
  o->dense = *desc;
  o->dense.dtype = dtype ? dtype : desc->dtype;
  o->dense.weak = 0;
  bool here = !desc->weak && desc->device != CN_CPU;
  *own = here && o->dense.dtype == desc->dtype && cni_cuda_is_dense(desc);
  if (!here) o->dense.device = CN_DEVICE_DEFAULT; /* not the host: numbers that lie there are passed by value */
  int64_t stride = 1;
  for (int i = desc->ndim - 1; i >= 0; i--) {
    o->dense.strides[i] = stride;
    stride *= desc->shape[i];
  }
  o->data = desc->data;
  if (*own) return CN_OK;
  o->bytes = cn_element_bytes(o->dense.dtype, desc->numel);
  o->copy = o->data = o->dense.data = cni_cuda_scratch(d, name, o->bytes);
  return o->copy ? CN_OK : CN_ERR_MEMORY;
}

int cni_cuda_take(cni_cuda_operand *o, cni_cuda_device *d, const char *name, const cn_desc *desc, int dtype)
{
  bool own;
  int status = place(o, d, name, desc, dtype, &own);
  if (status || own || desc->numel == 0) return status;
  return cni_cuda_copy_desc(d, name, &o->dense, desc);
}

int cni_cuda_room(cni_cuda_operand *o, cni_cuda_device *d, const char *name, const cn_desc *desc, int dtype)
{
  bool own;
  return place(o, d, name, desc, dtype, &own);
}

int cni_cuda_room_of(cni_cuda_operand *o, cni_cuda_device *d, const char *name, const cn_desc *desc, int dtype,
                     const cn_desc *from)
{
  int status = cni_cuda_room(o, d, name, desc, dtype);
  if (status || desc->numel == 0 || o->data == from->data) return status; /* in place: they are there already */
  return cni_cuda_copy_desc(d, name, &o->dense, from);
}

void cni_cuda_drop(cni_cuda_operand *o, cni_cuda_device *d)
{
  if (o->copy) cni_cuda_free(d, o->copy, o->bytes ? o->bytes : 1);
  o->copy = NULL;
}

int cni_cuda_give(cni_cuda_operand *o, cni_cuda_device *d, const char *name, int status)
{
  if (!status && o->copy && o->desc->numel) status = cni_cuda_copy_desc(d, name, o->desc, &o->dense);
  cni_cuda_drop(o, d);
  return status;
}

cni_cuda_lines cni_cuda_lines_of(const cn_desc *d, int dim)
{
  cni_cuda_lines l = {1, d->ndim ? d->shape[dim] : 1, 1};
  for (int i = 0; i < dim; i++) l.outer *= d->shape[i];
  for (int i = dim + 1; i < d->ndim; i++) l.inner *= d->shape[i];
  return l;
}

int cni_cuda_zero(cni_cuda_device *d, void *data, size_t bytes)
{
  CUstream stream = cni_cuda_now(d)->stream;
  return cni_cuda_check(cni_cuda_driver()->cuMemsetD8Async((CUdeviceptr)(uintptr_t)data, 0, bytes, stream),
                        "clearing memory");
}

bool cni_cuda_rows_of(int64_t *rows, int64_t *apart, const cn_desc *x)
{
  int last = x->ndim - 1;
  int64_t next = -1; /* what the next outer dim must have */
  *apart = 0;
  for (int i = last - 1; i >= 0; i--) {
    if (x->shape[i] == 1) continue;
    if (next >= 0 && x->strides[i] != next) return false;
    if (next < 0) *apart = x->strides[i];
    next = x->strides[i] * x->shape[i];
  }
  *rows = x->shape[last] ? x->numel / x->shape[last] : 0;
  return true;
}
