/* nontemporal.h: results too large for the caches are written past them: a line that will be evicted before it is read
 * again need not be fetched first, which saves a third of the traffic of a copy.
 *
 * Place in the flow: kernels ask cni_nontemporal_pays once per call, make a block of the result in L1, and send it to
 * memory with cni_nontemporal_store, which meanwhile fetches the next block's operands. Invariant: only bytes move
 * here; whoever stored so calls cni_nontemporal_end before another thread may read. */
#ifndef CNI_CPU_NONTEMPORAL_H
#define CNI_CPU_NONTEMPORAL_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

/* Is a call that touches so many bytes, operands and results, better off past the caches? */
bool cni_nontemporal_pays(int64_t bytes);

enum { CNI_LINE = 64 };

/* Is this where whole lines begin? */
static inline bool cni_nontemporal_fits(const void *dst) { return ((uintptr_t)dst & (CNI_LINE - 1)) == 0; }

/* How many elements of this stride dst lies behind the beginning of a line. */
static inline int64_t cni_into_line(const char *dst, int64_t stride)
{
  int64_t bytes = (int64_t)((uintptr_t)dst & (CNI_LINE - 1));
  return stride > 0 && stride <= 8 ? bytes / stride : 0;
}

/* Copies a block from L1 to dst, which fits. ahead[k], k < count: what will be read next, `each[k]` bytes of it. */
static inline void cni_nontemporal_store(void *dst, const void *src, size_t bytes, const char *const *ahead,
                                         const size_t *each, int count)
{
#if defined(__x86_64__)
  size_t at = 0;
  for (; at + CNI_LINE <= bytes; at += CNI_LINE) {
    const __m128 *from = (const void *)((const char *)src + at);
    float *to = (float *)((char *)dst + at);
    __m128 a = _mm_loadu_ps((const float *)from), b = _mm_loadu_ps((const float *)(from + 1));
    __m128 c = _mm_loadu_ps((const float *)(from + 2)), d = _mm_loadu_ps((const float *)(from + 3));
    for (int k = 0; k < count; k++)
      if (at < each[k]) _mm_prefetch(ahead[k] + at, _MM_HINT_T0);
    _mm_stream_ps(to, a);
    _mm_stream_ps(to + 4, b);
    _mm_stream_ps(to + 8, c);
    _mm_stream_ps(to + 12, d);
  }
  memcpy((char *)dst + at, (const char *)src + at, bytes - at);
#else
  (void)ahead, (void)each, (void)count;
  memcpy(dst, src, bytes);
#endif
}

static inline void cni_nontemporal_end(void)
{
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

/* Asks for the lines of a run that will be read soon, where the hardware does not see it coming. */
static inline void cni_prefetch(const char *at, int64_t bytes)
{
  for (int64_t k = 0; k < bytes; k += CNI_LINE) __builtin_prefetch(at + k);
}

/* A copy of memory to memory past the caches; dst and src anywhere. */
static inline void cni_nontemporal_copy(void *dst, const void *src, size_t bytes)
{
  size_t head = (CNI_LINE - ((uintptr_t)dst & (CNI_LINE - 1))) & (CNI_LINE - 1);
  if (head > bytes) head = bytes;
  memcpy(dst, src, head);
  cni_nontemporal_store((char *)dst + head, (const char *)src + head, bytes - head, NULL, NULL, 0);
}

#endif
