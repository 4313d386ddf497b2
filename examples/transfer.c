/* transfer.c: a network that was trained for one task learns another one from few examples.
 *
 * It shows networks of the zoo with weights from a file, freezing, replacing the last layer, data sets made of data
 * sets, and a loop by hand in which only what is new learns.
 *
 *     cc transfer.c $(pkg-config --cflags --libs cairn) -lm && ./a.out
 *
 *     ./a.out [NETWORK WEIGHTS FOLDER [EPOCHS]]       e.g. ./a.out resnet18 resnet18.pth photos 5
 *
 * FOLDER has a folder of images for each class; four fifths are for training. WEIGHTS is a file of PyTorch's or a
 * safetensors file. It prints the loss and the accuracy on the other images after each epoch.
 *
 * Without arguments it first makes such a file: a LeNet learns to read digits. Loaded from there and given a new last
 * layer it learns which digits are odd from two images of each, beside a network that has to begin from nothing.
 */
#include <cairn/cairn.h>
#include <cairn/ext/system.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 16, EXAMPLES = 2 };

/* ---- a new head ---- */

typedef struct place {
  cn_module *layer;
  char path[200]; /* its name in the network: "fc", "classifier.6" */
} place;

static int last_linear(cn_module *m, const char *path, void *payload)
{
  place *found = payload;
  if (strcmp(m->cls->name, "Linear")) return CN_OK;
  found->layer = m;
  snprintf(found->path, sizeof found->path, "%s", path);
  return CN_OK;
}

/* Freezes net and puts a layer with so many results, which can learn, in the place of its last linear one. Returns it,
 * borrowed from net. */
static cn_module *replace_head(cn_module *net, int64_t classes)
{
  place old = {NULL, ""};
  cn_module_requires_grad(net, false);
  if (cn_module_visit(net, last_linear, &old)) return NULL;
  if (!old.layer) {
    cn_err_set(CN_ERR_VALUE, "there is no linear layer to replace");
    return NULL;
  }
  char *dot = strrchr(old.path, '.'), *name = dot ? dot + 1 : old.path;
  if (dot) *dot = 0;
  cn_module *parent = dot ? cn_module_find(net, old.path) : net;
  size_t i = 0;
  while (strcmp(cn_module_child_name(parent, i), name)) i++;
  int64_t inputs = cn_size(cn_module_get(old.layer, "weight"), 1);
  return cn_module_set_child(parent, i, cn_nn_linear(inputs, classes)) ? NULL : cn_module_child(parent, i);
}

/* ---- training ---- */

static double accuracy_of(cn_module *net, cn_loader *test)
{
  cn_metric *accuracy = cn_metric_accuracy();
  int status = accuracy ? cn_evaluate(NULL, net, test, .metrics = CN_METRICS(accuracy)) : -1;
  double value = status ? 0 : cn_metric_value(accuracy);
  cn_metric_free(accuracy);
  return value;
}

/* Trains `learns`, the whole of net or a part of it. A frozen part stays in evaluation mode: batch norm, say, must
 * keep the statistics that it was trained with. Prints a line every `every` epochs. */
static double train(cn_module *net, cn_module *learns, cn_loader *images, cn_loader *test, int64_t epochs,
                    int64_t every)
{
  cn_batch b;
  cn_optim *opt = cn_optim_adamw(learns, .lr = 3e-3);
  double accuracy = 0;
  for (int64_t epoch = 1; epoch <= epochs && !cn_err(); epoch++) {
    double sum = 0, n = 0;
    cn_module_train(net, false);
    cn_module_train(learns, true);
    while (cn_loader_next(&b, images) == 1) {
      cn_scope *s = cn_scope_begin();
      cn_tensor *loss = cn_cross_entropy(cn_forward(net, b.x), b.y);
      cn_backward(loss); /* stops where the frozen part begins */
      cn_optim_step(opt);
      cn_optim_zero_grad(opt);
      sum += cn_item(loss) * (double)b.size;
      n += (double)b.size;
      cn_scope_end(s);
    }
    if (epoch % every && epoch != epochs) continue;
    accuracy = accuracy_of(net, test);
    printf("  epoch %3lld  loss %.4f  test accuracy %.1f %%\n", (long long)epoch, sum / n, 100 * accuracy);
    fflush(stdout);
  }
  cn_optim_free(opt);
  return accuracy;
}

/* ---- digits ---- */

/* The new task. */
static int is_odd(cn_sample *sample, cn_draws *draws, void *payload)
{
  (void)draws;
  (void)payload;
  return cn_set(&sample->v[1], cn_remainder(sample->v[1], cn_int(2)));
}

/* A loader of digits, at most `most` of each; y is the digit, or whether it is odd. */
static cn_loader *some_digits(cn_part part, int most, bool odd)
{
  int64_t chosen[1797];
  size_t n = 0;
  int seen[10] = {0};
  cn_dataset *set = cn_digits(part);
  for (int64_t i = 0; set && i < cn_dataset_length(set); i++) {
    cn_sample sample;
    if (cn_dataset_get(&sample, set, i)) break;
    if (seen[cn_item_int(sample.v[1])]++ < most) chosen[n++] = i;
    cn_sample_clear(&sample);
  }
  if (set) set = cn_dataset_subset(set, chosen, n);
  if (set) set = cn_dataset_transform(set, cn_transform_resize(SIDE, SIDE));
  if (set && odd) set = cn_dataset_map(set, is_odd, NULL, NULL);
  return set ? cn_loader_new(set, .batch = 32, .shuffle = part == CN_TRAIN, .seed = 1) : NULL;
}

/* What somebody else did before: the weights of a network that tells ten digits apart, in a file. */
static int make_weights(const char *path)
{
  cn_loader *images = some_digits(CN_TRAIN, 1000, false), *test = some_digits(CN_TEST, 1000, false);
  cn_module *net = cn_zoo("lenet", .image = SIDE);
  printf("a network learns to read digits\n");
  if (net && images && test) train(net, net, images, test, 10, 5);
  if (!cn_err()) cn_module_save(net, path);
  cn_module_release(net);
  cn_loader_free(test);
  cn_loader_free(images);
  return cn_err();
}

static bool learn_digits(const char *path)
{
  if (make_weights(path)) return false;
  double accuracy = 0, accuracy_alone = 0;
  cn_loader *images = some_digits(CN_TRAIN, EXAMPLES, true), *test = some_digits(CN_TEST, 1000, true);
  cn_module *net = cn_zoo("lenet", .image = SIDE, .pretrained = path);
  cn_module *head = net ? replace_head(net, 2) : NULL;
  if (head && images && test) {
    printf("a new last layer (%lld of %lld parameters) learns odd and even, from %d images of each digit\n",
           (long long)cn_module_count(net, true), (long long)cn_module_count(net, false), EXAMPLES);
    accuracy = train(net, head, images, test, 60, 20);
  }
  cn_module_release(net);
  net = cn_zoo("lenet", .image = SIDE, .classes = 2);
  if (net && images && test) {
    printf("a network that has learnt nothing before learns the same\n");
    accuracy_alone = train(net, net, images, test, 60, 20);
  }
  cn_module_release(net);
  cn_loader_free(test);
  cn_loader_free(images);
  printf("with what it knew %.1f %%, without %.1f %%\n", 100 * accuracy, 100 * accuracy_alone);
  return accuracy > 0.85;
}

/* ---- photographs ---- */

static bool learn_folder(const char *network, const char *weights, const char *folder, int64_t epochs)
{
  static const double mean[] = {0.485, 0.456, 0.406}, std[] = {0.229, 0.224, 0.225}; /* of ImageNet's pixels */
  cn_dataset *set = cn_image_folder(folder), *parts[2] = {NULL, NULL};
  if (!set) return false;
  int64_t classes = 0, n = cn_dataset_length(set);
  const int64_t sizes[2] = {n - n / 5, n / 5};
  while (cn_dataset_label(set, (size_t)classes)) classes++;
  set = cn_dataset_transform(set, CN_TRANSFORMS(cn_transform_resize(256, 0), cn_transform_center_crop(224, 224),
                                                cn_transform_normalize(mean, std, 3)));
  if (!set) return false;
  cn_dataset_split(parts, set, sizes, 2, 1); /* which keep the set */
  cn_dataset_release(set);
  cn_loader *images = cn_loader_new(parts[0], .batch = 16, .shuffle = true, .workers = 1);
  cn_loader *test = cn_loader_new(parts[1], .batch = 16, .workers = 1);
  cn_module *net = cn_zoo(network, .pretrained = weights);
  cn_module *head = net ? replace_head(net, classes) : NULL;
  if (head && images && test) {
    printf("%lld images of %lld classes; %lld of %lld parameters learn\n", (long long)n, (long long)classes,
           (long long)cn_module_count(net, true), (long long)cn_module_count(net, false));
    train(net, head, images, test, epochs, 1);
  }
  cn_module_release(net);
  cn_loader_free(test);
  cn_loader_free(images);
  return true;
}

int main(int argc, char **argv)
{
  bool fine;
  cn_seed(1);
  if (argc >= 4) {
    fine = learn_folder(argv[1], argv[2], argv[3], argc > 4 ? strtoll(argv[4], NULL, 10) : 5);
  } else if (argc == 1) {
    char path[1000]; /* beside the program */
    snprintf(path, sizeof path, "%s.safetensors", argv[0]);
    fine = learn_digits(path);
    cn_file_remove(path);
  } else {
    fprintf(stderr, "usage: %s [NETWORK WEIGHTS FOLDER [EPOCHS]]\n", argv[0]);
    return 2;
  }
  if (cn_err()) fprintf(stderr, "%s\n", cn_err_message());
  return cn_err() || !fine ? 1 : 0;
}
