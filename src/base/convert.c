/* convert.c: one element of any type read or written as double or int64.
 *
 * Place in the flow: scalar access, printing, filling; loops over many elements use the cast kernels instead.
 * Invariant: same values as those kernels, because both come from convert.h. Unaligned memory is fine. */
#include "convert.h"

#include "dtype.h"

#define AT(array, i, T) ((const char *)(array) + (size_t)(i) * sizeof(T))

double cni_load_f64(const void *array, int64_t i, int dtype)
{
  switch (dtype) {
#define NATURAL(ID, T, K, unused)       \
  case CN_##ID: {                       \
    T v;                                \
    memcpy(&v, AT(array, i, T), sizeof v); \
    return (double)(CN_##ID == CN_BOOL ? v != 0 : v); \
  }
#define SMALL(ID, T, HUB, K, to, from, unused) \
  case CN_##ID: {                              \
    T v;                                       \
    memcpy(&v, AT(array, i, T), sizeof v);     \
    return (double)to(v);                      \
  }
    CNI_EACH_NATURAL(NATURAL, )
    CNI_EACH_SMALL(SMALL, )
  default: return 0;
  }
#undef NATURAL
#undef SMALL
}

int64_t cni_load_i64(const void *array, int64_t i, int dtype)
{
  switch (dtype) {
#define NATURAL(ID, T, K, unused)          \
  case CN_##ID: {                          \
    T v;                                   \
    memcpy(&v, AT(array, i, T), sizeof v); \
    return CN_##ID == CN_BOOL ? v != 0 : CNI_TO_I64(K, v); \
  }
#define SMALL(ID, T, HUB, K, to, from, unused) \
  case CN_##ID: {                              \
    T v;                                       \
    memcpy(&v, AT(array, i, T), sizeof v);     \
    return CNI_TO_I64(K, to(v));               \
  }
    CNI_EACH_NATURAL(NATURAL, )
    CNI_EACH_SMALL(SMALL, )
  default: return 0;
  }
#undef NATURAL
#undef SMALL
}

/* Both stores differ only in what they are given. */
#define NATURAL(ID, T, K, from_kind)       \
  case CN_##ID: {                          \
    T v = CNI_TO_##ID(from_kind, value);   \
    memcpy((char *)array + (size_t)i * sizeof v, &v, sizeof v); \
    break;                                 \
  }
#define SMALL(ID, T, HUB, K, to, from, from_kind) \
  case CN_##ID: {                                 \
    T v = from(CNI_TO_##HUB(from_kind, value));   \
    memcpy((char *)array + (size_t)i * sizeof v, &v, sizeof v); \
    break;                                        \
  }

void cni_store_f64(void *array, int64_t i, int dtype, double value)
{
  switch (dtype) {
    CNI_EACH_NATURAL(NATURAL, D)
    CNI_EACH_SMALL(SMALL, D)
  default: break;
  }
}

void cni_store_i64(void *array, int64_t i, int dtype, int64_t value)
{
  switch (dtype) {
    CNI_EACH_NATURAL(NATURAL, I)
    CNI_EACH_SMALL(SMALL, I)
  default: break;
  }
}
