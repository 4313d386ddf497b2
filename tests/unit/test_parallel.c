/* test_parallel.c: the parallel-for seam: every index once, errors reach the caller, nesting, several callers, and a
 * process that forks after a parallel region. */
#define _POSIX_C_SOURCE 200809L
#include <cairn/cairn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/parallel.h"
#include "test.h"

enum { MOST = 20000 };

typedef struct counts {
  _Atomic int seen[MOST];
  _Atomic int64_t smallest;
} counts;

static void count_range(int64_t begin, int64_t end, void *payload)
{
  counts *c = payload;
  int64_t length = end - begin;
  for (int64_t i = begin; i < end; i++) atomic_fetch_add(&c->seen[i], 1);
  int64_t least = atomic_load(&c->smallest);
  while (length < least && !atomic_compare_exchange_weak(&c->smallest, &least, length)) {}
}

static void check_once(int64_t n, int64_t grain)
{
  static counts c;
  memset(&c, 0, sizeof c);
  atomic_store(&c.smallest, INT64_MAX);
  cni_parallel_for(n, grain, count_range, &c);
  for (int64_t i = 0; i < MOST; i++)
    if (atomic_load(&c.seen[i]) != (i < n))
      fail_msg("n %d grain %d: index %d seen %d times", (int)n, (int)grain, (int)i, atomic_load(&c.seen[i]));
}

static void every_index_once(void **state)
{
  (void)state;
  const int64_t sizes[] = {0, 1, 2, 3, 7, 64, 100, 1023, 4096, MOST}, grains[] = {-1, 0, 1, 2, 5, 64, 1000, 1 << 20};
  for (int threads = 1; threads <= 5; threads++) {
    assert_int_equal(cn_set_num_threads(threads), CN_OK);
    assert_int_equal(cn_num_threads(), threads);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
      for (size_t k = 0; k < sizeof grains / sizeof *grains; k++) check_once(sizes[i], grains[k]);
  }
  cn_set_num_threads(0);
  assert_true(cn_num_threads() >= 1);
  check_once(-5, 1);
}

static void fail_in_the_middle(int64_t begin, int64_t end, void *payload)
{
  int64_t at = *(int64_t *)payload;
  if (at >= begin && at < end) cn_err_set(CN_ERR_VALUE, "at %d", (int)at);
}

static void errors_reach_the_caller(void **state)
{
  (void)state;
  cn_set_num_threads(4);
  for (int64_t at = 0; at < 1000; at += 37) {
    cni_parallel_for(1000, 10, fail_in_the_middle, &at);
    assert_int_equal(cn_err(), CN_ERR_VALUE);
    cn_err_clear();
    int64_t nowhere = -1;
    cni_parallel_for(1000, 10, fail_in_the_middle, &nowhere); /* no worker remembers the old error */
    assert_int_equal(cn_err(), 0);
  }
  cn_set_num_threads(0);
}

static void add_ranges(int64_t begin, int64_t end, void *payload)
{
  atomic_fetch_add((_Atomic int64_t *)payload, (end - begin) * (begin + end - 1) / 2);
}

static void nest(int64_t begin, int64_t end, void *payload)
{
  for (int64_t i = begin; i < end; i++) cni_parallel_for(100, 1, add_ranges, payload);
}

static void regions_nest(void **state)
{
  (void)state;
  _Atomic int64_t sum = 0;
  cn_set_num_threads(3);
  cni_parallel_for(50, 1, nest, &sum);
  assert_int_equal(atomic_load(&sum), 50 * 4950);
  cn_set_num_threads(0);
}

static void *call_often(void *unused)
{
  (void)unused;
  for (int i = 0; i < 200; i++) {
    _Atomic int64_t sum = 0;
    cni_parallel_for(1000, 10, add_ranges, &sum);
    if (atomic_load(&sum) != 499500) return "wrong sum";
  }
  return NULL;
}

static void several_threads_call(void **state)
{
  (void)state;
  pthread_t threads[4];
  cn_set_num_threads(3);
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, call_often, NULL), 0);
  for (int i = 0; i < 4; i++) {
    void *problem;
    pthread_join(threads[i], &problem);
    assert_null(problem);
  }
  cn_set_num_threads(0);
}

/* ---- several regions at once ---- */

typedef struct meeting {
  _Atomic int here, wanted; /* threads that have come, and that are waited for */
  _Atomic int most;         /* that were inside at once */
} meeting;

/* Every piece waits until all threads have one. */
static void meet(int64_t begin, int64_t end, void *payload)
{
  meeting *m = payload;
  (void)begin, (void)end;
  int n = atomic_fetch_add(&m->here, 1) + 1, most = atomic_load(&m->most);
  while (n > most && !atomic_compare_exchange_weak(&m->most, &most, n)) {}
  while (atomic_load(&m->most) < atomic_load(&m->wanted)) {}
  atomic_fetch_sub(&m->here, 1);
}

static void *meet_others(void *payload)
{
  cn_limits *two = cn_limits_begin_with(&(cn_limits_opts){.size = sizeof(cn_limits_opts), .threads = 2});
  cni_parallel_for(8, 1, meet, payload);
  cn_limits_end(two);
  return two ? NULL : "no limits";
}

/* Two callers with two threads each have four inside at the same time: a worker of their own for both. */
static void regions_share_the_workers(void **state)
{
  (void)state;
  meeting m = {.wanted = 4};
  pthread_t threads[2];
  void *problem;
  cn_set_num_threads(4);
  alarm(60); /* one region at a time would wait for the other for ever */
  for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, meet_others, &m), 0);
  for (int i = 0; i < 2; i++) {
    pthread_join(threads[i], &problem);
    assert_null(problem);
  }
  alarm(0);
  assert_int_equal(atomic_load(&m.most), 4);
  cn_set_num_threads(0);
}

static void a_region_keeps_its_budget(void **state)
{
  (void)state;
  cn_set_num_threads(6);
  for (int threads = 1; threads <= 4; threads++) {
    meeting m = {.wanted = 0};
    cn_limits *l = cn_limits_begin_with(&(cn_limits_opts){.size = sizeof(cn_limits_opts), .threads = threads});
    for (int i = 0; i < 200; i++) cni_parallel_for(64, 1, meet, &m);
    cn_limits_end(l);
    assert_in_range(atomic_load(&m.most), 1, threads);
  }
  cn_set_num_threads(0);
}

/* Large enough to be split, and a matrix product for the maths library's own threads. */
static double work(void)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_ones(CN_SHAPE(400, 400));
  double sum = cn_item(cn_sum(cn_exp(cn_mul(x, cn_num(0))))) + cn_item(cn_sum(cn_mm(x, x)));
  cn_scope_end(s);
  return cn_err() ? -1 : sum;
}

enum { LARGE = 1 << 20 };
static _Atomic bool enough;

static void *take_large_blocks(void *unused)
{
  while (!atomic_load(&enough)) cni_free(cni_alloc(LARGE), LARGE);
  return unused;
}

/* A child has the locks of threads that it does not have: they must be free. */
static void children_of_a_process_that_allocates(void)
{
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, take_large_blocks, NULL), 0);
  for (int round = 0; round < 200; round++) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
      alarm(60);
      _exit(cni_alloc(LARGE) ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
  }
  atomic_store(&enough, true);
  pthread_join(thread, NULL);
}

static void forked_children_work(void **state)
{
  (void)state;
  if (UNDER_TSAN) SKIP_TEST("the thread sanitizer cannot follow a fork");
  SKIP_IF_EMULATED();
  cn_set_num_threads(3);
  double expected = work();
  assert_float_equal(expected, 160000 + 160000.0 * 400, 0);
  for (int round = 0; round < 3; round++) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
      alarm(60); /* a child that hangs is a failure, not a hang of the tests */
      _exit(work() == expected && work() == expected ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status)) fail_msg("the child was ended by signal %d", WTERMSIG(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_float_equal(work(), expected, 0); /* and the parent's own pool still works */
  }
  children_of_a_process_that_allocates();
  cn_set_num_threads(0);
}

/* ---- tensors shared between threads: read by all, one state each ---- */

typedef struct shared {
  cn_tensor *x, *w;
  double sum;
} shared;

static void *read_shared(void *payload)
{
  const shared *s = payload;
  for (int i = 0; i < 50; i++) {
    cn_scope *scope = cn_scope_begin();
    cn_tensor *w = cn_requires_grad(cn_detach(s->w), true);
    cn_tensor *y = cn_sum(cn_mul(cn_transpose(s->x, 0, 1), w));
    cn_tensor *kept = cn_keep(s->x);
    bool fine = cn_item(y) == s->sum && cn_backward(y) == CN_OK && cn_item(cn_sum(cn_grad_of(w))) == 300;
    cn_release(kept);
    cn_scope_end(scope);
    if (!fine) return "wrong result";
  }
  return NULL;
}

static void tensors_are_shared_for_reading(void **state)
{
  (void)state;
  pthread_t threads[4];
  cn_scope *scope = cn_scope_begin();
  shared s = {cn_full(CN_SHAPE(10, 20), 1.5), cn_full(CN_SHAPE(20, 10), 2), 600};
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, read_shared, &s), 0);
  for (int i = 0; i < 4; i++) {
    void *problem;
    pthread_join(threads[i], &problem);
    assert_null(problem);
  }
  cn_scope_end(scope);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_index_once),     cmocka_unit_test(errors_reach_the_caller),
    cmocka_unit_test(regions_nest),         cmocka_unit_test(several_threads_call),
      cmocka_unit_test(regions_share_the_workers),
      cmocka_unit_test(a_region_keeps_its_budget),
    cmocka_unit_test(forked_children_work), cmocka_unit_test(tensors_are_shared_for_reading),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
