/* meta.c: a device whose tensors have shapes and types but no data: ops on it infer what they would return, and compute
 * nothing. For models that are described before there is memory for them, or whose parameters come from elsewhere.
 *
 * Place in the flow: a backend like any plugin, but compiled in: init.c registers it. Invariant: no byte of its memory
 * is ever read or written, so all tensors may have the same. */
#include "meta.h"

static const cn_host *host;
static _Alignas(64) char nowhere[64];

static int device_count(void) { return 1; }

static int device_info(int index, cn_device_info *info)
{
  (void)index;
  *info = (cn_device_info){.name = "shapes and types without data"};
  return CN_OK;
}

static void *device_alloc(int index, size_t size, void *stream)
{
  (void)index, (void)size, (void)stream;
  return nowhere;
}
static void device_free(int index, void *memory, size_t size, void *stream)
{
  (void)index, (void)memory, (void)size, (void)stream;
}

static int copy_in(int index, void *to, const void *from, size_t size, void *stream)
{
  (void)index, (void)to, (void)from, (void)size, (void)stream;
  return CN_OK;
}

static int copy_out(int index, void *to, const void *from, size_t size, void *stream)
{
  (void)index, (void)to, (void)from, (void)stream;
  return size ? host->fail(CN_ERR_UNSUPPORTED, "Cannot copy out of meta tensor; no data!") : CN_OK;
}

static int sync_device(int index) { return (void)index, CN_OK; }

static int nothing(cn_call *c)
{
  for (int i = 0; i < c->nout; i++)
    if (!c->out[i]) {
      c->refusal = "the size of its result depends on values, which tensors on meta do not have";
      return CN_REFUSED;
    }
  return CN_OK;
}

const cn_backend *cni_meta_backend(const cn_host *services)
{
  static const cn_kernel kernels[] = {
      {"pointwise", "nothing", nothing}, {"*", "nothing", nothing}, {NULL, NULL, NULL}};
  static const cn_backend backend = {
      .size = sizeof backend,
      .abi = CN_BACKEND_ABI,
      .can = CN_CAN_STRIDES | CN_CAN_INPLACE,
      .name = "meta",
      .device_count = device_count,
      .device_info = device_info,
      .alloc = device_alloc,
      .free = device_free,
      .copy_in = copy_in,
      .copy_out = copy_out,
      .sync = sync_device,
      .kernels = kernels,
      .kernel_size = sizeof(cn_kernel),
  };
  host = services;
  return &backend;
}
