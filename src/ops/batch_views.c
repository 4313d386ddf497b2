/* batch_views.c: rules of views and of reductions and moves whose dims have a meaning of their own.
 *
 * Place in the flow: batch_rules.def names them. Invariant: a view of an example is a view of the batch, so that writes
 * through it reach the tensor. */
#include <cairn/autograd.h>
#include <cairn/ext/parts.h>
#include <cairn/ops.h>
#include <string.h>

#include "api.gen.h"
#include "batch.h"
#include "shorthand.h"

/* ---- views ---- */

int cni_batch_op_expand(cni_batching *b)
{
  b->in[0] = cni_batch_lined_up(b->in[0], b->args[1].n);
  return cni_batch_made(b);
}

int cni_batch_op_permute(cni_batching *b)
{
  int64_t dims[CN_MAX_DIMS + 1] = {0};
  for (int i = 0; i < b->args[1].n; i++) dims[i + 1] = cni_batch_dim(b->args[1].u.is[i], b->c->in[0]->d.ndim);
  b->out[0] = cn_permute(b->in[0], dims, (size_t)b->args[1].n + 1);
  return cn_err();
}

int cni_batch_op_squeeze(cni_batching *b)
{
  const cn_value *v = &b->args[1];
  const cn_desc *one = &b->c->in[0]->d;
  int64_t dims[CN_MAX_DIMS];
  size_t n = 0;
  for (int i = 0; v->tag != CN_V_NONE && i < v->n && one->ndim; i++) dims[n++] = cni_batch_dim(v->u.is[i], one->ndim);
  for (int i = 0; v->tag == CN_V_NONE && i < one->ndim; i++)
    if (one->shape[i] == 1) dims[n++] = i + 1;
  cn_squeeze_opts o = {.size = sizeof o, .dim = {dims, n}};
  b->out[0] = n ? cn_squeeze_with(b->in[0], &o) : cn_view(b->in[0], b->in[0]->d.shape, (size_t)b->in[0]->d.ndim);
  return cn_err();
}

int cni_batch_op_unsqueeze(cni_batching *b)
{
  b->out[0] = cn_unsqueeze(b->in[0], cni_batch_dim(b->args[1].u.i, b->c->in[0]->d.ndim + 1));
  return cn_err();
}

/* Of numbers alone the batch would be the dim whose size changes. */
int cni_batch_op_view_dtype(cni_batching *b)
{
  if (!b->c->in[0]->d.ndim) b->in[0] = cn_unsqueeze(b->in[0], 1);
  return cni_batch_call(b);
}

/* An example begins where the batch does, one stride of the batch behind the other. */
int cni_batch_op_as_strided_from(cni_batching *b)
{
  const cn_tensor *all = b->in[0];
  int n = b->args[1].n;
  int64_t size[CN_MAX_DIMS + 1] = {b->size}, stride[CN_MAX_DIMS + 1] = {all->d.strides[0]};
  memcpy(size + 1, b->args[1].u.is, (size_t)n * sizeof *size);
  memcpy(stride + 1, b->args[2].u.is, (size_t)n * sizeof *stride);
  int64_t offset = b->args[3].u.i - b->args[5].u.i + all->offset;
  b->out[0] = cn_as_strided_from(b->in[0], size, (size_t)n + 1, stride, (size_t)n + 1, offset, all->d.strides,
                                 (size_t)all->d.ndim, all->offset);
  return cn_err();
}

/* ---- writing ---- */

int cni_batch_op_copy(cni_batching *b)
{
  if (!b->dest) b->in[0] = cni_batch_of(b, 0);
  if (b->is[1]) b->in[1] = cni_batch_lined_up(b->in[1], b->c->in[0]->d.ndim);
  return cni_batch_call(b);
}

int cni_batch_op_fill(cni_batching *b)
{
  if (!b->is[1]) return cni_batch_call(b);
  cn_tensor *value = cni_batch_lined_up(b->in[1], b->c->in[0]->d.ndim);
  if (b->dest) return cn_copy_(b->dest, value) ? CN_OK : cn_err();
  b->out[0] = cn_copy(cni_batch_of(b, 0), value);
  return cn_err();
}

int cni_batch_op_grad_scaled(cni_batching *b)
{
  if (b->is[1]) b->in[1] = cni_batch_lined_up(b->in[1], b->c->in[0]->d.ndim);
  b->in[0] = cni_batch_of(b, 0);
  return cn_err() ? cn_err() : cni_batch_call(b);
}

/* One answer for all examples: they are all good. */
int cni_batch_op_check_within(cni_batching *b)
{
  int status = cni_batch_call(b);
  b->out[0] = status ? NULL : cni_batch_expanded(b, b->out[0]);
  return status ? status : cn_err();
}

/* ---- reductions of all elements ---- */

/* An empty list of dims reduces nothing here. */
static int all_or_any(cni_batching *b)
{
  const cn_value *v = &b->args[1];
  if (v->tag != CN_V_INTS || v->n) return cni_batch_along(b);
  b->out[0] = cn_cast(cn_ne(b->in[0], cn_int(0)), (cn_dtype)b->c->spec[0].dtype);
  return cn_err();
}
int cni_batch_op_all(cni_batching *b) { return all_or_any(b); }
int cni_batch_op_any(cni_batching *b) { return all_or_any(b); }

/* (size, elements of an example) */
static cn_tensor *rows(cni_batching *b)
{
  return cni_batch_shaped(b->in[0], (const int64_t[]){b->size, b->c->in[0]->d.numel}, 2, b->in[0]->d.ndim);
}

/* The chosen value y of each row of x, with a gradient that all elements equal to it share. */
static cn_tensor *shared_evenly(cn_tensor *x, cn_tensor *y)
{
  const int64_t dim = 1;
  if (!x || !y || !cn_needs_grad(x) || !cn_grad_enabled()) return y;
  y = cn_detach(y);
  cn_tensor *value = cn_detach(x), *of = cn_unsqueeze(y, 1);
  cn_tensor *equal = cn_logical_or(cn_eq(value, of), cn_logical_and(cn_isnan(value), cn_isnan(of)));
  cn_sum_opts o = {.size = sizeof o, .dim = {&dim, 1}, .keepdim = true};
  cn_tensor *share = cn_cast(equal, cn_dtype_of(x));
  share = cn_true_divide(share, cn_sum_with(share, &o));
  o.keepdim = false;
  equal = cn_logical_and(equal, cn_logical_not(cn_isinf(value)));
  cn_tensor *moves = cn_where(equal, cn_sub_with(x, value, NULL), cn_num(0));
  return cn_add_with(y, cn_sum_with(cn_mul(moves, share), &o), NULL);
}

int cni_batch_op_max(cni_batching *b)
{
  const int64_t dim = 1;
  cn_tensor *x = rows(b);
  b->out[0] = shared_evenly(x, cn_amax_with(x, &(cn_amax_opts){.size = sizeof(cn_amax_opts), .dim = {&dim, 1}}));
  return cn_err();
}

int cni_batch_op_min(cni_batching *b)
{
  const int64_t dim = 1;
  cn_tensor *x = rows(b);
  b->out[0] = shared_evenly(x, cn_amin_with(x, &(cn_amin_opts){.size = sizeof(cn_amin_opts), .dim = {&dim, 1}}));
  return cn_err();
}

int cni_batch_op_prod(cni_batching *b)
{
  cn_prod_dim_opts o = {.size = sizeof o, .dtype = (cn_dtype)b->c->spec[0].dtype};
  b->out[0] = cn_prod_dim_with(rows(b), 1, &o);
  return cn_err();
}

int cni_batch_op_median(cni_batching *b)
{
  if (!b->c->in[0]->d.numel) return cni_batch_loop(b);
  cn_tensor *x = rows(b), *y = NULL;
  int status = cn_median_dim_with(&y, NULL, x, 1, NULL);
  b->out[0] = shared_evenly(x, y);
  return status;
}

int cni_batch_op_nanmedian(cni_batching *b)
{
  if (!b->c->in[0]->d.numel) return cni_batch_loop(b);
  cn_tensor *x = rows(b), *y = NULL;
  int status = cn_nanmedian_dim_with(&y, NULL, x, 1, NULL);
  b->out[0] = shared_evenly(x, y);
  return status;
}

int cni_batch_op_aminmax(cni_batching *b) { return cni_batch_whole(b); }

/* ---- moves ---- */

/* Tensors of one kind may differ in dims where one of them is empty: those run one by one. */
int cni_batch_op_cat(cni_batching *b)
{
  int ndim = b->c->in[0]->d.ndim;
  for (int i = 0; i < b->c->nin; i++)
    if (b->c->in[i]->d.ndim != ndim) return cni_batch_loop(b);
  for (int i = 0; i < b->c->nin; i++) b->in[i] = cni_batch_of(b, i);
  b->args[1] = cn_v_int(cni_batch_dim(b->args[1].u.i, ndim));
  cn_tensor *dest = b->dest;
  b->dest = NULL;
  int status = cn_err() ? cn_err() : cni_batch_call(b);
  b->dest = dest;
  return status;
}

int cni_batch_op_flip(cni_batching *b)
{
  if (b->args[1].n) return cni_batch_along(b);
  b->out[0] = cn_clone(b->in[0]);
  return cn_err();
}

/* Without dims an example is rolled as one row. */
int cni_batch_op_roll(cni_batching *b)
{
  static const int64_t one = 1;
  if (b->args[2].n) return cni_batch_along(b);
  b->in[0] = rows(b);
  b->args[2] = cn_v_ints(&one, 1);
  return b->in[0] ? cni_batch_call(b) : cn_err();
}

/* The elements differ between examples, what they are looked for in does not. */
int cni_batch_op_isin(cni_batching *b) { return b->is[1] ? cni_batch_loop(b) : cni_batch_call(b); }

/* ---- linear algebra ---- */

int cni_batch_op_pinv_within(cni_batching *b) { return b->is[1] || b->is[2] ? cni_batch_loop(b) : cni_batch_call(b); }

int cni_batch_op_linalg_householder_product(cni_batching *b)
{
  b->in[0] = cni_batch_of(b, 0);
  b->in[1] = cni_batch_of(b, 1);
  return cn_err() ? cn_err() : cni_batch_call(b);
}

/* A vector of one right-hand side is a matrix of one column in a batch. */
static bool is_vector(const cni_batching *b)
{
  const cn_desc *a = &b->c->in[0]->d, *x = &b->c->in[1]->d;
  return x->ndim == 1 || (a->ndim - 1 == x->ndim && cni_same_shape(x->ndim, x->shape, a->ndim - 1, a->shape));
}

int cni_batch_op_linalg_solve(cni_batching *b)
{
  bool vector = is_vector(b);
  int last = b->c->nargs - 1, left = last == 2 ? 2 : last - 1; /* solve(A, B, left), solve_ex(A, B, left, check) */
  if (vector && !b->args[left].u.i) return cni_batch_loop(b);
  int rank = b->c->in[0]->d.ndim > b->c->in[1]->d.ndim + vector ? b->c->in[0]->d.ndim : b->c->in[1]->d.ndim + vector;
  for (int i = 0; i < 2; i++) {
    b->in[i] = cni_batch_of(b, i);
    if (i && vector) b->in[i] = cn_unsqueeze(b->in[i], -1);
    b->in[i] = cni_batch_lined_up(b->in[i], rank);
  }
  return cn_err() ? cn_err() : cni_batch_call(b);
}
int cni_batch_op_linalg_solve_ex(cni_batching *b) { return cni_batch_op_linalg_solve(b); }
