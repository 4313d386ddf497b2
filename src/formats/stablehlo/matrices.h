/* matrices.h: what rows of decompositions share: matrices of one batch dim, in float64, whose rows and columns are
 * chosen by masks, since the loops that go over them have one text for all steps. */
#ifndef CNI_STABLEHLO_MATRICES_H
#define CNI_STABLEHLO_MATRICES_H

#include "rows.h"

/* (..., n, m) as (b, n, m) of float64. */
static inline cni_hval stacked(cni_hlo *h, cni_hval x)
{
  int64_t shape[3] = {1, x.shape[x.ndim - 2], x.shape[x.ndim - 1]};
  for (int k = 0; k < x.ndim - 2; k++) shape[0] *= x.shape[k];
  return cni_hlo_cast(h, cni_hlo_reshape(h, x, 3, shape), CN_F64);
}

/* The matrices of a call whose row knows real ones alone. */
static inline cni_hval real_matrices(cni_hcall *c)
{
  if (cni_hlo_is_complex(c->in[0].dtype))
    cni_hlo_fail(c->h, CN_ERR_UNSUPPORTED, "%s: of complex matrices it has no form yet", c->name);
  return stacked(c->h, c->in[0]);
}

static inline void give(cni_hcall *c, int i, cni_hval y)
{
  c->out[i] = cni_hlo_reshape(c->h, cni_hlo_cast(c->h, y, c->out[i].dtype), c->out[i].ndim, c->out[i].shape);
}

static inline cni_hval turned(cni_hlo *h, cni_hval x) { return cni_hlo_swap(h, x, 1, 2); }

/* Row and column of each element: (b, n, m) of int32. */
static inline cni_hval rows_of(cni_hlo *h, const cni_hval *x) { return cni_hlo_iota(h, CN_I32, 3, x->shape, 1); }
static inline cni_hval cols_of(cni_hlo *h, const cni_hval *x) { return cni_hlo_iota(h, CN_I32, 3, x->shape, 2); }

/* (b, n) to all columns, (b, m) to all rows. */
static inline cni_hval down(cni_hlo *h, cni_hval v, const cni_hval *like)
{
  return cni_hlo_broadcast(h, v, 3, like->shape, (int64_t[]){0, 1});
}
static inline cni_hval across(cni_hlo *h, cni_hval v, const cni_hval *like)
{
  return cni_hlo_broadcast(h, v, 3, like->shape, (int64_t[]){0, 2});
}
static inline cni_hval each(cni_hlo *h, cni_hval v, const cni_hval *like)
{
  return cni_hlo_broadcast(h, v, like->ndim, like->shape, (int64_t[]){0});
}

static inline cni_hval columns(cni_hlo *h, cni_hval x, int64_t from, int64_t to)
{
  return cni_hlo_slice_dim(h, x, 2, from, to, 1);
}
static inline cni_hval some_rows(cni_hlo *h, cni_hval x, int64_t from, int64_t to)
{
  return cni_hlo_slice_dim(h, x, 1, from, to, 1);
}

static inline cni_hval eye(cni_hlo *h, int64_t b, int64_t n, int64_t m)
{
  cni_hval like = {.ndim = 3, .shape = {b, n, m}};
  return cni_hlo_convert(h, cni_hlo_compare(h, "EQ", rows_of(h, &like), cols_of(h, &like)), CN_F64);
}

#endif
