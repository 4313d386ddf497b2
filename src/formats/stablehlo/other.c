/* other.c: rows of Fourier transforms, losses by rows, and checks. See row.h. */
#include <math.h>
#include <string.h>

#include "rows.h"

/* ---- Fourier transforms: (..., n, 2) ---- */

static cni_hval part(cni_hlo *h, cni_hval x, int64_t k)
{
  return cni_hlo_drop_dim(h, cni_hlo_slice_dim(h, x, x.ndim - 1, k, k + 1, 1), x.ndim - 1);
}

/* fft_c2c(input, inverse, scaling): 0 none, 1 by the root of n, 2 by n */
static void fft(cni_hcall *c)
{
  cni_hlo *h = c->h;
  cni_hval x = c->in[0], z[2];
  int n = x.ndim - 1, complex = x.dtype == CN_F64 ? CN_C128 : CN_C64;
  bool inverse = cni_harg_int(c, 1) != 0;
  int64_t count = x.shape[n - 1], scaling = cni_harg_int(c, 2);
  double by = scaling == 1 ? sqrt((double)count) : scaling == 2 ? (double)count : 1;
  double factor = (inverse ? (double)count : 1) / by;
  cn_text attrs = {0};
  z[0] = part(h, x, 0), z[1] = part(h, x, 1);
  cn_text_putf(&attrs, "fft_type = #stablehlo<fft_type %s>, fft_length = array<i64: %lld>", inverse ? "IFFT" : "FFT",
               (long long)count);
  cni_hval y = cni_hlo_emit(h, "complex", NULL, complex, n, x.shape, 2, z);
  y = cni_hlo_emit(h, "fft", attrs.s, complex, n, x.shape, 1, &y);
  cn_text_free(&attrs);
  for (int k = 0; k < 2; k++) {
    z[k] = cni_hlo_emit(h, k ? "imag" : "real", NULL, x.dtype, n, x.shape, 1, &y);
    if (factor != 1) z[k] = cni_hlo_binary(h, "multiply", z[k], cni_hlo_num(factor));
    z[k] = cni_hlo_insert_dim(h, z[k], n, 1);
  }
  c->out[0] = cni_hlo_concat(h, 2, z, n);
}

/* ---- cross entropy of rows of scores (N, C) with classes (N) ---- */

typedef struct classes {
  int type;             /* what is computed in */
  cni_hval x;           /* of that type */
  cni_hval hit, counts; /* (N, C): is it the row's class? (N): does the row count? */
} classes;

static cni_hval over_rows(cni_hlo *h, cni_hval row, const cni_hval *x)
{
  return cni_hlo_broadcast(h, row, 2, x->shape, (int64_t[]){0});
}

static classes classes_of(cni_hcall *c, cni_hval x, cni_hval target, int64_t ignore)
{
  cni_hlo *h = c->h;
  classes k = {.type = cni_hlo_wide(x.dtype)};
  k.x = cni_hlo_cast(h, x, k.type);
  target = cni_hlo_cast(h, target, CN_I64);
  k.counts = cni_hlo_compare(h, "NE", target, cni_hlo_int(ignore));
  cni_hval i = cni_hlo_iota(h, CN_I64, 2, x.shape, 1);
  k.hit = cni_hlo_binary(h, "and", cni_hlo_compare(h, "EQ", i, over_rows(h, target, &x)), over_rows(h, k.counts, &x));
  return k;
}

static cni_hval count_of(cni_hlo *h, const classes *k)
{
  return cni_hlo_reduce(h, "add", cni_hlo_convert(h, k->counts, k->type), 1);
}

/* cross_entropy_rows(input, target, ignore_index, reduction): the loss, and the logarithm of each row's sum. */
static void cross_entropy(cni_hcall *c)
{
  cni_hlo *h = c->h;
  classes k = classes_of(c, c->in[0], c->in[1], cni_harg_int(c, 2));
  const char *reduction = c->args[3].u.s;
  cni_hval most = cni_hlo_reduce(h, "maximum", k.x, 2);
  most = CNI_HLO_EXPR(h, "a - a == 0 ? a : 0", k.type, most);
  cni_hval sums = cni_hlo_reduce(h, "add", CNI_HLO_EXPR(h, "exp(a - b)", k.type, k.x, over_rows(h, most, &k.x)), 2);
  cni_hval lse = CNI_HLO_EXPR(h, "log(a) + b", k.type, sums, most);
  cni_hval own = cni_hlo_reduce(h, "add", cni_hlo_select(h, k.hit, k.x, cni_hlo_num(0)), 2);
  cni_hval loss = CNI_HLO_EXPR(h, "c ? a - b : 0", k.type, lse, own, k.counts);
  if (strcmp(reduction, "none")) loss = cni_hlo_reduce(h, "add", loss, 1);
  if (!strcmp(reduction, "mean")) loss = cni_hlo_binary(h, "divide", loss, count_of(h, &k));
  c->out[0] = cni_hlo_cast(h, loss, c->out[0].dtype);
  c->out[1] = cni_hlo_cast(h, lse, c->out[1].dtype);
}

/* cross_entropy_rows_grad(grad, input, target, lse, ignore_index, reduction) */
static void cross_entropy_grad(cni_hcall *c)
{
  cni_hlo *h = c->h;
  classes k = classes_of(c, c->in[1], c->in[2], cni_harg_int(c, 4));
  const char *reduction = c->args[5].u.s;
  cni_hval g = cni_hlo_cast(h, c->in[0], k.type), lse = over_rows(h, cni_hlo_cast(h, c->in[3], k.type), &k.x);
  if (!strcmp(reduction, "mean")) g = cni_hlo_binary(h, "divide", cni_hlo_reshape(h, g, 0, NULL), count_of(h, &k));
  g = g.ndim ? over_rows(h, g, &k.x) : cni_hlo_expand(h, g, 2, k.x.shape);
  cni_hval y = CNI_HLO_EXPR(h, "d ? (c ? exp(a - b) * e - e : exp(a - b) * e) : 0", k.type, k.x, lse, k.hit,
                            over_rows(h, k.counts, &k.x), g);
  c->out[0] = cni_hlo_cast(h, y, c->out[0].dtype);
}

/* ---- sums of weighted elements: (N, C, S) at (N, K, P), which weigh (N, K, P) ---- */

/* The elements that the indices name, (N, C, K, P), and whether they name any, (N, 1, K, P). */
static cni_hval elements(cni_hlo *h, cni_hval x, cni_hval index, cni_hval *named)
{
  int64_t n = index.shape[0], kp = index.shape[1] * index.shape[2], channels = x.shape[1];
  int64_t flat[3] = {n, channels, kp}, shape[4] = {n, channels, index.shape[1], index.shape[2]};
  cni_hval at = cni_hlo_reshape(h, cni_hlo_cast(h, index, CN_I64), 2, (int64_t[]){n, kp});
  at = cni_hlo_broadcast(h, at, 3, flat, (int64_t[]){0, 2});
  *named = cni_hlo_reshape(h, cni_hlo_compare(h, "GE", at, cni_hlo_int(0)), 4, shape);
  cni_hval v = cni_hlo_take_along(h, x, 2, CNI_HLO_EXPR(h, "max(a, 0)", CN_I64, at));
  return cni_hlo_reshape(h, v, 4, shape);
}

static cni_hval over_channels(cni_hlo *h, cni_hval w, const cni_hval *like)
{
  return cni_hlo_broadcast(h, w, 4, like->shape, (int64_t[]){0, 2, 3});
}

static void weighted_gather(cni_hcall *c)
{
  cni_hlo *h = c->h;
  int type = cni_hlo_wide(c->out[0].dtype);
  cni_hval named, v = elements(h, cni_hlo_cast(h, c->in[0], type), c->in[1], &named);
  cni_hval w = over_channels(h, cni_hlo_cast(h, c->in[2], type), &v);
  v = CNI_HLO_EXPR(h, "c ? a * b : 0", type, v, w, named);
  c->out[0] = cni_hlo_cast(h, cni_hlo_reduce(h, "add", v, 4), c->out[0].dtype);
}

/* weighted_dot(grad (N, C, P), input, index): (N, K, P) */
static void weighted_dot(cni_hcall *c)
{
  cni_hlo *h = c->h;
  int type = cni_hlo_wide(c->out[0].dtype);
  cni_hval named, v = elements(h, cni_hlo_cast(h, c->in[1], type), c->in[2], &named);
  cni_hval g = cni_hlo_broadcast(h, cni_hlo_cast(h, c->in[0], type), 4, v.shape, (int64_t[]){0, 1, 3});
  v = CNI_HLO_EXPR(h, "c ? a * b : 0", type, v, g, named);
  c->out[0] = cni_hlo_cast(h, cni_hlo_reduce(h, "add", v, 2), c->out[0].dtype);
}

/* weighted_scatter(grad (N, C, P), index, weight, size): (N, C, size) */
static void weighted_scatter(cni_hcall *c)
{
  cni_hlo *h = c->h;
  cni_hval index = cni_hlo_cast(h, c->in[1], CN_I64), *out = &c->out[0];
  int type = cni_hlo_wide(out->dtype);
  int64_t n = index.shape[0], kp = index.shape[1] * index.shape[2], flat[3] = {n, out->shape[1], kp};
  int64_t shape[4] = {n, out->shape[1], index.shape[1], index.shape[2]};
  cni_hval like = {.dtype = type, .ndim = 4}, zero = cni_hlo_splat(h, cni_hlo_num(0), type, 3, out->shape);
  memcpy(like.shape, shape, sizeof shape);
  cni_hval g = cni_hlo_broadcast(h, cni_hlo_cast(h, c->in[0], type), 4, shape, (int64_t[]){0, 1, 3});
  cni_hval v = cni_hlo_binary(h, "multiply", g, over_channels(h, cni_hlo_cast(h, c->in[2], type), &like));
  cni_hval named = over_channels(h, cni_hlo_compare(h, "GE", index, cni_hlo_int(0)), &like);
  v = cni_hlo_reshape(h, cni_hlo_select(h, named, v, cni_hlo_num(0)), 3, flat);
  cni_hval at = cni_hlo_reshape(h, CNI_HLO_EXPR(h, "max(a, 0)", CN_I64, index), 2, (int64_t[]){n, kp});
  at = cni_hlo_broadcast(h, at, 3, flat, (int64_t[]){0, 2});
  *out = cni_hlo_cast(h, cni_hlo_put_along(h, "add", zero, 2, at, v), out->dtype);
}

/* embedding_renorm(input, indices, max_norm, norm_type): rows that indices name, scaled down. */
static void renorm(cni_hcall *c)
{
  cni_hlo *h = c->h;
  cni_hval x = c->in[0], wide = cni_hlo_cast(h, x, cni_hlo_wide(x.dtype)), index = cni_hlo_cast(h, c->in[1], CN_I64);
  double p = cni_harg_float(c, 3), most = cni_harg_float(c, 2);
  int64_t n = cni_hlo_numel(&index), rows = x.shape[0];
  index = cni_hlo_reshape(h, index, 1, &n);
  cni_hval norm = CNI_HLO_EXPR(h, p == 2 ? "a * a" : p == 1 || p - p != 0 ? "abs(a)" : "power(abs(a), b)", wide.dtype,
                               wide, cni_hlo_num(p));
  norm = cni_hlo_reduce(h, p - p != 0 ? "maximum" : "add", norm, 2);
  if (p - p == 0 && p != 1)
    norm = CNI_HLO_EXPR(h, p == 2 ? "sqrt(a)" : "power(a, b)", wide.dtype, norm, cni_hlo_num(1 / p));
  cni_hval none = cni_hlo_splat(h, cni_hlo_int(0), CN_I32, 1, &rows),
           one = cni_hlo_splat(h, cni_hlo_int(1), CN_I32, 1, &n);
  cni_hval named = cni_hlo_put(h, "maximum", none, 0, index, one);
  cni_hval scale =
      CNI_HLO_EXPR(h, "(b != 0) & (a > c) ? c / (a + 1e-7) : 1", wide.dtype, norm, named, cni_hlo_num(most));
  wide = cni_hlo_binary(h, "multiply", wide, over_rows(h, scale, &wide));
  c->out[0] = cni_hlo_cast(h, wide, x.dtype);
}

/* check_within(input, low, high): nobody on a device can object; whoever reads it gets what it would be. */
static void check_within(cni_hcall *c)
{
  c->out[0] = cni_hlo_splat(c->h, cni_hlo_int(1), c->out[0].dtype, c->out[0].ndim, c->out[0].shape);
}

const cni_hrow cni_hlo_other_rows[] = {
    {"fft_c2c", fft, NULL},
    {"check_within", check_within, NULL},
    {"cross_entropy_rows", cross_entropy, NULL},
    {"cross_entropy_rows_grad", cross_entropy_grad, NULL},
    {"weighted_gather", weighted_gather, NULL},
    {"weighted_dot", weighted_dot, NULL},
    {"weighted_scatter", weighted_scatter, NULL},
    {"embedding_renorm", renorm, NULL},
    {NULL, NULL, NULL}};
