/* bags.h: the loops of sums and maxima over bags of rows, one table per instruction set (bags_isa.c). */
#ifndef CNI_CPU_BAGS_H
#define CNI_CPU_BAGS_H

#include <cairn/ext/op.h>

#include "backends/cpu/isa.h"

/* The elements of a bag: rows of a matrix, by number; `skip` does not count (INT64_MIN: all do). */
typedef struct cni_bag {
  const int64_t *rows;
  const void *factors; /* of the type that is summed in; NULL: ones */
  int64_t n, skip;
} cni_bag;

/* y (m) = the sum of the bag's rows of w (., m), divided by how many there are where `mean`. */
typedef void (*cni_bag_sum_fn)(void *y, const void *w, const cni_bag *bag, int64_t m, bool mean);
/* Columns [from, to) of rows of y (., m) += g (m) times the bag's factors, divided likewise. */
typedef void (*cni_bag_spread_fn)(void *y, const void *g, const cni_bag *bag, int64_t m, int64_t from, int64_t to,
                                  bool mean);
/* y (m) = the largest of each column, NaN if there is one, and which row it is in, the first of equals; 0 and -1 where
 * nothing counts. */
typedef void (*cni_bag_max_fn)(void *y, int64_t *which, const void *w, const cni_bag *bag, int64_t m);

/* By element type: sums in float32 of 16-bit floats; what is spread, and y there, float32 or float64. */
enum { CNI_BAG_F16, CNI_BAG_BF16, CNI_BAG_F32, CNI_BAG_F64, CNI_BAG_TYPES };
typedef struct cni_bag_table {
  cni_bag_sum_fn sum[CNI_BAG_TYPES];
  cni_bag_max_fn max[CNI_BAG_TYPES];
  cni_bag_spread_fn spread[2];
} cni_bag_table;

CNI_DECLARE_BY_ISA(cni_bag_table, cni_bag_table);

#endif
