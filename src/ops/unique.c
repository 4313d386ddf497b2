/* unique.c: the family of ops that find what occurs in a tensor: unique and unique_consecutive.
 *
 * Place in the flow: composites over sort, nonzero and gather; lexsort_rows alone has a kernel
 * (backends/cpu/index/search.c). Invariant: the size of a result depends on data only through nonzero. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>
#include <cairn/ops.h>

#include "families.h"
#include "reduce.h"
#include "shorthand.h"

/* ---- lexsort_rows(input): (n, m) -> (n) ---- */

static int lexsort_rows_infer(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d;
  if (x->ndim != 2) return cn_call_fail(c, CN_ERR_SHAPE, "takes 2 dimensions, not %d", x->ndim);
  int status = cni_check_computes(c, x->dtype);
  return status ? status : cn_call_result(c, 0, CN_I64, 1, x->shape);
}

/* Stable sorts by each column, the last one first. */
static int lexsort_rows_decompose(cn_call *c)
{
  cn_tensor *x = c->in[0];
  int64_t n = x->d.shape[0];
  cn_tensor *order = cn_arange(0, (double)n, .dtype = CN_I64, .device = x->d.device);
  for (int64_t k = x->d.shape[1] - 1; k >= 0 && !cn_err(); k--) {
    cn_tensor *column = cn_index_select(cn_select(x, 1, k), 0, order);
    order = cn_index_select(order, 0, cn_argsort(column, .stable = true));
  }
  c->out[0] = order;
  return cn_err();
}

/* ---- unique ---- */

/* What the results need of rows (n) or (n, m) in which equals stand together. */
typedef struct runs {
  cn_tensor *first; /* (n) bool: a run begins here */
  cn_tensor *start; /* (u): where they begin */
  int64_t n;
} runs;

static runs find_runs(cn_tensor *rows)
{
  runs r = {.n = cn_size(rows, 0)};
  cn_zeros_opts truth = {.size = sizeof truth, .dtype = CN_BOOL, .device = cn_device_of(rows)};
  if (r.n == 0) {
    r.first = cn_zeros_with(CN_SHAPE(0), &truth);
  } else {
    cn_tensor *changes = cn_ne(cn_slice(rows, 0, 1, r.n), cn_slice(rows, 0, 0, r.n - 1));
    if (cn_ndim(rows) > 1) changes = cn_any(changes, .dim = CN_INTS(1));
    cn_tensor *yes = cn_ones(CN_SHAPE(1), .dtype = CN_BOOL, .device = cn_device_of(rows));
    r.first = cn_cat(CN_TENSORS(yes, changes));
  }
  r.start = cn_reshape(cn_nonzero(r.first), CN_SHAPE(-1));
  return r;
}

/* The number of the run that each element is in; order (may be NULL): which element row i was. */
static cn_tensor *inverse_of(const runs *r, cn_tensor *order)
{
  cn_tensor *number = cn_sub(cn_cumsum(r->first, 0), cn_int(1));
  return order ? cn_scatter(cn_zeros_like(number), 0, order, number) : number;
}

static cn_tensor *counts_of(const runs *r)
{
  cn_tensor *end = cn_full(CN_SHAPE(1), (double)r->n, .dtype = CN_I64, .device = cn_device_of(r->first));
  int64_t u = cn_size(r->start, 0);
  if (u == 0 && !cni_tracing_sizes()) return r->start;
  return cn_sub(cn_cat(CN_TENSORS(cn_slice(r->start, 0, 1, u), end)), r->start);
}

typedef struct asked {
  bool inverse, counts, sort;
} asked;

/* What stands for a result that was not asked for. */
static cn_tensor *nothing(const cn_call *c) { return cn_zeros(CN_SHAPE(0), .dtype = CN_I64, .device = c->device); }

/* Over all elements. */
static int unique_flat(cn_call *c, asked a)
{
  cn_tensor *x = cn_detach(c->in[0]), *flat = cn_reshape(x, CN_SHAPE(-1)), *order = NULL;
  if (a.sort) cn_sort(&flat, &order, flat, .stable = true);
  if (cn_err()) return cn_err();
  runs r = find_runs(flat);
  if (cn_err()) return cn_err();
  c->out[0] = cn_index_select(flat, 0, r.start);
  c->out[1] = a.inverse ? cn_reshape(inverse_of(&r, order), x->d.shape, (size_t)x->d.ndim) : nothing(c);
  c->out[2] = a.counts ? counts_of(&r) : nothing(c);
  return cn_err();
}

/* Over the slices along a dim. */
static int unique_slices(cn_call *c, asked a, int64_t dim_arg)
{
  const cn_desc *x = &c->in[0]->d;
  cn_tensor *order = NULL;
  int dim = cn_call_dim(c, dim_arg, x->ndim), ndim = x->ndim;
  if (dim < 0) return dim;
  if (ndim == 0) return unique_flat(c, a);
  for (int i = 0; i < ndim; i++)
    if (x->shape[i] == 0 && (i != dim || x->numel))
      return cn_call_fail(c, CN_ERR_SHAPE, "dimension %d is empty and not the one that is asked for", i);
  int64_t at = dim, front = 0, shape[CN_MAX_DIMS], n = x->shape[dim];
  cn_tensor *moved = cn_movedim(cn_detach(c->in[0]), &at, 1, &front, 1);
  if (cn_err()) return cn_err();
  int64_t width = 1;
  for (int i = 1; i < ndim; i++) width *= shape[i] = cn_size(moved, i);
  cn_tensor *rows = cn_reshape(moved, CN_SHAPE(n, width));
  if (a.sort) {
    order = cn_lexsort_rows(rows);
    rows = cn_index_select(rows, 0, order);
  }
  if (cn_err()) return cn_err();
  runs r = find_runs(rows);
  if (cn_err()) return cn_err();
  shape[0] = cn_size(r.start, 0);
  cn_tensor *values = cn_reshape(cn_index_select(rows, 0, r.start), shape, (size_t)ndim);
  c->out[0] = cn_contiguous(cn_movedim(values, &front, 1, &at, 1));
  c->out[1] = a.inverse ? inverse_of(&r, order) : nothing(c);
  c->out[2] = a.counts ? counts_of(&r) : nothing(c);
  return cn_err();
}

/* unique(input, sorted, return_inverse, return_counts, dim) */
static int unique_decompose(cn_call *c)
{
  asked a = {cni_arg_bool(c->args, 2), cni_arg_bool(c->args, 3), true};
  return cni_arg_none(c->args, 4) ? unique_flat(c, a) : unique_slices(c, a, cni_arg_int(c->args, 4));
}

/* unique_consecutive(input, return_inverse, return_counts, dim) */
static int unique_consecutive_decompose(cn_call *c)
{
  asked a = {cni_arg_bool(c->args, 1), cni_arg_bool(c->args, 2), false};
  return cni_arg_none(c->args, 3) ? unique_flat(c, a) : unique_slices(c, a, cni_arg_int(c->args, 3));
}

/* clang-format off */
const cn_op cni_unique_ops[] = {
  {.sig = "unique(Tensor input, bool sorted=True, bool return_inverse=False, bool return_counts=False, int? dim=None) "
          "-> (Tensor output, Tensor inverse_indices, Tensor counts)",
   .doc = "The different elements, in order; or the different slices along dim, in the order of their elements. Also, "
          "where asked for: for each element the place of its equal in output (in input's shape; a vector with dim), "
          "and how often each occurs; else nothing (0). NaN equals nothing. Carries no gradient.",
   .flags = CN_OP_COMPOSITE, .decompose = unique_decompose},
  {.sig = "unique_consecutive(Tensor input, bool return_inverse=False, bool return_counts=False, int? dim=None) "
          "-> (Tensor output, Tensor inverse_indices, Tensor counts)",
   .doc = "The first of each run of equal elements, or of equal slices along dim; the other results as those of "
          "unique. Carries no gradient.",
   .flags = CN_OP_COMPOSITE, .decompose = unique_consecutive_decompose},
  {.sig = "lexsort_rows(Tensor input) -> Tensor ; internal",
   .doc = "The indices that bring the rows of a matrix into the order of their elements, first to last. Equal rows "
          "keep their order; NaN counts as the largest.",
   .flags = CN_OP_NO_GRAD, .infer = lexsort_rows_infer, .decompose = lexsort_rows_decompose},
};
/* clang-format on */
CNI_FAMILY(unique);
