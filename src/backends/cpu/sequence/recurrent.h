/* recurrent.h: what a step of a recurrent network does to each element, one table per instruction set and type.
 *
 * Place in the flow: recurrent.c calls them on tiles of rows by columns between its products; recurrent_isa.c has
 * them. Invariant: an element's value does not depend on the tile it falls into. */
#ifndef CNI_CPU_RECURRENT_H
#define CNI_CPU_RECURRENT_H

#include <cairn/base.h>

#include "backends/cpu/isa.h"

/* A matrix of rows of the table's type, `row` elements apart; the groups (gates) of a row lie `group` apart. data may
 * be NULL where the user of a tile allows it. */
typedef struct cni_groups {
  void *data;
  int64_t row, group;
} cni_groups;

/* One step of `rows` rows and `cols` columns of the state. */
typedef struct cni_recurrent_tile {
  int64_t rows, cols;
  cni_groups product; /* forward: of the gates; r, z, n's hidden and n's input part of a GRU; backward: the gradient of
                         the output, whole */
  cni_groups bias;    /* forward: added to the product; row is 0 */
  cni_groups before;  /* the state before: a GRU's h; backward of an LSTM: c */
  cni_groups carry;   /* LSTM: c, or its gradient, changed in place; backward of a GRU: the state's, likewise */
  cni_groups out;     /* the output, a result or (backward) an operand */
  cni_groups saved;   /* what the gradient reads; NULL in forward: not wanted */
  cni_groups state;   /* what the next product reads: the output, or the gradients of the gates' hidden parts */
  cni_groups g_given, g_hidden; /* backward: gradients of the gates; g_hidden: a GRU's alone */
} cni_recurrent_tile;

typedef void (*cni_recurrent_fn)(const cni_recurrent_tile *t);

/* By cni_recurrent. */
typedef struct cni_recurrent_loops {
  cni_recurrent_fn forward[4], backward[4];
  /* to = from, or to += from: (rows, cols); from->data NULL is zero. */
  void (*put)(const cni_groups *to, const cni_groups *from, int64_t rows, int64_t cols, bool add);
} cni_recurrent_loops;

/* [0] float, [1] double */
CNI_DECLARE_BY_ISA(cni_recurrent_loops, cni_recurrent_loops, [2]);

#endif
