/* ext/dtypes.h: what is known of each element type, one row each, for the library and for plugins, which link nothing.
 *
 * A new type is a constant in base.h, a row here, a row and column of the promotion table (src/base/dtype.c) and a line
 * in src/base/convert.h (complex ones are copied part by part, see cni_cpu_copy).
 */
#ifndef CAIRN_EXT_DTYPES_H
#define CAIRN_EXT_DTYPES_H

#include "../base.h"

/* X(constant, name, short name, PyTorch's second name or NULL, bytes of one element in memory, bits that carry its
 *   value, category, is it signed, does it compute: false for storage and casts only) */
#define CN_EACH_DTYPE(X) \
  X(BOOL, "bool", "bool", NULL, 1, 1, BOOL, false, true) \
  X(U8, "uint8", "u8", "byte", 1, 8, INT, false, true) \
  X(I8, "int8", "i8", "char", 1, 8, INT, true, true) \
  X(I16, "int16", "i16", "short", 2, 16, INT, true, true) \
  X(I32, "int32", "i32", "int", 4, 32, INT, true, true) \
  X(I64, "int64", "i64", "long", 8, 64, INT, true, true) \
  X(U16, "uint16", "u16", NULL, 2, 16, INT, false, true) \
  X(U32, "uint32", "u32", NULL, 4, 32, INT, false, true) \
  X(U64, "uint64", "u64", NULL, 8, 64, INT, false, true) \
  X(F16, "float16", "f16", "half", 2, 16, FLOAT, true, true) \
  X(BF16, "bfloat16", "bf16", NULL, 2, 16, FLOAT, true, true) \
  X(F32, "float32", "f32", "float", 4, 32, FLOAT, true, true) \
  X(F64, "float64", "f64", "double", 8, 64, FLOAT, true, true) \
  X(F8E4M3, "float8_e4m3fn", "f8e4m3", NULL, 1, 8, FLOAT, true, false) \
  X(F8E5M2, "float8_e5m2", "f8e5m2", NULL, 1, 8, FLOAT, true, false) \
  X(F8E4M3FNUZ, "float8_e4m3fnuz", "f8e4m3fnuz", NULL, 1, 8, FLOAT, true, false) \
  X(F8E5M2FNUZ, "float8_e5m2fnuz", "f8e5m2fnuz", NULL, 1, 8, FLOAT, true, false) \
  X(F8E8M0, "float8_e8m0fnu", "f8e8m0", NULL, 1, 8, FLOAT, false, false) \
  X(F4E2M1, "float4_e2m1fn", "f4e2m1", NULL, 1, 4, FLOAT, true, false) \
  X(I4, "int4", "i4", NULL, 1, 4, INT, true, false) \
  X(U4, "uint4", "u4", NULL, 1, 4, INT, false, false) \
  X(I2, "int2", "i2", NULL, 1, 2, INT, true, false) \
  X(U2, "uint2", "u2", NULL, 1, 2, INT, false, false) \
  X(C64, "complex64", "c64", "cfloat", 8, 64, COMPLEX, true, false) \
  X(C128, "complex128", "c128", "cdouble", 16, 128, COMPLEX, true, false) \
  X(C32, "complex32", "c32", "chalf", 4, 32, COMPLEX, true, false)

/* Bytes of one element in memory, for steps from one to the next. dtype must be a tensor's. */
static inline size_t cn_element_size(int dtype)
{
#define CN_DTYPE_SIZE(id, name, short_name, alias, size, bits, category, is_signed, computes) size,
  static const uint8_t sizes[] = {0, CN_EACH_DTYPE(CN_DTYPE_SIZE)};
#undef CN_DTYPE_SIZE
  return sizes[dtype];
}

/* Bytes of n elements one after another: of types below a byte too, which take a byte each today. */
static inline size_t cn_element_bytes(int dtype, int64_t n) { return (size_t)n * cn_element_size(dtype); }

#endif
