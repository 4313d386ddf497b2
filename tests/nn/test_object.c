/* test_object.c: what bindings need of modules: their own object and forward, parts removed, settings changed, copies
 * without parts. */
#include <cairn/cairn.h>
#include <string.h>

#include "test.h"

static void parts_are_removed(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_module *net = cn_nn_linear(2, 2);
  cn_tensor *x = cn_ones(CN_SHAPE(1, 2)), *bias = cn_module_slot(net, 1);
  cn_named slot;
  assert_int_equal(cn_module_add_parameter(net, "gain", cn_ones(CN_SHAPE(1))), 2);
  assert_int_equal(cn_module_add_buffer(net, "count", cn_zeros(CN_SHAPE(1)), false), 3);
  assert_int_equal(cn_module_remove(net, "gain"), 0);
  assert_true(cn_module_slot_at(&slot, net, 2));
  assert_string_equal(slot.name, "count");
  assert_true(slot.buffer);
  assert_false(slot.persistent);
  assert_false(cn_module_slot_at(&slot, net, 3));
  /* The class reads its weight by number, so the bias must stay where it is. */
  assert_int_equal(cn_module_remove(net, "weight"), 0);
  assert_ptr_equal(cn_module_slot(net, 1), bias);
  assert_null(cn_module_get(net, "weight"));
  assert_true(cn_module_slot_at(&slot, net, 0));
  assert_null(slot.name);
  assert_int_equal(cn_module_count(net, false), 2);
  assert_true(cn_module_set_removed(net, "weight", cn_zeros(CN_SHAPE(2, 2))));
  assert_false(cn_module_set_removed(net, "other", x));
  assert_true(cn_item(cn_max(cn_abs(cn_sub(cn_forward(net, x), bias)))) <= 0);
  assert_int_equal(cn_module_count(net, false), 2); /* no list shows it */
  assert_int_equal(cn_module_add_parameter(net, "weight", cn_ones(CN_SHAPE(2, 2))), 0);
  assert_int_equal(cn_module_count(net, false), 6);
  assert_true(cn_module_remove(net, "nothing") < 0);
  cn_err_clear();
  cn_module *list = cn_nn_sequential(net, cn_nn_relu(), cn_nn_tanh());
  assert_int_equal(cn_module_remove(list, "1"), 0);
  assert_int_equal(cn_module_nchildren(list), 2);
  assert_string_equal(cn_module_child_name(list, 1), "2");
  cn_module_release(list);
  cn_scope_end(s);
}

static int times_called;

/* Doubles what the class computes. */
static int doubled(cn_module *m, cn_module_call *call, void *payload)
{
  assert_ptr_equal(payload, &times_called);
  times_called++;
  if (cn_forward_class(call->out, 1, m, call->args, call->nargs)) return cn_err();
  call->out[0] = cn_add(call->out[0], call->out[0]);
  return cn_err();
}

static void forward_is_replaced(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_module *layer = cn_nn_relu(), *net = cn_nn_sequential(layer);
  cn_tensor *x = cn_full(CN_SHAPE(2), 3);
  cn_module_set_object(layer, &times_called);
  assert_ptr_equal(cn_module_object(layer), &times_called);
  assert_null(cn_module_object(net));
  cn_module_set_forward(layer, doubled);
  assert_float_equal((float)cn_item(cn_max(cn_forward(net, x))), 6, 1e-6);
  assert_int_equal(times_called, 1);
  cn_value arg = cn_v_tensor(x);
  cn_tensor *y;
  assert_int_equal(cn_forward_class(&y, 1, layer, &arg, 1), 0);
  assert_float_equal((float)cn_item(cn_max(y)), 3, 1e-6);
  cn_module *copy = cn_module_copy(net);
  assert_float_equal((float)cn_item(cn_max(cn_forward(copy, x))), 3, 1e-6); /* a copy has neither */
  cn_module_release(copy);
  cn_module_set_forward(layer, NULL);
  assert_float_equal((float)cn_item(cn_max(cn_forward(net, x))), 3, 1e-6);
  assert_false(cn_module_hooked(layer));
  assert_true(cn_forward_class(&y, 1, NULL, &arg, 1) < 0);
  cn_err_clear();
  cn_module_release(net);
  cn_scope_end(s);
}

static void settings_change(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_module *layer = cn_nn_leaky_relu(.negative_slope = 0.1);
  assert_int_equal(cn_module_set_arg(layer, "negative_slope", cn_v_float(0.5)), 0);
  assert_float_equal((float)cn_item(cn_min(cn_forward(layer, cn_full(CN_SHAPE(2), -2)))), -1, 1e-7);
  char *text = cn_module_describe(layer);
  assert_string_equal(text, "negative_slope=0.5");
  cn_string_free(text);
  assert_true(cn_module_set_arg(layer, "nothing", cn_v_int(1)) < 0);
  cn_err_clear();
  cn_module *net = cn_nn_sequential(layer);
  cn_module_set_training(net, false);
  assert_false(cn_module_training(net));
  assert_true(cn_module_training(layer));
  cn_module *rnn = cn_nn_lstm(2, 3);
  assert_int_equal(cn_module_set_arg(rnn, "batch_first", cn_v_bool(true)), 0);
  cn_tensor *h, *out[2];
  assert_int_equal(cn_forward_all(out, 2, rnn, CN_TENSORS(cn_ones(CN_SHAPE(4, 5, 2)))), 0);
  h = out[1];
  assert_int_equal(cn_size(h, 1), 4); /* (layers, batch, hidden) */
  cn_module_release(rnn);
  cn_module_release(net);
  cn_scope_end(s);
}

static void becomes_another(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_module *layer = cn_nn_identity(), *net = cn_nn_sequential(layer, cn_nn_relu());
  cn_module_set_object(layer, &times_called);
  cn_module_become(layer, cn_nn_linear(2, 5));
  assert_ptr_equal(cn_module_child(net, 0), layer);
  assert_string_equal(layer->cls->name, "Linear");
  assert_ptr_equal(cn_module_object(layer), &times_called);
  assert_int_equal(cn_size(cn_forward(net, cn_ones(CN_SHAPE(1, 2))), 1), 5);
  cn_module_release(net);
  cn_scope_end(s);
}

static void shells_have_no_parts(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_value args[] = {cn_v_int(2), cn_v_int(3)};
  cn_module *shell = cn_module_new_with(cn_module_class_find("Linear"), args, 2);
  cn_named slot;
  assert_non_null(shell);
  assert_false(cn_module_slot_at(&slot, shell, 0));
  assert_int_equal(cn_args_get(cn_module_args(shell), "out_features")->u.i, 3);
  cn_module_release(shell);
  cn_module *norm = cn_nn_batch_norm1d(3), *bare;
  cn_module_train(norm, false);
  bare = cn_module_copy_bare(norm);
  assert_true(cn_module_slot_at(&slot, bare, 4));
  assert_string_equal(slot.name, "num_batches_tracked");
  assert_null(slot.tensor);
  assert_true(slot.buffer);
  assert_false(cn_module_training(bare));
  cn_module_release(bare);
  cn_module_release(norm);
  cn_scope_end(s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(parts_are_removed), cmocka_unit_test(forward_is_replaced),
                                     cmocka_unit_test(settings_change), cmocka_unit_test(shells_have_no_parts),
                                     cmocka_unit_test(becomes_another)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
