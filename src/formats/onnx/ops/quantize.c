/* quantize.c: numbers as small whole numbers, and back. See call.h. */
#include "formats/onnx/call.h"

const cni_onnx_op cni_onnx_quantize_ops[] = {
    ONNX_TEXT("DequantizeLinear", 10, "dequantize_linear(%0, %1, %2?, axis: $axis=1)"),
    {NULL, NULL, NULL, 0, 0},
};
