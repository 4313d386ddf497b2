/* plugin.h: what the files of the CUDA plugin show each other: the vendor's functions, devices, memory,
 * compiled code.
 *
 * Place in the flow: libcairn loads libcairn_cuda.so at the first mention of the backend "cuda" and calls
 * cn_plugin_init (plugin.c). Invariants: cairn is seen through include/cairn/ext alone; the vendor's
 * libraries are opened when first needed (libraries.c), so the plugin loads, and counts no devices, on a machine
 * without them. The work of a stream is done in the order of the calls; a device has one of its own, which is meant
 * where a program asks for no other (queue.c). */
#ifndef CNI_CUDA_PLUGIN_H
#define CNI_CUDA_PLUGIN_H

#include <cairn/ext/hash.h>
#include <cairn/ext/host.h>
#include <cublasLt.h>
#include <cuda.h>
#include <nvrtc.h>
#include <pthread.h>

#include "code.h"

/* By its first name, which every driver has; a newer cuda.h means one that older drivers lack. */
#undef cuEventElapsedTime
CUresult cuEventElapsedTime(float *milliseconds, CUevent begin, CUevent end);

extern const cn_host *cni_cuda_host;
extern bool
    cni_cuda_waits; /* CAIRN_SYNC=1: after every launch, so that a failure is found where it happens */
extern bool cni_cuda_caches; /* not with CAIRN_CUDA_CACHING=0: a block is the driver's, no larger than asked for */

/* ---- the vendor's functions (libraries.c) ---- */
/* clang-format off */
#define CNI_CUDA_DRIVER(X) \
  X(cuInit) X(cuGetErrorString) X(cuDeviceGetCount) X(cuDeviceGet) X(cuDeviceGetName) \
  X(cuDeviceGetAttribute) X(cuDeviceTotalMem) X(cuDevicePrimaryCtxRetain) X(cuCtxSetCurrent) \
  X(cuMemGetInfo) X(cuMemAlloc) X(cuMemFree) X(cuMemHostAlloc) X(cuMemcpyHtoDAsync) X(cuMemcpyDtoHAsync) \
  X(cuStreamCreate) X(cuStreamSynchronize) X(cuCtxSynchronize) X(cuModuleLoadData) X(cuModuleGetFunction) \
  X(cuLaunchKernel) X(cuMemFreeHost) X(cuEventCreate) X(cuEventRecord) X(cuEventQuery) X(cuEventDestroy) \
  X(cuMemsetD8Async) X(cuMemcpyDtoDAsync) X(cuFuncSetAttribute) X(cuEventSynchronize) X(cuStreamDestroy) \
  X(cuStreamQuery) X(cuStreamWaitEvent)
/* What a driver may lack: NULL then, and whoever wants one does without. */
#define CNI_CUDA_DRIVER_MORE(X) \
  X(cuDriverGetVersion) X(cuDeviceGetUuid) X(cuEventElapsedTime) X(cuStreamCreateWithPriority) X(cuLaunchKernelEx)
#define CNI_CUDA_GRAPHS(X) \
  X(cuStreamBeginCapture) X(cuStreamEndCapture) X(cuGraphCreate) X(cuGraphDestroy) X(cuGraphAddKernelNode) \
  X(cuGraphAddChildGraphNode) X(cuGraphInstantiate) X(cuGraphExecKernelNodeSetParams) X(cuGraphLaunch) \
  X(cuGraphExecDestroy)
#define CNI_CUDA_NVRTC(X) \
  X(nvrtcVersion) X(nvrtcGetErrorString) X(nvrtcCreateProgram) X(nvrtcDestroyProgram) \
  X(nvrtcCompileProgram) X(nvrtcGetCUBINSize) X(nvrtcGetCUBIN) X(nvrtcGetProgramLogSize) \
  X(nvrtcGetProgramLog)
#define CNI_CUDA_BLASLT(X) \
  X(cublasLtCreate) X(cublasLtMatmul) X(cublasLtGetStatusString) X(cublasLtMatmulDescCreate) \
  X(cublasLtMatmulDescDestroy) X(cublasLtMatmulDescSetAttribute) X(cublasLtMatrixLayoutCreate) \
  X(cublasLtMatrixLayoutDestroy) X(cublasLtMatrixLayoutSetAttribute) X(cublasLtMatmulPreferenceCreate) \
  X(cublasLtMatmulPreferenceDestroy) X(cublasLtMatmulPreferenceSetAttribute) \
  X(cublasLtMatmulAlgoGetHeuristic)
/* clang-format on */

#define CNI_CUDA_FIELD(f) __typeof__(&f) f;
typedef struct cni_cuda_driver_table {
  CNI_CUDA_DRIVER(CNI_CUDA_FIELD)
  CNI_CUDA_DRIVER_MORE(CNI_CUDA_FIELD)
} cni_cuda_driver_table;
typedef struct cni_cuda_graph_table {
  CNI_CUDA_GRAPHS(CNI_CUDA_FIELD)
} cni_cuda_graph_table;
typedef struct cni_cuda_nvrtc_table {
  CNI_CUDA_NVRTC(CNI_CUDA_FIELD)
} cni_cuda_nvrtc_table;
typedef struct cni_cuda_blaslt_table {
  CNI_CUDA_BLASLT(CNI_CUDA_FIELD)
} cni_cuda_blaslt_table;

/* Each returns NULL, without an error, where the library is absent or too old. */
const cni_cuda_driver_table *cni_cuda_driver(void);
const cni_cuda_graph_table *cni_cuda_graphs(void); /* of the driver, too; older ones have none */
const cni_cuda_nvrtc_table *cni_cuda_nvrtc(void);
const cni_cuda_blaslt_table *cni_cuda_blaslt(void);

/* ---- devices (device.c) ---- */
enum { CNI_CUDA_DEVICES = 16, CNI_CUDA_RECENT = 8, CNI_CUDA_CLASSES = 384, CNI_CUDA_SMALL_CLASSES = 160 };

/* Free pieces of device memory (memory.h) in lists by size, and which of the lists have some. */
typedef struct cni_cuda_pool {
  struct cni_cuda_piece *bins[CNI_CUDA_CLASSES];
  uint64_t filled[CNI_CUDA_CLASSES / 64];
} cni_cuda_pool;

/* A stream with the memory that was given back in it: whoever gets that there is queued behind whoever gave it. */
typedef struct cni_cuda_queue {
  CUstream stream;
  struct cni_cuda_piece *kept[CNI_CUDA_SMALL_CLASSES]; /* small pieces, ready to be used again as they are */
  size_t kept_bytes;
  cni_cuda_pool pools[2];            /* small and large ones */
  int64_t live;                      /* pieces in use */
  struct cni_cuda_staging *staging;  /* of copies from ordinary host memory (copy.c); NULL: none yet */
  void *workspace;                   /* of products */
  bool early;      /* it captures kernels that begin early */
  bool alone;      /* it captures: nobody else gets its memory, so that segments are no larger than what is asked for */
  struct cni_cuda_queue *next;
} cni_cuda_queue;

/* All pieces of device memory, by the address where they begin (segments.c). */
typedef struct cni_cuda_pieces {
  struct cni_cuda_piece **slots; /* 2^bits */
  size_t n;
  int bits;
  struct cni_cuda_piece *spare; /* descriptions that are not used */
  struct cni_cuda_slab *slabs;  /* where they lie */
} cni_cuda_pieces;

/* Pinned host memory of a device (pinned.c). */
typedef struct cni_cuda_pinned {
  struct cni_cuda_block **all; /* every block there is, by address */
  int n, room;
  struct cni_cuda_block *free[CNI_CUDA_CLASSES];
  size_t kept;                           /* bytes in these */
  struct cni_cuda_block *oldest, *newest; /* given back, but perhaps a copy from them is still to be done */
  size_t waiting;                        /* bytes in these */
  cn_pinned_stats stats;
} cni_cuda_pinned;

/* What a kernel met, as in kernels/common.cuh; generated loops write `op` alone. */
typedef enum cni_cuda_fault_kind {
  CNI_CUDA_DIVISION,
  CNI_CUDA_INDEX, /* an index out of range: index, bound */
  CNI_CUDA_CLASS, /* a class out of range, likewise */
  CNI_CUDA_VALUE, /* a value that the op does not take: a negative rate, a probability above 1 */
  /* Of a matrix, the one of its batch that `bound` names (-1: there is but one), at `index`. */
  CNI_CUDA_SINGULAR,
  CNI_CUDA_FACTOR, /* ... of which only the decomposition was asked for */
  CNI_CUDA_DEFINITE,
  CNI_CUDA_CONVERGENCE
} cni_cuda_fault_kind;
typedef struct cni_cuda_fault {
  int32_t op; /* see cni_cuda_fault_code; 0: nothing happened */
  int32_t kind;
  int64_t index, bound;
} cni_cuda_fault;
/* Where a launch reports faults: part of the arguments of kernels that can meet one. */
typedef struct cni_cuda_slot {
  cni_cuda_fault *record;
  int32_t op, unused;
} cni_cuda_slot;

typedef struct cni_cuda_device {
  int index;
  bool ready;
  CUdevice id;
  CUcontext context;
  cni_cuda_queue own, *others;
  int units, major, minor;
  bool clusters;   /* of blocks: sm_90 and later, with a driver that launches them */
  int most_shared; /* bytes that a block may have */
  cni_cuda_fault *fault; /* host memory that kernels write */
  cni_cuda_pieces pieces;
  cn_device_memory_stats memory; /* gaps are counted when they are asked for */
  struct cni_cuda_history *history; /* what happened to it (history.c); NULL: nobody asks */
  cni_cuda_pinned pinned;
  struct cni_cuda_staging *staging; /* of queues that have ended (copy.c) */
  const char *recent[CNI_CUDA_RECENT]; /* names of the last ops launched, a ring; atomic, as is ... */
  unsigned launched;                   /* ... how many, since the last wait */
  cublasLtHandle_t blas;
  pthread_mutex_t lock; /* of memory and fault */
} cni_cuda_device;

int cni_cuda_device_count(void);
int cni_cuda_device_info(int index, cn_device_info *info);
/* The device, ready, and current for this thread. NULL with the error set. */
cni_cuda_device *cni_cuda_use(int index);
/* The same, but another context may be current: for what asks the driver nothing. */
cni_cuda_device *cni_cuda_device_at(int index);
/* For giving something back: in a child that cannot use the device (see device.c) NULL without an error, since what
 * the parent had made ends there too, whoever held it. */
cni_cuda_device *cni_cuda_use_to_free(int index);
bool cni_cuda_gone(void); /* is this such a child? */
/* 0, or an error that says what failed. */
int cni_cuda_check(CUresult result, const char *what);
/* Waits for the work of the stream in use; a failure of the device is an error that lists the last ops, a fault that a
 * kernel met one that names its op. sync: ... and for that of others in this process. finish: where the host has been
 * asked already whether it may wait (cn_host.waiting). */
int cni_cuda_wait(cni_cuda_device *d);
int cni_cuda_finish(cni_cuda_device *d);
int cni_cuda_sync(int index);
void *cni_cuda_stream(int index);
/* A number for an op's name that a kernel can write when it meets a fault; cni_cuda_wait turns it back. */
int32_t cni_cuda_fault_code(const char *name);
static inline cni_cuda_slot cni_cuda_slot_for(cni_cuda_device *d, const char *name)
{
  return (cni_cuda_slot){d->fault, cni_cuda_fault_code(name), 0};
}
void cni_cuda_device_exit(void);

/* ---- streams and events (queue.c); `stream` NULL: the device's own ---- */
/* cni_cuda_use, for a call whose work goes into this stream. */
cni_cuda_device *cni_cuda_enter(int index, const void *stream);
static inline cni_cuda_device *cni_cuda_of(const cn_call *c) { return cni_cuda_enter(c->device & 0xff, c->stream); }
/* The present call goes on in a queue that an earlier one had found. */
void cni_cuda_continue(const cni_cuda_device *d, cni_cuda_queue *q);
/* The queue of the present call of this thread, and of a stream. */
cni_cuda_queue *cni_cuda_now(cni_cuda_device *d);
cni_cuda_queue *cni_cuda_queue_of(cni_cuda_device *d, const void *stream);
/* What this thread does on the device goes into q, which captures it; NULL: no more. records: that one; NULL: none. */
void cni_cuda_record_into(cni_cuda_device *d, cni_cuda_queue *q);
cni_cuda_queue *cni_cuda_records(const cni_cuda_device *d);
/* 0, or an error that says that this cannot be recorded, where the thread does that. */
int cni_cuda_not_recorded(const cni_cuda_device *d, const char *what);
/* Ends a queue that is in no list: its memory goes to the device's own, when work in `last` (NULL: none) is done. */
void cni_cuda_queue_end(cni_cuda_device *d, cni_cuda_queue *q, CUstream last);
void *cni_cuda_stream_new(int index, int priority);
void cni_cuda_stream_free(int index, void *stream);
int cni_cuda_stream_sync(int index, void *stream);
int cni_cuda_stream_query(int index, void *stream);
void *cni_cuda_event_new(int index, bool timing);
void cni_cuda_event_free(int index, void *event);
int cni_cuda_event_record(int index, void *event, void *stream);
int cni_cuda_event_wait(int index, void *event, void *stream);
int cni_cuda_event_query(int index, void *event);
int cni_cuda_event_sync(int index, void *event);
int cni_cuda_event_elapsed(int index, double *milliseconds, void *from, void *to);

/* ---- recordings (record.c); as in cn_backend ---- */
int cni_cuda_record_begin(int index);
int cni_cuda_record_end(int index, void **made);
int cni_cuda_record_run(int index, void *made, const cn_record_run *run);
void cni_cuda_record_free(int index, void *made);
void cni_cuda_record_hold(int index);
bool cni_cuda_records_by_hand(const cni_cuda_device *d); /* ... what a program, not a compiled function, began */

/* Like record_begin: the work is about to be done, and what it needs is made ready meanwhile. record_end drops it. */
int cni_cuda_rehearse(int index);
bool cni_cuda_graphs_off(void); /* by CAIRN_CUDA_GRAPHS or CAIRN_SYNC, or the driver has none */

/* ---- work of many launches that calls queue again and again (repeat.c) ---- */
typedef struct cni_cuda_repeated cni_cuda_repeated;
typedef int (*cni_cuda_steps_fn)(void *payload); /* queues the work: 0 or an error */
/* Memory of `bytes` that is kept for work with this key (its bytes); cni_cuda_repeat_run must follow. NULL: the caller
 * queues its work itself, with memory of its own: not now, or not yet. */
cni_cuda_repeated *cni_cuda_repeat(cni_cuda_device *d, const void *key, size_t size, size_t bytes, void **memory);
/* Runs work that uses no other memory than that. status: of what was queued before it; where that is an error, nothing
 * runs. Returns status, or what went wrong. */
int cni_cuda_repeat_run(cni_cuda_repeated *r, const char *name, cni_cuda_steps_fn steps, void *payload, int status);
/* Forgets what was recorded on this device; its memory is free then. False: nothing was, or, where it may not wait for
 * those that record now, they do. */
bool cni_cuda_repeat_trim(const cni_cuda_device *d, bool wait);

/* ---- work that is looked through before it is done (ahead.c) ---- */
int cni_cuda_look_begin(cni_cuda_device *d); /* by this thread, from now on; 0 or CN_ERR_MEMORY */
void cni_cuda_look_end(void);                /* waits for all that was looked for */
/* Does this thread only look? Then nothing is launched, and what would have to be made first is looked for. */
bool cni_cuda_looks(void);
typedef void (*cni_cuda_job_fn)(cni_cuda_device *d, void *payload);
/* Another thread calls run(d, a copy of the payload), once for each key. 0 or CN_ERR_MEMORY. */
int cni_cuda_look_for(uint64_t key, cni_cuda_job_fn run, const void *payload, size_t size);
bool cni_cuda_looked_for(uint64_t key, cni_cuda_job_fn run); /* has that been asked for? */

/* ---- memory (memory.c, segments.c): of the stream in use ---- */
enum { CNI_CUDA_WORKSPACE = 32 << 20 };
void *cni_cuda_alloc(cni_cuda_device *d, size_t size); /* NULL without an error */
void cni_cuda_free(cni_cuda_device *d, void *memory, size_t size);
/* What cannot be had by `who`: the error, with what is held and by whom (shortage.c). Returns CN_ERR_MEMORY. */
int cni_cuda_short(cni_cuda_device *d, const char *who, size_t size);
/* For the backend's table; in any stream. */
void *cni_cuda_memory_alloc(int index, size_t size, void *stream);
void cni_cuda_memory_free(int index, void *memory, size_t size, void *stream);
void cni_cuda_memory_reserved(int index, size_t *now, size_t *peak, bool reset);
void cni_cuda_memory_stats(int index, cn_device_memory_stats *stats);
int cni_cuda_memory_pieces(int index, void (*each)(const cn_memory_piece *piece, void *payload), void *payload);
int cni_cuda_memory_record(int index, size_t events); /* history.c */
int cni_cuda_memory_events(int index, void (*each)(const cn_memory_event *event, void *payload), void *payload);
int cni_cuda_memory_limit(int index, size_t bytes);
int cni_cuda_memory_trim(int index);
/* Did a call of the driver want memory that we keep? It is the driver's now, and the call can be tried again. */
bool cni_cuda_made_room(cni_cuda_device *d, CUresult result);
void cni_cuda_memory_exit(cni_cuda_device *d);
/* The memory of a queue that ends becomes that of the device's own. Holds the lock. */
void cni_cuda_queue_join(cni_cuda_device *d, cni_cuda_queue *q);
/* The class of a size, below CNI_CUDA_CLASSES, and what it is rounded up to. */
int cni_cuda_class_of(size_t size, size_t *rounded);

/* ---- copies between host and device (copy.c) ---- */
int cni_cuda_copy_in(int index, void *to, const void *host, size_t size, void *stream);
int cni_cuda_copy_out(int index, void *host, const void *from, size_t size, void *stream);
/* What a queue that ends has for copies is kept for another. Holds the lock. exit: frees the host memory of q, or
 * (NULL) of what is kept. */
void cni_cuda_staging_end(cni_cuda_device *d, cni_cuda_queue *q);
void cni_cuda_staging_exit(cni_cuda_device *d, cni_cuda_queue *q);

/* ---- pinned host memory (pinned.c) ---- */
void *cni_cuda_host_alloc(int index, size_t size); /* NULL without an error */
void cni_cuda_host_free(int index, void *memory, size_t size);
int cni_cuda_host_wait(int index, const void *memory); /* for copies from it */
/* What to record behind a copy from this memory in this stream, which waits for earlier ones in others. NULL: the
 * memory is not this device's pinned memory, or so much of that waits already that it is not to be read as such. */
CUevent cni_cuda_pinned_event(cni_cuda_device *d, const void *memory, CUstream stream);
void cni_cuda_pinned_stats(int index, cn_pinned_stats *stats, bool reset);
bool cni_cuda_is_pinned(cni_cuda_device *d, const void *memory);
void cni_cuda_pinned_trim(cni_cuda_device *d); /* gives back what nobody uses, and no copy reads */
void cni_cuda_pinned_exit(cni_cuda_device *d);

/* ---- compiled code (compile.c) ---- */
/* Gives the text of a kernel; owned (free_memory). NULL with the error set. */
typedef char *(*cni_cuda_text_fn)(const void *payload, size_t *size);
/* What the compiler may do with arithmetic. */
typedef enum cni_cuda_maths {
  CNI_CUDA_FUSED, /* a multiplication and an addition may become one instruction */
  CNI_CUDA_EXACT, /* they may not: results are the CPU's bit for bit */
  CNI_CUDA_FAST   /* fused, and quotients and roots right to 22 bits: for results of 16 bits */
} cni_cuda_maths;
/* The kernel `entry` of the text under this key, compiled now if it must be. 0 or an error. */
int cni_cuda_function(CUfunction *function, cni_cuda_device *d, uint64_t key, const char *entry, cni_cuda_maths maths,
                      cni_cuda_text_fn text, const void *payload);
/* ... with more options for the compiler, separated by spaces. */
int cni_cuda_function_with(CUfunction *function, cni_cuda_device *d, uint64_t key, const char *entry,
                           cni_cuda_maths maths, const char *options, cni_cuda_text_fn text, const void *payload);
/* How many threads run a kernel, and what they share. */
typedef struct cni_cuda_grid {
  int64_t x, y;  /* blocks */
  int threads;   /* of a block */
  size_t shared; /* bytes of dynamic shared memory */
  bool early;    /* it waits for what is queued before it by itself (kernels/common.cuh): in recordings it may begin
                  * while that still runs */
  int carveout;  /* percent of a multiprocessor's memory that its blocks want for what they share; 0: no matter */
  int cluster;   /* so many neighbours of x run together, and see each other's shared memory: where the device has
                  * clusters. 0: each block alone */
} cni_cuda_grid;
/* Launches a kernel with one argument, a struct. `name` (of the op) must live as long as the plugin. */
int cni_cuda_launch(cni_cuda_device *d, const char *name, CUfunction function, cni_cuda_grid grid, void *argument);
/* After anything was queued for an op: remembers its name for late failures; waits under CAIRN_SYNC=1. */
int cni_cuda_launched(cni_cuda_device *d, const char *name);
void cni_cuda_code_exit(void);

/* ---- kernels of a program's own (own.c); as in cn_backend ---- */
int cni_cuda_code_find(int index, void **code, const char *text, const char *entry, const char *options);
int cni_cuda_code_launch(int index, void *code, const cn_code_launch *launch, void *const *arguments, void *stream);

/* ---- kernels from .cu files (kernel.c; code.h) ---- */
/* The text that is compiled for it; owned (free_memory). NULL with the error set. */
char *cni_cuda_code_text(const cni_cuda_code *code, size_t *size);
int cni_cuda_kernel(CUfunction *function, cni_cuda_device *d, const cni_cuda_code *code);
/* Finds and launches. */
int cni_cuda_run(cni_cuda_device *d, const char *name, const cni_cuda_code *code, cni_cuda_grid grid, void *argument);
/* A grid of blocks of CNI_CUDA_THREADS for n elements of which a thread takes any number in turn. */
cni_cuda_grid cni_cuda_grid_for(const cni_cuda_device *d, int64_t n);
/* An integer type of an element's size: for kernels that only move elements. */
int cni_cuda_bits_of(int dtype);

/* ---- operands as kernels want them (operand.c) ---- */
/* A tensor in row-major memory of one type. */
typedef struct cni_cuda_operand {
  void *data;
  const cn_desc *desc; /* of the tensor itself */
  cn_desc dense;       /* of data */
  void *copy;          /* device memory of ours, or NULL */
  size_t bytes;
} cni_cuda_operand;
bool cni_cuda_is_dense(const cn_desc *d);
/* desc, cast to dtype (0: its own) and made row-major if it is not. Numbers in host memory become device memory. */
int cni_cuda_take(cni_cuda_operand *o, cni_cuda_device *d, const char *name, const cn_desc *desc, int dtype);
/* Room for a result; cni_cuda_give copies it there if it is not the result's own memory. */
int cni_cuda_room(cni_cuda_operand *o, cni_cuda_device *d, const char *name, const cn_desc *desc, int dtype);
/* Like room, with the elements of `from` (broadcast) in it. */
int cni_cuda_room_of(cni_cuda_operand *o, cni_cuda_device *d, const char *name, const cn_desc *desc, int dtype,
                     const cn_desc *from);
/* After the launches: frees, and, for a room and status 0, stores the result. Returns status or what went wrong. */
int cni_cuda_give(cni_cuda_operand *o, cni_cuda_device *d, const char *name, int status);
void cni_cuda_drop(cni_cuda_operand *o, cni_cuda_device *d);
/* Device memory for a while; NULL with the error set. */
void *cni_cuda_scratch(cni_cuda_device *d, const char *name, size_t bytes);
/* dims before, at and after `dim`, as one dim each. */
typedef struct cni_cuda_lines {
  int64_t outer, n, inner;
} cni_cuda_lines;
cni_cuda_lines cni_cuda_lines_of(const cn_desc *d, int dim);
/* x: (..., k) as (rows, k), rows so many elements apart: false where its leading dims are not one run. */
bool cni_cuda_rows_of(int64_t *rows, int64_t *apart, const cn_desc *x);
static inline int cni_cuda_dim(int64_t dim, int ndim) { return (int)(dim < 0 ? dim + (ndim ? ndim : 1) : dim); }
static inline bool cni_cuda_is_float(int dtype) { return dtype >= CN_F16 && dtype <= CN_F64; }
/* The type that elements are computed in: float32, float64, int64 or uint64. */
static inline int cni_cuda_wide(int dtype)
{
  return dtype == CN_F64 || dtype == CN_U64 ? dtype : cni_cuda_is_float(dtype) ? CN_F32 : CN_I64;
}
/* Is it one of the types that kernels/common.cuh knows? */
static inline bool cni_cuda_known(int dtype) { return dtype >= CN_BOOL && dtype <= CN_F64; }
int cni_cuda_refuse(cn_call *c, const char *why);
enum { CNI_CUDA_INDICES = 8 }; /* tensors of indices that index.c takes, as in kernels/index.cu; more go to the host */
/* Must a second run repeat this one bit for bit? */
static inline bool cni_cuda_repeats(void) { return cni_cuda_host->deterministic_mode() >= CN_DETERMINISTIC_WARN; }

/* Sorts n numbers from 0 to `most`, in device memory; order: where each was; equal ones stay in theirs (sort.c). */
int cni_cuda_order(cni_cuda_device *d, const char *name, const int64_t *keys, int64_t n, int64_t most, int64_t *sorted,
                   int64_t *order);

/* ---- products by kernels of ours (gemm.c) ---- */
/* y (m, n) = a (m, k) b (k, n), a batch of them; as in kernels/gemm.cu. Strides in elements. */
typedef struct cni_cuda_gemm {
  const void *a, *b;
  void *y;
  int64_t m, n, k, batch;
  int64_t a_row, a_col, a_step, b_row, b_col, b_step, y_row, y_col, y_step;
  const void *bias; /* (n), added to each row; or NULL. Of small products alone */
} cni_cuda_gemm;
/* Is it one of floats of which a kernel of ours takes no longer than a launch does? */
bool cni_cuda_gemm_is_small(const cni_cuda_gemm *g, int dtype);
int cni_cuda_gemm_small(cni_cuda_device *d, const char *name, cni_cuda_gemm *g, int dtype, int to);
int cni_cuda_gemm_plain(cni_cuda_device *d, const char *name, cni_cuda_gemm *g, int dtype, int to);

/* ---- products inside of other kernels (matmul.c) ---- */
/* y (m, n) = a (m, k) b (k, n). Strides in elements; of a and b one of both is 1, y's columns are neighbours. */
typedef struct cni_cuda_product {
  const void *a, *b;
  void *y;
  int64_t m, n, k, a_row, a_col, b_row, b_col, y_row;
  int dtype, to; /* of a and b, and of y: the same, or float32 where the others have 16 bits */
  double times;  /* as many products like this one are to come: then it is worth trying which way is fastest */
} cni_cuda_product;
/* By cuBLASLt, or where that does not take it by a plain kernel; queued. m, n and k are above zero. */
int cni_cuda_multiply(cni_cuda_device *d, const char *name, const cni_cuda_product *p);
/* The kernel "linear" for a row or two (decode.c). */
int cni_cuda_linear_few(cn_call *c);

/* ---- kernels: one table per file ---- */
#define CNI_CUDA_TABLES(X) \
  X(cni_cuda_pointwise_kernels) X(cni_cuda_reduce_kernels) X(cni_cuda_softmax_kernels) X(cni_cuda_norm_kernels) \
  X(cni_cuda_batch_norm_kernels) X(cni_cuda_loss_kernels) X(cni_cuda_index_kernels) X(cni_cuda_scan_kernels) \
  X(cni_cuda_sort_kernels) X(cni_cuda_create_kernels) X(cni_cuda_random_kernels) X(cni_cuda_window_kernels) \
  X(cni_cuda_grid_kernels) X(cni_cuda_pick_kernels) X(cni_cuda_conv_kernels) \
  X(cni_cuda_attend_one_kernels) X(cni_cuda_attention_kernels) X(cni_cuda_flash_kernels) \
  X(cni_cuda_recurrent_kernels) X(cni_cuda_ctc_kernels) X(cni_cuda_small_product_kernels) X(cni_cuda_matmul_kernels) \
  X(cni_cuda_plain_product_kernels) X(cni_cuda_grouped_kernels) X(cni_cuda_fft_kernels) X(cni_cuda_decode_kernels) \
  X(cni_cuda_solver_kernels) X(cni_cuda_factor_kernels) X(cni_cuda_spectrum_kernels) \
  X(cni_cuda_fallback_kernels)
#define CNI_CUDA_DECLARE(table) extern const cn_kernel table[];
CNI_CUDA_TABLES(CNI_CUDA_DECLARE)
/* Updates that come one behind the other, in recorded work or between begin and end, wait to be launched together:
 * flush launches them, and every call that enters a stream does. */
int cni_cuda_updates(bool begin, const void *unless);
int cni_cuda_flush(void);
void cni_cuda_before_free(void);    /* ... for they use memory that another thread may get now */
void cni_cuda_forget_waiting(void); /* ... or not at all */
/* A copy between two descs on this device, broadcast and cast; queued. */
int cni_cuda_copy_desc(cni_cuda_device *d, const char *name, const cn_desc *to, const cn_desc *from);
/* The same where neighbours lie along different dims (transpose.c); CN_REFUSED: a copy of another kind. */
int cni_cuda_transpose(cni_cuda_device *d, const char *name, const cn_desc *to, const cn_desc *from);
/* Sets bytes to zero; queued. */
int cni_cuda_zero(cni_cuda_device *d, void *data, size_t bytes);

#endif
