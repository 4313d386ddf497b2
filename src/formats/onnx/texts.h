/* texts.h: strings of the host, for operators that look at their characters. A graph that is captured has none to read.
 * Internal. */
#ifndef CNI_ONNX_TEXTS_H
#define CNI_ONNX_TEXTS_H

#include "call.h"

/* Each with a zero behind it, in the call's room. */
typedef struct cni_onnx_texts {
  const char **s;
  int64_t *sizes;
  int64_t n;
  const cn_tensor *shaped; /* the lengths */
} cni_onnx_texts;
int cni_onnx_texts_in(cni_onnx_texts *out, cni_onnx_call *c, size_t i);
int cni_onnx_out_texts(cni_onnx_call *c, size_t i, const char *const *s, const int64_t *shape, size_t ndim);

/* What input i is in their order: 0 for the least, equal numbers for equal ones; int64, in their shape. *of: where one
 * of each number stands. NULL with the error set. */
cn_tensor *cni_onnx_ranks(cn_tensor **of, cni_onnx_call *c, size_t i);
/* Result 0: elements of strings 1 where `condition` is true, of strings 2 elsewhere; shapes broadcast. */
int cni_onnx_out_chosen(cni_onnx_call *c, cn_tensor *condition);

#endif
