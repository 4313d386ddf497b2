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
  double factor = (inverse ? (double)count : 1) / (scaling == 1 ? sqrt((double)count) : scaling == 2 ? (double)count : 1);
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

/* check_within(input, low, high): nobody on a device can object; whoever reads it gets what it would be. */
static void check_within(cni_hcall *c)
{
  c->out[0] = cni_hlo_splat(c->h, cni_hlo_int(1), c->out[0].dtype, c->out[0].ndim, c->out[0].shape);
}

const cni_hrow cni_hlo_other_rows[] = {
    {"fft_c2c", fft, NULL}, {"check_within", check_within, NULL}, {NULL, NULL, NULL}};
