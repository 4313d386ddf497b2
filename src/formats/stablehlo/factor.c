/* factor.c: rows of QR, of eigenvalues of symmetric matrices and of singular values. See row.h.
 *
 * QR goes column by column, by reflections. The others turn pairs of columns against each other until all are at right
 * angles (Jacobi's way, one-sided for singular values): half of the pairs that there are at a time, in the order of a
 * tournament, after which each stands where it was. Batches are one dim in front; all is computed in float64.
 * Invariant: signs are the CPU's: of QR those of the reflections, else the largest element of each vector is
 * positive. */
#include <string.h>

#include "matrices.h"

/* ---- QR ---- */

/* The reflection that takes what column x (b, m) has below place `at` (b, m) to it. */
typedef struct reflection {
  cni_hval tau, v; /* (b), (b, m) with 1 at the place and zeros above */
} reflection;

static reflection reflection_of(cni_hlo *h, cni_hval x, cni_hval row, cni_hval at)
{
  cni_hval head = cni_hlo_reduce(h, "add", CNI_HLO_EXPR(h, "b == c ? a : 0", CN_F64, x, row, at), 2);
  cni_hval most = cni_hlo_reduce(h, "maximum", CNI_HLO_EXPR(h, "b > c ? abs(a) : 0", CN_F64, x, row, at), 2);
  cni_hval safe = CNI_HLO_EXPR(h, "a > 0 ? a : 1", CN_F64, most);
  cni_hval part = CNI_HLO_EXPR(h, "y = a / d; b > c ? y * y : 0", CN_F64, x, row, at, each(h, safe, &x));
  cni_hval rest = CNI_HLO_EXPR(h, "a * sqrt(b)", CN_F64, safe, cni_hlo_reduce(h, "add", part, 2));
  cni_hval beta = CNI_HLO_EXPR(h, "r = hypot(a, b); a < 0 ? r : -r", CN_F64, head, rest);
  cni_hval below = CNI_HLO_EXPR(h, "c == 0 ? 1 : a - b", CN_F64, head, beta, rest);
  return (reflection){
      CNI_HLO_EXPR(h, "c == 0 ? 0 : (b - a) / b", CN_F64, head, beta, rest),
      CNI_HLO_EXPR(h, "b > c ? a / d : b == c ? 1 : 0", CN_F64, x, row, at, each(h, below, &x))};
}

/* H A */
static cni_hval reflected(cni_hlo *h, const reflection *f, cni_hval a)
{
  cni_hval w = cni_hlo_reduce(h, "add", cni_hlo_binary(h, "multiply", a, down(h, f->v, &a)), 2); /* (b, n) */
  return CNI_HLO_EXPR(h, "a - b * c * d", CN_F64, a, each(h, f->tau, &a), down(h, f->v, &a), across(h, w, &a));
}

/* carried: A (b, m, n), Q (b, m, m). */
static void reflect(cni_hlo *h, cni_hval step, cni_hval *carried, void *payload)
{
  cni_hval q = carried[1], x = cni_hlo_at(h, carried[0], 2, step); /* (b, m) */
  cni_hval row = cni_hlo_iota(h, CN_I32, 2, x.shape, 1), at = cni_hlo_expand(h, step, 2, x.shape);
  (void)payload;
  reflection f = reflection_of(h, x, row, at);
  carried[0] = reflected(h, &f, carried[0]);
  cni_hval v = across(h, f.v, &q), w = cni_hlo_reduce(h, "add", cni_hlo_binary(h, "multiply", q, v), 4); /* (b, m) */
  carried[1] = CNI_HLO_EXPR(h, "a - b * c * d", CN_F64, q, each(h, f.tau, &q), down(h, w, &q), v);
}

typedef struct factors {
  cni_hval q, r; /* (b, m, m), (b, m, n), with numbers near 0 below the diagonal */
} factors;

static factors qr_of(cni_hlo *h, cni_hval x)
{
  int64_t m = x.shape[1], n = x.shape[2], steps = m < n ? m : n;
  cni_hval carried[2] = {x, eye(h, x.shape[0], m, m)};
  if (steps && x.shape[0]) cni_hlo_loop(h, steps, 2, carried, reflect, NULL);
  return (factors){carried[1], carried[0]};
}

/* linalg_qr(A, mode): in mode r there is no Q. */
static void qr(cni_hcall *c)
{
  cni_hlo *h = c->h;
  factors f = qr_of(h, real_matrices(c));
  cni_hval *out = c->out;
  f.r = CNI_HLO_EXPR(h, "b <= c ? a : 0", CN_F64, f.r, rows_of(h, &f.r), cols_of(h, &f.r));
  if (strcmp(c->args[1].u.s, "r") != 0) give(c, 0, columns(h, f.q, 0, out[0].shape[out[0].ndim - 1]));
  else out[0] = cni_hlo_splat(h, cni_hlo_num(0), out[0].dtype, out[0].ndim, out[0].shape);
  give(c, 1, some_rows(h, f.r, 0, out[1].shape[out[1].ndim - 2]));
}

/* carried: A (b, m, n), which becomes R with the reflections below it, and their factors (b, k). */
static void reflect_in_place(cni_hlo *h, cni_hval step, cni_hval *carried, void *payload)
{
  cni_hval a = carried[0], x = cni_hlo_at(h, a, 2, step), col = cols_of(h, &a);
  cni_hval at = cni_hlo_expand(h, step, 2, x.shape);
  cni_hval here = cni_hlo_expand(h, step, 3, a.shape), row = cni_hlo_iota(h, CN_I32, 2, x.shape, 1);
  (void)payload;
  reflection f = reflection_of(h, x, row, at);
  cni_hval next = CNI_HLO_EXPR(h, "c >= d ? b : a", CN_F64, a, reflected(h, &f, a), col, here);
  carried[0] = CNI_HLO_EXPR(h, "(c == e) & (d > e) ? b : a", CN_F64, next, down(h, f.v, &a), col, rows_of(h, &a), here);
  carried[1] = cni_hlo_set_at(h, carried[1], 1, step, f.tau);
}

/* geqrf(input) -> (a, tau) */
static void geqrf(cni_hcall *c)
{
  cni_hlo *h = c->h;
  cni_hval x = real_matrices(c);
  int64_t m = x.shape[1], n = x.shape[2], steps = m < n ? m : n;
  cni_hval carried[2] = {x, cni_hlo_splat(h, cni_hlo_num(0), CN_F64, 2, (int64_t[]){x.shape[0], steps})};
  if (steps && x.shape[0]) cni_hlo_loop(h, steps, 2, carried, reflect_in_place, NULL);
  give(c, 0, carried[0]);
  give(c, 1, carried[1]);
}

/* ---- pairs of columns ---- */

/* Column i of the first half meets column i of the second. For the next round all but the first move on by one. */
static cni_hval seats(cni_hlo *h, cni_hval x, int dim)
{
  int64_t n = x.shape[dim], half = n / 2;
  cni_hval part[5];
  if (half < 2) return x;
  part[0] = cni_hlo_slice_dim(h, x, dim, 0, 1, 1);
  part[1] = cni_hlo_slice_dim(h, x, dim, half, half + 1, 1);
  part[2] = cni_hlo_slice_dim(h, x, dim, 1, half - 1, 1);
  part[3] = cni_hlo_slice_dim(h, x, dim, half + 1, n, 1);
  part[4] = cni_hlo_slice_dim(h, x, dim, half - 1, half, 1);
  return cni_hlo_concat(h, 5, part, dim);
}

/* The turn by which b vanishes between what has a and c on the diagonal. */
static void angle(cni_hlo *h, cni_hval a, cni_hval b, cni_hval c, cni_hval *cosine, cni_hval *sine)
{
  cni_hval t = CNI_HLO_EXPR(h, "z = (c - a) / (2 * b); y = 1 / (abs(z) + sqrt(z * z + 1)); b == 0 ? 0 : z < 0 ? -y : y",
                            CN_F64, a, b, c);
  *cosine = CNI_HLO_EXPR(h, "1 / sqrt(a * a + 1)", CN_F64, t);
  *sine = cni_hlo_binary(h, "multiply", *cosine, t);
}

/* The halves of dim (1 or 2) of x turned against each other: cosine, sine (b, half). */
static cni_hval turn(cni_hlo *h, cni_hval x, int dim, cni_hval cosine, cni_hval sine)
{
  int64_t n = x.shape[dim];
  cni_hval p = cni_hlo_slice_dim(h, x, dim, 0, n / 2, 1), q = cni_hlo_slice_dim(h, x, dim, n / 2, n, 1), out[2];
  cosine = dim == 1 ? down(h, cosine, &p) : across(h, cosine, &p);
  sine = dim == 1 ? down(h, sine, &p) : across(h, sine, &p);
  out[0] = CNI_HLO_EXPR(h, "c * a - d * b", CN_F64, p, q, cosine, sine);
  out[1] = CNI_HLO_EXPR(h, "d * a + c * b", CN_F64, p, q, cosine, sine);
  return seats(h, cni_hlo_concat(h, 2, out, dim), dim);
}

/* Rounds of so many tournaments that what is left is rounding: they become right angles quadratically. */
static int64_t rounds(int64_t n)
{
  int64_t all = 9;
  for (int64_t k = n; k > 1; k /= 2) all++;
  return all * (n - 1);
}

static int64_t even(int64_t n) { return n + n % 2; }

/* The vectors in columns of u turned so that the largest element of each (the first of those within a thousandth of it)
 * is positive; columns of v, if it is there, go with them. */
static void fix_signs(cni_hlo *h, cni_hval *u, cni_hval *v)
{
  cni_hval row = rows_of(h, u), most = cni_hlo_reduce(h, "maximum", CNI_HLO_EXPR(h, "abs(a)", CN_F64, *u), 2);
  cni_hval last = cni_hlo_int(u->shape[1] - 1);
  cni_hval first = CNI_HLO_EXPR(h, "abs(a) >= b * 0.999 ? c : d", CN_I32, *u, across(h, most, u), row, last);
  first = across(h, cni_hlo_reduce(h, "minimum", first, 2), u);
  cni_hval there = cni_hlo_reduce(h, "add", CNI_HLO_EXPR(h, "b == c ? a : 0", CN_F64, *u, row, first), 2);
  cni_hval sign = CNI_HLO_EXPR(h, "a < 0 ? -1 + 0 * a : 1 + 0 * a", CN_F64, there);
  *u = cni_hlo_binary(h, "multiply", *u, across(h, sign, u));
  if (v) *v = cni_hlo_binary(h, "multiply", *v, across(h, sign, v));
}

/* Columns of x in the order of an index (b, n). */
static cni_hval in_order(cni_hlo *h, cni_hval x, cni_hval order)
{
  int64_t shape[3] = {x.shape[0], x.shape[1], order.shape[1]};
  return cni_hlo_take_along(h, x, 2, cni_hlo_broadcast(h, order, 3, shape, (int64_t[]){0, 2}));
}

static cni_hval sorted(cni_hlo *h, cni_hval *values, bool falling)
{
  cni_hval both[2] = {*values, cni_hlo_iota(h, CN_I32, 2, values->shape, 1)};
  cni_hlo_sort(h, 2, both, 1, falling);
  *values = both[0];
  return both[1];
}

/* ---- eigenvalues ---- */

static cni_hval diagonal(cni_hlo *h, cni_hval a, int64_t beside)
{
  cni_hval col = CNI_HLO_EXPR(h, "a - b", CN_I32, cols_of(h, &a), cni_hlo_int(beside));
  return cni_hlo_reduce(h, "add", CNI_HLO_EXPR(h, "b == c ? a : 0", CN_F64, a, rows_of(h, &a), col), 4);
}

/* carried: A, symmetric, and the vectors so far. */
static void eigen_round(cni_hlo *h, cni_hval step, cni_hval *carried, void *payload)
{
  cni_hval a = carried[0], d = diagonal(h, a, 0), cosine, sine;
  int64_t n = a.shape[1], half = n / 2;
  (void)step, (void)payload;
  cni_hval beside = cni_hlo_slice_dim(h, diagonal(h, a, half), 1, 0, half, 1);
  angle(h, cni_hlo_slice_dim(h, d, 1, 0, half, 1), beside, cni_hlo_slice_dim(h, d, 1, half, n, 1), &cosine, &sine);
  carried[0] = turn(h, turn(h, a, 1, cosine, sine), 2, cosine, sine);
  carried[1] = turn(h, carried[1], 2, cosine, sine);
}

/* linalg_eigh(A, UPLO), linalg_eigvalsh(A, UPLO) */
static void eigh(cni_hcall *c)
{
  cni_hlo *h = c->h;
  cni_hval x = real_matrices(c);
  int64_t b = x.shape[0], n = x.shape[1], wide = even(n);
  if (!b || !n) {
    for (int k = 0; k < c->nout; k++)
      c->out[k] = cni_hlo_splat(h, cni_hlo_num(0), c->out[k].dtype, c->out[k].ndim, c->out[k].shape);
    return;
  }
  bool upper = c->args[1].u.s[0] == 'U' || c->args[1].u.s[0] == 'u';
  const char *mirror = upper ? "b <= c ? a : d" : "b >= c ? a : d";
  x = CNI_HLO_EXPR(h, mirror, CN_F64, x, rows_of(h, &x), cols_of(h, &x), turned(h, x));
  x = cni_hlo_pad_dim(h, cni_hlo_pad_dim(h, x, cni_hlo_num(0), 1, 0, wide - n), cni_hlo_num(0), 2, 0, wide - n);
  cni_hval carried[2] = {x, eye(h, b, wide, wide)};
  cni_hlo_loop(h, rounds(wide), 2, carried, eigen_round, NULL);
  cni_hval values = cni_hlo_slice_dim(h, diagonal(h, carried[0], 0), 1, 0, n, 1), order = sorted(h, &values, false);
  give(c, 0, values);
  if (c->nout < 2) return;
  cni_hval vectors = in_order(h, columns(h, some_rows(h, carried[1], 0, n), 0, n), order);
  fix_signs(h, &vectors, NULL);
  give(c, 1, vectors);
}

/* ---- singular values ---- */

/* carried: W, whose columns become right-angled, and V with W = A V. */
static void singular_round(cni_hlo *h, cni_hval step, cni_hval *carried, void *payload)
{
  cni_hval w = carried[0], cosine, sine;
  int64_t n = w.shape[2], half = n / 2;
  (void)step, (void)payload;
  cni_hval p = columns(h, w, 0, half), q = columns(h, w, half, n);
  cni_hval a = cni_hlo_reduce(h, "add", cni_hlo_binary(h, "multiply", p, p), 2);
  cni_hval b = cni_hlo_reduce(h, "add", cni_hlo_binary(h, "multiply", p, q), 2);
  cni_hval d = cni_hlo_reduce(h, "add", cni_hlo_binary(h, "multiply", q, q), 2);
  angle(h, a, b, d, &cosine, &sine);
  carried[0] = turn(h, w, 2, cosine, sine);
  carried[1] = turn(h, carried[1], 2, cosine, sine);
}

typedef struct singular {
  cni_hval w, s, v; /* of a tall A (b, m, n): W (b, m, n) with columns as long as s (b, n) says, V (b, n, n) */
} singular;

static singular singular_of(cni_hlo *h, cni_hval x)
{
  int64_t b = x.shape[0], n = x.shape[2], wide = even(n);
  cni_hval carried[2] = {cni_hlo_pad_dim(h, x, cni_hlo_num(0), 2, 0, wide - n), eye(h, b, wide, wide)};
  cni_hlo_loop(h, rounds(wide), 2, carried, singular_round, NULL);
  singular f = {.w = columns(h, carried[0], 0, n), .v = columns(h, some_rows(h, carried[1], 0, n), 0, n)};
  cni_hval square = cni_hlo_reduce(h, "add", cni_hlo_binary(h, "multiply", f.w, f.w), 2);
  f.s = cni_hlo_unary(h, "sqrt", square);
  cni_hval order = sorted(h, &f.s, true);
  f.w = in_order(h, f.w, order);
  f.v = in_order(h, f.v, order);
  return f;
}

/* Nothing has singular values: what is asked for besides is the identity. */
static void of_nothing(cni_hcall *c)
{
  for (int k = 0; k < c->nout; k++) {
    cni_hval *o = &c->out[k];
    int64_t b = 1, n = o->ndim > 1 ? o->shape[o->ndim - 2] : 0, m = o->shape[o->ndim - 1];
    for (int d = 0; d < o->ndim - 2; d++) b *= o->shape[d];
    if (cni_hlo_numel(o)) give(c, k, eye(c->h, b, n, m));
    else *o = cni_hlo_splat(c->h, cni_hlo_num(0), o->dtype, o->ndim, o->shape);
  }
}

/* linalg_svd(A, full_matrices) -> (U, S, Vh), linalg_svdvals(A) -> S. The columns of W are those of U, but for their
 * length; its reflections say which directions are left. */
static void svd(cni_hcall *c)
{
  cni_hlo *h = c->h;
  cni_hval x = real_matrices(c);
  int64_t m = x.shape[1], n = x.shape[2], thin = m < n ? m : n;
  if (!cni_hlo_numel(&x)) {
    of_nothing(c);
    return;
  }
  singular f = singular_of(h, m < n ? turned(h, x) : x);
  give(c, c->nout > 1, f.s);
  if (c->nout < 2) return;
  factors q = qr_of(h, f.w);
  cni_hval left = columns(h, q.q, 0, thin), corner = some_rows(h, q.r, 0, thin), right = f.v;
  cni_hval sign = CNI_HLO_EXPR(h, "a < 0 ? -1 + 0 * a : 1 + 0 * a", CN_F64, diagonal(h, corner, 0));
  left = cni_hlo_binary(h, "multiply", left, across(h, sign, &left));
  if (m < n) fix_signs(h, &right, &left);
  else fix_signs(h, &left, &right);
  cni_hval *u = &c->out[0], *vh = &c->out[2];
  int64_t cols = m < n ? vh->shape[vh->ndim - 2] : u->shape[u->ndim - 1];
  if (cols > thin) left = cni_hlo_concat(h, 2, (cni_hval[]){left, columns(h, q.q, thin, cols)}, 2);
  give(c, 0, m < n ? right : left);
  give(c, 2, turned(h, m < n ? left : right));
}

const cni_hrow cni_hlo_factor_rows[] = {{"linalg_qr", qr, NULL},           {"geqrf", geqrf, NULL},
                                        {"linalg_eigh", eigh, NULL},
                                        {"linalg_eigvalsh", eigh, NULL},   {"linalg_svd", svd, NULL},
                                        {"linalg_svdvals", svd, NULL},     {NULL, NULL, NULL}};
