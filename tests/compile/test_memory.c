/* test_memory.c: what compiled steps do with memory: they need no more of it than the function itself, kernels find
 * what they need in the run's memory, gradients that steps leave lie there, and whoever keeps one has it for good. */
#include <cairn/cairn.h>
#include <cairn/compile.h>
#include <string.h>

#include "test.h"

enum { WIDTH = 512, BATCH = 256, CLASSES = 10, STEPS = 12 };
typedef enum kind { MLP, CNN, TRANSFORMER, KINDS } kind;

typedef struct trainer {
  cn_module *net;
  cn_optim *optim;
  cn_compiled *fast; /* NULL: steps run as they are */
  cn_tensor *x, *y;  /* (BATCH, WIDTH), (BATCH); owned */
} trainer;

static cn_module *net_of(kind k)
{
  if (k == MLP)
    return cn_nn_sequential(cn_nn_linear(WIDTH, WIDTH), cn_nn_relu(), cn_nn_linear(WIDTH, WIDTH), cn_nn_relu(),
                            cn_nn_linear(WIDTH, CLASSES));
  if (k == CNN)
    return cn_nn_sequential(cn_nn_conv2d(1, 16, 3), cn_nn_batch_norm2d(16), cn_nn_relu(), cn_nn_max_pool2d(2),
                            cn_nn_flatten(), cn_nn_linear(16 * 7 * 15, CLASSES));
  return cn_nn_sequential(cn_nn_transformer_encoder_layer(32, 4, .dim_feedforward = 64, .batch_first = true),
                          cn_nn_flatten(), cn_nn_linear(WIDTH, CLASSES));
}

static trainer trainer_new(kind k)
{
  trainer t = {NULL};
  cn_scope *s = cn_scope_begin();
  cn_seed(1);
  t.net = net_of(k);
  t.optim = cn_optim_adam(t.net, .lr = 1e-3);
  cn_tensor *x = cn_randn(CN_SHAPE(BATCH, WIDTH));
  if (k == CNN) x = cn_reshape(x, CN_SHAPE(BATCH, 1, 16, WIDTH / 16));
  if (k == TRANSFORMER) x = cn_reshape(x, CN_SHAPE(BATCH, WIDTH / 32, 32));
  t.x = cn_keep(x);
  t.y = cn_keep(cn_randint(0, CLASSES, CN_SHAPE(BATCH)));
  cn_scope_end(s);
  return t;
}

static void trainer_free(trainer *t)
{
  cn_compiled_free(t->fast);
  cn_optim_free(t->optim);
  cn_module_release(t->net);
  cn_release(t->x);
  cn_release(t->y);
}

static int step_fn(cn_compile_call *k)
{
  trainer *t = k->payload;
  cn_optim_zero_grad(t->optim);
  k->outputs[0] = cn_cross_entropy(cn_forward(t->net, k->inputs[0]), k->inputs[1]);
  k->noutputs = 1;
  cn_backward(k->outputs[0]);
  cn_optim_step(t->optim);
  return cn_err();
}

static double step(trainer *t)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *in[] = {t->x, t->y}, *loss = NULL;
  cn_compile_call k = {.inputs = in, .ninputs = 2, .outputs = &loss, .noutputs = 1, .payload = t};
  assert_int_equal(t->fast ? cn_compiled_call(t->fast, &k) : step_fn(&k), 0);
  double value = cn_item(loss);
  cn_scope_end(s);
  return value;
}

static size_t in_use(void)
{
  cn_memory_stats stats;
  cn_memory_get_stats(&stats);
  return stats.in_use;
}

/* The most that training takes at once, network and states of the optimiser with it. */
static size_t most(kind k, bool compiled)
{
  cn_memory_stats stats;
  cn_memory_trim();
  size_t before = in_use();
  trainer t = trainer_new(k);
  if (compiled) t.fast = cn_compile(step_fn, .fullgraph = true);
  for (int i = 0; i < 3; i++) step(&t); /* what only first steps do */
  cn_memory_reset_peak();
  for (int i = 0; i < 3; i++) step(&t);
  cn_memory_get_stats(&stats);
  trainer_free(&t);
  return stats.peak - before;
}

static void steps_need_no_more_memory(void **state)
{
  (void)state;
  cn_memory_set_caching(false);
  for (kind k = MLP; k < KINDS; k++) {
    size_t eager = most(k, false), compiled = most(k, true);
    if (compiled > eager) fail_msg("net %d: %zu bytes at most, %zu as it is", k, compiled, eager);
  }
  cn_memory_set_caching(true);
}

static cn_tensor *first_grad(const trainer *t) { return cn_grad_of(cn_module_get(t->net, "0.weight")); }

/* A program that keeps gradients has what eager leaves, and no whole block with each. */
static void kept_gradients_stay(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  trainer eager = trainer_new(MLP), t = trainer_new(MLP);
  cn_tensor *want[STEPS], *have[STEPS];
  t.fast = cn_compile(step_fn, .fullgraph = true);
  cn_memory_set_caching(false);
  size_t after_two = 0, gradient = WIDTH * WIDTH * sizeof(float);
  for (int i = 0; i < STEPS; i++) {
    assert_float_equal(step(&eager), step(&t), 0);
    want[i] = cn_keep(cn_clone(first_grad(&eager)));
    have[i] = cn_keep(first_grad(&t));
    if (i == 2) after_two = in_use();
  }
  size_t grown = in_use() - after_two, most_of_it = (STEPS - 3) * 2 * gradient;
  if (grown > most_of_it + gradient / 2) fail_msg("%zu bytes more, of which gradients are %zu", grown, most_of_it);
  for (int i = 0; i < STEPS; i++) {
    assert_true(cn_item(cn_all(cn_eq(want[i], have[i]))) > 0);
    cn_release(want[i]);
    cn_release(have[i]);
  }
  cn_memory_set_caching(true);
  trainer_free(&eager);
  trainer_free(&t);
  cn_scope_end(s);
}

/* Gradients outlive the program, and another one's. */
static void gradients_outlive_programs(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  trainer eager = trainer_new(MLP), t = trainer_new(MLP);
  t.fast = cn_compile(step_fn, .fullgraph = true);
  step(&eager), step(&t);
  cn_compiled_free(t.fast);
  t.fast = NULL;
  assert_true(cn_item(cn_all(cn_eq(first_grad(&eager), first_grad(&t)))) > 0);
  t.fast = cn_compile(step_fn, .fullgraph = true);
  for (int i = 0; i < 2; i++) assert_float_equal(step(&eager), step(&t), 0);
  assert_true(cn_item(cn_all(cn_eq(first_grad(&eager), first_grad(&t)))) > 0);
  cn_mul_(first_grad(&t), cn_num(2)); /* it is the caller's */
  cn_tensor *other = cn_grad_of(cn_module_get(t.net, "2.weight"));
  assert_true(cn_item(cn_all(cn_eq(cn_grad_of(cn_module_get(eager.net, "2.weight")), other))) > 0);
  for (int i = 0; i < 2; i++) assert_float_equal(step(&eager), step(&t), 0);
  trainer_free(&eager);
  trainer_free(&t);
  cn_scope_end(s);
}

/* Steps that keep clearing gradients find the block free again: nothing is allocated but what is handed out. */
static void steps_reuse_their_block(void **state)
{
  (void)state;
  trainer t = trainer_new(MLP);
  cn_memory_stats before, after;
  t.fast = cn_compile(step_fn, .fullgraph = true);
  for (int i = 0; i < 3; i++) step(&t);
  cn_memory_get_stats(&before);
  for (int i = 0; i < 10; i++) step(&t);
  cn_memory_get_stats(&after);
  assert_int_equal(after.in_use, before.in_use);
  trainer_free(&t);
}

/* Products pack, convolutions transform, norms sum up: from the second run on they do it in memory that the context
 * has. What is left are headers of tensors, the result, and lists of pointers. */
static void kernels_find_their_memory(void **state)
{
  (void)state;
  enum { HEADERS = 4096 };
  int all = cn_num_threads();
  for (int threads = 1; threads <= 3; threads += 2)
    for (kind k = MLP; k < KINDS; k++) {
      cn_set_num_threads(threads);
      trainer t = trainer_new(k);
      cn_memory_stats stats;
      t.fast = cn_compile(step_fn, .fullgraph = true);
      cn_memory_set_caching(false);
      step(&t);
      size_t before = in_use();
      cn_memory_reset_peak();
      step(&t);
      cn_memory_get_stats(&stats);
      if (stats.peak > before + HEADERS) fail_msg("net %d took %zu bytes in its second run", k, stats.peak - before);
      cn_memory_set_caching(true);
      for (int i = 0; i < 2; i++) step(&t); /* headers come into the thread's lists */
      cn_memory_get_stats(&stats);
      uint64_t allocations = stats.allocations;
      for (int i = 0; i < 3; i++) step(&t);
      cn_memory_get_stats(&stats);
      assert_int_equal(stats.allocations, allocations);
      trainer_free(&t);
    }
  cn_set_num_threads(all);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(steps_need_no_more_memory), cmocka_unit_test(kept_gradients_stay),
    cmocka_unit_test(gradients_outlive_programs), cmocka_unit_test(steps_reuse_their_block),
    cmocka_unit_test(kernels_find_their_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
