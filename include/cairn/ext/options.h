/* ext/options.h: from what a C caller wrote to the values of a signature: what 0, CN_ZERO and CN_NONE stand for.
 *
 * Place in the flow: the generated constructors and op functions (tools/opgen.py) use these, so that the rules are the
 * same for ops, layers, optimisers and schedules; a program's own functions with options may too. cn_opt_* is for
 * fields of an options struct, where 0 is the default; cn_arg_* for arguments. Nothing is copied: the lists given must
 * last until the values are used.
 */
#ifndef CAIRN_EXT_OPTIONS_H
#define CAIRN_EXT_OPTIONS_H

#include "signature.h"

CN_BEGIN_DECLS

/* ---- one number ---- */
static inline int64_t cn_opt_int(int64_t x, int64_t fallback) { return x == 0 ? fallback : x == CN_ZERO ? 0 : x; }
static inline double cn_opt_float(double x, double fallback)
{
  return x == 0 ? fallback : x == (double)CN_ZERO ? 0 : x;
}
/* ... whose default is None */
static inline cn_value cn_opt_int_or_none(int64_t x) { return x == 0 ? cn_v_none() : cn_v_int(x == CN_ZERO ? 0 : x); }
static inline cn_value cn_opt_float_or_none(double x)
{
  return x == 0 ? cn_v_none() : cn_v_float(x == (double)CN_ZERO ? 0 : x);
}
/* ... which may be None, NAN in C, and has another default */
static inline cn_value cn_opt_float_nan(double x, double fallback)
{
  return x != x ? cn_v_none() : cn_v_float(cn_opt_float(x, fallback));
}
static inline cn_value cn_opt_code(int64_t x) { return x ? cn_v_int(x) : cn_v_none(); } /* a dtype, a device */
static inline cn_value cn_opt_bool(int64_t x, cn_value fallback) { return x ? cn_v_bool(x != CN_ZERO) : fallback; }
static inline cn_value cn_arg_int(int64_t x) { return x == CN_NONE ? cn_v_none() : cn_v_int(x); }

/* ---- lists; fallback NULL: None. How many numbers there must be is checked behind, with the signature ---- */
static inline cn_value cn_opt_ints(cn_ints x, const int64_t *fallback, size_t n)
{
  if (x.v) return cn_v_ints(x.v, x.n);
  return fallback ? cn_v_ints(fallback, n) : cn_v_none();
}
static inline cn_value cn_opt_doubles(cn_doubles x, const double *fallback, size_t n)
{
  if (x.v) return cn_v_floats(x.v, x.n);
  return fallback ? cn_v_floats(fallback, n) : cn_v_none();
}
/* An option that is given in two ways at once is an error, not one of the two. */
static inline void cn_opt_once(bool twice, const char *name)
{
  if (twice) cn_err_set(CN_ERR_VALUE, "'%s' is given twice, in two ways", name);
}
/* ... that may be a text instead */
static inline cn_value cn_opt_ints_or_str(cn_ints x, const char *text, const char *name, const int64_t *fallback,
                                          size_t n)
{
  cn_opt_once(x.v && text, name);
  return text ? cn_v_str(text) : cn_opt_ints(x, fallback, n);
}
/* One number for all, which the argument is, unless `each` names them: then the argument is 0. */
static inline cn_value cn_arg_ints_each(const int64_t *x, cn_ints each, const char *name)
{
  cn_opt_once(each.v && *x, name);
  return each.v ? cn_v_ints(each.v, each.n) : cn_v_ints(x, 1);
}
static inline cn_value cn_arg_doubles_each(const double *x, cn_doubles each, const char *name)
{
  cn_opt_once(each.v && *x != 0, name);
  return each.v ? cn_v_floats(each.v, each.n) : cn_v_floats(x, 1);
}

CN_END_DECLS
#endif
