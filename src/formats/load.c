/* load.c: cn_load and cn_save: which format, and whose turn it is. See io.h.
 *
 * Invariant: what is being read is known by its content, never by its name alone; what is written appears whole or not
 * at all. */
#include <cairn/autograd.h>
#include <cairn/device.h>
#include <cairn/ops.h>
#include <string.h>

#include "formats.h"

static const struct ending {
  const char *text;
  cn_format format;
} endings[] = {
  {".safetensors", CN_FORMAT_SAFETENSORS},
  {".pt", CN_FORMAT_TORCH},
  {".pth", CN_FORMAT_TORCH},
  {".bin", CN_FORMAT_TORCH},
  {".ckpt", CN_FORMAT_TORCH},
  {".npy", CN_FORMAT_NPY},
  {".npz", CN_FORMAT_NPZ},
  {".json", CN_FORMAT_JSON},
};

static cn_format by_ending(const char *path)
{
  for (size_t i = 0; path && i < sizeof endings / sizeof *endings; i++)
    if (cn_string_ends(path, endings[i].text)) return endings[i].format;
  return CN_FORMAT_AUTO;
}

static bool begins(const unsigned char *p, size_t size, const char *with, size_t n)
{
  return size >= n && !memcmp(p, with, n);
}

cn_format cn_format_of(const void *bytes, size_t size, const char *path)
{
  const unsigned char *p = bytes;
  if (!p || !size) return CN_FORMAT_AUTO;
  if (begins(p, size, "\x93NUMPY", 6)) return CN_FORMAT_NPY;
  if (size > 8 && cni_le64(p) <= size - 8 && p[8] == '{') return CN_FORMAT_SAFETENSORS;
  if (begins(p, size, "PK\3\4", 4) && size > 30) {
    /* The first entry's name tells; the reader looks at all of them. */
    size_t name = cni_le16(p + 26);
    bool array = name >= 4 && name <= size - 30 && !memcmp(p + 30 + name - 4, ".npy", 4);
    return array ? CN_FORMAT_NPZ : CN_FORMAT_TORCH;
  }
  cni_source s = {.data = p, .size = size};
  if (cni_is_torch_legacy(&s)) return CN_FORMAT_TORCH;
  size_t i = begins(p, size, "\xef\xbb\xbf", 3) ? 3 : 0;
  while (i < size && strchr(" \t\r\n", p[i]) && p[i]) i++;
  if (i < size && (p[i] == '{' || p[i] == '[')) return CN_FORMAT_JSON;
  return by_ending(path) == CN_FORMAT_JSON ? CN_FORMAT_JSON : CN_FORMAT_AUTO;
}

static cn_tree *read_zip(cni_source *s)
{
  cni_zip zip;
  cn_tree *tree = NULL;
  if (!cni_zip_open(&zip, s)) tree = cni_is_torch_zip(&zip) ? cni_read_torch_zip(s, &zip) : cni_read_npz(s, &zip);
  cni_zip_close(&zip);
  return tree;
}

/* What is wrong with bytes that no reader wants. */
static void refuse(const cni_source *s)
{
  enum { TAR_MARK = 257 };
  const char *what = "neither safetensors nor PyTorch, NumPy or JSON";
  if (!s->size) what = "an empty file";
  else if (s->size > TAR_MARK + 5 && !memcmp(s->data + TAR_MARK, "ustar", 5))
    what = "a tar archive, as the first PyTorch releases wrote: load it with PyTorch and save it again";
  else if (begins(s->data, s->size, "\x89HDF", 4)) what = "an HDF5 file, which is not read";
  else if (cn_is_gzip(s->data, s->size)) what = "a gzip file: unpack it first";
  else if (s->data[0] == 0x80) what = "a pickle that PyTorch did not write; nothing in it is executed";
  cni_source_bad(s, "load", "%s", what);
}

static cn_tree *read_source(cni_source *s, const char *path)
{
  if (!s) return NULL;
  cn_tree *tree = NULL;
  cn_format format = cn_format_of(s->data, s->size, path);
  if (format == CN_FORMAT_AUTO && s->size) format = by_ending(path); /* whose reader says what is wrong */
  if (cni_is_zip(s)) tree = read_zip(s);
  else if (format == CN_FORMAT_SAFETENSORS) tree = cni_read_safetensors(s);
  else if (format == CN_FORMAT_NPY) tree = cni_read_npy(s);
  else if (format == CN_FORMAT_TORCH && cni_is_torch_legacy(s)) tree = cni_read_torch_legacy(s);
  else if (format == CN_FORMAT_JSON && s->size) tree = cn_tree_from_json((const char *)s->data, s->size);
  else refuse(s);
  cni_source_free(s);
  return tree;
}

cn_tree *cn_load(const char *path) { return cn_err() ? NULL : read_source(cni_source_open(path), path); }

cn_tree *cn_load_memory(const void *bytes, size_t size)
{
  return cn_err() ? NULL : read_source(cni_source_memory(bytes, size, "memory"), NULL);
}

/* ---- writing ---- */

cn_tensor *cni_on_host(cn_tensor *t)
{
  int saved = cn_no_grad_begin();
  if (cn_device_of(t) != CN_CPU) t = cn_to_device(t, CN_CPU);
  if (t && !cn_is_contiguous(t)) t = cn_contiguous(t);
  cn_no_grad_end(saved);
  return t;
}

int cni_put_tensor(cn_writer *writer, cn_tensor *t)
{
  cn_scope *s = cn_scope_begin();
  t = cni_on_host(t);
  const void *data = t && cn_numel(t) ? cn_data(t) : NULL;
  int status = data ? cn_writer_put(writer, data, cn_tensor_nbytes(t)) : cn_err();
  cn_scope_end(s);
  return status;
}

static int write_json(cn_writer *writer, const cn_tree *tree)
{
  char *text = cn_tree_to_json(tree, 2);
  int status = text ? cn_writer_put(writer, text, strlen(text)) : cn_err();
  if (!status) status = cn_writer_put(writer, "\n", 1);
  cn_string_free(text);
  return status;
}

/* Writes the tree and ends the writer, which may be NULL with the error set. */
static int write_tree(cn_writer *w, const cn_tree *tree, cn_format format)
{
  static int (*const writers[])(cn_writer *, const cn_tree *) = {
    [CN_FORMAT_SAFETENSORS] = cni_write_safetensors,
    [CN_FORMAT_TORCH] = cni_write_torch,
    [CN_FORMAT_NPY] = cni_write_npy,
    [CN_FORMAT_NPZ] = cni_write_npz,
    [CN_FORMAT_JSON] = write_json,
  };
  if (!w) return cn_err();
  int status = writers[format](w, tree);
  if (!status) return cn_writer_commit(w);
  cn_writer_abandon(w);
  return status;
}

int cn_save_as(const char *path, const cn_tree *tree, cn_format format)
{
  if (cn_err()) return cn_err();
  if (!path) return cn_err_set(CN_ERR_TYPE, "save: the path is missing (NULL)");
  if (format == CN_FORMAT_AUTO) format = by_ending(path);
  if (format == CN_FORMAT_AUTO)
    return cn_err_set(CN_ERR_VALUE, "save: %s: not one of the endings .safetensors, .pt, .npy, .npz, .json", path);
  if (format < CN_FORMAT_AUTO || format > CN_FORMAT_JSON) return cn_err_set(CN_ERR_VALUE, "save: no such format");
  return write_tree(cn_writer_open(path), tree, format);
}

int cn_save_to(cn_sink sink, void *payload, const cn_tree *tree, cn_format format)
{
  if (cn_err()) return cn_err();
  if (!sink) return cn_err_set(CN_ERR_TYPE, "save_to: the sink is missing (NULL)");
  if (format <= CN_FORMAT_AUTO || format > CN_FORMAT_JSON) return cn_err_set(CN_ERR_VALUE, "save_to: no such format");
  return write_tree(cn_writer_to(sink, payload), tree, format);
}

int cn_save(const char *path, const cn_tree *tree) { return cn_save_as(path, tree, CN_FORMAT_AUTO); }
