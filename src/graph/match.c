/* match.c: does a part of a graph look like a pattern? What its names stand for then, and what conditions ask.
 *
 * Place in the flow: rewrite.c asks for each node and row. Terms are tried in their order; where a choice fits (one of
 * several, an order of operands, a call that may be missing), it stays. Invariant: nothing of the graph is changed, and
 * what a choice had bound is forgotten when it does not fit. */
#include <math.h>
#include <string.h>

#include "base/convert.h"
#include "ops/api.gen.h"
#include "rewrite.h"
#include "tensor/tensor.h"

/* ---- comparing ---- */

static bool is_number(const cn_value *v) { return v->tag == CN_V_INT || v->tag == CN_V_BOOL || v->tag == CN_V_FLOAT; }

static double as_number(const cn_value *v) { return v->tag == CN_V_FLOAT ? v->u.f : (double)v->u.i; }

/* To the bit: -0.0 is not 0, and a NaN is itself. */
static bool same_number(double a, double b) { return !memcmp(&a, &b, sizeof a); }

/* One is the other as a float32, or after a division or root that was taken in float32. */
static bool near_number(double a, double b) { return fabs(a - b) <= 2e-7 * fabs(b); }

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

bool cni_value_number(double *number, const cn_graph *g, int value)
{
  if (!cni_is_value(g, value)) return false;
  const cni_gvalue *v = &g->values[value];
  if (v->kind == CNI_VALUE_SCALAR && !v->expr) *number = v->dtype == CN_F64 ? v->number : (double)v->integer;
  else if (v->kind == CNI_VALUE_CONST && v->tensor->d.numel == 1 && v->device == CN_CPU)
    *number = cni_load_f64(v->tensor->d.data, 0, v->dtype);
  else return false;
  return true;
}

static bool is_literal(const cn_graph *g, int value, const cni_term *t)
{
  double number;
  if (t->literal.tag == CN_V_NONE || value < 0) return t->literal.tag == CN_V_NONE && value < 0;
  if (!cni_value_number(&number, g, value)) return false;
  return t->near ? near_number(number, as_number(&t->literal)) : same_number(number, as_number(&t->literal));
}

/* ---- matching ---- */

static bool match_value(cn_match *m, int term, int value);

static bool match_attribute(cn_match *m, int term, const cni_opinfo *op, int i, const cn_value *v)
{
  const cni_param *p = &op->params[i];
  const cni_term *t = term < 0 ? NULL : &m->p->term[term];
  const cn_value **bound = t ? &m->bound.attribute[t->name < 0 ? 0 : t->name] : NULL;
  cni_few room;
  if (t && t->kind == CNI_TERM_ANY) return true;
  if (t && t->kind == CNI_TERM_LITERAL) return cni_same_value(&t->literal, v);
  if (t && t->kind == CNI_TERM_NUMBER) return false; /* they are values */
  if (t) { /* CAPTURE */
    if (*bound) return cni_same_value(*bound, v);
    *bound = v;
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

static bool match_arguments(cn_match *m, const cni_term *t, const cni_gnode *n, const int *in)
{
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

/* Is op(x, y) the same as op(y, x)? */
static bool commutes(const cni_gnode *n)
{
  switch (n->info->id) {
  case CNI_OP_add: return as_number(&n->args[2]) == 1; /* alpha */
  case CNI_OP_mul:
  case CNI_OP_maximum:
  case CNI_OP_minimum:
  case CNI_OP_eq:
  case CNI_OP_ne:
  case CNI_OP_logical_and:
  case CNI_OP_logical_or: return true;
  default: return false;
  }
}

static bool match_call(cn_match *m, const cni_term *t, int value)
{
  const cn_graph *g = m->g;
  if (value < 0 || g->values[value].kind != CNI_VALUE_RESULT || g->values[value].index) return false;
  const int node = g->values[value].node;
  const cni_gnode *n = &g->nodes[node];
  if (n->info != t->op || n->draw >= 0 || n->syms.n || m->bound.nnodes == CNI_MOST_TERMS) return false;
  const cni_bound before = m->bound;
  bool good = match_arguments(m, t, n, n->in);
  if (!good) m->bound = before;
  if (!good && n->nin == 2 && n->in[0] != n->in[1] && commutes(n))
    good = match_arguments(m, t, n, (const int[]){n->in[1], n->in[0]});
  if (good) m->bound.node[m->bound.nnodes++] = node;
  else m->bound = before;
  return good;
}

static bool match_either(cn_match *m, const cni_term *t, int value)
{
  const cni_bound before = m->bound;
  for (int i = t->inside; i >= 0; i = m->p->term[i].next) {
    if (match_value(m, i, value)) return true;
    m->bound = before;
  }
  return false;
}

static bool match_name(cn_match *m, const cni_term *t, int value)
{
  int *bound = &m->bound.value[t->name];
  if (*bound == -2 && t->inside >= 0 && !match_value(m, t->inside, value)) return false;
  if (*bound == -2) *bound = value;
  return value >= 0 && *bound == value;
}

static bool match_value(cn_match *m, int term, int value)
{
  const cni_term *t = &m->p->term[term];
  double number;
  switch (t->kind) {
  case CNI_TERM_ANY: return true;
  case CNI_TERM_LITERAL: return is_literal(m->g, value, t);
  case CNI_TERM_CALL: return match_call(m, t, value) || (t->maybe && match_value(m, t->inside, value));
  case CNI_TERM_EITHER: return match_either(m, t, value);
  case CNI_TERM_NUMBER: return cni_value_number(&number, m->g, value) && match_name(m, t, value);
  case CNI_TERM_NAME: return match_name(m, t, value);
  default: return false;
  }
}

bool cni_match(cn_match *m, const cni_pattern *p, cn_graph *g, int value)
{
  m->p = p;
  m->g = g;
  m->root = value;
  m->nints = 0;
  m->bound.nnodes = 0;
  for (int i = 0; i < p->nnames; i++) m->bound.value[i] = -2, m->bound.attribute[i] = NULL;
  return match_value(m, p->pattern, value);
}

bool cni_match_is_whole(const cn_match *m)
{
  const cni_bound *b = &m->bound;
  for (int i = 0; i < b->nnodes - 1; i++) {
    const cni_gnode *n = &m->g->nodes[b->node[i]];
    for (int k = 0; k < n->nout; k++) {
      const cn_graph_use *use;
      int users = cn_graph_users(&use, m->g, n->out[k]);
      for (int u = 0; u < users; u++) {
        bool inside = false;
        for (int j = 0; use[u].kind == CN_USE_NODE && j < b->nnodes; j++) inside |= b->node[j] == use[u].index;
        if (!inside) return false;
      }
      if (users < 0) return false;
    }
  }
  return true;
}

/* ---- what conditions ask, and give ---- */

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
  int i = find_name(m, *name == '#' ? name + 1 : name, false);
  return i < 0 || m->bound.value[i] < 0 ? CN_ERR_INDEX : m->bound.value[i];
}

const cn_value *cn_match_attribute(const cn_match *m, const char *name)
{
  int i = find_name(m, *name == '$' ? name + 1 : name, true);
  return i < 0 ? NULL : m->bound.attribute[i];
}

bool cn_match_number(double *number, const cn_match *m, const char *name)
{
  return cni_value_number(number, m->g, cn_match_value(m, name));
}

bool cn_match_give(const cn_match *match, const char *name, cn_value value)
{
  cn_match *m = (cn_match *)match; /* the rewriter's own; conditions may add to it, and change nothing */
  int i = find_name(m, *name == '$' ? name + 1 : name, true);
  if (i < 0 || !m->p->given[i]) return false;
  if (value.tag == CN_V_INTS) {
    int64_t *room = m->ints + m->nints;
    if (value.n > CNI_MOST_INTS - m->nints) return false;
    memcpy(room, value.u.is, (size_t)value.n * sizeof *room);
    m->nints += value.n;
    value.u.is = room;
  } else if (!is_number(&value) && value.tag != CN_V_NONE) return false;
  m->given[i] = value;
  m->bound.attribute[i] = &m->given[i];
  return true;
}
