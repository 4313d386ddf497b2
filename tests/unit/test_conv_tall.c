/* test_conv_tall.c: convolutions over images one pixel wide are those over the same images laid flat, to the bit: which
 * is what the CPU's kernels make of them, forward and gradients. */
#include <cairn/cairn.h>
#include <cairn/kw.h>
#include <string.h>

#include "test.h"

typedef struct shape {
  int64_t channels, results, length, window, stride, padding, dilation, groups;
} shape;

static cn_tensor *called(cn_tensor *x, cn_tensor *w, cn_tensor *b, const shape *s, bool tall)
{
  const int64_t pads[2] = {tall ? s->padding : 0, tall ? 0 : s->padding};
  return cn_conv2d(x, w, b, .stride = CN_INTS(s->stride, s->stride), .padding = CN_INTS(pads[0], pads[1]),
                   .dilation = CN_INTS(s->dilation, s->dilation), .groups = s->groups);
}

static void same(cn_tensor *tall, cn_tensor *flat)
{
  cn_tensor *a = cn_contiguous(cn_transpose(tall, 2, 3)), *b = cn_contiguous(flat);
  assert_int_equal(cn_err(), 0);
  assert_int_equal(cn_numel(a), cn_numel(b));
  assert_memory_equal(cn_data(a), cn_data(b), cn_tensor_nbytes(a));
}

static void check(const shape *s, cn_dtype dtype)
{
  cn_scope *scope = cn_scope_begin();
  cn_tensor *x = cn_randn(CN_SHAPE(2, s->channels, 1, s->length), .dtype = dtype);
  cn_tensor *w = cn_randn(CN_SHAPE(s->results, s->channels / s->groups, 1, s->window), .dtype = dtype);
  cn_tensor *b = cn_randn(CN_SHAPE(s->results), .dtype = dtype);
  cn_tensor *flat[2] = {cn_requires_grad(x, true), cn_requires_grad(w, true)};
  cn_tensor *tall[2] = {cn_requires_grad(cn_detach(cn_contiguous(cn_transpose(x, 2, 3))), true),
                        cn_requires_grad(cn_detach(cn_contiguous(cn_transpose(w, 2, 3))), true)};
  cn_tensor *y = called(flat[0], flat[1], b, s, false), *z = called(tall[0], tall[1], b, s, true);
  same(z, y);
  cn_backward(cn_sum(cn_mul(y, y)));
  cn_backward(cn_sum(cn_mul(z, z)));
  for (int i = 0; i < 2; i++) same(cn_grad_of(tall[i]), cn_grad_of(flat[i]));
  cn_scope_end(scope);
}

static void tall_is_flat(void **state)
{
  (void)state;
  static const shape shapes[] = {
    {64, 48, 90, 5, 1, 0, 1, 1}, {64, 48, 90, 5, 2, 2, 1, 1}, {3, 40, 200, 9, 1, 4, 1, 1},
    {32, 32, 50, 3, 1, 1, 2, 1}, {32, 32, 50, 7, 1, 3, 1, 32}, {16, 32, 33, 1, 1, 0, 1, 1}, {8, 8, 7, 3, 3, 1, 1, 2}
  };
  cn_seed(3);
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) check(&shapes[i], CN_F32), check(&shapes[i], CN_F64);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(tall_is_flat)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
