/* scatter.c: CPU kernels that write by index: scatter and its reductions, index_add, index_copy, index_fill, index_put,
 * embedding_grad.
 *
 * Place in the flow: each describes its call as a `writing`: a walk over the dims that are not indexed, and `count`
 * positions along those that are. Threads share the walk, never the positions, so equal indices are reduced in order.
 * Invariant: the destination may be the input itself, so every index is checked before the first write. */
#include "scatter.h"

#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/walk/iter.h"
#include "base/convert.h"
#include "base/dtype.h"
#include "base/scratch.h"
#include "index.h"
#include "tensor/tensor.h"

enum { GRAIN = 16384, RESULT = 0, NUMBERS = 1, SOURCE = 2 };

typedef struct writing {
  cni_put_loops loops;
  int ndim; /* dims of the walk */
  int64_t shape[CN_MAX_DIMS];
  int64_t dstrides[CN_MAX_DIMS], istrides[CN_MAX_DIMS], sstrides[CN_MAX_DIMS]; /* in elements */
  int64_t count, istep, sstep, unit; /* positions; elements from one to the next; of the result per index number */
  int64_t skip;                      /* positions with this number are passed over */
  size_t elem;
  _Alignas(8) char scale[8];         /* in the type written */
} writing;

static void write_row(char *const *ptr, const int64_t *stride, int64_t n, void *payload)
{
  const writing *w = payload;
  char *dst = ptr[RESULT];
  const char *index = ptr[NUMBERS], *src = ptr[SOURCE];
  int64_t unit = w->unit * (int64_t)w->elem, istep = w->istep * (int64_t)sizeof(int64_t);
  int64_t sstep = w->sstep * (int64_t)w->elem;
  if (stride[NUMBERS] == 0 && (n > 1 || w->skip != INT64_MIN)) { /* whole runs */
    for (int64_t k = 0; k < w->count; k++) {
      int64_t number = *(const int64_t *)(const void *)(index + k * istep);
      if (number == w->skip) continue;
      w->loops.run(dst + number * unit, stride[RESULT], src + k * sstep, stride[SOURCE], n, w->scale);
    }
  } else if (n > 1 && stride[NUMBERS] <= istep) {
    for (int64_t k = 0; k < w->count; k++)
      w->loops.each(dst, stride[RESULT], unit, index + k * istep, stride[NUMBERS], src + k * sstep, stride[SOURCE], n,
                    w->scale);
  } else {
    for (int64_t j = 0; j < n; j++)
      w->loops.each(dst + j * stride[RESULT], 0, unit, index + j * stride[NUMBERS], istep, src + j * stride[SOURCE],
                    sstep, w->count, w->scale);
  }
}

static void write_all(writing *w, void *dst, void *numbers, void *src)
{
  cni_iter it;
  if (w->count == 0) return;
  cni_iter_begin(&it, w->ndim, w->shape);
  cni_iter_add_strided(&it, dst, w->dstrides, w->elem);
  cni_iter_add_strided(&it, numbers, w->istrides, sizeof(int64_t));
  cni_iter_add_strided(&it, src, w->sstrides, w->elem);
  cni_iter_finish(&it);
  cni_iter_run(&it, GRAIN / w->count + 1, write_row, w);
}

/* ---- the result and the source in the type that is computed in ---- */

/* Halves are reduced as float32; everything else, and plain writing, in its own type. */
static int work_type(int dtype, enum cni_put put)
{
  return put != CNI_PUT_SET && (dtype == CN_F16 || dtype == CN_BF16) ? CN_F32 : dtype;
}

/* The destination while it is worked on: the result itself, or a float32 copy of it. */
typedef struct target {
  cn_desc d;
  void *copy;
  size_t size;
} target;

/* Makes the result input (zeros when x is NULL), then brings it into the work type. */
static int target_open(target *t, const cn_desc *y, const cn_desc *x, int type)
{
  static const int64_t zero = 0;
  cn_desc none = {.data = (void *)&zero, .numel = 1, .dtype = y->dtype};
  t->d = *y;
  t->copy = NULL;
  t->size = cni_dtype_bytes(type, y->numel);
  if (type != y->dtype) {
    if (!(t->copy = cni_scratch_alloc(t->size))) return CN_ERR_MEMORY;
    t->d = cni_cpu_packed(y, type, t->copy);
  }
  if (!x) x = &none;
  if (x->data != t->d.data) cni_cpu_copy(&t->d, x);
  return CN_OK;
}
static void target_close(target *t, const cn_desc *y)
{
  if (!t->copy) return;
  cni_cpu_copy(y, &t->d);
  cni_scratch_free(t->copy, t->size);
}

/* The source in the work type: itself, or a row-major copy (`packed`: row-major in any case). */
typedef struct source {
  cn_desc d;
  void *copy;
  size_t size;
} source;

static int source_open(source *s, const cn_desc *src, int type, bool packed)
{
  s->d = *src;
  s->copy = NULL;
  s->size = cni_dtype_bytes(type, src->numel);
  if (src->dtype == type && (!packed || cni_is_contiguous(src->ndim, src->shape, src->strides))) return CN_OK;
  if (!(s->copy = cni_scratch_alloc(s->size))) return CN_ERR_MEMORY;
  s->d = cni_cpu_packed(src, type, s->copy);
  cni_cpu_copy(&s->d, src);
  return CN_OK;
}
static void source_close(source *s) { cni_scratch_free(s->copy, s->size); }

/* In place, an input that is the destination would be read while it is written. */
static bool reads_destination(const cn_call *c)
{
  const void *data = cn_desc_of(c->out[0])->data;
  for (int i = 1; i < c->nin; i++)
    if (c->in[i] && cn_desc_of(c->in[i])->data == data && cn_desc_of(c->in[i])->numel) return true;
  return false;
}
static int can_write(const cn_call *c, cn_plan *plan)
{
  plan->refusal = "an input is the destination";
  return reads_destination(c) ? CN_REFUSED : CN_OK;
}

/* ---- along one dim: inputs are (input, index, src), parameters (input, dim, index, src, ...) ---- */

/* `spread`: the index is a vector along dim; else it has the shape of what is written. */
static void writing_along(writing *w, int dim, const cn_desc *y, const cn_desc *index, const cn_desc *src,
                          bool spread)
{
  int ndim = y->ndim ? y->ndim : 1;
  w->ndim = ndim;
  w->count = spread ? index->numel : index->ndim ? index->shape[dim] : 1;
  w->istep = index->ndim ? index->strides[spread ? 0 : dim] : 0;
  w->sstep = src->ndim ? src->strides[dim] : 0;
  w->unit = y->ndim ? y->strides[dim] : 0;
  for (int i = 0; i < ndim; i++) {
    const cn_desc *sizes = spread ? y : index;
    w->shape[i] = i == dim || !sizes->ndim ? 1 : sizes->shape[i];
    w->dstrides[i] = y->ndim ? y->strides[i] : 0;
    w->istrides[i] = spread || !index->ndim ? 0 : index->strides[i];
    w->sstrides[i] = src->ndim ? src->strides[i] : 0;
  }
}

static int write_along(cn_call *c, enum cni_put put, bool spread, const cn_value *alpha)
{
  const cn_desc *x = cn_desc_of(c->in[0]), *y = cn_desc_of(c->out[0]), *src = cn_desc_of(c->in[SOURCE]);
  int dim = cni_dim_arg(c, x), type = work_type(y->dtype, put);
  writing w = {.loops = cni_put_find(put, type), .skip = INT64_MIN, .elem = cni_dtype_size(type)};
  if (alpha && alpha->tag == CN_V_FLOAT) cni_store_f64(w.scale, 0, type, alpha->u.f);
  else cni_store_i64(w.scale, 0, type, alpha ? alpha->u.i : 1);
  cni_numbers n;
  source s = {.copy = NULL};
  target t = {.copy = NULL};
  int status = cni_numbers_open(&n, cn_desc_of(c->in[NUMBERS]), false);
  bool any = n.d.numel && src->numel; /* with nothing to write no index is looked at, as in the op forward */
  if (!status && any) status = cni_numbers_check(c, &n, x->ndim ? x->shape[dim] : 1, dim);
  if (!status) status = source_open(&s, src, type, false);
  if (!status) status = target_open(&t, y, x, type);
  if (type == CN_BOOL && put == CNI_PUT_ADD && !cni_load_i64(w.scale, 0, type)) any = false; /* false times all */
  if (!status && any) {
    writing_along(&w, dim, &t.d, &n.d, &s.d, spread);
    write_all(&w, t.d.data, n.d.data, s.d.data);
  }
  target_close(&t, y); /* after a failure too: the result is dropped then */
  source_close(&s);
  cni_numbers_close(&n);
  return status;
}

static int scatter_kernel(cn_call *c) { return write_along(c, CNI_PUT_SET, false, NULL); }
static int scatter_add_kernel(cn_call *c) { return write_along(c, CNI_PUT_ADD, false, NULL); }
static int scatter_reduce_self_kernel(cn_call *c)
{
  const char *reduce = c->args[4].u.s;
  enum cni_put put = !strcmp(reduce, "prod") ? CNI_PUT_MUL : !strcmp(reduce, "amax") ? CNI_PUT_MAX : CNI_PUT_MIN;
  return write_along(c, put, false, NULL);
}
static int index_add_kernel(cn_call *c) { return write_along(c, CNI_PUT_ADD, true, &c->args[4]); }
static int index_copy_kernel(cn_call *c) { return write_along(c, CNI_PUT_SET, true, NULL); }

/* ---- index_put(input, indices, values, accumulate) ---- */

/* The walk is over the dims without an index; the source is laid out as (positions, walk). */
static void writing_put(writing *w, const cni_index_plan *p, const cn_desc *y, int64_t count, bool one)
{
  int64_t stride = 1;
  w->ndim = 0;
  w->count = count;
  w->istep = w->unit = 1;
  for (int i = 0; i < p->ndim; i++) {
    if (i >= p->at && i < p->at + p->wide) continue;
    w->shape[w->ndim] = p->shape[i];
    w->dstrides[w->ndim++] = y->strides[p->from[i]];
  }
  for (int i = w->ndim - 1; i >= 0; i--) {
    w->istrides[i] = 0;
    w->sstrides[i] = one ? 0 : stride;
    stride *= w->shape[i];
  }
  w->sstep = one ? 0 : stride;
}

/* values broadcast to what is selected, positions first, in the work type. */
static int values_open(source *s, const cn_desc *values, const cni_index_plan *p, int type)
{
  cn_desc from = {.data = values->data, .dtype = values->dtype, .ndim = p->ndim, .numel = 1, .device = CN_CPU};
  int lead = p->ndim - values->ndim, n = 0;
  if (values->numel == 1) {
    from.ndim = 0;
    return source_open(s, &from, type, false);
  }
  for (int round = 0; round < 2; round++)
    for (int i = 0; i < p->ndim; i++) {
      bool wide = i >= p->at && i < p->at + p->wide;
      if (wide != (round == 0)) continue;
      bool own = i >= lead && values->shape[i - lead] != 1;
      from.strides[n] = own ? values->strides[i - lead] : 0;
      from.numel *= from.shape[n++] = p->shape[i];
    }
  s->size = cni_dtype_bytes(type, from.numel);
  if (type == from.dtype && cni_is_contiguous(from.ndim, from.shape, from.strides)) {
    s->d = from;
    return CN_OK;
  }
  if (!(s->copy = cni_scratch_alloc(s->size))) return CN_ERR_MEMORY;
  s->d = cni_cpu_packed(&from, type, s->copy);
  cni_cpu_copy(&s->d, &from);
  return CN_OK;
}

static int index_put_kernel(cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[0]), *y = cn_desc_of(c->out[0]), *values = cn_desc_of(c->in[c->nin - 1]);
  enum cni_put put = c->args[3].u.i ? CNI_PUT_ADD : CNI_PUT_SET;
  int type = work_type(y->dtype, put);
  writing w = {.loops = cni_put_find(put, type), .skip = INT64_MIN, .elem = cni_dtype_size(type)};
  cni_index_plan p;
  int status = cni_index_plan_make(&p, c, x, c->in + 1, c->nin - 2);
  if (status) return status;
  cni_store_i64(w.scale, 0, type, 1);
  cni_numbers n = {.copy = NULL};
  source s = {.copy = NULL};
  target t = {.copy = NULL};
  cn_desc work = *y; /* offsets are in what is written: the result, or a packed copy of it */
  if (type != y->dtype) work = cni_cpu_packed(y, type, NULL);
  status = cni_plan_offsets(&n, c, &p, &work);
  if (!status) status = values_open(&s, values, &p, type);
  if (!status) status = target_open(&t, y, x, type);
  if (!status && n.d.numel) {
    writing_put(&w, &p, &t.d, n.d.numel, s.d.ndim == 0);
    write_all(&w, t.d.data, n.d.data, s.d.data);
  }
  target_close(&t, y); /* after a failure too: the result is dropped then */
  source_close(&s);
  cni_numbers_close(&n);
  return status;
}

/* ---- embedding_grad(grad, input, num_weights, padding_idx) ---- */

static int embedding_grad_kernel(cn_call *c)
{
  const cn_desc *g = cn_desc_of(c->in[0]), *y = cn_desc_of(c->out[0]);
  int type = work_type(y->dtype, CNI_PUT_ADD);
  int64_t width = y->shape[1];
  writing w = {.loops = cni_put_find(CNI_PUT_ADD, type), .skip = INT64_MIN, .elem = cni_dtype_size(type), .ndim = 1};
  if (c->args[3].tag != CN_V_NONE) w.skip = c->args[3].u.i;
  cni_store_i64(w.scale, 0, type, 1);
  cni_numbers n;
  source s = {.copy = NULL};
  target t = {.copy = NULL};
  int status = cni_numbers_open(&n, cn_desc_of(c->in[1]), true);
  if (!status && g->numel) status = cni_numbers_check(c, &n, y->shape[0], 0);
  if (!status) status = target_open(&t, y, NULL, type);
  if (!status) status = source_open(&s, g, type, true);
  w.shape[0] = width;
  w.dstrides[0] = w.sstrides[0] = w.istep = 1;
  w.count = n.d.numel;
  w.sstep = w.unit = width;
  if (!status && g->numel) write_all(&w, t.d.data, n.d.data, s.d.data);
  target_close(&t, y); /* after a failure too: the result is dropped then */
  source_close(&s);
  cni_numbers_close(&n);
  return status;
}

/* index_put(input, indices, values, accumulate): its values may be of a mask's type. */
static int can_put(const cn_call *c, cn_plan *plan)
{
  cn_call indices = *c;
  indices.nin--;
  int status = cni_can_index(&indices, plan);
  return status ? status : can_write(c, plan);
}

const cn_kernel cni_cpu_scatter_kernels[] = {
    {"scatter", "reference", scatter_kernel, can_write},
    {"scatter_add", "reference", scatter_add_kernel, can_write},
    {"scatter_reduce_self", "reference", scatter_reduce_self_kernel, can_write},
    {"index_add", "reference", index_add_kernel, can_write},
    {"index_copy", "reference", index_copy_kernel, can_write},
    {"index_fill", "reference", index_copy_kernel, can_write},
    {"index_put", "reference", index_put_kernel, can_put},
    {"embedding_grad", "reference", embedding_grad_kernel},
    {NULL, NULL, NULL},
};
