/* product.c: products of matrices, and convolutions with their gradients. See row.h.
 *
 * float32 asks for all of its bits (HIGHEST) unless the program allows less (cn_set_matmul_precision); float16 and
 * bfloat16 are added up in float32, and rounded once. */
#include <cairn/device.h>
#include <stdio.h>
#include <string.h>

#include "rows.h"

static const char *precision_of(int dtype, cn_precision allowed)
{
  if (dtype != CN_F32) return "DEFAULT";
  return allowed == CN_PRECISION_FLOAT32 ? "HIGHEST" : allowed == CN_PRECISION_TF32 ? "HIGH" : "DEFAULT";
}

/* What two small floats are added up in. */
static int sum_type(int dtype) { return cni_hlo_wide(dtype); }

cni_hval cni_hlo_dot(cni_hlo *h, cni_hval a, cni_hval b, const cni_hdot *d, int dtype)
{
  int64_t shape[CN_MAX_DIMS];
  uint32_t taken[2] = {0, 0};
  int n = 0;
  cn_text t = {0};
  for (int k = 0; k < d->nbatch; k++) {
    taken[0] |= 1u << d->batch_a[k], taken[1] |= 1u << d->batch_b[k];
    shape[n++] = a.shape[d->batch_a[k]];
  }
  for (int k = 0; k < d->nover; k++) taken[0] |= 1u << d->over_a[k], taken[1] |= 1u << d->over_b[k];
  for (int k = 0; k < a.ndim; k++)
    if (!(taken[0] >> k & 1)) shape[n++] = a.shape[k];
  for (int k = 0; k < b.ndim; k++)
    if (!(taken[1] >> k & 1)) shape[n++] = b.shape[k];
  const char *precision = precision_of(a.dtype, cn_matmul_precision());
  cn_text_put(&t, "dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = ");
  cni_hlo_put_list(&t, d->batch_a, d->nbatch);
  cn_text_put(&t, ", rhs_batching_dimensions = ");
  cni_hlo_put_list(&t, d->batch_b, d->nbatch);
  cn_text_put(&t, ", lhs_contracting_dimensions = ");
  cni_hlo_put_list(&t, d->over_a, d->nover);
  cn_text_put(&t, ", rhs_contracting_dimensions = ");
  cni_hlo_put_list(&t, d->over_b, d->nover);
  cn_text_putf(&t, ">, precision_config = [#stablehlo<precision %s>, #stablehlo<precision %s>]", precision, precision);
  if (t.failed) h->failed = true;
  cni_hval v = cni_hlo_emit(h, "dot_general", t.s, sum_type(a.dtype), n, shape, 2, (cni_hval[]){a, b});
  cn_text_free(&t);
  return cni_hlo_cast(h, v, dtype);
}

cni_hval cni_hlo_matmul(cni_hlo *h, cni_hval a, cni_hval b, int dtype)
{
  cni_hdot d = {.nbatch = a.ndim - 2, .nover = 1, .over_a = {a.ndim - 1}, .over_b = {b.ndim - 2}};
  for (int k = 0; k < d.nbatch; k++) d.batch_a[k] = d.batch_b[k] = k;
  return cni_hlo_dot(h, a, b, &d, dtype);
}

static void product(cni_hcall *c) { c->out[0] = cni_hlo_matmul(c->h, c->in[0], c->in[1], c->out[0].dtype); }

/* linear(input, weight, bias): input (..., n), weight (m, n) */
static void linear(cni_hcall *c)
{
  cni_hval x = c->in[0];
  cni_hdot d = {.nover = 1, .over_a = {x.ndim - 1}, .over_b = {c->in[1].ndim - 1}};
  bool biased = cni_hlo_there(&c->in[2]);
  int type = biased ? sum_type(x.dtype) : c->out[0].dtype;
  cni_hval y = cni_hlo_dot(c->h, x, c->in[1], &d, type);
  if (biased) y = cni_hlo_binary(c->h, "add", y, cni_hlo_as(c->h, c->in[2], type, &y));
  c->out[0] = cni_hlo_cast(c->h, y, c->out[0].dtype);
}

/* ---- convolutions ---- */

enum { STRIDE = 3, PADDING = 4, DILATION = 5, GROUPS = 6 };

typedef struct convolution {
  const char *dims;
  int64_t step[2], pad[2][2], spread[2], inner[2]; /* spread: of the first operand's elements, inner: the second's */
  int64_t groups, batch_groups;
  int64_t shape[4];
} convolution;

static cni_hval convolve(cni_hlo *h, cni_hval x, cni_hval w, const convolution *v)
{
  cn_text t = {0};
  const char *precision = precision_of(x.dtype, cn_conv_precision());
  cn_text_putf(&t, "dimension_numbers = #stablehlo.conv<%s>, window_strides = ", v->dims);
  cni_hlo_put_array(&t, v->step, 2);
  cn_text_putf(&t, ", padding = dense<[[%lld, %lld], [%lld, %lld]]> : tensor<2x2xi64>, lhs_dilation = ",
               (long long)v->pad[0][0], (long long)v->pad[0][1], (long long)v->pad[1][0], (long long)v->pad[1][1]);
  cni_hlo_put_array(&t, v->spread, 2);
  cn_text_put(&t, ", rhs_dilation = ");
  cni_hlo_put_array(&t, v->inner, 2);
  cn_text_putf(&t, ", feature_group_count = %lld : i64, batch_group_count = %lld : i64, "
                   "precision_config = [#stablehlo<precision %s>, #stablehlo<precision %s>]",
               (long long)v->groups, (long long)v->batch_groups, precision, precision);
  if (t.failed) h->failed = true;
  cni_hval y = cni_hlo_emit(h, "convolution", t.s, sum_type(x.dtype), 4, v->shape, 2, (cni_hval[]){x, w});
  cn_text_free(&t);
  return y;
}

/* An image without a batch is a batch of one. */
static cni_hval batched(cni_hlo *h, cni_hval x) { return x.ndim == 4 ? x : cni_hlo_insert_dim(h, x, 0, 1); }

static convolution convolution_of(const cni_hcall *c, const char *dims)
{
  convolution v = {.dims = dims, .groups = cni_harg_int(c, GROUPS), .batch_groups = 1};
  for (int k = 0; k < 2; k++) v.step[k] = v.spread[k] = v.inner[k] = 1;
  return v;
}

static void finish(cni_hcall *c, cni_hval y, bool drop)
{
  if (drop) y = cni_hlo_drop_dim(c->h, y, 0);
  c->out[0] = cni_hlo_cast(c->h, y, c->out[0].dtype);
}

static void conv2d(cni_hcall *c)
{
  cni_hval x = batched(c->h, c->in[0]), w = c->in[1];
  convolution v = convolution_of(c, "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]");
  v.shape[0] = x.shape[0], v.shape[1] = w.shape[0];
  for (int k = 0; k < 2; k++) {
    v.step[k] = cni_harg_at(c, STRIDE, k);
    v.inner[k] = cni_harg_at(c, DILATION, k);
    v.pad[k][0] = v.pad[k][1] = cni_harg_at(c, PADDING, k);
    v.shape[2 + k] = c->out[0].shape[c->out[0].ndim - 2 + k];
  }
  cni_hval y = convolve(c->h, x, w, &v);
  if (cni_hlo_there(&c->in[2])) {
    cni_hval b = cni_hlo_cast(c->h, c->in[2], y.dtype);
    y = cni_hlo_binary(c->h, "add", y, cni_hlo_broadcast(c->h, b, 4, y.shape, (int64_t[]){1}));
  }
  finish(c, y, c->in[0].ndim == 3);
}

/* (K, C / G, ...) as (C, K / G, ...), each window the other way round. */
static cni_hval turned(cni_hlo *h, cni_hval w, int64_t groups)
{
  int64_t split[5] = {groups, w.shape[0] / groups, w.shape[1], w.shape[2], w.shape[3]};
  int64_t joined[4] = {groups * w.shape[1], w.shape[0] / groups, w.shape[2], w.shape[3]};
  w = cni_hlo_swap(h, cni_hlo_reshape(h, w, 5, split), 1, 2);
  return cni_hlo_reverse(h, cni_hlo_reshape(h, w, 4, joined), (int64_t[]){2, 3}, 2);
}

/* conv2d_grad_input(grad, weight, input_size, ...) */
static void grad_input(cni_hcall *c)
{
  cni_hval g = batched(c->h, c->in[0]), w = c->in[1];
  const int64_t *size = c->out[0].shape + c->out[0].ndim - 2;
  convolution v = convolution_of(c, "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]");
  v.shape[0] = g.shape[0], v.shape[1] = w.shape[1] * v.groups;
  for (int k = 0; k < 2; k++) {
    int64_t reach = cni_harg_at(c, DILATION, k) * (w.shape[2 + k] - 1);
    v.spread[k] = cni_harg_at(c, STRIDE, k);
    v.inner[k] = cni_harg_at(c, DILATION, k);
    v.pad[k][0] = reach - cni_harg_at(c, PADDING, k);
    v.pad[k][1] = size[k] - ((g.shape[2 + k] - 1) * v.spread[k] + 1) - v.pad[k][0] + reach;
    v.shape[2 + k] = size[k];
  }
  finish(c, convolve(c->h, g, turned(c->h, w, v.groups), &v), c->out[0].ndim == 3);
}

/* conv2d_grad_weight(grad, input, weight_size, ...) */
static void grad_weight(cni_hcall *c)
{
  cni_hval g = batched(c->h, c->in[0]), x = batched(c->h, c->in[1]);
  const int64_t *size = c->out[0].shape;
  convolution v = convolution_of(c, "[f, b, 0, 1]x[i, o, 0, 1]->[f, b, 0, 1]");
  v.batch_groups = v.groups, v.groups = 1;
  for (int k = 0; k < 4; k++) v.shape[k] = size[k];
  for (int k = 0; k < 2; k++) {
    v.step[k] = cni_harg_at(c, DILATION, k);
    v.inner[k] = cni_harg_at(c, STRIDE, k);
    v.pad[k][0] = cni_harg_at(c, PADDING, k);
    v.pad[k][1] = (size[2 + k] - 1) * v.step[k] + (g.shape[2 + k] - 1) * v.inner[k] + 1 - x.shape[2 + k] - v.pad[k][0];
  }
  finish(c, convolve(c->h, x, g, &v), false);
}

const cni_hrow cni_hlo_product_rows[] = {{"bmm", product, NULL},
                                         {"mm", product, NULL},
                                         {"linear", linear, NULL},
                                         {"conv2d", conv2d, NULL},
                                         {"conv2d_grad_input", grad_input, NULL},
                                         {"conv2d_grad_weight", grad_weight, NULL},
                                         {NULL, NULL, NULL}};
