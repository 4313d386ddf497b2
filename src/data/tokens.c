/* tokens.c: windows over a long row of tokens, mapped from a file or in a tensor. See data.h.
 *
 * Place in the flow: for language models; the tokens come from a tokenizer once and are kept as a raw file.
 * Invariant: nothing but the asked-for window is ever touched. */
#include <string.h>

#include "data.h"

typedef struct tokens {
  cn_mapping file;  /* or */
  cn_tensor *tensor;
  const unsigned char *memory;
  size_t element; /* bytes: 1, 2, 4 or 8 */
  bool is_signed;
  int64_t n, length, stride;
} tokens;

static int64_t tokens_length(void *data)
{
  const tokens *t = data;
  return t->n > t->length ? (t->n - t->length - 1) / t->stride + 1 : 0;
}

static void tokens_free(void *data)
{
  tokens *t = data;
  cn_map_close(&t->file);
  cn_release(t->tensor);
  cn_free(t, sizeof *t);
}

#define WIDEN(T)                                                             \
  do                                                                         \
    for (int64_t i = 0; i < n; i++) {                                        \
      T v;                                                                   \
      memcpy(&v, t->memory + (size_t)(from + i) * sizeof v, sizeof v);       \
      to[i] = (int64_t)v;                                                    \
    }                                                                        \
  while (0)

static void widen(int64_t *to, const tokens *t, int64_t from, int64_t n)
{
  if (t->element == 8) memcpy(to, t->memory + (size_t)from * 8, (size_t)n * 8);
  else if (t->element == 4 && t->is_signed) WIDEN(int32_t);
  else if (t->element == 4) WIDEN(uint32_t);
  else if (t->element == 2 && t->is_signed) WIDEN(int16_t);
  else if (t->element == 2) WIDEN(uint16_t);
  else if (t->is_signed) WIDEN(int8_t);
  else WIDEN(uint8_t);
}

/* Windows indices[0..n) and the same one token further, into two (n, length) tensors. */
static int windows(cn_tensor *out[2], const tokens *t, const int64_t *indices, size_t n, bool stacked)
{
  int64_t shape[2] = {(int64_t)n, t->length};
  for (int shift = 0; shift < 2; shift++) {
    out[shift] = cn_empty(shape + !stacked, stacked ? 2 : 1, .dtype = CN_I64, .device = CN_CPU);
    int64_t *to = out[shift] ? cn_data(out[shift]) : NULL;
    if (!to) return cn_err();
    for (size_t i = 0; i < n; i++) widen(to + (int64_t)i * t->length, t, indices[i] * t->stride + shift, t->length);
  }
  return CN_OK;
}

static int tokens_get(cn_sample *sample, void *data, int64_t index, cn_draws *draws)
{
  cn_tensor *xy[2];
  (void)draws;
  if (windows(xy, data, &index, 1, false)) return cn_err();
  *sample = (cn_sample){.v = {cn_keep(xy[0]), cn_keep(xy[1])}, .n = 2};
  return CN_OK;
}

static int tokens_batch(cn_batch *batch, void *data, const int64_t *indices, size_t n)
{
  cn_tensor *xy[2];
  if (windows(xy, data, indices, n, true)) return cn_err();
  *batch = (cn_batch){.v = {cn_keep(xy[0]), cn_keep(xy[1])}, .n = 2};
  return CN_OK;
}

static const cn_dataset_class tokens_class = {
  .size = sizeof(cn_dataset_class),
  .name = "tokens", .length = tokens_length, .get = tokens_get, .free = tokens_free, .batch = tokens_batch};

static tokens *make_tokens(int64_t length, int64_t stride)
{
  if (length < 1 || stride < 0)
    cn_err_set(CN_ERR_VALUE, "tokens: windows of %lld every %lld", (long long)length, (long long)stride);
  tokens *t = cn_err() ? NULL : cn_alloc_zero(sizeof *t);
  if (!t) return NULL;
  t->length = length;
  t->stride = stride ? stride : length;
  return t;
}

cn_dataset *cn_token_file(const char *path, cn_dtype dtype, int64_t length, int64_t stride)
{
  tokens *t = make_tokens(length, stride);
  if (!t) return NULL;
  t->element = cn_dtype_is_int(dtype) ? cn_dtype_size(dtype) : 0;
  t->is_signed = cn_dtype_is_signed(dtype);
  if (!t->element) cn_err_set(CN_ERR_DTYPE, "tokens: %s is no type of tokens", cn_dtype_name(dtype));
  else if (!cn_map_open(&t->file, path) && t->file.size % t->element)
    cn_err_set(CN_ERR_IO, "%s: is not a whole number of tokens of %zu bytes", path, t->element);
  if (cn_err()) {
    tokens_free(t);
    return NULL;
  }
  t->memory = t->file.data;
  t->n = (int64_t)(t->file.size / t->element);
  return cn_dataset_new(&tokens_class, t);
}

cn_dataset *cn_token_tensor(cn_tensor *given, int64_t length, int64_t stride)
{
  tokens *t = make_tokens(length, stride);
  if (!t) return NULL;
  cn_scope *s = cn_scope_begin();
  if (!given || cn_ndim(given) != 1 || !cn_dtype_is_int(cn_dtype_of(given)))
    cn_err_set(CN_ERR_SHAPE, "tokens: a row (one dimension) of integers is needed");
  if (cn_device_of(given) != CN_CPU) given = cn_to_device(given, CN_CPU);
  t->tensor = cn_keep(cn_contiguous(given));
  t->memory = t->tensor ? cn_data(t->tensor) : NULL;
  t->n = cn_numel(t->tensor);
  t->element = cn_dtype_size(cn_dtype_of(t->tensor));
  t->is_signed = cn_dtype_is_signed(cn_dtype_of(t->tensor));
  cn_scope_end(s);
  if (!cn_err()) return cn_dataset_new(&tokens_class, t);
  tokens_free(t);
  return NULL;
}
