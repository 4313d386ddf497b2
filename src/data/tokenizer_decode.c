/* tokenizer_decode.c: decoders: tokens become text. See tokenizer_steps.h.
 *
 * Invariant: a step gives a piece for each token, or one for many; empty ones count. */
#include <string.h>

#include "tokenizer.h"
#include "tokenizer_steps.h"

static void put(cni_fragments *out, const char *s, size_t n)
{
  cn_text_put_bytes(&out->text, s, n);
  cni_fragments_end(out);
}

void cni_decode_fuse(cni_fragments *out, const cni_text_step *how, const cni_fragments *in)
{
  (void)how;
  put(out, in->text.n ? in->text.s : "", in->text.n);
}

void cni_decode_bytes(cni_fragments *out, const cni_text_step *how, const cni_fragments *in)
{
  (void)how;
  for (size_t i = 0; i < in->n; i++) {
    size_t size;
    const char *token = cni_fragments_at(in, i, &size);
    cni_bpe_decode(&out->text, token, size);
  }
  cni_fragments_end(out);
}

static int hex(char c)
{
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

int cni_byte_of_token(const char *s, size_t n)
{
  if (n != 6 || memcmp(s, "<0x", 3) || s[5] != '>' || hex(s[3]) < 0 || hex(s[4]) < 0) return -1;
  return hex(s[3]) * 16 + hex(s[4]);
}

size_t cni_token_of_byte(char token[8], unsigned byte)
{
  static const char digits[] = "0123456789ABCDEF";
  memcpy(token, "<0x..>", 7);
  token[3] = digits[byte >> 4 & 15];
  token[4] = digits[byte & 15];
  return 6;
}

static bool is_utf8(const char *s, size_t n)
{
  uint32_t c;
  for (const char *end = s + n; s < end;) {
    size_t size = cn_utf8_read(&c, s, end);
    if (!size) return false;
    s += size;
  }
  return true;
}

/* Bytes that are waiting: text, or where they are none U+FFFD for each. */
static void put_bytes(cni_fragments *out, cn_text *bytes)
{
  bool good = is_utf8(bytes->n ? bytes->s : "", bytes->n);
  if (bytes->n && good) put(out, bytes->s, bytes->n);
  for (size_t i = 0; i < bytes->n && !good; i++) put(out, "\xef\xbf\xbd", 3);
  out->text.failed |= bytes->failed;
  bytes->n = 0;
}

void cni_decode_fallback(cni_fragments *out, const cni_text_step *how, const cni_fragments *in)
{
  (void)how;
  cn_text bytes = {0};
  for (size_t i = 0; i < in->n; i++) {
    size_t size;
    const char *token = cni_fragments_at(in, i, &size);
    int b = cni_byte_of_token(token, size);
    if (b >= 0) cn_text_put_bytes(&bytes, &(char){(char)b}, 1);
    else {
      put_bytes(out, &bytes);
      put(out, token, size);
    }
  }
  put_bytes(out, &bytes);
  cn_text_free(&bytes);
}

/* Does the text that is stripped begin at s? */
static bool is_at(const cni_text_step *how, const char *s, const char *end)
{
  return (size_t)(end - s) >= how->a_size && !memcmp(s, how->a, how->a_size);
}

void cni_decode_strip(cni_fragments *out, const cni_text_step *how, const cni_fragments *in)
{
  for (size_t i = 0; i < in->n; i++) {
    size_t size;
    const char *s = cni_fragments_at(in, i, &size), *end = s + size;
    for (size_t k = 0; k < how->from && is_at(how, s, end); k++) s += how->a_size;
    for (size_t k = 0; k < how->to && (size_t)(end - s) >= how->a_size && is_at(how, end - how->a_size, end); k++)
      end -= how->a_size;
    put(out, s, (size_t)(end - s));
  }
}

void cni_decode_replace(cni_fragments *out, const cni_text_step *how, const cni_fragments *in)
{
  for (size_t i = 0; i < in->n; i++) {
    size_t size;
    const char *s = cni_fragments_at(in, i, &size);
    cni_normal_replace(&out->text, how, s, size);
    cni_fragments_end(out);
  }
}

void cni_decode_metaspace(cni_fragments *out, const cni_text_step *how, const cni_fragments *in)
{
  cni_text_step by = {.a = how->a, .a_size = how->a_size, .b = (char[]){" "}, .b_size = 1};
  for (size_t i = 0; i < in->n; i++) {
    size_t size;
    const char *s = cni_fragments_at(in, i, &size);
    by.b_size = i || how->kind == CNI_PREPEND_NEVER; /* the first has none */
    cni_normal_replace(&out->text, &by, s, size);
    cni_fragments_end(out);
  }
}

void cni_decode_wordpiece(cni_fragments *out, const cni_text_step *how, const cni_fragments *in)
{
  for (size_t i = 0; i < in->n; i++) {
    size_t size;
    const char *s = cni_fragments_at(in, i, &size);
    cni_wordpiece_decode(&out->text, how->a, how->flag, s, size, !i);
    cni_fragments_end(out);
  }
}

void cni_decode_suffix(cni_fragments *out, const cni_text_step *how, const cni_fragments *in)
{
  cni_text_step by = {.a = how->a, .a_size = how->a_size, .b = (char[]){" "}};
  for (size_t i = 0; i < in->n; i++) {
    size_t size;
    const char *s = cni_fragments_at(in, i, &size);
    by.b_size = i + 1 < in->n;
    if (by.a_size) cni_normal_replace(&out->text, &by, s, size);
    else cn_text_put_bytes(&out->text, s, size);
    cni_fragments_end(out);
  }
}

/* Tokens that come twice in a row count once, and the pad for none. */
void cni_decode_ctc(cni_fragments *out, const cni_text_step *how, const cni_fragments *in)
{
  const cni_text_step pad = {.a = how->a, .a_size = how->a_size, .b = (char[]){""}};
  const cni_text_step between = {.a = how->b, .a_size = how->b_size, .b = (char[]){" "}, .b_size = 1};
  const char *last = NULL;
  size_t last_size = 0;
  for (size_t i = 0; i < in->n; i++) {
    size_t size, from = out->text.n;
    const char *s = cni_fragments_at(in, i, &size);
    if (last && size == last_size && !memcmp(s, last, size)) continue;
    last = s;
    last_size = size;
    cn_text now = {0};
    cni_normal_replace(&now, &pad, s, size);
    if (how->flag) cni_wordpiece_clean_up(&now);
    if (how->flag) cni_normal_replace(&out->text, &between, now.n ? now.s : "", now.n);
    else cn_text_put_bytes(&out->text, now.n ? now.s : "", now.n);
    out->text.failed |= now.failed;
    cn_text_free(&now);
    if (out->text.n > from) cni_fragments_end(out);
  }
}
