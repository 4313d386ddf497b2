/* shape.c: views, joining, cutting, padding. See row.h. */
#include <string.h>

#include "row.h"

/* ---- the same elements ---- */

/* detach, clone, copies in another memory order, on another device: values are the same. */
static bool same(cni_oxcall *c)
{
  cni_ox_give(c, 0, cni_ox_solid(c->x, c->in[0], c->out[0].dtype));
  return true;
}

/* The sizes of a result that are arguments of the call, where they are open. */
static void sizes_of(const cni_oxcall *c, int arg, cni_oxval *sizes)
{
  for (int k = 0; k < c->out[0].ndim; k++)
    sizes[k] = c->out[0].open >> k & 1 ? cni_oxarg_size(c, arg, k) : cni_ox_whole(c->out[0].shape[k]);
}

/* view(input, size) */
static bool view(cni_oxcall *c)
{
  cni_oxval sizes[CN_MAX_DIMS];
  sizes_of(c, 1, sizes);
  for (int k = 0; k < c->out[0].ndim; k++) /* -1 stands for what is left */
    if (sizes[k].number && c->out[0].open >> k & 1) sizes[k] = cni_ox_whole(-1);
  cni_ox_give(c, 0, cni_ox_reshape(c->x, c->in[0], c->out[0].ndim, sizes));
  return true;
}

/* expand(input, size); -1 keeps a size */
static bool expand(cni_oxcall *c)
{
  cni_oxval sizes[CN_MAX_DIMS], v = cni_ox_solid(c->x, c->in[0], c->out[0].dtype);
  int more = c->out[0].ndim - v.ndim;
  for (int k = 0; k < c->out[0].ndim; k++) {
    bool kept = k >= more && v.shape[k - more] != 1;
    if (!(c->out[0].open >> k & 1)) sizes[k] = cni_ox_whole(c->out[0].shape[k]);
    else sizes[k] = kept ? cni_ox_whole(1) : cni_oxarg_size(c, 1, k);
    if (c->out[0].open >> k & 1 && sizes[k].number && sizes[k].i < 0) sizes[k] = cni_ox_whole(1);
  }
  cni_ox_give(c, 0, cni_ox_expand(c->x, v, c->out[0].ndim, sizes));
  return true;
}

static bool permute(cni_oxcall *c)
{
  int64_t order[CN_MAX_DIMS];
  int n = c->in[0].ndim;
  for (int k = 0; k < n; k++) order[k] = cni_oxarg_at(c, 1, k) + (cni_oxarg_at(c, 1, k) < 0 ? n : 0);
  cni_ox_give(c, 0, cni_ox_transpose(c->x, c->in[0], order));
  return true;
}

static bool transpose(cni_oxcall *c)
{
  int n = c->in[0].ndim;
  cni_ox_give(c, 0, cni_ox_swap(c->x, c->in[0], cni_oxarg_dim(c, 1, n), cni_oxarg_dim(c, 2, n)));
  return true;
}

static bool squeeze(cni_oxcall *c)
{
  uint32_t dims = cni_oxarg_dims(c, 1, c->in[0].ndim);
  int64_t axes[CN_MAX_DIMS];
  int n = 0;
  for (int k = 0; k < c->in[0].ndim; k++)
    if (dims >> k & 1 && c->in[0].shape[k] == 1 && !(c->in[0].open >> k & 1)) axes[n++] = k;
  cni_ox_give(c, 0, n ? CNI_OX_EMIT(c->x, "Squeeze", c->in[0], cni_ox_list(c->x, axes, n)) : c->in[0]);
  return true;
}

static bool unsqueeze(cni_oxcall *c)
{
  cni_oxval v = cni_ox_solid(c->x, c->in[0], c->out[0].dtype);
  cni_ox_give(c, 0, cni_ox_unsqueeze(c->x, v, cni_oxarg_dim(c, 1, v.ndim + 1)));
  return true;
}

/* select(input, dim, index) */
static bool select(cni_oxcall *c)
{
  int dim = cni_oxarg_dim(c, 1, c->in[0].ndim);
  cni_oxval at = cni_oxarg_value(c, 2, 0, CN_I64);
  cni_ox_int(c->x, "axis", dim);
  cni_ox_give(c, 0, CNI_OX_EMIT(c->x, "Gather", c->in[0], at));
  return true;
}

/* slice(input, dim, start, end, step) */
static bool slice(cni_oxcall *c)
{
  int dim = cni_oxarg_dim(c, 1, c->in[0].ndim);
  int64_t step = cni_oxarg_int(c, 4);
  cni_oxval from = cni_ox_whole(step > 0 ? 0 : INT64_MAX), to = cni_ox_whole(step > 0 ? INT64_MAX : INT64_MIN);
  if (!cni_oxarg_none(c, 2)) from = cni_oxarg_size(c, 2, 0);
  if (!cni_oxarg_none(c, 3)) to = cni_oxarg_size(c, 3, 0);
  cni_ox_give(c, 0, cni_ox_slice(c->x, c->in[0], dim, from, to, step));
  return true;
}

/* ---- joining ---- */

/* cat(tensors, dim): an empty vector among others counts for nothing. */
static bool cat(cni_oxcall *c)
{
  cni_ox *x = c->x;
  cni_oxval *all = cni_arena_take(&x->arena, (size_t)c->nin + 1, sizeof *all);
  int n = 0;
  for (int k = 0; k < c->nin && all; k++) {
    bool nothing = c->in[k].ndim == 1 && c->in[k].shape[0] == 0 && !c->in[k].open && c->out[0].ndim != 1;
    if (!nothing) all[n++] = cni_ox_as(c, k, 0);
  }
  if (!all) x->failed = true;
  if (!n || !all) return false;
  cni_ox_give(c, 0, cni_ox_concat(x, n, all, cni_oxarg_dim(c, 1, c->out[0].ndim)));
  return true;
}

/* split_copy(input, sizes, dim) */
static bool split_copy(cni_oxcall *c)
{
  int dim = cni_oxarg_dim(c, 2, c->in[0].ndim);
  cni_oxval at = cni_ox_whole(0);
  for (int k = 0; k < c->nout; k++) {
    cni_oxval end = cni_ox_math(c->x, "Add", at, cni_oxarg_size(c, 1, k));
    cni_ox_give(c, k, cni_ox_slice(c->x, c->in[0], dim, at, end, 1));
    at = end;
  }
  return true;
}

/* ---- cutting and turning ---- */

static bool flip(cni_oxcall *c)
{
  cni_oxval v = c->in[0];
  uint32_t dims = cni_oxarg_count(c, 1) ? cni_oxarg_dims(c, 1, v.ndim) : 0;
  for (int k = 0; k < v.ndim; k++)
    if (dims >> k & 1) {
      v = cni_ox_slice(c->x, v, k, cni_ox_whole(-1), cni_ox_absent(), -1);
      v = cni_ox_shaped(v, c->in[0].ndim, c->in[0].shape, c->in[0].open);
    }
  cni_ox_give(c, 0, v);
  return true;
}

static cni_oxval rolled(cni_oxcall *c, cni_oxval v, int dim, int64_t shift)
{
  cni_ox *x = c->x;
  int64_t size = v.shape[dim];
  bool open = v.open >> dim & 1;
  if (!open && !size) return v;
  if (!open) shift = (shift % size + size) % size;
  if (!shift) return v;
  cni_oxval back = cni_ox_slice(x, v, dim, cni_ox_whole(-shift), cni_ox_whole(INT64_MAX), 1);
  cni_oxval front = cni_ox_slice(x, v, dim, cni_ox_whole(0), cni_ox_whole(-shift), 1);
  return cni_ox_shaped(cni_ox_concat(x, 2, (cni_oxval[]){back, front}, dim), v.ndim, v.shape, v.open);
}

/* roll(input, shifts, dims); without dims all elements in a row */
static bool roll(cni_oxcall *c)
{
  cni_oxval v = c->in[0], all = cni_ox_whole(-1);
  int n = cni_oxarg_count(c, 2);
  for (int k = 0; k < n; k++) {
    int64_t d = cni_oxarg_at(c, 2, k), shift = cni_oxarg_at(c, 1, k);
    int dim = (int)(d < 0 ? d + v.ndim : d);
    if (v.open >> dim & 1 && (shift > v.shape[dim] || shift < -v.shape[dim])) return false;
    v = rolled(c, v, dim, shift);
  }
  if (!n) {
    if (v.open) return false;
    int64_t count = 1;
    for (int k = 0; k < v.ndim; k++) count *= v.shape[k];
    if (!count) return cni_ox_give(c, 0, v), true;
    v = cni_ox_reshape(c->x, v, 1, &all);
    v = rolled(c, cni_ox_shaped(v, 1, &count, 0), 0, cni_oxarg_at(c, 1, 0));
    v = cni_ox_reshape_like(c->x, v, c->in[0]);
  }
  cni_ox_give(c, 0, v);
  return true;
}

/* ---- padding ---- */

/* PyTorch's pairs begin with the last dim, ONNX's are all beginnings, then all ends. */
static cni_oxval pads_of(cni_oxcall *c, int ndim)
{
  cni_oxval pads[2 * CN_MAX_DIMS];
  int n = cni_oxarg_count(c, 1) / 2;
  for (int k = 0; k < 2 * ndim; k++) pads[k] = cni_ox_whole(0);
  for (int k = 0; k < n; k++) {
    pads[ndim - 1 - k] = cni_oxarg_size(c, 1, 2 * k);
    pads[2 * ndim - 1 - k] = cni_oxarg_size(c, 1, 2 * k + 1);
  }
  cni_oxval all[2] = {cni_ox_sizes(c->x, ndim, pads), cni_ox_sizes(c->x, ndim, pads + ndim)};
  bool known = true;
  int64_t list[2 * CN_MAX_DIMS];
  for (int k = 0; k < 2 * ndim; k++) known = known && pads[k].number, list[k] = pads[k].i;
  return known ? cni_ox_list(c->x, list, 2 * ndim) : cni_ox_concat(c->x, 2, all, 0);
}

/* constant_pad_nd(input, pad, value) */
static bool constant_pad(cni_oxcall *c)
{
  cni_oxval v = cni_ox_as(c, 0, 0);
  if (!v.ndim) return false;
  cni_oxval value = cni_oxarg_value(c, 2, 0, v.dtype);
  cni_ox_give(c, 0, CNI_OX_EMIT(c->x, "Pad", v, pads_of(c, v.ndim), value));
  return true;
}

/* pad(input, pad, mode, value) */
static bool pad(cni_oxcall *c)
{
  const char *mode = cni_oxarg_text(c, 2);
  const char *own = !strcmp(mode, "reflect") ? "reflect" : !strcmp(mode, "replicate") ? "edge" : NULL;
  if (!strcmp(mode, "circular") && c->x->opset >= 19) own = "wrap";
  if (!own || !c->in[0].ndim) return false;
  for (int k = 0; k < cni_oxarg_count(c, 1);
       k++) /* what is cut off is cut behind the filling, here, and before it there */
    if (!cni_oxarg_open(c, 1) && cni_oxarg_at(c, 1, k) < 0) return false;
  cni_oxval pads = pads_of(c, c->in[0].ndim);
  cni_ox_text(c->x, "mode", own);
  cni_ox_give(c, 0, CNI_OX_EMIT(c->x, "Pad", c->in[0], pads));
  return true;
}

/* repeat(input, repeats) */
static bool repeat(cni_oxcall *c)
{
  cni_oxval times[CN_MAX_DIMS], sizes[CN_MAX_DIMS], v = c->in[0];
  int n = cni_oxarg_count(c, 1), more = n - v.ndim;
  if (!n || more < 0) return false;
  for (int k = 0; k < n; k++) {
    times[k] = cni_oxarg_size(c, 1, k);
    sizes[k] = k < more ? cni_ox_whole(1) : cni_ox_size(c->x, v, k - more);
  }
  if (more) v = cni_ox_reshape(c->x, v, n, sizes);
  cni_ox_give(c, 0, CNI_OX_EMIT(c->x, "Tile", v, cni_ox_sizes(c->x, n, times)));
  return true;
}

/* tril and triu(input, diagonal) */
static bool triangle(cni_oxcall *c)
{
  cni_oxval k = cni_oxarg_value(c, 1, 0, CN_I64);
  cni_ox_int(c->x, "upper", *c->text == 'u');
  cni_ox_give(c, 0, CNI_OX_EMIT(c->x, "Trilu", c->in[0], k));
  return true;
}

/* copy(input, src): src in the sizes and the type of input */
static bool copy(cni_oxcall *c)
{
  cni_oxval v = cni_ox_cast(c->x, cni_ox_solid(c->x, c->in[1], c->out[0].dtype), c->out[0].dtype);
  bool all = v.ndim == c->out[0].ndim && !v.open && !c->out[0].open;
  for (int k = 0; all && k < v.ndim; k++) all = v.shape[k] == c->out[0].shape[k];
  if (!all) v = CNI_OX_EMIT(c->x, "Expand", v, cni_ox_shape(c->x, c->in[0]));
  cni_ox_give(c, 0, v);
  return true;
}

/* ---- a part replaced ---- */

/* select_scatter(input, src, dim, index): what stands before, src, what stands behind */
static bool select_scatter(cni_oxcall *c)
{
  cni_ox *x = c->x;
  cni_oxval v = c->in[0], parts[3];
  int dim = cni_oxarg_dim(c, 2, v.ndim), n = 0;
  int64_t at = cni_oxarg_int(c, 3), size = v.shape[dim];
  if (v.open >> dim & 1 && at < 0) return false;
  at = at < 0 ? at + size : at;
  if (at) parts[n++] = cni_ox_slice(x, v, dim, cni_ox_whole(0), cni_ox_whole(at), 1);
  parts[n++] = cni_ox_unsqueeze(x, cni_ox_as(c, 1, 0), dim);
  if (at + 1 < size) parts[n++] = cni_ox_slice(x, v, dim, cni_ox_whole(at + 1), cni_ox_whole(INT64_MAX), 1);
  cni_ox_give(c, 0, cni_ox_concat(x, n, parts, dim));
  return true;
}

/* slice_scatter(input, src, dim, start, end, step): rows of src at every step */
static bool slice_scatter(cni_oxcall *c)
{
  cni_ox *x = c->x;
  cni_oxval v = c->in[0];
  int dim = cni_oxarg_dim(c, 2, v.ndim);
  if (v.open >> dim & 1) return false;
  int64_t size = v.shape[dim], step = cni_oxarg_int(c, 5), n = c->in[1].shape[dim], one = 1;
  int64_t from = !cni_oxarg_none(c, 3) ? cni_oxarg_int(c, 3) : step > 0 ? 0 : size - 1;
  from = from < 0 ? from + size : from;
  from = from < 0 ? 0 : step < 0 && from > size - 1 ? size - 1 : from;
  if (!n) return cni_ox_give(c, 0, v), true;
  int64_t *at = cni_arena_take(&x->arena, (size_t)n, sizeof *at), shape[2] = {n, one};
  for (int64_t k = 0; k < n && at; k++) at[k] = from + k * step;
  if (!at) x->failed = true;
  cni_oxval index = at ? cni_ox_data(x, at, CN_I64, 2, shape) : cni_ox_absent();
  cni_oxval front = cni_ox_swap(x, v, 0, dim), src = cni_ox_swap(x, cni_ox_as(c, 1, 0), 0, dim);
  cni_oxval y = cni_ox_shaped(CNI_OX_EMIT(x, "ScatterND", front, index, src), v.ndim, front.shape, front.open);
  cni_ox_give(c, 0, cni_ox_swap(x, y, 0, dim));
  return true;
}

/* ---- views by places ---- */

/* diagonal(input, offset, dim1, dim2): of both dims laid flat, every one more than a row's size */
static bool diagonal(cni_oxcall *c)
{
  cni_ox *x = c->x;
  cni_oxval v = c->in[0], sizes[CN_MAX_DIMS];
  int64_t order[CN_MAX_DIMS], offset = cni_oxarg_int(c, 1), n = c->out[0].shape[c->out[0].ndim - 1];
  int a = cni_oxarg_dim(c, 2, v.ndim), b = cni_oxarg_dim(c, 3, v.ndim), m = 0;
  if ((v.open >> a | v.open >> b) & 1) return false;
  int64_t columns = v.shape[b], *at = cni_arena_take(&x->arena, (size_t)n + 1, sizeof *at);
  for (int k = 0; k < v.ndim; k++)
    if (k != a && k != b) sizes[m] = cni_ox_size(x, v, k), order[m++] = k;
  order[m] = a, order[m + 1] = b;
  sizes[m] = cni_ox_whole(v.shape[a] * columns);
  if (!at) return x->failed = true;
  for (int64_t k = 0; k < n; k++) at[k] = (k + (offset < 0 ? -offset : 0)) * columns + k + (offset > 0 ? offset : 0);
  v = cni_ox_reshape(x, cni_ox_transpose(x, v, order), m + 1, sizes);
  cni_ox_int(x, "axis", m);
  cni_ox_give(c, 0, CNI_OX_EMIT(x, "Gather", v, cni_ox_list(x, at, (int)n)));
  return true;
}

/* unfold(input, dimension, size, step): windows of a dim, their elements behind all dims */
static bool unfold(cni_oxcall *c)
{
  cni_ox *x = c->x;
  cni_oxval v = c->in[0];
  int dim = cni_oxarg_dim(c, 1, v.ndim);
  int64_t size = cni_oxarg_int(c, 2), step = cni_oxarg_int(c, 3);
  if (!v.ndim || v.open >> dim & 1) return false;
  int64_t n = c->out[0].shape[dim], shape[2] = {n, size}, order[CN_MAX_DIMS];
  int64_t *at = cni_arena_take(&x->arena, (size_t)(n * size) + 1, sizeof *at);
  if (!at) return x->failed = true;
  for (int64_t k = 0; k < n * size; k++) at[k] = k / (size ? size : 1) * step + k % (size ? size : 1);
  cni_ox_int(x, "axis", dim);
  cni_oxval y = CNI_OX_EMIT(x, "Gather", v, cni_ox_data(x, at, CN_I64, 2, shape));
  y.ndim = v.ndim + 1, y.open = 0;
  for (int k = 0; k < y.ndim; k++) order[k] = k <= dim ? k : k < v.ndim ? k + 1 : dim + 1;
  cni_ox_give(c, 0, cni_ox_transpose(x, y, order));
  return true;
}

/* diagonal_scatter(input, src, offset, dim1, dim2): src at the places of the diagonal, both dims laid flat in front */
static bool diagonal_scatter(cni_oxcall *c)
{
  cni_ox *x = c->x;
  cni_oxval v = c->in[0], src = cni_ox_as(c, 1, 0), sizes[CN_MAX_DIMS], back[CN_MAX_DIMS];
  int a = cni_oxarg_dim(c, 3, v.ndim), b = cni_oxarg_dim(c, 4, v.ndim), m = 2;
  int64_t order[CN_MAX_DIMS], home[CN_MAX_DIMS], offset = cni_oxarg_int(c, 2), n = src.shape[src.ndim - 1];
  if ((v.open >> a | v.open >> b) & 1) return false;
  int64_t columns = v.shape[b], *at = cni_arena_take(&x->arena, (size_t)n + 1, sizeof *at), shape[2] = {n, 1};
  if (!at) return x->failed = true;
  for (int64_t k = 0; k < n; k++) at[k] = (k + (offset < 0 ? -offset : 0)) * columns + k + (offset > 0 ? offset : 0);
  order[0] = a, order[1] = b;
  for (int k = 0; k < v.ndim; k++)
    if (k != a && k != b) order[m++] = k;
  cni_oxval front = cni_ox_transpose(x, v, order);
  for (int k = 0; k < v.ndim; k++) back[k] = cni_ox_size(x, front, k), home[order[k]] = k;
  sizes[0] = cni_ox_whole(v.shape[a] * columns);
  for (int k = 1; k < v.ndim - 1; k++) sizes[k] = back[k + 1];
  for (int k = 0; k < src.ndim; k++) order[k] = k ? k - 1 : src.ndim - 1; /* the diagonal in front */
  cni_oxval flat = cni_ox_reshape(x, front, v.ndim - 1, sizes), index = cni_ox_data(x, at, CN_I64, 2, shape);
  flat = CNI_OX_EMIT(x, "ScatterND", flat, index, cni_ox_transpose(x, src, order));
  flat.ndim = v.ndim - 1, flat.open = front.open >> 1;
  flat = cni_ox_reshape(x, flat, v.ndim, back);
  cni_ox_give(c, 0, cni_ox_transpose(x, cni_ox_shaped(flat, v.ndim, front.shape, front.open), home));
  return true;
}

const cni_oxrow cni_ox_shape_rows[] = {
    BUILD("detach", 13, same),
    BUILD("clone", 13, same),
    BUILD("contiguous_copy", 13, same),
    BUILD("channels_last", 13, same),
    BUILD("to_device", 13, same),
    BUILD("view", 13, view),
    BUILD("reshape", 13, view),
    BUILD("contiguous", 13, same),
    BUILD("expand", 13, expand),
    BUILD("permute", 13, permute),
    BUILD("transpose", 13, transpose),
    BUILD("squeeze", 13, squeeze),
    BUILD("unsqueeze", 13, unsqueeze),
    BUILD("select", 13, select),
    BUILD("slice", 13, slice),
    BUILD("cat", 13, cat),
    BUILD("split_copy", 13, split_copy),
    BUILD("flip", 13, flip),
    BUILD("roll", 13, roll),
    BUILD("constant_pad_nd", 13, constant_pad),
    BUILD("pad", 13, pad),
    BUILD("repeat", 13, repeat),
    BUILD_AS("tril", 14, triangle, "lower"),
    BUILD_AS("triu", 14, triangle, "upper"),
    BUILD("copy", 13, copy),
    BUILD("select_scatter", 13, select_scatter),
    BUILD("slice_scatter", 13, slice_scatter),
    BUILD("diagonal", 13, diagonal),
    BUILD("diagonal_scatter", 13, diagonal_scatter),
    BUILD("unfold", 13, unfold),
    {NULL, NULL, NULL, 0},
};
