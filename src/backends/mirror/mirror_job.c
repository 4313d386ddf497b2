/* mirror_job.c: a call as one block of memory that outlives it: arguments with their lists, descs of its
 * tensors, and the numbers it reads from host memory.
 *
 * Place in the flow: between mirror.c's kernel, which makes a job, and its stream, which runs it. Invariant:
 * nothing in a job points into the caller's memory. */
#include <string.h>

#include "mirror.h"

enum { ALIGN = 16 };

static size_t rounded(size_t n) { return (n + ALIGN - 1) / ALIGN * ALIGN; }

/* Bytes of what an argument points to. */
static size_t list_size(const cn_value *v)
{
  switch (v->tag) {
  case CN_V_TENSORS: return (size_t)v->n * sizeof *v->u.ts;
  case CN_V_INTS: return (size_t)v->n * sizeof *v->u.is;
  case CN_V_FLOATS: return (size_t)v->n * sizeof *v->u.fs;
  case CN_V_STR: return strlen(v->u.s) + 1;
  default: return 0;
  }
}

/* Takes n bytes of the block. */
static void *take(char **at, size_t n)
{
  void *p = *at;
  *at += rounded(n);
  return p;
}

static cn_value *copy_args(const cn_value *from, int nargs, char **at)
{
  cn_value *args = take(at, (size_t)nargs * sizeof *args);
  memcpy(args, from, (size_t)nargs * sizeof *args);
  for (int i = 0; i < nargs; i++) {
    size_t n = args[i].u.s ? list_size(&args[i]) : 0; /* a graph's lists of tensors are elsewhere */
    if (!n) continue;
    void *list = take(at, n);
    memcpy(list, args[i].u.s, n);
    args[i].u.s = list; /* one pointer, whichever member it is read through */
  }
  return args;
}

cn_value *cni_mirror_args(const cn_value *args, int nargs, size_t *size)
{
  *size = rounded((size_t)nargs * sizeof *args);
  for (int i = 0; i < nargs; i++) *size += rounded(list_size(&args[i]));
  char *at = cni_mirror_host->memory(*size);
  return at ? copy_args(args, nargs, &at) : NULL;
}

static bool in_host_memory(const cn_desc *d, cn_device device) { return d->weak || d->device != device; }

static void copy_desc(mirror_call *job, int k, const cn_tensor *t, cn_device device, char **at)
{
  job->there[k] = t != NULL;
  if (!t) return;
  job->desc[k] = *cn_desc_of(t);
  cn_desc *d = &job->desc[k];
  if (in_host_memory(d, device)) {
    size_t n = cn_element_bytes(d->dtype, d->numel);
    void *value = take(at, n);
    memcpy(value, d->data, n);
    d->data = value;
  } else if (d->data) {
    d->data = mirror_show(d->data);
  }
}

static size_t block_size(const cn_call *c)
{
  size_t operands = (size_t)(c->nin + c->nout), n = rounded(sizeof(mirror_call));
  n += rounded(operands * sizeof(cn_desc)) + rounded(operands * sizeof(bool));
  n += rounded((size_t)c->nargs * sizeof(cn_value)) + rounded((size_t)c->nout * sizeof(cn_spec));
  n += rounded((size_t)c->nin * sizeof(cn_tensor *)) + rounded((size_t)c->nout * sizeof(cn_tensor *));
  for (int i = 0; i < c->nargs; i++) n += rounded(list_size(&c->args[i]));
  for (int i = 0; i < c->nin; i++) {
    const cn_desc *d = c->in[i] ? cn_desc_of(c->in[i]) : NULL;
    if (d && in_host_memory(d, c->device)) n += rounded(cn_element_bytes(d->dtype, d->numel));
  }
  return n;
}

mirror_call *cni_mirror_call_new(const cn_call *c)
{
  size_t size = block_size(c), operands = (size_t)(c->nin + c->nout);
  char *at = cni_mirror_host->memory(size);
  if (!at) return NULL;
  mirror_call *job = take(&at, sizeof *job);
  job->head = (mirror_job){.size = size};
  job->call = *c;
  job->desc = take(&at, operands * sizeof *job->desc);
  job->there = take(&at, operands * sizeof *job->there);
  job->call.spec =
      memcpy(take(&at, (size_t)c->nout * sizeof *c->spec), c->spec, (size_t)c->nout * sizeof *c->spec);
  /* The inputs' handles are the caller's: they are only compared, to find which argument is which input. */
  cn_tensor **in = take(&at, (size_t)c->nin * sizeof *in);
  if (c->nin) memcpy(in, c->in, (size_t)c->nin * sizeof *in);
  job->call.in = in;
  job->call.out = take(&at, (size_t)c->nout * sizeof *c->out);
  job->call.args = copy_args(c->args, c->nargs, &at);
  for (int k = 0; k < c->nout; k++) copy_desc(job, k, c->out[k], c->device, &at);
  for (int k = 0; k < c->nin; k++) copy_desc(job, c->nout + k, c->in[k], c->device, &at);
  return job;
}

/* The tensor that stands for the caller's handle t. */
static cn_tensor *stand_in(const cn_call *c, cn_tensor *const *wrapped, const cn_tensor *t)
{
  for (int k = 0; k < c->nin; k++)
    if (c->in[k] == t) return wrapped[k];
  return NULL;
}

static void replace_handles(cn_value *args, const cn_call *c, cn_tensor *const *wrapped)
{
  for (int i = 0; i < c->nargs; i++) {
    if (args[i].tag == CN_V_TENSOR) args[i].u.t = stand_in(c, wrapped, args[i].u.t);
    if (args[i].tag != CN_V_TENSORS) continue;
    cn_tensor **list = (cn_tensor **)args[i].u.ts; /* a copy of our own */
    for (int k = 0; k < args[i].n; k++)
      if (list[k]) list[k] = stand_in(c, wrapped, list[k]);
  }
}

/* The call with tensors over host memory in it. Recorded ones may run again: the job keeps the caller's handles. */
static int run_wrapped(mirror_call *job, cn_tensor *const *wrapped)
{
  const cn_host *host = cni_mirror_host;
  cn_call c = job->call;
  size_t bytes;
  cn_value *args = cni_mirror_args(c.args, c.nargs, &bytes);
  if (!args) return CN_ERR_MEMORY;
  replace_handles(args, &c, wrapped + c.nout);
  c.args = args;
  c.in = wrapped + c.nout;
  for (int k = 0; k < c.nout; k++) c.out[k] = wrapped[k];
  if (c.random) { /* as it is now */
    const uint64_t *random = mirror_show(c.random);
    c.seed = random[0];
    c.offset += random[1];
  }
  int status = host->run_cpu(&c);
  host->free_memory(args, bytes);
  return status;
}

int cni_mirror_call_run(mirror_call *job)
{
  const cn_host *host = cni_mirror_host;
  cn_call *c = &job->call;
  size_t operands = (size_t)(c->nin + c->nout), bytes = (operands + 1) * sizeof(cn_tensor *);
  cn_tensor **wrapped = host->memory(bytes);
  int status = wrapped ? CN_OK : CN_ERR_MEMORY;
  for (size_t k = 0; wrapped && k < operands; k++) {
    wrapped[k] = !status && job->there[k] ? host->wrap(&job->desc[k]) : NULL;
    if (job->there[k] && !wrapped[k]) status = CN_ERR_MEMORY;
  }
  for (int k = 0; k < c->nout; k++) c->out[k] = NULL;
  if (!status) status = run_wrapped(job, wrapped);
  for (int k = 0; k < c->nout; k++)
    if (job->there[k]) c->out[k] = NULL; /* what is left was made by the kernel */
  for (size_t k = 0; wrapped && k < operands; k++)
    if (wrapped[k]) host->release_tensor(wrapped[k]);
  if (wrapped) host->free_memory(wrapped, bytes);
  return status;
}
