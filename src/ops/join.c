/* join.c: the family of ops that put tensors together: cat, and stacks in all directions.
 *
 * Place in the flow: apply -> infer -> a backend's kernel for cat; the rest is made of it and of views. Invariant: no
 * result here shares memory with an input. */
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

/* What is only stored is joined with its like. */
static int cat_type(const cn_call *c)
{
  int dtype = c->in[0]->d.dtype;
  for (int i = 1; i < c->nin; i++)
    if (c->in[i]->d.dtype != dtype) return cni_result_type(c, c->in, c->nin);
  return dtype;
}

static int cat_infer(cn_call *c)
{
  if (c->nin == 0) return cn_call_fail(c, CN_ERR_VALUE, "needs at least one tensor");
  int first = first_counting(c), dtype = cat_type(c);
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

/* cat along dim of `change` of each input, which gets n too; the list is allocated when it is long. */
static int cat_changed(cn_call *c, int64_t dim, cn_tensor *(*change)(cn_tensor *t, int64_t n), int64_t n)
{
  cn_tensor *room[STACK_ROOM], **list = room;
  size_t count = (size_t)c->nin;
  if (count == 0) return cn_call_fail(c, CN_ERR_VALUE, "needs at least one tensor");
  if (count > STACK_ROOM && !(list = cni_alloc(count * sizeof *list))) return CN_ERR_MEMORY;
  for (size_t i = 0; i < count; i++) list[i] = change(c->in[i], n);
  if (!cn_err()) c->out[0] = cn_cat(list, count, .dim = cni_option(dim));
  if (list != room) cni_free(list, count * sizeof *list);
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
  return cat_changed(c, dim, cn_unsqueeze, dim);
}

static int hstack_decompose(cn_call *c)
{
  return cat_changed(c, c->nin && c->in[0]->d.ndim > 1, cni_at_least_nd, 1);
}
static int vstack_decompose(cn_call *c) { return cat_changed(c, 0, cni_at_least_nd, 2); }
static int dstack_decompose(cn_call *c) { return cat_changed(c, 2, cni_at_least_nd, 3); }

/* Vectors and numbers are columns. */
static cn_tensor *as_column(cn_tensor *x, int64_t n)
{
  (void)n;
  return cn_ndim(x) > 1 ? x : cn_reshape(x, CN_SHAPE(cn_numel(x), 1));
}
static int column_stack_decompose(cn_call *c) { return cat_changed(c, 1, as_column, 0); }

/* block_diag(tensors): each as rows with zeros to both sides, one under the other. */
static int block_diag_decompose(cn_call *c)
{
  cn_tensor *room[STACK_ROOM], **list = room;
  size_t count = (size_t)c->nin;
  int64_t width = 0, before = 0;
  if (count == 0) return cn_call_fail(c, CN_ERR_VALUE, "needs at least one tensor");
  for (size_t i = 0; i < count; i++) {
    const cn_desc *d = &c->in[i]->d;
    if (d->ndim > 2)
      return cn_call_fail(c, CN_ERR_SHAPE, "takes tensors of at most 2 dimensions, but tensor %zu has %d", i, d->ndim);
    width += d->ndim ? d->shape[d->ndim - 1] : 1;
  }
  if (count > STACK_ROOM && !(list = cni_alloc(count * sizeof *list))) return CN_ERR_MEMORY;
  for (size_t i = 0; i < count && !cn_err(); i++) {
    cn_tensor *x = cni_at_least_nd(c->in[i], 2);
    int64_t own = x ? x->d.shape[1] : 0;
    list[i] = cn_constant_pad_nd(x, CN_SHAPE(before, width - before - own));
    before += own;
  }
  if (!cn_err()) c->out[0] = cn_cat(list, count);
  if (list != room) cni_free(list, count * sizeof *list);
  return cn_err();
}

/* clang-format off */
const cn_op cni_join_ops[] = {
  {.sig = "cat(Tensor[] tensors, int dim=0) -> Tensor ; alias_concat alias_concatenate amp_wide complex",
   .doc = "Tensors one after another along a dimension; the other sizes must match. Types promote; empty vectors of "
          "shape (0,) are passed over.",
   .flags = CN_OP_ANY_DTYPE, .infer = cat_infer, .vjp = cat_vjp},
  {.sig = "stack(Tensor[] tensors, int dim=0) -> Tensor ; amp_wide grad_fn complex",
   .doc = "Tensors of one shape along a new dimension before dim.",
   .flags = CN_OP_COMPOSITE, .decompose = stack_decompose},
  {.sig = "hstack(Tensor[] tensors) -> Tensor ; complex",
   .doc = "Tensors side by side: along dimension 1, vectors along dimension 0.",
   .flags = CN_OP_COMPOSITE, .decompose = hstack_decompose},
  {.sig = "vstack(Tensor[] tensors) -> Tensor ; alias_row_stack complex",
   .doc = "Tensors on top of each other: along dimension 0, vectors as rows.",
   .flags = CN_OP_COMPOSITE, .decompose = vstack_decompose},
  {.sig = "dstack(Tensor[] tensors) -> Tensor ; complex",
   .doc = "Tensors behind each other along dimension 2, after atleast_3d.",
   .flags = CN_OP_COMPOSITE, .decompose = dstack_decompose},
  {.sig = "column_stack(Tensor[] tensors) -> Tensor ; complex",
   .doc = "Tensors side by side along dimension 1; vectors and numbers are columns.",
   .flags = CN_OP_COMPOSITE, .decompose = column_stack_decompose},
  {.sig = "block_diag(Tensor[] tensors) -> Tensor ; grad_fn complex",
   .doc = "A matrix with these matrices along its diagonal and zeros elsewhere; vectors are rows.",
   .flags = CN_OP_COMPOSITE, .decompose = block_diag_decompose},
};
/* clang-format on */
CNI_FAMILY(join);
