/* gather.c: elements at places, and back; sorting. See rows.h. Places are cut to 32 bits where that is enough. */
#include <string.h>

#include "rows.h"

static cni_hval as_index(cni_hlo *h, cni_hval index, int64_t reach)
{
  return cni_hlo_convert(h, index, reach < INT32_MAX ? CN_I32 : CN_I64);
}

static void put_type_end(cni_hlo *h, int n, const cni_hval *in, const cni_hval *out)
{
  cn_text_put(&h->t, " : (");
  for (int k = 0; k < n; k++) {
    if (k) cn_text_put(&h->t, ", ");
    cni_hlo_put_type_of(h, &in[k]);
  }
  cn_text_put(&h->t, ") -> ");
  cni_hlo_put_type_of(h, out);
  cn_text_put(&h->t, "\n");
}

/* The dims of take's result that are x's own, and its shape. */
static int window_dims(const cni_hval *x, int dim, const cni_hval *index, int64_t *dims, int64_t *shape)
{
  int n = 0;
  for (int k = 0; k < x->ndim; k++) {
    if (k == dim) continue;
    dims[n] = k < dim ? k : k - 1 + index->ndim;
    shape[dims[n++]] = x->shape[k];
  }
  for (int k = 0; k < index->ndim; k++) shape[dim + k] = index->shape[k];
  return n;
}

cni_hval cni_hlo_take(cni_hlo *h, cni_hval x, int dim, cni_hval index)
{
  int64_t dims[CN_MAX_DIMS], shape[2 * CN_MAX_DIMS], size[CN_MAX_DIMS];
  int n = window_dims(&x, dim, &index, dims, shape);
  if (h->failed) return x;
  if (!cni_hlo_numel(&x)) /* then there is nothing to be taken, too */
    return cni_hlo_splat(h, cni_hlo_num(0), x.dtype, x.ndim - 1 + index.ndim, shape);
  index = as_index(h, index, x.shape[dim]);
  cni_hval v = cni_hlo_begin(h, x.dtype, x.ndim - 1 + index.ndim, shape);
  memcpy(size, x.shape, sizeof size);
  size[dim] = 1;
  if (h->failed) return v;
  cn_text_putf(&h->t, "\"stablehlo.gather\"(%%%d, %%%d) {dimension_numbers = #stablehlo.gather<", x.id, index.id);
  if (n) cn_text_put(&h->t, "offset_dims = "), cni_hlo_put_list(&h->t, dims, n), cn_text_put(&h->t, ", ");
  cn_text_putf(&h->t,
               "collapsed_slice_dims = [%d], start_index_map = [%d], index_vector_dim = %d>, slice_sizes = ", dim,
               dim, index.ndim);
  cni_hlo_put_array(&h->t, size, x.ndim);
  cn_text_put(&h->t, ", indices_are_sorted = false}");
  put_type_end(h, 2, (cni_hval[]){x, index}, &v);
  return v;
}

/* Where the elements that take_along takes lie, x laid flat. */
static cni_hval flat_places(cni_hlo *h, const cni_hval *x, int dim, cni_hval index)
{
  int64_t step = 1, n = cni_hlo_numel(x);
  int type = n < INT32_MAX ? CN_I32 : CN_I64;
  cni_hval at = cni_hlo_splat(h, cni_hlo_int(0), type, index.ndim, index.shape);
  for (int k = x->ndim - 1; k >= 0; step *= x->shape[k--]) {
    cni_hval i = k == dim ? cni_hlo_convert(h, index, type) : cni_hlo_iota(h, type, index.ndim, index.shape, k);
    if (index.shape[k] > 1 || k == dim) at = CNI_HLO_EXPR(h, "a + b * c", type, at, i, cni_hlo_int(step));
  }
  return at;
}

cni_hval cni_hlo_take_along(cni_hlo *h, cni_hval x, int dim, cni_hval index)
{
  int64_t n = cni_hlo_numel(&x);
  if (!x.ndim) return cni_hlo_expand(h, x, index.ndim, index.shape);
  return cni_hlo_take(h, cni_hlo_reshape(h, x, 1, &n), 0, flat_places(h, &x, dim, index));
}

cni_hval cni_hlo_put(cni_hlo *h, const char *op, cni_hval x, int dim, cni_hval index, cni_hval values)
{
  int64_t dims[CN_MAX_DIMS], shape[2 * CN_MAX_DIMS];
  int n = window_dims(&x, dim, &index, dims, shape), a = h->next++, b = h->next++, y = h->next++;
  bool set = !strcmp(op, "set");
  index = as_index(h, index, x.shape[dim]);
  cni_hval v = cni_hlo_begin(h, x.dtype, x.ndim, x.shape), one = {.dtype = x.dtype};
  if (h->failed) return v;
  cn_text_putf(&h->t, "\"stablehlo.scatter\"(%%%d, %%%d, %%%d) ({\n  ^bb0(%%%d: ", x.id, index.id, values.id, a);
  cni_hlo_put_type_of(h, &one);
  cn_text_putf(&h->t, ", %%%d: ", b);
  cni_hlo_put_type_of(h, &one);
  cn_text_put(&h->t, "):\n");
  if (!set) {
    cn_text_putf(&h->t, "    %%%d = stablehlo.%s %%%d, %%%d : ", y, op, a, b);
    cni_hlo_put_type_of(h, &one);
    cn_text_put(&h->t, "\n");
  }
  cn_text_putf(&h->t, "    stablehlo.return %%%d : ", set ? b : y);
  cni_hlo_put_type_of(h, &one);
  cn_text_put(&h->t, "\n  }) {scatter_dimension_numbers = #stablehlo.scatter<");
  if (n) cn_text_put(&h->t, "update_window_dims = "), cni_hlo_put_list(&h->t, dims, n), cn_text_put(&h->t, ", ");
  cn_text_putf(&h->t, "inserted_window_dims = [%d], scatter_dims_to_operand_dims = [%d], index_vector_dim = %d>, "
                      "indices_are_sorted = false, unique_indices = false}", dim, dim, index.ndim);
  put_type_end(h, 3, (cni_hval[]){x, index, values}, &v);
  return v;
}

cni_hval cni_hlo_put_along(cni_hlo *h, const char *op, cni_hval x, int dim, cni_hval index, cni_hval values)
{
  int64_t n = cni_hlo_numel(&x), one = 1;
  int ndim = x.ndim;
  if (!ndim) {
    x = cni_hlo_reshape(h, x, 1, &one);
    cni_hval i = cni_hlo_reshape(h, index, 1, &one), u = cni_hlo_reshape(h, values, 1, &one);
    return cni_hlo_reshape(h, cni_hlo_put(h, op, x, 0, i, u), 0, NULL);
  }
  cni_hval flat = cni_hlo_put(h, op, cni_hlo_reshape(h, x, 1, &n), 0, flat_places(h, &x, dim, index), values);
  return cni_hlo_reshape(h, flat, ndim, x.shape);
}

void cni_hlo_sort(cni_hlo *h, int n, cni_hval *x, int dim, bool descending)
{
  cni_hval a = {.dtype = x[0].dtype}, b = a, out[4];
  const char *order = descending ? "(a > b) | (a != a) & (b == b)" : "(a < b) | (b != b) & (a == a)";
  if (!cni_hlo_is_float(a.dtype)) order = descending ? "a > b" : "a < b";
  if (h->failed) return;
  for (int k = 0; k < n; k++) out[k] = cni_hlo_fresh(h, x[k].dtype, x[k].ndim, x[k].shape);
  for (int k = 0; k < n; k++) cn_text_putf(&h->t, "%s%%%d", k ? ", " : "  ", out[k].id);
  cn_text_put(&h->t, " = \"stablehlo.sort\"(");
  for (int k = 0; k < n; k++) cn_text_putf(&h->t, "%s%%%d", k ? ", " : "", x[k].id);
  cn_text_put(&h->t, ") ({\n  ^bb0(");
  for (int k = 0; k < n; k++) {
    cni_hval p = cni_hlo_fresh(h, x[k].dtype, 0, NULL), q = cni_hlo_fresh(h, x[k].dtype, 0, NULL);
    if (!k) a = p, b = q;
    cn_text_putf(&h->t, "%s%%%d: ", k ? ", " : "", p.id);
    cni_hlo_put_type_of(h, &p);
    cn_text_putf(&h->t, ", %%%d: ", q.id);
    cni_hlo_put_type_of(h, &q);
  }
  cn_text_put(&h->t, "):\n");
  cni_hval less = CNI_HLO_EXPR(h, order, a.dtype, a, b);
  cn_text_putf(&h->t, "  stablehlo.return %%%d : tensor<i1>\n  }) {dimension = %d : i64, is_stable = true} : (",
               less.id, dim);
  for (int half = 0; half < 2; half++) {
    for (int k = 0; k < n; k++) {
      if (k) cn_text_put(&h->t, ", ");
      cni_hlo_put_type_of(h, &x[k]);
    }
    cn_text_put(&h->t, half ? ")\n" : ") -> (");
  }
  for (int k = 0; k < n; k++) x[k] = out[k];
}
