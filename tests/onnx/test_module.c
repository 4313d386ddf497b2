/* test_module.c: models as modules that are trained, and as graphs for all sizes. */
#include <cairn/cairn.h>

#include "../unit/test.h"
#include "write.h"

/* y = batch_norm(x * W + b) * 0.5, clipped; x is (N, 3), W (3, 2). "fc.weight" and "fc.bias" lie in a part; "odd..name"
 * is no path; the clip's limits, the half and what is of no dimensions are settings. */
static cn_onnx *network(void)
{
  cn_text g = {0};
  put_node(&g, "MatMul", "x fc.weight", "a", NULL);
  put_node(&g, "Add", "a fc.bias", "b", NULL);
  put_node(&g, "BatchNormalization", "b odd..name shift mean variance", "c", NULL);
  put_node(&g, "Mul", "c half", "d", NULL);
  put_node(&g, "Clip", "d low", "y", NULL);
  put_floats(&g, "fc.weight", (const int64_t[]){3, 2}, 2);
  put_floats(&g, "fc.bias", (const int64_t[]){2}, 1);
  put_floats(&g, "odd..name", (const int64_t[]){2}, 1);
  put_floats(&g, "shift", (const int64_t[]){2}, 1);
  put_floats(&g, "mean", (const int64_t[]){2}, 1);
  put_floats(&g, "variance", (const int64_t[]){2}, 1);
  put_floats(&g, "half", (const int64_t[]){1}, 1);
  put_floats(&g, "low", NULL, 0);
  put_shaped(&g, 11, "x", "batch size,3");
  put_shaped(&g, 12, "y", "batch size,2");
  cn_text m = model_of(&g, 17);
  cn_onnx *o = cn_onnx_load_memory_with(m.s, m.n, NULL);
  cn_text_free(&m);
  if (!o) fail_msg("%s", cn_err_message());
  return o;
}

static void weights_are_found(void **state)
{
  static const struct {
    const char *name, *path;
    bool trained;
  } want[] = {{"fc.weight", "fc.weight", true}, {"fc.bias", "fc.bias", true}, {"odd..name", "odd__name", true},
              {"shift", "shift", true},         {"mean", "mean", false},      {"variance", "variance", false}};
  cn_onnx *o = network();
  cn_onnx_weight w;
  (void)state;
  assert_int_equal(cn_onnx_weights(o), sizeof want / sizeof *want);
  for (size_t i = 0; i < cn_onnx_weights(o); i++) {
    assert_int_equal(cn_onnx_weight_at(&w, o, i), 0);
    assert_string_equal(w.name, want[i].name);
    assert_string_equal(w.path, want[i].path);
    assert_int_equal(w.trained, want[i].trained);
    assert_non_null(w.tensor);
  }
  assert_int_equal(cn_onnx_weight_at(&w, o, cn_onnx_weights(o)), CN_ERR_INDEX);
  cn_err_clear();
  cn_onnx_free(o);
}

static bool close_to(cn_tensor *a, cn_tensor *b) { return cn_item(cn_allclose(a, b)) != 0; }

static float first_of(cn_tensor *t)
{
  float room[64];
  assert_int_equal(cn_to_data(room, sizeof room, t), 0);
  return room[0];
}

/* A step changes the module's weights and its results; the model and a copy made before stay as they were. */
static void it_trains(void **state)
{
  cn_onnx *o = network();
  cn_module *net = cn_onnx_module(o);
  (void)state;
  if (!net) fail_msg("%s", cn_err_message());
  cn_module *copy = cn_module_copy(net);
  cn_optim *sgd = cn_optim_sgd(net, .lr = 0.5);
  cn_scope *scope = cn_scope_begin();
  cn_tensor *x = cn_ones(CN_SHAPE(4, 3)), *before = NULL, *after;
  assert_int_equal(cn_onnx_run(&before, o, &x), 0);
  cn_tensor *y = cn_forward(net, x);
  assert_true(close_to(y, before));
  cn_backward(cn_mean(y));
  /* d mean(y) / d shift[1] is half (here 0: its only number is 0) */
  assert_float_equal(first_of(cn_grad_of(cn_module_get(net, "shift"))), 0, 0);
  assert_null(cn_grad_of(cn_module_get(net, "mean")));
  cn_zero_grad(cn_module_get(net, "shift"));
  cn_backward(cn_sum(cn_square(cn_module_get(net, "fc.weight"))));
  assert_int_equal(cn_optim_step(sgd), 0);
  float weight[6];
  assert_int_equal(cn_to_data(weight, sizeof weight, cn_module_get(net, "fc.weight")), 0);
  for (int i = 0; i < 6; i++) assert_float_equal(weight[i], 0, 0); /* w - 0.5 * 2 w */
  assert_int_equal(cn_onnx_run(&after, o, &x), 0);
  assert_true(close_to(after, before));
  assert_true(close_to(cn_forward(copy, x), before));
  assert_int_equal(cn_err(), 0);
  cn_scope_end(scope);
  cn_optim_free(sgd);
  cn_module_release(copy);
  cn_module_release(net);
  cn_onnx_free(o);
}

/* Dense layers in ONNX's words against the same in cairn's: results and gradients. */
static void gradients_are_those_of_the_ops(void **state)
{
  cn_text g = {0};
  put_node(&g, "Gemm", "x w b", "a", NULL);
  put_node(&g, "Tanh", "a", "h", NULL);
  put_node(&g, "MatMul", "h v", "y", NULL);
  put_floats(&g, "w", (const int64_t[]){3, 2}, 2);
  put_floats(&g, "b", (const int64_t[]){2}, 1);
  put_floats(&g, "v", (const int64_t[]){2, 2}, 2);
  put_value(&g, 11, "x", 1);
  put_value(&g, 12, "y", 1);
  cn_text m = model_of(&g, 17);
  cn_onnx *o = cn_onnx_load_memory_with(m.s, m.n, NULL);
  cn_text_free(&m);
  cn_module *net = cn_onnx_module(o);
  cn_onnx_free(o);
  (void)state;
  if (!net) fail_msg("%s", cn_err_message());
  cn_scope *scope = cn_scope_begin();
  cn_tensor *x = cn_mul(cn_arange(0, 12, .dtype = CN_F32), cn_num(0.125)), *own[3];
  x = cn_reshape(x, CN_SHAPE(4, 3));
  static const char *const names[] = {"w", "b", "v"};
  for (int i = 0; i < 3; i++) own[i] = cn_requires_grad(cn_clone(cn_detach(cn_module_get(net, names[i]))), true);
  cn_tensor *want = cn_matmul(cn_tanh(cn_addmm(own[1], x, own[0])), own[2]);
  cn_backward(cn_sum(cn_square(want)));
  cn_tensor *y = cn_forward(net, x);
  assert_true(close_to(y, want));
  cn_backward(cn_sum(cn_square(y)));
  for (int i = 0; i < 3; i++) assert_true(close_to(cn_grad_of(cn_module_get(net, names[i])), cn_grad_of(own[i])));
  assert_int_equal(cn_err(), 0);
  cn_scope_end(scope);
  cn_module_release(net);
}

/* Sizes that the model leaves open are sizes of the graph; a file of it needs no ONNX any more. */
static void a_graph_for_all_sizes(void **state)
{
  cn_onnx *o = network();
  cn_scope *scope = cn_scope_begin();
  cn_tensor *x = cn_ones(CN_SHAPE(5, 3)), *want, *got;
  cn_graph *g = cn_onnx_graph(o, &x);
  (void)state;
  if (!g) fail_msg("%s", cn_err_message());
  bool named = false;
  for (size_t i = 0; i < cn_graph_states(g); i++)
    named = named || (cn_graph_state_name(g, i) && !strcmp(cn_graph_state_name(g, i), "fc.weight"));
  assert_true(named);
  for (int64_t n = 1; n < 4; n++) {
    x = cn_randn(CN_SHAPE(n, 3));
    assert_int_equal(cn_onnx_run(&want, o, &x), 0);
    if (cn_graph_run(&got, g, &x)) fail_msg("%s", cn_err_message());
    assert_true(cn_item(cn_allclose(got, want, .rtol = CN_ZERO, .atol = CN_ZERO)) != 0);
  }
  cn_graph_free(g);
  assert_null(cn_onnx_graph(o, &(cn_tensor *){cn_ones(CN_SHAPE(3))}));
  assert_int_equal(cn_err(), CN_ERR_SHAPE);
  cn_err_clear();
  cn_scope_end(scope);
  cn_onnx_free(o);
}

/* Any value may be fed; nodes that only make it are not run. */
static void values_inside_can_be_fed(void **state)
{
  cn_onnx *o = network();
  cn_scope *scope = cn_scope_begin();
  const char *const names[] = {"d"};
  cn_onnx_value *x = cn_onnx_value_tensor(cn_ones(CN_SHAPE(1, 3))),
                *half = cn_onnx_value_tensor(cn_full(CN_SHAPE(1), 2)),
                *c = cn_onnx_value_tensor(cn_full(CN_SHAPE(1, 2), 3)), *made;
  const cn_onnx_feed feeds[] = {{"x", x}, {"half", half}, {"c", c}};
  (void)state;
  if (cn_onnx_run_named(&made, names, 1, o, feeds, 3)) fail_msg("%s", cn_err_message());
  assert_float_equal(first_of(cn_onnx_value_as_tensor(made)), 6, 0);
  cn_onnx_value_release(made);
  cn_onnx_value_release(x);
  cn_onnx_value_release(half);
  cn_onnx_value_release(c);
  cn_scope_end(scope);
  cn_onnx_free(o);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(weights_are_found),
      cmocka_unit_test(it_trains),
      cmocka_unit_test(gradients_are_those_of_the_ops),
      cmocka_unit_test(a_graph_for_all_sizes),
      cmocka_unit_test(values_inside_can_be_fed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
