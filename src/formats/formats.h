/* formats.h: the table of formats behind cn_load and cn_save: one row each, in the file of the format. Internal. */
#ifndef CNI_FORMATS_FORMATS_H
#define CNI_FORMATS_FORMATS_H

#include <cairn/io.h>
#include <string.h>

#include "source.h"
#include "zip/zip.h"

typedef struct cni_format {
  cn_format_info info;
  bool (*is)(const cni_source *source);                 /* by its content, which is not empty */
  cn_tree *(*read)(cni_source *source);                 /* owned; NULL with the error set */
  int (*write)(cn_writer *writer, const cn_tree *tree); /* puts the whole file; 0 or an error */
  bool text; /* what no format knows by its content is one of these if its name says so */
} cni_format;

/* In the order in which contents are looked at. */
#define CNI_FORMATS(X) \
  X(npy)               \
  X(safetensors)       \
  X(npz)               \
  X(torch)             \
  X(json)
#define CNI_FORMAT_DECLARE(name) extern const cni_format cni_format_##name;
CNI_FORMATS(CNI_FORMAT_DECLARE)
#undef CNI_FORMAT_DECLARE

/* ---- what formats share ---- */
static inline bool cni_begins(const cni_source *s, const char *with, size_t n)
{
  return s->size >= n && !memcmp(s->data, with, n);
}
/* Reads a zip archive: PyTorch's, or one of arrays. Sets the error of cni_refuse where it is no archive. */
cn_tree *cni_read_archive(cni_source *source);
cn_tree *cni_read_npz(cni_source *source, const cni_zip *zip);
cn_tree *cni_read_torch_zip(cni_source *source, const cni_zip *zip);
bool cni_is_torch_zip(const cni_zip *zip);
/* The name of the first entry of a zip archive ends so. */
bool cni_first_entry_ends(const cni_source *source, const char *with);
/* Sets the error that says what bytes are that no reader wants. */
void cni_refuse(const cni_source *source);
int cni_write_torch(cn_writer *writer, const cn_tree *tree); /* torch_write.c */

/* A tensor's elements, row-major, in host memory, from any device: itself or a copy that the scope owns. NULL with the
 * error set. */
cn_tensor *cni_on_host(cn_tensor *t);
/* Puts a tensor's elements, row-major; from any device. */
int cni_put_tensor(cn_writer *writer, cn_tensor *t);

#endif
