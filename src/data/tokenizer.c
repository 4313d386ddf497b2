/* tokenizer.c: tokenizers: their life, encoding and decoding, and the small kinds: bytes, characters, whole words. See
 * data.h.
 *
 * Place in the flow: see tokenizer.h. Invariant: a tokenizer does not change once it is made, but for its cache of
 * words, which one call at a time holds; so any number of threads may use it. */
#include "tokenizer.h"

#include <string.h>

#include "unicode.h"

/* ---- life ---- */

cn_tokenizer *cni_tokenizer_new(const cni_text_class *cls, void *model, bool cached)
{
  cn_tokenizer *t = cn_alloc_zero(sizeof *t);
  if (!t) {
    if (cls->free) cls->free(model);
    return NULL;
  }
  t->cls = cls;
  t->model = model;
  pthread_mutex_init(&t->lock, NULL);
  if (cached && !(t->words = cn_alloc_zero(CNI_WORDS * sizeof *t->words))) {
    cn_tokenizer_free(t);
    return NULL;
  }
  return t;
}

void cn_tokenizer_free(cn_tokenizer *t)
{
  if (!t) return;
  if (t->cls->free) t->cls->free(t->model);
  for (size_t i = 0; i < t->nadded; i++) cn_string_free(t->added[i].s);
  cn_free(t->added, t->added_cap * sizeof *t->added);
  cn_free(t->words, CNI_WORDS * sizeof *t->words);
  cni_vocab_free(&t->vocab);
  cni_steps_free(&t->normal);
  cni_steps_free(&t->cuts);
  cni_steps_free(&t->decoders);
  pthread_mutex_destroy(&t->lock);
  cn_free(t, sizeof *t);
}

int cni_tokenizer_mark(cn_tokenizer *t, bool before, int64_t id)
{
  size_t *n = before ? &t->nbefore : &t->nafter, size;
  if (*n == CNI_MARKS_MOST) return cn_err_set(CN_ERR_UNSUPPORTED, "more than %d marks around a text", CNI_MARKS_MOST);
  if (!cni_vocab_at(&t->vocab, id, &size))
    return cn_err_set(CN_ERR_IO, "a mark around texts has the number %lld, which no token has", (long long)id);
  (before ? t->before : t->after)[(*n)++] = id;
  return CN_OK;
}

static bool normalises(const cn_tokenizer *t) { return t->normal.n || t->cls->normalise; }

static void normalise(cn_text *out, const cn_tokenizer *t, const char *s, size_t n)
{
  if (t->normal.n) cni_steps_normalise(out, &t->normal, s, n);
  else t->cls->normalise(out, t, s, n);
}

int cni_tokenizer_add(cn_tokenizer *t, const char *s, size_t n, const cni_added *how)
{
  if (!n) return cn_err_set(CN_ERR_IO, "an added token is empty");
  if (cni_vocab_put(&t->vocab, s, n, how->id)) return cn_err();
  if (cn_grow((void **)&t->added, &t->added_cap, t->nadded + 1, sizeof *t->added)) return CN_ERR_MEMORY;
  cni_added a = *how;
  cn_text text = {0};
  if (a.normalised && normalises(t)) normalise(&text, t, s, n);
  else cn_text_put_bytes(&text, s, n);
  a.s = cn_text_take(&text);
  if (!a.s) return CN_ERR_MEMORY;
  a.n = strlen(a.s);
  t->added[t->nadded++] = a;
  t->vocab.v[a.id].special |= a.special;
  if (a.n) t->begins[a.normalised][(unsigned char)a.s[0]] = true;
  return CN_OK;
}

int64_t cn_tokenizer_size(const cn_tokenizer *t) { return t ? (int64_t)t->vocab.n : 0; }

int64_t cn_tokenizer_id(const cn_tokenizer *t, const char *token)
{
  return t && token ? cni_vocab_find(&t->vocab, token, strlen(token)) : -1;
}

const char *cn_tokenizer_token(const cn_tokenizer *t, int64_t id)
{
  size_t size;
  return t ? cni_vocab_at(&t->vocab, id, &size) : NULL;
}

/* ---- encoding ---- */

int cni_encoder_room(cni_encoder *e, int which, size_t need, size_t element)
{
  e->room_element[which] = element;
  return cn_grow(&e->room[which], &e->room_cap[which], need, element);
}

int cni_encode_word(cni_encoder *e, const char *s, size_t n, int (*fn)(cni_encoder *e, const char *s, size_t n))
{
  if (!e->words || n > CNI_WORD_BYTES) return fn(e, s, n);
  uint64_t part[4] = {0};
  memcpy(part, s, n); /* at most 30 of 32 bytes */
  part[3] ^= (uint64_t)n << 56;
  uint64_t h = 0;
  for (int i = 0; i < 4; i++) {
    h = (h ^ part[i]) * 0xff51afd7ed558ccdu;
    h ^= h >> 32;
  }
  cni_word *w = &e->words[(h ^ h >> 16) % CNI_WORDS];
  if (w->size == n && !memcmp(w->s, s, n)) {
    for (int i = 0; i < w->n; i++)
      if (cni_encoder_put(e, w->ids[i])) return CN_ERR_MEMORY;
    return CN_OK;
  }
  size_t from = e->n;
  int status = fn(e, s, n);
  if (status || e->n - from > CNI_WORD_IDS) return status;
  w->size = (uint8_t)n;
  w->n = (uint8_t)(e->n - from);
  memcpy(w->s, s, n);
  for (int i = 0; i < w->n; i++) w->ids[i] = (uint32_t)e->ids[from + (size_t)i];
  return CN_OK;
}

/* The longest added token at s; NULL: none. */
static const cni_added *added_at(const cn_tokenizer *t, bool normalised, const char *s, const char *end)
{
  const cni_added *best = NULL;
  for (size_t i = 0; i < t->nadded; i++) {
    const cni_added *a = &t->added[i];
    if (a->normalised == normalised && a->n && a->n <= (size_t)(end - s) && !memcmp(a->s, s, a->n) &&
        (!best || a->n > best->n))
      best = a;
  }
  return best;
}

static unsigned class_behind(const char *s, const char *end, size_t *n)
{
  uint32_t c;
  *n = s < end ? cn_utf8_read(&c, s, end) : 0;
  return *n ? cni_unicode_class(c) : 0;
}

static unsigned class_before(const char *begin, const char *s, size_t *n)
{
  const char *from = s;
  while (from > begin && s - from < 4 && ((unsigned char)*--from & 0xc0) == 0x80) continue;
  unsigned bits = class_behind(from, s, n);
  return *n == (size_t)(s - from) ? bits : 0;
}

/* Whether the token at [s, behind) stands alone, where it must. */
static bool stands(const cni_added *a, const char *begin, const char *s, const char *behind, const char *end)
{
  enum { WORD = CNI_LETTER | CNI_NUMBER | CNI_MARK };
  size_t n;
  if (!a->whole) return true;
  if ((class_before(begin, s, &n) & WORD) || (s > begin && s[-1] == '_')) return false;
  return !(class_behind(behind, end, &n) & WORD) && !(behind < end && *behind == '_');
}

static int encode_part(cni_encoder *e, bool normalised, bool first, const char *s, const char *end);

/* Text between added tokens: raw text is normalised and looked through again, normalised text is encoded. first: it
 * begins the whole text. */
static int encode_between(cni_encoder *e, bool normalised, bool first, const char *s, const char *end)
{
  if (s == end) return CN_OK;
  e->first = first;
  if (normalised) return e->t->cls->encode(e, s, (size_t)(end - s));
  if (!normalises(e->t)) return encode_part(e, true, first, s, end);
  cn_text text = {0};
  normalise(&text, e->t, s, (size_t)(end - s));
  int status = text.failed ? CN_ERR_MEMORY : text.n ? encode_part(e, true, first, text.s, text.s + text.n) : CN_OK;
  cn_text_free(&text);
  return status;
}

static int encode_part(cni_encoder *e, bool normalised, bool first, const char *begin, const char *end)
{
  const bool *begins = e->t->begins[normalised];
  const char *done = begin;
  size_t n;
  int status = CN_OK;
  for (const char *s = begin; e->t->nadded && s < end && !status;) {
    const cni_added *a = begins[(unsigned char)*s] ? added_at(e->t, normalised, s, end) : NULL;
    if (!a || !stands(a, begin, s, s + a->n, end)) {
      s += a ? a->n : 1;
      continue;
    }
    const char *from = s, *to = s + a->n;
    while (a->left && from > done && (class_before(done, from, &n) & CNI_SPACE)) from -= n;
    while (a->right && (class_behind(to, end, &n) & CNI_SPACE)) to += n;
    status = encode_between(e, normalised, first && done == begin, done, from);
    if (!status) status = cni_encoder_put(e, a->id);
    s = done = to;
  }
  return status ? status : encode_between(e, normalised, first && done == begin, done, end);
}

static int encode(cni_encoder *e, const char *text, size_t size, bool special)
{
  int status = CN_OK;
  for (size_t i = 0; special && i < e->t->nbefore && !status; i++) status = cni_encoder_put(e, e->t->before[i]);
  if (!status && size) status = encode_part(e, false, true, text, text + size);
  for (size_t i = 0; special && i < e->t->nafter && !status; i++) status = cni_encoder_put(e, e->t->after[i]);
  return status;
}

cn_tensor *cn_tokenizer_encode(cn_tokenizer *t, const char *text, size_t size, bool special)
{
  if (cn_err()) return NULL;
  if (!t || (!text && size)) {
    cn_err_set(CN_ERR_TYPE, "tokenizer_encode: there is no %s", t ? "text" : "tokenizer");
    return NULL;
  }
  bool held = t->words && !pthread_mutex_trylock(&t->lock);
  cni_encoder e = {.t = t, .words = held ? t->words : NULL};
  int status = encode(&e, text, size, special);
  if (held) pthread_mutex_unlock(&t->lock);
  cn_tensor *ids = NULL;
  static const int64_t none;
  if (!status) ids = cn_from_data(e.ids ? e.ids : &none, (int64_t[]){(int64_t)e.n}, 1, CN_I64);
  cn_free(e.ids, e.cap * sizeof *e.ids);
  for (int i = 0; i < 3; i++) cn_free(e.room[i], e.room_cap[i] * e.room_element[i]);
  return ids;
}

/* ---- decoding ---- */

/* All tokens at once, by the tokenizer's steps. */
static int decode_steps(cn_text *out, const cn_tokenizer *t, const int64_t *ids, size_t n, bool skip_special)
{
  cni_fragments tokens = {0};
  for (size_t i = 0; i < n; i++) {
    size_t size;
    const char *token = cni_vocab_at(&t->vocab, ids[i], &size);
    if (!token) {
      cni_fragments_free(&tokens);
      return cn_err_set(CN_ERR_INDEX, "tokenizer_decode: no token has the number %lld", (long long)ids[i]);
    }
    if (skip_special && t->vocab.v[ids[i]].special) continue;
    if (t->spaced && tokens.n) cn_text_put(&tokens.text, " ");
    cn_text_put_bytes(&tokens.text, token, size);
    cni_fragments_end(&tokens);
  }
  int status = tokens.n ? cni_steps_decode(&tokens, &t->decoders) : CN_OK;
  if (!status && tokens.text.n) cn_text_put_bytes(out, tokens.text.s, tokens.text.n);
  cni_fragments_free(&tokens);
  return status || out->failed ? CN_ERR_MEMORY : CN_OK;
}

static int decode(cn_text *out, const cn_tokenizer *t, const int64_t *ids, size_t n, bool skip_special)
{
  bool first = true;
  if (t->spaced || t->decoders.n) return decode_steps(out, t, ids, n, skip_special);
  for (size_t i = 0; i < n && !out->failed; i++) {
    size_t size;
    const char *token = cni_vocab_at(&t->vocab, ids[i], &size);
    if (!token) return cn_err_set(CN_ERR_INDEX, "tokenizer_decode: no token has the number %lld", (long long)ids[i]);
    if (skip_special && t->vocab.v[ids[i]].special) continue;
    if (t->cls->decode) t->cls->decode(out, t, token, size, first);
    else cn_text_put_bytes(out, token, size);
    first = false;
  }
  return out->failed ? CN_ERR_MEMORY : CN_OK;
}

/* The tensor's numbers in memory of their own, whatever its type and device. */
static int64_t *numbers(cn_tensor *tokens)
{
  size_t n = (size_t)cn_numel(tokens);
  int64_t *ids = cn_alloc(n * sizeof *ids);
  cn_scope *s = cn_scope_begin();
  cn_tensor *wide = ids ? cn_cast(tokens, CN_I64) : NULL;
  if (wide) cn_to_data(ids, n * sizeof *ids, wide);
  cn_scope_end(s);
  if (!cn_err()) return ids;
  cn_free(ids, n * sizeof *ids);
  return NULL;
}

static int decode_tensor(cn_text *out, const cn_tokenizer *t, cn_tensor *tokens, bool skip_special)
{
  if (cn_err()) return cn_err();
  if (!t || !tokens) return cn_err_set(CN_ERR_TYPE, "tokenizer_decode: there are no %s", t ? "tokens" : "tokenizer");
  if (!cn_dtype_is_int(cn_dtype_of(tokens)))
    return cn_err_set(CN_ERR_DTYPE, "tokenizer_decode: tokens are integers, not %s",
                      cn_dtype_name(cn_dtype_of(tokens)));
  size_t n = (size_t)cn_numel(tokens);
  int64_t *ids = numbers(tokens);
  if (!ids) return cn_err();
  int status = decode(out, t, ids, n, skip_special);
  cn_free(ids, n * sizeof *ids);
  return status;
}

char *cn_tokenizer_decode(cn_tokenizer *t, cn_tensor *tokens, bool skip_special)
{
  cn_text out = {0}, whole = {0};
  if (decode_tensor(&out, t, tokens, skip_special)) {
    cn_text_free(&out);
    return NULL;
  }
  if (!out.n || strlen(out.s) == out.n) return cn_text_take(&out);
  for (size_t i = 0; i < out.n; i += strlen(out.s + i) + 1) { /* a C string cannot hold zeros */
    if (i) cn_text_put(&whole, "\xef\xbf\xbd");
    cn_text_put(&whole, out.s + i);
  }
  if (!out.s[out.n - 1]) cn_text_put(&whole, "\xef\xbf\xbd");
  cn_text_free(&out);
  return cn_text_take(&whole);
}

int cn_tokenizer_decode_bytes(void **bytes, size_t *size, cn_tokenizer *t, cn_tensor *tokens, bool skip_special)
{
  cn_text out = {0};
  *bytes = NULL;
  *size = 0;
  int status = decode_tensor(&out, t, tokens, skip_special);
  if (!status && !(*bytes = cn_alloc(out.n))) status = CN_ERR_MEMORY;
  if (!status) {
    *size = out.n;
    if (out.n) memcpy(*bytes, out.s, out.n);
  }
  cn_text_free(&out);
  return status;
}

/* ---- bytes ---- */

static int bytes_encode(cni_encoder *e, const char *s, size_t n)
{
  if (cn_grow((void **)&e->ids, &e->cap, e->n + n, sizeof *e->ids)) return CN_ERR_MEMORY;
  for (size_t i = 0; i < n; i++) e->ids[e->n++] = (unsigned char)s[i];
  return CN_OK;
}

cn_tokenizer *cn_tokenizer_bytes(void)
{
  static const cni_text_class bytes = {.name = "bytes", .encode = bytes_encode};
  cn_tokenizer *t = cn_err() ? NULL : cni_tokenizer_new(&bytes, NULL, false);
  for (int i = 0; t && i < 256; i++)
    if (cni_vocab_put(&t->vocab, &(char){(char)i}, 1, i)) {
      cn_tokenizer_free(t);
      return NULL;
    }
  return t;
}

/* ---- characters ---- */

static int chars_encode(cni_encoder *e, const char *s, size_t n)
{
  for (const char *end = s + n, *at = s; at < end;) {
    uint32_t c;
    size_t size = cn_utf8_read(&c, at, end);
    int64_t id = size ? cni_vocab_find(&e->t->vocab, at, size) : -1;
    if (id < 0)
      return cn_err_set(CN_ERR_VALUE, "tokenizer_encode: the %s at byte %zu, U+%04X, is not in the vocabulary",
                        size ? "character" : "byte (no UTF-8)", (size_t)(at - s), (unsigned)c);
    if (cni_encoder_put(e, id)) return CN_ERR_MEMORY;
    at += size;
  }
  return CN_OK;
}

/* Sets a bit for each character of the text. */
static int mark_chars(unsigned char *seen, const char *text, size_t size)
{
  for (size_t i = 0; i < size;) {
    uint32_t c;
    size_t n = cn_utf8_read(&c, text + i, text + size);
    if (!n) return cn_err_set(CN_ERR_VALUE, "tokenizer_chars: byte %zu of the text is no UTF-8", i);
    seen[c / 8] = (unsigned char)(seen[c / 8] | 1u << c % 8);
    i += n;
  }
  return CN_OK;
}

cn_tokenizer *cn_tokenizer_chars(const char *text, size_t size)
{
  static const cni_text_class chars = {.name = "chars", .encode = chars_encode};
  enum { CHARACTERS = 0x110000 };
  unsigned char *seen = cn_err() ? NULL : cn_alloc_zero(CHARACTERS / 8);
  cn_tokenizer *t = seen && !mark_chars(seen, text, size) ? cni_tokenizer_new(&chars, NULL, false) : NULL;
  int64_t id = 0;
  for (uint32_t c = 0; t && c < CHARACTERS; c++) {
    char s[4];
    if (!(seen[c / 8] >> c % 8 & 1) || !cni_vocab_put(&t->vocab, s, cn_utf8_write(s, c), id++)) continue;
    cn_tokenizer_free(t);
    t = NULL;
  }
  cn_free(seen, CHARACTERS / 8);
  return t;
}

/* ---- whole words ---- */

static int wordlevel_word(cni_encoder *e, const char *s, size_t n)
{
  int64_t id = cni_vocab_find(&e->t->vocab, s, n);
  if (id < 0) id = *(const int64_t *)e->t->model;
  if (id < 0)
    return cn_err_set(CN_ERR_VALUE, "tokenizer_encode: there is no token for \"%.*s\", nor one for unknown words",
                      (int)(n < 60 ? n : 60), s);
  return cni_encoder_put(e, id);
}

static void wordlevel_free(void *model) { cn_free(model, sizeof(int64_t)); }

cn_tokenizer *cni_wordlevel_new(void)
{
  static const cni_text_class words = {
    .name = "words", .encode = cni_encode_pieces, .free = wordlevel_free, .word = wordlevel_word};
  int64_t *unknown = cn_alloc(sizeof *unknown);
  if (!unknown) return NULL;
  *unknown = -1;
  return cni_tokenizer_new(&words, unknown, false);
}

void cni_wordlevel_unknown(cn_tokenizer *t, int64_t id) { *(int64_t *)t->model = id; }
