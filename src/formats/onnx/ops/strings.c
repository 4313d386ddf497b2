/* strings.c: tensors of strings. See call.h. */
#include "formats/onnx/call.h"

static int concat(cni_onnx_call *c)
{
  cn_strings a, b, out = {NULL, NULL};
  if (cni_onnx_strings_in(&a, c, 0) || cni_onnx_strings_in(&b, c, 1)) return cn_err();
  cn_strings_concat(&out, &a, &b);
  return cni_onnx_out_strings(c, 0, &out);
}

const cni_onnx_op cni_onnx_strings_ops[] = {
    ONNX_FRESH("StringConcat", 20, concat),
    {NULL, NULL, NULL, 0, 0},
};
