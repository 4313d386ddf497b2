/* inside.c: sub-graphs while they are captured, and the nodes that hold them.
 *
 * Place in the flow: compile/control.c begins a capture inside of the one that goes on, and calls the function it was
 * given; the door of ops (apply.c) asks here for every tensor: one from outside is replaced by an input of the
 * sub-graph, above autograd, so that gradients end there and not in what is outside. Where the function writes to such
 * a tensor, the input stands for its whole memory, and what looks into it is made from that input. The capture of a
 * sub-graph ends as any other (trace.c), and a node that holds it is recorded in the outer capture, with the tensors
 * that were met as operands. Invariant: what a sub-graph reads is made in it or is one of its inputs. */
#include <cairn/autograd.h>
#include <cairn/ops.h>
#include <string.h>

#include "capture.h"
#include "control.h"
#include "ops/families.h"

bool cni_same_tensor(const cn_tensor *a, const cn_tensor *b)
{
  return a == b || (a->storage == b->storage && a->offset == b->offset && a->d.dtype == b->d.dtype &&
                    cni_same_layout(&a->d, &b->d) && a->node == b->node && a->out_index == b->out_index);
}

/* ---- tensors from outside ---- */

/* One more row: `input`, the last one of the capture, stands for t. */
static int add_met(cni_met **list, size_t *n, size_t *room, const cni_capture *cap, cn_tensor *t, cn_tensor *input)
{
  if (cni_grow((void **)list, room, *n + 1, sizeof **list)) return CN_ERR_MEMORY;
  cn_tensor *first = input->node ? cni_tensor_alias(input) : NULL;
  if (input->node && !first) return CN_ERR_MEMORY;
  if (first) {
    first->node = cni_node_keep(input->node);
    first->out_index = input->out_index;
  }
  (*list)[(*n)++] = (cni_met){cni_tensor_keep(t), cni_tensor_keep(input), first, cap->g->ninputs - 1};
  return CN_OK;
}

int cni_bring_memory(cni_capture *cap, cn_tensor *t, cn_tensor *input)
{
  return add_met(&cap->written, &cap->nwritten, &cap->written_cap, cap, t, input);
}

/* The view that t is, of what stands for its parent: made anew each time, so that it shows what is there now. */
static cn_tensor *view_again(cn_tensor *t)
{
  const cni_opinfo *info = cni_op_info(t->view->op);
  cn_value args[CN_MAX_ARGS];
  cn_tensor *out[CNI_MAX_RESULTS] = {NULL}, *parent = cni_bring_one_inside(t->view->parent);
  int nout = 1;
  if (!parent) return NULL;
  memcpy(args, t->view->args, (size_t)t->view->nargs * sizeof *args);
  cni_fill_slots(info, args, &parent);
  return cni_apply(info, args, t->view->nargs, NULL, out, &nout) ? NULL : cni_scope_add(out[0]);
}

/* A look into a memory that the sub-graph writes to. Borrowed; NULL with the error set. */
static cn_tensor *look_inside(const cni_met *m, cn_tensor *t)
{
  bool whole = t->offset == m->from->offset && t->d.dtype == m->from->d.dtype && cni_same_layout(&t->d, &m->from->d);
  if (t->view || (whole && !cn_needs_grad(t))) {
    cn_tensor *look = t->view ? view_again(t) : m->to;
    return look && cn_needs_grad(look) && !cn_needs_grad(t) ? cn_detach(look) : look;
  }
  cni_fail(CN_ERR_CAPTURE, "capture: a function that cond, while, scan or map is given writes to memory that another "
                           "tensor from outside shares in a way that is not recorded as a view");
  return NULL;
}

cn_tensor *cni_bring_one_inside(cn_tensor *t)
{
  cni_capture *cap = cni_capturing();
  if ((t->d.weak && t->d.data) || cni_capture_has(cap, t)) return t; /* a number that is known stays one */
  for (size_t i = 0; i < cap->nwritten; i++) {
    const cni_met *m = &cap->written[i];
    if (cni_same_tensor(m->from, t)) return m->to;
    if (m->from->storage == t->storage) return look_inside(m, t);
  }
  for (size_t i = 0; i < cap->nmet; i++)
    if (cni_same_tensor(cap->met[i].from, t)) return cap->met[i].to;
  cn_desc d = t->d;
  if (!cni_is_dense(d.ndim, d.shape, d.strides)) cni_contiguous_strides(d.ndim, d.shape, d.strides);
  cn_tensor *input = cni_trace_input(cap, &d);
  if (!input || (cn_needs_grad(t) && !cn_requires_grad(input, true))) return NULL;
  return add_met(&cap->met, &cap->nmet, &cap->met_cap, cap, t, input) ? NULL : input;
}

/* A memory that was not known to be written to will be, when the function is captured again (compile/control_states.c):
 * until then what is captured shall not fail where the function would not. */
cn_tensor *cni_bring_one_written(cn_tensor *t)
{
  const cni_capture *cap = cni_capturing();
  cn_tensor *inside = cni_bring_one_inside(t);
  for (size_t i = 0; inside && i < cap->nmet; i++) {
    const cni_met *m = &cap->met[i];
    if (m->to == inside && cn_needs_grad(m->from) && !cn_is_leaf(m->from) && cn_is_leaf(inside))
      return cn_requires_grad(inside, false);
  }
  return inside;
}

/* ---- recording the node ---- */

/* Its results' types, as descriptions. */
static int describe(cn_desc *results, const cni_control_call *k)
{
  cn_device device = CN_CPU;
  cni_gnode n = {.info = k->info, .args = (cn_value *)(uintptr_t)k->args, .nargs = k->info->nparams, .nin = k->nin,
                 .nout = k->nout, .subs = (cn_graph **)(uintptr_t)k->subs, .nsubs = k->nsubs, .host = k->host};
  cn_spec *spec = cni_alloc_zero((size_t)k->nout * sizeof *spec);
  if (!spec) return CN_ERR_MEMORY;
  int status = cni_control_infer(spec, &device, &n, k->args, k->in);
  for (int i = 0; i < k->nout && !status; i++) {
    results[i] = (cn_desc){.dtype = spec[i].dtype, .ndim = spec[i].ndim, .device = device};
    memcpy(results[i].shape, spec[i].shape, sizeof results[i].shape);
    memcpy(results[i].strides, spec[i].strides, sizeof results[i].strides);
  }
  cni_free(spec, (size_t)k->nout * sizeof *spec);
  return status;
}

/* The node, with its sub-graphs; negative on failure. */
static int add_node(cni_capture *cap, const cni_control_call *k, int *ids, const cn_desc *results)
{
  for (int i = 0; i < k->nin; i++) {
    ids[i] = k->in[i] ? cni_capture_read(cap, k->in[i]) : -1;
    if (k->in[i] && ids[i] < 0) return cn_err();
  }
  int node = cni_capture_call(cap, k->info, k->args, k->info->nparams, ids, k->nin, results, k->nout);
  if (node < 0) return node;
  cni_gnode *n = &cap->g->nodes[node];
  n->draw = k->draw;
  if (cni_gnode_hold(n, k->subs, k->nsubs)) {
    cni_gnode_free(n);
    cap->g->nnodes--;
    cap->g->nvalues -= (size_t)k->nout;
    return CN_ERR_MEMORY;
  }
  n->host = k->host ? cni_host_keep(k->host) : NULL;
  return node;
}

int cni_capture_control(cn_tensor **out, cni_capture *cap, const cni_control_call *k)
{
  size_t ids_bytes = (size_t)(k->nin + 1) * sizeof(int), results_bytes = (size_t)(k->nout + 1) * sizeof(cn_desc);
  int *ids = cni_alloc(ids_bytes);
  cn_desc *results = ids ? cni_alloc(results_bytes) : NULL;
  int status = results ? describe(results, k) : CN_ERR_MEMORY;
  int node = status ? status : add_node(cap, k, ids, results);
  for (int i = 0; i < k->nout && node >= 0; i++) {
    const cn_desc *d = &results[i];
    out[i] = cni_scope_add(cni_capture_handle(cap, d->device, d->dtype, d->ndim, d->shape, NULL,
                                              cap->g->nodes[node].out[i]));
    if (!out[i]) status = CN_ERR_MEMORY; /* the node is sound, and dead */
  }
  for (int i = 0; i < k->nsubs && node < 0; i++) cn_graph_free(k->subs[i]);
  cni_free(results, results_bytes);
  cni_free(ids, ids_bytes);
  return node < 0 ? node : status;
}
