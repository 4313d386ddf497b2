/* compare.h: two graphs of the same function, traced at different sizes: whether they are the same but for numbers, and
 * these numbers one by one.
 *
 * Place in the flow: probe.c compares every trace with its first one. Invariant: numbers are the only things in which
 * graphs without a difference differ; each has the same place in both. */
#ifndef CNI_GRAPH_COMPARE_H
#define CNI_GRAPH_COMPARE_H

#include "ir.h"

/* Where a number stands: element `element` of argument `arg` of node `node` (or of the call that scope `node` is), or
 * one of these as arg. */
enum {
  CNI_AT_SCALAR = -1, /* the number that value `node` is */
  CNI_AT_DRAW = -2,   /* the count of draw `node` */
  CNI_AT_DIM = -3,    /* size `element` of value `node`: infer gives it again; known ones help to find others */
  CNI_AT_INPUT = -4   /* size `element` of value `node`, an input whose sizes follow from others */
};
typedef struct cni_place {
  int32_t node, arg, element;
  bool real;  /* a float */
  bool scope;
} cni_place;
typedef union cni_count {
  int64_t i;
  double f;
} cni_count;

/* The places of all numbers, in an order in which a node's results come behind its arguments; ninputs: sizes of so many
 * inputs are chosen, and no such numbers. Owned, *n of them. */
cni_place *cni_places(const cn_graph *g, size_t ninputs, size_t *n);
cni_count cni_count_at(const cn_graph *g, const cni_place *p);
/* Writes what differs besides numbers; false: nothing does. */
bool cni_graphs_differ(const cn_graph *a, const cn_graph *b, char *what, size_t size);
/* Writes what a place is called: "end of slice". */
void cni_place_name(const cn_graph *g, const cni_place *p, char *text, size_t size);

#endif
