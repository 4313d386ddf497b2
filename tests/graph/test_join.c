/* test_join.c: cn_graph_join: batch norms become parts of the layers before them (src/graph/passes/batch_norms.c), what
 * follows from weights is computed when those change (weights.c), and compiled functions do so where they are asked. */
#define _POSIX_C_SOURCE 200809L
#include <cairn/cairn.h>
#include <cairn/compile.h>
#include <cairn/ext/graph.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "ops/prepared.h"
#include "tensors.h"

static cn_tensor *weight, *bias, *gamma, *beta, *mean, *var; /* what bodies read from outside */

static int setup(void **state)
{
  (void)state;
  cn_err_clear();
  cn_seed(5);
  return 0;
}

/* A layer with `channels` results, of which the norm knows everything. */
static void make_weights(cn_dtype dtype, bool biased, const int64_t *shape, size_t ndim, int64_t channels)
{
  cn_scope *s = cn_scope_begin();
  cn_set(&weight, cn_cast(cn_randn(shape, ndim), dtype));
  cn_release(bias);
  bias = biased ? cn_keep(cn_cast(cn_randn(CN_SHAPE(channels)), dtype)) : NULL;
  cn_set(&gamma, cn_cast(cn_randn(CN_SHAPE(channels)), dtype));
  cn_set(&beta, cn_cast(cn_randn(CN_SHAPE(channels)), dtype));
  cn_set(&mean, cn_cast(cn_randn(CN_SHAPE(channels)), dtype));
  cn_set(&var, cn_cast(cn_add(cn_rand(CN_SHAPE(channels)), cn_num(0.5)), dtype));
  assert_int_equal(cn_err(), 0);
  cn_scope_end(s);
}

static int teardown(void **state)
{
  (void)state;
  cn_tensor **all[] = {&weight, &bias, &gamma, &beta, &mean, &var};
  for (int i = 0; i < 6; i++) {
    cn_release(*all[i]);
    *all[i] = NULL;
  }
  return 0;
}

static cn_tensor *norm(cn_tensor *x) { return cn_batch_norm(x, mean, var, gamma, beta); }

static int conv(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  out[0] = cn_relu(norm(cn_conv2d(in[0], weight, bias, .padding = CN_INTS(1))));
  return cn_err();
}
static int conv_groups(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  out[0] = norm(cn_conv2d(in[0], weight, bias, .groups = 2));
  return cn_err();
}
static int conv_1d(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  out[0] = norm(cn_conv1d(in[0], weight, bias));
  return cn_err();
}
static int conv_turned(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  out[0] = norm(cn_conv_transpose2d(in[0], weight, bias, .stride = CN_INTS(2), .groups = 2));
  return cn_err();
}
static int linear(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  out[0] = norm(cn_linear(in[0], weight, bias));
  return cn_err();
}

/* Somebody else reads what the layer gives. */
static int shared(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  cn_tensor *y = cn_linear(in[0], weight, bias);
  out[0] = cn_add(norm(y), y);
  return cn_err();
}
/* The weight is an input. */
static int given(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  out[0] = norm(cn_linear(in[0], in[1], bias));
  return cn_err();
}
/* Statistics of the batch. */
static int training(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  out[0] = cn_batch_norm(cn_linear(in[0], weight, bias), NULL, NULL, gamma, beta, .training = true);
  return cn_err();
}
/* Something between the two. */
static int between(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  out[0] = norm(cn_relu(cn_linear(in[0], weight, bias)));
  return cn_err();
}

static int count_of(const cn_graph *g, const char *op)
{
  int found = 0;
  for (size_t i = 0; i < cn_graph_nodes(g); i++) {
    cn_graph_node n = {sizeof n};
    assert_int_equal(cn_graph_node_at(&n, g, (int)i), 0);
    found += !strcmp(n.name, op);
  }
  return found;
}

static void assert_near(cn_tensor *have, cn_tensor *want, cn_dtype dtype)
{
  /* Products of factors and weights are rounded before sums of some dozens of them. */
  double error = cn_item(cn_amax(cn_abs(cn_sub(have, want)))), most = cn_item(cn_amax(cn_abs(want)));
  assert_int_equal(cn_err(), 0);
  assert_true(error <= most * (dtype == CN_F64 ? 1e-14 : 4e-6));
}

static cn_graph *joined(int (*fn)(cn_tensor **, cn_tensor *const *, void *), cn_tensor *const *in, size_t nin)
{
  cn_graph *g = cn_trace(fn, 1, in, nin, NULL);
  assert_non_null(g);
  assert_true(cn_graph_optimise_fast(g) >= 0);
  assert_true(cn_graph_join(g) >= 0);
  assert_int_equal(cn_graph_verify(g), 0);
  return g;
}

/* norms, left: how many there are afterwards. nodes: of all kinds; what follows from weights is not among them. */
static void check(int (*fn)(cn_tensor **, cn_tensor *const *, void *), cn_tensor *const *in, size_t nin, int left,
                  size_t nodes)
{
  cn_scope *s = cn_scope_begin();
  int saved = cn_no_grad_begin();
  cn_dtype dtype = cn_dtype_of(in[0]);
  cn_graph *g = joined(fn, in, nin), *copy = cn_graph_copy(g);
  assert_int_equal(count_of(g, "native_batch_norm"), left);
  assert_int_equal(cn_graph_nodes(g), nodes);
  for (int i = 0; i < 6; i++) {
    cn_tensor *want = NULL, *have = NULL, *again = NULL;
    if (i == 3) cn_mul_(weight, cn_num(0.5));
    if (i == 4) cn_add_(mean, cn_num(1));
    assert_int_equal(fn(&want, in, NULL), 0);
    assert_int_equal(cn_graph_run(&have, g, in), 0);
    assert_int_equal(cn_graph_run(&again, copy, in), 0);
    assert_near(have, want, dtype);
    assert_same(again, have);
  }
  cn_graph_free(g);
  cn_graph_free(copy);
  cn_no_grad_end(saved);
  cn_scope_end(s);
}

static cn_tensor *of(cn_dtype dtype, const int64_t *shape, size_t n) { return cn_cast(cn_randn(shape, n), dtype); }

static void test_folded(void **state)
{
  (void)state;
  for (int i = 0; i < 4; i++) {
    cn_scope *s = cn_scope_begin();
    const cn_dtype t = i % 2 ? CN_F64 : CN_F32;
    const bool biased = i / 2;
    cn_tensor *image = of(t, CN_SHAPE(2, 4, 7, 6)), *signal = of(t, CN_SHAPE(2, 4, 9)), *rows = of(t, CN_SHAPE(5, 4));
    make_weights(t, biased, CN_SHAPE(6, 4, 3, 3), 6);
    check(conv, &image, 1, 0, 2);
    make_weights(t, biased, CN_SHAPE(6, 2, 3, 3), 6);
    check(conv_groups, &image, 1, 0, 1);
    make_weights(t, biased, CN_SHAPE(6, 4, 3), 6);
    check(conv_1d, &signal, 1, 0, 3);
    make_weights(t, biased, CN_SHAPE(4, 3, 3, 3), 6);
    check(conv_turned, &image, 1, 0, 4);
    make_weights(t, biased, CN_SHAPE(6, 4), 6);
    check(linear, &rows, 1, 0, 1);
    cn_scope_end(s);
  }
}

static void test_left(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  make_weights(CN_F32, true, CN_SHAPE(6, 4), 6);
  cn_tensor *in[] = {of(CN_F32, CN_SHAPE(5, 4)), of(CN_F32, CN_SHAPE(6, 4))};
  check(shared, in, 1, 1, 3);
  check(given, in, 2, 1, 2);
  check(training, in, 1, 1, 2);
  check(between, in, 1, 1, 3);
  cn_scope_end(s);
}

/* ---- what follows from weights ---- */

static int scaled(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  out[0] = cn_linear(in[0], cn_mul(weight, cn_num(2)), bias);
  return cn_err();
}

/* Memory whose address somebody has may change unseen. */
static void test_shown(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  int saved = cn_no_grad_begin();
  make_weights(CN_F32, false, CN_SHAPE(6, 4), 6);
  cn_tensor *x = of(CN_F32, CN_SHAPE(5, 4));
  cn_graph *g = joined(scaled, &x, 1);
  assert_int_equal(cn_graph_nodes(g), 1);
  float *data = cn_data(weight);
  for (int i = 0; i < 5; i++) {
    cn_tensor *want = NULL, *have = NULL;
    data[3] = (float)i;
    assert_int_equal(cn_graph_run(&have, g, &x), 0);
    assert_int_equal(scaled(&want, &x, NULL), 0);
    assert_same(have, want);
  }
  cn_graph_free(g);
  cn_no_grad_end(saved);
  cn_scope_end(s);
}

/* Several threads share what was made, whoever makes it anew. */
typedef struct caller {
  cn_graph *g;
  cn_tensor *x, *want;
  int wrong;
} caller;

static void *run_often(void *payload)
{
  caller *c = payload;
  for (int i = 0; i < 40; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *have = NULL;
    c->wrong += cn_graph_run(&have, c->g, &c->x) || cn_item(cn_amax(cn_abs(cn_sub(have, c->want)))) != 0;
    cn_scope_end(s);
  }
  return NULL;
}

static void test_threads(void **state)
{
  (void)state;
  enum { CALLERS = 4 };
  cn_scope *s = cn_scope_begin();
  int saved = cn_no_grad_begin();
  make_weights(CN_F32, true, CN_SHAPE(6, 4), 6);
  cn_tensor *x = of(CN_F32, CN_SHAPE(5, 4)), *want = NULL;
  cn_graph *g = joined(scaled, &x, 1);
  for (int i = 0; i < 3; i++) {
    pthread_t threads[CALLERS];
    caller callers[CALLERS];
    cn_mul_(weight, cn_num(0.5));
    if (i == 2) assert_non_null(cn_data(weight)); /* from now on it is looked at in every run */
    assert_int_equal(scaled(&want, &x, NULL), 0);
    for (int k = 0; k < CALLERS; k++) {
      callers[k] = (caller){g, x, want, 0};
      assert_int_equal(pthread_create(&threads[k], NULL, run_often, &callers[k]), 0);
    }
    for (int k = 0; k < CALLERS; k++) {
      pthread_join(threads[k], NULL);
      assert_int_equal(callers[k].wrong, 0);
    }
  }
  cn_graph_free(g);
  cn_no_grad_end(saved);
  cn_scope_end(s);
}

/* Kernels keep what they make of what was made of weights. */
static void test_kept(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  int saved = cn_no_grad_begin();
  make_weights(CN_F32, false, CN_SHAPE(64, 64, 3, 3), 64);
  cn_tensor *x = of(CN_F32, CN_SHAPE(1, 64, 16, 16)), *have = NULL;
  cn_graph *g = joined(conv, &x, 1);
  size_t before = cni_prepared_made(), after[6];
  for (int i = 0; i < 6; i++) {
    if (i == 4) cn_mul_(gamma, cn_num(0.5));
    assert_int_equal(cn_graph_run(&have, g, &x), 0);
    after[i] = cni_prepared_made() - before;
  }
  assert_int_equal(after[3], after[1]); /* once for all runs, and once more after the write */
  if (after[1]) assert_int_equal(after[5], 2 * after[1]);
  cn_graph_free(g);
  cn_no_grad_end(saved);
  cn_scope_end(s);
}

/* ---- compiled functions ---- */

static int body(cn_compile_call *k)
{
  k->noutputs = 1;
  return conv(k->outputs, k->inputs, NULL);
}

/* The text of what runs. Owned. */
static char *explained(bool fast, cn_tensor *x)
{
  cn_compiled *c = cn_compile(body, .fullgraph = true, .fast = fast);
  cn_tensor *out = NULL, *want = NULL;
  cn_compile_call call = {.inputs = &x, .ninputs = 1, .outputs = &out, .noutputs = 1};
  assert_non_null(c);
  assert_int_equal(conv(&want, &x, NULL), 0);
  for (int i = 0; i < 3; i++) {
    call.noutputs = 1;
    assert_int_equal(cn_compiled_call(c, &call), 0);
    if (fast) assert_near(out, want, CN_F32);
    else assert_same(out, want);
  }
  call.noutputs = 1;
  char *text = cn_compiled_explain(c, &call);
  assert_non_null(text);
  cn_compiled_free(c);
  return text;
}

static void assert_level(const char *setting, bool fast, bool norm_left, cn_tensor *x)
{
  if (setting) setenv("CAIRN_COMPILE", setting, 1);
  char *text = explained(fast, x);
  assert_int_equal(strstr(text, "native_batch_norm(") != NULL, norm_left);
  cn_string_free(text);
  unsetenv("CAIRN_COMPILE");
}

static void test_compiled(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  int saved = cn_no_grad_begin();
  make_weights(CN_F32, true, CN_SHAPE(6, 4, 3, 3), 6);
  cn_tensor *x = of(CN_F32, CN_SHAPE(2, 4, 7, 6));
  assert_level(NULL, false, true, x);
  assert_level(NULL, true, false, x);
  assert_level("exact", true, true, x);
  assert_level("check", true, true, x);
  cn_no_grad_end(saved);
  cn_scope_end(s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_folded, setup, teardown),
    cmocka_unit_test_setup_teardown(test_left, setup, teardown),
    cmocka_unit_test_setup_teardown(test_shown, setup, teardown),
    cmocka_unit_test_setup_teardown(test_threads, setup, teardown),
    cmocka_unit_test_setup_teardown(test_kept, setup, teardown),
    cmocka_unit_test_setup_teardown(test_compiled, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
