/* dropout.c: the family of dropouts: of elements, of whole channels, and those that keep mean and variance.
 *
 * Place in the flow: composites over native_dropout, which has a kernel (cpu/random/dropout.c). Invariant: which
 * elements are kept depends on the seed and the number of draws before alone. */
#include <cairn/kw.h>
#include <math.h>

#include "families.h"
#include "shorthand.h"

/* ---- of elements ---- */

static int native_dropout_infer(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d;
  double p = cni_arg_float(c->args, 1);
  if (!(p >= 0 && p < 1)) return cn_call_fail(c, CN_ERR_VALUE, "p must be at least 0 and below 1, but is %g", p);
  if (!cni_dtype_is_float(x->dtype) || !cni_dtype_computes(x->dtype))
    return cn_call_fail(c, CN_ERR_DTYPE, "takes floating-point numbers, not %s", cn_dtype_name((cn_dtype)x->dtype));
  int status = cni_infer_like(c, 0, 0, x->dtype);
  return status ? status : cn_call_result(c, 1, CN_BOOL, x->ndim, x->shape);
}
static int native_dropout_vjp(cn_vjp *v)
{
  if (v->g[0]) v->gin[0] = cn_addcmul(cn_int(0), v->g[0], v->out[1], .value = 1 / (1 - cni_arg_float(v->args, 1)));
  return cn_err();
}

/* ---- drawn later: by kernels that have no room for the numbers ---- */

/* reserve_draws(size, device) */
static int reserve_draws_infer(cn_call *c)
{
  const int64_t two = CNI_DRAWS_BEGIN;
  if (c->args[1].tag != CN_V_NONE) c->device = (cn_device)c->args[1].u.i;
  for (int i = 0; i < c->args[0].n; i++)
    if (c->args[0].u.is[i] < 0) return cn_call_fail(c, CN_ERR_SHAPE, "a size must not be negative");
  return cn_call_result(c, 0, CN_I64, 1, &two);
}

int cni_check_draws(const cn_call *c, const cn_tensor *draws)
{
  if (draws->d.ndim == 1 && draws->d.shape[0] == CNI_DRAWS_BEGIN && draws->d.dtype == CN_I64) return CN_OK;
  return cn_call_fail(c, CN_ERR_SHAPE, "draws must be what reserve_draws gives: two int64 numbers");
}

/* dropped_ones(draws, size, p, dtype) */
static int dropped_ones_infer(cn_call *c)
{
  double p = cni_arg_float(c->args, 2);
  int dtype = c->args[3].tag == CN_V_NONE ? CN_F32 : (int)c->args[3].u.i, status = cni_check_draws(c, c->in[0]);
  if (status) return status;
  if (!(p >= 0 && p < 1)) return cn_call_fail(c, CN_ERR_VALUE, "p must be at least 0 and below 1, but is %g", p);
  if (!cni_dtype_is_float(dtype) || !cni_dtype_computes(dtype))
    return cn_call_fail(c, CN_ERR_DTYPE, "makes floating-point numbers, not %s", cn_dtype_name((cn_dtype)dtype));
  return cn_call_result(c, 0, dtype, c->args[1].n, c->args[1].u.is);
}

/* dropout(input, p, training) */
static int dropout_decompose(cn_call *c)
{
  double p = cni_arg_float(c->args, 1);
  if (!(p >= 0 && p <= 1)) return cn_call_fail(c, CN_ERR_VALUE, "p must lie between 0 and 1, but is %g", p);
  if (p <= 0 || !cni_arg_bool(c->args, 2)) c->out[0] = c->in[0];
  else if (p >= 1) c->out[0] = cn_mul(c->in[0], cn_int(0));
  else cn_native_dropout(&c->out[0], NULL, c->in[0], p);
  return cn_err();
}

/* ---- of channels, and with the mean and variance kept ---- */

/* Ones of x's type: of its shape, or with size 1 for all dims beyond the first `outer`. */
static cn_tensor *ones_for(const cn_tensor *x, int outer)
{
  int64_t shape[CN_MAX_DIMS];
  for (int d = 0; d < x->d.ndim; d++) shape[d] = d < outer ? x->d.shape[d] : 1;
  return cn_ones(shape, (size_t)x->d.ndim, .dtype = (cn_dtype)x->d.dtype, .device = x->d.device);
}

/* Arguments (input, p, training) of all: what drops nothing, or everything, is done here. 1: nothing is left to do, 0:
 * numbers are to be drawn, negative: an error. */
static int settled(cn_call *c, double p)
{
  if (!(p >= 0 && p <= 1))
    return cn_call_fail(c, CN_ERR_VALUE, "dropout probability has to be between 0 and 1, but got %g", p);
  bool empty = c->in[0]->d.numel == 0 && !cni_tracing_sizes();
  bool all = p <= 0 || !cni_arg_bool(c->args, 2) || empty;
  if (!all && p < 1) return 0;
  c->out[0] = all ? c->in[0] : cn_mul(c->in[0], cn_int(0));
  return cn_err() ? cn_err() : 1;
}

/* Drops whole channels: what lies below the first `outer` dims. */
static int drop_channels(cn_call *c, int outer)
{
  double p = cni_arg_float(c->args, 1);
  cn_tensor *keep = NULL;
  int status = settled(c, p);
  if (status) return status < 0 ? status : CN_OK;
  cn_native_dropout(&keep, NULL, ones_for(c->in[0], outer), p);
  c->out[0] = cn_mul(c->in[0], keep);
  return cn_err();
}

static int check_channels(const cn_call *c)
{
  if (c->in[0]->d.ndim >= 2 || !cni_arg_bool(c->args, 2)) return CN_OK;
  return cn_call_fail(c, CN_ERR_SHAPE, "needs at least 2 dims, batch and channels, not %d", c->in[0]->d.ndim);
}

static int feature_dropout_decompose(cn_call *c)
{
  int status = check_channels(c);
  return status ? status : drop_channels(c, 2);
}
/* dropout1d: (N, C, L) or (C, L) */
static int dropout1d_decompose(cn_call *c)
{
  int ndim = c->in[0]->d.ndim;
  if (ndim != 2 && ndim != 3) return cn_call_fail(c, CN_ERR_SHAPE, "takes 2 or 3 dims, not %d", ndim);
  return drop_channels(c, ndim - 1);
}
/* dropout2d: (N, C, H, W), or (N, C, L) as PyTorch reads three dims */
static int dropout2d_decompose(cn_call *c) { return feature_dropout_decompose(c); }
/* dropout3d: (N, C, D, H, W) or (C, D, H, W) */
static int dropout3d_decompose(cn_call *c)
{
  return c->in[0]->d.ndim == 4 ? drop_channels(c, 1) : feature_dropout_decompose(c);
}

/* Drops to SELU's lower limit, then moves and scales so that mean 0 and variance 1 stay. */
static int drop_to_limit(cn_call *c, int outer)
{
  const double limit = 1.7580993408473766;
  double p = cni_arg_float(c->args, 1);
  cn_tensor *mask = NULL, *scaled = NULL;
  int status = settled(c, p);
  if (status) return status < 0 ? status : CN_OK;
  double a = 1 / sqrt((limit * limit * p + 1) * (1 - p)), shift = limit * a * p;
  cn_native_dropout(&scaled, &mask, ones_for(c->in[0], outer), p);
  cn_tensor *kept = cn_add(cn_mul(c->in[0], cn_num(a)), cn_num(shift));
  c->out[0] = cn_where(mask, kept, cn_num(shift - limit * a));
  return cn_err();
}
static int alpha_dropout_decompose(cn_call *c) { return drop_to_limit(c, c->in[0]->d.ndim); }
static int feature_alpha_dropout_decompose(cn_call *c)
{
  int status = check_channels(c);
  return status ? status : drop_to_limit(c, 2);
}

/* clang-format off */
const cn_op cni_dropout_ops[] = {
  {.sig = "native_dropout(Tensor input, float p) -> (Tensor output, Tensor mask) ; grad_fn_MulBackward0 tuple",
   .doc = "Each element zero with probability p, else divided by 1 - p; mask says which were kept.",
   .flags = CN_OP_RANDOM, .infer = native_dropout_infer, .vjp = native_dropout_vjp, .needs = {[0] = CN_OUT(1)}},
  {.sig = "reserve_draws(int[] size, *, device? device=None) -> Tensor ; internal",
   .doc = "Where the numbers of native_dropout of a tensor of this size begin, which dropped_ones draws later: the key "
          "and the first counter, two int64.",
   .flags = CN_OP_RANDOM | CN_OP_RESERVES | CN_OP_NO_GRAD, .infer = reserve_draws_infer},
  {.sig = "dropped_ones(Tensor draws, int[] size, float p, *, dtype? dtype=None) -> Tensor ; internal",
   .doc = "native_dropout of ones of this size (float32 unless dtype says otherwise), by the numbers that "
          "reserve_draws has reserved.",
   .flags = CN_OP_NO_GRAD, .infer = dropped_ones_infer},
  {.sig = "dropout(Tensor input, float p=0.5, bool training=True) -> Tensor ; nn complex",
   .doc = "In training, each element zero with probability p, else divided by 1 - p; otherwise input itself.",
   .flags = CN_OP_COMPOSITE, .decompose = dropout_decompose},
  {.sig = "feature_dropout(Tensor input, float p, bool train) -> Tensor ; complex",
   .doc = "Each channel (dims 0 and 1 number them) zero with probability p, else divided by 1 - p.",
   .flags = CN_OP_COMPOSITE, .decompose = feature_dropout_decompose},
  {.sig = "dropout1d(Tensor input, float p=0.5, bool training=True) -> Tensor ; nn complex",
   .doc = "Each channel of (N, C, L) or (C, L) zero with probability p, else divided by 1 - p.",
   .flags = CN_OP_COMPOSITE, .decompose = dropout1d_decompose},
  {.sig = "dropout2d(Tensor input, float p=0.5, bool training=True) -> Tensor ; nn complex",
   .doc = "Each channel of (N, C, H, W) zero with probability p, else divided by 1 - p; three dims are (N, C, L).",
   .flags = CN_OP_COMPOSITE, .decompose = dropout2d_decompose},
  {.sig = "dropout3d(Tensor input, float p=0.5, bool training=True) -> Tensor ; nn complex",
   .doc = "Each channel of (N, C, D, H, W) or (C, D, H, W) zero with probability p, else divided by 1 - p.",
   .flags = CN_OP_COMPOSITE, .decompose = dropout3d_decompose},
  {.sig = "alpha_dropout(Tensor input, float p=0.5, bool training=False) -> Tensor ; nn complex",
   .doc = "Each element at SELU's lower limit with probability p; all moved and scaled so that mean and variance stay.",
   .flags = CN_OP_COMPOSITE, .decompose = alpha_dropout_decompose},
  {.sig = "feature_alpha_dropout(Tensor input, float p=0.5, bool training=False) -> Tensor ; nn complex",
   .doc = "alpha_dropout of whole channels.",
   .flags = CN_OP_COMPOSITE, .decompose = feature_alpha_dropout_decompose},
};
/* clang-format on */
CNI_FAMILY(dropout);
