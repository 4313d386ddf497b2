/* test_vmap.c: vmap from C: places of the batch, nesting, chunks, randomness, errors, and gradients of each example.
 * The ops themselves are compared with a loop by test_ops vmap. */
#include <cairn/cairn.h>
#include <string.h>

#include "test.h"

static cn_tensor *counted(int64_t rows, int64_t columns)
{
  const int64_t shape[] = {rows, columns};
  return cn_reshape(cn_arange(0, (double)(rows * columns), .dtype = CN_F32), shape, 2);
}

static void assert_same(cn_tensor *have, cn_tensor *want)
{
  assert_non_null(have);
  assert_non_null(want);
  assert_true(cn_same_shape(have, want));
  cn_tensor *equal = cn_all(cn_eq(have, want));
  assert_true(cn_item(equal) == 1);
}

static int dot_and_double(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  assert_int_equal(cn_ndim(in[0]), 1);
  out[0] = cn_sum(cn_mul(in[0], in[1]));
  out[1] = cn_mul(in[0], cn_num(2));
  return cn_err();
}

static void places(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = counted(3, 4), *y = counted(1, 4), *out[2];
  y = cn_select(y, 0, 0);
  cn_tensor *in[] = {x, y};
  assert_int_equal(cn_vmap(out, 2, dot_and_double, in, 2, NULL, .in_dims = CN_INTS(0, CN_NOT_MAPPED),
                           .out_dims = CN_INTS(0, 1)), 0);
  assert_same(out[0], cn_sum(cn_mul(x, y), .dim = CN_INTS(1)));
  assert_same(out[1], cn_transpose(cn_mul(x, cn_num(2)), 0, 1));
  cn_tensor *columns[] = {x, counted(3, 4)};
  assert_int_equal(cn_vmap(out, 2, dot_and_double, columns, 2, NULL, .in_dims = CN_INTS(1), .chunk = 3), 0);
  assert_same(out[0], cn_sum(cn_mul(x, x), .dim = CN_INTS(0)));
  assert_same(out[1], cn_transpose(cn_mul(x, cn_num(2)), 0, 1));
  cn_scope_end(s);
}

static int inner(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  out[0] = cn_add(cn_mul(in[0], in[1]), payload);
  return cn_err();
}

static int outer(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  assert_int_equal(cn_vmap_depth(), 1);
  assert_true(cn_is_batched(in[0]));
  return cn_vmap(out, 1, inner, in, 2, payload, .in_dims = CN_INTS(CN_NOT_MAPPED, 0));
}

static void nesting(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *a = cn_arange(0, 3, .dtype = CN_F32), *b = cn_arange(0, 4, .dtype = CN_F32), *in[] = {a, b}, *out;
  assert_int_equal(cn_vmap(&out, 1, outer, in, 2, cn_num(5), .in_dims = CN_INTS(0, CN_NOT_MAPPED)), 0);
  assert_same(out, cn_add(cn_mul(cn_unsqueeze(a, 1), b), cn_num(5)));
  assert_int_equal(cn_vmap_depth(), 0);
  cn_scope_end(s);
}

static int draws(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  out[0] = cn_add(cn_rand(CN_SHAPE(8)), in[0]);
  return cn_err();
}

static void randomness(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *in[] = {cn_zeros(CN_SHAPE(2))}, *out = NULL;
  assert_true(cn_vmap(&out, 1, draws, in, 1, NULL) < 0);
  assert_non_null(strstr(cn_err_message(), "randomness"));
  cn_err_clear();
  assert_int_equal(cn_vmap(&out, 1, draws, in, 1, NULL, .randomness = CN_RANDOM_SAME), 0);
  assert_same(cn_select(out, 0, 0), cn_select(out, 0, 1));
  assert_int_equal(cn_vmap(&out, 1, draws, in, 1, NULL, .randomness = CN_RANDOM_DIFFERENT), 0);
  assert_true(cn_item(cn_any(cn_ne(cn_select(out, 0, 0), cn_select(out, 0, 1)))) == 1);
  cn_scope_end(s);
}

static int reads(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  out[0] = cn_item(cn_sum(in[0])) > 0 ? in[0] : NULL;
  return cn_err();
}

static void errors(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = counted(3, 4), *y = counted(2, 4), *out[2], *in[] = {x, y};
  assert_int_equal(cn_vmap(out, 1, reads, in, 1, NULL), CN_ERR_VALUE);
  cn_err_clear();
  assert_int_equal(cn_vmap(out, 2, dot_and_double, in, 2, NULL), CN_ERR_SHAPE);
  cn_err_clear();
  assert_int_equal(cn_vmap(out, 2, dot_and_double, in, 2, NULL, .in_dims = CN_INTS(CN_NOT_MAPPED)), CN_ERR_VALUE);
  cn_err_clear();
  int64_t vmap = cn_vmap_begin(3, CN_RANDOM_ERROR);
  cn_tensor *one = cn_batched(x, 0, vmap);
  assert_null(cn_add_(cn_zeros(CN_SHAPE(4)), one));
  assert_non_null(strstr(cn_err_message(), "in place is not possible"));
  cn_err_clear();
  assert_int_equal(cn_vmap_end(vmap), 0);
  assert_null(cn_add(one, cn_num(1)));
  assert_int_equal(cn_err(), CN_ERR_VALUE);
  cn_err_clear();
  cn_scope_end(s);
}

/* The gradient of sum(tanh(x w)) by w, which all examples share, for each of them. */
static int each_gradient(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  cn_tensor *w = cn_requires_grad(cn_detach(cn_batched_all(in[1])), true);
  cn_tensor *loss = cn_sum(cn_tanh(cn_mul(in[0], w)));
  return cn_grad(out, &loss, 1, &w, 1);
}

static void gradients(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_mul(counted(3, 4), cn_num(0.125)), *w = cn_full(CN_SHAPE(4), 0.5), *in[] = {x, w}, *out;
  assert_int_equal(cn_vmap(&out, 1, each_gradient, in, 2, NULL, .in_dims = CN_INTS(0, CN_NOT_MAPPED)), 0);
  cn_tensor *y = cn_tanh(cn_mul(x, w)), *want = cn_mul(cn_sub(cn_num(1), cn_mul(y, y)), x);
  assert_true(cn_same_shape(out, want));
  assert_true(cn_item(cn_amax(cn_abs(cn_sub(out, want)))) < 1e-6);
  cn_scope_end(s);
}

/* Whichever allocation fails, the vmap has ended and the next call works. */
static void memory(void **state)
{
  (void)state;
  cn_memory_set_caching(false);
  for (size_t k = 1, failed = 1; failed; k++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *x = counted(3, 4), *w = cn_full(CN_SHAPE(4), 0.5), *in[] = {x, w}, *out = NULL;
    cn_memory_fail_at(k);
    int status = cn_vmap(&out, 1, each_gradient, in, 2, NULL, .in_dims = CN_INTS(0, CN_NOT_MAPPED), .chunk = 2);
    cn_memory_fail_at(0);
    failed = status != 0;
    assert_true(!failed || status == CN_ERR_MEMORY);
    assert_int_equal(cn_vmap_depth(), 0);
    cn_err_clear();
    cn_scope_end(s);
  }
  cn_memory_set_caching(true);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(places), cmocka_unit_test(nesting),   cmocka_unit_test(randomness),
    cmocka_unit_test(errors), cmocka_unit_test(gradients), cmocka_unit_test(memory),
  };
  return cmocka_run_group_tests_name("vmap", tests, NULL, NULL);
}
