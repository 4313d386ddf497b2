/* complex_reduce.c: reductions of complex numbers that are not linear: products, variances, norms, truth.
 *
 * Place in the flow: as complex_rules.c. Invariant: products multiply halves or neighbours, so that a dimension of n
 * takes log2 n steps, and gradients need no quotient. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>

#include "complex.h"

/* The first argument, in the type that `at` asks for. */
static cn_tensor *typed(const cn_call *c, int at)
{
  int64_t dtype = cni_arg_int_or(c->args, at, c->in[0]->d.dtype);
  return cni_in_type(c->in[0], (int)dtype);
}

/* The product along dim, which becomes 1. */
static cn_tensor *product(cn_tensor *x, int64_t dim)
{
  int64_t n = cn_size(x, dim);
  if (n == 0) {
    return cn_add(cn_sum(x, .dim = CN_INTS(dim), .keepdim = true), cn_num(1)); /* a sum of nothing, and 1 */
  }
  for (; x && n > 1; n = n - n / 2) {
    int64_t half = n / 2;
    cn_tensor *y = cn_mul(cn_narrow(x, dim, 0, half), cn_narrow(x, dim, half, half));
    x = n % 2 ? cn_cat(CN_TENSORS(y, cn_narrow(x, dim, n - 1, 1)), .dim = cni_option(dim)) : y;
  }
  return x;
}

int cni_complex_prod(cn_call *c)
{
  cn_tensor *x = cn_reshape(typed(c, 1), CN_SHAPE(-1));
  c->out[0] = cn_reshape(product(x, 0), CN_SCALAR_SHAPE);
  return cn_err();
}

/* (input, dim, keepdim, dtype) */
int cni_complex_prod_dim(cn_call *c)
{
  cn_tensor *x = typed(c, 3);
  int dim = x ? cn_call_dim(c, cni_arg_int(c->args, 1), x->d.ndim) : cn_err();
  if (dim < 0) return dim;
  if (x->d.ndim == 0) c->out[0] = cn_clone(x);
  else {
    cn_tensor *y = product(x, dim);
    c->out[0] = cni_arg_bool(c->args, 2) ? y : cn_squeeze(y, .dim = CN_INTS(dim));
  }
  return cn_err();
}

/* (input, dim, dtype): each step multiplies by what lies twice as far back */
int cni_complex_cumprod(cn_call *c)
{
  cn_tensor *x = typed(c, 2);
  int dim = x ? cn_call_dim(c, cni_arg_int(c->args, 1), x->d.ndim) : cn_err();
  if (dim < 0) return dim;
  if (x->d.ndim == 0) {
    c->out[0] = cn_clone(x);
    return cn_err();
  }
  int64_t n = x->d.shape[dim];
  cn_tensor *y = cn_clone(x);
  for (int64_t back = 1; y && back < n; back *= 2) {
    cn_tensor *later = cn_mul(cn_narrow(y, dim, back, n - back), cn_narrow(y, dim, 0, n - back));
    y = cn_cat(CN_TENSORS(cn_narrow(y, dim, 0, back), later), .dim = cni_option(dim));
  }
  c->out[0] = y;
  return cn_err();
}

/* ---- statistics: the variances of both parts add up ---- */

int cni_complex_var(cn_call *c)
{
  cni_z z = cni_parts(c->in[0]);
  cn_tensor *re = cni_call_again(c, &z.re), *im = cni_call_again(c, &z.im);
  c->out[0] = cn_add(re, im);
  return cn_err();
}

/* (input, dim, correction, keepdim) */
int cni_complex_std(cn_call *c)
{
  const cn_value *dim = &c->args[1];
  cn_var_opts o = {.size = sizeof o, .correction = cni_option_float(cni_arg_float(c->args, 2)),
                   .keepdim = cni_arg_bool(c->args, 3)};
  if (dim->tag == CN_V_INTS) o.dim = (cn_ints){dim->u.is, (size_t)dim->n};
  c->out[0] = cn_sqrt(cn_var_with(c->in[0], &o));
  return cn_err();
}

static cn_ints dims_of(const cn_value *dim)
{
  return dim->tag == CN_V_INTS ? (cn_ints){dim->u.is, (size_t)dim->n} : (cn_ints){NULL, 0};
}

static int spread_and_mean(cn_call *c, bool root)
{
  bool keepdim = cni_arg_bool(c->args, 3);
  cn_tensor *var = cn_var(c->in[0], .dim = dims_of(&c->args[1]), .keepdim = keepdim,
                          .correction = cni_option_float(cni_arg_float(c->args, 2)));
  c->out[0] = root ? cn_sqrt(var) : var;
  c->out[1] = cn_mean(c->in[0], .dim = dims_of(&c->args[1]), .keepdim = keepdim);
  return cn_err();
}
int cni_complex_var_mean(cn_call *c) { return spread_and_mean(c, false); }
int cni_complex_std_mean(cn_call *c) { return spread_and_mean(c, true); }

/* x / sqrt(mean(x^2) + eps) * weight, as PyTorch has it. (input, normalized_shape, weight, eps) */
int cni_complex_rms_norm(cn_call *c)
{
  int64_t dims[CN_MAX_DIMS];
  cn_tensor *x = c->in[0];
  int n = c->args[1].n, ndim = x->d.ndim;
  if (n < 1 || n > ndim || !cni_same_shape(n, c->args[1].u.is, n, x->d.shape + ndim - n))
    return cn_call_fail(c, CN_ERR_SHAPE, "normalized_shape must be the sizes of the last dimensions");
  for (int i = 0; i < n; i++) dims[i] = ndim - n + i;
  double eps = cni_dtype_part(x->d.dtype) == CN_F64 ? 0x1p-52 : 0x1p-23;
  if (!cni_arg_none(c->args, 3)) eps = cni_arg_float(c->args, 3);
  cn_tensor *mean = cn_mean(cn_square(x), .dim = {dims, (size_t)n}, .keepdim = true);
  cn_tensor *y = cn_mul(x, cn_rsqrt(cn_add(mean, cn_num(eps))));
  c->out[0] = c->in[1] ? cn_mul(y, c->in[1]) : y;
  return cn_err();
}

/* ---- logarithms of sums of exponentials ---- */

/* (input, dim, keepdim): less the largest real part, which is added again */
int cni_complex_logsumexp(cn_call *c)
{
  cn_tensor *x = c->in[0];
  const cn_value *dim = &c->args[1];
  bool keepdim = cni_arg_bool(c->args, 2);
  if (x->d.numel == 0) {
    c->out[0] = cn_log(cn_sum(cn_exp(x), .dim = dims_of(dim), .keepdim = keepdim));
    return cn_err();
  }
  cn_tensor *most = cn_amax(cn_detach(cn_real(x)), .dim = dims_of(dim), .keepdim = true);
  most = cn_where(cn_isfinite(most), most, cn_num(0));
  cn_tensor *sum = cn_sum(cn_exp(cn_sub(x, most)), .dim = dims_of(dim), .keepdim = true);
  cn_tensor *y = cn_add(cn_log(sum), most);
  if (!keepdim && x->d.ndim) y = dim->n ? cn_squeeze(y, .dim = dims_of(dim)) : cn_reshape(y, CN_SCALAR_SHAPE);
  c->out[0] = y;
  return cn_err();
}

/* (input, dim): one after the other, since the turns of the imaginary part depend on the order */
int cni_complex_logcumsumexp(cn_call *c)
{
  cn_tensor *x = c->in[0], *last = NULL, *y = NULL;
  int dim = cn_call_dim(c, cni_arg_int(c->args, 1), x->d.ndim);
  if (dim < 0) return dim;
  int64_t n = x->d.ndim ? x->d.shape[dim] : 1;
  if (n < 2 || x->d.ndim == 0) return c->out[0] = cn_clone(x), cn_err();
  cn_tensor **sums = cni_alloc((size_t)n * sizeof *sums);
  if (!sums) return CN_ERR_MEMORY;
  for (int64_t i = 0; i < n; i++) {
    cn_tensor *next = cn_select(x, dim, i);
    sums[i] = last = last ? cn_logaddexp(last, next) : next;
  }
  if (!cn_err()) y = cn_stack(sums, (size_t)n, .dim = cni_option(dim));
  cni_free(sums, (size_t)n * sizeof *sums);
  c->out[0] = y;
  return cn_err();
}

/* Norms are those of absolute values. (x, ord, dim, keepdim, dtype) */
int cni_complex_linalg_vector_norm(cn_call *c)
{
  cn_tensor *x = typed(c, 4);
  if (x && !cni_is_z(x))
    return cn_call_fail(c, CN_ERR_DTYPE, "dtype must be complex where the input is, not %s",
                        cn_dtype_name((cn_dtype)x->d.dtype));
  cn_value args[CN_MAX_ARGS];
  cn_call real = *c;
  memcpy(args, c->args, (size_t)c->nargs * sizeof *args);
  args[4] = cn_v_none();
  real.args = args;
  cn_tensor *size = cn_abs(x);
  c->out[0] = cni_call_again(&real, &size);
  return cn_err();
}

/* ---- truth ---- */

static int of_truth(cn_call *c)
{
  cn_tensor *some = cn_ne(c->in[0], cn_int(0));
  c->out[0] = cni_call_again(c, &some);
  return cn_err();
}
int cni_complex_all(cn_call *c) { return of_truth(c); }
int cni_complex_any(cn_call *c) { return of_truth(c); }
int cni_complex_count_nonzero(cn_call *c) { return of_truth(c); }
int cni_complex_nonzero(cn_call *c) { return of_truth(c); }
