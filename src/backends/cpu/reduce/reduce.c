/* reduce.c: reductions along dims on the CPU: sum, mean, prod, extremes, all, any and vector norms.
 *
 * Place in the flow: kernels of ops/reduce.c; the loops are in reduce_isa.c. A reduction runs along rows where the
 * reduced dim is innermost in memory, along columns where a kept one is. Invariant: pieces of a split reduction
 * are chosen by the shape alone and joined in order, so results never depend on the number of threads. */
#include "reduce.h"

#include <math.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/walk/cast.h"
#include "backends/cpu/walk/rows.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "ops/infer.h"
#include "split.h"

enum {
  LOAD = CNI_REDUCE_LOAD, /* elements converted at a time, and columns reduced at a time */
  CHUNK = 128,   /* rows that columns are reduced over before they are joined in the wide type */
  OUTPUTS = 256, /* results kept on the stack */
  GROUP = 64     /* columns that narrow rows are grouped to */
};

enum finish { AS_IS, MEAN, ROOT };

typedef struct job {
  cni_reduction r;
  const cni_reduce_loops *f;
  const char *x;
  char *y;
  int64_t xsize, ysize;           /* bytes of an element */
  cni_cast_fn first, load, store; /* x -> a type on the way -> compute type; wide -> y. NULL: as it is */
  cni_cast_fn narrow;             /* compute type -> y. NULL: as it is */
  int compute;                    /* type */
  enum finish finish;
  cni_split split;
  int64_t group;     /* rows reduced side by side */
  cni_wide *partial; /* [pieces][outputs], in walk order; NULL when there is one piece */
} job;

const cni_reduce_table *cni_reduce_now(void) { return CNI_BY_ISA(cni_reduce_table); }

/* ---- elements in and out ---- */

static bool loads(const job *f, int64_t stride) { return stride != 1 || f->first || f->load; }

/* At most LOAD elements, `stride` apart, as a run of the compute type in `room`. */
static const void *load_run(const job *f, const char *x, int64_t stride, int64_t n, void *room)
{
  _Alignas(64) char raw[LOAD * 8], mid[LOAD * 8];
  const void *at = x;
  if (stride != 1) {
    void *to = f->first || f->load ? (void *)raw : room;
    cni_row_gather(to, at, stride * f->xsize, (size_t)f->xsize, n);
    at = to;
  }
  if (f->first) {
    void *to = f->load ? (void *)mid : room;
    f->first(to, at, (size_t)n);
    at = to;
  }
  if (f->load) f->load(room, at, (size_t)n);
  return room;
}

/* Finishes n results and writes them from element `at` of y on, `stride` apart. */
static void store(const job *f, int64_t at, int64_t stride, cni_wide *w, int64_t n)
{
  char room[OUTPUTS * 8];
  char *y = f->y + at * f->ysize;
  if (f->finish == MEAN)
    for (int64_t i = 0; i < n; i++) w[i].f /= (double)f->r.count;
  else if (f->finish == ROOT)
    for (int64_t i = 0; i < n; i++) w[i].f = sqrt(w[i].f);
  for (int64_t done = 0; done < n; done += OUTPUTS) {
    int64_t m = n - done < OUTPUTS ? n - done : OUTPUTS;
    const char *from = (const char *)(w + done);
    if (f->store) {
      char *to = stride == 1 ? y : room;
      f->store(to, from, (size_t)m);
      from = to;
    }
    if (from != y)
      for (int64_t i = 0; i < m; i++)
        memcpy(y + i * stride * f->ysize, from + i * f->ysize, (size_t)f->ysize);
    y += m * stride * f->ysize;
  }
}

/* ---- along rows ---- */

/* Reduces elements [begin, end) of the reduced range that starts at x. */
static cni_wide reduce_row(const job *f, const char *x, int64_t begin, int64_t end)
{
  _Alignas(64) char room[LOAD * 8];
  cni_wide w, next;
  cni_runs k;
  int64_t n;
  f->f->start(&w, NULL, 1);
  for (cni_runs_begin(&k, &f->r, begin, end); k.n > 0; cni_runs_step(&k, n)) {
    const char *p = x + k.in * f->xsize;
    n = k.n;
    if (!loads(f, k.stride)) {
      f->f->rows(&next, p, 1, 0, n);
    } else {
      n = n < LOAD ? n : LOAD;
      f->f->rows(&next, load_run(f, p, k.stride, n, room), 1, 0, n);
    }
    w = f->f->join(w, next);
  }
  return w;
}

/* Results [begin, end), each reduced whole. */
static void rows_whole(int64_t begin, int64_t end, void *payload)
{
  const job *f = payload;
  const cni_reduction *r = &f->r;
  int last = r->nk - 1;
  cni_wide w[OUTPUTS];
  cni_walk walk;
  bool plain = r->nr <= 1 && !loads(f, r->nr ? r->rin[0] : 1);
  int64_t inner = r->nk ? r->ksize[last] : 1, step = r->nk ? r->kin[last] : 0,
          out = r->nk ? r->kout[last] : 0;
  while (begin < end) {
    int64_t n = inner - begin % inner;
    if (n > end - begin) n = end - begin;
    if (n > OUTPUTS) n = OUTPUTS;
    cni_walk_to(&walk, r->nk, r->ksize, r->kin, r->kout, begin);
    const char *x = f->x + walk.in * f->xsize;
    if (plain) f->f->rows(w, x, n, step, r->count);
    else
      for (int64_t i = 0; i < n; i++) w[i] = reduce_row(f, x + i * step * f->xsize, 0, r->count);
    store(f, walk.out, n == 1 ? 1 : out, w, n);
    begin += n;
  }
}

/* Units [begin, end): pieces of results. */
static void rows_pieces(int64_t begin, int64_t end, void *payload)
{
  const job *f = payload;
  for (int64_t i = begin; i < end; i++) {
    cni_unit u = cni_split_unit(&f->split, &f->r, i);
    f->partial[u.slot] = reduce_row(f, f->x + u.in * f->xsize, u.first, u.stop);
  }
}

/* ---- along columns ---- */

/* Reduces n columns from x on over elements [begin, end) of the reduced range. */
static void reduce_columns(const job *f, cni_wide *w, const char *x, int64_t n, int64_t begin, int64_t end)
{
  _Alignas(64) char acc[LOAD * 8], room[LOAD * 8];
  int64_t column = f->r.kin[f->r.nk - 1], since = 0, rows;
  cni_runs k;
  f->f->start(w, acc, n);
  for (cni_runs_begin(&k, &f->r, begin, end); k.n > 0; cni_runs_step(&k, rows)) {
    const char *p = x + k.in * f->xsize;
    rows = k.n < CHUNK - since ? k.n : CHUNK - since;
    if (!loads(f, column)) f->f->columns(acc, p, rows, k.stride, n);
    else f->f->columns(acc, load_run(f, p, column, n, room), rows = 1, 0, n);
    if ((since += rows) == CHUNK) {
      f->f->flush(w, acc, n);
      since = 0;
    }
  }
  if (since) f->f->flush(w, acc, n);
}

/* The same where rows are narrow and lie one behind the other: `group` of them make a wide one. */
static void reduce_grouped(const job *f, cni_wide *w, const char *x, int64_t n, int64_t begin, int64_t end)
{
  _Alignas(64) char acc[2 * GROUP * 8];
  cni_wide wide[2 * GROUP];
  int64_t width = f->group * n, rows = (end - begin) / f->group, rest = (end - begin) % f->group;
  const char *p = x + begin * n * f->xsize;
  f->f->start(wide, acc, width);
  for (int64_t done = 0; done < rows; done += CHUNK) {
    int64_t m = rows - done < CHUNK ? rows - done : CHUNK;
    f->f->columns(acc, p, m, width, width);
    f->f->flush(wide, acc, width);
    p += m * width * f->xsize;
  }
  f->f->columns(acc, p, 1, 0, rest * n);
  f->f->flush(wide, acc, width);
  for (int64_t k = 1; k < f->group; k++)
    for (int64_t j = 0; j < n; j++) wide[j] = f->f->join(wide[j], wide[k * n + j]);
  memcpy(w, wide, (size_t)n * sizeof *w);
}

/* Units [begin, end): blocks of columns, and pieces of these. */
static void columns_range(int64_t begin, int64_t end, void *payload)
{
  const job *f = payload;
  cni_wide w[LOAD];
  for (int64_t i = begin; i < end; i++) {
    cni_unit u = cni_split_unit(&f->split, &f->r, i);
    const char *x = f->x + u.in * f->xsize;
    cni_wide *to = f->partial ? f->partial + u.slot : w;
    if (f->group > 1) reduce_grouped(f, to, x, u.n, u.first, u.stop);
    else reduce_columns(f, to, x, u.n, u.first, u.stop);
    if (!f->partial) store(f, u.out, f->r.kout[f->r.nk - 1], w, u.n);
  }
}

/* ---- one element each ---- */

static void roots(const job *f, void *acc, int64_t n)
{
  float *a = acc;
  double *b = acc;
  if (f->compute == CN_F32)
    for (int64_t i = 0; i < n; i++) a[i] = sqrtf(a[i]);
  else
    for (int64_t i = 0; i < n; i++) b[i] = sqrt(b[i]);
}

/* Results [begin, end) of a reduction of single elements: nothing is summed, so the wide type is not needed. */
static void singles(int64_t begin, int64_t end, void *payload)
{
  const job *f = payload;
  const cni_reduction *r = &f->r;
  _Alignas(64) char room[LOAD * 8], accs[LOAD * 8], cooked[LOAD * 8];
  int last = r->nk - 1;
  int64_t inner = r->nk ? r->ksize[last] : 1, step = r->nk ? r->kin[last] : 1, out = r->nk ? r->kout[last] : 1;
  for (int64_t n; begin < end; begin += n) {
    cni_walk walk;
    n = inner - begin % inner < end - begin ? inner - begin % inner : end - begin;
    if (n > LOAD) n = LOAD;
    cni_walk_to(&walk, r->nk, r->ksize, r->kin, r->kout, begin);
    const char *x = f->x + walk.in * f->xsize;
    char *y = f->y + walk.out * f->ysize;
    void *acc = !f->narrow && out == 1 ? (void *)y : accs;
    f->f->start(NULL, acc, n);
    f->f->columns(acc, loads(f, step) ? load_run(f, x, step, n, room) : x, 1, 0, n);
    if (f->finish == ROOT) roots(f, acc, n);
    void *to = out == 1 ? (void *)y : cooked;
    if (f->narrow) f->narrow(to, acc, (size_t)n);
    if (out != 1) cni_row_scatter(y, out * f->ysize, f->narrow ? to : acc, (size_t)f->ysize, n);
  }
}

/* ---- the split ---- */

static void join_pieces(const job *f)
{
  const cni_reduction *r = &f->r;
  cni_walk walk;
  cni_walk_to(&walk, r->nk, r->ksize, r->kin, r->kout, 0);
  for (int64_t i = 0; i < r->outputs; i++) {
    cni_wide w = f->partial[i];
    for (int64_t p = 1; p < f->split.pieces; p++) w = f->f->join(w, f->partial[p * r->outputs + i]);
    store(f, walk.out, 1, &w, 1);
    cni_walk_step(&walk, r->nk, r->ksize, r->kin, r->kout);
  }
}

static int run_reduction(job *f)
{
  cni_reduction *r = &f->r;
  cni_wide few[OUTPUTS];
  if (!r->nr) {
    cni_parallel_for(r->outputs, CNI_REDUCE_GRAIN, singles, f);
    return CN_OK;
  }
  cni_split *s = &f->split;
  cni_split_make(s, r, LOAD, CNI_REDUCE_ALIGN); /* pieces are whole blocks of the loops, and whole groups of rows */
  bool narrow = s->columns && r->nr == 1 && r->rin[0] == s->width && s->width <= GROUP / 2;
  f->group = narrow && !loads(f, r->kin[r->nk - 1]) ? GROUP / s->width : 1;
  f->partial = NULL;
  size_t size = s->pieces > 1 ? (size_t)(s->pieces * r->outputs) * sizeof *f->partial : 0;
  if (size) f->partial = size <= sizeof few ? few : cni_scratch_alloc(size);
  if (size && !f->partial) return CN_ERR_MEMORY;
  cni_parallel_for(s->units * s->pieces, cni_split_grain(s, r),
                   s->columns   ? columns_range
                   : f->partial ? rows_pieces
                                : rows_whole,
                   f);
  if (f->partial) join_pieces(f);
  if (f->partial && f->partial != few) cni_scratch_free(f->partial, size);
  return CN_OK;
}

/* ---- kernels ---- */

/* Elements are cast to `type` (as PyTorch's dtype argument says) and reduced in what that is computed in. */
static void reduce_types(job *f, enum cni_reduce_kind kind, const cn_desc *x, const cn_desc *y, int type)
{
  enum cni_compute class = cni_compute_class(type);
  int compute = cni_compute_dtype(class), from = x->dtype, wide = class <= CNI_C_F64 ? CN_F64 : compute;
  bool by_way = from != type && (type == CN_BOOL || type == CN_F16 || type == CN_BF16);
  f->f = &cni_reduce_now()->loops[class][kind];
  f->first = by_way ? cni_cast_find(from, type) : NULL;
  if (by_way) from = type;
  f->load = from == compute ? NULL : cni_cast_find(from, compute);
  f->compute = compute;
  f->narrow = y->dtype == compute ? NULL : cni_cast_find(compute, y->dtype);
  f->store = y->dtype == wide ? NULL : cni_cast_find(wide, y->dtype);
  f->x = x->data;
  f->y = y->data;
  f->xsize = (int64_t)cni_dtype_size(x->dtype);
  f->ysize = (int64_t)cni_dtype_size(y->dtype);
}

static int reduce_dims(cn_call *c, enum cni_reduce_kind kind, uint32_t mask, int type, enum finish finish)
{
  const cn_desc *x = cn_desc_of(c->in[0]), *y = cn_desc_of(c->out[0]);
  job f;
  f.finish = finish;
  reduce_types(&f, kind, x, y, type);
  if (y->numel == 1 && x->numel <= CNI_REDUCE_GRAIN && !f.first && !f.load &&
      cni_is_contiguous(x->ndim, x->shape, x->strides)) { /* small and whole: straight through */
    cni_wide w;
    f.r.count = x->numel;
    f.f->rows(&w, x->data, 1, 0, x->numel);
    store(&f, 0, 1, &w, 1);
    return CN_OK;
  }
  cni_reduction_make(&f.r, x, mask);
  if (f.r.outputs == 0) return CN_OK;
  if (f.r.count == 0) {
    cni_wide w;
    f.f->start(&w, NULL, 1);
    store(&f, 0, 1, &w, 1);
    for (int64_t i = 1; i < y->numel; i++) memcpy(f.y + i * f.ysize, f.y, (size_t)f.ysize);
    return CN_OK;
  }
  return run_reduction(&f);
}

static int reduce_at(cn_call *c, int param, enum cni_reduce_kind kind, int type, enum finish finish)
{
  uint32_t mask;
  int status = cni_dims_mask(c, &c->args[param], cn_desc_of(c->in[0])->ndim, &mask);
  return status ? status : reduce_dims(c, kind, mask, type, finish);
}
/* With the dims at args[1]. */
static int reduce_listed(cn_call *c, enum cni_reduce_kind kind, int type, enum finish finish)
{
  return reduce_at(c, 1, kind, type, finish);
}

static int out_type(const cn_call *c) { return cn_desc_of(c->out[0])->dtype; }
static int in_type(const cn_call *c) { return cn_desc_of(c->in[0])->dtype; }
static uint32_t all_dims(const cn_call *c) { return (1u << cn_desc_of(c->in[0])->ndim) - 1; }

static int sum_kernel(cn_call *c) { return reduce_listed(c, CNI_REDUCE_SUM, out_type(c), AS_IS); }
static int can_nansum(const cn_call *c, cn_plan *plan)
{
  plan->refusal = "NaN is looked for in floating-point numbers that stay such";
  return cni_dtype_is_float(in_type(c)) && cni_dtype_is_float(out_type(c)) ? CN_OK : CN_REFUSED;
}
static int nansum_kernel(cn_call *c) { return reduce_listed(c, CNI_REDUCE_NUMBERS, out_type(c), AS_IS); }
static int mean_kernel(cn_call *c) { return reduce_listed(c, CNI_REDUCE_SUM, out_type(c), MEAN); }
static int prod_kernel(cn_call *c) { return reduce_dims(c, CNI_REDUCE_PROD, all_dims(c), out_type(c), AS_IS); }
static int prod_dim_kernel(cn_call *c) { return reduce_listed(c, CNI_REDUCE_PROD, out_type(c), AS_IS); }
static int amax_kernel(cn_call *c) { return reduce_listed(c, CNI_REDUCE_MAX, in_type(c), AS_IS); }
static int amin_kernel(cn_call *c) { return reduce_listed(c, CNI_REDUCE_MIN, in_type(c), AS_IS); }
static int max_kernel(cn_call *c) { return reduce_dims(c, CNI_REDUCE_MAX, all_dims(c), in_type(c), AS_IS); }
static int min_kernel(cn_call *c) { return reduce_dims(c, CNI_REDUCE_MIN, all_dims(c), in_type(c), AS_IS); }
static int count_kernel(cn_call *c) { return reduce_listed(c, CNI_REDUCE_NONZERO, in_type(c), AS_IS); }

/* all and any: an empty list of dims reduces nothing. */
static int reduce_strict(cn_call *c, enum cni_reduce_kind kind)
{
  uint32_t mask;
  if (c->args[1].tag == CN_V_NONE) return reduce_dims(c, kind, all_dims(c), in_type(c), AS_IS);
  int status = cni_dims_mask_strict(c, &c->args[1], cn_desc_of(c->in[0])->ndim, &mask);
  return status ? status : reduce_dims(c, kind, mask, in_type(c), AS_IS);
}
static int all_kernel(cn_call *c) { return reduce_strict(c, CNI_REDUCE_ALL); }
static int any_kernel(cn_call *c) { return reduce_strict(c, CNI_REDUCE_ANY); }

/* linalg_vector_norm(input, ord, dim, keepdim, dtype): the orders that are a reduction. */
static int can_norm(const cn_call *c, cn_plan *plan)
{
  double ord = cni_arg_float(c->args, 1);
  plan->refusal = "only the orders 0, 1, 2, inf and -inf";
  return ord == 0 || ord == 1 || ord == 2 || isinf(ord) ? CN_OK : CN_REFUSED;
}

static int norm_kernel(cn_call *c)
{
  double ord = cni_arg_float(c->args, 1);
  int type = out_type(c);
  if (ord == 2) return reduce_at(c, 2, CNI_REDUCE_SQUARE, type, ROOT);
  if (ord == 1) return reduce_at(c, 2, CNI_REDUCE_ABS, type, AS_IS);
  if (ord == 0) return reduce_at(c, 2, CNI_REDUCE_NONZERO, type, AS_IS);
  return reduce_at(c, 2, ord > 0 ? CNI_REDUCE_ABS_MAX : CNI_REDUCE_ABS_MIN, type, AS_IS);
}

const cn_kernel cni_cpu_reduce_kernels[] = {
    {"sum", "vector loops", sum_kernel},
    {"nansum", "vector loops", nansum_kernel, can_nansum},
    {"mean", "vector loops", mean_kernel},
    {"prod", "vector loops", prod_kernel},
    {"prod_dim", "vector loops", prod_dim_kernel},
    {"amax", "vector loops", amax_kernel},
    {"amin", "vector loops", amin_kernel},
    {"max", "vector loops", max_kernel},
    {"min", "vector loops", min_kernel},
    {"all", "vector loops", all_kernel},
    {"any", "vector loops", any_kernel},
    {"linalg_vector_norm", "vector loops", norm_kernel, can_norm},
    {"count_nonzero", "vector loops", count_kernel},
    {NULL, NULL, NULL},
};
