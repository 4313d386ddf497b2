/* sgd.c: SGD, with momentum if asked for. */
#include <cairn/ext/parts.h>

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

static int sgd_update(cni_param_step *s)
{
  cni_sgd_settings a = cni_sgd_settings_of(s->a);
  if (a.momentum == 0) {
    cn_descend_(s->param, s->grad, s->lr, .weight_decay = a.weight_decay, .maximize = a.maximize);
    return cn_err();
  }
  bool first = !s->m->state[MOMENTUM_BUFFER]; /* the buffer begins as the gradient, undamped */
  cn_tensor *buffer = cni_state_like(s, MOMENTUM_BUFFER, 0);
  if (!buffer) return cn_err();
  return cn_sgd_update_(s->param, buffer, s->grad, s->lr, a.momentum, first ? 1 : 1 - a.dampening,
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

const cni_optim_class *const cni_optim_sgd_classes[] = {&sgd, NULL};
