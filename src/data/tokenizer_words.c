/* tokenizer_words.c: pre-tokenizers: text is cut into pieces, which the model takes one by one. See tokenizer_steps.h.
 *
 * Invariant: pieces that are cut and not changed lie in the text in their order. */
#include <string.h>

#include "tokenizer.h"
#include "tokenizer_steps.h"
#include "unicode.h"
#include "unicode_forms.h"

/* ---- finding ---- */

static unsigned class_at(const char *s, const char *end, size_t *size, bool more)
{
  uint32_t c;
  *size = cn_utf8_read(&c, s, end);
  if (!*size) *size = 1, c = CNI_REPLACEMENT;
  return more ? cni_unicode_more(c) : cni_unicode_class(c);
}

/* A word (letters, numbers, marks, _), or a run of what is neither such nor white space. */
static bool word_or_signs(const char *s, const char *end, size_t *size)
{
  size_t n, ignored;
  bool word = class_at(s, end, &n, true) & CNI_MORE_WORD;
  *size = n;
  if (!word && class_at(s, end, &ignored, false) & CNI_SPACE) return false;
  for (const char *p = s + n; p < end; p += n) {
    if (!!(class_at(p, end, &n, true) & CNI_MORE_WORD) != word) break;
    if (!word && class_at(p, end, &ignored, false) & CNI_SPACE) break;
    *size += n;
  }
  return true;
}

/* Is there what `how` looks for at s? *size: its bytes, or those of the character that is none. */
static bool found_at(const cni_text_step *how, const char *s, const char *end, size_t *size)
{
  switch (how->kind) {
  case CNI_FIND_TEXT:
    class_at(s, end, size, false);
    if ((size_t)(end - s) < how->a_size || memcmp(s, how->a, how->a_size)) return false;
    *size = how->a_size;
    return true;
  case CNI_FIND_SPACE: return class_at(s, end, size, false) & CNI_SPACE;
  case CNI_FIND_PUNCTUATION: return class_at(s, end, size, false) & CNI_PUNCTUATION;
  case CNI_FIND_NUMERIC: return class_at(s, end, size, true) & CNI_MORE_NUMERIC;
  case CNI_FIND_GPT2: *size = cni_gpt2_word(s, end, 0); return true;
  case CNI_FIND_LLAMA3: *size = cni_gpt2_word(s, end, (int)how->to); return true;
  default: return word_or_signs(s, end, size);
  }
}

/* ---- cutting ---- */

/* The part that ends at p: a match or what is between two. open: the last piece that may still grow. */
typedef struct cutter {
  cni_fragments *out;
  int becomes;
  const char *begin, *end; /* of the piece that is being made; NULL: none */
  bool matched;            /* the part before was a match */
  bool any;
} cutter;

static void close_piece(cutter *c)
{
  if (c->begin) cni_fragments_put(c->out, c->begin, (size_t)(c->end - c->begin));
  c->begin = NULL;
}

static void add_part(cutter *c, const char *from, const char *to, bool match)
{
  bool joins = false;
  if (from == to) return;
  if (c->becomes == CNI_CUT_REMOVED && match) {
    close_piece(c);
    c->matched = c->any = true;
    return;
  }
  if (c->becomes == CNI_CUT_CONTIGUOUS) joins = c->any && c->matched == match;
  if (c->becomes == CNI_CUT_TO_PREVIOUS) joins = match && c->any && !c->matched;
  if (c->becomes == CNI_CUT_TO_NEXT) joins = !match && c->any && c->matched;
  if (!joins || !c->begin) {
    close_piece(c);
    c->begin = from;
  }
  c->end = to;
  c->matched = match;
  c->any = true;
}

void cni_cut_at(cni_fragments *out, const cni_text_step *how, const char *s, size_t n, bool first)
{
  (void)first;
  cutter c = {.out = out, .becomes = (int)how->from};
  const char *end = s + n, *between = s;
  while (s < end) {
    size_t size;
    if (!found_at(how, s, end, &size)) {
      s += size;
      continue;
    }
    add_part(&c, between, s, how->invert);
    add_part(&c, s, s + size, !how->invert);
    between = s += size;
  }
  add_part(&c, between, end, how->invert);
  close_piece(&c);
}

void cni_cut_bert(cni_fragments *out, const cni_text_step *how, const char *s, size_t n, bool first)
{
  (void)how, (void)first;
  const char *end = s + n, *word = s;
  for (size_t size; s < end; s += size) {
    unsigned bits = class_at(s, end, &size, false) & (CNI_SPACE | CNI_PUNCTUATION);
    if (!bits) continue;
    cni_fragments_put(out, word, (size_t)(s - word));
    if (!(bits & CNI_SPACE)) cni_fragments_put(out, s, size);
    word = s + size;
  }
  cni_fragments_put(out, word, (size_t)(end - word));
}

/* ---- changing ---- */

/* Spaces become marks, and there is one in front; cut before each. */
void cni_cut_metaspace(cni_fragments *out, const cni_text_step *how, const char *s, size_t n, bool first)
{
  const char *end = s + n;
  bool has = n && (*s == ' ' || (n >= how->a_size && !memcmp(s, how->a, how->a_size)));
  bool wants = how->kind == CNI_PREPEND_ALWAYS || (how->kind == CNI_PREPEND_FIRST && first);
  if (!out->n) out->origin = s;
  bool open = wants && !has; /* the piece has nothing but a mark yet, or is empty: what comes joins it */
  if (open) cn_text_put_bytes(&out->text, how->a, how->a_size);
  bool empty = !open;
  while (s < end) {
    bool mark = *s == ' ' || ((size_t)(end - s) >= how->a_size && !memcmp(s, how->a, how->a_size));
    if (mark && !empty && how->flag) cni_fragments_end(out);
    const char *p = s + (*s == ' ' ? 1 : mark ? how->a_size : 1);
    if (mark) cn_text_put_bytes(&out->text, how->a, how->a_size);
    else {
      while (p < end && *p != ' ' && *p != *how->a) p++;
      cn_text_put_bytes(&out->text, s, (size_t)(p - s));
    }
    empty = false;
    s = p;
  }
  if (!empty) cni_fragments_end(out);
}

static void put_as_chars(cni_fragments *out, const char *s, size_t n)
{
  cni_normal_bytes(&out->text, NULL, s, n);
  cni_fragments_end(out);
}

/* GPT-2's words (flag), with a space in front (other), and bytes as characters. */
void cni_cut_bytes(cni_fragments *out, const cni_text_step *how, const char *s, size_t n, bool first)
{
  (void)first;
  cn_text text = {0};
  if (!out->n) out->origin = s;
  if (how->other && *s != ' ') {
    cn_text_put(&text, " ");
    cn_text_put_bytes(&text, s, n);
    out->text.failed |= text.failed;
    if (text.failed) n = 0;
    else s = text.s, n = text.n;
  }
  for (const char *end = s + n; s < end;) {
    size_t size = how->flag ? cni_gpt2_word(s, end, 0) : (size_t)(end - s);
    put_as_chars(out, s, size);
    s += size;
  }
  cn_text_free(&text);
}
