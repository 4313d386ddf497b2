/* zip_write.c: writes zip archives of stored entries, aligned so that they can be used where a file is mapped.
 * See zip.h.
 *
 * Invariant: sizes and places past 32 bits, and only those, are written in zip64's form. */
#include <string.h>

#include "inflate.h"
#include "zip.h"

enum { ZIP64_VERSION = 45, VERSION = 20, ZIP64_EXTRA = 1, PADDING_EXTRA = 0x4246, UTF8_NAMES = 0x800 };
static const uint64_t wide = 0xffffffff;

/* A record while it is put together. */
typedef struct record {
  unsigned char bytes[128];
  size_t n;
} record;

static void put(record *r, uint64_t value, int size)
{
  for (int i = 0; i < size; i++) r->bytes[r->n++] = (unsigned char)(value >> 8 * i);
}

static uint64_t narrow(uint64_t v) { return v < wide ? v : wide; }

/* What local and central records share: from the version to the lengths of name and extra field. */
static void put_common(record *r, const cni_zip_entry *e, size_t extra)
{
  put(r, e->size >= wide || e->at >= wide ? ZIP64_VERSION : VERSION, 2);
  put(r, UTF8_NAMES, 2);
  put(r, 0, 2);              /* stored */
  put(r, 0, 2);              /* midnight */
  put(r, 1 | 1 << 5, 2);     /* of 1 January 1980: the same content gives the same file */
  put(r, e->crc, 4);
  put(r, narrow(e->size), 4);
  put(r, narrow(e->size), 4);
  put(r, strlen(e->name), 2);
  put(r, extra, 2);
}

/* The header in front of an entry's bytes, padded by an extra field so that they are aligned. */
static int put_local(cni_zip_writer *zip, const cni_zip_entry *e)
{
  static const unsigned char zeros[CNI_ZIP_ALIGN];
  size_t large = e->size >= wide ? 4 + 16 : 0, head = 30 + strlen(e->name) + large + 4;
  size_t padding = (CNI_ZIP_ALIGN - (size_t)((e->at + head) % CNI_ZIP_ALIGN)) % CNI_ZIP_ALIGN;
  record r = {.n = 0};
  put(&r, 0x04034b50, 4);
  put_common(&r, e, large + 4 + padding);
  int status = cn_writer_put(zip->writer, r.bytes, r.n);
  if (!status) status = cn_writer_put(zip->writer, e->name, strlen(e->name));
  r.n = 0;
  if (large) {
    put(&r, ZIP64_EXTRA, 2);
    put(&r, 16, 2);
    put(&r, e->size, 8);
    put(&r, e->size, 8);
  }
  put(&r, PADDING_EXTRA, 2);
  put(&r, padding, 2);
  if (!status) status = cn_writer_put(zip->writer, r.bytes, r.n);
  return status ? status : cn_writer_put(zip->writer, zeros, padding);
}

static int put_central(cni_zip_writer *zip, const cni_zip_entry *e)
{
  size_t large = (e->size >= wide ? 16u : 0u) + (e->at >= wide ? 8u : 0u);
  record r = {.n = 0};
  put(&r, 0x02014b50, 4);
  put(&r, ZIP64_VERSION, 2); /* made by */
  put_common(&r, e, large ? large + 4 : 0);
  put(&r, 0, 2 + 2 + 2); /* no comment, first disk, nothing known of the content ... */
  put(&r, 0, 4);         /* ... or its mode */
  put(&r, narrow(e->at), 4);
  int status = cn_writer_put(zip->writer, r.bytes, r.n);
  if (!status) status = cn_writer_put(zip->writer, e->name, strlen(e->name));
  r.n = 0;
  if (large) {
    put(&r, ZIP64_EXTRA, 2);
    put(&r, large, 2);
  }
  if (e->size >= wide) put(&r, e->size, 8), put(&r, e->size, 8);
  if (e->at >= wide) put(&r, e->at, 8);
  return status ? status : cn_writer_put(zip->writer, r.bytes, r.n);
}

int cni_zip_put(cni_zip_writer *zip, const char *name, const void *head, size_t head_size, const void *bytes,
                size_t size)
{
  if (strlen(name) > 0xffff - CNI_ZIP_ALIGN) return cn_err_set(CN_ERR_VALUE, "zip: a name is too long");
  if (cn_grow((void **)&zip->entries, &zip->cap, zip->n + 1, sizeof *zip->entries)) return CN_ERR_MEMORY;
  char *copy = cn_string_copy(name);
  if (!copy) return CN_ERR_MEMORY;
  cni_zip_entry *e = &zip->entries[zip->n++];
  uint32_t crc = cni_crc32(cni_crc32(0, head, head_size), bytes, size);
  *e = (cni_zip_entry){.name = copy, .at = cn_writer_at(zip->writer), .size = (uint64_t)head_size + size, .crc = crc};
  int status = put_local(zip, e);
  if (!status) status = cn_writer_put(zip->writer, head, head_size);
  return status ? status : cn_writer_put(zip->writer, bytes, size);
}

int cni_zip_finish(cni_zip_writer *zip)
{
  uint64_t begin = cn_writer_at(zip->writer);
  for (size_t i = 0; i < zip->n; i++) {
    int status = put_central(zip, &zip->entries[i]);
    if (status) return status;
  }
  uint64_t end = cn_writer_at(zip->writer);
  record r = {.n = 0};
  if (zip->n >= 0xffff || end >= wide) {
    put(&r, 0x06064b50, 4);
    put(&r, 44, 8); /* bytes behind this field */
    put(&r, ZIP64_VERSION, 2);
    put(&r, ZIP64_VERSION, 2);
    put(&r, 0, 8); /* disks */
    put(&r, zip->n, 8);
    put(&r, zip->n, 8);
    put(&r, end - begin, 8);
    put(&r, begin, 8);
    put(&r, 0x07064b50, 4);
    put(&r, 0, 4);
    put(&r, end, 8);
    put(&r, 1, 4);
  }
  uint64_t count = zip->n < 0xffff ? zip->n : 0xffff;
  put(&r, 0x06054b50, 4);
  put(&r, 0, 4); /* disks */
  put(&r, count, 2);
  put(&r, count, 2);
  put(&r, narrow(end - begin), 4);
  put(&r, narrow(begin), 4);
  put(&r, 0, 2); /* no comment */
  return cn_writer_put(zip->writer, r.bytes, r.n);
}

void cni_zip_writer_free(cni_zip_writer *zip)
{
  for (size_t i = 0; i < zip->n; i++) cn_string_free(zip->entries[i].name);
  cn_free(zip->entries, zip->cap * sizeof *zip->entries);
  *zip = (cni_zip_writer){0};
}
