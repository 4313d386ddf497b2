/* fuzz_graph_file.c: any bytes as a graph's file: as they are, and as a header (up to the last brace) whose length is
 * right; what loads is run, as it is and a second time. */
#include <cairn/cairn.h>
#include <cairn/kw.h>
#include <stdlib.h>
#include <string.h>

enum { MEMORY_LIMIT = 256 << 20, LENGTH = 8, MOST = 16, NUMEL = 1 << 12 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static cn_tensor *tensor_for(const cn_graph_value *v)
{
  int64_t numel = 1;
  for (int i = 0; i < v->ndim; i++)
    if (v->shape[i] > NUMEL || (numel *= v->shape[i] ? v->shape[i] : 1) > NUMEL) return NULL;
  return cn_ones(v->shape, (size_t)v->ndim, .dtype = v->dtype);
}

static void load(const uint8_t *bytes, size_t size)
{
  cn_tensor *inputs[MOST] = {NULL}, *outputs[MOST];
  cn_graph_value v;
  cn_scope *s = cn_scope_begin();
  cn_graph *g = cn_graph_load_memory(bytes, size);
  if (!g != (cn_err() != 0)) abort(); /* either a graph or an error */
  cn_err_clear();
  if (g && cn_graph_verify(g)) abort();
  for (size_t i = 0; i < cn_graph_inputs(g) && i < MOST; i++)
    inputs[i] = cn_graph_input_at(&v, g, i) ? NULL : tensor_for(&v);
  cn_err_clear();
  for (int i = 0; g && i < 2 && cn_graph_inputs(g) <= MOST && cn_graph_outputs(g) <= MOST; i++) {
    cn_graph_run(outputs, g, inputs);
    cn_err_clear();
  }
  cn_graph_free(g);
  cn_scope_end(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  cn_memory_set_caching(false);
  cn_memory_set_limit(MEMORY_LIMIT);
  load(data, size);
  size_t header = size;
  while (header && data[header - 1] != '}') header--;
  uint8_t *file = malloc(size + LENGTH);
  if (!file) return 0;
  for (int i = 0; i < LENGTH; i++) file[i] = (uint8_t)((uint64_t)header >> 8 * i);
  if (size) memcpy(file + LENGTH, data, size);
  load(file, size + LENGTH);
  free(file);
  return 0;
}
