/* plugin.c: the table of the PJRT backend, and the plugin's one exported function.
 *
 * Place in the flow: the first thing libcairn calls after loading the plugin. Invariant: no PJRT plugin is opened
 * before someone asks for a device. */
#include "plugin.h"

#include <string.h>

const cn_host *cni_pjrt_host;
bool cni_pjrt_waits;

/* copy takes any strides; all else is given row-major inputs. */
static const cn_kernel kernels[] = {
    {.op = "copy", .name = "program", .run = cni_pjrt_run_copy},
    {.op = "pointwise", .name = "program", .run = cni_pjrt_run_any, .can = cni_pjrt_can_any},
    {.op = "pointwise", .name = "host", .run = cni_pjrt_on_host, .can = cni_pjrt_can_host},
    {.op = "*", .name = "program", .run = cni_pjrt_run_any, .can = cni_pjrt_can_any},
    {.op = "*", .name = "host", .run = cni_pjrt_on_host, .can = cni_pjrt_can_host},
    {.op = NULL},
};

static void shut_down(void)
{
  cni_pjrt_pending_exit();
  cni_pjrt_memory_exit();
  cni_pjrt_code_exit();
  cni_pjrt_mesh_exit();
  cni_pjrt_close();
}

CN_API const cn_backend *cn_plugin_init(const cn_host *services);

const cn_backend *cn_plugin_init(const cn_host *services)
{
  static const cn_backend backend = {
      .size = sizeof backend,
      .abi = CN_BACKEND_ABI,
      .can = CN_CAN_HOST_STATES | CN_CAN_CONTROL,
      .name = "pjrt",
      .device_count = cni_pjrt_device_count,
      .device_info = cni_pjrt_device_info,
      .alloc = cni_pjrt_alloc,
      .free = cni_pjrt_free,
      .copy_in = cni_pjrt_copy_in,
      .copy_out = cni_pjrt_copy_out,
      .sync = cni_pjrt_sync,
      .kernels = kernels,
      .kernel_size = sizeof(cn_kernel),
      .shutdown = shut_down,
      .graph_compile = cni_pjrt_graph_compile,
      .graph_launch = cni_pjrt_graph_launch,
      .graph_free = cni_pjrt_graph_free,
      .updates = cni_pjrt_updates,
      .absent = cni_pjrt_absent,
      .answers = cni_pjrt_answers,
      .mesh_make = cni_pjrt_mesh_make,
      .mesh_of = cni_pjrt_mesh_of,
      .mesh_partition = cni_pjrt_mesh_partition,
  };
  if (services->abi != CN_BACKEND_ABI || services->size < sizeof(cn_host)) return NULL;
  cni_pjrt_host = services;
  const char *sync = services->env("CAIRN_SYNC");
  cni_pjrt_waits = sync && strcmp(sync, "0") != 0;
  return &backend;
}
