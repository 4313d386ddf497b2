/* test_strings.c: tensors of strings: compared, joined, counted, looked up and made of numbers in eager code; held by
 * graphs as constants, inputs and results, in files, replayed and compiled. */
#include <cairn/cairn.h>
#include <cairn/ext/graph.h>
#include <math.h>
#include <string.h>

#include "tensors.h"

static cn_strings strings(size_t n, const char *const *v)
{
  cn_strings s = {NULL, NULL};
  const int64_t size = (int64_t)n;
  if (cn_strings_from(&s, v, &size, 1)) fail_msg("%s", cn_err_message());
  return s;
}
#define BEETLE "k\xc3\xa4" "fer"
#define STRINGS(...) \
  strings(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), (const char *const[]){__VA_ARGS__})

static void assert_strings(const cn_strings *s, size_t n, const char *const *want)
{
  if (!s->bytes) fail_msg("%s", cn_err_message());
  assert_int_equal(cn_numel(s->lengths), n);
  for (size_t i = 0; i < n; i++) {
    char *have = cn_strings_get(s, (int64_t)i);
    if (!have) fail_msg("%s", cn_err_message());
    assert_string_equal(have, want[i]);
    cn_string_free(have);
  }
}
#define ASSERT_STRINGS(s, ...) \
  assert_strings(s, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), (const char *const[]){__VA_ARGS__})

static void assert_numbers(cn_tensor *t, size_t n, const int64_t *want)
{
  if (!t) fail_msg("%s", cn_err_message());
  assert_int_equal(cn_numel(t), n);
  t = cn_cast(cn_reshape(t, CN_SHAPE(-1)), CN_I64);
  for (size_t i = 0; i < n; i++) assert_int_equal(cn_item_int(cn_select(t, 0, (int64_t)i)), want[i]);
}
#define ASSERT_NUMBERS(t, ...) \
  assert_numbers(t, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]){__VA_ARGS__})

/* ---- eager ---- */

static void test_strings(void **state)
{
  (void)state;
  cn_strings a = STRINGS("one", "", "dr\xc3\xb6l", "one"), b = STRINGS("one", "x", "droel", "two");
  cn_strings c = STRINGS("one"), d;
  ASSERT_STRINGS(&a, "one", "", "dr\xc3\xb6l", "one");
  ASSERT_NUMBERS(cn_strings_equal(&a, &b), 1, 0, 0, 0);
  ASSERT_NUMBERS(cn_strings_equal(&a, &c), 1, 0, 0, 1); /* broadcast */
  ASSERT_NUMBERS(cn_strings_count(&a), 3, 0, 4, 3);
  ASSERT_NUMBERS(a.lengths, 3, 0, 5, 3);
  assert_int_equal(cn_strings_concat(&d, &a, &b), 0);
  ASSERT_STRINGS(&d, "oneone", "x", "dr\xc3\xb6ldroel", "onetwo");
  assert_int_equal(cn_strings_concat(&d, &d, &c), 0);
  ASSERT_STRINGS(&d, "oneoneone", "xone", "dr\xc3\xb6ldroelone", "onetwoone");
  const int64_t order[3] = {2, -1, 0};
  assert_int_equal(cn_strings_take(&d, &a, cn_from_data(order, CN_SHAPE(3, 1), CN_I64)), 0);
  ASSERT_STRINGS(&d, "dr\xc3\xb6l", "one", "one");
  assert_int_equal(cn_ndim(d.lengths), 2);
  cn_strings keys = STRINGS("two", "one", "one");
  ASSERT_NUMBERS(cn_strings_find(&a, &keys), 1, -1, -1, 1);
  cn_tensor *values = cn_arange(10, 13, .dtype = CN_I64);
  ASSERT_NUMBERS(cn_strings_lookup(&b, &keys, values, cn_full(CN_SHAPE(1), -5, .dtype = CN_I64)), 11, -5, -5, 10);
  cn_strings none = {a.bytes, cn_zeros(CN_SHAPE(0), .dtype = CN_I64)};
  assert_int_equal(cn_numel(cn_strings_equal(&none, &c)), 0);
  ASSERT_NUMBERS(cn_strings_find(&c, &none), -1);
}

static void test_numbers(void **state)
{
  (void)state;
  const double reals[6] = {0.1, -2.5e-7, 1e30, 3, HUGE_VAL, -0.0};
  const int64_t whole[3] = {0, INT64_MIN, 42};
  cn_strings s;
  cn_tensor *x = cn_from_data(reals, CN_SHAPE(2, 3), CN_F64);
  assert_int_equal(cn_strings_format(&s, cn_cast(x, CN_F32)), 0);
  ASSERT_STRINGS(&s, "0.1", "-2.5e-07", "1e+30", "3", "inf", "-0");
  assert_true(cn_item(cn_all(cn_eq(cn_strings_parse(&s, CN_F32), cn_cast(x, CN_F32)))) > 0);
  assert_int_equal(cn_strings_format(&s, cn_transpose(x, 0, 1)), 0); /* in row-major order whatever memory has */
  ASSERT_STRINGS(&s, "0.1", "3", "-2.5e-07", "inf", "1e+30", "-0");
  assert_int_equal(cn_strings_format(&s, cn_from_data(whole, CN_SHAPE(3), CN_I64)), 0);
  ASSERT_STRINGS(&s, "0", "-9223372036854775808", "42");
  ASSERT_NUMBERS(cn_strings_parse(&s, CN_I64), 0, INT64_MIN, 42);
  assert_null(cn_strings_parse(&s, CN_I8));
  assert_fails(CN_ERR_VALUE, "is no int8");
  assert_int_equal(cn_strings_format(&s, cn_gt(x, cn_num(0))), 0);
  ASSERT_STRINGS(&s, "True", "False", "True", "True", "True", "False");
  ASSERT_NUMBERS(cn_strings_parse(&s, CN_BOOL), 1, 0, 1, 1, 1, 0);
  s = STRINGS("1", "two");
  assert_null(cn_strings_parse(&s, CN_F32));
  assert_fails(CN_ERR_VALUE, "'two' is no float32");
  s = STRINGS("");
  assert_null(cn_strings_parse(&s, CN_F32));
  cn_err_clear();
}

static void test_refusals(void **state)
{
  (void)state;
  cn_scope *scope = cn_scope_begin();
  cn_strings a = STRINGS("a", "b"), b = STRINGS("a", "b", "c"), out;
  cn_device mirror = cn_device_find("mirror");
  assert_null(cn_strings_equal(&a, &b));
  assert_fails(CN_ERR_SHAPE, "do not fit");
  assert_null(cn_strings_get(&a, 2));
  assert_fails(CN_ERR_INDEX, "no string 2");
  cn_strings bad = {a.lengths, a.lengths};
  assert_true(cn_strings_concat(&out, &bad, &a) < 0);
  assert_fails(CN_ERR_DTYPE, "uint8");
  cn_strings there = {cn_to_device(a.bytes, mirror), cn_to_device(a.lengths, mirror)};
  ASSERT_NUMBERS(cn_to_device(cn_strings_equal(&there, &there), CN_CPU), 1, 1); /* what is made of ops runs there */
  cn_tensor *x = cn_requires_grad(cn_ones(CN_SHAPE(2)), true);
  assert_int_equal(cn_strings_format(&out, x), 0);
  assert_false(cn_needs_grad(out.bytes)); /* no gradient goes through strings */
  cn_scope_end(scope);
}

/* ---- in graphs ---- */

/* in: bytes and lengths of words (4), numbers (4). Labels of words, looked up in a constant of the graph, and the words
 * with their numbers behind. */
static int label_fn(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  const char *const names[3] = {"cat", "dog", BEETLE}, *const colon[1] = {": "};
  const int64_t three = 3, one = 1;
  cn_strings words = {in[0], in[1]}, keys, between, text, numbers;
  (void)payload;
  if (cn_strings_from(&keys, names, &three, 1) || cn_strings_from(&between, colon, &one, 1)) return cn_err();
  cn_tensor *labels = cn_add(cn_arange(0, 3, .dtype = CN_I64), cn_int(100));
  out[0] = cn_strings_lookup(&words, &keys, labels, cn_full(CN_SHAPE(1), -1, .dtype = CN_I64));
  if (cn_strings_format(&numbers, in[2]) || cn_strings_concat(&text, &words, &between) ||
      cn_strings_concat(&text, &text, &numbers))
    return cn_err();
  out[1] = text.bytes;
  out[2] = text.lengths;
  out[3] = cn_add(cn_strings_parse(&numbers, CN_F64), cn_num(1));
  return cn_err();
}

static void check_run(cn_graph *g, bool replayed, const cn_strings *words, cn_tensor *x)
{
  cn_tensor *in[3] = {words->bytes, words->lengths, x}, *have[4], *want[4];
  if (label_fn(want, in, NULL)) fail_msg("%s", cn_err_message());
  if (replayed ? cn_graph_replay(have, g, in) : cn_graph_run(have, g, in)) fail_msg("%s", cn_err_message());
  for (int i = 0; i < 4; i++) {
    assert_int_equal(cn_numel(have[i]), cn_numel(want[i]));
    assert_true(cn_item(cn_all(cn_eq(have[i], want[i]))) > 0);
  }
}

static void test_graph(void **state)
{
  (void)state;
  const char *path = "test_strings.safetensors";
  cn_strings words = STRINGS("cat", BEETLE, "cow", "dog"), others = STRINGS("", "dog", "dog", "cats");
  cn_tensor *in[3] = {words.bytes, words.lengths, cn_randn(CN_SHAPE(4))}, *out[4];
  cn_graph *g = cn_trace(label_fn, 4, in, 3, NULL);
  if (!g) fail_msg("%s", cn_err_message());
  if (cn_graph_run(out, g, in)) fail_msg("%s", cn_err_message());
  ASSERT_NUMBERS(out[0], 100, 102, -1, 101);
  assert_int_equal(cn_graph_save(g, path), 0);
  cn_graph *loaded = cn_graph_load(path);
  if (!loaded) fail_msg("%s", cn_err_message());
  for (int i = 0; i < 3; i++) {
    cn_tensor *x = cn_randn(CN_SHAPE(4));
    check_run(g, false, i % 2 ? &others : &words, x);
    check_run(g, true, i % 2 ? &others : &words, x);
    check_run(loaded, false, i % 2 ? &others : &words, x);
  }
  cn_graph_free(loaded);
  cn_graph_free(g);
  cn_file_remove(path);
}

static int compiled_fn(cn_compile_call *k)
{
  k->noutputs = 4;
  return label_fn(k->outputs, k->inputs, NULL);
}

static void test_compiled(void **state)
{
  (void)state;
  cn_compiled *c = cn_compile(compiled_fn, .fullgraph = true);
  const char *const words[2][4] = {{"dog", "", "cat", BEETLE}, {"a", "dog", "bb", "ccc"}};
  const char *const firsts[4] = {"dog: 0", "a: 0.5", "dog: 1", "a: 1.5"};
  cn_compile_stats stats;
  for (int i = 0; i < 4; i++) {
    cn_strings s = strings(4, words[i % 2]), text;
    cn_tensor *in[3] = {s.bytes, s.lengths, cn_full(CN_SHAPE(4), 0.5 * i)}, *out[4];
    cn_compile_call k = {.inputs = in, .ninputs = 3, .outputs = out, .noutputs = 4};
    if (cn_compiled_call(c, &k)) fail_msg("%s", cn_err_message());
    text = (cn_strings){out[1], out[2]};
    char *first = cn_strings_get(&text, 0);
    assert_string_equal(first, firsts[i]);
    cn_string_free(first);
  }
  cn_compile_stats_get(&stats, sizeof stats, c);
  assert_int_equal(stats.executables, 1); /* words of other lengths are no other kind of call */
  assert_int_equal(stats.runs, 4);
  cn_compiled_free(c);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, clear_errors, NULL)

int main(void)
{
  const struct CMUnitTest tests[] = {TEST(test_strings), TEST(test_numbers), TEST(test_refusals), TEST(test_graph),
                                     TEST(test_compiled)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
