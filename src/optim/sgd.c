/* sgd.c: SGD, and Lion, which steps by signs. */
#include <cairn/ext/parts.h>

#include "scalar.h"
#include "optim.h"

/* ---- SGD ---- */

enum { MOMENTUM_BUFFER };

static int sgd_check(const cn_value *values)
{
  cni_sgd_settings a = cni_sgd_settings_of(values);
  if (a.nesterov && (a.momentum <= 0 || a.dampening != 0))
    return cn_err_set(CN_ERR_VALUE, "SGD: nesterov needs a momentum and no dampening");
  return CN_OK;
}

static int sgd_update(cni_turn *t)
{
  cni_sgd_settings a = cni_sgd_settings_of(t->a);
  if (a.momentum == 0) {
    cn_descend_(t->param, t->grad, t->lr, .weight_decay = a.weight_decay, .maximize = a.maximize);
    return cn_err();
  }
  bool first = !t->m->state[MOMENTUM_BUFFER]; /* the buffer begins as the gradient, undamped */
  cn_tensor *buffer = cni_state_like(t, MOMENTUM_BUFFER, 0);
  if (!buffer) return cn_err();
  return cn_sgd_update_(t->param, buffer, t->grad, t->lr, a.momentum, first ? 1 : 1 - a.dampening,
                        .weight_decay = a.weight_decay, .nesterov = a.nesterov, .maximize = a.maximize);
}

static const cni_optim_class sgd = {
  .sig = "SGD(float lr=0.001, float momentum=0, float dampening=0, float weight_decay=0, bool nesterov=False, "
         "bool maximize=False) -> Optimizer ; sgd",
  .doc = "Stochastic gradient descent, with momentum if asked for.",
  .keys = "lr momentum dampening weight_decay nesterov maximize foreach=None differentiable=False fused=None",
  .states = {[MOMENTUM_BUFFER] = {"momentum_buffer", false}},
  .not_negative = "lr momentum weight_decay",
  .check = sgd_check,
  .update = sgd_update,
};

/* ---- Lion ---- */

enum { EXP_AVG };

static int lion_update(cni_turn *t)
{
  cni_lion_settings a = cni_lion_settings_of(t->a);
  const double *beta = a.betas;
  cn_tensor *avg = cni_state_like(t, EXP_AVG, 0);
  cn_tensor *decay = cni_decay(t->lr, a.weight_decay);
  if (!avg || !decay) return cn_err();
  return cn_lion_update_(t->param, avg, t->grad, t->lr, decay, beta[0], 1 - beta[0], beta[1], 1 - beta[1],
                         .maximize = a.maximize);
}

static const cni_optim_class lion = {
  .sig = "Lion(float lr=0.0001, float[2] betas=[0.9, 0.99], float weight_decay=0, bool maximize=False) -> Optimizer "
         "; lion",
  .doc = "Evolved sign momentum (Chen et al., 2023): steps of one size along the sign of an average.",
  .keys = "lr betas weight_decay maximize",
  .states = {[EXP_AVG] = {"exp_avg", false}},
  .not_negative = "lr weight_decay",
  .betas = true,
  .update = lion_update,
};

const cni_optim_class *const cni_optim_sgd_classes[] = {&sgd, &lion, NULL};
