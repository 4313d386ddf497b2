/* product.c: products of matrices. See call.h. */
#include "formats/onnx/call.h"

/* alpha * a x b + beta * c */
static int gemm(cni_onnx_call *c)
{
  cn_tensor *a = cni_onnx_in(c, 0), *b = cni_onnx_in(c, 1), *add = cni_onnx_maybe(c, 2);
  double alpha = cni_onnx_float(c, "alpha", 1), beta = cni_onnx_float(c, "beta", 1);
  if (!a || !b) return cn_err();
  if (cni_onnx_int(c, "transA", 0)) a = cn_transpose(a, 0, 1);
  if (cni_onnx_int(c, "transB", 0)) b = cn_transpose(b, 0, 1);
  if (add && beta != 0)
    return cni_onnx_out(c, 0, cn_addmm(add, a, b, .alpha = alpha != 0 ? alpha : (double)CN_ZERO, .beta = beta));
  cn_tensor *t = cn_mm(a, b);
  return cni_onnx_out(c, 0, alpha == 1 ? t : cn_mul(t, cn_num(alpha)));
}

/* Of halves in float32. */
static int det(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0);
  if (!x) return cn_err();
  cn_dtype own = cn_dtype_of(x);
  if (cn_dtype_size(own) == 2) x = cn_cast(x, CN_F32);
  return cni_onnx_out(c, 0, x ? cn_cast(cn_det(x), own) : NULL);
}

const cni_onnx_op cni_onnx_product_ops[] = {
    ONNX_TEXT("MatMul", 1, "matmul(%0, %1)"),
    ONNX_BUILD("Gemm", 1, gemm),
    ONNX_TEXT("Einsum", 12, "cast(einsum($equation, %*), @0)"),
    ONNX_BUILD("Det", 11, det),
    {NULL, NULL, NULL, 0, 0},
};
