/* compiled.c: what a batch computes, as a compiled function: its loss, or loss, gradients and step as one program.
 *
 * Place in the flow: fit.c and evaluate.c, where .compile asks for it -> here -> cn_compiled_call. Invariant: the
 * function reads nothing that changes from batch to batch but the batch's tensors; what else it depends on (modules and
 * their modes, whether it makes a step) is in the key. */
#include <cairn/autograd.h>
#include <cairn/ops.h>

#include "fit.h"

enum { LOSS, OUTPUT, RESULTS };

/* One call. */
typedef struct work {
  cn_module *net;
  const cn_batch *batch;
  const cn_fit_opts *o;
  cn_fitting *fit; /* whose step it makes; NULL: the loss alone */
  int (*step)(cn_fitting *fit, cn_tensor *loss);
} work;

static int compute(cn_compile_call *k)
{
  const work *w = k->payload;
  cn_batch b = *w->batch;
  cn_tensor *output;
  for (size_t i = 0; i < b.n; i++) b.v[i] = k->inputs[i];
  b.x = b.n > 0 ? b.v[0] : NULL;
  b.y = b.n > 1 ? b.v[1] : NULL;
  cn_tensor *loss = cni_loss_of(&output, w->net, &b, w->o);
  if (loss && w->step) w->step(w->fit, loss);
  k->outputs[LOSS] = loss;
  k->outputs[OUTPUT] = cn_detach(output); /* nobody goes backward from it */
  k->noutputs = RESULTS;
  return cn_err();
}

static void put_module(cn_key *key, const cn_module *m)
{
  uint64_t few[256];
  size_t n = cn_module_key(few, sizeof few, m);
  void *all = n <= sizeof few ? few : cn_alloc(n);
  if (!all) return; /* the error is set, and the key has failed with it */
  if (all != few) cn_module_key(all, n, m);
  cn_key_put(key, all, n, "a module's parts, tensors or modes");
  if (all != few) cn_free(all, n);
}

static void put_key(cn_key *key, const cn_compile_call *k)
{
  const work *w = k->payload;
  bool whole = w->step != NULL;
  put_module(key, w->net);
  put_module(key, w->o->loss_module);
  cn_key_put(key, &whole, sizeof whole, "whether there is a step");
}

cn_compiled *cni_fit_compiled(const char *name) { return cn_compile(compute, .key = put_key, .name = name); }

static cn_tensor *call(cn_compiled *compiled, work *w, cn_tensor **output)
{
  cn_tensor *out[RESULTS] = {NULL};
  cn_compile_call k = {.inputs = w->batch->v, .ninputs = w->batch->n, .outputs = out, .noutputs = RESULTS,
                       .payload = w};
  int status = cn_compiled_call(compiled, &k);
  *output = out[OUTPUT];
  return status ? NULL : out[LOSS];
}

cn_tensor *cni_compiled_loss(cn_compiled *compiled, cn_tensor **output, cn_module *net, const cn_batch *batch,
                             const cn_fit_opts *o)
{
  if (!compiled) return cni_loss_of(output, net, batch, o);
  return call(compiled, &(work){.net = net, .batch = batch, .o = o}, output);
}

cn_tensor *cni_compiled_step(cn_fitting *fit, const cn_batch *batch, int (*step)(cn_fitting *fit, cn_tensor *loss))
{
  work w = {.net = fit->run.net, .batch = batch, .o = fit->o, .fit = fit, .step = step};
  return call(fit->compiled, &w, &fit->output);
}
