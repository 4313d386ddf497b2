/* text_form.c: a graph as text, one line a value or node, which parse.c reads back:
 *
 *     %0 = input float32 [32, 64] free 1
 *     %1 = state float32 [10, 64]
 *     %2 = scalar float64 weak 0.5
 *     %3 = linear(%0, %1, none) : float32 [32, 10]
 *     %4, %5 = max_dim(%3, 1, false) : float32 [32], int64 [32]
 *     sym 3 1 0 = 2 * size(0, 0) * size(-1, 0) / 1 + 0
 *     draw 320                                                            the next draw takes 320 random numbers
 *     %6 = dropout_mask(%3, 0.5) : float32 [32, 10] draw 0 in 1
 *     scope 0 'head' 'Sequential'                                         a part of the program; node 6 is
 *     scope 1 in 0 = dropout(%3, 0.5, true) : %7                           inside of this call in it
 *     output %3
 *     update 0 %9                                  what state 0 holds after a run,
 *     write 1 %9                                   and what input 1 does
 *     gradient 0 from absent to %8                 of state 0; from given, any; to same, none
 *
 * Invariant: printing what was parsed gives the same text. */
#include <cairn/ext/system.h>
#include <inttypes.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "ir.h"

#define put cn_text_putf

static void put_number(cn_text *t, double v)
{
  char number[CN_NUMBER_TEXT];
  cn_text_put(t, cn_number_write(number, v, true));
}

static void put_type(cn_text *t, const cni_gvalue *v)
{
  put(t, "%s [", cn_dtype_name((cn_dtype)v->dtype));
  for (int i = 0; i < v->ndim; i++) put(t, "%s%" PRId64, i ? ", " : "", v->shape[i]);
  put(t, "]");
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

static void put_arg(cn_text *t, const cni_param *p, const cn_value *v, const int **in)
{
  if (p->type == CNI_T_TENSOR && !p->list) {
    put_value_ref(t, *(*in)++);
    return;
  }
  switch (v->tag) {
  case CN_V_INT: put(t, "%" PRId64, v->u.i); break;
  case CN_V_BOOL: put(t, v->u.i ? "true" : "false"); break;
  case CN_V_FLOAT: put_number(t, v->u.f); break;
  case CN_V_STR: put_string(t, v->u.s); break;
  case CN_V_INTS:
    put(t, "[");
    for (int i = 0; i < v->n; i++) put(t, "%s%" PRId64, i ? ", " : "", v->u.is[i]);
    put(t, "]");
    break;
  case CN_V_FLOATS:
    put(t, "<");
    for (int i = 0; i < v->n; i++) {
      if (i) put(t, ", ");
      put_number(t, v->u.fs[i]);
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

static void put_args(cn_text *t, const cni_opinfo *info, const cn_value *args, const int **in)
{
  for (int i = 0; i < info->nparams; i++) {
    if (i) put(t, ", ");
    put_arg(t, &info->params[i], &args[i], in);
  }
}

static void put_node(cn_text *t, const cn_graph *g, const cni_gnode *n)
{
  const int *in = n->in;
  for (int k = 0; k < n->nout; k++) put(t, "%s%%%d", k ? ", " : "", n->out[k]);
  put(t, " = %s(", n->info->name);
  put_args(t, n->info, n->args, &in);
  put(t, ") : ");
  for (int k = 0; k < n->nout; k++) {
    if (k) put(t, ", ");
    put_type(t, &g->values[n->out[k]]);
  }
  if (n->draw >= 0) put(t, " draw %d", n->draw);
  if (n->scope >= 0) put(t, " in %d", n->scope);
  put(t, "\n");
}

static void put_scope(cn_text *t, size_t i, const cni_gscope *s)
{
  const int *in = s->in;
  put(t, "scope %zu", i);
  if (s->parent >= 0) put(t, " in %d", s->parent);
  if (!s->op) {
    put(t, " ");
    put_string(t, s->name);
    put(t, " ");
    put_string(t, s->kind);
  } else {
    put(t, " = %s(", s->op->name);
    put_args(t, s->op, s->args, &in);
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

static void put_scalar(cn_text *t, size_t id, const cni_gvalue *v)
{
  put(t, "%%%zu = scalar %s%s ", id, cn_dtype_name((cn_dtype)v->dtype), v->weak ? " weak" : "");
  if (v->dtype == CN_F64) put_number(t, v->number);
  else put(t, "%" PRId64, v->integer);
  put(t, "\n");
}

char *cn_graph_to_string(const cn_graph *g)
{
  cn_text t = {0};
  if (!g || cn_err()) return NULL;
  for (size_t i = 0; i < g->nvalues; i++) {
    const cni_gvalue *v = &g->values[i];
    if (v->kind == CNI_VALUE_SCALAR) put_scalar(&t, i, v);
    if (v->kind != CNI_VALUE_INPUT && v->kind != CNI_VALUE_STATE) continue;
    put(&t, "%%%zu = %s ", i, v->kind == CNI_VALUE_INPUT ? "input" : "state");
    put_type(&t, v);
    if (v->kind == CNI_VALUE_INPUT && g->free_dims[v->index]) put(&t, " free %u", g->free_dims[v->index]);
    if (v->has_strides) put_strides(&t, v);
    put(&t, "\n");
  }
  for (size_t i = 0; i < g->ndraws; i++) put(&t, "draw %" PRId64 "\n", g->draws[i]);
  for (size_t i = 0; i < g->nnodes; i++) put_node(&t, g, &g->nodes[i]);
  for (size_t i = 0; i < g->nscopes; i++) put_scope(&t, i, &g->scopes[i]);
  for (size_t i = 0; i < g->nsyms; i++) {
    const cni_sym_attr *s = &g->syms[i];
    put(&t, "sym %d %d %d = %" PRId64 " * size(%d, %d) * size(%d, %d) / %" PRId64 " + %" PRId64 "\n", s->node, s->arg,
        s->element, s->sym.num, s->sym.input[0], s->sym.dim[0], s->sym.input[1], s->sym.dim[1], s->sym.den,
        s->sym.add);
  }
  for (size_t i = 0; i < g->noutputs; i++) put(&t, "output %%%d\n", g->outputs[i]);
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
