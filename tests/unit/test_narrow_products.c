/* test_narrow_products.c: products of int8 and 16-bit float matrices, which have instructions of their own on some
 * processors, beside those of the same numbers in float64; at every level that the machine has. */
#include <cairn/cairn.h>
#include <cairn/ext/graph.h>
#include <cairn/ext/parts.h>
#include <cairn/kw.h>
#include <math.h>

#include "backends/cpu/isa.h"
#include "tensors.h"
#include "test.h"

/* Rows, columns and terms around the sizes of tiles and of what an instruction adds up; long rows go another way. */
static const int64_t sizes[][3] = {{1, 5, 70},   {3, 8, 64},      {4, 1, 1},    {5, 9, 3},     {8, 8, 16},
                                   {9, 17, 33},  {16, 65, 66},    {33, 20, 31}, {50, 70, 200}, {2, 3, 0},
                                   {70, 96, 64}, {40, 100, 2100}, {6, 40, 96},  {20, 100, 65},
                                   {2, 517, 67}, {7, 1030, 5}};
enum { SIZES = sizeof sizes / sizeof sizes[0], LAYOUTS = 4 };

static void on_each_isa(void (*body)(void))
{
  cni_cpu_isa_cap(-1);
  int most = cni_cpu_isa();
  for (int level = 0; level <= most; level++) {
    cni_cpu_isa_cap(level);
    cn_seed(1);
    body();
  }
  cni_cpu_isa_cap(-1);
}

/* (batch, rows, cols); flipped: lies as its transpose. */
static cn_tensor *matrices(cn_dtype dtype, int64_t batch, int64_t rows, int64_t cols, bool flipped)
{
  cn_tensor *x = flipped ? cn_transpose(cn_randint(-128, 128, CN_SHAPE(batch, cols, rows)), 1, 2)
                         : cn_randint(-128, 128, CN_SHAPE(batch, rows, cols));
  return cn_cast(x, dtype);
}

static void int8_body(void)
{
  for (int i = 0; i < SIZES * LAYOUTS; i++) {
    const int64_t *s = sizes[i / LAYOUTS];
    cn_scope *scope = cn_scope_begin();
    cn_tensor *a = matrices(CN_I8, 3, s[0], s[2], i & 1), *b = matrices(CN_I8, 3, s[2], s[1], i & 2);
    cn_tensor *want = cn_cast(cn_bmm(cn_cast(a, CN_F64), cn_cast(b, CN_F64)), CN_I32);
    assert_true(same_elements(cn_bmm_dtype(a, b, CN_I32), want));
    cn_tensor *one = cn_mm_dtype(cn_select(a, 0, 1), cn_select(b, 0, 1), CN_I32);
    assert_true(same_elements(one, cn_select(want, 0, 1)));
    cn_scope_end(scope);
  }
}

static void int8_products_are_exact(void **state)
{
  (void)state;
  on_each_isa(int8_body);
}

/* Whether `got` is `want` (f64) rounded once, but for the rounding errors of its terms in float32. size: what the
 * terms' magnitudes add up to. */
static bool rounded_once(cn_tensor *got, cn_tensor *want, cn_tensor *size)
{
  const double unit = cn_dtype_of(got) == CN_F16 ? 1.0 / 2048 : 1.0 / 256;
  cn_tensor *room = cn_add(cn_mul(cn_abs(want), cn_full(CN_SHAPE(1), unit, .dtype = CN_F64)),
                           cn_mul(size, cn_full(CN_SHAPE(1), 1e-6, .dtype = CN_F64)));
  cn_tensor *off = cn_sub(cn_abs(cn_sub(cn_cast(got, CN_F64), want)), room);
  return !cn_numel(off) || cn_item(cn_amax(off)) <= 0;
}

/* Results are rounded once; sums in float32 may be off by their terms' rounding errors. */
static void half_body(void)
{
  for (int i = 0; i < 2 * SIZES * LAYOUTS; i++) {
    const int64_t *s = sizes[i / LAYOUTS / 2];
    const cn_dtype type = i / LAYOUTS % 2 ? CN_F16 : CN_BF16;
    cn_scope *scope = cn_scope_begin();
    cn_tensor *a = matrices(CN_BF16, 2, s[0], s[2], i & 1), *b = matrices(CN_BF16, 2, s[2], s[1], i & 2);
    if (type == CN_F16) { /* sums that float16 holds */
      a = cn_cast(cn_div(a, cn_num(64)), type), b = cn_cast(cn_div(b, cn_num(64)), type);
    }
    cn_tensor *x = cn_cast(a, CN_F64), *y = cn_cast(b, CN_F64), *want = cn_bmm(x, y);
    assert_true(rounded_once(cn_bmm(a, b), want, cn_bmm(cn_abs(x), cn_abs(y))));
    assert_int_equal(cn_err(), CN_OK);
    cn_scope_end(scope);
  }
}

static void half_products_round_once(void **state)
{
  (void)state;
  on_each_isa(half_body);
}

/* What is added, a row or a whole matrix, with factors and without; on six threads the same bits as on one. */
static void added_body(void)
{
  int all = cn_num_threads();
  for (int i = 0; i < SIZES * LAYOUTS; i++) {
    const int64_t *s = sizes[i / LAYOUTS];
    const double alpha = i & 1 ? 1 : 0.5, beta = i & 2 ? 1 : -2;
    cn_scope *scope = cn_scope_begin();
    cn_tensor *a = cn_select(matrices(CN_BF16, 1, s[0], s[2], i & 1), 0, 0);
    cn_tensor *w = cn_select(matrices(CN_BF16, 1, s[1], s[2], i & 2), 0, 0), *b = cn_transpose(w, 0, 1);
    cn_tensor *bias = cn_select(cn_select(matrices(CN_BF16, 1, 1, s[1], false), 0, 0), 0, 0);
    cn_tensor *whole = cn_select(matrices(CN_BF16, 1, s[0], s[1], i & 1), 0, 0);
    cn_tensor *x = cn_cast(a, CN_F64), *y = cn_cast(b, CN_F64), *size = cn_mm(cn_abs(x), cn_abs(y));
    cn_set_num_threads(1);
    cn_tensor *row = cn_linear(a, w, bias), *sum = cn_addmm(whole, a, b, .alpha = alpha, .beta = beta);
    assert_true(rounded_once(row, cn_linear(x, cn_cast(w, CN_F64), cn_cast(bias, CN_F64)), size));
    cn_tensor *added = cn_cast(whole, CN_F64);
    assert_true(rounded_once(sum, cn_addmm(added, x, y, .alpha = alpha, .beta = beta), cn_add(size, cn_abs(added))));
    cn_set_num_threads(6);
    assert_true(same_elements(cn_linear(a, w, bias), row));
    assert_true(same_elements(cn_addmm(whole, a, b, .alpha = alpha, .beta = beta), sum));
    cn_set_num_threads(all);
    assert_int_equal(cn_err(), CN_OK);
    cn_scope_end(scope);
  }
}

static void bf16_sums_are_added_to(void **state)
{
  (void)state;
  on_each_isa(added_body);
}

static int kept_product(cn_tensor **out, cn_tensor *const *in, void *weight)
{
  out[0] = cn_mm_dtype(in[0], weight, CN_I32);
  return cn_err();
}

/* A graph packs its weight once, also for rows that are too few to pack it for by themselves. */
static void kept_body(void)
{
  for (int i = 0; i < SIZES; i++)
    for (int flipped = 0; flipped < 2; flipped++) {
      cn_scope *scope = cn_scope_begin();
      cn_tensor *w = cn_select(matrices(CN_I8, 1, sizes[i][2], sizes[i][1], flipped), 0, 0), *have;
      cn_tensor *x = cn_select(matrices(CN_I8, 1, sizes[i][0], sizes[i][2], false), 0, 0);
      cn_tensor *want = cn_mm(cn_cast(x, CN_I32), cn_cast(w, CN_I32));
      cn_graph *g = cn_trace(kept_product, 1, &x, 1, w);
      assert_non_null(g);
      for (int k = 0; k < 3; k++) {
        assert_int_equal(cn_graph_run(&have, g, &x), 0);
        assert_true(same_elements(have, want));
      }
      cn_graph_free(g);
      cn_scope_end(scope);
    }
}

static void kept_weights_are_exact(void **state)
{
  (void)state;
  on_each_isa(kept_body);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(int8_products_are_exact, clear_errors),
      cmocka_unit_test_setup(kept_weights_are_exact, clear_errors),
      cmocka_unit_test_setup(half_products_round_once, clear_errors),
      cmocka_unit_test_setup(bf16_sums_are_added_to, clear_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
