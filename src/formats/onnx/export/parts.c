/* parts.c: a call as what its op is made of: traced here, and written in its place.
 *
 * Place in the flow: graph.c, for ops without a row, and calls that rows refuse. Invariant: open sizes stay open:
 * sizes of the operands that are the same in the graph are the same in what is traced. */
#include <cairn/autograd.h>
#include <cairn/cairn.h>
#include <cairn/device.h>
#include <stdio.h>
#include <string.h>

#include "walk.h"

typedef struct parts {
  const cni_oxcall *c;
  int *in, *given; /* values of the graph of one call; which operands are its inputs */
  size_t ninputs;
  cn_free_dim *dims;
  char (*names)[16];
  size_t ndims;
} parts;

static bool is_taken_apart(const cn_op *op, void *payload)
{
  const parts *p = payload;
  return op == p->c->op;
}

/* A graph of this one call, of the inputs' sizes; numbers stay numbers. */
static cn_graph *graph_of_call(const parts *p, cn_tensor *const *inputs)
{
  const cni_oxcall *c = p->c;
  cn_device meta = cn_device_find("meta");
  cn_graph *g = cn_graph_new();
  int out[64];
  size_t nout = 64, n = 0;
  for (int k = 0; k < c->nin && g; k++) {
    const cni_oxval *x = &c->in[k];
    cn_value number = x->dtype == CN_F64    ? cn_v_float(x->f)
                      : x->dtype == CN_BOOL ? cn_v_bool(x->i != 0)
                                            : cn_v_int(x->i);
    p->in[k] = -1;
    if (!cni_ox_there(x)) continue;
    if (x->number) p->in[k] = cn_graph_add_number(g, number);
    else {
      const cn_desc *d = cn_desc_of(inputs[n++]);
      p->in[k] = cn_graph_add_input(g, meta, (cn_dtype)d->dtype, d->ndim, d->shape);
    }
  }
  int node = g ? cn_graph_add_node(out, &nout, g, c->op, c->args, (size_t)c->nargs, p->in, (size_t)c->nin) : -1;
  int status = node < 0 ? -1 : 0;
  for (int k = 0; k < c->nout && !status; k++) status = cn_graph_add_output(g, out[k]);
  if (!status) return g;
  cn_graph_free(g);
  return NULL;
}

static int run_parts(cn_tensor **outputs, cn_tensor *const *inputs, void *payload)
{
  void *paused = cn_trace_pause();
  cn_graph *one = graph_of_call(payload, inputs);
  cn_trace_resume(paused);
  int status =
      one ? cn_graph_replay(outputs, one, inputs, .decompose = is_taken_apart, .payload = payload) : cn_err();
  cn_graph_free(one);
  return status;
}

/* ---- sizes ---- */

static bool same_size(const cni_oxwalk *w, int a, int i, int b, int k)
{
  for (int p = 0; p < CNI_OX_PROBES; p++)
    if (cni_oxwalk_dim(w, p, a)[i] != cni_oxwalk_dim(w, p, b)[k]) return false;
  return true;
}

/* The name of the first dim before (operand n, dim k) that is always of its size; -1: none. */
static int earlier(const parts *p, const int *values, int value, int k)
{
  for (size_t i = 0; i < p->ndims; i++)
    if (same_size(p->c->walk, values[p->given[p->dims[i].input]], p->dims[i].dim, value, k)) return (int)i;
  return -1;
}

static int free_dims(parts *p)
{
  cn_graph_node n = {sizeof n};
  const cni_oxcall *c = p->c;
  if (cn_graph_node_at(&n, c->graph, c->node)) return cn_err();
  for (size_t i = 0; i < p->ninputs; i++) {
    const cni_oxval *x = &c->in[p->given[i]];
    for (int k = 0; k < x->ndim; k++) {
      if (!(x->open >> k & 1)) continue;
      int before = earlier(p, n.in, n.in[p->given[i]], k);
      char *name = p->names[p->ndims];
      snprintf(name, 16, "n%d", before < 0 ? (int)p->ndims : before);
      p->dims[p->ndims++] = (cn_free_dim){i, k, name, 0, 0};
    }
  }
  return CN_OK;
}

/* ---- tracing ---- */

static cn_graph *traced(parts *p)
{
  size_t n = p->ninputs, bytes = (n + 1) * sizeof(cn_tensor *);
  cn_tensor **inputs = cn_alloc_zero(bytes);
  cn_scope *scope = cn_scope_begin();
  int cast = cn_autocast_begin(CN_DTYPE_NONE), grad = cn_no_grad_begin();
  for (size_t k = 0; k < n && inputs; k++) {
    const cni_oxval *x = &p->c->in[p->given[k]];
    inputs[k] = cn_empty(x->shape, (size_t)x->ndim, .dtype = (cn_dtype)x->dtype, .device = cn_device_find("meta"));
  }
  cn_graph *g = NULL;
  size_t nout = (size_t)p->c->nout;
  if (inputs && !cn_err() && !free_dims(p))
    g = p->ndims ? cn_trace_dynamic(run_parts, nout, inputs, n, p->dims, p->ndims, p)
                 : cn_trace(run_parts, nout, inputs, n, p);
  cn_no_grad_end(grad);
  cn_autocast_end(cast);
  cn_scope_end(scope);
  if (inputs) cn_free(inputs, bytes);
  return g;
}

static void refuse(cni_oxcall *c)
{
  char why[200];
  size_t m = strlen(cn_err_message());
  memcpy(why, cn_err_message(), m = m < sizeof why - 1 ? m : sizeof why - 1);
  why[m] = 0;
  if (cn_err() == CN_ERR_MEMORY) c->x->failed = true;
  if (c->x->failed) return;
  cn_err_clear();
  cni_ox_fail(c->x, CN_ERR_UNSUPPORTED, "%s cannot be taken apart: %s", c->name, why);
}

void cni_ox_parts(cni_oxcall *c)
{
  size_t n = (size_t)c->nin + 1, open = 0;
  for (int k = 0; k < c->nin; k++) open += (size_t)c->in[k].ndim;
  for (int i = 0; i < c->nargs; i++)
    if (cni_oxarg_open(c, i)) {
      cni_ox_fail(c->x, CN_ERR_UNSUPPORTED, "%s: an argument of it follows from sizes that are open", c->name);
      return;
    }
  size_t bytes = n * (2 * sizeof(int) + sizeof(cni_oxval)), dims = (open + 1) * (sizeof(cn_free_dim) + 16);
  cni_oxval *inputs = cn_alloc_zero(bytes);
  parts p = {.c = c, .in = inputs ? (int *)(void *)(inputs + n) : NULL, .dims = cn_alloc_zero(dims)};
  p.given = p.in ? p.in + n : NULL;
  p.names = p.dims ? (char(*)[16])(void *)(p.dims + open + 1) : NULL;
  for (int k = 0; k < c->nin && p.in; k++)
    if (c->in[k].id >= 0) p.given[p.ninputs++] = k;
  cn_graph *made = p.in && p.dims ? traced(&p) : NULL;
  for (size_t k = 0; k < p.ninputs && made; k++) inputs[k] = c->in[p.given[k]];
  if (made) cni_ox_write_graph(c->x, made, inputs, c->out);
  else refuse(c);
  cn_graph_free(made);
  if (p.dims) cn_free(p.dims, dims);
  if (inputs) cn_free(inputs, bytes);
}
