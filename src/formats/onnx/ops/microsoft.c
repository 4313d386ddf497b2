/* microsoft.c: operators of com.microsoft, into which its tools fuse others. See call.h. */
#include "formats/onnx/call.h"

const cni_onnx_op cni_onnx_microsoft_ops[] = {
    ONNX_TEXT("BiasGelu", 1, "gelu(add(%0, %1))"),
    ONNX_TEXT("Gelu", 1, "gelu(%0)"),
    ONNX_TEXT("QuickGelu", 1, "mul(%0, sigmoid(mul(%0, $alpha=1.702)))"),
    {NULL, NULL, NULL, 0, 0},
};
