/* ml.c: operators of ai.onnx.ml: features, trees, classifiers. See call.h. */
#include "formats/onnx/call.h"

const cni_onnx_op cni_onnx_ml_ops[] = {
    ONNX_TEXT("Binarizer", 1, "cast(gt(%0, $threshold=0.0), @0)"),
    {NULL, NULL, NULL, 0, 0},
};
