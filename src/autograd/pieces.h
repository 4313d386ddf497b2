/* pieces.h: gradients of a tensor that reach it by the pieces it was cut into (select, slice), while a graph is
 * captured: put side by side at the end, instead of each one into zeros of the whole's size.
 *
 * Place in the flow: engine.c keeps pieces with the task of the node they belong to, and joins them before it goes
 * through that node. Where gradients may be written in place it does without (engine.c, begin_whole). */
#ifndef CNI_AUTOGRAD_PIECES_H
#define CNI_AUTOGRAD_PIECES_H

#include "node.h"

typedef struct cni_piece {
  cni_node *view;   /* owned: what cut it out */
  cn_tensor *g;     /* owned */
  int64_t from, to; /* along the dim of the cut */
} cni_piece;

typedef struct cni_pieces {
  int dim;
  cni_piece *v; /* by `from` */
  size_t n, cap;
} cni_pieces;

/* Keeps the gradient of what view cut out of its input. 1: done; 0: it is no such piece, or lies over another one;
 * negative: an error. */
int cni_pieces_add(cni_pieces **pieces, cni_node *view, cn_tensor *g);
/* The gradient of the input, of type m, that all of them make up; borrowed from the scope. NULL with the error set. */
cn_tensor *cni_pieces_join(const cni_pieces *pieces);
void cni_pieces_free(cni_pieces *pieces);

#endif
