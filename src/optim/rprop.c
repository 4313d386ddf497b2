/* rprop.c: Rprop: resilient backpropagation, which heeds the signs of gradients only.
 *
 * Place in the flow: a class of optim.c's table, which calls update for each parameter. Invariant: a step's size stays
 * within step_sizes, whatever the gradients are. */
#include <cairn/ext/parts.h>

#include "optim.h"

enum { STEP, PREV, STEP_SIZE };

static int rprop_check(const cn_value *values)
{
  const double *eta = cni_rprop_settings_of(values).etas;
  if (eta[0] > 0 && eta[0] < 1 && eta[1] > 1) return CN_OK;
  return cn_err_set(CN_ERR_VALUE, "Rprop: etas must be below and above 1, but are %g and %g", eta[0], eta[1]);
}

static int rprop_update(cni_param_step *s)
{
  cni_rprop_settings a = cni_rprop_settings_of(s->a);
  const double *eta = a.etas, *range = a.step_sizes;
  if (!s->m->state[STEP_SIZE] && !cni_state_like(s, STEP_SIZE, cni_rate_now(s))) return cn_err();
  cn_tensor *step = cni_state_scalar(s, STEP, 0), *prev = cni_state_like(s, PREV, 0);
  if (cn_err() || !cn_add_(step, cn_num(1))) return cn_err();
  return cn_rprop_update_(s->param, prev, s->m->state[STEP_SIZE], s->grad, eta[0], eta[1], range[0], range[1],
                          .maximize = a.maximize);
}

static const cni_optim_class rprop = {
  .sig = "Rprop(float lr=0.01, float[2] etas=[0.5, 1.2], float[2] step_sizes=[1e-06, 50.0], bool maximize=False) "
         "-> Optimizer ; rprop",
  .doc = "Steps along the sign of the gradient, longer while it stays the same; for whole batches.",
  .keys = "lr etas step_sizes foreach=None maximize differentiable=False capturable=False",
  .states = {[STEP] = {"step", true}, [PREV] = {"prev", false}, [STEP_SIZE] = {"step_size", false}},
  .not_negative = "lr",
  .check = rprop_check,
  .update = rprop_update,
};

const cni_optim_class *const cni_optim_rprop_classes[] = {&rprop, NULL};
