/* join.c: the family of ops that put tensors together or lay elements out anew: cat, stack, flip, roll, repeat,
 * triangles.
 *
 * Place in the flow: apply -> infer -> a backend's kernel for cat, tril and triu; the rest is made of those and of
 * views. Invariant: no result here shares memory with an input, except where a composite returns an input or a view
 * of it. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>

#include "families.h"
#include "shorthand.h"

/* ---- cat(tensors, dim) ---- */

/* PyTorch lets a list hold empty vectors of shape (0,) beside tensors of any shape; they count for nothing. */
static bool skipped(int ndim, const int64_t *shape) { return ndim == 1 && shape[0] == 0; }

/* The first tensor that counts, or the first one when none does. */
static int first_counting(cn_call *c)
{
  for (int i = 0; i < c->nin; i++)
    if (!skipped(c->in[i]->d.ndim, c->in[i]->d.shape)) return i;
  return 0;
}

static int cat_add(const cn_call *c, int i, int first, int dim, int64_t *shape)
{
  const cn_desc *d = &c->in[i]->d, *f = &c->in[first]->d;
  char have[CNI_SHAPE_TEXT], want[CNI_SHAPE_TEXT];
  bool fits = d->ndim == f->ndim;
  for (int k = 0; fits && k < d->ndim; k++) fits = k == dim || d->shape[k] == f->shape[k];
  if (!fits)
    return cn_call_fail(c, CN_ERR_SHAPE,
                        "tensor %d has shape %s, tensor %d %s; all sizes but dimension %d must match", i,
                        cni_shape_text(have, sizeof have, d->ndim, d->shape), first,
                        cni_shape_text(want, sizeof want, f->ndim, f->shape), dim);
  if (__builtin_add_overflow(shape[dim], d->shape[dim], &shape[dim]))
    return cn_call_fail(c, CN_ERR_SHAPE, "the result is too large");
  return CN_OK;
}

static int cat_infer(cn_call *c)
{
  if (c->nin == 0) return cn_call_fail(c, CN_ERR_VALUE, "needs at least one tensor");
  int first = first_counting(c), dtype = cni_result_type(c, c->in, c->nin);
  const cn_desc *f = &c->in[first]->d;
  int64_t shape[CN_MAX_DIMS];
  if (!dtype) return CN_ERR_DTYPE;
  for (int i = 0; i < c->nin; i++)
    if (c->in[i]->d.ndim == 0)
      return cn_call_fail(c, CN_ERR_SHAPE, "tensor %d is zero-dimensional; use cn_stack for those", i);
  int dim = cn_call_dim(c, cni_arg_int(c->args, 1), f->ndim), status = CN_OK;
  if (dim < 0) return dim;
  bool channels_last = f->ndim > 3, row_major = true;
  memcpy(shape, f->shape, (size_t)f->ndim * sizeof *shape);
  shape[dim] = 0;
  for (int i = 0; i < c->nin && !status; i++) {
    const cn_desc *d = &c->in[i]->d;
    if (skipped(d->ndim, d->shape) && !skipped(f->ndim, f->shape)) continue;
    status = cat_add(c, i, first, dim, shape);
    channels_last = channels_last && cni_is_channels_last(d->ndim, d->shape, d->strides);
    row_major = row_major && cni_is_contiguous(d->ndim, d->shape, d->strides); /* one channel counts as both */
  }
  if (!status) status = cn_call_result(c, 0, dtype, f->ndim, shape);
  if (status || !channels_last || row_major) return status;
  cni_channels_last_strides(f->ndim, shape, c->spec[0].strides);
  c->spec[0].has_strides = true;
  return CN_OK;
}

/* Each input gets its piece of the gradient; empty vectors beside larger tensors have none. */
static int cat_vjp(cn_vjp *v)
{
  int64_t at = 0, dim = cni_arg_int(v->args, 1);
  int ndim = v->out_meta[0].ndim;
  if (dim < 0) dim += ndim;
  for (int i = 0; i < v->nin; i++) {
    const cn_meta *m = &v->in_meta[i];
    if (m->ndim != ndim) {
      if (v->need[i]) v->gin[i] = cni_zeros_of(m, (cn_dtype)m->dtype);
      continue;
    }
    if (v->need[i]) v->gin[i] = cn_slice(v->g[0], dim, at, at + m->shape[dim]);
    at += m->shape[dim];
  }
  return cn_err();
}

/* ---- what is made of cat ---- */

enum { STACK_ROOM = 32 };

/* Calls cat on `change` of each input; the list is allocated when it is long. */
static int cat_changed(cn_call *c, int64_t dim, cn_tensor *(*change)(cn_tensor *t, int64_t dim))
{
  cn_tensor *room[STACK_ROOM], **list = room;
  size_t n = (size_t)c->nin;
  if (n > STACK_ROOM && !(list = cni_alloc(n * sizeof *list))) return CN_ERR_MEMORY;
  for (size_t i = 0; i < n; i++) list[i] = change(c->in[i], dim);
  if (!cn_err()) c->out[0] = cn_cat(list, n, .dim = cni_option(dim));
  if (list != room) cni_free(list, n * sizeof *list);
  return cn_err();
}

static int stack_decompose(cn_call *c)
{
  if (c->nin == 0) return cn_call_fail(c, CN_ERR_VALUE, "needs at least one tensor");
  const cn_desc *f = &c->in[0]->d;
  char have[CNI_SHAPE_TEXT], want[CNI_SHAPE_TEXT];
  int dim = cn_call_dim(c, cni_arg_int(c->args, 1), f->ndim + 1);
  if (dim < 0) return dim;
  for (int i = 1; i < c->nin; i++) {
    const cn_desc *d = &c->in[i]->d;
    if (cni_same_shape(d->ndim, d->shape, f->ndim, f->shape)) continue;
    return cn_call_fail(c, CN_ERR_SHAPE, "tensor %d has shape %s, tensor 0 %s; they must be equal", i,
                        cni_shape_text(have, sizeof have, d->ndim, d->shape),
                        cni_shape_text(want, sizeof want, f->ndim, f->shape));
  }
  return cat_changed(c, dim, cn_unsqueeze);
}

static cn_tensor *at_least_1d(cn_tensor *t, int64_t dim)
{
  (void)dim;
  return cn_ndim(t) ? t : cn_unsqueeze(t, 0);
}
static cn_tensor *at_least_2d(cn_tensor *t, int64_t dim)
{
  (void)dim;
  return cn_ndim(t) > 1 ? t : cn_unsqueeze(at_least_1d(t, 0), 0);
}

static int hstack_decompose(cn_call *c)
{
  if (c->nin == 0) return cn_call_fail(c, CN_ERR_VALUE, "needs at least one tensor");
  return cat_changed(c, c->in[0]->d.ndim > 1, at_least_1d);
}
static int vstack_decompose(cn_call *c)
{
  if (c->nin == 0) return cn_call_fail(c, CN_ERR_VALUE, "needs at least one tensor");
  return cat_changed(c, 0, at_least_2d);
}

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

/* ---- repetition: expand, then a reshape that copies ---- */

/* repeat(input, repeats): as (r0, s0, r1, s1, ...), the r expanded, pairs made one. */
static int repeat_as(cn_call *c, const int64_t *repeats, int n)
{
  const cn_desc *d = &c->in[0]->d;
  int lead = n - d->ndim, wide = 0, kept = 0, final = 0;
  int64_t split[2 * CN_MAX_DIMS], want[2 * CN_MAX_DIMS], shape[CN_MAX_DIMS];
  if (lead < 0)
    return cn_call_fail(c, CN_ERR_SHAPE, "%d repeats are given for a tensor of %d dimensions", n, (int)d->ndim);
  if (n > CN_MAX_DIMS) return cn_call_fail(c, CN_ERR_SHAPE, "%d dimensions are too many", n);
  for (int i = 0; i < n; i++) {
    int64_t size = i < lead ? 1 : d->shape[i - lead];
    if (repeats[i] < 0) return cn_call_fail(c, CN_ERR_VALUE, "repeat %lld is negative", (long long)repeats[i]);
    if (__builtin_mul_overflow(size, repeats[i], &shape[final++]))
      return cn_call_fail(c, CN_ERR_SHAPE, "the result is too large");
    if (repeats[i] != 1) split[wide] = 1, want[wide++] = repeats[i];
    if (size != 1) split[wide] = want[wide] = size, wide++, kept++;
  }
  if (wide > CN_MAX_DIMS) return cn_call_fail(c, CN_ERR_SHAPE, "too many dimensions are repeated at once");
  cn_tensor *x = cn_expand(cn_reshape(c->in[0], split, (size_t)wide), want, (size_t)wide);
  x = cn_reshape(x, shape, (size_t)final);
  if (x && x->storage == c->in[0]->storage) x = cn_contiguous_copy(x); /* nothing was repeated: a copy all the same */
  c->out[0] = x;
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
const cn_op cni_join_ops[] = {
  {.sig = "cat(Tensor[] tensors, int dim=0) -> Tensor ; alias_concat alias_concatenate amp_wide",
   .doc = "Tensors one after another along a dimension; the other sizes must match. Types promote; empty vectors of "
          "shape (0,) are passed over.",
   .infer = cat_infer, .vjp = cat_vjp},
  {.sig = "stack(Tensor[] tensors, int dim=0) -> Tensor ; amp_wide grad_fn",
   .doc = "Tensors of one shape along a new dimension before dim.",
   .flags = CN_OP_COMPOSITE, .decompose = stack_decompose},
  {.sig = "hstack(Tensor[] tensors) -> Tensor",
   .doc = "Tensors side by side: along dimension 1, vectors along dimension 0.",
   .flags = CN_OP_COMPOSITE, .decompose = hstack_decompose},
  {.sig = "vstack(Tensor[] tensors) -> Tensor ; alias_row_stack",
   .doc = "Tensors on top of each other: along dimension 0, vectors as rows.",
   .flags = CN_OP_COMPOSITE, .decompose = vstack_decompose},
  {.sig = "flip(Tensor input, int[] dims) -> Tensor ; method",
   .doc = "A copy with the order of elements reversed along these dimensions.",
   .infer = flip_infer, .vjp = flip_vjp, .decompose = flip_decompose},
  {.sig = "roll(Tensor input, int[] shifts, int[] dims=[]) -> Tensor ; method",
   .doc = "Elements moved on by shifts along dims; what leaves at one end comes in at the other. Without dims, of "
          "the flattened tensor.",
   .infer = roll_infer, .vjp = roll_vjp, .decompose = roll_decompose},
  {.sig = "repeat(Tensor input, int[] repeats) -> Tensor ; method grad_fn",
   .doc = "The whole tensor repeated that often along each dimension; more repeats than dimensions add leading ones.",
   .flags = CN_OP_COMPOSITE, .decompose = repeat_decompose},
  {.sig = "tile(Tensor input, int[] dims) -> Tensor ; method grad_fn_RepeatBackward0",
   .doc = "Like repeat, but fewer counts than dimensions are allowed and stand for the last ones.",
   .flags = CN_OP_COMPOSITE, .decompose = tile_decompose},
  {.sig = "broadcast_to(Tensor input, int[] size) -> Tensor ; method",
   .doc = "input expanded to that size without copying; the same as expand.",
   .flags = CN_OP_COMPOSITE, .decompose = broadcast_to_decompose},
  {.sig = "expand_as(Tensor input, Tensor other) -> Tensor ; method",
   .doc = "input expanded to other's shape without copying.",
   .flags = CN_OP_COMPOSITE, .decompose = expand_as_decompose},
  {.sig = "tril(Tensor input, int diagonal=0) -> Tensor ; method inplace",
   .doc = "The lower triangle of the last two dimensions, zero above it; diagonal > 0 keeps that many more above.",
   .flags = CN_OP_ALIAS_SAFE, .infer = triangle_infer, .vjp = tril_vjp},
  {.sig = "triu(Tensor input, int diagonal=0) -> Tensor ; method inplace",
   .doc = "The upper triangle of the last two dimensions, zero below it; diagonal > 0 leaves that many more out.",
   .flags = CN_OP_ALIAS_SAFE, .infer = triangle_infer, .vjp = triu_vjp},
};
/* clang-format on */
CNI_FAMILY(join);
