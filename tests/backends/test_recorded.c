/* test_recorded.c: runs that a device records once and repeats (on the mirror, or on the device that CAIRN_TEST_DEVICE
 * names) compute what the function itself computes on that device, to the bit: rates of a schedule, step counts, random
 * numbers and inputs are those of each run; what was handed out stays as it was; memory that others got and filled
 * meanwhile does not matter; all of it is given back; attention's gradients lie in what they are joined to. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include <cairn/cairn.h>
#include <cairn/ext/parts.h>
#include <cairn/kw.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/run.h"
#include "tensors.h"

enum { STEPS = 20 };
static cn_device device;
static bool on_mirror;

static int setup(void **state)
{
  (void)state;
  const char *asked = getenv("CAIRN_TEST_DEVICE");
  cn_err_clear();
  on_mirror = !asked || !strcmp(asked, "mirror");
  device = cn_device_find(asked ? asked : "mirror");
  return device == CN_DEVICE_DEFAULT;
}

static void assert_recorded(size_t before, size_t n) { assert_int_equal(cni_recorded_runs() - before, n); }

/* ---- training steps ---- */

typedef struct trainer {
  cn_module *net;
  cn_optim *optim;
  cn_schedule *schedule;
  bool leaves_gradients, autocast, schedules; /* schedules: the step moves the schedule on */
  bool recurrent;                             /* a batch is a sequence */
  bool disturbed;                             /* weights are written between steps, too */
} trainer;

static trainer trainer_new(trainer how)
{
  cn_seed(42);
  trainer t = how;
  t.net = how.recurrent ? cn_nn_sequential(cn_nn_lstm(12, 16, .num_layers = 2), cn_nn_linear(16, 5))
                        : cn_nn_sequential(cn_nn_linear(12, 32), cn_nn_layer_norm((const int64_t[]){32}, 1),
                                           cn_nn_relu(), cn_nn_dropout(.p = 0.3), cn_nn_linear(32, 5));
  cn_module_to(t.net, device, CN_DTYPE_NONE);
  t.optim = cn_optim_adamw(t.net, .lr = 0.01);
  t.schedule = cn_lr_one_cycle(t.optim, 0.05, .total_steps = 2 * STEPS, .no_cycle_momentum = true);
  return t;
}

static void trainer_free(trainer *t)
{
  cn_schedule_free(t->schedule);
  cn_optim_free(t->optim);
  cn_module_release(t->net);
}

static void clip(cn_optim *optim)
{
  cn_tensor *params[16];
  size_t n = cn_optim_nparams(optim, 0);
  for (size_t i = 0; i < n; i++) params[i] = cn_optim_param(optim, 0, i);
  cn_clip_grad_norm(params, n, 1, 2);
}

static int step_fn(cn_compile_call *k)
{
  trainer *t = k->payload;
  if (t->leaves_gradients) cn_optim_zero_grad(t->optim);
  int saved = t->autocast ? cn_autocast_begin(CN_BF16) : 0;
  k->outputs[0] = cn_cross_entropy(cn_forward(t->net, k->inputs[0]), k->inputs[1]);
  k->noutputs = 1;
  if (t->autocast) cn_autocast_end(saved);
  cn_backward(k->outputs[0]);
  if (!t->autocast) clip(t->optim); /* else updates read gradients as they come */
  cn_optim_step(t->optim);
  if (!t->leaves_gradients) cn_optim_zero_grad(t->optim);
  if (t->schedules) cn_schedule_step(t->schedule);
  k->outputs[0] = cn_detach(k->outputs[0]);
  return cn_err();
}

/* A batch at an address of its own: others hold memory between, full of NaN. */
static void batch(cn_tensor **in, int step)
{
  uint64_t seed, offset;
  cn_random_state(&seed, &offset);
  cn_random_set_state(1000 + (uint64_t)step, 0);
  for (int i = 0; i < 1 + step % 3; i++) cn_to_device(cn_full(CN_SHAPE(8, 12 + 4 * i), NAN), device);
  in[0] = cn_to_device(cn_randn(CN_SHAPE(8, 12)), device);
  in[1] = cn_to_device(cn_randint(0, 5, CN_SHAPE(8)), device);
  cn_random_set_state(seed, offset);
}

static void assert_trainers_equal(const trainer *a, const trainer *b)
{
  cn_named_list x, y;
  cn_module_named(&x, a->net, CN_PARAMETERS | CN_BUFFERS);
  cn_module_named(&y, b->net, CN_PARAMETERS | CN_BUFFERS);
  assert_int_equal(x.n, y.n);
  for (size_t i = 0; i < x.n; i++) {
    assert_same(x.v[i].tensor, y.v[i].tensor);
    if (a->leaves_gradients) assert_same(cn_grad_of(x.v[i].tensor), cn_grad_of(y.v[i].tensor));
  }
  cn_named_free(&x);
  cn_named_free(&y);
}

/* What a program does to weights besides: it halves them, and gives them other memory. */
static void disturb(trainer *t, int step)
{
  if (!t->disturbed || step % 5 != 3) return;
  int saved = cn_no_grad_begin();
  for (size_t i = 0; i < cn_optim_nparams(t->optim, 0); i++) {
    cn_tensor *w = cn_optim_param(t->optim, 0, i);
    if (step % 2) cn_mul_(w, cn_num(0.5));
    else cn_set_data(w, cn_mul(w, cn_num(0.75)));
  }
  cn_no_grad_end(saved);
}

static cn_tensor *run_step(trainer *t, cn_compiled *c, int step)
{
  cn_tensor *in[2], *loss = NULL;
  disturb(t, step);
  batch(in, step);
  cn_compile_call k = {.inputs = in, .ninputs = 2, .outputs = &loss, .noutputs = 1, .payload = t};
  int status = c ? cn_compiled_call(c, &k) : step_fn(&k);
  if (status) print_message("%s\n", cn_err_message());
  assert_int_equal(status, 0);
  if (!t->schedules) cn_schedule_step(t->schedule);
  return loss;
}

/* Freed memory is handed out again and filled: recorded work must not use it. */
static void fill_freed(void)
{
  cn_scope *s = cn_scope_begin();
  for (int64_t n = 1; n < 5000; n *= 2)
    for (int i = 0; i < 4; i++) cn_full(CN_SHAPE(n), NAN, .device = device);
  cn_scope_end(s);
}

static void check_steps(trainer how)
{
  cn_scope *s = cn_scope_begin();
  trainer a = trainer_new(how), b = trainer_new(how);
  cn_tensor *want[STEPS], *have[STEPS];
  cn_compiled *c = cn_compile(step_fn);
  size_t before = cni_recorded_runs();
  cn_seed(7);
  for (int i = 0; i < STEPS; i++) want[i] = run_step(&a, NULL, i);
  cn_seed(7);
  for (int i = 0; i < STEPS; i++) {
    have[i] = run_step(&b, c, i);
    fill_freed();
  }
  for (int i = 0; i < STEPS; i++) assert_same(want[i], have[i]); /* each is the one of its step still */
  assert_trainers_equal(&a, &b);
  if (!how.disturbed) assert_recorded(before, STEPS - 1); /* the first run goes node by node */
  cn_compiled_free(c);
  trainer_free(&a);
  trainer_free(&b);
  cn_scope_end(s);
  assert_int_equal(cn_device_sync(device), 0);
}

static void test_training_steps(void **state)
{
  (void)state;
  check_steps((trainer){0});
}
static void test_autocast_steps(void **state)
{
  (void)state;
  check_steps((trainer){.autocast = true});
  check_steps((trainer){.autocast = true, .disturbed = true});
}
static void test_gradients_stay_in_leaves(void **state)
{
  (void)state;
  check_steps((trainer){.leaves_gradients = true});
}
static void test_recurrent_steps(void **state)
{
  (void)state;
  check_steps((trainer){.recurrent = true});
  check_steps((trainer){.recurrent = true, .autocast = true});
}
static void test_schedules_in_the_step(void **state)
{
  (void)state;
  check_steps((trainer){.schedules = true});
}

/* ---- forward and backward as two recordings ---- */

static int forward_fn(cn_compile_call *k)
{
  trainer *t = k->payload;
  k->outputs[0] = cn_cross_entropy(cn_forward(t->net, k->inputs[0]), k->inputs[1]);
  k->noutputs = 1;
  return cn_err();
}

static void test_forward_in_an_eager_loop(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  trainer both[2] = {trainer_new((trainer){0}), trainer_new((trainer){0})};
  cn_compiled *c = cn_compile(forward_fn);
  size_t before = cni_recorded_runs();
  for (int which = 0; which < 2; which++) {
    trainer *t = &both[which];
    cn_seed(9);
    for (int i = 0; i < STEPS; i++) {
      cn_tensor *in[2], *loss = NULL;
      batch(in, i);
      cn_compile_call k = {.inputs = in, .ninputs = 2, .outputs = &loss, .noutputs = 1, .payload = t};
      assert_int_equal(which ? cn_compiled_call(c, &k) : forward_fn(&k), 0);
      assert_int_equal(cn_backward(loss), 0);
      cn_optim_step(t->optim);
      cn_optim_zero_grad(t->optim);
      cn_schedule_step(t->schedule);
    }
  }
  assert_trainers_equal(&both[0], &both[1]);
  assert_recorded(before, 2 * (STEPS - 1));
  cn_compiled_free(c);
  trainer_free(&both[0]);
  trainer_free(&both[1]);
  cn_scope_end(s);
}

/* ---- floats ---- */

static int scaled_fn(cn_compile_call *k)
{
  k->outputs[0] = cn_add(cn_mul(cn_exp(k->inputs[0]), k->inputs[1]), cn_mul(k->inputs[1], cn_num(0.5)));
  k->noutputs = 1;
  return cn_err();
}

/* Each run has its own float, read by the device and by a node in host memory. */
static void test_floats(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_compiled *c = cn_compile(scaled_fn);
  size_t before = cni_recorded_runs();
  cn_tensor *want[6], *have[6];
  for (int i = 0; i < 6; i++) {
    cn_tensor *in[2] = {cn_to_device(cn_arange(i, i + 4, .dtype = CN_F32), device), cn_num(0.1 + i)};
    cn_compile_call k = {.inputs = in, .ninputs = 2, .outputs = &want[i], .noutputs = 1};
    assert_int_equal(scaled_fn(&k), 0);
    k.outputs = &have[i];
    assert_int_equal(cn_compiled_call(c, &k), 0);
  }
  for (int i = 0; i < 6; i++) assert_same(want[i], have[i]);
  assert_recorded(before, 5);
  cn_compiled_free(c);
  cn_scope_end(s);
}

/* ---- states in host memory, views, streams ---- */

typedef struct counted {
  cn_tensor *count, *sum; /* in host memory; on the device: (4) */
} counted;

/* Reads the count before and after it is raised. */
static int counts(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  counted *k = payload;
  cn_tensor *before = cn_mul(in[0], k->count);
  cn_add_(k->count, cn_num(1));
  cn_add_(k->sum, before);
  out[0] = cn_add(cn_mul(in[0], k->count), before);
  out[1] = cn_slice(k->sum, 0, 1, 3); /* as the state is then */
  return cn_err();
}

static void test_host_states_and_views(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  counted k = {cn_full(CN_SCALAR_SHAPE, 3, .dtype = CN_F64, .device = CN_CPU), cn_zeros(CN_SHAPE(4), .device = device)};
  cn_tensor *x = cn_ones(CN_SHAPE(4), .device = device), *all[6][2];
  cn_graph *g = cn_trace(counts, 2, &x, 1, &k);
  assert_non_null(g);
  size_t before = cni_recorded_runs();
  for (int i = 0; i < 6; i++) assert_int_equal(cn_graph_run(all[i], g, &x), 0);
  double sum = 0;
  for (int i = 0; i < 6; i++) {
    sum += 3 + i;
    assert_float_equal(cn_item(cn_sum(cn_to_device(all[i][0], CN_CPU))), 4 * (7 + 2 * i), 0);
    assert_float_equal(cn_item(cn_sum(cn_to_device(all[i][1], CN_CPU))), 2 * sum, 0);
  }
  assert_float_equal(cn_item(k.count), 9, 0);
  assert_recorded(before, 5);
  cn_graph_free(g);
  cn_scope_end(s);
}

static int doubles(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  out[0] = cn_mul(cn_exp(in[0]), cn_num(2));
  return cn_err();
}

static void test_each_stream_has_its_own(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_zeros(CN_SHAPE(4), .device = device), *out[8];
  cn_graph *g = cn_trace(doubles, 1, &x, 1, NULL);
  cn_stream *other = cn_stream_new(device, 0);
  assert_int_equal(cn_device_sync(device), 0);
  for (int i = 0; i < 8; i++) {
    assert_int_equal(cn_stream_use(device, i % 2 ? other : NULL), 0);
    assert_int_equal(cn_graph_run(&out[i], g, &x), 0);
  }
  cn_stream_use(device, NULL);
  assert_int_equal(cn_device_sync(device), 0);
  for (int i = 0; i < 8; i++) assert_float_equal(cn_item(cn_sum(cn_to_device(out[i], CN_CPU))), 8, 0);
  cn_stream_release(other);
  cn_graph_free(g);
  cn_scope_end(s);
}

/* What waits for the device cannot be recorded: it goes on node by node. */
static int asks_the_host(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  cn_tensor *there = cn_to_device(cn_exp(in[0]), CN_CPU);
  out[0] = cn_add(cn_to_device(there, device), in[0]);
  return cn_err();
}

static void test_what_waits_runs_node_by_node(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_zeros(CN_SHAPE(4), .device = device), *out;
  cn_graph *g = cn_trace(asks_the_host, 1, &x, 1, NULL);
  size_t before = cni_recorded_runs();
  for (int i = 0; i < 4; i++) {
    assert_int_equal(cn_graph_run(&out, g, &x), 0);
    assert_float_equal(cn_item(cn_sum(cn_to_device(out, CN_CPU))), 4, 0);
  }
  assert_recorded(before, 0);
  cn_graph_free(g);
  cn_scope_end(s);
}

static int grows(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  (void)nin, (void)payload;
  *nout = 1;
  out[0] = cn_add(in[0], cn_num(1));
  return cn_err();
}

static int shrinks(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *payload)
{
  (void)nin, (void)payload;
  *nout = 1;
  out[0] = cn_sub(in[0], cn_num(1));
  return cn_err();
}

static int branches(cn_tensor **out, cn_tensor *const *in, void *rate)
{
  size_t n = 1;
  return cn_cond(out, &n, cn_gt(rate, cn_num(0)), in, 1, grows, shrinks, NULL);
}

/* What a number in host memory decides is decided in each run. */
static void test_branches_are_taken_in_each_run(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_zeros(CN_SHAPE(4), .device = device), *out;
  cn_tensor *rate = cn_full(CN_SCALAR_SHAPE, 1, .dtype = CN_F64, .device = CN_CPU);
  cn_graph *g = cn_trace(branches, 1, &x, 1, rate);
  if (!g) fail_msg("%s", cn_err_message());
  size_t before = cni_recorded_runs();
  for (int i = 0; i < 5; i++) {
    double now = i % 2 ? 1 : -1;
    cn_copy_from_data(rate, &now, sizeof now);
    assert_int_equal(cn_graph_run(&out, g, &x), 0);
    assert_float_equal(cn_item(cn_sum(cn_to_device(out, CN_CPU))), 4 * now, 0);
  }
  assert_recorded(before, 0);
  cn_graph_free(g);
  cn_scope_end(s);
}

/* ---- memory ---- */

enum { BATCH = 2, TOKENS = 6, HEADS = 3, WIDTH = 8 };

/* in: (2, 6, 3, 3, 8) on a device. payload: a gradient is also used by itself. */
static int packed_gradient(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cn_tensor *parts[3], *grads[3], *o, *lse, *x = cn_permute(in[0], CN_SHAPE(2, 0, 3, 1, 4));
  for (int i = 0; i < 3; i++) parts[i] = cn_select(x, 0, i);
  cn_sdpa_forward(&o, &lse, parts[0], parts[1], parts[2], NULL, NULL, .is_causal = true);
  cn_sdpa_backward(&grads[0], &grads[1], &grads[2], o, parts[0], parts[1], parts[2], o, lse, NULL, NULL,
                   .is_causal = true);
  cn_tensor *alone = payload ? cn_sum(grads[1]) : NULL;
  for (int i = 0; i < 3; i++) grads[i] = cn_permute(cn_unsqueeze(grads[i], 0), CN_SHAPE(1, 3, 0, 2, 4));
  cn_tensor *packed = cn_cat(grads, 3, .dim = 2);
  out[0] = cn_matmul(cn_reshape(packed, CN_SHAPE(BATCH * TOKENS, 3 * HEADS * WIDTH)),
                     cn_reshape(in[0], CN_SHAPE(3 * HEADS * WIDTH, BATCH * TOKENS)));
  if (alone) out[0] = cn_add(out[0], alone);
  return cn_err();
}

static void test_attention_writes_into_the_packed_gradient(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_to_device(cn_randn(CN_SHAPE(BATCH, TOKENS, 3, HEADS, WIDTH)), device);
  cn_tensor *want, *have;
  size_t planned[2], bytes = BATCH * TOKENS * 3 * HEADS * WIDTH * sizeof(float);
  for (int alone = 0; alone < 2; alone++) {
    cn_graph *g = cn_trace(packed_gradient, 1, &x, 1, alone ? &alone : NULL);
    assert_non_null(g);
    assert_int_equal(packed_gradient(&want, &x, alone ? &alone : NULL), 0);
    for (int i = 0; i < 3; i++) { /* the second and third are recorded */
      assert_int_equal(cn_graph_run(&have, g, &x), 0);
      assert_same(cn_to_device(want, CN_CPU), cn_to_device(have, CN_CPU));
    }
    cn_graph_memory(g, &planned[alone], NULL);
    cn_graph_free(g);
  }
  assert_true(planned[0] + bytes / 3 <= planned[1]);
  cn_scope_end(s);
}

static void test_memory_is_given_back(void **state)
{
  (void)state;
  if (!on_mirror) SKIP_TEST("another device than the mirror's was asked for");
  size_t before, after, peak;
  cn_device_sync(device);
  cn_device_memory_reserved(&before, &peak, device);
  check_steps((trainer){0});
  cn_device_memory_reserved(&after, &peak, device);
  assert_int_equal(before, after);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, NULL)

int main(void)
{
  setenv("CAIRN_MIRROR", "graphs", 1); /* the mirror takes no graph whole here */
  const struct CMUnitTest tests[] = {
    TEST(test_training_steps), TEST(test_autocast_steps), TEST(test_gradients_stay_in_leaves),
    TEST(test_schedules_in_the_step), TEST(test_recurrent_steps), TEST(test_floats),
    TEST(test_forward_in_an_eager_loop), TEST(test_host_states_and_views), TEST(test_each_stream_has_its_own),
    TEST(test_what_waits_runs_node_by_node), TEST(test_branches_are_taken_in_each_run), TEST(test_memory_is_given_back),
    TEST(test_attention_writes_into_the_packed_gradient),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
