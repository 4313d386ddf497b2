/* distance.c: CosineSimilarity and PairwiseDistance: how alike two tensors are. */
#include "nn.h"

#define PAIR "(Tensor x1, Tensor x2) -> Tensor"

static void print_nothing(const cn_module *m, cn_text *t)
{
  (void)m;
  (void)t;
}

static int cosine_forward(cn_module *m, cn_module_call *call)
{
  const cn_value *a = cni_args(m);
  call->out[0] = cn_cosine_similarity(call->args[0].u.t, call->args[1].u.t, .dim = a[0].u.i ? a[0].u.i : CN_ZERO,
                                      .eps = cni_option(a[1].u.f));
  return cn_err();
}

static const cn_module_class cosine_similarity = {
  CN_MODULE_CLASS,
  .name = "CosineSimilarity",
  .sig = "CosineSimilarity(int dim=1, float eps=1e-08) -> Module ; cosine_similarity",
  .doc = "Cosine of the angle between vectors along dim; a vector counts as at least eps long.",
  .call = PAIR,
  .forward = cosine_forward,
  .print = print_nothing,
};

static int pairwise_forward(cn_module *m, cn_module_call *call)
{
  const cn_value *a = cni_args(m);
  call->out[0] = cn_pairwise_distance(call->args[0].u.t, call->args[1].u.t, .p = cni_option(a[0].u.f),
                                      .eps = cni_option(a[1].u.f), .keepdim = a[2].u.i != 0);
  return cn_err();
}

static const cn_module_class pairwise_distance = {
  CN_MODULE_CLASS,
  .name = "PairwiseDistance",
  .sig = "PairwiseDistance(float p=2.0, float eps=1e-06, bool keepdim=False) -> Module ; pairwise_distance",
  .doc = "p-norm of x1 - x2 + eps along the last dimension.",
  .call = PAIR,
  .forward = pairwise_forward,
  .print = print_nothing,
};

const cn_module_class *const cni_nn_distance_classes[] = {&cosine_similarity, &pairwise_distance, NULL};
