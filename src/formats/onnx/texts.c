/* texts.c: see texts.h. Invariant: what is read is of the host, whatever device the bytes are on. */
#include "texts.h"

#include <stdlib.h>
#include <string.h>

int cni_onnx_texts_in(cni_onnx_texts *out, cni_onnx_call *c, size_t i)
{
  cn_strings s;
  if (cni_onnx_strings_in(&s, c, i)) return cn_err();
  size_t nbytes = (size_t)cn_numel(s.bytes), n = (size_t)cn_numel(s.lengths), at = 0;
  *out = (cni_onnx_texts){.n = (int64_t)n, .shaped = s.lengths};
  char *bytes = cni_onnx_room(c, nbytes + 1, 1), *copies = cni_onnx_room(c, nbytes + n + 1, 1);
  out->s = cni_onnx_room(c, n + 1, sizeof *out->s);
  out->sizes = cni_onnx_room(c, n + 1, sizeof *out->sizes);
  if (!bytes || !copies || !out->s || !out->sizes) return cn_err();
  if (cn_to_data(bytes, nbytes, s.bytes) || cn_to_data(out->sizes, n * sizeof(int64_t), s.lengths)) return cn_err();
  for (size_t k = 0; k < n; k++) {
    size_t size = (size_t)out->sizes[k];
    if (out->sizes[k] < 0 || size > nbytes - at)
      return cni_onnx_fail(c, CN_ERR_VALUE, "strings longer than their bytes");
    out->s[k] = memcpy(copies + at + k, bytes + at, size);
    at += size;
  }
  return CN_OK;
}

int cni_onnx_out_texts(cni_onnx_call *c, size_t i, const char *const *s, const int64_t *shape, size_t ndim)
{
  cn_strings made = {NULL, NULL};
  cn_strings_from(&made, s, shape, ndim);
  return cni_onnx_out_strings(c, i, &made);
}

typedef struct place {
  const char *s;
  int64_t at;
} place;

/* By bytes, which of UTF-8 is by code points. */
static int by_bytes(const void *a, const void *b) { return strcmp(((const place *)a)->s, ((const place *)b)->s); }

cn_tensor *cni_onnx_ranks(cn_tensor **of, cni_onnx_call *c, size_t i)
{
  cni_onnx_texts x;
  if (cni_onnx_texts_in(&x, c, i)) return NULL;
  size_t n = (size_t)x.n;
  place *sorted = cni_onnx_room(c, n + 1, sizeof *sorted);
  int64_t *ranks = cni_onnx_room(c, n + 1, sizeof *ranks), *where = cni_onnx_room(c, n + 1, sizeof *where), last = -1;
  if (!sorted || !ranks || !where) return NULL;
  for (size_t k = 0; k < n; k++) sorted[k] = (place){x.s[k], (int64_t)k};
  qsort(sorted, n, sizeof *sorted, by_bytes);
  for (size_t k = 0; k < n; k++) {
    if (!k || by_bytes(&sorted[k], &sorted[k - 1])) where[++last] = sorted[k].at;
    ranks[sorted[k].at] = last;
  }
  *of = cn_from_data(where, CN_SHAPE(last + 1), CN_I64);
  return cn_from_data(ranks, cn_shape(x.shaped), (size_t)cn_ndim(x.shaped), CN_I64);
}

int cni_onnx_out_chosen(cni_onnx_call *c, cn_tensor *condition)
{
  cni_onnx_texts a, b;
  cn_tensor *first = cni_onnx_in_moved(c, 1), *second = cni_onnx_in_moved(c, 2);
  if (!condition || !first || !second || cni_onnx_texts_in(&a, c, 1) || cni_onnx_texts_in(&b, c, 2)) return cn_err();
  cn_tensor *at = cn_where(condition, first, cn_add(second, cn_int(a.n)));
  size_t n = at ? (size_t)cn_numel(at) : 0;
  int64_t *places = cni_onnx_room(c, n + 1, sizeof *places);
  const char **chosen = cni_onnx_room(c, n + 1, sizeof *chosen);
  if (!at || !places || !chosen || cn_to_data(places, n * sizeof *places, at)) return cn_err();
  for (size_t i = 0; i < n; i++) chosen[i] = places[i] < a.n ? a.s[places[i]] : b.s[places[i] - a.n];
  return cni_onnx_out_texts(c, 0, chosen, cn_shape(at), (size_t)cn_ndim(at));
}
