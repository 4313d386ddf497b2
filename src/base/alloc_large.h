/* alloc_large.h: the cache of large blocks, shared by all threads.
 *
 * Place in the flow: below alloc.c, which keeps the small ones and talks to the origin of all memory. Invariant: a
 * segment is what the origin gave at once, and only a whole one goes back to it; blocks are pieces of segments. */
#ifndef CNI_BASE_ALLOC_LARGE_H
#define CNI_BASE_ALLOC_LARGE_H

#include <stdbool.h>
#include <stddef.h>

#include "alloc.h"

void *cni_large_alloc(size_t size); /* NULL when out of memory, without an error */
void cni_large_free(void *p, size_t size, bool keep);
void cni_large_flush(void);    /* gives back what is wholly free */
size_t cni_large_cached(void); /* bytes that are free */
/* Before others set handlers of forks for locks under which they allocate: theirs are to be taken before this one's. */
void cni_large_survives_forks(void);

/* The origin (alloc.c): the program's allocator or the system, with its accounts and limit. */
void *cni_origin_alloc(size_t size);
void cni_origin_free(void *p, size_t size);

#endif
