/* registry.c: backends and devices: added by init.c, loaded from plugins at first need, found by name. See registry.h.
 *
 * Invariant: a backend's table is copied when it is added, filled up with zeros to the struct of today, and never
 * changes after that. */
#include "registry.h"

#include <cairn/ext/system.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "autotune.h"
#include "base/hooks.h"
#include "base/log.h"
#include "base/os.h"
#include "dispatch.h"
#include "ops/apply.h"
#include "ops/families.h"
#include "stream.h"
#include "transfer.h"

static cn_backend backends[CNI_MAX_BACKENDS];
static int nbackends;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

const cn_backend *cni_backend_at(int i) { return i >= 0 && i < nbackends ? &backends[i] : NULL; }

const cn_backend *cni_backend_of(cn_device device)
{
  int i = (device >> 8) - 1;
  if (i >= 0 && i < nbackends) return &backends[i];
  cni_fail(CN_ERR_DEVICE, "device %d does not exist", (int)device);
  return NULL;
}

static int index_of(const cn_backend *backend) { return (int)(backend - backends); }

static void forget(cn_state *st)
{
  cni_dispatch_forget(st);
  cni_streams_forget(st);
}

int cni_registry_init(void)
{
  cni_hooks.backend_exit = forget;
  cni_run_kernel = cni_dispatch;
  return CN_OK;
}

void cni_registry_exit(void)
{
  cni_autotune_exit();
  for (int b = 0; b < nbackends; b++) {
    if (backends[b].shutdown) backends[b].shutdown();
    cni_kernels_free(b);
  }
  nbackends = 0;
}

/* ---- devices ---- */

/* What every backend can do without code of its own. */
static const cn_kernel shared_kernels[] = {{"to_device", "transfer", cni_transfer_kernel}, {NULL, NULL, NULL}};

/* Is the table one that this library understands? Its size may be smaller (made for an earlier one) or larger. */
static int check_table(const cn_backend *given)
{
  size_t least = offsetof(cn_backend, kernel_size) + sizeof given->kernel_size;
  if (!given || given->size < least || given->abi != CN_BACKEND_ABI)
    return cni_fail(CN_ERR_VALUE, "backend: made for another version of cairn");
  if (!given->name || !given->device_count || !given->alloc || !given->free || !given->copy_in || !given->copy_out)
    return cni_fail(CN_ERR_VALUE, "backend %s: its table is incomplete", given->name ? given->name : "without a name");
  return CN_OK;
}

int cni_backend_add(const cn_backend *given)
{
  int status = check_table(given), b = 0;
  if (status) return status;
  pthread_mutex_lock(&lock);
  if (nbackends == CNI_MAX_BACKENDS) status = cni_fail(CN_ERR_UNSUPPORTED, "more than %d backends", CNI_MAX_BACKENDS);
  else {
    b = nbackends;
    memset(&backends[b], 0, sizeof backends[b]);
    memcpy(&backends[b], given, given->size < sizeof *given ? given->size : sizeof *given);
    nbackends++;
  }
  pthread_mutex_unlock(&lock);
  if (!status) status = cni_kernels_add(b, given->name, shared_kernels, sizeof(cn_kernel));
  return status ? status : cni_kernels_add(b, given->name, given->kernels, given->kernel_size);
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
  if (!backend || cn_backend_register(backend) == CN_OK) return;
  cni_log(CN_LOG_WARNING, CNI_TOPIC_WARNINGS, "plugin %s: %s", name, cn_err_message());
  cn_err_clear();
}

static const cn_backend *find_backend(const char *name, size_t n)
{
  for (int i = 0; i < nbackends; i++)
    if (strlen(backends[i].name) == n && !memcmp(backends[i].name, name, n)) return &backends[i];
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

void cni_plugins_load(void)
{
  static const char *const names[] = {"cuda", "pjrt"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) find_or_load(names[i], strlen(names[i]));
}

/* A backend whose devices are known by that name, too. */
static const cn_backend *find_answering(const char *name, size_t n)
{
  char copy[33];
  if (!n || n >= sizeof copy) return NULL;
  memcpy(copy, name, n);
  copy[n] = 0;
  cni_plugins_load();
  for (int i = 0; i < nbackends; i++)
    if (backends[i].answers && backends[i].answers(copy)) return &backends[i];
  return NULL;
}

static int no_device(const char *name, const cn_backend *b)
{
  const char *why = b && b->absent ? b->absent() : NULL;
  return cni_fail(CN_ERR_DEVICE, "device '%s' is not there%s%s", name,
                  b ? why ? ": " : "" : ": no such backend, or its plugin did not load", why ? why : "");
}

static bool is_device(const cn_backend *b, int index)
{
  cn_mesh mesh;
  return index < b->device_count() || (b->mesh_of && b->mesh_of(&mesh, index));
}

cn_device cn_device_find(const char *name)
{
  if (!name) name = "";
  size_t n = strcspn(name, ":");
  const cn_backend *b = find_or_load(name, n);
  if (!b) b = find_answering(name, n);
  char *end = NULL;
  long index = name[n] ? strtol(name + n + 1, &end, 10) : 0;
  if (!b || (end && (*end || end == name + n + 1)) || index < 0 || index > 0xff || !is_device(b, (int)index)) {
    no_device(name, b);
    return CN_DEVICE_DEFAULT;
  }
  return (index_of(b) + 1) << 8 | (cn_device)index;
}

const char *cn_device_name(char *text, size_t size, cn_device device)
{
  int i = (device >> 8) - 1;
  cni_init();
  if (i < 0 || i >= nbackends) snprintf(text, size, "none");
  else if (device == CN_CPU || !strcmp(backends[i].name, "meta")) snprintf(text, size, "%s", backends[i].name);
  else snprintf(text, size, "%s:%d", backends[i].name, cni_device_index(device));
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
  if (!b && backend) b = find_answering(backend, strlen(backend));
  return b ? b->device_count() : 0;
}

const char *cn_device_absent(const char *backend)
{
  const cn_backend *b = backend ? find_or_load(backend, strlen(backend)) : NULL;
  return b && b->absent && !b->device_count() ? b->absent() : NULL;
}

static int say_updates(bool begin, const cn_backend *decides, const void *unless)
{
  int status = CN_OK;
  for (int b = 0; b < nbackends; b++) {
    int said = backends[b].updates ? backends[b].updates(begin, &backends[b] == decides ? unless : NULL) : CN_OK;
    if (!status) status = said;
  }
  return status;
}

int cn_updates_begin(cn_tensor *unless)
{
  const cn_desc *d = unless ? cn_desc_of(unless) : NULL;
  const cn_backend *b = d ? cni_backend_at((d->device >> 8) - 1) : NULL;
  if (d && (!b || !b->updates || d->dtype != CN_BOOL || !d->data)) return CN_REFUSED;
  int status = say_updates(true, b, d ? d->data : NULL);
  if (status == CN_REFUSED) say_updates(false, NULL, NULL); /* others have begun */
  return status;
}
int cn_updates_end(void) { return say_updates(false, NULL, NULL); }
