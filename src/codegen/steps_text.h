/* steps_text.h: the parts of generated code that do not depend on how elements are walked: the maths, a function per
 * primitive, a program's steps.
 *
 * Place in the flow: pointwise_text.c puts loops over operands around them, blocks_text.c loops over blocks. Registers
 * are r0, r1, ...: inputs, constants, steps. Invariant: the arithmetic is that of the CPU kernels: formulas come from
 * pointwise.def, helpers and conversions from the headers those kernels include. */
#ifndef CNI_CODEGEN_STEPS_TEXT_H
#define CNI_CODEGEN_STEPS_TEXT_H

#include <cairn/ext/host.h>
#include <cairn/ext/system.h>

#include "ops/program.h"

extern const char *const cni_steps_types[CNI_COMPUTES]; /* "float", ... */

/* What register `reg` of the source's program holds. */
static inline enum cni_compute cni_steps_class(const cn_source *s, int reg)
{
  const cni_program *p = s->program;
  return p->typed ? (enum cni_compute)p->class[reg] : cni_compute_class(s->compute);
}

const char *cni_steps_stored(int dtype); /* how a type is written in memory: "uint16_t" */

/* Which primitives there are functions of already. */
typedef struct cni_steps_made {
  bool prim[CNI_COMPUTES][CNI_PRIM_COUNT];
} cni_steps_made;

bool cni_steps_needs_maths(const cni_program *p);
void cni_steps_head(cn_text *t, const cn_source *s, bool maths);
void cni_steps_primitives(cn_text *t, const cn_source *s, cni_steps_made *made);
/* An expression of one computed type as a type in memory, and back. */
void cni_steps_store(cn_text *t, int dtype, enum cni_compute class, const char *value);
void cni_steps_load(cn_text *t, int dtype, enum cni_compute class, const char *value);
void cni_steps_literal(cn_text *t, enum cni_compute class, double value);
/* Does it fail where its second operand is 0? */
bool cni_steps_checks(const cn_source *s, const cni_step *step, int reg);
void cni_steps_step(cn_text *t, const cn_source *s, const cni_step *step, int reg); /* reg: the one that it makes */

#endif
