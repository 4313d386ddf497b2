/* test_emulated_grouped.c: products for each group on the CUDA plugin, emulated (test_emulated.c), against the CPU's:
 * groups that are empty, begin anywhere in a pack, or end before the rows do; memory in either direction and in none.
 */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "test.h"

#include <cairn/cairn.h>
#include <cairn/kw.h>

#include "emulated.h"

enum { ROWS, COLUMNS, SUM, KINDS };

/* Sizes of a product: of what is cut, of the other two dims. */
typedef struct sizes {
  int64_t cut, second, third;
  int64_t groups, ends[8];
} sizes;
static const sizes cases[] = {
    {37, 24, 40, 3, {5, 5, 29}},              /* an empty group, rows behind the last */
    {152, 72, 136, 4, {5, 133, 134, 149}},    /* packs that two groups share; more than a tile, and one row */
    {70, 40, 131, 8, {3, 9, 10, 30, 31, 31, 64, 70}}, /* rows that are no packs */
    {64, 130, 8, 1, {64}},
    {20, 33, 16, 2, {0, 0}},
};

/* The operands of a kind of cut; turned: their neighbours in memory lie the other way; NaN where no group reads. */
static void operands(cn_tensor **x, int kind, const sizes *n, cn_dtype type, int turned)
{
  const int64_t shapes[KINDS][2][3] = {{{n->cut, n->second}, {n->groups, n->second, n->third}},
                                       {{n->groups, n->second, n->third}, {n->third, n->cut}},
                                       {{n->second, n->cut}, {n->cut, n->third}}};
  for (int i = 0; i < 2; i++) {
    const size_t ndim = kind == ROWS ? 2 + (size_t)i : kind == COLUMNS ? 3 - (size_t)i : 2;
    int64_t shape[3];
    memcpy(shape, shapes[kind][i], sizeof shape);
    if (turned >> i & 1) {
      int64_t last = shape[ndim - 1];
      shape[ndim - 1] = shape[ndim - 2], shape[ndim - 2] = last;
    }
    x[i] = cn_cast(cn_randn(shape, ndim), type);
    if (turned >> i & 1) x[i] = cn_transpose(x[i], -1, -2);
  }
  const int64_t end = n->ends[n->groups - 1];
  if (kind != COLUMNS) cn_fill_(cn_slice(x[0], kind == SUM, end, CN_NONE), cn_num(NAN));
  if (kind != ROWS) cn_fill_(cn_slice(x[1], kind == COLUMNS, end, CN_NONE), cn_num(NAN));
}

static void compare(int kind, const sizes *n, cn_dtype type, int turned, cn_dtype to)
{
  cn_tensor *x[2], *ends = cn_from_data(n->ends, CN_SHAPE(n->groups), CN_I64);
  char what[120];
  operands(x, kind, n, type, turned);
  if (turned & 1) ends = cn_cast(ends, CN_I32);
  snprintf(what, sizeof what, "cut %d of %lld, turned %d, %s into %s", kind, (long long)n->cut, turned,
           cn_dtype_name(type), cn_dtype_name(to));
  cn_tensor *y = cn_grouped_mm(there(x[0]), there(x[1]), .offs = there(ends), .out_dtype = to);
  /* the CPU's sums are float32's, too, in another order; 16-bit results are rounded once, half a unit either way */
  double tol = to == CN_F64 ? 1e-12 : to == CN_F32 ? 2e-5 : to == CN_F16 ? 2e-3 : 2e-2;
  close_to(what, cn_grouped_mm(x[0], x[1], .offs = ends, .out_dtype = to), y, tol);
}

static void products(void **state)
{
  (void)state;
  need_device();
  static const cn_dtype types[] = {CN_BF16, CN_F16, CN_F32, CN_F64};
  cn_seed(23);
  for (int kind = 0; kind < KINDS; kind++)
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
      for (int t = 0; t < 4; t++)
        for (int turned = 0; turned < 4; turned++) {
          if (t > 1 && (turned == 1 || turned == 2)) continue; /* any strides are one way there */
          if (t == 1 && i) continue;                           /* as bfloat16 */
          cn_scope *s = cn_scope_begin();
          compare(kind, &cases[i], types[t], turned, types[t]);
          if (t == 0 && i == 1) compare(kind, &cases[i], CN_BF16, turned, CN_F32);
          cn_scope_end(s);
        }
}

/* Elements that have no neighbours in memory, ends that are apart, and no elements at all. */
static void strides(void **state)
{
  (void)state;
  need_device();
  cn_scope *s = cn_scope_begin();
  const int64_t three[] = {4, 0, 9, 0, 20, 0};
  cn_tensor *x = cn_cast(cn_randn(CN_SHAPE(20, 48)), CN_BF16), *w = cn_cast(cn_randn(CN_SHAPE(3, 24, 20)), CN_BF16);
  cn_tensor *ends = cn_from_data(three, CN_SHAPE(6), CN_I64), *a = there(x), *b = there(w), *e = there(ends);
#define EVERY_SECOND(t, dim) cn_slice(t, dim, 0, CN_NONE, .step = 2)
  close_to("every second", cn_grouped_mm(EVERY_SECOND(x, 1), w, .offs = EVERY_SECOND(ends, 0)),
           cn_grouped_mm(EVERY_SECOND(a, 1), b, .offs = EVERY_SECOND(e, 0)), 2e-2);
  cn_tensor *none = cn_slice(a, 1, 0, 0), *y = cn_grouped_mm(none, cn_slice(b, 1, 0, 0), .offs = EVERY_SECOND(e, 0));
  close_to("a sum over nothing", cn_zeros(CN_SHAPE(20, 20), .dtype = CN_BF16), y, 0);
  cn_scope_end(s);
}

static void gradients(void **state)
{
  (void)state;
  need_device();
  cn_scope *s = cn_scope_begin();
  cn_tensor *in[2], *far[2], *y[2];
  cn_tensor *ends = cn_from_data(cases[0].ends, CN_SHAPE(3), CN_I64);
  in[0] = cn_randn(CN_SHAPE(37, 24)), in[1] = cn_randn(CN_SHAPE(3, 24, 40));
  for (int i = 0; i < 2; i++) {
    in[i] = cn_detach(cn_cast(in[i], CN_BF16));
    far[i] = cn_requires_grad(there(in[i]), true), cn_requires_grad(in[i], true);
  }
  y[0] = cn_grouped_mm(in[0], in[1], .offs = ends), y[1] = cn_grouped_mm(far[0], far[1], .offs = there(ends));
  for (int k = 0; k < 2; k++) assert_int_equal(cn_backward(cn_sum(cn_square(y[k]))), 0);
  /* sums of up to 40 products of rounded numbers of about 10, which two ways round differently */
  for (int i = 0; i < 2; i++) close_to("its gradient", cn_grad_of(in[i]), cn_grad_of(far[i]), 4e-2);
  cn_scope_end(s);
}

/* Ends that are none are an error that the next wait finds, and nothing outside is touched. */
static void refusals(void **state)
{
  (void)state;
  need_device();
  static const int64_t wrong[][3] = {{3, 2, 7}, {3, 4, 8}, {-1, 4, 7}};
  for (int t = 0; t < 2; t++)
    for (int i = 0; i < 3; i++) {
      cn_scope *s = cn_scope_begin();
      cn_tensor *a = there(cn_cast(cn_randn(CN_SHAPE(7, 8)), t ? CN_BF16 : CN_F32));
      cn_tensor *b = there(cn_cast(cn_randn(CN_SHAPE(3, 8, 8)), t ? CN_BF16 : CN_F32));
      cn_grouped_mm(a, b, .offs = there(cn_from_data(wrong[i], CN_SHAPE(3), CN_I64)));
      assert_int_equal(cn_err(), 0);
      assert_int_equal(cn_device_sync(gpu), CN_ERR_INDEX);
      assert_non_null(strstr(cn_err_message(), "grouped_product"));
      cn_err_clear();
      cn_scope_end(s);
    }
}

int main(int argc, char **argv)
{
  if (argc > 0) emulate(argv);
  const struct CMUnitTest tests[] = {cmocka_unit_test(products), cmocka_unit_test(strides), cmocka_unit_test(gradients),
                                     cmocka_unit_test(refusals)};
  return cmocka_run_group_tests(tests, find_emulated, NULL);
}
