/* index.c: rows of elements at places given by tensors. What is out of range is no error on a device. See row.h. */
#include <string.h>

#include "rows.h"

static cni_hval one_dim(cni_hlo *h, cni_hval x)
{
  int64_t one = 1;
  return x.ndim ? x : cni_hlo_reshape(h, x, 1, &one);
}

static cni_hval give(cni_hcall *c, cni_hval y) { return cni_hlo_reshape(c->h, y, c->out[0].ndim, c->out[0].shape); }

static void gather(cni_hcall *c)
{
  if (c->in[0].ndim) c->out[0] = cni_hlo_take_along(c->h, c->in[0], cni_harg_dim(c, 1, c->in[0].ndim), c->in[1]);
  else c->out[0] = cni_hlo_expand(c->h, c->in[0], c->out[0].ndim, c->out[0].shape);
}

static void index_select(cni_hcall *c)
{
  int dim = cni_harg_dim(c, 1, c->in[0].ndim);
  c->out[0] = give(c, cni_hlo_take(c->h, one_dim(c->h, c->in[0]), dim, one_dim(c->h, c->in[1])));
}

/* ---- writing ---- */

/* Sums of small floats are made in float32. */
static cni_hval wide(cni_hlo *h, cni_hval x) { return cni_hlo_cast(h, x, cni_hlo_wide(x.dtype)); }

/* index_add(input, dim, index, source, alpha), index_copy(input, dim, index, source) */
static void index_put_dim(cni_hcall *c)
{
  cni_hlo *h = c->h;
  cni_hval x = one_dim(h, c->in[0]), src = cni_hlo_cast(h, one_dim(h, c->in[2]), x.dtype);
  int dim = cni_harg_dim(c, 1, x.ndim);
  bool adds = !strcmp(c->text, "add");
  if (adds) x = wide(h, x), src = wide(h, src);
  if (adds && x.dtype == CN_BOOL) x = cni_hlo_convert(h, x, CN_I32), src = cni_hlo_convert(h, src, CN_I32);
  if (adds && (c->args[4].tag == CN_V_FLOAT ? c->args[4].u.f != 1 : c->args[4].u.i != 1))
    src = cni_hlo_binary(h, "multiply", src,
                         c->args[4].tag == CN_V_FLOAT ? cni_hlo_num(c->args[4].u.f) : cni_hlo_int(c->args[4].u.i));
  cni_hval index = one_dim(h, c->in[1]);
  c->out[0] = cni_hlo_cast(h, give(c, cni_hlo_put(h, c->text, x, dim, index, src)), c->out[0].dtype);
}

static void index_fill(cni_hcall *c)
{
  cni_hlo *h = c->h;
  cni_hval x = one_dim(h, c->in[0]), index = one_dim(h, c->in[1]), like = x;
  int dim = cni_harg_dim(c, 1, x.ndim);
  like.shape[dim] = index.shape[0];
  c->out[0] = give(c, cni_hlo_put(h, "set", x, dim, index, cni_hlo_as(h, c->in[2], x.dtype, &like)));
}

/* scatter(input, dim, index, src), and with sums: src may be larger than the index. */
static void scatter_by(cni_hcall *c, const char *op)
{
  cni_hlo *h = c->h;
  int64_t from[CN_MAX_DIMS] = {0}, one[CN_MAX_DIMS];
  cni_hval x = c->in[0], index = c->in[1], src = c->in[2];
  int type = x.dtype == CN_BOOL && strcmp(op, "set") ? CN_I32 : strcmp(op, "set") ? cni_hlo_wide(x.dtype) : x.dtype;
  for (int k = 0; k < CN_MAX_DIMS; k++) one[k] = 1;
  if (src.ndim == index.ndim && src.ndim) src = cni_hlo_slice(h, src, from, index.shape, one);
  src = cni_hlo_as(h, src, x.dtype, &index);
  if (!cni_hlo_numel(&index)) {
    c->out[0] = x;
    return;
  }
  x = cni_hlo_put_along(h, op, cni_hlo_cast(h, x, type), cni_harg_dim(c, 1, x.ndim), index, cni_hlo_cast(h, src, type));
  c->out[0] = cni_hlo_cast(h, x, c->out[0].dtype);
}

static void scatter(cni_hcall *c) { scatter_by(c, c->text); }

static void scatter_reduce(cni_hcall *c)
{
  static const struct {
    const char *name, *op;
  } known[] = {{"sum", "add"}, {"prod", "multiply"}, {"amax", "maximum"}, {"amin", "minimum"}};
  for (int i = 0; i < 4; i++)
    if (!strcmp(c->args[4].u.s, known[i].name)) {
      scatter_by(c, known[i].op);
      return;
    }
  cni_hlo_fail(c->h, CN_ERR_UNSUPPORTED, "scatter_reduce: '%s' has no form there", c->args[4].u.s);
}

/* ---- index, index_put: one index per dim, or none ---- */

typedef struct places {
  int n, dims[CN_MAX_DIMS]; /* indexed dims of x */
  cni_hval at;              /* where, in the indexed dims laid flat */
  int64_t order[CN_MAX_DIMS], flat; /* of x: indexed dims first, and how many elements they have */
  int first;                /* where the indices' dims go in the result */
} places;

static bool has_mask(cni_hcall *c, int nindex)
{
  for (int k = 0; k < nindex; k++)
    if (cni_hlo_there(&c->in[1 + k]) && (c->in[1 + k].dtype == CN_BOOL || c->in[1 + k].dtype == CN_U8)) return true;
  return false;
}

static void broadcast_shape(cni_hcall *c, int nindex, cni_hval *shape)
{
  *shape = (cni_hval){.id = -1, .dtype = CN_I64};
  for (int k = 0; k < nindex; k++)
    if (cni_hlo_there(&c->in[1 + k]) && c->in[1 + k].ndim > shape->ndim) shape->ndim = c->in[1 + k].ndim;
  for (int d = 0; d < shape->ndim; d++) shape->shape[d] = 1;
  for (int k = 0; k < nindex; k++)
    for (int d = 0; cni_hlo_there(&c->in[1 + k]) && d < c->in[1 + k].ndim; d++)
      if (c->in[1 + k].shape[d] != 1) shape->shape[shape->ndim - c->in[1 + k].ndim + d] = c->in[1 + k].shape[d];
}

static bool find_places(cni_hcall *c, places *p, int nindex)
{
  cni_hlo *h = c->h;
  const cni_hval *x = &c->in[0];
  cni_hval shape;
  bool adjacent = true;
  *p = (places){.flat = 1};
  if (has_mask(c, nindex)) {
    cni_hlo_fail(h, CN_ERR_UNSUPPORTED,
                 "%s: a mask finds as many elements as are true, and XLA's programs have one size", c->name);
    return false;
  }
  broadcast_shape(c, nindex, &shape);
  p->at = cni_hlo_splat(h, cni_hlo_int(0), CN_I64, shape.ndim, shape.shape);
  for (int k = 0; k < nindex; k++) {
    if (!cni_hlo_there(&c->in[1 + k])) continue;
    if (p->n && p->dims[p->n - 1] != k - 1) adjacent = false;
    cni_hval i = cni_hlo_as(h, c->in[1 + k], CN_I64, &shape);
    p->at = CNI_HLO_EXPR(h, "a * c + (b < 0 ? b + c : b)", CN_I64, p->at, i, cni_hlo_int(x->shape[k]));
    p->flat *= x->shape[k];
    p->order[p->n] = k;
    p->dims[p->n++] = k;
  }
  int n = p->n;
  for (int k = 0; k < x->ndim; k++) {
    bool indexed = false;
    for (int i = 0; i < p->n; i++) indexed = indexed || p->dims[i] == k;
    if (!indexed) p->order[n++] = k;
  }
  p->first = adjacent && p->n ? p->dims[0] : 0;
  return !h->failed;
}

/* x with its indexed dims laid flat in front. */
static cni_hval in_front(cni_hlo *h, cni_hval x, const places *p)
{
  int64_t shape[CN_MAX_DIMS] = {p->flat};
  x = cni_hlo_transpose(h, x, p->order);
  memcpy(shape + 1, x.shape + p->n, (size_t)(x.ndim - p->n) * sizeof *shape);
  return cni_hlo_reshape(h, x, x.ndim - p->n + 1, shape);
}

/* The order that brings (indices, rest) to the result's, and back. */
static void result_order(const places *p, int ndim, bool back, int64_t *order)
{
  int nat = p->at.ndim;
  for (int k = 0; k < ndim; k++) {
    int from = k < p->first ? nat + k : k < p->first + nat ? k - p->first : k;
    if (back) order[from] = k;
    else order[k] = from;
  }
}

static void index(cni_hcall *c)
{
  places p;
  int64_t order[CN_MAX_DIMS];
  if (!find_places(c, &p, c->args[1].n)) return;
  cni_hval y = cni_hlo_take(c->h, in_front(c->h, c->in[0], &p), 0, p.at);
  result_order(&p, y.ndim, false, order);
  c->out[0] = cni_hlo_transpose(c->h, y, order);
}

/* index_put(input, [mask], one value): a choice. */
static bool put_masked(cni_hcall *c, const cni_hval *values, bool accumulate)
{
  cni_hval x = c->in[0], mask = c->in[1], v = *values;
  int64_t dims[CN_MAX_DIMS];
  if (c->args[1].n != 1 || mask.dtype != CN_BOOL || cni_hlo_numel(values) != 1) return false;
  for (int k = 0; k < mask.ndim; k++) dims[k] = k;
  mask = cni_hlo_broadcast(c->h, mask, x.ndim, x.shape, dims);
  v = cni_hlo_as(c->h, v.number ? v : cni_hlo_reshape(c->h, v, 0, NULL), x.dtype, &x);
  c->out[0] = cni_hlo_select(c->h, mask, accumulate ? cni_hlo_binary(c->h, "add", x, v) : v, x);
  return true;
}

static void index_put(cni_hcall *c)
{
  cni_hlo *h = c->h;
  places p;
  int nindex = c->args[1].n;
  int64_t order[CN_MAX_DIMS], back[CN_MAX_DIMS];
  cni_hval x = c->in[0], values = c->in[1 + nindex], like;
  bool accumulate = c->args[3].u.i != 0;
  if (put_masked(c, &values, accumulate) || !find_places(c, &p, nindex)) return;
  cni_hval front = in_front(h, x, &p);
  like = p.at; /* the shape of what is written: that of index's result */
  like.ndim = p.at.ndim + front.ndim - 1;
  for (int k = 0; k < like.ndim; k++) {
    int from = k < p.first ? p.at.ndim + k : k < p.first + p.at.ndim ? k - p.first : k;
    like.shape[k] = from < p.at.ndim ? p.at.shape[from] : front.shape[from - p.at.ndim + 1];
  }
  int type = accumulate ? cni_hlo_wide(x.dtype) : x.dtype;
  if (type == CN_BOOL && accumulate) type = CN_I32;
  values = cni_hlo_cast(h, cni_hlo_as(h, values, x.dtype, &like), type);
  result_order(&p, like.ndim, true, order);
  cni_hval y = cni_hlo_put(h, accumulate ? "add" : "set", cni_hlo_cast(h, front, type), 0, p.at,
                           cni_hlo_transpose(h, values, order));
  cni_hval turned = cni_hlo_transpose(h, x, p.order);
  y = cni_hlo_reshape(h, cni_hlo_cast(h, y, x.dtype), x.ndim, turned.shape);
  for (int k = 0; k < x.ndim; k++) back[p.order[k]] = k;
  c->out[0] = cni_hlo_transpose(h, y, back);
}

/* ---- tables ---- */

static void embedding(cni_hcall *c) { c->out[0] = cni_hlo_take(c->h, c->in[1], 0, c->in[0]); }

/* embedding_grad(grad, input, num_weights, padding_idx) */
static void embedding_grad(cni_hcall *c)
{
  cni_hlo *h = c->h;
  cni_hval g = wide(h, c->in[0]), at = cni_hlo_convert(h, c->in[1], CN_I64);
  cni_hval zero = cni_hlo_splat(h, cni_hlo_num(0), g.dtype, c->out[0].ndim, c->out[0].shape);
  if (!cni_harg_none(c, 3)) /* beyond the end, where nothing is written */
    at = CNI_HLO_EXPR(h, "a == b ? c : a", CN_I64, at, cni_hlo_int(cni_harg_int(c, 3)),
                      cni_hlo_int(c->out[0].shape[0]));
  c->out[0] = cni_hlo_cast(h, cni_hlo_put(h, "add", zero, 0, at, g), c->out[0].dtype);
}

const cni_hrow cni_hlo_index_rows[] = {
    {"gather", gather, NULL},        {"index_select", index_select, NULL}, {"index_add", index_put_dim, "add"},
    {"index_copy", index_put_dim, "set"}, {"index_fill", index_fill, NULL}, {"scatter", scatter, "set"},
    {"scatter_add", scatter, "add"}, {"scatter_reduce_self", scatter_reduce, NULL}, {"index", index, NULL},
    {"index_put", index_put, NULL},  {"embedding", embedding, NULL}, {"embedding_grad", embedding_grad, NULL},
    {NULL, NULL, NULL}};
