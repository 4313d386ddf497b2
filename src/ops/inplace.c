/* inplace.c: see inplace.h. Invariant: a destination is written only after everything that can fail has been checked;
 * its storage's version moves exactly once per write. */
#include "inplace.h"

#include <cairn/ext/backend.h>

#include "api.gen.h"
#include "base/dtype.h"
#include "hot.h"

int cni_fail_several(const cni_applying *a)
{
  return cni_fail(CN_ERR_VALUE, "%s: cannot write in place: it does not have one result", a->info->name);
}

int cni_check_dest(const cni_applying *a, const cn_tensor *dest, int dtype, int ndim, const int64_t *shape)
{
  const cn_desc *d = &dest->d;
  char want[CNI_SHAPE_TEXT], have[CNI_SHAPE_TEXT];
  if (!cni_same_shape(d->ndim, d->shape, ndim, shape))
    return cni_fail(CN_ERR_SHAPE, "%s: the result has shape %s, which does not fit the output's shape %s",
                    a->info->name, cni_shape_text(want, sizeof want, ndim, shape),
                    cni_shape_text(have, sizeof have, d->ndim, d->shape));
  if (cni_dtype_category(dtype) > cni_dtype_category(d->dtype))
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

static bool apart(const cn_tensor *a, const cn_tensor *b)
{
  const char *a0, *a1, *b0, *b1;
  if (a->storage != b->storage || !a->d.numel || !b->d.numel) return true;
  byte_range(&a->d, &a0, &a1);
  byte_range(&b->d, &b0, &b1);
  return a1 <= b0 || b1 <= a0;
}

static int check_several(const cni_applying *a)
{
  const cn_call *c = &a->c;
  if (!a->info->inplace || a->info->list_result || a->dest != c->in[0]) return cni_fail_several(a);
  for (int i = 0; i < c->nout; i++)
    for (int k = 0; k < i; k++)
      if (c->in[k] == c->in[i] || !apart(c->in[k], c->in[i]))
        return cni_fail(CN_ERR_VALUE, "%s: two of its results would be written to the same memory", a->info->name);
  for (int i = 0; i < c->nin && !cni_state()->no_grad; i++)
    if (c->in[i] && (c->in[i]->node || (c->in[i]->view && cni_tensor_stale(c->in[i]))))
      return cni_fail(CN_ERR_GRAD, "%s: writes several tensors in place and records no gradient; call it between "
                      "cn_no_grad_begin and cn_no_grad_end", a->info->name);
  return CN_OK;
}

int cni_check_dests(const cni_applying *a)
{
  int status = a->c.nout == 1 ? CN_OK : check_several(a);
  for (int i = 0; i < a->c.nout && !status; i++) {
    const cn_spec *s = &a->c.spec[i];
    status = cni_check_dest(a, cni_dest(a, i), s->dtype, s->ndim, s->shape);
  }
  return status;
}

/* Is every input either apart from dest in memory, or exactly dest? */
static bool inputs_allow_direct(const cn_call *c, const cn_tensor *dest)
{
  for (int i = 0; i < c->nin; i++) {
    const cn_tensor *t = c->in[i];
    if (!t || t == dest || apart(t, dest)) continue;
    if (t->d.data != dest->d.data || t->d.dtype != dest->d.dtype || !cni_same_layout(&t->d, &dest->d)) return false;
  }
  return true;
}

/* The kernel with its results where they belong. */
static int run_direct(cni_applying *a)
{
  int status = CN_OK;
  for (int i = 0; i < a->c.nout && !status; i++) status = cni_storage_settle(cni_dest(a, i)->storage);
  if (status) return status;
  for (int i = 0; i < a->c.nout; i++) a->c.out[i] = cni_tensor_keep(cni_dest(a, i));
  status = cni_run_kernel(&a->c, a->info);
  if (status) cni_drop_results(&a->c);
  else
    for (int i = 0; i < a->c.nout; i++) cni_count_write(a->c.out[i]);
  return status;
}

/* Fresh results, then copied. */
static int run_apart(cni_applying *a)
{
  cn_tensor *dest = a->dest;
  a->dest = NULL;
  int status = cni_apply_run(a);
  a->dest = dest;
  for (int i = 0; i < a->c.nout && !status; i++) {
    cn_tensor *result = a->c.out[i];
    status = cni_copy_elements(cni_dest(a, i), result);
    cni_tensor_release(result);
    a->c.out[i] = status ? NULL : cni_tensor_keep(cni_dest(a, i));
  }
  if (status) cni_drop_results(&a->c);
  return status;
}

int cni_run_inplace(cni_applying *a)
{
  bool direct = (a->info->row->flags & CN_OP_ALIAS_SAFE) && cni_device_can(a->c.device, CN_CAN_INPLACE);
  direct = direct && cni_device_can(a->c.device, CN_CAN_STRIDES);
  for (int i = 0; i < a->c.nout && direct; i++)
    direct = cni_dest(a, i)->d.dtype == a->c.spec[i].dtype && inputs_allow_direct(&a->c, cni_dest(a, i));
  int status = direct ? run_direct(a) : CN_REFUSED;
  return status == CN_REFUSED ? run_apart(a) : status;
}

int cni_copy_elements(cn_tensor *dst, cn_tensor *src)
{
  const cni_opinfo *info = cni_ops[CNI_OP_copy];
  cn_tensor *in[2] = {dst, src}, *out[1] = {dst};
  cn_value args[2] = {cn_v_tensor(dst), cn_v_tensor(src)};
  cn_spec spec = {.view_of = -1};
  cn_call c = {.op = info->row, .args = args, .in = in, .out = out, .spec = &spec, .nargs = 2, .nin = 2, .nout = 1,
               .device = dst->d.device, .stream = cni_memory.stream(dst->d.device)};
  int status = cni_storage_settle(dst->storage);
  if (!status) status = cni_run_kernel(&c, info);
  if (status == CN_REFUSED) status = cni_fail(CN_ERR_UNSUPPORTED, "copy: no implementation on this device");
  if (!status) cni_count_write(dst);
  return status;
}

int cni_copy_op(cn_tensor *dest, cn_tensor *src)
{
  cn_value args[2] = {cn_v_tensor(dest), cn_v_tensor(src)};
  return cni_apply1(CNI_OP_copy, args, 2, dest) ? CN_OK : cn_err();
}
