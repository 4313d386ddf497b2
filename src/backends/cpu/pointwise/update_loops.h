/* update_loops.h: the loops over whole updates, one table per instruction set (update_isa.c). */
#ifndef CNI_CPU_UPDATE_LOOPS_H
#define CNI_CPU_UPDATE_LOOPS_H

#include "backends/cpu/isa.h"
#include "ops/update.h"

/* The updates that have a loop, and for which variants; the rest runs as programs. FIRST: an update's first variant. */
#define CNI_UPDATE_LOOPS(FIRST, MORE) \
  FIRST(sgd_update, 0) MORE(sgd_update, 2) MORE(sgd_update, 6) MORE(sgd_update, 8) \
  FIRST(adam_update, 0) MORE(adam_update, 2) MORE(adam_update, 4) \
  FIRST(amsgrad_update, 0) MORE(amsgrad_update, 4) \
  FIRST(rmsprop_update, 0) FIRST(rmsprop_momentum_update, 0) FIRST(rmsprop_centered_update, 0) \
  FIRST(adagrad_update, 0) FIRST(adadelta_update, 0) FIRST(adamax_update, 0) \
  FIRST(nadam_update, 0) FIRST(radam_update, 0) FIRST(lion_update, 0)

enum { CNI_UPDATE_FULL = 5 }; /* tensors of the parameter's shape, at most */

/* n elements: out and in have the elements of results and of the inputs of the parameter's shape; scalar the other
 * inputs, attr the attributes by number of the parameter. Results may lie over inputs. */
typedef void (*cni_update_loop)(float *const *out, const float *const *in, const float *scalar, const float *attr,
                                int64_t n);

typedef struct cni_update_entry {
  const char *op;
  int variant;
  cni_update_loop loop;
} cni_update_entry;

typedef struct cni_update_table {
  const cni_update_entry *entries; /* ends with an op of NULL */
  /* adam_rates: numbers in, numbers out. */
  void (*rates)(double *out, const double *in, const double *attr);
} cni_update_table;

CNI_DECLARE_BY_ISA(cni_update_table, cni_update_table);

#endif
