/* torch.c: reads PyTorch's files: the archive that torch.save writes since release 1.6, and the pickles in a row that
 * it wrote before. See io.h; pickle.c reads the pickle, torch_call.c says what may be in it.
 *
 * Invariant: the tree that comes out is bounded by the size of the pickle, also where values are shared or hold
 * themselves. */
#include "torch.h"

#include <string.h>

/* What a tree may cost for each byte of the pickle: an item, or a byte of text. */
enum { COST_RATIO = 64, COST_FREE = 1 << 16 };

typedef struct builder {
  cni_torch *torch;
  uint64_t left;
} builder;

static cn_tree *bad(const builder *b, const char *what)
{
  if (!cn_err()) cni_source_bad(b->torch->source, "torch", "%s", what);
  return NULL;
}

static bool spend(builder *b, uint64_t cost)
{
  if (cost > b->left) return bad(b, "its values are shared so often that it unpacks to far more than it should");
  b->left -= cost;
  return true;
}

/* ---- items to trees ---- */

static cn_tree *build(builder *b, cni_item *item, int depth);

/* Puts value under a key; takes the value over. */
static int put_pair(builder *b, cn_tree *dict, const cni_item *key, cn_tree *value)
{
  if (key->kind == CNI_PICKLED_INT) return cn_tree_put_index(dict, key->u.i, value);
  bool text = key->kind == CNI_PICKLED_STR && !memchr(key->u.text.s, 0, key->u.text.n);
  char *name = text && value && spend(b, key->u.text.n) ? cn_string_copy_bytes(key->u.text.s, key->u.text.n) : NULL;
  if (!text) bad(b, "a dictionary with keys that are neither text nor whole numbers");
  int status = name ? cn_tree_put(dict, name, value) : cn_err();
  if (!name) cn_tree_free(value);
  cn_string_free(name);
  return status;
}

static cn_tree *build_list(builder *b, cni_item *item, int depth)
{
  bool dict = item->kind == CNI_PICKLED_DICT;
  cn_tree *tree = dict ? cn_tree_dict() : item->kind == CNI_PICKLED_TUPLE ? cn_tree_tuple() : cn_tree_list();
  int status = tree ? CN_OK : CN_ERR_MEMORY;
  cn_tree_set_ordered(tree, item->ordered);
  if (item->open) status = CN_ERR_IO, bad(b, "a list or dictionary that holds itself");
  bool mine = !item->open;
  item->open = true;
  for (size_t i = 0; !status && i < item->u.list.n; i += dict ? 2 : 1) {
    cn_tree *value = build(b, item->u.list.v[dict ? i + 1 : i], depth + 1);
    if (!value) status = cn_err();
    else status = dict ? put_pair(b, tree, item->u.list.v[i], value) : cn_tree_push(tree, value);
  }
  if (mine) item->open = false;
  if (!status) return tree;
  cn_tree_free(tree);
  return NULL;
}

static cn_tree *build_global(builder *b, const cni_item *item)
{
  if (cni_torch_dtype(item)) return cn_tree_str_bytes(item->u.text.s, item->u.text.n);
  cni_source_bad(b->torch->source, "torch", "it holds %.*s, which is no data", (int)item->u.text.n, item->u.text.s);
  return NULL;
}

static cn_tree *build(builder *b, cni_item *item, int depth)
{
  if (depth > CNI_TORCH_DEEPEST) return bad(b, "it is nested too deeply");
  if (!spend(b, 1)) return NULL;
  switch (item->kind) {
  case CNI_PICKLED_NONE: return cn_tree_none();
  case CNI_PICKLED_BOOL: return cn_tree_bool(item->u.b);
  case CNI_PICKLED_INT: return cn_tree_int(item->u.i);
  case CNI_PICKLED_FLOAT: return cn_tree_float(item->u.f);
  case CNI_PICKLED_BIG: return bad(b, "a whole number of more than 64 bits");
  case CNI_PICKLED_STR: return spend(b, item->u.text.n) ? cn_tree_str_bytes(item->u.text.s, item->u.text.n) : NULL;
  case CNI_PICKLED_GLOBAL: return build_global(b, item);
  case CNI_PICKLED_LIST:
  case CNI_PICKLED_TUPLE:
  case CNI_PICKLED_DICT: return build_list(b, item, depth);
  case CNI_PICKLED_OBJECT: break;
  }
  cn_tensor *t = cni_torch_tensor(b->torch, item->u.object.index);
  return t ? cn_tree_tensor(t) : NULL;
}

static cn_tree *tree_of(cni_torch *t, cni_item *item, size_t pickle_size)
{
  builder b = {t, (uint64_t)pickle_size * COST_RATIO + COST_FREE};
  return item ? build(&b, item, 0) : NULL;
}

/* ---- the archive ---- */

#define PICKLE "data.pkl"

/* "NAME/" in front of NAME/data.pkl: how many characters; 0 when there is none. */
static size_t prefix_of(const char *name, const char *of)
{
  const char *slash = strchr(name, '/');
  return slash && !strcmp(slash + 1, of) ? (size_t)(slash + 1 - name) : 0;
}

static const cni_zip_entry *find_prefixed(const cni_zip *zip, const char *of)
{
  for (size_t i = 0; i < zip->n; i++)
    if (prefix_of(zip->entries[i].name, of)) return &zip->entries[i];
  return NULL;
}

bool cni_is_torch_zip(const cni_zip *zip) { return find_prefixed(zip, PICKLE) || find_prefixed(zip, "constants.pkl"); }

/* Numbers of the other order of bytes would come out wrong. */
static int check_byte_order(cni_source *source, const cni_zip *zip)
{
  const cni_zip_entry *e = find_prefixed(zip, "byteorder");
  cni_source *text = e ? cni_zip_read(zip, e, false) : NULL;
  if (e && !text) return cn_err();
  bool big = text && text->size == 3 && !memcmp(text->data, "big", 3);
  cni_source_free(text);
  return big ? cni_source_bad(source, "torch", "it was written by a big-endian machine, which is not read") : CN_OK;
}

cn_tree *cni_read_torch_zip(cni_source *source, const cni_zip *zip)
{
  const cni_zip_entry *e = find_prefixed(zip, PICKLE);
  if (!e || find_prefixed(zip, "constants.pkl")) {
    cni_source_bad(source, "torch", "a TorchScript program: load it with torch.jit.load and save its state_dict");
    return NULL;
  }
  if (check_byte_order(source, zip)) return NULL;
  cni_source *bytes = cni_zip_read(zip, e, false);
  cni_torch t = {.source = source, .zip = zip, .prefix = e->name, .prefix_size = prefix_of(e->name, PICKLE)};
  cni_pickle_meaning meaning = cni_torch_meaning;
  meaning.payload = &t;
  t.keys = bytes ? cn_tree_dict() : NULL;
  cni_pickle *p = t.keys ? cni_pickle_new(bytes, &meaning) : NULL;
  cn_tree *tree = p ? tree_of(&t, cni_pickle_read(p), bytes->size) : NULL;
  cni_pickle_free(p);
  cni_torch_free(&t);
  cni_source_free(bytes);
  return tree;
}

/* ---- the form before release 1.6 ---- */

/* The number that its first pickle holds, where it may begin in it, and how protocol 1 writes it. */
static const unsigned char magic[] = {0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};
static const char magic_text[] = "L119547037146038801333356L\n.";
enum { MAGIC_FIRST = 2, MAGIC_LAST = 16, VERSION = 1001 };

static bool is_legacy(const cni_source *s)
{
  if (s->size >= sizeof magic_text && !memcmp(s->data, magic_text, sizeof magic_text - 1)) return true;
  for (size_t i = MAGIC_FIRST; i <= MAGIC_LAST && i + sizeof magic < s->size; i++)
    if (s->data[0] == 0x80 && !memcmp(s->data + i, magic, sizeof magic)) return true;
  return false;
}

static cn_tree *wrong(const cni_source *s, const char *what)
{
  if (!cn_err()) cni_source_bad(s, "torch", "%s", what);
  return NULL;
}

/* Behind the pickles stand the storages, in the order of a list of their keys: a count of elements and the elements. */
static int find_storages(cni_torch *t, const cni_item *keys, size_t at)
{
  const cni_source *s = t->source;
  if (keys->kind != CNI_PICKLED_LIST) return cni_source_bad(s, "torch", "its list of storages is missing");
  for (size_t i = 0; i < keys->u.list.n; i++) {
    const cni_item *key = keys->u.list.v[i];
    char *name = key->kind == CNI_PICKLED_STR ? cn_string_copy_bytes(key->u.text.s, key->u.text.n) : NULL;
    int64_t number = name ? cn_tree_as_int(cn_tree_get(t->keys, name), -1) : -1;
    cn_string_free(name);
    if (number < 0) return cni_source_bad(s, "torch", "its list of storages is damaged");
    cni_torch_storage *to = &t->storages[number];
    uint64_t bytes;
    int64_t numel = s->size - at >= 8 ? (int64_t)cni_le64(s->data + at) : -1;
    if (to->bytes || !cni_shape_bytes(&bytes, &numel, 1, to->element) || bytes > s->size - at - 8 || bytes < to->wanted)
      return cni_source_bad(s, "torch", "a storage is damaged or cut short");
    to->bytes = cni_source_part(s, at + 8, (size_t)bytes);
    if (!to->bytes) return CN_ERR_MEMORY;
    at += 8 + (size_t)bytes;
  }
  return CN_OK;
}

static bool little_endian(const cni_item *info)
{
  for (size_t i = 0; i + 1 < info->u.list.n; i += 2)
    if (cni_item_is(info->u.list.v[i], "little_endian"))
      return info->u.list.v[i + 1]->kind == CNI_PICKLED_BOOL && info->u.list.v[i + 1]->u.b;
  return true;
}

static cn_tree *read_pickles(cni_torch *t, cni_pickle *p)
{
  const cni_item *first = cni_pickle_read(p), *version = first ? cni_pickle_read(p) : NULL;
  const cni_item *info = version ? cni_pickle_read(p) : NULL;
  if (!info) return NULL;
  if (first->kind != CNI_PICKLED_BIG || version->kind != CNI_PICKLED_INT || version->u.i != VERSION ||
      info->kind != CNI_PICKLED_DICT)
    return wrong(t->source, "its first pickles are not those of a PyTorch file");
  if (!little_endian(info)) return wrong(t->source, "it was written by a big-endian machine, which is not read");
  cni_item *value = cni_pickle_read(p), *keys = value ? cni_pickle_read(p) : NULL;
  if (!keys || find_storages(t, keys, cni_pickle_at(p))) return NULL;
  return tree_of(t, value, cni_pickle_at(p));
}

cn_tree *cni_read_torch_legacy(cni_source *source)
{
  cni_torch t = {.source = source, .keys = cn_tree_dict()};
  cni_pickle_meaning meaning = cni_torch_meaning;
  meaning.payload = &t;
  cni_pickle *p = t.keys ? cni_pickle_new(source, &meaning) : NULL;
  cn_tree *tree = p ? read_pickles(&t, p) : NULL;
  cni_pickle_free(p);
  cni_torch_free(&t);
  return tree;
}

static bool is_torch(const cni_source *s) { return cni_is_zip(s) || is_legacy(s); }

static cn_tree *read_torch(cni_source *s) { return is_legacy(s) ? cni_read_torch_legacy(s) : cni_read_archive(s); }

const cni_format cni_format_torch = {{CN_FORMAT_TORCH, "torch", ".pt .pth .bin .ckpt", CN_HOLDS_TREE}, is_torch,
                                     read_torch, cni_write_torch, false};
