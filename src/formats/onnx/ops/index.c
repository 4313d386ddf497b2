/* index.c: elements at places. See call.h. */
#include <string.h>

#include "formats/onnx/texts.h"

/* Indices of whole numbers of any type, with those that count from the end put right. */
static cn_tensor *places(cn_tensor *index, int64_t size)
{
  index = index && cn_dtype_of(index) != CN_I64 ? cn_cast(index, CN_I64) : index;
  return index ? cn_where(cn_lt(index, cn_int(0)), cn_add(index, cn_int(size)), index) : NULL;
}

static int64_t axis_of(cni_onnx_call *c, const cn_tensor *x, int64_t otherwise)
{
  return x ? cni_onnx_axis(c, cni_onnx_int(c, "axis", otherwise), cn_ndim(x)) : cn_err();
}

/* Slices of x along an axis, in the shape of the indices. */
static int gather(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in_moved(c, 0), *index = cni_onnx_in(c, 1);
  int64_t shape[CN_MAX_DIMS], axis = axis_of(c, x, 0), n = 0;
  if (axis < 0 || !index) return cn_err();
  if (cn_ndim(x) + cn_ndim(index) - 1 > CN_MAX_DIMS) return cni_onnx_fail(c, CN_ERR_SHAPE, "too many dimensions");
  for (int64_t i = 0; i < axis; i++) shape[n++] = cn_shape(x)[i];
  for (int64_t i = 0; i < cn_ndim(index); i++) shape[n++] = cn_shape(index)[i];
  for (int64_t i = axis + 1; i < cn_ndim(x); i++) shape[n++] = cn_shape(x)[i];
  cn_tensor *at = cn_reshape(places(index, cn_size(x, axis)), CN_SHAPE(cn_numel(index)));
  return cni_onnx_out_moved(c, 0, cn_reshape(cn_index_select(x, axis, at), shape, (size_t)n), 0);
}

static int gather_elements(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in_moved(c, 0), *index = cni_onnx_in(c, 1);
  int64_t axis = axis_of(c, x, 0);
  if (axis < 0 || !index) return cn_err();
  return cni_onnx_out_moved(c, 0, cn_gather(x, axis, places(index, cn_size(x, axis))), 0);
}

static int scatter_elements(cni_onnx_call *c)
{
  static const char *const names[][2] = {{"add", "sum"}, {"mul", "prod"}, {"max", "amax"}, {"min", "amin"}};
  cn_tensor *x = cni_onnx_in(c, 0), *index = cni_onnx_in(c, 1), *from = cni_onnx_in(c, 2);
  const char *how = cni_onnx_text(c, "reduction", "none");
  int64_t axis = axis_of(c, x, 0);
  if (axis < 0 || !index || !from) return cn_err();
  index = places(index, cn_size(x, axis));
  if (!strcmp(how, "none")) return cni_onnx_out(c, 0, cn_scatter(x, axis, index, from));
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(how, names[i][0])) return cni_onnx_out(c, 0, cn_scatter_reduce(x, axis, index, from, names[i][1]));
  return cni_onnx_fail(c, CN_ERR_VALUE, "reduction is '%s'", how);
}

/* (dimensions, how many): the places of what is not zero. */
static int nonzero(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0);
  cn_tensor *at = x ? cn_nonzero(cn_ndim(x) ? x : cn_reshape(x, CN_SHAPE(1))) : NULL;
  return cni_onnx_out(c, 0, at ? cn_transpose(at, 0, 1) : NULL);
}

static int topk(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0), *values, *at;
  int64_t k = c->opset < 10 ? cni_onnx_int(c, "k", -1) : cni_onnx_int_in(c, 1, -1), axis = axis_of(c, x, -1);
  bool largest = cni_onnx_int(c, "largest", 1) != 0;
  if (axis < 0 || cn_err()) return cn_err();
  /* of equal elements the first one goes first */
  if (cn_sort(&values, &at, x, .dim = axis ? axis : CN_ZERO, .descending = largest, .stable = true)) return cn_err();
  return cni_onnx_out(c, 0, cn_narrow(values, axis, 0, k)) ? cn_err() : cni_onnx_out(c, 1, cn_narrow(at, axis, 0, k));
}

/* ---- places in several dimensions at once ---- */

/* A line 0..n-1 that lies along dimension `at` of ndim. */
static cn_tensor *line(int64_t n, int64_t at, int64_t ndim, const cn_tensor *like)
{
  int64_t shape[CN_MAX_DIMS];
  for (int64_t i = 0; i < ndim; i++) shape[i] = i == at ? n : 1;
  return cn_reshape(cn_arange(0, (double)n, .dtype = CN_I64, .device = cn_device_of(like)), shape, (size_t)ndim);
}

/* index: (..., k), the places in k dimensions of x behind `batch`, which go along with those of index. The lists for
 * cn_index, batch + k of them; negative with the error set. */
static int64_t lists_of(cn_tensor **lists, cni_onnx_call *c, cn_tensor *x, cn_tensor *index, int64_t batch)
{
  int64_t ndim = x && index ? cn_ndim(index) : 0, k = ndim ? cn_size(index, ndim - 1) : 0;
  if (cn_err()) return cn_err();
  if (batch < 0 || k < 1 || batch >= ndim || batch + k > cn_ndim(x))
    return cni_onnx_fail(c, CN_ERR_SHAPE, "places in %lld dimensions behind %lld, of %d", (long long)k,
                         (long long)batch, cn_ndim(x));
  for (int64_t i = 0; i < batch; i++) {
    if (cn_size(x, i) != cn_size(index, i))
      return cni_onnx_fail(c, CN_ERR_SHAPE, "dimension %lld differs", (long long)i);
    lists[i] = line(cn_size(x, i), i, ndim - 1, x);
  }
  if (cn_dtype_of(index) != CN_I64) index = cn_cast(index, CN_I64);
  for (int64_t i = 0; i < k; i++) lists[batch + i] = cn_select(index, ndim - 1, i);
  return cn_err() ? cn_err() : batch + k;
}

static int gather_nd(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in_moved(c, 0), *lists[CN_MAX_DIMS];
  int64_t n = lists_of(lists, c, x, cni_onnx_in(c, 1), cni_onnx_int(c, "batch_dims", 0));
  return n < 0 ? cn_err() : cni_onnx_out_moved(c, 0, cn_index(x, lists, (size_t)n), 0);
}

/* Slices of x, its first dimensions in one, reduced at the places of the lists. */
static cn_tensor *reduce_nd(cn_tensor *x, cn_tensor *const *lists, int64_t n, cn_tensor *from, const char *how)
{
  int64_t shape[CN_MAX_DIMS], rest = cn_ndim(x) - n, rows = 1, many = cn_numel(lists[0]);
  cn_tensor *at = places(lists[0], cn_size(x, 0));
  for (int64_t i = 0; i < n; i++) rows *= cn_size(x, i);
  for (int64_t i = 1; i < n; i++) at = cn_add(cn_mul(at, cn_int(cn_size(x, i))), places(lists[i], cn_size(x, i)));
  for (int64_t i = 0; i < rest; i++) shape[1 + i] = cn_size(x, n + i);
  shape[0] = many;
  from = cn_reshape(from, shape, (size_t)rest + 1);
  shape[0] = rows;
  cn_tensor *t = cn_reshape(x, shape, (size_t)rest + 1);
  return cn_reshape(cn_index_reduce(t, 0, cn_reshape(at, CN_SHAPE(many)), from, how), cn_shape(x),
                    (size_t)cn_ndim(x));
}

static int scatter_nd(cni_onnx_call *c)
{
  static const char *const names[][2] = {{"mul", "prod"}, {"max", "amax"}, {"min", "amin"}};
  cn_tensor *x = cni_onnx_in(c, 0), *from = cni_onnx_in(c, 2), *lists[CN_MAX_DIMS];
  const char *how = cni_onnx_text(c, "reduction", "none");
  int64_t n = lists_of(lists, c, x, cni_onnx_in(c, 1), 0);
  if (n < 0 || !from) return cn_err();
  bool add = !strcmp(how, "add");
  if (add || !strcmp(how, "none"))
    return cni_onnx_out(c, 0, cn_index_put(x, lists, (size_t)n, from, .accumulate = add));
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(how, names[i][0])) return cni_onnx_out(c, 0, reduce_nd(x, lists, n, from, names[i][1]));
  return cni_onnx_fail(c, CN_ERR_VALUE, "reduction is '%s'", how);
}

/* A part of a cache from a place of its own on in each sample, round its end where it is circular. */
static int tensor_scatter(cni_onnx_call *c)
{
  cn_tensor *past = cni_onnx_in_moved(c, 0), *update = cni_onnx_in_moved(c, 1), *from = cni_onnx_maybe(c, 2);
  int64_t axis = past ? cni_onnx_axis(c, cni_onnx_int(c, "axis", -2), cn_ndim(past)) : -1, front = 1;
  bool circular = !strcmp(cni_onnx_text(c, "mode", "linear"), "circular");
  if (axis < 0 || !update || cn_err()) return cn_err();
  if (!axis || cn_ndim(update) != cn_ndim(past))
    return cni_onnx_fail(c, CN_ERR_SHAPE, "axis is 0, or the update has not as many dimensions");
  if (c->in[0]->kind != CN_ONNX_TENSOR) return cni_onnx_fail(c, CN_ERR_UNSUPPORTED, "strings");
  cn_tensor *at = line(cn_size(update, axis), 1, 2, past);
  if (from) at = cn_add(at, cn_reshape(cn_cast(from, CN_I64), CN_SHAPE(cn_numel(from), 1)));
  if (circular) at = cn_remainder(at, cn_int(cn_size(past, axis)));
  cn_tensor *lists[2] = {line(cn_size(past, 0), 0, 2, past), at};
  past = cn_movedim(past, &axis, 1, &front, 1);
  cn_tensor *t = cn_index_put(past, lists, 2, cn_movedim(update, &axis, 1, &front, 1));
  t = t ? cn_movedim(t, &front, 1, &axis, 1) : NULL;
  return cni_onnx_out_moved(c, 0, t, 0);
}

/* ---- others ---- */

/* Slices where the condition is true, which may be shorter than the dimension. */
static int compress(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in_moved(c, 0), *condition = cni_onnx_in(c, 1);
  int64_t axis = 0;
  if (!x || !condition) return cn_err();
  if (!cni_onnx_attr_of(c, "axis")) x = cn_reshape(x, CN_SHAPE(cn_numel(x)));
  else if ((axis = axis_of(c, x, 0)) < 0) return cn_err();
  if (cn_ndim(condition) != 1) return cni_onnx_fail(c, CN_ERR_SHAPE, "the condition is no vector");
  if (cn_numel(condition) > cn_size(x, axis)) condition = cn_narrow(condition, 0, 0, cn_size(x, axis));
  cn_tensor *at = cn_nonzero(condition);
  return cni_onnx_out_moved(c, 0, cn_index_select(x, axis, cn_select(at, 1, 0)), 0);
}

/* values: [elsewhere, at the place] */
static int one_hot(cni_onnx_call *c)
{
  cn_tensor *index = cni_onnx_in(c, 0), *values = cni_onnx_in_moved(c, 2);
  int64_t depth = cni_onnx_int_in(c, 1, -1), ndim = cn_ndim(index) + 1;
  if (!index || !values || cn_err()) return cn_err();
  int64_t axis = cni_onnx_axis(c, cni_onnx_int(c, "axis", -1), ndim);
  if (axis < 0) return cn_err();
  if (depth < 0 || cn_numel(values) != 2 || ndim > CN_MAX_DIMS)
    return cni_onnx_fail(c, CN_ERR_VALUE, "its depth or its values do not fit");
  cn_tensor *at = cn_unsqueeze(places(index, depth), axis);
  cn_tensor *hit = cn_eq(at, line(depth, axis, ndim, index));
  values = cn_reshape(values, CN_SHAPE(2));
  return cni_onnx_out_moved(c, 0, cn_where(hit, cn_select(values, 0, 1), cn_select(values, 0, 0)), 2);
}

/* The first elements of each sample in reverse, so many as its length says. */
static int reverse_sequence(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in_moved(c, 0), *lengths = cni_onnx_in(c, 1);
  int64_t batch = cni_onnx_int(c, "batch_axis", 1), time = cni_onnx_int(c, "time_axis", 0);
  if (!x || !lengths || cn_err()) return cn_err();
  if (batch < 0 || batch > 1 || time != 1 - batch || cn_ndim(x) < 2 || cn_numel(lengths) != cn_size(x, batch))
    return cni_onnx_fail(c, CN_ERR_SHAPE, "its axes must be 0 and 1, and there must be a length for each sample");
  cn_tensor *steps = line(cn_size(x, time), time, 2, x), *lists[2];
  lengths = cn_reshape(cn_cast(lengths, CN_I64), cn_shape(line(cn_size(x, batch), batch, 2, x)), 2);
  lists[batch] = line(cn_size(x, batch), batch, 2, x);
  lists[time] = cn_where(cn_lt(steps, lengths), cn_sub(cn_sub(lengths, cn_int(1)), steps), steps);
  return cni_onnx_out_moved(c, 0, cn_index(x, lists, 2), 0);
}

/* The different elements, or slices; where each was first, which one each is, how often each is there. */
/* Strings are their numbers in order meanwhile; `of`: where one of each number stands. */
static int out_unique(cni_onnx_call *c, cn_tensor *y, cn_tensor *of)
{
  if (!of || !y) return cni_onnx_out(c, 0, y);
  cn_tensor *at = cn_index_select(of, 0, cn_reshape(y, CN_SHAPE(cn_numel(y))));
  return cni_onnx_out_moved(c, 0, cn_reshape(at, cn_shape(y), (size_t)cn_ndim(y)), 0);
}

static int unique(cni_onnx_call *c)
{
  const cn_onnx_value *v = cni_onnx_value_in(c, 0);
  cn_tensor *of = NULL, *y, *inverse, *counts;
  cn_tensor *x = v && v->kind == CN_ONNX_STRINGS ? cni_onnx_ranks(&of, c, 0) : cni_onnx_in(c, 0);
  int64_t axis = CN_NONE, at = 0;
  if (!x) return cn_err();
  if (cni_onnx_attr_of(c, "axis") && (axis = at = axis_of(c, x, 0)) < 0) return cn_err();
  if (cn_unique(&y, &inverse, &counts, x, axis, .return_inverse = true, .return_counts = true)) return cn_err();
  inverse = cn_reshape(inverse, CN_SHAPE(cn_numel(inverse)));
  cn_tensor *all = cn_arange(0, (double)cn_numel(inverse), .dtype = CN_I64, .device = cn_device_of(x));
  cn_tensor *last = cn_full_like(counts, (double)cn_numel(inverse));
  cn_tensor *first = cn_scatter_reduce(last, 0, inverse, all, "amin");
  if (!cni_onnx_int(c, "sorted", 1)) { /* in the order of their first places */
    cn_tensor *order = cn_argsort(first, .dim = CN_ZERO);
    y = cn_index_select(y, at, order);
    first = cn_index_select(first, 0, order);
    counts = cn_index_select(counts, 0, order);
    inverse = cn_index_select(cn_argsort(order, .dim = CN_ZERO), 0, inverse);
  }
  if (out_unique(c, y, of) || cni_onnx_out(c, 1, first)) return cn_err();
  return cni_onnx_out(c, 2, inverse) ? cn_err() : cni_onnx_out(c, 3, counts);
}

const cni_onnx_op cni_onnx_index_ops[] = {
    ONNX_BUILD("Gather", 1, gather),
    ONNX_BUILD("GatherElements", 11, gather_elements),
    ONNX_BUILD("Scatter", 9, scatter_elements),
    ONNX_BUILD("ScatterElements", 11, scatter_elements),
    ONNX_BUILD("NonZero", 9, nonzero),
    ONNX_BUILD("TopK", 1, topk),
    ONNX_BUILD("GatherND", 11, gather_nd),
    ONNX_BUILD("ScatterND", 11, scatter_nd),
    ONNX_BUILD("TensorScatter", 24, tensor_scatter),
    ONNX_BUILD("Compress", 9, compress),
    ONNX_BUILD("OneHot", 9, one_hot),
    ONNX_BUILD("ReverseSequence", 10, reverse_sequence),
    ONNX_BUILD("Unique", 11, unique),
    {NULL, NULL, NULL, 0, 0},
};
