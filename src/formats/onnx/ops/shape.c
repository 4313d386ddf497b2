/* shape.c: other shapes of the same elements, joining and cutting. See call.h. */
#include <string.h>

#include "formats/onnx/call.h"

static int64_t axis_of(cni_onnx_call *c, const cn_tensor *x, int64_t otherwise)
{
  return x ? cni_onnx_axis(c, cni_onnx_int(c, "axis", otherwise), cn_ndim(x)) : cn_err();
}

/* 0 keeps a size, unless allowzero; -1 is what is left. */
static int reshape(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in_moved(c, 0);
  cni_onnx_ints to = c->opset < 5 ? cni_onnx_ints_of(c, "shape") : cni_onnx_ints_in(c, 1);
  bool zero = cni_onnx_int(c, "allowzero", 0) != 0;
  int64_t shape[CN_MAX_DIMS];
  if (!x || !to.v || to.n > CN_MAX_DIMS)
    return cn_err() ? cn_err() : cni_onnx_fail(c, CN_ERR_SHAPE, "its shape is missing or too long");
  for (size_t i = 0; i < to.n; i++) {
    shape[i] = to.v[i];
    if (shape[i] == 0 && !zero) {
      if (i >= (size_t)cn_ndim(x)) return cni_onnx_fail(c, CN_ERR_SHAPE, "size 0 at %zu has nothing to stand for", i);
      shape[i] = cn_shape(x)[i];
    }
  }
  return cni_onnx_out_moved(c, 0, cn_reshape(x, shape, to.n), 0);
}

static int flatten(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in_moved(c, 0);
  int64_t axis = cni_onnx_int(c, "axis", 1), ndim = cn_ndim(x), rows = 1, columns = 1;
  if (!x) return cn_err();
  if (axis < -ndim || axis > ndim)
    return cni_onnx_fail(c, CN_ERR_INDEX, "axis %lld is out of range", (long long)axis);
  axis = axis < 0 ? axis + ndim : axis;
  for (int64_t i = 0; i < ndim; i++) *(i < axis ? &rows : &columns) *= cn_shape(x)[i];
  return cni_onnx_out_moved(c, 0, cn_reshape(x, CN_SHAPE(rows, columns)), 0);
}

/* Axes that were an attribute until opset 13. */
static cni_onnx_ints given_axes(cni_onnx_call *c)
{
  return c->opset < 13 ? cni_onnx_ints_of(c, "axes") : cni_onnx_ints_in(c, 1);
}

static int squeeze(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in_moved(c, 0);
  cni_onnx_ints axes = given_axes(c);
  if (!x || cn_err()) return cn_err();
  for (size_t i = 0; i < axes.n; i++) {
    int64_t d = cni_onnx_axis(c, axes.v[i], cn_ndim(x));
    if (d < 0) return cn_err();
    if (cn_size(x, d) != 1) return cni_onnx_fail(c, CN_ERR_SHAPE, "size %lld is not 1", (long long)cn_size(x, d));
  }
  return cni_onnx_out_moved(c, 0, axes.v ? cn_squeeze(x, .dim = {axes.v, axes.n}) : cn_squeeze(x), 0);
}

static int unsqueeze(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in_moved(c, 0);
  cni_onnx_ints axes = given_axes(c);
  int64_t shape[CN_MAX_DIMS] = {0}, ndim = cn_ndim(x) + (int64_t)axes.n;
  if (!x || !axes.v) return cn_err() ? cn_err() : cni_onnx_fail(c, CN_ERR_VALUE, "its axes are missing");
  if (ndim > CN_MAX_DIMS) return cni_onnx_fail(c, CN_ERR_SHAPE, "too many dimensions");
  for (size_t i = 0; i < axes.n; i++) {
    int64_t d = cni_onnx_axis(c, axes.v[i], ndim);
    if (d < 0) return cn_err();
    if (shape[d]) return cni_onnx_fail(c, CN_ERR_VALUE, "axis %lld stands there twice", (long long)d);
    shape[d] = 1;
  }
  for (int64_t i = 0, k = 0; i < ndim; i++)
    if (!shape[i]) shape[i] = cn_shape(x)[k++];
  return cni_onnx_out_moved(c, 0, cn_reshape(x, shape, (size_t)ndim), 0);
}

/* A new order of dimensions. One in which only sizes of 1 move is a reshape, whose strides are in order, too: by those
 * of an image of one channel, what follows would be channels-last. */
static int transpose(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in_moved(c, 0);
  cni_onnx_ints perm = cni_onnx_ints_of(c, "perm");
  int64_t dims[CN_MAX_DIMS], shape[CN_MAX_DIMS], ndim = x ? cn_ndim(x) : 0, last = -1;
  if (!x || cn_err()) return cn_err();
  for (int64_t i = 0; i < ndim; i++) dims[i] = ndim - 1 - i;
  cn_tensor *t = perm.v ? cn_permute(x, perm.v, perm.n) : cn_permute(x, dims, (size_t)ndim);
  bool moves = !t || !cn_is_contiguous(x);
  for (int64_t i = 0; i < ndim && !moves; i++) {
    int64_t d = perm.v ? (perm.v[i] < 0 ? perm.v[i] + ndim : perm.v[i]) : dims[i];
    shape[i] = cn_shape(x)[d];
    if (shape[i] == 1) continue;
    moves = d < last;
    last = d;
  }
  return cni_onnx_out_moved(c, 0, moves ? t : cn_reshape(x, shape, (size_t)ndim), 0);
}

/* ---- joining and cutting ---- */

/* Strings: the places that they have among those of all inputs, in the shape of the result, are what is joined. */
static int concat_strings(cni_onnx_call *c)
{
  cn_tensor **bytes = cni_onnx_room(c, c->nin, sizeof *bytes), **lengths = cni_onnx_room(c, c->nin, sizeof *lengths);
  cn_tensor **at = cni_onnx_room(c, c->nin, sizeof *at);
  cn_strings s, moved;
  int64_t before = 0;
  if (!bytes || !lengths || !at) return cn_err();
  for (size_t i = 0; i < c->nin; i++) {
    if (cni_onnx_strings_in(&s, c, i)) return cn_err();
    int64_t n = cn_numel(s.lengths), used = (int64_t)cn_item(cn_sum(s.lengths, .dtype = CN_I64));
    if (cn_err()) return cn_err();
    bytes[i] = cn_narrow(s.bytes, 0, 0, used);
    lengths[i] = cn_reshape(s.lengths, CN_SHAPE(n));
    at[i] = cn_add(cni_onnx_in_moved(c, i), cn_int(before));
    before += n;
  }
  int64_t axis = axis_of(c, at[0], 1);
  if (axis < 0) return cn_err();
  cn_strings all = {cn_cat(bytes, c->nin), cn_cat(lengths, c->nin)};
  cn_tensor *order = cn_cat(at, c->nin, .dim = axis ? axis : CN_ZERO);
  if (cn_err() || cn_strings_take(&moved, &all, order)) return cn_err();
  return cni_onnx_out_strings(c, 0, &moved);
}

static int concat(cni_onnx_call *c)
{
  if (cni_onnx_has(c, 0) && c->in[0]->kind == CN_ONNX_STRINGS) return concat_strings(c);
  cn_tensor **all = cni_onnx_room(c, c->nin + 1, sizeof *all);
  for (size_t i = 0; all && i < c->nin; i++)
    if (!(all[i] = cni_onnx_in_moved(c, i))) return cn_err();
  int64_t axis = all && c->nin ? axis_of(c, all[0], 1) : -1;
  if (axis < 0) return cn_err() ? cn_err() : cni_onnx_fail(c, CN_ERR_VALUE, "it has no inputs");
  return cni_onnx_out_moved(c, 0, cn_cat(all, c->nin, .dim = axis ? axis : CN_ZERO), 0);
}

/* Sizes of the pieces: given, or as equal as they can be. */
static int split(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in_moved(c, 0);
  cni_onnx_ints sizes = c->opset < 13 && c->opset > 1 ? cni_onnx_ints_of(c, "split") : cni_onnx_ints_in(c, 1);
  if (c->opset == 1 && !sizes.v) sizes = cni_onnx_ints_of(c, "split");
  int64_t axis = axis_of(c, x, 0), at = 0, n = (int64_t)c->nout;
  if (axis < 0 || !n || cn_err()) return cn_err();
  int64_t whole = cn_size(x, axis), piece = (whole + n - 1) / n;
  if (sizes.v && sizes.n != c->nout)
    return cni_onnx_fail(c, CN_ERR_VALUE, "%zu sizes for %zu outputs", sizes.n, c->nout);
  for (int64_t i = 0; i < n; i++) {
    int64_t size = sizes.v ? sizes.v[i] : piece < whole - at ? piece : whole - at;
    if (cni_onnx_out_moved(c, (size_t)i, cn_narrow(x, axis, at, size), 0)) return cn_err();
    at += size;
  }
  return at == whole ? CN_OK : cni_onnx_fail(c, CN_ERR_SHAPE, "the pieces are not the whole");
}

/* Numbers that say "to the beginning" are far below what Python's rules take for the last element. */
static cn_tensor *slice_dim(cn_tensor *x, int64_t d, int64_t start, int64_t end, int64_t step)
{
  int64_t n = cn_size(x, d);
  step = step < -n - 1 ? -n - 1 : step; /* the least number has no opposite */
  if (start < 0) start = start < -n ? (step < 0 ? CN_NONE : 0) : start + n;
  if (start == CN_NONE) return cn_narrow(x, d, 0, 0);
  if (end < 0) end = end < -n ? (step < 0 ? CN_NONE : 0) : end + n;
  return cn_slice(x, d, start, end, .step = step);
}

static int slice(cni_onnx_call *c)
{
  bool old = c->opset < 10;
  cn_tensor *x = cni_onnx_in_moved(c, 0);
  cni_onnx_ints starts = old ? cni_onnx_ints_of(c, "starts") : cni_onnx_ints_in(c, 1);
  cni_onnx_ints ends = old ? cni_onnx_ints_of(c, "ends") : cni_onnx_ints_in(c, 2);
  cni_onnx_ints axes = old ? cni_onnx_ints_of(c, "axes") : cni_onnx_ints_in(c, 3);
  cni_onnx_ints steps = old ? (cni_onnx_ints){NULL, 0} : cni_onnx_ints_in(c, 4);
  if (!x || cn_err()) return cn_err();
  if (!starts.v || starts.n != ends.n || (axes.v && axes.n != starts.n) || (steps.v && steps.n != starts.n))
    return cni_onnx_fail(c, CN_ERR_VALUE, "starts, ends, axes and steps are not as many");
  for (size_t i = 0; i < starts.n; i++) {
    int64_t d = cni_onnx_axis(c, axes.v ? axes.v[i] : (int64_t)i, cn_ndim(x)), step = steps.v ? steps.v[i] : 1;
    if (d < 0) return cn_err();
    if (!step) return cni_onnx_fail(c, CN_ERR_VALUE, "a step is 0");
    if (!(x = slice_dim(x, d, starts.v[i], ends.v[i], step))) return cn_err();
  }
  return cni_onnx_out_moved(c, 0, x, 0);
}

/* ---- more of the same ---- */

/* Both shapes broadcast. */
static int expand(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in_moved(c, 0);
  cni_onnx_ints to = cni_onnx_ints_in(c, 1);
  int64_t shape[CN_MAX_DIMS], ndim = cn_ndim(x);
  if (!x || !to.v || to.n > CN_MAX_DIMS)
    return cn_err() ? cn_err() : cni_onnx_fail(c, CN_ERR_SHAPE, "its shape is too long");
  int64_t n = (int64_t)to.n > ndim ? (int64_t)to.n : ndim;
  for (int64_t i = 0; i < n; i++) {
    int64_t mine = i < n - ndim ? 1 : cn_shape(x)[i - (n - ndim)];
    int64_t theirs = i < n - (int64_t)to.n ? 1 : to.v[i - (n - (int64_t)to.n)];
    shape[i] = theirs == 1 ? mine : theirs;
  }
  return cni_onnx_out_moved(c, 0, cn_expand(x, shape, (size_t)n), 0);
}

static int tile(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in_moved(c, 0);
  int64_t times[CN_MAX_DIMS], ndim = cn_ndim(x);
  if (!x) return cn_err();
  if (c->opset >= 6) {
    cni_onnx_ints to = cni_onnx_ints_in(c, 1);
    if (to.v && to.n != (size_t)ndim)
      return cni_onnx_fail(c, CN_ERR_SHAPE, "%zu repeats for %lld dimensions", to.n, (long long)ndim);
    return cni_onnx_out_moved(c, 0, to.v ? cn_repeat(x, to.v, to.n) : NULL, 0);
  }
  int64_t axis = cni_onnx_axis(c, cni_onnx_int_in(c, 2, 0), ndim);
  for (int64_t i = 0; i < ndim; i++) times[i] = i == axis ? cni_onnx_int_in(c, 1, 1) : 1;
  return axis < 0 ? cn_err() : cni_onnx_out_moved(c, 0, cn_repeat(x, times, (size_t)ndim), 0);
}

/* Place i of a dimension of n elements that goes on beyond its ends. */
static int64_t source_of(int64_t i, int64_t n, char mode)
{
  int64_t turn = 2 * (n - 1);
  if (mode == 'c') return (i % n + n) % n;
  if (mode == 'r' && turn > 0) {
    i = (i % turn + turn) % turn;
    return i < n ? i : turn - i;
  }
  return i < 0 ? 0 : i >= n ? n - 1 : i;
}

/* x with elements of its own around it, a dimension after the other. all: from the last dimension on, in pairs. */
static cn_tensor *pad_by(cni_onnx_call *c, cn_tensor *x, const int64_t *all, char mode)
{
  for (int64_t d = cn_ndim(x); x && d-- > 0;) {
    int64_t k = 2 * (cn_ndim(x) - 1 - d), n = cn_size(x, d), size = n + all[k] + all[k + 1];
    if (!all[k] && !all[k + 1]) continue;
    int64_t *at = size > 0 && n > 0 && size < INT32_MAX ? cni_onnx_room(c, (size_t)size, sizeof *at) : NULL;
    if (!at)
      return cni_onnx_fail(c, CN_ERR_SHAPE, "%lld elements cannot become %lld", (long long)n, (long long)size), NULL;
    for (int64_t i = 0; i < size; i++) at[i] = source_of(i - all[k], n, mode);
    x = cn_index_select(x, d, cn_to_device(cn_from_data(at, &size, 1, CN_I64), cn_device_of(x)));
  }
  return x;
}

/* So many in front of and behind each dimension, or of those listed; negative numbers cut off. */
static int pad(cni_onnx_call *c)
{
  static const char *const modes[] = {"constant", "reflect", "edge", "wrap"};
  cn_tensor *x = cni_onnx_in(c, 0), *value = cni_onnx_maybe(c, 2);
  cni_onnx_ints pads =
      c->opset >= 11 ? cni_onnx_ints_in(c, 1) : cni_onnx_ints_of(c, c->opset < 2 ? "paddings" : "pads");
  cni_onnx_ints axes = cni_onnx_ints_in(c, 3);
  const char *mode = cni_onnx_text(c, "mode", "constant");
  int64_t ndim = cn_ndim(x), all[2 * CN_MAX_DIMS] = {0};
  size_t m = 0, n = axes.v ? axes.n : (size_t)ndim;
  while (m < 4 && strcmp(modes[m], mode) != 0) m++;
  if (!x || cn_err()) return cn_err();
  if (m == 4 || !pads.v || pads.n != 2 * n) return cni_onnx_fail(c, CN_ERR_VALUE, "its pads or its mode do not fit");
  for (size_t i = 0; i < n; i++) { /* cairn's list begins with the last dimension */
    int64_t d = cni_onnx_axis(c, axes.v ? axes.v[i] : (int64_t)i, ndim);
    if (d < 0) return cn_err();
    all[2 * (ndim - 1 - d)] = pads.v[i];
    all[2 * (ndim - 1 - d) + 1] = pads.v[n + i];
  }
  double fill = value ? cni_onnx_float_in(c, 2, 0) : cni_onnx_float(c, "value", 0);
  if (!m) return cni_onnx_out(c, 0, cn_constant_pad_nd(x, all, 2 * (size_t)ndim, .value = fill));
  return cni_onnx_out(c, 0, pad_by(c, x, all, m == 1 ? 'r' : m == 2 ? 'e' : 'c'));
}

/* The middle of each dimension, or zeros around it; what is odd is behind. */
static int center_crop_pad(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0);
  cni_onnx_ints to = cni_onnx_ints_in(c, 1), axes = cni_onnx_ints_of(c, "axes");
  int64_t ndim = cn_ndim(x), all[2 * CN_MAX_DIMS] = {0};
  if (!x || cn_err()) return cn_err();
  if (!to.v || to.n != (axes.v ? axes.n : (size_t)ndim))
    return cni_onnx_fail(c, CN_ERR_VALUE, "its shape has %zu numbers", to.n);
  for (size_t i = 0; i < to.n; i++) {
    int64_t d = cni_onnx_axis(c, axes.v ? axes.v[i] : (int64_t)i, ndim);
    if (d < 0) return cn_err();
    if (to.v[i] < 0) return cni_onnx_fail(c, CN_ERR_VALUE, "a size is negative");
    int64_t more = to.v[i] - cn_size(x, d), *pair = all + 2 * (ndim - 1 - d);
    pair[0] = more / 2;
    pair[1] = more - more / 2;
  }
  return cni_onnx_out(c, 0, cn_constant_pad_nd(x, all, 2 * (size_t)ndim));
}

/* Blocks of the channels beside one another in the image. CRD: the block's place is the faster one among channels. */
static int depth_to_space(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0);
  int64_t b = cni_onnx_int(c, "blocksize", 0);
  bool crd = !strcmp(cni_onnx_text(c, "mode", "DCR"), "CRD");
  if (!x || cn_ndim(x) != 4 || b < 1)
    return cni_onnx_fail(c, CN_ERR_SHAPE, "it takes (N, C, H, W) and a block's size");
  if (crd) return cni_onnx_out(c, 0, cn_pixel_shuffle(x, b));
  const int64_t *s = cn_shape(x);
  x = cn_reshape(x, CN_SHAPE(s[0], b, b, s[1] / (b * b), s[2], s[3]));
  x = cn_permute(x, CN_SHAPE(0, 3, 4, 1, 5, 2));
  return cni_onnx_out(c, 0, x ? cn_reshape(x, CN_SHAPE(s[0], s[1] / (b * b), s[2] * b, s[3] * b)) : NULL);
}

static int space_to_depth(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0);
  int64_t b = cni_onnx_int(c, "blocksize", 0);
  if (!x || cn_ndim(x) != 4 || b < 1)
    return cni_onnx_fail(c, CN_ERR_SHAPE, "it takes (N, C, H, W) and a block's size");
  if (!strcmp(cni_onnx_text(c, "mode", "DCR"), "CRD")) return cni_onnx_out(c, 0, cn_pixel_unshuffle(x, b));
  const int64_t *s = cn_shape(x);
  x = cn_reshape(x, CN_SHAPE(s[0], s[1], s[2] / b, b, s[3] / b, b));
  x = cn_permute(x, CN_SHAPE(0, 3, 5, 1, 2, 4));
  return cni_onnx_out(c, 0, x ? cn_reshape(x, CN_SHAPE(s[0], s[1] * b * b, s[2] / b, s[3] / b)) : NULL);
}

/* What lies above, or below, a diagonal of the last two dimensions. */
static int trilu(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0);
  int64_t k = cni_onnx_int_in(c, 1, 0);
  if (!x || cn_err()) return cn_err();
  cn_value args[] = {cn_v_tensor(x), cn_v_int(k)};
  return cni_onnx_out(c, 0, cni_onnx_op1(cni_onnx_int(c, "upper", 1) ? "triu" : "tril", args, 2));
}

const cni_onnx_op cni_onnx_shape_ops[] = {
    ONNX_BUILD("Reshape", 1, reshape),
    ONNX_BUILD("Flatten", 1, flatten),
    ONNX_BUILD("Squeeze", 1, squeeze),
    ONNX_BUILD("Unsqueeze", 1, unsqueeze),
    ONNX_BUILD("Transpose", 1, transpose),
    ONNX_BUILD("Concat", 1, concat),
    ONNX_BUILD("Split", 1, split),
    ONNX_BUILD("Slice", 1, slice),
    ONNX_BUILD("Expand", 8, expand),
    ONNX_BUILD("Tile", 1, tile),
    ONNX_BUILD("Pad", 1, pad),
    ONNX_BUILD("CenterCropPad", 18, center_crop_pad),
    ONNX_BUILD("Trilu", 14, trilu),
    ONNX_BUILD("DepthToSpace", 1, depth_to_space),
    ONNX_BUILD("SpaceToDepth", 1, space_to_depth),
    {NULL, NULL, NULL, 0, 0},
};
