/* families.h: the list of op families: one line per family file. Adding an op to a family needs no edit here.
 *
 * Invariant: every family ends in a table `const cn_op cni_NAME_ops[]` and its count. */
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
#define CNI_FAMILY_DECL(name) \
  extern const cn_op cni_##name##_ops[]; \
  extern const size_t cni_##name##_count

CNI_FAMILY_DECL(pointwise);
CNI_FAMILY_DECL(program);
CNI_FAMILY_DECL(arith);
CNI_FAMILY_DECL(special);
CNI_FAMILY_DECL(activation);
CNI_FAMILY_DECL(loss_pair);
CNI_FAMILY_DECL(ctc);
CNI_FAMILY_DECL(view);
CNI_FAMILY_DECL(strided);
CNI_FAMILY_DECL(view_scatter);
CNI_FAMILY_DECL(create);
CNI_FAMILY_DECL(reduce);
CNI_FAMILY_DECL(norm);
CNI_FAMILY_DECL(batch_norm);
CNI_FAMILY_DECL(reduce_stat);
CNI_FAMILY_DECL(softmax);
CNI_FAMILY_DECL(order);
CNI_FAMILY_DECL(matmul);
CNI_FAMILY_DECL(linalg);
CNI_FAMILY_DECL(linalg_lu);
CNI_FAMILY_DECL(linalg_factor);
CNI_FAMILY_DECL(linalg_norm);
CNI_FAMILY_DECL(linalg_form);
CNI_FAMILY_DECL(distance);
CNI_FAMILY_DECL(recurrent);
CNI_FAMILY_DECL(recurrent_sequence);
CNI_FAMILY_DECL(fft);
CNI_FAMILY_DECL(attention);
CNI_FAMILY_DECL(join);
CNI_FAMILY_DECL(index);
CNI_FAMILY_DECL(index_many);
CNI_FAMILY_DECL(loss);
CNI_FAMILY_DECL(cross_entropy);
CNI_FAMILY_DECL(conv);
CNI_FAMILY_DECL(columns);
CNI_FAMILY_DECL(conv_nd);
CNI_FAMILY_DECL(pool);
CNI_FAMILY_DECL(pool_nd);
CNI_FAMILY_DECL(pool_fractional);
CNI_FAMILY_DECL(resample);
CNI_FAMILY_DECL(grid);
CNI_FAMILY_DECL(shape);
CNI_FAMILY_DECL(pad);
CNI_FAMILY_DECL(place);
CNI_FAMILY_DECL(draw);
CNI_FAMILY_DECL(contract);
CNI_FAMILY_DECL(numeric);
CNI_FAMILY_DECL(bag);
CNI_FAMILY_DECL(heads);
CNI_FAMILY_DECL(signal);
CNI_FAMILY_DECL(unique);
CNI_FAMILY_DECL(search);
CNI_FAMILY_DECL(quantile);
CNI_FAMILY_DECL(index_more);
CNI_FAMILY_DECL(update);

void cni_init(void); /* src/init.c: fills the tables once; cheap after that */
extern _Atomic bool cni_initialised; /* ... and has done so */
static inline bool cni_ready(void) { return atomic_load_explicit(&cni_initialised, memory_order_acquire); }

#endif
