/* robust.c: averaged SGD, and resilient backpropagation, which heeds signs only. */
#include <cairn/ext/parts.h>

#include "optim.h"
#include "scalar.h"

enum { STEP };

/* ---- ASGD ---- */

enum { ETA = 1, MU, AX };

static int asgd_update(cni_param_step *s)
{
  cni_asgd_settings a = cni_asgd_settings_of(s->a);
  if (!s->m->state[ETA] && !cni_state_scalar(s, ETA, cn_item(s->lr))) return cn_err();
  cn_tensor *step = cni_count_step(s, STEP), *eta = s->m->state[ETA], *mu = cni_state_scalar(s, MU, 1);
  cn_tensor *ax = cni_state_like(s, AX, 0), *decay = cni_decay(cni_wide(eta), a.lambd);
  if (!step || !mu || !ax || !decay) return cn_err();
  int status = cn_asgd_update_(s->param, ax, s->grad, eta, decay, mu, .weight_decay = a.weight_decay,
                               .maximize = a.maximize);
  if (status) return status;
  cn_tensor *slower = cni_shifted(cni_times(cni_scaled(s->lr, a.lambd), step), 1);
  cn_tensor *next_eta = cni_over(s->lr, cni_to_power(slower, a.alpha));
  cn_tensor *late = cni_shifted(step, -a.t0);
  cn_tensor *next_mu = late ? cn_true_divide(cn_num(1), cn_clamp_min(late, cn_num(1))) : NULL;
  return next_eta && next_mu && cn_copy_(eta, next_eta) && cn_copy_(mu, next_mu) ? CN_OK : cn_err();
}

static const cni_optim_class asgd = {
  .sig = "ASGD(float lr=0.01, float lambd=0.0001, float alpha=0.75, float t0=1000000.0, float weight_decay=0, "
         "bool maximize=False) -> Optimizer ; asgd",
  .doc = "Averaged stochastic gradient descent; the average of each parameter is in its state as ax.",
  .keys = "lr lambd alpha t0 weight_decay foreach=None maximize differentiable=False capturable=False",
  .states = {[STEP] = {"step", true}, [ETA] = {"eta", true}, [MU] = {"mu", true}, [AX] = {"ax", false}},
  .not_negative = "lr lambd alpha weight_decay",
  .update = asgd_update,
};

/* ---- Rprop ---- */

enum { PREV = 1, STEP_SIZE };

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
  if (!s->m->state[STEP_SIZE] && !cni_state_like(s, STEP_SIZE, cn_item(s->lr))) return cn_err();
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

const cni_optim_class *const cni_optim_robust_classes[] = {&asgd, &rprop, NULL};
