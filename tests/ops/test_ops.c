/* test_ops.c: runs every driver over the samples of every family; one test for each pair.
 *
 *     test_ops [DRIVER...]            only these drivers
 *     CAIRN_SAMPLE='sum(' test_ops    only samples that contain this text, each with its outcome
 *     CAIRN_SHARD=2/16 test_ops       only the ops of the third of 16 parts, so that processes can share the work
 *
 * Place in the flow: samples (sample.c) -> drivers -> a count per pair here. Invariant: one bad sample never hides
 * another: all of a family run, and what failed is listed. */
#define _POSIX_C_SOURCE 200809L
#include <cairn/ext/hash.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "drivers.h"
#include "test.h"

/* Tolerances of a family, as multiples of those in compare.c. Larger than 1 where a result is a sum of products,
 * whose order of summation is free. */
static const family families[] = {
  {"pointwise", 1, 4},
  {"arith", 1, 4},
  {"special", 4, 10},
  {"activation", 1, 4},
  {"loss_pair", 2, 4},
  {"ctc", 4, 10},
  {"view", 1, 1},
  {"shard", 1, 1},
  {"create", 1, 1},
  {"reduce", 2, 4},
  {"join", 1, 1},
  {"index", 1, 2},
  {"order", 1, 4},
  {"matmul", 4, 4},
  {"loss", 2, 4},
  {"linalg", 10, 20},
  {"recurrent", 4, 10},
  {"fft", 4, 4},
  {"softmax", 2, 4},
  {"norm", 4, 10},
  {"pool", 2, 4},
  {"conv", 10, 10},
  {"resample", 4, 10},
  {"attention", 4, 10},
  {"shape", 1, 1},
  {"distribution", 1, 1},
  {"contract", 4, 4},
  {"numeric", 2, 4},
  {"embedding_bag", 2, 4},
  {"search", 1, 1},
  {"vision", 1, 4}, /* sums of many products, in another order */
  {"quantile", 2, 4},
  {"quantize", 1, 1},
  {"update", 1, 1},
  {"sparse", 4, 10},
  {"complex", 10, 20}, /* sums of products, and functions made of several real ones */
};

static const struct driver {
  const char *name;
  driver_fn run;
} drivers[] = {
  {"oracle", drive_oracle},       {"layouts", drive_layouts}, {"gradcheck", drive_gradcheck},
  {"inplace", drive_inplace},     {"memory", drive_memory},   {"threads", drive_threads},
  {"mirror", drive_mirror},       {"capture", drive_capture}, {"compiled", drive_compiled},
  {"lists", drive_lists},       {"refusals", drive_refusals}, {"lower", drive_lower},
  {"stablehlo", drive_stablehlo}, {"saved", drive_saved},     {"onnx", drive_onnx},
  {"vmap", drive_vmap},
};

enum {
  NFAMILIES = sizeof families / sizeof *families,
  NDRIVERS = sizeof drivers / sizeof *drivers,
  NALONE = 5, /* tests that are not about samples */
  MOST_LISTED = 60
};

static struct {
  sample_list samples;
  golden_file golden;
  char error[400];
} loaded[NFAMILIES];

typedef struct pair {
  int family, driver;
} pair;

static char current[700]; /* what is being run, for the handler below */
static volatile sig_atomic_t lost; /* it crashed: the thread's state is as it was inside */
static void (*handlers[3])(int);
static const int fatal[3] = {SIGSEGV, SIGABRT, SIGFPE};

/* Says which sample it was, then leaves the rest to who was there before (cmocka, or the system). */
static void crashed(int number)
{
  ssize_t n = write(STDERR_FILENO, current, strlen(current));
  (void)n;
  lost = 1;
  for (int i = 0; i < 3; i++)
    if (fatal[i] == number && handlers[i] != SIG_DFL && handlers[i] != SIG_IGN) handlers[i](number);
  signal(number, SIG_DFL);
  raise(number);
}

static void watch_for_crashes(void)
{
  for (int i = 0; i < 3; i++) {
    void (*before)(int) = signal(fatal[i], crashed);
    if (before != crashed) handlers[i] = before;
  }
}

/* Each pair has a thread state of its own: one that crashed leaves the next neither modes nor scopes, and gradients
 * switched on. */
static cn_state *own, *outer;

static int begin_pair(void **state)
{
  (void)state;
  lost = 0;
  own = cn_state_new();
  outer = cn_state_swap(own);
  cn_memory_fail_at(0);
  cn_memory_set_caching(true);
  cn_set_log(NULL, NULL);
  unsetenv("CAIRN_COMPILE");
  return own ? 0 : -1;
}

static int end_pair(void **state)
{
  (void)state;
  cn_state_swap(outer);
  if (!lost) cn_state_free(own);
  return 0;
}

/* What a driver has left switched, and puts it back; NULL: nothing. */
static const char *left_switched(void)
{
  const char *what = !cn_grad_enabled() ? "gradients off" : cn_tracing() ? "a capture on" : NULL;
  if (cn_default_device() != CN_CPU) what = "another default device";
  if (what) (void)cn_enable_grad_begin();
  cn_set_default_device(CN_CPU);
  return what;
}

static enum outcome run_sample(const pair *p, size_t i, char *why, size_t size)
{
  const sample *s = &loaded[p->family].samples.all[i];
  const trial t = {&families[p->family], s, golden_find(&loaded[p->family].golden, s->hash), why, size};
  snprintf(current, sizeof current, "\ncrashed in %s: %s\n", drivers[p->driver].name, s->text);
  why[0] = 0;
  cn_seed(1);
  cn_scope *scope = cn_scope_begin();
  enum outcome o = drivers[p->driver].run(&t);
  cn_scope_end(scope);
  if (cn_err()) {
    snprintf(why, size, "left an error pending: %s", cn_err_message());
    cn_err_clear();
    o = FAIL;
  }
  const char *left = left_switched();
  if (left && o != FAIL) snprintf(why, size, "left %s", left);
  return left ? FAIL : o;
}

/* Is this sample's op in the part of CAIRN_SHARD? An op's samples stay together: they share kernels, which a device
 * compiles. */
static bool in_shard(const sample *s)
{
  unsigned part = 0, parts = 1;
  const char *asked = getenv("CAIRN_SHARD");
  if (!asked) return true;
  if (sscanf(asked, "%u/%u", &part, &parts) != 2 || part >= parts)
    fail_msg("CAIRN_SHARD must be like 0/16, but is '%s'", asked);
  return cn_hash_more(CN_HASH_BEGIN, s->info->name, strlen(s->info->name)) % parts == part;
}

/* The test of one pair: all samples of the family. */
static void run_pair(void **state)
{
  const pair *p = *state;
  const sample_list *list = &loaded[p->family].samples;
  const char *only = getenv("CAIRN_SAMPLE");
  char why[600];
  size_t failed = 0, skipped = 0, ran = 0;
  watch_for_crashes();
  if (loaded[p->family].error[0]) fail_msg("%s", loaded[p->family].error);
  for (size_t i = 0; i < list->count; i++) {
    const sample *s = &list->all[i];
    if ((only && !strstr(s->text, only)) || !in_shard(s)) continue;
    enum outcome o = run_sample(p, i, why, sizeof why);
    ran++;
    skipped += o == SKIP;
    failed += o == FAIL;
    if (only) print_message("%s: %s %s\n", o == PASS ? "pass" : o == SKIP ? "skip" : "FAIL", s->text, why);
    else if (o == FAIL && failed <= MOST_LISTED)
      print_error("%s.samples:%d: %s\n    %s\n", families[p->family].name, s->line, s->text, why);
  }
  if (failed) fail_msg("%zu of %zu samples failed", failed, ran);
  if (ran && skipped == ran) SKIP_TEST(why);
}

static void load(void)
{
  for (int i = 0; i < NFAMILIES; i++) {
    char *error = loaded[i].error;
    size_t size = sizeof loaded[i].error;
    if (!sample_read(&loaded[i].samples, families[i].name, error, size))
      golden_read(&loaded[i].golden, families[i].name, error, size);
  }
}

static void unload(void)
{
  for (int i = 0; i < NFAMILIES; i++) {
    sample_list_free(&loaded[i].samples);
    golden_free(&loaded[i].golden);
  }
}

/* A file of samples that no family above names would never run. */
static void every_file_has_a_family(void **state)
{
  (void)state;
  DIR *dir = opendir(CN_TEST_SOURCE_DIR "/tests/ops");
  assert_non_null(dir);
  int unknown = 0;
  for (struct dirent *e; (e = readdir(dir));) {
    char *dot = strstr(e->d_name, ".samples");
    bool found = !dot;
    for (int i = 0; i < NFAMILIES && !found; i++)
      found = strlen(families[i].name) == (size_t)(dot - e->d_name) &&
              !strncmp(families[i].name, e->d_name, (size_t)(dot - e->d_name));
    if (found) continue;
    print_error("%s is in no family of test_ops.c\n", e->d_name);
    unknown++;
  }
  closedir(dir);
  assert_int_equal(unknown, 0);
}

static bool is_driver(const char *name)
{
  for (int d = 0; d < NDRIVERS; d++)
    if (!strcmp(drivers[d].name, name)) return true;
  return false;
}

/* Arguments name drivers and families; where none of a kind is named, all of it are meant. */
static bool asked(const char *name, int argc, char **argv)
{
  bool others = false, driver = is_driver(name);
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], name)) return true;
    others |= is_driver(argv[i]) == driver;
  }
  return !others;
}

static void nothing(void **state) { (void)state; }

int main(int argc, char **argv)
{
  static pair pairs[NFAMILIES * NDRIVERS];
  static char names[NFAMILIES * NDRIVERS][64];
  static struct CMUnitTest tests[NALONE + NFAMILIES * NDRIVERS + 2] = {
    cmocka_unit_test(every_file_has_a_family),  cmocka_unit_test(lists_of_modules),
    cmocka_unit_test(lists_of_optims),          cmocka_unit_test(lists_given_twice),
    cmocka_unit_test(lists_mean_what_they_say),
  };
  for (int d = 0, n = 0; d < NDRIVERS; d++)
    for (int f = 0; f < NFAMILIES; f++, n++) {
      pairs[n] = (pair){f, d};
      snprintf(names[n], sizeof names[n], "%s of %s", drivers[d].name, families[f].name);
      tests[NALONE + n].name = names[n];
      bool run = asked(drivers[d].name, argc, argv) && asked(families[f].name, argc, argv);
      tests[NALONE + n].test_func = run ? run_pair : nothing;
      tests[NALONE + n].initial_state = &pairs[n];
      tests[NALONE + n].setup_func = begin_pair;
      tests[NALONE + n].teardown_func = end_pair;
    }
  tests[NALONE + NFAMILIES * NDRIVERS] = (struct CMUnitTest)cmocka_unit_test(lowered_ops);
  tests[NALONE + NFAMILIES * NDRIVERS + 1] = (struct CMUnitTest)cmocka_unit_test(looped_ops);
  load();
  int failed = cmocka_run_group_tests_name("ops", tests, NULL, NULL);
  unload();
  return failed;
}
