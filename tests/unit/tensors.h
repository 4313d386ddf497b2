/* tensors.h: what tests that hold one way to compute against another need: equal to the bit, failed for this reason.
 *
 * Place in the flow: included behind test.h by the tests of graphs, compiled functions and devices. Invariant: two
 * tensors are the same if type, shape, order in memory and every bit of every element are; wherever they lie. */
#ifndef CAIRN_TESTS_TENSORS_H
#define CAIRN_TESTS_TENSORS_H

#include <cairn/cairn.h>
#include <stdbool.h>
#include <string.h>

#include "test.h"

/* A test's setup: what an earlier one left pending is gone. */
static inline int clear_errors(void **state)
{
  (void)state;
  cn_err_clear();
  return 0;
}

/* Whatever their order in memory: a result that is a view is one with memory of its own when a graph hands it out. */
static inline bool same_elements(cn_tensor *a, cn_tensor *b)
{
  if (!a || !b || cn_ndim(a) != cn_ndim(b) || cn_dtype_of(a) != cn_dtype_of(b)) return false;
  for (int i = 0; i < cn_ndim(a); i++)
    if (cn_size(a, i) != cn_size(b, i)) return false;
  cn_scope *s = cn_scope_begin();
  a = cn_contiguous(cn_to_device(a, CN_CPU));
  b = cn_contiguous(cn_to_device(b, CN_CPU));
  bool same = cn_numel(a) == 0 || !memcmp(cn_data_const(a), cn_data_const(b), cn_tensor_nbytes(a));
  cn_scope_end(s);
  return same && !cn_err();
}

static inline bool same_order(const cn_tensor *a, const cn_tensor *b)
{
  for (int i = 0; i < cn_ndim(a); i++)
    if (cn_size(a, i) > 1 && cn_strides(a)[i] != cn_strides(b)[i]) return false;
  return true;
}

static inline bool same_tensors(cn_tensor *a, cn_tensor *b) { return same_elements(a, b) && same_order(a, b); }

/* The pending error is of this code and mentions the word; it is cleared. */
static inline void assert_fails(int code, const char *word)
{
  assert_int_equal(cn_err(), code);
  if (!strstr(cn_err_message(), word)) fail_msg("\"%s\" does not mention \"%s\"", cn_err_message(), word);
  cn_err_clear();
}

static inline void tensors_differ(cn_tensor *a, cn_tensor *b, const char *file, int line)
{
  char *x = a ? cn_to_string(a) : NULL, *y = b ? cn_to_string(b) : NULL;
  print_error("%s:%d: %s differs from %s %s\n", file, line, x ? x : "nothing", y ? y : "nothing",
              cn_err() ? cn_err_message() : "");
  cn_string_free(x);
  cn_string_free(y);
  fail();
}

/* Each argument is evaluated once. */
#define assert_same(a, b) \
  do { \
    cn_tensor *const same_a = (a), *const same_b = (b); \
    if (!same_tensors(same_a, same_b)) tensors_differ(same_a, same_b, __FILE__, __LINE__); \
  } while (0)

#endif
