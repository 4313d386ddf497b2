/* sizes.c: the sizes of one run: found in the inputs' shapes, checked, and put into the graph's expressions.
 *
 * Place in the flow: plan.c asks before it plans; probe.c found what is asked. Invariant: a run goes on only with sizes
 * for which the graph is known to hold. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "ir.h"
#include "tensor/tensor.h"

int cni_plain_size(const cn_graph *g, const cni_gvalue *v, int dim)
{
  const cni_expr *e = v->dims[dim] ? &g->exprs.v[v->dims[dim]] : NULL;
  return e && e->op == CNI_EXPR_SIZE ? (int)e->value : -1;
}

static int check_range(const cni_gsize *z, int64_t size)
{
  if (size >= z->min && size <= z->max) return CN_OK;
  return cni_fail(CN_ERR_SHAPE, "graph: size %s is %" PRId64 ", and the graph holds for %" PRId64 " to %" PRId64,
                  z->name, size, z->min, z->max);
}

static int find_sizes(const cn_graph *g, cn_tensor *const *inputs, int64_t *sizes)
{
  for (size_t s = 0; s < g->nsizes; s++) sizes[s] = -1;
  for (size_t i = 0; i < g->ninputs; i++) {
    const cni_gvalue *v = &g->values[g->inputs[i]];
    for (int d = 0; d < v->ndim; d++) {
      int s = cni_plain_size(g, v, d);
      if (s >= 0 && sizes[s] < 0) sizes[s] = inputs[i]->d.shape[d];
    }
  }
  for (size_t s = 0; s < g->nsizes; s++) {
    const cni_gsize *z = &g->sizes[s];
    if (sizes[s] < 0) sizes[s] = z->traced; /* a node defines it: nobody asks before that has run (verify.c) */
    int status = check_range(z, sizes[s]);
    if (status) return status;
  }
  return CN_OK;
}

int cni_size_found(const cn_graph *g, int64_t *values, int size, int64_t found)
{
  int status = check_range(&g->sizes[size], found);
  int64_t *sizes = status ? NULL : cni_alloc(g->nsizes * sizeof *sizes);
  if (!sizes) return status ? status : CN_ERR_MEMORY;
  for (size_t i = 0; i < g->nsizes; i++) sizes[i] = g->sizes[i].traced;
  for (size_t i = 1; i < g->exprs.n; i++)
    if (g->exprs.v[i].op == CNI_EXPR_SIZE) sizes[g->exprs.v[i].value] = values[i];
  sizes[size] = found;
  cni_exprs_values(&g->exprs, sizes, values);
  cni_free(sizes, g->nsizes * sizeof *sizes);
  return CN_OK;
}

static int check_dims(const cn_graph *g, cn_tensor *const *inputs, const int64_t *values)
{
  for (size_t i = 0; i < g->ninputs; i++) {
    const cni_gvalue *v = &g->values[g->inputs[i]];
    for (int d = 0; d < v->ndim; d++) {
      if (!v->dims[d] || values[v->dims[d]] == inputs[i]->d.shape[d]) continue;
      int s = cni_plain_size(g, v, d);
      return cni_fail(CN_ERR_SHAPE, "graph: dimension %d of input %zu is %" PRId64 "; with the other inputs' %s it "
                      "must be %" PRId64, d, i, inputs[i]->d.shape[d], s >= 0 ? g->sizes[s].name : "sizes",
                      values[v->dims[d]]);
    }
  }
  return CN_OK;
}

int64_t *cni_size_values(const cn_graph *g, cn_tensor *const *inputs)
{
  int64_t *values = cni_alloc(g->exprs.n * sizeof *values);
  int64_t *sizes = values ? cni_alloc(g->nsizes * sizeof *sizes) : NULL;
  int status = sizes ? find_sizes(g, inputs, sizes) : CN_ERR_MEMORY;
  if (!status) {
    cni_exprs_values(&g->exprs, sizes, values);
    status = check_dims(g, inputs, values);
  }
  cni_free(sizes, g->nsizes * sizeof *sizes);
  if (!status) return values;
  cni_free(values, g->exprs.n * sizeof *values);
  return NULL;
}

static int64_t traced_value(const cn_graph *g, int expr)
{
  const cni_expr *e = &g->exprs.v[expr];
  if (e->op == CNI_EXPR_CONST) return e->value;
  if (e->op == CNI_EXPR_SIZE) return g->sizes[e->value].traced;
  return cni_expr_apply((enum cni_expr_op)e->op, traced_value(g, e->a), traced_value(g, e->b));
}

int64_t cni_expr_traced(const cn_graph *g, int expr, double *number)
{
  const cni_expr *e = &g->exprs.v[expr];
  bool ratio = e->op == CNI_EXPR_RATIO;
  int64_t value = traced_value(g, expr), a = ratio ? traced_value(g, e->a) : value;
  int64_t b = ratio ? traced_value(g, e->b) : 1;
  *number = a == CNI_UNDEFINED || b == CNI_UNDEFINED || !b ? (double)NAN : (double)a / (double)b;
  return value;
}

const char *cni_size_name_fault(const char *name)
{
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
  size_t n = strlen(name);
  if (!n || n >= CNI_SIZE_NAME) return "is empty or too long";
  if (strspn(name, letters) != n || strchr("0123456789", name[0])) return "is not made of letters, digits and _";
  return strcmp(name, "min") && strcmp(name, "max") ? NULL : "is a word of expressions";
}

int cni_size_number(const cn_graph *g, const int64_t *values, int expr, const char *what, int64_t *integer,
                    double *number)
{
  double f = 0;
  if (!cni_expr_number(&g->exprs, values, expr, &f))
    return cni_fail(CN_ERR_VALUE, "graph: %s: a number that follows from the sizes has no value at these", what);
  *integer = values[expr];
  if (number) *number = f;
  return CN_OK;
}
