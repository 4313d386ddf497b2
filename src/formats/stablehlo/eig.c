/* eig.c: rows of eigenvalues and eigenvectors of any square matrix, real or complex. See row.h.
 *
 * To Hessenberg form by reflections, to a triangle by shifted QR steps, and back from the triangle's vectors, as the
 * CPU's kernel does (backends/cpu/linalg/linalg_eig.c), all matrices of a batch together. Complex numbers are pairs of
 * float64, since not all devices have others. Invariant: each matrix turns rows `low` to `high` of its own; one that is
 * done stays as it is. What does not converge, or is not finite, gives NaN. */
#include <string.h>

#include "matrices.h"

typedef struct pair {
  cni_hval re, im;
} pair;

#define RE(h, text, ...) CNI_HLO_EXPR(h, text, CN_F64, __VA_ARGS__)

static pair each_part(cni_hlo *h, const char *op, pair a, pair b)
{
  return (pair){cni_hlo_binary(h, op, a.re, b.re), cni_hlo_binary(h, op, a.im, b.im)};
}

static pair sum_of(cni_hlo *h, pair a, pair b) { return each_part(h, "add", a, b); }
static pair less(cni_hlo *h, pair a, pair b) { return each_part(h, "subtract", a, b); }
static pair conjugate(cni_hlo *h, pair a) { return (pair){a.re, cni_hlo_unary(h, "negate", a.im)}; }
static cni_hval square(cni_hlo *h, pair a) { return RE(h, "a * a + b * b", a.re, a.im); }
static cni_hval size_of(cni_hlo *h, pair a) { return RE(h, "hypot(a, b)", a.re, a.im); }

static pair times(cni_hlo *h, pair a, pair b)
{
  return (pair){RE(h, "a * c - b * d", a.re, a.im, b.re, b.im), RE(h, "a * d + b * c", a.re, a.im, b.re, b.im)};
}

static pair scaled(cni_hlo *h, pair a, cni_hval by)
{
  return (pair){cni_hlo_binary(h, "multiply", a.re, by), cni_hlo_binary(h, "multiply", a.im, by)};
}

static pair chosen(cni_hlo *h, cni_hval p, pair a, pair b)
{
  return (pair){cni_hlo_select(h, p, a.re, b.re), cni_hlo_select(h, p, a.im, b.im)};
}

static pair divided(cni_hlo *h, pair a, pair b)
{
  cni_hval most = RE(h, "m = max(abs(a), abs(b)); m == 0 ? 1 : m", b.re, b.im), by = RE(h, "1 / a", most);
  b = scaled(h, b, by);
  return scaled(h, times(h, a, conjugate(h, b)), RE(h, "a / b", by, square(h, b)));
}

/* One value for each matrix, row or column, spread over x. */
static pair over(cni_hlo *h, cni_hval (*spread)(cni_hlo *, cni_hval, const cni_hval *), pair v, const pair *x)
{
  return (pair){spread(h, v.re, &x->re), spread(h, v.im, &x->re)};
}

static pair added_up(cni_hlo *h, pair x, uint32_t dims)
{
  return (pair){cni_hlo_reduce(h, "add", x.re, dims), cni_hlo_reduce(h, "add", x.im, dims)};
}

static pair slice_at(cni_hlo *h, pair x, int dim, cni_hval i)
{
  return (pair){cni_hlo_at(h, x.re, dim, i), cni_hlo_at(h, x.im, dim, i)};
}

static pair slice_set(cni_hlo *h, pair x, int dim, cni_hval i, pair row)
{
  return (pair){cni_hlo_set_at(h, x.re, dim, i, row.re), cni_hlo_set_at(h, x.im, dim, i, row.im)};
}

/* Element (i, k) of each matrix: i, k (b). */
static pair element(cni_hlo *h, pair x, cni_hval i, cni_hval k)
{
  cni_hval here = CNI_HLO_EXPR(h, "(a == b) & (c == d)", CN_I32, rows_of(h, &x.re), each(h, i, &x.re),
                               cols_of(h, &x.re), each(h, k, &x.re));
  pair none = {cni_hlo_num(0), cni_hlo_num(0)};
  return added_up(h, (pair){cni_hlo_select(h, here, x.re, none.re), cni_hlo_select(h, here, x.im, none.im)}, 6);
}

/* carried by all loops: the matrix (b, n, n) that becomes a triangle, and the product of what turned it */
enum { H_RE, H_IM, Z_RE, Z_IM, HIGH, STEPS, MATRICES = HIGH, CARRIED = STEPS + 1 };

/* ---- Hessenberg form ---- */

/* a (1 - 2 v v^H) */
static pair from_right(cni_hlo *h, pair a, pair v)
{
  pair dot = added_up(h, times(h, a, over(h, across, v, &a)), 4); /* (b, n) */
  pair taken = times(h, over(h, down, dot, &a), conjugate(h, over(h, across, v, &a)));
  return less(h, a, sum_of(h, taken, taken));
}

static void hessenberg_step(cni_hlo *h, cni_hval step, cni_hval *c, void *payload)
{
  pair a = {c[H_RE], c[H_IM]}, z = {c[Z_RE], c[Z_IM]}, x = slice_at(h, a, 2, step); /* (b, n) */
  cni_hval row = cni_hlo_iota(h, CN_I32, 2, x.re.shape, 1), at = cni_hlo_expand(h, step, 2, x.re.shape);
  cni_hval first = CNI_HLO_EXPR(h, "a == b + 1", CN_I32, row, at), rest = CNI_HLO_EXPR(h, "a > b + 1", CN_I32, row, at);
  cni_hval below = CNI_HLO_EXPR(h, "a > b", CN_I32, row, at), zero = cni_hlo_num(0);
  (void)payload;
  cni_hval most = cni_hlo_reduce(h, "maximum", RE(h, "c ? max(abs(a), abs(b)) : 0", x.re, x.im, below), 2);
  cni_hval by = RE(h, "a > 0 ? 1 / a : 1", most);
  x = scaled(h, x, each(h, by, &x.re));
  cni_hval behind = cni_hlo_reduce(h, "add", cni_hlo_select(h, rest, square(h, x), zero), 2);
  pair head = added_up(h, (pair){cni_hlo_select(h, first, x.re, zero), cni_hlo_select(h, first, x.im, zero)}, 2);
  cni_hval size = size_of(h, head), norm = RE(h, "sqrt(a + b * b)", behind, size);
  pair unit = {RE(h, "b == 0 ? 1 : a / b", head.re, size), RE(h, "b == 0 ? 0 : a / b", head.im, size)};
  pair top = sum_of(h, head, scaled(h, unit, norm)), v = chosen(h, first, over(h, each, top, &x), x);
  v = (pair){cni_hlo_select(h, below, v.re, zero), cni_hlo_select(h, below, v.im, zero)};
  cni_hval length = cni_hlo_reduce(h, "add", square(h, v), 2);
  length = RE(h, "(a == 0) | (b == 0) ? 0 : 1 / sqrt(b)", behind, length);
  v = scaled(h, v, each(h, length, &x.re));
  pair dot = added_up(h, times(h, a, conjugate(h, over(h, down, v, &a))), 2); /* (b, n) of columns */
  pair taken = times(h, over(h, down, v, &a), over(h, across, dot, &a));
  a = from_right(h, less(h, a, sum_of(h, taken, taken)), v);
  z = from_right(h, z, v);
  c[H_RE] = a.re, c[H_IM] = a.im, c[Z_RE] = z.re, c[Z_IM] = z.im;
}

/* What lies below the diagonal beside it, as zeros. */
static pair cleaned(cni_hlo *h, pair a)
{
  cni_hval kept = CNI_HLO_EXPR(h, "a <= b + 1", CN_I32, rows_of(h, &a.re), cols_of(h, &a.re)), zero = cni_hlo_num(0);
  return (pair){cni_hlo_select(h, kept, a.re, zero), cni_hlo_select(h, kept, a.im, zero)};
}

/* ---- QR steps ---- */

typedef struct sweep {
  cni_hval low, high; /* (b) */
} sweep;

/* Whether a matrix turns rows k and k + 1: (b) */
static cni_hval takes_part(cni_hlo *h, const sweep *s, cni_hval k)
{
  k = cni_hlo_expand(h, k, 1, s->low.shape);
  return CNI_HLO_EXPR(h, "(a >= b) & (a < c)", CN_I32, k, s->low, s->high);
}

/* carried: the matrix; cosines and sines of each row (b, n), as pairs. */
enum { COSINE = 2, SINE = 4, TURNS = 6 };

static void turn_rows(cni_hlo *h, cni_hval k, cni_hval *c, void *payload)
{
  pair a = {c[0], c[1]};
  cni_hval next = CNI_HLO_EXPR(h, "a + 1", CN_I32, k), takes = takes_part(h, payload, k);
  pair x = slice_at(h, a, 1, k), y = slice_at(h, a, 1, next), p = slice_at(h, x, 1, k), q = slice_at(h, y, 1, k);
  cni_hval size = RE(h, "hypot(a, b)", size_of(h, p), size_of(h, q));
  cni_hval by = RE(h, "b & (a > 0) ? 1 / a : 0", size, takes), none = RE(h, "a > 0 ? 0 : 1", by);
  pair cosine = scaled(h, p, by), sine = scaled(h, q, by);
  cosine.re = RE(h, "b == 1 ? b : a", cosine.re, none);
  pair cs = over(h, each, cosine, &x), sn = over(h, each, sine, &x);
  pair up = sum_of(h, times(h, conjugate(h, cs), x), times(h, conjugate(h, sn), y));
  pair low = less(h, times(h, cs, y), times(h, sn, x));
  a = slice_set(h, slice_set(h, a, 1, k, up), 1, next, low);
  c[0] = a.re, c[1] = a.im;
  pair all = slice_set(h, (pair){c[COSINE], c[COSINE + 1]}, 1, k, cosine);
  c[COSINE] = all.re, c[COSINE + 1] = all.im;
  all = slice_set(h, (pair){c[SINE], c[SINE + 1]}, 1, k, sine);
  c[SINE] = all.re, c[SINE + 1] = all.im;
}

/* carried: two matrices; payload: the turns. */
static void turn_columns(cni_hlo *h, cni_hval k, cni_hval *c, void *payload)
{
  const cni_hval *turns = payload;
  cni_hval next = CNI_HLO_EXPR(h, "a + 1", CN_I32, k);
  pair cosine = slice_at(h, (pair){turns[COSINE], turns[COSINE + 1]}, 1, k);
  pair sine = slice_at(h, (pair){turns[SINE], turns[SINE + 1]}, 1, k);
  for (int m = 0; m < MATRICES; m += 2) {
    pair a = {c[m], c[m + 1]}, x = slice_at(h, a, 2, k), y = slice_at(h, a, 2, next);
    pair cs = over(h, each, cosine, &x), sn = over(h, each, sine, &x);
    pair left = sum_of(h, times(h, x, cs), times(h, y, sn));
    pair right = less(h, times(h, y, conjugate(h, cs)), times(h, x, conjugate(h, sn)));
    a = slice_set(h, slice_set(h, a, 2, k, left), 2, next, right);
    c[m] = a.re, c[m + 1] = a.im;
  }
}

static pair root(cni_hlo *h, pair a)
{
  cni_hval t = RE(h, "sqrt((c + abs(a)) / 2)", a.re, a.im, size_of(h, a));
  return (pair){RE(h, "c == 0 ? 0 : a >= 0 ? c : abs(b) / (2 * c)", a.re, a.im, t),
                RE(h, "c == 0 ? 0 : a >= 0 ? b / (2 * c) : b < 0 ? -c : c", a.re, a.im, t)};
}

/* The eigenvalue of the 2 by 2 block that ends at high which is nearer to its last element. */
static pair shift_of(cni_hlo *h, pair x, cni_hval high)
{
  cni_hval before = CNI_HLO_EXPR(h, "max(a - 1, 0)", CN_I32, high), half_of = cni_hlo_num(0.5);
  pair a = element(h, x, before, before), d = element(h, x, high, high);
  pair bc = times(h, element(h, x, before, high), element(h, x, high, before));
  pair half = scaled(h, less(h, a, d), half_of), r = root(h, sum_of(h, times(h, half, half), bc));
  cni_hval sign = RE(h, "a * c + b * d < 0 ? -1 + 0 * a : 1 + 0 * a", half.re, half.im, r.re, r.im);
  pair below = sum_of(h, half, scaled(h, r, sign));
  cni_hval none = RE(h, "a == 0", square(h, below));
  return chosen(h, none, d, less(h, d, divided(h, bc, below)));
}

/* Where the block that ends at high begins: behind the last element beside the diagonal that is as good as zero. */
static cni_hval low_of(cni_hlo *h, pair a, cni_hval high, cni_hval norm)
{
  cni_hval row = rows_of(h, &a.re), col = cols_of(h, &a.re), size = size_of(h, a);
  cni_hval own = cni_hlo_reduce(h, "add", RE(h, "b == c ? a : 0", size, row, col), 4); /* (b, n) by rows */
  cni_hval side = cni_hlo_reduce(h, "add", RE(h, "b == c + 1 ? a : 0", size, row, col), 4);
  cni_hval one = cni_hlo_slice_dim(h, own, 1, 0, own.shape[1] - 1, 1);
  cni_hval near = cni_hlo_binary(h, "add", own, cni_hlo_pad_dim(h, one, cni_hlo_num(0), 1, 1, 0));
  cni_hval at = cni_hlo_iota(h, CN_I32, 2, own.shape, 1);
  const char *text = "small = a <= 2.220446049250313e-16 * (b > 0 ? b : c); (small | (d == 0)) & (d <= e) ? d : 0";
  cni_hval place = CNI_HLO_EXPR(h, text, CN_I32, side, near, each(h, norm, &own), at, each(h, high, &own));
  return cni_hlo_reduce(h, "maximum", place, 2);
}

static cni_hval some_turn(cni_hlo *h, cni_hval step, const cni_hval *c, void *payload)
{
  (void)step, (void)payload;
  return cni_hlo_reduce(h, "or", CNI_HLO_EXPR(h, "(a > 0) & (b < 60)", CN_I32, c[HIGH], c[STEPS]), 1);
}

static void qr_step(cni_hlo *h, cni_hval step, cni_hval *c, void *norm)
{
  pair a = {c[H_RE], c[H_IM]};
  int64_t n = a.re.shape[1], flat[2] = {a.re.shape[0], n};
  cni_hval row = rows_of(h, &a.re), col = cols_of(h, &a.re), high = c[HIGH], turns[TURNS];
  (void)step;
  cni_hval low = low_of(h, a, high, *(cni_hval *)norm), wide_low = each(h, low, &row), wide_high = each(h, high, &row);
  cni_hval split = CNI_HLO_EXPR(h, "(a == c) & (b == c - 1)", CN_I32, row, col, wide_low);
  a = (pair){RE(h, "b ? 0 : a", a.re, split), RE(h, "b ? 0 : a", a.im, split)};
  cni_hval done = CNI_HLO_EXPR(h, "a == b", CN_I32, low, high);
  pair shift = shift_of(h, a, high);
  cni_hval beside = size_of(h, element(h, a, high, CNI_HLO_EXPR(h, "max(a - 1, 0)", CN_I32, high)));
  shift.re = RE(h, "b % 10 == 9 ? a + c : a", shift.re, c[STEPS], beside); /* out of a cycle */
  cni_hval inside = CNI_HLO_EXPR(h, "(a == b) & (a >= c) & (a <= d)", CN_I32, row, col, wide_low, wide_high);
  pair none = {cni_hlo_num(0), cni_hlo_num(0)}, wide = over(h, each, shift, &a);
  wide = (pair){cni_hlo_select(h, inside, wide.re, none.re), cni_hlo_select(h, inside, wide.im, none.im)};
  a = less(h, a, wide);
  sweep s = {low, high};
  turns[0] = a.re, turns[1] = a.im;
  for (int k = COSINE; k < TURNS; k++) turns[k] = cni_hlo_splat(h, cni_hlo_num(k == COSINE), CN_F64, 2, flat);
  cni_hlo_loop(h, n - 1, TURNS, turns, turn_rows, &s);
  cni_hval both[MATRICES] = {turns[0], turns[1], c[Z_RE], c[Z_IM]};
  cni_hlo_loop(h, n - 1, MATRICES, both, turn_columns, turns);
  a = cleaned(h, sum_of(h, (pair){both[0], both[1]}, wide));
  c[H_RE] = a.re, c[H_IM] = a.im, c[Z_RE] = both[2], c[Z_IM] = both[3];
  c[HIGH] = CNI_HLO_EXPR(h, "b ? max(a - 1, 0) : a", CN_I32, high, done);
  c[STEPS] = CNI_HLO_EXPR(h, "b ? 0 : c > 0 ? a + 1 : a", CN_I32, c[STEPS], done, high);
}

/* ---- vectors ---- */

/* carried: the triangle's vectors as columns, from the last row up; payload: the triangle. */
static void substitute(cni_hlo *h, cni_hval step, cni_hval *c, void *payload)
{
  const pair *t = payload;
  pair x = {c[0], c[1]}, zero = {cni_hlo_num(0), cni_hlo_num(0)};
  cni_hval i = CNI_HLO_EXPR(h, "b - a", CN_I32, step, cni_hlo_int(x.re.shape[1] - 1)), size = size_of(h, *t);
  cni_hval norm = RE(h, "sqrt(a)", cni_hlo_reduce(h, "add", RE(h, "a * a", size), 6)); /* (b) */
  pair row = slice_at(h, *t, 1, i), own = slice_at(h, row, 1, i), at = row;
  cni_hval place = cni_hlo_iota(h, CN_I32, 2, row.re.shape, 1), wide = cni_hlo_expand(h, i, 2, row.re.shape);
  cni_hval behind = CNI_HLO_EXPR(h, "a > b", CN_I32, place, wide);
  row = (pair){cni_hlo_select(h, behind, row.re, zero.re), cni_hlo_select(h, behind, row.im, zero.im)};
  pair sum = added_up(h, times(h, over(h, down, row, &x), x), 2); /* (b, n): of each vector */
  cni_hval on = CNI_HLO_EXPR(h, "a == b", CN_I32, rows_of(h, &x.re), cols_of(h, &x.re));
  at = added_up(h, (pair){cni_hlo_select(h, on, t->re, zero.re), cni_hlo_select(h, on, t->im, zero.im)}, 2);
  pair gap = less(h, over(h, each, own, &at), at);
  cni_hval small = RE(h, "s = 2.220446049250313e-16 * a; s > 0 ? s : 2.2250738585072014e-308", norm);
  cni_hval near = RE(h, "a < b", size_of(h, gap), each(h, small, &gap.re));
  gap = (pair){cni_hlo_select(h, near, each(h, small, &gap.re), gap.re), cni_hlo_select(h, near, zero.im, gap.im)};
  pair made = divided(h, sum, gap);
  made = (pair){RE(h, "b == c ? 1 : b > c ? -a : 0", made.re, place, wide),
                RE(h, "b > c ? -a : 0", made.im, place, wide)};
  x = slice_set(h, x, 1, i, made);
  c[0] = x.re, c[1] = x.im;
}

/* Columns of norm 1, with the largest element of each (the first within a millionth of it) real. */
static pair unit_columns(cni_hlo *h, pair v)
{
  cni_hval size = size_of(h, v), most = cni_hlo_reduce(h, "maximum", size, 2), row = rows_of(h, &v.re);
  v = scaled(h, v, across(h, RE(h, "1 / a", most), &v.re));
  size = size_of(h, v);
  cni_hval first = CNI_HLO_EXPR(h, "a > 0.9999995 ? b : c", CN_I32, size, row, cni_hlo_int(v.re.shape[1]));
  first = CNI_HLO_EXPR(h, "a == b", CN_I32, row, across(h, cni_hlo_reduce(h, "minimum", first, 2), &row));
  pair zero = {cni_hlo_num(0), cni_hlo_num(0)};
  pair best = added_up(h, (pair){cni_hlo_select(h, first, v.re, zero.re), cni_hlo_select(h, first, v.im, zero.im)}, 2);
  cni_hval norm = RE(h, "sqrt(a)", cni_hlo_reduce(h, "add", square(h, v), 2));
  best = scaled(h, conjugate(h, best), RE(h, "1 / (a * b)", norm, size_of(h, best)));
  v = times(h, v, over(h, across, best, &v));
  return (pair){v.re, cni_hlo_select(h, first, zero.im, v.im)};
}

static pair vectors_of(cni_hlo *h, pair t, pair z)
{
  cni_hval none = cni_hlo_splat(h, cni_hlo_num(0), CN_F64, 3, t.re.shape), c[2] = {none, none};
  cni_hlo_loop(h, t.re.shape[1], 2, c, substitute, &t);
  pair x = {c[0], c[1]};
  cni_hval most = cni_hlo_reduce(h, "maximum", size_of(h, x), 2);
  x = scaled(h, x, across(h, RE(h, "1 / a", most), &x.re));
  cni_hval re = RE(h, "a - b", cni_hlo_matmul(h, z.re, x.re, CN_F64), cni_hlo_matmul(h, z.im, x.im, CN_F64));
  cni_hval im = RE(h, "a + b", cni_hlo_matmul(h, z.re, x.im, CN_F64), cni_hlo_matmul(h, z.im, x.re, CN_F64));
  return unit_columns(h, (pair){re, im});
}

/* ---- linalg_eig(A) -> (eigenvalues, eigenvectors), linalg_eigvals(A) ---- */

static pair parts_of(cni_hlo *h, cni_hval x)
{
  bool complex = cni_hlo_is_complex(x.dtype);
  int real = cni_hlo_part(x.dtype);
  cni_hval re = complex ? cni_hlo_emit(h, "real", NULL, real, x.ndim, x.shape, 1, &x) : x;
  cni_hval im = complex ? cni_hlo_emit(h, "imag", NULL, real, x.ndim, x.shape, 1, &x)
                        : cni_hlo_splat(h, cni_hlo_num(0), CN_F64, x.ndim, x.shape);
  return (pair){stacked(h, re), stacked(h, im)};
}

static void give_pair(cni_hcall *c, int k, pair v)
{
  cni_hval *out = &c->out[k];
  int real = cni_hlo_part(out->dtype);
  cni_hval parts[2] = {cni_hlo_cast(c->h, v.re, real), cni_hlo_cast(c->h, v.im, real)};
  for (int i = 0; i < 2; i++) parts[i] = cni_hlo_reshape(c->h, parts[i], out->ndim, out->shape);
  *out = cni_hlo_emit(c->h, "complex", NULL, out->dtype, out->ndim, out->shape, 2, parts);
}

static void eig(cni_hcall *c)
{
  cni_hlo *h = c->h;
  pair a = parts_of(h, c->in[0]), t, z;
  int64_t b = a.re.shape[0], n = a.re.shape[1];
  cni_hval v[CARRIED] = {a.re, a.im, eye(h, b, n, n), cni_hlo_splat(h, cni_hlo_num(0), CN_F64, 3, a.re.shape)};
  v[HIGH] = cni_hlo_splat(h, cni_hlo_int(n - 1), CN_I32, 1, &b);
  v[STEPS] = cni_hlo_splat(h, cni_hlo_int(0), CN_I32, 1, &b);
  if (n > 2 && b) cni_hlo_loop(h, n - 2, MATRICES, v, hessenberg_step, NULL);
  t = cleaned(h, (pair){v[H_RE], v[H_IM]});
  cni_hval norm = RE(h, "sqrt(a)", cni_hlo_reduce(h, "add", square(h, t), 6));
  v[H_RE] = t.re, v[H_IM] = t.im;
  if (n > 1 && b) cni_hlo_while(h, some_turn, CARRIED, v, qr_step, &norm);
  /* Not done after that many steps, or not finite. */
  cni_hval lost = RE(h, "(c > 0) | !finite(a) ? nan : 0", norm, norm, v[HIGH]);
  t = (pair){RE(h, "a + b", v[H_RE], each(h, lost, &a.re)), v[H_IM]};
  z = (pair){v[Z_RE], v[Z_IM]};
  cni_hval on = CNI_HLO_EXPR(h, "a == b", CN_I32, rows_of(h, &a.re), cols_of(h, &a.re)), zero = cni_hlo_num(0);
  give_pair(c, 0, added_up(h, (pair){cni_hlo_select(h, on, t.re, zero), cni_hlo_select(h, on, t.im, zero)}, 4));
  if (c->nout < 2) return;
  if (b && n) give_pair(c, 1, vectors_of(h, t, z));
  else give_pair(c, 1, a);
}

const cni_hrow cni_hlo_eig_rows[] = {{"linalg_eig", eig, NULL}, {"linalg_eigvals", eig, NULL}, {NULL, NULL, NULL}};
