/* segments.h: runs of graphs with sizes that only nodes know: see segments.c.
 *
 * Place in the flow: run.c asks cni_has_counts. Invariant: such a graph is never planned as a whole. */
#ifndef CNI_GRAPH_SEGMENTS_H
#define CNI_GRAPH_SEGMENTS_H

#include "plan.h"

typedef struct cni_segments cni_segments;

bool cni_counts(const cn_graph *g, const cni_gnode *n); /* does it make a result whose size is one of the graph's? */
bool cni_has_counts(const cn_graph *g);                 /* does any node? */
/* As cni_graph_run_at. */
int cni_segments_run(cn_tensor **outputs, cn_graph *g, cn_tensor *const *inputs, const uint64_t *at);

#endif
