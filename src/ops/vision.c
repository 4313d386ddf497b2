/* vision.c: the family of ops for finding things in images: which of many boxes stay, regions of feature maps brought
 * to one size, convolutions that look at moved points.
 *
 * Place in the flow: the public ops check and bring types together; region_means, region_max and kept_boxes have
 * kernels. Invariant: region_means and region_means_grad are linear and each other's gradient, so any order of
 * differentiation ends here. Boxes get no gradient. float16 and bfloat16 compute in float32. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>

#include "families.h"
#include "infer.h"
#include "shorthand.h"

/* ---- regions of feature maps ---- */

enum { SIZE = 2, SCALE = 3 }; /* parameters of all of them, behind the map and the boxes */

static const char *const kinds[] = {"edges", "centres", "places", "pixels"};

/* A map (N, C, H, W) and boxes (R, 5), of one float type. */
static int check_regions(const cn_call *c, const cn_desc *boxes)
{
  const cn_desc *x = &c->in[0]->d;
  char a[CNI_SHAPE_TEXT], b[CNI_SHAPE_TEXT];
  if (!cni_dtype_is_float(x->dtype) || x->dtype != boxes->dtype)
    return cn_call_fail(c, CN_ERR_DTYPE, "takes a map and boxes of one float type, not %s and %s",
                        cn_dtype_name((cn_dtype)x->dtype), cn_dtype_name((cn_dtype)boxes->dtype));
  if (x->ndim != 4 || boxes->ndim != 2 || boxes->shape[1] != 5)
    return cn_call_fail(c, CN_ERR_SHAPE,
                        "takes a map (N, C, H, W) and boxes (R, 5), the number of the image first, not %s and %s",
                        cni_shape_text(a, sizeof a, x->ndim, x->shape),
                        cni_shape_text(b, sizeof b, boxes->ndim, boxes->shape));
  const int64_t *size = c->args[SIZE].u.is;
  if (c->args[SIZE].tag == CN_V_INTS && c->args[SIZE].n == 2 && (size[0] < 1 || size[1] < 1))
    return cn_call_fail(c, CN_ERR_VALUE, "output_size must be positive, not %lld x %lld", (long long)size[0],
                        (long long)size[1]);
  return CN_OK;
}

static int kind_of(const cn_call *c, int at)
{
  for (int i = 0; i < 4; i++)
    if (cni_arg_is(c->args, at, kinds[i])) return i;
  return cn_call_fail(c, CN_ERR_VALUE, "kind must be edges, centres, places or pixels, not '%s'",
                      cni_arg_str(c->args, at));
}

/* Channels of the result: where bins have channels of their own, each its part. */
static int channels_of(const cn_call *c, bool by_place, int64_t channels, int64_t *out)
{
  const int64_t *size = c->args[SIZE].u.is;
  *out = channels;
  if (!by_place) return CN_OK;
  if (size[0] > channels || size[1] > channels || channels % (size[0] * size[1]))
    return cn_call_fail(c, CN_ERR_VALUE, "%lld channels cannot be shared by %lld x %lld bins", (long long)channels,
                        (long long)size[0], (long long)size[1]);
  *out = channels / (size[0] * size[1]);
  return CN_OK;
}

/* region_means(input, boxes, output_size, spatial_scale, sampling_ratio, kind) */
static int means_infer(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d, *boxes = &c->in[1]->d;
  int64_t channels;
  int status = check_regions(c, boxes), kind = status ? status : kind_of(c, 5);
  if (kind < 0) return kind;
  if ((status = channels_of(c, kind >= 2, x->shape[1], &channels))) return status;
  const int64_t *size = c->args[SIZE].u.is;
  return cn_call_result(c, 0, x->dtype, 4, (const int64_t[]){boxes->shape[0], channels, size[0], size[1]});
}

static int means_vjp(cn_vjp *v)
{
  const cn_value *a = v->args;
  const cn_meta *x = &v->in_meta[0];
  v->gin[0] = cn_region_means_grad(v->g[0], v->in[1], a[SIZE].u.is, 2, cni_arg_float(a, SCALE), cni_arg_int(a, 4),
                                   cni_arg_str(a, 5), x->shape, (size_t)x->ndim);
  return cn_err();
}

/* region_means_grad(grad, boxes, output_size, spatial_scale, sampling_ratio, kind, input_size) */
static int means_grad_infer(cn_call *c)
{
  const cn_value *size = &c->args[6];
  int status = check_regions(c, &c->in[1]->d), kind = status ? status : kind_of(c, 5);
  if (kind < 0) return kind;
  const cn_desc *g = &c->in[0]->d;
  int64_t channels;
  if (size->n != 4) return cn_call_fail(c, CN_ERR_SHAPE, "input_size must be four numbers");
  if ((status = channels_of(c, kind >= 2, size->u.is[1], &channels))) return status;
  if (g->shape[0] != c->in[1]->d.shape[0] || g->shape[1] != channels || g->shape[2] != c->args[SIZE].u.is[0] ||
      g->shape[3] != c->args[SIZE].u.is[1])
    return cn_call_fail(c, CN_ERR_SHAPE, "the gradient does not fit the boxes and sizes");
  return cn_call_result(c, 0, g->dtype, 4, size->u.is);
}

static int means_grad_vjp(cn_vjp *v)
{
  const cn_value *a = v->args;
  v->gin[0] = cn_region_means(v->g[0], v->in[1], a[SIZE].u.is, 2, cni_arg_float(a, SCALE), cni_arg_int(a, 4),
                              cni_arg_str(a, 5));
  return cn_err();
}

/* region_max(input, boxes, output_size, spatial_scale) */
static int max_infer(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d, *boxes = &c->in[1]->d;
  int status = check_regions(c, boxes);
  if (status) return status;
  const int64_t *size = c->args[SIZE].u.is, shape[] = {boxes->shape[0], x->shape[1], size[0], size[1]};
  status = cn_call_result(c, 0, x->dtype, 4, shape);
  return status ? status : cn_call_result(c, 1, CN_I64, 4, shape);
}

/* Each element of the result came from one of the map: its image and channel say which plane, the index where in it;
 * -1 stands for none. */
static int max_vjp(cn_vjp *v)
{
  const cn_meta *x = &v->in_meta[0];
  if (!v->g[0]) return CN_OK;
  int64_t plane = x->shape[2] * x->shape[3], image = x->shape[1] * plane;
  cn_tensor *where = v->out[1], *image_of = cn_cast(cn_select(v->in[1], 1, 0), CN_I64);
  cn_tensor *first = cn_mul(cn_reshape(image_of, CN_SHAPE(-1, 1, 1, 1)), cn_int(image));
  cn_tensor *channel = cn_mul(cn_arange(0, (double)x->shape[1], .dtype = CN_I64, .device = x->device), cn_int(plane));
  first = cn_add(first, cn_reshape(channel, CN_SHAPE(-1, 1, 1)));
  cn_tensor *none = cn_lt(where, cn_int(0));
  cn_tensor *at = cn_add(first, cn_maximum(where, cn_zeros_like(where)));
  cn_tensor *g = cn_masked_fill(v->g[0], none, cn_num(0));
  cn_tensor *flat = cn_zeros(CN_SHAPE(x->shape[0] * image), .dtype = (cn_dtype)x->dtype, .device = x->device);
  flat = cn_scatter_add(flat, 0, cn_reshape(at, CN_SHAPE(-1)), cn_reshape(g, CN_SHAPE(-1)));
  v->gin[0] = cn_reshape(flat, x->shape, (size_t)x->ndim);
  return cn_err();
}

/* The four public ones: in the type that is computed in, and back. */
static int means_of(cn_call *c, int64_t sampling, const char *kind)
{
  int type = c->in[0]->d.dtype, status = check_regions(c, &c->in[1]->d), wide = cni_wide_type(type);
  if (status) return status;
  cn_tensor *y = cn_region_means(cni_in_type(c->in[0], wide), cn_detach(cni_in_type(c->in[1], wide)),
                                 c->args[SIZE].u.is, 2, cni_arg_float(c->args, SCALE), sampling, kind);
  c->out[0] = cni_in_type(y, type);
  return cn_err();
}

static int roi_align_decompose(cn_call *c)
{
  return means_of(c, cni_arg_int(c->args, 4), cni_arg_bool(c->args, 5) ? "centres" : "edges");
}
static int ps_roi_align_decompose(cn_call *c) { return means_of(c, cni_arg_int(c->args, 4), "places"); }
static int ps_roi_pool_decompose(cn_call *c) { return means_of(c, -1, "pixels"); }

static int roi_pool_decompose(cn_call *c)
{
  int type = c->in[0]->d.dtype, status = check_regions(c, &c->in[1]->d), wide = cni_wide_type(type);
  if (status) return status;
  cn_tensor *y = NULL;
  status = cn_region_max(&y, &c->out[1], cni_in_type(c->in[0], wide), cn_detach(cni_in_type(c->in[1], wide)),
                         c->args[SIZE].u.is, 2, cni_arg_float(c->args, SCALE));
  c->out[0] = cni_in_type(y, type);
  return status;
}

/* ---- boxes ---- */

static int check_boxes(const cn_call *c)
{
  const cn_desc *boxes = &c->in[0]->d, *scores = &c->in[1]->d, *classes = c->nin > 2 && c->in[2] ? &c->in[2]->d : NULL;
  char text[CNI_SHAPE_TEXT];
  if (boxes->ndim != 2 || boxes->shape[1] != 4)
    return cn_call_fail(c, CN_ERR_SHAPE, "boxes must be (n, 4), not %s",
                        cni_shape_text(text, sizeof text, boxes->ndim, boxes->shape));
  if (scores->ndim != 1 || scores->shape[0] != boxes->shape[0])
    return cn_call_fail(c, CN_ERR_SHAPE, "%lld boxes want as many scores in one dim, not %s",
                        (long long)boxes->shape[0], cni_shape_text(text, sizeof text, scores->ndim, scores->shape));
  if (classes && (classes->ndim != 1 || classes->shape[0] != boxes->shape[0]))
    return cn_call_fail(c, CN_ERR_SHAPE, "%lld boxes want as many classes in one dim, not %s",
                        (long long)boxes->shape[0], cni_shape_text(text, sizeof text, classes->ndim, classes->shape));
  if (!cni_dtype_is_float(boxes->dtype) || boxes->dtype != scores->dtype)
    return cn_call_fail(c, CN_ERR_DTYPE, "takes boxes and scores of one float type, not %s and %s",
                        cn_dtype_name((cn_dtype)boxes->dtype), cn_dtype_name((cn_dtype)scores->dtype));
  return CN_OK;
}

/* kept_boxes(boxes, classes, iou_threshold) */
static int kept_infer(cn_call *c)
{
  const cn_desc *boxes = &c->in[0]->d, *classes = c->in[1] ? &c->in[1]->d : NULL;
  int64_t none = 0;
  if (boxes->ndim != 2 || boxes->shape[1] != 4 || (boxes->dtype != CN_F32 && boxes->dtype != CN_F64) ||
      (classes && (classes->ndim != 1 || classes->shape[0] != boxes->shape[0])))
    return cn_call_fail(c, CN_ERR_SHAPE, "takes boxes (n, 4) of float32 or float64, and classes (n)");
  int status = cn_call_result(c, 0, CN_I64, 1, &none);
  c->spec[0].data_dependent = true;
  return status;
}

/* The best first; wide: the type that is computed in. */
static cn_tensor *by_score(const cn_call *c, int wide)
{
  return cn_argsort(cn_detach(cni_in_type(c->in[1], wide)), .descending = true, .stable = true);
}

static int nms_decompose(cn_call *c)
{
  int status = check_boxes(c), wide = cni_wide_type(c->in[0]->d.dtype);
  if (status) return status;
  cn_tensor *order = by_score(c, wide), *boxes = cn_detach(cni_in_type(c->in[0], wide));
  cn_tensor *kept = cn_kept_boxes(cn_index_select(boxes, 0, order), NULL, cni_arg_float(c->args, 2));
  c->out[0] = cn_index_select(order, 0, kept);
  return cn_err();
}

/* Each class lies together, best first; what is kept goes back to the order of the scores. */
static int batched_nms_decompose(cn_call *c)
{
  int status = check_boxes(c), wide = cni_wide_type(c->in[0]->d.dtype);
  if (status) return status;
  cn_tensor *order = by_score(c, wide), *boxes = cn_detach(cni_in_type(c->in[0], wide));
  cn_tensor *classes = cn_index_select(cni_in_type(c->in[2], CN_I64), 0, order);
  cn_tensor *grouped = cn_argsort(classes, .stable = true);
  cn_tensor *at = cn_index_select(order, 0, grouped);
  cn_tensor *kept = cn_kept_boxes(cn_index_select(boxes, 0, at), cn_index_select(classes, 0, grouped),
                                  cni_arg_float(c->args, 3));
  cn_tensor *ranks = cn_index_select(grouped, 0, kept);
  c->out[0] = cn_index_select(order, 0, cn_index_select(ranks, 0, cn_argsort(ranks)));
  return cn_err();
}

/* ---- deform_conv2d(input, offset, weight, bias, stride, padding, dilation, mask) ---- */

enum { STRIDE = 4, PADDING = 5, DILATION = 6 };

typedef struct deformed {
  int64_t n, channels, size[2], out, each, kernel[2], places, to[2], groups;
  int type;
} deformed;

static int read_deformed(const cn_call *c, deformed *f)
{
  const cn_desc *x = &c->in[0]->d, *offset = &c->in[1]->d, *w = &c->in[2]->d, *bias = c->in[3] ? &c->in[3]->d : NULL,
                *mask = c->in[4] ? &c->in[4]->d : NULL;
  for (int i = 1; i < 5; i++)
    if (c->in[i] && c->in[i]->d.dtype != x->dtype)
      return cn_call_fail(c, CN_ERR_DTYPE, "takes tensors of one float type, not %s and %s",
                          cn_dtype_name((cn_dtype)x->dtype), cn_dtype_name((cn_dtype)c->in[i]->d.dtype));
  if (!cni_dtype_is_float(x->dtype)) return cn_call_fail(c, CN_ERR_DTYPE, "takes floats");
  if (x->ndim != 4 || offset->ndim != 4 || w->ndim != 4 || (mask && mask->ndim != 4))
    return cn_call_fail(c, CN_ERR_SHAPE, "takes images, offsets, weights and masks of four dims");
  *f = (deformed){x->shape[0], x->shape[1], {x->shape[2], x->shape[3]}, w->shape[0], w->shape[1],
                  {w->shape[2], w->shape[3]}, w->shape[2] * w->shape[3], {0, 0}, 0, x->dtype};
  for (int d = 0; d < 2; d++) {
    int64_t stride = c->args[STRIDE].u.is[d], gap = c->args[DILATION].u.is[d], pad = c->args[PADDING].u.is[d];
    if (stride < 1 || gap < 1 || pad < 0 || f->kernel[d] < 1)
      return cn_call_fail(c, CN_ERR_VALUE, "stride, dilation and kernel must be positive, padding not negative");
    f->to[d] = (f->size[d] + 2 * pad - gap * (f->kernel[d] - 1) - 1) / stride + 1;
    if (f->size[d] + 2 * pad < gap * (f->kernel[d] - 1) + 1)
      return cn_call_fail(c, CN_ERR_SHAPE, "the kernel is larger than the padded image");
  }
  f->groups = offset->shape[1] / (2 * f->places);
  if (!f->groups || offset->shape[1] != 2 * f->groups * f->places || f->channels % f->groups || !f->each ||
      f->channels % f->each || f->out % (f->channels / f->each))
    return cn_call_fail(c, CN_ERR_SHAPE, "offsets of %lld channels, weights of %lld and images of %lld do not fit",
                        (long long)offset->shape[1], (long long)f->each, (long long)f->channels);
  bool fits = offset->shape[0] == f->n && offset->shape[2] == f->to[0] && offset->shape[3] == f->to[1];
  if (mask)
    fits = fits && mask->shape[0] == f->n && mask->shape[1] == f->groups * f->places && mask->shape[2] == f->to[0] &&
           mask->shape[3] == f->to[1];
  if (bias) fits = fits && bias->ndim == 1 && bias->shape[0] == f->out;
  return fits ? CN_OK
              : cn_call_fail(c, CN_ERR_SHAPE, "offset, mask or bias do not fit a result of %lld x %lld x %lld",
                             (long long)f->out, (long long)f->to[0], (long long)f->to[1]);
}

/* Where each place of the kernel looks along one dim: (groups' images, kh, kw, rows, columns). */
static cn_tensor *looked_at(const cn_call *c, const deformed *f, cn_tensor *moved, int d)
{
  int64_t places[5] = {1, 1, 1, 1, 1}, results[5] = {1, 1, 1, 1, 1};
  places[1 + d] = f->kernel[d];
  results[3 + d] = f->to[d];
  cn_dtype type = cn_dtype_of(moved);
  cn_tensor *k = cn_mul(cn_arange(0, (double)f->kernel[d], .dtype = type, .device = moved->d.device),
                        cn_int(c->args[DILATION].u.is[d]));
  cn_tensor *at = cn_mul(cn_arange(0, (double)f->to[d], .dtype = type, .device = moved->d.device),
                         cn_int(c->args[STRIDE].u.is[d]));
  at = cn_sub(at, cn_int(c->args[PADDING].u.is[d]));
  cn_tensor *usual = cn_add(cn_reshape(k, places, 5), cn_reshape(at, results, 5));
  return cn_add(cn_select(moved, 3, d), usual);
}

/* What places see: x (B, c, h, w) between its pixels, at y and z (B, points), nothing outside: (B, c, points). */
static cn_tensor *seen(const deformed *f, cn_tensor *x, cn_tensor *y, cn_tensor *z)
{
  cn_tensor *index[4], *weight[4], *p[2] = {y, z}, *low[2], *part[2];
  for (int d = 0; d < 2; d++) {
    low[d] = cn_floor(cn_detach(p[d]));
    part[d] = cn_sub(p[d], low[d]);
  }
  for (int corner = 0; corner < 4; corner++) {
    cn_tensor *at[2], *w[2], *inside = NULL;
    for (int d = 0; d < 2; d++) {
      bool up = corner >> (1 - d) & 1;
      at[d] = up ? cn_add(low[d], cn_num(1)) : low[d];
      w[d] = up ? part[d] : cn_sub(cn_num(1), part[d]);
      cn_tensor *in = cn_logical_and(cn_ge(at[d], cn_num(0)), cn_lt(at[d], cn_num((double)f->size[d])));
      inside = inside ? cn_logical_and(inside, in) : in;
    }
    cn_tensor *row = cn_cast(cn_where(inside, at[0], cn_num(0)), CN_I64);
    cn_tensor *column = cn_cast(cn_where(inside, at[1], cn_num(0)), CN_I64);
    cn_tensor *flat = cn_add(cn_mul(row, cn_int(f->size[1])), column);
    index[corner] = cn_where(inside, flat, cn_int(-1));
    weight[corner] = cn_mul(w[0], w[1]);
  }
  return cn_weighted_gather(x, cn_stack(index, 4, .dim = 1), cn_stack(weight, 4, .dim = 1));
}

static int deform_conv2d_decompose(cn_call *c)
{
  deformed f;
  int status = read_deformed(c, &f), wide = cni_wide_type(f.type);
  if (status) return status;
  int64_t images = f.n * f.groups, points = f.to[0] * f.to[1], parts = f.channels / f.each;
  cn_tensor *moved = cn_reshape(cni_in_type(c->in[1], wide),
                                CN_SHAPE(images, f.kernel[0], f.kernel[1], 2, f.to[0], f.to[1]));
  if (!moved) return cn_err();
  cn_tensor *y = cn_reshape(looked_at(c, &f, moved, 0), CN_SHAPE(images, f.places * points));
  cn_tensor *z = cn_reshape(looked_at(c, &f, moved, 1), CN_SHAPE(images, f.places * points));
  cn_tensor *x = cn_reshape(cni_in_type(c->in[0], wide),
                            CN_SHAPE(images, f.channels / f.groups, f.size[0] * f.size[1]));
  cn_tensor *s = seen(&f, x, y, z);
  if (c->in[4]) s = cn_mul(s, cn_reshape(cni_in_type(c->in[4], wide), CN_SHAPE(images, 1, f.places * points)));
  s = cn_reshape(s, CN_SHAPE(f.n, parts, f.each * f.places, points));
  cn_tensor *w = cn_reshape(cni_in_type(c->in[2], wide), CN_SHAPE(parts, f.out / parts, f.each * f.places));
  cn_tensor *result = cn_reshape(cn_matmul(w, s), CN_SHAPE(f.n, f.out, f.to[0], f.to[1]));
  if (c->in[3]) result = cn_add(result, cn_reshape(cni_in_type(c->in[3], wide), CN_SHAPE(1, f.out, 1, 1)));
  c->out[0] = cni_in_type(result, f.type);
  return cn_err();
}

/* clang-format off */
const cn_op cni_vision_ops[] = {
  {.sig = "nms(Tensor boxes, Tensor scores, float iou_threshold) -> Tensor",
   .doc = "The numbers of the boxes (n, 4) that stay, the best first, when each drops those worse than it that "
          "overlap with it by more than the threshold. Of equal scores the first counts as better. Boxes are left, "
          "top, right, bottom.",
   .flags = CN_OP_COMPOSITE, .decompose = nms_decompose},
  {.sig = "batched_nms(Tensor boxes, Tensor scores, Tensor idxs, float iou_threshold) -> Tensor",
   .doc = "nms of each class (idxs) by itself: boxes of different classes leave each other alone. The best of all "
          "classes comes first.",
   .flags = CN_OP_COMPOSITE, .decompose = batched_nms_decompose},
  {.sig = "kept_boxes(Tensor boxes, Tensor? classes, float iou_threshold) -> Tensor ; internal",
   .doc = "The numbers of boxes, of which the best come first, that no better one drops: nms of float32 or float64. "
          "Boxes of a class lie together.",
   .flags = CN_OP_NO_GRAD, .infer = kept_infer},
  {.sig = "roi_align(Tensor input, Tensor boxes, int[2] output_size, float spatial_scale=1.0, int sampling_ratio=-1, "
          "bool aligned=False) -> Tensor",
   .doc = "Regions of feature maps as (R, C, *output_size): means of points in each bin, sampling_ratio each way, or "
          "as many as there are pixels. input: (N, C, H, W), boxes: (R, 5) of the number of the image and a box, "
          "which is multiplied by spatial_scale; aligned moves it by half a pixel.",
   .flags = CN_OP_COMPOSITE, .decompose = roi_align_decompose},
  {.sig = "ps_roi_align(Tensor input, Tensor boxes, int[2] output_size, float spatial_scale=1.0, int "
          "sampling_ratio=-1) -> Tensor",
   .doc = "roi_align in which each bin has channels of its own: (R, C / bins, *output_size).",
   .flags = CN_OP_COMPOSITE, .decompose = ps_roi_align_decompose},
  {.sig = "roi_pool(Tensor input, Tensor boxes, int[2] output_size, float spatial_scale=1.0) -> (Tensor output, "
          "Tensor indices)",
   .doc = "The largest element of each bin of each region, whose sides are rounded to pixels, and where in its plane "
          "it is; of a bin without pixels 0 and -1. input: (N, C, H, W), boxes: (R, 5), results: (R, C, "
          "*output_size).",
   .flags = CN_OP_COMPOSITE, .decompose = roi_pool_decompose},
  {.sig = "ps_roi_pool(Tensor input, Tensor boxes, int[2] output_size, float spatial_scale=1.0) -> Tensor",
   .doc = "Means of whole pixels, each bin of channels of its own: (R, C / bins, *output_size).",
   .flags = CN_OP_COMPOSITE, .decompose = ps_roi_pool_decompose},
  {.sig = "deform_conv2d(Tensor input, Tensor offset, Tensor weight, Tensor? bias=None, int[2] stride=1, int[2] "
          "padding=0, int[2] dilation=1, Tensor? mask=None) -> Tensor ; opt_mask",
   .doc = "conv2d in which place k of the kernel looks offset[:, 2k] rows down and offset[:, 2k + 1] columns right of "
          "where it would, and what it sees counts mask[:, k] times. offset: (N, 2 * groups * places, Hout, Wout), "
          "mask: (N, groups * places, Hout, Wout), for groups of the input's channels.",
   .flags = CN_OP_COMPOSITE, .decompose = deform_conv2d_decompose},
  {.sig = "region_means(Tensor input, Tensor boxes, int[2] output_size, float spatial_scale, int sampling_ratio, str "
          "kind) -> Tensor ; internal",
   .doc = "Means of points in the bins of regions. kind: edges and centres are roi_align without and with aligned, "
          "places ps_roi_align, pixels ps_roi_pool.",
   .infer = means_infer, .vjp = means_vjp, .needs = {[0] = CN_IN(1)}},
  {.sig = "region_means_grad(Tensor grad, Tensor boxes, int[2] output_size, float spatial_scale, int sampling_ratio, "
          "str kind, int[] input_size) -> Tensor ; internal",
   .doc = "The gradient of region_means with respect to its input, which has the sizes input_size.",
   .infer = means_grad_infer, .vjp = means_grad_vjp, .needs = {[0] = CN_IN(1)}},
  {.sig = "region_max(Tensor input, Tensor boxes, int[2] output_size, float spatial_scale) -> (Tensor output, Tensor "
          "indices) ; internal",
   .doc = "roi_pool in float32 or float64.",
   .infer = max_infer, .vjp = max_vjp, .needs = {[0] = CN_IN(1) | CN_OUT(1)}},
};
/* clang-format on */
CNI_FAMILY(vision);
