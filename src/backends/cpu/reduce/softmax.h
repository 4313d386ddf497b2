/* softmax.h: the work of softmax and its relatives, and its loops, one table per instruction set (softmax_isa.c).
 *
 * Place in the flow: softmax.c takes a call apart into a job, and hands it to the file that suits its lines:
 * softmax_columns.c those side by side in memory, softmax_long.c very long ones. Invariant: y never overlaps an
 * operand, unless it is the same pointer. */
#ifndef CNI_CPU_SOFTMAX_H
#define CNI_CPU_SOFTMAX_H

#include "backends/cpu/walk/cast.h"
#include "reduce.h"

/* For one float type T. Numbers that belong to a line come as double. Largest elements do not see NaN, which comes out
 * of the sums. */
typedef struct cni_softmax_loops {
  /* Along a row: y and the operands are n elements of T. */
  double (*max_row)(const void *x, int64_t n);
  /* The sum of exp(x - shift), which y becomes where there is one; `ahead` is what will be read next, n elements. */
  double (*exp_row)(void *y, const void *x, int64_t n, double shift, const void *ahead);
  void (*scale_row)(void *y, const void *x, int64_t n, double by,
                    bool nontemporal); /* nontemporal: y goes past the caches */
  void (*part_row)(void *y, const void *x, int64_t n, double shift, double by,
                   bool nontemporal);                                       /* exp(x - shift) * by */
  void (*shift_row)(void *y, const void *x, int64_t n, double a, double b); /* x - a - b */
  double (*dot)(const void *a, const void *b, int64_t n);
  void (*grad_row)(void *y, const void *g, const void *p, int64_t n, double s);     /* p * (g - s) */
  void (*log_grad_row)(void *y, const void *g, const void *p, int64_t n, double s); /* g - exp(p) * s */
  /* Rows too short for the above, one behind the other. */
  void (*short_rows)(void *y, const void *x, int64_t rows, int64_t n, bool logs);
  /* Columns: m numbers of T per line are kept in `max`, `sum`, ...; rows are `xstep` and `ystep` elements apart. */
  void (*start_columns)(void *sum, void *max, int64_t m);
  /* Copies rows to y, which may be NULL, and takes max on. */
  void (*max_columns)(void *y, int64_t ystep, void *max, const void *x, int64_t xstep, int64_t rows, int64_t m);
  /* sum += sum(exp(x - max)); y, unless it is NULL, becomes the exponentials. */
  void (*exp_columns)(void *y, int64_t ystep, void *sum, const void *x, int64_t xstep, const void *max, int64_t rows,
                      int64_t m);
  void (*lift_columns)(void *sum, void *max, const void *top, int64_t m);      /* sum *= exp(max - top); max = top */
  void (*scale_columns)(void *y, const void *x, const void *by, int64_t m);    /* x * by */
  void (*part_columns)(void *y, int64_t ystep, const void *x, int64_t xstep, const void *max, const void *by,
                       int64_t rows, int64_t m); /* exp(x - max) * by */
  void (*shift_columns)(void *y, int64_t ystep, const void *x, int64_t xstep, const void *a, const void *b,
                        int64_t rows, int64_t m); /* x - a - b */
  void (*invert_columns)(void *y, int64_t m);                                  /* 1 / y */
  void (*log_columns)(void *y, int64_t m);                                     /* log(y) */
  void (*total_columns)(void *y, const void *max, const void *logs, int64_t m); /* max + logs */
  void (*dot_columns)(void *sum, const void *a, const void *b, int64_t m);     /* sum += a * b */
  void (*grad_columns)(void *y, const void *g, const void *p, const void *s, int64_t m);
  void (*log_grad_columns)(void *y, const void *g, const void *p, const void *s, int64_t m);
} cni_softmax_loops;

typedef struct cni_softmax_table {
  cni_softmax_loops loops[2]; /* CNI_C_F32, CNI_C_F64 */
} cni_softmax_table;

CNI_DECLARE_BY_ISA(cni_softmax_table, cni_softmax_table);

enum {
  CNI_SOFTMAX_BLOCK = 4096,   /* elements whose sum is kept in the type itself */
  CNI_SOFTMAX_SHORT = 64,     /* rows up to here go to short_rows */
  CNI_SOFTMAX_COLUMNS = 2048, /* columns taken together at most */
  CNI_SOFTMAX_LONG = 1 << 17, /* lines from here on are taken in pieces */
  CNI_SOFTMAX_GRAIN = 8192    /* elements worth a thread */
};

enum cni_softmax_kind { CNI_SOFTMAX, CNI_LOG_SOFTMAX, CNI_SOFTMAX_GRAD, CNI_LOG_SOFTMAX_GRAD, CNI_LOGSUMEXP };

typedef struct cni_softmax_job {
  enum cni_softmax_kind kind;
  cni_lines l;
  const cni_softmax_loops *s;
  const cni_reduce_loops *sum;
  const char *a, *b; /* the input; or gradient and result of the forward op, in one layout */
  char *y;
  int64_t size, tsize;     /* bytes of an element, and of the type it is computed in */
  cni_cast_fn load, store; /* NULL: computed as it is */
  bool nontemporal;        /* y goes past the caches */
} cni_softmax_job;

/* Lines side by side: l.kin[last] is 1. Returns false, and does nothing, where another way is better. */
bool cni_softmax_columns(const cni_softmax_job *j);
/* Lines of at least CNI_SOFTMAX_LONG elements, in any layout, forward. Errors are set. */
void cni_softmax_long(const cni_softmax_job *j);

#endif
