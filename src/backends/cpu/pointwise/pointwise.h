/* pointwise.h: the loops over one primitive, one table per instruction set (pointwise_isa.c).
 *
 * Invariant: y may be the same pointer as an operand, but never overlaps one otherwise. */
#ifndef CNI_CPU_POINTWISE_H
#define CNI_CPU_POINTWISE_H

#include "ops/program.h"

/* What pointwise programs compute in; smaller types are converted on load and store. */
enum cni_compute { CNI_C_F32, CNI_C_F64, CNI_C_I64, CNI_C_U64, CNI_COMPUTES };

typedef void (*cni_pw_loop)(void *y, const void *a, const void *b, const void *c, int64_t n);
typedef struct cni_pw_table {
  cni_pw_loop loop[CNI_COMPUTES][CNI_PRIM_COUNT];
  /* sin, cos and tan in float64 are exact up to CNM_TRIG_MAX; these are for blocks with larger arguments. */
  cni_pw_loop wide_sin, wide_cos, wide_tan;
} cni_pw_table;

extern const cni_pw_table cni_pw_table_base;
#if defined(__x86_64__)
extern const cni_pw_table cni_pw_table_avx2;
extern const cni_pw_table cni_pw_table_avx512;
#endif

int cni_cpu_pointwise(cn_call *c);

#endif
