/* emulated.h: a test program that starts itself again where the CUDA plugin finds the emulation of the driver
 * (tests/simt) in front of the vendor's libraries (CAIRN_EMULATED says that it has), and what such programs share.
 *
 * Place in the flow: included by tests of kernels that need no GPU; those on a device have on_cuda.h. Invariant: `gpu`
 * is 0 where there is nothing to run on. */
#ifndef CNI_TESTS_EMULATED_H
#define CNI_TESTS_EMULATED_H

#include "test.h"

#include <cairn/cairn.h>
#include <cairn/kw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Starts this program again with the emulation found first, and `part` (a folder of it, or "") before that; returns
 * where that cannot be. */
static inline void emulate_with(char **argv, const char *part)
{
  char folder[1000], path[2200];
  const char *slash = strrchr(argv[0], '/');
  if (getenv("CAIRN_EMULATED") || !slash) return;
  snprintf(folder, sizeof folder, "%.*s/..", (int)(slash - argv[0]), argv[0]);
  snprintf(path, sizeof path, "%s/simt/libcuda.so.1", folder);
  if (access(path, R_OK) || system("${CXX:-c++} --version >/dev/null 2>&1")) return;
  snprintf(path, sizeof path, "%s/simt/%s:%s/simt", folder, part, folder);
  setenv("LD_LIBRARY_PATH", path, 1);
  snprintf(path, sizeof path, "%s/..", folder);
  setenv("CAIRN_PLUGIN_PATH", path, 1);
  snprintf(path, sizeof path, "%s/simt/cache", folder);
  setenv("CAIRN_CACHE", path, 1);
  setenv("SIMT_ORDER", "1", 0); /* threads take turns in any order but that of their numbers: see simt.c */
  setenv("CAIRN_EMULATED", "1", 1);
  execv(argv[0], argv);
}
static inline void emulate(char **argv) { emulate_with(argv, ""); }

static cn_device gpu;

static inline void need_device(void)
{
  if (!gpu) SKIP_TEST("no CUDA plugin to emulate, or no C++ compiler");
}

static inline cn_tensor *there(cn_tensor *x) { return cn_to_device(x, gpu); }

static inline int find_emulated(void **state)
{
  (void)state;
  if (getenv("CAIRN_EMULATED") && cn_device_count("cuda") > 0) gpu = cn_device_find("cuda");
  return cn_err();
}

/* Equal within tol, relative to 1 + the size of the value. */
static inline void close_to(const char *what, cn_tensor *want, cn_tensor *have, double tol)
{
  cn_tensor *a = cn_cast(want, CN_F64), *b = cn_cast(cn_to_device(have, CN_CPU), CN_F64);
  if (cn_err()) fail_msg("%s: %s", what, cn_err_message());
  int64_t n = cn_numel(a);
  assert_int_equal(n, cn_numel(b));
  const double *x = cn_data(cn_contiguous(a)), *y = cn_data(cn_contiguous(b));
  for (int64_t i = 0; i < n; i++)
    if (!(fabs(x[i] - y[i]) <= tol * (1 + fabs(x[i]))))
      fail_msg("%s: element %lld is %.9g, not %.9g", what, (long long)i, y[i], x[i]);
}

#endif
