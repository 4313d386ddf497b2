/* test_compile.c: compiled functions compute what the functions compute, to the bit: forward passes in an eager loop,
 * whole training steps with dropout, batch norm and checkpoints; programs are made by kind of call; what cannot be
 * captured runs as it is. */
#define _POSIX_C_SOURCE 200809L
#include <cairn/cairn.h>
#include <cairn/device.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tensors.h"

enum { STEPS = 20 };

static cn_compile_stats stats_of(const cn_compiled *c)
{
  cn_compile_stats s;
  cn_compile_stats_get(&s, sizeof s, c);
  return s;
}

/* One result. */
static cn_tensor *call(cn_compiled *c, void *payload, cn_tensor *const *in, size_t n)
{
  cn_tensor *out = NULL;
  cn_compile_call k = {.inputs = in, .ninputs = n, .outputs = &out, .noutputs = 1, .payload = payload};
  int status = cn_compiled_call(c, &k);
  if (status) print_message("%s\n", cn_err_message());
  assert_int_equal(status, 0);
  assert_int_equal(k.noutputs, 1);
  return out;
}

/* ---- networks ---- */

typedef struct trainer {
  cn_module *net;
  cn_optim *optim;
  bool checkpoint;
} trainer;

static cn_module *make_net(int kind)
{
  cn_seed(42);
  if (kind == 0)
    return cn_nn_sequential(cn_nn_linear(12, 32), cn_nn_relu(), cn_nn_dropout(.p = 0.3), cn_nn_linear(32, 5));
  return cn_nn_sequential(cn_nn_unflatten(1, (const int64_t[]){1, 3, 4}, 3),
                          cn_nn_conv2d(1, 6, 3, .padding = CN_INTS(1)), cn_nn_batch_norm2d(6), cn_nn_relu(),
                          cn_nn_flatten(), cn_nn_linear(72, 5));
}

static trainer trainer_new(int kind)
{
  trainer t = {make_net(kind), NULL, false};
  t.optim = cn_optim_adam(t.net, .lr = 0.01);
  return t;
}

static void trainer_free(trainer *t)
{
  cn_optim_free(t->optim);
  cn_module_release(t->net);
}

static void batch(cn_tensor **in, int step, int64_t size, bool grad)
{
  uint64_t seed, offset;
  cn_random_state(&seed, &offset);
  cn_random_set_state(1000 + (uint64_t)step, 0);
  in[0] = cn_randn(CN_SHAPE(size, 12));
  in[1] = cn_randint(0, 5, CN_SHAPE(size));
  if (grad) cn_requires_grad(in[0], true); /* a checkpoint records where an input does */
  cn_random_set_state(seed, offset);
}

static void assert_trainers_equal(const trainer *a, const trainer *b)
{
  cn_named_list x, y;
  cn_module_named(&x, a->net, CN_PARAMETERS | CN_BUFFERS);
  cn_module_named(&y, b->net, CN_PARAMETERS | CN_BUFFERS);
  assert_int_equal(x.n, y.n);
  for (size_t i = 0; i < x.n; i++) assert_same(x.v[i].tensor, y.v[i].tensor);
  cn_named_free(&x);
  cn_named_free(&y);
}

/* ---- a forward pass in an eager loop ---- */

static int part(cn_tensor **out, cn_tensor *const *in, void *net)
{
  out[0] = cn_forward(net, in[0]);
  return cn_err();
}

static int loss_fn(cn_compile_call *k)
{
  const trainer *t = k->payload;
  cn_tensor *y = NULL;
  if (t->checkpoint) cn_checkpoint(&y, 1, part, k->inputs, 1, t->net);
  else y = cn_forward(t->net, k->inputs[0]);
  k->outputs[0] = cn_cross_entropy(y, k->inputs[1]);
  k->noutputs = 1;
  return cn_err();
}

static double eager_loop(trainer *t, cn_compiled *c, int step, int64_t size)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *in[2], *loss;
  batch(in, step, size, t->checkpoint);
  if (c) loss = call(c, t, in, 2);
  else {
    cn_compile_call k = {.inputs = in, .ninputs = 2, .outputs = &loss, .noutputs = 1, .payload = t};
    assert_int_equal(loss_fn(&k), 0);
  }
  double value = cn_item(loss);
  assert_int_equal(cn_backward(loss), 0);
  cn_optim_step(t->optim);
  cn_optim_zero_grad(t->optim);
  cn_scope_end(s);
  return value;
}

static void check_forward(int kind, bool checkpoint)
{
  trainer a = trainer_new(kind), b = trainer_new(kind);
  double want[STEPS];
  a.checkpoint = b.checkpoint = checkpoint;
  cn_seed(7);
  for (int i = 0; i < STEPS; i++) want[i] = eager_loop(&a, NULL, i, 8);
  cn_compiled *c = cn_compile(loss_fn);
  cn_seed(7);
  for (int i = 0; i < STEPS; i++) {
    double have = eager_loop(&b, c, i, 8);
    if (memcmp(&have, &want[i], sizeof have)) fail_msg("step %d: %.17g, eager %.17g", i, have, want[i]);
  }
  assert_trainers_equal(&a, &b);
  assert_int_equal(stats_of(c).executables, 1);
  assert_int_equal(stats_of(c).runs, STEPS);
  assert_int_equal(stats_of(c).eager_calls, 0);
  cn_compiled_free(c);
  trainer_free(&a);
  trainer_free(&b);
}

static void test_forward_mlp(void **state)
{
  (void)state;
  check_forward(0, false);
}
static void test_forward_cnn(void **state)
{
  (void)state;
  check_forward(1, false);
}
static void test_forward_checkpointed(void **state)
{
  (void)state;
  check_forward(0, true);
}

/* ---- whole steps ---- */

static int step_fn(cn_compile_call *k)
{
  trainer *t = k->payload;
  if (loss_fn(k)) return cn_err();
  cn_backward(k->outputs[0]);
  cn_optim_step(t->optim);
  cn_optim_zero_grad(t->optim);
  return cn_err();
}

static double whole_step(trainer *t, cn_compiled *c, int step, int64_t size)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *in[2], *loss;
  batch(in, step, size, t->checkpoint);
  cn_compile_call k = {.inputs = in, .ninputs = 2, .outputs = &loss, .noutputs = 1, .payload = t};
  if (c) loss = call(c, t, in, 2);
  else assert_int_equal(step_fn(&k), 0);
  double value = cn_item(loss);
  cn_scope_end(s);
  return value;
}

static void check_steps(int kind, bool checkpoint)
{
  trainer a = trainer_new(kind), b = trainer_new(kind);
  double want[STEPS];
  const int64_t sizes[STEPS] = {8, 8, 8, 5, 8, 5};
  a.checkpoint = b.checkpoint = checkpoint;
  cn_seed(7);
  for (int i = 0; i < STEPS; i++) want[i] = whole_step(&a, NULL, i, sizes[i] ? sizes[i] : 8);
  cn_compiled *c = cn_compile(step_fn);
  cn_seed(7);
  for (int i = 0; i < STEPS; i++) {
    double have = whole_step(&b, c, i, sizes[i] ? sizes[i] : 8);
    if (memcmp(&have, &want[i], sizeof have)) fail_msg("step %d: %.17g, eager %.17g", i, have, want[i]);
  }
  assert_trainers_equal(&a, &b);
  assert_int_equal(stats_of(c).eager_calls, 0);
  if (!checkpoint) assert_int_equal(stats_of(c).executables, 2); /* two sizes */
  cn_compiled_free(c);
  trainer_free(&a);
  trainer_free(&b);
}

static void test_step_mlp(void **state)
{
  (void)state;
  check_steps(0, false);
}
static void test_step_cnn(void **state)
{
  (void)state;
  check_steps(1, false);
}
static void test_step_checkpointed(void **state)
{
  (void)state;
  check_steps(0, true);
}

/* ---- keys ---- */

static int doubled(cn_compile_call *k)
{
  k->outputs[0] = cn_mul(k->inputs[0], cn_num(2));
  k->noutputs = 1;
  return cn_err();
}

static void test_a_program_for_each_kind(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_compiled *c = cn_compile(doubled);
  cn_tensor *a = cn_ones(CN_SHAPE(2, 3)), *b = cn_ones(CN_SHAPE(3, 2)), *d = cn_ones(CN_SHAPE(2, 3), .dtype = CN_F64);
  cn_tensor *t = cn_transpose(b, 0, 1), *g = cn_requires_grad(cn_ones(CN_SHAPE(2, 3)), true);
  cn_tensor *all[] = {a, b, d, t, g};
  for (size_t round = 0; round < 2; round++)
    for (size_t i = 0; i < 5; i++) {
      cn_tensor *y = call(c, NULL, &all[i], 1);
      assert_same(y, cn_mul(all[i], cn_num(2)));
      assert_int_equal(cn_dtype_of(y), cn_dtype_of(all[i]));
      assert_int_equal(cn_needs_grad(y), i == 4);
    }
  assert_int_equal(stats_of(c).executables, 5);
  assert_int_equal(stats_of(c).recompiles, 4);
  assert_int_equal(stats_of(c).runs, 10);
  cn_tensor *y = call(c, NULL, &g, 1);
  cn_backward(cn_sum(y));
  assert_float_equal(cn_item(cn_sum(cn_grad_of(g))), 12, 0);
  cn_compiled_free(c);
  cn_scope_end(s);
}

static void put_mode(cn_key *key, const cn_compile_call *k) { cn_key_put(key, k->payload, sizeof(int), "the mode"); }

static int by_mode(cn_compile_call *k)
{
  k->outputs[0] = *(int *)k->payload ? cn_exp(k->inputs[0]) : cn_neg(k->inputs[0]);
  k->noutputs = 1;
  return cn_err();
}

static void test_what_the_function_adds_to_the_key(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_compiled *c = cn_compile(by_mode, .key = put_mode);
  cn_tensor *x = cn_ones(CN_SHAPE(3));
  for (int i = 0; i < 4; i++) {
    int mode = i & 1;
    assert_same(call(c, &mode, &x, 1), mode ? cn_exp(x) : cn_neg(x));
  }
  assert_int_equal(stats_of(c).executables, 2);
  cn_compiled_free(c);
  cn_scope_end(s);
}

/* ---- what cannot be captured ---- */

static int branches(cn_compile_call *k)
{
  k->outputs[0] = cn_item(cn_sum(k->inputs[0])) > 0 ? cn_exp(k->inputs[0]) : cn_neg(k->inputs[0]);
  k->noutputs = 1;
  return cn_err();
}

static void test_branches_run_as_they_are(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_compiled *c = cn_compile(branches), *whole = cn_compile(branches, .fullgraph = true);
  cn_tensor *x = cn_ones(CN_SHAPE(3)), *y = cn_neg(x), *out;
  assert_same(call(c, NULL, &x, 1), cn_exp(x));
  assert_same(call(c, NULL, &y, 1), x);
  assert_int_equal(stats_of(c).eager_calls, 2);
  assert_int_equal(stats_of(c).executables, 0);
  cn_compile_call k = {.inputs = &x, .ninputs = 1, .outputs = &out, .noutputs = 1};
  assert_int_equal(cn_compiled_call(whole, &k), CN_ERR_CAPTURE);
  assert_non_null(strstr(cn_err_message(), "cannot be captured"));
  cn_err_clear();
  cn_compiled_free(c);
  cn_compiled_free(whole);
  cn_scope_end(s);
}

/* ---- inside of a capture, with leaves as inputs, twice backward ---- */

static int calls_compiled(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  out[0] = cn_exp(call(payload, NULL, in, 1));
  return cn_err();
}

static void test_inlined_in_a_capture(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_compiled *c = cn_compile(doubled);
  cn_tensor *x = cn_ones(CN_SHAPE(3)), *y;
  cn_graph *g = cn_trace(calls_compiled, 1, &x, 1, c);
  assert_non_null(g);
  assert_int_equal(cn_graph_nodes(g), 2);
  assert_int_equal(cn_graph_run(&y, g, &x), 0);
  assert_same(y, cn_exp(cn_mul(x, cn_num(2))));
  cn_graph_free(g);
  cn_compiled_free(c);
  cn_scope_end(s);
}

static int goes_backward(cn_compile_call *k)
{
  k->outputs[0] = cn_sum(cn_mul(k->inputs[0], k->inputs[0]));
  cn_backward(k->outputs[0]);
  k->noutputs = 1;
  return cn_err();
}

static void test_gradients_of_input_leaves(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_compiled *c = cn_compile(goes_backward);
  cn_tensor *x = cn_requires_grad(cn_full(CN_SHAPE(3), 2), true);
  for (int i = 1; i <= 3; i++) {
    call(c, NULL, &x, 1);
    assert_float_equal(cn_item(cn_sum(cn_grad_of(x))), 12 * i, 0); /* they add up */
  }
  assert_int_equal(stats_of(c).eager_calls, 0);
  cn_compiled_free(c);
  cn_scope_end(s);
}

/* tanh(net(x))^2 of a smooth net, with an input that has a history: gradients of gradients are eager's to the bit. */
static int smooth(cn_compile_call *k)
{
  k->outputs[0] = cn_square(cn_tanh(cn_forward(k->payload, k->inputs[0])));
  k->noutputs = 1;
  return cn_err();
}

static void second_gradients(cn_tensor **second, cn_compiled *c, cn_module *net, cn_tensor *x)
{
  cn_tensor *wanted[2] = {x, cn_module_get(net, "weight")}, *first[2], *in = cn_mul(x, x), *out = NULL;
  cn_compile_call k = {.inputs = &in, .ninputs = 1, .outputs = &out, .noutputs = 1, .payload = net};
  assert_int_equal(c ? cn_compiled_call(c, &k) : smooth(&k), 0);
  cn_tensor *sum = cn_sum(out);
  if (cn_grad(first, &sum, 1, wanted, 2, .create_graph = true)) fail_msg("%s", cn_err_message());
  sum = cn_add(cn_sum(cn_square(first[0])), cn_sum(cn_square(first[1])));
  if (cn_grad(second, &sum, 1, wanted, 2)) fail_msg("%s", cn_err_message());
}

static void test_gradients_of_gradients(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_compiled *c = cn_compile(smooth, .fullgraph = true);
  cn_module *net = cn_nn_linear(3, 4);
  cn_tensor *x = cn_requires_grad(cn_randn(CN_SHAPE(5, 3)), true), *want[2], *have[2];
  second_gradients(want, NULL, net, x);
  for (int i = 0; i < 2; i++) {
    second_gradients(have, c, net, x);
    assert_same(have[0], want[0]);
    assert_same(have[1], want[1]);
  }
  assert_int_equal(stats_of(c).eager_calls, 0);
  cn_compiled_free(c);
  cn_module_release(net);
  cn_scope_end(s);
}

/* ---- numbers ---- */

static int weighted(cn_compile_call *k)
{
  k->outputs[0] = cn_add(cn_mul(k->inputs[0], k->inputs[1]), k->inputs[2]);
  k->noutputs = 1;
  return cn_err();
}

static int reads_number(cn_compile_call *k)
{
  bool large = cn_item(k->inputs[1]) > 1;
  k->outputs[0] = large ? cn_exp(k->inputs[0]) : cn_mul(k->inputs[0], k->inputs[1]);
  k->noutputs = 1;
  return cn_err();
}

/* Floats are inputs and raise no types; whole numbers, and floats that the function reads, are part of programs. */
static void test_numbers(void **state)
{
  (void)state;
  static const double values[] = {0.5, 0.1, 3, -2.5};
  const cn_device devices[] = {CN_CPU, cn_device_find("mirror")};
  setenv("CAIRN_COMPILE", "exact", 1); /* float16 between ops */
  for (int d = 0; d < 2; d++) {
    cn_scope *s = cn_scope_begin();
    cn_compiled *c = cn_compile(weighted, .fullgraph = true), *reads = cn_compile(reads_number, .fullgraph = true);
    cn_tensor *x = cn_to_device(cn_cast(cn_randn(CN_SHAPE(5)), CN_F16), devices[d]);
    for (size_t i = 0; i < 4; i++) {
      cn_tensor *in[3] = {x, cn_num(values[i]), cn_num(values[3 - i])}, *have = call(c, NULL, in, 3);
      assert_int_equal(cn_dtype_of(have), CN_F16);
      assert_same(have, cn_add(cn_mul(x, in[1]), in[2]));
      assert_same(call(reads, NULL, in, 2), values[i] > 1 ? cn_exp(x) : cn_mul(x, in[1]));
    }
    assert_int_equal(stats_of(c).executables, 1);
    assert_int_equal(stats_of(reads).executables, 4);
    for (int i = 0; i < 2; i++) {
      cn_tensor *in[3] = {x, cn_int(2 + i), cn_num(1)};
      assert_same(call(c, NULL, in, 3), cn_add(cn_mul(x, in[1]), in[2]));
    }
    assert_int_equal(stats_of(c).executables, 3);
    cn_compiled_free(c);
    cn_compiled_free(reads);
    cn_scope_end(s);
  }
  unsetenv("CAIRN_COMPILE");
}

static void test_explain(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_compiled *c = cn_compile(doubled);
  cn_tensor *x = cn_requires_grad(cn_ones(CN_SHAPE(3)), true), *out;
  cn_compile_call k = {.inputs = &x, .ninputs = 1, .outputs = &out, .noutputs = 1};
  char *text = cn_compiled_explain(c, &k);
  assert_non_null(strstr(text, "forward: 1 nodes"));
  assert_non_null(strstr(text, "backward: 1 nodes"));
  cn_string_free(text);
  cn_compiled_free(c);
  cn_scope_end(s);
}

/* ---- settings of an optimiser ---- */

/* A schedule of rates, which are tensors, needs one program; a setting that changes, another one. */
static void test_settings_of_an_optimiser(void **state)
{
  (void)state;
  trainer both[2] = {trainer_new(0), trainer_new(0)};
  cn_compiled *c = cn_compile(step_fn);
  for (int which = 0; which < 2; which++) {
    trainer *t = &both[which];
    cn_schedule *schedule = cn_lr_step(t->optim, 2);
    cn_seed(3);
    for (int i = 0; i < 8; i++) {
      cn_scope *s = cn_scope_begin();
      cn_tensor *in[2], *loss;
      batch(in, i, 8, false);
      cn_compile_call k = {.inputs = in, .ninputs = 2, .outputs = &loss, .noutputs = 1, .payload = t};
      if (which) call(c, t, in, 2);
      else assert_int_equal(step_fn(&k), 0);
      cn_schedule_step(schedule);
      if (i >= 3) cn_optim_set(t->optim, 0, "weight_decay", 0.5); /* once: then it has that value already */
      cn_scope_end(s);
    }
    cn_schedule_free(schedule);
  }
  assert_trainers_equal(&both[0], &both[1]);
  assert_int_equal(stats_of(c).executables, 2);
  assert_int_equal(stats_of(c).recompiles, 1);
  cn_compiled_free(c);
  trainer_free(&both[0]);
  trainer_free(&both[1]);
}

/* ---- modes ---- */

static int forward_only(cn_compile_call *k)
{
  k->outputs[0] = cn_forward(((trainer *)k->payload)->net, k->inputs[0]);
  k->noutputs = 1;
  return cn_err();
}

static int forward_both(cn_compile_call *k)
{
  cn_module *net = ((trainer *)k->payload)->net;
  cn_module_train(net, true);
  cn_tensor *noisy = cn_forward(net, k->inputs[0]);
  cn_module_train(net, false);
  k->outputs[0] = cn_sub(noisy, cn_forward(net, k->inputs[0]));
  k->noutputs = 1;
  return cn_err();
}

static int forward_row(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *net)
{
  out[0] = cn_forward(net, in[0]);
  *nout = nin;
  return cn_err();
}

static int forward_rows(cn_compile_call *k)
{
  k->noutputs = 1;
  return cn_map(k->outputs, &k->noutputs, k->inputs, 1, forward_row, ((trainer *)k->payload)->net);
}

/* A program is for the modes that modules had, whoever set them; not for those that the function sets itself. */
static void test_modes(void **state)
{
  (void)state;
  const cn_compile_fn fns[] = {forward_only, forward_rows, forward_both};
  for (int which = 0; which < 3; which++) {
    trainer t = trainer_new(0);
    cn_compiled *c = cn_compile(fns[which], .fullgraph = true);
    for (int i = 0; i < 24; i++) {
      cn_scope *s = cn_scope_begin();
      cn_tensor *x = cn_randn(CN_SHAPE(8, 12)), *want;
      cn_compile_call k = {.inputs = &x, .ninputs = 1, .outputs = &want, .noutputs = 1, .payload = &t};
      cn_module_train(t.net, i % 2);
      cn_seed((uint64_t)i);
      assert_int_equal(fns[which](&k), 0);
      cn_module_train(t.net, i % 2);
      cn_seed((uint64_t)i);
      assert_same(want, call(c, &t, &x, 1));
      cn_scope_end(s);
    }
    assert_int_equal(stats_of(c).executables, which < 2 ? 2 : 1);
    cn_compiled_free(c);
    trainer_free(&t);
  }
}

/* ---- gradients that come in pieces ---- */

/* What is cut along a permuted dim and used up; besides, rows that overlap, one that is used alone, and the whole. */
static int cuts(cn_compile_call *k)
{
  cn_tensor *x = k->inputs[0], *y = cn_permute(x, CN_SHAPE(1, 0, 2)); /* (4, 3, 5) as (3, 4, 5) */
  cn_tensor *a = cn_select(y, 0, 0), *b = cn_select(y, 0, -1), *c = cn_select(y, 0, 1);
  cn_tensor *sum = cn_add(cn_mul(a, b), cn_exp(c));
  switch ((int)(intptr_t)k->payload) {
  case 1: sum = cn_add(sum, cn_select(y, 0, 1)); break;                            /* one piece twice */
  case 2: sum = cn_add(sum, cn_sum(y, .dim = CN_INTS(0))); break;                   /* and the whole */
  case 3: sum = cn_mul(cn_slice(x, 1, 0, 2), cn_slice(x, 1, 1, 3)); break;          /* over each other */
  case 4: sum = cn_exp(cn_slice(x, 2, 1, 4)); break;                                /* with gaps */
  case 5: sum = cn_mul(cn_sub(cn_slice(x, 1, 1, 3), cn_slice(x, 1, 0, 2)), cn_num(0)); break; /* zeros of both signs */
  default: break;
  }
  k->outputs[0] = cn_sum(cn_mul(sum, sum));
  k->noutputs = 1;
  return cn_err();
}

static void test_gradients_in_pieces(void **state)
{
  (void)state;
  for (intptr_t kind = 0; kind < 6; kind++) {
    cn_scope *s = cn_scope_begin();
    cn_compiled *c = cn_compile(cuts);
    cn_tensor *start = cn_randn(CN_SHAPE(4, 3, 5)), *x = cn_requires_grad(start, true), *want;
    cn_compile_call k = {.inputs = &x, .ninputs = 1, .outputs = &want, .noutputs = 1, .payload = (void *)kind};
    assert_int_equal(cuts(&k), 0);
    assert_int_equal(cn_backward(want), 0);
    cn_tensor *grad = cn_clone(cn_grad_of(x));
    cn_zero_grad(x);
    cn_tensor *have = call(c, (void *)kind, &x, 1);
    assert_same(want, have);
    assert_int_equal(cn_backward(have), 0);
    assert_true(same_elements(grad, cn_grad_of(x)));
    char *text = cn_compiled_explain(c, &k);
    if (kind == 0) assert_null(strstr(text, "scatter")); /* side by side, without zeros and additions */
    cn_string_free(text);
    cn_compiled_free(c);
    cn_scope_end(s);
  }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, clear_errors, NULL)

int main(void)
{
  const struct CMUnitTest tests[] = {
    TEST(test_forward_mlp), TEST(test_forward_cnn), TEST(test_forward_checkpointed), TEST(test_step_mlp),
    TEST(test_step_cnn), TEST(test_step_checkpointed), TEST(test_a_program_for_each_kind),
    TEST(test_what_the_function_adds_to_the_key), TEST(test_branches_run_as_they_are),
    TEST(test_inlined_in_a_capture), TEST(test_gradients_of_input_leaves), TEST(test_gradients_of_gradients),
    TEST(test_explain), TEST(test_gradients_in_pieces), TEST(test_numbers), TEST(test_settings_of_an_optimiser),
    TEST(test_modes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
