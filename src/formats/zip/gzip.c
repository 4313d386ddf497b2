/* gzip.c: gzip files (RFC 1952) in memory, and CRC-32. See io.h and inflate.h.
 *
 * Invariant: what is given out has the checksum and the length that the file says. */
#include <cairn/io.h>
#include <pthread.h>
#include <string.h>

#include "inflate.h"
#include "formats/source.h"

/* ---- CRC-32: eight bytes a step, each by a table of its own ---- */

enum { STEP = 8 };
static uint32_t tables[STEP][256];
static pthread_once_t tables_made = PTHREAD_ONCE_INIT;

static void make_tables(void)
{
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t c = i;
    for (int k = 0; k < 8; k++) c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
    tables[0][i] = c;
  }
  for (int t = 1; t < STEP; t++)
    for (int i = 0; i < 256; i++) tables[t][i] = tables[t - 1][i] >> 8 ^ tables[0][tables[t - 1][i] & 0xff];
}

uint32_t cni_crc32(uint32_t crc, const void *bytes, size_t size)
{
  const unsigned char *p = bytes;
  pthread_once(&tables_made, make_tables);
  crc = ~crc;
  for (; size >= STEP; size -= STEP, p += STEP) {
    uint32_t a = crc ^ cni_le32(p), b = cni_le32(p + 4);
    crc = tables[7][a & 0xff] ^ tables[6][a >> 8 & 0xff] ^ tables[5][a >> 16 & 0xff] ^ tables[4][a >> 24] ^
          tables[3][b & 0xff] ^ tables[2][b >> 8 & 0xff] ^ tables[1][b >> 16 & 0xff] ^ tables[0][b >> 24];
  }
  for (; size; size--, p++) crc = crc >> 8 ^ tables[0][(crc ^ *p) & 0xff];
  return ~crc;
}

/* ---- gzip ---- */

enum { HEAD = 10, TAIL = 8, HAS_CHECK = 2, HAS_EXTRA = 4, HAS_NAME = 8, HAS_COMMENT = 16 };

bool cn_is_gzip(const void *bytes, size_t size)
{
  const unsigned char *p = bytes;
  return size >= HEAD + TAIL && p[0] == 0x1f && p[1] == 0x8b && p[2] == 8;
}

/* Bytes of a member's header; 0 when it is none. */
static size_t header_size(const unsigned char *p, size_t size)
{
  size_t at = HEAD;
  if (!cn_is_gzip(p, size) || p[3] & 0xe0) return 0;
  if (p[3] & HAS_EXTRA) at += size >= at + 2 ? 2 + cni_le16(p + at) : size;
  for (int texts = (p[3] & HAS_NAME ? 1 : 0) + (p[3] & HAS_COMMENT ? 1 : 0); texts; texts--) {
    const unsigned char *zero = at < size ? memchr(p + at, 0, size - at) : NULL;
    if (!zero) return 0;
    at = (size_t)(zero - p) + 1;
  }
  if (p[3] & HAS_CHECK) at += 2;
  return at < size ? at : 0;
}

/* A file may have several members, whose contents follow each other. Zeros behind the last one are padding. */
static const char *gunzip(cni_bytes *out, const unsigned char *p, size_t size)
{
  while (size) {
    size_t head = header_size(p, size), used, from = out->n;
    if (!head) return "not a gzip file";
    size_t most = size > SIZE_MAX / CNI_INFLATE_RATIO ? SIZE_MAX : size * CNI_INFLATE_RATIO;
    const char *wrong = cni_inflate(out, most, p + head, size - head, &used);
    if (wrong) return wrong;
    if (size - head - used < TAIL) return "it is cut short";
    p += head + used, size -= head + used;
    const unsigned char *made = out->n > from ? out->bytes + from : p;
    if (cni_crc32(0, made, out->n - from) != cni_le32(p)) return "its checksum is wrong";
    if ((uint32_t)(out->n - from) != cni_le32(p + 4)) return "its length is wrong";
    p += TAIL, size -= TAIL;
    while (size && !*p) p++, size--;
  }
  return NULL;
}

int cn_gunzip(void **bytes, size_t *size, const void *from, size_t from_size)
{
  cni_bytes out = {0};
  *bytes = NULL;
  *size = 0;
  if (cn_err()) return cn_err();
  const char *wrong = from_size ? gunzip(&out, from, from_size) : "not a gzip file";
  void *fitted = wrong ? NULL : cn_alloc(out.n);
  if (fitted && out.n) memcpy(fitted, out.bytes, out.n);
  cn_free(out.bytes, out.cap);
  if (wrong && !cn_err()) return cn_err_set(CN_ERR_IO, "gunzip: %s", wrong);
  if (!fitted) return cn_err();
  *bytes = fitted;
  *size = out.n;
  return CN_OK;
}
