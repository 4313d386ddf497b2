/* solve.c: the search behind solve.h: from simple forms to composed ones, each tried on the value vectors of what is
 * known already.
 *
 * The one form that does most of the work is a line rounded down, (a * e + c) // d. For a known vector e and divisor d
 * the slope gives a, and each probe bounds c from both sides; that one vector of bounds also serves lines inside of min
 * and max, where some probes bound c from one side only.
 *
 * Place in the flow: dynamic.c asks for each number that differs between traces, and tries what it gets at further
 * sizes. Invariant: nothing is returned that was not checked against every probe. */
#include "solve.h"

#include <cairn/ext/hash.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"

enum {
  SMALL_DIVISORS = 16, /* tried for everything */
  PART_DIVISORS = 8,
  LARGE_DIVISORS = 1024, /* tried once simpler forms have failed: hops of windows */
  PAIRED = 16,         /* so many of what is known take part in forms of two */
  SLOPES = 5           /* candidates for a where probes lie too close together to tell */
};

#define EXACT_MOST 0x1p53 /* a double counts so far */

/* What is looked for: at probe k exactly t[k], or at least, or at most that. */
enum relation { EXACT, AT_LEAST, AT_MOST };
typedef struct goal {
  int64_t t[CNI_PROBES_MOST];
  uint8_t relation[CNI_PROBES_MOST];
  bool exact; /* everywhere */
} goal;

/* ---- what is known ---- */

static int64_t *vector(const cni_solver *s) { return cni_alloc(s->nprobes * sizeof(int64_t)); }

static int add_known(cni_solver *s, cni_known **list, size_t *n, size_t *cap, int expr, const int64_t *at)
{
  int64_t *own = vector(s);
  if (!own || cni_grow((void **)list, cap, *n + 1, sizeof **list)) {
    cni_free(own, s->nprobes * sizeof *own);
    return CN_ERR_MEMORY;
  }
  memcpy(own, at, s->nprobes * sizeof *own);
  cni_known *k = &(*list)[(*n)++];
  *k = (cni_known){.expr = expr, .at = own};
  for (size_t i = 1; i < s->nprobes; i++) {
    if (own[i] < own[k->low]) k->low = (int)i;
    if (own[i] > own[k->high]) k->high = (int)i;
  }
  return expr;
}

static int learn(cni_solver *s, int expr, const int64_t *at)
{
  if (expr <= 0) return expr;
  for (size_t i = 0; i < s->nknown; i++)
    if (!memcmp(s->known[i].at, at, s->nprobes * sizeof *at)) return expr;
  return add_known(s, &s->known, &s->nknown, &s->known_cap, expr, at);
}

/* A size divided by d, rounded down and up. */
static int add_parts(cni_solver *s, const cni_known *size, int64_t d)
{
  int64_t at[CNI_PROBES_MOST];
  for (int64_t c = 0; c < d; c += d - 1) {
    int top = c ? cni_expr_make(&s->x, CNI_EXPR_ADD, size->expr, cni_expr_const(&s->x, c)) : size->expr;
    int e = cni_expr_make(&s->x, CNI_EXPR_DIV, top, cni_expr_const(&s->x, d));
    for (size_t k = 0; k < s->nprobes; k++) at[k] = (size->at[k] + c) / d;
    e = e > 0 ? add_known(s, &s->parts, &s->nparts, &s->parts_cap, e, at) : e;
    if (e < 0) return e;
  }
  return CN_OK;
}

int cni_solver_begin(cni_solver *s, const int64_t *sizes, size_t nprobes, size_t nsizes)
{
  int64_t at[CNI_PROBES_MOST];
  *s = (cni_solver){.nprobes = nprobes};
  for (size_t i = 0; i < nsizes; i++) {
    for (size_t k = 0; k < nprobes; k++) at[k] = sizes[k * nsizes + i];
    if (learn(s, cni_expr_size(&s->x, (int)i), at) < 0) return CN_ERR_MEMORY;
  }
  for (int64_t d = 2; d <= PART_DIVISORS; d++)
    for (size_t i = 0; i < s->nknown; i++)
      if (add_parts(s, &s->known[i], d)) return CN_ERR_MEMORY;
  return CN_OK;
}

void cni_solver_free(cni_solver *s)
{
  for (size_t i = 0; i < s->nknown; i++) cni_free(s->known[i].at, s->nprobes * sizeof(int64_t));
  for (size_t i = 0; i < s->nasked; i++) cni_free(s->asked[i].at, s->nprobes * sizeof(int64_t));
  for (size_t i = 0; i < s->nparts; i++) cni_free(s->parts[i].at, s->nprobes * sizeof(int64_t));
  cni_free(s->parts, s->parts_cap * sizeof *s->parts);
  cni_free(s->known, s->known_cap * sizeof *s->known);
  cni_free(s->asked, s->asked_cap * sizeof *s->asked);
  cni_exprs_free(&s->x);
  *s = (cni_solver){0};
}

/* ---- building: a smaller form where there is one ---- */

static int plus(cni_solver *s, int e, int64_t c)
{
  if (e <= 0 || !c) return e;
  return cni_expr_make(&s->x, c > 0 ? CNI_EXPR_ADD : CNI_EXPR_SUB, e, cni_expr_const(&s->x, c > 0 ? c : -c));
}

static int times(cni_solver *s, int e, int64_t a)
{
  return e <= 0 || a == 1 ? e : cni_expr_make(&s->x, CNI_EXPR_MUL, e, cni_expr_const(&s->x, a));
}

/* a * e + c */
static int line(cni_solver *s, int e, int64_t a, int64_t c)
{
  if (a >= 0) return plus(s, times(s, e, a), c);
  return cni_expr_make(&s->x, CNI_EXPR_SUB, cni_expr_const(&s->x, c), times(s, e, -a));
}

/* ---- lines rounded down ---- */

typedef struct fit {
  int64_t a, c;
} fit;

static bool fused(int64_t *out, int64_t x, int64_t y, int64_t plus_z)
{
  return !__builtin_mul_overflow(x, y, out) && !__builtin_add_overflow(*out, plus_z, out);
}

/* What to divide by: the same everywhere, or one number a probe; all > 0. */
typedef struct divisor {
  const int64_t *each; /* NULL: all */
  int64_t all;
} divisor;

static int64_t at_probe(divisor by, size_t k) { return by.each ? by.each[k] : by.all; }

/* Bounds of c for a certain a. */
static bool bounds(const cni_solver *s, const goal *g, const int64_t *e, divisor by, int64_t a, int64_t *lo,
                   int64_t *hi)
{
  *lo = INT64_MIN;
  *hi = INT64_MAX;
  for (size_t k = 0; k < s->nprobes; k++) {
    int64_t x, least, most, d = at_probe(by, k);
    if (__builtin_mul_overflow(a, e[k], &x) || x == INT64_MIN || !fused(&least, g->t[k], d, -x) ||
        __builtin_add_overflow(least, d - 1, &most))
      return false;
    if (g->relation[k] != AT_MOST && least > *lo) *lo = least;
    if (g->relation[k] != AT_LEAST && most < *hi) *hi = most;
    if (*lo > *hi) return false;
  }
  return *lo != INT64_MIN && *hi != INT64_MAX;
}

static int64_t choose(const cni_solver *s, int64_t lo, int64_t hi, int64_t d)
{
  if (s->halve && hi - lo > 1) return lo + (hi - lo) / 2;
  if (lo <= 0 && hi >= 0) return 0;
  if (lo <= d - 1 && hi >= d - 1) return d - 1; /* rounded up */
  return lo > 0 ? lo : hi;
}

/* Two probes with exact goals at which e lies far apart. */
typedef struct span {
  int i, j;
  int64_t run;
} span;

static bool find_span(const cni_solver *s, const goal *g, const cni_known *e, span *p)
{
  *p = (span){e->low, e->high, 0};
  if (!g->exact) {
    p->i = p->j = -1;
    for (int k = 0; k < (int)s->nprobes; k++) {
      if (g->relation[k] != EXACT) continue;
      if (p->i < 0 || e->at[k] < e->at[p->i]) p->i = k;
      if (p->j < 0 || e->at[k] > e->at[p->j]) p->j = k;
    }
  }
  return p->i >= 0 && !__builtin_sub_overflow(e->at[p->j], e->at[p->i], &p->run) && p->run > 0;
}

/* g = (a * e + c) // by, with a other than zero. */
static bool fits(const cni_solver *s, const goal *g, const cni_known *e, const span *p, divisor by, fit *f)
{
  int64_t ti, tj, rise, lo, hi, di = at_probe(by, (size_t)p->i), dj = at_probe(by, (size_t)p->j);
  if (__builtin_mul_overflow(g->t[p->i], di, &ti) || __builtin_mul_overflow(g->t[p->j], dj, &tj) ||
      __builtin_sub_overflow(tj, ti, &rise))
    return false;
  double slope = floor((double)rise / (double)p->run + 0.5);
  if (fabs(slope) > EXACT_MOST) return false;
  int64_t middle = (int64_t)slope, noise = di > dj ? di : dj, most = noise / p->run;
  if (most > SLOPES / 2) most = SLOPES / 2;
  if (!most && fabs((double)rise - slope * (double)p->run) > 2 * (double)noise) return false; /* no a comes near */
  for (int64_t off = 0; off <= 2 * most; off++) { /* 0, 1, -1, 2, -2 */
    f->a = middle + (off & 1 ? (off + 1) / 2 : -off / 2);
    if (!f->a || !bounds(s, g, e->at, by, f->a, &lo, &hi)) continue;
    f->c = choose(s, lo, hi, at_probe(by, 0));
    return true;
  }
  return false;
}

/* Found, or out of memory: either ends a search. What is merely too large does not. */
static bool ended(int expr) { return expr > 0 || expr == CN_ERR_MEMORY; }

/* (a * e + c) // d over a list of e: with the smallest d, and of these the first e. */
static int lines_over(cni_solver *s, const goal *g, const cni_known *list, size_t n, int64_t first, int64_t last)
{
  fit f, best = {0, 0};
  int64_t divided = last + 1;
  const cni_known *of = NULL;
  span p;
  for (size_t i = 0; i < n; i++) {
    if (!find_span(s, g, &list[i], &p)) continue;
    for (int64_t d = first; d < divided; d++) {
      if (!fits(s, g, &list[i], &p, (divisor){NULL, d}, &f)) continue;
      of = &list[i];
      best = f;
      divided = d;
    }
  }
  if (!of) return 0;
  int top = line(s, of->expr, best.a, best.c);
  return divided == 1 ? top : cni_expr_make(&s->x, CNI_EXPR_DIV, top, cni_expr_const(&s->x, divided));
}

static int lines(cni_solver *s, const goal *g, int64_t first, int64_t last)
{
  return lines_over(s, g, s->known, s->nknown, first, last);
}

static int lines_of_parts(cni_solver *s, const goal *g)
{
  return lines_over(s, g, s->parts, s->nparts, 1, SMALL_DIVISORS);
}

/* ---- forms of two ---- */

static size_t paired(const cni_solver *s) { return s->nknown < PAIRED ? s->nknown : PAIRED; }

/* A product of two as if it were known; at: room for its values. False: beyond int64_t. */
static bool product(cni_solver *s, size_t i, size_t j, int64_t *at, cni_known *k)
{
  *k = (cni_known){.at = at};
  for (size_t p = 0; p < s->nprobes; p++) {
    if (__builtin_mul_overflow(s->known[i].at[p], s->known[j].at[p], &at[p])) return false;
    if (at[p] < at[k->low]) k->low = (int)p;
    if (at[p] > at[k->high]) k->high = (int)p;
  }
  return true;
}

static int products(cni_solver *s, const goal *g)
{
  int64_t at[CNI_PROBES_MOST];
  cni_known k;
  for (size_t i = 0; i < paired(s); i++)
    for (size_t j = 0; j <= i; j++) {
      if (!product(s, i, j, at, &k)) continue;
      k.expr = cni_expr_make(&s->x, CNI_EXPR_MUL, s->known[j].expr, s->known[i].expr);
      int e = k.expr > 0 ? lines_over(s, g, &k, 1, 1, SMALL_DIVISORS) : k.expr;
      if (ended(e)) return e;
    }
  return 0;
}

static bool positive(const cni_solver *s, const int64_t *at)
{
  for (size_t k = 0; k < s->nprobes; k++)
    if (at[k] <= 0) return false;
  return true;
}

/* Sums and differences of two, and a constant. */
static int sums(cni_solver *s, const goal *g)
{
  goal rest = *g;
  for (size_t i = 0; i < s->nknown; i++)
    for (int64_t a = -1; a <= 1; a += 2) {
      bool fine = true;
      for (size_t k = 0; k < s->nprobes && fine; k++) fine = fused(&rest.t[k], -a, s->known[i].at[k], g->t[k]);
      int e = fine ? lines(s, &rest, 1, 1) : 0;
      if (e > 0) e = cni_expr_make(&s->x, a > 0 ? CNI_EXPR_ADD : CNI_EXPR_SUB, e, s->known[i].expr);
      if (ended(e)) return e;
    }
  return 0;
}

static int quotients(cni_solver *s, const goal *g)
{
  fit f;
  span p;
  for (size_t j = 0; j < paired(s); j++) {
    if (!positive(s, s->known[j].at)) continue;
    divisor by = {s->known[j].at, 0};
    for (size_t i = 0; i < paired(s); i++) {
      if (i == j || !find_span(s, g, &s->known[i], &p) || !fits(s, g, &s->known[i], &p, by, &f)) continue;
      int e = cni_expr_make(&s->x, CNI_EXPR_DIV, line(s, s->known[i].expr, f.a, f.c), s->known[j].expr);
      if (ended(e)) return e;
    }
  }
  return 0;
}

/* ---- min and max ---- */

/* What is inside of min(bound, ...) or max(bound, ...): a line. */
static int inside(cni_solver *s, const goal *g, enum cni_expr_op op, const int64_t *bound, goal *inner)
{
  size_t exact = 0;
  *inner = *g;
  inner->exact = false;
  for (size_t k = 0; k < s->nprobes; k++) {
    if (op == CNI_EXPR_MIN ? g->t[k] > bound[k] : g->t[k] < bound[k]) return 0;
    if (g->relation[k] == EXACT && g->t[k] == bound[k]) inner->relation[k] = op == CNI_EXPR_MIN ? AT_LEAST : AT_MOST;
    exact += inner->relation[k] == EXACT;
  }
  if (exact < 3 || exact == s->nprobes) return 0;
  int e = lines(s, inner, 1, SMALL_DIVISORS);
  return ended(e) ? e : lines_of_parts(s, inner);
}

static int clamped(cni_solver *s, const goal *g, enum cni_expr_op op, int64_t bound, goal *inner)
{
  int64_t at[CNI_PROBES_MOST];
  for (size_t k = 0; k < s->nprobes; k++) at[k] = bound;
  int e = inside(s, g, op, at, inner);
  return e > 0 ? cni_expr_make(&s->x, op, e, cni_expr_const(&s->x, bound)) : e;
}

static int clamps(cni_solver *s, const goal *g)
{
  goal inner, both;
  int64_t least = g->t[0], most = g->t[0];
  for (size_t k = 1; k < s->nprobes; k++) {
    if (g->t[k] < least) least = g->t[k];
    if (g->t[k] > most) most = g->t[k];
  }
  int e = clamped(s, g, CNI_EXPR_MAX, least, &inner);
  if (ended(e)) return e;
  int wide = clamped(s, g, CNI_EXPR_MIN, most, &both);
  if (ended(wide)) return wide;
  e = clamped(s, &inner, CNI_EXPR_MIN, most, &both); /* max(min(line, most), least) */
  if (e > 0) e = cni_expr_make(&s->x, CNI_EXPR_MAX, e, cni_expr_const(&s->x, least));
  for (size_t i = 0; i < 2 * paired(s) && !ended(e); i++) {
    enum cni_expr_op op = i & 1 ? CNI_EXPR_MAX : CNI_EXPR_MIN;
    const cni_known *bound = &s->known[i / 2];
    int bounding = bound->expr;
    e = inside(s, g, op, bound->at, &inner);
    if (e > 0) e = cni_expr_make(&s->x, op, bounding, e);
  }
  return e;
}

/* ---- composed forms: one step is taken off, the rest is looked for ---- */

static int search(cni_solver *s, const int64_t *t, int depth);

static int64_t gcd(int64_t a, int64_t b)
{
  while (b) {
    int64_t r = a % b;
    a = b;
    b = r;
  }
  return a < 0 ? -a : a;
}

/* t = step * rest + first, where all differences have a common divisor. */
static int without_step(cni_solver *s, const int64_t *t, int depth)
{
  int64_t rest[CNI_PROBES_MOST], step = 0;
  for (size_t k = 1; k < s->nprobes; k++) {
    int64_t difference;
    if (__builtin_sub_overflow(t[k], t[0], &difference) || difference == INT64_MIN) return 0;
    step = gcd(difference, step);
  }
  if (step < 2) return 0;
  int64_t first = t[0] % step;
  if (first < 0) first += step;
  for (size_t k = 0; k < s->nprobes; k++) rest[k] = (t[k] - first) / step;
  return line(s, search(s, rest, depth - 1), step, first);
}

/* t = rest * known */
static int without_factor(cni_solver *s, const int64_t *t, size_t i, int depth)
{
  int64_t rest[CNI_PROBES_MOST];
  const int64_t *at = s->known[i].at;
  int known = s->known[i].expr;
  for (size_t k = 0; k < s->nprobes; k++) {
    if (!at[k] || t[k] % at[k]) return 0;
    rest[k] = t[k] / at[k];
  }
  int e = search(s, rest, depth - 1);
  return e > 0 ? cni_expr_make(&s->x, CNI_EXPR_MUL, known, e) : e;
}

/* t = rest + a * known */
static int without_term(cni_solver *s, const int64_t *t, const cni_known *known, int64_t a, int depth)
{
  int64_t rest[CNI_PROBES_MOST];
  int term = times(s, known->expr, a < 0 ? -a : a);
  for (size_t k = 0; k < s->nprobes; k++)
    if (!fused(&rest[k], -a, known->at[k], t[k])) return 0;
  int e = search(s, rest, depth - 1);
  return e > 0 ? cni_expr_make(&s->x, a > 0 ? CNI_EXPR_ADD : CNI_EXPR_SUB, e, term) : e;
}

/* t = rest // d, without a remainder */
static int without_divisor(cni_solver *s, const int64_t *t, int64_t d, int depth)
{
  int64_t rest[CNI_PROBES_MOST];
  for (size_t k = 0; k < s->nprobes; k++)
    if (__builtin_mul_overflow(t[k], d, &rest[k])) return 0;
  int e = search(s, rest, depth - 1);
  return e > 0 ? cni_expr_make(&s->x, CNI_EXPR_DIV, e, cni_expr_const(&s->x, d)) : e;
}

static int composed(cni_solver *s, const int64_t *t, int depth)
{
  int64_t most = depth > 1 ? 1 : 4;
  size_t n = s->nknown; /* what is learnt on the way is for later questions */
  if (depth > 1 && n > 4) n = 4;
  int e = without_step(s, t, depth);
  for (size_t i = 0; i < n && !ended(e); i++) e = without_factor(s, t, i, depth);
  for (int64_t d = 2; d <= 4 && depth > 1 && !ended(e); d++) e = without_divisor(s, t, d, depth);
  for (int64_t a = 1; a <= most && !ended(e); a++)
    for (size_t i = 0; i < n && !ended(e); i++) {
      e = without_term(s, t, &s->known[i], a, depth);
      if (!ended(e)) e = without_term(s, t, &s->known[i], -a, depth);
    }
  for (size_t i = 0; i < s->nparts && depth == 1 && !ended(e); i++) {
    e = without_term(s, t, &s->parts[i], 1, depth);
    if (!ended(e)) e = without_term(s, t, &s->parts[i], -1, depth);
  }
  return e;
}

static bool constant(const cni_solver *s, const int64_t *t)
{
  for (size_t k = 1; k < s->nprobes; k++)
    if (t[k] != t[0]) return false;
  return true;
}

/* depth: so many steps may be taken off. */
static int search(cni_solver *s, const int64_t *t, int depth)
{
  goal g = {.exact = true};
  memcpy(g.t, t, s->nprobes * sizeof *t);
  if (constant(s, t)) return cni_expr_const(&s->x, t[0]);
  int e = lines(s, &g, 1, SMALL_DIVISORS);
  if (!ended(e)) e = sums(s, &g);
  if (!ended(e)) e = products(s, &g);
  if (!ended(e)) e = quotients(s, &g);
  if (!ended(e) && depth) e = without_step(s, t, depth);
  if (!ended(e)) e = clamps(s, &g);
  if (!ended(e) && depth) e = lines_of_parts(s, &g);
  if (!ended(e) && depth) e = lines(s, &g, SMALL_DIVISORS + 1, LARGE_DIVISORS);
  if (!ended(e) && depth) e = composed(s, t, depth);
  return e > 0 ? learn(s, e, t) : e == CN_ERR_MEMORY ? e : 0;
}

/* ---- asking ---- */

static cni_asked *asked_before(cni_solver *s, const int64_t *values, uint64_t hash)
{
  for (size_t i = 0; i < s->nasked; i++)
    if (s->asked[i].hash == hash && !memcmp(s->asked[i].at, values, s->nprobes * sizeof *values)) return &s->asked[i];
  return NULL;
}

static cni_asked *remember(cni_solver *s, const int64_t *values, uint64_t hash)
{
  int64_t *own = vector(s);
  if (!own || cni_grow((void **)&s->asked, &s->asked_cap, s->nasked + 1, sizeof *s->asked)) {
    cni_free(own, s->nprobes * sizeof *own);
    return NULL;
  }
  memcpy(own, values, s->nprobes * sizeof *own);
  cni_asked *q = &s->asked[s->nasked++];
  *q = (cni_asked){.hash = hash, .at = own};
  return q;
}

int cni_solve(cni_solver *s, const int64_t *values, int effort)
{
  uint64_t hash = cn_hash(values, s->nprobes * sizeof *values);
  cni_asked *q = asked_before(s, values, hash);
  if (!q && !(q = remember(s, values, hash))) return CN_ERR_MEMORY;
  for (; !q->expr && q->effort < effort; q->effort++) {
    int e = search(s, values, q->effort);
    if (!e && q->effort + 1 == CNI_SOLVE_WHOLE) e = search(s, values, CNI_SOLVE_WHOLE);
    if (e < 0) return e;
    q->expr = e;
  }
  return q->expr;
}

/* values * bottom are integers whose quotients with it are the values again. */
static bool scaled(const cni_solver *s, const double *values, const int64_t *bottom, int64_t *top)
{
  for (size_t k = 0; k < s->nprobes; k++) {
    double x = rint(values[k] * (double)bottom[k]);
    if (!bottom[k] || !(fabs(x) <= EXACT_MOST) || x / (double)bottom[k] != values[k]) return false;
    top[k] = (int64_t)x;
  }
  return true;
}

/* values = top / (m * (e + c)) for a few m and c. */
static int over(cni_solver *s, const double *values, int expr, const int64_t *at, int effort)
{
  static const int64_t scale[] = {1, 2, 3, 4, 8, 16}, shift[] = {0, -1, 1, -2, 2};
  int64_t bottom[CNI_PROBES_MOST], top[CNI_PROBES_MOST];
  for (size_t m = 0; m < sizeof scale / sizeof *scale; m++)
    for (size_t c = 0; c < sizeof shift / sizeof *shift; c++) {
      bool fine = true;
      for (size_t k = 0; k < s->nprobes; k++) fine = fine && fused(&bottom[k], scale[m], at[k], scale[m] * shift[c]);
      int e = fine && scaled(s, values, bottom, top) ? cni_solve(s, top, effort) : 0;
      if (e > 0) e = cni_expr_make(&s->x, CNI_EXPR_RATIO, e, times(s, plus(s, expr, shift[c]), scale[m]));
      if (ended(e)) return e;
    }
  return 0;
}

int cni_solve_real(cni_solver *s, const double *values, int effort)
{
  int64_t at[CNI_PROBES_MOST], whole[CNI_PROBES_MOST];
  cni_known k;
  for (size_t i = 0; i < s->nprobes; i++) at[i] = 1;
  int e = scaled(s, values, at, whole) ? cni_solve(s, whole, effort) : 0;
  size_t n = paired(s);
  for (size_t i = 0; i < n && !ended(e); i++) {
    memcpy(at, s->known[i].at, s->nprobes * sizeof *at);
    e = over(s, values, s->known[i].expr, at, effort);
  }
  for (size_t i = 0; i < n && !ended(e); i++)
    for (size_t j = 0; j <= i && !ended(e); j++) {
      if (!product(s, i, j, at, &k)) continue;
      int bottom = cni_expr_make(&s->x, CNI_EXPR_MUL, s->known[j].expr, s->known[i].expr);
      e = bottom > 0 ? over(s, values, bottom, at, effort) : bottom;
    }
  return e == CN_ERR_MEMORY || e > 0 ? e : 0;
}
