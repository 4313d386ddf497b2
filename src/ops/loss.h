/* loss.h: what the families of losses share; loss.c and cross_entropy.c have it. */
#ifndef CNI_OPS_LOSS_H
#define CNI_OPS_LOSS_H

#include <cairn/ext/op.h>

/* Sets result 0 to the terms, their mean or their sum, as the word in that parameter says. */
int cni_reduce_terms(cn_call *c, cn_tensor *terms, int parameter);
/* Has target (input 1) the shape of input 0? Else an error. */
int cni_check_target(const cn_call *c);
/* Where target counts, and target with 0 in the other places. */
cn_tensor *cni_safe_target(cn_tensor *target, int64_t ignore, cn_tensor **keep);
/* The weight of each target's class, 0 where it is ignored, in target's shape and w's type (1 when w is NULL). */
cn_tensor *cni_target_weights(cn_tensor *w, cn_tensor *safe, cn_tensor *keep, cn_dtype dtype);

#endif
