/* round.c: formulas that lose less, or cost less, and are rounded otherwise than what they replace.
 *
 * Place in the flow: cn_graph_optimise_fast, behind recognise.c, which sees the formulas as they were written. Rows are
 * those of the rewriter, applied where nobody else reads what goes. Invariant: a row keeps the result up to rounding
 * where nothing in between overflows or vanishes, for infinities and NaN, too; where something does, it is nearer to
 * what is meant. tests/graph/test_fast.c has a graph before and after each, and numbers. */
#include "base/dtype.h"
#include "graph/passes/passes.h"
#include "graph/rewrite.h"
#include "tensor/tensor.h"

static const cn_desc *desc_of(const cn_match *m, const char *name)
{
  return &cn_match_graph(m)->types.v[cn_match_value(m, name)].handle->d;
}

static bool is_float(const cn_match *m) { return cni_dtype_is_float(desc_of(m, "")->dtype); }

/* log(1 + exp(x)) is x from 20 on, to the last bit of a float32. */
static bool is_single(const cn_match *m) { return desc_of(m, "")->dtype == CN_F32; }

static bool is_narrow_of(const cn_match *m, const char *wide, const char *narrow)
{
  return is_float(m) && desc_of(m, narrow)->numel * 2 <= desc_of(m, wide)->numel;
}

/* A root of fewer elements than what it divides, so that divisions become products. */
static bool is_narrow(const cn_match *m) { return is_narrow_of(m, "", "y"); }

/* The sum is over given dimensions. */
static bool has_dims(const cn_match *m)
{
  const cn_value *dims = cn_match_attribute(m, "$dims");
  return is_float(m) && dims->tag == CN_V_INTS && dims->n > 0;
}

/* A pool of fewer results, of which nobody reads where they were found. */
static bool without_places(const cn_match *m)
{
  cn_graph *g = (cn_graph *)(uintptr_t)cn_match_graph(m); /* users are found once, and kept */
  const cni_gnode *pool = &g->nodes[g->values[cn_match_value(m, "")].node];
  return is_narrow_of(m, "x", "") && cn_graph_users(NULL, g, pool->out[1]) == 0;
}

static const cn_rewrite rows[] = {
  {"log_softmax", "log(softmax(x, $dim, $type))", is_float, "log_softmax(x, $dim, $type)", true},
  {"log_sigmoid", "log(sigmoid(x))", is_float, "logsigmoid(x)", true},
  {"log_exp", "log(exp(x))", is_float, "x", true},
  {"log_sum_exp", "log(sum(exp(x), $dims, $keep, none))", has_dims, "logsumexp(x, $dims, $keep)", true},
  {"log1p", "log(add(x, 1))", is_float, "log1p(x)", true},
  {"log1p_minus", "log(sub(1, x))", is_float, "log1p(neg(x))", true},
  {"softplus", "log1p(exp(x))", is_single, "softplus(x, 1.0, 20.0)", true},
  {"expm1", "(sub(exp(x), 1) | add(exp(x), -1))", is_float, "expm1(x)", true},
  {"exp_exp", "mul(exp(x), exp(y))", is_float, "exp(add(x, y))", true},
  {"sigmoid_not", "sub(1, sigmoid(x))", is_float, "sigmoid(neg(x))", true},
  {"sqrt_square", "sqrt((square(x) | mul(x, x) | pow(x, 2)))", is_float, "abs(x)", true},
  {"rsqrt", "(true_divide(1, sqrt(x)) | reciprocal(sqrt(x)))", is_float, "rsqrt(x)", true},
  {"by_root", "true_divide(x, sqrt(y))", is_narrow, "mul(x, rsqrt(y))", false},
  {"square", "pow(x, 2)", is_float, "square(x)", true},
  {"cube", "pow(x, 3)", is_float, "mul(square(x), x)", true},
  {"fourth", "pow(x, 4)", is_float, "square(square(x))", true},
  {"inverse", "pow(x, -1)", is_float, "reciprocal(x)", true},
  {"both_times", "add(mul(x, #a), mul(x, #b))", is_float, "mul(x, add(#a, #b))", true},
  {"pool_relu", "max_pool2d_with_indices(relu(x), $kernel, $stride, $padding, $dilation, $ceil)", without_places,
   "relu(max_pool2d_with_indices(x, $kernel, $stride, $padding, $dilation, $ceil))", false},
  {"times_times", "mul(mul(x, #a), #b)", is_float, "mul(x, mul(#a, #b))", true},
};

int cni_pass_round(cn_graph *g) { return cni_graph_rewrite(g, rows, sizeof rows / sizeof *rows, true); }
