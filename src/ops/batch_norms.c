/* batch_norms.c: rules of norms and of cross entropy.
 *
 * Place in the flow: batch_rules.def names them. Scales and shifts that differ between examples, and their gradients,
 * are left to the op's decomposition (CN_REFUSED): its parts take a batch. Invariant: statistics are those of each
 * example alone. */
#include <cairn/ext/parts.h>
#include <cairn/ops.h>
#include <string.h>

#include "api.gen.h"
#include "batch.h"
#include "shorthand.h"

static bool any(const cni_batching *b, int from, int to)
{
  bool found = false;
  for (int i = from; i <= to; i++) found |= b->is[i];
  return found;
}

/* Inputs from..to as batches, and the call. */
static int call_all(cni_batching *b, int from, int to)
{
  for (int i = from; i <= to; i++)
    if (b->in[i] && !(b->in[i] = cni_batch_of(b, i))) return cn_err();
  return cni_batch_call(b);
}

/* Are gradients wanted besides the input's? They are sums over each example. */
static bool wants_sums(const cn_value *mask)
{
  for (int i = 1; i < mask->n; i++)
    if (mask->u.is[i]) return true;
  return false;
}

/* ---- over the last dims ---- */

/* output * weight + bias, which differ between examples: lined up behind dims 0..from of an example. */
static void scale_and_shift(cni_batching *b, cn_tensor *weight, bool w, cn_tensor *bias, bool s, int rank)
{
  cn_tensor *y = b->out[0];
  int dtype = y ? y->d.dtype : 0;
  if (weight) y = cn_mul(y, w ? cni_batch_lined_up(weight, rank) : weight);
  if (bias) y = cn_add_with(y, s ? cni_batch_lined_up(bias, rank) : bias, NULL);
  b->out[0] = cni_in_type(y, dtype);
}

int cni_batch_op_native_layer_norm(cni_batching *b)
{
  if (!any(b, 1, 2)) return cni_batch_call(b);
  cn_tensor *weight = b->in[1], *bias = b->in[2];
  b->in[0] = cni_batch_of(b, 0);
  b->in[1] = b->in[2] = NULL;
  int status = cn_err() ? cn_err() : cni_batch_call(b);
  if (!status) scale_and_shift(b, weight, b->is[1], bias, b->is[2], b->c->in[0]->d.ndim);
  return status ? status : cn_err();
}

int cni_batch_op_native_rms_norm(cni_batching *b)
{
  if (!b->is[1]) return cni_batch_call(b);
  cn_tensor *weight = b->in[1];
  b->in[0] = cni_batch_of(b, 0);
  b->in[1] = NULL;
  int status = cn_err() ? cn_err() : cni_batch_call(b);
  if (!status) scale_and_shift(b, weight, true, NULL, false, b->c->in[0]->d.ndim);
  return status ? status : cn_err();
}

/* (grad_out, input, normalized_shape, mean, rstd, weight, output_mask): tensors are 0 to 4 */
int cni_batch_op_native_layer_norm_backward(cni_batching *b)
{
  return b->is[4] || wants_sums(&b->args[6]) ? CN_REFUSED : call_all(b, 0, 3);
}
int cni_batch_op_native_rms_norm_backward(cni_batching *b)
{
  return b->is[3] || wants_sums(&b->args[5]) ? CN_REFUSED : call_all(b, 0, 2);
}

/* ---- over channels ---- */

/* (N, C, ...) as (size * N, C, ...) */
static int fold_images(cni_batching *b, int from, int to)
{
  for (int i = from; i <= to; i++)
    if (b->in[i] && !(b->in[i] = cni_batch_fold(cni_batch_of(b, i)))) return cn_err();
  return cni_batch_call(b);
}

/* One number for each channel, (size, C) or (C), beside (size, N, C, ...). */
static cn_tensor *beside_channels(cn_tensor *t, int rank)
{
  for (int k = 2; k < rank && t; k++) t = cn_unsqueeze(t, -1);
  return t;
}

int cni_batch_op_native_group_norm(cni_batching *b)
{
  if (!b->size) return cni_batch_loop(b);
  if (!any(b, 1, 2)) return fold_images(b, 0, 0);
  int rank = b->c->in[0]->d.ndim;
  cn_tensor *weight = beside_channels(b->in[1], rank), *bias = beside_channels(b->in[2], rank);
  b->in[1] = b->in[2] = NULL;
  int status = fold_images(b, 0, 0);
  if (!status) b->out[0] = cni_batch_unfold(b, b->out[0]);
  if (!status) scale_and_shift(b, weight, b->is[1], bias, b->is[2], rank);
  return status ? status : cn_err();
}
int cni_batch_op_native_group_norm_backward(cni_batching *b)
{
  return b->is[4] || wants_sums(&b->args[6]) || !b->size ? CN_REFUSED : fold_images(b, 0, 3);
}

/* (size, N, C, ...) as (N, size * C, ...); vectors of channels (size, C) as (size * C) */
static cn_tensor *as_channels(cn_tensor *t)
{
  if (!t) return NULL;
  if (t->d.ndim == 2) return cn_reshape(t, (const int64_t[]){-1}, 1);
  t = cn_transpose(t, 0, 1);
  if (!t) return NULL;
  return cni_batch_shaped(t, (const int64_t[]){t->d.shape[0], t->d.shape[1] * t->d.shape[2]}, 2, 3);
}

/* Statistics are per channel: channels of the examples lie beside each other. */
static int fold_channels(cni_batching *b)
{
  if (!b->size) return CN_REFUSED;
  for (int i = 0; i < b->c->nin; i++)
    if (b->in[i] && !(b->in[i] = as_channels(cni_batch_of(b, i)))) return cn_err();
  int status = cni_batch_call(b);
  for (int i = 0; i < b->c->nout && !status; i++) {
    cn_tensor *t = b->out[i];
    if (!t || b->c->spec[i].ndim < 2) continue;
    t = cni_batch_shaped(t, (const int64_t[]){t->d.shape[0], b->size, t->d.shape[1] / b->size}, 3, 2);
    if (!(b->out[i] = cn_transpose(t, 0, 1))) status = cn_err();
  }
  return status;
}

int cni_batch_op_native_batch_norm(cni_batching *b) { return fold_channels(b); }
int cni_batch_op_native_batch_norm_backward(cni_batching *b) { return fold_channels(b); }

/* ---- cross entropy ---- */

/* Each row's part in the loss of its example, (size, N): 1 where it counts; for means divided by how many do. */
static cn_tensor *shares(cn_tensor *target, int64_t ignore, bool mean, int dtype)
{
  const int64_t rows = 1;
  cn_tensor *share = cn_cast(cn_ne(target, cn_int(ignore)), (cn_dtype)dtype);
  if (!mean || !share) return share;
  cn_sum_opts o = {.size = sizeof o, .dim = {&rows, 1}, .keepdim = true};
  return cn_true_divide(share, cn_sum_with(share, &o));
}

/* cross_entropy_rows(input, target, ignore_index, reduction, wide) -> (loss, lse) */
int cni_batch_op_cross_entropy_rows(cni_batching *b)
{
  const int64_t rows = 1;
  const char *how = b->args[3].u.s;
  cn_tensor *target = cni_batch_of(b, 1);
  if (!b->size || !target) return cni_batch_loop(b);
  b->in[0] = cni_batch_fold(cni_batch_of(b, 0));
  b->in[1] = cn_reshape(target, (const int64_t[]){-1}, 1);
  b->args[3] = cn_v_str("none");
  int status = cn_err() ? cn_err() : cni_batch_call(b);
  if (status || !strcmp(how, "none")) return status;
  cn_tensor *loss = cn_reshape(b->out[0], target->d.shape, 2);
  cn_sum_opts o = {.size = sizeof o, .dim = {&rows, 1}};
  cn_tensor *count = cn_sum_with(shares(target, b->args[2].u.i, false, b->out[0]->d.dtype), &o);
  b->out[0] = cn_sum_with(loss, &o);
  if (!strcmp(how, "mean")) b->out[0] = cn_true_divide(b->out[0], count);
  return cn_err();
}

/* cross_entropy_rows_grad(grad, input, target, lse, ignore_index, reduction) */
int cni_batch_op_cross_entropy_rows_grad(cni_batching *b)
{
  const char *how = b->args[5].u.s;
  if (!b->size) return cni_batch_loop(b);
  cn_tensor *g = cni_batch_of(b, 0), *target = cni_batch_of(b, 2);
  if (!g || !target) return cn_err();
  if (strcmp(how, "none"))
    g = cn_mul(cn_unsqueeze(g, 1), shares(target, b->args[4].u.i, !strcmp(how, "mean"), g->d.dtype));
  b->in[0] = cn_reshape(g, (const int64_t[]){-1}, 1);
  b->in[1] = cni_batch_fold(cni_batch_of(b, 1));
  b->in[2] = cn_reshape(target, (const int64_t[]){-1}, 1);
  b->in[3] = cn_reshape(cni_batch_of(b, 3), (const int64_t[]){-1}, 1);
  b->args[5] = cn_v_str("none");
  return cn_err() ? cn_err() : cni_batch_call(b);
}
