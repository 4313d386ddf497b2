/* create.c: constants, ranges, identity, shapes as numbers. See call.h. */
#include "formats/onnx/call.h"

/* A tensor from numbers of the host, on the model's device; its numbers are known. */
static int out_numbers(cni_onnx_call *c, const void *data, size_t n, bool scalar, cn_dtype dtype)
{
  int64_t size = (int64_t)n;
  void *paused = cn_trace_pause();
  cn_tensor *host = cn_from_data(data, &size, scalar ? 0 : 1, dtype);
  cn_tensor *there = host ? cn_to_device(host, cni_onnx_device(c)) : NULL;
  cn_onnx_value *v = there ? cni_onnx_value_know(cn_onnx_value_tensor(there), host) : NULL;
  cn_trace_resume(paused);
  return cni_onnx_out_value(c, 0, v);
}

static int out_texts(cni_onnx_call *c, const char *const *texts, size_t n, bool scalar)
{
  int64_t size = (int64_t)n;
  cn_strings s = {NULL, NULL};
  cn_strings_from(&s, texts, &size, scalar ? 0 : 1);
  return cni_onnx_out_strings(c, 0, &s);
}

static int constant(cni_onnx_call *c)
{
  for (size_t i = 0; i < c->node->nattrs; i++) {
    const cni_onnx_attr *a = cni_onnx_attr_of(c, c->node->attrs[i].name);
    if (!a) continue;
    float one = (float)a->f, *all;
    switch (a->kind) {
    case CNI_ATTR_TENSOR:
    case CNI_ATTR_SPARSE: return cni_onnx_out_value(c, 0, cn_onnx_value_keep(a->value));
    case CNI_ATTR_INT: return out_numbers(c, &a->i, 1, true, CN_I64);
    case CNI_ATTR_INTS: return out_numbers(c, a->is, a->n, false, CN_I64);
    case CNI_ATTR_FLOAT: return out_numbers(c, &one, 1, true, CN_F32);
    case CNI_ATTR_FLOATS:
      if (!(all = cni_onnx_room(c, a->n + 1, sizeof *all))) return cn_err();
      for (size_t k = 0; k < a->n; k++) all[k] = (float)a->fs[k];
      return out_numbers(c, all, a->n, false, CN_F32);
    case CNI_ATTR_STRING: return out_texts(c, &a->s, 1, true);
    case CNI_ATTR_STRINGS: return out_texts(c, a->ss, a->n, false);
    default: break;
    }
  }
  return cni_onnx_fail(c, CN_ERR_VALUE, "its value is missing");
}

static int constant_of_shape(cni_onnx_call *c)
{
  cni_onnx_ints shape = cni_onnx_ints_in(c, 0);
  const cn_onnx_value *v = cni_onnx_tensor_of(c, "value");
  if (!shape.v) return cn_err() ? cn_err() : cni_onnx_fail(c, CN_ERR_VALUE, "its shape is missing");
  if (!v) return cni_onnx_out(c, 0, cn_zeros(shape.v, shape.n, .dtype = CN_F32, .device = cni_onnx_device(c)));
  if (v->kind != CN_ONNX_TENSOR || cn_numel(v->t) != 1)
    return cni_onnx_fail(c, CN_ERR_VALUE, "its value is no number");
  return cni_onnx_out(c, 0, cn_clone(cn_expand(cn_reshape(v->t, CN_SCALAR_SHAPE), shape.v, shape.n)));
}

/* Any value as it is. */
static int identity(cni_onnx_call *c)
{
  cn_onnx_value *v = cni_onnx_value_in(c, 0);
  return v ? cni_onnx_out_value(c, 0, cn_onnx_value_keep(v)) : cn_err();
}

/* The tensor whose sizes are asked for: of strings, their lengths. */
static cn_tensor *sized(const cni_onnx_call *c)
{
  const cn_onnx_value *v = cni_onnx_value_in(c, 0);
  return v && v->kind == CN_ONNX_STRINGS ? v->lengths : v ? cni_onnx_in(c, 0) : NULL;
}

static int64_t clamp(int64_t at, int64_t ndim)
{
  at = at < 0 ? at + ndim : at;
  return at < 0 ? 0 : at > ndim ? ndim : at;
}

static int shape(cni_onnx_call *c)
{
  cn_tensor *x = sized(c);
  if (!x) return cn_err();
  int64_t ndim = cn_ndim(x), start = clamp(cni_onnx_int(c, "start", 0), ndim),
          end = clamp(cni_onnx_int(c, "end", ndim), ndim);
  return cni_onnx_out_ints(c, 0, cn_shape(x) + start, end > start ? (size_t)(end - start) : 0, false);
}

static int size(cni_onnx_call *c)
{
  cn_tensor *x = sized(c);
  return x ? cni_onnx_out_ints(c, 0, &(int64_t){cn_numel(x)}, 1, true) : cn_err();
}

static int range(cni_onnx_call *c)
{
  cn_dtype dtype = cn_dtype_of(cni_onnx_in(c, 0));
  double v[3];
  for (size_t i = 0; i < 3; i++) v[i] = cni_onnx_float_in(c, i, 0);
  if (cn_err()) return cn_err();
  if (v[2] == 0) return cni_onnx_fail(c, CN_ERR_VALUE, "the step is 0");
  if ((v[1] - v[0]) / v[2] <= 0)
    return cni_onnx_out(c, 0, cn_zeros(CN_SHAPE(0), .dtype = dtype, .device = cni_onnx_device(c)));
  return cni_onnx_out(c, 0, cn_arange(v[0], v[1], .step = v[2], .dtype = dtype, .device = cni_onnx_device(c)));
}

static int eye_like(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0);
  int64_t k = cni_onnx_int(c, "k", 0);
  cn_dtype dtype = cni_onnx_dtype_of(c, "dtype", cn_dtype_of(x));
  if (!x || cn_ndim(x) != 2) return cni_onnx_fail(c, CN_ERR_SHAPE, "it takes a matrix");
  cn_tensor *ones = cn_ones_like(x, .dtype = CN_F32);
  cn_tensor *t =
      cn_sub(cn_tril(ones, .diagonal = k ? k : CN_ZERO), cn_tril(ones, .diagonal = k - 1 ? k - 1 : CN_ZERO));
  return cni_onnx_out(c, 0, t ? cn_cast(t, dtype) : NULL);
}

const cni_onnx_op cni_onnx_create_ops[] = {
    ONNX_FRESH("Constant", 1, constant), ONNX_BUILD("ConstantOfShape", 9, constant_of_shape),
    ONNX_BUILD("Identity", 1, identity), ONNX_BUILD("Shape", 1, shape),
    ONNX_BUILD("Size", 1, size),         ONNX_BUILD("Range", 11, range),
    ONNX_BUILD("EyeLike", 9, eye_like),  {NULL, NULL, NULL, 0, 0},
};
