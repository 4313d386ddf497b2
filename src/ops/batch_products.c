/* batch_products.c: rules of products of matrices, convolutions and attention.
 *
 * Place in the flow: batch_rules.def names them. A factor that all examples share meets the batch in one product of
 * more rows; factors that differ make a batched product, kernels that differ make groups of channels.
 * Invariant: results are (size, ...) as one example's result says. */
#include <cairn/ext/parts.h>
#include <cairn/ops.h>
#include <string.h>

#include "api.gen.h"
#include "batch.h"
#include "shorthand.h"

/* ---- matrices ---- */

/* a: (.., n, k), b: (.., k, m), each with or without the batch */
static cn_tensor *product(const cni_batching *b, int i, int k)
{
  int rank = b->c->in[i]->d.ndim;
  cn_tensor *x = b->is[i] ? cni_batch_lined_up(b->in[i], rank) : b->in[i];
  return cn_matmul(x, b->in[k]);
}

int cni_batch_op_mm(cni_batching *b)
{
  b->out[0] = product(b, 0, 1);
  return cn_err();
}
int cni_batch_op_bmm(cni_batching *b) { return cni_batch_op_mm(b); }

static bool is_zero(const cn_value *v) { return v->tag == CN_V_FLOAT ? v->u.f == 0 : v->u.i == 0; }
static bool is_one(const cn_value *v) { return v->tag == CN_V_FLOAT ? v->u.f == 1 : v->u.i == 1; }

/* beta input + alpha a b; an input that is multiplied by 0 is not read */
static int sum_and_product(cni_batching *b, int rank)
{
  const cn_value *beta = &b->args[3], *alpha = &b->args[4];
  bool fraction = beta->tag == CN_V_FLOAT || alpha->tag == CN_V_FLOAT;
  if (fraction && !cni_dtype_is_inexact(b->c->spec[0].dtype)) return cni_batch_loop(b); /* rounded as the op does */
  cn_tensor *p = product(b, 1, 2), *x = b->is[0] ? cni_batch_lined_up(b->in[0], rank) : b->in[0];
  if (!is_one(alpha)) p = cn_mul(p, cni_number(alpha));
  if (!is_zero(beta)) p = cn_add_with(p, is_one(beta) ? x : cn_mul(x, cni_number(beta)), NULL);
  else if (!b->is[1] && !b->is[2]) p = cni_batch_expanded(b, p); /* the batch is that of an input nobody reads */
  b->out[0] = p;
  return cn_err();
}
int cni_batch_op_addmm(cni_batching *b) { return sum_and_product(b, 2); }
int cni_batch_op_baddbmm(cni_batching *b) { return sum_and_product(b, 3); }

/* input: (..., in), weight: (out, in), bias: (out) */
int cni_batch_op_linear(cni_batching *b)
{
  const cn_desc *x = &b->c->in[0]->d, *w = &b->c->in[1]->d;
  if (!b->is[1] && !b->is[2]) return cni_batch_call(b);
  if (w->ndim != 2) return CN_REFUSED;
  cn_tensor *y;
  if (b->is[1]) {
    int64_t rows = 1;
    for (int i = 0; i < x->ndim - 1; i++) rows *= x->shape[i];
    cn_tensor *in = b->is[0] ? cni_batch_shaped(b->in[0], (const int64_t[]){b->size, rows}, 2, x->ndim)
                             : cni_batch_shaped(b->in[0], &rows, 1, x->ndim - 1);
    y = cn_matmul(in, cni_swapped(b->in[1]));
    if (b->in[2]) y = cn_add_with(y, b->is[2] ? cn_unsqueeze(b->in[2], 1) : b->in[2], NULL);
  } else {
    y = cn_linear(b->in[0], b->in[1], NULL);
    y = cn_add_with(y, cni_batch_lined_up(b->in[2], x->ndim), NULL);
  }
  b->out[0] = y;
  return cn_err();
}

/* ---- convolutions ---- */

/* Kernels that differ between examples: the batch goes among the channels, and each example is a group of its own.
 * Images (size, N, C, H, W) as (N, size * C, H, W); one image (size, C, H, W) as (1, size * C, H, W). */
static cn_tensor *as_channels(cn_tensor *t)
{
  if (!t) return NULL;
  if (t->d.ndim == 4) t = cn_unsqueeze(t, 1);
  t = cn_transpose(t, 0, 1);
  if (!t) return NULL;
  return cni_batch_shaped(t, (const int64_t[]){t->d.shape[0], t->d.shape[1] * t->d.shape[2]}, 2, 3);
}

static cn_tensor *from_channels(const cni_batching *b, cn_tensor *t)
{
  int64_t channels = !t ? 0 : b->size ? t->d.shape[1] / b->size : 0;
  t = t ? cni_batch_shaped(t, (const int64_t[]){t->d.shape[0], b->size, channels}, 3, 2) : NULL;
  return cn_transpose(t, 0, 1);
}

/* Images as one batch of (size * N): those of an example may be one without N. */
static cn_tensor *as_images(cn_tensor *t) { return t && t->d.ndim == 5 ? cni_batch_fold(t) : t; }

int cni_batch_op_conv2d(cni_batching *b)
{
  if (!b->size) return cni_batch_loop(b);
  cn_tensor *dest = b->dest;
  b->dest = NULL;
  int status;
  if (!b->is[1] && !b->is[2]) {
    b->in[0] = as_images(b->in[0]);
    status = cni_batch_call(b);
  } else {
    for (int i = 0; i < 3; i++) b->in[i] = cni_batch_of(b, i);
    b->in[0] = as_channels(b->in[0]);
    b->in[1] = cni_batch_fold(b->in[1]);
    if (b->in[2]) b->in[2] = cni_batch_shaped(b->in[2], (const int64_t[]){-1}, 1, 2);
    b->args[6] = cn_v_int(b->args[6].u.i * b->size);
    status = cn_err() ? cn_err() : cni_batch_call(b);
    b->out[0] = status ? NULL : from_channels(b, b->out[0]);
  }
  b->dest = dest;
  return status ? status : cn_err();
}

/* conv2d_grad_input(grad, weight, input_size, stride, padding, dilation, groups) */
int cni_batch_op_conv2d_grad_input(cni_batching *b)
{
  int64_t size[5];
  cn_value *v = &b->args[2];
  if (!b->size) return cni_batch_loop(b);
  bool one = b->c->in[0]->d.ndim == 3;
  memcpy(size, v->u.is, (size_t)v->n * sizeof *size);
  if (one) memmove(size + 1, size, 3 * sizeof *size), size[0] = 1;
  if (b->is[1]) {
    size[1] *= b->size;
    b->in[0] = as_channels(cni_batch_of(b, 0));
    b->in[1] = cni_batch_fold(b->in[1]);
    b->args[6] = cn_v_int(b->args[6].u.i * b->size);
  } else {
    size[0] *= b->size;
    b->in[0] = as_images(b->in[0]);
  }
  *v = cn_v_ints(size, 4);
  int status = cn_err() ? cn_err() : cni_batch_call(b);
  if (!status && b->is[1]) b->out[0] = from_channels(b, b->out[0]);
  return status ? status : cn_err();
}

/* conv2d_grad_weight(grad, input, weight_size, stride, padding, dilation, groups) */
int cni_batch_op_conv2d_grad_weight(cni_batching *b)
{
  int64_t size[4];
  if (!b->size) return cni_batch_loop(b);
  memcpy(size, b->args[2].u.is, sizeof size);
  size[0] *= b->size;
  b->args[2] = cn_v_ints(size, 4);
  b->args[6] = cn_v_int(b->args[6].u.i * b->size);
  for (int i = 0; i < 2; i++) b->in[i] = as_channels(cni_batch_of(b, i));
  int status = cn_err() ? cn_err() : cni_batch_call(b);
  if (!status) b->out[0] = cni_batch_unfold(b, b->out[0]);
  return status ? status : cn_err();
}

/* ---- attention ---- */

/* Tensors (N, H, ...) as (size * N, H, ...); the mask, the tensor of that number, is expanded to that N first. */
static int fold_attention(cni_batching *b, int mask)
{
  int64_t n = b->c->in[0]->d.shape[0];
  if (!b->size || b->in[b->c->nin - 1]) return cni_batch_loop(b); /* draws: where the numbers of one call begin */
  for (int i = 0; i < b->c->nin; i++) {
    cn_tensor *t = cni_batch_of(b, i);
    if (i == mask && t) {
      t = cni_batch_lined_up(t, 4);
      if (!t) return cn_err();
      t = cn_expand(t, (const int64_t[]){b->size, n, t->d.shape[2], t->d.shape[3], t->d.shape[4]}, 5);
    }
    b->in[i] = cni_batch_fold(t);
  }
  return cn_err() ? cn_err() : cni_batch_call(b);
}

int cni_batch_op_sdpa_forward(cni_batching *b) { return fold_attention(b, 3); }
int cni_batch_op_sdpa_backward(cni_batching *b) { return fold_attention(b, 6); }
