/* test_fit.c: cn_fit, cn_evaluate and cn_predict: that they learn, in which order callbacks are called, what options
 * do, that stopping and going on is bitwise, and what becomes of failures. */
#include <cairn/autograd.h>
#include <cairn/ext/system.h>
#include <cairn/io.h>
#include <math.h>
#include <stdio.h>

#include "runs.h"
#include "test.h"

/* ---- learning ---- */

static void learns_digits(void **state)
{
  (void)state;
  cn_seed(1);
  cn_module *net = cn_nn_sequential(
    cn_nn_conv2d(1, 16, 3, .padding = CN_INTS(1)), cn_nn_batch_norm2d(16), cn_nn_relu(),
    cn_nn_conv2d(16, 32, 3, .padding = CN_INTS(1)), cn_nn_batch_norm2d(32), cn_nn_relu(), cn_nn_max_pool2d(2),
    cn_nn_flatten(), cn_nn_dropout(.p = 0.3), cn_nn_linear(32 * 4 * 4, 10));
  cn_optim *opt = cn_optim_adamw(net, .lr = 4e-3, .weight_decay = 0.05);
  cn_schedule *cosine = cn_lr_cosine_annealing(opt, 12);
  cn_loader *train = cn_loader_new(cn_digits(CN_TRAIN), .batch = 32, .shuffle = true);
  cn_loader *test = cn_loader_new(cn_digits(CN_TEST), .batch = 100);
  cn_metric *accuracy = cn_metric_accuracy();
  CHECK(cn_fit(net, opt, train, .epochs = 12, .schedule = cosine, .validation = test, .metrics = CN_METRICS(accuracy)));
  double loss;
  CHECK(cn_evaluate(&loss, net, test, .metrics = CN_METRICS(accuracy)));
  print_message("digits: test accuracy %d of 10000, loss %d / 10000\n", (int)(cn_metric_value(accuracy) * 1e4),
                (int)(loss * 1e4));
  assert_true(cn_metric_value(accuracy) > 0.95);
  /* predictions are in the samples' order */
  cn_scope *s = cn_scope_begin();
  cn_tensor *y = cn_predict(net, test);
  assert_int_equal(cn_size(y, 0), 360);
  assert_int_equal(cn_size(y, 1), 10);
  assert_false(cn_needs_grad(y));
  double right = 0;
  for (int64_t i = 0; i < 360; i++) {
    cn_sample sample;
    CHECK(cn_dataset_get(&sample, cn_loader_dataset(test), i));
    right += cn_item(cn_argmax(cn_select(y, 0, i), 0)) == cn_item(sample.v[1]);
    cn_sample_clear(&sample);
  }
  assert_float_equal(right / 360, cn_metric_value(accuracy), 1e-12);
  cn_scope_end(s);
  cn_metric_free(accuracy);
  cn_schedule_free(cosine);
  cn_loader_free(train);
  cn_loader_free(test);
  cn_optim_free(opt);
  cn_module_release(net);
}

/* ---- callbacks ---- */

typedef struct notes {
  char text[4000]; /* what was called */
  double losses[200];
  int nlosses, stop_at, fail_at, freed;
} notes;

static void note(notes *n, const char *word)
{
  size_t used = strlen(n->text);
  snprintf(n->text + used, sizeof n->text - used, "%s", word);
}

static int on_begin(cn_fitting *fit, void *p)
{
  (void)fit;
  note(p, "(");
  return 0;
}
static int on_epoch_begin(cn_fitting *fit, void *p)
{
  char word[16];
  snprintf(word, sizeof word, "%d", (int)cn_fitting_run(fit)->epoch);
  note(p, word);
  return 0;
}
static int on_batch(cn_fitting *fit, void *p)
{
  notes *n = p;
  note(n, ".");
  assert_non_null(cn_fitting_data(fit)->x);
  assert_int_equal(cn_size(cn_fitting_output(fit), 0), cn_fitting_data(fit)->size);
  n->losses[n->nlosses++] = cn_fitting_value(fit, "batch_loss");
  if (n->nlosses == n->stop_at) cn_fitting_stop(fit);
  return n->nlosses == n->fail_at ? CN_ERR_VALUE : 0;
}
static int on_epoch_end(cn_fitting *fit, void *p)
{
  (void)fit;
  note(p, ";");
  return 0;
}
static int on_end(cn_fitting *fit, void *p)
{
  (void)fit;
  note(p, ")");
  return 0;
}
static void on_free(void *p) { ((notes *)p)->freed++; }

static cn_callback noting(notes *n)
{
  return (cn_callback){.begin = on_begin, .epoch_begin = on_epoch_begin, .batch_end = on_batch,
                       .epoch_end = on_epoch_end, .end = on_end, .free = on_free, .payload = n};
}

/* 50 samples in batches of 8: 7 a epoch. */
static void callbacks_come_in_order(void **state)
{
  (void)state;
  small_run r;
  notes a = {0}, b = {.fail_at = 3}, c = {.stop_at = 9};
  assert_int_equal(small_run_begin(&r), 0);
  CHECK(cn_fit(r.net, r.opt, r.loader, .epochs = 2, .callbacks = CN_CALLBACKS(noting(&a))));
  assert_string_equal(a.text, "(0.......;1.......;)");
  assert_int_equal(a.freed, 1);
  /* a failing one ends it; nothing is called any more but free */
  notes second = {0};
  int status = cn_fit(r.net, r.opt, r.loader, .callbacks = CN_CALLBACKS(noting(&b), noting(&second)));
  assert_int_equal(status, CN_ERR_VALUE);
  assert_true(cn_err() == CN_ERR_VALUE);
  cn_err_clear();
  assert_string_equal(b.text, "(0...");
  assert_string_equal(second.text, "(0..");
  assert_int_equal(b.freed + second.freed, 2);
  /* one that stops it */
  assert_int_equal(cn_loader_restart(r.loader, 0), 0);
  assert_int_equal(cn_fit(r.net, r.opt, r.loader, .epochs = 5, .callbacks = CN_CALLBACKS(noting(&c))), 1);
  assert_string_equal(c.text, "(0.......;1..)");
  assert_true(cn_module_training(r.net));
  /* wrong arguments free them too */
  a.freed = 0;
  assert_int_equal(cn_fit(NULL, r.opt, r.loader, .callbacks = CN_CALLBACKS(noting(&a))), CN_ERR_TYPE);
  cn_err_clear();
  status = cn_fit(r.net, r.opt, r.loader, .accumulate = -1, .callbacks = CN_CALLBACKS(noting(&a)));
  assert_int_equal(status, CN_ERR_VALUE);
  cn_err_clear();
  assert_int_equal(a.freed, 2);
  small_run_end(&r);
}

static int interrupt(cn_fitting *fit, void *p)
{
  notes *n = p;
  (void)fit;
  if (++n->nlosses == 4) cn_fit_interrupt();
  return 0;
}

static void an_interruption_stops_it(void **state)
{
  (void)state;
  small_run r;
  notes n = {0};
  assert_int_equal(small_run_begin(&r), 0);
  cn_fit_interrupt(); /* before it began: not for this one */
  const char *path = temporary("interrupted.safetensors");
  cn_callback interrupting = {.batch_end = interrupt, .payload = &n};
  int status = cn_fit(r.net, r.opt, r.loader, .epochs = 3,
                      .callbacks = CN_CALLBACKS(interrupting, cn_callback_last(path, 0)));
  assert_int_equal(status, 1);
  assert_int_equal(n.nlosses, 4);
  assert_true(cn_path_kind_of(path) == CN_PATH_FILE);
  small_run_end(&r);
}

/* ---- stopping and going on ---- */

typedef struct course {
  notes notes;
  uint64_t sum;
  double val_loss;
  int64_t steps;
} course;

static int keep_end(cn_fitting *fit, void *p)
{
  course *c = p;
  c->val_loss = cn_fitting_value(fit, "val_loss");
  c->steps = cn_fitting_run(fit)->step;
  return 0;
}

/* Three epochs from the same start, or as far as stop_at; from path on when it is there. */
static int go(course *c, const char *path, const char *csv, int stop_at, int64_t accumulate)
{
  small_run r;
  *c = (course){.notes.stop_at = stop_at};
  assert_int_equal(small_run_begin(&r), 0);
  cn_loader *validation = cn_loader_new(some_digits(CN_TEST, 30, true), .batch = 9);
  cn_metric *accuracy = cn_metric_accuracy(), *f1 = cn_metric_f1(10, CN_MACRO);
  cn_average *average = cn_average_new(r.net, 0.9, true);
  assert_int_equal(cn_err(), 0);
  int status = cn_fit(
    r.net, r.opt, r.loader, .epochs = 3, .validation = validation, .metrics = CN_METRICS(accuracy, f1),
    .schedule = r.schedule, .schedule_each_batch = true, .accumulate = accumulate, .average = average, .clip_norm = 1,
    .resume = path,
    .callbacks = CN_CALLBACKS(cn_callback_rate(), noting(&c->notes), cn_callback_csv(csv), cn_callback_last(path, 0),
                              cn_callback_early_stop("val_loss", 50, 0), {.end = keep_end, .payload = c}));
  if (status < 0) print_error("%s\n", cn_err_message());
  c->sum = net_sum(r.net) ^ net_sum(cn_average_module(average));
  cn_average_free(average);
  cn_metric_free(accuracy);
  cn_metric_free(f1);
  cn_loader_free(validation);
  small_run_end(&r);
  return status;
}

static void same_file(const char *a, const char *b)
{
  cn_mapping x, y;
  assert_int_equal(cn_map_open(&x, a) | cn_map_open(&y, b), 0);
  assert_int_equal(x.size, y.size);
  assert_memory_equal(x.data, y.data, x.size);
  cn_map_close(&x);
  cn_map_close(&y);
}

static void going_on_is_bitwise(void **state)
{
  (void)state;
  const char *whole = temporary("whole.csv"), *parts = temporary("parts.csv");
  const char *first = temporary("a.safetensors"), *path = temporary("b.safetensors");
  for (int64_t accumulate = 1; accumulate <= 3; accumulate += 2) {
    course want, have;
    double losses[64];
    int n = 0;
    cn_file_remove(first);
    CHECK(go(&want, first, whole, 0, accumulate));
    assert_int_equal(want.notes.nlosses, 21);
    assert_int_equal(want.steps, accumulate == 1 ? 21 : 9);
    for (int stop = 1; stop <= 7; stop += 3) { /* also at the end of an epoch */
      cn_file_remove(path);
      cn_file_remove(parts);
      for (n = 0;;) {
        int status = go(&have, path, parts, stop, accumulate);
        assert_true(status >= 0 && n + have.notes.nlosses <= 21);
        memcpy(losses + n, have.notes.losses, (size_t)have.notes.nlosses * sizeof *losses);
        n += have.notes.nlosses;
        if (!status) break;
      }
      assert_int_equal(n, 21);
      assert_memory_equal(losses, want.notes.losses, 21 * sizeof *losses);
      assert_true(have.sum == want.sum && have.steps == want.steps);
      assert_true(have.val_loss == want.val_loss);
      same_file(whole, parts);
    }
  }
}

/* Interrupts in the middle of the first validation. */
static cn_tensor *loss_that_interrupts(cn_tensor *output, const cn_batch *batch, void *payload)
{
  int *validated = payload;
  if (validated && !cn_grad_enabled() && ++*validated == 2) cn_fit_interrupt();
  return cn_cross_entropy(output, batch->y);
}

static int fit_validated(const char *path, int *validated, notes *n, uint64_t *sum)
{
  small_run r;
  assert_int_equal(small_run_begin(&r), 0);
  cn_loader *validation = cn_loader_new(some_digits(CN_TEST, 30, false), .batch = 9);
  cn_metric *accuracy = cn_metric_accuracy();
  int status = cn_fit(r.net, r.opt, r.loader, .epochs = 2, .validation = validation, .loss = loss_that_interrupts,
                      .payload = validated, .metrics = CN_METRICS(accuracy), .resume = path,
                      .callbacks = CN_CALLBACKS(noting(n), cn_callback_last(path, 0)));
  *sum = net_sum(r.net);
  cn_metric_free(accuracy);
  cn_loader_free(validation);
  small_run_end(&r);
  return status;
}

static void validation_can_be_interrupted(void **state)
{
  (void)state;
  notes first = {0}, second = {0}, whole = {0};
  int validated = 0;
  uint64_t have, want;
  const char *path = temporary("validated.safetensors");
  assert_int_equal(fit_validated(path, &validated, &first, &have), 1);
  assert_string_equal(first.text, "(0.......)");
  CHECK(fit_validated(path, NULL, &second, &have));
  assert_string_equal(second.text, "(0;1.......;)");
  CHECK(fit_validated(temporary("validated-whole.safetensors"), NULL, &whole, &want));
  assert_true(have == want);
}

/* ---- options ---- */

struct squares {
  int calls;
  double first; /* what the first call returned */
};

static cn_tensor *squared(cn_tensor *output, const cn_batch *batch, void *payload)
{
  struct squares *s = payload;
  cn_tensor *loss = cn_mse_loss(output, cn_cast(cn_one_hot(batch->y, .num_classes = 10), CN_F32));
  if (s->calls++ == 0) s->first = cn_item(loss);
  return loss;
}

static cn_tensor *half_smoothed(cn_tensor *output, const cn_batch *batch, void *payload)
{
  (void)payload;
  return cn_cross_entropy(output, batch->y, .label_smoothing = 0.5);
}

static double first_loss(cn_fit_opts o)
{
  small_run r;
  notes n = {0};
  cn_callback callback = noting(&n);
  o.size = sizeof o;
  o.callbacks = &callback;
  o.ncallbacks = 1;
  assert_int_equal(small_run_begin(&r), 0);
  CHECK(cn_fit_with(r.net, r.opt, r.loader, &o));
  small_run_end(&r);
  for (int i = 0; i < n.nlosses; i++) assert_true(isfinite(n.losses[i]));
  return n.losses[0];
}

static void losses_of_many_kinds(void **state)
{
  (void)state;
  struct squares s = {0};
  double plain = first_loss((cn_fit_opts){0});
  double reported = first_loss((cn_fit_opts){.loss = squared, .payload = &s});
  assert_float_equal(reported, s.first, 0);
  assert_int_equal(s.calls, 7);
  cn_module *smooth = cn_nn_cross_entropy_loss(.label_smoothing = 0.5);
  double smoothed = first_loss((cn_fit_opts){.loss_module = smooth});
  assert_float_equal(smoothed, first_loss((cn_fit_opts){.loss = half_smoothed}), 0);
  assert_true(smoothed != plain);
  cn_module_release(smooth);
  assert_float_equal(first_loss((cn_fit_opts){.autocast = CN_BF16}), plain, 0.1);
  assert_float_equal(first_loss((cn_fit_opts){.autocast = CN_F16, .clip_norm = 1}), plain, 0.02);
}

/* Two halves at a step give the gradient of the whole. */
static void gathering_equals_larger_batches(void **state)
{
  (void)state;
  double after[2];
  for (int k = 0; k < 2; k++) {
    cn_seed(3);
    cn_module *net = cn_nn_linear(4, 3);
    cn_optim *opt = cn_optim_sgd(net, .lr = 0.5);
    cn_scope *s = cn_scope_begin();
    cn_tensor *fields[] = {cn_rand(CN_SHAPE(12, 4)), cn_remainder(cn_arange(0, 12, .dtype = CN_I64), cn_int(3))};
    cn_loader *l = cn_loader_new(cn_dataset_tensors(fields, 2), .batch = k ? 2 : 4);
    CHECK(cn_fit(net, opt, l, .epochs = 3, .accumulate = k ? 2 : 1));
    after[k] = cn_item(cn_sum(cn_abs(cn_detach(cn_module_get(net, "weight")))));
    cn_scope_end(s);
    cn_loader_free(l);
    cn_optim_free(opt);
    cn_module_release(net);
  }
  assert_float_equal(after[0], after[1], 1e-5);
}

/* A loader in the middle of an epoch: the rest of it is the first one. */
static void begins_where_the_loader_is(void **state)
{
  (void)state;
  small_run r;
  notes n = {0};
  cn_batch b;
  assert_int_equal(small_run_begin(&r), 0);
  for (int i = 0; i < 3; i++) assert_int_equal(cn_loader_next(&b, r.loader), 1);
  cn_module_train(r.net, false);
  CHECK(cn_fit(r.net, r.opt, r.loader, .epochs = 2, .accumulate = 2, .callbacks = CN_CALLBACKS(noting(&n))));
  assert_string_equal(n.text, "(0....;1.......;)");
  assert_false(cn_module_training(r.net));
  small_run_end(&r);
}

static int worse(cn_fitting *fit, void *p)
{
  (void)p;
  return cn_fitting_set(fit, "trouble", (double)cn_fitting_run(fit)->epoch);
}

static void schedules_step(void **state)
{
  (void)state;
  small_run r;
  assert_int_equal(small_run_begin(&r), 0);
  CHECK(cn_fit(r.net, r.opt, r.loader, .epochs = 3, .schedule = r.schedule)); /* each epoch: once by 0.9 */
  assert_float_equal(cn_optim_get(r.opt, 0, "lr"), 3e-3 * 0.9, 1e-9);
  small_run_end(&r);
  assert_int_equal(small_run_begin(&r), 0);
  CHECK(cn_fit(r.net, r.opt, r.loader, .schedule = r.schedule, .schedule_each_batch = true)); /* 7 steps: twice */
  assert_float_equal(cn_optim_get(r.opt, 0, "lr"), 3e-3 * 0.81, 1e-9);
  small_run_end(&r);
  assert_int_equal(small_run_begin(&r), 0);
  cn_schedule *plateau = cn_lr_reduce_on_plateau(r.opt, .patience = CN_ZERO, .factor = 0.5);
  assert_non_null(plateau);
  CHECK(cn_fit(r.net, r.opt, r.loader, .epochs = 4, .schedule = plateau, .plateau = "trouble",
               .callbacks = CN_CALLBACKS({.epoch_end = worse})));
  assert_float_equal(cn_optim_get(r.opt, 0, "lr"), 3e-3 / 8, 1e-9);
  assert_int_equal(cn_fit(r.net, r.opt, r.loader, .schedule = plateau), CN_ERR_VALUE); /* there is no val_loss */
  assert_non_null(strstr(cn_err_message(), "val_loss"));
  cn_err_clear();
  cn_schedule_free(plateau);
  small_run_end(&r);
}

static void wrong_options_are_refused(void **state)
{
  (void)state;
  small_run r;
  assert_int_equal(small_run_begin(&r), 0);
  cn_loader *empty = cn_loader_new(some_digits(CN_TRAIN, 3, false), .batch = 5, .drop_last = true);
  cn_metric *f1 = cn_metric_f1(3, CN_MACRO);
  const struct {
    cn_fit_opts o;
    int status;
  } cases[] = {{{.epochs = -1}, CN_ERR_VALUE},       {{.clip_norm = -1}, CN_ERR_VALUE},
               {{.autocast = CN_F64}, CN_ERR_DTYPE}, {{.metrics = (cn_metric *[]){NULL}, .nmetrics = 1}, CN_ERR_TYPE},
               {{.metrics = &f1, .nmetrics = 1}, CN_ERR_SHAPE}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    cn_fit_opts o = cases[i].o;
    o.size = sizeof o;
    assert_int_equal(cn_fit_with(r.net, r.opt, r.loader, &o), cases[i].status);
    cn_err_clear();
  }
  assert_int_equal(cn_fit(r.net, r.opt, empty), CN_ERR_VALUE);
  cn_err_clear();
  assert_null(cn_predict(r.net, empty));
  cn_err_clear();
  assert_int_equal(cn_evaluate(NULL, r.net, NULL), CN_ERR_TYPE);
  cn_err_clear();
  cn_metric_free(f1);
  cn_loader_free(empty);
  small_run_end(&r);
}

/* ---- LBFGS, which evaluates several times a step ---- */

typedef struct by_hand {
  cn_module *net;
  cn_optim *opt;
  cn_loader *loader;
  cn_batch batch;
  int evaluations;
} by_hand;

static by_hand lbfgs_begin(void)
{
  cn_seed(3);
  by_hand h = {.net = cn_nn_sequential(cn_nn_flatten(), cn_nn_linear(64, 10))};
  h.opt = cn_optim_lbfgs(h.net, .line_search_fn = "strong_wolfe");
  h.loader = cn_loader_new(some_digits(CN_TRAIN, 100, false), .batch = 100);
  return h;
}

static void lbfgs_end(by_hand *h)
{
  cn_loader_free(h->loader);
  cn_optim_free(h->opt);
  cn_module_release(h->net);
}

static cn_tensor *evaluate(void *payload)
{
  by_hand *h = payload;
  h->evaluations++;
  cn_optim_zero_grad(h->opt);
  cn_tensor *loss = cn_cross_entropy(cn_forward(h->net, h->batch.x), h->batch.y);
  return cn_backward(loss) ? NULL : loss;
}

/* fit gives it a closure: the losses are those of the loop written out, to the bit. */
static void lbfgs_is_given_its_closure(void **state)
{
  (void)state;
  by_hand h = lbfgs_begin();
  double want[3];
  for (int epoch = 0; epoch < 3; epoch++) {
    cn_scope *s = cn_scope_begin();
    assert_int_equal(cn_loader_next(&h.batch, h.loader), 1);
    cn_tensor *loss = cn_optim_step_closure(h.opt, evaluate, &h);
    assert_non_null(loss);
    want[epoch] = cn_item(loss);
    cn_scope_end(s);
    assert_int_equal(cn_loader_next(&h.batch, h.loader), 0); /* the end of the epoch */
  }
  assert_true(h.evaluations > 3);
  lbfgs_end(&h);
  h = lbfgs_begin();
  notes n = {0};
  CHECK(cn_fit(h.net, h.opt, h.loader, .epochs = 3, .callbacks = CN_CALLBACKS(noting(&n))));
  assert_int_equal(n.nlosses, 3);
  assert_memory_equal(n.losses, want, sizeof want);
  assert_int_equal(cn_fit(h.net, h.opt, h.loader, .accumulate = 2), CN_ERR_VALUE);
  cn_err_clear();
  lbfgs_end(&h);
}

/* ---- failing allocations ---- */

static int fit_once(void)
{
  small_run r;
  cn_metric *accuracy = NULL;
  cn_loader *validation = NULL;
  int status = small_run_begin(&r);
  if (!status && !(accuracy = cn_metric_accuracy())) status = cn_err();
  if (!status) validation = cn_loader_new(some_digits(CN_TEST, 10, false), .batch = 5);
  if (!status && !validation) status = cn_err();
  if (!status)
    status = cn_fit(r.net, r.opt, r.loader, .epochs = 1, .validation = validation, .metrics = CN_METRICS(accuracy),
                    .callbacks = CN_CALLBACKS(cn_callback_rate(), cn_callback_csv(temporary("memory.csv")),
                                              cn_callback_events(temporary("memory-events")),
                                              cn_callback_best(temporary("memory-best.safetensors"), "val_accuracy"),
                                              cn_callback_early_stop("loss", 5, 0)));
  cn_metric_free(accuracy);
  cn_loader_free(validation);
  small_run_end(&r);
  return status ? status : cn_err();
}

static void failing_allocations_leak_nothing(void **state)
{
  (void)state;
  cn_memory_stats before, after;
  assert_int_equal(fit_once(), 0);
  cn_memory_set_caching(false);
  cn_memory_trim();
  assert_int_equal(fit_once(), 0);
  cn_memory_get_stats(&before);
  bool failed = true;
  for (uint64_t k = 1; failed; k += 1 + k / 12) {
    cn_memory_fail_at(k);
    int status = fit_once();
    cn_memory_fail_at(0);
    failed = status != 0;
    if (failed && status != CN_ERR_MEMORY) print_error("allocation %d: %s\n", (int)k, cn_err_message());
    if (failed) assert_int_equal(status, CN_ERR_MEMORY);
    cn_err_clear();
    cn_memory_get_stats(&after);
    if (after.in_use != before.in_use) print_error("allocation %d: %d bytes\n", (int)k,
                                                   (int)(after.in_use - before.in_use));
    assert_int_equal(after.in_use, before.in_use);
  }
  cn_memory_set_caching(true);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(learns_digits), cmocka_unit_test(callbacks_come_in_order),
    cmocka_unit_test(an_interruption_stops_it), cmocka_unit_test(going_on_is_bitwise),
    cmocka_unit_test(validation_can_be_interrupted),
    cmocka_unit_test(losses_of_many_kinds), cmocka_unit_test(gathering_equals_larger_batches),
    cmocka_unit_test(begins_where_the_loader_is), cmocka_unit_test(schedules_step),
    cmocka_unit_test(wrong_options_are_refused),
    cmocka_unit_test(lbfgs_is_given_its_closure), cmocka_unit_test(failing_allocations_leak_nothing)};
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  remove_temporary();
  return failed;
}
