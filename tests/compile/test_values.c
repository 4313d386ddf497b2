/* test_values.c: functions that cannot be captured for all values of an integer: programs are made for those that come
 * (cn_trace_wants_values), results follow a value that is written to between calls, and many values run as they are. */
#include <cairn/cairn.h>
#include <cairn/ext/graph.h>

#include "tensors.h"

static cn_compile_stats stats_of(const cn_compiled *c)
{
  cn_compile_stats s;
  cn_compile_stats_get(&s, sizeof s, c);
  return s;
}

/* n: in[1], an integer; read where it may be. */
static int value_of(int64_t *n, cn_tensor *t)
{
  if (cn_tracing() && !cn_trace_is_value(t)) {
    cn_trace_wants_values();
    return cn_err_set(CN_ERR_CAPTURE, "the number of rows is not known");
  }
  void *paused = cn_trace_pause();
  *n = cn_item_int(t);
  cn_trace_resume(paused);
  return cn_err();
}

/* The first n rows twice, and n itself. */
static int first_rows(cn_compile_call *k)
{
  int64_t n = 0;
  if (value_of(&n, k->inputs[1])) return cn_err();
  k->outputs[0] = cn_mul(cn_narrow(k->inputs[0], 0, 0, n), cn_num(2));
  k->outputs[1] = cn_add(k->inputs[1], cn_int(1));
  k->noutputs = 2;
  return cn_err();
}

static void check(cn_compiled *c, cn_tensor *x, cn_tensor *n)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *in[] = {x, n}, *have[2] = {NULL}, *want[2] = {NULL};
  cn_compile_call k = {.inputs = in, .ninputs = 2, .outputs = have, .noutputs = 2}, plain = k;
  plain.outputs = want;
  assert_int_equal(first_rows(&plain), 0);
  if (cn_compiled_call(c, &k)) fail_msg("%s", cn_err_message());
  for (int i = 0; i < 2; i++) assert_same(have[i], want[i]);
  cn_scope_end(s);
}

static cn_tensor *integer(int64_t v, cn_dtype dtype) { return cn_cast(cn_from_data(&v, NULL, 0, CN_I64), dtype); }

static void test_a_program_for_each_value(void **state)
{
  const cn_dtype dtypes[] = {CN_I64, CN_I32, CN_U8};
  (void)state;
  for (size_t d = 0; d < 3; d++) {
    cn_scope *s = cn_scope_begin();
    cn_compiled *c = cn_compile(first_rows);
    cn_tensor *x = cn_randn(CN_SHAPE(8, 3)), *two = integer(2, dtypes[d]), *five = integer(5, dtypes[d]);
    for (int i = 0; i < 3; i++) {
      check(c, x, two);
      check(c, x, five);
      check(c, x, integer(2, dtypes[d]));
    }
    assert_int_equal(stats_of(c).executables, 2);
    assert_int_equal(stats_of(c).runs, 9);
    assert_int_equal(stats_of(c).eager_calls, 0);
    cn_fill_(two, cn_int(5)); /* the tensor that a program was made with */
    check(c, x, two);
    check(c, x, integer(2, dtypes[d]));
    assert_int_equal(stats_of(c).executables, 2);
    cn_compiled_free(c);
    cn_scope_end(s);
  }
}

static void test_many_values(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_compiled *c = cn_compile(first_rows);
  cn_tensor *x = cn_randn(CN_SHAPE(40, 3));
  for (int64_t n = 0; n < 40; n++) check(c, x, integer(n, CN_I64));
  assert_in_range(stats_of(c).executables, 2, 20);
  assert_int_equal(stats_of(c).eager_calls, 40 - stats_of(c).runs);
  check(c, x, integer(3, CN_I64)); /* those that there are go on */
  assert_int_equal(stats_of(c).eager_calls, 41 - stats_of(c).runs);
  cn_compiled_free(c);
  cn_scope_end(s);
}

/* ... where the value is written to: what stands for it in the program is not the caller's tensor. */
static int counts(cn_compile_call *k)
{
  int64_t n = 0;
  if (value_of(&n, k->inputs[1])) return cn_err();
  k->outputs[0] = cn_narrow(k->inputs[0], 0, 0, n);
  k->noutputs = 1;
  cn_add_(k->inputs[1], cn_int(1));
  return cn_err();
}

static void test_written_values_run_as_they_are(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_compiled *c = cn_compile(counts);
  cn_tensor *x = cn_randn(CN_SHAPE(9, 3)), *n = integer(1, CN_I64), *in[] = {x, n}, *y;
  for (int64_t i = 1; i < 6; i++) {
    cn_compile_call k = {.inputs = in, .ninputs = 2, .outputs = &y, .noutputs = 1};
    if (cn_compiled_call(c, &k)) fail_msg("%s", cn_err_message());
    assert_int_equal(cn_size(y, 0), i);
    assert_int_equal(cn_item_int(n), i + 1);
  }
  assert_int_equal(stats_of(c).eager_calls, 5);
  cn_compiled_free(c);
  cn_scope_end(s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(test_a_program_for_each_value, clear_errors),
    cmocka_unit_test_setup(test_many_values, clear_errors),
    cmocka_unit_test_setup(test_written_values_run_as_they_are, clear_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
