/* test_onnx.c: models from bytes: the table of operators, what is computed, eager and compiled, and what is refused. */
#include <cairn/cairn.h>
#include <stdio.h>

#include "../../src/formats/onnx/template.h"
#include "../unit/test.h"
#include "write.h"

enum { FLOAT = 1 };

static cn_onnx *load(cn_text *m)
{
  cn_onnx *o = cn_onnx_load_memory_with(m->s, m->n, NULL);
  cn_text_free(m);
  return o;
}

/* The model is refused, and its error has these words. */
static void refused(cn_text *m, const char *words)
{
  cn_onnx *o = load(m);
  assert_null(o);
  if (!strstr(cn_err_message(), words)) fail_msg("'%s' is not in '%s'", words, cn_err_message());
  cn_err_clear();
}

/* ---- the table ---- */

static void every_row_holds(void **state)
{
  (void)state;
  cni_arena arena = {NULL};
  size_t n = 0;
  for (const cni_onnx_family *f = cni_onnx_families; f->name; f++)
    for (const cni_onnx_op *op = f->ops; op->name; op++, n++) {
      assert_true(op->since >= 1);
      assert_true(!op->text != !op->build);
      if (op->text && !cni_onnx_parse(&arena, op->text)) fail_msg("%s: %s", op->name, cn_err_message());
      for (const cni_onnx_op *other = f->ops; other < op; other++)
        assert_false(!strcmp(other->name, op->name) && other->since == op->since);
    }
  assert_true(n > 100);
  cni_arena_free(&arena);
}

static void bad_templates_are_refused(void **state)
{
  static const char *const texts[] = {"",
                                      "relu(",
                                      "relu()",
                                      "relu(%)",
                                      "nothing(%0)",
                                      "relu(%0, %1)",
                                      "relu(%0) x",
                                      "leaky_relu(%0, slope: 1)",
                                      "leaky_relu(%0, $alpha=)",
                                      "softmax(%0, [1)",
                                      "gelu(%0, 'none)",
                                      "max_dim(%0, 0)[7]",
                                      "relu(@)"};
  cni_arena arena = {NULL};
  (void)state;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    assert_null(cni_onnx_parse(&arena, texts[i]));
    assert_int_equal(cn_err(), CN_ERR_INTERNAL);
    cn_err_clear();
  }
  cni_arena_free(&arena);
}

/* ---- what is computed ---- */

/* leaky_relu(x) reshaped to (size of dimension 1, the rest), then times its own columns. */
static cn_text small_model(void)
{
  cn_text g = {0}, axis = attr_int("axis", 0), slope = attr_float("alpha", 0.25f);
  put_node(&g, "LeakyRelu", "x", "a", &slope);
  put_node(&g, "Shape", "a", "s", NULL);
  put_node(&g, "Gather", "s one", "t", NULL);
  put_node(&g, "Concat", "t rest", "u", &axis);
  put_node(&g, "Reshape", "a u", "b", NULL);
  put_node(&g, "Transpose", "b", "c", NULL);
  put_node(&g, "MatMul", "b c", "y", NULL);
  put_ints(&g, "one", (const int64_t[]){1}, 1);
  put_ints(&g, "rest", (const int64_t[]){-1}, 1);
  put_value(&g, 11, "x", FLOAT);
  put_value(&g, 12, "y", FLOAT);
  return model_of(&g, 17);
}

static void runs(void **state)
{
  cn_text m = small_model();
  cn_onnx *o = load(&m);
  cn_onnx_info info;
  (void)state;
  assert_non_null(o);
  assert_int_equal(cn_onnx_inputs(o), 1);
  assert_int_equal(cn_onnx_input_at(&info, o, 0), 0);
  assert_string_equal(info.name, "x");
  assert_int_equal(info.dtype, CN_F32);
  assert_int_equal(info.ndim, -1);
  assert_int_equal(cn_onnx_opset(o, "ai.onnx"), 17);
  cn_scope *scope = cn_scope_begin();
  cn_tensor *x = cn_reshape(cn_floats((const float[]){-4, 1, 2, 3, 4, 5}, 6), CN_SHAPE(2, 3)), *y = NULL;
  assert_int_equal(cn_onnx_run(&y, o, &x), 0);
  float got[9];
  assert_int_equal(cn_to_data(got, sizeof got, y), 0);
  static const float want[] = {2, 1, 1, 1, 13, 23, 1, 23, 41};
  for (int i = 0; i < 9; i++) assert_float_equal(got[i], want[i], 0);
  assert_int_equal(cn_onnx_run(&y, o, (cn_tensor *[]){NULL}), CN_ERR_VALUE);
  cn_err_clear();
  assert_int_equal(cn_onnx_run(&y, o, (cn_tensor *[]){cn_int(1)}), CN_ERR_DTYPE);
  cn_err_clear();
  cn_scope_end(scope);
  cn_onnx_free(o);
}

/* A model with nodes that cannot run is loaded where that is asked for, and says which they are. */
static void shows_what_it_holds(void **state)
{
  cn_text g = {0};
  (void)state;
  put_node(&g, "Relu", "x", "a", NULL);
  put_node(&g, "NoSuchThing", "a one", "y", NULL);
  put_ints(&g, "one", (const int64_t[]){1}, 1);
  put_value(&g, 11, "x", FLOAT);
  put_value(&g, 12, "y", FLOAT);
  cn_text m = model_of(&g, 17);
  assert_null(cn_onnx_load_memory(m.s, m.n));
  cn_err_clear();
  cn_onnx *o = cn_onnx_load_memory(m.s, m.n, .partial = true);
  cn_text_free(&m);
  assert_non_null(o);
  cn_onnx_node n;
  cn_onnx_info info;
  int64_t version;
  assert_int_equal(cn_onnx_nodes(o), 2);
  assert_int_equal(cn_onnx_node_at(&n, o, 0), 0);
  assert_string_equal(n.name, "a");
  assert_string_equal(n.how, "relu(%0)");
  assert_null(n.problem);
  assert_int_equal(cn_onnx_node_at(&n, o, 1), 0);
  assert_string_equal(n.op, "NoSuchThing");
  assert_int_equal(n.opset, 17);
  assert_non_null(n.problem);
  assert_int_equal(cn_onnx_node_at(&n, o, 2), CN_ERR_INDEX);
  cn_err_clear();
  assert_int_equal(cn_onnx_initials(o), 1);
  assert_int_equal(cn_onnx_initial_at(&info, o, 0), 0);
  assert_string_equal(info.name, "one");
  assert_int_equal(info.dtype, CN_I64);
  assert_int_equal(info.shape[0], 1);
  assert_string_equal(cn_onnx_opset_at(o, 0, &version), "");
  assert_int_equal(version, 17);
  assert_null(cn_onnx_opset_at(o, 1, &version));
  cn_scope *scope = cn_scope_begin();
  cn_tensor *x = cn_ones(CN_SHAPE(2)), *y;
  assert_int_equal(cn_onnx_run(&y, o, &x), CN_ERR_UNSUPPORTED);
  if (!strstr(cn_err_message(), "NoSuchThing")) fail_msg("%s", cn_err_message());
  cn_err_clear();
  cn_scope_end(scope);
  cn_onnx_free(o);
}

static int compiled_fn(cn_compile_call *k)
{
  k->noutputs = 1;
  return cn_onnx_run(k->outputs, k->payload, k->inputs);
}

/* The eager bits, at two sizes, from programs: nothing ran as it is. */
static void same_bits_compiled(void **state)
{
  cn_text m = small_model();
  cn_onnx *o = load(&m);
  cn_compiled *c = cn_compile(compiled_fn, .fullgraph = true);
  (void)state;
  cn_seed(1);
  for (int64_t n = 5; n < 7; n++) {
    cn_scope *scope = cn_scope_begin();
    cn_tensor *x = cn_randn(CN_SHAPE(4, n)), *eager = NULL, *y = NULL;
    float a[36], b[36];
    size_t size = (size_t)(n * n) * sizeof *a;
    assert_int_equal(cn_onnx_run(&eager, o, &x), 0);
    cn_compile_call k = {.inputs = &x, .ninputs = 1, .outputs = &y, .noutputs = 1, .payload = o};
    if (cn_compiled_call(c, &k)) fail_msg("%s", cn_err_message());
    assert_false(k.ran_as_is);
    assert_int_equal(cn_to_data(a, sizeof a, eager), 0);
    assert_int_equal(cn_to_data(b, sizeof b, y), 0);
    assert_memory_equal(a, b, size);
    cn_scope_end(scope);
  }
  cn_compiled_free(c);
  cn_onnx_free(o);
}

static int traced_fn(cn_tensor **out, cn_tensor *const *in, void *payload) { return cn_onnx_run(out, payload, in); }

/* One graph for all sizes: numbers that the walk knows are expressions of them. */
static void one_graph_for_all_sizes(void **state)
{
  cn_text m = small_model();
  cn_onnx *o = load(&m);
  cn_scope *scope = cn_scope_begin();
  cn_tensor *x = cn_randn(CN_SHAPE(4, 5)), *eager = NULL, *y = NULL;
  (void)state;
  cn_graph *g = cn_trace_dynamic(traced_fn, 1, &x, 1, &(cn_free_dim){.input = 0, .dim = 1, .symbol = "N"}, 1, o);
  if (!g) fail_msg("%s", cn_err_message());
  for (int64_t n = 3; n < 9; n++) {
    x = cn_randn(CN_SHAPE(4, n));
    assert_int_equal(cn_onnx_run(&eager, o, &x), 0);
    assert_int_equal(cn_graph_run(&y, g, &x), 0);
    float a[64], b[64];
    assert_int_equal(cn_to_data(a, sizeof a, eager), 0);
    assert_int_equal(cn_to_data(b, sizeof b, y), 0);
    assert_memory_equal(a, b, (size_t)(n * n) * sizeof *a);
  }
  cn_graph_free(g);
  cn_scope_end(scope);
  cn_onnx_free(o);
}

/* then: x + x, else: x * x, by a condition that is an input; inside of a compiled function a branch of the graph. */
static void branches(void **state)
{
  cn_text yes = {0}, no = {0}, g = {0}, m;
  put_node(&yes, "Add", "x x", "p", NULL);
  put_value(&yes, 12, "p", FLOAT);
  put_node(&no, "Mul", "x x", "q", NULL);
  put_value(&no, 12, "q", FLOAT);
  cn_text then_attr = attr_graph("then_branch", &yes), else_attr = attr_graph("else_branch", &no), node = {0};
  put_text(&node, 1, "c");
  put_text(&node, 2, "y");
  put_text(&node, 4, "If");
  put_message(&node, 5, &then_attr);
  put_message(&node, 5, &else_attr);
  put_message(&g, 1, &node);
  put_value(&g, 11, "c", 9);
  put_value(&g, 11, "x", FLOAT);
  put_value(&g, 12, "y", FLOAT);
  m = model_of(&g, 17);
  cn_onnx *o = load(&m);
  (void)state;
  if (!o) fail_msg("%s", cn_err_message());
  cn_compiled *c = cn_compile(compiled_fn, .fullgraph = true);
  for (int i = 0; i < 2; i++) {
    cn_scope *scope = cn_scope_begin();
    bool truth = i == 0;
    cn_tensor *in[2] = {cn_from_data(&truth, NULL, 0, CN_BOOL), cn_floats((const float[]){3, 5}, 2)}, *y, *z;
    assert_int_equal(cn_onnx_run(&y, o, in), 0);
    cn_compile_call k = {.inputs = in, .ninputs = 2, .outputs = &z, .noutputs = 1, .payload = o};
    if (cn_compiled_call(c, &k)) fail_msg("%s", cn_err_message());
    float a[2], b[2];
    assert_int_equal(cn_to_data(a, sizeof a, y), 0);
    assert_int_equal(cn_to_data(b, sizeof b, z), 0);
    assert_float_equal(a[1], truth ? 10 : 25, 0);
    assert_memory_equal(a, b, sizeof a);
    cn_scope_end(scope);
  }
  cn_compiled_free(c);
  cn_onnx_free(o);
}

/* ---- what is refused ---- */

static cn_text one_node(const char *op, const char *inputs, const char *outputs, int64_t opset)
{
  cn_text g = {0};
  put_node(&g, op, inputs, outputs, NULL);
  put_value(&g, 11, "x", FLOAT);
  put_value(&g, 12, "y", FLOAT);
  return model_of(&g, opset);
}

static void wrong_models(void **state)
{
  cn_text m, g = {0};
  (void)state;
  m = one_node("Relu", "z", "y", 17);
  refused(&m, "no node before it computes its input z");
  m = one_node("Relu", "y", "y", 17);
  refused(&m, "no node before it computes its input y");
  m = one_node("Relu", "x", "x", 17);
  refused(&m, "something else is called as its output x");
  m = one_node("Relu", "x", "z", 17);
  refused(&m, "no node computes the output 'y'");
  m = one_node("Frobnicate", "x", "y", 17);
  refused(&m, "node 'y' (Frobnicate, opset 17): cairn does not have the operator");
  m = one_node("Asinh", "x", "y", 7);
  refused(&m, "the operator is not in this opset");
  m = one_node("Relu", "x", "y", 1000);
  refused(&m, "newer");
  m = one_node("Relu\xff", "x", "y", 17);
  refused(&m, "not UTF-8");
  put_value(&g, 11, "x", FLOAT);
  put_value(&g, 11, "x", FLOAT);
  m = model_of(&g, 17);
  refused(&m, "two inputs");
}

static cn_text with_tensor(cn_text *tensor)
{
  cn_text g = {0};
  put_text(tensor, 8, "w");
  put_message(&g, 5, tensor);
  put_node(&g, "Relu", "w", "y", NULL);
  put_value(&g, 12, "y", FLOAT);
  return model_of(&g, 17);
}

static void put_pair(cn_text *m, const char *key, const char *value)
{
  cn_text pair = {0};
  put_text(&pair, 1, key);
  put_text(&pair, 2, value);
  put_message(m, 13, &pair);
}

/* Sizes and places that are not there are errors, and take no memory. */
static void wrong_tensors(void **state)
{
  static const char *const places[] = {"../secret", "/etc/passwd", "a/../../b", "..", ""};
  cn_memory_stats before, after;
  (void)state;
  cn_memory_get_stats(&before);
  cn_memory_reset_peak();
  for (int i = 0; i < 4; i++) {
    cn_text t = {0};
    put_int(&t, 1, i == 0 ? INT64_C(1) << 62 : i == 1 ? -1 : 1 << 30);
    put_int(&t, 2, i == 3 ? 99 : FLOAT);
    cn_text m = with_tensor(&t);
    refused(&m, "tensor 'w'");
  }
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    cn_text t = {0};
    put_int(&t, 1, 4);
    put_int(&t, 2, FLOAT);
    put_int(&t, 14, 1);
    put_pair(&t, "location", places[i]);
    cn_text m = with_tensor(&t);
    cn_onnx *o = cn_onnx_load_memory(m.s, m.n, .folder = ".");
    assert_null(o);
    assert_non_null(strstr(cn_err_message(), "not in the model's folder"));
    cn_err_clear();
    cn_text_free(&m);
  }
  cn_memory_get_stats(&after);
  assert_true(after.peak < before.in_use + (8 << 20));
}

/* Graphs in graphs, types in types, far deeper than any model. */
static void deep_nesting(void **state)
{
  cn_text g = {0}, t = {0};
  (void)state;
  for (int i = 0; i < 2000; i++) {
    cn_text around = {0}, attr = attr_graph("body", &g);
    put_node(&around, "Loop", "", "", &attr);
    g = around;
  }
  cn_text m = model_of(&g, 17);
  refused(&m, "too deep");
  for (int i = 0; i < 2000; i++) {
    cn_text sequence = {0}, around = {0};
    put_message(&sequence, 1, &t);
    put_message(&around, 4, &sequence);
    t = around;
  }
  cn_text value = {0}, h = {0};
  put_text(&value, 1, "x");
  put_message(&value, 2, &t);
  put_message(&h, 11, &value);
  m = model_of(&h, 17);
  refused(&m, "too deep");
}

/* f calls g, which calls f. */
static void functions_that_call_themselves(void **state)
{
  static const char *const names[] = {"F", "G"};
  cn_text graph = {0};
  (void)state;
  cn_text node = {0};
  put_text(&node, 1, "x");
  put_text(&node, 2, "y");
  put_text(&node, 4, "F");
  put_text(&node, 7, "my");
  put_message(&graph, 1, &node);
  put_value(&graph, 11, "x", FLOAT);
  put_value(&graph, 12, "y", FLOAT);
  cn_text m = model_of(&graph, 17);
  for (int i = 0; i < 2; i++) {
    cn_text f = {0}, inner = {0};
    put_text(&f, 1, names[i]);
    put_text(&f, 4, "a");
    put_text(&f, 5, "b");
    put_text(&f, 10, "my");
    put_text(&inner, 1, "a");
    put_text(&inner, 2, "b");
    put_text(&inner, 4, names[1 - i]);
    put_text(&inner, 7, "my");
    put_message(&f, 7, &inner);
    put_message(&m, 25, &f);
  }
  refused(&m, "calls itself");
}

/* Each calls the next: what runs goes no deeper than a bound, nor does what looks at them. */
static void functions_that_call_many(void **state)
{
  enum { MANY = 20000 };
  cn_text graph = {0}, m = {0}, set = {0};
  (void)state;
  put_text(&set, 1, "");
  put_int(&set, 2, 17);
  put_int(&m, 1, 8);
  put_message(&m, 8, &set);
  put_message(&m, 7, &graph);
  for (int i = 0; i < MANY; i++) {
    char name[16], next[16];
    cn_text f = {0}, inner = {0};
    snprintf(name, sizeof name, "f%d", i);
    snprintf(next, sizeof next, "f%d", i + 1);
    put_text(&f, 1, name);
    put_text(&f, 10, "my");
    put_text(&inner, 4, i + 1 < MANY ? next : "Relu");
    put_text(&inner, 7, i + 1 < MANY ? "my" : "");
    put_message(&f, 7, &inner);
    put_message(&m, 25, &f);
  }
  refused(&m, "deep");
}

/* A graph in an attribute that says it is a number is none. */
static void graphs_that_are_numbers(void **state)
{
  cn_text inner = {0}, g = {0}, attr = {0};
  (void)state;
  put_node(&inner, "Neg", "x", "p", NULL);
  put_text(&attr, 1, "alpha");
  put_float(&attr, 2, 0.5F);
  put_message(&attr, 6, &inner);
  put_int(&attr, 20, 1);
  put_node(&g, "LeakyRelu", "x", "y", &attr);
  put_value(&g, 11, "x", FLOAT);
  put_value(&g, 12, "y", FLOAT);
  cn_text m = model_of(&g, 17);
  cn_onnx *o = load(&m);
  assert_non_null(o);
  assert_int_equal(cn_onnx_nodes(o), 1);
  cn_onnx_free(o);
}

/* Nodes of a few bytes each are a model like any. */
static void many_small_nodes(void **state)
{
  enum { NODES = 20000 };
  cn_text g = {0};
  (void)state;
  for (int i = 0; i < NODES; i++) {
    char from[16], to[16];
    snprintf(from, sizeof from, i ? "%x" : "x", i);
    snprintf(to, sizeof to, i + 1 < NODES ? "%x" : "y", i + 1);
    put_node(&g, "Selu", from, to, NULL);
  }
  put_value(&g, 11, "x", FLOAT);
  put_value(&g, 12, "y", FLOAT);
  cn_text m = model_of(&g, 17);
  cn_onnx *o = load(&m);
  if (!o) fail_msg("%s", cn_err_message());
  cn_onnx_free(o);
}

/* Cut anywhere, and with any byte changed: an error or a model, never more. */
static void damaged_bytes(void **state)
{
  cn_text m = small_model();
  (void)state;
  for (size_t n = 0; n < m.n; n++) {
    cn_onnx *o = cn_onnx_load_memory_with(m.s, n, NULL);
    assert_true(!o == (cn_err() != 0));
    cn_onnx_free(o);
    cn_err_clear();
  }
  for (size_t n = 0; n < m.n; n++)
    for (int bit = 0; bit < 8; bit += 3) {
      m.s[n] = (char)(m.s[n] ^ 1 << bit);
      cn_onnx *o = cn_onnx_load_memory_with(m.s, m.n, NULL);
      cn_scope *scope = cn_scope_begin();
      cn_tensor *x = cn_ones(CN_SHAPE(2, 3)), *y;
      if (o && cn_onnx_inputs(o) == 1 && cn_onnx_outputs(o) == 1) cn_onnx_run(&y, o, &x);
      cn_scope_end(scope);
      cn_onnx_free(o);
      cn_err_clear();
      m.s[n] = (char)(m.s[n] ^ 1 << bit);
    }
  cn_text_free(&m);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_row_holds),
      cmocka_unit_test(bad_templates_are_refused),
      cmocka_unit_test(runs),
      cmocka_unit_test(shows_what_it_holds),
      cmocka_unit_test(same_bits_compiled),
      cmocka_unit_test(one_graph_for_all_sizes),
      cmocka_unit_test(branches),
      cmocka_unit_test(wrong_models),
      cmocka_unit_test(wrong_tensors),
      cmocka_unit_test(deep_nesting),
      cmocka_unit_test(functions_that_call_themselves),
      cmocka_unit_test(functions_that_call_many),
      cmocka_unit_test(graphs_that_are_numbers),
      cmocka_unit_test(many_small_nodes),
      cmocka_unit_test(damaged_bytes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
