/* fuzz_onnx.c: any bytes as an ONNX model: loaded or refused, and run where its inputs are few. */
#include <cairn/cairn.h>

enum { MEMORY_LIMIT = 256 << 20, INPUTS = 4, LARGEST = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ones in the shape that the model says, as far as it does. */
static cn_tensor *made_for(const cn_onnx *o, size_t i)
{
  cn_onnx_info info;
  int64_t shape[CN_MAX_DIMS];
  if (cn_onnx_input_at(&info, o, i) || info.kind != CN_ONNX_TENSOR) return NULL;
  for (int d = 0; d < info.ndim; d++) shape[d] = info.shape[d] < 0 ? 2 : info.shape[d] % LARGEST;
  return cn_ones(shape, info.ndim < 0 ? 0 : (size_t)info.ndim, .dtype = info.dtype);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  cn_tensor *in[INPUTS], *out[INPUTS];
  cn_memory_set_caching(false);
  cn_memory_set_limit(MEMORY_LIMIT);
  cn_onnx *o = cn_onnx_load_memory_with(data, size, NULL);
  cn_scope *scope = cn_scope_begin();
  cn_limits *limits = cn_limits_begin(.timeout = 1);
  bool few = o && cn_onnx_inputs(o) <= INPUTS && cn_onnx_outputs(o) <= INPUTS;
  for (size_t i = 0; few && i < cn_onnx_inputs(o); i++) few = (in[i] = made_for(o, i)) != NULL;
  if (few && !cn_err()) cn_onnx_run(out, o, in);
  cn_limits_end(limits);
  cn_scope_end(scope);
  cn_onnx_free(o);
  cn_err_clear();
  return 0;
}
