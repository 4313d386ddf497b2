/* runs.c: see runs.h. */
#include "runs.h"

#include <cairn/ext/system.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

cn_module *small_net(void)
{
  return cn_nn_sequential(cn_nn_conv2d(1, 6, 3), cn_nn_batch_norm2d(6), cn_nn_relu(), cn_nn_flatten(),
                          cn_nn_dropout(.p = 0.25), cn_nn_linear(6 * 6 * 6, 10));
}

/* Noise and a shift that depend on the sample and the epoch alone. */
static int augment(cn_sample *sample, cn_draws *draws, void *payload)
{
  (void)payload;
  int64_t shift = cn_draw_below(draws, 3) - 1;
  double brightness = 1 + 0.1 * cn_draw_normal(draws);
  cn_tensor *x = cn_roll(sample->v[0], CN_SHAPE(shift), .dims = CN_INTS(2));
  return cn_set(&sample->v[0], cn_mul(x, cn_num(brightness)));
}

cn_dataset *some_digits(cn_part part, int64_t n, bool augmented)
{
  cn_dataset *set = cn_dataset_range(cn_digits(part), 0, n);
  return augmented ? cn_dataset_map(set, augment, NULL, NULL) : set;
}

int small_run_begin(small_run *run)
{
  *run = (small_run){0};
  cn_seed(5);
  run->net = small_net();
  run->opt = cn_optim_adam(run->net, .lr = 3e-3);
  run->schedule = cn_lr_step(run->opt, 3, .gamma = 0.9);
  run->loader = cn_loader_new(some_digits(CN_TRAIN, 50, true), .batch = 8, .shuffle = true);
  return cn_err();
}

void small_run_end(small_run *run)
{
  cn_loader_free(run->loader);
  cn_schedule_free(run->schedule);
  cn_optim_free(run->opt);
  cn_module_release(run->net);
}

uint64_t net_sum(cn_module *net)
{
  cn_tree *state = cn_module_state(net);
  uint64_t sum = 1;
  for (size_t i = 0; i < cn_tree_size(state); i++) {
    cn_tensor *t = cn_tree_as_tensor(cn_tree_at(state, i));
    const unsigned char *p = cn_data(t);
    for (size_t k = 0; k < cn_tensor_nbytes(t); k++) sum = sum * 1099511628211u + p[k];
  }
  cn_tree_free(state);
  return sum;
}

static const char *folder(void)
{
  static char path[600];
  const char *tmp = getenv("TMPDIR");
  snprintf(path, sizeof path, "%s/cairn-train-%d", tmp ? tmp : "/tmp", (int)getpid());
  return path;
}

const char *temporary(const char *name)
{
  static char paths[16][800];
  static unsigned next;
  char *path = paths[next++ % 16];
  cn_folder_make(folder());
  snprintf(path, sizeof paths[0], "%s/%s", folder(), name);
  return path;
}

static void remove_folder(const char *path)
{
  cn_names names;
  char below[1200];
  if (cn_folder_list(&names, path)) return;
  for (size_t i = 0; i < names.n; i++) {
    snprintf(below, sizeof below, "%s/%s", path, names.v[i]);
    if (cn_path_kind_of(below) == CN_PATH_FOLDER) remove_folder(below);
    else unlink(below);
  }
  cn_names_free(&names);
  rmdir(path);
}

void remove_temporary(void)
{
  if (cn_path_kind_of(folder()) == CN_PATH_FOLDER) remove_folder(folder());
}
