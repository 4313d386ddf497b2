/* test_streams.c: streams and events, shown on the mirror device, which has a thread per stream, or the one that
 * CAIRN_TEST_DEVICE names, and on the CPU, which has one queue only: order inside a stream, none between two, events
 * that make one, memory that is given back late. */
#include "test.h"

#include <cairn/cairn.h>
#include <cairn/kw.h>

enum { SIDE = 400 };
static cn_device mirror;

static int set_up(void **state)
{
  (void)state;
  const char *asked = getenv("CAIRN_TEST_DEVICE");
  mirror = cn_device_find(asked ? asked : "mirror");
  return mirror == CN_DEVICE_DEFAULT;
}

static void fine(void)
{
  if (cn_err()) print_error("%s\n", cn_err_message());
  assert_int_equal(cn_err(), 0);
}

/* Something that takes a while: x times itself, a few times, scaled so that ones stay ones. */
static cn_tensor *slow(cn_tensor *x)
{
  for (int i = 0; i < 6; i++) x = cn_mul(cn_mm(x, x), cn_num(1.0 / SIDE));
  return x;
}

/* A thread's work goes into the stream it uses, and each thread has its own. */
static void in_use(void **state)
{
  (void)state;
  cn_stream *a = cn_stream_new(mirror, 0), *b = cn_stream_new(mirror, -1);
  fine();
  assert_true(cn_stream_handle(a) && cn_stream_handle(b) && cn_stream_handle(a) != cn_stream_handle(b));
  assert_int_equal(cn_stream_device(a), mirror);
  assert_null(cn_stream_current(mirror));
  assert_int_equal(cn_stream_use(mirror, a), CN_OK);
  assert_ptr_equal(cn_stream_current(mirror), a);
  assert_ptr_equal(cn_device_stream(mirror), cn_stream_handle(a));
  assert_int_equal(cn_stream_use(mirror, b), CN_OK);
  assert_ptr_equal(cn_stream_current(mirror), b);
  assert_int_equal(cn_stream_use(CN_CPU, a), CN_ERR_DEVICE);
  cn_err_clear();
  cn_stream_release(b); /* the thread goes on using it */
  cn_scope *s = cn_scope_begin();
  assert_float_equal(cn_item(cn_sum(cn_ones(CN_SHAPE(10), .device = mirror))), 10, 0);
  fine();
  cn_scope_end(s);
  assert_int_equal(cn_stream_use(mirror, NULL), CN_OK);
  assert_null(cn_stream_current(mirror));
  cn_stream_release(a);
  cn_stream_release(NULL);
}

/* What was recorded in one stream is waited for in another; the result is what one stream gives. */
static void events_order_streams(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_stream *a = cn_stream_new(mirror, 0), *b = cn_stream_new(mirror, 0);
  cn_event *ready = cn_event_new(mirror, false);
  fine();
  assert_int_equal(cn_event_query(ready), 1); /* never recorded */
  for (int round = 0; round < 5; round++) {
    cn_stream_use(mirror, a);
    cn_tensor *x = slow(cn_ones(CN_SHAPE(SIDE, SIDE), .device = mirror));
    cn_event_record(ready, NULL);
    cn_stream_use(mirror, b);
    assert_int_equal(cn_stream_wait(b, ready), CN_OK);
    cn_tensor_record_stream(x, b);
    cn_tensor *y = cn_sum(x);
    assert_float_equal(cn_item(y), (double)SIDE * SIDE, 0);
    assert_int_equal(cn_event_query(ready), 1);
  }
  cn_stream_use(mirror, NULL);
  fine();
  cn_event_free(ready);
  cn_stream_release(a);
  cn_stream_release(b);
  cn_scope_end(s);
}

/* A stream that has work says so; waiting for it, or for an event behind it, ends that. */
static void query_and_sync(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_stream *a = cn_stream_new(mirror, 0);
  cn_event *begin = cn_event_new(mirror, true), *end = cn_event_new(mirror, true);
  double ms = -1;
  cn_stream_use(mirror, a);
  cn_tensor *x = cn_ones(CN_SHAPE(SIDE, SIDE), .device = mirror);
  assert_int_equal(cn_event_elapsed(&ms, begin, end), CN_ERR_VALUE); /* never recorded */
  cn_err_clear();
  cn_event_record(begin, a);
  slow(slow(x));
  cn_event_record(end, a);
  assert_int_equal(cn_event_sync(end), CN_OK);
  assert_int_equal(cn_event_query(begin), 1);
  assert_int_equal(cn_event_elapsed(&ms, begin, end), CN_OK);
  assert_true(ms >= 0);
  assert_int_equal(cn_stream_sync(a), CN_OK);
  assert_int_equal(cn_stream_query(a), 1);
  cn_stream_use(mirror, NULL);
  cn_event_free(begin);
  cn_event_free(end);
  cn_stream_release(a);
  fine();
  cn_scope_end(s);
}

/* Memory of one stream that another reads is not given away before that has come so far. */
static void memory_waits_for_other_streams(void **state)
{
  (void)state;
  cn_stream *a = cn_stream_new(mirror, 0), *b = cn_stream_new(mirror, 0);
  cn_event *made = cn_event_new(mirror, false);
  for (int round = 0; round < 5; round++) {
    cn_scope *s = cn_scope_begin(), *inner;
    cn_stream_use(mirror, b);
    cn_tensor *busy = slow(cn_ones(CN_SHAPE(SIDE, SIDE), .device = mirror)); /* b comes to the sum late */
    cn_stream_use(mirror, a);
    inner = cn_scope_begin();
    cn_tensor *x = cn_full(CN_SHAPE(1000), 3, .device = mirror);
    cn_event_record(made, a);
    cn_stream_wait(b, made);
    cn_stream_use(mirror, b);
    cn_tensor *sum = cn_keep(cn_sum(x));
    cn_tensor_record_stream(x, b);
    cn_stream_use(mirror, a);
    cn_scope_end(inner); /* x is given back, in stream a */
    for (int i = 0; i < 8; i++) cn_full(CN_SHAPE(1000), -1, .device = mirror); /* whoever gets its memory */
    cn_stream_use(mirror, b);
    assert_float_equal(cn_item(sum), 3000, 0);
    (void)busy;
    cn_release(sum);
    cn_stream_use(mirror, NULL);
    fine();
    cn_scope_end(s);
  }
  cn_event_free(made);
  cn_stream_release(a);
  cn_stream_release(b);
}

/* A failure in a stream is reported by whoever waits for it. */
static void late_failures(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_stream *a = cn_stream_new(mirror, 0);
  cn_stream_use(mirror, a);
  cn_tensor *zero = cn_zeros(CN_SHAPE(3), .dtype = CN_I32, .device = mirror);
  cn_floor_divide(cn_ones(CN_SHAPE(3), .dtype = CN_I32, .device = mirror), zero);
  fine(); /* not yet */
  assert_int_equal(cn_stream_sync(a), CN_ERR_VALUE);
  cn_err_clear();
  assert_int_equal(cn_stream_sync(a), CN_OK);
  cn_stream_use(mirror, NULL);
  cn_stream_release(a);
  cn_scope_end(s);
}

/* The same program on a device without streams. */
static void one_queue(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_stream *a = cn_stream_new(CN_CPU, 0);
  cn_event *begin = cn_event_new(CN_CPU, true), *end = cn_event_new(CN_CPU, true);
  double ms = -1;
  assert_null(cn_stream_handle(a));
  assert_int_equal(cn_stream_use(CN_CPU, a), CN_OK);
  assert_int_equal(cn_event_elapsed(&ms, begin, end), CN_ERR_VALUE);
  cn_err_clear();
  cn_event_record(begin, NULL);
  cn_tensor *x = cn_ones(CN_SHAPE(4));
  cn_event_record(end, a);
  assert_int_equal(cn_tensor_record_stream(x, a), CN_OK);
  assert_int_equal(cn_stream_wait(a, end), CN_OK);
  assert_int_equal(cn_event_sync(end), CN_OK);
  assert_int_equal(cn_stream_query(a), 1);
  assert_int_equal(cn_event_elapsed(&ms, begin, end), CN_OK);
  assert_true(ms >= 0);
  cn_stream_use(CN_CPU, NULL);
  cn_event_free(begin);
  cn_event_free(end);
  cn_stream_release(a);
  fine();
  cn_scope_end(s);
}

/* Devices of one backend copy without the host. */
static void across(void **state)
{
  (void)state;
  if (getenv("CAIRN_TEST_DEVICE")) SKIP_TEST("another device than the mirror's was asked for");
  cn_scope *s = cn_scope_begin();
  cn_device other = cn_device_find("mirror:1");
  cn_tensor *x = slow(cn_ones(CN_SHAPE(SIDE, SIDE), .device = mirror));
  cn_tensor *y = cn_to_device(x, other);
  assert_float_equal(cn_item(cn_sum(y)), (double)SIDE * SIDE, 0);
  fine();
  cn_scope_end(s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(in_use),           cmocka_unit_test(events_order_streams), cmocka_unit_test(query_and_sync),
      cmocka_unit_test(memory_waits_for_other_streams), cmocka_unit_test(late_failures), cmocka_unit_test(one_queue),
      cmocka_unit_test(across),
  };
  return cmocka_run_group_tests(tests, set_up, NULL);
}
