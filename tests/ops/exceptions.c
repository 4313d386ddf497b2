/* exceptions.c: what a driver leaves out, in one table, each with its reason.
 *
 * "gradcheck": where finite differences mean nothing. "second order": first-order gradients are checked, their gradients
 * are not. "layouts": the op's meaning depends on memory. Invariant: an entry is removed when its reason is gone. */
#include <string.h>

#include "drivers.h"

static const struct {
  const char *driver, *op, *reason;
} table[] = {
  {"layouts", "view", "a view of another layout may need a copy"},
  {"layouts", "unflatten", "a view of another layout may need a copy"},
  {"layouts", "as_strided", "strides count in memory"},
  {"layouts", "as_strided_scatter", "strides count in memory"},

  {"threads", "empty", "its elements are not set"},
  {"threads", "empty_like", "its elements are not set"},
  {"mirror", "empty", "its elements are not set"},
  {"mirror", "empty_like", "its elements are not set"},
  {"mirror", "to_device", "the samples move to the CPU"},

  {"gradcheck", "sign", "piecewise constant, values may fall on a step"},
  {"gradcheck", "floor", "piecewise constant"},
  {"gradcheck", "ceil", "piecewise constant"},
  {"gradcheck", "trunc", "piecewise constant"},
  {"gradcheck", "round", "piecewise constant"},
  {"gradcheck", "floor_divide", "piecewise constant"},
  {"gradcheck", "trunc_divide", "piecewise constant"},
  {"gradcheck", "detach", "stops gradients on purpose"},

  {"second order", "lgamma", "the gradient of digamma (trigamma) is not implemented"},
};

const char *exception_for(const char *driver, const char *op)
{
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (!strcmp(table[i].driver, driver) && !strcmp(table[i].op, op)) return table[i].reason;
  return NULL;
}
