/* test_counts.c: compiled functions with sizes that depend on data: one program for all counts, forward and backward,
 * in eager loops and whole steps, equal to the function itself to the bit; what such a size must not decide runs as it
 * is. */
#define _POSIX_C_SOURCE 200809L
#include <cairn/cairn.h>
#include <cairn/ext/graph.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

enum { STEPS = 24, MOST = 4 };

static int setup(void **state)
{
  (void)state;
  cn_err_clear();
  return 0;
}

static int teardown(void **state)
{
  (void)state;
  unsetenv("CAIRN_COMPILE");
  cn_set_log(NULL, NULL);
  cn_err_clear();
  return 0;
}

static cn_compile_stats stats_of(const cn_compiled *c)
{
  cn_compile_stats s;
  cn_compile_stats_get(&s, sizeof s, c);
  return s;
}

static bool equal(cn_tensor *a, cn_tensor *b)
{
  if (!a || !b) return !a && !b;
  if (cn_ndim(a) != cn_ndim(b) || cn_dtype_of(a) != cn_dtype_of(b)) return false;
  for (int i = 0; i < cn_ndim(a); i++)
    if (cn_size(a, i) != cn_size(b, i)) return false;
  int saved = cn_no_grad_begin();
  a = cn_contiguous(a);
  b = cn_contiguous(b);
  cn_no_grad_end(saved);
  return cn_numel(a) == 0 || !memcmp(cn_data(a), cn_data(b), cn_tensor_nbytes(a));
}

static cn_tensor *numbers(int seed, int64_t rows, int64_t columns)
{
  uint64_t state, offset;
  cn_random_state(&state, &offset);
  cn_random_set_state(100 + (uint64_t)seed, 0);
  cn_tensor *x = cn_randn(CN_SHAPE(rows, columns));
  cn_random_set_state(state, offset);
  if (seed % 6 == 4) x = cn_neg(cn_abs(x)); /* nothing is selected */
  return seed % 6 == 5 ? cn_abs(x) : x;     /* everything is */
}

static int run(cn_compiled *c, cn_compile_fn fn, cn_tensor *x, cn_tensor **out, size_t *nout, void *payload)
{
  cn_compile_call k = {.inputs = &x, .ninputs = 1, .outputs = out, .noutputs = MOST, .payload = payload};
  int status = c ? cn_compiled_call(c, &k) : fn(&k);
  *nout = k.noutputs;
  return status;
}

/* ---- values ---- */

/* x: (6, 4) */
static int select_fn(cn_compile_call *k)
{
  cn_tensor *x = k->inputs[0], *mask = cn_gt(x, cn_num(0));
  cn_tensor *rows = cn_reshape(cn_nonzero(cn_gt(cn_sum(x, .dim = CN_INTS(1)), cn_num(0))), CN_SHAPE(-1));
  cn_tensor *chosen = cn_index_select(x, 0, rows);
  k->outputs[0] = cn_add(cn_masked_select(x, mask), cn_masked_select(cn_exp(x), mask));
  k->outputs[1] = cn_mul(chosen, cn_num(1.0 / (double)(cn_size(chosen, 0) + 1)));
  k->outputs[2] = cn_cat(CN_TENSORS(chosen, cn_ones(CN_SHAPE(2 * cn_size(rows, 0) + 1, 4))));
  k->outputs[3] = cn_bincount(cn_cast(cn_abs(cn_reshape(x, CN_SHAPE(-1))), CN_I64), NULL);
  k->noutputs = 4;
  return cn_err();
}

static void check_values(const char *setting)
{
  cn_compiled *c = cn_compile(select_fn, .fullgraph = true);
  if (setting) setenv("CAIRN_COMPILE", setting, 1);
  for (int seed = 0; seed < 12; seed++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *x = numbers(seed, 6, 4), *have[MOST], *want[MOST];
    size_t n, m;
    if (run(c, NULL, x, have, &n, NULL)) fail_msg("%s", cn_err_message());
    assert_int_equal(run(NULL, select_fn, x, want, &m, NULL), 0);
    assert_int_equal(n, m);
    for (size_t i = 0; i < n; i++)
      if (!equal(have[i], want[i])) fail_msg("seed %d: result %d differs", seed, (int)i);
    cn_scope_end(s);
  }
  assert_int_equal(stats_of(c).executables, 1); /* another count is no other kind of call */
  assert_int_equal(stats_of(c).recompiles, 0);
  assert_int_equal(stats_of(c).runs, 12);
  assert_int_equal(stats_of(c).eager_calls, 0);
  cn_compiled_free(c);
}

static void test_values(void **state)
{
  (void)state;
  check_values(NULL);
}

static void test_values_checked(void **state)
{
  (void)state;
  check_values("check");
}

static void test_explained(void **state)
{
  (void)state;
  cn_compiled *c = cn_compile(select_fn);
  cn_tensor *x = cn_requires_grad(numbers(0, 6, 4), true), *out[MOST];
  cn_compile_call k = {.inputs = &x, .ninputs = 1, .outputs = out, .noutputs = MOST};
  char *text = cn_compiled_explain(c, &k);
  assert_non_null(text);
  assert_non_null(strstr(text, "size u0 = "));
  assert_non_null(strstr(text, "backward: "));
  assert_non_null(strstr(text, "nonzero("));
  cn_string_free(text);
  cn_compiled_free(c);
}

/* ---- gradients ---- */

typedef struct model {
  cn_module *net;
  cn_optim *optim;
  cn_tensor *seen; /* how many rows there were */
  bool checkpoint;
} model;

static model model_new(bool checkpoint)
{
  cn_seed(3);
  model m = {cn_nn_sequential(cn_nn_linear(4, 8), cn_nn_relu(), cn_nn_dropout(.p = 0.4), cn_nn_linear(8, 2)), NULL,
             cn_keep(cn_zeros(CN_SCALAR_SHAPE)), checkpoint};
  m.optim = cn_optim_adam(m.net, .lr = 0.01);
  return m;
}

static void model_free(model *m)
{
  cn_optim_free(m->optim);
  cn_module_release(m->net);
  cn_release(m->seen);
}

static void assert_models_equal(const model *a, const model *b)
{
  cn_named_list x, y;
  cn_module_named(&x, a->net, CN_PARAMETERS | CN_BUFFERS);
  cn_module_named(&y, b->net, CN_PARAMETERS | CN_BUFFERS);
  for (size_t i = 0; i < x.n; i++) assert_true(equal(x.v[i].tensor, y.v[i].tensor));
  assert_true(equal(a->seen, b->seen));
  cn_named_free(&x);
  cn_named_free(&y);
}

static int rows_of(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  const model *m = payload; /* in: x (9, 4), its sums (9) */
  cn_tensor *rows = cn_reshape(cn_nonzero(cn_gt(in[1], cn_num(0))), CN_SHAPE(-1));
  out[0] = cn_forward(m->net, cn_index_select(in[0], 0, rows));
  return cn_err();
}

/* Rows with a positive sum through the network: (n, 2), and the mean of squares of what a mask picks of those. */
static int forward_fn(cn_compile_call *k)
{
  const model *m = k->payload;
  cn_tensor *x = k->inputs[0], *in[2] = {x, cn_sum(x, .dim = CN_INTS(1))}, *y = NULL;
  if (m->checkpoint) cn_checkpoint(&y, 1, rows_of, in, 2, k->payload);
  else rows_of(&y, in, k->payload);
  if (!y) return cn_err();
  cn_tensor *some = cn_masked_select(y, cn_gt(y, cn_num(0)));
  k->outputs[0] = cn_mul(y, cn_num(1.0 / (double)(1 + cn_size(y, 0))));
  k->outputs[1] = cn_div(cn_sum(cn_square(some)), cn_num((double)(1 + cn_size(some, 0))));
  cn_add_(m->seen, cn_num((double)cn_size(y, 0)));
  k->noutputs = 2;
  return cn_err();
}

/* use: which results gradients come from. */
static void loop_step(model *m, cn_compiled *c, int step, int use, cn_tensor **grad)
{
  cn_tensor *x = cn_requires_grad(numbers(step, 9, 4), true), *out[MOST];
  size_t n;
  if (run(c, forward_fn, x, out, &n, m)) fail_msg("step %d: %s", step, cn_err_message());
  cn_tensor *first = cn_sum(cn_exp(out[0])), *loss = use == 0 ? first : use == 1 ? out[1] : cn_add(first, out[1]);
  if (cn_backward(loss)) fail_msg("step %d: %s", step, cn_err_message());
  cn_optim_step(m->optim);
  cn_optim_zero_grad(m->optim);
  *grad = cn_grad_of(x);
}

static void check_gradients(bool checkpoint, const char *setting)
{
  model a = model_new(checkpoint), b = model_new(checkpoint);
  cn_compiled *c = cn_compile(forward_fn, .fullgraph = true);
  cn_tensor *want[STEPS], *have;
  cn_seed(11);
  for (int i = 0; i < STEPS; i++)
    if (!checkpoint || i % 6 != 4) loop_step(&a, NULL, i, i % 3, &want[i]);
  if (setting) setenv("CAIRN_COMPILE", setting, 1);
  cn_seed(11);
  for (int i = 0; i < STEPS; i++) {
    if (checkpoint && i % 6 == 4) continue; /* draws of no numbers are not told apart: its program begins at one row */
    loop_step(&b, c, i, i % 3, &have);
    if (!equal(have, want[i])) fail_msg("step %d: the gradient of x differs", i);
  }
  assert_models_equal(&a, &b);
  assert_int_equal(stats_of(c).executables, 1);
  assert_int_equal(stats_of(c).eager_calls, 0);
  cn_compiled_free(c);
  model_free(&a);
  model_free(&b);
}

static void test_gradients(void **state)
{
  (void)state;
  check_gradients(false, NULL);
}

static void test_gradients_checkpointed(void **state)
{
  (void)state;
  check_gradients(true, NULL);
}

static void test_gradients_checked(void **state)
{
  (void)state;
  check_gradients(false, "check");
}

/* ---- whole steps ---- */

static int step_fn(cn_compile_call *k)
{
  model *m = k->payload;
  if (forward_fn(k)) return cn_err();
  cn_tensor *loss = cn_add(cn_sum(cn_exp(k->outputs[0])), k->outputs[1]);
  cn_backward(loss);
  cn_optim_step(m->optim);
  cn_optim_zero_grad(m->optim);
  k->outputs[0] = loss;
  k->noutputs = 1;
  return cn_err();
}

static void check_steps(bool checkpoint, const char *setting)
{
  model a = model_new(checkpoint), b = model_new(checkpoint);
  cn_compiled *c = cn_compile(step_fn, .fullgraph = true);
  double want[STEPS];
  for (int turn = 0; turn < 2; turn++) {
    cn_seed(11);
    if (turn && setting) setenv("CAIRN_COMPILE", setting, 1);
    for (int i = 0; i < STEPS; i++) {
      cn_scope *s = cn_scope_begin();
      cn_tensor *out[MOST], *x = numbers(i, 9, 4);
      size_t n;
      if (checkpoint) cn_requires_grad(x, true); /* a checkpoint records where an input does */
      if (run(turn ? c : NULL, step_fn, x, out, &n, turn ? &b : &a)) fail_msg("step %d: %s", i, cn_err_message());
      double loss = cn_item(out[0]);
      if (!turn) want[i] = loss;
      else if (memcmp(&loss, &want[i], sizeof loss)) fail_msg("step %d: %.17g, eager %.17g", i, loss, want[i]);
      cn_scope_end(s);
    }
  }
  assert_models_equal(&a, &b);
  assert_int_equal(stats_of(c).eager_calls, 0);
  if (!checkpoint) assert_int_equal(stats_of(c).executables, 1);
  cn_compiled_free(c);
  model_free(&a);
  model_free(&b);
}

static void test_steps(void **state)
{
  (void)state;
  check_steps(false, NULL);
}

static void test_steps_checked(void **state)
{
  (void)state;
  check_steps(false, "check");
}

/* ---- gradients of gradients ---- */

static int cubes_fn(cn_compile_call *k)
{
  cn_tensor *some = cn_masked_select(k->inputs[0], cn_gt(k->inputs[0], cn_num(0)));
  k->outputs[0] = cn_mul(cn_mul(some, some), some);
  k->noutputs = 1;
  return cn_err();
}

static void test_gradients_of_gradients(void **state)
{
  (void)state;
  cn_compiled *c = cn_compile(cubes_fn, .fullgraph = true);
  for (int seed = 0; seed < 4; seed++) {
    cn_tensor *x = cn_requires_grad(numbers(seed, 3, 4), true), *second[2];
    for (int turn = 0; turn < 2; turn++) {
      cn_tensor *out[MOST], *g, *total;
      size_t n;
      if (run(turn ? c : NULL, cubes_fn, x, out, &n, NULL)) fail_msg("%s", cn_err_message());
      total = cn_sum(out[0]);
      if (cn_grad(&g, &total, 1, &x, 1, .create_graph = true)) fail_msg("%s", cn_err_message());
      total = cn_sum(g);
      if (cn_grad(&second[turn], &total, 1, &x, 1)) fail_msg("%s", cn_err_message());
    }
    assert_true(equal(second[0], second[1]));
  }
  cn_compiled_free(c);
}

/* ---- what such a size must not decide ---- */

static int warnings;
static void count_warnings(cn_log_level level, const char *text, void *payload)
{
  (void)payload;
  if (level == CN_LOG_WARNING && strstr(text, "compile: ")) warnings++;
}

/* Above two rows it is another function. */
static int branch_fn(cn_compile_call *k)
{
  cn_tensor *at = cn_nonzero(cn_gt(k->inputs[0], cn_num(0)));
  k->outputs[0] = cn_size(at, 0) > 2 ? cn_sum(at) : cn_prod(at);
  if (k->payload) cn_add_(k->payload, cn_num(1));
  k->noutputs = 1;
  return cn_err();
}

static void test_branches(void **state)
{
  (void)state;
  cn_tensor *steps = cn_zeros(CN_SCALAR_SHAPE), *many = cn_ones(CN_SHAPE(4, 2)), *none = cn_zeros(CN_SHAPE(4, 2));
  cn_tensor *out[MOST], *want[MOST];
  cn_compiled *c = cn_compile(branch_fn), *whole = cn_compile(branch_fn, .fullgraph = true);
  size_t n;
  warnings = 0;
  cn_set_log(count_warnings, NULL);
  for (int i = 0; i < 6; i++) {
    assert_int_equal(run(c, NULL, i % 2 ? none : many, out, &n, steps), 0);
    assert_int_equal(run(NULL, branch_fn, i % 2 ? none : many, want, &n, NULL), 0);
    assert_true(equal(out[0], want[0]));
  }
  assert_float_equal(cn_item(steps), 6, 0); /* a run that found a size out of its range has changed nothing */
  assert_int_equal(stats_of(c).runs, 3);
  assert_int_equal(stats_of(c).eager_calls, 3);
  assert_int_equal(stats_of(c).executables, 1);
  assert_int_equal(warnings, 1);
  assert_int_equal(run(whole, NULL, many, out, &n, NULL), 0);
  assert_int_equal(run(whole, NULL, none, out, &n, NULL), CN_ERR_CAPTURE);
  assert_non_null(strstr(cn_err_message(), "size u0 is 0"));
  cn_err_clear();
  cn_compiled_free(c);
  cn_compiled_free(whole);
}

static int pairs_fn(cn_compile_call *k) /* right for even counts alone, which the library does not know */
{
  cn_tensor *at = cn_reshape(cn_nonzero(cn_gt(k->inputs[0], cn_num(0))), CN_SHAPE(-1));
  k->outputs[0] = cn_sum(cn_reshape(at, CN_SHAPE(-1, 4)), .dim = CN_INTS(0));
  k->noutputs = 1;
  return cn_err();
}

static int view_fn(cn_compile_call *k)
{
  cn_tensor *at = cn_nonzero(cn_gt(k->inputs[0], cn_num(0)));
  k->outputs[0] = cn_slice(k->inputs[0], 0, 0, cn_size(at, 0) / 4);
  k->noutputs = 1;
  return cn_err();
}

static int note_fn(cn_compile_call *k)
{
  static int64_t notes[2];
  cn_tensor *at = cn_nonzero(cn_gt(k->inputs[0], cn_num(0)));
  k->outputs[0] = cn_sum(at);
  k->noutputs = 1;
  k->note = &notes[cn_size(at, 0) % 2];
  return cn_err();
}

static void test_refusals(void **state)
{
  (void)state;
  const struct {
    cn_compile_fn fn;
    const char *words;
  } cases[] = {{pairs_fn, "where it is taken for some number"}, {view_fn, "is a view"}, {note_fn, "besides tensors"}};
  cn_tensor *x = cn_ones(CN_SHAPE(4, 2)), *out[MOST], *want[MOST];
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    cn_compiled *c = cn_compile(cases[i].fn), *whole = cn_compile(cases[i].fn, .fullgraph = true);
    size_t n;
    for (int turn = 0; turn < 2; turn++) {
      if (run(c, NULL, x, out, &n, NULL)) fail_msg("%s", cn_err_message());
      assert_int_equal(run(NULL, cases[i].fn, x, want, &n, NULL), 0);
      assert_true(equal(out[0], want[0]));
    }
    assert_int_equal(stats_of(c).eager_calls, 2);
    assert_int_equal(run(whole, NULL, x, out, &n, NULL), CN_ERR_CAPTURE);
    if (!strstr(cn_err_message(), cases[i].words)) fail_msg("%s", cn_err_message());
    cn_err_clear();
    cn_compiled_free(c);
    cn_compiled_free(whole);
  }
}

/* ---- on a device ---- */

static void test_device(void **state)
{
  (void)state;
  cn_scope *scope = cn_scope_begin();
  cn_device mirror = cn_device_find("mirror");
  cn_compiled *c = cn_compile(cubes_fn, .fullgraph = true);
  for (int seed = 0; seed < 6; seed++) {
    cn_tensor *host = cn_requires_grad(numbers(seed, 3, 4), true), *out[MOST], *want[MOST];
    cn_tensor *x = cn_requires_grad(cn_to_device(cn_detach(host), mirror), true);
    size_t n;
    if (run(c, NULL, x, out, &n, NULL)) fail_msg("%s", cn_err_message());
    assert_int_equal(run(NULL, cubes_fn, host, want, &n, NULL), 0);
    assert_true(equal(cn_to_device(out[0], CN_CPU), want[0]));
    if (cn_backward(cn_sum(out[0]))) fail_msg("%s", cn_err_message());
    assert_int_equal(cn_backward(cn_sum(want[0])), 0);
    assert_true(equal(cn_to_device(cn_grad_of(x), CN_CPU), cn_grad_of(host)));
  }
  assert_int_equal(stats_of(c).executables, 1);
  cn_compiled_free(c);
  cn_scope_end(scope);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
  const struct CMUnitTest tests[] = {
    TEST(test_values), TEST(test_values_checked), TEST(test_explained), TEST(test_gradients),
    TEST(test_gradients_checkpointed), TEST(test_gradients_checked), TEST(test_steps), TEST(test_steps_checked),
    TEST(test_gradients_of_gradients), TEST(test_branches), TEST(test_refusals), TEST(test_device),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
