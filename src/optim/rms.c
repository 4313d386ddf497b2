/* rms.c: those that divide by the size of past gradients: RMSprop, Adagrad, Adadelta. */
#include <cairn/ext/parts.h>

#include "scalar.h"
#include "optim.h"

/* ---- RMSprop: lr, alpha, eps, weight_decay, momentum, centered, maximize ---- */

enum { STEP, SQUARE_AVG, MOMENTUM_BUFFER, GRAD_AVG };

static int rmsprop_check(const cn_value *a)
{
  static const char *const names[] = {"lr", "alpha", "eps", "weight_decay", "momentum"};
  for (int i = 0; i < 5; i++)
    if (cni_at_least("RMSprop", names[i], a[i].u.f, 0)) return cn_err();
  return CN_OK;
}

static int rmsprop_update(cni_turn *t)
{
  const cn_value *a = t->a;
  double alpha = a[1].u.f, weight = 1 - alpha, eps = a[2].u.f, decay = a[3].u.f, momentum = a[4].u.f;
  bool up = a[6].u.i;
  cn_tensor *step = cni_state_scalar(t, STEP, 0), *square = cni_state_like(t, SQUARE_AVG, 0);
  cn_tensor *buffer = momentum > 0 ? cni_state_like(t, MOMENTUM_BUFFER, 0) : NULL;
  cn_tensor *avg = a[5].u.i ? cni_state_like(t, GRAD_AVG, 0) : NULL;
  if (cn_err() || !cn_add_(step, cn_num(1))) return cn_err();
  if (avg && buffer)
    return cn_rmsprop_centered_momentum_update_(t->param, square, avg, buffer, t->grad, t->lr, alpha, weight, eps,
                                                .weight_decay = decay, .maximize = up, .momentum = momentum);
  if (avg)
    return cn_rmsprop_centered_update_(t->param, square, avg, t->grad, t->lr, alpha, weight, eps,
                                       .weight_decay = decay, .maximize = up);
  if (buffer)
    return cn_rmsprop_momentum_update_(t->param, square, buffer, t->grad, t->lr, alpha, weight, eps,
                                       .weight_decay = decay, .maximize = up, .momentum = momentum);
  return cn_rmsprop_update_(t->param, square, t->grad, t->lr, alpha, weight, eps, .weight_decay = decay,
                            .maximize = up);
}

static const cni_optim_class rmsprop = {
  .sig = "RMSprop(float lr=0.01, float alpha=0.99, float eps=1e-08, float weight_decay=0, float momentum=0, "
         "bool centered=False, bool maximize=False) -> Optimizer ; rmsprop",
  .doc = "Gradients divided by the root of an average of their squares; centered subtracts the square of their mean.",
  .keys = "lr momentum alpha eps centered weight_decay capturable=False foreach=None maximize differentiable=False",
  .states = {{"step", true}, {"square_avg", false}, {"momentum_buffer", false}, {"grad_avg", false}},
  .check = rmsprop_check,
  .update = rmsprop_update,
};

/* ---- Adagrad: lr, lr_decay, weight_decay, initial_accumulator_value, eps, maximize ---- */

static int adagrad_check(const cn_value *a)
{
  static const char *const names[] = {"lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps"};
  for (int i = 0; i < 5; i++)
    if (cni_at_least("Adagrad", names[i], a[i].u.f, 0)) return cn_err();
  return CN_OK;
}

static int adagrad_begin(cni_turn *t)
{
  return cni_state_scalar(t, STEP, 0) && cni_state_like(t, 1, t->a[3].u.f) ? CN_OK : cn_err();
}

static int adagrad_update(cni_turn *t)
{
  const cn_value *a = t->a;
  cn_tensor *step = cni_count_step(t, STEP), *sum = cni_state_like(t, 1, a[3].u.f);
  cn_tensor *rate = cni_over(t->lr, cni_shifted(cni_scaled(cni_shifted(step, -1), a[1].u.f), 1));
  if (!rate || !sum) return cn_err();
  return cn_adagrad_update_(t->param, sum, t->grad, rate, a[4].u.f, .weight_decay = a[2].u.f,
                            .maximize = a[5].u.i != 0);
}

static const cni_optim_class adagrad = {
  .sig = "Adagrad(float lr=0.01, float lr_decay=0, float weight_decay=0, float initial_accumulator_value=0, "
         "float eps=1e-10, bool maximize=False) -> Optimizer ; adagrad",
  .doc = "Gradients divided by the root of the sum of their squares so far.",
  .keys = "lr lr_decay eps weight_decay initial_accumulator_value foreach=None maximize differentiable=False "
          "fused=None",
  .states = {{"step", true}, {"sum", false}},
  .check = adagrad_check,
  .begin = adagrad_begin,
  .update = adagrad_update,
};

/* ---- Adadelta: lr, rho, eps, weight_decay, maximize ---- */

static int adadelta_check(const cn_value *a)
{
  if (cni_at_least("Adadelta", "lr", a[0].u.f, 0) || cni_at_least("Adadelta", "eps", a[2].u.f, 0) ||
      cni_at_least("Adadelta", "weight_decay", a[3].u.f, 0))
    return cn_err();
  if (a[1].u.f >= 0 && a[1].u.f <= 1) return CN_OK;
  return cn_err_set(CN_ERR_VALUE, "Adadelta: rho must be in [0, 1], but is %g", a[1].u.f);
}

static int adadelta_update(cni_turn *t)
{
  const cn_value *a = t->a;
  cn_tensor *step = cni_state_scalar(t, STEP, 0), *square = cni_state_like(t, 1, 0), *delta = cni_state_like(t, 2, 0);
  if (cn_err() || !cn_add_(step, cn_num(1))) return cn_err();
  return cn_adadelta_update_(t->param, square, delta, t->grad, t->lr, a[1].u.f, 1 - a[1].u.f, a[2].u.f,
                             .weight_decay = a[3].u.f, .maximize = a[4].u.i != 0);
}

static const cni_optim_class adadelta = {
  .sig = "Adadelta(float lr=1.0, float rho=0.9, float eps=1e-06, float weight_decay=0, bool maximize=False) "
         "-> Optimizer ; adadelta",
  .doc = "Gradients scaled by the ratio of the sizes of past steps and past gradients.",
  .keys = "lr rho eps weight_decay maximize capturable=False foreach=None differentiable=False",
  .states = {{"step", true}, {"square_avg", false}, {"acc_delta", false}},
  .check = adadelta_check,
  .update = adadelta_update,
};

const cni_optim_class *const cni_optim_rms_classes[] = {&rmsprop, &adagrad, &adadelta, NULL};
