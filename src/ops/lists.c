/* lists.c: lists of tensors: see cairn/lists.h.
 *
 * Place in the flow: library functions made of ops, as modules are; strings.c has strings as lists of bytes. What is
 * here are places: element p of a list belongs to member e(p), which begins at start(e); both follow from the members'
 * sizes by sums and by repeat_interleave_indices, whose result has a size that depends on data. Invariant: nothing
 * reads a value but cni_size_in, so that everything can be captured. */
#include <cairn/kw.h>
#include <cairn/lists.h>
#include <string.h>

#include "base/alloc.h"
#include "ragged.h"

/* ---- numbers along a list ---- */

cn_tensor *cni_counting(int64_t n, cn_device device)
{
  return cn_arange(0, (double)n, .dtype = CN_I64, .device = device);
}

cn_tensor *cni_starts(cn_tensor *lengths) { return cn_sub(cn_cumsum(lengths, 0), lengths); }

int cni_ragged_of(cni_ragged *r, cn_tensor *lengths, int64_t total)
{
  r->member = cn_repeat_interleave_indices(lengths, total);
  if (!r->member) return cn_err();
  cn_tensor *starts = cn_index_select(cni_starts(lengths), 0, r->member);
  r->place = cn_sub(cni_counting(r->member->d.shape[0], lengths->d.device), starts);
  return cn_err();
}

cn_tensor *cni_size_vector(const int64_t *v, int n, cn_device device)
{
  cn_tensor *one[CN_MAX_DIMS];
  if (n == 0) return cn_zeros(CN_SHAPE(0), .dtype = CN_I64, .device = device);
  for (int i = 0; i < n; i++) one[i] = cn_full(CN_SHAPE(1), (double)v[i], .dtype = CN_I64, .device = device);
  return cn_err() ? NULL : cn_cat(one, (size_t)n);
}

static cn_tensor *elements_of(const cn_list *l) { return cn_prod_dim(l->shapes, 1); }

/* ---- checks ---- */

static int bad(const char *who, const char *what) { return cni_fail(CN_ERR_SHAPE, "%s: %s", who, what); }

static int check_list(const char *who, const cn_list *l)
{
  if (cn_err()) return cn_err();
  if (!l || !l->data || !l->shapes) return cni_fail(CN_ERR_TYPE, "%s: the list is NULL", who);
  if (l->data->d.ndim != 1 || l->shapes->d.ndim != 2 || l->shapes->d.dtype != CN_I64)
    return bad(who, "a list is a vector of elements and an int64 matrix of shapes");
  return CN_OK;
}

static int64_t length_of(const cn_list *l) { return l->shapes->d.shape[0]; }
static int dims_of(const cn_list *l) { return (int)l->shapes->d.shape[1]; }

/* An index as a vector of one number from 0 on; each run checks it. most: the largest it may be. */
static cn_tensor *index_of(const char *why, cn_tensor *index, int64_t n, int64_t most)
{
  if (!index) return NULL;
  if (index->d.numel != 1 || (index->d.dtype != CN_I64 && index->d.dtype != CN_I32)) {
    cni_fail(CN_ERR_TYPE, "list: an index must be an int64 of one element");
    return NULL;
  }
  index = cn_reshape(cni_in_type(index, CN_I64), CN_SHAPE(1));
  index = cn_where(cn_lt(index, cn_int(0)), cn_add(index, cn_int(n)), index);
  cn_check_within(index, 0, (double)most, why);
  return cn_err() ? NULL : index;
}

/* ---- making ---- */

/* n members of one shape. */
static cn_tensor *same_shapes(const int64_t *shape, int ndim, int64_t n, cn_device device)
{
  cn_tensor *row = cn_reshape(cni_size_vector(shape, ndim, device), CN_SHAPE(1, ndim));
  return cn_expand(row, CN_SHAPE(n, ndim));
}

static int finish(cn_list *out, cn_tensor *data, cn_tensor *shapes)
{
  if (!cn_err()) *out = (cn_list){data, shapes};
  return cn_err();
}

static int join(cn_list *out, cn_tensor **data, cn_tensor *const *tensors, size_t n)
{
  cn_tensor **shapes = data + n, *first = tensors[0];
  for (size_t i = 0; i < n; i++) {
    cn_tensor *t = tensors[i];
    if (!t) return cn_err() ? cn_err() : cni_fail(CN_ERR_TYPE, "list_make: tensor %zu is NULL", i);
    if (t->d.dtype != first->d.dtype || t->d.ndim != first->d.ndim)
      return cni_fail(CN_ERR_DTYPE, "list_make: members have one type and one number of dimensions, and tensor %zu has "
                      "others than the first one", i);
    data[i] = cn_reshape(t, CN_SHAPE(-1));
    shapes[i] = same_shapes(t->d.shape, t->d.ndim, 1, t->d.device);
    if (cn_err()) return cn_err();
  }
  return finish(out, cn_cat(data, n), cn_cat(shapes, n));
}

int cn_list_make(cn_list *out, cn_tensor *const *tensors, size_t n)
{
  if (cn_err()) return cn_err();
  if (!out || !tensors || !n || !tensors[0]) return cni_fail(CN_ERR_TYPE, "list_make: needs at least one tensor");
  cn_tensor **room = cni_alloc(2 * n * sizeof *room);
  int status = room ? join(out, room, tensors, n) : CN_ERR_MEMORY;
  cni_free(room, 2 * n * sizeof *room);
  return status;
}

int cn_list_empty(cn_list *out, cn_dtype dtype, int ndim, cn_device device)
{
  if (ndim < 0 || ndim > CN_MAX_DIMS) return cni_fail(CN_ERR_VALUE, "list_empty: %d dimensions", ndim);
  cn_tensor *data = cn_zeros(CN_SHAPE(0), .dtype = dtype, .device = device);
  return finish(out, data, cn_zeros(CN_SHAPE(0, ndim), .dtype = CN_I64, .device = device));
}

int cn_list_rows(cn_list *out, cn_tensor *x)
{
  if (cn_err()) return cn_err();
  if (!x || x->d.ndim == 0) return cni_fail(CN_ERR_SHAPE, "list_rows: needs a tensor of at least one dimension");
  cn_tensor *shapes = same_shapes(x->d.shape + 1, x->d.ndim - 1, x->d.shape[0], x->d.device);
  return finish(out, cn_reshape(x, CN_SHAPE(-1)), shapes);
}

/* Of a tensor in row-major order, seen from one dim: how many there are before it, along it, and behind it. */
typedef struct around {
  int64_t before, along, behind;
} around;

static around around_dim(const int64_t *shape, int ndim, int dim)
{
  around a = {1, shape[dim], 1};
  for (int i = 0; i < dim; i++) a.before *= shape[i];
  for (int i = dim + 1; i < ndim; i++) a.behind *= shape[i];
  return a;
}

/* Shapes of the pieces: x's, with their own size at dim. */
static cn_tensor *piece_shapes(const cn_tensor *x, cn_tensor *sizes, int dim, bool keepdim)
{
  int64_t n = sizes->d.shape[0];
  int ndim = x->d.ndim;
  cn_tensor *before = same_shapes(x->d.shape, dim, n, x->d.device);
  cn_tensor *behind = same_shapes(x->d.shape + dim + 1, ndim - dim - 1, n, x->d.device);
  if (!keepdim) return cn_cat(CN_TENSORS(before, behind), .dim = 1);
  return cn_cat(CN_TENSORS(before, cn_reshape(sizes, CN_SHAPE(n, 1)), behind), .dim = 1);
}

int cn_list_split(cn_list *out, cn_tensor *x, cn_tensor *sizes, int64_t dim, bool keepdim)
{
  if (cn_err()) return cn_err();
  if (!x || !sizes || sizes->d.ndim != 1 || sizes->d.dtype != CN_I64)
    return cni_fail(CN_ERR_TYPE, "list_split: needs a tensor, and an int64 vector of sizes");
  int ndim = x->d.ndim, at = (int)(dim < 0 ? dim + ndim : dim);
  if (at < 0 || at >= ndim) return cni_fail(CN_ERR_INDEX, "list_split: there is no dimension %d", (int)dim);
  around a = around_dim(x->d.shape, ndim, at);
  cni_ragged r;
  if (!keepdim) cn_check_within(sizes, 1, 1, "list_split: without keepdim each size must be 1");
  cn_tensor *each = cn_mul(sizes, cn_int(a.before * a.behind)); /* elements of each piece */
  if (cn_err() || cni_ragged_of(&r, each, x->d.numel)) return cn_err();
  cn_tensor *along = cn_index_select(sizes, 0, r.member), *first = cn_index_select(cni_starts(sizes), 0, r.member);
  cn_tensor *behind = cn_remainder(r.place, cn_int(a.behind)), *rest = cn_floor_divide(r.place, cn_int(a.behind));
  cn_tensor *from = cn_add(cn_mul(cn_floor_divide(rest, along), cn_int(a.along)), first); /* a row of x, and where */
  from = cn_add(cn_mul(cn_add(from, cn_remainder(rest, along)), cn_int(a.behind)), behind);
  cn_tensor *data = cn_index_select(cn_reshape(x, CN_SHAPE(-1)), 0, from);
  return finish(out, data, piece_shapes(x, sizes, at, keepdim));
}

/* ---- changing ---- */

/* The members at these places; total: of their elements, where it is known. */
static int take(cn_list *out, const cn_list *l, cn_tensor *order, int64_t total)
{
  cni_ragged r;
  cn_tensor *elements = elements_of(l), *starts = cn_index_select(cni_starts(elements), 0, order);
  if (cn_err() || cni_ragged_of(&r, cn_index_select(elements, 0, order), total)) return cn_err();
  cn_tensor *from = cn_add(cn_index_select(starts, 0, r.member), r.place);
  return finish(out, cn_index_select(l->data, 0, from), cn_index_select(l->shapes, 0, order));
}

int cn_list_take(cn_list *out, const cn_list *list, cn_tensor *indices)
{
  int status = check_list("list_take", list);
  if (status) return status;
  if (!indices || indices->d.ndim != 1 || indices->d.dtype != CN_I64)
    return cni_fail(CN_ERR_TYPE, "list_take: needs an int64 vector of indices");
  cn_tensor *at = cn_where(cn_lt(indices, cn_int(0)), cn_add(indices, cn_int(length_of(list))), indices);
  return take(out, list, at, CN_NONE);
}

int cn_list_insert(cn_list *out, const cn_list *list, cn_tensor *t, cn_tensor *index)
{
  int status = check_list("list_insert", list);
  if (status) return status;
  if (!t) return cni_fail(CN_ERR_TYPE, "list_insert: the tensor is NULL");
  if (t->d.dtype != list->data->d.dtype || t->d.ndim != dims_of(list))
    return cni_fail(CN_ERR_DTYPE, "list_insert: the list has %s of %d dimensions, and this is %s of %d",
                    cn_dtype_name((cn_dtype)list->data->d.dtype), dims_of(list), cn_dtype_name((cn_dtype)t->d.dtype),
                    (int)t->d.ndim);
  int64_t n = length_of(list);
  cn_list longer = {cn_cat(CN_TENSORS(list->data, cn_reshape(t, CN_SHAPE(-1)))),
                    cn_cat(CN_TENSORS(list->shapes, same_shapes(t->d.shape, t->d.ndim, 1, t->d.device)))};
  if (cn_err() || !index) return finish(out, longer.data, longer.shapes);
  cn_tensor *at = index_of("list_insert: the index is not in the list", index, n, n);
  if (!at) return cn_err();
  cn_tensor *place = cni_counting(n + 1, t->d.device); /* the last member goes to `at`, and others make room */
  cn_tensor *order = cn_where(cn_gt(place, at), cn_sub(place, cn_int(1)), place);
  order = cn_where(cn_eq(place, at), cn_int(n), order);
  return cn_err() ? cn_err() : take(out, &longer, order, longer.data->d.shape[0]);
}

int cn_list_erase(cn_list *out, const cn_list *list, cn_tensor *index)
{
  int status = check_list("list_erase", list);
  if (status) return status;
  int64_t n = length_of(list);
  if (n == 0 && !cni_tracing_sizes()) return cni_fail(CN_ERR_INDEX, "list_erase: the list is empty");
  cn_device device = list->data->d.device;
  cn_tensor *last = index ? index : cn_full(CN_SHAPE(1), (double)(n - 1), .dtype = CN_I64, .device = device);
  cn_tensor *at = index_of("list_erase: the index is not in the list", last, n, n - 1);
  if (!at) return cn_err();
  cn_tensor *place = cni_counting(n > 0 ? n - 1 : 0, device);
  return take(out, list, cn_where(cn_ge(place, at), cn_add(place, cn_int(1)), place), CN_NONE);
}

/* ---- reading ---- */

cn_tensor *cn_list_length(const cn_list *list)
{
  if (check_list("list_length", list)) return NULL;
  return cn_full(CN_SCALAR_SHAPE, (double)length_of(list), .dtype = CN_I64, .device = list->data->d.device);
}

/* The sizes of a member, from its row of shapes, as far as they are not known. */
static int sizes_of(int64_t *sizes, cn_tensor *row, int ndim, const int64_t *known)
{
  for (int i = 0; i < ndim; i++)
    sizes[i] = known && known[i] >= 0 ? known[i] : cni_size_in(cn_select(row, 0, i));
  return cn_err();
}

static int64_t product(const int64_t *v, int n)
{
  int64_t p = 1;
  for (int i = 0; i < n; i++) p *= v[i];
  return p;
}

cn_tensor *cn_list_at(const cn_list *list, cn_tensor *index, const int64_t *shape)
{
  int64_t sizes[CN_MAX_DIMS];
  if (check_list("list_at", list)) return NULL;
  int64_t n = length_of(list);
  int ndim = dims_of(list);
  cn_tensor *at = index_of("list_at: the index is not in the list", index, n, n - 1);
  if (!at && !cn_err()) cni_fail(CN_ERR_TYPE, "list_at: the index is NULL");
  cn_tensor *row = cn_reshape(cn_index_select(list->shapes, 0, at), CN_SHAPE(ndim)), *elements = elements_of(list);
  if (cn_err() || sizes_of(sizes, row, ndim, shape)) return NULL;
  int64_t total = product(sizes, ndim);
  cn_check_within(cn_index_select(elements, 0, at), (double)total, (double)total,
                  "list_at: the member has not the shape that was said: it should have other elements");
  cn_tensor *from = cn_add(cni_counting(total, list->data->d.device), cn_index_select(cni_starts(elements), 0, at));
  return cn_reshape(cn_index_select(list->data, 0, from), sizes, (size_t)ndim);
}

/* The sizes of the first member, which all others have, but for those of `free` (-1: none); each run checks that. */
static int common_sizes(const char *who, const cn_list *l, int64_t *sizes, int free, const int64_t *shape)
{
  int64_t known[CN_MAX_DIMS], n = length_of(l);
  int ndim = dims_of(l);
  if (n == 0 && !cni_tracing_sizes()) return bad(who, "the list is empty");
  for (int i = 0; i < ndim; i++) known[i] = i == free ? 0 : shape ? shape[i] : -1;
  cn_tensor *first = cn_reshape(cn_narrow(l->shapes, 0, 0, 1), CN_SHAPE(ndim));
  if (cn_err() || sizes_of(sizes, first, ndim, known)) return cn_err();
  for (int i = 0; i < ndim; i++)
    if (i != free)
      cn_check_within(cn_sub(cn_select(l->shapes, 1, i), cn_int(sizes[i])), 0, 0,
                      "list: members to be joined differ in size, or have not the one that was said");
  return cn_err();
}

cn_tensor *cn_list_stack(const cn_list *list, int64_t dim, const int64_t *shape)
{
  int64_t sizes[CN_MAX_DIMS + 1];
  if (check_list("list_stack", list)) return NULL;
  int ndim = dims_of(list);
  if (ndim == CN_MAX_DIMS || dim < -ndim - 1 || dim > ndim)
    return cni_fail(CN_ERR_INDEX, "list_stack: there cannot be a dimension %d", (int)dim), NULL;
  if (common_sizes("list_stack", list, sizes + 1, -1, shape)) return NULL;
  sizes[0] = length_of(list);
  cn_tensor *data = list->data; /* in a graph it may be counted by itself: that it is as long is not known there */
  if (cni_capturing_now()) data = cn_index_select(data, 0, cni_counting(product(sizes, ndim + 1), data->d.device));
  cn_tensor *all = cn_reshape(data, sizes, (size_t)ndim + 1);
  const int64_t from = 0, to = dim < 0 ? dim + ndim + 1 : dim;
  return to ? cn_movedim(all, &from, 1, &to, 1) : all;
}

cn_tensor *cn_list_concat(const cn_list *list, int64_t dim, const int64_t *shape)
{
  int64_t sizes[CN_MAX_DIMS];
  cni_ragged r;
  if (check_list("list_concat", list)) return NULL;
  int ndim = dims_of(list), at = (int)(dim < 0 ? dim + ndim : dim);
  if (at < 0 || at >= ndim) return cni_fail(CN_ERR_INDEX, "list_concat: there is no dimension %d", (int)dim), NULL;
  if (common_sizes("list_concat", list, sizes, at, shape)) return NULL;
  cn_tensor *along = cn_contiguous(cn_select(list->shapes, 1, at));
  if (!along || cni_ragged_of(&r, along, CN_NONE)) return NULL;
  sizes[at] = r.member->d.shape[0];
  around a = around_dim(sizes, ndim, at);
  cn_device device = list->data->d.device;
  cn_tensor *base = cn_index_select(cni_starts(elements_of(list)), 0, r.member);
  cn_tensor *before = cn_reshape(cni_counting(a.before, device), CN_SHAPE(a.before, 1));
  cn_tensor *row = cn_add(cn_mul(before, cn_index_select(along, 0, r.member)), r.place); /* (before, along) */
  cn_tensor *from = cn_add(cn_mul(row, cn_int(a.behind)), base);
  from = cn_add(cn_unsqueeze(from, 2), cni_counting(a.behind, device));
  return cn_reshape(cn_index_select(list->data, 0, cn_reshape(from, CN_SHAPE(-1))), sizes, (size_t)ndim);
}
