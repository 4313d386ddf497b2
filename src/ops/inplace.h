/* inplace.h: writing a result into an existing tensor: the one rule behind every in-place form and `out`.
 *
 * Place in the flow: apply.c asks here when a call has a destination. */
#ifndef CNI_OPS_INPLACE_H
#define CNI_OPS_INPLACE_H

#include "apply.h"

/* May the call's result go into a->dest? Shape, type and memory layout. 0 or an error. */
int cni_check_dest(cni_applying *a);
/* Runs the kernel with the result in a->dest; counts as a write. */
int cni_run_inplace(cni_applying *a);
/* dest.copy_(src) through all modes. */
int cni_copy_op(cn_tensor *dest, cn_tensor *src);
int cni_make_results(cn_call *c);
int cni_apply_run(cni_applying *a);

#endif
