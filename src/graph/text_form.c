/* text_form.c: a graph as text, one line a value or node, which parse.c reads back:
 *
 *     size B = 32 in 1..1048576                              a size that may vary, as traced, and where the graph holds
 *     %0 = input float32 [$B, 64]
 *     %1 = state float32 [10, 64] 'fc.weight'
 *     %2 = scalar float64 weak 0.5
 *     %9 = const int64 [3] <1, 2, 3>                                      data that belongs to the graph
 *     %3 = linear(%0, %1, none) : float32 [32, 10]
 *     %4, %5 = max_dim(%3, 1, false) : float32 [32], int64 [32]
 *     %7 = slice(%0, 0, 0, $((B + 1) // 2), 1) : float32 [16, 64]                      a number that follows from sizes
 *     %8 = nonzero(%0) : int64 [$u0, 2]                                   a size that is known when the node has run
 *     draw $(B * 10)                                                      the next draw takes so many random numbers
 *     %6 = dropout_mask(%3, 0.5) : float32 [32, 10] draw 0 in 1
 *     scope 0 'head' 'Sequential'                                         a part of the program; node 6 is
 *     scope 1 in 0 = dropout(%3, 0.5, true) : %7                           inside of this call in it
 *     %10 = cond(%8, {%3}) : float32 [32, 10] {                           a node that holds graphs: each in braces,
 *       %0 = input float32 [32, 10]                                       with values of its own
 *       output %0
 *     } {
 *       %0 = input float32 [32, 10]
 *       %1 = neg(%0) : float32 [32, 10]
 *       output %1
 *     }
 *     output %3
 *     update 0 %9                                  what state 0 holds after a run,
 *     write 1 %9                                   and what input 1 does
 *     gradient 0 from absent to %8                 of state 0; from given, any; to same, none
 *
 * Invariant: printing what was parsed gives the same text. */
#include <cairn/device.h>
#include <cairn/ext/system.h>
#include <cairn/ops.h>
#include <inttypes.h>

#include "base/alloc.h"
#include "base/convert.h"
#include "base/dtype.h"
#include "control.h"
#include "segments.h"

#define put cn_text_putf
enum { DEVICE_TEXT = 64 };

static void put_number(cn_text *t, double v)
{
  char number[CN_NUMBER_TEXT];
  cn_text_put(t, cn_number_write(number, v, true));
}

/* ---- expressions ---- */

/* How tight an operator holds; what holds less tight stands in parentheses. */
static int tightness(const cni_expr *e)
{
  if (e->op == CNI_EXPR_ADD || e->op == CNI_EXPR_SUB) return 1;
  return e->op == CNI_EXPR_MUL || e->op == CNI_EXPR_DIV || e->op == CNI_EXPR_RATIO ? 2 : 3;
}

static void put_expr(cn_text *t, const cn_graph *g, int expr, int least)
{
  static const char *const words[] = {[CNI_EXPR_ADD] = " + ", [CNI_EXPR_SUB] = " - ", [CNI_EXPR_MUL] = " * ",
                                      [CNI_EXPR_DIV] = " // ", [CNI_EXPR_MIN] = "min", [CNI_EXPR_MAX] = "max",
                                      [CNI_EXPR_RATIO] = " / "};
  const cni_expr *e = &g->exprs.v[expr];
  int own = tightness(e);
  bool call = e->op == CNI_EXPR_MIN || e->op == CNI_EXPR_MAX;
  if (e->op == CNI_EXPR_CONST) put(t, "%" PRId64, e->value);
  else if (e->op == CNI_EXPR_SIZE) put(t, "%s", g->sizes[e->value].name);
  else {
    put(t, "%s%s", call ? words[e->op] : "", call || own < least ? "(" : "");
    put_expr(t, g, e->a, call ? 0 : own);
    put(t, "%s", call ? ", " : words[e->op]);
    put_expr(t, g, e->b, call ? 0 : own + 1); /* operators group to the left */
    put(t, "%s", call || own < least ? ")" : "");
  }
}

/* "$B", or "$(B + 1)". */
static void put_sized(cn_text *t, const cn_graph *g, int expr)
{
  bool size = g->exprs.v[expr].op == CNI_EXPR_SIZE;
  put(t, size ? "$" : "$(");
  put_expr(t, g, expr, 0);
  put(t, size ? "" : ")");
}

static void put_integer(cn_text *t, const cn_graph *g, int expr, int64_t v)
{
  if (expr) put_sized(t, g, expr);
  else put(t, "%" PRId64, v);
}

static void put_real(cn_text *t, const cn_graph *g, int expr, double v)
{
  if (expr) put_sized(t, g, expr);
  else put_number(t, v);
}

/* ---- values and nodes ---- */

static void put_type(cn_text *t, const cn_graph *g, const cni_gvalue *v)
{
  put(t, "%s [", cn_dtype_name((cn_dtype)v->dtype));
  for (int i = 0; i < v->ndim; i++) {
    put(t, i ? ", " : "");
    put_integer(t, g, v->dims[i], v->shape[i]);
  }
  put(t, "]");
  if (v->device == CN_CPU) return;
  char name[DEVICE_TEXT];
  put(t, " on %s", cn_device_name(name, sizeof name, v->device));
}

static void put_strides(cn_text *t, const cni_gvalue *v)
{
  put(t, " strides [");
  for (int i = 0; i < v->ndim; i++) put(t, "%s%" PRId64, i ? ", " : "", v->strides[i]);
  put(t, "]");
}

static void put_string(cn_text *t, const char *s)
{
  put(t, "'");
  for (; *s; s++) put(t, *s == '\'' || *s == '\\' ? "\\%c" : "%c", *s);
  put(t, "'");
}

static void put_value_ref(cn_text *t, int value)
{
  if (value < 0) put(t, "none");
  else put(t, "%%%d", value);
}

/* The argument that is being written. */
typedef struct written {
  const cn_graph *g;
  const cni_gsyms *syms;
  int arg;
} written;

static int sym_of(const written *w, int element)
{
  for (size_t i = 0; i < w->syms->n; i++)
    if (w->syms->v[i].arg == w->arg && w->syms->v[i].element == element) return w->syms->v[i].expr;
  return 0;
}

/* Types and devices by name: their numbers are this library's alone. */
static void put_int_arg(cn_text *t, const written *w, const cni_param *p, int64_t v)
{
  char name[DEVICE_TEXT];
  if (p->type == CNI_T_DTYPE && cni_dtype_valid(v)) put(t, "%s", cn_dtype_name((cn_dtype)v));
  else if (p->type == CNI_T_DEVICE && v) put_string(t, cn_device_name(name, sizeof name, (cn_device)v));
  else put_integer(t, w->g, sym_of(w, 0), v);
}

static void put_arg(cn_text *t, const written *w, const cni_param *p, const cn_value *v, const int **in)
{
  if (p->type == CNI_T_TENSOR && !p->list) {
    put_value_ref(t, *(*in)++);
    return;
  }
  switch (v->tag) {
  case CN_V_INT: put_int_arg(t, w, p, v->u.i); break;
  case CN_V_BOOL: put(t, v->u.i ? "true" : "false"); break;
  case CN_V_FLOAT: put_real(t, w->g, sym_of(w, 0), v->u.f); break;
  case CN_V_STR: put_string(t, v->u.s); break;
  case CN_V_INTS:
    put(t, "[");
    for (int i = 0; i < v->n; i++) {
      if (i) put(t, ", ");
      put_integer(t, w->g, sym_of(w, i), v->u.is[i]);
    }
    put(t, "]");
    break;
  case CN_V_FLOATS:
    put(t, "<");
    for (int i = 0; i < v->n; i++) {
      if (i) put(t, ", ");
      put_real(t, w->g, sym_of(w, i), v->u.fs[i]);
    }
    put(t, ">");
    break;
  case CN_V_TENSORS:
    put(t, "{");
    for (int i = 0; i < v->n; i++) {
      if (i) put(t, ", ");
      put_value_ref(t, *(*in)++);
    }
    put(t, "}");
    break;
  default: put(t, "none");
  }
}

static void put_args(cn_text *t, const cn_graph *g, const cni_opinfo *info, const cn_value *args,
                     const cni_gsyms *syms, const int **in)
{
  for (int i = 0; i < info->nparams; i++) {
    written w = {g, syms, i};
    if (i) put(t, ", ");
    put_arg(t, &w, &info->params[i], &args[i], in);
  }
}

/* "name(", or "name@2(" of an op that has had another meaning before. */
static void put_name(cn_text *t, const cni_opinfo *info)
{
  uint32_t version = cni_op_version(info);
  put(t, "%s", info->name);
  if (version > 1) put(t, "@%u", version);
  put(t, "(");
}

static void put_graph(cn_text *t, const cn_graph *g, int depth);

static void indent(cn_text *t, int depth)
{
  for (int i = 0; i < depth; i++) put(t, "  ");
}

static void put_node(cn_text *t, const cn_graph *g, const cni_gnode *n, int depth)
{
  const int *in = n->in;
  indent(t, depth);
  for (int k = 0; k < n->nout; k++) put(t, "%s%%%d", k ? ", " : "", n->out[k]);
  put(t, " = ");
  put_name(t, n->info);
  put_args(t, g, n->info, n->args, &n->syms, &in);
  put(t, ") : ");
  for (int k = 0; k < n->nout; k++) {
    if (k) put(t, ", ");
    put_type(t, g, &g->values[n->out[k]]);
  }
  if (n->draw >= 0) put(t, " draw %d", n->draw);
  if (n->scope >= 0) put(t, " in %d", n->scope);
  if (n->host) put(t, " calls ");
  if (n->host) put_string(t, n->host->name);
  for (int k = 0; k < n->nsubs; k++) {
    put(t, " {\n");
    put_graph(t, n->subs[k], depth + 1);
    indent(t, depth);
    put(t, "}");
  }
  put(t, "\n");
}

static void put_scope(cn_text *t, const cn_graph *g, size_t i)
{
  const cni_gscope *s = &g->scopes[i];
  const int *in = s->in;
  put(t, "scope %zu", i);
  if (s->parent >= 0) put(t, " in %d", s->parent);
  if (!s->op) {
    put(t, " ");
    put_string(t, s->name);
    put(t, " ");
    put_string(t, s->kind);
  } else {
    put(t, " = ");
    put_name(t, s->op);
    put_args(t, g, s->op, s->args, &s->syms, &in);
    put(t, ") :");
    for (int k = 0; k < s->nout; k++) {
      put(t, k ? ", " : " ");
      put_value_ref(t, s->out[k]);
    }
  }
  put(t, "\n");
}

static void put_leaf(cn_text *t, const cni_gleaf *l)
{
  static const char *const before[] = {"absent", "given", "any"};
  if (l->state < 0) return; /* of a tensor that is not the graph's: nobody else can have it */
  put(t, "gradient %d from %s to ", l->state, before[l->before]);
  if (l->after == CNI_GRAD_VALUE) put(t, "%%%d\n", l->value);
  else put(t, l->after == CNI_GRAD_KEPT ? "same\n" : "none\n");
}

static void put_scalar(cn_text *t, const cn_graph *g, size_t id, const cni_gvalue *v)
{
  put(t, "%%%zu = scalar %s%s ", id, cn_dtype_name((cn_dtype)v->dtype), v->weak ? " weak" : "");
  if (v->dtype == CN_F64) put_real(t, g, v->expr, v->number);
  else put_integer(t, g, v->expr, v->integer);
  put(t, "\n");
}

static void put_const(cn_text *t, const cn_graph *g, size_t id, const cni_gvalue *v)
{
  const void *data = cn_data_const(cn_to_device(v->tensor, CN_CPU));
  if (!data) t->failed = t->failed || cn_numel(v->tensor) > 0;
  put(t, "%%%zu = const ", id);
  put_type(t, g, v);
  put(t, " <");
  for (int64_t i = 0; data && i < cn_numel(v->tensor); i++) {
    if (i) put(t, ", ");
    if (cni_dtype_is_float(v->dtype)) put_number(t, cni_load_f64(data, i, v->dtype));
    else put(t, "%" PRId64, cni_load_i64(data, i, v->dtype));
  }
  put(t, ">\n");
}

static void put_source(cn_text *t, const cn_graph *g, size_t i)
{
  const cni_gvalue *v = &g->values[i];
  put(t, "%%%zu = %s ", i, v->kind == CNI_VALUE_INPUT ? "input" : "state");
  put_type(t, g, v);
  if (v->has_strides) put_strides(t, v);
  if (v->kind == CNI_VALUE_INPUT && v->weak) put(t, " weak");
  const char *name = v->kind == CNI_VALUE_STATE ? g->states[v->index].name : NULL;
  if (name) put(t, " ");
  if (name) put_string(t, name);
  if (v->kind == CNI_VALUE_STATE && g->states[v->index].trained) put(t, " requires_grad");
  put(t, "\n");
}

static void put_value(cn_text *t, const cn_graph *g, size_t i, int depth)
{
  const cni_gvalue *v = &g->values[i];
  if (v->kind == CNI_VALUE_RESULT) return;
  indent(t, depth);
  if (v->kind == CNI_VALUE_SCALAR) put_scalar(t, g, i, v);
  else if (v->kind == CNI_VALUE_CONST) put_const(t, g, i, v);
  else put_source(t, g, i);
}

/* depth: of a graph that a node holds; sub-graphs have no states, sizes or gradients. */
static void put_graph(cn_text *t, const cn_graph *g, int depth)
{
  for (size_t i = 0; i < g->nvalues; i++) put_value(t, g, i, depth);
  for (size_t i = 0; i < g->ndraws; i++) {
    indent(t, depth);
    put(t, "draw ");
    put_integer(t, g, g->draws[i].expr, g->draws[i].count);
    put(t, "\n");
  }
  for (size_t i = 0; i < g->nnodes; i++) put_node(t, g, &g->nodes[i], depth);
  for (size_t i = 0; i < g->nscopes; i++) {
    indent(t, depth);
    put_scope(t, g, i);
  }
  for (size_t i = 0; i < g->noutputs; i++) {
    indent(t, depth);
    put(t, "output %%%d\n", g->outputs[i]);
  }
}

int cn_graph_format(const cn_graph *g) { return g && cni_has_counts(g) ? CN_GRAPH_FORMAT : 1; }

char *cn_graph_to_string(const cn_graph *g)
{
  cn_text t = {0};
  if (!g || cn_err()) return NULL;
  for (size_t i = 0; i < g->nsizes; i++)
    put(&t, "size %s = %" PRId64 " in %" PRId64 "..%" PRId64 "\n", g->sizes[i].name, g->sizes[i].traced,
        g->sizes[i].min, g->sizes[i].max);
  put_graph(&t, g, 0);
  for (size_t i = 0; i < g->nstates; i++)
    if (g->states[i].final >= 0) put(&t, "update %zu %%%d\n", i, g->states[i].final);
  for (size_t i = 0; i < g->ninputs; i++)
    if (g->input_finals[i] >= 0) put(&t, "write %zu %%%d\n", i, g->input_finals[i]);
  for (size_t i = 0; i < g->nleaves; i++) put_leaf(&t, &g->leaves[i]);
  cn_text_put(&t, ""); /* an empty graph is an empty text */
  char *out = t.failed || !t.s ? NULL : cni_strdup(t.s);
  cn_text_free(&t);
  return out;
}
