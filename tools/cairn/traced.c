/* traced.c: see traced.h. Invariant: nothing is computed; the network is not changed. */
#include "traced.h"

#include <cairn/cairn.h>
#include <cairn/ext/system.h>
#include <string.h>

#include "command.h"

static int forward(cn_tensor **outputs, cn_tensor *const *inputs, void *net)
{
  outputs[0] = cn_forward_one(net, inputs, 1);
  return outputs[0] ? CN_OK : cn_err();
}

static cn_graph *trace_of(cn_module *net, cn_tensor *x, const cn_free_dim *dims, size_t ndims)
{
  return ndims ? cn_trace_dynamic(forward, 1, &x, 1, dims, ndims, net) : cn_trace(forward, 1, &x, 1, net);
}

/* The graph for a batch of that shape: of floats, or of whole numbers where the net takes no others. Owned. */
static cn_graph *trace(cn_module *net, const int64_t *shape, size_t ndim, const cn_free_dim *dims, size_t ndims)
{
  cn_scope *s = cn_scope_begin();
  int saved = cn_no_grad_begin();
  cn_tensor *x = cn_zeros(shape, ndim);
  cn_graph *g = trace_of(net, x, dims, ndims);
  if (!g && ndim == 2 && cn_err() != CN_ERR_MEMORY) {
    cn_err_clear();
    x = cn_zeros(shape, ndim, .dtype = CN_I64);
    g = trace_of(net, x, dims, ndims);
  }
  cn_no_grad_end(saved);
  cn_scope_end(s);
  return g;
}

static const char *ending(const char *path)
{
  const char *dot = strrchr(path, '.');
  return dot ? dot : "";
}

static cn_graph *graph_of_text(const char *path)
{
  cn_mapping file;
  cn_text t = {0};
  if (cn_map_open(&file, path)) return NULL;
  cn_text_put_bytes(&t, (const char *)file.data, file.size);
  cn_map_close(&file);
  cn_graph *g = t.failed ? NULL : cn_graph_parse(t.s ? t.s : "");
  cn_text_free(&t);
  return g;
}

/* The graph of a file that holds one; NULL with the error set. */
static cn_graph *graph_of_file(const char *path)
{
  return !strcmp(ending(path), ".txt") ? graph_of_text(path) : cn_graph_load(path);
}

static cn_graph *graph_of_net(model *m, const char *what, const char *sizes, int64_t batch, const cn_free_dim *dims,
                              size_t ndims)
{
  int64_t shape[CN_MAX_DIMS] = {batch};
  char weights[COMMAND_PATH];
  int status = model_find(m, weights, what);
  if (!status && sizes) status = cn_description_set(m->description, "net", "input", sizes);
  if (!status) m->net = cn_description_net(m->description);
  if (!m->net) return NULL;
  cn_module_train(m->net, false);
  size_t n = model_sample(shape + 1, m);
  cn_graph *g = cn_err() ? NULL : trace(m->net, shape, n + 1, dims, ndims);
  if (g) cn_module_name_states(m->net, g);
  return g;
}

cn_graph *traced_graph_open(model *m, const char *what, const char *sizes, int64_t batch, const cn_free_dim *dims,
                            size_t ndims)
{
  bool text = !strcmp(ending(what), ".txt"), weights = !strcmp(ending(what), ".safetensors");
  if ((!text && !weights) || cn_path_kind_of(what) != CN_PATH_FILE)
    return graph_of_net(m, what, sizes, batch, dims, ndims);
  cn_graph *g = graph_of_file(what);
  if (g && ndims) {
    cn_err_set(CN_ERR_VALUE, "a graph has its open sizes already");
    cn_graph_free(g);
    return NULL;
  }
  if (g || text) return g;
  cn_err_clear();
  return graph_of_net(m, what, sizes, batch, dims, ndims);
}

cn_graph *traced_graph(model *m, const char *what, const char *sizes, int64_t batch)
{
  return traced_graph_open(m, what, sizes, batch, NULL, 0);
}
