/* autotune.h: the clock chooses between implementations that are near one another (CAIRN_AUTOTUNE=1).
 *
 * Place in the flow: the dispatcher comes here with a call of the CPU whose implementations it would ask in their
 * order, once for calls that look alike. Invariant: without the variable, and where results must repeat, nothing is
 * timed; a verdict holds for every later process of the machine, so that its results do not change from run to run. */
#ifndef CNI_COMMON_AUTOTUNE_H
#define CNI_COMMON_AUTOTUNE_H

#include "dispatch.h"

/* Does the clock choose? One load once the environment was read. */
bool cni_autotune_on(void);
/* Runs the implementations of the list that stand for a contest (CN_KERNEL_NEAR) and takes the fastest, or the one that
 * was the fastest earlier. key: the call's signature without addresses. False: nothing to choose from; *choice is as it
 * was. The call's results are then those of some of them: it is to be run. */
bool cni_autotune(cni_choice *choice, cn_call *c, const cni_opinfo *info, const cni_kernel_list *list, uint64_t key);
void cni_autotune_exit(void);

#endif
