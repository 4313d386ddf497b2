/* onednn.h: convolutions by oneDNN, loaded at first need, never linked.
 *
 * Place in the flow: one of the implementations that conv.c lists. Invariant: it is entered with one OpenMP thread
 * only; cairn's own threads share the work between calls, so that OpenMP's never start. */
#ifndef CNI_CPU_ONEDNN_H
#define CNI_CPU_ONEDNN_H

#include "backends/cpu/conv/conv.h"

/* Why it does not take a convolution; NULL: it does. wished: asked for by name, even where own kernels are faster. */
const char *cni_onednn_conv_against(const cni_conv *v, bool wished);
/* 0, an error, or CN_REFUSED with the reason in *refusal: oneDNN has no primitive for it. */
int cni_onednn_conv(const cni_conv *v, const char **refusal);

#endif
