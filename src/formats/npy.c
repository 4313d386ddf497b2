/* npy.c: NumPy's array files, alone (.npy) and in an archive (.npz). See io.h.
 *
 * A file is a magic word, a version, the length of a header, the header (a Python dictionary as text) and the bytes of
 * the array. Invariant: the text is matched against the three keys it must have and never evaluated; arrays of objects,
 * which are pickles, are refused. */
#include <cairn/autograd.h>
#include <cairn/kw.h>
#include <string.h>

#include "formats.h"

enum { MAGIC = 6, ALIGN = 64, HEADER_MOST = 1 << 16, DESCR = 64 };

typedef struct header {
  char descr[DESCR];
  bool fortran, has_descr, has_order, has_shape;
  int64_t shape[CN_MAX_DIMS];
  size_t ndim;
} header;

/* ---- the header's text ---- */

typedef struct text {
  const char *s, *end;
} text;

static void skip_space(text *t)
{
  while (t->s < t->end && (*t->s == ' ' || *t->s == '\n' || *t->s == '\t')) t->s++;
}

static bool next_is(text *t, char c)
{
  skip_space(t);
  return t->s < t->end && *t->s == c;
}

static bool eat(text *t, char c)
{
  if (!next_is(t, c)) return false;
  t->s++;
  return true;
}

static bool eat_word(text *t, const char *word)
{
  size_t n = strlen(word);
  skip_space(t);
  if ((size_t)(t->end - t->s) < n || memcmp(t->s, word, n) != 0) return false;
  t->s += n;
  return true;
}

/* 'text' or "text", without escapes. */
static bool read_text(text *t, char *out, size_t size)
{
  char quote = eat(t, '\'') ? '\'' : eat(t, '"') ? '"' : 0;
  size_t n = 0;
  if (!quote) return false;
  for (; t->s < t->end && *t->s != quote && *t->s != '\\'; t->s++) {
    if (n + 1 >= size) return false;
    out[n++] = *t->s;
  }
  out[n] = 0;
  return eat(t, quote);
}

static bool read_size(text *t, int64_t *value)
{
  skip_space(t);
  const char *from = t->s;
  *value = 0;
  for (; t->s < t->end && *t->s >= '0' && *t->s <= '9'; t->s++)
    if (__builtin_mul_overflow(*value, 10, value) || __builtin_add_overflow(*value, *t->s - '0', value)) return false;
  bool any = t->s > from;
  eat(t, 'L'); /* Python 2 */
  return any;
}

static bool read_shape(text *t, header *h)
{
  if (!eat(t, '(')) return false;
  while (!eat(t, ')')) {
    if (h->ndim == CN_MAX_DIMS || !read_size(t, &h->shape[h->ndim])) return false;
    h->ndim++;
    if (!eat(t, ',') && !next_is(t, ')')) return false;
  }
  return true;
}

/* {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } with the keys in any order. NULL, or what is wrong. */
static const char *read_dictionary(text *t, header *h)
{
  char key[20];
  if (!eat(t, '{')) return "its header is no dictionary";
  while (!eat(t, '}')) {
    if (!read_text(t, key, sizeof key) || !eat(t, ':')) return "its header is damaged";
    if (!strcmp(key, "descr") && !h->has_descr) {
      if (next_is(t, '[')) return "arrays of records are not read";
      h->has_descr = read_text(t, h->descr, sizeof h->descr);
      if (!h->has_descr) return "its type is damaged";
    } else if (!strcmp(key, "fortran_order") && !h->has_order) {
      h->fortran = eat_word(t, "True");
      h->has_order = h->fortran || eat_word(t, "False");
      if (!h->has_order) return "its order is damaged";
    } else if (!strcmp(key, "shape") && !h->has_shape) {
      h->has_shape = read_shape(t, h);
      if (!h->has_shape) return "its shape is damaged, or has more dimensions than a tensor can have";
    } else return "its header has other keys than descr, fortran_order and shape";
    if (!eat(t, ',') && !next_is(t, '}')) return "its header is damaged";
  }
  skip_space(t);
  if (t->s < t->end) return "something is behind its header";
  return h->has_descr && h->has_order && h->has_shape ? NULL : "its header lacks descr, fortran_order or shape";
}

/* ---- types ---- */

static const struct kind {
  const char *name; /* without the order of bytes */
  cn_dtype dtype;
} kinds[] = {
  {"b1", CN_BOOL}, {"u1", CN_U8},  {"i1", CN_I8},  {"i2", CN_I16}, {"i4", CN_I32}, {"i8", CN_I64}, {"u2", CN_U16},
  {"u4", CN_U32},  {"u8", CN_U64}, {"f2", CN_F16}, {"f4", CN_F32}, {"f8", CN_F64}, {"c8", CN_C64}, {"c16", CN_C128},
  {"bfloat16", CN_BF16},
};
enum { KINDS = sizeof kinds / sizeof *kinds, WRITTEN = KINDS - 1 }; /* NumPy itself has no bfloat16 */

/* Reads a type such as "<f4"; 0 or an error that says why it is not taken. */
static int read_kind(cn_dtype *dtype, bool *swap, const char *descr, const cni_source *s)
{
  const char *name = descr + (*descr && strchr("<>|=", *descr) ? 1 : 0);
  *swap = *descr == '>';
  for (size_t i = 0; i < KINDS; i++)
    if (!strcmp(kinds[i].name, name)) {
      *dtype = kinds[i].dtype;
      return CN_OK;
    }
  const char *why = *name == 'O'   ? "arrays of Python objects are never read"
                    : *name == 'V' ? "raw bytes: the file does not say what they are (bfloat16 and float8 look like "
                                     "this; save them as float32, or as safetensors)"
                    : *name == 'S' || *name == 'U' ? "text is not read"
                                                   : "no such type here";
  return cni_source_bad(s, "npy", "type '%.40s': %s", descr, why);
}

/* ---- reading ---- */

/* Elements with their bytes swapped, of complex ones those of each part; borrowed from the scope. */
static cn_tensor *swapped(cni_source *s, size_t at, const int64_t *shape, size_t ndim, cn_dtype dtype)
{
  cn_tensor *t = cn_from_data(s->data + at, shape, ndim, dtype);
  unsigned char *p = t && cn_numel(t) ? cn_data(t) : NULL;
  int64_t parts = cn_dtype_is_complex(dtype) ? 2 : 1;
  size_t size = cn_dtype_size(dtype) / (size_t)parts;
  for (int64_t i = 0; p && i < parts * cn_numel(t); i++, p += size)
    for (size_t k = 0; k < size / 2; k++) {
      unsigned char b = p[k];
      p[k] = p[size - 1 - k];
      p[size - 1 - k] = b;
    }
  return t;
}

/* The array behind a header that fits it; borrowed from the scope. */
static cn_tensor *make_tensor(cni_source *s, size_t at, const header *h, cn_dtype dtype, bool swap)
{
  int64_t shape[CN_MAX_DIMS], reversed[CN_MAX_DIMS];
  bool fortran = h->fortran && h->ndim > 1;
  for (size_t i = 0; i < h->ndim; i++) {
    shape[i] = h->shape[fortran ? h->ndim - 1 - i : i];
    reversed[i] = (int64_t)(h->ndim - 1 - i);
  }
  cn_tensor *t = swap && cn_dtype_size(dtype) > 1 ? swapped(s, at, shape, h->ndim, dtype)
                                                  : cni_source_tensor(s, at, shape, h->ndim, dtype);
  return fortran ? cn_contiguous(cn_permute(t, reversed, h->ndim)) : t;
}

static const char *find_header(text *t, const cni_source *s)
{
  if (s->size < MAGIC + 4 || memcmp(s->data, "\x93NUMPY", MAGIC) != 0) return "not an npy file";
  unsigned version = s->data[MAGIC];
  if (version < 1 || version > 3 || s->data[MAGIC + 1]) return "a version that is not known";
  size_t from = version == 1 ? MAGIC + 4 : MAGIC + 6;
  if (s->size < from) return "its header is cut short";
  size_t length = version == 1 ? cni_le16(s->data + MAGIC + 2) : cni_le32(s->data + MAGIC + 2);
  if (length > HEADER_MOST) return "its header is too long";
  if (length > s->size - from) return "its header is cut short";
  *t = (text){(const char *)s->data + from, (const char *)s->data + from + length};
  return NULL;
}

static cn_tensor *read_array(cni_source *s)
{
  text t;
  header h = {.ndim = 0};
  cn_dtype dtype = CN_DTYPE_NONE;
  bool swap = false;
  uint64_t bytes = 0;
  const char *wrong = find_header(&t, s);
  if (!wrong) wrong = read_dictionary(&t, &h);
  if (!wrong && read_kind(&dtype, &swap, h.descr, s)) return NULL;
  if (!wrong && !cni_shape_bytes(&bytes, h.shape, h.ndim, cn_dtype_size(dtype))) wrong = "its shape is too large";
  size_t at = wrong ? 0 : (size_t)(t.end - (const char *)s->data);
  if (!wrong && bytes > s->size - at) wrong = "it is cut short";
  if (!wrong && bytes < s->size - at) wrong = "something is behind the array";
  if (!wrong) return make_tensor(s, at, &h, dtype, swap);
  cni_source_bad(s, "npy", "%s", wrong);
  return NULL;
}

static cn_tree *read_npy(cni_source *source)
{
  cn_scope *s = cn_scope_begin();
  int saved = cn_no_grad_begin();
  cn_tensor *t = read_array(source);
  cn_tree *tree = t ? cn_tree_tensor(t) : NULL;
  cn_no_grad_end(saved);
  cn_scope_end(s);
  return tree;
}

cn_tree *cni_read_npz(cni_source *source, const cni_zip *zip)
{
  cn_tree *tree = cn_tree_dict();
  int status = tree ? CN_OK : CN_ERR_MEMORY;
  for (size_t i = 0; !status && i < zip->n; i++) {
    char *name = zip->entries[i].name;
    if (!cn_string_ends(name, ".npy")) {
      status = cni_source_bad(source, "npz", "entry '%.100s' is no array", name);
      break;
    }
    cni_source *part = cni_zip_read(zip, &zip->entries[i], true);
    cn_tree *array = part ? read_npy(part) : NULL;
    char *key = array ? cn_string_copy_bytes(name, strlen(name) - 4) : NULL;
    status = key ? cn_tree_put(tree, key, array) : cn_err();
    if (!key) cn_tree_free(array);
    cn_string_free(key);
    cni_source_free(part);
  }
  if (!status) return tree;
  cn_tree_free(tree);
  return NULL;
}

cn_tensor *cn_load_npy(const char *path)
{
  cni_source *s = cn_err() ? NULL : cni_source_open(path);
  cn_tree *tree = s ? read_npy(s) : NULL;
  cn_tensor *t = tree ? cn_scope_give(cn_keep(cn_tree_as_tensor(tree))) : NULL;
  cn_tree_free(tree);
  cni_source_free(s);
  return t;
}

/* ---- writing ---- */

/* A version 1.0 header, padded so that the array begins aligned. */
static int put_header(cn_text *out, cn_tensor *t)
{
  const char *kind = NULL;
  cn_dtype dtype = cn_dtype_of(t);
  for (size_t i = 0; i < WRITTEN; i++)
    if (kinds[i].dtype == dtype) kind = kinds[i].name;
  if (!kind)
    return cn_err_set(CN_ERR_DTYPE, "npy: NumPy's files have no %s; cast it, or write safetensors",
                      cn_dtype_name(dtype));
  cn_text_put_bytes(out, "\x93NUMPY\x01\0\0", MAGIC + 4);
  char order = cn_dtype_size(dtype) == 1 ? '|' : '<';
  cn_text_putf(out, "{'descr': '%c%s', 'fortran_order': False, 'shape': (", order, kind);
  for (int i = 0; i < cn_ndim(t); i++) cn_text_putf(out, "%s%lld", i ? ", " : "", (long long)cn_shape(t)[i]);
  cn_text_put(out, cn_ndim(t) == 1 ? ",), }" : "), }");
  while (!out->failed && (out->n + 1) % ALIGN) cn_text_put(out, " ");
  cn_text_put(out, "\n");
  if (out->failed) return CN_ERR_MEMORY;
  out->s[MAGIC + 2] = (char)((out->n - MAGIC - 4) & 0xff);
  out->s[MAGIC + 3] = (char)((out->n - MAGIC - 4) >> 8);
  return CN_OK;
}

static int put_array(cn_writer *writer, cn_tensor *t)
{
  cn_text head = {0};
  int status = put_header(&head, t);
  if (!status) status = cn_writer_put(writer, head.s, head.n);
  cn_text_free(&head);
  return status ? status : cni_put_tensor(writer, t);
}

static int write_npy(cn_writer *writer, const cn_tree *tree)
{
  if (cn_tree_kind_of(tree) != CN_TREE_TENSOR)
    return cn_err_set(CN_ERR_TYPE, "npy: one tensor can be written; npz takes a dictionary of them");
  return put_array(writer, cn_tree_as_tensor(tree));
}

/* An entry is put in one piece, since its checksum stands in front of it. */
static int put_entry(cni_zip_writer *zip, const char *key, cn_tensor *t)
{
  cn_text head = {0}, name = {0};
  cn_text_putf(&name, "%s.npy", key);
  int status = name.failed ? CN_ERR_MEMORY : put_header(&head, t);
  cn_scope *s = cn_scope_begin();
  cn_tensor *host = status ? NULL : cni_on_host(t);
  const void *data = host && cn_numel(host) ? cn_data_const(host) : "";
  if (!status) status = cn_err();
  if (!status) status = cni_zip_put(zip, name.s, head.s, head.n, data, cn_tensor_nbytes(host));
  cn_scope_end(s);
  cn_text_free(&head);
  cn_text_free(&name);
  return status;
}

static int write_npz(cn_writer *writer, const cn_tree *tree)
{
  cni_zip_writer zip = {.writer = writer};
  int status = CN_OK;
  if (cn_tree_kind_of(tree) != CN_TREE_DICT)
    return cn_err_set(CN_ERR_TYPE, "npz: only a dictionary of tensors can be written");
  for (size_t i = 0; !status && i < cn_tree_size(tree); i++) {
    const char *key = cn_tree_key(tree, i, NULL);
    cn_tensor *t = cn_tree_as_tensor(cn_tree_at(tree, i));
    if (!key || !t)
      status = cn_err_set(CN_ERR_TYPE, "npz: %.100s: only tensors under names can be written", key ? key : "a number");
    else status = put_entry(&zip, key, t);
  }
  if (!status) status = cni_zip_finish(&zip);
  cni_zip_writer_free(&zip);
  return status;
}

static bool is_npy(const cni_source *s) { return cni_begins(s, "\x93NUMPY", 6); }
static bool is_npz(const cni_source *s) { return cni_is_zip(s) && cni_first_entry_ends(s, ".npy"); }

const cni_format cni_format_npy = {{CN_FORMAT_NPY, "npy", ".npy", CN_HOLDS_ARRAY}, is_npy, read_npy, write_npy, false};
const cni_format cni_format_npz = {{CN_FORMAT_NPZ, "npz", ".npz", CN_HOLDS_TENSORS}, is_npz, cni_read_archive,
                                   write_npz, false};

int cn_save_npy(const char *path, cn_tensor *t)
{
  cn_tree *tree = cn_err() ? NULL : cn_tree_tensor(t);
  int status = tree ? cn_save_as(path, tree, CN_FORMAT_NPY) : cn_err();
  cn_tree_free(tree);
  return status;
}
