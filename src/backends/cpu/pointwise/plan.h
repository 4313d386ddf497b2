/* plan.h: what the files that walk over a pointwise program's operands share: how one call is computed.
 */
#ifndef CNI_POINTWISE_PLAN_H
#define CNI_POINTWISE_PLAN_H

#include "backends/cpu/jit/jit.h"
#include "backends/cpu/walk/cast.h"
#include "backends/cpu/walk/iter.h"
#include "pointwise.h"

/* How an input gets into its register; NULL: its type is right as it is. */
typedef struct cni_pw_loading {
  cni_cast_fn load, down, up; /* down and up, where not NULL, round what was loaded to c->compute */
  size_t size;                /* bytes of an element in the register */
} cni_pw_loading;

typedef struct cni_pw_plan {
  const cn_call *c;
  const cni_program *p;
  const cni_pw_table *table;
  cni_block_fn code;       /* all steps at once, or NULL */
  enum cni_compute class;  /* of all registers, where they have none of their own */
  bool checks_zero;        /* an integer division is among the steps */
  bool nontemporal;        /* results go past the caches */
  bool late[CNI_MAX_RESULTS]; /* lies over an input that is read after its step: written when all steps are done */
  int64_t block;           /* elements worked on at a time */
  int64_t bytes;           /* of operands and results */
  const double *consts;
  cni_pw_loading *in;
  cni_cast_fn store[CNI_MAX_RESULTS]; /* NULL: the type is right as it is */
} cni_pw_plan;

/* A part of one row: elements [0, n) of operands at ptr, stride bytes apart. */
void cni_pw_some_of_row(const cni_pw_plan *pl, char *const *ptr, const int64_t *stride, int64_t n);
/* Elements from dst to where a cache line begins; 0 where it begins there, or none can. */
int64_t cni_pw_to_line(const char *dst, int64_t stride);
/* Takes the walk where an operand lies dense along another dim than the last, and both dims are long. */
bool cni_pw_tiles(cni_pw_plan *pl, const cni_iter *it);

#endif
