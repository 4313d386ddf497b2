/* rewrite.c: the rewriter: looks at each node for a row whose pattern ends in it, and builds the replacement before it.
 *
 * Place in the flow: passes/algebra.c applies cairn's rows and those of plugins; exporters and devices bring their own.
 * Invariant: a value is replaced by one of its type, shape and memory order only; values that others read stay. */
#include "rewrite.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/convert.h"
#include "base/dtype.h"
#include "base/log.h"
#include "passes/passes.h"
#include "tensor/tensor.h"

enum { MOST_SWEEPS = 16 };

struct cn_match {
  const cni_pattern *p;
  cn_graph *g;
  int root;                                  /* the value to be replaced */
  int value[CNI_MOST_NAMES];                 /* of a name; -2: none yet */
  const cn_value *attribute[CNI_MOST_NAMES]; /* of a $name */
};

/* ---- comparing ---- */

static bool is_number(const cn_value *v) { return v->tag == CN_V_INT || v->tag == CN_V_BOOL || v->tag == CN_V_FLOAT; }

static double as_number(const cn_value *v) { return v->tag == CN_V_FLOAT ? v->u.f : (double)v->u.i; }

/* To the bit: -0.0 is not 0, and a NaN is itself. */
static bool same_number(double a, double b) { return !memcmp(&a, &b, sizeof a); }

bool cni_same_value(const cn_value *a, const cn_value *b)
{
  if (is_number(a) && is_number(b) && a->tag != b->tag) return same_number(as_number(a), as_number(b));
  if (a->tag != b->tag) return false;
  switch (a->tag) {
  case CN_V_INT:
  case CN_V_BOOL: return a->u.i == b->u.i;
  case CN_V_FLOAT: return same_number(a->u.f, b->u.f);
  case CN_V_STR: return !strcmp(a->u.s, b->u.s);
  case CN_V_INTS: return a->n == b->n && !memcmp(a->u.is, b->u.is, (size_t)a->n * sizeof *a->u.is);
  case CN_V_FLOATS: return a->n == b->n && !memcmp(a->u.fs, b->u.fs, (size_t)a->n * sizeof *a->u.fs);
  default: return a->n == b->n;
  }
}

static bool is_literal(const cn_graph *g, int value, const cn_value *literal)
{
  if (literal->tag == CN_V_NONE || value < 0) return literal->tag == CN_V_NONE && value < 0;
  const cni_gvalue *v = &g->values[value];
  if (v->kind == CNI_VALUE_SCALAR && !v->expr)
    return same_number(v->dtype == CN_F64 ? v->number : (double)v->integer, as_number(literal));
  if (v->kind != CNI_VALUE_CONST || v->tensor->d.numel != 1 || v->device != CN_CPU) return false;
  return same_number(cni_load_f64(v->tensor->d.data, 0, v->dtype), as_number(literal));
}

/* ---- matching ---- */

static bool match_value(cn_match *m, int term, int value);

static bool match_attribute(cn_match *m, int term, const cni_opinfo *op, int i, const cn_value *v)
{
  const cni_param *p = &op->params[i];
  const cni_term *t = term < 0 ? NULL : &m->p->term[term];
  cni_few room;
  if (t && t->kind == CNI_TERM_ANY) return true;
  if (t && t->kind == CNI_TERM_LITERAL) return cni_same_value(&t->literal, v);
  if (t) { /* CAPTURE */
    if (m->attribute[t->name]) return cni_same_value(m->attribute[t->name], v);
    m->attribute[t->name] = v;
    return true;
  }
  cn_value missing = p->def; /* in the form that a call has it */
  return !(p->list && p->fixed && cni_fit_list(op, p, &missing, &room)) && cni_same_value(&missing, v);
}

static bool match_list(cn_match *m, int term, const int *in, int n)
{
  if (term < 0) return n == 0;
  if (m->p->term[term].kind == CNI_TERM_ANY) return true;
  int t = m->p->term[term].inside;
  for (int k = 0; k < n; k++, t = m->p->term[t].next)
    if (t < 0 || !match_value(m, t, in[k])) return false;
  return t < 0;
}

static bool match_call(cn_match *m, const cni_term *t, int value)
{
  const cn_graph *g = m->g;
  if (value < 0 || g->values[value].kind != CNI_VALUE_RESULT) return false;
  const cni_gnode *n = &g->nodes[g->values[value].node];
  if (n->info != t->op || n->draw >= 0 || n->syms.n) return false;
  const int *in = n->in;
  for (int i = 0, term = t->inside; i < n->nargs; i++) {
    const cni_param *p = &n->info->params[i];
    bool good;
    if (p->type != CNI_T_TENSOR) good = match_attribute(m, term, n->info, i, &n->args[i]);
    else if (p->list) {
      good = match_list(m, term, in, n->args[i].n);
      in += n->args[i].n;
    } else {
      good = term < 0 ? *in < 0 : match_value(m, term, *in);
      in++;
    }
    if (!good) return false;
    if (term >= 0) term = m->p->term[term].next;
  }
  return true;
}

static bool match_value(cn_match *m, int term, int value)
{
  const cni_term *t = &m->p->term[term];
  switch (t->kind) {
  case CNI_TERM_ANY: return true;
  case CNI_TERM_LITERAL: return is_literal(m->g, value, &t->literal);
  case CNI_TERM_CALL: return match_call(m, t, value);
  case CNI_TERM_NAME:
    if (m->value[t->name] == -2) m->value[t->name] = value;
    return value >= 0 && m->value[t->name] == value;
  default: return false;
  }
}

/* ---- building ---- */

static int build(const cn_match *m, int term);

/* The argument of an attribute in a replacement. */
static cn_value attribute(const cn_match *m, const cni_term *t)
{
  return t->kind == CNI_TERM_CAPTURE ? *m->attribute[t->name] : t->literal;
}

/* Appends the value of a term, or of each of a list. */
static int build_inputs(const cn_match *m, int term, int *in, int n, int most)
{
  bool list = m->p->term[term].kind == CNI_TERM_LIST;
  int t = list ? m->p->term[term].inside : term;
  while (t >= 0) {
    if (n == most) return cni_fail(CN_ERR_UNSUPPORTED, "rewrite: too many tensors in a call");
    bool none = m->p->term[t].kind == CNI_TERM_LITERAL && m->p->term[t].literal.tag == CN_V_NONE;
    int value = none ? -1 : build(m, t);
    if (value < 0 && !none) return value;
    in[n++] = value;
    t = list ? m->p->term[t].next : -1;
  }
  return n;
}

static int build_call(const cn_match *m, const cni_term *t)
{
  cn_value args[CN_MAX_ARGS];
  int in[CNI_MOST_TERMS], n = 0, nargs = 0, out;
  size_t nout = 1;
  for (int term = t->inside; term >= 0; term = m->p->term[term].next, nargs++) {
    const cni_param *p = &t->op->params[nargs];
    if (p->type != CNI_T_TENSOR) {
      args[nargs] = attribute(m, &m->p->term[term]);
      continue;
    }
    int before = n;
    if ((n = build_inputs(m, term, in, n, CNI_MOST_TERMS)) < 0) return n;
    args[nargs] = p->list ? cn_v_tensors(NULL, (size_t)(n - before)) : cn_v_none();
  }
  int node = cn_graph_add_node(&out, &nout, m->g, t->op->row, args, (size_t)nargs, in, (size_t)n);
  return node < 0 ? node : out;
}

static int build(const cn_match *m, int term)
{
  const cni_term *t = &m->p->term[term];
  if (t->kind == CNI_TERM_NAME) return m->value[t->name];
  return t->kind == CNI_TERM_CALL ? build_call(m, t) : cn_graph_add_number(m->g, t->literal);
}

/* ---- applying ---- */

/* Does the pattern fit what this value is made of, at any size it may have? */
static bool matches(cn_match *m, const cn_rewrite *row, const cni_pattern *p, cn_graph *g, int value)
{
  *m = (cn_match){.p = p, .g = g, .root = value};
  for (int i = 0; i < CNI_MOST_NAMES; i++) m->value[i] = -2;
  return match_value(m, p->pattern, value) && (row->any_sizes || !g->types.v[value].varies) &&
         (!row->when || row->when(m));
}

/* 1: applied; 0: not; negative: failed. */
static int apply(const cn_match *m, const cn_rewrite *row)
{
  cn_graph *g = m->g;
  int node = g->values[m->root].node, status = cn_graph_at(g, node, g->nodes[node].scope);
  int value = status ? status : build(m, m->p->replacement);
  cn_graph_at(g, -1, -1);
  if (value < 0 && value != CN_ERR_MEMORY) { /* the replacement is not possible for these types */
    cn_err_clear();
    return 0;
  }
  status = value < 0 ? value : cni_types_fill(&g->types, g);
  if (status) return status;
  if (!cni_same_type(&g->types, m->root, value)) return 0;
  int users = cn_graph_replace(g, m->root, value);
  if (users > 0) cni_log(CN_LOG_INFO, CNI_TOPIC_GRAPH, "rewrite %s: value %d is now %d", row->name, m->root, value);
  return users < 0 ? users : users > 0;
}

static int sweep(cn_graph *g, const cn_rewrite *rows, const cni_pattern *patterns, size_t n)
{
  int count = 0;
  for (size_t i = 0; i < g->nnodes; i++) {
    int value = g->nodes[i].out[0], users = cn_graph_users(NULL, g, value);
    if (users < 0) return users;
    for (size_t k = 0; users > 0 && k < n; k++) {
      cn_match m;
      if (!matches(&m, &rows[k], &patterns[k], g, value)) continue;
      int done = apply(&m, &rows[k]);
      if (done < 0) return done;
      i = (size_t)g->values[value].node; /* nodes were put before it */
      count += done;
      if (done) break;
    }
  }
  return count;
}

int cn_graph_rewrite(cn_graph *g, const cn_rewrite *rows, size_t n)
{
  if (cn_err()) return cn_err();
  if (!g || (n && !rows)) return cni_fail(CN_ERR_TYPE, "graph_rewrite: the graph or the rows are NULL");
  cni_pattern *patterns = cni_alloc((n + 1) * sizeof *patterns);
  int status = patterns ? CN_OK : CN_ERR_MEMORY, count = 0;
  for (size_t i = 0; i < n && !status; i++) status = cni_pattern_read(&patterns[i], &rows[i]);
  if (!status) status = cni_types_fill(&g->types, g);
  for (int i = 0, now = 1; i < MOST_SWEEPS && now > 0 && !status; i++) {
    now = sweep(g, rows, patterns, n);
    if (now < 0) status = now;
    else count += now;
  }
  cni_free(patterns, (n + 1) * sizeof *patterns);
  if (!status) status = cni_pass_dead(g);
  return status < 0 ? status : count;
}

/* ---- what conditions ask ---- */

static int find_name(const cn_match *m, const char *name, bool capture)
{
  for (int i = 0; i < m->p->nnames; i++)
    if (m->p->captures[i] == capture && !strcmp(m->p->name[i], name)) return i;
  return -1;
}

const cn_graph *cn_match_graph(const cn_match *m) { return m->g; }

int cn_match_value(const cn_match *m, const char *name)
{
  if (!*name) return m->root;
  int i = find_name(m, name, false);
  return i < 0 ? CN_ERR_INDEX : m->value[i];
}

const cn_value *cn_match_attribute(const cn_match *m, const char *name)
{
  int i = find_name(m, *name == '$' ? name + 1 : name, true);
  return i < 0 ? NULL : m->attribute[i];
}
