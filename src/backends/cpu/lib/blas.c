/* blas.c: loads OpenBLAS or oneDNN when asked to and hands products to it. See blas.h for the choice.
 *
 * Invariant: `lib` is written once, inside pthread_once, and only read afterwards; in a forked child no
 * library is entered any more (their thread pools do not survive a fork). */
#include "blas.h"

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
  const char *name;
  sgemm_fn sgemm;
  dgemm_fn dgemm;
  onednn_fn onednn;
  threads_fn set_threads;
} lib = {.name = "own"};
static pthread_once_t lib_once = PTHREAD_ONCE_INIT, openblas_once = PTHREAD_ONCE_INIT;
static void *openblas;
static _Atomic bool forked;

/* Object pointers to function pointers, which C itself does not convert. */
static void symbol(void *to, void *library, const char *name)
{
  void *found = cni_os_symbol(library, name);
  memcpy(to, &found, sizeof found);
}

static bool wish_is(const char *what)
{
  const char *wish = cni_os_env("CAIRN_BLAS");
  return !strcmp(wish ? wish : "auto", what);
}

static bool deterministic(void)
{
  const char *wish = cni_os_env("CAIRN_DETERMINISTIC");
  return wish && strcmp(wish, "0") != 0;
}

bool cni_blas_forbidden(void)
{
#if defined(CNI_MINIMAL)
  return true;
#else
  return wish_is("own");
#endif
}

/* ---- loading ---- */

static void open_openblas(void)
{
  static const char *const names[] = {"libopenblas.so.0", "libopenblas.so", "libopenblas.dylib"};
  if (cni_blas_forbidden()) return;
  for (size_t i = 0; i < sizeof names / sizeof *names && !openblas; i++) openblas = cni_os_library(names[i]);
  /* Its results depend on its thread count. */
  threads_fn set = NULL;
  if (openblas && deterministic()) symbol(&set, openblas, "openblas_set_num_threads");
  if (set) set(1);
}

void *cni_blas_openblas(void)
{
  pthread_once(&openblas_once, open_openblas);
  return openblas;
}

static void use_openblas(void)
{
  void *library = cni_blas_openblas();
  if (!library) return;
  symbol(&lib.sgemm, library, "cblas_sgemm");
  symbol(&lib.dgemm, library, "cblas_dgemm");
  symbol(&lib.set_threads, library, "openblas_set_num_threads");
  if (lib.sgemm && lib.dgemm) lib.name = "openblas";
}

static void use_onednn(void)
{
  static const char *const names[] = {"libdnnl.so.2", "libdnnl.so.3", "libdnnl.so"};
  for (size_t i = 0; i < sizeof names / sizeof *names && !lib.onednn; i++) {
    void *library = cni_os_library(names[i]);
    if (library) symbol(&lib.onednn, library, "dnnl_sgemm");
  }
  if (lib.onednn) lib.name = "onednn";
}

static void mark_forked(void) { atomic_store(&forked, true); }

static void load(void)
{
  if (cni_blas_forbidden() || deterministic()) return;
  if (wish_is("onednn")) use_onednn();
  else if (wish_is("openblas")) use_openblas();
#if !defined(__x86_64__)
  else if (wish_is("auto")) use_openblas();
#endif
  if (strcmp(lib.name, "own") != 0) pthread_atfork(NULL, NULL, mark_forked);
}

const char *cni_blas_name(void)
{
  pthread_once(&lib_once, load);
  return lib.name;
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

bool cni_blas_in_use(const cni_gemm *g, cn_dtype dtype)
{
  pthread_once(&lib_once, load);
  if (atomic_load_explicit(&forked, memory_order_relaxed)) return false;
  if ((double)g->m * (double)g->n * (double)g->k <= 64.0 * 64 * 64) return false;
  return dtype == CN_F64 ? lib.dgemm != NULL : lib.sgemm || lib.onednn;
}

static void by_cblas(const cni_gemm *g, bool f64, bool ta, bool tb, int lda, int ldb)
{
  int m = (int)g->m, n = (int)g->n, k = (int)g->k, ldc = (int)g->c_row;
  int oa = ta ? TRANSPOSED : PLAIN, ob = tb ? TRANSPOSED : PLAIN;
  if (lib.set_threads) lib.set_threads(cn_num_threads());
  if (f64) lib.dgemm(ROW_MAJOR, oa, ob, m, n, k, g->alpha, g->a, lda, g->b, ldb, g->beta, g->c, ldc);
  else
    lib.sgemm(ROW_MAJOR, oa, ob, m, n, k, (float)g->alpha, g->a, lda, g->b, ldb, (float)g->beta, g->c, ldc);
}

bool cni_blas_product(const cni_gemm *given, bool f64)
{
  if (!cni_blas_in_use(given, f64 ? CN_F64 : CN_F32)) return false;
  cni_gemm g = *given;
  bool ta, tb;
  int64_t lda, ldb;
  if (g.m == 1) g.c_row = g.n;
  if (g.c_col != 1 || g.c_row < g.n || !leading(g.a_row, g.a_col, g.m, g.k, &ta, &lda) ||
      !leading(g.b_row, g.b_col, g.k, g.n, &tb, &ldb))
    return false;
  if (!f64 && lib.onednn)
    return lib.onednn(ta ? 'T' : 'N', tb ? 'T' : 'N', g.m, g.n, g.k, (float)g.alpha, g.a, lda, g.b, ldb,
                      (float)g.beta, g.c, g.c_row) == 0;
  if (g.m > INT_MAX || g.n > INT_MAX || g.k > INT_MAX || lda > INT_MAX || ldb > INT_MAX || g.c_row > INT_MAX)
    return false;
  by_cblas(&g, f64, ta, tb, (int)lda, (int)ldb);
  return true;
}
