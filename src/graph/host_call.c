/* host_call.c: cn_host_call: a C function that eager code calls at once, and a graph whenever it runs.
 *
 * Place in the flow: under capture a node is recorded (inside.c), which holds a reference to what is called; run.c ends
 * in cni_host_run. Invariant: the function sees row-major tensors of the host, whatever device the graph is on. */
#include <cairn/ext/op.h>
#include <cairn/ops.h>
#include <string.h>

#include "base/dtype.h"
#include "capture.h"
#include "control.h"
#include "ops/families.h"

void cni_host_release(cni_host *h)
{
  if (!h || atomic_fetch_sub_explicit(&h->refs, 1, memory_order_acq_rel) != 1) return;
  if (h->payload_free) h->payload_free(h->payload);
  cn_string_free(h->name);
  cni_free(h->results, h->nresults * sizeof *h->results);
  cni_free(h, sizeof *h);
}

cni_host *cni_host_keep(cni_host *h)
{
  atomic_fetch_add_explicit(&h->refs, 1, memory_order_relaxed);
  return h;
}

/* ---- running ---- */

/* As the function is to see it: borrowed from the scope, or t itself. */
static cn_tensor *on_host(cn_tensor *t)
{
  cn_tensor *host = t->d.device == CN_CPU ? t : cn_to_device(t, CN_CPU);
  return host ? cn_contiguous(host) : NULL;
}

static int call(const cni_host *h, cn_tensor **in, size_t nin, cn_tensor **out, cn_tensor *const *to)
{
  for (size_t i = 0; i < h->nresults; i++) {
    const cn_desc *d = &to[i]->d;
    bool fits = d->device == CN_CPU && cni_is_contiguous(d->ndim, d->shape, d->strides);
    out[i] = fits ? to[i] : cni_scope_add(cni_tensor_new(CN_CPU, d->dtype, d->ndim, d->shape, NULL));
    if (!out[i]) return CN_ERR_MEMORY;
  }
  int status = h->fn(out, h->nresults, in, nin, h->payload);
  if (!status) status = cn_err();
  if (status) return cn_err() ? cn_err() : cni_fail(status, "host_call: %s failed", h->name);
  for (size_t i = 0; i < h->nresults && !status; i++) {
    if (out[i] == to[i]) continue;
    cn_tensor *moved = cn_to_device(out[i], to[i]->d.device);
    status = moved ? cni_copy_elements(to[i], moved) : cn_err();
  }
  return status;
}

int cni_host_run(const cni_host *h, cn_tensor *const *in, int nin, cn_tensor *const *to)
{
  size_t n = (size_t)nin, bytes = (n + h->nresults + 1) * sizeof(cn_tensor *), depth = cni_scope_push();
  cn_tensor **all = cni_alloc(bytes);
  int status = all ? CN_OK : CN_ERR_MEMORY;
  for (size_t i = 0; i < n && !status; i++)
    if (!(all[i] = on_host(in[i]))) status = cn_err();
  if (!status) status = call(h, all, n, all + n, to);
  cni_free(all, bytes);
  cni_scope_pop(depth);
  return status;
}

/* ---- calling ---- */

static int check_results(const cn_host_result *results, size_t n)
{
  if (!n || !results) return cni_fail(CN_ERR_VALUE, "host_call: it needs a result: give one that nobody reads");
  for (size_t i = 0; i < n; i++) {
    int64_t numel;
    if (!cni_dtype_valid((int)results[i].dtype) || results[i].ndim < 0 || results[i].ndim > CN_MAX_DIMS)
      return cni_fail(CN_ERR_VALUE, "host_call: result %zu has no type or no shape", i);
    int status = cni_shape_check("host_call", results[i].ndim, results[i].shape, cni_dtype_size((int)results[i].dtype),
                                 &numel);
    if (status) return status;
  }
  return CN_OK;
}

/* Owned; the payload is taken over in any case. NULL with the error set. */
static cni_host *host_new(const cn_host_result *results, size_t n, cn_host_fn fn, void *payload,
                          const cn_host_call_opts *o)
{
  int status = cn_err();
  if (!status) status = fn ? check_results(results, n) : cni_fail(CN_ERR_TYPE, "host_call: the function is NULL");
  cni_host *h = status ? NULL : cni_alloc_zero(sizeof *h);
  if (!h) {
    if (o->payload_free) o->payload_free(payload);
    return NULL;
  }
  atomic_init(&h->refs, 1);
  h->fn = fn;
  h->payload = payload;
  h->payload_free = o->payload_free;
  h->name = cni_strdup(o->name ? o->name : "a function");
  h->results = h->name ? cni_alloc(n * sizeof *h->results) : NULL;
  if (h->results) {
    h->nresults = n;
    memcpy(h->results, results, n * sizeof *h->results);
    return h;
  }
  cni_host_release(h);
  return NULL;
}

static int capture(cn_tensor **out, cni_host *h, cn_tensor *const *in, size_t nin)
{
  cn_value list = cn_v_tensors(NULL, nin);
  cni_control_call k = {.info = cni_control_op(CNI_CONTROL_HOST), .args = &list, .in = in, .nin = (int)nin,
                        .nout = (int)h->nresults, .host = h, .draw = -1};
  return k.info ? cni_capture_control(out, cni_capturing(), &k) : cn_err();
}

static int run_now(cn_tensor **out, const cni_host *h, cn_tensor *const *in, size_t nin)
{
  cn_state *st = cni_state();
  bool no_grad = st->no_grad;
  int status = CN_OK;
  cn_device device = nin ? in[0]->d.device : CN_CPU;
  for (size_t i = 0; i < h->nresults && !status; i++) {
    const cn_host_result *r = &h->results[i];
    out[i] = cni_scope_add(cni_tensor_new(device, (int)r->dtype, r->ndim, r->shape, NULL));
    if (!out[i]) status = CN_ERR_MEMORY;
  }
  st->no_grad = true;
  if (!status) status = cni_host_run(h, in, (int)nin, out);
  st->no_grad = no_grad;
  return status;
}

int cni_host_call(cn_tensor **out, cni_host *h, cn_tensor *const *inputs, size_t ninputs)
{
  bool inside = (cni_state()->modes & CNI_MODE_INSIDE) != 0;
  cn_tensor **in = cni_alloc((ninputs + 1) * sizeof *in);
  int status = in ? CN_OK : CN_ERR_MEMORY;
  for (size_t i = 0; i < ninputs && !status; i++) {
    if (!inputs[i]) status = cni_fail(CN_ERR_TYPE, "host_call: input %zu is NULL", i);
    else if (inputs[i]->d.weak) status = cni_fail(CN_ERR_TYPE, "host_call: input %zu is a number, not a tensor", i);
    else if (!(in[i] = inside ? cni_bring_one_inside(inputs[i]) : inputs[i])) status = cn_err();
  }
  for (size_t i = 0; i < h->nresults; i++) out[i] = NULL;
  if (!status) status = cni_capturing() ? capture(out, h, in, ninputs) : run_now(out, h, in, ninputs);
  cni_free(in, (ninputs + 1) * sizeof *in);
  return status;
}

int cn_host_call_with(cn_tensor **outputs, const cn_host_result *results, size_t nresults, cn_tensor *const *inputs,
                      size_t ninputs, cn_host_fn fn, void *payload, const cn_host_call_opts *opts)
{
  cn_host_call_opts o = {.size = sizeof o};
  if (opts) memcpy(&o, opts, opts->size < sizeof o ? opts->size : sizeof o);
  cni_init();
  cni_host *h = host_new(results, nresults, fn, payload, &o);
  if (!h) return cn_err();
  int status = cni_host_call(outputs, h, inputs, ninputs);
  cni_host_release(h);
  return status;
}
