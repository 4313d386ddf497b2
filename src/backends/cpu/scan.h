/* scan.h: the loops of running sums and products, one table per instruction set (scan_isa.c). */
#ifndef CNI_CPU_SCAN_H
#define CNI_CPU_SCAN_H

#include <cairn/ext/op.h>

enum { CNI_SCAN_COLUMNS = 128 };

/* Scans n rows of m <= CNI_SCAN_COLUMNS columns; rows are `step` elements apart. y may be x. */
typedef void (*cni_scan_fn)(void *y, const void *x, int64_t n, int64_t step, int64_t m);

typedef struct cni_scan_table {
  cni_scan_fn scan[CN_DTYPE_COUNT][2]; /* by type; sum, product */
} cni_scan_table;

extern const cni_scan_table cni_scan_table_base;
#if defined(__x86_64__)
extern const cni_scan_table cni_scan_table_avx2;
extern const cni_scan_table cni_scan_table_avx512;
#endif

#endif
