/* training.c: operators of ai.onnx.preview.training: steps of optimisers, and gradients of a part of the graph. See
 * call.h. */
#include <string.h>

#include "formats/onnx/call.h"
#include "formats/onnx/run.h"

/* ---- optimisers: rate, number of updates so far, then all tensors, all gradients, all states ---- */

/* What one tensor's update sees and makes. */
typedef struct update {
  const cni_onnx_call *call;
  cn_tensor *rate, *count; /* of the rate's type, without dimensions */
  cn_tensor *x, *g, *s[2]; /* g: with the penalty on large weights */
  cn_tensor *to_x, *to_s[2];
} update;

static cn_tensor *scaled(cn_tensor *x, double by) { return cn_mul(x, cn_num(by)); }

static void adagrad(update *u)
{
  const cni_onnx_call *c = u->call;
  cn_tensor *slower = cn_add(scaled(u->count, cni_onnx_float(c, "decay_factor", 0)), cn_int(1));
  u->to_s[0] = cn_add(u->s[0], cn_mul(u->g, u->g));
  cn_tensor *root = cn_add(cn_sqrt(u->to_s[0]), cn_num(cni_onnx_float(c, "epsilon", 0)));
  u->to_x = cn_sub(u->x, cn_div(cn_mul(cn_div(u->rate, slower), u->g), root));
}

static void adam(update *u)
{
  const cni_onnx_call *c = u->call;
  double alpha = cni_onnx_float(c, "alpha", 0.9), beta = cni_onnx_float(c, "beta", 0.999);
  u->to_s[0] = cn_add(scaled(u->s[0], alpha), scaled(u->g, 1 - alpha));
  u->to_s[1] = cn_add(scaled(u->s[1], beta), scaled(cn_mul(u->g, u->g), 1 - beta));
  cn_tensor *root = cn_add(cn_sqrt(u->to_s[1]), cn_num(cni_onnx_float(c, "epsilon", 0)));
  cn_tensor *one = cn_int(1), *first = cn_sub(one, cn_pow(cn_num(alpha), u->count));
  cn_tensor *rate = cn_div(cn_mul(u->rate, cn_sqrt(cn_sub(one, cn_pow(cn_num(beta), u->count)))), first);
  rate = cn_where(cn_gt(u->count, cn_int(0)), rate, u->rate);
  u->to_x = cn_sub(u->x, cn_mul(rate, cn_div(u->to_s[0], root)));
  u->to_x = scaled(u->to_x, 1 - cni_onnx_float(c, "norm_coefficient_post", 0));
}

static void momentum(update *u)
{
  const cni_onnx_call *c = u->call;
  double alpha = cni_onnx_float(c, "alpha", 0), beta = cni_onnx_float(c, "beta", 0);
  const char *mode = cni_onnx_text(c, "mode", "");
  bool nesterov = !strcmp(mode, "nesterov");
  if (!nesterov && strcmp(mode, "standard") != 0) cni_onnx_fail(c, CN_ERR_VALUE, "mode is '%s'", mode);
  cn_tensor *weight = cn_where(cn_gt(u->count, cn_int(0)), cn_num(beta), cn_num(1));
  u->to_s[0] = cn_add(scaled(u->s[0], alpha), cn_mul(cn_cast(weight, cn_dtype_of(u->g)), u->g));
  cn_tensor *step = nesterov ? cn_add(u->g, scaled(u->to_s[0], alpha)) : u->to_s[0];
  u->to_x = cn_sub(u->x, cn_mul(u->rate, step));
}

/* All tensors of a call, each with so many states. */
static int optimise(cni_onnx_call *c, void (*step)(update *), size_t states)
{
  cn_tensor *rate = cni_onnx_in(c, 0), *count = cni_onnx_in(c, 1);
  size_t kinds = 2 + states, n = c->nin > 2 ? (c->nin - 2) / kinds : 0;
  double penalty = cni_onnx_float(c, "norm_coefficient", 0);
  if (!rate || !count || cn_err()) return cn_err();
  if (!n || c->nin != 2 + n * kinds || cn_numel(rate) != 1 || cn_numel(count) != 1)
    return cni_onnx_fail(c, CN_ERR_VALUE, "it takes a rate, a count, and %zu inputs for each tensor", kinds);
  rate = cn_reshape(rate, CN_SCALAR_SHAPE);
  count = cn_reshape(cn_cast(count, cn_dtype_of(rate)), CN_SCALAR_SHAPE);
  for (size_t i = 0; i < n; i++) {
    update u = {.call = c, .rate = rate, .count = count, .x = cni_onnx_in(c, 2 + i)};
    cn_tensor *g = cni_onnx_in(c, 2 + n + i);
    u.g = u.x && g ? cn_add(scaled(u.x, penalty), g) : NULL;
    for (size_t k = 0; k < states; k++) u.s[k] = cni_onnx_in(c, 2 + (2 + k) * n + i);
    if (cn_err()) return cn_err();
    step(&u);
    if (cni_onnx_out(c, i, u.to_x ? cn_cast(u.to_x, cn_dtype_of(u.x)) : NULL)) return cn_err();
    for (size_t k = 0; k < states; k++)
      if (cni_onnx_out(c, (1 + k) * n + i, u.to_s[k] ? cn_cast(u.to_s[k], cn_dtype_of(u.s[k])) : NULL))
        return cn_err();
  }
  return CN_OK;
}

static int run_adagrad(cni_onnx_call *c) { return optimise(c, adagrad, 1); }
static int run_adam(cni_onnx_call *c) { return optimise(c, adam, 2); }
static int run_momentum(cni_onnx_call *c) { return optimise(c, momentum, 1); }

/* ---- Gradient: the nodes between xs, zs and y once more, on the node's own inputs ---- */

/* The slot of a name of the graph; -1 with the error set. */
static int32_t slot_of(const cni_onnx_call *c, const cni_onnx_graph *g, const char *name)
{
  for (size_t i = 0; i < g->ninputs; i++)
    if (!strcmp(g->inputs[i].name, name)) return g->inputs[i].slot;
  for (size_t i = 0; i < g->ninitials; i++)
    if (!strcmp(g->initials[i].name, name)) return g->initial_slots[i];
  for (size_t i = 0; i < g->nnodes; i++)
    for (size_t k = 0; k < g->nodes[i].noutputs; k++)
      if (!strcmp(g->nodes[i].output_names[k], name)) return g->nodes[i].outputs[k];
  return cni_onnx_fail(c, CN_ERR_VALUE, "its graph has no value '%s'", name);
}

/* Marks what a node reads of the graph `up` levels around it, its sub-graphs too. */
static void mark_inputs(bool *slots, const cni_onnx_node *n, int32_t up)
{
  for (size_t i = 0; i < n->ninputs; i++)
    if (n->inputs[i].up == up && n->inputs[i].slot >= 0) slots[n->inputs[i].slot] = true;
  for (size_t i = 0; i < n->nattrs; i++) {
    const cni_onnx_graph *g = n->attrs[i].kind == CNI_ATTR_GRAPH ? n->attrs[i].g : NULL;
    for (size_t k = 0; g && k < g->nnodes; k++) mark_inputs(slots, &g->nodes[k], up + 1);
    for (size_t k = 0; g && k < g->noutputs; k++)
      if (g->results[k].up == up + 1 && g->results[k].slot >= 0) slots[g->results[k].slot] = true;
  }
}

/* Which nodes in front of the call's lie between what is fed and y; what they read from elsewhere is taken as it is. */
static void choose(bool *nodes, bool *slots, cni_onnx_frame *f, const cni_onnx_call *c, int32_t y)
{
  const cni_onnx_graph *g = f->graph;
  slots[y] = true;
  for (size_t i = (size_t)(c->node - g->nodes); i-- > 0;) {
    for (size_t k = 0; k < g->nodes[i].noutputs; k++) {
      int32_t slot = g->nodes[i].outputs[k];
      nodes[i] = nodes[i] || (slot >= 0 && slots[slot] && !f->slots[slot]);
    }
    if (nodes[i]) mark_inputs(slots, &g->nodes[i], 0);
  }
  for (size_t i = 0; i < g->ninputs; i++) {
    int32_t slot = g->inputs[i].slot;
    if (slots[slot] && !f->slots[slot]) cni_onnx_feed_slot(f, slot, c->frame->slots[slot]);
  }
}

/* Feeds the call's inputs to the names that an attribute lists; leaves, not NULL: as what gradients can be taken of. */
static int feed(cni_onnx_frame *f, cni_onnx_call *c, const cni_onnx_attr *names, size_t first, cn_tensor **leaves)
{
  for (size_t i = 0; names && i < names->n; i++) {
    int32_t slot = slot_of(c, f->graph, names->ss[i]);
    cn_onnx_value *v = slot >= 0 ? cni_onnx_value_in(c, first + i) : NULL;
    cn_tensor *x = v && leaves ? cni_onnx_in(c, first + i) : NULL;
    if (!v || (leaves && !x)) return cn_err();
    if (!leaves) {
      cni_onnx_feed_slot(f, slot, v);
      continue;
    }
    leaves[i] = cn_needs_grad(x) ? x : cn_requires_grad(cn_detach(x), true);
    cn_onnx_value *leaf = cni_onnx_take(leaves[i]);
    cni_onnx_feed_slot(f, slot, leaf);
    cn_onnx_value_release(leaf);
  }
  return cn_err();
}

static int walk_between(cni_onnx_frame *f, cni_onnx_call *c, const cni_onnx_attr *xs, const cni_onnx_attr *zs,
                        cn_tensor **leaves, cn_tensor **grads)
{
  int32_t y = slot_of(c, f->graph, cni_onnx_text(c, "y", ""));
  bool *nodes = cni_onnx_room(c, f->graph->nnodes + 1, 1), *slots = cni_onnx_room(c, (size_t)f->graph->nslots + 1, 1);
  if (y < 0 || !nodes || !slots || feed(f, c, xs, 0, leaves) || feed(f, c, zs, xs->n, NULL)) return cn_err();
  choose(nodes, slots, f, c, y);
  f->only = nodes;
  f->keep = true;
  if (cni_onnx_walk(f)) return cn_err();
  cn_tensor *t = cn_onnx_value_as_tensor(f->slots[y]);
  if (!t) return cni_onnx_fail(c, CN_ERR_TYPE, "y is no tensor that xs and zs give");
  if (!cn_needs_grad(t)) return CN_OK;
  cn_tensor *ones = cn_ones_like(t);
  bool again = false;
  for (size_t i = 0; i < xs->n; i++) again = again || leaves[i] == cni_onnx_in(c, i);
  return cn_grad(grads, &t, 1, leaves, xs->n, .grad_outputs = &ones, .allow_unused = true, .create_graph = again);
}

/* The gradients of y, summed up, by each of xs; zeros by what y does not depend on. */
static int gradient(cni_onnx_call *c)
{
  const cni_onnx_attr *xs = cni_onnx_attr_of(c, "xs"), *zs = cni_onnx_attr_of(c, "zs");
  if (!xs || xs->kind != CNI_ATTR_STRINGS || (zs && zs->kind != CNI_ATTR_STRINGS) ||
      c->nin < xs->n + (zs ? zs->n : 0))
    return cni_onnx_fail(c, CN_ERR_VALUE, "xs and zs do not name its inputs");
  cn_tensor **leaves = cni_onnx_room(c, xs->n + 1, sizeof *leaves),
            **grads = cni_onnx_room(c, xs->n + 1, sizeof *grads);
  cni_onnx_frame f = {.model = c->frame->model, .track = c->frame->track, .caller = c->frame->caller};
  f.depth = c->frame->depth + 1;
  if (!leaves || !grads) return cn_err();
  int status = cni_onnx_frame_begin(&f, NULL, c->frame->graph), on = cn_enable_grad_begin();
  f.outer = c->frame->outer;
  if (!status) status = walk_between(&f, c, xs, zs, leaves, grads);
  cn_enable_grad_end(on);
  for (size_t i = 0; i < xs->n && !status; i++)
    status = cni_onnx_out(c, i, grads[i] ? grads[i] : cn_zeros_like(leaves[i]));
  cni_onnx_frame_end(&f);
  return status;
}

const cni_onnx_op cni_onnx_training_ops[] = {
    ONNX_BUILD("Adagrad", 1, run_adagrad), ONNX_BUILD("Adam", 1, run_adam), ONNX_BUILD("Momentum", 1, run_momentum),
    ONNX_FRESH("Gradient", 1, gradient),   {NULL, NULL, NULL, 0, 0},
};
