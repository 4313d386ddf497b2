/* work.c: memory that kernels need while they run, lent by the context.
 *
 * Place in the flow: run.c, around each node -> here; kernels take it by base/scratch.h. At a node, much of the block
 * holds nothing: the plan knows the largest such piece (passes/memplan.c). How much a kernel takes, only the kernel
 * knows; a context notes it in its first run, and gets memory besides the block for those that the piece at their node
 * is too small for. So from its second run on, kernels allocate nothing. Invariant: what is lent at a node overlaps no
 * value that lives there. */
#include "plan.h"

void cni_work_note(cni_context *c, const cni_plan *p, size_t place, size_t most)
{
  if (!c->wants || most <= c->wants[place]) return;
  c->wants[place] = most;
  if (most > p->gaps[place].size && most > c->work_wanted) c->work_wanted = most;
}

void cni_work_grow(cni_context *c)
{
  if (c->work_wanted <= c->work_size) return;
  cni_free(c->work, c->work_size);
  c->work_size = 0;
  if ((c->work = cni_alloc(c->work_wanted))) c->work_size = c->work_wanted;
  else cn_err_clear(); /* kernels go on with memory of their own */
}
