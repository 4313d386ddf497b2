/* whole.h: graphs that a device takes whole, instead of node by node (cn_backend.graph_compile).
 *
 * Place in the flow: plan.c asks whole.c when it makes a plan; run.c launches. Invariant: a run of a whole graph gives
 * what its nodes one by one give. */
#ifndef CNI_GRAPH_WHOLE_H
#define CNI_GRAPH_WHOLE_H

#include <cairn/ext/backend.h>

#include "plan.h"

/* Filled by backends/common, so that graph/ knows no backend. compile: CN_REFUSED where the device takes none. */
typedef struct cni_whole_graphs {
  int (*compile)(cn_device device, void **executable, const cn_whole_graph *graph);
  int (*launch)(cn_device device, void *executable, const cn_graph_launch *run);
  void (*free)(cn_device device, void *executable);
  /* Recordings (recorded.c): as in cn_backend. records: has the device any? */
  bool (*records)(cn_device device);
  int (*record_begin)(cn_device device);
  int (*record_end)(cn_device device, void **recording);
  int (*record_run)(cn_device device, void *recording, const cn_record_run *run);
  void (*record_free)(cn_device device, void *recording);
  bool (*by_hand)(void); /* does this thread record by itself (cairn/recording.h)? Then graphs are not run */
  int (*rehearse)(cn_device device); /* CN_REFUSED where the device has no use for it */
} cni_whole_graphs;
extern const cni_whole_graphs cni_whole;

bool cni_may_be_whole(const cn_graph *g); /* is there a device that may be asked? */
/* Tries to have the device make an executable of the plan's graph: p->executable is set, or stays NULL. 0 or an
 * error. */
int cni_plan_whole(cni_plan *p, const cn_graph *g);
/* One run: now has the inputs, and memory for the wanted values. */
int cni_whole_launch(const cni_plan *p, const cn_graph *g, cn_tensor *const *now, uint64_t seed, uint64_t offset);

#endif
