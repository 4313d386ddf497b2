/* dtype.h: what is known about each element type: one table row per cn_dtype, and the promotion table.
 *
 * Place in the flow: everything that asks "how big, which kind, what together" reads these two tables.
 * Invariant: the inline helpers take a valid cn_dtype (a tensor's); user input goes through
 * cni_dtype_valid. */
#ifndef CNI_BASE_DTYPE_H
#define CNI_BASE_DTYPE_H

#include <cairn/ext/dtypes.h>

/* In the order in which a category outranks another in promotion. */
enum cni_category { CNI_CAT_NONE, CNI_CAT_BOOL, CNI_CAT_INT, CNI_CAT_FLOAT, CNI_CAT_COMPLEX };

typedef struct cni_dtype_row {
  const char *name;       /* PyTorch's: "float32" */
  const char *short_name; /* "f32" */
  const char *alias;      /* PyTorch's second name ("float"); NULL where there is none */
  uint8_t size;           /* bytes of one element in memory */
  uint8_t bits;           /* that carry its value */
  uint8_t category;       /* enum cni_category */
  bool is_signed;
  bool computes; /* false: storage and casts only */
} cni_dtype_row;

extern const cni_dtype_row cni_dtype_rows[CN_DTYPE_COUNT];
extern const uint8_t cni_promote_table[CN_DTYPE_COUNT][CN_DTYPE_COUNT];

static inline bool cni_dtype_valid(int64_t dtype) { return dtype > CN_DTYPE_NONE && dtype < CN_DTYPE_COUNT; }
static inline size_t cni_dtype_size(int dtype) { return cni_dtype_rows[dtype].size; }
/* Bytes of n elements, n >= 0: what memory for them takes. Steps from element to element are cni_dtype_size. */
static inline size_t cni_dtype_bytes(int dtype, int64_t n) { return (size_t)n * cni_dtype_rows[dtype].size; }
static inline int cni_dtype_category(int dtype) { return cni_dtype_rows[dtype].category; }
static inline bool cni_dtype_is_float(int dtype) { return cni_dtype_rows[dtype].category == CNI_CAT_FLOAT; }
static inline bool cni_dtype_is_int(int dtype) { return cni_dtype_rows[dtype].category == CNI_CAT_INT; }
static inline bool cni_dtype_is_complex(int dtype) { return dtype >= CN_C64; }
/* The type of the two parts of a complex number. */
static inline int cni_dtype_part(int dtype) { return dtype == CN_C64 ? CN_F32 : dtype == CN_C32 ? CN_F16 : CN_F64; }
/* The complex type of which a number of this type may be a part, as PyTorch promotes; complex types stay. */
static inline int cni_dtype_complex(int dtype)
{
  return dtype >= CN_C64 ? dtype : dtype == CN_F64 ? CN_C128 : dtype == CN_F16 ? CN_C32 : CN_C64;
}
static inline bool cni_dtype_is_inexact(int dtype) { return cni_dtype_rows[dtype].category >= CNI_CAT_FLOAT; }
static inline bool cni_dtype_is_bool(int dtype) { return dtype == CN_BOOL; }
static inline bool cni_dtype_computes(int dtype) { return cni_dtype_rows[dtype].computes; }
/* CN_DTYPE_NONE where the two do not mix (storage-only types). */
static inline int cni_promote(int a, int b) { return cni_promote_table[a][b]; }

#endif
