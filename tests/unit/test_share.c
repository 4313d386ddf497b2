/* test_share.c: tensors in memory that processes share (cn_share_memory, cn_from_shared). */
#define _DEFAULT_SOURCE
#include <cairn/cairn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

static int begin(void **state)
{
  *state = cn_scope_begin();
  return 0;
}

static int end(void **state)
{
  cn_err_clear();
  cn_scope_end(*state);
  return 0;
}

static void wait_for(pid_t child)
{
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}

/* In a small block, in a large one, and with nothing in it. */
static void parent_sees_child(void **state)
{
  (void)state;
  SKIP_IF_EMULATED();
  const int64_t sizes[] = {3, 100000, 0};
  for (int i = 0; i < 3; i++) {
    cn_tensor *t = cn_full_with(&sizes[i], 1, 2.0, NULL);
    assert_false(cn_is_shared(t));
    assert_int_equal(cn_shared_fd(t), -1);
    assert_int_equal(cn_share_memory(t), CN_OK);
    assert_true(cn_is_shared(t));
    assert_int_equal(cn_share_memory(t), CN_OK); /* again: nothing to do */
    pid_t child = fork();
    if (!child) {
      cn_add_(t, cn_num(1.0));
      _exit(cn_err() ? 1 : 0);
    }
    wait_for(child);
    assert_true(cn_item(cn_sum(t)) == 3.0 * (double)sizes[i]);
  }
}

static void another_maps_it(void **state)
{
  (void)state;
  cn_tensor *t = cn_arange(0, 12);
  const int64_t shape[] = {2, 3}, strides[] = {4, 1}, far[] = {3, 4};
  assert_int_equal(cn_share_memory(t), CN_OK);
  cn_tensor *part = cn_from_shared(cn_shared_fd(t), 5, shape, strides, 2, cn_dtype_of(t));
  assert_non_null(part);
  assert_true(cn_is_shared(part));
  assert_true(cn_item(cn_sum(part)) == 5 + 6 + 7 + 9 + 10 + 11);
  cn_mul_(part, cn_num(0.0));
  assert_true(cn_item(cn_sum(t)) == 66.0 - 48.0);
  assert_null(cn_from_shared(cn_shared_fd(t), 1, far, NULL, 2, cn_dtype_of(t)));
  assert_non_null(strstr(cn_err_message(), "beyond"));
}

/* In shared memory from the start; another takes it over, and can no longer pass it on. */
static void one_hands_it_over(void **state)
{
  (void)state;
  const int64_t shape[] = {3, 4}, part[] = {4, 2}, strides[] = {1, 8}, none[] = {0, 2};
  cn_tensor *t = cn_zeros_shared(shape, 2, CN_I32);
  assert_true(cn_is_shared(t));
  assert_true(cn_item(cn_sum(t)) == 0.0);
  cn_tensor *taken = cn_take_shared(cn_shared_fd(t), 0, part, strides, 2, CN_I32);
  assert_non_null(taken);
  assert_false(cn_is_shared(taken));
  assert_int_equal(cn_shared_fd(taken), -1);
  cn_add_(taken, cn_int(1));
  assert_true(cn_item(cn_sum(t)) == 8.0);
  assert_int_equal(cn_share_memory(taken), CN_OK); /* into memory of its own */
  assert_true(cn_is_shared(taken));
  cn_add_(taken, cn_int(1));
  assert_true(cn_item(cn_sum(taken)) == 16.0 && cn_item(cn_sum(t)) == 8.0);
  cn_tensor *empty = cn_zeros_shared(none, 2, CN_F64);
  assert_int_equal(cn_numel(cn_take_shared(cn_shared_fd(empty), 0, none, NULL, 2, CN_F64)), 0);
  assert_null(cn_take_shared(cn_shared_fd(t), 1, shape, NULL, 2, CN_I32));
  assert_non_null(strstr(cn_err_message(), "take_shared: the tensor reaches beyond"));
  cn_err_clear();
  assert_null(cn_zeros_shared((int64_t[]){-1}, 1, CN_F32));
  assert_int_equal(cn_err(), CN_ERR_SHAPE);
}

static void refuses(void **state)
{
  (void)state;
  const int64_t shape[] = {1};
  cn_tensor *t = cn_zeros(CN_SHAPE(4)), *view = cn_slice(t, 0, 1, 3);
  assert_non_null(view);
  assert_int_equal(cn_share_memory(t), CN_ERR_UNSUPPORTED);
  assert_non_null(strstr(cn_err_message(), "views"));
  cn_err_clear();
  assert_false(cn_is_shared(t));
  assert_int_equal(cn_share_memory(NULL), CN_ERR_TYPE);
  cn_err_clear();
  assert_null(cn_from_shared(-1, 0, shape, NULL, 1, CN_F32));
  assert_int_equal(cn_err(), CN_ERR_IO);
}

/* A leaf that is trained keeps its gradient and its history's version. */
static void trains(void **state)
{
  (void)state;
  cn_tensor *w = cn_requires_grad(cn_full(CN_SHAPE(2), 3.0), true);
  cn_tensor *loss = cn_sum(cn_mul(cn_detach(cn_full(CN_SHAPE(2), 5.0)), w));
  assert_non_null(loss);
  assert_int_equal(cn_share_memory(w), CN_OK);
  assert_int_equal(cn_backward(loss), CN_OK);
  assert_true(cn_item(cn_sum(cn_grad_of(w))) == 10.0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(parent_sees_child, begin, end),
    cmocka_unit_test_setup_teardown(another_maps_it, begin, end),
    cmocka_unit_test_setup_teardown(one_hands_it_over, begin, end),
    cmocka_unit_test_setup_teardown(refuses, begin, end),
    cmocka_unit_test_setup_teardown(trains, begin, end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
