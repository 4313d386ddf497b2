/* touched.c: what a sparse gradient touches: rows of its parameter, and their gradients.
 *
 * Place in the flow: the sparse updates of SGD, Adagrad and SparseAdam read and write these rows alone. Invariant: each
 * row occurs once. */
#include <cairn/kw.h>

#include "optim.h"

static cn_tensor *flat_rows(const cni_touched *t, cn_tensor *x) { return cn_view(x, t->shape, (size_t)t->ndim); }

int cni_touch(cni_touched *t, const cni_param_step *s)
{
  cn_tensor *grad = cn_layout_of(s->grad) == CN_LAYOUT_COO ? s->grad : cn_to_sparse(s->grad, CN_NONE, CN_NONE);
  grad = cn_coalesce(grad);
  cn_tensor *indices = cn_indices(grad);
  if (!indices) return cn_err();
  int dims = cn_sparse_dim(grad);
  const int64_t *size = cn_shape(grad);
  t->values = cn_values(grad);
  t->rows = cn_select(indices, 0, 0);
  t->shape[0] = size[0];
  for (int i = 1; i < dims; i++) {
    t->rows = cn_add(cn_mul(t->rows, cn_int(size[i])), cn_select(indices, 0, i));
    t->shape[0] *= size[i];
  }
  t->ndim = 1 + cn_ndim(grad) - dims;
  for (int i = 1; i < t->ndim; i++) t->shape[i] = size[dims + i - 1];
  return cn_err();
}

cn_tensor *cni_touched_rows(const cni_touched *t, cn_tensor *x) { return cn_index_select(flat_rows(t, x), 0, t->rows); }

int cni_add_to_rows(const cni_touched *t, cn_tensor *x, cn_tensor *change)
{
  cn_tensor *rows = flat_rows(t, x);
  return rows && change && cn_index_add_(rows, 0, t->rows, change) ? CN_OK : cn_err();
}
