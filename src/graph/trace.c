/* trace.c: cn_trace: runs a function with its calls recorded, and makes the record a graph.
 *
 * Place in the flow: cn_trace -> the function, under capture.c's mode -> cn_graph. Invariant: outside, everything is as
 * it was before, whether the trace succeeded or not: tensors, gradients of leaves, random numbers. */
#include <cairn/graph.h>
#include <string.h>

#include "capture.h"
#include "ops/families.h"

static int add_inputs(cni_capture *cap, cn_tensor **handles, cn_tensor *const *inputs, size_t n)
{
  cn_graph *g = cap->g;
  for (size_t i = 0; i < n; i++) {
    if (!inputs[i]) return cni_fail(CN_ERR_TYPE, "trace: input %zu is NULL", i);
    const cn_desc *d = &inputs[i]->d;
    cni_gvalue v = {.kind = CNI_VALUE_INPUT, .dtype = d->dtype, .ndim = d->ndim, .device = d->device,
                    .index = (int32_t)i};
    memcpy(v.shape, d->shape, (size_t)d->ndim * sizeof *v.shape);
    memcpy(v.strides, d->strides, (size_t)d->ndim * sizeof *v.strides);
    v.has_strides = !cni_is_contiguous(d->ndim, d->shape, d->strides);
    int value = cni_graph_add_value(g, &v);
    if (value < 0 || cni_graph_add_list(&g->inputs, &g->ninputs, &g->inputs_cap, value)) return CN_ERR_MEMORY;
    handles[i] = cni_scope_add(
      cni_capture_handle(cap, d->device, d->dtype, d->ndim, d->shape, v.has_strides ? d->strides : NULL, value));
    if (!handles[i]) return CN_ERR_MEMORY;
  }
  g->free_dims = cni_alloc_zero(n * sizeof *g->free_dims);
  return g->free_dims ? CN_OK : CN_ERR_MEMORY;
}

static int add_outputs(cni_capture *cap, cn_tensor *const *outputs, size_t n)
{
  cn_graph *g = cap->g;
  for (size_t i = 0; i < n; i++) {
    if (!outputs[i]) return cni_fail(CN_ERR_VALUE, "trace: the function left output %zu unset", i);
    int value = cni_capture_value(cap, outputs[i]);
    if (value < 0) return cn_err();
    if (cni_graph_add_list(&g->outputs, &g->noutputs, &g->outputs_cap, value)) return CN_ERR_MEMORY;
  }
  return CN_OK;
}

/* The function under the mode. Ends with the mode off, leaves and random numbers as they were. */
static int run_captured(cni_capture *cap, cn_graph_fn fn, cn_tensor **outputs, size_t noutputs,
                        cn_tensor *const *handles, void *payload)
{
  cn_state *st = cni_state();
  cni_draws_begin(cap);
  st->capture = cap;
  st->modes |= CNI_MODE_CAPTURE;
  int status = fn(outputs, handles, payload);
  if (!status) status = st->err ? st->err : add_outputs(cap, outputs, noutputs);
  else if (!st->err) cni_fail(status, "trace: the function failed");
  if (!status) status = cni_leaves_finish(cap);
  st->modes &= ~(uint32_t)CNI_MODE_CAPTURE;
  st->capture = NULL;
  cni_leaves_restore(cap);
  cni_draws_end(cap);
  return status;
}

static int run_traced(cni_capture *cap, cn_graph_fn fn, size_t noutputs, cn_tensor *const *inputs, size_t ninputs,
                      void *payload)
{
  cn_tensor **outputs = cni_alloc_zero((noutputs + 1) * sizeof *outputs);
  cn_tensor **handles = outputs ? cni_alloc_zero((ninputs + 1) * sizeof *handles) : NULL;
  int status = handles ? add_inputs(cap, handles, inputs, ninputs) : CN_ERR_MEMORY;
  if (!status) status = run_captured(cap, fn, outputs, noutputs, handles, payload);
  cni_free(outputs, (noutputs + 1) * sizeof *outputs);
  cni_free(handles, (ninputs + 1) * sizeof *handles);
  return status;
}

cn_graph *cn_trace(cn_graph_fn fn, size_t noutputs, cn_tensor *const *inputs, size_t ninputs, void *payload)
{
  static _Atomic uint64_t next_serial = 1;
  cn_state *st = cni_state();
  if (st->err) return NULL;
  cni_init();
  if (st->capture) {
    cni_fail(CN_ERR_CAPTURE, "trace: a graph is being captured already");
    return NULL;
  }
  cni_capture cap = {.g = cni_graph_new(), .serial = atomic_fetch_add(&next_serial, 1) & 0xffffffffu};
  if (!cap.g) return NULL;
  size_t depth = cni_scope_push();
  int status = run_traced(&cap, fn, noutputs, inputs, ninputs, payload);
  cni_scope_pop(depth);
  for (size_t i = 0; i < cap.nmemories; i++) {
    cni_storage_release(cap.memories[i].storage);
    cni_tensor_release(cap.memories[i].root);
  }
  cni_free(cap.memories, cap.memories_cap * sizeof *cap.memories);
  cni_free(cap.open, cap.open_cap * sizeof *cap.open);
  if (!status && cn_graph_remove_dead(cap.g) < 0) status = cn_err();
  if (!status) return cap.g;
  cn_graph_free(cap.g);
  return NULL;
}
