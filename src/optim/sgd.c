/* sgd.c: SGD, and Lion, which steps by signs. */
#include <cairn/ext/parts.h>

#include "scalar.h"
#include "optim.h"

/* ---- SGD: lr, momentum, dampening, weight_decay, nesterov, maximize ---- */

static int sgd_check(const cn_value *a)
{
  if (cni_at_least("SGD", "lr", a[0].u.f, 0) || cni_at_least("SGD", "momentum", a[1].u.f, 0) ||
      cni_at_least("SGD", "weight_decay", a[3].u.f, 0))
    return cn_err();
  if (a[4].u.i && (a[1].u.f <= 0 || a[2].u.f != 0))
    return cn_err_set(CN_ERR_VALUE, "SGD: nesterov needs a momentum and no dampening");
  return CN_OK;
}

static int sgd_update(cni_turn *t)
{
  const cn_value *a = t->a;
  double momentum = a[1].u.f;
  bool maximize = a[5].u.i;
  if (momentum == 0) {
    cn_descend_(t->param, t->grad, t->lr, .weight_decay = a[3].u.f, .maximize = maximize);
    return cn_err();
  }
  bool first = !t->m->state[0]; /* the buffer begins as the gradient, undamped */
  cn_tensor *buffer = cni_state_like(t, 0, 0);
  if (!buffer) return cn_err();
  return cn_sgd_update_(t->param, buffer, t->grad, t->lr, momentum, first ? 1 : 1 - a[2].u.f,
                        .weight_decay = a[3].u.f, .nesterov = a[4].u.i != 0, .maximize = maximize);
}

static const cni_optim_class sgd = {
  .sig = "SGD(float lr=0.001, float momentum=0, float dampening=0, float weight_decay=0, bool nesterov=False, "
         "bool maximize=False) -> Optimizer ; sgd",
  .doc = "Stochastic gradient descent, with momentum if asked for.",
  .keys = "lr momentum dampening weight_decay nesterov maximize foreach=None differentiable=False fused=None",
  .states = {{"momentum_buffer", false}},
  .check = sgd_check,
  .update = sgd_update,
};

/* ---- Lion: lr, betas, weight_decay, maximize ---- */

static int lion_check(const cn_value *a)
{
  if (cni_at_least("Lion", "lr", a[0].u.f, 0) || cni_at_least("Lion", "weight_decay", a[2].u.f, 0)) return cn_err();
  return cni_betas("Lion", a[1].u.fs);
}

static int lion_update(cni_turn *t)
{
  const cn_value *a = t->a;
  const double *beta = a[1].u.fs;
  cn_tensor *avg = cni_state_like(t, 0, 0);
  cn_tensor *decay = cni_decay(t->lr, a[2].u.f);
  if (!avg || !decay) return cn_err();
  return cn_lion_update_(t->param, avg, t->grad, t->lr, decay, beta[0], 1 - beta[0], beta[1], 1 - beta[1],
                         .maximize = a[3].u.i != 0);
}

static const cni_optim_class lion = {
  .sig = "Lion(float lr=0.0001, float[2] betas=[0.9, 0.99], float weight_decay=0, bool maximize=False) -> Optimizer "
         "; lion",
  .doc = "Evolved sign momentum (Chen et al., 2023): steps of one size along the sign of an average.",
  .keys = "lr betas weight_decay maximize",
  .states = {{"exp_avg", false}},
  .check = lion_check,
  .update = lion_update,
};

const cni_optim_class *const cni_optim_sgd_classes[] = {&sgd, &lion, NULL};
