/* iter.h: walks several strided operands in step: dims are reordered for the memory, merged where they can be, and
 * the rest is handed out row by row.
 *
 * Place in the flow: every CPU kernel that is not a library call or purely contiguous walks with this. Invariant: an
 * operand's stride is in bytes; a broadcast dim has stride 0. */
#ifndef CNI_CPU_ITER_H
#define CNI_CPU_ITER_H

#include <cairn/ext/op.h>

enum { CNI_ITER_FEW = 18 }; /* operands that need no memory */

typedef struct cni_iter {
  int n, ndim, room; /* room: operands that base and stride have place for */
  int64_t numel;
  int64_t shape[CN_MAX_DIMS];
  char **base;
  int64_t (*stride)[CN_MAX_DIMS];
  char *few_base[CNI_ITER_FEW];
  int64_t few_stride[CNI_ITER_FEW][CN_MAX_DIMS];
} cni_iter;

/* Begins a walk over this shape. It points into itself: it is not copied. */
void cni_iter_begin(cni_iter *it, int ndim, const int64_t *shape);
/* For walks of more than CNI_ITER_FEW operands: room for n, to be given back by cni_iter_end. 0 or CN_ERR_MEMORY. */
int cni_iter_room(cni_iter *it, int n);
void cni_iter_end(cni_iter *it);
/* Adds an operand, broadcast to the walk's shape (missing leading dims and size-1 dims get stride 0). */
void cni_iter_add(cni_iter *it, const cn_desc *d);
/* Adds an operand with strides of its own (in elements of `elem` bytes), already of the walk's shape. */
void cni_iter_add_strided(cni_iter *it, void *base, const int64_t *strides, size_t elem);
/* Puts the dim with operand 0's smallest stride innermost and merges what is contiguous in every operand. */
void cni_iter_finish(cni_iter *it);

/* One run of `n` elements: ptr[k] is operand k's first, stride[k] its byte step. */
typedef void (*cni_row_fn)(char *const *ptr, const int64_t *stride, int64_t n, void *payload);
/* Calls fn for every run, in parallel when there are more than `grain` elements. Runs never overlap. */
void cni_iter_run(const cni_iter *it, int64_t grain, cni_row_fn fn, void *payload);

/* Where element i of d, counted in row-major order, lies: in elements from its first. */
static inline int64_t cni_offset_of(const cn_desc *d, int64_t i)
{
  int64_t at = 0;
  for (int k = d->ndim - 1; k >= 0; i /= d->shape[k--]) at += i % d->shape[k] * d->strides[k];
  return at;
}

#endif
