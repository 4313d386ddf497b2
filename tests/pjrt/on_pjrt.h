/* on_pjrt.h: what tests of the PJRT backend share: a start with the plugin for tests (tests/pjrt/plugin), its switches
 * and counts, comparisons with the CPU.
 *
 * Place in the flow: included by test_pjrt*.c; each sets CAIRN_PJRT before cairn looks for a device. Invariant:
 * `there` is 0 where there is nothing to run on. */
#ifndef CNI_TESTS_ON_PJRT_H
#define CNI_TESTS_ON_PJRT_H

#include "test.h"

#include <cairn/cairn.h>
#include <cairn/kw.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/plugin.h"

static cn_device there;
static fake_fail_fn fake_fail;
static fake_counts_fn fake_get_counts;

/* build/default/tests/pjrt/NAME -> the plugin for tests beside it, and cairn's own two folders up. */
static inline void use_fake(const char *program)
{
  char path[1200];
  const char *slash = strrchr(program, '/');
  int n = slash ? (int)(slash - program) : 1;
  const char *folder = slash ? program : ".";
  snprintf(path, sizeof path, "%.*s/../..", n, folder);
  setenv("CAIRN_PLUGIN_PATH", path, 1);
  snprintf(path, sizeof path, "%.*s/libfake_pjrt.so", n, folder);
  setenv("CAIRN_PJRT", path, 1);
  void *library = dlopen(path, RTLD_NOW);
  void *fail = library ? dlsym(library, "fake_fail") : NULL, *get = library ? dlsym(library, "fake_get_counts") : NULL;
  if (!fail || !get) return;
  memcpy(&fake_fail, &fail, sizeof fail);
  memcpy(&fake_get_counts, &get, sizeof get);
}

static inline int find_device(void **state)
{
  (void)state;
  if (fake_fail && cn_device_count("pjrt") > 0) there = cn_device_find("pjrt");
  return cn_err();
}

static inline void need_device(void)
{
  cn_err_clear(); /* of a test that failed */
  if (!there) SKIP_TEST("the PJRT backend or its plugin for tests was not built");
}

static inline void fine(void)
{
  if (cn_err()) print_error("%s\n", cn_err_message());
  assert_int_equal(cn_err(), 0);
}

/* The pending error has this code and says this; it is cleared. */
static inline void expect_error(int code, const char *text)
{
  if (cn_err() != code || !strstr(cn_err_message(), text))
    print_error("error %d: %s; expected %d with '%s'\n", cn_err(), cn_err_message(), code, text);
  assert_int_equal(cn_err(), code);
  assert_non_null(strstr(cn_err_message(), text));
  cn_err_clear();
}

static inline fake_counts count(void)
{
  fake_counts c;
  fake_get_counts(&c);
  return c;
}

static inline cn_tensor *to(cn_tensor *x) { return cn_to_device(x, there); }

/* Equal within tol, relative to 1 + the size of the value. */
static inline void close_to(const char *what, cn_tensor *want, cn_tensor *have, double tol)
{
  cn_tensor *a = cn_cast(want, CN_F64), *b = cn_cast(cn_to_device(have, CN_CPU), CN_F64);
  if (cn_err()) fail_msg("%s: %s", what, cn_err_message());
  size_t n = (size_t)cn_numel(a), bytes = n * sizeof(double);
  assert_int_equal(cn_numel(a), cn_numel(b));
  double *x = malloc(bytes + 1), *y = malloc(bytes + 1);
  cn_to_data(x, bytes, cn_contiguous(a));
  cn_to_data(y, bytes, cn_contiguous(b));
  fine();
  for (size_t i = 0; i < n; i++)
    if (!(fabs(x[i] - y[i]) <= tol * (1 + fabs(x[i]))) && !(isnan(x[i]) && isnan(y[i])))
      fail_msg("%s: element %zu is %.9g instead of %.9g", what, i, y[i], x[i]);
  free(x);
  free(y);
}

#endif
