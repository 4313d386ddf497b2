/* loss.c: losses. See call.h. */
#include "formats/onnx/call.h"

/* Of probabilities' logarithms, or of scores, whose logarithms are a second result. */
static int cross_entropy(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0), *target = cni_onnx_in(c, 1), *weight = cni_onnx_maybe(c, 2);
  if (!x || !target) return cn_err();
  cn_tensor *logs = cn_log_softmax(x, 1);
  if (cn_dtype_of(target) != CN_I64) target = cn_cast(target, CN_I64);
  cn_value args[] = {cn_v_tensor(logs), cn_v_tensor(target), cn_v_tensor(weight),
                     cn_v_int(cni_onnx_int(c, "ignore_index", -100)),
                     cn_v_str(cni_onnx_text(c, "reduction", "mean"))};
  return cni_onnx_out(c, 0, logs ? cni_onnx_op1("nll_loss", args, 5) : NULL) ? cn_err() : cni_onnx_out(c, 1, logs);
}

const cni_onnx_op cni_onnx_loss_ops[] = {
    ONNX_TEXT("NegativeLogLikelihoodLoss", 12,
              "nll_loss(%0, cast(%1, int64), %2?, $ignore_index=-100, $reduction='mean')"),
    ONNX_BUILD("SoftmaxCrossEntropyLoss", 12, cross_entropy),
    {NULL, NULL, NULL, 0, 0},
};
