/* whole_graph.c: graphs that a device takes whole: finds the device's backend. See graph/whole.h.
 *
 * Place in the flow: graph/plan.c asks when a plan is made, graph/run.c launches. */
#include "graph/whole.h"

#include "registry.h"

static int compile(cn_device device, void **executable, const cn_whole_graph *graph)
{
  const cn_backend *b = cni_backend_at((device >> 8) - 1);
  if (!b || !b->graph_compile) return CN_REFUSED;
  return b->graph_compile((int)(device & 0xff), executable, graph);
}

static int launch(cn_device device, void *executable, const cn_graph_launch *run)
{
  return cni_backend_at((device >> 8) - 1)->graph_launch((int)(device & 0xff), executable, run);
}

static void drop(cn_device device, void *executable)
{
  cni_backend_at((device >> 8) - 1)->graph_free((int)(device & 0xff), executable);
}

const cni_whole_graphs cni_whole = {compile, launch, drop};
