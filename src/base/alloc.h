/* alloc.h: the one way to host memory: hook -> shared cache of large buffers -> per-thread pools of small ones.
 *
 * Place in the flow: below tensors; everything that allocates comes here. Invariant: cni_free is given the size
 * that cni_alloc was given; blocks are aligned to 64 bytes. */
#ifndef CNI_BASE_ALLOC_H
#define CNI_BASE_ALLOC_H

#include "state.h"

/* NULL with the error set when out of memory. Size 0 gives a valid block. */
void *cni_alloc(size_t size);
void *cni_alloc_zero(size_t size);
void cni_free(void *memory, size_t size); /* NULL is fine */
/* Makes *array hold at least `need` elements of `elem` bytes, growing by half; 0 or CN_ERR_MEMORY. */
int cni_grow(void **array, size_t *cap, size_t need, size_t elem);
char *cni_strdup(const char *s); /* freed with cni_strfree; NULL with the error set */
void cni_strfree(char *s);

void cni_pool_init(cn_state *s);
void cni_pool_flush(cn_state *s); /* gives this state's cached small blocks back */

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

static inline bool cni_mul_overflows(size_t a, size_t b, size_t *product)
{
  return __builtin_mul_overflow(a, b, product);
}

#endif
