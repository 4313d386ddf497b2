/* linalg.c: rows of factors of matrices. What has no inverse gives infinities or NaN: a device cannot object.
 * See row.h.
 *
 * Batches are brought to one dim in front. Invariant: the pivots are those of partial pivoting, the first of the
 * largest, so that permutations are the CPU's. */
#include <string.h>

#include "rows.h"

/* (..., n, m) as (b, n, m). */
static cni_hval stacked(cni_hlo *h, cni_hval x)
{
  int64_t shape[3] = {1, x.shape[x.ndim - 2], x.shape[x.ndim - 1]};
  for (int k = 0; k < x.ndim - 2; k++) shape[0] *= x.shape[k];
  return cni_hlo_reshape(h, x, 3, shape);
}

static void give(cni_hcall *c, int i, cni_hval y)
{
  c->out[i] = cni_hlo_reshape(c->h, cni_hlo_convert(c->h, y, c->out[i].dtype), c->out[i].ndim, c->out[i].shape);
}

static cni_hval zeros(cni_hlo *h, int dtype, int ndim, const int64_t *shape)
{
  return cni_hlo_splat(h, cni_hlo_num(0), dtype, ndim, shape);
}

static cni_hval turned(cni_hlo *h, cni_hval x) { return cni_hlo_swap(h, x, x.ndim - 2, x.ndim - 1); }

/* x where the text over row a and column b holds, 0 elsewhere. */
static cni_hval masked(cni_hlo *h, cni_hval x, const char *text)
{
  cni_hval row = cni_hlo_iota(h, CN_I32, x.ndim, x.shape, x.ndim - 2);
  cni_hval col = cni_hlo_iota(h, CN_I32, x.ndim, x.shape, x.ndim - 1);
  return cni_hlo_select(h, CNI_HLO_EXPR(h, text, CN_I32, row, col), x, cni_hlo_num(0));
}

/* ---- Cholesky ---- */

static void cholesky(cni_hcall *c)
{
  cni_hlo *h = c->h;
  cni_hval x = c->in[0];
  bool upper = cni_harg_int(c, 1) != 0;
  cni_hval l = cni_hlo_emit(h, "cholesky", upper ? "lower = false" : "lower = true", x.dtype, x.ndim, x.shape, 1, &x);
  give(c, 0, masked(h, l, upper ? "a <= b" : "a >= b"));
  if (c->nout < 2) return;
  cni_hval sum = cni_hlo_reduce(h, "add", c->out[0], 3u << (x.ndim - 2));
  give(c, 1, CNI_HLO_EXPR(h, "i32(a != a)", CN_I32, sum));
}

/* ---- triangles ---- */

/* A x = B, or x A = B. */
static cni_hval triangular(cni_hlo *h, cni_hval a, cni_hval b, bool left, bool lower, bool unit)
{
  cn_text t = {0};
  cn_text_putf(&t, "left_side = %s, lower = %s, unit_diagonal = %s, transpose_a = #stablehlo<transpose NO_TRANSPOSE>",
               left ? "true" : "false", lower ? "true" : "false", unit ? "true" : "false");
  cni_hval x = cni_hlo_emit(h, "triangular_solve", t.s, b.dtype, b.ndim, b.shape, 2, (cni_hval[]){a, b});
  cn_text_free(&t);
  return x;
}

/* Both with the same dims in front. */
static cni_hval in_front(cni_hlo *h, cni_hval x, const cni_hval *like)
{
  int64_t shape[CN_MAX_DIMS];
  memcpy(shape, like->shape, sizeof shape);
  shape[like->ndim - 2] = x.shape[x.ndim - 2], shape[like->ndim - 1] = x.shape[x.ndim - 1];
  return cni_hlo_expand(h, x, like->ndim, shape);
}

static void solve_triangular(cni_hcall *c)
{
  cni_hval a = in_front(c->h, c->in[0], &c->out[0]), b = in_front(c->h, c->in[1], &c->out[0]);
  bool upper = cni_harg_int(c, 2) != 0, left = cni_harg_int(c, 3) != 0, unit = cni_harg_int(c, 4) != 0;
  c->out[0] = triangular(c->h, a, b, left, !upper, unit);
}

/* ---- LU with partial pivoting ---- */

/* One value of each batch as a row of a matrix: (b, 1, m) at row i of (b, n, m). */
static cni_hval put_row(cni_hlo *h, cni_hval x, cni_hval i, cni_hval row)
{
  cni_hval at = cni_hlo_iota(h, CN_I32, 3, x.shape, 1);
  cni_hval here = cni_hlo_compare(h, "EQ", at, cni_hlo_broadcast(h, i, 3, x.shape, (int64_t[]){0}));
  return cni_hlo_select(h, here, cni_hlo_broadcast(h, row, 3, x.shape, (int64_t[]){0, 2}), x);
}

/* Row i[b] of each matrix, (b, m). */
static cni_hval row_of(cni_hlo *h, cni_hval x, cni_hval i)
{
  cni_hval at = cni_hlo_iota(h, CN_I32, 3, x.shape, 1);
  cni_hval here = cni_hlo_compare(h, "EQ", at, cni_hlo_broadcast(h, i, 3, x.shape, (int64_t[]){0}));
  return cni_hlo_reduce(h, "add", cni_hlo_select(h, here, x, cni_hlo_num(0)), 2);
}

/* By what pivots are compared: of complex numbers |re| + |im|. */
static cni_hval pivot_size(cni_hlo *h, cni_hval x)
{
  int part = cni_hlo_part(x.dtype);
  if (part == x.dtype) return cni_hlo_unary(h, "abs", x);
  cni_hval re = cni_hlo_emit(h, "real", NULL, part, x.ndim, x.shape, 1, &x);
  cni_hval im = cni_hlo_emit(h, "imag", NULL, part, x.ndim, x.shape, 1, &x);
  return CNI_HLO_EXPR(h, "abs(a) + abs(b)", part, re, im);
}

/* carried: the matrix (b, n, m), pivots (b, k), signs (b). payload: whether to pivot. */
static void lu_step(cni_hlo *h, cni_hval step, cni_hval *carried, void *payload)
{
  cni_hval x = carried[0], col = cni_hlo_at(h, x, 2, step); /* (b, n) */
  int64_t b = x.shape[0];
  cni_hval here = cni_hlo_expand(h, step, 1, &b), rows = cni_hlo_iota(h, CN_I32, 2, col.shape, 1), pivot = here;
  cni_hval wide = cni_hlo_expand(h, step, 2, col.shape);
  if (*(bool *)payload) {
    cni_hval size = pivot_size(h, col);
    size = CNI_HLO_EXPR(h, "b >= c ? a : -1", size.dtype, size, rows, wide);
    cni_hval most = cni_hlo_reduce(h, "maximum", size, 2);
    cni_hval best = CNI_HLO_EXPR(h, "(a == b) | (a != a) ? c : d", CN_I32, size,
                                 cni_hlo_broadcast(h, most, 2, col.shape, (int64_t[]){0}), rows,
                                 cni_hlo_int(x.shape[1] - 1));
    pivot = cni_hlo_reduce(h, "minimum", best, 2);
  }
  cni_hval upper = row_of(h, x, here), lower = row_of(h, x, pivot);
  x = put_row(h, put_row(h, x, pivot, upper), here, lower);
  cni_hval head = cni_hlo_at(h, lower, 1, step); /* (b) */
  col = cni_hlo_at(h, x, 2, step);
  cni_hval factor = CNI_HLO_EXPR(h, "(b > c) & (d != 0) ? a / d : (b > c ? a : 0)", col.dtype, col, rows, wide,
                                 cni_hlo_broadcast(h, head, 2, col.shape, (int64_t[]){0}));
  cni_hval f = cni_hlo_broadcast(h, factor, 3, x.shape, (int64_t[]){0, 1});
  cni_hval u = cni_hlo_broadcast(h, lower, 3, x.shape, (int64_t[]){0, 2});
  cni_hval row3 = cni_hlo_iota(h, CN_I32, 3, x.shape, 1), col3 = cni_hlo_iota(h, CN_I32, 3, x.shape, 2);
  cni_hval k = cni_hlo_expand(h, step, 3, x.shape);
  carried[0] =
      CNI_HLO_EXPR(h, "(d > f) & (e > f) ? a - b * c : (d > f) & (e == f) ? b : a", x.dtype, x, f, u, row3, col3, k);
  carried[1] = cni_hlo_set_at(h, carried[1], 1, step, CNI_HLO_EXPR(h, "a + 1", CN_I32, pivot));
  carried[2] = CNI_HLO_EXPR(h, "b == c ? a : -a", x.dtype, carried[2], pivot, here);
}

typedef struct factors {
  cni_hval lu, pivots, sign; /* (b, n, m), (b, k) from 1, (b) */
} factors;

static factors lu_of(cni_hlo *h, cni_hval x, bool pivot)
{
  x = stacked(h, x);
  int64_t k = x.shape[1] < x.shape[2] ? x.shape[1] : x.shape[2], shape[2] = {x.shape[0], k};
  cni_hval carried[3] = {x, zeros(h, CN_I32, 2, shape), cni_hlo_splat(h, cni_hlo_num(1), x.dtype, 1, x.shape)};
  if (k && x.shape[0]) cni_hlo_loop(h, k, 3, carried, lu_step, &pivot);
  return (factors){carried[0], carried[1], carried[2]};
}

/* The place of the first zero on the diagonal, from 1; else 0: (b) */
static cni_hval first_zero(cni_hlo *h, cni_hval lu)
{
  int64_t k = lu.shape[1] < lu.shape[2] ? lu.shape[1] : lu.shape[2];
  cni_hval row = cni_hlo_iota(h, CN_I32, 3, lu.shape, 1), col = cni_hlo_iota(h, CN_I32, 3, lu.shape, 2);
  cni_hval at = CNI_HLO_EXPR(h, "(b == c) & (a == 0) ? b + 1 : d", CN_I32, lu, row, col, cni_hlo_int(k + 1));
  cni_hval first = cni_hlo_reduce(h, "minimum", at, 6);
  return CNI_HLO_EXPR(h, "a > b ? 0 : a", CN_I32, first, cni_hlo_int(k));
}

static void lu_factor(cni_hcall *c)
{
  factors f = lu_of(c->h, c->in[0], cni_harg_int(c, 1) != 0);
  give(c, 0, f.lu);
  give(c, 1, f.pivots);
  give(c, 2, first_zero(c->h, f.lu));
}

typedef struct exchange {
  cni_hval pivots;
} exchange;

/* carried: the order (b, n). */
static void exchange_step(cni_hlo *h, cni_hval step, cni_hval *carried, void *payload)
{
  cni_hval other = CNI_HLO_EXPR(h, "a - 1", CN_I32, cni_hlo_at(h, ((exchange *)payload)->pivots, 1, step)); /* (b) */
  cni_hval x = carried[0], at = cni_hlo_iota(h, CN_I32, 2, x.shape, 1);
  cni_hval here = cni_hlo_expand(h, step, 2, x.shape), there = cni_hlo_broadcast(h, other, 2, x.shape, (int64_t[]){0});
  cni_hval a = cni_hlo_at(h, x, 1, step);
  cni_hval b = cni_hlo_reduce(h, "add", CNI_HLO_EXPR(h, "b == c ? a : 0", x.dtype, x, at, there), 2);
  a = cni_hlo_broadcast(h, a, 2, x.shape, (int64_t[]){0}), b = cni_hlo_broadcast(h, b, 2, x.shape, (int64_t[]){0});
  carried[0] = CNI_HLO_EXPR(h, "b == c ? e : b == d ? f : a", x.dtype, x, at, here, there, b, a);
}

/* The row of A that each row of L U is: pivots (b, k), n rows. */
static cni_hval permutation_of(cni_hlo *h, cni_hval pivots, int64_t n)
{
  exchange e = {pivots};
  int64_t shape[2] = {pivots.shape[0], n};
  cni_hval order = cni_hlo_iota(h, CN_I32, 2, shape, 1);
  if (pivots.shape[1] && shape[0]) cni_hlo_loop(h, pivots.shape[1], 1, &order, exchange_step, &e);
  return order;
}

static void lu_permutation(cni_hcall *c)
{
  cni_hval p = c->in[0];
  int64_t shape[2] = {1, p.shape[p.ndim - 1]};
  for (int k = 0; k < p.ndim - 1; k++) shape[0] *= p.shape[k];
  p = cni_hlo_reshape(c->h, cni_hlo_convert(c->h, p, CN_I32), 2, shape);
  give(c, 0, permutation_of(c->h, p, cni_harg_int(c, 1)));
}

/* ---- what follows from it ---- */

/* A x = B of (b, n, n) and (b, n, m). */
static cni_hval solved(cni_hlo *h, const factors *f, cni_hval b)
{
  cni_hval order = permutation_of(h, f->pivots, b.shape[1]);
  order = cni_hlo_broadcast(h, order, 3, b.shape, (int64_t[]){0, 1});
  b = cni_hlo_take_along(h, b, 1, order);
  return triangular(h, f->lu, triangular(h, f->lu, b, true, true, true), true, false, false);
}

/* linalg_solve(A, B, left): B may be vectors. */
static void solve(cni_hcall *c)
{
  cni_hlo *h = c->h;
  cni_hval a = c->in[0], b = c->in[1];
  bool left = cni_harg_int(c, 2) != 0;
  bool vector = b.ndim == 1 || (b.ndim == a.ndim - 1 && !memcmp(a.shape, b.shape, (size_t)b.ndim * sizeof *b.shape));
  cni_hval like = c->out[0];
  if (vector) {
    b = cni_hlo_insert_dim(h, b, b.ndim, 1);
    like.shape[like.ndim++] = 1;
  }
  a = in_front(h, a, &like), b = in_front(h, b, &like);
  if (!left) a = turned(h, a), b = turned(h, b);
  factors f = lu_of(h, a, true);
  cni_hval x = cni_hlo_reshape(h, solved(h, &f, stacked(h, b)), b.ndim, b.shape);
  give(c, 0, left ? x : turned(h, x));
  if (c->nout > 1) {
    factors own = cni_hlo_numel(&c->in[0]) == cni_hlo_numel(&a) ? f : lu_of(h, c->in[0], true);
    give(c, 1, first_zero(h, own.lu));
  }
}

static void inverse(cni_hcall *c)
{
  cni_hlo *h = c->h;
  factors f = lu_of(h, c->in[0], true);
  cni_hval row = cni_hlo_iota(h, CN_I32, 3, f.lu.shape, 1), col = cni_hlo_iota(h, CN_I32, 3, f.lu.shape, 2);
  cni_hval eye = cni_hlo_convert(h, cni_hlo_compare(h, "EQ", row, col), f.lu.dtype);
  give(c, 0, solved(h, &f, eye));
  give(c, 1, first_zero(h, f.lu));
}

static void det(cni_hcall *c)
{
  cni_hlo *h = c->h;
  factors f = lu_of(h, c->in[0], true);
  cni_hval row = cni_hlo_iota(h, CN_I32, 3, f.lu.shape, 1), col = cni_hlo_iota(h, CN_I32, 3, f.lu.shape, 2);
  cni_hval d = CNI_HLO_EXPR(h, "b == c ? a : 1", f.lu.dtype, f.lu, row, col);
  give(c, 0, cni_hlo_binary(h, "multiply", cni_hlo_reduce(h, "multiply", d, 6), f.sign));
}

const cni_hrow cni_hlo_linalg_rows[] = {{"linalg_cholesky", cholesky, NULL},
                                        {"linalg_cholesky_ex", cholesky, NULL},
                                        {"linalg_solve_triangular", solve_triangular, NULL},
                                        {"linalg_lu_factor_ex", lu_factor, NULL},
                                        {"lu_permutation", lu_permutation, NULL},
                                        {"linalg_solve", solve, NULL},
                                        {"linalg_solve_ex", solve, NULL},
                                        {"linalg_inv_ex", inverse, NULL},
                                        {"linalg_det", det, NULL},
                                        {NULL, NULL, NULL}};
