/* rewrite.c: the rewriter: looks at each node for a row whose pattern ends in it (match.c), and builds the replacement
 * before it.
 *
 * Place in the flow: passes apply cairn's rows and those of plugins; exporters and
 * devices bring their own.
 * Invariant: a value is replaced by one of its type, shape and memory order only; values that others read stay. */
#include "rewrite.h"

#include "base/alloc.h"
#include "base/dtype.h"
#include "base/log.h"
#include "passes/fuse.h"
#include "passes/passes.h"
#include "tensor/tensor.h"

enum { MOST_SWEEPS = 16 };

/* ---- building ---- */

static int build(const cn_match *m, int term);

/* The argument of an attribute in a replacement; none, where its name stands for nothing. */
static cn_value attribute(const cn_match *m, const cni_term *t)
{
  if (t->kind == CNI_TERM_LITERAL) return t->literal;
  if (t->kind == CNI_TERM_CAPTURE) {
    const cn_value *v = m->bound.attribute[t->name];
    return v ? *v : cn_v_none();
  }
  double number;
  int value = m->bound.value[t->name];
  if (!cni_value_number(&number, m->g, value)) return cn_v_none();
  return cni_dtype_is_float(m->g->values[value].dtype) ? cn_v_float(number) : cn_v_int((int64_t)number);
}

/* Appends the value of a term, or of each of a list. */
static int build_inputs(const cn_match *m, int term, int *in, int n, int most)
{
  bool list = m->p->term[term].kind == CNI_TERM_LIST;
  int t = list ? m->p->term[term].inside : term;
  while (t >= 0) {
    if (n == most) return cni_fail(CN_ERR_UNSUPPORTED, "rewrite: too many tensors in a call");
    const cni_term *one = &m->p->term[t];
    bool none = one->kind == CNI_TERM_LITERAL && one->literal.tag == CN_V_NONE;
    none |= one->kind == CNI_TERM_NAME && m->bound.value[one->name] < 0;
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
  int in[CNI_MOST_TERMS], n = 0, nargs = 0, out[CNI_MAX_RESULTS];
  size_t nout = CNI_MAX_RESULTS;
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
  int node = cn_graph_add_node(out, &nout, m->g, t->op->row, args, (size_t)nargs, in, (size_t)n);
  return node < 0 ? node : out[0];
}

static int build(const cn_match *m, int term)
{
  const cni_term *t = &m->p->term[term];
  if (t->kind == CNI_TERM_NAME || t->kind == CNI_TERM_NUMBER) return m->bound.value[t->name];
  return t->kind == CNI_TERM_CALL ? build_call(m, t) : cn_graph_add_number(m->g, t->literal);
}

/* ---- applying ---- */

/* Has the device a kernel for what takes the pattern's place? Formulas become part of programs, composite ops are what
 * they are made of. */
static bool is_fast(const cni_pattern *p, cn_device device)
{
  const cni_opinfo *op = p->term[p->replacement].op;
  return !op || op->row->pointwise || cni_is_composite(op->row) || cni_has_kernels(op, device);
}

/* Does the pattern fit what this value is made of, at any size it may have? */
static bool matches(cn_match *m, const cn_rewrite *row, const cni_pattern *p, cn_graph *g, int value, bool whole)
{
  return (row->any_sizes || !g->types.v[value].varies) && cni_match(m, p, g, value) &&
         (!whole || (cni_match_is_whole(m) && is_fast(p, g->values[value].device))) && (!row->when || row->when(m));
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

static int sweep(cn_graph *g, const cn_rewrite *rows, const cni_pattern *patterns, size_t n, bool whole)
{
  int count = 0;
  for (size_t i = 0; i < g->nnodes; i++) {
    int value = g->nodes[i].out[0], users = cn_graph_users(NULL, g, value);
    if (users < 0) return users;
    for (size_t k = 0; users > 0 && k < n; k++) {
      cn_match m;
      if (!matches(&m, &rows[k], &patterns[k], g, value, whole)) continue;
      int done = apply(&m, &rows[k]);
      if (done < 0) return done;
      i = (size_t)g->values[value].node; /* nodes were put before it */
      count += done;
      if (done) break;
    }
  }
  return count;
}

int cni_graph_rewrite(cn_graph *g, const cn_rewrite *rows, size_t n, bool whole)
{
  if (cn_err()) return cn_err();
  if (!g || (n && !rows)) return cni_fail(CN_ERR_TYPE, "graph_rewrite: the graph or the rows are NULL");
  cni_pattern *patterns = cni_alloc((n + 1) * sizeof *patterns);
  int status = patterns ? CN_OK : CN_ERR_MEMORY, count = 0;
  for (size_t i = 0; i < n && !status; i++) status = cni_pattern_read(&patterns[i], &rows[i]);
  if (!status) status = cni_types_fill(&g->types, g);
  for (int i = 0, now = 1; i < MOST_SWEEPS && now && !status; i++) {
    now = sweep(g, rows, patterns, n, whole);
    if (now < 0) status = now;
    else count += now;
    if (!status && (status = cni_pass_dead(g)) > 0) status = CN_OK; /* what was replaced reads nothing any more */
    if (!status && now) status = cni_types_fill(&g->types, g);
  }
  cni_free(patterns, (n + 1) * sizeof *patterns);
  return status < 0 ? status : count;
}

int cn_graph_rewrite(cn_graph *g, const cn_rewrite *rows, size_t n) { return cni_graph_rewrite(g, rows, n, false); }
