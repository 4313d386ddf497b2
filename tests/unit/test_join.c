/* test_join.c: cat of views: what lies in the result is what copies of its parts would hold, whatever the distances
 * between the rows of the inputs and the size of their pieces. */
#include <cairn/cairn.h>
#include <cairn/kw.h>

#include "tensors.h"

/* Views of x, (4, 6, 40): whole, cut, with gaps, reversed, expanded, one row of all. */
static cn_tensor *view(cn_tensor *x, int which, int dim)
{
  int64_t size = cn_shape(x)[dim];
  switch (which) {
  case 0: return x;
  case 1: return cn_slice(x, dim, 1, 2);
  case 2: return cn_slice(x, dim, 1, size);
  case 3: return cn_slice(x, dim, 0, size, .step = 3);
  case 4: return cn_slice(x, dim, 2, 0, .step = -1);
  case 5: return cn_expand(cn_slice(x, dim ? 0 : 1, 0, 1), CN_SHAPE(4, 6, 40));
  case 6: return cn_slice(x, dim, 0, 0);
  default: return cn_slice(x, dim, 3, 1, .step = -2);
  }
}

static void check(cn_tensor *x, int a, int b, int dim)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *in[3] = {view(x, a, dim), view(x, b, dim), view(x, 1, dim)}, *got = cn_cat(in, 3, .dim = dim);
  if (!got) fail_msg("views %d and %d, dim %d: %s", a, b, dim, cn_err_message());
  cn_tensor *want = cn_empty_like(got);
  for (int64_t i = 0, at = 0; i < 3; i++) {
    int64_t end = at + cn_shape(in[i])[dim];
    cn_copy_(cn_slice(want, dim, at, end), in[i]);
    at = end;
  }
  assert_same(got, want);
  cn_scope_end(s);
}

static void views(void **state)
{
  (void)state;
  static const cn_dtype types[] = {CN_U8, CN_BF16, CN_F32, CN_F64};
  for (size_t t = 0; t < sizeof types / sizeof *types; t++)
    for (int dim = 0; dim < 3; dim++)
      for (int which = 0; which < 64; which++) {
        cn_scope *s = cn_scope_begin();
        cn_tensor *x = cn_cast(cn_reshape(cn_arange(0, 4 * 6 * 40), CN_SHAPE(4, 6, 40)), types[t]);
        check(x, which / 8, which % 8, dim);
        cn_scope_end(s);
      }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(views)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
