/* philox.cuh: what the CPU's generator (base/philox.h) and its maths find in front of them inside of a kernel. */
#define CNM_EMBEDDED 1
typedef unsigned char uint8_t;
typedef signed char int8_t;
typedef unsigned short uint16_t;
typedef short int16_t;
typedef unsigned int uint32_t;
typedef int int32_t;
typedef unsigned long uint64_t;
typedef long int64_t;
#define __builtin_inf() CNM_INF
#define __builtin_fabs fabs
#define __builtin_fabsf fabsf
#define __builtin_sqrt sqrt
#define __builtin_sqrtf sqrtf
#define __builtin_floor floor
#define __builtin_floorf floorf
#define __builtin_ceil ceil
#define __builtin_ceilf ceilf
#define __builtin_trunc trunc
#define __builtin_truncf truncf
#define __builtin_rint rint
#define __builtin_rintf rintf
#define __builtin_fmod fmod
#define __builtin_fmodf fmodf
#define __builtin_copysign copysign
#define __builtin_copysignf copysignf
#ifndef CN_SIMT /* one instruction, where the compiler adds the product with the upper half's zeros */
static __device__ __forceinline__ uint64_t product_of_words(uint32_t a, uint32_t b)
{
  uint64_t product;
  asm("mul.wide.u32 %0, %1, %2;" : "=l"(product) : "r"(a), "r"(b));
  return product;
}
#define CNI_PHILOX_PRODUCT product_of_words
#endif
