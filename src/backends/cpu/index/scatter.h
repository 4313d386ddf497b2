/* scatter.h: the loops of kernels that write by index (scatter_loops.c), one pair per operation and type.
 *
 * Invariant: elements are taken in order, one after the other, so that equal indices are reduced in the order of the
 * index. */
#ifndef CNI_CPU_SCATTER_H
#define CNI_CPU_SCATTER_H

#include <stdint.h>

/* What is done with an element and the one written over it. */
enum cni_put { CNI_PUT_SET, CNI_PUT_ADD, CNI_PUT_MUL, CNI_PUT_MAX, CNI_PUT_MIN, CNI_PUTS };

/* n elements along runs; steps in bytes. scale (ADD only): a number of the type, which src is multiplied with. */
typedef void (*cni_put_run)(char *dst, int64_t dstep, const char *src, int64_t sstep, int64_t n, const void *scale);
/* n elements, each at dst + i * dstep + index[i] * unit. */
typedef void (*cni_put_each)(char *dst, int64_t dstep, int64_t unit, const char *index, int64_t istep,
                             const char *src, int64_t sstep, int64_t n, const void *scale);

typedef struct cni_put_loops {
  cni_put_run run;
  cni_put_each each;
} cni_put_loops;

/* For a type that is computed in itself (not f16, bf16), or any type with CNI_PUT_SET. */
cni_put_loops cni_put_find(enum cni_put put, int dtype);

#endif
