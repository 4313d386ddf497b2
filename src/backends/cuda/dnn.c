/* dnn.c: see dnn.h. Of a graph's engines the first whose plan finalizes is taken; for work that is worth it several
 * are tried at its first run, beside a rival of ours if there is one, and the fastest stays. A plan's text is kept
 * on disk under its key, cuDNN's version and the device, and so is what became of a rival, so that a later process
 * neither asks, compiles nor tries. Where results must repeat the first engine that gives the same bits each time is
 * taken, so that no clock decides. */
#include "dnn.h"

#ifdef CNI_HAVE_CUDNN_H
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { FEWEST_SLOTS = 256, MOST_SLOTS = 1 << 15 };
enum {
  TRIED = 24,   /* engines, at most */
  ROUNDS = 3,   /* of REPEATS runs each; the best counts */
  REPEATS = 4,
  FILLER = 32 << 20, /* bytes to be cleared FILLERS times: meanwhile a round is queued as a whole */
  FILLERS = 8,
  MOST_WORKSPACE = 64 << 20
};
static const double MOST_SECONDS = 2; /* that this process spends on trying; the rest is tried by later ones */

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
  if (s == CUDNN_STATUS_SUCCESS && cni_dnn_read_workspace(p)) return true;
  dnn->cudnnBackendDestroyDescriptor(p->plan);
  p->plan = NULL;
  return false;
}

/* What is said about the engine of a config. */
typedef struct notes {
  bool rounds;   /* it has Tensor Cores multiply, so float32 inputs are rounded to TF32, or to 16 bits */
  bool varies;   /* its results do, from run to run */
  bool compiles; /* code, when its plan is finalized */
} notes;

static notes notes_of(cudnnBackendDescriptor_t config)
{
  const cni_cuda_dnn_table *dnn = cni_cuda_dnn();
  cudnnBackendDescriptor_t engine = NULL;
  cudnnBackendNumericalNote_t numbers[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  cudnnBackendBehaviorNote_t ways[CUDNN_BEHAVIOR_NOTE_TYPE_COUNT];
  int64_t n = 0, m = 0;
  notes found = {true, true, true}; /* what cannot be asked is not trusted */
  if (dnn->cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) != CUDNN_STATUS_SUCCESS) return found;
  if (dnn->cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n,
                                    &engine) == CUDNN_STATUS_SUCCESS &&
      dnn->cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                    CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &n, numbers) == CUDNN_STATUS_SUCCESS &&
      dnn->cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
                                    CUDNN_BEHAVIOR_NOTE_TYPE_COUNT, &m, ways) == CUDNN_STATUS_SUCCESS) {
    found = (notes){false, false, false};
    for (int64_t i = 0; i < n; i++) {
      found.rounds = found.rounds || numbers[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE ||
                     numbers[i] == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS;
      found.varies = found.varies || numbers[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
    }
    for (int64_t i = 0; i < m; i++)
      found.compiles = found.compiles || ways[i] == CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
  }
  dnn->cudnnBackendDestroyDescriptor(engine);
  return found;
}

static bool allowed(const cni_dnn_graph *g, cudnnBackendDescriptor_t config)
{
  if (!g->strict && !g->repeats) return true;
  notes about = notes_of(config);
  return !(g->strict && about.rounds) && !(g->repeats && about.varies);
}

/* The plan of one engine that is allowed. False: there is none. */
static bool take_config(cni_dnn_plan *p, const cni_dnn_graph *g, cudnnHandle_t h, cudnnBackendDescriptor_t config)
{
  if (!allowed(g, config) || !try_config(p, h, config)) return false;
  if (!g->as_they_lie || p->workspace == 0 || !notes_of(config).rounds) return true;
  cni_cuda_dnn()->cudnnBackendDestroyDescriptor(p->plan);
  p->plan = NULL;
  return false;
}

/* The first engine that gives a plan. */
static void choose(cni_dnn_plan *p, cni_dnn_graph *g, cudnnHandle_t h)
{
  cudnnBackendDescriptor_t configs[CNI_DNN_ENGINES];
  int n = cni_dnn_engines(g, h, NULL, configs);
  for (int i = 0; i < n && !p->plan; i++) take_config(p, g, h, configs[i]);
  while (n) cni_cuda_dnn()->cudnnBackendDestroyDescriptor(configs[--n]);
}

/* ---- plans by their keys ---- */

/* A plan of what `describe` adds, and its text (owned, or NULL). */
static char *build(cni_dnn_plan *p, cni_cuda_device *d, cudnnHandle_t h, uint64_t key, cni_dnn_describe_fn describe,
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
    text = cni_dnn_store(p, key, d, size);
  }
  cni_dnn_drop(&g);
  return text;
}

static void make(cni_dnn_plan *p, cni_cuda_device *d, uint64_t key, cni_dnn_describe_fn describe, const void *payload)
{
  size_t size = 0;
  cudnnHandle_t h = handle_of(d);
  p->refused = true;
  if (!h) return;
  char *text = cni_dnn_load(key, d, &size, p);
  if (!text || !cni_dnn_read_plan(p, h, text, size)) {
    if (text) cni_cuda_host->free_memory(text, size);
    p->settled = p->beaten = false;
    text = build(p, d, h, key, describe, payload, &size);
  }
  if (text) cni_cuda_host->free_memory(text, size);
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
static char *build_apart(const wanted *w, cni_cuda_device *d, size_t *size)
{
  const cni_cuda_dnn_table *dnn = cni_cuda_dnn();
  cni_dnn_plan p = {.plan = NULL};
  cudnnHandle_t h;
  if (dnn->cudnnCreate(&h) != CUDNN_STATUS_SUCCESS) return NULL;
  char *text = build(&p, d, h, w->key, w->describe, w->payload, size);
  if (p.plan) dnn->cudnnBackendDestroyDescriptor(p.plan);
  dnn->cudnnDestroy(h);
  return text;
}

static void make_ahead(cni_cuda_device *d, void *payload)
{
  const wanted *w = payload;
  size_t size = 0;
  cni_dnn_plan p = {.plan = NULL};
  char *text = cni_dnn_load(w->key, d, &size, &p);
  if (!text) text = build_apart(w, d, &size);
  pthread_mutex_lock(&lock);
  uint64_t here = key_on(d, w->key);
  if (text && grow() && !slot_of(slots, nslots, here)->key && handle_of(d) &&
      cni_dnn_read_plan(&p, handle_of(d), text, size)) {
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

/* ---- runs ---- */

/* What one run is given: an order that belongs to it, and its workspace. */
static cudnnStatus_t make_pack(cudnnBackendDescriptor_t *pack, const cni_dnn_operands *o, void *workspace)
{
  const cni_cuda_dnn_table *dnn = cni_cuda_dnn();
  cudnnStatus_t s = dnn->cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, pack);
  if (s != CUDNN_STATUS_SUCCESS) *pack = NULL;
  if (s == CUDNN_STATUS_SUCCESS)
    s = dnn->cudnnBackendSetAttribute(*pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, o->n,
                                      o->pointers);
  if (s == CUDNN_STATUS_SUCCESS)
    s = dnn->cudnnBackendSetAttribute(*pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, o->n, o->uids);
  if (s == CUDNN_STATUS_SUCCESS)
    s = dnn->cudnnBackendSetAttribute(*pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
  return s == CUDNN_STATUS_SUCCESS ? dnn->cudnnBackendFinalize(*pack) : s;
}

/* Queues a run. Holds the lock: a handle is one thread's at a time. */
static cudnnStatus_t queue(cni_cuda_device *d, const cni_dnn_plan *plan, cudnnBackendDescriptor_t pack)
{
  const cni_cuda_dnn_table *dnn = cni_cuda_dnn();
  cudnnStatus_t s = dnn->cudnnSetStream(handles[d->index], (cudaStream_t)cni_cuda_now(d)->stream);
  return s == CUDNN_STATUS_SUCCESS ? dnn->cudnnBackendExecute(handles[d->index], plan->plan, pack) : s;
}

int cni_dnn_run(cni_cuda_device *d, const char *name, const cni_dnn_plan *plan, const cni_dnn_operands *o)
{
  const cni_cuda_dnn_table *dnn = cni_cuda_dnn();
  cudnnBackendDescriptor_t pack = NULL;
  if (cni_cuda_looks()) return CN_OK;
  void *workspace = plan->workspace > 0 ? cni_cuda_scratch(d, name, (size_t)plan->workspace) : NULL;
  if (plan->workspace > 0 && !workspace) return CN_ERR_MEMORY;
  cudnnStatus_t s = make_pack(&pack, o, workspace);
  if (s == CUDNN_STATUS_SUCCESS) {
    pthread_mutex_lock(&lock);
    s = queue(d, plan, pack);
    pthread_mutex_unlock(&lock);
  }
  if (pack) dnn->cudnnBackendDestroyDescriptor(pack);
  if (workspace) cni_cuda_free(d, workspace, (size_t)plan->workspace);
  if (s != CUDNN_STATUS_SUCCESS)
    return cni_cuda_host->fail(CN_ERR_DEVICE, "%s: cuDNN: %s", name, dnn->cudnnGetErrorString(s));
  return cni_cuda_launched(d, name);
}

/* ---- trying ---- */

/* A run of trials: what they are given, and what they are timed with. */
typedef struct trial {
  cni_cuda_device *d;
  const cni_dnn_operands *operands;
  const cni_dnn_rival *rival;
  void *filler; /* FILLER bytes */
  CUevent begin, end;
  int status; /* the rival's */
} trial;

/* What is timed: a plan with what its runs are given, or (NULL) the rival. */
typedef struct entrant {
  const cni_dnn_plan *plan;
  cudnnBackendDescriptor_t pack;
} entrant;

static bool start(trial *t, const entrant *e)
{
  if (e->plan) return queue(t->d, e->plan, e->pack) == CUDNN_STATUS_SUCCESS;
  if (!t->status) t->status = t->rival->run(t->rival->payload);
  return !t->status;
}

/* Milliseconds of one run in a round; negative: it does not run. The device clears memory first, so that all of the
 * round is queued when its clock begins: short kernels are timed, not the calls that queue them. */
static float time_round(trial *t, const entrant *e)
{
  const cni_cuda_driver_table *cu = cni_cuda_driver();
  CUstream stream = cni_cuda_now(t->d)->stream;
  float took = -1;
  bool runs = true;
  for (int i = 0; i < FILLERS && runs; i++)
    runs = cu->cuMemsetD8Async((CUdeviceptr)(uintptr_t)t->filler, 0, FILLER, stream) == CUDA_SUCCESS;
  runs = runs && cu->cuEventRecord(t->begin, stream) == CUDA_SUCCESS;
  for (int i = 0; i < REPEATS && runs; i++) runs = start(t, e);
  runs = runs && cu->cuEventRecord(t->end, stream) == CUDA_SUCCESS && cu->cuEventSynchronize(t->end) == CUDA_SUCCESS &&
         cu->cuEventElapsedTime(&took, t->begin, t->end) == CUDA_SUCCESS;
  return runs ? took / REPEATS : -1;
}

/* ... of the best round; `best`: that of the fastest so far, or negative. */
static float time_rounds(trial *t, const entrant *e, float best)
{
  float least = -1;
  if (!start(t, e)) return -1; /* which loads its code */
  for (int i = 0; i < ROUNDS && !(best >= 0 && least > 2 * best); i++) {
    float took = time_round(t, e);
    if (took < 0) break;
    if (least < 0 || took < least) least = took;
  }
  return least;
}

static float time_plan(trial *t, const cni_dnn_plan *plan, float best)
{
  entrant e = {plan, NULL};
  size_t bytes = (size_t)plan->workspace;
  float least = -1;
  if (bytes > MOST_WORKSPACE) return -1;
  void *workspace = bytes ? cni_cuda_alloc(t->d, bytes) : NULL;
  if ((workspace || !bytes) && make_pack(&e.pack, t->operands, workspace) == CUDNN_STATUS_SUCCESS)
    least = time_rounds(t, &e, best);
  if (e.pack) cni_cuda_dnn()->cudnnBackendDestroyDescriptor(e.pack);
  if (workspace) cni_cuda_free(t->d, workspace, bytes);
  return least;
}

/* The fastest of the engines, where one is faster than `plan`. Returns its milliseconds; negative: they do not run. */
static float try_engines(cni_dnn_plan *plan, trial *t, cni_dnn_graph *g)
{
  cudnnBackendDescriptor_t configs[CNI_DNN_ENGINES];
  cudnnHandle_t h = handles[t->d->index];
  int n = cni_dnn_engines(g, h, NULL, configs), tried = 1; /* plan is one of them */
  float best = time_plan(t, plan, -1);
  plan->first = plan->plan;
  for (int i = 0; i < n && tried < TRIED && best >= 0; i++) {
    cni_dnn_plan p = {.settled = true, .first = plan->first};
    if (notes_of(configs[i]).compiles || !take_config(&p, g, h, configs[i])) continue;
    float took = time_plan(t, &p, best);
    tried++;
    cudnnBackendDescriptor_t slower = p.plan;
    if (took >= 0 && took < best) {
      best = took;
      slower = plan->plan;
      *plan = p;
    }
    if (slower != plan->first) cni_cuda_dnn()->cudnnBackendDestroyDescriptor(slower);
  }
  while (n) cni_cuda_dnn()->cudnnBackendDestroyDescriptor(configs[--n]);
  return best;
}

static double seconds(void)
{
  struct timespec now = {0, 0};
  timespec_get(&now, TIME_UTC);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Times the rival, where there is one, and says what comes out. best: milliseconds of the fastest engine. */
static void try_rival(cni_dnn_plan *plan, trial *t, float best, char *how, size_t size)
{
  const entrant rival = {NULL, NULL};
  char name[200] = "";
  if (!t->rival) return;
  float took = time_rounds(t, &rival, best);
  plan->beaten = took >= 0 && (best < 0 || took < best);
  t->rival->say(name, sizeof name, t->rival->payload);
  snprintf(how, size, "%s takes %.2f us, cuDNN %.2f us", name, 1e3 * (double)took, 1e3 * (double)best);
  cni_cuda_host->log(CN_LOG_DEBUG, "cuda: %s", how);
}

/* Holds the lock. whole: every engine, and what comes out is kept on disk; else the plan's own. */
static void try_all(cni_dnn_plan *plan, trial *t, uint64_t key, cni_dnn_describe_fn describe, const void *payload,
                    bool whole)
{
  cni_dnn_graph g = {.status = CUDNN_STATUS_SUCCESS};
  char how[300];
  size_t size = 0;
  if (whole) describe(&g, payload);
  try_rival(plan, t, whole ? try_engines(plan, t, &g) : time_plan(t, plan, -1), how, sizeof how);
  cni_dnn_drop(&g);
  plan->settled = true;
  if (whole && t->rival && !t->status) cni_dnn_store_beaten(key, t->d, plan->beaten, how);
  char *text = whole ? cni_dnn_store(plan, key, t->d, &size) : NULL;
  if (text) cni_cuda_host->free_memory(text, size);
  slot_of(slots, nslots, key_on(t->d, key))->plan = *plan;
}

int cni_dnn_settle(cni_dnn_plan *plan, cni_cuda_device *d, const void *key, size_t size, cni_dnn_describe_fn describe,
                   const cni_dnn_operands *operands, const cni_dnn_rival *rival)
{
  static double spent; /* guarded by the lock */
  const cni_cuda_driver_table *cu = cni_cuda_driver();
  trial t = {.d = d, .operands = operands, .rival = rival};
  if (plan->settled || !cu->cuEventElapsedTime || (!cni_cuda_looks() && cni_cuda_records(d))) return CN_OK;
  pthread_mutex_lock(&lock);
  bool over = spent >= MOST_SECONDS;
  pthread_mutex_unlock(&lock);
  if (over && !rival) return CN_OK;
  int status = rival ? rival->run(rival->payload) : CN_OK; /* to have its code compiled takes none of that time */
  if (status || cni_cuda_looks()) return status;
  pthread_mutex_lock(&lock);
  double begin = seconds();
  if ((t.filler = cni_cuda_alloc(d, FILLER)) != NULL &&
      cu->cuEventCreate(&t.begin, CU_EVENT_DEFAULT) == CUDA_SUCCESS &&
      cu->cuEventCreate(&t.end, CU_EVENT_DEFAULT) == CUDA_SUCCESS)
    try_all(plan, &t, cn_hash_more(CN_HASH_BEGIN, key, size), describe, key, !over);
  if (t.begin) cu->cuEventDestroy(t.begin);
  if (t.end) cu->cuEventDestroy(t.end);
  if (t.filler) cni_cuda_free(d, t.filler, FILLER);
  spent += seconds() - begin;
  pthread_mutex_unlock(&lock);
  return t.status;
}
#endif
