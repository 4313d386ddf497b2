/* tokenizer_vocab.c: vocabularies: tokens by number, numbers by token. See tokenizer.h.
 *
 * Invariant: every entry of the hash table is the number of a token; a token's bytes never change once put. */
#include <string.h>

#include "tokenizer.h"

/* Eight bytes a step, unlike ext/hash.h: encoding asks it for every piece of every word. */
static size_t hash(const char *s, size_t n)
{
  uint64_t h = 0x9e3779b97f4a7c15u ^ n;
  for (; n >= 8; s += 8, n -= 8) {
    uint64_t w;
    memcpy(&w, s, 8);
    h = (h ^ w) * 0xff51afd7ed558ccdu;
    h ^= h >> 32;
  }
  uint64_t w = 0;
  memcpy(&w, s, n);
  h = (h ^ w) * 0xff51afd7ed558ccdu;
  return (size_t)(h ^ h >> 29);
}

static bool is(const cni_vocab *v, uint32_t id, const char *s, size_t n)
{
  return v->v[id].size == n && !memcmp(v->bytes + v->v[id].at - 1, s, n);
}

/* The slot that has the token, or the empty one where it would be. */
static size_t slot_of(const cni_vocab *v, const char *s, size_t n)
{
  size_t at = hash(s, n) & (v->slots - 1);
  while (v->table[at] && !is(v, v->table[at] - 1, s, n)) at = (at + 1) & (v->slots - 1);
  return at;
}

int64_t cni_vocab_find(const cni_vocab *v, const char *s, size_t n)
{
  return v->slots ? (int64_t)v->table[slot_of(v, s, n)] - 1 : -1;
}

const char *cni_vocab_at(const cni_vocab *v, int64_t id, size_t *size)
{
  if (id < 0 || (uint64_t)id >= v->n || !v->v[id].at) return NULL;
  *size = v->v[id].size;
  return v->bytes + v->v[id].at - 1;
}

static int grow_table(cni_vocab *v)
{
  if (v->slots > 2 * (v->filled + 1)) return CN_OK;
  size_t slots = v->slots ? 2 * v->slots : 1024;
  uint32_t *table = cn_alloc_zero(slots * sizeof *table), *old = v->table;
  if (!table) return CN_ERR_MEMORY;
  size_t old_slots = v->slots;
  v->table = table;
  v->slots = slots;
  for (size_t i = 0; i < old_slots; i++) {
    if (!old[i]) continue;
    const struct cni_token *t = &v->v[old[i] - 1];
    table[slot_of(v, v->bytes + t->at - 1, t->size)] = old[i];
  }
  cn_free(old, old_slots * sizeof *old);
  return CN_OK;
}

int cni_vocab_put(cni_vocab *v, const char *s, size_t n, int64_t id)
{
  if (id < 0 || id >= CNI_MOST_TOKENS)
    return cn_err_set(CN_ERR_IO, "a token has the number %lld; numbers go from 0 to %d", (long long)id,
                      CNI_MOST_TOKENS - 1);
  if ((uint64_t)id < v->n && v->v[id].at) {
    if (is(v, (uint32_t)id, s, n)) return CN_OK;
    return cn_err_set(CN_ERR_IO, "two tokens have the number %lld", (long long)id);
  }
  if (n >= UINT32_MAX) return cn_err_set(CN_ERR_IO, "a token of %zu bytes", n);
  if (cn_grow((void **)&v->v, &v->v_cap, (size_t)id + 1, sizeof *v->v)) return CN_ERR_MEMORY;
  if (cn_grow((void **)&v->bytes, &v->cap, v->used + n + 1, 1) || grow_table(v)) return CN_ERR_MEMORY;
  for (; v->n <= (size_t)id; v->n++) v->v[v->n] = (struct cni_token){0};
  memcpy(v->bytes + v->used, s, n);
  v->bytes[v->used + n] = 0;
  v->v[id] = (struct cni_token){v->used + 1, (uint32_t)n, false};
  v->used += n + 1;
  if (n > v->longest) v->longest = n;
  size_t slot = slot_of(v, s, n);
  v->filled += !v->table[slot];
  v->table[slot] = (uint32_t)id + 1;
  return CN_OK;
}

void cni_vocab_free(cni_vocab *v)
{
  cn_free(v->bytes, v->cap);
  cn_free(v->v, v->v_cap * sizeof *v->v);
  cn_free(v->table, v->slots * sizeof *v->table);
  *v = (cni_vocab){0};
}

int cni_vocab_put_tree(cni_vocab *vocab, const cn_tree *tree)
{
  if (cn_tree_kind_of(tree) != CN_TREE_DICT || !cn_tree_size(tree))
    return cn_err_set(CN_ERR_IO, "there is no vocabulary: {\"token\": number, ...}");
  for (size_t i = 0; i < cn_tree_size(tree); i++) {
    const char *key = cn_tree_key(tree, i, NULL);
    const cn_tree *value = cn_tree_at(tree, i);
    if (!key || cn_tree_kind_of(value) != CN_TREE_INT)
      return cn_err_set(CN_ERR_IO, "the vocabulary's token \"%.60s\" has no number", key ? key : "");
    int status = cni_vocab_put(vocab, key, strlen(key), cn_tree_as_int(value, -1));
    if (status) return status;
  }
  return CN_OK;
}
