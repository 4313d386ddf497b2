/* adam_variants.c: the variants of Adam: Adamax, NAdam, RAdam. Their rates are computed in float64 from the step
 * count. */
#include <cairn/ext/parts.h>

#include "optim.h"
#include "scalar.h"

enum { STEP, EXP_AVG, EXP_AVG_SQ, EXP_INF = EXP_AVG_SQ };

/* ---- Adamax ---- */

static int adamax_update(cni_param_step *s)
{
  cni_adamax_settings a = cni_adamax_settings_of(s->a);
  const double *beta = a.betas;
  cn_tensor *step = cni_count_step(s, STEP), *m = cni_state_like(s, EXP_AVG, 0), *most = cni_state_like(s, EXP_INF, 0);
  cn_tensor *rate = cni_over(s->lr, cni_one_minus(cni_base_to(beta[0], step)));
  if (!rate || !m || !most) return cn_err();
  return cn_adamax_update_(s->param, m, most, s->grad, rate, 1 - beta[0], beta[1], a.eps,
                           .weight_decay = a.weight_decay, .maximize = a.maximize);
}

static const cni_optim_class adamax = {
  .sig = "Adamax(float lr=0.002, float[2] betas=[0.9, 0.999], float eps=1e-08, float weight_decay=0, "
         "bool maximize=False) -> Optimizer ; adamax",
  .doc = "Adam by the infinity norm.",
  .keys = "lr betas eps weight_decay foreach=None maximize differentiable=False capturable=False",
  .states = {[STEP] = {"step", true}, [EXP_AVG] = {"exp_avg", false}, [EXP_INF] = {"exp_inf", false}},
  .not_negative = "lr eps weight_decay",
  .betas = true,
  .update = adamax_update,
};

/* ---- NAdam ---- */

enum { MU_PRODUCT = 1, MU_EXP_AVG, MU_EXP_AVG_SQ };

/* beta1 * (1 - 0.5 * 0.96^(step * momentum_decay)) */
static cn_tensor *nadam_mu(double beta1, cn_tensor *step, double momentum_decay)
{
  cn_tensor *power = cni_base_to(0.96, cni_scaled(step, momentum_decay));
  return cni_scaled(cni_one_minus(cni_scaled(power, 0.5)), beta1);
}

static int nadam_update(cni_param_step *s)
{
  cni_nadam_settings a = cni_nadam_settings_of(s->a);
  const double *beta = a.betas;
  cn_tensor *step = cni_count_step(s, STEP), *product = cni_state_scalar(s, MU_PRODUCT, 1);
  cn_tensor *m = cni_state_like(s, MU_EXP_AVG, 0), *v = cni_state_like(s, MU_EXP_AVG_SQ, 0);
  cn_tensor *mu = nadam_mu(beta[0], step, a.momentum_decay);
  cn_tensor *next = nadam_mu(beta[0], cni_shifted(step, 1), a.momentum_decay);
  if (!mu || !next || !product || !cn_mul_(product, cn_cast(mu, cn_dtype_of(product)))) return cn_err();
  cn_tensor *so_far = cni_wide(product), *correction = cni_one_minus(cni_base_to(beta[1], step));
  cn_tensor *grad_rate = cni_over(cni_times(s->lr, cni_one_minus(mu)), cni_one_minus(so_far));
  cn_tensor *avg_rate = cni_over(cni_times(s->lr, next), cni_one_minus(cni_times(so_far, next)));
  cn_tensor *decay = cni_decay(s->lr, a.weight_decay);
  if (!grad_rate || !avg_rate || !correction || !decay || !m || !v) return cn_err();
  return cn_nadam_update_(s->param, m, v, s->grad, grad_rate, avg_rate, correction, decay, 1 - beta[0], beta[1],
                          1 - beta[1], a.eps, .weight_decay = a.weight_decay, .decoupled = a.decoupled_weight_decay,
                          .maximize = a.maximize);
}

static const cni_optim_class nadam = {
  .sig = "NAdam(float lr=0.002, float[2] betas=[0.9, 0.999], float eps=1e-08, float weight_decay=0, "
         "float momentum_decay=0.004, bool decoupled_weight_decay=False, bool maximize=False) -> Optimizer ; nadam",
  .doc = "Adam with Nesterov momentum.",
  .keys = "lr betas eps weight_decay momentum_decay decoupled_weight_decay maximize foreach=None capturable=False "
          "differentiable=False",
  .states = {[STEP] = {"step", true}, [MU_PRODUCT] = {"mu_product", true}, [MU_EXP_AVG] = {"exp_avg", false},
             [MU_EXP_AVG_SQ] = {"exp_avg_sq", false}},
  .not_negative = "lr eps weight_decay momentum_decay",
  .betas = true,
  .update = nadam_update,
};

/* ---- RAdam ---- */

/* How far the variance can be trusted: 0 where it cannot. */
static cn_tensor *rectification(double beta2, cn_tensor *step, cn_tensor *power, cn_tensor *correction)
{
  double most = 2 / (1 - beta2) - 1;
  cn_tensor *length = cni_over(cni_times(cni_scaled(step, 2), power), correction);
  length = length ? cn_sub(cn_num(most), length) : NULL;
  cn_tensor *top = cni_scaled(cni_times(cni_shifted(length, -4), cni_shifted(length, -2)), most);
  cn_tensor *factor = cni_to_power(cni_over(top, cni_scaled(length, (most - 4) * (most - 2))), 0.5);
  return factor ? cn_where(cn_gt(length, cn_num(5)), factor, cn_num(0)) : NULL;
}

static int radam_update(cni_param_step *s)
{
  cni_radam_settings a = cni_radam_settings_of(s->a);
  const double *beta = a.betas;
  cn_tensor *step = cni_count_step(s, STEP), *m = cni_state_like(s, EXP_AVG, 0), *v = cni_state_like(s, EXP_AVG_SQ, 0);
  cn_tensor *power = cni_base_to(beta[1], step), *second = cni_one_minus(power);
  cn_tensor *first = cni_one_minus(cni_base_to(beta[0], step)), *root = cni_to_power(second, 0.5);
  cn_tensor *rect = rectification(beta[1], step, power, second), *decay = cni_decay(s->lr, a.weight_decay);
  if (!first || !root || !rect || !decay || !m || !v) return cn_err();
  return cn_radam_update_(s->param, m, v, s->grad, s->lr, first, root, rect, decay, 1 - beta[0], beta[1], 1 - beta[1],
                          a.eps, .weight_decay = a.weight_decay, .decoupled = a.decoupled_weight_decay,
                          .maximize = a.maximize);
}

static const cni_optim_class radam = {
  .sig = "RAdam(float lr=0.001, float[2] betas=[0.9, 0.999], float eps=1e-08, float weight_decay=0, "
         "bool decoupled_weight_decay=False, bool maximize=False) -> Optimizer ; radam",
  .doc = "Adam that rectifies the variance of its rate in the first steps.",
  .keys = "lr betas eps weight_decay maximize foreach=None capturable=False decoupled_weight_decay "
          "differentiable=False",
  .states = {[STEP] = {"step", true}, [EXP_AVG] = {"exp_avg", false}, [EXP_AVG_SQ] = {"exp_avg_sq", false}},
  .not_negative = "lr eps weight_decay",
  .betas = true,
  .update = radam_update,
};

const cni_optim_class *const cni_optim_adam_variants_classes[] = {&adamax, &nadam, &radam, NULL};
