/* isa.c: finds the instruction set level of this machine.
 *
 * Place in the flow: asked by kernel tables at pick time. Invariant: `level` is either UNKNOWN or a level
 * that the machine runs; racing first calls compute the same value. */
#include "isa.h"

#include <stdatomic.h>
#include <string.h>

#include "base/os.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

enum { UNKNOWN = -1 };

static _Atomic int level = UNKNOWN;

#if defined(__x86_64__)
/* Compilers differ in whether __builtin_cpu_supports knows this one. That the system saves vector
 * registers follows from avx2, which it does know. */
static bool has_f16c(void)
{
  unsigned a, b, c, d;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

/* Tiles, their products, and vectors' of the same types, which kernels use beside them; saved by the system. */
static bool has_amx(void)
{
  enum { AMX = 1 << 22 | 1 << 24 | 1 << 25, AVX512_VNNI = 1 << 11, AVX512_BF16 = 1 << 5, OSXSAVE = 1 << 27 };
  enum { TILE_STATE = 3 << 17 };
  unsigned a, b, c, d, low, high;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & AMX) != AMX || !(c & AVX512_VNNI)) return false;
  if (!__get_cpuid_count(7, 1, &a, &b, &c, &d) || !(a & AVX512_BF16)) return false;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & OSXSAVE)) return false;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & TILE_STATE) == TILE_STATE;
}
#endif

static int machine_level(void)
{
#if defined(__aarch64__)
  return CNI_ISA_NEON;
#elif defined(__x86_64__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !has_f16c()) return CNI_ISA_BASE;
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512dq") ||
      !__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512vl"))
    return CNI_ISA_AVX2;
  return has_amx() ? CNI_ISA_AMX : CNI_ISA_AVX512;
#else
  return CNI_ISA_BASE;
#endif
}

static int env_cap(void)
{
  const char *wish = cni_os_env("CAIRN_ISA");
  for (int i = CNI_ISA_BASE; wish && i < CNI_ISA_BEST; i++)
    if (!strcmp(wish, cni_cpu_isa_name(i))) return i;
  return CNI_ISA_BEST; /* unset or unknown: no cap */
}

static int allowed_level(void)
{
  int machine = machine_level(), cap = env_cap();
  return cap < machine ? cap : machine;
}

int cni_cpu_isa(void)
{
  int now = atomic_load_explicit(&level, memory_order_relaxed);
  if (now != UNKNOWN) return now;
  now = allowed_level();
  atomic_store_explicit(&level, now, memory_order_relaxed);
  return now;
}

void cni_cpu_isa_cap(int cap)
{
  int most = allowed_level();
  atomic_store(&level, cap >= 0 && cap < most ? cap : most);
}

bool cni_cpu_multiplies_bf16(void)
{
#if defined(__x86_64__)
  return cni_cpu_isa() >= CNI_ISA_AVX512 && __builtin_cpu_supports("avx512bf16");
#else
  return cni_cpu_isa() >= CNI_ISA_BEST && (cni_os_arm_extensions() & CNI_ARM_BF16);
#endif
}

bool cni_cpu_multiplies_tiles(void)
{
#if defined(__x86_64__)
  static _Atomic int granted = UNKNOWN;
  if (cni_cpu_isa() < CNI_ISA_AMX) return false;
  int now = atomic_load_explicit(&granted, memory_order_relaxed);
  if (now == UNKNOWN) {
    now = cni_os_grants_tiles();
    atomic_store_explicit(&granted, now, memory_order_relaxed);
  }
  return now;
#else
  return false;
#endif
}

int cni_cpu_int8_terms(void)
{
#if defined(__x86_64__)
  return cni_cpu_isa() >= CNI_ISA_AVX512 && __builtin_cpu_supports("avx512vnni") ? 4 : 0;
#else
  unsigned has = cni_cpu_isa() >= CNI_ISA_BEST ? cni_os_arm_extensions() : 0;
  return has & CNI_ARM_I8MM ? 8 : has & CNI_ARM_DOTPROD ? 4 : 0;
#endif
}

const char *cni_cpu_isa_name(int which)
{
#if defined(__aarch64__)
  static const char *const names[] = {"base", "neon"};
#else
  static const char *const names[] = {"base", "avx2", "avx512", "amx"};
#endif
  return which >= CNI_ISA_BASE && which <= CNI_ISA_BEST ? names[which] : "unknown";
}
