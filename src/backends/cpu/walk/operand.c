/* operand.c: tensors in the type and layout that a kernel's loops want. See moments.h.
 *
 * Place in the flow: the first and last step of the normalisation kernels. */
#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/reduce/moments.h"
#include "base/dtype.h"
#include "base/scratch.h"
#include "tensor/tensor.h"

int cni_operand_room(cni_operand *o, const cn_desc *d, int dtype, const int64_t *strides)
{
  bool fits = d->dtype == dtype;
  o->view = *d;
  o->owned = NULL;
  o->view.dtype = dtype;
  if (strides) memcpy(o->view.strides, strides, (size_t)d->ndim * sizeof *strides);
  else cni_contiguous_strides(d->ndim, d->shape, o->view.strides);
  for (int i = 0; fits && i < d->ndim; i++) fits = d->shape[i] == 1 || d->strides[i] == o->view.strides[i];
  o->data = d->data;
  if (fits || d->numel == 0) return CN_OK;
  o->bytes = cni_dtype_bytes(dtype, d->numel);
  o->data = o->view.data = o->owned = cni_scratch_alloc(o->bytes);
  return o->owned ? CN_OK : CN_ERR_MEMORY;
}

int cni_operand_take(cni_operand *o, const cn_desc *d, int dtype, const int64_t *strides)
{
  o->data = o->owned = NULL;
  if (!d) return CN_OK;
  int status = cni_operand_room(o, d, dtype, strides);
  if (!status && o->owned) cni_cpu_copy(&o->view, d);
  return status;
}

void cni_operand_put(cni_operand *o, const cn_desc *d, int status)
{
  if (o->owned && !status) cni_cpu_copy(d, &o->view);
  cni_operand_drop(o);
}

void cni_operand_drop(cni_operand *o)
{
  cni_scratch_free(o->owned, o->bytes);
  o->owned = NULL;
}
