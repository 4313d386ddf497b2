/* dynamic.c: one graph for many sizes: a function is traced without data at sizes of the library's choice, the numbers
 * that differ are solved as expressions of the sizes, and the expressions tried at further sizes.
 *
 * Place in the flow: cn_trace_dynamic -> probe.c (traces) -> solve.c (expressions) -> the graph with its expressions,
 * which plan.c evaluates. Where an expression rounds or bends (//, min, max) it is tried on both sides of such a place;
 * what turns out wrong is solved anew, with the trace that showed it. Invariant: a number for which no expression holds
 * at every probe is an error that names it, never a guess. */
#include <cairn/ext/system.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "probe.h"
#include "tensor/tensor.h"

enum {
  ROUNDS = 24,
  TRIALS = 32,      /* further sizes a round */
  FRESH = 4,        /* ... that are tried whatever the expressions are */
  SPREAD_BITS = 16, /* of sizes that are chosen freely */
  SCAN = 4096       /* so far a place is looked for at which an expression rounds */
};

typedef struct solution {
  cni_solver solver;
  int *expr;    /* per place; 0: does not differ, or is a size of a result */
  size_t failed; /* the place for which there is none; the number of places: none */
} solution;

/* ---- solving all numbers ---- */

static bool differs(const cni_prober *p, size_t place)
{
  for (size_t k = 1; k < p->nprobes; k++)
    if (memcmp(&p->numbers[k][place], &p->numbers[0][place], sizeof(cni_count))) return true;
  return false;
}

static int solve_place(const cni_prober *p, solution *a, size_t place)
{
  const cni_place *at = &p->places[place];
  int effort = at->arg == CNI_AT_DIM ? CNI_SOLVE_QUICK : CNI_SOLVE_WHOLE;
  int64_t whole[CNI_PROBES_MOST];
  double real[CNI_PROBES_MOST];
  for (size_t k = 0; k < p->nprobes; k++) {
    if (at->real) real[k] = p->numbers[k][place].f;
    else whole[k] = p->numbers[k][place].i;
  }
  return at->real ? cni_solve_real(&a->solver, real, effort) : cni_solve(&a->solver, whole, effort);
}

/* 0 also where a number has no expression: a->failed says so. */
static int solve_all(const cni_prober *p, solution *a, bool halve)
{
  cni_solver_free(&a->solver);
  int status = cni_solver_begin(&a->solver, p->sizes, p->nprobes, p->frame->nsizes);
  a->solver.halve = halve;
  a->failed = p->nplaces;
  for (size_t i = 0; i < p->nplaces && !status; i++) {
    a->expr[i] = 0;
    if (!differs(p, i)) continue;
    int e = solve_place(p, a, i);
    if (e < 0) return e;
    if (p->places[i].arg == CNI_AT_DIM) continue; /* found or not, it is infer's */
    if (!e) return a->failed = i, CN_OK;
    a->expr[i] = e;
  }
  return status;
}

/* ---- trying at further sizes ---- */

/* Does the solution give the numbers of the last probe? */
static bool agrees(const cni_prober *p, const solution *a)
{
  size_t last = p->nprobes - 1;
  const cni_exprs *x = &a->solver.x;
  const int64_t *sizes = p->sizes + last * p->frame->nsizes;
  for (size_t i = 0; i < p->nplaces; i++) {
    const cni_count now = p->numbers[last][i], first = p->numbers[0][i];
    int e = a->expr[i];
    if (p->places[i].arg == CNI_AT_DIM) continue;
    if (!e && memcmp(&now, &first, sizeof now)) return false;
    if (!e) continue;
    bool ratio = x->v[e].op == CNI_EXPR_RATIO;
    int64_t top = cni_expr_value(x, ratio ? x->v[e].a : e, sizes);
    int64_t bottom = ratio ? cni_expr_value(x, x->v[e].b, sizes) : 1;
    if (top == CNI_UNDEFINED || bottom == CNI_UNDEFINED || !bottom) return false;
    if (p->places[i].real ? (double)top / (double)bottom != now.f : top != now.i) return false;
  }
  return true;
}

typedef struct trials {
  cni_prober *p;
  solution *a;
  int64_t *row, *others; /* the sizes to try; what those have that are not varied */
  int done, wrong, status;
  bool skipped; /* there were more than a round tries */
  uint64_t seed;
} trials;

/* Tries the sizes in t->row, unless they were. */
static void try_row(trials *t)
{
  if (t->status || cni_probed(t->p, t->row)) return;
  if (t->done++ == TRIALS) t->skipped = true;
  if (t->skipped) return;
  t->status = cni_probe(t->p, t->row);
  if (!t->status) t->wrong += !agrees(t->p, t->a);
}

static void put_row(trials *t, size_t s, int64_t size)
{
  memcpy(t->row, t->others, t->p->frame->nsizes * sizeof *t->row);
  t->row[s] = size;
}

/* Sizes around `middle` of size s. */
static void try_around(trials *t, size_t s, int64_t middle)
{
  const cni_gsize *z = &t->p->frame->sizes[s];
  for (int64_t size = middle - 1; size <= middle + 1; size++) {
    if (size < z->min || size > z->max) continue;
    put_row(t, s, size);
    try_row(t);
  }
}

static int64_t value_at(trials *t, int expr, size_t s, int64_t size)
{
  put_row(t, s, size);
  return cni_expr_value(&t->a->solver.x, expr, t->row);
}

/* A division: the first place behind `from` where its result does not go on as it went. */
static void try_step(trials *t, int expr, size_t s, int64_t from)
{
  const cni_gsize *z = &t->p->frame->sizes[s];
  int64_t last = z->max - 1 < from + SCAN ? z->max - 1 : from + SCAN;
  int64_t before = value_at(t, expr, s, from), at = value_at(t, expr, s, from + 1);
  for (int64_t size = from + 1; size <= last; size++) {
    int64_t after = value_at(t, expr, s, size + 1), rise = cni_expr_apply(CNI_EXPR_SUB, at, before);
    if (rise != CNI_UNDEFINED && rise != cni_expr_apply(CNI_EXPR_SUB, after, at)) {
      try_around(t, s, size);
      return;
    }
    before = at;
    at = after;
  }
}

/* min and max: where the two change places; -1: nowhere. */
static int64_t crossing(trials *t, int expr, size_t s)
{
  const cni_expr *e = &t->a->solver.x.v[expr];
  int64_t lo = t->p->frame->sizes[s].min, hi = t->p->frame->sizes[s].max;
  bool low = value_at(t, e->a, s, lo) < value_at(t, e->b, s, lo);
  if ((value_at(t, e->a, s, hi) < value_at(t, e->b, s, hi)) == low) return -1;
  while (hi - lo > 1) {
    int64_t middle = lo + (hi - lo) / 2;
    if ((value_at(t, e->a, s, middle) < value_at(t, e->b, s, middle)) == low) lo = middle;
    else hi = middle;
  }
  return hi;
}

/* Divisions are tried from the first probe's size on, near the largest size, and where some min or max has just changed
 * its mind: what it hid before shows there. */
static void try_steps(trials *t, const bool *used, size_t s, int64_t from)
{
  const cni_exprs *x = &t->a->solver.x;
  if (from < t->p->frame->sizes[s].min) from = t->p->frame->sizes[s].min;
  for (int i = 1; i < (int)x->n; i++)
    if (used[i] && x->v[i].op == CNI_EXPR_DIV) try_step(t, i, s, from);
}

static void try_bends(trials *t, const bool *used, size_t s)
{
  const cni_exprs *x = &t->a->solver.x;
  try_steps(t, used, s, t->p->sizes[s]);
  try_steps(t, used, s, t->p->frame->sizes[s].max - SCAN);
  for (int i = 1; i < (int)x->n; i++) {
    if (!used[i] || (x->v[i].op != CNI_EXPR_MIN && x->v[i].op != CNI_EXPR_MAX)) continue;
    int64_t at = crossing(t, i, s);
    if (at < 0) continue;
    try_around(t, s, at);
    try_steps(t, used, s, at);
  }
}

/* Sizes in no order, small and large ones equally often; the same in every program. */
static void spread(const cni_prober *p, uint64_t *seed, int64_t *row)
{
  for (size_t s = 0; s < p->frame->nsizes; s++) {
    const cni_gsize *z = &p->frame->sizes[s];
    int bits = 0;
    while (bits < SPREAD_BITS && (z->max - z->min) >> bits) bits++;
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    uint64_t below = *seed >> 32 & 0xffffff, shift = (*seed >> 58) % (uint64_t)(bits + 1);
    int64_t size = z->min + (int64_t)(below & ((1u << shift) - 1));
    row[s] = size <= z->max ? size : z->max;
  }
}

/* The last of them stays in t->row. */
static void try_fresh(trials *t)
{
  for (int turn = 0; turn < FRESH; turn++) {
    spread(t->p, &t->seed, t->row);
    try_row(t);
  }
}

static int probe_more(cni_prober *p, trials *t, int count)
{
  int status = CN_OK;
  for (int i = 0; i < count && !status; i++) {
    spread(p, &t->seed, t->row);
    if (!cni_probed(p, t->row)) status = cni_probe(p, t->row);
  }
  return status;
}

static void mark_used(const cni_exprs *x, int expr, bool *used)
{
  const cni_expr *e = &x->v[expr];
  if (used[expr]) return;
  used[expr] = true;
  if (e->op == CNI_EXPR_CONST || e->op == CNI_EXPR_SIZE) return;
  mark_used(x, e->a, used);
  mark_used(x, e->b, used);
}

/* Tries the solution. t->wrong: how often it was. */
static int try_solution(trials *t)
{
  const cni_exprs *x = &t->a->solver.x;
  size_t n = t->p->frame->nsizes;
  bool *used = cni_alloc_zero(x->n + 1);
  if (!used) return CN_ERR_MEMORY;
  for (size_t i = 0; i < t->p->nplaces; i++)
    if (t->a->expr[i]) mark_used(x, t->a->expr[i], used);
  t->done = t->wrong = 0;
  t->skipped = false;
  try_fresh(t);
  memcpy(t->others, t->row, n * sizeof *t->others);
  for (size_t s = 0; s < n; s++) try_bends(t, used, s);
  memcpy(t->others, t->p->sizes, n * sizeof *t->others);
  for (size_t s = 0; s < n; s++) try_bends(t, used, s);
  cni_free(used, x->n + 1);
  return t->status;
}

/* ---- rounds ---- */

static int unsolved(const cni_prober *p, size_t place)
{
  char name[128];
  cn_text t = {0};
  cni_place_name(p->g, &p->places[place], name, sizeof name);
  for (size_t k = 0; k < p->nprobes && k < 6; k++) {
    char number[CN_NUMBER_TEXT];
    const cni_count v = p->numbers[k][place];
    if (p->places[place].real) cn_number_write(number, v.f, false);
    else snprintf(number, sizeof number, "%" PRId64, v.i);
    cn_text_putf(&t, "%s%s (", k ? ", " : "", number);
    for (size_t s = 0; s < p->frame->nsizes; s++)
      cn_text_putf(&t, "%s%s = %" PRId64, s ? ", " : "", p->frame->sizes[s].name, p->sizes[k * p->frame->nsizes + s]);
    cn_text_put(&t, ")");
  }
  int status = cni_fail(CN_ERR_CAPTURE, "%s: %s is %s: no expression of the sizes was found that gives these", p->who,
                        name, t.s ? t.s : "");
  cn_text_free(&t);
  return status;
}

/* Very small sizes are often cases of their own: where the caller did not ask for them they are left out. */
static bool raise_min(cni_prober *p)
{
  bool raised = false;
  for (size_t s = 0; s < p->frame->nsizes; s++) {
    cni_gsize *z = &p->frame->sizes[s];
    if (p->given[2 * s] || z->min >= 4 || z->min >= p->sizes[s] || z->min >= p->least[s]) continue;
    z->min++;
    raised = true;
  }
  if (raised) cni_probes_drop(p);
  return raised;
}

static int settle(cni_prober *p, solution *a)
{
  size_t n = p->frame->nsizes;
  trials t = {.p = p, .a = a, .row = cni_alloc(2 * n * sizeof *t.row)};
  t.others = t.row ? t.row + n : NULL;
  int status = t.row ? probe_more(p, &t, FRESH) : CN_ERR_MEMORY;
  bool settled = false, asked = false;
  for (int round = 0; round < ROUNDS && !status && !settled; round++) {
    status = solve_all(p, a, round > 0);
    if (!status && a->failed < p->nplaces) {
      if (!asked) status = probe_more(p, &t, TRIALS);
      else if (!raise_min(p)) status = unsolved(p, a->failed);
      asked = true;
      continue;
    }
    if (!status) status = try_solution(&t);
    settled = !t.wrong && !t.skipped;
  }
  cni_free(t.row, 2 * n * sizeof *t.row);
  if (status || settled) return status;
  return cni_fail(CN_ERR_CAPTURE, "%s: its numbers do not settle: they are no expressions of the sizes", p->who);
}

/* ---- the graph ---- */

/* A float among arguments that may be integers too says that it is one. */
static int placed_expr(cn_graph *g, const cni_exprs *from, int expr, const cni_place *at)
{
  int e = cni_expr_copy(&g->exprs, from, expr, NULL);
  const cni_opinfo *info = at->arg < 0 ? NULL : at->scope ? g->scopes[at->node].op : g->nodes[at->node].info;
  bool either = info && at->real && info->params[at->arg].type == CNI_T_SCALAR;
  if (e <= 0 || !either || g->exprs.v[e].op == CNI_EXPR_RATIO) return e;
  return cni_expr_make(&g->exprs, CNI_EXPR_RATIO, e, cni_expr_const(&g->exprs, 1));
}

static int put_places(cn_graph *g, const cni_prober *p, const solution *a)
{
  for (size_t i = 0; i < p->nplaces; i++) {
    const cni_place *at = &p->places[i];
    if (!a->expr[i]) continue;
    int e = placed_expr(g, &a->solver.x, a->expr[i], at);
    if (e < 0) return e;
    if (at->arg == CNI_AT_SCALAR) g->values[at->node].expr = e;
    else if (at->arg == CNI_AT_INPUT) g->values[at->node].dims[at->element] = e;
    else if (at->arg == CNI_AT_DRAW) g->draws[at->node].expr = e;
    else {
      cni_gsyms *syms = at->scope ? &g->scopes[at->node].syms : &g->nodes[at->node].syms;
      if (cni_syms_add(syms, at->arg, at->element, e)) return CN_ERR_MEMORY;
    }
  }
  return CN_OK;
}

/* The first trace with sizes, dims and expressions; taken from the prober. */
static cn_graph *finished(cni_prober *p, const solution *a)
{
  cn_graph *g = p->g;
  int status = CN_OK;
  for (size_t s = 0; s < p->frame->nsizes && !status; s++) {
    const cni_gsize *z = &p->frame->sizes[s];
    status = cni_graph_add_size(g, z->name, p->sizes[s], z->min, z->max);
  }
  for (size_t i = 0; i < p->ninputs * CN_MAX_DIMS && !status; i++) {
    if (!p->dims[i]) continue;
    int e = cni_expr_copy(&g->exprs, &p->frame->exprs, p->dims[i], NULL);
    g->values[g->inputs[i / CN_MAX_DIMS]].dims[i % CN_MAX_DIMS] = e;
    if (e < 0) status = e;
  }
  for (size_t i = 0; i < g->nvalues && !status; i++) { /* sizes that nodes define stand behind those of the inputs */
    cni_gvalue *v = &g->values[i];
    if (!v->count) continue;
    v->dims[0] = cni_expr_size(&g->exprs, (int)(p->frame->nsizes - p->ncounted) + v->count - 1);
    if (v->dims[0] < 0) status = v->dims[0];
  }
  if (!status) status = put_places(g, p, a);
  if (!status) status = cn_graph_verify(g);
  if (status) return NULL;
  p->g = NULL;
  return g;
}

static int probe_all(cni_prober *p, const int64_t *examples, size_t nexamples)
{
  size_t n = p->frame->nsizes;
  int status = cni_probe_base(p);
  for (size_t k = 0; k < nexamples && !status; k++)
    if (!cni_probed(p, examples + k * n)) status = cni_probe(p, examples + k * n);
  return status ? status : cni_probe_range(p);
}

/* Once more without a shortcut that is right at the first sizes and not at others: it must not narrow the range. */
static int probe_again(cni_prober *p, const int64_t *examples, size_t nexamples)
{
  size_t room = p->frame->nsizes * sizeof *p->frame->sizes;
  cni_gsize *sizes = cni_alloc(room);
  if (!sizes) return CN_ERR_MEMORY;
  memcpy(sizes, p->frame->sizes, room);
  int status = probe_all(p, examples, nexamples);
  while (p->shortcuts->refused && status != CN_ERR_MEMORY) { /* one less of them each time */
    cn_err_clear();
    memcpy(p->frame->sizes, sizes, room);
    cni_prober_restart(p);
    status = probe_all(p, examples, nexamples);
  }
  cni_free(sizes, room);
  return status;
}

cn_graph *cni_trace_probing(cni_prober *p, const int64_t *examples, size_t nexamples)
{
  solution a = {0};
  int status = cni_prober_begin(p);
  if (!status) status = probe_again(p, examples, nexamples);
  size_t room = p->nplaces * sizeof *a.expr;
  if (!status && !(a.expr = cni_alloc_zero(room))) status = CN_ERR_MEMORY;
  if (!status) status = settle(p, &a);
  cn_graph *g = status ? NULL : finished(p, &a);
  cni_free(a.expr, room);
  cni_solver_free(&a.solver);
  cni_prober_free(p);
  return g;
}
