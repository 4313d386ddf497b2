/* reduce_order.c: brings the dims of a reduction, or the lines along a dim, into memory order. See reduce.h.
 *
 * Place in the flow: the first step of every CPU kernel that reduces along dims. */
#include <string.h>

#include "reduce.h"

/* Sorts dims by their stride, largest first (and broadcast ones before all), and merges neighbours that are one run in
 * memory (and, where there is an `out`, in the result too). Returns how many are left. */
static int sort_and_merge(int n, int64_t *size, int64_t *in, int64_t *out)
{
  for (int i = 1; i < n; i++)
    for (int j = i; j > 0 && cni_step_order(in[j]) > cni_step_order(in[j - 1]); j--) {
      int64_t s = size[j], x = in[j], y = out ? out[j] : 0;
      size[j] = size[j - 1], in[j] = in[j - 1];
      size[j - 1] = s, in[j - 1] = x;
      if (out) out[j] = out[j - 1], out[j - 1] = y;
    }
  int m = 0;
  for (int i = 1; i < n; i++) {
    bool one = in[m] == in[i] * size[i] && (!out || out[m] == out[i] * size[i]);
    size[one ? m : m + 1] = one ? size[m] * size[i] : size[i];
    if (!one) m++;
    in[m] = in[i];
    if (out) out[m] = out[i];
  }
  return n ? m + 1 : 0;
}

void cni_reduction_make(cni_reduction *r, const cn_desc *x, uint32_t mask)
{
  int64_t out = 1;
  r->nk = r->nr = 0;
  r->outputs = r->count = 1;
  for (int i = x->ndim - 1; i >= 0; i--) { /* innermost first: that is the order in which `out` grows */
    int64_t size = x->shape[i];
    bool reduced = mask >> i & 1;
    *(reduced ? &r->count : &r->outputs) *= size;
    if (size == 1) continue;
    if (reduced) {
      r->rsize[r->nr] = size;
      r->rin[r->nr++] = x->strides[i];
    } else {
      r->ksize[r->nk] = size;
      r->kin[r->nk] = x->strides[i];
      r->kout[r->nk++] = out;
      out *= size;
    }
  }
  if (r->nk > 1) r->nk = sort_and_merge(r->nk, r->ksize, r->kin, r->kout);
  if (r->nr > 1) r->nr = sort_and_merge(r->nr, r->rsize, r->rin, NULL);
}

void cni_lines_make(cni_lines *l, const cn_desc *x, const cn_desc *y, int dim)
{
  l->nk = 0;
  l->n = x->ndim ? x->shape[dim] : 1;
  l->xstep = x->ndim ? x->strides[dim] : 1;
  l->ystep = y->ndim ? y->strides[dim] : 1;
  if (l->n == 1) l->xstep = l->ystep = 1;
  else if (y->ndim && y->shape[dim] == 1) l->ystep = 0;
  l->count = 1;
  for (int i = x->ndim - 1; i >= 0; i--) {
    if (i == dim) continue;
    l->count *= x->shape[i];
    if (x->shape[i] == 1) continue;
    l->ksize[l->nk] = x->shape[i];
    l->kin[l->nk] = x->strides[i];
    l->kout[l->nk++] = y->strides[i];
  }
  if (l->nk > 1) l->nk = sort_and_merge(l->nk, l->ksize, l->kin, l->kout);
}

void cni_walk_to(cni_walk *w, int n, const int64_t *size, const int64_t *in, const int64_t *out, int64_t at)
{
  w->in = w->out = 0;
  for (int i = n - 1; i >= 0; i--) {
    w->index[i] = at % size[i];
    at /= size[i];
    w->in += w->index[i] * in[i];
    if (out) w->out += w->index[i] * out[i];
  }
}

void cni_walk_step(cni_walk *w, int n, const int64_t *size, const int64_t *in, const int64_t *out)
{
  for (int i = n - 1; i >= 0; i--) {
    w->in += in[i];
    if (out) w->out += out[i];
    if (++w->index[i] < size[i]) return;
    w->in -= size[i] * in[i];
    if (out) w->out -= size[i] * out[i];
    w->index[i] = 0;
  }
}
