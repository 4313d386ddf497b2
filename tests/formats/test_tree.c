/* test_tree.c: trees and JSON: order, keys, ownership, copies, what is read and what is refused. */
#include <cairn/cairn.h>
#include <cairn/ext/system.h>
#include <math.h>
#include <stdio.h>

#include "test.h"

static void keeps_order_and_keys(void **state)
{
  (void)state;
  cn_tree *d = cn_tree_dict();
  char name[20];
  for (int i = 0; i < 1000; i++) {
    snprintf(name, sizeof name, "key%d", 999 - i);
    assert_int_equal(cn_tree_put(d, name, cn_tree_int(i)), 0);
    assert_int_equal(cn_tree_put_index(d, i * 7919, cn_tree_int(-i)), 0);
  }
  assert_int_equal(cn_tree_put(d, "key500", cn_tree_str("replaced")), 0);
  assert_int_equal(cn_tree_size(d), 2000);
  assert_string_equal(cn_tree_key(d, 0, NULL), "key999");
  int64_t index = 0;
  assert_null(cn_tree_key(d, 3, &index));
  assert_int_equal(index, 7919);
  assert_string_equal(cn_tree_as_str(cn_tree_get(d, "key500"), ""), "replaced");
  assert_int_equal(cn_tree_as_int(cn_tree_get_index(d, 7919 * 5), 0), -5);
  assert_null(cn_tree_get(d, "key1000"));
  assert_null(cn_tree_get_index(d, 1));
  assert_false(cn_tree_is_ordered(d));
  cn_tree_set_ordered(d, true);
  cn_tree *copy = cn_tree_copy(d, false);
  cn_tree_free(d);
  assert_true(cn_tree_is_ordered(copy));
  assert_false(cn_tree_is_ordered(cn_tree_get(copy, "key0")));
  assert_int_equal(cn_tree_as_int(cn_tree_get(copy, "key0"), 0), 999);
  cn_tree_free(copy);
}

static void values_convert_where_nothing_is_lost(void **state)
{
  (void)state;
  cn_tree *f = cn_tree_float(3.0), *h = cn_tree_float(0.5), *b = cn_tree_bool(true), *i = cn_tree_int(-7);
  assert_int_equal(cn_tree_as_int(f, 0), 3);
  assert_int_equal(cn_tree_as_int(h, 9), 9);
  assert_int_equal(cn_tree_as_int(b, 0), 1);
  assert_true(cn_tree_as_float(i, 0) == -7.0);
  assert_true(cn_tree_as_bool(NULL, true));
  assert_string_equal(cn_tree_as_str(i, "none"), "none");
  assert_null(cn_tree_at(i, 0));
  assert_null(cn_tree_get(cn_tree_get(NULL, "a"), "b"));
  cn_tree_free(f), cn_tree_free(h), cn_tree_free(b), cn_tree_free(i);
}

static void wrong_uses_are_errors(void **state)
{
  (void)state;
  cn_tree *list = cn_tree_list(), *dict = cn_tree_dict();
  assert_int_equal(cn_tree_put(list, "a", cn_tree_int(1)), CN_ERR_TYPE);
  cn_err_clear();
  assert_int_equal(cn_tree_push(dict, cn_tree_int(1)), CN_ERR_TYPE);
  cn_err_clear();
  assert_int_equal(cn_tree_push(list, NULL), CN_ERR_TYPE);
  cn_err_clear();
  assert_null(cn_tree_tensor(NULL));
  assert_int_equal(cn_err(), CN_ERR_TYPE);
  cn_err_clear();
  assert_null(cn_tree_str(NULL));
  assert_int_equal(cn_err(), CN_ERR_TYPE);
  cn_err_clear();
  assert_int_equal(cn_tree_put(dict, NULL, cn_tree_int(1)), CN_ERR_TYPE); /* not the number 0 */
  cn_err_clear();
  assert_int_equal(cn_tree_put_index(dict, 0, cn_tree_int(1)), 0);
  assert_null(cn_tree_get(dict, NULL));
  cn_tree_free(list), cn_tree_free(dict);
}

static void copies_share_or_clone(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tree *list = cn_tree_tuple();
  cn_tree_push(list, cn_tree_tensor(cn_ones(CN_SHAPE(2))));
  cn_tree *shared = cn_tree_copy(list, false), *deep = cn_tree_copy(list, true);
  assert_int_equal(cn_tree_kind_of(deep), CN_TREE_TUPLE);
  cn_tensor *t = cn_tree_as_tensor(cn_tree_at(list, 0));
  assert_ptr_equal(cn_tree_as_tensor(cn_tree_at(shared, 0)), t);
  assert_ptr_not_equal(cn_data(cn_tree_as_tensor(cn_tree_at(deep, 0))), cn_data(t));
  cn_tree_free(list), cn_tree_free(shared), cn_tree_free(deep);
  cn_scope_end(s);
}

/* Text that reads back to the same. */
static void json_round(const char *text, const char *expected)
{
  cn_tree *tree = cn_tree_from_json(text, strlen(text));
  if (!tree) fail_msg("%s: %s", text, cn_err_message());
  char *out = cn_tree_to_json(tree, 0);
  assert_string_equal(out, expected);
  cn_string_free(out);
  cn_tree_free(tree);
}

static void reads_json(void **state)
{
  (void)state;
  json_round(" [1 , -2.5e3,null,true,\tfalse] ", "[1, -2500.0, null, true, false]");
  json_round("{\"a\": {\"b\": []}, \"\": \"x\"}", "{\"a\": {\"b\": []}, \"\": \"x\"}");
  json_round("\"\\u00e4\\ud83d\\ude00\\n\\/\\u0001\"", "\"\xc3\xa4\xf0\x9f\x98\x80\\n/\\u0001\"");
  json_round("\"\\ud800\"", "\"\xef\xbf\xbd\""); /* half a pair */
  json_round("[9223372036854775807, -9223372036854775808, 9223372036854775808]",
             "[9223372036854775807, -9223372036854775808, 9.223372036854776e+18]");
  json_round("[0, -0, 0.1, 1E+2, 1e400, -1e400]", "[0, 0, 0.1, 100.0, Infinity, -Infinity]");
  json_round("[NaN, Infinity, -Infinity]", "[NaN, Infinity, -Infinity]");
  json_round("{\"a\": 1, \"a\": 2}", "{\"a\": 2}"); /* as in Python */
  json_round("\xef\xbb\xbf{}", "{}");
}

static void refuses_json(void **state)
{
  (void)state;
  static const char *const wrong[] = {
    "", " ", "{", "[", "[1", "[1,", "[1,]", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{a:1}", "{1:2}", "01", "-", "+1",
    ".5", "1.", "1e", "1e+", "--1", "0x10", "tru", "nul", "\"", "\"a", "\"\\x\"", "\"\\u12\"", "\"\\u123g\"", "\"\n\"",
    "\"\x01\"", "\"\xff\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"", "\"\xf5\x80\x80\x80\"", "\"\xc3\"", "1 2", "[] x",
    "'a'", "{\"a\\u0000b\": 1}", "[1 2]", "inf", "nan",
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    if (cn_tree_from_json(wrong[i], strlen(wrong[i]))) fail_msg("was read: %s", wrong[i]);
    assert_int_equal(cn_err(), CN_ERR_IO);
    cn_err_clear();
  }
  char deep[2000];
  memset(deep, '[', sizeof deep);
  assert_null(cn_tree_from_json(deep, sizeof deep));
  assert_non_null(strstr(cn_err_message(), "too deeply"));
  cn_err_clear();
}

static void writes_json(void **state)
{
  (void)state;
  cn_tree *d = cn_tree_dict(), *list = cn_tree_list();
  cn_tree_push(list, cn_tree_float(2));
  cn_tree_push(list, cn_tree_str_bytes("a\0b", 3));
  cn_tree_put(d, "list", list);
  cn_tree_put_index(d, 3, cn_tree_none());
  char *text = cn_tree_to_json(d, 2);
  assert_string_equal(text, "{\n  \"list\": [\n    2.0,\n    \"a\\u0000b\"\n  ],\n  \"3\": null\n}");
  cn_string_free(text);
  cn_scope *s = cn_scope_begin();
  cn_tree_put(d, "t", cn_tree_tensor(cn_ones(CN_SHAPE(1))));
  cn_scope_end(s);
  assert_null(cn_tree_to_json(d, 0));
  assert_int_equal(cn_err(), CN_ERR_TYPE);
  cn_err_clear();
  cn_tree_free(d);
}

static void survives_failing_memory(void **state)
{
  (void)state;
  static const char text[] = "{\"a\": [1, 2.5, \"text\", {\"b\": null}], \"c\": {\"d\": [[], {}]}}";
  cn_memory_set_caching(false);
  cn_memory_stats before, after;
  cn_memory_get_stats(&before);
  bool done = false;
  for (uint64_t k = 1; !done && k < 1000; k++) {
    cn_memory_fail_at(k);
    cn_tree *tree = cn_tree_from_json(text, strlen(text)), *copy = tree ? cn_tree_copy(tree, true) : NULL;
    char *out = copy ? cn_tree_to_json(copy, 1) : NULL;
    cn_memory_fail_at(0);
    done = out != NULL;
    assert_int_equal(cn_err(), done ? 0 : CN_ERR_MEMORY);
    cn_err_clear();
    cn_string_free(out);
    cn_tree_free(copy);
    cn_tree_free(tree);
    cn_memory_get_stats(&after);
    assert_int_equal(before.in_use, after.in_use);
  }
  assert_true(done);
  cn_memory_set_caching(true);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(keeps_order_and_keys),
    cmocka_unit_test(values_convert_where_nothing_is_lost),
    cmocka_unit_test(wrong_uses_are_errors),
    cmocka_unit_test(copies_share_or_clone),
    cmocka_unit_test(reads_json),
    cmocka_unit_test(refuses_json),
    cmocka_unit_test(writes_json),
    cmocka_unit_test(survives_failing_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
