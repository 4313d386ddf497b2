/* compile.c: from the text of a kernel to a function on a device: compiled by NVRTC once, kept in memory by
 * key and on disk by content, and launched.
 *
 * Place in the flow: between the kernels of this plugin and the driver. Invariant: what is on disk is named
 * after the text, the options, NVRTC's version and the architecture, so it can never be the wrong code. */
#include <stdio.h>
#include <string.h>

#include "plugin.h"

enum { FIRST_SLOTS = 256, LOG = 600, OPTIONS = 40, MORE = 2000 };

/* A function is set before its key is, and neither changes then: who looks one up takes no lock. */
typedef struct slot {
  uint64_t key; /* device included; 0: empty */
  CUfunction function;
} slot;

typedef struct table {
  struct table *outgrown; /* smaller ones, in which others may be looking still */
  size_t nslots, nused;
  slot slots[];
} table;

static table *functions;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of who adds to the table */

/* ---- the table ---- */

/* The key's slot, or the empty one where it belongs; *there: which of them. */
static slot *find(table *t, uint64_t key, bool *there)
{
  size_t i = (size_t)(key * 0x9e3779b97f4a7c15ull >> 32) & (t->nslots - 1);
  uint64_t has;
  while ((has = __atomic_load_n(&t->slots[i].key, __ATOMIC_ACQUIRE)) != 0 && has != key) i = (i + 1) & (t->nslots - 1);
  *there = has != 0;
  return &t->slots[i];
}

static void add(table *t, uint64_t key, CUfunction function)
{
  bool there;
  slot *s = find(t, key, &there);
  if (there) return; /* two threads made it, and either will do */
  s->function = function;
  __atomic_store_n(&s->key, key, __ATOMIC_RELEASE);
  t->nused++;
}

static size_t bytes_of(size_t nslots) { return sizeof(table) + nslots * sizeof(slot); }

static int make_room(void)
{
  table *old = functions;
  if (old && old->nused * 2 < old->nslots) return CN_OK;
  size_t bigger = old ? old->nslots * 2 : FIRST_SLOTS;
  table *made = cni_cuda_host->memory(bytes_of(bigger));
  if (!made) return CN_ERR_MEMORY;
  memset(made, 0, bytes_of(bigger));
  made->outgrown = old;
  made->nslots = bigger;
  for (size_t i = 0; old && i < old->nslots; i++)
    if (old->slots[i].key) add(made, old->slots[i].key, old->slots[i].function);
  __atomic_store_n(&functions, made, __ATOMIC_RELEASE);
  return CN_OK;
}

void cni_cuda_code_exit(void)
{
  for (table *t = functions, *next; t; t = next) {
    next = t->outgrown;
    cni_cuda_host->free_memory(t, bytes_of(t->nslots));
  }
  functions = NULL;
}

/* ---- compiling ---- */

typedef struct target {
  char arch[40];
  const char *options[OPTIONS];
  int noptions;
  char more[MORE]; /* options of a program's */
  char file[64];   /* in the cache on disk */
} target;

static void add_options(target *t, const char *options)
{
  snprintf(t->more, sizeof t->more, "%s", options);
  for (char *at = t->more; *at && t->noptions < OPTIONS;) {
    size_t n = strcspn(at, " ");
    if (n) t->options[t->noptions++] = at;
    at += n;
    if (*at) *at++ = 0;
  }
}

/* options: NULL for the plugin's own kernels. */
static void describe(target *t, const cni_cuda_device *d, const char *text, cni_cuda_maths maths, const char *options)
{
  int major = 0, minor = 0;
  cni_cuda_nvrtc()->nvrtcVersion(&major, &minor);
  /* From 9.0 on, the instructions of this very architecture too. */
  snprintf(t->arch, sizeof t->arch, "--gpu-architecture=sm_%d%d%s", d->major, d->minor, d->major >= 9 ? "a" : "");
  t->noptions = 0;
  t->options[t->noptions++] = t->arch;
  t->options[t->noptions++] = maths == CNI_CUDA_EXACT ? "--fmad=false" : "--fmad=true";
  if (maths == CNI_CUDA_FAST) {
    t->options[t->noptions++] = "--prec-div=false";
    t->options[t->noptions++] = "--prec-sqrt=false";
  }
  t->options[t->noptions++] = "--device-as-default-execution-space";
  t->options[t->noptions++] = "-w";
  if (options) add_options(t, options);
  else if (major > 12 || (major == 12 && minor >= 4)) t->options[t->noptions++] = "-minimal";
  uint64_t a = CN_HASH_BEGIN, b = 0x84222325cbf29ce4ull;
  int version[2] = {major, minor};
  for (int i = 0; i < t->noptions; i++) a = cn_hash_more(a, t->options[i], strlen(t->options[i]) + 1);
  a = cn_hash_more(a, version, sizeof version);
  a = cn_hash_more(a, text, strlen(text));
  b = cn_hash_more(b ^ a, text, strlen(text));
  snprintf(t->file, sizeof t->file, "cuda-%016llx%016llx.cubin", (unsigned long long)a,
           (unsigned long long)b);
}

static int fail_with_log(nvrtcProgram program, nvrtcResult result, const char *entry)
{
  const cni_cuda_nvrtc_table *rtc = cni_cuda_nvrtc();
  size_t size = 0;
  rtc->nvrtcGetProgramLogSize(program, &size);
  char *log = size ? cni_cuda_host->memory(size) : NULL;
  if (log) rtc->nvrtcGetProgramLog(program, log);
  int status = cni_cuda_host->fail(CN_ERR_INTERNAL, "cuda: kernel %s did not compile: %s: %.*s", entry,
                                   rtc->nvrtcGetErrorString(result), LOG, log ? log : "");
  if (log) cni_cuda_host->free_memory(log, size);
  return status;
}

/* The machine code of a text; owned. */
static int compile(void **image, size_t *size, const target *t, const char *text, const char *entry)
{
  const cni_cuda_nvrtc_table *rtc = cni_cuda_nvrtc();
  nvrtcProgram program;
  nvrtcResult result = rtc->nvrtcCreateProgram(&program, text, "cairn.cu", 0, NULL, NULL);
  if (result != NVRTC_SUCCESS)
    return cni_cuda_host->fail(CN_ERR_INTERNAL, "cuda: NVRTC: %s", rtc->nvrtcGetErrorString(result));
  int status = CN_OK;
  *image = NULL;
  result = rtc->nvrtcCompileProgram(program, t->noptions, t->options);
  if (result != NVRTC_SUCCESS) status = fail_with_log(program, result, entry);
  if (!status && (result = rtc->nvrtcGetCUBINSize(program, size)) == NVRTC_SUCCESS) {
    *image = cni_cuda_host->memory(*size);
    if (!*image) status = CN_ERR_MEMORY;
    else result = rtc->nvrtcGetCUBIN(program, *image);
  }
  if (!status && result != NVRTC_SUCCESS) status = fail_with_log(program, result, entry);
  if (status && *image) cni_cuda_host->free_memory(*image, *size);
  rtc->nvrtcDestroyProgram(&program);
  return status;
}

static CUresult load(CUfunction *function, cni_cuda_device *d, const void *image, const char *entry)
{
  const cni_cuda_driver_table *cu = cni_cuda_driver();
  CUmodule module;
  CUresult result = cu->cuModuleLoadData(&module, image);
  if (cni_cuda_made_room(d, result)) result = cu->cuModuleLoadData(&module, image);
  return result != CUDA_SUCCESS ? result : cu->cuModuleGetFunction(function, module, entry);
}

/* From disk, else compiled now and kept there. */
static int make(CUfunction *function, cni_cuda_device *d, const char *text, cni_cuda_maths maths,
                const char *options, const char *entry)
{
  target t;
  size_t size = 0;
  void *image;
  if (!cni_cuda_nvrtc())
    return cni_cuda_host->fail(CN_ERR_UNSUPPORTED, "cuda: libnvrtc, which compiles kernels, was not found");
  describe(&t, d, text, maths, options);
  image = cni_cuda_host->cache_load(t.file, &size);
  if (image) {
    CUresult result = load(function, d, image, entry);
    cni_cuda_host->free_memory(image, size);
    if (result == CUDA_SUCCESS) return CN_OK; /* else the file is damaged: made again */
  }
  int status = compile(&image, &size, &t, text, entry);
  if (status) return status;
  status = cni_cuda_check(load(function, d, image, entry), "loading a kernel");
  if (!status) cni_cuda_host->cache_store(t.file, image, size);
  cni_cuda_host->free_memory(image, size);
  return status;
}

/* The function under a key, if it was made already. */
static bool known(CUfunction *function, uint64_t key)
{
  table *t = __atomic_load_n(&functions, __ATOMIC_ACQUIRE);
  bool found = false;
  slot *s = t ? find(t, key, &found) : NULL;
  if (found) *function = s->function;
  return found;
}

static int remember(uint64_t key, CUfunction function)
{
  pthread_mutex_lock(&lock);
  int status = make_room();
  if (!status) add(functions, key, function);
  pthread_mutex_unlock(&lock);
  return status;
}

/* ---- ahead (ahead.c) ---- */

/* A text that is compiled by another thread; it follows. */
typedef struct later {
  uint64_t key;
  cni_cuda_maths maths;
  char entry[64];
} later;

static void make_ahead(cni_cuda_device *d, void *payload)
{
  const later *w = payload;
  CUfunction function;
  if (!make(&function, d, (const char *)(w + 1), w->maths, NULL, w->entry)) remember(w->key, function);
}

static int look_for(uint64_t key, const char *entry, cni_cuda_maths maths, const char *source)
{
  size_t length = strlen(source) + 1, size = sizeof(later) + length;
  later *w = cni_cuda_host->memory(size);
  if (!w) return CN_ERR_MEMORY;
  memset(w, 0, sizeof *w);
  w->key = key;
  w->maths = maths;
  snprintf(w->entry, sizeof w->entry, "%s", entry);
  memcpy(w + 1, source, length);
  int status = cni_cuda_look_for(key, make_ahead, w, size);
  cni_cuda_host->free_memory(w, size);
  return status;
}

/* Compiles without the lock: threads that need different kernels compile side by side; two that need the same one
 * make it twice, and either will do. */
int cni_cuda_function_with(CUfunction *function, cni_cuda_device *d, uint64_t key, const char *entry,
                           cni_cuda_maths maths, const char *options, cni_cuda_text_fn text, const void *payload)
{
  uint64_t device = (uint64_t)d->index + 1;
  size_t size = 0;
  key = (key ^ device << 56) | 1; /* never 0 */
  if (known(function, key)) return CN_OK;
  bool looks = cni_cuda_looks() && !options;
  *function = NULL;
  if (looks && cni_cuda_looked_for(key, make_ahead)) return CN_OK;
  char *source = text(payload, &size);
  if (!source) return CN_ERR_MEMORY;
  int status = looks ? look_for(key, entry, maths, source) : make(function, d, source, maths, options, entry);
  cni_cuda_host->free_memory(source, size);
  return status || looks ? status : remember(key, *function);
}

int cni_cuda_function(CUfunction *function, cni_cuda_device *d, uint64_t key, const char *entry, cni_cuda_maths maths,
                      cni_cuda_text_fn text, const void *payload)
{
  return cni_cuda_function_with(function, d, key, entry, maths, NULL, text, payload);
}

/* ---- launching ---- */

int cni_cuda_launched(cni_cuda_device *d, const char *name)
{
  unsigned at = __atomic_fetch_add(&d->launched, 1, __ATOMIC_RELAXED) % CNI_CUDA_RECENT;
  __atomic_store_n(&d->recent[at], name, __ATOMIC_RELAXED);
  return cni_cuda_waits ? cni_cuda_finish(d) : CN_OK;
}

/* May the kernel begin before what is queued in front of it has ended? */
static bool begins_early(const cni_cuda_device *d, const cni_cuda_grid *grid)
{
  return grid->early && d->clusters && cni_cuda_records(d);
}

/* early: see begins_early. */
static CUresult launch_as(CUfunction function, const cni_cuda_grid *grid, bool early, CUstream stream, void **arguments)
{
  CUlaunchAttribute attributes[2];
  CUlaunchConfig config;
  memset(attributes, 0, sizeof attributes);
  memset(&config, 0, sizeof config);
  if (early) {
    CUlaunchAttribute *a = &attributes[config.numAttrs++];
    a->id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    a->value.programmaticStreamSerializationAllowed = 1;
  }
  if (grid->cluster > 1) {
    CUlaunchAttribute *a = &attributes[config.numAttrs++];
    a->id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    a->value.clusterDim.x = (unsigned)grid->cluster;
    a->value.clusterDim.y = a->value.clusterDim.z = 1;
  }
  config.gridDimX = (unsigned)grid->x;
  config.gridDimY = (unsigned)(grid->y ? grid->y : 1);
  config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.blockDimX = (unsigned)grid->threads;
  config.sharedMemBytes = (unsigned)grid->shared;
  config.hStream = stream;
  config.attrs = attributes;
  return cni_cuda_driver()->cuLaunchKernelEx(&config, function, arguments, NULL);
}

/* 48 KB are every kernel's, what its text declares among them. */
enum { OWN_SHARED = 32 << 10 };

int cni_cuda_launch(cni_cuda_device *d, const char *name, CUfunction function, cni_cuda_grid grid, void *argument)
{
  const cni_cuda_driver_table *cu = cni_cuda_driver();
  void *arguments[] = {argument};
  CUresult result = CUDA_SUCCESS;
  if (cni_cuda_looks()) return CN_OK;
  if (grid.shared > OWN_SHARED) /* more than every architecture has must be asked for */
    result = cu->cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)grid.shared);
  if (result == CUDA_SUCCESS && grid.carveout)
    result = cu->cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, grid.carveout);
  bool early = begins_early(d, &grid);
  if (result == CUDA_SUCCESS && (early || grid.cluster > 1)) {
    cni_cuda_now(d)->early |= early;
    result = launch_as(function, &grid, early, cni_cuda_now(d)->stream, arguments);
  } else if (result == CUDA_SUCCESS)
    result = cu->cuLaunchKernel(function, (unsigned)grid.x, (unsigned)(grid.y ? grid.y : 1), 1, (unsigned)grid.threads,
                                1, 1, (unsigned)grid.shared, cni_cuda_now(d)->stream, arguments, NULL);
  int status = cni_cuda_check(result, name);
  return status ? status : cni_cuda_launched(d, name);
}
