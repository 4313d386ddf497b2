/* distance.h: the loops of distances between rows, one table per instruction set (distance_isa.c). */
#ifndef CNI_CPU_DISTANCE_H
#define CNI_CPU_DISTANCE_H

#include <cairn/ext/op.h>

#include "backends/cpu/isa.h"

/* y[r] = the p-norm of x - rows[r], r < count; rows of m elements lie one after another. */
typedef void (*cni_distance_fn)(void *y, const void *x, const void *rows, int64_t count, int64_t m, double p);
/* y[k] += g[r g_step] times the slope of the norm at x[k] - rows[r][k], with dist[r d_step] the norm; y: (m)
 * doubles. */
typedef void (*cni_slope_fn)(double *y, const void *g, int64_t g_step, const void *dist, int64_t d_step, const void *x,
                             const void *rows, int64_t count, int64_t m, double p);

typedef struct cni_distance_table {
  cni_distance_fn distance[2]; /* float, double */
  cni_slope_fn slope[2];
} cni_distance_table;

CNI_DECLARE_BY_ISA(cni_distance_table, cni_distance_table);

#endif
