/* test_cuda_memory.c: memory and copies on a CUDA device: running out of it and going on, the limit, sizes that change,
 * copies that overlap work. Skipped where there is none: test_emulated_memory.c counts what the driver is asked. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "on_cuda.h"

static const int64_t MB = 1 << 20;

/* Owned. */
static cn_tensor *bytes_of(int64_t n)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *t = cn_keep(cn_empty(CN_SHAPE(n), .dtype = CN_U8, .device = gpu));
  cn_scope_end(s);
  fine();
  return t;
}

static cn_device_memory_stats stats(void)
{
  cn_device_memory_stats s = {.size = sizeof s};
  assert_int_equal(cn_device_memory_get_stats(&s, gpu), 0);
  return s;
}

static int begin(void **state)
{
  (void)state;
  return gpu ? cn_device_memory_trim(gpu) || cn_device_memory_set_limit(gpu, 0) : 0;
}

/* All of the device's memory, then a little more: an error that names who has it; afterwards everything works. */
static void running_out(void **state)
{
  (void)state;
  need_gpu();
  enum { MOST = 4096 };
  static cn_tensor *held[MOST];
  cn_device_info info;
  assert_int_equal(cn_device_info_get(&info, gpu), 0);
  int64_t piece = (int64_t)(info.memory_free / 40);
  cn_scope *s = cn_scope_begin();
  close_to("before running out", cn_full(CN_SHAPE(9), 3), cn_add(cn_ones(CN_SHAPE(9), .device = gpu), cn_num(2)), 0);
  cn_scope_end(s);
  int n = 0;
  for (; n < MOST && !cn_err(); n++) {
    s = cn_scope_begin();
    cn_tensor *t = cn_empty(CN_SHAPE(piece), .dtype = CN_U8, .device = gpu);
    held[n] = t ? cn_keep(t) : NULL;
    cn_scope_end(s);
  }
  assert_in_range(n, 30, 60);
  assert_int_equal(cn_err(), CN_ERR_MEMORY);
  assert_non_null(strstr(cn_err_message(), "Largest holders: "));
  assert_non_null(strstr(cn_err_message(), " by empty ("));
  cn_err_clear();
  cn_release(held[0]); /* one is enough for another, and for work */
  held[0] = bytes_of(piece / 2);
  s = cn_scope_begin();
  cn_tensor *ones = cn_ones(CN_SHAPE(1000), .device = gpu);
  close_to("after running out", cn_full(CN_SHAPE(1000), 3), cn_add(ones, cn_num(2)), 0);
  cn_scope_end(s);
  for (int i = 0; i < n; i++) cn_release(held[i]);
  assert_int_equal(cn_device_memory_trim(gpu), 0);
  cn_release(bytes_of(20 * piece)); /* nothing was lost */

}

static void the_limit_is_exact(void **state)
{
  (void)state;
  need_gpu();
  size_t now, peak;
  cn_device_memory_reserved(&now, &peak, gpu);
  assert_int_equal(cn_device_memory_set_limit(gpu, now + (size_t)(100 * MB)), 0);
  cn_tensor *a = bytes_of(60 * MB), *b = bytes_of(40 * MB);
  assert_null(cn_empty(CN_SHAPE(2 * MB), .dtype = CN_U8, .device = gpu));
  assert_int_equal(cn_err(), CN_ERR_MEMORY);
  cn_err_clear();
  cn_release(b);
  b = bytes_of(40 * MB);
  cn_device_memory_reserved(&now, &peak, gpu);
  assert_int_equal(now, stats().limit);
  assert_int_equal(cn_device_memory_set_limit(gpu, 0), 0);
  cn_release(a);
  cn_release(b);
}

/* Sizes from a KB to hundreds of MB, alternating: what is taken from the device stays close to what was in use. */
static void changing_sizes(void **state)
{
  (void)state;
  need_gpu();
  enum { N = 64 };
  cn_tensor *held[N] = {NULL};
  uint64_t random = 1;
  cn_device_memory_reset_peak(gpu);
  for (int i = 0; i < 5000; i++) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    size_t place = (size_t)(random >> 33) % N;
    int64_t size = (int64_t)1024 << (random >> 50) % 18; /* up to 128 MB ... */
    size += (int64_t)((random >> 20) % 100) * (i % 1000 < 500 ? MB : 100); /* ... and something odd */
    cn_release(held[place]);
    held[place] = random >> 63 ? NULL : bytes_of(size);
  }
  for (int i = 0; i < N; i++) cn_release(held[i]);
  cn_device_memory_stats s = stats();
  double ratio = (double)s.reserved[CN_MEMORY_ALL].peak / (double)s.used[CN_MEMORY_ALL].peak;
  print_message("changing sizes: %.3f times %.2f GiB, %llu segments\n", ratio,
                (double)s.used[CN_MEMORY_ALL].peak / 0x1p30, (unsigned long long)s.segments[CN_MEMORY_ALL].total);
  assert_true(ratio < 1.3);
}

/* Ordinary memory is copied while the device is busy, and may be written again at once. */
static void copies_wait_for_nothing(void **state)
{
  (void)state;
  need_gpu();
  enum { N = 20, SIZE = 3000000 };
  static float values[SIZE];
  cn_scope *s = cn_scope_begin();
  cn_tensor *made[N], *x = cn_keep(cn_rand(CN_SHAPE(4096, 4096), .device = gpu));
  cn_event *behind = cn_event_new(gpu, false);
  for (int i = 0; i < 8; i++) cn_set(&x, cn_mul(cn_matmul(x, x), cn_num(1e-3))); /* compiled before */
  cn_device_sync(gpu);
  for (int i = 0; i < 300; i++) cn_set(&x, cn_mul(cn_matmul(x, x), cn_num(1e-3)));
  cn_event_record(behind, NULL);
  for (int i = 0; i < 4; i++) {
    for (int k = 0; k < SIZE; k++) values[k] = (float)i;
    made[i] = cn_to_device(cn_from_data(values, CN_SHAPE(SIZE), CN_F32), gpu);
  }
  assert_int_equal(cn_event_query(behind), 0); /* it was not waited for: half a second of products */
  for (int i = 4; i < N; i++) {
    for (int k = 0; k < SIZE; k++) values[k] = (float)i;
    made[i] = cn_to_device(cn_from_data(values, CN_SHAPE(SIZE), CN_F32), gpu);
  }
  fine();
  for (int i = 0; i < N; i++) {
    assert_float_equal(cn_item(cn_max(made[i])), i, 0);
    assert_float_equal(cn_item(cn_min(made[i])), i, 0);
  }
  cn_event_free(behind);
  cn_release(x);
  cn_scope_end(s);
}

int main(int argc, char **argv)
{
  if (argc > 0) find_plugin(argv[0]);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(changing_sizes, begin),
      cmocka_unit_test_setup(the_limit_is_exact, begin),
      cmocka_unit_test_setup(copies_wait_for_nothing, begin),
      cmocka_unit_test_setup(running_out, begin),
  };
  return cmocka_run_group_tests(tests, set_up, NULL);
}
