/* lion.c: Lion, which steps by signs. */
#include <cairn/ext/parts.h>

#include "optim.h"
#include "scalar.h"

enum { EXP_AVG };

static int lion_update(cni_param_step *s)
{
  cni_lion_settings a = cni_lion_settings_of(s->a);
  const double *beta = a.betas;
  cn_tensor *avg = cni_state_like(s, EXP_AVG, 0);
  cn_tensor *decay = cni_decay(s->lr, a.weight_decay);
  if (!avg || !decay) return cn_err();
  return cn_lion_update_(s->param, avg, s->grad, s->lr, decay, beta[0], 1 - beta[0], beta[1], 1 - beta[1],
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

const cni_optim_class *const cni_optim_lion_classes[] = {&lion, NULL};
