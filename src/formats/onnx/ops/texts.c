/* texts.c: tensors of strings, read and made on the host: normalised, split, matched, counted. A graph that is captured
 * has no strings to read, so these run as they are. See call.h. */
#include <stdlib.h>
#include <string.h>

#include "formats/onnx/letters.h"
#include "formats/onnx/regex.h"
#include "formats/onnx/texts.h"

/* The strings of an attribute; n 0: it is not given. */
static const char *const *listed(const cni_onnx_call *c, const char *name, size_t *n)
{
  const cni_onnx_attr *a = cni_onnx_attr_of(c, name);
  *n = a && a->kind == CNI_ATTR_STRINGS ? a->n : 0;
  if (a && a->kind != CNI_ATTR_STRINGS) cni_onnx_fail(c, CN_ERR_TYPE, "attribute '%s' is no strings", name);
  return *n ? a->ss : NULL;
}

/* ---- StringNormalizer ---- */

/* The text in the other case; it may take more bytes, up to 4 for each. */
static const char *cased(cni_onnx_call *c, const char *s, bool upper)
{
  const char *end = s + strlen(s);
  char *made = cni_onnx_room(c, 4 * strlen(s) + 1, 1), *to = made;
  while (made && s < end) {
    uint32_t letter = cni_onnx_char_next(&s, end);
    to += cni_onnx_char_put(to, upper ? cni_onnx_upper(letter) : cni_onnx_lower(letter));
  }
  return made;
}

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* The words to be left out, sorted; in lower case where case does not matter. */
static const char **stopwords_of(cni_onnx_call *c, size_t *n, bool lower)
{
  const char *const *given = listed(c, "stopwords", n);
  const char **words = cni_onnx_room(c, *n + 1, sizeof *words);
  for (size_t i = 0; words && i < *n; i++)
    if (!(words[i] = lower ? cased(c, given[i], false) : given[i])) return NULL;
  if (words) qsort(words, *n, sizeof *words, by_text);
  return words;
}

/* Words that are not stop words, in the case that is wanted; none left: an empty one. */
static int normalize(cni_onnx_call *c)
{
  cni_onnx_texts x;
  size_t nstops, n = 0;
  const char *action = cni_onnx_text(c, "case_change_action", "NONE");
  bool exact = cni_onnx_int(c, "is_case_sensitive", 0) != 0, upper = !strcmp(action, "UPPER");
  if (cni_onnx_texts_in(&x, c, 0)) return cn_err();
  const int64_t *shape = cn_shape(x.shaped);
  size_t ndim = (size_t)cn_ndim(x.shaped);
  if (!upper && strcmp(action, "LOWER") != 0 && strcmp(action, "NONE") != 0)
    return cni_onnx_fail(c, CN_ERR_VALUE, "case_change_action is '%s'", action);
  if (ndim < 1 || ndim > 2 || (ndim == 2 && shape[0] != 1))
    return cni_onnx_fail(c, CN_ERR_SHAPE, "it takes strings of shape (C) or (1, C)");
  const char **stops = stopwords_of(c, &nstops, !exact), **kept = cni_onnx_room(c, (size_t)x.n + 1, sizeof *kept);
  if (!stops || !kept) return cn_err();
  for (int64_t i = 0; i < x.n; i++) {
    const char *key = exact ? x.s[i] : cased(c, x.s[i], false), *word = x.s[i];
    if (!key) return cn_err();
    if (nstops && bsearch(&key, stops, nstops, sizeof *stops, by_text)) continue;
    if (*action != 'N' && !(word = cased(c, word, upper))) return cn_err();
    kept[n++] = word;
  }
  if (!n) kept[n++] = "";
  return cni_onnx_out_texts(c, 0, kept, ndim == 2 ? (int64_t[]){1, (int64_t)n} : (int64_t[]){(int64_t)n}, ndim);
}

/* ---- StringSplit ---- */

static bool blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* The next piece of *at, which is moved behind it and what parts it from the next; *size: its bytes. last: all that is
 * left. NULL: there is none. An empty delimiter: blanks, any number of them. */
static const char *piece(const char **at, size_t *size, const char *delimiter, bool last)
{
  const char *s = *at, *end;
  if (!s) return NULL;
  if (*delimiter) {
    end = last ? NULL : strstr(s, delimiter);
    *at = end ? end + strlen(delimiter) : NULL;
    *size = end ? (size_t)(end - s) : strlen(s);
    return s;
  }
  while (blank(*s)) s++;
  if (!*s) return *at = NULL;
  for (end = s; *end && (last || !blank(*end));) end++;
  *at = end;
  *size = (size_t)(end - s);
  return s;
}

static int64_t count_pieces(const char *s, const char *delimiter, int64_t most)
{
  size_t size;
  int64_t n = 0;
  while (n <= most && piece(&s, &size, delimiter, n == most)) n++;
  return n;
}

/* Pieces along a new last dimension, empty ones behind those that are fewer, and how many there are. */
static int split(cni_onnx_call *c)
{
  cni_onnx_texts x;
  const char *delimiter = cni_onnx_text(c, "delimiter", "");
  int64_t most = cni_onnx_int(c, "maxsplit", -1), shape[CN_MAX_DIMS], width = 0;
  if (cni_onnx_texts_in(&x, c, 0)) return cn_err();
  if (most < 0) most = INT64_MAX - 1;
  size_t ndim = (size_t)cn_ndim(x.shaped), n = (size_t)x.n;
  int64_t *counts = cni_onnx_room(c, n + 1, sizeof *counts);
  if (!counts || ndim + 1 > CN_MAX_DIMS)
    return counts ? cni_onnx_fail(c, CN_ERR_SHAPE, "too many dimensions") : cn_err();
  for (size_t i = 0; i < n; i++) {
    counts[i] = count_pieces(x.s[i], delimiter, most);
    width = counts[i] > width ? counts[i] : width;
  }
  const char **all = cni_onnx_room(c, n * (size_t)width + 1, sizeof *all);
  for (size_t i = 0; all && i < n; i++) {
    const char *at = x.s[i], *from;
    for (int64_t k = 0; k < width; k++) {
      size_t size = 0;
      char *copy =
          k < counts[i] && (from = piece(&at, &size, delimiter, k == most)) ? cni_onnx_room(c, size + 1, 1) : NULL;
      if (copy) memcpy(copy, from, size);
      all[i * (size_t)width + (size_t)k] = copy ? copy : "";
    }
  }
  if (cn_err()) return cn_err();
  for (size_t d = 0; d < ndim; d++) shape[d] = cn_shape(x.shaped)[d];
  shape[ndim] = width;
  if (cni_onnx_out_texts(c, 0, all, shape, ndim + 1)) return cn_err();
  return cni_onnx_out(c, 1, cn_to_device(cn_from_data(counts, shape, ndim, CN_I64), cni_onnx_device(c)));
}

/* ---- RegexFullMatch ---- */

static int regex_full_match(cni_onnx_call *c)
{
  cni_onnx_texts x;
  const char *pattern = cni_onnx_text(c, "pattern", "");
  if (cni_onnx_texts_in(&x, c, 0)) return cn_err();
  bool *found = cni_onnx_room(c, (size_t)x.n + 1, sizeof *found);
  cni_regex *regex = found ? cni_regex_compile(&c->room, pattern, strlen(pattern)) : NULL;
  if (!regex) return cn_err();
  for (int64_t i = 0; i < x.n; i++) found[i] = cni_regex_full_match(regex, x.s[i], (size_t)x.sizes[i]);
  cn_tensor *t = cn_from_data(found, cn_shape(x.shaped), (size_t)cn_ndim(x.shaped), CN_BOOL);
  return cni_onnx_out(c, 0, t ? cn_to_device(t, cni_onnx_device(c)) : NULL);
}

/* ---- TfIdfVectorizer ---- */

typedef struct gram {
  const int64_t *items; /* n of them */
  int64_t n, id;        /* id: its number in the pool */
} gram;

/* By size, then items. */
static int by_items(const void *a, const void *b)
{
  const gram *x = a, *y = b;
  if (x->n != y->n) return x->n < y->n ? -1 : 1;
  for (int64_t i = 0; i < x->n; i++)
    if (x->items[i] != y->items[i]) return x->items[i] < y->items[i] ? -1 : 1;
  return 0;
}

/* Of equal ones the one that stands last in the pool counts: they are sorted so, and the others go. */
static int by_items_and_place(const void *a, const void *b)
{
  int order = by_items(a, b);
  const gram *x = a, *y = b;
  return order ? order : x->id > y->id ? -1 : x->id < y->id;
}

typedef struct tfidf {
  gram *grams;
  size_t ngrams, nwords;
  int64_t least, most, skips, width; /* width: columns of the result */
  cni_onnx_ints columns;
  cni_onnx_floats weights;
  const char **words; /* sorted; of a pool of strings */
  char mode;          /* 'T': how often; 'I': whether; 'B': both, weighted */
} tfidf;

/* The number of a word of the pool; -1: it has none. */
static int64_t number_of(const tfidf *t, const char *word)
{
  const char **at = t->nwords ? bsearch(&word, t->words, t->nwords, sizeof *t->words, by_text) : NULL;
  return at ? at - t->words : -1;
}

/* The pool's items as numbers; strings by where they stand when sorted. */
static const int64_t *pool_of(tfidf *t, cni_onnx_call *c, size_t *n)
{
  const char *const *words = listed(c, "pool_strings", n);
  if (!words) {
    cni_onnx_ints v = cni_onnx_ints_of(c, "pool_int64s");
    return *n = v.n, v.v;
  }
  int64_t *numbers = cni_onnx_room(c, *n, sizeof *numbers);
  t->words = cni_onnx_room(c, *n, sizeof *t->words);
  if (!numbers || !t->words) return NULL;
  memcpy(t->words, words, *n * sizeof *words);
  qsort(t->words, *n, sizeof *t->words, by_text);
  for (size_t i = 0; i < *n; i++)
    if (!i || strcmp(t->words[i], t->words[t->nwords - 1]) != 0) t->words[t->nwords++] = t->words[i];
  for (size_t i = 0; i < *n; i++) numbers[i] = number_of(t, words[i]);
  return numbers;
}

/* The pool: first those of one item, then those of two... ; ngram_counts says where each size begins. */
static int read_pool(tfidf *t, cni_onnx_call *c)
{
  size_t n, all = 0;
  const int64_t *items = pool_of(t, c, &n);
  cni_onnx_ints begins = cni_onnx_ints_of(c, "ngram_counts");
  if (!items || !begins.v || !(t->grams = cni_onnx_room(c, n + 1, sizeof *t->grams)))
    return cn_err() ? cn_err() : cni_onnx_fail(c, CN_ERR_VALUE, "its pool or ngram_counts is missing");
  for (size_t k = 0; k < begins.n; k++) {
    int64_t from = begins.v[k], to = k + 1 < begins.n ? begins.v[k + 1] : (int64_t)n, size = (int64_t)k + 1;
    if (from < 0 || to < from || to > (int64_t)n || (to - from) % size)
      return cni_onnx_fail(c, CN_ERR_VALUE, "ngram_counts does not fit the pool");
    for (int64_t i = from; i < to; i += size) t->grams[all] = (gram){items + i, size, (int64_t)all}, all++;
  }
  if (t->columns.n != all || (t->weights.v && t->weights.n != all))
    return cni_onnx_fail(c, CN_ERR_VALUE, "%zu n-grams, but %zu indexes and %zu weights", all, t->columns.n,
                         t->weights.n);
  qsort(t->grams, all, sizeof *t->grams, by_items_and_place);
  for (size_t i = 0; i < all; i++)
    if (!i || by_items(&t->grams[i], &t->grams[t->ngrams - 1])) t->grams[t->ngrams++] = t->grams[i];
  return CN_OK;
}

static int read_tfidf(tfidf *t, cni_onnx_call *c)
{
  const char *mode = cni_onnx_text(c, "mode", "");
  t->mode = !strcmp(mode, "TF") ? 'T' : !strcmp(mode, "IDF") ? 'I' : !strcmp(mode, "TFIDF") ? 'B' : 0;
  t->least = cni_onnx_int(c, "min_gram_length", 1);
  t->most = cni_onnx_int(c, "max_gram_length", 1);
  t->skips = cni_onnx_int(c, "max_skip_count", 0);
  t->columns = cni_onnx_ints_of(c, "ngram_indexes");
  t->weights = cni_onnx_floats_of(c, "weights");
  if (cn_err()) return cn_err();
  if (!t->mode || t->least < 1 || t->most < t->least || t->skips < 0)
    return cni_onnx_fail(c, CN_ERR_VALUE, "its mode or its lengths are out of range");
  for (size_t i = 0; i < t->columns.n; i++) {
    if (t->columns.v[i] < 0 || t->columns.v[i] > INT32_MAX)
      return cni_onnx_fail(c, CN_ERR_VALUE, "ngram_indexes has %lld", (long long)t->columns.v[i]);
    t->width = t->columns.v[i] >= t->width ? t->columns.v[i] + 1 : t->width;
  }
  return read_pool(t, c);
}

/* Counts those of n items that are `step` apart. */
static void count_grams(float *row, const tfidf *t, const int64_t *x, int64_t size, int64_t n, int64_t step,
                        int64_t *room)
{
  for (int64_t i = 0; i + (n - 1) * step < size; i++) {
    for (int64_t k = 0; k < n; k++) room[k] = x[i + k * step];
    const gram *g = bsearch(&(gram){room, n, 0}, t->grams, t->ngrams, sizeof *t->grams, by_items);
    if (!g) continue;
    float weight = t->mode != 'T' && t->weights.v ? (float)t->weights.v[g->id] : 1;
    float *to = row + t->columns.v[g->id];
    *to = t->mode == 'I' ? weight : *to + weight;
  }
}

/* Each row's items as numbers of the pool. */
static const int64_t *items_in(const tfidf *t, cni_onnx_call *c, const cn_tensor **shaped)
{
  cni_onnx_texts x;
  if (c->in[0] && c->in[0]->kind != CN_ONNX_STRINGS) {
    *shaped = cni_onnx_in(c, 0);
    return cni_onnx_ints_in(c, 0).v;
  }
  if (cni_onnx_texts_in(&x, c, 0)) return NULL;
  int64_t *numbers = cni_onnx_room(c, (size_t)x.n + 1, sizeof *numbers);
  for (int64_t i = 0; numbers && i < x.n; i++) numbers[i] = number_of(t, x.s[i]);
  *shaped = x.shaped;
  return numbers;
}

static int count_words(cni_onnx_call *c)
{
  tfidf t = {0};
  const cn_tensor *shaped;
  if (!cni_onnx_value_in(c, 0) || read_tfidf(&t, c)) return cn_err();
  const int64_t *x = items_in(&t, c, &shaped);
  if (!x) return cn_err();
  size_t ndim = (size_t)cn_ndim(shaped);
  if (ndim > 2) return cni_onnx_fail(c, CN_ERR_SHAPE, "it takes (C) or (N, C)");
  int64_t rows = ndim == 2 ? cn_size(shaped, 0) : 1, size = ndim ? cn_size(shaped, -1) : 1;
  int64_t longest = t.most < size ? t.most : size;
  if (rows && t.width > INT32_MAX / rows) return cni_onnx_fail(c, CN_ERR_SHAPE, "its result would be too large");
  float *y = cni_onnx_room(c, (size_t)(rows * t.width) + 1, sizeof *y);
  int64_t *room = cni_onnx_room(c, (size_t)longest + 1, sizeof *room);
  if (!y || !room) return cn_err();
  for (int64_t r = 0; r < rows; r++)
    for (int64_t n = t.least; n <= longest; n++) /* one item by itself has no distances */
      for (int64_t step = 1; step <= (n == 1 ? 1 : t.skips + 1) && (n - 1) * step < size; step++)
        count_grams(y + r * t.width, &t, x + r * size, size, n, step, room);
  cn_tensor *made =
      ndim == 2 ? cn_from_data(y, CN_SHAPE(rows, t.width), CN_F32) : cn_from_data(y, CN_SHAPE(t.width), CN_F32);
  return cni_onnx_out(c, 0, made ? cn_to_device(made, cni_onnx_device(c)) : NULL);
}

const cni_onnx_op cni_onnx_texts_ops[] = {
    ONNX_FRESH("StringNormalizer", 10, normalize),
    ONNX_FRESH("StringSplit", 20, split),
    ONNX_FRESH("RegexFullMatch", 20, regex_full_match),
    ONNX_FRESH("TfIdfVectorizer", 9, count_words),
    {NULL, NULL, NULL, 0, 0},
};
