/* run.h: one run of a graph, as run.c and recorded.c see it.
 *
 * Place in the flow: run.c fills a cni_running and runs the nodes of its plan one by one; recorded.c has them recorded
 * by the device once, and runs the recording from then on. Invariant: either way a run gives the same results. */
#ifndef CNI_GRAPH_RUN_H
#define CNI_GRAPH_RUN_H

#include "plan.h"

typedef struct cni_running {
  const cn_graph *g; /* the plan's */
  cni_plan *plan;
  cni_context *context;
  cn_tensor *const *inputs; /* in the traced memory order */
  cn_tensor *const *given;  /* as the caller has them: what is written goes there */
  cn_tensor *const *into;   /* a graph that a node holds: where results go; NULL: they get memory of their own */
  cn_tensor **now;     /* the context's: per value its tensor */
  const uint64_t *at;  /* random numbers begin there; NULL: where the thread stands */
  uint64_t seed, base; /* ... which is */
  bool settled;        /* what follows from weights alone is there already (steady.c) */
  /* While work is recorded; else NULL: */
  cn_tensor **there;      /* per value: what stands on the device for a tensor in host memory */
  const uint64_t *random; /* device memory that has seed and base when the work runs */
} cni_running;

/* Which part of a plan: what runs in host memory (rates, step counts) or on the device. */
typedef enum cni_side { CNI_BOTH_SIDES, CNI_HOST_SIDE, CNI_DEVICE_SIDE } cni_side;
static inline bool cni_on_side(const cn_graph *g, int value, cni_side side)
{
  return side == CNI_BOTH_SIDES || (g->values[value].device == CN_CPU) == (side == CNI_HOST_SIDE);
}

/* What stands for an input: one that is a state as well, which the run writes, is read from a copy. Owned; NULL with
 * the error set. */
cn_tensor *cni_own_input(const cni_running *r, cn_tensor *t);
/* Lets go of the tensors that each run has anew. */
void cni_forget_varying(cni_running *r);
/* The nodes of that part, in the plan's order. */
int cni_run_nodes(cni_running *r, cni_side side);
/* Runs those that follow from weights alone, if those have changed. */
int cni_settle(cni_running *r);
size_t cni_settled(void); /* for tests: how often that was, so far, in all graphs */
/* What states, and inputs that are written to, end up with goes there. */
int cni_write_back(cni_running *r, cni_side side);
/* Where the run's random numbers begin; the thread moves on. */
void cni_take_random(cni_running *r);

/* ---- recorded.c ---- */
/* May runs of this plan be recorded? Decided when it is made. */
bool cni_plan_recordable(const cni_plan *p, const cn_graph *g);
/* Runs what was recorded, which is done first where the context has done a run already. CN_REFUSED: run it node by
 * node; nothing has happened. */
int cni_run_recorded(cni_running *r, cn_tensor **outputs);
void cni_recorded_free(struct cni_recorded *w);
size_t cni_recorded_runs(void); /* for tests: so far, of all graphs */

#endif
