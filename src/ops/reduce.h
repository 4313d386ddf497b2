/* reduce.h: what the reduction families share: result shapes, and bringing a gradient back to the input's
 * shape.
 *
 * Invariant: a mask has a bit per dim of the input; of a zero-dimensional input, bit 0 stands for its one
 * element. */
#ifndef CNI_OPS_REDUCE_H
#define CNI_OPS_REDUCE_H

#include "shorthand.h"

/* infer of sum, for what takes the same arguments: (input, dim, keepdim, dtype) */
int cni_sum_infer(cn_call *c);
/* Sets result i to input 0's shape without (or with size 1 for) the dims of mask. */
int cni_reduced_result(cn_call *c, int i, uint32_t mask, bool keepdim, int dtype);
/* The mask of dims that infer has accepted; none or an empty list: all. */
uint32_t cni_vjp_mask(const cn_value *dims, int ndim);
/* The dims of a mask as a list; room: CN_MAX_DIMS of them. */
cn_ints cni_dims_list(uint32_t mask, int ndim, int64_t *room);
/* How many elements go into one. */
int64_t cni_reduced_count(int ndim, const int64_t *shape, uint32_t mask);
/* g with the reduced dims back as size 1, so that it broadcasts against the input. Borrowed. */
cn_tensor *cni_with_dims(cn_tensor *g, int ndim, uint32_t mask, bool keepdim);
/* ... and expanded to the input's shape. */
cn_tensor *cni_spread(cn_tensor *g, const cn_meta *x, uint32_t mask, bool keepdim);
/* Shares g (with the reduced dims as size 1) evenly among the elements where ties is true, along the dims of mask. */
cn_tensor *cni_share_evenly(cn_tensor *g, cn_tensor *ties, uint32_t mask);
/* The type a sum or product gives: that of the dtype argument `param`, else int64 for integers and bool. */
int cni_sum_type(const cn_call *c, int param);
/* Gradient of ops that pick one element along a dim: (input, ..., dim, keepdim) -> (values, indices). */
int cni_picked_one_vjp(cn_vjp *v, int dim_param);
/* Zeros of the input's shape with g put at these indices along dim. */
cn_tensor *cni_scatter_along(cn_tensor *g, const cn_meta *x, int64_t dim, cn_tensor *index);
/* An error for types that are for storage only. */
int cni_check_computes(const cn_call *c, int dtype);

#endif
