/* window.c: pools, windows as columns, pictures in other sizes. See row.h. */
#include <cairn/cairn.h>
#include <string.h>

#include "row.h"

/* A picture of n dims, with a batch. */
static cni_oxval batched(cni_oxcall *c, cni_oxval v, int n)
{
  return v.ndim == n + 1 ? cni_ox_unsqueeze(c->x, v, 0) : v;
}

static void give_batched(cni_oxcall *c, int k, cni_oxval v, int n)
{
  v.ndim = n + 2;
  cni_ox_give(c, k, c->out[k].ndim == n + 1 ? cni_ox_squeeze(c->x, v, 0) : v);
}

static void numbers(const cni_oxcall *c, int arg, int n, int64_t *to)
{
  for (int k = 0; k < n; k++) to[k] = cni_oxarg_at(c, arg, k);
}

/* (input, kernel_size, stride, padding, ...): attributes of a pool; false: padding reaches too far for ONNX */
static bool pool_attrs(cni_oxcall *c, int n, int dilation, int ceil)
{
  int64_t size[3], step[3], pad[6], apart[3] = {1, 1, 1};
  bool own = cni_oxarg_count(c, 2) > 0;
  numbers(c, 1, n, size);
  numbers(c, own ? 2 : 1, n, step);
  numbers(c, 3, n, pad);
  numbers(c, 3, n, pad + n);
  if (dilation >= 0) numbers(c, dilation, n, apart);
  if (c->x->failed) return false;
  cni_ox_ints(c->x, "kernel_shape", size, n);
  cni_ox_ints(c->x, "strides", step, n);
  cni_ox_ints(c->x, "pads", pad, 2 * n);
  if (dilation >= 0) cni_ox_ints(c->x, "dilations", apart, n);
  if (cni_oxarg_int(c, ceil)) cni_ox_int(c->x, "ceil_mode", 1);
  return true;
}

/* What onnxruntime has a pool for; NaN is lost in its maxima, as in the specification. */
static int pool_type(int dtype) { return dtype == CN_F64 || dtype == CN_U8 || dtype == CN_I8 ? dtype : CN_F32; }

/* max_poolNd(input, kernel_size, stride, padding, dilation, ceil_mode) */
static bool max_pool(cni_oxcall *c)
{
  int n = *c->text - '0', type = pool_type(c->in[0].dtype);
  cni_oxval v = cni_ox_cast(c->x, batched(c, c->in[0], n), type);
  if ((!cni_ox_is_float(c->in[0].dtype) && type == CN_F32) || !pool_attrs(c, n, 4, 5)) return false;
  give_batched(c, 0, CNI_OX_EMIT(c->x, "MaxPool", v), n);
  return true;
}

/* ... with places in the plane: ONNX's count in all of the tensor. */
static bool max_pool_places(cni_oxcall *c)
{
  cni_ox *x = c->x;
  int type = pool_type(c->in[0].dtype);
  cni_oxval v = cni_ox_cast(x, batched(c, c->in[0], 2), type), out[2];
  if (!cni_ox_is_float(c->in[0].dtype) && type == CN_F32) return false;
  if (!pool_attrs(c, 2, 4, 5)) return false;
  out[0] = out[1] = v;
  out[1].dtype = CN_I64;
  cni_ox_node(x, "MaxPool", 1, &v, 2, out);
  cni_oxval plane = cni_ox_math(x, "Mul", cni_ox_size(x, v, 2), cni_ox_size(x, v, 3));
  if (plane.number) plane = cni_ox_const(x, plane, CN_I64);
  out[1] = cni_ox_binary(x, "Mod", out[1], plane);
  for (int k = 0; k < 2; k++) give_batched(c, k, out[k], 2);
  return true;
}

/* Of n elements, window k of `out` begins and ends here. */
static void adaptive_range(int64_t n, int64_t out, int64_t k, int64_t *begin, int64_t *end)
{
  *begin = k * n / out;
  *end = ((k + 1) * n + out - 1) / out;
}

/* Element `step` of each window along dim k, its last one where it has fewer. */
static void adaptive_places(const cni_oxval *v, int k, int64_t out, int64_t step, int64_t *at)
{
  for (int64_t i = 0, begin, end; i < out; i++) {
    adaptive_range(v->shape[2 + k], out, i, &begin, &end);
    at[i] = begin + step < end ? begin + step : end - 1;
  }
}

/* adaptive_max_pool2d_with_indices(input, output_size): element by element of all windows at once */
static bool adaptive_max_pool(cni_oxcall *c)
{
  cni_ox *x = c->x;
  cni_oxval v = batched(c, c->in[0], 2), best = cni_ox_absent(), place = best;
  int64_t out[2], most[2] = {0, 0}, begin, end;
  if (v.open >> 2) return false;
  for (int k = 0; k < 2; k++) {
    out[k] = c->out[0].shape[c->out[0].ndim - 2 + k];
    for (int64_t i = 0; i < out[k]; i++) {
      adaptive_range(v.shape[2 + k], out[k], i, &begin, &end);
      if (end - begin > most[k]) most[k] = end - begin;
    }
  }
  int64_t n = out[0] * out[1], *at[2], *places = cni_arena_take(&x->arena, (size_t)n + 1, sizeof *places);
  for (int k = 0; k < 2; k++) at[k] = cni_arena_take(&x->arena, (size_t)out[k] + 1, sizeof *at[k]);
  if (!places || !at[0] || !at[1]) return x->failed = true;
  for (int64_t t = 0; t < most[0] * most[1] && !x->failed; t++) {
    cni_oxval e = v;
    for (int k = 0; k < 2; k++) {
      adaptive_places(&v, k, out[k], k ? t % most[1] : t / most[1], at[k]);
      cni_ox_int(x, "axis", 2 + k);
      e = CNI_OX_EMIT(x, "Gather", e, cni_ox_list(x, at[k], (int)out[k]));
      e.shape[2 + k] = out[k], e.ndim = 4;
    }
    for (int64_t i = 0; i < n; i++) places[i] = at[0][i / out[1]] * v.shape[3] + at[1][i % out[1]];
    cni_oxval here = cni_ox_data(x, places, CN_I64, 2, out);
    if (!t) {
      best = e, place = CNI_OX_EMIT(x, "Expand", here, cni_ox_shape(x, e));
      continue;
    }
    cni_oxval take = CNI_OX_EXPR(x, cni_ox_is_float(v.dtype) ? "(a > b) | (a != a)" : "a > b", v.dtype, e, best);
    place = cni_ox_where(x, take, here, place), best = cni_ox_where(x, take, e, best);
  }
  if (!cni_ox_there(&best)) return false;
  give_batched(c, 0, best, 2);
  give_batched(c, 1, place, 2);
  return true;
}

/* avg_poolNd(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override) */
static bool avg_pool(cni_oxcall *c)
{
  int n = *c->text - '0', divisor = cni_oxarg_find(c, "divisor_override");
  bool pads = false;
  if (c->out[0].dtype == CN_F64 || !cni_ox_is_float(c->out[0].dtype)) return false;
  if (divisor >= 0 && !cni_oxarg_none(c, divisor)) return false;
  for (int k = 0; k < n; k++) pads = pads || cni_oxarg_at(c, 3, k) != 0;
  if (cni_oxarg_int(c, 4) && c->x->opset < 19) return false;
  cni_oxval v = cni_ox_cast(c->x, batched(c, c->in[0], n), CN_F32);
  if (!pool_attrs(c, n, -1, 4)) return false;
  if (pads && cni_oxarg_int(c, 5)) cni_ox_int(c->x, "count_include_pad", 1);
  give_batched(c, 0, CNI_OX_EMIT(c->x, "AveragePool", v), n);
  return true;
}

/* ... of other types, and by other divisors: the windows' elements one by one, added up. */
typedef struct window {
  int64_t size[2], step[2], pad[2], in[2], out[2];
} window;

static cni_oxval divisors(cni_oxcall *c, const window *w, int type)
{
  cni_ox *x = c->x;
  int64_t n = w->out[0] * w->out[1], *counts = cni_arena_take(&x->arena, (size_t)n + 1, sizeof *counts);
  bool whole = cni_oxarg_int(c, 5);
  if (!cni_oxarg_none(c, 6)) return cni_ox_const(x, cni_ox_whole(cni_oxarg_int(c, 6)), type);
  for (int64_t i = 0; i < n && counts; i++) {
    counts[i] = 1;
    for (int k = 0; k < 2; k++) {
      int64_t from = (k ? i % w->out[1] : i / w->out[1]) * w->step[k] - w->pad[k], to = from + w->size[k];
      int64_t end = whole ? w->in[k] + w->pad[k] : w->in[k];
      counts[i] *= (to < end ? to : end) - (whole || from > 0 ? from : 0);
    }
  }
  return counts ? cni_ox_cast(x, cni_ox_data(x, counts, CN_I64, 2, w->out), type) : cni_ox_absent();
}

static bool avg_taps(cni_oxcall *c)
{
  cni_ox *x = c->x;
  window w;
  int type = cni_ox_wide(c->out[0].dtype);
  cni_oxval v = cni_ox_cast(x, batched(c, c->in[0], 2), type), sum = cni_ox_absent();
  const cni_oxval *out = &c->out[0];
  if (v.open >> 2) return false;
  numbers(c, 1, 2, w.size);
  numbers(c, cni_oxarg_count(c, 2) > 0 ? 2 : 1, 2, w.step);
  numbers(c, 3, 2, w.pad);
  int64_t pads[8] = {0};
  for (int k = 0; k < 2; k++) {
    w.in[k] = v.shape[2 + k], w.out[k] = out->shape[out->ndim - 2 + k];
    pads[2 + k] = w.pad[k], pads[6 + k] = (w.out[k] - 1) * w.step[k] + w.size[k] - w.in[k] - w.pad[k];
  }
  v = CNI_OX_EMIT(x, "Pad", v, cni_ox_list(x, pads, 8));
  for (int k = 0; k < 2; k++) v.shape[2 + k] = w.in[k] + pads[2 + k] + pads[6 + k];
  for (int64_t t = 0; t < w.size[0] * w.size[1] && !x->failed; t++) {
    cni_oxval tap = v;
    for (int k = 0; k < 2; k++) {
      int64_t at = k ? t % w.size[1] : t / w.size[1];
      tap =
          cni_ox_slice(x, tap, 2 + k, cni_ox_whole(at), cni_ox_whole(at + (w.out[k] - 1) * w.step[k] + 1), w.step[k]);
    }
    sum = t ? cni_ox_binary(x, "Add", sum, tap) : tap;
  }
  give_batched(c, 0, cni_ox_binary(x, "Div", sum, divisors(c, &w, type)), 2);
  return true;
}

/* ---- what is linear along a dim ---- */

/* The op of this call with other arguments, of an identity of n rows in this shape: the rows of its matrix (n, m). */
static cni_oxval matrix_of(cni_oxcall *c, const char *op, const cn_value *args, int nargs, const int64_t *size,
                           const int64_t *shape, int ndim, int dtype)
{
  cni_oxval v = cni_ox_absent();
  cn_value given[CN_MAX_ARGS];
  cn_tensor *made = NULL;
  size_t nout = 1;
  cn_scope *scope = cn_scope_begin();
  memcpy(given, args, (size_t)nargs * sizeof *given);
  cn_tensor *eye =
      cn_reshape(cn_eye(size[0], size[0], .dtype = (cn_dtype)dtype, .device = CN_CPU), shape, (size_t)ndim);
  given[0] = cn_v_tensor(eye);
  if (!eye || cn_op_call(&made, &nout, cn_op_find(op), given, (size_t)nargs, NULL)) c->x->failed = true;
  else v = cni_ox_tensor(c->x, cn_reshape(cn_contiguous(made), size, 2), NULL);
  if (made) cn_release(made);
  cn_scope_end(scope);
  return v;
}

/* x with its dim multiplied by a matrix (n, m), or by its transpose. */
static cni_oxval along(cni_ox *x, cni_oxval v, int dim, cni_oxval matrix, bool back)
{
  int last = v.ndim - 1;
  v = cni_ox_matmul(x, cni_ox_swap(x, v, dim, last), back ? cni_ox_swap(x, matrix, 0, 1) : matrix);
  return cni_ox_swap(x, v, dim, last);
}

/* adaptive_avg_pool2d(input, output_size), and its gradient */
static bool adaptive(cni_oxcall *c)
{
  cni_ox *x = c->x;
  bool back = c->text != NULL;
  int type = c->in[0].dtype == CN_F64 ? CN_F64 : CN_F32;
  cni_oxval v = cni_ox_cast(x, batched(c, c->in[0], 2), type);
  const cni_oxval *small = back ? &c->in[0] : &c->out[0], *large = back ? &c->out[0] : &c->in[0];
  if (!back && c->out[0].shape[c->out[0].ndim - 1] == 1 && c->out[0].shape[c->out[0].ndim - 2] == 1) {
    give_batched(c, 0, cni_ox_reduce(x, "ReduceMean", v, 12, true), 2); /* open sizes, too */
    return true;
  }
  if (large->open >> (large->ndim - 2))
    return cni_ox_fail(x, CN_ERR_UNSUPPORTED, "%s: the picture's size is open", c->name), true;
  for (int k = 0; k < 2; k++) {
    int64_t size[2] = {large->shape[large->ndim - 2 + k], small->shape[small->ndim - 2 + k]};
    int64_t shape[3] = {size[0], size[0], 1}, to[2] = {size[1], 1};
    cn_value args[2] = {cn_v_none(), cn_v_ints(to, 2)};
    v = along(x, v, 2 + k, matrix_of(c, "adaptive_avg_pool2d", args, 2, size, shape, 3, type), back);
  }
  give_batched(c, 0, v, 2);
  return true;
}

/* resample(input, dim, size, mode, ...), resample_backward(grad, dim, input_size, mode, ...) */
static bool resample(cni_oxcall *c)
{
  cni_ox *x = c->x;
  cni_oxval v = c->in[0];
  cn_value args[CN_MAX_ARGS];
  bool back = c->text != NULL, bytes = v.dtype == CN_U8;
  int dim = cni_oxarg_dim(c, 1, v.ndim), type = v.dtype == CN_F32 ? CN_F32 : CN_F64;
  int64_t n = back ? c->out[0].shape[dim] : v.shape[dim], m = back ? v.shape[dim] : c->out[0].shape[dim];
  if ((v.open | c->out[0].open) >> dim & 1)
    return cni_ox_fail(x, CN_ERR_UNSUPPORTED, "%s: the picture's size is open", c->name), true;
  memcpy(args, c->args, (size_t)c->nargs * sizeof *args);
  args[1] = cn_v_int(1), args[2] = cn_v_int(m);
  cni_oxval matrix = matrix_of(c, "resample", args, c->nargs, (int64_t[]){n, m}, (int64_t[]){n, n}, 2, type);
  cni_oxval y = along(x, cni_ox_cast(x, v, type), dim, matrix, back);
  if (bytes) y = CNI_OX_EXPR(x, "Min(Max(Floor(a + 0.5), 0), 255)", type, y);
  cni_ox_give(c, 0, y);
  return true;
}

/* interpolate(input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias): to given sizes */
static bool interpolate(cni_oxcall *c)
{
  static const struct {
    const char *mode, *own, *place, *nearest;
  } modes[] = {
      {"nearest", "nearest", "asymmetric", "floor"}, {"nearest-exact", "nearest", "half_pixel", "round_prefer_ceil"},
      {"linear", "linear", "half_pixel", NULL},      {"bilinear", "linear", "half_pixel", NULL},
      {"trilinear", "linear", "half_pixel", NULL},   {"bicubic", "cubic", "half_pixel", NULL}};
  cni_ox *x = c->x;
  const char *mode = cni_oxarg_text(c, 3);
  bool corners = !cni_oxarg_none(c, 4) && cni_oxarg_int(c, 4), sized = !cni_oxarg_none(c, 1);
  int row = -1, n = c->in[0].ndim - 2;
  for (int i = 0; i < 6; i++)
    if (!strcmp(modes[i].mode, mode)) row = i;
  bool again = !cni_oxarg_none(c, 5) && cni_oxarg_int(c, 5);
  if (row < 0 || (c->in[0].dtype != CN_F32 && c->in[0].dtype != CN_F16) || cni_oxarg_int(c, 6) || again) return false;
  if (row == 5 && n != 2) return false;
  cni_oxval in[4] = {c->in[0], cni_ox_absent(), cni_ox_absent(), cni_ox_absent()}, sizes[CN_MAX_DIMS];
  if (sized) {
    for (int k = 0; k < n + 2; k++) sizes[k] = k < 2 ? cni_ox_size(x, in[0], k) : cni_oxarg_size(c, 1, k - 2);
    in[3] = cni_ox_sizes(x, n + 2, sizes);
  } else {
    float scales[CN_MAX_DIMS] = {1, 1};
    int64_t count = n + 2;
    for (int k = 0; k < n; k++)
      scales[2 + k] =
          (float)(c->args[2].tag == CN_V_FLOATS ? c->args[2].u.fs[c->args[2].n == 1 ? 0 : k] : cni_oxarg_float(c, 2));
    in[2] = cni_ox_data(x, scales, CN_F32, 1, &count);
  }
  cni_ox_text(x, "mode", modes[row].own);
  cni_ox_text(x, "coordinate_transformation_mode",
              corners                                        ? "align_corners"
              : row == 2 || row == 3 || row == 4 || row == 5 ? "pytorch_half_pixel"
                                                             : modes[row].place);
  if (modes[row].nearest) cni_ox_text(x, "nearest_mode", modes[row].nearest);
  if (row == 5) cni_ox_float(x, "cubic_coeff_a", -0.75);
  cni_ox_give(c, 0, CNI_OX_EMIT(x, "Resize", in[0], in[1], in[2], in[3]));
  return true;
}

/* grid_sample(input, grid, mode, padding_mode, align_corners) */
static bool grid_sample(cni_oxcall *c)
{
  cni_ox *x = c->x;
  bool new_names = x->opset >= 20;
  const char *mode = cni_oxarg_text(c, 2);
  bool corners = !cni_oxarg_none(c, 4) && cni_oxarg_int(c, 4);
  if (c->in[0].ndim != 4 || c->out[0].dtype != CN_F32) return false;
  cni_ox_text(x, "mode",
              !new_names                  ? mode
              : !strcmp(mode, "bilinear") ? "linear"
              : !strcmp(mode, "bicubic")  ? "cubic"
                                          : mode);
  cni_ox_text(x, "padding_mode", cni_oxarg_text(c, 3));
  cni_ox_int(x, "align_corners", corners);
  cni_ox_give(c, 0, CNI_OX_EMIT(x, "GridSample", c->in[0], c->in[1]));
  return true;
}

/* pixel_shuffle(input, upscale_factor) */
static bool pixel_shuffle(cni_oxcall *c)
{
  if (c->in[0].ndim != 4) return false;
  cni_ox_int(c->x, "blocksize", cni_oxarg_int(c, 1));
  cni_ox_text(c->x, "mode", "CRD");
  cni_ox_give(c, 0, CNI_OX_EMIT(c->x, "DepthToSpace", c->in[0]));
  return true;
}

/* local_response_norm(input, size, alpha, beta, k) */
static bool local_response_norm(cni_oxcall *c)
{
  if (c->out[0].dtype != CN_F32 || cni_oxarg_int(c, 1) % 2 == 0) return false;
  cni_ox_int(c->x, "size", cni_oxarg_int(c, 1));
  cni_ox_float(c->x, "alpha", cni_oxarg_float(c, 2));
  cni_ox_float(c->x, "beta", cni_oxarg_float(c, 3));
  cni_ox_float(c->x, "bias", cni_oxarg_float(c, 4));
  cni_ox_give(c, 0, CNI_OX_EMIT(c->x, "LRN", c->in[0]));
  return true;
}

const cni_oxrow cni_ox_window_rows[] = {
    BUILD_AS("max_pool1d", 13, max_pool, "1"),
    BUILD_AS("max_pool2d", 13, max_pool, "2"),
    BUILD_AS("max_pool3d", 13, max_pool, "3"),
    BUILD_AS("max_pool2d_values", 13, max_pool, "2"),
    BUILD("max_pool2d_with_indices", 13, max_pool_places),
    BUILD("adaptive_max_pool2d_with_indices", 13, adaptive_max_pool),
    BUILD_AS("avg_pool1d", 13, avg_pool, "1"),
    BUILD_AS("avg_pool2d", 13, avg_pool, "2"),
    BUILD_AS("avg_pool3d", 13, avg_pool, "3"),
    BUILD("avg_pool2d", 13, avg_taps),
    BUILD("adaptive_avg_pool2d", 13, adaptive),
    BUILD_AS("adaptive_avg_pool2d_backward", 13, adaptive, "back"),
    BUILD("interpolate", 13, interpolate),
    BUILD("resample", 13, resample),
    BUILD_AS("resample_backward", 13, resample, "back"),
    BUILD("grid_sample", 16, grid_sample),
    BUILD("pixel_shuffle", 13, pixel_shuffle),
    BUILD("local_response_norm", 13, local_response_norm),
    {NULL, NULL, NULL, 0},
};
