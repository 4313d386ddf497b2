/* index_advanced.h: how several index tensors select elements at once: PyTorch's rules for x[a, :, b], worked out once
 * for infer, gradients and the kernels of every backend.
 *
 * Invariant: a plan borrows the tensors of the call it was made from. */
#ifndef CNI_OPS_INDEX_ADVANCED_H
#define CNI_OPS_INDEX_ADVANCED_H

#include <cairn/ext/op.h>

typedef struct cni_index_plan {
  int n; /* index tensors, masks included */
  cn_tensor *index[CN_MAX_DIMS];
  int dim[CN_MAX_DIMS]; /* the input's dim that each begins at (a mask takes as many as it has) */
  bool masks;           /* there is one: the result's size depends on data */
  int ndim;             /* of what is selected */
  int64_t shape[CN_MAX_DIMS];
  int at, wide;          /* result dims [at, at + wide) are those of the indices, broadcast together */
  int from[CN_MAX_DIMS]; /* the input's dim that each other result dim is */
} cni_index_plan;

/* Works out x[list]: a NULL in the list, and what lies behind its end, stands for a whole dim. 0 or an error. */
int cni_index_plan_make(cni_index_plan *p, const cn_call *c, const cn_desc *x, cn_tensor *const *list, int n);

#endif
