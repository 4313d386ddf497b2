/* graph.c: a graph's nodes, one after the other, and graphs inside of it.
 *
 * Place in the flow: model.c -> each node that something reads, by a row (row.h), its formula (pointwise.c), as a
 * branch or loop (control.c), or by what it is made of (parts.c). Invariant: no value is read before it is written. */
#include <cairn/cairn.h>
#include <cairn/ext/onnx.h>
#include <string.h>

#include "walk.h"

enum { DEEPEST = 32 }; /* of parts in parts, and of branches and loops */

/* ---- which way an op goes ---- */

static bool is_formula(const cn_op *op)
{
  cn_op_info info;
  return op->pointwise || (!cn_op_describe(&info, op) && !strcmp(info.name, "pointwise"));
}

static bool can_take_apart(const cn_op *op) { return op->flags & CN_OP_COMPOSITE || op->decompose; }

static const char *known_problem(const char *name)
{
  static const struct {
    const char *op, *why;
  } known[] = {
#define PROBLEM(op, why) {#op, why},
#include "problems.def"
#undef PROBLEM
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (!strcmp(name, known[i].op)) return known[i].why;
  return NULL;
}

static const char *problem_of(const cn_op *op, int opset)
{
  cn_op_info info;
  if (!op || cn_op_describe(&info, op)) return NULL;
  if (op->flags & CN_OP_EFFECTS) return "it calls a function of the host";
  if (cni_ox_row(info.name, opset, NULL)) return NULL;
  const char *why = known_problem(info.name);
  if (why || is_formula(op) || can_take_apart(op)) return why;
  return "ONNX has no operator for it, nor is it made of ops that have";
}

const char *cn_onnx_problem(const cn_op *op) { return problem_of(op, CN_ONNX_OPSET_MOST); }

const char *cn_onnx_way(const cn_op *op)
{
  cn_op_info info;
  if (!op || cn_op_describe(&info, op) || cn_onnx_problem(op)) return "no";
  return cni_ox_row(info.name, CN_ONNX_OPSET_MOST, NULL) ? "row" : is_formula(op) ? "formula" : "parts";
}

/* ---- values ---- */

cni_oxval cni_oxwalk_type(const cni_oxwalk *w, int value)
{
  cn_value_info v = {sizeof v};
  cni_oxval x = {.id = -1};
  if (cn_graph_value_at(&v, w->g, value)) {
    w->x->failed = true;
    return x;
  }
  x.dtype = v.dtype, x.ndim = v.ndim;
  memcpy(x.shape, v.shape, sizeof x.shape);
  for (int k = 0; k < v.ndim && w->shapes; k++)
    for (int p = 1; p < CNI_OX_PROBES; p++)
      if (cni_oxwalk_dim(w, p, value)[k] != cni_oxwalk_dim(w, 0, value)[k]) x.open |= 1u << k;
  return x;
}

/* A tensor in host memory, row-major: an initialiser. */
static cni_oxval constant(cni_ox *x, cn_tensor *t, const char *name)
{
  cni_oxval v = cni_ox_absent();
  cn_scope *scope = cn_scope_begin();
  cn_tensor *rows = cn_contiguous(cn_to_device(t, CN_CPU));
  const cn_desc *d = rows ? cn_desc_of(rows) : NULL;
  if (!d) x->failed = true;
  else if (!name && d->numel <= CN_MAX_DIMS) v = cni_ox_data(x, cn_data(rows), d->dtype, d->ndim, d->shape);
  else v = cni_ox_tensor(x, rows, name);
  cn_scope_end(scope);
  return v;
}

static cni_oxval size_number(cni_oxwalk *w, const cn_value_info *v, int expr)
{
  cni_oxcall c = {.x = w->x, .graph = w->g, .walk = w};
  cni_oxval one = cni_ox_cast(w->x, cni_ox_size_of(&c, expr), v->dtype);
  return one.number || one.id < 0 || !one.ndim ? one : cni_ox_squeeze(w->x, one, 0);
}

/* A state's name, unless an input has it. */
static const char *own_name(cni_ox *x, const char *name)
{
  cn_text t = {0};
  cn_text_put(&t, name);
  while (!t.failed && cni_ox_is_taken(x, t.s)) cn_text_put(&t, "_");
  if (t.failed) x->failed = true;
  const char *own = t.failed ? "" : cni_ox_word(x, t.s, t.n);
  cn_text_free(&t);
  return own;
}

/* What no node makes is written where it is read first. */
static cni_oxval source(cni_oxwalk *w, const cn_value_info *v, int value)
{
  char room[64];
  int expr = cn_graph_number_expr(w->g, value);
  if (expr) return size_number(w, v, expr);
  if (v->kind == CN_VALUE_SCALAR) {
    cni_oxval x = v->dtype == CN_F64 ? cni_ox_num(v->number) : cni_ox_whole(v->integer);
    x.dtype = v->dtype;
    return v->weak ? x : cni_ox_const(w->x, x, v->dtype);
  }
  if (!v->tensor) {
    cni_ox_fail(w->x, CN_ERR_VALUE, "state %d is not bound, and cannot be a constant", (int)v->index);
    return cni_ox_absent();
  }
  const char *name = v->kind == CN_VALUE_STATE ? cn_graph_state_name(w->g, (size_t)v->index) : NULL;
  if (v->kind == CN_VALUE_STATE && !name && !w->x->depth)
    name = cn_graph_state_key(w->g, (size_t)v->index, room, sizeof room);
  return constant(w->x, v->tensor, name ? own_name(w->x, name) : NULL);
}

cni_oxval cni_oxwalk_get(cni_oxwalk *w, int value)
{
  cn_value_info v = {sizeof v};
  if (value < 0 || w->x->failed) return cni_ox_absent();
  if (!cni_ox_there(&w->vals[value])) {
    if (cn_graph_value_at(&v, w->g, value)) w->x->failed = true;
    else if (v.kind == CN_VALUE_RESULT) cni_ox_fail(w->x, CN_ERR_INTERNAL, "a value is read before it is made");
    else w->vals[value] = source(w, &v, value);
  }
  return w->vals[value];
}

/* ---- nodes ---- */

static void write_node(cni_oxcall *c, const cn_graph_node *n)
{
  const char *why = NULL;
  if (cni_ox_control(c, n)) return;
  if (cn_op_describe(&(cn_op_info){0}, c->op) == CN_OK && (why = problem_of(c->op, c->x->opset))) {
    if (cni_ox_row(c->name, CN_ONNX_OPSET_MOST, NULL)) why = "ONNX has an operator for it in later opsets";
    cni_ox_fail(c->x, CN_ERR_UNSUPPORTED, "%s: %s", c->name, why);
    return;
  }
  for (const cni_oxrow *row = NULL; (row = cni_ox_row(c->name, c->x->opset, row));) {
    c->text = row->text;
    if (row->build(c) || c->x->failed) return;
  }
  if (is_formula(c->op)) cni_ox_pointwise(c);
  else if (can_take_apart(c->op)) cni_ox_parts(c);
  else cni_ox_fail(c->x, CN_ERR_UNSUPPORTED, "%s: no operator of opset %d computes this call", c->name, c->x->opset);
}

static bool is_live(const cni_oxwalk *w, const cn_graph_node *n)
{
  for (int k = 0; k < n->nout; k++)
    if (w->read[n->out[k]]) return true;
  return false;
}

bool cni_ox_reads(const cni_oxcall *c, int value) { return value >= 0 && c->walk->read[value]; }

static void enter_node(cni_oxwalk *w, int i)
{
  cn_graph_node n = {sizeof n};
  if (cn_graph_node_at(&n, w->g, i)) w->x->failed = true;
  if (w->x->failed || !is_live(w, &n)) return;
  size_t bytes = (size_t)(n.nin + n.nout + 1) * sizeof(cni_oxval);
  cni_oxval *in = cn_alloc_zero(bytes), *out = in ? in + n.nin : NULL;
  if (!in) w->x->failed = true;
  for (int k = 0; k < n.nin && !w->x->failed; k++) in[k] = cni_oxwalk_get(w, n.in[k]);
  for (int k = 0; k < n.nout && !w->x->failed; k++) out[k] = cni_oxwalk_type(w, n.out[k]);
  cni_oxcall c = {.x = w->x,
                  .op = n.op,
                  .name = n.name,
                  .args = n.args,
                  .in = in,
                  .out = out,
                  .nargs = n.nargs,
                  .nin = n.nin,
                  .nout = n.nout,
                  .graph = w->g,
                  .node = i,
                  .walk = w};
  const char *hint = w->x->hint;
  if (!w->x->depth) w->x->hint = cni_ox_word(w->x, n.name, strlen(n.name));
  if (!w->x->failed) write_node(&c, &n);
  w->x->hint = hint;
  for (int k = 0; k < n.nout && !w->x->failed; k++) {
    if (w->read[n.out[k]] && out[k].id < 0)
      cni_ox_fail(w->x, CN_ERR_INTERNAL, "%s: its result %d was not written", n.name, k);
    w->vals[n.out[k]] = out[k];
  }
  if (in) cn_free(in, bytes);
}

static void mark_read(cni_oxwalk *w)
{
  cn_graph_node n = {sizeof n};
  for (int i = (int)cn_graph_nodes(w->g) - 1; i >= 0; i--) {
    if (cn_graph_node_at(&n, w->g, i)) return;
    for (int k = 0; k < n.nout; k++) /* a size that it defines may be all that is read */
      if (cn_graph_dim_expr(w->g, n.out[k], 0)) w->read[n.out[k]] = true;
    if (!is_live(w, &n)) continue;
    for (int k = 0; k < n.nin; k++)
      if (n.in[k] >= 0) w->read[n.in[k]] = true;
  }
}

void cni_oxwalk_mark(cni_oxwalk *w, int value)
{
  if (value >= 0) w->read[value] = true;
}

void cni_oxwalk_nodes(cni_oxwalk *w)
{
  mark_read(w);
  for (int i = 0; i < (int)cn_graph_nodes(w->g) && !w->x->failed; i++) enter_node(w, i);
}

int cni_oxwalk_begin(cni_oxwalk *w, cni_ox *x, const cn_graph *g)
{
  *w = (cni_oxwalk){.x = x, .g = g, .nvals = cn_graph_values(g)};
  w->vals = cn_alloc_zero((w->nvals + 1) * (sizeof *w->vals + 1));
  if (!w->vals) {
    x->failed = true;
    return CN_ERR_MEMORY;
  }
  w->read = (bool *)(w->vals + w->nvals + 1);
  for (size_t i = 0; i < w->nvals; i++) w->vals[i].id = -1;
  if (cn_graph_sizes(g) && cni_oxwalk_probe(w)) x->failed = true;
  return x->failed ? cn_err() : CN_OK;
}

void cni_oxwalk_end(cni_oxwalk *w)
{
  size_t nsizes = cn_graph_sizes(w->g);
  if (w->vals) cn_free(w->vals, (w->nvals + 1) * (sizeof *w->vals + 1));
  if (w->shapes) cn_free(w->shapes, CNI_OX_PROBES * (w->nvals + 1) * CN_MAX_DIMS * sizeof *w->shapes);
  if (w->sizes) cn_free(w->sizes, CNI_OX_PROBES * (nsizes + 1) * sizeof *w->sizes);
}

/* A graph that knows no open sizes cannot be given values that have some. */
static bool sizes_fit(const cni_oxwalk *w, const cni_oxval *inputs)
{
  for (size_t i = 0; i < cn_graph_inputs(w->g); i++) {
    uint32_t open = cni_oxwalk_type(w, cn_graph_input(w->g, i)).open;
    if (inputs[i].id >= 0 && inputs[i].open & ~open) return false;
  }
  return true;
}

void cni_ox_write_graph(cni_ox *x, const cn_graph *g, const cni_oxval *inputs, cni_oxval *outputs)
{
  cni_oxwalk w;
  if (x->failed) return;
  if (++x->depth > DEEPEST)
    return (void)cni_ox_fail(x, CN_ERR_UNSUPPORTED, "%s: parts in parts, more than %d deep", x->hint, DEEPEST);
  if (cni_oxwalk_begin(&w, x, g)) return cni_oxwalk_end(&w);
  if (!sizes_fit(&w, inputs))
    cni_ox_fail(x, CN_ERR_UNSUPPORTED,
                "%s: a branch or loop, or what an op is made of, has fixed sizes where the graph's are open",
                x->hint);
  for (size_t i = 0; i < cn_graph_inputs(g); i++) w.vals[cn_graph_input(g, i)] = inputs[i];
  for (size_t i = 0; i < cn_graph_outputs(g); i++) cni_oxwalk_mark(&w, cn_graph_output(g, i));
  cni_oxwalk_nodes(&w);
  for (size_t i = 0; i < cn_graph_outputs(g) && !x->failed; i++) {
    cni_oxval v = cni_oxwalk_get(&w, cn_graph_output(g, i));
    outputs[i] = cni_ox_solid(x, v, v.dtype);
  }
  cni_oxwalk_end(&w);
  x->depth--;
}
