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
  cn_call call;            /* op NULL: the block is memory to be released */
  cn_desc *desc;           /* nout results, then nin inputs; data are host pointers */
  bool *there;             /* ... is there such a tensor? */
} mirror_job;

/* NULL with the error set when out of memory. Numbers in host memory are copied by value. */
mirror_job *cni_mirror_job_new(const cn_host *host, const cn_call *call);
/* Runs it on the calling thread. Results that were not allocated before the call are left in job->call.out,
 * owned. */
int cni_mirror_job_run(const cn_host *host, mirror_job *job);
void cni_mirror_job_free(const cn_host *host, mirror_job *job);

#endif
