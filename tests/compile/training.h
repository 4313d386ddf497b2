/* training.h: parts of training steps that several tests have. */
#ifndef TESTS_COMPILE_TRAINING_H
#define TESTS_COMPILE_TRAINING_H

#include <cairn/cairn.h>

/* Clips the gradients of all parameters of a network to a norm of 1. */
static inline void clip(cn_module *net)
{
  cn_named_list list;
  cn_tensor *params[64];
  cn_module_named(&list, net, CN_PARAMETERS);
  for (size_t i = 0; i < list.n; i++) params[i] = list.v[i].tensor;
  cn_clip_grad_norm(params, list.n, 1.0, 2);
  cn_named_free(&list);
}

#endif
