/* fallback.c: calls that cannot be part of a program, by the CPU's kernels on copies of their tensors: slow, and told
 * by CAIRN_VERBOSE=dispatch. Ops that are made of others are left to their decomposition.
 *
 * Place in the flow: the last rows of the kernel table. Invariant: of the device's memory only results change. */
#include <string.h>

#include "plugin.h"

#define host cni_pjrt_host

enum { MOST = 64 };

/* A copy of the memory between a tensor's first and last element, and a tensor over it. */
typedef struct copy {
  char *bytes, *from;
  size_t size;
  cn_tensor *tensor;
} copy;

static int bring(copy *o, const cn_tensor *t, const cn_call *c)
{
  *o = (copy){NULL, NULL, 0, NULL};
  if (!t) return CN_OK;
  cn_desc d = *cn_desc_of(t);
  if (!d.weak && d.device == c->device) {
    int64_t below = 0, above = 0, elem = (int64_t)cn_element_size(d.dtype);
    for (int i = 0; i < d.ndim && d.numel; i++)
      *(d.strides[i] < 0 ? &below : &above) += d.strides[i] * (d.shape[i] - 1);
    o->size = d.numel ? (size_t)((above - below + 1) * elem) : 1;
    o->from = (char *)d.data + below * elem;
    if (!(o->bytes = host->memory(o->size))) return CN_ERR_MEMORY;
    int status = d.numel ? cni_pjrt_copy_out(c->device & 0xff, o->bytes, o->from, o->size, NULL) : CN_OK;
    if (status) return status;
    d.data = o->bytes - below * elem;
    d.device = CN_CPU;
  }
  return (o->tensor = host->wrap(&d)) ? CN_OK : CN_ERR_MEMORY;
}

static void drop(copy *o)
{
  if (o->tensor) host->release_tensor(o->tensor);
  if (o->bytes) host->free_memory(o->bytes, o->size);
}

/* A result that the CPU's kernel made itself, of a size that it found. */
static int send_made(cn_call *c, int i, cn_tensor *made)
{
  const cn_desc *d = cn_desc_of(made);
  int status = host->out_alloc(c, i, d->ndim, d->shape);
  if (!status)
    status = cni_pjrt_copy_in(c->device & 0xff, cn_desc_of(c->out[i])->data, d->data,
                              cn_element_bytes(d->dtype, d->numel), NULL);
  host->release_tensor(made);
  return status;
}

static int run(cn_call *c, copy *in, copy *out)
{
  cn_tensor *inputs[MOST], *results[MOST];
  cn_value args[CN_MAX_ARGS];
  cn_call on_cpu = *c;
  for (int i = 0; i < c->nin; i++) inputs[i] = in[i].tensor;
  for (int i = 0; i < c->nout; i++) results[i] = out[i].tensor;
  memcpy(args, c->args, (size_t)c->nargs * sizeof *args);
  host->graph->fill(args, c->op, inputs);
  on_cpu.args = args;
  on_cpu.in = inputs;
  on_cpu.out = results;
  int status = host->run_cpu(&on_cpu);
  for (int i = 0; i < c->nout; i++) {
    if (out[i].tensor && !status && cn_desc_of(c->out[i])->numel)
      status = cni_pjrt_copy_in(c->device & 0xff, out[i].from, out[i].bytes, out[i].size, NULL);
    if (!out[i].tensor && results[i] && !status) status = send_made(c, i, results[i]);
  }
  return status;
}

int cni_pjrt_on_host(cn_call *c)
{
  copy in[MOST], out[MOST];
  int nin = 0, nout = 0, status = CN_OK;
  if (c->nin > MOST || c->nout > MOST) return CN_REFUSED;
  host->log(CN_LOG_DEBUG, "pjrt: %s runs on the host: it cannot be part of a program", host->op_name(c->op));
  for (; nin < c->nin && !status; nin++) status = bring(&in[nin], c->in[nin], c);
  for (; nout < c->nout && !status; nout++) status = bring(&out[nout], c->out[nout], c);
  if (!status) status = run(c, in, out);
  while (nin) drop(&in[--nin]);
  while (nout) drop(&out[--nout]);
  return status;
}

int cni_pjrt_can_host(const cn_call *c, cn_plan *plan)
{
  plan->refusal = "left to its decomposition";
  if (c->op->decompose) return CN_REFUSED;
  plan->refusal = "the CPU's kernel cannot stand in";
  return host->cpu_has_kernel(c->op) && c->nin <= MOST && c->nout <= MOST ? CN_OK : CN_REFUSED;
}
