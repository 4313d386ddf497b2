/* attention_isa.c: see attention.h. The loops are written once, in attention_loops.inc, for float and double;
 * this file is compiled once per instruction set. */
#include "attention.h"

#include <string.h>

#include "backends/cpu/isa.h"
#include "base/maths.h"

enum { LANES = 16, PITCH = CNI_ATTENTION_QUERIES };

#define T float
#define NAME(f) f##_f32
#define EXP cnm_expf
#define LOG cnm_logf
#include "attention_loops.inc"
#undef T
#undef NAME
#undef EXP
#undef LOG

#define T double
#define NAME(f) f##_f64
#define EXP cnm_exp
#define LOG cnm_log
#include "attention_loops.inc"

#define TABLE(S)                                                                                             \
  {                                                                                                          \
    add_mask_##S, bool_mask_##S, causal_##S, step_##S, finish_##S, weights_##S, score_grad_##S,               \
        thin_##S, dot_##S                                                                                    \
  }
#define TRANSPOSED(S)                                                                                                \
  {                                                                                                                  \
    transposed_add_mask_##S, transposed_bool_mask_##S, transposed_causal_##S, transposed_step_##S, finish_##S,       \
        transposed_weights_##S, transposed_score_grad_##S, transposed_thin_##S, dot_##S                              \
  }

const cni_attention_loops CNI_ISA_NAME(cni_attention_loops)[4] = {TABLE(f32), TABLE(f64), TRANSPOSED(f32),
                                                                  TRANSPOSED(f64)};
