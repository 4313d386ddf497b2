/* tokenizer_normal.c: normalisers: text becomes other text before it is cut. See tokenizer_steps.h.
 *
 * Invariant: what is no UTF-8 stays as it is, byte by byte, or becomes U+FFFD where characters are changed. */
#include <string.h>

#include "tokenizer.h"
#include "tokenizer_steps.h"
#include "unicode.h"
#include "unicode_forms.h"

void cni_normal_form(cn_text *out, const cni_text_step *how, const char *s, size_t n)
{
  cni_unicode_form(out, s, n, how->kind & CNI_FORM_COMPATIBLE, how->kind & CNI_FORM_COMPOSED);
}

static void put_char(cn_text *out, uint32_t c)
{
  char bytes[4];
  cn_text_put_bytes(out, bytes, cn_utf8_write(bytes, c));
}

/* The character at s, a byte that is none of its own included; returns its bytes. */
static size_t read_char(uint32_t *c, const char *s, const char *end)
{
  size_t size = cn_utf8_read(c, s, end);
  if (!size) *c = CNI_REPLACEMENT;
  return size ? size : 1;
}

void cni_normal_lower(cn_text *out, const cni_text_step *how, const char *s, size_t n)
{
  (void)how;
  char chunk[256];
  size_t used = 0;
  for (const char *end = s + n; s < end;) {
    uint32_t c;
    s += read_char(&c, s, end);
    if (used > sizeof chunk - 8) cn_text_put_bytes(out, chunk, used), used = 0;
    if (c == 0x130) chunk[used++] = 'i', c = 0x307; /* the one whose small form is two characters */
    used += cn_utf8_write(chunk + used, cni_unicode_lower(c));
  }
  cn_text_put_bytes(out, chunk, used);
}

void cni_normal_accents(cn_text *out, const cni_text_step *how, const char *s, size_t n)
{
  (void)how;
  const char *from = s, *end = s + n;
  while (s < end) {
    uint32_t c;
    size_t size = read_char(&c, s, end);
    if (c >= 0x300 && cni_unicode_more(c) & CNI_MORE_COMBINING) {
      cn_text_put_bytes(out, from, (size_t)(s - from));
      from = s + size;
    }
    s += size;
  }
  cn_text_put_bytes(out, from, (size_t)(end - from));
}

static bool is_space(uint32_t c) { return cni_unicode_class(c) & CNI_SPACE; }

void cni_normal_strip(cn_text *out, const cni_text_step *how, const char *s, size_t n)
{
  const char *begin = s, *end = s + n;
  uint32_t c;
  size_t size;
  while (how->flag && begin < end && (size = read_char(&c, begin, end)) && is_space(c)) begin += size;
  const char *stop = begin;
  for (const char *p = begin; p < end; p += size) {
    size = read_char(&c, p, end);
    if (!is_space(c)) stop = p + size;
  }
  cn_text_put_bytes(out, begin, (size_t)((how->other ? stop : end) - begin));
}

void cni_normal_prepend(cn_text *out, const cni_text_step *how, const char *s, size_t n)
{
  if (!n) return;
  cn_text_put_bytes(out, how->a, how->a_size);
  cn_text_put_bytes(out, s, n);
}

/* Bytes of the run at s that is replaced; 0: none. */
static size_t run_at(const cni_text_step *how, const char *s, const char *end)
{
  size_t count = 0, size;
  const char *p = s;
  for (uint32_t c; p < end; p += size, count++) {
    size = read_char(&c, p, end);
    if (how->flag ? !is_space(c) : c != ' ') break;
  }
  return count >= how->from ? (size_t)(p - s) : 0;
}

void cni_normal_replace(cn_text *out, const cni_text_step *how, const char *s, size_t n)
{
  const char *from = s, *end = s + n;
  while (s < end) {
    size_t found = 0;
    if (how->from) found = run_at(how, s, end);
    else if (*s == *how->a && (size_t)(end - s) >= how->a_size && !memcmp(s, how->a, how->a_size))
      found = how->a_size;
    if (!found) {
      s++;
      continue;
    }
    cn_text_put_bytes(out, from, (size_t)(s - from));
    cn_text_put_bytes(out, how->b, how->b_size);
    from = s += found;
  }
  cn_text_put_bytes(out, from, (size_t)(end - from));
}

/* SentencePiece's "nmt": control characters go, and many become spaces. */
void cni_normal_nmt(cn_text *out, const cni_text_step *how, const char *s, size_t n)
{
  static const uint32_t spaces[][2] = {{9, 10},          {12, 13},         {0x1680, 0x1680}, {0x200b, 0x200f},
                                       {0x2028, 0x2029}, {0x2581, 0x2581}, {0xfeff, 0xfeff}, {0xfffd, 0xfffd}};
  (void)how;
  for (const char *end = s + n; s < end;) {
    uint32_t c;
    size_t size = read_char(&c, s, end);
    bool space = false;
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++) space |= c >= spaces[i][0] && c <= spaces[i][1];
    bool gone = (c >= 1 && c <= 8) || c == 11 || (c >= 14 && c <= 31) || c == 0x7f || c == 0x8f || c == 0x9f;
    if (space) cn_text_put(out, " ");
    else if (!gone) cn_text_put_bytes(out, s, size);
    s += size;
  }
}

void cni_normal_bert(cn_text *out, const cni_text_step *how, const char *s, size_t n)
{
  cni_wordpiece_normalise(out, how->data, s, n);
}

void cni_normal_bytes(cn_text *out, const cni_text_step *how, const char *s, size_t n)
{
  (void)how;
  for (size_t i = 0; i < n; i++) put_char(out, cni_char_of_byte((unsigned char)s[i]));
}
