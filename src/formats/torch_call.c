/* torch_call.c: what the calls in a pickle of PyTorch's mean: the allow-list. See torch.h.
 *
 * Invariant: a name that is not in a table here is refused by its name; those that are only describe data. A tensor is
 * made only of elements that lie in its storage. */
#include <cairn/autograd.h>
#include <cairn/ops.h>
#include <string.h>

#include "torch.h"

/* ---- types ---- */

static const struct storage_class {
  const char *name;
  cn_dtype dtype;
} storage_classes[] = {
  {"FloatStorage", CN_F32}, {"DoubleStorage", CN_F64}, {"HalfStorage", CN_F16},  {"BFloat16Storage", CN_BF16},
  {"LongStorage", CN_I64},  {"IntStorage", CN_I32},    {"ShortStorage", CN_I16}, {"CharStorage", CN_I8},
  {"ByteStorage", CN_U8},   {"BoolStorage", CN_BOOL},  {"ComplexFloatStorage", CN_C64},
  {"ComplexDoubleStorage", CN_C128},  {"UntypedStorage", CN_U8}, {"_UntypedStorage", CN_U8},
};
enum { STORAGE_CLASSES = sizeof storage_classes / sizeof *storage_classes, TYPED = STORAGE_CLASSES - 2 };

/* What follows `prefix` in a global's name; NULL when it begins otherwise. *n: how many characters. */
static const char *behind(const cni_item *global, const char *prefix, size_t *n)
{
  size_t k = strlen(prefix);
  if (global->kind != CNI_PICKLED_GLOBAL || global->u.text.n <= k) return NULL;
  if (memcmp(global->u.text.s, prefix, k) != 0) return NULL;
  *n = global->u.text.n - k;
  return global->u.text.s + k;
}

cn_dtype cni_torch_storage_dtype(const cni_item *global)
{
  static const char *const modules[] = {"torch.", "torch.cuda.", "torch.storage."};
  for (size_t m = 0; m < sizeof modules / sizeof *modules; m++) {
    size_t n = 0;
    const char *name = behind(global, modules[m], &n);
    for (size_t i = 0; name && i < STORAGE_CLASSES; i++) {
      const struct storage_class *c = &storage_classes[i];
      if (strlen(c->name) == n && !memcmp(c->name, name, n)) return c->dtype;
    }
  }
  return CN_DTYPE_NONE;
}

const char *cni_torch_storage_name(cn_dtype dtype)
{
  for (size_t i = 0; i < TYPED; i++)
    if (storage_classes[i].dtype == dtype) return storage_classes[i].name;
  return NULL;
}

cn_dtype cni_torch_dtype(const cni_item *global)
{
  size_t n = 0;
  const char *name = behind(global, "torch.", &n);
  for (int d = 1; name && d < CN_DTYPE_COUNT; d++) {
    const char *own = cn_dtype_name((cn_dtype)d);
    if (strlen(own) == n && !memcmp(own, name, n)) return (cn_dtype)d;
  }
  return CN_DTYPE_NONE;
}

/* ---- arguments ---- */

static cni_item *refuse(const cni_torch *t, const char *what)
{
  if (!cn_err()) cni_source_bad(t->source, "torch", "%s", what);
  return NULL;
}

static const cni_item *argument(const cni_item *args, size_t i)
{
  return i < args->u.list.n ? args->u.list.v[i] : NULL;
}

static bool is_view(const cni_item *item)
{
  return item && item->kind == CNI_PICKLED_OBJECT && item->u.object.type == CNI_TORCH_VIEW;
}

/* A tuple of sizes that can be a tensor's. */
static bool is_sizes(const cni_item *item)
{
  if (!item || item->kind != CNI_PICKLED_TUPLE || item->u.list.n > CN_MAX_DIMS) return false;
  for (size_t i = 0; i < item->u.list.n; i++)
    if (item->u.list.v[i]->kind != CNI_PICKLED_INT || item->u.list.v[i]->u.i < 0) return false;
  return true;
}

static bool natural(const cni_item *item, int64_t *value)
{
  *value = item && item->kind == CNI_PICKLED_INT ? item->u.i : -1;
  return *value >= 0;
}

static cni_item *copy_items(cni_pickle *p, const cni_item *from, cni_pickled kind)
{
  cni_item *to = cni_item_new(p, kind);
  for (size_t i = 0; to && from && i < from->u.list.n; i++)
    if (cni_item_push(p, to, from->u.list.v[i])) return NULL;
  return to;
}

static cni_item *text_item(cni_pickle *p, const char *s, size_t n)
{
  cni_item *item = cni_item_new(p, CNI_PICKLED_STR);
  if (item) item->u.text.s = s, item->u.text.n = n;
  return item;
}

/* ---- storages ---- */

static cni_item *new_view(cni_pickle *p, cni_torch *t, const cni_torch_view *view)
{
  if (cn_grow((void **)&t->views, &t->views_cap, t->nviews + 1, sizeof *t->views)) return NULL;
  t->views[t->nviews++] = *view;
  cni_item *item = cni_item_new(p, CNI_PICKLED_OBJECT);
  if (item) item->u.object.type = CNI_TORCH_VIEW, item->u.object.index = t->nviews - 1;
  return item;
}

/* In an archive a storage is the entry data/KEY. */
static int find_entry(cni_torch *t, cni_torch_storage *s)
{
  cn_text name = {0};
  if (!t->zip) return CN_OK; /* the older form has them behind the pickles */
  cn_text_put_bytes(&name, t->prefix, t->prefix_size);
  cn_text_put(&name, "data/");
  cn_text_put_bytes(&name, s->key, s->key_size);
  const cni_zip_entry *e = name.failed ? NULL : cni_zip_find(t->zip, name.s);
  int status = CN_OK;
  /* Checksums of stored tensors are not looked at, as PyTorch does not: it can write files without them, and a file
   * that is not touched is not read. */
  if (e) s->bytes = cni_zip_read(t->zip, e, false);
  else status = cni_source_bad(t->source, "torch", "a storage is missing: %.100s", name.s ? name.s : "");
  cn_text_free(&name);
  return status ? status : s->bytes ? CN_OK : cn_err();
}

/* The number of the storage with that key; made when it is new. Negative: failed. */
static int64_t storage_of(cni_torch *t, const cni_item *key, size_t element)
{
  char *text = cn_string_copy_bytes(key->u.text.s, key->u.text.n);
  if (!text) return -1;
  int64_t i = cn_tree_as_int(cn_tree_get(t->keys, text), -1);
  if (i < 0 && !cn_grow((void **)&t->storages, &t->storages_cap, t->nstorages + 1, sizeof *t->storages)) {
    cni_torch_storage *s = &t->storages[t->nstorages];
    *s = (cni_torch_storage){.key = key->u.text.s, .key_size = key->u.text.n, .element = element};
    if (!find_entry(t, s)) {
      i = (int64_t)t->nstorages++;
      if (cn_tree_put(t->keys, text, cn_tree_int(i))) i = -1;
    }
  }
  cn_string_free(text);
  return i;
}

/* ('storage', class, key, device, elements[, (key, offset, elements) of a part of it]) */
static cni_item *persistent(cni_pickle *p, const cni_item *id, void *payload)
{
  cni_torch *t = payload;
  cni_torch_view view = {.offset = 0};
  uint64_t bytes;
  if (id->kind != CNI_PICKLED_TUPLE || !cni_item_is(argument(id, 0), "storage") || id->u.list.n < 5)
    return refuse(t, "it holds code or another thing that is no storage of numbers");
  const cni_item *cls = argument(id, 1), *key = argument(id, 2), *part = argument(id, 5);
  view.dtype = cni_torch_storage_dtype(cls);
  if (!view.dtype && cls->kind == CNI_PICKLED_GLOBAL) {
    cni_source_bad(t->source, "torch", "a storage of class %.*s is not read", (int)cls->u.text.n, cls->u.text.s);
    return NULL;
  }
  if (!view.dtype || key->kind != CNI_PICKLED_STR || key->u.text.n > 100 || memchr(key->u.text.s, 0, key->u.text.n) ||
      !natural(argument(id, 4), &view.numel))
    return refuse(t, "a storage's description is damaged");
  if (!cni_shape_bytes(&bytes, &view.numel, 1, cn_dtype_size(view.dtype))) return refuse(t, "a storage is too large");
  int64_t number = storage_of(t, key, cn_dtype_size(view.dtype)), whole = view.numel;
  if (number < 0) return NULL;
  view.storage = (size_t)number;
  cni_torch_storage *s = &t->storages[number];
  if (s->wanted < bytes) s->wanted = bytes;
  if (s->bytes && s->bytes->size < bytes) return refuse(t, "a storage is shorter than its description says");
  if (part && part->kind == CNI_PICKLED_TUPLE) {
    if (part->u.list.n != 3 || !natural(argument(part, 1), &view.offset) || !natural(argument(part, 2), &view.numel) ||
        view.offset > whole || view.numel > whole - view.offset)
      return refuse(t, "a part of a storage lies outside of it");
  }
  return new_view(p, t, &view);
}

/* ---- calls ---- */

typedef cni_item *(*rule)(cni_pickle *p, cni_torch *t, const cni_item *args);

/* (storage, offset, size, stride, ...); v3 has the type behind requires_grad and hooks. */
static cni_item *rebuild(cni_pickle *p, cni_torch *t, const cni_item *args, bool typed)
{
  const cni_item *storage = argument(args, 0), *size = argument(args, 2), *stride = argument(args, 3);
  int64_t offset;
  if (!is_view(storage) || !natural(argument(args, 1), &offset) || !is_sizes(size) || !is_sizes(stride) ||
      size->u.list.n != stride->u.list.n)
    return refuse(t, "a tensor's description is damaged (or it has more dimensions than a tensor can have)");
  cni_torch_view view = t->views[storage->u.object.index];
  const cni_item *pending = argument(args, typed ? 7 : 6);
  if (view.size) return refuse(t, "a tensor made of a tensor");
  if (pending && (pending->kind != CNI_PICKLED_DICT || pending->u.list.n))
    return refuse(t, "a tensor whose sign or conjugate is still to be taken: save resolve_neg() of it");
  if (typed) {
    const cni_item *dtype = argument(args, 6);
    uint64_t bytes = cn_dtype_bytes(view.dtype, view.numel);
    if (view.offset) return refuse(t, "a tensor's description is damaged");
    view.dtype = dtype ? cni_torch_dtype(dtype) : CN_DTYPE_NONE;
    if (!view.dtype && dtype && dtype->kind == CNI_PICKLED_GLOBAL) {
      cni_source_bad(t->source, "torch", "tensors of type %.*s are not read", (int)dtype->u.text.n, dtype->u.text.s);
      return NULL;
    }
    if (!view.dtype || view.dtype > CN_F8E8M0) return refuse(t, "a tensor's type is not known");
    view.numel = (int64_t)(bytes / cn_dtype_size(view.dtype));
  }
  if (__builtin_add_overflow(view.offset, offset, &view.offset) || offset > view.numel)
    return refuse(t, "a tensor lies outside of its storage");
  view.numel -= offset;
  view.size = size;
  view.stride = stride;
  view.made = NULL;
  t->storages[view.storage].uses++;
  return new_view(p, t, &view);
}

static cni_item *rebuild_tensor(cni_pickle *p, cni_torch *t, const cni_item *args)
{
  return rebuild(p, t, args, false);
}

static cni_item *rebuild_typed(cni_pickle *p, cni_torch *t, const cni_item *args)
{
  return rebuild(p, t, args, true);
}

static cni_item *rebuild_parameter(cni_pickle *p, cni_torch *t, const cni_item *args)
{
  (void)p;
  if (!is_view(argument(args, 0))) return refuse(t, "a parameter that is no tensor");
  return args->u.list.v[0];
}

static cni_item *call(cni_pickle *p, const cni_item *function, const cni_item *args, void *payload);

/* (function, class, arguments, attributes): of tensors that carry attributes. */
static cni_item *rebuild_class(cni_pickle *p, cni_torch *t, const cni_item *args)
{
  const cni_item *function = argument(args, 0), *cls = argument(args, 1), *rest = argument(args, 2);
  bool plain = cni_item_is(cls, "torch.Tensor") || cni_item_is(cls, "torch.nn.parameter.Parameter") ||
               cni_item_is(cls, "torch.nn.parameter.Buffer");
  bool makes = function && function->kind == CNI_PICKLED_GLOBAL && rest && rest->kind == CNI_PICKLED_TUPLE &&
               !cni_item_is(function, "torch._tensor._rebuild_from_type_v2");
  if (!makes) return refuse(t, "a tensor's description is damaged");
  if (plain) return call(p, function, rest, t);
  if (cls->kind != CNI_PICKLED_GLOBAL) return refuse(t, "a tensor's description is damaged");
  cni_source_bad(t->source, "torch", "a tensor of class %.*s is not read", (int)cls->u.text.n, cls->u.text.s);
  return NULL;
}

/* OrderedDict() or OrderedDict([(key, value), ...]) */
static cni_item *ordered_dict(cni_pickle *p, cni_torch *t, const cni_item *args)
{
  cni_item *dict = cni_item_new(p, CNI_PICKLED_DICT);
  const cni_item *pairs = argument(args, 0);
  if (dict && pairs && pairs->kind == CNI_PICKLED_DICT) dict = copy_items(p, pairs, CNI_PICKLED_DICT);
  if (dict) dict->ordered = true;
  if (!pairs || !dict || pairs->kind == CNI_PICKLED_DICT) return dict;
  if (pairs->kind != CNI_PICKLED_LIST) return refuse(t, "a dictionary that is not made of pairs");
  for (size_t i = 0; i < pairs->u.list.n; i++) {
    const cni_item *pair = pairs->u.list.v[i];
    if ((pair->kind != CNI_PICKLED_LIST && pair->kind != CNI_PICKLED_TUPLE) || pair->u.list.n != 2)
      return refuse(t, "a dictionary that is not made of pairs");
    if (cni_item_push(p, dict, pair->u.list.v[0]) || cni_item_push(p, dict, pair->u.list.v[1])) return NULL;
  }
  return dict;
}

/* defaultdict(list): what it makes of missing keys is no data. */
static cni_item *empty_dict(cni_pickle *p, cni_torch *t, const cni_item *args)
{
  (void)t, (void)args;
  return cni_item_new(p, CNI_PICKLED_DICT);
}

/* set([...]): a list, which is as much as a tree says of it. */
static cni_item *set_list(cni_pickle *p, cni_torch *t, const cni_item *args)
{
  const cni_item *list = argument(args, 0);
  if (list && list->kind != CNI_PICKLED_LIST) return refuse(t, "a set that is not made of a list");
  return copy_items(p, list, CNI_PICKLED_LIST);
}

static cni_item *size_tuple(cni_pickle *p, cni_torch *t, const cni_item *args)
{
  const cni_item *list = argument(args, 0);
  bool fits = list && (list->kind == CNI_PICKLED_LIST || list->kind == CNI_PICKLED_TUPLE);
  return fits ? copy_items(p, list, CNI_PICKLED_TUPLE) : refuse(t, "a torch.Size that is no list");
}

/* device('cuda', 1): the text that names it. */
static cni_item *device(cni_pickle *p, cni_torch *t, const cni_item *args)
{
  const cni_item *type = argument(args, 0), *index = argument(args, 1);
  if (!type || type->kind != CNI_PICKLED_STR || (index && index->kind != CNI_PICKLED_INT) || type->u.text.n > 32)
    return refuse(t, "a torch.device that names none");
  if (!index) return text_item(p, type->u.text.s, type->u.text.n);
  cn_text name = {0};
  cn_text_put_bytes(&name, type->u.text.s, type->u.text.n);
  cn_text_putf(&name, ":%lld", (long long)index->u.i);
  cni_item *item = name.failed ? NULL : cni_item_text(p, name.s, name.n);
  cn_text_free(&name);
  return item;
}

/* Latin-1 out of UTF-8, into room for as many bytes: how many there are, or -1 for a character of another code. */
static int64_t latin1(char *room, const unsigned char *s, size_t n)
{
  int64_t count = 0;
  for (size_t i = 0; i < n; i++) {
    bool two = (s[i] & 0xfc) == 0xc0 && i + 1 < n;
    if (s[i] >= 0x80 && !two) return -1;
    room[count++] = (char)(two ? (unsigned char)(s[i] << 6 | (s[i + 1] & 0x3f)) : s[i]);
    i += two;
  }
  return count;
}

/* encode(text, 'latin1'): how protocol 2 writes bytes. The text is UTF-8 in the file. */
static cni_item *encode(cni_pickle *p, cni_torch *t, const cni_item *args)
{
  const cni_item *text = argument(args, 0);
  bool latin = cni_item_is(argument(args, 1), "latin1") || cni_item_is(argument(args, 1), "latin-1");
  if (!text || text->kind != CNI_PICKLED_STR || !latin) return refuse(t, "bytes in another code than latin1");
  char *room = cn_alloc(text->u.text.n);
  if (!room) return NULL;
  int64_t n = latin1(room, (const unsigned char *)text->u.text.s, text->u.text.n);
  cni_item *item = n < 0 ? refuse(t, "bytes that are not latin1") : cni_item_text(p, room, (size_t)n);
  cn_free(room, text->u.text.n);
  return item;
}

static cni_item *layout(cni_pickle *p, cni_torch *t, const cni_item *args)
{
  const cni_item *name = argument(args, 0);
  return name && name->kind == CNI_PICKLED_STR ? text_item(p, name->u.text.s, name->u.text.n)
                                                : refuse(t, "a layout without a name");
}

static const struct allowed {
  const char *name;
  rule make;
} allowed[] = {
  {"torch._utils._rebuild_tensor", rebuild_tensor},
  {"torch._utils._rebuild_tensor_v2", rebuild_tensor},
  {"torch._utils._rebuild_tensor_v3", rebuild_typed},
  {"torch._utils._rebuild_parameter", rebuild_parameter},
  {"torch._utils._rebuild_parameter_with_state", rebuild_parameter},
  {"torch._tensor._rebuild_from_type_v2", rebuild_class},
  {"torch.Size", size_tuple},
  {"torch.device", device},
  {"torch.serialization._get_layout", layout},
  {"collections.OrderedDict", ordered_dict},
  {"collections.Counter", ordered_dict},
  {"collections.defaultdict", empty_dict},
  {"__builtin__.set", set_list},
  {"builtins.set", set_list},
  {"_codecs.encode", encode},
};

static cni_item *call(cni_pickle *p, const cni_item *function, const cni_item *args, void *payload)
{
  cni_torch *t = payload;
  for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
    if (cni_item_is(function, allowed[i].name)) return allowed[i].make(p, t, args);
  size_t n;
  bool numpy = behind(function, "numpy.", &n) != NULL;
  cni_source_bad(t->source, "torch", "it holds %s%.*s; %s", numpy ? "NumPy's " : "an object of ",
                 (int)function->u.text.n, function->u.text.s,
                 numpy ? "save numbers as Python's own and arrays as tensors"
                       : "only tensors, numbers, text, lists and dictionaries are read and nothing is executed: save "
                         "its state_dict");
  return NULL;
}

const cni_pickle_meaning cni_torch_meaning = {call, persistent, NULL};

/* ---- tensors ---- */

/* Do all elements lie in the storage's part, counted from the view's own beginning? */
static bool inside(const int64_t *size, const int64_t *stride, size_t n, int64_t numel)
{
  int64_t last = 0, step;
  for (size_t i = 0; i < n; i++)
    if (size[i] == 0) return true;
  for (size_t i = 0; i < n; i++)
    if (__builtin_mul_overflow(size[i] - 1, stride[i], &step) || __builtin_add_overflow(last, step, &last))
      return false;
  return last < numel;
}

static bool row_major(const int64_t *size, const int64_t *stride, size_t n)
{
  int64_t want = 1;
  for (size_t i = n; i-- > 0; want *= size[i])
    if (size[i] != 1 && stride[i] != want) return false;
  return true;
}

/* All of a storage as one row, which the tensors in it are views of. */
static cn_tensor *base_of(cni_torch_storage *s, cn_dtype dtype)
{
  int64_t numel = (int64_t)(s->bytes->size / cn_dtype_size(dtype));
  if (s->base && s->base_dtype == dtype) return s->base;
  cn_tensor *base = cni_source_tensor(s->bytes, 0, &numel, 1, dtype);
  if (s->base || !base) return base; /* seen as a second type: not shared between the two */
  s->base = cn_keep(base);
  s->base_dtype = dtype;
  return base;
}

static cn_tensor *make(cni_torch *t, const cni_torch_view *v)
{
  int64_t size[CN_MAX_DIMS], stride[CN_MAX_DIMS];
  size_t n = v->size ? v->size->u.list.n : 1, element = cn_dtype_size(v->dtype);
  cni_torch_storage *s = &t->storages[v->storage];
  uint64_t bytes, reach = ((uint64_t)v->offset + (uint64_t)v->numel) * element;
  size[0] = v->numel, stride[0] = 1;
  for (size_t i = 0; v->size && i < n; i++) {
    size[i] = v->size->u.list.v[i]->u.i;
    stride[i] = v->stride->u.list.v[i]->u.i;
  }
  const char *wrong = !s->bytes                                     ? "a storage is missing"
                      : reach > s->bytes->size                      ? "a storage is shorter than its description says"
                      : !cni_shape_bytes(&bytes, size, n, element)  ? "a tensor is too large"
                      : !inside(size, stride, n, v->numel)          ? "a tensor lies outside of its storage"
                                                                    : NULL;
  if (wrong) {
    refuse(t, wrong);
    return NULL;
  }
  if ((s->uses <= 1 || !bytes) && row_major(size, stride, n))
    return cni_source_tensor(s->bytes, (size_t)v->offset * element, size, n, v->dtype);
  return cn_as_strided(base_of(s, v->dtype), size, n, stride, n, v->offset);
}

cn_tensor *cni_torch_tensor(cni_torch *t, size_t view)
{
  cni_torch_view *v = &t->views[view];
  if (v->made) return v->made;
  cn_scope *scope = cn_scope_begin();
  int saved = cn_no_grad_begin();
  v->made = cn_keep(make(t, v));
  cn_no_grad_end(saved);
  cn_scope_end(scope);
  return v->made;
}

void cni_torch_free(cni_torch *t)
{
  for (size_t i = 0; i < t->nviews; i++) cn_release(t->views[i].made);
  for (size_t i = 0; i < t->nstorages; i++) {
    cni_source_free(t->storages[i].bytes);
    cn_release(t->storages[i].base);
  }
  cn_free(t->views, t->views_cap * sizeof *t->views);
  cn_free(t->storages, t->storages_cap * sizeof *t->storages);
  cn_tree_free(t->keys);
}
