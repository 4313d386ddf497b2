/* build.c: what rows are made of besides single operators: sizes, casts, other shapes. See emit.h.
 *
 * Invariant: attributes that were put stay for the operator that the caller makes next; where a size may be another in
 * a run, it is asked for there (Shape); otherwise it is a constant. */
#include <string.h>

#include "emit.h"

/* Attributes that were put already are for a later node than those that a helper makes. */
typedef struct held {
  cn_text attrs;
  int nsubs;
} held;

static held hold(cni_ox *x)
{
  held h = {x->attrs, x->nsubs};
  x->attrs = (cn_text){0}, x->nsubs = 0;
  return h;
}

static cni_oxval resume(cni_ox *x, held h, cni_oxval v)
{
  x->attrs = h.attrs, x->nsubs = h.nsubs;
  return v;
}

/* ---- sizes ---- */

static cni_oxval vector(cni_oxval v, int64_t n)
{
  v.ndim = 1, v.shape[0] = n, v.open = 0;
  return v;
}

/* One size, as a vector of one element. */
static cni_oxval asked(cni_ox *x, cni_oxval v, int dim)
{
  int64_t from = dim, to = dim + 1;
  if (x->opset >= 15) {
    cni_ox_int(x, "start", dim);
    cni_ox_int(x, "end", dim + 1);
    return vector(CNI_OX_EMIT(x, "Shape", v), 1);
  }
  cni_oxval all = vector(CNI_OX_EMIT(x, "Shape", v), v.ndim);
  return vector(CNI_OX_EMIT(x, "Slice", all, cni_ox_list(x, &from, 1), cni_ox_list(x, &to, 1)), 1);
}

static cni_oxval make_size(cni_ox *x, cni_oxval v, int dim)
{
  if (v.id < 0 || !(v.open >> dim & 1)) return cni_ox_whole(v.shape[dim]);
  for (size_t i = 0; i < x->nsizes; i++)
    if (x->sizes[i].of == v.id && x->sizes[i].dim == dim) return x->sizes[i].is;
  cni_oxval is = asked(x, v, dim);
  if (x->failed || cn_grow((void **)&x->sizes, &x->sizes_cap, x->nsizes + 1, sizeof *x->sizes)) {
    x->failed = true;
    return cni_ox_absent();
  }
  x->sizes[x->nsizes++] = (cni_oxsize){v.id, dim, x->graph, is};
  return is;
}

cni_oxval cni_ox_size(cni_ox *x, cni_oxval v, int dim)
{
  held h = hold(x);
  return resume(x, h, make_size(x, v, dim));
}

static cni_oxval make_sizes(cni_ox *x, int n, const cni_oxval *sizes)
{
  int64_t known[CN_MAX_DIMS];
  cni_oxval parts[CN_MAX_DIMS];
  int nparts = 0, run = 0;
  for (int k = 0; k <= n; k++) { /* numbers side by side are one constant */
    if (k < n && sizes[k].number) {
      known[run++] = sizes[k].i;
      continue;
    }
    if (run) parts[nparts++] = cni_ox_list(x, known, run);
    if (k < n) parts[nparts++] = sizes[k];
    run = 0;
  }
  if (!n) return cni_ox_list(x, known, 0);
  return vector(cni_ox_concat(x, nparts, parts, 0), n);
}

cni_oxval cni_ox_sizes(cni_ox *x, int n, const cni_oxval *sizes)
{
  held h = hold(x);
  return resume(x, h, make_sizes(x, n, sizes));
}

static cni_oxval make_shape(cni_ox *x, cni_oxval v)
{
  if (!v.open) return cni_ox_list(x, v.shape, v.ndim);
  return vector(CNI_OX_EMIT(x, "Shape", v), v.ndim);
}

cni_oxval cni_ox_shape(cni_ox *x, cni_oxval v)
{
  held h = hold(x);
  return resume(x, h, make_shape(x, v));
}

static cni_oxval make_math(cni_ox *x, const char *op, cni_oxval a, cni_oxval b)
{
  if (!a.number || !b.number) {
    int64_t one = 1;
    if (a.number) a = cni_ox_data(x, &a.i, CN_I64, 1, &one);
    if (b.number) b = cni_ox_data(x, &b.i, CN_I64, 1, &one);
    return vector(CNI_OX_EMIT(x, op, a, b), 1);
  }
  int64_t p = a.i, q = b.i;
  if (!strcmp(op, "Add")) p = (int64_t)((uint64_t)p + (uint64_t)q);
  else if (!strcmp(op, "Sub")) p = (int64_t)((uint64_t)p - (uint64_t)q);
  else if (!strcmp(op, "Mul")) p = (int64_t)((uint64_t)p * (uint64_t)q);
  else if (!strcmp(op, "Div")) p = q ? p / q : 0;
  else if (!strcmp(op, "Min")) p = p < q ? p : q;
  else p = p > q ? p : q;
  return cni_ox_whole(p);
}

cni_oxval cni_ox_math(cni_ox *x, const char *op, cni_oxval a, cni_oxval b)
{
  held h = hold(x);
  return resume(x, h, make_math(x, op, a, b));
}

cni_oxval cni_ox_count(cni_ox *x, cni_oxval v, uint32_t dims)
{
  cni_oxval n = cni_ox_whole(1);
  int64_t known = 1;
  for (int k = 0; k < v.ndim; k++) {
    if (!(dims >> k & 1)) continue;
    cni_oxval size = cni_ox_size(x, v, k);
    if (size.number) known *= size.i;
    else n = n.number ? size : cni_ox_math(x, "Mul", n, size);
  }
  return known == 1 ? n : cni_ox_math(x, "Mul", n, cni_ox_whole(known));
}

/* ---- other types ---- */

/* The opset in which ONNX got the type. */
static int since(int dtype)
{
  bool half = dtype == CN_I4 || dtype == CN_U4, eight = dtype >= CN_F8E4M3 && dtype <= CN_F8E5M2FNUZ;
  if (dtype == CN_I2 || dtype == CN_U2) return 25;
  return dtype == CN_F8E8M0 ? 24 : dtype == CN_F4E2M1 ? 23 : half ? 21 : eight ? 19 : 13;
}

static cni_oxval cast(cni_ox *x, cni_oxval v, int dtype)
{
  int needs = since(dtype) > since(v.dtype) ? since(dtype) : since(v.dtype);
  if (x->opset < needs) {
    cni_ox_fail(x, CN_ERR_UNSUPPORTED, "%s and %s need opset %d", cn_dtype_name((cn_dtype)dtype),
                cn_dtype_name((cn_dtype)v.dtype), needs);
    return cni_ox_absent();
  }
  bool small = dtype == CN_F8E5M2 || dtype == CN_F8E4M3FNUZ || dtype == CN_F8E5M2FNUZ;
  cni_oxval out = v;
  out.dtype = dtype;
  cni_ox_int(x, "to", cni_onnx_type_of((cn_dtype)dtype));
  if (small) cni_ox_int(x, "saturate", 0);
  if (dtype == CN_F8E8M0) cni_ox_text(x, "round_mode", "nearest");
  cni_ox_node(x, "Cast", 1, &v, 1, &out);
  return out;
}

/* A bool that was made a number, and is wanted as a bool again: its number; negative where it is none. */
static int as_bool(const cni_ox *x, int id)
{
  int maker = x->names[id].maker;
  const cni_oxnode *n = maker >= 0 ? &x->nodes[maker] : NULL;
  return n && !strcmp(n->op, "Cast") && x->names[n->in[0]].dtype == CN_BOOL ? n->in[0] : -1;
}

static cni_oxval make_cast(cni_ox *x, cni_oxval v, int dtype)
{
  if (v.number) return cni_ox_const(x, v, dtype);
  if (v.id < 0 || v.dtype == dtype || x->failed) return v;
  if (cn_dtype_is_complex((cn_dtype)dtype) || cn_dtype_is_complex((cn_dtype)v.dtype)) {
    cni_ox_fail(x, CN_ERR_UNSUPPORTED, "view_as_complex: ONNX's operators take no complex numbers");
    return cni_ox_absent();
  }
  if (dtype == CN_BOOL && as_bool(x, v.id) >= 0) {
    v.id = as_bool(x, v.id), v.dtype = CN_BOOL;
    return v;
  }
  bool narrow = !cni_ox_is_float(dtype) && dtype != CN_BOOL && dtype != CN_I64 && dtype != CN_I32;
  if (cni_ox_is_float(v.dtype) && narrow) /* what does not fit keeps its low bits */
    v = cast(x, v, dtype == CN_U32 || dtype == CN_U64 ? CN_I64 : CN_I32);
  return cast(x, v, dtype);
}

cni_oxval cni_ox_cast(cni_ox *x, cni_oxval v, int dtype)
{
  held h = hold(x);
  return resume(x, h, make_cast(x, v, dtype));
}

/* ---- other shapes ---- */

static cni_oxval make_expand(cni_ox *x, cni_oxval v, int ndim, const cni_oxval *sizes);

/* The sizes as they were traced, and which of them are not known. */
static cni_oxval sized(cni_oxval v, int ndim, const cni_oxval *sizes, const int64_t *traced)
{
  v.ndim = ndim, v.open = 0;
  for (int k = 0; k < ndim; k++) {
    if (sizes[k].number) v.shape[k] = sizes[k].i;
    else v.shape[k] = traced ? traced[k] : 1, v.open |= 1u << k;
  }
  return v;
}

static cni_oxval make_reshape(cni_ox *x, cni_oxval v, int ndim, const cni_oxval *sizes)
{
  bool same = v.ndim == ndim && !v.open, zero = false, known = true;
  cni_oxval to[CN_MAX_DIMS];
  int unknown = 0;
  for (int k = 0; k < ndim; k++) {
    to[k] = sizes[k];
    zero = zero || (sizes[k].number && sizes[k].i == 0);
    same = same && sizes[k].number && sizes[k].i == v.shape[k];
    unknown += !sizes[k].number;
  }
  if (same) return v;
  if (zero && x->opset < 14) /* no size can be 0 there: nothing is nothing */
    return make_expand(x, cni_ox_const(x, cni_ox_whole(0), v.dtype), ndim, sizes);
  for (int k = 0; k < ndim && unknown == 1 && !zero; k++) /* one open size follows from the others */
    if (!sizes[k].number) to[k] = cni_ox_whole(-1), known = false;
  cni_oxval shape = cni_ox_sizes(x, ndim, to);
  if (x->opset >= 14 && (zero || (unknown && known))) cni_ox_int(x, "allowzero", 1);
  return sized(CNI_OX_EMIT(x, "Reshape", v, shape), ndim, sizes, NULL);
}

cni_oxval cni_ox_reshape(cni_ox *x, cni_oxval v, int ndim, const cni_oxval *sizes)
{
  held h = hold(x);
  return resume(x, h, make_reshape(x, v, ndim, sizes));
}

cni_oxval cni_ox_reshape_like(cni_ox *x, cni_oxval v, cni_oxval like)
{
  cni_oxval sizes[CN_MAX_DIMS];
  for (int k = 0; k < like.ndim; k++) sizes[k] = cni_ox_size(x, like, k);
  cni_oxval out = cni_ox_reshape(x, v, like.ndim, sizes);
  return out.id < 0 ? out : cni_ox_shaped(out, like.ndim, like.shape, like.open);
}

static cni_oxval make_expand(cni_ox *x, cni_oxval v, int ndim, const cni_oxval *sizes)
{
  bool same = v.ndim == ndim && !v.open;
  for (int k = 0; k < ndim; k++) same = same && sizes[k].number && sizes[k].i == v.shape[k];
  if (same && !v.number) return v;
  return sized(CNI_OX_EMIT(x, "Expand", v, cni_ox_sizes(x, ndim, sizes)), ndim, sizes, NULL);
}

cni_oxval cni_ox_expand(cni_ox *x, cni_oxval v, int ndim, const cni_oxval *sizes)
{
  held h = hold(x);
  return resume(x, h, make_expand(x, v, ndim, sizes));
}

static cni_oxval make_transpose(cni_ox *x, cni_oxval v, const int64_t *order)
{
  cni_oxval out = v;
  bool same = true;
  if (v.id < 0) return v;
  for (int k = 0; k < v.ndim; k++) same = same && order[k] == k;
  if (same) return v;
  cni_ox_ints(x, "perm", order, v.ndim);
  out = CNI_OX_EMIT(x, "Transpose", v);
  out.open = 0;
  for (int k = 0; k < v.ndim; k++) {
    out.shape[k] = v.shape[order[k]];
    out.open |= (v.open >> order[k] & 1) << k;
  }
  return out;
}

cni_oxval cni_ox_transpose(cni_ox *x, cni_oxval v, const int64_t *order)
{
  held h = hold(x);
  return resume(x, h, make_transpose(x, v, order));
}

cni_oxval cni_ox_swap(cni_ox *x, cni_oxval v, int a, int b)
{
  int64_t order[CN_MAX_DIMS];
  for (int k = 0; k < v.ndim; k++) order[k] = k == a ? b : k == b ? a : k;
  return cni_ox_transpose(x, v, order);
}

static cni_oxval make_unsqueeze(cni_ox *x, cni_oxval v, int dim)
{
  int64_t at = dim;
  cni_oxval out = CNI_OX_EMIT(x, "Unsqueeze", v, cni_ox_list(x, &at, 1));
  uint32_t low = v.open & ((1u << dim) - 1);
  out.ndim = v.ndim + 1;
  for (int k = v.ndim; k > dim; k--) out.shape[k] = v.shape[k - 1];
  out.shape[dim] = 1;
  out.open = low | (v.open & ~((1u << dim) - 1)) << 1;
  return out;
}

cni_oxval cni_ox_unsqueeze(cni_ox *x, cni_oxval v, int dim)
{
  held h = hold(x);
  return resume(x, h, make_unsqueeze(x, v, dim));
}

static cni_oxval make_squeeze(cni_ox *x, cni_oxval v, int dim)
{
  int64_t at = dim;
  cni_oxval out = CNI_OX_EMIT(x, "Squeeze", v, cni_ox_list(x, &at, 1));
  out.ndim = v.ndim - 1;
  for (int k = dim; k < out.ndim; k++) out.shape[k] = v.shape[k + 1];
  out.open = (v.open & ((1u << dim) - 1)) | (v.open >> 1 & ~((1u << dim) - 1));
  return out;
}

cni_oxval cni_ox_squeeze(cni_ox *x, cni_oxval v, int dim)
{
  held h = hold(x);
  return resume(x, h, make_squeeze(x, v, dim));
}

static cni_oxval one_element(cni_ox *x, cni_oxval v) { return v.number ? cni_ox_list(x, &v.i, 1) : v; }

static cni_oxval make_slice(cni_ox *x, cni_oxval v, int dim, cni_oxval from, cni_oxval to, int64_t step)
{
  int64_t at = dim;
  bool known = from.number && (to.number || step == 1);
  bool whole = step == 1 && from.number && from.i == 0 && to.number && to.i == v.shape[dim] && !(v.open >> dim & 1);
  if (whole) return v;
  if (!cni_ox_there(&to)) to = cni_ox_whole(step > 0 ? INT64_MAX : INT64_MIN);
  cni_oxval out = CNI_OX_EMIT(x, "Slice", v, one_element(x, from), one_element(x, to), cni_ox_list(x, &at, 1),
                              cni_ox_list(x, &step, 1));
  out = cni_ox_shaped(out, v.ndim, v.shape, v.open);
  if (known && to.number && step > 0 && from.i >= 0 && to.i >= from.i &&
      (to.i <= v.shape[dim] || !(v.open >> dim & 1))) {
    int64_t end = to.i < v.shape[dim] ? to.i : v.shape[dim];
    if (!(v.open >> dim & 1) || to.i != INT64_MAX) out.open &= ~(1u << dim);
    out.shape[dim] = end > from.i ? (end - from.i + step - 1) / step : 0;
  } else out.open |= 1u << dim;
  return out;
}

cni_oxval cni_ox_slice(cni_ox *x, cni_oxval v, int dim, cni_oxval from, cni_oxval to, int64_t step)
{
  held h = hold(x);
  return resume(x, h, make_slice(x, v, dim, from, to, step));
}

static cni_oxval make_concat(cni_ox *x, int n, const cni_oxval *v, int dim)
{
  if (n == 1) return v[0];
  cni_ox_int(x, "axis", dim);
  cni_oxval out = cni_ox_emit(x, "Concat", n, v);
  out = cni_ox_shaped(out, v[0].ndim, v[0].shape, v[0].open);
  for (int k = 1; k < n; k++) {
    out.shape[dim] += v[k].shape[dim];
    out.open |= v[k].open;
  }
  return out;
}

cni_oxval cni_ox_concat(cni_ox *x, int n, const cni_oxval *v, int dim)
{
  held h = hold(x);
  return resume(x, h, make_concat(x, n, v, dim));
}

static cni_oxval make_reduce(cni_ox *x, const char *op, cni_oxval v, uint32_t dims, bool keep)
{
  int64_t axes[CN_MAX_DIMS];
  int n = 0, since = !strcmp(op, "ReduceSum") ? 13 : 18, ndim = 0;
  cni_oxval out;
  if (!v.ndim || !dims) return v;
  for (int k = 0; k < v.ndim; k++)
    if (dims >> k & 1) axes[n++] = k;
  cni_ox_int(x, "keepdims", keep);
  if (x->opset < since) cni_ox_ints(x, "axes", axes, n);
  out = x->opset < since ? CNI_OX_EMIT(x, op, v) : CNI_OX_EMIT(x, op, v, cni_ox_list(x, axes, n));
  out.open = 0;
  for (int k = 0; k < v.ndim; k++) {
    bool over = dims >> k & 1;
    if (over && !keep) continue;
    out.shape[ndim] = over ? 1 : v.shape[k];
    out.open |= over ? 0 : (v.open >> k & 1) << ndim;
    ndim++;
  }
  out.ndim = ndim;
  return out;
}

cni_oxval cni_ox_reduce(cni_ox *x, const char *op, cni_oxval v, uint32_t dims, bool keep)
{
  held h = hold(x);
  return resume(x, h, make_reduce(x, op, v, dims, keep));
}

cni_oxval cni_ox_full(cni_ox *x, int dtype, int ndim, const cni_oxval *sizes, double value)
{
  cni_oxval one = cni_ox_const(x, cni_ox_num(value), dtype);
  return ndim ? cni_ox_expand(x, one, ndim, sizes) : one;
}

cni_oxval cni_ox_matmul(cni_ox *x, cni_oxval a, cni_oxval b)
{
  cni_oxval out = CNI_OX_EMIT(x, "MatMul", a, b);
  const cni_oxval *more = a.ndim >= b.ndim ? &a : &b;
  if (a.ndim < 2 || b.ndim < 2) return out;
  out = cni_ox_shaped(out, more->ndim, more->shape, a.open | b.open);
  for (int k = 0; k < out.ndim - 2; k++) {
    int i = a.ndim - out.ndim + k, j = b.ndim - out.ndim + k;
    out.shape[k] = i >= 0 && a.shape[i] != 1 ? a.shape[i] : j >= 0 ? b.shape[j] : a.shape[i];
  }
  out.shape[out.ndim - 2] = a.shape[a.ndim - 2];
  out.shape[out.ndim - 1] = b.shape[b.ndim - 1];
  return out;
}

cni_oxval cni_ox_where(cni_ox *x, cni_oxval p, cni_oxval a, cni_oxval b) { return CNI_OX_EMIT(x, "Where", p, a, b); }

cni_oxval cni_ox_binary(cni_ox *x, const char *op, cni_oxval a, cni_oxval b) { return CNI_OX_EMIT(x, op, a, b); }
