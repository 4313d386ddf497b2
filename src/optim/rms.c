/* rms.c: those that divide by the size of past gradients: RMSprop, Adagrad, Adadelta. */
#include <cairn/ext/parts.h>

#include "optim.h"
#include "scalar.h"

enum { STEP, SQUARE_AVG, MOMENTUM_BUFFER, GRAD_AVG, ACC_DELTA = MOMENTUM_BUFFER, SUM = SQUARE_AVG };

/* ---- RMSprop ---- */

static int rmsprop_update(cni_param_step *s)
{
  cni_rmsprop_settings a = cni_rmsprop_settings_of(s->a);
  double alpha = a.alpha, weight = 1 - alpha, eps = a.eps, decay = a.weight_decay, momentum = a.momentum;
  bool up = a.maximize;
  cn_tensor *step = cni_state_scalar(s, STEP, 0), *square = cni_state_like(s, SQUARE_AVG, 0);
  cn_tensor *buffer = momentum > 0 ? cni_state_like(s, MOMENTUM_BUFFER, 0) : NULL;
  cn_tensor *avg = a.centered ? cni_state_like(s, GRAD_AVG, 0) : NULL;
  if (cn_err() || !cn_add_(step, cn_num(1))) return cn_err();
  if (avg && buffer)
    return cn_rmsprop_centered_momentum_update_(s->param, square, avg, buffer, s->grad, s->lr, alpha, weight, eps,
                                                .weight_decay = decay, .maximize = up, .momentum = momentum);
  if (avg)
    return cn_rmsprop_centered_update_(s->param, square, avg, s->grad, s->lr, alpha, weight, eps,
                                       .weight_decay = decay, .maximize = up);
  if (buffer)
    return cn_rmsprop_momentum_update_(s->param, square, buffer, s->grad, s->lr, alpha, weight, eps,
                                       .weight_decay = decay, .maximize = up, .momentum = momentum);
  return cn_rmsprop_update_(s->param, square, s->grad, s->lr, alpha, weight, eps, .weight_decay = decay,
                            .maximize = up);
}

static const cni_optim_class rmsprop = {
  .sig = "RMSprop(float lr=0.01, float alpha=0.99, float eps=1e-08, float weight_decay=0, float momentum=0, "
         "bool centered=False, bool maximize=False) -> Optimizer ; rmsprop",
  .doc = "Gradients divided by the root of an average of their squares; centered subtracts the square of their mean.",
  .keys = "lr momentum alpha eps centered weight_decay capturable=False foreach=None maximize differentiable=False",
  .states = {[STEP] = {"step", true}, [SQUARE_AVG] = {"square_avg", false},
             [MOMENTUM_BUFFER] = {"momentum_buffer", false}, [GRAD_AVG] = {"grad_avg", false}},
  .not_negative = "lr alpha eps weight_decay momentum",
  .update = rmsprop_update,
};

/* ---- Adagrad ---- */

static int adagrad_begin(cni_param_step *s)
{
  cni_adagrad_settings a = cni_adagrad_settings_of(s->a);
  return cni_state_scalar(s, STEP, 0) && cni_state_like(s, SUM, a.initial_accumulator_value) ? CN_OK : cn_err();
}

/* Counts the step; the learning rate of this one. */
static cn_tensor *adagrad_rate(cni_param_step *s, const cni_adagrad_settings *a)
{
  cn_tensor *step = cni_count_step(s, STEP);
  return cni_over(s->lr, cni_shifted(cni_scaled(cni_shifted(step, -1), a->lr_decay), 1));
}

static int adagrad_update(cni_param_step *s)
{
  cni_adagrad_settings a = cni_adagrad_settings_of(s->a);
  cn_tensor *rate = adagrad_rate(s, &a), *sum = cni_state_like(s, SUM, a.initial_accumulator_value);
  if (!rate || !sum) return cn_err();
  return cn_adagrad_update_(s->param, sum, s->grad, rate, a.eps, .weight_decay = a.weight_decay,
                            .maximize = a.maximize);
}

static int adagrad_sparse(cni_param_step *s)
{
  cni_adagrad_settings a = cni_adagrad_settings_of(s->a);
  cni_touched t;
  if (a.weight_decay != 0)
    return cn_err_set(CN_ERR_VALUE, "Adagrad: weight_decay option is not compatible with sparse gradients");
  cn_tensor *rate = adagrad_rate(s, &a), *sum = cni_state_like(s, SUM, a.initial_accumulator_value);
  if (!rate || !sum || cni_touch(&t, s)) return cn_err();
  if (cni_add_to_rows(&t, sum, cn_square(t.values))) return cn_err();
  cn_tensor *size = cn_add(cn_sqrt(cni_touched_rows(&t, sum)), cn_num(a.eps));
  return cni_add_to_rows(&t, s->param, cn_mul(cn_true_divide(t.values, size), a.maximize ? rate : cn_neg(rate)));
}

static const cni_optim_class adagrad = {
  .sig = "Adagrad(float lr=0.01, float lr_decay=0, float weight_decay=0, float initial_accumulator_value=0, "
         "float eps=1e-10, bool maximize=False) -> Optimizer ; adagrad",
  .doc = "Gradients divided by the root of the sum of their squares so far.",
  .keys = "lr lr_decay eps weight_decay initial_accumulator_value foreach=None maximize differentiable=False "
          "fused=None",
  .states = {[STEP] = {"step", true}, [SUM] = {"sum", false}},
  .not_negative = "lr lr_decay weight_decay initial_accumulator_value eps",
  .begin = adagrad_begin,
  .update = adagrad_update,
  .sparse = adagrad_sparse,
};

/* ---- Adadelta ---- */

static int adadelta_check(const cn_value *values)
{
  double rho = cni_adadelta_settings_of(values).rho;
  if (rho >= 0 && rho <= 1) return CN_OK;
  return cn_err_set(CN_ERR_VALUE, "Adadelta: rho must be in [0, 1], but is %g", rho);
}

static int adadelta_update(cni_param_step *s)
{
  cni_adadelta_settings a = cni_adadelta_settings_of(s->a);
  cn_tensor *step = cni_state_scalar(s, STEP, 0), *square = cni_state_like(s, SQUARE_AVG, 0);
  cn_tensor *delta = cni_state_like(s, ACC_DELTA, 0);
  if (cn_err() || !cn_add_(step, cn_num(1))) return cn_err();
  return cn_adadelta_update_(s->param, square, delta, s->grad, s->lr, a.rho, 1 - a.rho, a.eps,
                             .weight_decay = a.weight_decay, .maximize = a.maximize);
}

static const cni_optim_class adadelta = {
  .sig = "Adadelta(float lr=1.0, float rho=0.9, float eps=1e-06, float weight_decay=0, bool maximize=False) "
         "-> Optimizer ; adadelta",
  .doc = "Gradients scaled by the ratio of the sizes of past steps and past gradients.",
  .keys = "lr rho eps weight_decay maximize capturable=False foreach=None differentiable=False",
  .states = {[STEP] = {"step", true}, [SQUARE_AVG] = {"square_avg", false}, [ACC_DELTA] = {"acc_delta", false}},
  .not_negative = "lr eps weight_decay",
  .check = adadelta_check,
  .update = adadelta_update,
};

const cni_optim_class *const cni_optim_rms_classes[] = {&rmsprop, &adagrad, &adadelta, NULL};
