/* plan.h: a graph made ready to run at certain sizes. Three things: the graph is data; a plan is what follows from
 * it and the sizes alone (shapes, order, places in memory), never changes and may be run by several threads at once; a
 * context is what one run needs for itself: the memory between nodes and the tensors over it.
 *
 * Place in the flow: run.c asks for the plan of the inputs it got (plan.c), takes one of its contexts (context.c) and
 * runs the nodes in the plan's order. order.c decides on the order and which states are written in place,
 * passes/memplan.c places values. Invariant: two values whose lifetimes overlap never share memory. */
#ifndef CNI_GRAPH_PLAN_H
#define CNI_GRAPH_PLAN_H

#include <pthread.h>

#include "base/scratch.h"
#include "ir.h"
#include "ops/prepared.h"
#include "tensor/tensor.h"

enum { CNI_FEW_INPUTS = 64 }; /* of a node: more need memory */

/* One value at these sizes. */
typedef struct cni_planned {
  cn_tensor *handle; /* owned: type, shape and strides; scalars and states: the tensor itself; others have no memory */
  int root;          /* the value whose memory this one shows; itself unless a view, or written over a state */
  int64_t base;      /* of a view: elements from the first one of root's memory to its own */
  size_t size;       /* in the block; 0: none (inputs, states, scalars, views, most outputs) */
  int first, last;   /* places in the order between which it is needed */
  bool is_output;    /* gets fresh memory each run, ... */
  bool is_lent;      /* ... or lies in the block, for as long as someone has it: the gradient of a leaf */
  bool is_final;     /* a state or an input holds it after a run */
  bool varies;       /* its tensor is another in each run: inputs, outputs, views of those */
} cni_planned;

/* A piece of the block. */
typedef struct cni_gap {
  size_t offset, size;
} cni_gap;

/* Where everything lies in the block. Never changes; counted, because a plan gets another one when it is known what
 * kernels take while they run, and contexts may still have the old one. */
typedef struct cni_layout {
  _Atomic int32_t refs;
  _Atomic bool settled; /* what kernels take is known, and has room in it */
  size_t total;         /* bytes of the block */
  size_t least;         /* ... that no other layout could do without: what lives at the fullest moment */
  size_t *offsets;      /* per value */
  size_t nvalues;
  cni_gap *gaps;        /* per place in the order: the largest piece free there; empty: not on the CPU */
  size_t places;
} cni_layout;

struct cni_context;
struct cni_plan;

/* Of a node that holds graphs: their plans. */
typedef struct cni_nested {
  int node;
  struct cni_plan *subs[2];
} cni_nested;

typedef struct cni_plan {
  struct cni_plan *next; /* plans of other sizes, most recent first */
  const cn_graph *graph; /* whose nodes it runs: the graph, or its parts */
  cn_graph *parts;       /* owned: the graph lowered to these sizes (lower.c); NULL: it has no calls of composite ops */
  cni_planned *values;
  size_t nvalues;
  cn_value **args;    /* per node: its arguments, with the sizes filled in */
  size_t nnodes;
  int *order;         /* nodes as they run: those that can fail first, then those that write states */
  size_t commit;      /* ... which begin at this place: from there on a run goes through */
  cn_spec *specs;     /* all nodes' results, in order */
  size_t *first_spec; /* per node */
  size_t nspecs;
  int32_t *compute;   /* per node: cn_call.compute */
  uint64_t *draws;    /* ndraws + 1: where each draw begins behind the run's first number, and all of them end */
  size_t ndraws;
  cn_device device;   /* of the block; values elsewhere have memory of their own */
  size_t unplanned;   /* bytes of all values, without sharing */
  bool by_offset;     /* memory is looked at as another type: where in it an input begins is part of the plan */
  void *executable;   /* of the device, which takes the graph whole (whole.c); NULL: nodes run one by one */
  bool mixed;         /* some of its tensors are in host memory, where nodes compute them */
  int *wanted;        /* ... values that its runs give */
  size_t nwanted, wanted_cap;
  bool weighted;      /* some node reads a weight */
  uint32_t *stays;    /* per node: bit i: input i is a weight, which no run of this writes, in host memory */
  cni_prepared_store *store; /* what kernels made of them; NULL: nothing is kept */
  bool *steady;       /* per node: it follows from weights alone, on a device (steady.c); NULL: none does */
  bool recordable;    /* the device may record a run and repeat it (recorded.c) */
  _Atomic bool apart; /* someone keeps gradients for longer than until the next run: they get memory of their own */
  bool writes;        /* a run changes states or leaves: such runs follow one another */
  cni_nested *nested; /* in the order of nodes */
  size_t nnested;
  /* What every run changes lies apart from what it only reads, so that callers on several cores do not take the other
   * from each other. */
  _Alignas(64) _Atomic int32_t refs;
  pthread_mutex_t lock; /* of the contexts, the layout and wants */
  cni_layout *layout;   /* for contexts from now on */
  size_t *wants;        /* per place in the order: the most that kernels of any context took there (work.c) */
  pthread_mutex_t turn; /* held by a run that writes */
  struct cni_context *idle;
} cni_plan;

/* The plan for these inputs: found among the graph's, or made and put first. A reference for the caller; NULL with the
 * error set. */
cni_plan *cni_plan_for(cn_graph *g, cn_tensor *const *inputs);
void cni_plan_release(cni_plan *plan);
/* Of the graph that a node holds, for inputs as they were traced: one for all plans of the graph around it, whatever
 * the sizes there. As above. */
cni_plan *cni_plan_sub(cn_graph *g);

/* Do the states still have the types and shapes that they had? */
bool cni_states_hold(const cn_graph *g);
/* Have the leaves the gradients, or none, that they had when the graph was traced? */
bool cni_leaves_hold(const cn_graph *g);
/* cn_graph_run, with random numbers from `at` {seed, offset} on, which the thread's do not move for; NULL: the
 * thread's. */
int cni_graph_run_at(cn_tensor **outputs, cn_graph *g, cn_tensor *const *inputs, const uint64_t *at);

/* At the sizes of one run (sizes: of all expressions), for plans and replays: a node's arguments, CN_MAX_ARGS of them
 * in one owned block; a number's tensor, owned; where each draw begins behind the first number, and all end. */
cn_value *cni_args_at(const cn_graph *g, const cni_gnode *n, const int64_t *sizes); /* NULL with the error set */
void cni_args_at_free(cn_value *args);
cn_tensor *cni_scalar_at(const cn_graph *g, const cni_gvalue *v, const int64_t *sizes);
int cni_draw_offsets(uint64_t *draws, const cn_graph *g, const int64_t *sizes);
int cni_leaves_check(const cn_graph *g); /* cni_leaves_hold, or the error */
bool cni_in_order(const cn_desc *d, const int64_t *strides); /* run.c: does it lie in memory with these strides? */

/* ---- replay.c ---- */
/* cn_graph_replay_with, for the library: */
typedef struct cni_replay {
  cn_replay_opts opts;
  const uint64_t *at;        /* random numbers begin there, and the thread's do not move; NULL: the thread's */
  const uint64_t *versions;  /* per state: of its memory, or the values are not those that are meant; NULL: any */
  cn_tensor *const *states;  /* per state: what is read instead of it; NULL, or an entry that is: itself */
} cni_replay;
int cni_graph_replay(cn_tensor **outputs, const cn_graph *g, cn_tensor *const *inputs, const cni_replay *how);

/* order.c: fills p->order, and lets values that states end up with be computed where the states are. */
int cni_plan_order(cni_plan *p, const cn_graph *g);
/* Per node: is it needed by states alone, and cannot fail? It then runs behind all others. 0 or CN_ERR_MEMORY. */
int cni_find_tail(bool *tail, const cn_graph *g);

/* pieces.c: lets what is joined be made where it belongs. 0 or CN_ERR_MEMORY. */
int cni_plan_pieces(cni_plan *p, const cn_graph *g);

/* ---- steady.c ---- */
int cni_plan_steady(cni_plan *p, const cn_graph *g); /* fills p->steady: 0 or CN_ERR_MEMORY */
/* Is this value that the node reads made by a steady one, and the node none? It then stays from run to run. */
bool cni_stays(const cni_plan *p, const cn_graph *g, int value, int node);
void cni_steady_lifetimes(cni_plan *p, const cn_graph *g); /* ... in its place in the block */
/* Another number whenever a weight was written to; 0: others may write to one unseen. */
uint64_t cni_steady_stamp(const cni_plan *p, const cn_graph *g);

/* ---- passes/memplan.c ---- */
/* A layout for values and, per place in the order, for the bytes that its kernel wants (NULL: not known); places: 0
 * where kernels take nothing from the block. Owned; NULL with the error set. */
cni_layout *cni_memplan(const cni_planned *values, size_t n, const size_t *wants, size_t places);
void cni_layout_release(cni_layout *l);

/* ---- context.c ---- */
/* A node's call, made ready for all runs of a context (ready.c). */
typedef struct cni_ready {
  cn_call call;     /* but for random numbers */
  cn_value *args;   /* ... its arguments, inputs and results, which lie behind all of the context's calls */
  cn_tensor **in, **out;
  cni_keep keep;
  bool filled;      /* in, out and args have their tensors */
  bool varies;      /* some are others in each run */
} cni_ready;

/* What one run has for itself. now: per value its tensor in this run; those that vary are set, and released, by the
 * run. */
typedef struct cni_context {
  struct cni_context *next;
  cni_layout *layout; /* of the block, a reference; NULL: there was no memory for a new one */
  cni_storage *block; /* owned; NULL: no memory needed */
  int32_t block_refs; /* of the context itself; more: gradients that lie in it are still there */
  cn_tensor **now;
  size_t nvalues;
  const cni_storage **held; /* per state: the memory that it had when the context was made */
  size_t nstates;
  void *stream;       /* of the device: all its runs are there, one behind the other */
  uint64_t runs;      /* that it has done */
  uint64_t stamp;     /* of the weights that what steady nodes left here was made of; 0: nothing is here */
  struct cni_recorded *recorded; /* owned; NULL: none yet */
  cni_prepared_slot *prepared; /* per node; NULL: nothing is kept */
  cni_ready *ready;   /* per node; NULL: the device takes the graph whole */
  size_t ready_bytes; /* of all that is there */
  struct cni_nested_context *nested; /* one for each of the plan's nodes that hold graphs */
  size_t *wants;      /* per place in the order: bytes that the kernel there was seen to take while it ran (work.c) */
  bool is_short;      /* ... and the piece free there was too small for one */
} cni_context;

/* Runs of a node's graphs use the same memory one after the other; carried values have two places each. */
typedef struct cni_nested_context {
  cni_context *subs[2];
  cn_tensor **carried; /* ncarried for one step, as many for the next */
  int ncarried;
} cni_nested_context;

cni_context *cni_context_take(cni_plan *p, const cn_graph *g); /* an idle one, or a new one; NULL with the error set */
void cni_context_give(cni_plan *p, cni_context *c);
/* Does someone hold what an earlier run made in this context's memory? It then cannot run, and another takes its
 * place: NULL with the error set, when c is gone all the same. */
bool cni_context_is_lent(const cni_context *c);
cni_context *cni_context_renew(cni_plan *p, const cn_graph *g, cni_context *c);
/* Memory for it by the plan's layout, whatever it had, which nobody may hold. 0, or the error, and the context has
 * none. */
int cni_context_move(cni_plan *p, const cn_graph *g, cni_context *c);
/* The memory of a value that is lent, for this run; owned. NULL with the error set. */
cn_tensor *cni_context_lend(const cni_context *c, const cni_plan *p, int value);

/* ---- ready.c ---- */
int cni_ready_new(cni_context *c, const cni_plan *p, const cn_graph *g); /* 0 or CN_ERR_MEMORY */
void cni_ready_empty(cni_context *c, const cni_plan *p);                 /* the tensors are to be filled in again */
/* The tensors of this run; there: see cni_running, or NULL. */
void cni_ready_fill(cni_ready *d, const cni_gnode *n, cn_tensor *const *now, cn_tensor *const *there);

/* ---- work.c ---- */
/* For the node there. */
static inline cni_scratch cni_work_lend(const cni_context *c, size_t place)
{
  if (!c->block || !c->layout->places) return (cni_scratch){NULL};
  const cni_gap *gap = &c->layout->gaps[place];
  return (cni_scratch){.base = (char *)c->block->data + gap->offset, .size = gap->size};
}
void cni_work_note(cni_context *c, size_t place, size_t most); /* ... which took so much */
/* Behind a run, and before one: a place in the block for what did not fit. */
void cni_work_fit(cni_plan *p, const cn_graph *g, cni_context *c);

/* ---- run.c, control_run.c ---- */
/* A graph that a node holds, ready to run. */
typedef struct cni_sub {
  const cn_graph *g; /* the plan's */
  cni_plan *plan;
  cni_context *context;
} cni_sub;
/* Runs it once: results are written to `out`, of their types and shapes. Random numbers begin at `at`:
 * seed, offset. */
int cni_run_sub(const cni_sub *sub, cn_tensor *const *in, cn_tensor *const *out, const uint64_t *at);
/* Runs a control node. args: with sizes filled in; at: where its draw begins. */
int cni_run_control(const cni_gnode *n, const cn_value *args, const cni_nested *plans, cni_nested_context *context,
                    cn_tensor *const *in, cn_tensor *const *out, const uint64_t *at);
void cni_contexts_free(cni_context *list, const cni_plan *p);

#endif
