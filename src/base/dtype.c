/* dtype.c: the table of element types, and which type two of them compute in.
 *
 * Place in the flow: asked by infer rules, kernels, formats and printing through dtype.h. Invariant: a new
 * type is one row here, one row and column of the promotion table, and one line in convert.h. */
#include "dtype.h"

#include <string.h>

#define BOOL(name, short_name) {name, short_name, NULL, 1, 1, CNI_CAT_BOOL, false, true}
#define UINT(name, short_name, alias, size) \
  {name, short_name, alias, size, 8 * size, CNI_CAT_INT, false, true}
#define SINT(name, short_name, alias, size) \
  {name, short_name, alias, size, 8 * size, CNI_CAT_INT, true, true}
#define REAL(name, short_name, alias, size) \
  {name, short_name, alias, size, 8 * size, CNI_CAT_FLOAT, true, true}
#define TINY(name, short_name, bits, category, is_signed) \
  {name, short_name, NULL, 1, bits, category, is_signed, false}

const cni_dtype_row cni_dtype_rows[CN_DTYPE_COUNT] = {
    [CN_DTYPE_NONE] = {"none", "none", NULL, 0, 0, CNI_CAT_NONE, false, false},
    [CN_BOOL] = BOOL("bool", "bool"),
    [CN_U8] = UINT("uint8", "u8", "byte", 1),
    [CN_I8] = SINT("int8", "i8", "char", 1),
    [CN_I16] = SINT("int16", "i16", "short", 2),
    [CN_I32] = SINT("int32", "i32", "int", 4),
    [CN_I64] = SINT("int64", "i64", "long", 8),
    [CN_U16] = UINT("uint16", "u16", NULL, 2),
    [CN_U32] = UINT("uint32", "u32", NULL, 4),
    [CN_U64] = UINT("uint64", "u64", NULL, 8),
    [CN_F16] = REAL("float16", "f16", "half", 2),
    [CN_BF16] = REAL("bfloat16", "bf16", NULL, 2),
    [CN_F32] = REAL("float32", "f32", "float", 4),
    [CN_F64] = REAL("float64", "f64", "double", 8),
    [CN_F8E4M3] = TINY("float8_e4m3fn", "f8e4m3", 8, CNI_CAT_FLOAT, true),
    [CN_F8E5M2] = TINY("float8_e5m2", "f8e5m2", 8, CNI_CAT_FLOAT, true),
    [CN_F8E4M3FNUZ] = TINY("float8_e4m3fnuz", "f8e4m3fnuz", 8, CNI_CAT_FLOAT, true),
    [CN_F8E5M2FNUZ] = TINY("float8_e5m2fnuz", "f8e5m2fnuz", 8, CNI_CAT_FLOAT, true),
    [CN_F8E8M0] = TINY("float8_e8m0fnu", "f8e8m0", 8, CNI_CAT_FLOAT, false),
    [CN_F4E2M1] = TINY("float4_e2m1fn", "f4e2m1", 4, CNI_CAT_FLOAT, true),
    [CN_I4] = TINY("int4", "i4", 4, CNI_CAT_INT, true),
    [CN_U4] = TINY("uint4", "u4", 4, CNI_CAT_INT, false),
    [CN_I2] = TINY("int2", "i2", 2, CNI_CAT_INT, true),
    [CN_U2] = TINY("uint2", "u2", 2, CNI_CAT_INT, false),
};

/* PyTorch's answers. Where it has none (unsigned 16, 32 and 64 bits with another integer) the smallest
 * integer that holds both; uint64 with a signed one has no such integer and goes to float64, as in NumPy. */
#define COLUMNS(bool_, u8, i8, i16, i32, i64, u16, u32, u64, f16, bf16, f32, f64)  \
  {[CN_BOOL] = CN_##bool_, [CN_U8] = CN_##u8,     [CN_I8] = CN_##i8,   [CN_I16] = CN_##i16, \
   [CN_I32] = CN_##i32,    [CN_I64] = CN_##i64,   [CN_U16] = CN_##u16, [CN_U32] = CN_##u32, \
   [CN_U64] = CN_##u64,    [CN_F16] = CN_##f16,   [CN_BF16] = CN_##bf16, \
   [CN_F32] = CN_##f32,    [CN_F64] = CN_##f64}
#define ITSELF(dtype) [dtype] = {[dtype] = dtype}

const uint8_t cni_promote_table[CN_DTYPE_COUNT][CN_DTYPE_COUNT] = {
    /* with:            BOOL U8  I8  I16  I32  I64  U16  U32  U64  F16  BF16  F32  F64 */
    [CN_BOOL] = COLUMNS(BOOL, U8, I8, I16, I32, I64, U16, U32, U64, F16, BF16, F32, F64),
    [CN_U8] = COLUMNS(U8, U8, I16, I16, I32, I64, U16, U32, U64, F16, BF16, F32, F64),
    [CN_I8] = COLUMNS(I8, I16, I8, I16, I32, I64, I32, I64, F64, F16, BF16, F32, F64),
    [CN_I16] = COLUMNS(I16, I16, I16, I16, I32, I64, I32, I64, F64, F16, BF16, F32, F64),
    [CN_I32] = COLUMNS(I32, I32, I32, I32, I32, I64, I32, I64, F64, F16, BF16, F32, F64),
    [CN_I64] = COLUMNS(I64, I64, I64, I64, I64, I64, I64, I64, F64, F16, BF16, F32, F64),
    [CN_U16] = COLUMNS(U16, U16, I32, I32, I32, I64, U16, U32, U64, F16, BF16, F32, F64),
    [CN_U32] = COLUMNS(U32, U32, I64, I64, I64, I64, U32, U32, U64, F16, BF16, F32, F64),
    [CN_U64] = COLUMNS(U64, U64, F64, F64, F64, F64, U64, U64, U64, F16, BF16, F32, F64),
    [CN_F16] = COLUMNS(F16, F16, F16, F16, F16, F16, F16, F16, F16, F16, F32, F32, F64),
    [CN_BF16] = COLUMNS(BF16, BF16, BF16, BF16, BF16, BF16, BF16, BF16, BF16, F32, BF16, F32, F64),
    [CN_F32] = COLUMNS(F32, F32, F32, F32, F32, F32, F32, F32, F32, F32, F32, F32, F64),
    [CN_F64] = COLUMNS(F64, F64, F64, F64, F64, F64, F64, F64, F64, F64, F64, F64, F64),
    ITSELF(CN_F8E4M3),
    ITSELF(CN_F8E5M2),
    ITSELF(CN_F8E4M3FNUZ),
    ITSELF(CN_F8E5M2FNUZ),
    ITSELF(CN_F8E8M0),
    ITSELF(CN_F4E2M1),
    ITSELF(CN_I4),
    ITSELF(CN_U4),
    ITSELF(CN_I2),
    ITSELF(CN_U2),
};

/* The row of whatever number a caller passed; unknown ones get that of CN_DTYPE_NONE. */
static const cni_dtype_row *row_of(cn_dtype dtype)
{
  return &cni_dtype_rows[cni_dtype_valid((int64_t)dtype) ? dtype : CN_DTYPE_NONE];
}

const char *cn_dtype_name(cn_dtype dtype) { return row_of(dtype)->name; }
size_t cn_dtype_size(cn_dtype dtype) { return row_of(dtype)->size; }
bool cn_dtype_is_float(cn_dtype dtype) { return row_of(dtype)->category == CNI_CAT_FLOAT; }
bool cn_dtype_is_int(cn_dtype dtype) { return row_of(dtype)->category == CNI_CAT_INT; }
bool cn_dtype_is_signed(cn_dtype dtype) { return row_of(dtype)->is_signed; }

cn_dtype cn_dtype_find(const char *name)
{
  if (!name) return CN_DTYPE_NONE;
  for (int i = CN_DTYPE_NONE + 1; i < CN_DTYPE_COUNT; i++) {
    const cni_dtype_row *row = &cni_dtype_rows[i];
    if (!strcmp(name, row->name) || !strcmp(name, row->short_name)) return (cn_dtype)i;
    if (row->alias && !strcmp(name, row->alias)) return (cn_dtype)i;
  }
  return CN_DTYPE_NONE;
}

cn_dtype cn_promote_types(cn_dtype a, cn_dtype b)
{
  if (!cni_dtype_valid((int64_t)a) || !cni_dtype_valid((int64_t)b)) return CN_DTYPE_NONE;
  return (cn_dtype)cni_promote((int)a, (int)b);
}
