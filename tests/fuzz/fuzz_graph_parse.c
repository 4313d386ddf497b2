/* fuzz_graph_parse.c: any bytes as the text of a graph: refused with an error, or a graph that can be verified,
 * printed, read back to the same text, pruned, and run on inputs of the sizes it asks for. */
#include <cairn/cairn.h>
#include <cairn/kw.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 16, MEMORY_LIMIT = 256 << 20, NUMEL = 1 << 12 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A tensor for an input or state; NULL where it would be large. */
static cn_tensor *tensor_for(const cn_graph_value *v)
{
  int64_t numel = 1;
  for (int i = 0; i < v->ndim; i++)
    if (v->shape[i] > NUMEL || (numel *= v->shape[i] ? v->shape[i] : 1) > NUMEL) return NULL;
  return cn_ones(v->shape, (size_t)v->ndim, .dtype = v->dtype);
}

/* Makes inputs, binds states and runs. Errors are all that may come of it. */
static void run(cn_graph *g)
{
  cn_tensor *inputs[MOST] = {NULL}, *outputs[MOST];
  cn_graph_value v;
  if (cn_graph_inputs(g) > MOST || cn_graph_outputs(g) > MOST) return;
  for (size_t i = 0; i < cn_graph_inputs(g); i++) inputs[i] = cn_graph_input_at(&v, g, i) ? NULL : tensor_for(&v);
  cn_err_clear();
  for (size_t i = 0; i < cn_graph_states(g); i++) {
    cn_tensor *t = cn_graph_state_at(&v, g, i) ? NULL : tensor_for(&v);
    if (t) cn_graph_bind(g, i, t);
    cn_err_clear();
  }
  for (int i = 0; i < 2; i++) { /* the second time by the plan of the first */
    cn_graph_run(outputs, g, inputs);
    cn_err_clear();
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  char *source = malloc(size + 1);
  if (!source) return 0;
  memcpy(source, data, size);
  source[size] = 0;
  cn_memory_set_caching(false);
  cn_memory_set_limit(MEMORY_LIMIT);
  cn_scope *s = cn_scope_begin();
  cn_graph *g = cn_graph_parse(source);
  if (!g != (cn_err() != 0)) abort(); /* either a graph or an error */
  cn_err_clear();
  char *text = g ? cn_graph_to_string(g) : NULL;
  if (g && cn_graph_verify(g)) abort();
  cn_graph *again = text ? cn_graph_parse(text) : NULL;
  char *twin = again ? cn_graph_to_string(again) : NULL;
  if (text && (!twin || strcmp(text, twin))) abort();
  if (text) run(g);
  if (again && cn_graph_remove_dead(again) < 0) abort();
  if (again && cn_graph_verify(again)) abort();
  cn_string_free(text);
  cn_string_free(twin);
  cn_graph_free(again);
  cn_graph_free(g);
  cn_err_clear();
  cn_scope_end(s);
  free(source);
  return 0;
}
