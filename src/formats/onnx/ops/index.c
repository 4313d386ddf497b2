/* index.c: elements at places. See call.h. */
#include <string.h>

#include "formats/onnx/call.h"

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
  cn_tensor *x = cni_onnx_in(c, 0), *index = cni_onnx_in(c, 1);
  int64_t shape[CN_MAX_DIMS], axis = axis_of(c, x, 0), n = 0;
  if (axis < 0 || !index) return cn_err();
  if (cn_ndim(x) + cn_ndim(index) - 1 > CN_MAX_DIMS) return cni_onnx_fail(c, CN_ERR_SHAPE, "too many dimensions");
  for (int64_t i = 0; i < axis; i++) shape[n++] = cn_shape(x)[i];
  for (int64_t i = 0; i < cn_ndim(index); i++) shape[n++] = cn_shape(index)[i];
  for (int64_t i = axis + 1; i < cn_ndim(x); i++) shape[n++] = cn_shape(x)[i];
  cn_tensor *at = cn_reshape(places(index, cn_size(x, axis)), CN_SHAPE(cn_numel(index)));
  return cni_onnx_out(c, 0, cn_reshape(cn_index_select(x, axis, at), shape, (size_t)n));
}

static int gather_elements(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0), *index = cni_onnx_in(c, 1);
  int64_t axis = axis_of(c, x, 0);
  if (axis < 0 || !index) return cn_err();
  return cni_onnx_out(c, 0, cn_gather(x, axis, places(index, cn_size(x, axis))));
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

const cni_onnx_op cni_onnx_index_ops[] = {
    ONNX_BUILD("Gather", 1, gather),
    ONNX_BUILD("GatherElements", 11, gather_elements),
    ONNX_BUILD("Scatter", 9, scatter_elements),
    ONNX_BUILD("ScatterElements", 11, scatter_elements),
    ONNX_BUILD("NonZero", 9, nonzero),
    ONNX_BUILD("TopK", 1, topk),
    {NULL, NULL, NULL, 0, 0},
};
