/* runner.c: what test.h declares. With cmocka only the closeness check is left to do here; without it
 * this is the plain runner. A failing check jumps back into run_one, so a test can never take the next
 * one down with it short of a crash; the number of failures is the program's exit status. */
#include "test.h"

#include <math.h>
#include <stdio.h>

#ifndef CN_TEST_PLAIN

void test_close(double a, double b, double eps, const char *file, int line)
{
  if (a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= eps) return;
  print_error("%.17g and %.17g differ by more than %g\n", a, b, eps);
  _fail(file, line);
}

#else

enum outcome { RUNNING, FAILED, SKIPPED };

static jmp_buf leave;
static volatile enum outcome outcome;

void print_message(const char *format, ...)
{
  va_list args;
  va_start(args, format);
  vprintf(format, args);
  va_end(args);
}

void print_error(const char *format, ...)
{
  va_list args;
  va_start(args, format);
  vfprintf(stderr, format, args);
  va_end(args);
}

void test_fail(const char *file, int line, const char *format, ...)
{
  va_list args;
  fflush(stdout);
  fprintf(stderr, "%s:%d: ", file, line);
  va_start(args, format);
  vfprintf(stderr, format, args);
  va_end(args);
  fputc('\n', stderr);
  outcome = FAILED;
  longjmp(leave, 1);
}

void test_skip(const char *file, int line)
{
  (void)file;
  (void)line;
  outcome = SKIPPED;
  longjmp(leave, 1);
}

void test_close(double a, double b, double eps, const char *file, int line)
{
  if (a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= eps) return;
  test_fail(file, line, "%.17g and %.17g differ by more than %g", a, b, eps);
}

void test_int_equal(intmax_t a, intmax_t b, int want_equal, const char *file, int line)
{
  if ((a == b) == (want_equal != 0)) return;
  test_fail(file, line, want_equal ? "%jd is not %jd" : "%jd is %jd", a, b);
}

void test_string_equal(const char *a, const char *b, int want_equal, const char *file, int line)
{
  if ((a == b || (a && b && strcmp(a, b) == 0)) == (want_equal != 0)) return;
  test_fail(file, line, want_equal ? "\"%s\" is not \"%s\"" : "\"%s\" is \"%s\"", a ? a : "(null)", b ? b : "(null)");
}

void test_memory_equal(const void *a, const void *b, size_t size, const char *file, int line)
{
  const unsigned char *x = a, *y = b;
  for (size_t i = 0; i < size; i++)
    if (x[i] != y[i]) test_fail(file, line, "byte %zu: 0x%02x is not 0x%02x", i, x[i], y[i]);
}

void test_in_range(uintmax_t value, uintmax_t low, uintmax_t high, int want_in, const char *file, int line)
{
  if ((value >= low && value <= high) == (want_in != 0)) return;
  test_fail(file, line, "%ju is %s the range %ju to %ju", value, want_in ? "outside" : "in", low, high);
}

/* Setup and test under one setjmp, teardown under another: a function each, so that no local variable is
 * alive across both. */
static enum outcome run_body(const struct CMUnitTest *test, void **state)
{
  outcome = RUNNING;
  if (setjmp(leave) == 0) {
    if (test->setup_func && test->setup_func(state) != 0) test_fail(test->name, 0, "setup failed");
    test->test_func(state);
  }
  return outcome;
}

static enum outcome run_teardown(const struct CMUnitTest *test, void **state)
{
  outcome = RUNNING;
  if (test->teardown_func && setjmp(leave) == 0 && test->teardown_func(state) != 0)
    test_fail(test->name, 0, "teardown failed");
  return outcome;
}

/* The teardown runs whatever the test did. */
static enum outcome run_one(const struct CMUnitTest *test, void *group_state)
{
  void *state = test->initial_state ? test->initial_state : group_state;
  enum outcome body = run_body(test, &state);
  enum outcome after = run_teardown(test, &state);
  return after == FAILED ? FAILED : body;
}

static void list(const char *what, const char *group, const struct CMUnitTest *tests, size_t count,
                 const enum outcome *results, enum outcome wanted)
{
  size_t n = 0;
  for (size_t i = 0; i < count; i++) n += results[i] == wanted;
  if (n == 0) return;
  printf("[  %s ] %s: %zu test(s), listed below:\n", what, group, n);
  for (size_t i = 0; i < count; i++)
    if (results[i] == wanted) printf("[  %s ] %s\n", what, tests[i].name);
}

int test_run_group(const char *group, const struct CMUnitTest *tests, size_t count,
                   CMFixtureFunction setup, CMFixtureFunction teardown)
{
  enum outcome *results = calloc(count ? count : 1, sizeof *results);
  void *state = NULL;
  size_t passed = 0;
  int failed = 0;

  if (!results || (setup && setup(&state) != 0)) {
    printf("[  FAILED  ] %s: %d test(s), listed below:\n[  FAILED  ] group setup\n", group, 1);
    free(results);
    return 1;
  }
  printf("[==========] Running %zu test(s).\n", count);
  for (size_t i = 0; i < count; i++) {
    printf("[ RUN      ] %s\n", tests[i].name);
    fflush(stdout);
    results[i] = run_one(&tests[i], state);
    passed += results[i] == RUNNING;
    failed += results[i] == FAILED;
    printf("%s %s\n", results[i] == RUNNING ? "[       OK ]" : results[i] == FAILED ? "[  FAILED  ]"
                                                                                    : "[  SKIPPED ]",
           tests[i].name);
  }
  if (teardown && teardown(&state) != 0) {
    printf("[  FAILED  ] %s: %d test(s), listed below:\n[  FAILED  ] group teardown\n", group, 1);
    failed++;
  }
  printf("[==========] %zu test(s) run.\n[  PASSED  ] %zu test(s).\n", count, passed);
  list("SKIPPED", group, tests, count, results, SKIPPED);
  list("FAILED ", group, tests, count, results, FAILED);
  fflush(stdout);
  free(results);
  return failed;
}

#endif
