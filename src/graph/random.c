/* random.c: random numbers in graphs. A random node is pure: it names one of the graph's draws, whose place behind the
 * thread's present offset follows from the sizes of the draws before it. A run moves the thread on once, by all of
 * them.
 *
 * Place in the flow: capture.c asks for the draw of a call; the plan (plan.c) turns draws into offsets. Invariants: a
 * part that is computed again (a checkpoint) sets the thread's offset back and so gets the same draw, with the same
 * numbers; a capture leaves the thread where it was. */
#include "capture.h"

void cni_draws_begin(cni_capture *cap) { cn_random_state(&cap->seed, &cap->base); }

void cni_draws_end(cni_capture *cap) { cn_random_set_state(cap->seed, cap->base); }

static int add_draw(cn_graph *g, uint64_t count)
{
  if (cni_grow((void **)&g->draws, &g->draws_cap, g->ndraws + 1, sizeof *g->draws)) return CN_ERR_MEMORY;
  g->draws[g->ndraws] = (cni_gdraw){.count = (int64_t)count};
  return (int)g->ndraws++;
}

int cni_draw_at(cni_capture *cap, uint64_t offset, uint64_t count, const char *who)
{
  cn_graph *g = cap->g;
  uint64_t at = cap->base;
  bool other = !count && cni_state()->tracing_sizes; /* of no numbers nobody can tell, and at other sizes it is */
  for (size_t i = 0; i < g->ndraws; at += (uint64_t)g->draws[i++].count)
    if (at == offset && (uint64_t)g->draws[i].count == count && !other) return (int)i; /* again, by a checkpoint */
  if (at == offset) return add_draw(g, count);
  return cni_fail(CN_ERR_CAPTURE, "%s: the random state was set to where no draw of this capture begins", who);
}

int cni_draw_count(cni_capture *cap, const char *who, uint64_t count)
{
  uint64_t seed, offset;
  cni_random_take(&seed, &offset, count);
  if (seed == cap->seed) return cni_draw_at(cap, offset, count, who);
  return cni_fail(CN_ERR_CAPTURE, "%s: captured code cannot choose a seed; set it before the capture", who);
}

uint64_t cni_draw_begins(const cni_capture *cap, int draw)
{
  uint64_t at = cap->base;
  for (int i = 0; i < draw; i++) at += (uint64_t)cap->g->draws[i].count;
  return at;
}

int cni_draw(cni_capture *cap, const cn_call *c)
{
  return cni_draw_count(cap, cni_op_info(c->op)->name, cni_random_draws(c));
}
