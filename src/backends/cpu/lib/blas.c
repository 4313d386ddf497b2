/* blas.c: loads OpenBLAS or oneDNN when asked to and hands products to it. See blas.h.
 *
 * Invariant: each library's functions are written once, inside pthread_once, and only read afterwards; in a forked
 * child no library is entered any more (their thread pools do not survive a fork). */
#include "blas.h"

#include <cairn/device.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "backends/cpu/isa.h"
#include "base/os.h"

/* CBLAS: order, transA, transB, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc. */
typedef void (*sgemm_fn)(int, int, int, int, int, int, float, const float *, int, const float *, int, float,
                         float *, int);
typedef void (*dgemm_fn)(int, int, int, int, int, int, double, const double *, int, const double *, int,
                         double, double *, int);
/* oneDNN, row-major: transA, transB, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc; 0 when done. */
typedef int (*onednn_fn)(char, char, int64_t, int64_t, int64_t, float, const float *, int64_t, const float *,
                         int64_t, float, float *, int64_t);
typedef void (*threads_fn)(int);

enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112 };

static struct {
  void *library;
  sgemm_fn sgemm;
  dgemm_fn dgemm;
  threads_fn set_threads;
} openblas;
static struct {
  onednn_fn sgemm;
  /* OpenMP's, of the calling thread; NULL when the library was built without it */
  int (*get_threads)(void);
  threads_fn set_threads;
} onednn;
static pthread_once_t openblas_once = PTHREAD_ONCE_INIT, onednn_once = PTHREAD_ONCE_INIT;
static _Atomic bool forked;

/* Object pointers to function pointers, which C itself does not convert. */
static void symbol(void *to, void *library, const char *name)
{
  void *found = cni_os_symbol(library, name);
  memcpy(to, &found, sizeof found);
}

/* ---- loading ---- */

#if defined(CNI_MINIMAL)
static void *open_any(const char *const *names, size_t n)
{
  (void)names, (void)n;
  return NULL;
}
#else
static void mark_forked(void) { atomic_store(&forked, true); }

/* The first library of these names; a minimal build has none. */
static void *open_any(const char *const *names, size_t n)
{
  void *library = NULL;
  for (size_t i = 0; i < n && !library; i++) library = cni_os_library(names[i]);
  if (library) pthread_atfork(NULL, NULL, mark_forked);
  return library;
}
#endif

static void open_openblas(void)
{
  static const char *const names[] = {"libopenblas.so.0", "libopenblas.so", "libopenblas.dylib"};
  void *library = open_any(names, sizeof names / sizeof *names);
  if (!library) return;
  openblas.library = library;
  symbol(&openblas.sgemm, library, "cblas_sgemm");
  symbol(&openblas.dgemm, library, "cblas_dgemm");
  symbol(&openblas.set_threads, library, "openblas_set_num_threads");
}

void *cni_blas_openblas(void)
{
  pthread_once(&openblas_once, open_openblas);
  return openblas.library;
}

static void open_onednn(void)
{
  static const char *const names[] = {"libdnnl.so.2", "libdnnl.so.3", "libdnnl.so"};
  void *library = open_any(names, sizeof names / sizeof *names);
  if (!library) return;
  symbol(&onednn.sgemm, library, "dnnl_sgemm");
  /* The library itself finds OpenMP in the program first, then among what it was linked to. */
  void *program = cni_os_library(NULL);
  if (!cni_os_symbol(program, "omp_set_num_threads")) program = library;
  symbol(&onednn.get_threads, program, "omp_get_max_threads");
  symbol(&onednn.set_threads, program, "omp_set_num_threads");
  if (!onednn.get_threads) onednn.set_threads = NULL;
}

/* ---- products ---- */

/* What a library wants to know of an operand of rows x cols: one step is 1, the other is at least the
 * length. */
static bool leading(int64_t row, int64_t col, int64_t rows, int64_t cols, bool *transpose, int64_t *ld)
{
  if (rows == 1 && col == 1) row = cols;
  *transpose = col != 1 || row < cols;
  *ld = *transpose ? col : row;
  return *transpose ? row == 1 && col >= rows : true;
}

static enum cni_blas who(const cni_gemm *g)
{
  return g->by != CNI_BLAS_DEFAULT ? g->by : CNI_HAS_LEVELS ? CNI_BLAS_OWN : CNI_BLAS_OPENBLAS;
}

static bool loaded(enum cni_blas which, bool f64)
{
  if (which == CNI_BLAS_ONEDNN) {
    pthread_once(&onednn_once, open_onednn);
    return onednn.sgemm && !f64;
  }
  cni_blas_openblas();
  return f64 ? openblas.dgemm != NULL : openblas.sgemm != NULL;
}

const char *cni_blas_against(const cni_gemm *given, bool f64)
{
  enum cni_blas which = who(given);
  if (which == CNI_BLAS_OWN) return "own kernels are asked for";
  if ((double)given->m * (double)given->n * (double)given->k <= 64.0 * 64 * 64) return "too small for a library";
  if (cn_deterministic_mode() >= CN_DETERMINISTIC_WARN) return "results must repeat (cn_set_deterministic)";
  if (!loaded(which, f64)) return "the library is not installed, or has no product of this type";
  if (atomic_load_explicit(&forked, memory_order_relaxed)) return "its threads did not survive a fork";
  cni_gemm g = *given;
  bool transpose;
  int64_t lda, ldb;
  if (g.m == 1) g.c_row = g.n;
  if (g.c_col != 1 || g.c_row < g.n || !leading(g.a_row, g.a_col, g.m, g.k, &transpose, &lda) ||
      !leading(g.b_row, g.b_col, g.k, g.n, &transpose, &ldb))
    return "strides that no library takes";
  int64_t most = which == CNI_BLAS_ONEDNN ? INT64_MAX : INT_MAX;
  if (g.m > most || g.n > most || g.k > most || lda > most || ldb > most || g.c_row > most)
    return "too large for the library's integers";
  return NULL;
}

static void by_cblas(const cni_gemm *g, bool f64, bool ta, bool tb, int lda, int ldb)
{
  int m = (int)g->m, n = (int)g->n, k = (int)g->k, ldc = (int)g->c_row;
  int oa = ta ? TRANSPOSED : PLAIN, ob = tb ? TRANSPOSED : PLAIN;
  if (openblas.set_threads) openblas.set_threads(cn_num_threads());
  if (f64) openblas.dgemm(ROW_MAJOR, oa, ob, m, n, k, g->alpha, g->a, lda, g->b, ldb, g->beta, g->c, ldc);
  else
    openblas.sgemm(ROW_MAJOR, oa, ob, m, n, k, (float)g->alpha, g->a, lda, g->b, ldb, (float)g->beta, g->c, ldc);
}

/* On as many threads as cairn may use. */
static bool by_onednn(const cni_gemm *g, bool ta, bool tb, int64_t lda, int64_t ldb)
{
  int before = onednn.set_threads ? onednn.get_threads() : 0;
  if (onednn.set_threads) onednn.set_threads(cn_num_threads());
  int status = onednn.sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', g->m, g->n, g->k, (float)g->alpha, g->a, lda, g->b, ldb,
                            (float)g->beta, g->c, g->c_row);
  if (onednn.set_threads) onednn.set_threads(before);
  return status == 0;
}

bool cni_blas_product(const cni_gemm *given, bool f64)
{
  if (cni_blas_against(given, f64)) return false;
  cni_gemm g = *given;
  bool ta, tb;
  int64_t lda, ldb;
  if (g.m == 1) g.c_row = g.n;
  leading(g.a_row, g.a_col, g.m, g.k, &ta, &lda);
  leading(g.b_row, g.b_col, g.k, g.n, &tb, &ldb);
  if (who(given) == CNI_BLAS_ONEDNN) return by_onednn(&g, ta, tb, lda, ldb);
  by_cblas(&g, f64, ta, tb, (int)lda, (int)ldb);
  return true;
}
