/* join.c: CPU kernels of the join family: cat, tril, triu.
 *
 * Place in the flow: the dispatcher calls them with results allocated. Invariant: each element of a result is written
 * once, by one thread. */
#include <string.h>

#include "backends/cpu/cpu.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "cast.h"
#include "nontemporal.h"
#include "rows.h"
#include "tensor/tensor.h"

enum {
  GRAIN = 32768,
  PIECE_GRAIN = 131072,     /* bytes of one piece that a thread takes */
  FEW_ROWS = 16,            /* too few to share among threads */
  NONTEMPORAL_LEAST = 1024, /* bytes of a piece that is worth it */
  JOIN_ROWS = 512
};

/* ---- cat(tensors, dim) ---- */

/* Inputs of the result's type whose rows are pieces of memory, evenly apart: each row of the result is one piece of
 * each input. */
typedef struct joining {
  const cn_call *c;
  int64_t row, inner; /* bytes of a row of the result; of one index of dim */
  int dim;
  bool nontemporal; /* past the caches */
} joining;

/* Elements from one row of x, what an index of the dims before `dim` stands for, to the next; negative: rows are not
 * evenly apart and upwards, or not pieces of memory. */
static int64_t row_step(const cn_desc *x, int dim)
{
  int64_t step = 0, rows = 1;
  if (!cni_is_contiguous(x->ndim - dim, x->shape + dim, x->strides + dim)) return -1;
  for (int i = dim - 1; i >= 0; i--) {
    if (x->shape[i] == 1) continue;
    if (rows == 1) step = x->strides[i];
    else if (x->strides[i] != rows * step) return -1;
    rows *= x->shape[i];
  }
  return step;
}

/* Piece i of `n` rows, from row r on, to `to` and below. */
static void join_piece(const joining *j, int i, char *to, int64_t r, int64_t n)
{
  const cn_desc *x = cn_desc_of(j->c->in[i]);
  const int64_t piece = x->shape[j->dim] * j->inner, step = row_step(x, j->dim) * (int64_t)cni_dtype_size(x->dtype);
  const char *from = (const char *)x->data + r * step;
  if (piece <= 8 && (piece & (piece - 1)) == 0) {
    cni_row_copy(to, j->row, from, step, (size_t)piece, n);
    return;
  }
  for (; n > 0; n--, to += j->row, from += step) {
    if (j->nontemporal && piece >= NONTEMPORAL_LEAST) cni_nontemporal_copy(to, from, (size_t)piece);
    else memcpy(to, from, (size_t)piece);
  }
}

/* Some rows at a time, so that each line of the result stays until it is complete. */
static void join_rows(int64_t begin, int64_t end, void *payload)
{
  const joining *j = payload;
  for (int64_t r = begin; r < end; r += JOIN_ROWS) {
    char *to = (char *)cn_desc_of(j->c->out[0])->data + r * j->row;
    for (int i = 0; i < j->c->nin; i++) {
      const cn_desc *x = cn_desc_of(j->c->in[i]);
      if (x->numel == 0) continue;
      join_piece(j, i, to, r, end - r < JOIN_ROWS ? end - r : JOIN_ROWS);
      to += x->shape[j->dim] * j->inner;
    }
  }
  if (j->nontemporal) cni_nontemporal_end();
}

/* One long piece by all threads. */
typedef struct piece_copy {
  char *to;
  const char *from;
  bool nontemporal;
} piece_copy;

static void copy_bytes(int64_t begin, int64_t end, void *payload)
{
  const piece_copy *p = payload;
  if (p->nontemporal) cni_nontemporal_copy(p->to + begin, p->from + begin, (size_t)(end - begin));
  else memcpy(p->to + begin, p->from + begin, (size_t)(end - begin));
  if (p->nontemporal) cni_nontemporal_end();
}

static void join_pieces(const joining *j, int64_t rows)
{
  char *to = cn_desc_of(j->c->out[0])->data;
  for (int64_t r = 0; r < rows; r++)
    for (int i = 0; i < j->c->nin; i++) {
      const cn_desc *x = cn_desc_of(j->c->in[i]);
      if (x->numel == 0) continue;
      int64_t bytes = x->shape[j->dim] * j->inner, step = row_step(x, j->dim) * (int64_t)cni_dtype_size(x->dtype);
      piece_copy p = {to, (const char *)x->data + r * step, j->nontemporal};
      cni_parallel_for(bytes, PIECE_GRAIN, copy_bytes, &p);
      to += bytes;
    }
}

static bool all_pieces(const cn_call *c, const cn_desc *y, int dim)
{
  if (!cni_is_contiguous(y->ndim, y->shape, y->strides)) return false;
  for (int i = 0; i < c->nin; i++) {
    const cn_desc *x = cn_desc_of(c->in[i]);
    if (x->numel && (x->dtype != y->dtype || row_step(x, dim) < 0)) return false;
  }
  return true;
}

static int cat_kernel(cn_call *c)
{
  const cn_desc *y = cn_desc_of(c->out[0]);
  int64_t elem = (int64_t)cni_dtype_size(y->dtype), at = 0, rows = 1, inner = elem;
  int dim = (int)(c->args[1].u.i < 0 ? c->args[1].u.i + y->ndim : c->args[1].u.i);
  if (y->numel == 0) return CN_OK;
  if (all_pieces(c, y, dim)) {
    for (int i = 0; i < dim; i++) rows *= y->shape[i];
    for (int i = dim + 1; i < y->ndim; i++) inner *= y->shape[i];
    joining j = {c, y->shape[dim] * inner, inner, dim, cni_nontemporal_pays(2 * y->numel * elem)};
    if (rows < FEW_ROWS && j.row > PIECE_GRAIN) join_pieces(&j, rows);
    else cni_parallel_for(rows, GRAIN / j.row + 1, join_rows, &j);
    return CN_OK;
  }
  for (int i = 0; i < c->nin; i++) {
    const cn_desc *x = cn_desc_of(c->in[i]);
    if (x->numel == 0) continue;
    cn_desc part = *y;
    part.shape[dim] = x->shape[dim];
    part.numel = x->numel;
    part.data = (char *)y->data + at * y->strides[dim] * elem;
    cni_cpu_copy(&part, x);
    at += x->shape[dim];
  }
  return CN_OK;
}

/* ---- triangles: rows of the last two dims, each cut in two at the diagonal ---- */

typedef struct triangle {
  const cn_desc *x, *y;
  int64_t diagonal, elem;
  bool upper;
} triangle;

/* Byte offset of row `at` of the last two dims. */
static int64_t row_offset(const cn_desc *d, int64_t at, int64_t elem)
{
  int64_t offset = 0;
  for (int i = d->ndim - 2; i >= 0; i--) {
    offset += at % d->shape[i] * d->strides[i];
    at /= d->shape[i];
  }
  return offset * elem;
}

static void cut_rows(int64_t begin, int64_t end, void *payload)
{
  const triangle *t = payload;
  static const char zero[8] = {0};
  const cn_desc *x = t->x, *y = t->y;
  int64_t height = y->shape[y->ndim - 2], width = y->shape[y->ndim - 1], elem = t->elem;
  int64_t xstep = x->strides[x->ndim - 1] * elem, ystep = y->strides[y->ndim - 1] * elem;
  for (int64_t r = begin; r < end; r++) {
    const char *from = (const char *)x->data + row_offset(x, r, elem);
    char *to = (char *)y->data + row_offset(y, r, elem);
    int64_t line = r % height, cut;
    if (__builtin_add_overflow(line, t->diagonal, &cut)) cut = width;
    if (!t->upper && cut < INT64_MAX) cut++;
    cut = cut < 0 ? 0 : cut > width ? width : cut;
    int64_t first = t->upper ? cut : 0, count = t->upper ? width - cut : cut;
    int64_t blank = t->upper ? 0 : cut;
    if (from != to) cni_row_copy(to + first * ystep, ystep, from + first * xstep, xstep, (size_t)elem, count);
    cni_row_fill(to + blank * ystep, ystep, zero, (size_t)elem, width - count);
  }
}

static int run_triangle(cn_call *c, bool upper)
{
  triangle t = {cn_desc_of(c->in[0]), cn_desc_of(c->out[0]), c->args[1].u.i, 0, upper};
  t.elem = (int64_t)cni_dtype_size(t.y->dtype);
  if (t.y->numel == 0) return CN_OK;
  int64_t width = t.y->shape[t.y->ndim - 1];
  cni_parallel_for(t.y->numel / width, GRAIN / width + 1, cut_rows, &t);
  return CN_OK;
}

static int tril_kernel(cn_call *c) { return run_triangle(c, false); }
static int triu_kernel(cn_call *c) { return run_triangle(c, true); }

const cn_kernel cni_cpu_join_kernels[] = {
    {"cat", "reference", cat_kernel},
    {"tril", "reference", tril_kernel},
    {"triu", "reference", triu_kernel},
    {NULL, NULL, NULL},
};
