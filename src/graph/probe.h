/* probe.h: a function traced at many sizes, for cn_trace_dynamic and cn_trace_sizes (dynamic.c): traces without data,
 * their numbers side by side, and the range of sizes in which they are the same graph.
 *
 * Place in the flow: free_dims.c says which sizes vary, probe.c traces at the sizes that dynamic.c wants tried, solve.c
 * reads the numbers. Invariant: all probes have the nodes of the first one. */
#ifndef CNI_GRAPH_PROBE_H
#define CNI_GRAPH_PROBE_H

#include "capture.h"
#include "compare.h"
#include "solve.h"

typedef struct cni_prober {
  const char *who; /* for messages */
  /* One trace of these inputs; counted: see capture.h. Owned. Inputs that it adds behind these have sizes that follow
   * from the others. */
  cn_graph *(*trace)(const struct cni_prober *p, cn_tensor *const *inputs, cni_counted *counted);
  cn_graph_fn fn; /* what is traced: for `trace` */
  size_t noutputs;
  cn_tensor *const *inputs; /* of which the descriptions count */
  size_t ninputs;
  void *payload;
  cn_graph *frame; /* holds the sizes with their ranges, and the expressions of `dims` */
  size_t ncounted; /* the last so many sizes are of results whose size depends on data */
  int32_t *dims;   /* ninputs rows of CN_MAX_DIMS: as cni_gvalue.dims */
  int64_t *least;  /* per size: the smallest one that the caller showed: a range that is found holds it */
  bool *given;     /* per size: its min is the caller's (2 * i), its max is (2 * i + 1) */
  cn_graph *g;     /* the first trace */
  bool differed;   /* the last one failed because it had other nodes */
  cni_shortcuts *shortcuts;
  cni_place *places;
  size_t nplaces;
  int64_t *sizes;  /* nprobes rows */
  cni_count **numbers;
  size_t nprobes;
} cni_prober;

cn_graph *cni_trace_one(const cni_prober *p, cn_tensor *const *inputs, cni_counted *counted); /* one of several */
int cni_prober_begin(cni_prober *p); /* after the fields up to `dims` are set; 0 or CN_ERR_MEMORY */
void cni_prober_restart(cni_prober *p); /* forgets all probes */
void cni_prober_free(cni_prober *p); /* with what begin made, and g, unless it was taken */

/* Traces at these sizes and keeps the numbers. 0, or the error: the function's, or that its graph is another one. */
int cni_probe(cni_prober *p, const int64_t *sizes);
/* The same where failing is a result: 1 done, 0 not (the error is cleared), negative: out of memory or room. */
int cni_probe_try(cni_prober *p, const int64_t *sizes);
bool cni_probed(const cni_prober *p, const int64_t *sizes);
void cni_probes_drop(cni_prober *p); /* those whose sizes are out of range; not the first */

/* The first probes, at sizes that tell expressions apart, then the range: what the caller gave is tried at its ends;
 * the rest is found by trying. */
int cni_probe_base(cni_prober *p);
int cni_probe_range(cni_prober *p);

/* dynamic.c: all of it: the probes, their numbers solved and tried, and the graph, owned. examples: rows of sizes at
 * which it must hold, too. NULL with the error set. */
cn_graph *cni_trace_probing(cni_prober *p, const int64_t *examples, size_t nexamples);
/* free_dims.c: all of it for a trace of which nothing varies but so many sizes that nodes define. Owned. */
cn_graph *cni_trace_counts(cni_prober *p, size_t ncounted);

#endif
