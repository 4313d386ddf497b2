/* lower.h: graphs with calls of composite ops, made ready to run: see lower.c.
 *
 * Place in the flow: plan.c. Invariant: what the lowered graph gives is what the calls give, to the bit. */
#ifndef CNI_GRAPH_LOWER_H
#define CNI_GRAPH_LOWER_H

#include "ir.h"

bool cni_has_calls(const cn_graph *g); /* is a node the call of a composite op? */
/* The graph with such nodes replaced by what they are made of, at the sizes of these inputs (sizes: of
 * cni_size_values). Owned; NULL with the error set. */
cn_graph *cni_graph_lower(const cn_graph *g, cn_tensor *const *inputs, const int64_t *sizes);

#endif
