/* transpose.h: transposes a block of a matrix, one table per instruction set (transpose_isa.c).
 *
 * Place in the flow: copy.c and pointwise.c, where operands run along different dims. Invariant: only bytes move. */
#ifndef CNI_CPU_TRANSPOSE_H
#define CNI_CPU_TRANSPOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backends/cpu/isa.h"

/* Element c of row r of `to` becomes element r of row c of `from`, for r < nr and c < nc; rows are tstep and fstep
 * bytes apart. */
typedef void (*cni_transpose_fn)(void *to, int64_t tstep, const void *from, int64_t fstep, int64_t nr, int64_t nc);

typedef struct cni_transpose_table {
  cni_transpose_fn transpose[9]; /* by bytes of an element: 1, 2, 4, 8 */
  /* The same past the caches (nontemporal.h), or NULL: `to` begins a line, tstep is whole lines, and nr and nc are
   * multiples of `side`. */
  cni_transpose_fn nontemporal[9];
  int64_t side[9];
} cni_transpose_table;

CNI_DECLARE_BY_ISA(cni_transpose_table, cni_transpose_table);

static inline const cni_transpose_table *cni_transposes(void) { return CNI_BY_ISA(cni_transpose_table); }

#endif
