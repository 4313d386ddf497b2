/* pad.c: the CPU kernel of constant_pad_nd: a copy of what is kept and fills of the border around it.
 *
 * Place in the flow: the pad family of ops/pad.c. Invariant: each element of the result is written once: the border is
 * cut into slabs that do not overlap. */
#include "backends/cpu/cpu.h"
#include "base/dtype.h"
#include "tensor/tensor.h"

/* The part of d whose index along dim is start .. start + length - 1. */
static cn_desc narrowed(const cn_desc *d, int dim, int64_t start, int64_t length)
{
  cn_desc part = *d;
  part.data = (char *)d->data + start * d->strides[dim] * (int64_t)cni_dtype_size(d->dtype);
  part.shape[dim] = length;
  part.numel = cni_numel(part.ndim, part.shape);
  return part;
}

static void fill(const cn_desc *d, const cn_desc *value)
{
  if (d->numel) cni_cpu_copy(d, value);
}

/* constant_pad_nd(input, pad, value) */
static int constant_pad_kernel(cn_call *c)
{
  cn_desc x = *cn_desc_of(c->in[0]), y = *cn_desc_of(c->out[0]);
  const cn_value *pad = &c->args[1], *v = &c->args[2];
  union { /* only read */
    double f;
    int64_t i;
  } number = {v->u.f};
  cn_desc value = {.data = &number, .numel = 1, .dtype = CN_F64};
  if (y.numel == 0) return CN_OK;
  if (v->tag != CN_V_FLOAT) number.i = v->u.i, value.dtype = CN_I64;
  for (int dim = 0; dim < y.ndim; dim++) { /* dims before this one are cut down to what is kept */
    int pair = 2 * (y.ndim - 1 - dim);
    int64_t before = pair < pad->n ? pad->u.is[pair] : 0, after = pair < pad->n ? pad->u.is[pair + 1] : 0;
    int64_t skip = before < 0 ? -before : 0, kept = x.shape[dim] - skip + (after < 0 ? after : 0);
    if (kept <= 0) { /* one side alone reaches over the whole */
      fill(&y, &value);
      return CN_OK;
    }
    if (before > 0) {
      cn_desc slab = narrowed(&y, dim, 0, before);
      fill(&slab, &value);
    }
    if (after > 0) {
      cn_desc slab = narrowed(&y, dim, y.shape[dim] - after, after);
      fill(&slab, &value);
    }
    y = narrowed(&y, dim, before > 0 ? before : 0, kept);
    x = narrowed(&x, dim, skip, kept);
  }
  if (y.numel) cni_cpu_copy(&y, &x);
  return CN_OK;
}

const cn_kernel cni_cpu_pad_kernels[] = {{"constant_pad_nd", "slabs", constant_pad_kernel}, {NULL, NULL, NULL}};
