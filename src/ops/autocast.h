/* autocast.h: mixed precision: inputs of listed ops are cast before the op is applied. */
#ifndef CNI_OPS_AUTOCAST_H
#define CNI_OPS_AUTOCAST_H

#include "table.h"

/* The rule (cni_amp) of an op for tensors where these are; 0: none. */
int cni_autocast_rule(const cni_opinfo *info, const cn_value *args);
/* Is there autocast for tensors on this device? */
bool cni_autocast_on(cn_device device);
/* Casts the inputs as the rule says, then applies the op with autocast off, so that what it is made of computes in that
 * type too. As cni_apply. */
int cni_autocast(int rule, const cni_opinfo *info, const cn_value *args, int nargs, cn_tensor **out, int *nout);

#endif
