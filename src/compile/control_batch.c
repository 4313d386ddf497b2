/* control_batch.c: branches and loops of graphs under vmap: once for each example, since each may go another way.
 *
 * Place in the flow: cni_replay_control (control_replay.c) comes here when an input is an example of a batch.
 * Invariant: while examples run the vmap counts as ended; results are examples of it again. */
#include <cairn/ops.h>
#include <cairn/vmap.h>
#include <string.h>

#include "autograd/autograd.h"
#include "control.h"
#include "ops/batch.h"

enum { MOST_RESULTS = 64 };

static bool of(const cn_tensor *t, const cni_vmap *v) { return t && t->batch && t->batch_level == v->id; }

/* rows: nout * size tensors; one: the inputs of an example. */
static int run_examples(cn_tensor **rows, cn_tensor **one, const cni_replayed *r, const cni_vmap *v)
{
  int nin = r->node->nin, nout = r->node->nout, status = CN_OK;
  cn_tensor *out[MOST_RESULTS];
  for (int64_t at = 0; at < v->size && !status; at++) {
    cni_replayed call = *r;
    call.in = one;
    for (int i = 0; i < nin && !status; i++) {
      one[i] = of(r->in[i], v) ? cn_select(r->in[i]->batch, 0, at) : r->in[i];
      if (r->in[i] && !one[i]) status = cn_err();
    }
    if (!status) status = cni_replay_control(out, &call);
    for (int i = 0; i < nout && !status; i++) rows[i * v->size + at] = out[i];
  }
  return status;
}

int cni_replay_batch(cn_tensor **out, const cni_replayed *r, const cni_vmap *v)
{
  cn_state *st = cni_state();
  cni_vmap *inner = st->vmap;
  int nin = r->node->nin, nout = r->node->nout;
  if (!v->size || nout > MOST_RESULTS)
    return cni_fail(CN_ERR_UNSUPPORTED, "vmap: a branch or loop of a graph needs an example, and at most %d results",
                    MOST_RESULTS);
  size_t bytes = ((size_t)nin + (size_t)nout * (size_t)v->size + 1) * sizeof(cn_tensor *);
  cn_tensor **one = cni_alloc_zero(bytes), **rows = one + nin;
  if (!one) return CN_ERR_MEMORY;
  st->vmap = v->outer;
  if (!st->vmap) st->modes &= ~(uint32_t)CNI_MODE_BATCH;
  int status = run_examples(rows, one, r, v);
  for (int i = 0; i < nout && !status; i++) {
    cn_tensor *all = cn_stack_with(rows + i * v->size, (size_t)v->size, NULL);
    out[i] = all ? cni_scope_add(cni_tensor_batched(all, v->id)) : NULL;
    if (!out[i]) status = cn_err();
  }
  st->vmap = inner;
  st->modes |= CNI_MODE_BATCH;
  cni_free(one, bytes);
  return status;
}
