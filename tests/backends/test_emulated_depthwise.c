/* test_emulated_depthwise.c: convolutions whose filters see one channel on the CUDA plugin, emulated (test_emulated.c):
 * forward, with what is added behind, and both gradients, in every memory order.
 *
 * Results are compared with the CPU's from the same numbers in float32. What refuses is in the log of the dispatcher,
 * which has to say nothing of kernels/depthwise.cu. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "test.h"

#include <cairn/cairn.h>
#include <cairn/ext/parts.h>
#include <cairn/kw.h>
#include <stdlib.h>

#include "emulated.h"

static int refused; /* by depthwise.cu, so far */

static void listen(cn_log_level level, const char *message, void *payload)
{
  (void)level, (void)payload;
  if (strstr(message, "depthwise.cu refused")) refused++;
}

typedef struct layer {
  int64_t n, c, many, h, w, r, s, stride[2], padding[2], dilation[2];
} layer;
/* How tensors lie. PART: one behind another number, so that no pack is aligned; MIXED: results, and what comes back for
 * them, are planes, images have channels innermost. */
typedef enum order { PLANES, LAST, PART, MIXED } order;

static cn_tensor *lying(cn_tensor *x, order o, bool image)
{
  if (o == LAST || (o == MIXED && image)) return cn_channels_last(x);
  if (o != PART) return x;
  int64_t n = cn_numel(x);
  cn_tensor *parts[2] = {cn_zeros(CN_SHAPE(1), .dtype = cn_dtype_of(x), .device = cn_device_of(x)),
                         cn_reshape(x, CN_SHAPE(n))};
  return cn_reshape(cn_narrow(cn_cat(parts, 2), 0, 1, n), cn_shape(x), (size_t)cn_ndim(x));
}

/* Result, the gradients of image and filter, and the fused form with all that it can have. */
static void run_layer(cn_tensor *out[4], const layer *l, cn_tensor *const *in, order o, bool far)
{
  cn_tensor *t[5];
  for (int k = 0; k < 5; k++) t[k] = far ? lying(there(in[k]), k == 2 ? PLANES : o, k == 0) : cn_cast(in[k], CN_F32);
  cn_tensor *x = cn_requires_grad(cn_detach(t[0]), true), *w = cn_requires_grad(cn_detach(t[1]), true);
  out[0] = cn_conv2d(x, w, NULL, .stride = CN_INTS(l->stride[0], l->stride[1]), .groups = l->c,
                     .padding = CN_INTS(l->padding[0], l->padding[1]),
                     .dilation = CN_INTS(l->dilation[0], l->dilation[1]));
  cn_tensor *grads[2], *leaves[2] = {x, w};
  assert_int_equal(cn_grad(grads, &out[0], 1, leaves, 2, .grad_outputs = &t[4]), 0);
  out[1] = grads[0], out[2] = grads[1];
  out[3] = cn_conv2d_fused(t[0], t[1], t[2], l->stride, 2, l->padding, 2, l->dilation, 2, l->c, t[3], true);
}

static int64_t result_of(const layer *l, int i)
{
  int64_t size = i ? l->w : l->h, taps = i ? l->s : l->r;
  return (size + 2 * l->padding[i] - l->dilation[i] * (taps - 1) - 1) / l->stride[i] + 1;
}

static void check_layer(const layer *l, order o, cn_dtype type)
{
  static const char *const what[] = {"a depthwise convolution", "its image's gradient", "its filter's gradient",
                                     "with bias, residual and relu"};
  cn_scope *s = cn_scope_begin();
  int64_t k = l->c * l->many, oh = result_of(l, 0), ow = result_of(l, 1);
  cn_tensor *in[] = {cn_randn(CN_SHAPE(l->n, l->c, l->h, l->w)), cn_randn(CN_SHAPE(k, 1, l->r, l->s)),
                     cn_randn(CN_SHAPE(k)), cn_randn(CN_SHAPE(l->n, k, oh, ow)), cn_randn(CN_SHAPE(l->n, k, oh, ow))};
  cn_tensor *want[4], *have[4];
  for (int i = 0; i < 5; i++) in[i] = cn_cast(in[i], type);
  run_layer(want, l, in, o, false);
  run_layer(have, l, in, o, true);
  /* Results are rounded, sums have hundreds of terms. */
  double tol = type == CN_F32 ? 1e-5 : type == CN_F16 ? 1e-3 : 8e-3;
  for (int i = 0; i < 4; i++) close_to(what[i], want[i], have[i], tol);
  cn_scope_end(s);
}

static void layers(void **state)
{
  (void)state;
  static const layer all[] = {
      {2, 16, 1, 9, 11, 3, 3, {1, 1}, {1, 1}, {1, 1}},
      {2, 16, 1, 14, 12, 3, 3, {2, 2}, {1, 1}, {1, 1}},
      {1, 12, 1, 12, 14, 5, 5, {1, 1}, {2, 2}, {1, 1}},
      {1, 8, 1, 15, 16, 7, 7, {1, 1}, {3, 3}, {1, 1}},
      {2, 8, 1, 11, 9, 5, 5, {2, 2}, {2, 2}, {1, 1}},
      {1, 13, 1, 9, 8, 3, 3, {1, 1}, {1, 1}, {1, 1}}, /* no two channels together */
      {2, 6, 2, 7, 9, 3, 3, {2, 1}, {1, 0}, {1, 1}},  /* filters share channels */
      {1, 1, 3, 10, 9, 3, 3, {1, 1}, {1, 1}, {1, 1}},
      {1, 8, 1, 13, 12, 3, 3, {1, 1}, {2, 2}, {2, 2}},
      {1, 6, 1, 17, 14, 3, 2, {1, 1}, {3, 2}, {3, 2}},
      {1, 8, 1, 12, 11, 2, 4, {2, 2}, {0, 1}, {1, 1}},
      {2, 8, 1, 1, 40, 1, 5, {1, 1}, {0, 2}, {1, 1}}, /* a signal */
      {1, 4, 1, 1, 30, 1, 4, {1, 2}, {0, 3}, {1, 1}},
      {1, 4, 1, 10, 16, 3, 3, {3, 3}, {1, 2}, {1, 1}},
      {1, 4, 1, 11, 13, 3, 3, {4, 4}, {2, 1}, {1, 1}}, /* pixels between filters */
      {2, 6, 1, 5, 5, 1, 1, {2, 1}, {0, 1}, {1, 1}},
      {1, 4, 1, 20, 13, 11, 11, {1, 1}, {5, 5}, {1, 1}},
      {1, 4, 1, 6, 5, 3, 3, {1, 1}, {4, 5}, {1, 1}}, /* padding beyond the filter */
      {3, 20, 1, 1, 1, 3, 3, {1, 1}, {1, 1}, {1, 1}},
  };
  static const cn_dtype types[] = {CN_F32, CN_F16, CN_BF16};
  need_device();
  cn_seed(6);
  refused = 0;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    for (order o = PLANES; o <= (i < 3 ? MIXED : LAST); o++) check_layer(&all[i], o, types[(i + (size_t)o) % 3]);
  assert_int_equal(refused, 0);
}

/* What these kernels leave to others, and say so: they are asked first. */
static void others(void **state)
{
  (void)state;
  static const char *const ops[] = {"conv2d", "conv2d_fused", "conv2d_grad_input", "conv2d_grad_weight"};
  need_device();
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
    const char *names[8];
    assert_true(cn_op_kernels(names, 8, cn_op_find(ops[i]), "cuda") >= 2);
    assert_string_equal(names[0], "depthwise.cu");
  }
  refused = 0;
  check_layer(&(layer){1, 4, 1, 15, 13, 3, 3, {2, 2}, {1, 1}, {2, 2}}, LAST, CN_F32); /* strides and dilation */
  assert_int_equal(refused, 4); /* forward twice: without cuDNN the fused form is made of it */
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_randn(CN_SHAPE(2, 4, 6, 7)), *w = cn_randn(CN_SHAPE(4, 2, 3, 3));
  close_to("a convolution by groups", cn_conv2d(x, w, NULL, .groups = 2),
           cn_conv2d(there(x), there(w), NULL, .groups = 2), 1e-5);
  assert_int_equal(refused, 5);
  cn_scope_end(s);
}

/* Sums of many blocks are joined in one order. */
static void repeats(void **state)
{
  (void)state;
  need_device();
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = there(cn_randn(CN_SHAPE(3, 3, 40, 41))), *g = there(cn_randn(CN_SHAPE(3, 3, 40, 41))), *y[2];
  static const int64_t one[] = {1, 1}, size[] = {3, 1, 3, 3};
  for (int i = 0; i < 2; i++) y[i] = cn_conv2d_grad_weight(g, x, size, 4, one, 2, one, 2, one, 2, 3);
  close_to("a filter's gradient again", cn_to_device(y[0], CN_CPU), y[1], 0);
  cn_scope_end(s);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(layers), cmocka_unit_test(others), cmocka_unit_test(repeats)};
  setenv("CAIRN_VERBOSE", "dispatch", 1);
  if (argc > 0) emulate(argv);
  cn_set_log(listen, NULL);
  return cmocka_run_group_tests(tests, find_emulated, NULL);
}
