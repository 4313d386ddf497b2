/* sparse.c: handles of sparse tensors, which hold other tensors instead of memory.
 *
 * Place in the flow: ops/sparse*.c make them and lower calls on them to calls on their parts. Invariant: a sparse
 * handle has storage of no size and no history; what it holds are ordinary tensors. */
#include <string.h>

#include "base/dtype.h"
#include "tensor.h"

const char *cni_layout_name(int layout)
{
  static const char *const names[] = {"strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"};
  return layout >= 0 && layout <= CN_LAYOUT_BSC ? names[layout] : "unknown";
}

void cni_sparse_free(cni_sparse *parts)
{
  cni_tensor_release(parts->index);
  cni_tensor_release(parts->plain);
  cni_tensor_release(parts->values);
  cni_free(parts, sizeof *parts);
}

static cni_sparse *parts_kept(const cni_sparse *parts)
{
  cni_sparse *kept = cni_alloc(sizeof *kept);
  if (!kept) return NULL;
  *kept = *parts;
  cni_tensor_keep(kept->index);
  cni_tensor_keep(kept->plain);
  cni_tensor_keep(kept->values);
  return kept;
}

/* Elements that count: those that are there may be few of them. */
static int64_t count_of(int ndim, const int64_t *shape)
{
  int64_t n = 1;
  for (int i = 0; i < ndim; i++)
    if (__builtin_mul_overflow(n, shape[i], &n)) return -1;
  return n;
}

cn_tensor *cni_sparse_new(cn_layout layout, const cni_sparse *parts, int ndim, const int64_t *shape)
{
  const cn_desc *v = &parts->values->d;
  if (count_of(ndim, shape) < 0) {
    char text[CNI_SHAPE_TEXT];
    cni_fail(CN_ERR_SHAPE, "sparse tensors of shape %s have more elements than can be counted",
             cni_shape_text(text, sizeof text, ndim, shape));
    return NULL;
  }
  cni_sparse *kept = parts_kept(parts);
  cn_tensor *t = kept ? cni_tensor_over(cni_storage_meta(v->device, 0, NULL), 0, v->dtype, ndim, shape, NULL) : NULL;
  if (!t) {
    if (kept) cni_sparse_free(kept);
    return NULL;
  }
  t->d.layout = layout;
  t->sparse = kept;
  t->inference = parts->values->inference;
  return t;
}

int cni_sparse_become(cn_tensor *t, const cn_tensor *other)
{
  cni_sparse *kept = parts_kept(other->sparse);
  if (!kept) return CN_ERR_MEMORY;
  cni_sparse *before = t->sparse;
  void *data = t->d.data;
  t->sparse = kept;
  t->d = other->d;
  t->d.data = data;
  cni_sparse_free(before);
  return CN_OK;
}

/* ---- looking in ---- */

cn_layout cn_layout_of(const cn_tensor *t) { return t ? (cn_layout)t->d.layout : CN_LAYOUT_STRIDED; }
bool cn_is_sparse(const cn_tensor *t) { return cni_is_sparse(t); }

int64_t cn_nnz(const cn_tensor *t)
{
  if (!cni_is_sparse(t)) return 0;
  const cn_desc *places = &(t->sparse->plain ? t->sparse->plain : t->sparse->index)->d;
  return places->shape[places->ndim - 1];
}

int cn_sparse_dim(const cn_tensor *t)
{
  if (!cni_is_sparse(t)) return 0;
  return t->sparse->plain ? 2 : (int)t->sparse->index->d.shape[0];
}

int cn_dense_dim(const cn_tensor *t) { return cni_is_sparse(t) ? t->sparse->dense_dim : cn_ndim(t); }
bool cn_is_coalesced(const cn_tensor *t) { return cni_is_sparse(t) && t->sparse->coalesced; }
