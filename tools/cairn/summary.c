/* summary.c: `cairn summary`: the table of a network's layers, of a description file, the zoo or a checkpoint. */
#include <cairn/cairn.h>
#include <cairn/zoo.h>
#include <stdio.h>

#include "command.h"
#include "model.h"

const char help_summary[] =
    "The network is a FILE.cfg, a name of the zoo, or a checkpoint. Without a name the zoo is listed.\n"
    "\n"
    "  --input SIZES    of one sample: 3,224,224; for language models the number of tokens\n"
    "  --batch N        samples at a time; 1\n"
    "  --print          also as PyTorch prints it\n";

static int list_zoo(void)
{
  const char *name, *doc;
  for (size_t i = 0; cn_zoo_at(i, &name, &doc); i++) printf("%-16s %s\n", name, doc);
  return 0;
}

/* The table for a batch of that shape: of floats, or of whole numbers where the net takes no others. Owned. */
static char *table_of(cn_module *net, const int64_t *shape, size_t ndim)
{
  char *table = cn_summary(net, shape, ndim);
  if (table || cn_err() == CN_ERR_MEMORY || ndim != 2) return table;
  cn_err_clear();
  cn_scope *s = cn_scope_begin();
  cn_tensor *tokens = cn_zeros(shape, ndim, .dtype = CN_I64);
  if (tokens) table = cn_summary_inputs(net, &tokens, 1);
  cn_scope_end(s);
  return table;
}

static int summarise(const char *what, const char *sizes, int64_t batch, bool print)
{
  int64_t shape[CN_MAX_DIMS] = {0};
  char weights[COMMAND_PATH];
  model m;
  size_t n = 0;
  int status = model_find(&m, weights, what);
  if (!status && sizes) status = cn_description_set(m.description, "net", "input", sizes);
  if (!status) m.net = cn_description_net(m.description);
  if (m.net) n = model_sample(shape + 1, &m);
  shape[0] = batch;
  if (m.net && !cn_err() && print) cn_module_print(m.net);
  char *table = m.net && !cn_err() ? table_of(m.net, shape, n + 1) : NULL;
  if (table) fputs(table, stdout);
  cn_string_free(table);
  model_close(&m);
  return cn_err() ? command_failed() : 0;
}

int command_summary(int argc, char **argv)
{
  const char *what = NULL, *sizes = NULL, *batch_text = NULL;
  bool print = false;
  int64_t batch = 1, some[CN_MAX_DIMS];
  const command_flag flags[] = {{"--input", &sizes, NULL}, {"--batch", &batch_text, NULL}, {"--print", NULL, &print},
                                {NULL, NULL, NULL}};
  int n = command_parse(argc, argv, flags, &what, 1);
  if (n < 0) return 2;
  if (!n) return list_zoo();
  if (!command_whole(&batch, batch_text) || batch < 1) return command_usage(argv[0], batch_text);
  if (sizes && !command_sizes(some, CN_MAX_DIMS - 1, sizes)) return command_usage(argv[0], sizes);
  return summarise(what, sizes, batch, print);
}
