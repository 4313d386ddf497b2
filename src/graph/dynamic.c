/* dynamic.c: one graph for many sizes: the same function traced at several sizes, compared node by node, every
 * integer that differs solved in the sizes of the inputs.
 *
 * Invariant: an integer that cannot be solved is an error that names its op, never a guess. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/convert.h"
#include "ir.h"
#include "tensor/tensor.h"

typedef struct examples {
  cn_graph **graphs;
  cn_tensor *const *inputs; /* n sets of ninputs */
  size_t n, ninputs;
} examples;

static int64_t size_in(const examples *e, size_t k, int input, int dim)
{
  return input < 0 ? 1 : e->inputs[k * e->ninputs + (size_t)input]->d.shape[dim];
}

/* ---- solving one integer ---- */

static bool holds(const examples *e, const cni_sym *s, const int64_t *value)
{
  for (size_t k = 0; k < e->n; k++) {
    int64_t v = s->num * size_in(e, k, s->input[0], s->dim[0]) * size_in(e, k, s->input[1], s->dim[1]);
    if (v % s->den || v / s->den + s->add != value[k]) return false;
  }
  return true;
}

static int64_t gcd(int64_t a, int64_t b)
{
  while (b) {
    int64_t t = a % b;
    a = b;
    b = t;
  }
  return a < 0 ? -a : a;
}

/* value = (num / den) * product, or product + add. */
static bool try_product(const examples *e, cni_sym *s, const int64_t *value)
{
  int64_t p = size_in(e, 0, s->input[0], s->dim[0]) * size_in(e, 0, s->input[1], s->dim[1]);
  if (p == 0) return false;
  int64_t g = gcd(value[0], p);
  s->num = g ? value[0] / g : 0;
  s->den = g ? p / g : 1;
  s->add = 0;
  if (holds(e, s, value)) return true;
  s->num = s->den = 1;
  s->add = value[0] - p;
  return holds(e, s, value);
}

static bool is_free(const cn_graph *g, size_t input, int dim) { return g->free_dims[input] >> dim & 1; }

static bool solve(const examples *e, cni_sym *s, const int64_t *value)
{
  const cn_graph *g = e->graphs[0];
  for (int pass = 0; pass < 2; pass++) /* one size first, then products of two */
    for (size_t i = 0; i < e->ninputs; i++)
      for (int d = 0; d < g->values[g->inputs[i]].ndim; d++) {
        if (!is_free(g, i, d)) continue;
        *s = (cni_sym){.input = {(int)i, -1}, .dim = {d, 0}};
        if (pass == 0 && try_product(e, s, value)) return true;
        for (size_t j = 0; pass == 1 && j < e->ninputs; j++)
          for (int f = 0; f < g->values[g->inputs[j]].ndim; f++) {
            *s = (cni_sym){.input = {(int)i, (int)j}, .dim = {d, f}};
            if (try_product(e, s, value)) return true;
          }
      }
  return false;
}

/* ---- comparing ---- */

static int add_sym(const examples *e, int node, int arg, int element, const int64_t *value, const char *what)
{
  cn_graph *g = e->graphs[0];
  bool differs = false;
  for (size_t k = 1; k < e->n; k++) differs |= value[k] != value[0];
  if (!differs) return CN_OK;
  cni_sym_attr s = {.node = node, .arg = arg, .element = element};
  if (!solve(e, &s.sym, value))
    return cni_fail(CN_ERR_CAPTURE,
                    "trace_sizes: an integer of %s (%lld, then %lld) does not follow from the input sizes", what,
                    (long long)value[0], (long long)value[1]);
  if (cni_grow((void **)&g->syms, &g->syms_cap, g->nsyms + 1, sizeof *g->syms)) return CN_ERR_MEMORY;
  g->syms[g->nsyms++] = s;
  return CN_OK;
}

static int different(const char *what)
{
  return cni_fail(CN_ERR_CAPTURE, "trace_sizes: the function does not compute the same ops at all sizes (%s)", what);
}

/* A float that differs between examples can only follow from sizes when both are integers that a double counts. */
static bool same_or_counts(double a, double b)
{
  const double most = 0x1p53;
  if (!memcmp(&a, &b, sizeof a)) return true;
  return fabs(a) <= most && fabs(b) <= most && rint(a) == a && rint(b) == b;
}

/* One argument of one node over all examples. */
static int compare_arg(const examples *e, size_t node, int arg, int64_t *value)
{
  const cni_gnode *first = &e->graphs[0]->nodes[node];
  const cn_value *a = &first->args[arg];
  int count = a->tag == CN_V_INTS ? a->n : 1;
  for (size_t k = 1; k < e->n; k++) {
    const cn_value *b = &e->graphs[k]->nodes[node].args[arg];
    if (a->tag != b->tag || a->n != b->n) return different(first->info->name);
    if (a->tag == CN_V_STR && strcmp(a->u.s, b->u.s)) return different(first->info->name);
    if (a->tag == CN_V_FLOATS && memcmp(a->u.fs, b->u.fs, (size_t)a->n * sizeof(double)))
      return different(first->info->name);
  }
  if (a->tag != CN_V_INT && a->tag != CN_V_BOOL && a->tag != CN_V_INTS && a->tag != CN_V_FLOAT) return CN_OK;
  for (int i = 0; i < count; i++) {
    for (size_t k = 0; k < e->n; k++) {
      const cn_value *b = &e->graphs[k]->nodes[node].args[arg];
      if (b->tag == CN_V_FLOAT && !same_or_counts(a->u.f, b->u.f)) return different(first->info->name);
      value[k] = b->tag == CN_V_INTS ? b->u.is[i] : b->tag == CN_V_FLOAT ? cni_f64_to_i64(b->u.f) : b->u.i;
    }
    int status = add_sym(e, (int)node, arg, i, value, first->info->name);
    if (status) return status;
  }
  return CN_OK;
}

static int compare_nodes(const examples *e, int64_t *value)
{
  const cn_graph *g = e->graphs[0];
  for (size_t i = 0; i < g->nnodes; i++) {
    const cni_gnode *a = &g->nodes[i];
    for (size_t k = 1; k < e->n; k++) {
      const cni_gnode *b = &e->graphs[k]->nodes[i];
      if (a->info != b->info || a->nin != b->nin || a->nout != b->nout ||
          memcmp(a->in, b->in, (size_t)a->nin * sizeof *a->in))
        return different(a->info->name);
    }
    for (int arg = 0; arg < a->nargs; arg++) {
      int status = compare_arg(e, i, arg, value);
      if (status) return status;
    }
  }
  return CN_OK;
}

/* Numbers: an integral one may depend on sizes (the count of a mean), others must agree. */
static int compare_scalars(const examples *e, int64_t *value)
{
  const cn_graph *g = e->graphs[0];
  for (size_t i = 0; i < g->nvalues; i++) {
    if (g->values[i].kind != CNI_VALUE_SCALAR) continue;
    bool is_float = g->values[i].dtype == CN_F64;
    for (size_t k = 0; k < e->n; k++) {
      const cni_gvalue *v = &e->graphs[k]->values[i];
      if (v->kind != CNI_VALUE_SCALAR || v->dtype != g->values[i].dtype) return different("a number");
      if (is_float && !same_or_counts(g->values[i].number, v->number))
        return different("a number that is not an integer");
      value[k] = is_float ? cni_f64_to_i64(v->number) : v->integer;
    }
    int status = add_sym(e, (int)i, -1, 0, value, "a number");
    if (status) return status;
  }
  return CN_OK;
}

static int compare_draws(const examples *e, int64_t *value)
{
  const cn_graph *g = e->graphs[0];
  int status = CN_OK;
  for (size_t i = 0; i < g->ndraws && !status; i++) {
    for (size_t k = 0; k < e->n; k++) value[k] = e->graphs[k]->draws[i];
    status = add_sym(e, (int)i, -2, 0, value, "a random draw");
  }
  return status;
}

static int compare_shapes(const examples *e)
{
  cn_graph *g = e->graphs[0];
  for (size_t k = 1; k < e->n; k++) {
    const cn_graph *h = e->graphs[k];
    if (h->nnodes != g->nnodes || h->nvalues != g->nvalues || h->nstates != g->nstates ||
        h->ndraws != g->ndraws || h->nleaves != g->nleaves)
      return different("their number");
    for (size_t i = 0; i < g->nstates; i++)
      if (g->states[i].tensor != h->states[i].tensor || g->states[i].final != h->states[i].final)
        return different("the tensors it uses");
    for (size_t i = 0; i < e->ninputs; i++) {
      const cni_gvalue *a = &g->values[g->inputs[i]], *b = &h->values[h->inputs[i]];
      if (a->ndim != b->ndim || a->dtype != b->dtype) return different("the inputs' types or dimensions");
      for (int d = 0; d < a->ndim; d++)
        if (a->shape[d] != b->shape[d]) g->free_dims[i] |= 1u << d;
    }
  }
  return CN_OK;
}

static int merge(const examples *e)
{
  int64_t *value = cni_alloc(e->n * sizeof *value);
  if (!value) return CN_ERR_MEMORY;
  int status = compare_shapes(e);
  if (!status) status = compare_nodes(e, value);
  if (!status) status = compare_scalars(e, value);
  if (!status) status = compare_draws(e, value);
  cni_free(value, e->n * sizeof *value);
  return status;
}

cn_graph *cn_trace_sizes(cn_graph_fn fn, size_t noutputs, cn_tensor *const *inputs, size_t ninputs, size_t nexamples,
                         void *payload)
{
  if (cn_err()) return NULL;
  if (nexamples < 1) {
    cni_fail(CN_ERR_VALUE, "trace_sizes: at least one example is needed");
    return NULL;
  }
  examples e = {cni_alloc_zero(nexamples * sizeof(cn_graph *)), inputs, nexamples, ninputs};
  if (!e.graphs) return NULL;
  int status = CN_OK;
  for (size_t k = 0; k < nexamples && !status; k++) {
    e.graphs[k] = cn_trace(fn, noutputs, inputs + k * ninputs, ninputs, payload);
    if (!e.graphs[k]) status = cn_err();
  }
  if (!status) status = merge(&e);
  cn_graph *g = e.graphs[0];
  for (size_t k = status ? 0 : 1; k < nexamples; k++) cn_graph_free(e.graphs[k]);
  cni_free(e.graphs, nexamples * sizeof *e.graphs);
  return status ? NULL : g;
}
