/* cpu.c: the table of the CPU backend and the list of its kernel tables.
 *
 * Place in the flow: init.c registers it first, so that it is backend 0 (CN_CPU). Invariant: nothing here is
 * asynchronous: memory is ready when a kernel returns. */
#include "cpu.h"

#include <stdio.h>
#include <string.h>

#include "backends/common/registry.h"
#include "backends/cpu/pointwise/pointwise.h"
#include "base/alloc.h"
#include "base/os.h"
#include "isa.h"

static const cn_kernel pointwise_kernels[] = {
    {"pointwise", "vector loops", cni_cpu_pointwise},
    {NULL, NULL, NULL},
};

/* Every kernel table but the first, which the backend itself names: one line per file, any order as long as
 * each op has one kernel. A later table goes over an earlier one: its kernels are tried first. */
static const cn_kernel *const kernel_tables[] = {
    cni_cpu_create_kernels,
    cni_cpu_ctc_kernels,
    cni_cpu_random_kernels,
    cni_cpu_copy_kernels,
    cni_cpu_reduce_kernels,
    cni_cpu_batch_norm_kernels,
    cni_cpu_norm_kernels,
    cni_cpu_moments_kernels,
    cni_cpu_softmax_kernels,
    cni_cpu_sort_kernels,
    cni_cpu_scan_kernels,
    cni_cpu_argmax_kernels,
    cni_cpu_matmul_kernels,
    cni_cpu_linalg_kernels,
    cni_cpu_linalg_lu_kernels,
    cni_cpu_linalg_qr_kernels,
    cni_cpu_linalg_svd_kernels,
    cni_cpu_linalg_eigh_kernels,
    cni_cpu_linalg_exp_kernels,
    cni_cpu_distance_kernels,
    cni_cpu_fft_kernels,
    cni_cpu_attention_kernels,
    cni_cpu_recurrent_kernels,
    cni_cpu_join_kernels,
    cni_cpu_index_kernels,
    cni_cpu_scatter_kernels,
    cni_cpu_loss_kernels,
    cni_cpu_conv_kernels,
    cni_cpu_columns_kernels,
    cni_cpu_pool_kernels,
    cni_cpu_resample_kernels,
    cni_cpu_grid_kernels,
    cni_cpu_pad_kernels,
    cni_cpu_place_kernels,
    cni_cpu_bag_kernels,
    cni_cpu_draw_kernels,
    cni_cpu_update_kernels,
    cni_cpu_search_kernels,
    cni_cpu_log_scan_kernels,
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

static void *device_alloc(int index, size_t size)
{
  (void)index;
  return cni_alloc(size);
}

static void device_free(int index, void *memory, size_t size)
{
  (void)index;
  cni_free(memory, size);
}

/* Both directions: device memory is host memory. */
static int copy_memory(int index, void *to, const void *from, size_t size)
{
  (void)index;
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
      .abi = CN_BACKEND_ABI,
      .name = "cpu",
      .device_count = device_count,
      .device_info = device_info,
      .alloc = device_alloc,
      .free = device_free,
      .copy_in = copy_memory,
      .copy_out = copy_memory,
      .sync = sync_device,
      .kernels = pointwise_kernels,
      .host_memory = true,
  };
  return &backend;
}

int cni_cpu_add_kernels(void)
{
  for (size_t i = 0; i < sizeof kernel_tables / sizeof *kernel_tables; i++) {
    int status = cni_kernels_add(cni_cpu_backend(), kernel_tables[i]);
    if (status) return status;
  }
  return CN_OK;
}
