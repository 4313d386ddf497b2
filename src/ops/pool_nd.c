/* pool_nd.c: the family of pools over signals and volumes, and of ops that are made of pools: power averages, the way
 * back from a maximum.
 *
 * Place in the flow: all rows are composites of the pools over images (pool.c). A signal is an image of height one. A
 * volume is pooled within its planes, then along its depth: windows are products of intervals, so this gives the same
 * maxima, in the same order of preference, and the same means. Invariant: float16 and bfloat16 are rounded once, at
 * the end. */
#include <cairn/kw.h>
#include <math.h>

#include "families.h"
#include "shorthand.h"
#include "window.h"

enum { MOST_DIMS = 3 };

/* What a pool over `n` dims is given. */
typedef struct windows {
  int n;
  int64_t kernel[MOST_DIMS], stride[MOST_DIMS], padding[MOST_DIMS], dilation[MOST_DIMS];
  bool ceil_mode, without_pad;
  int64_t divisor; /* CN_NONE: the number of elements */
} windows;

/* ---- arguments ---- */

static const char *const shapes[] = {"(N, C, L) or (C, L)", "(N, C, H, W) or (C, H, W)",
                                     "(N, C, D, H, W) or (C, D, H, W)"};

static int check_dims(const cn_call *c, int n)
{
  const cn_desc *x = &c->in[0]->d;
  char text[CNI_SHAPE_TEXT];
  bool fits = x->ndim == n + 1 || x->ndim == n + 2;
  for (int i = x->ndim - n; fits && i < x->ndim; i++) fits = x->shape[i] > 0;
  if (fits && x->shape[x->ndim - n - 1] > 0) return CN_OK;
  return cn_call_fail(c, CN_ERR_SHAPE, "takes inputs of shape %s with at least one element each, not %s", shapes[n - 1],
                      cni_shape_text(text, sizeof text, x->ndim, x->shape));
}

static int read_list(const cn_call *c, int arg, const char *name, int n, int64_t least, int64_t *to)
{
  int status = cni_tuple_check(c, arg, name, n, least);
  for (int i = 0; !status && i < n; i++) to[i] = cni_pair(&c->args[arg], i);
  return status;
}

/* kernel: its argument's index; stride follows (None and [] mean the kernel), then padding unless it has none. */
static int read_windows(const cn_call *c, windows *w, int n, int kernel, bool has_padding)
{
  const cn_value *stride = &c->args[kernel + 1];
  bool none = stride->tag == CN_V_NONE || (stride->tag == CN_V_INTS && stride->n == 0);
  *w = (windows){.n = n, .dilation = {1, 1, 1}, .divisor = CN_NONE};
  int status = check_dims(c, n);
  if (!status) status = read_list(c, kernel, "kernel_size", n, 1, w->kernel);
  if (!status && none) memcpy(w->stride, w->kernel, sizeof w->stride);
  if (!status && !none) status = read_list(c, kernel + 1, "stride", n, 1, w->stride);
  if (!status && has_padding) status = read_list(c, kernel + 2, "padding", n, 0, w->padding);
  return status;
}

/* ---- the pools over images, by the two dims of w that begin at `d` (d < 0: the depth alone) ---- */

/* Dim i of the image: the depth's image has width one windows. */
static int64_t of(const int64_t *list, int d, int i, int64_t otherwise)
{
  return d >= 0 ? list[d + i] : i == 0 ? list[0] : otherwise;
}

static cn_tensor *max_images(cn_tensor *x, const windows *w, int d, cn_tensor **index)
{
  int64_t kernel[2] = {of(w->kernel, d, 0, 1), of(w->kernel, d, 1, 1)};
  cn_max_pool2d_with_indices_opts o = {
      .size = sizeof o,
      .stride = CN_INTS(of(w->stride, d, 0, 1), of(w->stride, d, 1, 1)),
      .padding = CN_INTS(of(w->padding, d, 0, 0), of(w->padding, d, 1, 0)),
      .dilation = CN_INTS(of(w->dilation, d, 0, 1), of(w->dilation, d, 1, 1)),
      .ceil_mode = w->ceil_mode};
  cn_tensor *y = NULL, *at = NULL;
  cn_max_pool2d_with_indices_with(&y, &at, x, kernel, 2, &o);
  if (index) *index = at;
  return y;
}

static cn_tensor *avg_images(cn_tensor *x, const windows *w, int d, int64_t divisor)
{
  int64_t kernel[2] = {of(w->kernel, d, 0, 1), of(w->kernel, d, 1, 1)};
  cn_avg_pool2d_opts o = {.size = sizeof o,
                          .stride = CN_INTS(of(w->stride, d, 0, 1), of(w->stride, d, 1, 1)),
                          .padding = CN_INTS(of(w->padding, d, 0, 0), of(w->padding, d, 1, 0)),
                          .ceil_mode = w->ceil_mode,
                          .no_count_include_pad = w->without_pad};
  return cn_avg_pool2d_with(x, kernel, 2, divisor, &o);
}

/* The windows of a signal as those of an image of height one. */
static windows as_image(const windows *w)
{
  windows flat = *w;
  flat.n = 2;
  flat.kernel[0] = flat.stride[0] = flat.dilation[0] = 1;
  flat.padding[0] = 0;
  flat.kernel[1] = w->kernel[0];
  flat.stride[1] = w->stride[0];
  flat.dilation[1] = w->dilation[0];
  flat.padding[1] = w->padding[0];
  return flat;
}

static cn_tensor *flat_again(cn_tensor *y) { return y ? cn_squeeze(y, .dim = CN_INTS(-2)) : NULL; }

/* ---- volumes ---- */

/* x: ((N,) C, D, H, W) as (N * C, D, H, W) */
static cn_tensor *planes_of(cn_tensor *x)
{
  if (!x) return NULL;
  const int64_t *s = x->d.shape + x->d.ndim - 3;
  int64_t n = x->d.shape[0] * (x->d.ndim == 5 ? x->d.shape[1] : 1);
  return cn_reshape(x, CN_SHAPE(n, s[0], s[1], s[2]));
}

/* (N * C, D, h, w) as (N * C, 1, D, h * w) */
static cn_tensor *depths_of(cn_tensor *x)
{
  if (!x) return NULL;
  const int64_t *s = x->d.shape;
  return cn_reshape(x, CN_SHAPE(s[0], 1, s[1], s[2] * s[3]));
}

/* y: (N * C, 1, D, h * w) as the volume that `like` is, with h and w from `planes`: (N * C, D', h, w). */
static cn_tensor *volume_of(cn_tensor *y, const cn_tensor *like, const cn_tensor *planes)
{
  int64_t shape[5];
  if (!y || !planes) return NULL;
  int n = like->d.ndim;
  memcpy(shape, like->d.shape, (size_t)n * sizeof *shape);
  shape[n - 3] = y->d.shape[2];
  shape[n - 2] = planes->d.shape[2];
  shape[n - 1] = planes->d.shape[3];
  return cn_reshape(y, shape, (size_t)n);
}

/* Where in the volume: deep is an index into (D, P) of the depth's pool, plane one into an image of `area` elements
 * for each of the (D, P). Windows of padding alone have index -1. */
static cn_tensor *volume_index(cn_tensor *deep, cn_tensor *plane, int64_t area)
{
  if (!deep || !plane) return NULL;
  int64_t n = deep->d.shape[0], cells = deep->d.shape[3], depth = plane->d.shape[1];
  cn_tensor *flat = cn_reshape(deep, CN_SHAPE(n, deep->d.shape[2] * cells));
  cn_tensor *safe = cn_clamp_min(flat, cn_int(0));
  cn_tensor *within = cn_gather(cn_reshape(plane, CN_SHAPE(n, depth * cells)), 1, safe);
  cn_tensor *at = cn_add(cn_mul(cn_trunc_divide(safe, cn_int(cells)), cn_int(area)), within);
  cn_tensor *nowhere = cn_logical_or(cn_lt(flat, cn_int(0)), cn_lt(within, cn_int(0)));
  at = cn_where(nowhere, cn_full_like(at, -1), at);
  return at ? cn_reshape(at, deep->d.shape, 4) : NULL;
}

static cn_tensor *max_volumes(cn_tensor *x, const windows *w, cn_tensor **index)
{
  cn_tensor *plane_index = NULL, *depth_index = NULL;
  if (!x) return NULL;
  int64_t area = x->d.shape[x->d.ndim - 1] * x->d.shape[x->d.ndim - 2];
  cn_tensor *planes = max_images(planes_of(x), w, 1, &plane_index);
  cn_tensor *y = max_images(depths_of(planes), w, -1, &depth_index);
  if (index) *index = volume_of(volume_index(depth_index, plane_index, area), x, planes);
  return volume_of(y, x, planes);
}

/* ---- max_poolNd(input, kernel_size, stride, padding, dilation, ceil_mode) ---- */

static int max_pool(cn_call *c, int n, bool indices)
{
  windows w;
  cn_tensor *index = NULL;
  int status = read_windows(c, &w, n, 1, true);
  if (!status) status = read_list(c, 4, "dilation", n, 1, w.dilation);
  if (status) return status;
  w.ceil_mode = cni_arg_bool(c->args, 5);
  if (n == 1) {
    windows flat = as_image(&w);
    c->out[0] = flat_again(max_images(cn_unsqueeze(c->in[0], -2), &flat, 0, &index));
    index = flat_again(index);
  } else c->out[0] = max_volumes(c->in[0], &w, indices ? &index : NULL);
  if (indices) c->out[1] = index;
  return cn_err();
}

static int max1d_decompose(cn_call *c) { return max_pool(c, 1, false); }
static int max1d_indices_decompose(cn_call *c) { return max_pool(c, 1, true); }
static int max3d_decompose(cn_call *c) { return max_pool(c, 3, false); }
static int max3d_indices_decompose(cn_call *c) { return max_pool(c, 3, true); }

/* ---- avg_poolNd(input, kernel_size, stride, padding, ceil_mode, count_include_pad[, divisor_override]) ---- */

/* A sum per window with divisor 1, a mean with CN_NONE. */
static cn_tensor *avg_volumes(cn_tensor *x, const windows *w, int64_t divisor)
{
  cn_tensor *planes = avg_images(planes_of(x), w, 1, divisor == CN_NONE ? CN_NONE : 1);
  return volume_of(avg_images(depths_of(planes), w, -1, divisor), x, planes);
}

/* Integers divide once, so they need the number of elements of each window: that inside over the share inside. */
static cn_tensor *avg_integers(cn_tensor *x, const windows *w)
{
  int64_t n = x->d.ndim, shape[4] = {1, x->d.shape[n - 3], x->d.shape[n - 2], x->d.shape[n - 1]};
  cn_meta m = {.ndim = 4, .device = x->d.device, .shape = shape};
  cn_tensor *ones = cn_add(cni_zeros_of(&m, CN_F64), cn_int(1));
  if (!ones) return NULL;
  cn_tensor *count = cn_div(avg_volumes(ones, w, 1), avg_volumes(ones, w, CN_NONE));
  return cn_trunc_divide(avg_volumes(x, w, 1), cni_in_type(cn_round(count), x->d.dtype));
}

static int avg1d_decompose(cn_call *c)
{
  windows w;
  int status = read_windows(c, &w, 1, 1, true);
  if (status) return status;
  w.ceil_mode = cni_arg_bool(c->args, 4);
  w.without_pad = !cni_arg_bool(c->args, 5);
  windows flat = as_image(&w);
  c->out[0] = flat_again(avg_images(cn_unsqueeze(c->in[0], -2), &flat, 0, CN_NONE));
  return cn_err();
}

static int avg3d_decompose(cn_call *c)
{
  windows w;
  cn_tensor *x = c->in[0];
  int type = x->d.dtype, status = read_windows(c, &w, 3, 1, true);
  int64_t divisor = cni_arg_int_or(c->args, 6, CN_NONE);
  if (status) return status;
  if (divisor == 0) return cn_call_fail(c, CN_ERR_VALUE, "divisor_override must not be zero");
  w.ceil_mode = cni_arg_bool(c->args, 4);
  w.without_pad = !cni_arg_bool(c->args, 5);
  if (!cni_dtype_is_float(type) && divisor == CN_NONE) c->out[0] = avg_integers(x, &w);
  else {
    if (type == CN_F16 || type == CN_BF16) x = cni_in_type(x, CN_F32);
    c->out[0] = x ? cni_in_type(avg_volumes(x, &w, divisor), type) : NULL;
  }
  return cn_err();
}

/* ---- adaptive pools (input, output_size) ---- */

static int adaptive_sizes(const cn_call *c, int n, int64_t *size)
{
  int status = check_dims(c, n);
  return status ? status : read_list(c, 1, "output_size", n, 0, size);
}

static int adaptive_avg1d_decompose(cn_call *c)
{
  int64_t size[1];
  int status = adaptive_sizes(c, 1, size);
  if (status) return status;
  c->out[0] = flat_again(cn_adaptive_avg_pool2d(cn_unsqueeze(c->in[0], -2), CN_SHAPE(1, size[0])));
  return cn_err();
}

static int adaptive_avg3d_decompose(cn_call *c)
{
  int64_t size[3];
  cn_tensor *x = c->in[0];
  int type = x->d.dtype, status = adaptive_sizes(c, 3, size);
  if (status) return status;
  if (type == CN_F16 || type == CN_BF16) x = cni_in_type(x, CN_F32);
  if (size[1] == 0 || size[2] == 0) { /* the depth's images would be empty */
    int64_t shape[5];
    memcpy(shape, c->in[0]->d.shape, (size_t)c->in[0]->d.ndim * sizeof *shape);
    memcpy(shape + c->in[0]->d.ndim - 3, size, sizeof size);
    cn_meta m = {.ndim = c->in[0]->d.ndim, .device = c->in[0]->d.device, .shape = shape};
    c->out[0] = cni_zeros_of(&m, (cn_dtype)type);
    return cn_err();
  }
  cn_tensor *planes = cn_adaptive_avg_pool2d(planes_of(x), size + 1, 2);
  cn_tensor *y = cn_adaptive_avg_pool2d(depths_of(planes), CN_SHAPE(size[0], size[1] * size[2]));
  c->out[0] = cni_in_type(volume_of(y, c->in[0], planes), type);
  return cn_err();
}

static int adaptive_max(cn_call *c, int n, bool indices)
{
  int64_t size[MOST_DIMS];
  cn_tensor *x = c->in[0], *y = NULL, *index = NULL;
  int status = adaptive_sizes(c, n, size);
  if (status) return status;
  if (n == 1) {
    cn_adaptive_max_pool2d_with_indices(&y, &index, cn_unsqueeze(x, -2), CN_SHAPE(1, size[0]));
    y = flat_again(y);
    index = flat_again(index);
  } else if (n == 2) cn_adaptive_max_pool2d_with_indices(&y, &index, x, size, 2);
  else {
    cn_tensor *planes = NULL, *plane_index = NULL, *deep = NULL;
    int64_t area = x->d.shape[x->d.ndim - 1] * x->d.shape[x->d.ndim - 2];
    if (size[1] == 0 || size[2] == 0) return cn_call_fail(c, CN_ERR_VALUE, "output_size must not be zero");
    cn_adaptive_max_pool2d_with_indices(&planes, &plane_index, planes_of(x), size + 1, 2);
    cn_adaptive_max_pool2d_with_indices(&y, &deep, depths_of(planes), CN_SHAPE(size[0], size[1] * size[2]));
    y = volume_of(y, x, planes);
    if (indices) index = volume_of(volume_index(deep, plane_index, area), x, planes);
  }
  c->out[0] = y;
  if (indices) c->out[1] = index;
  return cn_err();
}

static int adaptive_max1d_decompose(cn_call *c) { return adaptive_max(c, 1, false); }
static int adaptive_max1d_indices_decompose(cn_call *c) { return adaptive_max(c, 1, true); }
static int adaptive_max2d_decompose(cn_call *c) { return adaptive_max(c, 2, false); }
static int adaptive_max3d_decompose(cn_call *c) { return adaptive_max(c, 3, false); }
static int adaptive_max3d_indices_decompose(cn_call *c) { return adaptive_max(c, 3, true); }

/* ---- max_unpoolNd(input, indices, kernel_size, stride, padding, output_size) ---- */

/* The result's size in each dim: what a pool without rest would have come from, or what output_size says near it. */
static int unpooled(const cn_call *c, const windows *w, int64_t *size)
{
  const cn_desc *x = &c->in[0]->d;
  const cn_value *wish = &c->args[5];
  const int64_t *given = NULL;
  if (wish->tag == CN_V_INTS) {
    if (wish->n != w->n && wish->n != w->n + 2)
      return cn_call_fail(c, CN_ERR_VALUE, "output_size takes %d or %d numbers, not %d", w->n, w->n + 2, (int)wish->n);
    given = wish->u.is + wish->n - w->n;
  }
  for (int i = 0; i < w->n; i++) {
    size[i] = (x->shape[x->ndim - w->n + i] - 1) * w->stride[i] + w->kernel[i] - 2 * w->padding[i];
    if (given && (given[i] <= size[i] - w->stride[i] || given[i] >= size[i] + w->stride[i]))
      return cn_call_fail(c, CN_ERR_VALUE, "output_size %lld must lie between %lld and %lld", (long long)given[i],
                          (long long)(size[i] - w->stride[i]), (long long)(size[i] + w->stride[i]));
    if (given) size[i] = given[i];
    if (size[i] < 0) return cn_call_fail(c, CN_ERR_SHAPE, "the result would have size %lld", (long long)size[i]);
  }
  return CN_OK;
}

static int unpool(cn_call *c, int n)
{
  windows w;
  const cn_desc *x = &c->in[0]->d, *at = &c->in[1]->d;
  int64_t shape[5], size[MOST_DIMS], volume = 1, channels = 1, cells = 1;
  if (at->dtype != CN_I64) return cn_call_fail(c, CN_ERR_DTYPE, "indices must be int64");
  if (!cni_same_shape(x->ndim, x->shape, at->ndim, at->shape))
    return cn_call_fail(c, CN_ERR_SHAPE, "input and indices must have the same shape");
  int status = read_windows(c, &w, n, 2, true);
  if (!status) status = unpooled(c, &w, size);
  if (status) return status;
  memcpy(shape, x->shape, (size_t)x->ndim * sizeof *shape);
  for (int i = 0; i < x->ndim; i++)
    if (i < x->ndim - n) channels *= x->shape[i];
    else {
      cells *= x->shape[i];
      shape[i] = size[i - (x->ndim - n)];
      volume *= shape[i];
    }
  int64_t flat[2] = {channels, volume};
  cn_meta m = {.ndim = 2, .device = x->device, .shape = flat};
  cn_tensor *zeros = cni_zeros_of(&m, (cn_dtype)x->dtype);
  cn_tensor *y = cn_scatter(zeros, 1, cn_reshape(c->in[1], CN_SHAPE(channels, cells)),
                            cn_reshape(c->in[0], CN_SHAPE(channels, cells)));
  c->out[0] = cn_reshape(y, shape, (size_t)x->ndim);
  return cn_err();
}

static int unpool1d_decompose(cn_call *c) { return unpool(c, 1); }
static int unpool2d_decompose(cn_call *c) { return unpool(c, 2); }
static int unpool3d_decompose(cn_call *c) { return unpool(c, 3); }

/* ---- lp_poolNd(input, norm_type, kernel_size, stride, ceil_mode) ---- */

static cn_tensor *pool_by(cn_tensor *x, const windows *w, bool largest)
{
  if (w->n == 3) return largest ? max_volumes(x, w, NULL) : avg_volumes(x, w, CN_NONE);
  if (w->n == 2) return largest ? max_images(x, w, 0, NULL) : avg_images(x, w, 0, CN_NONE);
  windows flat = as_image(w);
  x = cn_unsqueeze(x, -2);
  return flat_again(largest ? max_images(x, &flat, 0, NULL) : avg_images(x, &flat, 0, CN_NONE));
}

static int lp_pool(cn_call *c, int n)
{
  windows w;
  double p = cni_arg_float(c->args, 1);
  cn_tensor *x = c->in[0];
  int type = x->d.dtype, status = read_windows(c, &w, n, 2, false);
  int64_t count = 1;
  if (status) return status;
  if (p == 0) return cn_call_fail(c, CN_ERR_VALUE, "norm_type must not be zero");
  w.ceil_mode = cni_arg_bool(c->args, 4);
  for (int i = 0; i < n; i++) count *= w.kernel[i];
  if (isinf(p)) {
    cn_tensor *size = cn_abs(x);
    if (!size) return cn_err();
    c->out[0] = p > 0 ? pool_by(size, &w, true) : cn_neg(pool_by(cn_neg(size), &w, true));
    return cn_err();
  }
  if (type == CN_F16 || type == CN_BF16) x = cni_in_type(x, CN_F32);
  cn_tensor *powers = cn_pow(x, cn_num(p));
  if (!powers) return cn_err();
  cn_tensor *mean = pool_by(powers, &w, false);
  cn_tensor *sum = cn_mul(cn_mul(cn_sign(mean), cn_relu(cn_abs(mean))), cn_int(count));
  c->out[0] = cn_pow(sum, cn_num(1.0 / p));
  if (cni_dtype_is_float(type)) c->out[0] = cni_in_type(c->out[0], type);
  return cn_err();
}

static int lp1d_decompose(cn_call *c) { return lp_pool(c, 1); }
static int lp2d_decompose(cn_call *c) { return lp_pool(c, 2); }
static int lp3d_decompose(cn_call *c) { return lp_pool(c, 3); }

#define COMPOSITE(f) .flags = CN_OP_COMPOSITE, .decompose = f

/* clang-format off */
const cn_op cni_pool_nd_ops[] = {
  {.sig = "max_pool1d(Tensor input, int[1] kernel_size, int[1]? stride=None, int[1] padding=0, int[1] dilation=1, "
          "bool ceil_mode=False) -> Tensor ; nn",
   .doc = "The largest element of each window of a signal (N, C, L) or (C, L). See max_pool2d.",
   COMPOSITE(max1d_decompose)},
  {.sig = "max_pool1d_with_indices(Tensor input, int[1] kernel_size, int[1]? stride=None, int[1] padding=0, "
          "int[1] dilation=1, bool ceil_mode=False) -> (Tensor output, Tensor indices) ; nn tuple",
   .doc = "max_pool1d, and where in its signal each largest element was.", COMPOSITE(max1d_indices_decompose)},
  {.sig = "max_pool3d(Tensor input, int[3] kernel_size, int[3]? stride=None, int[3] padding=0, int[3] dilation=1, "
          "bool ceil_mode=False) -> Tensor ; nn amp_f32_host",
   .doc = "The largest element of each window of a volume (N, C, D, H, W) or (C, D, H, W). See max_pool2d.",
   COMPOSITE(max3d_decompose)},
  {.sig = "max_pool3d_with_indices(Tensor input, int[3] kernel_size, int[3]? stride=None, int[3] padding=0, "
          "int[3] dilation=1, bool ceil_mode=False) -> (Tensor output, Tensor indices) ; nn tuple",
   .doc = "max_pool3d, and where in its volume ((depth * H + row) * W + column) each largest element was.",
   COMPOSITE(max3d_indices_decompose)},
  {.sig = "avg_pool1d(Tensor input, int[1] kernel_size, int[1]? stride=None, int[1] padding=0, bool ceil_mode=False, "
          "bool count_include_pad=True) -> Tensor ; nn",
   .doc = "The mean of each window of a signal (N, C, L) or (C, L). See avg_pool2d.", COMPOSITE(avg1d_decompose)},
  {.sig = "avg_pool3d(Tensor input, int[3] kernel_size, int[3]? stride=None, int[3] padding=0, bool ceil_mode=False, "
          "bool count_include_pad=True, int? divisor_override=None) -> Tensor ; nn amp_f32_host "
          "grad_fn_AvgPool3DBackward0",
   .doc = "The mean of each window of a volume (N, C, D, H, W) or (C, D, H, W). See avg_pool2d.",
   COMPOSITE(avg3d_decompose)},
  {.sig = "adaptive_avg_pool1d(Tensor input, int[1] output_size) -> Tensor ; nn",
   .doc = "The means of output_size windows that cover a signal (N, C, L) or (C, L). See adaptive_avg_pool2d.",
   COMPOSITE(adaptive_avg1d_decompose)},
  {.sig = "adaptive_avg_pool3d(Tensor input, int[3] output_size) -> Tensor ; nn amp_f32_host",
   .doc = "The means of output_size windows that cover a volume (N, C, D, H, W) or (C, D, H, W). See "
          "adaptive_avg_pool2d.",
   COMPOSITE(adaptive_avg3d_decompose)},
  {.sig = "adaptive_max_pool1d(Tensor input, int[1] output_size) -> Tensor ; nn",
   .doc = "The largest elements of output_size windows that cover a signal (N, C, L) or (C, L).",
   COMPOSITE(adaptive_max1d_decompose)},
  {.sig = "adaptive_max_pool1d_with_indices(Tensor input, int[1] output_size) -> (Tensor output, Tensor indices) ; nn "
          "tuple",
   .doc = "adaptive_max_pool1d, and where in its signal each largest element was.",
   COMPOSITE(adaptive_max1d_indices_decompose)},
  {.sig = "adaptive_max_pool2d(Tensor input, int[2] output_size) -> Tensor ; nn",
   .doc = "The largest elements of output_size windows that cover an image (N, C, H, W) or (C, H, W). See "
          "adaptive_avg_pool2d.",
   COMPOSITE(adaptive_max2d_decompose)},
  {.sig = "adaptive_max_pool3d(Tensor input, int[3] output_size) -> Tensor ; nn",
   .doc = "The largest elements of output_size windows that cover a volume (N, C, D, H, W) or (C, D, H, W).",
   COMPOSITE(adaptive_max3d_decompose)},
  {.sig = "adaptive_max_pool3d_with_indices(Tensor input, int[3] output_size) -> (Tensor output, Tensor indices) ; nn "
          "tuple",
   .doc = "adaptive_max_pool3d, and where in its volume each largest element was.",
   COMPOSITE(adaptive_max3d_indices_decompose)},
  {.sig = "max_unpool1d(Tensor input, Tensor indices, int[1] kernel_size, int[1]? stride=None, int[1] padding=0, "
          "int[]? output_size=None) -> Tensor ; nn",
   .doc = "Signals with the elements of input at the indices that max_pool1d gave, zero elsewhere. output_size says "
          "which of the sizes it was that max_pool1d makes one.",
   COMPOSITE(unpool1d_decompose)},
  {.sig = "max_unpool2d(Tensor input, Tensor indices, int[2] kernel_size, int[2]? stride=None, int[2] padding=0, "
          "int[]? output_size=None) -> Tensor ; nn amp_f32_host",
   .doc = "Images with the elements of input at the indices that max_pool2d gave, zero elsewhere. See max_unpool1d.",
   COMPOSITE(unpool2d_decompose)},
  {.sig = "max_unpool3d(Tensor input, Tensor indices, int[3] kernel_size, int[3]? stride=None, int[3] padding=0, "
          "int[]? output_size=None) -> Tensor ; nn amp_f32_host",
   .doc = "Volumes with the elements of input at the indices that max_pool3d gave, zero elsewhere. See max_unpool1d.",
   COMPOSITE(unpool3d_decompose)},
  {.sig = "lp_pool1d(Tensor input, float norm_type, int[1] kernel_size, int[1]? stride=None, bool ceil_mode=False) "
          "-> Tensor ; nn",
   .doc = "The norm of each window of a signal (N, C, L) or (C, L): the root of the sum of powers by norm_type.",
   COMPOSITE(lp1d_decompose)},
  {.sig = "lp_pool2d(Tensor input, float norm_type, int[2] kernel_size, int[2]? stride=None, bool ceil_mode=False) "
          "-> Tensor ; nn",
   .doc = "The norm of each window of an image (N, C, H, W) or (C, H, W): the root of the sum of powers by norm_type.",
   COMPOSITE(lp2d_decompose)},
  {.sig = "lp_pool3d(Tensor input, float norm_type, int[3] kernel_size, int[3]? stride=None, bool ceil_mode=False) "
          "-> Tensor ; nn",
   .doc = "The norm of each window of a volume (N, C, D, H, W) or (C, D, H, W): the root of the sum of powers by "
          "norm_type.",
   COMPOSITE(lp3d_decompose)},
};
/* clang-format on */
CNI_FAMILY(pool_nd);
