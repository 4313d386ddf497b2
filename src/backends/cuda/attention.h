/* attention.h: what attention's files show each other: the form of a call, how cuDNN is told of it, masks.
 *
 * Place in the flow: attention.c reads a call, attention_mask.c its mask, attention_graph.c describes it, dnn.c makes a
 * plan of that. Invariant: a form is all that a plan depends on, so that plans are found by its bytes. */
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
  CNI_SDPA_KEPT,   /* what weights are multiplied by for dropout: 0, or a number above */
  CNI_SDPA_SCALE,  /* values from here ... */
  CNI_SDPA_LOWEST, /* what a score that does not count is */
  CNI_SDPA_RISE,   /* what weights are multiplied by besides */
  CNI_SDPA_SHARE,  /* ... to here: 1 / that, or 1 */
  CNI_SDPA_GO,
  CNI_SDPA_GQ,
  CNI_SDPA_GK,
  CNI_SDPA_GV,
  CNI_SDPA_SUM,    /* scratch: (B, H, Tq) */
  CNI_SDPA_GQ_SUM, /* scratch: (B, H, Tq, D), float32 */
  CNI_SDPA_TENSORS
};

/* Compared as bytes. Strides are those of (B, H, T, D), the mask's of (mb, mh, Tq, Tk). */
typedef struct cni_attention_form {
  char what[8];
  int32_t dtype, causal, backward, fixed; /* fixed: gradients are the same in every run */
  int32_t mask, drops;                    /* mask: the type of what is added to the scores; 0: nothing is. drops: are
                                             weights dropped? */
  int64_t b, h, kh, tq, tk, d, dv, mb, mh;
  int64_t q[4], k[4], v[4], o[4], go[4], gq[4], gk[4], gv[4], m[4];
} cni_attention_form;

/* Adds a form's tensors and operations to a graph. */
void cni_attention_describe(cni_dnn_graph *g, const void *form);

enum { CNI_SDPA_PACK = 8 };
/* How far rows of our own tensors of scores are apart: whole packs of 16 bytes. */
static inline int64_t cni_attention_room(const cni_attention_form *f)
{
  return (f->tk + CNI_SDPA_PACK - 1) / CNI_SDPA_PACK * CNI_SDPA_PACK;
}

/* ---- attention_mask.c ---- */

/* A mask, what is added to the scores for it, and what weights are multiplied by for dropout. */
typedef struct cni_attention_mask {
  const cn_desc *mask;     /* NULL: there is none */
  int64_t strides[4];      /* over (B, H, Tq, Tk), 0 where it is broadcast */
  void *added, *dropped;   /* the operands themselves, or ... */
  void *bias, *kept;       /* ... memory of ours */
  size_t bias_bytes, kept_bytes;
  float rise;              /* dropped * rise is 1 / (1 - p) */
} cni_attention_mask;

/* All complete the form. */
int cni_attention_take_mask(cni_attention_mask *m, cni_cuda_device *d, const char *name, const cn_tensor *mask,
                            cni_attention_form *f);
int cni_attention_take_dropped(cni_attention_mask *m, cni_cuda_device *d, const char *name, const cn_tensor *dropped,
                               double p, cni_attention_form *f);
int cni_attention_mend(const cni_attention_mask *m, cni_cuda_device *d, const char *name, const cni_attention_form *f,
                       void *const *qkv, float scale, const cn_desc *out, void *lse);
int cni_attention_take_stats(void **stats, const cni_attention_mask *m, cni_cuda_device *d, const char *name,
                             const cni_attention_form *f, void *lse);
void cni_attention_drop_mask(cni_attention_mask *m, cni_cuda_device *d);

#endif
#endif
