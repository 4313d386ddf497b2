/* blas.c: the f32 matrix product of one BLAS-like library of the system, as peer of cn_matmul.
 *
 * BENCH_LIBRARY in the environment says which: openblas, onednn or blis. Each runs in a process of its
 * own, because their thread pools (OpenMP, pthreads) disturb each other within one. The library is
 * loaded at run time, so the program builds without any of them. Invariant: row-major, C = A B, all
 * three matrices dense and allocated before the first round, which is these libraries' best case.
 */
#include "../serve.h"

#include <dlfcn.h>

typedef void (*cblas_sgemm_fn)(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a,
                               int lda, const float *b, int ldb, float beta, float *c, int ldc);
typedef int (*dnnl_sgemm_fn)(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                             int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);

enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111 };

static const struct library {
  const char *name, *symbol;
  const char *files[4];
} libraries[] = {
  {"openblas", "cblas_sgemm", {"libopenblas.so.0", "libopenblas.so"}},
  {"onednn", "dnnl_sgemm", {"libdnnl.so.2", "libdnnl.so.3", "libdnnl.so"}},
  {"blis", "cblas_sgemm", {"libblis.so.4", "libblis.so.3", "libblis.so"}},
};

static cblas_sgemm_fn cblas;
static dnnl_sgemm_fn dnnl;
static int size;
static float *a, *b, *c; /* (size, size) each */

static int open_library(const char *name)
{
  for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
    const struct library *l = &libraries[i];
    if (strcmp(l->name, name)) continue;
    for (int f = 0; f < 4 && l->files[f]; f++) {
      void *handle = dlopen(l->files[f], RTLD_NOW);
      void *symbol = handle ? dlsym(handle, l->symbol) : NULL;
      if (!symbol) continue;
      if (!strcmp(l->symbol, "dnnl_sgemm"))
        memcpy(&dnnl, &symbol, sizeof symbol);
      else
        memcpy(&cblas, &symbol, sizeof symbol);
      return 0;
    }
  }
  return -1;
}

static int setup(int n)
{
  size_t bytes = (size_t)n * (size_t)n * sizeof(float);
  free(a), free(b), free(c);
  size = n;
  a = aligned_alloc(64, bytes);
  b = aligned_alloc(64, bytes);
  c = aligned_alloc(64, bytes);
  if (!a || !b || !c) return -1;
  bench_fill(a, (size_t)n * (size_t)n, 1, 1);
  bench_fill(b, (size_t)n * (size_t)n, 2, 1);
  memset(c, 0, bytes);
  return 0;
}

static int setup_256(void)
{
  return setup(256);
}

static int setup_1024(void)
{
  return setup(1024);
}

static int setup_2048(void)
{
  return setup(2048);
}

static void run(long n)
{
  for (long i = 0; i < n; i++) {
    if (dnnl)
      dnnl('N', 'N', size, size, size, 1, a, size, b, size, 0, c, size);
    else
      cblas(ROW_MAJOR, NO_TRANSPOSE, NO_TRANSPOSE, size, size, size, 1, a, size, b, size, 0, c, size);
  }
}

/* An element in the middle: enough to tell a transposed or unfinished product. */
static double check(void)
{
  run(1);
  return (double)c[(size_t)(size / 2) * (size_t)size + (size_t)(size / 3)];
}

static const struct bench_work works[] = {
  {"gemm_256", "", "flop", 2.0 * 256 * 256 * 256, setup_256, run, check},
  {"gemm_1024", "", "flop", 2.0 * 1024 * 1024 * 1024, setup_1024, run, check},
  {"gemm_2048", "", "flop", 2.0 * 2048 * 2048 * 2048, setup_2048, run, check},
};

int main(int argc, char **argv)
{
  const char *name = getenv("BENCH_LIBRARY");
  char threads[16];
  /* Each library reads one of these when it is loaded. */
  snprintf(threads, sizeof threads, "%d", bench_threads(argc, argv));
  setenv("OPENBLAS_NUM_THREADS", threads, 1);
  setenv("BLIS_NUM_THREADS", threads, 1);
  setenv("OMP_NUM_THREADS", threads, 1);
  if (!name || open_library(name)) {
    fprintf(stderr, "blas: no library %s here\n", name ? name : "(BENCH_LIBRARY is not set)");
    return 3;
  }
  return bench_serve(argc, argv, works, sizeof works / sizeof *works);
}
