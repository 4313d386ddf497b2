/* collate.c: samples put together to a batch: stacked, or padded to the longest first. See data.h.
 *
 * Place in the flow: the loader calls one of these, or the program's own, for each batch; its default also comes one
 * sample at a time (cni_stack_*), so that n large samples never lie in memory beside their batch.
 * Invariant: a batch that was begun and failed is cleared by whoever began it. */
#include <string.h>

#include "data.h"
#include "loader.h"

/* ---- stack ---- */

/* A field that is not as in the first sample, whose rows `to` has. */
static int differ(const cn_tensor *to, const cn_tensor *from, size_t field)
{
  cn_text t = {0};
  cn_text_putf(&t, "%s ", cn_dtype_name(cn_dtype_of(to)));
  cn_text_put_sizes(&t, cn_shape(to) + 1, (size_t)cn_ndim(to) - 1);
  cn_text_putf(&t, " in one sample and %s ", cn_dtype_name(cn_dtype_of(from)));
  cn_text_put_sizes(&t, cn_shape(from), (size_t)cn_ndim(from));
  int status = cn_err_set(CN_ERR_SHAPE, "collate: field %zu is %s in another; make them alike with a map or a "
                          "transform, or pad them (cn_collate_pad)", field, t.s ? t.s : "of one shape");
  cn_text_free(&t);
  return status;
}

/* Room for n samples like the first one. */
static int stack_begin(cn_batch *batch, const cn_sample *first, size_t n)
{
  for (size_t i = 0; i < first->n; i++) {
    int64_t shape[CN_MAX_DIMS + 1];
    int ndim = cn_ndim(first->v[i]);
    if (!first->v[i]) return cn_err_set(CN_ERR_TYPE, "collate: field %zu is missing (NULL)", i);
    if (ndim == CN_MAX_DIMS) return cn_err_set(CN_ERR_SHAPE, "collate: field %zu has %d dimensions", i, ndim);
    shape[0] = (int64_t)n;
    if (ndim) memcpy(shape + 1, cn_shape(first->v[i]), (size_t)ndim * sizeof *shape);
    cn_tensor *t = cn_empty(shape, (size_t)ndim + 1, .dtype = cn_dtype_of(first->v[i]), .device = CN_CPU);
    if (!t) return cn_err();
    batch->v[batch->n++] = cn_keep(t);
  }
  return CN_OK;
}

static int stack_field(cn_tensor *to, size_t row, cn_tensor *from, size_t field)
{
  int ndim = cn_ndim(to) - 1;
  bool same = from && cn_ndim(from) == ndim && cn_dtype_of(from) == cn_dtype_of(to);
  for (int d = 0; same && d < ndim; d++) same = cn_size(from, d) == cn_size(to, d + 1);
  if (!same) return differ(to, from, field);
  size_t size = cn_tensor_nbytes(from);
  char *memory = size ? cn_data(to) : NULL;
  if (!memory) return cn_err();
  return cn_to_data(memory + row * size, size, from);
}

int cni_stack_add(cn_batch *batch, size_t row, const cn_sample *sample, size_t n)
{
  int status = row ? CN_OK : stack_begin(batch, sample, n);
  if (!status && sample->n != batch->n)
    status = cn_err_set(CN_ERR_SHAPE, "collate: samples of %zu and of %zu fields", batch->n, sample->n);
  for (size_t i = 0; i < batch->n && !status; i++) status = stack_field(batch->v[i], row, sample->v[i], i);
  return status;
}

int cn_collate_stack(cn_batch *batch, const cn_sample *samples, size_t n, void *payload)
{
  (void)payload;
  int status = CN_OK;
  cn_scope *s = cn_scope_begin();
  for (size_t i = 0; i < n && !status; i++) status = cni_stack_add(batch, i, &samples[i], n);
  cn_scope_end(s);
  return status;
}

/* ---- pad ---- */

/* The largest size of field i in each dimension, behind the batch's own. */
static int longest(int64_t *shape, const cn_sample *samples, size_t n, size_t i)
{
  int ndim = cn_ndim(samples[0].v[i]);
  if (ndim >= CN_MAX_DIMS) return cn_err_set(CN_ERR_SHAPE, "collate: field %zu has %d dimensions", i, ndim);
  shape[0] = (int64_t)n;
  for (int d = 0; d < ndim; d++) shape[d + 1] = 0;
  for (size_t k = 0; k < n; k++) {
    cn_tensor *t = i < samples[k].n ? samples[k].v[i] : NULL;
    if (samples[k].n != samples[0].n || !t || cn_ndim(t) != ndim || cn_dtype_of(t) != cn_dtype_of(samples[0].v[i]))
      return cn_err_set(CN_ERR_SHAPE, "collate: field %zu differs in number of dimensions or type", i);
    for (int d = 0; d < ndim; d++)
      if (cn_size(t, d) > shape[d + 1]) shape[d + 1] = cn_size(t, d);
  }
  return CN_OK;
}

static cn_tensor *pad_field(const cn_sample *samples, size_t n, size_t i, double value)
{
  int64_t shape[CN_MAX_DIMS + 1];
  if (longest(shape, samples, n, i)) return NULL;
  int ndim = cn_ndim(samples[0].v[i]);
  cn_tensor *t = cn_full(shape, (size_t)ndim + 1, value, .dtype = cn_dtype_of(samples[0].v[i]), .device = CN_CPU);
  for (size_t k = 0; k < n && t; k++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *to = cn_select(t, 0, (int64_t)k), *from = samples[k].v[i];
    for (int d = 0; d < ndim; d++) to = cn_narrow(to, d, 0, cn_size(from, d));
    if (!cn_copy_(to, from)) t = NULL;
    cn_scope_end(s);
  }
  return t;
}

int cn_collate_pad(cn_batch *batch, const cn_sample *samples, size_t n, void *payload)
{
  double value = payload ? *(const double *)payload : 0;
  size_t fields = n ? samples[0].n : 0;
  if (fields + 1 > CN_SAMPLE_FIELDS)
    return cn_err_set(CN_ERR_VALUE, "collate: no room for lengths behind %zu fields", fields);
  cn_scope *s = cn_scope_begin();
  for (size_t i = 0; i < fields && !cn_err(); i++) {
    cn_tensor *t = pad_field(samples, n, i, value);
    if (t) batch->v[batch->n++] = cn_keep(t);
  }
  cn_tensor *lengths = cn_empty(CN_SHAPE((int64_t)n), .dtype = CN_I64, .device = CN_CPU);
  int64_t *to = lengths ? cn_data(lengths) : NULL;
  for (size_t k = 0; to && k < n; k++)
    to[k] = fields && cn_ndim(samples[k].v[0]) ? cn_size(samples[k].v[0], 0) : 1;
  if (to) batch->v[batch->n++] = cn_keep(lengths);
  cn_scope_end(s);
  return cn_err();
}
