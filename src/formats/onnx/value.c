/* value.c: see value.h. */
#include "value.h"

#include <cairn/ext/system.h>

static cn_onnx_value *value_new(cn_onnx_kind kind, size_t n)
{
  cn_onnx_value *v = cn_alloc_zero(sizeof *v);
  if (!v) return NULL;
  atomic_init(&v->refs, 1);
  v->kind = kind;
  v->items = n ? cn_alloc_zero(n * sizeof *v->items) : NULL;
  if (n && !v->items) {
    cn_free(v, sizeof *v);
    return NULL;
  }
  v->n = n;
  return v;
}

cn_onnx_value *cn_onnx_value_none(void) { return value_new(CN_ONNX_NONE, 0); }

cn_onnx_value *cn_onnx_value_tensor(cn_tensor *t)
{
  if (!t && !cn_err()) cn_err_set(CN_ERR_TYPE, "onnx: the tensor is missing (NULL)");
  cn_onnx_value *v = t ? value_new(CN_ONNX_TENSOR, 0) : NULL;
  if (v) v->t = cn_keep(t);
  return v;
}

cn_onnx_value *cn_onnx_value_strings(const cn_strings *s)
{
  if (!s->bytes || !s->lengths) return cn_onnx_value_tensor(NULL);
  cn_onnx_value *v = value_new(CN_ONNX_STRINGS, 0);
  if (!v) return NULL;
  v->t = cn_keep(s->bytes);
  v->lengths = cn_keep(s->lengths);
  return v;
}

cn_onnx_value *cn_onnx_value_sequence(cn_onnx_value *const *values, size_t n)
{
  cn_onnx_value *v = value_new(CN_ONNX_SEQUENCE, n);
  for (size_t i = 0; v && i < n; i++) v->items[i] = cn_onnx_value_keep(values[i]);
  return v;
}

cn_onnx_value *cn_onnx_value_map(cn_onnx_value *keys, cn_onnx_value *values)
{
  cn_onnx_value *v = keys && values ? value_new(CN_ONNX_MAP, 2) : cn_onnx_value_tensor(NULL);
  if (!v) return NULL;
  v->items[0] = cn_onnx_value_keep(keys);
  v->items[1] = cn_onnx_value_keep(values);
  return v;
}

cn_onnx_value *cn_onnx_value_keep(cn_onnx_value *v)
{
  if (v) atomic_fetch_add_explicit(&v->refs, 1, memory_order_relaxed);
  return v;
}

void cn_onnx_value_release(cn_onnx_value *v)
{
  if (!v || atomic_fetch_sub_explicit(&v->refs, 1, memory_order_acq_rel) != 1) return;
  for (size_t i = 0; i < v->n; i++) cn_onnx_value_release(v->items[i]);
  cn_free(v->items, v->n * sizeof *v->items);
  cn_release(v->t);
  cn_release(v->lengths);
  cn_release(v->known);
  cn_free(v, sizeof *v);
}

cn_onnx_kind cn_onnx_value_kind(const cn_onnx_value *v) { return v ? v->kind : CN_ONNX_NONE; }
cn_tensor *cn_onnx_value_as_tensor(const cn_onnx_value *v) { return v && v->kind == CN_ONNX_TENSOR ? v->t : NULL; }
size_t cn_onnx_value_size(const cn_onnx_value *v) { return v ? v->n : 0; }
cn_onnx_value *cn_onnx_value_at(const cn_onnx_value *v, size_t i) { return v && i < v->n ? v->items[i] : NULL; }

bool cn_onnx_value_as_strings(cn_strings *out, const cn_onnx_value *v)
{
  if (!v || v->kind != CN_ONNX_STRINGS) return false;
  *out = (cn_strings){v->t, v->lengths};
  return true;
}

cn_onnx_value *cni_onnx_value_know(cn_onnx_value *v, cn_tensor *known)
{
  if (v && v->kind == CN_ONNX_TENSOR && !v->known && known) v->known = cn_keep(known);
  return v;
}
