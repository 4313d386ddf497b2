/* ext/hash.h: one hash for tables and cache keys (FNV-1a, 64 bits), in the core, above it and in plugins.
 *
 * Not for hostile input: who reads keys from files starts from a seed that the file cannot know. Files on disk are
 * named after it, so its numbers never change.
 */
#ifndef CAIRN_EXT_HASH_H
#define CAIRN_EXT_HASH_H

#include <stddef.h>
#include <stdint.h>

#define CN_HASH_BEGIN 0xcbf29ce484222325u

static inline uint64_t cn_hash_more(uint64_t h, const void *data, size_t size)
{
  const unsigned char *p = (const unsigned char *)data;
  for (size_t i = 0; i < size; i++) h = (h ^ p[i]) * 0x100000001b3u;
  return h;
}

static inline uint64_t cn_hash(const void *data, size_t size) { return cn_hash_more(CN_HASH_BEGIN, data, size); }

#endif
