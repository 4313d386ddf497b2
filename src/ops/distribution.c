/* distribution.c: the family of random distributions: what is made of uniform and normal numbers, integers, trials,
 * choices.
 *
 * Place in the flow: composites over rand_like, randn and randint, each followed by one pointwise pass; multinomial and
 * poisson have kernels (cpu/random/multinomial.c). Invariant: results depend on the seed and the number of draws before
 * alone, on any device and any number of threads. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>
#include <math.h>

#include "families.h"
#include "shorthand.h"

/* The type that draws for a tensor of this type are made in: no rounding of small numbers in float16. */
static cn_dtype draw_type(int dtype)
{
  return dtype == CN_F32 || dtype == CN_F16 || dtype == CN_BF16 ? CN_F32 : CN_F64;
}

static int check_float(const cn_call *c)
{
  int dtype = c->in[0]->d.dtype;
  if (cni_dtype_is_float(dtype) && cni_dtype_computes(dtype)) return CN_OK;
  return cn_call_fail(c, CN_ERR_DTYPE, "draws floating-point numbers, not %s", cn_dtype_name((cn_dtype)dtype));
}

/* A program of one input and some constants, in one pass; the result in input's type. */
static cn_tensor *shaped(cn_tensor *draws, const char *program, const double *consts, size_t n, int dtype)
{
  cn_tensor *y = NULL;
  if (!draws) return NULL;
  if (cn_pointwise(&y, 1, &draws, 1, program, consts, n) < 0) return NULL;
  return cni_in_type(y, dtype);
}

static cn_tensor *uniform_like(cn_tensor *x, cn_dtype dtype) { return cn_rand_like(x, .dtype = dtype); }
static cn_tensor *normal_like(cn_tensor *x, cn_dtype dtype) { return cn_randn_like(x, .dtype = dtype); }

/* ---- one number per element: (input, ...) says the shape ---- */

/* uniform(input, from, to) */
static int uniform_decompose(cn_call *c)
{
  double from = cni_arg_float(c->args, 1), to = cni_arg_float(c->args, 2);
  int dtype = c->in[0]->d.dtype, status = check_float(c);
  if (status) return status;
  if (!(from <= to)) return cn_call_fail(c, CN_ERR_VALUE, "from %g must not be above to %g", from, to);
  if (!isfinite(to - from)) return cn_call_fail(c, CN_ERR_VALUE, "the range from %g to %g is too wide", from, to);
  c->out[0] = shaped(uniform_like(c->in[0], (cn_dtype)dtype), "1|@0,@1|mul 0 2;add 3 1|4",
                     (double[]){from, to - from}, 2, dtype);
  return cn_err();
}

/* normal_fill(input, mean, std) and log_normal(input, mean, std) */
static int normal_with(cn_call *c, const char *program)
{
  double mean = cni_arg_float(c->args, 1), std = cni_arg_float(c->args, 2);
  int dtype = c->in[0]->d.dtype, status = check_float(c);
  if (status) return status;
  c->out[0] = shaped(normal_like(c->in[0], draw_type(dtype)), program, (double[]){mean, std}, 2, dtype);
  return cn_err();
}
static int normal_fill_decompose(cn_call *c)
{
  double std = cni_arg_float(c->args, 2);
  if (!(std >= 0)) return cn_call_fail(c, CN_ERR_VALUE, "std must not be negative, but is %g", std);
  return normal_with(c, "1|@0,@1|mul 0 2;add 3 1|4");
}
static int log_normal_decompose(cn_call *c)
{
  double std = cni_arg_float(c->args, 2);
  if (!(std > 0)) return cn_call_fail(c, CN_ERR_VALUE, "std must be positive, but is %g", std);
  return normal_with(c, "1|@0,@1|mul 0 2;add 3 1;exp 4|5");
}

/* exponential(input, lambd): -log(1 - u) / lambd, never 0. */
static int exponential_decompose(cn_call *c)
{
  double rate = cni_arg_float(c->args, 1);
  int dtype = c->in[0]->d.dtype, status = check_float(c);
  if (status) return status;
  if (!(rate > 0)) return cn_call_fail(c, CN_ERR_VALUE, "lambd must be positive, but is %g", rate);
  double least = draw_type(dtype) == CN_F32 ? 0x1p-25 : 0x1p-54;
  c->out[0] = shaped(uniform_like(c->in[0], draw_type(dtype)), "1|@0,@1|neg 0;log1p 3;neg 4;maximum 5 2;div 6 1|7",
                     (double[]){rate, least}, 2, dtype);
  return cn_err();
}

/* cauchy(input, median, sigma): median + sigma tan(pi (u - 1/2)) */
static int cauchy_decompose(cn_call *c)
{
  double median = cni_arg_float(c->args, 1), sigma = cni_arg_float(c->args, 2);
  int dtype = c->in[0]->d.dtype, status = check_float(c);
  if (status) return status;
  if (!(sigma > 0)) return cn_call_fail(c, CN_ERR_VALUE, "sigma must be positive, but is %g", sigma);
  c->out[0] =
      shaped(uniform_like(c->in[0], draw_type(dtype)), "1|@0,@1,@2,0.5|sub 0 4;mul 5 3;tan 6;mul 7 2;add 8 1|9",
             (double[]){median, sigma, 3.14159265358979324}, 3, dtype);
  return cn_err();
}

/* geometric(input, p): the trials until the first success, 1 at least. */
static int geometric_decompose(cn_call *c)
{
  double p = cni_arg_float(c->args, 1);
  int dtype = c->in[0]->d.dtype;
  if (!(p > 0 && p < 1)) return cn_call_fail(c, CN_ERR_VALUE, "p must lie between 0 and 1, but is %g", p);
  c->out[0] = shaped(uniform_like(c->in[0], draw_type(dtype)), "1|@0,1|neg 0;log1p 3;div 4 1;ceil 5;maximum 6 2|7",
                     (double[]){log1p(-p)}, 1, dtype);
  return cn_err();
}

/* bernoulli_p(input, p): of input the shape and type alone. */
static int bernoulli_p_decompose(cn_call *c)
{
  double p = cni_arg_float(c->args, 1);
  int dtype = c->in[0]->d.dtype;
  if (!(p >= 0 && p <= 1)) return cn_call_fail(c, CN_ERR_VALUE, "p must lie between 0 and 1, but is %g", p);
  cn_tensor *draws = uniform_like(c->in[0], draw_type(dtype));
  c->out[0] = cni_in_type(cn_lt(draws, cn_num(p)), dtype);
  return cn_err();
}

/* ---- integers ---- */

/* randint_like(input, low, high, dtype, device) */
static int randint_like_decompose(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  c->out[0] = cn_randint(cni_arg_int(c->args, 1), cni_arg_int(c->args, 2), d->shape, (size_t)d->ndim,
                         .dtype = (cn_dtype)cni_arg_int_or(c->args, 3, d->dtype),
                         .device = (cn_device)cni_arg_int_or(c->args, 4, d->device));
  return cn_err();
}

/* One more than the largest integer up to which a type holds all of them. */
static int64_t integers_of(int dtype)
{
  switch (dtype) {
  case CN_BOOL: return 2;
  case CN_F16: return (1 << 11) + 1;
  case CN_BF16: return (1 << 8) + 1;
  case CN_F32: return (1 << 24) + 1;
  case CN_F64: return ((int64_t)1 << 53) + 1;
  default: break;
  }
  int bits = 8 * (int)cni_dtype_size(dtype) - (cn_dtype_is_signed((cn_dtype)dtype) ? 1 : 0);
  return bits >= 63 ? INT64_MAX : (int64_t)1 << bits;
}

/* random_integers(input, low, high): low None: 0; high None: all that the type holds. */
static int random_integers_decompose(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  int64_t low = cni_arg_int_or(c->args, 1, 0), high = cni_arg_int_or(c->args, 2, integers_of(d->dtype));
  c->out[0] = cn_randint(low, high, d->shape, (size_t)d->ndim, .dtype = cn_dtype_of(c->in[0]), .device = d->device);
  return cn_err();
}

/* ---- normal(mean, std) ---- */

static int normal_type(const cn_call *c)
{
  const cn_desc *mean = &c->in[0]->d, *std = &c->in[1]->d;
  return cni_float_type(mean->weak ? std->dtype : mean->dtype);
}

static int normal_infer(cn_call *c)
{
  int64_t shape[CN_MAX_DIMS];
  int ndim, status = cni_broadcast_inputs(c, c->in, 2, &ndim, shape);
  if (status) return status;
  if (c->in[1]->d.weak && !c->in[1]->d.data)
    return cn_call_fail(c, CN_ERR_CAPTURE, "std must be known where it is a number");
  if (c->in[1]->d.weak && !(cni_load_f64(c->in[1]->d.data, 0, c->in[1]->d.dtype) >= 0))
    return cn_call_fail(c, CN_ERR_VALUE, "std must not be negative");
  status = cn_call_result(c, 0, normal_type(c), ndim, shape);
  if (!status) cni_follow_strides(c, 0, c->in, 1); /* as the sum in its decomposition does */
  return status;
}
/* As in PyTorch a draw carries a gradient, of zero. */
static int no_gradient(cn_vjp *v)
{
  for (int i = 0; i < v->nin; i++) v->gin[i] = NULL;
  return CN_OK;
}
static int normal_decompose(cn_call *c)
{
  int64_t shape[CN_MAX_DIMS];
  int ndim, status = cni_broadcast_inputs(c, c->in, 2, &ndim, shape), dtype = normal_type(c);
  if (status) return status;
  if (!c->in[1]->d.weak) /* those are looked at by infer: they are part of the call */
    cn_check_within(cn_detach(c->in[1]), 0, HUGE_VAL, "normal: std must not be negative");
  cn_tensor *z = cn_randn(shape, (size_t)ndim, .dtype = draw_type(dtype), .device = c->device);
  c->out[0] = cni_in_type(cn_add(c->in[0], cn_mul(z, c->in[1])), dtype);
  return cn_err();
}

/* ---- multinomial(input, num_samples, replacement) ---- */

static int multinomial_infer(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  int64_t n = cni_arg_int(c->args, 1), shape[2] = {0};
  if (d->ndim != 1 && d->ndim != 2)
    return cn_call_fail(c, CN_ERR_SHAPE, "takes weights of 1 or 2 dimensions, not %d", d->ndim);
  if (!cni_dtype_is_float(d->dtype))
    return cn_call_fail(c, CN_ERR_DTYPE, "takes weights of a floating-point type, not %s",
                        cn_dtype_name((cn_dtype)d->dtype));
  int64_t categories = d->shape[d->ndim - 1];
  if (n < 1) return cn_call_fail(c, CN_ERR_VALUE, "num_samples must be positive, but is %lld", (long long)n);
  if (!cni_arg_bool(c->args, 2) && n > categories)
    return cn_call_fail(c, CN_ERR_VALUE, "%lld samples without replacement do not fit %lld categories", (long long)n,
                        (long long)categories);
  if (categories > (int64_t)1 << 24)
    return cn_call_fail(c, CN_ERR_SHAPE, "%lld categories are more than 2^24", (long long)categories);
  shape[0] = d->shape[0];
  shape[d->ndim - 1] = n;
  return cn_call_result(c, 0, CN_I64, d->ndim, shape);
}

/* ---- poisson(input) ---- */

static int poisson_infer(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  int status = check_float(c);
  return status ? status : cn_call_result(c, 0, d->dtype, d->ndim, d->shape);
}

/* ---- gumbel_softmax(logits, tau, hard, eps, dim) ---- */

/* Softmax of logits with Gumbel noise, -log of exponential numbers. Hard: one-hot forward, soft backward. */
static int gumbel_softmax_decompose(cn_call *c)
{
  double tau = cni_arg_float(c->args, 1);
  int64_t dim = cni_arg_int(c->args, 4);
  int status = check_float(c);
  if (status) return status;
  cn_tensor *noise = cn_neg(cn_log(cn_exponential(cn_detach(c->in[0]))));
  cn_tensor *soft = cn_softmax(cn_true_divide(cn_add(c->in[0], noise), cn_num(tau)), dim), *best = NULL, *at = NULL;
  c->out[0] = soft;
  if (!cni_arg_bool(c->args, 2) || !soft) return cn_err();
  cn_tensor *still = cn_detach(soft);
  cn_max_dim(&best, &at, still, dim, .keepdim = true);
  cn_tensor *chosen = cn_scatter(cn_zeros_like(still), dim, at, cn_num(1));
  c->out[0] = cn_add(cn_sub(chosen, still), soft);
  return cn_err();
}

#define DRAWN CN_OP_COMPOSITE | CN_OP_RANDOM
/* clang-format off */
const cn_op cni_distribution_ops[] = {
  {.sig = "uniform(Tensor input, float from=0, float to=1) -> Tensor ; method inplace complex_parts",
   .doc = "Uniform random numbers in [from, to), like input.",
   .flags = DRAWN, .decompose = uniform_decompose},
  {.sig = "normal_fill(Tensor input, float mean=0, float std=1) -> Tensor ; method inplace",
   .doc = "Normal random numbers of that mean and standard deviation, like input.",
   .flags = DRAWN, .decompose = normal_fill_decompose},
  {.sig = "log_normal(Tensor input, float mean=1, float std=2) -> Tensor ; method inplace",
   .doc = "Numbers whose logarithms are normal with that mean and standard deviation, like input.",
   .flags = DRAWN, .decompose = log_normal_decompose},
  {.sig = "exponential(Tensor input, float lambd=1) -> Tensor ; method inplace",
   .doc = "Exponential random numbers of rate lambd, like input.",
   .flags = DRAWN, .decompose = exponential_decompose},
  {.sig = "cauchy(Tensor input, float median=0, float sigma=1) -> Tensor ; method inplace",
   .doc = "Random numbers of the Cauchy distribution, like input.",
   .flags = DRAWN, .decompose = cauchy_decompose},
  {.sig = "geometric(Tensor input, float p) -> Tensor ; method inplace",
   .doc = "The number of trials up to the first success of probability p, at least 1, like input.",
   .flags = DRAWN, .decompose = geometric_decompose},
  {.sig = "bernoulli_p(Tensor input, float p=0.5) -> Tensor ; method inplace overload_bernoulli",
   .doc = "1 with probability p, 0 otherwise, like input.",
   .flags = DRAWN, .decompose = bernoulli_p_decompose},
  {.sig = "randint_like(Tensor input, int low, int high, *, dtype? dtype=None, device? device=None) -> Tensor",
   .doc = "Random integers from low up to but without high, in input's shape and type.",
   .flags = DRAWN, .decompose = randint_like_decompose},
  {.sig = "random_integers(Tensor input, int? low=None, int? high=None) -> Tensor ; method inplace",
   .doc = "Random integers from low (0) up to but without high (as far as the type holds all of them), like input.",
   .flags = DRAWN, .decompose = random_integers_decompose},
  {.sig = "normal(Tensor|Scalar mean, Tensor|Scalar std) -> Tensor",
   .doc = "Normal random numbers with a mean and a standard deviation for each, which broadcast. Its gradient is zero.",
   .flags = CN_OP_RANDOM, .infer = normal_infer, .vjp = no_gradient, .decompose = normal_decompose},
  {.sig = "multinomial(Tensor input, int num_samples, bool replacement=False) -> Tensor ; method",
   .doc = "num_samples positions of each row of weights, drawn with probabilities proportional to them; without "
          "replacement each at most once.",
   .flags = CN_OP_RANDOM | CN_OP_NO_GRAD, .infer = multinomial_infer},
  {.sig = "poisson(Tensor input) -> Tensor",
   .doc = "Counts of events, whose expected numbers input holds. Its gradient is zero.",
   .flags = CN_OP_RANDOM, .infer = poisson_infer, .vjp = no_gradient},
  {.sig = "gumbel_softmax(Tensor logits, float tau=1, bool hard=False, float eps=1e-10, int dim=-1) -> Tensor ; nn",
   .doc = "Random samples near the corners of the simplex: softmax over dim of (logits + Gumbel noise) / tau. hard: "
          "one-hot vectors whose gradient is the soft one's. eps has no effect.",
   .flags = DRAWN, .decompose = gumbel_softmax_decompose},
};
/* clang-format on */
CNI_FAMILY(distribution);
