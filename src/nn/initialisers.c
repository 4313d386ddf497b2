/* initialisers.c: initialisers: what parameters start from. The distributions of torch.nn.init.
 *
 * Place in the flow: over ops, for layers and programs. Invariant: they write in place without a record, and draw from
 * the thread's random numbers, so that a seed repeats them. */
#include <cairn/nn.h>
#include <math.h>
#include <string.h>

#include "nn.h"

/* Ends an initialiser: `done` is the last op's result. */
static int finish(cn_scope *s, int saved, const cn_tensor *done)
{
  cn_no_grad_end(saved);
  cn_scope_end(s);
  return done ? CN_OK : cn_err();
}

static int draw_uniform(cn_tensor *t, double a, double b)
{
  if (!(a <= b)) return cn_err_set(CN_ERR_VALUE, "init: the lower bound is above the upper one");
  cn_scope *s = cn_scope_begin();
  int saved = cn_no_grad_begin();
  /* Bounds that are both 0 would read as the op's defaults. */
  cn_tensor *done = a < b ? cn_uniform_(t, .from = cni_option(a), .to = cni_option(b)) : cn_fill_(t, cn_num(a));
  return finish(s, saved, done);
}

static int draw_normal(cn_tensor *t, double mean, double std)
{
  if (!(std >= 0)) return cn_err_set(CN_ERR_VALUE, "init: the standard deviation cannot be negative");
  cn_scope *s = cn_scope_begin();
  int saved = cn_no_grad_begin();
  cn_tensor *done = cn_normal_fill_(t, .mean = cni_option(mean), .std = cni_option(std));
  return finish(s, saved, done);
}

int cn_init_uniform(cn_tensor *t, double a, double b) { return draw_uniform(t, a, b); }
int cn_init_normal(cn_tensor *t, double mean, double std) { return draw_normal(t, mean, std); }

int cn_init_constant(cn_tensor *t, double value)
{
  cn_scope *s = cn_scope_begin();
  int saved = cn_no_grad_begin();
  return finish(s, saved, cn_fill_(t, cn_num(value)));
}

int cn_init_ones(cn_tensor *t) { return cn_init_constant(t, 1); }
int cn_init_zeros(cn_tensor *t) { return cn_init_constant(t, 0); }

int cn_init_eye(cn_tensor *t)
{
  if (cn_ndim(t) != 2)
    return cn_err_set(CN_ERR_SHAPE, "init: eye is for matrices, not for %d dimensions", cn_ndim(t));
  cn_scope *s = cn_scope_begin();
  int saved = cn_no_grad_begin();
  return finish(s, saved, cn_fill_(cn_diagonal(cn_fill_(t, cn_num(0))), cn_num(1)) ? t : NULL);
}

/* Ones in the middle of the kernels that lead from channel d to channel d of each group. */
int cn_init_dirac(cn_tensor *t, int64_t groups)
{
  int ndim = cn_ndim(t);
  if (ndim < 3 || ndim > 5) return cn_err_set(CN_ERR_SHAPE, "init: dirac is for 3 to 5 dimensions, not %d", ndim);
  if (groups < 1 || cn_size(t, 0) % groups)
    return cn_err_set(CN_ERR_VALUE, "init: %lld channels do not fall into %lld groups", (long long)cn_size(t, 0),
                      (long long)groups);
  int64_t per = cn_size(t, 0) / groups, least = per < cn_size(t, 1) ? per : cn_size(t, 1);
  cn_scope *s = cn_scope_begin();
  int saved = cn_no_grad_begin();
  cn_tensor *done = cn_fill_(t, cn_num(0)), *middle = done;
  for (int d = ndim - 1; d >= 2 && middle; d--) middle = cn_select(middle, d, cn_size(t, d) / 2);
  for (int64_t g = 0; g < groups && done; g++) {
    cn_tensor *block = cn_narrow(cn_narrow(middle, 0, g * per, least), 1, 0, least);
    done = cn_fill_(cn_diagonal(block), cn_num(1));
  }
  return finish(s, saved, done);
}

/* ---- by the number of inputs and outputs ---- */

/* How many numbers flow into one result, and out of one input. */
static int fans(const cn_tensor *t, double *in, double *out)
{
  double field = 1;
  if (cn_ndim(t) < 2)
    return cn_err_set(CN_ERR_SHAPE,
                      "init: inputs and outputs of a tensor with fewer than 2 dimensions are not known");
  for (int d = 2; d < cn_ndim(t); d++) field *= (double)cn_size(t, d);
  *in = (double)cn_size(t, 1) * field;
  *out = (double)cn_size(t, 0) * field;
  return CN_OK;
}

double cn_init_gain(const char *nonlinearity, double param)
{
  static const struct {
    const char *name;
    double gain;
  } known[] = {{"linear", 1},           {"conv1d", 1},           {"conv2d", 1},  {"conv3d", 1},
               {"conv_transpose1d", 1}, {"conv_transpose2d", 1}, {"sigmoid", 1}, {"conv_transpose3d", 1},
               {"tanh", 5.0 / 3},       {"selu", 0.75}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (!strcmp(known[i].name, nonlinearity)) return known[i].gain;
  if (!strcmp(nonlinearity, "relu")) return sqrt(2);
  if (!strcmp(nonlinearity, "leaky_relu")) {
    double slope = isnan(param) ? 0.01 : param;
    return sqrt(2 / (1 + slope * slope));
  }
  cn_err_set(CN_ERR_VALUE, "init: the gain of \"%s\" is not known", nonlinearity);
  return 0;
}

static int xavier_std(double *std, const cn_tensor *t, double gain)
{
  double in, out;
  int status = fans(t, &in, &out);
  if (!status) *std = in + out > 0 ? gain * sqrt(2 / (in + out)) : 0;
  return status;
}

int cn_init_xavier_uniform(cn_tensor *t, double gain)
{
  double std, bound;
  if (xavier_std(&std, t, gain)) return cn_err();
  bound = fabs(sqrt(3) * std);
  return draw_uniform(t, -bound, bound);
}

int cn_init_xavier_normal(cn_tensor *t, double gain)
{
  double std;
  return xavier_std(&std, t, gain) ? cn_err() : draw_normal(t, 0, fabs(std));
}

static int kaiming_std(double *std, const cn_tensor *t, const cn_init_kaiming_opts *opts)
{
  cn_init_kaiming_opts room;
  const cn_init_kaiming_opts *o = cn_opts_read(&room, sizeof room, opts, "kaiming");
  double in, out;
  if (!o || fans(t, &in, &out)) return cn_err();
  const char *mode = o->mode ? o->mode : "fan_in";
  if (strcmp(mode, "fan_in") && strcmp(mode, "fan_out"))
    return cn_err_set(CN_ERR_VALUE, "init: mode is \"fan_in\" or \"fan_out\", not \"%s\"", mode);
  double fan = !strcmp(mode, "fan_in") ? in : out;
  double gain = cn_init_gain(o->nonlinearity ? o->nonlinearity : "leaky_relu", o->a);
  *std = fan > 0 ? gain / sqrt(fan) : 0;
  return gain > 0 ? CN_OK : cn_err();
}

int cn_init_kaiming_uniform_with(cn_tensor *t, const cn_init_kaiming_opts *opts)
{
  double std;
  if (kaiming_std(&std, t, opts)) return cn_err();
  return draw_uniform(t, -sqrt(3) * std, sqrt(3) * std);
}

int cn_init_kaiming_normal_with(cn_tensor *t, const cn_init_kaiming_opts *opts)
{
  double std;
  return kaiming_std(&std, t, opts) ? cn_err() : draw_normal(t, 0, std);
}

/* ---- others ---- */

/* The inverse of the distribution function at numbers uniform between its values at a and b. */
int cn_init_trunc_normal(cn_tensor *t, double mean, double std, double a, double b)
{
  if (!(std > 0) || !(a < b)) return cn_err_set(CN_ERR_VALUE, "init: needs std above 0 and a below b");
  double root = sqrt(2), low = erf((a - mean) / std / root), high = erf((b - mean) / std / root);
  if (!(low < high)) return cn_init_constant(t, fabs(a - mean) < fabs(b - mean) ? a : b); /* far out in one tail */
  cn_scope *s = cn_scope_begin();
  int saved = cn_no_grad_begin();
  cn_uniform_(t, .from = cni_option(low), .to = cni_option(high));
  cn_erfinv_(t);
  cn_mul_(t, cn_num(std * root));
  cn_add_(t, cn_num(mean));
  cn_tensor *done = cn_clamp_(t, cn_num(a), cn_num(b));
  return finish(s, saved, done);
}

/* The first factor of a random matrix's QR, with signs that make it uniform over all orthogonal matrices. */
int cn_init_orthogonal(cn_tensor *t, double gain)
{
  if (cn_ndim(t) < 2) return cn_err_set(CN_ERR_SHAPE, "init: orthogonal needs 2 or more dimensions");
  if (!cn_numel(t)) return cn_err();
  int64_t rows = cn_size(t, 0), columns = cn_numel(t) / rows;
  bool wide = rows < columns;
  cn_scope *s = cn_scope_begin();
  int saved = cn_no_grad_begin();
  cn_tensor *q = NULL, *r = NULL;
  cn_dtype type = cn_dtype_of(t) == CN_F64 ? CN_F64 : CN_F32;
  cn_tensor *flat = cn_randn(CN_SHAPE(wide ? columns : rows, wide ? rows : columns), .dtype = type);
  cn_linalg_qr(&q, &r, flat);
  q = cn_mul(q, cn_sign(cn_diagonal(r)));
  if (wide) q = cn_t(q);
  q = cn_reshape(cn_mul(q, cn_num(gain)), cn_shape(t), (size_t)cn_ndim(t));
  if (q && cn_device_of(t) != cn_device_of(q)) q = cn_to_device(q, cn_device_of(t));
  cn_tensor *done = q ? cn_copy_(t, q) : NULL;
  return finish(s, saved, done);
}

/* In each column the rows with the smallest of random numbers become zero. */
int cn_init_sparse(cn_tensor *t, double sparsity, double std)
{
  if (cn_ndim(t) != 2) return cn_err_set(CN_ERR_SHAPE, "init: sparse is for matrices");
  if (!(sparsity >= 0 && sparsity <= 1)) return cn_err_set(CN_ERR_VALUE, "init: sparsity lies between 0 and 1");
  int64_t zeros = (int64_t)ceil(sparsity * (double)cn_size(t, 0));
  if (draw_normal(t, 0, std) || !zeros || !cn_size(t, 1)) return cn_err();
  cn_scope *s = cn_scope_begin();
  int saved = cn_no_grad_begin();
  cn_tensor *order = cn_argsort(cn_rand(cn_shape(t), 2, .device = cn_device_of(t)), .dim = CN_ZERO);
  cn_tensor *first = cn_narrow(order, 0, 0, zeros);
  cn_tensor *none = cn_zeros(CN_SHAPE(zeros, cn_size(t, 1)), .dtype = cn_dtype_of(t), .device = cn_device_of(t));
  cn_tensor *done = cn_scatter_(t, 0, first, none);
  return finish(s, saved, done);
}
