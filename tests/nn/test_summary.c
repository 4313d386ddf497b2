/* test_summary.c: the table of a module's layers, and that making it leaves the module as it was. */
#include <cairn/cairn.h>

#include "test.h"

static cn_module *net(void)
{
  return cn_nn_sequential(cn_nn_conv2d(1, 4, 3, .padding = CN_INTS(1)), cn_nn_batch_norm2d(4), cn_nn_relu(),
                          cn_nn_flatten(), cn_nn_sequential(cn_nn_linear(256, 10, .no_bias = true)));
}

static void shows_layers_and_sums(void **state)
{
  (void)state;
  cn_module *m = cn_module_make("Dropout", NULL, 0);
  cn_module_release(m);
  m = net();
  char *text = cn_summary(m, CN_SHAPE(2, 1, 8, 8));
  assert_non_null(text);
  static const char *const lines[] = {
    "Layer                     Output shape            Parameters  Multiply-adds  Output bytes\n",
    "Sequential                [2, 10]                         --             --            80\n",
    "\xe2\x94\x9c\xe2\x94\x80 0: Conv2d              [2, 4, 8, 8]                    40          4,608         2,048\n",
    "\xe2\x94\x9c\xe2\x94\x80 1: BatchNorm2d         [2, 4, 8, 8]                     8            512         2,048\n",
    "\xe2\x94\x94\xe2\x94\x80 4: Sequential          [2, 10]                         --             --            80\n",
    "   \xe2\x94\x94\xe2\x94\x80 0: Linear           [2, 10]                      2,560          5,120            80\n",
    "Parameters: 2,608\n",
    "Trainable parameters: 2,608\n",
    "Other parameters: 0\n",
    "Multiply-adds (M): 0.01\n",
    "Forward and backward pass (MB): 0.02\n",
    "Parameters (MB): 0.01\n",
  };
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    if (!strstr(text, lines[i])) fail_msg("no line\n%sin\n%s", lines[i], text);
  cn_string_free(text);
  cn_module_release(m);
}

/* Modes come back one by one, running statistics do not move, hooks are gone. */
static void leaves_no_trace(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_module *m = net();
  cn_module_train(cn_module_child(m, 1), false);
  cn_tensor *mean = cn_clone(cn_module_get(m, "1.running_mean"));
  char *text = cn_summary(m, CN_SHAPE(1, 1, 8, 8));
  assert_non_null(text);
  cn_string_free(text);
  assert_true(cn_module_training(m) && !cn_module_training(cn_module_child(m, 1)));
  assert_true(cn_module_training(cn_module_child(m, 4)));
  assert_true(cn_item(cn_all(cn_eq(mean, cn_module_get(m, "1.running_mean")))));
  assert_int_equal(cn_item_int(cn_module_get(m, "1.num_batches_tracked")), 0);
  assert_null(cn_summary(m, CN_SHAPE(1, 2, 8, 8))); /* channels do not fit */
  assert_int_equal(cn_err(), CN_ERR_SHAPE);
  cn_err_clear();
  assert_true(cn_module_training(m) && !cn_module_training(cn_module_child(m, 1)));
  assert_null(cn_summary(NULL, CN_SHAPE(1)));
  cn_err_clear();
  cn_module_release(m);
  cn_scope_end(s);
}

static void other_inputs(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_module *words = cn_nn_sequential(cn_nn_embedding(50, 6), cn_nn_linear(6, 3));
  char *text = cn_summary(words, CN_SHAPE(2, 7)); /* takes whole numbers */
  assert_non_null(text);
  assert_non_null(strstr(text, "[2, 7, 3]"));
  cn_string_free(text);
  cn_module *attention = cn_nn_multihead_attention(8, 2);
  cn_tensor *x = cn_ones(CN_SHAPE(5, 2, 8));
  text = cn_summary_inputs(attention, CN_TENSORS(x, x, x));
  assert_non_null(text);
  assert_non_null(strstr(text, "[5, 2, 8]"));
  assert_non_null(strstr(text, "Parameters: 288\n"));
  cn_string_free(text);
  cn_module *adaptive = cn_nn_adaptive_log_softmax_with_loss(8, 12, CN_SHAPE(4, 7)); /* cannot be traced */
  text = cn_summary_inputs(adaptive, CN_TENSORS(cn_ones(CN_SHAPE(3, 8)), cn_zeros(CN_SHAPE(3), .dtype = CN_I64)));
  assert_non_null(text);
  cn_string_free(text);
  cn_module_release(words);
  cn_module_release(attention);
  cn_module_release(adaptive);
  cn_scope_end(s);
}

static void shared_modules_count_once(void **state)
{
  (void)state;
  cn_module *one = cn_nn_linear(4, 4), *m = cn_nn_sequential(one, cn_module_keep(one));
  char *text = cn_summary(m, CN_SHAPE(3, 4));
  assert_non_null(text);
  assert_non_null(strstr(text, "(shared)"));
  assert_non_null(strstr(text, "Parameters: 20\n"));
  assert_non_null(strstr(text, " 96 ")); /* both calls */
  cn_string_free(text);
  cn_module_release(m);
}

static void survives_failing_memory(void **state)
{
  (void)state;
  cn_module *m = net();
  cn_memory_set_caching(false);
  bool done = false;
  for (uint64_t k = 1; k < 100000 && !done; k += k < 100 ? 1 : 11) {
    cn_memory_fail_at(k);
    char *text = cn_summary(m, CN_SHAPE(1, 1, 8, 8));
    cn_memory_fail_at(0);
    done = text && !cn_err();
    if (!text) assert_int_equal(cn_err(), CN_ERR_MEMORY);
    cn_err_clear();
    cn_string_free(text);
    assert_true(cn_module_training(m));
  }
  assert_true(done);
  cn_memory_set_caching(true);
  cn_module_release(m);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(shows_layers_and_sums),     cmocka_unit_test(leaves_no_trace),
    cmocka_unit_test(other_inputs),              cmocka_unit_test(shared_modules_count_once),
    cmocka_unit_test(survives_failing_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
