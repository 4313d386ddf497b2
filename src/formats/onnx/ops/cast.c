/* cast.c: other element types. See call.h. */
#include <math.h>
#include <string.h>

#include "formats/onnx/call.h"

/* The largest number of an 8-bit float; 0: it is none. */
static double largest(cn_dtype dtype)
{
  return dtype == CN_F8E4M3                             ? 448
         : dtype == CN_F8E4M3FNUZ                       ? 240
         : dtype == CN_F8E5M2 || dtype == CN_F8E5M2FNUZ ? 57344
                                                        : 0;
}

/* x with what is too large for the type held at the largest number, or else as what is rounded beyond it. */
static cn_tensor *held(cn_tensor *x, double most, cn_dtype dtype, bool saturate)
{
  if (saturate) return cn_clamp(x, cn_num(-most), cn_num(most));
  if (dtype != CN_F8E4M3) return x; /* these become infinite, or no number, by themselves */
  return cn_where(cn_gt(cn_abs(x), cn_num(464)), cn_num(NAN), x);
}

/* The power of two that is the next one above, or below. */
static cn_tensor *power(cni_onnx_call *c, cn_tensor *x, const char *mode)
{
  cn_tensor *part, *exponent;
  bool up = !strcmp(mode, "up");
  if (!up && strcmp(mode, "down") != 0) return cni_onnx_fail(c, CN_ERR_VALUE, "round_mode is '%s'", mode), NULL;
  if (cn_dtype_of(x) != CN_F64) x = cn_cast(x, CN_F32);
  if (cn_frexp(&part, &exponent, x)) return NULL;
  cn_tensor *below = cn_exp2(cn_cast(cn_sub(exponent, cn_int(1)), cn_dtype_of(x)));
  cn_tensor *t = up ? cn_where(cn_eq(part, cn_num(0.5)), below, cn_mul(below, cn_num(2))) : below;
  return cn_where(cn_logical_and(cn_isfinite(x), cn_ne(x, cn_num(0))), t, x);
}

static cn_tensor *converted(cni_onnx_call *c, cn_tensor *x, cn_dtype dtype)
{
  double most = largest(dtype);
  const char *mode = cni_onnx_text(c, "round_mode", "up");
  bool saturate = cni_onnx_int(c, "saturate", 1) != 0, from_float = cn_dtype_is_float(cn_dtype_of(x));
  if (!x || cn_err()) return NULL;
  if (most > 0 && from_float) x = held(x, most, dtype, saturate);
  if (dtype == CN_F8E8M0 && from_float && strcmp(mode, "nearest") != 0) x = power(c, x, mode);
  return x ? cn_cast(x, dtype) : NULL;
}

/* Whole numbers, as "1e3" or "2.5" say them, too. */
static cn_tensor *parsed(const cn_strings *s, cn_dtype dtype)
{
  cn_tensor *t = cn_strings_parse(s, dtype);
  if (t || cn_err() != CN_ERR_VALUE || cn_dtype_is_float(dtype)) return t;
  cn_err_clear();
  t = cn_strings_parse(s, CN_F64);
  return t ? cn_cast(t, dtype) : NULL;
}

/* Types of tensors; strings are read as numbers and written as such. */
static int cast_to(cni_onnx_call *c, int64_t type)
{
  const cn_onnx_value *v = cni_onnx_value_in(c, 0);
  cn_dtype dtype = cni_onnx_dtype(type);
  cn_strings s = {NULL, NULL};
  if (!v) return cn_err();
  if (!dtype && type != CNI_ONNX_STRING)
    return cni_onnx_fail(c, CN_ERR_DTYPE, "type %lld is no type of tensors", (long long)type);
  if (v->kind == CN_ONNX_STRINGS) {
    cn_onnx_value_as_strings(&s, v);
    return dtype ? cni_onnx_out(c, 0, parsed(&s, dtype)) : cni_onnx_out_strings(c, 0, &s);
  }
  cn_tensor *x = cni_onnx_in(c, 0);
  if (dtype) return cni_onnx_out(c, 0, converted(c, x, dtype));
  if (x) cn_strings_format(&s, x);
  return cni_onnx_out_strings(c, 0, &s);
}

/* Before opset 6 the type is given by its name. */
static int old_cast(cni_onnx_call *c)
{
  static const char *const names[] = {"UNDEFINED", "FLOAT",  "UINT8", "INT8",    "UINT16", "INT16",  "INT32",
                                      "INT64",     "STRING", "BOOL",  "FLOAT16", "DOUBLE", "UINT32", "UINT64"};
  const char *name = cni_onnx_text(c, "to", "");
  for (size_t i = 1; i < sizeof names / sizeof *names; i++)
    if (!strcmp(name, names[i])) return cast_to(c, (int64_t)i);
  return cni_onnx_fail(c, CN_ERR_DTYPE, "'%s' is no type of tensors", name);
}

static int cast(cni_onnx_call *c) { return cast_to(c, cni_onnx_int(c, "to", 0)); }

static int cast_like(cni_onnx_call *c)
{
  const cn_onnx_value *v = cni_onnx_value_in(c, 1);
  if (!v) return cn_err();
  return cast_to(c, v->kind == CN_ONNX_STRINGS ? CNI_ONNX_STRING : cni_onnx_type_of(cn_dtype_of(v->t)));
}

/* The same bits as another type of as many. */
static int bit_cast(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0);
  cn_dtype to = cni_onnx_dtype_of(c, "to", CN_DTYPE_NONE), from = cn_dtype_of(x);
  if (!x || cn_err()) return cn_err();
  if (!to || cn_dtype_bytes(to, 8) != cn_dtype_bytes(from, 8))
    return cni_onnx_fail(c, CN_ERR_DTYPE, "%s has not as many bits as %s", cn_dtype_name(to), cn_dtype_name(from));
  return cni_onnx_out(c, 0, cn_view_dtype(x, to));
}

const cni_onnx_op cni_onnx_cast_ops[] = {
    ONNX_BUILD("Cast", 1, old_cast),     ONNX_BUILD("Cast", 6, cast), ONNX_BUILD("CastLike", 15, cast_like),
    ONNX_BUILD("BitCast", 26, bit_cast), {NULL, NULL, NULL, 0, 0},
};
