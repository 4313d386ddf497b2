/* tokenizer_bpe.c: byte-level byte-pair encoding as GPT-2 and LLaMA 3 have it. See tokenizer.h and data.h.
 *
 * A text is cut into words by the model's expression, each byte of a word is a token, and the pair of neighbours that
 * comes first in the list of merges becomes one token until none is left. Vocabularies write bytes as printable
 * characters (a space as U+0120), so that their files are text.
 *
 * Invariant: whatever the bytes are, encoding takes time n log n, and decoding gives back the bytes of every token. */
#include <string.h>

#include "tokenizer.h"
#include "unicode.h"

typedef struct merge {
  uint32_t left, right; /* NOTHING: an empty slot */
  uint32_t rank, id;
} merge;

typedef struct bpe {
  merge *merges; /* by the hash of the pair; 2^k slots, at least half of them empty */
  size_t slots;
  uint32_t count, most;
  uint32_t byte_ids[256]; /* NOTHING: no token. Of <0xE4> where it is of characters */
  uint32_t unknown;
  char byte_text[256][2]; /* the character that stands for it, in UTF-8 */
  uint8_t byte_size[256];
  cni_bpe how;
} bpe;

#define NOTHING UINT32_MAX

/* ---- bytes as characters ---- */

/* Bytes that are printable characters of Latin-1 stand for themselves; the others are U+0100, U+0101 ... in order. */
static bool stands_for_itself(unsigned b) { return (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae; }

uint32_t cni_char_of_byte(unsigned byte)
{
  uint32_t other = 0x100;
  if (stands_for_itself(byte)) return byte;
  for (unsigned b = 0; b < byte; b++) other += !stands_for_itself(b);
  return other;
}

enum { BYTE_CHARS = 0x144 }; /* characters that stand for bytes are below */

/* -1: this character stands for no byte. */
static int byte_of_char(uint32_t c)
{
  if (c < 0x100) return stands_for_itself(c) ? (int)c : -1;
  if (c >= BYTE_CHARS) return -1;
  c -= 0x100;
  return c < 33 ? (int)c : c < 67 ? (int)c - 33 + 127 : 0xad;
}

/* ---- making ---- */

static void bpe_free(void *model)
{
  bpe *m = model;
  cn_free(m->merges, m->slots * sizeof *m->merges);
  cn_free(m, sizeof *m);
}

static size_t pair_slot(const bpe *m, uint32_t left, uint32_t right)
{
  uint64_t h = ((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15u;
  size_t at = (size_t)(h >> 32) & (m->slots - 1);
  while (m->merges[at].right != NOTHING && (m->merges[at].left != left || m->merges[at].right != right))
    at = (at + 1) & (m->slots - 1);
  return at;
}

static int bpe_encode(cni_encoder *e, const char *s, size_t n);
static int encode_chars(cni_encoder *e, const char *s, size_t n);
static void bpe_decode(cn_text *out, const cn_tokenizer *t, const char *token, size_t n, bool first);

cn_tokenizer *cni_bpe_new(const cni_bpe *how, size_t most_merges)
{
  static const cni_text_class bytes = {"bpe", NULL, bpe_encode, bpe_decode, bpe_free, NULL};
  static const cni_text_class chars = {
    .name = "bpe", .encode = cni_encode_pieces, .free = bpe_free, .word = encode_chars};
  if (most_merges > CNI_MOST_TOKENS) {
    cn_err_set(CN_ERR_IO, "%zu merges; at most %d are read", most_merges, CNI_MOST_TOKENS);
    return NULL;
  }
  bpe *m = cn_alloc_zero(sizeof *m);
  if (!m) return NULL;
  m->how = *how;
  m->unknown = NOTHING;
  m->most = (uint32_t)most_merges;
  size_t slots = 64;
  while (slots < 2 * most_merges + 2) slots *= 2;
  m->merges = cn_alloc(slots * sizeof *m->merges);
  if (!m->merges) {
    bpe_free(m);
    return NULL;
  }
  m->slots = slots;
  memset(m->merges, 0xff, slots * sizeof *m->merges);
  return cni_tokenizer_new(how->chars ? &chars : &bytes, m, true);
}

int cni_bpe_merge(cn_tokenizer *t, const char *a, size_t a_size, const char *b, size_t b_size)
{
  bpe *m = t->model;
  cn_text both = {0};
  size_t marks = strlen(m->how.prefix); /* the second loses its own */
  if (marks > b_size) marks = b_size;
  cn_text_put_bytes(&both, a, a_size);
  cn_text_put_bytes(&both, b + marks, b_size - marks);
  if (both.failed) {
    cn_text_free(&both);
    return CN_ERR_MEMORY;
  }
  int64_t left = cni_vocab_find(&t->vocab, a, a_size), right = cni_vocab_find(&t->vocab, b, b_size);
  int64_t id = cni_vocab_find(&t->vocab, both.s, both.n);
  cn_text_free(&both);
  if (left < 0 || right < 0 || id < 0 || m->count == m->most)
    return cn_err_set(CN_ERR_IO, "merge %u, \"%.*s\" and \"%.*s\": the vocabulary does not have %s",
                      (unsigned)m->count + 1, (int)(a_size < 60 ? a_size : 60), a, (int)(b_size < 60 ? b_size : 60),
                      b,
                      left < 0    ? "the first"
                      : right < 0 ? "the second"
                                  : "the two together");
  m->merges[pair_slot(m, (uint32_t)left, (uint32_t)right)] =
      (merge){(uint32_t)left, (uint32_t)right, m->count++, (uint32_t)id};
  return CN_OK;
}

void cni_bpe_unknown(cn_tokenizer *t, int64_t id) { ((bpe *)t->model)->unknown = (uint32_t)id; }

void cni_bpe_ready(cn_tokenizer *t)
{
  bpe *m = t->model;
  for (unsigned b = 0; b < 256; b++) {
    char s[8];
    if (m->how.chars) {
      int64_t id = m->how.fallback ? cni_vocab_find(&t->vocab, s, cni_token_of_byte(s, b)) : -1;
      m->byte_ids[b] = id < 0 ? NOTHING : (uint32_t)id;
      continue;
    }
    size_t n = cn_utf8_write(s, cni_char_of_byte(b));
    int64_t id = cni_vocab_find(&t->vocab, s, n);
    m->byte_ids[b] = id < 0 ? m->unknown : (uint32_t)id;
    memcpy(m->byte_text[b], s, 2); /* of two bytes at most */
    m->byte_size[b] = (uint8_t)n;
  }
}

/* ---- words ---- */

/* Letter, number, space or (0) anything else; *n: bytes of the character. What is no UTF-8 goes byte by byte. */
static inline unsigned kind_at(size_t *n, const char *s, const char *end)
{
  enum { KINDS = CNI_LETTER | CNI_NUMBER | CNI_SPACE };
  uint32_t c;
  *n = 1;
  if ((unsigned char)*s < 0x80) return cni_ascii_class[(unsigned char)*s] & KINDS;
  size_t size = cn_utf8_read(&c, s, end);
  if (!size) return 0;
  *n = size;
  return cni_unicode_class(c) & KINDS;
}

/* Bytes of 's 't 're 've 'm 'll 'd at s; 0: none of them. */
static size_t contraction(const char *s, const char *end)
{
  if (*s != '\'' || end - s < 2) return 0;
  if (s[1] == 's' || s[1] == 't' || s[1] == 'm' || s[1] == 'd') return 2;
  if (end - s < 3) return 0;
  if ((s[1] == 'r' || s[1] == 'v') && s[2] == 'e') return 3;
  return s[1] == 'l' && s[2] == 'l' ? 3 : 0;
}

/* Bytes of white space at s: all of it, or all but the last where a word follows: \s+(?!\S)|\s+ */
static size_t space_size(const char *s, const char *end)
{
  const char *last = s, *p = s;
  for (size_t n; p < end && kind_at(&n, p, end) == CNI_SPACE; p += n) last = p;
  return (size_t)((p == end || last == s ? p : last) - s);
}

/* Behind all characters of one kind from p on. */
static const char *behind_kind(const char *p, const char *end, unsigned kind)
{
  for (size_t n; p < end && kind_at(&n, p, end) == kind;) p += n;
  return p;
}

/* Bytes of the first word of a text, by GPT-2:
 *   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
static size_t gpt2_word(const char *s, const char *end)
{
  size_t n = contraction(s, end);
  if (n) return n;
  const char *p = s;
  unsigned kind = kind_at(&n, p, end);
  if (*s == ' ' && s + 1 < end) { /* one space goes with what is behind it */
    kind = kind_at(&n, s + 1, end);
    p = s + 1;
  }
  if (kind == CNI_SPACE) return space_size(s, end);
  return (size_t)(behind_kind(p + n, end, kind) - s);
}

static bool is_line_end(char c) { return c == '\r' || c == '\n'; }

/* The same in capitals too, and with a long s. */
static size_t any_contraction(const char *s, const char *end)
{
  char small[3] = {*s};
  if (*s != '\'') return 0;
  if (end - s > 2 && s[1] == '\xc5' && s[2] == '\xbf') return 3;
  for (int i = 1; i < 3 && i < end - s; i++) small[i] = s[i] >= 'A' && s[i] <= 'Z' ? (char)(s[i] + 32) : s[i];
  return contraction(small, small + (end - s < 3 ? end - s : 3));
}

/* By LLaMA 3, where `digits` is 3:
 *   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|
 *   \s+(?!\S)|\s+ */
static size_t llama3_word(const char *s, const char *end, int digits)
{
  size_t n = any_contraction(s, end), next;
  if (n) return n;
  unsigned kind = kind_at(&n, s, end), then = s + n < end ? kind_at(&next, s + n, end) : CNI_SPACE;
  if (kind == CNI_LETTER || (kind != CNI_NUMBER && !is_line_end(*s) && then == CNI_LETTER))
    return (size_t)(behind_kind(s + n, end, CNI_LETTER) - s);
  const char *p = s + n;
  if (kind == CNI_NUMBER) {
    for (int i = 1; i < digits && p < end && kind_at(&n, p, end) == CNI_NUMBER; i++) p += n;
    return (size_t)(p - s);
  }
  if (kind == 0 || (*s == ' ' && then == 0)) {
    p = behind_kind(p, end, 0);
    while (p < end && is_line_end(*p)) p++;
    return (size_t)(p - s);
  }
  const char *stop = behind_kind(s, end, CNI_SPACE);
  for (p = stop; p > s; p--)
    if (is_line_end(p[-1])) return (size_t)(p - s);
  return space_size(s, end);
}

size_t cni_gpt2_word(const char *s, const char *end, int digits)
{
  return digits ? llama3_word(s, end, digits) : gpt2_word(s, end);
}

/* ---- merging ---- */

/* A token of the word that is being merged, in a list by index. */
typedef struct symbol {
  uint32_t id;             /* NOTHING: merged into the one before */
  uint32_t before, behind; /* NOTHING: none */
} symbol;

/* A merge that may be done: smaller keys (rank, then place) first. */
typedef struct candidate {
  uint64_t key;
  uint32_t id; /* that it makes; another one is made there now: this candidate is out of date */
} candidate;

static void sift_down(candidate *heap, size_t n, size_t at)
{
  candidate moved = heap[at];
  for (size_t child; (child = 2 * at + 1) < n; at = child) {
    if (child + 1 < n && heap[child + 1].key < heap[child].key) child++;
    if (moved.key <= heap[child].key) break;
    heap[at] = heap[child];
  }
  heap[at] = moved;
}

static void push(candidate *heap, size_t *n, candidate c)
{
  size_t at = (*n)++;
  for (; at && c.key < heap[(at - 1) / 2].key; at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
  heap[at] = c;
}

/* Whether the token at `left` and the one behind it merge. */
static bool may_merge(candidate *c, const bpe *m, const symbol *v, uint32_t left)
{
  if (left == NOTHING || v[left].behind == NOTHING) return false;
  const merge *found = &m->merges[pair_slot(m, v[left].id, v[v[left].behind].id)];
  if (found->right == NOTHING) return false;
  *c = (candidate){(uint64_t)found->rank << 32 | left, found->id};
  return true;
}

static void merge_all(symbol *v, uint32_t n, candidate *heap, const bpe *m)
{
  size_t waiting = 0;
  candidate c, now;
  for (uint32_t i = 0; i + 1 < n; i++)
    if (may_merge(&c, m, v, i)) heap[waiting++] = c;
  for (size_t i = waiting / 2; i-- > 0;) sift_down(heap, waiting, i);
  while (waiting) {
    c = heap[0];
    heap[0] = heap[--waiting];
    if (waiting) sift_down(heap, waiting, 0);
    uint32_t left = (uint32_t)c.key, right = v[left].behind;
    if (v[left].id == NOTHING || !may_merge(&now, m, v, left) || now.id != c.id) continue;
    v[left].id = c.id;
    v[left].behind = v[right].behind;
    v[right].id = NOTHING;
    if (v[left].behind != NOTHING) v[v[left].behind].before = left;
    /* Each merge takes one candidate out and puts two in at most: three times n is room enough. */
    if (may_merge(&now, m, v, v[left].before)) push(heap, &waiting, now);
    if (may_merge(&now, m, v, left)) push(heap, &waiting, now);
  }
}

/* The token that a word is as a whole; -1: none. */
static int64_t whole_word(cni_encoder *e, const char *s, size_t n)
{
  const bpe *m = e->t->model;
  size_t used = 0;
  if (n > e->t->vocab.longest || cni_encoder_room(e, 2, 2 * n, 1)) return -1;
  char *text = e->room[2];
  for (size_t i = 0; i < n; i++) {
    unsigned char b = (unsigned char)s[i];
    memcpy(text + used, m->byte_text[b], m->byte_size[b]);
    used += m->byte_size[b];
  }
  return cni_vocab_find(&e->t->vocab, text, used);
}

static void put_symbol(symbol *v, uint32_t *count, uint32_t id)
{
  v[*count] = (symbol){id, *count - 1, *count + 1}; /* 0 - 1 is NOTHING */
  ++*count;
}

/* Merges the symbols in room 0 and puts what is left. */
static int put_merged(cni_encoder *e, uint32_t count)
{
  symbol *v = e->room[0];
  if (!count) return CN_OK;
  v[count - 1].behind = NOTHING;
  if (count > 1) merge_all(v, count, e->room[1], e->t->model);
  for (uint32_t i = 0; i != NOTHING; i = v[i].behind)
    if (cni_encoder_put(e, v[i].id)) return CN_ERR_MEMORY;
  return CN_OK;
}

static int encode_word(cni_encoder *e, const char *s, size_t n)
{
  const bpe *m = e->t->model;
  int64_t whole = m->how.whole_words ? whole_word(e, s, n) : -1;
  if (whole >= 0) return cni_encoder_put(e, whole);
  if (cn_err()) return cn_err();
  if (n >= UINT32_MAX / 4) return cn_err_set(CN_ERR_VALUE, "tokenizer_encode: a word of %zu bytes", n);
  if (cni_encoder_room(e, 0, n, sizeof(symbol)) || cni_encoder_room(e, 1, 3 * n, sizeof(candidate)))
    return CN_ERR_MEMORY;
  uint32_t count = 0;
  for (size_t i = 0; i < n; i++) {
    uint32_t id = m->byte_ids[(unsigned char)s[i]];
    if (id != NOTHING) put_symbol(e->room[0], &count, id);
  }
  return put_merged(e, count);
}

/* ---- of characters ---- */

/* A character's token, with the marks of its place in the word; -1: none. */
static int64_t char_id(cni_encoder *e, const char *s, size_t size, bool first, bool last)
{
  const bpe *m = e->t->model;
  char text[4 + 2 * sizeof m->how.prefix];
  size_t before = first ? 0 : strlen(m->how.prefix), behind = last ? strlen(m->how.suffix) : 0;
  if (!before && !behind) return cni_vocab_find(&e->t->vocab, s, size);
  memcpy(text, m->how.prefix, before);
  memcpy(text + before, s, size);
  memcpy(text + before + size, m->how.suffix, behind);
  return cni_vocab_find(&e->t->vocab, text, before + size + behind);
}

/* The tokens of a character's bytes, where all of them have some. */
static bool put_bytes(symbol *v, uint32_t *count, const bpe *m, const char *s, size_t size)
{
  for (size_t i = 0; i < size; i++)
    if (m->byte_ids[(unsigned char)s[i]] == NOTHING) return false;
  for (size_t i = 0; i < size; i++) put_symbol(v, count, m->byte_ids[(unsigned char)s[i]]);
  return true;
}

static int encode_chars(cni_encoder *e, const char *s, size_t n)
{
  const bpe *m = e->t->model;
  int64_t whole = m->how.whole_words ? cni_vocab_find(&e->t->vocab, s, n) : -1;
  if (whole >= 0) return cni_encoder_put(e, whole);
  if (n >= UINT32_MAX / 4) return cn_err_set(CN_ERR_VALUE, "tokenizer_encode: a word of %zu bytes", n);
  if (cni_encoder_room(e, 0, n, sizeof(symbol)) || cni_encoder_room(e, 1, 3 * n, sizeof(candidate)))
    return CN_ERR_MEMORY;
  symbol *v = e->room[0];
  uint32_t count = 0;
  bool unknown = false; /* such a token is still to be put */
  for (const char *p = s, *end = s + n; p < end;) {
    uint32_t c;
    size_t size = cn_utf8_read(&c, p, end);
    if (!size) size = 1;
    int64_t id = char_id(e, p, size, p == s, p + size == end);
    if (id >= 0) {
      if (unknown) put_symbol(v, &count, m->unknown);
      unknown = false;
      put_symbol(v, &count, (uint32_t)id);
    } else if (!(m->how.fallback && put_bytes(v, &count, m, p, size)) && m->unknown != NOTHING) {
      if (unknown && !m->how.fuse) put_symbol(v, &count, m->unknown);
      unknown = true;
    }
    p += size;
  }
  if (unknown) put_symbol(v, &count, m->unknown);
  return put_merged(e, count);
}

/* ---- texts ---- */

static int encode_words(cni_encoder *e, const char *s, const char *end)
{
  int digits = ((const bpe *)e->t->model)->how.digits;
  while (s < end) {
    size_t n = cni_gpt2_word(s, end, digits);
    int status = cni_encode_word(e, s, n, encode_word);
    if (status) return status;
    s += n;
  }
  return CN_OK;
}

static int bpe_encode(cni_encoder *e, const char *s, size_t n)
{
  const bpe *m = e->t->model;
  if (!m->how.prefix_space || s[0] == ' ') return encode_words(e, s, s + n);
  cn_text text = {0};
  cn_text_put(&text, " ");
  cn_text_put_bytes(&text, s, n);
  int status = text.failed ? CN_ERR_MEMORY : encode_words(e, text.s, text.s + text.n);
  cn_text_free(&text);
  return status;
}

/* A token whose characters do not all stand for bytes is one of the added ones: it is text as it is. */
void cni_bpe_decode(cn_text *out, const char *token, size_t n)
{
  char bytes[64];
  size_t used = 0, from = out->n;
  for (const char *s = token, *end = token + n; s < end;) {
    uint32_t c;
    size_t size = cn_utf8_read(&c, s, end);
    int b = size ? byte_of_char(c) : -1;
    if (b < 0) {
      if (out->s) out->n = from;
      cn_text_put_bytes(out, token, n);
      return;
    }
    bytes[used++] = (char)b;
    s += size;
    if (used == sizeof bytes || s == end) cn_text_put_bytes(out, bytes, used), used = 0;
  }
}

static void bpe_decode(cn_text *out, const cn_tokenizer *t, const char *token, size_t n, bool first)
{
  (void)t, (void)first;
  cni_bpe_decode(out, token, n);
}

/* ---- files ---- */

static int read_merges(cn_tokenizer *t, const char *s, const char *end)
{
  for (long line = 1; s < end; line++) {
    const char *stop = memchr(s, '\n', (size_t)(end - s));
    const char *next = stop ? stop + 1 : end;
    if (!stop) stop = end;
    if (stop > s && stop[-1] == '\r') stop--;
    const char *space = memchr(s, ' ', (size_t)(stop - s));
    bool head = stop - s >= 8 && !memcmp(s, "#version", 8);
    if (stop > s && !head) {
      if (!space || space == s || space + 1 == stop || memchr(space + 1, ' ', (size_t)(stop - space - 1)))
        return cn_err_set(CN_ERR_IO, "line %ld of the merges is not two tokens", line);
      int status = cni_bpe_merge(t, s, (size_t)(space - s), space + 1, (size_t)(stop - space - 1));
      if (status) return status;
    }
    s = next;
  }
  return CN_OK;
}

cn_tokenizer *cni_bpe_read(const char *vocab, size_t vocab_size, const char *merges, size_t merges_size)
{
  static const char end_of_text[] = "<|endoftext|>";
  size_t lines = 1;
  for (const char *p = merges, *end = merges + merges_size; p < end && (p = memchr(p, '\n', (size_t)(end - p))); p++)
    lines++;
  cn_tree *tree = cn_tree_from_json(vocab, vocab_size);
  cn_tokenizer *t = tree ? cni_bpe_new(&(cni_bpe){0}, lines) : NULL;
  int status = t ? cni_vocab_put_tree(&t->vocab, tree) : cn_err();
  cn_tree_free(tree);
  if (!status) status = read_merges(t, merges, merges + merges_size);
  int64_t special = status ? -1 : cni_vocab_find(&t->vocab, end_of_text, sizeof end_of_text - 1);
  if (special >= 0)
    status = cni_tokenizer_add(t, end_of_text, sizeof end_of_text - 1, &(cni_added){.id = special, .special = true});
  if (status) {
    cn_tokenizer_free(t);
    return NULL;
  }
  cni_bpe_ready(t);
  return t;
}
