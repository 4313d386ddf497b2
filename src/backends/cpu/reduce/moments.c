/* moments.c: mean and squared deviations along dims on the CPU: var, std and the statistics of batch norm.
 *
 * Place in the flow: kernels of ops/reduce_stat.c; batch_norm.c calls cni_moments. Each block is read twice
 * while it is in the cache, and blocks are joined in double, so memory is read once and no cancellation
 * occurs. Invariant: blocks and pieces depend on the shape alone, so results never depend on the number of
 * threads. */
#include "moments.h"

#include <math.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/walk/cast.h"
#include "backends/cpu/walk/rows.h"
#include "base/alloc.h"
#include "base/convert.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "ops/infer.h"

enum { GRAIN = 16384, LOAD = 1024, COLUMNS = 256, CHUNK = 64, SPLIT = 64, OUTPUTS = 64 };

const cni_moment_loops *cni_moment_loops_of(enum cni_compute class)
{
  const cni_moment_table *t = CNI_BY_ISA(cni_moment_table);
  return &t->loops[class];
}

static cni_moment join(cni_moment a, cni_moment b)
{
  if (a.count == 0) return b;
  if (b.count == 0) return a;
  double count = a.count + b.count, delta = b.mean - a.mean;
  return (cni_moment){count, a.mean + delta * b.count / count,
                      a.m2 + b.m2 + delta * delta * a.count * b.count / count};
}

typedef struct job {
  cni_reduction r;
  const cni_moment_loops *loops;
  const cni_reduce_loops *sum;
  const char *x;
  int64_t size;     /* bytes of an element */
  bool single;      /* computed in float32 */
  cni_cast_fn load; /* NULL: as it is */
  cni_moment_sink sink;
  void *payload;
  int64_t pieces, piece;
  cni_moment *partial; /* [pieces][outputs]; NULL when there is one piece */
} job;

/* n elements, `stride` apart, as a run of the compute type: in `room`, or where they are. */
static const void *fetch(const job *j, const char *x, int64_t stride, int64_t n, void *room)
{
  _Alignas(64) char raw[LOAD * 8];
  if (stride == 1 && !j->load) return x;
  if (stride != 1) cni_row_gather(j->load ? raw : room, x, stride * j->size, (size_t)j->size, n);
  if (j->load) j->load(room, stride == 1 ? x : raw, (size_t)n);
  return room;
}

/* Elements [begin, end) of the reduced range at x. */
static cni_moment row_moment(const job *j, const char *x, int64_t begin, int64_t end)
{
  const cni_reduction *r = &j->r;
  _Alignas(64) char room[LOAD * 8];
  cni_moment m = {0, 0, 0};
  cni_walk w;
  int outer = r->nr - 1;
  int64_t inner = r->nr ? r->rsize[outer] : 1, stride = r->nr ? r->rin[outer] : 1;
  cni_walk_to(&w, outer, r->rsize, r->rin, NULL, begin / inner);
  for (int64_t at = begin; at < end;) {
    int64_t i = at % inner, n = inner - i < end - at ? inner - i : end - at;
    const char *p = x + (w.in + i * stride) * j->size;
    if ((stride != 1 || j->load) && n > LOAD) n = LOAD;
    m = join(m, j->loops->row(fetch(j, p, stride, n, room), n));
    at += n;
    if (i + n == inner && at < end) cni_walk_step(&w, outer, r->rsize, r->rin, NULL);
  }
  return m;
}

static void rows(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  const cni_reduction *r = &j->r;
  for (int64_t u = begin; u < end; u++) {
    cni_walk w;
    int64_t p = u % j->pieces, o = u / j->pieces, first = p * j->piece;
    int64_t stop = first + j->piece < r->count ? first + j->piece : r->count;
    cni_walk_to(&w, r->nk, r->ksize, r->kin, r->kout, o);
    cni_moment m = row_moment(j, j->x + w.in * j->size, first, stop);
    if (j->partial) j->partial[p * r->outputs + o] = m;
    else j->sink(j->payload, w.out, 1, &m, 1);
  }
}

/* Joins into m[0..n) the moments of n columns over a few rows, whose sums stand in acc. */
static void join_columns(const job *j, cni_moment *m, const void *acc, const void *squares, int64_t rows_,
                         int64_t n)
{
  const float *s = acc, *q = squares;
  const double *sd = acc, *qd = squares;
  for (int64_t i = 0; i < n; i++) {
    double sum = j->single ? (double)s[i] : sd[i], square = j->single ? (double)q[i] : qd[i];
    cni_moment b = {(double)rows_, sum / (double)rows_, square};
    m[i] = join(m[i], b);
  }
}

static void centers(const job *j, void *center, const void *acc, int64_t rows_, int64_t n)
{
  if (j->single)
    for (int64_t i = 0; i < n; i++) ((float *)center)[i] = ((const float *)acc)[i] / (float)rows_;
  else
    for (int64_t i = 0; i < n; i++) ((double *)center)[i] = ((const double *)acc)[i] / (double)rows_;
}

/* The reduced elements [begin, end) of n columns at x, a few rows at a time. */
static void column_moments(const job *j, cni_moment *m, const char *x, int64_t n, int64_t begin, int64_t end)
{
  const cni_reduction *r = &j->r;
  _Alignas(64) char acc[COLUMNS * 8], square[COLUMNS * 8], center[COLUMNS * 8], room[COLUMNS * 8];
  int outer = r->nr - 1;
  int64_t inner = r->rsize[outer], stride = r->rin[outer], column = r->kin[r->nk - 1];
  bool plain = column == 1 && !j->load;
  cni_walk w;
  memset(m, 0, (size_t)n * sizeof *m);
  cni_walk_to(&w, outer, r->rsize, r->rin, NULL, begin / inner);
  for (int64_t at = begin; at < end;) {
    int64_t i = at % inner, some = inner - i < end - at ? inner - i : end - at;
    const char *p = x + (w.in + i * stride) * j->size;
    if (some > CHUNK) some = CHUNK;
    memset(acc, 0, sizeof acc);
    memset(square, 0, sizeof square);
    if (plain) j->sum->columns(acc, p, some, stride, n);
    else
      for (int64_t k = 0; k < some; k++)
        j->sum->columns(acc, fetch(j, p + k * stride * j->size, column, n, room), 1, 0, n);
    centers(j, center, acc, some, n);
    if (plain) j->loops->deviations(square, p, center, some, stride, n);
    else
      for (int64_t k = 0; k < some; k++)
        j->loops->deviations(square, fetch(j, p + k * stride * j->size, column, n, room), center, 1, 0, n);
    join_columns(j, m, acc, square, some, n);
    at += some;
    if (i + some == inner && at < end) cni_walk_step(&w, outer, r->rsize, r->rin, NULL);
  }
}

/* Units: (outer kept index, block of columns, piece), the last fastest. */
static void columns(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  const cni_reduction *r = &j->r;
  int last = r->nk - 1;
  int64_t width = r->ksize[last], blocks = (width + COLUMNS - 1) / COLUMNS;
  cni_moment m[COLUMNS];
  for (int64_t u = begin; u < end; u++) {
    cni_walk w;
    int64_t p = u % j->pieces, column = u / j->pieces % blocks * COLUMNS, o = u / j->pieces / blocks;
    int64_t n = width - column < COLUMNS ? width - column : COLUMNS, first = p * j->piece;
    int64_t stop = first + j->piece < r->count ? first + j->piece : r->count;
    cni_walk_to(&w, last, r->ksize, r->kin, r->kout, o);
    column_moments(j, m, j->x + (w.in + column * r->kin[last]) * j->size, n, first, stop);
    if (j->partial) memcpy(j->partial + p * r->outputs + o * width + column, m, (size_t)n * sizeof *m);
    else j->sink(j->payload, w.out + column * r->kout[last], r->kout[last], m, n);
  }
}

static void join_pieces(const job *j)
{
  const cni_reduction *r = &j->r;
  cni_walk w;
  cni_walk_to(&w, r->nk, r->ksize, r->kin, r->kout, 0);
  for (int64_t o = 0; o < r->outputs; o++) {
    cni_moment m = j->partial[o];
    for (int64_t p = 1; p < j->pieces; p++) m = join(m, j->partial[p * r->outputs + o]);
    j->sink(j->payload, w.out, 1, &m, 1);
    cni_walk_step(&w, r->nk, r->ksize, r->kin, r->kout);
  }
}

static int run(job *j)
{
  const cni_reduction *r = &j->r;
  bool by_columns = r->nk && r->nr && cni_step_order(r->kin[r->nk - 1]) < cni_step_order(r->rin[r->nr - 1]);
  int64_t width = by_columns ? r->ksize[r->nk - 1] : 1, work = r->outputs * r->count;
  int64_t units = by_columns ? r->outputs / width * ((width + COLUMNS - 1) / COLUMNS) : r->outputs;
  j->pieces = 1;
  j->piece = r->count;
  if (units < SPLIT / 2 && work >= 4 * GRAIN) {
    int64_t wanted = SPLIT / units, most = work / (2 * GRAIN);
    wanted = wanted < most ? wanted : most;
    j->piece = ((r->count + wanted - 1) / wanted + LOAD - 1) / LOAD * LOAD;
    j->pieces = (r->count + j->piece - 1) / j->piece;
  }
  size_t size = j->pieces > 1 ? (size_t)(j->pieces * r->outputs) * sizeof *j->partial : 0;
  j->partial = size ? cni_alloc(size) : NULL;
  if (size && !j->partial) return CN_ERR_MEMORY;
  work /= units * j->pieces;
  cni_parallel_for(units * j->pieces, work < GRAIN ? GRAIN / (work ? work : 1) : 1,
                   by_columns ? columns : rows, j);
  if (j->partial) join_pieces(j);
  cni_free(j->partial, size);
  return CN_OK;
}

int cni_moments(const cn_desc *x, uint32_t mask, cni_moment_sink sink, void *payload)
{
  enum cni_compute class = cni_compute_class(x->dtype);
  int compute = cni_compute_dtype(class);
  job j = {.loops = cni_moment_loops_of(class),
           .sum = &cni_reduce_now()->loops[class][CNI_REDUCE_SUM],
           .x = x->data,
           .size = (int64_t)cni_dtype_size(x->dtype),
           .single = class == CNI_C_F32,
           .sink = sink,
           .payload = payload,
           .load = x->dtype == compute ? NULL : cni_cast_find(x->dtype, compute)};
  cni_reduction_make(&j.r, x, mask);
  if (j.r.outputs == 0) return CN_OK;
  if (j.r.count > 0) return run(&j);
  cni_moment none = {0, NAN, NAN};
  for (int64_t i = 0; i < j.r.outputs; i++) sink(payload, i, 1, &none, 1);
  return CN_OK;
}

/* ---- var, std, var_mean, std_mean: (input, dim, correction, keepdim) ---- */

typedef struct result {
  void *var, *mean; /* mean may be NULL */
  int dtype;
  double correction;
  bool root;
} result;

static void put(void *payload, int64_t at, int64_t stride, const cni_moment *m, int64_t n)
{
  const result *r = payload;
  for (int64_t i = 0; i < n; i++) {
    double freedom = m[i].count - r->correction, var = m[i].m2 / (freedom > 0 ? freedom : 0);
    cni_store_f64(r->var, at + i * stride, r->dtype, r->root ? sqrt(var) : var);
    /* An infinite mean becomes NaN, as in PyTorch, whichever way the elements were added up. */
    if (r->mean) cni_store_f64(r->mean, at + i * stride, r->dtype, m[i].mean + (m[i].mean - m[i].mean));
  }
}

static int var_kernel_of(cn_call *c, bool root)
{
  const cn_desc *x = cn_desc_of(c->in[0]);
  result r = {cn_desc_of(c->out[0])->data, c->nout > 1 ? cn_desc_of(c->out[1])->data : NULL, x->dtype,
              cni_arg_float(c->args, 2), root};
  uint32_t mask;
  int status = cni_dims_mask(c, &c->args[1], x->ndim, &mask);
  return status ? status : cni_moments(x, mask, put, &r);
}
static int var_kernel(cn_call *c) { return var_kernel_of(c, false); }
static int std_kernel(cn_call *c) { return var_kernel_of(c, true); }

const cn_kernel cni_cpu_moments_kernels[] = {
    {"var", "vector loops", var_kernel},
    {"std", "vector loops", std_kernel},
    {"var_mean", "vector loops", var_kernel},
    {"std_mean", "vector loops", std_kernel},
    {NULL, NULL, NULL},
};
