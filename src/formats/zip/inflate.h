/* inflate.h: compressed bytes (DEFLATE, RFC 1951), gzip files, and the checksum of both. Internal. */
#ifndef CNI_FORMATS_INFLATE_H
#define CNI_FORMATS_INFLATE_H

#include <stddef.h>
#include <stdint.h>

/* Bytes that grow. Zero-initialise; give back with cn_free(bytes, cap). */
typedef struct cni_bytes {
  unsigned char *bytes;
  size_t n, cap;
} cni_bytes;

/* DEFLATE gives at most 258 bytes for two bits. */
enum { CNI_INFLATE_RATIO = 1032 };

/* Appends what the compressed bytes stand for to out, at most `most` bytes of them; *used: how many bytes of `from`
 * they were. NULL, or what is wrong with them: *out is then as far as they could be read. */
const char *cni_inflate(cni_bytes *out, size_t most, const unsigned char *from, size_t size, size_t *used);

/* CRC-32 as in zip and gzip files; begin with crc 0. */
uint32_t cni_crc32(uint32_t crc, const void *bytes, size_t size);

#endif
