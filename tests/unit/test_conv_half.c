/* test_conv_half.c: convolutions of bfloat16, which have instructions of their own on some processors, and their
 * gradients, beside those of the same numbers in float64; at every level that the machine has. */
#include <cairn/cairn.h>
#include <cairn/ext/parts.h>
#include <cairn/kw.h>
#include <math.h>
#include <stdint.h>

#include "backends/common/dispatch.h"
#include "backends/cpu/isa.h"
#include "base/state.h"
#include "tensors.h"
#include "test.h"

enum { RESULTS = 3 };

typedef struct form {
  int64_t n, c, h, w, k, window, stride, padding, dilation;
} form;

/* Channels and pixels around the sizes of tiles, windows that end between pixels, few channels, odd strides. */
static const form forms[] = {
    {2, 64, 14, 14, 64, 3, 1, 1, 1}, {1, 3, 32, 30, 64, 7, 2, 3, 1},  {2, 32, 9, 11, 48, 3, 2, 1, 1},
    {1, 40, 7, 7, 33, 1, 1, 0, 1},   {1, 40, 8, 7, 33, 1, 2, 0, 1},   {3, 20, 12, 10, 17, 3, 1, 2, 2},
    {1, 16, 20, 20, 16, 5, 3, 2, 1}, {2, 70, 7, 7, 200, 3, 1, 1, 1},  {2, 5, 17, 19, 20, 3, 1, 1, 1},
    {1, 17, 5, 40, 40, 4, 3, 0, 1},  {1, 96, 30, 30, 32, 2, 1, 3, 1},
};
enum { FORMS = sizeof forms / sizeof forms[0] };

/* What comes out, and the gradients of x and w; of the magnitudes of all operands alone, if `sizes`. */
static void compute(cn_tensor **results, const form *f, cn_dtype dtype, bool sizes, cn_tensor *const *operands)
{
  int64_t strides[2] = {f->stride, f->stride}, pads[2] = {f->padding, f->padding},
          gaps[2] = {f->dilation, f->dilation};
  cn_tensor *t[4];
  for (int i = 0; i < 4; i++) {
    t[i] = cn_cast(operands[i], dtype);
    if (sizes) t[i] = cn_abs(t[i]);
  }
  cn_tensor *in[2] = {cn_requires_grad(cn_detach(t[0]), true), cn_requires_grad(cn_detach(t[1]), true)};
  cn_value args[] = {cn_v_tensor(in[0]),    cn_v_tensor(in[1]), cn_v_tensor(t[2]),
                     cn_v_ints(strides, 2), cn_v_ints(pads, 2), cn_v_ints(gaps, 2)};
  size_t n = 1;
  assert_int_equal(cn_op_call(results, &n, cn_op_find("conv2d"), args, 6, NULL), 0);

  cn_tensor *g = cn_narrow(cn_narrow(t[3], 2, 0, cn_size(results[0], 2)), 3, 0, cn_size(results[0], 3));
  assert_int_equal(cn_grad(results + 1, results, 1, in, 2, .grad_outputs = &g), 0);
}

/* Each number of got is want's (f64) rounded once, but for rounding errors of its terms in float32, which size bounds;
 * where want is not finite it is the same. */
static void check(cn_tensor *got, cn_tensor *want, cn_tensor *size)
{
  int64_t n = cn_numel(want);
  assert_int_equal(n, cn_numel(got));
  const double *x = cn_data(cn_contiguous(cn_cast(got, CN_F64))), *y = cn_data(cn_contiguous(want));
  const double *s = cn_data(cn_contiguous(size));
  assert_int_equal(cn_err(), 0);
  for (int64_t i = 0; i < n; i++) {
    if (isnan(y[i])) assert_true(isnan(x[i]));
    else if (isinf(y[i])) assert_true(x[i] == y[i]);
    else assert_true(fabs(x[i] - y[i]) <= fabs(y[i]) / 256 + s[i] * 1e-6);
  }
}

/* (a, b, c, d) of bfloat16; last: b innermost. */
static cn_tensor *numbers(int64_t a, int64_t b, int64_t c, int64_t d, bool last)
{
  const int64_t inner[4] = {0, 2, 3, 1}, outer[4] = {0, 3, 1, 2};
  cn_tensor *x = cn_cast(cn_randn(CN_SHAPE(a, b, c, d)), CN_BF16);
  return last ? cn_permute(cn_contiguous(cn_permute(x, inner, 4)), outer, 4) : x;
}

static void body(void)
{
  int all = cn_num_threads();
  for (int i = 0; i < 3 * FORMS; i++) {
    const form *f = &forms[i / 3];
    const bool last = i % 3 == 1;
    cn_scope *scope = cn_scope_begin();
    cn_tensor *x = numbers(f->n, f->c, f->h, f->w, last), *w = numbers(f->k, f->c, f->window, f->window, last);
    cn_tensor *b = cn_cast(cn_randn(CN_SHAPE(f->k)), CN_BF16);
    cn_tensor *grad = numbers(f->n, f->k, f->h + 2 * f->padding, f->w + 2 * f->padding, last);
    if (i % 3 == 2) ((uint16_t *)cn_data(x))[f->w + 2] = 0x7f80; /* infinite */
    cn_tensor *operands[4] = {x, w, b, grad}, *got[RESULTS], *again[RESULTS], *want[RESULTS], *size[RESULTS];
    cn_set_num_threads(1);
    compute(got, f, CN_BF16, false, operands);
    cn_set_num_threads(6);
    compute(again, f, CN_BF16, false, operands);
    compute(want, f, CN_F64, false, operands);
    compute(size, f, CN_F64, true, operands);
    for (int r = 0; r < RESULTS; r++) {
      check(got[r], want[r], size[r]);
      assert_true(same_elements(got[r], again[r]));
    }
    cn_set_num_threads(all);
    cn_scope_end(scope);
  }
}

static void convolutions_round_once(void **state)
{
  (void)state;
  cni_cpu_isa_cap(-1);
  int most = cni_cpu_isa();
  for (int level = 0; level <= most; level++) {
    cni_cpu_isa_cap(level);
    cni_dispatch_forget(cni_state()); /* which kernel takes a call depends on the level */
    cn_seed(1);
    body();
  }
  cni_cpu_isa_cap(-1);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup(convolutions_round_once, clear_errors)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
