/* sha256.h: SHA-256 (FIPS 180-4) of bytes that come piece by piece. */
#ifndef CNI_DATA_SHA256_H
#define CNI_DATA_SHA256_H

#include <stddef.h>
#include <stdint.h>

typedef struct cni_sha256 {
  uint32_t h[8];
  uint64_t size; /* bytes so far */
  unsigned char block[64]; /* the last size % 64 of them */
} cni_sha256;

enum { CNI_SHA256_TEXT = 65 };
void cni_sha256_begin(cni_sha256 *s);
void cni_sha256_put(cni_sha256 *s, const void *bytes, size_t size);
void cni_sha256_text(char text[CNI_SHA256_TEXT], const cni_sha256 *s); /* hexadecimal; more may be put afterwards */

#endif
