/* batch_loop.c: what becomes of an op without a rule: it is called for each example, and results are stacked.
 *
 * Place in the flow: cni_batch_run calls it as it calls rules. Invariant: results are those that a rule would give; the
 * first time for each op a warning says that it is slow. */
#include <cairn/ext/system.h>
#include <cairn/ops.h>
#include <cairn/vmap.h>
#include <string.h>

#include "api.gen.h"
#include "batch.h"
#include "shorthand.h"

static _Atomic size_t loops;

size_t cn_vmap_loops(void) { return loops; }

static void note(const cni_batching *b)
{
  static _Atomic bool warned[CNI_OP_COUNT_BUILTIN];
  if (b->info->row->flags & CN_OP_RANDOM) return; /* each example draws its own, or the same */
  loops++;
  if (b->info->id < CNI_OP_COUNT_BUILTIN && atomic_exchange(&warned[b->info->id], true)) return;
  cn_warn("vmap: there is a performance drop because %s has no batching rule yet; it runs once for each example",
          b->info->name);
}

/* Results of a batch of none: those of an example of zeros say their shapes. */
static int none(cni_batching *b)
{
  for (int i = 0; i < b->c->nin; i++)
    if (b->is[i])
      b->in[i] = cn_zeros_with(b->in[i]->d.shape + 1, (size_t)b->in[i]->d.ndim - 1,
                               &(cn_zeros_opts){.size = sizeof(cn_zeros_opts), .dtype = cn_dtype_of(b->in[i]),
                                                .device = b->in[i]->d.device});
  int status = cn_err() ? cn_err() : cni_batch_call(b);
  for (int i = 0; i < b->c->nout && !status; i++)
    if (b->out[i] && !(b->out[i] = cn_slice_with(cn_unsqueeze(b->out[i], 0), 0, 0, 0, NULL))) status = cn_err();
  return status;
}

/* The call for example `at`: its results are borrowed from the scope. */
static int call_one(cni_batching *b, int64_t at, cn_tensor *const *all, cn_tensor *whole)
{
  for (int i = 0; i < b->c->nin; i++) {
    b->in[i] = b->is[i] ? cn_select(all[i], 0, at) : all[i];
    if (all[i] && !b->in[i]) return cn_err();
  }
  b->dest = whole && b->c->nout > 1 ? b->in[0] : whole ? cn_select(whole, 0, at) : NULL;
  return whole && !b->dest ? cn_err() : cni_batch_call(b);
}

static int loop_over(cni_batching *b, cn_tensor *const *all, cn_tensor **rows)
{
  uint64_t seed, offset;
  cn_tensor *whole = b->dest;
  bool same = b->vmap->randomness == CN_RANDOM_SAME;
  cn_random_state(&seed, &offset);
  for (int64_t at = 0; at < b->size; at++) {
    if (same && at) cn_random_set_state(seed, offset);
    int status = call_one(b, at, all, whole);
    if (status) return status;
    for (int i = 0; i < b->c->nout; i++) {
      rows[(int64_t)i * b->size + at] = b->out[i];
      b->out[i] = NULL;
    }
  }
  for (int i = 0; i < b->c->nout && !whole; i++)
    if (rows[i * b->size]) b->out[i] = cn_stack_with(rows + i * b->size, (size_t)b->size, NULL);
  return cn_err();
}

int cni_batch_loop(cni_batching *b)
{
  if (!b->size) return b->dest ? CN_OK : none(b);
  size_t rows = (size_t)b->c->nout * (size_t)b->size, bytes = ((size_t)b->c->nin + rows + 1) * sizeof(cn_tensor *);
  cn_tensor **all = cni_alloc_zero(bytes);
  if (!all) return CN_ERR_MEMORY;
  note(b);
  memcpy(all, b->in, (size_t)b->c->nin * sizeof *all);
  int status = loop_over(b, all, all + b->c->nin);
  cni_free(all, bytes);
  return status;
}
