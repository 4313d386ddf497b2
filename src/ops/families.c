/* families.c: see families.h. */
#include "families.h"

#define FAMILY(name) {#name, cni_##name##_ops, &cni_##name##_count}

const cni_family cni_families[] = {
  FAMILY(pointwise), /* pointwise.def: primitives that are ops */
  FAMILY(program),   /* programs.c: pointwise ops of several steps */
  FAMILY(view),      /* view.c: results that share memory */
  FAMILY(view_scatter), /* view_scatter.c: inverses of views */
  FAMILY(create),    /* create.c: tensors from nothing, random numbers, copies */
  FAMILY(reduce),    /* reduce.c: sums, products, extremes, all and any */
  FAMILY(norm),      /* norm.c: layer and RMS norm */
  FAMILY(batch_norm), /* batch_norm.c: batch, group, instance norm */
  FAMILY(reduce_stat), /* reduce_stat.c: variance, deviation, vector norms */
  FAMILY(softmax),   /* softmax.c */
  FAMILY(order),     /* order.c: running sums, sorting, selection */
  FAMILY(matmul),    /* matmul.c: matrix products */
  FAMILY(linalg),    /* linalg.c: solving, inverse, Cholesky */
  FAMILY(attention), /* attention.c: scaled dot product attention */
  FAMILY(join),      /* join.c: cat, stack, flip, roll, repeat, triangles */
  FAMILY(index),     /* index.c: reading and writing at indices along a dim */
  FAMILY(index_many), /* index_many.c: x[a, :, b] and masks */
  FAMILY(loss),      /* loss.c: losses and dropout */
  FAMILY(cross_entropy), /* cross_entropy.c: losses over classes */
  FAMILY(conv),      /* conv.c: convolutions and their gradients */
  FAMILY(pool),      /* pool.c: pooling and its gradients */
  {NULL, NULL, NULL},
};
