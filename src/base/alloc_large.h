/* alloc_large.h: the cache of large blocks, shared by all threads.
 *
 * Place in the flow: below alloc.c, which keeps the small ones and talks to the origin of all memory. Invariant: a
 * segment is what the origin gave at once, and only a whole one goes back to it; blocks are pieces of segments. */
#ifndef CNI_BASE_ALLOC_LARGE_H
#define CNI_BASE_ALLOC_LARGE_H

#include <stdbool.h>
#include <stddef.h>

void *cni_large_alloc(size_t size); /* NULL when out of memory, without an error */
void cni_large_free(void *p, size_t size, bool keep);
void cni_large_flush(void);    /* gives back what is wholly free */
size_t cni_large_cached(void); /* bytes that are free */

/* The origin (alloc.c): the program's allocator or the system, with its accounts and limit. */
void *cni_origin_alloc(size_t size);
void cni_origin_free(void *p, size_t size);

/* What lies in a cache is nobody's: the address sanitizer is told, so that a use after free still shows. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CNI_ASAN 1
#endif
#endif
#if defined(CNI_ASAN) || defined(__SANITIZE_ADDRESS__)
void __asan_poison_memory_region(const volatile void *p, size_t size);
void __asan_unpoison_memory_region(const volatile void *p, size_t size);
static inline void cni_cover(void *p, size_t size) { __asan_poison_memory_region(p, size); }
static inline void cni_uncover(void *p, size_t size) { __asan_unpoison_memory_region(p, size); }
#else
static inline void cni_cover(void *p, size_t size) { (void)p, (void)size; }
static inline void cni_uncover(void *p, size_t size) { (void)p, (void)size; }
#endif

#endif
