/* extract.h: a part of a graph as a graph of its own.
 *
 * Place in the flow: compile/split.c cuts what was captured as a whole into a forward and a backward half. Invariant:
 * the part computes what its nodes compute in the whole, from inputs that are values of the whole. */
#ifndef CNI_GRAPH_EXTRACT_H
#define CNI_GRAPH_EXTRACT_H

#include "ir.h"

typedef struct cni_part {
  const bool *nodes;  /* per node of the whole: is it in the part? */
  const int *inputs;  /* values of the whole that the part is given: its inputs, in this order */
  size_t ninputs;
  const int *outputs; /* values that it gives */
  size_t noutputs;
  bool effects;       /* what the whole writes (states, inputs, gradients of leaves) is the part's to write */
  const cni_types *types; /* of the whole's values, where it has sizes that vary and `inputs` are results of nodes */
} cni_part;

/* Owned; NULL with the error set. States that the part reads or writes are bound to the same tensors. All draws of the
 * whole are there, so that random numbers are the same in each part. Sizes of the whole are those of the part where it
 * is given, or counts, what defines them. */
cn_graph *cni_graph_extract(const cn_graph *whole, const cni_part *part);

#endif
