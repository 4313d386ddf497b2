/* test_error.c: errors are sticky, say what happened, belong to one thread, and never end the process. */
#include <cairn/cairn.h>
#include <cairn/ext/op.h>
#include <math.h>
#include <pthread.h>

#include "test.h"

static cn_scope *scope;

static int set_up(void **state)
{
  (void)state;
  cn_err_clear();
  scope = cn_scope_begin();
  return scope ? 0 : -1;
}

static int tear_down(void **state)
{
  (void)state;
  cn_scope_end(scope);
  cn_err_clear();
  return 0;
}

static void the_first_error_stays(void **state)
{
  (void)state;
  cn_tensor *a = cn_ones(CN_SHAPE(2, 3)), *b = cn_ones(CN_SHAPE(4));
  assert_int_equal(cn_err(), CN_OK);
  assert_string_equal(cn_err_message(), "");
  assert_null(cn_add(a, b));
  assert_int_equal(cn_err(), CN_ERR_SHAPE);
  assert_non_null(strstr(cn_err_message(), "add"));
  assert_non_null(strstr(cn_err_message(), "(2, 3)"));
  assert_non_null(strstr(cn_err_message(), "(4,)"));
  char message[1024];
  strncpy(message, cn_err_message(), sizeof message - 1);
  message[sizeof message - 1] = 0;
  assert_null(cn_select(a, 7, 0)); /* another error: the first one stays */
  assert_null(cn_add(a, a));       /* a good call does nothing while one is pending */
  assert_string_equal(cn_err_message(), message);
  cn_err_clear();
  assert_int_equal(cn_err(), CN_OK);
  assert_string_equal(cn_err_message(), "");
  assert_non_null(cn_add(a, a));
}

static void one_check_per_expression(void **state)
{
  (void)state;
  cn_tensor *x = cn_ones(CN_SHAPE(2, 3));
  cn_tensor *y = cn_sum(cn_exp(cn_matmul(cn_relu(cn_mm(x, x)), x)));
  assert_null(y);
  assert_non_null(strstr(cn_err_message(), "mm")); /* the innermost call is to blame */
}

static void a_failed_optional_is_not_absent(void **state)
{
  (void)state;
  cn_tensor *x = cn_ones(CN_SHAPE(2, 3)), *w = cn_ones(CN_SHAPE(4, 3));
  assert_non_null(cn_linear(x, w, NULL));
  assert_null(cn_linear(x, w, cn_select(x, 5, 0))); /* not: without bias */
  assert_int_equal(cn_err(), CN_ERR_INDEX);
}

static void looking_still_works_while_pending(void **state)
{
  (void)state;
  cn_tensor *x = cn_keep(cn_ones(CN_SHAPE(2, 3)));
  cn_err_set(CN_ERR_IO, "pending %d", 7);
  assert_string_equal(cn_err_message(), "pending 7");
  assert_int_equal(cn_numel(x), 6);
  assert_int_equal(cn_ndim(x), 2);
  assert_int_equal(cn_size(x, -1), 3);
  assert_int_equal(cn_dtype_of(x), CN_F32);
  cn_scope *inner = cn_scope_begin();
  cn_scope_end(inner);
  cn_release(x);
  assert_int_equal(cn_backward(x), CN_ERR_IO);
  assert_null(cn_ones(CN_SHAPE(1)));
  assert_null(cn_num(1));
  assert_null(cn_from_data((const float[]){1}, CN_SHAPE(1), CN_F32));
  assert_int_equal(cn_err(), CN_ERR_IO);
}

static void setting_errors(void **state)
{
  (void)state;
  assert_int_equal(cn_err_set(CN_ERR_GRAD, "first"), CN_ERR_GRAD);
  assert_int_equal(cn_err_set(CN_ERR_VALUE, "second"), CN_ERR_GRAD);
  assert_string_equal(cn_err_message(), "first");
  cn_err_clear();
  assert_true(cn_err_set(0, "zero is no error code") < 0);
  assert_true(cn_err() < 0);
  cn_err_clear();
  char longer[5000];
  memset(longer, 'x', sizeof longer - 1);
  longer[sizeof longer - 1] = 0;
  cn_err_set(CN_ERR_VALUE, "%s", longer); /* cut, not overrun */
  assert_true(strlen(cn_err_message()) > 100 && strlen(cn_err_message()) < sizeof longer);
}

static void null_tensors_are_safe(void **state)
{
  (void)state;
  assert_int_equal(cn_numel(NULL), 0);
  assert_int_equal(cn_ndim(NULL), 0);
  assert_null(cn_shape(NULL));
  assert_null(cn_strides(NULL));
  assert_int_equal(cn_dtype_of(NULL), CN_DTYPE_NONE);
  assert_false(cn_is_contiguous(NULL));
  assert_false(cn_is_view(NULL));
  assert_false(cn_needs_grad(NULL));
  assert_null(cn_grad_of(NULL));
  assert_int_equal(cn_tensor_version(NULL), 0);
  assert_int_equal(cn_tensor_nbytes(NULL), 0);
  assert_int_equal(cn_err(), 0);
  assert_null(cn_add(NULL, cn_ones(CN_SHAPE(1))));
  assert_int_equal(cn_err(), CN_ERR_TYPE);
  assert_non_null(strstr(cn_err_message(), "input"));
  cn_err_clear();
  assert_true(cn_backward(NULL) < 0);
  cn_err_clear();
  assert_null(cn_data(NULL));
  assert_true(cn_err() < 0);
  cn_err_clear();
  cn_item(NULL);
  assert_true(cn_err() < 0);
  cn_err_clear();
  assert_true(cn_to_data(&(float){0}, 4, NULL) < 0);
}

static void reading_what_is_not_there(void **state)
{
  (void)state;
  float room[4];
  cn_tensor *x = cn_ones(CN_SHAPE(2, 3));
  assert_float_equal(cn_item(x), 0, 0);
  assert_int_equal(cn_err(), CN_ERR_VALUE);
  cn_err_clear();
  assert_int_equal(cn_size(x, 2), 0);
  assert_int_equal(cn_err(), CN_ERR_INDEX);
  cn_err_clear();
  assert_true(cn_to_data(room, sizeof room, x) < 0); /* 24 bytes do not fit 16 */
  cn_err_clear();
  assert_true(cn_copy_from_data(x, room, sizeof room) < 0);
  cn_err_clear();
  assert_null(cn_from_data(room, CN_SHAPE(2, -1), CN_F32));
  cn_err_clear();
  assert_null(cn_from_data(room, CN_SHAPE(4), (cn_dtype)99));
  assert_int_equal(cn_err(), CN_ERR_DTYPE);
  cn_err_clear();
  assert_null(cn_from_data(NULL, CN_SHAPE(4), CN_F32));
  cn_err_clear();
  int64_t huge[17];
  for (int i = 0; i < 17; i++) huge[i] = 1;
  assert_null(cn_from_data(room, huge, 17, CN_F32)); /* more dims than CN_MAX_DIMS */
  cn_err_clear();
  huge[0] = huge[1] = INT64_MAX / 2;
  assert_null(cn_zeros(huge, 2)); /* the product of sizes does not fit */
  assert_true(cn_err() == CN_ERR_SHAPE || cn_err() == CN_ERR_MEMORY);
}

static void integers_do_not_trap(void **state)
{
  (void)state;
  const int64_t values[] = {5, -7, INT64_MIN}, minus[] = {-1, -1, -1};
  cn_tensor *x = cn_from_data(values, CN_SHAPE(3), CN_I64), *m = cn_from_data(minus, CN_SHAPE(3), CN_I64);
  cn_tensor *zero = cn_zeros(CN_SHAPE(3), .dtype = CN_I64);
  cn_tensor *(*const ops[])(cn_tensor *, cn_tensor *) = {cn_floor_divide, cn_trunc_divide, cn_remainder, cn_fmod};
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
    assert_null(ops[i](x, zero));
    assert_int_equal(cn_err(), CN_ERR_VALUE);
    cn_err_clear();
    cn_tensor *y = ops[i](x, m); /* the quotient of the lowest number does not fit: defined all the same */
    assert_non_null(y);
    assert_int_equal(((int64_t *)cn_data(y))[0], i < 2 ? -5 : 0);
  }
}

static void options_are_checked(void **state)
{
  (void)state;
  cn_tensor *x = cn_ones(CN_SHAPE(2, 3));
  struct {
    cn_sum_opts known;
    int64_t later[2]; /* as a program built against a newer header would pass it */
  } newer;
  memset(&newer, 0, sizeof newer);
  newer.known.size = sizeof newer;
  assert_non_null(cn_sum_with(x, &newer.known));
  newer.later[1] = 1;
  assert_null(cn_sum_with(x, &newer.known));
  cn_err_clear();
  cn_sum_opts broken = {.size = 3};
  assert_null(cn_sum_with(x, &broken));
  cn_err_clear();
  broken = (cn_sum_opts){.size = sizeof broken, .guard = (const void *)&broken};
  assert_null(cn_sum_with(x, &broken)); /* an option without its name */
  cn_err_clear();
  assert_non_null(cn_sum_with(x, NULL));
}

static void op_call_reports_and_clears(void **state)
{
  (void)state;
  cn_tensor *x = cn_ones(CN_SHAPE(2, 3)), *out[2] = {NULL, NULL};
  cn_value args[] = {cn_v_tensor(x), cn_v_tensor(x), cn_v_tensor(x), cn_v_tensor(x)};
  const cn_op *mm = cn_op_find("mm");
  size_t n = 2;
  assert_int_equal(cn_op_call(out, &n, mm, args, 2, NULL), CN_ERR_SHAPE);
  assert_int_equal(n, 0);
  assert_true(cn_err_message()[0] != 0);
  n = 2;
  assert_int_equal(cn_op_call(out, &n, cn_op_find("add"), args, 2, NULL), CN_OK); /* the old error is cleared */
  assert_int_equal(n, 1);
  cn_release(out[0]);
  n = 2;
  assert_true(cn_op_call(out, &n, mm, args, 4, NULL) < 0); /* too many arguments */
  n = 2;
  assert_true(cn_op_call(out, &n, mm, args, 1, NULL) < 0); /* one is missing */
  n = 0;
  assert_true(cn_op_call(out, &n, mm, args, 2, NULL) < 0); /* no room for the result */
  n = 2;
  assert_true(cn_op_call(out, &n, NULL, args, 2, NULL) < 0);
  args[1] = cn_v_int(3);
  n = 2;
  assert_true(cn_op_call(out, &n, mm, args, 2, NULL) < 0); /* a number is no tensor here */
  args[1] = cn_v_int(INT64_MIN + CN_BOOL); /* its lower half is a type */
  n = 2;
  assert_int_equal(cn_op_call(out, &n, cn_op_find("ones_like"), args, 2, NULL), CN_ERR_VALUE);
}

static void *fail_there(void *seen)
{
  *(int *)seen = cn_err();
  cn_err_set(CN_ERR_IO, "of another thread");
  return NULL;
}

static void errors_belong_to_their_thread(void **state)
{
  (void)state;
  pthread_t thread;
  int seen = 1;
  cn_err_set(CN_ERR_VALUE, "mine");
  assert_int_equal(pthread_create(&thread, NULL, fail_there, &seen), 0);
  pthread_join(thread, NULL);
  assert_int_equal(seen, 0);
  assert_string_equal(cn_err_message(), "mine");
}

static void settings_refuse_nonsense(void **state)
{
  (void)state;
  assert_true(cn_set_default_dtype(CN_I32) < 0);
  cn_err_clear();
  assert_true(cn_set_num_threads(-1) < 0);
  cn_err_clear();
  assert_true(cn_set_num_threads(100000) < 0);
  cn_err_clear();
  assert_int_equal(cn_dtype_find("float31"), CN_DTYPE_NONE);
  assert_int_equal(cn_dtype_find(NULL), CN_DTYPE_NONE);
  assert_int_equal(cn_dtype_size((cn_dtype)99), 0);
  assert_non_null(cn_dtype_name((cn_dtype)-1));
  assert_int_equal(cn_device_find("no such device"), CN_DEVICE_DEFAULT);
  assert_true(cn_err() < 0);
  cn_err_clear();
  assert_int_equal(cn_device_count("no such backend"), 0);
  assert_int_equal(cn_err(), 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
  const struct CMUnitTest tests[] = {
    TEST(the_first_error_stays), TEST(one_check_per_expression), TEST(a_failed_optional_is_not_absent),
    TEST(looking_still_works_while_pending), TEST(setting_errors), TEST(null_tensors_are_safe),
    TEST(reading_what_is_not_there), TEST(integers_do_not_trap), TEST(options_are_checked),
    TEST(op_call_reports_and_clears), TEST(errors_belong_to_their_thread), TEST(settings_refuse_nonsense),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
