/* test_pairs.c: work that goes on beside a graph: one call of the host begins it, a later one waits for it. Both keep
 * their places, nodes between them run meanwhile, and memory that both are given stays as it is until the second. */
#include <cairn/cairn.h>
#include <cairn/control.h>
#include <pthread.h>
#include <semaphore.h>

#include "test.h"

enum { N = 64 };
typedef struct job {
  pthread_t thread;
  sem_t go;          /* the work reads its input only then: late, when memory that is free has another owner */
  const float *from;
  double sum;
  int begun, done;
} job;

static void *work(void *arg)
{
  job *j = arg;
  sem_wait(&j->go);
  for (int i = 0; i < N; i++) j->sum += (double)j->from[i] * j->from[i];
  return NULL;
}

static int begin(cn_tensor *const *out, size_t nout, cn_tensor *const *in, size_t nin, void *payload)
{
  job *j = payload;
  (void)nout, (void)nin;
  assert_int_equal(j->begun++, j->done); /* never two at once */
  j->from = cn_data(in[0]);
  j->sum = 0;
  *(float *)cn_data(out[0]) = (float)j->begun;
  return pthread_create(&j->thread, NULL, work, j);
}

static int finish(cn_tensor *const *out, size_t nout, cn_tensor *const *in, size_t nin, void *payload)
{
  job *j = payload;
  (void)nout, (void)nin;
  assert_float_equal(cn_item(in[0]), j->begun, 0);
  sem_post(&j->go);
  pthread_join(j->thread, NULL);
  j->done++;
  *(float *)cn_data(out[0]) = (float)j->sum;
  return 0;
}

/* (sum of (2 x)^2 by the thread, a chain of other values meanwhile) */
static int both(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  const cn_host_result one = {.dtype = CN_F32, .ndim = 0};
  cn_tensor *twice = cn_mul(in[0], cn_num(2)), *other = in[0], *token, *given[2];
  cn_host_call(&token, &one, 1, &twice, 1, begin, payload);
  for (int i = 0; i < 6; i++) other = cn_matmul(cn_sin(other), cn_cos(other));
  given[0] = token;
  given[1] = twice;
  cn_host_call(&out[0], &one, 1, given, 2, finish, payload);
  out[1] = cn_sum(other);
  return cn_err();
}

static void work_goes_on_between_two_calls(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  job j = {0};
  sem_init(&j.go, 0, 0);
  cn_seed(1);
  cn_tensor *x = cn_randn(CN_SHAPE(8, 8)), *want[2], *have[2];
  assert_int_equal(both(want, &x, &j), 0);
  cn_graph *g = cn_trace(both, 2, &x, 1, &j);
  if (!g) fail_msg("%s", cn_err_message());
  for (int i = 0; i < 5; i++) {
    x = cn_randn(CN_SHAPE(8, 8));
    assert_int_equal(both(want, &x, &j), 0);
    assert_int_equal(cn_graph_run(have, g, &x), 0);
    for (int k = 0; k < 2; k++) assert_float_equal(cn_item(have[k]), cn_item(want[k]), 0);
  }
  assert_int_equal(j.done, 11);
  cn_graph_free(g);
  sem_destroy(&j.go);
  cn_scope_end(s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(work_goes_on_between_two_calls)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
