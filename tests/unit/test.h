/* test.h: what every C test includes. Tests are written against cmocka's names; where cmocka is not
 * installed (CN_TEST_PLAIN, set by the build) runner.c gives the same names, one setjmp per test, and
 * prints results in the same form, so that tools/run-tests counts both alike.
 *
 *     static void adds(void **state)
 *     {
 *       (void)state;
 *       assert_int_equal(1 + 1, 2);
 *     }
 *
 *     int main(void)
 *     {
 *       const struct CMUnitTest tests[] = {cmocka_unit_test(adds)};
 *       return cmocka_run_group_tests(tests, NULL, NULL);
 *     }
 *
 * Only the names below are used, because only they work with both. */
#ifndef CAIRN_TESTS_TEST_H
#define CAIRN_TESTS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifndef CN_TEST_PLAIN

#include <cmocka.h>

#else

typedef void (*CMUnitTestFunction)(void **state);
typedef int (*CMFixtureFunction)(void **state);

struct CMUnitTest {
  const char *name;
  CMUnitTestFunction test_func;
  CMFixtureFunction setup_func;
  CMFixtureFunction teardown_func;
  void *initial_state;
};

#define cmocka_unit_test(f) {#f, f, NULL, NULL, NULL}
#define cmocka_unit_test_setup(f, setup) {#f, f, setup, NULL, NULL}
#define cmocka_unit_test_teardown(f, teardown) {#f, f, NULL, teardown, NULL}
#define cmocka_unit_test_setup_teardown(f, setup, teardown) {#f, f, setup, teardown, NULL}
#define cmocka_unit_test_prestate(f, state) {#f, f, NULL, NULL, state}
#define cmocka_unit_test_prestate_setup_teardown(f, setup, teardown, state) {#f, f, setup, teardown, state}
#define cmocka_run_group_tests(tests, setup, teardown) \
  test_run_group(#tests, tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown)
#define cmocka_run_group_tests_name(name, tests, setup, teardown) \
  test_run_group(name, tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown)

/* Runs the tests one after the other; returns how many failed. */
int test_run_group(const char *group, const struct CMUnitTest *tests, size_t count,
                   CMFixtureFunction setup, CMFixtureFunction teardown);
void print_message(const char *format, ...) __attribute__((format(printf, 1, 2)));
void print_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The checks behind the macros. A check that does not hold prints where, and leaves the test. */
_Noreturn void test_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
_Noreturn void test_skip(const char *file, int line);
void test_string_equal(const char *a, const char *b, int want_equal, const char *file, int line);
void test_memory_equal(const void *a, const void *b, size_t size, const char *file, int line);
void test_int_equal(intmax_t a, intmax_t b, int want_equal, const char *file, int line);
void test_in_range(uintmax_t value, uintmax_t low, uintmax_t high, int want_in, const char *file, int line);

#define fail() test_fail(__FILE__, __LINE__, "failed")
#define fail_msg(...) test_fail(__FILE__, __LINE__, __VA_ARGS__)
#define skip() test_skip(__FILE__, __LINE__)

#define assert_true(c) ((c) ? (void)0 : test_fail(__FILE__, __LINE__, "not true: %s", #c))
#define assert_false(c) ((c) ? test_fail(__FILE__, __LINE__, "not false: %s", #c) : (void)0)
#define assert_null(p) ((p) == NULL ? (void)0 : test_fail(__FILE__, __LINE__, "not NULL: %s", #p))
#define assert_non_null(p) ((p) != NULL ? (void)0 : test_fail(__FILE__, __LINE__, "NULL: %s", #p))
#define assert_ptr_equal(a, b) \
  ((const void *)(a) == (const void *)(b) ? (void)0 \
                                          : test_fail(__FILE__, __LINE__, "%s and %s differ", #a, #b))
#define assert_ptr_not_equal(a, b) \
  ((const void *)(a) != (const void *)(b) ? (void)0 \
                                          : test_fail(__FILE__, __LINE__, "%s and %s are the same", #a, #b))
#define assert_int_equal(a, b) test_int_equal((intmax_t)(a), (intmax_t)(b), 1, __FILE__, __LINE__)
#define assert_int_not_equal(a, b) test_int_equal((intmax_t)(a), (intmax_t)(b), 0, __FILE__, __LINE__)
#define assert_string_equal(a, b) test_string_equal(a, b, 1, __FILE__, __LINE__)
#define assert_string_not_equal(a, b) test_string_equal(a, b, 0, __FILE__, __LINE__)
#define assert_memory_equal(a, b, size) test_memory_equal(a, b, size, __FILE__, __LINE__)
#define assert_in_range(value, low, high) \
  test_in_range((uintmax_t)(value), (uintmax_t)(low), (uintmax_t)(high), 1, __FILE__, __LINE__)
#define assert_not_in_range(value, low, high) \
  test_in_range((uintmax_t)(value), (uintmax_t)(low), (uintmax_t)(high), 0, __FILE__, __LINE__)

#endif

/* Closeness in double precision, the same with both runners (cmocka's own rounds to float first). NaN
 * equals NaN, and an infinity only itself. */
void test_close(double a, double b, double eps, const char *file, int line);
#undef assert_float_equal
#define assert_float_equal(a, b, eps) \
  test_close((double)(a), (double)(b), (double)(eps), __FILE__, __LINE__)

/* Leaves the test as skipped. tools/run-tests counts the reasons, and tests/required.txt says how often each may be
 * given; a bare skip() gives none and fails a whole run. */
#define SKIP_TEST(why) \
  do { \
    print_message("skipped: %s\n", why); \
    skip(); \
  } while (0)

/* For tests that fork: in the child of a process with threads QEMU ends itself. */
#ifdef CN_TEST_EMULATED
#define SKIP_IF_EMULATED() SKIP_TEST("the emulator cannot follow a fork")
#else
#define SKIP_IF_EMULATED() (void)0
#endif

/* A call that must fail with this status and a message. For files that include cairn's headers. */
#define REFUSED(call, status) \
  do { \
    assert_int_equal(call, status); \
    assert_true(*cn_err_message()); \
    cn_err_clear(); \
  } while (0)

/* The thread sanitizer ends a child that starts threads: it cannot follow them. */
#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#endif
#endif
#ifndef UNDER_TSAN
#define UNDER_TSAN 0
#endif

#endif
