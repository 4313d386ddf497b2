/* order.c: rows of sorting and searching. See row.h. */
#include <string.h>

#include "rows.h"

/* What compares: bool as a number. */
static cni_hval comparable(cni_hlo *h, cni_hval x) { return x.dtype == CN_BOOL ? cni_hlo_convert(h, x, CN_U8) : x; }

static void give(cni_hcall *c, int i, cni_hval y)
{
  c->out[i] = cni_hlo_reshape(c->h, cni_hlo_convert(c->h, y, c->out[i].dtype), c->out[i].ndim, c->out[i].shape);
}

/* Values and where they were, sorted along dim; of one element at least. */
static int sorted(cni_hcall *c, cni_hval *x, int dim_arg, bool descending)
{
  int64_t one = 1;
  x[0] = comparable(c->h, c->in[0]);
  if (!x[0].ndim) x[0] = cni_hlo_reshape(c->h, x[0], 1, &one);
  int dim = cni_harg_dim(c, dim_arg, x[0].ndim);
  x[1] = cni_hlo_iota(c->h, CN_I32, x[0].ndim, x[0].shape, dim);
  cni_hlo_sort(c->h, 2, x, dim, descending);
  return dim;
}

static void sort(cni_hcall *c)
{
  cni_hval x[2];
  sorted(c, x, 1, cni_harg_int(c, 2) != 0);
  for (int i = 0; i < 2; i++) give(c, i, x[i]);
}

/* topk(input, k, dim, largest): the first k of all, in order. */
static void topk(cni_hcall *c)
{
  cni_hval x[2];
  int dim = sorted(c, x, 2, cni_harg_int(c, 3) != 0);
  for (int i = 0; i < 2; i++) give(c, i, cni_hlo_slice_dim(c->h, x[i], dim, 0, cni_harg_int(c, 1), 1));
}

static void kthvalue(cni_hcall *c)
{
  cni_hval x[2];
  int dim = sorted(c, x, 2, false);
  int64_t k = cni_harg_int(c, 1);
  for (int i = 0; i < 2; i++) give(c, i, cni_hlo_slice_dim(c->h, x[i], dim, k - 1, k, 1));
}

/* searchsorted(sorted, input, out_int32, right, side, sorter): how many stand before each element. */
static void searchsorted(cni_hcall *c)
{
  cni_hlo *h = c->h;
  cni_hval s = c->in[0], v = c->in[1];
  bool right = cni_harg_int(c, 3) != 0 || (!cni_harg_none(c, 4) && !strcmp(c->args[4].u.s, "right"));
  int64_t dims[CN_MAX_DIMS];
  if (cni_hlo_there(&c->in[2])) s = cni_hlo_take_along(h, s, s.ndim - 1, c->in[2]);
  if (cni_hlo_is_float(v.dtype) && !cni_hlo_is_float(s.dtype)) s = cni_hlo_convert(h, s, CN_F64); /* as fine as both */
  v = cni_hlo_as(h, v, s.dtype, &c->out[0]);
  int n = v.ndim + 1;
  for (int k = 0; k < s.ndim; k++) dims[k] = s.ndim == 1 || k == s.ndim - 1 ? n - 1 : k;
  cni_hval wide = cni_hlo_insert_dim(h, v, v.ndim, s.shape[s.ndim - 1]);
  s = cni_hlo_broadcast(h, s, n, wide.shape, dims);
  cni_hval before = CNI_HLO_EXPR(h, right ? "(a <= b) | (b != b)" : "(a < b) | (b != b) & (a == a)", s.dtype, s, wide);
  give(c, 0, cni_hlo_reduce(h, "add", cni_hlo_convert(h, before, CN_I32), 1u << (n - 1)));
}

const cni_hrow cni_hlo_order_rows[] = {{"sort", sort, NULL},
                                       {"topk", topk, NULL},
                                       {"kthvalue", kthvalue, NULL},
                                       {"searchsorted", searchsorted, NULL},
                                       {NULL, NULL, NULL}};
