/* export.c: `cairn export`: a network as a file of another system, without cairn's code. A format is a row.
 *
 * Place in the flow: the network is traced as it computes, a row's function writes the graph. Invariant: the file
 * appears whole or not at all. */
#include <cairn/cairn.h>
#include <cairn/ext/stablehlo.h>
#include <cairn/ext/system.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "traced.h"

const char help_export[] =
    "The network is a FILE.cfg, a name of the zoo, a checkpoint, or a graph: its text (FILE.txt) or a file of\n"
    "cn_graph_save.\n"
    "\n"
    "  --to FORMAT      stablehlo: text for XLA's compilers, of one size\n"
    "  -o OUT           the file to write; - prints it\n"
    "  --input SIZES    of one sample: 3,224,224; for language models the number of tokens\n"
    "  --batch N        samples at a time; 1\n"
    "  --constants      weights become part of the program, in place of its first arguments\n";

typedef struct wanted {
  const char *what, *to, *out, *sizes;
  int64_t batch;
  bool constants;
} wanted;

/* ---- formats ---- */

static int to_stablehlo(cn_text *t, const cn_graph *g, const wanted *w)
{
  char *text = cn_stablehlo_text(g, .constants = w->constants);
  if (text) cn_text_put(t, text);
  cn_string_free(text);
  return text ? CN_OK : cn_err();
}

static const struct {
  const char *name;
  int (*write)(cn_text *t, const cn_graph *g, const wanted *w);
} formats[] = {
    {"stablehlo", to_stablehlo},
};
enum { FORMATS = sizeof formats / sizeof *formats };

/* ---- the command ---- */

static int find_format(const char *name)
{
  for (int i = 0; i < FORMATS; i++)
    if (!strcmp(formats[i].name, name)) return i;
  return -1;
}

static int put(const cn_text *t, const char *path)
{
  if (!strcmp(path, "-")) {
    fwrite(t->s, 1, t->n, stdout);
    return CN_OK;
  }
  cn_writer *out = cn_writer_open(path);
  if (!out) return cn_err();
  cn_writer_put(out, t->s, t->n);
  return cn_writer_commit(out);
}

int command_export(int argc, char **argv)
{
  wanted w = {.batch = 1};
  const char *batch = NULL;
  int64_t some[CN_MAX_DIMS];
  const command_flag flags[] = {
      {"-o", &w.out, NULL},        {"--to", &w.to, NULL},     {"--constants", NULL, &w.constants},
      {"--input", &w.sizes, NULL}, {"--batch", &batch, NULL}, {NULL, NULL, NULL}};
  int n = command_parse(argc, argv, flags, &w.what, 1);
  if (n < 0) return 2;
  if (!n) return command_missing(argv[0], "which network?");
  if (!w.to) return command_missing(argv[0], "--to says as what");
  if (!w.out) return command_missing(argv[0], "-o says where to");
  if (find_format(w.to) < 0) return command_usage(argv[0], w.to);
  if (!command_whole(&w.batch, batch) || w.batch < 1) return command_usage(argv[0], batch);
  if (w.sizes && !command_sizes(some, CN_MAX_DIMS - 1, w.sizes)) return command_usage(argv[0], w.sizes);
  model m = {NULL, NULL, false};
  cn_text t = {0};
  cn_graph *g = traced_graph(&m, w.what, w.sizes, w.batch);
  int status = g ? formats[find_format(w.to)].write(&t, g, &w) : cn_err();
  if (!status) status = put(&t, w.out);
  cn_text_free(&t);
  cn_graph_free(g);
  model_close(&m);
  return status || cn_err() ? command_failed() : 0;
}
