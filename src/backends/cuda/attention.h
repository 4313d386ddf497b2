/* attention.h: what attention's two files show each other: the form of a call, and how cuDNN is told of it.
 *
 * Place in the flow: attention.c reads a call, attention_graph.c describes it, dnn.c makes a plan of that. Invariant: a
 * form is all that a plan depends on, so that plans are found by its bytes. */
#ifndef CNI_CUDA_ATTENTION_H
#define CNI_CUDA_ATTENTION_H

#include "dnn.h"

#ifdef CNI_HAVE_CUDNN_H

/* Unique numbers of the tensors that are not virtual. */
enum {
  CNI_SDPA_Q = 1,
  CNI_SDPA_K,
  CNI_SDPA_V,
  CNI_SDPA_O,
  CNI_SDPA_STATS, /* each query's logarithm of its sum of exponentials */
  CNI_SDPA_MASK,
  CNI_SDPA_SCALE,  /* values from here ... */
  CNI_SDPA_LOWEST, /* what a score that does not count is */
  CNI_SDPA_ONE,    /* ... to here */
  CNI_SDPA_GO,
  CNI_SDPA_GQ,
  CNI_SDPA_GK,
  CNI_SDPA_GV,
  CNI_SDPA_SUM,   /* scratch: (B, H, Tq) */
  CNI_SDPA_GQ_SUM /* scratch: (B, H, Tq, D), float32 */
};

/* Compared as bytes. Strides are those of (B, H, T, D), the mask's of (mb, mh, Tq, Tk). */
typedef struct cni_attention_form {
  char what[8];
  int32_t dtype, causal, backward, fixed; /* fixed: gradients are the same in every run */
  int32_t mask, unused;                   /* mask: the type of what is added to the scores; 0: nothing is */
  int64_t b, h, kh, tq, tk, d, dv, mb, mh;
  int64_t q[4], k[4], v[4], o[4], go[4], gq[4], gk[4], gv[4], m[4];
} cni_attention_form;

/* Adds a form's tensors and operations to a graph. */
void cni_attention_describe(cni_dnn_graph *g, const void *form);

#endif
#endif
