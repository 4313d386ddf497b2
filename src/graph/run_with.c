/* run_with.c: a graph's run within limits, and in a stream.
 *
 * Place in the flow: cn_graph_run_with -> the thread's limits and stream for the time of the run -> cn_graph_run, whose
 * contexts are of the stream in use and whose loops look at the limits (run.c, control_run.c). Invariant: the thread
 * leaves with the limits and streams that it came with. */
#include <cairn/device.h>
#include <string.h>

#include "base/limits.h"
#include "ir.h"

static bool is_on(const cn_graph *g, cn_device device)
{
  for (size_t i = 0; i < g->nvalues; i++)
    if (g->values[i].kind != CNI_VALUE_SCALAR && g->values[i].device == device) return true;
  return false;
}

static int run_in_stream(cn_tensor **outputs, cn_graph *g, cn_tensor *const *inputs, cn_stream *stream)
{
  char name[64];
  if (!stream) return cn_graph_run(outputs, g, inputs);
  cn_device device = cn_stream_device(stream);
  if (g && !is_on(g, device))
    return cni_fail(CN_ERR_DEVICE, "graph_run: the stream is of %s, where the graph has nothing",
                    cn_device_name(name, sizeof name, device));
  cn_stream *before = cn_stream_keep(cn_stream_current(device));
  int status = cn_stream_use(device, stream);
  if (!status) {
    status = cn_graph_run(outputs, g, inputs);
    cn_stream_use(device, before); /* cannot fail: its place is there */
  }
  cn_stream_release(before);
  return status;
}

int cn_graph_run_with(cn_tensor **outputs, cn_graph *g, cn_tensor *const *inputs, const cn_run_opts *opts)
{
  cn_run_opts o = {0};
  cn_limits limits;
  if (cn_err()) return cn_err();
  if (opts) memcpy(&o, opts, opts->size < sizeof o ? opts->size : sizeof o);
  cn_limits_opts some = {sizeof some, NULL, o.timeout, o.threads, o.cancelled, o.payload};
  int status = cni_limits_push(&limits, &some);
  if (status) return status;
  status = run_in_stream(outputs, g, inputs, o.stream);
  cni_limits_pop(&limits);
  return status;
}
