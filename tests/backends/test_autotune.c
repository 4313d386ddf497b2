/* test_autotune.c: with CAIRN_AUTOTUNE=1 implementations that are near are timed once, and the verdict lies on disk.
 * Which one wins is the machine's business; what is tested is that one is chosen among those that can, that a verdict
 * that is there is believed, and that results stay right. */
#define _POSIX_C_SOURCE 200809L /* setenv, mkdtemp */
#include "test.h"

#include <cairn/cairn.h>
#include <cairn/kw.h>
#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backends/common/autotune.h"
#include "base/state.h"

static char folder[] = "/tmp/cairn-autotune-XXXXXX";
static int timed;      /* how often a time was told */
static char taken[64]; /* what ran last: "cpu/direct" */

static void (*meanwhile)(const char *times); /* what another thread does while a contest is told */

static void listen(cn_log_level level, const char *message, void *payload)
{
  (void)level, (void)payload;
  const char *at = strstr(message, "conv2d: cpu/"), *times = strstr(message, "conv2d: timed ");
  timed += times != NULL;
  if (times && meanwhile) meanwhile(times + strlen("conv2d: timed "));
  if (at) snprintf(taken, sizeof taken, "%s", at + strlen("conv2d: "));
}

/* As a new process would begin. */
static void forget(void)
{
  cni_dispatch_forget(cni_state());
  cni_autotune_exit();
  timed = 0;
  taken[0] = 0;
}

static FILE *table(char path[512], const char *mode)
{
  DIR *d = opendir(folder);
  assert_non_null(d);
  path[0] = 0;
  for (struct dirent *e; (e = readdir(d));)
    if (!strncmp(e->d_name, "autotune-", 9)) snprintf(path, 512, "%s/%s", folder, e->d_name);
  closedir(d);
  return path[0] ? fopen(path, mode) : NULL;
}

/* A convolution with several implementations, and work enough to be timed; its result at a place against a sum in
 * double. */
static void convolve(void)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_sin(cn_arange(0, 4 * 16 * 30 * 30, .dtype = CN_F32));
  cn_tensor *w = cn_cos(cn_arange(0, 16 * 16 * 9, .dtype = CN_F32));
  x = cn_reshape(x, CN_SHAPE(4, 16, 30, 30)), w = cn_reshape(w, CN_SHAPE(16, 16, 3, 3));
  cn_tensor *y = cn_conv2d(x, w, NULL);
  assert_non_null(y);
  const float *from = cn_data(x), *by = cn_data(w), *to = cn_data(y);
  double sum = 0;
  for (int c = 0; c < 16; c++)
    for (int i = 0; i < 9; i++)
      sum += (double)from[((2 * 16 + c) * 30 + 7 + i / 3) * 30 + 11 + i % 3] * (double)by[(5 * 16 + c) * 9 + i];
  /* Winograd's differences of 144 terms: a few units of float32 at sums of up to 40. */
  assert_true(fabs(sum - (double)to[((2 * 16 + 5) * 28 + 7) * 28 + 11]) < 1e-4);
  cn_scope_end(s);
}

static void timed_once(void **state)
{
  (void)state;
  char path[512], line[128];
  forget();
  convolve();
  assert_true(timed >= 2);
  int before = timed;
  convolve();
  assert_int_equal(timed, before);
  FILE *f = table(path, "r");
  assert_non_null(f);
  assert_non_null(fgets(line, sizeof line, f));
  assert_string_equal(line, "cairn autotune 1\n");
  assert_non_null(fgets(line, sizeof line, f));
  line[strcspn(line, "\n")] = 0;
  assert_string_equal(line + 17, taken + strlen("cpu/"));
  fclose(f);
}

/* Another process finds the verdict, whatever it is. */
static void verdict_is_believed(void **state)
{
  (void)state;
  char path[512], key[17];
  FILE *f = table(path, "r");
  assert_non_null(f);
  assert_int_equal(fscanf(f, "cairn autotune 1\n%16s", key), 1);
  fclose(f);
  assert_non_null(f = fopen(path, "w"));
  fprintf(f, "cairn autotune 1\n%s direct\n", key);
  fclose(f);
  forget();
  convolve();
  assert_int_equal(timed, 0);
  assert_string_equal(taken, "cpu/direct");
}

static char key_of_call[17], slowest[32];
static double longest;

static void *convolve_there(void *unused)
{
  convolve();
  return unused;
}

/* The slowest so far wins in another thread. */
static void decide_otherwise(const char *times)
{
  char path[512], name[32];
  double us;
  pthread_t thread;
  assert_int_equal(sscanf(times, "%31[^:]: %lf", name, &us), 2);
  if (us <= longest) return;
  longest = us;
  snprintf(slowest, sizeof slowest, "%s", name);
  FILE *f = table(path, "w");
  assert_non_null(f);
  fprintf(f, "cairn autotune 1\n%s %s\n", key_of_call, name);
  fclose(f);
  cni_autotune_exit();
  meanwhile = NULL;
  assert_int_equal(pthread_create(&thread, NULL, convolve_there, NULL), 0);
  pthread_join(thread, NULL);
  meanwhile = decide_otherwise;
}

/* Threads that meet a shape at once do the same from then on. */
static void first_verdict_holds(void **state)
{
  (void)state;
  char path[512];
  FILE *f = table(path, "r");
  assert_non_null(f);
  assert_int_equal(fscanf(f, "cairn autotune 1\n%16s", key_of_call), 1);
  fclose(f);
  fclose(table(path, "w")); /* nothing is known */
  forget();
  meanwhile = decide_otherwise;
  convolve();
  meanwhile = NULL;
  assert_true(timed >= 2);
  assert_string_equal(taken + strlen("cpu/"), slowest);
}

/* Lines of nobody's, names of nobody's: what was said about this call is not understood, so the list decides. */
static void hostile_file(void **state)
{
  (void)state;
  static const char *const texts[] = {"", "\n\n\n", "cairn autotune 1", "cairn autotune 2\n0000000000000000 direct\n",
                                      "cairn autotune 1\nzzzzzzzzzzzzzzzz direct\n0 direct\n0123456789abcdef \n",
                                      "cairn autotune 1\n0123456789abcdef a-name-that-is-longer-than-all-others\n"};
  char path[512];
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    FILE *f = table(path, "w");
    assert_non_null(f);
    fputs(texts[i], f);
    fclose(f);
    forget();
    convolve();
    assert_true(timed >= 2);
  }
}

static void results_that_repeat(void **state)
{
  (void)state;
  char path[512];
  fclose(table(path, "r"));
  assert_int_equal(unlink(path), 0);
  forget();
  cn_set_deterministic(CN_DETERMINISTIC_CONV);
  convolve();
  cn_set_deterministic(CN_DETERMINISTIC_OFF);
  assert_int_equal(timed, 0);
  assert_null(table(path, "r"));
}

/* What is written over an input is not run twice. */
static void in_place(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *y = cn_zeros(CN_SHAPE(200, 200), .dtype = CN_F32), *a = cn_ones(CN_SHAPE(200, 200), .dtype = CN_F32);
  forget();
  assert_non_null(cn_addmm_(y, a, a));
  assert_float_equal(cn_item(cn_select(cn_select(y, 0, 3), 0, 4)), 200, 0);
  cn_scope_end(s);
}

static int clean(void **state)
{
  (void)state;
  char path[512];
  FILE *f = table(path, "r");
  if (f) fclose(f);
  if (path[0]) unlink(path);
  return rmdir(folder);
}

int main(void)
{
  if (!mkdtemp(folder)) return 1;
  setenv("CAIRN_CACHE", folder, 1);
  setenv("CAIRN_AUTOTUNE", "1", 1);
  setenv("CAIRN_VERBOSE", "dispatch", 1);
  cn_set_log(listen, NULL);
  const struct CMUnitTest tests[] = {cmocka_unit_test(timed_once), cmocka_unit_test(verdict_is_believed),
                                     cmocka_unit_test(first_verdict_holds), cmocka_unit_test(hostile_file),
                                     cmocka_unit_test(results_that_repeat), cmocka_unit_test(in_place)};
  return cmocka_run_group_tests(tests, NULL, clean);
}
