/* isa.h: which instruction set the CPU kernels may use, decided once at run time.
 *
 * Place in the flow: kernel tables ask here before they overlay vector paths. A source file that is
 * compiled once per level (gemm_isa.c, ...) gets CNI_ISA_LEVEL from the build and gives its exports a
 * suffix with CNI_ISA_NAME; one in a folder named for a level is compiled for that level alone.
 * Invariant: the level never exceeds what the machine has, whatever CAIRN_ISA or a test asks for. */
#ifndef CNI_CPU_ISA_H
#define CNI_CPU_ISA_H

#include <stddef.h>

enum cni_isa {
  CNI_ISA_BASE = 0,  /* what the binary was built for: SSE2 on x86-64, plain C elsewhere */
  CNI_ISA_AVX2 = 1,  /* avx2 fma f16c */
  CNI_ISA_AVX512 = 2 /* avx512 f dq bw vl, and the above */
};

/* The level of the file being compiled; the build sets it for the AVX2 and AVX-512 units. */
#ifndef CNI_ISA_LEVEL
#define CNI_ISA_LEVEL 0
#endif

#if CNI_ISA_LEVEL == 2
#define CNI_ISA_NAME(name) name##_avx512
#elif CNI_ISA_LEVEL == 1
#define CNI_ISA_NAME(name) name##_avx2
#else
#define CNI_ISA_NAME(name) name##_base
#endif

/* Written before a loop whose iterations are independent, though the compiler cannot see it. */
#if defined(__clang__)
#define CNI_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define CNI_IVDEP _Pragma("GCC ivdep")
#else
#define CNI_IVDEP
#endif

/* The level in use: the machine's, capped by CAIRN_ISA=base|avx2|avx512 and by cni_cpu_isa_cap. Any
 * thread. */
int cni_cpu_isa(void);
/* For tests: caps the level from now on; a negative one restores the machine's (CAIRN_ISA still counts). */
void cni_cpu_isa_cap(int level);
const char *cni_cpu_isa_name(int level); /* "base", "avx2", "avx512" */

/* The address of NAME_base, NAME_avx2 or NAME_avx512, by the level in use: tables that a *_isa.c file gives
 * once per level. */
#if defined(__x86_64__)
static inline const void *cni_by_isa(const void *base, const void *avx2, const void *avx512)
{
  int level = cni_cpu_isa();
  return level >= CNI_ISA_AVX512 ? avx512 : level == CNI_ISA_AVX2 ? avx2 : base;
}
#define CNI_BY_ISA(name) cni_by_isa(&name##_base, &name##_avx2, &name##_avx512)
#else
#define CNI_BY_ISA(name) ((const void *)&name##_base)
#endif

/* The address of NAME_avx2 or NAME_avx512, by the level in use, or NULL where it is lower: tables that a *_isa.c file
 * gives for vectors of 8 and more floats alone. */
#if defined(__x86_64__)
#define CNI_IF_VECTORS(name) cni_by_isa(NULL, &name##_avx2, &name##_avx512)
#else
#define CNI_IF_VECTORS(name) ((const void *)NULL)
#endif

#endif
