/* device.c: the devices: counting them, their properties, making one ready, and waiting for its work.
 *
 * Place in the flow: every entry of the plugin begins with cni_cuda_use. Invariants: a device is made ready
 * once, under the lock; after that its context, own stream and properties do not change. The driver does not work in
 * a child of a process that had started it: there nothing of it is called, and no lock is taken. */
#include <stdio.h>
#include <string.h>

#include "plugin.h"

static cni_cuda_device devices[CNI_CUDA_DEVICES];
static int count;
static pthread_once_t count_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool forked; /* from a process that had started the driver */
static void mark_forked(void)
{
  forked = true;
  cni_cuda_forget_waiting();
}

static void count_devices(void)
{
  const cni_cuda_driver_table *cu = cni_cuda_driver();
  int n = 0;
  if (!cu || cu->cuInit(0) != CUDA_SUCCESS || cu->cuDeviceGetCount(&n) != CUDA_SUCCESS) return;
  count = n < CNI_CUDA_DEVICES ? n : CNI_CUDA_DEVICES;
  pthread_atfork(NULL, NULL, mark_forked);
}

int cni_cuda_device_count(void)
{
  pthread_once(&count_once, count_devices);
  return count;
}

int cni_cuda_check(CUresult result, const char *what)
{
  const char *text = NULL;
  if (result == CUDA_SUCCESS) return CN_OK;
  cni_cuda_driver()->cuGetErrorString(result, &text);
  return cni_cuda_host->fail(result == CUDA_ERROR_OUT_OF_MEMORY ? CN_ERR_MEMORY : CN_ERR_DEVICE,
                             "cuda: %s: %s", what, text ? text : "unknown error");
}

static int attribute(const cni_cuda_device *d, CUdevice_attribute which)
{
  int value = 0;
  cni_cuda_driver()->cuDeviceGetAttribute(&value, which, d->id);
  return value;
}

static int make_ready(cni_cuda_device *d, int index)
{
  const cni_cuda_driver_table *cu = cni_cuda_driver();
  void *fault = NULL;
  d->index = index;
  int status = cni_cuda_check(cu->cuDeviceGet(&d->id, index), "finding the device");
  if (!status)
    status = cni_cuda_check(cu->cuDevicePrimaryCtxRetain(&d->context, d->id), "opening the device");
  if (!status) status = cni_cuda_check(cu->cuCtxSetCurrent(d->context), "using the device");
  if (!status)
    status = cni_cuda_check(cu->cuStreamCreate(&d->own.stream, CU_STREAM_NON_BLOCKING), "making a stream");
  if (!status)
    status =
        cni_cuda_check(cu->cuMemHostAlloc(&fault, 64, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
                       "host memory for faults");
  if (status) return status;
  d->units = attribute(d, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  d->major = attribute(d, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  d->minor = attribute(d, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  d->clusters = d->major >= 9 && cu->cuLaunchKernelEx;
  d->most_shared = attribute(d, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  d->fault = fault; /* with unified addresses the device knows it by the same pointer */
  memset(d->fault, 0, sizeof *d->fault);
  pthread_mutex_init(&d->lock, NULL);
  __atomic_store_n(&d->ready, true, __ATOMIC_RELEASE);
  return CN_OK;
}

static bool is_ready(int index)
{
  return index >= 0 && index < CNI_CUDA_DEVICES && __atomic_load_n(&devices[index].ready, __ATOMIC_ACQUIRE);
}

cni_cuda_device *cni_cuda_device_at(int index)
{
  if (!forked && is_ready(index)) return &devices[index];
  if (forked) {
    cni_cuda_host->fail(CN_ERR_DEVICE, "cuda: the device was used before fork, and the driver does not work in the "
                                       "child: start processes by spawn, or use the device in the child alone");
    return NULL;
  }
  if (index < 0 || index >= cni_cuda_device_count()) {
    cni_cuda_host->fail(CN_ERR_DEVICE, "cuda: there is no device %d", index);
    return NULL;
  }
  cni_cuda_device *d = &devices[index];
  pthread_mutex_lock(&lock);
  int status = d->ready ? CN_OK : make_ready(d, index);
  pthread_mutex_unlock(&lock);
  return status ? NULL : d;
}

/* Every time: other users of the driver in this process may have set their own context. */
cni_cuda_device *cni_cuda_use(int index)
{
  cni_cuda_device *d = cni_cuda_device_at(index);
  return d && !cni_cuda_check(cni_cuda_driver()->cuCtxSetCurrent(d->context), "using the device") ? d : NULL;
}

cni_cuda_device *cni_cuda_use_to_free(int index) { return forked ? NULL : cni_cuda_use(index); }
bool cni_cuda_gone(void) { return forked; }

/* Operations of a multiprocessor's Tensor Cores in one clock, dense, as NVIDIA's white papers have them. */
static const struct {
  int major, minor;
  struct {
    const char *type;
    int rate;
  } of[CN_DEVICE_PRODUCTS];
} tensor_cores[] = {
    {7, 0, {{"f16", 1024}}},
    {7, 5, {{"f16", 1024}, {"i8", 2048}}},
    {8, 0, {{"f64", 128}, {"tf32", 1024}, {"bf16", 2048}, {"f16", 2048}, {"i8", 4096}}},
    {8, 6, {{"tf32", 512}, {"bf16", 1024}, {"f16", 1024}, {"i8", 2048}}},
    {8, 9, {{"tf32", 512}, {"bf16", 1024}, {"f16", 1024}, {"f8", 2048}, {"i8", 2048}}},
    {9, 0, {{"f64", 256}, {"tf32", 2048}, {"bf16", 4096}, {"f16", 4096}, {"f8", 8192}, {"i8", 8192}}},
    {10, 0, {{"tf32", 4096}, {"bf16", 8192}, {"f16", 8192}, {"f8", 16384}, {"i8", 16384}}},
};

static void describe_products(cn_device_info *info, const cni_cuda_device *d, double clock)
{
  size_t i = 0, n = sizeof tensor_cores / sizeof *tensor_cores;
  while (i < n && (tensor_cores[i].major != d->major || tensor_cores[i].minor != d->minor)) i++;
  for (int k = 0; i < n && k < CN_DEVICE_PRODUCTS && tensor_cores[i].of[k].type; k++) {
    snprintf(info->products[k].type, sizeof info->products[k].type, "%s", tensor_cores[i].of[k].type);
    info->products[k].peak_gflops = 1e-9 * clock * tensor_cores[i].of[k].rate * d->units;
  }
}

/* What kernels may have, and where the device is. */
static void describe_blocks(cn_device_info *info, const cni_cuda_device *d)
{
  const struct {
    int *to;
    CUdevice_attribute from;
  } of[] = {
      {&info->warp, CU_DEVICE_ATTRIBUTE_WARP_SIZE},
      {&info->threads_of_block, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK},
      {&info->threads_of_unit, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR},
      {&info->registers_of_unit, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR},
      {&info->shared_of_block, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK},
      {&info->shared_of_unit, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR},
      {&info->memory_bits, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH},
      {&info->pci_domain, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID},
      {&info->pci_bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID},
      {&info->pci_device, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID},
  };
  CUuuid id;
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) *of[i].to = attribute(d, of[i].from);
  info->shared_of_block_most = d->most_shared;
  info->integrated = attribute(d, CU_DEVICE_ATTRIBUTE_INTEGRATED);
  info->on_shared_board = attribute(d, CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD);
  if (cni_cuda_driver()->cuDeviceGetUuid && cni_cuda_driver()->cuDeviceGetUuid(&id, d->id) == CUDA_SUCCESS)
    memcpy(info->uuid, id.bytes, sizeof info->uuid);
}

int cni_cuda_device_info(int index, cn_device_info *info)
{
  const cni_cuda_driver_table *cu = cni_cuda_driver();
  size_t bytes = 0, total = 0;
  cni_cuda_device *d = cni_cuda_use(index);
  if (!d) return CN_ERR_DEVICE;
  cu->cuDeviceGetName(info->name, sizeof info->name, d->id);
  snprintf(info->arch, sizeof info->arch, "sm_%d%d", d->major, d->minor);
  info->units = d->units;
  if (cu->cuMemGetInfo(&bytes, &total) == CUDA_SUCCESS) info->memory_free = bytes;
  if (cu->cuDeviceTotalMem(&total, d->id) == CUDA_SUCCESS) info->memory_total = total;
  info->cache[1] = (uint64_t)attribute(d, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  double clock = 1e3 * attribute(d, CU_DEVICE_ATTRIBUTE_CLOCK_RATE); /* Hz */
  double memory_clock = 1e3 * attribute(d, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
  int lanes = d->major >= 9 || (d->major == 8 && d->minor) ? 128 : 64; /* f32 units of a multiprocessor */
  info->peak_gflops = 2e-9 * clock * lanes * d->units;
  describe_blocks(info, d);
  info->peak_gbps = 2e-9 * memory_clock * info->memory_bits / 8;
  info->clock_mhz = 1e-6 * clock;
  info->memory_mhz = 1e-6 * memory_clock;
  describe_products(info, d, clock);
  return CN_OK;
}

/* ---- faults ---- */

enum { NAMES = 64 };
static const char *fault_names[NAMES]; /* op names live as long as the table of ops */

int32_t cni_cuda_fault_code(const char *name)
{
  int i = 0;
  pthread_mutex_lock(&lock);
  while (i < NAMES - 1 && fault_names[i] && fault_names[i] != name) i++;
  fault_names[i] = name;
  pthread_mutex_unlock(&lock);
  return i + 1;
}

static const char *fault_name(int32_t code)
{
  return code > 0 && code <= NAMES && fault_names[code - 1] ? fault_names[code - 1] : "an op";
}

/* ---- waiting ---- */

/* "add, gelu, sum": the ops that a late failure can come from, of those launched since the last wait. Other threads may
 * be launching: a name may be newer than its place. */
static void recent_names(const cni_cuda_device *d, unsigned launched, char *text, size_t size)
{
  unsigned n = launched < CNI_CUDA_RECENT ? launched : CNI_CUDA_RECENT;
  size_t at = 0;
  text[0] = 0;
  for (unsigned i = launched - n; i != launched && at < size; i++) {
    const char *name = __atomic_load_n(&d->recent[i % CNI_CUDA_RECENT], __ATOMIC_RELAXED);
    if (name) at += (size_t)snprintf(text + at, size - at, "%s%s", at ? ", " : "", name);
  }
}

/* After a wait for the device's work that ended with `result`. */
static int waited(cni_cuda_device *d, CUresult result)
{
  char names[300], what[400];
  unsigned launched = __atomic_exchange_n(&d->launched, 0, __ATOMIC_RELAXED);
  if (result == CUDA_SUCCESS) return CN_OK;
  recent_names(d, launched, names, sizeof names);
  snprintf(what, sizeof what, "one of the last ops failed (%s; CAIRN_SYNC=1 tells which)", names);
  return cni_cuda_check(result, what);
}

/* A matrix that could not be decomposed, in the CPU's words. */
static int report_matrix(const cni_cuda_fault *f, const char *name)
{
  static const char *const what[] = {
      [CNI_CUDA_SINGULAR] = "the input matrix is singular (zero on the diagonal of U at",
      [CNI_CUDA_FACTOR] = "the factor U is exactly singular (zero on its diagonal at",
      [CNI_CUDA_DEFINITE] = "the input is not positive-definite (leading minor of order",
      [CNI_CUDA_CONVERGENCE] = "the algorithm failed to converge: the matrix has infinite elements or NaN, or too many "
                               "repeated values (code",
  };
  char of[50] = "";
  if (f->bound >= 0) snprintf(of, sizeof of, "batch element %lld: ", (long long)f->bound);
  return cni_cuda_host->fail(CN_ERR_VALUE, "%s: %s%s %lld)", name, of, what[f->kind], (long long)f->index);
}

/* What kernels had to say. */
static int report_fault(cni_cuda_device *d)
{
  if (!__atomic_load_n(&d->fault->op, __ATOMIC_ACQUIRE)) return CN_OK;
  pthread_mutex_lock(&d->lock);
  cni_cuda_fault f = *d->fault; /* all of it, before the next one may be written there */
  d->fault->kind = CNI_CUDA_DIVISION;
  __atomic_store_n(&d->fault->op, 0, __ATOMIC_RELEASE);
  pthread_mutex_unlock(&d->lock);
  if (!f.op) return CN_OK; /* another thread has told it */
  const char *name = fault_name(f.op), *late = "(found while it ran on the device)";
  switch (f.kind) {
  case CNI_CUDA_INDEX:
    return cni_cuda_host->fail(CN_ERR_INDEX, "%s: index %lld is out of range for a dimension of size %lld %s", name,
                               (long long)f.index, (long long)f.bound, late);
  case CNI_CUDA_CLASS:
    return cni_cuda_host->fail(CN_ERR_INDEX, "%s: target %lld is out of range for %lld classes %s", name,
                               (long long)f.index, (long long)f.bound, late);
  case CNI_CUDA_VALUE:
    return cni_cuda_host->fail(CN_ERR_VALUE, "%s: a value of its input lies outside of what it takes %s", name, late);
  case CNI_CUDA_SINGULAR:
  case CNI_CUDA_FACTOR:
  case CNI_CUDA_DEFINITE:
  case CNI_CUDA_CONVERGENCE: return report_matrix(&f, name);
  default:
    return cni_cuda_host->fail(CN_ERR_VALUE, "%s: integer division by zero %s", name, late);
  }
}

int cni_cuda_wait(cni_cuda_device *d)
{
  int status = cni_cuda_not_recorded(d, "a wait");
  if (!status) status = cni_cuda_host->waiting();
  return status ? status : cni_cuda_finish(d);
}

int cni_cuda_finish(cni_cuda_device *d)
{
  int status = cni_cuda_not_recorded(d, "a wait");
  if (status) return status;
  status = waited(d, cni_cuda_driver()->cuStreamSynchronize(cni_cuda_now(d)->stream));
  return status ? status : report_fault(d);
}

int cni_cuda_sync(int index)
{
  cni_cuda_device *d = cni_cuda_use(index);
  int status = d ? cni_cuda_not_recorded(d, "a wait") : CN_ERR_DEVICE;
  if (!status) status = waited(d, cni_cuda_driver()->cuCtxSynchronize());
  return status ? status : report_fault(d);
}

void *cni_cuda_stream(int index)
{
  cni_cuda_device *d = cni_cuda_use(index);
  return d ? d->own.stream : NULL;
}

void cni_cuda_device_exit(void)
{
  for (int i = 0; i < count; i++)
    if (devices[i].ready) cni_cuda_memory_exit(&devices[i]);
}
