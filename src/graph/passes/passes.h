/* passes.h: what changes a graph on its way to a device, one file a pass.
 *
 * Place in the flow: optimise.c runs them in the order of its list. Invariant: a pass keeps what a run gives, to the
 * bit unless it is said otherwise, and leaves a graph that cn_graph_verify takes. Each returns how much it changed, or
 * a negative status. */
#ifndef CNI_GRAPH_PASSES_H
#define CNI_GRAPH_PASSES_H

#include "graph/ir.h"

/* canonicalise.c: the input whose elements the node's one result has, where it is a copy; -1: it is none. */
int cni_copied_input(const cni_gnode *n);

/* optimise.c: cn_graph_optimise without passes that may round the gradients of a replay differently. */
int cni_graph_tidy(cn_graph *g);

int cni_pass_canonicalise(cn_graph *g); /* copies that copy nothing new, views that show what another value is */
int cni_pass_fold(cn_graph *g);         /* nodes over constants become constants */
int cni_pass_cse(cn_graph *g);          /* what is computed twice is computed once */
int cni_pass_widen(cn_graph *g);        /* updates on devices read 16-bit gradients, not float32 copies of them */
/* One of the ops of src/ops/update.c: it writes result i over input i, and the other inputs may be of any type. */
bool cni_is_update(const cni_gnode *n);
int cni_prune(cn_graph *g);             /* ... first of it: what branches and loops make for nobody */
int cni_pass_dead(cn_graph *g);         /* nodes and values that nothing reads go */
int cni_pass_algebra(cn_graph *g);      /* the rows of the rewriter, cairn's and those of plugins */
/* Of cn_graph_optimise_fast alone: */
int cni_pass_recognise(cn_graph *g); /* ops take the place of what was made of simpler ones */
int cni_pass_round(cn_graph *g);     /* formulas that lose less, or cost less */

/* join.c: of cn_graph_join. */
int cni_weights_apart(cn_graph *g); /* what follows from weights alone becomes states: how many, or negative */

/* carry.c: on devices updates write the 16-bit copies of weights that the next run reads. exact: as for cn_graph_fuse.
 * How many weights have one from now on, or a negative status; the graph is only run afterwards. */
int cni_carry_casts(cn_graph *g, bool exact);

#endif
