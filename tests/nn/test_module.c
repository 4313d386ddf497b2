/* test_module.c: modules as such: making, calling, names, state, copies, hooks, printing; a class of a user's own. */
#include <cairn/cairn.h>
#include <stdio.h>

#include "test.h"

static cn_module *mlp(void)
{
  return cn_nn_sequential(cn_nn_linear(4, 3), cn_nn_relu(), cn_nn_linear(3, 2, .no_bias = true));
}

static void is_called_and_named(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_module *net = mlp();
  assert_non_null(net);
  cn_tensor *y = cn_forward(net, cn_ones(CN_SHAPE(5, 4)));
  assert_int_equal(cn_ndim(y), 2);
  assert_int_equal(cn_size(y, 1), 2);
  cn_named_list list;
  assert_int_equal(cn_module_named(&list, net, CN_PARAMETERS | CN_BUFFERS), 0);
  assert_int_equal(list.n, 3);
  assert_string_equal(list.v[0].name, "0.weight");
  assert_string_equal(list.v[1].name, "0.bias");
  assert_string_equal(list.v[2].name, "2.weight");
  cn_named_free(&list);
  assert_int_equal(cn_module_count(net, false), 4 * 3 + 3 + 3 * 2);
  assert_ptr_equal(cn_module_get(net, "2.weight"), cn_module_slot(cn_module_child(net, 2), 0));
  assert_null(cn_module_get(net, "2.bias"));
  assert_null(cn_module_get(net, "7.bias"));
  assert_int_equal(cn_backward(cn_sum(y)), 0);
  assert_non_null(cn_grad_of(cn_module_get(net, "0.weight")));
  cn_module_zero_grad(net);
  assert_null(cn_grad_of(cn_module_get(net, "0.weight")));
  cn_module_release(net);
  cn_scope_end(s);
}

static void prints_like_pytorch(void **state)
{
  (void)state;
  cn_module *net = cn_nn_sequential(mlp(), cn_nn_identity());
  char *text = cn_module_to_string(net);
  assert_string_equal(text,
                      "Sequential(\n"
                      "  (0): Sequential(\n"
                      "    (0): Linear(in_features=4, out_features=3, bias=True)\n"
                      "    (1): ReLU()\n"
                      "    (2): Linear(in_features=3, out_features=2, bias=False)\n"
                      "  )\n"
                      "  (1): Identity()\n"
                      ")");
  cn_string_free(text);
  cn_module_release(net);
}

static void state_goes_out_and_in(void **state)
{
  (void)state;
  cn_module *a = mlp(), *b = mlp();
  cn_tree *tree = cn_module_state(a);
  assert_int_equal(cn_tree_size(tree), 3);
  assert_int_equal(cn_module_load(b, tree), 0);
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_rand(CN_SHAPE(2, 4));
  assert_true(cn_item(cn_all(cn_eq(cn_forward(a, x), cn_forward(b, x)))));
  cn_tree_put(tree, "__metadata__", cn_tree_str("no tensor, no matter"));
  assert_int_equal(cn_module_load(b, tree), 0);
  cn_tree_put(tree, "extra", cn_tree_tensor(x));
  assert_int_equal(cn_module_load(b, tree), CN_ERR_VALUE);
  assert_non_null(strstr(cn_err_message(), "extra"));
  cn_err_clear();
  assert_int_equal(cn_module_load(b, tree, .lenient = true), 0);
  cn_tree_put(tree, "2.weight", cn_tree_tensor(x));
  assert_int_equal(cn_module_load(b, tree, .lenient = true), CN_ERR_SHAPE);
  cn_err_clear();
  cn_scope_end(s);
  cn_tree_free(tree);
  cn_module_release(a);
  cn_module_release(b);
}

/* A class of a user's own: y = scale * child(x). */
static int scaled_init(cn_module *m, const cn_value *args)
{
  (void)args;
  cn_module_add_parameter(m, "scale", cn_full(CN_SHAPE(1), 2));
  return cn_module_add(m, "inner", cn_nn_linear(4, 4));
}

static cn_tensor *scaled_apply(cn_module *m, cn_tensor *x)
{
  return cn_mul(cn_module_slot(m, 0), cn_forward(cn_module_child(m, 0), x));
}

static const cn_module_class scaled = {
  CN_MODULE_CLASS,
  .name = "Scaled", .sig = "Scaled() -> Module", .doc = "A test.", .init = scaled_init, .apply = scaled_apply};

static void own_classes_and_copies(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_module *m = cn_module_make_class(&scaled, NULL, 0);
  cn_module *twice = cn_nn_sequential(m, cn_module_keep(m)); /* the same module in two places */
  assert_int_equal(cn_module_count(twice, false), 21);
  cn_module *copy = cn_module_copy(twice);
  assert_non_null(copy);
  assert_ptr_equal(cn_module_child(copy, 0), cn_module_child(copy, 1));
  assert_ptr_not_equal(cn_module_child(copy, 0), m);
  cn_tensor *x = cn_rand(CN_SHAPE(3, 4));
  assert_true(cn_item(cn_all(cn_eq(cn_forward(twice, x), cn_forward(copy, x)))));
  assert_int_equal(cn_module_to(copy, CN_DEVICE_DEFAULT, CN_F64), 0);
  assert_int_equal(cn_dtype_of(cn_module_get(copy, "0.inner.weight")), CN_F64);
  assert_true(cn_needs_grad(cn_module_get(copy, "0.inner.weight")));
  assert_int_equal(cn_dtype_of(cn_module_get(twice, "0.inner.weight")), CN_F32);
  cn_module_release(copy);
  cn_module_release(twice);
  cn_scope_end(s);
}

/* Layers read their arguments, which cn_module_new has none of. */
static void classes_with_a_signature_need_arguments(void **state)
{
  (void)state;
  const cn_module_class *classes[] = {cn_module_class_find("Linear"), cn_module_class_find("ReLU"), &scaled};
  for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
    assert_null(cn_module_new(classes[i]));
    assert_int_equal(cn_err(), CN_ERR_VALUE);
    assert_non_null(strstr(cn_err_message(), "cn_module_make_class"));
    cn_err_clear();
  }
  assert_null(cn_module_class_find(NULL));
  assert_null(cn_module_make(NULL, NULL, 0));
  assert_int_equal(cn_err(), CN_ERR_UNSUPPORTED);
  cn_err_clear();
}

static int count_call(cn_module *m, cn_module_call *call, void *payload)
{
  (void)m;
  (void)call;
  ++*(int *)payload;
  return CN_OK;
}

static int double_grad(cn_module *m, cn_tensor **grad_inputs, size_t ninputs, cn_tensor *const *grad_outputs,
                       size_t noutputs, void *payload)
{
  (void)m;
  assert_int_equal(ninputs, 1);
  assert_int_equal(noutputs, 1);
  assert_non_null(grad_outputs[0]);
  grad_inputs[0] = cn_mul(grad_inputs[0], cn_num(2));
  ++*(int *)payload;
  return CN_OK;
}

static void hooks_run(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  int before = 0, after = 0, backward = 0;
  cn_module *m = cn_nn_linear(4, 2);
  cn_tensor *x = cn_requires_grad(cn_rand(CN_SHAPE(3, 4)), true);
  assert_int_equal(cn_backward(cn_sum(cn_forward(m, x))), 0);
  cn_tensor *plain = cn_clone(cn_grad_of(x));
  cn_zero_grad(x);
  cn_module_hook_before(m, count_call, &before, NULL);
  int64_t id = cn_module_hook_after(m, count_call, &after, NULL);
  cn_module_hook_backward(m, double_grad, &backward, NULL);
  assert_int_equal(cn_backward(cn_sum(cn_forward(m, x))), 0);
  assert_int_equal(before, 1);
  assert_int_equal(after, 1);
  assert_int_equal(backward, 1);
  assert_true(cn_item(cn_allclose(cn_grad_of(x), cn_mul(plain, cn_num(2)))));
  assert_int_equal(cn_module_hook_remove(m, id), 0);
  cn_forward(m, x);
  assert_int_equal(after, 1);
  cn_module_release(m);
  cn_scope_end(s);
}

static void wrong_calls_are_errors(void **state)
{
  (void)state;
  cn_module *net = cn_nn_sequential(cn_nn_linear(4, -1), cn_nn_relu()); /* the relu is freed */
  assert_null(net);
  assert_int_equal(cn_err(), CN_ERR_VALUE);
  cn_err_clear();
  net = cn_nn_bilinear(2, 3, 4);
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_ones(CN_SHAPE(1, 2));
  assert_null(cn_forward(net, x));
  assert_non_null(strstr(cn_err_message(), "input2"));
  cn_err_clear();
  assert_null(cn_forward(net, x, x, x));
  cn_err_clear();
  cn_scope_end(s);
  cn_module_release(net);
}

static void json_round_trip(void **state)
{
  (void)state;
  const char *text = "{\"a\": [1, -2.5, true, null, \"x\\u00e9\\n\"], \"b\": {\"c\": 1e300}}";
  cn_tree *t = cn_tree_from_json(text, strlen(text));
  assert_non_null(t);
  assert_int_equal(cn_tree_as_int(cn_tree_at(cn_tree_get(t, "a"), 0), 0), 1);
  char *again = cn_tree_to_json(t, 0);
  cn_tree *u = cn_tree_from_json(again, strlen(again));
  char *third = cn_tree_to_json(u, 0);
  assert_string_equal(again, third);
  cn_string_free(again);
  cn_string_free(third);
  cn_tree_free(t);
  cn_tree_free(u);
  cn_tree *big = cn_tree_dict();
  for (int i = 0; i < 5000; i++) {
    char key[16];
    snprintf(key, sizeof key, "k%d", i);
    assert_int_equal(cn_tree_put(big, key, cn_tree_int(i)), 0);
  }
  assert_int_equal(cn_tree_as_int(cn_tree_get(big, "k4711"), -1), 4711);
  assert_null(cn_tree_get(big, "k5000"));
  cn_tree_free(big);
  static const char *const wrong[] = {"", "{", "[1,]", "{\"a\" 1}", "01x", "\"a", "nul", "[1] 2", "{1: 2}", "\"\\x\""};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    assert_null(cn_tree_from_json(wrong[i], strlen(wrong[i])));
    assert_int_equal(cn_err(), CN_ERR_IO);
    cn_err_clear();
  }
}

/* A class says how large it is, so that one made for another cairn is told from one of today. */
static void a_class_has_its_size(void **state)
{
  static const cn_module_class sizeless = {.name = "Sizeless", .apply = scaled_apply};
  static const cn_function no_size = {.name = "no size"};
  static const cn_dataset_class no_class = {.name = "no size"};
  (void)state;
  assert_null(cn_module_new(&sizeless));
  assert_int_equal(cn_err(), CN_ERR_VALUE);
  cn_err_clear();
  assert_null(cn_dataset_new(&no_class, NULL));
  assert_int_equal(cn_err(), CN_ERR_VALUE);
  cn_err_clear();
  assert_int_equal(cn_function_apply(NULL, 0, &no_size, NULL, 0, NULL), CN_ERR_VALUE);
  cn_err_clear();
  /* A larger one, of a later cairn, works: what is behind the fields of today is not looked at. */
  static struct {
    cn_module_class cls;
    void *later[4];
  } large = {{.size = sizeof large, .name = "Large", .apply = scaled_apply}, {NULL}};
  cn_module *m = cn_module_new(&large.cls);
  assert_non_null(m);
  cn_module_release(m);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_class_has_its_size),
    cmocka_unit_test(is_called_and_named),  cmocka_unit_test(prints_like_pytorch),
    cmocka_unit_test(state_goes_out_and_in), cmocka_unit_test(own_classes_and_copies),
    cmocka_unit_test(hooks_run),            cmocka_unit_test(wrong_calls_are_errors),
    cmocka_unit_test(json_round_trip),      cmocka_unit_test(classes_with_a_signature_need_arguments),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
