/* test_emulated_memory.c: the CUDA plugin's memory and copies on the emulated driver (tests/simt), which counts what is
 * asked of it: segments that are cut and joined, the limit, running out, streams, copies that wait for nothing.
 *
 * Skipped, with the reason, where the plugin or a C++ compiler is not. test_cuda_memory.c is for a device. */
#define _GNU_SOURCE /* setenv, RTLD_DEFAULT */
#include "test.h"

#include <cairn/cairn.h>
#include <cairn/kw.h>
#include <dlfcn.h>
#include <pthread.h>

#include "../simt/simt_driver.h"
#include "emulated.h"

enum { KB = 1 << 10, MB = 1 << 20 };
static simt_counts_t *counts;

static void fine(void)
{
  if (cn_err()) fail_msg("%s", cn_err_message());
}

/* Owned. */
static cn_tensor *bytes_of(int64_t n)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *t = cn_keep(cn_empty(CN_SHAPE(n), .dtype = CN_U8, .device = gpu));
  cn_scope_end(s);
  fine();
  return t;
}

static size_t reserved(void)
{
  size_t now, peak;
  cn_device_memory_reserved(&now, &peak, gpu);
  return now;
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
  if (!gpu) return 0;
  counts = dlsym(RTLD_DEFAULT, "simt_counts");
  return !counts || cn_device_memory_trim(gpu) || cn_device_memory_set_limit(gpu, 0);
}

/* ---- pieces ---- */

static void blocks_are_used_again(void **state)
{
  (void)state;
  need_device();
  static const int64_t sizes[] = {1, 700, 5000, 3 * MB, 40 * MB};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    cn_release(bytes_of(sizes[i]));
    uint64_t before = counts->allocs;
    const void *at = NULL;
    for (int k = 0; k < 20; k++) {
      cn_tensor *t = bytes_of(sizes[i]);
      if (k) assert_ptr_equal(cn_desc_of(t)->data, at);
      at = cn_desc_of(t)->data;
      assert_int_equal((uintptr_t)at % 256, 0);
      cn_release(t);
    }
    assert_int_equal(counts->allocs, before);
  }
}

/* A large block is cut where smaller ones are wanted, and whole again when these are gone, in whatever order. */
static void large_blocks_are_cut_and_joined(void **state)
{
  (void)state;
  need_device();
  static const int orders[][4] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {0, 2, 1, 3}, {1, 3, 2, 0}};
  cn_release(bytes_of(64 * MB));
  uint64_t before = counts->allocs;
  for (int k = 0; k < 4; k++) {
    cn_tensor *parts[4];
    for (int i = 0; i < 4; i++) parts[i] = bytes_of(16 * MB);
    assert_int_equal(stats().blocks[CN_MEMORY_LARGE].now, 4);
    for (int i = 0; i < 4; i++) {
      cn_release(parts[orders[k][i]]);
      if (i == 1) assert_int_equal(stats().gap_bytes[CN_MEMORY_ALL], 32 * MB);
    }
    cn_release(bytes_of(64 * MB));
  }
  assert_int_equal(counts->allocs, before);
  assert_int_equal(cn_device_memory_trim(gpu), 0);
  assert_int_equal(reserved(), 0);
  assert_int_equal(counts->held, 0);
}

/* What is asked for again and again is not cut by small requests that come while it is free, and then stay. */
static void large_segments_stay_whole(void **state)
{
  (void)state;
  need_device();
  cn_tensor *rest = bytes_of(512 * (int64_t)MB), *stays[4];
  cn_release(bytes_of(200 * MB));
  for (int i = 0; i < 4; i++) {
    stays[i] = bytes_of(12 * MB);
    cn_release(bytes_of(200 * MB));
  }
  assert_int_equal(reserved(), (512 + 200 + 4 * 12) * (uint64_t)MB);
  assert_int_equal(cn_device_memory_set_limit(gpu, reserved()), 0);
  cn_release(bytes_of(150 * MB)); /* but where there is no room for others */
  cn_tensor *cut = bytes_of(20 * MB);
  assert_int_equal(stats().gap_bytes[CN_MEMORY_ALL], 180 * MB);
  for (int i = 0; i < 4; i++) cn_release(stays[i]);
  cn_release(cut);
  cn_release(rest);
}

/* Many small blocks of one size make room for another size without another segment. */
static void small_blocks_are_joined(void **state)
{
  (void)state;
  need_device();
  enum { N = 512 };
  cn_tensor *held[N];
  for (int round = 0; round < 3; round++) {
    int64_t size = round == 1 ? 8 * KB : 16 * KB;
    for (int i = 0; i < N; i++) held[i] = bytes_of(size);
    for (int i = 0; i < N; i++) cn_release(held[i]);
    assert_int_equal(reserved(), 8 * MB);
  }
}

/* Sizes that change all the time: what is taken from the device stays close to what was ever in use. */
static void changing_sizes(void **state)
{
  (void)state;
  need_device();
  enum { N = 48 };
  cn_tensor *held[N] = {NULL};
  uint64_t random = 1;
  cn_device_memory_reset_peak(gpu);
  for (int i = 0; i < 6000; i++) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    size_t place = (size_t)(random >> 33) % N;
    int64_t size = (int64_t)1 << (random >> 50) % 15; /* of KB */
    size = (size + (int64_t)((random >> 20) % 6000) * (i % 1000 < 500 ? 1 : 3)) * KB;
    cn_release(held[place]);
    held[place] = NULL;
    if (!(random >> 63)) held[place] = bytes_of(size);
  }
  for (int i = 0; i < N; i++) cn_release(held[i]);
  cn_device_memory_stats s = stats();
  double ratio = (double)s.reserved[CN_MEMORY_ALL].peak / (double)s.asked[CN_MEMORY_ALL].peak;
  if (!(ratio < 1.3)) fail_msg("%.3f times of the %.0f MB in use", ratio, (double)s.asked[CN_MEMORY_ALL].peak / MB);
  assert_int_equal(s.used[CN_MEMORY_ALL].now, 0);
  assert_int_equal(cn_device_memory_trim(gpu), 0);
  assert_int_equal(counts->held, 0);
}

/* ---- the limit, and running out ---- */

static void the_limit_is_exact(void **state)
{
  (void)state;
  need_device();
  assert_int_equal(cn_device_memory_set_limit(gpu, 33 * MB), 0);
  assert_int_equal(stats().limit, 33 * MB);
  cn_tensor *most = bytes_of(32 * MB), *rest = bytes_of(MB);
  assert_int_equal(reserved(), 33 * MB);
  assert_null(cn_empty(CN_SHAPE(1), .device = gpu));
  assert_int_equal(cn_err(), CN_ERR_MEMORY);
  assert_non_null(strstr(cn_err_message(), "of at most 33.00 MiB"));
  cn_err_clear();
  cn_release(rest);
  cn_tensor *small[1024]; /* kept in one list ... */
  for (int i = 0; i < 1024; i++) small[i] = bytes_of(KB);
  for (int i = 0; i < 1024; i++) cn_release(small[i]);
  cn_release(bytes_of(MB)); /* ... they are one piece again */
  assert_int_equal(reserved(), 33 * MB);
  assert_int_equal(cn_device_memory_set_limit(gpu, 0), 0);
  cn_release(bytes_of(64 * MB));
  cn_release(most);
}

/* The error says what there is and who has it; whoever lets go of something goes on. */
static void running_out(void **state)
{
  (void)state;
  need_device();
  size_t whole = counts->memory;
  cn_scope *s = cn_scope_begin();
  cn_item(cn_sum(cn_ones(CN_SHAPE(1000), .device = gpu))); /* its kernels are loaded */
  cn_scope_end(s);
  assert_int_equal(cn_device_memory_trim(gpu), 0);
  counts->memory = 64 * MB;
  s = cn_scope_begin();
  cn_tensor *a = cn_keep(cn_zeros(CN_SHAPE(5 * MB), .device = gpu)), *b = bytes_of(24 * MB), *c = bytes_of(8 * MB);
  uint64_t failures = stats().failures;
  assert_null(cn_ones(CN_SHAPE(6 * MB), .device = gpu));
  assert_int_equal(cn_err(), CN_ERR_MEMORY);
  const char *said = cn_err_message();
  static const char *const parts[] = {"out of memory on cuda:0", "24.00 MiB wanted", "the device has 64.00 MiB",
                                      "52.00 MiB in use", "32.00 MiB by empty (2 blocks, the largest 24.00 MiB)",
                                      "20.00 MiB by "};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (!strstr(said, parts[i])) fail_msg("'%s' is not in: %s", parts[i], said);
  cn_err_clear();
  assert_int_equal(stats().failures, failures + 1);
  cn_release(b);
  cn_tensor *ones = cn_ones(CN_SHAPE(6 * MB), .device = gpu);
  fine();
  assert_float_equal(cn_item(cn_sum(cn_slice(ones, 0, 0, 1000))), 1000, 0);
  assert_float_equal(cn_item(cn_sum(cn_slice(a, 0, 0, 1000))), 0, 0);
  cn_scope_end(s);
  cn_release(a);
  cn_release(c);
  assert_int_equal(cn_device_memory_trim(gpu), 0);
  assert_int_equal(counts->held, 0);
  counts->memory = whole;
}

/* The driver itself wants memory, to load a kernel: what is kept is given up for that, too. */
static void kernels_are_loaded_when_short(void **state)
{
  (void)state;
  need_device();
  size_t whole = counts->memory;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_ones(CN_SHAPE(10), .device = gpu);
  cn_release(bytes_of(100 * MB));
  counts->memory = counts->held;
  cn_tensor *y = cn_digamma(x); /* which no test before has run */
  counts->memory = whole;
  close_to("digamma", cn_digamma(cn_ones(CN_SHAPE(10))), y, 1e-6);
  cn_scope_end(s);
}

/* What other streams keep is given back first, and what is left of their segments is used. */
static void streams_share_when_short(void **state)
{
  (void)state;
  need_device();
  size_t whole = counts->memory;
  counts->memory = 64 * MB;
  cn_stream *other = cn_stream_new(gpu, 0);
  fine();
  cn_stream_use(gpu, other);
  cn_release(bytes_of(48 * MB));
  cn_stream_use(gpu, NULL);
  cn_release(bytes_of(48 * MB)); /* the other stream's segment goes */
  assert_int_equal(reserved(), 48 * MB);
  cn_stream_use(gpu, other);
  cn_release(bytes_of(48 * MB));
  cn_tensor *corner = bytes_of(12 * MB);
  cn_stream_use(gpu, NULL);
  cn_tensor *part = bytes_of(32 * MB); /* beside it in one segment */
  assert_int_equal(reserved(), 48 * MB);
  cn_release(corner);
  cn_stream_release(other); /* its memory is the device's own stream's, and all one piece again */
  cn_release(part);
  uint64_t before = counts->allocs;
  cn_release(bytes_of(48 * MB));
  assert_int_equal(counts->allocs, before);
  counts->memory = whole;
}

/* ---- copies ---- */

/* Ordinary memory is its owner's again when the copy was queued, and nothing was waited for. */
static void copies_wait_for_nothing(void **state)
{
  (void)state;
  need_device();
  enum { N = 300, MOST = 3000000 };
  static float values[MOST];
  static const int64_t sizes[] = {1, 1000, 70000, MOST};
  counts->late = true;
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *made[N];
    int n = k == 3 ? 5 : N;
    uint64_t waits = counts->waits, bytes = counts->bytes_in, frees = counts->frees;
    for (int i = 0; i < n; i++) {
      for (int64_t j = 0; j < sizes[k]; j++) values[j] = (float)(i + 1);
      made[i] = cn_to_device(cn_from_data(values, CN_SHAPE(sizes[k]), CN_F32), gpu);
    }
    fine();
    assert_int_equal(counts->bytes_in - bytes, (uint64_t)n * (uint64_t)sizes[k] * 4);
    assert_int_equal(counts->waits, waits);
    assert_int_equal(counts->frees, frees);
    for (int i = 0; i < n; i++) {
      cn_tensor *back = cn_to_device(made[i], CN_CPU);
      const float *f = cn_data(back);
      for (int64_t j = 0; j < sizes[k]; j++)
        if (f[j] != (float)(i + 1)) fail_msg("copy %d of %lld: %g", i, (long long)sizes[k], (double)f[j]);
    }
    cn_scope_end(s);
  }
  counts->late = false;
}

/* One that is larger than all of the ring waits for its own parts; the way back is by parts, too. */
static void large_copies(void **state)
{
  (void)state;
  need_device();
  static const int64_t sizes[] = {35 << 20, 1 << 20, (1 << 20) - 1, 3 << 19, (9 << 19) + 1};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    cn_scope *s = cn_scope_begin();
    counts->late = true;
    cn_tensor *x = cn_arange(0, (double)sizes[i], .dtype = CN_I32), *y = cn_to_device(x, gpu);
    cn_tensor *back = cn_to_device(y, CN_CPU);
    counts->late = false;
    fine();
    assert_memory_equal(cn_data(x), cn_data(back), (size_t)sizes[i] * 4);
    cn_scope_end(s);
  }
}

/* Pinned memory that is given back while a copy from it is queued: nothing waits, nothing is overwritten. */
static void unpinning_waits_for_nothing(void **state)
{
  (void)state;
  need_device();
  enum { N = 40, SIZE = 100000 };
  cn_scope *s = cn_scope_begin();
  cn_stream *other = cn_stream_new(gpu, 0);
  cn_tensor *made[N];
  counts->late = true;
  uint64_t waits = counts->waits, frees = counts->host_frees;
  for (int i = 0; i < N; i++) {
    cn_scope *inner = cn_scope_begin();
    cn_stream_use(gpu, i % 3 ? other : NULL);
    made[i] = cn_keep(cn_to_device(cn_pin_memory(cn_full(CN_SHAPE(SIZE), i), gpu), gpu));
    cn_scope_end(inner);
  }
  cn_stream_use(gpu, NULL);
  fine();
  assert_int_equal(counts->waits, waits);
  for (int i = 0; i < N; i++) {
    cn_scope *inner = cn_scope_begin();
    assert_float_equal(cn_item(cn_max(cn_to_device(made[i], CN_CPU))), i, 0);
    cn_scope_end(inner);
    cn_release(made[i]);
  }
  assert_int_equal(counts->host_frees, frees);
  counts->late = false;
  cn_stream_release(other);
  cn_scope_end(s);
}

/* A write to pinned memory waits for the copies from it, and for nothing else. */
static void writes_to_pinned_memory(void **state)
{
  (void)state;
  need_device();
  cn_scope *s = cn_scope_begin();
  counts->late = true;
  cn_tensor *p = cn_pin_memory(cn_full(CN_SHAPE(1000), 1), gpu), *a = cn_to_device(p, gpu);
  uint64_t waits = counts->waits;
  cn_fill_(p, cn_num(2));
  assert_int_equal(counts->waits, waits + 1);
  cn_fill_(p, cn_num(3));
  assert_int_equal(counts->waits, waits + 1);
  assert_float_equal(cn_item(cn_max(cn_to_device(a, CN_CPU))), 1, 0);
  counts->late = false;
  fine();
  cn_scope_end(s);
}

/* ---- threads ---- */

/* Takes and gives back memory of all sizes, and copies numbers there and back: what it holds is its own. */
static void *work(void *payload)
{
  enum { N = 16 };
  cn_tensor *held[N] = {NULL};
  uint64_t number = (uint64_t)(uintptr_t)payload, random = number;
  cn_stream *stream = number % 2 ? cn_stream_new(gpu, 0) : NULL;
  const char *wrong = NULL;
  cn_stream_use(gpu, stream);
  for (int i = 0; i < 1500 && !wrong && !cn_err(); i++) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    size_t place = (size_t)(random >> 33) % N;
    int32_t value = (int32_t)(number * 100 + place), first = value;
    cn_scope *s = cn_scope_begin();
    if (held[place] && cn_numel(held[place]) && cn_to_data(&first, 4, cn_slice(held[place], 0, 0, 1))) wrong = "a copy";
    if (first != value) wrong = "a value of another thread";
    cn_release(held[place]);
    int64_t n = (int64_t)1 << (random >> 50) % 20;
    held[place] = cn_keep(cn_empty(CN_SHAPE(n), .dtype = CN_I32, .device = gpu));
    if (held[place] && cn_copy_from_data(cn_slice(held[place], 0, 0, 1), &value, 4)) wrong = "a write";
    cn_scope_end(s);
  }
  for (int i = 0; i < N; i++) cn_release(held[i]);
  cn_stream_use(gpu, NULL);
  cn_stream_release(stream);
  return (void *)(cn_err() ? "an error" : wrong);
}

static void threads_share_a_device(void **state)
{
  (void)state;
  need_device();
  enum { N = 4 };
  pthread_t threads[N];
  uint64_t before = stats().blocks[CN_MEMORY_ALL].now;
  for (int i = 0; i < N; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)(i + 1)), 0);
  for (int i = 0; i < N; i++) {
    void *said = NULL;
    pthread_join(threads[i], &said);
    if (said) fail_msg("thread %d: %s", i, (const char *)said);
  }
  assert_int_equal(stats().blocks[CN_MEMORY_ALL].now, before);
  assert_int_equal(cn_device_memory_trim(gpu), 0);
  assert_int_equal(counts->held, 0);
}

/* ---- the loader ---- */

/* Every batch is queued while the step on the one before has not been waited for. */
static void batches_come_while_steps_run(void **state)
{
  (void)state;
  need_device();
  for (int way = 0; way < 4; way++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *x = cn_arange(0, 64 * 10), *y = cn_arange(0, 64);
    cn_tensor *fields[] = {cn_reshape(cn_cast(x, CN_F32), CN_SHAPE(64, 10)), y};
    cn_loader *l = cn_loader_new(cn_dataset_tensors(fields, 2), .batch = 8, .device = gpu, .workers = way & 1,
                                 .no_pin = way >= 2);
    cn_batch b;
    cn_tensor *sum = cn_keep(cn_zeros(CN_SHAPE(1), .device = gpu));
    fine();
    uint64_t waits = counts->waits, copies = counts->copies_in;
    int n = 0;
    while (cn_loader_next(&b, l) == 1) {
      cn_scope *step = cn_scope_begin();
      cn_add_(sum, cn_sum(cn_mul(b.x, b.x)));
      cn_scope_end(step);
      n++;
      assert_int_equal(counts->copies_in - copies, 2 * n);
    }
    fine();
    assert_int_equal(n, 8);
    assert_int_equal(counts->waits, waits);
    double want = 0;
    for (int i = 0; i < 640; i++) want += (double)i * i;
    assert_float_equal(cn_item(sum), want, want * 1e-6);
    cn_release(sum);
    cn_loader_free(l);
    cn_scope_end(s);
  }
}

/* ---- recordings ---- */

static void add_one(cn_tensor *x)
{
  cn_scope *s = cn_scope_begin();
  cn_add_(x, cn_mean(cn_mul(x, cn_num(0))));
  cn_add_(x, cn_num(1));
  cn_scope_end(s);
}

/* Memory that a recording took is nobody else's, even where the device has no other. */
static void recordings_keep_their_memory(void **state)
{
  (void)state;
  need_device();
  cn_scope *s = cn_scope_begin();
  size_t whole = counts->memory;
  cn_tensor *x = cn_zeros(CN_SHAPE(1 << 20), .device = gpu);
  add_one(x);
  fine();
  assert_int_equal(cn_device_memory_trim(gpu), 0);
  uint64_t before = stats().used[CN_MEMORY_ALL].now;
  cn_recording_pool *pool = cn_recording_pool_new(gpu);
  cn_recording *r = cn_recording_begin(pool);
  assert_non_null(r);
  add_one(x);
  assert_int_equal(cn_recording_end(r), 0);
  assert_int_equal(cn_device_memory_trim(gpu), 0);
  counts->memory = counts->held + 4 * MB;
  assert_null(cn_zeros(CN_SHAPE(8 * MB), .device = gpu));
  assert_int_equal(cn_err(), CN_ERR_MEMORY);
  cn_err_clear();
  for (int i = 0; i < 3; i++) {
    cn_scope *step = cn_scope_begin();
    cn_full(CN_SHAPE(MB), 77, .device = gpu);
    assert_int_equal(cn_recording_replay(r), 0);
    cn_scope_end(step);
  }
  counts->memory = whole;
  cn_scope *inner = cn_scope_begin();
  assert_float_equal(cn_item(cn_max(x)), 4, 0);
  assert_float_equal(cn_item(cn_min(x)), 4, 0);
  cn_scope_end(inner);
  cn_recording_free(r);
  cn_recording_pool_free(pool);
  assert_int_equal(stats().used[CN_MEMORY_ALL].now, before);
  cn_scope_end(s);
}

/* ---- what happened ---- */

typedef struct seen {
  int n, of[CN_MEMORY_OUT + 1];
  uint64_t held, last;
} seen;

static void see(const cn_memory_event *e, void *payload)
{
  seen *s = payload;
  s->n++;
  s->of[e->action]++;
  s->held += e->action == CN_MEMORY_TAKEN ? e->bytes : e->action == CN_MEMORY_GIVEN ? -e->bytes : 0;
  assert_true(e->microseconds >= s->last);
  s->last = e->microseconds;
  if (e->action == CN_MEMORY_TAKEN) assert_string_equal(e->op, "empty");
}
static seen events(void)
{
  seen s = {0};
  assert_int_equal(cn_device_memory_events(see, &s, gpu), 0);
  return s;
}

static void events_are_kept(void **state)
{
  (void)state;
  need_device();
  cn_release(bytes_of(KB));
  assert_int_equal(events().n, 0); /* nobody asked */
  assert_int_equal(cn_device_memory_trim(gpu), 0);
  assert_int_equal(cn_device_memory_record(gpu, 1000), 0);
  cn_tensor *a = bytes_of(30 * MB), *b = bytes_of(5 * KB);
  seen s = events();
  assert_int_equal(s.of[CN_MEMORY_TAKEN], 2);
  assert_int_equal(s.of[CN_MEMORY_SEGMENT_TAKEN], 2);
  assert_int_equal(s.held, 30 * MB + 5 * KB);
  cn_release(a);
  cn_release(b);
  assert_int_equal(cn_device_memory_trim(gpu), 0);
  s = events();
  assert_int_equal(s.held, 0);
  assert_int_equal(s.of[CN_MEMORY_GIVEN], 2);
  assert_int_equal(s.of[CN_MEMORY_SEGMENT_GIVEN], 2);
  size_t whole = counts->memory;
  counts->memory = counts->held + MB;
  assert_null(cn_empty(CN_SHAPE(8 * MB), .dtype = CN_U8, .device = gpu));
  cn_err_clear();
  counts->memory = whole;
  assert_int_equal(events().of[CN_MEMORY_OUT], 1);
  for (int most = 1; most <= 700; most += 233) { /* a ring that grows, and goes round */
    assert_int_equal(cn_device_memory_record(gpu, (size_t)most), 0);
    for (int i = 0; i < 400; i++) cn_release(bytes_of(KB));
    assert_int_equal(events().n, most);
  }
  assert_int_equal(cn_device_memory_record(gpu, 0), 0);
  cn_release(bytes_of(KB));
  assert_int_equal(events().n, 0);
  assert_true(cn_device_memory_record(CN_CPU, 1) != 0);
  cn_err_clear();
}

int main(int argc, char **argv)
{
  if (argc > 0) emulate(argv);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(blocks_are_used_again, begin),
      cmocka_unit_test_setup(large_blocks_are_cut_and_joined, begin),
      cmocka_unit_test_setup(large_segments_stay_whole, begin),
      cmocka_unit_test_setup(small_blocks_are_joined, begin),
      cmocka_unit_test_setup(changing_sizes, begin),
      cmocka_unit_test_setup(the_limit_is_exact, begin),
      cmocka_unit_test_setup(running_out, begin),
      cmocka_unit_test_setup(kernels_are_loaded_when_short, begin),
      cmocka_unit_test_setup(streams_share_when_short, begin),
      cmocka_unit_test_setup(copies_wait_for_nothing, begin),
      cmocka_unit_test_setup(large_copies, begin),
      cmocka_unit_test_setup(unpinning_waits_for_nothing, begin),
      cmocka_unit_test_setup(writes_to_pinned_memory, begin),
      cmocka_unit_test_setup(threads_share_a_device, begin),
      cmocka_unit_test_setup(batches_come_while_steps_run, begin),
      cmocka_unit_test_setup(recordings_keep_their_memory, begin),
      cmocka_unit_test_setup(events_are_kept, begin),
  };
  return cmocka_run_group_tests(tests, find_emulated, NULL);
}
