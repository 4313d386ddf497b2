/* test_loop.c: the loop form by itself: its text, what the verifier refuses, and what a nest computes: padding,
 * windows, gathers, reductions, types, threads. That ops become nests is shown by tests/ops (the driver "lower"). */
#include <cairn/cairn.h>
#include <cairn/kw.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/loop/nest_run.h"
#include "test.h"

enum { MOST = 4 };

static int setup(void **state)
{
  (void)state;
  cn_err_clear();
  cn_seed(3);
  return 0;
}

static cni_nest_operand operand_of(const cn_tensor *t)
{
  const cn_desc *d = cn_desc_of(t);
  cni_nest_operand o = {.dtype = d->dtype, .ndim = d->ndim};
  memcpy(o.shape, d->shape, sizeof o.shape);
  return o;
}

/* Read, verified and run; the status of what failed. */
static int run(const char *text, cn_tensor *const *in, int nin, cn_tensor *const *out, int nout)
{
  cni_nest n = {0};
  cni_nest_operand operands[MOST], results[MOST];
  const cn_desc *from[MOST], *to[MOST];
  for (int i = 0; i < nin; i++) operands[i] = operand_of(in[i]), from[i] = cn_desc_of(in[i]);
  for (int i = 0; i < nout; i++) results[i] = operand_of(out[i]), to[i] = cn_desc_of(out[i]);
  int status = cni_nest_parse(&n, text);
  if (!status) {
    char *again = cni_nest_to_string(&n);
    assert_string_equal(again, text);
    cn_string_free(again);
    status = cni_nest_verify(&n, operands, nin, results, nout);
  }
  if (!status) status = cni_nest_run(&n, NULL, from, to);
  cni_nest_free(&n);
  return status;
}

static void assert_close(cn_tensor *a, cn_tensor *b, double tol)
{
  assert_non_null(a);
  assert_non_null(b);
  assert_true(cn_item(cn_amax(cn_abs(cn_sub(cn_cast(a, CN_F64), cn_cast(b, CN_F64))))) <= tol);
}

static const char convolution[] =
  "for n < 2, o < 8, y < 6, x < 5\n"
  "over c < 3, i < 3, j < 3\n"
  "load f32 = %0[n, c, y + i - 1, x + j - 1] if 0 <= y + i - 1 < 6, 0 <= x + j - 1 < 5 else 0\n"
  "load f32 = %1[o, c, i, j]\n"
  "do float32:f32,float32:f32||mul:f32 0 1|2:float32\n"
  "sum f32 from 0\n"
  "then load f32 = %2[o]\n"
  "then do float32:f32,float32:f32||add:f32 0 1;relu:f32 2|3:float32\n"
  "store float32 [n, o, y, x]\n";

static void test_convolution(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *in[] = {cn_randn(CN_SHAPE(2, 3, 6, 5)), cn_randn(CN_SHAPE(8, 3, 3, 3)), cn_randn(CN_SHAPE(8))};
  cn_tensor *out = cn_empty(CN_SHAPE(2, 8, 6, 5));
  assert_int_equal(run(convolution, in, 3, &out, 1), 0);
  assert_close(out, cn_relu(cn_conv2d(in[0], in[1], in[2], .padding = CN_INTS(1))), 1e-5);
  in[0] = cn_channels_last(in[0]); /* strides are the operands' own affair */
  cn_tensor *turned = cn_channels_last(cn_empty(CN_SHAPE(2, 8, 6, 5)));
  assert_int_equal(run(convolution, in, 3, &turned, 1), 0);
  assert_close(turned, out, 0);
  cn_scope_end(s);
}

/* Gathered rows, chosen types, several results, an index as a value, long rows in blocks. */
static void test_types(void **state)
{
  (void)state;
  static const char text[] =
    "for r < 5, k < 1300\n"
    "load i64 = %1[r]\n"
    "load f32 = %0[#0, k] if 0 <= #0 < 7 else -1\n"
    "load i64 = k // 100 * 2 + r\n"
    "do int32:i64,bfloat16:f32,int64:i64|0.5:f32|gt:f32 1 3;to:f32 2;mul:f32 5 1;add:i64 0 2|6:float16,4:bool,7:int32\n"
    "store float16 [r, k]\n"
    "store bool [r, k]\n"
    "store int32 [r, k]\n";
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_cast(cn_randn(CN_SHAPE(7, 1300)), CN_BF16);
  const int64_t index[] = {3, 0, 6, 3, 9}; /* the last is outside: the number instead */
  cn_tensor *rows = cn_cast(cn_from_data(index, CN_SHAPE(5), CN_I64), CN_I32), *in[] = {x, rows};
  cn_tensor *out[] = {cn_empty(CN_SHAPE(5, 1300), .dtype = CN_F16), cn_empty(CN_SHAPE(5, 1300), .dtype = CN_BOOL),
                      cn_empty(CN_SHAPE(5, 1300), .dtype = CN_I32)};
  int status = run(text, in, 2, out, 3);
  if (status) print_error("%s\n", cn_err_message());
  assert_int_equal(status, 0);
  cn_tensor *inside = cn_clamp(rows, NULL, cn_int(6)), *taken = cn_index_select(x, 0, inside);
  taken = cn_where(cn_unsqueeze(cn_lt(rows, cn_int(7)), 1), cn_cast(taken, CN_F32), cn_num(-1));
  cn_tensor *number = cn_add(cn_mul(cn_floor_divide(cn_arange(0, 1300), cn_int(100)), cn_int(2)),
                             cn_unsqueeze(cn_arange(0, 5), 1));
  assert_close(out[0], cn_cast(cn_mul(cn_cast(number, CN_F32), taken), CN_F16), 0);
  assert_close(cn_cast(out[1], CN_F32), cn_cast(cn_gt(taken, cn_num(0.5)), CN_F32), 0);
  assert_close(out[2], cn_add(number, cn_unsqueeze(rows, 1)), 0);
  cn_scope_end(s);
}

/* Results do not depend on threads; without axes there is one point; over nothing the accumulator's start is left. */
static void test_points(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  int threads = cn_num_threads();
  cn_tensor *in[] = {cn_randn(CN_SHAPE(2, 3, 6, 5)), cn_randn(CN_SHAPE(8, 3, 3, 3)), cn_randn(CN_SHAPE(8))};
  cn_tensor *one = cn_empty(CN_SHAPE(2, 8, 6, 5)), *many = cn_empty(CN_SHAPE(2, 8, 6, 5));
  cn_set_num_threads(1);
  assert_int_equal(run(convolution, in, 3, &one, 1), 0);
  cn_set_num_threads(4);
  assert_int_equal(run(convolution, in, 3, &many, 1), 0);
  cn_set_num_threads(threads);
  assert_close(one, many, 0);
  cn_tensor *total = cn_empty(NULL, 0), *x = cn_ones(CN_SHAPE(4000)), *none = cn_ones(CN_SHAPE(0));
  assert_int_equal(run("over k < 4000\nload f32 = %0[k]\ndo float32:f32|||0:float32\nsum f32 from 2\n"
                       "then do float32:f32|||0:float32\nstore float32 []\n", &x, 1, &total, 1), 0);
  assert_float_equal(cn_item(total), 4002, 0);
  assert_int_equal(run("over k < 0\nload f32 = %0[k]\ndo float32:f32|||0:float32\nmax f32 from -3\n"
                       "then do float32:f32|||0:float32\nstore float32 []\n", &none, 1, &total, 1), 0);
  assert_float_equal(cn_item(total), -3, 0);
  cn_scope_end(s);
}

/* What would read or write elsewhere, or fits nothing, is refused. */
static void test_verifier(void **state)
{
  (void)state;
#define COPY(load, program, store) "for i < 4\n" load "\n" program "\n" store "\n"
#define SAME "do float32:f32|||0:float32"
  static const struct {
    const char *text, *why;
  } cases[] = {
    {COPY("load f32 = %0[i + 1]", SAME, "store float32 [i]"), "outside of the operand"},
    {COPY("load f32 = %0[i - 1]", SAME, "store float32 [i]"), "outside of the operand"},
    {COPY("load f32 = %0[i * 2]", SAME, "store float32 [i]"), "outside of the operand"},
    {COPY("load f32 = %0[i + 1] if 0 <= i < 4 else 0", SAME, "store float32 [i]"), "outside of the operand"},
    {COPY("load f32 = %1[i]", SAME, "store float32 [i]"), "no such operand"},
    {COPY("load f32 = %0[i, i]", SAME, "store float32 [i]"), "other dims"},
    {COPY("load f64 = %0[i]", SAME, "store float32 [i]"), "load of another type"},
    {COPY("load f32 = %0[i]", "do 1||neg 0|1", "store float32 [i]"), "a typed program is needed"},
    {COPY("load f32 = %0[i]", "do float32:f32,float32:f32|||0:float32", "store float32 [i]"), "it takes 2 inputs"},
    {COPY("load f32 = %0[i]", SAME, "store float64 [i]"), "another type"},
    {COPY("load f32 = %0[i]", SAME, "store float32 [0]"), "each dim is one axis"},
    {COPY("load f32 = %0[i]", SAME, "store float32 [i + 0]"), "each dim is one axis"},
    {"for i < 4, j < 2\nload f32 = %0[i]\n" SAME "\nstore float32 [i]\n", "an axis is left out"},
    {"for i < 4\nover k < 2\nload f32 = %0[i]\n" SAME "\nstore float32 [i]\n", "but not both"},
    {COPY("load i64 = %0[i]\nload f32 = %0[#0]", "do float32:i64,float32:f32|||1:float32", "store float32 [i]"),
     "outside of the operand"},
    {COPY("load f32 = %0[i]", SAME, "store float32 [i]\nstore float32 [i]"), "2 results are stored"},
  };
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_ones(CN_SHAPE(4)), *y = cn_zeros(CN_SHAPE(4));
  assert_int_equal(run(COPY("load f32 = %0[3 - i]", SAME, "store float32 [i]"), &x, 1, &y, 1), 0);
  assert_close(y, x, 0);
  assert_int_equal(run(COPY("load f32 = %0[i + 1] if 0 <= i < 3 else 5", SAME, "store float32 [i]"), &x, 1, &y, 1), 0);
  assert_float_equal(cn_item(cn_sum(y)), 8, 0);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    if (run(cases[i].text, &x, 1, &y, 1) >= 0) fail_msg("case %zu was taken", i);
    if (!strstr(cn_err_message(), cases[i].why)) fail_msg("case %zu: %s", i, cn_err_message());
    cn_err_clear();
  }
  cn_scope_end(s);
}

/* Any text is read or refused with the line. */
static void test_nonsense(void **state)
{
  (void)state;
  static const char *const texts[] = {
    "", "for\n", "for i\n", "for i < \n", "for i < 4, i < 5\n", "load f32 = %0[i]\n", "for i < 4\nload f33 = %0[i]\n",
    "for i < 4\nload f32 = %0[i\n", "for i < 4\nload f32 = %0[(((i]\n", "for i < 4\nload f32 = %0[#3]\n",
    "for i < 4\nload f32 = %0[i] if 1 <= i < 4 else 0\n", "for i < 4\ndo nonsense\n", "sum f32 from 0\n",
    "for i < 4\nload f32 = %0[i]\ndo float32:f32|||0:float32\nstore float33 [i]\n", "store float32 [i]\n",
    "for i < 4\nfor j < 4\n", "for i < 4 over\n", "then\n"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    cni_nest n = {0};
    assert_true(cni_nest_parse(&n, texts[i]) < 0);
    assert_true(cn_err() != 0);
    cn_err_clear();
    cni_nest_free(&n);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(test_convolution, setup), cmocka_unit_test_setup(test_types, setup),
    cmocka_unit_test_setup(test_points, setup),      cmocka_unit_test_setup(test_verifier, setup),
    cmocka_unit_test_setup(test_nonsense, setup),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
