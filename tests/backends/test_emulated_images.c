/* test_emulated_images.c: what compiled functions make of networks for images on the CUDA plugin, emulated
 * (test_emulated.c): convolutions that take in what is behind them, what is kept of weights, pools. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "test.h"

#include <cairn/cairn.h>
#include <cairn/ext/graph.h>
#include <cairn/kw.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>

#include "emulated.h"
#include "graph/run.h"

/* A convolution takes in the norm by running statistics, the addition and the relu behind it. What that makes of
 * weights is made once, and anew when one of them was written to. */
typedef struct layers {
  cn_tensor *w[2], *bias, *scale[2], *shift[2], *mean[2], *var[2];
} layers;

static int run_layers(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  const layers *l = payload;
  cn_tensor *y = cn_conv2d(in[0], l->w[0], l->bias, .padding = CN_INTS(1));
  y = cn_relu(cn_batch_norm(y, l->mean[0], l->var[0], l->scale[0], l->shift[0]));
  y = cn_batch_norm(cn_conv2d(y, l->w[1], NULL), l->mean[1], l->var[1], NULL, NULL, .eps = 0.01);
  out[0] = cn_relu(cn_add(y, in[0]));
  return cn_err();
}

static cn_tensor *there_as(cn_tensor *x, cn_dtype dtype) { return there(cn_cast(x, dtype)); }

static void folded(cn_dtype dtype, double tol)
{
  cn_scope *s = cn_scope_begin();
  layers l = {.bias = there_as(cn_randn(CN_SHAPE(6)), dtype)};
  for (int i = 0; i < 2; i++) {
    int64_t c = i ? 4 : 6;
    l.w[i] = there_as(cn_channels_last(cn_randn(CN_SHAPE(c, 10 - c, 3 - 2 * i, 3 - 2 * i))), dtype);
    l.scale[i] = there_as(cn_randn(CN_SHAPE(c)), dtype), l.shift[i] = there_as(cn_randn(CN_SHAPE(c)), dtype);
    l.mean[i] = there_as(cn_randn(CN_SHAPE(c)), dtype);
    l.var[i] = there_as(cn_add(cn_rand(CN_SHAPE(c)), cn_num(0.5)), dtype);
  }
  cn_tensor *x = there_as(cn_channels_last(cn_randn(CN_SHAPE(2, 4, 5, 5))), dtype), *want, *have;
  cn_graph *g = cn_trace(run_layers, 1, &x, 1, &l);
  assert_true(cn_graph_fuse(g, false) > 0);
  char *text = cn_graph_to_string(g);
  assert_non_null(strstr(text, "conv2d_fused"));
  assert_null(strstr(text, "= native_batch_norm("));
  assert_null(strstr(text, "= batch_norm_apply("));
  cn_string_free(text);
  size_t before = cni_settled();
  for (int i = 0; i < 8; i++) {
    if (i == 3) cn_add_(l.mean[1], cn_num(1));
    if (i == 5) cn_mul_(l.w[0], cn_num(0.5));
    assert_int_equal(run_layers(&want, &x, &l), 0);
    assert_int_equal(cn_graph_run(&have, g, &x), 0);
    close_to("a folded norm", cn_to_device(want, CN_CPU), have, tol);
  }
  assert_int_equal(cni_settled() - before, 3);
  atomic_store(&l.scale[0]->storage->shown, true); /* whoever has the address may write there unseen */
  for (int i = 0; i < 2; i++) assert_int_equal(cn_graph_run(&have, g, &x), 0);
  assert_int_equal(cni_settled() - before, 5);
  cn_graph_free(g);
  cn_scope_end(s);
}

/* A formula that would write over what it is the last to read leaves what was made of a weight. */
static int run_sum(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cn_tensor *w = payload;
  out[0] = cn_sum(cn_exp(cn_add(in[0], cn_mm(w, w))), .dim = CN_INTS(1));
  return cn_err();
}

static void steady(void)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *w = there(cn_randn(CN_SHAPE(6, 6))), *x = there(cn_randn(CN_SHAPE(6, 6))), *want, *have;
  cn_graph *g = cn_trace(run_sum, 1, &x, 1, w);
  size_t before = cni_settled();
  assert_int_equal(run_sum(&want, &x, w), 0);
  for (int i = 0; i < 4; i++) {
    assert_int_equal(cn_graph_run(&have, g, &x), 0);
    close_to("a sum with what a weight makes", cn_to_device(want, CN_CPU), have, 0);
  }
  assert_int_equal(cni_settled() - before, 1);
  cn_graph_free(g);
  cn_scope_end(s);
}

static void convolutions(void **state)
{
  (void)state;
  need_device();
  cn_seed(14);
  steady();
  folded(CN_F16, 2e-2);
  folded(CN_BF16, 1e-1);
}

/* Pools where channels are innermost, by packs and not, with their gradients. */
static void check_pools(int64_t channels_of_x, cn_dtype dtype)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_cast(cn_channels_last(cn_randn(CN_SHAPE(2, channels_of_x, 9, 7))), dtype), *y[2][5];
  for (int far = 0; far < 2; far++) {
    cn_tensor *in = cn_requires_grad(far ? there(x) : cn_detach(x), true), **to = y[far];
    to[0] = cn_max_pool2d(in, CN_SHAPE(3, 3), .stride = CN_INTS(2), .padding = CN_INTS(1));
    to[1] = cn_max_pool2d(in, CN_SHAPE(2, 3), .stride = CN_INTS(1, 2), .dilation = CN_INTS(2, 1));
    to[2] = cn_adaptive_avg_pool2d(in, CN_SHAPE(2, 3));
    to[3] = cn_adaptive_avg_pool2d(in, CN_SHAPE(1, 1)); /* few results */
    cn_tensor *all = cn_add(cn_sum(cn_square(to[0])), cn_add(cn_sum(cn_square(to[1])), cn_sum(cn_square(to[2]))));
    assert_int_equal(cn_backward(cn_add(all, cn_sum(to[3]))), 0);
    to[4] = cn_grad_of(in);
    assert_true(cn_is_channels_last(to[0]) && cn_is_channels_last(to[2]));
  }
  for (int i = 0; i < 5; i++) close_to("a pool", y[0][i], y[1][i], i < 2 ? 0 : dtype == CN_F32 ? 1e-6 : 2e-2);
  cn_scope_end(s);
}

static void pools(void **state)
{
  (void)state;
  need_device();
  cn_seed(15);
  check_pools(8, CN_F32);
  check_pools(16, CN_BF16);
  check_pools(5, CN_F32);
  check_pools(3, CN_F16);
}

/* Two norms with a residual each: the gradient that comes in two parts through the first relu is added up by the norm's
 * own gradient. */
typedef struct residual {
  cn_tensor *w[2], *b[2];
} residual;

static int run_residual(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  const residual *k = payload;
  cn_tensor *leaves[4] = {cn_requires_grad(cn_detach(in[0]), true), cn_requires_grad(cn_detach(in[1]), true), k->w[0],
                          k->b[0]};
  cn_tensor *x = cn_mul(leaves[0], cn_num(1.5)), *r = cn_tanh(leaves[1]); /* gradients are written over what is spent */
  cn_tensor *a = cn_batch_norm(x, NULL, NULL, k->w[0], k->b[0], .training = true);
  a = cn_relu(cn_add(a, r));
  cn_tensor *b = cn_add(cn_batch_norm(a, NULL, NULL, k->w[1], k->b[1], .training = true), a);
  int status = cn_grad(out, &b, 1, leaves, 4, .grad_outputs = &in[2]);
  return status ? status : cn_err();
}

static void check_residual(int64_t c, bool last, cn_dtype dtype)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *in[3], *have[4], *want[4];
  residual k;
  for (int i = 0; i < 3; i++) {
    cn_tensor *x = cn_randn(CN_SHAPE(3, c, 4, 6));
    in[i] = there_as(last ? cn_channels_last(x) : x, dtype);
  }
  for (int i = 0; i < 2; i++) {
    k.w[i] = cn_requires_grad(there_as(cn_randn(CN_SHAPE(c)), dtype), true);
    k.b[i] = cn_requires_grad(there_as(cn_randn(CN_SHAPE(c)), dtype), true);
  }
  cn_graph *g = cn_trace(run_residual, 4, in, 3, &k);
  if (!g) fail_msg("%s", cn_err_message());
  assert_true(cn_graph_fuse(g, false) > 0);
  char *text = cn_graph_to_string(g);
  assert_non_null(strstr(text, "batch_norm_add_relu_backward"));
  cn_string_free(text);
  assert_int_equal(run_residual(want, in, &k), 0);
  assert_int_equal(cn_graph_run(have, g, in), 0);
  for (int i = 0; i < 4; i++)
    close_to("a gradient through a residual", cn_to_device(want[i], CN_CPU), have[i], 0);
  cn_graph_free(g);
  cn_scope_end(s);
}

static void residuals(void **state)
{
  (void)state;
  need_device();
  cn_seed(16);
  check_residual(8, true, CN_F32);
  check_residual(5, true, CN_F32);
  check_residual(6, false, CN_F32);
  check_residual(2, true, CN_F64);
}

/* The last layer of one image, or two. */
static void check_rows(int64_t rows, int64_t k, int64_t n, cn_dtype dtype)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_cast(cn_randn(CN_SHAPE(rows, k)), dtype), *w = cn_cast(cn_randn(CN_SHAPE(n, k)), dtype);
  cn_tensor *b = cn_cast(cn_randn(CN_SHAPE(n)), dtype);
  close_to("a linear layer of few rows", cn_linear(cn_cast(x, CN_F32), cn_cast(w, CN_F32), cn_cast(b, CN_F32)),
           cn_linear(there(x), there(w), there(b)), dtype == CN_F32 ? 1e-5 : 1e-2);
  close_to("without a bias", cn_linear(cn_cast(x, CN_F32), cn_cast(w, CN_F32), NULL),
           cn_linear(there(x), there(w), NULL), dtype == CN_F32 ? 1e-5 : 1e-2);
  cn_scope_end(s);
}

static void few_rows(void **state)
{
  (void)state;
  need_device();
  cn_seed(17);
  check_rows(1, 512, 37, CN_BF16);
  check_rows(2, 512, 37, CN_F16);
  check_rows(1, 20, 9, CN_F32);
  check_rows(2, 21, 9, CN_F32); /* no whole packs */
  check_rows(3, 16, 9, CN_F32);
}

/* Copies between memory orders: runs of every length. */
static void check_orders(const int64_t *shape, cn_dtype dtype)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_mul(cn_randn(CN_SHAPE(shape[0], shape[1], shape[2], shape[3])), cn_num(20));
  x = cn_cast(x, dtype);
  cn_tensor *far = there(x), *last = cn_channels_last(far);
  close_to("channels last", x, last, 0);
  close_to("and back", x, cn_contiguous(last), 0);
  close_to("a transpose", cn_contiguous(cn_transpose(x, 1, 3)), cn_contiguous(cn_transpose(far, 1, 3)), 0);
  if (dtype == CN_F32)
    close_to("with a cast", cn_cast(x, CN_BF16), cn_cast(cn_channels_last(cn_cast(far, CN_BF16)), CN_F32), 0);
  cn_scope_end(s);
}

static void orders(void **state)
{
  (void)state;
  need_device();
  static const int64_t shapes[][4] = {{2, 16, 24, 20}, {3, 72, 14, 14}, {2, 300, 3, 8}, {1, 24, 30, 31}, {2, 63, 7, 9}};
  static const cn_dtype dtypes[] = {CN_F32, CN_BF16, CN_F64, CN_I8};
  cn_seed(18);
  for (int i = 0; i < 5; i++)
    for (int k = 0; k < 4; k++) check_orders(shapes[i], dtypes[k]);
}

/* Running statistics and counts, as batch norms keep them: recorded work writes those of all layers together. */
enum { LAYERS = 6 };
typedef struct running {
  cn_tensor *mean[LAYERS], *count[LAYERS], *weight;
} running;

static int run_running(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  const running *k = payload;
  cn_tensor *x = in[0];
  for (int i = 0; i < LAYERS; i++) {
    cn_tensor *mean = cn_mean(x, .dim = CN_INTS(0));
    cn_lerp_(k->mean[i], mean, cn_num(0.1));
    cn_add_(k->count[i], cn_int(1));
    x = cn_mm(x, cn_add(k->weight, mean));
  }
  out[0] = cn_sum(x);
  return cn_err();
}

static void statistics(void **state)
{
  (void)state;
  need_device();
  cn_scope *s = cn_scope_begin();
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  const int *launches = driver ? dlsym(driver, "simt_launches") : NULL;
  cn_tensor *x = there(cn_randn(CN_SHAPE(5, 16))), *want, *have;
  running k, eager;
  int first = 0, before = 0;
  k.weight = eager.weight = there(cn_mul(cn_randn(CN_SHAPE(16, 16)), cn_num(0.1)));
  for (int i = 0; i < LAYERS; i++) {
    k.mean[i] = there(cn_zeros(CN_SHAPE(16))), k.count[i] = there(cn_zeros(CN_SHAPE(1), .dtype = CN_I64));
    eager.mean[i] = cn_clone(k.mean[i]), eager.count[i] = cn_clone(k.count[i]);
  }
  cn_graph *g = cn_trace(run_running, 1, &x, 1, &k);
  assert_non_null(g);
  assert_true(cn_graph_optimise(g) >= 0 && cn_graph_fuse(g, false) >= 0);
  for (int i = 0; i < 4; i++) {
    assert_int_equal(run_running(&want, &x, &eager), 0);
    before = launches ? *launches : 0;
    assert_int_equal(cn_graph_run(&have, g, &x), 0);
    if (launches && !i) first = *launches - before;
    close_to("a sum", cn_to_device(want, CN_CPU), have, 0);
  }
  if (launches) assert_int_equal(first - (*launches - before), 2 * LAYERS - 2 - 2); /* two, and two that copy */
  for (int i = 0; i < LAYERS; i++) {
    close_to("a running mean", cn_to_device(eager.mean[i], CN_CPU), k.mean[i], 0);
    close_to("a count", cn_to_device(eager.count[i], CN_CPU), k.count[i], 0);
  }
  cn_graph_free(g);
  cn_scope_end(s);
}

/* Clipping changes all gradients by a launch or two, and to what the CPU makes of them. */
static void clipping(void **state)
{
  (void)state;
  need_device();
  enum { PARAMS = 12 };
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  const int *launches = driver ? dlsym(driver, "simt_launches") : NULL;
  for (int norm = 0; norm < 2; norm++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *params[2][PARAMS];
    int took[2] = {0, 0};
    cn_seed(5);
    for (int i = 0; i < PARAMS; i++) {
      cn_tensor *g = cn_mul(cn_randn(CN_SHAPE(i + 1, 8)), cn_num(3));
      for (int far = 0; far < 2; far++) {
        params[far][i] = cn_requires_grad(cn_zeros_like(far ? there(g) : g), true);
        assert_int_equal(cn_backward(cn_sum(cn_mul(params[far][i], far ? there(g) : g))), 0);
      }
    }
    for (int many = 0; many < 2; many++) { /* of one, then of all */
      int before = launches ? *launches : 0;
      for (int far = 0; far < 2; far++) {
        int n = many ? PARAMS : 1;
        if (norm) cn_clip_grad_norm(params[far], (size_t)n, many ? 2 : 4, 2);
        else cn_clip_grad_value(params[far], (size_t)n, many ? 0.5 : 1);
      }
      assert_int_equal(cn_device_sync(gpu), 0);
      took[many] = launches ? *launches - before : 0;
    }
    for (int i = 0; i < PARAMS; i++)
      close_to("a clipped gradient", cn_grad_of(params[0][i]), cn_grad_of(params[1][i]), norm ? 1e-6 : 0);
    /* each gradient has a norm of its own, in two steps, which is put beside the others; the change is one of all */
    if (took[1] > took[0] + (norm ? 3 * (PARAMS - 1) : 0)) fail_msg("%d launches, of one %d", took[1], took[0]);
    cn_scope_end(s);
  }
}

/* Norms of so many rows that several blocks share a channel, which divide by chunks and not. */
static void many_rows(void **state)
{
  (void)state;
  need_device();
  static const int64_t shapes[][4] = {{8, 24, 40, 40}, {7, 24, 37, 41}, {5, 6, 61, 53}};
  cn_seed(19);
  for (int i = 0; i < 3; i++) {
    cn_scope *s = cn_scope_begin();
    const int64_t *n = shapes[i];
    cn_tensor *x = cn_channels_last(cn_add(cn_randn(CN_SHAPE(n[0], n[1], n[2], n[3])), cn_num(3))), *y[2], *g[2];
    cn_tensor *w = cn_channels_last(cn_randn(CN_SHAPE(n[0], n[1], n[2], n[3])));
    for (int far = 0; far < 2; far++) {
      cn_tensor *in = cn_requires_grad(far ? there(x) : cn_detach(x), true);
      y[far] = cn_batch_norm(in, NULL, NULL, NULL, NULL, .training = true);
      assert_int_equal(cn_backward(cn_sum(cn_mul(y[far], far ? there(w) : w))), 0);
      g[far] = cn_grad_of(in);
    }
    close_to("a norm of many rows", y[0], y[1], 2e-6);
    close_to("its gradient", g[0], g[1], 1e-5);
    cn_scope_end(s);
  }
}

/* Images of bytes in other sizes: the CPU's bytes. */
static void bytes(void **state)
{
  (void)state;
  need_device();
  static const int64_t sizes[][4] = {{1, 5, 7, 2}, {20, 31, 7, 40}, {23, 9, 64, 3}, {16, 16, 1, 33}};
  static const char *const modes[] = {"bilinear", "bicubic"};
  cn_seed(20);
  for (int i = 0; i < 4 * 8; i++) {
    cn_scope *s = cn_scope_begin();
    const int64_t *n = sizes[i / 8];
    cn_tensor *x = cn_randint(0, 256, CN_SHAPE(2, 3, n[0], n[1]), .dtype = CN_U8), *y[2];
    for (int far = 0; far < 2; far++)
      y[far] = cn_interpolate(far ? there(x) : x, .size_ = CN_INTS(n[2], n[3]), .mode = modes[i & 1],
                              .antialias = i & 2, .align_corners = i & 4 ? 1 : CN_ZERO);
    close_to("bytes in another size", y[0], y[1], 0);
    cn_scope_end(s);
  }
}

int main(int argc, char **argv)
{
  if (argc > 0) emulate(argv);
  const struct CMUnitTest tests[] = {cmocka_unit_test(convolutions), cmocka_unit_test(pools),
                                     cmocka_unit_test(residuals),    cmocka_unit_test(few_rows),
                                     cmocka_unit_test(orders),       cmocka_unit_test(statistics),
                                     cmocka_unit_test(clipping),     cmocka_unit_test(many_rows),
                                     cmocka_unit_test(bytes)};
  return cmocka_run_group_tests(tests, find_emulated, NULL);
}
