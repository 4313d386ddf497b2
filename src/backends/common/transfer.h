/* transfer.h: the one kernel that moves a tensor between devices; every backend gets it when it is
 * registered. */
#ifndef CNI_COMMON_TRANSFER_H
#define CNI_COMMON_TRANSFER_H

#include <cairn/ext/op.h>

int cni_transfer_kernel(cn_call *c);

#endif
