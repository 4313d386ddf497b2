/* pointwise.h: the rules that all pointwise rows share. Rows are made with the macros below. */
#ifndef CNI_OPS_POINTWISE_H
#define CNI_OPS_POINTWISE_H

#include "program.h"

int cni_pointwise_infer(cn_call *c);
int cni_pointwise_vjp(cn_vjp *v);
/* Which inputs and results (CN_IN, CN_OUT bits) of this call the gradients of the wanted inputs read. Negative: an
 * error is set. */
int64_t cni_pointwise_needs(const cn_call *c, uint64_t want);

#define CNI_POINTWISE_ROW(signature, documentation, pw, more_flags) \
  { \
    .sig = signature, .doc = documentation, .flags = CN_OP_ALIAS_SAFE | (more_flags), .infer = cni_pointwise_infer, \
    .vjp = cni_pointwise_vjp, .pointwise = pw \
  }
/* A primitive's, whose two operands may be written to before backward. */
#define CNI_POINTWISE_COPIED(signature, pw, more_flags) \
  { \
    .sig = signature, .flags = CN_OP_ALIAS_SAFE | (more_flags), .infer = cni_pointwise_infer, \
    .vjp = cni_pointwise_vjp, .pointwise = pw, .copied = CN_IN(0) | CN_IN(1) \
  }

#endif
