/* families.h: the families of ops as a table, for the op table and for the files that end one.
 *
 * Place in the flow: families.def lists them; table.c takes their rows. Invariant: every family ends in a table
 * `const cn_op cni_NAME_ops[]` and its count. */
#ifndef CNI_OPS_FAMILIES_H
#define CNI_OPS_FAMILIES_H

#include <cairn/ext/op.h>
#include <stdatomic.h>

typedef struct cni_family {
  const char *name;
  const cn_op *rows;
  const size_t *count;
} cni_family;

extern const cni_family cni_families[]; /* ends with rows NULL */

/* Written at the end of a family file, after its rows. */
#define CNI_FAMILY(name) const size_t cni_##name##_count = sizeof cni_##name##_ops / sizeof *cni_##name##_ops

#define FAMILY(name) \
  extern const cn_op cni_##name##_ops[]; \
  extern const size_t cni_##name##_count;
#include "families.def"
#undef FAMILY

void cni_init(void); /* src/init.c: fills the tables once; cheap after that */
extern _Atomic bool cni_initialised; /* ... and has done so */
static inline bool cni_ready(void) { return atomic_load_explicit(&cni_initialised, memory_order_acquire); }

#endif
