/* dnn.c: see dnn.h. Of a graph's engines the first whose plan finalizes is taken. A plan's text is kept on disk under
 * its key, cuDNN's version and the device, so that a later process neither asks nor compiles. */
#include "dnn.h"

#ifdef CNI_HAVE_CUDNN_H
#include <stdio.h>
#include <string.h>

enum { FEWEST_SLOTS = 256, MOST_SLOTS = 1 << 15 };

typedef struct slot {
  uint64_t key; /* 0: empty */
  cni_dnn_plan plan;
} slot;

/* A table that is at most half full. A plan stays for good: another thread may be about to run it, and a recorded graph
 * launches the kernels that it owns. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static slot *slots;
static size_t nslots, nplans;
static cudnnHandle_t handles[CNI_CUDA_DEVICES];

/* ---- plans ---- */

static cudnnHandle_t handle_of(cni_cuda_device *d)
{
  const cni_cuda_dnn_table *dnn = cni_cuda_dnn();
  cudnnHandle_t *h = &handles[d->index];
  if (*h || !dnn) return *h;
  if (dnn->cudnnCreate(h) != CUDNN_STATUS_SUCCESS) *h = NULL;
  return *h;
}

static bool read_workspace(cni_dnn_plan *p)
{
  int64_t n = 0;
  cudnnStatus_t s = cni_cuda_dnn()->cudnnBackendGetAttribute(p->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                                             CUDNN_TYPE_INT64, 1, &n, &p->workspace);
  return s == CUDNN_STATUS_SUCCESS;
}

/* One engine's plan. False: it is of no use. */
static bool try_config(cni_dnn_plan *p, cudnnHandle_t h, cudnnBackendDescriptor_t config)
{
  const cni_cuda_dnn_table *dnn = cni_cuda_dnn();
  if (dnn->cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &p->plan) != CUDNN_STATUS_SUCCESS)
    return false;
  cudnnStatus_t s = dnn->cudnnBackendSetAttribute(p->plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &h);
  if (s == CUDNN_STATUS_SUCCESS)
    s = dnn->cudnnBackendSetAttribute(p->plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                      1, &config);
  if (s == CUDNN_STATUS_SUCCESS) s = dnn->cudnnBackendFinalize(p->plan);
  if (s == CUDNN_STATUS_SUCCESS && read_workspace(p)) return true;
  dnn->cudnnBackendDestroyDescriptor(p->plan);
  p->plan = NULL;
  return false;
}

/* Does the engine of a config round float32 inputs, to TF32 or to 16 bits? */
static bool rounds(cudnnBackendDescriptor_t config)
{
  const cni_cuda_dnn_table *dnn = cni_cuda_dnn();
  cudnnBackendDescriptor_t engine = NULL;
  cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  int64_t n = 0;
  bool found = true; /* what cannot be asked is not trusted */
  if (dnn->cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) != CUDNN_STATUS_SUCCESS) return true;
  if (dnn->cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n,
                                    &engine) == CUDNN_STATUS_SUCCESS &&
      dnn->cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                    CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &n, notes) == CUDNN_STATUS_SUCCESS) {
    found = false;
    for (int64_t i = 0; i < n; i++)
      found = found || notes[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE ||
              notes[i] == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS;
  }
  dnn->cudnnBackendDestroyDescriptor(engine);
  return found;
}

/* The first engine that gives a plan. */
static void choose(cni_dnn_plan *p, cni_dnn_graph *g, cudnnHandle_t h)
{
  cudnnBackendDescriptor_t configs[CNI_DNN_ENGINES];
  int n = cni_dnn_engines(g, h, NULL, configs);
  for (int i = 0; i < n && !p->plan; i++)
    if (!g->strict || !rounds(configs[i])) try_config(p, h, configs[i]);
  while (n) cni_cuda_dnn()->cudnnBackendDestroyDescriptor(configs[--n]);
}

/* ---- plans on disk ---- */

static void file_name(char *name, size_t size, uint64_t key, cni_cuda_device *d)
{
  char device[128] = "";
  int driver = 0;
  size_t version = cni_cuda_dnn()->cudnnGetVersion();
  cni_cuda_driver()->cuDeviceGetName(device, sizeof device, d->id);
  cni_cuda_driver()->cuDriverGetVersion(&driver);
  key = cn_hash_more(key, &version, sizeof version);
  key = cn_hash_more(key, &driver, sizeof driver);
  key = cn_hash_more(key, device, strlen(device));
  snprintf(name, size, "cudnn-%016llx.json", (unsigned long long)key);
}

/* The plan of a text. */
static bool read_plan(cni_dnn_plan *p, cudnnHandle_t h, const char *text, size_t size)
{
  const cni_cuda_dnn_table *dnn = cni_cuda_dnn();
  cudnnStatus_t s = dnn->cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &p->plan);
  if (s != CUDNN_STATUS_SUCCESS) p->plan = NULL;
  if (p->plan) s = dnn->cudnnBackendSetAttribute(p->plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &h);
  if (p->plan && s == CUDNN_STATUS_SUCCESS)
    s = dnn->cudnnBackendSetAttribute(p->plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                      (int64_t)size, text);
  if (p->plan && s == CUDNN_STATUS_SUCCESS) s = dnn->cudnnBackendFinalize(p->plan);
  if (p->plan && s == CUDNN_STATUS_SUCCESS && read_workspace(p)) return true;
  if (p->plan) dnn->cudnnBackendDestroyDescriptor(p->plan);
  p->plan = NULL;
  return false;
}

/* Its text, kept on disk too; owned. NULL, without an error: there is none. */
static char *write_plan(const cni_dnn_plan *p, const char *name, size_t *size)
{
  const cni_cuda_dnn_table *dnn = cni_cuda_dnn();
  int64_t n = 0, got = 0;
  if (dnn->cudnnBackendGetAttribute(p->plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, 0, &n,
                                    NULL) != CUDNN_STATUS_SUCCESS ||
      n <= 0)
    return NULL;
  char *text = cni_cuda_host->memory(*size = (size_t)n);
  if (text && dnn->cudnnBackendGetAttribute(p->plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, n,
                                            &got, text) == CUDNN_STATUS_SUCCESS) {
    cni_cuda_host->cache_store(name, text, *size);
    return text;
  }
  if (text) cni_cuda_host->free_memory(text, *size);
  return NULL;
}

static bool load(cni_dnn_plan *p, cudnnHandle_t h, const char *name)
{
  size_t size = 0;
  char *text = cni_cuda_host->cache_load(name, &size);
  bool done = text && read_plan(p, h, text, size);
  if (text) cni_cuda_host->free_memory(text, size);
  return done;
}

/* A plan of what `describe` adds, and its text (owned, or NULL). */
static char *build(cni_dnn_plan *p, cudnnHandle_t h, const char *name, cni_dnn_describe_fn describe,
                   const void *payload, size_t *size)
{
  cni_dnn_graph g = {.status = CUDNN_STATUS_SUCCESS};
  char *text = NULL;
  describe(&g, payload);
  choose(p, &g, h);
  if (!p->plan) {
    char why[400] = "";
    cni_cuda_dnn()->cudnnGetLastErrorString(why, sizeof why);
    cni_cuda_host->log(CN_LOG_DEBUG, "cuda: cuDNN has no plan: %s; %s", cni_cuda_dnn()->cudnnGetErrorString(g.status),
                       why);
  } else {
    text = write_plan(p, name, size);
  }
  cni_dnn_drop(&g);
  return text;
}

static void make(cni_dnn_plan *p, cni_cuda_device *d, uint64_t key, cni_dnn_describe_fn describe, const void *payload)
{
  char name[64];
  size_t size = 0;
  cudnnHandle_t h = handle_of(d);
  p->refused = true;
  if (!h) return;
  file_name(name, sizeof name, key, d);
  if (!load(p, h, name)) {
    char *text = build(p, h, name, describe, payload, &size);
    if (text) cni_cuda_host->free_memory(text, size);
  }
  p->refused = !p->plan;
}

static slot *slot_of(slot *table, size_t n, uint64_t key)
{
  size_t i = (size_t)(key >> 8) % n;
  while (table[i].key && table[i].key != key) i = (i + 1) % n;
  return &table[i];
}

/* Whether there is room for one more plan: the table doubles, up to its bound. */
static bool grow(void)
{
  size_t n = nslots ? nslots * 2 : FEWEST_SLOTS;
  if (nplans * 2 < nslots) return true;
  slot *more = n <= MOST_SLOTS ? cni_cuda_host->memory(n * sizeof *more) : NULL;
  if (!more) return false;
  memset(more, 0, n * sizeof *more);
  for (size_t i = 0; i < nslots; i++)
    if (slots[i].key) *slot_of(more, n, slots[i].key) = slots[i];
  if (slots) cni_cuda_host->free_memory(slots, nslots * sizeof *slots);
  slots = more;
  nslots = n;
  return true;
}

static uint64_t key_on(const cni_cuda_device *d, uint64_t key)
{
  return cn_hash_more(key, &d->index, sizeof d->index) | 1;
}

/* ---- ahead (ahead.c) ---- */

enum { MOST_PAYLOAD = 1024 };
/* What another thread makes a plan of. */
typedef struct wanted {
  uint64_t key;
  cni_dnn_describe_fn describe;
  _Alignas(16) char payload[MOST_PAYLOAD];
} wanted;

/* With a handle of its own, since each is one thread's at a time: plans are built side by side. A plan's text is soon
 * made a plan of the device's handle. */
static char *build_apart(const wanted *w, const char *name, size_t *size)
{
  const cni_cuda_dnn_table *dnn = cni_cuda_dnn();
  cni_dnn_plan p = {.plan = NULL};
  cudnnHandle_t h;
  if (dnn->cudnnCreate(&h) != CUDNN_STATUS_SUCCESS) return NULL;
  char *text = build(&p, h, name, w->describe, w->payload, size);
  if (p.plan) dnn->cudnnBackendDestroyDescriptor(p.plan);
  dnn->cudnnDestroy(h);
  return text;
}

static void make_ahead(cni_cuda_device *d, void *payload)
{
  const wanted *w = payload;
  char name[64];
  size_t size = 0;
  file_name(name, sizeof name, w->key, d);
  char *text = cni_cuda_host->cache_load(name, &size);
  if (!text) text = build_apart(w, name, &size);
  pthread_mutex_lock(&lock);
  cni_dnn_plan p = {.plan = NULL};
  uint64_t here = key_on(d, w->key);
  if (text && grow() && !slot_of(slots, nslots, here)->key && handle_of(d) && read_plan(&p, handle_of(d), text, size)) {
    *slot_of(slots, nslots, here) = (slot){here, p};
    nplans++;
  }
  pthread_mutex_unlock(&lock);
  if (text) cni_cuda_host->free_memory(text, size);
}

/* payload: `size` bytes. */
static int look_for(uint64_t key, cni_dnn_describe_fn describe, const void *payload, size_t size)
{
  wanted w = {.key = key, .describe = describe};
  if (size > sizeof w.payload) return CN_OK; /* it is made when it is needed */
  memcpy(w.payload, payload, size);
  return cni_cuda_look_for(key, make_ahead, &w, sizeof w);
}

int cni_dnn_find(cni_dnn_plan *plan, cni_cuda_device *d, const void *key, size_t size, cni_dnn_describe_fn describe)
{
  if (!cni_cuda_dnn()) return CN_REFUSED;
  uint64_t h = cn_hash_more(CN_HASH_BEGIN, key, size), here = key_on(d, h);
  pthread_mutex_lock(&lock);
  slot *found = nslots ? slot_of(slots, nslots, here) : NULL;
  bool looks = cni_cuda_looks() && !(found && found->key);
  *plan = (cni_dnn_plan){.refused = !looks};
  if (found && found->key) {
    *plan = found->plan;
  } else if (!looks && grow()) {
    make(plan, d, h, describe, key);
    *slot_of(slots, nslots, here) = (slot){here, *plan};
    nplans++;
  }
  pthread_mutex_unlock(&lock);
  if (looks) return look_for(h, describe, key, size);
  return plan->refused ? CN_REFUSED : CN_OK;
}

int cni_dnn_run(cni_cuda_device *d, const char *name, const cni_dnn_plan *plan, int n, const int64_t *uids,
                void *const *pointers)
{
  const cni_cuda_dnn_table *dnn = cni_cuda_dnn();
  cudnnBackendDescriptor_t pack = NULL;
  if (cni_cuda_looks()) return CN_OK;
  void *workspace = plan->workspace > 0 ? cni_cuda_scratch(d, name, (size_t)plan->workspace) : NULL;
  if (plan->workspace > 0 && !workspace) return CN_ERR_MEMORY;
  cudnnStatus_t s = dnn->cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
  if (s == CUDNN_STATUS_SUCCESS)
    s = dnn->cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, n, pointers);
  if (s == CUDNN_STATUS_SUCCESS)
    s = dnn->cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n, uids);
  if (s == CUDNN_STATUS_SUCCESS)
    s = dnn->cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
  if (s == CUDNN_STATUS_SUCCESS) s = dnn->cudnnBackendFinalize(pack);
  if (s == CUDNN_STATUS_SUCCESS) {
    pthread_mutex_lock(&lock); /* a handle is one thread's at a time */
    s = dnn->cudnnSetStream(handles[d->index], (cudaStream_t)cni_cuda_now(d)->stream);
    if (s == CUDNN_STATUS_SUCCESS) s = dnn->cudnnBackendExecute(handles[d->index], plan->plan, pack);
    pthread_mutex_unlock(&lock);
  }
  if (pack) dnn->cudnnBackendDestroyDescriptor(pack);
  if (workspace) cni_cuda_free(d, workspace, (size_t)plan->workspace);
  if (s != CUDNN_STATUS_SUCCESS)
    return cni_cuda_host->fail(CN_ERR_DEVICE, "%s: cuDNN: %s", name, dnn->cudnnGetErrorString(s));
  return cni_cuda_launched(d, name);
}
#endif
