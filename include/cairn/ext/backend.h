/* ext/backend.h: for authors of backends: the one table that makes a device work. See
 * docs/ADDING_A_BACKEND.md. Everything a backend needs of cairn comes through cn_host (host.h). */
#ifndef CAIRN_EXT_BACKEND_H
#define CAIRN_EXT_BACKEND_H

#include "op.h"

CN_BEGIN_DECLS

#define CN_BACKEND_ABI 3

/* What `cairn devices` shows. Zero or "" where unknown. */
typedef struct cn_device_info {
  char name[128];
  char arch[64];           /* instruction set, compute capability, ... */
  int units;               /* cores, multiprocessors */
  int threads;             /* cairn uses (CPU) */
  uint64_t memory_total, memory_free;
  uint64_t cache[3];       /* L1 data, L2, L3 in bytes */
  double peak_gflops;      /* f32, by the data sheet or the clock; 0 unknown */
  double peak_gbps;
} cn_device_info;

/* One implementation of one op. Several entries for one op are tried in the order they were registered, the
 * last registered set first (an overlay goes over a reference). op "pointwise" stands for every pointwise
 * op, and "*" for every op that has no other entry. */
typedef struct cn_kernel {
  const char *op;
  const char *name; /* of the implementation, for listings: "avx2", "cublaslt" */
  cn_kernel_fn run;
} cn_kernel;

typedef struct cn_backend {
  uint32_t abi;     /* CN_BACKEND_ABI */
  const char *name; /* "cpu", "cuda", "mirror" */
  int (*device_count)(void);
  int (*device_info)(int index, cn_device_info *info);
  /* Memory, in stream order: freed memory may still be in use by work queued before. */
  void *(*alloc)(int index, size_t size);
  void (*free)(int index, void *memory, size_t size);
  /* Copies; host memory may be reused when they return. A copy from memory of host_alloc may still be queued then. */
  int (*copy_in)(int index, void *device_memory, const void *host, size_t size);
  int (*copy_out)(int index, void *host, const void *device_memory, size_t size);
  /* Waits for all queued work, that of others in this process too; reports late failures. */
  int (*sync)(int index);
  const cn_kernel *kernels; /* ends with op NULL */
  bool host_memory;         /* device memory is host memory (cpu) */
  void (*shutdown)(void);
  void *(*stream)(int index); /* the queue of the device's own kind; NULL: there is none to show */
  /* Pinned memory: host memory that the device reads by itself, so that copy_in need not wait. Both or neither.
   * host_alloc: NULL, without an error, where there is none to be had: ordinary memory is used then. host_free: queued
   * copies may still read it; the backend hands it out again only after them. From any thread; called often. */
  void *(*host_alloc)(int index, size_t size);
  void (*host_free)(int index, void *memory, size_t size);
} cn_backend;

CN_END_DECLS
#endif
