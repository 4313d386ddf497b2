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
#include "base/convert.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "ops/infer.h"
#include "split.h"

enum { LOAD = 1024, COLUMNS = 256, CHUNK = 64 };

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
  cni_split split;
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
  _Alignas(64) char room[LOAD * 8];
  cni_moment m = {0, 0, 0};
  cni_runs k;
  int64_t n;
  for (cni_runs_begin(&k, &j->r, begin, end); k.n > 0; cni_runs_step(&k, n)) {
    n = (k.stride != 1 || j->load) && k.n > LOAD ? LOAD : k.n;
    m = join(m, j->loops->row(fetch(j, x + k.in * j->size, k.stride, n, room), n));
  }
  return m;
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
  _Alignas(64) char acc[COLUMNS * 8], square[COLUMNS * 8], center[COLUMNS * 8], room[COLUMNS * 8];
  int64_t column = j->r.kin[j->r.nk - 1], some;
  bool plain = column == 1 && !j->load;
  cni_runs k;
  memset(m, 0, (size_t)n * sizeof *m);
  for (cni_runs_begin(&k, &j->r, begin, end); k.n > 0; cni_runs_step(&k, some)) {
    const char *p = x + k.in * j->size;
    some = k.n < CHUNK ? k.n : CHUNK;
    memset(acc, 0, sizeof acc);
    memset(square, 0, sizeof square);
    if (plain) j->sum->columns(acc, p, some, k.stride, n);
    else
      for (int64_t i = 0; i < some; i++)
        j->sum->columns(acc, fetch(j, p + i * k.stride * j->size, column, n, room), 1, 0, n);
    centers(j, center, acc, some, n);
    if (plain) j->loops->deviations(square, p, center, some, k.stride, n);
    else
      for (int64_t i = 0; i < some; i++)
        j->loops->deviations(square, fetch(j, p + i * k.stride * j->size, column, n, room), center, 1, 0, n);
    join_columns(j, m, acc, square, some, n);
  }
}

static void units(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  const cni_reduction *r = &j->r;
  int64_t stride = j->split.columns ? r->kout[r->nk - 1] : 1;
  cni_moment m[COLUMNS];
  for (int64_t i = begin; i < end; i++) {
    cni_unit u = cni_split_unit(&j->split, r, i);
    const char *x = j->x + u.in * j->size;
    if (j->split.columns) column_moments(j, m, x, u.n, u.first, u.stop);
    else m[0] = row_moment(j, x, u.first, u.stop);
    if (j->partial) memcpy(j->partial + u.slot, m, (size_t)u.n * sizeof *m);
    else j->sink(j->payload, u.out, stride, m, u.n);
  }
}

static void join_pieces(const job *j)
{
  const cni_reduction *r = &j->r;
  cni_walk w;
  cni_walk_to(&w, r->nk, r->ksize, r->kin, r->kout, 0);
  for (int64_t o = 0; o < r->outputs; o++) {
    cni_moment m = j->partial[o];
    for (int64_t p = 1; p < j->split.pieces; p++) m = join(m, j->partial[p * r->outputs + o]);
    j->sink(j->payload, w.out, 1, &m, 1);
    cni_walk_step(&w, r->nk, r->ksize, r->kin, r->kout);
  }
}

static int run(job *j)
{
  const cni_reduction *r = &j->r;
  cni_split *s = &j->split;
  cni_split_make(s, r, COLUMNS, LOAD);
  size_t size = s->pieces > 1 ? (size_t)(s->pieces * r->outputs) * sizeof *j->partial : 0;
  j->partial = size ? cni_scratch_alloc(size) : NULL;
  if (size && !j->partial) return CN_ERR_MEMORY;
  cni_parallel_for(s->units * s->pieces, cni_split_grain(s, r), units, j);
  if (j->partial) join_pieces(j);
  cni_scratch_free(j->partial, size);
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
