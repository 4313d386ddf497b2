/* test_training.c: optimisers at work: whole training steps captured and replayed, groups and settings, gradients cut
 * to size, averages, loss scales, and memory that runs out. */
#include <cairn/ext/parts.h>
#include <math.h>
#include <stdio.h>

#include "common.h"

/* ---- a small net ---- */

typedef struct trainer {
  cn_module *net;
  cn_optim *opt;
} trainer;

static cn_module *make_net(void)
{
  cn_seed(3);
  return cn_nn_sequential(cn_nn_linear(6, 8), cn_nn_tanh(), cn_nn_linear(8, 3));
}

static cn_optim *make_optim(const char *kind, cn_module *net)
{
  if (!strcmp(kind, "sgd")) return cn_optim_sgd(net, .lr = 0.1, .momentum = 0.9, .weight_decay = 0.01);
  if (!strcmp(kind, "adamw")) return cn_optim_adamw(net, .lr = 0.01);
  if (!strcmp(kind, "rmsprop")) return cn_optim_rmsprop(net, .lr = 0.01, .momentum = 0.5, .centered = true);
  if (!strcmp(kind, "nadam")) return cn_optim_nadam(net, .lr = 0.01);
  if (!strcmp(kind, "radam")) return cn_optim_radam(net, .lr = 0.01);
  if (!strcmp(kind, "asgd")) return cn_optim_asgd(net, .lr = 0.1, .t0 = 3);
  return cn_optim_adafactor(net);
}

static trainer trainer_make(const char *kind)
{
  cn_module *net = make_net();
  trainer t = {net, make_optim(kind, net)};
  assert_non_null(t.opt);
  return t;
}

static void trainer_free(trainer *t)
{
  cn_optim_free(t->opt);
  cn_module_release(t->net);
}

/* One step: forward, backward, update. inputs: x (4, 6), y (4, 3). */
static int train(cn_tensor **outputs, cn_tensor *const *inputs, void *payload)
{
  trainer *t = payload;
  outputs[0] = cn_mse_loss(cn_forward(t->net, inputs[0]), inputs[1]);
  if (cn_backward(outputs[0]) || cn_optim_step(t->opt)) return cn_err();
  return cn_optim_zero_grad(t->opt);
}

static void batch(cn_tensor **inputs, uint64_t seed)
{
  cn_seed(seed);
  inputs[0] = cn_randn(CN_SHAPE(4, 6));
  inputs[1] = cn_randn(CN_SHAPE(4, 3));
}

static void same_state(trainer *a, trainer *b)
{
  cn_tree *x = cn_module_state(a->net), *y = cn_module_state(b->net);
  assert_true(same_trees(x, y));
  cn_tree_free(x);
  cn_tree_free(y);
  x = cn_optim_state(a->opt), y = cn_optim_state(b->opt);
  assert_true(same_trees(x, y));
  cn_tree_free(x);
  cn_tree_free(y);
}

/* ---- capture ---- */

static void capture_one(const char *kind)
{
  cn_scope *s = cn_scope_begin();
  trainer eager = trainer_make(kind), traced = trainer_make(kind);
  cn_tensor *inputs[2], *loss[1], *other[1];
  batch(inputs, 100);
  assert_int_equal(train(loss, inputs, &eager), 0); /* makes the state */
  assert_int_equal(train(other, inputs, &traced), 0);
  cn_graph *g = cn_trace(train, 1, inputs, 2, &traced);
  if (!g) print_error("%s: %s\n", kind, cn_err_message());
  assert_non_null(g);
  same_state(&eager, &traced); /* a capture changes nothing */
  char *text = cn_graph_to_string(g);
  cn_graph *parsed = cn_graph_parse(text);
  assert_non_null(parsed);
  char *again = cn_graph_to_string(parsed);
  assert_string_equal(text, again);
  for (uint64_t step = 0; step < 6; step++) {
    batch(inputs, step);
    if (step == 3) { /* the rate is read anew in each run */
      assert_int_equal(cn_optim_set(eager.opt, 0, "lr", 0.003), 0);
      assert_int_equal(cn_optim_set(traced.opt, 0, "lr", 0.003), 0);
    }
    assert_int_equal(train(loss, inputs, &eager), 0);
    assert_int_equal(cn_graph_run(other, g, inputs), 0);
    assert_true(same_bits(loss[0], other[0]));
    same_state(&eager, &traced);
  }
  /* What was read back runs like the graph, once it has its states. */
  for (size_t i = 0; i < cn_graph_states(g); i++)
    assert_int_equal(cn_graph_bind(parsed, i, cn_graph_state(g, i)), 0);
  assert_int_equal(train(loss, inputs, &eager), 0);
  assert_int_equal(cn_graph_run(other, parsed, inputs), 0);
  same_state(&eager, &traced);
  cn_string_free(text);
  cn_string_free(again);
  cn_graph_free(g);
  cn_graph_free(parsed);
  trainer_free(&eager);
  trainer_free(&traced);
  cn_scope_end(s);
}

static void captured_steps_replay_exactly(void **state)
{
  (void)state;
  static const char *const kinds[] = {"sgd", "adamw", "rmsprop", "nadam", "radam", "asgd", "adafactor"};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) capture_one(kinds[i]);
}

/* A step may be captured before the first one was taken: the state begins then. */
static void capture_from_the_beginning(const char *kind)
{
  cn_scope *s = cn_scope_begin();
  trainer eager = trainer_make(kind), traced = trainer_make(kind);
  cn_tensor *inputs[2], *want, *have;
  batch(inputs, 1);
  cn_graph *g = cn_trace(train, 1, inputs, 2, &traced);
  if (!g) print_error("%s: %s\n", kind, cn_err_message());
  assert_non_null(g);
  for (uint64_t step = 0; step < 3; step++) {
    batch(inputs, step);
    assert_int_equal(train(&want, inputs, &eager), 0);
    assert_int_equal(cn_graph_run(&have, g, inputs), 0);
    assert_true(same_bits(want, have));
    same_state(&eager, &traced);
  }
  cn_graph_free(g);
  trainer_free(&eager);
  trainer_free(&traced);
  cn_scope_end(s);
}

static void capture_begins_a_state(void **state)
{
  (void)state;
  static const char *const kinds[] = {"sgd", "adamw", "rmsprop", "nadam", "radam", "asgd", "adafactor"};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) capture_from_the_beginning(kinds[i]);
}

/* ---- devices ---- */

/* Parameters elsewhere, rates and step counts on the host: the bits of the CPU, since the mirror runs its kernels. */
static void other_devices_work(void **state)
{
  (void)state;
  static const char *const names[] = {"SGD", "Adam", "NAdam", "RMSprop", "Lion", "Adagrad", "Adafactor", "Muon"};
  cn_device mirror = cn_device_find("mirror");
  cn_scope *s = cn_scope_begin();
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    cn_seed(5);
    cn_tensor *start = cn_randn(CN_SHAPE(5, 7)), *grad = cn_randn(CN_SHAPE(5, 7));
    cn_tensor *here = cn_requires_grad(cn_clone(start), true);
    cn_tensor *there = cn_requires_grad(cn_to_device(start, mirror), true);
    cn_optim *a = cn_optim_make(names[i], NULL, NULL, 0), *b = cn_optim_make(names[i], NULL, NULL, 0);
    assert_int_equal(cn_optim_add(a, &here, 1), 0);
    assert_int_equal(cn_optim_add(b, &there, 1), 0);
    for (int step = 0; step < 3; step++) {
      cn_set_grad(here, cn_clone(grad));
      cn_set_grad(there, cn_to_device(grad, mirror));
      double norm = cn_item(cn_clip_grad_norm(&here, 1, 1, 2));
      assert_true(fabs(cn_item(cn_clip_grad_norm(&there, 1, 1, 2)) - norm) < 1e-5);
      assert_int_equal(cn_optim_step(a), 0);
      if (cn_optim_step(b)) print_error("%s: %s\n", names[i], cn_err_message());
      assert_int_equal(cn_err(), 0);
    }
    assert_true(same_bits(here, cn_to_device(there, CN_CPU)));
    cn_optim_free(a);
    cn_optim_free(b);
  }
  cn_scope_end(s);
}

/* Memory with gaps goes another way through the CPU backend (programs, not loops of their own): with the same bits. */
static void layouts_do_not_matter(void **state)
{
  (void)state;
  const char *name, *sig, *doc;
  cn_scope *s = cn_scope_begin();
  for (size_t i = 0; cn_optim_class_at(i, &name, &sig, &doc); i++) {
    if (!strcmp(name, "LBFGS") || !strcmp(name, "Adafactor") || !strcmp(name, "Muon")) continue; /* these add up */
    cn_seed(9);
    cn_tensor *start = cn_randn(CN_SHAPE(37, 5)), *grad = cn_randn(CN_SHAPE(37, 5));
    cn_tensor *dense = cn_requires_grad(cn_clone(start), true);
    cn_tensor *gaps = cn_empty_strided(CN_SHAPE(37, 5), CN_SHAPE(12, 2));
    cn_requires_grad(cn_copy_(gaps, start), true);
    cn_optim *a = cn_optim_make(name, NULL, NULL, 0), *b = cn_optim_make(name, NULL, NULL, 0);
    assert_int_equal(cn_optim_add(a, &dense, 1), 0);
    assert_int_equal(cn_optim_add(b, &gaps, 1), 0);
    for (int step = 0; step < 8; step++) {
      cn_set_grad(dense, cn_clone(grad));
      cn_set_grad(gaps, cn_clone(grad));
      assert_int_equal(cn_optim_step(a), 0);
      assert_int_equal(cn_optim_step(b), 0);
    }
    if (!same_bits(dense, gaps)) print_error("%s: memory with gaps gives other bits\n", name);
    assert_true(same_bits(dense, gaps));
    cn_optim_free(a);
    cn_optim_free(b);
  }
  cn_scope_end(s);
}

/* ---- groups and settings ---- */

static void groups_have_their_own_settings(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *p[3];
  for (int i = 0; i < 3; i++) p[i] = cn_requires_grad(cn_ones(CN_SHAPE(2)), true);
  cn_optim *opt = cn_optim_sgd(NULL, .lr = 0.5);
  assert_int_equal(cn_optim_add(opt, p, 1), 0);
  assert_int_equal(cn_optim_add(opt, p + 1, 2), 1);
  assert_int_equal(cn_optim_ngroups(opt), 2);
  assert_int_equal(cn_optim_nparams(opt, 1), 2);
  assert_ptr_equal(cn_optim_param(opt, 1, 1), p[2]);
  assert_int_equal(cn_optim_set(opt, 1, "lr", 0.25), 0);
  assert_int_equal(cn_optim_set(opt, 1, "weight_decay", 1), 0);
  assert_true(cn_optim_get(opt, 0, "lr") == 0.5 && cn_optim_get(opt, 1, "lr") == 0.25);
  assert_true(cn_item(cn_optim_lr(opt, 1)) == 0.25);
  for (int i = 0; i < 2; i++) cn_set_grad(p[i], cn_ones(CN_SHAPE(2)));
  assert_int_equal(cn_optim_step(opt), 0);
  assert_true(cn_item(cn_sum(p[0])) == 1 && cn_item(cn_sum(p[1])) == 1); /* 1 - 0.5; 1 - 0.25 (1 + 1) */
  assert_true(cn_item(cn_sum(p[2])) == 2); /* no gradient: left alone */
  assert_int_equal(cn_optim_zero_grad(opt), 0);
  assert_null(cn_grad_of(p[0]));
  cn_optim_free(opt);
  cn_scope_end(s);
}

static void refused(int status)
{
  assert_true(status < 0);
  assert_true(cn_err() != 0);
  cn_err_clear();
}

static void refused_optim(cn_optim *opt)
{
  assert_null(opt);
  assert_true(cn_err() != 0);
  cn_err_clear();
}

static void wrong_settings_are_refused(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  refused_optim(cn_optim_adam(NULL, .lr = -1));
  refused_optim(cn_optim_adam(NULL, .betas = CN_DOUBLES(1.5, 0.9)));
  refused_optim(cn_optim_sgd(NULL, .nesterov = true));
  refused_optim(cn_optim_rmsprop(NULL, .alpha = -1));
  refused_optim(cn_optim_adadelta(NULL, .rho = 2));
  refused_optim(cn_optim_rprop(NULL, .etas = CN_DOUBLES(1.5, 2)));
  refused_optim(cn_optim_adafactor(NULL, .beta2_decay = 1));
  refused_optim(cn_optim_muon(NULL, .adjust_lr_fn = "none"));
  refused_optim(cn_optim_lbfgs(NULL, .line_search_fn = "none"));
  refused_optim(cn_optim_make("Adamant", NULL, NULL, 0));
  cn_tensor *p = cn_requires_grad(cn_ones(CN_SHAPE(2)), true), *q = cn_mul(p, cn_num(2));
  cn_optim *opt = cn_optim_adam(NULL), *muon = cn_optim_muon(NULL), *lbfgs = cn_optim_lbfgs(NULL);
  assert_int_equal(cn_optim_add(opt, &p, 1), 0);
  assert_int_equal(cn_optim_add(lbfgs, &p, 1), 0);
  refused(cn_optim_add(opt, &p, 1)); /* twice */
  refused(cn_optim_add(opt, &q, 1)); /* no leaf */
  refused(cn_optim_add(muon, &p, 1)); /* no matrix */
  refused(cn_optim_add(lbfgs, &p, 1)); /* one group only */
  refused(cn_optim_step(lbfgs)); /* needs a closure */
  refused(cn_optim_set(opt, 0, "momentum", 1));
  refused(cn_optim_set(opt, 0, "betas", 1));
  refused(cn_optim_set(opt, 3, "lr", 1));
  refused(cn_optim_set_value(opt, 0, "betas", cn_v_floats((const double[]){0.5, 2}, 2)));
  assert_int_equal(cn_optim_set_value(opt, 0, "betas", cn_v_floats((const double[]){0.5, 0.6}, 2)), 0);
  assert_true(cn_args_get(cn_optim_args(opt, 0), "betas")->u.fs[1] == 0.6);
  refused(cn_optim_set(opt, 0, "weight_decay", -1));
  assert_true(cn_optim_get(opt, 0, "weight_decay") == 0);
  assert_true(isnan(cn_optim_get(opt, 0, "nothing")));
  cn_err_clear();
  cn_tree *wrong = cn_optim_state(opt), *groups = cn_tree_get(wrong, "param_groups");
  cn_tree_put(cn_tree_at(groups, 0), "betas", cn_tree_str("high"));
  refused(cn_optim_load(opt, wrong));
  cn_tree_free(wrong);
  refused(cn_optim_load(opt, NULL));
  cn_optim_free(opt);
  cn_optim_free(muon);
  cn_optim_free(lbfgs);
  cn_scope_end(s);
}

/* The op below: several results in place. */
static void updates_are_checked(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *p = cn_requires_grad(cn_ones(CN_SHAPE(4)), true), *buffer = cn_zeros(CN_SHAPE(4));
  cn_tensor *g = cn_ones(CN_SHAPE(4)), *lr = cn_full(NULL, 0, 0.5, .dtype = CN_F64);
  cn_tensor *beta = cn_full(NULL, 0, 0.9, .dtype = CN_F64), *none = cn_full(NULL, 0, 0, .dtype = CN_F64);
  refused(cn_sgd_update_(p, buffer, g, lr, beta, 1)); /* would have to record a gradient */
  int saved = cn_no_grad_begin();
  refused(cn_sgd_update_(NULL, buffer, g, lr, beta, 1));
  refused(cn_sgd_update_(buffer, buffer, g, lr, beta, 1));
  refused(cn_sgd_update_(p, cn_zeros(CN_SHAPE(3)), g, lr, beta, 1));
  refused(cn_sgd_update_(p, cn_expand(cn_zeros(CN_SHAPE(1)), CN_SHAPE(4)), g, lr, beta, 1));
  cn_tensor *both = cn_zeros(CN_SHAPE(6));
  refused(cn_sgd_update_(cn_slice(both, 0, 0, 4), cn_slice(both, 0, 2, 6), g, lr, beta, 1)); /* they overlap */
  assert_true(cn_item(cn_sum(p)) == 4 && cn_item(cn_sum(buffer)) == 0 && cn_item(cn_sum(both)) == 0);
  uint64_t before = cn_tensor_version(p);
  assert_int_equal(cn_sgd_update_(p, buffer, g, lr, beta, 1), 0);
  assert_true(cn_item(cn_sum(p)) == 2 && cn_item(cn_sum(buffer)) == 4);
  assert_int_equal(cn_tensor_version(p), before + 1);
  /* A gradient that is the buffer itself, and one that overlaps the parameter. */
  assert_int_equal(cn_sgd_update_(p, buffer, buffer, lr, lr, 1), 0);
  assert_true(cn_item(cn_sum(buffer)) == 6 && cn_item(cn_sum(p)) == -1);
  cn_fill_(both, cn_num(1));
  assert_int_equal(cn_sgd_update_(cn_slice(both, 0, 0, 4), buffer, cn_slice(both, 0, 2, 6), lr, none, 1), 0);
  assert_true(cn_item(cn_sum(buffer)) == 4 && cn_item(cn_sum(both)) == 4);
  cn_no_grad_end(saved);
  assert_true(cn_needs_grad(p));
  cn_scope_end(s);
}

/* ---- gradients ---- */

static void gradients_are_cut(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *p[2];
  for (int i = 0; i < 2; i++) p[i] = cn_requires_grad(cn_zeros(CN_SHAPE(2)), true);
  cn_set_grad(p[0], cn_floats((const float[]){3, 0}, 2));
  cn_set_grad(p[1], cn_floats((const float[]){0, -4}, 2));
  cn_tensor *norm = cn_clip_grad_norm(p, 2, 1, 0);
  assert_true(cn_item(norm) == 5);
  assert_true(fabs(cn_item(cn_sum(cn_grad_of(p[0]))) - 0.6) < 1e-6);
  assert_true(fabs(cn_item(cn_sum(cn_grad_of(p[1]))) + 0.8) < 1e-6);
  assert_true(cn_item(cn_clip_grad_norm(p, 2, 10, HUGE_VAL)) < 0.81); /* small enough: stays */
  assert_true(fabs(cn_item(cn_sum(cn_grad_of(p[0]))) - 0.6) < 1e-6);
  assert_true(fabs(cn_item(cn_clip_grad_norm(p, 2, 10, 1)) - 1.4) < 1e-6);
  assert_int_equal(cn_clip_grad_value(p, 2, 0.5), 0);
  assert_true(cn_item(cn_sum(cn_grad_of(p[0]))) == 0.5 && cn_item(cn_sum(cn_grad_of(p[1]))) == -0.5);
  cn_optim *opt = cn_optim_sgd(NULL);
  assert_int_equal(cn_optim_add(opt, p, 2), 0);
  assert_true(fabs(cn_item(cn_optim_clip_norm(opt, 0.1)) - sqrt(0.5)) < 1e-6);
  for (int i = 0; i < 2; i++) cn_zero_grad(p[i]);
  assert_true(cn_item(cn_clip_grad_norm(p, 2, 1, 2)) == 0); /* none at all */
  refused(cn_clip_grad_value(p, 2, -1));
  cn_optim_free(opt);
  cn_scope_end(s);
}

/* ---- averages ---- */

static void fill_all(cn_module *net, double value)
{
  cn_named_list list;
  int saved = cn_no_grad_begin();
  assert_int_equal(cn_module_named(&list, net, CN_PARAMETERS), 0);
  for (size_t i = 0; i < list.n; i++) cn_fill_(list.v[i].tensor, cn_num(value));
  cn_named_free(&list);
  cn_no_grad_end(saved);
}

static double first_of(cn_module *net) { return cn_item(cn_mean(cn_module_get(net, "0.weight"))); }

static void averages_follow(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_module *net = make_net();
  cn_average *mean = cn_average_new(net, 0, false), *ema = cn_average_new(net, 0.75, true);
  const double values[] = {1, 2, 6};
  for (int i = 0; i < 3; i++) {
    fill_all(net, values[i]);
    assert_int_equal(cn_average_update(mean, net), 0);
    assert_int_equal(cn_average_update(ema, net), 0);
  }
  assert_true(fabs(first_of(cn_average_module(mean)) - 3) < 1e-6);
  assert_true(fabs(first_of(cn_average_module(ema)) - (0.75 * 1.25 + 0.25 * 6)) < 1e-6);
  assert_int_equal(cn_average_count(mean), 3);
  assert_int_equal(cn_average_follow(cn_average_module(mean), net, 0, 3, false), 0); /* a fourth time, by hand */
  assert_true(fabs(first_of(cn_average_module(mean)) - (3 * 3 + 6) / 4.0) < 1e-6);
  cn_tree *saved = cn_average_state(mean);
  assert_non_null(cn_tree_get(saved, "module.0.weight"));
  assert_int_equal(cn_average_load(ema, saved), 0);
  assert_int_equal(cn_average_count(ema), 3);
  assert_true(fabs(first_of(cn_average_module(ema)) - 3.75) < 1e-6);
  cn_tree_free(saved);
  cn_module *other = cn_nn_linear(2, 2);
  refused(cn_average_update(mean, other));
  cn_module_release(other);
  cn_average_free(mean);
  cn_average_free(ema);
  cn_module_release(net);
  assert_null(cn_average_new(NULL, 0, false));
  cn_err_clear();
  cn_scope_end(s);
}

/* ---- loss scales ---- */

static void scales_grow_and_shrink(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *p = cn_requires_grad(cn_ones(CN_SHAPE(2)), true);
  cn_optim *opt = cn_optim_sgd(NULL, .lr = 1);
  assert_int_equal(cn_optim_add(opt, &p, 1), 0);
  cn_grad_scaler *g = cn_grad_scaler_new(.init_scale = 8, .growth_interval = 2);
  for (int step = 0; step < 2; step++) {
    assert_int_equal(cn_backward(cn_grad_scaler_scale(g, cn_sum(p))), 0);
    assert_true(cn_item(cn_sum(cn_grad_of(p))) == 16);
    assert_int_equal(cn_grad_scaler_step(g, opt), 1);
    refused(cn_grad_scaler_step(g, opt)); /* not twice */
    assert_int_equal(cn_grad_scaler_update(g), 0);
    cn_optim_zero_grad(opt);
  }
  assert_true(cn_item(cn_sum(p)) == -2); /* two steps of 1 each */
  assert_true(cn_grad_scaler_get(g) == 16);
  const float bad[] = {NAN, INFINITY};
  for (int i = 0; i < 2; i++) {
    cn_set_grad(p, cn_floats((const float[]){1, bad[i]}, 2));
    assert_int_equal(cn_grad_scaler_unscale(g, opt), 0);
    assert_int_equal(cn_grad_scaler_step(g, opt), 0); /* skipped */
    assert_int_equal(cn_grad_scaler_update(g), 0);
  }
  assert_true(cn_item(cn_sum(p)) == -2);
  assert_true(cn_grad_scaler_get(g) == 4);
  cn_tree *saved = cn_grad_scaler_state(g);
  cn_grad_scaler *other = cn_grad_scaler_new(), *off = cn_grad_scaler_new(.disabled = true);
  assert_int_equal(cn_grad_scaler_load(other, saved), 0);
  assert_true(cn_grad_scaler_get(other) == 4 && cn_grad_scaler_get(off) == 1);
  refused(cn_grad_scaler_update(other)); /* nothing happened yet */
  cn_tree_free(saved);
  cn_grad_scaler_free(g);
  cn_grad_scaler_free(other);
  cn_grad_scaler_free(off);
  cn_optim_free(opt);
  cn_scope_end(s);
}

/* ---- memory that runs out ---- */

/* Makes an optimiser, steps twice with a schedule and a clipped norm, saves and loads. */
static int whole_life(const char *name, cn_tensor **params)
{
  cn_scope *s = cn_scope_begin();
  cn_optim *opt = cn_optim_make(name, NULL, NULL, 0);
  if (opt) cn_optim_add(opt, params, 2);
  cn_schedule *schedule = cn_err() ? NULL : cn_lr_step(opt, 1);
  for (int i = 0; i < 2 && !cn_err(); i++) {
    for (int k = 0; k < 2; k++) cn_set_grad(params[k], cn_ones_like(params[k]));
    cn_clip_grad_norm(params, 2, 0.5, 2);
    cn_optim_step(opt);
    if (!cn_err()) cn_schedule_step(schedule);
  }
  cn_tree *state = cn_err() ? NULL : cn_optim_state(opt);
  if (state) cn_optim_load(opt, state);
  cn_tree_free(state);
  cn_schedule_free(schedule);
  cn_optim_free(opt);
  cn_scope_end(s);
  return cn_err();
}

static void survive_failing_allocations(void **state)
{
  (void)state;
  static const char *const names[] = {"SGD", "Adam", "NAdam", "RAdam", "Adagrad", "ASGD", "Rprop", "Adafactor", "Muon"};
  cn_tensor *params[2];
  for (int i = 0; i < 2; i++) params[i] = cn_keep(cn_requires_grad(cn_ones(CN_SHAPE(3, 2)), true));
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    assert_int_equal(whole_life(names[i], params), 0); /* fills caches */
    for (int k = 0; k < 2; k++) cn_zero_grad(params[k]);
    bool done = false;
    for (uint64_t at = 1; !done && at < 3000; at++) {
      cn_memory_fail_at(at);
      int status = whole_life(names[i], params);
      cn_memory_fail_at(0);
      done = status == 0;
      if (!done) assert_int_equal(cn_err(), CN_ERR_MEMORY);
      cn_err_clear();
    }
    assert_true(done);
  }
  for (int i = 0; i < 2; i++) cn_release(params[i]);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(captured_steps_replay_exactly), cmocka_unit_test(capture_begins_a_state),
    cmocka_unit_test(other_devices_work),            cmocka_unit_test(layouts_do_not_matter),
    cmocka_unit_test(groups_have_their_own_settings), cmocka_unit_test(wrong_settings_are_refused),
    cmocka_unit_test(updates_are_checked),
    cmocka_unit_test(gradients_are_cut),             cmocka_unit_test(averages_follow),
    cmocka_unit_test(scales_grow_and_shrink),        cmocka_unit_test(survive_failing_allocations),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
