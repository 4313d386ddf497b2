/* pad.c: the family of ops that put a border around a tensor, or with negative sizes cut one off.
 *
 * Place in the flow: constant borders have a kernel (cpu/pad.c) and, elsewhere, a fill and a copy; the other borders
 * are slices of the tensor itself, put together by cat. Invariant: pads come in pairs (before, after), the last dim's
 * first. */
#include <cairn/kw.h>

#include "families.h"
#include "shorthand.h"

enum { PAD = 1, MODE = 2, VALUE = 3 }; /* parameters of pad; constant_pad_nd has its value at MODE */

/* ---- constant_pad_nd(input, pad, value) ---- */

static int64_t before_of(const cn_value *pad, int ndim, int dim)
{
  int pair = ndim - 1 - dim;
  return 2 * pair < pad->n ? pad->u.is[2 * pair] : 0;
}
static int64_t after_of(const cn_value *pad, int ndim, int dim)
{
  int pair = ndim - 1 - dim;
  return 2 * pair < pad->n ? pad->u.is[2 * pair + 1] : 0;
}

__extension__ typedef __int128 wide; /* both pads at once may not fit where their sum does */

static int padded_shape(const cn_call *c, const cn_value *pad, int64_t *shape)
{
  const cn_desc *d = &c->in[0]->d;
  if (pad->n % 2) return cn_call_fail(c, CN_ERR_VALUE, "pad must hold pairs, but has %d numbers", pad->n);
  if (pad->n > 2 * d->ndim)
    return cn_call_fail(c, CN_ERR_SHAPE, "%d pairs are given for a tensor of %d dimensions", pad->n / 2, d->ndim);
  for (int i = 0; i < d->ndim; i++) {
    int64_t before = before_of(pad, d->ndim, i), after = after_of(pad, d->ndim, i);
    wide size = (wide)d->shape[i] + before + after;
    if (size > INT64_MAX) return cn_call_fail(c, CN_ERR_SHAPE, "the result is too large");
    shape[i] = (int64_t)size;
    if (size < 0)
      return cn_call_fail(c, CN_ERR_SHAPE, "size %lld of dimension %d and pads %lld and %lld leave less than nothing",
                          (long long)d->shape[i], i, (long long)before, (long long)after);
  }
  return CN_OK;
}

static int constant_pad_infer(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  int64_t shape[CN_MAX_DIMS];
  int status = padded_shape(c, &c->args[PAD], shape);
  if (!status) status = cn_call_result(c, 0, d->dtype, d->ndim, shape);
  if (status || d->ndim < 4 || !cni_is_channels_last(d->ndim, d->shape, d->strides) ||
      cni_is_contiguous(d->ndim, d->shape, d->strides))
    return status;
  cni_channels_last_strides(d->ndim, shape, c->spec[0].strides);
  c->spec[0].has_strides = true;
  return CN_OK;
}

/* length elements of a dim from `skip` on, as a view; x itself where that is all. */
static cn_tensor *part(cn_tensor *x, int dim, int64_t skip, int64_t length)
{
  return skip == 0 && x && length == x->d.shape[dim] ? x : cn_slice(x, dim, skip, skip + length);
}

static int constant_pad_decompose(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  const cn_value *pad = &c->args[PAD];
  int64_t shape[CN_MAX_DIMS];
  int status = padded_shape(c, pad, shape);
  if (status) return status;
  cn_tensor *y = cn_full(shape, (size_t)d->ndim, cni_arg_float(c->args, 2), .dtype = cn_dtype_of(c->in[0]),
                         .device = d->device);
  cn_tensor *from = c->in[0], *to = y;
  for (int i = 0; i < d->ndim && from && to; i++) {
    int64_t before = before_of(pad, d->ndim, i), after = after_of(pad, d->ndim, i);
    int64_t length = d->shape[i] + (before < 0 ? before : 0) + (after < 0 ? after : 0);
    if (length < 0) length = 0;
    from = part(from, i, before < 0 ? -before : 0, length);
    to = part(to, i, before > 0 ? before : 0, length);
  }
  cn_copy_(to, from);
  c->out[0] = y;
  return cn_err();
}

static int constant_pad_vjp(cn_vjp *v)
{
  int64_t pad[2 * CN_MAX_DIMS];
  for (int i = 0; i < v->args[PAD].n; i++) pad[i] = -v->args[PAD].u.is[i];
  v->gin[0] = cn_constant_pad_nd(v->g[0], pad, (size_t)v->args[PAD].n);
  return cn_err();
}

/* ---- borders made of the tensor itself ---- */

/* One dim of x with `before` and `after` more elements, or fewer. Pieces that reach over both ends are errors the
 * caller has ruled out. */
static cn_tensor *pad_dim(cn_tensor *x, int dim, int64_t before, int64_t after, char mode)
{
  int64_t n = x->d.shape[dim], shape[CN_MAX_DIMS], first = before < 0 ? -before : 0, last = after < 0 ? n + after : n;
  cn_tensor *list[3];
  size_t count = 0;
  memcpy(shape, x->d.shape, (size_t)x->d.ndim * sizeof *shape);
  if (mode == 'c' && (first || last < n)) { /* around a ring: what was cut off is gone */
    x = cn_slice(x, dim, first, last);
    n = last - first, first = 0, last = n;
  }
  if (before > 0) {
    shape[dim] = before;
    list[count++] = mode == 'c'   ? cn_slice(x, dim, n - before, n)
                    : mode == 'e' ? cn_expand(cn_slice(x, dim, 0, 1), shape, (size_t)x->d.ndim)
                                  : cn_slice(x, dim, before, 0, .step = -1);
  }
  if (last > first) list[count++] = part(x, dim, first, last - first);
  if (after > 0) {
    shape[dim] = after;
    list[count++] = mode == 'c'   ? cn_slice(x, dim, 0, after)
                    : mode == 'e' ? cn_expand(cn_slice(x, dim, n - 1, n), shape, (size_t)x->d.ndim)
                    : after + 1 == n ? cn_slice(x, dim, n - 2, CN_NONE, .step = -1)
                                     : cn_slice(x, dim, n - 2, n - 2 - after, .step = -1);
  }
  if (count == 0) return cn_slice(x, dim, 0, 0);
  return count == 1 ? list[0] : cn_cat(list, count, .dim = cni_option(dim));
}

static int check_border(const cn_call *c, int dim, int64_t before, int64_t after, char mode)
{
  int64_t n = c->in[0]->d.shape[dim], most = mode == 'r' ? n - 1 : mode == 'c' ? n : INT64_MAX;
  if (before > most || after > most)
    return cn_call_fail(c, CN_ERR_SHAPE, "pads %lld and %lld of dimension %d must %s its size %lld", (long long)before,
                        (long long)after, dim, mode == 'r' ? "be smaller than" : "not exceed", (long long)n);
  if (n == 0 || n + before + after < 1 || before < -n || after < -n)
    return cn_call_fail(c, CN_ERR_SHAPE, "pads %lld and %lld leave nothing of dimension %d of size %lld",
                        (long long)before, (long long)after, dim, (long long)n);
  return CN_OK;
}

static int pad_by_itself(cn_call *c, char mode)
{
  const cn_value *pad = &c->args[PAD];
  cn_tensor *x = c->in[0];
  int ndim = x->d.ndim, dims = pad->n / 2;
  if (pad->n % 2 || dims < 1 || dims > 3 || (ndim != dims + 1 && ndim != dims + 2))
    return cn_call_fail(c, CN_ERR_SHAPE,
                        "%d pads do not fit %d dimensions: other than constant borders are for the last 1, 2 or 3 "
                        "dimensions behind channels, with or without a batch", pad->n, ndim);
  for (int i = 0; i < ndim - dims; i++)
    if (x->d.shape[i] == 0 && (i > 0 || ndim == dims + 1))
      return cn_call_fail(c, CN_ERR_SHAPE, "dimension %d must not be empty; only a batch may be", i);
  for (int i = ndim - dims; i < ndim; i++) {
    int status = check_border(c, i, before_of(pad, ndim, i), after_of(pad, ndim, i), mode);
    if (status) return status;
  }
  for (int i = ndim - dims; i < ndim && x; i++) {
    int64_t before = before_of(pad, ndim, i), after = after_of(pad, ndim, i);
    if (before || after) x = pad_dim(x, i, before, after, mode);
  }
  c->out[0] = x == c->in[0] ? cn_clone(x) : x;
  return cn_err();
}

/* pad(input, pad, mode, value) */
static int pad_decompose(cn_call *c)
{
  const cn_value *pad = &c->args[PAD];
  bool valued = !cni_arg_none(c->args, VALUE) && cni_arg_float(c->args, VALUE) != 0;
  if (cni_arg_is(c->args, MODE, "constant")) {
    double value = valued ? cni_arg_float(c->args, VALUE) : 0;
    c->out[0] = cn_constant_pad_nd(c->in[0], pad->u.is, (size_t)pad->n, .value = value);
    return cn_err();
  }
  if (valued) return cn_call_fail(c, CN_ERR_VALUE, "mode '%s' takes no value", cni_arg_str(c->args, MODE));
  if (cni_arg_is(c->args, MODE, "reflect")) return pad_by_itself(c, 'r');
  if (cni_arg_is(c->args, MODE, "replicate")) return pad_by_itself(c, 'e');
  if (cni_arg_is(c->args, MODE, "circular")) return pad_by_itself(c, 'c');
  return cn_call_fail(c, CN_ERR_UNSUPPORTED, "mode must be 'constant', 'reflect', 'replicate' or 'circular', not '%s'",
                      cni_arg_str(c->args, MODE));
}

/* clang-format off */
const cn_op cni_pad_ops[] = {
  {.sig = "constant_pad_nd(Tensor input, int[] pad, Scalar value=0) -> Tensor",
   .doc = "input with a border of value: pad holds pairs of sizes before and after, of the last dimension first. "
          "Negative sizes cut off.",
   .flags = CN_OP_ANY_DTYPE, .infer = constant_pad_infer, .vjp = constant_pad_vjp, .decompose = constant_pad_decompose},
  {.sig = "pad(Tensor input, int[] pad, str mode='constant', float? value=None) -> Tensor ; nn complex",
   .doc = "input with a border: 'constant' (of value, any dimensions), 'reflect' (mirrored without the edge), "
          "'replicate' (the edge repeated) or 'circular' (the other end), these over the last 1 to 3 dimensions behind "
          "the channels. pad holds pairs of sizes before and after, of the last dimension first; negative ones cut.",
   .flags = CN_OP_COMPOSITE, .decompose = pad_decompose},
};
/* clang-format on */
CNI_FAMILY(pad);
