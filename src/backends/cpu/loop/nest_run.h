/* nest_run.h: runs a nest on the CPU. */
#ifndef CNI_CPU_NEST_RUN_H
#define CNI_CPU_NEST_RUN_H

#include "backends/cpu/pointwise/pointwise.h"
#include "graph/loop/nest.h"

/* A verified nest over these tensors. c: whose errors it reports; its own message where NULL. 0 or an error. */
int cni_nest_run(const cni_nest *n, const cn_call *c, const cn_desc *const *operands, const cn_desc *const *results);

#endif
