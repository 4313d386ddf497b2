/* torch_write.c: writes the archive that torch.load(weights_only=True) opens: a pickle of protocol 2 and an entry for
 * each storage. See io.h.
 *
 * Invariant: tensors of host memory that share their storage share it in the file; each is described by its own strides
 * and offset. Tensors of other devices are written on their own. */
#include <string.h>

#include "json.h"
#include "torch.h"

#define PREFIX "archive/"

/* What is written as one storage. */
typedef struct chunk {
  const char *from; /* host memory, as far as some tensor reaches; NULL: a tensor alone, copied when its turn comes */
  cn_tensor *alone;
  cn_dtype dtype;
  int64_t numel;
} chunk;

typedef struct writing {
  cn_text pickle;
  chunk *chunks;
  size_t n, cap;
  cn_tree *places; /* where memory begins and its type -> number in chunks */
} writing;

/* ---- storages ---- */

/* How many elements from its first one on a tensor spans. */
static int64_t reach(const cn_tensor *t)
{
  int64_t last = 0;
  for (int i = 0; i < cn_ndim(t); i++) last += (cn_shape(t)[i] - 1) * cn_strides(t)[i];
  return last + 1;
}

static bool is_shared(const cn_tensor *t)
{
  bool forward = true;
  for (int i = 0; i < cn_ndim(t); i++) forward = forward && cn_strides(t)[i] >= 0;
  return cn_device_of(t) == CN_CPU && cn_numel(t) && forward;
}

/* The number of the chunk that a tensor lies in, made when it is new; negative: failed. */
static int64_t chunk_of(writing *w, cn_tensor *t)
{
  chunk c = {.alone = t, .dtype = cn_dtype_of(t), .numel = cn_numel(t)};
  if (is_shared(t)) {
    const char *data = cn_data_const(t);
    if (!data) return -1;
    c.from = data - cn_dtype_bytes(c.dtype, cn_storage_offset(t));
    c.numel = cn_storage_offset(t) + reach(t);
  }
  cn_text key = {0};
  cn_text_putf(&key, "%d %p", c.from ? (int)c.dtype : 0, c.from ? (const void *)c.from : (const void *)t);
  int64_t i = key.failed ? -1 : cn_tree_as_int(cn_tree_get(w->places, key.s), -1);
  if (i >= 0) {
    if (w->chunks[i].numel < c.numel) w->chunks[i].numel = c.numel;
  } else if (!key.failed && !cn_grow((void **)&w->chunks, &w->cap, w->n + 1, sizeof c)) {
    w->chunks[w->n] = c;
    if (!cn_tree_put(w->places, key.s, cn_tree_int((int64_t)w->n))) i = (int64_t)w->n++;
  }
  cn_text_free(&key);
  return i;
}

/* Meets every tensor once before anything is written: a storage's length is known when all tensors in it are. */
static int gather(writing *w, const cn_tree *tree, int depth)
{
  if (depth > CNI_TORCH_DEEPEST)
    return cn_err_set(CN_ERR_VALUE, "torch: nested deeper than %d levels", CNI_TORCH_DEEPEST);
  cn_tensor *t = cn_tree_as_tensor(tree);
  if (t && cn_dtype_of(t) > CN_F8E8M0 && !cn_dtype_is_complex(cn_dtype_of(t)))
    return cn_err_set(CN_ERR_DTYPE, "torch: PyTorch's files have no %s", cn_dtype_name(cn_dtype_of(t)));
  if (t && chunk_of(w, t) < 0) return cn_err() ? cn_err() : CN_ERR_MEMORY;
  for (size_t i = 0; i < cn_tree_size(tree); i++) {
    int status = gather(w, cn_tree_at(tree, i), depth + 1);
    if (status) return status;
  }
  return CN_OK;
}

/* ---- the pickle ---- */

static void put_op(writing *w, char op) { cn_text_put_bytes(&w->pickle, &op, 1); }

static void put_number(writing *w, uint64_t v, int size)
{
  for (int i = 0; i < size; i++) put_op(w, (char)(v >> 8 * i & 0xff));
}

static void put_int(writing *w, int64_t v)
{
  if (v >= 0 && v < 256) {
    put_op(w, 'K');
    put_number(w, (uint64_t)v, 1);
  } else if (v >= INT32_MIN && v <= INT32_MAX) {
    put_op(w, 'J');
    put_number(w, (uint64_t)v, 4);
  } else {
    cn_text_put_bytes(&w->pickle, "\x8a\x08", 2);
    put_number(w, (uint64_t)v, 8);
  }
}

static void put_float(writing *w, double v)
{
  uint64_t raw;
  memcpy(&raw, &v, sizeof raw);
  put_op(w, 'G');
  for (int i = 7; i >= 0; i--) put_op(w, (char)(raw >> 8 * i & 0xff));
}

static int put_text(writing *w, const char *s, size_t n)
{
  if (n > UINT32_MAX) return cn_err_set(CN_ERR_VALUE, "torch: a text is too long");
  if (!cni_is_utf8(s, n)) return cn_err_set(CN_ERR_VALUE, "torch: a text is not UTF-8");
  put_op(w, 'X');
  put_number(w, n, 4);
  cn_text_put_bytes(&w->pickle, s, n);
  return CN_OK;
}

static void put_global(writing *w, const char *module, const char *name)
{
  cn_text_putf(&w->pickle, "c%s\n%s\n", module, name);
}

static void put_sizes(writing *w, const int64_t *v, int n)
{
  put_op(w, '(');
  for (int i = 0; i < n; i++) put_int(w, v[i]);
  put_op(w, 't');
}

/* ('storage', class, key, device, elements) as a persistent name. */
static void put_storage(writing *w, size_t number)
{
  const chunk *c = &w->chunks[number];
  const char *cls = cni_torch_storage_name(c->dtype);
  cn_text key = {0};
  cn_text_putf(&key, "%zu", number);
  put_op(w, '(');
  put_text(w, "storage", strlen("storage"));
  put_global(w, cls ? "torch" : "torch.storage", cls ? cls : "UntypedStorage");
  if (!key.failed) put_text(w, key.s, key.n);
  w->pickle.failed = w->pickle.failed || key.failed;
  put_text(w, "cpu", strlen("cpu"));
  put_int(w, cls ? c->numel : (int64_t)cn_dtype_bytes(c->dtype, c->numel)); /* untyped ones count bytes */
  cn_text_put(&w->pickle, "tQ");
  cn_text_free(&key);
}

/* _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks), or _v3 with the type behind them for types
 * that have no storage class. */
static int put_tensor(writing *w, cn_tensor *t)
{
  int64_t number = chunk_of(w, t), packed[CN_MAX_DIMS] = {0}, step = 1;
  if (number < 0) return cn_err() ? cn_err() : CN_ERR_MEMORY;
  cn_dtype dtype = cn_dtype_of(t);
  bool typed = cni_torch_storage_name(dtype) != NULL, shared = w->chunks[number].from != NULL;
  for (int i = cn_ndim(t); i-- > 0; step *= cn_shape(t)[i] ? cn_shape(t)[i] : 1) packed[i] = step;
  put_global(w, "torch._utils", typed ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
  put_op(w, '(');
  put_storage(w, (size_t)number);
  put_int(w, shared ? cn_storage_offset(t) : 0);
  put_sizes(w, cn_shape(t), cn_ndim(t));
  put_sizes(w, shared ? cn_strides(t) : packed, cn_ndim(t));
  cn_text_put(&w->pickle, "\x89");
  put_global(w, "collections", "OrderedDict");
  cn_text_put(&w->pickle, ")R");
  if (!typed) put_global(w, "torch", cn_dtype_name(dtype));
  cn_text_put(&w->pickle, "tR");
  return CN_OK;
}

static int put_value(writing *w, const cn_tree *tree);

static int put_items(writing *w, const cn_tree *tree)
{
  cn_tree_kind kind = cn_tree_kind_of(tree);
  int status = CN_OK;
  if (cn_tree_is_ordered(tree)) {
    put_global(w, "collections", "OrderedDict");
    cn_text_put(&w->pickle, ")R(");
  } else cn_text_put(&w->pickle, kind == CN_TREE_DICT ? "}(" : kind == CN_TREE_LIST ? "](" : "(");
  for (size_t i = 0; !status && i < cn_tree_size(tree); i++) {
    int64_t index;
    const char *key = cn_tree_key(tree, i, &index);
    if (kind == CN_TREE_DICT && key) status = put_text(w, key, strlen(key));
    else if (kind == CN_TREE_DICT) put_int(w, index);
    if (!status) status = put_value(w, cn_tree_at(tree, i));
  }
  put_op(w, kind == CN_TREE_DICT ? 'u' : kind == CN_TREE_LIST ? 'e' : 't');
  return status;
}

static int put_value(writing *w, const cn_tree *tree)
{
  switch (cn_tree_kind_of(tree)) {
  case CN_TREE_NONE: put_op(w, 'N'); break;
  case CN_TREE_BOOL: cn_text_put(&w->pickle, cn_tree_as_bool(tree, false) ? "\x88" : "\x89"); break;
  case CN_TREE_INT: put_int(w, cn_tree_as_int(tree, 0)); break;
  case CN_TREE_FLOAT: put_float(w, cn_tree_as_float(tree, 0)); break;
  case CN_TREE_STR: return put_text(w, cn_tree_as_str(tree, ""), cn_tree_str_size(tree));
  case CN_TREE_TENSOR: return put_tensor(w, cn_tree_as_tensor(tree));
  case CN_TREE_LIST:
  case CN_TREE_TUPLE:
  case CN_TREE_DICT: return put_items(w, tree);
  }
  return CN_OK;
}

/* ---- the archive ---- */

static int put_chunk(cni_zip_writer *zip, const chunk *c, size_t number)
{
  cn_text name = {0};
  cn_scope *s = cn_scope_begin();
  cn_text_putf(&name, PREFIX "data/%zu", number);
  cn_tensor *host = c->from || !c->numel ? NULL : cni_on_host(c->alone);
  const char *from = c->from ? c->from : host ? cn_data_const(host) : "";
  int status = name.failed ? CN_ERR_MEMORY : cn_err();
  if (!status && !from) status = cn_err();
  if (!status) status = cni_zip_put(zip, name.s, "", 0, from, cn_dtype_bytes(c->dtype, c->numel));
  cn_scope_end(s);
  cn_text_free(&name);
  return status;
}

static int put_archive(cni_zip_writer *zip, const writing *w)
{
  static const struct {
    const char *name, *text;
  } notes[] = {{PREFIX ".format_version", "1"}, {PREFIX ".storage_alignment", "64"}, {PREFIX "byteorder", "little"}};
  int status = cni_zip_put(zip, PREFIX "data.pkl", "", 0, w->pickle.s, w->pickle.n);
  for (size_t i = 0; !status && i < sizeof notes / sizeof *notes; i++)
    status = cni_zip_put(zip, notes[i].name, "", 0, notes[i].text, strlen(notes[i].text));
  for (size_t i = 0; !status && i < w->n; i++) status = put_chunk(zip, &w->chunks[i], i);
  if (!status) status = cni_zip_put(zip, PREFIX "version", "", 0, "3\n", 2);
  return status ? status : cni_zip_finish(zip);
}

int cni_write_torch(cn_writer *writer, const cn_tree *tree)
{
  writing w = {.places = cn_tree_dict()};
  cni_zip_writer zip = {.writer = writer};
  int status = w.places ? gather(&w, tree, 0) : CN_ERR_MEMORY;
  cn_text_put_bytes(&w.pickle, "\x80\x02", 2);
  if (!status) status = put_value(&w, tree);
  put_op(&w, '.');
  if (!status && w.pickle.failed) status = CN_ERR_MEMORY;
  if (!status) status = put_archive(&zip, &w);
  cni_zip_writer_free(&zip);
  cn_text_free(&w.pickle);
  cn_free(w.chunks, w.cap * sizeof *w.chunks);
  cn_tree_free(w.places);
  return status;
}
