/* test_check.c: CAIRN_COMPILE=check: a call that is right passes and leaves what the function leaves; each way in which
 * a program can be other than its function is an error that names the node. */
#define _POSIX_C_SOURCE 200809L
#include <cairn/cairn.h>
#include <cairn/ext/graph.h>
#include <stdlib.h>
#include <string.h>

#include "tensors.h"

static int setup(void **state)
{
  (void)state;
  cn_err_clear();
  setenv("CAIRN_COMPILE", "check", 1);
  return 0;
}

static int teardown(void **state)
{
  (void)state;
  unsetenv("CAIRN_COMPILE");
  cn_err_clear();
  return 0;
}

static int call(cn_compiled *c, void *payload, cn_tensor *x, cn_tensor **y)
{
  cn_compile_call k = {.inputs = &x, .ninputs = 1, .outputs = y, .noutputs = 1, .payload = payload};
  return cn_compiled_call(c, &k);
}

/* ---- what is baked in ---- */

typedef struct settings {
  double factor;
  int64_t dim;
  bool keep, branch;
  cn_tensor *table;
} settings;

static int baked(cn_compile_call *k)
{
  const settings *s = k->payload;
  cn_tensor *y = cn_mul(k->inputs[0], cn_num(s->factor)); /* x: (2, 3) */
  if (s->branch) y = cn_exp(y);
  y = cn_sum(y, .dim = CN_INTS(s->dim), .keepdim = s->keep);
  k->outputs[0] = s->table ? cn_add(y, s->table) : y;
  k->noutputs = 1;
  return cn_err();
}

static void baked_in_things_are_named(void **state)
{
  (void)state;
  cn_compiled *c = cn_compile(baked, .name = "baked");
  cn_tensor *x = cn_ones(CN_SHAPE(2, 3)), *y, *table = cn_ones(CN_SCALAR_SHAPE);
  settings s = {2, 0, false, false, table};
  for (int i = 0; i < 3; i++) {
    assert_int_equal(call(c, &s, x, &y), 0);
    assert_true(cn_item(cn_sum(y)) == 15);
  }
  s.factor = 3;
  assert_int_not_equal(call(c, &s, x, &y), 0);
  assert_fails(CN_ERR_CAPTURE, "node 0, mul: it reads the number 2, and now 3");
  s = (settings){2, 1, false, false, table};
  assert_int_not_equal(call(c, &s, x, &y), 0);
  assert_fails(CN_ERR_CAPTURE, "node 1, sum: its argument 'dim' was [0], and is now [1]");
  s = (settings){2, 0, true, false, table};
  assert_int_not_equal(call(c, &s, x, &y), 0);
  assert_fails(CN_ERR_CAPTURE, "its argument 'keepdim' was false, and is now true");
  s = (settings){2, 0, false, true, table};
  assert_int_not_equal(call(c, &s, x, &y), 0);
  assert_fails(CN_ERR_CAPTURE, "node 1, sum: there is now exp in its place");
  s = (settings){2, 0, false, false, cn_ones(CN_SCALAR_SHAPE)}; /* another one, but the same numbers */
  assert_int_equal(call(c, &s, x, &y), 0);
  s.table = cn_zeros(CN_SCALAR_SHAPE);
  assert_int_not_equal(call(c, &s, x, &y), 0);
  assert_fails(CN_ERR_CAPTURE,
               "node 2, add: it reads another tensor: element 0 is 1 in the program's, 0 in the one now");
  s = (settings){2, 0, false, false, NULL};
  assert_int_not_equal(call(c, &s, x, &y), 0);
  assert_fails(CN_ERR_CAPTURE, "node 2, add is gone");
  cn_compiled_free(c);
}

/* ---- a training step ---- */

typedef struct trainer {
  cn_module *net;
  cn_optim *optim;
} trainer;

static int step(cn_compile_call *k)
{
  trainer *t = k->payload;
  cn_tensor *loss = cn_mean(cn_square(cn_forward(t->net, k->inputs[0])));
  cn_backward(loss);
  cn_optim_step(t->optim);
  cn_optim_zero_grad(t->optim);
  k->outputs[0] = loss;
  k->noutputs = 1;
  return cn_err();
}

static trainer trainer_new(void)
{
  cn_seed(1);
  trainer t = {cn_nn_sequential(cn_nn_linear(3, 4), cn_nn_batch_norm1d(4), cn_nn_dropout(.p = 0.5), cn_nn_linear(4, 1)),
               NULL};
  t.optim = cn_optim_adam(t.net);
  return t;
}

/* What is written is written once, and gradients, states and random numbers go on as they should. */
static void checked_steps_are_steps(void **state)
{
  (void)state;
  trainer a = trainer_new(), b = trainer_new();
  cn_compiled *c = cn_compile(step, .fullgraph = true);
  cn_tensor *x = cn_randn(CN_SHAPE(8, 3)), *loss = NULL;
  double want[5];
  cn_seed(3);
  for (int i = 0; i < 5; i++) {
    cn_compile_call k = {.inputs = &x, .ninputs = 1, .outputs = &loss, .noutputs = 1, .payload = &a};
    assert_int_equal(step(&k), 0);
    want[i] = cn_item(loss);
  }
  cn_seed(3);
  for (int i = 0; i < 5; i++) {
    if (call(c, &b, x, &loss)) fail_msg("%s", cn_err_message());
    assert_true(cn_item(loss) == want[i]);
  }
  cn_compiled_free(c);
  for (int i = 0; i < 2; i++) {
    cn_optim_free(i ? b.optim : a.optim);
    cn_module_release(i ? b.net : a.net);
  }
}

/* ---- a program that is wrong ---- */

static int honest(cn_compile_call *k)
{
  k->outputs[0] = cn_add(cn_asinh(cn_mul(k->inputs[0], cn_num(2))), cn_num(1));
  k->noutputs = 1;
  return cn_err();
}

/* A rewrite that is not right: the result differs, and the node is the one that it replaced. */
static void wrong_programs_are_found(void **state)
{
  (void)state;
  static const cn_rewrite rows[] = {{"wrong", "asinh(x)", NULL, "sinh(x)", true}};
  cn_tensor *x = cn_ones(CN_SHAPE(3)), *y;
  cn_compiled *c = cn_compile(honest, .name = "honest");
  assert_int_equal(call(c, NULL, x, &y), 0);
  cn_compiled_free(c);
  assert_int_equal(cn_rewrite_register(rows, 1), 0);
  c = cn_compile(honest, .name = "honest");
  assert_int_not_equal(call(c, NULL, x, &y), 0);
  if (!strstr(cn_err_message(), "result 0: element 0 is")) fail_msg("%s", cn_err_message());
  assert_fails(CN_ERR_CAPTURE, "the first node that differs is node 1, asinh");
  cn_compiled_free(c);
}

static int counts(cn_compile_call *k)
{
  static int calls = 1;
  k->outputs[0] = cn_mul(k->inputs[0], cn_num(++calls));
  k->noutputs = 1;
  return cn_err();
}

static void other_settings(void **state)
{
  (void)state;
  cn_tensor *x = cn_ones(CN_SHAPE(3)), *y;
  cn_compiled *c = cn_compile(counts, .name = "counts");
  assert_int_not_equal(call(c, NULL, x, &y), 0);
  assert_fails(CN_ERR_CAPTURE, "node 0, mul: it reads the number 2, and now 3");
  setenv("CAIRN_COMPILE", "off", 1);
  assert_int_equal(call(c, NULL, x, &y), 0);
  assert_true(cn_item(cn_sum(y)) == 12);
  setenv("CAIRN_COMPILE", "sometimes", 1); /* as if it were not there, with a warning */
  assert_int_equal(call(c, NULL, x, &y), 0);
  assert_true(cn_item(cn_sum(y)) == 6);
  cn_compiled_free(c);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
  const struct CMUnitTest tests[] = {TEST(baked_in_things_are_named), TEST(checked_steps_are_steps),
                                     TEST(wrong_programs_are_found), TEST(other_settings)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
