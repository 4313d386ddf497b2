/* test_build.c: ext/graph.h: graphs built by hand, read, changed; and what the verifier refuses. */
#include <cairn/cairn.h>
#include <cairn/ext/graph.h>
#include <math.h>
#include <string.h>

#include "test.h"

static int call(cn_graph *g, const char *op, const cn_value *args, size_t nargs, const int *in, size_t nin)
{
  int out = -1;
  size_t nout = 1;
  int node = cn_graph_add_node(&out, &nout, g, cn_op_find(op), args, nargs, in, nin);
  return node < 0 ? node : out;
}

/* y = relu(x w^T + b) * 3; w is a state, b a constant. */
static cn_graph *build(cn_tensor *w, cn_tensor *b)
{
  cn_graph *g = cn_graph_new();
  int x = cn_graph_add_input(g, CN_CPU, CN_F32, 2, (int64_t[]){2, 4});
  int in[3] = {x, cn_graph_add_state(g, w), cn_graph_add_const(g, b)};
  const cn_value tensors[3] = {{0}};
  int scope = cn_graph_add_scope(g, -1, "head", "Linear");
  assert_int_equal(cn_graph_at(g, -1, scope), 0);
  int y = call(g, "linear", tensors, 3, in, 3);
  assert_int_equal(cn_graph_at(g, -1, -1), 0);
  y = call(g, "relu", tensors, 1, &y, 1);
  int three[2] = {y, cn_graph_add_number(g, cn_v_int(3))};
  y = call(g, "mul", tensors, 2, three, 2);
  assert_int_equal(cn_graph_add_output(g, y), 0);
  if (cn_graph_verify(g)) fail_msg("%s", cn_err_message());
  return g;
}

static void test_build_and_run(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *w = cn_randn(CN_SHAPE(3, 4)), *b = cn_randn(CN_SHAPE(3)), *x = cn_randn(CN_SHAPE(2, 4)), *y;
  cn_graph *g = build(w, b);
  assert_int_equal(cn_graph_run(&y, g, &x), 0);
  cn_tensor *want = cn_mul(cn_relu(cn_linear(x, w, b)), cn_num(3));
  assert_true(cn_item(cn_all(cn_eq(y, want))) > 0);
  char *text = cn_graph_to_string(g), *again;
  assert_non_null(strstr(text, " = const float32 [3] <"));
  assert_non_null(strstr(text, "linear(%0, %1, %2) : float32 [2, 3] in 0\n"));
  cn_graph *copy = cn_graph_parse(text);
  assert_non_null(copy);
  again = cn_graph_to_string(copy);
  assert_string_equal(text, again);
  assert_int_equal(cn_graph_bind(copy, 0, w), 0);
  assert_int_equal(cn_graph_run(&y, copy, &x), 0);
  assert_true(cn_item(cn_all(cn_eq(y, want))) > 0);
  cn_string_free(text);
  cn_string_free(again);
  cn_graph_free(copy);
  cn_graph_free(g);
  cn_scope_end(s);
}

static void test_reading(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *w = cn_randn(CN_SHAPE(3, 4)), *b = cn_randn(CN_SHAPE(3));
  cn_graph *g = build(w, b);
  cn_value_info v = {sizeof v};
  cn_graph_node n = {sizeof n};
  cn_graph_scope scope = {sizeof scope};
  const cn_graph_use *use;
  assert_int_equal(cn_graph_values(g), 7);
  assert_int_equal(cn_graph_node_at(&n, g, 0), 0);
  assert_string_equal(n.name, "linear");
  assert_int_equal(n.nin, 3);
  assert_int_equal(n.scope, 0);
  assert_int_equal(n.draw, -1);
  assert_int_equal(cn_graph_scope_at(&scope, g, 0), 0);
  assert_string_equal(scope.name, "head");
  assert_null(scope.op);
  assert_int_equal(cn_graph_value_at(&v, g, n.in[1]), 0);
  assert_int_equal(v.kind, CN_VALUE_STATE);
  assert_ptr_equal(v.tensor, w);
  assert_int_equal(cn_graph_value_at(&v, g, n.in[2]), 0);
  assert_int_equal(v.kind, CN_VALUE_CONST);
  assert_int_equal(v.shape[0], 3);
  assert_int_equal(cn_graph_users(&use, g, n.out[0]), 1);
  assert_int_equal(use[0].kind, CN_USE_NODE);
  assert_int_equal(use[0].index, 1);
  assert_int_equal(cn_graph_users(&use, g, cn_graph_output(g, 0)), 1);
  assert_int_equal(use[0].kind, CN_USE_OUTPUT);
  assert_int_equal(cn_graph_input(g, 0), 0);
  assert_int_equal(cn_graph_state_value(g, 0), 1);
  assert_int_equal(cn_graph_state_final(g, 0), -1);
  assert_int_equal(cn_graph_gradients(g), 0);
  assert_int_equal(cn_graph_value_at(&v, g, 7), CN_ERR_INDEX);
  cn_err_clear();
  v.size = 0;
  assert_int_equal(cn_graph_value_at(&v, g, 0), CN_ERR_VALUE);
  cn_err_clear();
  cn_graph_free(g);
  cn_scope_end(s);
}

/* A node in the middle, and who read the old value reads the new one. */
static void test_changing(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *w = cn_randn(CN_SHAPE(3, 4)), *b = cn_randn(CN_SHAPE(3)), *x = cn_randn(CN_SHAPE(2, 4)), *y;
  cn_graph *g = build(w, b);
  cn_graph_node relu = {sizeof relu};
  const cn_value tensor = {0};
  assert_int_equal(cn_graph_node_at(&relu, g, 1), 0);
  int before = relu.in[0], after = relu.out[0];
  assert_int_equal(cn_graph_at(g, 1, -1), 0);
  int swapped = call(g, "tanh", &tensor, 1, &before, 1);
  assert_true(swapped >= 0);
  assert_int_equal(call(g, "tanh", &tensor, 1, &(int){cn_graph_output(g, 0)}, 1), CN_ERR_VALUE); /* made later */
  cn_err_clear();
  assert_int_equal(cn_graph_replace(g, after, before) > 0, true);
  assert_int_equal(cn_graph_replace(g, after, before), 0);
  assert_int_equal(cn_graph_replace(g, cn_graph_output(g, 0), 1), CN_ERR_SHAPE);
  cn_err_clear();
  assert_int_equal(cn_graph_remove_dead(g), 2);
  assert_int_equal(cn_graph_verify(g), 0);
  assert_int_equal(cn_graph_set_final(g, 0, cn_graph_state_value(g, 0)), 0);
  assert_int_equal(cn_graph_set_final(g, 0, cn_graph_output(g, 0)), CN_ERR_SHAPE);
  cn_err_clear();
  assert_int_equal(cn_graph_run(&y, g, &x), 0);
  assert_true(cn_item(cn_all(cn_eq(y, cn_mul(cn_linear(x, w, b), cn_num(3))))) > 0);
  cn_graph_free(g);
  cn_scope_end(s);
}

/* What cn_graph_add_node refuses leaves the graph as it was. */
static void test_refused_nodes(void **state)
{
  (void)state;
  cn_graph *g = cn_graph_new();
  int x = cn_graph_add_input(g, CN_CPU, CN_F32, 2, (int64_t[]){2, 3});
  const cn_value none[3] = {{0}};
  const int missing = 9, absent = -1, pair[2] = {x, x};
  assert_true(call(g, "mm", none, 2, pair, 2) < 0); /* shapes do not fit */
  cn_err_clear();
  assert_true(call(g, "neg", none, 1, &missing, 1) < 0);
  cn_err_clear();
  assert_true(call(g, "neg", none, 1, &absent, 1) < 0);
  cn_err_clear();
  assert_true(call(g, "neg", none, 1, pair, 2) < 0);
  cn_err_clear();
  assert_true(call(g, "neg", none, 1, pair, 0) < 0);
  cn_err_clear();
  assert_true(call(g, "neg", none, 2, pair, 1) < 0);
  cn_err_clear();
  assert_true(call(g, "transpose", none, 1, pair, 1) < 0);
  cn_err_clear();
  assert_true(call(g, "no_such_op", none, 1, pair, 1) < 0);
  cn_err_clear();
  assert_int_equal(cn_graph_values(g), 1);
  assert_int_equal(cn_graph_nodes(g), 0);
  const cn_value two = cn_v_tensors(NULL, 2);
  assert_true(call(g, "cat", &two, 1, pair, 2) > 0);
  assert_int_equal(cn_graph_verify(g), 0);
  cn_graph_free(g);
}

static void test_constants(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_graph *g = cn_graph_new();
  assert_int_equal(cn_graph_add_const(g, cn_zeros(CN_SHAPE(CN_CONST_MOST + 1))), CN_ERR_VALUE);
  cn_err_clear();
  cn_tensor *kinds[] = {cn_randn(CN_SHAPE(2, 2)),
                        cn_cast(cn_randn(CN_SHAPE(3)), CN_F16),
                        cn_cast(cn_randn(CN_SHAPE(3)), CN_BF16),
                        cn_cast(cn_randn(CN_SHAPE(3)), CN_F64),
                        cn_gt(cn_randn(CN_SHAPE(4)), cn_num(0)),
                        cn_cast(cn_randint(-100, 100, CN_SHAPE(4)), CN_I8),
                        cn_transpose(cn_randn(CN_SHAPE(2, 3)), 0, 1),
                        cn_zeros(CN_SHAPE(0, 3)),
                        cn_full(CN_SHAPE(), -INFINITY)};
  enum { N = sizeof kinds / sizeof *kinds };
  cn_tensor *out[N];
  for (int i = 0; i < N; i++) assert_int_equal(cn_graph_add_output(g, cn_graph_add_const(g, kinds[i])), 0);
  char *text = cn_graph_to_string(g);
  cn_graph *copy = cn_graph_parse(text);
  if (!copy) fail_msg("%s", cn_err_message());
  assert_int_equal(cn_graph_run(out, copy, NULL), 0);
  for (int i = 0; i < N; i++) {
    assert_int_equal(cn_dtype_of(out[i]), cn_dtype_of(kinds[i]));
    assert_true(cn_item(cn_all(cn_eq(out[i], kinds[i]))) > 0);
  }
  cn_string_free(text);
  cn_graph_free(copy);
  cn_graph_free(g);
  cn_scope_end(s);
}

static void test_verifier(void **state)
{
  (void)state;
  static const char *const wrong[] = {
    "%0 = input float32 [2]\n%1 = exp(%0) : float64 [2]\noutput %1\n",        /* not its type */
    "%0 = input float32 [2]\n%1 = exp(%0) : float32 [3]\noutput %1\n",        /* not its shape */
    "%0 = input float32 [2]\n%1 = mm(%0, %0) : float32 [2]\noutput %1\n",     /* cannot be */
    ("%0 = input float32 [2]\n%2 = scalar int64 weak 1\n%1 = exp(%2) : float32 []\n%2 = exp(%1) : float32 []\n"
     "output %2\n"),                                                          /* reads what is made later */
    "%0 = input float32 [2]\n%1 = exp(%0) : float32 [2]\n%1 = neg(%0) : float32 [2]\noutput %1\n", /* two makers */
    "%0 = input float32 [2]\n%1 = neg(%0) : float32 [2] draw 0\noutput %1\n", /* it draws nothing */
    "%0 = rand([2], none, none) : float32 [2]\noutput %0\n",                  /* it must */
    "%0 = input float32 [2]\n%1 = neg(%0) : float32 [2] in 0\noutput %1\n",   /* no such scope */
    "%0 = state float32 [2]\n%1 = neg(%0) : float32 [2]\ngradient 0 from any to %1\ngradient 0 from any to %1\n",
    "%1 = input float32 [2]\n%0 = input float32 [2]\n%2 = add(%0, %1, 1) : float32 [2]\noutput %2\n", /* out of order */
    "%1 = state float32 [2]\n%0 = state float32 [2]\n%2 = add(%0, %1, 1) : float32 [2]\noutput %2\n",
    "%1 = input float32 [2]\n%2 = add(%1, %0, 1) : float32 [2]\noutput %2\n", /* reads what no line has named */
    "%0 = const float32 [3] <1, 2>\noutput %0\n",
    "%0 = const float32 [2] <1, 2, 3>\noutput %0\n",
    "%0 = const float32 [100000] <1>\noutput %0\n",
    "%0 = const float8_e4m3fn [1] <1>\noutput %0\n",
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    cn_graph *g = cn_graph_parse(wrong[i]);
    if (g) fail_msg("taken:\n%s", wrong[i]);
    assert_true(cn_err() < 0);
    cn_err_clear();
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_build_and_run), cmocka_unit_test(test_reading),   cmocka_unit_test(test_changing),
    cmocka_unit_test(test_refused_nodes), cmocka_unit_test(test_constants), cmocka_unit_test(test_verifier),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
