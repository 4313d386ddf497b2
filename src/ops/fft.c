/* fft.c: the family of discrete Fourier transforms of lines, which those of tensors (fft_nd.c) are made of. Here a
 * complex number is a pair (real, imaginary) in a trailing dim of size 2.
 *
 * Place in the flow: three structural ops: fft_c2c, that transforms the dim before the pair, and fft_r2c and fft_c2r
 * for real numbers. Invariant: a transform is linear, and its gradient is the transform in the other direction. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>

#include "cost.h"
#include "families.h"
#include "fft.h"
#include "linalg.h"


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
  if (scaling < CNI_FFT_UNSCALED || scaling > CNI_FFT_BY_COUNT)
    return cn_call_fail(c, CN_ERR_VALUE, "scaling must be 0, 1 or 2");
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
  if (scaling >= CNI_FFT_UNSCALED && scaling <= CNI_FFT_BY_COUNT) return CN_OK;
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
};
/* clang-format on */
CNI_FAMILY(fft);
