/* test_clamps.c: convolutions take the relu or the clamp behind them along (src/graph/passes/clamps.c): the text shows
 * conv2d_clamped, and the numbers are eager's to the bit, by all kernels, with NaN, infinities and zeros of both signs
 * among them, and with what kernels keep of weights. */
#include <cairn/cairn.h>
#include <cairn/ext/graph.h>
#include <math.h>
#include <string.h>

#include "tensors.h"

typedef struct layer {
  int64_t n, c, h, w, k, window, stride, padding, groups;
  bool bias;
} layer;

static const layer layers[] = {
  {1, 16, 9, 11, 40, 1, 1, 0, 1, true},    {1, 16, 9, 11, 40, 1, 1, 0, 1, false}, {3, 600, 5, 4, 33, 1, 1, 0, 1, true},
  {1, 1100, 7, 7, 300, 1, 1, 0, 1, true},  {2, 40, 17, 17, 24, 1, 2, 0, 1, true}, {1, 64, 1, 1, 48, 1, 1, 0, 1, true},
  {1, 24, 13, 14, 24, 3, 1, 1, 24, true},  {2, 8, 7, 7, 8, 3, 2, 1, 8, true},     {1, 8, 40, 33, 8, 3, 2, 1, 8, false},
  {1, 6, 21, 5, 6, 5, 1, 2, 6, true},      {1, 6, 21, 5, 6, 7, 1, 3, 6, true},    {1, 16, 20, 20, 16, 3, 1, 1, 1, true},
  {1, 3, 32, 30, 16, 7, 2, 3, 1, true},    {1, 3, 33, 31, 12, 3, 2, 1, 1, true},  {1, 64, 4, 4, 64, 3, 1, 1, 1, true},
  {2, 12, 9, 9, 8, 3, 1, 1, 2, true},
};

typedef struct call {
  const layer *l;
  int how; /* which of the functions below */
  cn_tensor *weight, *bias;
} call;

static int run(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  const call *k = payload;
  const layer *l = k->l;
  cn_tensor *y = cn_conv2d(in[0], k->weight, k->bias, .stride = CN_INTS(l->stride), .padding = CN_INTS(l->padding),
                           .groups = l->groups);
  out[0] = k->how == 0   ? cn_relu(y)
           : k->how == 1 ? cn_relu6(y)
           : k->how == 2 ? cn_clamp(y, cn_num(-0.5), cn_num(0.25))
                         : cn_clamp(y, cn_num(2), cn_num(-1));
  return cn_err();
}

/* A tenth of the numbers are odd ones. */
static cn_tensor *numbers(const int64_t *shape, size_t ndim, bool odd)
{
  static const float them[] = {NAN, INFINITY, -INFINITY, -0.0f, 0.0f};
  cn_tensor *t = cn_contiguous(cn_randn(shape, ndim));
  float *v = cn_data(t);
  uint32_t x = 1;
  for (int64_t i = 0; i < cn_numel(t); i++) {
    x = x * 1664525u + 1013904223u;
    if ((x >> 16) % 10 == 0) v[i] = odd ? them[(x >> 8) % 5] : them[3 + (x >> 8) % 2];
  }
  return t;
}

static void check(const layer *l, int how, bool odd)
{
  cn_scope *s = cn_scope_begin();
  cn_seed(5);
  cn_tensor *x = numbers(CN_SHAPE(l->n, l->c, l->h, l->w), odd), *want, *have;
  call k = {l, how, cn_randn(CN_SHAPE(l->k, l->c / l->groups, l->window, l->window)), NULL};
  if (l->bias) k.bias = cn_randn(CN_SHAPE(l->k));
  assert_int_equal(run(&want, &x, &k), 0);
  cn_graph *g = cn_trace(run, 1, &x, 1, &k);
  assert_non_null(g);
  assert_true(cn_graph_optimise(g) >= 0);
  assert_true(cn_graph_fuse(g, true) >= 0);
  assert_int_equal(cn_graph_verify(g), 0);
  char *text = cn_graph_to_string(g);
  assert_non_null(strstr(text, "conv2d_clamped("));
  cn_string_free(text);
  for (int i = 0; i < 3; i++) { /* from the second time on with what is kept of the weight */
    assert_int_equal(cn_graph_run(&have, g, &x), 0);
    assert_same(have, want);
  }
  cn_graph_free(g);
  cn_scope_end(s);
}

static void test_same_bits(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
    for (int how = 0; how < 4; how++)
      for (int odd = 0; odd < 2; odd++) check(&layers[i], how, odd);
}

static int two_readers(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cn_tensor *y = cn_conv2d(in[0], in[1], NULL);
  (void)payload;
  out[0] = cn_relu(y);
  out[1] = y;
  return cn_err();
}

static int grouped(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  out[0] = cn_mul(cn_relu(cn_conv2d(in[0], in[1], NULL)), cn_num(2));
  return cn_err();
}

/* A convolution that others read stays, and so does one whose relu stands in a group. */
static void test_stays(void **state)
{
  cn_graph_fn fns[] = {two_readers, grouped};
  (void)state;
  for (int i = 0; i < 2; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *in[] = {cn_randn(CN_SHAPE(1, 8, 5, 5)), cn_randn(CN_SHAPE(8, 8, 1, 1))};
    cn_graph *g = cn_trace(fns[i], i ? 1 : 2, in, 2, NULL);
    assert_non_null(g);
    assert_true(cn_graph_fuse(g, true) >= 0);
    char *text = cn_graph_to_string(g);
    assert_null(strstr(text, "conv2d_clamped("));
    cn_string_free(text);
    cn_graph_free(g);
    cn_scope_end(s);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_same_bits, clear_errors),
      cmocka_unit_test_setup(test_stays, clear_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
