/* demo.c: `cairn demo`: trains a small convolutional network on hand-written digits and shows what it reads.
 *
 * All of it is here on purpose, with tensors and autograd alone: parameters, network, Adam, the training
 * loop. Invariant: a step opens a scope of its own, so memory does not grow with the number of steps. */
#include <cairn/cairn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "command.h"
#include "digits.h"
#include "draw.h"

enum { BATCH = 32, SHOWN = 8, PARAMS = 6 };
enum { CONV1, BIAS1, CONV2, BIAS2, LINEAR, BIAS3 };

typedef struct net {
  cn_tensor *p[PARAMS];             /* the parameters, and for each of them */
  cn_tensor *m[PARAMS], *v[PARAMS]; /* Adam's running means of the gradient and of its square */
  int step;
} net;

typedef struct set {
  cn_tensor *x; /* (n, 1, 8, 8); for training (n, 1, 10, 10), with a white margin */
  cn_tensor *y; /* (n) */
} set;

typedef struct options {
  int epochs;
  uint64_t seed;
  cn_device device;
} options;

static double seconds(void)
{
  struct timespec now;
  timespec_get(&now, TIME_UTC);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- network ---- */

/* Uniform in +-1/sqrt(fan_in), where fan_in is how many numbers meet in one result. */
static cn_tensor *parameter(const int64_t *shape, size_t ndim, int64_t fan_in, cn_device device)
{
  double bound = 1 / sqrt((double)fan_in);
  cn_tensor *t = cn_rand(shape, ndim, .device = device);
  t = cn_sub(cn_mul(t, cn_num(2 * bound)), cn_num(bound));
  return cn_keep(cn_requires_grad(t, true));
}

static void net_init(net *n, cn_device device)
{
  cn_scope *s = cn_scope_begin();
  n->p[CONV1] = parameter(CN_SHAPE(16, 1, 3, 3), 9, device);
  n->p[BIAS1] = parameter(CN_SHAPE(16), 9, device);
  n->p[CONV2] = parameter(CN_SHAPE(32, 16, 3, 3), 16 * 9, device);
  n->p[BIAS2] = parameter(CN_SHAPE(32), 16 * 9, device);
  n->p[LINEAR] = parameter(CN_SHAPE(10, 32 * 4 * 4), 32 * 4 * 4, device);
  n->p[BIAS3] = parameter(CN_SHAPE(10), 32 * 4 * 4, device);
  for (int i = 0; i < PARAMS; i++) {
    n->m[i] = cn_keep(cn_zeros_like(n->p[i]));
    n->v[i] = cn_keep(cn_zeros_like(n->p[i]));
  }
  n->step = 0;
  cn_scope_end(s);
}

static void net_free(net *n)
{
  for (int i = 0; i < PARAMS; i++) {
    cn_release(n->p[i]);
    cn_release(n->m[i]);
    cn_release(n->v[i]);
  }
}

/* x: (n, 1, 8, 8) -> (n, 10), one score per digit. */
static cn_tensor *net_forward(const net *n, cn_tensor *x)
{
  x = cn_relu(cn_conv2d(x, n->p[CONV1], n->p[BIAS1], .padding = {1}));
  x = cn_relu(cn_conv2d(x, n->p[CONV2], n->p[BIAS2], .padding = {1}));
  x = cn_max_pool2d(x, CN_SHAPE(2, 2));
  return cn_linear(cn_flatten(x, .start_dim = 1), n->p[LINEAR], n->p[BIAS3]);
}

/* ---- training ---- */

/* One update of every parameter from its gradient, which is then dropped. */
static void adam(net *n, double rate)
{
  const double b1 = 0.9, b2 = 0.999, eps = 1e-8;
  int saved = cn_no_grad_begin();
  n->step++;
  double size = rate / (1 - pow(b1, n->step)), scale = 1 / sqrt(1 - pow(b2, n->step));
  for (int i = 0; i < PARAMS; i++) {
    cn_tensor *g = cn_grad_of(n->p[i]);
    cn_add_(cn_mul_(n->m[i], cn_num(b1)), g, .alpha = 1 - b1);
    cn_addcmul_(cn_mul_(n->v[i], cn_num(b2)), g, g, .value = 1 - b2);
    cn_tensor *root = cn_add(cn_mul(cn_sqrt(n->v[i]), cn_num(scale)), cn_num(eps));
    cn_addcdiv_(n->p[i], n->m[i], root, .value = -size);
    cn_zero_grad(n->p[i]);
  }
  cn_no_grad_end(saved);
}

/* Images with a margin of one pixel, from which every step cuts its own part: the network learns to read
 * digits wherever they stand. x: (n, 1, 8, 8) -> (n, 1, 10, 10). */
static cn_tensor *with_margin(cn_tensor *x)
{
  cn_tensor *wide = cn_zeros(CN_SHAPE(cn_size(x, 0), 1, DIGITS_SIDE + 2, DIGITS_SIDE + 2));
  cn_copy_(cn_narrow(cn_narrow(wide, 2, 1, DIGITS_SIDE), 3, 1, DIGITS_SIDE), x);
  return wide;
}

/* x: (n, 1, 10, 10) -> (n, 1, 8, 8), moved by up to one pixel each way, in turn. */
static cn_tensor *shifted(cn_tensor *x, int step)
{
  return cn_narrow(cn_narrow(x, 2, step % 3, DIGITS_SIDE), 3, step / 3 % 3, DIGITS_SIDE);
}

/* One pass over the images in random order. */
static void train_epoch(net *n, const set *train, const options *o, int epoch, double start)
{
  cn_scope *outer = cn_scope_begin();
  cn_tensor *order = cn_randperm(DIGITS_TRAIN, .device = o->device);
  double sum = 0, rate = 5e-3 * (1 - (double)epoch / o->epochs);
  int steps = DIGITS_TRAIN / BATCH;
  for (int i = 0; i < steps && !cn_err(); i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *pick = cn_narrow(order, 0, i * BATCH, BATCH);
    cn_tensor *x = shifted(cn_index_select(train->x, 0, pick), n->step);
    cn_tensor *y = cn_index_select(train->y, 0, pick);
    cn_tensor *loss = cn_cross_entropy(net_forward(n, x), y, NULL);
    cn_backward(loss);
    adam(n, rate);
    sum += cn_item(loss);
    draw_progress(epoch, o->epochs, (i + 1.0) / steps, sum / (i + 1), seconds() - start);
    cn_scope_end(s);
  }
  cn_scope_end(outer);
}

/* What the network takes each image for, into guesses[n]. Returns how many are right; -1 on an error. */
static int read_digits(const net *n, const set *test, int64_t *guesses)
{
  int right = 0, saved = cn_inference_begin();
  cn_scope *s = cn_scope_begin();
  cn_tensor *best = cn_argmax(net_forward(n, test->x), 1);
  int status = cn_to_data(guesses, DIGITS_TEST * sizeof *guesses, best);
  for (int i = 0; !status && i < DIGITS_TEST; i++) right += guesses[i] == digits_label(DIGITS_TRAIN + i);
  cn_scope_end(s);
  cn_inference_end(saved);
  return status ? -1 : right;
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

static int parse(options *o, int argc, char **argv)
{
  const char *value;
  for (int i = 1; i < argc; i++) {
    char *end = "";
    if ((value = command_option(argc, argv, &i, "--epochs"))) o->epochs = (int)strtol(value, &end, 10);
    else if ((value = command_option(argc, argv, &i, "--seed"))) o->seed = strtoull(value, &end, 10);
    else if ((value = command_option(argc, argv, &i, "--device"))) o->device = cn_device_find(value);
    else return command_usage(argv[0], argv[i]);
    if (*end || o->epochs < 1) return command_usage(argv[0], value);
  }
  return cn_err() ? command_failed() : 0;
}

int command_demo(int argc, char **argv)
{
  options o = {20, 1, CN_CPU};
  net n = {{NULL}, {NULL}, {NULL}, 0};
  int64_t guesses[DIGITS_TEST];
  int status = parse(&o, argc, argv);
  if (status) return status;
  double start = seconds();
  cn_seed(o.seed);
  cn_scope *s = cn_scope_begin();
  set train = {cn_to_device(with_margin(digits_images(0, DIGITS_TRAIN)), o.device),
               cn_to_device(digits_labels(0, DIGITS_TRAIN), o.device)};
  set test = {cn_to_device(digits_images(DIGITS_TRAIN, DIGITS_TEST), o.device), NULL};
  net_init(&n, o.device);
  printf("Training a convolutional network on %d hand-written digits (%d threads).\n", DIGITS_TRAIN,
         cn_num_threads());
  for (int epoch = 0; epoch < o.epochs && !cn_err(); epoch++) train_epoch(&n, &train, &o, epoch, start);
  int right = read_digits(&n, &test, guesses);
  if (right >= 0) {
    show(guesses);
    printf("It reads %d of %d digits that it was not trained on: %.1f %%, after %.1f s.\n", right,
           DIGITS_TEST, 100.0 * right / DIGITS_TEST, seconds() - start);
  }
  net_free(&n);
  cn_scope_end(s);
  return right < 0 ? command_failed() : 0;
}
