/* lower.h: what the files that write ops as nests share.
 *
 * Place in the flow: lower.c, which has the table of ops, begins a lowering and hands it to the op's function, there or
 * in lower_reduce.c; the nest that comes of it goes to nest_verify.c. Invariant: a lowering has one status, and after a
 * failure its functions do nothing more, so that it is asked once, at the end. */
#ifndef CNI_GRAPH_LOOP_LOWER_H
#define CNI_GRAPH_LOOP_LOWER_H

#include "nest.h"

typedef struct cni_lowering {
  cni_nest *n;
  const cn_call *c;
  const cn_desc *y; /* the first result */
  int status;
  cni_load nowhere; /* what is written after a failure */
} cni_lowering;

/* Expressions; -1 after a failure. */
int cni_lw_const(cni_lowering *w, int64_t value);
int cni_lw_axis(cni_lowering *w, int axis);
int cni_lw_make(cni_lowering *w, enum cni_expr_op op, int a, int b);
int cni_lw_affine(cni_lowering *w, int axis, int64_t scale, int64_t shift); /* axis * scale + shift */

void cni_lw_results(cni_lowering *w);               /* axes of the first result's shape; it is stored by them */
int cni_lw_reduced(cni_lowering *w, int64_t size);  /* another axis, over which is reduced */
cni_load *cni_lw_load(cni_lowering *w, int operand, bool late); /* in the type that the operand is computed in */
void cni_lw_index(cni_lowering *w, cni_load *l, int expr);      /* of its next dim */
void cni_lw_guard(cni_lowering *w, cni_load *l, int expr, int64_t below);
/* Reads an input where the results' axes are, broadcast. */
cni_load *cni_lw_same(cni_lowering *w, int operand, enum cni_compute class, bool late);
/* The programs by their text: %T is the first result's type in memory, %C what it is computed in. */
void cni_lw_do(cni_lowering *w, const char *text);
void cni_lw_then(cni_lowering *w, const char *text);
void cni_lw_fold(cni_lowering *w, int i, enum cni_fold fold, double from); /* of the body's result i, as %C */

static inline const cn_desc *cni_lw_in(const cni_lowering *w, int i) { return cn_desc_of(w->c->in[i]); }

/* lower_reduce.c */
void cni_lower_sum(cni_lowering *w);
void cni_lower_mean(cni_lowering *w);
void cni_lower_prod(cni_lowering *w);
void cni_lower_amax(cni_lowering *w);
void cni_lower_amin(cni_lowering *w);
void cni_lower_product(cni_lowering *w); /* mm, bmm */
void cni_lower_linear(cni_lowering *w);
void cni_lower_conv2d(cni_lowering *w);
void cni_lower_max_pool2d(cni_lowering *w);
void cni_lower_avg_pool2d(cni_lowering *w);

#endif
