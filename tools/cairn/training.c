/* training.c: see training.h. Invariant: the folder can be used (predict, eval, --resume) from the first checkpoint on,
 * whatever ends the run. */
#include "training.h"

#include <cairn/cairn.h>
#include <cairn/events.h>
#include <cairn/ext/system.h>
#include <cairn/io.h>
#include <cairn/zoo.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "model.h"

typedef struct parts {
  cn_dataset *train_set, *test_set;
  cn_loader *train, *test;
  cn_module *net, *loss;
  cn_optim *opt;
  cn_schedule *schedule;
  cn_average *average;
  cn_metric *metric; /* accuracy, or perplexity of texts; NULL for other tasks */
  bool each_batch;
} parts;

/* ---- Ctrl-C ---- */

static volatile sig_atomic_t interrupted;

/* The first one ends the fit, which writes its checkpoint; a second one ends the process. */
static void on_interrupt(int number)
{
  interrupted = 1;
  signal(number, SIG_DFL);
  cn_fit_interrupt();
}

/* ---- what the data tell ---- */

static int put_labels(cn_description *d, cn_dataset *set)
{
  cn_text text = {0};
  bool plain = true;
  const char *label;
  for (size_t i = 0; (label = cn_dataset_label(set, i)); i++) {
    plain &= !strpbrk(label, "\"\n");
    cn_text_putf(&text, "%s\"%s\"", i ? ", " : "", label);
  }
  int status = text.n && plain && !text.failed ? cn_description_set(d, "data", "labels", text.s) : CN_OK;
  cn_text_free(&text);
  return status;
}

static int put_input(cn_description *d, cn_dataset *set)
{
  cn_text text = {0};
  cn_sample sample = {{NULL}, 0};
  int status = cn_dataset_get(&sample, set, 0);
  if (!status) {
    for (int i = 0; i < cn_ndim(sample.v[0]); i++)
      cn_text_putf(&text, "%s%lld", i ? ", " : "", (long long)cn_size(sample.v[0], i));
    if (text.n && !text.failed) status = cn_description_set(d, "net", "input", text.s);
    cn_sample_clear(&sample);
  }
  cn_text_free(&text);
  return status;
}

/* Networks of the zoo have as many classes as the data, also where those have no names: the highest number tells. */
static int put_classes(cn_description *d, cn_dataset *set)
{
  const char *zoo = model_word(d, "net", "zoo", "");
  char text[32];
  int64_t most = -1;
  if (cn_description_get(d, "data", "labels") || cn_description_get(d, "net", "classes") ||
      !cn_zoo_takes(zoo, "classes") || !model_classifies(d))
    return CN_OK;
  for (int64_t i = 0; i < cn_dataset_length(set) && !cn_err(); i++) {
    cn_sample sample = {{NULL}, 0};
    if (cn_dataset_get(&sample, set, i)) break;
    if (sample.n > 1 && cn_numel(sample.v[1]) == 1 && cn_item_int(sample.v[1]) > most) most = cn_item_int(sample.v[1]);
    cn_sample_clear(&sample);
  }
  snprintf(text, sizeof text, "%lld", (long long)most + 1);
  return cn_err() ? cn_err() : most > 0 ? cn_description_set(d, "net", "classes", text) : CN_OK;
}

/* A tokenizer of characters needs those of the text, in the folder. */
static int put_characters(cn_description *d, const char *out)
{
  char path[COMMAND_PATH];
  if (!model_is_text(d) || strcmp(model_word(d, "data", "tokens", "chars"), "chars")) return CN_OK;
  cn_tokenizer *tokenizer = cn_description_tokenizer(d);
  cn_writer *file = tokenizer ? cn_writer_open(command_join(path, out, MODEL_CHARACTERS)) : NULL;
  for (int64_t i = 0; file && i < cn_tokenizer_size(tokenizer); i++) {
    const char *c = cn_tokenizer_token(tokenizer, i);
    if (c) cn_writer_put(file, c, strlen(c));
  }
  cn_tokenizer_free(tokenizer);
  if (!file || cn_writer_commit(file)) return cn_err();
  return model_set_text(d, "data", "tokens", path);
}

/* Settings of a network go along too. */
static int put_config(cn_description *d, const char *out)
{
  char path[COMMAND_PATH];
  const char *config = model_word(d, "net", "config", NULL);
  if (!config || !strcmp(config, command_join(path, out, MODEL_CONFIG))) return CN_OK;
  cn_tree *settings = cn_load(config);
  int status = settings ? cn_save_as(path, settings, CN_FORMAT_JSON) : cn_err();
  cn_tree_free(settings);
  return status ? status : model_set_text(d, "net", "config", path);
}

/* Settings that follow from the weights a network begins with (those published for GoogLeNet want transformed images):
 * made again without these weights it needs them said. */
static int put_implied(cn_description *d, const cn_module *net, const char *out)
{
  char path[COMMAND_PATH];
  const char *zoo = model_word(d, "net", "zoo", ""), *config = model_word(d, "net", "config", NULL);
  const cn_args *args = cn_module_args(net);
  const cn_signature *sig = args && cn_description_get(d, "net", "pretrained") ? cn_args_signature(args) : NULL;
  cn_tree *settings = !sig ? NULL : config ? cn_load(config) : cn_tree_dict();
  bool any = false;
  for (int i = 0; settings && i < cn_signature_size(sig); i++) {
    cn_op_param p;
    cn_signature_param(&p, sig, i);
    if (strcmp(p.type, "bool") != 0 || !cn_zoo_takes(zoo, p.name)) continue;
    any = !cn_tree_put(settings, p.name, cn_tree_bool(cn_args_values(args)[i].u.i));
  }
  if (any && !cn_save_as(command_join(path, out, MODEL_CONFIG), settings, CN_FORMAT_JSON))
    model_set_text(d, "net", "config", path);
  cn_tree_free(settings);
  return cn_err();
}

static int complete(cn_description *d, const training *t, cn_dataset *set)
{
  int status = cn_description_get(d, "net", "input") ? CN_OK : put_input(d, set);
  if (!status && !cn_description_get(d, "data", "labels")) status = put_labels(d, set);
  if (!status) status = put_classes(d, set);
  if (!status) status = put_characters(d, t->out);
  return status ? status : put_config(d, t->out);
}

/* The description that lies beside checkpoints: weights come from those. */
static int write_description(cn_description *d, const char *out)
{
  char path[COMMAND_PATH];
  static const char note[] = "# What `cairn train` trained; for cairn predict, eval and train --resume.\n";
  int status = cn_description_set(d, "net", "pretrained", NULL);
  char *text = status ? NULL : cn_description_to_string(d);
  cn_writer *file = text ? cn_writer_open(command_join(path, out, MODEL_FILE)) : NULL;
  if (file) cn_writer_put(file, note, sizeof note - 1);
  if (file) cn_writer_put(file, text, strlen(text));
  cn_string_free(text);
  return file ? cn_writer_commit(file) : cn_err();
}

/* ---- the parts ---- */

static int open_loaders(parts *p, const training *t, const cn_description *d)
{
  int64_t batch = model_number(d, "data", "batch", 32), workers = model_number(d, "data", "workers", 0);
  uint64_t seed = (uint64_t)model_number(d, "solver", "seed", 1);
  int64_t n = cn_dataset_length(p->train_set);
  cn_device device = t->device == CN_CPU ? CN_DEVICE_DEFAULT : t->device;
  p->train = cn_loader_new(cn_dataset_keep(p->train_set), .batch = batch, .shuffle = true, .workers = (int)workers,
                           .seed = seed ? seed : 1, .device = device,
                           .drop_last = n > batch && n % batch == 1); /* batch norm cannot use one sample */
  p->test = cn_loader_new(cn_dataset_keep(p->test_set), .batch = batch, .workers = (int)workers, .device = device);
  return cn_err();
}

static int open_net(parts *p, const training *t, const cn_description *d)
{
  double decay = cn_tree_as_float(cn_description_get(d, "solver", "average"), 0);
  p->net = cn_description_net(d);
  if (p->net && t->device != CN_CPU) cn_module_to(p->net, t->device, CN_DTYPE_NONE);
  p->opt = p->net ? cn_description_optim(d, p->net) : NULL;
  p->loss = p->opt ? cn_description_loss(d) : NULL;
  if (p->loss) p->schedule = cn_description_schedule(d, p->opt, cn_loader_length(p->train), &p->each_batch);
  if (decay > 0 && !cn_err()) p->average = cn_average_new(p->net, decay, false);
  if (model_is_text(d)) p->metric = cn_metric_perplexity();
  else if (model_classifies(d)) p->metric = cn_metric_accuracy();
  return cn_err();
}

static int prepare(parts *p, const training *t, cn_description *d)
{
  int status = cn_folder_make(t->out);
  p->train_set = status ? NULL : cn_description_data(d, CN_TRAIN);
  p->test_set = p->train_set ? cn_description_data(d, CN_TEST) : NULL;
  if (!p->test_set || complete(d, t, p->test_set)) return cn_err();
  cn_seed((uint64_t)model_number(d, "solver", "seed", 1));
  if (open_loaders(p, t, d) || open_net(p, t, d) || put_implied(d, p->net, t->out)) return cn_err();
  return write_description(d, t->out);
}

static void free_parts(parts *p)
{
  cn_metric_free(p->metric);
  cn_average_free(p->average);
  cn_schedule_free(p->schedule);
  cn_optim_free(p->opt);
  cn_module_release(p->loss);
  cn_module_release(p->net);
  cn_loader_free(p->train);
  cn_loader_free(p->test);
  cn_dataset_release(p->train_set);
  cn_dataset_release(p->test_set);
}

/* ---- what TensorBoard shows besides metrics ---- */

/* The first images as they are trained on, brought into [0, 1]. */
static void log_images(cn_events *log, cn_tensor *x)
{
  if (cn_ndim(x) != 4 || (cn_size(x, 1) != 1 && cn_size(x, 1) != 3)) return;
  x = cn_narrow(x, 0, 0, cn_size(x, 0) < 16 ? cn_size(x, 0) : 16);
  cn_tensor *low = cn_amin(x), *range = cn_sub(cn_amax(x), low);
  cn_events_image(log, "training images", cn_true_divide(cn_sub(x, low), cn_clamp_min(range, cn_num(1e-6))), 0);
}

/* The description and some images. What cannot be logged is left out. */
static void log_start(const parts *p, const training *t, const cn_description *d)
{
  cn_text text = {0};
  char *description = cn_description_to_string(d);
  cn_events *log = cn_events_open(t->out);
  cn_scope *s = cn_scope_begin();
  cn_batch batch;
  cn_loader *loader = log ? cn_loader_new(cn_dataset_keep(p->train_set), .batch = 16, .seed = 1) : NULL;
  cn_text_putf(&text, "```\n%s```\n", description ? description : "");
  if (log && text.s) cn_events_text(log, MODEL_FILE, text.s, 0);
  if (loader && cn_loader_next(&batch, loader) == 1) log_images(log, batch.x);
  cn_loader_free(loader);
  cn_scope_end(s);
  cn_events_close(log);
  cn_string_free(description);
  cn_text_free(&text);
  cn_err_clear();
}

/* ---- fitting ---- */

static cn_dtype autocast_of(const cn_description *d)
{
  const char *precision = model_word(d, "solver", "precision", "float32");
  return !strcmp(precision, "bfloat16") ? CN_BF16 : !strcmp(precision, "float16") ? CN_F16 : CN_DTYPE_NONE;
}

static int note_results(cn_fitting *fit, void *payload)
{
  training *t = payload;
  t->loss = cn_fitting_value(fit, "val_loss");
  t->accuracy = cn_fitting_value(fit, "val_accuracy");
  return 0;
}

static int fit(parts *p, training *t, const cn_description *d)
{
  char best[COMMAND_PATH], last[COMMAND_PATH], csv[COMMAND_PATH];
  const char *monitor = model_word(d, "solver", "monitor", model_classifies(d) ? "val_accuracy" : "val_loss");
  int64_t patience = model_number(d, "solver", "patience", 0);
  enum { MOST = 8 };
  cn_callback callbacks[MOST];
  size_t n = 0;
  callbacks[n++] = cn_callback_rate();
  callbacks[n++] = cn_callback_progress();
  callbacks[n++] = cn_callback_csv(command_join(csv, t->out, "log.csv"));
  callbacks[n++] = cn_callback_events(t->out);
  callbacks[n++] = (cn_callback){.epoch_end = note_results, .payload = t};
  command_join(best, t->out, MODEL_BEST);
  if (!t->no_best) callbacks[n++] = cn_callback_best(best, monitor);
  if (!t->resume) cn_file_remove(best); /* of an earlier run */
  if (patience > 0) callbacks[n++] = cn_callback_early_stop(monitor, patience, 0);
  callbacks[n++] = cn_callback_last(command_join(last, t->out, MODEL_LAST), 0);
  cn_fit_opts o = {.size = sizeof o, .epochs = model_number(d, "solver", "epochs", 1), .validation = p->test,
                   .loss = model_loss, .payload = p->loss, .metrics = &p->metric, .nmetrics = p->metric != NULL,
                   .callbacks = callbacks, .ncallbacks = n, .schedule = p->schedule,
                   .schedule_each_batch = p->each_batch, .plateau = monitor,
                   .clip_norm = cn_tree_as_float(cn_description_get(d, "solver", "clip_norm"), 0),
                   .accumulate = model_number(d, "solver", "accumulate", 1), .autocast = autocast_of(d),
                   .average = p->average, .resume = t->resume ? last : NULL};
  void (*before)(int) = signal(SIGINT, on_interrupt);
  int status = cn_fit_with(p->net, p->opt, p->train, &o);
  signal(SIGINT, before == SIG_ERR ? SIG_DFL : before);
  t->interrupted = interrupted;
  return status < 0 ? status : CN_OK;
}

int training_run(training *t, cn_description *d)
{
  parts p = {0};
  t->loss = t->accuracy = NAN;
  int status = prepare(&p, t, d);
  if (!status && !t->resume) log_start(&p, t, d);
  if (!status) status = fit(&p, t, d);
  free_parts(&p);
  return status;
}
