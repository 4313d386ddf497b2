/* inside.c: sub-graphs while they are captured, and the nodes that hold them.
 *
 * Place in the flow: compile/control.c begins a capture inside of the one that goes on, and calls the function it was
 * given; the door of ops (apply.c) asks here for every tensor: one from outside is replaced by an input of the
 * sub-graph, above autograd, so that gradients end there and not in what is outside. The capture of a sub-graph ends as
 * any other (trace.c), and a node that holds it is recorded in the outer capture, with the tensors that were met as
 * operands. Invariant: what a sub-graph reads is made in it or is one of its inputs. */
#include <cairn/autograd.h>
#include <string.h>

#include "capture.h"
#include "control.h"

bool cni_same_tensor(const cn_tensor *a, const cn_tensor *b)
{
  return a == b || (a->storage == b->storage && a->offset == b->offset && a->d.dtype == b->d.dtype &&
                    cni_same_layout(&a->d, &b->d) && a->node == b->node && a->out_index == b->out_index);
}

cn_tensor *cni_bring_one_inside(cn_tensor *t)
{
  cni_capture *cap = cni_capturing();
  if ((t->d.weak && t->d.data) || cni_capture_has(cap, t)) return t; /* a number that is known stays one */
  for (size_t i = 0; i < cap->nmet; i++)
    if (cni_same_tensor(cap->met[i].from, t)) return cap->met[i].to;
  cn_desc d = t->d;
  if (!cni_is_dense(d.ndim, d.shape, d.strides)) cni_contiguous_strides(d.ndim, d.shape, d.strides);
  if (cni_grow((void **)&cap->met, &cap->met_cap, cap->nmet + 1, sizeof *cap->met)) return NULL;
  cn_tensor *input = cni_trace_input(cap, &d);
  if (!input || (cn_needs_grad(t) && !cn_requires_grad(input, true))) return NULL;
  cap->met[cap->nmet++] = (cni_met){cni_tensor_keep(t), cni_tensor_keep(input), cap->g->ninputs - 1};
  return input;
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
    ids[i] = k->in[i] ? cni_capture_value(cap, k->in[i]) : -1;
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
