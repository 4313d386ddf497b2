/* mirror.h: what the files of the mirror backend show each other and init.c.
 *
 * Place in the flow: see mirror.c. Invariant: a job owns copies of everything it needs but the memory of
 * tensors, which the queue's order keeps alive. */
#ifndef CNI_MIRROR_MIRROR_H
#define CNI_MIRROR_MIRROR_H

#include <cairn/ext/host.h>

const cn_backend *cni_mirror_backend(const cn_host *host);

/* Device pointers: a tag in bits that no address of a process has. Pointer arithmetic keeps it. */
#define MIRROR_TAG ((uintptr_t)0x4d << 56)
static inline void *mirror_hide(void *memory) { return (void *)((uintptr_t)memory ^ MIRROR_TAG); }
static inline void *mirror_show(const void *memory) { return (void *)((uintptr_t)memory ^ MIRROR_TAG); }

/* One call, copied. */
typedef struct mirror_job {
  struct mirror_job *next; /* in the queue */
  size_t size;             /* bytes of the block this stands in */
  void *to;                /* op NULL: bytes to copy (unless to is NULL) before the block is released */
  const void *from;
  size_t bytes;
  cn_call call;            /* op NULL: nothing to run */
  cn_desc *desc;           /* nout results, then nin inputs; data are host pointers */
  bool *there;             /* ... is there such a tensor? */
} mirror_job;

/* For tests: pinned blocks in use and copies queued from such so far, of all devices; and how many blocks there may
 * be from now on. */
void cni_mirror_pinned(size_t *blocks, size_t *copies);
void cni_mirror_pinned_limit(size_t blocks);

/* NULL with the error set when out of memory. Numbers in host memory are copied by value. */
mirror_job *cni_mirror_job_new(const cn_host *host, const cn_call *call);
/* Runs it on the calling thread. Results that were not allocated before the call are left in job->call.out,
 * owned. */
int cni_mirror_job_run(const cn_host *host, mirror_job *job);
void cni_mirror_job_free(const cn_host *host, mirror_job *job);

#endif
