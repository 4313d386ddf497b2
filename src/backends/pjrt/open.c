/* open.c: opens a PJRT plugin: the library, its table of functions, a client, devices; turns its errors into cairn's.
 *
 * Place in the flow: the first question for a device comes here (device_count). Invariant: a plugin that cannot be used
 * leaves a text that says why and no device; it is tried once. */
#define _XOPEN_SOURCE 700 /* NOLINT: pthread_mutexattr_settype, strtok_r */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

enum { PATH_ROOM = 1024, TEXT_ROOM = 2048, LEAST_MINOR = 40 };

const pjrt_api *cni_pjrt;
pjrt_client *cni_pjrt_client;

static pthread_mutex_t lock;
static pthread_once_t once = PTHREAD_ONCE_INIT, opened = PTHREAD_ONCE_INIT;
static char path[PATH_ROOM], why[TEXT_ROOM], platform[256];
static pjrt_device *devices[PJRT_DEVICES];
static int ndevices;

static void make_lock(void)
{
  pthread_mutexattr_t kind;
  pthread_mutexattr_init(&kind);
  pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&lock, &kind);
  pthread_mutexattr_destroy(&kind);
}

void cni_pjrt_lock(void)
{
  pthread_once(&once, make_lock);
  pthread_mutex_lock(&lock);
}

void cni_pjrt_unlock(void) { pthread_mutex_unlock(&lock); }

/* ---- errors ---- */

static int code_of(pjrt_error *error)
{
  pjrt_error_code args = {.size = sizeof args, .error = error};
  pjrt_error *failed = cni_pjrt->error_code(&args);
  if (!failed) return args.code;
  pjrt_error_destroy end = {.size = sizeof end, .error = failed};
  cni_pjrt->error_destroy(&end);
  return PJRT_INTERNAL;
}

static int status_of(int code)
{
  switch (code) {
  case PJRT_INVALID: return CN_ERR_VALUE;
  case PJRT_EXHAUSTED: return CN_ERR_MEMORY;
  case PJRT_UNIMPLEMENTED: return CN_ERR_UNSUPPORTED;
  default: return CN_ERR_DEVICE;
  }
}

/* Copies the error's text, gives the error back; its code. */
static int take(char *text, size_t size, pjrt_error *error)
{
  int code = code_of(error);
  pjrt_error_message args = {.size = sizeof args, .error = error};
  cni_pjrt->error_message(&args);
  size_t n = args.text ? args.text_size : 0;
  snprintf(text, size, "%.*s (code %d)", (int)(n < 1200 ? n : 1200), n ? args.text : "", code);
  pjrt_error_destroy end = {.size = sizeof end, .error = error};
  cni_pjrt->error_destroy(&end);
  return code;
}

int cni_pjrt_check(pjrt_error *error, const char *doing)
{
  char text[TEXT_ROOM];
  if (!error) return CN_OK;
  int status = status_of(take(text, sizeof text, error));
  return cni_pjrt_host->fail(status, "pjrt: %s: %s (%s)", doing, text, path);
}

int cni_pjrt_await(pjrt_event *event, const char *doing)
{
  if (!event) return CN_OK;
  pjrt_event_await args = {.size = sizeof args, .event = event};
  int status = cni_pjrt_check(cni_pjrt->event_await(&args), doing);
  pjrt_event_destroy end = {.size = sizeof end, .event = event};
  pjrt_error *failed = cni_pjrt->event_destroy(&end);
  return status ? status : cni_pjrt_check(failed, "ending an event");
}

/* ---- finding the library ---- */

static bool is_there(const char *file) { return cni_pjrt_host->path_kind(file) != CN_PATH_NONE; }

/* A host with a TPU: the kernel has a device for it. */
static bool has_tpu(void) { return is_there("/dev/accel0") || is_there("/dev/vfio/0"); }

/* Looks for libtpu in the folders that a language has named; leaves its path, or "". */
static void search_folders(const char *folders)
{
  while (folders && *folders && !*path) {
    size_t n = strcspn(folders, ":");
    for (int inside = 0; inside < 2 && !*path; inside++) {
      snprintf(path, sizeof path, "%.*s%s/libtpu.so", (int)n, folders, inside ? "/libtpu" : "");
      if (!is_there(path)) *path = 0;
    }
    folders += n + (folders[n] == ':');
  }
}

static void find_path(void)
{
  const char *asked = cni_pjrt_host->env("CAIRN_PJRT"), *tpu = cni_pjrt_host->env("TPU_LIBRARY_PATH");
  if (asked) snprintf(path, sizeof path, "%s", asked);
  else if (has_tpu()) {
    if (tpu) snprintf(path, sizeof path, "%s", tpu);
    else search_folders(cni_pjrt_host->library_folders());
    if (!*path) snprintf(path, sizeof path, "libtpu.so");
  }
}

/* ---- opening ---- */

/* Everything up to here is called; what came to the interface later is looked for where it is used. */
static bool table_holds(const pjrt_api *api)
{
  if (!api || api->size < offsetof(pjrt_api, buffer_ready) + sizeof(void *)) return false;
  return api->error_destroy && api->error_message && api->error_code && api->plugin_initialize && api->event_destroy &&
         api->event_await && api->client_create && api->client_destroy && api->client_platform_name &&
         api->client_platform_version && api->client_devices && api->client_compile && api->client_upload &&
         api->description_id && api->description_kind && api->device_description && api->executable_destroy &&
         api->executable_outputs && api->loaded_destroy && api->loaded_executable && api->loaded_execute &&
         api->buffer_destroy && api->buffer_download && api->buffer_ready;
}

static const pjrt_api *load(void)
{
  const pjrt_api *(*get)(void);
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void *symbol = library ? dlsym(library, "GetPjrtApi") : NULL;
  const char *said = dlerror();
  if (!symbol) snprintf(why, sizeof why, "%s: %s", path, said ? said : "no PJRT plugin");
  if (!symbol) return NULL;
  memcpy(&get, &symbol, sizeof get);
  const pjrt_api *api = get();
  size_t head = offsetof(pjrt_api, version) + sizeof api->version;
  bool known = api && api->size >= head;
  if (!known || api->version.major != 0 || api->version.minor < LEAST_MINOR)
    snprintf(why, sizeof why, "%s: it has version %d.%d of the PJRT C API; 0.%d or a later 0.x is needed", path,
             known ? api->version.major : 0, known ? api->version.minor : 0, LEAST_MINOR);
  else if (!table_holds(api)) snprintf(why, sizeof why, "%s: functions are missing from its table", path);
  else return api;
  return NULL;
}

/* The error becomes the reason why there is no device. */
static bool failed(pjrt_error *error, const char *doing)
{
  char text[TEXT_ROOM - 200];
  if (!error) return false;
  take(text, sizeof text, error);
  snprintf(why, sizeof why, "%.500s: %s: %.1400s", path, doing, text);
  return true;
}

enum { MOST_OPTIONS = 16 };

/* "memory_fraction=0.5,preallocate=false": each by what its value looks like. text is cut into pieces. false: it cannot
 * be read, and the reason is set. */
static bool read_options(pjrt_named *options, size_t *count, char *text)
{
  size_t n = 0;
  for (char *next = NULL, *s = strtok_r(text, ",", &next); s; s = strtok_r(NULL, ",", &next)) {
    char *value = strchr(s, '='), *end = NULL;
    if (!value || n == MOST_OPTIONS) {
      snprintf(why, sizeof why, value ? "CAIRN_PJRT_OPTIONS: more than %d options, at %.200s"
                                      : "CAIRN_PJRT_OPTIONS: each of %d options at most is name=value, not %.200s",
               MOST_OPTIONS, s);
      return false;
    }
    *value++ = 0;
    pjrt_named *o = &options[n++];
    *o = (pjrt_named){.size = sizeof *o, .name = s, .name_size = strlen(s), .type = PJRT_STRING, .value_size = 1};
    long long whole = strtoll(value, &end, 10);
    bool is_int = *value && !*end;
    double number = strtod(value, &end);
    bool is_true = !strcmp(value, "true");
    if (is_true || !strcmp(value, "false")) o->type = PJRT_BOOL, o->u.b = is_true;
    else if (is_int) o->type = PJRT_INT, o->u.i = whole;
    else if (*value && !*end) o->type = PJRT_FLOAT, o->u.f = (float)number;
    else o->u.s = value, o->value_size = strlen(value);
  }
  *count = n;
  return true;
}

static bool shardy;
bool cni_pjrt_shardy(void) { return shardy; }

static bool read_partitioner(void)
{
  const char *asked = cni_pjrt_host->env("CAIRN_PJRT_PARTITIONER");
  shardy = asked && !strcmp(asked, "shardy");
  if (!asked || shardy || !strcmp(asked, "gspmd")) return true;
  snprintf(why, sizeof why, "CAIRN_PJRT_PARTITIONER is gspmd or shardy, not %.200s", asked);
  return false;
}

static bool make_client(void)
{
  pjrt_named options[MOST_OPTIONS];
  char text[TEXT_ROOM];
  const char *asked = cni_pjrt_host->env("CAIRN_PJRT_OPTIONS");
  snprintf(text, sizeof text, "%s", asked ? asked : "");
  pjrt_client_create args = {.size = sizeof args, .options = options};
  if (!read_partitioner() || !read_options(options, &args.noptions, text)) return false;
  pjrt_plugin_initialize begin = {.size = sizeof begin};
  if (failed(cni_pjrt->plugin_initialize(&begin), "it cannot be started")) return false;
  if (failed(cni_pjrt->client_create(&args), "no device can be opened")) return false;
  cni_pjrt_client = args.client;
  return true;
}

static void name_platform(void)
{
  pjrt_client_platform name = {.size = sizeof name, .client = cni_pjrt_client}, version = name;
  if (failed(cni_pjrt->client_platform_name(&name), "its platform has no name")) return;
  if (failed(cni_pjrt->client_platform_version(&version), "its platform has no version")) return;
  snprintf(platform, sizeof platform, "%.*s %.*s", (int)(name.text_size < 40 ? name.text_size : 40), name.text,
           (int)(version.text_size < 200 ? version.text_size : 200), version.text);
}

static void open_it(void)
{
  find_path();
  if (!*path || !(cni_pjrt = load())) return;
  if (!make_client()) return;
  name_platform();
  pjrt_client_devices args = {.size = sizeof args, .client = cni_pjrt_client};
  if (failed(cni_pjrt->client_devices(&args), "it does not tell its devices")) return;
  for (size_t i = 0; i < args.ndevices && i < PJRT_DEVICES; i++) devices[ndevices++] = args.devices[i];
  if (!ndevices) snprintf(why, sizeof why, "%s: it has no device", path);
}

int cni_pjrt_device_count(void)
{
  pthread_once(&opened, open_it);
  return ndevices;
}

const char *cni_pjrt_absent(void)
{
  cni_pjrt_device_count();
  return *why ? why : NULL;
}

/* "tpu" is what its users call such a device. */
bool cni_pjrt_answers(const char *name)
{
  size_t n = strlen(name);
  return cni_pjrt_device_count() && !strncmp(platform, name, n) && platform[n] == ' ';
}

const char *cni_pjrt_platform(void) { return platform; }
pjrt_device *cni_pjrt_device(int index) { return devices[index]; } /* no mesh */

static cn_device first_number;
void cni_pjrt_numbered(cn_device device) { first_number = device & ~(cn_device)0xff; }
cn_device cni_pjrt_device_number(int index) { return first_number | (cn_device)index; }

static pjrt_description *describe(int index)
{
  pjrt_device_description args = {.size = sizeof args, .device = devices[index]};
  return cni_pjrt_check(cni_pjrt->device_description(&args), "describing a device") ? NULL : args.description;
}

int cni_pjrt_device_id(int index)
{
  pjrt_description_id args = {.size = sizeof args, .description = describe(index)};
  if (!args.description || cni_pjrt_check(cni_pjrt->description_id(&args), "describing a device")) return -1;
  return args.id;
}

int cni_pjrt_device_info(int index, cn_device_info *info)
{
  int first = cni_pjrt_part(index, 0);
  pjrt_description_kind kind = {.size = sizeof kind, .description = describe(first)};
  if (!kind.description) return CN_ERR_DEVICE;
  int status = cni_pjrt_check(cni_pjrt->description_kind(&kind), "naming a device");
  if (status) return status;
  int n = (int)(kind.text_size < 100 ? kind.text_size : 100), parts = cni_pjrt_parts(index);
  if (parts > 1) snprintf(info->name, sizeof info->name, "%d x %.*s", parts, n, kind.text);
  else snprintf(info->name, sizeof info->name, "%.*s", n, kind.text);
  snprintf(info->arch, sizeof info->arch, "%.60s", platform);
  info->units = 0;
  pjrt_device_memory memory = {.size = sizeof memory, .device = devices[first]};
  pjrt_error *none = cni_pjrt->device_memory ? cni_pjrt->device_memory(&memory) : NULL;
  char text[TEXT_ROOM];
  if (none) take(text, sizeof text, none); /* not every platform counts */
  else if (memory.has_limit && memory.limit > 0) {
    info->memory_total = (uint64_t)memory.limit * (uint64_t)parts;
    info->memory_free = (uint64_t)(memory.limit > memory.in_use ? memory.limit - memory.in_use : 0) * (uint64_t)parts;
  }
  return CN_OK;
}

void cni_pjrt_close(void)
{
  if (!cni_pjrt_client) return;
  pjrt_client_destroy args = {.size = sizeof args, .client = cni_pjrt_client};
  cni_pjrt_check(cni_pjrt->client_destroy(&args), "closing the client");
  cni_pjrt_client = NULL;
  ndevices = 0;
}
