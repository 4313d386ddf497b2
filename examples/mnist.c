/* mnist.c: a convolutional network that reads hand-written digits, trained by cn_fit.
 *
 * It shows data sets, transforms and loaders, a network, a one-cycle schedule, metrics, callbacks (progress,
 * TensorBoard, checkpoints that a later run goes on from) and a confusion matrix.
 *
 *     cc mnist.c $(pkg-config --cflags --libs cairn) -lm && ./a.out
 *
 *     ./a.out [IMAGES LABELS [TEST_IMAGES TEST_LABELS]] [--train-on N] [--epochs N] [--log FOLDER] [--save FILE]
 *
 * IMAGES and LABELS are IDX files as MNIST has them, gzipped or not. With two of them the first N images are for
 * training and the others for testing; with four the last two are for testing. FILE is a checkpoint: if it is there,
 * the run goes on from it. It prints a line an epoch, the accuracy on the test images and what was misread most often.
 * Trained on 9,000 images of MNIST it reads over 98.5 % of a thousand others after less than a minute on two cores.
 * Without arguments it uses the small digits that are part of the library, for two or three seconds.
 */
#include <cairn/cairn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLASSES = 10 };

typedef struct settings {
  const char *files[4]; /* images, labels, and those for testing */
  int nfiles;
  int64_t train_on, epochs;
  const char *log, *save;
} settings;

/* ---- data ---- */

/* Both are owned; NULL on failure. */
static void open_data(cn_dataset **train, cn_dataset **test, const settings *o)
{
  if (o->nfiles == 0) {
    *train = cn_digits(CN_TRAIN);
    *test = cn_digits(CN_TEST);
  } else if (o->nfiles == 4) {
    *train = cn_idx(o->files[0], o->files[1]);
    *test = cn_idx(o->files[2], o->files[3]);
  } else {
    cn_dataset *all = cn_idx(o->files[0], o->files[1]);
    int64_t n = all ? cn_dataset_length(all) : 0, split = o->train_on ? o->train_on : n / 10 * 9;
    *train = all ? cn_dataset_range(cn_dataset_keep(all), 0, split) : NULL;
    *test = all ? cn_dataset_range(all, split, n) : NULL;
  }
  /* Each time a training image is seen it is turned, moved and scaled a little. */
  if (*train) *train = cn_dataset_transform(*train, cn_transform_random_affine(10, 0.08, 0.9, 1.1, 0));
}

/* Height and width of the images, which are square. */
static int64_t image_side(cn_dataset *set)
{
  cn_sample sample;
  if (cn_dataset_get(&sample, set, 0)) return 0;
  int64_t side = cn_size(sample.v[0], 1);
  cn_sample_clear(&sample);
  return side;
}

/* ---- the network ---- */

static cn_module *convolution(int64_t in, int64_t out)
{
  /* Batch norm has a bias of its own, so that the convolution needs none. */
  return cn_nn_sequential(cn_nn_conv2d(in, out, 3, .padding = CN_INTS(1), .no_bias = true), cn_nn_batch_norm2d(out),
                          cn_nn_relu());
}

static cn_module *network(int64_t side)
{
  return cn_nn_sequential(convolution(1, 16), cn_nn_max_pool2d(2), convolution(16, 32), cn_nn_max_pool2d(2),
                          convolution(32, 64), cn_nn_flatten(), cn_nn_dropout(.p = 0.3),
                          cn_nn_linear(64 * (side / 4) * (side / 4), CLASSES));
}

/* ---- training ---- */

static int train(cn_module *net, cn_loader *digits, cn_loader *test, const settings *o)
{
  cn_metric *accuracy = cn_metric_accuracy();
  cn_optim *opt = cn_optim_adamw(net, .lr = 4e-3, .weight_decay = 0.02);
  int64_t steps = o->epochs * cn_loader_length(digits);
  cn_schedule *rate = opt ? cn_lr_one_cycle(opt, 4e-3, .total_steps = steps) : NULL;
  cn_callback callbacks[4] = {cn_callback_progress(), cn_callback_rate()};
  size_t n = 2;
  if (o->log) callbacks[n++] = cn_callback_events(o->log);
  if (o->save) callbacks[n++] = cn_callback_last(o->save, 0);
  int status = cn_err();
  if (!status)
    status = cn_fit(net, opt, digits, .epochs = o->epochs, .validation = test, .metrics = CN_METRICS(accuracy),
                    .schedule = rate, .schedule_each_batch = true, .callbacks = callbacks, .ncallbacks = n,
                    .resume = o->save);
  cn_schedule_free(rate);
  cn_optim_free(opt);
  cn_metric_free(accuracy);
  return status;
}

/* Tests it: prints how many digits were read right, and what was misread most often. Returns the accuracy. */
static double look_closer(cn_module *net, cn_loader *test)
{
  int64_t counts[CLASSES][CLASSES], most = 0, truth = 0, taken_for = 0;
  cn_metric *confusion = cn_metric_confusion(CLASSES);
  cn_scope *s = cn_scope_begin();
  double accuracy = 0;
  if (confusion && !cn_evaluate(NULL, net, test, .metrics = CN_METRICS(confusion)) &&
      !cn_to_data(counts, sizeof counts, cn_cast(cn_metric_tensor(confusion), CN_I64))) {
    accuracy = cn_metric_value(confusion);
    for (int i = 0; i < CLASSES * CLASSES; i++)
      if (i / CLASSES != i % CLASSES && counts[i / CLASSES][i % CLASSES] > most) {
        truth = i / CLASSES;
        taken_for = i % CLASSES;
        most = counts[truth][taken_for];
      }
    printf("accuracy %.2f %% of %lld test images\n", 100 * accuracy,
           (long long)cn_dataset_length(cn_loader_dataset(test)));
    if (most)
      printf("most often misread: a %lld as a %lld (%lld times)\n", (long long)truth, (long long)taken_for,
             (long long)most);
  }
  cn_scope_end(s);
  cn_metric_free(confusion);
  return accuracy;
}

/* ---- the program ---- */

static bool parse(settings *o, int argc, char **argv)
{
  for (int i = 1; i < argc; i++) {
    const char *value = argv[i][0] == '-' && i + 1 < argc ? argv[i + 1] : NULL;
    if (argv[i][0] != '-') {
      if (o->nfiles == 4) return false;
      o->files[o->nfiles++] = argv[i];
      continue;
    }
    if (!value) return false;
    if (!strcmp(argv[i], "--train-on")) o->train_on = strtoll(value, NULL, 10);
    else if (!strcmp(argv[i], "--epochs")) o->epochs = strtoll(value, NULL, 10);
    else if (!strcmp(argv[i], "--log")) o->log = value;
    else if (!strcmp(argv[i], "--save")) o->save = value;
    else return false;
    i++;
  }
  return o->nfiles % 2 == 0 && o->epochs > 0;
}

int main(int argc, char **argv)
{
  settings o = {.epochs = 8};
  if (!parse(&o, argc, argv)) {
    fprintf(stderr, "usage: %s [IMAGES LABELS [TEST_IMAGES TEST_LABELS]] [--train-on N] [--epochs N] [--log FOLDER] "
            "[--save FILE]\n", argv[0]);
    return 2;
  }
  double accuracy = 0;
  cn_dataset *train_set = NULL, *test_set = NULL;
  cn_seed(1);
  open_data(&train_set, &test_set, &o);
  cn_module *net = train_set && test_set ? network(image_side(test_set)) : NULL;
  cn_loader *digits = cn_loader_new(train_set, .batch = 64, .shuffle = true, .drop_last = true, .workers = 1);
  cn_loader *test = cn_loader_new(test_set, .batch = 250);
  if (net && digits && test) {
    cn_module_print(net);
    printf("%lld parameters\n", (long long)cn_module_count(net, true));
    if (train(net, digits, test, &o) >= 0) accuracy = look_closer(net, test);
  }
  cn_loader_free(test);
  cn_loader_free(digits);
  cn_module_release(net);
  if (cn_err()) fprintf(stderr, "%s\n", cn_err_message());
  return cn_err() || accuracy < 0.9 ? 1 : 0;
}
