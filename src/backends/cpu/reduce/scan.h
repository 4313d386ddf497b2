/* scan.h: the loops of running sums and products, one table per instruction set (scan_isa.c). */
#ifndef CNI_CPU_SCAN_H
#define CNI_CPU_SCAN_H

#include <cairn/ext/op.h>

#include "backends/cpu/isa.h"

enum { CNI_SCAN_COLUMNS = 128, CNI_SCAN_LINES = 4 };

/* Scans n rows of m <= CNI_SCAN_COLUMNS columns; rows are `step` elements apart. y may be x. */
typedef void (*cni_scan_fn)(void *y, const void *x, int64_t n, int64_t step, int64_t m);

/* Scans CNI_SCAN_LINES lines of n elements each at once, so that their chains overlap; lines are ystep and xstep
 * elements apart. carry: where each chain stands (8 bytes each), written; and read unless it is the lines' `first`
 * part. */
typedef void (*cni_scan_lines_fn)(void *y, int64_t ystep, const void *x, int64_t xstep, int64_t n, void *carry,
                                  bool first);

typedef struct cni_scan_table {
  cni_scan_fn scan[CN_DTYPE_COUNT][2]; /* by type; sum, product */
  cni_scan_lines_fn lines[CN_DTYPE_COUNT][2];
} cni_scan_table;

CNI_DECLARE_BY_ISA(cni_scan_table, cni_scan_table);

#endif
