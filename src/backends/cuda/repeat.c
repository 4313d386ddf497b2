/* repeat.c: work of many launches that calls of one kind queue again and again, as one CUDA graph.
 *
 * Place in the flow: kernels whose call queues hundreds of launches (recurrent.c) ask here first. A key that comes for
 * the first time is queued launch by launch, at the second it is recorded, later it is one launch. Invariants: recorded
 * work touches nothing but memory that is kept for it, where the caller puts what differs between calls; it is launched
 * in the device's own stream alone, so that calls that share its memory follow one another. */
#include <string.h>

#include "plugin.h"

enum { KEPT = 32 };

struct cni_cuda_repeated {
  uint64_t key; /* 0: none */
  uint64_t used;
  cni_cuda_device *d;
  void *memory;
  size_t bytes;
  CUgraph graph;
  CUgraphExec launched;
  bool refused; /* it could not be recorded */
};

static cni_cuda_repeated table[KEPT]; /* a new key takes the place that was not used for longest */
static uint64_t uses;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void drop(cni_cuda_repeated *r)
{
  if (r->launched) cni_cuda_graphs()->cuGraphExecDestroy(r->launched);
  if (r->graph) cni_cuda_graphs()->cuGraphDestroy(r->graph);
  if (r->memory) cni_cuda_memory_free(r->d->index, r->memory, r->bytes, NULL);
  *r = (cni_cuda_repeated){0};
}

/* The place of a key, and whether it was there already. */
static cni_cuda_repeated *place_of(cni_cuda_device *d, uint64_t key, bool *known)
{
  cni_cuda_repeated *r = table;
  for (int i = 0; i < KEPT; i++) {
    *known = table[i].key == key;
    if (*known) return &table[i];
    if (table[i].used < r->used) r = &table[i];
  }
  drop(r);
  r->key = key;
  r->d = d;
  return r;
}

cni_cuda_repeated *cni_cuda_repeat(cni_cuda_device *d, const void *key, size_t size, size_t bytes, void **memory)
{
  bool known = false;
  if (cni_cuda_records(d) || cni_cuda_now(d) != &d->own || cni_cuda_graphs_off()) return NULL;
  if (cni_cuda_blaslt() && !d->own.workspace) return NULL; /* which recorded products would need */
  uint64_t hash = cn_hash_more(CN_HASH_BEGIN, key, size);
  pthread_mutex_lock(&lock);
  cni_cuda_repeated *r = place_of(d, cn_hash_more(hash, &d->index, sizeof d->index) | 1, &known);
  r->used = ++uses;
  if (known && !r->refused && !r->memory) {
    r->bytes = bytes;
    r->memory = cni_cuda_alloc(d, bytes);
  }
  *memory = r->memory;
  if (known && !r->refused && r->memory) return r; /* the lock goes with it */
  pthread_mutex_unlock(&lock);
  return NULL;
}

/* Products meanwhile use the workspace of the stream in which the graph will run. */
static int record(cni_cuda_repeated *r, cni_cuda_steps_fn steps, void *payload)
{
  const cni_cuda_driver_table *cu = cni_cuda_driver();
  const cni_cuda_graph_table *cg = cni_cuda_graphs();
  cni_cuda_queue q;
  memset(&q, 0, sizeof q);
  q.workspace = r->d->own.workspace;
  r->refused = true;
  if (cu->cuStreamCreate(&q.stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) return CN_OK;
  int status = CN_OK;
  if (cg->cuStreamBeginCapture(q.stream, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS) {
    cni_cuda_record_into(r->d, &q);
    status = steps(payload);
    cni_cuda_record_into(r->d, NULL);
    if (cg->cuStreamEndCapture(q.stream, &r->graph) != CUDA_SUCCESS) r->graph = NULL;
    if (r->graph && cg->cuGraphInstantiate(&r->launched, r->graph, 0) != CUDA_SUCCESS) r->launched = NULL;
    r->refused = !r->launched;
  }
  pthread_mutex_lock(&r->d->lock);
  q.workspace = NULL; /* is not its own */
  cni_cuda_queue_join(r->d, &q);
  pthread_mutex_unlock(&r->d->lock);
  cu->cuStreamDestroy(q.stream);
  return status;
}

int cni_cuda_repeat_run(cni_cuda_repeated *r, const char *name, cni_cuda_steps_fn steps, void *payload, int status)
{
  cni_cuda_device *d = r->d;
  if (!status && !r->launched) status = record(r, steps, payload);
  if (!status)
    status = r->launched ? cni_cuda_check(cni_cuda_graphs()->cuGraphLaunch(r->launched, d->own.stream), name)
                         : steps(payload);
  pthread_mutex_unlock(&lock);
  return status ? status : cni_cuda_launched(d, name);
}

bool cni_cuda_repeat_trim(const cni_cuda_device *d, bool wait)
{
  bool any = false;
  if (wait) pthread_mutex_lock(&lock);
  else if (pthread_mutex_trylock(&lock)) return false;
  for (int i = 0; i < KEPT; i++)
    if (table[i].d == d) {
      any = any || table[i].memory;
      drop(&table[i]);
    }
  pthread_mutex_unlock(&lock);
  return any;
}
