/* safetensors.c: the format of the safetensors library: eight bytes with the length of a JSON header, the header, and
 * the tensors' bytes one behind the other. Read by mapping the file and written as the library writes it, byte for
 * byte. See io.h.
 *
 * Invariant: an open file's header was checked whole: every entry is complete, lies inside the file, has the bytes that
 * its shape needs, and the entries cover the data without gap or overlap. */
#include <cairn/autograd.h>
#include <cairn/ops.h>
#include <stdlib.h>
#include <string.h>

#include "formats.h"
#include "json.h"

#define METADATA "__metadata__"
enum { LENGTH_BYTES = 8, ALIGN = 8, HEADER_MOST = 100000000 }; /* the library's own limit */

/* In the library's order, by which files are sorted: a larger alignment comes first there. */
static const struct kind {
  const char *name;
  uint8_t bits;
  cn_dtype dtype; /* CN_DTYPE_NONE: not known to cairn */
} kinds[] = {
  {"BOOL", 8, CN_BOOL},
  {"F4", 4, CN_DTYPE_NONE},
  {"F6_E2M3", 6, CN_DTYPE_NONE},
  {"F6_E3M2", 6, CN_DTYPE_NONE},
  {"U8", 8, CN_U8},
  {"I8", 8, CN_I8},
  {"F8_E5M2", 8, CN_F8E5M2},
  {"F8_E4M3", 8, CN_F8E4M3},
  {"F8_E8M0", 8, CN_F8E8M0},
  {"F8_E4M3FNUZ", 8, CN_F8E4M3FNUZ},
  {"F8_E5M2FNUZ", 8, CN_F8E5M2FNUZ},
  {"I16", 16, CN_I16},
  {"U16", 16, CN_U16},
  {"F16", 16, CN_F16},
  {"BF16", 16, CN_BF16},
  {"I32", 32, CN_I32},
  {"U32", 32, CN_U32},
  {"F32", 32, CN_F32},
  {"C64", 64, CN_C64},
  {"F64", 64, CN_F64},
  {"I64", 64, CN_I64},
  {"U64", 64, CN_U64},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

struct cn_safetensors {
  cni_source *source;
  cn_tree *header;     /* as it stands in the file */
  size_t metadata;     /* which of the header's keys is METADATA; its size when there is none */
  size_t data;         /* where the tensors' bytes begin */
};

/* One entry of the header. */
typedef struct entry {
  const struct kind *kind;
  int64_t shape[CN_MAX_DIMS];
  size_t ndim;
  uint64_t begin, end; /* from the beginning of the data */
} entry;

/* ---- reading ---- */

static int bad_entry(const cni_source *s, const char *name, const char *what)
{
  return cni_source_bad(s, "safetensors", "tensor '%.100s': %s", name, what);
}

static bool natural(uint64_t *value, const cn_tree *tree)
{
  int64_t v = cn_tree_kind_of(tree) == CN_TREE_INT ? cn_tree_as_int(tree, -1) : -1;
  *value = (uint64_t)v;
  return v >= 0;
}

/* Bytes that kind and shape need; false when they are not whole or too many. */
static bool entry_bytes(uint64_t *bytes, const entry *e)
{
  uint64_t n;
  if (!cni_shape_bytes(&n, e->shape, e->ndim, e->kind->bits) || n % 8) return false;
  *bytes = n / 8;
  return true;
}

static int read_shape(entry *e, const cn_tree *shape, const cni_source *s, const char *name)
{
  e->ndim = cn_tree_size(shape);
  if (cn_tree_kind_of(shape) != CN_TREE_LIST) return bad_entry(s, name, "its shape is missing");
  if (e->ndim > CN_MAX_DIMS) return bad_entry(s, name, "more dimensions than a tensor can have");
  for (size_t i = 0; i < e->ndim; i++) {
    uint64_t size;
    if (!natural(&size, cn_tree_at(shape, i))) return bad_entry(s, name, "a size in its shape is no whole number");
    e->shape[i] = (int64_t)size;
  }
  return CN_OK;
}

static int read_entry(entry *e, const cn_tree *tree, const cni_source *s, const char *name)
{
  const char *dtype = cn_tree_as_str(cn_tree_get(tree, "dtype"), NULL);
  const cn_tree *offsets = cn_tree_get(tree, "data_offsets");
  uint64_t bytes;
  *e = (entry){0};
  if (!dtype) return bad_entry(s, name, "its dtype is missing");
  for (size_t i = 0; i < KINDS; i++)
    if (!strcmp(kinds[i].name, dtype)) e->kind = &kinds[i];
  if (!e->kind) return cni_source_bad(s, "safetensors", "tensor '%.100s': no such dtype: '%.32s'", name, dtype);
  int status = read_shape(e, cn_tree_get(tree, "shape"), s, name);
  if (status) return status;
  if (cn_tree_kind_of(offsets) != CN_TREE_LIST || cn_tree_size(offsets) != 2 ||
      !natural(&e->begin, cn_tree_at(offsets, 0)) || !natural(&e->end, cn_tree_at(offsets, 1)) || e->begin > e->end)
    return bad_entry(s, name, "its data_offsets are not two places");
  if (!entry_bytes(&bytes, e)) return bad_entry(s, name, "its shape is too large");
  if (bytes != e->end - e->begin) return bad_entry(s, name, "its shape and its data_offsets disagree");
  return CN_OK;
}

typedef struct span {
  uint64_t begin, end;
  const char *name;
} span;

static int by_place(const void *a, const void *b)
{
  const span *p = a, *q = b;
  if (p->begin != q->begin) return p->begin < q->begin ? -1 : 1;
  return (p->end > q->end) - (p->end < q->end);
}

/* Do the tensors cover the data without gap or overlap? Sorts them. */
static int check_cover(span *spans, size_t n, const cn_safetensors *f)
{
  uint64_t at = 0, size = f->source->size - f->data;
  if (n) qsort(spans, n, sizeof *spans, by_place);
  for (size_t i = 0; i < n; at = spans[i++].end)
    if (spans[i].begin != at)
      return bad_entry(f->source, spans[i].name, spans[i].begin < at ? "overlaps another one" : "a gap in front of it");
  if (at == size) return CN_OK;
  return cni_source_bad(f->source, "safetensors", "tensors have %llu bytes, the file %llu: %s", (unsigned long long)at,
                        (unsigned long long)size, at > size ? "it was cut short" : "something is behind them");
}

static int check_metadata(const cn_safetensors *f, const cn_tree *metadata)
{
  bool fine = cn_tree_kind_of(metadata) == CN_TREE_DICT;
  for (size_t i = 0; i < cn_tree_size(metadata); i++)
    fine = fine && cn_tree_kind_of(cn_tree_at(metadata, i)) == CN_TREE_STR;
  return fine ? CN_OK : cni_source_bad(f->source, "safetensors", METADATA " is no dictionary of texts");
}

static int check_header(cn_safetensors *f)
{
  size_t n = cn_tree_size(f->header), count = 0;
  int status = CN_OK;
  span *spans = cn_alloc(n * sizeof *spans);
  if (!spans) return CN_ERR_MEMORY;
  f->metadata = n;
  for (size_t i = 0; !status && i < n; i++) {
    entry e;
    const char *name = cn_tree_key(f->header, i, NULL);
    if (!strcmp(name, METADATA)) {
      f->metadata = i;
      status = check_metadata(f, cn_tree_at(f->header, i));
    } else {
      status = read_entry(&e, cn_tree_at(f->header, i), f->source, name);
      spans[count++] = (span){e.begin, e.end, name};
    }
  }
  if (!status) status = check_cover(spans, count, f);
  cn_free(spans, n * sizeof *spans);
  return status;
}

static int read_header(cn_safetensors *f)
{
  const cni_source *s = f->source;
  if (s->size < LENGTH_BYTES) return cni_source_bad(s, "safetensors", "too short for a header");
  uint64_t length = cni_le64(s->data);
  if (length > HEADER_MOST) return cni_source_bad(s, "safetensors", "a header of more than %d bytes", HEADER_MOST);
  if (length > s->size - LENGTH_BYTES) return cni_source_bad(s, "safetensors", "its header is cut short");
  f->header = cni_json_read((const char *)s->data + LENGTH_BYTES, (size_t)length, true);
  if (!f->header) return cn_err();
  if (cn_tree_kind_of(f->header) != CN_TREE_DICT)
    return cni_source_bad(s, "safetensors", "its header is no dictionary");
  f->data = LENGTH_BYTES + (size_t)length;
  return check_header(f);
}

/* Takes the source over. */
static cn_safetensors *open_source(cni_source *source)
{
  cn_safetensors *f = source ? cn_alloc_zero(sizeof *f) : NULL;
  if (!f) {
    cni_source_free(source);
    return NULL;
  }
  f->source = source;
  if (!read_header(f)) return f;
  cn_safetensors_close(f);
  return NULL;
}

cn_safetensors *cn_safetensors_open(const char *path) { return cn_err() ? NULL : open_source(cni_source_open(path)); }

void cn_safetensors_close(cn_safetensors *f)
{
  if (!f) return;
  cn_tree_free(f->header);
  cni_source_free(f->source);
  cn_free(f, sizeof *f);
}

size_t cn_safetensors_count(const cn_safetensors *f)
{
  size_t n = f ? cn_tree_size(f->header) : 0;
  return f && f->metadata < n ? n - 1 : n;
}

const char *cn_safetensors_name(const cn_safetensors *f, size_t i)
{
  return i < cn_safetensors_count(f) ? cn_tree_key(f->header, i + (i >= f->metadata), NULL) : NULL;
}

const char *cn_safetensors_metadata(const cn_safetensors *f, const char *key)
{
  return f ? cn_tree_as_str(cn_tree_get(cn_tree_get(f->header, METADATA), key), NULL) : NULL;
}

cn_tensor *cn_safetensors_get(cn_safetensors *f, const char *name)
{
  entry e;
  const cn_tree *tree = f && name && strcmp(name, METADATA) != 0 ? cn_tree_get(f->header, name) : NULL;
  if (cn_err()) return NULL;
  if (!tree) {
    cn_err_set(CN_ERR_VALUE, "safetensors: %s: there is no tensor '%.100s'", f ? f->source->name : "NULL",
               name ? name : "NULL");
    return NULL;
  }
  if (read_entry(&e, tree, f->source, name)) return NULL;
  if (e.kind->dtype) return cni_source_tensor(f->source, f->data + (size_t)e.begin, e.shape, e.ndim, e.kind->dtype);
  cn_err_set(CN_ERR_DTYPE, "safetensors: %s: tensor '%.100s': cairn has no type for %s", f->source->name, name,
             e.kind->name);
  return NULL;
}

static int put_all(cn_tree *tree, cn_safetensors *f)
{
  int status = CN_OK;
  if (f->metadata < cn_tree_size(f->header))
    status = cn_tree_put(tree, METADATA, cn_tree_copy(cn_tree_at(f->header, f->metadata), false));
  for (size_t i = 0; !status && i < cn_safetensors_count(f); i++) {
    const char *name = cn_safetensors_name(f, i);
    cn_scope *s = cn_scope_begin();
    cn_tensor *t = cn_safetensors_get(f, name);
    status = t ? cn_tree_put(tree, name, cn_tree_tensor(t)) : cn_err();
    cn_scope_end(s);
  }
  return status;
}

static cn_tree *read_safetensors(cni_source *source)
{
  cn_safetensors f = {.source = source};
  cn_tree *tree = read_header(&f) ? NULL : cn_tree_dict();
  if (tree && put_all(tree, &f)) {
    cn_tree_free(tree);
    tree = NULL;
  }
  cn_tree_free(f.header);
  return tree;
}

/* ---- writing ---- */

typedef struct item {
  const char *name;
  cn_tensor *tensor;
  size_t kind; /* in kinds */
} item;

static int by_kind_and_name(const void *a, const void *b)
{
  const item *p = a, *q = b;
  if (p->kind != q->kind) return p->kind > q->kind ? -1 : 1;
  return strcmp(p->name, q->name);
}

static int find_kind(item *it)
{
  cn_dtype dtype = cn_dtype_of(it->tensor);
  for (it->kind = 0; it->kind < KINDS; it->kind++)
    if (kinds[it->kind].dtype == dtype && dtype) return CN_OK;
  return cn_err_set(CN_ERR_DTYPE, "safetensors: '%.100s': the format has no %s", it->name, cn_dtype_name(dtype));
}

static int put_metadata(cn_text *header, const cn_tree *metadata)
{
  if (cn_tree_kind_of(metadata) != CN_TREE_DICT)
    return cn_err_set(CN_ERR_TYPE, "safetensors: " METADATA " must be a dictionary of texts");
  cn_text_put(header, "\"" METADATA "\":{");
  for (size_t i = 0; i < cn_tree_size(metadata); i++) {
    const cn_tree *value = cn_tree_at(metadata, i);
    const char *key = cn_tree_key(metadata, i, NULL);
    bool utf8 = key && cni_is_utf8(key, strlen(key)) && cni_is_utf8(cn_tree_as_str(value, ""), cn_tree_str_size(value));
    if (key && !utf8) return cn_err_set(CN_ERR_VALUE, "safetensors: a text in " METADATA " is not UTF-8");
    if (!key || cn_tree_kind_of(value) != CN_TREE_STR)
      return cn_err_set(CN_ERR_TYPE, "safetensors: " METADATA " must be a dictionary of texts");
    if (i) cn_text_put(header, ",");
    cni_json_put_string(header, key, strlen(key));
    cn_text_put(header, ":");
    cni_json_put_string(header, cn_tree_as_str(value, ""), cn_tree_str_size(value));
  }
  cn_text_put(header, "}");
  return CN_OK;
}

/* Fills items with the tensors of the tree and puts its metadata. */
static int gather(item *items, size_t *n, cn_text *header, const cn_tree *tree)
{
  for (size_t i = 0; i < cn_tree_size(tree); i++) {
    item *it = &items[*n];
    it->name = cn_tree_key(tree, i, NULL);
    it->tensor = cn_tree_as_tensor(cn_tree_at(tree, i));
    bool metadata = it->name && !strcmp(it->name, METADATA);
    if (!metadata && (!it->name || !it->tensor))
      return cn_err_set(CN_ERR_TYPE, "safetensors: %s%.100s: only tensors under names can be written (and texts in "
                        METADATA "); the PyTorch format takes nested state", it->name ? "" : "a number for a name",
                        it->name ? it->name : "");
    int status = metadata ? put_metadata(header, cn_tree_at(tree, i)) : find_kind(it);
    if (!status && !cni_is_utf8(it->name, strlen(it->name)))
      status = cn_err_set(CN_ERR_VALUE, "safetensors: a name is not UTF-8");
    if (status) return status;
    *n += !metadata;
  }
  return CN_OK;
}

static void put_entry(cn_text *header, const item *it, uint64_t begin)
{
  if (header->n > 1) cn_text_put(header, ",");
  cni_json_put_string(header, it->name, strlen(it->name));
  cn_text_putf(header, ":{\"dtype\":\"%s\",\"shape\":[", kinds[it->kind].name);
  for (int i = 0; i < cn_ndim(it->tensor); i++)
    cn_text_putf(header, "%s%lld", i ? "," : "", (long long)cn_shape(it->tensor)[i]);
  uint64_t size = cn_dtype_bytes(cn_dtype_of(it->tensor), cn_numel(it->tensor));
  cn_text_putf(header, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)begin,
               (unsigned long long)(begin + size));
}

static int put_file(cn_writer *writer, cn_text *header, item *items, size_t n)
{
  uint64_t at = 0;
  if (n) qsort(items, n, sizeof *items, by_kind_and_name);
  for (size_t i = 0; i < n; i++) {
    put_entry(header, &items[i], at);
    at += cn_dtype_bytes(cn_dtype_of(items[i].tensor), cn_numel(items[i].tensor));
  }
  cn_text_put(header, "}");
  while (header->n % ALIGN && !header->failed) cn_text_put(header, " ");
  if (header->failed) return CN_ERR_MEMORY;
  unsigned char length[LENGTH_BYTES];
  for (int i = 0; i < LENGTH_BYTES; i++) length[i] = (unsigned char)((uint64_t)header->n >> 8 * i);
  int status = cn_writer_put(writer, length, sizeof length);
  if (!status) status = cn_writer_put(writer, header->s, header->n);
  for (size_t i = 0; !status && i < n; i++) status = cni_put_tensor(writer, items[i].tensor);
  return status;
}

static int write_safetensors(cn_writer *writer, const cn_tree *tree)
{
  size_t n = 0, room = cn_tree_size(tree) + 1;
  if (cn_tree_kind_of(tree) != CN_TREE_DICT)
    return cn_err_set(CN_ERR_TYPE, "safetensors: only a dictionary of tensors can be written");
  item *items = cn_alloc(room * sizeof *items);
  if (!items) return CN_ERR_MEMORY;
  cn_text header = {0};
  cn_text_put(&header, "{");
  int status = gather(items, &n, &header, tree);
  if (!status) status = put_file(writer, &header, items, n);
  cn_text_free(&header);
  cn_free(items, room * sizeof *items);
  return status;
}

static bool is_safetensors(const cni_source *s)
{
  return s->size > LENGTH_BYTES && cni_le64(s->data) <= s->size - LENGTH_BYTES && s->data[LENGTH_BYTES] == '{';
}

const cni_format cni_format_safetensors = {{CN_FORMAT_SAFETENSORS, "safetensors", ".safetensors", CN_HOLDS_TENSORS},
                                           is_safetensors, read_safetensors, write_safetensors, false};
