/* verify.c: is this graph one? What text may say, or a pass may have broken, is found here.
 *
 * Place in the flow: the end of cn_graph_parse, tests after each pass, plugins after their changes. Invariant: a graph
 * that passes can be planned at the traced sizes, once its states are bound. */
#include "base/alloc.h"
#include "base/dtype.h"
#include "control.h"
#include "tensor/tensor.h"

static int wrong(size_t node, const char *name, const char *what)
{
  return cni_fail(CN_ERR_INTERNAL, "graph: node %zu (%s): %s", node, name, what);
}

static int verify_node(const cn_graph *g, size_t i)
{
  const cni_gnode *n = &g->nodes[i];
  const char *name = n->info->name;
  if (n->nargs != n->info->nparams) return wrong(i, name, "its arguments do not fit the signature");
  uint32_t flags = n->info->row->flags;
  bool control = cni_is_control(n), may_draw = (flags & CN_OP_RANDOM) || cni_is_composite(n->info->row) || n->nsubs;
  if ((n->draw >= 0 ? !may_draw : (flags & CN_OP_RANDOM) != 0) || n->draw >= (int)g->ndraws)
    return wrong(i, name, "it has no draw, or a strange one");
  if (n->nout < 1 || (n->nout > CNI_MAX_RESULTS && !control)) return wrong(i, name, "it has no results, or too many");
  if (n->nsubs && !control) return wrong(i, name, "it cannot hold graphs");
  if (n->scope < -1 || n->scope >= (int)g->nscopes) return wrong(i, name, "its scope does not exist");
  for (int k = 0; k < n->nin; k++) {
    if (n->in[k] == -1) continue;
    if (n->in[k] < 0 || (size_t)n->in[k] >= g->nvalues) return wrong(i, name, "reads a value that does not exist");
    const cni_gvalue *v = &g->values[n->in[k]];
    if (v->kind == CNI_VALUE_RESULT && (v->node < 0 || (size_t)v->node >= i))
      return wrong(i, name, "reads a value that is made later");
  }
  for (int k = 0; k < n->nout; k++) {
    if (n->out[k] < 0 || (size_t)n->out[k] >= g->nvalues) return wrong(i, name, "a result has no value");
    const cni_gvalue *v = &g->values[n->out[k]];
    if (v->kind != CNI_VALUE_RESULT || v->node != (int)i || v->index != k)
      return wrong(i, name, "a result's value belongs to another node");
    if (!cni_dtype_valid(v->dtype) || v->ndim < 0 || v->ndim > CN_MAX_DIMS)
      return wrong(i, name, "bad type or shape");
  }
  return control ? cni_control_verify(g, i) : CN_OK;
}

static bool stands_for(const cn_graph *g, int v, enum cni_value_kind kind, size_t index)
{
  return cni_is_value(g, v) && g->values[v].kind == kind && g->values[v].index == (int)index;
}

static int verify_scope(const cn_graph *g, size_t i)
{
  const cni_gscope *s = &g->scopes[i];
  bool good = s->parent >= -1 && s->parent < (int)i && (s->op || (s->name && s->kind));
  for (int k = 0; k < s->nin; k++) good = good && (s->in[k] == -1 || cni_is_value(g, s->in[k]));
  for (int k = 0; k < s->nout; k++) good = good && (s->out[k] == -1 || cni_is_value(g, s->out[k]));
  return good ? CN_OK : cni_fail(CN_ERR_INTERNAL, "graph: scope %zu is none", i);
}

/* Inputs, states and constants: each is where it says, and has what it needs. */
static int verify_sources(const cn_graph *g)
{
  for (size_t i = 0; i < g->ninputs; i++)
    if (!stands_for(g, g->inputs[i], CNI_VALUE_INPUT, i) ||
        (g->input_finals[i] != -1 && !cni_is_value(g, g->input_finals[i])))
      return cni_fail(CN_ERR_INTERNAL, "graph: input %zu has no value", i);
  for (size_t i = 0; i < g->nstates; i++)
    if (!stands_for(g, g->states[i].value, CNI_VALUE_STATE, i) ||
        (g->states[i].final != -1 && !cni_is_value(g, g->states[i].final)))
      return cni_fail(CN_ERR_INTERNAL, "graph: state %zu has no value", i);
  for (size_t i = 0; i < g->nvalues; i++) {
    const cni_gvalue *v = &g->values[i];
    size_t n = v->kind == CNI_VALUE_INPUT ? g->ninputs : v->kind == CNI_VALUE_STATE ? g->nstates : 0;
    bool listed = v->kind == CNI_VALUE_INPUT || v->kind == CNI_VALUE_STATE;
    if ((listed && (v->index < 0 || (size_t)v->index >= n)) || (v->kind == CNI_VALUE_CONST) != (v->tensor != NULL))
      return cni_fail(CN_ERR_INTERNAL, "graph: value %zu stands for nothing", i);
  }
  return CN_OK;
}

/* The node that defines a size; -1: a dim of an input does; -2: nothing. */
static int definer(const cn_graph *g, int size)
{
  for (size_t i = 0; i < g->ninputs; i++) {
    const cni_gvalue *v = &g->values[g->inputs[i]];
    for (int d = 0; d < v->ndim; d++)
      if (cni_plain_size(g, v, d) == size) return -1;
  }
  for (size_t i = 0; i < g->nnodes; i++)
    for (int k = 0; k < g->nodes[i].nout; k++)
      if (cni_plain_size(g, &g->values[g->nodes[i].out[k]], 0) == size) return (int)i;
  return -2;
}

/* Is every size in an expression known before this node? first: per size its definer. */
static bool known_before(const cn_graph *g, int expr, const int *first, int node)
{
  const cni_expr *e = &g->exprs.v[expr];
  if (e->op == CNI_EXPR_SIZE) return first[e->value] < node;
  if (e->op <= CNI_EXPR_CONST) return true;
  return known_before(g, e->a, first, node) && known_before(g, e->b, first, node);
}

static int verify_order(const cn_graph *g, const int *first)
{
  for (size_t i = 0; i < g->nnodes; i++) {
    const cni_gnode *n = &g->nodes[i];
    bool known = n->draw < 0 || !g->draws[n->draw].expr || known_before(g, g->draws[n->draw].expr, first, (int)i);
    for (size_t k = 0; k < n->syms.n; k++) known = known && known_before(g, n->syms.v[k].expr, first, (int)i);
    for (int k = 0; k < n->nin; k++)
      if (n->in[k] >= 0 && g->values[n->in[k]].expr)
        known = known && known_before(g, g->values[n->in[k]].expr, first, (int)i);
    if (!known) return wrong(i, n->info->name, "a number follows from a size that is not known yet");
  }
  return CN_OK;
}

static int verify_sizes(const cn_graph *g)
{
  int *first = cni_alloc((g->nsizes + 1) * sizeof *first), status = first ? CN_OK : CN_ERR_MEMORY;
  for (size_t i = 0; i < g->nsizes && !status; i++)
    if ((first[i] = definer(g, (int)i)) == -2)
      status = cni_fail(CN_ERR_INTERNAL, "graph: size %s is no input's and no result's", g->sizes[i].name);
  if (!status && g->nsizes) status = verify_order(g, first);
  cni_free(first, (g->nsizes + 1) * sizeof *first);
  return status;
}

static int verify_leaves(const cn_graph *g)
{
  for (size_t i = 0; i < g->nleaves; i++) {
    const cni_gleaf *l = &g->leaves[i];
    if ((l->after == CNI_GRAD_VALUE) != cni_is_value(g, l->value) || l->state >= (int)g->nstates || l->state < -1 ||
        (l->state < 0 && !l->tensor))
      return cni_fail(CN_ERR_INTERNAL, "graph: gradient %zu has no value, or no state", i);
    for (size_t k = 0; k < i; k++)
      if (l->state >= 0 && g->leaves[k].state == l->state)
        return cni_fail(CN_ERR_INTERNAL, "graph: state %d has two gradients", l->state);
  }
  return CN_OK;
}

/* A value's maker must name it back: a text may give a number twice. */
static int verify_results(const cn_graph *g)
{
  for (size_t i = 0; i < g->nvalues; i++) {
    const cni_gvalue *v = &g->values[i];
    if (v->kind != CNI_VALUE_RESULT) continue;
    const cni_gnode *n = v->node >= 0 && (size_t)v->node < g->nnodes ? &g->nodes[v->node] : NULL;
    if (!n || v->index < 0 || v->index >= n->nout || n->out[v->index] != (int)i)
      return cni_fail(CN_ERR_INTERNAL, "graph: value %zu has no maker", i);
  }
  return CN_OK;
}

/* What is recorded is what the rules say, at the traced sizes. */
static int verify_types(const cn_graph *g)
{
  cni_types t = {NULL, 0, 0};
  int status = CN_OK;
  for (size_t i = 0; i < g->nnodes && !status; i++) {
    const cni_gnode *n = &g->nodes[i];
    status = cni_types_of_node(&t, g, (int)i);
    for (int k = 0; k < n->nout && !status; k++) {
      const cni_gvalue *v = &g->values[n->out[k]];
      const cn_desc *d = &t.v[n->out[k]].handle->d;
      if (d->dtype != v->dtype || !cni_same_shape(d->ndim, d->shape, v->ndim, v->shape))
        status = wrong(i, n->info->name, "a result's type or shape is not what it makes");
      bool names = cni_plain_size(g, v, 0) >= 0;
      if (!status && t.v[n->out[k]].counted ? !names || n->syms.n : v->dims[0] != 0)
        status = wrong(i, n->info->name, names ? "the size of its result is no size of its own"
                                               : "the size of its result depends on data, and has no name");
    }
  }
  cni_types_free(&t);
  return status;
}

int cn_graph_verify(const cn_graph *g)
{
  if (!g) return cni_fail(CN_ERR_TYPE, "graph: NULL");
  int status = verify_sources(g);
  if (!status) status = verify_results(g);
  for (size_t i = 0; i < g->nnodes && !status; i++) status = verify_node(g, i);
  for (size_t i = 0; i < g->nscopes && !status; i++) status = verify_scope(g, i);
  for (size_t i = 0; i < g->noutputs && !status; i++)
    if (!cni_is_value(g, g->outputs[i])) status = cni_fail(CN_ERR_INTERNAL, "graph: output %zu has no value", i);
  if (!status) status = verify_sizes(g);
  if (!status) status = verify_leaves(g);
  return status ? status : verify_types(g);
}
