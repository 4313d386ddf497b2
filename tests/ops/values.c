/* values.c: the numbers in a sample's tensors. tests/golden/samples.py makes the same ones; change both together.
 *
 * Invariant: an element depends on the line's text, the literal's number and the element's number only. */
#include <math.h>

#include "base/convert.h"
#include "base/dtype.h"
#include "sample.h"

uint64_t sample_hash(uint64_t seed, int literal, int64_t element)
{
  uint64_t z = ((uint64_t)element + 1 + ((uint64_t)literal << 32)) * 0x9e3779b97f4a7c15u + seed;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

static int64_t elements(const sample_literal *l)
{
  int64_t n = 1;
  for (int i = 0; i < l->ndim; i++) n *= l->shape[i];
  return l->layout == 'e' ? n / l->shape[0] : n;
}

/* How many of the literal's hashes are smaller than that of element i: a random permutation. */
static int64_t rank(const sample *s, const sample_literal *l, int64_t i)
{
  uint64_t mine = sample_hash(s->hash, l->index, i);
  int64_t below = 0;
  for (int64_t k = 0, n = elements(l); k < n; k++) below += sample_hash(s->hash, l->index, k) < mine;
  return below;
}

static double float_value(const sample *s, const sample_literal *l, int dtype, int64_t i)
{
  static const double special[] = {NAN, INFINITY, -INFINITY, -0.0, 0.0};
  uint64_t x = sample_hash(s->hash, l->index, i);
  int bits = dtype == CN_F16 || dtype == CN_BF16 ? 6 : 22;
  double k = (double)(x >> (64 - bits)) / (double)(1 << bits);
  switch (l->range) {
  case '+': return 0.125 + 2 * k;
  case '>': return 1.125 + 2 * k;
  case '<': return 1.75 * k - 0.875;
  case '%': return (double)(x % (uint64_t)l->arg);
  case '~': return (double)(rank(s, l, i) - elements(l) / 2) * 0.25 + 0.0625;
  case '!': return (x & 7) < 5 ? special[x & 7] : 4 * k - 2;
  default: return 4 * k - 2;
  }
}

static int64_t limit_value(int dtype, uint64_t x, int64_t plain)
{
  bool is_signed = cn_dtype_is_signed((cn_dtype)dtype);
  int bits = 8 * (int)cn_dtype_size((cn_dtype)dtype) - is_signed;
  uint64_t high = UINT64_MAX >> (64 - bits);
  switch (x >> 8 & 7) {
  case 0: return is_signed ? -(int64_t)high - 1 : 0;
  case 1: return (int64_t)high;
  case 2: return 0;
  case 3: return is_signed ? -1 : 1;
  default: return plain;
  }
}

static int64_t int_value(const sample *s, const sample_literal *l, int dtype, int64_t i)
{
  uint64_t x = sample_hash(s->hash, l->index, i);
  bool is_signed = cn_dtype_is_signed((cn_dtype)dtype);
  int64_t plain = (int64_t)(x % 16) - (is_signed ? 8 : 0);
  if (dtype == CN_BOOL) return (l->range == '%' ? x % (uint64_t)l->arg : x >> 40 & 1) != 0;
  switch (l->range) {
  case '+': return (int64_t)(x % 8) + 1;
  case '<': return is_signed ? (int64_t)(x % 3) - 1 : (int64_t)(x % 2);
  case '%': return (int64_t)(x % (uint64_t)l->arg);
  case '~': return rank(s, l, i) - (is_signed ? elements(l) / 2 : 0);
  case '!': return limit_value(dtype, x, plain);
  default: return plain;
  }
}

/* Both parts of a complex number, as elements 2 i and 2 i + 1 of a real tensor; those of = and {} are real. */
static void store_complex(const sample *s, const sample_literal *l, int dtype, int64_t i, void *array, int64_t at)
{
  int type = cni_dtype_part(dtype);
  const sample_item *it = l->range == '=' ? &s->values[l->first + (l->count > 1 ? i : 0)] : NULL;
  for (int k = 0; k < 2; k++)
    cni_store_f64(array, 2 * at + k, type, it ? (k ? 0 : it->f) : float_value(s, l, type, 2 * i + k));
}

void sample_store(const sample *s, const sample_literal *l, int dtype, int64_t i, void *array, int64_t at)
{
  bool is_float = cn_dtype_is_float((cn_dtype)dtype);
  if (l->layout == 'e') i %= elements(l); /* rows of an expanded tensor are one row */
  if (cn_dtype_is_complex((cn_dtype)dtype)) {
    store_complex(s, l, dtype, i, array, at);
    return;
  }
  if (l->range == '=') {
    const sample_item *it = &s->values[l->first + (l->count > 1 ? i : 0)];
    if (is_float) cni_store_f64(array, at, dtype, it->f);
    else cni_store_i64(array, at, dtype, it->i);
  } else if (is_float) {
    cni_store_f64(array, at, dtype, float_value(s, l, dtype, i));
  } else {
    cni_store_i64(array, at, dtype, int_value(s, l, dtype, i));
  }
}
