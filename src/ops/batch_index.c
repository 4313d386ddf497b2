/* batch_index.c: rules of reading and writing at indices.
 *
 * Place in the flow: batch_rules.def names them. Where indices differ between examples, the number of the example goes
 * in front of them as one more index. Invariant: what does not fit runs example by example. */
#include <cairn/ext/parts.h>
#include <cairn/ops.h>
#include <string.h>

#include "api.gen.h"
#include "batch.h"
#include "shorthand.h"

/* 0, 1, ... size - 1 as (size, 1, ...) with `rank` ones */
static cn_tensor *numbers(const cni_batching *b, int rank)
{
  cn_arange_opts o = {.size = sizeof o, .dtype = CN_I64, .device = b->c->device};
  return cni_batch_lined_up(cn_arange_with(0, (double)b->size, &o), rank);
}

/* ---- lists of indices ---- */

typedef struct places {
  cn_tensor *index[CN_MAX_DIMS + 1]; /* of the batch: one for its dim, then the example's */
  int n;       /* the example's own */
  int first;   /* the first dim that is indexed */
  int rank;    /* dims of the indices, broadcast */
  bool differ; /* between examples */
  bool beside; /* the indexed dims lie beside each other */
  bool masks;  /* one is of booleans */
} places;

static places places_of(const cni_batching *b)
{
  places p = {.n = b->c->args[1].n, .first = -1, .beside = true};
  int last = -1;
  for (int i = 0; i < p.n && i < CN_MAX_DIMS; i++) {
    const cn_tensor *t = b->c->in[1 + i];
    if (!t) continue;
    if (p.first < 0) p.first = i;
    else if (last != i - 1) p.beside = false;
    last = i;
    p.masks |= t->d.dtype == CN_BOOL || t->d.dtype == CN_U8;
    p.differ |= b->is[1 + i];
    if (t->d.ndim > p.rank) p.rank = t->d.ndim;
  }
  return p;
}

/* The example's indices, lined up, with the number of the example in front where they differ. */
static int lay_out(const cni_batching *b, places *p)
{
  p->index[0] = p->differ ? numbers(b, p->rank) : NULL;
  for (int i = 0; i < p->n; i++)
    p->index[i + 1] = b->is[1 + i] ? cni_batch_lined_up(b->in[1 + i], p->rank) : b->in[1 + i];
  return cn_err();
}

/* Dims first.. of t, `count` of them, moved to `to`. */
static cn_tensor *moved(cn_tensor *t, int first, int count, int to)
{
  int64_t from[CN_MAX_DIMS], where[CN_MAX_DIMS];
  for (int i = 0; i < count; i++) from[i] = first + i, where[i] = to + i;
  return count && first != to ? cn_movedim(t, from, (size_t)count, where, (size_t)count) : t;
}

/* index(input, indices) */
int cni_batch_op_index(cni_batching *b)
{
  places p = places_of(b);
  if (p.masks && p.differ) return cni_batch_refused(b);
  if (p.n >= CN_MAX_DIMS || p.first < 0) return cni_batch_loop(b);
  if (!b->is[0]) { /* (size, indices) where the indices were: at the first of them, or in front */
    int at = p.beside ? p.first : 0;
    int status = lay_out(b, &p);
    cn_tensor *t = status ? NULL : cn_index(b->in[0], p.index + 1, (size_t)p.n);
    b->out[0] = at && t ? cni_batch_to_front(t, at) : t;
    return cn_err();
  }
  int status = lay_out(b, &p);
  cn_tensor *t = status ? NULL : cn_index(b->in[0], p.index, (size_t)p.n + 1);
  if (p.differ && p.beside) t = moved(t, 1, p.rank, 1 + p.first);
  else if (!p.differ && !p.beside && t) t = cni_batch_to_front(t, p.masks ? 1 : p.rank);
  b->out[0] = t;
  return cn_err();
}

/* Values to be written where indices lie behind `first` other dims: (size, first dims, indices, rest) with the first
 * dims behind the indices. rank: all of them, of an example. */
static cn_tensor *turned(const cni_batching *b, const places *p, int rank)
{
  int last = b->c->nin - 1, from = b->is[last];
  cn_tensor *values = b->in[last];
  if (from) values = cni_batch_lined_up(values, rank);
  else
    for (int k = values->d.ndim; k < rank && values; k++) values = cn_unsqueeze(values, 0);
  return values ? moved(values, from, p->first, from + p->rank) : NULL;
}

/* index_put(input, indices, values, accumulate): in[0], then indices, then values. Where indices differ between
 * examples the dims in front of them go behind them: the number of the example and they lie beside each other then. */
int cni_batch_op_index_put(cni_batching *b)
{
  places p = places_of(b);
  int last = b->c->nin - 1, count = 0;
  if (p.masks && p.differ) return cni_batch_refused(b);
  bool fits = p.beside && !(p.masks && b->is[last]);
  if (p.n >= CN_MAX_DIMS || p.first < 0 || !fits) return cni_batch_loop(b);
  for (int i = 1; i <= p.n; i++) count += b->c->in[i] != NULL;
  int rank = p.rank + b->c->in[0]->d.ndim - count, first = p.differ ? p.first : 0;
  cn_tensor *in = cni_batch_of(b, 0), *values = b->in[last];
  int status = lay_out(b, &p);
  if (first) {
    in = moved(in, 1, first, 1 + count);
    values = turned(b, &p, rank);
    memmove(p.index + 1, p.index + 1 + first, (size_t)(p.n - first) * sizeof *p.index);
  } else if (b->is[last]) values = cni_batch_lined_up(values, rank);
  cn_index_put_opts o = {.size = sizeof o, .accumulate = b->args[3].u.i != 0};
  cn_tensor *out = status ? NULL : cn_index_put_with(in, p.index, (size_t)(p.n - first) + 1, values, &o);
  b->out[0] = first && out ? moved(out, 1 + count, first, 1) : out;
  return cn_err();
}

/* ---- one index along a dim ---- */

/* An index vector of each example, (size, n), as large as `like` (size, ...) except along dim. */
static cn_tensor *widened(cn_tensor *index, const cn_desc *like, int64_t dim)
{
  int64_t shape[CN_MAX_DIMS];
  if (!index) return NULL;
  for (int64_t d = 1; d < like->ndim; d++)
    if (d != dim) index = cn_unsqueeze(index, d);
  memcpy(shape, like->shape, (size_t)like->ndim * sizeof *shape);
  shape[dim] = index ? index->d.shape[dim] : 0;
  return cn_expand(index, shape, (size_t)like->ndim);
}

/* index_select(input, dim, index) */
int cni_batch_op_index_select(cni_batching *b)
{
  const cn_desc *x = &b->c->in[0]->d;
  int64_t dim = cni_batch_dim(b->args[1].u.i, x->ndim);
  if (!x->ndim || b->c->in[1]->d.ndim != 1) return cni_batch_loop(b);
  cn_tensor *all = cni_batch_of(b, 0);
  if (!all) return cn_err();
  if (!b->is[1]) b->out[0] = cn_index_select(all, dim, b->in[1]);
  else b->out[0] = cn_gather(all, dim, widened(b->in[1], &all->d, dim));
  return cn_err();
}

/* The others with the index that all examples share; one that differs is written at example by example. */
static int shared_index(cni_batching *b)
{
  int ndim = b->c->in[0]->d.ndim;
  if (b->is[1] || !ndim) return cni_batch_loop(b);
  b->args[1] = cn_v_int(cni_batch_dim(b->args[1].u.i, ndim));
  b->in[0] = cni_batch_of(b, 0);
  if (b->c->in[2]->d.ndim == ndim) b->in[2] = cni_batch_of(b, 2);
  else if (b->is[2]) return cni_batch_loop(b);
  cn_tensor *dest = b->dest;
  b->dest = NULL;
  int status = cn_err() ? cn_err() : cni_batch_call(b);
  b->dest = dest;
  return status;
}
int cni_batch_op_index_copy(cni_batching *b) { return shared_index(b); }
int cni_batch_op_index_fill(cni_batching *b)
{
  if (b->is[2]) return cni_batch_loop(b);
  return shared_index(b);
}

/* index_add(input, dim, index, source, alpha): where indices differ, each element says where it goes. */
int cni_batch_op_index_add(cni_batching *b)
{
  int ndim = b->c->in[0]->d.ndim;
  if (!b->is[1] || !ndim || b->c->in[1]->d.ndim != 1 || b->c->in[2]->d.ndim != ndim) return shared_index(b);
  int64_t dim = cni_batch_dim(b->args[1].u.i, ndim);
  cn_tensor *source = cni_batch_of(b, 2), *index = source ? widened(b->in[1], &source->d, dim) : NULL;
  if (source && source->d.dtype == CN_BOOL) return cni_batch_loop(b);
  source = source ? cni_in_type(cn_mul(source, cni_number(&b->args[4])), source->d.dtype) : NULL;
  b->out[0] = cn_scatter_add(cni_batch_of(b, 0), dim, index, source);
  return cn_err();
}

/* take(input, index): of an example's elements in a row */
int cni_batch_op_take(cni_batching *b)
{
  int64_t n = b->c->in[0]->d.numel, one[CN_MAX_DIMS] = {b->size, -1};
  if (!n || !b->c->in[1]->d.numel) return cni_batch_loop(b);
  if (!b->is[0]) return cni_batch_call(b);
  cn_tensor *all = cn_reshape(b->in[0], one, 2), *index = cn_reshape(cni_batch_of(b, 1), one, 2);
  index = cn_where(cn_lt(index, cn_int(0)), cn_add_with(index, cn_int(n), NULL), index);
  b->out[0] = cn_gather(all, 1, cn_cast(index, CN_I64));
  return cn_err();
}

/* searchsorted(sorted_sequence, input, ..., sorter): one sequence for all */
int cni_batch_op_searchsorted(cni_batching *b)
{
  bool one = b->c->in[0]->d.ndim == 1 && !b->is[0] && !(b->c->nin > 2 && b->in[2] && b->is[2]);
  if (one && b->c->in[1]->d.ndim) return cni_batch_call(b);
  if (b->c->in[0]->d.ndim > 1 && b->c->in[1]->d.ndim) return cni_batch_lead(b);
  return cni_batch_loop(b);
}

/* ---- rows of tables ---- */

/* The row that has no gradient, or -1. */
static int64_t padding_of(const cn_value *v, int64_t rows)
{
  return v->tag != CN_V_INT || v->u.i == CN_NONE ? -1 : v->u.i < 0 ? v->u.i + rows : v->u.i;
}

/* embedding(input, weight, padding_idx): a table that differs is read at (example, row). */
int cni_batch_op_embedding(cni_batching *b)
{
  if (!b->is[1]) return cni_batch_call(b);
  int64_t padding = padding_of(&b->args[2], b->c->in[1]->d.shape[0]);
  cn_tensor *at[2] = {numbers(b, b->c->in[0]->d.ndim), b->in[0]}, *read = cn_index(b->in[1], at, 2);
  if (padding >= 0) read = cn_where(cn_unsqueeze(cn_eq(b->in[0], cn_int(padding)), -1), cn_detach(read), read);
  b->out[0] = read;
  return cn_err();
}

/* embedding_grad(grad, input, num_weights, padding_idx): tables of the examples one behind the other */
int cni_batch_op_embedding_grad(cni_batching *b)
{
  int64_t rows = b->args[2].u.i, padding = padding_of(&b->args[3], rows);
  cn_tensor *grad = cni_batch_of(b, 0), *at = cni_batch_of(b, 1);
  if (padding >= 0) grad = cn_where(cn_unsqueeze(cn_eq(at, cn_int(padding)), -1), cn_int(0), grad);
  b->in[0] = grad;
  b->in[1] = cn_add_with(at, cn_mul(numbers(b, b->c->in[1]->d.ndim), cn_int(rows)), NULL);
  b->args[2] = cn_v_int(rows * b->size);
  b->args[3] = cn_v_none();
  return cn_err() ? cn_err() : cni_batch_call(b);
}

/* one_hot(input, num_classes): the largest class would be another for each example */
int cni_batch_op_one_hot(cni_batching *b) { return b->args[1].u.i >= 1 ? cni_batch_call(b) : cni_batch_refused(b); }

/* masked_select(input, mask): a mask that all examples share picks the same of each. */
int cni_batch_op_masked_select(cni_batching *b)
{
  if (b->is[1]) return cni_batch_refused(b);
  int rank = b->c->in[0]->d.ndim > b->c->in[1]->d.ndim ? b->c->in[0]->d.ndim : b->c->in[1]->d.ndim;
  cn_tensor *given[2] = {cni_batch_lined_up(b->in[0], rank), b->in[1]}, *both[2];
  if (!b->size) return cni_batch_refused(b);
  if (!given[0] || cn_broadcast_tensors(both, 2, given, 2) < 0) return cn_err();
  if (!rank) both[0] = cn_unsqueeze(both[0], 1), both[1] = cn_unsqueeze(both[1], 1);
  cn_tensor *at[2] = {NULL, cn_select(both[1], 0, 0)};
  b->out[0] = cn_index(both[0], at, 2);
  return cn_err();
}
