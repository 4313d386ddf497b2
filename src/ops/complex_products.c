/* complex_products.c: products and convolutions of complex numbers as one product or convolution of real ones.
 *
 * A row of n complex numbers is a row of 2 n real ones, re, im, re, im; multiplying it by b + ic multiplies each pair
 * by the rows (b, c) and (-c, b). So the left operand is only looked at otherwise, the right one is laid out as these
 * rows, and the result is pairs again: four real multiplications for a complex one, by the kernels that there are.
 *
 * Place in the flow: as complex_rules.c. Invariant: an operand that is real is laid out as a complex one; types must
 * agree, as in products of real numbers. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>

#include "complex.h"

static int check_types(const cn_call *c)
{
  for (int i = 1; i < c->nin; i++)
    if (c->in[i] && c->in[i]->d.dtype != c->in[0]->d.dtype)
      return cn_call_fail(c, CN_ERR_DTYPE, "the operands must have one type, but are %s and %s; cast one with cn_cast",
                          cn_dtype_name((cn_dtype)c->in[0]->d.dtype), cn_dtype_name((cn_dtype)c->in[i]->d.dtype));
  return CN_OK;
}

/* z: (..., n) as (..., 2 n) */
static cn_tensor *flat_pairs(cn_tensor *z) { return z ? cn_flatten(cn_view_as_real(z), .start_dim = -2) : NULL; }
/* ... and back */
static cn_tensor *from_flat_pairs(cn_tensor *t)
{
  return t ? cni_from_pairs(cn_unflatten(t, -1, CN_SHAPE(t->d.shape[t->d.ndim - 1] / 2, 2))) : NULL;
}

/* z: (..., k, n) as (..., 2 k, 2 n): below each row it times i */
static cn_tensor *as_rows(cn_tensor *z)
{
  cn_tensor *rows = cn_stack(CN_TENSORS(cn_view_as_real(z), cn_view_as_real(cni_times_i(z))), .dim = -3);
  return cn_flatten(cn_flatten(rows, .start_dim = -2), .start_dim = -3, .end_dim = -2);
}

static int checked_product(cn_call *c, int first, int ndim)
{
  for (int i = first; i < first + 2; i++)
    if (c->in[i]->d.ndim != ndim)
      return cn_call_fail(c, CN_ERR_SHAPE, "takes %d-dimensional operands, not %d; use cn_matmul", ndim,
                          (int)c->in[i]->d.ndim);
  return check_types(c);
}

static cn_tensor *product(cn_tensor *a, cn_tensor *b)
{
  if (!a || !b) return NULL;
  const cn_desc *l = &a->d, *r = &b->d;
  if (l->shape[l->ndim - 1] != r->shape[r->ndim - 2]) {
    char left[CNI_SHAPE_TEXT], right[CNI_SHAPE_TEXT];
    cni_fail(CN_ERR_SHAPE, "mm: shapes %s and %s cannot be multiplied",
             cni_shape_text(left, sizeof left, l->ndim, l->shape),
             cni_shape_text(right, sizeof right, r->ndim, r->shape));
    return NULL;
  }
  return from_flat_pairs(cn_matmul(flat_pairs(a), as_rows(b)));
}

static int product_of_two(cn_call *c, int ndim)
{
  int status = checked_product(c, 0, ndim);
  if (status) return status;
  if (ndim == 3 && c->in[0]->d.shape[0] != c->in[1]->d.shape[0])
    return cn_call_fail(c, CN_ERR_SHAPE, "the batches have %lld and %lld matrices", (long long)c->in[0]->d.shape[0],
                        (long long)c->in[1]->d.shape[0]);
  c->out[0] = product(c->in[0], c->in[1]);
  return cn_err();
}
int cni_complex_mm(cn_call *c) { return product_of_two(c, 2); }
int cni_complex_bmm(cn_call *c) { return product_of_two(c, 3); }

static bool is_number(const cn_value *v, double x) { return v->tag != CN_V_FLOATS && cni_arg_float(v, 0) == x; }

/* beta * input + alpha * y: (input, a, b, beta, alpha) */
static int added(cn_call *c, cn_tensor *y)
{
  char have[CNI_SHAPE_TEXT], want[CNI_SHAPE_TEXT];
  const cn_desc *d = &c->in[0]->d;
  if (y && !cni_broadcasts_to(d->ndim, d->shape, y->d.ndim, y->d.shape))
    return cn_call_fail(c, CN_ERR_SHAPE, "input of shape %s does not broadcast to %s",
                        cni_shape_text(have, sizeof have, d->ndim, d->shape),
                        cni_shape_text(want, sizeof want, y->d.ndim, y->d.shape));
  if (!is_number(&c->args[4], 1)) y = cn_mul(y, cni_number(&c->args[4]));
  if (!is_number(&c->args[3], 0)) y = cn_add(cn_mul(c->in[0], cni_number(&c->args[3])), y);
  c->out[0] = y;
  return cn_err();
}

static int added_product(cn_call *c, int ndim)
{
  int status = checked_product(c, 1, ndim);
  return status ? status : added(c, product(c->in[1], c->in[2]));
}
int cni_complex_addmv(cn_call *c) { return added(c, cn_mv(c->in[1], c->in[2])); }
int cni_complex_addr(cn_call *c) { return added(c, cn_outer(c->in[1], c->in[2])); }
int cni_complex_addbmm(cn_call *c) { return added(c, cn_sum(cn_bmm(c->in[1], c->in[2]), .dim = CN_INTS(0))); }
int cni_complex_addmm(cn_call *c) { return added_product(c, 2); }
int cni_complex_baddbmm(cn_call *c) { return added_product(c, 3); }

int cni_complex_linear(cn_call *c)
{
  int status = check_types(c);
  if (status) return status;
  cn_tensor *w = c->in[1], *y = cn_matmul(c->in[0], w->d.ndim == 2 ? cn_transpose(w, 0, 1) : w);
  c->out[0] = c->in[2] ? cn_add(y, c->in[2]) : y;
  return cn_err();
}

/* ---- products of vectors ---- */

static int check_vectors(const cn_call *c)
{
  const cn_desc *a = &c->in[0]->d, *b = &c->in[1]->d;
  int status = check_types(c);
  if (status) return status;
  if (a->ndim != 1 || b->ndim != 1 || a->shape[0] != b->shape[0])
    return cn_call_fail(c, CN_ERR_SHAPE, "takes two vectors of one length");
  return CN_OK;
}
int cni_complex_dot(cn_call *c)
{
  int status = check_vectors(c);
  if (!status) c->out[0] = cn_sum(cn_mul(c->in[0], c->in[1]));
  return status ? status : cn_err();
}
int cni_complex_vdot(cn_call *c)
{
  int status = check_vectors(c);
  if (!status) c->out[0] = cn_sum(cn_mul(cn_conj(c->in[0]), c->in[1]));
  return status ? status : cn_err();
}

/* (x, y, dim) */
int cni_complex_linalg_vecdot(cn_call *c)
{
  c->out[0] = cn_sum(cn_mul(cn_conj(c->in[0]), c->in[1]), .dim = CN_INTS(cni_arg_int(c->args, 2)));
  return cn_err();
}

/* ---- convolutions: each channel becomes two, for real and imaginary parts ---- */

/* (..., C, sizes) to (..., 2 C, sizes), where `sizes` dims come behind the channels */
static cn_tensor *paired_channels(cn_tensor *z, int sizes)
{
  cn_tensor *t = cn_movedim(cn_view_as_real(z), CN_SHAPE(-1), CN_SHAPE(-1 - sizes));
  return cn_flatten(t, .start_dim = -2 - sizes, .end_dim = -1 - sizes);
}
static cn_tensor *from_paired_channels(cn_tensor *t, int sizes)
{
  int at = t ? t->d.ndim - 1 - sizes : 0;
  if (!t) return NULL;
  t = cn_unflatten(t, at, CN_SHAPE(t->d.shape[at] / 2, 2));
  return cni_from_pairs(cn_movedim(t, CN_SHAPE(at + 1), CN_SHAPE(-1)));
}

/* w: (K, C, ...) as (2 K, 2 C, ...) with blocks (re, -im; im, re) of what goes in (second dim) and comes out; with
 * `transposed` it goes in by the first. */
static cn_tensor *blocks(cn_tensor *w, bool transposed)
{
  cni_z z = cni_parts(w);
  cn_tensor *minus = cn_neg(z.im);
  cn_tensor *first = cn_stack(CN_TENSORS(z.re, transposed ? z.im : minus), .dim = 2);
  cn_tensor *second = cn_stack(CN_TENSORS(transposed ? minus : z.im, z.re), .dim = 2);
  cn_tensor *t = cn_stack(CN_TENSORS(first, second), .dim = 1); /* (K, 2, C, 2, ...) */
  return cn_flatten(cn_flatten(t, .start_dim = 2, .end_dim = 3), .end_dim = 1);
}

static int convolution(cn_call *c, int sizes, bool transposed)
{
  cn_tensor *x = c->in[0], *w = c->in[1], *bias = c->in[2];
  int status = check_types(c);
  if (status) return status;
  if ((x->d.ndim != sizes + 1 && x->d.ndim != sizes + 2) || w->d.ndim != sizes + 2)
    return cn_call_fail(c, CN_ERR_SHAPE, "takes inputs of %d or %d dimensions and weights of %d, not %d and %d",
                        sizes + 1, sizes + 2, sizes + 2, (int)x->d.ndim, (int)w->d.ndim);
  cn_tensor *in[] = {paired_channels(x, sizes), blocks(w, transposed), bias ? flat_pairs(bias) : NULL};
  c->out[0] = from_paired_channels(cni_call_again(c, in), sizes);
  return cn_err();
}
int cni_complex_conv1d(cn_call *c) { return convolution(c, 1, false); }
int cni_complex_conv2d(cn_call *c) { return convolution(c, 2, false); }
int cni_complex_conv3d(cn_call *c) { return convolution(c, 3, false); }
int cni_complex_conv_transpose1d(cn_call *c) { return convolution(c, 1, true); }
int cni_complex_conv_transpose2d(cn_call *c) { return convolution(c, 2, true); }
int cni_complex_conv_transpose3d(cn_call *c) { return convolution(c, 3, true); }

/* exp of [re, -im; im, re] holds that of re + i im in the same places. */
int cni_complex_linalg_matrix_exp(cn_call *c)
{
  cni_z z = cni_parts(c->in[0]);
  int64_t n = cn_size(c->in[0], -1);
  cn_tensor *top = cn_cat(CN_TENSORS(z.re, cn_neg(z.im)), .dim = -1);
  cn_tensor *below = cn_cat(CN_TENSORS(z.im, z.re), .dim = -1);
  cn_tensor *left = cn_narrow(cn_linalg_matrix_exp(cn_cat(CN_TENSORS(top, below), .dim = -2)), -1, 0, n);
  c->out[0] = cn_complex(cn_narrow(left, -2, 0, n), cn_narrow(left, -2, n, n));
  return cn_err();
}
