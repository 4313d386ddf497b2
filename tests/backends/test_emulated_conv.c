/* test_emulated_conv.c: convolutions of 16-bit floats by Tensor Cores, of few pixels (kernels/conv_small.cu), emulated
 * without a cuDNN (tests/simt): each tile and each number of blocks that share one. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "test.h"

#include <cairn/cairn.h>
#include <cairn/ext/parts.h>
#include <cairn/kw.h>
#include <dlfcn.h>
#include <stdio.h>

#include "emulated.h"
#include "simt/simt_driver.h"

enum { UNITS = 16 };
static simt_counts_t *counts;

static int begin(void **state)
{
  void *driver = getenv("CAIRN_EMULATED") ? dlopen("libcuda.so.1", RTLD_NOW) : NULL;
  counts = driver ? dlsym(driver, "simt_counts") : NULL;
  if (counts) counts->units = UNITS;
  return find_emulated(state);
}

/* Which kernel the last convolution ran by. */
static char taken[100];
static void listen(cn_log_level level, const char *text, void *payload)
{
  (void)level, (void)payload;
  if (!strncmp(text, "conv2d", 6) && strstr(text, ": cuda/")) snprintf(taken, sizeof taken, "%s", text);
}

typedef struct layer {
  int64_t n, c, h, w, k, r, s, stride[2], padding[2], dilation[2];
  int cluster; /* blocks that are to share a tile */
  bool bias, residual, relu;
} layer;

static cn_tensor *convolve(cn_tensor *const *in, const layer *l)
{
  return cn_conv2d_fused(in[0], in[1], in[2], l->stride, 2, l->padding, 2, l->dilation, 2, 1, in[3], l->relu);
}

/* A layer against sums of float64, from the same rounded numbers: what is left is the result's own rounding, by 2^-11
 * or 2^-8 of it, and float32's in sums of up to 2,304 products. */
static void check_layer(const layer *l, cn_dtype dtype)
{
  cn_scope *s = cn_scope_begin();
  int64_t oh = (l->h + 2 * l->padding[0] - (l->r - 1) * l->dilation[0] - 1) / l->stride[0] + 1;
  int64_t ow = (l->w + 2 * l->padding[1] - (l->s - 1) * l->dilation[1] - 1) / l->stride[1] + 1;
  cn_tensor *given[4] = {cn_channels_last(cn_randn(CN_SHAPE(l->n, l->c, l->h, l->w))),
                         cn_channels_last(cn_randn(CN_SHAPE(l->k, l->c, l->r, l->s))),
                         l->bias ? cn_randn(CN_SHAPE(l->k)) : NULL,
                         l->residual ? cn_channels_last(cn_randn(CN_SHAPE(l->n, l->k, oh, ow))) : NULL};
  cn_tensor *wide[4] = {NULL}, *far[4] = {NULL};
  for (int i = 0; i < 4; i++) {
    cn_tensor *rounded = given[i] ? cn_cast(given[i], dtype) : NULL;
    if (rounded) wide[i] = cn_cast(rounded, CN_F64), far[i] = there(rounded);
  }
  taken[0] = 0;
  uint64_t before = counts->clusters[l->cluster];
  cn_tensor *have = convolve(far, l);
  assert_int_equal(cn_err(), 0);
  assert_non_null(strstr(taken, "cuda/conv_small.cu"));
  if (counts->clusters[l->cluster] == before) fail_msg("%d blocks do not share a tile", l->cluster);
  close_to("a convolution", convolve(wide, l), have, dtype == CN_F16 ? 5e-4 : 4e-3);
  close_to("its second run", cn_to_device(have, CN_CPU), convolve(far, l), 0);
  cn_scope_end(s);
}

static void tiles(void **state)
{
  (void)state;
  static const layer layers[] = {
      /* 32 x 32, 64 x 64, 128 x 64, ... */
      {1, 64, 5, 4, 8, 3, 3, {1, 1}, {1, 1}, {1, 1}, 8, .bias = true, .residual = true, .relu = true},
      {1, 8, 7, 9, 8, 1, 1, {2, 2}, {0, 0}, {1, 1}, 1, .relu = true},
      {1, 64, 5, 8, 96, 3, 3, {1, 1}, {2, 2}, {2, 2}, 8, .bias = true, .relu = true},
      {1, 64, 5, 14, 96, 3, 4, {1, 1}, {1, 1}, {1, 1}, 4, .residual = true},
      {1, 64, 25, 44, 8, 1, 1, {1, 1}, {0, 0}, {1, 1}, 1, .residual = true, .relu = true},
      {1, 256, 5, 13, 160, 3, 3, {1, 1}, {1, 1}, {1, 1}, 4, .bias = true},
      /* 64 x 32, 32 x 64 */
      {1, 64, 26, 20, 8, 3, 3, {1, 1}, {1, 1}, {1, 1}, 1, .bias = true},
      {2, 128, 13, 10, 8, 3, 3, {1, 1}, {1, 1}, {1, 1}, 2, .bias = true, .relu = true},
      {3, 40, 14, 8, 8, 5, 5, {2, 1}, {2, 2}, {1, 1}, 4, .residual = true},
      {1, 64, 4, 5, 96, 3, 3, {1, 1}, {1, 1}, {1, 1}, 8, .bias = true},
      {1, 72, 4, 10, 96, 1, 7, {1, 2}, {0, 3}, {1, 1}, 8},
  };
  need_device();
  cn_seed(6);
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) check_layer(&layers[i], i % 2 ? CN_BF16 : CN_F16);
}

/* What it does not take goes on to others, and is right there. */
static void others(void **state)
{
  (void)state;
  static const struct {
    int64_t c, k, groups;
    cn_dtype dtype;
  } cases[] = {{12, 64, 1, CN_F16}, {64, 12, 1, CN_BF16}, {64, 64, 2, CN_F16}, {32, 32, 1, CN_F32}};
  need_device();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *x = cn_cast(cn_randn(CN_SHAPE(1, cases[i].c, 6, 6)), cases[i].dtype);
    cn_tensor *w = cn_cast(cn_randn(CN_SHAPE(cases[i].k, cases[i].c / cases[i].groups, 3, 3)), cases[i].dtype);
    cn_tensor *have = cn_conv2d(there(x), there(w), NULL, .groups = cases[i].groups);
    if (!strstr(taken, "cuda/conv.cu")) fail_msg("case %zu: %s; %s", i, taken, cn_err_message());
    close_to("a convolution by plain sums",
             cn_conv2d(cn_cast(x, CN_F64), cn_cast(w, CN_F64), NULL, .groups = cases[i].groups), have, 4e-3);
    cn_scope_end(s);
  }
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(tiles), cmocka_unit_test(others)};
  if (argc > 0) emulate(argv);
  setenv("CAIRN_VERBOSE", "dispatch", 1);
  cn_set_log(listen, NULL);
  return cmocka_run_group_tests(tests, begin, NULL);
}
