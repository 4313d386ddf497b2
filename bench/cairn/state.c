/* state.c: cairn's side of what a training program does with its parameters as a whole: an update of 50 M of them by
 * Adam, and a file of weights read into a network's parameters.
 *
 * Invariant: shapes and numbers are those of peers/torch_state.py.
 */
#include "side.h"

#include <cairn/cairn.h>
#include <unistd.h>

enum { TENSORS = 50, ROWS = 1000, COLUMNS = 1000 };

static cn_module *net; /* parameters "0" .. "49", of a million elements each */
static cn_optim *opt;
static char path[256];

static void drop(void)
{
  cn_optim_free(opt);
  cn_module_release(net);
  opt = NULL;
  if (*path) remove(path);
}

static void make(void)
{
  char name[16];
  drop();
  net = cn_nn_module_list_of(NULL, 0);
  for (int i = 0; net && i < TENSORS; i++) {
    snprintf(name, sizeof name, "%d", i);
    cn_module_add_parameter(net, name, side_fill(CN_SHAPE(ROWS, COLUMNS), 100 + (uint64_t)i, 1));
  }
}

static void prepare_adam(void)
{
  make();
  opt = cn_optim_adam(net, .lr = 1e-3);
  for (size_t i = 0; i < TENSORS; i++)
    cn_set_grad(cn_module_slot(net, i), side_fill(CN_SHAPE(ROWS, COLUMNS), 200 + i, 1));
}

static void adam(void)
{
  cn_optim_step(opt);
  result[0] = cn_module_slot(net, TENSORS - 1);
}

static void prepare_load(void)
{
  const char *tmp = getenv("TMPDIR");
  make();
  snprintf(path, sizeof path, "%s/cairn-bench-state-%ld.safetensors", tmp ? tmp : "/tmp", (long)getpid());
  atexit(drop);
  cn_module_save(net, path);
}

static void load(void)
{
  cn_tree *file = cn_load(path);
  cn_module_load(net, file);
  cn_tree_free(file);
  result[0] = cn_module_slot(net, TENSORS - 1);
}

/* Adam reads parameter, gradient and two moments and writes all but the gradient. */
static const struct side_case works[] = {
  {"adam_50m", "", "byte", 7.0 * 4 * TENSORS * ROWS * COLUMNS, prepare_adam, adam, {0}},
  {"safetensors_load", "", "byte", 4.0 * TENSORS * ROWS * COLUMNS, prepare_load, load, {0}},
};

int main(int argc, char **argv) { return side_serve(argc, argv, works, sizeof works / sizeof *works); }
