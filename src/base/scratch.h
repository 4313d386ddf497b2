/* scratch.h: memory that a kernel needs only while it runs.
 *
 * Place in the flow: kernels in host memory ask here. In a run of a graph the context lends what is free in its memory
 * at that node (graph/work.c), a parallel region shares that among its threads (parallel.c), and only what does not fit
 * comes from alloc.c, as everything does outside of graphs. Invariant: a thread gives back what it took itself, within
 * the region or the node in which it took it. */
#ifndef CNI_BASE_SCRATCH_H
#define CNI_BASE_SCRATCH_H

#include <stddef.h>

/* What is lent to a thread, and how much of it is taken. */
typedef struct cni_scratch {
  char *base;    /* aligned to 64 bytes; NULL: nothing is lent */
  size_t size;
  size_t used;   /* bytes from base on, of which some may have been given back */
  size_t beyond; /* bytes that did not fit, and came from alloc.c */
  size_t most;   /* of used and beyond together: what would have been enough */
  int blocks;    /* taken from here, and not given back */
} cni_scratch;

extern _Thread_local cni_scratch cni_lent;

/* As cni_alloc, cni_alloc_zero and cni_free. */
void *cni_scratch_alloc(size_t size);
void *cni_scratch_alloc_zero(size_t size);
void cni_scratch_free(void *memory, size_t size);

/* One of `parts` equal parts of what is left. */
cni_scratch cni_scratch_part(const cni_scratch *s, int part, int parts);

#endif
