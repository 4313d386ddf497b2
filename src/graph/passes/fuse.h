/* fuse.h: what the two halves of fusion share: fuse.c finds groups, fuse_program.c writes a group as one program.
 *
 * Place in the flow: cn_graph_fuse, behind all other passes, on graphs that are only run from then on. Invariant: a
 * group computes what its nodes did, to the bit, but for halves that need not be exact, and is within the limits
 * below. */
#ifndef CNI_GRAPH_FUSE_H
#define CNI_GRAPH_FUSE_H

#include "graph/ir.h"
#include "ops/program.h"

/* What may be part of a group. */
enum cni_part_kind {
  CNI_PART_NONE,
  CNI_PART_ROW,     /* a pointwise op */
  CNI_PART_PROGRAM, /* the op "pointwise": gradients of such */
  CNI_PART_CAST
};

enum { CNI_GROUP_STEPS = 64, CNI_GROUP_OPERANDS = 18 }; /* at most: values between steps are to stay in the cache */

bool cni_has_kernels(const cni_opinfo *info, cn_device device); /* ... of its own for the op */
/* norms.c: batch norms and what stands behind them become one node each. How many did, or a negative status. */
int cni_norms_join(cn_graph *g, bool exact);
/* add_norms.c: layer and RMS norms with the additions and casts around them become one node each; likewise. */
int cni_add_norms_join(cn_graph *g);
/* gelus.c: gelus with the products before them; likewise. */
int cni_gelus_join(cn_graph *g, bool exact);
/* sums.c: small products with the additions behind them; likewise. */
int cni_sums_join(cn_graph *g);
/* fuse.c: a node and the one behind it become one, whatever kinds of pointwise nodes they are. 1, or 0: they stay. */
int cni_fuse_pair(cn_graph *g, int node, bool exact);
/* What a node is as a part; *steps: how many it has. */
enum cni_part_kind cni_fuse_part(const cn_graph *g, const cni_gnode *n, int *steps);
/* A group as a program: its inputs are values of the graph. */
typedef struct cni_group_program {
  const cni_program *program;
  int in[CNI_GROUP_OPERANDS];
} cni_group_program;
/* members: in order. out, nout: the values that are read outside. exact: halves are rounded between members. 1: done;
 * 0: it is larger than groups may be; negative: the error is set. */
int cni_fuse_program(cni_group_program *p, const cn_graph *g, const int *members, int nmembers, const int *out,
                     int nout, bool exact);

#endif
