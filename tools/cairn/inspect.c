/* inspect.c: `cairn inspect`: what an ONNX model is: its origin, inputs and outputs, weights, opsets, metadata.
 *
 * Place in the flow: the public face of the importer alone. Invariant: a model that cairn cannot run is shown, too. */
#include <cairn/cairn.h>
#include <cairn/ext/system.h>
#include <inttypes.h>
#include <stdio.h>

#include "command.h"
#include "onnx.h"

const char help_inspect[] = "  --weights           each weight and constant by itself\n"
                            "  --nodes             each node by itself\n";

static void print_said(const char *what, const char *text)
{
  if (*text) printf("%-10s %s\n", what, text);
}

static void print_origin(const cn_onnx *m)
{
  cn_onnx_origin o;
  int64_t version;
  const char *domain, *key, *value;
  char text[256];
  cn_onnx_origin_of(&o, m);
  snprintf(text, sizeof text, "%s%s%s", o.producer, *o.producer_version ? " " : "", o.producer_version);
  print_said("producer", text);
  print_said("domain", o.domain);
  print_said("graph", o.graph);
  print_said("doc", o.doc);
  if (o.version) printf("%-10s %" PRId64 "\n", "version", o.version);
  printf("%-10s %" PRId64 "\n", "format", o.ir);
  for (size_t i = 0; (domain = cn_onnx_opset_at(m, i, &version)); i++)
    printf("%-10s %" PRId64 "%s%s\n", i ? "" : "opset", version, *domain ? " of " : "", domain);
  for (size_t i = 0; (key = cn_onnx_metadata_at(m, i, &value)); i++)
    printf("%-10s %s = %s\n", i ? "" : "metadata", key, value);
}

static int print_ends(const char *what, const cn_onnx *m, size_t n,
                      int (*at)(cn_onnx_info *, const cn_onnx *, size_t))
{
  char type[512];
  cn_onnx_info info;
  for (size_t i = 0; i < n; i++) {
    if (at(&info, m, i)) return cn_err();
    printf("%-10s %-32s %s\n", i ? "" : what, info.name, onnx_type(type, sizeof type, &info));
  }
  return CN_OK;
}

static int print_weights(const cn_onnx *m, bool each)
{
  double elements = 0, bytes = 0;
  cn_onnx_info info;
  for (size_t i = 0; i < cn_onnx_initials(m); i++) {
    double n = 1;
    if (cn_onnx_initial_at(&info, m, i)) return cn_err();
    for (int d = 0; d < info.ndim; d++) n *= (double)info.shape[d];
    elements += n;
    bytes += info.dtype ? n * (double)cn_dtype_size(info.dtype) : 0;
  }
  printf("%-10s %zu, %.0f elements, %.2f MB\n", "weights", cn_onnx_initials(m), elements, bytes / 1e6);
  return each ? print_ends("", m, cn_onnx_initials(m), cn_onnx_initial_at) : CN_OK;
}

static int print_nodes(const cn_onnx *m, bool each)
{
  cn_onnx_node n;
  printf("%-10s %zu\n", "nodes", cn_onnx_nodes(m));
  for (size_t i = 0; each && i < cn_onnx_nodes(m); i++) {
    if (cn_onnx_node_at(&n, m, i)) return cn_err();
    printf("%-10s %*s%s%s%s  %s%s%s\n", "", 2 * n.depth, "", n.domain, *n.domain ? "." : "", n.op, n.name,
           n.problem ? ": " : "", n.problem ? n.problem : "");
  }
  return CN_OK;
}

static int inspect(const char *path, bool weights, bool nodes)
{
  cn_onnx *m = cn_onnx_load(path, .partial = true);
  if (!m) return cn_err();
  print_origin(m);
  print_ends("inputs", m, cn_onnx_inputs(m), cn_onnx_input_at);
  print_ends("outputs", m, cn_onnx_outputs(m), cn_onnx_output_at);
  print_weights(m, weights);
  print_nodes(m, nodes);
  cn_onnx_free(m);
  return cn_err();
}

int command_inspect(int argc, char **argv)
{
  const char *path = NULL;
  bool weights = false, nodes = false;
  const command_flag flags[] = {{"--weights", NULL, &weights}, {"--nodes", NULL, &nodes}, {NULL, NULL, NULL}};
  int n = command_parse(argc, argv, flags, &path, 1);
  if (n < 0) return 2;
  if (!n) return command_missing(argv[0], "which model?");
  return inspect(path, weights, nodes) ? command_failed() : 0;
}
