/* graph.c: `cairn graph`: a network's graph as a picture, or as text.
 *
 * Place in the flow: the network is traced as it computes, calls of ops are whole again (cn_graph_lift), picture.c and
 * those beside it draw. Invariant: nothing is computed; the network is not changed. */
#include <cairn/cairn.h>
#include <cairn/ext/graph.h>
#include <cairn/ext/system.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "model.h"
#include "picture.h"
#include "traced.h"

const char help_graph[] =
    "The network is a FILE.cfg, a name of the zoo, a checkpoint, or a graph: its text (FILE.txt) or a file of\n"
    "cn_graph_save. The ending of OUT says what it becomes: .svg a picture, .dot for Graphviz, .txt the graph's text;\n"
    "- prints that.\n"
    "\n"
    "  -o OUT           the file to write\n"
    "  --depth N        modules inside of N others are one box each\n"
    "  --flat           every op as the parts that it is made of\n"
    "  --input SIZES    of one sample: 3,224,224; for language models the number of tokens\n"
    "  --batch N        samples at a time; 1\n";

typedef struct wanted {
  const char *what, *out, *sizes;
  int64_t depth, batch;
  bool flat;
} wanted;

static const char *ending(const char *path)
{
  const char *dot = strrchr(path, '.');
  return dot ? dot : "";
}

/* ---- writing ---- */

static int render(cn_text *t, const cn_graph *g, const wanted *w)
{
  picture p;
  if (!strcmp(ending(w->out), ".txt") || !strcmp(w->out, "-")) {
    char *text = cn_graph_to_string(g);
    if (text) cn_text_put(t, text);
    cn_string_free(text);
    return cn_err();
  }
  int status = picture_of(&p, g, w->depth > INT_MAX ? INT_MAX : (int)w->depth);
  bool svg = !strcmp(ending(w->out), ".svg");
  if (!status && svg) status = picture_place(&p);
  if (!status) status = svg ? picture_svg(t, &p, w->what) : picture_dot(t, &p, w->what);
  picture_free(&p);
  return status;
}

static int write_file(const char *path, const cn_text *t)
{
  cn_writer *out = cn_writer_open(path);
  if (!out) return cn_err();
  cn_writer_put(out, t->s, t->n);
  return cn_writer_commit(out);
}

static int draw(cn_graph *g, const wanted *w)
{
  cn_text t = {0};
  int status = w->flat || cn_graph_lift(g, NULL, NULL) >= 0 ? CN_OK : cn_err();
  if (!status) status = render(&t, g, w);
  if (!status && !strcmp(w->out, "-")) fputs(t.s ? t.s : "", stdout);
  else if (!status) status = write_file(w->out, &t);
  cn_text_free(&t);
  return status;
}

static bool known_ending(const char *out)
{
  const char *end = ending(out);
  return !strcmp(out, "-") || !strcmp(end, ".svg") || !strcmp(end, ".dot") || !strcmp(end, ".txt");
}

int command_graph(int argc, char **argv)
{
  wanted w = {.depth = INT_MAX, .batch = 1};
  const char *depth = NULL, *batch = NULL;
  int64_t some[CN_MAX_DIMS];
  const command_flag flags[] = {{"-o", &w.out, NULL},         {"--depth", &depth, NULL}, {"--flat", NULL, &w.flat},
                                {"--input", &w.sizes, NULL}, {"--batch", &batch, NULL}, {NULL, NULL, NULL}};
  int n = command_parse(argc, argv, flags, &w.what, 1);
  if (n < 0) return 2;
  if (!n) return command_missing(argv[0], "which network?");
  if (!w.out) return command_missing(argv[0], "-o says where to");
  if (!known_ending(w.out)) return command_usage(argv[0], w.out);
  if (!command_whole(&w.depth, depth) || w.depth < 0) return command_usage(argv[0], depth);
  if (!command_whole(&w.batch, batch) || w.batch < 1) return command_usage(argv[0], batch);
  if (w.sizes && !command_sizes(some, CN_MAX_DIMS - 1, w.sizes)) return command_usage(argv[0], w.sizes);
  model m = {NULL, NULL, false};
  cn_graph *g = traced_graph(&m, w.what, w.sizes, w.batch);
  int status = g ? draw(g, &w) : cn_err();
  cn_graph_free(g);
  model_close(&m);
  return status || cn_err() ? command_failed() : 0;
}
