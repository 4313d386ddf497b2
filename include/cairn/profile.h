/* profile.h: what a thread's ops took, on the host and on the device, what they computed and what they moved.
 *
 * While a profile is on, each op that this thread runs is an entry: its name, when its call began and ended, and, as
 * far as it is asked for, when its work began and ended on the device (by events around it in its stream), its
 * operations and bytes, the module it belongs to, the memory it took. Entries lie in one another: ops in the ops that
 * are made of them, in modules, in the backward steps of the ops before, in runs of graphs (compiled functions), in
 * ranges that a program opens. Nothing waits for the device but the end of the profile. Times are seconds of cn_clock.
 * Other threads take part by joining. An entry takes less than a microsecond. */
#ifndef CAIRN_PROFILE_H
#define CAIRN_PROFILE_H

#include "base.h"

CN_BEGIN_DECLS

typedef struct cn_profile cn_profile;
enum cn_profile_what {
  CN_PROFILE_DEVICES = 1 << 0, /* times on devices */
  CN_PROFILE_SHAPES = 1 << 1,  /* of inputs */
  CN_PROFILE_NVTX = 1 << 2,    /* NVTX ranges around entries, for NVIDIA's own profilers; no entries are kept */
  CN_PROFILE_COSTS = 1 << 3,   /* operations and bytes */
  CN_PROFILE_MODULES = 1 << 4, /* modules' calls are entries, and ops know their module, those of backward, too */
  CN_PROFILE_NODES = 1 << 5,   /* so are the nodes of graphs that run node by node */
  CN_PROFILE_MEMORY = 1 << 6   /* what tensors take and give back, and when */
};
typedef struct cn_profile_opts {
  size_t size;
  const struct cn_guard *guard;
  unsigned what;
  size_t most; /* entries that are kept, of each thread; later ones are counted alone. 0: a million */
  /* Where the program is, for each entry: a text that is copied, or NULL. Called in the thread that is profiled. */
  const char *(*where)(void *payload);
  void *payload; /* of where */
} cn_profile_opts;

typedef enum cn_profile_kind {
  CN_ENTRY_OP,        /* a kernel ran, or a view was made */
  CN_ENTRY_COMPOSITE, /* an op that is made of others */
  CN_ENTRY_GRAPH,     /* a run of a graph */
  CN_ENTRY_NODE,      /* one of its nodes */
  CN_ENTRY_BACKWARD,  /* backward through an op */
  CN_ENTRY_MODULE,
  CN_ENTRY_RANGE      /* a program's own */
} cn_profile_kind;
typedef struct cn_profile_entry {
  size_t size;        /* sizeof, set by the caller */
  const char *name;
  const char *shapes; /* "[[2, 3], []]"; NULL where they were not asked for */
  int depth;          /* entries that it stands in */
  bool range;         /* its kind is CN_ENTRY_RANGE */
  double begin, end;
  cn_device device;   /* where it ran */
  bool timed;         /* ... and there is a time of it: */
  double device_begin, device_end;
  int32_t kind;        /* a cn_profile_kind */
  const char *module;  /* whose forward it belongs to: "ResNet.layer1.0.conv1"; "": none */
  const char *detail;  /* of an op the implementation that ran; of a module its class; "" elsewhere */
  const char *where;   /* NULL: nobody said */
  uint64_t thread;     /* the system's number of it */
  uint64_t sequence;   /* of what autograd recorded; its backward has the same. 0: nothing */
  double flops, products, read, written; /* as cn_cost has them, without those of entries inside */
  int64_t allocated, freed; /* bytes that tensors took and gave back in this thread meanwhile */
} cn_profile_entry;

/* Begins one in this thread; owned. NULL with the error set: one is on already, or NVTX is asked for and not there. */
CN_API CN_MUST_USE cn_profile *cn_profile_begin(unsigned what);
CN_API CN_MUST_USE cn_profile *cn_profile_begin_with(const cn_profile_opts *opts);
/* Ends it: waits for the devices, and reads their times. In the thread that began; others have left it. */
CN_API int cn_profile_end(cn_profile *p);
/* NULL is fine. One that is on in another thread stays: that thread goes on to write there. */
CN_API void cn_profile_free(cn_profile *p);
/* Another thread takes part from join to leave, in itself. */
CN_API int cn_profile_join(cn_profile *p);
CN_API int cn_profile_leave(cn_profile *p);
/* Is one on in this thread that wants some of `what`? 0: any one. */
CN_API bool cn_profile_on(unsigned what);

/* ---- what it found: while it goes on, of this thread's entries that have ended; after its end all ---- */
CN_API size_t cn_profile_count(const cn_profile *p);
CN_API size_t cn_profile_dropped(const cn_profile *p); /* entries that there was no more room for */
/* The i-th, thread after thread, in the order in which they began; its texts live as long as the profile. */
CN_API int cn_profile_at(cn_profile_entry *entry, const cn_profile *p, size_t i);

/* Tensors of a thread that take memory (bytes > 0) or give it back. */
typedef struct cn_profile_memory {
  size_t size;
  double time;
  cn_device device;
  int64_t bytes;
  int64_t total; /* that the thread's tensors hold on the device since the profile began */
  uint64_t thread;
} cn_profile_memory;
CN_API size_t cn_profile_memory_count(const cn_profile *p);
CN_API int cn_profile_memory_at(cn_profile_memory *change, const cn_profile *p, size_t i);

/* A range of the program's, on this thread; nothing where no profile is on. */
CN_API int cn_profile_range_begin(const char *name);
CN_API void cn_profile_range_end(void);

/* ---- NVTX: marks and ranges that NVIDIA's profilers show (libnvtx3interop.so.1, libnvToolsExt.so.1) ---- */
CN_API bool cn_nvtx_available(void);
/* Each an error where there is no library; nothing happens while no profiler watches. */
CN_API int cn_nvtx_mark(const char *message);
CN_API int cn_nvtx_push(int *depth, const char *message); /* ranges of this thread, nested; depth: from 0, or NULL */
CN_API int cn_nvtx_pop(int *depth);
CN_API int cn_nvtx_start(uint64_t *range, const char *message); /* one that may end in another thread */
CN_API int cn_nvtx_end(uint64_t range);

CN_END_DECLS
#endif
