/* pointwise.h: the loops over one primitive, one table per instruction set (pointwise_isa.c).
 *
 * Invariant: y may be the same pointer as an operand, but never overlaps one otherwise. */
#ifndef CNI_CPU_POINTWISE_H
#define CNI_CPU_POINTWISE_H

#include "base/dtype.h"
#include "ops/program.h"

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

enum { CNI_PW_BLOCK = 512, CNI_PW_GRAIN = 32768 }; /* elements worked on at a time; elements worth a thread */

/* The loop of a primitive for these operands: float64 sin, cos and tan of large arguments have loops of their own. */
cni_pw_loop cni_pw_loop_by_size(const cni_pw_table *t, int prim, const double *x, int64_t n);
static inline cni_pw_loop cni_pw_loop_for(const cni_pw_table *t, enum cni_compute class, int prim, const void *a,
                                          int64_t n)
{
  return class == CNI_C_F64 ? cni_pw_loop_by_size(t, prim, a, n) : t->loop[class][prim];
}

int cni_cpu_pointwise(cn_call *c);
/* Takes calls of one primitive over operands that are dense as the result is, or one value each (direct.c). */
bool cni_pw_direct(const cn_call *c, const cni_program *p, enum cni_compute class, const cni_pw_table *t);

#endif
