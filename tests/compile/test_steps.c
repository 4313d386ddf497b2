/* test_steps.c: whole training steps as one program: scaled losses that overflow, clipping, the optimiser, averages of
 * parameters and a schedule of rates, as in eager to the bit, also where a run goes on from a saved state. */
#include <cairn/cairn.h>
#include <string.h>

#include "tensors.h"
#include "training.h"

enum { STEPS = 50 };

typedef struct trainer {
  cn_module *net;
  cn_optim *optim;
  cn_grad_scaler *scaler;
  cn_schedule *schedule;
  cn_average *mean, *ema;
} trainer;

static trainer trainer_new(int kind)
{
  cn_seed(5);
  trainer t = {cn_nn_sequential(cn_nn_linear(6, 16), cn_nn_batch_norm1d(16), cn_nn_relu(), cn_nn_dropout(.p = 0.2),
                                cn_nn_linear(16, 3)), NULL, NULL, NULL, NULL, NULL};
  t.optim = kind ? cn_optim_adamw(t.net, .lr = 0.01) : cn_optim_sgd(t.net, .lr = 0.1, .momentum = 0.9);
  t.scaler = cn_grad_scaler_new(.init_scale = 1e38, .growth_interval = 4); /* overflows, shrinks and grows again */
  t.schedule = cn_lr_step(t.optim, 7, .gamma = 0.5);
  t.mean = cn_average_new(t.net, 0, true);
  t.ema = cn_average_new(t.net, 0.9, false);
  if (cn_err()) fail_msg("%s", cn_err_message());
  return t;
}

static void trainer_free(trainer *t)
{
  cn_average_free(t->mean);
  cn_average_free(t->ema);
  cn_schedule_free(t->schedule);
  cn_grad_scaler_free(t->scaler);
  cn_optim_free(t->optim);
  cn_module_release(t->net);
}

static int step(cn_compile_call *k)
{
  trainer *t = k->payload;
  cn_tensor *loss = cn_cross_entropy(cn_forward(t->net, k->inputs[0]), k->inputs[1]);
  cn_backward(cn_grad_scaler_scale(t->scaler, cn_mul(loss, cn_num(10))));
  cn_grad_scaler_unscale(t->scaler, t->optim);
  clip(t->net);
  cn_grad_scaler_step(t->scaler, t->optim);
  cn_grad_scaler_update(t->scaler);
  cn_optim_zero_grad(t->optim);
  cn_average_update(t->mean, t->net);
  cn_average_update(t->ema, t->net);
  cn_schedule_step(t->schedule);
  k->outputs[0] = loss;
  k->noutputs = 1;
  return cn_err();
}

static double run(trainer *t, cn_compiled *c, int i)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *in[2], *loss = NULL;
  cn_seed(100 + (uint64_t)i);
  in[0] = cn_randn(CN_SHAPE(8, 6));
  in[1] = cn_randint(0, 3, CN_SHAPE(8));
  cn_compile_call k = {.inputs = in, .ninputs = 2, .outputs = &loss, .noutputs = 1, .payload = t};
  if (c ? cn_compiled_call(c, &k) : step(&k)) fail_msg("step %d: %s", i, cn_err_message());
  double value = cn_item(loss);
  cn_scope_end(s);
  return value;
}

static void assert_modules_equal(cn_module *a, cn_module *b)
{
  cn_named_list x, y;
  cn_module_named(&x, a, CN_PARAMETERS | CN_BUFFERS);
  cn_module_named(&y, b, CN_PARAMETERS | CN_BUFFERS);
  assert_int_equal(x.n, y.n);
  for (size_t i = 0; i < x.n; i++)
    if (!(cn_item(cn_all(cn_eq(x.v[i].tensor, y.v[i].tensor))) > 0)) fail_msg("%s differs", x.v[i].name);
  cn_named_free(&x);
  cn_named_free(&y);
}

static void assert_equal(trainer *a, trainer *b)
{
  cn_scope *s = cn_scope_begin();
  assert_modules_equal(a->net, b->net);
  assert_modules_equal(cn_average_module(a->mean), cn_average_module(b->mean));
  assert_modules_equal(cn_average_module(a->ema), cn_average_module(b->ema));
  assert_int_equal(cn_average_count(a->mean), cn_average_count(b->mean));
  assert_true(cn_grad_scaler_get(a->scaler) == cn_grad_scaler_get(b->scaler));
  assert_true(cn_optim_get(a->optim, 0, "lr") == cn_optim_get(b->optim, 0, "lr"));
  assert_int_equal(cn_schedule_epoch(a->schedule), cn_schedule_epoch(b->schedule));
  cn_scope_end(s);
}

static void steps_are_eagers(void **state)
{
  (void)state;
  for (int kind = 0; kind < 2; kind++) {
    trainer a = trainer_new(kind), b = trainer_new(kind);
    cn_compiled *c = cn_compile(step, .fullgraph = true);
    bool shrunk = false, grown = false;
    double scale = 1e38;
    for (int i = 0; i < STEPS; i++) {
      double want = run(&a, NULL, i), have = run(&b, c, i), now = cn_grad_scaler_get(a.scaler);
      assert_true(want == have);
      shrunk |= now < scale;
      grown |= now > scale;
      scale = now;
      assert_equal(&a, &b);
    }
    assert_true(shrunk && grown);
    cn_compile_stats stats;
    cn_compile_stats_get(&stats, sizeof stats, c);
    assert_int_equal(stats.eager_calls, 0);
    assert_true(stats.executables <= 2);
    cn_compiled_free(c);
    trainer_free(&a);
    trainer_free(&b);
  }
}

/* What b has so far, in a new trainer. */
static trainer resumed(trainer *b, int kind)
{
  trainer t = trainer_new(kind);
  cn_tree *states[5] = {cn_module_state(b->net), cn_optim_state(b->optim), cn_grad_scaler_state(b->scaler),
                        cn_schedule_state(b->schedule), cn_average_state(b->mean)};
  cn_tree *ema = cn_average_state(b->ema);
  int status = cn_module_load(t.net, states[0]);
  if (!status) status = cn_optim_load(t.optim, states[1]);
  if (!status) status = cn_grad_scaler_load(t.scaler, states[2]);
  if (!status) status = cn_schedule_load(t.schedule, states[3]);
  if (!status) status = cn_average_load(t.mean, states[4]);
  if (!status) status = cn_average_load(t.ema, ema);
  if (status) fail_msg("%s", cn_err_message());
  for (int i = 0; i < 5; i++) cn_tree_free(states[i]);
  cn_tree_free(ema);
  return t;
}

static void steps_resume(void **state)
{
  (void)state;
  trainer a = trainer_new(1), b = trainer_new(1);
  cn_compiled *c = cn_compile(step, .fullgraph = true);
  for (int i = 0; i < STEPS / 2; i++) run(&a, NULL, i), run(&b, c, i);
  trainer again = resumed(&b, 1);
  cn_compiled *fresh = cn_compile(step, .fullgraph = true);
  for (int i = STEPS / 2; i < STEPS; i++) run(&a, NULL, i), run(&again, fresh, i);
  assert_equal(&a, &again);
  cn_compiled_free(c);
  cn_compiled_free(fresh);
  trainer_free(&a);
  trainer_free(&b);
  trainer_free(&again);
}

/* ---- schedules ---- */

/* The step reads the rate that the schedule has just set. */
static int first_the_schedule(cn_compile_call *k)
{
  trainer *t = k->payload;
  cn_schedule_step(t->schedule);
  k->outputs[0] = cn_mean(cn_square(cn_forward(t->net, k->inputs[0])));
  cn_backward(k->outputs[0]);
  cn_optim_step(t->optim);
  cn_optim_zero_grad(t->optim);
  k->noutputs = 1;
  return cn_err();
}

static void schedules_step_where_they_stand(void **state)
{
  (void)state;
  trainer a = trainer_new(0), b = trainer_new(0);
  cn_compiled *c = cn_compile(first_the_schedule, .fullgraph = true);
  cn_tensor *x = cn_randn(CN_SHAPE(8, 6)), *loss = NULL;
  for (int i = 0; i < 20; i++) {
    cn_compile_call k = {.inputs = &x, .ninputs = 1, .outputs = &loss, .noutputs = 1, .payload = &a};
    cn_seed((uint64_t)i);
    assert_int_equal(first_the_schedule(&k), 0);
    k.payload = &b;
    k.noutputs = 1;
    cn_seed((uint64_t)i);
    if (cn_compiled_call(c, &k)) fail_msg("%s", cn_err_message());
  }
  assert_equal(&a, &b);
  assert_int_equal(cn_schedule_epoch(b.schedule), 20);
  cn_compiled_free(c);
  trainer_free(&a);
  trainer_free(&b);
}

/* ---- what is refused ---- */

static int half_done(cn_compile_call *k)
{
  trainer *t = k->payload;
  cn_backward(cn_grad_scaler_scale(t->scaler, cn_mean(cn_square(cn_forward(t->net, k->inputs[0])))));
  cn_grad_scaler_step(t->scaler, t->optim);
  cn_optim_zero_grad(t->optim);
  k->noutputs = 0;
  return cn_err();
}

static void assert_refused(cn_compile_fn fn, trainer *t, const char *words)
{
  cn_compiled *c = cn_compile(fn, .fullgraph = true);
  cn_tensor *x = cn_randn(CN_SHAPE(8, 6));
  cn_compile_call k = {.inputs = &x, .ninputs = 1, .payload = t};
  assert_int_equal(cn_compiled_call(c, &k), CN_ERR_CAPTURE);
  assert_fails(CN_ERR_CAPTURE, words);
  cn_compiled_free(c);
}

static void what_cannot_be_is_refused(void **state)
{
  (void)state;
  trainer t = trainer_new(0);
  assert_refused(half_done, &t, "kept outside");
  assert_int_equal(cn_schedule_epoch(t.schedule), 0);
  run(&t, NULL, 0); /* nothing is left of it */
  trainer_free(&t);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, clear_errors, NULL)

int main(void)
{
  const struct CMUnitTest tests[] = {TEST(steps_are_eagers), TEST(steps_resume), TEST(schedules_step_where_they_stand),
                                     TEST(what_cannot_be_is_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
