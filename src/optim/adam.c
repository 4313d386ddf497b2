/* adam.c: Adam, AdamW, and SparseAdam.
 *
 * Place in the flow: optim.c calls rates for each parameter, an op that counts the step and computes the rates, then
 * update for each, one that updates the parameter and its averages. */
#include <cairn/ext/parts.h>

#include "optim.h"
#include "scalar.h"

enum { STEP, EXP_AVG, EXP_AVG_SQ, MAX_EXP_AVG_SQ };
enum { SIZE, ROOT, DECAY };

static bool skippable(const cn_value *a) { return (void)a, true; }

/* What the two differ in stands in a, whose decoupled_weight_decay counts for both. */
static int rates(cni_param_step *s, const cni_adam_settings *a)
{
  cn_tensor *step = cni_state_scalar(s, STEP, 0);
  cn_tensor *size = cni_rate(s, SIZE), *root = cni_rate(s, ROOT), *keep = cni_rate(s, DECAY);
  if (!step || !size || !root || !keep || cn_err()) return cn_err();
  return cn_adam_rates_(step, size, root, keep, s->lr, s->beta, a->betas[1], .weight_decay = a->weight_decay);
}

static int update(cni_param_step *s, const cni_adam_settings *a)
{
  const double *beta = a->betas;
  const double decay = a->weight_decay;
  const bool heavy = 1 - beta[0] >= 0.5;
  cn_tensor *m = cni_state_like(s, EXP_AVG, 0), *v = cni_state_like(s, EXP_AVG_SQ, 0);
  cn_tensor *most = a->amsgrad ? cni_state_like(s, MAX_EXP_AVG_SQ, 0) : NULL;
  cn_tensor *size = cni_rate(s, SIZE), *root = cni_rate(s, ROOT), *keep = cni_rate(s, DECAY);
  if (!m || !v || cn_err()) return cn_err();
  if (most)
    return cn_amsgrad_update_(s->param, m, v, most, s->grad, size, root, keep, s->rest, beta[1], 1 - beta[1], a->eps,
                              .heavy = heavy, .weight_decay = decay, .decoupled = a->decoupled_weight_decay,
                              .maximize = a->maximize);
  return cn_adam_update_(s->param, m, v, s->grad, size, root, keep, s->rest, beta[1], 1 - beta[1], a->eps,
                         .heavy = heavy, .weight_decay = decay, .decoupled = a->decoupled_weight_decay,
                         .maximize = a->maximize);
}

#define STATES \
  {[STEP] = {"step", true}, [EXP_AVG] = {"exp_avg", false}, [EXP_AVG_SQ] = {"exp_avg_sq", false}, \
   [MAX_EXP_AVG_SQ] = {"max_exp_avg_sq", false}}

/* ---- Adam ---- */

static int adam_rates(cni_param_step *s)
{
  cni_adam_settings a = cni_adam_settings_of(s->a);
  return rates(s, &a);
}

static int adam_update(cni_param_step *s)
{
  cni_adam_settings a = cni_adam_settings_of(s->a);
  return update(s, &a);
}

static const cni_optim_class adam = {
  .sig = "Adam(float lr=0.001, float[2] betas=[0.9, 0.999], float eps=1e-08, float weight_decay=0, bool amsgrad=False, "
         "bool maximize=False, bool decoupled_weight_decay=False) -> Optimizer ; adam",
  .doc = "Adaptive moment estimation. weight_decay is added to the gradient, unless decoupled.",
  .keys = "lr betas eps weight_decay amsgrad maximize foreach=None capturable=False differentiable=False fused=None "
          "decoupled_weight_decay",
  .states = STATES,
  .not_negative = "lr eps weight_decay",
  .betas = true,
  .cycled = "betas",
  .rates = adam_rates,
  .update = adam_update,
  .skippable = skippable,
};

/* ---- AdamW ---- */

static cni_adam_settings decoupled(const cn_value *values)
{
  cni_adamw_settings w = cni_adamw_settings_of(values);
  return (cni_adam_settings){.betas = w.betas, .eps = w.eps, .weight_decay = w.weight_decay, .amsgrad = w.amsgrad,
                             .maximize = w.maximize, .decoupled_weight_decay = true};
}

static int adamw_rates(cni_param_step *s)
{
  cni_adam_settings a = decoupled(s->a);
  return rates(s, &a);
}

static int adamw_update(cni_param_step *s)
{
  cni_adam_settings a = decoupled(s->a);
  return update(s, &a);
}

static const cni_optim_class adamw = {
  .sig = "AdamW(float lr=0.001, float[2] betas=[0.9, 0.999], float eps=1e-08, float weight_decay=0.01, "
         "bool amsgrad=False, bool maximize=False) -> Optimizer ; adamw",
  .doc = "Adam with decoupled weight decay: parameters shrink by lr * weight_decay in each step.",
  .keys = "lr betas eps weight_decay amsgrad maximize foreach=None capturable=False differentiable=False fused=None "
          "decoupled_weight_decay=True",
  .states = STATES,
  .not_negative = "lr eps weight_decay",
  .betas = true,
  .cycled = "betas",
  .rates = adamw_rates,
  .update = adamw_update,
  .skippable = skippable,
};

/* ---- SparseAdam ---- */

static int sparse_check(const cn_value *values)
{
  cni_sparse_adam_settings a = cni_sparse_adam_settings_of(values);
  if (!(a.lr > 0)) return cn_err_set(CN_ERR_VALUE, "SparseAdam: lr must be above 0, but is %g", a.lr);
  if (!(a.eps > 0)) return cn_err_set(CN_ERR_VALUE, "SparseAdam: eps must be above 0, but is %g", a.eps);
  return CN_OK;
}

/* Counts the step; how far this one goes: the learning rate with both averages' beginnings put right. */
static cn_tensor *sparse_size(cni_param_step *s, const double *beta)
{
  cn_tensor *step = cni_count_step(s, STEP);
  cn_tensor *root = cni_to_power(cni_one_minus(cni_base_to(beta[1], step)), 0.5);
  return cni_over(cni_times(s->lr, root), cni_one_minus(cni_base_to(beta[0], step)));
}

/* Of a dense gradient, whose zeros are left alone. */
static int dense_update(cni_param_step *s)
{
  cni_sparse_adam_settings a = cni_sparse_adam_settings_of(s->a);
  cn_tensor *size = sparse_size(s, a.betas), *m = cni_state_like(s, EXP_AVG, 0), *v = cni_state_like(s, EXP_AVG_SQ, 0);
  if (!size || !m || !v) return cn_err();
  return cn_sparse_adam_update_(s->param, m, v, s->grad, size, 1 - a.betas[0], 1 - a.betas[1], a.eps,
                                .maximize = a.maximize);
}

/* Moves the average of the rows that are touched towards x; returns what they are then. */
static cn_tensor *averaged_rows(const cni_touched *t, cn_tensor *average, cn_tensor *x, double beta)
{
  cn_tensor *change = cn_mul(cn_sub(x, cni_touched_rows(t, average)), cn_num(1 - beta));
  return change && !cni_add_to_rows(t, average, change) ? cni_touched_rows(t, average) : NULL;
}

static int sparse_update(cni_param_step *s)
{
  cni_sparse_adam_settings a = cni_sparse_adam_settings_of(s->a);
  cni_touched t;
  cn_tensor *size = sparse_size(s, a.betas), *m = cni_state_like(s, EXP_AVG, 0), *v = cni_state_like(s, EXP_AVG_SQ, 0);
  if (!size || !m || !v || cni_touch(&t, s)) return cn_err();
  if (a.maximize) t.values = cn_neg(t.values);
  cn_tensor *mean = averaged_rows(&t, m, t.values, a.betas[0]);
  cn_tensor *square = averaged_rows(&t, v, cn_square(t.values), a.betas[1]);
  cn_tensor *by = cn_add(cn_sqrt(square), cn_num(a.eps));
  return cni_add_to_rows(&t, s->param, cn_mul(cn_true_divide(mean, by), cn_neg(size)));
}

static const cni_optim_class sparse_adam = {
  .sig = "SparseAdam(float lr=0.001, float[2] betas=[0.9, 0.999], float eps=1e-08, bool maximize=False) -> Optimizer "
         "; sparse_adam",
  .doc = "Adam that leaves alone what has no gradient: rows of an embedding that did not occur. Of a dense gradient "
         "what is zero.",
  .keys = "lr betas eps maximize",
  .states = {[STEP] = {"step", true}, [EXP_AVG] = {"exp_avg", false}, [EXP_AVG_SQ] = {"exp_avg_sq", false}},
  .whole_steps = true,
  .betas = true,
  .check = sparse_check,
  .update = dense_update,
  .sparse = sparse_update,
};

const cni_optim_class *const cni_optim_adam_classes[] = {&adam, &adamw, &sparse_adam, NULL};
