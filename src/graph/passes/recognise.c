/* recognise.c: ops take the place of what programs and other exporters write with simpler ones: softmax, norms, gelu,
 * attention and their like, whose kernels take one pass where the parts take many.
 *
 * Place in the flow: cn_graph_optimise_fast, before round.c changes what is looked for. Calls of matmul and nll_loss
 * are folded back into one node (lift.c), since patterns are written with ops as programs call them; plans take apart
 * again what nothing was made of. Larger things are found step by step: a softmax first, then attention around it; a
 * norm, then its weight, then its bias. Invariant: a row is applied where nobody else reads what goes; sums are the
 * same up to their order and rounding. tests/graph/test_fast.c has a graph before and after each, and near ones that
 * stay. */
#include <math.h>

#include "base/dtype.h"
#include "graph/passes/passes.h"
#include "graph/rewrite.h"
#include "ops/api.gen.h"
#include "tensor/tensor.h"

static const cn_desc *desc_of(const cn_match *m, const char *name)
{
  return &cn_match_graph(m)->types.v[cn_match_value(m, name)].handle->d;
}

static bool is_float(const cn_match *m)
{
  return cni_dtype_is_float(desc_of(m, "")->dtype) && desc_of(m, "x")->dtype == desc_of(m, "")->dtype;
}

/* A list of one dimension, or a number: which one of x's; -1: it is none of these. */
static int dim_of(const cn_match *m, const char *name)
{
  const cn_value *v = cn_match_attribute(m, name);
  const int ndim = desc_of(m, "x")->ndim;
  if (!v || (v->tag != CN_V_INT && (v->tag != CN_V_INTS || v->n != 1))) return -1;
  int64_t dim = v->tag == CN_V_INT ? v->u.i : v->u.is[0];
  return (int)(dim < 0 ? dim + ndim : dim);
}

static bool give_dim(const cn_match *m)
{
  int dim = dim_of(m, "$dims");
  return is_float(m) && dim >= 0 && cn_match_give(m, "$dim", cn_v_int(dim));
}

/* What is taken off is the same for all elements of the sum. */
static bool same_dim(const cn_match *m)
{
  int most = dim_of(m, cn_match_attribute(m, "$most") ? "$most" : "$one"), dim = dim_of(m, "$dim");
  return is_float(m) && dim >= 0 && dim == most;
}

/* The last dimensions of x: how many; 0: it is no such list. */
static int last_dims(const cn_match *m, const char *name)
{
  const cn_value *v = cn_match_attribute(m, name);
  const int ndim = desc_of(m, "x")->ndim;
  if (!v || v->tag != CN_V_INTS || v->n < 1 || v->n > ndim) return 0;
  unsigned seen = 0;
  for (int i = 0; i < v->n; i++) seen |= 1u << (v->u.is[i] < 0 ? v->u.is[i] + ndim : v->u.is[i]);
  return seen == ((1u << ndim) - 1) - ((1u << (ndim - v->n)) - 1) ? v->n : 0;
}

/* A norm over the last dimensions: their sizes. */
static bool give_shape(const cn_match *m)
{
  const cn_desc *x = desc_of(m, "x");
  int n = last_dims(m, "$dims");
  bool one = n && (!cn_match_attribute(m, "$again") || last_dims(m, "$again") == n);
  return is_float(m) && one && cn_match_give(m, "$shape", cn_v_ints(x->shape + x->ndim - n, (size_t)n));
}

/* A weight or bias of a norm: as large as what the norm is over. */
static bool is_affine(const cn_match *m)
{
  const cn_value *shape = cn_match_attribute(m, "$shape");
  const cn_desc *w = desc_of(m, "new");
  return is_float(m) && w->dtype == desc_of(m, "x")->dtype && w->device == desc_of(m, "x")->device &&
         cni_same_shape(w->ndim, w->shape, shape->n, shape->u.is);
}

/* A product of rows with a matrix, and one number for each of its columns. */
static bool is_linear(const cn_match *m)
{
  const cn_desc *x = desc_of(m, "x"), *w = desc_of(m, "w"), *b = desc_of(m, "b");
  return is_float(m) && x->ndim > 1 && w->ndim == 2 && b->ndim == 1 && b->shape[0] == w->shape[1] &&
         w->dtype == x->dtype && b->dtype == x->dtype;
}

/* One number for each channel of a convolution of images. */
static bool is_channels(const cn_match *m)
{
  const cn_desc *y = desc_of(m, ""), *w = desc_of(m, "w"), *b = desc_of(m, "b");
  if (!is_float(m) || y->ndim != 4 || b->dtype != y->dtype || b->device != y->device) return false;
  const int64_t channels = w->shape[0], across[4] = {1, channels, 1, 1};
  return (b->ndim == 3 || b->ndim == 4) && cni_same_shape(b->ndim, b->shape, b->ndim, across + 4 - b->ndim) &&
         cn_match_give(m, "$channels", cn_v_ints(&channels, 1));
}

/* Attention over matrices of the same leading dimensions, with the softmax along its keys. */
static bool is_attention(const cn_match *m)
{
  const cn_desc *q = desc_of(m, "x"), *k = desc_of(m, "k"), *v = desc_of(m, "v");
  const int n = q->ndim, dim = dim_of(m, "$dim");
  if (!is_float(m) || (n != 3 && n != 4) || k->ndim != n || v->ndim != n || dim != n - 1) return false;
  if (k->dtype != q->dtype || v->dtype != q->dtype) return false;
  for (int i = 0; i < n - 2; i++)
    if (q->shape[i] != k->shape[i] || q->shape[i] != v->shape[i]) return false;
  return true;
}

static bool give_scale(const cn_match *m)
{
  double s;
  return is_attention(m) && cn_match_number(&s, m, "#s") && isfinite(s) && cn_match_give(m, "$scale", cn_v_float(s));
}

static bool give_divided(const cn_match *m)
{
  double s;
  return is_attention(m) && cn_match_number(&s, m, "#s") && isfinite(1 / s) &&
         cn_match_give(m, "$scale", cn_v_float(1 / s));
}

/* Is what is added a mask: no more than one number for each query and key? */
static bool is_mask(const cn_match *m)
{
  return desc_of(m, "mask")->dtype == desc_of(m, "x")->dtype && desc_of(m, "mask")->ndim <= desc_of(m, "x")->ndim &&
         desc_of(m, "mask")->ndim > 1;
}
static bool masked(const cn_match *m) { return is_mask(m) && is_attention(m); }
static bool masked_scale(const cn_match *m) { return is_mask(m) && give_scale(m); }
static bool masked_divided(const cn_match *m) { return is_mask(m) && give_divided(m); }

#define LARGEST "(amax(x, $most, true) | max_dim(x, $one, true))"
#define SQUARE(x) "(square(" x ") | pow(" x ", 2) | mul(" x ", " x "))"
#define CENTRED "d = sub(x, mean(x, $dims, true, none))"
#define VARIANCE "add((mean(" SQUARE("d") ", $again, true, none) | var(x, $again, 0, true)), #eps)"
#define MEAN_SQUARE "add(mean(" SQUARE("x") ", $dims, true, none), #eps)"
#define PHI "add(erf((true_divide(x, ~1.4142135623730951) | mul(x, ~0.7071067811865476))), 1)"
#define CUBE "(pow(x, 3) | mul(" SQUARE("x") ", x))"
#define TANH_PHI "add(tanh(mul(add(x, mul(" CUBE ", ~0.044715)), ~0.7978845608028654)), 1)"
#define CLAMPED "(clamp_both(add(x, 3), 0, 6) | hardtanh(add(x, 3), 0.0, 6.0) | clamp(add(x, 3), 0, 6))"

/* Attention's result lies as its queries do, where a product's is row-major: queries that do not are copied, as the
 * product would have done. */
#define ATTENTION_OF(name, query, scores, mask, when, scale)                                                     \
  {                                                                                                              \
    name, "matmul(softmax(" scores ", $dim, none), v)", when,                                                    \
      "scaled_dot_product_attention(" query ", transpose(k, -2, -1), v, " mask ", 0.0, false, " scale ", false)", \
      false                                                                                                      \
  }
#define ATTENTION(scores, mask, when, scale)                 \
  ATTENTION_OF("attention", "x", scores, mask, when, scale), \
    ATTENTION_OF("attention, copied", "contiguous(x)", scores, mask, when, scale)

static const cn_rewrite rows[] = {
  {"softmax", "true_divide(e = exp(x), sum(e, $dims, true, none))", give_dim, "softmax(x, $dim, none)", true},
  {"softmax, shifted", "softmax(sub(x, " LARGEST "), $dim, none)", same_dim, "softmax(x, $dim, none)", true},
  {"log_softmax", "sub(x, (logsumexp(x, $dims, true) | log(sum(exp(x), $dims, true, none))))", give_dim,
   "log_softmax(x, $dim, none)", true},
  {"log_softmax, shifted", "log_softmax(sub(x, " LARGEST "), $dim, none)", same_dim, "log_softmax(x, $dim, none)",
   true},
  {"logsumexp, shifted", "add(logsumexp(sub(x, most = amax(x, $most, true)), $dim, true), most)", same_dim,
   "logsumexp(x, $dim, true)", true},
  {"layer_norm", "(true_divide(" CENTRED ", sqrt(" VARIANCE ")) | mul(" CENTRED ", (rsqrt(" VARIANCE
                 ") | reciprocal(sqrt(" VARIANCE ")))))",
   give_shape, "layer_norm(x, $shape, none, none, #eps)", false},
  {"layer_norm, weight", "mul(layer_norm(x, $shape, none, none, $eps), new)", is_affine,
   "layer_norm(x, $shape, new, none, $eps)", false},
  {"layer_norm, bias", "add(layer_norm(x, $shape, w, none, $eps), new)", is_affine,
   "layer_norm(x, $shape, w, new, $eps)", false},
  {"rms_norm", "(mul(x, (rsqrt(" MEAN_SQUARE ") | reciprocal(sqrt(" MEAN_SQUARE
               ")))) | true_divide(x, sqrt(" MEAN_SQUARE ")))",
   give_shape, "rms_norm(x, $shape, none, #eps)", false},
  {"rms_norm, weight", "mul(rms_norm(x, $shape, none, $eps), new)", is_affine, "rms_norm(x, $shape, new, $eps)",
   false},
  {"sigmoid", "(true_divide(1, add(exp(neg(x)), 1)) | reciprocal(add(exp(neg(x)), 1)))", is_float, "sigmoid(x)", true},
  {"silu", "(mul(x, sigmoid(x)) | true_divide(x, add(exp(neg(x)), 1)))", is_float, "silu(x)", true},
  {"gelu", "(mul(mul(x, 0.5), " PHI ") | mul(mul(x, " PHI "), 0.5) | mul(x, mul(" PHI ", 0.5)))", is_float,
   "gelu(x, 'none')", true},
  {"gelu, tanh", "(mul(mul(x, 0.5), " TANH_PHI ") | mul(mul(x, " TANH_PHI "), 0.5) | mul(x, mul(" TANH_PHI ", 0.5)))",
   is_float, "gelu(x, 'tanh')", true},
  {"hardsigmoid", "(true_divide(" CLAMPED ", 6) | mul(" CLAMPED ", ~0.16666666666666666))", is_float, "hardsigmoid(x)",
   true},
  {"hardswish", "(mul(x, hardsigmoid(x)) | true_divide(mul(x, " CLAMPED "), 6))", is_float, "hardswish(x)", true},
  {"mish", "mul(x, tanh((softplus(x, 1.0, 20.0) | log1p(exp(x)) | log(add(exp(x), 1)))))", is_float, "mish(x)", true},
  {"linear", "add((matmul(x, w) | mm(x, w)), b)", is_linear, "linear(x, transpose(w, 0, 1), b)", false},
  {"conv2d, bias", "add(conv2d(x, w, none, $stride, $padding, $dilation, $groups), b)", is_channels,
   "conv2d(x, w, view(b, $channels), $stride, $padding, $dilation, $groups)", false},
  ATTENTION("add(mul(matmul(x, k), #s), mask)", "mask", masked_scale, "$scale"),
  ATTENTION("add(true_divide(matmul(x, k), #s), mask)", "mask", masked_divided, "$scale"),
  ATTENTION("add(matmul(x, k), mask)", "mask", masked, "1.0"),
  ATTENTION("mul(matmul(x, k), #s)", "none", give_scale, "$scale"),
  ATTENTION("true_divide(matmul(x, k), #s)", "none", give_divided, "$scale"),
  ATTENTION("matmul(x, k)", "none", is_attention, "1.0"),
  {"cross_entropy", "nll_loss(log_softmax(x, $dim, none), t, (none | w), $ignored, $how)", NULL,
   "cross_entropy(x, t, w, $ignored, $how, 0.0)", true},
};

/* Ops that patterns name, and that captures take apart. */
static bool is_looked_for(const cn_op *op, void *payload)
{
  const int id = cni_op_info(op)->id;
  (void)payload;
  return id == CNI_OP_matmul || id == CNI_OP_nll_loss;
}

int cni_pass_recognise(cn_graph *g)
{
  int lifted = cn_graph_lift(g, is_looked_for, NULL);
  return lifted < 0 ? lifted : cni_graph_rewrite(g, rows, sizeof rows / sizeof *rows, true);
}
