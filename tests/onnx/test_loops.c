/* test_loops.c: Loop and Scan, step by step in eager code, unrolled or as loops of the graph in captured code. */
#include <cairn/cairn.h>
#include <string.h>

#include "../unit/test.h"
#include "write.h"

enum { FLOAT = 1, INT64 = 7, BOOL = 9 };

static cn_onnx *load(cn_text *g)
{
  cn_text m = model_of(g, 17);
  cn_onnx *o = cn_onnx_load_memory_with(m.s, m.n, NULL);
  cn_text_free(&m);
  if (!o) fail_msg("%s", cn_err_message());
  return o;
}

static int traced_fn(cn_tensor **out, cn_tensor *const *in, void *payload) { return cn_onnx_run(out, payload, in); }

static int compiled_fn(cn_compile_call *k)
{
  k->noutputs = 2;
  return cn_onnx_run(k->outputs, k->payload, k->inputs);
}

static void same(cn_tensor *a, cn_tensor *b)
{
  if (!a || !b || cn_item(cn_allclose(a, b, .rtol = CN_ZERO, .atol = CN_ZERO)) == 0) fail_msg("%s", cn_err_message());
}

/* Both outputs of a compiled call are those of an eager one, and it did not run as it is. */
static void compiled_is_eager(cn_compiled *c, cn_onnx *o, cn_tensor *const *in, size_t n)
{
  cn_tensor *eager[2] = {NULL}, *got[2] = {NULL};
  if (cn_onnx_run(eager, o, in)) fail_msg("%s", cn_err_message());
  cn_compile_call k = {.inputs = in, .ninputs = n, .outputs = got, .noutputs = 2, .payload = o};
  if (cn_compiled_call(c, &k)) fail_msg("%s", cn_err_message());
  assert_false(k.ran_as_is);
  for (int i = 0; i < 2; i++) same(got[i], eager[i]);
}

static void put_loop(cn_text *g, const char *inputs, const char *outputs, cn_text *body)
{
  cn_text attr = attr_graph("body", body);
  put_node(g, "Loop", inputs, outputs, &attr);
}

/* v = v + v * step, m times; each v is a row, too. */
static cn_onnx *growing(int64_t steps)
{
  cn_text body = {0}, g = {0}, to = attr_int("to", FLOAT);
  put_node(&body, "Cast", "step", "f", &to);
  put_node(&body, "Mul", "v f", "p", NULL);
  put_node(&body, "Add", "v p", "w", NULL);
  put_node(&body, "Identity", "on", "on2", NULL);
  put_node(&body, "Identity", "w", "row", NULL);
  put_value(&body, 11, "step", INT64);
  put_value(&body, 11, "on", BOOL);
  put_value(&body, 11, "v", FLOAT);
  put_value(&body, 12, "on2", BOOL);
  put_value(&body, 12, "w", FLOAT);
  put_value(&body, 12, "row", FLOAT);
  put_ints(&g, "m", &steps, 1);
  put_loop(&g, "m  x", "y rows", &body);
  put_value(&g, 11, "x", FLOAT);
  put_value(&g, 12, "y", FLOAT);
  put_value(&g, 12, "rows", FLOAT);
  return load(&g);
}

static void a_known_number_of_steps(void **state)
{
  static const int64_t steps[] = {0, 1, 5, 32, 33, 60};
  (void)state;
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    cn_onnx *o = growing(steps[i]);
    cn_compiled *c = cn_compile(compiled_fn, .fullgraph = true);
    cn_scope *scope = cn_scope_begin();
    cn_tensor *x = cn_mul(cn_ones(CN_SHAPE(3)), cn_num(1e-30)), *y[2];
    compiled_is_eager(c, o, &x, 1);
    assert_int_equal(cn_onnx_run(y, o, &x), 0);
    assert_int_equal(cn_size(y[1], 0), steps[i]);
    cn_scope_end(scope);
    cn_compiled_free(c);
    cn_onnx_free(o);
  }
}

/* v = v * 2 as long as its sum is below a limit that is an input, at most m times; m is an input, too. */
static cn_onnx *doubling(void)
{
  cn_text body = {0}, g = {0}, keep = attr_int("keepdims", 0);
  put_node(&body, "Add", "v v", "w", NULL);
  put_node(&body, "ReduceSum", "w", "s", &keep);
  put_node(&body, "Less", "s limit", "on2", NULL);
  put_node(&body, "Add", "n one", "n2", NULL);
  put_value(&body, 11, "step", INT64);
  put_value(&body, 11, "on", BOOL);
  put_value(&body, 11, "v", FLOAT);
  put_value(&body, 11, "n", INT64);
  put_value(&body, 12, "on2", BOOL);
  put_value(&body, 12, "w", FLOAT);
  put_value(&body, 12, "n2", INT64);
  put_ints(&g, "one", (const int64_t[]){1}, 1);
  put_ints(&g, "none", (const int64_t[]){0}, 1);
  put_loop(&g, "m on x none", "y count", &body);
  put_value(&g, 11, "m", INT64);
  put_value(&g, 11, "on", BOOL);
  put_value(&g, 11, "x", FLOAT);
  put_value(&g, 11, "limit", FLOAT);
  put_value(&g, 12, "y", FLOAT);
  put_value(&g, 12, "count", INT64);
  return load(&g);
}

static void as_long_as_data_says(void **state)
{
  static const struct {
    int64_t most, want;
    double limit;
    bool on;
  } cases[] = {{100, 4, 40, true}, {2, 2, 40, true}, {100, 1, -1, true}, {100, 0, 40, false}, {0, 0, 40, true}};
  cn_onnx *o = doubling();
  cn_compiled *c = cn_compile(compiled_fn, .fullgraph = true);
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    cn_scope *scope = cn_scope_begin();
    cn_tensor *in[4] = {cn_from_data(&cases[i].most, NULL, 0, CN_I64), cn_from_data(&cases[i].on, NULL, 0, CN_BOOL),
                        cn_ones(CN_SHAPE(3)), cn_full(CN_SCALAR_SHAPE, cases[i].limit, .dtype = CN_F32)};
    cn_tensor *y[2];
    if (cn_onnx_run(y, o, in)) fail_msg("%s", cn_err_message());
    assert_int_equal((int64_t)cn_item(y[1]), cases[i].want);
    compiled_is_eager(c, o, in, 4);
    cn_scope_end(scope);
  }
  cn_compiled_free(c);
  cn_onnx_free(o);
}

/* Sums of rows so far, backwards, of x's columns, whole numbers: for any number of them one graph. */
static void a_scan(void **state)
{
  cn_text body = {0}, g = {0}, node = {0}, n = attr_int("num_scan_inputs", 1);
  put_node(&body, "Add", "s r", "t", NULL);
  put_node(&body, "Identity", "t", "row", NULL);
  put_value(&body, 11, "s", FLOAT);
  put_value(&body, 11, "r", FLOAT);
  put_value(&body, 12, "t", FLOAT);
  put_value(&body, 12, "row", FLOAT);
  cn_text attr = attr_graph("body", &body), axes = {0}, ways = {0};
  put_text(&axes, 1, "scan_input_axes");
  put_int(&axes, 8, 1);
  put_int(&axes, 20, 7);
  put_text(&ways, 1, "scan_output_directions");
  put_int(&ways, 8, 1);
  put_int(&ways, 20, 7);
  put_text(&node, 1, "zero");
  put_text(&node, 1, "x");
  put_text(&node, 2, "y");
  put_text(&node, 2, "rows");
  put_text(&node, 4, "Scan");
  put_message(&node, 5, &attr);
  put_message(&node, 5, &n);
  put_message(&node, 5, &axes);
  put_message(&node, 5, &ways);
  put_message(&g, 1, &node);
  put_shaped(&g, 11, "zero", "2");
  put_shaped(&g, 11, "x", "2,N");
  put_shaped(&g, 12, "y", "2");
  put_shaped(&g, 12, "rows", "N,2");
  cn_onnx *o = load(&g);
  cn_compiled *c = cn_compile(compiled_fn, .fullgraph = true);
  cn_scope *scope = cn_scope_begin();
  (void)state;
  cn_seed(3);
  for (int64_t cols = 1; cols < 100; cols += 33) {
    cn_tensor *in[2] = {cn_zeros(CN_SHAPE(2)), cn_floor(cn_mul(cn_randn(CN_SHAPE(2, cols)), cn_num(8)))}, *y[2];
    compiled_is_eager(c, o, in, 2);
    assert_int_equal(cn_onnx_run(y, o, in), 0);
    same(y[1], cn_flip(cn_transpose(cn_cumsum(in[1], 1), 0, 1), CN_SHAPE(0)));
  }
  cn_tensor *in[2] = {cn_zeros(CN_SHAPE(2)), cn_randn(CN_SHAPE(2, 5))}, *want[2], *got[2];
  cn_free_dim free = {.input = 1, .dim = 1, .symbol = "N"};
  cn_graph *all = cn_trace_dynamic(traced_fn, 2, in, 2, &free, 1, o);
  if (!all) fail_msg("%s", cn_err_message());
  for (int64_t cols = 1; cols < 50; cols += 12) {
    in[1] = cn_randn(CN_SHAPE(2, cols));
    assert_int_equal(cn_onnx_run(want, o, in), 0);
    if (cn_graph_run(got, all, in)) fail_msg("%s", cn_err_message());
    same(got[0], want[0]);
    same(got[1], want[1]);
  }
  cn_graph_free(all);
  cn_scope_end(scope);
  cn_compiled_free(c);
  cn_onnx_free(o);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_known_number_of_steps),
      cmocka_unit_test(as_long_as_data_says),
      cmocka_unit_test(a_scan),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
