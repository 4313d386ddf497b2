/* on_cuda.h: what tests on a CUDA device share: finding it, the skip where there is none, and comparing a result there
 * with the CPU's.
 *
 * Place in the flow: included by the programs test_cuda*.c; those that run on the emulated driver have emulated.h.
 * Invariant: `gpu` is 0 where there is no device. */
#ifndef CNI_TESTS_ON_CUDA_H
#define CNI_TESTS_ON_CUDA_H

#include "test.h"

#include <cairn/cairn.h>
#include <cairn/kw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static cn_device gpu;

static inline int set_up(void **state)
{
  (void)state;
  if (cn_device_count("cuda") > 0) gpu = cn_device_find("cuda");
  return cn_err();
}

/* Ends the test when there is nothing to test. */
static inline void need_gpu(void)
{
  if (!gpu) SKIP_TEST("no CUDA device");
}

static inline void fine(void)
{
  if (cn_err()) print_error("%s\n", cn_err_message());
  assert_int_equal(cn_err(), 0);
}

static inline cn_tensor *there(cn_tensor *x) { return cn_to_device(x, gpu); }

static inline double *numbers(cn_tensor *x, int64_t *n)
{
  cn_tensor *y = cn_cast(cn_to_device(x, CN_CPU), CN_F64);
  fine();
  *n = cn_numel(y);
  double *values = malloc((size_t)(*n + 1) * sizeof *values);
  assert_int_equal(cn_to_data(values, (size_t)*n * sizeof *values, y), 0);
  return values;
}

/* b has a's type, shape and, within tol relative to 1 + |a|, its values. */
static inline void close_to(const char *what, cn_tensor *a, cn_tensor *b, double tol)
{
  int64_t n, m;
  fine();
  assert_int_equal(cn_dtype_of(a), cn_dtype_of(b));
  assert_int_equal(cn_ndim(a), cn_ndim(b));
  for (int i = 0; i < cn_ndim(a); i++) assert_int_equal(cn_size(a, i), cn_size(b, i));
  double *x = numbers(a, &n), *y = numbers(b, &m);
  assert_int_equal(n, m);
  for (int64_t i = 0; i < n; i++) {
    if (x[i] == y[i] || (isnan(x[i]) && isnan(y[i]))) continue;
    if (!(fabs(x[i] - y[i]) <= tol * (1 + fabs(x[i]))))
      fail_msg("%s: element %lld is %.9g, not %.9g", what, (long long)i, y[i], x[i]);
  }
  free(x);
  free(y);
}

static inline double rough(cn_dtype dtype)
{
  return dtype == CN_F64 ? 1e-12 : dtype == CN_F32 ? 2e-5 : dtype == CN_F16 ? 4e-3 : 3e-2;
}

/* The plugin lies in the build folder, two above this program. */
static inline void find_plugin(const char *program)
{
  char folder[1000];
  const char *slash = strrchr(program, '/');
  if (!slash) return;
  snprintf(folder, sizeof folder, "%.*s/../..", (int)(slash - program), program);
  setenv("CAIRN_PLUGIN_PATH", folder, 0);
}

#endif
