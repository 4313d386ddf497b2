/* tokenizer_unigram.c: Unigram, as SentencePiece and the `tokenizers` library have it. See tokenizer.h.
 *
 * Each token has a score (the logarithm of its probability). A word is cut so that the sum of the scores is greatest,
 * by the best way to each byte from the left; a character that no token begins with counts ten less than the lowest
 * score and is unknown, neighbours together. Tokens lie in a trie: nodes, whose children are behind each other and
 * sorted.
 *
 * Invariant: of equally good ways the one found first stays, which is the one whose last token is longest. */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer.h"

typedef struct node {
  uint32_t children; /* the first; children of a node are neighbours */
  uint32_t id;       /* NOTHING: no token ends here */
  double score;
  uint16_t count;
  uint8_t byte;
} node;

typedef struct rating {
  double value;
  bool there; /* such a token may be found */
} rating;

typedef struct unigram {
  rating *scores; /* by number */
  size_t nscores, scores_cap;
  node *nodes;
  size_t n, cap;
  uint32_t root[256]; /* the root's children by byte; 0: none */
  double lowest;
  int64_t unknown;
  bool fallback;
  bool narrow; /* scores are floats, as SentencePiece has them; unknown text is no token by itself */
  uint32_t byte_ids[256];
} unigram;

#define NOTHING UINT32_MAX

/* ---- making ---- */

static void unigram_free(void *model)
{
  unigram *m = model;
  cn_free(m->scores, m->scores_cap * sizeof *m->scores);
  cn_free(m->nodes, m->cap * sizeof *m->nodes);
  cn_free(m, sizeof *m);
}

static int encode_word(cni_encoder *e, const char *s, size_t n);

cn_tokenizer *cni_unigram_new(bool fallback)
{
  static const cni_text_class cls = {
      .name = "unigram", .encode = cni_encode_pieces, .free = unigram_free, .word = encode_word};
  unigram *m = cn_alloc_zero(sizeof *m);
  if (!m) return NULL;
  m->lowest = DBL_MAX;
  m->unknown = -1;
  m->fallback = fallback;
  return cni_tokenizer_new(&cls, m, true);
}

void cni_unigram_narrow(cn_tokenizer *t) { ((unigram *)t->model)->narrow = true; }

int cni_unigram_put(cn_tokenizer *t, const char *s, size_t n, int64_t id, double value, bool user)
{
  unigram *m = t->model;
  if (cni_vocab_put(&t->vocab, s, n, id)) return cn_err();
  if (cn_grow((void **)&m->scores, &m->scores_cap, (size_t)id + 1, sizeof *m->scores)) return CN_ERR_MEMORY;
  for (; m->nscores <= (size_t)id; m->nscores++) m->scores[m->nscores] = (rating){0};
  m->scores[id] = (rating){value, true};
  if (value < m->lowest && !user) m->lowest = value;
  return CN_OK;
}

typedef struct key {
  const unsigned char *s;
  uint32_t n, id;
} key;

static int by_bytes(const void *a, const void *b)
{
  const key *x = a, *y = b;
  int order = memcmp(x->s, y->s, x->n < y->n ? x->n : y->n);
  return order ? order : (x->n > y->n) - (x->n < y->n);
}

/* The children of node `at`, which the keys [from, to) have in common up to `depth`; then theirs, by a stack of what is
 * left to do. */
typedef struct task {
  uint32_t at, from, to, depth;
} task;

static int add_children(unigram *m, const key *keys, task now, task **stack, size_t *waiting, size_t *room)
{
  uint32_t i = now.from;
  while (i < now.to && keys[i].n == now.depth) { /* sorted: those that end here are first, and alike */
    m->nodes[now.at].id = keys[i].id;
    m->nodes[now.at].score = m->scores[keys[i].id].value;
    i++;
  }
  m->nodes[now.at].children = (uint32_t)m->n;
  while (i < now.to) {
    uint32_t from = i, child = (uint32_t)m->n;
    uint8_t byte = keys[i].s[now.depth];
    while (i < now.to && keys[i].s[now.depth] == byte) i++;
    if (cn_grow((void **)&m->nodes, &m->cap, m->n + 1, sizeof *m->nodes)) return CN_ERR_MEMORY;
    m->nodes[m->n++] = (node){.id = NOTHING, .byte = byte};
    m->nodes[now.at].count++;
    if (cn_grow((void **)stack, room, *waiting + 1, sizeof **stack)) return CN_ERR_MEMORY;
    (*stack)[(*waiting)++] = (task){child, from, i, now.depth + 1};
  }
  return CN_OK;
}

static int build(unigram *m, const key *keys, uint32_t n)
{
  task *stack = NULL;
  size_t waiting = 0, room = 0;
  int status = cn_grow((void **)&m->nodes, &m->cap, 1, sizeof *m->nodes) ? CN_ERR_MEMORY : CN_OK;
  if (!status) {
    m->nodes[m->n++] = (node){.id = NOTHING};
    status = add_children(m, keys, (task){0, 0, n, 0}, &stack, &waiting, &room);
  }
  while (!status && waiting) status = add_children(m, keys, stack[--waiting], &stack, &waiting, &room);
  cn_free(stack, room * sizeof *stack);
  for (uint32_t i = 0; !status && i < m->nodes[0].count; i++)
    m->root[m->nodes[m->nodes[0].children + i].byte] = m->nodes[0].children + i;
  return status;
}

int cni_unigram_ready(cn_tokenizer *t, int64_t unknown)
{
  unigram *m = t->model;
  m->unknown = unknown;
  for (unsigned b = 0; b < 256; b++) {
    char s[8];
    int64_t id = cni_vocab_find(&t->vocab, s, cni_token_of_byte(s, b));
    m->byte_ids[b] = id < 0 ? NOTHING : (uint32_t)id;
  }
  key *keys = cn_alloc((m->nscores + 1) * sizeof *keys);
  if (!keys) return CN_ERR_MEMORY;
  uint32_t n = 0;
  for (size_t i = 0; i < m->nscores; i++) {
    size_t size;
    const char *s = cni_vocab_at(&t->vocab, (int64_t)i, &size);
    if (s && size && m->scores[i].there && cni_vocab_find(&t->vocab, s, size) == (int64_t)i)
      keys[n++] = (key){(const unsigned char *)s, (uint32_t)size, (uint32_t)i};
  }
  qsort(keys, n, sizeof *keys, by_bytes);
  int status = build(m, keys, n);
  cn_free(keys, (m->nscores + 1) * sizeof *keys);
  return status;
}

/* ---- encoding ---- */

/* The best way to a byte: its score, and the token that it ends with. */
typedef struct way {
  double score;
  uint32_t from, id; /* from NOTHING: none yet */
} way;

static uint32_t child_of(const unigram *m, const node *at, uint8_t byte)
{
  uint32_t low = at->children, n = at->count;
  while (n > 8) {
    uint32_t half = n / 2;
    if (m->nodes[low + half].byte <= byte) low += half, n -= half;
    else n = half;
  }
  for (uint32_t i = low; i < low + n; i++)
    if (m->nodes[i].byte == byte) return i;
  return 0;
}

/* A better way to a byte, or the first one. SentencePiece adds floats. */
static void take(way *to, const unigram *m, double here, double more, uint32_t from, uint32_t id)
{
  double score = m->narrow ? (double)((float)here + (float)more) : here + more;
  if (to->from == NOTHING || score > to->score) *to = (way){score, from, id};
}

/* All tokens that begin at `from`. */
static void go_on(const unigram *m, way *ways, const char *s, uint32_t n, uint32_t from)
{
  enum { UNKNOWN_COSTS = 10 };
  uint32_t c, size = (uint32_t)cn_utf8_read(&c, s + from, s + n), at = m->root[(unsigned char)s[from]];
  double here = ways[from].score;
  bool single = false;
  if (!size) size = 1;
  for (uint32_t i = from + 1; at; at = child_of(m, &m->nodes[at], (uint8_t)s[i]), i++) {
    const node *found = &m->nodes[at];
    if (found->id != NOTHING) {
      take(&ways[i], m, here, found->score, from, found->id);
      single |= i == from + size;
    }
    if (i == n) break;
  }
  if (!single) take(&ways[from + size], m, here, m->lowest - UNKNOWN_COSTS, from, NOTHING);
}

/* What no token is: its bytes, or the token for unknown text. */
static int put_unknown(cni_encoder *e, const char *s, size_t n)
{
  const unigram *m = e->t->model;
  int64_t whole = m->narrow ? -1 : cni_vocab_find(&e->t->vocab, s, n);
  if (whole >= 0) return cni_encoder_put(e, whole);
  bool bytes = m->fallback;
  for (size_t i = 0; bytes && i < n; i++) bytes = m->byte_ids[(unsigned char)s[i]] != NOTHING;
  for (size_t i = 0; bytes && i < n; i++)
    if (cni_encoder_put(e, m->byte_ids[(unsigned char)s[i]])) return CN_ERR_MEMORY;
  if (bytes) return CN_OK;
  if (m->unknown < 0)
    return cn_err_set(CN_ERR_VALUE, "tokenizer_encode: there is no token for \"%.*s\", nor one for unknown text",
                      (int)(n < 60 ? n : 60), s);
  return cni_encoder_put(e, m->unknown);
}

static int encode_word(cni_encoder *e, const char *s, size_t n)
{
  const unigram *m = e->t->model;
  if (n >= UINT32_MAX / 4) return cn_err_set(CN_ERR_VALUE, "tokenizer_encode: a word of %zu bytes", n);
  if (cni_encoder_room(e, 0, n + 1, sizeof(way)) || cni_encoder_room(e, 1, n + 1, sizeof(uint32_t)))
    return CN_ERR_MEMORY;
  way *ways = e->room[0];
  uint32_t *ends = e->room[1], count = 0;
  for (size_t i = 0; i <= n; i++) ways[i].from = NOTHING;
  ways[0].score = 0;
  for (uint32_t i = 0; i < n; i++)
    if (!i || ways[i].from != NOTHING) go_on(m, ways, s, (uint32_t)n, i);
  for (uint32_t i = (uint32_t)n; i; i = ways[i].from) ends[count++] = i;
  int status = CN_OK;
  for (uint32_t i = count, from = 0; i-- > 0 && !status; from = ends[i]) {
    const way *w = &ways[ends[i]];
    bool unknown = w->id == NOTHING || w->id == m->unknown;
    if (!unknown) {
      status = cni_encoder_put(e, w->id);
      continue;
    }
    while (i && (ways[ends[i - 1]].id == NOTHING || ways[ends[i - 1]].id == m->unknown)) i--;
    status = put_unknown(e, s + from, ends[i] - from);
  }
  return status;
}
