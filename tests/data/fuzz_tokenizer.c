/* fuzz_tokenizer.c: any bytes as a tokenizer and a text: the first byte says which kind of file, zeros end the files,
 * the rest is a text. Refused with an error, or the text's numbers have tokens, and bytes come back as they were.
 * (A Unigram without a token for unknown text refuses some texts, so does a list of words.) */
#include <cairn/cairn.h>
#include <cairn/data.h>
#include <stdlib.h>
#include <string.h>

#include "data/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Up to the next zero, which is left out. */
static const char *part(size_t *n, const char **at, const char *end)
{
  const char *s = *at, *zero = memchr(s, 0, (size_t)(end - s));
  *n = (size_t)((zero ? zero : end) - s);
  *at = zero ? zero + 1 : end;
  return s;
}

/* A .model has zeros in it: three letters of hexadecimal digits before it say how long it is. */
static cn_tokenizer *read_model(const char *s, const char **at, const char *end)
{
  size_t size = 0, digits = 0;
  for (; digits < 3 && s < end; digits++, s++) size = size * 16 + (*s & 15) + (*s > '9' ? 9 : 0);
  if (size > (size_t)(end - s)) size = (size_t)(end - s);
  *at = s + size;
  return cni_sentencepiece_read(s, size);
}

static cn_tokenizer *read_as(int kind, const char **at, const char *end)
{
  size_t n, m;
  const char *a = part(&n, at, end), *b;
  switch (kind) {
  case 0: return cni_tokenizer_read_json(a, n);
  case 1: b = part(&m, at, end); return cni_bpe_read(a, n, b, m);
  case 2: return cni_wordpiece_read(a, n, true);
  case 3: return cni_wordpiece_read(a, n, false);
  case 4: return cn_tokenizer_chars(a, n);
  case 5: return read_model(a, at, end);
  default: return cn_tokenizer_bytes();
  }
}

static void use(cn_tokenizer *t, const char *text, size_t size)
{
  cn_tensor *ids = cn_tokenizer_encode(t, text, size, true);
  if ((ids == NULL) != (cn_err() != 0)) abort();
  const int64_t *v = ids ? cn_data(ids) : NULL;
  for (int64_t i = 0; i < cn_numel(ids); i++)
    if (!cn_tokenizer_token(t, v[i])) abort();
  void *bytes = NULL;
  size_t back = 0;
  if (ids && cn_tokenizer_decode_bytes(&bytes, &back, t, ids, false)) abort();
  if (ids && !strcmp(t->cls->name, "bytes") && (back != size || memcmp(bytes, text, size))) abort();
  cn_free(bytes, back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  if (size < 1) return 0;
  cn_memory_set_caching(false);
  const char *at = (const char *)data + 1, *end = (const char *)data + size;
  cn_scope *s = cn_scope_begin();
  cn_tokenizer *t = read_as(data[0] % 7, &at, end);
  if ((t == NULL) != (cn_err() != 0)) abort();
  if (t) use(t, at, (size_t)(end - at));
  cn_tokenizer_free(t);
  cn_err_clear();
  cn_scope_end(s);
  return 0;
}
