/* lower.c: the driver that computes what kernels compute by loops (graph/loop): every kernel call of every sample whose
 * op has a nest, and every view, is lowered, verified, written as text and read back, run, and compared: to the bit, or
 * within the family's tolerance where it adds in another order.
 *
 * Place in the flow: takes the place of the dispatcher (cni_run_kernel) while a sample runs, so that composite ops are
 * seen as what they are made of. Invariant: the sample itself computes with the kernels' results. */
#include <stdio.h>
#include <string.h>

#include "backends/cpu/loop/nest_run.h"
#include "drivers.h"
#include "ops/apply.h"
#include "tensor/tensor.h"
#include "test.h"

enum { MOST_OPERANDS = 64, MOST_OPS = 2000, LEAST_OPS = 200 };

static int (*dispatcher)(cn_call *call, const cni_opinfo *info);
static const family *now;
static char first[500]; /* what was wrong first; "": nothing */
static bool lowered[MOST_OPS]; /* by the op's number */
static size_t nsamples;

static void wrong(const cni_opinfo *info, const char *what, const char *why)
{
  if (!first[0]) snprintf(first, sizeof first, "%s: %s: %s", info->name, what, why);
}

static cni_nest_operand operand_of(const cn_desc *d)
{
  cni_nest_operand o = {.dtype = d->dtype, .ndim = d->ndim};
  memcpy(o.shape, d->shape, sizeof o.shape);
  return o;
}

static int verify(const cni_nest *n, const cn_call *c)
{
  cni_nest_operand in[MOST_OPERANDS] = {{0}}, out[CNI_MAX_RESULTS];
  for (int i = 0; i < c->nin; i++)
    if (c->in[i]) in[i] = operand_of(cn_desc_of(c->in[i]));
  for (int i = 0; i < n->nstores; i++) out[i] = operand_of(cn_desc_of(c->out[i]));
  return cni_nest_verify(n, in, c->nin, out, n->nstores);
}

static bool adds(const cni_nest *n)
{
  for (int k = 0; n->then && k < n->body->nout; k++)
    if (n->fold[k].fold <= CNI_FOLD_PROD) return true;
  return false;
}

/* The nest over fresh memory, beside the kernel's results. */
static void run(const cni_nest *n, const cn_call *c, const cni_opinfo *info, const char *how)
{
  const cn_desc *in[MOST_OPERANDS], *out[CNI_MAX_RESULTS];
  cn_tensor *have[CNI_MAX_RESULTS] = {NULL};
  char why[300] = "";
  if (verify(n, c)) wrong(info, how, cn_err_message());
  for (int i = 0; i < c->nin; i++) in[i] = c->in[i] ? cn_desc_of(c->in[i]) : NULL;
  for (int i = 0; i < n->nstores; i++) {
    const cn_desc *d = cn_desc_of(c->out[i]);
    have[i] = cni_tensor_new(d->device, d->dtype, d->ndim, d->shape, NULL);
    if (!have[i]) wrong(info, how, "no memory");
    else out[i] = cn_desc_of(have[i]);
  }
  if (!first[0] && cni_nest_run(n, c, in, out)) wrong(info, how, cn_err_message());
  for (int i = 0; i < n->nstores && !first[0]; i++)
    if (!same_tensors(have[i], c->out[i], adds(n) ? 4 * now->scale : 0, why, sizeof why)) wrong(info, how, why);
  for (int i = 0; i < n->nstores; i++) cni_tensor_release(have[i]);
}

/* What is written reads back as what it was. */
static void reread(const cni_nest *n, const cn_call *c, const cni_opinfo *info)
{
  cni_nest again = {0};
  char *text = cni_nest_to_string(n), *twice = NULL;
  if (!text || cni_nest_parse(&again, text)) wrong(info, text ? text : "text", cn_err_message());
  else if (!(twice = cni_nest_to_string(&again)) || strcmp(text, twice)) wrong(info, text, twice ? twice : "no text");
  else run(&again, c, info, "from its text");
  cn_string_free(text);
  cn_string_free(twice);
  cni_nest_free(&again);
}

static void lower(const cn_call *c, const cni_opinfo *info)
{
  cni_nest n;
  if (first[0] || c->nin > MOST_OPERANDS || c->device != CN_CPU || !cni_lowers(c->op)) return;
  int status = cni_lower(&n, c);
  if (status == CN_REFUSED) return;
  if (status) {
    wrong(info, "lower", cn_err_message());
    return;
  }
  run(&n, c, info, "run");
  if (!first[0]) reread(&n, c, info);
  if (!first[0]) lowered[info->id] = true;
  cni_nest_free(&n);
}

/* Has a result memory of its own? A kernel that wrote over its input cannot be run again. */
static bool is_fresh(const cn_call *c)
{
  for (int k = 0; k < c->nout; k++)
    for (int i = 0; i < c->nin; i++)
      if (!c->out[k] || (c->in[i] && c->in[i]->storage == c->out[k]->storage)) return false;
  return true;
}

static int watch(cn_call *c, const cni_opinfo *info)
{
  int status = dispatcher(c, info);
  if (status || !is_fresh(c)) return status;
  cni_run_kernel = dispatcher;
  lower(c, info);
  cn_err_clear();
  cni_run_kernel = watch;
  return status;
}

/* A view has no kernel: the call itself. */
static void lower_call(const call *c, const call_result *r)
{
  cn_tensor *out[SAMPLE_RESULTS];
  memcpy(out, r->out, sizeof out);
  cn_call k = {.op = c->s->info->row, .args = c->args, .in = (cn_tensor *const *)c->in, .out = out, .nargs = c->nargs,
               .nin = c->nin, .nout = (int)r->nout, .device = CN_CPU};
  bool named = !strcmp(c->s->info->name, "max_pool2d"); /* composite, but has a nest */
  if ((k.op->flags & CN_OP_VIEW) || named) lower(&k, c->s->info);
}

enum outcome drive_lower(const trial *t)
{
  call c;
  call_result r = {0};
  if (t->s->must_fail || sample_is_sparse(t->s)) return PASS; /* what they are made of is lowered */
  if (call_make(&c, t->s, &(call_setup){0})) return trial_fail(t, "inputs: %s", cn_err_message());
  cn_seed(1);
  first[0] = 0;
  now = t->family;
  nsamples++;
  if (cni_run_kernel != watch) dispatcher = cni_run_kernel; /* unless a sample before crashed */
  cni_run_kernel = watch;
  int status = call_run(&r, &c, NULL);
  cni_run_kernel = dispatcher;
  if (!status) lower_call(&c, &r);
  enum outcome o = status ? trial_fail(t, "%s", cn_err_message()) : first[0] ? trial_fail(t, "%s", first) : PASS;
  cn_err_clear();
  call_result_free(&r);
  call_free(&c);
  return o;
}

/* Behind all families: so many ops were computed by loops. */
void lowered_ops(void **state)
{
  size_t count = 0;
  (void)state;
  static const char *const wanted[] = {"add", "where", "cast", "expand", "permute", "slice", "view", "constant_pad_nd",
                                       "cat", "sum", "mean", "amax", "prod", "mm", "bmm", "linear", "conv2d",
                                       "max_pool2d", "avg_pool2d", "gather", "index_select", "embedding", "pointwise"};
  for (int i = 0; i < MOST_OPS; i++) count += lowered[i];
  if (nsamples < 1000) return; /* a part of the samples, or another driver alone */
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
    if (!lowered[cni_op_by_name(wanted[i])->id]) fail_msg("%s was not computed by loops", wanted[i]);
  if (count < LEAST_OPS) fail_msg("only %zu ops have loops that run", count);
}
