/* convert.h: one element from one type to another, and the list of types that conversion code is generated
 * from.
 *
 * Place in the flow: the CPU cast loops, pointwise loads and stores, scalar access and printing all
 * convert through these functions, so a value converts alike everywhere. They have no branches, only
 * selects, so loops over them vectorise. Invariants: no conversion is undefined for any bit pattern; the
 * results are PyTorch's on x86-64 (bits of NaNs aside), and ml_dtypes' for the types PyTorch cannot cast
 * (float4, int4, uint4, int2, uint2):
 *  - to a narrower float: nearest, ties to even, by way of float32 (as PyTorch does from float64 and
 *    int64);
 *  - float8_e4m3fn and float4 saturate, float8_e5m2 overflows to infinity, the fnuz ones and e8m0 to NaN;
 *  - float to integer truncates. NaN and what does not fit give the lowest value of int32 or int64; smaller
 *    types are cut from int32 (so 300.0 is 44 as uint8, and NaN is 0), uint32 from int64; uint64 holds up
 *    to 2^64, and negative numbers wrap;
 *  - integers wrap; to bool is "not zero" (so NaN is true). */
#ifndef CNI_BASE_CONVERT_H
#define CNI_BASE_CONVERT_H

#include <cairn/base.h>
#include <string.h>

static inline uint32_t cni_f32_bits(float x)
{
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}

static inline float cni_bits_f32(uint32_t u)
{
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}

/* ---- floats of at most 16 bits: sign, exponent, `man` mantissa bits, exponent bias `bias` ---- */

/* The code of a magnitude given as float32 bits, rounded; too large a number gives a code above the
 * largest. The sum makes the hardware round at the step of the format's subnormals; elsewhere rounding is
 * done on the bits. */
static inline uint32_t cni_small_encode(uint32_t magnitude, uint32_t man, uint32_t bias)
{
  uint32_t drop = 23 - man, step = (127 + 1 - bias + drop) << 23;
  uint32_t odd = (magnitude >> drop) & 1;
  uint32_t normal = (magnitude + ((1u << (drop - 1)) - 1) + odd - ((127 - bias) << 23)) >> drop;
  uint32_t subnormal = cni_f32_bits(cni_bits_f32(magnitude) + cni_bits_f32(step)) - step;
  return magnitude < (128 - bias) << 23 ? subnormal : normal;
}

/* The float32 bits of a finite magnitude. */
static inline uint32_t cni_small_decode(uint32_t code, uint32_t man, uint32_t bias)
{
  uint32_t normal = (code << (23 - man)) + ((127 - bias) << 23);
  uint32_t subnormal = cni_f32_bits((float)(int32_t)code * cni_bits_f32((128 - bias - man) << 23));
  return code < 1u << man ? subnormal : normal;
}

enum { CNI_F32_INF = 0x7f800000, CNI_F32_NAN = 0x7fc00000 };

static inline uint16_t cni_f32_to_f16(float x)
{
  uint32_t u = cni_f32_bits(x), a = u & 0x7fffffffu, h = cni_small_encode(a, 10, 15);
  h = h < 0x7c00 ? h : 0x7c00;
  h = a > CNI_F32_INF ? 0x7e00 | (a >> 13 & 0x3ff) : h;
  return (uint16_t)(h | (u >> 16 & 0x8000));
}

static inline float cni_f16_to_f32(uint16_t h)
{
  uint32_t a = h & 0x7fffu, u = cni_small_decode(a, 10, 15);
  u = a >= 0x7c00 ? a << 13 | CNI_F32_INF : u;
  u = a > 0x7c00 ? u | CNI_F32_NAN : u;
  return cni_bits_f32(u | (uint32_t)(h & 0x8000) << 16);
}

static inline uint16_t cni_f32_to_bf16(float x)
{
  uint32_t u = cni_f32_bits(x), r = (u + 0x7fff + (u >> 16 & 1)) >> 16;
  return (uint16_t)((u & 0x7fffffffu) > CNI_F32_INF ? u >> 16 | 0x40 : r);
}

static inline float cni_bf16_to_f32(uint16_t h) { return cni_bits_f32((uint32_t)h << 16); }

static inline uint8_t cni_f32_to_f8e4m3(float x)
{
  uint32_t u = cni_f32_bits(x), a = u & 0x7fffffffu, h = cni_small_encode(a, 3, 7);
  h = (h < 0x7e ? h : 0x7e) + (a > CNI_F32_INF); /* NaN comes after the largest number */
  return (uint8_t)(h | (u >> 24 & 0x80));
}

static inline float cni_f8e4m3_to_f32(uint8_t h)
{
  uint32_t a = h & 0x7fu, u = a == 0x7f ? CNI_F32_NAN : cni_small_decode(a, 3, 7);
  return cni_bits_f32(u | (uint32_t)(h & 0x80) << 24);
}

static inline uint8_t cni_f32_to_f8e5m2(float x)
{
  uint32_t u = cni_f32_bits(x), a = u & 0x7fffffffu, h = cni_small_encode(a, 2, 15);
  h = (h < 0x7c ? h : 0x7c) + 3u * (a > CNI_F32_INF);
  return (uint8_t)(h | (u >> 24 & 0x80));
}

static inline float cni_f8e5m2_to_f32(uint8_t h) { return cni_f16_to_f32((uint16_t)(h << 8)); }

/* The fnuz types: no infinity, no negative zero; its code, 0x80, is the one NaN. */
static inline uint8_t cni_fnuz_encode(float x, uint32_t man, uint32_t bias)
{
  uint32_t u = cni_f32_bits(x), a = u & 0x7fffffffu, h = cni_small_encode(a, man, bias);
  uint32_t sign = h ? u >> 24 & 0x80 : 0;
  return (uint8_t)(h > 0x7f ? 0x80 : h | sign);
}

static inline float cni_fnuz_decode(uint8_t h, uint32_t man, uint32_t bias)
{
  uint32_t u = cni_small_decode(h & 0x7fu, man, bias) | (uint32_t)(h & 0x80) << 24;
  return cni_bits_f32(h == 0x80 ? CNI_F32_NAN : u);
}

static inline uint8_t cni_f32_to_f8e4m3fnuz(float x) { return cni_fnuz_encode(x, 3, 8); }
static inline uint8_t cni_f32_to_f8e5m2fnuz(float x) { return cni_fnuz_encode(x, 2, 16); }
static inline float cni_f8e4m3fnuz_to_f32(uint8_t h) { return cni_fnuz_decode(h, 3, 8); }
static inline float cni_f8e5m2fnuz_to_f32(uint8_t h) { return cni_fnuz_decode(h, 2, 16); }

/* Powers of two without sign: the exponent of a float32, rounded to nearest; the sign is dropped. */
static inline uint8_t cni_f32_to_f8e8m0(float x)
{
  uint32_t u = cni_f32_bits(x) & 0x7fffffffu, e = u >> 23, fraction = u & 0x7fffffu;
  uint32_t up = (fraction > 0x400000u - (e > 0)) & (e < 0xff);
  return (uint8_t)(e + up);
}

static inline float cni_f8e8m0_to_f32(uint8_t h)
{
  uint32_t u = h == 0 ? 0x400000u : (uint32_t)h << 23;
  return cni_bits_f32(h == 0xff ? CNI_F32_NAN : u);
}

/* Finite values only; NaN becomes a zero. */
static inline uint8_t cni_f32_to_f4e2m1(float x)
{
  uint32_t u = cni_f32_bits(x), a = u & 0x7fffffffu, h = cni_small_encode(a, 1, 1);
  h = (h < 7 ? h : 7) + (a > CNI_F32_INF);
  return (uint8_t)(h ^ (u >> 28 & 8));
}

static inline float cni_f4e2m1_to_f32(uint8_t h)
{
  return cni_bits_f32(cni_small_decode(h & 7u, 1, 1) | (uint32_t)(h & 8) << 28);
}

/* ---- integers of four and two bits: the low bits of a byte; the others are written 0 and not read ---- */
static inline int32_t cni_i4_to_i32(uint8_t h) { return ((h & 15) ^ 8) - 8; }
static inline int32_t cni_u4_to_i32(uint8_t h) { return h & 15; }
static inline int32_t cni_i2_to_i32(uint8_t h) { return ((h & 3) ^ 2) - 2; }
static inline int32_t cni_u2_to_i32(uint8_t h) { return h & 3; }
static inline uint8_t cni_i32_to_i4(int32_t x) { return (uint8_t)(x & 15); }
static inline uint8_t cni_i32_to_i2(int32_t x) { return (uint8_t)(x & 3); }

/* ---- float to integer: out-of-range numbers are replaced before the conversion, which is then defined
 * ---- */
static inline int32_t cni_f32_to_i32(float x)
{
  return (int32_t)(((x >= -0x1p31f) & (x < 0x1p31f)) ? x : -0x1p31f);
}

static inline int32_t cni_f64_to_i32(double x)
{
  return (int32_t)(((x >= -0x1p31) & (x < 0x1p31)) ? x : -0x1p31);
}

static inline int64_t cni_f32_to_i64(float x)
{
  return (int64_t)(((x >= -0x1p63f) & (x < 0x1p63f)) ? x : -0x1p63f);
}

static inline int64_t cni_f64_to_i64(double x)
{
  return (int64_t)(((x >= -0x1p63) & (x < 0x1p63)) ? x : -0x1p63);
}

static inline uint64_t cni_f64_to_u64(double x)
{
  uint64_t top = (uint64_t)(x >= 0x1p63) << 63;
  return (uint64_t)cni_f64_to_i64(x >= 0x1p63 ? x - 0x1p63 : x) ^ top;
}

static inline uint64_t cni_f32_to_u64(float x) { return cni_f64_to_u64(x); }

/* ---- integer to float: without -ftrapping-math gcc 12 makes one truncation of a conversion to an integer and back,
 * which keeps the sign of -0.5 where the integer has none ---- */
static inline float cni_whole_f32(float x) { return x == 0 ? 0 : x; }
static inline double cni_whole_f64(double x) { return x == 0 ? 0 : x; }

/* ---- the list of types, for code that is generated per type ---- */
/* CNI_TO_T(K, v) converts v to the C type of T. K says what v is: I an integer, F a float, D a double. */
#define CNI_I32_FROM_I(v) (v)
#define CNI_I32_FROM_F(v) cni_f32_to_i32(v)
#define CNI_I32_FROM_D(v) cni_f64_to_i32(v)
#define CNI_I64_FROM_I(v) (v)
#define CNI_I64_FROM_F(v) cni_f32_to_i64(v)
#define CNI_I64_FROM_D(v) cni_f64_to_i64(v)
#define CNI_U64_FROM_I(v) (v)
#define CNI_U64_FROM_F(v) cni_f32_to_u64(v)
#define CNI_U64_FROM_D(v) cni_f64_to_u64(v)

#define CNI_F32_FROM_I(v) cni_whole_f32(v)
#define CNI_F32_FROM_F(v) (v)
#define CNI_F32_FROM_D(v) (v)
#define CNI_F64_FROM_I(v) cni_whole_f64(v)
#define CNI_F64_FROM_F(v) (v)
#define CNI_F64_FROM_D(v) (v)

#define CNI_TO_BOOL(K, v) ((uint8_t)((v) != 0))
#define CNI_TO_U8(K, v) ((uint8_t)CNI_I32_FROM_##K(v))
#define CNI_TO_I8(K, v) ((int8_t)CNI_I32_FROM_##K(v))
#define CNI_TO_U16(K, v) ((uint16_t)CNI_I32_FROM_##K(v))
#define CNI_TO_I16(K, v) ((int16_t)CNI_I32_FROM_##K(v))
#define CNI_TO_I32(K, v) ((int32_t)CNI_I32_FROM_##K(v))
#define CNI_TO_U32(K, v) ((uint32_t)CNI_I64_FROM_##K(v))
#define CNI_TO_I64(K, v) ((int64_t)CNI_I64_FROM_##K(v))
#define CNI_TO_U64(K, v) ((uint64_t)CNI_U64_FROM_##K(v))
#define CNI_TO_F32(K, v) CNI_F32_FROM_##K((float)(v))
#define CNI_TO_F64(K, v) CNI_F64_FROM_##K((double)(v))

/* Types that are C types: name, C type, K. More arguments are handed through. */
#define CNI_EACH_NATURAL(X, ...)                                                                           \
  X(BOOL, uint8_t, I, __VA_ARGS__) X(U8, uint8_t, I, __VA_ARGS__) X(I8, int8_t, I, __VA_ARGS__)            \
  X(I16, int16_t, I, __VA_ARGS__) X(I32, int32_t, I, __VA_ARGS__) X(I64, int64_t, I, __VA_ARGS__)          \
  X(U16, uint16_t, I, __VA_ARGS__) X(U32, uint32_t, I, __VA_ARGS__) X(U64, uint64_t, I, __VA_ARGS__)       \
  X(F32, float, F, __VA_ARGS__) X(F64, double, D, __VA_ARGS__)

/* The others: name, C type of the storage, the C type they are computed in (name, K), and the way there
 * and back. */
#define CNI_EACH_SMALL(X, ...)                                                                             \
  X(F16, uint16_t, F32, F, cni_f16_to_f32, cni_f32_to_f16, __VA_ARGS__)                                    \
  X(BF16, uint16_t, F32, F, cni_bf16_to_f32, cni_f32_to_bf16, __VA_ARGS__)                                 \
  X(F8E4M3, uint8_t, F32, F, cni_f8e4m3_to_f32, cni_f32_to_f8e4m3, __VA_ARGS__)                            \
  X(F8E5M2, uint8_t, F32, F, cni_f8e5m2_to_f32, cni_f32_to_f8e5m2, __VA_ARGS__)                            \
  X(F8E4M3FNUZ, uint8_t, F32, F, cni_f8e4m3fnuz_to_f32, cni_f32_to_f8e4m3fnuz, __VA_ARGS__)                \
  X(F8E5M2FNUZ, uint8_t, F32, F, cni_f8e5m2fnuz_to_f32, cni_f32_to_f8e5m2fnuz, __VA_ARGS__)                \
  X(F8E8M0, uint8_t, F32, F, cni_f8e8m0_to_f32, cni_f32_to_f8e8m0, __VA_ARGS__)                            \
  X(F4E2M1, uint8_t, F32, F, cni_f4e2m1_to_f32, cni_f32_to_f4e2m1, __VA_ARGS__)                            \
  X(I4, uint8_t, I32, I, cni_i4_to_i32, cni_i32_to_i4, __VA_ARGS__)                                        \
  X(U4, uint8_t, I32, I, cni_u4_to_i32, cni_i32_to_i4, __VA_ARGS__)                                        \
  X(I2, uint8_t, I32, I, cni_i2_to_i32, cni_i32_to_i2, __VA_ARGS__)                                        \
  X(U2, uint8_t, I32, I, cni_u2_to_i32, cni_i32_to_i2, __VA_ARGS__)

/* ---- one element in memory (convert.c) ---- */
/* Element i of an array of dtype, converted as above. uint64 above INT64_MAX wraps as int64. */
double cni_load_f64(const void *array, int64_t i, int dtype);
int64_t cni_load_i64(const void *array, int64_t i, int dtype);
void cni_store_f64(void *array, int64_t i, int dtype, double value);
void cni_store_i64(void *array, int64_t i, int dtype, int64_t value);

#endif
