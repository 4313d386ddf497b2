/* lists.h: the C functions that take lists of numbers, as functions of plain values; and how a value is said in C.
 *
 * Place in the flow: list_calls.gen.c (written by tools/list_calls.py) fills the tables, lists.c walks them. */
#ifndef TESTS_OPS_LISTS_H
#define TESTS_OPS_LISTS_H

#include <cairn/cairn.h>
#include <cairn/ext/op.h>
#include <cairn/ext/parts.h>

typedef struct list_op {
  const char *name;
  int (*call)(cn_tensor **out, const cn_value *a); /* results belong to the scope */
} list_op;

typedef struct list_maker {
  const char *name;
  void *(*make)(const cn_value *a); /* owned */
} list_maker;

/* Each ends with a row without a name. */
extern const list_op list_ops[];
extern const list_maker list_modules[], list_optims[];
extern cn_module *list_net; /* what optimisers are made for */

/* Zero means the default in an options struct, and None, where it is a value, is the default. */
static inline int64_t list_int(const cn_value *v) { return !v->tag ? 0 : v->u.i ? v->u.i : CN_ZERO; }
static inline double list_number(const cn_value *v) { return v->tag == CN_V_FLOAT ? v->u.f : (double)v->u.i; }
static inline double list_float(const cn_value *v)
{
  double x = list_number(v);
  return !v->tag ? 0 : x != 0 ? x : (double)CN_ZERO;
}
static inline int64_t list_maybe(const cn_value *v) { return !v->tag ? 0 : v->u.i ? 1 : CN_ZERO; }
static inline const char *list_str(const cn_value *v) { return v->tag == CN_V_STR ? v->u.s : NULL; }
static inline cn_ints list_ints(const cn_value *v)
{
  cn_ints x = {NULL, 0};
  if (v->tag == CN_V_INTS) x = (cn_ints){v->u.is, (size_t)v->n};
  return x;
}
static inline cn_doubles list_doubles(const cn_value *v)
{
  cn_doubles x = {NULL, 0};
  if (v->tag == CN_V_FLOATS) x = (cn_doubles){v->u.fs, (size_t)v->n};
  return x;
}

#endif
