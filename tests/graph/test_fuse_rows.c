/* test_fuse_rows.c: reductions along rows in one group with the formulas around them give what single ops do, to the
 * bit: norms and softmaxes made of primitives, forward and backward, in all shapes that rows have; and what must stay
 * apart. */
#include <cairn/cairn.h>
#include <cairn/ext/graph.h>
#include <cairn/ext/parts.h>
#include <math.h>
#include <string.h>

#include "tensors.h"

enum { OUTPUTS = 4 };

typedef int (*body_fn)(cn_tensor **out, cn_tensor *const *in, void *payload);

static int setup(void **state)
{
  (void)state;
  cn_err_clear();
  cn_seed(12);
  return 0;
}

static void must(int status)
{
  if (status < 0) print_error("%s\n", cn_err_message());
  assert_true(status >= 0);
}

/* A copy of a graph by way of its text. */
static cn_graph *reread(const cn_graph *g)
{
  char *text = cn_graph_to_string(g);
  cn_graph *again = cn_graph_parse(text);
  if (!again) print_error("%s\n%s\n", text, cn_err_message());
  assert_non_null(again);
  cn_string_free(text);
  return again;
}

/* Traced, fused into so many groups and nodes (-1: any), and run, also with one thread and from its text. */
static void check(body_fn fn, size_t nout, cn_tensor *const *in, size_t nin, int groups, int nodes)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *want[OUTPUTS] = {NULL}, *have[OUTPUTS] = {NULL};
  must(fn(want, in, NULL));
  cn_graph *g = cn_trace(fn, nout, in, nin, NULL);
  assert_non_null(g);
  must(cn_graph_optimise(g));
  int made = cn_graph_fuse(g, true);
  must(cn_graph_verify(g));
  if ((groups >= 0 && made != groups) || (nodes >= 0 && cn_graph_nodes(g) != (size_t)nodes)) {
    char *now = cn_graph_to_string(g);
    print_error("%d groups, %zu nodes:\n%s\n", made, cn_graph_nodes(g), now);
    fail();
  }
  cn_graph *again = reread(g);
  for (int i = 0; i < 3; i++) {
    int threads = cn_num_threads();
    if (i == 1) cn_set_num_threads(1);
    must(cn_graph_run(have, i == 2 ? again : g, in));
    cn_set_num_threads(threads);
    for (size_t k = 0; k < nout; k++) assert_same(have[k], want[k]);
  }
  cn_graph_free(again);
  cn_graph_free(g);
  cn_scope_end(s);
}

/* ---- norms and softmaxes ---- */

#define LAST .dim = CN_INTS(-1), .keepdim = true

static int rms_norm(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  cn_tensor *mean = cn_mean(cn_mul(in[0], in[0]), LAST);
  out[0] = cn_mul(cn_mul(in[0], cn_rsqrt(cn_add(mean, cn_num(1e-5)))), in[1]);
  return cn_err();
}

static int layer_norm(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  cn_tensor *mean = cn_mean(in[0], LAST), *d = cn_sub(in[0], mean), *var = cn_mean(cn_mul(d, d), LAST);
  out[0] = cn_mul(cn_true_divide(d, cn_sqrt(cn_add(var, cn_num(1e-5)))), in[1]);
  out[1] = mean;
  out[2] = var;
  return cn_err();
}

/* Without the reduced dim, which unsqueeze gives back. */
static int soft_max(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  const int64_t dim = -1;
  cn_tensor *most = cn_amax(in[0], .dim = CN_INTS(-1)), *e = cn_exp(cn_sub(in[0], cn_unsqueeze(most, dim)));
  cn_tensor *sum = cn_sum(e, .dim = CN_INTS(-1));
  out[0] = cn_true_divide(e, cn_unsqueeze(sum, dim));
  out[1] = cn_add(cn_log(sum), most);
  return cn_err();
}

static void test_norms(void **state)
{
  (void)state;
  static const int64_t sizes[][2] = {{1, 128}, {3, 131}, {40, 300}, {33, 1500}, {10, 8000}, {500, 1000}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    cn_tensor *in[] = {cn_randn(CN_SHAPE(sizes[i][0], sizes[i][1])), cn_randn(CN_SHAPE(sizes[i][1]))};
    check(rms_norm, 1, in, 2, 1, 1);
    check(layer_norm, 3, in, 2, 1, 1);
    check(soft_max, 2, in, 1, 1, 2); /* and the shape of the second result */
    cn_tensor *wide[] = {cn_cast(in[0], CN_F64), cn_cast(in[1], CN_F64)};
    check(layer_norm, 3, wide, 2, 1, 1);
  }
}

static int backward(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  body_fn forward = *(body_fn *)payload;
  cn_tensor *at[] = {cn_requires_grad(cn_detach(in[0]), true), cn_requires_grad(cn_detach(in[1]), true)}, *y[OUTPUTS];
  if (forward(y, at, NULL)) return cn_err();
  cn_backward(cn_sum(cn_mul(y[0], in[2])));
  out[0] = cn_grad_of(at[0]);
  out[1] = forward == soft_max ? y[0] : cn_grad_of(at[1]);
  return cn_err();
}

static int backward_of_rms(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  body_fn fn = rms_norm;
  (void)payload;
  return backward(out, in, &fn);
}
static int backward_of_layer(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  body_fn fn = layer_norm;
  (void)payload;
  return backward(out, in, &fn);
}
static int backward_of_soft_max(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  body_fn fn = soft_max;
  (void)payload;
  return backward(out, in, &fn);
}

static void test_gradients(void **state)
{
  (void)state;
  static const int64_t sizes[][2] = {{3, 150}, {128, 128}, {120, 700}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    cn_tensor *in[] = {cn_randn(CN_SHAPE(sizes[i][0], sizes[i][1])), cn_randn(CN_SHAPE(sizes[i][1])),
                       cn_randn(CN_SHAPE(sizes[i][0], sizes[i][1]))};
    check(backward_of_rms, 2, in, 3, 1, 6); /* views; rows; the sum of columns for the weight, and its shape */
    check(backward_of_layer, 2, in, 3, -1, -1);
    check(backward_of_soft_max, 2, in, 3, -1, -1);
  }
}

/* ---- shapes and types ---- */

/* Rows of two dims; operands that are strided, broadcast, of other types; a result of 16 bits. */
static int planes(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  cn_tensor *x = cn_add(cn_mul(in[0], in[1]), cn_cast(in[2], CN_F32));
  cn_tensor *most = cn_amax(x, .dim = CN_INTS(1, 2), .keepdim = true);
  cn_tensor *least = cn_amin(x, .dim = CN_INTS(1, 2), .keepdim = true);
  cn_tensor *y = cn_true_divide(cn_sub(x, least), cn_sub(most, least));
  out[0] = cn_cast(y, CN_BF16);
  out[1] = cn_gt(y, in[3]);
  return cn_err();
}

static void test_operands(void **state)
{
  (void)state;
  for (int i = 0; i < 2; i++) {
    cn_tensor *odd = cn_randn(CN_SHAPE(9, 10, 70)), *across = cn_transpose(cn_randn(CN_SHAPE(70, 10)), 0, 1);
    cn_tensor *in[] = {cn_randn(CN_SHAPE(9, 10, 35)),
                       i ? cn_slice(across, 1, 0, 70, .step = 2) : cn_randn(CN_SHAPE(9, 1, 1)),
                       cn_slice(cn_cast(cn_mul(odd, cn_num(9)), i ? CN_I8 : CN_F16), 2, 0, 70, .step = 2),
                       i ? cn_randn(CN_SHAPE(1)) : cn_randn(CN_SHAPE(10, 1))};
    check(planes, 2, in, 4, 1, 1);
  }
}

/* Zeros of both signs, infinities and NaN: which of equals is the largest depends on the order. */
static int extremes(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  cn_tensor *x = cn_mul(in[0], cn_num(-1));
  out[0] = cn_amax(x, LAST);
  out[1] = cn_amin(x, LAST);
  out[2] = cn_sum(x, .dim = CN_INTS(-1));
  out[3] = cn_mean(cn_abs(x));
  return cn_err();
}

/* How many of a row are true, and all of it with those. */
static int counts(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  cn_tensor *most = cn_amax(in[0], LAST), *ties = cn_eq(in[0], most);
  out[0] = cn_sum(ties, .dim = CN_INTS(-1));
  out[1] = cn_true_divide(cn_cast(ties, CN_F32), cn_sum(ties, LAST));
  out[2] = cn_sum(in[1], LAST);
  return cn_err();
}

static void test_counts(void **state)
{
  (void)state;
  cn_tensor *x = cn_floor(cn_mul(cn_randn(CN_SHAPE(60, 8000)), cn_num(2))), *in[] = {x, cn_lt(x, cn_num(1))};
  check(counts, 3, in, 2, 1, -1);
}

static void test_extremes(void **state)
{
  (void)state;
  static const float odd[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, -1e-45f};
  cn_tensor *x = cn_zeros(CN_SHAPE(50, 177));
  float *at = cn_desc_of(x)->data;
  for (int i = 0; i < 50 * 177; i++) at[i] = i / 177 < 40 ? odd[(i * 7 + i / 177) % (1 + i / 177 % 6)] : odd[i % 2];
  check(extremes, 4, &x, 1, -1, -1);
}

/* A view that one step reads twice, and others besides. */
static int twice(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  cn_tensor *sum = cn_unsqueeze(cn_sum(cn_abs(in[0]), .dim = CN_INTS(1)), 1);
  out[0] = cn_true_divide(cn_mul(in[0], cn_mul(sum, sum)), sum);
  out[1] = sum;
  return cn_err();
}

static void test_views(void **state)
{
  (void)state;
  cn_tensor *x = cn_randn(CN_SHAPE(60, 200));
  check(twice, 2, &x, 1, 1, 3);
}

/* Losses: all of it, or long rows, with what they are of. */
static int losses(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  cn_tensor *d = cn_sub(in[0], in[1]);
  out[0] = cn_mul(cn_mean(cn_mul(d, d)), cn_num(0.5));
  out[1] = d;
  out[2] = cn_amax(cn_abs(d));
  return cn_err();
}

static int long_rows(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  cn_tensor *d = cn_mul(cn_sub(in[0], in[1]), in[2]);
  out[0] = cn_sqrt(cn_add(cn_sum(cn_mul(d, d), LAST), cn_abs(in[2])));
  out[1] = cn_cast(d, CN_F16);
  return cn_err();
}

static void test_long(void **state)
{
  (void)state;
  static const int64_t sizes[] = {128, 8200, 65536, 70001, 1000000};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    cn_tensor *in[] = {cn_randn(CN_SHAPE(sizes[i])), cn_randn(CN_SHAPE(sizes[i]))};
    check(losses, 3, in, 2, 1, 3); /* and the shapes of two results */
  }
  for (int64_t rows = 1; rows < 50; rows += 40) {
    cn_tensor *odd = cn_randn(CN_SHAPE(2 * 9001));
    cn_tensor *in[] = {cn_randn(CN_SHAPE(rows, 9001)), cn_slice(odd, 0, 0, 2 * 9001, .step = 2),
                       cn_randn(CN_SHAPE(rows, 1))};
    check(long_rows, 2, in, 3, 1, 1);
  }
}

/* ---- what stays apart ---- */

static int columns(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  cn_tensor *e = cn_exp(in[0]);
  out[0] = cn_true_divide(e, cn_sum(e, .dim = CN_INTS(0), .keepdim = true));
  return cn_err();
}

/* A value for each row that is read along columns, which are as many. */
static int crossed(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  cn_tensor *s = cn_sum(cn_mul(in[0], in[0]), .dim = CN_INTS(1));
  out[0] = cn_mul(in[0], s);
  return cn_err();
}

/* A weight as long as there are rows, through a formula of its own. */
static int weighted(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  cn_tensor *x = cn_mul(in[0], cn_exp(in[1]));
  out[0] = cn_sub(x, cn_mean(x, LAST));
  return cn_err();
}

/* Between the rows' maximum and their formula lies a product. */
static int around(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  cn_tensor *most = cn_amax(in[0], LAST), *other = cn_matmul(in[0], most);
  out[0] = cn_sub(cn_mul(in[0], other), most);
  return cn_err();
}

static void test_apart(void **state)
{
  (void)state;
  cn_tensor *in[] = {cn_randn(CN_SHAPE(150, 150)), cn_randn(CN_SHAPE(150))};
  check(columns, 1, in, 2, -1, 3);
  check(crossed, 1, in, 1, 1, 3); /* the sum with what it is of, its shape, and the product */
  check(weighted, 1, in, 2, 1, 2);
  check(around, 1, in, 1, -1, -1);
  cn_tensor *longer[] = {cn_randn(CN_SHAPE(3, 20000)), cn_randn(CN_SHAPE(20000))};
  check(rms_norm, 1, longer, 2, 2, 2); /* rows that are no longer in the caches when they are read again */
  cn_tensor *shorter[] = {cn_randn(CN_SHAPE(300, 64)), cn_randn(CN_SHAPE(64))};
  check(rms_norm, 1, shorter, 2, 1, 5);
}

/* ---- programs ---- */

static void refused(cn_tensor *x, const char *text, const char *why)
{
  cn_tensor *out[OUTPUTS];
  int n = cn_pointwise(out, OUTPUTS, &x, 1, text, (const double[]){2}, 1);
  if (n >= 0 || !strstr(cn_err_message(), why)) print_error("%s: %d, %s\n", text, n, cn_err_message());
  assert_true(n < 0);
  assert_non_null(strstr(cn_err_message(), why));
  cn_err_clear();
}

static void test_programs(void **state)
{
  (void)state;
  cn_tensor *x = cn_randn(CN_SHAPE(4, 6)), *none = cn_zeros(CN_SHAPE(4, 0));
  static const char no[] = "is not a pointwise program";
  refused(x, "float32:f32||row_sum:f32 0|1:float32", no);
  refused(x, "float32:f32||row_sum:f32*0 0|1:float32", no);
  refused(x, "float32:f32||row_sum:f64*1 0|1:float32", no);
  refused(x, "1||row_sum 0|1", no);
  refused(x, "float32:i64||row_sum:i64*1 0|1:int64", no);
  refused(x, "float32:f32|2:f32|row_sum:f32*1 1|2:float32", no);
  refused(x, "float32:f32||row_sum:f32*1 0;row_max:f32*2 0;add:f32 1 2|3:float32", no);
  refused(x, "float32:f32||row_sum:f32*1 0;row_max:f32*1 1|2:float32", no);
  refused(x, "float32:f32||exp:f32 0;row_first:f32*1 1|2:float32", no);
  refused(x, "float32:f32||row_sum:f32*3 0|1:float32", "rows have 3 dims");
  refused(x, "float32:f32|@0:f32|row_sum:f32*1 0;mul:f32 2 1|3:float32", "literals");
  refused(none, "float32:f32||row_mean:f32*1 0|1:float32", "rows without elements");
  cn_tensor *out[2];
  static const char text[] = "float32:f32||row_sum:f32*1 0;sub:f32 0 1|1:float64,0:float16";
  assert_int_equal(cn_pointwise(out, 2, &x, 1, text, NULL, 0), 2);
  assert_same(out[0], cn_cast(cn_sum(x, LAST), CN_F64));
  assert_same(out[1], cn_cast(x, CN_F16));
  assert_int_equal(cn_err(), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(test_norms, setup),    cmocka_unit_test_setup(test_gradients, setup),
    cmocka_unit_test_setup(test_operands, setup), cmocka_unit_test_setup(test_extremes, setup),
    cmocka_unit_test_setup(test_counts, setup),   cmocka_unit_test_setup(test_views, setup),
    cmocka_unit_test_setup(test_long, setup),     cmocka_unit_test_setup(test_apart, setup),
    cmocka_unit_test_setup(test_programs, setup),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
