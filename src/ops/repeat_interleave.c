/* repeat_interleave.c: the family of ops that repeat elements next to themselves: as often each, or by counts.
 *
 * Place in the flow: composites over expand and index_select; one op, which makes indices of counts, has a kernel
 * (cpu/index/repeat_interleave.c). Invariant: only counts read from a tensor make a result whose size depends on
 * data. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>

#include "families.h"
#include "shorthand.h"

/* repeat_interleave(input, repeats, dim) */
static int repeat_interleave_decompose(cn_call *c)
{
  int64_t repeats = cni_arg_int(c->args, 1), shape[CN_MAX_DIMS + 1];
  cn_tensor *x = c->in[0];
  if (repeats < 0)
    return cn_call_fail(c, CN_ERR_VALUE, "repeats must not be negative, but is %lld", (long long)repeats);
  if (cni_arg_none(c->args, 2) || x->d.ndim == 0) x = cn_reshape(x, CN_SHAPE(-1));
  if (!x) return cn_err();
  int ndim = x->d.ndim, dim = cni_arg_none(c->args, 2) ? 0 : cn_call_dim(c, cni_arg_int(c->args, 2), ndim);
  if (dim < 0) return dim;
  if (ndim == CN_MAX_DIMS) return cn_call_fail(c, CN_ERR_SHAPE, "too many dimensions");
  for (int i = 0; i < ndim; i++) shape[i + (i > dim)] = x->d.shape[i];
  shape[dim + 1] = repeats;
  cn_tensor *wide = cn_expand(cn_unsqueeze(x, dim + 1), shape, (size_t)ndim + 1);
  if (__builtin_mul_overflow(x->d.shape[dim], repeats, &shape[dim]))
    return cn_call_fail(c, CN_ERR_SHAPE, "the result is too large");
  for (int i = dim + 1; i < ndim; i++) shape[i] = x->d.shape[i];
  c->out[0] = cni_apart(cn_reshape(wide, shape, (size_t)ndim), c->in[0]);
  return cn_err();
}

/* ---- by counts ---- */

/* repeat_interleave_indices(repeats, output_size): i, repeats[i] times. */
static int repeat_interleave_indices_infer(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  bool known = !cni_arg_none(c->args, 1);
  int64_t n = known ? cni_arg_int(c->args, 1) : 0;
  if (d->dtype != CN_I64 && d->dtype != CN_I32)
    return cn_call_fail(c, CN_ERR_DTYPE, "repeats must be int64 or int32, not %s", cn_dtype_name((cn_dtype)d->dtype));
  if (d->ndim != 1) return cn_call_fail(c, CN_ERR_SHAPE, "repeats must be a vector, not of %d dimensions", d->ndim);
  if (n < 0) return cn_call_fail(c, CN_ERR_VALUE, "output_size must not be negative");
  int status = cn_call_result(c, 0, d->dtype, 1, &n);
  c->spec[0].data_dependent = !known;
  return status;
}

int64_t cni_size_in(cn_tensor *n)
{
  if (!cni_capturing_now()) return cn_item_int(n);
  cn_tensor *counted = cn_repeat_interleave_indices(cn_reshape(n, CN_SHAPE(1)), CN_NONE); /* as many as n says */
  return counted ? counted->d.shape[0] : 0;
}

/* repeat_interleave_counts(input, repeats, dim, output_size) */
static int repeat_counts_decompose(cn_call *c)
{
  cn_tensor *x = c->in[0], *repeats = c->in[1];
  bool flat = cni_arg_none(c->args, 2) || x->d.ndim == 0;
  if (flat) x = cn_reshape(x, CN_SHAPE(-1));
  if (!x) return cn_err();
  int dim = cni_arg_none(c->args, 2) ? 0 : cn_call_dim(c, cni_arg_int(c->args, 2), x->d.ndim);
  if (dim < 0) return dim;
  int64_t n = x->d.shape[dim];
  if (repeats->d.ndim > 1)
    return cn_call_fail(c, CN_ERR_SHAPE, "repeats must be a number or a vector, not of %d dimensions",
                        (int)repeats->d.ndim);
  if (repeats->d.ndim == 0 || (repeats->d.numel == 1 && n != 1))
    repeats = cn_expand(cn_reshape(repeats, CN_SHAPE(-1)), &n, 1);
  if (repeats && repeats->d.numel != n)
    return cn_call_fail(c, CN_ERR_SHAPE, "%lld repeats are given for size %lld of dimension %d",
                        (long long)repeats->d.numel, (long long)n, dim);
  cn_tensor *indices = cn_repeat_interleave_indices(repeats, cni_arg_int_or(c->args, 3, CN_NONE));
  c->out[0] = cn_index_select(x, dim, indices);
  return cn_err();
}

/* clang-format off */
const cn_op cni_repeat_interleave_ops[] = {
  {.sig = "repeat_interleave(Tensor input, int repeats, int? dim=None) -> Tensor ; method complex",
   .doc = "Each element repeated that often next to itself along dim; without dim, of the flattened tensor.",
   .flags = CN_OP_COMPOSITE, .decompose = repeat_interleave_decompose},
  {.sig = "repeat_interleave_indices(Tensor repeats, *, int? output_size=None) -> Tensor",
   .doc = "Each position of a vector, as often as its element says. output_size, where known, must be their sum; "
          "without it the size of the result depends on the data.",
   .flags = CN_OP_NO_GRAD, .infer = repeat_interleave_indices_infer},
  {.sig = "repeat_interleave_counts(Tensor input, Tensor repeats, int? dim=None, *, int? output_size=None) "
          "-> Tensor ; method overload_repeat_interleave complex",
   .doc = "Each element repeated next to itself along dim as often as repeats says; without dim, of the flattened "
          "tensor. output_size is the sum of repeats, where it is known.",
   .flags = CN_OP_COMPOSITE, .decompose = repeat_counts_decompose},
};
/* clang-format on */
CNI_FAMILY(repeat_interleave);
