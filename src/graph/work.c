/* work.c: memory that kernels need while they run, lent by the context.
 *
 * Place in the flow: run.c, around each node -> here; kernels take it by base/scratch.h. At a node, much of the block
 * holds nothing: the layout knows the largest such piece (passes/memplan.c). How much a kernel takes, only the kernel
 * knows; a context notes it in its first run. Where a piece was too small, the plan gets a layout in which what
 * kernels take is placed like values that live at one node, and contexts move to it as soon as nobody holds what is
 * in their block. So from its second run on, kernels allocate nothing, and the block is as large as the largest
 * moment, not the sum of two. Invariant: what is lent at a node overlaps no value that lives there. */
#include "plan.h"

void cni_work_note(cni_context *c, size_t place, size_t most)
{
  if (!c->wants) return;
  if (most > c->wants[place]) c->wants[place] = most;
  c->is_short |= most > c->layout->gaps[place].size;
}

/* With the lock: a layout with room for what this context's kernels want, and others', whose threads may be more. Where
 * there is no memory to plan with, kernels go on with memory of their own. */
static void lay_out_anew(cni_plan *p, const cni_context *c)
{
  for (size_t i = 0; i < p->nnodes; i++)
    if (c->wants[i] > p->wants[i]) p->wants[i] = c->wants[i];
  cni_layout *l = cni_memplan(p->values, p->nvalues, p->wants, p->nnodes);
  if (l) cni_layout_release(p->layout), p->layout = l;
  else cn_err_clear();
}

void cni_work_fit(cni_plan *p, const cn_graph *g, cni_context *c)
{
  if (!c->is_short) {
    if (c->layout && !c->layout->settled) c->layout->settled = true;
    return;
  }
  pthread_mutex_lock(&p->lock);
  if (p->layout == c->layout) lay_out_anew(p, c);
  pthread_mutex_unlock(&p->lock);
  if (cni_context_is_lent(c)) return; /* it moves before the next run */
  c->is_short = false;
  if (cni_context_move(p, g, c)) cn_err_clear(); /* tried again by the next run, which then fails */
}
