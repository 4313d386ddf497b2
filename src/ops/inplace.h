/* inplace.h: writing a result into an existing tensor: the one rule behind every in-place form and `out`.
 *
 * Place in the flow: apply.c asks here when a call has a destination. */
#ifndef CNI_OPS_INPLACE_H
#define CNI_OPS_INPLACE_H

#include "apply.h"

/* May a result of this type and shape go into this destination? 0 or an error. */
int cni_check_dest(const cni_applying *a, const cn_tensor *dest, int dtype, int ndim, const int64_t *shape);
/* May all results, as infer described them, go where they should? Those of several apart from each other, and without
 * a gradient. */
int cni_check_dests(const cni_applying *a);
int cni_fail_several(const cni_applying *a); /* a destination takes one result: says so */
/* Runs the kernel with the results in their destinations; counts as a write of each. */
int cni_run_inplace(cni_applying *a);
/* dest.copy_(src) through all modes. */
int cni_copy_op(cn_tensor *dest, cn_tensor *src);

#endif
