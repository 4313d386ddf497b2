/* test_lift.c: calls of composite ops become one node again where they can, and such graphs run. */
#include <cairn/cairn.h>
#include <cairn/ext/graph.h>
#include <string.h>

#include "test.h"

static int forward(cn_tensor **out, cn_tensor *const *in, void *net)
{
  out[0] = cn_forward(net, in[0]);
  return cn_err();
}

/* "conv2d batch_norm relu ...": the ops of a graph, views and their kin left out. */
static char *ops_of(const cn_graph *g)
{
  cn_text t = {0};
  for (int i = 0; i < (int)cn_graph_nodes(g); i++) {
    cn_graph_node n = {sizeof n};
    assert_int_equal(cn_graph_node_at(&n, g, i), 0);
    if (!(n.op->flags & CN_OP_VIEW)) cn_text_putf(&t, "%s%s", t.n ? " " : "", n.name);
  }
  return cn_text_take(&t);
}

/* Traces net without gradients, lifts, compares what it gives, and the ops. */
static void assert_lifted(cn_module *net, cn_tensor *x, const char *want)
{
  cn_scope *s = cn_scope_begin();
  int saved = cn_no_grad_begin();
  cn_tensor *a, *b;
  cn_graph *g = cn_trace(forward, 1, &x, 1, net);
  assert_non_null(g);
  assert_true(cn_graph_lift(g, NULL, NULL) > 0);
  if (cn_graph_verify(g)) fail_msg("%s", cn_err_message());
  char *ops = ops_of(g);
  assert_string_equal(ops, want);
  cn_string_free(ops);
  cn_seed(3);
  assert_int_equal(forward(&a, &x, net), 0);
  cn_seed(3);
  if (cn_graph_run(&b, g, &x)) fail_msg("%s", cn_err_message());
  assert_true(cn_item(cn_all(cn_eq(a, b))) > 0);
  cn_graph_free(g);
  cn_no_grad_end(saved);
  cn_scope_end(s);
}

static void test_a_convolution_block(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_module *net = cn_nn_sequential(cn_nn_conv2d(3, 8, 3, .padding = CN_INTS(1)), cn_nn_batch_norm2d(8),
                                    cn_nn_hardswish(), cn_nn_max_pool2d(2), cn_nn_dropout(.p = 0.5), cn_nn_flatten(),
                                    cn_nn_linear(8 * 4 * 4, 10));
  cn_module_train(net, false);
  assert_lifted(net, cn_randn(CN_SHAPE(2, 3, 8, 8)),
                "conv2d batch_norm hardswish max_pool2d flatten linear");
  cn_module_release(net);
  cn_scope_end(s);
}

static void test_a_transformer_block(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_module *net = cn_nn_transformer_encoder_layer(16, 4, .dim_feedforward = 32, .batch_first = true);
  assert_lifted(net, cn_randn(CN_SHAPE(2, 5, 16)),
                "linear scaled_dot_product_attention linear dropout add layer_norm "
                "linear relu dropout linear dropout add layer_norm");
  cn_module_release(net);
  cn_scope_end(s);
}

static bool group_norms(const cn_op *op, void *payload)
{
  ++*(int *)payload;
  return op == cn_op_find("group_norm");
}

static int norm_and_loss(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  out[0] = cn_mse_loss(cn_group_norm(in[0], 2, NULL, NULL), in[1]);
  return cn_err();
}

/* Who knows one op only gets that one. */
static void test_wanted(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  int asked = 0;
  cn_tensor *in[2] = {cn_randn(CN_SHAPE(2, 4, 3)), cn_randn(CN_SHAPE(2, 4, 3))};
  cn_graph *g = cn_trace(norm_and_loss, 1, in, 2, NULL);
  assert_int_equal(cn_graph_lift(g, group_norms, &asked), 1);
  assert_true(asked >= 2);
  char *ops = ops_of(g);
  assert_non_null(strstr(ops, "group_norm"));
  assert_null(strstr(ops, "mse_loss"));
  assert_int_equal(cn_graph_lift(g, NULL, NULL), 1);
  cn_string_free(ops);
  ops = ops_of(g);
  assert_string_equal(ops, "group_norm mse_loss");
  cn_string_free(ops);
  cn_graph_free(g);
  cn_scope_end(s);
}

static int with_gradient(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  cn_tensor *x = cn_requires_grad(cn_detach(in[0]), true);
  out[0] = cn_log(cn_sum(cn_mish(x)));
  out[1] = cn_mse_loss(out[0], cn_num(1));
  cn_backward(out[1]);
  out[2] = cn_grad_of(x);
  return cn_err();
}

/* What a gradient reads from the inside keeps a call as it is. */
static void test_gradients_keep_insides(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_randn(CN_SHAPE(6)), *a[3], *b[3];
  cn_graph *g = cn_trace(with_gradient, 3, &x, 1, NULL);
  if (!g) fail_msg("%s", cn_err_message());
  assert_true(cn_graph_lift(g, NULL, NULL) >= 0);
  assert_int_equal(cn_graph_verify(g), 0);
  assert_int_equal(with_gradient(a, &x, NULL), 0);
  assert_int_equal(cn_graph_run(b, g, &x), 0);
  for (int i = 0; i < 3; i++) assert_true(cn_item(cn_all(cn_eq(a[i], b[i]))) > 0);
  cn_graph_free(g);
  cn_scope_end(s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_convolution_block),
    cmocka_unit_test(test_a_transformer_block),
    cmocka_unit_test(test_wanted),
    cmocka_unit_test(test_gradients_keep_insides),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
