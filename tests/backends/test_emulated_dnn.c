/* test_emulated_dnn.c: convolutions by cuDNN's graphs, on an emulation of driver and library (tests/simt): images of
 * few channels that are folded, groups of few, engines that are tried, and a kernel of ours beside them.
 *
 * The library has three engines (tests/simt/dnn.c) and counts their runs. What one process tried, another finds on
 * disk: the program runs itself again for that (stages). */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "test.h"

#include <cairn/cairn.h>
#include <cairn/kw.h>
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <sys/wait.h>

#include "emulated.h"
#include "simt/simt_driver.h"

/* Which run of this program it is: "" the first. */
static const char *stage(void)
{
  const char *s = getenv("CAIRN_TEST_STAGE");
  return s ? s : "";
}

static int *runs; /* of each engine, by the library's own count; NULL: it is not there */

static void need_library(void)
{
  need_device();
  void *library = dlopen("libcudnn.so.9", RTLD_NOW);
  runs = library ? dlsym(library, "simt_dnn_runs") : NULL;
  if (!runs) SKIP_TEST("no cuDNN");
}

static int all_runs(void) { return runs[0] + runs[1] + runs[2]; }

typedef struct layer {
  int64_t n, c, h, w, k, r, s, stride[2], padding[2];
} layer;

static cn_tensor *convolve(cn_tensor *x, cn_tensor *w, cn_tensor *b, const layer *l)
{
  return cn_conv2d(x, w, b, .stride = CN_INTS(l->stride[0], l->stride[1]),
                   .padding = CN_INTS(l->padding[0], l->padding[1]));
}

/* Result and the filter's gradient, against the CPU's in float32 from the same rounded numbers. */
static void check_layer(const layer *l, bool last, bool batched)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_cast(cn_randn(CN_SHAPE(l->n, l->c, l->h, l->w)), CN_BF16);
  cn_tensor *w = cn_cast(cn_randn(CN_SHAPE(l->k, l->c, l->r, l->s)), CN_BF16);
  cn_tensor *b = cn_cast(cn_randn(CN_SHAPE(l->k)), CN_BF16), *y[2], *g[2];
  if (last) x = cn_channels_last(x), w = cn_channels_last(w);
  if (!batched) x = cn_select(x, 0, 0);
  int before = all_runs();
  for (int far = 0; far < 2; far++) {
    cn_tensor *xs = far ? there(x) : cn_cast(x, CN_F32), *bs = far ? there(b) : cn_cast(b, CN_F32);
    cn_tensor *ws = cn_requires_grad(far ? there(w) : cn_cast(w, CN_F32), true);
    y[far] = convolve(xs, ws, bs, l);
    assert_int_equal(cn_backward(cn_sum(cn_mul(y[far], cn_num(0.125)))), 0);
    g[far] = cn_grad_of(ws);
  }
  assert_true(all_runs() >= before + 2);
  close_to("a convolution of few channels", y[0], y[1], 1e-2);
  close_to("its filter's gradient", g[0], g[1], 2e-2);
  cn_scope_end(s);
}

static void few_channels(void **state)
{
  (void)state;
  static const layer layers[] = {
      {2, 3, 66, 66, 32, 7, 7, {2, 2}, {3, 3}},  /* the first layer of a ResNet */
      {2, 3, 65, 71, 32, 5, 3, {2, 1}, {0, 2}},
      {1, 1, 97, 90, 96, 4, 6, {3, 4}, {2, 0}},
      {1, 3, 70, 64, 48, 7, 7, {3, 1}, {3, 3}},  /* nearly as many channels as there is room for */
      {2, 4, 61, 67, 8, 3, 3, {1, 1}, {1, 1}},
      {1, 7, 60, 60, 24, 3, 2, {1, 2}, {1, 1}},
  };
  need_library();
  cn_seed(3);
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
    for (int last = 0; last < 2; last++) check_layer(&layers[i], last, i != 2 || last);
}

/* Signals whose groups have few channels: no engine for Tensor Cores (0, which has a workspace) fills them up. All
 * gradients, against the CPU's. */
static void groups_of_few(void **state)
{
  (void)state;
  static const struct {
    int64_t n, c, l, k, s, dilation, groups;
  } signals[] = {
      {2, 4, 4099, 4, 4, 2, 2}, {2, 4, 4099, 4, 4, 1, 2}, {3, 6, 459, 12, 2, 1, 3}, {1, 24, 921, 24, 3, 1, 12}};
  need_library();
  cn_seed(5);
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
    for (int type = 0; type < 2; type++) {
      cn_scope *s = cn_scope_begin();
      int64_t n = signals[i].n, c = signals[i].c, groups = signals[i].groups, k = signals[i].k;
      cn_tensor *x = cn_randn(CN_SHAPE(n, c, signals[i].l)), *w = cn_randn(CN_SHAPE(k, c / groups, signals[i].s));
      cn_tensor *in[3] = {x, w, cn_randn(CN_SHAPE(k))}, *y[2], *grads[2][3];
      int before[3] = {runs[0], runs[1], runs[2]};
      for (int far = 0; far < 2; far++) {
        cn_tensor *t[3];
        for (int j = 0; j < 3; j++) {
          cn_tensor *rounded = cn_cast(in[j], type ? CN_BF16 : CN_F32);
          t[j] = cn_requires_grad(far ? there(rounded) : cn_cast(rounded, CN_F32), true);
        }
        y[far] = cn_conv1d_padding(t[0], t[1], t[2], .padding = "same", .groups = groups,
                                   .dilation = CN_INTS(signals[i].dilation));
        assert_int_equal(cn_backward(cn_sum(cn_mul(y[far], y[far]))), 0);
        for (int j = 0; j < 3; j++) grads[far][j] = cn_grad_of(t[j]);
      }
      assert_true(runs[0] == before[0] && runs[1] == before[1] + 3 && runs[2] == before[2]);
      close_to("a convolution by groups of few channels", y[0], y[1], type ? 3e-2 : 1e-4);
      for (int j = 0; j < 3; j++) close_to("its gradients", grads[0][j], grads[1][j], type ? 0.2 : 1e-3);
      cn_scope_end(s);
    }
}

/* Runs of engines by one convolution; it must be right. */
static void count_runs(int have[3], cn_tensor *x, cn_tensor *w)
{
  cn_scope *s = cn_scope_begin();
  int before[3] = {runs[0], runs[1], runs[2]};
  cn_tensor *far = cn_conv2d(there(x), there(w), NULL, .padding = CN_INTS(1));
  close_to("a convolution", cn_conv2d(cn_cast(x, CN_F32), cn_cast(w, CN_F32), NULL, .padding = CN_INTS(1)), far, 1e-2);
  for (int i = 0; i < 3; i++) have[i] = runs[i] - before[i];
  cn_scope_end(s);
}

static void tried_engines(void **state)
{
  (void)state;
  bool second = !strcmp(stage(), "engines again");
  int have[3];
  need_library();
  cn_scope *s = cn_scope_begin();
  cn_seed(4);
  cn_tensor *x = cn_randn(CN_SHAPE(1, 16, 48, 48)), *w = cn_randn(CN_SHAPE(32, 16, 3, 3));
  cn_tensor *small = cn_randn(CN_SHAPE(1, 16, 8, 8));
  cn_tensor *xh = cn_cast(x, CN_BF16), *wh = cn_cast(w, CN_BF16);
  count_runs(have, xh, wh);
  assert_true(second ? have[0] == 0 && have[1] == 1 : have[0] > 1 && have[1] > 1); /* found; or tried */
  assert_int_equal(have[2], 0); /* it would have to be compiled */
  count_runs(have, xh, wh);
  assert_true(have[0] == 0 && have[1] == 1); /* the faster one stays */
  count_runs(have, x, w);
  assert_true(have[0] == 0 && have[1] >= 1); /* float32 is not rounded */
  for (int i = 0; i < 2; i++) {
    count_runs(have, cn_cast(small, CN_BF16), wh);
    assert_true(have[0] == 1 && have[1] == 0); /* too little work: the first */
  }
  cn_set_deterministic(CN_DETERMINISTIC_CONV);
  for (int i = 0; i < 2; i++) {
    count_runs(have, xh, wh);
    assert_true(have[0] == 1 && have[1] == 0); /* no clock decides */
  }
  cn_set_deterministic(CN_DETERMINISTIC_OFF);
  cn_scope_end(s);
}

/* Few pixels: kernels/conv_small.cu is tried beside the engines, of which the faster one takes two milliseconds. What
 * was faster stays, in this process and in the next, whatever the clock would say then. A process has time for
 * one trial of all engines. */
static void tried_rival(void **state)
{
  (void)state;
  bool slow = strstr(stage(), "slow") != NULL, again = strstr(stage(), "again") != NULL;
  int have[3];
  need_library();
  simt_counts_t *counts = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "simt_counts");
  assert_non_null(counts);
  cn_scope *s = cn_scope_begin();
  cn_seed(8);
  cn_tensor *x = cn_cast(cn_randn(CN_SHAPE(1, 128, 14, 14)), CN_BF16);
  cn_tensor *w = cn_cast(cn_randn(CN_SHAPE(slow ? 56 : 48, 128, 3, 3)), CN_BF16);
  counts->launch_takes = slow != again ? 5 : 0.5F;
  count_runs(have, x, w);
  if (again) assert_true(have[0] == 0 && have[1] == slow);
  else assert_true(have[0] > 1 && have[1] > 1);
  counts->launch_takes = slow ? 0.5F : 5;
  count_runs(have, x, w);
  assert_true(have[0] == 0 && have[1] == slow && have[2] == 0);
  cn_set_deterministic(CN_DETERMINISTIC_CONV);
  count_runs(have, x, w);
  assert_true(have[0] == 1 && have[1] == 0); /* no clock decides */
  cn_set_deterministic(CN_DETERMINISTIC_OFF);
  if (!slow && !again) { /* whether there is time for all engines or not, the rival is tried beside one */
    cn_tensor *larger = cn_cast(cn_randn(CN_SHAPE(1, 128, 15, 14)), CN_BF16);
    counts->launch_takes = 0.5F;
    for (int i = 0; i < 2; i++) count_runs(have, larger, w);
    assert_true(have[0] == 0 && have[1] == 0);
  }
  counts->launch_takes = 0;
  cn_scope_end(s);
}

/* Plans that an earlier run of this program left. */
static void forget_plans(void)
{
  const char *folder = getenv("CAIRN_CACHE");
  DIR *d = folder ? opendir(folder) : NULL;
  for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
    char path[1500];
    snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    if (!strncmp(e->d_name, "cudnn-", 6)) remove(path);
  }
  if (d) closedir(d);
}

static int run_again(char **argv, const char *name)
{
  int status = 1;
  pid_t child = fork();
  if (child == 0) {
    setenv("CAIRN_TEST_STAGE", name, 1);
    execv(argv[0], argv);
    _exit(1);
  }
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int argc, char **argv)
{
  static const char *const stages[] = {"engines again", "rival", "rival again", "slow rival"};
  const struct CMUnitTest tests[] = {cmocka_unit_test(tried_engines), cmocka_unit_test(few_channels),
                                     cmocka_unit_test(groups_of_few)};
  const struct CMUnitTest engines[] = {cmocka_unit_test(tried_engines)}, rival[] = {cmocka_unit_test(tried_rival)};
  if (argc > 0) emulate_with(argv, "dnn");
  if (!strcmp(stage(), "engines again")) return cmocka_run_group_tests(engines, find_emulated, NULL);
  if (*stage()) return cmocka_run_group_tests(rival, find_emulated, NULL);
  if (getenv("CAIRN_EMULATED")) forget_plans();
  int failed = cmocka_run_group_tests(tests, find_emulated, NULL);
  for (size_t i = 0; gpu && i < sizeof stages / sizeof *stages && !failed; i++) failed = run_again(argv, stages[i]);
  return failed;
}
