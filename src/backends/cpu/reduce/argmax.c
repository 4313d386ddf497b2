/* argmax.c: where the largest or smallest element stands: argmax, argmin, max_dim, min_dim.
 *
 * Place in the flow: kernels of ops/reduce.c on the loops of reduce_isa.c. A block is reduced first and
 * searched only if it held something better, so memory is read once. Invariant: the first of equal elements
 * is found, and the first NaN if there is one, however the work is split. */
#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/walk/cast.h"
#include "backends/cpu/walk/rows.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "ops/infer.h"
#include "reduce.h"

enum { LOAD = 1024, BLOCK = 4096, GRAIN = 16384, PIECE = 65536, PIECES = 64, COLUMNS = 512, PART = 128 };

typedef struct search {
  cni_reduction r; /* at most one reduced dim */
  const cni_reduce_table *table;
  const cni_reduce_loops *f;
  enum cni_compute class;
  int min; /* 0: max, 1: min */
  const char *x;
  int64_t size;     /* bytes of an element of x */
  cni_cast_fn load; /* x -> compute type; NULL: as it is */
  int64_t *index;
  char *values; /* NULL: not wanted */
} search;

static bool is_nan(const search *s, cni_wide w) { return s->class <= CNI_C_F64 && w.f != w.f; }

static bool better(const search *s, cni_wide w, cni_wide best)
{
  switch (s->class) {
  case CNI_C_I64: return s->min ? w.i < best.i : w.i > best.i;
  case CNI_C_U64: return s->min ? w.u < best.u : w.u > best.u;
  default:
    if (best.f != best.f) return false;
    return w.f != w.f || (s->min ? w.f < best.f : w.f > best.f);
  }
}

/* First index of w (or of NaN) among n elements of the compute type, where it is known to be. Parts that do
 * not hold it are passed over with the reduction, which is quicker than looking at each element. */
static int64_t find(const search *s, const char *x, int64_t n, cni_wide w)
{
  int64_t i = 0, size = s->class == CNI_C_F32 ? 4 : 8;
  if (n > PART) {
    for (; i + PART < n; i += PART) {
      cni_wide part;
      s->f->rows(&part, x + i * size, 1, 0, PART);
      if (!better(s, w, part)) break;
    }
    return i + find(s, x + i * size, n - i < PART ? n - i : PART, w);
  }
  const float *f = (const void *)x;
  const double *d = (const void *)x;
  const int64_t *l = (const void *)x;
  bool nan = is_nan(s, w);
  if (s->class == CNI_C_F32)
    while (i < n - 1 && !(nan ? f[i] != f[i] : (double)f[i] == w.f)) i++;
  else if (s->class == CNI_C_F64)
    while (i < n - 1 && !(nan ? d[i] != d[i] : d[i] == w.f)) i++;
  else
    while (i < n - 1 && l[i] != w.i) i++;
  return i;
}

/* Elements [begin, end) of the line at x, `stride` apart. Returns the index; *best is the value. */
static int64_t search_line(const search *s, const char *x, int64_t stride, int64_t begin, int64_t end,
                           cni_wide *best)
{
  _Alignas(64) char room[LOAD * 8], raw[LOAD * 8];
  bool loads = s->load || stride != 1;
  int64_t where = begin, block = loads ? LOAD : BLOCK;
  for (int64_t at = begin; at < end; at += block) {
    int64_t n = end - at < block ? end - at : block;
    const void *p = x + at * stride * s->size;
    cni_wide w;
    if (stride != 1) {
      void *to = s->load ? raw : room;
      cni_row_gather(to, p, stride * s->size, (size_t)s->size, n);
      p = to;
    }
    if (s->load) {
      s->load(room, p, (size_t)n);
      p = room;
    }
    s->f->rows(&w, p, 1, 0, n);
    if (at > begin && !better(s, w, *best)) continue;
    *best = w;
    where = at + find(s, p, n, w);
    if (is_nan(s, w)) break;
  }
  return where;
}

/* Writes the result at out: `where` is an index on the line at x. */
static void put(const search *s, int64_t out, const char *x, int64_t stride, int64_t where)
{
  s->index[out] = where;
  if (s->values) memcpy(s->values + out * s->size, x + where * stride * s->size, (size_t)s->size);
}

static void lines(int64_t begin, int64_t end, void *payload)
{
  const search *s = payload;
  const cni_reduction *r = &s->r;
  int64_t stride = r->nr ? r->rin[0] : 1;
  cni_walk walk;
  cni_wide best;
  cni_walk_to(&walk, r->nk, r->ksize, r->kin, r->kout, begin);
  for (int64_t i = begin; i < end; i++) {
    const char *x = s->x + walk.in * s->size;
    put(s, walk.out, x, stride, search_line(s, x, stride, 0, r->count, &best));
    cni_walk_step(&walk, r->nk, r->ksize, r->kin, r->kout);
  }
}

/* One long line in pieces. */
typedef struct pieces {
  const search *s;
  int64_t length, where[PIECES + 1];
  cni_wide best[PIECES + 1];
} pieces;

static void piece_range(int64_t begin, int64_t end, void *payload)
{
  pieces *p = payload;
  int64_t n = p->s->r.count, stride = p->s->r.rin[0];
  for (int64_t i = begin; i < end; i++) {
    int64_t stop = (i + 1) * p->length < n ? (i + 1) * p->length : n;
    p->where[i] = search_line(p->s, p->s->x, stride, i * p->length, stop, &p->best[i]);
  }
}

static void long_line(const search *s)
{
  pieces p = {.s = s};
  int64_t each = (s->r.count + PIECES - 1) / PIECES;
  p.length = (each > PIECE ? each + BLOCK - 1 : PIECE) / BLOCK * BLOCK;
  int64_t n = (s->r.count + p.length - 1) / p.length, first = 0;
  cni_parallel_for(n, 1, piece_range, &p);
  for (int64_t i = 1; i < n; i++)
    if (better(s, p.best[i], p.best[first])) first = i;
  put(s, 0, s->x, s->r.rin[0], p.where[first]);
}

/* Blocks of columns side by side: units are (outer kept index, block). */
static void column_blocks(int64_t begin, int64_t end, void *payload)
{
  const search *s = payload;
  const cni_reduction *r = &s->r;
  int last = r->nk - 1;
  int64_t width = r->ksize[last], blocks = (width + COLUMNS - 1) / COLUMNS, stride = r->rin[0];
  _Alignas(64) char best[COLUMNS * 8], room[COLUMNS * 8];
  int64_t index[COLUMNS];
  for (int64_t u = begin; u < end; u++) {
    cni_walk walk;
    int64_t column = u % blocks * COLUMNS, n = width - column < COLUMNS ? width - column : COLUMNS;
    cni_walk_to(&walk, last, r->ksize, r->kin, r->kout, u / blocks);
    const char *x = s->x + (walk.in + column) * s->size;
    for (int64_t row = 0; row < r->count; row++) {
      const void *p = x + row * stride * s->size;
      if (s->load) s->load(room, p, (size_t)n);
      if (s->load) p = room;
      if (row) {
        s->table->arg_columns[s->class][s->min](best, index, p, row, n);
        continue;
      }
      memcpy(best, p, cni_dtype_bytes(cni_compute_dtype(s->class), n));
      memset(index, 0, sizeof index);
    }
    int64_t out = walk.out + column * r->kout[last];
    for (int64_t j = 0; j < n; j++) put(s, out + j * r->kout[last], x + j * s->size, stride, index[j]);
  }
}

static void run(search *s)
{
  const cni_reduction *r = &s->r;
  int last = r->nk - 1;
  if (r->outputs == 0) return;
  if (r->nr && r->nk && r->kin[last] == 1 && r->ksize[last] >= 8 && r->rin[0] > 1) {
    int64_t units = r->outputs / r->ksize[last] * ((r->ksize[last] + COLUMNS - 1) / COLUMNS);
    int64_t work = r->outputs * r->count / units;
    cni_parallel_for(units, work < GRAIN ? GRAIN / work : 1, column_blocks, s);
  } else if (r->outputs == 1 && r->count > 2 * PIECE) {
    long_line(s);
  } else {
    cni_parallel_for(r->outputs, r->count < GRAIN ? GRAIN / r->count : 1, lines, s);
  }
}

static void prepare(search *s, const cn_desc *x, int min)
{
  s->table = cni_reduce_now();
  s->min = min;
  s->class = cni_compute_class(x->dtype);
  s->f = &s->table->loops[s->class][min ? CNI_REDUCE_MIN : CNI_REDUCE_MAX];
  int compute = cni_compute_dtype(s->class);
  s->load = x->dtype == compute ? NULL : cni_cast_find(x->dtype, compute);
  s->x = x->data;
  s->size = (int64_t)cni_dtype_size(x->dtype);
}

/* Over the whole tensor: row order, so memory in another order is packed first. */
static int search_flat(const cn_desc *x, search *s)
{
  cn_desc flat = *x;
  size_t bytes = (size_t)(x->numel * s->size);
  void *copy = NULL;
  if (!cni_is_contiguous(x->ndim, x->shape, x->strides)) {
    if (!(copy = cni_scratch_alloc(bytes))) return CN_ERR_MEMORY;
    cn_desc packed = cni_cpu_packed(x, x->dtype, copy);
    cni_cpu_copy(&packed, x);
    s->x = copy;
  }
  flat.ndim = 1;
  flat.shape[0] = x->numel;
  flat.strides[0] = 1;
  cni_reduction_make(&s->r, &flat, 1);
  run(s);
  cni_scratch_free(copy, bytes);
  return CN_OK;
}

static int arg_kernel(cn_call *c, int min)
{
  const cn_desc *x = cn_desc_of(c->in[0]);
  search s;
  uint32_t mask;
  prepare(&s, x, min);
  s.index = cn_desc_of(c->out[0])->data;
  s.values = NULL;
  if (c->args[1].tag == CN_V_NONE) return search_flat(x, &s);
  int status = cni_dims_mask(c, &c->args[1], x->ndim, &mask);
  if (status) return status;
  cni_reduction_make(&s.r, x, mask);
  run(&s);
  return CN_OK;
}

static int extreme_dim_kernel(cn_call *c, int min)
{
  const cn_desc *x = cn_desc_of(c->in[0]);
  search s;
  uint32_t mask;
  int status = cni_dims_mask(c, &c->args[1], x->ndim, &mask);
  if (status) return status;
  prepare(&s, x, min);
  s.index = cn_desc_of(c->out[1])->data;
  s.values = cn_desc_of(c->out[0])->data;
  cni_reduction_make(&s.r, x, mask);
  run(&s);
  return CN_OK;
}

static int argmax_kernel(cn_call *c) { return arg_kernel(c, 0); }
static int argmin_kernel(cn_call *c) { return arg_kernel(c, 1); }
static int max_dim_kernel(cn_call *c) { return extreme_dim_kernel(c, 0); }
static int min_dim_kernel(cn_call *c) { return extreme_dim_kernel(c, 1); }

const cn_kernel cni_cpu_argmax_kernels[] = {
    {"argmax", "vector loops", argmax_kernel},
    {"argmin", "vector loops", argmin_kernel},
    {"max_dim", "vector loops", max_dim_kernel},
    {"min_dim", "vector loops", min_dim_kernel},
    {NULL, NULL, NULL},
};
