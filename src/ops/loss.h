/* loss.h: what the families of losses share; loss.c has it. */
#ifndef CNI_OPS_LOSS_H
#define CNI_OPS_LOSS_H

#include <cairn/ext/op.h>

/* Sets result 0 to the terms, their mean or their sum, as the word in that parameter says. */
int cni_reduce_terms(cn_call *c, cn_tensor *terms, int parameter);
/* Has target (input 1) the shape of input 0? Else an error. */
int cni_check_target(const cn_call *c);

#endif
