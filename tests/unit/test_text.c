/* test_text.c: text that grows, its ends, paths, a hash, and numbers that read back whatever the locale. */
#include "test.h"

#include <float.h>
#include <locale.h>
#include <math.h>

#include <cairn/cairn.h>
#include <cairn/ext/hash.h>
#include <cairn/ext/system.h>

static void grows(void **state)
{
  (void)state;
  cn_text t = {0};
  for (int i = 0; i < 1000; i++) cn_text_putf(&t, "%d,", i % 10);
  cn_text_put(&t, "end");
  cn_text_put_bytes(&t, "more", 2);
  assert_false(t.failed);
  assert_int_equal(t.n, 2005);
  assert_string_equal(t.s + 1998, "9,endmo");
  cn_text_free(&t);
}

static void is_joined(const char *folder, const char *name, const char *want)
{
  char *path = cn_path_join(folder, name);
  assert_string_equal(path, want);
  cn_string_free(path);
}

static void ends_and_paths(void **state)
{
  (void)state;
  assert_true(cn_string_starts("float[2]", "float") && cn_string_starts("a", "") && cn_string_starts("", ""));
  assert_false(cn_string_starts("flo", "float") || cn_string_starts("a float", "float"));
  assert_true(cn_string_ends("bn.running_mean", "mean") && cn_string_ends("a", "") && cn_string_ends("", ""));
  assert_false(cn_string_ends("ean", "mean") || cn_string_ends("means", "mean"));
  is_joined("a/b", "c.png", "a/b/c.png");
  is_joined("a/", "c", "a/c");
  is_joined("/", "c", "/c");
  is_joined("", "c", "c");
}

/* Names of files in caches come from it: FNV-1a's own examples. */
static void hash_is_the_known_one(void **state)
{
  (void)state;
  assert_true(cn_hash("", 0) == 0xcbf29ce484222325u);
  assert_true(cn_hash("a", 1) == 0xaf63dc4c8601ec8cu);
  assert_true(cn_hash("foobar", 6) == 0x85944171f73967e8u);
  assert_true(cn_hash_more(cn_hash("foo", 3), "bar", 3) == cn_hash("foobar", 6));
}

static void round_trip(double v, bool hex)
{
  char text[CN_NUMBER_TEXT];
  const char *end;
  double back = cn_number_read(cn_number_write(text, v, hex), &end);
  assert_int_equal(*end, 0);
  assert_null(strchr(text, ','));
  assert_true(isnan(v) ? isnan(back) : memcmp(&v, &back, sizeof v) == 0);
}

static void all_numbers(void)
{
  static const double numbers[] = {0,       -0.0,    1,       0.5,      -0.1,      1.0 / 3, 1e15, 1e300, DBL_MIN,
                                   DBL_MAX, 5e-324,  -1e-310, INFINITY, -INFINITY, NAN,     100,  1e21};
  const char *end;
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    round_trip(numbers[i], false);
    round_trip(numbers[i], true);
  }
  assert_true(cn_number_read("0.5,1", &end) == 0.5);
  assert_string_equal(end, ",1");
  assert_true(cn_number_read("3;", &end) == 3);
  assert_string_equal(end, ";");
  cn_number_read("x", &end);
  assert_string_equal(end, "x");
}

static void numbers(void **state)
{
  (void)state;
  all_numbers();
}

/* The constants of a pointwise program are part of its text. */
static void with_a_decimal_comma(void **state)
{
  (void)state;
  static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "de_DE", "fr_FR.UTF-8"};
  const char *found = NULL;
  for (size_t i = 0; i < sizeof names / sizeof *names && !found; i++) found = setlocale(LC_NUMERIC, names[i]);
  if (!found) SKIP_TEST("no locale with a decimal comma is installed");
  all_numbers();
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_floats((const float[]){-1}, 1);
  cn_requires_grad(x, true);
  cn_tensor *y = cn_gelu(x); /* has 0.5 and others among its constants */
  cn_backward(cn_sum(y));
  assert_int_equal(cn_err(), 0);
  assert_true(fabs(cn_item(y) + 0.158655) < 1e-6);
  assert_true(fabs(cn_item(cn_grad_of(x)) + 0.083315) < 1e-6);
  cn_scope_end(s);
  setlocale(LC_NUMERIC, "C");
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(grows), cmocka_unit_test(ends_and_paths),
                                     cmocka_unit_test(hash_is_the_known_one), cmocka_unit_test(numbers),
                                     cmocka_unit_test(with_a_decimal_comma)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
