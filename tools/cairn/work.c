/* work.c: see work.h. */
#include "work.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct reader {
  const cn_graph *g;
  cn_graph_node n;
  work_node *w;
} reader;

/* ---- sizes ---- */

static cn_value_info value(const reader *r, int id)
{
  cn_value_info v = {sizeof v};
  if (id < 0 || cn_graph_value_at(&v, r->g, id)) v = (cn_value_info){.size = sizeof v};
  return v;
}
static cn_value_info in(const reader *r, int i) { return value(r, i < r->n.nin ? r->n.in[i] : -1); }
static cn_value_info out(const reader *r) { return value(r, r->n.nout ? r->n.out[0] : -1); }

static int64_t size(const cn_value_info *v, int dim)
{
  dim += dim < 0 ? v->ndim : 0;
  return dim >= 0 && dim < v->ndim ? v->shape[dim] : 1;
}

static int64_t product_of(const cn_value_info *v, int from, int to)
{
  int64_t n = 1;
  for (int i = from; i < to && i < v->ndim; i++) n *= v->shape[i];
  return n;
}

static double bytes_of(const cn_value_info *v)
{
  return (double)product_of(v, 0, v->ndim) * (double)cn_dtype_size((cn_dtype)v->dtype);
}

/* ---- which products ---- */

static void of_linear(reader *r)
{
  cn_value_info x = in(r, 0), w = in(r, 1);
  r->w->as[0] = (array_product){1, product_of(&x, 0, x.ndim - 1), size(&w, -1), size(&w, 0), 0};
}

/* (..., m, k) times (..., k, n); at: the left factor's place */
static void of_product(reader *r, int at)
{
  cn_value_info a = in(r, at), b = in(r, at + 1), y = out(r);
  int64_t k = size(&a, -1), n = b.ndim > 1 ? size(&b, -1) : 1;
  int64_t count = b.ndim > 2 ? product_of(&y, 0, y.ndim - 2) : 1, all = product_of(&y, 0, y.ndim);
  r->w->as[0] = (array_product){count, n && count ? all / n / count : 0, k, n, 0};
}
static void of_mm(reader *r) { of_product(r, 0); }
static void of_addmm(reader *r) { of_product(r, 1); }

static void of_window(reader *r, const cn_value_info *w, int stride)
{
  r->w->taps = product_of(w, 2, w->ndim);
  const cn_value *v = stride < r->n.nargs ? &r->n.args[stride] : NULL;
  r->w->stride = v && v->tag == CN_V_INTS && v->n ? v->u.is[0] : 1;
}

/* Convolutions as products with the columns that windows make (im2col): a row for each position. */
static void of_conv(reader *r)
{
  cn_value_info x = in(r, 0), w = in(r, 1), y = out(r);
  int64_t groups = size(&w, 1) ? size(&x, 1) / size(&w, 1) : 0, each = groups ? size(&y, 1) / groups : 0;
  of_window(r, &w, 3);
  r->w->groups = groups;
  r->w->as[0] = (array_product){groups, size(&y, 0) * product_of(&y, 2, y.ndim), size(&w, 1) * r->w->taps, each,
                                groups ? product_of(&x, 0, x.ndim) / groups : 0};
}

static void of_conv_transpose(reader *r)
{
  cn_value_info x = in(r, 0), w = in(r, 1), y = out(r);
  int64_t groups = size(&w, 1) ? size(&y, 1) / size(&w, 1) : 0, each = groups ? size(&x, 1) / groups : 0;
  of_window(r, &w, 3);
  r->w->groups = groups;
  r->w->as[0] = (array_product){groups, size(&x, 0) * product_of(&x, 2, x.ndim), each, size(&w, 1) * r->w->taps, 0};
}

/* (grad, weight, ...): the input's gradient is the transposed convolution */
static void of_conv_input(reader *r)
{
  cn_value_info g = in(r, 0), w = in(r, 1), y = out(r);
  int64_t groups = size(&w, 1) ? size(&y, 1) / size(&w, 1) : 0, each = groups ? size(&g, 1) / groups : 0;
  of_window(r, &w, r->n.nargs);
  r->w->groups = groups;
  r->w->as[0] = (array_product){groups, size(&g, 0) * product_of(&g, 2, g.ndim), each, size(&w, 1) * r->w->taps, 0};
}

/* (grad, input, ...): sums over positions */
static void of_conv_weight(reader *r)
{
  cn_value_info g = in(r, 0), x = in(r, 1), w = out(r);
  int64_t groups = size(&w, 1) ? size(&x, 1) / size(&w, 1) : 0, each = groups ? size(&g, 1) / groups : 0;
  of_window(r, &w, r->n.nargs);
  r->w->groups = groups;
  r->w->as[0] = (array_product){groups, each, size(&g, 0) * product_of(&g, 2, g.ndim), size(&w, 1) * r->w->taps, 0};
}

static void of_attention(reader *r)
{
  cn_value_info q = in(r, 0), k = in(r, 1), v = in(r, 2);
  int64_t count = product_of(&q, 0, q.ndim - 2);
  r->w->as[0] = (array_product){count, size(&q, -2), size(&q, -1), size(&k, -2), 0};
  r->w->as[1] = (array_product){count, size(&q, -2), size(&k, -2), size(&v, -1), 0};
}

/* (input (T, B, n), w_ih (gates H, n), w_hh (gates H, H)): all steps' inputs at once, then a step at a time */
static void of_recurrent(reader *r)
{
  cn_value_info x = in(r, 0), wi = in(r, 1), wh = in(r, 2);
  r->w->as[0] = (array_product){1, size(&x, 0) * size(&x, 1), size(&wi, 1), size(&wi, 0), 0};
  r->w->as[1] = (array_product){size(&x, 0), size(&x, 1), size(&wh, 1), size(&wh, 0), 0};
}

static const struct rule {
  const char *op;
  void (*of)(reader *r);
} rules[] = {{"linear", of_linear},          {"mm", of_mm},
             {"matmul", of_mm},              {"bmm", of_mm},
             {"mv", of_mm},                  {"addmm", of_addmm},
             {"baddbmm", of_addmm},          {"conv1d", of_conv},
             {"conv2d", of_conv},            {"conv3d", of_conv},
             {"conv_transpose1d", of_conv_transpose}, {"conv_transpose2d", of_conv_transpose},
             {"conv_transpose3d", of_conv_transpose}, {"conv2d_grad_input", of_conv_input},
             {"conv2d_grad_weight", of_conv_weight},    {"scaled_dot_product_attention", of_attention},
             {"recurrent_sequence", of_recurrent}};

/* ---- names ---- */

static void put_name(char *name, size_t room, const cn_graph *g, int scope)
{
  cn_graph_scope s = {sizeof s};
  if (scope < 0 || cn_graph_scope_at(&s, g, scope)) return;
  put_name(name, room, g, s.parent);
  if (!s.name || !*s.name) return;
  size_t n = strlen(name);
  snprintf(name + n, room - n, "%s%s", n ? "." : "", s.name);
}

/* ---- all nodes ---- */

/* Elements of a pool's window; 1: it is no pool. */
static double pooled(const reader *r)
{
  const cn_value *v = r->n.nargs > 1 ? &r->n.args[1] : NULL;
  double n = 1;
  if (!v || v->tag != CN_V_INTS || (strncmp(r->n.name, "max_pool", 8) && strncmp(r->n.name, "avg_pool", 8))) return 1;
  for (int i = 0; i < v->n; i++) n *= (double)v->u.is[i];
  return n;
}

static double weights_of(const reader *r)
{
  double bytes = 0;
  for (int i = 0; i < r->n.nin; i++) {
    cn_value_info v = in(r, i);
    if (r->n.in[i] >= 0 && v.kind == CN_VALUE_STATE) bytes += bytes_of(&v);
  }
  return bytes < r->w->read ? bytes : r->w->read;
}

static void add(work_node *sum, const work_node *n)
{
  sum->flops += n->flops;
  sum->products += n->products;
  sum->read += n->read;
  sum->written += n->written;
  sum->weights += n->weights;
}

static int read_node(work *w, const cn_graph *g, const cn_cost *cost, int i)
{
  reader r = {.g = g, .n = {sizeof r.n}, .w = &w->v[w->n]};
  int status = cn_graph_node_at(&r.n, g, i);
  if (status) return status;
  *r.w = (work_node){.op = r.n.name, .flops = cost->flops, .products = cost->products, .read = cost->read,
                     .written = cost->written};
  if (cost->flops + cost->read + cost->written <= 0) return CN_OK; /* a view */
  put_name(r.w->name, sizeof r.w->name, g, r.n.scope);
  r.w->weights = weights_of(&r);
  cn_value_info x = in(&r, 0), y = out(&r);
  r.w->stream = fmax(bytes_of(&x), bytes_of(&y) * pooled(&r));
  for (size_t k = 0; k < sizeof rules / sizeof *rules; k++)
    if (!strcmp(rules[k].op, r.n.name)) rules[k].of(&r);
  add(&w->all, r.w);
  w->n++;
  return cn_err();
}

int work_of(work *w, const cn_graph *g)
{
  size_t n = cn_graph_nodes(g), bytes = (n + 1) * sizeof(cn_cost);
  cn_value_info v = {sizeof v};
  *w = (work){NULL};
  cn_cost *costs = cn_alloc(bytes);
  int status = costs ? cn_graph_costs(costs, g) : CN_ERR_MEMORY;
  if (!status) status = cn_grow((void **)&w->v, &w->cap, n + 1, sizeof *w->v);
  for (size_t i = 0; i < n && !status; i++) status = read_node(w, g, &costs[i], (int)i);
  for (size_t i = 0; i < cn_graph_states(g) && !status; i++)
    if (!(status = cn_graph_value_at(&v, g, cn_graph_state_value(g, i)))) w->parameters += bytes_of(&v);
  cn_free(costs, bytes);
  return status;
}

void work_free(work *w) { cn_free(w->v, w->cap * sizeof *w->v); }
