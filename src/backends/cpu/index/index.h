/* index.h: what the kernels that read by index (index.c) and those that write by index (scatter.c) share.
 *
 * Invariant: index numbers are int64_t here, whatever the index tensor's type. */
#ifndef CNI_CPU_INDEX_H
#define CNI_CPU_INDEX_H

#include <cairn/ext/backend.h>

#include "ops/index_advanced.h"

/* The dim argument that all of these ops have as their second. */
static inline int cni_dim_arg(const cn_call *c, const cn_desc *x)
{
  int64_t dim = c->args[1].u.i;
  return (int)(dim < 0 ? dim + (x->ndim ? x->ndim : 1) : dim);
}

/* The numbers of an index tensor: its own memory when it is int64, else a row-major copy. */
typedef struct cni_numbers {
  cn_desc d;     /* of int64_t */
  void *copy;    /* owned; NULL: d.data is the tensor's */
  size_t size;
} cni_numbers;

/* `packed`: row-major in any case. 0 or CN_ERR_MEMORY; closed with cni_numbers_close either way. */
int cni_numbers_open(cni_numbers *n, const cn_desc *index, bool packed);
void cni_numbers_close(cni_numbers *n);
/* CN_ERR_INDEX with a message when a number is not in [0, size). */
int cni_numbers_check(const cn_call *c, const cni_numbers *n, int64_t size, int dim);
/* Where each combination of a plan's indices (integers only) lies in x: offsets in elements, row-major over the
 * indices' broadcast shape; negative numbers wrapped, all checked. Closed with cni_numbers_close. 0 or an error. */
int cni_plan_offsets(cni_numbers *n, const cn_call *c, const cni_index_plan *p, const cn_desc *x);
/* For rows of ops that select by index tensors (inputs 1 and on): integers only. */
int cni_can_index(const cn_call *c, cn_plan *plan);

#endif
