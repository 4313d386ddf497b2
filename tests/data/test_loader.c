/* test_loader.c: loaders: the same batches on any number of threads, errors, stopping, going on, forks, samplers. */
#define _POSIX_C_SOURCE 200809L
#include <cairn/cairn.h>
#include <cairn/data.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backends/mirror/mirror.h"
#include "test.h"

/* Samples whose making takes a time of its own, with draws in them; some may fail. */
typedef struct slow {
  int64_t n, bad;
} slow;

static int64_t slow_length(void *data) { return ((slow *)data)->n; }

static int slow_get(cn_sample *sample, void *data, int64_t index, cn_draws *draws)
{
  slow *s = data;
  struct timespec pause = {0, (long)(index * 7919 % 5) * 50000};
  if (index == s->bad) return cn_err_set(CN_ERR_IO, "the file of %lld is gone", (long long)index);
  nanosleep(&pause, NULL);
  double v[2] = {(double)index, cn_draw_uniform(draws)};
  cn_tensor *x = cn_from_data(v, CN_SHAPE(2), CN_F64), *y = cn_from_data(&index, CN_SCALAR_SHAPE, CN_I64);
  *sample = (cn_sample){.v = {cn_keep(x), cn_keep(y)}, .n = 2};
  return 0;
}

static const cn_dataset_class slow_class = {.size = sizeof(cn_dataset_class), .name = "slow", .length = slow_length,
  .get = slow_get};

static cn_dataset *slow_set(slow *s) { return cn_dataset_new(&slow_class, s); }

enum { ROOM = 4096 };
/* Everything an epoch gives, as numbers. */
typedef struct trace {
  double v[ROOM];
  int n, batches;
} trace;

static void put_batch(trace *t, const cn_batch *b)
{
  for (int64_t i = 0; i < b->size && t->n + 2 <= ROOM; i++) {
    t->v[t->n++] = ((const double *)cn_data(b->x))[2 * i];
    t->v[t->n++] = ((const double *)cn_data(b->x))[2 * i + 1];
    assert_int_equal(((const int64_t *)cn_data(b->y))[i], (int64_t)t->v[t->n - 2]);
  }
  t->batches++;
}

static void run_epoch(trace *t, cn_loader *l)
{
  cn_batch b;
  int status;
  *t = (trace){.n = 0};
  while ((status = cn_loader_next(&b, l)) == 1) {
    assert_int_equal(b.number, t->batches);
    put_batch(t, &b);
  }
  assert_int_equal(status, 0);
}

static void same_on_any_number_of_threads(void **state)
{
  (void)state;
  static trace first[2], t;
  slow s = {.n = 103, .bad = -1};
  for (int workers = 0; workers <= 5; workers++) {
    cn_loader *l = cn_loader_new(slow_set(&s), .batch = 8, .shuffle = true, .workers = workers, .seed = 42,
                                 .prefetch = 1 + workers % 3);
    assert_non_null(l);
    assert_int_equal(cn_loader_length(l), 13);
    for (int epoch = 0; epoch < 2; epoch++) {
      assert_int_equal(cn_loader_epoch(l), epoch);
      run_epoch(&t, l);
      assert_int_equal(t.n, 206);
      if (!workers) first[epoch] = t;
      assert_memory_equal(t.v, first[epoch].v, sizeof t.v);
    }
    cn_loader_free(l);
  }
  assert_true(memcmp(first[0].v, first[1].v, sizeof first[0].v) != 0); /* another order each epoch */
  int seen[103] = {0};
  for (int i = 0; i < 206; i += 2) seen[(int)first[0].v[i]]++;
  for (int i = 0; i < 103; i++) assert_int_equal(seen[i], 1);
}

static void drops_the_last(void **state)
{
  (void)state;
  static trace t;
  slow s = {.n = 10, .bad = -1};
  cn_loader *l = cn_loader_new(slow_set(&s), .batch = 4, .drop_last = true, .workers = 2);
  run_epoch(&t, l);
  assert_int_equal(t.batches, 2);
  assert_int_equal(t.n, 16);
  cn_loader_free(l);
  l = cn_loader_new(slow_set(&s), .batch = 100);
  run_epoch(&t, l);
  assert_int_equal(t.batches, 1);
  cn_loader_free(l);
  slow none = {.n = 0, .bad = -1};
  l = cn_loader_new(slow_set(&none), .workers = 1);
  run_epoch(&t, l);
  assert_int_equal(t.batches, 0);
  cn_loader_free(l);
}

static void errors_name_the_sample(void **state)
{
  (void)state;
  slow s = {.n = 40, .bad = 21};
  for (int workers = 0; workers < 4; workers++) {
    cn_loader *l = cn_loader_new(slow_set(&s), .batch = 4, .workers = workers);
    cn_batch b;
    int good = 0, bad = 0, status;
    while ((status = cn_loader_next(&b, l)) != 0) {
      if (status == 1) {
        good++;
        continue;
      }
      bad++;
      assert_int_equal(status, CN_ERR_IO);
      assert_non_null(strstr(cn_err_message(), "sample 21"));
      assert_non_null(strstr(cn_err_message(), "the file of 21 is gone"));
      cn_err_clear();
    }
    assert_int_equal(good, 9);
    assert_int_equal(bad, 1);
    cn_loader_free(l);
  }
}

static void stops_and_restarts(void **state)
{
  (void)state;
  static trace whole, t;
  slow s = {.n = 60, .bad = -1};
  cn_loader *l = cn_loader_new(slow_set(&s), .batch = 5, .shuffle = true, .workers = 3, .seed = 9);
  cn_batch b;
  run_epoch(&whole, l);
  for (int round = 0; round < 6; round++) {
    cn_loader_restart(l, 0);
    for (int i = 0; i < round * 2; i++) assert_int_equal(cn_loader_next(&b, l), 1);
  }
  cn_loader_restart(l, 0);
  run_epoch(&t, l);
  assert_memory_equal(t.v, whole.v, sizeof t.v);
  assert_int_equal(cn_loader_next(&b, l), 1); /* freed in the middle of an epoch, with batches under way */
  cn_loader_free(l);
}

static void goes_on_exactly(void **state)
{
  (void)state;
  static trace whole[2], t;
  slow s = {.n = 50, .bad = -1};
  for (int workers = 0; workers < 3; workers += 2)
    for (int stop = 0; stop <= 8; stop++) {
      cn_batch b;
      cn_loader *l = cn_loader_new(slow_set(&s), .batch = 7, .shuffle = true, .workers = workers, .seed = 77);
      run_epoch(&whole[0], l);
      run_epoch(&whole[1], l);
      cn_loader_restart(l, 0);
      t = (trace){.n = 0};
      for (int i = 0; i < stop; i++) {
        assert_int_equal(cn_loader_next(&b, l), 1);
        put_batch(&t, &b);
      }
      cn_tree *where = cn_loader_state(l);
      cn_loader_free(l);
      char *text = cn_tree_to_json(where, 0);
      cn_tree_free(where);
      where = cn_tree_from_json(text, strlen(text));
      cn_string_free(text);
      l = cn_loader_new(slow_set(&s), .batch = 7, .shuffle = true, .workers = 2 - workers);
      assert_int_equal(cn_loader_load(l, where), 0);
      cn_tree_free(where);
      while (cn_loader_next(&b, l) == 1) put_batch(&t, &b);
      assert_memory_equal(t.v, whole[0].v, sizeof t.v);
      run_epoch(&t, l);
      assert_memory_equal(t.v, whole[1].v, sizeof t.v);
      cn_loader_free(l);
    }
  cn_loader *l = cn_loader_new(slow_set(&s), .batch = 7);
  cn_tree *bad = cn_tree_dict();
  assert_int_equal(cn_loader_load(l, bad), CN_ERR_VALUE);
  cn_err_clear();
  cn_tree_free(bad);
  cn_loader_free(l);
}

static void seeds_come_from_the_thread(void **state)
{
  (void)state;
  static trace a, b;
  slow s = {.n = 30, .bad = -1};
  for (int round = 0; round < 2; round++) {
    cn_seed(5);
    cn_loader *l = cn_loader_new(slow_set(&s), .batch = 30, .shuffle = true);
    cn_loader *other = cn_loader_new(slow_set(&s), .batch = 30, .shuffle = true);
    run_epoch(round ? &b : &a, l);
    static trace c;
    run_epoch(&c, other);
    assert_true(memcmp(c.v, a.v, sizeof c.v) != 0);
    cn_loader_free(l), cn_loader_free(other);
  }
  assert_memory_equal(a.v, b.v, sizeof a.v);
}

static void goes_on_in_a_forked_child(void **state)
{
  (void)state;
  if (UNDER_TSAN) SKIP_TEST("the thread sanitizer cannot follow a fork");
  static trace whole, t;
  slow s = {.n = 40, .bad = -1};
  cn_loader *l = cn_loader_new(slow_set(&s), .batch = 4, .shuffle = true, .workers = 2, .seed = 3);
  cn_batch b;
  run_epoch(&whole, l);
  cn_loader_restart(l, 0);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(cn_loader_next(&b, l), 1);
    put_batch(&t, &b);
  }
  fflush(NULL);
  pid_t child = fork();
  if (!child) {
    while (cn_loader_next(&b, l) == 1) put_batch(&t, &b);
    bool same = !memcmp(t.v, whole.v, sizeof t.v);
    cn_loader_free(l);
    _exit(same ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
  while (cn_loader_next(&b, l) == 1) put_batch(&t, &b); /* the parent is not disturbed */
  assert_memory_equal(t.v, whole.v, sizeof t.v);
  cn_loader_free(l);
}

/* ---- putting samples together ---- */

static int64_t ragged_length(void *data)
{
  (void)data;
  return 5;
}

static int ragged_get(cn_sample *sample, void *data, int64_t index, cn_draws *draws)
{
  (void)data, (void)draws;
  *sample = (cn_sample){.v = {cn_keep(cn_full(CN_SHAPE(index + 1, 2), (double)index))}, .n = 1};
  return 0;
}

static const cn_dataset_class ragged_class = {.size = sizeof(cn_dataset_class), .name = "ragged",
  .length = ragged_length, .get = ragged_get};

static void pads_to_the_longest(void **state)
{
  (void)state;
  double mark = -1;
  cn_batch b;
  cn_loader *l = cn_loader_new(cn_dataset_new(&ragged_class, NULL), .batch = 3, .workers = 1, .collate = cn_collate_pad,
                               .payload = &mark);
  assert_int_equal(cn_loader_next(&b, l), 1);
  assert_int_equal(b.n, 2);
  assert_int_equal(cn_size(b.x, 1), 3);
  const float expected[] = {0, 0, -1, -1, -1, -1, 1, 1, 1, 1, -1, -1, 2, 2, 2, 2, 2, 2};
  assert_memory_equal(cn_data(b.x), expected, sizeof expected);
  assert_memory_equal(cn_data(b.y), ((const int64_t[]){1, 2, 3}), 24);
  cn_loader_free(l);
  l = cn_loader_new(cn_dataset_new(&ragged_class, NULL), .batch = 3);
  assert_int_equal(cn_loader_next(&b, l), CN_ERR_SHAPE);
  assert_non_null(strstr(cn_err_message(), "(1, 2)"));
  assert_non_null(strstr(cn_err_message(), "sample 1"));
  cn_err_clear();
  cn_loader_free(l);
}

static void rows_come_in_one_piece(void **state)
{
  (void)state;
  cn_batch b;
  cn_loader *l = cn_loader_new(cn_dataset_range(cn_digits(CN_TRAIN), 10, 20), .batch = 4, .shuffle = true, .seed = 1,
                               .workers = 1);
  int64_t total = 0;
  while (cn_loader_next(&b, l) == 1) {
    assert_int_equal(cn_ndim(b.x), 4);
    assert_true(cn_is_contiguous(b.x));
    assert_int_equal(cn_dtype_of(b.y), CN_I64);
    total += b.size;
  }
  assert_int_equal(total, 10);
  cn_loader_free(l);
}

static void batches_go_to_the_device(void **state)
{
  (void)state;
  cn_device mirror = cn_device_find("mirror:0");
  if (!mirror || cn_err()) {
    cn_err_clear();
    SKIP_TEST("there is no mirror device");
  }
  cn_batch b;
  cn_loader *l = cn_loader_new(cn_digits(CN_TEST), .batch = 64, .workers = 1, .device = mirror);
  assert_int_equal(cn_loader_next(&b, l), 1);
  assert_int_equal(cn_device_of(b.x), mirror);
  assert_int_equal(cn_device_of(b.y), mirror);
  cn_loader_free(l);
}

/* An epoch on the mirror device equals the one on the CPU; how many copies came from pinned memory. */
static size_t pinned_epoch(const trace *here, int workers, bool no_pin, cn_device mirror)
{
  static trace t;
  slow s = {.n = 53, .bad = -1};
  size_t blocks, before, after;
  cni_mirror_pinned(&blocks, &before);
  assert_int_equal(blocks, 0);
  cn_loader *l = cn_loader_new(slow_set(&s), .batch = 8, .shuffle = true, .seed = 6, .workers = workers,
                               .device = mirror, .no_pin = no_pin);
  cn_batch b;
  t = (trace){.n = 0};
  while (cn_loader_next(&b, l) == 1) {
    assert_int_equal(cn_device_of(b.x), mirror);
    cn_scope *scope = cn_scope_begin();
    cn_batch back = b;
    back.x = cn_to_device(b.x, CN_CPU);
    back.y = cn_to_device(b.y, CN_CPU);
    put_batch(&t, &back);
    cn_scope_end(scope);
  }
  assert_int_equal(cn_err(), 0);
  assert_int_equal(t.batches, 7);
  assert_memory_equal(t.v, here->v, sizeof t.v);
  assert_int_equal(cn_loader_next(&b, l), 1); /* stopped with batches made ahead, which lie in pinned memory */
  cn_loader_free(l);
  cni_mirror_pinned(&blocks, &after);
  assert_int_equal(blocks, 0);
  return after - before;
}

static void batches_are_pinned(void **state)
{
  (void)state;
  static trace here;
  cn_device mirror = cn_device_find("mirror:0");
  slow s = {.n = 53, .bad = -1};
  cn_loader *l = cn_loader_new(slow_set(&s), .batch = 8, .shuffle = true, .seed = 6);
  run_epoch(&here, l);
  cn_loader_free(l);
  for (int workers = 0; workers <= 3; workers += 3) {
    assert_int_equal(pinned_epoch(&here, workers, false, mirror), 8 * 2); /* batches, of two fields */
    assert_int_equal(pinned_epoch(&here, workers, true, mirror), 0);
    cni_mirror_pinned_limit(0); /* none to be had: ordinary memory, and no error */
    assert_int_equal(pinned_epoch(&here, workers, false, mirror), 0);
    cni_mirror_pinned_limit(SIZE_MAX);
  }
}

/* ---- samplers ---- */

static void weights_are_kept(void **state)
{
  (void)state;
  const double weights[] = {0, 1, 2, 0, 5};
  cn_sampler with = cn_sampler_weighted(weights, 5, 8000, true);
  int64_t *drawn = calloc(8000, sizeof *drawn), few[3];
  int counts[5] = {0};
  assert_int_equal(with.order(drawn, with.data, 1, 0), 0);
  for (int i = 0; i < 8000; i++) counts[drawn[i]]++;
  assert_int_equal(counts[0] + counts[3], 0);
  assert_in_range(counts[1], 900, 1100);
  assert_in_range(counts[2], 1850, 2150);
  with.free(with.data);
  free(drawn);
  cn_sampler without = cn_sampler_weighted(weights, 5, 3, false);
  int first[5] = {0};
  for (int epoch = 0; epoch < 2000; epoch++) {
    assert_int_equal(without.order(few, without.data, 1, epoch), 0);
    assert_true(few[0] != few[1] && few[1] != few[2] && few[0] != few[2]);
    first[few[0]]++;
  }
  assert_in_range(first[4], 1150, 1350); /* 5 / 8 */
  without.free(without.data);
  cn_sampler bad = cn_sampler_weighted(weights, 5, 4, false);
  assert_int_equal(cn_err(), CN_ERR_VALUE);
  cn_err_clear();
  assert_null(bad.data);
}

static void shards_cover_all(void **state)
{
  (void)state;
  int seen[10] = {0};
  for (int rank = 0; rank < 4; rank++) {
    cn_sampler s = cn_sampler_shard(10, rank, 4, true);
    cn_loader *l = cn_loader_new(cn_dataset_range(cn_digits(CN_TEST), 0, 10), .batch = 3, .sampler = &s, .seed = 6);
    assert_int_equal(cn_loader_length(l), 1);
    int64_t order[3];
    assert_int_equal(s.order(order, s.data, 6, 0), 0);
    for (int i = 0; i < 3; i++) seen[order[i]]++;
    cn_loader_free(l);
  }
  int twice = 0;
  for (int i = 0; i < 10; i++) {
    assert_in_range(seen[i], 1, 2);
    twice += seen[i] == 2;
  }
  assert_int_equal(twice, 2);
}

static int wrong_order(int64_t *indices, void *data, uint64_t seed, int64_t epoch)
{
  (void)data, (void)seed, (void)epoch;
  for (int i = 0; i < 5; i++) indices[i] = i * 3;
  return 0;
}

static void bad_use_is_refused(void **state)
{
  (void)state;
  cn_batch b;
  cn_sampler wrong = {ragged_length, wrong_order, NULL, NULL};
  cn_loader *l = cn_loader_new(cn_dataset_range(cn_digits(CN_TEST), 0, 10), .sampler = &wrong);
  assert_int_equal(cn_loader_next(&b, l), CN_ERR_INDEX);
  cn_err_clear();
  cn_loader_free(l);
  assert_null(cn_loader_new(cn_digits(CN_TEST), .batch = -1));
  cn_err_clear();
  assert_null(cn_loader_new(cn_digits(CN_TEST), .workers = -1));
  cn_err_clear();
  assert_null(cn_loader_new(cn_digits(CN_TEST), .sampler = &wrong, .shuffle = true));
  cn_err_clear();
  assert_null(cn_loader_new(slow_set(&(slow){.n = INT64_MAX})));
  cn_err_clear();
  assert_null(cn_loader_new(slow_set(&(slow){.n = -1})));
  cn_err_clear();
  assert_null(cn_loader_new(NULL));
  cn_err_clear();
  assert_int_equal(cn_loader_next(&b, NULL), CN_ERR_TYPE);
  cn_err_clear();
  assert_int_equal(cn_loader_restart(NULL, 0), CN_ERR_TYPE);
  cn_err_clear();
  assert_int_equal(cn_loader_load(NULL, NULL), CN_ERR_TYPE);
  cn_err_clear();
  assert_null(cn_loader_state(NULL));
  assert_int_equal(cn_err(), CN_ERR_TYPE);
  cn_err_clear();
}

static void survives_no_memory(void **state)
{
  (void)state;
  for (uint64_t k = 1; k < 300; k++) {
    cn_batch b;
    cn_memory_set_caching(false);
    cn_memory_fail_at(k);
    slow s = {.n = 20, .bad = -1};
    cn_loader *l = cn_loader_new(slow_set(&s), .batch = 6, .shuffle = true, .seed = 4, .workers = (int)(k % 2));
    int status = l ? cn_loader_next(&b, l) : -1;
    cn_memory_fail_at(0);
    cn_err_clear();
    int later = 0; /* a batch that was made ahead may have failed too */
    for (int i = 0; l && i < 3 && later != 1; i++, cn_err_clear()) later = cn_loader_next(&b, l);
    if (l) assert_int_equal(later, 1);
    cn_loader_free(l);
    if (status == 1 && k > 80) break;
  }
  cn_memory_set_caching(true);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(same_on_any_number_of_threads), cmocka_unit_test(drops_the_last),
    cmocka_unit_test(errors_name_the_sample),        cmocka_unit_test(stops_and_restarts),
    cmocka_unit_test(goes_on_exactly),               cmocka_unit_test(seeds_come_from_the_thread),
    cmocka_unit_test(goes_on_in_a_forked_child),     cmocka_unit_test(pads_to_the_longest),
    cmocka_unit_test(rows_come_in_one_piece),        cmocka_unit_test(weights_are_kept),
    cmocka_unit_test(batches_go_to_the_device),      cmocka_unit_test(batches_are_pinned),
    cmocka_unit_test(shards_cover_all),              cmocka_unit_test(bad_use_is_refused),
    cmocka_unit_test(survives_no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
