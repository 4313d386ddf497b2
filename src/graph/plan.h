/* plan.h: a graph made ready to run at certain sizes: every result's shape, strides and place in one block of memory.
 *
 * Place in the flow: run.c asks for the plan of the inputs it got; passes/memplan.c places values. Invariant: two
 * values whose lifetimes overlap never share memory. */
#ifndef CNI_GRAPH_PLAN_H
#define CNI_GRAPH_PLAN_H

#include "ir.h"
#include "tensor/tensor.h"

/* One value at these sizes. */
typedef struct cni_planned {
  cn_tensor *handle; /* owned: shape and strides; for placed values over the plan's block */
  int root;          /* the value whose memory this one shows; itself unless a view */
  size_t offset, size; /* place in the block; size 0: none (inputs, states, scalars, views, outputs) */
  int first, last;   /* nodes between which it is needed */
  bool is_output;    /* gets fresh memory each run */
} cni_planned;

typedef struct cni_plan {
  struct cni_plan *next; /* plans of other sizes, most recent first */
  cni_planned *values;
  size_t nvalues;
  cn_value **args;    /* per node: its arguments, with the sizes filled in */
  size_t nnodes;
  cn_spec *specs;     /* all nodes' results, in order */
  size_t *first_spec; /* per node */
  size_t nspecs;
  int32_t *compute;   /* per node: cn_call.compute */
  uint64_t *draws;    /* ndraws + 1: where each draw begins behind the run's first number, and all of them end */
  size_t ndraws;
  cni_storage *block; /* owned; NULL: no memory needed */
  size_t planned, unplanned;
} cni_plan;

/* The plan for these inputs: found among the graph's, or made and put first. NULL with the error set. */
cni_plan *cni_plan_for(cn_graph *g, cn_tensor *const *inputs);

/* passes/memplan.c: gives every value that needs memory its offset; returns the block's size (0 with the error set
 * when there is no memory to plan with). */
size_t cni_memplan(cni_planned *values, size_t n);

#endif
