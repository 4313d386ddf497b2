/* tokenizer_wordpiece.c: WordPiece as BERT has it. See tokenizer.h and data.h.
 *
 * A text is cleaned (control characters go, white space becomes spaces, Chinese characters stand alone, accents and
 * capitals go), cut at spaces and around punctuation, and each word is made of the longest pieces of the vocabulary,
 * from left to right; a word that cannot be is unknown as a whole.
 *
 * Invariant: normalised text is well-formed UTF-8. */
#include <string.h>

#include "tokenizer.h"
#include "unicode.h"

/* ---- normalising ---- */

enum { CHUNK = 256, MARKS = 32 };

/* Text on its way out. Marks that stay are put in order within their run (Unicode's canonical order). */
typedef struct writer {
  cn_text *out;
  const cni_wordpiece *how;
  size_t used, marks;
  char chunk[CHUNK];
  struct {
    uint32_t c;
    unsigned order;
  } run[MARKS];
} writer;

static void flush(writer *w)
{
  cn_text_put_bytes(w->out, w->chunk, w->used);
  w->used = 0;
}

static void put_char(writer *w, uint32_t c)
{
  if (w->used > CHUNK - 8) flush(w);
  if (w->how->lower && c == 0x130) { /* the one whose small form is two characters */
    w->chunk[w->used++] = 'i';
    c = 0x307;
  } else if (w->how->lower) c = cni_unicode_lower(c);
  w->used += cn_utf8_write(w->chunk + w->used, c);
}

static void end_run(writer *w)
{
  for (size_t i = 0; i < w->marks; i++) put_char(w, w->run[i].c);
  w->marks = 0;
}

/* A character that stays. */
static void put_in_order(writer *w, uint32_t c)
{
  unsigned order = cni_unicode_order(c);
  if (!order || w->marks == MARKS) end_run(w);
  if (!order) {
    put_char(w, c);
    return;
  }
  size_t at = w->marks++;
  for (; at && w->run[at - 1].order > order; at--) w->run[at] = w->run[at - 1];
  w->run[at].c = c;
  w->run[at].order = order;
}

static void put_stripped(writer *w, uint32_t c, unsigned bits)
{
  uint32_t base[CNI_BASE_MOST];
  size_t n = cni_unicode_base(base, c);
  if (!n && (bits & CNI_STARTER)) end_run(w);
  for (size_t i = 0; i < n; i++) put_in_order(w, base[i]);
}

void cni_wordpiece_normalise(cn_text *out, const cni_wordpiece *how, const char *s, size_t n)
{
  writer w = {.out = out, .how = how};
  for (const char *end = s + n; s < end;) {
    uint32_t c;
    size_t size = cn_utf8_read(&c, s, end);
    s += size ? size : 1;
    if (!size) c = CNI_REPLACEMENT;
    unsigned bits = cni_unicode_class(c);
    if (w.how->clean) {
      bool line = c == '\t' || c == '\n' || c == '\r';
      if (c == CNI_REPLACEMENT || ((bits & CNI_CONTROL) && !line)) continue;
      if (bits & CNI_SPACE) c = ' ', bits = CNI_SPACE;
    }
    bool alone = w.how->chinese && (bits & CNI_CJK);
    if (alone) end_run(&w), put_char(&w, ' ');
    if (!w.how->strip || c < 0x80) end_run(&w), put_char(&w, c);
    else put_stripped(&w, c, bits);
    if (alone) end_run(&w), put_char(&w, ' ');
  }
  end_run(&w);
  flush(&w);
}

static void normalise(cn_text *out, const cn_tokenizer *t, const char *s, size_t n)
{
  cni_wordpiece_normalise(out, t->model, s, n);
}

/* ---- pieces ---- */

static size_t count_chars(const char *s, size_t n)
{
  size_t count = 0;
  for (size_t i = 0; i < n; i++) count += ((unsigned char)s[i] & 0xc0) != 0x80;
  return count;
}

static int encode_word(cni_encoder *e, const char *s, size_t n)
{
  const cni_wordpiece *m = e->t->model;
  size_t prefix = strlen(m->prefix), from = e->n;
  if (n > m->most && count_chars(s, n) > m->most) return cni_encoder_put(e, m->unknown);
  if (cni_encoder_room(e, 0, prefix + n, 1)) return CN_ERR_MEMORY;
  char *word = e->room[0]; /* room for the prefix, and the word; what is done may be overwritten */
  memcpy(word + prefix, s, n);
  for (size_t begin = 0, end; begin < n; begin = end) {
    const char *piece = begin ? memcpy(word + begin, m->prefix, prefix) : word + prefix;
    size_t extra = begin ? prefix : 0, most = e->t->vocab.longest;
    int64_t id = -1;
    for (end = n - begin + extra > most ? begin + most - (extra < most ? extra : most) : n; end > begin; end--) {
      if (end < n && ((unsigned char)s[end] & 0xc0) == 0x80) continue; /* not within a character */
      id = cni_vocab_find(&e->t->vocab, piece, end - begin + extra);
      if (id >= 0) break;
    }
    if (id < 0) {
      e->n = from;
      return cni_encoder_put(e, m->unknown);
    }
    if (cni_encoder_put(e, id)) return CN_ERR_MEMORY;
  }
  return CN_OK;
}

/* Cuts at white space, which goes, and around each punctuation mark. */
static int encode(cni_encoder *e, const char *s, size_t n)
{
  const char *end = s + n, *word = s;
  while (s < end) {
    uint32_t c;
    size_t size = cn_utf8_read(&c, s, end);
    unsigned bits = size ? cni_unicode_class(c) & (CNI_SPACE | CNI_PUNCTUATION) : 0;
    size += !size;
    if (bits) {
      int status = s > word ? cni_encode_word(e, word, (size_t)(s - word), encode_word) : CN_OK;
      if (!status && !(bits & CNI_SPACE)) status = cni_encode_word(e, s, size, encode_word);
      if (status) return status;
      word = s + size;
    }
    s += size;
  }
  return s > word ? cni_encode_word(e, word, (size_t)(s - word), encode_word) : CN_OK;
}

/* ---- decoding ---- */

/* Replaces `from` by the shorter or equally long `to` throughout s. */
static void replace(char *s, const char *from, const char *to)
{
  size_t f = strlen(from), t = strlen(to);
  char *out = s;
  while (*s) {
    if (strncmp(s, from, f)) *out++ = *s++;
    else memcpy(out, to, t), out += t, s += f;
  }
  *out = 0;
}

/* What BERT's decoder does to each token and the space before it. */
static void clean_up(char *s)
{
  const char *space = strchr(s, ' ');
  while (space && (!space[1] || !strchr(".?!,'nd", space[1]))) space = strchr(space + 1, ' ');
  if (!space) return; /* no rule begins like that */
  static const char *const rules[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                         {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                         {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) replace(s, rules[i][0], rules[i][1]);
}

void cni_wordpiece_clean_up(cn_text *text)
{
  if (text->failed || !text->n) return;
  clean_up(text->s);
  text->n = strlen(text->s);
}

void cni_wordpiece_decode(cn_text *out, const char *prefix, bool cleanup, const char *token, size_t n, bool first)
{
  size_t size = strlen(prefix), from = out->n;
  bool joins = !first && size && n >= size && !memcmp(token, prefix, size);
  if (!first && !joins) cn_text_put(out, " ");
  cn_text_put_bytes(out, token + (joins ? size : 0), n - (joins ? size : 0));
  if (!cleanup || out->failed || out->n == from) return;
  clean_up(out->s + from);
  out->n = from + strlen(out->s + from);
}

static void decode(cn_text *out, const cn_tokenizer *t, const char *token, size_t n, bool first)
{
  const cni_wordpiece *m = t->model;
  cni_wordpiece_decode(out, m->join ? m->prefix : "", m->cleanup, token, n, first);
}

/* ---- making ---- */

static void wordpiece_free(void *model) { cn_free(model, sizeof(cni_wordpiece)); }

cn_tokenizer *cni_wordpiece_new(const cni_wordpiece *how, bool by_steps)
{
  static const cni_text_class bert = {"wordpiece", normalise, encode, decode, wordpiece_free, NULL};
  static const cni_text_class stepped = {
    .name = "wordpiece", .encode = cni_encode_pieces, .free = wordpiece_free, .word = encode_word};
  cni_wordpiece *m = cn_alloc(sizeof *m);
  if (!m) return NULL;
  *m = *how;
  return cni_tokenizer_new(by_steps ? &stepped : &bert, m, true);
}

/* A token a line; its number is the line's, from 0. */
static int read_lines(cni_vocab *vocab, const char *s, const char *end)
{
  int status = CN_OK;
  for (int64_t id = 0; s < end && !status; id++) {
    const char *stop = memchr(s, '\n', (size_t)(end - s));
    const char *next = stop ? stop + 1 : end;
    if (!stop) stop = end;
    while (stop > s && stop[-1] == '\r') stop--;
    status = cni_vocab_put(vocab, s, (size_t)(stop - s), id);
    s = next;
  }
  return status;
}

cn_tokenizer *cni_wordpiece_read(const char *text, size_t size, bool lower)
{
  static const char *const special[] = {"[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"};
  cni_wordpiece how = {.clean = true,
                       .chinese = true,
                       .strip = lower,
                       .lower = lower,
                       .join = true,
                       .cleanup = true,
                       .most = 100,
                       .prefix = "##"};
  cn_tokenizer *t = cni_wordpiece_new(&how, false);
  int status = t ? read_lines(&t->vocab, text, text + size) : cn_err();
  for (size_t i = 0; i < sizeof special / sizeof *special && !status; i++) {
    int64_t id = cn_tokenizer_id(t, special[i]);
    if (id >= 0)
      status = cni_tokenizer_add(t, special[i], strlen(special[i]), &(cni_added){.id = id, .special = true});
    if (!status && id >= 0 && (i == 1 || i == 2)) status = cni_tokenizer_mark(t, i == 1, id);
    if (i == 0 && id < 0) status = cn_err_set(CN_ERR_IO, "the vocabulary has no [UNK]");
    if (i == 0 && !status) ((cni_wordpiece *)t->model)->unknown = id;
  }
  if (!status) return t;
  cn_tokenizer_free(t);
  return NULL;
}
