/* softmax.h: the loops of softmax and its relatives, one table per instruction set (softmax_isa.c).
 *
 * Invariant: y never overlaps an operand, unless it is the same pointer. */
#ifndef CNI_CPU_SOFTMAX_H
#define CNI_CPU_SOFTMAX_H

#include "reduce.h"

/* For one float type T. Numbers that belong to a line come as double. */
typedef struct cni_softmax_loops {
  /* Along a row: y and the operands are n elements of T. */
  void (*exp_row)(void *y, const void *x, int64_t n, double shift); /* exp(x - shift) */
  void (*divide_row)(void *y, int64_t n, double by);
  void (*shift_row)(void *y, const void *x, int64_t n, double a, double b); /* x - a - b */
  double (*dot)(const void *a, const void *b, int64_t n);
  void (*grad_row)(void *y, const void *g, const void *p, int64_t n, double s);     /* p * (g - s) */
  void (*log_grad_row)(void *y, const void *g, const void *p, int64_t n, double s); /* g - exp(p) * s */
  /* Rows too short for the above, one behind the other. */
  void (*short_rows)(void *y, const void *x, int64_t rows, int64_t n, bool logs);
  /* Columns: m numbers of T per line are kept in `max`, `sum`, ... */
  void (*exp_columns)(void *y, void *sum, const void *x, const void *max,
                      int64_t m); /* y = exp(x - max); sum += y */
  void (*divide_columns)(void *y, const void *by, int64_t m);
  void (*shift_columns)(void *y, const void *x, const void *a, const void *b, int64_t m);
  void (*log_columns)(void *y, int64_t m);                                 /* log(y) */
  void (*dot_columns)(void *sum, const void *a, const void *b, int64_t m); /* sum += a * b */
  void (*grad_columns)(void *y, const void *g, const void *p, const void *s, int64_t m);
  void (*log_grad_columns)(void *y, const void *g, const void *p, const void *s, int64_t m);
  /* Columns too long to be read once from the cache: max and sum = sum(exp(x - max)) are carried from rows to rows. */
  void (*start_columns)(void *sum, void *max, int64_t m);
  void (*more_columns)(void *sum, void *max, const void *x, int64_t rows, int64_t stride, int64_t m);
  void (*part_columns)(void *y, const void *x, const void *max, const void *part, int64_t m); /* exp(x - max) * part */
  void (*invert_columns)(void *y, int64_t m);                                                 /* 1 / y */
  void (*total_columns)(void *y, const void *max, const void *logs, int64_t m); /* max + logs; inf where max is inf */
} cni_softmax_loops;

typedef struct cni_softmax_table {
  cni_softmax_loops loops[2]; /* CNI_C_F32, CNI_C_F64 */
} cni_softmax_table;

extern const cni_softmax_table cni_softmax_table_base;
#if defined(__x86_64__)
extern const cni_softmax_table cni_softmax_table_avx2;
extern const cni_softmax_table cni_softmax_table_avx512;
#endif

enum {
  CNI_SOFTMAX_SHORT = 64,   /* rows up to here go to short_rows */
  CNI_SOFTMAX_COLUMNS = 256 /* columns taken together at most */
};

#endif
