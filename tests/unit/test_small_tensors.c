/* test_small_tensors.c: handle, storage and data of a small tensor lie in one block: each may outlive the others.
 *
 * Values show that nothing was overwritten, the count of memory in use that nothing stays; the address sanitizer's
 * build shows the rest. */
#include <cairn/cairn.h>

#include "test.h"

enum { N = 5 };

static cn_tensor *counting(float from) /* (N), owned by the caller */
{
  float v[N];
  cn_tensor *kept = NULL;
  for (int i = 0; i < N; i++) v[i] = from + (float)i;
  cn_set(&kept, cn_from_data(v, CN_SHAPE(N), CN_F32));
  return kept;
}

static void assert_counts(cn_tensor *t, float from, int n)
{
  float v[N];
  assert_int_equal(cn_numel(t), n);
  assert_int_equal(cn_to_data(v, (size_t)n * sizeof *v, t), 0);
  for (int i = 0; i < n; i++) assert_float_equal(v[i], from + (float)i, 0);
}

/* Makes and drops as many small tensors as would use a block that was freed too early. */
static void stir(void)
{
  cn_scope *s = cn_scope_begin();
  for (int i = 0; i < 64; i++) cn_full(CN_SHAPE(N), -1.0);
  cn_scope_end(s);
}

static size_t used(void)
{
  cn_memory_stats m;
  cn_memory_trim();
  cn_memory_get_stats(&m);
  return m.in_use;
}

static void a_view_outlives_its_tensor(void **state)
{
  (void)state;
  cn_tensor *x = counting(1), *view = NULL;
  cn_scope *s = cn_scope_begin();
  cn_set(&view, cn_slice(x, 0, 1, 4));
  cn_scope_end(s);
  cn_release(x);
  stir();
  assert_counts(view, 2, 3);
  cn_release(view);
}

static void a_handle_outlives_its_first_data(void **state)
{
  (void)state;
  cn_tensor *x = counting(1), *y = counting(10), *z = counting(20), *view = NULL;
  cn_scope *s = cn_scope_begin();
  cn_set(&view, cn_slice(x, 0, 0, 2));
  assert_int_equal(cn_set_data(x, y), 0);
  stir();
  assert_counts(x, 10, N);
  assert_counts(view, 1, 2);
  cn_release(view);
  assert_int_equal(cn_set_data(x, z), 0);
  assert_int_equal(cn_set_data(z, y), 0);
  cn_scope_end(s);
  cn_release(y);
  stir();
  assert_counts(x, 20, N);
  assert_counts(z, 10, N);
  cn_release(z);
  stir();
  assert_counts(x, 20, N);
  cn_release(x);
}

static void saved_values_outlive_their_tensor(void **state)
{
  (void)state;
  cn_tensor *x = counting(1), *y = NULL;
  cn_scope *s = cn_scope_begin();
  cn_requires_grad(x, true);
  cn_tensor *a = cn_mul(x, cn_num(2.0));
  cn_set(&y, cn_sum(cn_mul(a, a)));
  cn_scope_end(s);
  stir();
  assert_int_equal(cn_backward(y), 0);
  float g[N];
  assert_int_equal(cn_to_data(g, sizeof g, cn_grad_of(x)), 0);
  for (int i = 0; i < N; i++) assert_float_equal(g[i], 8 * (float)(i + 1), 0);
  cn_release(y);
  cn_release(x);
}

static void empty_tensors_have_a_block_too(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *e = cn_full(CN_SHAPE(0, 3), 1.0);
  cn_tensor *both = cn_cat(CN_TENSORS(e, cn_full(CN_SHAPE(2, 3), 4.0)));
  assert_int_equal(cn_size(both, 0), 2);
  assert_float_equal(cn_item(cn_sum(both)), 24, 0);
  cn_scope_end(s);
}

static void nothing_stays(void **state)
{
  size_t before;
  for (int i = 0; i < 2; i++) { /* the first time programs and tables are made */
    before = used();
    a_view_outlives_its_tensor(state);
    a_handle_outlives_its_first_data(state);
    saved_values_outlive_their_tensor(state);
    empty_tensors_have_a_block_too(state);
  }
  assert_int_equal(used(), before);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_view_outlives_its_tensor), cmocka_unit_test(a_handle_outlives_its_first_data),
    cmocka_unit_test(saved_values_outlive_their_tensor), cmocka_unit_test(empty_tensors_have_a_block_too),
    cmocka_unit_test(nothing_stays),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
