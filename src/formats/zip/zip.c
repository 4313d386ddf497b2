/* zip.c: reads zip archives (stored and deflated entries, zip64). See zip.h.
 *
 * Everything is taken from the central directory; an entry's own header only says where its bytes begin, and must carry
 * the same name. Invariant: the spans of an open archive's entries lie in front of the directory and do not overlap, so
 * that no byte can be unpacked twice. */
#include "zip.h"

#include <stdlib.h>
#include <string.h>

#include "inflate.h"

enum {
  END_SIZE = 22, LOCATOR_SIZE = 20, END64_SIZE = 56, CENTRAL_SIZE = 46, LOCAL_SIZE = 30,
  COMMENT_MOST = 65535, STORED = 0, DEFLATED = 8, ENCRYPTED = 1, ZIP64_EXTRA = 1
};
static const uint32_t end_mark = 0x06054b50, locator_mark = 0x07064b50, end64_mark = 0x06064b50,
                      central_mark = 0x02014b50, local_mark = 0x04034b50;

/* What an archive may unpack to in all: this many times its size, or this many bytes if that is more. */
static const uint64_t sane_ratio = 100, sane_size = (uint64_t)4 << 30;

static int bad(const cni_zip *zip, const char *what) { return cni_source_bad(zip->source, "zip", "%s", what); }

static int bad_entry(const cni_zip *zip, const char *name, const char *what)
{
  return cni_source_bad(zip->source, "zip", "entry '%.100s': %s", name, what);
}

bool cni_is_zip(const cni_source *s)
{
  return s->size >= END_SIZE && (cni_le32(s->data) == local_mark || cni_le32(s->data) == end_mark);
}

/* ---- the directory ---- */

typedef struct directory {
  uint64_t count, size, at;
} directory;

/* The end record: the last one whose comment reaches to the end of the file. NULL: none. */
static const unsigned char *find_end(const cni_source *s)
{
  size_t back = s->size < END_SIZE ? 0 : s->size - END_SIZE;
  size_t stop = back > COMMENT_MOST ? back - COMMENT_MOST : 0;
  for (size_t at = back + 1; s->size >= END_SIZE && at-- > stop;)
    if (cni_le32(s->data + at) == end_mark && cni_le16(s->data + at + 20) == back - at) return s->data + at;
  return NULL;
}

/* The larger form of the end record, for archives past 4 GiB or 65,535 entries. */
static int find_end64(directory *d, const cni_zip *zip, size_t end)
{
  const cni_source *s = zip->source;
  if (end < LOCATOR_SIZE || cni_le32(s->data + end - LOCATOR_SIZE) != locator_mark) return CN_OK; /* has none */
  uint64_t at = cni_le64(s->data + end - LOCATOR_SIZE + 8);
  if (at > end - LOCATOR_SIZE || end - LOCATOR_SIZE - at < END64_SIZE || cni_le32(s->data + at) != end64_mark)
    return bad(zip, "its zip64 end record is not where it should be");
  const unsigned char *p = s->data + at;
  *d = (directory){cni_le64(p + 32), cni_le64(p + 40), cni_le64(p + 48)};
  if (cni_le32(p + 16) || cni_le32(p + 20)) return bad(zip, "archives of several disks are not read");
  return d->at <= at && d->size <= at - d->at ? CN_OK : bad(zip, "its directory lies outside of it");
}

static int find_directory(directory *d, const cni_zip *zip)
{
  const unsigned char *end = find_end(zip->source);
  if (!end) return bad(zip, "its directory is missing: it is cut short or no archive");
  size_t at = (size_t)(end - zip->source->data);
  *d = (directory){cni_le16(end + 10), cni_le32(end + 12), cni_le32(end + 16)};
  bool large = d->count == 0xffff || d->size == 0xffffffff || d->at == 0xffffffff;
  if (cni_le16(end + 4) || cni_le16(end + 6)) return bad(zip, "archives of several disks are not read");
  if (large) {
    int status = find_end64(d, zip, at);
    if (status) return status;
  }
  if (d->at > at || d->size > at - d->at) return bad(zip, "its directory lies outside of it");
  return d->count <= d->size / CENTRAL_SIZE ? CN_OK : bad(zip, "its directory is too short for its entries");
}

/* ---- entries ---- */

/* Sizes and places that do not fit into 32 bits stand in an extra field, in this order and only those. */
static bool read_extra(cni_zip_entry *e, const unsigned char *p, size_t size)
{
  uint64_t *wide[] = {&e->size, &e->packed, &e->at};
  bool wanted = e->size == 0xffffffff || e->packed == 0xffffffff || e->at == 0xffffffff;
  while (wanted && size >= 4) {
    size_t id = cni_le16(p), length = cni_le16(p + 2);
    p += 4, size -= 4;
    if (length > size) return false;
    if (id == ZIP64_EXTRA) {
      for (int i = 0; i < 3; i++) {
        if (*wide[i] != 0xffffffff) continue;
        if (length < 8) return false;
        *wide[i] = cni_le64(p);
        p += 8, length -= 8;
      }
      return true;
    }
    p += length, size -= length;
  }
  return !wanted;
}

static int read_local(cni_zip_entry *e, const cni_zip *zip, uint64_t limit)
{
  const unsigned char *p = zip->source->data;
  size_t name = strlen(e->name);
  if (e->at > limit || limit - e->at < LOCAL_SIZE || cni_le32(p += e->at) != local_mark)
    return bad_entry(zip, e->name, "is not where the directory says");
  if (cni_le16(p + 26) != name || limit - e->at - LOCAL_SIZE < name || memcmp(p + LOCAL_SIZE, e->name, name) != 0)
    return bad_entry(zip, e->name, "has another name in the directory than in front of it");
  uint64_t head = LOCAL_SIZE + name + cni_le16(p + 28);
  if (head > limit - e->at || e->packed > limit - e->at - head) return bad_entry(zip, e->name, "reaches past the end");
  e->data = e->at + head;
  return CN_OK;
}

static int check_entry(const cni_zip_entry *e, const cni_zip *zip)
{
  if (e->flags & ENCRYPTED) return bad_entry(zip, e->name, "is encrypted");
  if (e->method == STORED && e->packed != e->size) return bad_entry(zip, e->name, "is stored but changes its size");
  if (e->method == DEFLATED && e->size / CNI_INFLATE_RATIO > e->packed)
    return bad_entry(zip, e->name, "claims to unpack to more than it can");
  return CN_OK;
}

/* Reads one record of the directory; *used: its bytes. */
static int read_central(cni_zip *zip, const unsigned char *p, uint64_t size, uint64_t limit, uint64_t *used)
{
  if (size < CENTRAL_SIZE || cni_le32(p) != central_mark) return bad(zip, "its directory is damaged");
  size_t name = cni_le16(p + 28), extra = cni_le16(p + 30), comment = cni_le16(p + 32);
  *used = CENTRAL_SIZE + name + extra + comment;
  if (*used > size) return bad(zip, "its directory is damaged");
  if (!name || memchr(p + CENTRAL_SIZE, 0, name)) return bad(zip, "an entry without a proper name");
  int status = cn_grow((void **)&zip->entries, &zip->cap, zip->n + 1, sizeof *zip->entries);
  char *text = status ? NULL : cn_string_copy_bytes((const char *)p + CENTRAL_SIZE, name);
  if (!text) return CN_ERR_MEMORY;
  cni_zip_entry *e = &zip->entries[zip->n++];
  *e = (cni_zip_entry){.name = text, .at = cni_le32(p + 42), .packed = cni_le32(p + 20), .size = cni_le32(p + 24)};
  e->crc = cni_le32(p + 16);
  e->method = (uint16_t)cni_le16(p + 10);
  e->flags = (uint16_t)cni_le16(p + 8);
  if (!read_extra(e, p + CENTRAL_SIZE + name, extra)) return bad_entry(zip, text, "its extra fields are damaged");
  if (cn_tree_get(zip->places, text)) return bad_entry(zip, text, "stands twice in the directory");
  status = cn_tree_put(zip->places, text, cn_tree_int((int64_t)zip->n - 1));
  if (!status) status = read_local(e, zip, limit);
  return status ? status : check_entry(e, zip);
}

static int by_place(const void *a, const void *b)
{
  const cni_zip_entry *p = *(const cni_zip_entry *const *)a, *q = *(const cni_zip_entry *const *)b;
  return (p->at > q->at) - (p->at < q->at);
}

/* Do the entries lie apart, and is what they unpack to sane? */
static int check_all(const cni_zip *zip)
{
  uint64_t total = 0, most = zip->source->size > sane_size / sane_ratio ? zip->source->size * sane_ratio : sane_size;
  const cni_zip_entry **sorted = cn_alloc((zip->n + 1) * sizeof *sorted);
  if (!sorted) return CN_ERR_MEMORY;
  for (size_t i = 0; i < zip->n; i++) sorted[i] = &zip->entries[i];
  if (zip->n) qsort(sorted, zip->n, sizeof *sorted, by_place);
  int status = CN_OK;
  for (size_t i = 0; !status && i < zip->n; i++) {
    const cni_zip_entry *e = sorted[i], *before = i ? sorted[i - 1] : NULL;
    if (before && before->data + before->packed > e->at) status = bad_entry(zip, e->name, "overlaps another one");
    else if (e->size > most - total) status = bad(zip, "it unpacks to so much that it must be a bomb");
    else total += e->size;
  }
  cn_free(sorted, (zip->n + 1) * sizeof *sorted);
  return status;
}

int cni_zip_open(cni_zip *zip, cni_source *source)
{
  directory d = {0};
  *zip = (cni_zip){.source = source, .places = cn_tree_dict()};
  int status = zip->places ? find_directory(&d, zip) : CN_ERR_MEMORY;
  uint64_t at = 0, used = 0;
  for (uint64_t i = 0; !status && i < d.count; i++, at += used)
    status = read_central(zip, source->data + d.at + at, d.size - at, d.at, &used);
  return status ? status : check_all(zip);
}

void cni_zip_close(cni_zip *zip)
{
  for (size_t i = 0; i < zip->n; i++) cn_string_free(zip->entries[i].name);
  cn_free(zip->entries, zip->cap * sizeof *zip->entries);
  cn_tree_free(zip->places);
  *zip = (cni_zip){0};
}

const cni_zip_entry *cni_zip_find(const cni_zip *zip, const char *name)
{
  int64_t i = cn_tree_as_int(cn_tree_get(zip->places, name), -1);
  return i < 0 ? NULL : &zip->entries[i];
}

/* ---- contents ---- */

/* Memory grows with what really comes out, so that a false size costs nothing. */
static cni_source *inflated(const cni_zip *zip, const cni_zip_entry *e)
{
  cni_bytes out = {0};
  size_t used;
  const char *wrong = cni_inflate(&out, (size_t)e->size, zip->source->data + e->data, (size_t)e->packed, &used);
  if (!wrong && (out.n != e->size || used != e->packed)) wrong = "its sizes are wrong";
  const void *made = out.n ? out.bytes : (const void *)"";
  if (!wrong && cni_crc32(0, made, out.n) != e->crc) wrong = "its checksum is wrong";
  if (!wrong) return cni_source_take(out.bytes, out.n, out.cap, zip->source->name);
  cn_free(out.bytes, out.cap);
  if (!cn_err()) bad_entry(zip, e->name, wrong);
  return NULL;
}

cni_source *cni_zip_read(const cni_zip *zip, const cni_zip_entry *e, bool check)
{
  if (e->method == DEFLATED) return inflated(zip, e);
  if (e->method != STORED) {
    cni_source_bad(zip->source, "zip", "entry '%.100s': is packed by method %u; only deflate is read", e->name,
                   e->method);
    return NULL;
  }
  if (check && cni_crc32(0, zip->source->data + e->data, (size_t)e->size) != e->crc) {
    bad_entry(zip, e->name, "its checksum is wrong");
    return NULL;
  }
  return cni_source_part(zip->source, (size_t)e->data, (size_t)e->size);
}
