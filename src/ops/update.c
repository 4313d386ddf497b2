/* update.c: the family of updates that optimisers make of a parameter and of what they remember about it, each in one
 * pass over memory.
 *
 * An update is a pointwise program with several results (the rules of update_rules.inc); its in-place form writes
 * result i over input i. Parameters, states and gradients have one shape; what is the same for all elements but differs
 * from step to step (rates, momenta that go round, bias corrections) is a zero-dimensional tensor, so that a captured
 * update takes the present value. Weights that make up 1 are arguments of their own, computed by the caller in double
 * precision. */
#include "update.h"

#include <cairn/ops.h>

#include "families.h"
#include "infer.h"
#include "pointwise.h"

/* Result i is the new value of input i. The other inputs have the shape of the first, or are one number. */
static int update_infer(cn_call *c)
{
  const cn_desc *first = &c->in[0]->d;
  int compute = first->dtype, status = CN_OK;
  for (int i = 0; i < c->nin; i++) {
    const cn_desc *d = &c->in[i]->d;
    char have[CNI_SHAPE_TEXT], want[CNI_SHAPE_TEXT];
    bool fits = cni_same_shape(d->ndim, d->shape, first->ndim, first->shape);
    if (!fits && (i < c->nout || d->ndim))
      return cn_call_fail(c, CN_ERR_SHAPE, "tensor %d has shape %s, the first one has %s", i,
                          cni_shape_text(have, sizeof have, d->ndim, d->shape),
                          cni_shape_text(want, sizeof want, first->ndim, first->shape));
    if (i < c->nout && !cni_dtype_is_float(d->dtype))
      return cn_call_fail(c, CN_ERR_DTYPE, "updates floating-point tensors, not %s", cn_dtype_name((cn_dtype)d->dtype));
    if (i < c->nout) compute = cni_promote(compute, d->dtype);
  }
  for (int i = 0; i < c->nout && !status; i++) {
    const cn_desc *d = &c->in[i]->d;
    status = cn_call_result(c, i, d->dtype, d->ndim, d->shape);
    if (!status) cni_follow_strides(c, i, c->in + i, 1);
  }
  c->compute = compute;
  return status;
}

/* ---- rules as programs: a value is a register ---- */

#define VALUE int
#define RULE_FN static
#define NAMED(f) f
#define CONTEXT cni_builder *b
#define PASS b
#define UNUSED_CONTEXT (void)b
#define IN(i) (i)
#define ATTR(i) cni_build_attr(b, i)
#define K(x) cni_build_const(b, x)
#define OP1(p, x) cni_build_step(b, CNI_PW_##p, x, -1, -1)
#define OP2(p, x, y) cni_build_step(b, CNI_PW_##p, x, y, -1)
#define OP3(p, x, y, z) cni_build_step(b, CNI_PW_##p, x, y, z)
#include "update_rules.inc"

/* ---- variants by attributes ---- */

/* Is there weight decay in attribute i? It goes to the gradient. */
static int decays(const cn_value *a, int i)
{
  return cni_arg_float(a, i) != 0 ? CNI_DECAY_GRADIENT : CNI_DECAY_NONE;
}
static bool is_large(const cn_value *a, int weight) { return cni_arg_float(a, weight) >= 0.5; }

static int adam_decays(const cn_value *a, int weight_decay, int decoupled)
{
  return decays(a, weight_decay) && cni_arg_bool(a, decoupled) ? CNI_DECAY_PARAM : decays(a, weight_decay);
}

/* A rule by the name of its op; the variant is an expression of the arguments a, which go by their names. */
#define PROGRAM_OF(op, variant_of) \
  static int op##_variant(const cn_value *a) \
  { \
    CNI_ARGUMENTS(op); \
    return (void)a, variant_of; \
  } \
  static int build_##op(cni_builder *b, int variant) \
  { \
    b->nout = CNI_RESULTS_##op; \
    rule_##op(b, variant, b->out); \
    return b->out[0]; \
  } \
  static cni_pointwise pw_##op = {CNI_UPD, CNI_INPUTS_##op, op##_variant, build_##op, NULL, {0}};

#define UPHILL cni_arg_bool(a, maximize)
#define PLAIN(other) CNI_UPDATE_VARIANT(UPHILL, decays(a, weight_decay), other)
#define ADAM(other) CNI_UPDATE_VARIANT(UPHILL, adam_decays(a, weight_decay, decoupled), other)

PROGRAM_OF(descend, PLAIN(0))
PROGRAM_OF(advance, 0)
PROGRAM_OF(sgd_update, PLAIN(cni_arg_bool(a, nesterov)))
PROGRAM_OF(lion_update, UPHILL)
PROGRAM_OF(adam_update, ADAM(cni_arg_bool(a, heavy)))
PROGRAM_OF(amsgrad_update, ADAM(cni_arg_bool(a, heavy)))
PROGRAM_OF(adam_rates, 0)
PROGRAM_OF(scale_update, 0)
PROGRAM_OF(sparse_adam_update, UPHILL)
PROGRAM_OF(nadam_update, ADAM(is_large(a, weight1)))
PROGRAM_OF(radam_update, ADAM(is_large(a, weight1)))
PROGRAM_OF(adamax_update, PLAIN(is_large(a, weight1)))
PROGRAM_OF(rmsprop_update, PLAIN(is_large(a, weight)))
PROGRAM_OF(rmsprop_momentum_update, PLAIN(is_large(a, weight)))
PROGRAM_OF(rmsprop_centered_update, PLAIN(is_large(a, weight)))
PROGRAM_OF(rmsprop_centered_momentum_update, PLAIN(is_large(a, weight)))
PROGRAM_OF(adagrad_update, PLAIN(0))
PROGRAM_OF(adadelta_update, PLAIN(0))
PROGRAM_OF(asgd_update, PLAIN(0))
PROGRAM_OF(rprop_update, UPHILL)

#define UPDATE(op) .flags = CN_OP_ALIAS_SAFE | CN_OP_NO_GRAD, .infer = update_infer, .pointwise = &pw_##op

/* clang-format off */
const cn_op cni_update_ops[] = {
  {.sig = "descend(Tensor param, Tensor grad, Tensor lr, *, float weight_decay=0, bool maximize=False) -> Tensor "
          "; internal inplace",
   .doc = "param - lr * (grad + weight_decay * param): a step of SGD without momentum.",
   UPDATE(descend)},
  {.sig = "advance(Tensor param, Tensor direction, Tensor rate, Tensor decay) -> Tensor ; internal inplace",
   .doc = "param * decay - rate * direction.",
   UPDATE(advance)},
  {.sig = "sgd_update(Tensor param, Tensor momentum_buffer, Tensor grad, Tensor lr, Tensor momentum, *, float blend, "
          "float weight_decay=0, bool nesterov=False, bool maximize=False) -> (Tensor new_param, Tensor new_buffer) "
          "; internal inplace",
   .doc = "A step of SGD with momentum; blend is 1 - dampening.",
   .version = 2, UPDATE(sgd_update)},
  {.sig = "lion_update(Tensor param, Tensor exp_avg, Tensor grad, Tensor lr, Tensor decay, *, float beta1, "
          "float weight1, float beta2, float weight2, bool maximize=False) -> (Tensor new_param, Tensor new_exp_avg) "
          "; internal inplace",
   .doc = "A step of Lion; weight1 is 1 - beta1, weight2 is 1 - beta2.",
   UPDATE(lion_update)},
  {.sig = "adam_update(Tensor param, Tensor exp_avg, Tensor exp_avg_sq, Tensor grad, Tensor step_size, "
          "Tensor bias_correction2_sqrt, Tensor decay, Tensor weight1, *, float beta2, float weight2, float eps, "
          "bool heavy=False, float weight_decay=0, bool decoupled=False, bool maximize=False) -> (Tensor new_param, "
          "Tensor new_exp_avg, Tensor new_exp_avg_sq) ; internal inplace",
   .doc = "A step of Adam; weight1 is 1 - beta1 (heavy: 0.5 or more), weight2 is 1 - beta2. decoupled: param is "
          "multiplied by decay first.",
   .version = 2, UPDATE(adam_update)},
  {.sig = "amsgrad_update(Tensor param, Tensor exp_avg, Tensor exp_avg_sq, Tensor max_exp_avg_sq, Tensor grad, "
          "Tensor step_size, Tensor bias_correction2_sqrt, Tensor decay, Tensor weight1, *, float beta2, "
          "float weight2, float eps, bool heavy=False, float weight_decay=0, bool decoupled=False, "
          "bool maximize=False) -> (Tensor new_param, Tensor new_exp_avg, Tensor new_exp_avg_sq, "
          "Tensor new_max_exp_avg_sq) ; internal inplace",
   .doc = "A step of Adam that divides by the largest second moment so far.",
   .version = 2, UPDATE(amsgrad_update)},
  {.sig = "adam_rates(Tensor step, Tensor step_size, Tensor bias_correction2_sqrt, Tensor decay, Tensor lr, "
          "Tensor beta1, *, float beta2, float weight_decay=0) -> (Tensor new_step, Tensor new_step_size, "
          "Tensor new_root, Tensor new_decay) ; internal inplace",
   .doc = "Counts a step of Adam, and gives lr / (1 - beta1^step), sqrt(1 - beta2^step) and 1 - lr * weight_decay.",
   .version = 2, UPDATE(adam_rates)},
  {.sig = "scale_update(Tensor scale, Tensor good, Tensor found, *, float growth, float backoff, float interval) -> "
          "(Tensor new_scale, Tensor new_good) ; internal inplace",
   .doc = "A loss scale and its count of good steps after another one: smaller where gradients overflowed (found), "
          "larger after `interval` good ones in a row.",
   UPDATE(scale_update)},
  {.sig = "sparse_adam_update(Tensor param, Tensor exp_avg, Tensor exp_avg_sq, Tensor grad, Tensor step_size, *, "
          "float weight1, float weight2, float eps, bool maximize=False) -> (Tensor new_param, Tensor new_exp_avg, "
          "Tensor new_exp_avg_sq) ; internal inplace",
   .doc = "A step of Adam where the gradient is not zero; elsewhere nothing changes.",
   UPDATE(sparse_adam_update)},
  {.sig = "nadam_update(Tensor param, Tensor exp_avg, Tensor exp_avg_sq, Tensor grad, Tensor grad_rate, "
          "Tensor avg_rate, Tensor bias_correction2, Tensor decay, *, float weight1, float beta2, float weight2, "
          "float eps, float weight_decay=0, bool decoupled=False, bool maximize=False) -> (Tensor new_param, "
          "Tensor new_exp_avg, Tensor new_exp_avg_sq) ; internal inplace",
   .doc = "A step of NAdam: along the gradient by grad_rate and along its average by avg_rate.",
   UPDATE(nadam_update)},
  {.sig = "radam_update(Tensor param, Tensor exp_avg, Tensor exp_avg_sq, Tensor grad, Tensor lr, "
          "Tensor bias_correction1, Tensor bias_correction2_sqrt, Tensor rectification, Tensor decay, *, "
          "float weight1, float beta2, float weight2, float eps, float weight_decay=0, bool decoupled=False, "
          "bool maximize=False) -> (Tensor new_param, Tensor new_exp_avg, Tensor new_exp_avg_sq) ; internal inplace",
   .doc = "A step of RAdam; rectification 0: not adaptive yet.",
   UPDATE(radam_update)},
  {.sig = "adamax_update(Tensor param, Tensor exp_avg, Tensor exp_inf, Tensor grad, Tensor rate, *, float weight1, "
          "float beta2, float eps, float weight_decay=0, bool maximize=False) -> (Tensor new_param, "
          "Tensor new_exp_avg, Tensor new_exp_inf) ; internal inplace",
   .doc = "A step of Adamax; weight1 is 1 - beta1.",
   UPDATE(adamax_update)},
  {.sig = "rmsprop_update(Tensor param, Tensor square_avg, Tensor grad, Tensor lr, *, float alpha, float weight, "
          "float eps, float weight_decay=0, bool maximize=False) -> (Tensor new_param, Tensor new_square_avg) "
          "; internal inplace",
   .doc = "A step of RMSprop; weight is 1 - alpha.",
   UPDATE(rmsprop_update)},
  {.sig = "rmsprop_momentum_update(Tensor param, Tensor square_avg, Tensor momentum_buffer, Tensor grad, Tensor lr, *, "
          "float alpha, float weight, float eps, float weight_decay=0, bool maximize=False, float momentum=0) -> "
          "(Tensor new_param, Tensor new_square_avg, Tensor new_buffer) ; internal inplace",
   .doc = "A step of RMSprop with momentum; weight is 1 - alpha.",
   UPDATE(rmsprop_momentum_update)},
  {.sig = "rmsprop_centered_update(Tensor param, Tensor square_avg, Tensor grad_avg, Tensor grad, Tensor lr, *, "
          "float alpha, float weight, float eps, float weight_decay=0, bool maximize=False) -> (Tensor new_param, "
          "Tensor new_square_avg, Tensor new_grad_avg) ; internal inplace",
   .doc = "A step of centred RMSprop; weight is 1 - alpha.",
   UPDATE(rmsprop_centered_update)},
  {.sig = "rmsprop_centered_momentum_update(Tensor param, Tensor square_avg, Tensor grad_avg, Tensor momentum_buffer, "
          "Tensor grad, Tensor lr, *, float alpha, float weight, float eps, float weight_decay=0, bool maximize=False, "
          "float momentum=0) -> (Tensor new_param, Tensor new_square_avg, Tensor new_grad_avg, Tensor new_buffer) "
          "; internal inplace",
   .doc = "A step of centred RMSprop with momentum; weight is 1 - alpha.",
   UPDATE(rmsprop_centered_momentum_update)},
  {.sig = "adagrad_update(Tensor param, Tensor sum, Tensor grad, Tensor rate, *, float eps, float weight_decay=0, "
          "bool maximize=False) -> (Tensor new_param, Tensor new_sum) ; internal inplace",
   .doc = "A step of Adagrad.",
   UPDATE(adagrad_update)},
  {.sig = "adadelta_update(Tensor param, Tensor square_avg, Tensor acc_delta, Tensor grad, Tensor lr, *, float rho, "
          "float weight, float eps, float weight_decay=0, bool maximize=False) -> (Tensor new_param, "
          "Tensor new_square_avg, Tensor new_acc_delta) ; internal inplace",
   .doc = "A step of Adadelta; weight is 1 - rho.",
   UPDATE(adadelta_update)},
  {.sig = "asgd_update(Tensor param, Tensor ax, Tensor grad, Tensor eta, Tensor decay, Tensor mu, *, "
          "float weight_decay=0, bool maximize=False) -> (Tensor new_param, Tensor new_ax) ; internal inplace",
   .doc = "A step of averaged SGD: param * decay - eta * grad, and its average ax, which follows by mu.",
   UPDATE(asgd_update)},
  {.sig = "rprop_update(Tensor param, Tensor prev, Tensor step_size, Tensor grad, *, float etaminus, float etaplus, "
          "float step_size_min, float step_size_max, bool maximize=False) -> (Tensor new_param, Tensor new_prev, "
          "Tensor new_step_size) ; internal inplace",
   .doc = "A step of resilient backpropagation.",
   UPDATE(rprop_update)},
};
/* clang-format on */
CNI_FAMILY(update);
