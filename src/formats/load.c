/* load.c: cn_load and cn_save: which format, and whose turn it is. See io.h.
 *
 * Place in the flow: the rows of formats (formats.h) below, programs above. A format is a file with its row, a word in
 * CNI_FORMATS and a number in io.h. Invariant: what is being read is known by its content, never by its name alone;
 * what is written appears whole or not at all. */
#include <cairn/autograd.h>
#include <cairn/device.h>
#include <cairn/ops.h>
#include <stdio.h>
#include <string.h>

#include "formats.h"

#define ROW(name) &cni_format_##name,
static const cni_format *const formats[] = {CNI_FORMATS(ROW)};
#undef ROW
enum { FORMATS = sizeof formats / sizeof *formats };

/* ---- looking at the table ---- */

const cn_format_info *cn_format_at(size_t i) { return i < FORMATS ? &formats[i]->info : NULL; }

static bool has_ending(const cn_format_info *info, const char *path)
{
  const char *s = info->endings;
  for (size_t n; (s += strspn(s, " "), n = strcspn(s, " ")); s += n) {
    char ending[24];
    snprintf(ending, sizeof ending, "%.*s", (int)n, s);
    if (cn_string_ends(path, ending)) return true;
  }
  return false;
}

static const cni_format *by_ending(const char *path)
{
  for (size_t i = 0; path && i < FORMATS; i++)
    if (has_ending(&formats[i]->info, path)) return formats[i];
  return NULL;
}

const cn_format_info *cn_format_named(const char *path)
{
  const cni_format *f = by_ending(path);
  return f ? &f->info : NULL;
}

static const cni_format *by_content(const cni_source *s, const char *path)
{
  if (!s->data || !s->size) return NULL;
  for (size_t i = 0; i < FORMATS; i++)
    if (formats[i]->is(s)) return formats[i];
  const cni_format *named = by_ending(path);
  return named && named->text ? named : NULL;
}

static const cni_format *by_number(cn_format format)
{
  for (size_t i = 0; i < FORMATS; i++)
    if (formats[i]->info.format == format) return formats[i];
  return NULL;
}

cn_format cn_format_of(const void *bytes, size_t size, const char *path)
{
  cni_source s = {.data = bytes, .size = size};
  const cni_format *f = by_content(&s, path);
  return f ? f->info.format : CN_FORMAT_AUTO;
}

/* One of each row's texts, with commas between. */
static void put_all(cn_text *t, bool endings)
{
  for (size_t i = 0; i < FORMATS; i++) {
    const char *s = endings ? formats[i]->info.endings : formats[i]->info.name;
    for (; *s; s++) cn_text_put(t, *s == ' ' ? ", " : (char[]){*s, 0});
    if (i + 1 < FORMATS) cn_text_put(t, ", ");
  }
}

/* ---- reading ---- */

bool cni_first_entry_ends(const cni_source *s, const char *with)
{
  enum { NAME_SIZE = 26, NAME = 30 };
  size_t n = strlen(with), name = s->size > NAME ? cni_le16(s->data + NAME_SIZE) : 0;
  return name >= n && name <= s->size - NAME && !memcmp(s->data + NAME + name - n, with, n);
}

cn_tree *cni_read_archive(cni_source *s)
{
  cni_zip zip;
  cn_tree *tree = NULL;
  if (!cni_is_zip(s)) {
    cni_refuse(s);
    return NULL;
  }
  if (!cni_zip_open(&zip, s)) tree = cni_is_torch_zip(&zip) ? cni_read_torch_zip(s, &zip) : cni_read_npz(s, &zip);
  cni_zip_close(&zip);
  return tree;
}

void cni_refuse(const cni_source *s)
{
  enum { TAR_MARK = 257 };
  const char *what = NULL;
  if (!s->size) what = "an empty file";
  else if (s->size > TAR_MARK + 5 && !memcmp(s->data + TAR_MARK, "ustar", 5))
    what = "a tar archive, as the first PyTorch releases wrote: load it with PyTorch and save it again";
  else if (cni_begins(s, "\x89HDF", 4)) what = "an HDF5 file, which is not read";
  else if (cn_is_gzip(s->data, s->size)) what = "a gzip file: unpack it first";
  else if (s->data[0] == 0x80) what = "a pickle that PyTorch did not write; nothing in it is executed";
  cn_text known = {0};
  if (!what) put_all(&known, false);
  cni_source_bad(s, "load", "%s%s", what ? what : "it is of none of the formats that are read: ",
                 what || !known.s ? "" : known.s);
  cn_text_free(&known);
}

static cn_tree *read_source(cni_source *s, const char *path)
{
  if (!s) return NULL;
  cn_tree *tree = NULL;
  const cni_format *f = by_content(s, path);
  if (!f && s->size) f = by_ending(path); /* whose reader says what is wrong */
  if (f) tree = f->read(s);
  else cni_refuse(s);
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
  const void *data = t && cn_numel(t) ? cn_data_const(t) : NULL;
  int status = data ? cn_writer_put(writer, data, cn_tensor_nbytes(t)) : cn_err();
  cn_scope_end(s);
  return status;
}

/* Writes the tree and ends the writer, which may be NULL with the error set. */
static int write_tree(cn_writer *w, const cn_tree *tree, const cni_format *format)
{
  if (!w) return cn_err();
  int status = format->write(w, tree);
  if (!status) return cn_writer_commit(w);
  cn_writer_abandon(w);
  return status;
}

static int no_such_ending(const char *path)
{
  cn_text known = {0};
  put_all(&known, true);
  cn_err_set(CN_ERR_VALUE, "save: %s: not one of the endings %s", path, known.s ? known.s : "of formats");
  cn_text_free(&known);
  return cn_err();
}

int cn_save_as(const char *path, const cn_tree *tree, cn_format format)
{
  if (cn_err()) return cn_err();
  if (!path) return cn_err_set(CN_ERR_TYPE, "save: the path is missing (NULL)");
  const cni_format *f = format == CN_FORMAT_AUTO ? by_ending(path) : by_number(format);
  if (!f && format == CN_FORMAT_AUTO) return no_such_ending(path);
  if (!f) return cn_err_set(CN_ERR_VALUE, "save: no such format");
  return write_tree(cn_writer_open(path), tree, f);
}

int cn_save_to(cn_sink sink, void *payload, const cn_tree *tree, cn_format format)
{
  const cni_format *f = by_number(format);
  if (cn_err()) return cn_err();
  if (!sink) return cn_err_set(CN_ERR_TYPE, "save_to: the sink is missing (NULL)");
  if (!f) return cn_err_set(CN_ERR_VALUE, "save_to: no such format");
  return write_tree(cn_writer_to(sink, payload), tree, f);
}

int cn_save(const char *path, const cn_tree *tree) { return cn_save_as(path, tree, CN_FORMAT_AUTO); }
