/* shape.c: layers that give their input another form or size: Flatten, Fold, PixelShuffle, Upsample and the like. */
#include "one_op.h"

#define ROW .apply = cni_one_op_apply, .print = cni_one_op_print

/* clang-format off */
static const cni_one_op flatten = {
  {CN_MODULE_CLASS, .name = "Flatten", .sig = "Flatten(int start_dim=1, int end_dim=-1) -> Module ; flatten",
   .doc = "Dimensions start_dim to end_dim made one.", ROW},
  "flatten", "01", "start_dim end_dim"};
static const cni_one_op unflatten = {
  {CN_MODULE_CLASS, .name = "Unflatten", .sig = "Unflatten(int dim, int[] unflattened_size) -> Module ; unflatten",
   .doc = "One dimension split into several; one of their sizes may be -1.", ROW},
  "unflatten", "01", "dim unflattened_size"};
static const cni_one_op fold = {
  {CN_MODULE_CLASS, .name = "Fold",
   .sig = "Fold(int[2] output_size, int[2] kernel_size, int[2] dilation=1, int[2] padding=0, int[2] stride=1) "
          "-> Module ; fold",
   .doc = "Images of output_size whose windows are the columns of (N, C * kH * kW, L), added up where they overlap.",
   ROW},
  "fold", "01234", "*output_size *kernel_size *dilation *padding *stride"};
static const cni_one_op unfold = {
  {CN_MODULE_CLASS, .name = "Unfold",
   .sig = "Unfold(int[2] kernel_size, int[2] dilation=1, int[2] padding=0, int[2] stride=1) -> Module ; unfold",
   .doc = "The windows of images (N, C, H, W) as columns (N, C * kH * kW, L).", ROW},
  "im2col", "0123", "*kernel_size *dilation *padding *stride"};
static const cni_one_op pixel_shuffle = {
  {CN_MODULE_CLASS, .name = "PixelShuffle", .sig = "PixelShuffle(int upscale_factor) -> Module ; pixel_shuffle",
   .doc = "(..., C * r^2, H, W) made (..., C, H * r, W * r).", ROW},
  "pixel_shuffle", "0", "upscale_factor"};
static const cni_one_op pixel_unshuffle = {
  {CN_MODULE_CLASS, .name = "PixelUnshuffle", .sig = "PixelUnshuffle(int downscale_factor) -> Module ; pixel_unshuffle",
   .doc = "(..., C, H * r, W * r) made (..., C * r^2, H, W).", ROW},
  "pixel_unshuffle", "0", "downscale_factor"};
static const cni_one_op channel_shuffle = {
  {CN_MODULE_CLASS, .name = "ChannelShuffle", .sig = "ChannelShuffle(int groups) -> Module ; channel_shuffle",
   .doc = "Channels dealt out so that each new group has some of every old one.", ROW},
  "channel_shuffle", "0", "groups"};
/* clang-format on */

/* ---- Upsample ---- */

enum { SIZE, SCALE, MODE, CORNERS, RECOMPUTE, MOST_DIMS = 3 };

/* A single number is for all dimensions of the image. */
static cn_tensor *resize(const cn_module *m, cn_tensor *x, const char *mode, cn_value corners, cn_value recompute)
{
  const cn_value *a = cni_args(m);
  int dims = cn_ndim(x) - 2;
  int64_t sizes[MOST_DIMS];
  double scales[MOST_DIMS];
  cn_value size = a[SIZE], scale = a[SCALE];
  for (int i = 0; i < dims && i < MOST_DIMS; i++) {
    if (size.tag == CN_V_INTS && size.n == 1) sizes[i] = size.u.is[0];
    if (scale.tag == CN_V_FLOATS && scale.n == 1) scales[i] = scale.u.fs[0];
  }
  if (dims > 1 && dims <= MOST_DIMS && size.tag == CN_V_INTS && size.n == 1) size = cn_v_ints(sizes, (size_t)dims);
  if (dims > 1 && dims <= MOST_DIMS && scale.tag == CN_V_FLOATS && scale.n == 1)
    scale = cn_v_floats(scales, (size_t)dims);
  cn_tensor *y = NULL;
  cn_value args[] = {cn_v_tensor(x), size, scale, cn_v_str(mode), corners, recompute};
  cni_call_op(&y, 1, "interpolate", args, sizeof args / sizeof *args, NULL);
  return y;
}

static int upsample_init(cn_module *m, const cn_value *a)
{
  if ((a[SIZE].tag == CN_V_INTS) != (a[SCALE].tag == CN_V_FLOATS)) return CN_OK;
  return cn_err_set(CN_ERR_VALUE, "%s: takes either size or scale_factor", m->cls->name);
}

static cn_tensor *upsample_apply(cn_module *m, cn_tensor *x)
{
  const cn_value *a = cni_args(m);
  return resize(m, x, a[MODE].u.s, a[CORNERS], a[RECOMPUTE]);
}

static cn_tensor *nearest_apply(cn_module *m, cn_tensor *x)
{
  return resize(m, x, "nearest", cn_v_none(), cn_v_none());
}

static cn_tensor *bilinear_apply(cn_module *m, cn_tensor *x)
{
  return resize(m, x, "bilinear", cn_v_bool(true), cn_v_none());
}

static void print_upsample(const cn_module *m, cn_text *t, const char *mode)
{
  bool scaled = cni_args(m)[SCALE].tag == CN_V_FLOATS;
  cni_print_named(m, t, scaled ? "1scale_factor" : "1size");
  cn_text_putf(t, ", mode='%s'", mode);
}

static void upsample_print(const cn_module *m, cn_text *t) { print_upsample(m, t, cni_args(m)[MODE].u.s); }
static void nearest_print(const cn_module *m, cn_text *t) { print_upsample(m, t, "nearest"); }
static void bilinear_print(const cn_module *m, cn_text *t) { print_upsample(m, t, "bilinear"); }

static const cn_module_class upsample = {
  CN_MODULE_CLASS,
  .name = "Upsample",
  .sig = "Upsample(int[]? size=None, float[]? scale_factor=None, str mode='nearest', bool? align_corners=None, "
         "bool? recompute_scale_factor=None) -> Module ; upsample",
  .doc = "The input (N, C, ...) in another size. mode is 'nearest', 'nearest-exact', 'area', 'linear', 'bilinear', "
         "'trilinear' or 'bicubic'; of size and scale_factor one is given, a single number for all dimensions.",
  .init = upsample_init,
  .apply = upsample_apply,
  .print = upsample_print,
};

static const cn_module_class upsampling_nearest2d = {
  CN_MODULE_CLASS,
  .name = "UpsamplingNearest2d",
  .sig = "UpsamplingNearest2d(int[]? size=None, float[]? scale_factor=None) -> Module ; upsampling_nearest2d",
  .doc = "Images in another size, by the nearest element.",
  .init = upsample_init,
  .apply = nearest_apply,
  .print = nearest_print,
};

static const cn_module_class upsampling_bilinear2d = {
  CN_MODULE_CLASS,
  .name = "UpsamplingBilinear2d",
  .sig = "UpsamplingBilinear2d(int[]? size=None, float[]? scale_factor=None) -> Module ; upsampling_bilinear2d",
  .doc = "Images in another size, by linear interpolation with the corners kept in place.",
  .init = upsample_init,
  .apply = bilinear_apply,
  .print = bilinear_print,
};

const cn_module_class *const cni_nn_shape_classes[] = {
  &flatten.cls,         &unflatten.cls,       &fold.cls, &unfold.cls,           &pixel_shuffle.cls,
  &pixel_unshuffle.cls, &channel_shuffle.cls, &upsample, &upsampling_nearest2d, &upsampling_bilinear2d,
  NULL};
