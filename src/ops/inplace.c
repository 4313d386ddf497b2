/* inplace.c: see inplace.h. Invariant: a destination is written only after everything that can fail has been checked;
 * its storage's version moves exactly once per write. */
#include "inplace.h"

#include "api.gen.h"
#include "base/dtype.h"

static int category(int dtype)
{
  return dtype == CN_BOOL ? 0 : cn_dtype_is_float((cn_dtype)dtype) ? 2 : 1;
}

int cni_fail_several(const cni_applying *a)
{
  return cni_fail(CN_ERR_VALUE, "%s: cannot write in place: it does not have one result", a->info->name);
}

int cni_check_dest(const cni_applying *a, int dtype, int ndim, const int64_t *shape)
{
  const cn_desc *d = &a->dest->d;
  if (a->c.nout != 1) return cni_fail_several(a);
  char want[CNI_SHAPE_TEXT], have[CNI_SHAPE_TEXT];
  if (!cni_same_shape(d->ndim, d->shape, ndim, shape))
    return cni_fail(CN_ERR_SHAPE, "%s: the result has shape %s, which does not fit the output's shape %s",
                    a->info->name, cni_shape_text(want, sizeof want, ndim, shape),
                    cni_shape_text(have, sizeof have, d->ndim, d->shape));
  if (category(dtype) > category(d->dtype))
    return cni_fail(CN_ERR_DTYPE, "%s: result type %s cannot be cast to the output's type %s", a->info->name,
                    cn_dtype_name((cn_dtype)dtype), cn_dtype_name((cn_dtype)d->dtype));
  if (d->device != a->c.device)
    return cni_fail(CN_ERR_DEVICE, "%s: the output is on another device than the inputs", a->info->name);
  if (d->weak) return cni_fail(CN_ERR_VALUE, "%s: a number (cn_num) cannot be written to", a->info->name);
  if (cni_may_overlap(d->ndim, d->shape, d->strides))
    return cni_fail(CN_ERR_VALUE,
                    "%s: several elements of the output share one memory location (an expanded tensor, say); "
                    "clone it before writing",
                    a->info->name);
  return CN_OK;
}

static void byte_range(const cn_desc *d, const char **first, const char **last)
{
  int64_t below, above, elem = (int64_t)cni_dtype_size(d->dtype);
  cni_span(d, &below, &above);
  *first = (const char *)d->data - below * elem;
  *last = (const char *)d->data + (above + 1) * elem;
}

/* Is every input either apart from dest in memory, or exactly dest? */
static bool inputs_allow_direct(const cn_call *c, const cn_tensor *dest)
{
  const char *d0, *d1, *x0, *x1;
  if (!dest->d.numel) return true;
  byte_range(&dest->d, &d0, &d1);
  for (int i = 0; i < c->nin; i++) {
    const cn_tensor *t = c->in[i];
    if (!t || t == dest || t->storage != dest->storage || !t->d.numel) continue;
    byte_range(&t->d, &x0, &x1);
    if (x1 <= d0 || d1 <= x0) continue;
    if (t->d.data != dest->d.data || t->d.dtype != dest->d.dtype || !cni_same_layout(&t->d, &dest->d)) return false;
  }
  return true;
}

static void count_write(cn_tensor *t) { atomic_fetch_add_explicit(&t->storage->version, 1, memory_order_relaxed); }

static int run_direct(cni_applying *a)
{
  a->c.out[0] = cni_tensor_keep(a->dest);
  int status = cni_run_kernel(&a->c, a->info);
  if (status) {
    cni_tensor_release(a->dest);
    a->c.out[0] = NULL;
  }
  return status;
}

int cni_run_inplace(cni_applying *a)
{
  cn_tensor *dest = a->dest;
  int status = CN_REFUSED;
  if ((a->info->row->flags & CN_OP_ALIAS_SAFE) && dest->d.dtype == a->c.spec[0].dtype &&
      inputs_allow_direct(&a->c, dest))
    status = run_direct(a);
  if (status == CN_REFUSED) {
    a->dest = NULL;
    status = cni_apply_run(a);
    a->dest = dest;
    if (status) return status;
    cn_tensor *result = a->c.out[0];
    status = cni_copy_elements(dest, result);
    cni_tensor_release(result);
    a->c.out[0] = status ? NULL : cni_tensor_keep(dest);
    return status;
  }
  if (!status) count_write(dest);
  return status;
}

int cni_copy_elements(cn_tensor *dst, cn_tensor *src)
{
  const cni_opinfo *info = cni_ops[CNI_OP_copy];
  cn_tensor *in[2] = {dst, src}, *out[1] = {dst};
  cn_value args[2] = {cn_v_tensor(dst), cn_v_tensor(src)};
  cn_spec spec = {.view_of = -1};
  cn_call c = {.op = info->row, .args = args, .in = in, .out = out, .spec = &spec, .nargs = 2, .nin = 2, .nout = 1,
               .device = dst->d.device};
  int status = cni_run_kernel(&c, info);
  if (status == CN_REFUSED) status = cni_fail(CN_ERR_UNSUPPORTED, "copy: no implementation on this device");
  if (!status) count_write(dst);
  return status;
}

int cni_copy_op(cn_tensor *dest, cn_tensor *src)
{
  cn_value args[2] = {cn_v_tensor(dest), cn_v_tensor(src)};
  return cni_apply1(CNI_OP_copy, args, 2, dest) ? CN_OK : cn_err();
}
