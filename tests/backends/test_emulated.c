/* test_emulated.c: the CUDA plugin's kernels run on the CPU, thread by thread (tests/simt), against the CPU's own: one
 * or two calls for each kernel file, with shapes that use its different ways. A barrier that some threads miss, or a
 * result that was never written, shows here without a GPU.
 *
 * The program starts itself again with the emulation's folder in front of the vendor's libraries. Skipped, with the
 * reason, where the plugin or a C++ compiler is not. test_ops runs all samples the same way: tools/emulate. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "test.h"

#include <cairn/cairn.h>
#include <cairn/ext/graph.h>
#include <cairn/ext/parts.h>
#include <cairn/kw.h>
#include <math.h>
#include <stdio.h>

#include "emulated.h"
#include "graph/run.h"

static void rows(void **state)
{
  (void)state;
  need_device();
  cn_scope *s = cn_scope_begin();
  cn_seed(1);
  cn_tensor *x = cn_randn(CN_SHAPE(3, 37)), *wide = cn_randn(CN_SHAPE(2, 1500)), *y = there(x), *gwide = there(wide);
  close_to("sum", cn_sum(x), cn_sum(y), 1e-6);
  close_to("sum of columns", cn_sum(wide, .dim = CN_INTS(0)), cn_sum(gwide, .dim = CN_INTS(0)), 1e-6);
  close_to("softmax in registers", cn_softmax(x, 1), cn_softmax(y, 1), 1e-6);
  close_to("softmax in shared memory", cn_softmax(wide, 1), cn_softmax(gwide, 1), 1e-6);
  for (int64_t n = 41; n < 4200; n = n * 10 + 1) { /* rows that begin anywhere in a pack */
    cn_tensor *odd = cn_cast(cn_randn(CN_SHAPE(3, n)), CN_BF16), *far = there(odd);
    close_to("softmax of odd rows", cn_softmax(odd, 1), cn_softmax(far, 1), 8e-3);
    cn_tensor *want = cn_layer_norm(odd, CN_SHAPE(n), NULL, NULL);
    close_to("norm of odd rows", want, cn_layer_norm(far, CN_SHAPE(n), NULL, NULL), 2e-2);
  }
  close_to("softmax of columns", cn_softmax(x, 0), cn_softmax(y, 0), 1e-6);
  close_to("layer norm", cn_layer_norm(x, CN_SHAPE(37), NULL, NULL), cn_layer_norm(y, CN_SHAPE(37), NULL, NULL), 1e-5);
  cn_tensor *target = cn_randint(0, 37, CN_SHAPE(3));
  close_to("cross entropy", cn_cross_entropy(x, target), cn_cross_entropy(y, there(target)), 1e-6);
  cn_scope_end(s);
}

/* Strided operands: neighbours by whole words, one element of a row, and no neighbours at all. */
static void strides(void **state)
{
  (void)state;
  need_device();
  cn_scope *s = cn_scope_begin();
  cn_seed(7);
  cn_tensor *x = cn_cast(cn_randn(CN_SHAPE(3, 5, 48)), CN_BF16), *y = there(x);
  for (int i = 0; i < 3; i++) {
    static const int64_t from[] = {0, 4, 3}; /* words of 16 and 8 bytes, and of one element */
    cn_tensor *a = cn_slice(x, 2, from[i], from[i] + 16), *b = cn_slice(y, 2, from[i], from[i] + 16);
    cn_tensor *row = cn_select(a, 0, 1), *there_row = cn_select(b, 0, 1);
    close_to("a slice", cn_mul(a, a), cn_mul(b, b), 0);
    close_to("a row", cn_add(a, row), cn_add(b, there_row), 0);
    close_to("a column", cn_sub(a, cn_slice(a, 2, 0, 1)), cn_sub(b, cn_slice(b, 2, 0, 1)), 0);
    close_to("turned", cn_mul(a, cn_transpose(cn_transpose(a, 0, 1), 0, 1)), cn_mul(b, b), 0);
  }
  for (int64_t side = 63; side < 66; side++) { /* whole runs, and none */
    cn_tensor *from = cn_cast(cn_randn(CN_SHAPE(2, side, 64)), CN_BF16), *far = there(from);
    close_to("a transpose", cn_contiguous(cn_transpose(from, 1, 2)), cn_contiguous(cn_transpose(far, 1, 2)), 0);
    close_to("and a cast", cn_cast(cn_transpose(from, 1, 2), CN_F32),
             cn_contiguous(cn_cast(cn_transpose(far, 1, 2), CN_F32)), 0);
  }
  close_to("gelu of 16 bits", cn_gelu(x), cn_gelu(y), 8e-3);
  close_to("its tanh form", cn_gelu(x, .approximate = "tanh"), cn_gelu(y, .approximate = "tanh"), 8e-3);
  cn_scope_end(s);
}

/* Gradients of rows: those of the weights in one pass with those of the input, or in a pass of their own. */
static void row_gradients(void **state)
{
  (void)state;
  need_device();
  cn_scope *s = cn_scope_begin();
  cn_seed(8);
  static const int64_t widths[] = {37, 1500, 9000}; /* a warp's, a block's, and too long for registers */
  for (int i = 0; i < 3; i++) {
    int64_t n = widths[i];
    cn_tensor *x = cn_randn(CN_SHAPE(9, n)), *w = cn_randn(CN_SHAPE(n)), *b = cn_randn(CN_SHAPE(n));
    cn_tensor *here[] = {cn_requires_grad(x, true), cn_requires_grad(w, true), cn_requires_grad(b, true)}, *far[3];
    for (int k = 0; k < 3; k++) far[k] = cn_requires_grad(there(cn_detach(here[k])), true);
    cn_tensor *g = cn_randn(CN_SHAPE(9, n));
    assert_int_equal(cn_backward(cn_sum(cn_mul(cn_layer_norm(x, CN_SHAPE(n), w, b), g))), 0);
    assert_int_equal(cn_backward(cn_sum(cn_mul(cn_layer_norm(far[0], CN_SHAPE(n), far[1], far[2]), there(g)))), 0);
    for (int k = 0; k < 3; k++) close_to("layer norm's gradient", cn_grad_of(here[k]), cn_grad_of(far[k]), 2e-5);
  }
  cn_tensor *scores = cn_cast(cn_randn(CN_SHAPE(3, 50)), CN_BF16), *target = cn_randint(0, 50, CN_SHAPE(3));
  cn_tensor *a = cn_requires_grad(scores, true), *c = cn_requires_grad(there(cn_detach(scores)), true);
  int saved = cn_autocast_begin(CN_BF16);
  cn_tensor *want = cn_cross_entropy(a, target), *have = cn_cross_entropy(c, there(target));
  cn_autocast_end(saved);
  assert_int_equal(cn_dtype_of(have), CN_F32); /* of scores that are read as they are */
  close_to("cross entropy of 16 bits", want, have, 1e-6);
  assert_int_equal(cn_backward(cn_div(want, cn_num(3))), 0);
  assert_int_equal(cn_backward(cn_div(have, cn_num(3))), 0);
  close_to("its gradient", cn_grad_of(a), cn_grad_of(c), 1e-3);
  cn_scope_end(s);
}

static cn_tensor *norm_of(cn_tensor *const *x, int64_t groups)
{
  if (groups) return cn_group_norm(x[0], groups, x[1], x[2]);
  return cn_batch_norm(x[0], NULL, NULL, x[1], x[2], .training = true);
}

/* Group norm, or batch norm where there are no groups, with gradients. */
static void check_norm(cn_tensor *x, int64_t groups)
{
  int64_t c = cn_size(x, 1);
  cn_tensor *w = cn_randn(CN_SHAPE(c)), *b = cn_randn(CN_SHAPE(c)), *g = cn_randn_like(x);
  cn_tensor *here[] = {cn_requires_grad(cn_detach(x), true), cn_requires_grad(w, true), cn_requires_grad(b, true)},
            *far[3];
  for (int k = 0; k < 3; k++) far[k] = cn_requires_grad(there(cn_detach(here[k])), true);
  cn_tensor *want = norm_of(here, groups), *have = norm_of(far, groups);
  close_to("norm", want, have, 1e-5);
  assert_int_equal(cn_backward(cn_sum(cn_mul(want, g))), 0);
  assert_int_equal(cn_backward(cn_sum(cn_mul(have, there(g)))), 0);
  for (int k = 0; k < 3; k++) close_to("its gradient", cn_grad_of(here[k]), cn_grad_of(far[k]), 5e-5);
}

/* Batch norm where channels lie together, by packs and not, with its gradients. */
static void channels(void **state)
{
  (void)state;
  need_device();
  cn_scope *s = cn_scope_begin();
  cn_seed(9);
  static const int64_t counts[] = {16, 36, 6}; /* packs of 4: a power of two, not one, and none */
  for (int i = 0; i < 3; i++) {
    int64_t c = counts[i];
    check_norm(cn_channels_last(cn_randn(CN_SHAPE(7, c, 9, 11))), 0);
  }
  cn_scope_end(s);
}

/* Batch norm and group norm over planes: of whole packs, that begin and end inside of them, of less than one; some so
 * long that several blocks sum them up. */
static void planes(void **state)
{
  (void)state;
  need_device();
  cn_scope *s = cn_scope_begin();
  cn_seed(10);
  static const int64_t shapes[][4] = {{2, 2, 130, 132}, {2, 2, 130, 131}, {3, 6, 9, 11}, {1, 4, 91, 91}, {2, 4, 3, 1}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    cn_tensor *x = cn_add(cn_randn(shapes[i], 4), cn_num(1));
    check_norm(x, 0);
    check_norm(x, shapes[i][1] / 2);
  }
  cn_scope_end(s);
}

/* The same as compiled functions have it: with an addition and a relu behind, of any memory order and type. */
typedef struct block {
  cn_tensor *w, *b, *mean, *var;
  bool training, adds, relu;
} block;

static int run_block(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  const block *k = payload;
  cn_tensor *y = cn_batch_norm(in[0], k->mean, k->var, k->w, k->b, .training = k->training);
  if (k->adds) y = cn_add(in[1], y);
  out[0] = k->relu ? cn_relu(y) : cn_add(y, cn_num(0.0));
  return cn_err();
}

static cn_tensor *small_copy(cn_tensor *x, bool last, cn_dtype dtype)
{
  return cn_cast(last ? cn_channels_last(x) : x, dtype);
}

/* A traced and fused block against the CPU's own, and against single ops on the device to the bit where that is due. */
static void check_block(int64_t c, bool last, cn_dtype dtype, int form)
{
  cn_tensor *x = cn_randn(CN_SHAPE(3, c, 5, 4)), *r = cn_randn(CN_SHAPE(3, c, 5, 4));
  cn_tensor *in[] = {small_copy(x, last, dtype), small_copy(r, last, dtype)}, *far[2], *want, *have, *single;
  cn_dtype own = form & 8 ? dtype : dtype == CN_F64 ? CN_F64 : CN_F32;
  block k = {cn_cast(cn_randn(CN_SHAPE(c)), own), cn_cast(cn_randn(CN_SHAPE(c)), own),
             cn_cast(cn_randn(CN_SHAPE(c)), own), cn_cast(cn_add(cn_rand(CN_SHAPE(c)), cn_num(0.5)), own),
             form & 1, form & 2, form & 4};
  block on_gpu = {there(k.w), there(k.b), there(k.mean), there(k.var), k.training, k.adds, k.relu};
  block again = {on_gpu.w, on_gpu.b, cn_clone(on_gpu.mean), cn_clone(on_gpu.var), k.training, k.adds, k.relu};
  for (int i = 0; i < 2; i++) far[i] = there(in[i]);
  cn_graph *g = cn_trace(run_block, 1, far, 2, &on_gpu);
  assert_non_null(g);
  assert_true(cn_graph_fuse(g, false) >= 0);
  char *text = cn_graph_to_string(g);
  assert_int_equal(strstr(text, "batch_norm_apply") != NULL, k.adds || k.relu);
  cn_string_free(text);
  assert_int_equal(run_block(&want, in, &k), 0);
  assert_int_equal(cn_graph_run(&have, g, far), 0);
  assert_int_equal(run_block(&single, far, &again), 0);
  double tol = dtype == CN_BF16 ? 3e-2 : dtype == CN_F16 ? 4e-3 : 1e-5;
  close_to("a block", want, have, tol);
  if (dtype == CN_F32 || dtype == CN_F64) close_to("a block by single ops", cn_to_device(single, CN_CPU), have, 0);
  close_to("its mean", k.mean, on_gpu.mean, tol);
  close_to("its variance", k.var, on_gpu.var, tol);
  cn_graph_free(g);
}

static void blocks(void **state)
{
  (void)state;
  need_device();
  static const cn_dtype dtypes[] = {CN_F32, CN_BF16, CN_F16, CN_F64};
  cn_seed(12);
  for (int i = 0; i < 4; i++)
    for (int form = 0; form < 16; form += 1 + (i > 1) * 4) {
      cn_scope *s = cn_scope_begin();
      check_block(i == 1 ? 24 : 8, true, dtypes[i], form);
      check_block(i == 3 ? 3 : 5, form & 1, dtypes[i], form);
      cn_scope_end(s);
    }
}

static void lines(void **state)
{
  (void)state;
  need_device();
  cn_scope *s = cn_scope_begin();
  cn_seed(2);
  cn_tensor *x = cn_randn(CN_SHAPE(2, 300)), *y = there(x), *v[4];
  close_to("cumsum", cn_cumsum(x, 1), cn_cumsum(y, 1), 1e-5);
  close_to("cumsum of columns", cn_cumsum(x, 0), cn_cumsum(y, 0), 1e-5);
  assert_int_equal(cn_sort(&v[0], &v[1], x, .dim = 1), 0);
  assert_int_equal(cn_sort(&v[2], &v[3], y, .dim = 1), 0);
  close_to("sort", v[1], v[3], 0);
  cn_tensor *longer = cn_cast(cn_randn(CN_SHAPE(5000)), CN_BF16), *there_too = there(longer); /* with ties */
  assert_int_equal(cn_sort(&v[0], &v[1], longer, .descending = true), 0);
  assert_int_equal(cn_sort(&v[2], &v[3], there_too, .descending = true), 0);
  close_to("radix sort", v[1], v[3], 0);
  assert_int_equal(cn_topk(&v[0], &v[1], longer, 9), 0);
  assert_int_equal(cn_topk(&v[2], &v[3], there_too, 9), 0);
  close_to("topk", v[1], v[3], 0);
  close_to("nonzero", cn_nonzero(cn_gt(x, cn_num(1))), cn_nonzero(cn_gt(y, cn_num(1))), 0);
  cn_scope_end(s);
}

static void places(void **state)
{
  (void)state;
  need_device();
  cn_scope *s = cn_scope_begin();
  cn_seed(3);
  cn_tensor *x = cn_randn(CN_SHAPE(7, 8)), *y = there(x), *i = cn_randint(0, 7, CN_SHAPE(11));
  cn_tensor *more = cn_randn(CN_SHAPE(11, 8));
  close_to("index_select", cn_index_select(x, 0, i), cn_index_select(y, 0, there(i)), 0);
  close_to("index_add", cn_index_add(x, 0, i, more), cn_index_add(y, 0, there(i), there(more)), 1e-6);
  cn_index_select(y, 0, there(cn_full(CN_SHAPE(1), 7, .dtype = CN_I64)));
  int now = cn_err();
  assert_int_equal(now ? now : cn_device_sync(gpu), CN_ERR_INDEX);
  assert_non_null(strstr(cn_err_message(), "index_select"));
  cn_err_clear();
  cn_seed(4);
  cn_tensor *r = cn_randn(CN_SHAPE(50));
  cn_seed(4);
  close_to("randn", r, cn_randn(CN_SHAPE(50), .device = gpu), 1e-6);
  for (int64_t n = 1; n <= 20000; n = n * 27 + 1) {
    cn_seed(4);
    cn_tensor *order = cn_randperm(n);
    cn_seed(4);
    close_to("randperm", order, cn_randperm(n, .device = gpu), 0);
  }
  close_to("arange", cn_arange(3, 40, .step = 2.5), cn_arange(3, 40, .step = 2.5, .device = gpu), 0);
  cn_scope_end(s);
}

static void images(void **state)
{
  (void)state;
  need_device();
  cn_scope *s = cn_scope_begin();
  cn_seed(5);
  cn_tensor *x = cn_randn(CN_SHAPE(2, 3, 7, 9)), *w = cn_randn(CN_SHAPE(4, 3, 3, 3)), *y = there(x);
  close_to("conv2d", cn_conv2d(x, w, NULL, .padding = CN_INTS(1)),
           cn_conv2d(y, there(w), NULL, .padding = CN_INTS(1)), 1e-5);
  close_to("max_pool2d", cn_max_pool2d(x, CN_SHAPE(2, 2)), cn_max_pool2d(y, CN_SHAPE(2, 2)), 0);
  close_to("batch_norm", cn_batch_norm(x, NULL, NULL, NULL, NULL, .training = true),
           cn_batch_norm(y, NULL, NULL, NULL, NULL, .training = true), 1e-5);
  close_to("interpolate", cn_interpolate(x, .size_ = CN_INTS(14, 18), .mode = "bilinear"),
           cn_interpolate(y, .size_ = CN_INTS(14, 18), .mode = "bilinear"), 1e-5);
  cn_scope_end(s);
}

/* The CTC loss: labels that repeat, one sequence that ends early, one that cannot be. */
static void ctc(void **state)
{
  static const int64_t labels[] = {1, 2, 2, 1, 3, 3, 3, 3}, lengths[] = {9, 3}, counts[] = {4, 4};
  (void)state;
  need_device();
  cn_scope *s = cn_scope_begin();
  cn_seed(16);
  cn_tensor *x = cn_log_softmax(cn_randn(CN_SHAPE(9, 2, 300)), 2), *rest[3], *loss[2], *g[2];
  rest[0] = cn_from_data(labels, CN_SHAPE(8), CN_I64);
  rest[1] = cn_from_data(lengths, CN_SHAPE(2), CN_I64), rest[2] = cn_from_data(counts, CN_SHAPE(2), CN_I64);
  for (int k = 0; k < 2; k++) {
    cn_tensor *in = cn_requires_grad(cn_detach(k ? there(x) : x), true), *more[3];
    for (int i = 0; i < 3; i++) more[i] = k ? there(rest[i]) : rest[i];
    loss[k] = cn_ctc_loss(in, more[0], more[1], more[2], .reduction = "none", .zero_infinity = true);
    assert_int_equal(cn_backward(cn_sum(loss[k])), 0);
    g[k] = cn_grad_of(in);
  }
  close_to("ctc_loss", loss[0], loss[1], 1e-6);
  close_to("its gradient", g[0], g[1], 1e-6);
  cn_scope_end(s);
}

/* Ways that are less likely than any float64, with classes that are masked, of more states than a block has threads and
 * than shared memory has room for. */
static void long_ctc(void **state)
{
  static const int64_t kinds[][3] = {{400, 20, 6}, {330, 300, 5}, {560, 530, 5}}; /* times, labels, classes */
  (void)state;
  need_device();
  for (int n = 0; n < 3; n++) {
    const int64_t times = kinds[n][0], count = kinds[n][1], classes = kinds[n][2];
    cn_scope *s = cn_scope_begin();
    cn_seed(17);
    cn_tensor *x = cn_mul(cn_randn(CN_SHAPE(times, 1, classes), .dtype = CN_F64), cn_num(n ? 3 : 200)), *loss[2], *g[2];
    if (n == 0) x = cn_masked_fill(x, cn_gt(cn_rand(CN_SHAPE(times, 1, classes)), cn_num(0.95)), cn_num(-1e9));
    x = cn_log_softmax(x, 2);
    cn_tensor *labels = cn_remainder(cn_arange(0, (double)count, .dtype = CN_I64), cn_int(classes - 1));
    labels = cn_add(labels, cn_int(1));
    cn_tensor *lengths = cn_full(CN_SHAPE(1), (double)times, .dtype = CN_I64);
    cn_tensor *counts = cn_full(CN_SHAPE(1), (double)count, .dtype = CN_I64);
    for (int k = 0; k < 2; k++) {
      cn_tensor *in = cn_requires_grad(cn_detach(k ? there(x) : x), true);
      loss[k] = k ? cn_ctc_loss(in, there(labels), there(lengths), there(counts), .reduction = "sum")
                  : cn_ctc_loss(in, labels, lengths, counts, .reduction = "sum");
      assert_int_equal(cn_backward(loss[k]), 0);
      g[k] = cn_grad_of(in);
    }
    close_to("long ctc_loss", loss[0], loss[1], 1e-12);
    close_to("its gradient", g[0], g[1], 1e-9); /* differences of numbers as large as the loss, of 1e-14 each */
    cn_scope_end(s);
  }
}

/* One direction of a layer of float64, which is a launch or two a step, with its gradients, four times: launched,
 * recorded, repeated. */
static void layer(int round)
{
  cn_tensor *here[7], *far[7], *y[2], *h[2], *c[2], *saved;
  cn_seed(60 + (uint64_t)round);
  here[0] = cn_randn(CN_SHAPE(4, 3, 5)), here[1] = cn_randn(CN_SHAPE(24, 5)), here[2] = cn_randn(CN_SHAPE(24, 6));
  here[3] = cn_randn(CN_SHAPE(3, 6)), here[4] = cn_randn(CN_SHAPE(24)), here[5] = cn_randn(CN_SHAPE(24));
  here[6] = cn_randn(CN_SHAPE(3, 6));
  for (int i = 0; i < 7; i++) {
    here[i] = cn_detach(cn_cast(here[i], CN_F64));
    far[i] = cn_requires_grad(there(here[i]), true), cn_requires_grad(here[i], true);
  }
  for (int k = 0; k < 2; k++) {
    cn_tensor **in = k ? far : here;
    cn_recurrent_sequence(&y[k], &h[k], &c[k], &saved, in[0], in[1], in[2], in[3], in[4], in[5], in[6], "lstm",
                          .keep = true);
    assert_int_equal(cn_backward(cn_sum(cn_add(cn_sum(cn_square(y[k])), cn_sum(cn_mul(h[k], c[k]))))), 0);
  }
  close_to("lstm", y[0], y[1], 1e-12);
  close_to("its states", h[0], h[1], 1e-12);
  close_to("its cells", c[0], c[1], 1e-12);
  for (int i = 0; i < 7; i++) close_to("its gradient", cn_grad_of(here[i]), cn_grad_of(far[i]), 1e-12);
}

/* ... and packed rows, of which some begin late. */
static void sequences(void **state)
{
  (void)state;
  need_device();
  cn_scope *s = cn_scope_begin();
  for (int i = 0; i < 4; i++) layer(i);
  assert_int_equal(cn_device_memory_trim(gpu), 0); /* what was recorded goes */
  for (int i = 0; i < 3; i++) layer(i);
  cn_tensor *y[2], *h, *c;
  static const int64_t sizes[] = {3, 2, 1};
  cn_tensor *x = cn_cast(cn_randn(CN_SHAPE(6, 5)), CN_BF16), *w = cn_cast(cn_randn(CN_SHAPE(18, 5)), CN_BF16);
  cn_tensor *u = cn_cast(cn_randn(CN_SHAPE(18, 6)), CN_BF16), *first = cn_cast(cn_randn(CN_SHAPE(3, 6)), CN_BF16);
  cn_recurrent_sequence(&y[0], &h, NULL, NULL, x, w, u, first, NULL, NULL, NULL, "gru", .reverse = true,
                        .batch_sizes = {sizes, 3});
  cn_recurrent_sequence(&y[1], &c, NULL, NULL, there(x), there(w), there(u), there(first), NULL, NULL, NULL, "gru",
                        .reverse = true, .batch_sizes = {sizes, 3});
  close_to("packed gru", y[0], y[1], 2e-2);
  close_to("its states", h, c, 2e-2);
  cn_scope_end(s);
}

/* A norm between the addition of 16 bits to a residual stream and a cast, and its gradient between a cast and the
 * addition of the stream's gradient: in: stream, what is added, gradient of the result, gradient of the stream. */
typedef struct normed {
  bool layer;
  cn_tensor *w, *b;
} normed;

static int residual_norm(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  const normed *n = payload;
  const int64_t shape[] = {cn_size(in[0], -1)}, mask[] = {1, 1, 1};
  cn_tensor *sum = cn_add(in[0], in[1]), *y = NULL, *mean = NULL, *rstd = NULL, *gx = NULL;
  cn_tensor *g = cn_cast(in[2], cn_dtype_of(in[0]));
  if (n->layer) {
    cn_native_layer_norm(&y, &mean, &rstd, sum, shape, 1, n->w, n->b, 1e-5);
    cn_native_layer_norm_backward(&gx, &out[3], &out[4], g, sum, shape, 1, mean, rstd, n->w, mask, 3);
  } else {
    cn_native_rms_norm(&y, &rstd, sum, shape, 1, n->w, 1e-5);
    cn_native_rms_norm_backward(&gx, &out[3], g, sum, shape, 1, rstd, n->w, mask, 2);
    out[4] = cn_mul(sum, cn_num(2));
  }
  out[0] = cn_cast(y, cn_dtype_of(in[1]));
  out[1] = cn_add(in[3], gx);
  out[2] = cn_cast(out[1], cn_dtype_of(in[1]));
  out[5] = cn_mul(sum, out[1]);
  return cn_err();
}

/* Graphs have one node each for all of that, and results to the bit. */
static void norms(void **state)
{
  (void)state;
  need_device();
  static const int64_t widths[] = {33, 64, 768, 1500, 1504, 9000}; /* a warp's, a block's, a cluster's */
  for (int i = 0; i < 12; i++) {
    cn_scope *s = cn_scope_begin();
    const int64_t rows = 5, n = widths[i % 6];
    cn_dtype low = i % 2 ? CN_BF16 : CN_F16;
    cn_seed((uint64_t)i);
    cn_tensor *in[4], *want[6], *have[6];
    for (int k = 0; k < 4; k++)
      in[k] = there(cn_cast(cn_randn(CN_SHAPE(rows, n)), k == 1 || k == 2 ? low : CN_F32));
    normed by = {i < 6, there(cn_randn(CN_SHAPE(n))), there(cn_randn(CN_SHAPE(n)))};
    cn_graph *g = cn_trace(residual_norm, 6, in, 4, &by);
    assert_non_null(g);
    assert_true(cn_graph_optimise(g) >= 0 && cn_graph_fuse(g, true) >= 0);
    char *text = cn_graph_to_string(g);
    assert_non_null(strstr(text, " add_norm("));
    assert_non_null(strstr(text, " add_norm_backward("));
    assert_null(strstr(text, " native_"));
    assert_null(strstr(text, " cast("));
    cn_string_free(text);
    assert_int_equal(residual_norm(want, in, &by), 0);
    assert_int_equal(cn_graph_run(have, g, in), 0);
    for (int k = 0; k < 6; k++) close_to("a fused norm", cn_to_device(want[k], CN_CPU), have[k], 0);
    cn_graph_free(g);
    cn_scope_end(s);
  }
}

/* A hidden layer with gelu and its gradient: products take the gelus along. in: x, two weights, bias, gradient. */
static int hidden(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cn_tensor *pre = cn_linear(in[0], in[1], in[2]), *y = cn_gelu(pre, .approximate = "tanh"), *slope = NULL;
  cn_tensor *g = cn_reshape(in[4], CN_SHAPE(-1, cn_size(in[4], -1)));
  cn_tensor *both[] = {cn_reshape(cn_mm(g, in[3]), CN_SHAPE(2, 3, 40)), pre};
  out[0] = cn_linear(y, in[3], NULL);
  if (payload) cn_pointwise(&slope, 1, both, 2, "2||gelu_tanh_slope 1;mul 0 2|3", NULL, 0);
  out[1] = payload ? slope : y;
  return cn_err();
}

static void gelus(void **state)
{
  (void)state;
  need_device();
  for (int i = 0; i < 4; i++) {
    cn_scope *s = cn_scope_begin();
    const bool backward = i % 2, exact = i / 2;
    cn_seed(9);
    cn_tensor *in[5] = {cn_randn(CN_SHAPE(2, 3, 24)), cn_randn(CN_SHAPE(40, 24)), cn_randn(CN_SHAPE(40)),
                        cn_randn(CN_SHAPE(40, 40)), cn_randn(CN_SHAPE(2, 3, 40))};
    cn_tensor *want[2], *have[2];
    for (int k = 0; k < 5; k++) in[k] = there(cn_cast(in[k], CN_BF16));
    cn_graph *g = cn_trace(hidden, 2, in, 5, backward ? &i : NULL);
    assert_non_null(g);
    assert_true(cn_graph_optimise(g) >= 0 && cn_graph_fuse(g, exact) >= 0);
    char *text = cn_graph_to_string(g);
    assert_int_equal(strstr(text, " linear_gelu(") != NULL, !exact);
    assert_int_equal(strstr(text, " mm_gelu_backward(") != NULL, backward && !exact);
    assert_int_equal(strstr(text, " gelu(") == NULL, !exact);
    cn_string_free(text);
    assert_int_equal(hidden(want, in, backward ? &i : NULL), 0);
    assert_int_equal(cn_graph_run(have, g, in), 0);
    for (int k = 0; k < 2; k++) close_to("gelu with its product", cn_to_device(want[k], CN_CPU), have[k], 0);
    cn_graph_free(g);
    cn_scope_end(s);
  }
}

/* Weights in float32, of sizes that differ, which are cast and read twice: recorded work casts them together. They are
 * written behind that. payload: four of them, (9, 9) or (40, 9, 9). */
static int uses_casts(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  cn_tensor **w = payload, *y = cn_cast(in[0], CN_BF16);
  for (int i = 0; i < 4; i++) {
    cn_tensor *low = cn_cast(w[i], CN_BF16);
    y = cn_mul(cn_add(y, low), low);
  }
  for (int i = 0; i < 4; i++) cn_add_(w[i], cn_num(0.5));
  out[0] = cn_cast(cn_sum(y), CN_F32);
  return cn_err();
}

static void casts(void **state)
{
  (void)state;
  need_device();
  cn_scope *s = cn_scope_begin();
  cn_seed(3);
  cn_tensor *x = there(cn_randn(CN_SHAPE(9, 9))), *eager[4], *traced[4], *want, *have;
  for (int i = 0; i < 4; i++) {
    cn_tensor *w = i == 2 ? cn_randn(CN_SHAPE(40, 9, 9)) : cn_randn(CN_SHAPE(9, 9));
    eager[i] = there(w), traced[i] = there(w);
  }
  cn_graph *g = cn_trace(uses_casts, 1, &x, 1, traced);
  assert_non_null(g);
  assert_true(cn_graph_optimise(g) >= 0);
  size_t before = cni_recorded_runs();
  for (int i = 0; i < 5; i++) {
    assert_int_equal(uses_casts(&want, &x, eager), 0);
    assert_int_equal(cn_graph_run(&have, g, &x), 0);
    close_to("casts of weights", cn_to_device(want, CN_CPU), have, 0);
  }
  assert_int_equal(cni_recorded_runs() - before, 4);
  cn_graph_free(g);
  cn_scope_end(s);
}

/* A step with random numbers and a rate in host memory, recorded at its second run, at five rates. */
typedef struct stepping {
  cn_tensor *w, *rate;
} stepping;

static int step(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  stepping *s = payload;
  cn_tensor *y = cn_dropout(cn_mul(cn_matmul(in[0], s->w), s->rate), .p = 0.5);
  cn_add_(s->w, cn_mean(y));
  out[0] = cn_softmax(y, 1);
  return cn_err();
}

static void recordings(void **state)
{
  (void)state;
  need_device();
  cn_scope *s = cn_scope_begin();
  cn_seed(5);
  cn_tensor *w = cn_randn(CN_SHAPE(6, 9)), *x = cn_randn(CN_SHAPE(3, 6)), *far = there(x), *want, *have;
  stepping eager = {there(w), cn_full(CN_SCALAR_SHAPE, 1, .dtype = CN_F64)};
  stepping traced = {there(w), cn_full(CN_SCALAR_SHAPE, 1, .dtype = CN_F64)};
  cn_graph *g = cn_trace(step, 1, &far, 1, &traced);
  assert_non_null(g);
  size_t before = cni_recorded_runs();
  for (int i = 0; i < 5; i++) {
    double rate = 1 + 0.25 * i;
    cn_copy_from_data(eager.rate, &rate, sizeof rate);
    cn_copy_from_data(traced.rate, &rate, sizeof rate);
    far = there(cn_add(x, cn_num(i)));
    cn_seed(100 + (uint64_t)i);
    assert_int_equal(step(&want, &far, &eager), 0);
    cn_seed(100 + (uint64_t)i);
    assert_int_equal(cn_graph_run(&have, g, &far), 0);
    close_to("a recorded result", cn_to_device(want, CN_CPU), have, 0);
    close_to("a recorded state", cn_to_device(eager.w, CN_CPU), traced.w, 0);
  }
  assert_int_equal(cni_recorded_runs() - before, 4);
  cn_graph_free(g);
  cn_scope_end(s);
}

/* Updates of several parameters, which recorded work launches together. */
typedef struct trained {
  cn_module *net;
  cn_optim *optim;
  bool low; /* under autocast */
} trained;

static int train(cn_compile_call *k)
{
  trained *t = k->payload;
  int saved = t->low ? cn_autocast_begin(CN_BF16) : 0;
  k->outputs[0] = cn_mean(cn_square(cn_forward(t->net, k->inputs[0])));
  if (t->low) cn_autocast_end(saved);
  k->noutputs = 1;
  cn_backward(k->outputs[0]);
  cn_optim_step(t->optim);
  cn_optim_zero_grad(t->optim);
  k->outputs[0] = cn_detach(k->outputs[0]);
  return cn_err();
}

static trained trained_new(bool images_too, bool low)
{
  cn_seed(11);
  trained t = {NULL, NULL, low};
  if (images_too)
    t.net = cn_nn_sequential(cn_nn_conv2d(3, 8, 3), cn_nn_batch_norm2d(8), cn_nn_relu(), cn_nn_conv2d(8, 6, 1),
                             cn_nn_batch_norm2d(6), cn_nn_relu(), cn_nn_max_pool2d(3, .stride = CN_INTS(2)));
  else t.net = cn_nn_sequential(cn_nn_linear(6, 20), cn_nn_relu(), cn_nn_linear(20, 3));
  cn_module_to(t.net, gpu, CN_DTYPE_NONE);
  t.optim = cn_optim_adam(t.net, .lr = 0.1);
  return t;
}

/* Five steps compiled and as they are: parameters and running statistics are the same to the bit. */
static void compare_training(bool images_too, bool low)
{
  cn_scope *s = cn_scope_begin();
  trained a = trained_new(images_too, low), b = trained_new(images_too, low);
  cn_compiled *c = cn_compile(train);
  cn_tensor *x = images_too ? cn_channels_last(there(cn_randn(CN_SHAPE(2, 3, 9, 9)))) : there(cn_randn(CN_SHAPE(4, 6)));
  cn_tensor *loss;
  size_t before = cni_recorded_runs();
  for (int i = 0; i < 5; i++) {
    cn_compile_call k = {.inputs = &x, .ninputs = 1, .outputs = &loss, .noutputs = 1, .payload = &a};
    assert_int_equal(train(&k), 0);
    k.payload = &b;
    assert_int_equal(cn_compiled_call(c, &k), 0);
  }
  assert_int_equal(cni_recorded_runs() - before, 4);
  for (size_t i = 0; i < cn_optim_nparams(a.optim, 0); i++)
    close_to("a recorded update", cn_to_device(cn_optim_param(a.optim, 0, i), CN_CPU), cn_optim_param(b.optim, 0, i),
             0);
  x = cn_detach(x);
  cn_module_train(a.net, false), cn_module_train(b.net, false);
  close_to("what running statistics make", cn_to_device(cn_detach(cn_forward(a.net, x)), CN_CPU),
           cn_detach(cn_forward(b.net, x)), 0);
  cn_compiled_free(c);
  for (int i = 0; i < 2; i++) {
    cn_optim_free(i ? a.optim : b.optim);
    cn_module_release(i ? a.net : b.net);
  }
  cn_scope_end(s);
}

static void updates(void **state)
{
  (void)state;
  need_device();
  for (int low = 0; low < 2; low++) {
    compare_training(false, low);
    compare_training(true, low);
  }
}

/* The same numbers as the CPU's, in packs and one by one. */
static void draws(void **state)
{
  (void)state;
  need_device();
  static const cn_dtype types[] = {CN_F32, CN_BF16, CN_F16, CN_F64};
  for (int i = 0; i < 8; i++) {
    cn_scope *s = cn_scope_begin();
    int64_t n = i < 4 ? 1001 : 1024;
    cn_tensor *got[2][5], *x = cn_cast(cn_randn(CN_SHAPE(n)), types[i % 4]);
    for (int where = 0; where < 2; where++) {
      cn_device device = where ? gpu : CN_CPU;
      cn_seed(31);
      got[where][0] = cn_randn(CN_SHAPE(n), .dtype = types[i % 4], .device = device);
      got[where][1] = cn_rand(CN_SHAPE(n), .dtype = types[i % 4], .device = device);
      cn_native_dropout(&got[where][2], &got[where][3], cn_to_device(x, device), 0.3);
      cn_native_dropout(&got[where][4], &got[where][3], cn_slice(cn_to_device(x, device), 0, 1, CN_NONE), 0.1);
    }
    double last = types[i % 4] == CN_F64 ? 1e-14 : types[i % 4] == CN_F32 ? 1e-6 : 1e-2; /* the CPU may fuse products */
    for (int k = 0; k < 5; k++) close_to("a draw", got[0][k], got[1][k], k ? 0 : last);
    cn_scope_end(s);
  }
}

int main(int argc, char **argv)
{
  if (argc > 0) emulate(argv);
  const struct CMUnitTest tests[] = {cmocka_unit_test(rows), cmocka_unit_test(strides), cmocka_unit_test(row_gradients),
                                     cmocka_unit_test(channels), cmocka_unit_test(planes), cmocka_unit_test(blocks),
                                     cmocka_unit_test(lines), cmocka_unit_test(sequences), cmocka_unit_test(ctc),
                                     cmocka_unit_test(places), cmocka_unit_test(images), cmocka_unit_test(recordings),
                                     cmocka_unit_test(updates), cmocka_unit_test(norms), cmocka_unit_test(draws),
                                     cmocka_unit_test(gelus), cmocka_unit_test(casts),
                                     cmocka_unit_test(long_ctc)};
  return cmocka_run_group_tests(tests, find_emulated, NULL);
}
