/* test_recording.c: work that a program records and replays by itself (cairn/recording.h), on the mirror device and
 * on CUDA, which is emulated where there is none: memory that stays, numbers of the host, random numbers, training,
 * what is refused. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "test.h"

#include <cairn/cairn.h>
#include <cairn/kw.h>
#include <cairn/recording.h>
#include <math.h>

#include "emulated.h"

static cn_device devices[2];
static int ndevices;

static int set_up(void **state)
{
  (void)state;
  devices[ndevices++] = cn_device_find("mirror");
  if (cn_device_count("cuda") > 0) devices[ndevices++] = cn_device_find("cuda");
  return cn_err();
}

static void ok(int status)
{
  if (status || cn_err()) fail_msg("%s", cn_err_message());
}

static void same(const char *what, cn_tensor *want, cn_tensor *have, double tol)
{
  cn_tensor *a = cn_contiguous(cn_to_device(want, CN_CPU)), *b = cn_contiguous(cn_to_device(have, CN_CPU));
  if (cn_err()) fail_msg("%s: %s", what, cn_err_message());
  assert_int_equal(cn_numel(a), cn_numel(b));
  const float *x = cn_data(a), *y = cn_data(b);
  for (int64_t i = 0; i < cn_numel(a); i++)
    if (!(fabs((double)x[i] - (double)y[i]) <= tol))
      fail_msg("%s: element %lld is %.9g, not %.9g", what, (long long)i, (double)y[i], (double)x[i]);
}

/* ---- memory ---- */

static void static_memory(cn_device device)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *here = cn_randn(CN_SHAPE(5, 4)), *x = cn_to_device(here, device);
  cn_tensor *gone = cn_keep(cn_to_device(here, device));
  cn_recording_pool *pool = cn_recording_pool_new(device);
  cn_recording *r = cn_recording_begin(pool);
  assert_non_null(r);
  assert_true(cn_recording_now(device));
  cn_tensor *y = cn_add(cn_mul(x, x), cn_num(1)), *z = cn_sum(cn_exp(cn_neg(y)), .dim = CN_INTS(1));
  cn_release(gone); /* memory of before, given back meanwhile */
  ok(cn_recording_end(r));
  assert_false(cn_recording_now(device));
  for (int i = 0; i < 3; i++) {
    cn_tensor *fresh = cn_randn(CN_SHAPE(5, 4));
    assert_non_null(cn_copy_(x, cn_to_device(fresh, device)));
    for (int k = 0; k < 4; k++) cn_full(CN_SHAPE(5, 4), NAN, .device = device); /* others' memory */
    ok(cn_recording_replay(r));
    cn_tensor *want = cn_add(cn_mul(fresh, fresh), cn_num(1));
    same("y", want, y, 1e-6);
    same("z", cn_sum(cn_exp(cn_neg(want)), .dim = CN_INTS(1)), z, 1e-6);
  }
  cn_tensor *last = cn_to_device(z, CN_CPU);
  cn_recording_free(r);
  cn_recording_pool_free(pool);
  for (int k = 0; k < 8; k++) cn_full(CN_SHAPE(5), 7, .device = device);
  same("a result that outlives its recording", last, z, 0);
  cn_scope_end(s);
}

/* Two recordings of one pool, replayed in their order. */
static void shared_pool(cn_device device)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_to_device(cn_ones(CN_SHAPE(30000)), device);
  cn_recording_pool *pool = cn_recording_pool_new(device);
  cn_recording *r[2];
  cn_tensor *y[2];
  size_t before, after, peak, grown[2];
  for (int i = 0; i < 2; i++) {
    cn_device_memory_reserved(&before, &peak, device);
    assert_non_null(r[i] = cn_recording_begin(pool));
    cn_scope *inner = cn_scope_begin();
    cn_tensor *z = x;
    for (int k = 0; k < 5; k++) z = cn_add(z, x);
    y[i] = cn_scope_return(inner, z);
    ok(cn_recording_end(r[i]));
    cn_device_memory_reserved(&after, &peak, device);
    grown[i] = after - before;
  }
  assert_true(grown[1] < grown[0]);
  for (int i = 0; i < 2; i++) ok(cn_recording_replay(r[i]));
  for (int i = 0; i < 2; i++) same("a sum", cn_mul(cn_ones(CN_SHAPE(30000)), cn_num(6)), y[i], 0);
  cn_recording_pool_free(pool);
  for (int i = 0; i < 2; i++) cn_recording_free(r[i]);
  cn_scope_end(s);
}

/* ---- what the host adds ---- */

static void random_numbers(cn_device device)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_ones(CN_SHAPE(64), .device = device), *want[6];
  cn_seed(5);
  for (int i = 0; i < 6; i++) want[i] = i % 2 ? cn_dropout(x) : cn_rand(CN_SHAPE(9), .device = device);
  cn_seed(5);
  cn_recording_pool *pool = cn_recording_pool_new(device);
  cn_recording *r = cn_recording_begin(pool);
  cn_tensor *a = cn_rand(CN_SHAPE(9), .device = device), *b = cn_dropout(x);
  ok(cn_recording_end(r));
  for (int i = 0; i < 6; i += 2) { /* those of eager code, one after the other */
    ok(cn_recording_replay(r));
    same("rand", want[i], a, 0);
    same("dropout", want[i + 1], b, 0);
  }
  uint64_t seed, offset, then;
  cn_random_state(&seed, &offset);
  cn_recording_free(r);
  assert_non_null(r = cn_recording_begin(pool));
  cn_rand(CN_SHAPE(9), .device = device);
  cn_seed(6);
  assert_int_not_equal(cn_recording_end(r), 0);
  assert_non_null(strstr(cn_err_message(), "seeded"));
  cn_err_clear();
  cn_random_state(&seed, &then);
  assert_int_equal(seed, 5);
  assert_int_equal(offset, then);
  cn_recording_free(r);
  cn_recording_pool_free(pool);
  cn_scope_end(s);
}

typedef struct trained {
  cn_module *net;
  cn_optim *optim;
  cn_tensor *x, *y; /* static */
} trained;

static trained trained_new(cn_device device, bool adam)
{
  cn_seed(11);
  trained t = {.net = cn_nn_sequential(cn_nn_linear(6, 9), cn_nn_relu(), cn_nn_dropout(.p = 0.2), cn_nn_linear(9, 3))};
  cn_module_to(t.net, device, CN_DTYPE_NONE);
  t.optim = adam ? cn_optim_adam(t.net, .lr = 0.05) : cn_optim_sgd(t.net, .lr = 0.05, .momentum = 0.9);
  t.x = cn_keep(cn_zeros(CN_SHAPE(4, 6), .device = device));
  t.y = cn_keep(cn_zeros(CN_SHAPE(4, 3), .device = device));
  return t;
}

static void trained_free(trained *t)
{
  cn_release(t->x);
  cn_release(t->y);
  cn_optim_free(t->optim);
  cn_module_release(t->net);
}

static cn_tensor *step(trained *t)
{
  cn_optim_zero_grad(t->optim);
  cn_tensor *loss = cn_mse_loss(cn_forward(t->net, t->x), t->y);
  cn_backward(loss);
  cn_optim_step(t->optim);
  return loss;
}

static void next_batch(trained *t, int i)
{
  uint64_t seed, offset;
  cn_random_state(&seed, &offset);
  cn_random_set_state(100 + (uint64_t)i, 0);
  cn_copy_(t->x, cn_to_device(cn_randn(CN_SHAPE(4, 6)), cn_device_of(t->x)));
  cn_copy_(t->y, cn_to_device(cn_randn(CN_SHAPE(4, 3)), cn_device_of(t->y)));
  cn_random_set_state(seed, offset);
}

/* Forward, backward and update as one recording, at a rate that changes, against the same as it is. */
static void compare_training(cn_device device, bool adam)
{
  enum { WARM = 2, STEPS = 6 };
  cn_scope *s = cn_scope_begin();
  trained a = trained_new(device, adam), b = trained_new(device, adam);
  cn_recording_pool *pool = cn_recording_pool_new(device);
  cn_recording *r = NULL;
  uint64_t at[2][2] = {{11, 0}, {11, 0}};
  cn_tensor *recorded = NULL;
  for (int i = 0; i < WARM + STEPS; i++) {
    double lr = 0.05 / (1 + i);
    cn_optim_set(a.optim, 0, "lr", lr);
    cn_optim_set(b.optim, 0, "lr", lr);
    next_batch(&a, i);
    next_batch(&b, i);
    cn_random_set_state(at[0][0], at[0][1]);
    cn_tensor *loss = step(&a);
    cn_random_state(&at[0][0], &at[0][1]);
    cn_random_set_state(at[1][0], at[1][1]);
    if (i == WARM) {
      assert_non_null(r = cn_recording_begin(pool));
      recorded = step(&b);
      ok(cn_recording_end(r));
    }
    if (i < WARM) recorded = step(&b);
    else ok(cn_recording_replay(r));
    cn_random_state(&at[1][0], &at[1][1]);
    same("the loss", loss, recorded, 0);
  }
  assert_int_equal(at[0][1], at[1][1]);
  for (size_t i = 0; i < cn_optim_nparams(a.optim, 0); i++)
    same("a parameter", cn_optim_param(a.optim, 0, i), cn_optim_param(b.optim, 0, i), 0);
  cn_recording_free(r);
  cn_recording_pool_free(pool);
  trained_free(&a);
  trained_free(&b);
  cn_scope_end(s);
}

/* ---- what is refused ---- */

static int twice(cn_compile_call *k)
{
  k->outputs[0] = cn_add(k->inputs[0], k->inputs[0]);
  return cn_err();
}

static void refusals(cn_device device)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_to_device(cn_ones(CN_SHAPE(4)), device);
  cn_recording_pool *pool = cn_recording_pool_new(device);
  cn_recording *r = cn_recording_begin(pool);
  assert_null(cn_recording_begin(pool));
  assert_int_equal(cn_err(), CN_ERR_CAPTURE);
  cn_err_clear();
  cn_item(cn_sum(x)); /* a value is read */
  assert_int_equal(cn_err(), CN_ERR_CAPTURE);
  cn_err_clear();
  assert_int_not_equal(cn_device_sync(device), 0);
  cn_err_clear();
  cn_recording_free(r); /* dropped */
  assert_int_equal(cn_err(), 0);
  assert_int_not_equal(cn_recording_replay(NULL), 0);
  cn_err_clear();
  assert_true(cn_item(cn_sum(x)) == 4);
  cn_compiled *c = cn_compile(twice); /* runs as it is while work is recorded */
  cn_tensor *y = NULL;
  cn_compile_call k = {.inputs = &x, .ninputs = 1, .outputs = &y, .noutputs = 1};
  for (int i = 0; i < 3; i++) ok(cn_compiled_call(c, &k));
  assert_non_null(r = cn_recording_begin(pool));
  ok(cn_compiled_call(c, &k));
  ok(cn_recording_end(r));
  cn_copy_(x, cn_full(CN_SHAPE(4), 3, .device = device));
  ok(cn_recording_replay(r));
  same("twice", cn_full(CN_SHAPE(4), 6), y, 0);
  cn_recording_free(r);
  cn_compiled_free(c);
  cn_recording_pool_free(pool);
  cn_recording_pool *host = cn_recording_pool_new(CN_CPU);
  assert_null(cn_recording_begin(host));
  assert_int_equal(cn_err(), CN_ERR_UNSUPPORTED);
  cn_err_clear();
  cn_recording_pool_free(host);
  cn_scope_end(s);
}

static void on_each(void (*check)(cn_device))
{
  for (int i = 0; i < ndevices; i++) check(devices[i]);
}
static void with_sgd(cn_device device) { compare_training(device, false); }
static void with_adam(cn_device device) { compare_training(device, true); }

#define ON_EACH(name, check) \
  static void name(void **state) \
  { \
    (void)state; \
    on_each(check); \
  }
ON_EACH(memory_stays, static_memory)
ON_EACH(pools_are_shared, shared_pool)
ON_EACH(numbers_are_fresh, random_numbers)
ON_EACH(sgd_trains, with_sgd)
ON_EACH(adam_trains, with_adam)
ON_EACH(some_things_are_refused, refusals)

int main(int argc, char **argv)
{
  if (argc > 0 && cn_device_count("cuda") < 1) emulate(argv); /* so that the plugin takes part */
  const struct CMUnitTest tests[] = {cmocka_unit_test(memory_stays), cmocka_unit_test(pools_are_shared),
                                     cmocka_unit_test(numbers_are_fresh), cmocka_unit_test(sgd_trains),
                                     cmocka_unit_test(adam_trains), cmocka_unit_test(some_things_are_refused)};
  return cmocka_run_group_tests(tests, set_up, NULL);
}
