/* norm.h: what the families of normalisations share.
 *
 * Invariant: statistics are kept in cni_wide_type of the input's type. */
#ifndef CNI_OPS_NORM_H
#define CNI_OPS_NORM_H

#include "reduce.h"
#include "shorthand.h"

/* Which gradients a fused backward op is to compute, as its output_mask; inputs: -1 where there is none. */
void cni_norm_wanted(const cn_vjp *v, const int *inputs, int64_t *mask);
/* Result i of a fused backward op: empty when its mask says that it is not wanted. */
int cni_masked_result(cn_call *c, int i, const cn_value *mask, int dtype, int ndim, const int64_t *shape);
/* What a decomposition returns for it: t in the result's type, or that empty tensor. */
cn_tensor *cni_norm_or_empty(const cn_call *c, int i, bool want, cn_tensor *t);
/* rstd * (gw - [mean(gw)] - h * mean(gw * h)), with h the normalised input; mean(gw) only where the mean was
 * taken off (centered). */
cn_tensor *cni_norm_gradient(cn_tensor *gw, cn_tensor *h, cn_tensor *rstd, cn_ints dims, bool centered);

/* ---- of (N, C, ...), in batch_norm.c ---- */

int64_t cni_channels_of(const cn_desc *x); /* 0 where there are none */
/* t, if there is one, must be (channels). */
int cni_check_channels(const cn_call *c, cn_tensor *t, const char *name, int64_t channels);
/* (C) as (1, C, 1, ...) */
cn_tensor *cni_per_channel(cn_tensor *t, int ndim);
/* All dims but 1, in `room`. */
cn_ints cni_all_but_channels(int ndim, int64_t *room);

#endif
