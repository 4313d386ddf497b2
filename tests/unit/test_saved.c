/* test_saved.c: hooks on what ops keep for backward: packed, unpacked, freed, and what must be refused. */
#include <cairn/cairn.h>

#include "test.h"

typedef struct log {
  int packed, unpacked, freed;
  bool fail, shrink;
} log;

static log *seen; /* of the test that runs */

static void *pack(cn_tensor *t, void *payload)
{
  log *l = payload;
  assert_false(cn_grad_enabled());
  l->packed++;
  if (l->fail) {
    cn_err_set(CN_ERR_VALUE, "no");
    return NULL;
  }
  return cn_keep(cn_mul(t, cn_num(2)));
}

static cn_tensor *unpack(void *packed)
{
  seen->unpacked++;
  cn_tensor *t = cn_true_divide(packed, cn_num(2));
  return seen->shrink ? cn_select(t, 0, 0) : t;
}

static void drop(void *packed)
{
  seen->freed++;
  cn_release(packed);
}

static const cn_saved_hooks hooks = {pack, unpack, drop};

static cn_tensor *square(cn_tensor *x, log *l)
{
  seen = l;
  cn_saved_setting old = cn_saved_hooks_set((cn_saved_setting){&hooks, l});
  assert_null(old.hooks);
  cn_tensor *y = cn_mul(x, x);
  cn_saved_hooks_set(old);
  return y;
}

static void values_come_back(void **state)
{
  (void)state;
  log l = {0};
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_requires_grad(cn_full(CN_SHAPE(3), 4), true);
  cn_tensor *y = cn_sum(square(x, &l));
  assert_int_equal(l.packed, 2);
  assert_int_equal(cn_backward(y), 0);
  assert_float_equal(cn_item(cn_amax(cn_grad_of(x))), 8, 0);
  assert_int_equal(l.unpacked, 2);
  assert_int_equal(l.freed, 2); /* with the record, after backward */
  cn_tensor *plain = cn_mul(x, x);
  assert_int_equal(l.packed, 2);
  (void)plain;
  cn_scope_end(s);
}

static void failures_are_told(void **state)
{
  (void)state;
  log l = {.fail = true};
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_requires_grad(cn_full(CN_SHAPE(3), 4), true);
  assert_null(square(x, &l));
  assert_int_equal(cn_err(), CN_ERR_VALUE);
  cn_err_clear();
  l = (log){.shrink = true};
  cn_tensor *y = cn_sum(square(x, &l));
  assert_int_not_equal(cn_backward(y), 0);
  assert_int_equal(cn_err(), CN_ERR_GRAD);
  cn_err_clear();
  cn_scope_end(s);
  assert_int_equal(l.freed, 2);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(values_come_back), cmocka_unit_test(failures_are_told)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
