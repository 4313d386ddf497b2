/* os.c: the one file of operating-system calls (Linux and other POSIX systems). See os.h. */
#define _GNU_SOURCE
#include "os.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#endif
#include <time.h>
#include <unistd.h>

enum { HUGE_PAGE = 2 << 20 };

void *cni_os_alloc(size_t size)
{
  bool big = size >= 2 * (size_t)HUGE_PAGE;
  void *p = NULL;
  if (posix_memalign(&p, big ? HUGE_PAGE : 64, size ? size : 1)) return NULL;
#ifdef MADV_HUGEPAGE
  if (big) madvise(p, size, MADV_HUGEPAGE); /* fewer page faults; advice only, so failure is fine */
#endif
  return p;
}

void cni_os_free(void *memory, size_t size)
{
  (void)size;
  free(memory);
}

void cni_os_yield(void) { sched_yield(); }

/* Cores allowed by the cgroup's quota (version 2, then 1); a large number when there is no quota. */
static int quota_cores(void)
{
  long quota = -1, period = 0;
  FILE *f = fopen("/sys/fs/cgroup/cpu.max", "r");
  if (f) {
    if (fscanf(f, "%ld %ld", &quota, &period) != 2) quota = -1;
    fclose(f);
  } else {
    if ((f = fopen("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "r"))) {
      if (fscanf(f, "%ld", &quota) != 1) quota = -1;
      fclose(f);
    }
    if ((f = fopen("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "r"))) {
      if (fscanf(f, "%ld", &period) != 1) period = 0;
      fclose(f);
    }
  }
  if (quota <= 0 || period <= 0) return 1 << 20;
  long cores = (quota + period - 1) / period;
  return cores < 1 ? 1 : (int)cores;
}

int cni_os_cores(void)
{
  int n = (int)sysconf(_SC_NPROCESSORS_ONLN), quota = quota_cores();
#ifdef __linux__
  cpu_set_t set;
  if (!sched_getaffinity(0, sizeof set, &set)) n = CPU_COUNT(&set);
#endif
  if (quota < n) n = quota;
  return n < 1 ? 1 : n;
}

uint64_t cni_os_memory_total(void)
{
  long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
  return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 0;
}

uint64_t cni_os_memory_free(void)
{
  unsigned long long kib = 0;
  char line[128];
  FILE *f = fopen("/proc/meminfo", "r");
  if (!f) return 0;
  while (fgets(line, sizeof line, f))
    if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) break;
  fclose(f);
  return (uint64_t)kib << 10;
}

unsigned cni_os_arm_extensions(void)
{
#if defined(__aarch64__) && defined(__linux__)
  unsigned long first = getauxval(AT_HWCAP), second = getauxval(AT_HWCAP2);
  return (first & HWCAP_ASIMDDP ? CNI_ARM_DOTPROD : 0u) | (second & HWCAP2_BF16 ? CNI_ARM_BF16 : 0u) |
         (second & HWCAP2_I8MM ? CNI_ARM_I8MM : 0u);
#else
  return 0;
#endif
}

bool cni_os_grants_tiles(void)
{
#if defined(__x86_64__) && defined(__linux__) && defined(SYS_arch_prctl)
  enum { ASK_FOR_STATE = 0x1023 /* ARCH_REQ_XCOMP_PERM, Linux 5.16 */, TILE_DATA = 18 };
  return !syscall(SYS_arch_prctl, ASK_FOR_STATE, TILE_DATA);
#else
  return false;
#endif
}

uint64_t cni_os_cache_size(int level)
{
  for (int index = 0; index < 8; index++) {
    char path[96], type[32] = "";
    int l = 0;
    unsigned long kib = 0;
    FILE *f;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/level", index);
    if (!(f = fopen(path, "r"))) return 0;
    if (fscanf(f, "%d", &l) != 1) l = 0;
    fclose(f);
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/type", index);
    if ((f = fopen(path, "r"))) {
      if (fscanf(f, "%31s", type) != 1) type[0] = 0;
      fclose(f);
    }
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", index);
    if ((f = fopen(path, "r"))) {
      if (fscanf(f, "%luK", &kib) != 1) kib = 0;
      fclose(f);
    }
    if (l == level && strcmp(type, "Instruction")) return (uint64_t)kib << 10;
  }
  return 0;
}

void cni_os_cpu_name(char *name, size_t size)
{
  char line[256];
  snprintf(name, size, "CPU");
  FILE *f = fopen("/proc/cpuinfo", "r");
  if (!f) return;
  while (fgets(line, sizeof line, f)) {
    char *colon = strchr(line, ':');
    if (strncmp(line, "model name", 10) || !colon || !colon[1]) continue;
    colon[strcspn(colon, "\n")] = 0;
    snprintf(name, size, "%s", colon + 2);
    break;
  }
  fclose(f);
}

double cni_os_now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

uint64_t cni_os_thread(void)
{
#if defined(__linux__)
  return (uint64_t)syscall(SYS_gettid);
#else
  return (uint64_t)(uintptr_t)pthread_self();
#endif
}

/* Where the system has no entropy to give (before its pool is ready, in a jail without the call) time and addresses
 * stand in: good enough for numbers that no secret depends on. */
uint64_t cni_os_entropy(void)
{
  uint64_t bits = 0;
  if (!getentropy(&bits, sizeof bits)) return bits;
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  bits = (uint64_t)t.tv_sec << 32 ^ (uint64_t)t.tv_nsec ^ (uint64_t)getpid() << 20 ^ (uint64_t)(uintptr_t)&bits;
  return bits * 0x9e3779b97f4a7c15u;
}

void *cni_os_library(const char *name) { return dlopen(name, RTLD_NOW | RTLD_LOCAL); }
void *cni_os_symbol(void *library, const char *name) { return library ? dlsym(library, name) : NULL; }

const char *cni_os_env(const char *name)
{
  const char *value = getenv(name);
  return value && value[0] ? value : NULL;
}

bool cni_os_folder_of(const void *symbol, char *folder, size_t size)
{
  Dl_info info;
  if (!dladdr(symbol, &info) || !info.dli_fname) return false;
  const char *slash = strrchr(info.dli_fname, '/');
  if (!slash || (size_t)(slash - info.dli_fname) >= size) return false;
  memcpy(folder, info.dli_fname, (size_t)(slash - info.dli_fname));
  folder[slash - info.dli_fname] = 0;
  return true;
}

static void write_all(int fd, const char *text)
{
  size_t left = strlen(text);
  while (left) {
    ssize_t n = write(fd, text, left);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    text += n;
    left -= (size_t)n;
  }
}

void cni_os_write_stderr(const char *text) { write_all(2, text); }
void cni_os_write_stdout(const char *text)
{
  fputs(text, stdout); /* through stdio, so that it keeps its place among the program's own output */
}
