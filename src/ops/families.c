/* families.c: see families.h. */
#include "families.h"

#define FAMILY(name) {#name, cni_##name##_ops, &cni_##name##_count}

const cni_family cni_families[] = {
  FAMILY(pointwise), /* pointwise.def: primitives that are ops */
  FAMILY(program),   /* programs.c: pointwise ops of several steps */
  FAMILY(arith),     /* arith.c: logarithms of sums, tolerance, parts of numbers, divisors */
  FAMILY(special),   /* special.c: Bessel, gamma and normal distribution functions */
  FAMILY(activation), /* activation.c: more activations, dropouts of channels */
  FAMILY(loss_pair), /* loss_pair.c: distances, losses of margins and likelihoods */
  FAMILY(ctc),       /* ctc.c: connectionist temporal classification */
  FAMILY(view),      /* view.c: results that share memory */
  FAMILY(strided),   /* strided.c: the view with any strides */
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
  FAMILY(linalg_lu), /* linalg_lu.c: LU decomposition, logarithms of determinants */
  FAMILY(linalg_factor), /* linalg_factor.c: QR, singular values, eigenvalues, exponential */
  FAMILY(linalg_norm), /* linalg_norm.c: matrix norms, rank, pseudo-inverse, least squares */
  FAMILY(linalg_form), /* linalg_form.c: powers, chains, traces, older names */
  FAMILY(distance), /* distance.c: distances between rows */
  FAMILY(recurrent), /* recurrent.c: LSTM, GRU and plain recurrent networks */
  FAMILY(recurrent_sequence), /* recurrent_sequence.c: the steps of one layer */
  FAMILY(fft),       /* fft.c: Fourier transforms of pairs */
  FAMILY(attention), /* attention.c: scaled dot product attention */
  FAMILY(join),      /* join.c: cat, stack, flip, roll, repeat, triangles */
  FAMILY(index),     /* index.c: reading and writing at indices along a dim */
  FAMILY(index_many), /* index_many.c: x[a, :, b] and masks */
  FAMILY(loss),      /* loss.c: losses and dropout */
  FAMILY(cross_entropy), /* cross_entropy.c: losses over classes */
  FAMILY(conv),      /* conv.c: convolutions and their gradients */
  FAMILY(columns),   /* columns.c: windows of images as columns, and back */
  FAMILY(conv_nd),   /* conv_nd.c: volumes, transposed convolutions, padding by word */
  FAMILY(pool),      /* pool.c: pooling and its gradients */
  FAMILY(pool_nd),   /* pool_nd.c: pools of signals and volumes, and what is made of pools */
  FAMILY(pool_fractional), /* pool_fractional.c: pools with windows at random steps */
  FAMILY(resample),  /* resample.c: interpolate */
  FAMILY(grid),      /* grid.c: grid_sample and affine_grid */
  FAMILY(shape),     /* shape.c: diagonals, grids, splits, shuffles */
  FAMILY(pad),       /* pad.c: borders */
  FAMILY(place),     /* place.c: positions, repetition by counts */
  FAMILY(draw),    /* draw.c: random distributions */
  FAMILY(contract), /* contract.c: einsum, tensordot, cross and other products */
  FAMILY(numeric), /* numeric.c: differences, integrals, covariance */
  FAMILY(heads),     /* heads.c: attention with several heads */
  FAMILY(bag),     /* bag.c: bags of embedding rows */
  FAMILY(signal),  /* signal.c: window functions */
  FAMILY(unique),   /* unique.c: what occurs, and how often */
  FAMILY(search),   /* search.c: binary search, membership, histograms */
  FAMILY(quantile), /* quantile.c: medians, modes, quantiles */
  FAMILY(index_more), /* index_more.c: take, put, index_reduce, forms of scatter */
  FAMILY(update),   /* update.c: what optimisers do to parameters */
  {NULL, NULL, NULL},
};
