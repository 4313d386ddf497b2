/* test_pjrt_training.c: the PJRT backend with a compiler behind it (jaxlib's for CPUs, by tests/pjrt/plugin/server.py):
 * ops, views, writes through views, random numbers and gradients are the CPU's; a network trains eagerly and compiled.
 * Skipped, with the reason, where no Python with jax is found (PJRT_TEST_PYTHON names one).
 *
 * XLA adds in another order and has functions of its own: results are compared within a few roundings of float32, and
 * after training steps within what those grow to. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "on_pjrt.h"

enum { ROWS = 16, WIDTH = 12, CLASSES = 4, STEPS = 12 };
static const double close = 5e-6, trained = 2e-4;

static bool has_compiler;

static void need_compiler(void)
{
  need_device();
  if (!has_compiler) SKIP_TEST("no Python with jax (set PJRT_TEST_PYTHON)");
}

/* ---- ops ---- */

static cn_tensor *formulas(cn_tensor *x, cn_tensor *y)
{
  cn_tensor *z = cn_gelu(cn_add(cn_mul(x, y), cn_num(0.5)));
  return cn_sum(cn_matmul(cn_softmax(z, -1), cn_transpose(y, 0, 1)), .dim = CN_INTS(1));
}

static void ops(void **state)
{
  (void)state;
  need_compiler();
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_randn(CN_SHAPE(6, 8)), *y = cn_randn(CN_SHAPE(6, 8));
  size_t executed = count().executed;
  cn_tensor *z = formulas(to(x), to(y));
  assert_int_equal(count().executed, executed); /* nothing was asked for yet */
  close_to("formulas", formulas(x, y), z, close);
  assert_int_equal(count().executed, executed + 1);
  close_to("again", formulas(x, y), z, close); /* it is there now */
  assert_int_equal(count().executed, executed + 1);
  size_t compiled = count().compiled;
  close_to("other numbers", formulas(y, x), formulas(to(y), to(x)), close);
  assert_int_equal(count().compiled, compiled); /* a program that looks the same */
  cn_scope_end(s);
  fine();
}

static void views(void **state)
{
  (void)state;
  need_compiler();
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_randn(CN_SHAPE(4, 6, 5)), *y = to(x);
  close_to("transposed", cn_transpose(x, 0, 2), cn_transpose(y, 0, 2), 0);
  close_to("steps", cn_slice(x, 1, 1, CN_NONE, .step = 2), cn_slice(y, 1, 1, CN_NONE, .step = 2), 0);
  close_to("backwards", cn_flip(x, CN_SHAPE(0, 2)), cn_flip(y, CN_SHAPE(0, 2)), 0);
  close_to("a column", cn_select(cn_select(x, 2, 3), 0, 1), cn_select(cn_select(y, 2, 3), 0, 1), 0);
  close_to("expanded", cn_expand(cn_select(x, 1, 2), CN_SHAPE(3, 4, 5)),
           cn_expand(cn_select(y, 1, 2), CN_SHAPE(3, 4, 5)), 0);
  close_to("diagonal", cn_diagonal(x, .dim1 = 0, .dim2 = 1), cn_diagonal(y, .dim1 = 0, .dim2 = 1), 0);
  close_to("of a view", cn_relu(cn_transpose(cn_narrow(x, 1, 2, 3), 0, 1)),
           cn_relu(cn_transpose(cn_narrow(y, 1, 2, 3), 0, 1)), 0);
  cn_scope_end(s);
  fine();
}

/* What is written through a view is seen by the base and by other views; what was read before stays. */
static cn_tensor *write_through(cn_tensor *x)
{
  cn_tensor *before = cn_add(x, cn_num(1)), *t = cn_transpose(x, 0, 1);
  cn_mul_(cn_select(x, 0, 1), cn_num(10));
  cn_add_(cn_slice(t, 0, 0, CN_NONE, .step = 2), cn_num(100));
  cn_copy_(cn_narrow(x, 1, 1, 2), cn_narrow(before, 1, 2, 2));
  cn_fill_(cn_diagonal(x), cn_num(-1));
  cn_fill_(cn_select(cn_select(x, 0, 3), 0, 4), cn_num(0));
  return cn_add(cn_add(x, before), cn_select(t, 0, 0));
}

static void writes(void **state)
{
  (void)state;
  need_compiler();
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_randn(CN_SHAPE(5, 5)), *y = to(x), *z = cn_empty(CN_SHAPE(6, 3), .device = there);
  close_to("result", write_through(x), write_through(y), close);
  close_to("base", x, y, close);
  cn_tensor *rows = cn_randn(CN_SHAPE(6, 3));
  for (int i = 0; i < 6; i++) cn_copy_(cn_select(z, 0, i), to(cn_select(rows, 0, i))); /* each row by itself */
  close_to("rows", rows, z, 0);
  close_to("of the rows", cn_square(rows), cn_square(z), close);
  cn_scope_end(s);
  fine();
}

static void random_numbers(void **state)
{
  (void)state;
  need_compiler();
  cn_scope *s = cn_scope_begin();
  cn_tensor *drawn[2][3];
  for (int i = 0; i < 2; i++) {
    cn_device device = i ? there : CN_CPU;
    cn_seed(7);
    drawn[i][0] = cn_rand(CN_SHAPE(33), .device = device);
    drawn[i][1] = cn_randn(CN_SHAPE(5, 3), .device = device);
    cn_seed(8);
    drawn[i][2] = cn_rand(CN_SHAPE(4), .device = device);
  }
  close_to("uniform", drawn[0][0], drawn[1][0], 0);
  close_to("normal", drawn[0][1], drawn[1][1], close);
  close_to("another seed", drawn[0][2], drawn[1][2], 0);
  cn_scope_end(s);
  fine();
}

static void gradients(void **state)
{
  (void)state;
  need_compiler();
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_randn(CN_SHAPE(6, 8)), *w = cn_randn(CN_SHAPE(3, 8)), *g[2][2];
  for (int i = 0; i < 2; i++) {
    cn_tensor *a = cn_requires_grad(cn_detach(cn_to_device(x, i ? there : CN_CPU)), true);
    cn_tensor *b = cn_requires_grad(cn_detach(cn_to_device(w, i ? there : CN_CPU)), true);
    cn_tensor *y = cn_tanh(cn_linear(a, b, NULL));
    cn_backward(cn_sum(cn_mul(cn_log_softmax(y, 1), cn_narrow(y, 1, 0, 1))));
    g[i][0] = cn_grad_of(a);
    g[i][1] = cn_grad_of(b);
  }
  close_to("of x", g[0][0], g[1][0], close);
  close_to("of w", g[0][1], g[1][1], close);
  cn_scope_end(s);
  fine();
}

/* ---- training ---- */

typedef struct trainer {
  cn_module *net;
  cn_optim *optim;
} trainer;

static trainer start(cn_device device, bool adam)
{
  cn_seed(11);
  trainer t = {cn_nn_sequential(cn_nn_linear(WIDTH, 16), cn_nn_tanh(), cn_nn_linear(16, CLASSES)), NULL};
  cn_module_to(t.net, device, CN_DTYPE_NONE);
  t.optim = adam ? cn_optim_adam(t.net, .lr = 0.02) : cn_optim_sgd(t.net, .lr = 0.1, .momentum = 0.9);
  fine();
  return t;
}

static void finish(trainer *t)
{
  cn_optim_free(t->optim);
  cn_module_release(t->net);
}

static int step(cn_compile_call *call)
{
  trainer *t = call->payload;
  cn_tensor *loss = cn_mean(cn_square(cn_sub(cn_forward(t->net, call->inputs[0]), call->inputs[1])));
  cn_backward(loss);
  cn_optim_step(t->optim);
  cn_optim_zero_grad(t->optim);
  call->outputs[0] = loss;
  call->noutputs = 1;
  return cn_err();
}

/* Losses of some steps, or only the last one. compiled: NULL, or what runs them. */
static bool reads_last;

static void train(double *losses, trainer *t, cn_compiled *compiled, cn_device device)
{
  cn_seed(5);
  for (int i = 0; i < STEPS; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *in[2] = {cn_randn(CN_SHAPE(ROWS, WIDTH)), cn_randn(CN_SHAPE(ROWS, CLASSES))}, *loss = NULL;
    for (int k = 0; k < 2; k++) in[k] = cn_to_device(in[k], device);
    cn_compile_call call = {.inputs = in, .ninputs = 2, .outputs = &loss, .noutputs = 1, .payload = t};
    assert_int_equal(compiled ? cn_compiled_call(compiled, &call) : step(&call), 0);
    if (!reads_last || i == STEPS - 1) losses[i] = cn_item(loss);
    cn_scope_end(s);
    fine();
  }
}

static void trains(bool adam)
{
  double want[STEPS], eager[STEPS], whole[STEPS];
  trainer t = start(CN_CPU, adam);
  train(want, &t, NULL, CN_CPU);
  finish(&t);
  t = start(there, adam);
  train(eager, &t, NULL, there);
  size_t compiled = count().compiled, executed = count().executed;
  train(eager, &t, NULL, there);
  assert_int_equal(count().compiled, compiled); /* its steps look like earlier ones */
  assert_int_equal(count().executed, executed + STEPS);
  reads_last = true;
  train(eager, &t, NULL, there);
  reads_last = false;
  assert_true(count().compiled <= compiled + 2); /* whose losses nobody reads is another program */
  assert_int_equal(count().executed, executed + 2 * STEPS);
  finish(&t);
  t = start(there, adam);
  train(eager, &t, NULL, there);
  finish(&t);
  t = start(there, adam);
  cn_compiled *fast = cn_compile(step);
  train(whole, &t, fast, there);
  finish(&t);
  cn_compiled_free(fast);
  for (int i = 0; i < STEPS; i++) {
    double most = trained * (1 + want[i]);
    if (fabs(eager[i] - want[i]) > most) fail_msg("eager step %d: %g, not %g", i, eager[i], want[i]);
    if (fabs(whole[i] - want[i]) > most) fail_msg("compiled step %d: %g, not %g", i, whole[i], want[i]);
  }
}

static void trains_by_sgd(void **state)
{
  (void)state;
  need_compiler();
  trains(false);
}

static void trains_by_adam(void **state)
{
  (void)state;
  need_compiler();
  trains(true);
}

/* A compiled step is one launch; parameters and momenta are given away with it, and nothing is left behind. */
static void gives_states_away(void **state)
{
  (void)state;
  need_compiler();
  double losses[STEPS];
  trainer t = start(there, true);
  cn_compiled *fast = cn_compile(step);
  train(losses, &t, fast, there);
  fake_counts before = count();
  train(losses, &t, fast, there);
  fake_counts after = count();
  assert_int_equal(after.executed - before.executed, STEPS);
  assert_int_equal(after.compiled, before.compiled);
  assert_int_equal(after.given - before.given, STEPS * 4 * 3); /* four parameters, two averages of each */
  assert_int_equal(after.kept, before.kept);
  assert_int_equal(after.buffers, before.buffers);
  finish(&t);
  cn_compiled_free(fast);
}

static bool find_python(void)
{
  static const char *const usual[] = {"build/peers/bin/python", "build/test-env/bin/python", "python3"};
  char command[1200], script[1200];
  const char *asked = getenv("PJRT_TEST_PYTHON");
  snprintf(script, sizeof script, "%s/tests/pjrt/plugin/server.py", CN_TEST_SOURCE_DIR);
  setenv("PJRT_TEST_SERVER", script, 1);
  for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
    const char *python = asked ? asked : usual[i];
    snprintf(command, sizeof command, "%s -c 'import jax, ml_dtypes' >/dev/null 2>&1", python);
    if (system(command)) continue;
    setenv("PJRT_TEST_PYTHON", python, 1);
    return true;
  }
  unsetenv("PJRT_TEST_PYTHON");
  return false;
}

int main(int argc, char **argv)
{
  (void)argc;
  use_fake(argv[0]);
  setenv("CAIRN_CACHE", "off", 1);
  has_compiler = find_python();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ops),           cmocka_unit_test(views),          cmocka_unit_test(writes),
      cmocka_unit_test(random_numbers), cmocka_unit_test(gradients),     cmocka_unit_test(trains_by_sgd),
      cmocka_unit_test(trains_by_adam), cmocka_unit_test(gives_states_away),
  };
  return cmocka_run_group_tests(tests, find_device, NULL);
}
