/* index.c: elements at places, and back; sorting and searching. What is out of range is the runtime's to object to. See
 * row.h. */
#include <string.h>

#include "row.h"

static cni_oxval one_dim(cni_ox *x, cni_oxval v)
{
  cni_oxval one = cni_ox_whole(1);
  return v.ndim ? v : cni_ox_reshape(x, cni_ox_solid(x, v, v.dtype), 1, &one);
}

/* Indices as whole numbers that ONNX takes. */
static cni_oxval places(cni_ox *x, cni_oxval v)
{
  return v.dtype == CN_I32 && v.id >= 0 ? v : cni_ox_cast(x, cni_ox_solid(x, v, CN_I64), CN_I64);
}

static void give_like(cni_oxcall *c, int k, cni_oxval v)
{
  cni_ox_give(c, k, v.ndim == c->out[k].ndim ? v : cni_ox_reshape_like(c->x, v, c->out[k]));
}

/* ---- reading ---- */

/* gather(input, dim, index) */
static bool gather(cni_oxcall *c)
{
  cni_ox *x = c->x;
  cni_oxval v = c->in[0], index = places(x, c->in[1]);
  if (!v.ndim || !index.ndim) {
    if (c->out[0].ndim > 1 || v.ndim > 1) return false;
    v = one_dim(x, v), index = one_dim(x, index);
  }
  cni_ox_int(x, "axis", cni_oxarg_dim(c, 1, v.ndim));
  v = CNI_OX_EMIT(x, "GatherElements", v, index);
  give_like(c, 0, cni_ox_shaped(v, index.ndim, index.shape, index.open));
  return true;
}

static bool index_select(cni_oxcall *c)
{
  cni_ox *x = c->x;
  cni_oxval v = one_dim(x, c->in[0]), index = one_dim(x, places(x, c->in[1]));
  int dim = cni_oxarg_dim(c, 1, v.ndim);
  cni_ox_int(x, "axis", dim);
  cni_oxval y = cni_ox_shaped(CNI_OX_EMIT(x, "Gather", v, index), v.ndim, v.shape, v.open);
  give_like(c, 0, y);
  return true;
}

/* take(input, index): of all elements in a row */
static bool take(cni_oxcall *c)
{
  cni_oxval all = cni_ox_whole(-1), v = cni_ox_reshape(c->x, c->in[0], 1, &all);
  cni_ox_give(c, 0, CNI_OX_EMIT(c->x, "Gather", v, places(c->x, c->in[1])));
  return true;
}

/* embedding(input, weight) */
static bool embedding(cni_oxcall *c)
{
  cni_ox_give(c, 0, CNI_OX_EMIT(c->x, "Gather", c->in[1], places(c->x, c->in[0])));
  return true;
}

/* ---- index(input, indices), index_put(input, indices, values, accumulate) ---- */

typedef struct picked {
  cni_oxval x, at;   /* x with its indexed dims in front; a vector of places for each element, (..., n) */
  int n, nat, first; /* indexed dims; dims of the indices; where those go in the result */
  int64_t order[CN_MAX_DIMS];
} picked;

/* Masks as places: one index for each of their dims. */
static int expand_masks(cni_oxcall *c, int n, cni_oxval *index)
{
  cni_ox *x = c->x;
  int m = 0;
  for (int k = 0; k < n; k++) {
    cni_oxval v = c->in[1 + k];
    if (!cni_ox_there(&v) || (v.dtype != CN_BOOL && v.dtype != CN_U8)) {
      index[m++] = v;
      continue;
    }
    cni_oxval at = CNI_OX_EMIT(x, "NonZero", cni_ox_cast(x, v, CN_BOOL));
    for (int d = 0; d < v.ndim && m < CN_MAX_DIMS; d++) {
      int64_t some = 1;
      cni_ox_int(x, "axis", 0);
      index[m] = CNI_OX_EMIT(x, "Gather", at, cni_ox_const(x, cni_ox_whole(d), CN_I64));
      index[m] = cni_ox_shaped(index[m], 1, &some, 1);
      m++;
    }
    if (!v.ndim) return -1;
  }
  return m;
}

static bool pick(cni_oxcall *c, picked *p, int given)
{
  cni_ox *x = c->x;
  cni_oxval index[CN_MAX_DIMS], parts[CN_MAX_DIMS], shape = cni_ox_absent();
  bool adjacent = true;
  int last = -1, n = given > CN_MAX_DIMS ? -1 : expand_masks(c, given, index);
  *p = (picked){.x = c->in[0]};
  for (int k = 0; k < n; k++) {
    if (!cni_ox_there(&index[k])) continue;
    if (p->n && last != k - 1) adjacent = false;
    if (!p->n) p->first = k;
    last = k;
    p->order[p->n] = k;
    parts[p->n++] = cni_ox_cast(x, cni_ox_solid(x, index[k], CN_I64), CN_I64);
  }
  if (n < 0 || !p->n || x->failed) return false;
  if (!adjacent) p->first = 0;
  int m = p->n;
  for (int k = 0; k < p->x.ndim; k++) {
    bool indexed = false;
    for (int i = 0; i < p->n; i++) indexed = indexed || p->order[i] == k;
    if (!indexed) p->order[m++] = k;
  }
  for (int i = 0; i < p->n; i++) /* all of one shape: that of their sum */
    shape = i ? cni_ox_binary(x, "Add", shape, parts[i]) : parts[i];
  p->nat = shape.ndim;
  cni_oxval zero = p->n > 1 ? cni_ox_binary(x, "Mul", shape, cni_ox_const(x, cni_ox_whole(0), CN_I64)) : shape;
  for (int i = 0; i < p->n; i++) {
    cni_oxval whole =
        p->n > 1 ? cni_ox_shaped(cni_ox_binary(x, "Add", parts[i], zero), shape.ndim, shape.shape, shape.open)
                 : parts[i];
    parts[i] = cni_ox_unsqueeze(x, whole, p->nat);
  }
  p->x = cni_ox_transpose(x, p->x, p->order);
  p->at = cni_ox_concat(x, p->n, parts, p->nat);
  return !x->failed;
}

/* The order that brings (indices, rest) to the result's dims, or back. */
static void result_order(const picked *p, int ndim, bool back, int64_t *order)
{
  for (int k = 0; k < ndim; k++) {
    int from = k < p->first ? p->nat + k : k < p->first + p->nat ? k - p->first : k;
    order[back ? from : k] = back ? k : from;
  }
}

static bool index(cni_oxcall *c)
{
  picked p;
  int64_t order[CN_MAX_DIMS];
  int given = cni_oxarg_tensors(c, 1), ndim = c->out[0].ndim;
  if (!pick(c, &p, given)) return false;
  cni_oxval y;
  if (p.n == 1) {
    cni_ox_int(c->x, "axis", 0);
    y = CNI_OX_EMIT(c->x, "Gather", p.x, cni_ox_squeeze(c->x, p.at, p.nat));
  } else {
    y = CNI_OX_EMIT(c->x, "GatherND", p.x, p.at);
  }
  y.ndim = ndim, y.open = ~0u >> (32 - (ndim ? ndim : 1));
  result_order(&p, ndim, false, order);
  cni_ox_give(c, 0, cni_ox_transpose(c->x, y, order));
  return true;
}

/* One value where a mask is true. */
static bool put_masked(cni_oxcall *c, cni_oxval values, bool accumulate)
{
  cni_ox *x = c->x;
  cni_oxval v = c->in[0], mask = c->in[1];
  if (cni_oxarg_tensors(c, 1) != 1 || !cni_ox_there(&mask) || mask.dtype != CN_BOOL) return false;
  for (int k = 0; k < values.ndim; k++)
    if (values.shape[k] != 1 || values.open >> k & 1) return false;
  values = cni_ox_cast(x, cni_ox_solid(x, values, v.dtype), v.dtype);
  if (values.ndim) values = cni_ox_reshape(x, values, 0, NULL);
  for (int k = mask.ndim; k < v.ndim; k++) mask = cni_ox_unsqueeze(x, mask, k);
  cni_ox_give(c, 0, cni_ox_where(x, mask, accumulate ? cni_ox_binary(x, "Add", v, values) : values, v));
  return true;
}

static bool index_put(cni_oxcall *c)
{
  cni_ox *x = c->x;
  picked p;
  int64_t order[CN_MAX_DIMS], back[CN_MAX_DIMS];
  int given = cni_oxarg_tensors(c, 1), ndim;
  bool accumulate = cni_oxarg_int(c, 3);
  cni_oxval values = c->in[1 + given];
  if (accumulate && x->opset < 16) return false;
  if (put_masked(c, values, accumulate)) return true;
  if (!pick(c, &p, given)) return false;
  int type = accumulate ? (c->in[0].dtype == CN_BOOL ? CN_I32 : cni_ox_wide(c->in[0].dtype)) : c->in[0].dtype;
  cni_oxval front = cni_ox_cast(x, p.x, type);
  values = cni_ox_cast(x, cni_ox_solid(x, values, type), type);
  /* What is written has the sizes of what would be read there. */
  cni_oxval like = CNI_OX_EMIT(x, "GatherND", front, p.at);
  ndim = p.nat + front.ndim - p.n;
  like.ndim = ndim, like.open = ~0u >> (32 - (ndim ? ndim : 1));
  result_order(&p, ndim, false, order);
  like = cni_ox_transpose(x, like, order);
  values = ndim ? CNI_OX_EMIT(x, "Expand", values, CNI_OX_EMIT(x, "Shape", like)) : values;
  values.ndim = ndim, values.open = like.open;
  result_order(&p, ndim, true, order);
  values = cni_ox_transpose(x, values, order);
  if (accumulate) cni_ox_text(x, "reduction", "add");
  cni_oxval y = CNI_OX_EMIT(x, "ScatterND", front, p.at, values);
  for (int k = 0; k < front.ndim; k++) back[p.order[k]] = k;
  cni_ox_give(c, 0, cni_ox_transpose(x, cni_ox_shaped(y, front.ndim, front.shape, front.open), back));
  return true;
}

/* ---- writing ---- */

static const char *reduction_of(const char *name)
{
  static const struct {
    const char *name, *own;
  } known[] = {{"sum", "add"}, {"prod", "mul"}, {"amax", "max"}, {"amin", "min"}, {"add", "add"}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (!strcmp(known[i].name, name)) return known[i].own;
  return "none";
}

/* scatter(input, dim, index, src), and with a reduction: src may be larger than the index. */
static bool scatter_by(cni_oxcall *c, const char *reduction)
{
  cni_ox *x = c->x;
  cni_oxval v = one_dim(x, c->in[0]), index = one_dim(x, places(x, c->in[1])), src = c->in[2];
  bool adds = strcmp(reduction, "none") != 0;
  int type = adds && v.dtype == CN_BOOL ? CN_I32 : adds ? cni_ox_wide(v.dtype) : v.dtype;
  if (adds && x->opset < (reduction[0] == 'm' && reduction[1] != 'u' ? 18 : 16)) return false;
  bool one = src.number || !src.ndim;
  src = cni_ox_cast(x, cni_ox_solid(x, src, type), type);
  if (one) { /* for all places */
    cni_oxval sizes[CN_MAX_DIMS];
    for (int k = 0; k < index.ndim; k++) sizes[k] = cni_ox_size(x, index, k);
    src = cni_ox_expand(x, src, index.ndim, sizes);
  }
  if (src.ndim != index.ndim) return false;
  for (int k = 0; k < src.ndim && !one; k++)
    if (src.shape[k] != index.shape[k] || (src.open | index.open) >> k & 1)
      src = cni_ox_slice(x, src, k, cni_ox_whole(0), cni_ox_size(x, index, k), 1);
  cni_ox_int(x, "axis", cni_oxarg_dim(c, 1, v.ndim));
  if (adds) cni_ox_text(x, "reduction", reduction);
  cni_oxval y = CNI_OX_EMIT(x, "ScatterElements", cni_ox_cast(x, v, type), index, src);
  give_like(c, 0, cni_ox_shaped(y, v.ndim, v.shape, v.open));
  return true;
}

static bool scatter(cni_oxcall *c) { return scatter_by(c, reduction_of(c->text)); }

static bool scatter_reduce(cni_oxcall *c)
{
  const char *own = reduction_of(cni_oxarg_text(c, 4));
  return strcmp(own, "none") != 0 && scatter_by(c, own);
}

/* Rows of a dim: index_add(input, dim, index, source, alpha), index_copy, index_fill(input, dim, index, value) */
static bool rows(cni_oxcall *c)
{
  cni_ox *x = c->x;
  cni_oxval v = one_dim(x, c->in[0]), index = one_dim(x, cni_ox_cast(x, c->in[1], CN_I64)), src = c->in[2];
  int dim = cni_oxarg_dim(c, 1, v.ndim);
  bool adds = *c->text == 'a', fills = *c->text == 'f';
  int type = adds ? (v.dtype == CN_BOOL ? CN_I32 : cni_ox_wide(v.dtype)) : v.dtype;
  if (adds && x->opset < 16) return false;
  src = cni_ox_cast(x, cni_ox_solid(x, src, type), type);
  if (adds && (cni_oxarg_open(c, 4) || cni_oxarg_float(c, 4) != 1))
    src = cni_ox_shaped(cni_ox_binary(x, "Mul", src, cni_oxarg_value(c, 4, 0, type)), c->in[2].ndim, c->in[2].shape,
                        c->in[2].open);
  cni_oxval front = cni_ox_swap(x, cni_ox_cast(x, v, type), 0, dim), sizes[CN_MAX_DIMS];
  if (fills) {
    for (int k = 0; k < v.ndim; k++) sizes[k] = cni_ox_size(x, front, k);
    sizes[0] = cni_ox_size(x, index, 0);
    src = cni_ox_expand(x, src.ndim ? cni_ox_reshape(x, src, 0, NULL) : src, v.ndim, sizes);
  } else {
    src = cni_ox_swap(x, one_dim(x, src), 0, dim);
  }
  if (src.ndim != front.ndim) return false;
  if (adds) cni_ox_text(x, "reduction", "add");
  cni_oxval y = CNI_OX_EMIT(x, "ScatterND", front, cni_ox_unsqueeze(x, index, 1), src);
  give_like(c, 0, cni_ox_swap(x, cni_ox_shaped(y, front.ndim, front.shape, front.open), 0, dim));
  return true;
}

/* embedding_grad(grad, input, num_weights, padding_idx) */
static bool embedding_grad(cni_oxcall *c)
{
  cni_ox *x = c->x;
  int type = cni_ox_wide(c->out[0].dtype);
  cni_oxval g = cni_ox_cast(x, c->in[0], type), at = cni_ox_cast(x, c->in[1], CN_I64), sizes[2];
  if (x->opset < 16) return false;
  if (!cni_oxarg_none(c, 3)) { /* rows that do not count are zeros */
    cni_oxval counts =
        CNI_OX_EXPR(x, "T(b != c)", type, g, at, cni_ox_const(x, cni_ox_whole(cni_oxarg_int(c, 3)), CN_I64));
    g = cni_ox_binary(x, "Mul", g, cni_ox_unsqueeze(x, cni_ox_shaped(counts, at.ndim, at.shape, at.open), at.ndim));
  }
  sizes[0] = cni_oxarg_size(c, 2, 0), sizes[1] = cni_ox_size(x, c->in[0], c->in[0].ndim - 1);
  cni_oxval zero = cni_ox_full(x, type, 2, sizes, 0);
  cni_ox_text(x, "reduction", "add");
  cni_ox_give(c, 0, CNI_OX_EMIT(x, "ScatterND", zero, cni_ox_unsqueeze(x, at, at.ndim), g));
  return true;
}

/* ---- sizes that depend on data ---- */

static bool nonzero(cni_oxcall *c)
{
  cni_oxval v = cni_ox_cast(c->x, c->in[0], CN_BOOL), at;
  at = CNI_OX_EMIT(c->x, "NonZero", one_dim(c->x, v));
  at.ndim = 2, at.open = 2, at.shape[0] = 1;
  at = cni_ox_swap(c->x, at, 0, 1);
  cni_ox_give(c, 0, v.ndim ? at : cni_ox_slice(c->x, at, 1, cni_ox_whole(0), cni_ox_whole(0), 1));
  return true;
}

/* masked_select(input, mask): both as they broadcast to one another */
static bool masked_select(cni_oxcall *c)
{
  cni_ox *x = c->x;
  cni_oxval v = c->in[0], mask = c->in[1], all = cni_ox_whole(-1), ones = cni_ox_const(x, cni_ox_whole(1), CN_BOOL);
  cni_oxval spread = v.ndim ? CNI_OX_EMIT(x, "Expand", ones, CNI_OX_EMIT(x, "Shape", v)) : ones;
  mask = cni_ox_binary(x, "And", mask, spread);
  if (mask.ndim) v = CNI_OX_EMIT(x, "Expand", v, CNI_OX_EMIT(x, "Shape", mask));
  mask.open = v.open = ~0u;
  v = cni_ox_reshape(x, v, 1, &all), mask = cni_ox_reshape(x, mask, 1, &all);
  cni_ox_give(c, 0, CNI_OX_EMIT(x, "Compress", v, mask));
  return true;
}

/* ---- order ---- */

/* Values and places of the k first along a dim, as TopK gives them. */
static bool first_of(cni_oxcall *c, cni_oxval v, cni_oxval k, int dim, bool largest, cni_oxval *out)
{
  cni_ox *x = c->x;
  int type = v.dtype, kernel = type == CN_BOOL ? CN_I32 : cni_ox_kernel_type(x, "TopK", type);
  v = cni_ox_cast(x, v, kernel);
  int64_t one = 1;
  cni_oxval in[2] = {v, k.number ? cni_ox_data(x, &k.i, CN_I64, 1, &one) : k};
  cni_ox_int(x, "axis", dim);
  cni_ox_int(x, "largest", largest);
  out[0] = out[1] = v;
  out[1].dtype = CN_I64;
  for (int i = 0; i < 2; i++) {
    out[i].open = k.number ? out[i].open & ~(1u << dim) : out[i].open | 1u << dim;
    if (k.number) out[i].shape[dim] = k.i;
  }
  cni_ox_node(x, "TopK", 2, in, 2, out);
  out[0] = cni_ox_cast(x, out[0], type);
  return !x->failed;
}

static cni_oxval picked_along(cni_ox *x, cni_oxval v, cni_oxval at, int dim)
{
  cni_ox_int(x, "axis", dim);
  return cni_ox_shaped(CNI_OX_EMIT(x, "GatherElements", v, at), v.ndim, v.shape, v.open);
}

/* All in order, equal ones as they stood; NaN is larger than all: TopK of numbers, then of which of them are NaN. */
static bool ordered(cni_oxcall *c, cni_oxval v, int dim, bool descending, cni_oxval *out)
{
  cni_ox *x = c->x;
  cni_oxval n = cni_ox_size(x, v, dim), again[2];
  if (!cni_ox_is_float(v.dtype)) return first_of(c, v, n, dim, descending, out);
  cni_oxval wide = cni_ox_cast(x, v, cni_ox_wide(v.dtype)), odd = CNI_OX_EMIT(x, "IsNaN", wide);
  wide = cni_ox_shaped(cni_ox_where(x, odd, cni_ox_num(1.0 / 0.0), wide), v.ndim, v.shape, v.open);
  if (!first_of(c, wide, n, dim, descending, out)) return false;
  odd = picked_along(x, cni_ox_cast(x, odd, CN_I32), out[1], dim);
  if (!first_of(c, odd, n, dim, descending, again)) return false;
  out[1] = picked_along(x, out[1], again[1], dim);
  out[0] = picked_along(x, v, out[1], dim);
  return !x->failed;
}

/* sort(input, dim, descending) */
static bool sort(cni_oxcall *c)
{
  cni_oxval v = one_dim(c->x, c->in[0]), out[2];
  int dim = cni_oxarg_dim(c, 1, v.ndim);
  if (ordered(c, v, dim, cni_oxarg_int(c, 2), out))
    for (int k = 0; k < 2; k++) give_like(c, k, out[k]);
  return true;
}

/* topk(input, k, dim, largest, sorted): where NaN stands is the runtime's to say */
static bool topk(cni_oxcall *c)
{
  cni_oxval v = one_dim(c->x, c->in[0]), out[2];
  if (first_of(c, v, cni_oxarg_size(c, 1, 0), cni_oxarg_dim(c, 2, v.ndim), cni_oxarg_int(c, 3), out))
    for (int k = 0; k < 2; k++) give_like(c, k, out[k]);
  return true;
}

/* kthvalue(input, k, dim, keepdim): the last of the k smallest */
static bool kthvalue(cni_oxcall *c)
{
  cni_ox *x = c->x;
  cni_oxval v = one_dim(x, c->in[0]), out[2];
  int dim = cni_oxarg_dim(c, 2, v.ndim);
  int64_t k = cni_oxarg_int(c, 1);
  if (!ordered(c, v, dim, false, out)) return true;
  for (int i = 0; i < 2; i++) {
    cni_oxval last = cni_ox_slice(x, out[i], dim, cni_ox_whole(k - 1), cni_ox_whole(k), 1);
    give_like(c, i, cni_oxarg_int(c, 3) ? last : cni_ox_squeeze(x, last, dim));
  }
  return true;
}

/* searchsorted(sorted, input, out_int32, right, side, sorter): how many stand before each element */
static bool searchsorted(cni_oxcall *c)
{
  cni_ox *x = c->x;
  cni_oxval s = c->in[0], v = cni_ox_solid(x, c->in[1], c->in[1].dtype);
  bool right = cni_oxarg_int(c, 3) || !strcmp(cni_oxarg_text(c, 4), "right");
  int type = cni_ox_is_float(s.dtype) && cni_ox_is_float(v.dtype)   ? s.dtype
             : cni_ox_is_float(s.dtype) || cni_ox_is_float(v.dtype) ? CN_F64
                                                                    : CN_I64;
  if (cni_ox_there(&c->in[2])) {
    cni_ox_int(x, "axis", s.ndim - 1);
    s = cni_ox_shaped(CNI_OX_EMIT(x, "GatherElements", s, places(x, c->in[2])), s.ndim, s.shape, s.open);
  }
  s = cni_ox_cast(x, s, type), v = cni_ox_cast(x, v, type);
  v = cni_ox_unsqueeze(x, v, v.ndim);
  if (s.ndim > 1) s = cni_ox_unsqueeze(x, s, s.ndim - 1);
  cni_oxval before =
      CNI_OX_EXPR(x,
                  cni_ox_is_float(type) ? right ? "(a <= b) | (b != b)" : "(a < b) | (b != b) & (a == a)"
                  : right               ? "a <= b"
                                        : "a < b",
                  type, s, v);
  before.ndim = c->out[0].ndim + 1;
  before.open = ~0u >> (32 - before.ndim);
  cni_ox_give(c, 0, cni_ox_reduce(x, "ReduceSum", cni_ox_cast(x, before, CN_I64), 1u << (before.ndim - 1), false));
  return true;
}

/* isin(elements, test_elements, assume_unique, invert) */
static bool isin(cni_oxcall *c)
{
  cni_ox *x = c->x;
  cni_oxval v = c->in[0], test = c->in[1], all = cni_ox_whole(-1);
  int type = v.number                                                                  ? test.dtype
             : test.number || cni_ox_is_float(v.dtype) || !cni_ox_is_float(test.dtype) ? v.dtype
                                                                                       : test.dtype;
  if (v.number && test.number) return false;
  if (type == CN_BOOL) type = CN_I32;
  v = cni_ox_cast(x, cni_ox_solid(x, v, type), type);
  test = cni_ox_reshape(x, cni_ox_cast(x, cni_ox_solid(x, test, type), type), 1, &all);
  int ndim = v.ndim;
  cni_oxval same = cni_ox_cast(x, cni_ox_binary(x, "Equal", cni_ox_unsqueeze(x, v, ndim), test), CN_I32);
  same.ndim = ndim + 1, same.open = ~0u >> (32 - same.ndim);
  same = cni_ox_cast(x, cni_ox_reduce(x, "ReduceSum", same, 1u << ndim, false), CN_BOOL);
  cni_ox_give(c, 0, cni_oxarg_int(c, 3) ? CNI_OX_EMIT(x, "Not", same) : same);
  return true;
}

const cni_oxrow cni_ox_index_rows[] = {
    BUILD("gather", 13, gather),
    BUILD("index_select", 13, index_select),
    BUILD("take", 13, take),
    BUILD("embedding", 13, embedding),
    BUILD("index", 13, index),
    BUILD("index_put", 13, index_put),
    BUILD_AS("scatter", 13, scatter, "set"),
    BUILD_AS("scatter_add", 13, scatter, "add"),
    BUILD("scatter_reduce_self", 13, scatter_reduce),
    BUILD_AS("index_add", 13, rows, "add"),
    BUILD_AS("index_copy", 13, rows, "copy"),
    BUILD_AS("index_fill", 13, rows, "fill"),
    BUILD("embedding_grad", 13, embedding_grad),
    BUILD("nonzero", 13, nonzero),
    BUILD("masked_select", 13, masked_select),
    BUILD("sort", 13, sort),
    BUILD("topk", 13, topk),
    BUILD("kthvalue", 13, kthvalue),
    BUILD("searchsorted", 13, searchsorted),
    BUILD("isin", 13, isin),
    {NULL, NULL, NULL, 0},
};
