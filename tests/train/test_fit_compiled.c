/* test_fit_compiled.c: cn_fit(.compile = true): losses, metrics, nets, optimisers and random numbers are those of a fit
 * as it is, to the bit, with every option of the step; a step is one program; going on from a checkpoint changes
 * nothing; what cannot be captured runs as it is. */
#include <cairn/compile.h>
#include <cairn/ext/system.h>
#include <cairn/io.h>
#include <string.h>

#include "runs.h"
#include "test.h"

enum { MOST = 64 };

/* What a fit left behind. */
typedef struct outcome {
  double losses[MOST], validation[MOST], accuracy[MOST];
  int nlosses, nepochs;
  uint64_t sum, seed, drawn;
  int64_t steps;
  cn_compile_stats stats;
} outcome;

static int on_batch(cn_fitting *fit, void *payload)
{
  outcome *o = payload;
  assert_int_equal(cn_size(cn_fitting_output(fit), 0), cn_fitting_data(fit)->size);
  o->losses[o->nlosses++] = cn_fitting_value(fit, "batch_loss");
  return CN_OK;
}

static int on_epoch(cn_fitting *fit, void *payload)
{
  outcome *o = payload;
  o->validation[o->nepochs] = cn_fitting_value(fit, "val_loss");
  o->accuracy[o->nepochs++] = cn_fitting_value(fit, "accuracy");
  o->steps = cn_fitting_run(fit)->step;
  return CN_OK;
}

/* What differs between tests. */
typedef struct variant {
  cn_fit_opts opts;
  bool average, scaler, sgd, lbfgs;
} variant;

static cn_optim *optim_of(const variant *v, cn_module *net, cn_optim *usual)
{
  if (v->lbfgs) return cn_optim_lbfgs(net, .lr = 0.1, .max_iter = 3);
  return v->sgd ? cn_optim_sgd(net, .lr = 0.05, .momentum = 0.9, .weight_decay = 0.01) : usual;
}

static outcome run(const variant *v, bool compile)
{
  small_run r;
  outcome o = {.nlosses = 0};
  assert_int_equal(small_run_begin(&r), 0);
  cn_optim *opt = optim_of(v, r.net, r.opt);
  cn_loader *validation = cn_loader_new(some_digits(CN_TEST, 20, false), .batch = 8);
  cn_metric *metrics[] = {cn_metric_accuracy()};
  const cn_callback notes[] = {{.batch_end = on_batch, .epoch_end = on_epoch, .payload = &o}};
  cn_fit_opts f = v->opts;
  f.size = sizeof f;
  f.epochs = f.epochs ? f.epochs : 2;
  f.validation = validation;
  f.metrics = metrics;
  f.nmetrics = 1;
  f.callbacks = notes;
  f.ncallbacks = 1;
  if (opt == r.opt) f.schedule = r.schedule;
  if (v->average) f.average = cn_average_new(r.net, 0.9, false);
  if (v->scaler) f.scaler = cn_grad_scaler_new(.init_scale = 64);
  f.compile = compile;
  cn_compile_stats_reset();
  CHECK(cn_fit_with(r.net, opt, r.loader, &f));
  cn_compile_stats_get(&o.stats, sizeof o.stats, NULL);
  o.sum = net_sum(f.average ? cn_average_module(f.average) : r.net);
  cn_random_state(&o.seed, &o.drawn);
  cn_average_free(f.average);
  cn_grad_scaler_free(f.scaler);
  cn_metric_free(metrics[0]);
  cn_loader_free(validation);
  if (opt != r.opt) cn_optim_free(opt);
  small_run_end(&r);
  return o;
}

/* Runs both ways; what the compiled one left. */
static outcome compare(const variant *v)
{
  outcome want = run(v, false), have = run(v, true);
  assert_int_equal(want.stats.executables + want.stats.eager_calls, 0);
  for (int i = 0; i < want.nlosses; i++)
    if (memcmp(&want.losses[i], &have.losses[i], sizeof(double)))
      fail_msg("batch %d: loss %.17g, as it is %.17g", i, have.losses[i], want.losses[i]);
  assert_memory_equal(want.validation, have.validation, sizeof want.validation);
  assert_memory_equal(want.accuracy, have.accuracy, sizeof want.accuracy);
  assert_true(want.sum == have.sum && want.seed == have.seed && want.drawn == have.drawn);
  assert_int_equal(want.steps, have.steps);
  assert_int_equal(have.stats.eager_calls, 0);
  return have;
}

/* 7 batches of which the last is smaller, and 3 of validation likewise: four programs. */
static void a_step_is_a_program(void **state)
{
  (void)state;
  outcome o = compare(&(variant){.average = false});
  assert_int_equal(o.stats.executables, 4);
  assert_int_equal(o.stats.runs, 2 * (7 + 3));
}

static void options_of_the_step(void **state)
{
  (void)state;
  compare(&(variant){.opts = {.clip_norm = 0.5}});
  compare(&(variant){.opts = {.schedule_each_batch = true}, .average = true});
  compare(&(variant){.sgd = true});
  compare(&(variant){.opts = {.autocast = CN_BF16}});
}

static void forward_and_backward(void **state)
{
  (void)state;
  compare(&(variant){.opts = {.accumulate = 3}});
  compare(&(variant){.opts = {.accumulate = 2, .clip_norm = 0.5}, .average = true});
  compare(&(variant){.opts = {.autocast = CN_F16, .clip_norm = 1}});
  compare(&(variant){.scaler = true});
  compare(&(variant){.lbfgs = true});
}

static cn_tensor *half_smoothed(cn_tensor *output, const cn_batch *batch, void *payload)
{
  (void)payload;
  return cn_cross_entropy(output, batch->y, .label_smoothing = 0.5);
}

static void losses(void **state)
{
  (void)state;
  compare(&(variant){.opts = {.loss = half_smoothed}});
  cn_module *smooth = cn_nn_cross_entropy_loss(.label_smoothing = 0.5);
  compare(&(variant){.opts = {.loss_module = smooth}});
  cn_module_release(smooth);
}

/* Two epochs, and two more from their checkpoint, are four. */
static void goes_on_from_a_checkpoint(void **state)
{
  (void)state;
  const char *path = temporary("compiled.ckpt");
  uint64_t sums[2];
  for (int parts = 0; parts < 2; parts++) {
    small_run r;
    assert_int_equal(small_run_begin(&r), 0);
    if (parts) {
      CHECK(cn_fit(r.net, r.opt, r.loader, .epochs = 2, .schedule = r.schedule, .schedule_each_batch = true,
                   .compile = true, .callbacks = CN_CALLBACKS(cn_callback_last(path, 0))));
      small_run_end(&r);
      assert_int_equal(small_run_begin(&r), 0);
    }
    CHECK(cn_fit(r.net, r.opt, r.loader, .epochs = 4, .schedule = r.schedule, .schedule_each_batch = true,
                 .compile = true, .resume = parts ? path : NULL));
    sums[parts] = net_sum(r.net);
    small_run_end(&r);
  }
  assert_true(sums[0] == sums[1]);
  remove_temporary();
}

/* A loss that looks at a value cannot be captured: one warning, the right numbers. */
static cn_tensor *looking_loss(cn_tensor *output, const cn_batch *batch, void *payload)
{
  (void)payload;
  cn_tensor *loss = cn_cross_entropy(output, batch->y);
  return cn_item(loss) > 1 ? loss : cn_mul(loss, cn_num(2));
}

static void count_warning(cn_log_level level, const char *message, void *payload)
{
  if (level == CN_LOG_WARNING && strstr(message, "runs as it is")) ++*(int *)payload;
}

static void what_cannot_be_captured(void **state)
{
  (void)state;
  int warnings = 0;
  variant v = {.opts = {.loss = looking_loss}};
  outcome want = run(&v, false);
  cn_set_log(count_warning, &warnings);
  outcome have = run(&v, true);
  cn_set_log(NULL, NULL);
  assert_true(want.sum == have.sum && want.drawn == have.drawn);
  assert_memory_equal(want.losses, have.losses, sizeof want.losses);
  assert_int_equal(warnings, 1);
  assert_int_equal(have.stats.eager_calls, 2 * (7 + 3));
}

/* A layer that a callback freezes half-way is frozen from then on. */
static int freeze(cn_fitting *fit, void *payload)
{
  (void)payload;
  cn_tensor *w = cn_module_get(cn_fitting_run(fit)->net, "0.weight");
  return cn_fitting_batch(fit) == 3 && !cn_requires_grad(w, false) ? cn_err() : CN_OK;
}

static void modules_that_change(void **state)
{
  (void)state;
  uint64_t sums[2];
  for (int k = 0; k < 2; k++) {
    small_run r;
    assert_int_equal(small_run_begin(&r), 0);
    CHECK(cn_fit(r.net, r.opt, r.loader, .compile = k, .callbacks = CN_CALLBACKS({.batch_end = freeze})));
    sums[k] = net_sum(r.net);
    small_run_end(&r);
  }
  assert_true(sums[0] == sums[1]);
}

static void evaluates(void **state)
{
  (void)state;
  small_run r;
  double want, have;
  assert_int_equal(small_run_begin(&r), 0);
  CHECK(cn_evaluate(&want, r.net, r.loader));
  cn_compile_stats s;
  cn_compile_stats_reset();
  CHECK(cn_evaluate(&have, r.net, r.loader, .compile = true));
  cn_compile_stats_get(&s, sizeof s, NULL);
  assert_memory_equal(&want, &have, sizeof want);
  assert_int_equal(s.runs, 7);
  small_run_end(&r);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_step_is_a_program),     cmocka_unit_test(options_of_the_step),
    cmocka_unit_test(forward_and_backward),    cmocka_unit_test(losses),
    cmocka_unit_test(goes_on_from_a_checkpoint), cmocka_unit_test(what_cannot_be_captured),
    cmocka_unit_test(modules_that_change),     cmocka_unit_test(evaluates),
  };
  return cmocka_run_group_tests_name("fit compiled", tests, NULL, NULL);
}
