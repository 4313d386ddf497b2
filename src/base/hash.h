/* hash.h: one hash for tables and cache keys. Not for hostile input. */
#ifndef CNI_BASE_HASH_H
#define CNI_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t cni_hash_more(uint64_t h, const void *data, size_t size)
{
  const unsigned char *p = data;
  for (size_t i = 0; i < size; i++) h = (h ^ p[i]) * 0x100000001b3ull;
  return h;
}
static inline uint64_t cni_hash(const void *data, size_t size)
{
  return cni_hash_more(0xcbf29ce484222325ull, data, size);
}

#endif
