/* test_scopes.c: nodes know the module and the composite call they come from, and the text form keeps it. */
#include <cairn/cairn.h>
#include <string.h>

#include "test.h"

static int forward(cn_tensor **out, cn_tensor *const *in, void *net)
{
  out[0] = cn_forward(net, in[0]);
  return cn_err();
}

static void assert_line(const char *text, const char *line)
{
  if (!strstr(text, line)) fail_msg("no \"%s\" in\n%s", line, text);
}

static void test_modules_and_calls(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_module *net = cn_nn_sequential(cn_nn_linear(4, 3), cn_nn_sequential(cn_nn_hardswish(), cn_nn_dropout(.p = 0.25)));
  cn_tensor *x = cn_ones(CN_SHAPE(2, 4)), *a, *b;
  cn_graph *g = cn_trace(forward, 1, &x, 1, net);
  assert_non_null(g);
  char *text = cn_graph_to_string(g);
  assert_line(text, "scope 0 '' 'Sequential'\n");
  assert_line(text, "scope 1 in 0 '0' 'Linear'\n");
  assert_line(text, "in 0 '1' 'Sequential'\n");
  assert_line(text, "'1' 'Dropout'\n");
  assert_line(text, "= dropout(%");
  assert_line(text, "0x1p-2, true) : %");
  assert_null(strstr(text, "gradient")); /* nobody looked at one */
  cn_graph *parsed = cn_graph_parse(text);
  assert_non_null(parsed);
  char *again = cn_graph_to_string(parsed);
  assert_string_equal(text, again);
  for (size_t i = 0; i < cn_graph_states(g); i++) cn_graph_bind(parsed, i, cn_graph_state(g, i));
  cn_seed(1);
  assert_int_equal(cn_graph_run(&a, g, &x), 0);
  cn_seed(1);
  assert_int_equal(cn_graph_run(&b, parsed, &x), 0);
  assert_true(cn_item(cn_all(cn_eq(a, b))) > 0);
  cn_string_free(text);
  cn_string_free(again);
  cn_graph_free(parsed);
  cn_graph_free(g);
  cn_module_release(net);
  cn_scope_end(s);
}

static int named(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  int scope = cn_trace_scope_begin("encoder", "part", NULL);
  out[0] = cn_exp(in[0]);
  cn_trace_scope_end(scope);
  out[0] = cn_neg(out[0]);
  return cn_err();
}

static void test_a_program_names_its_parts(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_ones(CN_SHAPE(2));
  assert_int_equal(cn_trace_scope_begin("outside", "", NULL), -1);
  assert_false(cn_tracing());
  cn_graph *g = cn_trace(named, 1, &x, 1, NULL);
  char *text = cn_graph_to_string(g);
  assert_line(text, "exp(%0) : float32 [2] in 0\n");
  assert_line(text, "neg(%1) : float32 [2]\n");
  assert_line(text, "scope 0 'encoder' 'part'\n");
  cn_string_free(text);
  cn_graph_free(g);
  assert_null(cn_graph_parse("%0 = input float32 [2]\n%1 = exp(%0) : float32 [2] in 3\noutput %1\n"));
  cn_err_clear();
  assert_null(cn_graph_parse("%0 = input float32 [2]\nscope 0 in 0 'a' 'b'\noutput %0\n"));
  cn_err_clear();
  cn_scope_end(s);
}

/* A composite call that fails, in code that goes on: its scope knows no values. */
static int goes_on(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  cn_mse_loss(in[0], cn_ones(CN_SHAPE(7)));
  cn_err_clear();
  out[0] = cn_neg(in[0]);
  return cn_err();
}

static void test_a_call_that_fails(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_ones(CN_SHAPE(2));
  cn_graph *g = cn_trace(goes_on, 1, &x, 1, NULL);
  assert_non_null(g);
  assert_int_equal(cn_graph_verify(g), 0);
  char *text = cn_graph_to_string(g);
  assert_line(text, "mse_loss(none, none");
  cn_string_free(text);
  cn_graph_free(g);
  cn_scope_end(s);
}

static cn_tensor *leaked;

static int leaks(cn_compile_call *k)
{
  if (!leaked) leaked = cn_keep(k->inputs[1]);
  k->outputs[0] = cn_mul(k->inputs[0], k->inputs[1]);
  k->noutputs = 1;
  return cn_err();
}

static int uses_what_leaked(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  assert_null(cn_contiguous(leaked));
  assert_int_equal(cn_err(), CN_ERR_CAPTURE);
  cn_err_clear();
  out[0] = cn_exp(in[0]);
  return cn_err();
}

/* A float of another capture has no value here; the call that was given it names none. */
static void test_a_number_of_another_capture(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_ones(CN_SHAPE(2)), *in[2] = {x, cn_num(0.5)}, *out;
  cn_compiled *c = cn_compile(leaks);
  cn_compile_call k = {.inputs = in, .ninputs = 2, .outputs = &out, .noutputs = 1};
  assert_int_equal(cn_compiled_call(c, &k), 0);
  cn_graph *g = cn_trace(uses_what_leaked, 1, &x, 1, NULL);
  assert_non_null(g);
  assert_int_equal(cn_graph_verify(g), 0);
  cn_graph_free(g);
  cn_compiled_free(c);
  cn_release(leaked);
  cn_scope_end(s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_modules_and_calls), cmocka_unit_test(test_a_program_names_its_parts),
    cmocka_unit_test(test_a_call_that_fails), cmocka_unit_test(test_a_number_of_another_capture),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
