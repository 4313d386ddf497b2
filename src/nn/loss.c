/* loss.c: the losses of torch.nn: one op each, with the op's options as arguments.
 *
 * Place in the flow: classes over the ops of src/ops/loss*.c. Invariant: tensors among the arguments (weights of
 * classes) are buffers of the same names, in the arguments' order, so that they move and are saved with the module. */
#include "nn.h"
#include <string.h>

enum { MOST_INPUTS = 4 };

typedef cn_tensor *loss_fn(cn_module *m, const cn_value *a, cn_tensor *const *x);

typedef struct loss {
  cn_module_class cls; /* must be first */
  loss_fn *compute;    /* from the module's arguments and the tensors of the call */
} loss;

static int loss_init(cn_module *m, const cn_value *a)
{
  const cn_signature *sig = cn_args_signature(cn_module_args(m));
  for (int i = 0; i < cn_signature_size(sig); i++) {
    cn_op_param p;
    cn_signature_param(&p, sig, i);
    if (!strncmp(p.type, "Tensor", 6))
      cn_module_add_buffer(m, p.name, a[i].tag == CN_V_TENSOR ? a[i].u.t : NULL, true);
  }
  return cn_err();
}

static int loss_forward(cn_module *m, cn_module_call *call)
{
  cn_tensor *x[MOST_INPUTS] = {NULL};
  for (size_t i = 0; i < call->nargs && i < MOST_INPUTS; i++) x[i] = call->args[i].u.t;
  call->out[0] = ((const loss *)(const void *)m->cls)->compute(m, cni_args(m), x);
  return cn_err();
}

/* PyTorch prints losses without their arguments. */
static void loss_print(const cn_module *m, cn_text *t)
{
  (void)m;
  (void)t;
}

#define LOSS .init = loss_init, .forward = loss_forward, .print = loss_print
#define PAIR "(Tensor input, Tensor target) -> Tensor"

static int64_t option_int(const cn_value *v) { return v->u.i ? v->u.i : CN_ZERO; }

/* ---- distances ---- */

static cn_tensor *l1(cn_module *m, const cn_value *a, cn_tensor *const *x)
{
  (void)m;
  return cn_l1_loss(x[0], x[1], .reduction = a[0].u.s);
}

static const loss l1_loss = {
  {CN_MODULE_CLASS, .name = "L1Loss",
   .sig = "L1Loss(str reduction='mean') -> Module ; l1_loss",
   .doc = "Mean, sum or each of |input - target|.",
   .call = PAIR, LOSS}, l1};

static cn_tensor *mse(cn_module *m, const cn_value *a, cn_tensor *const *x)
{
  (void)m;
  return cn_mse_loss(x[0], x[1], .reduction = a[0].u.s);
}

static const loss mse_loss = {
  {CN_MODULE_CLASS, .name = "MSELoss",
   .sig = "MSELoss(str reduction='mean') -> Module ; mse_loss",
   .doc = "Mean, sum or each of (input - target)^2.",
   .call = PAIR, LOSS}, mse};

static cn_tensor *smooth_l1(cn_module *m, const cn_value *a, cn_tensor *const *x)
{
  (void)m;
  return cn_smooth_l1_loss(x[0], x[1], .reduction = a[0].u.s, .beta = cni_option(a[1].u.f));
}

static const loss smooth_l1_loss = {
  {CN_MODULE_CLASS, .name = "SmoothL1Loss",
   .sig = "SmoothL1Loss(str reduction='mean', float beta=1.0) -> Module ; smooth_l1_loss",
   .doc = "Half the squared difference over beta, and past beta the difference less half of it.",
   .call = PAIR, LOSS}, smooth_l1};

static cn_tensor *huber(cn_module *m, const cn_value *a, cn_tensor *const *x)
{
  (void)m;
  return cn_huber_loss(x[0], x[1], .reduction = a[0].u.s, .delta = cni_option(a[1].u.f));
}

static const loss huber_loss = {
  {CN_MODULE_CLASS, .name = "HuberLoss",
   .sig = "HuberLoss(str reduction='mean', float delta=1.0) -> Module ; huber_loss",
   .doc = "Half the squared difference, and past delta a line of slope delta.",
   .call = PAIR, LOSS}, huber};

/* ---- classes and probabilities ---- */

static cn_tensor *cross_entropy(cn_module *m, const cn_value *a, cn_tensor *const *x)
{
  return cn_cross_entropy(x[0], x[1], .weight = cn_module_slot(m, 0), .ignore_index = option_int(&a[1]),
                          .reduction = a[2].u.s, .label_smoothing = cni_option(a[3].u.f));
}

static const loss cross_entropy_loss = {
  {CN_MODULE_CLASS, .name = "CrossEntropyLoss",
   .sig = "CrossEntropyLoss(Tensor? weight=None, int ignore_index=-100, str reduction='mean', "
          "float label_smoothing=0.0) -> Module ; cross_entropy_loss",
   .doc = "Cross entropy of scores (N, C, ...) with classes (N, ...) or probabilities (N, C, ...).",
   .call = PAIR, LOSS}, cross_entropy};

/* ---- a linear layer and the cross entropy of what it gives ---- */

enum { L_IN, L_CLASSES, L_OUT, L_BIAS, L_DEVICE, L_DTYPE, L_REDUCTION, L_WEIGHT, L_IGNORE, L_SMOOTHING };

static int linear_cross_entropy_init(cn_module *m, const cn_value *a)
{
  int64_t classes = a[L_CLASSES].u.i, out = classes;
  const cn_tensor *weight = a[L_WEIGHT].tag == CN_V_TENSOR ? a[L_WEIGHT].u.t : NULL;
  if (weight && (cn_ndim(weight) != 1 || cn_size(weight, 0) != classes))
    return cn_err_set(CN_ERR_SHAPE, "%s: weight must have a number for each class", m->cls->name);
  if (!(a[L_SMOOTHING].u.f >= 0 && a[L_SMOOTHING].u.f <= 1))
    return cn_err_set(CN_ERR_VALUE, "%s: label_smoothing lies between 0 and 1", m->cls->name);
  if (a[L_OUT].n >= CN_MAX_DIMS - 2) return cn_err_set(CN_ERR_SHAPE, "%s: too many dimensions", m->cls->name);
  for (int i = 0; i < a[L_OUT].n; i++)
    if (a[L_OUT].u.is[i] < 0 || __builtin_mul_overflow(out, a[L_OUT].u.is[i], &out))
      return cn_err_set(CN_ERR_VALUE, "%s: out_features are too large, or negative", m->cls->name);
  cn_value args[] = {a[L_IN], cn_v_int(out), a[L_BIAS], a[L_DEVICE], a[L_DTYPE]};
  if (loss_init(m, a)) return cn_err();
  return cn_module_add(m, "linear", cn_module_make("Linear", args, 5));
}

static cn_tensor *linear_cross_entropy(cn_module *m, const cn_value *a, cn_tensor *const *x)
{
  int64_t shape[CN_MAX_DIMS] = {a[L_CLASSES].u.i}, ignore = a[L_IGNORE].tag == CN_V_INT ? option_int(&a[L_IGNORE]) : 0;
  const cn_module *linear = cn_module_child(m, 0);
  if (a[L_IGNORE].tag == CN_V_INT && cn_dtype_is_float(cn_dtype_of(x[1]))) {
    cn_err_set(CN_ERR_VALUE, "%s: ignore_index is not for targets that are probabilities", m->cls->name);
    return NULL;
  }
  if (!a[L_OUT].n) /* of many rows not all scores at once */
    return cn_linear_cross_entropy(x[0], cn_module_slot(linear, 0), x[1], .linear_bias = cn_module_slot(linear, 1),
                                   .weight = cn_module_slot(m, 0), .reduction = a[L_REDUCTION].u.s,
                                   .ignore_index = ignore, .label_smoothing = cni_option(a[L_SMOOTHING].u.f));
  for (int i = 0; i < a[L_OUT].n; i++) shape[i + 1] = a[L_OUT].u.is[i];
  cn_tensor *scores = cn_forward(cn_module_child(m, 0), x[0]);
  if (scores) scores = cn_unflatten(scores, -1, shape, (size_t)a[L_OUT].n + 1); /* (N, C, d, ...) */
  return cn_cross_entropy(scores, x[1], .weight = cn_module_slot(m, 0), .reduction = a[L_REDUCTION].u.s,
                          .ignore_index = ignore, .label_smoothing = cni_option(a[L_SMOOTHING].u.f));
}

static void linear_cross_entropy_print(const cn_module *m, cn_text *t)
{
  const cn_value *a = cni_args(m);
  cn_text_putf(t, "in_features=%lld", (long long)a[L_IN].u.i);
  cni_put_arg(t, m, L_CLASSES);
  cn_text_put(t, ", out_features=");
  cni_put_ints(t, a[L_OUT].u.is, a[L_OUT].n);
  cni_put_arg(t, m, L_BIAS);
  cn_text_putf(t, ", reduction=%s", a[L_REDUCTION].u.s);
  cni_put_arg(t, m, L_IGNORE);
  cni_put_arg(t, m, L_SMOOTHING);
  cn_text_put(t, ", options=None");
}

static const loss linear_cross_entropy_loss = {
  {CN_MODULE_CLASS, .name = "LinearCrossEntropyLoss",
   .sig = "LinearCrossEntropyLoss(int in_features, int num_classes, *, int[]? out_features=None, bool bias=False, "
          "device? device=None, dtype? dtype=None, str reduction='mean', Tensor? weight=None, int? ignore_index=None, "
          "float label_smoothing=0.0) -> Module ; linear_cross_entropy_loss",
   .doc = "CrossEntropyLoss of the scores that a linear layer gives for the input (N, in_features).",
   .call = PAIR, .init = linear_cross_entropy_init, .forward = loss_forward,
   .print = linear_cross_entropy_print}, linear_cross_entropy};

static cn_tensor *nll(cn_module *m, const cn_value *a, cn_tensor *const *x)
{
  return cn_nll_loss(x[0], x[1], .weight = cn_module_slot(m, 0), .ignore_index = option_int(&a[1]),
                     .reduction = a[2].u.s);
}

static const loss nll_loss = {
  {CN_MODULE_CLASS, .name = "NLLLoss",
   .sig = "NLLLoss(Tensor? weight=None, int ignore_index=-100, str reduction='mean') -> Module ; nll_loss",
   .doc = "What log probabilities (N, C, ...) give for the classes (N, ...), negated.",
   .call = PAIR, LOSS}, nll};

static cn_tensor *kl_div(cn_module *m, const cn_value *a, cn_tensor *const *x)
{
  (void)m;
  return cn_kl_div(x[0], x[1], .reduction = a[0].u.s, .log_target = a[1].u.i);
}

static const loss kl_div_loss = {
  {CN_MODULE_CLASS, .name = "KLDivLoss",
   .sig = "KLDivLoss(str reduction='mean', bool log_target=False) -> Module ; kl_div_loss",
   .doc = "Divergence of the target's probabilities from input's, which are logarithms. reduction may be 'batchmean'.",
   .call = PAIR, LOSS}, kl_div};

static cn_tensor *bce(cn_module *m, const cn_value *a, cn_tensor *const *x)
{
  return cn_binary_cross_entropy(x[0], x[1], .weight = cn_module_slot(m, 0), .reduction = a[1].u.s);
}

static const loss bce_loss = {
  {CN_MODULE_CLASS, .name = "BCELoss",
   .sig = "BCELoss(Tensor? weight=None, str reduction='mean') -> Module ; bce_loss",
   .doc = "Cross entropy of probabilities between 0 and 1 with targets between 0 and 1.",
   .call = PAIR, LOSS}, bce};

static cn_tensor *bce_logits(cn_module *m, const cn_value *a, cn_tensor *const *x)
{
  return cn_binary_cross_entropy_with_logits(x[0], x[1], .weight = cn_module_slot(m, 0), .reduction = a[1].u.s,
                                             .pos_weight = cn_module_slot(m, 1));
}

static const loss bce_with_logits_loss = {
  {CN_MODULE_CLASS, .name = "BCEWithLogitsLoss",
   .sig = "BCEWithLogitsLoss(Tensor? weight=None, str reduction='mean', Tensor? pos_weight=None) "
          "-> Module ; bce_with_logits_loss",
   .doc = "BCELoss of the sigmoid of scores; pos_weight weighs positive targets.",
   .call = PAIR, LOSS}, bce_logits};

static cn_tensor *ctc(cn_module *m, const cn_value *a, cn_tensor *const *x)
{
  (void)m;
  return cn_ctc_loss(x[0], x[1], x[2], x[3], .blank = option_int(&a[0]), .reduction = a[1].u.s,
                     .zero_infinity = a[2].u.i);
}

static const loss ctc_loss = {
  {CN_MODULE_CLASS, .name = "CTCLoss",
   .sig = "CTCLoss(int blank=0, str reduction='mean', bool zero_infinity=False) -> Module ; ctc_loss",
   .doc = "Connectionist temporal classification: log probabilities (T, N, C) of sequences of labels, all alignments "
          "together.",
   .call = "(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths) -> Tensor",
   LOSS}, ctc};

static cn_tensor *poisson_nll(cn_module *m, const cn_value *a, cn_tensor *const *x)
{
  (void)m;
  return cn_poisson_nll_loss(x[0], x[1], .no_log_input = !a[0].u.i, .full = a[1].u.i, .eps = cni_option(a[2].u.f),
                             .reduction = a[3].u.s);
}

static const loss poisson_nll_loss = {
  {CN_MODULE_CLASS, .name = "PoissonNLLLoss",
   .sig = "PoissonNLLLoss(bool log_input=True, bool full=False, float eps=1e-8, str reduction='mean') "
          "-> Module ; poisson_nll_loss",
   .doc = "Negative log likelihood of counts whose rate is input, or its exponential.",
   .call = "(Tensor log_input, Tensor target) -> Tensor", LOSS}, poisson_nll};

static cn_tensor *gaussian_nll(cn_module *m, const cn_value *a, cn_tensor *const *x)
{
  (void)m;
  return cn_gaussian_nll_loss(x[0], x[1], x[2], .full = a[0].u.i, .eps = cni_option(a[1].u.f), .reduction = a[2].u.s);
}

static const loss gaussian_nll_loss = {
  {CN_MODULE_CLASS, .name = "GaussianNLLLoss",
   .sig = "GaussianNLLLoss(*, bool full=False, float eps=1e-6, str reduction='mean') -> Module ; gaussian_nll_loss",
   .doc = "Negative log likelihood of targets from normal distributions with these means and variances.",
   .call = "(Tensor input, Tensor target, Tensor var) -> Tensor", LOSS}, gaussian_nll};

/* ---- margins ---- */

static cn_tensor *margin_ranking(cn_module *m, const cn_value *a, cn_tensor *const *x)
{
  (void)m;
  return cn_margin_ranking_loss(x[0], x[1], x[2], .margin = cni_option(a[0].u.f), .reduction = a[1].u.s);
}

static const loss margin_ranking_loss = {
  {CN_MODULE_CLASS, .name = "MarginRankingLoss",
   .sig = "MarginRankingLoss(float margin=0.0, str reduction='mean') -> Module ; margin_ranking_loss",
   .doc = "max(0, -target (input1 - input2) + margin), target being 1 or -1.",
   .call = "(Tensor input1, Tensor input2, Tensor target) -> Tensor", LOSS}, margin_ranking};

static cn_tensor *hinge_embedding(cn_module *m, const cn_value *a, cn_tensor *const *x)
{
  (void)m;
  return cn_hinge_embedding_loss(x[0], x[1], .margin = cni_option(a[0].u.f), .reduction = a[1].u.s);
}

static const loss hinge_embedding_loss = {
  {CN_MODULE_CLASS, .name = "HingeEmbeddingLoss",
   .sig = "HingeEmbeddingLoss(float margin=1.0, str reduction='mean') -> Module ; hinge_embedding_loss",
   .doc = "input where target is 1, max(0, margin - input) where it is -1.",
   .call = PAIR, LOSS}, hinge_embedding};

static cn_tensor *soft_margin(cn_module *m, const cn_value *a, cn_tensor *const *x)
{
  (void)m;
  return cn_soft_margin_loss(x[0], x[1], .reduction = a[0].u.s);
}

static const loss soft_margin_loss = {
  {CN_MODULE_CLASS, .name = "SoftMarginLoss",
   .sig = "SoftMarginLoss(str reduction='mean') -> Module ; soft_margin_loss",
   .doc = "log(1 + exp(-target input)), target being 1 or -1.",
   .call = PAIR, LOSS}, soft_margin};

static cn_tensor *multi_margin(cn_module *m, const cn_value *a, cn_tensor *const *x)
{
  return cn_multi_margin_loss(x[0], x[1], .p = cni_option((double)a[0].u.i), .margin = cni_option(a[1].u.f),
                              .weight = cn_module_slot(m, 0), .reduction = a[3].u.s);
}

static int multi_margin_init(cn_module *m, const cn_value *a)
{
  if (a[0].u.i != 1 && a[0].u.i != 2)
    return cn_err_set(CN_ERR_VALUE, "MultiMarginLoss: p must be 1 or 2, not %lld", (long long)a[0].u.i);
  if (a[2].tag == CN_V_TENSOR && cn_ndim(a[2].u.t) != 1)
    return cn_err_set(CN_ERR_SHAPE, "MultiMarginLoss: weight must have one dimension");
  return loss_init(m, a);
}

static const loss multi_margin_loss = {
  {CN_MODULE_CLASS, .name = "MultiMarginLoss",
   .sig = "MultiMarginLoss(int p=1, float margin=1.0, Tensor? weight=None, str reduction='mean') "
          "-> Module ; multi_margin_loss",
   .doc = "How far other classes' scores come nearer than margin to that of the right one.",
   .call = PAIR, .init = multi_margin_init, .forward = loss_forward, .print = loss_print}, multi_margin};

static cn_tensor *multilabel_margin(cn_module *m, const cn_value *a, cn_tensor *const *x)
{
  (void)m;
  return cn_multilabel_margin_loss(x[0], x[1], .reduction = a[0].u.s);
}

static const loss multilabel_margin_loss = {
  {CN_MODULE_CLASS, .name = "MultiLabelMarginLoss",
   .sig = "MultiLabelMarginLoss(str reduction='mean') -> Module ; multilabel_margin_loss",
   .doc = "MultiMarginLoss for several right classes; their list ends with -1.",
   .call = PAIR, LOSS}, multilabel_margin};

static cn_tensor *multilabel_soft_margin(cn_module *m, const cn_value *a, cn_tensor *const *x)
{
  return cn_multilabel_soft_margin_loss(x[0], x[1], .weight = cn_module_slot(m, 0), .reduction = a[1].u.s);
}

static const loss multilabel_soft_margin_loss = {
  {CN_MODULE_CLASS, .name = "MultiLabelSoftMarginLoss",
   .sig = "MultiLabelSoftMarginLoss(Tensor? weight=None, str reduction='mean') -> Module ; multilabel_soft_margin_loss",
   .doc = "Mean over classes of the cross entropy of each one's score with its target of 0 or 1.",
   .call = PAIR, LOSS}, multilabel_soft_margin};

/* ---- embeddings ---- */

static cn_tensor *cosine_embedding(cn_module *m, const cn_value *a, cn_tensor *const *x)
{
  (void)m;
  return cn_cosine_embedding_loss(x[0], x[1], x[2], .margin = cni_option(a[0].u.f), .reduction = a[1].u.s);
}

static const loss cosine_embedding_loss = {
  {CN_MODULE_CLASS, .name = "CosineEmbeddingLoss",
   .sig = "CosineEmbeddingLoss(float margin=0.0, str reduction='mean') -> Module ; cosine_embedding_loss",
   .doc = "1 - cos(input1, input2) where target is 1, max(0, cos - margin) where it is -1.",
   .call = "(Tensor input1, Tensor input2, Tensor target) -> Tensor", LOSS}, cosine_embedding};

#define TRIPLET "(Tensor anchor, Tensor positive, Tensor negative) -> Tensor"

static cn_tensor *triplet_margin(cn_module *m, const cn_value *a, cn_tensor *const *x)
{
  (void)m;
  return cn_triplet_margin_loss(x[0], x[1], x[2], .margin = cni_option(a[0].u.f), .p = cni_option(a[1].u.f),
                                .eps = cni_option(a[2].u.f), .swap = a[3].u.i, .reduction = a[4].u.s);
}

static int margin_init(cn_module *m, const cn_value *a)
{
  if (a[0].u.f > 0) return CN_OK;
  return cn_err_set(CN_ERR_VALUE, "%s: margin must be positive", m->cls->name);
}

static const loss triplet_margin_loss = {
  {CN_MODULE_CLASS, .name = "TripletMarginLoss",
   .sig = "TripletMarginLoss(float margin=1.0, float p=2.0, float eps=1e-6, bool swap=False, str reduction='mean') "
          "-> Module ; triplet_margin_loss",
   .doc = "max(0, |anchor - positive| - |anchor - negative| + margin) by the p-norm.",
   .call = TRIPLET, .init = margin_init, .forward = loss_forward, .print = loss_print}, triplet_margin};

/* The distance is a child, as in PyTorch: a module of two inputs. */
static int triplet_distance_init(cn_module *m, const cn_value *a)
{
  if (!(a[1].u.f > 0)) return cn_err_set(CN_ERR_VALUE, "%s: margin must be positive", m->cls->name);
  return cn_module_add(m, "distance_function", a[0].tag == CN_V_MODULE ? cn_module_keep(a[0].u.m)
                                                                        : cn_module_make("PairwiseDistance", NULL, 0));
}

static cn_tensor *triplet_distance(cn_module *m, const cn_value *a, cn_tensor *const *x)
{
  cn_module *distance = cn_module_child(m, 0);
  const char *reduction = a[3].u.s;
  cn_tensor *near = cn_forward(distance, x[0], x[1]), *far = cn_forward(distance, x[0], x[2]);
  if (a[2].u.i) far = cn_minimum(far, cn_forward(distance, x[1], x[2]));
  cn_tensor *terms = cn_relu(cn_add(cn_sub(near, far), cn_num(a[1].u.f)));
  if (!strcmp(reduction, "mean")) return cn_mean(terms);
  if (!strcmp(reduction, "sum")) return cn_sum(terms);
  if (!strcmp(reduction, "none")) return terms;
  cn_err_set(CN_ERR_VALUE, "%s: reduction is 'none', 'mean' or 'sum', not '%s'", m->cls->name, reduction);
  return NULL;
}

static const loss triplet_margin_with_distance_loss = {
  {CN_MODULE_CLASS, .name = "TripletMarginWithDistanceLoss",
   .sig = "TripletMarginWithDistanceLoss(*, Module? distance_function=None, float margin=1.0, bool swap=False, "
          "str reduction='mean') -> Module ; triplet_margin_with_distance_loss",
   .doc = "TripletMarginLoss by any distance: a module of two inputs, PairwiseDistance by default.",
   .call = TRIPLET, .init = triplet_distance_init, .forward = loss_forward, .print = loss_print}, triplet_distance};

const cn_module_class *const cni_nn_loss_classes[] = {
  &l1_loss.cls,                &mse_loss.cls,
  &smooth_l1_loss.cls,         &huber_loss.cls,
  &cross_entropy_loss.cls,     &linear_cross_entropy_loss.cls,
  &nll_loss.cls,
  &kl_div_loss.cls,            &bce_loss.cls,
  &bce_with_logits_loss.cls,   &ctc_loss.cls,
  &poisson_nll_loss.cls,       &gaussian_nll_loss.cls,
  &margin_ranking_loss.cls,    &hinge_embedding_loss.cls,
  &soft_margin_loss.cls,       &multi_margin_loss.cls,
  &multilabel_margin_loss.cls, &multilabel_soft_margin_loss.cls,
  &cosine_embedding_loss.cls,  &triplet_margin_loss.cls,
  &triplet_margin_with_distance_loss.cls, NULL};
