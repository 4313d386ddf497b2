/* plugin.c: the table of the CUDA backend, and the plugin's one exported function.
 *
 * Place in the flow: the first thing libcairn calls after loading the plugin. Invariant: nothing of the
 * vendor is touched before someone asks for a device. */
#include <string.h>

#include "plugin.h"

const cn_host *cni_cuda_host;
bool cni_cuda_waits, cni_cuda_caches;

/* The tables of all files behind each other. */
enum { MOST_KERNELS = 256 };
static cn_kernel kernels[MOST_KERNELS];

static void join_tables(void)
{
#define TABLE(table) table,
  static const cn_kernel *const tables[] = {CNI_CUDA_TABLES(TABLE)};
  int n = 0;
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
    for (const cn_kernel *k = tables[i]; k->op && n < MOST_KERNELS - 1; k++) kernels[n++] = *k;
  kernels[n] = (cn_kernel){0};
}

static void shut_down(void)
{
  cni_cuda_code_exit();
  cni_cuda_device_exit();
}

CN_API const cn_backend *cn_plugin_init(const cn_host *host);

const cn_backend *cn_plugin_init(const cn_host *host)
{
  static const cn_backend backend = {
      .size = sizeof backend,
      .abi = CN_BACKEND_ABI,
      .can = CN_CAN_STRIDES | CN_CAN_INPLACE,
      .name = "cuda",
      .device_count = cni_cuda_device_count,
      .device_info = cni_cuda_device_info,
      .alloc = cni_cuda_memory_alloc,
      .free = cni_cuda_memory_free,
      .copy_in = cni_cuda_copy_in,
      .copy_out = cni_cuda_copy_out,
      .sync = cni_cuda_sync,
      .kernels = kernels,
      .kernel_size = sizeof(cn_kernel),
      .shutdown = shut_down,
      .stream = cni_cuda_stream,
      .host_alloc = cni_cuda_host_alloc,
      .host_free = cni_cuda_host_free,
      .stream_new = cni_cuda_stream_new,
      .stream_free = cni_cuda_stream_free,
      .stream_sync = cni_cuda_stream_sync,
      .stream_query = cni_cuda_stream_query,
      .event_new = cni_cuda_event_new,
      .event_free = cni_cuda_event_free,
      .event_record = cni_cuda_event_record,
      .event_wait = cni_cuda_event_wait,
      .event_query = cni_cuda_event_query,
      .event_sync = cni_cuda_event_sync,
      .event_elapsed = cni_cuda_event_elapsed,
      .memory_reserved = cni_cuda_memory_reserved,
      .memory_trim = cni_cuda_memory_trim,
      .record_begin = cni_cuda_record_begin,
      .rehearse = cni_cuda_rehearse,
      .record_end = cni_cuda_record_end,
      .record_run = cni_cuda_record_run,
      .record_free = cni_cuda_record_free,
      .record_hold = cni_cuda_record_hold,
      .code_find = cni_cuda_code_find,
      .code_launch = cni_cuda_code_launch,
      .updates = cni_cuda_updates,
      .memory_stats = cni_cuda_memory_stats,
      .memory_limit = cni_cuda_memory_limit,
      .host_wait = cni_cuda_host_wait,
      .memory_pieces = cni_cuda_memory_pieces,
      .pinned_stats = cni_cuda_pinned_stats,
      .memory_record = cni_cuda_memory_record,
      .memory_events = cni_cuda_memory_events,
  };
  if (host->abi != CN_BACKEND_ABI || host->size < sizeof(cn_host)) return NULL;
  cni_cuda_host = host;
  join_tables();
  const char *sync = host->env("CAIRN_SYNC"), *caching = host->env("CAIRN_CUDA_CACHING");
  cni_cuda_waits = sync && strcmp(sync, "0") != 0;
  cni_cuda_caches = !caching || strcmp(caching, "0") != 0;
  return &backend;
}
