/* shape.c: the family of ops that lay tensors out anew with views, cat and copies: diagonals, grids, splits by
 * dimension, shuffles of channels and pixels, bits under another type.
 *
 * Place in the flow: all but view_dtype are composites above autograd. Invariant: shapes of results follow from shapes
 * and arguments alone, so that every op here can be captured. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>

#include "base/alloc.h"
#include "families.h"
#include "shorthand.h"

/* ---- diagonals ---- */

/* diag_embed(input, offset, dim1, dim2): the last dim becomes the diagonal of two new ones. */
static int diag_embed_decompose(cn_call *c)
{
  cn_tensor *x = c->in[0];
  int ndim = x->d.ndim + 1, n = 0;
  int64_t offset = cni_arg_int(c->args, 1), shape[CN_MAX_DIMS];
  int a = cn_call_dim(c, cni_arg_int(c->args, 2), ndim), b = cn_call_dim(c, cni_arg_int(c->args, 3), ndim);
  if (a < 0 || b < 0) return cn_err();
  if (x->d.ndim == 0) return cn_call_fail(c, CN_ERR_SHAPE, "needs at least one dimension");
  if (a == b) return cn_call_fail(c, CN_ERR_VALUE, "the diagonal dimensions are the same, %d", a);
  if (ndim > CN_MAX_DIMS) return cn_call_fail(c, CN_ERR_SHAPE, "too many dimensions");
  int64_t extra = offset < 0 ? -offset : offset, length;
  if (offset == INT64_MIN || __builtin_add_overflow(x->d.shape[x->d.ndim - 1], extra, &length))
    return cn_call_fail(c, CN_ERR_SHAPE, "offset %lld is too large", (long long)offset);
  for (int i = 0; i < ndim; i++) shape[i] = i == a || i == b ? length : x->d.shape[n++];
  cn_tensor *zeros = cn_zeros(shape, (size_t)ndim, .dtype = cn_dtype_of(x), .device = x->d.device);
  c->out[0] = cn_diagonal_scatter(zeros, x, .offset = offset, .dim1 = cni_option(a), .dim2 = cni_option(b));
  return cn_err();
}

static cn_tensor *diagonal_matrix(cn_tensor *x, int64_t offset) { return cn_diag_embed(x, .offset = offset); }

/* diag(input, diagonal) */
static int diag_decompose(cn_call *c)
{
  int64_t diagonal = cni_arg_int(c->args, 1);
  int ndim = c->in[0]->d.ndim;
  if (ndim != 1 && ndim != 2) return cn_call_fail(c, CN_ERR_SHAPE, "takes 1 or 2 dimensions, not %d", ndim);
  c->out[0] = ndim == 1 ? diagonal_matrix(c->in[0], diagonal)
                        : cn_contiguous_copy(cn_diagonal(c->in[0], .offset = diagonal));
  return cn_err();
}

static int diagflat_decompose(cn_call *c)
{
  c->out[0] = diagonal_matrix(cn_reshape(c->in[0], CN_SHAPE(-1)), cni_arg_int(c->args, 1));
  return cn_err();
}

/* ---- more dimensions, fewer dimensions ---- */

static int ravel_decompose(cn_call *c)
{
  c->out[0] = cn_reshape(c->in[0], CN_SHAPE(-1));
  return cn_err();
}

static int atleast_1d_decompose(cn_call *c) { return c->out[0] = cni_at_least_nd(c->in[0], 1), cn_err(); }
static int atleast_2d_decompose(cn_call *c) { return c->out[0] = cni_at_least_nd(c->in[0], 2), cn_err(); }
static int atleast_3d_decompose(cn_call *c) { return c->out[0] = cni_at_least_nd(c->in[0], 3), cn_err(); }

/* ---- splits ---- */

static int list_room(cn_call *c, int64_t n)
{
  if (n > c->nout)
    return cn_call_fail(c, CN_ERR_VALUE, "gives %lld results, room was made for %d", (long long)n, c->nout);
  c->nout = (int)n;
  return CN_OK;
}

/* n pieces as equal as can be: the first size % n are one longer. */
static int in_sections(cn_call *c, int dim, int64_t n)
{
  int64_t size = c->in[0]->d.shape[dim], at = 0;
  if (n < 1) return cn_call_fail(c, CN_ERR_VALUE, "the number of sections must be positive, but is %lld", (long long)n);
  int status = list_room(c, n);
  for (int64_t i = 0; !status && i < n; i++) {
    int64_t length = size / n + (i < size % n);
    c->out[i] = cn_slice(c->in[0], dim, at, at + length);
    at += length;
  }
  return status ? status : cn_err();
}

/* Pieces between the indices, with Python's rules for each. */
static int at_indices(cn_call *c, int dim, const cn_value *indices)
{
  int status = list_room(c, (int64_t)indices->n + 1);
  int64_t start = 0;
  for (int i = 0; !status && i <= indices->n; i++) {
    int64_t end = i < indices->n ? indices->u.is[i] : CN_NONE;
    c->out[i] = cn_slice(c->in[0], dim, start, end);
    start = end;
  }
  return status ? status : cn_err();
}

/* tensor_split(input, sections or indices, dim) */
static int tensor_split_decompose(cn_call *c)
{
  if (c->in[0]->d.ndim == 0) return cn_call_fail(c, CN_ERR_SHAPE, "a zero-dimensional tensor cannot be split");
  int dim = cn_call_dim(c, cni_arg_int(c->args, 2), c->in[0]->d.ndim);
  if (dim < 0) return dim;
  return c->args[1].tag == CN_V_INTS ? at_indices(c, dim, &c->args[1])
                                     : in_sections(c, dim, cni_arg_int(c->args, 1));
}

/* hsplit, vsplit, dsplit: along a fixed dim that must divide evenly. */
static int split_fixed(cn_call *c, int dim, int least)
{
  const cn_desc *d = &c->in[0]->d;
  if (d->ndim < least)
    return cn_call_fail(c, CN_ERR_SHAPE, "requires a tensor with at least %d dimensions, not %d", least, d->ndim);
  if (c->args[1].tag == CN_V_INTS) return at_indices(c, dim, &c->args[1]);
  int64_t n = cni_arg_int(c->args, 1);
  if (n < 1 || d->shape[dim] % n)
    return cn_call_fail(c, CN_ERR_VALUE, "size %lld of dimension %d is not divisible by %lld",
                        (long long)d->shape[dim], dim, (long long)n);
  return in_sections(c, dim, n);
}
static int hsplit_decompose(cn_call *c) { return split_fixed(c, c->in[0]->d.ndim > 1, 1); }
static int vsplit_decompose(cn_call *c) { return split_fixed(c, 0, 2); }
static int dsplit_decompose(cn_call *c) { return split_fixed(c, 2, 3); }

/* ---- grids ---- */

static int broadcast_to_decompose(cn_call *c)
{
  c->out[0] = cn_expand(c->in[0], c->args[1].u.is, (size_t)c->args[1].n);
  return cn_err();
}
static int expand_as_decompose(cn_call *c)
{
  c->out[0] = cn_expand(c->in[0], c->in[1]->d.shape, (size_t)c->in[1]->d.ndim);
  return cn_err();
}

static int broadcast_tensors_decompose(cn_call *c)
{
  int64_t shape[CN_MAX_DIMS];
  int ndim = 0, status = list_room(c, c->nin);
  if (!status && c->nin) status = cni_broadcast_inputs(c, c->in, c->nin, &ndim, shape);
  for (int i = 0; !status && i < c->nin; i++) c->out[i] = cn_expand(c->in[i], shape, (size_t)ndim);
  return status ? status : cn_err();
}

/* Vector number i of n as a grid over all of them; swap: the first two dims change places ('xy'). */
static cn_tensor *grid_of(const cn_call *c, int i, bool swap)
{
  int64_t shape[CN_MAX_DIMS], own[CN_MAX_DIMS];
  int n = c->nin;
  for (int k = 0; k < n; k++) {
    int at = swap && k < 2 ? 1 - k : k;
    shape[at] = c->in[k]->d.numel;
    own[at] = k == i ? shape[at] : 1;
  }
  return cn_expand(cn_reshape(c->in[i], own, (size_t)n), shape, (size_t)n);
}

static int check_vectors(const cn_call *c)
{
  if (c->nin == 0) return cn_call_fail(c, CN_ERR_VALUE, "needs at least one tensor");
  if (c->nin > CN_MAX_DIMS) return cn_call_fail(c, CN_ERR_SHAPE, "takes at most %d tensors", CN_MAX_DIMS);
  for (int i = 0; i < c->nin; i++) {
    if (c->in[i]->d.ndim > 1)
      return cn_call_fail(c, CN_ERR_SHAPE, "takes vectors and numbers, but tensor %d has %d dimensions", i,
                          (int)c->in[i]->d.ndim);
    if (c->in[i]->d.dtype != c->in[0]->d.dtype)
      return cn_call_fail(c, CN_ERR_DTYPE, "all tensors must be of one type, but are %s and %s",
                          cn_dtype_name((cn_dtype)c->in[0]->d.dtype), cn_dtype_name((cn_dtype)c->in[i]->d.dtype));
  }
  return CN_OK;
}

/* meshgrid(tensors, indexing) */
static int meshgrid_decompose(cn_call *c)
{
  bool swap = cni_arg_is(c->args, 1, "xy") && c->nin > 1;
  int status = check_vectors(c);
  if (status) return status;
  if (!cni_arg_none(c->args, 1) && !cni_arg_is(c->args, 1, "ij") && !cni_arg_is(c->args, 1, "xy"))
    return cn_call_fail(c, CN_ERR_VALUE, "indexing must be 'ij' or 'xy', not '%s'", cni_arg_str(c->args, 1));
  status = list_room(c, c->nin);
  for (int i = 0; !status && i < c->nin; i++) c->out[i] = grid_of(c, i, swap);
  return status ? status : cn_err();
}

static int cartesian_prod_decompose(cn_call *c)
{
  cn_tensor *list[CN_MAX_DIMS];
  int status = check_vectors(c);
  if (status) return status;
  for (int i = 0; i < c->nin; i++)
    if (c->in[i]->d.ndim != 1) return cn_call_fail(c, CN_ERR_SHAPE, "takes vectors, but tensor %d is none", i);
  if (c->nin == 1) return c->out[0] = c->in[0], CN_OK;
  for (int i = 0; i < c->nin; i++) list[i] = cn_reshape(grid_of(c, i, false), CN_SHAPE(-1));
  c->out[0] = cn_stack(list, (size_t)c->nin, .dim = 1);
  return cn_err();
}

/* ---- pixels and channels ---- */

/* pixel_shuffle(input (..., C r r, H, W), r) */
static int pixel_shuffle_decompose(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  int64_t r = cni_arg_int(c->args, 1), shape[CN_MAX_DIMS], order[CN_MAX_DIMS], square;
  int n = d->ndim - 3;
  if (n < 0 || n + 5 > CN_MAX_DIMS) return cn_call_fail(c, CN_ERR_SHAPE, "takes 3 or more dimensions, not %d", d->ndim);
  if (r < 1 || __builtin_mul_overflow(r, r, &square))
    return cn_call_fail(c, CN_ERR_VALUE, "upscale_factor must be positive, but is %lld", (long long)r);
  if (d->shape[n] % square)
    return cn_call_fail(c, CN_ERR_SHAPE, "%lld channels are not divisible by %lld, the square of upscale_factor",
                        (long long)d->shape[n], (long long)square);
  memcpy(shape, d->shape, (size_t)n * sizeof *shape);
  int64_t split[5] = {d->shape[n] / square, r, r, d->shape[n + 1], d->shape[n + 2]};
  static const int moved[5] = {0, 3, 1, 4, 2};
  memcpy(shape + n, split, sizeof split);
  for (int i = 0; i < n; i++) order[i] = i;
  for (int i = 0; i < 5; i++) order[n + i] = n + moved[i];
  cn_tensor *x = cn_permute(cn_reshape(c->in[0], shape, (size_t)n + 5), order, (size_t)n + 5);
  if (__builtin_mul_overflow(split[3], r, &shape[n + 1]) || __builtin_mul_overflow(split[4], r, &shape[n + 2]))
    return cn_call_fail(c, CN_ERR_SHAPE, "the result is too large");
  c->out[0] = cn_reshape(x, shape, (size_t)n + 3);
  return cn_err();
}

/* pixel_unshuffle(input (..., C, H r, W r), r) */
static int pixel_unshuffle_decompose(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  int64_t r = cni_arg_int(c->args, 1), shape[CN_MAX_DIMS], order[CN_MAX_DIMS];
  int n = d->ndim - 3;
  if (n < 0 || n + 5 > CN_MAX_DIMS) return cn_call_fail(c, CN_ERR_SHAPE, "takes 3 or more dimensions, not %d", d->ndim);
  if (r < 1) return cn_call_fail(c, CN_ERR_VALUE, "downscale_factor must be positive, but is %lld", (long long)r);
  if (d->shape[n + 1] % r || d->shape[n + 2] % r)
    return cn_call_fail(c, CN_ERR_SHAPE, "height %lld and width %lld must be divisible by downscale_factor %lld",
                        (long long)d->shape[n + 1], (long long)d->shape[n + 2], (long long)r);
  memcpy(shape, d->shape, (size_t)n * sizeof *shape);
  int64_t split[5] = {d->shape[n], d->shape[n + 1] / r, r, d->shape[n + 2] / r, r};
  static const int moved[5] = {0, 2, 4, 1, 3};
  memcpy(shape + n, split, sizeof split);
  for (int i = 0; i < n; i++) order[i] = i;
  for (int i = 0; i < 5; i++) order[n + i] = n + moved[i];
  cn_tensor *x = cn_permute(cn_reshape(c->in[0], shape, (size_t)n + 5), order, (size_t)n + 5);
  if (__builtin_mul_overflow(r, r, &shape[n]) || __builtin_mul_overflow(shape[n], split[0], &shape[n]))
    return cn_call_fail(c, CN_ERR_SHAPE, "the result has too many channels");
  shape[n + 1] = split[1];
  shape[n + 2] = split[3];
  c->out[0] = cn_reshape(x, shape, (size_t)n + 3);
  return cn_err();
}

/* channel_shuffle(input (N, C, ...), groups) */
static int channel_shuffle_decompose(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  int64_t groups = cni_arg_int(c->args, 1);
  if (d->ndim < 3) return cn_call_fail(c, CN_ERR_SHAPE, "takes more than 2 dimensions, not %d", d->ndim);
  if (groups < 1 || d->shape[1] % groups)
    return cn_call_fail(c, CN_ERR_VALUE, "%lld channels do not fall into %lld groups", (long long)d->shape[1],
                        (long long)groups);
  cn_tensor *x = cn_unflatten(c->in[0], 1, CN_SHAPE(groups, d->shape[1] / groups));
  c->out[0] = cn_flatten(cn_contiguous_copy(cn_transpose(x, 1, 2)), .start_dim = 1, .end_dim = 2);
  return cn_err();
}

/* ---- the same bits under another type ---- */

/* view_dtype(input, dtype): another element size stretches or shrinks the last dim, which must be dense. */
static int view_dtype_infer(cn_call *c)
{
  const cn_tensor *x = c->in[0];
  int64_t shape[CN_MAX_DIMS], strides[CN_MAX_DIMS];
  int dtype = (int)cni_arg_int(c->args, 1), n = x->d.ndim, status = cni_check_dtype(c, cni_arg_int(c->args, 1));
  if (status) return status;
  int64_t have = (int64_t)cni_dtype_size(x->d.dtype), want = (int64_t)cni_dtype_size(dtype);
  if (!have || !want)
    return cn_call_fail(c, CN_ERR_DTYPE, "not between %s and %s, whose elements are no whole bytes",
                        cn_dtype_name((cn_dtype)x->d.dtype), cn_dtype_name((cn_dtype)dtype));
  memcpy(shape, x->d.shape, (size_t)n * sizeof *shape);
  memcpy(strides, x->d.strides, (size_t)n * sizeof *strides);
  if (have != want) {
    if (n == 0) return cn_call_fail(c, CN_ERR_SHAPE, "a zero-dimensional tensor has no dimension to change");
    if (strides[n - 1] != 1 && shape[n - 1] != 1)
      return cn_call_fail(c, CN_ERR_SHAPE, "the last dimension must have stride 1");
    int64_t ratio = have > want ? have / want : want / have;
    bool fits = have > want || (shape[n - 1] % ratio == 0 && x->offset % ratio == 0);
    for (int i = 0; i < n - 1 && have < want; i++) fits = fits && (strides[i] % ratio == 0 || shape[i] < 2);
    if (!fits)
      return cn_call_fail(c, CN_ERR_SHAPE, "sizes, strides and offset must be multiples of %lld elements",
                          (long long)ratio);
    for (int i = 0; i < n - 1; i++) strides[i] = have > want ? strides[i] * ratio : strides[i] / ratio;
    strides[n - 1] = 1;
    shape[n - 1] = have > want ? shape[n - 1] * ratio : shape[n - 1] / ratio;
  }
  status = cn_call_view(c, 0, 0, n, shape, strides, 0);
  c->spec[0].dtype = dtype;
  return status;
}
static cn_tensor *view_dtype_scatter(const cn_call *c, cn_tensor *base, cn_tensor *src)
{
  (void)c;
  return cn_view_dtype(cn_contiguous(src), cn_dtype_of(base));
}

/* clang-format off */
const cn_op cni_shape_ops[] = {
  {.sig = "diag(Tensor input, int diagonal=0) -> Tensor ; method complex",
   .doc = "A matrix with the vector input on that diagonal, or a copy of that diagonal of a matrix.",
   .flags = CN_OP_COMPOSITE, .decompose = diag_decompose},
  {.sig = "diag_embed(Tensor input, int offset=0, int dim1=-2, int dim2=-1) -> Tensor ; method complex",
   .doc = "Matrices with the last dimension of input on a diagonal and zeros elsewhere; dim1 and dim2 are where the "
          "matrices lie in the result.",
   .flags = CN_OP_COMPOSITE, .decompose = diag_embed_decompose},
  {.sig = "diagflat(Tensor input, int offset=0) -> Tensor ; method complex",
   .doc = "A matrix with all elements of input on a diagonal.",
   .flags = CN_OP_COMPOSITE, .decompose = diagflat_decompose},
  {.sig = "ravel(Tensor input) -> Tensor ; method complex",
   .doc = "All elements as a vector; a view where possible.",
   .flags = CN_OP_COMPOSITE, .decompose = ravel_decompose},
  {.sig = "atleast_1d(Tensor input) -> Tensor ; complex",
   .doc = "input, a number as a vector of one element.",
   .flags = CN_OP_COMPOSITE, .decompose = atleast_1d_decompose},
  {.sig = "atleast_2d(Tensor input) -> Tensor ; complex",
   .doc = "input, with leading dimensions of size 1 to make it a matrix.",
   .flags = CN_OP_COMPOSITE, .decompose = atleast_2d_decompose},
  {.sig = "atleast_3d(Tensor input) -> Tensor ; complex",
   .doc = "input with at least 3 dimensions: (n) becomes (1, n, 1), (m, n) becomes (m, n, 1).",
   .flags = CN_OP_COMPOSITE, .decompose = atleast_3d_decompose},
  {.sig = "tensor_split(Tensor input, int sections, int dim=0) -> Tensor[] ; method complex",
   .doc = "That many pieces along a dimension, the first ones longer by one where it does not divide.",
   .flags = CN_OP_COMPOSITE, .decompose = tensor_split_decompose},
  {.sig = "tensor_split_indices(Tensor input, int[] indices, int dim=0) -> Tensor[] ; method overload_tensor_split "
          "complex",
   .doc = "The pieces between these indices of a dimension.",
   .flags = CN_OP_COMPOSITE, .decompose = tensor_split_decompose},
  {.sig = "hsplit(Tensor input, int sections) -> Tensor[] ; method complex",
   .doc = "Equal pieces along dimension 1, of a vector along dimension 0.",
   .flags = CN_OP_COMPOSITE, .decompose = hsplit_decompose},
  {.sig = "hsplit_indices(Tensor input, int[] indices) -> Tensor[] ; method overload_hsplit complex",
   .doc = "The pieces between these indices of dimension 1, of a vector of dimension 0.",
   .flags = CN_OP_COMPOSITE, .decompose = hsplit_decompose},
  {.sig = "vsplit(Tensor input, int sections) -> Tensor[] ; method complex",
   .doc = "Equal pieces along dimension 0.",
   .flags = CN_OP_COMPOSITE, .decompose = vsplit_decompose},
  {.sig = "vsplit_indices(Tensor input, int[] indices) -> Tensor[] ; method overload_vsplit complex",
   .doc = "The pieces between these indices of dimension 0.",
   .flags = CN_OP_COMPOSITE, .decompose = vsplit_decompose},
  {.sig = "dsplit(Tensor input, int sections) -> Tensor[] ; method complex",
   .doc = "Equal pieces along dimension 2.",
   .flags = CN_OP_COMPOSITE, .decompose = dsplit_decompose},
  {.sig = "dsplit_indices(Tensor input, int[] indices) -> Tensor[] ; method overload_dsplit complex",
   .doc = "The pieces between these indices of dimension 2.",
   .flags = CN_OP_COMPOSITE, .decompose = dsplit_decompose},
  {.sig = "broadcast_to(Tensor input, int[] size) -> Tensor ; method complex",
   .doc = "input expanded to that size without copying; the same as expand.",
   .flags = CN_OP_COMPOSITE, .decompose = broadcast_to_decompose},
  {.sig = "expand_as(Tensor input, Tensor other) -> Tensor ; method complex",
   .doc = "input expanded to other's shape without copying.",
   .flags = CN_OP_COMPOSITE, .decompose = expand_as_decompose},
  {.sig = "broadcast_tensors(Tensor[] tensors) -> Tensor[] ; complex",
   .doc = "The tensors expanded to their common shape, without copying.",
   .flags = CN_OP_COMPOSITE, .decompose = broadcast_tensors_decompose},
  {.sig = "meshgrid(Tensor[] tensors, str? indexing=None) -> Tensor[] ; complex",
   .doc = "For vectors, the coordinates of the grid they span, as views: result i varies along dimension i alone. With "
          "indexing 'xy' the first two dimensions change places.",
   .flags = CN_OP_COMPOSITE, .decompose = meshgrid_decompose},
  {.sig = "cartesian_prod(Tensor[] tensors) -> Tensor ; complex",
   .doc = "All tuples with one element of each vector, a row each; a single vector comes back as it is.",
   .flags = CN_OP_COMPOSITE, .decompose = cartesian_prod_decompose},
  {.sig = "pixel_shuffle(Tensor input, int upscale_factor) -> Tensor ; nn grad_fn complex",
   .doc = "Channels spread over blocks of r by r pixels: (..., C r r, H, W) becomes (..., C, H r, W r).",
   .flags = CN_OP_COMPOSITE, .decompose = pixel_shuffle_decompose},
  {.sig = "pixel_unshuffle(Tensor input, int downscale_factor) -> Tensor ; nn complex",
   .doc = "Blocks of r by r pixels as channels: (..., C, H r, W r) becomes (..., C r r, H, W).",
   .flags = CN_OP_COMPOSITE, .decompose = pixel_unshuffle_decompose},
  {.sig = "channel_shuffle(Tensor input, int groups) -> Tensor ; nn complex",
   .doc = "Channels dealt out anew: what lay group by group comes one of each group in turn.",
   .flags = CN_OP_COMPOSITE, .decompose = channel_shuffle_decompose},
  {.sig = "view_dtype(Tensor input, dtype dtype) -> Tensor ; method overload_view",
   .doc = "The same memory read as another type. Elements of another size make the last dimension, which must be "
          "dense, longer or shorter. No gradient flows.",
   .flags = CN_OP_VIEW | CN_OP_NO_GRAD, .infer = view_dtype_infer, .scatter = view_dtype_scatter},
};
/* clang-format on */
CNI_FAMILY(shape);
