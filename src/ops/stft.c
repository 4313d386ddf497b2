/* stft.c: the family of Fourier transforms of windows along a signal, and the signal from them.
 *
 * Place in the flow: composites over fft_rfft, fft_fft and their inverses. Invariant: a frame begins `hop` points after
 * the one before; windows of fewer than n_fft points stand in the middle of a frame. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>

#include "complex.h"
#include "families.h"

typedef struct frames {
  int64_t n, hop, length; /* points of a frame, from one to the next, of the window */
  cn_tensor *window;      /* (n); NULL: all ones */
  bool center, onesided;
} frames;

enum { INPUT, N_FFT, HOP, WIN_LENGTH, WINDOW, CENTER };

/* The window in the middle of n points. */
static cn_tensor *centred(const frames *f, cn_tensor *window, const cn_tensor *like)
{
  int64_t left = (f->n - f->length) / 2;
  if (!window && f->length == f->n) return NULL;
  if (!window)
    window = cn_ones(CN_SHAPE(f->length), .dtype = (cn_dtype)cni_dtype_part(cni_dtype_complex(like->d.dtype)),
                     .device = like->d.device);
  return left || f->length < f->n ? cn_constant_pad_nd(window, CN_SHAPE(left, f->n - f->length - left)) : window;
}

static int read_frames(const cn_call *c, frames *f)
{
  const cn_tensor *window = c->in[1];
  f->n = cni_arg_int(c->args, N_FFT);
  f->hop = cni_arg_int_or(c->args, HOP, f->n / 4);
  f->length = cni_arg_int_or(c->args, WIN_LENGTH, f->n);
  f->center = cni_arg_bool(c->args, CENTER);
  if (f->n < 1) return cn_call_fail(c, CN_ERR_VALUE, "n_fft must be positive, but is %lld", (long long)f->n);
  if (f->hop < 1) return cn_call_fail(c, CN_ERR_VALUE, "hop_length must be positive, but is %lld", (long long)f->hop);
  if (f->length < 1 || f->length > f->n)
    return cn_call_fail(c, CN_ERR_VALUE, "win_length must be from 1 to n_fft, but is %lld", (long long)f->length);
  if (window && (window->d.ndim != 1 || window->d.shape[0] != f->length))
    return cn_call_fail(c, CN_ERR_SHAPE, "window must be a vector of win_length = %lld numbers", (long long)f->length);
  f->window = centred(f, c->in[1], c->in[0]);
  return cn_err();
}

static bool option(const cn_call *c, int i, bool otherwise)
{
  return cni_arg_none(c->args, i) ? otherwise : cni_arg_bool(c->args, i);
}

/* 1 / sqrt(n), by which `normalized` scales a transform */
static cn_tensor *root(const frames *f, bool inverse)
{
  double n = (double)f->n;
  return cn_num(inverse ? __builtin_sqrt(n) : 1 / __builtin_sqrt(n));
}

/* ---- stft(input, n_fft, hop_length, win_length, window, center, pad_mode, normalized, onesided, return_complex,
 *           align_to_window) ---- */

enum { PAD_MODE = 6, NORMALIZED, ONESIDED, RETURN_COMPLEX, ALIGN };

/* (batch, length) with half a frame on both sides */
static cn_tensor *with_border(const cn_call *c, cn_tensor *x, const frames *f)
{
  return cn_pad(x, CN_SHAPE(f->n / 2, f->n / 2), .mode = cni_arg_str(c->args, PAD_MODE));
}

static int check_stft(const cn_call *c, bool complex)
{
  const cn_desc *x = &c->in[0]->d;
  if (!cni_dtype_is_inexact(x->dtype) || (x->ndim != 1 && x->ndim != 2))
    return cn_call_fail(c, CN_ERR_SHAPE, "takes a signal (L) or (B, L) of floating-point or complex numbers");
  if (cni_arg_none(c->args, RETURN_COMPLEX) && !complex)
    return cn_call_fail(c, CN_ERR_VALUE, "return_complex must be given for real inputs");
  if (option(c, ONESIDED, false) && complex)
    return cn_call_fail(c, CN_ERR_VALUE, "onesided is for real inputs and windows alone");
  if (option(c, ALIGN, false))
    return cn_call_fail(c, CN_ERR_UNSUPPORTED, "align_to_window is not supported: windows stand mid-frame");
  return CN_OK;
}

static int stft_decompose(cn_call *c)
{
  frames f;
  cn_tensor *x = c->in[INPUT];
  bool complex = cni_is_z(x) || cni_is_z(c->in[1]), batch = x->d.ndim == 2;
  int status = check_stft(c, complex);
  if (!status) status = read_frames(c, &f);
  if (status) return status;
  if (!batch) x = cn_unsqueeze(x, 0);
  if (f.center) x = with_border(c, x, &f);
  if (x && (f.n > x->d.shape[1]))
    return cn_call_fail(c, CN_ERR_VALUE, "n_fft must be at most the length of the signal, %lld, but is %lld",
                        (long long)x->d.shape[1], (long long)f.n);
  x = cn_unfold(x, 1, f.n, f.hop); /* (batch, frames, n) */
  if (f.window) x = cn_mul(x, f.window);
  cn_tensor *y = option(c, ONESIDED, !complex) ? cn_fft_rfft(x, CN_NONE) : cn_fft_fft(x, CN_NONE);
  if (cni_arg_bool(c->args, NORMALIZED)) y = cn_mul(y, root(&f, false));
  y = cn_transpose(y, 1, 2);
  if (!batch) y = cn_squeeze(y, .dim = CN_INTS(0));
  c->out[0] = option(c, RETURN_COMPLEX, true) ? y : cn_view_as_real(y);
  return cn_err();
}

/* ---- istft(input, n_fft, hop_length, win_length, window, center, normalized, onesided, length,
 *            return_complex) ---- */

enum { INV_NORMALIZED = 6, INV_ONESIDED, INV_LENGTH, INV_RETURN_COMPLEX };

/* Frames (batch, frames, n) of real numbers added up where they overlap: (batch, points). */
static cn_tensor *overlapped(cn_tensor *x, const frames *f)
{
  if (!x) return NULL;
  int64_t points = f->n + f->hop * (x->d.shape[1] - 1);
  cn_tensor *y = cn_fold(cn_transpose(x, 1, 2), CN_SHAPE(1, points), CN_SHAPE(1, f->n), .stride = CN_INTS(1, f->hop));
  return cn_flatten(y, .start_dim = 1);
}

static cn_tensor *overlapped_any(cn_tensor *x, const frames *f)
{
  return cni_is_z(x) ? cn_complex(overlapped(cn_real(x), f), overlapped(cn_imag(x), f)) : overlapped(x, f);
}

/* What the windows of all frames add up to, squared: (1, points). */
static cn_tensor *envelope(const frames *f, const cn_tensor *x, int64_t count)
{
  cn_tensor *w = f->window;
  int dtype = cni_dtype_part(cni_dtype_complex(x->d.dtype));
  if (!w) w = cn_ones(CN_SHAPE(f->n), .dtype = (cn_dtype)dtype, .device = x->d.device);
  return overlapped_any(cn_expand(cn_square(w), CN_SHAPE(1, count, f->n)), f);
}

static int check_istft(const cn_call *c, const frames *f, bool onesided)
{
  const cn_desc *x = &c->in[0]->d;
  int64_t bins = onesided ? f->n / 2 + 1 : f->n;
  if (!cni_dtype_is_complex(x->dtype) || (x->ndim != 2 && x->ndim != 3))
    return cn_call_fail(c, CN_ERR_SHAPE, "takes complex numbers of shape (N, T) or (B, N, T)");
  if (x->numel == 0) return cn_call_fail(c, CN_ERR_SHAPE, "needs at least one frame");
  if (x->shape[x->ndim - 2] != bins)
    return cn_call_fail(c, CN_ERR_SHAPE, "needs %lld frequencies for n_fft = %lld, not %lld", (long long)bins,
                        (long long)f->n, (long long)x->shape[x->ndim - 2]);
  if (f->hop > f->length)
    return cn_call_fail(c, CN_ERR_VALUE, "hop_length must be at most win_length, or points have no window");
  return CN_OK;
}

/* The points of y (batch, points) that were asked for, over the sum of windows there. */
static int cut(cn_call *c, cn_tensor *y, cn_tensor *below, const frames *f)
{
  if (!y || !below) return cn_err();
  int64_t start = f->center ? f->n / 2 : 0, points = y->d.shape[1], wanted = cni_arg_int_or(c->args, INV_LENGTH, -1);
  int64_t end = wanted >= 0 ? start + wanted : f->center ? points - f->n / 2 : points;
  if (end > points) end = points;
  if (end < start) end = start;
  y = cn_narrow(y, 1, start, end - start);
  below = cn_narrow(below, 1, start, end - start);
  if (end > start) {
    cn_tensor *least = cn_min(cn_abs(below));
    cn_tensor *ok = cn_check_within(least, 1e-11, __builtin_inf(), "the windows add up to zero somewhere");
    if (!ok) return cn_err();
  }
  y = cn_true_divide(y, below);
  if (wanted > end - start) y = cn_constant_pad_nd(y, CN_SHAPE(0, wanted - (end - start)));
  c->out[0] = c->in[0]->d.ndim == 3 ? y : cn_squeeze(y, .dim = CN_INTS(0));
  return cn_err();
}

static int istft_decompose(cn_call *c)
{
  frames f;
  cn_tensor *x = c->in[INPUT];
  int status = read_frames(c, &f);
  if (status) return status;
  bool complex = cni_arg_bool(c->args, INV_RETURN_COMPLEX);
  bool onesided = option(c, INV_ONESIDED, x->d.ndim > 1 && x->d.shape[x->d.ndim - 2] != f.n);
  if ((status = check_istft(c, &f, onesided))) return status;
  if (complex && onesided) return cn_call_fail(c, CN_ERR_VALUE, "a complex signal needs all frequencies, not onesided");
  if (!complex && cni_is_z(c->in[1]))
    return cn_call_fail(c, CN_ERR_VALUE, "a complex window needs return_complex");
  x = cn_transpose(x->d.ndim == 3 ? x : cn_unsqueeze(x, 0), 1, 2); /* (batch, frames, bins) */
  if (cni_arg_bool(c->args, INV_NORMALIZED)) x = cn_mul(x, root(&f, true));
  if (!onesided && !complex) x = cn_narrow(x, 2, 0, f.n / 2 + 1); /* of a real signal the others say nothing */
  cn_tensor *y = complex ? cn_fft_ifft(x, CN_NONE) : cn_fft_irfft(x, f.n);
  if (f.window) y = cn_mul(y, f.window);
  return y ? cut(c, overlapped_any(y, &f), envelope(&f, y, y->d.shape[1]), &f) : cn_err();
}

/* clang-format off */
const cn_op cni_stft_ops[] = {
  {.sig = "stft(Tensor input, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, "
          "bool center=True, str pad_mode='reflect', bool normalized=False, bool? onesided=None, "
          "bool? return_complex=None, bool? align_to_window=None) -> Tensor ; method complex opt_window",
   .doc = "Fourier transforms of windows along a signal (L) or (B, L), hop_length (n_fft / 4) apart: (N, T) or "
          "(B, N, T), N = n_fft / 2 + 1 frequencies of a real signal, else n_fft. center puts frame t around point "
          "t * hop_length.",
   .flags = CN_OP_COMPOSITE, .decompose = stft_decompose},
  {.sig = "istft(Tensor input, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, "
          "bool center=True, bool normalized=False, bool? onesided=None, int? length=None, "
          "bool return_complex=False) -> Tensor ; method complex opt_window",
   .doc = "The signal whose stft this is, by least squares: frames times the window, added up, over the sum of squared "
          "windows, which must not be zero.",
   .flags = CN_OP_COMPOSITE, .decompose = istft_decompose},
};
/* clang-format on */
CNI_FAMILY(stft);
