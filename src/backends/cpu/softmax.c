/* softmax.c: softmax, log_softmax, their gradients and logsumexp along one dim on the CPU.
 *
 * Place in the flow: kernels of ops/softmax.c; loops in softmax_isa.c, extremes and sums from reduce_isa.c.
 * Lines that lie in a row are taken row by row, lines side by side in blocks of columns; what is strided or
 * of a small float type goes through a buffer. Invariant: a line's result does not depend on how lines are
 * split among threads. */
#include "softmax.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "cast.h"
#include "cpu.h"
#include "isa.h"
#include "ops/infer.h"
#include "rows.h"
#include "stream.h"

enum {
  GRAIN = 8192,
  COLUMNS = CNI_SOFTMAX_COLUMNS,
  ROWS = 16, /* of long columns, between which sums are scaled */
  BLOCK = 1024,
  STACK = 512,
  CACHE = 1 << 19,
  STREAM_ROW = 32768 /* bytes */
};
enum kind { SOFTMAX, LOG_SOFTMAX, SOFTMAX_GRAD, LOG_SOFTMAX_GRAD, LOGSUMEXP };

typedef struct job {
  enum kind kind;
  cni_lines l;
  const cni_softmax_loops *s;
  const cni_fold_loops *max, *sum;
  const char *a, *b; /* the input; or gradient and result of the forward op, in one layout */
  char *y;
  int64_t columns;         /* lines side by side taken together: as many as the cache holds */
  int64_t size, tsize;     /* bytes of an element, and of the type it is computed in */
  cni_cast_fn load, store; /* NULL: computed as it is */
  bool streams;            /* y goes past the caches */
  bool is_long;            /* lines side by side are read twice */
} job;

static const cni_softmax_table *table(void) { return CNI_BY_ISA(cni_softmax_table); }

/* ---- one line in a row ---- */

static double row_max(const job *j, const void *x, int64_t n)
{
  cni_wide w;
  j->max->rows(&w, x, 1, 0, n);
  return w.f;
}

static double row_sum(const job *j, const void *x, int64_t n)
{
  cni_wide w;
  j->sum->rows(&w, x, 1, 0, n);
  return w.f;
}

/* log(sum(exp(x))) without overflow; of nothing, -inf. */
static double row_logsumexp(const job *j, const char *x, int64_t n)
{
  _Alignas(64) char power[BLOCK * 8];
  double max = row_max(j, x, n), sum = 0;
  if (isinf(max)) max = 0; /* the infinity comes out of the sum, or of its logarithm */
  for (int64_t i = 0; i < n; i += BLOCK) {
    int64_t m = n - i < BLOCK ? n - i : BLOCK;
    j->s->exp_row(power, x + i * j->tsize, m, max);
    sum += row_sum(j, power, m);
  }
  return max + log(sum);
}

/* y, a and b: n elements of the compute type. logsumexp writes one. */
static void run_row(const job *j, void *y, const void *a, const void *b, int64_t n)
{
  double max;
  switch (j->kind) {
  case SOFTMAX:
    j->s->exp_row(y, a, n, row_max(j, a, n));
    j->s->divide_row(y, n, row_sum(j, y, n));
    break;
  case LOG_SOFTMAX:
    max = row_max(j, a, n);
    j->s->exp_row(y, a, n, max);
    j->s->shift_row(y, a, n, max, log(row_sum(j, y, n)));
    break;
  case SOFTMAX_GRAD: j->s->grad_row(y, a, b, n, j->s->dot(a, b, n)); break;
  case LOG_SOFTMAX_GRAD: j->s->log_grad_row(y, a, b, n, row_sum(j, a, n)); break;
  case LOGSUMEXP:
    if (j->tsize == 4) *(float *)y = (float)row_logsumexp(j, a, n);
    else *(double *)y = row_logsumexp(j, a, n);
  }
}

/* Rows of results past the caches: each is made in a buffer that stays there. */
static void stream_rows(const job *j, cni_walk w, int64_t count)
{
  const cni_lines *l = &j->l;
  _Alignas(64) char row[STREAM_ROW];
  for (int64_t i = 0; i < count; i++) {
    run_row(j, row, j->a + w.in * j->size, j->b + w.in * j->size, l->n);
    cni_stream_copy(j->y + w.out * j->size, row, (size_t)(l->n * j->size));
    cni_walk_step(&w, l->nk, l->ksize, l->kin, l->kout);
  }
  cni_stream_end();
}

static void rows(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  const cni_lines *l = &j->l;
  cni_walk w;
  cni_walk_to(&w, l->nk, l->ksize, l->kin, l->kout, begin);
  bool packed = l->nk <= 1 && (l->nk == 0 || (l->kin[0] == l->n && l->kout[0] == l->n));
  if (packed && l->n <= CNI_SOFTMAX_SHORT && j->kind <= LOG_SOFTMAX) {
    j->s->short_rows(j->y + w.out * j->size, j->a + w.in * j->size, end - begin, l->n,
                     j->kind == LOG_SOFTMAX);
    return;
  }
  if (j->streams && l->n * j->tsize <= STREAM_ROW) {
    stream_rows(j, w, end - begin);
    return;
  }
  for (int64_t i = begin; i < end; i++) {
    run_row(j, j->y + w.out * j->size, j->a + w.in * j->size, j->b + w.in * j->size, l->n);
    cni_walk_step(&w, l->nk, l->ksize, l->kin, l->kout);
  }
}

/* ---- any line, through buffers of the compute type ---- */

static void load_line(const job *j, void *to, const char *from, void *raw)
{
  bool strided = j->l.xstep != 1;
  if (strided) {
    cni_row_gather(j->load ? raw : to, from, j->l.xstep * j->size, (size_t)j->size, j->l.n);
    from = raw;
  }
  if (j->load) j->load(to, from, (size_t)j->l.n);
  else if (!strided) memcpy(to, from, (size_t)(j->l.n * j->size));
}

static void store_line(const job *j, char *to, const void *from, void *raw)
{
  int64_t n = j->kind == LOGSUMEXP ? 1 : j->l.n;
  if (j->store && (j->l.ystep == 1 || n == 1)) {
    j->store(to, from, (size_t)n);
    return;
  }
  if (j->store) j->store(raw, from, (size_t)n);
  cni_row_copy(to, j->l.ystep * j->size, j->store ? raw : from, j->size, (size_t)j->size, n);
}

static void lines(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  const cni_lines *l = &j->l;
  _Alignas(64) char stack[4 * STACK * 8];
  cni_walk w;
  size_t size = 4 * (size_t)(l->n ? l->n : 1) * 8;
  char *room = size <= sizeof stack ? stack : cni_alloc(size), *a = room, *b = a + size / 4,
       *y = b + size / 4;
  if (!room) return; /* the error is set, and reaches the caller */
  cni_walk_to(&w, l->nk, l->ksize, l->kin, l->kout, begin);
  for (int64_t i = begin; i < end; i++) {
    load_line(j, a, j->a + w.in * j->size, y + size / 4);
    if (j->b != j->a) load_line(j, b, j->b + w.in * j->size, y + size / 4);
    run_row(j, y, a, j->b != j->a ? b : a, l->n);
    store_line(j, j->y + w.out * j->size, y, y + size / 4);
    cni_walk_step(&w, l->nk, l->ksize, l->kin, l->kout);
  }
  if (room != stack) cni_free(room, size);
}

/* ---- lines side by side ---- */

/* m lines; steps are bytes from row to row. */
static void run_columns(const job *j, char *y, const char *a, const char *b, int64_t m)
{
  _Alignas(64) char max[COLUMNS * 8], sum[COLUMNS * 8];
  int64_t n = j->l.n, in = j->l.xstep * j->size, out = j->l.ystep * j->size;
  const cni_softmax_loops *s = j->s;
  memset(sum, 0, (size_t)(m * j->tsize));
  if (j->kind == SOFTMAX || j->kind == LOG_SOFTMAX) {
    j->max->start(NULL, max, m);
    j->max->columns(max, a, n, j->l.xstep, m);
    for (int64_t r = 0; r < n; r++) s->exp_columns(y + r * out, sum, a + r * in, max, m);
    if (j->kind == LOG_SOFTMAX) s->log_columns(sum, m);
    for (int64_t r = 0; r < n; r++) {
      if (j->kind == SOFTMAX) s->divide_columns(y + r * out, sum, m);
      else s->shift_columns(y + r * out, a + r * in, max, sum, m);
    }
  } else if (j->kind == SOFTMAX_GRAD) {
    for (int64_t r = 0; r < n; r++) s->dot_columns(sum, a + r * in, b + r * in, m);
    for (int64_t r = 0; r < n; r++) s->grad_columns(y + r * out, a + r * in, b + r * in, sum, m);
  } else {
    j->sum->columns(sum, a, n, j->l.xstep, m);
    for (int64_t r = 0; r < n; r++) s->log_grad_columns(y + r * out, a + r * in, b + r * in, sum, m);
  }
}

/* Row r of m columns of x in the compute type. */
static const void *load_columns(const job *j, const char *x, int64_t r, int64_t m, void *room)
{
  const char *at = x + r * j->l.xstep * j->size;
  if (!j->load) return at;
  j->load(room, at, (size_t)m);
  return room;
}

/* One row of m results, made in `made`. */
static void store_columns(const job *j, char *y, const void *made, int64_t m)
{
  size_t bytes = (size_t)(m * j->size);
  if (j->store) j->store(y, made, (size_t)m);
  else if (j->streams && cni_stream_fits(y)) cni_stream(y, made, bytes, NULL, NULL, 0);
  else memcpy(y, made, bytes);
}

/* m lines of any length: x is read twice, in order of memory. */
static void long_columns(const job *j, char *y, const char *x, int64_t m)
{
  _Alignas(64) char max[COLUMNS * 8], sum[COLUMNS * 8], room[ROWS * COLUMNS * 8], made[COLUMNS * 8];
  int64_t n = j->l.n, out = j->l.ystep * j->size, in = j->l.xstep * j->size;
  const cni_softmax_loops *s = j->s;
  s->start_columns(sum, max, m);
  for (int64_t r = 0; r < n; r += ROWS) {
    int64_t rows = n - r < ROWS ? n - r : ROWS;
    for (int64_t k = r + ROWS; k < r + 2 * ROWS && k < n; k++) cni_fetch(x + k * in, m * j->size);
    for (int64_t k = 0; j->load && k < rows; k++) load_columns(j, x, r + k, m, room + k * m * j->tsize);
    if (j->load) s->more_columns(sum, max, room, rows, m, m);
    else s->more_columns(sum, max, x + r * in, rows, j->l.xstep, m);
  }
  if (j->kind == SOFTMAX) s->invert_columns(sum, m);
  else s->log_columns(sum, m);
  for (int64_t r = 0; r < n && j->kind != LOGSUMEXP; r++) {
    const void *row = load_columns(j, x, r, m, room);
    if (r + 2 < n) cni_fetch(x + (r + 2) * in, m * j->size);
    if (j->kind == SOFTMAX) s->part_columns(made, row, max, sum, m);
    else s->shift_columns(made, row, max, sum, m);
    store_columns(j, y + r * out, made, m);
  }
  if (j->kind == LOGSUMEXP) {
    s->total_columns(made, max, sum, m);
    store_columns(j, y, made, m);
  }
  if (j->streams) cni_stream_end();
}

/* Units: (outer index, block of columns). */
static void column_blocks(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  const cni_lines *l = &j->l;
  int last = l->nk - 1;
  int64_t width = l->ksize[last], blocks = (width + j->columns - 1) / j->columns;
  for (int64_t u = begin; u < end; u++) {
    cni_walk w;
    int64_t column = u % blocks * j->columns, m = width - column < j->columns ? width - column : j->columns;
    cni_walk_to(&w, last, l->ksize, l->kin, l->kout, u / blocks);
    int64_t in = (w.in + column) * j->size;
    if (j->is_long) long_columns(j, j->y + (w.out + column) * j->size, j->a + in, m);
    else run_columns(j, j->y + (w.out + column) * j->size, j->a + in, j->b + in, m);
  }
}

/* ---- kernels ---- */

static void run(job *j)
{
  const cni_lines *l = &j->l;
  int last = l->nk - 1;
  int64_t grain = l->n < GRAIN ? GRAIN / (l->n ? l->n : 1) : 1;
  if (l->count == 0) return;
  bool backward = j->kind == SOFTMAX_GRAD || j->kind == LOG_SOFTMAX_GRAD;
  bool beside = l->nk && l->kin[last] == 1 && l->kout[last] == 1 && l->ksize[last] >= 4 && !(j->load && backward);
  if (!j->load && l->xstep == 1 && (l->ystep == 1 || j->kind == LOGSUMEXP) && !(beside && l->n == 1)) {
    cni_parallel_for(l->count, grain, rows, j);
  } else if (beside) {
    bool fits = 2 * l->n * j->size * COLUMNS <= CACHE; /* else lines may fall into few sets of the cache */
    j->is_long = !backward && (!fits || j->load || j->kind == LOGSUMEXP);
    j->columns = COLUMNS;
    int64_t units = l->count / l->ksize[last] * ((l->ksize[last] + j->columns - 1) / j->columns);
    int64_t work = l->count * (l->n ? l->n : 1) / units;
    cni_parallel_for(units, work < GRAIN ? GRAIN / (work ? work : 1) : 1, column_blocks, j);
  } else {
    cni_parallel_for(l->count, grain, lines, j);
  }
}

static int start(job *j, enum kind kind, const cn_desc *a, const cn_desc *b, const cn_desc *y, int dim)
{
  enum cni_compute class = cni_compute_class(y->dtype);
  int compute = cni_compute_dtype(class);
  const cni_fold_loops *folds = cni_folds()->loops[class];
  j->kind = kind;
  j->s = &table()->loops[class];
  j->max = &folds[CNI_FOLD_MAX];
  j->sum = &folds[CNI_FOLD_SUM];
  j->a = a->data;
  j->b = b->data;
  j->y = y->data;
  j->size = (int64_t)cni_dtype_size(y->dtype);
  j->tsize = (int64_t)cni_dtype_size(compute);
  j->load = y->dtype == compute ? NULL : cni_cast_find(y->dtype, compute);
  j->store = y->dtype == compute ? NULL : cni_cast_find(compute, y->dtype);
  cni_lines_make(&j->l, a, y, dim);
  int64_t bytes = y->numel * j->size * (a == b ? 2 : 3);
  j->streams = kind != LOGSUMEXP && cni_stream_pays(bytes);
  if (y->numel) run(j);
  return cn_err();
}

static int refuse(cn_call *c, const char *why)
{
  c->refusal = why;
  return CN_REFUSED;
}

/* softmax(input, dim, dtype) */
static int forward(cn_call *c, enum kind kind)
{
  const cn_desc *x = cn_desc_of(c->in[0]), *y = cn_desc_of(c->out[0]);
  job j;
  if (x->dtype != y->dtype) return refuse(c, "the input is of another type than the result");
  return start(&j, kind, x, x, y, cn_call_dim(c, c->args[1].u.i, x->ndim));
}

static bool same_layout(const cn_desc *a, const cn_desc *b)
{
  if (a->ndim != b->ndim || a->dtype != b->dtype) return false;
  for (int i = 0; i < a->ndim; i++)
    if (a->shape[i] != b->shape[i] || (a->strides[i] != b->strides[i] && a->shape[i] != 1)) return false;
  return true;
}

/* softmax_backward(grad, output, dim) */
static int backward(cn_call *c, enum kind kind)
{
  const cn_desc *g = cn_desc_of(c->in[0]), *p = cn_desc_of(c->in[1]), *y = cn_desc_of(c->out[0]);
  job j;
  if (!same_layout(g, p) || g->dtype != y->dtype)
    return refuse(c, "gradient and result differ in type or layout");
  return start(&j, kind, g, p, y, cn_call_dim(c, c->args[2].u.i, g->ndim));
}

static int softmax_kernel(cn_call *c) { return forward(c, SOFTMAX); }
static int log_softmax_kernel(cn_call *c) { return forward(c, LOG_SOFTMAX); }
static int softmax_backward_kernel(cn_call *c) { return backward(c, SOFTMAX_GRAD); }
static int log_softmax_backward_kernel(cn_call *c) { return backward(c, LOG_SOFTMAX_GRAD); }

/* logsumexp(input, dim, keepdim) along one dim */
static int logsumexp_kernel(cn_call *c)
{
  const cn_desc *x = cn_desc_of(c->in[0]), *out = cn_desc_of(c->out[0]);
  uint32_t mask;
  job j;
  int status = cni_dims_mask(c, &c->args[1], x->ndim, &mask);
  if (status) return status;
  if (x->dtype != out->dtype || mask & (mask - 1)) return refuse(c, "several dims, or a cast");
  cn_desc y = *out; /* as with keepdim */
  int dim = __builtin_ctz(mask);
  y.ndim = x->ndim;
  int64_t stride = 1;
  for (int i = x->ndim - 1; i >= 0; i--) {
    y.shape[i] = i == dim ? 1 : x->shape[i];
    y.strides[i] = stride;
    stride *= y.shape[i];
  }
  return start(&j, LOGSUMEXP, x, x, &y, dim);
}

const cn_kernel cni_cpu_softmax_kernels[] = {
    {"softmax", "vector loops", softmax_kernel},
    {"log_softmax", "vector loops", log_softmax_kernel},
    {"softmax_backward", "vector loops", softmax_backward_kernel},
    {"log_softmax_backward", "vector loops", log_softmax_backward_kernel},
    {"logsumexp", "vector loops", logsumexp_kernel},
    {NULL, NULL, NULL},
};
