/* matrix.c: optimisers that see a parameter as a matrix: Adafactor and Muon. They are made of ordinary ops; only the
 * last step, into the parameter, is an update of its own. */
#include <cairn/ext/parts.h>
#include <cairn/graph.h>
#include <math.h>
#include <string.h>

#include "optim.h"
#include "scalar.h"

/* ---- Adafactor ---- */

enum { STEP, ROW_VAR, COL_VAR, VARIANCE };

static int adafactor_check(const cn_value *values)
{
  const char *who = "Adafactor";
  cni_adafactor_settings a = cni_adafactor_settings_of(values);
  if (a.beta2_decay > 0)
    return cn_err_set(CN_ERR_VALUE, "Adafactor: beta2_decay must not be above 0, but is %g", a.beta2_decay);
  if (!isnan(a.eps[0]) && cni_at_least(who, "eps[0]", a.eps[0], 0)) return cn_err();
  if (cni_at_least(who, "eps[1]", a.eps[1], 0) || cni_at_least(who, "d", a.d, 1)) return cn_err();
  return CN_OK;
}

/* The distance from 1 to the next number of a type. */
static double type_epsilon(cn_dtype dtype)
{
  return dtype == CN_F64 ? 0x1p-52 : dtype == CN_F16 ? 0x1p-10 : dtype == CN_BF16 ? 0x1p-7 : 0x1p-23;
}

/* State i: zeros of the gradient's shape, but 1 long in one dim; then moved towards the mean square along that dim. */
static cn_tensor *factor(cni_param_step *s, int i, int64_t dim, cn_tensor *g, cn_tensor *weight)
{
  int ndim = cn_ndim(g);
  int64_t shape[CN_MAX_DIMS], at = ndim + dim, length = cn_size(g, dim);
  for (int k = 0; k < ndim; k++) shape[k] = k == at ? 1 : cn_shape(g)[k];
  if (!s->m->state[i]) {
    void *trace = cn_trace_pause();
    int status = cni_state_begin(
      s, i, cn_zeros(shape, (size_t)ndim, .dtype = cn_dtype_of(s->param), .device = cn_device_of(s->param)));
    cn_trace_resume(trace);
    if (status) return NULL;
  }
  cn_tensor *norm = cn_linalg_vector_norm(g, .dim = CN_INTS(dim), .keepdim = true);
  cn_tensor *mean = norm ? cn_true_divide(cn_mul(norm, norm), cn_int(length)) : NULL;
  return mean ? cn_lerp_(s->m->state[i], mean, weight) : NULL;
}

/* An estimate of the mean square of each element of the gradient. */
static cn_tensor *variance(cni_param_step *s, cn_tensor *g, cn_tensor *weight, double eps)
{
  if (cn_ndim(g) < 2) {
    cn_tensor *v = cni_state_like(s, VARIANCE, 0);
    return v && weight ? cn_lerp_(v, cn_mul(g, g), weight) : NULL;
  }
  cn_tensor *row = factor(s, ROW_VAR, -1, g, weight), *col = row ? factor(s, COL_VAR, -2, g, weight) : NULL;
  cn_tensor *mean = col ? cn_mean(row, .dim = CN_INTS(-2), .keepdim = true) : NULL;
  return mean ? cn_true_divide(cn_mul(row, col), cn_clamp_min(mean, cn_num(eps))) : NULL;
}

static cn_tensor *root_mean_square(cn_tensor *x)
{
  return cni_scaled(cni_wide(x ? cn_linalg_vector_norm(x, .ord = 2) : NULL), 1 / sqrt((double)cn_numel(x)));
}

static int adafactor_update(cni_param_step *s)
{
  cni_adafactor_settings a = cni_adafactor_settings_of(s->a);
  double eps = isnan(a.eps[0]) ? type_epsilon(cn_dtype_of(s->param)) : a.eps[0];
  if (!cn_numel(s->param)) return CN_OK;
  cn_tensor *g = a.maximize ? cn_neg(s->grad) : s->grad, *step = cni_count_step(s, STEP);
  if (!g || !step) return cn_err();
  cn_tensor *slow = cn_minimum(s->lr, cn_true_divide(cn_num(1), cn_sqrt(step)));
  cn_tensor *size = root_mean_square(s->param);
  cn_tensor *alpha = size ? cni_times(cn_clamp_min(size, cn_num(a.eps[1])), slow) : NULL;
  cn_tensor *var = alpha ? variance(s, g, cni_to_power(step, a.beta2_decay), eps) : NULL;
  cn_tensor *update = var ? cn_mul(cn_rsqrt(cn_clamp_min(var, cn_num(eps * eps))), g) : NULL;
  cn_tensor *most = update ? cni_scaled(root_mean_square(update), 1 / a.d) : NULL;
  cn_tensor *rate = most ? cni_over(alpha, cn_clamp_min(most, cn_num(1))) : NULL;
  cn_tensor *decay = cni_decay(s->lr, a.weight_decay);
  return rate && decay && cn_advance_(s->param, update, rate, decay) ? CN_OK : cn_err();
}

static const cni_optim_class adafactor = {
  .sig = "Adafactor(float lr=0.01, float beta2_decay=-0.8, float[2] eps=[nan, 0.001], float d=1.0, "
         "float weight_decay=0, bool maximize=False) -> Optimizer ; adafactor",
  .doc = "Adam without a first moment, whose second is kept as a row and a column. eps[0] nan: that of the type.",
  .keys = "lr beta2_decay eps d weight_decay foreach=None maximize",
  .states = {[STEP] = {"step", true}, [ROW_VAR] = {"row_var", false}, [COL_VAR] = {"col_var", false},
             [VARIANCE] = {"variance", false}},
  .not_negative = "lr weight_decay",
  .check = adafactor_check,
  .update = adafactor_update,
};

/* ---- Muon ---- */

enum { MOMENTUM_BUFFER };

/* What the rate is multiplied by for a matrix of this shape. Negative: there is no such rule. */
static double rate_factor(const char *rule, double rows, double columns)
{
  if (!rule || !strcmp(rule, "original")) return sqrt(fmax(1, rows / columns));
  if (!strcmp(rule, "match_rms_adamw")) return 0.2 * sqrt(fmax(rows, columns));
  if (!strcmp(rule, "spectral_unclamped")) return sqrt(rows / columns);
  return -1;
}

static int muon_check(const cn_value *values)
{
  cni_muon_settings a = cni_muon_settings_of(values);
  if (a.ns_steps < 0 || a.ns_steps >= 100)
    return cn_err_set(CN_ERR_VALUE, "Muon: ns_steps must be in [0, 100), but is %lld", (long long)a.ns_steps);
  if (rate_factor(a.adjust_lr_fn, 1, 1) >= 0) return CN_OK;
  return cn_err_set(CN_ERR_VALUE, "Muon: adjust_lr_fn must be 'original', 'match_rms_adamw' or 'spectral_unclamped', "
                    "not '%s'", a.adjust_lr_fn);
}

static int muon_check_param(cn_tensor *p)
{
  if (cn_ndim(p) == 2) return CN_OK;
  return cn_err_set(CN_ERR_VALUE, "Muon: its parameters are matrices, not tensors of %d dims; give the others to "
                    "another optimiser", cn_ndim(p));
}

/* The matrix with about the same singular vectors and all singular values near 1, by Newton and Schulz, in bfloat16. */
static cn_tensor *orthogonal(cn_tensor *g, const double *k, double eps, int64_t steps)
{
  bool tall = cn_size(g, 0) > cn_size(g, 1);
  cn_tensor *x = cn_cast(g, CN_BF16);
  if (tall && x) x = cn_transpose(x, 0, 1);
  x = x ? cn_true_divide(x, cn_clamp_min(cn_linalg_vector_norm(x, .ord = 2), cn_num(eps))) : NULL;
  for (int64_t i = 0; i < steps && x; i++) {
    cn_tensor *gram = cn_matmul(x, cn_transpose(x, 0, 1));
    cn_tensor *update = gram ? cn_addmm(gram, gram, gram, .beta = k[1], .alpha = k[2]) : NULL;
    x = update ? cn_addmm(x, update, x, .beta = k[0]) : NULL;
  }
  return tall && x ? cn_transpose(x, 0, 1) : x;
}

static int muon_update(cni_param_step *s)
{
  cni_muon_settings a = cni_muon_settings_of(s->a);
  cn_tensor *buffer = cni_state_like(s, MOMENTUM_BUFFER, 0);
  if (!buffer || !cn_lerp_(buffer, s->grad, cn_num(1 - a.momentum))) return cn_err();
  cn_tensor *g = a.nesterov ? cn_lerp(s->grad, buffer, cn_num(a.momentum)) : buffer;
  cn_tensor *update = g ? orthogonal(g, a.ns_coefficients, a.eps, a.ns_steps) : NULL;
  double factor_of = rate_factor(a.adjust_lr_fn, (double)cn_size(s->param, 0), (double)cn_size(s->param, 1));
  cn_tensor *rate = cni_scaled(s->lr, factor_of), *decay = cni_decay(s->lr, a.weight_decay);
  return update && rate && decay && cn_advance_(s->param, update, rate, decay) ? CN_OK : cn_err();
}

static const cni_optim_class muon = {
  .sig = "Muon(float lr=0.001, float weight_decay=0.1, float momentum=0.95, bool nesterov=True, "
         "float[3] ns_coefficients=[3.4445, -4.775, 2.0315], float eps=1e-07, int ns_steps=5, "
         "str? adjust_lr_fn=None) -> Optimizer ; muon",
  .doc = "Momentum made orthogonal, for matrices of hidden layers.",
  .keys = "lr weight_decay momentum nesterov ns_coefficients eps ns_steps adjust_lr_fn",
  .states = {[MOMENTUM_BUFFER] = {"momentum_buffer", false}},
  .not_negative = "lr weight_decay momentum",
  .check = muon_check,
  .check_param = muon_check_param,
  .update = muon_update,
};

const cni_optim_class *const cni_optim_matrix_classes[] = {&adafactor, &muon, NULL};
