/* control_loop.h: what a loop that is recorded in a graph knows: control_loop.c makes it, control_loop_grad.c is its
 * gradient.
 *
 * Place in the flow: control.c -> control_loop.c, while a function is captured. Invariant: a carried value that carries
 * a gradient behind some step does so in front of every step. */
#ifndef CNI_COMPILE_CONTROL_LOOP_H
#define CNI_COMPILE_CONTROL_LOOP_H

#include "control.h"

/* Inputs of the node: carried values, memories outside that steps write to among them, xs, operands. */
typedef struct cni_looped {
  cni_control_kind kind;
  const char *who;
  cn_graph *cond, *body; /* until the node has them */
  cn_graph *backward;    /* one step; NULL: nothing carries gradients, or the steps have no bound */
  cni_captured f;        /* a step, forward and backward in one, for gradients of gradients */
  cn_tensor **all;       /* while it is recorded: the caller's room for all results of the node */
  cn_tensor *steps;      /* ... how many a scan does; NULL: all */
  size_t ncarried, nxs, noperands;
  size_t nresults;       /* carried values and ys */
  size_t nrows;          /* further rows, for backward */
  int64_t length;
  bool reverse, countdown;
  bool has_steps;        /* how many it does is given, or a result: backward needs it */
  int draw;
  cni_wire *result;      /* per result: value 0 where it carries a gradient, else -1; and its type in one step */
  bool *active;          /* per carried value: does it carry gradients from step to step? */
  int *kept;             /* inputs of the node that backward reads as they are: first xs, then operands */
  size_t nkept_xs, nkept_operands;
  int *gradient;         /* per input: which result of the backward node; -1: none */
  size_t nactive, nsums, ngradients;
  cni_wire *sums;        /* per input whose gradients are added up: its type */
} cni_looped;

static inline size_t cni_looped_inputs(const cni_looped *l) { return l->ncarried + l->nxs + l->noperands; }
void cni_looped_free(cni_looped *l);

/* control_loop.c */
/* Records a scan (counts: of carried values, xs and operands), or a map; `draw` is the loop's. The body is taken
 * over. in: one more place than there are inputs, of a scan: how many steps, or NULL. */
int cni_record_scan(cn_tensor **out, size_t nout, cn_graph *body, cn_tensor *const *in, const size_t *counts,
                    const cni_looped *l, bool backward);
int cni_record_map(cn_tensor **out, size_t nout, cn_graph *body, cn_tensor *const *in, size_t nxs, size_t noperands,
                   const cni_looped *l);
/* The forward node: results, then rows, then, of a bounded while, the count of steps. in: as above. */
int cni_record_loop(cn_tensor **out, cni_looped *l, cn_tensor *const *in);

/* control_loop_grad.c */
/* Cuts the step, which becomes the loop's own, in halves; where there is no bound to the steps without a backward. */
int cni_loop_add_backward(cni_looped *l, cni_captured *step);
/* Records the loop as a custom function. all: room for all results of the node. The loop is taken over. */
int cni_loop_apply(cn_tensor **all, cni_looped *l, cn_tensor *const *in);

#endif
