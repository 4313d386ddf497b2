/* view_scatter.c: the inverses of views as ops: input with the viewed part replaced by src.
 *
 * They make in-place writes through views differentiable and capturable. No backend needs a kernel: each is a copy, a
 * view of it, and a write. Invariant: the result never shares memory with input. */
#include <cairn/ext/parts.h>

#include "families.h"
#include "shorthand.h"

static int like_input_infer(cn_call *c) { return cni_infer_like(c, 0, 0, c->in[0]->d.dtype); }

static cn_tensor *zeros_like_src(const cn_vjp *v)
{
  return cni_zeros_of(&v->in_meta[1], (cn_dtype)v->in_meta[1].dtype);
}

/* ---- select_scatter(input, src, dim, index) ---- */

static int select_scatter_decompose(cn_call *c)
{
  c->out[0] = cn_clone(c->in[0]);
  cn_copy_(cn_select(c->out[0], cni_arg_int(c->args, 2), cni_arg_int(c->args, 3)), c->in[1]);
  return cn_err();
}
static int select_scatter_vjp(cn_vjp *v)
{
  int64_t dim = cni_arg_int(v->args, 2), index = cni_arg_int(v->args, 3);
  if (v->need[0]) v->gin[0] = cn_select_scatter(v->g[0], zeros_like_src(v), dim, index);
  if (v->need[1]) v->gin[1] = cn_select(v->g[0], dim, index);
  return cn_err();
}

/* ---- slice_scatter(input, src, dim, start, end, step) ---- */

static cn_tensor *slice_like(const cn_value *a, cn_tensor *x)
{
  cn_slice_opts o = {.size = sizeof o, .step = a[5].u.i};
  return cn_slice_with(x, a[2].u.i, cni_arg_int_or(a, 3, CN_NONE), cni_arg_int_or(a, 4, CN_NONE), &o);
}
static int slice_scatter_decompose(cn_call *c)
{
  c->out[0] = cn_clone(c->in[0]);
  cn_copy_(slice_like(c->args, c->out[0]), c->in[1]);
  return cn_err();
}
static int slice_scatter_vjp(cn_vjp *v)
{
  const cn_value *a = v->args;
  cn_slice_scatter_opts o = {.size = sizeof o, .dim = cni_option(a[2].u.i), .step = a[5].u.i};
  if (v->need[0])
    v->gin[0] = cn_slice_scatter_with(v->g[0], zeros_like_src(v), cni_arg_int_or(a, 3, CN_NONE),
                                      cni_arg_int_or(a, 4, CN_NONE), &o);
  if (v->need[1]) v->gin[1] = slice_like(a, v->g[0]);
  return cn_err();
}

/* ---- diagonal_scatter(input, src, offset, dim1, dim2) ---- */

static cn_tensor *diagonal_like(const cn_value *a, cn_tensor *x)
{
  cn_diagonal_opts o = {.size = sizeof o, .offset = a[2].u.i, .dim1 = cni_option(a[3].u.i),
                        .dim2 = cni_option(a[4].u.i)};
  return cn_diagonal_with(x, &o);
}
static int diagonal_scatter_decompose(cn_call *c)
{
  c->out[0] = cn_clone(c->in[0]);
  cn_copy_(diagonal_like(c->args, c->out[0]), c->in[1]);
  return cn_err();
}
static int diagonal_scatter_vjp(cn_vjp *v)
{
  const cn_value *a = v->args;
  cn_diagonal_scatter_opts o = {.size = sizeof o, .offset = a[2].u.i, .dim1 = cni_option(a[3].u.i),
                                .dim2 = cni_option(a[4].u.i)};
  if (v->need[0]) v->gin[0] = cn_diagonal_scatter_with(v->g[0], zeros_like_src(v), &o);
  if (v->need[1]) v->gin[1] = diagonal_like(a, v->g[0]);
  return cn_err();
}

/* ---- as_strided_scatter(input, src, size, stride, storage_offset): over a row-major copy of input ---- */

static cn_tensor *strided_like(const cn_value *a, cn_tensor *x)
{
  return cn_as_strided(x, a[2].u.is, (size_t)a[2].n, a[3].u.is, (size_t)a[3].n, cni_arg_int_or(a, 4, CN_NONE));
}
static int as_strided_scatter_decompose(cn_call *c)
{
  c->out[0] = cn_contiguous_copy(c->in[0]);
  cn_copy_(strided_like(c->args, c->out[0]), c->in[1]);
  return cn_err();
}
static int as_strided_scatter_vjp(cn_vjp *v)
{
  const cn_value *a = v->args;
  if (v->need[0])
    v->gin[0] = cn_as_strided_scatter(v->g[0], zeros_like_src(v), a[2].u.is, (size_t)a[2].n, a[3].u.is,
                                      (size_t)a[3].n, cni_arg_int_or(a, 4, CN_NONE));
  if (v->need[1]) v->gin[1] = strided_like(a, cn_contiguous(v->g[0]));
  return cn_err();
}

/* clang-format off */
const cn_op cni_view_scatter_ops[] = {
  {.sig = "select_scatter(Tensor input, Tensor src, int dim, int index) -> Tensor ; method",
   .doc = "A copy of input whose index of dimension dim is src.",
   .flags = CN_OP_ANY_DTYPE, .infer = like_input_infer, .vjp = select_scatter_vjp,
   .decompose = select_scatter_decompose},
  {.sig = "slice_scatter(Tensor input, Tensor src, int dim=0, int? start=None, int? end=None, int step=1) "
          "-> Tensor ; method",
   .doc = "A copy of input whose slice along dimension dim is src.",
   .flags = CN_OP_ANY_DTYPE, .infer = like_input_infer, .vjp = slice_scatter_vjp,
   .decompose = slice_scatter_decompose},
  {.sig = "diagonal_scatter(Tensor input, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor ; method",
   .doc = "A copy of input whose diagonal is src.",
   .flags = CN_OP_ANY_DTYPE, .infer = like_input_infer, .vjp = diagonal_scatter_vjp,
   .decompose = diagonal_scatter_decompose},
  {.sig = "as_strided_scatter(Tensor input, Tensor src, int[] size, int[] stride, int? storage_offset=None) "
          "-> Tensor ; method",
   .doc = "A copy of input in which the elements that as_strided would show are src.",
   .flags = CN_OP_ANY_DTYPE, .infer = like_input_infer, .vjp = as_strided_scatter_vjp,
   .decompose = as_strided_scatter_decompose},
};
/* clang-format on */
CNI_FAMILY(view_scatter);
