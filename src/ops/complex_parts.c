/* complex_parts.c: the family of ops that take complex numbers apart and put them together: views of both parts, the
 * number with given parts, conjugates, and the products that have kernels of their own.
 *
 * Place in the flow: what complex.c lowers calls to, besides ops on real numbers. Invariant: a complex number lies in
 * memory as its real part and then its imaginary part, so that view_as_real moves nothing. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>

#include "build.h"
#include "complex.h"
#include "families.h"
#include "pointwise.h"
#include "shorthand.h"

static int needs_complex(const cn_call *c)
{
  int dtype = c->in[0]->d.dtype;
  if (cni_dtype_is_complex(dtype)) return CN_OK;
  return cn_call_fail(c, CN_ERR_TYPE, "is for complex tensors, not %s", cn_dtype_name((cn_dtype)dtype));
}

/* ---- view_as_real, view_as_complex ---- */

static int view_as_real_infer(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  int64_t shape[CN_MAX_DIMS], strides[CN_MAX_DIMS];
  int status = needs_complex(c), n = d->ndim;
  if (status) return status;
  if (n == CN_MAX_DIMS) return cn_call_fail(c, CN_ERR_SHAPE, "too many dimensions");
  for (int i = 0; i < n; i++) shape[i] = d->shape[i], strides[i] = 2 * d->strides[i];
  shape[n] = 2;
  strides[n] = 1;
  status = cn_call_view(c, 0, 0, n + 1, shape, strides, 0);
  c->spec[0].dtype = cni_dtype_part(d->dtype);
  return status;
}
static int view_as_real_vjp(cn_vjp *v)
{
  v->gin[0] = cni_from_pairs(v->g[0]);
  return cn_err();
}
static cn_tensor *view_as_real_scatter(const cn_call *c, cn_tensor *base, cn_tensor *src)
{
  (void)c, (void)base;
  return cni_from_pairs(src);
}

/* The complex type of pairs; 0 with the error set. */
static int type_of_pairs(const cn_call *c)
{
  int dtype = c->in[0]->d.dtype;
  if (dtype == CN_F16 || dtype == CN_F32 || dtype == CN_F64) return cni_dtype_complex(dtype);
  cn_call_fail(c, CN_ERR_DTYPE, "takes float16, float32 or float64, not %s", cn_dtype_name((cn_dtype)dtype));
  return 0;
}

bool cni_is_pairs(const cn_tensor *t)
{
  const cn_desc *d = &t->d;
  int n = d->ndim - 1;
  if (n < 0 || d->shape[n] != 2 || d->strides[n] != 1 || t->offset % 2) return false;
  for (int i = 0; i < n; i++)
    if (d->strides[i] % 2 && d->shape[i] > 1) return false;
  return true;
}

static int view_as_complex_infer(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  int64_t strides[CN_MAX_DIMS];
  int dtype = type_of_pairs(c);
  char text[CNI_SHAPE_TEXT];
  if (!dtype) return CN_ERR_DTYPE;
  if (d->ndim == 0 || d->shape[d->ndim - 1] != 2)
    return cn_call_fail(c, CN_ERR_SHAPE, "the last dimension must have size 2, but the shape is %s",
                        cni_shape_text(text, sizeof text, d->ndim, d->shape));
  if (!cni_is_pairs(c->in[0]))
    return cn_call_fail(c, CN_ERR_SHAPE, "the last dimension must have stride 1, and other strides and the offset must "
                        "be even; use cn_contiguous");
  for (int i = 0; i < d->ndim - 1; i++) strides[i] = d->strides[i] / 2;
  int status = cn_call_view(c, 0, 0, d->ndim - 1, d->shape, strides, 0);
  c->spec[0].dtype = dtype;
  return status;
}
static int view_as_complex_vjp(cn_vjp *v)
{
  v->gin[0] = cn_view_as_real(v->g[0]);
  return cn_err();
}
static cn_tensor *view_as_complex_scatter(const cn_call *c, cn_tensor *base, cn_tensor *src)
{
  (void)c, (void)base;
  return cn_view_as_real(src);
}

/* ---- complex(real, imag), polar(abs, angle) ---- */

static int complex_infer(cn_call *c)
{
  int64_t shape[CN_MAX_DIMS];
  int ndim, dtype = type_of_pairs(c), other = c->in[1]->d.dtype;
  if (!dtype) return CN_ERR_DTYPE;
  if (other != c->in[0]->d.dtype)
    return cn_call_fail(c, CN_ERR_DTYPE, "both parts must have one type, but are %s and %s",
                        cn_dtype_name((cn_dtype)c->in[0]->d.dtype), cn_dtype_name((cn_dtype)other));
  int status = cni_broadcast_inputs(c, c->in, 2, &ndim, shape);
  if (status) return status;
  if ((status = cn_call_result(c, 0, dtype, ndim, shape))) return status;
  cni_follow_strides(c, 0, c->in, 2);
  return CN_OK;
}
static int complex_vjp(cn_vjp *v)
{
  if (v->need[0]) v->gin[0] = cn_real(v->g[0]);
  if (v->need[1]) v->gin[1] = cn_imag(v->g[0]);
  return cn_err();
}
static int complex_decompose(cn_call *c)
{
  cn_tensor *both[2] = {NULL, NULL};
  if (cn_broadcast_tensors(both, 2, c->in, 2) < 0) return cn_err();
  c->out[0] = cn_view_as_complex(cn_stack(both, 2, .dim = -1));
  return cn_err();
}

static int polar_decompose(cn_call *c)
{
  cn_tensor *r = c->in[0], *angle = c->in[1];
  c->out[0] = cn_complex(cn_mul(r, cn_cos(angle)), cn_mul(r, cn_sin(angle)));
  return cn_err();
}

/* ---- parts ---- */

static int real_decompose(cn_call *c)
{
  cn_tensor *x = c->in[0];
  c->out[0] = cni_dtype_is_complex(x->d.dtype) ? cn_select(cn_view_as_real(x), -1, 0) : x;
  return cn_err();
}
static int imag_decompose(cn_call *c)
{
  int status = needs_complex(c);
  if (status) return status;
  c->out[0] = cn_select(cn_view_as_real(c->in[0]), -1, 1);
  return cn_err();
}

/* ---- conjugates ---- */

static int conj_complex_infer(cn_call *c)
{
  int status = needs_complex(c);
  return status ? status : cni_infer_like(c, 0, 0, c->in[0]->d.dtype);
}
static int conj_complex_vjp(cn_vjp *v)
{
  v->gin[0] = cn_conj_complex(v->g[0]);
  return cn_err();
}
static int conj_complex_decompose(cn_call *c)
{
  c->out[0] = cn_complex(cn_real(c->in[0]), cn_neg(cn_imag(c->in[0])));
  return cn_err();
}

static int conj_decompose(cn_call *c)
{
  c->out[0] = cni_dtype_is_complex(c->in[0]->d.dtype) ? cn_conj_complex(c->in[0]) : c->in[0];
  return cn_err();
}
static int conj_physical_decompose(cn_call *c)
{
  c->out[0] = cni_dtype_is_complex(c->in[0]->d.dtype) ? cn_conj_complex(c->in[0]) : cn_clone(c->in[0]);
  return cn_err();
}
static int same_decompose(cn_call *c)
{
  c->out[0] = c->in[0];
  return CN_OK;
}

/* ---- mul_complex(input, other, conj): input * other, or input * conj(other) ---- */

static int mul_complex_infer(cn_call *c)
{
  int64_t shape[CN_MAX_DIMS];
  int ndim, status = needs_complex(c);
  if (status) return status;
  if (c->in[0]->d.dtype != c->in[1]->d.dtype) return cn_call_fail(c, CN_ERR_DTYPE, "takes tensors of one type");
  if ((status = cni_broadcast_inputs(c, c->in, 2, &ndim, shape))) return status;
  if ((status = cn_call_result(c, 0, c->in[0]->d.dtype, ndim, shape))) return status;
  cni_follow_strides(c, 0, c->in, 2);
  return CN_OK;
}
static int mul_complex_vjp(cn_vjp *v)
{
  bool conj = cni_arg_bool(v->args, 2);
  cn_tensor *g = v->g[0];
  if (v->need[0]) v->gin[0] = cn_mul_complex(g, v->in[1], !conj);
  if (v->need[1]) v->gin[1] = conj ? cn_mul_complex(v->in[0], g, true) : cn_mul_complex(g, v->in[0], true);
  return cn_err();
}
static int mul_complex_decompose(cn_call *c)
{
  cn_tensor *a = cn_real(c->in[0]), *b = cn_imag(c->in[0]), *p = cn_real(c->in[1]), *q = cn_imag(c->in[1]);
  if (cni_arg_bool(c->args, 2)) q = cn_neg(q);
  c->out[0] = cn_complex(cn_sub(cn_mul(a, p), cn_mul(b, q)), cn_add(cn_mul(a, q), cn_mul(b, p)));
  return cn_err();
}

/* ---- abs_complex(real, imag): the gradient at 0 is 0 ---- */

static int build_abs_complex(cni_builder *b, int variant) { return (void)variant, HYPOT(IN0, IN1); }
static void grad_abs_complex(cni_builder *b, int variant, int G, const int *in, int Y, unsigned numbers, int *g)
{
  (void)variant, (void)numbers;
  int zero = EQ(Y, K(0)), size = NONZERO(Y);
  g[0] = MUL(G, WHERE(zero, K(0), DIV(in[0], size)));
  g[1] = MUL(G, WHERE(zero, K(0), DIV(in[1], size)));
}
static cni_pointwise pw_abs_complex = {CNI_FLT, 2, NULL, build_abs_complex, grad_abs_complex, {0}};

/* clang-format off */
const cn_op cni_complex_ops[] = {
  {.sig = "view_as_real(Tensor input) -> Tensor ; complex",
   .doc = "A view of complex numbers as pairs of their real and imaginary parts in a new last dimension.",
   .flags = CN_OP_VIEW, .infer = view_as_real_infer, .vjp = view_as_real_vjp, .scatter = view_as_real_scatter},
  {.sig = "view_as_complex(Tensor input) -> Tensor",
   .doc = "A view of pairs in the last dimension as complex numbers. That dimension must be dense.",
   .flags = CN_OP_VIEW, .infer = view_as_complex_infer, .vjp = view_as_complex_vjp,
   .scatter = view_as_complex_scatter},
  {.sig = "complex(Tensor real, Tensor imag) -> Tensor ; complex",
   .doc = "The complex numbers with these real and imaginary parts, broadcast; both are of one type.",
   .infer = complex_infer, .vjp = complex_vjp, .decompose = complex_decompose},
  {.sig = "polar(Tensor abs, Tensor angle) -> Tensor",
   .doc = "The complex numbers with these absolute values and angles in radians.",
   .flags = CN_OP_COMPOSITE, .decompose = polar_decompose, .copied = CN_IN(0) | CN_IN(1)},
  {.sig = "real(Tensor input) -> Tensor ; complex",
   .doc = "A view of the real parts; of a real tensor itself.",
   .flags = CN_OP_COMPOSITE, .decompose = real_decompose},
  {.sig = "imag(Tensor input) -> Tensor ; complex",
   .doc = "A view of the imaginary parts of a complex tensor.",
   .flags = CN_OP_COMPOSITE, .decompose = imag_decompose},
  {.sig = "conj_complex(Tensor input) -> Tensor ; internal complex grad_fn_ConjBackward0",
   .doc = "The conjugates of complex numbers: what conj and conj_physical are.",
   .infer = conj_complex_infer, .vjp = conj_complex_vjp, .decompose = conj_complex_decompose},
  {.sig = "conj(Tensor input) -> Tensor ; method complex",
   .doc = "The conjugate of each number, computed at once; of a real tensor itself.",
   .flags = CN_OP_COMPOSITE, .decompose = conj_decompose},
  {.sig = "conj_physical(Tensor input) -> Tensor ; method inplace complex",
   .doc = "The conjugate of each number in memory of its own.",
   .flags = CN_OP_COMPOSITE, .decompose = conj_physical_decompose},
  {.sig = "resolve_conj(Tensor input) -> Tensor ; method complex",
   .doc = "The tensor itself: conjugates are computed at once.",
   .flags = CN_OP_COMPOSITE, .decompose = same_decompose},
  {.sig = "resolve_neg(Tensor input) -> Tensor ; method complex",
   .doc = "The tensor itself: negatives are computed at once.",
   .flags = CN_OP_COMPOSITE, .decompose = same_decompose},
  {.sig = "mul_complex(Tensor input, Tensor other, bool conj) -> Tensor ; internal complex grad_fn_MulBackward0",
   .doc = "Products of complex numbers, with conj of input and the conjugate of other.",
   .infer = mul_complex_infer, .vjp = mul_complex_vjp, .decompose = mul_complex_decompose,
   .needs = {[0] = CN_IN(1), [1] = CN_IN(0)}},
  {.sig = "abs_complex(Tensor real, Tensor imag) -> Tensor ; internal grad_fn_AbsBackward0",
   .doc = "Absolute values of complex numbers with these parts. The gradient at 0 is 0.",
   PROGRAM(abs_complex)},
};
/* clang-format on */
CNI_FAMILY(complex);
