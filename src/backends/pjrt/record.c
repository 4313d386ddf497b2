/* record.c: the kernels: they compute nothing, but add the call to the program that is being collected.
 *
 * Place in the flow: the dispatcher asks can_any, then hands calls over; pending.c runs them later. Invariant: a call
 * is taken only if the graph of it alone can be written as StableHLO; others go to their decomposition, or to the
 * host. */
#include <string.h>

#include "plugin.h"

#define host cni_pjrt_host

enum { MOST_INPUTS = 64, MOST_RESULTS = 8 };

/* A weak scalar's number; its data is the host's. */
static cn_value number_of(const cn_desc *d)
{
  int64_t i = 0;
  double f = 0;
  if (d->dtype == CN_F64) return memcpy(&f, d->data, sizeof f), cn_v_float(f);
  if (d->dtype == CN_BOOL) return cn_v_bool(*(const uint8_t *)d->data != 0);
  memcpy(&i, d->data, sizeof i);
  return cn_v_int(i);
}

static bool is_here(const cn_desc *d, const cn_call *c) { return !d->weak && d->device == c->device; }

/* ---- asking ---- */

/* The graph of the call alone, with its tensors as inputs. */
static int fill_graph(cn_graph *g, const cn_call *c)
{
  int in[MOST_INPUTS], out[MOST_RESULTS], status = CN_OK;
  size_t nout = (size_t)c->nout;
  for (int i = 0; i < c->nin && status >= 0; i++) {
    const cn_desc *d = c->in[i] ? cn_desc_of(c->in[i]) : NULL;
    if (!d) in[i] = -1;
    else if (d->weak) status = in[i] = host->make->add_number(g, number_of(d));
    else status = in[i] = host->make->add_input(g, c->device, (cn_dtype)d->dtype, d->ndim, d->shape);
  }
  cn_value args[CN_MAX_ARGS];
  memcpy(args, c->args, (size_t)c->nargs * sizeof *args);
  for (int i = 0; i < c->nargs; i++)
    if (args[i].tag == CN_V_TENSOR || args[i].tag == CN_V_TENSORS) args[i].u.t = NULL;
  if (status >= 0)
    status = host->make->add_node(out, &nout, g, c->op, args, (size_t)c->nargs, in, (size_t)c->nin);
  for (int i = 0; i < c->nout && status >= 0; i++) status = host->make->add_output(g, out[i]);
  return status < 0 ? status : CN_OK;
}

static bool can_be_text(const cn_call *c)
{
  char message[8];
  cn_stablehlo_opts opts = {.size = sizeof opts};
  cn_graph *g = host->make->graph();
  char *text = g && !fill_graph(g, c) ? host->make->stablehlo(g, &opts) : NULL;
  if (text) host->make->string_free(text);
  else host->take_error(message, sizeof message);
  if (g) host->make->free(g);
  return text != NULL;
}

static bool types_known(const cn_call *c)
{
  for (int i = 0; i < c->nin; i++) {
    const cn_desc *d = c->in[i] ? cn_desc_of(c->in[i]) : NULL;
    if (d && !d->weak && !cni_pjrt_type(d->dtype)) return false;
  }
  for (int i = 0; i < c->nout; i++)
    if (!c->out[i] || !cni_pjrt_type(cn_desc_of(c->out[i])->dtype)) return false;
  return true;
}

int cni_pjrt_can_any(const cn_call *c, cn_plan *plan)
{
  plan->refusal = "it cannot be part of a StableHLO program";
  cni_pjrt_numbered(c->device);
  if (c->nin > MOST_INPUTS || c->nout > MOST_RESULTS || host->make->stablehlo_problem(c->op)) return CN_REFUSED;
  plan->refusal = "its results' sizes depend on data, or one of its types has no form on the device";
  if (!types_known(c)) return CN_REFUSED;
  plan->refusal = "this call cannot be part of a StableHLO program";
  return can_be_text(c) ? CN_OK : CN_REFUSED;
}

/* ---- recording ---- */

/* Owned: the operand's value. */
static int operand_of(pjrt_operand *o, int index, const cn_call *c, int i)
{
  const cn_desc *d = c->in[i] ? cn_desc_of(c->in[i]) : NULL;
  *o = (pjrt_operand){NULL, {CN_V_NONE, 0, {0}}};
  if (!d) return CN_OK;
  if (d->weak) o->number = number_of(d);
  else if (is_here(d, c)) o->value = cni_pjrt_read_tensor(index, d);
  else o->value = cni_pjrt_value_of(index, d->dtype, 0, NULL, d->data, cn_element_size(d->dtype)); /* of the host */
  return d->weak || o->value ? CN_OK : CN_ERR_DEVICE;
}

static int make_results(pjrt_value **out, int index, const cn_call *c)
{
  for (int i = 0; i < c->nout; i++) {
    const cn_desc *d = cn_desc_of(c->out[i]);
    if (!(out[i] = cni_pjrt_value_new(index, d->dtype, d->ndim, d->shape))) return CN_ERR_MEMORY;
  }
  return CN_OK;
}

/* Bytes of the host that are to be split go to the devices in parts; true: that was all. */
static bool split_at_once(int *status, int index, const cn_call *c, const pjrt_operand *in)
{
  const pjrt_value *x = c->nin ? in[0].value : NULL;
  cn_partition p;
  if (!cni_pjrt_mesh(index) || !x || !x->held || strcmp(host->op_name(c->op), "shard") != 0) return false;
  *status = host->make->partition_read(&p, cni_pjrt_mesh(index), c->args[1].u.s, x->ndim, x->shape);
  pjrt_value *v = *status ? NULL : cni_pjrt_value_of(index, x->dtype, x->ndim, x->shape, x->held, x->bytes);
  if (v) v->split = p;
  if (!*status) *status = v ? cni_pjrt_write_tensor(index, cn_desc_of(c->out[0]), v) : CN_ERR_MEMORY;
  cni_pjrt_value_release(v);
  return true;
}

static int record(cn_call *c, int index)
{
  pjrt_operand in[MOST_INPUTS];
  pjrt_value *out[MOST_RESULTS] = {NULL};
  bool draws = (c->op->flags & CN_OP_RANDOM) != 0;
  pjrt_call call = {.op = c->op, .args = c->args, .in = in, .nargs = c->nargs, .nin = c->nin, .nout = c->nout,
                    .draws = draws, .seed = c->seed, .offset = c->offset, .counters = draws ? host->make->draws(c) : 0};
  int n = 0, status = CN_OK;
  for (; n < c->nin && !status; n++) status = operand_of(&in[n], index, c, n);
  bool done = !status && split_at_once(&status, index, c, in);
  if (!status && !done) status = make_results(out, index, c);
  if (!status && !done) status = cni_pjrt_collect(index, &call, out);
  for (int i = 0; i < c->nout && !status && !done; i++)
    status = cni_pjrt_write_tensor(index, cn_desc_of(c->out[i]), out[i]);
  while (n) cni_pjrt_value_release(in[--n].value);
  for (int i = 0; i < c->nout; i++) cni_pjrt_value_release(out[i]);
  return status;
}

/* CAIRN_SYNC=1: every call is run at once. */
static int settle(int index)
{
  int status = cni_pjrt_waits ? cni_pjrt_flush(index) : cni_pjrt_settle(index);
  return !status && cni_pjrt_waits ? cni_pjrt_code_wait(index) : status;
}

int cni_pjrt_run_any(cn_call *c)
{
  int index = c->device & 0xff;
  cni_pjrt_lock();
  cni_pjrt_numbered(c->device);
  int status = record(c, index);
  if (!status) status = settle(index);
  cni_pjrt_unlock();
  return status;
}

/* An optimiser's step ends: the place where a training loop looks alike from one time to the next, whether it reads its
 * loss or not. Programs that ended anywhere would be another one each time. */
int cni_pjrt_updates(bool begin, const void *unless)
{
  int status = CN_OK, ndevices = begin ? 0 : cni_pjrt_index_count();
  if (begin && unless) return CN_REFUSED; /* a program cannot leave out a part of itself */
  cni_pjrt_lock();
  for (int i = 0; i < ndevices && !status; i++) status = cni_pjrt_flush(i);
  cni_pjrt_unlock();
  return status;
}

/* ---- copy(input, src): input becomes src, broadcast and cast ---- */

/* v as an array of the result's type and shape. Takes v over. */
static pjrt_value *as_result(int index, pjrt_value *v, const cn_desc *d)
{
  bool same = v->ndim == d->ndim;
  for (int i = 0; i < v->ndim && same; i++) same = v->shape[i] == d->shape[i];
  const cn_value cast[] = {cni_pjrt_slot, cn_v_int(d->dtype)};
  const cn_value expand[] = {cni_pjrt_slot, cn_v_ints(d->shape, (size_t)d->ndim)};
  pjrt_operand in = cni_pjrt_operand(v);
  pjrt_value *made = v;
  if (v->dtype != d->dtype) {
    made = cni_pjrt_op(index, "cast", cast, 2, &in, 1, d->dtype, v->ndim, v->shape);
    cni_pjrt_value_release(v);
  }
  if (same || !made) return made;
  in = cni_pjrt_operand(v = made);
  made = cni_pjrt_op(index, "expand", expand, 2, &in, 1, d->dtype, d->ndim, d->shape);
  cni_pjrt_value_release(v);
  return made;
}

static pjrt_value *source_of(int index, const cn_call *c)
{
  const cn_desc *d = cn_desc_of(c->in[1]);
  if (is_here(d, c)) return cni_pjrt_read_tensor(index, d);
  return cni_pjrt_value_of(index, d->dtype, 0, NULL, d->data, cn_element_size(d->dtype));
}

/* What is written over a tensor that is split is split in the same way. Takes v over. */
static pjrt_value *as_it_was(int index, pjrt_value *v, const cn_desc *d)
{
  const pjrt_value *old = v && cni_pjrt_mesh(index) ? cni_pjrt_lies_at(d->data) : NULL;
  bool same = old && old->ndim == d->ndim && old->dtype == d->dtype && cni_pjrt_is_split(&old->split) &&
              memcmp(&old->split, &v->split, sizeof v->split) != 0;
  for (int i = 0; i < d->ndim && same; i++) same = old->shape[i] == d->shape[i];
  return same ? cni_pjrt_split_like(index, v, old) : v;
}

int cni_pjrt_run_copy(cn_call *c)
{
  const cn_desc *to = cn_desc_of(c->out[0]), *from = cn_desc_of(c->in[1]);
  int index = c->device & 0xff;
  cni_pjrt_numbered(c->device);
  if (!cni_pjrt_type(to->dtype) || !cni_pjrt_type(from->dtype)) return cni_pjrt_on_host(c);
  if (!to->numel) return CN_OK;
  cni_pjrt_lock();
  pjrt_value *v = source_of(index, c);
  if (v) v = as_result(index, v, to);
  v = as_it_was(index, v, to);
  int status = v ? cni_pjrt_write_tensor(index, to, v) : CN_ERR_DEVICE;
  cni_pjrt_value_release(v);
  if (!status) status = settle(index);
  cni_pjrt_unlock();
  return status;
}
