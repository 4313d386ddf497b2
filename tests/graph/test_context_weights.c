/* test_context_weights.c: what kernels make of weights (packed, transformed) is made once for an executable, shared by
 * its contexts and plans, never out of date, and changes no bit of a result. */
#include <cairn/autograd.h>
#include <cairn/cairn.h>
#include <pthread.h>

#include "ops/prepared.h"
#include "tensors.h"

static void ok(int status)
{
  if (status || cn_err()) fail_msg("%s", cn_err_message());
}

typedef struct layer {
  cn_tensor *weight, *bias;
  int64_t stride; /* of a convolution; 0: linear */
} layer;

static int forward(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  const layer *l = payload;
  if (l->stride) out[0] = cn_conv2d(in[0], l->weight, l->bias, .stride = CN_INTS(l->stride), .padding = CN_INTS(1));
  else out[0] = cn_linear(in[0], l->weight, l->bias);
  return cn_err();
}

static int products(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  const layer *l = payload; /* weight: (n, k) */
  cn_tensor *w = cn_transpose(l->weight, 0, 1);
  out[0] = cn_mm(in[0], w);
  out[1] = cn_addmm(l->bias, in[0], w, .beta = 0.5, .alpha = 2);
  return cn_err();
}

static cn_graph *traced(cn_graph_fn fn, size_t nout, cn_tensor *x, const layer *l)
{
  cn_graph *g = cn_trace(fn, nout, &x, 1, (void *)(uintptr_t)l);
  if (!g) fail_msg("%s", cn_err_message());
  return g;
}

static void runs_equal(cn_graph *g, cn_graph_fn fn, size_t nout, cn_tensor *x, const layer *l, const char *at)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *have[2] = {NULL}, *want[2] = {NULL};
  ok(fn(want, &x, (void *)(uintptr_t)l));
  ok(cn_graph_run(have, g, &x));
  for (size_t i = 0; i < nout; i++)
    if (!same_tensors(have[i], want[i])) fail_msg("%s: result %d differs", at, (int)i);
  cn_scope_end(s);
}

static layer linear_of(int64_t n, int64_t k, cn_dtype dtype)
{
  return (layer){cn_cast(cn_randn(CN_SHAPE(n, k)), dtype), cn_cast(cn_randn(CN_SHAPE(n)), dtype), 0};
}

/* ---- the same bits, for all ways that a product or a convolution is done ---- */

static void test_linear(void **state)
{
  (void)state;
  const int64_t rows[] = {1, 2, 7, 16, 28, 29, 40, 64, 130, 300};
  const int64_t sizes[][2] = {{8, 12}, {50, 300}, {333, 129}, {512, 700}};
  cn_seed(1);
  for (int f64 = 0; f64 < 2; f64++)
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
      cn_scope *s = cn_scope_begin();
      layer l = linear_of(sizes[k][0], sizes[k][1], f64 ? CN_F64 : CN_F32);
      for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cn_tensor *x = cn_cast(cn_randn(CN_SHAPE(rows[i], sizes[k][1])), f64 ? CN_F64 : CN_F32);
        cn_graph *g = traced(forward, 1, x, &l), *both = traced(products, 2, x, &l);
        for (int run = 0; run < 4; run++) {
          runs_equal(g, forward, 1, x, &l, "linear");
          runs_equal(both, products, 2, x, &l, "products");
        }
        cn_graph_free(g);
        cn_graph_free(both);
      }
      cn_scope_end(s);
    }
}

static void test_conv(void **state)
{
  (void)state;
  const int64_t cases[][5] = {/* n, c, k, size, stride */ {1, 16, 32, 14, 1}, {2, 32, 16, 28, 1}, {1, 16, 32, 28, 2},
                              {4, 64, 64, 9, 1}, {1, 3, 5, 10, 1}, {2, 17, 9, 12, 2}};
  cn_seed(1);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int f64 = 0; f64 < 2; f64++) {
      const int64_t *c = cases[i];
      cn_scope *s = cn_scope_begin();
      cn_dtype dtype = f64 ? CN_F64 : CN_F32;
      layer l = {cn_cast(cn_randn(CN_SHAPE(c[2], c[1], 3, 3)), dtype), cn_cast(cn_randn(CN_SHAPE(c[2])), dtype), c[4]};
      cn_tensor *x = cn_cast(cn_randn(CN_SHAPE(c[0], c[1], c[3], c[3])), dtype);
      cn_graph *g = traced(forward, 1, x, &l);
      size_t before = cni_prepared_made();
      for (int run = 0; run < 4; run++) runs_equal(g, forward, 1, x, &l, "conv2d");
      assert_in_range(cni_prepared_made() - before, 0, 1);
      cn_graph_free(g);
      cn_scope_end(s);
    }
}

/* Infinities take another way through a transformed convolution. */
static void test_overflow(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  layer l = {cn_randn(CN_SHAPE(32, 16, 3, 3)), NULL, 1};
  cn_tensor *x = cn_full(CN_SHAPE(1, 16, 14, 14), 1e38);
  cn_graph *g = traced(forward, 1, x, &l);
  for (int run = 0; run < 3; run++) runs_equal(g, forward, 1, x, &l, "conv2d");
  cn_graph_free(g);
  cn_scope_end(s);
}

/* ---- made once, and anew ---- */

enum { THREADS = 4, RUNS = 20 };

typedef struct worker {
  cn_graph *g;
  cn_tensor *x, *want;
  int wrong;
} worker;

static void *run_many(void *payload)
{
  worker *w = payload;
  for (int i = 0; i < RUNS; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *have = NULL;
    if (cn_graph_run(&have, w->g, &w->x) || !same_tensors(have, w->want)) w->wrong++;
    cn_scope_end(s);
  }
  return NULL;
}

static void run_threads(cn_graph *g, cn_tensor *x, const layer *l)
{
  worker w[THREADS];
  pthread_t threads[THREADS];
  cn_tensor *want = NULL;
  ok(forward(&want, &x, (void *)(uintptr_t)l));
  for (int i = 0; i < THREADS; i++) {
    w[i] = (worker){g, x, want, 0};
    assert_int_equal(pthread_create(&threads[i], NULL, run_many, &w[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(w[i].wrong, 0);
  }
}

static void test_one_for_all(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_seed(3);
  layer l = linear_of(300, 200, CN_F32);
  cn_tensor *x = cn_randn(CN_SHAPE(16, 200));
  const cn_free_dim batch = {.input = 0, .dim = 0, .symbol = "B"};
  cn_graph *g = cn_trace_dynamic(forward, 1, &x, 1, &batch, 1, &l);
  size_t before = cni_prepared_made();
  run_threads(g, x, &l);
  assert_int_equal(cni_prepared_made() - before, 1);
  cn_tensor *other = cn_randn(CN_SHAPE(14, 200)); /* another plan, which reads it alike */
  for (int i = 0; i < 3; i++) runs_equal(g, forward, 1, other, &l, "another size");
  assert_int_equal(cni_prepared_made() - before, 1);
  cn_add_(l.weight, cn_num(1));
  run_threads(g, x, &l);
  assert_int_equal(cni_prepared_made() - before, 2);
  cn_graph_free(g);
  cn_scope_end(s);
}

static void test_writes_are_seen(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_seed(4);
  layer l = linear_of(300, 200, CN_F32);
  cn_tensor *x = cn_randn(CN_SHAPE(16, 200));
  cn_graph *g = traced(forward, 1, x, &l);
  float row[200] = {1, 2, 3};
  size_t before = cni_prepared_made();
  for (int way = 0; way < 5; way++) {
    for (int run = 0; run < 3; run++) runs_equal(g, forward, 1, x, &l, "as it was");
    if (way == 0) cn_mul_(l.weight, cn_num(2));
    if (way == 1) cn_copy_(cn_select(l.weight, 0, 3), cn_zeros(CN_SHAPE(200))); /* through a view */
    if (way == 2) ok(cn_copy_from_data(cn_select(l.weight, 0, 5), row, sizeof row));
    if (way == 3) ok(cn_set_data(l.weight, cn_randn(CN_SHAPE(300, 200)))); /* other memory */
    runs_equal(g, forward, 1, x, &l, "written");
  }
  assert_int_equal(cni_prepared_made() - before, 5);
  float *raw = cn_data(l.weight); /* from now on anybody may write, at any time */
  for (int run = 0; run < 3; run++) {
    raw[run] += 1;
    runs_equal(g, forward, 1, x, &l, "by its address");
  }
  assert_int_equal(cni_prepared_made() - before, 5);
  cn_graph_free(g);
  cn_scope_end(s);
}

/* Weights that change between all runs, as in training, are packed by the kernel itself. */
static void test_training(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  layer l = linear_of(300, 200, CN_F32);
  cn_tensor *x = cn_randn(CN_SHAPE(16, 200));
  cn_graph *g = traced(forward, 1, x, &l);
  size_t before = cni_prepared_made();
  for (int run = 0; run < 5; run++) {
    runs_equal(g, forward, 1, x, &l, "training");
    cn_mul_(l.weight, cn_num(0.9));
  }
  assert_int_equal(cni_prepared_made(), before);
  cn_graph_free(g);
  cn_scope_end(s);
}

static size_t in_use(void)
{
  cn_memory_stats m;
  cn_memory_trim();
  cn_memory_get_stats(&m);
  return m.in_use - m.cached;
}

static void test_memory(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  layer l = linear_of(300, 200, CN_F32);
  cn_tensor *x = cn_randn(CN_SHAPE(16, 200));
  size_t before = in_use();
  cn_graph *g = traced(forward, 1, x, &l);
  runs_equal(g, forward, 1, x, &l, "first");
  size_t first = in_use();
  for (int run = 0; run < 3; run++) runs_equal(g, forward, 1, x, &l, "more");
  size_t bytes = cn_tensor_nbytes(l.weight);
  assert_in_range(in_use() - first, bytes, bytes + bytes / 4); /* one copy */
  cn_add_(l.weight, cn_num(1));
  runs_equal(g, forward, 1, x, &l, "written");
  assert_in_range(in_use() - first, 0, bytes / 4); /* what is out of date is not kept */
  cn_graph_free(g);
  assert_in_range(in_use() - before, 0, 65536);
  cn_scope_end(s);
}

/* ---- branches ---- */

static int doubled(cn_tensor **out, size_t *n, cn_tensor *const *in, size_t nin, void *payload)
{
  cn_tensor *y;
  (void)nin;
  if (forward(&y, in, payload)) return cn_err();
  out[0] = cn_mul(y, cn_num(2));
  *n = 1;
  return cn_err();
}
static int plain(cn_tensor **out, size_t *n, cn_tensor *const *in, size_t nin, void *payload)
{
  (void)nin;
  *n = 1;
  return forward(out, in, payload);
}

static int by_sign(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  size_t n = 1;
  cn_tensor *positive = cn_gt(cn_sum(in[0]), cn_num(0));
  return cn_cond(out, &n, positive, in, 1, doubled, plain, payload);
}

/* What lies in branches is kept as well, for each of them by itself, and writes are seen. */
static void test_branches(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_seed(5);
  layer l = {cn_randn(CN_SHAPE(24, 6, 3, 3)), cn_randn(CN_SHAPE(24)), 1};
  cn_tensor *x[] = {cn_rand(CN_SHAPE(1, 6, 9, 9)), cn_neg(cn_rand(CN_SHAPE(1, 6, 9, 9)))};
  cn_graph *g = traced(by_sign, 1, x[0], &l);
  size_t before = cni_prepared_made();
  for (size_t write = 0; write < 3; write++) {
    for (int run = 0; run < 6; run++) runs_equal(g, by_sign, 1, x[run / 3], &l, "a branch");
    assert_int_equal(cni_prepared_made() - before, 2 * (write + 1));
    cn_add_(l.weight, cn_num(1));
    for (int run = 0; run < 2; run++) runs_equal(g, by_sign, 1, x[run], &l, "a branch, written");
  }
  cn_graph_free(g);
  cn_scope_end(s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(test_linear, clear_errors),       cmocka_unit_test_setup(test_conv, clear_errors),
    cmocka_unit_test_setup(test_overflow, clear_errors),     cmocka_unit_test_setup(test_one_for_all, clear_errors),
    cmocka_unit_test_setup(test_writes_are_seen, clear_errors), cmocka_unit_test_setup(test_training, clear_errors),
    cmocka_unit_test_setup(test_memory, clear_errors),       cmocka_unit_test_setup(test_branches, clear_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
