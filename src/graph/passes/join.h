/* join.h: what passes share that make one node of several, for graphs that are only run from then on.
 *
 * Place in the flow: cn_graph_join and cn_graph_fuse, behind everything that looks at single ops. Invariant: values
 * that somebody else reads stay. */
#ifndef CNI_GRAPH_JOIN_H
#define CNI_GRAPH_JOIN_H

#include "graph/ir.h"

/* The node that makes a value, if it is of this op (CNI_OP_...); NULL: it is not. */
const cni_gnode *cni_maker(const cn_graph *g, int value, int op);
/* The node that alone reads a value, which nobody outside gets; -1: there is none. */
int cni_only_reader(cn_graph *g, int value);
/* Does nobody read the node's results from `first` on? */
bool cni_unread(cn_graph *g, const cni_gnode *n, int first);
/* Does a value follow from states alone that runs leave as they are, by few plain nodes? */
bool cni_is_steady(const cn_graph *g, int value, int depth);

enum { CNI_STEADY_DEPTH = 3 }; /* a cast of a weight, and what it may be a view of */

/* Nodes in front of one, written one after the other: the first that fails makes the rest do nothing. */
typedef struct cni_node_writer {
  cn_graph *g;
  int before, status;
} cni_node_writer;
/* A node of an op: its first result; -1: nothing was written. in: -1 where absent. */
int cni_write(cni_node_writer *w, int op, const cn_value *args, int nargs, const int *in, int nin);
/* ... over a and b (-1: it has one input), with one attribute behind them, or none. */
int cni_write_step(cni_node_writer *w, int op, int a, int b, cn_value attribute);
int cni_write_cast(cni_node_writer *w, int value, int dtype); /* the value itself, where it has the type */

/* batch_norms.c: is it a batch norm by running statistics whose numbers are all steady, and of which only the result is
 * read? */
bool cni_is_foldable_norm(cn_graph *g, int node);
/* weight and bias (-1: none) become those with the norm at `node` in them. column: how many channels the weight has
 * along each of its dimensions, 1 but for one. The nodes are written in front of `before`. 0 or a negative status. */
int cni_fold_norm(cn_graph *g, int before, int node, const int64_t *column, int ndim, int *weight, int *bias);
/* All that can be: how many, or a negative status. */
int cni_batch_norms_fold(cn_graph *g);

#endif
