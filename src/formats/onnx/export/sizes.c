/* sizes.c: sizes that may differ from run to run: which they are, and numbers that follow from them.
 *
 * Place in the flow: graph.c asks which sizes of a value are open, rows ask for numbers. Invariant: a size is asked of
 * the value that has it: an input of the graph, or the result of the node that defines it. */
#include <string.h>

#include "walk.h"

const int64_t *cni_oxwalk_dim(const cni_oxwalk *w, int probe, int value)
{
  return w->shapes + ((size_t)probe * (w->nvals + 1) + (size_t)value) * CN_MAX_DIMS;
}

/* Sizes that differ from one another, and from those traced, as far as their ranges allow it. */
static int64_t size_at(const cn_graph_size *z, int probe, int i)
{
  int64_t far = probe == 1 ? 3 + 2 * i : probe == 2 ? 10 + 5 * i : 0;
  int64_t v = z->traced + far;
  if (v > z->max) v = z->traced - far >= z->min ? z->traced - far : probe == 1 ? z->min : z->max;
  return v < z->min ? z->min : v;
}

int cni_oxwalk_probe(cni_oxwalk *w)
{
  cn_graph_size z = {sizeof z};
  size_t n = cn_graph_sizes(w->g), per = (w->nvals + 1) * CN_MAX_DIMS;
  w->sizes = cn_alloc_zero(CNI_OX_PROBES * (n + 1) * sizeof *w->sizes);
  w->shapes = cn_alloc_zero(CNI_OX_PROBES * per * sizeof *w->shapes);
  if (!w->sizes || !w->shapes) return CN_ERR_MEMORY;
  int status = CN_OK;
  for (int p = 0; p < CNI_OX_PROBES && !status; p++) {
    int64_t *sizes = w->sizes + (size_t)p * (n + 1);
    for (size_t i = 0; i < n && !status; i++) {
      status = cn_graph_size_at(&z, w->g, (int)i);
      sizes[i] = size_at(&z, p, (int)i);
    }
    if (!status) status = cn_graph_shapes(w->shapes + (size_t)p * per, w->g, sizes);
  }
  return status;
}

const char *cni_oxwalk_symbol(const cni_oxwalk *w, int value, int dim)
{
  cn_graph_size z = {sizeof z};
  size_t n = cn_graph_sizes(w->g);
  for (size_t i = 0; i < n && w->shapes; i++) {
    bool same = true, varies = false;
    for (int p = 0; p < CNI_OX_PROBES; p++) {
      int64_t size = w->sizes[(size_t)p * (n + 1) + i];
      same = same && cni_oxwalk_dim(w, p, value)[dim] == size;
      varies = varies || size != w->sizes[i];
    }
    if (same && varies && !cn_graph_size_at(&z, w->g, (int)i)) return z.name;
  }
  return NULL;
}

/* The value that has size i of the graph, and where. */
static int holder(const cn_graph *g, int64_t i, int *dim)
{
  cn_graph_expr e = {sizeof e};
  cn_value_info v = {sizeof v};
  for (int id = 0; id < (int)cn_graph_values(g); id++) {
    if (cn_graph_value_at(&v, g, id)) return -1;
    if (v.kind != CN_VALUE_INPUT && v.kind != CN_VALUE_RESULT) continue;
    for (int k = 0; k < v.ndim; k++) {
      int expr = cn_graph_dim_expr(g, id, k);
      if (!expr || cn_graph_expr_at(&e, g, expr) || e.op != CN_EXPR_SIZE || e.value != i) continue;
      *dim = k;
      return id;
    }
  }
  return -1;
}

static cni_oxval size_itself(const cni_oxcall *c, int64_t i)
{
  int dim = 0, value = holder(c->graph, i, &dim);
  cni_oxval v = value >= 0 ? cni_oxwalk_get(c->walk, value) : cni_ox_absent();
  if (value < 0) cni_ox_fail(c->x, CN_ERR_INTERNAL, "no value has size %lld of the graph", (long long)i);
  if (v.id >= 0) v.open |= 1u << dim;
  return c->x->failed ? cni_ox_absent() : cni_ox_size(c->x, v, dim);
}

/* Rounded down, where ONNX's operator cuts towards zero. */
static cni_oxval divided(cni_ox *x, cni_oxval a, cni_oxval b)
{
  if (a.number && b.number) return cni_ox_math(x, "Div", a, b);
  cni_oxval v = CNI_OX_EXPR(x, "q = a / b; q - i64((a - q * b != 0) & ((a < 0) != (b < 0)))", CN_I64,
                            cni_ox_solid(x, a, CN_I64), cni_ox_solid(x, b, CN_I64));
  int64_t one = 1;
  return cni_ox_shaped(v, 1, &one, 0);
}

static cni_oxval ratio(cni_ox *x, cni_oxval a, cni_oxval b)
{
  int64_t one = 1;
  cni_oxval v = cni_ox_binary(x, "Div", cni_ox_cast(x, a, CN_F64), cni_ox_cast(x, b, CN_F64));
  return cni_ox_shaped(v, 1, &one, 0);
}

cni_oxval cni_ox_size_of(const cni_oxcall *c, int expr)
{
  static const char *const ops[] = {[CN_EXPR_ADD] = "Add",
                                    [CN_EXPR_SUB] = "Sub",
                                    [CN_EXPR_MUL] = "Mul",
                                    [CN_EXPR_MIN] = "Min",
                                    [CN_EXPR_MAX] = "Max"};
  cn_graph_expr e = {sizeof e};
  if (c->x->failed || cn_graph_expr_at(&e, c->graph, expr)) {
    c->x->failed = true;
    return cni_ox_absent();
  }
  if (e.op == CN_EXPR_CONST) return cni_ox_whole(e.value);
  if (e.op == CN_EXPR_SIZE) return size_itself(c, e.value);
  cni_oxval a = cni_ox_size_of(c, e.a), b = cni_ox_size_of(c, e.b);
  if (c->x->failed) return cni_ox_absent();
  if (e.op == CN_EXPR_DIV) return divided(c->x, a, b);
  if (e.op == CN_EXPR_RATIO) return ratio(c->x, a, b);
  return cni_ox_math(c->x, ops[e.op], a, b);
}
