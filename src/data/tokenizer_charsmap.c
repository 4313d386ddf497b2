/* tokenizer_charsmap.c: the map of characters that a SentencePiece model carries: NFKC and the like, as a trie.
 *
 * The map is the size of the trie in bytes, the trie (a double array of 32-bit units in little-endian order), and texts
 * that end with a zero; the value of a key is where its text begins. A unit has the label of its edge in its low byte,
 * a bit that a value follows (8), and the distance to its children.
 *
 * Invariant: whatever the units say, nothing outside of the map is read. */
#include <string.h>

#include "tokenizer_steps.h"
#include "unicode_forms.h"

static uint32_t number_at(const unsigned char *p)
{
  return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

typedef struct trie {
  const unsigned char *units;
  uint32_t count;
  const char *texts;
  size_t texts_size;
} trie;

static trie trie_of(const cni_text_step *map)
{
  const unsigned char *p = map->data;
  uint32_t size = number_at(p);
  return (trie){p + 4, size / 4, (const char *)p + 4 + size, map->data_size - 4 - size};
}

int cni_charsmap_check(const cni_text_step *map)
{
  if (map->data_size >= 8) {
    uint32_t size = number_at(map->data);
    if (size >= 4 && size % 4 == 0 && size < map->data_size - 4 && !((const char *)map->data)[map->data_size - 1])
      return CN_OK;
  }
  return cn_err_set(CN_ERR_IO, "its map of characters (precompiled_charsmap) is broken");
}

static uint32_t distance(uint32_t unit) { return unit >> 10 << ((unit & 0x200) >> 6); }

/* The text of a key that begins s, the shortest or the longest one; *taken: bytes of the key. */
static const char *find(const trie *t, const char *s, size_t n, bool shortest, size_t *taken, size_t *size)
{
  const char *found = NULL;
  uint32_t at = distance(number_at(t->units));
  for (size_t i = 0; i < n && s[i]; i++) {
    at ^= (unsigned char)s[i];
    if (at >= t->count) break;
    uint32_t unit = number_at(t->units + 4 * (size_t)at);
    if ((unit & 0x800000ffu) != (unsigned char)s[i]) break;
    at ^= distance(unit);
    if (!(unit >> 8 & 1) || at >= t->count) continue;
    uint32_t begin = number_at(t->units + 4 * (size_t)at) & 0x7fffffffu;
    if (begin >= t->texts_size) continue;
    found = t->texts + begin;
    *taken = i + 1;
    if (shortest) break;
  }
  if (found) *size = strlen(found);
  return found;
}

const char *cni_charsmap_find(const cni_text_step *map, const char *s, size_t n, size_t *taken, size_t *size)
{
  trie t = trie_of(map);
  return find(&t, s, n, false, taken, size);
}

/* As the `tokenizers` library does it: a cluster of less than 6 bytes becomes the text of the shortest key that it
 * begins with, all of it; of others each character does. */
void cni_normal_charsmap(cn_text *out, const cni_text_step *how, const char *s, size_t n)
{
  trie t = trie_of(how);
  size_t taken, size;
  for (const char *end = s + n; s < end;) {
    size_t cluster = cni_unicode_cluster(s, end);
    const char *text = cluster < 6 ? find(&t, s, cluster, true, &taken, &size) : NULL;
    if (text) {
      cn_text_put_bytes(out, text, size);
      s += cluster;
      continue;
    }
    for (const char *stop = s + cluster; s < stop; s += taken) {
      uint32_t c;
      size_t bytes = cn_utf8_read(&c, s, end);
      if (!bytes) bytes = 1;
      text = find(&t, s, bytes, true, &taken, &size);
      cn_text_put_bytes(out, text ? text : s, text ? size : bytes);
      taken = bytes;
    }
  }
}
