/* image.c: pictures: grids of places, samples, other sizes. See call.h. */
#include "formats/onnx/call.h"

const cni_onnx_op cni_onnx_image_ops[] = {
    ONNX_TEXT("AffineGrid", 20, "affine_grid(%0, %1, $align_corners=0)"),
    {NULL, NULL, NULL, 0, 0},
};
