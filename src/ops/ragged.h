/* ragged.h: vectors of members with different lengths, one behind the other: whose each element is, and where there.
 *
 * Place in the flow: lists.c and strings.c. Invariant: made of ops alone. */
#ifndef CNI_OPS_RAGGED_H
#define CNI_OPS_RAGGED_H

#include "shorthand.h"

typedef struct cni_ragged {
  cn_tensor *member, *place; /* per element, int64 */
} cni_ragged;

/* total: the sum of lengths where it is known; CN_NONE: it is counted, a size that depends on data. */
int cni_ragged_of(cni_ragged *r, cn_tensor *lengths, int64_t total);
cn_tensor *cni_starts(cn_tensor *lengths);               /* where each member begins */
cn_tensor *cni_counting(int64_t n, cn_device device);    /* 0, 1 ... n - 1 */
/* These numbers, as arguments of ops: in a graph they may follow from sizes. */
cn_tensor *cni_size_vector(const int64_t *v, int n, cn_device device);

#endif
