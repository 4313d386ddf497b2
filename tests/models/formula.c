/* formula.c: see formula.h. The same arithmetic as golden.py's, in double and rounded to float at the end. */
#include "formula.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

uint64_t formula_hash(const char *text, uint64_t from)
{
  uint64_t h = from ? from : 0xCBF29CE484222325u;
  for (; *text; text++) h = (h ^ (unsigned char)*text) * 0x100000001B3u;
  return h;
}

static uint64_t word(uint64_t name, uint64_t i)
{
  uint64_t z = name + (i + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

double formula_unit(uint64_t name, uint64_t i) { return (double)(word(name, i) >> 40) * 0x1p-23 - 1; }

static void fill_one(const char *name, cn_tensor *t)
{
  const char *dot = strrchr(name, '.'), *last = dot ? dot + 1 : name;
  uint64_t h = formula_hash(name, 0);
  int64_t n = cn_numel(t);
  double base = 0, scale = n ? 1.5 / sqrt((double)n / (double)(cn_ndim(t) ? cn_shape(t)[0] : 1)) : 0;
  if (!strcmp(last, "running_var")) base = 1, scale = 0.5;
  else if (cn_ndim(t) == 1 && strstr(last, "weight")) base = 1, scale = 0.2;
  else if (cn_ndim(t) == 1) scale = 0.1;
  float *v = malloc((size_t)n * sizeof *v);
  if (!v) return;
  for (int64_t i = 0; i < n; i++) v[i] = (float)(base + formula_unit(h, (uint64_t)i) * scale);
  cn_copy_from_data(t, v, (size_t)n * sizeof *v);
  free(v);
}

void formula_fill(cn_module *m)
{
  cn_named_list list;
  if (cn_module_named(&list, m, CN_PARAMETERS | CN_BUFFERS)) return;
  for (size_t i = 0; i < list.n; i++)
    if (cn_dtype_is_float(cn_dtype_of(list.v[i].tensor))) fill_one(list.v[i].name, list.v[i].tensor);
  cn_named_free(&list);
}

static cn_tensor *made(const char *name, const int64_t *shape, size_t ndim)
{
  uint64_t h = formula_hash(name, 0);
  cn_tensor *t = cn_zeros(shape, ndim, .dtype = CN_F32);
  float *v = cn_data(t);
  for (int64_t i = 0; v && i < cn_numel(t); i++) v[i] = (float)formula_unit(h, (uint64_t)i);
  return t;
}

cn_tensor *formula_image(const int64_t *shape, size_t ndim) { return made("input", shape, ndim); }

cn_tensor *formula_units(const char *name, const cn_tensor *like)
{
  return made(name, cn_shape(like), (size_t)cn_ndim(like));
}

cn_tensor *formula_tokens(int64_t batch, int64_t length, int64_t vocab)
{
  cn_tensor *t = cn_zeros(CN_SHAPE(batch, length), .dtype = CN_I64);
  int64_t *v = cn_data(t);
  uint64_t h = formula_hash("tokens", 0);
  for (int64_t i = 0; v && i < batch * length; i++) v[i] = (int64_t)(word(h, (uint64_t)i) % (uint64_t)vocab);
  return t;
}
