/* test_seed.c: where random numbers start: a seed of the system, CAIRN_SEED, cn_seed, threads in turn.
 *
 * Each case runs in a forked child, because a process decides once. */
#define _DEFAULT_SOURCE
#include <cairn/cairn.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

typedef struct drawn {
  uint64_t seed[3];
  float first[3];
} drawn;

/* The seed that this thread has, and its first number. */
static void draw(drawn *d, int i)
{
  cn_scope *s = cn_scope_begin();
  uint64_t offset;
  cn_random_state(&d->seed[i], &offset);
  d->first[i] = offset ? -1.0f : (float)cn_item(cn_rand(CN_SHAPE(1)));
  cn_scope_end(s);
}

static void alone(drawn *d) { draw(d, 0); }

static void seeded(drawn *d)
{
  cn_seed(7);
  draw(d, 0);
}

static void *second(void *d) { return draw(d, 1), NULL; }
static void *third(void *d) { return draw(d, 2), NULL; }

static void threads(drawn *d)
{
  pthread_t t;
  cn_seed(7);
  draw(d, 0);
  pthread_create(&t, NULL, second, d);
  pthread_join(t, NULL);
  pthread_create(&t, NULL, third, d);
  pthread_join(t, NULL);
}

/* work in a process of its own, with this CAIRN_SEED. */
static drawn in_child(void (*work)(drawn *), const char *environment)
{
  int ends[2];
  drawn d = {{0}, {0}};
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  assert_true(child >= 0);
  if (!child) {
    if (environment) setenv("CAIRN_SEED", environment, 1);
    else unsetenv("CAIRN_SEED");
    work(&d);
    _exit(write(ends[1], &d, sizeof d) == (ssize_t)sizeof d && !cn_err() ? 0 : 1);
  }
  int status = -1;
  close(ends[1]);
  assert_int_equal(read(ends[0], &d, sizeof d), (ssize_t)sizeof d);
  close(ends[0]);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  return d;
}

static void unseeded_processes_differ(void **state)
{
  (void)state;
  drawn a = in_child(alone, NULL), b = in_child(alone, NULL);
  assert_true(a.seed[0] != b.seed[0]);
  assert_true(a.first[0] != b.first[0]);
}

static void environment_repeats(void **state)
{
  (void)state;
  drawn a = in_child(alone, "7"), b = in_child(alone, "0x7"), c = in_child(seeded, NULL), d = in_child(alone, "-1");
  assert_true(a.seed[0] == 7 && b.seed[0] == 7 && c.seed[0] == 7 && d.seed[0] == UINT64_MAX);
  assert_true(a.first[0] == b.first[0] && a.first[0] == c.first[0] && a.first[0] != d.first[0]);
}

static void nonsense_is_no_seed(void **state)
{
  (void)state;
  assert_true(in_child(alone, "seven").seed[0] != in_child(alone, "seven").seed[0]);
}

static void seeding_wins(void **state)
{
  (void)state;
  assert_true(in_child(seeded, "99").seed[0] == 7);
}

static void threads_have_their_own(void **state)
{
  (void)state;
  drawn a = in_child(threads, NULL), b = in_child(threads, NULL);
  assert_memory_equal(&a, &b, sizeof a);
  assert_true(a.seed[0] != a.seed[1] && a.seed[1] != a.seed[2] && a.seed[0] != a.seed[2]);
  assert_true(a.first[0] != a.first[1] && a.first[1] != a.first[2]);
}

static void fresh_seeds_differ(void **state)
{
  (void)state;
  assert_true(cn_fresh_seed() != cn_fresh_seed());
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(unseeded_processes_differ), cmocka_unit_test(environment_repeats),
    cmocka_unit_test(nonsense_is_no_seed),       cmocka_unit_test(seeding_wins),
    cmocka_unit_test(threads_have_their_own),    cmocka_unit_test(fresh_seeds_differ),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
