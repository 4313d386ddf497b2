/* test_packed.c: packed sequences: layout as PyTorch's, there and back, gradients, recurrent layers over them against
 * each sequence by itself. */
#include <cairn/cairn.h>

#include "test.h"

static cn_tensor *numbers(const int64_t *v, size_t n) { return cn_from_data(v, &(int64_t){(int64_t)n}, 1, CN_I64); }
#define NUMBERS(...) \
  numbers((const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

static void same(cn_tensor *a, cn_tensor *b)
{
  assert_non_null(a);
  assert_non_null(b);
  assert_int_equal(cn_ndim(a), cn_ndim(b));
  for (int d = 0; d < cn_ndim(a); d++) assert_int_equal(cn_size(a, d), cn_size(b, d));
  assert_true(cn_item(cn_all(cn_eq(a, b))));
}

static void close_to(cn_tensor *a, cn_tensor *b)
{
  assert_non_null(a);
  assert_non_null(b);
  assert_true(cn_item(cn_allclose(a, b, .atol = 1e-6, .rtol = 1e-5)));
}

/* The example in PyTorch's documentation: [[1, 2, 0], [3, 0, 0], [4, 5, 6]] with lengths 2, 1, 3. */
static void layout_is_pytorchs(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_reshape(NUMBERS(1, 2, 0, 3, 0, 0, 4, 5, 6), CN_SHAPE(3, 3)), *y, *lengths;
  cn_packed p;
  assert_int_equal(cn_pack_padded(&p, x, NUMBERS(2, 1, 3), .batch_first = true, .no_enforce_sorted = true), 0);
  same(p.data, NUMBERS(4, 1, 3, 5, 2, 6));
  same(p.batch_sizes, NUMBERS(3, 2, 1));
  same(p.sorted_indices, NUMBERS(2, 0, 1));
  same(p.unsorted_indices, NUMBERS(1, 2, 0));
  assert_int_equal(cn_pad_packed(&y, &lengths, &p, .batch_first = true), 0);
  same(y, x);
  same(lengths, NUMBERS(2, 1, 3));
  assert_int_equal(cn_pad_packed(&y, NULL, &p, .total_length = 4, .padding_value = -1), 0);
  same(y, cn_reshape(NUMBERS(1, 3, 4, 2, -1, 5, -1, -1, 6, -1, -1, -1), CN_SHAPE(4, 3)));
  cn_tensor *list[] = {NUMBERS(4, 5, 6), NUMBERS(1, 2), NUMBERS(3)};
  assert_int_equal(cn_pack_sequence(&p, list, 3), 0);
  same(p.data, NUMBERS(4, 1, 3, 5, 2, 6));
  assert_null(p.sorted_indices);
  same(cn_pad_sequence(list, 3, .batch_first = true),
       cn_reshape(NUMBERS(4, 5, 6, 1, 2, 0, 3, 0, 0), CN_SHAPE(3, 3)));
  same(cn_pad_sequence(list, 3, .padding_value = 9, .padding_side = "left"),
       cn_reshape(NUMBERS(4, 9, 9, 5, 1, 9, 6, 2, 3), CN_SHAPE(3, 3)));
  assert_int_equal(cn_pack_sequence(&p, ((cn_tensor *[]){list[2], list[0]}), 2, .no_enforce_sorted = true), 0);
  same(p.data, NUMBERS(4, 3, 5, 6));
  cn_tensor *back[3];
  assert_int_equal(cn_unpack_sequence(back, 2, &p), 0);
  same(back[0], list[2]);
  same(back[1], list[0]);
  assert_int_equal(cn_unpad_sequence(back, 3, x, NUMBERS(3, 2, 2), false), 0);
  same(back[0], NUMBERS(1, 3, 4));
  same(back[2], NUMBERS(0, 0));
  assert_int_equal(cn_unpack_sequence(back, 3, &p), CN_ERR_SHAPE);
  cn_err_clear();
  cn_scope_end(s);
}

static void there_and_back_with_gradients(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  for (int first = 0; first < 2; first++) {
    cn_tensor *x = cn_requires_grad(first ? cn_randn(CN_SHAPE(3, 4, 2)) : cn_randn(CN_SHAPE(4, 3, 2)), true), *y;
    cn_packed p;
    assert_int_equal(cn_pack_padded(&p, x, NUMBERS(1, 4, 2), .batch_first = first, .no_enforce_sorted = true), 0);
    assert_int_equal(cn_pad_packed(&y, NULL, &p, .batch_first = first), 0);
    assert_int_equal(cn_backward(cn_sum(cn_mul(y, cn_num(3)))), 0);
    /* three where a sequence has a number, zero in the padding */
    const int64_t along[] = {first ? 1 : 4, first ? 4 : 1, 1}, across[] = {first ? 3 : 1, first ? 1 : 3, 1};
    cn_tensor *steps = cn_reshape(cn_arange(0, 4), along, 3), *lengths = cn_reshape(NUMBERS(1, 4, 2), across, 3);
    cn_tensor *inside = cn_expand(cn_lt(steps, lengths), cn_shape(x), 3);
    same(cn_grad_of(x), cn_mul(cn_cast(inside, CN_F32), cn_num(3)));
    same(y, cn_where(inside, x, cn_num(0)));
  }
  cn_scope_end(s);
}

/* A layer over packed sequences gives what it gives for each one alone. */
static void runs_each_alone(cn_module *m, bool memory)
{
  static const int64_t lengths[] = {2, 4, 1};
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_randn(CN_SHAPE(4, 3, 3)), *h0 = cn_randn(CN_SHAPE(4, 3, 5));
  cn_tensor *c0 = memory ? cn_randn(CN_SHAPE(4, 3, 5)) : NULL, *h = NULL, *c = NULL, *y = NULL;
  cn_packed p, q;
  assert_int_equal(cn_pack_padded(&p, x, numbers(lengths, 3), .no_enforce_sorted = true), 0);
  assert_int_equal(cn_forward_packed(&q, &h, memory ? &c : NULL, m, &p, h0, c0), 0);
  assert_int_equal(cn_pad_packed(&y, NULL, &q), 0);
  for (int64_t i = 0; i < 3; i++) {
    cn_tensor *one = cn_narrow(cn_narrow(x, 1, i, 1), 0, 0, lengths[i]), *out[3] = {NULL};
    cn_tensor *in[] = {one, cn_narrow(h0, 1, i, 1), memory ? cn_narrow(c0, 1, i, 1) : NULL};
    assert_int_equal(cn_forward_all(out, memory ? 3 : 2, m, in, memory ? 3 : 2), 0);
    close_to(out[0], cn_narrow(cn_narrow(y, 1, i, 1), 0, 0, lengths[i]));
    close_to(out[1], cn_narrow(h, 1, i, 1));
    if (memory) close_to(out[2], cn_narrow(c, 1, i, 1));
  }
  cn_module_release(m);
  cn_scope_end(s);
}

static void layers_run_each_alone(void **state)
{
  (void)state;
  runs_each_alone(cn_nn_rnn(3, 5, .num_layers = 2, .bidirectional = true), false);
  runs_each_alone(cn_nn_gru(3, 5, .num_layers = 2, .bidirectional = true), false);
  runs_each_alone(cn_nn_lstm(3, 5, .num_layers = 2, .bidirectional = true), true);
}

static void wrong_inputs_are_errors(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_randn(CN_SHAPE(4, 2, 3)), *y;
  cn_packed p;
  assert_int_equal(cn_pack_padded(&p, x, NUMBERS(1, 4)), CN_ERR_VALUE); /* not sorted */
  cn_err_clear();
  assert_int_equal(cn_pack_padded(&p, x, NUMBERS(5, 4)), CN_ERR_VALUE);
  cn_err_clear();
  assert_int_equal(cn_pack_padded(&p, x, NUMBERS(4, 0)), CN_ERR_VALUE);
  cn_err_clear();
  assert_int_equal(cn_pack_padded(&p, x, NUMBERS(4, 3, 2)), CN_ERR_SHAPE);
  cn_err_clear();
  assert_int_equal(cn_pack_padded(&p, x, cn_ones(CN_SHAPE(2))), CN_ERR_SHAPE);
  cn_err_clear();
  assert_int_equal(cn_pack_padded(&p, x, NUMBERS(4, 2)), 0);
  assert_int_equal(cn_pad_packed(&y, NULL, &p, .total_length = 3), CN_ERR_VALUE);
  cn_err_clear();
  cn_packed wrong = p;
  wrong.batch_sizes = NUMBERS(1, 2);
  assert_int_equal(cn_pad_packed(&y, NULL, &wrong), CN_ERR_VALUE);
  cn_err_clear();
  wrong = p;
  wrong.sorted_indices = NUMBERS(1, 1);
  assert_int_equal(cn_pad_packed(&y, NULL, &wrong), CN_ERR_INDEX);
  cn_err_clear();
  cn_module *linear = cn_nn_linear(3, 3), *gru = cn_nn_gru(3, 4);
  assert_int_equal(cn_forward_packed(&wrong, NULL, NULL, linear, &p, NULL, NULL), CN_ERR_TYPE);
  cn_err_clear();
  assert_int_equal(cn_forward_packed(&wrong, NULL, NULL, gru, &p, x, x), CN_ERR_TYPE);
  cn_err_clear();
  assert_int_equal(cn_pack_sequence(&p, NULL, 0), CN_ERR_VALUE);
  cn_err_clear();
  assert_null(cn_pad_sequence(&x, 1, .padding_side = "up"));
  cn_err_clear();
  cn_module_release(linear);
  cn_module_release(gru);
  cn_scope_end(s);
}

/* Every allocation fails in turn; errors come back, and nothing is lost (the sanitizer looks). */
static void survives_failing_memory(void **state)
{
  (void)state;
  cn_module *m = cn_nn_lstm(3, 4, .proj_size = 2, .bidirectional = true);
  cn_memory_set_caching(false);
  for (uint64_t k = 1; k < 100000; k += k < 150 ? 1 : 13) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *x = cn_randn(CN_SHAPE(4, 3, 3)), *lengths = NUMBERS(2, 4, 1), *y;
    cn_packed p, q;
    cn_memory_fail_at(k);
    cn_pack_padded(&p, x, lengths, .no_enforce_sorted = true);
    if (!cn_err()) cn_forward_packed(&q, NULL, NULL, m, &p, NULL, NULL);
    if (!cn_err()) cn_pad_packed(&y, NULL, &q);
    bool done = !cn_err();
    cn_memory_fail_at(0);
    if (!done) assert_int_equal(cn_err(), CN_ERR_MEMORY);
    cn_err_clear();
    cn_scope_end(s);
    if (done) break;
  }
  cn_memory_set_caching(true);
  cn_module_release(m);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(layout_is_pytorchs),      cmocka_unit_test(there_and_back_with_gradients),
    cmocka_unit_test(layers_run_each_alone),   cmocka_unit_test(wrong_inputs_are_errors),
    cmocka_unit_test(survives_failing_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
