/* lapack.c: fills the LAPACK table from OpenBLAS, which holds a complete LAPACK, or from the reference
 * library.
 *
 * Invariant: `table` is written inside pthread_once only; `complete` says whether every entry was found. */
#include "lapack.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/os.h"
#include "blas.h"

static cni_lapack table;
static bool complete;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Where each routine goes; the symbol is a type letter, the name and an underscore. */
static const struct {
  const char *name;
  size_t offset;
} routines[] = {
    {"getrf", offsetof(cni_lapack, getrf)}, {"getrs", offsetof(cni_lapack, getrs)},
    {"getri", offsetof(cni_lapack, getri)}, {"potrf", offsetof(cni_lapack, potrf)},
    {"trtrs", offsetof(cni_lapack, trtrs)},
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

static void load(void)
{
  static const char *const names[] = {"liblapack.so.3", "liblapack.so", "liblapack.dylib"};
  if (cni_blas_forbidden()) return;
  void *library = cni_blas_openblas();
  complete = library && fill(library);
  for (size_t i = 0; i < sizeof names / sizeof *names && !complete; i++) {
    library = cni_os_library(names[i]);
    complete = library && fill(library);
  }
}

const cni_lapack *cni_lapack_get(void)
{
  pthread_once(&once, load);
  return complete ? &table : NULL;
}
