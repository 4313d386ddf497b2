/* fallback.c: ops that have no kernel here: by their decomposition, whose parts run on the device; those that have none
 * by the CPU's kernel on copies of their tensors, which is slow, and which CAIRN_VERBOSE=dispatch shows.
 *
 * Place in the flow: the kernel "*", tried last. CAIRN_CUDA_HOST=1 sends every op without a kernel to the host, as a
 * way to compare. Invariant: of the device's memory only the elements of results change. */
#include <string.h>

#include "plugin.h"

enum { MOST = 64 };

typedef struct operand {
  cn_desc desc; /* data: in `bytes`, or NULL where there is no such tensor */
  char *bytes;  /* copy of the memory between the first and the last element */
  char *from;   /* where that lies on the device */
  size_t size;
  cn_tensor *tensor;
} operand;

/* The elements' extent in memory, copied out. Host numbers stay where they are: the call is waited for. */
static int bring(operand *o, const cn_tensor *t, const cn_call *c)
{
  memset(o, 0, sizeof *o);
  if (!t) return CN_OK;
  o->desc = *cn_desc_of(t);
  cn_desc *d = &o->desc;
  if (!d->weak && d->device == c->device) {
    int64_t below = 0, above = 0, elem = (int64_t)cn_element_size(d->dtype);
    for (int i = 0; i < d->ndim && d->numel; i++)
      *(d->strides[i] < 0 ? &below : &above) += d->strides[i] * (d->shape[i] - 1);
    o->size = d->numel ? (size_t)((above - below + 1) * elem) : 1;
    o->from = (char *)d->data + below * elem;
    o->bytes = cni_cuda_host->memory(o->size);
    if (!o->bytes) return CN_ERR_MEMORY;
    d->data = o->bytes - below * elem;
    d->device = CN_CPU;
    int status = d->numel ? cni_cuda_copy_out(c->device & 0xff, o->bytes, o->from, o->size, c->stream) : CN_OK;
    if (status) return status;
  }
  o->tensor = cni_cuda_host->wrap(d);
  return o->tensor ? CN_OK : CN_ERR_MEMORY;
}

static void drop(operand *o)
{
  if (o->tensor) cni_cuda_host->release_tensor(o->tensor);
  if (o->bytes) cni_cuda_host->free_memory(o->bytes, o->size);
}

/* args with the tensors of c->in replaced by the copies'; `list` has room for as many as there are inputs. */
static void replace(cn_value *args, const cn_call *c, cn_tensor *const *copies, cn_tensor **list)
{
  int used = 0;
  memcpy(args, c->args, (size_t)c->nargs * sizeof *args);
  for (int i = 0; i < c->nargs; i++) {
    int n = args[i].tag == CN_V_TENSOR ? 1 : args[i].tag == CN_V_TENSORS ? args[i].n : 0;
    cn_tensor **first = list + used;
    for (int k = 0; k < n; k++) {
      const cn_tensor *t = args[i].tag == CN_V_TENSOR ? args[i].u.t : args[i].u.ts[k];
      cn_tensor *copy = NULL;
      for (int m = 0; m < c->nin && t; m++)
        if (c->in[m] == t) copy = copies[m];
      list[used++] = copy;
    }
    if (args[i].tag == CN_V_TENSOR) args[i].u.t = first[0];
    if (args[i].tag == CN_V_TENSORS) args[i].u.ts = first;
  }
}

/* Results that the CPU's kernel made itself go to fresh memory of the device. */
static int send_made(cn_call *c, int i, cn_tensor *made)
{
  const cn_desc *d = cn_desc_of(made);
  int status = cni_cuda_host->out_alloc(c, i, d->ndim, d->shape);
  if (!status)
    status = cni_cuda_copy_in(c->device & 0xff, cn_desc_of(c->out[i])->data, d->data,
                              cn_element_bytes(d->dtype, d->numel), c->stream);
  cni_cuda_host->release_tensor(made);
  return status;
}

static int run(cn_call *c, operand *in, operand *out)
{
  cn_tensor *inputs[MOST], *results[MOST], *list[MOST];
  cn_value args[CN_MAX_ARGS];
  cn_call copy = *c;
  for (int i = 0; i < c->nin; i++) inputs[i] = in[i].tensor;
  for (int i = 0; i < c->nout; i++) results[i] = out[i].tensor;
  replace(args, c, inputs, list);
  copy.args = args;
  copy.in = inputs;
  copy.out = results;
  int status = cni_cuda_host->run_cpu(&copy);
  for (int i = 0; i < c->nout; i++) {
    if (out[i].tensor && !status)
      status = cni_cuda_copy_in(c->device & 0xff, out[i].from, out[i].bytes, out[i].size, c->stream);
    if (!out[i].tensor && results[i] && !status) status = send_made(c, i, results[i]);
  }
  return status;
}

static bool host_first(void)
{
  const char *asked = cni_cuda_host->env("CAIRN_CUDA_HOST");
  return asked && strcmp(asked, "0") != 0;
}

static int host_kernel(cn_call *c)
{
  operand in[MOST], out[MOST];
  int nin = 0, nout = 0, status = CN_OK;
  bool listed = c->nin > MOST || c->nout > MOST || c->nargs > CN_MAX_ARGS;
  if (listed || !cni_cuda_host->cpu_has_kernel(c->op))
    return cni_cuda_refuse(c, "the CPU's kernel cannot stand in");
  cni_cuda_host->log(CN_LOG_DEBUG, "cuda: %s runs on the host: it has no kernel here",
                     cni_cuda_host->op_name(c->op));
  for (; nin < c->nin && !status; nin++) status = bring(&in[nin], c->in[nin], c);
  for (; nout < c->nout && !status; nout++) status = bring(&out[nout], c->out[nout], c);
  if (!status) status = run(c, in, out);
  while (nin) drop(&in[--nin]);
  while (nout) drop(&out[--nout]);
  return status;
}

static int any_kernel(cn_call *c)
{
  if (c->op->decompose && !host_first()) return cni_cuda_refuse(c, "left to its decomposition");
  return host_kernel(c);
}

/* index(input, indices), index_put(input, indices, values, accumulate): of more index tensors than index.c takes. */
static int index_kernel(cn_call *c)
{
  int count = 0;
  for (int i = 0; i < c->args[1].n; i++) count += c->args[1].u.ts[i] != NULL;
  return count > CNI_CUDA_INDICES ? host_kernel(c) : cni_cuda_refuse(c, "left to its decomposition");
}

const cn_kernel cni_cuda_fallback_kernels[] = {
    {"fft_c2c", "host", host_kernel}, /* where cuFFT is not */
    {"arange", "host", host_kernel},  /* of types for storage only, these three */
    {"linspace", "host", host_kernel},
    {"eye", "host", host_kernel},
    {"index", "host", index_kernel},
    {"index_put", "host", index_kernel},
    {"*", "host", any_kernel},
    {NULL, NULL, NULL},
};
