/* plugin.c: the table of the CUDA backend, and the plugin's one exported function.
 *
 * Place in the flow: the first thing libcairn calls after loading the plugin. Invariant: nothing of the
 * vendor is touched before someone asks for a device. */
#include <string.h>

#include "plugin.h"

const cn_host *cni_cuda_host;
bool cni_cuda_waits;

static const cn_kernel kernels[] = {
    {"pointwise", "nvrtc", cni_cuda_pointwise},
    {"copy", "nvrtc", cni_cuda_copy},
    {"clone", "nvrtc", cni_cuda_copy},
    {"contiguous_copy", "nvrtc", cni_cuda_copy},
    {"channels_last", "nvrtc", cni_cuda_copy},
    {"cast", "nvrtc", cni_cuda_copy},
    {"fill", "nvrtc", cni_cuda_copy},
    {"full", "nvrtc", cni_cuda_full},
    {"full_like", "nvrtc", cni_cuda_full},
    {"empty", "none", cni_cuda_empty},
    {"empty_like", "none", cni_cuda_empty},
    {"sum", "nvrtc", cni_cuda_sum},
    {"mean", "nvrtc", cni_cuda_mean},
    {"mm", "cublaslt", cni_cuda_mm},
    {"bmm", "cublaslt", cni_cuda_mm},
    {"bmm", "host", cni_cuda_on_host},
    {"linear", "cublaslt", cni_cuda_linear},
    {"addmm", "decomposition", cni_cuda_left},
    {"baddbmm", "decomposition", cni_cuda_left},
    {"*", "host", cni_cuda_on_host},
    {NULL, NULL, NULL},
};

static void shut_down(void)
{
  cni_cuda_code_exit();
  cni_cuda_device_exit();
}

CN_API const cn_backend *cn_plugin_init(const cn_host *host);

const cn_backend *cn_plugin_init(const cn_host *host)
{
  static const cn_backend backend = {
      .abi = CN_BACKEND_ABI,
      .name = "cuda",
      .device_count = cni_cuda_device_count,
      .device_info = cni_cuda_device_info,
      .alloc = cni_cuda_alloc,
      .free = cni_cuda_free,
      .copy_in = cni_cuda_copy_in,
      .copy_out = cni_cuda_copy_out,
      .sync = cni_cuda_sync,
      .kernels = kernels,
      .shutdown = shut_down,
      .stream = cni_cuda_stream,
      .host_alloc = cni_cuda_host_alloc,
      .host_free = cni_cuda_host_free,
  };
  if (host->abi != CN_BACKEND_ABI || host->size < sizeof(cn_host)) return NULL;
  cni_cuda_host = host;
  const char *sync = host->env("CAIRN_SYNC");
  cni_cuda_waits = sync && strcmp(sync, "0") != 0;
  return &backend;
}
