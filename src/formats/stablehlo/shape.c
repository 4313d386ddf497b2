/* shape.c: rows of views, of joining and cutting. Views are values here: memory has no addresses. See row.h. */
#include <string.h>

#include "rows.h"

static void same(cni_hcall *c) { c->out[0] = c->in[0]; }

static void reshape(cni_hcall *c) { c->out[0] = cni_hlo_reshape(c->h, c->in[0], c->out[0].ndim, c->out[0].shape); }

static void expand(cni_hcall *c) { c->out[0] = cni_hlo_expand(c->h, c->in[0], c->out[0].ndim, c->out[0].shape); }

static void permute(cni_hcall *c)
{
  int64_t order[CN_MAX_DIMS];
  for (int k = 0; k < c->in[0].ndim; k++) {
    order[k] = c->args[1].u.is[k];
    if (order[k] < 0) order[k] += c->in[0].ndim;
  }
  c->out[0] = cni_hlo_transpose(c->h, c->in[0], order);
}

static void transpose(cni_hcall *c)
{
  int n = c->in[0].ndim;
  if (n) c->out[0] = cni_hlo_swap(c->h, c->in[0], cni_harg_dim(c, 1, n), cni_harg_dim(c, 2, n));
  else c->out[0] = c->in[0];
}

static void select(cni_hcall *c)
{
  int dim = cni_harg_dim(c, 1, c->in[0].ndim);
  int64_t i = cni_harg_int(c, 2);
  if (i < 0) i += c->in[0].shape[dim];
  c->out[0] = cni_hlo_drop_dim(c->h, cni_hlo_slice_dim(c->h, c->in[0], dim, i, i + 1, 1), dim);
}

static void slice(cni_hcall *c)
{
  const cni_hval *x = &c->in[0];
  int dim = cni_harg_dim(c, 1, x->ndim);
  int64_t size = x->shape[dim], from = cni_harg_none(c, 2) ? 0 : cni_harg_int(c, 2), step = cni_harg_int(c, 4);
  if (from < 0) from += size;
  from = from < 0 ? 0 : from > size ? size : from;
  int64_t n = c->out[0].shape[dim], to = n ? from + (n - 1) * step + 1 : from;
  c->out[0] = cni_hlo_slice_dim(c->h, *x, dim, from, to, step);
}

static void diagonal(cni_hcall *c)
{
  cni_hlo *h = c->h;
  int n = c->in[0].ndim, a = cni_harg_dim(c, 2, n), b = cni_harg_dim(c, 3, n);
  int64_t offset = cni_harg_int(c, 1), order[CN_MAX_DIMS], size = c->out[0].shape[n - 2];
  int k = 0;
  for (int d = 0; d < n; d++)
    if (d != a && d != b) order[k++] = d;
  order[n - 2] = a, order[n - 1] = b;
  cni_hval x = cni_hlo_transpose(h, c->in[0], order);
  int64_t i = offset < 0 ? -offset : 0, j = offset > 0 ? offset : 0;
  if (!size) {
    c->out[0] = cni_hlo_splat(h, cni_hlo_num(0), x.dtype, n - 1, c->out[0].shape);
    return;
  }
  x = cni_hlo_slice_dim(h, cni_hlo_slice_dim(h, x, n - 2, i, i + size, 1), n - 1, j, j + size, 1);
  cni_hval row = cni_hlo_iota(h, CN_I32, n, x.shape, n - 2), col = cni_hlo_iota(h, CN_I32, n, x.shape, n - 1);
  cni_hval zero = cni_hlo_splat(h, cni_hlo_num(0), x.dtype, n, x.shape);
  x = cni_hlo_select(h, cni_hlo_compare(h, "EQ", row, col), x, zero);
  c->out[0] = cni_hlo_reduce(h, x.dtype == CN_BOOL ? "or" : "add", x, 1u << (n - 1));
}

static void unfold(cni_hcall *c)
{
  cni_hlo *h = c->h;
  cni_hval x = c->in[0];
  if (!x.ndim) { /* one window of one element */
    c->out[0] = cni_hlo_reshape(h, x, c->out[0].ndim, c->out[0].shape);
    return;
  }
  int dim = cni_harg_dim(c, 1, x.ndim);
  int64_t size = cni_harg_int(c, 2), step = cni_harg_int(c, 3), n = c->out[0].shape[dim], shape[2] = {n, size};
  cni_hval i = CNI_HLO_EXPR(h, "a * c + b", CN_I32, cni_hlo_iota(h, CN_I32, 2, shape, 0),
                            cni_hlo_iota(h, CN_I32, 2, shape, 1), cni_hlo_int(step));
  int64_t order[CN_MAX_DIMS];
  for (int k = 0; k <= x.ndim; k++) order[k] = k <= dim ? k : k < x.ndim ? k + 1 : dim + 1;
  c->out[0] = cni_hlo_transpose(h, cni_hlo_take(h, x, dim, i), order);
}

static void cat(cni_hcall *c)
{
  cni_hlo *h = c->h;
  int n = 0, dim = cni_harg_dim(c, 1, c->out[0].ndim);
  size_t bytes = (size_t)(c->nin + 1) * sizeof(cni_hval);
  cni_hval *x = cn_alloc(bytes);
  for (int k = 0; k < c->nin && x; k++) {
    if (c->in[k].ndim != c->out[0].ndim || !cni_hlo_numel(&c->in[k])) continue; /* empty ones of one dim are skipped */
    x[n++] = cni_hlo_cast(h, c->in[k], c->out[0].dtype);
  }
  if (!x) h->failed = true;
  else if (n) c->out[0] = cni_hlo_concat(h, n, x, dim);
  else c->out[0] = cni_hlo_splat(h, cni_hlo_num(0), c->out[0].dtype, c->out[0].ndim, c->out[0].shape);
  if (x) cn_free(x, bytes);
}

/* ---- the memory of a layout ---- */

/* The input's elements in the order of its memory, if that is dense: row-major after a permutation. */
static bool in_memory_order(cni_hcall *c, cni_hval *x, const int64_t *stride)
{
  int64_t order[CN_MAX_DIMS], step = 1;
  int n = x->ndim;
  for (int i = 0; i < n; i++) { /* dims by falling stride */
    int j = i;
    for (; j > 0 && stride[order[j - 1]] < stride[i]; j--) order[j] = order[j - 1];
    order[j] = i;
  }
  for (int i = n - 1; i >= 0; i--) {
    if (x->shape[order[i]] == 1) continue;
    if (stride[order[i]] != step) return false;
    step *= x->shape[order[i]];
  }
  *x = cni_hlo_transpose(c->h, *x, order);
  return true;
}

/* as_strided_from(input, size, stride, storage_offset, own_stride, own_offset) */
static void strided(cni_hcall *c)
{
  cni_hlo *h = c->h;
  cni_hval x = c->in[0], at;
  const int64_t *shape = c->out[0].shape, *stride = c->args[2].u.is;
  int64_t first = cni_harg_int(c, 3) - cni_harg_int(c, 5), last = first, n = cni_hlo_numel(&x);
  for (int k = 0; k < c->out[0].ndim; k++) last += (shape[k] - 1) * stride[k];
  bool nothing = !cni_hlo_numel(&c->out[0]);
  if (!nothing && (!in_memory_order(c, &x, c->args[4].u.is) || first < 0 || last >= n)) {
    cni_hlo_fail(h, CN_ERR_UNSUPPORTED, "as_strided: it reaches memory that its input does not show");
    return;
  }
  if (nothing) {
    c->out[0] = cni_hlo_splat(h, cni_hlo_num(0), x.dtype, c->out[0].ndim, shape);
    return;
  }
  at = cni_hlo_splat(h, cni_hlo_int(first), CN_I64, c->out[0].ndim, shape);
  for (int k = 0; k < c->out[0].ndim; k++)
    at = CNI_HLO_EXPR(h, "a + b * c", CN_I64, at, cni_hlo_iota(h, CN_I64, c->out[0].ndim, shape, k),
                      cni_hlo_int(stride[k]));
  c->out[0] = cni_hlo_take(h, cni_hlo_reshape(h, x, 1, &n), 0, at);
}

/* ---- the same bytes as another type ---- */

static void view_dtype(cni_hcall *c)
{
  cni_hlo *h = c->h;
  cni_hval x = c->in[0];
  int from = cni_hlo_bits(x.dtype), to = cni_hlo_bits(c->out[0].dtype), n = x.ndim;
  int64_t shape[CN_MAX_DIMS + 1];
  int dtype = c->out[0].dtype == CN_BOOL ? CN_U8 : c->out[0].dtype;
  if (x.dtype == CN_BOOL) x = cni_hlo_convert(h, x, CN_U8);
  memcpy(shape, x.shape, sizeof x.shape);
  if (to > from) { /* several elements become one */
    shape[n - 1] /= to / from;
    shape[n] = to / from;
    x = cni_hlo_reshape(h, x, n + 1, shape);
    x = cni_hlo_emit(h, "bitcast_convert", NULL, dtype, n, shape, 1, &x);
  } else if (to < from) {
    shape[n] = from / to;
    x = cni_hlo_emit(h, "bitcast_convert", NULL, dtype, n + 1, shape, 1, &x);
    x = cni_hlo_reshape(h, x, n, c->out[0].shape);
  } else if (dtype != x.dtype) {
    x = cni_hlo_bitcast(h, x, dtype);
  }
  c->out[0] = c->out[0].dtype == CN_BOOL ? cni_hlo_convert(h, x, CN_BOOL) : x;
}

const cni_hrow cni_hlo_shape_rows[] = {
    {"detach", same, NULL},     {"clone", same, NULL},      {"contiguous_copy", same, NULL},
    {"contiguous", same, NULL}, {"channels_last", same, NULL}, {"to_device", same, NULL},
    {"view", reshape, NULL},    {"reshape", reshape, NULL}, {"squeeze", reshape, NULL},
    {"unsqueeze", reshape, NULL}, {"expand", expand, NULL}, {"permute", permute, NULL},
    {"transpose", transpose, NULL}, {"select", select, NULL}, {"slice", slice, NULL},
    {"diagonal", diagonal, NULL},   {"unfold", unfold, NULL}, {"cat", cat, NULL},
    {"as_strided_from", strided, NULL}, {"view_dtype", view_dtype, NULL}, {NULL, NULL, NULL}};
