/* resample.c: the family of changes of size: interpolate, and resample, the change along one dim that it is made of.
 *
 * Place in the flow: interpolate is a composite; backends give kernels for resample and resample_backward. Invariant:
 * resample is linear, and resample_backward is its transpose, so gradients of any order end here. float16 and bfloat16
 * are rounded once, after the last dim. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>
#include <math.h>

#include "families.h"
#include "infer.h"
#include "resample.h"
#include "shorthand.h"
#include "window.h"

/* ---- resample(input, dim, size, mode, align_corners, scale, antialias), and with grad for input its transpose ---- */

static int resampled(cn_call *c, bool bytes)
{
  const cn_desc *x = &c->in[0]->d;
  int64_t shape[CN_MAX_DIMS], size = cni_arg_int(c->args, 2);
  int dim = cn_call_dim(c, cni_arg_int(c->args, 1), x->ndim);
  if (dim < 0) return dim;
  if (x->dtype != CN_F32 && x->dtype != CN_F64 && !(bytes && x->dtype == CN_U8))
    return cn_call_fail(c, CN_ERR_DTYPE, "takes float32 and float64%s, not %s; cast it with cn_cast",
                        bytes ? " and uint8" : "", cn_dtype_name((cn_dtype)x->dtype));
  if (x->ndim == 0 || x->shape[dim] < 1 || size < 1)
    return cn_call_fail(c, CN_ERR_SHAPE, "needs a dim of at least one element, before and after");
  if (cni_resample_mode_find(cni_arg_str(c->args, 3)) < 0)
    return cn_call_fail(c, CN_ERR_VALUE, "mode must be nearest, nearest-exact, linear or cubic, not '%s'",
                        cni_arg_str(c->args, 3));
  memcpy(shape, x->shape, (size_t)x->ndim * sizeof *shape);
  shape[dim] = size;
  return cn_call_result(c, 0, x->dtype, x->ndim, shape);
}

static int resample_infer(cn_call *c) { return resampled(c, true); }
static int resample_backward_infer(cn_call *c) { return resampled(c, false); }

static int resample_vjp(cn_vjp *v)
{
  const cn_value *a = v->args;
  int64_t dim = cni_arg_int(a, 1), ndim = v->in_meta[0].ndim;
  v->gin[0] = cn_resample_backward(v->g[0], dim, v->in_meta[0].shape[dim < 0 ? dim + ndim : dim], cni_arg_str(a, 3),
                                   cni_arg_bool(a, 4), cni_arg_float(a, 5), cni_arg_bool(a, 6));
  return cn_err();
}

static int resample_backward_vjp(cn_vjp *v)
{
  const cn_value *a = v->args;
  int64_t dim = cni_arg_int(a, 1), ndim = v->in_meta[0].ndim;
  v->gin[0] = cn_resample(v->g[0], dim, v->in_meta[0].shape[dim < 0 ? dim + ndim : dim], cni_arg_str(a, 3),
                          cni_arg_bool(a, 4), cni_arg_float(a, 5), cni_arg_bool(a, 6));
  return cn_err();
}

/* ---- interpolate(input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias) ---- */

enum { SIZE = 1, SCALE, MODE, CORNERS, RECOMPUTE, ANTIALIAS, MOST_DIMS = 3 };

/* What the modes are made of along each dim; dims: how many they are for (0: any) */
static const struct mode {
  const char *name, *along;
  int dims;
  bool corners; /* align_corners may be given */
} modes[] = {{"nearest", "nearest", 0, false},
             {"nearest-exact", "nearest-exact", 0, false},
             {"area", "", 0, false},
             {"linear", "linear", 1, true},
             {"bilinear", "linear", 2, true},
             {"trilinear", "linear", 3, true},
             {"bicubic", "cubic", 2, true}};

static int find_mode(const cn_call *c, int dims, const struct mode **found)
{
  const struct mode *m = NULL;
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
    if (cni_arg_is(c->args, MODE, modes[i].name)) m = &modes[i];
  if (!m) return cn_call_fail(c, CN_ERR_VALUE, "there is no mode '%s'", cni_arg_str(c->args, MODE));
  if (m->dims && m->dims != dims)
    return cn_call_fail(c, CN_ERR_SHAPE, "mode %s is for inputs of %d dims, not %d", m->name, m->dims + 2, dims + 2);
  if (!m->corners && !cni_arg_none(c->args, CORNERS))
    return cn_call_fail(c, CN_ERR_VALUE, "align_corners is for the modes linear, bilinear, bicubic and trilinear");
  if (cni_arg_bool(c->args, ANTIALIAS) && m->dims != 2)
    return cn_call_fail(c, CN_ERR_VALUE, "antialias is for the modes bilinear and bicubic");
  *found = m;
  return CN_OK;
}

/* The result's sizes, and the scale of each dim as given (0: the ratio of the sizes). */
static int find_sizes(const cn_call *c, int dims, bool area, int64_t *size, double *scale)
{
  const cn_value *sizes = &c->args[SIZE], *scales = &c->args[SCALE];
  bool given = sizes->tag == CN_V_INTS, scaled = scales->tag == CN_V_FLOATS;
  bool recompute = !cni_arg_none(c->args, RECOMPUTE) && cni_arg_bool(c->args, RECOMPUTE);
  if (given == scaled) return cn_call_fail(c, CN_ERR_VALUE, "takes either size or scale_factor");
  if (given && recompute)
    return cn_call_fail(c, CN_ERR_VALUE, "recompute_scale_factor means nothing where the size is given");
  if ((given ? sizes->n : scales->n) != dims)
    return cn_call_fail(c, CN_ERR_SHAPE, "takes %d numbers for %s, one per dim behind the channels, not %d", dims,
                        given ? "size" : "scale_factor", (int)(given ? sizes->n : scales->n));
  for (int i = 0; i < dims; i++) {
    double product = given ? 0 : (double)c->in[0]->d.shape[2 + i] * scales->u.fs[i];
    scale[i] = given || recompute || area ? 0 : scales->u.fs[i];
    if (!given && !(product >= 1 && product < 0x1p53))
      return cn_call_fail(c, CN_ERR_VALUE, "scale_factor %g leaves nothing of size %lld", scales->u.fs[i],
                          (long long)c->in[0]->d.shape[2 + i]);
    size[i] = given ? sizes->u.is[i] : (int64_t)product;
    if (size[i] < 1 || c->in[0]->d.shape[2 + i] < 1)
      return cn_call_fail(c, CN_ERR_SHAPE, "sizes must be at least 1, before and after; dim %d goes from %lld to %lld",
                          2 + i, (long long)c->in[0]->d.shape[2 + i], (long long)size[i]);
  }
  return CN_OK;
}

static cn_tensor *by_area(cn_tensor *x, int dims, const int64_t *size)
{
  return dims == 1   ? cn_adaptive_avg_pool1d(x, size, 1)
         : dims == 2 ? cn_adaptive_avg_pool2d(x, size, 2)
                     : cn_adaptive_avg_pool3d(x, size, 3);
}

static int interpolate_decompose(cn_call *c)
{
  cn_tensor *x = c->in[0];
  const struct mode *m = NULL;
  int dims = x->d.ndim - 2, type = x->d.dtype;
  int64_t size[MOST_DIMS];
  double scale[MOST_DIMS];
  bool corners = !cni_arg_none(c->args, CORNERS) && cni_arg_bool(c->args, CORNERS);
  if (dims < 1 || dims > MOST_DIMS)
    return cn_call_fail(c, CN_ERR_SHAPE, "takes inputs of 3 to 5 dims, (N, C, ...), not %d", (int)x->d.ndim);
  int status = find_mode(c, dims, &m);
  if (!status) status = find_sizes(c, dims, !*m->along, size, scale);
  if (status) return status;
  if (x->d.shape[1] == 0) return cn_call_fail(c, CN_ERR_SHAPE, "the input has no channels");
  if (!cni_dtype_is_float(type) && type != CN_U8)
    return cn_call_fail(c, CN_ERR_DTYPE, "not for %s; cast the input with cn_cast", cn_dtype_name((cn_dtype)type));
  if (!*m->along) {
    c->out[0] = by_area(x, dims, size);
    return cn_err();
  }
  bool bytes = type == CN_U8 && m->dims == 2; /* rounded after each dim, as PyTorch does */
  if (type != CN_F64 && !bytes) x = cni_in_type(x, CN_F32);
  for (int i = dims - 1; i >= 0; i--) {
    bool same = x && x->d.shape[2 + i] == size[i] && (scale[i] == 0 || scale[i] == 1); /* else a scale may move it */
    if (!same)
      x = cn_resample(x, 2 + i, size[i], m->along, corners, scale[i], cni_arg_bool(c->args, ANTIALIAS));
  }
  if (type == CN_U8 && !bytes) x = cn_clamp(cn_floor(cn_add(x, cn_num(0.5))), cn_int(0), cn_int(255));
  x = cni_in_type(x, type);
  if (dims == 2 && x && cni_is_like_channels_last(&c->in[0]->d)) x = cn_channels_last(x);
  c->out[0] = x == c->in[0] ? cn_clone(x) : x;
  return cn_err();
}

/* clang-format off */
const cn_op cni_resample_ops[] = {
  {.sig = "interpolate(Tensor input, int[]? size=None, float[]? scale_factor=None, str mode='nearest', "
          "bool? align_corners=None, bool? recompute_scale_factor=None, bool antialias=False) -> Tensor ; nn "
          "amp_f32_device",
   .doc = "The input, (N, C, ...) with one to three dims behind the channels, in another size. Modes: nearest, "
          "nearest-exact, area (means, see adaptive_avg_pool2d), linear, bilinear, trilinear, bicubic. align_corners: "
          "the corner elements' centres, not their outer edges, stay in place. A scale_factor also maps positions "
          "unless recompute_scale_factor is true, where the ratio of sizes does. antialias: a smaller result is the "
          "mean of all it covers (bilinear and bicubic).",
   .flags = CN_OP_COMPOSITE, .decompose = interpolate_decompose},
  {.sig = "resample(Tensor input, int dim, int size, str mode, bool align_corners, float scale, bool antialias) "
          "-> Tensor ; nn internal",
   .doc = "interpolate along one dim. mode: nearest, nearest-exact, linear or cubic; scale: 0 for the ratio of sizes. "
          "uint8 computes with weights of 16 bits and rounds.",
   .infer = resample_infer, .vjp = resample_vjp},
  {.sig = "resample_backward(Tensor grad, int dim, int input_size, str mode, bool align_corners, float scale, "
          "bool antialias) -> Tensor ; nn internal",
   .doc = "The gradient of resample with respect to its input, whose size along dim is input_size.",
   .infer = resample_backward_infer, .vjp = resample_backward_vjp},
};
/* clang-format on */
CNI_FAMILY(resample);
