/* test_calls_alike.c: calls that look nearly alike, one after the other: nothing that is kept or taken for granted for
 * one of them may reach the next: layouts, types, options, numbers, gradients, modes, threads, sizes at the edges.
 *
 * Values are small whole numbers, so that every type computes them exactly and results are compared for equality. */
#include <cairn/cairn.h>

#include "test.h"

enum { N = 4, MANY = N * N };

static void read_all(double *to, cn_tensor *t)
{
  cn_tensor *d = cn_contiguous(cn_cast(t, CN_F64));
  assert_int_equal(cn_to_data(to, (size_t)cn_numel(t) * sizeof *to, d), CN_OK);
}

/* ---- layouts, types, options ---- */

static cn_tensor *matrix(double from, cn_dtype dtype) /* (N, N) */
{
  cn_tensor *t = cn_reshape(cn_arange(from, from + MANY), CN_SHAPE(N, N));
  return cn_cast(t, dtype);
}

enum { LAYOUTS = 7 };
static cn_tensor *laid_out(int layout, double from, cn_dtype dtype) /* (N, N) */
{
  cn_tensor *t = matrix(from, dtype);
  switch (layout) {
  case 1: return cn_transpose(t, 0, 1);
  case 2: return cn_expand(cn_slice(t, 0, 1, 2), CN_SHAPE(N, N)); /* a row, N times */
  case 3: return cn_expand(cn_select(cn_select(t, 0, 1), 0, 1), CN_SHAPE(N, N)); /* one value */
  case 4: return cn_slice(cn_cat(CN_TENSORS(t, t), .dim = 1), 1, 0, 2 * N, .step = 2); /* every second */
  case 5: return cn_slice(cn_transpose(cn_cat(CN_TENSORS(t, t)), 0, 1), 1, 0, N); /* columns, with gaps */
  case 6: return cn_expand(cn_slice(t, 1, 1, 2), CN_SHAPE(N, N)); /* a column, N times */
  default: return t;
  }
}

static void check_pair(cn_tensor *a, cn_tensor *b)
{
  double x[MANY], y[MANY], z[MANY];
  cn_scope *s = cn_scope_begin();
  read_all(x, a);
  read_all(y, b);
  for (int alpha = 1; alpha < 3; alpha++) {
    read_all(z, cn_add(a, b, .alpha = alpha));
    for (int i = 0; i < MANY; i++) assert_float_equal(z[i], x[i] + alpha * y[i], 0);
    read_all(z, cn_sub(b, a, .alpha = alpha));
    for (int i = 0; i < MANY; i++) assert_float_equal(z[i], y[i] - alpha * x[i], 0);
  }
  read_all(z, cn_mul(cn_num(3), b));
  for (int i = 0; i < MANY; i++) assert_float_equal(z[i], 3 * y[i], 0);
  cn_tensor *in_place = cn_clone(a);
  if (cn_dtype_of(a) == cn_dtype_of(b)) {
    cn_add_(in_place, b);
    read_all(z, in_place);
    for (int i = 0; i < MANY; i++) assert_float_equal(z[i], x[i] + y[i], 0);
    read_all(z, cn_matmul(a, b));
    for (int i = 0; i < MANY; i++) {
      double sum = 0;
      for (int k = 0; k < N; k++) sum += x[i / N * N + k] * y[k * N + i % N];
      assert_float_equal(z[i], sum, 0);
    }
  }
  assert_int_equal(cn_err(), 0);
  cn_scope_end(s);
}

static void layouts_and_types(void **state)
{
  (void)state;
  static const cn_dtype types[] = {CN_F32, CN_F64, CN_I64, CN_I32};
  cn_scope *s = cn_scope_begin();
  for (int round = 0; round < 2; round++)
    for (int pair = 0; pair < LAYOUTS * LAYOUTS; pair++)
      for (int t = 0; t < 4; t++) {
        cn_tensor *a = laid_out(pair % LAYOUTS, 1, types[t]);
        check_pair(a, laid_out(pair / LAYOUTS, 2, types[t]));
        check_pair(a, laid_out(pair / LAYOUTS, 3, types[(t + 1) % 4]));
      }
  cn_scope_end(s);
}

/* ---- modes ---- */

enum { PLAIN, RECORDED, NO_GRAD, INFERENCE, AUTOCAST, CAPTURED, SITUATIONS };

static cn_tensor *leaf, *fixed; /* (N, N) */

static int compute(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  out[0] = cn_add(in[0], in[1]);
  out[1] = cn_matmul(in[0], in[1]);
  return cn_err();
}

static void calls_in(int situation)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *in[2] = {situation == PLAIN || situation == CAPTURED ? cn_detach(leaf) : leaf, fixed}, *out[2] = {NULL};
  cn_dtype product = situation == AUTOCAST ? CN_BF16 : CN_F32;
  int saved = situation == NO_GRAD     ? cn_no_grad_begin()
              : situation == INFERENCE ? cn_inference_begin()
              : situation == AUTOCAST  ? cn_autocast_begin(CN_BF16)
                                       : 0;
  if (situation == CAPTURED) {
    cn_graph *g = cn_trace(compute, 2, in, 2, NULL);
    assert_non_null(g);
    assert_int_equal(cn_graph_run(out, g, in), 0);
    cn_graph_free(g);
  } else assert_int_equal(compute(out, in, NULL), 0);
  if (situation == NO_GRAD) cn_no_grad_end(saved);
  if (situation == INFERENCE) cn_inference_end(saved);
  if (situation == AUTOCAST) cn_autocast_end(saved);
  double x[MANY], y[MANY], z[MANY];
  read_all(x, leaf);
  read_all(y, fixed);
  read_all(z, out[0]);
  for (int i = 0; i < MANY; i++) assert_float_equal(z[i], x[i] + y[i], 0);
  for (int k = 0; k < 2; k++) assert_int_equal(cn_needs_grad(out[k]), situation == RECORDED || situation == AUTOCAST);
  assert_int_equal(cn_dtype_of(out[0]), CN_F32);
  assert_int_equal(cn_dtype_of(out[1]), product);
  assert_int_equal(cn_err(), 0);
  cn_scope_end(s);
}

static void modes_take_turns(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_set(&leaf, matrix(1, CN_F32));
  cn_set(&fixed, matrix(2, CN_F32));
  for (int first = 0; first < SITUATIONS; first++)
    for (int second = 0; second < SITUATIONS; second++) {
      cn_requires_grad(leaf, true);
      calls_in(first);
      calls_in(second);
      cn_requires_grad(leaf, false);
      calls_in(PLAIN);
    }
  cn_scope_end(s);
  cn_release(leaf);
  cn_release(fixed);
}

/* ---- sizes at which a call takes another way ---- */

static void check_size(int64_t n)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_arange(0, (double)n, .dtype = CN_F64), *two = cn_full(CN_SHAPE(1), 2.0), *y = cn_add(x, two);
  cn_tensor *sums[] = {y, cn_add(x, cn_num(2)), cn_add(cn_int(2), x), cn_add(x, cn_expand(two, CN_SHAPE(n))),
                       cn_add(x, cn_full(CN_SHAPE(n), 2.0))};
  for (size_t k = 0; k < sizeof sums / sizeof *sums; k++) {
    assert_int_equal(cn_numel(sums[k]), n);
    const double *v = cn_data(sums[k]);
    for (int64_t i = 0; i < n; i++) assert_float_equal(v[i], (double)i + 2, 0);
  }
  assert_int_equal(cn_err(), 0);
  cn_scope_end(s);
}

static void sizes_at_the_edges(void **state)
{
  (void)state;
  static const int64_t sizes[] = {0, 1, 2, 511, 512, 513, 1024, 1025, 32768, 32769};
  for (int threads = 1; threads < 3; threads++) {
    cn_set_num_threads(threads);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) check_size(sizes[i]);
  }
  cn_set_num_threads(0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(layouts_and_types),
    cmocka_unit_test(modes_take_turns),
    cmocka_unit_test(sizes_at_the_edges),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
