/* fft_nd.c: the family of Fourier transforms of tensors, along one dimension or several: of complex numbers, of real
 * ones, of numbers whose transforms are real; their frequencies and shifts.
 *
 * Place in the flow: composites over the transforms of lines (fft.c), one dimension after another. Invariant: norm says
 * who divides: 'backward' the inverse transform, 'forward' the other, 'ortho' both by the root. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>

#include "complex.h"
#include "families.h"
#include "fft.h"

/* A call, read: which dims, their sizes (NONE: as they are), and the scaling. */
typedef struct transform {
  cn_tensor *x;
  int n, dims[CN_MAX_DIMS], scaling;
  int64_t sizes[CN_MAX_DIMS];
  bool inverse;
} transform;

enum { SIZE = 1, DIM, NORM };

/* ---- reading the arguments ---- */

static int read_norm(const cn_call *c, transform *t)
{
  bool inverse = t->inverse;
  const cn_value *v = &c->args[NORM];
  if (v->tag == CN_V_NONE || cni_arg_is(c->args, NORM, "backward"))
    t->scaling = inverse ? CNI_FFT_BY_COUNT : CNI_FFT_UNSCALED;
  else if (cni_arg_is(c->args, NORM, "ortho")) t->scaling = CNI_FFT_ORTHO;
  else if (cni_arg_is(c->args, NORM, "forward")) t->scaling = inverse ? CNI_FFT_UNSCALED : CNI_FFT_BY_COUNT;
  else
    return cn_call_fail(c, CN_ERR_VALUE, "norm must be 'backward', 'ortho' or 'forward', but is '%s'",
                        cni_arg_str(c->args, NORM));
  return CN_OK;
}

/* The input in a type that transforms have; complex only where wanted. */
static int read_input(const cn_call *c, transform *t, bool complex_too)
{
  cn_tensor *x = c->in[0];
  int dtype = x->d.dtype;
  if (cni_dtype_is_complex(dtype) && !complex_too)
    return cn_call_fail(c, CN_ERR_DTYPE, "takes real numbers, not %s", cn_dtype_name((cn_dtype)dtype));
  if (!cni_dtype_is_inexact(dtype)) dtype = (int)cn_default_dtype();
  if (dtype != CN_F32 && dtype != CN_F64 && dtype != CN_C64 && dtype != CN_C128)
    return cn_call_fail(c, CN_ERR_DTYPE, "is not for %s; cast it to float32 or complex64",
                        cn_dtype_name((cn_dtype)dtype));
  t->x = cni_in_type(x, dtype);
  return cn_err();
}

/* n and dim: one dimension */
static int read_line(const cn_call *c, transform *t)
{
  if (c->in[0]->d.ndim == 0) return cn_call_fail(c, CN_ERR_SHAPE, "needs a dimension to transform");
  t->n = 1;
  t->dims[0] = cn_call_dim(c, cni_arg_int(c->args, DIM), c->in[0]->d.ndim);
  t->sizes[0] = cni_arg_int_or(c->args, SIZE, CN_NONE);
  return t->dims[0] < 0 ? t->dims[0] : CN_OK;
}

/* s and dim: several; without dim the last ones that s has sizes for, without both all. */
static int read_dims(const cn_call *c, transform *t)
{
  const cn_value *s = &c->args[SIZE], *dim = &c->args[DIM];
  int ndim = c->in[0]->d.ndim;
  bool sized = s->tag == CN_V_INTS, listed = dim->tag == CN_V_INTS;
  t->n = listed ? dim->n : sized ? s->n : ndim;
  if (t->n > ndim) return cn_call_fail(c, CN_ERR_SHAPE, "transforms %d dimensions of %d", t->n, ndim);
  if (sized && s->n != t->n)
    return cn_call_fail(c, CN_ERR_VALUE, "s has %d sizes for %d dimensions", s->n, t->n);
  uint32_t seen = 0;
  for (int i = 0; i < t->n; i++) {
    int d = t->dims[i] = listed ? cn_call_dim(c, dim->u.is[i], ndim) : ndim - t->n + i;
    if (d < 0) return d;
    if (seen >> d & 1) return cn_call_fail(c, CN_ERR_VALUE, "dimension %d appears twice in dim", d);
    seen |= 1u << d;
    t->sizes[i] = sized && s->u.is[i] != -1 ? s->u.is[i] : CN_NONE;
  }
  return CN_OK;
}

static int read_call(const cn_call *c, transform *t, bool line, bool complex_too)
{
  int status = line ? read_line(c, t) : read_dims(c, t);
  if (!status) status = read_norm(c, t);
  return status ? status : read_input(c, t, complex_too);
}

/* ---- along one dimension ---- */

static int check_points(const cn_call *c, int64_t n)
{
  if (n >= 1) return CN_OK;
  return cn_call_fail(c, CN_ERR_VALUE, "the number of points must be at least 1, but is %lld", (long long)n);
}

/* x with `dim` cut or filled up with zeros to n. */
static cn_tensor *sized(cn_tensor *x, int dim, int64_t n)
{
  int64_t have = x ? x->d.shape[dim] : n, pad[2 * CN_MAX_DIMS] = {0};
  if (have == n) return x;
  if (have > n) return cn_narrow(x, dim, 0, n);
  int behind = x->d.ndim - 1 - dim;
  pad[2 * behind + 1] = n - have;
  return cn_constant_pad_nd(x, pad, (size_t)(2 * behind + 2));
}

static cn_tensor *moved(cn_tensor *x, int64_t from, int64_t to) { return cn_movedim(x, &from, 1, &to, 1); }

/* Of complex numbers, n of them along dim. */
static cn_tensor *complex_line(cn_tensor *x, int dim, int64_t n, const transform *t)
{
  cn_tensor *pairs = moved(cn_view_as_real(sized(x, dim, n)), dim, -2);
  return cni_from_pairs(moved(cn_fft_c2c(pairs, t->inverse, t->scaling), -2, dim));
}

static int64_t points(const transform *t, int i)
{
  return t->sizes[i] == CN_NONE ? t->x->d.shape[t->dims[i]] : t->sizes[i];
}

/* Complex numbers along dims [0, n). */
static int complex_lines(const cn_call *c, transform *t, int n)
{
  if (!t->x) return cn_err();
  t->x = cni_as_complex(t->x, cni_dtype_complex(t->x->d.dtype), c->device);
  for (int i = 0; i < n && t->x; i++) {
    int status = check_points(c, points(t, i));
    if (status) return status;
    t->x = complex_line(t->x, t->dims[i], points(t, i), t);
  }
  return cn_err();
}

static int no_dims(const cn_call *c)
{
  return cn_call_fail(c, CN_ERR_SHAPE, "needs at least one dimension to transform");
}

/* Real numbers along the last of the dims: the first half of their transform. */
static int real_line(const cn_call *c, transform *t)
{
  if (t->n < 1) return no_dims(c);
  if (!t->x) return cn_err();
  int dim = t->dims[t->n - 1];
  int64_t n = points(t, t->n - 1);
  int status = check_points(c, n);
  if (status) return status;
  cn_tensor *pairs = cn_fft_r2c(moved(sized(t->x, dim, n), dim, -1), t->scaling);
  t->x = cni_from_pairs(moved(pairs, -2, dim));
  return cn_err();
}

/* The way back: n real numbers from the first half of their transform. */
static int half_line(const cn_call *c, transform *t)
{
  if (t->n < 1) return no_dims(c);
  int dim = t->dims[t->n - 1];
  int64_t n = t->sizes[t->n - 1];
  if (n == CN_NONE) n = 2 * (t->x->d.shape[dim] - 1);
  int status = check_points(c, n);
  if (status) return status;
  t->x = cni_as_complex(t->x, cni_dtype_complex(t->x->d.dtype), c->device);
  cn_tensor *pairs = moved(cn_view_as_real(sized(t->x, dim, n / 2 + 1)), dim, -2);
  t->x = moved(cn_fft_c2r(pairs, n, t->scaling), -1, dim);
  return cn_err();
}

/* ---- the ops ---- */

static int complex_to_complex(cn_call *c, bool line, bool inverse)
{
  transform t = {.inverse = inverse};
  int status = read_call(c, &t, line, true);
  if (!status) status = complex_lines(c, &t, t.n);
  c->out[0] = t.x == c->in[0] ? cn_clone(t.x) : t.x;
  return status ? status : cn_err();
}

/* mirrored: the transform of what a real spectrum comes from (ihfft): scaled as an inverse, and conjugate. */
static int real_to_complex(cn_call *c, bool line, bool mirrored)
{
  transform t = {.inverse = mirrored};
  int status = read_call(c, &t, line, false);
  t.inverse = false;
  if (!status) status = real_line(c, &t);
  if (!status) status = complex_lines(c, &t, t.n - 1);
  c->out[0] = mirrored ? cn_conj(t.x) : t.x;
  return status ? status : cn_err();
}

/* mirrored: the real spectrum of such numbers (hfft): scaled as a transform, of the conjugates. */
static int complex_to_real(cn_call *c, bool line, bool mirrored)
{
  transform t = {.inverse = !mirrored};
  int status = read_call(c, &t, line, true);
  t.inverse = true;
  if (!status && mirrored) t.x = cn_conj(t.x);
  if (!status) status = complex_lines(c, &t, t.n ? t.n - 1 : 0);
  if (!status) status = half_line(c, &t);
  c->out[0] = t.x;
  return status ? status : cn_err();
}

static int fft_decompose(cn_call *c) { return complex_to_complex(c, true, false); }
static int ifft_decompose(cn_call *c) { return complex_to_complex(c, true, true); }
static int fftn_decompose(cn_call *c) { return complex_to_complex(c, false, false); }
static int ifftn_decompose(cn_call *c) { return complex_to_complex(c, false, true); }
static int rfft_decompose(cn_call *c) { return real_to_complex(c, true, false); }
static int rfftn_decompose(cn_call *c) { return real_to_complex(c, false, false); }
static int ihfft_decompose(cn_call *c) { return real_to_complex(c, true, true); }
static int ihfftn_decompose(cn_call *c) { return real_to_complex(c, false, true); }
static int irfft_decompose(cn_call *c) { return complex_to_real(c, true, false); }
static int irfftn_decompose(cn_call *c) { return complex_to_real(c, false, false); }
static int hfft_decompose(cn_call *c) { return complex_to_real(c, true, true); }
static int hfftn_decompose(cn_call *c) { return complex_to_real(c, false, true); }

/* ---- frequencies, shifts ---- */

/* (n, d, dtype, device) */
static int frequencies(cn_call *c, int64_t from, int64_t to)
{
  int64_t n = cni_arg_int(c->args, 0), dtype = cni_arg_int_or(c->args, 2, (int64_t)cn_default_dtype());
  if (n < 0) return cn_call_fail(c, CN_ERR_VALUE, "n must not be negative, but is %lld", (long long)n);
  int status = cni_check_dtype(c, dtype);
  if (status) return status;
  if (!cni_dtype_is_inexact((int)dtype))
    return cn_call_fail(c, CN_ERR_DTYPE, "makes floating-point numbers, not %s", cn_dtype_name((cn_dtype)dtype));
  cn_tensor *k = cn_arange((double)from, (double)to, .dtype = CN_F64,
                           .device = (cn_device)cni_arg_int_or(c->args, 3, CN_DEVICE_DEFAULT));
  if (from < 0) k = cn_roll(k, CN_SHAPE(from), .dims = CN_INTS(0)); /* the negative ones stand behind */
  c->out[0] = cni_in_type(cn_mul(k, cn_num(1 / ((double)n * cni_arg_float(c->args, 1)))), (int)dtype);
  return cn_err();
}
static int fftfreq_decompose(cn_call *c)
{
  int64_t n = cni_arg_int(c->args, 0);
  return frequencies(c, -(n / 2), n - n / 2);
}
static int rfftfreq_decompose(cn_call *c) { return frequencies(c, 0, cni_arg_int(c->args, 0) / 2 + 1); }

/* (input, dim): each dim turned by half its size */
static int shift(cn_call *c, bool back)
{
  int64_t dims[CN_MAX_DIMS], by[CN_MAX_DIMS];
  const cn_desc *d = &c->in[0]->d;
  int n = c->args[1].tag == CN_V_INTS ? c->args[1].n : d->ndim;
  if (n > CN_MAX_DIMS) return cn_call_fail(c, CN_ERR_SHAPE, "too many dimensions");
  for (int i = 0; i < n; i++) {
    int dim = c->args[1].tag == CN_V_INTS ? cn_call_dim(c, c->args[1].u.is[i], d->ndim) : i;
    if (dim < 0) return dim;
    dims[i] = dim;
    by[i] = d->ndim ? (d->shape[dim] + back) / 2 : 0;
  }
  c->out[0] = n && d->ndim ? cn_roll(c->in[0], by, (size_t)n, .dims = {dims, (size_t)n}) : cn_clone(c->in[0]);
  return cn_err();
}
static int fftshift_decompose(cn_call *c) { return shift(c, false); }
static int ifftshift_decompose(cn_call *c) { return shift(c, true); }


/* clang-format off */
const cn_op cni_fft_nd_ops[] = {
  {.sig = "fft_fft(Tensor input, int? n=None, int dim=-1, str? norm=None) -> Tensor ; fft complex amp_f32_host",
   .doc = "The discrete Fourier transform along dim, cut or filled up with zeros to n. norm: 'backward' (no scaling), "
          "'ortho' or 'forward' (divided by n).",
   .flags = CN_OP_COMPOSITE, .version = 2, .decompose = fft_decompose},
  {.sig = "fft_ifft(Tensor input, int? n=None, int dim=-1, str? norm=None) -> Tensor ; fft complex amp_f32_host",
   .doc = "The inverse of fft_fft: 'backward' divides by n, 'forward' does not.",
   .flags = CN_OP_COMPOSITE, .version = 2, .decompose = ifft_decompose},
  {.sig = "fft_rfft(Tensor input, int? n=None, int dim=-1, str? norm=None) -> Tensor ; fft complex amp_f32_host",
   .doc = "The first n / 2 + 1 points of the Fourier transform of real numbers along dim; the others are their "
          "conjugates.",
   .flags = CN_OP_COMPOSITE, .version = 2, .decompose = rfft_decompose},
  {.sig = "fft_irfft(Tensor input, int? n=None, int dim=-1, str? norm=None) -> Tensor ; fft complex amp_f32_host",
   .doc = "The inverse of fft_rfft: n real numbers, 2 (size - 1) by default.",
   .flags = CN_OP_COMPOSITE, .version = 2, .decompose = irfft_decompose},
  {.sig = "fft_hfft(Tensor input, int? n=None, int dim=-1, str? norm=None) -> Tensor ; fft complex amp_f32_host",
   .doc = "The real Fourier transform of numbers of which dim holds the first half and their conjugates are the other: "
          "n real numbers, 2 (size - 1) by default.",
   .flags = CN_OP_COMPOSITE, .decompose = hfft_decompose},
  {.sig = "fft_ihfft(Tensor input, int? n=None, int dim=-1, str? norm=None) -> Tensor ; fft complex amp_f32_host",
   .doc = "The inverse of fft_hfft: the first n / 2 + 1 numbers whose transform is this real one.",
   .flags = CN_OP_COMPOSITE, .decompose = ihfft_decompose},
  {.sig = "fft_fft2(Tensor input, int[]? s=None, int[] dim=[-2,-1], str? norm=None) -> Tensor "
          "; fft complex amp_f32_host",
   .doc = "fft_fft along two dimensions, cut or filled up with zeros to s.",
   .flags = CN_OP_COMPOSITE, .decompose = fftn_decompose},
  {.sig = "fft_ifft2(Tensor input, int[]? s=None, int[] dim=[-2,-1], str? norm=None) -> Tensor "
          "; fft complex amp_f32_host",
   .doc = "The inverse of fft_fft2.",
   .flags = CN_OP_COMPOSITE, .decompose = ifftn_decompose},
  {.sig = "fft_rfft2(Tensor input, int[]? s=None, int[] dim=[-2,-1], str? norm=None) -> Tensor "
          "; fft complex amp_f32_host",
   .doc = "fft_rfft along the last of two dimensions, fft_fft along the other.",
   .flags = CN_OP_COMPOSITE, .decompose = rfftn_decompose},
  {.sig = "fft_irfft2(Tensor input, int[]? s=None, int[] dim=[-2,-1], str? norm=None) -> Tensor "
          "; fft complex amp_f32_host",
   .doc = "The inverse of fft_rfft2.",
   .flags = CN_OP_COMPOSITE, .decompose = irfftn_decompose},
  {.sig = "fft_hfft2(Tensor input, int[]? s=None, int[] dim=[-2,-1], str? norm=None) -> Tensor "
          "; fft complex amp_f32_host",
   .doc = "fft_fft along the first of two dimensions, fft_hfft along the last.",
   .flags = CN_OP_COMPOSITE, .decompose = hfftn_decompose},
  {.sig = "fft_ihfft2(Tensor input, int[]? s=None, int[] dim=[-2,-1], str? norm=None) -> Tensor "
          "; fft complex amp_f32_host",
   .doc = "The inverse of fft_hfft2.",
   .flags = CN_OP_COMPOSITE, .decompose = ihfftn_decompose},
  {.sig = "fft_fftn(Tensor input, int[]? s=None, int[]? dim=None, str? norm=None) -> Tensor "
          "; fft complex amp_f32_host",
   .doc = "fft_fft along all dimensions, or those of dim, cut or filled up with zeros to s (-1: as they are); s alone "
          "is of the last ones.",
   .flags = CN_OP_COMPOSITE, .decompose = fftn_decompose},
  {.sig = "fft_ifftn(Tensor input, int[]? s=None, int[]? dim=None, str? norm=None) -> Tensor "
          "; fft complex amp_f32_host",
   .doc = "The inverse of fft_fftn.",
   .flags = CN_OP_COMPOSITE, .decompose = ifftn_decompose},
  {.sig = "fft_rfftn(Tensor input, int[]? s=None, int[]? dim=None, str? norm=None) -> Tensor "
          "; fft complex amp_f32_host",
   .doc = "fft_rfft along the last of the dimensions, fft_fft along the others.",
   .flags = CN_OP_COMPOSITE, .decompose = rfftn_decompose},
  {.sig = "fft_irfftn(Tensor input, int[]? s=None, int[]? dim=None, str? norm=None) -> Tensor "
          "; fft complex amp_f32_host",
   .doc = "The inverse of fft_rfftn.",
   .flags = CN_OP_COMPOSITE, .decompose = irfftn_decompose},
  {.sig = "fft_hfftn(Tensor input, int[]? s=None, int[]? dim=None, str? norm=None) -> Tensor "
          "; fft complex amp_f32_host",
   .doc = "fft_hfft along the last of the dimensions, fft_fft along the others.",
   .flags = CN_OP_COMPOSITE, .decompose = hfftn_decompose},
  {.sig = "fft_ihfftn(Tensor input, int[]? s=None, int[]? dim=None, str? norm=None) -> Tensor "
          "; fft complex amp_f32_host",
   .doc = "The inverse of fft_hfftn.",
   .flags = CN_OP_COMPOSITE, .decompose = ihfftn_decompose},
  {.sig = "fft_fftfreq(int n, float d=1.0, *, dtype? dtype=None, device? device=None) -> Tensor ; fft",
   .doc = "The frequencies of the points of fft_fft, of samples d apart: 0, 1, ..., -2, -1 over n d.",
   .flags = CN_OP_COMPOSITE, .decompose = fftfreq_decompose},
  {.sig = "fft_rfftfreq(int n, float d=1.0, *, dtype? dtype=None, device? device=None) -> Tensor ; fft",
   .doc = "The frequencies of the points of fft_rfft: 0, 1, ..., n / 2 over n d.",
   .flags = CN_OP_COMPOSITE, .decompose = rfftfreq_decompose},
  {.sig = "fft_fftshift(Tensor input, int[]? dim=None) -> Tensor ; fft complex",
   .doc = "All dimensions, or those of dim, turned by half, so that frequency 0 is in the middle.",
   .flags = CN_OP_COMPOSITE, .decompose = fftshift_decompose},
  {.sig = "fft_ifftshift(Tensor input, int[]? dim=None) -> Tensor ; fft complex",
   .doc = "The inverse of fft_fftshift.",
   .flags = CN_OP_COMPOSITE, .decompose = ifftshift_decompose},
};
/* clang-format on */
CNI_FAMILY(fft_nd);
