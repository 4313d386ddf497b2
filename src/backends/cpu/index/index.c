/* index.c: CPU kernels that read by index: gather, index_select, embedding, index, nonzero.
 *
 * Place in the flow: below apply. All but nonzero are one walk: the result, the index numbers (stride 0 where they do
 * not vary) and the input without its indexed dims. Invariant: a number is checked before it is used. */
#include "index.h"

#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/walk/iter.h"
#include "backends/cpu/walk/nontemporal.h"
#include "backends/cpu/walk/rows.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "tensor/tensor.h"

enum { GRAIN = 16384, AHEAD = 4 /* rows fetched before they are copied */, FETCHED = 128 /* bytes of each */ };

/* ---- index numbers ---- */

int cni_numbers_open(cni_numbers *n, const cn_desc *index, bool packed)
{
  n->d = *index;
  n->copy = NULL;
  n->size = 0;
  if (index->dtype == CN_I64 && (!packed || cni_is_contiguous(index->ndim, index->shape, index->strides)))
    return CN_OK;
  n->size = (size_t)index->numel * sizeof(int64_t);
  if (!(n->copy = cni_scratch_alloc(n->size))) return CN_ERR_MEMORY;
  n->d = cni_cpu_packed(index, CN_I64, n->copy);
  cni_cpu_copy(&n->d, index);
  return CN_OK;
}

void cni_numbers_close(cni_numbers *n)
{
  cni_scratch_free(n->copy, n->size);
  n->copy = NULL;
}

static int index_error(const cn_call *c, int64_t number, int64_t size, int dim)
{
  return cn_call_fail(c, CN_ERR_INDEX, "index %lld is out of range for dimension %d of size %lld",
                      (long long)number, dim, (long long)size);
}

typedef struct checking {
  const cn_call *c;
  int64_t size;
  int dim;
} checking;

static void check_row(char *const *ptr, const int64_t *stride, int64_t n, void *payload)
{
  const checking *k = payload;
  const char *at = ptr[0];
  uint64_t size = (uint64_t)k->size, signs = 0;
  if (stride[0] == (int64_t)sizeof(int64_t)) { /* neither a number nor what is left above it is negative */
    const int64_t *numbers = (const int64_t *)(const void *)at;
    for (int64_t i = 0; i < n; i++) signs |= (uint64_t)numbers[i] | (size - 1 - (uint64_t)numbers[i]);
    if (!(signs >> 63)) return;
  }
  for (int64_t i = 0; i < n; i++, at += stride[0]) {
    int64_t number = *(const int64_t *)(const void *)at;
    if ((uint64_t)number < size) continue;
    index_error(k->c, number, k->size, k->dim);
    return;
  }
}

int cni_numbers_check(const cn_call *c, const cni_numbers *n, int64_t size, int dim)
{
  checking k = {c, size, dim};
  cni_iter it;
  cni_iter_begin(&it, n->d.ndim, n->d.shape);
  cni_iter_add(&it, &n->d);
  cni_iter_finish(&it);
  cni_iter_run(&it, GRAIN * 8, check_row, &k);
  return cn_err();
}

/* ---- one walk ---- */

typedef struct reading {
  const cn_call *c;
  int64_t size, step; /* of the indexed dim: how many, and bytes from one to the next */
  int dim;
  bool checked;       /* the numbers are known to be good */
  size_t elem;
} reading;

typedef struct two_words {
  uint64_t word[2];
} two_words;

/* Packed numbers and result, all from one row of a packed input: the usual gather along the last dim. */
#define READ_PACKED(T)                                                                \
  do {                                                                                \
    T *to = (T *)(void *)out;                                                         \
    const T *from = (const T *)(const void *)in;                                      \
    const int64_t *numbers = (const int64_t *)(const void *)index;                    \
    for (int64_t i = 0; i < n; i++) {                                                 \
      if (!checked && (uint64_t)numbers[i] >= size) {                                 \
        index_error(r->c, numbers[i], r->size, r->dim);                           \
        return;                                                                       \
      }                                                                               \
      to[i] = from[numbers[i]];                                                       \
    }                                                                                 \
  } while (0)

#define READ_LOOP(T)                                                                  \
  case sizeof(T):                                                                     \
    if (packed && step == (int64_t)sizeof(T)) {                                       \
      READ_PACKED(T);                                                                 \
      break;                                                                          \
    }                                                                                 \
    for (int64_t i = 0; i < n; i++) {                                                 \
      int64_t number = *(const int64_t *)(const void *)(index + i * stride[1]);       \
      if (!checked && (uint64_t)number >= size) {                                     \
        index_error(r->c, number, r->size, r->dim);                               \
        return;                                                                       \
      }                                                                               \
      memcpy(out + i * stride[0], in + i * stride[2] + number * step, sizeof(T));     \
    }                                                                                 \
    break

/* Operands: result, numbers, input. */
static void read_row(char *const *ptr, const int64_t *stride, int64_t n, void *payload)
{
  const reading *r = payload;
  char *out = ptr[0];
  const char *index = ptr[1], *in = ptr[2];
  uint64_t size = (uint64_t)r->size;
  int64_t step = r->step;
  bool checked = r->checked;
  if (stride[1] == 0 && r->elem < sizeof(two_words)) { /* one number for the whole run */
    int64_t number = *(const int64_t *)(const void *)index;
    if (!checked && (uint64_t)number >= size) index_error(r->c, number, r->size, r->dim);
    else cni_row_copy(out, stride[0], in + number * step, stride[2], r->elem, n);
    return;
  }
  bool packed = stride[0] == (int64_t)r->elem && stride[1] == (int64_t)sizeof(int64_t) && stride[2] == 0;
  switch (r->elem) {
    READ_LOOP(uint8_t);
    READ_LOOP(uint16_t);
    READ_LOOP(uint32_t);
    READ_LOOP(uint64_t);
    READ_LOOP(two_words); /* complex128 */
  default: break;
  }
}

/* Fills y; istrides and xstrides (in elements) are those of the numbers and the input over y's shape. */
static int read_all(const reading *r, const cn_desc *y, int64_t *numbers, const int64_t *istrides, const cn_desc *x,
                    const int64_t *xstrides)
{
  cni_iter it;
  cni_iter_begin(&it, y->ndim, y->shape);
  cni_iter_add(&it, y);
  cni_iter_add_strided(&it, numbers, istrides, sizeof(int64_t));
  cni_iter_add_strided(&it, x->data, xstrides, r->elem);
  cni_iter_finish(&it);
  cni_iter_run(&it, GRAIN, read_row, (void *)r);
  return cn_err();
}

/* Whole rows: packed numbers and result, rows of the input dense. */
typedef struct rowwise {
  const reading *r;
  const int64_t *numbers;
  char *out;
  const char *in;
  int64_t bytes; /* of a row */
  bool nontemporal; /* past the caches */
} rowwise;

static void fetch_row(const rowwise *w, int64_t number)
{
  if ((uint64_t)number >= (uint64_t)w->r->size) return;
  int64_t most = w->bytes < FETCHED ? w->bytes : FETCHED;
  for (int64_t k = 0; k < most; k += CNI_LINE) __builtin_prefetch(w->in + number * w->r->step + k);
}

static void copy_rows(int64_t begin, int64_t end, void *payload)
{
  const rowwise *w = payload;
  for (int64_t i = begin; i < end; i++) {
    int64_t number = w->numbers[i];
    if ((uint64_t)number >= (uint64_t)w->r->size) {
      index_error(w->r->c, number, w->r->size, w->r->dim);
      return;
    }
    if (i + AHEAD < end) fetch_row(w, w->numbers[i + AHEAD]);
    char *to = w->out + i * w->bytes;
    const char *from = w->in + number * w->r->step;
    if (w->nontemporal) cni_nontemporal_copy(to, from, (size_t)w->bytes);
    else memcpy(to, from, (size_t)w->bytes);
  }
  if (w->nontemporal) cni_nontemporal_end();
}

/* Takes the call where rows of x, indexed along dim 0, are dense and numbers and y packed. */
static bool read_rows(const reading *r, const cn_desc *y, const cni_numbers *n, const cn_desc *x)
{
  int64_t row = x->ndim && x->shape[0] ? x->numel / x->shape[0] : 0;
  if (row * (int64_t)r->elem < CNI_LINE || !n->d.numel) return false;
  if (!cni_is_contiguous(x->ndim - 1, x->shape + 1, x->strides + 1)) return false;
  if (!cni_is_contiguous(y->ndim, y->shape, y->strides)) return false;
  if (!cni_is_contiguous(n->d.ndim, n->d.shape, n->d.strides)) return false;
  int64_t bytes = row * (int64_t)r->elem;
  rowwise w = {r, n->d.data, y->data, x->data, bytes, cni_nontemporal_pays(2 * y->numel * (int64_t)r->elem)};
  cni_parallel_for(n->d.numel, GRAIN / row + 1, copy_rows, &w);
  return true;
}

static reading reading_along(const cn_call *c, const cn_desc *x, int dim)
{
  reading r = {.c = c, .dim = dim, .elem = cni_dtype_size(x->dtype), .size = x->ndim ? x->shape[dim] : 1};
  r.step = x->ndim ? x->strides[dim] * (int64_t)r.elem : 0;
  return r;
}

/* ---- gather(input, dim, index) ---- */

static int gather_kernel(cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[0]), *y = cn_desc_of(c->out[0]);
  int dim = cni_dim_arg(c, x);
  reading r = reading_along(c, x, dim);
  int64_t xstrides[CN_MAX_DIMS] = {0};
  cni_numbers n;
  int status = cni_numbers_open(&n, cn_desc_of(c->in[1]), false);
  for (int i = 0; i < x->ndim; i++) xstrides[i] = i == dim ? 0 : x->strides[i];
  if (!status) status = read_all(&r, y, n.d.data, n.d.strides, x, xstrides);
  cni_numbers_close(&n);
  return status;
}

/* ---- index_select(input, dim, index) ---- */

static int index_select_kernel(cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[0]), *y = cn_desc_of(c->out[0]);
  int dim = cni_dim_arg(c, x);
  reading r = reading_along(c, x, dim);
  int64_t xstrides[CN_MAX_DIMS] = {0}, istrides[CN_MAX_DIMS] = {0};
  cni_numbers n;
  int status = cni_numbers_open(&n, cn_desc_of(c->in[1]), false);
  for (int i = 0; i < x->ndim; i++) xstrides[i] = i == dim ? 0 : x->strides[i];
  if (n.d.ndim) istrides[dim] = n.d.strides[0];
  if (!status && dim == 0 && read_rows(&r, y, &n, x)) status = cn_err();
  else if (!status) status = read_all(&r, y, n.d.data, istrides, x, xstrides);
  cni_numbers_close(&n);
  return status;
}

/* ---- embedding(input, weight, padding_idx) ---- */

static int embedding_kernel(cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[1]), *y = cn_desc_of(c->out[0]);
  reading r = reading_along(c, x, 0);
  int64_t xstrides[CN_MAX_DIMS] = {0}, istrides[CN_MAX_DIMS] = {0};
  cni_numbers n;
  int status = cni_numbers_open(&n, cn_desc_of(c->in[0]), false);
  memcpy(istrides, n.d.strides, (size_t)n.d.ndim * sizeof *istrides);
  xstrides[n.d.ndim] = x->strides[1];
  if (!status && read_rows(&r, y, &n, x)) status = cn_err();
  else if (!status) status = read_all(&r, y, n.d.data, istrides, x, xstrides);
  cni_numbers_close(&n);
  return status;
}

/* ---- index(input, indices) ---- */

/* Adds the positions that one index tensor names to offsets; bad numbers are an error. */
static int add_offsets(int64_t *offsets, const cn_call *c, const int64_t *numbers, int64_t n, const cn_desc *x,
                       int dim)
{
  int64_t size = x->shape[dim], stride = x->strides[dim];
  for (int64_t i = 0; i < n; i++) {
    int64_t number = numbers[i] < 0 ? numbers[i] + size : numbers[i];
    if (number < 0 || number >= size) return index_error(c, numbers[i], size, dim);
    offsets[i] += number * stride;
  }
  return CN_OK;
}

int cni_plan_offsets(cni_numbers *n, const cn_call *c, const cni_index_plan *p, const cn_desc *x)
{
  cn_desc wide = {.dtype = CN_I64, .ndim = p->wide, .numel = 1, .device = CN_CPU};
  for (int i = 0; i < p->wide; i++) wide.numel *= wide.shape[i] = p->shape[p->at + i];
  n->size = (size_t)wide.numel * sizeof(int64_t);
  n->copy = cni_scratch_alloc_zero(n->size);
  void *numbers = cni_scratch_alloc(n->size);
  int status = n->copy && numbers ? CN_OK : CN_ERR_MEMORY;
  n->d = cni_cpu_packed(&wide, CN_I64, n->copy);
  wide = cni_cpu_packed(&wide, CN_I64, numbers);
  for (int k = 0; k < p->n && !status; k++) {
    cni_cpu_copy(&wide, cn_desc_of(p->index[k]));
    status = add_offsets(n->copy, c, numbers, wide.numel, x, p->dim[k]);
  }
  cni_scratch_free(numbers, n->size);
  return status;
}

int cni_can_index(const cn_call *c, cn_plan *plan)
{
  plan->refusal = "masks are made positions first";
  for (int i = 1; i < c->nin; i++)
    if (c->in[i] && cn_desc_of(c->in[i])->dtype == CN_BOOL) return CN_REFUSED;
  return CN_OK;
}

static int index_kernel(cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[0]);
  cni_index_plan p;
  cni_numbers n;
  int status = cni_index_plan_make(&p, c, x, c->in + 1, c->nin - 1);
  if (status) return status;
  reading r = {.c = c, .checked = true, .elem = cni_dtype_size(x->dtype), .step = (int64_t)cni_dtype_size(x->dtype)};
  int64_t xstrides[CN_MAX_DIMS] = {0}, istrides[CN_MAX_DIMS] = {0};
  status = cni_plan_offsets(&n, c, &p, x);
  for (int i = 0; i < p.ndim; i++) {
    if (i >= p.at && i < p.at + p.wide) istrides[i] = n.d.strides[i - p.at];
    else xstrides[i] = x->strides[p.from[i]];
  }
  if (!status) status = read_all(&r, cn_desc_of(c->out[0]), n.d.data, istrides, x, xstrides);
  cni_numbers_close(&n);
  return status;
}

/* ---- nonzero(input) ---- */

static int64_t count_set(const uint8_t *set, int64_t n)
{
  int64_t count = 0;
  for (int64_t i = 0; i < n; i++) count += set[i];
  return count;
}

/* Writes the position of each set element; set is row-major over x's shape. */
static void write_positions(int64_t *out, const uint8_t *set, const cn_desc *x)
{
  int64_t at[CN_MAX_DIMS] = {0};
  int last = x->ndim - 1;
  if (x->ndim == 0) return;
  for (int64_t i = 0; i < x->numel; i += x->shape[last]) {
    for (at[last] = 0; at[last] < x->shape[last]; at[last]++) {
      if (!set[i + at[last]]) continue;
      memcpy(out, at, (size_t)x->ndim * sizeof *at);
      out += x->ndim;
    }
    for (int k = last - 1; k >= 0 && ++at[k] == x->shape[k]; k--) at[k] = 0;
  }
}

static int nonzero_kernel(cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[0]);
  size_t size = (size_t)x->numel;
  bool direct = x->dtype == CN_BOOL && cni_is_contiguous(x->ndim, x->shape, x->strides);
  uint8_t *set = direct ? x->data : cni_scratch_alloc(size);
  if (!set) return CN_ERR_MEMORY;
  if (!direct) {
    cn_desc to = cni_cpu_packed(x, CN_BOOL, set);
    cni_cpu_copy(&to, x);
  }
  int64_t shape[2] = {count_set(set, x->numel), x->ndim};
  c->out[0] = cni_tensor_new(c->device, CN_I64, 2, shape, NULL);
  if (c->out[0]) write_positions(c->out[0]->d.data, set, x);
  if (!direct) cni_scratch_free(set, size);
  return c->out[0] ? CN_OK : CN_ERR_MEMORY;
}

const cn_kernel cni_cpu_index_kernels[] = {
    {"gather", "reference", gather_kernel},
    {"index_select", "reference", index_select_kernel},
    {"embedding", "reference", embedding_kernel},
    {"index", "reference", index_kernel, cni_can_index},
    {"nonzero", "reference", nonzero_kernel},
    {NULL, NULL, NULL},
};
