/* split.c: cutting a reduction into units of work. See split.h.
 *
 * Place in the flow: between cni_reduction_make and cni_parallel_for. Invariant: shapes and strides alone decide. */
#include "split.h"

enum { UNITS = 64 }; /* wanted where there are few results */

static void choose_pieces(cni_split *s, const cni_reduction *r, int64_t align)
{
  int64_t work = r->outputs * r->count;
  s->pieces = 1;
  s->piece = r->count;
  if (s->units >= UNITS / 2 || work < 4 * CNI_REDUCE_GRAIN) return;
  int64_t pieces = UNITS / s->units, most = work / (2 * CNI_REDUCE_GRAIN);
  if (pieces > most) pieces = most;
  if (pieces < 2) return;
  s->piece = ((r->count + pieces - 1) / pieces + align - 1) / align * align;
  s->pieces = (r->count + s->piece - 1) / s->piece;
}

void cni_split_make(cni_split *s, const cni_reduction *r, int64_t block, int64_t align)
{
  s->columns = r->nk && r->nr && cni_step_order(r->kin[r->nk - 1]) < cni_step_order(r->rin[r->nr - 1]);
  s->width = s->columns ? r->ksize[r->nk - 1] : 1;
  s->block = s->columns ? block : 1;
  s->units = r->outputs / s->width * ((s->width + s->block - 1) / s->block);
  choose_pieces(s, r, align);
}

int64_t cni_split_grain(const cni_split *s, const cni_reduction *r)
{
  int64_t work = r->outputs * r->count / (s->units * s->pieces);
  return work < CNI_REDUCE_GRAIN ? CNI_REDUCE_GRAIN / (work ? work : 1) : 1;
}

cni_unit cni_split_unit(const cni_split *s, const cni_reduction *r, int64_t number)
{
  int64_t piece = number % s->pieces, rest = number / s->pieces, blocks = (s->width + s->block - 1) / s->block;
  int64_t column = rest % blocks * s->block, kept = rest / blocks, last = r->nk - 1;
  cni_unit u = {.n = s->width - column < s->block ? s->width - column : s->block, .first = piece * s->piece};
  cni_walk w;
  cni_walk_to(&w, s->columns ? (int)last : r->nk, r->ksize, r->kin, r->kout, kept);
  u.in = w.in + (s->columns ? column * r->kin[last] : 0);
  u.out = w.out + (s->columns ? column * r->kout[last] : 0);
  u.stop = u.first + s->piece < r->count ? u.first + s->piece : r->count;
  u.slot = piece * r->outputs + kept * s->width + column;
  return u;
}
