/* demo.c: `cairn demo`: trains a convolutional network on hand-written digits and shows what it reads.
 *
 * Place in the flow: a description file like any other, trained as `cairn train` does it. Invariant: the last 360
 * digits, by other writers, are neither trained on nor used to choose anything. */
#include <cairn/cairn.h>
#include <cairn/ext/system.h>
#include <cairn/io.h>
#include <cairn/train.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "digits.h"
#include "draw.h"
#include "model.h"
#include "training.h"

const char help_demo[] =
    "The network is that of examples/digits.cfg: convolutions with batch norm, trained on 1,437 digits that are moved\n"
    "and turned a little each time; 360 digits by other writers test it. Checkpoint, TensorBoard log and a digit as\n"
    "an image go to runs/demo.\n"
    "\n"
    "  --epochs N --seed N --device D --out DIR\n";

enum { SHOWN = 8 };

/* examples/digits.cfg without its comments; a test compares the two. */
static const char description[] =
    "[net]\n"
    "input = 1, 8, 8\n"
    "[data]\n"
    "set = digits\n"
    "batch = 32\n"
    "[augment]\n"
    "RandomAffine = 10, 0.1, 0.9, 1.1\n"
    "[solver]\n"
    "epochs = 30\n"
    "optimizer = AdamW\n"
    "lr = 0.005\n"
    "weight_decay = 0.05\n"
    "schedule = OneCycleLR\n"
    "label_smoothing = 0.05\n"
    "seed = 1\n"
    "[Conv2d] out_channels = 32 kernel_size = 3 padding = 1 bias = false\n"
    "[BatchNorm2d]\n"
    "[ReLU]\n"
    "[Conv2d] out_channels = 32 kernel_size = 3 padding = 1 bias = false\n"
    "[BatchNorm2d]\n"
    "[ReLU]\n"
    "[MaxPool2d] kernel_size = 2\n"
    "[Conv2d] out_channels = 64 kernel_size = 3 padding = 1 bias = false\n"
    "[BatchNorm2d]\n"
    "[ReLU]\n"
    "[Flatten]\n"
    "[Dropout] p = 0.3\n"
    "[Linear] out_features = 10\n";

/* What the network takes each test image for, into guesses[DIGITS_TEST]. */
static int read_digits(int64_t *guesses, const char *out)
{
  model m;
  cn_scope *s = cn_scope_begin();
  if (!model_open(&m, out, NULL)) {
    int saved = cn_inference_begin();
    cn_tensor *best = cn_argmax(cn_forward(m.net, digits_images(DIGITS_TRAIN, DIGITS_TEST)), 1);
    cn_to_data(guesses, DIGITS_TEST * sizeof *guesses, best);
    cn_inference_end(saved);
  }
  model_close(&m);
  cn_scope_end(s);
  return cn_err();
}

/* Draws some test images: up to two that were misread, the others spread over the set. */
static void show(const int64_t *guesses)
{
  int images[SHOWN], read[SHOWN], n = 0;
  for (int i = 0; i < DIGITS_TEST && n < 2; i++)
    if (guesses[i] != digits_label(DIGITS_TRAIN + i)) images[n++] = DIGITS_TRAIN + i;
  for (int i = n; i < SHOWN; i++) images[n++] = DIGITS_TRAIN + i * (DIGITS_TEST / SHOWN) + 7;
  for (int i = 0; i < SHOWN; i++) read[i] = (int)guesses[images[i] - DIGITS_TRAIN];
  printf("\n");
  draw_digits(images, read, SHOWN);
}

/* A test digit for `cairn predict`: as an image where those can be read here, else as an array. Writes its path. */
static int save_digit(char *path, const char *out)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *image = cn_reshape(digits_images(DIGITS_TRAIN + 7, 1), CN_SHAPE(1, DIGITS_SIDE, DIGITS_SIDE));
  if (image && (cn_image_save(command_join(path, out, "digit.png"), image) || !cn_image_load(path, 1))) {
    cn_err_clear();
    cn_save_npy(command_join(path, out, "digit.npy"), image);
  }
  cn_scope_end(s);
  return cn_err();
}

static int parse(cn_description *d, training *t, int argc, char **argv)
{
  const char *epochs = NULL, *seed = NULL, *device = NULL;
  int64_t n = 1, number = 0;
  const command_flag flags[] = {{"--epochs", &epochs, NULL}, {"--seed", &seed, NULL}, {"--device", &device, NULL},
                                {"--out", &t->out, NULL}, {NULL, NULL, NULL}};
  if (command_parse(argc, argv, flags, NULL, 0) < 0) return 2;
  if (!command_whole(&n, epochs) || n < 1) return command_usage(argv[0], epochs);
  if (!command_whole(&number, seed) || number < 0) return command_usage(argv[0], seed);
  if (epochs) cn_description_set(d, "solver", "epochs", epochs);
  if (seed) cn_description_set(d, "solver", "seed", seed);
  if (device) t->device = cn_device_find(device);
  return cn_err() ? command_failed() : 0;
}

static int finish(const training *t, double seconds)
{
  int64_t guesses[DIGITS_TEST];
  char digit[COMMAND_PATH];
  int right = 0;
  if (read_digits(guesses, t->out) || save_digit(digit, t->out)) return command_failed();
  for (int i = 0; i < DIGITS_TEST; i++) right += guesses[i] == digits_label(DIGITS_TRAIN + i);
  show(guesses);
  printf("It reads %d of %d digits that it was not trained on: %.1f %%, after %.1f s.\n\n", right, DIGITS_TEST,
         100.0 * right / DIGITS_TEST, seconds);
  printf("To try next:\n"
         "  %s predict %s %s    # what it takes a digit for\n"
         "  %s train examples/digits.cfg    # the same from a text file: change it\n"
         "  tensorboard --logdir %s    # curves and weights in the browser\n",
         command_program, t->out, digit, command_program, t->out);
  return 0;
}

int command_demo(int argc, char **argv)
{
  training t = {.out = "runs/demo", .device = CN_CPU, .no_best = true};
  cn_description *d = cn_description_read(description, strlen(description), "demo");
  int status = d ? parse(d, &t, argc, argv) : command_failed();
  double start = cn_clock();
  if (!status) {
    printf("Training a convolutional network on %d hand-written digits (%d threads).\n", DIGITS_TRAIN,
           cn_num_threads());
    if (training_run(&t, d)) status = command_failed();
    else if (t.interrupted) status = printf("Stopped.\n") > 0 ? 130 : 1;
  }
  cn_description_free(d);
  return status ? status : finish(&t, cn_clock() - start);
}
