/* image.c: pictures: elements read at places between them, and pictures from files. See call.h. */
#include <cairn/data.h>
#include <cairn/ext/parts.h>
#include <math.h>
#include <string.h>

#include "formats/onnx/bitmap.h"
#include "formats/onnx/window.h"

/* ---- GridSample ---- */

/* Grids of one dimension are those of two whose second has one element. */
static int grid_sample(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0), *grid = cni_onnx_in(c, 1);
  const char *mode = cni_onnx_text(c, "mode", "linear"), *pad = cni_onnx_text(c, "padding_mode", "zeros");
  if (!x || !grid || cn_err()) return cn_err();
  if (!strcmp(mode, "linear")) mode = "bilinear";
  if (!strcmp(mode, "cubic")) mode = "bicubic";
  cn_dtype dtype = cn_dtype_of(x), wide = dtype == CN_F32 || dtype == CN_F16 || dtype == CN_BF16 ? CN_F32 : CN_F64;
  if (cn_dtype_of(grid) == CN_F64 && cn_dtype_is_float(dtype)) wide = CN_F64;
  bool line = cn_ndim(x) == 3;
  if (line) {
    if (cn_ndim(grid) != 3) return cni_onnx_fail(c, CN_ERR_SHAPE, "the grid has %d dimensions", cn_ndim(grid));
    x = cn_unsqueeze(x, 2);
    grid = cn_unsqueeze(cn_cat(CN_TENSORS(grid, cn_zeros_like(grid)), .dim = 2), 1);
  }
  cn_tensor *t = cn_grid_sample(cn_cast(x, wide), cn_cast(grid, wide), .mode = mode, .padding_mode = pad,
                                .align_corners = cni_onnx_int(c, "align_corners", 0) ? 1 : CN_ZERO);
  if (line && t) t = cn_squeeze(t, .dim = CN_INTS(2));
  return cni_onnx_out(c, 0, t && wide != dtype ? cn_cast(t, dtype) : t);
}

/* ---- DeformConv ---- */

typedef struct deform {
  cni_onnx_window w;
  int64_t batch, channels, groups, parts, steps; /* groups: of offsets; parts: a kernel's; steps: of the result */
  int64_t size[CNI_ONNX_SPATIAL], out[CNI_ONNX_SPATIAL];
} deform;

static int deform_of(deform *f, cni_onnx_call *c, const cn_tensor *x, const cn_tensor *weight,
                     const cn_tensor *offset)
{
  if (cn_ndim(weight) != cn_ndim(x) || cn_ndim(offset) != cn_ndim(x))
    return cni_onnx_fail(c, CN_ERR_SHAPE, "weights or offsets have not as many dimensions as the input");
  if (cni_onnx_window_of(&f->w, c, x, cn_shape(weight) + 2)) return cn_err();
  f->batch = cn_shape(x)[0];
  f->channels = cn_shape(x)[1];
  f->groups = cni_onnx_int(c, "offset_group", 1);
  f->parts = f->steps = 1;
  for (int i = 0; i < f->w.n; i++) {
    f->size[i] = cn_shape(x)[2 + i];
    f->out[i] = cn_shape(offset)[2 + i];
    f->parts *= f->w.kernel[i];
    f->steps *= f->out[i];
    int64_t span = (f->w.kernel[i] - 1) * f->w.dilation[i] + 1;
    if (f->out[i] != (f->size[i] + f->w.before[i] + f->w.after[i] - span) / f->w.stride[i] + 1)
      return cni_onnx_fail(c, CN_ERR_SHAPE, "%lld offsets along a dimension", (long long)f->out[i]);
  }
  if (f->groups < 1 || f->channels % f->groups || cn_shape(offset)[1] != f->groups * f->parts * f->w.n)
    return cni_onnx_fail(c, CN_ERR_SHAPE, "its groups of offsets do not fit");
  return cn_err();
}

/* Where dimension d of each part of the kernel is read: (batch * groups, parts * steps). */
static cn_tensor *deformed(const deform *f, cn_tensor *offset, int d)
{
  const cni_onnx_window *w = &f->w;
  int64_t shape[2 * CNI_ONNX_SPATIAL];
  for (int i = 0; i < 2 * w->n; i++) shape[i] = 1;
  cn_device device = cn_device_of(offset);
  cn_tensor *part = cn_arange(0, (double)w->kernel[d], .dtype = CN_F64, .device = device);
  cn_tensor *step = cn_arange(0, (double)f->out[d], .dtype = CN_F64, .device = device);
  shape[d] = w->kernel[d];
  part = cn_reshape(cn_mul(part, cn_int(w->dilation[d])), shape, 2 * (size_t)w->n);
  shape[d] = 1;
  shape[w->n + d] = f->out[d];
  step = cn_reshape(cn_sub(cn_mul(step, cn_int(w->stride[d])), cn_int(w->before[d])), shape, 2 * (size_t)w->n);
  for (int i = 0; i < w->n; i++) shape[i] = w->kernel[i], shape[w->n + i] = f->out[i];
  cn_tensor *base =
      cn_reshape(cn_expand(cn_add(part, step), shape, 2 * (size_t)w->n), CN_SHAPE(1, f->parts * f->steps));
  cn_tensor *off = cn_select(cn_reshape(offset, CN_SHAPE(f->batch * f->groups, f->parts, w->n, f->steps)), 2, d);
  return cn_add(cn_reshape(off, CN_SHAPE(f->batch * f->groups, f->parts * f->steps)), base);
}

/* Which elements, and how much of each: the corners round every place, (batch * groups, corners, places). */
static void corners(cn_tensor **index, cn_tensor **weight, const deform *f, cn_tensor *const *at)
{
  cn_tensor *all[1 << CNI_ONNX_SPATIAL], *shares[1 << CNI_ONNX_SPATIAL];
  int n = 1 << f->w.n;
  for (int k = 0; k < n; k++) {
    cn_tensor *where = NULL, *share = NULL, *inside = NULL;
    for (int d = 0; d < f->w.n; d++) {
      cn_tensor *low = cn_floor(at[d]), *up = cn_sub(at[d], low), *i = k >> d & 1 ? cn_add(low, cn_num(1)) : low;
      cn_tensor *w = k >> d & 1 ? up : cn_rsub(up, cn_num(1));
      cn_tensor *in = cn_logical_and(cn_ge(i, cn_num(0)), cn_lt(i, cn_num((double)f->size[d])));
      where = where ? cn_add(cn_mul(where, cn_num((double)f->size[d])), i) : i;
      share = share ? cn_mul(share, w) : w;
      inside = inside ? cn_logical_and(inside, in) : in;
    }
    all[k] = cn_cast(cn_where(inside, where, cn_num(-1)), CN_I64);
    shares[k] = share;
  }
  *index = cn_stack(all, (size_t)n, .dim = 1);
  *weight = cn_stack(shares, (size_t)n, .dim = 1);
}

/* A convolution whose kernel reads each element where its offset says: samples as columns, then a product. */
static int deform_conv(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0), *weight = cni_onnx_in(c, 1), *offset = cni_onnx_in(c, 2);
  cn_tensor *bias = cni_onnx_maybe(c, 3), *mask = cni_onnx_maybe(c, 4), *at[CNI_ONNX_SPATIAL], *index, *share;
  int64_t group = cni_onnx_int(c, "group", 1), shape[CN_MAX_DIMS];
  deform f;
  if (!x || !weight || !offset || cn_err() || deform_of(&f, c, x, weight, offset)) return cn_err();
  int64_t outs = cn_shape(weight)[0], sets = f.batch * f.groups, places = f.parts * f.steps;
  if (group < 1 || outs % group || cn_shape(weight)[1] * group != f.channels)
    return cni_onnx_fail(c, CN_ERR_SHAPE, "its groups do not fit");
  cn_dtype dtype = cn_dtype_of(x), wide = dtype == CN_F64 ? CN_F64 : CN_F32;
  offset = cn_cast(offset, CN_F64);
  for (int d = 0; d < f.w.n; d++) at[d] = deformed(&f, offset, d);
  corners(&index, &share, &f, at);
  share = cn_cast(share, wide);
  if (mask) share = cn_mul(share, cn_cast(cn_reshape(mask, CN_SHAPE(sets, 1, places)), wide));
  cn_tensor *t = cn_reshape(cn_cast(x, wide), CN_SHAPE(sets, f.channels / f.groups, -1));
  t = cn_weighted_gather(t, index, share);
  int64_t rows = f.channels / group * f.parts;
  cn_tensor *kernels = cn_reshape(cn_cast(weight, wide), CN_SHAPE(1, group, outs / group, rows));
  t = cn_matmul(kernels, cn_reshape(t, CN_SHAPE(f.batch, group, rows, f.steps)));
  if (bias)
    t = cn_add(cn_reshape(t, CN_SHAPE(f.batch, outs, f.steps)), cn_reshape(cn_cast(bias, wide), CN_SHAPE(outs, 1)));
  shape[0] = f.batch;
  shape[1] = outs;
  for (int i = 0; i < f.w.n; i++) shape[2 + i] = f.out[i];
  return cni_onnx_out(c, 0, t ? cn_cast(cn_reshape(t, shape, (size_t)f.w.n + 2), dtype) : NULL);
}

/* ---- Col2Im ---- */

typedef struct blocks {
  size_t n;
  int64_t stride[CN_MAX_DIMS], dilation[CN_MAX_DIMS], before[CN_MAX_DIMS], canvas[CN_MAX_DIMS], steps[CN_MAX_DIMS];
  int64_t parts, many, all; /* of a block, blocks, elements of the canvas, which is the image with its pads */
} blocks;

static int blocks_of(blocks *b, cni_onnx_call *c, cni_onnx_ints image, cni_onnx_ints block)
{
  cni_onnx_ints strides = cni_onnx_ints_of(c, "strides"), dilations = cni_onnx_ints_of(c, "dilations");
  cni_onnx_ints pads = cni_onnx_ints_of(c, "pads");
  size_t n = image.n;
  if (cn_err()) return cn_err();
  if (!n || 2 * n > CN_MAX_DIMS || block.n != n || (strides.v && strides.n != n) ||
      (dilations.v && dilations.n != n) || (pads.v && pads.n != 2 * n))
    return cni_onnx_fail(c, CN_ERR_VALUE, "sizes, strides, dilations and pads are not as many");
  *b = (blocks){.n = n, .parts = 1, .many = 1, .all = 1};
  for (size_t i = 0; i < n; i++) {
    b->stride[i] = strides.v ? strides.v[i] : 1;
    b->dilation[i] = dilations.v ? dilations.v[i] : 1;
    b->before[i] = pads.v ? pads.v[i] : 0;
    int64_t after = pads.v ? pads.v[n + i] : 0, most = INT32_MAX;
    if (b->stride[i] < 1 || b->dilation[i] < 1 || b->dilation[i] > most || b->before[i] < 0 || b->before[i] > most ||
        after < 0 || after > most || block.v[i] < 1 || block.v[i] > most || image.v[i] < 1 || image.v[i] > most)
      return cni_onnx_fail(c, CN_ERR_VALUE, "a size, stride, dilation or pad is wrong");
    b->canvas[i] = image.v[i] + b->before[i] + after;
    int64_t free = b->canvas[i] - (block.v[i] - 1) * b->dilation[i] - 1;
    b->steps[i] = free < 0 ? 0 : free / b->stride[i] + 1;
    b->parts *= block.v[i];
    b->many *= b->steps[i];
    b->all *= b->canvas[i];
    if (b->parts > most || b->many > most || b->all > most) return cni_onnx_fail(c, CN_ERR_SHAPE, "it is too large");
  }
  return CN_OK;
}

/* Where on the canvas each element of each block lies: (parts * many). */
static cn_tensor *on_canvas(const blocks *b, const int64_t *block, cn_device device)
{
  int64_t shape[CN_MAX_DIMS], step = 1;
  cn_tensor *t = NULL;
  for (size_t i = 0; i < 2 * b->n; i++) shape[i] = 1;
  for (size_t i = b->n; i-- > 0; step *= b->canvas[i]) {
    cn_tensor *part = cn_arange(0, (double)block[i], .dtype = CN_I64, .device = device);
    cn_tensor *at = cn_arange(0, (double)b->steps[i], .dtype = CN_I64, .device = device);
    shape[i] = block[i];
    part = cn_reshape(cn_mul(part, cn_int(b->dilation[i] * step)), shape, 2 * b->n);
    shape[i] = 1;
    shape[b->n + i] = b->steps[i];
    at = cn_reshape(cn_mul(at, cn_int(b->stride[i] * step)), shape, 2 * b->n);
    shape[b->n + i] = 1;
    at = cn_add(part, at);
    t = t ? cn_add(t, at) : at;
  }
  return cn_reshape(t, CN_SHAPE(b->parts * b->many));
}

/* Blocks in columns, (N, C * parts, blocks), added up where they lie in an image. */
static int col2im(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0), *t;
  cni_onnx_ints image = cni_onnx_ints_in(c, 1), block = cni_onnx_ints_in(c, 2);
  int64_t shape[CN_MAX_DIMS];
  blocks b;
  if (!x || cn_err() || blocks_of(&b, c, image, block)) return cn_err();
  if (cn_ndim(x) != 3 || cn_shape(x)[1] % b.parts || cn_shape(x)[2] != b.many)
    return cni_onnx_fail(c, CN_ERR_SHAPE, "columns must be (N, C * %lld, %lld)", (long long)b.parts,
                         (long long)b.many);
  int64_t batch = cn_shape(x)[0], channels = cn_shape(x)[1] / b.parts;
  if (b.n == 2) t = cn_col2im(x, b.canvas, 2, block.v, 2, .dilation = {b.dilation, 2}, .stride = {b.stride, 2});
  else {
    t = cn_zeros(CN_SHAPE(batch * channels, b.all), .dtype = cn_dtype_of(x), .device = cn_device_of(x));
    cn_tensor *at = on_canvas(&b, block.v, cn_device_of(x));
    t = cn_index_add(t, 1, at, cn_reshape(x, CN_SHAPE(batch * channels, b.parts * b.many)));
    shape[0] = batch;
    shape[1] = channels;
    for (size_t i = 0; i < b.n; i++) shape[2 + i] = b.canvas[i];
    t = cn_reshape(t, shape, b.n + 2);
  }
  for (size_t i = 0; i < b.n && t; i++) t = cn_narrow(t, (int64_t)i + 2, b.before[i], image.v[i]);
  return cni_onnx_out(c, 0, t);
}

/* ---- files ---- */

/* (height, width, channels) from PNG, JPEG, BMP or PNM. Grey is made of the colours as ITU-R 601 has it. */
static int image_decoder(cni_onnx_call *c)
{
  cn_tensor *file = cni_onnx_in(c, 0);
  const char *format = cni_onnx_text(c, "pixel_format", "RGB");
  bool grey = !strcmp(format, "Grayscale"), reversed = !strcmp(format, "BGR");
  if (!file || cn_err()) return cn_err();
  if (!grey && !reversed && strcmp(format, "RGB") != 0)
    return cni_onnx_fail(c, CN_ERR_VALUE, "pixel_format is '%s'", format);
  if (cn_dtype_of(file) != CN_U8) return cni_onnx_fail(c, CN_ERR_DTYPE, "a file is bytes");
  size_t n = (size_t)cn_numel(file);
  unsigned char *bytes = cni_onnx_room(c, n + 1, 1);
  if (!bytes || cn_to_data(bytes, n, file)) return cn_err();
  cn_tensor *t = cni_onnx_bitmap(bytes, n);
  if (!t && !cn_err()) {
    t = cn_image_decode(bytes, n, 3);
    t = t ? cn_permute(t, CN_SHAPE(1, 2, 0)) : NULL;
  }
  if (!t) return cn_err();
  if (grey) { /* in parts of 65,536, rounded */
    static const int32_t parts[3] = {19595, 38470, 7471};
    cn_tensor *sum = cn_sum(cn_mul(cn_cast(t, CN_I32), cn_from_data(parts, CN_SHAPE(3), CN_I32)), .dim = CN_INTS(2),
                            .keepdim = true, .dtype = CN_I32);
    t = cn_cast(cn_bitwise_right_shift(cn_add(sum, cn_int(32768)), cn_int(16)), CN_U8);
  }
  if (reversed) t = cn_flip(t, CN_SHAPE(2));
  return cni_onnx_out(c, 0, t ? cn_to_device(cn_contiguous(t), cn_device_of(file)) : NULL);
}

/* ---- before opset 5, as converters of other formats still write them ---- */

/* Scaled, then a number added for each channel. */
static int image_scaler(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0);
  cni_onnx_floats bias = cni_onnx_floats_of(c, "bias");
  if (!x || cn_err()) return cn_err();
  x = cn_mul(x, cn_num(cni_onnx_float(c, "scale", 1)));
  if (!x || !bias.v) return cni_onnx_out(c, 0, x);
  cn_tensor *b = cn_cast(cn_from_data(bias.v, CN_SHAPE((int64_t)bias.n, 1, 1), CN_F64), cn_dtype_of(x));
  return cni_onnx_out(c, 0, b ? cn_add(x, cn_to_device(b, cn_device_of(x))) : NULL);
}

/* border: what is cut off left, above, right, below; or left and above, and the sizes that stay. */
static int crop(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0);
  cni_onnx_ints border = cni_onnx_ints_of(c, "border"), size = cni_onnx_ints_of(c, "scale");
  if (!x || cn_err()) return cn_err();
  if (cn_ndim(x) != 4 || border.n != 4 || (size.v && size.n != 2))
    return cni_onnx_fail(c, CN_ERR_SHAPE, "it takes (N, C, H, W), four numbers as border and two as scale");
  int64_t high = size.v ? size.v[0] : cn_shape(x)[2] - border.v[1] - border.v[3];
  int64_t wide = size.v ? size.v[1] : cn_shape(x)[3] - border.v[0] - border.v[2];
  return cni_onnx_out(c, 0, cn_contiguous(cn_narrow(cn_narrow(x, 2, border.v[1], high), 3, border.v[0], wide)));
}

const cni_onnx_op cni_onnx_image_ops[] = {
    ONNX_TEXT("AffineGrid", 20, "affine_grid(%0, %1, $align_corners=0)"),
    ONNX_BUILD("Crop", 1, crop),
    ONNX_BUILD("ImageScaler", 1, image_scaler),
    ONNX_BUILD("GridSample", 16, grid_sample),
    ONNX_BUILD("DeformConv", 19, deform_conv),
    ONNX_BUILD("Col2Im", 18, col2im),
    ONNX_BUILD("ImageDecoder", 20, image_decoder),
    {NULL, NULL, NULL, 0, 0},
};
