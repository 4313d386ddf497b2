/* ext/options.h: from what a C caller wrote to the values of a signature: what 0, CN_ZERO and CN_NONE stand for.
 *
 * Place in the flow: the generated constructors and op functions (tools/opgen.py) use these, so that the rules are the
 * same for ops, layers, optimisers and schedules; a program's own functions with options may too. cn_opt_* is for
 * fields of an options struct, where 0 is the default; cn_arg_* for arguments. Nothing is copied: `room`, and the lists
 * given, must last until the values are used.
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

/* ---- lists of any length; fallback NULL: None ---- */
static inline cn_value cn_opt_ints(cn_ints x, const int64_t *fallback, size_t n)
{
  if (x.v) return cn_v_ints(x.v, x.n);
  return fallback ? cn_v_ints(fallback, n) : cn_v_none();
}
static inline cn_value cn_opt_floats(const double *x, size_t nx, const double *fallback, size_t n)
{
  if (x) return cn_v_floats(x, nx);
  return fallback ? cn_v_floats(fallback, n) : cn_v_none();
}

/* ---- lists of n; room: n elements ---- */
/* All zero is the default, {x} is {x, x, ...}. */
static inline cn_value cn_opt_ints_of(const int64_t *x, size_t n, const int64_t *fallback, int64_t *room)
{
  bool rest = false;
  for (size_t i = 1; i < n; i++) rest = rest || x[i] != 0;
  if (!rest && x[0] == 0) return fallback ? cn_v_ints(fallback, n) : cn_v_none();
  for (size_t i = 0; i < n; i++) {
    int64_t v = rest ? x[i] : x[0];
    room[i] = v == CN_ZERO ? 0 : v;
  }
  return cn_v_ints(room, n);
}
/* All zero is the default; otherwise each that is zero has its own. */
static inline cn_value cn_opt_floats_of(const double *x, size_t n, const double *fallback, double *room)
{
  bool given = false;
  for (size_t i = 0; i < n; i++) given = given || x[i] != 0;
  if (!given) return fallback ? cn_v_floats(fallback, n) : cn_v_none();
  for (size_t i = 0; i < n; i++) room[i] = cn_opt_float(x[i], fallback ? fallback[i] : 0);
  return cn_v_floats(room, n);
}
/* One number for all n, unless `each` names them. */
static inline cn_value cn_arg_ints_each(int64_t x, const int64_t *each, size_t n, int64_t *room)
{
  bool given = false;
  for (size_t i = 0; i < n; i++) given = given || each[i] != 0;
  for (size_t i = 0; i < n; i++) room[i] = cn_opt_int(given ? each[i] : x, 0);
  return cn_v_ints(room, n);
}
static inline cn_value cn_arg_floats_each(double x, const double *each, size_t n, double *room)
{
  bool given = false;
  for (size_t i = 0; i < n; i++) given = given || each[i] != 0;
  for (size_t i = 0; i < n; i++) room[i] = cn_opt_float(given ? each[i] : x, 0);
  return cn_v_floats(room, n);
}
/* A list of n as an argument: one element stands for all. Other lengths are for the op to refuse. */
static inline cn_value cn_arg_ints_of(const int64_t *x, size_t nx, size_t n, int64_t *room)
{
  if (nx != 1 || !x) return cn_v_ints(x, nx);
  for (size_t i = 0; i < n; i++) room[i] = x[0];
  return cn_v_ints(room, n);
}

CN_END_DECLS
#endif
