/* tree.c: see tree.h. Dictionaries are arrays of pairs in the order of their making; longer ones have a hash table of
 * places beside it (a vocabulary has 50,000 keys).
 *
 * Invariant: a tree has one owner; no list or dictionary holds a NULL; a hash table is more than half empty. */
#include <cairn/autograd.h>
#include <cairn/ext/hash.h>
#include <cairn/ext/system.h>
#include <cairn/ops.h>
#include <cairn/tree.h>
#include <math.h>
#include <string.h>

typedef struct pair {
  char *key; /* NULL: the number */
  int64_t index;
  cn_tree *value;
} pair;

struct cn_tree {
  cn_tree_kind kind;
  bool ordered; /* of dictionaries */
  union {
    bool b;
    int64_t i;
    double f;
    cn_tensor *t;
    struct {
      char *bytes; /* size + 1 of them, the last a zero */
      size_t size;
    } s;
    struct {
      pair *pairs; /* of lists only the values are used */
      size_t n, cap;
      uint32_t *table; /* of 2^k slots + 1 in pairs, 0: none; NULL for short dictionaries */
      size_t slots;
    } c;
  } u;
};

enum { SHORT = 16 }; /* pairs up to which looking at each is fine */

static cn_tree *make(cn_tree_kind kind)
{
  cn_tree *t = cn_alloc_zero(sizeof *t);
  if (t) t->kind = kind;
  return t;
}

cn_tree *cn_tree_none(void) { return make(CN_TREE_NONE); }
cn_tree *cn_tree_list(void) { return make(CN_TREE_LIST); }
cn_tree *cn_tree_tuple(void) { return make(CN_TREE_TUPLE); }
cn_tree *cn_tree_dict(void) { return make(CN_TREE_DICT); }

void cn_tree_set_ordered(cn_tree *dict, bool on)
{
  if (dict && dict->kind == CN_TREE_DICT) dict->ordered = on;
}

bool cn_tree_is_ordered(const cn_tree *tree) { return tree && tree->ordered; }

cn_tree *cn_tree_bool(bool value)
{
  cn_tree *t = make(CN_TREE_BOOL);
  if (t) t->u.b = value;
  return t;
}

cn_tree *cn_tree_int(int64_t value)
{
  cn_tree *t = make(CN_TREE_INT);
  if (t) t->u.i = value;
  return t;
}

cn_tree *cn_tree_float(double value)
{
  cn_tree *t = make(CN_TREE_FLOAT);
  if (t) t->u.f = value;
  return t;
}

cn_tree *cn_tree_str_bytes(const char *value, size_t size)
{
  cn_tree *t = make(CN_TREE_STR);
  char *bytes = t ? cn_alloc(size + 1) : NULL;
  if (!bytes) {
    cn_free(t, sizeof *t);
    return NULL;
  }
  memcpy(bytes, value, size);
  bytes[size] = 0;
  t->u.s.bytes = bytes;
  t->u.s.size = size;
  return t;
}

cn_tree *cn_tree_str(const char *value)
{
  if (value) return cn_tree_str_bytes(value, strlen(value));
  cn_err_set(CN_ERR_TYPE, "tree: a text is missing (NULL)");
  return NULL;
}

cn_tree *cn_tree_tensor(cn_tensor *value)
{
  if (!value) {
    cn_err_set(CN_ERR_TYPE, "tree: a tensor is missing (NULL)");
    return NULL;
  }
  cn_tree *t = make(CN_TREE_TENSOR);
  if (t) t->u.t = cn_keep(value);
  return t;
}

static bool holds(const cn_tree *t)
{
  return t && (t->kind == CN_TREE_LIST || t->kind == CN_TREE_TUPLE || t->kind == CN_TREE_DICT);
}

/* Recursive: whoever reads files bounds their depth. */
void cn_tree_free(cn_tree *tree)
{
  if (!tree) return;
  if (tree->kind == CN_TREE_STR) cn_free(tree->u.s.bytes, tree->u.s.size + 1);
  if (tree->kind == CN_TREE_TENSOR) cn_release(tree->u.t);
  if (holds(tree)) {
    for (size_t i = 0; i < tree->u.c.n; i++) {
      cn_string_free(tree->u.c.pairs[i].key);
      cn_tree_free(tree->u.c.pairs[i].value);
    }
    cn_free(tree->u.c.pairs, tree->u.c.cap * sizeof(pair));
    cn_free(tree->u.c.table, tree->u.c.slots * sizeof(uint32_t));
  }
  cn_free(tree, sizeof *tree);
}

static cn_tree *copy_tensor(const cn_tree *tree, bool deep)
{
  if (!deep) return cn_tree_tensor(tree->u.t);
  cn_scope *s = cn_scope_begin();
  int saved = cn_no_grad_begin();
  cn_tree *copy = cn_tree_tensor(cn_clone(tree->u.t));
  cn_no_grad_end(saved);
  cn_scope_end(s);
  return copy;
}

cn_tree *cn_tree_copy(const cn_tree *tree, bool deep)
{
  if (!tree) return NULL;
  if (tree->kind == CN_TREE_STR) return cn_tree_str_bytes(tree->u.s.bytes, tree->u.s.size);
  if (tree->kind == CN_TREE_TENSOR) return copy_tensor(tree, deep);
  cn_tree *copy = make(tree->kind);
  cn_tree_set_ordered(copy, tree->ordered);
  if (!copy || !holds(tree)) {
    if (copy) copy->u = tree->u;
    return copy;
  }
  for (size_t i = 0; i < tree->u.c.n; i++) {
    const pair *p = &tree->u.c.pairs[i];
    cn_tree *value = cn_tree_copy(p->value, deep);
    int status = tree->kind != CN_TREE_DICT ? cn_tree_push(copy, value)
                 : p->key                   ? cn_tree_put(copy, p->key, value)
                                            : cn_tree_put_index(copy, p->index, value);
    if (status) {
      cn_tree_free(copy);
      return NULL;
    }
  }
  return copy;
}

/* ---- putting ---- */

/* Where a key's search begins. Seeded by the dictionary's address: no file can be made whose keys all meet there. */
static size_t place(const cn_tree *dict, const char *key, int64_t index)
{
  uint64_t h = CN_HASH_BEGIN ^ (uintptr_t)dict;
  h = key ? cn_hash_more(h, key, strlen(key)) : (h ^ (uint64_t)index) * 0x9e3779b97f4a7c15u;
  h = (h ^ h >> 32) * 0xd6e8feb86659fd93u;
  return (size_t)(h ^ h >> 32) & (dict->u.c.slots - 1);
}

static void enter(cn_tree *dict, size_t i)
{
  const pair *p = &dict->u.c.pairs[i];
  size_t mask = dict->u.c.slots - 1, h = place(dict, p->key, p->index);
  while (dict->u.c.table[h]) h = (h + 1) & mask;
  dict->u.c.table[h] = (uint32_t)i + 1;
}

/* Makes room for one more pair in the hash table of a dictionary. */
static int grow_table(cn_tree *dict)
{
  size_t need = dict->u.c.n + 1, slots = dict->u.c.slots ? dict->u.c.slots : 4 * SHORT;
  if (need <= SHORT || (dict->u.c.table && 2 * need < slots)) return CN_OK;
  while (slots <= 2 * need) slots *= 2;
  if (need >= UINT32_MAX) return cn_err_set(CN_ERR_VALUE, "tree: too many keys");
  uint32_t *table = cn_alloc_zero(slots * sizeof *table);
  if (!table) return CN_ERR_MEMORY;
  cn_free(dict->u.c.table, dict->u.c.slots * sizeof *table);
  dict->u.c.table = table;
  dict->u.c.slots = slots;
  for (size_t i = 0; i < dict->u.c.n; i++) enter(dict, i);
  return CN_OK;
}

/* Takes value and key over. */
static int append(cn_tree *tree, char *key, int64_t index, cn_tree *value)
{
  int status = cn_grow((void **)&tree->u.c.pairs, &tree->u.c.cap, tree->u.c.n + 1, sizeof(pair));
  if (!status && tree->kind == CN_TREE_DICT) status = grow_table(tree);
  if (status) {
    cn_string_free(key);
    cn_tree_free(value);
    return status;
  }
  tree->u.c.pairs[tree->u.c.n++] = (pair){key, index, value};
  if (tree->u.c.table) enter(tree, tree->u.c.n - 1);
  return CN_OK;
}

static int wrong(cn_tree *value, const char *what)
{
  if (!value) return cn_err() ? cn_err() : cn_err_set(CN_ERR_TYPE, "tree: a value is missing (NULL)");
  cn_tree_free(value);
  return cn_err_set(CN_ERR_TYPE, "tree: %s", what);
}

int cn_tree_push(cn_tree *list, cn_tree *value)
{
  bool fits = list && (list->kind == CN_TREE_LIST || list->kind == CN_TREE_TUPLE);
  if (!fits || !value) return wrong(value, "pushing needs a list");
  return append(list, NULL, 0, value);
}

static bool same_key(const pair *p, const char *key, int64_t index)
{
  return key ? p->key && !strcmp(p->key, key) : !p->key && p->index == index;
}

/* The place of a key; n when it is not there. */
static size_t find(const cn_tree *dict, const char *key, int64_t index)
{
  size_t n = dict->u.c.n, mask = dict->u.c.slots - 1;
  if (!dict->u.c.table) {
    for (size_t i = 0; i < n; i++)
      if (same_key(&dict->u.c.pairs[i], key, index)) return i;
    return n;
  }
  for (size_t h = place(dict, key, index); dict->u.c.table[h]; h = (h + 1) & mask)
    if (same_key(&dict->u.c.pairs[dict->u.c.table[h] - 1], key, index)) return dict->u.c.table[h] - 1;
  return n;
}

static int put(cn_tree *dict, const char *key, int64_t index, cn_tree *value)
{
  if (!dict || dict->kind != CN_TREE_DICT || !value) return wrong(value, "putting by key needs a dictionary");
  size_t i = find(dict, key, index);
  if (i < dict->u.c.n) {
    cn_tree_free(dict->u.c.pairs[i].value);
    dict->u.c.pairs[i].value = value;
    return CN_OK;
  }
  char *copy = key ? cn_string_copy(key) : NULL;
  if (key && !copy) {
    cn_tree_free(value);
    return CN_ERR_MEMORY;
  }
  return append(dict, copy, index, value);
}

int cn_tree_put(cn_tree *dict, const char *key, cn_tree *value)
{
  return key ? put(dict, key, 0, value) : wrong(value, "a key is missing (NULL)");
}
int cn_tree_put_index(cn_tree *dict, int64_t key, cn_tree *value) { return put(dict, NULL, key, value); }

/* ---- reading ---- */

cn_tree_kind cn_tree_kind_of(const cn_tree *tree) { return tree ? tree->kind : CN_TREE_NONE; }
size_t cn_tree_size(const cn_tree *tree) { return holds(tree) ? tree->u.c.n : 0; }

cn_tree *cn_tree_at(const cn_tree *tree, size_t i)
{
  return holds(tree) && i < tree->u.c.n ? tree->u.c.pairs[i].value : NULL;
}

static cn_tree *get(const cn_tree *dict, const char *key, int64_t index)
{
  if (!dict || dict->kind != CN_TREE_DICT) return NULL;
  size_t i = find(dict, key, index);
  return i < dict->u.c.n ? dict->u.c.pairs[i].value : NULL;
}

cn_tree *cn_tree_get(const cn_tree *dict, const char *key) { return key ? get(dict, key, 0) : NULL; }
cn_tree *cn_tree_get_index(const cn_tree *dict, int64_t key) { return get(dict, NULL, key); }

const char *cn_tree_key(const cn_tree *dict, size_t i, int64_t *index)
{
  if (!dict || dict->kind != CN_TREE_DICT || i >= dict->u.c.n) return NULL;
  if (index) *index = dict->u.c.pairs[i].index;
  return dict->u.c.pairs[i].key;
}

bool cn_tree_as_bool(const cn_tree *tree, bool otherwise)
{
  if (!tree) return otherwise;
  return tree->kind == CN_TREE_BOOL ? tree->u.b : tree->kind == CN_TREE_INT ? tree->u.i != 0 : otherwise;
}

int64_t cn_tree_as_int(const cn_tree *tree, int64_t otherwise)
{
  if (!tree) return otherwise;
  if (tree->kind == CN_TREE_INT) return tree->u.i;
  if (tree->kind == CN_TREE_BOOL) return tree->u.b;
  bool whole = tree->kind == CN_TREE_FLOAT && floor(tree->u.f) == tree->u.f && fabs(tree->u.f) < 0x1p63;
  return whole ? (int64_t)tree->u.f : otherwise;
}

double cn_tree_as_float(const cn_tree *tree, double otherwise)
{
  if (!tree) return otherwise;
  if (tree->kind == CN_TREE_FLOAT) return tree->u.f;
  return tree->kind == CN_TREE_INT ? (double)tree->u.i : tree->kind == CN_TREE_BOOL ? (double)tree->u.b : otherwise;
}

const char *cn_tree_as_str(const cn_tree *tree, const char *otherwise)
{
  return tree && tree->kind == CN_TREE_STR ? tree->u.s.bytes : otherwise;
}

size_t cn_tree_str_size(const cn_tree *tree) { return tree && tree->kind == CN_TREE_STR ? tree->u.s.size : 0; }

cn_tensor *cn_tree_as_tensor(const cn_tree *tree)
{
  return tree && tree->kind == CN_TREE_TENSOR ? tree->u.t : NULL;
}
