/* whole_graph.c: graphs that a device takes whole, or records: finds the device's backend. See graph/whole.h.
 *
 * Place in the flow: graph/plan.c asks when a plan is made, graph/run.c launches. */
#include "graph/whole.h"

#include "recording.h"
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

static bool records(cn_device device)
{
  const cn_backend *b = cni_backend_at((device >> 8) - 1);
  return b && b->record_begin;
}

static int record_begin(cn_device device)
{
  return cni_backend_at((device >> 8) - 1)->record_begin((int)(device & 0xff));
}

static int record_end(cn_device device, void **recording)
{
  return cni_backend_at((device >> 8) - 1)->record_end((int)(device & 0xff), recording);
}

static int record_run(cn_device device, void *recording, const cn_record_run *run)
{
  return cni_backend_at((device >> 8) - 1)->record_run((int)(device & 0xff), recording, run);
}

static void record_free(cn_device device, void *recording)
{
  cni_backend_at((device >> 8) - 1)->record_free((int)(device & 0xff), recording);
}

static bool by_hand(void) { return cni_recording_at_work() != NULL; }

static int rehearse(cn_device device)
{
  const cn_backend *b = cni_backend_at((device >> 8) - 1);
  return b->rehearse ? b->rehearse((int)(device & 0xff)) : CN_REFUSED;
}

const cni_whole_graphs cni_whole = {compile,    launch,     drop,        records, record_begin,
                                    record_end, record_run, record_free, by_hand, rehearse};
