/* export.c: `cairn export`: a network as a file of another system, without cairn's code. A format is a row.
 *
 * Place in the flow: the network is traced as it computes, a row's function writes the graph. Invariant: the file
 * appears whole or not at all. */
#include <cairn/cairn.h>
#include <cairn/ext/stablehlo.h>
#include <cairn/onnx.h>
#include <cairn/ext/system.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "traced.h"

const char help_export[] =
    "The network is a FILE.cfg, a name of the zoo, a checkpoint, or a graph: its text (FILE.txt) or a file of\n"
    "cn_graph_save.\n"
    "\n"
    "  --to FORMAT      stablehlo: text for XLA's compilers, of one size; onnx: a model for ONNX's runtimes\n"
    "  -o OUT           the file to write; - prints it\n"
    "  --input SIZES    of one sample: 3,224,224; for language models the number of tokens\n"
    "  --batch N        samples at a time; 1\n"
    "  --constants      stablehlo: weights become part of the program, in place of its first arguments\n"
    "  --dynamic DIMS   onnx: sizes of the input that stay open, with names for them: 0=batch,2=height,3=width\n"
    "  --opset N        onnx: the version of its operators; 23\n"
    "  --external       onnx: large weights lie in OUT.data\n";

enum { MOST_OPEN = 8, MOST_NAME = 24 };

typedef struct wanted {
  const char *what, *to, *out, *sizes, *dynamic;
  int64_t batch, opset;
  bool constants, external;
  cn_free_dim dims[MOST_OPEN];
  char names[MOST_OPEN][MOST_NAME];
  size_t ndims;
} wanted;

/* ---- formats ---- */

static int put(const void *bytes, size_t n, const char *path)
{
  if (!strcmp(path, "-")) {
    fwrite(bytes, 1, n, stdout);
    return CN_OK;
  }
  cn_writer *out = cn_writer_open(path);
  if (!out) return cn_err();
  cn_writer_put(out, bytes, n);
  return cn_writer_commit(out);
}

static int to_stablehlo(const cn_graph *g, const wanted *w)
{
  char *text = cn_stablehlo_text(g, .constants = w->constants);
  int status = text ? put(text, strlen(text), w->out) : cn_err();
  cn_string_free(text);
  return status;
}

static int to_onnx(const cn_graph *g, const wanted *w)
{
  cn_onnx_save_opts opts = {.size = sizeof opts,
                            .opset = (int)w->opset,
                            .external = w->external ? CN_ONNX_EXTERNAL_YES : CN_ONNX_EXTERNAL_AUTO};
  if (strcmp(w->out, "-") != 0) return cn_onnx_save_with(g, w->out, &opts);
  cn_scope *s = cn_scope_begin();
  cn_tensor *bytes = cn_onnx_bytes_with(g, &opts);
  int status = bytes ? put(cn_data(bytes), (size_t)cn_numel(bytes), w->out) : cn_err();
  cn_scope_end(s);
  return status;
}

static const struct {
  const char *name;
  int (*write)(const cn_graph *g, const wanted *w);
  bool onnx; /* it takes the options of its kind */
} formats[] = {
    {"stablehlo", to_stablehlo, false},
    {"onnx", to_onnx, true},
};
enum { FORMATS = sizeof formats / sizeof *formats };

/* ---- the command ---- */

static int find_format(const char *name)
{
  for (int i = 0; i < FORMATS; i++)
    if (!strcmp(formats[i].name, name)) return i;
  return -1;
}

/* "0=batch,2=height" */
static bool read_dims(wanted *w)
{
  for (const char *s = w->dynamic; s && *s;) {
    char *end;
    long dim = strtol(s, &end, 10);
    size_t n = end > s && *end == '=' ? strcspn(end + 1, ",") : 0;
    if (!n || n >= MOST_NAME || dim < 0 || dim >= CN_MAX_DIMS || w->ndims == MOST_OPEN) return false;
    char *name = w->names[w->ndims];
    memcpy(name, end + 1, n);
    name[n] = 0;
    w->dims[w->ndims++] = (cn_free_dim){0, (int)dim, name, 0, 0};
    s = end + 1 + n;
    s += *s == ',';
  }
  return true;
}

/* What does not go together. NULL: it does. */
static const char *wrong(const wanted *w, const char *opset)
{
  bool onnx = formats[find_format(w->to)].onnx;
  if (onnx && w->constants) return "--constants";
  if (!onnx && w->dynamic) return w->dynamic;
  if (!onnx && opset) return opset;
  return !onnx && w->external ? "--external" : NULL;
}

int command_export(int argc, char **argv)
{
  wanted w = {.batch = 1};
  const char *batch = NULL, *opset = NULL;
  int64_t some[CN_MAX_DIMS];
  const command_flag flags[] = {{"-o", &w.out, NULL},
                                {"--to", &w.to, NULL},
                                {"--constants", NULL, &w.constants},
                                {"--input", &w.sizes, NULL},
                                {"--batch", &batch, NULL},
                                {"--opset", &opset, NULL},
                                {"--dynamic", &w.dynamic, NULL},
                                {"--external", NULL, &w.external},
                                {NULL, NULL, NULL}};
  int n = command_parse(argc, argv, flags, &w.what, 1);
  if (n < 0) return 2;
  if (!n) return command_missing(argv[0], "which network?");
  if (!w.to) return command_missing(argv[0], "--to says as what");
  if (!w.out) return command_missing(argv[0], "-o says where to");
  if (find_format(w.to) < 0) return command_usage(argv[0], w.to);
  if (!command_whole(&w.batch, batch) || w.batch < 1) return command_usage(argv[0], batch);
  if (w.sizes && !command_sizes(some, CN_MAX_DIMS - 1, w.sizes)) return command_usage(argv[0], w.sizes);
  if (!command_whole(&w.opset, opset) || w.opset < 0 || w.opset > 1000) return command_usage(argv[0], opset);
  if (!read_dims(&w)) return command_usage(argv[0], w.dynamic);
  if (wrong(&w, opset)) return command_usage(argv[0], wrong(&w, opset));
  model m = {NULL, NULL, false};
  cn_graph *g = traced_graph_open(&m, w.what, w.sizes, w.batch, w.dims, w.ndims);
  int status = g ? formats[find_format(w.to)].write(g, &w) : cn_err();
  cn_graph_free(g);
  model_close(&m);
  return status || cn_err() ? command_failed() : 0;
}
