/* test_fast_conv.c: convolutions of graphs. Of those whose results may be rounded otherwise (cn_graph_join) 3 x 3 ones
 * go by Winograd's large tiles, few pixels under many weights as rows of a product: near a sum in float64, the same on
 * any number of threads, and infinities where they belong. Others are eager's to the bit. All with what kernels keep of
 * weights (panels, rows laid apart) and without. */
#include <cairn/cairn.h>
#include <cairn/ext/graph.h>
#include <cairn/ext/system.h>
#include <math.h>
#include <string.h>

#include "tensors.h"

typedef struct shape {
  int64_t window, n, c, k, h, w, padding[2];
  bool otherwise; /* are they rounded so? */
  int64_t rows, stride; /* the dilation of rows; 0: 1 */
} shape;

static const shape shapes[] = {
  {3, 1, 32, 32, 56, 56, {1, 1}, true},     {3, 2, 16, 24, 33, 47, {1, 1}, true},
  {3, 1, 64, 40, 30, 62, {0, 2}, true},     {3, 3, 24, 16, 17, 90, {2, 0}, true},
  {3, 1, 128, 8, 40, 161, {1, 1}, false},   {3, 1, 32, 32, 8, 8, {1, 1}, false},
  {3, 8, 48, 64, 14, 14, {1, 1}, true},     {3, 1, 3, 5, 6, 7, {1, 1}, false},
  {3, 1, 512, 64, 3, 3, {1, 1}, true},     {1, 1, 1024, 300, 14, 14, {0, 0}, false},
  {1, 1, 2048, 96, 7, 7, {0, 0}, false},    {1, 1, 24, 144, 56, 55, {0, 0}, false},
  {1, 2, 512, 24, 9, 9, {0, 0}, false},     {1, 1, 40, 8, 1, 1, {0, 0}, false},
  {1, 1, 1500, 33, 3, 5, {0, 0}, false},    {5, 1, 7, 258, 5, 40, {0, 0}, false},
  {3, 1, 32, 64, 98, 64, {1, 1}, true, 2},  {3, 2, 16, 24, 41, 57, {3, 1}, true, 3},
  {3, 1, 16, 16, 40, 40, {0, 2}, true, 2},  {3, 1, 24, 16, 9, 70, {4, 1}, false, 4},
  {1, 1, 320, 96, 3, 3, {0, 0}, true},      {3, 1, 512, 512, 6, 6, {1, 1}, true, 0, 2},
};

static cn_tensor *weights[2]; /* weight and bias: states of the graphs */

static int conv(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  const shape *s = payload;
  out[0] = cn_conv2d(in[0], weights[0], weights[1], .padding = {s->padding, 2},
                     .dilation = CN_INTS(s->rows ? s->rows : 1, 1), .stride = CN_INTS(s->stride ? s->stride : 1));
  return cn_err();
}

/* The graph, twice run: kernels keep what they make of weights from the second time on. Owned by the scope. */
static cn_tensor *run(const shape *s, cn_tensor *x, bool fast)
{
  cn_tensor *y = NULL;
  cn_graph *g = cn_trace(conv, 1, &x, 1, (void *)(uintptr_t)s);
  assert_non_null(g);
  assert_true(cn_graph_optimise(g) >= 0);
  if (fast) assert_true(cn_graph_join(g) >= 0);
  for (int i = 0; i < 3; i++) {
    cn_tensor *before = y;
    assert_int_equal(cn_graph_run(&y, g, &x), 0);
    if (before) assert_same(y, before);
  }
  cn_graph_free(g);
  return y;
}

static cn_tensor *begin(const shape *s)
{
  cn_seed(3);
  weights[0] = cn_randn(CN_SHAPE(s->k, s->c, s->window, s->window));
  weights[1] = cn_randn(CN_SHAPE(s->k));
  return cn_randn(CN_SHAPE(s->n, s->c, s->h, s->w));
}

static cn_tensor *in_doubles(const shape *s, cn_tensor *x)
{
  return cn_conv2d(cn_cast(x, CN_F64), cn_cast(weights[0], CN_F64), cn_cast(weights[1], CN_F64),
                   .padding = {s->padding, 2}, .dilation = CN_INTS(s->rows ? s->rows : 1, 1),
                   .stride = CN_INTS(s->stride ? s->stride : 1));
}

static double largest(cn_tensor *x) { return cn_item(cn_max(cn_abs(x))); }

static bool has_vectors(void)
{
  const char *isa = cn_env("CAIRN_ISA");
  return !isa || strcmp(isa, "base") != 0;
}

static void test_values(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    cn_scope *scope = cn_scope_begin();
    const shape *s = &shapes[i];
    cn_tensor *x = begin(s), *want = in_doubles(s, x), *eager = NULL;
    assert_int_equal(conv(&eager, &x, (void *)(uintptr_t)s), 0);
    assert_same(run(s, x, false), eager);
    cn_tensor *fast = run(s, x, true);
    double error = largest(cn_sub(cn_cast(fast, CN_F64), want)) / largest(want);
    if (!(error < 2e-6)) fail_msg("shape %zu: %g", i, error);
    if (has_vectors()) assert_int_equal(same_elements(fast, eager), !s->otherwise);
    cn_scope_end(scope);
  }
}

static void test_threads(void **state)
{
  (void)state;
  const int threads = cn_num_threads();
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    cn_scope *scope = cn_scope_begin();
    cn_tensor *x = begin(&shapes[i]), *first = NULL;
    for (int n = 1; n <= 3; n++) {
      cn_set_num_threads(n);
      cn_tensor *y = run(&shapes[i], x, true);
      if (first) assert_same(y, first);
      else first = y;
    }
    cn_scope_end(scope);
  }
  cn_set_num_threads(threads);
}

/* An infinity comes out of the windows that it lies in, and of no other result of their tiles. */
static void test_not_finite(void **state)
{
  (void)state;
  const float values[] = {INFINITY, -INFINITY, NAN};
  for (size_t i = 0; i < 3; i++) {
    cn_scope *scope = cn_scope_begin();
    const shape *s = &shapes[0];
    cn_tensor *x = begin(s);
    ((float *)cn_data(x))[5 * 56 * 56 + 20 * 56 + 21] = values[i];
    cn_tensor *want = in_doubles(s, x), *have = run(s, x, true);
    const double *w = cn_data_const(want);
    const float *h = cn_data_const(have);
    int64_t odd = 0;
    for (int64_t k = 0; k < cn_numel(want); k++) {
      odd += !isfinite(w[k]);
      if (isfinite(w[k])) assert_true(fabs((double)h[k] - w[k]) < 1e-3);
      else assert_true(isnan(w[k]) ? isnan(h[k]) : (double)h[k] == w[k]);
    }
    assert_int_equal(odd, 9 * s->k);
    cn_scope_end(scope);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(test_values, clear_errors),
    cmocka_unit_test_setup(test_threads, clear_errors),
    cmocka_unit_test_setup(test_not_finite, clear_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
