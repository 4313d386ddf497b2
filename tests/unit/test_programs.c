/* test_programs.c: pointwise programs of any size, and those whose registers have types of their own: what they
 * compute, their gradients, their text, and the loops that are rendered from them. */
#include <cairn/cairn.h>
#include <cairn/ext/parts.h>
#include <cairn/kw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/common/registry.h"
#include "codegen/loop.h"
#include "ops/program.h"
#include "tensors.h"

/* "n||mul 0 1;add s 2;...": x0 * x1 + x2 + ... */
static char *product_and_sums(int n)
{
  cn_text t = {0};
  cn_text_putf(&t, "%d||mul 0 1", n);
  for (int i = 2; i < n; i++) cn_text_putf(&t, ";add %d %d", n + i - 2, i);
  cn_text_putf(&t, "|%d", n + n - 2);
  return cn_text_take(&t);
}

static void many_inputs(int n, int64_t rows, int64_t cols, bool turned)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor **in = calloc((size_t)n, sizeof *in), *out = NULL;
  char *text = product_and_sums(n);
  cn_seed(3);
  for (int i = 0; i < n; i++) {
    in[i] = i % 5 == 4 ? cn_randn(CN_SHAPE(cols)) : cn_randn(CN_SHAPE(rows, cols));
    if (turned && i % 7 == 3) in[i] = cn_transpose(cn_randn(CN_SHAPE(cols, rows)), 0, 1);
    cn_requires_grad(in[i], true);
  }
  cn_tensor *want = cn_mul(in[0], in[1]);
  for (int i = 2; i < n; i++) want = cn_add(want, in[i]);
  assert_int_equal(cn_pointwise(&out, 1, in, (size_t)n, text, NULL, 0), 1);
  assert_same(out, want);
  assert_int_equal(cn_backward(cn_sum(out)), 0);
  assert_same(cn_grad_of(in[0]), cn_detach(in[1]));
  assert_same(cn_grad_of(in[1]), cn_detach(in[0]));
  for (int i = 2; i < n; i++) {
    cn_tensor *ones = cn_ones(CN_SHAPE(rows, cols));
    assert_true(same_elements(cn_grad_of(in[i]), cn_ndim(in[i]) == 1 ? cn_sum(ones, .dim = CN_INTS(0)) : ones));
    assert_true(same_order(cn_grad_of(in[i]), in[i]));
  }
  cn_string_free(text);
  free(in);
  cn_scope_end(s);
}

static void test_inputs(void **state)
{
  (void)state;
  many_inputs(3, 4, 5, false);
  many_inputs(17, 40, 300, false);
  many_inputs(17, 40, 300, true);
  many_inputs(40, 33, 6, false);
  many_inputs(40, 64, 700, true);
  many_inputs(150, 3, 20, true);
}

/* Constants and steps by the hundred, and as many results as an op has. */
static void test_steps(void **state)
{
  (void)state;
  enum { STEPS = 400, RESULTS = 8 };
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_randn(CN_SHAPE(1000)), *out[RESULTS] = {NULL}, *want[RESULTS], *y = x;
  cn_text t = {0};
  cn_text_put(&t, "1|");
  for (int i = 0; i < STEPS; i++) cn_text_putf(&t, "%s%d.5", i ? "," : "", i % 40 - 20 + (i / 40) * 100);
  cn_text_put(&t, "|");
  for (int i = 0; i < STEPS; i++) cn_text_putf(&t, "%sadd %d %d", i ? ";" : "", i ? STEPS + i : 0, 1 + i);
  cn_text_put(&t, "|");
  for (int i = 0; i < RESULTS; i++) cn_text_putf(&t, "%s%d", i ? "," : "", 1 + STEPS + (STEPS - 1) * i / (RESULTS - 1));
  for (int i = 0; i < STEPS; i++) {
    y = cn_add(y, cn_num(i % 40 - 20 + (i / 40) * 100 + (i % 40 - 20 + (i / 40) * 100 < 0 ? -0.5 : 0.5)));
    for (int k = 0; k < RESULTS; k++)
      if (i == (STEPS - 1) * k / (RESULTS - 1)) want[k] = y;
  }
  assert_int_equal(cn_pointwise(out, RESULTS, &x, 1, t.s, NULL, 0), RESULTS);
  for (int k = 0; k < RESULTS; k++) assert_same(out[k], want[k]);
  cn_text_free(&t);
  cn_scope_end(s);
}

/* ---- registers with types of their own ---- */

static const char mixed[] = "float32:f32,int32:i64,bool:f32|2:f32|to:f32 1;add:f32 0 4;lt:f32 5 3;mul:f32 5 2;"
                            "floor_div:i64@floor_divide 1 1;add:i64 8 1;to:i64:int8 9;to:f64 5;exp:f64 11|"
                            "7:bfloat16,6:bool,10:int32,12:float64,5:float32";

static void mixed_inputs(cn_tensor **in, cn_tensor **want)
{
  in[0] = cn_randn(CN_SHAPE(7, 90));
  in[1] = cn_add(cn_cast(cn_randint(1, 1000, CN_SHAPE(90)), CN_I32), cn_int(0));
  in[2] = cn_gt(cn_randn(CN_SHAPE(7, 1)), cn_num(0));
  cn_tensor *sum = cn_add(in[0], cn_cast(in[1], CN_F32));
  cn_tensor *whole = cn_cast(cn_cast(cn_add(cn_floor_divide(in[1], in[1]), in[1]), CN_I8), CN_I32);
  want[0] = cn_cast(cn_mul(sum, in[2]), CN_BF16);
  want[1] = cn_lt(sum, cn_num(2));
  want[2] = cn_contiguous(cn_expand(whole, CN_SHAPE(7, 90)));
  want[3] = cn_exp(cn_cast(sum, CN_F64));
  want[4] = sum;
}

static void test_types(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *in[3], *want[5], *out[5];
  cn_seed(5);
  mixed_inputs(in, want);
  const cni_program *p = cni_program_parse(mixed);
  assert_non_null(p);
  assert_true(p->typed);
  assert_string_equal(p->text, mixed);
  assert_ptr_equal(cni_program_parse(p->text), p);
  assert_int_equal(cn_pointwise(out, 5, in, 3, mixed, NULL, 0), 5);
  for (int k = 0; k < 5; k++) assert_same(out[k], want[k]);
  cn_scope_end(s);
}

/* What fails says whose step it is, wrong types are refused, and there is no gradient. */
static void test_messages(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *in[3], *want[5], *out[5];
  mixed_inputs(in, want);
  in[1] = cn_zeros(CN_SHAPE(90), .dtype = CN_I32);
  assert_true(cn_pointwise(out, 5, in, 3, mixed, NULL, 0) < 0);
  assert_non_null(strstr(cn_err_message(), "floor_divide: integer division by zero"));
  cn_err_clear();
  in[1] = cn_ones(CN_SHAPE(90), .dtype = CN_I64);
  assert_true(cn_pointwise(out, 5, in, 3, mixed, NULL, 0) < 0);
  assert_non_null(strstr(cn_err_message(), "input 1 is int64, the program takes int32"));
  cn_err_clear();
  mixed_inputs(in, want);
  cn_requires_grad(in[0], true);
  assert_true(cn_pointwise(out, 5, in, 3, mixed, NULL, 0) < 0);
  assert_int_equal(cn_err(), CN_ERR_UNSUPPORTED);
  cn_err_clear();
  static const char *const nonsense[] = {
    "float32:f32|||0", "float32:f33||neg:f32 0|1:float32", "float32:f32||neg:f64 0|1:float32", "float32:f32||neg 0|1",
    "float32:f32||exp:f32 0|1:float33", "int32:i64||exp:i64 0|1:int32", "float32:f32||to:f32:nothing 0|1:float32",
    "2||to:f32 0|2", "float32:f32|1|add:f32 0 1|2:float32"};
  for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
    assert_null(cni_program_parse(nonsense[i]));
    assert_int_equal(cn_err(), CN_ERR_VALUE);
    cn_err_clear();
  }
  cn_scope_end(s);
}

/* Loops of many operands: rendered with their own number, and by address where a launch does not take so many. */
static void test_loops(void **state)
{
  (void)state;
  static const int counts[] = {3, 17, 60};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    cn_scope *s = cn_scope_begin();
    int n = counts[i];
    cn_tensor **in = calloc((size_t)n, sizeof *in), *out = cn_empty(CN_SHAPE(4, 6));
    char *text = product_and_sums(n), expected[40];
    for (int k = 0; k < n; k++) in[k] = cn_transpose(cn_ones(CN_SHAPE(6, 4)), 0, 1);
    cn_value args[] = {cn_v_tensors(in, (size_t)n), cn_v_str(text), cn_v_floats(NULL, 0)};
    cn_call c = {.op = cn_op_find("pointwise"), .args = args, .in = in, .out = &out, .nargs = 3, .nin = n, .nout = 1,
                 .device = CN_CPU, .compute = CN_F32};
    cn_source source = {.size = sizeof source};
    assert_int_equal(cni_pointwise_source(&source, &c, CN_LANG_CUDA), 0);
    assert_int_equal(source.by_pointer, n == 60);
    size_t size;
    char *code = cni_source_text(&source, &size);
    assert_non_null(code);
    snprintf(expected, sizeof expected, "void *ptr[%d];", n + 1);
    assert_non_null(strstr(code, expected));
    assert_int_equal(strstr(code, "__grid_constant__") == NULL, n == 60);
    cni_host.free_memory(code, size);
    cni_source_end(&source);
    cn_string_free(text);
    free(in);
    cn_scope_end(s);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(test_inputs, clear_errors), cmocka_unit_test_setup(test_steps, clear_errors),
    cmocka_unit_test_setup(test_types, clear_errors),  cmocka_unit_test_setup(test_messages, clear_errors),
    cmocka_unit_test_setup(test_loops, clear_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
