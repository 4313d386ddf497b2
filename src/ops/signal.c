/* signal.c: the family of window functions for signals: Hann, Hamming, Blackman, Bartlett, Kaiser.
 *
 * Place in the flow: composites over arange and cos, computed in float64 and then cast. Invariant: a periodic window of
 * n points is a symmetric one of n + 1 points without its last. */
#include <cairn/kw.h>

#include "families.h"
#include "shorthand.h"

enum { LENGTH = 0, PERIODIC = 1, COSINES = 4 }; /* parameters; most cosines */

static const double PI = 3.14159265358979324;

typedef struct window {
  int64_t n;     /* points */
  double last;   /* the last place of the symmetric window */
  cn_tensor *at; /* (n), float64: 0, 1, 2, ... */
  cn_dtype dtype;
} window;

/* params: dtype and device stand at `types` and behind it. */
static int begin(const cn_call *c, window *w, int types)
{
  w->n = cni_arg_int(c->args, LENGTH);
  w->dtype = (cn_dtype)cni_arg_int_or(c->args, types, (int64_t)cn_default_dtype());
  if (w->n < 0)
    return cn_call_fail(c, CN_ERR_VALUE, "window_length must not be negative, but is %lld", (long long)w->n);
  int status = cni_check_dtype(c, (int64_t)w->dtype);
  if (status) return status;
  if (!cni_dtype_is_float((int)w->dtype))
    return cn_call_fail(c, CN_ERR_DTYPE, "makes floating-point numbers, not %s", cn_dtype_name(w->dtype));
  w->last = (double)(cni_arg_bool(c->args, PERIODIC) ? w->n : w->n - 1);
  w->at = cn_arange(0, (double)w->n, .dtype = CN_F64, .device = (cn_device)cni_arg_int_or(c->args, types + 1, 0));
  return cn_err();
}

/* A window of one place is 1. */
static int finish(cn_call *c, const window *w, cn_tensor *y)
{
  c->out[0] = cni_in_type(w->n == 1 ? cn_ones_like(w->at) : y, (int)w->dtype);
  return cn_err();
}

/* a[0] - a[1] cos x + a[2] cos 2x - ... */
static int cosines(cn_call *c, const double *a, int n, int types)
{
  window w;
  int status = begin(c, &w, types);
  if (status) return status;
  if (w.n < 2) return finish(c, &w, w.at);
  cn_tensor *y = NULL;
  for (int k = 1; k < n; k++) {
    cn_tensor *term = cn_cos(cn_mul(w.at, cn_num(2 * PI * k / w.last)));
    term = cn_mul(term, cn_num(k % 2 ? -a[k] : a[k]));
    y = y ? cn_add(y, term) : cn_add(term, cn_num(a[0]));
  }
  return finish(c, &w, y);
}

static int hann_decompose(cn_call *c) { return cosines(c, (double[]){0.5, 0.5}, 2, 2); }
static int blackman_decompose(cn_call *c) { return cosines(c, (double[]){0.42, 0.5, 0.08}, 3, 2); }
static int hamming_decompose(cn_call *c)
{
  return cosines(c, (double[]){cni_arg_float(c->args, 2), cni_arg_float(c->args, 3)}, 2, 4);
}

static int bartlett_decompose(cn_call *c)
{
  window w;
  int status = begin(c, &w, 2);
  if (status) return status;
  if (w.n < 2) return finish(c, &w, w.at);
  cn_tensor *x = cn_sub(cn_mul(w.at, cn_num(2 / w.last)), cn_num(1));
  return finish(c, &w, cn_sub(cn_num(1), cn_abs(x)));
}

/* i0(beta sqrt(1 - x^2)) / i0(beta), x from -1 to 1 */
static int kaiser_decompose(cn_call *c)
{
  window w;
  double beta = cni_arg_float(c->args, 2);
  int status = begin(c, &w, 3);
  if (status) return status;
  if (w.n < 2) return finish(c, &w, w.at);
  cn_tensor *x = cn_sub(cn_mul(w.at, cn_num(2 / w.last)), cn_num(1));
  cn_tensor *rest = cn_clamp_min(cn_sub(cn_num(1), cn_square(x)), cn_num(0));
  cn_tensor *top = cn_i0(cn_mul(cn_sqrt(rest), cn_num(beta)));
  cn_tensor *whole = cn_i0(cn_full(CN_SCALAR_SHAPE, beta, .dtype = CN_F64, .device = w.at->d.device));
  return finish(c, &w, cn_true_divide(top, whole));
}

/* clang-format off */
const cn_op cni_signal_ops[] = {
  {.sig = "hann_window(int window_length, bool periodic=True, *, dtype? dtype=None, device? device=None) -> Tensor",
   .doc = "Hann window, (1 - cos x) / 2; periodic leaves out the last place of the symmetric window.",
   .flags = CN_OP_COMPOSITE, .decompose = hann_decompose},
  {.sig = "hamming_window(int window_length, bool periodic=True, float alpha=0.54, float beta=0.46, *, "
          "dtype? dtype=None, device? device=None) -> Tensor",
   .doc = "Hamming window, alpha - beta cos x.",
   .flags = CN_OP_COMPOSITE, .decompose = hamming_decompose},
  {.sig = "blackman_window(int window_length, bool periodic=True, *, dtype? dtype=None, device? device=None) -> Tensor",
   .doc = "Blackman window, 0.42 - 0.5 cos x + 0.08 cos 2x.",
   .flags = CN_OP_COMPOSITE, .decompose = blackman_decompose},
  {.sig = "bartlett_window(int window_length, bool periodic=True, *, dtype? dtype=None, device? device=None) -> Tensor",
   .doc = "Bartlett window: up to 1 in the middle and down again in straight lines.",
   .flags = CN_OP_COMPOSITE, .decompose = bartlett_decompose},
  {.sig = "kaiser_window(int window_length, bool periodic=True, float beta=12, *, dtype? dtype=None, "
          "device? device=None) -> Tensor",
   .doc = "Kaiser window of shape beta, made of the Bessel function i0.",
   .flags = CN_OP_COMPOSITE, .decompose = kaiser_decompose},
};
/* clang-format on */
CNI_FAMILY(signal);
