/* rows.c: see rows.h. */
#include "rows.h"

/* 16 bytes at a time, turned around in a register. */
#define TURN(T, ...)                                                      \
  case sizeof(T): {                                                       \
    typedef T vector __attribute__((vector_size(16)));                    \
    enum { EACH = 16 / sizeof(T) };                                       \
    for (; k + EACH <= n; k += EACH) {                                    \
      vector v;                                                           \
      memcpy(&v, src - (k + EACH - 1) * (int64_t)sizeof(T), sizeof v);    \
      v = __builtin_shufflevector(v, v, __VA_ARGS__);                     \
      memcpy(dst + k * (int64_t)sizeof(T), &v, sizeof v);                 \
    }                                                                     \
    break;                                                                \
  }

void cni_row_turn(char *dst, const char *src, size_t elem, int64_t n)
{
  int64_t k = 0;
  switch (elem) {
    TURN(uint8_t, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
    TURN(uint16_t, 7, 6, 5, 4, 3, 2, 1, 0)
    TURN(uint32_t, 3, 2, 1, 0)
    TURN(uint64_t, 1, 0)
  default: break;
  }
  for (; k < n; k++) memcpy(dst + k * (int64_t)elem, src - k * (int64_t)elem, elem);
}
