/* words.c: texts cut into words or characters, on the host, as scikit-learn's features of text are exported. A graph
 * that is captured has no strings to read, so these run as they are. See call.h. */
#include <string.h>

#include "formats/onnx/letters.h"
#include "formats/onnx/regex.h"
#include "formats/onnx/texts.h"

/* A part of a text. */
typedef struct word {
  const char *s;
  size_t size;
} word;

/* How texts are cut: by what words are, by what parts them, or into characters where neither is there. */
typedef struct cutter {
  cni_regex *token, **separators;
  size_t nseparators;
  int64_t least; /* characters of a word */
} cutter;

/* Words in a room that a text fills at most: one for each byte, and one more. */
typedef struct words {
  word *w;
  size_t n;
} words;

static void add(words *to, const cutter *k, const char *s, size_t size)
{
  int64_t letters = 0;
  for (const char *at = s; at < s + size; letters++) cni_onnx_char_next(&at, s + size);
  if (size && letters >= k->least) to->w[to->n++] = (word){s, size};
}

/* The first byte behind a match; behind an empty one, and a character. */
static size_t behind(word x, size_t at, size_t end)
{
  const char *next = x.s + end;
  if (end == at && end < x.size) cni_onnx_char_next(&next, x.s + x.size);
  return (size_t)(next - x.s);
}

static void cut_by_token(words *to, const cutter *k, word x)
{
  size_t at, end;
  for (size_t from = 0; from < x.size && cni_regex_find(k->token, x.s, x.size, from, &at, &end);) {
    add(to, k, x.s + at, end - at);
    from = behind(x, at, end);
  }
}

static void cut_by_separator(words *to, const cutter *k, cni_regex *separator, word x)
{
  size_t from = 0, at, end;
  while (from < x.size && cni_regex_find(separator, x.s, x.size, from, &at, &end)) {
    add(to, k, x.s + from, at - from);
    from = behind(x, at, end);
  }
  add(to, k, x.s + from, x.size - from);
}

static void cut_characters(words *to, word x)
{
  for (const char *at = x.s, *from = at; at < x.s + x.size; from = at) {
    cni_onnx_char_next(&at, x.s + x.size);
    to->w[to->n++] = (word){from, (size_t)(at - from)};
  }
}

/* The words of a text, in a; b is room for as many. */
static words cut(const cutter *k, word x, words a, words b)
{
  a.n = 0;
  if (k->token) cut_by_token(&a, k, x);
  else if (!k->nseparators) cut_characters(&a, x);
  else a.w[a.n++] = x;
  for (size_t i = 0; i < k->nseparators && !k->token; i++) {
    b.n = 0;
    for (size_t j = 0; j < a.n; j++) cut_by_separator(&b, k, k->separators[i], a.w[j]);
    const words swap = a;
    a = b, b = swap;
  }
  return a;
}

static int read_cutter(cutter *k, cni_onnx_call *c)
{
  const char *token = cni_onnx_text(c, "tokenexp", "");
  const cni_onnx_attr *s = cni_onnx_attr_of(c, "separators");
  k->least = cni_onnx_int(c, "mincharnum", 1);
  if (s && s->kind != CNI_ATTR_STRINGS) return cni_onnx_fail(c, CN_ERR_TYPE, "attribute 'separators' is no strings");
  if (!s == !*token) return cni_onnx_fail(c, CN_ERR_VALUE, "it takes one of 'separators' and 'tokenexp'");
  if (*token) return (k->token = cni_regex_compile(&c->room, token, strlen(token))) ? 0 : cn_err();
  if (s->n == 1 && !*s->ss[0]) return 0; /* characters */
  if (!s->n) return cni_onnx_fail(c, CN_ERR_VALUE, "'separators' is empty");
  if (!(k->separators = cni_onnx_room(c, s->n, sizeof *k->separators))) return cn_err();
  for (size_t i = 0; i < s->n; i++)
    if (!(k->separators[i] = cni_regex_compile(&c->room, s->ss[i], strlen(s->ss[i])))) return cn_err();
  k->nseparators = s->n;
  return 0;
}

static const char *copied(cni_onnx_call *c, word w)
{
  char *to = cni_onnx_room(c, w.size + 1, 1);
  if (to) memcpy(to, w.s, w.size);
  return to;
}

/* One text's words into a row of the result: between marks, where they are asked for, and padded. */
static int put_row(const char **row, cni_onnx_call *c, const words *w, size_t width, bool marks, const char *pad)
{
  size_t n = 0;
  if (marks) row[n++] = "\x02";
  for (size_t i = 0; i < w->n; i++)
    if (!(row[n++] = copied(c, w->w[i]))) return cn_err();
  if (marks) row[n++] = "\x03";
  while (n < width) row[n++] = pad;
  return 0;
}

/* (C) or (N, C) texts: their words along one more dimension. */
static int tokenizer(cni_onnx_call *c)
{
  cni_onnx_texts x;
  cutter k = {0};
  const bool marks = cni_onnx_int(c, "mark", 0) != 0;
  const char *pad = cni_onnx_text(c, "pad_value", "");
  if (cni_onnx_texts_in(&x, c, 0) || read_cutter(&k, c)) return cn_err();
  const size_t ndim = (size_t)cn_ndim(x.shaped), n = (size_t)x.n;
  if (ndim < 1 || ndim > 2) return cni_onnx_fail(c, CN_ERR_SHAPE, "it takes strings of shape (C) or (N, C)");
  words *rows = cni_onnx_room(c, n + 1, sizeof *rows);
  size_t width = 0;
  for (size_t i = 0; rows && i < n; i++) {
    const size_t size = (size_t)x.sizes[i];
    const words a = {cni_onnx_room(c, size + 2, sizeof(word)), 0}, b = {cni_onnx_room(c, size + 2, sizeof(word)), 0};
    if (!a.w || !b.w) return cn_err();
    rows[i] = cut(&k, (word){x.s[i], size}, a, b);
    width = rows[i].n > width ? rows[i].n : width;
  }
  if (width && marks) width += 2;
  const char **all = cni_onnx_room(c, n * width + 1, sizeof *all);
  if (!rows || !all) return cn_err();
  for (size_t i = 0; i < n && width; i++)
    if (put_row(all + i * width, c, &rows[i], width, marks, pad)) return cn_err();
  int64_t shape[3] = {0};
  for (size_t d = 0; d < ndim; d++) shape[d] = cn_shape(x.shaped)[d];
  shape[ndim] = (int64_t)width;
  return cni_onnx_out_texts(c, 0, all, shape, ndim + 1);
}

const cni_onnx_op cni_onnx_words_ops[] = {
    ONNX_FRESH("Tokenizer", 1, tokenizer),
    {NULL, NULL, NULL, 0, 0},
};
