/* ldl.c: rows of the L D L^T decomposition of symmetric matrices and of solving with it. See row.h.
 *
 * Step by step, a column at a time, all matrices of a batch together; one whose block of two columns began in the step
 * before lets a step pass. Invariant: pivots are those of Bunch and Kaufman as LAPACK counts them: from 1, negative and
 * twice for a block of two. What is computed lies in float64. */
#include <string.h>

#include "matrices.h"

/* Element (i, k) of each matrix, where row i is a number of each (b) and column x (b, n). */
static cni_hval picked(cni_hlo *h, cni_hval x, cni_hval i)
{
  cni_hval row = cni_hlo_iota(h, CN_I32, 2, x.shape, 1);
  return cni_hlo_reduce(h, "add", CNI_HLO_EXPR(h, "b == c ? a : 0", CN_F64, x, row, each(h, i, &x)), 2);
}

/* The largest of what the mask (b, n) leaves, and the first place of it. */
static cni_hval largest(cni_hlo *h, cni_hval x, cni_hval mask, cni_hval *place)
{
  cni_hval size = CNI_HLO_EXPR(h, "b ? abs(a) : -1", CN_F64, x, mask), row = cni_hlo_iota(h, CN_I32, 2, x.shape, 1);
  cni_hval most = cni_hlo_reduce(h, "maximum", size, 2), last = cni_hlo_int(x.shape[1] - 1);
  cni_hval at = CNI_HLO_EXPR(h, "(a == b) & d ? c : e", CN_I32, size, each(h, most, &x), row, mask, last);
  if (place) *place = cni_hlo_reduce(h, "minimum", at, 2);
  return CNI_HLO_EXPR(h, "max(a, 0)", CN_F64, most);
}

/* Rows i and k (b) of x (b, n, m) change places. */
static cni_hval rows_exchanged(cni_hlo *h, cni_hval x, cni_hval i, cni_hval k)
{
  cni_hval row = rows_of(h, &x);
  return cni_hlo_take_along(h, x, 1, CNI_HLO_EXPR(h, "a == b ? c : a == c ? b : a", CN_I32, row, each(h, i, &x),
                                                  each(h, k, &x)));
}

/* ---- linalg_ldl_factor_ex(A, hermitian, check_errors) -> (LD, pivots, info) ---- */

/* carried: what is left, symmetric (b, n, n); L and D (b, n, n); pivots (b, n); the first column of zeros (b); whether
 * this column is the second of a block (b). */
enum { LEFT, FACTORS, PIVOTS, INFO, SECOND, CARRIED };

typedef struct choice {
  cni_hval count, row; /* columns of the block: 0 (a column of zeros), 1, 2; which row comes to its end: (b) */
} choice;

static choice choose(cni_hlo *h, cni_hval left, cni_hval col, cni_hval k)
{
  cni_hval row = cni_hlo_iota(h, CN_I32, 2, col.shape, 1), wide = each(h, k, &col), best, along;
  cni_hval own = CNI_HLO_EXPR(h, "abs(a)", CN_F64, picked(h, col, k));
  cni_hval most = largest(h, col, cni_hlo_compare(h, "GT", row, wide), &best);
  cni_hval there = cni_hlo_reduce(h, "add", CNI_HLO_EXPR(h, "b == c ? a : 0", CN_F64, left, rows_of(h, &left),
                                                         each(h, best, &left)), 2);
  along = largest(h, there, CNI_HLO_EXPR(h, "(a >= b) & (a != c)", CN_I32, row, wide, each(h, best, &col)), NULL);
  cni_hval beyond = CNI_HLO_EXPR(h, "abs(a) >= 0.6403882032022076 * b", CN_F64, picked(h, there, best), along);
  const char *stays = "l = 0.6403882032022076 * b; (a >= l) | (a >= l * (b / c))";
  cni_hval own_row = CNI_HLO_EXPR(h, stays, CN_F64, own, most, along);
  cni_hval none = CNI_HLO_EXPR(h, "(a != a) | !(max(a, b) > 0)", CN_F64, own, most);
  return (choice){CNI_HLO_EXPR(h, "i32(!a) * (i32(!(b | c)) + 1)", CN_I32, none, own_row, beyond),
                  CNI_HLO_EXPR(h, "b | c ? a : d", CN_I32, k, none, own_row, best)};
}

/* What the columns at k and behind it of LEFT say: rows of L, and what is to be taken from the rest. */
static void eliminate(cni_hlo *h, cni_hval step, cni_hval count, cni_hval *v)
{
  cni_hval left = v[LEFT], one = cni_hlo_at(h, left, 2, step); /* (b, n) */
  cni_hval after = CNI_HLO_EXPR(h, "min(a + 1, b)", CN_I32, step, cni_hlo_int(left.shape[1] - 1));
  cni_hval two = cni_hlo_at(h, left, 2, after), row = cni_hlo_iota(h, CN_I32, 2, one.shape, 1);
  cni_hval k = cni_hlo_expand(h, step, 1, left.shape), wide = cni_hlo_expand(h, step, 2, one.shape);
  cni_hval next = cni_hlo_expand(h, after, 1, left.shape), pair = cni_hlo_compare(h, "EQ", count, cni_hlo_int(2));
  cni_hval corner = CNI_HLO_EXPR(h, "b ? a : 1", CN_F64, picked(h, one, next), pair);
  cni_hval low = CNI_HLO_EXPR(h, "a / b", CN_F64, picked(h, two, next), corner);
  cni_hval high = CNI_HLO_EXPR(h, "a / b", CN_F64, picked(h, one, k), corner);
  cni_hval scale = CNI_HLO_EXPR(h, "1 / (a * b - 1) / c", CN_F64, low, high, corner);
  cni_hval first = CNI_HLO_EXPR(h, "d * (c * a - b)", CN_F64, one, two, each(h, low, &one), each(h, scale, &one));
  cni_hval second = CNI_HLO_EXPR(h, "d * (c * b - a)", CN_F64, one, two, each(h, high, &one), each(h, scale, &one));
  cni_hval single = CNI_HLO_EXPR(h, "a / b", CN_F64, one, each(h, picked(h, one, k), &one));
  cni_hval wide_count = each(h, count, &one), both = cni_hlo_compare(h, "EQ", wide_count, cni_hlo_int(2));
  cni_hval below = CNI_HLO_EXPR(h, "(c > 0) & (a >= b + c)", CN_I32, row, wide, wide_count);
  first = CNI_HLO_EXPR(h, "d ? (c ? a : b) : 0", CN_F64, first, single, both, below);
  second = CNI_HLO_EXPR(h, "b & c ? a : 0", CN_F64, second, both, below);
  cni_hval taken = CNI_HLO_EXPR(h, "a * c + b * d", CN_F64, down(h, one, &left), down(h, two, &left),
                                across(h, first, &left), across(h, second, &left));
  cni_hval rest = CNI_HLO_EXPR(h, "a & b", CN_I32, down(h, below, &left), across(h, below, &left));
  v[LEFT] = CNI_HLO_EXPR(h, "c ? a - b : a", CN_F64, left, taken, rest);
  /* Columns of L below the block, the block itself above. */
  cni_hval column = cols_of(h, &left), at = cni_hlo_expand(h, step, 3, left.shape), counts = each(h, count, &left);
  first = cni_hlo_select(h, below, first, one), second = cni_hlo_select(h, below, second, two);
  cni_hval made = CNI_HLO_EXPR(h, "c == d ? a : b", CN_F64, down(h, first, &left), down(h, second, &left), column, at);
  v[FACTORS] = CNI_HLO_EXPR(h, "(c >= d) & (c < d + max(e, 1)) & (e >= 0) ? b : a", CN_F64, v[FACTORS], made, column,
                            at, counts);
}

static void factor_step(cni_hlo *h, cni_hval step, cni_hval *v, void *payload)
{
  cni_hval k = cni_hlo_expand(h, step, 1, v[LEFT].shape), left = v[LEFT];
  (void)payload;
  choice c = choose(h, left, cni_hlo_at(h, left, 2, step), k);
  cni_hval to = CNI_HLO_EXPR(h, "d | (b == 0) ? a : a + b - 1", CN_I32, k, c.count, c.row, v[SECOND]);
  cni_hval from = CNI_HLO_EXPR(h, "d | (b == 0) ? a : c", CN_I32, k, c.count, c.row, v[SECOND]);
  left = turned(h, rows_exchanged(h, turned(h, rows_exchanged(h, left, to, from)), to, from));
  v[LEFT] = left;
  eliminate(h, step, CNI_HLO_EXPR(h, "b ? -1 : a", CN_I32, c.count, v[SECOND]), v);
  cni_hval at = cni_hlo_iota(h, CN_I32, 2, v[PIVOTS].shape, 1), here = cni_hlo_expand(h, step, 2, v[PIVOTS].shape);
  cni_hval pivot = CNI_HLO_EXPR(h, "a == 0 ? c + 1 : a == 1 ? b + 1 : -b - 1", CN_I32, c.count, c.row, k);
  cni_hval counts = each(h, CNI_HLO_EXPR(h, "b ? 0 : max(a, 1)", CN_I32, c.count, v[SECOND]), &at);
  v[PIVOTS] =
      CNI_HLO_EXPR(h, "(c >= d) & (c < d + e) ? b : a", CN_I32, v[PIVOTS], each(h, pivot, &at), at, here, counts);
  v[INFO] = CNI_HLO_EXPR(h, "(a == 0) & (b == 0) & !d ? c + 1 : a", CN_I32, v[INFO], c.count, k, v[SECOND]);
  v[SECOND] = CNI_HLO_EXPR(h, "(a == 2) & !b", CN_I32, c.count, v[SECOND]);
}

static void ldl_factor(cni_hcall *c)
{
  cni_hlo *h = c->h;
  cni_hval x = real_matrices(c), v[CARRIED], zero = cni_hlo_num(0);
  int64_t b = x.shape[0], n = x.shape[1];
  v[LEFT] = CNI_HLO_EXPR(h, "c >= d ? a : b", CN_F64, x, turned(h, x), rows_of(h, &x), cols_of(h, &x));
  v[FACTORS] = cni_hlo_splat(h, zero, CN_F64, 3, x.shape);
  v[PIVOTS] = cni_hlo_splat(h, zero, CN_I32, 2, x.shape);
  v[INFO] = cni_hlo_splat(h, zero, CN_I32, 1, x.shape);
  v[SECOND] = cni_hlo_splat(h, cni_hlo_int(0), CN_BOOL, 1, x.shape);
  if (b && n) cni_hlo_loop(h, n, CARRIED, v, factor_step, NULL);
  give(c, 0, CNI_HLO_EXPR(h, "b >= c ? a : 0", CN_F64, v[FACTORS], rows_of(h, &x), cols_of(h, &x)));
  give(c, 1, v[PIVOTS]);
  give(c, 2, v[INFO]);
}

/* ---- linalg_ldl_solve(LD, pivots, B, hermitian) ---- */

typedef struct solving {
  cni_hval ld, pivots; /* (b, n, n), (b, n) */
} solving;

/* Column `step` of L, of rows from `beyond` behind it on (b, n). */
static cni_hval below(cni_hlo *h, const solving *s, cni_hval step, cni_hval beyond)
{
  cni_hval col = cni_hlo_at(h, s->ld, 2, step), row = cni_hlo_iota(h, CN_I32, 2, col.shape, 1);
  return CNI_HLO_EXPR(h, "b >= c ? a : 0", CN_F64, col, row, each(h, beyond, &col));
}

/* Element (i, k) of each matrix: (b) */
static cni_hval corner_of(cni_hlo *h, cni_hval x, cni_hval i, cni_hval k)
{
  return cni_hlo_at(h, cni_hlo_at(h, x, 2, k), 1, i);
}

/* L D Y = B. carried: B (b, n, m), whether this column is the second of a block (b). */
static void forward_step(cni_hlo *h, cni_hval step, cni_hval *v, void *payload)
{
  const solving *s = payload;
  cni_hval b = v[0], second = v[1], k = cni_hlo_expand(h, step, 1, b.shape), p = cni_hlo_at(h, s->pivots, 1, step);
  cni_hval after = CNI_HLO_EXPR(h, "min(a + 1, b)", CN_I32, step, cni_hlo_int(b.shape[1] - 1));
  cni_hval pair = CNI_HLO_EXPR(h, "(a < 0) & !b", CN_I32, p, second);
  cni_hval to = CNI_HLO_EXPR(h, "c ? a + 1 : a", CN_I32, k, p, pair);
  cni_hval from = CNI_HLO_EXPR(h, "c ? a : b < 0 ? -b - 1 : b - 1", CN_I32, k, p, second);
  b = rows_exchanged(h, b, to, CNI_HLO_EXPR(h, "b ? c : a", CN_I32, from, second, to));
  cni_hval beyond = CNI_HLO_EXPR(h, "b | c ? a + 2 : a + 1", CN_I32, k, pair, second);
  /* A second column takes nothing: its block's first step has taken both. */
  cni_hval one = below(h, s, step, beyond), two = below(h, s, after, beyond);
  cni_hval x = cni_hlo_at(h, b, 1, step), y = cni_hlo_at(h, b, 1, after); /* (b, m) */
  cni_hval taken = CNI_HLO_EXPR(h, "a * c + (e ? b * d : 0)", CN_F64, down(h, one, &b), down(h, two, &b),
                                across(h, x, &b), across(h, y, &b), each(h, pair, &b));
  cni_hval next = cni_hlo_binary(h, "subtract", b, taken);
  cni_hval corner = CNI_HLO_EXPR(h, "b ? a : 1", CN_F64, corner_of(h, s->ld, after, step), pair);
  cni_hval high = CNI_HLO_EXPR(h, "a / b", CN_F64, corner_of(h, s->ld, step, step), corner);
  cni_hval low = CNI_HLO_EXPR(h, "a / b", CN_F64, corner_of(h, s->ld, after, after), corner);
  cni_hval c2 = each(h, corner, &x), h2 = each(h, high, &x), l2 = each(h, low, &x);
  cni_hval upper = CNI_HLO_EXPR(h, "(e * (a / c) - b / c) / (d * e - 1)", CN_F64, x, y, c2, h2, l2);
  cni_hval lower = CNI_HLO_EXPR(h, "(d * (b / c) - a / c) / (d * e - 1)", CN_F64, x, y, c2, h2, l2);
  cni_hval alone = CNI_HLO_EXPR(h, "a / b", CN_F64, x, h2), row = rows_of(h, &b);
  cni_hval at = cni_hlo_expand(h, step, 3, b.shape);
  cni_hval here = cni_hlo_select(h, each(h, pair, &x), upper, alone);
  next = CNI_HLO_EXPR(h, "c == d ? b : a", CN_F64, next, across(h, here, &b), row, at);
  next = CNI_HLO_EXPR(h, "(c == d + 1) & e ? b : a", CN_F64, next, across(h, lower, &b), row, at, each(h, pair, &b));
  v[0] = cni_hlo_select(h, each(h, second, &b), v[0], next);
  v[1] = pair;
}

/* L^T X = Y, from the last column up; there the second of a block comes first. */
static void backward_step(cni_hlo *h, cni_hval step, cni_hval *v, void *payload)
{
  const solving *s = payload;
  cni_hval b = v[0], passes = v[1], at = CNI_HLO_EXPR(h, "b - a", CN_I32, step, cni_hlo_int(b.shape[1] - 1));
  cni_hval k = cni_hlo_expand(h, at, 1, b.shape), before = CNI_HLO_EXPR(h, "max(a - 1, 0)", CN_I32, at);
  cni_hval p = cni_hlo_at(h, s->pivots, 1, at), pair = CNI_HLO_EXPR(h, "(a < 0) & !b", CN_I32, p, passes);
  cni_hval beyond = CNI_HLO_EXPR(h, "a + 1", CN_I32, k), row = rows_of(h, &b), here = each(h, k, &b);
  cni_hval one = below(h, s, at, beyond), two = below(h, s, before, beyond);
  cni_hval x = cni_hlo_reduce(h, "add", cni_hlo_binary(h, "multiply", down(h, one, &b), b), 2); /* (b, m) */
  cni_hval y = cni_hlo_reduce(h, "add", cni_hlo_binary(h, "multiply", down(h, two, &b), b), 2);
  cni_hval next = CNI_HLO_EXPR(h, "c == d ? a - b : a", CN_F64, b, across(h, x, &b), row, here);
  next = CNI_HLO_EXPR(h, "(c == d - 1) & e ? a - b : a", CN_F64, next, across(h, y, &b), row, here, each(h, pair, &b));
  cni_hval from = CNI_HLO_EXPR(h, "a < 0 ? -a - 1 : a - 1", CN_I32, p);
  v[0] = cni_hlo_select(h, each(h, passes, &b), b, rows_exchanged(h, next, k, from));
  v[1] = pair;
}

/* (..., n, m) for the batch of the result, as (b, n, m); of pivots (..., n) as (b, n). */
static cni_hval of_batch(cni_hlo *h, cni_hval x, const cni_hval *like, int last, int dtype)
{
  int64_t shape[CN_MAX_DIMS], flat[3] = {1, x.shape[x.ndim - last], x.shape[x.ndim - 1]};
  int dims = like->ndim - 2;
  for (int k = 0; k < dims; k++) shape[k] = like->shape[k], flat[0] *= like->shape[k];
  for (int k = 0; k < last; k++) shape[dims + k] = x.shape[x.ndim - last + k];
  x = cni_hlo_expand(h, cni_hlo_cast(h, x, dtype), dims + last, shape);
  return cni_hlo_reshape(h, x, last + 1, flat);
}

static void ldl_solve(cni_hcall *c)
{
  cni_hlo *h = c->h;
  const cni_hval *like = &c->out[0];
  solving s = {of_batch(h, c->in[0], like, 2, CN_F64), of_batch(h, c->in[1], like, 1, CN_I32)};
  cni_hval v[2] = {of_batch(h, c->in[2], like, 2, CN_F64)}, none;
  none = v[1] = cni_hlo_splat(h, cni_hlo_int(0), CN_BOOL, 1, v[0].shape);
  if (cni_hlo_numel(like)) {
    cni_hlo_loop(h, v[0].shape[1], 2, v, forward_step, &s);
    v[1] = none;
    cni_hlo_loop(h, v[0].shape[1], 2, v, backward_step, &s);
  }
  give(c, 0, v[0]);
}

const cni_hrow cni_hlo_ldl_rows[] = {{"linalg_ldl_factor_ex", ldl_factor, NULL},
                                     {"linalg_ldl_solve", ldl_solve, NULL},
                                     {NULL, NULL, NULL}};
