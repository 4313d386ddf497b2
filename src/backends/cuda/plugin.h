/* plugin.h: what the files of the CUDA plugin show each other: the vendor's functions, devices, memory,
 * compiled code.
 *
 * Place in the flow: libcairn loads libcairn_cuda.so at the first mention of the backend "cuda" and calls
 * cn_plugin_init (plugin.c). Invariants: cairn is seen through include/cairn/ext alone; the vendor's
 * libraries are opened when first needed (libraries.c), so the plugin loads, and counts no devices, on a machine
 * without them. All work of a device goes through one stream, so its order is the order of the calls. */
#ifndef CNI_CUDA_PLUGIN_H
#define CNI_CUDA_PLUGIN_H

#include <cairn/ext/hash.h>
#include <cairn/ext/host.h>
#include <cublasLt.h>
#include <cuda.h>
#include <nvrtc.h>
#include <pthread.h>

extern const cn_host *cni_cuda_host;
extern bool
    cni_cuda_waits; /* CAIRN_SYNC=1: after every launch, so that a failure is found where it happens */

/* ---- the vendor's functions (libraries.c) ---- */
/* clang-format off */
#define CNI_CUDA_DRIVER(X) \
  X(cuInit) X(cuGetErrorString) X(cuDeviceGetCount) X(cuDeviceGet) X(cuDeviceGetName) \
  X(cuDeviceGetAttribute) X(cuDeviceTotalMem) X(cuDevicePrimaryCtxRetain) X(cuCtxSetCurrent) \
  X(cuMemGetInfo) X(cuMemAlloc) X(cuMemFree) X(cuMemHostAlloc) X(cuMemcpyHtoDAsync) X(cuMemcpyDtoHAsync) \
  X(cuStreamCreate) X(cuStreamSynchronize) X(cuCtxSynchronize) X(cuModuleLoadData) X(cuModuleGetFunction) \
  X(cuLaunchKernel) X(cuMemFreeHost) X(cuEventCreate) X(cuEventRecord) X(cuEventQuery) X(cuEventDestroy)
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
} cni_cuda_driver_table;
typedef struct cni_cuda_nvrtc_table {
  CNI_CUDA_NVRTC(CNI_CUDA_FIELD)
} cni_cuda_nvrtc_table;
typedef struct cni_cuda_blaslt_table {
  CNI_CUDA_BLASLT(CNI_CUDA_FIELD)
} cni_cuda_blaslt_table;

/* Each returns NULL, without an error, where the library is absent or too old. */
const cni_cuda_driver_table *cni_cuda_driver(void);
const cni_cuda_nvrtc_table *cni_cuda_nvrtc(void);
const cni_cuda_blaslt_table *cni_cuda_blaslt(void);

/* ---- devices (device.c) ---- */
enum { CNI_CUDA_DEVICES = 16, CNI_CUDA_RECENT = 8, CNI_CUDA_CLASSES = 384 };

/* Free blocks of one size; room for all blocks of that size there are, so that freeing needs no memory. */
typedef struct cni_cuda_class {
  CUdeviceptr *free;
  int nfree, room, blocks;
} cni_cuda_class;

/* Pinned host memory of a device (pinned.c). */
typedef struct cni_cuda_pinned {
  struct cni_cuda_block **all; /* every block there is, by address */
  int n, room;
  struct cni_cuda_block *free[CNI_CUDA_CLASSES];
  size_t kept;                           /* bytes in these */
  struct cni_cuda_block *oldest, *newest; /* given back, but perhaps a copy from them is still to be done */
  size_t waiting;                        /* bytes in these */
} cni_cuda_pinned;

typedef struct cni_cuda_device {
  int index;
  bool ready;
  CUdevice id;
  CUcontext context;
  CUstream stream;
  int units, major, minor;
  int32_t *fault; /* host memory that kernels write: an op number (see cni_cuda_fault_code) */
  cni_cuda_class classes[CNI_CUDA_CLASSES];
  size_t reserved, reserved_peak; /* bytes in blocks of these, free or not */
  cni_cuda_pinned pinned;
  const char *recent[CNI_CUDA_RECENT]; /* names of the last ops launched, a ring */
  unsigned launched;                   /* since the last wait */
  cublasLtHandle_t blas;
  void *workspace;
  pthread_mutex_t lock; /* of memory, recent and fault */
} cni_cuda_device;

int cni_cuda_device_count(void);
int cni_cuda_device_info(int index, cn_device_info *info);
/* The device, ready, and current for this thread. NULL with the error set. */
cni_cuda_device *cni_cuda_use(int index);
static inline cni_cuda_device *cni_cuda_of(const cn_call *c) { return cni_cuda_use(c->device & 0xff); }
/* 0, or an error that says what failed. */
int cni_cuda_check(CUresult result, const char *what);
/* Waits for all work of ours; a failure of the device is an error that lists the last ops, a fault that a kernel
 * met one that names its op. sync: ... and for that of others in this process. */
int cni_cuda_wait(cni_cuda_device *d);
int cni_cuda_sync(int index);
void *cni_cuda_stream(int index);
/* A number for an op's name that a kernel can write when it meets a fault; cni_cuda_wait turns it back. */
int32_t cni_cuda_fault_code(const char *name);
void cni_cuda_device_exit(void);

/* ---- memory (memory.c) ---- */
enum { CNI_CUDA_WORKSPACE = 32 << 20 };
void *cni_cuda_alloc(int index, size_t size); /* NULL without an error */
void cni_cuda_free(int index, void *memory, size_t size);
void cni_cuda_memory_reserved(int index, size_t *now, size_t *peak, bool reset);
int cni_cuda_memory_trim(int index);
int cni_cuda_copy_in(int index, void *to, const void *host, size_t size);
int cni_cuda_copy_out(int index, void *host, const void *from, size_t size);
void cni_cuda_memory_exit(cni_cuda_device *d);
/* The class of a size, below CNI_CUDA_CLASSES, and what it is rounded up to. */
int cni_cuda_class_of(size_t size, size_t *rounded);

/* ---- pinned host memory (pinned.c) ---- */
void *cni_cuda_host_alloc(int index, size_t size); /* NULL without an error */
void cni_cuda_host_free(int index, void *memory, size_t size);
/* What to record behind a copy from this memory. NULL: wait for the copy: the memory is not this device's pinned
 * memory, or too much of that waits already. */
CUevent cni_cuda_pinned_event(cni_cuda_device *d, const void *memory);
void cni_cuda_pinned_exit(cni_cuda_device *d);

/* ---- compiled code (compile.c) ---- */
/* Gives the text of a kernel; owned (release_memory). NULL with the error set. */
typedef char *(*cni_cuda_text_fn)(const void *payload, size_t *size);
/* The kernel `entry` of the text under this key, compiled now if it must be. 0 or an error. */
int cni_cuda_function(CUfunction *function, cni_cuda_device *d, uint64_t key, const char *entry,
                      cni_cuda_text_fn text, const void *payload);
/* Launches a kernel with one argument, a struct. `name` (of the op) must live as long as the plugin. */
int cni_cuda_launch(cni_cuda_device *d, const char *name, CUfunction function, int64_t blocks_x,
                    int64_t blocks_y, int threads, void *argument);
/* After anything was queued for an op: remembers its name for late failures; waits under CAIRN_SYNC=1. */
int cni_cuda_launched(cni_cuda_device *d, const char *name);
void cni_cuda_code_exit(void);

/* ---- kernels ---- */
int cni_cuda_pointwise(cn_call *c);
int cni_cuda_copy(cn_call *c); /* copy, clone, contiguous_copy, channels_last, cast, fill */
int cni_cuda_full(cn_call *c);
int cni_cuda_empty(cn_call *c);
int cni_cuda_sum(cn_call *c);
int cni_cuda_mean(cn_call *c);
int cni_cuda_mm(cn_call *c); /* mm and bmm */
int cni_cuda_linear(cn_call *c);
int cni_cuda_on_host(cn_call *c); /* any op: by the CPU's kernel, on copies */
int cni_cuda_left(cn_call *c);    /* refuses: ops whose decomposition has fast parts here */
/* A copy between two descs on this device, broadcast and cast; queued. */
int cni_cuda_copy_desc(cni_cuda_device *d, const char *name, const cn_desc *to, const cn_desc *from);

#endif
