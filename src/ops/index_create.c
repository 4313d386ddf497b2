/* index_create.c: the family of ops that make indices, or combine elements by them: the indices of triangles,
 * combinations, coordinates of flat indices.
 *
 * Place in the flow: composites over index_select. Invariant: indices that follow from arguments alone are made on the
 * host and become constants. */
#include <cairn/kw.h>

#include "base/alloc.h"
#include "families.h"
#include "shorthand.h"

/* ---- lists made on the host ---- */

typedef struct list {
  int64_t *at;
  int64_t n, room;
} list;

static int list_begin(const cn_call *c, list *l, int64_t n)
{
  *l = (list){NULL, 0, n};
  if (n > INT64_MAX / 16) return cn_call_fail(c, CN_ERR_SHAPE, "the result is too large");
  l->at = cni_alloc((size_t)(n ? n : 1) * sizeof *l->at);
  return l->at ? CN_OK : CN_ERR_MEMORY;
}

/* The list as a tensor of that shape; frees it. */
static cn_tensor *list_tensor(list *l, const int64_t *shape, int ndim, cn_dtype dtype, cn_device device)
{
  cn_tensor *t = cn_from_data(l->at, shape, (size_t)ndim, CN_I64);
  cni_free(l->at, (size_t)(l->room ? l->room : 1) * sizeof *l->at);
  if (dtype && dtype != CN_I64) t = cn_cast(t, dtype);
  return device && device != CN_CPU ? cn_to_device(t, device) : t;
}

/* ---- tril_indices, triu_indices (row, col, offset, dtype, device) ---- */

/* Columns of row i that belong: [*first, *end). */
static void columns_of(int64_t i, int64_t col, int64_t offset, bool lower, int64_t *first, int64_t *end)
{
  int64_t edge = i + offset + (lower ? 1 : 0);
  edge = edge < 0 ? 0 : edge > col ? col : edge;
  *first = lower ? 0 : edge;
  *end = lower ? edge : col;
}

__extension__ typedef __int128 wide;

/* How many elements belong, and the rows that have some: [*begin, *end). offset lies in -row .. col. */
static wide elements_of(int64_t row, int64_t col, int64_t offset, bool lower, int64_t *begin, int64_t *end)
{
  int64_t edge; /* the row from which on rows are full (lower), or no longer full (upper) */
  *begin = 0, *end = row;
  if (lower) {
    *begin = offset < 0 ? -offset : 0;
    edge = col - offset - 1 > *begin ? col - offset - 1 : *begin;
    if (edge > row) edge = row;
    return (wide)(edge - *begin) * (*begin + edge - 1 + 2 * (offset + 1)) / 2 + (wide)(row - edge) * col;
  }
  if (*end > col - offset) *end = col - offset;
  edge = offset < 0 ? -offset : 0;
  if (edge > *end) edge = *end;
  return (wide)edge * col + (wide)(*end - edge) * (2 * (col - offset) - edge - *end + 1) / 2;
}

static int triangle(cn_call *c, bool lower)
{
  int64_t row = cni_arg_int(c->args, 0), col = cni_arg_int(c->args, 1), offset = cni_arg_int(c->args, 2);
  int64_t begin, end, first, last;
  list l;
  if (row < 0 || col < 0) return cn_call_fail(c, CN_ERR_VALUE, "row and col must not be negative");
  if (row > INT64_MAX / 8 || col > INT64_MAX / 8) return cn_call_fail(c, CN_ERR_SHAPE, "the matrix is too large");
  if (offset < -row) offset = -row; /* further out changes nothing */
  if (offset > col) offset = col;
  wide count = elements_of(row, col, offset, lower, &begin, &end);
  if (count > INT64_MAX / 32) return cn_call_fail(c, CN_ERR_SHAPE, "the result is too large");
  int64_t n = count > 0 ? (int64_t)count : 0;
  int status = list_begin(c, &l, 2 * n);
  if (status) return status;
  for (int64_t i = begin, at = 0; i < end && n; i++) {
    columns_of(i, col, offset, lower, &first, &last);
    for (int64_t k = first; k < last; k++, at++) l.at[at] = i, l.at[n + at] = k;
  }
  c->out[0] = list_tensor(&l, (int64_t[]){2, n}, 2, (cn_dtype)cni_arg_int_or(c->args, 3, CN_I64),
                          (cn_device)cni_arg_int_or(c->args, 4, (int64_t)c->device));
  return cn_err();
}
static int tril_indices_decompose(cn_call *c) { return triangle(c, true); }
static int triu_indices_decompose(cn_call *c) { return triangle(c, false); }

/* ---- combinations(input, r, with_replacement) ---- */

/* The number of ways to choose r of n; negative when it is too large. */
static int64_t ways(int64_t n, int64_t r)
{
  int64_t count = 1;
  if (r > n) return 0;
  if (r > n - r) r = n - r;
  for (int64_t i = 0; i < r; i++) {
    if (__builtin_mul_overflow(count, n - i, &count)) return -1;
    count /= i + 1;
  }
  return count;
}

/* All tuples in order, each not below the one before it. */
static void write_tuples(list *l, int64_t n, int64_t r, int64_t count, bool repeat)
{
  int64_t *at = l->at;
  for (int64_t k = 0; k < r && count; k++) at[k] = repeat ? 0 : k;
  for (int64_t i = 1; i < count; i++) {
    int64_t *next = at + r, k = r - 1;
    memcpy(next, at, (size_t)r * sizeof *at);
    while (next[k] == (repeat ? n - 1 : n - r + k)) k--;
    next[k]++;
    for (int64_t j = k + 1; j < r; j++) next[j] = next[j - 1] + (repeat ? 0 : 1);
    at = next;
  }
}

static int combinations_decompose(cn_call *c)
{
  cn_tensor *x = c->in[0];
  int64_t r = cni_arg_int(c->args, 1), total;
  bool repeat = cni_arg_bool(c->args, 2);
  list l;
  if (x->d.ndim != 1) return cn_call_fail(c, CN_ERR_SHAPE, "takes a vector, not %d dimensions", (int)x->d.ndim);
  if (r < 0) return cn_call_fail(c, CN_ERR_VALUE, "r must not be negative, but is %lld", (long long)r);
  if (r == 0) {
    c->out[0] = cn_slice(x, 0, 0, 0);
    return cn_err();
  }
  int64_t n = x->d.numel, count = repeat ? (n ? ways(n + r - 1, r) : 0) : ways(n, r);
  if (count < 0 || __builtin_mul_overflow(count, r, &total))
    return cn_call_fail(c, CN_ERR_SHAPE, "the result is too large");
  int status = list_begin(c, &l, total);
  if (status) return status;
  write_tuples(&l, n, r, count, repeat);
  cn_tensor *indices = list_tensor(&l, &total, 1, CN_I64, x->d.device);
  c->out[0] = cn_view(cn_index_select(x, 0, indices), CN_SHAPE(count, r));
  return cn_err();
}

/* ---- unravel_index(indices, shape) ---- */

static int unravel_index_decompose(cn_call *c)
{
  const cn_value *shape = &c->args[1];
  cn_tensor *rest = c->in[0];
  if (!cni_dtype_is_int(rest->d.dtype))
    return cn_call_fail(c, CN_ERR_DTYPE, "indices must be of an integer type, not %s",
                        cn_dtype_name((cn_dtype)rest->d.dtype));
  for (int i = 0; i < shape->n; i++)
    if (shape->u.is[i] < 0) return cn_call_fail(c, CN_ERR_VALUE, "shape must not hold negative sizes");
  if (shape->n > c->nout)
    return cn_call_fail(c, CN_ERR_VALUE, "gives %d results, room was made for %d", shape->n, c->nout);
  if (rest->d.numel && !cni_numel(shape->n, shape->u.is))
    return cn_call_fail(c, CN_ERR_VALUE, "a shape without elements has no positions");
  c->nout = shape->n;
  rest = cni_in_type(rest, CN_I64);
  for (int i = shape->n - 1; i >= 0; i--) {
    int64_t size = shape->u.is[i] ? shape->u.is[i] : 1;
    c->out[i] = cn_remainder(rest, cn_int(size));
    if (i) rest = cn_floor_divide(rest, cn_int(size));
  }
  return cn_err();
}

/* clang-format off */
const cn_op cni_index_create_ops[] = {
  {.sig = "tril_indices(int row, int col, int offset=0, *, dtype? dtype=None, device? device=None) -> Tensor",
   .doc = "The rows and the columns of the lower triangle of a row by col matrix, as (2, n), in row-major order.",
   .flags = CN_OP_COMPOSITE, .decompose = tril_indices_decompose},
  {.sig = "triu_indices(int row, int col, int offset=0, *, dtype? dtype=None, device? device=None) -> Tensor",
   .doc = "The rows and the columns of the upper triangle of a row by col matrix, as (2, n), in row-major order.",
   .flags = CN_OP_COMPOSITE, .decompose = triu_indices_decompose},
  {.sig = "combinations(Tensor input, int r=2, bool with_replacement=False) -> Tensor ; complex",
   .doc = "All ways to choose r elements of a vector, a row each, in the order of the vector.",
   .flags = CN_OP_COMPOSITE, .decompose = combinations_decompose},
  {.sig = "unravel_index(Tensor indices, int[] shape) -> Tensor[]",
   .doc = "Positions in a flattened tensor as coordinates: one tensor per size of shape.",
   .flags = CN_OP_COMPOSITE, .decompose = unravel_index_decompose},
};
/* clang-format on */
CNI_FAMILY(index_create);
