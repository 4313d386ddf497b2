/* cast.c: other element types. See call.h. */
#include "formats/onnx/call.h"

/* Types of tensors; strings are read as numbers and written as such. */
static int cast_to(cni_onnx_call *c, int64_t type)
{
  const cn_onnx_value *v = cni_onnx_value_in(c, 0);
  cn_dtype dtype = cni_onnx_dtype(type);
  cn_strings s = {NULL, NULL};
  if (!v) return cn_err();
  if (!dtype && type != CNI_ONNX_STRING)
    return cni_onnx_fail(c, CN_ERR_DTYPE, "type %lld is no type of tensors", (long long)type);
  if (v->kind == CN_ONNX_STRINGS) {
    cn_onnx_value_as_strings(&s, v);
    return dtype ? cni_onnx_out(c, 0, cn_strings_parse(&s, dtype)) : cni_onnx_out_strings(c, 0, &s);
  }
  cn_tensor *x = cni_onnx_in(c, 0);
  if (dtype) return cni_onnx_out(c, 0, x ? cn_cast(x, dtype) : NULL);
  if (x) cn_strings_format(&s, x);
  return cni_onnx_out_strings(c, 0, &s);
}

static int cast(cni_onnx_call *c) { return cast_to(c, cni_onnx_int(c, "to", 0)); }

static int cast_like(cni_onnx_call *c)
{
  const cn_onnx_value *v = cni_onnx_value_in(c, 1);
  if (!v) return cn_err();
  return cast_to(c, v->kind == CN_ONNX_STRINGS ? CNI_ONNX_STRING : cni_onnx_type_of(cn_dtype_of(v->t)));
}

const cni_onnx_op cni_onnx_cast_ops[] = {
    ONNX_BUILD("Cast", 6, cast),
    ONNX_BUILD("CastLike", 15, cast_like),
    {NULL, NULL, NULL, 0, 0},
};
