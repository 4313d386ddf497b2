/* batch.c: gradients of what stands for one example of a batch (vmap).
 *
 * Place in the flow: cn_grad_with (api.c) asks here first while a vmap runs. Records hold whole batches
 * (ops/batch.h), so
 * the walk begins at the batches of the results with the batches of their gradients, and what it finds for an input's
 * batch is a gradient for each example. Gradients to begin with may be examples where the results are not: then the ops
 * of the walk meet them in the door, as any others. Invariant: an input that is the same for all examples has no
 * gradient of one example; asking for it is an error. */
#include <cairn/ops.h>
#include <cairn/vmap.h>

#include "autograd.h"
#include "ops/batch.h"

static bool of(const cn_tensor *t, uint64_t vmap) { return t && t->batch && t->batch_level == vmap; }

/* The gradient that a result begins with, as that of its batch. Borrowed. */
static cn_tensor *seed_of(cn_tensor *output, cn_tensor *given, uint64_t vmap)
{
  if (given) return cni_batch_taken(given, vmap);
  if (output->d.numel == 1 || !output->d.ndim)
    return cn_full_like_with(output->batch, 1, &(cn_full_like_opts){.size = sizeof(cn_full_like_opts)});
  cni_fail(CN_ERR_GRAD, "grad: a gradient must be given for a result of more than one element");
  return NULL;
}

/* out, in, seeds: room for the batches. */
static int open_up(cn_tensor **out, cn_tensor **seeds, cn_tensor **in, cn_tensor *const *outputs, size_t noutputs,
                   cn_tensor *const *inputs, size_t ninputs, const cn_grad_opts *o, uint64_t vmap)
{
  bool mapped = false;
  for (size_t i = 0; i < noutputs; i++) {
    if (!outputs[i]) return cni_fail(CN_ERR_TYPE, "grad: output %zu is NULL", i);
    cn_tensor *given = o->grad_outputs ? o->grad_outputs[i] : NULL;
    bool mine = of(outputs[i], vmap);
    mapped |= mine;
    out[i] = mine ? outputs[i]->batch : outputs[i];
    seeds[i] = mine ? seed_of(outputs[i], given, vmap) : given;
    if (mine && !seeds[i]) return cn_err();
  }
  for (size_t i = 0; i < ninputs; i++) {
    if (!inputs[i]) return cni_fail(CN_ERR_TYPE, "grad: input %zu is NULL", i);
    in[i] = of(inputs[i], vmap) ? inputs[i]->batch : inputs[i];
    if (mapped && in[i] == inputs[i])
      return cni_fail(CN_ERR_GRAD, "grad: input %zu is one tensor for all examples of a vmap, the outputs are "
                                   "examples; differentiate by a tensor that func.grad or cn_batched_all made inside "
                                   "of it", i);
  }
  return CN_OK;
}

int cni_batch_grad(cn_tensor **grads, cn_tensor *const *outputs, size_t noutputs, cn_tensor *const *inputs,
                   size_t ninputs, const cn_grad_opts *opts, uint64_t vmap)
{
  size_t bytes = (2 * noutputs + ninputs + 1) * sizeof(cn_tensor *);
  cn_tensor **out = cni_alloc(bytes);
  if (!out) return CN_ERR_MEMORY;
  cn_tensor **seeds = out + noutputs, **in = seeds + noutputs;
  cn_grad_opts o = *opts;
  int status = open_up(out, seeds, in, outputs, noutputs, inputs, ninputs, opts, vmap);
  o.grad_outputs = seeds;
  if (!status) status = cn_grad_with(grads, out, noutputs, in, ninputs, &o);
  for (size_t i = 0; i < ninputs && !status; i++)
    if (grads[i] && of(inputs[i], vmap) && !(grads[i] = cn_batched(grads[i], 0, (int64_t)vmap))) status = cn_err();
  cni_free(out, bytes);
  return status;
}
