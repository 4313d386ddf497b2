/* test_rewrites.c: every row of the rewriter and every pass, on the text form: a graph before, and after. */
#include <cairn/cairn.h>
#include <cairn/ext/graph.h>
#include <string.h>

#include "test.h"

#define X "%0 = input float32 [2, 3]\n"
#define Y X "%1 = input float32 [2, 3]\n"
#define I "%0 = input int64 [4]\n"

/* What cn_graph_optimise makes of a graph. after NULL: nothing. */
static const struct pair {
  const char *name, *before, *after;
} pairs[] = {
  {"neg_neg",
   X "%1 = neg(%0) : float32 [2, 3]\n%2 = neg(%1) : float32 [2, 3]\n%3 = exp(%2) : float32 [2, 3]\noutput %3\n",
   X "%1 = exp(%0) : float32 [2, 3]\noutput %1\n"},
  {"neg_neg, inner value used",
   X "%1 = neg(%0) : float32 [2, 3]\n%2 = neg(%1) : float32 [2, 3]\noutput %1\noutput %2\n",
   X "%1 = neg(%0) : float32 [2, 3]\noutput %1\noutput %0\n"},
  {"not_not", "%0 = input bool [2]\n%1 = logical_not(%0) : bool [2]\n%2 = logical_not(%1) : bool [2]\noutput %2\n",
   "%0 = input bool [2]\noutput %0\n"},
  {"not_not of numbers", X "%1 = logical_not(%0) : bool [2, 3]\n%2 = logical_not(%1) : bool [2, 3]\noutput %2\n", NULL},
  {"not_eq", Y "%2 = eq(%0, %1) : bool [2, 3]\n%3 = logical_not(%2) : bool [2, 3]\noutput %3\n",
   Y "%2 = ne(%0, %1) : bool [2, 3]\noutput %2\n"},
  {"not_ne", Y "%2 = ne(%0, %1) : bool [2, 3]\n%3 = logical_not(%2) : bool [2, 3]\noutput %3\n",
   Y "%2 = eq(%0, %1) : bool [2, 3]\noutput %2\n"},
  {"not less is not greater: NaN", Y "%2 = lt(%0, %1) : bool [2, 3]\n%3 = logical_not(%2) : bool [2, 3]\noutput %3\n",
   NULL},
  {"where_not",
   Y "%2 = input bool [3]\n%3 = logical_not(%2) : bool [3]\n%4 = where(%3, %0, %1) : float32 [2, 3]\noutput %4\n",
   Y "%2 = input bool [3]\n%3 = where(%2, %1, %0) : float32 [2, 3]\noutput %3\n"},
  {"floor_floor", X "%1 = floor(%0) : float32 [2, 3]\n%2 = floor(%1) : float32 [2, 3]\noutput %2\n",
   X "%1 = floor(%0) : float32 [2, 3]\noutput %1\n"},
  {"ceil_ceil", X "%1 = ceil(%0) : float32 [2, 3]\n%2 = ceil(%1) : float32 [2, 3]\noutput %2\n",
   X "%1 = ceil(%0) : float32 [2, 3]\noutput %1\n"},
  {"trunc_trunc", X "%1 = trunc(%0) : float32 [2, 3]\n%2 = trunc(%1) : float32 [2, 3]\noutput %2\n",
   X "%1 = trunc(%0) : float32 [2, 3]\noutput %1\n"},
  {"floor_ceil", X "%1 = ceil(%0) : float32 [2, 3]\n%2 = floor(%1) : float32 [2, 3]\noutput %2\n", NULL},
  {"cast_cast", "%0 = input bfloat16 [4]\n%1 = cast(%0, float32) : float32 [4]\n%2 = cast(%1, float16) : float16 [4]\n"
                "output %2\n",
   "%0 = input bfloat16 [4]\n%1 = cast(%0, float16) : float16 [4]\noutput %1\n"},
  {"cast_cast and back", "%0 = input float16 [4]\n%1 = cast(%0, float64) : float64 [4]\n"
                         "%2 = cast(%1, float16) : float16 [4]\noutput %2\n", "%0 = input float16 [4]\noutput %0\n"},
  {"a cast that rounds",
   X "%1 = cast(%0, float16) : float16 [2, 3]\n%2 = cast(%1, float32) : float32 [2, 3]\noutput %2\n",
   NULL},
  {"a cast of integers that rounds",
   I "%1 = cast(%0, float32) : float32 [4]\n%2 = cast(%1, int64) : int64 [4]\noutput %2\n",
   NULL},
  {"abs_neg", X "%1 = neg(%0) : float32 [2, 3]\n%2 = abs(%1) : float32 [2, 3]\noutput %2\n",
   X "%1 = abs(%0) : float32 [2, 3]\noutput %1\n"},
  {"abs_abs", X "%1 = abs(%0) : float32 [2, 3]\n%2 = abs(%1) : float32 [2, 3]\noutput %2\n",
   X "%1 = abs(%0) : float32 [2, 3]\noutput %1\n"},
  {"relu_relu", X "%1 = relu(%0) : float32 [2, 3]\n%2 = relu(%1) : float32 [2, 3]\noutput %2\n",
   X "%1 = relu(%0) : float32 [2, 3]\noutput %1\n"},
  {"mul_one",
   X "%1 = scalar float64 weak 1\n%2 = mul(%0, %1) : float32 [2, 3]\n%3 = exp(%2) : float32 [2, 3]\noutput %3\n",
   X "%1 = exp(%0) : float32 [2, 3]\noutput %1\n"},
  {"one_mul", X "%1 = scalar int64 weak 1\n%2 = mul(%1, %0) : float32 [2, 3]\noutput %2\n", X "output %0\n"},
  {"mul by a constant of one element", X "%1 = const float32 [] <1>\n%2 = mul(%0, %1) : float32 [2, 3]\noutput %2\n",
   X "output %0\n"},
  {"mul_one raises the type", I "%1 = scalar float64 weak 1\n%2 = mul(%0, %1) : float32 [4]\noutput %2\n", NULL},
  {"half", X "%1 = scalar int64 weak 2\n%2 = true_divide(%0, %1) : float32 [2, 3]\noutput %2\n",
   X "%1 = scalar float64 weak 0x1p-1\n%2 = mul(%0, %1) : float32 [2, 3]\noutput %2\n"},
  {"half of integers is float32", I "%1 = scalar int64 weak 2\n%2 = true_divide(%0, %1) : float32 [4]\noutput %2\n",
   I "%1 = scalar float64 weak 0x1p-1\n%2 = mul(%0, %1) : float32 [4]\noutput %2\n"},
  {"div_one", X "%1 = scalar int64 weak 1\n%2 = true_divide(%0, %1) : float32 [2, 3]\noutput %2\n", X "output %0\n"},
  {"div_one of integers", I "%1 = scalar int64 weak 1\n%2 = true_divide(%0, %1) : float32 [4]\noutput %2\n", NULL},
  {"sub_zero", X "%1 = scalar int64 weak 0\n%2 = sub(%0, %1, 1) : float32 [2, 3]\noutput %2\n", X "output %0\n"},
  {"sub of -0.0 is not sub_zero",
   X "%1 = scalar float64 weak -0x0p+0\n%2 = sub(%0, %1, 1) : float32 [2, 3]\noutput %2\n", NULL},
  {"add_zero of floats changes -0.0",
   X "%1 = scalar int64 weak 0\n%2 = add(%0, %1, 1) : float32 [2, 3]\noutput %2\n", NULL},
  {"add_zero", I "%1 = scalar int64 weak 0\n%2 = add(%0, %1, 1) : int64 [4]\noutput %2\n", I "output %0\n"},
  {"zero_add", I "%1 = scalar int64 weak 0\n%2 = add(%1, %0, 1) : int64 [4]\noutput %2\n", I "output %0\n"},
  {"add_minus_zero",
   X "%1 = scalar float64 weak -0x0p+0\n%2 = add(%0, %1, 1) : float32 [2, 3]\noutput %2\n", X "output %0\n"},
  {"maximum_same", X "%1 = maximum(%0, %0) : float32 [2, 3]\noutput %1\n", X "output %0\n"},
  {"minimum_same", X "%1 = minimum(%0, %0) : float32 [2, 3]\noutput %1\n", X "output %0\n"},
  {"where_same", X "%1 = input bool [3]\n%2 = where(%1, %0, %0) : float32 [2, 3]\noutput %2\n",
   X "%1 = input bool [3]\noutput %0\n"},
  {"where that broadcasts",
   X "%1 = input bool [4, 2, 3]\n%2 = where(%1, %0, %0) : float32 [4, 2, 3]\noutput %2\n", NULL},
  {"view_view", X "%1 = view(%0, [6]) : float32 [6]\n%2 = view(%1, [3, 2]) : float32 [3, 2]\noutput %2\n",
   X "%1 = view(%0, [3, 2]) : float32 [3, 2]\noutput %1\n"},
  {"reshape_reshape", X "%1 = reshape(%0, [6]) : float32 [6]\n%2 = reshape(%1, [3, 2]) : float32 [3, 2]\noutput %2\n",
   X "%1 = reshape(%0, [3, 2]) : float32 [3, 2]\noutput %1\n"},
  {"reshape_reshape of a transposed value",
   X "%1 = transpose(%0, 0, 1) : float32 [3, 2]\n%2 = reshape(%1, [6]) : float32 [6]\n"
   "%3 = reshape(%2, [2, -1]) : float32 [2, 3]\noutput %3\n",
   X "%1 = transpose(%0, 0, 1) : float32 [3, 2]\n%2 = reshape(%1, [2, -1]) : float32 [2, 3]\noutput %2\n"},
  {"transpose_transpose, of sizes that change",
   "size A = 2 in 1..64\nsize B = 3 in 1..64\n%0 = input float32 [$A, $B]\n%1 = transpose(%0, 0, 1) : float32 [3, 2]\n"
   "%2 = transpose(%1, 0, 1) : float32 [2, 3]\noutput %2\n",
   "size A = 2 in 1..64\nsize B = 3 in 1..64\n%0 = input float32 [$A, $B]\noutput %0\n"},
  {"expand_expand",
   "%0 = input float32 [1, 1, 3]\n%1 = expand(%0, [1, 2, 3]) : float32 [1, 2, 3]\n"
   "%2 = expand(%1, [4, 2, 3]) : float32 [4, 2, 3]\noutput %2\n",
   "%0 = input float32 [1, 1, 3]\n%1 = expand(%0, [4, 2, 3]) : float32 [4, 2, 3]\noutput %1\n"},
  {"permute_permute",
   "%0 = input float32 [2, 3, 4]\n%1 = permute(%0, [2, 0, 1]) : float32 [4, 2, 3]\n"
   "%2 = permute(%1, [0, 2, 1]) : float32 [4, 3, 2]\noutput %2\n",
   "%0 = input float32 [2, 3, 4]\n%1 = permute(%0, [2, 1, 0]) : float32 [4, 3, 2]\noutput %1\n"},
  {"permutes that cancel",
   "%0 = input float32 [2, 3, 4]\n%1 = permute(%0, [2, 0, 1]) : float32 [4, 2, 3]\n"
   "%2 = permute(%1, [1, 2, 0]) : float32 [2, 3, 4]\noutput %2\n",
   "%0 = input float32 [2, 3, 4]\noutput %0\n"},
  {"transpose of a permute, dims from the end",
   "%0 = input float32 [2, 3, 4]\n%1 = permute(%0, [-1, 0, 1]) : float32 [4, 2, 3]\n"
   "%2 = transpose(%1, -1, -2) : float32 [4, 3, 2]\noutput %2\n",
   "%0 = input float32 [2, 3, 4]\n%1 = permute(%0, [2, 1, 0]) : float32 [4, 3, 2]\noutput %1\n"},
  {"transposes of different dims",
   "%0 = input float32 [2, 3, 4]\n%1 = transpose(%0, 0, 1) : float32 [3, 2, 4]\n"
   "%2 = transpose(%1, 1, 2) : float32 [3, 4, 2]\noutput %2\n",
   "%0 = input float32 [2, 3, 4]\n%1 = permute(%0, [1, 2, 0]) : float32 [3, 4, 2]\noutput %1\n"},
  {"view_view over a copy that must stay",
   X "%1 = transpose(%0, 0, 1) : float32 [3, 2]\n%2 = contiguous_copy(%1) : float32 [3, 2]\n"
   "%3 = view(%2, [6]) : float32 [6]\n%4 = view(%3, [2, 3]) : float32 [2, 3]\noutput %4\n",
   X "%1 = transpose(%0, 0, 1) : float32 [3, 2]\n%2 = contiguous_copy(%1) : float32 [3, 2]\n"
   "%3 = view(%2, [2, 3]) : float32 [2, 3]\noutput %3\n"},
  /* canonicalise */
  {"clone", X "%1 = clone(%0) : float32 [2, 3]\n%2 = exp(%1) : float32 [2, 3]\noutput %2\n",
   X "%1 = exp(%0) : float32 [2, 3]\noutput %1\n"},
  {"a clone that makes two outputs",
   X "%1 = exp(%0) : float32 [2, 3]\n%2 = clone(%1) : float32 [2, 3]\noutput %1\noutput %2\n", NULL},
  {"a clone into another memory order",
   X "%1 = transpose(%0, 0, 1) : float32 [3, 2]\n%2 = contiguous_copy(%1) : float32 [3, 2]\noutput %2\n", NULL},
  {"cast to the same", X "%1 = cast(%0, float32) : float32 [2, 3]\noutput %1\n", X "output %0\n"},
  {"reshape to the same", X "%1 = view(%0, [2, 3]) : float32 [2, 3]\noutput %1\n", X "output %0\n"},
  {"expand to the same", X "%1 = expand(%0, [2, 3]) : float32 [2, 3]\noutput %1\n", X "output %0\n"},
  {"views there and back",
   X "%1 = view(%0, [3, 2]) : float32 [3, 2]\n%2 = view(%1, [2, 3]) : float32 [2, 3]\noutput %2\n",
   X "output %0\n"},
  {"views of a size that changes",
   "size A = 2 in 1..64\n%0 = input float32 [$A, 3]\n%1 = expand(%0, [2, 3]) : float32 [2, 3]\noutput %1\n", NULL},
  {"copy", X "%1 = exp(%0) : float32 [2, 3]\n%2 = copy(%0, %1) : float32 [2, 3]\noutput %2\n",
   X "%1 = exp(%0) : float32 [2, 3]\noutput %1\n"},
  /* fold */
  {"fold", X "%1 = const float32 [3] <1, 2, 3>\n%2 = scalar int64 weak 2\n%3 = mul(%1, %2) : float32 [3]\n"
           "%4 = add(%0, %3, 1) : float32 [2, 3]\noutput %4\n",
   X "%2 = const float32 [3] <2, 4, 6>\n%1 = add(%0, %2, 1) : float32 [2, 3]\noutput %1\n"},
  {"fold of what makes its own",
   X "%1 = arange(0, 3, 1, none, none) : int64 [3]\n%2 = add(%0, %1, 1) : float32 [2, 3]\noutput %2\n",
   X "%2 = const int64 [3] <0, 1, 2>\n%1 = add(%0, %2, 1) : float32 [2, 3]\noutput %1\n"},
  {"fold of what reads a shape",
   X "%1 = exp(%0) : float32 [2, 3]\n%2 = full_like(%1, 0x1p+1, none, none) : float32 [2, 3]\n"
     "%3 = mul(%0, %2) : float32 [2, 3]\noutput %3\n",
   X "%2 = const float32 [2, 3] <0x1p+1, 0x1p+1, 0x1p+1, 0x1p+1, 0x1p+1, 0x1p+1>\n"
     "%1 = mul(%0, %2) : float32 [2, 3]\noutput %1\n"},
  {"a shape that changes",
   "size A = 2 in 1..64\n%0 = input float32 [$A]\n%1 = full_like(%0, 0x1p+1, none, none) : float32 [2]\noutput %1\n",
   NULL},
  /* cse */
  {"cse",
   X "%1 = exp(%0) : float32 [2, 3]\n%2 = exp(%0) : float32 [2, 3]\n%3 = mul(%1, %2) : float32 [2, 3]\noutput %3\n",
   X "%1 = exp(%0) : float32 [2, 3]\n%2 = mul(%1, %1) : float32 [2, 3]\noutput %2\n"},
  {"cse of numbers",
   X "%1 = scalar int64 weak 3\n%2 = scalar int64 weak 3\n%3 = add(%0, %1, 1) : float32 [2, 3]\n"
   "%4 = add(%0, %2, 1) : float32 [2, 3]\n%5 = mul(%3, %4) : float32 [2, 3]\noutput %5\n",
   X "%1 = scalar int64 weak 3\n%2 = add(%0, %1, 1) : float32 [2, 3]\n%3 = mul(%2, %2) : float32 [2, 3]\noutput %3\n"},
  {"cse keeps outputs apart",
   X "%1 = exp(%0) : float32 [2, 3]\n%2 = exp(%0) : float32 [2, 3]\noutput %1\noutput %2\n", NULL},
  {"cse keeps draws apart",
   "draw 4\ndraw 4\n%0 = rand([4], none, none) : float32 [4] draw 0\n%1 = rand([4], none, none) : float32 [4] draw 1\n"
   "%2 = sub(%0, %1, 1) : float32 [4]\noutput %2\n", NULL},
  {"cse of one draw",
   "draw 4\n%0 = rand([4], none, none) : float32 [4] draw 0\n%1 = rand([4], none, none) : float32 [4] draw 0\n"
   "%2 = sub(%0, %1, 1) : float32 [4]\noutput %2\n",
   "draw 4\n%0 = rand([4], none, none) : float32 [4] draw 0\n%1 = sub(%0, %0, 1) : float32 [4]\noutput %1\n"},
  {"cse leaves what a checkpoint computes again",
   X "%1 = exp(%0) : float32 [2, 3]\n%2 = exp(%0) : float32 [2, 3] in 0\n%3 = mul(%1, %2) : float32 [2, 3]\n"
   "scope 0 'checkpoint' 'recompute'\noutput %3\n", NULL},
  {"dead", X "%1 = exp(%0) : float32 [2, 3]\noutput %0\n", X "output %0\n"},
};

static cn_graph *parse(const struct pair *p, const char *text)
{
  cn_graph *g = cn_graph_parse(text);
  if (!g) fail_msg("%s: %s", p->name, cn_err_message());
  return g;
}

static void assert_pair(const struct pair *p)
{
  cn_graph *g = parse(p, p->before), *want = parse(p, p->after ? p->after : p->before);
  int n = cn_graph_optimise(g);
  if (n < 0) fail_msg("%s: %s", p->name, cn_err_message());
  char *text = cn_graph_to_string(g), *wanted = cn_graph_to_string(want);
  if (cn_graph_verify(g)) fail_msg("%s: %s\n%s", p->name, cn_err_message(), text);
  if (strcmp(text, wanted)) fail_msg("%s:\n%s", p->name, text);
  if ((n > 0) != (p->after != NULL)) fail_msg("%s: %d changes", p->name, n);
  cn_string_free(text);
  cn_string_free(wanted);
  cn_graph_free(g);
  cn_graph_free(want);
}

static void test_rows(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) assert_pair(&pairs[i]);
}

/* ---- rows of others ---- */

static bool dim_is_last(const cn_match *m)
{
  cn_value_info v = {sizeof v};
  const cn_value *dim = cn_match_attribute(m, "dim");
  assert_int_equal(cn_graph_value_at(&v, cn_match_graph(m), cn_match_value(m, "x")), 0);
  assert_null(cn_match_attribute(m, "$no"));
  assert_true(cn_match_value(m, "y") < 0);
  return dim->u.i == v.ndim - 1 || dim->u.i == -1;
}

static void test_own_rows(void **state)
{
  (void)state;
  static const cn_rewrite rows[] = {
    {"log_softmax", "log(softmax(x, $dim))", dim_is_last, "log_softmax(x, $dim)", true},
    {"cat_one", "cat({x}, _)", NULL, "x", true},
    {"twice", "add(x, x)", NULL, "mul(x, 2)", true},
  };
  cn_graph *g = cn_graph_parse(X "%1 = softmax(%0, 1, none) : float32 [2, 3]\n%2 = log(%1) : float32 [2, 3]\n"
                               "%3 = softmax(%0, 0, none) : float32 [2, 3]\n%4 = log(%3) : float32 [2, 3]\n"
                               "%5 = cat({%4}, 0) : float32 [2, 3]\n%6 = add(%2, %2, 1) : float32 [2, 3]\n"
                               "%7 = add(%5, %5, 2) : float32 [2, 3]\noutput %6\noutput %7\n");
  if (!g) fail_msg("%s", cn_err_message());
  if (cn_graph_rewrite(g, rows, 3) != 3) fail_msg("%s", cn_err_message());
  char *text = cn_graph_to_string(g);
  assert_string_equal(text, X "%5 = scalar int64 weak 2\n%4 = log_softmax(%0, 1, none) : float32 [2, 3]\n"
                              "%1 = softmax(%0, 0, none) : float32 [2, 3]\n%2 = log(%1) : float32 [2, 3]\n"
                              "%6 = mul(%4, %5) : float32 [2, 3]\n%3 = add(%2, %2, 2) : float32 [2, 3]\n"
                              "output %6\noutput %3\n");
  cn_string_free(text);
  cn_graph_free(g);
}

/* What cn_graph_rewrite makes of a graph by one row. after NULL: nothing. */
static void assert_row(const cn_rewrite *row, const char *before, const char *after)
{
  cn_graph *g = cn_graph_parse(before), *want = cn_graph_parse(after ? after : before);
  if (!g || !want) fail_msg("%s: %s", row->name, cn_err_message());
  int n = cn_graph_rewrite(g, row, 1);
  if (n < 0) fail_msg("%s: %s", row->name, cn_err_message());
  char *text = cn_graph_to_string(g), *wanted = cn_graph_to_string(want);
  if (strcmp(text, wanted) || (n > 0) != (after != NULL)) fail_msg("%s: %d\n%s", row->name, n, text);
  cn_string_free(text);
  cn_string_free(wanted);
  cn_graph_free(g);
  cn_graph_free(want);
}

#define MUL_EXP "%2 = exp(%0) : float32 [2, 3]\n"

static void test_orders_of_operands(void **state)
{
  (void)state;
  const cn_rewrite times = {"times", "mul(exp(x), y)", NULL, "sub(x, y)", true},
                   plus = {"plus", "add(exp(x), y)", NULL, "sub(x, y)", true},
                   less = {"less", "sub(exp(x), y)", NULL, "add(x, y)", true},
                   both = {"both", "mul(x, sin(x))", NULL, "cos(x)", true};
  const char *done = Y "%2 = sub(%0, %1, 1) : float32 [2, 3]\noutput %2\n";
  assert_row(&times, Y MUL_EXP "%3 = mul(%2, %1) : float32 [2, 3]\noutput %3\n", done);
  assert_row(&times, Y MUL_EXP "%3 = mul(%1, %2) : float32 [2, 3]\noutput %3\n", done);
  assert_row(&plus, Y MUL_EXP "%3 = add(%1, %2, 1) : float32 [2, 3]\noutput %3\n", done);
  assert_row(&plus, Y MUL_EXP "%3 = add(%1, %2, 2) : float32 [2, 3]\noutput %3\n", NULL);
  assert_row(&less, Y MUL_EXP "%3 = sub(%1, %2, 1) : float32 [2, 3]\noutput %3\n", NULL);
  assert_row(&both, X "%1 = sin(%0) : float32 [2, 3]\n%2 = mul(%1, %0) : float32 [2, 3]\noutput %2\n",
             X "%1 = cos(%0) : float32 [2, 3]\noutput %1\n"); /* x is first taken for the sine */
  assert_row(&both, Y "%2 = sin(%0) : float32 [2, 3]\n%3 = mul(%2, %1) : float32 [2, 3]\noutput %3\n", NULL);
}

static void test_choices(void **state)
{
  (void)state;
  const cn_rewrite either = {"either", "neg((sin(x) | cos(x)))", NULL, "exp(x)", true},
                   root = {"root", "(sin(exp(x)) | cos(exp(x)))", NULL, "x", true},
                   maybe = {"maybe", "neg(cast?(exp(x), _))", NULL, "cos(x)", true},
                   inner = {"inner", "mul(e = exp(x), sin(e))", NULL, "x", true};
  assert_row(&either, X "%1 = cos(%0) : float32 [2, 3]\n%2 = neg(%1) : float32 [2, 3]\noutput %2\n",
             X "%1 = exp(%0) : float32 [2, 3]\noutput %1\n");
  assert_row(&either, X "%1 = tan(%0) : float32 [2, 3]\n%2 = neg(%1) : float32 [2, 3]\noutput %2\n", NULL);
  assert_row(&root, X "%1 = exp(%0) : float32 [2, 3]\n%2 = cos(%1) : float32 [2, 3]\noutput %2\n", X "output %0\n");
  assert_row(&maybe, X "%1 = exp(%0) : float32 [2, 3]\n%2 = neg(%1) : float32 [2, 3]\noutput %2\n",
             X "%1 = cos(%0) : float32 [2, 3]\noutput %1\n");
  assert_row(&maybe, X "%1 = exp(%0) : float32 [2, 3]\n%2 = cast(%1, float64) : float64 [2, 3]\n"
                       "%3 = neg(%2) : float64 [2, 3]\noutput %3\n", NULL); /* of another type */
  assert_row(&inner, X "%1 = exp(%0) : float32 [2, 3]\n%2 = sin(%1) : float32 [2, 3]\n"
                       "%3 = mul(%2, %1) : float32 [2, 3]\noutput %3\n", X "output %0\n");
  assert_row(&inner, X "%1 = exp(%0) : float32 [2, 3]\n%2 = sin(%0) : float32 [2, 3]\n"
                       "%3 = mul(%2, %1) : float32 [2, 3]\noutput %3\n", NULL);
}

static bool give_sizes(const cn_match *m)
{
  cn_value_info x = {sizeof x};
  double eps;
  assert_int_equal(cn_graph_value_at(&x, cn_match_graph(m), cn_match_value(m, "x")), 0);
  assert_false(cn_match_give(m, "$nobody", cn_v_int(1)));
  assert_false(cn_match_number(&eps, m, "x"));
  return cn_match_number(&eps, m, "#eps") && eps < 1 && cn_match_give(m, "$shape", cn_v_ints(x.shape + 1, 1));
}

static void test_numbers(void **state)
{
  (void)state;
  const cn_rewrite norm = {"norm", "add(x, #eps)", give_sizes, "native_rms_norm(x, $shape, none, #eps)", false},
                   near = {"near", "mul(x, ~0.7071067811865476)", NULL, "x", true},
                   same = {"same", "mul(x, 0.7071067811865476)", NULL, "x", true};
  const char *rounded = X "%1 = const float32 [] <0x1.6a09e6p-1>\n%2 = mul(%0, %1) : float32 [2, 3]\noutput %2\n";
  assert_row(&norm, X "%1 = scalar float64 weak 0x1p-10\n%2 = add(%1, %0, 1) : float32 [2, 3]\noutput %2\n",
             X "%1, %2 = native_rms_norm(%0, [3], none, 0x1p-10) : float32 [2, 3], float32 [2, 1]\noutput %1\n");
  assert_row(&norm, X "%1 = scalar int64 weak 3\n%2 = add(%0, %1, 1) : float32 [2, 3]\noutput %2\n", NULL);
  assert_row(&norm, Y "%2 = add(%0, %1, 1) : float32 [2, 3]\noutput %2\n", NULL);
  assert_row(&near, rounded, X "output %0\n");
  assert_row(&same, rounded, NULL);
  assert_row(&near, X "%1 = scalar float64 weak 0x1.6ap-1\n%2 = mul(%0, %1) : float32 [2, 3]\noutput %2\n", NULL);
}

static void test_rows_that_cannot_be_read(void **state)
{
  (void)state;
  static const char *const bad[][2] = {
    {"x", "x"},           {"neg(x", "x"},       {"neg(x))", "x"},    {"nonsense(x)", "x"}, {"neg(x)", "y"},
    {"neg(x)", "_"},      {"neg(x)", "neg(_)"}, {"neg(x, x)", "x"},  {"neg($x)", "x"},     {"neg({x})", "x"},
    {"sum(x, y)", "x"},   {"neg('a)", "x"},     {"unbind(x)", "x"},    {"neg(x)", ""},       {"neg(x)", "1"},
    {"mul(x)", "x"}, {"reshape(x, [1", "x"}, {"cat(x, 0)", "x"}, {"neg(x)", "neg($y)"}, {"", "x"},
    {"neg(%)", "x"}, {"neg?(x)", "x"}, {"neg(())", "x"}, {"neg((x | ))", "x"}, {"(neg(x) | y)", "x"},
    {"neg(a = b)", "a"}, {"neg(x)", "(x | x)"}, {"neg(x)", "abs?(x)"}, {"sum(x, _)", "sum(x, $d)"}, {"add(x, #)", "x"},
  };
  cn_graph *g = cn_graph_parse(X "output %0\n");
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    cn_rewrite row = {"bad", bad[i][0], NULL, bad[i][1], false};
    if (cn_graph_rewrite(g, &row, 1) >= 0) fail_msg("%s -> %s was read", bad[i][0], bad[i][1]);
    assert_non_null(strstr(cn_err_message(), "'bad'"));
    cn_err_clear();
    assert_true(cn_rewrite_register(&row, 1) < 0);
    cn_err_clear();
  }
  cn_graph_free(g);
}

static void test_registered_rows(void **state)
{
  (void)state;
  static const cn_rewrite row = {"sin_cos", "sin(cos(sin(x)))", NULL, "sin(x)", true}; /* nobody else computes this */
  const struct pair p = {"sin_cos",
                         X "%1 = sin(%0) : float32 [2, 3]\n%2 = cos(%1) : float32 [2, 3]\n"
                         "%3 = sin(%2) : float32 [2, 3]\noutput %3\n", X "%1 = sin(%0) : float32 [2, 3]\noutput %1\n"};
  assert_int_equal(cn_rewrite_register(&row, 1), 0);
  assert_pair(&p);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_rows), cmocka_unit_test(test_own_rows),
    cmocka_unit_test(test_orders_of_operands), cmocka_unit_test(test_choices), cmocka_unit_test(test_numbers),
    cmocka_unit_test(test_rows_that_cannot_be_read),
    cmocka_unit_test(test_registered_rows),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
