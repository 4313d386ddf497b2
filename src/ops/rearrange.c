/* rearrange.c: the family of ops that lay the elements of one tensor out anew: flip, roll, rotate, repeat, triangles.
 *
 * Place in the flow: apply -> infer -> a backend's kernel for tril and triu; the rest is made of views and copies.
 * Invariant: no result here shares memory with an input. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>

#include "families.h"
#include "shorthand.h"

/* ---- flip, roll ---- */

static int flip_infer(cn_call *c)
{
  uint32_t mask;
  int status = cni_dims_mask_strict(c, &c->args[1], c->in[0]->d.ndim, &mask);
  return status ? status : cn_call_result(c, 0, c->in[0]->d.dtype, c->in[0]->d.ndim, c->in[0]->d.shape);
}
static int flip_decompose(cn_call *c)
{
  cn_tensor *x = c->in[0];
  for (int i = 0; i < c->args[1].n && x->d.ndim; i++)
    if (!(x = cn_slice(x, c->args[1].u.is[i], CN_NONE, CN_NONE, .step = -1))) return cn_err();
  c->out[0] = cn_contiguous_copy(x);
  return cn_err();
}
static int flip_vjp(cn_vjp *v)
{
  v->gin[0] = cn_flip(v->g[0], v->args[1].u.is, (size_t)v->args[1].n);
  return cn_err();
}

/* roll(input, shifts, dims) */
static int roll_infer(cn_call *c)
{
  if (c->in[0]->d.ndim == 0 && c->args[2].n > 0)
    return cn_call_fail(c, CN_ERR_INDEX, "a zero-dimensional tensor has no dimension to roll along");
  const cn_value *shifts = &c->args[1], *dims = &c->args[2];
  if (shifts->n == 0) return cn_call_fail(c, CN_ERR_VALUE, "needs at least one shift");
  if (dims->n ? dims->n != shifts->n : shifts->n != 1)
    return cn_call_fail(c, CN_ERR_VALUE, "%d shifts are given for %d dims", shifts->n, dims->n);
  for (int i = 0; i < dims->n; i++) {
    int d = cn_call_dim(c, dims->u.is[i], c->in[0]->d.ndim);
    if (d < 0) return d;
  }
  return cn_call_result(c, 0, c->in[0]->d.dtype, c->in[0]->d.ndim, c->in[0]->d.shape);
}

static cn_tensor *roll_one(cn_tensor *x, int64_t dim, int64_t shift)
{
  int64_t n = cn_size(x, dim), head = n ? shift % n : 0;
  if (head < 0) head += n;
  if (head == 0) return x;
  return cn_cat(CN_TENSORS(cn_slice(x, dim, n - head, CN_NONE), cn_slice(x, dim, 0, n - head)),
                .dim = cni_option(dim));
}
static int roll_decompose(cn_call *c)
{
  const cn_value *shifts = &c->args[1], *dims = &c->args[2];
  cn_tensor *x = c->in[0];
  if (x->d.ndim == 0 || x->d.numel == 0) {
    c->out[0] = cn_contiguous_copy(x);
    return cn_err();
  }
  if (dims->n == 0) x = roll_one(cn_reshape(x, CN_SHAPE(-1)), 0, shifts->u.is[0]);
  for (int i = 0; i < dims->n && x; i++) x = roll_one(x, dims->u.is[i], shifts->u.is[i]);
  if (x && dims->n == 0) x = cn_view(x, c->in[0]->d.shape, (size_t)c->in[0]->d.ndim);
  if (x) c->out[0] = x->storage == c->in[0]->storage || x->view || !cn_is_contiguous(x) ? cn_contiguous_copy(x) : x;
  return cn_err();
}
static int roll_vjp(cn_vjp *v)
{
  const cn_value *shifts = &v->args[1], *dims = &v->args[2];
  cn_tensor *g = v->g[0];
  if (dims->n == 0) {
    v->gin[0] = cn_roll(g, CN_SHAPE(-shifts->u.is[0]));
    return cn_err();
  }
  for (int i = 0; i < dims->n && g; i++)
    g = cn_roll(g, CN_SHAPE(-shifts->u.is[i]), .dims = CN_INTS(dims->u.is[i]));
  v->gin[0] = g;
  return cn_err();
}

/* ---- rotations ---- */

/* rot90(input, k, dims) */
static int rot90_decompose(cn_call *c)
{
  cn_tensor *x = c->in[0];
  const cn_value *dims = &c->args[2];
  int ndim = x->d.ndim;
  if (dims->n != 2) return cn_call_fail(c, CN_ERR_VALUE, "takes two dims to rotate in, not %d", dims->n);
  if (ndim < 2) return cn_call_fail(c, CN_ERR_SHAPE, "needs at least 2 dimensions, not %d", ndim);
  int a = cn_call_dim(c, dims->u.is[0], ndim), b = cn_call_dim(c, dims->u.is[1], ndim);
  if (a < 0 || b < 0) return cn_err();
  if (a == b) return cn_call_fail(c, CN_ERR_VALUE, "the two dims are the same, %d", a);
  switch (cni_arg_int(c->args, 1) & 3) {
  case 1: c->out[0] = cn_transpose(cn_flip(x, CN_SHAPE(b)), a, b); break;
  case 2: c->out[0] = cn_flip(x, CN_SHAPE(a, b)); break;
  case 3: c->out[0] = cn_transpose(cn_flip(x, CN_SHAPE(a)), a, b); break;
  default: c->out[0] = cn_clone(x);
  }
  return cn_err();
}

static int flip_fixed(cn_call *c, int64_t dim)
{
  if (c->in[0]->d.ndim <= dim)
    return cn_call_fail(c, CN_ERR_SHAPE, "needs at least %lld dimensions, not %d", (long long)dim + 1,
                        (int)c->in[0]->d.ndim);
  c->out[0] = cn_flip(c->in[0], CN_SHAPE(dim));
  return cn_err();
}
static int fliplr_decompose(cn_call *c) { return flip_fixed(c, 1); }
static int flipud_decompose(cn_call *c) { return flip_fixed(c, 0); }

/* ---- repetition: expand, then a reshape that copies ---- */

/* repeat(input, repeats): as (r0, s0, r1, s1, ...), the r expanded, pairs made one. */
static int repeat_as(cn_call *c, const int64_t *repeats, int n)
{
  const cn_desc *d = &c->in[0]->d;
  int lead = n - d->ndim, wide = 0, final = 0;
  bool all = cni_capturing_now() && 2 * n <= CN_MAX_DIMS;
  int64_t split[2 * CN_MAX_DIMS], want[2 * CN_MAX_DIMS], shape[CN_MAX_DIMS];
  if (lead < 0)
    return cn_call_fail(c, CN_ERR_SHAPE, "%d repeats are given for a tensor of %d dimensions", n, (int)d->ndim);
  if (n > CN_MAX_DIMS) return cn_call_fail(c, CN_ERR_SHAPE, "%d dimensions are too many", n);
  for (int i = 0; i < n; i++) {
    int64_t size = i < lead ? 1 : d->shape[i - lead];
    if (repeats[i] < 0) return cn_call_fail(c, CN_ERR_VALUE, "repeat %lld is negative", (long long)repeats[i]);
    if (__builtin_mul_overflow(size, repeats[i], &shape[final++]))
      return cn_call_fail(c, CN_ERR_SHAPE, "the result is too large");
    int64_t times = size || all ? repeats[i] : 1; /* of nothing: as often as can be multiplied */
    if (times != 1 || all) split[wide] = 1, want[wide++] = times;
    if (size != 1 || all) split[wide] = want[wide] = size, wide++;
  }
  if (wide > CN_MAX_DIMS) return cn_call_fail(c, CN_ERR_SHAPE, "too many dimensions are repeated at once");
  cn_tensor *x = cn_expand(cn_reshape(c->in[0], split, (size_t)wide), want, (size_t)wide);
  x = cn_reshape(x, shape, (size_t)final);
  c->out[0] = cni_apart(x, c->in[0]); /* nothing was repeated: a copy all the same */
  return cn_err();
}

static int repeat_decompose(cn_call *c) { return repeat_as(c, c->args[1].u.is, c->args[1].n); }

/* tile(input, dims): missing leading dims count as 1. */
static int tile_decompose(cn_call *c)
{
  int64_t repeats[CN_MAX_DIMS];
  int n = c->args[1].n, ndim = c->in[0]->d.ndim, lead = ndim > n ? ndim - n : 0;
  if (n > CN_MAX_DIMS) return cn_call_fail(c, CN_ERR_SHAPE, "%d dimensions are too many", n);
  for (int i = 0; i < lead + n; i++) repeats[i] = i < lead ? 1 : c->args[1].u.is[i - lead];
  return repeat_as(c, repeats, lead + n);
}

/* ---- triangles ---- */

static int triangle_infer(cn_call *c)
{
  if (c->in[0]->d.ndim < 2) return cn_call_fail(c, CN_ERR_SHAPE, "needs at least 2 dimensions");
  return cn_call_result(c, 0, c->in[0]->d.dtype, c->in[0]->d.ndim, c->in[0]->d.shape);
}
static int tril_vjp(cn_vjp *v)
{
  v->gin[0] = cn_tril(v->g[0], .diagonal = cni_arg_int(v->args, 1));
  return cn_err();
}
static int triu_vjp(cn_vjp *v)
{
  v->gin[0] = cn_triu(v->g[0], .diagonal = cni_arg_int(v->args, 1));
  return cn_err();
}

/* clang-format off */
const cn_op cni_rearrange_ops[] = {
  {.sig = "flip(Tensor input, int[] dims) -> Tensor ; method complex",
   .doc = "A copy with the order of elements reversed along these dimensions.",
   .infer = flip_infer, .vjp = flip_vjp, .decompose = flip_decompose},
  {.sig = "fliplr(Tensor input) -> Tensor ; method complex",
   .doc = "A copy with dimension 1 reversed.",
   .flags = CN_OP_COMPOSITE, .decompose = fliplr_decompose},
  {.sig = "flipud(Tensor input) -> Tensor ; method complex",
   .doc = "A copy with dimension 0 reversed.",
   .flags = CN_OP_COMPOSITE, .decompose = flipud_decompose},
  {.sig = "roll(Tensor input, int[] shifts, int[] dims=[]) -> Tensor ; method complex",
   .doc = "Elements moved on by shifts along dims; what leaves at one end comes in at the other. Without dims, of "
          "the flattened tensor.",
   .infer = roll_infer, .vjp = roll_vjp, .decompose = roll_decompose},
  {.sig = "rot90(Tensor input, int k=1, int[] dims=[0,1]) -> Tensor ; method complex",
   .doc = "input rotated k times by 90 degrees in the plane of two dims, from the first towards the second.",
   .flags = CN_OP_COMPOSITE, .decompose = rot90_decompose},
  {.sig = "repeat(Tensor input, int[] repeats) -> Tensor ; method grad_fn complex",
   .doc = "The whole tensor repeated that often along each dimension; more repeats than dimensions add leading ones.",
   .flags = CN_OP_COMPOSITE, .decompose = repeat_decompose},
  {.sig = "tile(Tensor input, int[] dims) -> Tensor ; method grad_fn_RepeatBackward0 complex",
   .doc = "Like repeat, but fewer counts than dimensions are allowed and stand for the last ones.",
   .flags = CN_OP_COMPOSITE, .decompose = tile_decompose},
  {.sig = "tril(Tensor input, int diagonal=0) -> Tensor ; method inplace complex_parts",
   .doc = "The lower triangle of the last two dimensions, zero above it; diagonal > 0 keeps that many more above.",
   .flags = CN_OP_ALIAS_SAFE, .infer = triangle_infer, .vjp = tril_vjp},
  {.sig = "triu(Tensor input, int diagonal=0) -> Tensor ; method inplace complex_parts",
   .doc = "The upper triangle of the last two dimensions, zero below it; diagonal > 0 leaves that many more out.",
   .flags = CN_OP_ALIAS_SAFE, .infer = triangle_infer, .vjp = triu_vjp},
};
/* clang-format on */
CNI_FAMILY(rearrange);
