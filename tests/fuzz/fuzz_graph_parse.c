/* fuzz_graph_parse.c: any bytes as the text of a graph: refused with an error, or a graph that can be verified,
 * printed, read back to the same text, pruned, and run on inputs of the sizes it asks for. */
#include <cairn/cairn.h>
#include <cairn/kw.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 16, MEMORY_LIMIT = 256 << 20, NUMEL = 1 << 12 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A tensor for an input or state: read from the text, since a graph does not say what it wants otherwise. */
static cn_tensor *tensor_for(const char *line)
{
  char name[32];
  size_t n = strcspn(line, " [");
  int64_t shape[CN_MAX_DIMS], numel = 1;
  size_t ndim = 0;
  if (n >= sizeof name) return NULL;
  memcpy(name, line, n);
  name[n] = 0;
  const char *s = strchr(line, '[');
  if (!s || !cn_dtype_find(name)) return NULL;
  for (s++; *s && *s != ']' && ndim < CN_MAX_DIMS; s += *s == ',') {
    char *end;
    shape[ndim] = strtoll(s, &end, 10);
    if (end == s || shape[ndim] < 0 || shape[ndim] > NUMEL || (numel *= shape[ndim] ? shape[ndim] : 1) > NUMEL)
      return NULL;
    s = end;
    ndim++;
  }
  return cn_ones(shape, ndim, .dtype = cn_dtype_find(name));
}

/* Makes inputs and binds states by the canonical text, and runs. Errors are all that may come of it. */
static void run(cn_graph *g, const char *text)
{
  cn_tensor *inputs[MOST] = {NULL}, *outputs[MOST];
  size_t ninputs = 0, nstates = 0;
  if (cn_graph_inputs(g) > MOST || cn_graph_outputs(g) > MOST) return;
  for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
    const char *eq = strstr(line, "= "), *end = line + strcspn(line, "\n");
    if (line[0] != '%' || !eq || eq > end) continue;
    bool input = !strncmp(eq, "= input ", 8), state = !strncmp(eq, "= state ", 8);
    cn_tensor *t = input || state ? tensor_for(eq + 8) : NULL;
    if (input && ninputs < MOST) inputs[ninputs++] = t;
    if (state && t) cn_graph_bind(g, nstates, t);
    nstates += state;
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
  if (text) run(g, text);
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
