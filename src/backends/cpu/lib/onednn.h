/* onednn.h: convolutions by oneDNN, loaded at first need, never linked.
 *
 * Place in the flow: the first implementation that conv.c tries. Invariant: it is entered with one OpenMP thread
 * only; cairn's own threads share the work between calls, so that OpenMP's never start. */
#ifndef CNI_CPU_ONEDNN_H
#define CNI_CPU_ONEDNN_H

#include "backends/cpu/conv/conv.h"

/* 0, an error, or CN_REFUSED with the reason in *refusal. */
int cni_onednn_conv(const cni_conv *v, const char **refusal);

#endif
