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

/* Where a slice lies: a step back counts from the other end. */
typedef struct place {
  int dim;
  bool back;
  int64_t from, to, step, n;
} place;

/* The arguments from the second on are slice's, of a tensor like x. */
static place place_of_slice(const cni_hcall *c, const cni_hval *x)
{
  const cn_value *a = c->args + (c->nin - 1); /* slice_scatter has one tensor more */
  place p = {.dim = (int)(a[1].u.i < 0 ? a[1].u.i + x->ndim : a[1].u.i), .step = a[4].u.i};
  int64_t size = x->shape[p.dim], from = a[2].u.i, end = a[3].u.i;
  p.back = p.step < 0;
  if (a[2].tag == CN_V_NONE) from = p.back ? size - 1 : 0;
  else if (from < 0) from += size;
  if (a[3].tag == CN_V_NONE) end = p.back ? -1 : size;
  else if (end < 0) end += size;
  if (p.back) p.step = -p.step, from = size - 1 - from, end = size - 1 - end;
  p.from = from < 0 ? 0 : from > size ? size : from;
  end = end < p.from ? p.from : end > size ? size : end;
  p.n = (end - p.from + p.step - 1) / p.step;
  p.to = p.n ? p.from + (p.n - 1) * p.step + 1 : p.from;
  return p;
}

static void slice(cni_hcall *c)
{
  place p = place_of_slice(c, &c->in[0]);
  cni_hval x = c->in[0];
  if (p.back) x = cni_hlo_reverse(c->h, x, (int64_t[]){p.dim}, 1);
  c->out[0] = cni_hlo_slice_dim(c->h, x, p.dim, p.from, p.to, p.step);
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

/* ---- views written through: input with what a view of it shows replaced ---- */

/* view is the row of the view, whose arguments stand behind the second tensor. */
static void put_view(cni_hcall *c, void (*view)(cni_hcall *))
{
  cni_hlo *h = c->h;
  cni_hval x = c->in[0], src = cni_hlo_cast(h, c->in[1], x.dtype);
  int64_t n = cni_hlo_numel(&x);
  cni_hval at = cni_hlo_reshape(h, cni_hlo_iota(h, n < INT32_MAX ? CN_I32 : CN_I64, 1, &n, 0), x.ndim, x.shape);
  cni_hval shown = src;
  shown.dtype = at.dtype;
  cni_hcall v = *c;
  v.args++, v.nargs--, v.nin = 1, v.nout = 1, v.in = &at, v.out = &shown;
  view(&v);
  cni_hval flat = cni_hlo_put(h, "set", cni_hlo_reshape(h, x, 1, &n), 0, shown, src);
  c->out[0] = cni_hlo_reshape(h, flat, x.ndim, x.shape);
}

/* The same of a view without gaps: from these elements on. */
static void put_block(cni_hcall *c, cni_hval src, const int64_t *from)
{
  cni_hval in[CN_MAX_DIMS + 2] = {c->in[0], src};
  for (int k = 0; k < src.ndim; k++) in[2 + k] = cni_hlo_splat(c->h, cni_hlo_int(from[k]), CN_I32, 0, NULL);
  c->out[0] = cni_hlo_emit(c->h, "dynamic_update_slice", NULL, in[0].dtype, in[0].ndim, in[0].shape, 2 + src.ndim, in);
}

static cni_hval source_of(cni_hcall *c, int ndim, const int64_t *shape)
{
  return cni_hlo_expand(c->h, cni_hlo_cast(c->h, c->in[1], c->in[0].dtype), ndim, shape);
}

static void slice_scatter(cni_hcall *c)
{
  cni_hval x = c->in[0];
  place p = place_of_slice(c, &x);
  int64_t from[CN_MAX_DIMS] = {0}, shape[CN_MAX_DIMS];
  memcpy(shape, x.shape, sizeof shape);
  shape[p.dim] = p.n, from[p.dim] = p.from;
  cni_hval src = source_of(c, x.ndim, shape), in[2] = {x, src};
  cni_hcall v = *c;
  v.in = in;
  if (!cni_hlo_numel(&src)) c->out[0] = x;
  else if (p.step == 1 && !p.back) put_block(c, src, from);
  else put_view(&v, slice), c->out[0] = v.out[0];
}

static void select_scatter(cni_hcall *c)
{
  cni_hval x = c->in[0];
  int dim = cni_harg_dim(c, 2, x.ndim), n = 0;
  int64_t from[CN_MAX_DIMS] = {0}, shape[CN_MAX_DIMS];
  for (int k = 0; k < x.ndim; k++)
    if (k != dim) shape[n++] = x.shape[k];
  from[dim] = cni_harg_int(c, 3) < 0 ? cni_harg_int(c, 3) + x.shape[dim] : cni_harg_int(c, 3);
  put_block(c, cni_hlo_insert_dim(c->h, source_of(c, n, shape), dim, 1), from);
}

static void diagonal_scatter(cni_hcall *c) { put_view(c, diagonal); }

/* split_copy(input, sizes, dim) */
static void split(cni_hcall *c)
{
  int dim = cni_harg_dim(c, 2, c->in[0].ndim);
  int64_t at = 0;
  for (int k = 0; k < c->nout; k++) {
    int64_t to = at + c->args[1].u.is[k];
    c->out[k] = cni_hlo_slice_dim(c->h, c->in[0], dim, at, to, 1);
    at = to;
  }
}

/* constant_pad_nd(input, pad, value): pairs from the last dim on. */
static void constant_pad(cni_hcall *c)
{
  int64_t low[CN_MAX_DIMS] = {0}, high[CN_MAX_DIMS] = {0};
  const cn_value *pad = &c->args[1];
  cni_hval value = c->args[2].tag == CN_V_FLOAT ? cni_hlo_num(c->args[2].u.f) : cni_hlo_int(c->args[2].u.i);
  for (int k = 0; k < pad->n / 2; k++) {
    low[c->in[0].ndim - 1 - k] = pad->u.is[2 * k];
    high[c->in[0].ndim - 1 - k] = pad->u.is[2 * k + 1];
  }
  c->out[0] = cni_hlo_pad(c->h, c->in[0], value, low, high, NULL);
}

static void flip(cni_hcall *c)
{
  int64_t dims[CN_MAX_DIMS];
  int n = 0;
  uint32_t mask = c->args[1].n ? cni_harg_dims(c, 1, c->in[0].ndim) : 0;
  for (int k = 0; k < c->in[0].ndim; k++)
    if (mask >> k & 1) dims[n++] = k;
  c->out[0] = cni_hlo_reverse(c->h, c->in[0], dims, n);
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

/* as_strided_scatter(input, src, size, stride, storage_offset): of the input row by row */
static void strided_view(cni_hcall *c)
{
  cni_hval at = c->in[0];
  int64_t first = cni_harg_none(c, 3) ? 0 : cni_harg_int(c, 3);
  const cni_hval *out = &c->out[0];
  cni_hval i = cni_hlo_splat(c->h, cni_hlo_int(first), at.dtype, out->ndim, out->shape);
  for (int k = 0; k < out->ndim; k++)
    i = CNI_HLO_EXPR(c->h, "a + b * c", at.dtype, i, cni_hlo_iota(c->h, at.dtype, out->ndim, out->shape, k),
                     cni_hlo_int(c->args[2].u.is[k]));
  c->out[0] = i;
}

static void strided_scatter(cni_hcall *c) { put_view(c, strided_view); }

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

/* ---- complex numbers and pairs ---- */

static void pairs_of(cni_hcall *c)
{
  cni_hlo *h = c->h;
  cni_hval x = c->in[0], parts[2];
  for (int k = 0; k < 2; k++) {
    parts[k] = cni_hlo_emit(h, k ? "imag" : "real", NULL, c->out[0].dtype, x.ndim, x.shape, 1, &x);
    parts[k] = cni_hlo_insert_dim(h, parts[k], x.ndim, 1);
  }
  c->out[0] = cni_hlo_concat(h, 2, parts, x.ndim);
}

static void of_pairs(cni_hcall *c)
{
  cni_hval parts[2];
  int last = c->in[0].ndim - 1;
  for (int k = 0; k < 2; k++)
    parts[k] = cni_hlo_drop_dim(c->h, cni_hlo_slice_dim(c->h, c->in[0], last, k, k + 1, 1), last);
  c->out[0] = cni_hlo_emit(c->h, "complex", NULL, c->out[0].dtype, last, c->out[0].shape, 2, parts);
}

const cni_hrow cni_hlo_shape_rows[] = {
    {"view_as_real", pairs_of, NULL}, {"view_as_complex", of_pairs, NULL},
    {"detach", same, NULL},     {"clone", same, NULL},      {"contiguous_copy", same, NULL},
    {"contiguous", same, NULL}, {"channels_last", same, NULL}, {"to_device", same, NULL},
    {"view", reshape, NULL},    {"reshape", reshape, NULL}, {"squeeze", reshape, NULL},
    {"unsqueeze", reshape, NULL}, {"expand", expand, NULL}, {"permute", permute, NULL},
    {"transpose", transpose, NULL}, {"select", select, NULL}, {"slice", slice, NULL},
    {"diagonal", diagonal, NULL},   {"unfold", unfold, NULL}, {"cat", cat, NULL},
    {"as_strided_from", strided, NULL}, {"view_dtype", view_dtype, NULL},
    {"slice_scatter", slice_scatter, NULL}, {"select_scatter", select_scatter, NULL},
    {"diagonal_scatter", diagonal_scatter, NULL}, {"as_strided_scatter", strided_scatter, NULL},
    {"split_copy", split, NULL},    {"constant_pad_nd", constant_pad, NULL}, {"flip", flip, NULL}, {NULL, NULL, NULL}};
