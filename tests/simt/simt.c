/* simt.c: a CUDA driver for tests on machines without a GPU: kernels are compiled for the CPU by the system's C++
 * compiler (nvrtc.c), and the threads of a block, or of the blocks of a cluster, take turns on one thread of the
 * process.
 *
 * Place in the flow: built with its neighbours as one shared library under the names of the vendor's (libcuda.so.1,
 * libnvrtc.so.13); a process that finds them first (LD_LIBRARY_PATH) runs the CUDA plugin unchanged. Invariants:
 * blocks, or clusters, run one after another, each thread until it meets a barrier, in an order that SIMT_ORDER says; a
 * barrier that some threads of its warp, block or cluster never reach is a reported error, not a hang. Of shared memory
 * only the dynamic part is a block's own in a cluster. */
#undef _FORTIFY_SOURCE /* its longjmp takes a jump to another stack, which is how threads take turns, for an error */
#define _GNU_SOURCE
#include <cuda.h>
#include <dlfcn.h>
#include <elf.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "simt_driver.h"

enum { MOST_THREADS = 1024, MOST_FIBERS = 4096, MOST_CLUSTER = 8 };
enum { MOST_FUNCTIONS = 4096 };
enum { STACK = 256 << 10, DYNAMIC = 256 << 10, MODULE = 1 << 20 };
/* Dynamic shared memory that kernels have as they are, beside what their text declares, and that they may ask for. */
enum { OWN_DYNAMIC = 40 << 10, MOST_DYNAMIC = 226 << 10, ASKED = 1024 };
#define EXPORT __attribute__((visibility("default")))

/* ---- threads of a block: fibers, those of a cluster's blocks one block after the other ---- */

typedef struct index3 {
  unsigned x, y, z;
} index3;
EXPORT struct {
  index3 thread, block, threads, blocks;
} simt_now;

typedef enum state { IDLE, READY, AT_BLOCK, AT_WARP, AT_CLUSTER } state;
typedef struct fiber {
  jmp_buf place;
  state state;
  bool born;
} fiber;

static fiber fibers[MOST_FIBERS];
static char *stacks;
static jmp_buf scheduler;
static ucontext_t birth, mother;
static unsigned current;
static void (*body)(void **);
static void **body_arguments;
static char rooms[MOST_FIBERS / 32][32][16];
static _Alignas(64) char dynamic_shared[MOST_CLUSTER][DYNAMIC];
static index3 first_block; /* of the cluster */
static bool failed;        /* a thread said so */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t known = PTHREAD_MUTEX_INITIALIZER; /* of functions: many threads load code */

EXPORT unsigned simt_block_of_cluster(void) { return current / simt_now.threads.x; }
EXPORT void *simt_dynamic_shared(void) { return dynamic_shared[simt_block_of_cluster()]; }
/* What lies in dynamic shared memory, as another block has it. */
EXPORT void *simt_at_block(const void *mine, unsigned block)
{
  return dynamic_shared[block] + ((const char *)mine - (char *)simt_dynamic_shared());
}
EXPORT void simt_fail(const char *why)
{
  fprintf(stderr, "simt: %s\n", why);
  failed = true;
}
EXPORT void *simt_warp_room(unsigned lane) { return rooms[current / 32][lane]; }

static void leave(state why)
{
  fibers[current].state = why;
  if (!_setjmp(fibers[current].place)) _longjmp(scheduler, 1);
}
EXPORT void simt_block_barrier(void) { leave(AT_BLOCK); }
EXPORT void simt_warp_barrier(void) { leave(AT_WARP); }
EXPORT void simt_cluster_barrier(void) { leave(AT_CLUSTER); }

static void live(void)
{
  for (;;) {
    body(body_arguments);
    leave(IDLE);
  }
}

static void resume(unsigned i)
{
  current = i;
  simt_now.thread = (index3){i % simt_now.threads.x, 0, 0};
  simt_now.block = first_block;
  simt_now.block.x += simt_block_of_cluster();
  if (_setjmp(scheduler)) return;
  if (fibers[i].born) _longjmp(fibers[i].place, 1);
  fibers[i].born = true;
  getcontext(&birth);
  birth.uc_stack.ss_sp = stacks + (size_t)i * STACK;
  birth.uc_stack.ss_size = STACK;
  birth.uc_link = NULL;
  makecontext(&birth, live, 0);
  swapcontext(&mother, &birth);
}

/* ---- in which order: as they are numbered, or, where SIMT_ORDER is a number above 0, another one each time, which
 * follows from it and from what was launched before: what depends on who comes first shows ---- */

EXPORT int simt_launches; /* so far: tests read it (dlsym) */

typedef struct order {
  uint64_t at, step, n;
} order;
static uint64_t drawn; /* the state of the generator; 0: not asked for */

static void find_order(void)
{
  const char *text = getenv("SIMT_ORDER");
  uint64_t seed = text ? strtoull(text, NULL, 10) : 0;
  drawn = seed ? (seed << 32 | (unsigned)simt_launches) * 0x9e3779b97f4a7c15u : 0;
}
static uint64_t draw(uint64_t below)
{
  drawn ^= drawn << 13, drawn ^= drawn >> 7, drawn ^= drawn << 17;
  return (drawn >> 11) % below;
}
/* All numbers below n, once each: from any of them, in steps that n has no factor of. */
static order order_of(uint64_t n)
{
  order o = {0, 1, n};
  if (!drawn || n < 2) return o;
  uint64_t a = 0, b;
  o.at = draw(n);
  do {
    o.step = b = 1 + draw(n);
    for (a = n; b;) { /* their greatest common divisor */
      uint64_t rest = a % b;
      a = b, b = rest;
    }
  } while (a != 1);
  return o;
}
static uint64_t next_of(order *o)
{
  uint64_t now = o->at;
  o->at = (now + o->step) % o->n;
  return now;
}

/* Those that wait at a barrier that all living ones of the range have reached go on. False: not all have. */
static bool release(unsigned begin, unsigned end, state barrier)
{
  for (unsigned i = begin; i < end; i++)
    if (fibers[i].state != IDLE && fibers[i].state != barrier) return false;
  for (unsigned i = begin; i < end; i++)
    if (fibers[i].state == barrier) fibers[i].state = READY;
  return true;
}

/* A warp as far as it goes. Returns how often a thread went on. */
static unsigned run_warp(unsigned begin, unsigned end)
{
  unsigned moved = 0, ran = 1;
  while (ran) {
    ran = 0;
    order lanes = order_of(end - begin);
    for (unsigned k = begin; k < end; k++) {
      unsigned i = begin + (unsigned)next_of(&lanes);
      if (fibers[i].state == READY) resume(i), ran++;
    }
    moved += ran;
    if (ran && !release(begin, end, AT_WARP)) break;
  }
  return moved;
}

/* A block's warps as far as each goes. Returns how often a thread went on. */
static unsigned run_block(unsigned begin, unsigned threads)
{
  unsigned moved = 0, end = begin + threads, warps = (threads + 31) / 32;
  order turns = order_of(warps);
  for (unsigned k = 0; k < warps; k++) {
    unsigned w = begin + 32 * (unsigned)next_of(&turns);
    moved += run_warp(w, w + 32 < end ? w + 32 : end);
  }
  release(begin, end, AT_BLOCK);
  return moved;
}

/* How many threads of a range have not ended. */
static unsigned alive_of(unsigned begin, unsigned end)
{
  unsigned alive = 0;
  for (unsigned i = begin; i < end; i++) alive += fibers[i].state != IDLE;
  return alive;
}

/* Blocks of so many threads each that see each other. */
static CUresult run_cluster(unsigned blocks, unsigned threads)
{
  const unsigned n = blocks * threads;
  failed = false;
  for (unsigned i = 0; i < n; i++) fibers[i].state = READY;
  for (;;) {
    unsigned moved = 0;
    bool ready = false;
    order turns = order_of(blocks);
    for (unsigned k = 0; k < blocks; k++) moved += run_block((unsigned)next_of(&turns) * threads, threads);
    if (!alive_of(0, n)) return failed ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS;
    release(0, n, AT_CLUSTER);
    for (unsigned i = 0; i < n; i++) ready = ready || fibers[i].state == READY;
    if (!moved && !ready) {
      fprintf(stderr, "simt: threads of a block wait at different barriers\n");
      for (unsigned i = 0; i < n; i++) fibers[i].born = false; /* their stacks are given up */
      return CUDA_ERROR_LAUNCH_FAILED;
    }
  }
}

/* One launch. */
typedef struct launch {
  CUfunction f;
  index3 grid;
  unsigned threads, shared;
  void *argument;   /* a struct; of a program's own kernel, which has `sizes`, the addresses of its arguments */
  unsigned cluster; /* blocks; 0: one */
} launch;

/* What kernels asked for. */
static struct asked {
  CUfunction f;
  size_t bytes;
} asked[ASKED];

static struct asked *asked_by(CUfunction f)
{
  int i = 0;
  while (i < ASKED - 1 && asked[i].f && asked[i].f != f) i++;
  asked[i].f = f;
  return &asked[i];
}
static bool may_have(CUfunction f, size_t bytes)
{
  pthread_mutex_lock(&known);
  bool may = bytes <= OWN_DYNAMIC || bytes <= asked_by(f)->bytes;
  pthread_mutex_unlock(&known);
  return may;
}

/* What kernels' arguments measure: a struct, or, up to a 0, each of a program's own kernel. */
static struct {
  CUfunction f;
  size_t size;
  const unsigned long *sizes;
} functions[MOST_FUNCTIONS];
static int nfunctions;

static size_t argument_size(CUfunction f)
{
  size_t size = 0;
  pthread_mutex_lock(&known);
  for (int i = nfunctions - 1; i >= 0 && !size; i--)
    if (functions[i].f == f) size = functions[i].size;
  pthread_mutex_unlock(&known);
  return size;
}
static const unsigned long *sizes_of(CUfunction f)
{
  const unsigned long *sizes = NULL;
  pthread_mutex_lock(&known);
  for (int i = nfunctions - 1; i >= 0 && !sizes; i--)
    if (functions[i].f == f) sizes = functions[i].sizes;
  pthread_mutex_unlock(&known);
  return sizes;
}

/* One block of memory for a graph: the struct, or addresses with what they point at behind them. */
static void *copy_arguments(CUfunction f, void *argument)
{
  const unsigned long *sizes = sizes_of(f);
  size_t n = argument_size(f), count = 0, bytes = 0;
  if (!sizes) return memcpy(malloc(n + 1), argument, n);
  for (; sizes[count]; count++) bytes += (sizes[count] + 15) / 16 * 16;
  void **made = malloc(count * 16 + bytes + 16);
  char *at = (char *)made + count * 16;
  for (size_t i = 0; i < count; at += (sizes[i] + 15) / 16 * 16, i++)
    made[i] = memcpy(at, ((void **)argument)[i], sizes[i]);
  return made;
}

static CUresult run_launch(const launch *l)
{
  __atomic_add_fetch(&simt_launches, 1, __ATOMIC_RELAXED);
  unsigned gx = l->grid.x, gy = l->grid.y, gz = l->grid.z, bx = l->threads, cluster = l->cluster ? l->cluster : 1;
  void *one[] = {l->argument}, **arguments = sizes_of(l->f) ? l->argument : one;
  if (bx > MOST_THREADS || !may_have(l->f, l->shared) || !gx || !gy || !gz) return CUDA_ERROR_INVALID_VALUE;
  if (cluster > MOST_CLUSTER || gx % cluster || cluster * bx > MOST_FIBERS) return CUDA_ERROR_INVALID_VALUE;
  simt_counts.clusters[cluster]++;
  simt_clock += simt_counts.launch_takes;
  CUresult result = CUDA_SUCCESS;
  pthread_mutex_lock(&lock);
  if (!stacks)
    stacks = mmap(NULL, (size_t)MOST_FIBERS * STACK, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  body = (void (*)(void **))(uintptr_t)l->f;
  body_arguments = arguments;
  simt_now.threads = (index3){bx, 1, 1};
  simt_now.blocks = (index3){gx, gy, gz};
  find_order();
  const uint64_t across = gx / cluster, plane = across * gy, all = plane * gz;
  order turns = order_of(all);
  for (uint64_t k = 0; k < all && result == CUDA_SUCCESS; k++) {
    uint64_t i = next_of(&turns);
    first_block = (index3){(unsigned)(i % across) * cluster, (unsigned)(i % plane / across), (unsigned)(i / plane)};
    result = run_cluster(cluster, bx);
  }
  pthread_mutex_unlock(&lock);
  return result;
}

/* ---- graphs: what is queued in a stream that captures, in order ---- */

enum { MOST_CAPTURES = 8 };
typedef enum kind { LAUNCH, SET, COPY, CALL, INNER } kind;
typedef struct step {
  kind kind;
  launch launch; /* its argument is the step's own */
  void *to;
  const void *from;
  size_t n;
  unsigned char value;
  int (*call)(const void *argument); /* a library's; `from` is its argument, n bytes, the step's own */
  struct graph *inner;
  struct step *next;
} step;
typedef struct graph {
  step *first, *last;
  int holders; /* its handle, what was instantiated of it, and graphs that it is part of */
} graph;

static struct {
  CUstream stream;
  graph *graph;
} captures[MOST_CAPTURES];

void simt_catch_up(void); /* simt_memory.c */
bool simt_captured(CUstream s);

static graph *captured_by(CUstream s)
{
  for (int i = 0; i < MOST_CAPTURES; i++)
    if (captures[i].graph && captures[i].stream == s) return captures[i].graph;
  return NULL;
}

bool simt_captured(CUstream s) { return captured_by(s) != NULL; }

static step *add_step(graph *g, step s)
{
  step *made = malloc(sizeof *made);
  *made = s;
  made->next = NULL;
  if (s.kind == LAUNCH) made->launch.argument = copy_arguments(s.launch.f, s.launch.argument);
  if (s.kind == CALL) made->from = memcpy(malloc(s.n + 1), s.from, s.n);
  if (g->last) g->last->next = made;
  else g->first = made;
  return g->last = made;
}

static CUresult run_graph(const graph *g)
{
  CUresult result = CUDA_SUCCESS;
  for (const step *s = g->first; s && result == CUDA_SUCCESS; s = s->next) {
    if (s->kind == LAUNCH) result = run_launch(&s->launch);
    else if (s->kind == INNER) result = run_graph(s->inner);
    else if (s->kind == CALL) result = s->call(s->from) == 0 ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_FAILED;
    else if (s->kind == SET) memset(s->to, s->value, s->n);
    else memmove(s->to, s->from, s->n);
  }
  return result;
}

/* Now, or kept by the stream's capture. */
static CUresult do_step(CUstream stream, step s)
{
  graph one = {NULL, NULL, 1}, *kept = captured_by(stream);
  if (kept) return add_step(kept, s) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  simt_catch_up();
  one.first = one.last = &s;
  s.next = NULL;
  return run_graph(&one);
}

static launch launch_of(const CUDA_KERNEL_NODE_PARAMS *p)
{
  return (launch){p->func, {p->gridDimX, p->gridDimY, p->gridDimZ}, p->blockDimX, p->sharedMemBytes,
                  p->kernelParams[0], 1};
}

EXPORT CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                               unsigned bz, unsigned shared, CUstream stream, void **arguments, void **extra)
{
  (void)extra;
  if (by * bz != 1) return CUDA_ERROR_INVALID_VALUE; /* threads have one dimension here */
  void *argument = sizes_of(f) ? (void *)arguments : arguments[0];
  return do_step(stream, (step){.kind = LAUNCH, .launch = {f, {gx, gy, gz}, bx, shared, argument, 1}});
}

EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **arguments, void **extra)
{
  launch l = {f, {c->gridDimX, c->gridDimY, c->gridDimZ}, c->blockDimX, c->sharedMemBytes, arguments[0], 1};
  (void)extra;
  for (unsigned i = 0; i < c->numAttrs; i++)
    if (c->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) l.cluster = c->attrs[i].value.clusterDim.x;
  return do_step(c->hStream, (step){.kind = LAUNCH, .launch = l});
}

/* For the libraries beside this one (dnn.c), which find it by name. */
EXPORT CUresult simt_queue(CUstream stream, int (*call)(const void *), const void *argument, size_t n);
EXPORT CUresult simt_queue(CUstream stream, int (*call)(const void *), const void *argument, size_t n)
{
  return do_step(stream, (step){.kind = CALL, .call = call, .from = argument, .n = n});
}

static graph *new_graph(void)
{
  graph *g = calloc(1, sizeof *g);
  if (g) g->holders = 1;
  return g;
}
static graph *hold(graph *g)
{
  g->holders++;
  return g;
}
static void let_go(graph *g)
{
  if (--g->holders > 0) return;
  for (step *s = g->first, *next; s; s = next) {
    next = s->next;
    if (s->kind == LAUNCH) free(s->launch.argument);
    if (s->kind == CALL) free((void *)(uintptr_t)s->from);
    if (s->kind == INNER) let_go(s->inner);
    free(s);
  }
  free(g);
}

EXPORT CUresult cuStreamBeginCapture_v2(CUstream s, CUstreamCaptureMode mode)
{
  (void)mode;
  for (int i = 0; i < MOST_CAPTURES; i++)
    if (!captures[i].graph) {
      captures[i].stream = s;
      captures[i].graph = new_graph();
      return captures[i].graph ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
  return CUDA_ERROR_INVALID_VALUE;
}
EXPORT CUresult cuStreamEndCapture(CUstream s, CUgraph *made)
{
  for (int i = 0; i < MOST_CAPTURES; i++)
    if (captures[i].graph && captures[i].stream == s) {
      *made = (CUgraph)captures[i].graph;
      captures[i].graph = NULL;
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_INVALID_VALUE;
}
EXPORT CUresult cuGraphCreate(CUgraph *g, unsigned flags)
{
  (void)flags;
  *g = (CUgraph)new_graph();
  return *g ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
EXPORT CUresult cuGraphDestroy(CUgraph g)
{
  let_go((graph *)g);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph g, const CUgraphNode *before, size_t n,
                                        const CUDA_KERNEL_NODE_PARAMS *p)
{
  (void)before, (void)n;
  *node = (CUgraphNode)add_step((graph *)g, (step){.kind = LAUNCH, .launch = launch_of(p)});
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph g, const CUgraphNode *before, size_t n,
                                         CUgraph inner)
{
  (void)before, (void)n;
  *node = (CUgraphNode)add_step((graph *)g, (step){.kind = INNER, .inner = hold((graph *)inner)});
  return CUDA_SUCCESS;
}
/* What is launched is the graph itself, which stays until it is destroyed, too. */
EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *made, CUgraph g, unsigned long long flags)
{
  (void)flags;
  *made = (CUgraphExec)hold((graph *)g);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec g, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *p)
{
  step *s = (step *)node;
  void *own = s->launch.argument;
  (void)g;
  s->launch = launch_of(p);
  s->launch.argument = memcpy(own, s->launch.argument, argument_size(p->func));
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphLaunch(CUgraphExec g, CUstream s)
{
  (void)s;
  simt_catch_up();
  return run_graph((const graph *)g);
}
EXPORT CUresult cuGraphExecDestroy(CUgraphExec g)
{
  let_go((graph *)g);
  return CUDA_SUCCESS;
}

/* Kernels find the functions above whatever way the plugin opened this library. */
void simt_show_symbols(void)
{
  Dl_info info;
  if (dladdr((void *)(uintptr_t)simt_show_symbols, &info)) dlopen(info.dli_fname, RTLD_NOW | RTLD_GLOBAL);
}

/* ---- half floats, exactly ---- */

EXPORT float simt_f16_value(uint16_t h)
{
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 0x3ff, bits;
  if (e == 31) bits = sign | 0x7f800000 | m << 13;
  else if (e) bits = sign | (e + 112) << 23 | m << 13;
  else {
    float f = (float)m * 0x1p-24f;
    return sign ? -f : f;
  }
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

EXPORT uint16_t simt_f16_bits(float f)
{
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  uint16_t sign = (uint16_t)(u >> 16 & 0x8000);
  u &= 0x7fffffff;
  if (u > 0x7f800000) return (uint16_t)(sign | 0x7e00);
  if (u >= 0x477ff000) return (uint16_t)(sign | 0x7c00);
  if (u >= 0x38800000) return (uint16_t)(sign | ((u + 0xc8000fff + (u >> 13 & 1)) >> 13)); /* normal: nearest even */
  float small;
  memcpy(&small, &u, sizeof small);
  small += 0.5f; /* its last bit is worth 2^-24, a subnormal's step */
  memcpy(&u, &small, sizeof u);
  return (uint16_t)(sign | (u - 0x3f000000));
}

/* ---- the driver ---- */

EXPORT CUresult cuGetErrorString(CUresult e, const char **text)
{
  *text = e == CUDA_ERROR_LAUNCH_FAILED ? "the emulated kernel failed" : "emulated driver";
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDriverGetVersion(int *version) { *version = 13000; return CUDA_SUCCESS; }
EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute a, CUdevice d)
{
  *value = a == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT                  ? simt_counts.units
           : a == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR          ? 9
           : a == CU_DEVICE_ATTRIBUTE_WARP_SIZE                         ? 32
           : a == CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK             ? MOST_THREADS
           : a == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID                        ? simt_place_of(d)
           : a == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK       ? OWN_DYNAMIC
           : a == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN ? MOST_DYNAMIC
                                                                        : 0;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceTotalMem_v2(size_t *n, CUdevice d) { size_t left; (void)d; return cuMemGetInfo_v2(&left, n); }
EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d)
{
  (void)d;
  *c = (CUcontext)&lock;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuCtxSetCurrent(CUcontext c) { (void)c; return CUDA_SUCCESS; }
EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s)
{
  return do_step(s, (step){.kind = COPY, .to = (void *)(uintptr_t)to, .from = (const void *)(uintptr_t)from, .n = n});
}
EXPORT CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t n, CUstream s)
{
  return do_step(s, (step){.kind = SET, .to = (void *)(uintptr_t)to, .value = value, .n = n});
}
EXPORT CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute a, int value)
{
  if (a != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return CUDA_SUCCESS;
  if (value > MOST_DYNAMIC) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&known);
  asked_by(f)->bytes = (size_t)value;
  pthread_mutex_unlock(&known);
  return CUDA_SUCCESS;
}

/* A pattern for mkstemp, where TMPDIR says. */
void simt_temporary(char *name, size_t size)
{
  const char *folder = getenv("TMPDIR");
  snprintf(name, size, "%.200s/simt.XXXXXX", folder && *folder ? folder : P_tmpdir);
}

/* The image is a shared library: its size is where its section headers end. */
EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
  const Elf64_Ehdr *head = image;
  char name[256]; /* one of its own: the loader knows libraries by name */
  simt_temporary(name, sizeof name);
  if (memcmp(image, ELFMAG, SELFMAG) != 0) return CUDA_ERROR_INVALID_IMAGE;
  size_t held = __atomic_load_n(&simt_counts.held, __ATOMIC_RELAXED);
  if (held + MODULE > simt_counts.memory) return CUDA_ERROR_OUT_OF_MEMORY;
  size_t size = head->e_shoff + (size_t)head->e_shnum * head->e_shentsize;
  int file = mkstemp(name);
  FILE *f = file >= 0 ? fdopen(file, "wb") : NULL;
  if (!f) return CUDA_ERROR_INVALID_IMAGE;
  size_t written = fwrite(image, 1, size, f);
  fclose(f);
  *module = written == size ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : NULL;
  if (!*module) fprintf(stderr, "simt: %s\n", dlerror());
  remove(name);
  return *module ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}
EXPORT CUresult cuModuleGetFunction(CUfunction *f, CUmodule module, const char *name)
{
  char entry[200];
  snprintf(entry, sizeof entry, "simt_%s", name); /* see write_source */
  *f = dlsym(module, entry);
  if (!*f) *f = dlsym(module, name);
  snprintf(entry, sizeof entry, "%s_size", name);
  const unsigned long *size = dlsym(module, entry);
  snprintf(entry, sizeof entry, "%s_sizes", name);
  const unsigned long *const *sizes = dlsym(module, entry);
  if (!*f || !(size || sizes)) return CUDA_ERROR_NOT_FOUND;
  pthread_mutex_lock(&known);
  bool room = nfunctions < MOST_FUNCTIONS;
  if (room) {
    functions[nfunctions].f = *f;
    functions[nfunctions].size = size ? *size : 0;
    functions[nfunctions++].sizes = sizes ? *sizes : NULL;
  }
  pthread_mutex_unlock(&known);
  return room ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
