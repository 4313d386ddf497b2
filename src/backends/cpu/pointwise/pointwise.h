/* pointwise.h: the loops over one primitive, one table per instruction set (pointwise_isa.c).
 *
 * Invariant: y may be the same pointer as an operand, but never overlaps one otherwise. */
#ifndef CNI_CPU_POINTWISE_H
#define CNI_CPU_POINTWISE_H

#include "backends/cpu/isa.h"
#include "base/dtype.h"
#include "ops/program.h"

enum { CNI_PW_ONES = 4 }; /* primitives with such loops */
typedef void (*cni_pw_loop)(void *y, const void *a, const void *b, const void *c, int64_t n);
typedef struct cni_pw_table {
  cni_pw_loop loop[CNI_COMPUTES][CNI_PRIM_COUNT];
  /* sin, cos and tan in float64 are exact up to CNM_TRIG_MAX; these are for blocks with larger arguments. */
  cni_pw_loop wide_sin, wide_cos, wide_tan;
  cni_pw_loop half_neg, half_abs; /* of 16-bit floats, whose sign alone changes */
  /* In float32, where the first or the second operand is one value. */
  struct {
    int prim;
    cni_pw_loop loop[2];
  } one[CNI_PW_ONES];
} cni_pw_table;

CNI_DECLARE_BY_ISA(cni_pw_table, cni_pw_table);

enum { CNI_PW_BLOCK = 512, CNI_PW_GRAIN = 32768 }; /* elements worked on at a time; elements worth a thread */
enum { CNI_PW_WIDE = 2 * CNI_PW_BLOCK }; /* elements where all are float32: as many bytes */
/* Bytes of a block in memory. Not a multiple of 4096: loads would wait for stores to the same offset of a page. */
enum { CNI_PW_ROOM = CNI_PW_BLOCK * 8 + 320 };

/* That loop, or NULL. */
cni_pw_loop cni_pw_wide_loop(const cni_pw_table *t, int prim);
/* The loop of a primitive for these operands: float64 sin, cos and tan of large arguments have loops of their own. */
cni_pw_loop cni_pw_loop_by_size(const cni_pw_table *t, int prim, const double *x, int64_t n);
static inline cni_pw_loop cni_pw_loop_for(const cni_pw_table *t, enum cni_compute class, int prim, const void *a,
                                          int64_t n)
{
  return class == CNI_C_F64 ? cni_pw_loop_by_size(t, prim, a, n) : t->loop[class][prim];
}

/* ---- steps.c ---- */
void cni_pw_repeat(void *room, size_t size, int64_t n); /* the first element, of `size` bytes, n times in all */
void cni_pw_splat(void *room, int compute, double value, int64_t n); /* value n times, as CN_F32, CN_F64, ... */
/* A conversion of a typed program. */
void cni_pw_convert(const cni_program *p, const cni_step *s, void *y, const void *x, int64_t n);
bool cni_pw_has_zero(const int64_t *v, int64_t n);
int cni_pw_division_fault(const cn_call *c, const cni_step *s); /* sets the error, and returns it */
/* All steps of a typed program over one block: value: per register its block; slots: nslots blocks. 0 or an error. */
int cni_pw_steps(const cni_program *p, const cni_pw_table *t, const cn_call *c, const void **value, char *slots,
                 int64_t n);

int cni_cpu_pointwise(cn_call *c);
/* Takes calls of one primitive over operands that are dense as the result is, or one value each (direct.c). */
bool cni_pw_direct(const cn_call *c, const cni_program *p, enum cni_compute class, const cni_pw_table *t);

#endif
