/* sha256.c: see sha256.h.
 *
 * Invariant: block holds the bytes that do not fill one yet; h has taken in all before them. */
#include "sha256.h"

#include <string.h>

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t ks[64] = {
  0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
  0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
  0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
  0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
  0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
  0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
  0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
  0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static inline uint32_t rotate(uint32_t x, unsigned n) { return x >> n | x << (32 - n); }

/* One round; the names of the eight words move on by one from round to round instead of their values. */
#define ROUND(a, b, c, d, e, f, g, h, i)                                                                             \
  do {                                                                                                               \
    uint32_t x = h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + (g ^ (e & (f ^ g))) + ks[i] + w[i];            \
    d += x;                                                                                                          \
    h = x + (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) | (c & (a | b)));                              \
  } while (0)

static void take_block(uint32_t v[8], const unsigned char *p)
{
  uint32_t w[64];
  for (int i = 0; i < 16; i++, p += 4)
    w[i] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
  for (int i = 16; i < 64; i++) {
    uint32_t x = w[i - 15], y = w[i - 2];
    w[i] = w[i - 16] + (rotate(x, 7) ^ rotate(x, 18) ^ x >> 3) + w[i - 7] + (rotate(y, 17) ^ rotate(y, 19) ^ y >> 10);
  }
  uint32_t a = v[0], b = v[1], c = v[2], d = v[3], e = v[4], f = v[5], g = v[6], h = v[7];
  for (int i = 0; i < 64; i += 8) {
    ROUND(a, b, c, d, e, f, g, h, i);
    ROUND(h, a, b, c, d, e, f, g, i + 1);
    ROUND(g, h, a, b, c, d, e, f, i + 2);
    ROUND(f, g, h, a, b, c, d, e, i + 3);
    ROUND(e, f, g, h, a, b, c, d, i + 4);
    ROUND(d, e, f, g, h, a, b, c, i + 5);
    ROUND(c, d, e, f, g, h, a, b, i + 6);
    ROUND(b, c, d, e, f, g, h, a, i + 7);
  }
  v[0] += a, v[1] += b, v[2] += c, v[3] += d, v[4] += e, v[5] += f, v[6] += g, v[7] += h;
}

void cni_sha256_begin(cni_sha256 *s)
{
  static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  memcpy(s->h, start, sizeof start);
  s->size = 0;
}

void cni_sha256_put(cni_sha256 *s, const void *bytes, size_t size)
{
  const unsigned char *p = bytes;
  size_t held = s->size % 64;
  s->size += size;
  if (held) {
    size_t n = 64 - held < size ? 64 - held : size;
    memcpy(s->block + held, p, n);
    p += n;
    size -= n;
    if (held + n < 64) return;
    take_block(s->h, s->block);
  }
  for (; size >= 64; p += 64, size -= 64) take_block(s->h, p);
  if (size) memcpy(s->block, p, size);
}

void cni_sha256_text(char text[CNI_SHA256_TEXT], const cni_sha256 *s)
{
  static const char digits[] = "0123456789abcdef";
  static const unsigned char padding[64] = {0x80};
  cni_sha256 end = *s;
  unsigned char bits[8];
  for (int i = 0; i < 8; i++) bits[i] = (unsigned char)(s->size * 8 >> (56 - 8 * i));
  cni_sha256_put(&end, padding, 1 + (119 - s->size % 64) % 64);
  cni_sha256_put(&end, bits, 8);
  for (int i = 0; i < 64; i++) text[i] = digits[end.h[i / 8] >> (28 - 4 * (i % 8)) & 15];
  text[64] = 0;
}
