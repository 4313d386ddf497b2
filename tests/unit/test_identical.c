/* test_identical.c: results do not depend on the number of threads: ops on inputs large enough to be split, forward
 * and gradients, give the same bits on one, two, three and five threads.
 *
 * Own kernels keep that promise always, products of a maths library where results must repeat: main sets that between
 * the cases without products and those with. */
#define _POSIX_C_SOURCE 200809L
#include <cairn/cairn.h>

#include "test.h"

enum { RESULTS = 8 };

/* One case: results of its ops on the shared inputs, borrowed from the scope; fewer than RESULTS, then NULL. */
typedef void (*case_fn)(cn_tensor **out);

static cn_tensor *x, *y, *tall, *image, *token; /* (700, 1100), the same, (90001, 7), (3, 16, 61, 53), (20000) */

static int make_inputs(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_seed(7);
  cn_set(&x, cn_randn(CN_SHAPE(700, 1100)));
  cn_set(&y, cn_randn(CN_SHAPE(700, 1100)));
  cn_set(&tall, cn_randn(CN_SHAPE(90001, 7)));
  cn_set(&image, cn_randn(CN_SHAPE(3, 16, 61, 53)));
  cn_set(&token, cn_randint(0, 700, CN_SHAPE(20000), .dtype = CN_I64));
  cn_scope_end(s);
  return cn_err();
}

static int drop_inputs(void **state)
{
  (void)state;
  cn_tensor **all[] = {&x, &y, &tall, &image, &token};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    cn_release(*all[i]);
    *all[i] = NULL;
  }
  return 0;
}

static cn_tensor *leaf(cn_tensor *t) { return cn_requires_grad(cn_detach(t), true); }

/* Gradients of the sum of f * f for n inputs: no gradient is a constant. */
static void gradients(cn_tensor **out, cn_tensor *f, cn_tensor *const *inputs, size_t n)
{
  cn_tensor *loss = cn_sum(cn_mul(f, f));
  cn_grad(out, &loss, 1, inputs, n);
}

static void pointwise(cn_tensor **out)
{
  out[0] = cn_add(x, y);
  out[1] = cn_gelu(x);
  out[2] = cn_exp(cn_t(x));
  out[3] = cn_pow(cn_abs(x), y);
  out[4] = cn_where(cn_gt(x, y), x, cn_tanh(y));
  out[5] = cn_add(cn_t(x), cn_contiguous(cn_t(y)));
}

static void reductions(cn_tensor **out)
{
  out[0] = cn_sum(x);
  out[1] = cn_sum(x, .dim = CN_INTS(0));
  out[2] = cn_mean(x, .dim = CN_INTS(1));
  out[3] = cn_var(x);
  out[4] = cn_sum(tall, .dim = CN_INTS(0));
  out[5] = cn_logsumexp(cn_t(x), CN_SHAPE(1));
  out[6] = cn_prod(cn_add(cn_mul(tall, cn_num(1e-4)), cn_num(1)));
}

static void casts_and_moves(cn_tensor **out)
{
  out[0] = cn_cast(x, CN_BF16);
  out[1] = cn_contiguous(cn_t(x));
  out[2] = cn_cat(((cn_tensor *[]){x, y}), 2, .dim = 1);
  out[3] = cn_sum(cn_cast(x, CN_F16), .dim = CN_INTS(0));
  out[4] = cn_sum(cn_cast(x, CN_F64));
}

static void norms(cn_tensor **out)
{
  cn_tensor *a = leaf(x), *w = leaf(cn_select(y, 0, 0)), *b = leaf(cn_select(y, 0, 1));
  out[0] = cn_softmax(x, 1);
  out[1] = cn_softmax(x, 0);
  gradients(out + 2, cn_layer_norm(a, CN_SHAPE(1100), w, b), (cn_tensor *[]){a, w, b}, 3);
}

static void batch_norms(cn_tensor **out)
{
  cn_tensor *a = leaf(image), *w = leaf(cn_ones(CN_SHAPE(16)));
  out[0] = cn_batch_norm(image, NULL, NULL, NULL, NULL, .training = true);
  gradients(out + 1, cn_batch_norm(a, NULL, NULL, w, NULL, .training = true), (cn_tensor *[]){a, w}, 2);
}

static void cumulative(cn_tensor **out)
{
  out[0] = cn_cumsum(x, 0);
  out[1] = cn_cumsum(x, 1);
  out[2] = cn_cumsum(cn_reshape(x, CN_SHAPE(-1)), 0);
  out[3] = cn_logcumsumexp(tall, 0);
}

static void gathers(cn_tensor **out)
{
  cn_tensor *a = leaf(x), *found = cn_embedding(token, a, CN_NONE);
  out[0] = cn_index_add(x, 0, token, found);
  gradients(out + 1, found, &a, 1);
}

static void ordered(cn_tensor **out)
{
  cn_sort(&out[0], &out[1], cn_reshape(x, CN_SHAPE(-1)));
  cn_topk(&out[2], &out[3], x, 20);
  cn_sort(&out[4], &out[5], cn_round(tall), .dim = CN_ZERO);
}

static void products(cn_tensor **out)
{
  cn_tensor *a = leaf(x), *b = leaf(y);
  out[0] = cn_matmul(x, cn_t(y));
  out[1] = cn_matmul(cn_t(tall), tall);
  out[2] = cn_matmul(x, cn_select(y, 0, 3));
  out[3] = cn_bmm(cn_reshape(x, CN_SHAPE(7, 100, 1100)), cn_reshape(y, CN_SHAPE(7, 1100, 100)));
  gradients(out + 4, cn_matmul(a, cn_t(b)), (cn_tensor *[]){a, b}, 2);
}

/* Gradients of a convolution of the image: k x k, `out_channels`, stride and groups. */
static void convolution(cn_tensor **out, int64_t k, int64_t out_channels, int64_t stride, int64_t groups)
{
  int64_t within = 16 / groups, n = out_channels * within * k * k;
  cn_tensor *w =
      leaf(cn_reshape(cn_narrow(cn_reshape(x, CN_SHAPE(-1)), 0, 0, n), CN_SHAPE(out_channels, within, k, k)));
  cn_tensor *a = leaf(image);
  cn_tensor *f = cn_conv2d(a, w, NULL, .stride = CN_INTS(stride), .padding = CN_INTS(k / 2), .groups = groups);
  out[0] = cn_detach(f);
  gradients(out + 1, f, (cn_tensor *[]){a, w}, 2);
}

static void convolutions(cn_tensor **out)
{
  convolution(out, 3, 32, 1, 1);
  convolution(out + 3, 1, 32, 1, 1);
}

static void odd_convolutions(cn_tensor **out)
{
  convolution(out, 3, 16, 1, 16);
  convolution(out + 3, 3, 32, 2, 1);
}

static void attention(cn_tensor **out)
{
  cn_tensor *q = leaf(cn_reshape(cn_narrow(x, 0, 0, 640), CN_SHAPE(2, 4, 1100, 80)));
  cn_tensor *k = leaf(cn_reshape(cn_narrow(y, 0, 0, 640), CN_SHAPE(2, 4, 1100, 80)));
  cn_tensor *f = cn_scaled_dot_product_attention(q, k, q, .is_causal = true);
  out[0] = cn_detach(f);
  gradients(out + 1, f, (cn_tensor *[]){q, k}, 2);
}

static void recurrence(cn_tensor **out)
{
  cn_tensor *flat = cn_mul(cn_reshape(y, CN_SHAPE(-1)), cn_num(0.1)), *zero = cn_zeros(CN_SHAPE(1, 20, 64)),
            *f = NULL;
  cn_tensor *in = leaf(cn_reshape(cn_narrow(x, 0, 0, 20), CN_SHAPE(11, 20, 100)));
  cn_tensor *w = leaf(cn_reshape(cn_narrow(flat, 0, 0, 256 * 100), CN_SHAPE(256, 100)));
  cn_tensor *u = leaf(cn_reshape(cn_narrow(flat, 0, 30000, 256 * 64), CN_SHAPE(256, 64)));
  cn_lstm(&f, NULL, NULL, in, (cn_tensor *[]){zero, zero}, 2, (cn_tensor *[]){w, u}, 2, false, 1, 0, true, false,
          false);
  out[0] = cn_detach(f);
  gradients(out + 1, f, (cn_tensor *[]){in, w, u}, 3);
}

static void pools_and_losses(cn_tensor **out)
{
  cn_tensor *a = leaf(x), *label = cn_narrow(token, 0, 0, 700), *b = leaf(image);
  out[0] = cn_cross_entropy(a, label);
  cn_grad(out + 1, out, 1, &a, 1);
  out[0] = cn_detach(out[0]);
  gradients(out + 2, cn_avg_pool2d(b, CN_SHAPE(3, 3), CN_NONE), &b, 1);
  out[3] = cn_max_pool2d(image, CN_SHAPE(3, 3));
  out[4] = cn_interpolate(image, .size_ = CN_INTS(100, 71), .mode = "bilinear");
}

static void draws(cn_tensor **out)
{
  cn_seed(11);
  out[0] = cn_rand(CN_SHAPE(333333));
  out[1] = cn_randn(CN_SHAPE(333333));
  out[2] = cn_dropout(x, .p = 0.3);
  out[3] = cn_randperm(50000);
}

/* Row-major bytes of a result, owned; fails the test when it has none. */
static char *bytes_of(cn_tensor *t, size_t *size, const char *name, int index)
{
  *size = cn_tensor_nbytes(t);
  char *bytes = malloc(*size + 1);
  if (!bytes || cn_to_data(bytes, *size, t)) fail_msg("%s, result %d: %s", name, index, cn_err_message());
  return bytes;
}

/* Holds the results of a case on `threads` threads against those on one. */
static void compare(case_fn run, const char *name, int threads)
{
  cn_tensor *one[RESULTS] = {NULL}, *many[RESULTS] = {NULL};
  cn_scope *s = cn_scope_begin();
  cn_set_num_threads(1);
  run(one);
  cn_set_num_threads(threads);
  run(many);
  if (cn_err()) fail_msg("%s: %s", name, cn_err_message());
  for (int i = 0; i < RESULTS && one[i]; i++) {
    size_t n = 0, m = 0, at = 0;
    char *a = bytes_of(one[i], &n, name, i), *b = bytes_of(many[i], &m, name, i);
    while (at < n && n == m && a[at] == b[at]) at++;
    free(a), free(b);
    if (at < n) fail_msg("%s, result %d: byte %zu of %zu differs on %d threads", name, i, at, n, threads);
  }
  cn_set_num_threads(0);
  cn_scope_end(s);
}

#define SAME(f)                                                                                                      \
  static void same_##f(void **state)                                                                                 \
  {                                                                                                                  \
    (void)state;                                                                                                     \
    for (int threads = 2; threads < 6; threads++) compare(f, #f, threads);                                           \
  }
SAME(pointwise)
SAME(reductions)
SAME(casts_and_moves)
SAME(norms)
SAME(batch_norms)
SAME(cumulative)
SAME(gathers)
SAME(ordered)
SAME(pools_and_losses)
SAME(draws)
SAME(products)
SAME(convolutions)
SAME(odd_convolutions)
SAME(attention)
SAME(recurrence)

int main(void)
{
  const struct CMUnitTest own[] = {
      cmocka_unit_test(same_pointwise), cmocka_unit_test(same_reductions),  cmocka_unit_test(same_casts_and_moves),
      cmocka_unit_test(same_norms),     cmocka_unit_test(same_batch_norms), cmocka_unit_test(same_cumulative),
      cmocka_unit_test(same_gathers),   cmocka_unit_test(same_ordered),     cmocka_unit_test(same_pools_and_losses),
      cmocka_unit_test(same_draws),
  };
  const struct CMUnitTest with_products[] = {
      cmocka_unit_test(same_products),  cmocka_unit_test(same_convolutions), cmocka_unit_test(same_odd_convolutions),
      cmocka_unit_test(same_attention), cmocka_unit_test(same_recurrence),
  };
  cn_set_deterministic(CN_DETERMINISTIC_OFF);
  int failed = cmocka_run_group_tests(own, make_inputs, drop_inputs);
  cn_set_deterministic(CN_DETERMINISTIC_FAIL);
  return failed + cmocka_run_group_tests(with_products, make_inputs, drop_inputs);
}
