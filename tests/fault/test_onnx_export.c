/* test_onnx_export.c: a graph written as an ONNX model, with every allocation failing in turn. */
#include <cairn/onnx.h>

#include "sweep.h"

static int compute(cn_tensor **outputs, cn_tensor *const *inputs, void *payload)
{
  cn_tensor *const *held = payload, *y = cn_linear(inputs[0], held[0], held[1]);
  y = cn_layer_norm(cn_gelu(y), CN_SHAPE(4), NULL, NULL);
  cn_tensor *top = NULL, *at = NULL;
  cn_topk(&top, &at, cn_special_erfcx(y), 2);
  outputs[0] = cn_mul(cn_softmax(top, -1), cn_cast(at, CN_F32));
  return outputs[0] ? CN_OK : cn_err();
}

static int written(double *result)
{
  cn_tensor *held[2] = {cn_ones(CN_SHAPE(4, 3)), cn_zeros(CN_SHAPE(4))}, *x = cn_ones(CN_SHAPE(2, 3));
  const cn_free_dim dims[] = {{0, 0, "rows", 0, 0}};
  cn_graph *g = x && held[1] ? cn_trace_dynamic(compute, 1, &x, 1, dims, 1, held) : NULL;
  cn_tensor *bytes = g ? cn_onnx_bytes(g) : NULL;
  *result = bytes ? sweep_sum(bytes) : 0;
  cn_graph_free(g);
  return bytes ? CN_OK : cn_err();
}

int main(void)
{
  const struct CMUnitTest tests[] = {SWEEP(written)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
