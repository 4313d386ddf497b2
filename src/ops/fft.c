/* fft.c: the family of discrete Fourier transforms. A complex number is a pair (real, imaginary) in a trailing dim of
 * size 2; dims are counted without it.
 *
 * Place in the flow: composites of three structural ops: fft_c2c, that transforms the dim before the pair, and
 * fft_r2c and fft_c2r for real numbers. Invariant: a transform is linear, and its gradient is the transform in
 * the other direction. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>

#include "cost.h"
#include "families.h"
#include "linalg.h"

enum { UNSCALED, ORTHO, BY_COUNT }; /* what fft_c2c multiplies with: 1, n^-1/2, 1/n */

/* ---- fft_c2c(input (..., n, 2), inverse, scaling) ---- */

static int lines_infer(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d;
  int64_t scaling = cni_arg_int(c->args, 2);
  int status = cni_check_float(c, 0);
  if (status) return status;
  if (x->ndim < 2 || cni_cols(x) != 2)
    return cn_call_fail(c, CN_ERR_SHAPE, "the last dim must be a pair (real, imaginary)");
  if (cni_rows(x) < 1) return cn_call_fail(c, CN_ERR_SHAPE, "needs at least one point");
  if (scaling < UNSCALED || scaling > BY_COUNT) return cn_call_fail(c, CN_ERR_VALUE, "scaling must be 0, 1 or 2");
  return cn_call_result(c, 0, x->dtype, x->ndim, x->shape);
}

static int lines_vjp(cn_vjp *v)
{
  v->gin[0] = cn_fft_c2c(v->g[0], !cni_arg_bool(v->args, 1), cni_arg_int(v->args, 2));
  return cn_err();
}

/* ---- fft_r2c(input (..., n), scaling) and fft_c2r(input (..., n / 2 + 1, 2), n, scaling) ---- */

static int check_scaling(const cn_call *c, int i)
{
  int64_t scaling = cni_arg_int(c->args, i);
  if (scaling >= UNSCALED && scaling <= BY_COUNT) return CN_OK;
  return cn_call_fail(c, CN_ERR_VALUE, "scaling must be 0, 1 or 2");
}

static int rlines_infer(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d;
  int64_t shape[CN_MAX_DIMS];
  int status = cni_check_float(c, 0);
  if (!status) status = check_scaling(c, 1);
  if (status) return status;
  if (x->ndim < 1 || cni_cols(x) < 1) return cn_call_fail(c, CN_ERR_SHAPE, "needs at least one point");
  if (x->ndim >= CN_MAX_DIMS) return cn_call_fail(c, CN_ERR_SHAPE, "too many dims");
  memcpy(shape, x->shape, sizeof shape);
  shape[x->ndim - 1] = cni_cols(x) / 2 + 1;
  shape[x->ndim] = 2;
  return cn_call_result(c, 0, x->dtype, x->ndim + 1, shape);
}

static int irlines_infer(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d;
  int64_t n = cni_arg_int(c->args, 1), shape[CN_MAX_DIMS];
  int status = cni_check_float(c, 0);
  if (!status) status = check_scaling(c, 2);
  if (status) return status;
  if (x->ndim < 2 || cni_cols(x) != 2 || n < 1 || cni_rows(x) != n / 2 + 1)
    return cn_call_fail(c, CN_ERR_SHAPE, "%lld points come from %lld pairs (real, imaginary)", (long long)n,
                        (long long)(n / 2 + 1));
  memcpy(shape, x->shape, sizeof shape);
  shape[x->ndim - 2] = n;
  return cn_call_result(c, 0, x->dtype, x->ndim - 1, shape);
}

/* x: (..., n / 2 + 1, 2), all but the points that are their own mirror images times `factor`. */
static cn_tensor *mirrored(cn_tensor *x, int64_t n, double factor)
{
  int64_t middle = (n - 1) / 2;
  if (!x || !middle) return x;
  cn_tensor *first = cn_narrow(x, -2, 0, 1), *rest = cn_mul(cn_narrow(x, -2, 1, middle), cn_num(factor));
  if (n % 2) return cn_cat(CN_TENSORS(first, rest), .dim = -2);
  return cn_cat(CN_TENSORS(first, rest, cn_narrow(x, -2, n / 2, 1)), .dim = -2);
}

static int rlines_vjp(cn_vjp *v)
{
  int64_t n = v->in_meta[0].shape[v->in_meta[0].ndim - 1];
  v->gin[0] = cn_fft_c2r(mirrored(v->g[0], n, 0.5), n, cni_arg_int(v->args, 1));
  return cn_err();
}

static int irlines_vjp(cn_vjp *v)
{
  v->gin[0] = mirrored(cn_fft_r2c(v->g[0], cni_arg_int(v->args, 2)), cni_arg_int(v->args, 1), 2);
  return cn_err();
}

static int rlines_decompose(cn_call *c)
{
  cn_tensor *x = cn_unsqueeze(c->in[0], -1);
  cn_tensor *y = cn_fft_c2c(cn_cat(CN_TENSORS(x, cn_zeros_like(x)), .dim = -1), false, cni_arg_int(c->args, 1));
  c->out[0] = cn_narrow(y, -2, 0, c->in[0]->d.shape[c->in[0]->d.ndim - 1] / 2 + 1);
  return cn_err();
}

/* What real numbers' transforms repeat: the conjugates of points 1 to (n - 1) / 2, backwards. x: (..., half, 2) */
static cn_tensor *whole_spectrum(cn_tensor *x, int64_t n)
{
  int64_t along = -2, rest = (n - 1) / 2;
  if (!rest) return x;
  cn_tensor *tail = cn_flip(cn_narrow(x, -2, 1, rest), &along, 1);
  tail = cn_cat(CN_TENSORS(cn_narrow(tail, -1, 0, 1), cn_neg(cn_narrow(tail, -1, 1, 1))), .dim = -1);
  return cn_cat(CN_TENSORS(x, tail), .dim = -2);
}

static int irlines_decompose(cn_call *c)
{
  cn_tensor *x = whole_spectrum(c->in[0], cni_arg_int(c->args, 1));
  c->out[0] = cn_select(cn_fft_c2c(x, true, cni_arg_int(c->args, 2)), -1, 0);
  return cn_err();
}

/* ---- what the four share ---- */

/* The scaling that norm asks for. Negative status for an unknown word. */
static int scaling_of(const cn_call *c, bool inverse)
{
  if (cni_arg_none(c->args, 3) || cni_arg_is(c->args, 3, "backward")) return inverse ? BY_COUNT : UNSCALED;
  if (cni_arg_is(c->args, 3, "ortho")) return ORTHO;
  if (cni_arg_is(c->args, 3, "forward")) return inverse ? UNSCALED : BY_COUNT;
  return cn_call_fail(c, CN_ERR_VALUE, "norm must be 'backward', 'ortho' or 'forward', but is '%s'",
                      cni_arg_str(c->args, 3));
}

/* x with `dim` cut or filled up with zeros to n. */
static cn_tensor *sized(cn_tensor *x, int dim, int64_t n)
{
  int64_t have = x ? x->d.shape[dim] : n, shape[CN_MAX_DIMS];
  if (have == n) return x;
  if (have > n) return cn_narrow(x, dim, 0, n);
  memcpy(shape, x->d.shape, sizeof shape);
  shape[dim] = n - have;
  cn_tensor *zeros = cn_zeros(shape, (size_t)x->d.ndim, .dtype = (cn_dtype)x->d.dtype, .device = x->d.device);
  return cn_cat(CN_TENSORS(x, zeros), .dim = dim);
}

static cn_tensor *moved(cn_tensor *x, int64_t from, int64_t to) { return cn_movedim(x, &from, 1, &to, 1); }

/* Checks (input, n, dim, norm): the dim, the number of points (default: otherwise) and the scaling. */
static int begin(const cn_call *c, bool pairs, bool inverse, int *dim, int *scaling)
{
  const cn_desc *x = &c->in[0]->d;
  int ndim = x->ndim - pairs;
  if (ndim < 1 || (pairs && cni_cols(x) != 2))
    return cn_call_fail(c, CN_ERR_SHAPE, "needs a dim to transform%s", pairs ? " and a last dim of pairs" : "");
  *dim = cn_call_dim(c, cni_arg_int(c->args, 2), ndim);
  *scaling = scaling_of(c, inverse);
  return *dim < 0 ? *dim : *scaling < 0 ? *scaling : CN_OK;
}

static int check_count(const cn_call *c, int64_t n)
{
  return n >= 1 ? CN_OK : cn_call_fail(c, CN_ERR_VALUE, "the number of points must be at least 1, but is %lld",
                                       (long long)n);
}

static cn_tensor *as_float(cn_tensor *x) { return cni_in_type(x, cni_float_type(x->d.dtype)); }

/* ---- fft_fft and fft_ifft: (input (..., 2), n, dim, norm) ---- */

static int complex_transform(cn_call *c, bool inverse)
{
  int dim, scaling, status = begin(c, true, inverse, &dim, &scaling);
  if (status) return status;
  int64_t n = cni_arg_int_or(c->args, 1, c->in[0]->d.shape[dim]);
  if ((status = check_count(c, n))) return status;
  cn_tensor *x = moved(sized(as_float(c->in[0]), dim, n), dim, -2);
  c->out[0] = moved(cn_fft_c2c(x, inverse, scaling), -2, dim);
  return cn_err();
}
static int fft_decompose(cn_call *c) { return complex_transform(c, false); }
static int ifft_decompose(cn_call *c) { return complex_transform(c, true); }

/* ---- fft_rfft(input, n, dim, norm) ---- */

static int rfft_decompose(cn_call *c)
{
  int dim, scaling, status = begin(c, false, false, &dim, &scaling);
  if (status) return status;
  int64_t n = cni_arg_int_or(c->args, 1, c->in[0]->d.shape[dim]);
  if ((status = check_count(c, n))) return status;
  cn_tensor *x = moved(sized(as_float(c->in[0]), dim, n), dim, -1);
  c->out[0] = moved(cn_fft_r2c(x, scaling), -2, dim);
  return cn_err();
}

/* ---- fft_irfft(input (..., 2), n, dim, norm) ---- */

static int irfft_decompose(cn_call *c)
{
  int dim, scaling, status = begin(c, true, true, &dim, &scaling);
  if (status) return status;
  int64_t n = cni_arg_int_or(c->args, 1, 2 * (c->in[0]->d.shape[dim] - 1));
  if ((status = check_count(c, n))) return status;
  cn_tensor *x = moved(sized(as_float(c->in[0]), dim, n / 2 + 1), dim, -2);
  c->out[0] = moved(cn_fft_c2r(x, n, scaling), -1, dim);
  return cn_err();
}

/* clang-format off */
const cn_op cni_fft_ops[] = {
  {.sig = "fft_c2c(Tensor input, bool inverse, int scaling) -> Tensor ; internal",
   .doc = "The discrete Fourier transform of lines of pairs (..., n, 2) along n; scaling 0 is none, 1 divides by the "
          "root "
          "of n, 2 by n.",
   .cost = cni_cost_fft, .infer = lines_infer, .vjp = lines_vjp},
  {.sig = "fft_r2c(Tensor input, int scaling) -> Tensor ; internal",
   .doc = "The first n / 2 + 1 points of the transform of lines of real numbers (..., n), as pairs; scaling as in "
          "fft_c2c.",
   .cost = cni_cost_rfft, .infer = rlines_infer, .vjp = rlines_vjp, .decompose = rlines_decompose},
  {.sig = "fft_c2r(Tensor input, int n, int scaling) -> Tensor ; internal",
   .doc = "Lines of n real numbers from the first n / 2 + 1 points of their transform, pairs (..., n / 2 + 1, 2); "
          "the imaginary parts of points that are their own mirror images count for nothing.",
   .cost = cni_cost_irfft, .infer = irlines_infer, .vjp = irlines_vjp, .decompose = irlines_decompose},
  {.sig = "fft_fft(Tensor input, int? n=None, int dim=-1, str? norm=None) -> Tensor ; amp_f32_host",
   .doc = "The discrete Fourier transform along dim of pairs (..., 2), cut or filled up to n points. norm: "
          "'backward' (no "
          "scaling), 'ortho' or 'forward' (divided by n).",
   .flags = CN_OP_COMPOSITE, .decompose = fft_decompose},
  {.sig = "fft_ifft(Tensor input, int? n=None, int dim=-1, str? norm=None) -> Tensor ; amp_f32_host",
   .doc = "The inverse of fft_fft: 'backward' divides by n, 'forward' does not.",
   .flags = CN_OP_COMPOSITE, .decompose = ifft_decompose},
  {.sig = "fft_rfft(Tensor input, int? n=None, int dim=-1, str? norm=None) -> Tensor ; amp_f32_host",
   .doc = "The discrete Fourier transform of real numbers along dim: the first n / 2 + 1 points, as pairs in a new "
          "last "
          "dim.",
   .flags = CN_OP_COMPOSITE, .decompose = rfft_decompose},
  {.sig = "fft_irfft(Tensor input, int? n=None, int dim=-1, str? norm=None) -> Tensor ; amp_f32_host",
   .doc = "The inverse of fft_rfft: pairs (..., 2) to n real numbers, 2 (size - 1) by default.",
   .flags = CN_OP_COMPOSITE, .decompose = irfft_decompose},
};
/* clang-format on */
CNI_FAMILY(fft);
