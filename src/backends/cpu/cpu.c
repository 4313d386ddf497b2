/* cpu.c: the table of the CPU backend and the list of its kernel tables.
 *
 * Place in the flow: init.c registers it first, so that it is backend 0 (CN_CPU). Invariant: nothing here is
 * asynchronous: memory is ready when a kernel returns. */
#include "cpu.h"

#include <stdio.h>
#include <string.h>

#include "backends/common/dispatch.h"
#include "backends/cpu/pointwise/pointwise.h"
#include "base/alloc.h"
#include "base/os.h"
#include "isa.h"

static const cn_kernel pointwise_kernels[] = {
    {"pointwise", "vector loops", cni_cpu_pointwise},
    {NULL, NULL, NULL},
};

/* Every kernel table but the first, which the backend itself names. */
static const cn_kernel *const kernel_tables[] = {
#define KERNELS(name) cni_cpu_##name##_kernels,
#include "kernels.def"
#undef KERNELS
};

static int device_count(void) { return 1; }

static int device_info(int index, cn_device_info *info)
{
  (void)index;
  memset(info, 0, sizeof *info);
  cni_os_cpu_name(info->name, sizeof info->name);
  snprintf(info->arch, sizeof info->arch, "%s", cni_cpu_isa_name(cni_cpu_isa()));
  info->units = cni_os_cores();
  info->threads = cn_num_threads();
  info->memory_total = cni_os_memory_total();
  info->memory_free = cni_os_memory_free();
  for (int level = 1; level <= 3; level++) info->cache[level - 1] = cni_os_cache_size(level);
  return CN_OK;
}

static void *device_alloc(int index, size_t size, void *stream)
{
  (void)index, (void)stream;
  return cni_alloc(size);
}

static void device_free(int index, void *memory, size_t size, void *stream)
{
  (void)index, (void)stream;
  cni_free(memory, size);
}

/* Both directions: device memory is host memory. */
static int copy_memory(int index, void *to, const void *from, size_t size, void *stream)
{
  (void)index, (void)stream;
  if (size) memcpy(to, from, size);
  return CN_OK;
}

static int sync_device(int index)
{
  (void)index;
  return CN_OK;
}

const cn_backend *cni_cpu_backend(void)
{
  static const cn_backend backend = {
      .size = sizeof backend,
      .abi = CN_BACKEND_ABI,
      .can = CN_CAN_STRIDES | CN_CAN_INPLACE,
      .name = "cpu",
      .device_count = device_count,
      .device_info = device_info,
      .alloc = device_alloc,
      .free = device_free,
      .copy_in = copy_memory,
      .copy_out = copy_memory,
      .sync = sync_device,
      .kernels = pointwise_kernels,
      .kernel_size = sizeof(cn_kernel),
      .host_memory = true,
  };
  return &backend;
}

int cni_cpu_add_kernels(void)
{
  for (size_t i = 0; i < sizeof kernel_tables / sizeof *kernel_tables; i++) {
    int status = cni_kernels_add(0, "cpu", kernel_tables[i], sizeof(cn_kernel));
    if (status) return status;
  }
  return CN_OK;
}
