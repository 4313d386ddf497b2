/* tokenizer_sentencepiece.c: SentencePiece's .model files: Unigram and BPE. See tokenizer.h.
 *
 * A file is a protocol buffer: pieces with their scores and kinds, how the model was trained, and how text is
 * normalised. Text goes through a map of characters, by the longest key, white space is put together and becomes
 * marks, and the whole is one word. BPE joins the neighbours whose piece has the highest score, the left ones first.
 *
 * Place in the flow: beside tokenizer_json.c; Unigram is tokenizer_unigram.c's. Invariant: lengths are checked before
 * anything they count is read. */
#include <float.h>
#include <string.h>

#include "tokenizer.h"

#define MARK "\xe2\x96\x81"
enum { MARK_SIZE = 3 };
enum { NORMAL = 1, UNKNOWN, CONTROL, OF_USER, UNUSED, BYTE };
enum { UNIGRAM = 1, BPE };

/* What the model's parts share; owned by the step that normalises. */
typedef struct spec {
  const cn_tokenizer *t;
  bool prefix, squeeze, escape, suffix; /* a space in front; white space put together; spaces as marks; at the end */
  cni_text_step map;                    /* the characters'; without data: none */
  uint8_t *kinds;                       /* by number */
  float *scores;
  uint32_t *users;  /* the numbers of the user's symbols, long ones first */
  bool begins[256]; /* bytes that one of them begins with */
  size_t n, nusers, kinds_cap, scores_cap, users_cap;
  int64_t unknown;
  char surface[32]; /* of the unknown token */
} spec;

/* ---- reading ---- */

typedef struct field {
  unsigned number, wire;
  uint64_t value;   /* of varints; the size of texts */
  const char *data; /* of texts and fixed numbers */
} field;

static bool read_varint(uint64_t *value, const char **at, const char *end)
{
  *value = 0;
  for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
    unsigned char byte = (unsigned char)*(*at)++;
    *value |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

/* The next field: 1, 0 at the end, -1 where the file is broken. */
static int next_field(field *f, const char **at, const char *end)
{
  uint64_t key;
  if (*at == end) return 0;
  if (!read_varint(&key, at, end) || key >> 3 > 0xfffffff) return -1;
  f->number = (unsigned)(key >> 3);
  f->wire = (unsigned)(key & 7);
  f->data = *at;
  if (f->wire == 0) return read_varint(&f->value, at, end) ? 1 : -1;
  if (f->wire == 1) f->value = 8;
  else if (f->wire == 5) f->value = 4;
  else if (f->wire != 2 || !read_varint(&f->value, at, end)) return -1;
  if (f->value > (uint64_t)(end - *at)) return -1;
  f->data = *at;
  *at += f->value;
  return 1;
}

static int broken(void) { return cn_err_set(CN_ERR_IO, "it is no SentencePiece model, or broken"); }

typedef struct piece {
  const char *s;
  size_t n;
  float score;
  unsigned kind;
} piece;

static int read_piece(piece *p, const char *at, const char *end)
{
  field f;
  int more;
  *p = (piece){.s = "", .kind = NORMAL};
  while ((more = next_field(&f, &at, end)) > 0) {
    if (f.number == 1 && f.wire == 2) p->s = f.data, p->n = (size_t)f.value;
    else if (f.number == 2 && f.wire == 5) memcpy(&p->score, f.data, 4);
    else if (f.number == 3 && f.wire == 0) p->kind = f.value > BYTE ? BYTE + 1 : (unsigned)f.value;
  }
  return more < 0 || !p->n || p->kind < NORMAL || p->kind > BYTE || p->score != p->score ? broken() : CN_OK;
}

static int add_user(spec *m, const cn_tokenizer *t, const piece *p)
{
  size_t at = m->nusers, size;
  if (cn_grow((void **)&m->users, &m->users_cap, m->nusers + 1, sizeof *m->users)) return CN_ERR_MEMORY;
  m->nusers++;
  for (; at && (cni_vocab_at(&t->vocab, m->users[at - 1], &size), size < p->n); at--) m->users[at] = m->users[at - 1];
  m->users[at] = (uint32_t)m->n - 1;
  m->begins[(unsigned char)*p->s] = true;
  return CN_OK;
}

static int add_piece(spec *m, cn_tokenizer *t, const field *f)
{
  piece p;
  if (read_piece(&p, f->data, f->data + f->value)) return cn_err();
  if (cni_vocab_put(&t->vocab, p.s, p.n, (int64_t)m->n)) return cn_err();
  if (cn_grow((void **)&m->kinds, &m->kinds_cap, m->n + 1, 1) ||
      cn_grow((void **)&m->scores, &m->scores_cap, m->n + 1, sizeof *m->scores))
    return CN_ERR_MEMORY;
  m->kinds[m->n] = (uint8_t)p.kind;
  m->scores[m->n] = p.score;
  t->vocab.v[m->n].special = p.kind == CONTROL;
  if (p.kind == UNKNOWN) m->unknown = (int64_t)m->n;
  m->n++;
  return p.kind == OF_USER ? add_user(m, t, &p) : CN_OK;
}

typedef struct training {
  uint64_t kind;
  bool fallback;
} training;

static int read_training(training *how, spec *m, const field *whole)
{
  const char *at = whole->data, *end = at + whole->value;
  field f;
  int more;
  while ((more = next_field(&f, &at, end)) > 0) {
    if (f.number == 3 && f.wire == 0) how->kind = f.value;
    else if (f.number == 24 && f.wire == 0) m->suffix = f.value;
    else if (f.number == 35 && f.wire == 0) how->fallback = f.value;
    else if (f.number == 44 && f.wire == 2) {
      if (f.value >= sizeof m->surface)
        return cn_err_set(CN_ERR_UNSUPPORTED, "its text for unknown pieces is too long");
      memcpy(m->surface, f.data, (size_t)f.value);
      m->surface[f.value] = 0;
    }
  }
  return more < 0 ? broken() : CN_OK;
}

static int read_normal(spec *m, const field *whole)
{
  const char *at = whole->data, *end = at + whole->value;
  field f;
  int more;
  while ((more = next_field(&f, &at, end)) > 0) {
    if (f.number == 2 && f.wire == 2 && f.value && !m->map.data) {
      m->map.data_size = (size_t)f.value;
      if (!(m->map.data = cn_alloc(m->map.data_size))) return CN_ERR_MEMORY;
      memcpy(m->map.data, f.data, m->map.data_size);
      if (cni_charsmap_check(&m->map)) return cn_err();
    } else if (f.number == 3 && f.wire == 0) m->prefix = f.value;
    else if (f.number == 4 && f.wire == 0) m->squeeze = f.value;
    else if (f.number == 5 && f.wire == 0) m->escape = f.value;
  }
  return more < 0 ? broken() : CN_OK;
}

/* ---- normalising ---- */

/* Bytes of the longest symbol of the user at s; 0: none. */
static size_t symbol_of_user(const spec *m, const char *s, const char *end)
{
  size_t size;
  if (!m->begins[(unsigned char)*s]) return 0;
  for (size_t i = 0; i < m->nusers; i++) {
    const char *symbol = cni_vocab_at(&m->t->vocab, m->users[i], &size);
    if (size <= (size_t)(end - s) && !memcmp(symbol, s, size)) return size;
  }
  return 0;
}

/* What the beginning of s becomes; *taken: its bytes. */
static const char *next_part(const spec *m, const char *s, const char *end, size_t *taken, size_t *size)
{
  uint32_t c;
  if ((*taken = *size = symbol_of_user(m, s, end))) return s;
  const char *text = m->map.data ? cni_charsmap_find(&m->map, s, (size_t)(end - s), taken, size) : NULL;
  if (text) return text;
  *taken = *size = cn_utf8_read(&c, s, end);
  if (*taken) return s;
  *taken = 1;
  *size = 3;
  return "\xef\xbf\xbd";
}

static void put_part(cn_text *out, const spec *m, const char *s, size_t n)
{
  for (const char *end = s + n, *p; s < end; s = p + 1) {
    p = m->escape ? memchr(s, ' ', (size_t)(end - s)) : NULL;
    cn_text_put_bytes(out, s, (size_t)((p ? p : end) - s));
    if (!p) return;
    cn_text_put(out, MARK);
  }
}

static void normalise(cn_text *out, const cni_text_step *how, const char *s, size_t n)
{
  const spec *m = how->data;
  const char *end = s + n, *space = m->escape ? MARK : " ", *part;
  size_t taken, size, space_size = strlen(space), from = out->n;
  for (; m->squeeze && s < end; s += taken) {
    part = next_part(m, s, end, &taken, &size);
    if (size != 1 || *part != ' ') break;
  }
  if (s == end) return;
  if (m->prefix && !m->suffix) cn_text_put(out, space);
  bool after_space = m->squeeze;
  for (; s < end; s += taken) {
    part = next_part(m, s, end, &taken, &size);
    while (after_space && size && *part == ' ') part++, size--;
    put_part(out, m, part, size);
    if (size) after_space = part[size - 1] == ' ';
    if (!m->squeeze) after_space = false;
  }
  while (m->squeeze && !out->failed && out->n - from >= space_size &&
         !memcmp(out->s + out->n - space_size, space, space_size))
    out->n -= space_size;
  if (m->prefix && m->suffix) cn_text_put(out, space);
}

/* ---- decoding ---- */

static void decode_bytes(cn_text *out, cn_text *bytes)
{
  uint32_t c;
  for (size_t i = 0, size; i < bytes->n; i += size) {
    size = cn_utf8_read(&c, bytes->s + i, bytes->s + bytes->n);
    cn_text_put_bytes(out, size ? bytes->s + i : "\xef\xbf\xbd", size ? size : 3);
    size += !size;
  }
  out->failed |= bytes->failed;
  bytes->n = 0;
}

static void decode(cni_fragments *out, const cni_text_step *how, const cni_fragments *in)
{
  const spec *m = how->of;
  const cni_text_step by = {.a = (char[]){MARK}, .a_size = MARK_SIZE, .b = (char[]){" "}, .b_size = 1};
  cn_text bytes = {0};
  bool begun = false; /* the space in front has been left out */
  for (size_t i = 0; i < in->n; i++) {
    size_t size;
    const char *s = cni_fragments_at(in, i, &size);
    int64_t id = cni_vocab_find(&m->t->vocab, s, size);
    unsigned kind = id < 0 ? NORMAL : m->kinds[id];
    if (kind == BYTE) {
      int byte = cni_byte_of_token(s, size);
      cn_text_put_bytes(&bytes, &(char){(char)byte}, byte >= 0);
      continue;
    }
    decode_bytes(&out->text, &bytes);
    if (kind == CONTROL) continue;
    if (kind == UNKNOWN) {
      cn_text_put(&out->text, m->surface);
      continue;
    }
    bool first = !begun && !out->text.n && (m->prefix || m->squeeze);
    if (first && size >= MARK_SIZE && !memcmp(s, MARK, MARK_SIZE)) {
      s += MARK_SIZE;
      size -= MARK_SIZE;
      begun = !m->squeeze;
    }
    cni_normal_replace(&out->text, &by, s, size);
  }
  decode_bytes(&out->text, &bytes);
  cn_text_free(&bytes);
  cni_fragments_end(out);
}

/* ---- BPE by scores ---- */

#define NOTHING UINT32_MAX

typedef struct symbol {
  uint32_t from, size; /* size 0: joined to the one before */
  uint32_t before, behind;
  bool fixed; /* a symbol of the user */
} symbol;

typedef struct candidate {
  float score;
  uint32_t left, size;
} candidate;

static bool goes_first(const candidate *a, const candidate *b)
{
  return a->score > b->score || (a->score == b->score && a->left < b->left);
}

static void push(candidate *heap, size_t *n, candidate c)
{
  size_t at = (*n)++;
  for (; at && goes_first(&c, &heap[(at - 1) / 2]); at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
  heap[at] = c;
}

static candidate pop(candidate *heap, size_t *n)
{
  candidate first = heap[0], moved = heap[--*n];
  size_t at = 0;
  for (size_t child; (child = 2 * at + 1) < *n; at = child) {
    if (child + 1 < *n && goes_first(&heap[child + 1], &heap[child])) child++;
    if (!goes_first(&heap[child], &moved)) break;
    heap[at] = heap[child];
  }
  heap[at] = moved;
  return first;
}

typedef struct scored {
  const spec *m;
  bool fallback;
} scored;

/* The piece of a text that joining may make; -1: none. */
static int64_t joined_piece(const spec *m, const char *s, size_t n)
{
  int64_t id = cni_vocab_find(&m->t->vocab, s, n);
  return id >= 0 && (m->kinds[id] == NORMAL || m->kinds[id] == OF_USER || m->kinds[id] == UNUSED) ? id : -1;
}

static void try_join(candidate *heap, size_t *n, const spec *m, const symbol *v, uint32_t left, const char *s)
{
  uint32_t right = left == NOTHING ? NOTHING : v[left].behind;
  if (right == NOTHING || v[left].fixed || v[right].fixed) return;
  uint32_t size = v[left].size + v[right].size;
  int64_t id = joined_piece(m, s + v[left].from, size);
  if (id >= 0) push(heap, n, (candidate){m->scores[id], left, size});
}

static uint32_t split_chars(symbol *v, const spec *m, const char *s, size_t n)
{
  uint32_t count = 0, c;
  for (size_t at = 0, size; at < n; at += size, count++) {
    size = symbol_of_user(m, s + at, s + n);
    v[count] = (symbol){.from = (uint32_t)at, .before = count - 1, .behind = count + 1, .fixed = size > 0};
    if (!size) size = cn_utf8_read(&c, s + at, s + n);
    if (!size) size = 1;
    v[count].size = (uint32_t)size;
  }
  v[count - 1].behind = NOTHING;
  return count;
}

static void join_all(symbol *v, uint32_t count, candidate *heap, const spec *m, const char *s)
{
  size_t waiting = 0;
  for (uint32_t i = 0; i + 1 < count; i++) try_join(heap, &waiting, m, v, i, s);
  while (waiting) {
    candidate c = pop(heap, &waiting);
    symbol *left = &v[c.left];
    if (!left->size || left->behind == NOTHING || left->size + v[left->behind].size != c.size) continue;
    symbol *right = &v[left->behind];
    left->size = c.size;
    right->size = 0;
    left->behind = right->behind;
    if (left->behind != NOTHING) v[left->behind].before = c.left;
    try_join(heap, &waiting, m, v, left->before, s); /* one goes, two come at most: three times n is room enough */
    try_join(heap, &waiting, m, v, c.left, s);
  }
}

static int put_piece(cni_encoder *e, const char *s, size_t n, bool *after_unknown)
{
  const scored *how = e->t->model;
  int64_t id = cni_vocab_find(&e->t->vocab, s, n);
  bool unknown = id < 0 || id == how->m->unknown, again = *after_unknown && unknown;
  *after_unknown = unknown && !how->fallback;
  if (!unknown) return cni_encoder_put(e, id);
  if (!how->fallback) return again ? CN_OK : cni_encoder_put(e, how->m->unknown);
  for (size_t i = 0; i < n; i++) {
    char byte[8];
    if (cni_encoder_put(e, cni_vocab_find(&e->t->vocab, byte, cni_token_of_byte(byte, (unsigned char)s[i]))))
      return CN_ERR_MEMORY;
  }
  return CN_OK;
}

static int encode_word(cni_encoder *e, const char *s, size_t n)
{
  const scored *how = e->t->model;
  bool after_unknown = false;
  if (n >= UINT32_MAX / 4) return cn_err_set(CN_ERR_VALUE, "tokenizer_encode: a text of %zu bytes", n);
  if (cni_encoder_room(e, 0, n, sizeof(symbol)) || cni_encoder_room(e, 1, 3 * n, sizeof(candidate)))
    return CN_ERR_MEMORY;
  symbol *v = e->room[0];
  uint32_t count = split_chars(v, how->m, s, n);
  join_all(v, count, e->room[1], how->m, s);
  int status = CN_OK;
  for (uint32_t i = 0; i != NOTHING && !status; i = v[i].behind)
    status = put_piece(e, s + v[i].from, v[i].size, &after_unknown);
  return status;
}

/* ---- making ---- */

static void spec_free(void *data, size_t size)
{
  spec *m = data;
  cn_free(m->kinds, m->kinds_cap);
  cn_free(m->scores, m->scores_cap * sizeof *m->scores);
  cn_free(m->users, m->users_cap * sizeof *m->users);
  cni_step_free(&m->map);
  cn_free(m, size);
}

static void scored_free(void *model) { cn_free(model, sizeof(scored)); }

static cn_tokenizer *new_scored(bool fallback)
{
  static const cni_text_class cls = {
      .name = "bpe", .encode = cni_encode_pieces, .free = scored_free, .word = encode_word};
  scored *how = cn_alloc_zero(sizeof *how);
  if (!how) return NULL;
  how->fallback = fallback;
  return cni_tokenizer_new(&cls, how, true);
}

/* Tokens of Unigram that may be found, with their scores; those of the user win over whatever else they are made of. */
static int put_scores(cn_tokenizer *t, const spec *m)
{
  float highest = -FLT_MAX;
  int status = CN_OK;
  for (size_t i = 0; i < m->n; i++)
    if (m->kinds[i] == NORMAL && m->scores[i] > highest) highest = m->scores[i];
  for (size_t i = 0; i < m->n && !status; i++) {
    size_t size;
    const char *s = cni_vocab_at(&t->vocab, (int64_t)i, &size);
    bool user = m->kinds[i] == OF_USER;
    double score = user ? (double)((float)size * highest) - 0.1 : (double)m->scores[i];
    if (user || m->kinds[i] == NORMAL) status = cni_unigram_put(t, s, size, (int64_t)i, score, user);
  }
  cni_unigram_narrow(t);
  return status ? status : cni_unigram_ready(t, m->unknown);
}

/* Everything but the pieces, before they are read: it says of which kind the tokenizer is. */
static int read_head(training *how, spec *m, const char *at, const char *end)
{
  field f;
  int more, status = CN_OK;
  *how = (training){.kind = UNIGRAM};
  memcpy(m->surface, " \xe2\x81\x87 ", 6);
  while (!status && (more = next_field(&f, &at, end)) > 0) {
    if (f.number == 2 && f.wire == 2) status = read_training(how, m, &f);
    else if (f.number == 3 && f.wire == 2) status = read_normal(m, &f);
  }
  if (status || more < 0) return status ? status : broken();
  if (how->kind == UNIGRAM || how->kind == BPE) return CN_OK;
  return cn_err_set(CN_ERR_UNSUPPORTED, "its model is of kind %llu; Unigram (1) and BPE (2) are read",
                    (unsigned long long)how->kind);
}

static int read_pieces(cn_tokenizer *t, spec *m, const training *how, const char *at, const char *end)
{
  field f;
  int more, status = CN_OK;
  while (!status && (more = next_field(&f, &at, end)) > 0)
    if (f.number == 1 && f.wire == 2) status = add_piece(m, t, &f);
  if (status) return status;
  if (m->unknown < 0) return broken();
  for (size_t i = 0; i < m->n; i++)
    if (m->kinds[i] == UNUSED && how->kind == BPE)
      return cn_err_set(CN_ERR_UNSUPPORTED, "its BPE has unused pieces, which is not supported here");
  char byte[8];
  for (unsigned b = 0; b < 256 && how->fallback; b++)
    if (cni_vocab_find(&t->vocab, byte, cni_token_of_byte(byte, b)) < 0) return broken();
  return how->kind == UNIGRAM ? put_scores(t, m) : CN_OK;
}

cn_tokenizer *cni_sentencepiece_read(const char *data, size_t size)
{
  training how;
  spec *m = cn_alloc_zero(sizeof *m);
  if (!m) return NULL;
  m->prefix = m->squeeze = m->escape = true;
  m->unknown = -1;
  cn_tokenizer *t = NULL;
  if (!read_head(&how, m, data, data + size))
    t = how.kind == UNIGRAM ? cni_unigram_new(how.fallback) : new_scored(how.fallback);
  if (!t) {
    spec_free(m, sizeof *m);
    return NULL;
  }
  m->t = t;
  if (how.kind == BPE) ((scored *)t->model)->m = m;
  int status = cni_steps_add(
      &t->normal,
      &(cni_text_step){.normalise = normalise, .data = m, .data_size = sizeof *m, .free_data = spec_free});
  if (!status) status = cni_steps_add(&t->decoders, &(cni_text_step){.decode = decode, .of = m});
  if (!status) status = read_pieces(t, m, &how, data, data + size);
  if (!status) return t;
  cn_tokenizer_free(t);
  return NULL;
}
