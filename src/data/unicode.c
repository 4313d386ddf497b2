/* unicode.c: see unicode.h. Tables are sorted and searched by halves; ASCII has one of its own.
 *
 * Invariant: every uint32_t is an allowed argument, character or not. */
#include "unicode.h"

#include "unicode.gen.h"

#define LENGTH(array) (sizeof(array) / sizeof *(array))

#define S CNI_SPACE
#define C CNI_CONTROL
#define L CNI_LETTER
#define N CNI_NUMBER
#define P CNI_PUNCTUATION
#define B (CNI_SPACE | CNI_CONTROL)
const uint8_t cni_ascii_class[128] = {
  C, C, C, C, C, C, C, C, C, S, S, B, B, S, C, C, C, C, C, C, C, C, C, C, C, C, C, C, C, C, C, C,
  S, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, N, N, N, N, N, N, N, N, N, N, P, P, P, P, P, P,
  P, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, P, P, P, P, P,
  P, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, P, P, P, P, C,
};
#undef S
#undef C
#undef L
#undef N
#undef P
#undef B

/* How many of the sorted v[0..n), shifted right, are not above c. */
static size_t not_above(const uint32_t *v, size_t n, unsigned shift, uint32_t c)
{
  size_t low = 0;
  while (n) {
    size_t half = n / 2;
    if (v[low + half] >> shift <= c) low += half + 1, n -= half + 1;
    else n = half;
  }
  return low;
}

unsigned cni_unicode_class(uint32_t c)
{
  if (c < 128) return cni_ascii_class[c];
  if (c > 0x10ffff) return 0;
  return classes[not_above(classes, LENGTH(classes), 8, c) - 1] & 0xff;
}

uint32_t cni_unicode_lower(uint32_t c)
{
  if (c < 128) return c - 'A' < 26 ? c + 32 : c;
  size_t low = 0, n = LENGTH(cases);
  while (n) {
    size_t half = n / 2;
    if (cases[low + half].first <= c) low += half + 1, n -= half + 1;
    else n = half;
  }
  const letter_case *r = &cases[low - 1]; /* the last run that begins at or before c; the first begins with 'A' */
  uint32_t past = c - r->first;
  return past % r->step == 0 && past / r->step < r->count ? (uint32_t)((int32_t)c + r->distance) : c;
}

size_t cni_unicode_base(uint32_t out[CNI_BASE_MOST], uint32_t c)
{
  enum { FIRST = 0xac00, LAST = 0xd7a3, VOWELS = 21, ENDS = 28 };
  out[0] = c;
  if (c < 0xc0) return 1;
  if (c >= FIRST && c <= LAST) { /* a syllable: a consonant, a vowel, perhaps a consonant at the end */
    uint32_t i = c - FIRST, end = i % ENDS;
    out[0] = 0x1100 + i / (VOWELS * ENDS);
    out[1] = 0x1161 + i % (VOWELS * ENDS) / ENDS;
    out[2] = 0x11a7 + end;
    return end ? 3 : 2;
  }
  if (cni_unicode_class(c) & CNI_MARK) return 0;
  size_t at = not_above(composed, LENGTH(composed), 0, c);
  if (!at || composed[at - 1] != c) return 1;
  size_t n = (size_t)bases[at] - bases[at - 1];
  for (size_t i = 0; i < n && i < CNI_BASE_MOST; i++) out[i] = base_pool[bases[at - 1] + i];
  return n;
}

unsigned cni_unicode_order(uint32_t c)
{
  if (c < 0x300) return 0;
  size_t at = not_above(orders, LENGTH(orders), 8, c);
  return at && orders[at - 1] >> 8 == c ? orders[at - 1] & 0xff : 0;
}
