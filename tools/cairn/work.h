/* work.h: what a network has to do, node by node: operations, bytes, and which products of matrices they are.
 *
 * Place in the flow: subject.h traces the network, work.c reads its graph; the roofline model and the systolic arrays
 * take it from there. Invariant: sizes alone decide; nothing is computed. */
#ifndef CAIRN_COMMAND_WORK_H
#define CAIRN_COMMAND_WORK_H

#include <cairn/ext/graph.h>

#include "array.h"

typedef struct work_node {
  char name[96];  /* of its module: "layer1.0.conv1"; "": in none */
  const char *op;
  double flops, products; /* of them in products */
  double read, written;   /* bytes */
  double weights;         /* of those that are read: of parameters and what else lives on between runs */
  double stream;          /* bytes of its first input or result, the larger; of pools, that all windows hold */
  array_product as[2];    /* as products; count 0: none */
  int64_t taps;           /* of a convolution's window; 0: none */
  int64_t stride, groups;
} work_node;

typedef struct work {
  work_node *v;
  size_t n, cap;
  work_node all;     /* the sum */
  double parameters; /* bytes of states */
} work;

/* 0 or a negative status; work_free in any case. */
int work_of(work *w, const cn_graph *g);
void work_free(work *w);

#endif
