/* test_schedule.c: every schedule against PyTorch's rates over 50 steps (golden.py), its state in and out, and what
 * must be refused. */
#include <math.h>

#include "common.h"

enum { GROUPS = 2, STEPS = 51 };

typedef struct setup {
  cn_optim *opt;
  cn_tensor *params[GROUPS];
} setup;

static setup setup_make(bool adam)
{
  setup u;
  u.opt = adam ? cn_optim_adam(NULL, .lr = 0.1) : cn_optim_sgd(NULL, .lr = 0.1, .momentum = 0.85);
  assert_non_null(u.opt);
  for (int i = 0; i < GROUPS; i++) {
    u.params[i] = cn_keep(cn_requires_grad(cn_zeros(CN_SHAPE(2)), true));
    assert_int_equal(cn_optim_add(u.opt, &u.params[i], 1), i);
  }
  assert_int_equal(cn_optim_set(u.opt, 1, "lr", 0.5), 0);
  return u;
}

static void setup_free(setup *u)
{
  cn_optim_free(u->opt);
  for (int i = 0; i < GROUPS; i++) cn_release(u->params[i]);
}

static double power(int64_t epoch, void *payload) { return pow(*(double *)payload, (double)epoch); }
static double fewer(int64_t epoch, void *payload) { return (void)payload, 1 - 0.5 / (double)(epoch + 1); }

static cn_schedule *make_schedule(const char *name, const cn_tree *args, cn_optim *opt)
{
  static double base = 0.95;
  arguments a;
  const char *sig = schedule_signature(name);
  if (!strcmp(name, "WarmupCosineLR")) return cn_lr_warmup_cosine(opt, 5, 40, .min_factor = 0.1);
  if (sig) {
    arguments_read(&a, sig, args);
    return cn_schedule_make(name, opt, a.v, a.n);
  }
  if (!strcmp(name, "LambdaLR")) return cn_lr_lambda(opt, power, &base);
  if (!strcmp(name, "MultiplicativeLR")) return cn_lr_multiplicative(opt, fewer, NULL);
  if (!strcmp(name, "ChainedScheduler")) {
    cn_schedule *parts[] = {cn_lr_constant(opt, .factor = 0.1, .total_iters = 8), cn_lr_exponential(opt, 0.95)};
    return cn_lr_chained(parts, 2);
  }
  cn_schedule *parts[] = {cn_lr_linear(opt, .start_factor = 0.2, .total_iters = 5),
                          cn_lr_step(opt, 6, .gamma = 0.5), cn_lr_exponential(opt, 0.9)};
  return cn_lr_sequential(opt, parts, 3, (const int64_t[]){6, 25});
}

static double metric_at(int step) { return round((2 - 0.1 * fmin(step, 12) + 0.03 * fmax(0, step - 30)) * 1e6) / 1e6; }

static double momentum_of(const cn_optim *opt)
{
  const cn_value *betas = cn_args_get(cn_optim_args(opt, 0), "betas");
  return betas ? betas->u.fs[0] : cn_optim_get(opt, 0, "momentum");
}

static bool near(double x, double y) { return fabs(x - y) <= 1e-12 * fmax(fabs(y), 1e-3); }

static void step_once(cn_schedule *s, const char *name, int step)
{
  if (!strcmp(name, "ReduceLROnPlateau")) assert_int_equal(cn_schedule_step_metric(s, metric_at(step)), 0);
  else if (step < STEPS - 1) assert_int_equal(cn_schedule_step(s), 0);
}

static void run_case(const cn_tree *c)
{
  const char *name = cn_tree_as_str(cn_tree_get(c, "name"), "");
  setup u = setup_make(cn_tree_as_bool(cn_tree_get(c, "adam"), false));
  cn_schedule *s = make_schedule(name, cn_tree_get(c, "args"), u.opt);
  if (!s) print_error("%s: %s\n", name, cn_err_message());
  assert_non_null(s);
  assert_string_equal(cn_schedule_name(s), name);
  for (int step = 0; step < STEPS; step++) {
    for (size_t g = 0; g < GROUPS; g++) {
      double have = cn_optim_get(u.opt, g, "lr");
      double want = cn_tree_as_float(cn_tree_at(cn_tree_at(cn_tree_get(c, "rates"), (size_t)step), g), -1);
      if (!near(have, want)) print_error("%s, step %d, group %zu: %.17g, not %.17g\n", name, step, g, have, want);
      assert_true(near(have, want));
      assert_true(near(cn_schedule_lr(s, g), have));
    }
    double momentum = cn_tree_as_float(cn_tree_at(cn_tree_get(c, "momenta"), (size_t)step), -1);
    if (!near(momentum_of(u.opt), momentum))
      print_error("%s, step %d: momentum %.17g, not %.17g\n", name, step, momentum_of(u.opt), momentum);
    assert_true(near(momentum_of(u.opt), momentum));
    step_once(s, name, step);
  }
  cn_schedule_free(s);
  setup_free(&u);
}

static void rates_follow_pytorch(void **state)
{
  (void)state;
  cn_tree *cases = golden_load("schedules.json");
  cn_scope *s = cn_scope_begin();
  for (size_t i = 0; i < cn_tree_size(cases); i++) run_case(cn_tree_at(cases, i));
  cn_scope_end(s);
  cn_tree_free(cases);
}

/* 20 steps, state of both out and in, 20 more: the same rates to the last bit. */
static void resume_case(const cn_tree *c)
{
  const char *name = cn_tree_as_str(cn_tree_get(c, "name"), "");
  bool adam = cn_tree_as_bool(cn_tree_get(c, "adam"), false);
  setup u = setup_make(adam), v = setup_make(adam);
  cn_schedule *s = make_schedule(name, cn_tree_get(c, "args"), u.opt);
  for (int step = 0; step < 20; step++) step_once(s, name, step);
  cn_tree *optim_state = cn_optim_state(u.opt), *schedule_state = cn_schedule_state(s);
  cn_schedule *t = make_schedule(name, cn_tree_get(c, "args"), v.opt);
  assert_int_equal(cn_optim_load(v.opt, optim_state), 0);
  assert_int_equal(cn_schedule_load(t, schedule_state), 0);
  cn_tree *again = cn_schedule_state(t);
  assert_true(same_trees(schedule_state, again));
  for (int step = 20; step < 40; step++) {
    step_once(s, name, step);
    step_once(t, name, step);
    for (size_t g = 0; g < GROUPS; g++) assert_true(cn_optim_get(u.opt, g, "lr") == cn_optim_get(v.opt, g, "lr"));
    assert_true(momentum_of(u.opt) == momentum_of(v.opt));
  }
  cn_tree_free(again);
  cn_tree_free(optim_state);
  cn_tree_free(schedule_state);
  cn_schedule_free(s);
  cn_schedule_free(t);
  setup_free(&u);
  setup_free(&v);
}

static void schedules_resume_exactly(void **state)
{
  (void)state;
  cn_tree *cases = golden_load("schedules.json");
  cn_scope *s = cn_scope_begin();
  for (size_t i = 0; i < cn_tree_size(cases); i++) resume_case(cn_tree_at(cases, i));
  cn_scope_end(s);
  cn_tree_free(cases);
}

static double by_group(cn_schedule *s, size_t group, void *payload)
{
  *(int *)payload += 1;
  return (group ? 0.5 : 0.25) / (double)(cn_schedule_epoch(s) + 1);
}

static double halves(double cycle, void *payload) { return (void)payload, pow(0.5, cycle); }

static void rates_by_functions_of_groups(void **state)
{
  (void)state;
  int calls = 0;
  setup u = setup_make(false);
  cn_schedule *s = cn_lr_by("LRScheduler", u.opt, by_group, &calls, -1);
  assert_int_equal(cn_schedule_step(s), 0);
  assert_int_equal(calls, 4);
  assert_true(near(cn_optim_get(u.opt, 0, "lr"), 0.125) && near(cn_optim_get(u.opt, 1, "lr"), 0.25));
  assert_true(near(cn_schedule_base(s, 0), 0.1) && near(cn_schedule_base(s, 1), 0.5));
  assert_int_equal(cn_schedule_jump(s, 4), 0);
  assert_true(near(cn_schedule_lr(s, 1), 0.1));
  cn_schedule_free(s);
  s = cn_lr_by("LambdaLR", u.opt, by_group, &calls, 6); /* from the initial rates, which the groups have kept */
  assert_int_equal(cn_schedule_epoch(s), 7);
  assert_true(near(cn_schedule_lr(s, 1), 0.5 * 0.5 / 8));
  cn_schedule_free(s);
  assert_null(cn_lr_by("StepLR", u.opt, by_group, &calls, -1));
  cn_err_clear();
  setup_free(&u);
}

static void limits_differ_by_group(void **state)
{
  (void)state;
  setup u = setup_make(false);
  const cn_lr_list high = {"max_lr", (const double[]){0.4, 0.8}}, none = {"mode", high.v};
  const cn_value args[] = {cn_v_float(0.4), cn_v_int(20)};
  cn_schedule *s = cn_schedule_make_lists("OneCycleLR", u.opt, args, 2, &high, 1);
  assert_non_null(s);
  assert_true(near(cn_schedule_lr(s, 0), 0.4 / 25) && near(cn_schedule_lr(s, 1), 0.8 / 25));
  for (int i = 0; i < 5; i++) assert_int_equal(cn_schedule_step(s), 0);
  assert_true(near(cn_schedule_lr(s, 0), 0.4) && near(cn_schedule_lr(s, 1), 0.8));
  cn_schedule_free(s);
  assert_null(cn_schedule_make_lists("CyclicLR", u.opt, args, 2, &none, 1));
  cn_err_clear();
  s = cn_lr_cyclic(u.opt, 0.1, 0.2, .step_size_up = 2);
  assert_int_equal(cn_lr_cyclic_scale(s, halves, NULL, false), 0);
  for (int i = 0; i < 6; i++) assert_int_equal(cn_schedule_step(s), 0);
  assert_true(near(cn_schedule_lr(s, 0), 0.1 + 0.1 * 0.25)); /* the top of the second cycle */
  cn_schedule_free(s);
  setup_free(&u);
}

static void groups_may_join_later(void **state)
{
  (void)state;
  setup u = setup_make(false);
  cn_tensor *more = cn_keep(cn_requires_grad(cn_zeros(CN_SHAPE(1)), true));
  cn_schedule *s = cn_lr_exponential(u.opt, 0.5);
  assert_int_equal(cn_optim_add(u.opt, &more, 1), 2);
  assert_int_equal(cn_schedule_step(s), 0);
  assert_true(near(cn_schedule_lr(s, 2), 0.05) && near(cn_optim_get(u.opt, 2, "lr"), 0.05));
  cn_schedule_free(s);
  s = cn_lr_cosine_annealing_warm_restarts(u.opt, 4, .T_mult = 2);
  assert_int_equal(cn_schedule_jump(s, 8.5), 0); /* 4.5 into the second, which takes 8 */
  assert_true(near(cn_schedule_lr(s, 0), 0.1 * (1 + cos(acos(-1) * 4.5 / 8)) / 2));
  assert_int_equal(cn_schedule_epoch(s), 8);
  cn_schedule_free(s);
  cn_release(more);
  setup_free(&u);
}

static void refused(cn_schedule *s)
{
  assert_null(s);
  assert_true(cn_err() != 0);
  cn_err_clear();
}

/* A class of another language: half of what the formula says, once it is asked. */
static double half_of(cn_schedule *s, size_t group, void *payload)
{
  ++*(int *)payload;
  return cn_schedule_next(s, group) / 2;
}

static void a_formula_may_be_answered_by_others(void **state)
{
  (void)state;
  cn_scope *scope = cn_scope_begin();
  setup u = setup_make(false);
  int asked = 0;
  cn_schedule *s = cn_lr_exponential(u.opt, 0.8);
  assert_int_equal(cn_schedule_rewind(s, (const double[]){0.1, 0.5}, half_of, &asked), 0);
  assert_int_equal(cn_schedule_epoch(s), -1);
  assert_int_equal(cn_schedule_step(s), 0); /* the first step again: the formula leaves the rate as it is */
  assert_float_equal(cn_optim_get(u.opt, 0, "lr"), 0.05, 1e-12);
  assert_float_equal(cn_optim_get(u.opt, 1, "lr"), 0.25, 1e-12);
  assert_int_equal(cn_schedule_step(s), 0);
  assert_float_equal(cn_schedule_lr(s, 0), 0.05 * 0.8 / 2, 1e-12);
  assert_int_equal(asked, 2 * GROUPS);
  assert_int_equal(cn_schedule_epoch(s), 1);
  cn_schedule_free(s);
  setup_free(&u);
  cn_scope_end(scope);
}

static void wrong_schedules_are_refused(void **state)
{
  (void)state;
  setup u = setup_make(false);
  cn_optim *plain = cn_optim_adagrad(NULL);
  assert_int_equal(cn_optim_add(plain, u.params, 2), 0);
  refused(cn_lr_step(u.opt, 0));
  refused(cn_lr_constant(u.opt, .factor = 2));
  refused(cn_lr_cosine_annealing(u.opt, 0));
  refused(cn_lr_one_cycle(u.opt, 0.1));
  refused(cn_lr_one_cycle(u.opt, 0.1, .total_steps = 10, .anneal_strategy = "steep"));
  refused(cn_lr_one_cycle(plain, 0.1, .total_steps = 10));
  refused(cn_lr_cyclic(u.opt, 0.1, 0.2, .mode = "square"));
  refused(cn_lr_reduce_on_plateau(u.opt, .factor = 1.5));
  refused(cn_lr_warmup_cosine(u.opt, 20, 10));
  refused(cn_lr_step(NULL, 3));
  refused(cn_lr_step(u.opt, 3, .last_epoch = 4)); /* no initial_lr to resume from */
  refused(cn_lr_lambda(u.opt, NULL, NULL));
  refused(cn_lr_chained(NULL, 0));
  refused(cn_schedule_make("SquareLR", u.opt, NULL, 0));
  cn_schedule *mixed[] = {cn_lr_step(u.opt, 3), cn_lr_step(plain, 3)};
  refused(cn_lr_chained(mixed, 2));
  cn_schedule *metric[] = {cn_lr_step(u.opt, 3), cn_lr_reduce_on_plateau(u.opt)};
  refused(cn_lr_sequential(u.opt, metric, 2, (const int64_t[]){3}));
  cn_schedule *s = cn_lr_one_cycle(u.opt, 0.1, .total_steps = 2);
  assert_int_equal(cn_schedule_step(s), 0);
  assert_int_equal(cn_schedule_step(s), 0);
  assert_int_equal(cn_schedule_step(s), CN_ERR_VALUE); /* past its end */
  cn_err_clear();
  cn_schedule_free(s);
  cn_optim_free(plain);
  setup_free(&u);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(rates_follow_pytorch),
    cmocka_unit_test(schedules_resume_exactly),
    cmocka_unit_test(rates_by_functions_of_groups),
    cmocka_unit_test(limits_differ_by_group),
    cmocka_unit_test(groups_may_join_later),
    cmocka_unit_test(a_formula_may_be_answered_by_others),
    cmocka_unit_test(wrong_schedules_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
