/* complex_rules.c: what pointwise arithmetic, comparisons and creation do with complex numbers, as formulas of real ops
 * on real and imaginary parts.
 *
 * Place in the flow: complex.c calls a rule as the decomposition of its op. Invariant: where a formula divides by what
 * may be zero, its gradient does not see that branch. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>

#include <math.h>

#include "complex.h"

/* ---- types ---- */

/* Complex numbers as real ones: the real part; as bool: is it not 0? */
bool cni_complex_cast_when(const cn_call *c)
{
  return cni_is_z(c->in[0]) && !cni_dtype_is_complex((int)cni_arg_int(c->args, 1));
}
int cni_complex_cast(cn_call *c)
{
  int dtype = (int)cni_arg_int(c->args, 1);
  if (dtype == CN_BOOL) c->out[0] = cn_ne(c->in[0], cn_int(0));
  else c->out[0] = cn_cast(cn_real(c->in[0]), (cn_dtype)dtype);
  return cn_err();
}

bool cni_complex_copy_when(const cn_call *c) { return cni_is_z(c->in[1]) && !cni_is_z(c->in[0]); }
int cni_complex_copy(cn_call *c)
{
  c->out[0] = cn_copy(c->in[0], cn_cast(c->in[1], (cn_dtype)c->in[0]->d.dtype));
  return cn_err();
}

bool cni_complex_fill_when(const cn_call *c) { return cni_complex_copy_when(c); }
int cni_complex_fill(cn_call *c)
{
  return cn_call_fail(c, CN_ERR_DTYPE, "a complex value cannot be written into %s without losing its imaginary part",
                      cn_dtype_name((cn_dtype)c->in[0]->d.dtype));
}

/* ---- arithmetic ---- */

/* input + alpha * other. A real alpha scales both parts. */
int cni_complex_add(cn_call *c)
{
  if (c->args[2].tag != CN_V_FLOATS) return cni_on_pairs(c);
  c->out[0] = cn_add(c->in[0], cn_mul(c->in[1], cni_number(&c->args[2])));
  return cn_err();
}
int cni_complex_sub(cn_call *c)
{
  if (c->args[2].tag != CN_V_FLOATS) return cni_on_pairs(c);
  c->out[0] = cn_sub(c->in[0], cn_mul(c->in[1], cni_number(&c->args[2])));
  return cn_err();
}
int cni_complex_rsub(cn_call *c)
{
  c->out[0] = cn_sub(c->in[1], cn_mul(c->in[0], cni_number(&c->args[2])));
  return cn_err();
}

/* Both operands in the type they compute in; a real one stays real, of that type's parts. 0 or an error. */
static int operands(const cn_call *c, cn_tensor **a, cn_tensor **b)
{
  int dtype = cni_result_type(c, c->in, 2);
  cn_tensor **both[2] = {a, b};
  if (!dtype) return CN_ERR_DTYPE;
  for (int i = 0; i < 2; i++) {
    int own = cni_is_z(c->in[i]) ? dtype : cni_dtype_part(dtype);
    *both[i] = c->in[i]->d.weak && own != dtype ? c->in[i] : cni_as_complex(c->in[i], own, c->device);
  }
  return cn_err();
}

/* z times real numbers, broadcast */
static cn_tensor *scaled(cn_tensor *z, cn_tensor *r)
{
  if (!r || !z) return NULL;
  return cni_from_pairs(cn_mul(cn_view_as_real(z), r->d.weak ? r : cn_unsqueeze(r, -1)));
}
static cn_tensor *divided(cn_tensor *z, cn_tensor *r)
{
  if (!r || !z) return NULL;
  return cni_from_pairs(cn_true_divide(cn_view_as_real(z), r->d.weak ? r : cn_unsqueeze(r, -1)));
}

int cni_complex_mul(cn_call *c)
{
  cn_tensor *a, *b;
  int status = operands(c, &a, &b);
  if (status) return status;
  if (!cni_is_z(b)) c->out[0] = scaled(a, b);
  else c->out[0] = cni_is_z(a) ? cn_mul_complex(a, b, false) : scaled(b, a);
  return cn_err();
}

/* The larger of both parts' sizes, 1 where it is 0 or not finite: divided by it neither overflows when squared. No
 * gradient flows: what is divided is multiplied again. */
static cn_tensor *scale_of(cn_tensor *z)
{
  cn_tensor *pairs = cn_detach(cn_view_as_real(z)), *most = cn_amax(cn_abs(pairs), .dim = CN_INTS(-1));
  cn_tensor *fits = cn_logical_and(cn_isfinite(most), cn_gt(most, cn_num(0)));
  return cn_where(fits, most, cn_num(1));
}

/* a / b = (a / s) conj(b / s) / |b / s|^2, where a may be real */
static cn_tensor *quotient(cn_tensor *a, cn_tensor *b)
{
  cn_tensor *s = scale_of(b), *t = divided(b, s);
  cni_z z = cni_parts(t);
  cn_tensor *square = cn_add(cn_square(z.re), cn_square(z.im)), *unit = divided(cn_conj(t), cn_mul(square, s));
  if (!a || !unit) return NULL;
  return cni_is_z(a) ? cn_mul_complex(a, unit, false) : scaled(unit, a);
}

int cni_complex_true_divide(cn_call *c)
{
  cn_tensor *a, *b;
  int status = operands(c, &a, &b);
  if (status) return status;
  c->out[0] = cni_is_z(b) ? quotient(a, b) : divided(a, b);
  return cn_err();
}

int cni_complex_reciprocal(cn_call *c)
{
  c->out[0] = quotient(cn_num(1), c->in[0]);
  return cn_err();
}

int cni_complex_square(cn_call *c)
{
  c->out[0] = cn_mul(c->in[0], c->in[0]);
  return cn_err();
}

/* The value of a real number among the operands, if it is one. That of a graph's input is not known: an error, since
 * the way that is taken depends on it. */
static bool number_of(cn_tensor *t, double *value)
{
  if (!t->d.weak || cni_is_z(t)) return false;
  *value = cn_item(t);
  return !cn_err();
}

/* input ** exponent: small whole numbers by products, others exp(exponent log(input)). 0 ** e is 1 for e = 0, else 0
 * where the real part of e is positive, and NaN. */
int cni_complex_pow(cn_call *c)
{
  double e;
  cn_tensor *z = c->in[0], *w = c->in[1];
  int dtype = cni_result_type(c, c->in, 2);
  if (!dtype) return CN_ERR_DTYPE;
  if (number_of(w, &e)) {
    if (e == 0) c->out[0] = cn_ones_like(z);
    else if (e == 1) c->out[0] = cn_clone(z);
    else if (e == 2 || e == -2) c->out[0] = cn_mul(z, z);
    else if (e == 3) c->out[0] = cn_mul(cn_mul(z, z), z);
    else if (e == 0.5 || e == -0.5) c->out[0] = cn_sqrt(z);
    else if (e == -1) c->out[0] = z;
    if (c->out[0] && e < 0) c->out[0] = cn_reciprocal(c->out[0]);
    if (c->out[0]) return cn_err();
  }
  z = cni_as_complex(z, dtype, c->device);
  w = cni_as_complex(w, dtype, c->device);
  cn_tensor *zero = cn_eq(z, cn_int(0)), *one = cn_eq(w, cn_int(0));
  cn_tensor *safe = cn_where(zero, cn_complex_num(1, 0), z);
  cn_tensor *right = cn_gt(cn_real(w), cn_num(0)), *none = cn_complex_num((double)NAN, (double)NAN);
  cn_tensor *at_zero = cn_where(one, cn_complex_num(1, 0), cn_where(right, cn_complex_num(0, 0), none));
  c->out[0] = cn_where(zero, cni_as_complex(at_zero, dtype, c->device), cn_exp(cn_mul(w, cn_log(safe))));
  return cn_err();
}

/* (input, tensor1, tensor2, value) */
int cni_complex_addcmul(cn_call *c)
{
  c->out[0] = cn_add(c->in[0], cn_mul(cn_mul(c->in[1], c->in[2]), cni_number(&c->args[3])));
  return cn_err();
}
int cni_complex_addcdiv(cn_call *c)
{
  c->out[0] = cn_add(c->in[0], cn_mul(cn_true_divide(c->in[1], c->in[2]), cni_number(&c->args[3])));
  return cn_err();
}

/* As for real numbers in two forms, so that weight 1 gives end exactly. */
int cni_complex_lerp(cn_call *c)
{
  int dtype = cni_result_type(c, c->in, 3);
  if (!dtype) return CN_ERR_DTYPE;
  cn_tensor *x = c->in[0], *y = c->in[1], *w = c->in[2], *d = cn_sub(y, x);
  if (w->d.weak && cni_is_z(w)) w = cni_as_complex(w, dtype, c->device);
  cn_tensor *near = cn_add(x, cn_mul(w, d)), *far = cn_sub(y, cn_mul(d, cn_sub(cn_num(1), w)));
  c->out[0] = cn_where(cn_lt(cn_abs(w), cn_num(0.5)), near, far);
  return cn_err();
}

/* In complex128. */
int cni_complex_float_power(cn_call *c)
{
  cn_tensor *e = c->in[1]->d.weak ? c->in[1] : cni_as_complex(c->in[1], CN_C128, c->device);
  c->out[0] = cn_pow(cni_as_complex(c->in[0], CN_C128, c->device), e);
  return cn_err();
}

int cni_complex_ldexp(cn_call *c)
{
  c->out[0] = cn_mul(c->in[0], cn_pow(cn_num(2), c->in[1]));
  return cn_err();
}

/* ---- choosing, filling ---- */

int cni_complex_masked_fill(cn_call *c)
{
  cn_tensor *x = c->in[0], *mask = c->in[1], *value = c->in[2];
  if (!cni_is_z(x)) return cn_call_fail(c, CN_ERR_DTYPE, "a complex value does not fit real numbers");
  if (mask->d.dtype != CN_BOOL) return cn_call_fail(c, CN_ERR_DTYPE, "mask must be bool");
  if (value->d.ndim) return cn_call_fail(c, CN_ERR_SHAPE, "value must be a number or a zero-dimensional tensor");
  c->out[0] = cn_where(mask, cni_as_complex(value, x->d.dtype, c->device), x);
  return cn_err();
}

/* Both parts of a Scalar. */
static void parts_of_number(const cn_value *v, double *re, double *im)
{
  *re = v->tag == CN_V_FLOATS ? v->u.fs[0] : v->tag == CN_V_FLOAT ? v->u.f : (double)v->u.i;
  *im = v->tag == CN_V_FLOATS ? v->u.fs[1] : 0;
}

/* (input, pad, value) */
int cni_complex_constant_pad_nd(cn_call *c)
{
  double re, im;
  const cn_value *pad = &c->args[1];
  cni_z z = cni_parts(c->in[0]);
  parts_of_number(&c->args[2], &re, &im);
  c->out[0] = cn_complex(cn_constant_pad_nd(z.re, pad->u.is, (size_t)pad->n, .value = re),
                         cn_constant_pad_nd(z.im, pad->u.is, (size_t)pad->n, .value = im));
  return cn_err();
}

/* (input, dim, index, value) */
int cni_complex_scatter_value(cn_call *c)
{
  c->out[0] = cn_scatter(c->in[0], cni_arg_int(c->args, 1), c->in[1], cni_number(&c->args[3]));
  return cn_err();
}

/* As it is, whose parts take a complex number. */
int cni_complex_unsafe_masked_index(cn_call *c) { return cni_op_info(c->op)->row->decompose(c); }

/* ---- sizes and angles ---- */

int cni_complex_abs(cn_call *c)
{
  cni_z z = cni_parts(c->in[0]);
  c->out[0] = cn_abs_complex(z.re, z.im);
  return cn_err();
}

int cni_complex_angle(cn_call *c)
{
  cni_z z = cni_parts(c->in[0]);
  c->out[0] = cn_atan2(z.im, z.re);
  return cn_err();
}

int cni_complex_sgn(cn_call *c)
{
  cn_tensor *size = cn_abs(c->in[0]), *zero = cn_eq(size, cn_num(0));
  cn_tensor *unit = divided(c->in[0], cn_where(zero, cn_num(1), size));
  c->out[0] = cn_where(zero, cn_complex_num(0, 0), unit);
  return cn_err();
}

/* ---- comparisons ---- */

static int compared(cn_call *c, cn_tensor *(*compare)(cn_tensor *, cn_tensor *),
                    cn_tensor *(*both)(cn_tensor *, cn_tensor *))
{
  int dtype = cni_result_type(c, c->in, 2);
  if (!dtype) return CN_ERR_DTYPE;
  cni_z a = cni_parts(cni_as_complex(c->in[0], dtype, c->device));
  cni_z b = cni_parts(cni_as_complex(c->in[1], dtype, c->device));
  c->out[0] = both(compare(a.re, b.re), compare(a.im, b.im));
  return cn_err();
}
int cni_complex_eq(cn_call *c) { return compared(c, cn_eq, cn_logical_and); }
int cni_complex_ne(cn_call *c) { return compared(c, cn_ne, cn_logical_or); }

static int tested(cn_call *c, cn_tensor *(*test)(cn_tensor *), cn_tensor *(*both)(cn_tensor *, cn_tensor *))
{
  cni_z z = cni_parts(c->in[0]);
  c->out[0] = both(test(z.re), test(z.im));
  return cn_err();
}
int cni_complex_isnan(cn_call *c) { return tested(c, cn_isnan, cn_logical_or); }
int cni_complex_isinf(cn_call *c) { return tested(c, cn_isinf, cn_logical_or); }
int cni_complex_isfinite(cn_call *c) { return tested(c, cn_isfinite, cn_logical_and); }

/* (input, other, rtol, atol, equal_nan) */
int cni_complex_isclose(cn_call *c)
{
  cn_tensor *a = c->in[0], *b = c->in[1];
  if (a->d.dtype != b->d.dtype)
    return cn_call_fail(c, CN_ERR_DTYPE, "both tensors must have one type, not %s and %s",
                        cn_dtype_name((cn_dtype)a->d.dtype), cn_dtype_name((cn_dtype)b->d.dtype));
  double rtol = cni_arg_float(c->args, 2), atol = cni_arg_float(c->args, 3);
  if (!(rtol >= 0) || !(atol >= 0)) return cn_call_fail(c, CN_ERR_VALUE, "rtol and atol must not be negative");
  cn_tensor *allowed = cn_add(cn_num(atol), cn_abs(cn_mul(b, cn_num(rtol)))), *far = cn_abs(cn_sub(a, b));
  cn_tensor *near = cn_logical_and(cn_isfinite(far), cn_le(far, allowed)), *same = cn_eq(a, b);
  if (cni_arg_bool(c->args, 4)) same = cn_logical_or(same, cn_logical_and(cn_isnan(a), cn_isnan(b)));
  c->out[0] = cn_logical_or(same, near);
  return cn_err();
}

/* ---- truth ---- */

static cn_tensor *truth(cn_tensor *t) { return cni_in_type(t, CN_BOOL); }

int cni_complex_logical_not(cn_call *c)
{
  c->out[0] = cn_eq(c->in[0], cn_int(0));
  return cn_err();
}
int cni_complex_logical_and(cn_call *c)
{
  c->out[0] = cn_logical_and(truth(c->in[0]), truth(c->in[1]));
  return cn_err();
}
int cni_complex_logical_or(cn_call *c)
{
  c->out[0] = cn_logical_or(truth(c->in[0]), truth(c->in[1]));
  return cn_err();
}
int cni_complex_logical_xor(cn_call *c)
{
  c->out[0] = cn_logical_xor(truth(c->in[0]), truth(c->in[1]));
  return cn_err();
}

/* ---- creation: (size or input, dtype, device) ---- */

typedef cn_tensor *draw_fn(const cn_call *c, cn_dtype part);

static cn_tensor *draw_uniform(const cn_call *c, cn_dtype part)
{
  return cn_rand(c->args[0].u.is, (size_t)c->args[0].n, .dtype = part,
                 .device = (cn_device)cni_arg_int_or(c->args, 2, CN_DEVICE_DEFAULT));
}
static cn_tensor *draw_normal(const cn_call *c, cn_dtype part)
{
  return cn_randn(c->args[0].u.is, (size_t)c->args[0].n, .dtype = part,
                  .device = (cn_device)cni_arg_int_or(c->args, 2, CN_DEVICE_DEFAULT));
}

/* Both parts from fn, or a real result; like: of the shape of input 0, whose type is used where none is given. */
static int drawn(cn_call *c, draw_fn *fn, bool like, double scale)
{
  cn_value args[3];
  memcpy(args, c->args, sizeof args);
  int dtype = (int)cni_arg_int_or(c->args, 1, like ? c->in[0]->d.dtype : 0);
  if (like) {
    args[0] = cn_v_ints(cn_shape(c->in[0]), (size_t)cn_ndim(c->in[0]));
    if (args[2].tag == CN_V_NONE) args[2] = cn_v_int(c->in[0]->d.device);
  }
  cn_call sized = *c;
  sized.args = args;
  if (!cni_dtype_is_complex(dtype)) {
    c->out[0] = fn(&sized, (cn_dtype)dtype);
    return cn_err();
  }
  cn_tensor *re = fn(&sized, (cn_dtype)cni_dtype_part(dtype)), *im = fn(&sized, (cn_dtype)cni_dtype_part(dtype));
  if (scale != 1) re = cn_mul(re, cn_num(scale)), im = cn_mul(im, cn_num(scale));
  c->out[0] = cn_complex(re, im);
  return cn_err();
}
int cni_complex_rand(cn_call *c) { return drawn(c, draw_uniform, false, 1); }
int cni_complex_rand_like(cn_call *c) { return drawn(c, draw_uniform, true, 1); }
/* Of variance 1: half of it in each part. */
int cni_complex_randn(cn_call *c) { return drawn(c, draw_normal, false, 0.70710678118654752440); }
int cni_complex_randn_like(cn_call *c) { return drawn(c, draw_normal, true, 0.70710678118654752440); }

/* (n, m, dtype, device) */
int cni_complex_eye(cn_call *c)
{
  int dtype = (int)cni_arg_int(c->args, 2);
  cn_tensor *part = cn_eye(cni_arg_int(c->args, 0), cni_arg_int_or(c->args, 1, CN_NONE),
                           .dtype = (cn_dtype)cni_dtype_part(dtype),
                           .device = (cn_device)cni_arg_int_or(c->args, 3, CN_DEVICE_DEFAULT));
  c->out[0] = cn_cast(part, (cn_dtype)dtype);
  return cn_err();
}

/* (input, mean, std): of variance std^2, half of it in each part. */
int cni_complex_normal_fill(cn_call *c)
{
  double mean = cni_arg_float(c->args, 1), std = cni_arg_float(c->args, 2) * 0.70710678118654752440;
  cni_z z = cni_parts(c->in[0]);
  c->out[0] = cn_complex(cn_normal_fill(z.re, .mean = mean, .std = cni_option_float(std)),
                         cn_normal_fill(z.im, .std = cni_option_float(std)));
  return cn_err();
}

/* (input, p) -> (output, mask) */
int cni_complex_native_dropout(cn_call *c)
{
  cn_tensor *scale = NULL;
  cn_native_dropout(&scale, &c->out[1], cn_detach(cn_ones_like(cn_real(c->in[0]))), cni_arg_float(c->args, 1));
  c->out[0] = cn_mul(c->in[0], scale);
  return cn_err();
}

/* (start, end, steps, dtype, device); dtype_at: where dtype stands */
static cn_tensor *spaced(const cn_call *c, int dtype)
{
  double from[2], to[2];
  cn_dtype part = (cn_dtype)cni_dtype_part(dtype);
  cn_device device = (cn_device)cni_arg_int_or(c->args, c->nargs - 1, CN_DEVICE_DEFAULT);
  int64_t steps = cni_arg_int(c->args, 2);
  parts_of_number(&c->args[0], &from[0], &from[1]);
  parts_of_number(&c->args[1], &to[0], &to[1]);
  return cn_complex(cn_linspace(from[0], to[0], steps, .dtype = part, .device = device),
                    cn_linspace(from[1], to[1], steps, .dtype = part, .device = device));
}

static int spaced_type(const cn_call *c)
{
  int64_t dtype = cni_arg_int_or(c->args, c->nargs - 2, cni_dtype_complex((int)cn_default_dtype()));
  if (cni_dtype_valid(dtype) && cni_dtype_is_complex((int)dtype)) return (int)dtype;
  cn_call_fail(c, CN_ERR_DTYPE, "complex ends need a complex dtype");
  return CN_DTYPE_NONE;
}

int cni_complex_linspace(cn_call *c)
{
  int dtype = spaced_type(c);
  if (dtype) c->out[0] = spaced(c, dtype);
  return cn_err();
}

/* (start, end, steps, base, dtype, device) */
int cni_complex_logspace(cn_call *c)
{
  int dtype = spaced_type(c);
  if (!dtype) return cn_err();
  cn_tensor *x = spaced(c, dtype);
  cn_tensor *base = cn_full(CN_SCALAR_SHAPE, cni_arg_float(c->args, 3), .dtype = (cn_dtype)dtype);
  c->out[0] = cn_pow(cn_to_device(base, x ? x->d.device : CN_CPU), x);
  return cn_err();
}
