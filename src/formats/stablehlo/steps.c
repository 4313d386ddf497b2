/* steps.c: primitives that take as many steps as their numbers ask for, as loops: divisors, incomplete gamma functions,
 * orthogonal polynomials. See rows.h.
 *
 * Place in the flow: pointwise.c hands them over by their names. The methods are those of base/maths_zeta.h and
 * base/maths_polynomial.h, computed in float64; formulas.def has their parts that need no loop. Invariant: a loop ends
 * when no element needs it any more, and what an element gives does not depend on its neighbours: where it is done, or
 * another method has its result, further steps leave it as it is. */
#include <string.h>

#include "rows.h"

static cni_hval any(cni_hlo *h, cni_hval p) { return cni_hlo_reduce(h, "or", p, p.ndim ? (1u << p.ndim) - 1 : 0); }

/* Whether a loop goes on: as long as an element does, but not beyond `most` steps. */
static cni_hval below(cni_hlo *h, cni_hval step, int64_t most, cni_hval p)
{
  return cni_hlo_binary(h, "and", cni_hlo_compare(h, "LT", step, cni_hlo_int(most)), any(h, p));
}

/* x where p holds, a number elsewhere. */
static cni_hval where(cni_hlo *h, cni_hval p, cni_hval x, double other)
{
  return cni_hlo_select(h, p, x, cni_hlo_num(other));
}

/* ---- gcd, lcm ---- */

/* Euclid's steps, as many as the largest numbers need. */
static void euclid(cni_hlo *h, cni_hval step, cni_hval *carried, void *payload)
{
  cni_hval rest = CNI_HLO_EXPR(h, "b == 0 ? b : a % b", carried[0].dtype, carried[0], carried[1]);
  (void)step, (void)payload;
  carried[0] = CNI_HLO_EXPR(h, "b == 0 ? a : b", carried[0].dtype, carried[0], carried[1]);
  carried[1] = rest;
}

static cni_hval divisor(cni_hlo *h, int type, const cni_hval *x, bool multiple)
{
  cni_hval carried[2];
  for (int k = 0; k < 2; k++) carried[k] = cni_hlo_cast(h, CNI_HLO_EXPR(h, "a < 0 ? -a : a", type, x[k]), CN_U64);
  cni_hval a = cni_hlo_convert(h, carried[0], type), b = cni_hlo_convert(h, carried[1], type);
  cni_hlo_loop(h, 93, 2, carried, euclid, NULL);
  cni_hval g = cni_hlo_convert(h, carried[0], type);
  return multiple ? CNI_HLO_EXPR(h, "y = a / max(c, 1) * b; c == 0 ? 0 : y < 0 ? -y : y", type, a, b, g) : g;
}

static cni_hval greatest(cni_hlo *h, int type, const cni_hval *x) { return divisor(h, type, x, false); }
static cni_hval least(cni_hlo *h, int type, const cni_hval *x) { return divisor(h, type, x, true); }

/* ---- igamma, igammac ---- */

enum { MOST_TERMS = 4000 };

typedef struct gamma_of {
  cni_hval a, x; /* where another method is used, numbers with which this one ends at once */
} gamma_of;

enum { TERM, SUM, PLACE, SERIES };

static cni_hval series_goes(cni_hlo *h, cni_hval step, const cni_hval *v, void *payload)
{
  (void)payload;
  return below(h, step, MOST_TERMS, CNI_HLO_EXPR(h, "a > b * 1e-17", CN_F64, v[TERM], v[SUM]));
}

static void series_step(cni_hlo *h, cni_hval step, cni_hval *v, void *payload)
{
  (void)step;
  v[PLACE] = CNI_HLO_EXPR(h, "a + 1", CN_F64, v[PLACE]);
  v[TERM] = CNI_HLO_EXPR(h, "a * (b / c)", CN_F64, v[TERM], ((gamma_of *)payload)->x, v[PLACE]);
  v[SUM] = cni_hlo_binary(h, "add", v[SUM], v[TERM]);
}

/* The lower function by its series, for x up to about a. */
static cni_hval series(cni_hlo *h, cni_hval a, cni_hval x, cni_hval wanted)
{
  gamma_of g = {where(h, wanted, a, 1), where(h, wanted, x, 0)};
  cni_hval v[SERIES];
  v[TERM] = v[SUM] = CNI_HLO_EXPR(h, "1 + 0 * a", CN_F64, g.a);
  v[PLACE] = g.a;
  v[TERM] = CNI_HLO_EXPR(h, "c ? a : 0 * b", CN_F64, v[TERM], v[SUM], wanted);
  cni_hlo_while(h, series_goes, SERIES, v, series_step, &g);
  return CNI_HLO_EXPR(h, "c * igamma_front(a, b)", CN_F64, g.a, g.x, v[SUM]);
}

enum { FRACTION_B, FRACTION_C, FRACTION_D, FRACTION_H, FRACTION_DONE, FRACTION };

static cni_hval fraction_goes(cni_hlo *h, cni_hval step, const cni_hval *v, void *payload)
{
  (void)payload;
  return below(h, step, MOST_TERMS - 1, cni_hlo_unary(h, "not", v[FRACTION_DONE]));
}

static void fraction_step(cni_hlo *h, cni_hval step, cni_hval *v, void *payload)
{
  cni_hval a = ((gamma_of *)payload)->a, i = cni_hlo_expand(h, cni_hlo_convert(h, step, CN_F64), a.ndim, a.shape);
  cni_hval t = CNI_HLO_EXPR(h, "-(b + 1) * (b + 1 - a)", CN_F64, a, i);
  cni_hval b = CNI_HLO_EXPR(h, "a + 2", CN_F64, v[FRACTION_B]);
  cni_hval d = CNI_HLO_EXPR(h, "d = a * c + b; 1 / (abs(d) < 1e-300 ? 1e-300 : d)", CN_F64, t, b, v[FRACTION_D]);
  cni_hval c = CNI_HLO_EXPR(h, "d = b + a / c; abs(d) < 1e-300 ? 1e-300 : d", CN_F64, t, b, v[FRACTION_C]);
  cni_hval factor = cni_hlo_binary(h, "multiply", d, c);
  v[FRACTION_H] = CNI_HLO_EXPR(h, "c ? a : a * b", CN_F64, v[FRACTION_H], factor, v[FRACTION_DONE]);
  v[FRACTION_DONE] = CNI_HLO_EXPR(h, "b | (abs(a - 1) < 2e-16)", CN_F64, factor, v[FRACTION_DONE]);
  v[FRACTION_B] = b, v[FRACTION_C] = c, v[FRACTION_D] = d;
}

/* The upper function by its continued fraction, for x above a and 1. */
static cni_hval fraction(cni_hlo *h, cni_hval a, cni_hval x, cni_hval wanted)
{
  gamma_of g = {where(h, wanted, a, 1), where(h, wanted, x, 2)};
  cni_hval v[FRACTION];
  v[FRACTION_B] = CNI_HLO_EXPR(h, "b + 1 - a", CN_F64, g.a, g.x);
  v[FRACTION_C] = CNI_HLO_EXPR(h, "1e300 + 0 * a", CN_F64, g.a);
  v[FRACTION_D] = v[FRACTION_H] = cni_hlo_unary(h, "negate", CNI_HLO_EXPR(h, "-1 / a", CN_F64, v[FRACTION_B]));
  v[FRACTION_DONE] = cni_hlo_unary(h, "not", wanted);
  cni_hlo_while(h, fraction_goes, FRACTION, v, fraction_step, &g);
  return CNI_HLO_EXPR(h, "c * a * igamma_front(a, b)", CN_F64, g.a, g.x, v[FRACTION_H]);
}

enum { SMALL_TERM, SMALL_PART, SMALL_SUM, SMALL };

static cni_hval small_goes(cni_hlo *h, cni_hval step, const cni_hval *v, void *payload)
{
  (void)payload;
  return below(h, step, 59, CNI_HLO_EXPR(h, "abs(a) > abs(b) * 1e-17", CN_F64, v[SMALL_PART], v[SMALL_SUM]));
}

static void small_step(cni_hlo *h, cni_hval step, cni_hval *v, void *payload)
{
  const gamma_of *g = payload;
  cni_hval n = cni_hlo_expand(h, cni_hlo_convert(h, step, CN_F64), g->a.ndim, g->a.shape);
  v[SMALL_TERM] = CNI_HLO_EXPR(h, "a * (-b / (c + 1))", CN_F64, v[SMALL_TERM], g->x, n);
  v[SMALL_PART] = CNI_HLO_EXPR(h, "a / (b + c + 1)", CN_F64, v[SMALL_TERM], g->a, n);
  v[SMALL_SUM] = cni_hlo_binary(h, "add", v[SMALL_SUM], v[SMALL_PART]);
}

/* The upper function for x up to about 1, where 1 minus the lower one would cancel. */
static cni_hval small(cni_hlo *h, cni_hval a, cni_hval x, cni_hval wanted)
{
  gamma_of g = {where(h, wanted, a, 1), where(h, wanted, x, 0)};
  cni_hval v[SMALL];
  v[SMALL_TERM] = v[SMALL_PART] = CNI_HLO_EXPR(h, "1 + 0 * a", CN_F64, g.a);
  v[SMALL_SUM] = CNI_HLO_EXPR(h, "0 * a", CN_F64, g.a);
  cni_hlo_while(h, small_goes, SMALL, v, small_step, &g);
  return CNI_HLO_EXPR(h, "l = a > 0.5 ? lgamma(1 + a) : lgamma_two(min(a, 0.5)) - log1p(a); e = a * log(b) - l;"
                         "-expm1(e) - exp(e) * a * c", CN_F64, g.a, g.x, v[SMALL_SUM]);
}

/* Temme's expansion for large a with x near it, elsewhere what suits: see cnm_igamma and cnm_igammac. */
static cni_hval gamma_part(cni_hlo *h, int type, const cni_hval *in, bool upper)
{
  cni_hval a = cni_hlo_convert(h, in[0], CN_F64), x = cni_hlo_convert(h, in[1], CN_F64);
  cni_hval good = CNI_HLO_EXPR(h, "(a > 0) & (b > 0) & finite(a) & finite(b)", CN_F64, a, x);
  cni_hval near = CNI_HLO_EXPR(h, "(a > 200) & (abs(b - a) < 0.3 * a)", CN_F64, a, x);
  const char *by_series = upper ? "b > 1.1 ? b <= a : a > (b > 0.5 ? 1.1 * b : -0.4 / log(b))" : "(b <= 1) | (b <= a)";
  cni_hval summed = CNI_HLO_EXPR(h, by_series, CN_F64, a, x), little = CNI_HLO_EXPR(h, "b <= 1.1", CN_F64, a, x);
  good = CNI_HLO_EXPR(h, "a & !b", CN_F64, good, near);
  cni_hval low = series(h, a, x, CNI_HLO_EXPR(h, "a & b", CN_F64, good, summed));
  cni_hval rest = CNI_HLO_EXPR(h, "a & !b", CN_F64, good, summed), y;
  if (upper) {
    cni_hval high = fraction(h, a, x, CNI_HLO_EXPR(h, "a & !b", CN_F64, rest, little));
    cni_hval start = small(h, a, x, CNI_HLO_EXPR(h, "a & b", CN_F64, rest, little));
    y = CNI_HLO_EXPR(h, "b ? 1 - a : c ? d : e", CN_F64, low, summed, little, start, high);
    y = CNI_HLO_EXPR(h, "d ? igamma_temme(b, c, 1 + 0 * b) : a", CN_F64, y, a, x, near);
  } else {
    cni_hval high = fraction(h, a, x, rest);
    y = CNI_HLO_EXPR(h, "b ? a : 1 - c", CN_F64, low, summed, high);
    y = CNI_HLO_EXPR(h, "d ? igamma_temme(b, c, -1 + 0 * b) : a", CN_F64, y, a, x, near);
  }
  static const char *const edges[2] = {
      "y = b == inf ? (c == inf ? nan : 0) : c == inf ? 1 : a; y = c == 0 ? 0 : y;"
      "y = b == 0 ? (c > 0 ? 1 : nan) : y; (b >= 0) & (c >= 0) ? y : nan",
      "y = b == inf ? (c == inf ? nan : 1) : c == inf ? 0 : a; y = c == 0 ? 1 : y;"
      "y = b == 0 ? (c > 0 ? 0 : nan) : y; (b >= 0) & (c >= 0) ? y : nan"};
  return cni_hlo_convert(h, CNI_HLO_EXPR(h, edges[upper], CN_F64, y, a, x), type);
}

static cni_hval lower_part(cni_hlo *h, int type, const cni_hval *x) { return gamma_part(h, type, x, false); }
static cni_hval upper_part(cni_hlo *h, int type, const cni_hval *x) { return gamma_part(h, type, x, true); }

/* ---- polynomial ---- */

/* In the order of base/maths_polynomial.h; the first four also shifted, as 8 more. */
enum { TEE, YOU, VEE, DOUBLE_YOU, HERMITE_H, HERMITE_HE, LAGUERRE, LEGENDRE, SHIFTED, SLOPE = 16, SLOPES = 4 };

typedef struct ladder {
  int family, slope;
  cni_hval x, n; /* degrees above 1 where the ladder is climbed */
} ladder;

/* Degree 1 as a factor of x and a constant, then the factor of x in the recurrence. */
static const double first_of[8][3] = {{1, 0, 2}, {2, 0, 2}, {2, -1, 2}, {2, 1, 2},
                                      {2, 0, 2}, {1, 0, 1}, {-1, 1, -1}, {1, 0, 1}};

static cni_hval degree_of(cni_hlo *h, cni_hval step, const ladder *l)
{
  cni_hval k = CNI_HLO_EXPR(h, "f64(a) + 1", CN_F64, step);
  return cni_hlo_expand(h, k, l->x.ndim, l->x.shape);
}

static cni_hval ladder_goes(cni_hlo *h, cni_hval step, const cni_hval *v, void *payload)
{
  const ladder *l = payload;
  cni_hval now = v[2 * l->slope + 1];
  return any(h, CNI_HLO_EXPR(h, "(a < b) & (c == c)", CN_F64, degree_of(h, step, l), l->n, now));
}

/* p(k+1) = ((f x + b) p(k) - c p(k-1)) / d, and its derivatives. v: before and now, for each derivative. */
static void ladder_step(cni_hlo *h, cni_hval step, cni_hval *v, void *payload)
{
  static const char *const recurrences[8] = {
      "e * a * b - c", "e * a * b - c", "e * a * b - c", "e * a * b - c", "e * a * b - 2 * d * c", "e * a * b - d * c",
      "(e * a + d + (d + 1)) * b - d * c", "(d + (d + 1)) * a * b - d * c"};
  const ladder *l = payload;
  bool divided = l->family >= LAGUERRE;
  cni_hval k = degree_of(h, step, l), climbs = cni_hlo_compare(h, "LT", k, l->n);
  cni_hval f = cni_hlo_num(first_of[l->family][2]);
  for (int j = l->slope; j >= 0; j--) {
    cni_hval now = v[2 * j + 1], next = CNI_HLO_EXPR(h, recurrences[l->family], CN_F64, l->x, now, v[2 * j], k, f);
    const char *rest = l->family == LEGENDRE ? "a + c * (d + (d + 1)) * b" : "a + c * e * b";
    if (j) next = CNI_HLO_EXPR(h, rest, CN_F64, next, v[2 * j - 1], cni_hlo_num(j), k, f);
    if (divided) next = CNI_HLO_EXPR(h, "a / (b + 1)", CN_F64, next, k);
    v[2 * j] = cni_hlo_select(h, climbs, now, v[2 * j]);
    v[2 * j + 1] = cni_hlo_select(h, climbs, next, now);
  }
}

static cni_hval climbed(cni_hlo *h, ladder *l)
{
  cni_hval v[2 * SLOPES];
  const double *first = first_of[l->family];
  for (int j = 0; j <= l->slope; j++) {
    v[2 * j] = CNI_HLO_EXPR(h, "b + 0 * a", CN_F64, l->n, cni_hlo_num(j == 0));
    v[2 * j + 1] = CNI_HLO_EXPR(h, "b + 0 * a", CN_F64, l->n, cni_hlo_num(j == 1 ? first[0] : 0));
  }
  v[1] = CNI_HLO_EXPR(h, "b * a + c", CN_F64, l->x, cni_hlo_num(first[0]), cni_hlo_num(first[1]));
  cni_hlo_while(h, ladder_goes, 2 * l->slope + 2, v, ladder_step, l);
  return v[2 * l->slope + 1];
}

/* polynomial(x, n, code): the code is a constant of the program. */
static cni_hval polynomial(cni_hlo *h, int type, const cni_hval *in)
{
  static const char *const angles[4] = {"t = acos(a); cos(b * t)", "t = acos(a); sin((b + 1) * t) / sin(t)",
                                        "t = acos(a); cos((b + 0.5) * t) / cos(0.5 * t)",
                                        "t = acos(a); sin((b + 0.5) * t) / sin(0.5 * t)"};
  int code = (int)in[2].f, family = code % SLOPE;
  ladder l = {.family = family % SHIFTED, .slope = code / SLOPE};
  double most = l.family != HERMITE_H && l.family != HERMITE_HE ? 1e7 : type == CN_F64 ? 512 : 128, scale = 1;
  cni_hval n = CNI_HLO_EXPR(h, "trunc(f64(a))", CN_F64, in[1]), y;
  for (int j = 0; j < l.slope && family >= SHIFTED; j++) scale *= 2;
  l.x = CNI_HLO_EXPR(h, family >= SHIFTED ? "2 * f64(a) - 1" : "f64(a)", CN_F64, in[0]);
  bool turns = l.slope == 0 && l.family <= DOUBLE_YOU;
  const char *by_angle = turns ? "(b > 1000) & (abs(a) < 1)" : "b != b";
  cni_hval turned = CNI_HLO_EXPR(h, by_angle, CN_F64, l.x, n), limit = cni_hlo_num(most);
  l.n = CNI_HLO_EXPR(h, "(a > 1) & (a <= b) & !c ? a : 1", CN_F64, n, limit, turned);
  y = l.slope < SLOPES ? climbed(h, &l) : CNI_HLO_EXPR(h, "nan + a", CN_F64, l.x);
  y = CNI_HLO_EXPR(h, "b > c ? nan : a * d", CN_F64, y, n, limit, cni_hlo_num(scale));
  if (turns) y = cni_hlo_select(h, turned, CNI_HLO_EXPR(h, angles[l.family], CN_F64, l.x, n), y);
  const char *edges = "y = b == 0 ? 1 : a; y = b < c ? 0 : y; (b > -1) & (b < 9e18) ? y : 0";
  y = CNI_HLO_EXPR(h, edges, CN_F64, y, n, cni_hlo_num(l.slope));
  return cni_hlo_convert(h, y, type);
}

/* ---- by name ---- */

static const struct {
  const char *name;
  int tensors; /* operands in front that are made tensors */
  cni_hval (*write)(cni_hlo *h, int type, const cni_hval *x);
} primitives[] = {{"gcd", 2, greatest},          {"lcm", 2, least},          {"igamma", 2, lower_part},
                  {"igammac", 2, upper_part}, {"polynomial", 2, polynomial}};

bool cni_hlo_steps(cni_hlo *h, const char *name, int type, cni_hval *x, int ndim, const int64_t *shape, cni_hval *out)
{
  for (size_t i = 0; i < sizeof primitives / sizeof *primitives; i++) {
    if (strcmp(primitives[i].name, name) != 0) continue;
    for (int k = 0; k < primitives[i].tensors; k++)
      if (x[k].number) x[k] = cni_hlo_splat(h, x[k], type, ndim, shape);
    *out = h->failed ? (cni_hval){.id = -1} : primitives[i].write(h, type, x);
    return true;
  }
  return false;
}
