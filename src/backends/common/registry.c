/* registry.c: see registry.h. Invariant: kernel lists are only replaced by longer ones before first use of an op; a
 * list that a running dispatcher may read is never freed before exit. */
#include "registry.h"

#include <cairn/ext/system.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/os.h"
#include "ops/apply.h"
#include "ops/families.h"
#include "transfer.h"

static const cn_backend *backends[CNI_MAX_BACKENDS];
static int nbackends;
/* Kernels for all pointwise ops, and for every op without one. */
static cni_kernel_list *pointwise[CNI_MAX_BACKENDS], *any[CNI_MAX_BACKENDS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

const cn_backend *cni_backend_at(int i) { return i < nbackends ? backends[i] : NULL; }

const cn_backend *cni_backend_of(cn_device device)
{
  int i = (device >> 8) - 1;
  if (i >= 0 && i < nbackends) return backends[i];
  cni_fail(CN_ERR_DEVICE, "device %d does not exist", (int)device);
  return NULL;
}

static int index_of(const cn_backend *backend)
{
  int i = 0;
  while (i < nbackends && backends[i] != backend) i++;
  return i;
}

/* ---- kernel lists ---- */

static size_t list_size(int n) { return sizeof(cni_kernel_list) + (size_t)n * sizeof(cn_kernel); }

static int prepend(cni_kernel_list **slot, const cn_kernel *kernel)
{
  int n = *slot ? (*slot)->n : 0;
  cni_kernel_list *list = cni_alloc(list_size(n + 1));
  if (!list) return CN_ERR_MEMORY;
  list->n = n + 1;
  list->items[0] = *kernel;
  if (n) memcpy(list->items + 1, (*slot)->items, (size_t)n * sizeof *kernel);
  if (*slot) cni_free(*slot, list_size(n));
  *slot = list;
  return CN_OK;
}

int cni_kernels_add(const cn_backend *backend, const cn_kernel *kernels)
{
  int b = index_of(backend), count = 0;
  while (kernels && kernels[count].op) count++;
  for (int i = count - 1; i >= 0; i--) { /* backwards, so that the first listed is tried first */
    const cn_kernel *k = &kernels[i];
    const cni_opinfo *info = cni_op_by_name(k->op);
    cni_kernel_list **slot = !strcmp(k->op, "*") ? &any[b] : NULL;
    if (info && !strcmp(k->op, "pointwise")) {
      int status = prepend(&pointwise[b], k); /* the rows, and the op of that name too */
      if (status) return status;
    }
    if (info) slot = (cni_kernel_list **)&info->kernels[b];
    if (!slot)
      return cni_fail(CN_ERR_VALUE, "backend %s: there is no op %s for its kernel", backend->name, k->op);
    int status = prepend(slot, k);
    if (status) return status;
  }
  return CN_OK;
}

static inline const cni_kernel_list *kernels_at(int b, const cni_opinfo *info)
{
  const cni_kernel_list *list = info->kernels[b];
  if (list) return list;
  return info->row->pointwise ? pointwise[b] : any[b];
}

const cni_kernel_list *cni_kernels_of(const cn_backend *backend, const cni_opinfo *info)
{
  int b = index_of(backend);
  return b < nbackends ? kernels_at(b, info) : NULL;
}

/* ---- the dispatcher ---- */

static void say_refusal(const cni_opinfo *info, const cn_kernel *k, const cn_call *c)
{
  cni_log(CN_LOG_DEBUG, CNI_TOPIC_DISPATCH, "%s: %s refused: %s", info->name, k->name,
          c->refusal ? c->refusal : "no reason given");
}

static int run(cn_call *c, const cni_opinfo *info)
{
  int b = (c->device >> 8) - 1;
  if (CNI_UNLIKELY(b < 0 || b >= nbackends)) return cni_fail(CN_ERR_DEVICE, "%s: no such device", info->name);
  const cni_kernel_list *list = kernels_at(b, info);
  for (int i = 0; list && i < list->n; i++) {
    int status = list->items[i].run(c);
    if (CNI_LIKELY(status != CN_REFUSED)) {
      if (CNI_UNLIKELY(cni_verbose(CNI_TOPIC_DISPATCH)))
        cni_log(CN_LOG_DEBUG, CNI_TOPIC_DISPATCH, "%s: %s/%s", info->name, backends[b]->name, list->items[i].name);
      return status;
    }
    if (CNI_UNLIKELY(cni_verbose(CNI_TOPIC_DISPATCH))) say_refusal(info, &list->items[i], c);
  }
  return CN_REFUSED;
}

/* ---- memory ---- */

/* What tensors hold on each device. */
typedef struct usage {
  atomic_size_t in_use, peak;
} usage;
static usage held[CNI_MAX_BACKENDS][256];

static usage *usage_of(cn_device device)
{
  int backend = (device >> 8) - 1;
  return device > 0 && backend >= 0 && backend < CNI_MAX_BACKENDS ? &held[backend][device & 255] : NULL;
}

static void count(usage *u, size_t size)
{
  size_t now = atomic_fetch_add(&u->in_use, size) + size, most = atomic_load(&u->peak);
  while (now > most && !atomic_compare_exchange_weak(&u->peak, &most, now)) continue;
}

static void *device_alloc(cn_device device, size_t size)
{
  const cn_backend *b = cni_backend_of(device);
  void *p = b ? b->alloc(cni_device_index(device), size) : NULL;
  if (b && !p) cni_fail(CN_ERR_MEMORY, "out of memory: %zu bytes on %s:%d", size, b->name, cni_device_index(device));
  if (p) count(usage_of(device), size);
  return p;
}
static void device_free(cn_device device, void *memory, size_t size)
{
  const cn_backend *b = backends[(device >> 8) - 1];
  b->free(cni_device_index(device), memory, size);
  atomic_fetch_sub(&usage_of(device)->in_use, size);
}

void cn_device_memory(size_t *in_use, size_t *peak, cn_device device)
{
  usage *u = usage_of(device);
  *in_use = u ? atomic_load(&u->in_use) : 0;
  *peak = u ? atomic_load(&u->peak) : 0;
}

void cn_device_memory_reset_peak(cn_device device)
{
  usage *u = usage_of(device);
  if (u) atomic_store(&u->peak, atomic_load(&u->in_use));
}

static int device_copy_in(cn_device device, void *to, const void *host, size_t size)
{
  const cn_backend *b = cni_backend_of(device);
  return b ? b->copy_in(cni_device_index(device), to, host, size) : CN_ERR_DEVICE;
}
static int device_copy_out(cn_device device, void *host, const void *from, size_t size)
{
  const cn_backend *b = cni_backend_of(device);
  return b ? b->copy_out(cni_device_index(device), host, from, size) : CN_ERR_DEVICE;
}
static int device_sync(cn_device device)
{
  const cn_backend *b = cni_backend_of(device);
  return b ? (b->sync ? b->sync(cni_device_index(device)) : CN_OK) : CN_ERR_DEVICE;
}

static void *pinned_alloc(cn_device device, size_t size)
{
  const cn_backend *b = cni_backend_of(device);
  return b && b->host_alloc && b->host_free ? b->host_alloc(cni_device_index(device), size) : NULL;
}
static void pinned_free(cn_device device, void *memory, size_t size)
{
  backends[(device >> 8) - 1]->host_free(cni_device_index(device), memory, size);
}

const cni_memory_table cni_memory = {device_alloc, device_free,    device_copy_in, device_copy_out, device_sync,
                                     cn_device_find, cn_device_name, pinned_alloc, pinned_free};

int cni_registry_init(void)
{
  cni_run_kernel = run;
  return CN_OK;
}

static void free_list(cni_kernel_list **slot)
{
  if (*slot) cni_free(*slot, list_size((*slot)->n));
  *slot = NULL;
}

void cni_registry_exit(void)
{
  for (int b = 0; b < nbackends; b++) {
    if (backends[b]->shutdown) backends[b]->shutdown();
    free_list(&pointwise[b]);
    free_list(&any[b]);
    for (int i = 0; i < cni_nops; i++)
      if (cni_ops[i]) free_list(&cni_ops[i]->kernels[b]);
  }
  nbackends = 0;
}

/* ---- devices ---- */

/* What every backend can do without code of its own. */
static const cn_kernel shared_kernels[] = {{"to_device", "transfer", cni_transfer_kernel}, {NULL, NULL, NULL}};

int cni_backend_add(const cn_backend *backend)
{
  if (!backend || backend->abi != CN_BACKEND_ABI)
    return cni_fail(CN_ERR_VALUE, "backend: made for another version of cairn");
  pthread_mutex_lock(&lock);
  int status = CN_OK;
  if (nbackends == CNI_MAX_BACKENDS) status = cni_fail(CN_ERR_UNSUPPORTED, "more than %d backends", CNI_MAX_BACKENDS);
  else backends[nbackends++] = backend;
  pthread_mutex_unlock(&lock);
  if (!status) status = cni_kernels_add(backend, shared_kernels);
  return status ? status : cni_kernels_add(backend, backend->kernels);
}

int cn_backend_register(const cn_backend *backend)
{
  cni_init();
  return cni_backend_add(backend);
}

/* Absence of the plugin is no error here. */
static void load_plugin(const char *name)
{
  void *library = cn_plugin_open(name);
  cn_plugin_init_fn start;
  void *symbol = cni_os_symbol(library, "cn_plugin_init");
  if (!symbol) return;
  memcpy(&start, &symbol, sizeof start);
  const cn_backend *backend = start(&cni_host);
  if (backend) cn_backend_register(backend);
}

static const cn_backend *find_backend(const char *name, size_t n)
{
  for (int i = 0; i < nbackends; i++)
    if (strlen(backends[i]->name) == n && !memcmp(backends[i]->name, name, n)) return backends[i];
  return NULL;
}

static const cn_backend *find_or_load(const char *name, size_t n)
{
  char copy[33];
  cni_init();
  const cn_backend *b = find_backend(name, n);
  if (b || n >= sizeof copy || strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") < n) return b;
  memcpy(copy, name, n);
  copy[n] = 0;
  load_plugin(copy);
  return find_backend(name, n);
}

cn_device cn_device_find(const char *name)
{
  if (!name) name = "";
  size_t n = strcspn(name, ":");
  const cn_backend *b = find_or_load(name, n);
  char *end = NULL;
  long index = name[n] ? strtol(name + n + 1, &end, 10) : 0;
  if (!b || (end && (*end || end == name + n + 1)) || index < 0 || index >= b->device_count()) {
    cni_fail(CN_ERR_DEVICE, "device '%s' is not there%s", name,
             b ? "" : ": no such backend, or its plugin did not load");
    return CN_DEVICE_DEFAULT;
  }
  return (index_of(b) + 1) << 8 | (cn_device)index;
}

const char *cn_device_name(char *text, size_t size, cn_device device)
{
  int i = (device >> 8) - 1;
  cni_init();
  if (i < 0 || i >= nbackends) snprintf(text, size, "none");
  else if (device == CN_CPU || !strcmp(backends[i]->name, "meta")) snprintf(text, size, "%s", backends[i]->name);
  else snprintf(text, size, "%s:%d", backends[i]->name, cni_device_index(device));
  return text;
}

int cn_device_info_get(cn_device_info *info, cn_device device)
{
  cni_init();
  memset(info, 0, sizeof *info);
  const cn_backend *b = cni_backend_of(device);
  return b ? b->device_info(cni_device_index(device), info) : CN_ERR_DEVICE;
}

int cn_device_count(const char *backend)
{
  const cn_backend *b = backend ? find_or_load(backend, strlen(backend)) : NULL;
  return b ? b->device_count() : 0;
}

int cn_device_sync(cn_device device)
{
  cni_init();
  return device_sync(device == CN_DEVICE_DEFAULT ? cn_default_device() : device);
}

void *cn_device_stream(cn_device device)
{
  cni_init();
  if (device == CN_DEVICE_DEFAULT) device = cn_default_device();
  const cn_backend *b = cni_backend_of(device);
  return b && b->stream ? b->stream(cni_device_index(device)) : NULL;
}
