/* test_emulated_rows.c: softmax, norms and cross entropy over rows of every kind on the CUDA plugin, emulated
 * (test_emulated.c), results and gradients against the CPU's: rows of a part of a warp, of a warp, of a block, in
 * registers, shared memory and neither, that begin anywhere in a pack or beside one, and more of them than there are
 * groups of threads, so that rows are asked for ahead. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include <cairn/ext/parts.h>

#include "emulated.h"

typedef struct kind {
  int64_t rows, n;
  cn_dtype type;
  int64_t skip; /* elements in front of the first row */
} kind;

static const kind kinds[] = {
    {1100, 3, CN_BF16, 0},   {1100, 64, CN_BF16, 0},  {530, 100, CN_BF16, 0}, {300, 768, CN_BF16, 0},
    {300, 1021, CN_BF16, 0}, {40, 1021, CN_BF16, 1},  {150, 1000, CN_F32, 0}, {45, 2049, CN_BF16, 0},
    {45, 4096, CN_BF16, 0},  {20, 9001, CN_F16, 0},   {20, 20000, CN_BF16, 0}, {3, 60001, CN_F32, 0},
    {37, 4095, CN_BF16, 0},  {600, 13, CN_F16, 0},    {150, 333, CN_F32, 3},
    {12, 20011, CN_BF16, 0}, {6, 17001, CN_F16, 1},   {9, 8195, CN_F32, 0},
    {3, 40001, CN_BF16, 0},
};

typedef cn_tensor *(*row_fn)(cn_tensor *const *x);
static cn_tensor *softmax_of(cn_tensor *const *x) { return cn_softmax(x[0], 1); }
static cn_tensor *log_softmax_of(cn_tensor *const *x) { return cn_log_softmax(x[0], 1); }
static cn_tensor *layer_norm_of(cn_tensor *const *x)
{
  return cn_layer_norm(x[0], CN_SHAPE(cn_size(x[0], 1)), x[1], x[2]);
}
static cn_tensor *rms_norm_of(cn_tensor *const *x)
{
  return cn_rms_norm(x[0], CN_SHAPE(cn_size(x[0], 1)), x[1], .eps = 1e-5);
}
static cn_tensor *plain_norm_of(cn_tensor *const *x)
{
  return cn_layer_norm(x[0], CN_SHAPE(cn_size(x[0], 1)), NULL, NULL);
}
static cn_tensor *loss_of(cn_tensor *const *x) { return cn_cross_entropy(x[0], x[3], .reduction = "none"); }
static cn_tensor *mean_loss_of(cn_tensor *const *x) { return cn_cross_entropy(x[0], x[3], .ignore_index = 1); }

/* y and the gradients of in[0..leaves), for the gradient g of y. x: (skip + rows n) elements. */
static void run(cn_tensor **out, row_fn fn, const kind *k, cn_tensor *const *in, cn_tensor *g, int leaves, bool far)
{
  cn_tensor *x[4];
  for (int i = 0; i < 4; i++) x[i] = far ? there(in[i]) : in[i];
  x[0] = cn_reshape(cn_slice(x[0], 0, k->skip, CN_NONE), CN_SHAPE(k->rows, k->n));
  for (int i = 0; i < leaves; i++) x[i] = cn_requires_grad(cn_detach(x[i]), true);
  out[0] = fn(x);
  g = cn_reshape(cn_slice(far ? there(g) : g, 0, 0, cn_numel(out[0])), cn_shape(out[0]), (size_t)cn_ndim(out[0]));
  assert_int_equal(cn_backward(cn_sum(cn_mul(out[0], g))), 0);
  for (int i = 0; i < leaves; i++) out[i + 1] = cn_grad_of(x[i]);
}

static void check(const char *name, row_fn fn, int leaves)
{
  need_device();
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    const kind *k = &kinds[i];
    cn_scope *s = cn_scope_begin();
    char what[100];
    cn_tensor *want[4], *have[4];
    cn_seed(i);
    cn_tensor *in[] = {cn_randn(CN_SHAPE(k->skip + k->rows * k->n)), cn_randn(CN_SHAPE(k->n)), cn_randn(CN_SHAPE(k->n)),
                       cn_randint(0, k->n, CN_SHAPE(k->rows))};
    cn_tensor *g = cn_cast(cn_randn(CN_SHAPE(k->rows * k->n)), k->type);
    for (int j = 0; j < 3; j++) in[j] = cn_cast(in[j], k->type);
    run(want, fn, k, in, g, leaves, false);
    run(have, fn, k, in, g, leaves, true);
    const double tol = k->type == CN_F32 ? 2e-5 : k->type == CN_F16 ? 4e-3 : 3e-2;
    for (int j = 0; j <= leaves; j++) {
      static const char *const parts[] = {"result", "gradient of x", "gradient of weight", "gradient of bias"};
      snprintf(what, sizeof what, "%s of %lld x %lld, %s", name, (long long)k->rows, (long long)k->n, parts[j]);
      close_to(what, want[j], have[j], tol);
    }
    cn_scope_end(s);
  }
}

/* No rows, and rows that do not count: the mean of nothing is not a number, its sum 0. */
static void nothing(void **state)
{
  (void)state;
  need_device();
  cn_scope *s = cn_scope_begin();
  for (int64_t rows = 0; rows < 3; rows += 2) {
    cn_tensor *x = there(cn_ones(CN_SHAPE(rows, 5))), *target = there(cn_full(CN_SHAPE(rows), -100, .dtype = CN_I64));
    assert_true(isnan(cn_item(cn_to_device(cn_cross_entropy(x, target), CN_CPU))));
    assert_true(cn_item(cn_to_device(cn_cross_entropy(x, target, .reduction = "sum"), CN_CPU)) == 0);
  }
  cn_scope_end(s);
}

/* Rows of 16 bits whose weights have 32, and begin anywhere in a pack. */
static void wide_weights(void **state)
{
  (void)state;
  need_device();
  static const int64_t sizes[][2] = {{300, 1021}, {40, 2047}, {90, 24}, {700, 11}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    cn_scope *s = cn_scope_begin();
    const int64_t rows = sizes[i][0], n = sizes[i][1];
    cn_seed(i);
    cn_tensor *x = cn_cast(cn_randn(CN_SHAPE(rows, n)), CN_BF16), *g = cn_cast(cn_randn(CN_SHAPE(rows, n)), CN_BF16);
    cn_tensor *w = cn_randn(CN_SHAPE(n)), *b = cn_randn(CN_SHAPE(n)), *y[2][3], *grads[2][3];
    for (int far = 0; far < 2; far++) {
      cn_tensor *in[] = {far ? there(x) : x, far ? there(w) : w, far ? there(b) : b, far ? there(g) : g};
      cn_tensor **o = y[far], **d = grads[far];
      cn_native_layer_norm(&o[0], &o[1], &o[2], in[0], CN_SHAPE(n), in[1], in[2], 1e-5);
      cn_native_layer_norm_backward(&d[0], &d[1], &d[2], in[3], in[0], CN_SHAPE(n), o[1], o[2], in[1],
                                    CN_SHAPE(1, 1, 1));
    }
    close_to("a norm with wide weights", y[0][0], y[1][0], 3e-2);
    for (int j = 0; j < 3; j++) close_to("its gradients", grads[0][j], grads[1][j], 3e-2);
    cn_scope_end(s);
  }
}

/* A bias has a gradient without a mean, too. Rows of a part of a warp, of a warp, of a block; packs taken apart or
 * not. */
static void bias_alone(void **state)
{
  (void)state;
  need_device();
  static const int64_t sizes[][2] = {{70, 11}, {300, 768}, {40, 1021}, {45, 2048}, {20, 4093}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    cn_scope *s = cn_scope_begin();
    const int64_t rows = sizes[i][0], n = sizes[i][1];
    cn_seed(i);
    cn_tensor *x = cn_randn(CN_SHAPE(rows, n)), *g = cn_randn(CN_SHAPE(rows, n)), *w = cn_randn(CN_SHAPE(n)), *d[2][4];
    cn_tensor *rstd = cn_add(cn_rand(CN_SHAPE(rows, 1)), cn_ones(CN_SHAPE(1)));
    for (int far = 0; far < 2; far++) {
      cn_tensor *in[] = {far ? there(g) : g, far ? there(x) : x, far ? there(rstd) : rstd, far ? there(w) : w};
      cn_add_norm_backward(&d[far][0], &d[far][1], &d[far][2], &d[far][3], in[0], in[1], CN_SHAPE(n), NULL, in[2],
                           in[3], NULL, CN_SHAPE(1, 0, 1, 1), CN_F32);
    }
    close_to("a gradient of rows", d[0][0], d[1][0], 2e-5); /* sums of up to 4,093 products */
    close_to("a gradient of weights", d[0][2], d[1][2], 2e-5);
    close_to("a gradient of a bias alone", d[0][3], d[1][3], 2e-5);
    cn_scope_end(s);
  }
}

#define TEST(name, leaves) \
  static void name(void **state) \
  { \
    (void)state; \
    check(#name, name##_of, leaves); \
  }
TEST(softmax, 1)
TEST(log_softmax, 1)
TEST(layer_norm, 3)
TEST(rms_norm, 2)
TEST(plain_norm, 1)
TEST(loss, 1)
TEST(mean_loss, 1)

int main(int argc, char **argv)
{
  if (argc > 0) emulate(argv);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(softmax),    cmocka_unit_test(log_softmax), cmocka_unit_test(layer_norm),
      cmocka_unit_test(rms_norm),   cmocka_unit_test(plain_norm),  cmocka_unit_test(loss),
      cmocka_unit_test(mean_loss),  cmocka_unit_test(nothing),
      cmocka_unit_test(wide_weights), cmocka_unit_test(bias_alone),
  };
  return cmocka_run_group_tests(tests, find_emulated, NULL);
}
