/* isa.h: which instruction set the CPU kernels may use, decided once at run time.
 *
 * Place in the flow: kernel tables ask here before they overlay vector paths. A source file that is
 * compiled once per level (gemm_isa.c, ...) gets CNI_ISA_LEVEL from the build and gives its exports a
 * suffix with CNI_ISA_NAME; one in a folder named for a level is compiled for that level alone.
 * Invariant: the level never exceeds what the machine has, whatever CAIRN_ISA or a test asks for. */
#ifndef CNI_CPU_ISA_H
#define CNI_CPU_ISA_H

#include <stdbool.h>
#include <stddef.h>

/* The levels of the architecture, each with all that those before it have. */
enum cni_isa {
  CNI_ISA_BASE = 0, /* what the binary was built for: SSE2 on x86-64, plain C elsewhere */
#if defined(__aarch64__)
  CNI_ISA_NEON = 1, /* which every such processor has */
  CNI_ISA_BEST = CNI_ISA_NEON
#else
  CNI_ISA_AVX2 = 1,   /* avx2 fma f16c */
  CNI_ISA_AVX512 = 2, /* avx512 f dq bw vl, and the above */
  CNI_ISA_AMX = 3,    /* amx tile bf16 int8, avx512 bf16 vnni, and the above: kernels ask; no table is for it */
  CNI_ISA_BEST = CNI_ISA_AMX
#endif
};

/* Whether the architecture has levels beyond the base, and so own kernels that libraries do not beat. */
#if defined(__x86_64__) || defined(__aarch64__)
#define CNI_HAS_LEVELS 1
#else
#define CNI_HAS_LEVELS 0
#endif

/* The level of the file being compiled; the build sets it for units beyond the base. */
#ifndef CNI_ISA_LEVEL
#define CNI_ISA_LEVEL 0
#endif

/* The same by name, and the end of what such a unit exports. */
#if defined(__aarch64__)
#define CNI_FOR_NEON (CNI_ISA_LEVEL == 1)
#define CNI_FOR_AVX2 0
#define CNI_FOR_AVX512 0
#else
#define CNI_FOR_NEON 0
#define CNI_FOR_AVX2 (CNI_ISA_LEVEL == 1)
#define CNI_FOR_AVX512 (CNI_ISA_LEVEL == 2)
#endif

#if CNI_FOR_AVX512
#define CNI_ISA_NAME(name) name##_avx512
#elif CNI_FOR_AVX2
#define CNI_ISA_NAME(name) name##_avx2
#elif CNI_FOR_NEON
#define CNI_ISA_NAME(name) name##_neon
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

/* The level in use: the machine's, capped by CAIRN_ISA (a level's name) and by cni_cpu_isa_cap. Any thread. */
int cni_cpu_isa(void);
/* For tests: caps the level from now on; a negative one restores the machine's (CAIRN_ISA still counts). */
void cni_cpu_isa_cap(int level);
const char *cni_cpu_isa_name(int level); /* "base", "avx2", "avx512", "amx"; "base", "neon" */

/* Whether the machine, besides the best level with a table, which is in use, adds up products of bfloat16 pairs; how
 * many of int8 it adds up at once: 4, 8 or 0. */
bool cni_cpu_multiplies_bf16(void);
int cni_cpu_int8_terms(void);
/* Whether it multiplies tiles of both (AMX), is at that level, and lets this process: the first call asks the system,
 * since whoever may use tiles has larger frames of signals. */
bool cni_cpu_multiplies_tiles(void);

/* Tables that a *_isa.c file gives once per level. CNI_DECLARE_BY_ISA declares NAME_base, NAME_avx2 and so on, of a
 * type, arrays of them where a size [n] follows; CNI_BY_ISA is the address of the one of the level in use. The same
 * with IF_VECTORS: tables that files give for levels beyond the base alone, or NULL where the level is the base. */
#if defined(__x86_64__)
static inline const void *cni_by_isa(const void *base, const void *avx2, const void *avx512)
{
  int level = cni_cpu_isa();
  return level >= CNI_ISA_AVX512 ? avx512 : level == CNI_ISA_AVX2 ? avx2 : base;
}
#define CNI_BY_ISA(name) cni_by_isa(&name##_base, &name##_avx2, &name##_avx512)
#define CNI_IF_VECTORS(name) cni_by_isa(NULL, &name##_avx2, &name##_avx512)
#define CNI_DECLARE_BY_ISA(type, name, ...) \
  extern const type name##_base __VA_ARGS__, name##_avx2 __VA_ARGS__, name##_avx512 __VA_ARGS__
#define CNI_DECLARE_IF_VECTORS(type, name, ...) extern const type name##_avx2 __VA_ARGS__, name##_avx512 __VA_ARGS__
#elif defined(__aarch64__)
static inline const void *cni_by_neon(const void *base, const void *neon)
{
  return cni_cpu_isa() >= CNI_ISA_NEON ? neon : base;
}
#define CNI_BY_ISA(name) cni_by_neon(&name##_base, &name##_neon)
#define CNI_IF_VECTORS(name) cni_by_neon(NULL, &name##_neon)
#define CNI_DECLARE_BY_ISA(type, name, ...) extern const type name##_base __VA_ARGS__, name##_neon __VA_ARGS__
#define CNI_DECLARE_IF_VECTORS(type, name, ...) extern const type name##_neon __VA_ARGS__
#else
#define CNI_BY_ISA(name) ((const void *)&name##_base)
#define CNI_IF_VECTORS(name) ((const void *)NULL)
#define CNI_DECLARE_BY_ISA(type, name, ...) extern const type name##_base __VA_ARGS__
#define CNI_DECLARE_IF_VECTORS(type, name, ...) typedef type name##_unused
#endif

#endif
