/* batch_norms.c: a batch norm by running statistics becomes a part of the convolution, transposed convolution or linear
 * layer before it: its factors go into the weight, what it adds into the bias.
 *
 * Place in the flow: cn_graph_join; norms.c folds by it, too. Weight and bias become nodes that read states alone:
 * weights.c has them computed when those change, on devices steady.c. Invariant: a layer is only changed where nobody
 * else reads what it gave; its sums are rounded otherwise than before, in the type that they had. */
#include "graph/passes/passes.h"
#include "join.h"
#include "ops/api.gen.h"
#include "tensor/tensor.h"

bool cni_is_foldable_norm(cn_graph *g, int node)
{
  const cni_gnode *n = &g->nodes[node];
  if (n->info->id != CNI_OP_native_batch_norm || n->args[5].u.i || n->syms.n || !cni_unread(g, n, 1)) return false;
  for (int k = 1; k < 5; k++)
    if (!cni_is_steady(g, n->in[k], CNI_STEADY_DEPTH)) return false;
  return n->in[3] >= 0 && n->in[4] >= 0;
}

/* The factors of the norm, one a channel: weight / sqrt(var + eps). */
static int factors(cni_node_writer *w, int weight, int var, int eps, int wide)
{
  const cn_value none = cn_v_none();
  int scale = cni_write_step(w, CNI_OP_add, cni_write_cast(w, var, wide), eps, none);
  scale = cni_write_step(w, CNI_OP_rsqrt, scale, -1, none);
  return weight < 0 ? scale : cni_write_step(w, CNI_OP_mul, scale, cni_write_cast(w, weight, wide), none);
}

int cni_fold_norm(cn_graph *g, int before, int node, const int64_t *column, int ndim, int *weight, int *bias)
{
  cni_node_writer w = {g, before, CN_OK};
  const cn_value none = cn_v_none();
  const cni_gnode *n = &g->nodes[node];
  const int dtype = g->values[*weight].dtype, wide = dtype == CN_F64 ? CN_F64 : CN_F32;
  const int gamma = n->in[1], beta = n->in[2], var = n->in[4], eps = cn_graph_add_number(g, n->args[6]);
  int mean = n->in[3];
  if (eps < 0) return eps;
  int scale = factors(&w, gamma, var, eps, wide);
  int along = cni_write_step(&w, CNI_OP_view, scale, -1, cn_v_ints(column, (size_t)ndim));
  int product = cni_write_step(&w, CNI_OP_mul, cni_write_cast(&w, *weight, wide), along, none);
  mean = cni_write_cast(&w, mean, wide);
  int off = *bias < 0 ? cni_write_step(&w, CNI_OP_neg, mean, -1, none)
                      : cni_write_step(&w, CNI_OP_sub, cni_write_cast(&w, *bias, wide), mean, none);
  off = cni_write_step(&w, CNI_OP_mul, off, scale, none);
  if (beta >= 0) off = cni_write_step(&w, CNI_OP_add, off, cni_write_cast(&w, beta, wide), none);
  *weight = cni_write_cast(&w, product, dtype);
  *bias = cni_write_cast(&w, off, dtype);
  return w.status < 0 ? w.status : CN_OK;
}

/* A layer that a norm may become a part of, and what stands between the two. */
typedef struct layer {
  int node;
  int squeeze; /* between: a node that takes one dimension away, as conv1d has; -1: none */
  int add;     /* ... that adds the bias of a transposed convolution; -1: none */
  int bias;    /* a value of one number a channel, of any shape; -1: none */
  int ndim;
  int64_t column[5]; /* where the channels are in the weight, which may be seen in groups */
} layer;

static bool is_layer(const cn_graph *g, layer *l, int value)
{
  if (value < 0 || g->values[value].kind != CNI_VALUE_RESULT || g->types.v[value].varies) return false;
  const cni_gnode *n = &g->nodes[l->node = g->values[value].node];
  const int op = n->info->id;
  const int64_t *w = n->nin > 1 && n->in[1] >= 0 ? g->values[n->in[1]].shape : NULL;
  if (n->syms.n || !w || !cni_is_steady(g, n->in[1], CNI_STEADY_DEPTH)) return false;
  for (int i = 0; i < 5; i++) l->column[i] = 1;
  if (op == CNI_OP_conv2d_grad_input) {
    const int64_t groups = n->args[6].u.i;
    l->ndim = 5; /* (groups, channels in / groups, channels / groups, h, w) */
    l->column[0] = groups;
    l->column[2] = w[1];
    return g->values[value].ndim == 4 && g->values[n->in[1]].ndim == 4;
  }
  l->column[0] = w[0];
  l->ndim = g->values[n->in[1]].ndim;
  l->bias = n->in[2];
  bool linear = op == CNI_OP_linear && g->values[value].ndim == 2 && l->ndim == 2;
  return (linear || (op == CNI_OP_conv2d && g->values[value].ndim == 4)) &&
         cni_is_steady(g, l->bias, CNI_STEADY_DEPTH);
}

/* Is it (channels, 1, 1): one number a channel of (n, channels, h, w)? */
static bool is_column(const cn_graph *g, int value, int64_t channels)
{
  const cni_gvalue *v = &g->values[value];
  int at = v->ndim - 3;
  if (at < 0 || v->shape[at] != channels) return false;
  for (int i = 0; i < v->ndim; i++)
    if (i != at && v->shape[i] != 1) return false;
  return cni_is_steady(g, value, CNI_STEADY_DEPTH);
}

/* The layer whose result the norm reads, perhaps through a view or behind the addition of a bias. */
static bool find_layer(cn_graph *g, layer *l, int norm)
{
  int value = g->nodes[norm].in[0];
  *l = (layer){-1, -1, -1, -1, 0, {0}};
  if (cni_only_reader(g, value) != norm) return false;
  const cni_gnode *n = cni_maker(g, value, CNI_OP_squeeze);
  if (n && g->values[value].ndim == 3 && g->values[n->in[0]].ndim == 4 && g->values[value].shape[1] > 1) {
    l->squeeze = g->values[value].node;
    if (cni_only_reader(g, value = n->in[0]) != l->squeeze) return false;
  } else if ((n = cni_maker(g, value, CNI_OP_add)) && cni_maker(g, n->in[0], CNI_OP_conv2d_grad_input)) {
    bool plain = n->args[2].tag == CN_V_FLOAT ? n->args[2].u.f == 1 : n->args[2].u.i == 1;
    l->add = g->values[value].node;
    if (!plain || !is_column(g, n->in[1], g->values[value].shape[1]) || cni_only_reader(g, n->in[0]) != l->add)
      return false;
    l->bias = n->in[1];
    value = n->in[0];
  }
  return is_layer(g, l, value) && (l->add < 0 || g->nodes[l->node].info->id == CNI_OP_conv2d_grad_input);
}

/* The weight of a transposed convolution seen in groups, or as it is in memory again. */
static int in_groups(cni_node_writer *w, const layer *l, int weight, bool grouped)
{
  const int64_t *shape = w->g->values[w->g->nodes[l->node].in[1]].shape, groups = l->column[0];
  if (l->ndim != 5) return weight;
  const int64_t five[] = {groups, shape[0] / groups, shape[1], shape[2], shape[3]};
  return cni_write_step(w, CNI_OP_reshape, weight, -1, grouped ? cn_v_ints(five, 5) : cn_v_ints(shape, 4));
}

/* The layer once more, with what was folded: its new result. */
static int write_layer(cni_node_writer *w, const layer *l, int weight, int bias)
{
  const cn_graph *g = w->g;
  const bool turned = g->nodes[l->node].info->id == CNI_OP_conv2d_grad_input;
  const int64_t column[] = {g->values[g->nodes[l->node].out[0]].shape[1], 1, 1};
  const int in[] = {g->nodes[l->node].in[0], weight, bias};
  const cni_gnode *n = &g->nodes[l->node];
  int value = cni_write(w, n->info->id, n->args, n->nargs, in, turned ? 2 : 3);
  if (turned) {
    int along = cni_write_step(w, CNI_OP_reshape, bias, -1, cn_v_ints(column, 3));
    value = cni_write_step(w, CNI_OP_add, value, along, cn_v_none());
  }
  if (l->squeeze < 0) return value;
  n = &g->nodes[l->squeeze];
  return cni_write(w, n->info->id, n->args, n->nargs, &value, 1);
}

/* 1: the norm became a part of the layer before it; 0: it stays. */
static int fold(cn_graph *g, int norm)
{
  layer l;
  if (!cni_is_foldable_norm(g, norm) || !find_layer(g, &l, norm)) return 0;
  const int old = g->nodes[norm].out[0];
  int weight = g->nodes[l.node].in[1], bias = l.bias;
  cni_node_writer w = {g, norm, CN_OK};
  if (bias >= 0) bias = cni_write_step(&w, CNI_OP_reshape, bias, -1, cn_v_ints((const int64_t[]){-1}, 1));
  weight = in_groups(&w, &l, weight, true);
  if (w.status < 0) return w.status;
  const size_t before = g->nnodes;
  int status = cni_fold_norm(g, w.before, w.before, l.column, l.ndim, &weight, &bias);
  if (status) return status;
  w.before += (int)(g->nnodes - before);
  weight = in_groups(&w, &l, weight, false);
  int value = write_layer(&w, &l, weight, bias);
  status = w.status < 0 ? w.status : cni_types_fill(&g->types, g);
  if (status < 0 || !cni_same_type(&g->types, old, value)) return status < 0 ? status : 0;
  status = cn_graph_replace(g, old, value);
  return status < 0 ? status : 1;
}

int cni_batch_norms_fold(cn_graph *g)
{
  int count = 0, status = cni_types_fill(&g->types, g);
  for (size_t i = 0; i < g->nnodes && !status; i++) {
    if (g->nodes[i].info->id != CNI_OP_native_batch_norm) continue;
    const int own = g->nodes[i].out[0], done = fold(g, (int)i);
    if (done < 0) return done;
    count += done;
    i = (size_t)g->values[own].node; /* nodes were put before it */
    status = cni_types_fill(&g->types, g);
  }
  if (!status && count) status = cni_pass_dead(g) < 0 ? cn_err() : CN_OK;
  return status ? status : count;
}
