/* profile.h: what a thread's ops took, on the host and on the device.
 *
 * While a profile is on, each op that this thread runs is an entry: its name, when its call began and ended, and, where
 * devices are asked for, when its work began and ended on the device, by events around it in its stream. Nothing waits
 * for the device but the end of the profile. Runs of graphs (compiled functions) are one entry each, and so are ranges
 * that a program opens. Times are seconds of cn_clock. */
#ifndef CAIRN_PROFILE_H
#define CAIRN_PROFILE_H

#include "base.h"

CN_BEGIN_DECLS

typedef struct cn_profile cn_profile;
enum cn_profile_what {
  CN_PROFILE_DEVICES = 1 << 0, /* times on devices */
  CN_PROFILE_SHAPES = 1 << 1,  /* of inputs */
  CN_PROFILE_NVTX = 1 << 2     /* NVTX ranges around entries, for NVIDIA's own profilers; no entries are kept */
};
typedef struct cn_profile_entry {
  size_t size;        /* sizeof, set by the caller */
  const char *name;
  const char *shapes; /* "[[2, 3], []]"; NULL where they were not asked for */
  int depth;          /* entries that it stands in */
  bool range;         /* a program's own, rather than an op or a graph's run */
  double begin, end;
  cn_device device;   /* where it ran */
  bool timed;         /* ... and there is a time of it: */
  double device_begin, device_end;
} cn_profile_entry;

/* Begins one in this thread; owned. NULL with the error set: one is on already, or NVTX is asked for and not there. */
CN_API CN_MUST_USE cn_profile *cn_profile_begin(unsigned what);
/* Ends it: waits for the devices, and reads their times. In the thread that began. */
CN_API int cn_profile_end(cn_profile *p);
CN_API void cn_profile_free(cn_profile *p); /* NULL is fine */
CN_API size_t cn_profile_count(const cn_profile *p);
/* The i-th in the order in which they began; its texts live as long as the profile. */
CN_API int cn_profile_at(cn_profile_entry *entry, const cn_profile *p, size_t i);
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
