/* ext/backend.h: for authors of backends: the one table that makes a device work. See
 * docs/ADDING_A_BACKEND.md. Everything a backend needs of cairn comes through cn_host (host.h). */
#ifndef CAIRN_EXT_BACKEND_H
#define CAIRN_EXT_BACKEND_H

#include "mesh.h"
#include "op.h"

CN_BEGIN_DECLS

#define CN_BACKEND_ABI 5

/* The rate of matrix products of a type by the device's matrix units (Tensor Cores), dense. */
enum { CN_DEVICE_PRODUCTS = 8 };
typedef struct cn_device_product {
  char type[8]; /* "bf16", "tf32", ...; "": no more */
  double peak_gflops;
} cn_device_product;

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
  double clock_mhz, memory_mhz; /* at most */
  cn_device_product products[CN_DEVICE_PRODUCTS];
  /* Of devices that run threads in blocks. */
  int warp, threads_of_block, threads_of_unit, registers_of_unit; /* at most, but for the warp */
  int shared_of_block, shared_of_block_most, shared_of_unit;      /* bytes; most: where a kernel asks for it */
  int memory_bits;                                                /* of the way to memory */
  int pci_domain, pci_bus, pci_device;
  bool integrated, on_shared_board;
  uint8_t uuid[16]; /* zeros where the device tells none */
} cn_device_info;

/* ---- kernels ---- */
/* Orders of memory that an implementation can wish for. A planner may bring an input into it beforehand, and keep
 * weights so; a kernel that named an order takes the others too, or refuses them. */
typedef enum cn_order {
  CN_ORDER_ANY,          /* as it comes */
  CN_ORDER_ROW_MAJOR,
  CN_ORDER_CHANNELS_LAST
} cn_order;

/* What an implementation says of a call before it runs. The dispatcher keeps it by the call's signature (op, device,
 * attributes, types, shapes, strides and alignment of all tensors): it is asked once for calls that look the same. */
typedef struct cn_plan {
  size_t size;         /* of this struct, set by the asker */
  const char *refusal; /* why it cannot run the call: a text that stays */
  size_t workspace;    /* bytes it wants in call->workspace while it runs, on the call's device; 0: none */
  uint64_t choice;     /* its own: a tile size, an algorithm's number; it finds it in call->plan */
  uint8_t order[CN_PLAN_INPUTS]; /* cn_order: how it would like each of call->in to lie in memory */
  bool contest;        /* set by the asker: the clock decides, so it is to say what it can, not what it is good at */
} cn_plan;

/* What an implementation makes of inputs that stay as they are from call to call, a graph's weights: packed, turned,
 * transformed. An executable keeps it, for all of its contexts, as long as nobody writes to those inputs. */
typedef struct cn_prepared {
  size_t size;   /* of this struct, set by the asker */
  size_t bytes;  /* how many it takes; 0: it would make nothing of this call's */
  uint32_t of;   /* bit i: it is made of call->in[i], and of nothing else that may change */
  uint64_t form; /* the implementation's own: calls of the same inputs that can share it have the same number */
  void *memory;  /* host memory to fill, aligned to 64 bytes; NULL: only say how much */
} cn_prepared;

/* One implementation of one op. Several entries for one op are tried in the order they were registered, the
 * last registered set first (an overlay goes over a reference). op "pointwise" stands for every pointwise
 * op, and "*" for every op that has no other entry.
 * can: may it run this call? Looks at types, shapes, strides, alignment and attributes, never at values, and
 * touches nothing. 0, or CN_REFUSED with plan->refusal set. NULL: it takes every call. run may refuse too, before it
 * has touched anything, where only the attempt can tell (a library that does not load); that is not kept. */
typedef struct cn_kernel {
  const char *op;
  const char *name; /* of the implementation, for listings: "avx2", "cublaslt" */
  cn_kernel_fn run;
  int (*can)(const cn_call *call, cn_plan *plan);
  /* NULL: it prepares nothing. Asked twice where it is worth it: for the size, then to fill. 0 or an error. run finds
   * what was made in call->prepared, or nothing, and gives the same results to the bit. */
  int (*prepare)(const cn_call *call, cn_prepared *prepared);
  int flags; /* CN_KERNEL_NEAR */
} cn_kernel;

/* Which of the op's implementations with this flag is the fastest depends on the machine: with CAIRN_AUTOTUNE=1 they
 * are timed. They write the same results within rounding, and touch nothing else. */
enum { CN_KERNEL_NEAR = 1 };

/* ---- the backend ---- */
/* What a backend's kernels can do with memory; see docs/ADDING_A_BACKEND.md for what is done for those that cannot. */
enum cn_capability {
  CN_CAN_STRIDES = 1 << 0, /* inputs may have any strides; without it they are made row-major before a kernel runs */
  CN_CAN_INPLACE = 1 << 1, /* a kernel may write a result over an input; without it results are copied there */
  /* Whole graphs: tensors in host memory, rates and step counts, may be among inputs and states, and their nodes among
   * the graph's. graph_launch has taken what is there when it returns. */
  CN_CAN_HOST_STATES = 1 << 2,
  /* ... and nodes may hold graphs: branches and loops (ext/graph.h), whose values are on the device, too. Without it a
   * graph that has such goes node by node. */
  CN_CAN_CONTROL = 1 << 3
};

/* A graph for a device that takes it whole: everything is there during the call only. Its values are on the device, but
 * for numbers and constants, which are in host memory (see also CN_CAN_HOST_STATES); its sizes are fixed. */
typedef struct cn_whole_graph {
  size_t size;
  const struct cn_graph *graph; /* read by cn_host.graph */
  const int *wanted;            /* values that a run is asked for, each made by a node that is no view */
  size_t nwanted;
  const cn_spec *const *specs;  /* per node: what infer says of its results */
  const int32_t *compute;       /* per node: cn_call.compute */
} cn_whole_graph;

/* One run of it. */
typedef struct cn_graph_launch {
  size_t size;
  cn_tensor *const *in;     /* per input of the graph */
  cn_tensor *const *states; /* per state */
  cn_tensor *const *out;    /* per wanted value: allocated as its spec says */
  uint64_t seed, offset;    /* random numbers: the Philox key, and the counter that draws count from, */
  const uint64_t *draws;    /* where each draw of the graph begins behind it; for this call only */
  void *stream;
} cn_graph_launch;

/* One run of a recording. Copies are between blocks of the device's memory that do not overlap. */
typedef struct cn_record_copy {
  void *to;
  const void *from;
  size_t bytes;
} cn_record_copy;
typedef struct cn_record_run {
  size_t size;
  const cn_record_copy *in, *out; /* made before the recorded work, and behind it */
  size_t nin, nout;
  void *numbers_to;        /* device memory that has the bytes of `numbers` (host memory, for this call) before that */
  const void *numbers;
  size_t numbers_bytes;
  void *stream;
} cn_record_run;

/* One launch of a kernel of a program's own (cairn/code.h). */
typedef struct cn_code_launch {
  size_t size;                /* sizeof, set by the caller */
  unsigned grid[3], block[3]; /* blocks, and threads of a block; 0 stands for 1 */
  size_t shared;              /* bytes of dynamic shared memory of a block */
} cn_code_launch;

/* A number that goes up and down: what it is, the most it was, and all that was ever added to it. */
typedef struct cn_memory_count {
  uint64_t now, peak, total;
} cn_memory_count;

/* A device's memory in numbers. Blocks are what tensors have, and kernels while they run; they are parts of segments,
 * which were taken from the device. Each count is there for all of them, for small ones (up to 1 MiB) and others. */
enum { CN_MEMORY_ALL, CN_MEMORY_SMALL, CN_MEMORY_LARGE, CN_MEMORY_KINDS };
typedef struct cn_device_memory_stats {
  size_t size;                               /* of this struct, set by the asker */
  cn_memory_count blocks[CN_MEMORY_KINDS];   /* in use */
  cn_memory_count used[CN_MEMORY_KINDS];     /* their bytes */
  cn_memory_count asked[CN_MEMORY_KINDS];    /* ... before they were rounded up */
  cn_memory_count segments[CN_MEMORY_KINDS];
  cn_memory_count reserved[CN_MEMORY_KINDS]; /* their bytes */
  uint64_t gaps[CN_MEMORY_KINDS];            /* free parts of segments that are in use otherwise */
  uint64_t gap_bytes[CN_MEMORY_KINDS];
  uint64_t retries;                          /* the device had no more until what was kept had been given back */
  uint64_t failures;                         /* out of memory */
  uint64_t limit;                            /* for the bytes of segments; 0: none */
} cn_device_memory_stats;

/* A part of a segment of device memory: in use, or free. */
typedef struct cn_memory_piece {
  uint64_t segment, at, bytes; /* where its segment begins, and itself */
  uint64_t asked;              /* in use: how much of it is */
  uint64_t stream;             /* whose it is */
  const char *op;              /* in use: which op asked for it; NULL: none */
  bool used, small;            /* small: of a segment for small ones */
} cn_memory_piece;

/* What happened to device memory. */
typedef enum cn_memory_action {
  CN_MEMORY_TAKEN, /* by a tensor, or a kernel while it runs */
  CN_MEMORY_GIVEN, /* back */
  CN_MEMORY_SEGMENT_TAKEN, /* from the device */
  CN_MEMORY_SEGMENT_GIVEN,
  CN_MEMORY_OUT /* so many bytes were not to be had; `at` is how many the device had left */
} cn_memory_action;
typedef struct cn_memory_event {
  cn_memory_action action;
  uint64_t at, bytes;
  uint64_t stream;       /* whose it is */
  const char *op;        /* that asked for it, or was running; NULL: none */
  uint64_t microseconds; /* since 1970 */
} cn_memory_event;

typedef struct cn_pinned_stats {
  cn_memory_count blocks, bytes;           /* that there are */
  cn_memory_count used, used_bytes;        /* of these: not free to be handed out */
} cn_pinned_stats;

/* `stream` is one of stream_new, or NULL for the device's own one, in which everything is queued unless a program asks
 * for another. Work of one stream runs in order; between streams there is no order but by events. */
typedef struct cn_backend {
  size_t size;      /* sizeof(cn_backend): fields may be added at the end */
  uint32_t abi;     /* CN_BACKEND_ABI */
  uint32_t can;     /* cn_capability bits */
  const char *name; /* "cpu", "cuda", "mirror" */
  int (*device_count)(void);
  int (*device_info)(int index, cn_device_info *info);
  /* Memory, in stream order: freed memory may still be in use by work queued before in that stream. NULL: there is
   * none; it may have set an error that says more. */
  void *(*alloc)(int index, size_t size, void *stream);
  void (*free)(int index, void *memory, size_t size, void *stream);
  /* Copies; host memory may be reused when they return. A copy from memory of host_alloc may still be queued then. */
  int (*copy_in)(int index, void *device_memory, const void *host, size_t size, void *stream);
  int (*copy_out)(int index, void *host, const void *device_memory, size_t size, void *stream);
  /* Waits for all queued work, that of others in this process too; reports late failures. */
  int (*sync)(int index);
  const cn_kernel *kernels; /* ends with op NULL */
  size_t kernel_size;       /* sizeof(cn_kernel) */
  bool host_memory;         /* device memory is host memory (cpu) */
  void (*shutdown)(void);
  void *(*stream)(int index); /* the device's own stream, of its own kind; NULL: there is none to show */
  /* Pinned memory: host memory that the device reads by itself, so that copy_in need not wait. Both or neither.
   * host_alloc: NULL, without an error, where there is none to be had: ordinary memory is used then. host_free: queued
   * copies may still read it; the backend hands it out again only after them. From any thread; called often. */
  void *(*host_alloc)(int index, size_t size);
  void (*host_free)(int index, void *memory, size_t size);
  /* Between two devices of this backend, queued on `stream` of the receiving one. NULL: through the host. The caller
   * sees to it that `from` is ready (event_wait). */
  int (*copy_across)(int to_index, void *to, int from_index, const void *from, size_t size, void *stream);
  /* ---- streams and events; all or none ---- */
  void *(*stream_new)(int index, int priority); /* lower numbers go first; NULL with the error set */
  void (*stream_free)(int index, void *stream); /* what is queued there still runs */
  int (*stream_sync)(int index, void *stream);  /* waits for its work; reports late failures */
  int (*stream_query)(int index, void *stream); /* 1: all done, 0: not yet, negative: an error */
  void *(*event_new)(int index, bool timing);
  void (*event_free)(int index, void *event);
  int (*event_record)(int index, void *event, void *stream); /* the event is what is queued there by now */
  int (*event_wait)(int index, void *event, void *stream);   /* later work of the stream waits; returns at once */
  int (*event_query)(int index, void *event);                /* as stream_query; 1 when never recorded */
  int (*event_sync)(int index, void *event);
  int (*event_elapsed)(int index, double *milliseconds, void *from, void *to);
  /* ---- whole graphs; all or none ---- */
  /* Makes an executable of a graph. CN_REFUSED: not of this one; its nodes then run one by one. */
  int (*graph_compile)(int index, void **executable, const cn_whole_graph *graph);
  /* Queues one run on run->stream. */
  int (*graph_launch)(int index, void *executable, const cn_graph_launch *run);
  void (*graph_free)(int index, void *executable); /* queued runs still end */
  /* ---- memory that is kept for later; both or neither ---- */
  /* Bytes taken from the device, whether a tensor holds them or not: now, and the most so far. reset: the most counts
   * from now on. */
  void (*memory_reserved)(int index, size_t *now, size_t *peak, bool reset);
  /* Gives what no tensor holds back to the device, after the work that may still use it. */
  int (*memory_trim)(int index);
  /* ---- recordings: work that is queued once and run many times; all or none ---- */
  /* From now on what the calling thread queues on the device is kept instead of run. Memory that it takes meanwhile is
   * the recording's own until record_free: nobody else gets it when it is given back. CN_REFUSED: not now. */
  int (*record_begin)(int index);
  /* Ends that. An error: something was asked for that cannot be kept, such as a wait. recording NULL: what was kept is
   * dropped. */
  int (*record_end)(int index, void **recording);
  int (*record_run)(int index, void *recording, const cn_record_run *run); /* queues one run on run->stream */
  void (*record_free)(int index, void *recording);                         /* queued runs still end */
  /* Said while one is made: memory that was taken meanwhile may still be held when it ends, and is given back after
   * record_free. Without this record_end may take such memory for an error. */
  void (*record_hold)(int index);
  /* Like record_begin, before work is done for the first time: the device sees what it will need, such as code that is
   * to be compiled, and makes it ready meanwhile; record_end with NULL waits for that. NULL: it has no use for it. */
  int (*rehearse)(int index);
  /* ---- kernels of a program's own (cairn/code.h); both or neither ---- */
  /* The kernel `entry` of a text in the device's language; it stays as long as the process. */
  int (*code_find)(int index, void **code, const char *text, const char *entry, const char *options);
  int (*code_launch)(int index, void *code, const cn_code_launch *launch, void *const *arguments, void *stream);
  /* Said at begin and end of what cn_updates_begin describes (ext/op.h). At the end all of it must be queued. unless: a
   * byte of this backend's memory, which is read when updates run; or NULL. CN_REFUSED at the begin: the device cannot
   * decide by that byte. NULL: the backend has no use for it. */
  int (*updates)(bool begin, const void *unless);
  /* ---- more about memory; each may be NULL ---- */
  void (*memory_stats)(int index, cn_device_memory_stats *stats);
  /* From now on no more than so many bytes are taken from the device: alloc returns NULL first. 0: no limit. */
  int (*memory_limit)(int index, size_t bytes);
  /* Waits for queued copies from this memory of host_alloc, and for no others. NULL: all work is waited for. */
  int (*host_wait)(int index, const void *memory);
  /* cn_device_memory_pieces of device.h; and numbers of host_alloc's memory, whose peaks start again where reset. */
  int (*memory_pieces)(int index, void (*each)(const cn_memory_piece *piece, void *payload), void *payload);
  void (*pinned_stats)(int index, cn_pinned_stats *stats, bool reset);
  /* ---- about devices; each may be NULL ---- */
  const char *(*absent)(void);        /* why there is no device: a text that stays; NULL: there are, or nobody asked */
  bool (*answers)(const char *name);  /* are its devices also known by this name? ("tpu") */
  /* ---- several devices as one (cairn/mesh.h); all or none ---- */
  /* The index of a device that stands for those, as many as the mesh has places; the same one for the same. Negative
   * with the error set. device_count does not count it. */
  int (*mesh_make)(const cn_mesh *mesh, const int *indices);
  bool (*mesh_of)(cn_mesh *mesh, int index); /* false: it stands for itself */
  int (*mesh_partition)(cn_partition *p, int index, const cn_desc *d); /* how a tensor lies there */
  /* cn_device_memory_record and cn_device_memory_events of device.h; both or neither. */
  int (*memory_record)(int index, size_t events);
  int (*memory_events)(int index, void (*each)(const cn_memory_event *event, void *payload), void *payload);
} cn_backend;

CN_END_DECLS
#endif
