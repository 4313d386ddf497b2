/* test_emulated_order.c: results that repeat (cn_set_deterministic), on an emulation of the driver (tests/simt): what
 * goes to one place goes there in order, as on the CPU, bit for bit; ops that cannot say so. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "emulated.h"

enum { ROWS = 7, COLS = 5, MANY = 3000 };

/* MANY numbers below n, each again and again. */
static cn_tensor *places(int64_t n) { return cn_randint(0, n, CN_SHAPE(MANY)); }

static int begin(void **state)
{
  (void)state;
  return cn_set_deterministic(CN_DETERMINISTIC_FAIL);
}

static int end(void **state)
{
  (void)state;
  return cn_set_deterministic(CN_DETERMINISTIC_OFF);
}

static void adding(void **state)
{
  (void)state;
  need_device();
  cn_tensor *x = cn_randn(CN_SHAPE(ROWS, COLS)), *i = places(ROWS), *j = places(COLS);
  cn_tensor *more = cn_randn(CN_SHAPE(MANY, COLS)), *values = cn_randn(CN_SHAPE(MANY));
  cn_tensor *wide = cn_transpose(cn_randn(CN_SHAPE(MANY, ROWS)), 0, 1);
  close_to("index_add", cn_index_add(x, 0, i, more), cn_index_add(there(x), 0, there(i), there(more)), 0);
  close_to("index_add of columns", cn_index_add(x, 1, j, wide), cn_index_add(there(x), 1, there(j), there(wide)), 0);
  cn_tensor *both[] = {i, j}, *both_there[] = {there(i), there(j)};
  close_to("index_put", cn_index_put(x, both, 2, values, .accumulate = true),
           cn_index_put(there(x), both_there, 2, there(values), .accumulate = true), 0);
  cn_tensor *rows = cn_randint(0, ROWS, CN_SHAPE(MANY, COLS));
  close_to("scatter_add", cn_scatter_add(x, 0, rows, more), cn_scatter_add(there(x), 0, there(rows), there(more)), 0);
}

static void multiplying(void **state)
{
  (void)state;
  need_device();
  cn_tensor *x = cn_rand(CN_SHAPE(ROWS, COLS)), *rows = cn_randint(0, ROWS, CN_SHAPE(40, COLS));
  cn_tensor *by = cn_add(cn_rand(CN_SHAPE(40, COLS)), cn_num(0.5));
  close_to("scatter_reduce", cn_scatter_reduce(x, 0, rows, by, "prod"),
           cn_scatter_reduce(there(x), 0, there(rows), there(by), "prod"), 0);
}

/* The last one stays. */
static void writing(void **state)
{
  (void)state;
  need_device();
  cn_tensor *x = cn_randn(CN_SHAPE(ROWS, COLS)), *i = places(ROWS), *more = cn_randn(CN_SHAPE(MANY, COLS));
  cn_tensor *rows = cn_randint(0, ROWS, CN_SHAPE(MANY, COLS)), *none = cn_randint(0, ROWS, CN_SHAPE(0));
  close_to("index_copy", cn_index_copy(x, 0, i, more), cn_index_copy(there(x), 0, there(i), there(more)), 0);
  close_to("scatter", cn_scatter(x, 0, rows, more), cn_scatter(there(x), 0, there(rows), there(more)), 0);
  close_to("nothing", x, cn_index_copy(there(x), 0, there(none), there(cn_zeros(CN_SHAPE(0, COLS)))), 0);
}

static cn_tensor *embedding_gradient(cn_tensor *i, cn_tensor *w, cn_tensor *by)
{
  cn_requires_grad(w, true);
  cn_backward(cn_sum(cn_mul(cn_embedding(i, w, 3), by)));
  return cn_grad_of(w);
}

static void embedding(void **state)
{
  (void)state;
  need_device();
  cn_tensor *w = cn_randn(CN_SHAPE(ROWS, COLS)), *i = places(ROWS), *by = cn_randn(CN_SHAPE(MANY, COLS));
  cn_tensor *w_there = there(w);
  close_to("embedding", embedding_gradient(i, w, by), embedding_gradient(there(i), w_there, there(by)), 0);
}

/* A number out of range is an error, and is passed over. */
static void faults(void **state)
{
  (void)state;
  need_device();
  cn_tensor *x = there(cn_zeros(CN_SHAPE(ROWS))), *i = there(cn_full(CN_SHAPE(2), ROWS, .dtype = CN_I64));
  cn_index_add(x, 0, i, there(cn_ones(CN_SHAPE(2))));
  assert_int_equal(cn_device_sync(gpu), CN_ERR_INDEX);
  assert_non_null(strstr(cn_err_message(), "index_add"));
  cn_err_clear();
}

static void not_deterministic(void **state)
{
  (void)state;
  need_device();
  cn_tensor *x = there(cn_rand(CN_SHAPE(1, 1, 4, 4))), *grid = there(cn_zeros(CN_SHAPE(1, 2, 2, 2)));
  cn_requires_grad(x, true);
  assert_true(cn_backward(cn_sum(cn_grid_sample(x, grid))) < 0);
  assert_int_equal(cn_err(), CN_ERR_UNSUPPORTED);
  assert_non_null(strstr(cn_err_message(), "deterministic"));
  cn_err_clear();
}

int main(int argc, char **argv)
{
  (void)argc;
  emulate(argv);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(adding, begin, end),    cmocka_unit_test_setup_teardown(multiplying, begin, end),
      cmocka_unit_test_setup_teardown(writing, begin, end),   cmocka_unit_test_setup_teardown(embedding, begin, end),
      cmocka_unit_test_setup_teardown(faults, begin, end),
      cmocka_unit_test_setup_teardown(not_deterministic, begin, end),
  };
  return cmocka_run_group_tests(tests, find_emulated, NULL);
}
