/* dtype.c: the table of element types, and which type two of them compute in.
 *
 * Place in the flow: asked by infer rules, kernels, formats and printing through dtype.h. Invariant: the
 * facts of a type are its row of ext/dtypes.h. */
#include "dtype.h"

#include <string.h>

#define ROW(id, name, short_name, alias, size, bits, category, is_signed, computes) \
  [CN_##id] = {name, short_name, alias, size, bits, CNI_CAT_##category, is_signed, computes},
const cni_dtype_row cni_dtype_rows[CN_DTYPE_COUNT] = {
    [CN_DTYPE_NONE] = {"none", "none", NULL, 0, 0, CNI_CAT_NONE, false, false}, CN_EACH_DTYPE(ROW)};
#undef ROW

/* PyTorch's results. Where it has none (unsigned 16, 32 and 64 bits with another integer) the smallest
 * integer that holds both; uint64 with a signed one has no such integer and goes to float64, as in NumPy. */
#define COLUMNS(bool_, u8, i8, i16, i32, i64, u16, u32, u64, f16, bf16, f32, f64, c32, c64, c128)  \
  {[CN_BOOL] = CN_##bool_, [CN_U8] = CN_##u8,     [CN_I8] = CN_##i8,   [CN_I16] = CN_##i16, \
   [CN_I32] = CN_##i32,    [CN_I64] = CN_##i64,   [CN_U16] = CN_##u16, [CN_U32] = CN_##u32, \
   [CN_U64] = CN_##u64,    [CN_F16] = CN_##f16,   [CN_BF16] = CN_##bf16, \
   [CN_F32] = CN_##f32,    [CN_F64] = CN_##f64,   [CN_C32] = CN_##c32,  [CN_C64] = CN_##c64, \
   [CN_C128] = CN_##c128}
#define ITSELF(dtype) [dtype] = {[dtype] = dtype}

const uint8_t cni_promote_table[CN_DTYPE_COUNT][CN_DTYPE_COUNT] = {
    /* with:            BOOL U8  I8  I16  I32  I64  U16  U32  U64  F16  BF16  F32  F64  C32   C64   C128 */
    [CN_BOOL] = COLUMNS(BOOL, U8, I8, I16, I32, I64, U16, U32, U64, F16, BF16, F32, F64, C32, C64, C128),
    [CN_U8] = COLUMNS(U8, U8, I16, I16, I32, I64, U16, U32, U64, F16, BF16, F32, F64, C32, C64, C128),
    [CN_I8] = COLUMNS(I8, I16, I8, I16, I32, I64, I32, I64, F64, F16, BF16, F32, F64, C32, C64, C128),
    [CN_I16] = COLUMNS(I16, I16, I16, I16, I32, I64, I32, I64, F64, F16, BF16, F32, F64, C32, C64, C128),
    [CN_I32] = COLUMNS(I32, I32, I32, I32, I32, I64, I32, I64, F64, F16, BF16, F32, F64, C32, C64, C128),
    [CN_I64] = COLUMNS(I64, I64, I64, I64, I64, I64, I64, I64, F64, F16, BF16, F32, F64, C32, C64, C128),
    [CN_U16] = COLUMNS(U16, U16, I32, I32, I32, I64, U16, U32, U64, F16, BF16, F32, F64, C32, C64, C128),
    [CN_U32] = COLUMNS(U32, U32, I64, I64, I64, I64, U32, U32, U64, F16, BF16, F32, F64, C32, C64, C128),
    [CN_U64] = COLUMNS(U64, U64, F64, F64, F64, F64, U64, U64, U64, F16, BF16, F32, F64, C32, C64, C128),
    [CN_F16] = COLUMNS(F16, F16, F16, F16, F16, F16, F16, F16, F16, F16, F32, F32, F64, C32, C64, C128),
    [CN_BF16] = COLUMNS(BF16, BF16, BF16, BF16, BF16, BF16, BF16, BF16, BF16, F32, BF16, F32, F64, C64, C64, C128),
    [CN_F32] = COLUMNS(F32, F32, F32, F32, F32, F32, F32, F32, F32, F32, F32, F32, F64, C64, C64, C128),
    [CN_F64] = COLUMNS(F64, F64, F64, F64, F64, F64, F64, F64, F64, F64, F64, F64, F64, C128, C128, C128),
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
    [CN_C32] = COLUMNS(C32, C32, C32, C32, C32, C32, C32, C32, C32, C32, C64, C64, C128, C32, C64, C128),
    [CN_C64] = COLUMNS(C64, C64, C64, C64, C64, C64, C64, C64, C64, C64, C64, C64, C128, C64, C64, C128),
    [CN_C128] = COLUMNS(C128, C128, C128, C128, C128, C128, C128, C128, C128, C128, C128, C128, C128, C128, C128, C128),
};

/* The row of whatever number a caller passed; unknown ones get that of CN_DTYPE_NONE. */
static const cni_dtype_row *row_of(cn_dtype dtype)
{
  return &cni_dtype_rows[cni_dtype_valid((int64_t)dtype) ? dtype : CN_DTYPE_NONE];
}

const char *cn_dtype_name(cn_dtype dtype) { return row_of(dtype)->name; }
size_t cn_dtype_size(cn_dtype dtype) { return row_of(dtype)->size; }
size_t cn_dtype_bytes(cn_dtype dtype, int64_t n)
{
  return cni_dtype_valid((int64_t)dtype) && n > 0 ? cni_dtype_bytes((int)dtype, n) : 0;
}
bool cn_dtype_is_float(cn_dtype dtype) { return row_of(dtype)->category == CNI_CAT_FLOAT; }
bool cn_dtype_is_int(cn_dtype dtype) { return row_of(dtype)->category == CNI_CAT_INT; }
bool cn_dtype_is_complex(cn_dtype dtype) { return row_of(dtype)->category == CNI_CAT_COMPLEX; }
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
