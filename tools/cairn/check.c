/* check.c: `cairn check`: whether cairn runs an ONNX model: its opsets, its operators and how each is run, and all
 * that cannot be.
 *
 * Place in the flow: the model is loaded with what cannot run in it (cn_onnx_opts.partial); onnx.c runs it where that
 * is asked for. Invariant: the exit status is 0 exactly where nothing was found. */
#include <cairn/cairn.h>
#include <cairn/ext/system.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "onnx.h"

const char help_check[] =
    "The exit status is 1 where the model, or a node of it, cannot be run. How an operator runs is said in ops of "
    "cairn's,\n"
    "with %0 its first input and $name an attribute, or it is code that calls some.\n"
    "\n"
    "  --run               runs it, too, node by node and compiled\n" ONNX_HELP_INPUT ONNX_HELP_RANDOM
        ONNX_HELP_WHERE;

/* Nodes of one operator with one meaning. */
typedef struct row {
  cn_onnx_node first;
  size_t nodes;
} row;

static bool same(const cn_onnx_node *a, const cn_onnx_node *b)
{
  return !strcmp(a->op, b->op) && !strcmp(a->domain, b->domain) && a->opset == b->opset && a->how == b->how &&
         a->problem == b->problem && a->function == b->function;
}

static int by_name(const void *a, const void *b)
{
  const row *x = a, *y = b;
  int domain = strcmp(x->first.domain, y->first.domain);
  return domain ? domain : strcmp(x->first.op, y->first.op);
}

/* Each operator once; in an array of cn_onnx_nodes, owned. */
static row *rows_of(const cn_onnx *m, size_t *n)
{
  size_t all = cn_onnx_nodes(m);
  row *rows = cn_alloc_zero((all + 1) * sizeof *rows);
  *n = 0;
  for (size_t i = 0; rows && i < all; i++) {
    cn_onnx_node node;
    size_t k = 0;
    if (cn_onnx_node_at(&node, m, i)) break;
    while (k < *n && !same(&rows[k].first, &node)) k++;
    if (k == *n) rows[(*n)++].first = node;
    rows[k].nodes++;
  }
  if (rows) qsort(rows, *n, sizeof *rows, by_name);
  return rows;
}

static void print_opsets(const char *path, const cn_onnx *m)
{
  int64_t version;
  const char *domain;
  printf("%s: opset", path);
  for (size_t i = 0; (domain = cn_onnx_opset_at(m, i, &version)); i++)
    printf("%s %s%s%lld", i ? "," : "", domain, *domain ? " " : "", (long long)version);
  printf("\n\n%-28s %6s  how it runs\n", "operator", "nodes");
}

static void print_row(const row *r)
{
  char name[128];
  const cn_onnx_node *n = &r->first;
  snprintf(name, sizeof name, "%s%s%s", n->domain, *n->domain ? "." : "", n->op);
  printf("%-28s %6zu  %s\n", name, r->nodes,
         n->problem    ? "not at all"
         : n->function ? "a function of the model"
         : n->how      ? n->how
                       : "code");
}

/* Operators, then what is wrong. How many nodes cannot run; negative: an error. */
static int64_t print_operators(const cn_onnx *m)
{
  size_t n;
  int64_t bad = 0;
  row *rows = rows_of(m, &n);
  if (!rows) return cn_err();
  for (size_t i = 0; i < n; i++) print_row(&rows[i]);
  for (size_t i = 0; i < n; i++) {
    const cn_onnx_node *node = &rows[i].first;
    if (!node->problem) continue;
    printf("%snode '%s' (%s%s%s, opset %lld)", bad ? "" : "\n", node->name, node->domain, *node->domain ? "." : "",
           node->op, (long long)node->opset);
    if (rows[i].nodes > 1) printf(" and %zu others", rows[i].nodes - 1);
    printf(": %s\n", node->problem);
    bad += (int64_t)rows[i].nodes;
  }
  cn_free(rows, (cn_onnx_nodes(m) + 1) * sizeof *rows);
  return bad;
}

/* One run; whether it went well is said. */
static int try_run(const char *path, const onnx_options *o, bool compiled)
{
  onnx_subject s = {NULL};
  double begin = cn_clock();
  int status = onnx_open(&s, path, o, compiled);
  bool other = !status && compiled && !s.compiled;
  if (!status && !other) status = onnx_run(&s);
  printf("%-9s ", compiled ? "compiled" : "eager");
  if (status) printf("fails: %s\n", cn_err_message());
  else if (other) printf("not possible: it takes or gives what is no tensor\n");
  else if (*s.why) printf("not possible: %s\n", s.why);
  else printf("runs: %.0f ms with loading\n", 1e3 * (cn_clock() - begin));
  cn_err_clear();
  onnx_close(&s);
  return status;
}

static int check(const char *path, const onnx_options *o, bool run)
{
  cn_onnx *m = cn_onnx_load(path, .partial = true);
  if (!m) return command_failed();
  print_opsets(path, m);
  int64_t bad = print_operators(m);
  cn_onnx_free(m);
  if (bad < 0) return command_failed();
  if (bad) printf("\ncairn cannot run %lld of its nodes\n", (long long)bad);
  else if (!run) printf("\ncairn has all of its operators\n");
  else {
    printf("\n");
    int eager = try_run(path, o, false), compiled = try_run(path, o, true);
    bad = eager || compiled;
  }
  return bad ? 1 : 0;
}

int command_check(int argc, char **argv)
{
  const char *path = NULL;
  bool run = false;
  onnx_options o = {.random = true};
  const command_flag flags[] = {
      {"--run", NULL, &run}, {"--device", &o.device, NULL}, {"--threads", &o.threads, NULL}, {NULL, NULL, NULL}};
  if (!onnx_take_options(&o, &argc, argv)) return 2;
  int n = command_parse(argc, argv, flags, &path, 1);
  if (n < 0) return 2;
  if (!n) return command_missing(argv[0], "which model?");
  return onnx_place(&o) ? command_failed() : check(path, &o, run);
}
