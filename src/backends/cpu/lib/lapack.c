/* lapack.c: fills the LAPACK table from OpenBLAS, which holds a complete LAPACK, or from the reference
 * library.
 *
 * Invariant: `table` is written inside pthread_once only; `complete` says whether every entry was found. A forked
 * child does not enter the library any more: its threads do not survive a fork. */
#include "lapack.h"

#include <cairn/device.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/os.h"
#include "blas.h"

enum { THREADS_FROM = 256 }; /* rows from which on several threads pay for one matrix */

static cni_lapack table;
static bool complete;
static void (*set_threads)(int);
static _Atomic bool forked;
static pthread_once_t once = PTHREAD_ONCE_INIT;

#if defined(CNI_MINIMAL)
static void load(void) {} /* no library is ever loaded */
#else
/* Where each routine goes; the symbol is a type letter, the name and an underscore. */
static const struct {
  const char *name;
  size_t offset;
} routines[] = {
    {"getrf", offsetof(cni_lapack, getrf)}, {"getrs", offsetof(cni_lapack, getrs)},
    {"getri", offsetof(cni_lapack, getri)}, {"potrf", offsetof(cni_lapack, potrf)},
    {"trtrs", offsetof(cni_lapack, trtrs)}, {"geqrf", offsetof(cni_lapack, geqrf)},
    {"orgqr", offsetof(cni_lapack, orgqr)}, {"gesdd", offsetof(cni_lapack, gesdd)},
    {"syevd", offsetof(cni_lapack, syevd)}, {"ormqr", offsetof(cni_lapack, ormqr)},
    {"sytrf", offsetof(cni_lapack, sytrf)}, {"sytrs", offsetof(cni_lapack, sytrs)},
    {"geev", offsetof(cni_lapack, geev)},
};

static bool find_one(void *library, char type, const char *name, char *slot)
{
  char symbol[16] = {type};
  size_t length = strlen(name);
  memcpy(symbol + 1, name, length);
  symbol[length + 1] = '_';
  void *found = cni_os_symbol(library, symbol);
  memcpy(slot, &found, sizeof found);
  return found != NULL;
}

static bool fill(void *library)
{
  for (size_t i = 0; i < sizeof routines / sizeof *routines; i++) {
    char *slot = (char *)&table + routines[i].offset;
    if (!find_one(library, 's', routines[i].name, slot)) return false;
    if (!find_one(library, 'd', routines[i].name, slot + sizeof(void *))) return false;
  }
  return true;
}

static void mark_forked(void) { atomic_store(&forked, true); }

static void load(void)
{
  static const char *const names[] = {"liblapack.so.3", "liblapack.so", "liblapack.dylib"};
  void *library = cni_blas_openblas();
  complete = library && fill(library);
  if (complete) {
    void *found = cni_os_symbol(library, "openblas_set_num_threads");
    memcpy(&set_threads, &found, sizeof found);
  }
  for (size_t i = 0; i < sizeof names / sizeof *names && !complete; i++) {
    library = cni_os_library(names[i]);
    complete = library && fill(library);
  }
  if (complete) pthread_atfork(NULL, NULL, mark_forked);
}
#endif

const cni_lapack *cni_lapack_get(void)
{
  pthread_once(&once, load);
  return complete && !atomic_load_explicit(&forked, memory_order_relaxed) ? &table : NULL;
}

void cni_lapack_threads(int64_t batch, int64_t size)
{
  bool one = batch > 1 || size < THREADS_FROM || cn_deterministic_mode() >= CN_DETERMINISTIC_WARN;
  if (set_threads) set_threads(one ? 1 : cn_num_threads());
}
