/* extract.h: a part of a graph as a graph of its own: the forward and the backward half of one that was captured as a
 * whole (compile/), say. */
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
} cni_part;

/* Owned; NULL with the error set. States that the part reads or writes are bound to the same tensors. All draws of the
 * whole are there, so that random numbers are the same in each part. The whole has fixed sizes. */
cn_graph *cni_graph_extract(const cn_graph *whole, const cni_part *part);

#endif
