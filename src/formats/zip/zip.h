/* zip.h: zip archives, the container of .npz and of PyTorch's files. Internal. */
#ifndef CNI_FORMATS_ZIP_H
#define CNI_FORMATS_ZIP_H

#include <cairn/tree.h>

#include "formats/source.h"

typedef struct cni_zip_entry {
  char *name;
  uint64_t at, data; /* where its own header and its bytes begin */
  uint64_t packed, size;
  uint32_t crc;
  uint16_t method, flags;
} cni_zip_entry;

typedef struct cni_zip {
  cni_source *source; /* the archive; not owned */
  cni_zip_entry *entries;
  size_t n, cap;
  cn_tree *places; /* name -> number in entries */
} cni_zip;

bool cni_is_zip(const cni_source *source);
/* Reads the directory and checks it against the file: everything lies inside and apart, names differ, and nothing
 * claims to unpack to more than it can or, together, to more than a sane archive does. 0 or an error; close it in any
 * case. */
int cni_zip_open(cni_zip *zip, cni_source *source);
void cni_zip_close(cni_zip *zip);
const cni_zip_entry *cni_zip_find(const cni_zip *zip, const char *name); /* NULL: none */
/* An entry's content; a part of the archive itself where it is stored as it is. `check`: also its checksum (of what was
 * packed it is always checked). Owned. */
cni_source *cni_zip_read(const cni_zip *zip, const cni_zip_entry *entry, bool check);

/* ---- writing; everything is stored as it is ---- */
typedef struct cni_zip_writer {
  cn_writer *writer; /* not owned */
  cni_zip_entry *entries;
  size_t n, cap;
} cni_zip_writer;

enum { CNI_ZIP_ALIGN = 64 }; /* of each entry's bytes in the file: they can be used where they are mapped */

/* An entry of two pieces, of which the first may be empty. */
int cni_zip_put(cni_zip_writer *zip, const char *name, const void *head, size_t head_size, const void *bytes,
                size_t size);
int cni_zip_finish(cni_zip_writer *zip); /* puts the directory */
void cni_zip_writer_free(cni_zip_writer *zip);

#endif
