/* nontemporal.c: see nontemporal.h. */
#include "nontemporal.h"

#include <stdatomic.h>

#include "base/os.h"

bool cni_nontemporal_pays(int64_t bytes)
{
#if defined(__x86_64__)
  static _Atomic int64_t least; /* twice the last cache; 0: not asked yet */
  int64_t from = atomic_load_explicit(&least, memory_order_relaxed);
  if (!from) {
    uint64_t cache = cni_os_cache_size(3);
    from = cache ? 2 * (int64_t)cache : (int64_t)64 << 20;
    atomic_store_explicit(&least, from, memory_order_relaxed);
  }
  return bytes >= from;
#else
  return (void)bytes, false;
#endif
}
