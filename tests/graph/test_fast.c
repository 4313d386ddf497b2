/* test_fast.c: cn_graph_optimise_fast (src/graph/passes/recognise.c, round.c): of each graph the ops that it is made of
 * afterwards, results and gradients of a replay beside those of the graph as it was, and near ones that must stay. */
#include <cairn/cairn.h>
#include <cairn/ext/graph.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tensors.h"

#define F "float32 [3, 4]"
#define R "float32 [3, 1]"
#define X "%0 = input " F "\n"
#define XY X "%1 = input " F "\n"
#define HALF "%1 = scalar float64 weak 0.5\n"
#define ONE "%2 = scalar int64 weak 1\n"
#define ROOT "%3 = scalar float64 weak 1.4142135623730951\n"

/* ops: what is left, in order; NULL: nothing changes. */
static const struct example {
  const char *name, *text, *ops;
} examples[] = {
  /* round.c */
  {"log_softmax", X "%1 = softmax(%0, 1, none) : " F "\n%2 = log(%1) : " F "\noutput %2\n", "log_softmax"},
  {"softmax that others read",
   X "%1 = softmax(%0, 1, none) : " F "\n%2 = log(%1) : " F "\noutput %2\noutput %1\n", NULL},
  {"log_sigmoid", X "%1 = sigmoid(%0) : " F "\n%2 = log(%1) : " F "\noutput %2\n", "logsigmoid"},
  {"log_exp", X "%1 = exp(%0) : " F "\n%2 = log(%1) : " F "\noutput %2\n", ""},
  {"log_sum_exp", X "%1 = exp(%0) : " F "\n%2 = sum(%1, [1], true, none) : " R "\n%3 = log(%2) : " R "\noutput %3\n",
   "logsumexp"},
  {"a sum of everything", X "%1 = exp(%0) : " F "\n%2 = sum(%1, none, false, none) : float32 []\n"
                          "%3 = log(%2) : float32 []\noutput %3\n", NULL},
  {"log1p", X "%2 = scalar int64 weak 1\n%1 = add(%0, %2, 1) : " F "\n%3 = log(%1) : " F "\noutput %3\n", "log1p"},
  {"log of 2 + x", X "%2 = scalar int64 weak 2\n%1 = add(%0, %2, 1) : " F "\n%3 = log(%1) : " F "\noutput %3\n", NULL},
  {"log of 1 + 3 x",
   X "%2 = scalar int64 weak 1\n%1 = add(%2, %0, 3) : " F "\n%3 = log(%1) : " F "\noutput %3\n", NULL},
  {"softplus", X "%2 = scalar int64 weak 1\n%3 = exp(%0) : " F "\n%1 = add(%3, %2, 1) : " F "\n%4 = log(%1) : " F
               "\noutput %4\n", "softplus"},
  {"expm1", X "%2 = scalar int64 weak 1\n%3 = exp(%0) : " F "\n%1 = sub(%3, %2, 1) : " F "\noutput %1\n", "expm1"},
  {"1 - exp", X "%2 = scalar int64 weak 1\n%3 = exp(%0) : " F "\n%1 = sub(%2, %3, 1) : " F "\noutput %1\n", NULL},
  {"exp_exp", XY "%2 = exp(%0) : " F "\n%3 = exp(%1) : " F "\n%4 = mul(%2, %3) : " F "\noutput %4\n", "add exp"},
  {"sigmoid_not", X "%2 = scalar int64 weak 1\n%3 = sigmoid(%0) : " F "\n%1 = sub(%2, %3, 1) : " F "\noutput %1\n",
   "neg sigmoid"},
  {"sqrt_square", X "%1 = square(%0) : " F "\n%2 = sqrt(%1) : " F "\noutput %2\n", "abs"},
  {"square of a root", X "%1 = sqrt(%0) : " F "\n%2 = square(%1) : " F "\noutput %2\n", NULL},
  {"rsqrt",
   X "%2 = scalar int64 weak 1\n%1 = sqrt(%0) : " F "\n%3 = true_divide(%2, %1) : " F "\noutput %3\n", "rsqrt"},
  {"by_root", X "%1 = input " R "\n%2 = sqrt(%1) : " R "\n%3 = true_divide(%0, %2) : " F "\noutput %3\n", "rsqrt mul"},
  {"by a root of as many", XY "%2 = sqrt(%1) : " F "\n%3 = true_divide(%0, %2) : " F "\noutput %3\n", NULL},
  {"square", X "%1 = scalar int64 weak 2\n%2 = pow(%0, %1) : " F "\noutput %2\n", "square"},
  {"cube", X "%1 = scalar float64 weak 3\n%2 = pow(%0, %1) : " F "\noutput %2\n", "square mul"},
  {"fourth", X "%1 = scalar int64 weak 4\n%2 = pow(%0, %1) : " F "\noutput %2\n", "square square"},
  {"fifth", X "%1 = scalar int64 weak 5\n%2 = pow(%0, %1) : " F "\noutput %2\n", NULL},
  {"both_times", X "%1 = scalar float64 weak 0.25\n%2 = scalar float64 weak 3.5\n%3 = mul(%0, %1) : " F
                 "\n%4 = mul(%0, %2) : " F "\n%5 = add(%3, %4, 1) : " F "\noutput %5\n", "mul"},
  {"times_times", X "%1 = scalar float64 weak 0.25\n%2 = scalar float64 weak 3.5\n%3 = mul(%0, %1) : " F
                  "\n%4 = mul(%3, %2) : " F "\noutput %4\n", "mul"},
  {"pool_relu", "%0 = input float32 [1, 2, 5, 4]\n%1 = relu(%0) : float32 [1, 2, 5, 4]\n"
                "%2, %3 = max_pool2d_with_indices(%1, [2, 2], [2, 2], [1, 0], [1, 1], false) : float32 [1, 2, 3, 2], "
                "int64 [1, 2, 3, 2]\noutput %2\n", "max_pool2d_with_indices relu"},
  {"a pool whose places are read",
   "%0 = input float32 [1, 2, 5, 4]\n%1 = relu(%0) : float32 [1, 2, 5, 4]\n%2, %3 = max_pool2d_with_indices("
   "%1, [2, 2], [2, 2], [1, 0], [1, 1], false) : float32 [1, 2, 3, 2], int64 [1, 2, 3, 2]\noutput %2\noutput %3\n",
   NULL},
  {"integers", "%0 = input int64 [4]\n%1 = scalar int64 weak 2\n%2 = pow(%0, %1) : int64 [4]\noutput %2\n", NULL},
  /* recognise.c: softmax */
  {"softmax", X "%1 = exp(%0) : " F "\n%2 = sum(%1, [-1], true, none) : " R "\n%3 = true_divide(%1, %2) : " F
              "\noutput %3\n", "softmax"},
  {"softmax, shifted", X "%4 = amax(%0, [1], true) : " R "\n%5 = sub(%0, %4, 1) : " F "\n%1 = exp(%5) : " F
                       "\n%2 = sum(%1, [-1], true, none) : " R "\n%3 = true_divide(%1, %2) : " F "\noutput %3\n",
   "softmax"},
  {"softmax, shifted along another dimension",
   X "%4 = amax(%0, [0], true) : float32 [1, 4]\n%5 = sub(%0, %4, 1) : " F "\n%1 = exp(%5) : " F
   "\n%2 = sum(%1, [-1], true, none) : " R "\n%3 = true_divide(%1, %2) : " F "\noutput %3\n", "amax sub softmax"},
  {"exponentials over the sum of others",
   XY "%2 = exp(%0) : " F "\n%3 = exp(%1) : " F "\n%4 = sum(%3, [1], true, none) : " R
   "\n%5 = true_divide(%2, %4) : " F "\noutput %5\n", NULL},
  {"softmax over two dimensions", X "%1 = exp(%0) : " F "\n%2 = sum(%1, [0, 1], true, none) : float32 [1, 1]\n"
                                  "%3 = true_divide(%1, %2) : " F "\noutput %3\n", NULL},
  {"log_softmax, shifted", X "%4 = amax(%0, [1], true) : " R "\n%5 = sub(%0, %4, 1) : " F "\n%1 = exp(%5) : " F
                           "\n%2 = sum(%1, [1], true, none) : " R "\n%6 = log(%2) : " R "\n%3 = sub(%5, %6, 1) : " F
                           "\noutput %3\n", "log_softmax"},
  {"cross_entropy", X "%1 = const int64 [3] <0, 3, 1>\n%2 = log_softmax(%0, 1, none) : " F
                    "\n%3 = nll_loss(%2, %1, none, -100, 'mean') : float32 []\noutput %3\n", "cross_entropy"},
  /* norms */
  {"layer_norm", X "%1 = mean(%0, [1], true, none) : " R "\n%2 = sub(%0, %1, 1) : " F "\n%3 = mul(%2, %2) : " F
                 "\n%4 = mean(%3, [-1], true, none) : " R "\n%5 = scalar float64 weak 1e-5\n%6 = add(%4, %5, 1) : " R
                 "\n%7 = sqrt(%6) : " R "\n%8 = true_divide(%2, %7) : " F "\noutput %8\n", "layer_norm"},
  {"layer_norm, weight and bias",
   X "%9 = input float32 [4]\n%10 = input float32 [4]\n%13 = scalar int64 weak 2\n%1 = mean(%0, [1], true, none) : " R
   "\n%2 = sub(%0, %1, 1) : " F "\n%3 = pow(%2, %13) : " F "\n%4 = mean(%3, [1], true, none) : " R
   "\n%5 = scalar float64 weak 1e-5\n%6 = add(%4, %5, 1) : " R "\n%7 = rsqrt(%6) : " R "\n%8 = mul(%2, %7) : " F
   "\n%11 = mul(%8, %9) : " F "\n%12 = add(%11, %10, 1) : " F "\noutput %12\n", "layer_norm"},
  {"layer_norm of a variance",
   X "%1 = mean(%0, [1], true, none) : " R "\n%2 = sub(%0, %1, 1) : " F "\n%4 = var(%0, [1], 0, true) : " R
   "\n%5 = scalar float64 weak 1e-5\n%6 = add(%4, %5, 1) : " R "\n%7 = rsqrt(%6) : " R "\n%8 = mul(%2, %7) : " F
   "\noutput %8\n", "layer_norm"},
  {"an unbiased variance",
   X "%1 = mean(%0, [1], true, none) : " R "\n%2 = sub(%0, %1, 1) : " F "\n%4 = var(%0, [1], 1, true) : " R
   "\n%5 = scalar float64 weak 1e-5\n%6 = add(%4, %5, 1) : " R "\n%7 = rsqrt(%6) : " R "\n%8 = mul(%2, %7) : " F
   "\noutput %8\n", NULL},
  {"a norm over the first dimension",
   X "%1 = mean(%0, [0], true, none) : float32 [1, 4]\n%2 = sub(%0, %1, 1) : " F
   "\n%4 = var(%0, [0], 0, true) : float32 [1, 4]\n%5 = scalar float64 weak 1e-5\n"
   "%6 = add(%4, %5, 1) : float32 [1, 4]\n"
   "%7 = rsqrt(%6) : float32 [1, 4]\n%8 = mul(%2, %7) : " F "\noutput %8\n", NULL},
  {"a weight for each row",
   X "%9 = input " R "\n%1 = mean(%0, [1], true, none) : " R "\n%2 = sub(%0, %1, 1) : " F
   "\n%4 = var(%0, [1], 0, true) : " R "\n%5 = scalar float64 weak 1e-5\n%6 = add(%4, %5, 1) : " R
   "\n%7 = rsqrt(%6) : " R "\n%8 = mul(%2, %7) : " F "\n%10 = mul(%8, %9) : " F "\noutput %10\n", "layer_norm mul"},
  {"rms_norm", X "%9 = input float32 [4]\n%3 = square(%0) : " F "\n%4 = mean(%3, [-1], true, none) : " R
               "\n%5 = scalar float64 weak 1e-6\n%6 = add(%4, %5, 1) : " R "\n%7 = rsqrt(%6) : " R
               "\n%8 = mul(%0, %7) : " F "\n%10 = mul(%9, %8) : " F "\noutput %10\n", "rms_norm"},
  {"a norm of another value", XY "%3 = square(%1) : " F "\n%4 = mean(%3, [-1], true, none) : " R
                              "\n%5 = scalar float64 weak 1e-6\n%6 = add(%4, %5, 1) : " R "\n%7 = rsqrt(%6) : " R
                              "\n%8 = mul(%0, %7) : " F "\noutput %8\n", NULL},
  /* activations */
  {"sigmoid", X ONE "%3 = neg(%0) : " F "\n%4 = exp(%3) : " F "\n%5 = add(%4, %2, 1) : " F
              "\n%6 = true_divide(%2, %5) : " F "\noutput %6\n", "sigmoid"},
  {"silu", X "%1 = sigmoid(%0) : " F "\n%2 = mul(%0, %1) : " F "\noutput %2\n", "silu"},
  {"a gate of another value", XY "%2 = sigmoid(%1) : " F "\n%3 = mul(%0, %2) : " F "\noutput %3\n", NULL},
  {"gelu", X HALF ONE ROOT "%4 = true_divide(%0, %3) : " F "\n%5 = erf(%4) : " F "\n%6 = add(%5, %2, 1) : " F
           "\n%7 = mul(%0, %6) : " F "\n%8 = mul(%7, %1) : " F "\noutput %8\n", "gelu"},
  {"gelu, tanh",
   X HALF ONE "%3 = scalar int64 weak 3\n%4 = scalar float64 weak 0.044715\n"
   "%5 = scalar float64 weak 0.7978845608028654\n"
   "%6 = pow(%0, %3) : " F "\n%7 = mul(%6, %4) : " F "\n%8 = add(%0, %7, 1) : " F "\n%9 = mul(%8, %5) : " F
   "\n%10 = tanh(%9) : " F "\n%11 = add(%10, %2, 1) : " F "\n%12 = mul(%0, %1) : " F "\n%13 = mul(%12, %11) : " F
   "\noutput %13\n", "gelu"},
  {"nearly gelu", X HALF ONE "%3 = scalar float64 weak 1.41\n%4 = true_divide(%0, %3) : " F "\n%5 = erf(%4) : " F
                  "\n%6 = add(%5, %2, 1) : " F "\n%7 = mul(%0, %6) : " F "\n%8 = mul(%7, %1) : " F "\noutput %8\n",
   NULL},
  {"hardswish", X "%1 = scalar int64 weak 3\n%2 = scalar int64 weak 6\n%3 = add(%0, %1, 1) : " F
                "\n%4 = hardtanh(%3, 0.0, 6.0) : " F "\n%5 = mul(%0, %4) : " F "\n%6 = true_divide(%5, %2) : " F
                "\noutput %6\n", "hardswish"},
  {"mish",
   X "%1 = softplus(%0, 1.0, 20.0) : " F "\n%2 = tanh(%1) : " F "\n%3 = mul(%0, %2) : " F "\noutput %3\n", "mish"},
  /* products */
  {"linear", X "%1 = input float32 [4, 5]\n%2 = input float32 [5]\n%3 = matmul(%0, %1) : float32 [3, 5]\n"
             "%4 = add(%3, %2, 1) : float32 [3, 5]\noutput %4\n", "transpose linear"},
  {"conv2d, bias", "%0 = input float32 [1, 2, 5, 5]\n%1 = input float32 [3, 2, 3, 3]\n%2 = input float32 [1, 3, 1, 1]\n"
                   "%3 = conv2d(%0, %1, none, [1, 1], [0, 0], [1, 1], 1) : float32 [1, 3, 3, 3]\n"
                   "%4 = add(%3, %2, 1) : float32 [1, 3, 3, 3]\noutput %4\n", "view conv2d"},
  {"one number for each column of images",
   "%0 = input float32 [1, 2, 5, 5]\n%1 = input float32 [3, 2, 3, 3]\n%2 = input float32 [1, 1, 1, 3]\n"
   "%3 = conv2d(%0, %1, none, [1, 1], [0, 0], [1, 1], 1) : float32 [1, 3, 3, 3]\n"
   "%4 = add(%3, %2, 1) : float32 [1, 3, 3, 3]\noutput %4\n", NULL},
  {"a bias for each row", X "%1 = input float32 [4, 3]\n%2 = input " R "\n%3 = matmul(%0, %1) : float32 [3, 3]\n"
                          "%4 = add(%3, %2, 1) : float32 [3, 3]\noutput %4\n", NULL},
};

#define Q "float32 [2, 3, 5, 4]"
#define S "float32 [2, 3, 5, 6]"
#define QKV "%0 = input " Q "\n%1 = input float32 [2, 3, 6, 4]\n%2 = input float32 [2, 3, 6, 4]\n" \
            "%3 = transpose(%1, 2, 3) : float32 [2, 3, 4, 6]\n"
#define SCORES "%4 = matmul(%0, %3) : " S "\n"

static const struct example attention[] = {
  {"attention", QKV SCORES "%5 = softmax(%4, 3, none) : " S "\n%6 = matmul(%5, %2) : " Q "\noutput %6\n",
   "scaled_dot_product_attention"},
  {"attention, quotient, mask",
   QKV "%7 = scalar float64 weak 8\n%9 = input float32 [2, 1, 1, 6]\n" SCORES "%8 = true_divide(%4, %7) : " S
       "\n%10 = add(%8, %9, 1) : " S "\n%5 = softmax(%10, -1, none) : " S "\n%6 = matmul(%5, %2) : " Q "\noutput %6\n",
   "scaled_dot_product_attention"},
  {"attention, scale", QKV "%7 = scalar float64 weak 0.3\n" SCORES "%8 = mul(%4, %7) : " S
                           "\n%5 = softmax(%8, -1, none) : " S "\n%6 = matmul(%5, %2) : " Q "\noutput %6\n",
   "scaled_dot_product_attention"},
  {"a softmax over queries", QKV SCORES "%5 = softmax(%4, 2, none) : " S "\n%6 = matmul(%5, %2) : " Q "\noutput %6\n",
   NULL},
  {"weights that others read", QKV SCORES "%5 = softmax(%4, 3, none) : " S "\n%6 = matmul(%5, %2) : " Q
                                          "\noutput %6\noutput %5\n", NULL},
};

/* The names of a graph's ops, in order. */
static void names_of(char *to, size_t size, const cn_graph *g)
{
  *to = 0;
  for (size_t i = 0; i < cn_graph_nodes(g); i++) {
    cn_graph_node n = {sizeof n};
    assert_int_equal(cn_graph_node_at(&n, g, (int)i), 0);
    size_t used = strlen(to);
    snprintf(to + used, size - used, "%s%s", used ? " " : "", n.name);
  }
}

enum { MOST = 4 };

/* Inputs that logarithms and roots like; the same each time. */
static size_t make_inputs(cn_tensor **in, const cn_graph *g, bool grad)
{
  size_t n = cn_graph_inputs(g);
  assert_true(n <= MOST);
  cn_seed(3);
  for (size_t i = 0; i < n; i++) {
    cn_graph_value v;
    assert_int_equal(cn_graph_input_at(&v, g, i), 0);
    in[i] = cn_add(cn_rand(v.shape, (size_t)v.ndim), cn_num(0.25));
    if (v.dtype != CN_F32) in[i] = cn_cast(in[i], v.dtype);
    else if (grad) cn_requires_grad(in[i], true);
  }
  assert_int_equal(cn_err(), 0);
  return n;
}

static void assert_near(const char *name, cn_tensor *have, cn_tensor *want)
{
  enum { ULPS = 64 }; /* a few roundings of sums of some elements, relative to the largest */
  cn_tensor *apart = cn_amax(cn_abs(cn_sub(cn_cast(have, CN_F64), cn_cast(want, CN_F64))));
  double most = cn_item(cn_amax(cn_abs(cn_cast(want, CN_F64)))), error = cn_item(apart);
  assert_int_equal(cn_err(), 0);
  if (!(error <= ULPS * 6e-8 * (most > 1 ? most : 1))) fail_msg("%s: %g apart, of %g", name, error, most);
}

/* What both give for the same inputs, and the gradients of both, replayed. */
static void assert_same_numbers(const char *name, cn_graph *have, cn_graph *want)
{
  cn_tensor *in[2][MOST], *out[2][MOST];
  cn_graph *both[] = {have, want};
  cn_scope *s = cn_scope_begin();
  size_t n = 0, nout = cn_graph_outputs(want);
  for (int k = 0; k < 2; k++) {
    n = make_inputs(in[k], want, false);
    assert_int_equal(cn_graph_run(out[k], both[k], in[k]), 0);
  }
  for (size_t i = 0; i < nout; i++) assert_near(name, out[0][i], out[1][i]);
  for (int k = 0; k < 2; k++) {
    n = make_inputs(in[k], want, true);
    assert_int_equal(cn_graph_replay(out[k], both[k], in[k]), 0);
    if (!cn_needs_grad(out[k][0])) continue;
    cn_seed(4);
    cn_graph_value v;
    assert_int_equal(cn_graph_output_at(&v, want, 0), 0);
    assert_int_equal(cn_backward(cn_sum(cn_mul(out[k][0], cn_randn(v.shape, (size_t)v.ndim)))), 0);
  }
  for (size_t i = 0; i < n; i++) {
    assert_int_equal(cn_grad_of(in[0][i]) != NULL, cn_grad_of(in[1][i]) != NULL);
    if (cn_grad_of(in[0][i])) assert_near(name, cn_grad_of(in[0][i]), cn_grad_of(in[1][i]));
  }
  cn_scope_end(s);
}

static void assert_example(const struct example *e)
{
  char have[256], want[256];
  cn_graph *g = cn_graph_parse(e->text), *before = cn_graph_parse(e->text);
  if (!g || !before) fail_msg("%s: %s", e->name, cn_err_message());
  names_of(want, sizeof want, before);
  int n = cn_graph_optimise_fast(g);
  if (n < 0 || cn_graph_verify(g)) fail_msg("%s: %s", e->name, cn_err_message());
  names_of(have, sizeof have, g);
  if (strcmp(have, e->ops ? e->ops : want)) fail_msg("%s: %s", e->name, have);
  assert_same_numbers(e->name, g, before);
  cn_graph_free(g);
  g = cn_graph_parse(e->text); /* results of the other level stay the same to the bit */
  assert_true(cn_graph_optimise(g) >= 0);
  names_of(have, sizeof have, g);
  if (strcmp(have, want)) fail_msg("%s: %s without being asked", e->name, have);
  cn_graph_free(g);
  cn_graph_free(before);
}

static void test_examples(void **state)
{
  (void)state;
  cn_err_clear();
  for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) assert_example(&examples[i]);
}

static void test_attention(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof attention / sizeof *attention; i++) assert_example(&attention[i]);
}

/* Numbers that the formulas as they were written lose. */
static void test_nearer(void **state)
{
  (void)state;
  cn_graph *g = cn_graph_parse("%0 = input float32 [2]\n%1 = softmax(%0, 0, none) : float32 [2]\n"
                               "%2 = log(%1) : float32 [2]\noutput %2\n");
  float x[] = {0, 200};
  cn_tensor *in = cn_from_data(x, CN_SHAPE(2), CN_F32), *out = NULL;
  assert_int_equal(cn_graph_run(&out, g, &in), 0);
  assert_true(isinf(cn_item(cn_select(out, 0, 0))));
  assert_int_equal(cn_graph_optimise_fast(g), 1);
  assert_int_equal(cn_graph_run(&out, g, &in), 0);
  assert_true(cn_item(cn_select(out, 0, 0)) == -200);
  cn_graph_free(g);
  assert_int_equal(cn_graph_optimise_fast(NULL), CN_ERR_TYPE);
  cn_err_clear();
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_examples),
    cmocka_unit_test(test_attention),
    cmocka_unit_test(test_nearer),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
