/* test_fork.c: the CUDA plugin in children of fork, on an emulated device: one whose parent had used the device is told
 * what to do by every call, and can go on without it; one whose parent had not can use it. */
#define _POSIX_C_SOURCE 200809L /* setenv, fork */
#include "test.h"

#include <cairn/cairn.h>
#include <cairn/kw.h>
#include <stdio.h>
#include <sys/wait.h>

#include "emulated.h"

/* What a child found: 0, or the number of the step that went wrong. */
static int in_child(int (*fn)(void *), void *payload)
{
  int status = -1;
  fflush(stdout);
  pid_t child = fork();
  if (!child) _exit(fn(payload));
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Does a call that returned `made` (or not) say what to do? */
static bool refused(const void *made)
{
  bool said = !made && strstr(cn_err_message(), "used before fork") && strstr(cn_err_message(), "spawn");
  cn_err_clear();
  return said;
}

static int use_what_parent_used(void *payload)
{
  cn_tensor *x = payload, *host = cn_ones(CN_SHAPE(4));
  if (cn_device_count("cuda") < 1) return 1;
  if (!refused(cn_add(x, x))) return 2;
  if (!refused(cn_to_device(x, CN_CPU))) return 3;
  if (!refused(cn_to_device(host, gpu))) return 4;
  if (!refused(cn_device_sync(gpu) ? NULL : x)) return 5;
  cn_stream *stream = cn_stream_new(gpu, 0);
  if (!refused(stream)) return 6;
  cn_release(x); /* what the parent had made ends quietly */
  if (cn_err()) return 7;
  return cn_item(cn_sum(host)) == 4 ? 0 : 8;
}

static void used_before_fork(void **state)
{
  (void)state;
  need_device();
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_keep(there(cn_ones(CN_SHAPE(8))));
  assert_int_equal(in_child(use_what_parent_used, x), 0);
  assert_true(cn_item(cn_sum(cn_add(x, x))) == 16);
  cn_release(x);
  cn_scope_end(s);
}

static int use_it_first(void *unused)
{
  (void)unused;
  if (cn_device_count("cuda") < 1) return 1;
  gpu = cn_device_find("cuda");
  return cn_item(cn_sum(there(cn_ones(CN_SHAPE(5))))) == 5 ? 0 : 2;
}

static int first_used_in_child; /* of a process that has not used the device: main asks before anything else */

static void used_after_fork(void **state)
{
  (void)state;
  need_device();
  assert_int_equal(first_used_in_child, 0);
}

int main(int argc, char **argv)
{
  if (argc > 0) emulate(argv);
  if (getenv("CAIRN_EMULATED")) first_used_in_child = in_child(use_it_first, NULL);
  const struct CMUnitTest tests[] = {cmocka_unit_test(used_before_fork), cmocka_unit_test(used_after_fork)};
  return cmocka_run_group_tests(tests, find_emulated, NULL);
}
