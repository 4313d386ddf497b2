/* rows.c: data sets over tensors in memory: sample i is row i of each. See data.h.
 *
 * Place in the flow: what most readers end in; the loader's fast path. Invariant: the memory of the tensors is
 * row-major on the CPU, so that a row is one piece and a batch is n copies of memory. */
#include <string.h>

#include "data.h"

typedef struct field {
  cn_tensor *t; /* (rows, ...) */
  const char *memory;
  size_t row;      /* bytes of a row as stored */
  int64_t numel;   /* of a row */
  cn_dtype dtype;  /* as it comes out */
  bool convert;    /* uint8 to float32 through the table */
} field;

typedef struct rows {
  int64_t length;
  size_t n;
  field fields[CN_SAMPLE_FIELDS];
  float table[256]; /* what a byte stands for */
} rows;

static int64_t rows_length(void *data) { return ((rows *)data)->length; }

static void rows_free(void *data)
{
  rows *r = data;
  for (size_t i = 0; i < r->n; i++) cn_release(r->fields[i].t);
  cn_free(r, sizeof *r);
}

/* Row `index` to `to`. */
static inline void write_row(char *to, const rows *r, const field *f, int64_t index)
{
  const char *from = f->memory + (size_t)index * f->row;
  if (f->convert) {
    float *out = (float *)(void *)to;
    for (int64_t k = 0; k < f->numel; k++) out[k] = r->table[(unsigned char)from[k]];
  } else if (f->row == 8) memcpy(to, from, 8); /* labels: no call */
  else memcpy(to, from, f->row);
}

static int rows_get(cn_sample *sample, void *data, int64_t index, cn_draws *draws)
{
  const rows *r = data;
  (void)draws;
  for (size_t i = 0; i < r->n; i++) {
    const field *f = &r->fields[i];
    cn_tensor *t = cn_empty(cn_shape(f->t) + 1, (size_t)cn_ndim(f->t) - 1, .dtype = f->dtype, .device = CN_CPU);
    char *to = t ? cn_data(t) : NULL;
    if (!to && f->numel) return cn_err();
    if (to) write_row(to, r, f, index);
    sample->v[sample->n++] = cn_keep(t);
  }
  return CN_OK;
}

static int rows_batch(cn_batch *batch, void *data, const int64_t *indices, size_t n)
{
  const rows *r = data;
  for (size_t i = 0; i < r->n; i++) {
    const field *f = &r->fields[i];
    int64_t shape[CN_MAX_DIMS];
    size_t ndim = (size_t)cn_ndim(f->t);
    memcpy(shape, cn_shape(f->t), ndim * sizeof *shape);
    shape[0] = (int64_t)n;
    cn_tensor *t = cn_empty(shape, ndim, .dtype = f->dtype, .device = CN_CPU);
    char *to = t ? cn_data(t) : NULL;
    size_t step = cn_dtype_bytes(f->dtype, f->numel);
    if (!to && step) return cn_err();
    for (size_t k = 0; to && k < n; k++) write_row(to + k * step, r, f, indices[k]);
    batch->v[batch->n++] = cn_keep(t);
  }
  return CN_OK;
}

static const cn_dataset_class tensors_class = {
  .size = sizeof(cn_dataset_class),
  .name = "tensors", .length = rows_length, .get = rows_get, .free = rows_free, .batch = rows_batch};

static int add_field(rows *r, cn_tensor *t, bool convert)
{
  if (!t) return cn_err_set(CN_ERR_TYPE, "data set: tensor %zu is missing (NULL)", r->n);
  if (cn_ndim(t) < 1) return cn_err_set(CN_ERR_SHAPE, "data set: tensor %zu has no rows", r->n);
  if (r->n && cn_size(t, 0) != r->length)
    return cn_err_set(CN_ERR_SHAPE, "data set: tensor %zu has %lld rows, the first one %lld", r->n,
                      (long long)cn_size(t, 0), (long long)r->length);
  if (cn_device_of(t) != CN_CPU) t = cn_to_device(t, CN_CPU);
  if (t && !cn_is_contiguous(t)) t = cn_contiguous(t);
  if (!t) return cn_err();
  field *f = &r->fields[r->n++];
  r->length = cn_size(t, 0);
  *f = (field){.t = cn_keep(t), .dtype = convert ? CN_F32 : cn_dtype_of(t), .convert = convert, .numel = 1};
  for (int d = 1; d < cn_ndim(t); d++) f->numel *= cn_size(t, d);
  f->row = cn_dtype_bytes(cn_dtype_of(t), f->numel);
  f->memory = cn_numel(t) ? cn_data(t) : "";
  return f->memory ? CN_OK : cn_err();
}

cn_dataset *cni_dataset_rows(const char *name, cn_tensor *const *tensors, size_t n, float divisor)
{
  if (cn_err()) return NULL;
  if (n < 1 || n > CN_SAMPLE_FIELDS) {
    cn_err_set(CN_ERR_VALUE, "data set: of %zu tensors; a sample has 1 to %d", n, CN_SAMPLE_FIELDS);
    return NULL;
  }
  rows *r = cn_alloc_zero(sizeof *r);
  if (!r) return NULL;
  cn_scope *s = cn_scope_begin();
  int status = CN_OK;
  for (size_t i = 0; i < n && !status; i++)
    status = add_field(r, tensors[i], divisor > 0 && i == 0 && cn_dtype_of(tensors[i]) == CN_U8);
  cn_scope_end(s);
  for (int i = 0; i < 256; i++) r->table[i] = (float)i / (divisor > 0 ? divisor : 1);
  if (!status) return cni_dataset_named(cn_dataset_new(&tensors_class, r), name);
  rows_free(r);
  return NULL;
}

cn_dataset *cn_dataset_tensors(cn_tensor *const *tensors, size_t n)
{
  return cni_dataset_rows("tensors", tensors, n, 0);
}
