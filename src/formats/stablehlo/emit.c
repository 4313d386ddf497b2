/* emit.c: see emit.h. */
#include "emit.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const cni_hval absent = {.id = -1};

int cni_hlo_fail(cni_hlo *h, int code, const char *format, ...)
{
  char text[256];
  va_list ap;
  va_start(ap, format);
  vsnprintf(text, sizeof text, format, ap);
  va_end(ap);
  if (!cn_err()) cn_err_set(code, "stablehlo: %s", text);
  h->failed = true;
  return code;
}

/* ---- types ---- */

static const struct {
  const char *name;
  int8_t bits;
  char kind; /* f float, i integer, u unsigned, b bool */
} types[CN_DTYPE_COUNT] = {
    [CN_BOOL] = {"i1", 8, 'b'},      [CN_U8] = {"ui8", 8, 'u'},          [CN_I8] = {"i8", 8, 'i'},
    [CN_I16] = {"i16", 16, 'i'},     [CN_I32] = {"i32", 32, 'i'},        [CN_I64] = {"i64", 64, 'i'},
    [CN_U16] = {"ui16", 16, 'u'},    [CN_U32] = {"ui32", 32, 'u'},       [CN_U64] = {"ui64", 64, 'u'},
    [CN_F16] = {"f16", 16, 'f'},     [CN_BF16] = {"bf16", 16, 'f'},      [CN_F32] = {"f32", 32, 'f'},
    [CN_F64] = {"f64", 64, 'f'},     [CN_F8E4M3] = {"f8E4M3FN", 8, 'f'}, [CN_F8E5M2] = {"f8E5M2", 8, 'f'},
    [CN_F8E4M3FNUZ] = {"f8E4M3FNUZ", 8, 'f'}, [CN_F8E5M2FNUZ] = {"f8E5M2FNUZ", 8, 'f'},
    [CN_F8E8M0] = {"f8E8M0FNU", 8, 'f'},      [CN_F4E2M1] = {"f4E2M1FN", 4, 'f'},
    [CN_I4] = {"i4", 4, 'i'},        [CN_U4] = {"ui4", 4, 'u'},          [CN_I2] = {"i2", 2, 'i'},
    [CN_U2] = {"ui2", 2, 'u'},       [CN_C64] = {"complex<f32>", 64, 'c'}, [CN_C128] = {"complex<f64>", 127, 'c'},
};

bool cni_hlo_is_float(int dtype) { return types[dtype].kind == 'f'; }
bool cni_hlo_is_unsigned(int dtype) { return types[dtype].kind == 'u' || types[dtype].kind == 'b'; }
int cni_hlo_bits(int dtype) { return types[dtype].bits; }
bool cni_hlo_is_complex(int dtype) { return types[dtype].kind == 'c'; }
int cni_hlo_part(int dtype) { return dtype == CN_C128 ? CN_F64 : dtype == CN_C64 ? CN_F32 : dtype; }

int64_t cni_hlo_numel(const cni_hval *v)
{
  int64_t n = 1;
  for (int k = 0; k < v->ndim; k++) n *= v->shape[k];
  return n;
}

void cni_hlo_put_type(cni_hlo *h, int dtype, int ndim, const int64_t *shape)
{
  cn_text_put(&h->t, "tensor<");
  for (int k = 0; k < ndim; k++) cn_text_putf(&h->t, "%lldx", (long long)shape[k]);
  cn_text_putf(&h->t, "%s>", types[dtype].name);
}

void cni_hlo_put_type_of(cni_hlo *h, const cni_hval *v) { cni_hlo_put_type(h, v->dtype, v->ndim, v->shape); }

void cni_hlo_put_list(cn_text *t, const int64_t *v, int n)
{
  cn_text_put(t, "[");
  for (int k = 0; k < n; k++) cn_text_putf(t, "%s%lld", k ? ", " : "", (long long)v[k]);
  cn_text_put(t, "]");
}

void cni_hlo_put_array(cn_text *t, const int64_t *v, int n)
{
  cn_text_put(t, "array<i64");
  for (int k = 0; k < n; k++) cn_text_putf(t, "%s%lld", k ? ", " : ": ", (long long)v[k]);
  cn_text_put(t, ">");
}

/* ---- operations ---- */

cni_hval cni_hlo_fresh(cni_hlo *h, int dtype, int ndim, const int64_t *shape)
{
  cni_hval v = {.id = h->next++, .dtype = dtype, .ndim = ndim};
  for (int k = 0; k < ndim; k++) v.shape[k] = shape[k];
  return v;
}

cni_hval cni_hlo_begin(cni_hlo *h, int dtype, int ndim, const int64_t *shape)
{
  cni_hval v = cni_hlo_fresh(h, dtype, ndim, shape);
  if (h->failed) return absent;
  cn_text_putf(&h->t, "  %%%d = ", v.id);
  return v;
}

static bool same_type(const cni_hval *a, const cni_hval *b)
{
  return a->dtype == b->dtype && a->ndim == b->ndim &&
         !memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape);
}

static void put_operands(cni_hlo *h, int n, const cni_hval *in)
{
  for (int k = 0; k < n; k++) cn_text_putf(&h->t, "%s%%%d", k ? ", " : "", in[k].id);
}

cni_hval cni_hlo_emit(cni_hlo *h, const char *op, const char *attrs, int dtype, int ndim, const int64_t *shape, int n,
                      const cni_hval *in)
{
  bool plain = !attrs && !strchr(op, '.') && n && n < 3; /* select and clamp name more types */
  cni_hval v = cni_hlo_fresh(h, dtype, ndim, shape);
  for (int k = 0; k < n && !h->failed; k++) {
    if (in[k].id < 0) cni_hlo_fail(h, CN_ERR_INTERNAL, "%s: operand %d is absent", op, k);
    plain = plain && same_type(&in[k], &v);
  }
  if (h->failed) return absent;
  const char *dialect = strchr(op, '.') ? "" : "stablehlo.";
  cn_text_putf(&h->t, plain ? "  %%%d = %s%s " : "  %%%d = \"%s%s\"(", v.id, dialect, op);
  put_operands(h, n, in);
  if (plain) {
    cn_text_put(&h->t, " : ");
  } else {
    cn_text_put(&h->t, ")");
    if (attrs) cn_text_putf(&h->t, " {%s}", attrs);
    cn_text_put(&h->t, " : (");
    for (int k = 0; k < n; k++) {
      if (k) cn_text_put(&h->t, ", ");
      cni_hlo_put_type_of(h, &in[k]);
    }
    cn_text_put(&h->t, ") -> ");
  }
  cni_hlo_put_type_of(h, &v);
  cn_text_put(&h->t, "\n");
  return v;
}

/* The same with attributes that were written to a text, which is freed. */
static cni_hval emit_with(cni_hlo *h, const char *op, cn_text *attrs, int dtype, int ndim, const int64_t *shape, int n,
                          const cni_hval *in)
{
  if (attrs->failed) cni_hlo_fail(h, CN_ERR_MEMORY, "out of memory");
  cni_hval v = cni_hlo_emit(h, op, attrs->s, dtype, ndim, shape, n, in);
  cn_text_free(attrs);
  return v;
}

cni_hval cni_hlo_unary(cni_hlo *h, const char *op, cni_hval x)
{
  return cni_hlo_emit(h, op, NULL, x.dtype, x.ndim, x.shape, 1, &x);
}

/* A number becomes what stands beside it; what has no dims gets those of the other. */
static void agree(cni_hlo *h, cni_hval *x, cni_hval *y)
{
  if (x->number && !y->number) *x = cni_hlo_splat(h, *x, y->dtype, y->ndim, y->shape);
  else if (y->number && !x->number) *y = cni_hlo_splat(h, *y, x->dtype, x->ndim, x->shape);
  else if (x->number) {
    *x = cni_hlo_splat(h, *x, x->dtype, 0, NULL);
    *y = cni_hlo_splat(h, *y, x->dtype, 0, NULL);
  }
  if (x->ndim && !y->ndim) *y = cni_hlo_expand(h, *y, x->ndim, x->shape);
  else if (y->ndim && !x->ndim) *x = cni_hlo_expand(h, *x, y->ndim, y->shape);
  if (!h->failed && !same_type(x, y)) cni_hlo_fail(h, CN_ERR_INTERNAL, "operands of two types");
}

cni_hval cni_hlo_binary(cni_hlo *h, const char *op, cni_hval x, cni_hval y)
{
  agree(h, &x, &y);
  return cni_hlo_emit(h, op, NULL, x.dtype, x.ndim, x.shape, 2, (cni_hval[]){x, y});
}

cni_hval cni_hlo_compare(cni_hlo *h, const char *direction, cni_hval x, cni_hval y)
{
  char attrs[80];
  agree(h, &x, &y);
  snprintf(attrs, sizeof attrs, "comparison_direction = #stablehlo<comparison_direction %s>", direction);
  return cni_hlo_emit(h, "compare", attrs, CN_BOOL, x.ndim, x.shape, 2, (cni_hval[]){x, y});
}

cni_hval cni_hlo_select(cni_hlo *h, cni_hval p, cni_hval x, cni_hval y)
{
  agree(h, &x, &y);
  if (x.ndim != p.ndim && !x.ndim) {
    x = cni_hlo_expand(h, x, p.ndim, p.shape);
    y = cni_hlo_expand(h, y, p.ndim, p.shape);
  }
  return cni_hlo_emit(h, "select", NULL, x.dtype, x.ndim, x.shape, 3, (cni_hval[]){p, x, y});
}

/* ---- numbers and constants ---- */

cni_hval cni_hlo_num(double f) { return (cni_hval){.id = -1, .number = true, .dtype = CN_F64, .f = f}; }
cni_hval cni_hlo_int(int64_t i) { return (cni_hval){.id = -1, .number = true, .dtype = CN_I64, .i = i}; }

/* The bits of an infinity or a NaN. */
static uint64_t odd_bits(double f, int dtype)
{
  bool nan = f != f, below = f < 0;
  uint64_t f64 = nan ? 0x7ff8000000000000u : 0x7ff0000000000000u | (uint64_t)below << 63;
  uint64_t f32 = nan ? 0x7fc00000u : 0x7f800000u | (uint64_t)below << 31;
  if (dtype == CN_F64) return f64;
  if (dtype == CN_F32) return f32;
  if (dtype == CN_BF16) return f32 >> 16;
  return nan ? 0x7e00u : 0x7c00u | (uint64_t)below << 15;
}

static void put_float(cn_text *t, double f, int dtype)
{
  char number[CN_NUMBER_TEXT];
  if (dtype == CN_F32) f = (double)(float)f;
  if (f - f != 0) {
    cn_text_putf(t, "0x%0*llX", cni_hlo_bits(dtype) / 4, (unsigned long long)odd_bits(f, dtype));
    return;
  }
  cn_number_write(number, f, false);
  size_t whole = strcspn(number, "e.");
  cn_text_put_bytes(t, number, whole);
  if (number[whole] != '.') cn_text_put(t, ".0");
  cn_text_put(t, number + whole);
}

static void put_complex(cn_text *t, double f)
{
  cn_text_put(t, "(");
  put_float(t, f, CN_F64);
  cn_text_put(t, ", 0.0)");
}

cni_hval cni_hlo_splat(cni_hlo *h, cni_hval number, int dtype, int ndim, const int64_t *shape)
{
  char kind = types[dtype].kind;
  bool real = number.dtype == CN_F64;
  if (!number.number) return cni_hlo_expand(h, cni_hlo_cast(h, number, dtype), ndim, shape);
  cni_hval v = cni_hlo_begin(h, dtype, ndim, shape);
  if (h->failed) return absent;
  cn_text_put(&h->t, "stablehlo.constant dense<");
  if (kind == 'f') put_float(&h->t, real ? number.f : (double)number.i, dtype);
  else if (kind == 'c') put_complex(&h->t, real ? number.f : (double)number.i);
  else if (kind == 'b') cn_text_put(&h->t, (real ? number.f != 0 : number.i != 0) ? "true" : "false");
  else if (kind == 'u' && (real ? number.f >= 0 : 1))
    cn_text_putf(&h->t, "%llu", (unsigned long long)(real ? (uint64_t)number.f : (uint64_t)number.i) &
                                    (types[dtype].bits == 64 ? ~0ull : (1ull << types[dtype].bits) - 1));
  else cn_text_putf(&h->t, "%lld", (long long)(real ? (int64_t)number.f : number.i));
  cn_text_put(&h->t, "> : ");
  cni_hlo_put_type_of(h, &v);
  cn_text_put(&h->t, "\n");
  return v;
}

cni_hval cni_hlo_const(cni_hlo *h, double f, int dtype) { return cni_hlo_splat(h, cni_hlo_num(f), dtype, 0, NULL); }

cni_hval cni_hlo_extreme(cni_hlo *h, int dtype, bool lowest)
{
  int bits = types[dtype].bits;
  uint64_t top = types[dtype].kind == 'u' ? ~0ull >> (64 - bits) : ~0ull >> (65 - bits);
  if (types[dtype].kind == 'f') return cni_hlo_const(h, lowest ? -1.0 / 0.0 : 1.0 / 0.0, dtype);
  if (types[dtype].kind == 'b') return cni_hlo_const(h, !lowest, dtype);
  if (types[dtype].kind == 'u') return cni_hlo_splat(h, cni_hlo_int(lowest ? 0 : (int64_t)top), dtype, 0, NULL);
  return cni_hlo_splat(h, cni_hlo_int(lowest ? -(int64_t)top - 1 : (int64_t)top), dtype, 0, NULL);
}

static bool all_equal(const unsigned char *bytes, size_t element, int64_t n)
{
  for (int64_t k = 1; k < n; k++)
    if (memcmp(bytes, bytes + (size_t)k * element, element)) return false;
  return true;
}

cni_hval cni_hlo_data(cni_hlo *h, const void *bytes, int dtype, int ndim, const int64_t *shape)
{
  static const char digits[] = "0123456789ABCDEF";
  size_t element = cn_dtype_size((cn_dtype)dtype);
  int stored = dtype == CN_BOOL ? CN_U8 : dtype;
  cni_hval v = cni_hlo_begin(h, stored, ndim, shape);
  int64_t n = cni_hlo_numel(&v);
  const unsigned char *b = bytes;
  if (h->failed) return absent;
  if (cni_hlo_bits(dtype) < 8) {
    cni_hlo_fail(h, CN_ERR_UNSUPPORTED, "a constant of %s has no text", cn_dtype_name((cn_dtype)dtype));
    return absent;
  }
  size_t size = (size_t)(all_equal(b, element, n) && n ? 1 : n) * element;
  cn_text_put(&h->t, n ? "stablehlo.constant dense<\"0x" : "stablehlo.constant dense<");
  for (size_t k = 0; k < size; k++) {
    char two[2] = {digits[b[k] >> 4], digits[b[k] & 15]};
    cn_text_put_bytes(&h->t, two, 2);
  }
  cn_text_put(&h->t, n ? "\"> : " : "> : ");
  cni_hlo_put_type_of(h, &v);
  cn_text_put(&h->t, "\n");
  return dtype == CN_BOOL ? cni_hlo_convert(h, v, CN_BOOL) : v;
}

cni_hval cni_hlo_iota(cni_hlo *h, int dtype, int ndim, const int64_t *shape, int dim)
{
  char attrs[48];
  snprintf(attrs, sizeof attrs, "iota_dimension = %d : i64", dim);
  return cni_hlo_emit(h, "iota", attrs, dtype, ndim, shape, 0, NULL);
}

/* ---- other types ---- */

cni_hval cni_hlo_convert(cni_hlo *h, cni_hval x, int dtype)
{
  if (x.number) return cni_hlo_splat(h, x, dtype, 0, NULL);
  if (x.dtype == dtype) return x;
  return cni_hlo_emit(h, "convert", NULL, dtype, x.ndim, x.shape, 1, &x);
}

cni_hval cni_hlo_bitcast(cni_hlo *h, cni_hval x, int dtype)
{
  return cni_hlo_emit(h, "bitcast_convert", NULL, dtype, x.ndim, x.shape, 1, &x);
}

/* A float as int32 or int64: NaN and what does not fit give the lowest. */
static cni_hval truncate(cni_hlo *h, cni_hval x, int dtype)
{
  bool wide = dtype == CN_I64;
  if (x.dtype != CN_F32 && x.dtype != CN_F64) x = cni_hlo_convert(h, x, CN_F32);
  double end = wide ? 0x1p63 : 0x1p31;
  cni_hval in = cni_hlo_binary(h, "and", cni_hlo_compare(h, "GE", x, cni_hlo_num(-end)),
                               cni_hlo_compare(h, "LT", x, cni_hlo_num(end)));
  return cni_hlo_convert(h, cni_hlo_select(h, in, x, cni_hlo_num(-end)), dtype);
}

static cni_hval truncate_u64(cni_hlo *h, cni_hval x)
{
  if (x.dtype != CN_F64) x = cni_hlo_convert(h, x, CN_F64);
  cni_hval high = cni_hlo_compare(h, "GE", x, cni_hlo_num(0x1p63));
  cni_hval low = cni_hlo_select(h, high, cni_hlo_binary(h, "subtract", x, cni_hlo_num(0x1p63)), x);
  cni_hval y = cni_hlo_bitcast(h, truncate(h, low, CN_I64), CN_U64);
  cni_hval top = cni_hlo_splat(h, cni_hlo_int(INT64_MIN), CN_U64, y.ndim, y.shape);
  return cni_hlo_select(h, high, cni_hlo_binary(h, "xor", y, top), y);
}

/* To a narrower float: by way of float32, saturating where cairn does. */
static cni_hval narrow(cni_hlo *h, cni_hval x, int dtype)
{
  bool saturates = dtype == CN_F8E4M3;
  if (dtype == CN_F32 || dtype == CN_F64) return cni_hlo_convert(h, x, dtype);
  if (x.dtype == CN_F64 || !cni_hlo_is_float(x.dtype)) x = cni_hlo_convert(h, x, CN_F32);
  if (saturates) {
    if (x.dtype != CN_F32) x = cni_hlo_convert(h, x, CN_F32);
    cni_hval least = cni_hlo_const(h, -448, CN_F32), most = cni_hlo_const(h, 448, CN_F32);
    x = cni_hlo_emit(h, "clamp", NULL, CN_F32, x.ndim, x.shape, 3, (cni_hval[]){least, x, most});
  }
  return cni_hlo_convert(h, x, dtype);
}

cni_hval cni_hlo_cast(cni_hlo *h, cni_hval x, int dtype)
{
  int bits = cni_hlo_bits(dtype);
  if (x.number) return cni_hlo_splat(h, x, dtype, 0, NULL);
  if (x.dtype == dtype) return x;
  if (types[x.dtype].kind == 'c' && types[dtype].kind != 'c') /* the imaginary part is left out */
    return cni_hlo_cast(h, cni_hlo_emit(h, "real", NULL, cni_hlo_part(x.dtype), x.ndim, x.shape, 1, &x), dtype);
  if (types[dtype].kind == 'c')
    return cni_hlo_convert(h, types[x.dtype].kind == 'c' ? x : cni_hlo_cast(h, x, cni_hlo_part(dtype)), dtype);
  if (cni_hlo_is_float(dtype)) return narrow(h, x, dtype);
  if (!cni_hlo_is_float(x.dtype)) return cni_hlo_convert(h, x, dtype);
  if (dtype == CN_BOOL) return cni_hlo_compare(h, "NE", x, cni_hlo_num(0));
  if (dtype == CN_U64) return truncate_u64(h, x);
  return cni_hlo_convert(h, truncate(h, x, bits == 64 || dtype == CN_U32 ? CN_I64 : CN_I32), dtype);
}

/* ---- other shapes ---- */

cni_hval cni_hlo_reshape(cni_hlo *h, cni_hval x, int ndim, const int64_t *shape)
{
  if (x.ndim == ndim && (ndim == 0 || !memcmp(x.shape, shape, (size_t)ndim * sizeof *shape))) return x;
  return cni_hlo_emit(h, "reshape", NULL, x.dtype, ndim, shape, 1, &x);
}

cni_hval cni_hlo_broadcast(cni_hlo *h, cni_hval x, int ndim, const int64_t *shape, const int64_t *dims)
{
  cn_text attrs = {0};
  cn_text_put(&attrs, "broadcast_dimensions = ");
  cni_hlo_put_array(&attrs, dims, x.ndim);
  return emit_with(h, "broadcast_in_dim", &attrs, x.dtype, ndim, shape, 1, &x);
}

cni_hval cni_hlo_expand(cni_hlo *h, cni_hval x, int ndim, const int64_t *shape)
{
  int64_t dims[CN_MAX_DIMS];
  if (x.number) return cni_hlo_splat(h, x, x.dtype, ndim, shape);
  if (x.ndim == ndim && !memcmp(x.shape, shape, (size_t)ndim * sizeof *shape)) return x;
  for (int k = 0; k < x.ndim; k++) dims[k] = ndim - x.ndim + k;
  return cni_hlo_broadcast(h, x, ndim, shape, dims);
}

cni_hval cni_hlo_transpose(cni_hlo *h, cni_hval x, const int64_t *order)
{
  int64_t shape[CN_MAX_DIMS];
  bool same = true;
  cn_text attrs = {0};
  for (int k = 0; k < x.ndim; k++) {
    shape[k] = x.shape[order[k]];
    same = same && order[k] == k;
  }
  if (same) return x;
  cn_text_put(&attrs, "permutation = ");
  cni_hlo_put_array(&attrs, order, x.ndim);
  return emit_with(h, "transpose", &attrs, x.dtype, x.ndim, shape, 1, &x);
}

cni_hval cni_hlo_swap(cni_hlo *h, cni_hval x, int a, int b)
{
  int64_t order[CN_MAX_DIMS];
  for (int k = 0; k < x.ndim; k++) order[k] = k == a ? b : k == b ? a : k;
  return cni_hlo_transpose(h, x, order);
}

cni_hval cni_hlo_slice(cni_hlo *h, cni_hval x, const int64_t *from, const int64_t *to, const int64_t *step)
{
  int64_t shape[CN_MAX_DIMS];
  cn_text attrs = {0};
  for (int k = 0; k < x.ndim; k++) shape[k] = to[k] > from[k] ? (to[k] - from[k] + step[k] - 1) / step[k] : 0;
  if (!memcmp(shape, x.shape, (size_t)x.ndim * sizeof *shape)) return x;
  cn_text_put(&attrs, "start_indices = ");
  cni_hlo_put_array(&attrs, from, x.ndim);
  cn_text_put(&attrs, ", limit_indices = ");
  cni_hlo_put_array(&attrs, to, x.ndim);
  cn_text_put(&attrs, ", strides = ");
  cni_hlo_put_array(&attrs, step, x.ndim);
  return emit_with(h, "slice", &attrs, x.dtype, x.ndim, shape, 1, &x);
}

cni_hval cni_hlo_slice_dim(cni_hlo *h, cni_hval x, int dim, int64_t from, int64_t to, int64_t step)
{
  int64_t a[CN_MAX_DIMS] = {0}, b[CN_MAX_DIMS], s[CN_MAX_DIMS];
  for (int k = 0; k < x.ndim; k++) b[k] = x.shape[k], s[k] = 1;
  a[dim] = from, b[dim] = to, s[dim] = step;
  return cni_hlo_slice(h, x, a, b, s);
}

cni_hval cni_hlo_pad(cni_hlo *h, cni_hval x, cni_hval value, const int64_t *low, const int64_t *high,
                     const int64_t *inner)
{
  static const int64_t none[CN_MAX_DIMS] = {0};
  int64_t shape[CN_MAX_DIMS];
  cn_text attrs = {0};
  if (!inner) inner = none;
  for (int k = 0; k < x.ndim; k++)
    shape[k] = x.shape[k] + low[k] + high[k] + (x.shape[k] > 0 ? (x.shape[k] - 1) * inner[k] : 0);
  if (value.number) value = cni_hlo_splat(h, value, x.dtype, 0, NULL);
  cn_text_put(&attrs, "edge_padding_low = ");
  cni_hlo_put_array(&attrs, low, x.ndim);
  cn_text_put(&attrs, ", edge_padding_high = ");
  cni_hlo_put_array(&attrs, high, x.ndim);
  cn_text_put(&attrs, ", interior_padding = ");
  cni_hlo_put_array(&attrs, inner, x.ndim);
  return emit_with(h, "pad", &attrs, x.dtype, x.ndim, shape, 2, (cni_hval[]){x, value});
}

cni_hval cni_hlo_pad_dim(cni_hlo *h, cni_hval x, cni_hval value, int dim, int64_t low, int64_t high)
{
  int64_t a[CN_MAX_DIMS] = {0}, b[CN_MAX_DIMS] = {0};
  a[dim] = low, b[dim] = high;
  return low || high ? cni_hlo_pad(h, x, value, a, b, NULL) : x;
}

cni_hval cni_hlo_concat(cni_hlo *h, int n, const cni_hval *x, int dim)
{
  char attrs[40];
  cni_hval type = x[0];
  if (n == 1) return x[0];
  for (int k = 1; k < n; k++) type.shape[dim] += x[k].shape[dim];
  snprintf(attrs, sizeof attrs, "dimension = %d : i64", dim);
  return cni_hlo_emit(h, "concatenate", attrs, type.dtype, type.ndim, type.shape, n, x);
}

cni_hval cni_hlo_reverse(cni_hlo *h, cni_hval x, const int64_t *dims, int n)
{
  cn_text attrs = {0};
  if (!n) return x;
  cn_text_put(&attrs, "dimensions = ");
  cni_hlo_put_array(&attrs, dims, n);
  return emit_with(h, "reverse", &attrs, x.dtype, x.ndim, x.shape, 1, &x);
}

cni_hval cni_hlo_drop_dim(cni_hlo *h, cni_hval x, int dim)
{
  int64_t shape[CN_MAX_DIMS];
  for (int k = 0, n = 0; k < x.ndim; k++)
    if (k != dim) shape[n++] = x.shape[k];
  return cni_hlo_reshape(h, x, x.ndim - 1, shape);
}

cni_hval cni_hlo_insert_dim(cni_hlo *h, cni_hval x, int dim, int64_t size)
{
  int64_t shape[CN_MAX_DIMS], dims[CN_MAX_DIMS];
  for (int k = 0; k < x.ndim; k++) {
    dims[k] = k + (k >= dim);
    shape[dims[k]] = x.shape[k];
  }
  shape[dim] = size;
  return size == 1 ? cni_hlo_reshape(h, x, x.ndim + 1, shape) : cni_hlo_broadcast(h, x, x.ndim + 1, shape, dims);
}

/* ---- over elements ---- */

static cni_hval neutral(cni_hlo *h, const char *op, int dtype)
{
  if (!strcmp(op, "maximum")) return cni_hlo_extreme(h, dtype, true);
  if (!strcmp(op, "minimum")) return cni_hlo_extreme(h, dtype, false);
  return cni_hlo_const(h, !strcmp(op, "multiply") || !strcmp(op, "and"), dtype);
}

cni_hval cni_hlo_reduce(cni_hlo *h, const char *op, cni_hval x, uint32_t dims)
{
  return dims && x.ndim ? cni_hlo_reduce_from(h, op, x, neutral(h, op, x.dtype), dims) : x;
}

cni_hval cni_hlo_reduce_from(cni_hlo *h, const char *op, cni_hval x, cni_hval init, uint32_t dims)
{
  int64_t shape[CN_MAX_DIMS], over[CN_MAX_DIMS];
  int ndim = 0, n = 0;
  for (int k = 0; k < x.ndim; k++) {
    if (dims >> k & 1) over[n++] = k;
    else shape[ndim++] = x.shape[k];
  }
  cni_hval v = cni_hlo_begin(h, x.dtype, ndim, shape);
  if (h->failed) return absent;
  cn_text_putf(&h->t, "stablehlo.reduce(%%%d init: %%%d) applies stablehlo.%s across dimensions = ", x.id, init.id, op);
  cni_hlo_put_list(&h->t, over, n);
  cn_text_put(&h->t, " : (");
  cni_hlo_put_type_of(h, &x);
  cn_text_put(&h->t, ", ");
  cni_hlo_put_type_of(h, &init);
  cn_text_put(&h->t, ") -> ");
  cni_hlo_put_type_of(h, &v);
  cn_text_put(&h->t, "\n");
  return v;
}

cni_hwindow cni_hlo_window(int ndim)
{
  cni_hwindow w = {{0}, {0}, {0}, {0}, {{0}}};
  for (int k = 0; k < ndim; k++) w.size[k] = w.step[k] = w.inner[k] = w.apart[k] = 1;
  return w;
}

static void put_padding(cn_text *t, const cni_hwindow *w, int n)
{
  cn_text_put(t, "padding = dense<[");
  for (int k = 0; k < n; k++) {
    if (k) cn_text_put(t, ", ");
    cni_hlo_put_list(t, w->pad[k], 2);
  }
  cn_text_putf(t, "]> : tensor<%dx2xi64>", n);
}

static void put_sizes(cni_hlo *h, const char *name, const int64_t *v, int n)
{
  cn_text_putf(&h->t, "%s = ", name);
  cni_hlo_put_array(&h->t, v, n);
  cn_text_put(&h->t, ", ");
}

cni_hval cni_hlo_reduce_window(cni_hlo *h, const char *op, cni_hval x, const cni_hwindow *w)
{
  int64_t shape[CN_MAX_DIMS];
  cni_hval init = neutral(h, op, x.dtype);
  for (int k = 0; k < x.ndim; k++) {
    int64_t wide = (x.shape[k] > 0 ? (x.shape[k] - 1) * w->apart[k] + 1 : 0) + w->pad[k][0] + w->pad[k][1];
    int64_t reach = (w->size[k] - 1) * w->inner[k] + 1;
    shape[k] = wide < reach ? 0 : (wide - reach) / w->step[k] + 1;
  }
  cni_hval v = cni_hlo_begin(h, x.dtype, x.ndim, shape);
  int a = h->next++, b = h->next++, y = h->next++;
  if (h->failed) return absent;
  cn_text_putf(&h->t, "\"stablehlo.reduce_window\"(%%%d, %%%d) ({\n  ^bb0(%%%d: ", x.id, init.id, a);
  cni_hlo_put_type_of(h, &init);
  cn_text_putf(&h->t, ", %%%d: ", b);
  cni_hlo_put_type_of(h, &init);
  cn_text_putf(&h->t, "):\n    %%%d = stablehlo.%s %%%d, %%%d : ", y, op, a, b);
  cni_hlo_put_type_of(h, &init);
  cn_text_putf(&h->t, "\n    stablehlo.return %%%d : ", y);
  cni_hlo_put_type_of(h, &init);
  cn_text_put(&h->t, "\n  }) {");
  put_sizes(h, "window_dimensions", w->size, x.ndim);
  put_sizes(h, "window_strides", w->step, x.ndim);
  put_sizes(h, "window_dilations", w->inner, x.ndim);
  put_sizes(h, "base_dilations", w->apart, x.ndim);
  put_padding(&h->t, w, x.ndim);
  cn_text_put(&h->t, "} : (");
  cni_hlo_put_type_of(h, &x);
  cn_text_put(&h->t, ", ");
  cni_hlo_put_type_of(h, &init);
  cn_text_put(&h->t, ") -> ");
  cni_hlo_put_type_of(h, &v);
  cn_text_put(&h->t, "\n");
  return v;
}
