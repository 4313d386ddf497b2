/* eval.c: `cairn eval`: loss, accuracy and confusions of a trained network on test data. */
#include <cairn/cairn.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "model.h"

const char help_eval[] =
    "CHECKPOINT is a folder that `cairn train` made, or a checkpoint in it. The test part of the data that it was\n"
    "trained with is used, unless --data names other data: their test part, or all where they have none of their own.\n"
    "\n"
    "  --data SET     as in `cairn help train`\n"
    "  --batch N      samples at a time; as in training\n"
    "  --device D     cpu, cuda, cuda:1\n";

enum { SHOWN = 20 }; /* classes of a table that fits a screen */

static void print_confusion(const model *m, const int64_t *counts, int64_t n)
{
  int width = 5;
  printf("\nwhat it took them for (a row is a true class)\n%12s", "");
  for (int64_t i = 0; i < n; i++) printf(" %*.*s", width, width, model_label(m, i));
  printf("   right\n");
  for (int64_t i = 0; i < n; i++) {
    int64_t sum = 0;
    printf("%12.12s", model_label(m, i));
    for (int64_t k = 0; k < n; k++) {
      sum += counts[i * n + k];
      if (counts[i * n + k]) printf(" %*lld", width, (long long)counts[i * n + k]);
      else printf(" %*s", width, ".");
    }
    if (sum) printf("  %5.1f %%", 100.0 * (double)counts[i * n + i] / (double)sum);
    printf("\n");
  }
}

/* Where there are many classes: those that were mixed up most. */
static void print_worst(const model *m, int64_t *counts, int64_t n)
{
  printf("\nmixed up most\n");
  for (int shown = 0; shown < 10; shown++) {
    int64_t worst = -1;
    for (int64_t i = 0; i < n * n; i++)
      if (i / n != i % n && counts[i] && (worst < 0 || counts[i] > counts[worst])) worst = i;
    if (worst < 0) return;
    printf("%6lld  %s taken for ", (long long)counts[worst], model_label(m, worst / n));
    printf("%s\n", model_label(m, worst % n));
    counts[worst] = 0;
  }
}

static void print_classes(const model *m, cn_metric *confusion)
{
  enum { MOST = 256 };
  static int64_t counts[MOST * MOST];
  cn_scope *s = cn_scope_begin();
  cn_tensor *table = cn_metric_tensor(confusion);
  int64_t n = cn_size(table, 0);
  if (table && n <= MOST && !cn_to_data(counts, sizeof counts, cn_cast(table, CN_I64))) {
    if (n <= SHOWN) print_confusion(m, counts, n);
    else print_worst(m, counts, n);
  }
  cn_scope_end(s);
}

/* How many classes the net tells apart: its outputs for one sample. */
static int64_t classes_of(const model *m, cn_dataset *set)
{
  cn_sample sample = {{NULL}, 0};
  int64_t n = 0;
  if (!model_classifies(m->description) || cn_dataset_get(&sample, set, 0)) return 0;
  cn_scope *s = cn_scope_begin();
  cn_tensor *y = cn_forward(m->net, cn_unsqueeze(cn_to_device(sample.v[0], cn_default_device()), 0));
  if (y && cn_ndim(y) == 2) n = cn_size(y, 1);
  cn_scope_end(s);
  cn_sample_clear(&sample);
  return n;
}

static int evaluate(const model *m, cn_dataset *set, int64_t batch)
{
  double loss = 0;
  int64_t samples = cn_dataset_length(set), classes = classes_of(m, set);
  cn_metric *metrics[2] = {NULL, NULL};
  size_t n = 0;
  if (classes) metrics[n++] = cn_metric_accuracy(), metrics[n++] = cn_metric_confusion(classes);
  else if (model_is_text(m->description)) metrics[n++] = cn_metric_perplexity();
  cn_loader *loader = cn_loader_new(set, .batch = batch, .device = cn_default_device());
  cn_module *criterion = cn_description_loss(m->description);
  int status = !loader || !criterion ? cn_err()
                                     : cn_evaluate(&loss, m->net, loader, .loss = model_loss, .payload = criterion,
                                                   .metrics = metrics, .nmetrics = n);
  if (!status) {
    printf("%lld samples\nloss         %.4f\n", (long long)samples, loss);
    if (classes) printf("accuracy     %.2f %%\n", 100 * cn_metric_value(metrics[0]));
    else if (n) printf("perplexity   %.4f\n", cn_metric_value(metrics[0]));
    if (classes) print_classes(m, metrics[1]);
  }
  for (size_t i = 0; i < n; i++) cn_metric_free(metrics[i]);
  cn_module_release(criterion);
  cn_loader_free(loader);
  return cn_err();
}

int command_eval(int argc, char **argv)
{
  const char *what = NULL, *data = NULL, *size = NULL, *device = NULL;
  const command_flag flags[] = {{"--data", &data, NULL}, {"--batch", &size, NULL}, {"--device", &device, NULL},
                                {NULL, NULL, NULL}};
  int64_t batch = 0;
  model m;
  int n = command_parse(argc, argv, flags, &what, 1);
  if (n < 0) return 2;
  if (!n) return command_missing(argv[0], "a checkpoint is missing");
  if (!command_whole(&batch, size) || batch < 0) return command_usage(argv[0], size);
  if (device) cn_set_default_device(cn_device_find(device));
  if (cn_err()) return command_failed();
  if (!model_open(&m, what, NULL) && data) {
    model_set_text(m.description, "data", "test", data);
    if (!cn_description_get(m.description, "data", "set")) model_set_text(m.description, "data", "set", data);
  }
  if (!cn_err() && !m.trained) cn_err_set(CN_ERR_VALUE, "%s has no weights: name a checkpoint", what);
  if (!cn_err() && device) cn_module_to(m.net, cn_default_device(), CN_DTYPE_NONE);
  cn_dataset *set = cn_err() ? NULL : cn_description_data(m.description, CN_TEST);
  if (set) evaluate(&m, set, batch ? batch : model_number(m.description, "data", "batch", 32));
  model_close(&m);
  return cn_err() ? command_failed() : 0;
}
