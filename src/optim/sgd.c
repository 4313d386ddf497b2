/* sgd.c: stochastic gradient descent: SGD, with momentum if asked for, and ASGD, which averages. */
#include <cairn/ext/parts.h>

#include "optim.h"
#include "scalar.h"

/* ---- SGD ---- */

enum { MOMENTUM_BUFFER, STARTED }; /* STARTED is not saved: where a buffer is read from a file, it has */

static int sgd_check(const cn_value *values)
{
  cni_sgd_settings a = cni_sgd_settings_of(values);
  if (a.nesterov && (a.momentum <= 0 || a.dampening != 0))
    return cn_err_set(CN_ERR_VALUE, "SGD: nesterov needs a momentum and no dampening");
  return CN_OK;
}

/* The buffer begins as the gradient, undamped. Whether it has begun is a tensor, so that a captured step holds for the
 * first one and those behind it. */
static int damped_update(cni_param_step *s, const cni_sgd_settings *a)
{
  cn_tensor *started = cni_state_scalar(s, STARTED, s->m->state[MOMENTUM_BUFFER] != NULL);
  cn_tensor *buffer = cni_state_like(s, MOMENTUM_BUFFER, 0);
  cn_tensor *blend = cni_shifted(cni_scaled(cni_wide(started), -a->dampening), 1);
  cn_tensor *grad = a->maximize ? cn_neg(s->grad) : s->grad;
  if (a->weight_decay != 0) grad = cn_add(grad, cn_mul(s->param, cn_num(a->weight_decay)));
  if (!buffer || !blend || !grad) return cn_err();
  int status = cn_sgd_update_(s->param, buffer, cn_mul(grad, blend), s->lr, s->beta, 1);
  return status || !cn_copy_(started, cn_num(1)) ? cn_err() : CN_OK;
}

/* The first gradient is the buffer's beginning, undamped: which one that is must be known. */
static bool sgd_skippable(const cn_value *values)
{
  cni_sgd_settings a = cni_sgd_settings_of(values);
  return a.momentum == 0 || a.dampening == 0;
}

static int sgd_update(cni_param_step *s)
{
  cni_sgd_settings a = cni_sgd_settings_of(s->a);
  if (a.momentum == 0) {
    cn_descend_(s->param, s->grad, s->lr, .weight_decay = a.weight_decay, .maximize = a.maximize);
    return cn_err();
  }
  if (a.dampening != 0) return damped_update(s, &a);
  cn_tensor *buffer = cni_state_like(s, MOMENTUM_BUFFER, 0);
  if (!buffer) return cn_err();
  return cn_sgd_update_(s->param, buffer, s->grad, s->lr, s->beta, 1, .weight_decay = a.weight_decay,
                        .nesterov = a.nesterov, .maximize = a.maximize);
}

/* Without momentum and decay the rows that the gradient has are all that moves. */
static int sgd_sparse(cni_param_step *s)
{
  cni_sgd_settings a = cni_sgd_settings_of(s->a);
  if (a.momentum == 0 && a.weight_decay == 0) {
    cn_tensor *step = cn_mul(s->grad, a.maximize ? s->lr : cn_neg(s->lr));
    return step && cn_add_(s->param, step) ? CN_OK : cn_err();
  }
  return (s->grad = cn_to_dense(s->grad)) ? sgd_update(s) : cn_err();
}

static const cni_optim_class sgd = {
  .sig = "SGD(float lr=0.001, float momentum=0, float dampening=0, float weight_decay=0, bool nesterov=False, "
         "bool maximize=False) -> Optimizer ; sgd",
  .doc = "Stochastic gradient descent, with momentum if asked for.",
  .keys = "lr momentum dampening weight_decay nesterov maximize foreach=None differentiable=False fused=None",
  .states = {[MOMENTUM_BUFFER] = {"momentum_buffer", false}},
  .not_negative = "lr momentum weight_decay",
  .cycled = "momentum",
  .check = sgd_check,
  .update = sgd_update,
  .sparse = sgd_sparse,
  .skippable = sgd_skippable,
};

/* ---- ASGD ---- */

enum { STEP, ETA, MU, AX };

static int asgd_update(cni_param_step *s)
{
  cni_asgd_settings a = cni_asgd_settings_of(s->a);
  if (!s->m->state[ETA] && !cni_state_scalar(s, ETA, cni_rate_now(s))) return cn_err();
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

const cni_optim_class *const cni_optim_sgd_classes[] = {&sgd, &asgd, NULL};
