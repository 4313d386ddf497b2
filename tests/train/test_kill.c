/* test_kill.c: a training process is killed (SIGKILL) at random moments, again and again. After each kill the
 * checkpoint on the disk loads; the run that goes on from it computes bit for bit what one that was never killed does.
 *
 * This process itself never computes: every run, and every look at a checkpoint, is a child's. */
#define _DEFAULT_SOURCE
#include <cairn/ext/system.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runs.h"
#include "test.h"

enum { EPOCHS = 12, BATCHES = 7, STEPS = EPOCHS * BATCHES, KILLS = 60, LONGEST_MS = 60 };

/* What children tell: memory that all processes share. */
typedef struct told {
  double losses[STEPS]; /* by step; 0: not reached yet */
  int disagreed;        /* a step was done again with another loss */
  uint64_t sum;         /* of the trained net */
} told;

static told *told_new(void)
{
  void *p = mmap(NULL, sizeof(told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(p != MAP_FAILED);
  return memset(p, 0, sizeof(told));
}

static int tell(cn_fitting *fit, void *payload)
{
  told *t = payload;
  int64_t step = cn_fitting_run(fit)->step - 1;
  double loss = cn_fitting_value(fit, "batch_loss");
  if (t->losses[step] != 0 && t->losses[step] != loss) t->disagreed++;
  t->losses[step] = loss;
  return 0;
}

/* A child's whole life: trains from the checkpoint on, if there is one. */
static int train(told *t, const char *path)
{
  small_run r;
  if (small_run_begin(&r)) return 1;
  cn_loader_free(r.loader); /* with threads that make batches ahead of the checkpoint */
  r.loader = cn_loader_new(some_digits(CN_TRAIN, 50, true), .batch = 8, .shuffle = true, .workers = 2);
  int status = cn_fit(r.net, r.opt, r.loader, .epochs = EPOCHS, .schedule = r.schedule, .schedule_each_batch = true,
                      .resume = path,
                      .callbacks = CN_CALLBACKS({.batch_end = tell, .payload = t}, cn_callback_last(path, 2)));
  if (status) fprintf(stderr, "%s\n", cn_err_message());
  t->sum = net_sum(r.net);
  small_run_end(&r);
  return status != 0;
}

/* Another child's: does the checkpoint load? */
static int look(told *t, const char *path)
{
  small_run r;
  (void)t;
  if (cn_path_kind_of(path) == CN_PATH_NONE) return 0;
  if (small_run_begin(&r)) return 1;
  cn_run run = {.net = r.net, .opt = r.opt, .schedule = r.schedule, .loader = r.loader};
  int status = cn_run_load(path, &run, NULL);
  if (status) fprintf(stderr, "%s\n", cn_err_message());
  small_run_end(&r);
  return status != 0;
}

static pid_t begin(int (*life)(told *, const char *), told *t, const char *path)
{
  fflush(stdout);
  pid_t child = fork();
  assert_true(child >= 0);
  if (!child) {
    cn_set_num_threads(1);
    _exit(life(t, path));
  }
  return child;
}

static int wait_for(pid_t child)
{
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  return status;
}

static void pause_ms(int ms)
{
  struct timespec time = {ms / 1000, (long)(ms % 1000) * 1000000};
  nanosleep(&time, NULL);
}

/* Lets a child train for a while and kills it: 1 when it was killed, 0 when it was done before. */
static int kill_one(told *t, const char *path, unsigned *seed)
{
  pid_t child = begin(train, t, path);
  pause_ms(rand_r(seed) % LONGEST_MS);
  kill(child, SIGKILL);
  int status = wait_for(child);
  assert_int_equal(wait_for(begin(look, t, path)), 0);
  if (WIFEXITED(status)) assert_int_equal(WEXITSTATUS(status), 0);
  return !WIFEXITED(status);
}

static void killing_loses_nothing(void **state)
{
  (void)state;
  told *want = told_new(), *have = told_new();
  char whole[900], parts[900];
  unsigned seed = 1;
  int kills = 0, rounds = 0;
  snprintf(whole, sizeof whole, "%s", temporary("whole.safetensors"));
  snprintf(parts, sizeof parts, "%s", temporary("parts.safetensors"));
  assert_int_equal(wait_for(begin(train, want, whole)), 0);
  while (kills < KILLS || rounds < 1) {
    memset(have, 0, sizeof *have);
    unlink(parts);
    while (kills < KILLS && kill_one(have, parts, &seed)) kills++;
    assert_int_equal(wait_for(begin(train, have, parts)), 0); /* to the end */
    rounds++;
    assert_int_equal(have->disagreed, 0);
    assert_memory_equal(have->losses, want->losses, sizeof want->losses);
    assert_true(have->sum == want->sum);
  }
  print_message("%d kills in %d runs of %d steps\n", kills, rounds, STEPS);
  munmap(want, sizeof *want);
  munmap(have, sizeof *have);
  cn_names names; /* what killed writers left was removed by the last run */
  assert_int_equal(cn_folder_list(&names, temporary("")), 0);
  assert_int_equal(names.n, 2);
  cn_names_free(&names);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(killing_loses_nothing)};
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  remove_temporary();
  return failed;
}
