/* reduce.h: how a reduction lies in memory, and the loops that reduce elements, one table per instruction set.
 *
 * Place in the flow: reduce.c, argmax.c, moments.c, softmax.c and norm.c describe their call with a
 * cni_reduction. Invariant: the split of a reduction into blocks and pieces depends on shapes and strides alone,
 * so results never depend on the number of threads. */
#ifndef CNI_CPU_REDUCE_H
#define CNI_CPU_REDUCE_H

#include <cairn/ext/op.h>

#include "backends/cpu/isa.h"
#include "backends/cpu/pointwise/pointwise.h"

/* A reduction with its dims in memory order (outermost first, broadcast ones before all), size-1 dims dropped and
 * neighbours merged. Strides are in elements; kout is the result's. */
typedef struct cni_reduction {
  int nk, nr; /* kept and reduced dims; both may be 0 */
  int64_t ksize[CN_MAX_DIMS], kin[CN_MAX_DIMS], kout[CN_MAX_DIMS];
  int64_t rsize[CN_MAX_DIMS], rin[CN_MAX_DIMS];
  int64_t outputs, count; /* how many results, and elements reduced into each */
} cni_reduction;

/* How far out a dim of this stride belongs: a broadcast one is walked around all others. */
static inline int64_t cni_step_order(int64_t stride) { return stride ? (stride < 0 ? -stride : stride) : INT64_MAX; }

/* Of x over the dims of mask; the result is row-major. */
void cni_reduction_make(cni_reduction *r, const cn_desc *x, uint32_t mask);

/* The lines of x along one dim, and the lines of the same place in y. The other dims are in memory order of x
 * and merged; strides are in elements. */
typedef struct cni_lines {
  int nk;
  int64_t ksize[CN_MAX_DIMS], kin[CN_MAX_DIMS], kout[CN_MAX_DIMS];
  int64_t n, xstep, ystep; /* of a line */
  int64_t count;           /* lines */
} cni_lines;

/* y has x's shape, but for dim, whose size may differ (a size of 1 gives ystep 0). */
void cni_lines_make(cni_lines *l, const cn_desc *x, const cn_desc *y, int dim);

/* Position in some dims, walked like an odometer with two offsets (input, result) kept in step. */
typedef struct cni_walk {
  int64_t index[CN_MAX_DIMS], in, out;
} cni_walk;
/* Sets w to element `at` of dims (size, in, out)[0..n); out may be NULL. */
void cni_walk_to(cni_walk *w, int n, const int64_t *size, const int64_t *in, const int64_t *out, int64_t at);
void cni_walk_step(cni_walk *w, int n, const int64_t *size, const int64_t *in, const int64_t *out);

/* What two elements become. */
enum cni_reduce_kind {
  CNI_REDUCE_SUM,     /* a + x */
  CNI_REDUCE_NUMBERS, /* a + x, unless x is NaN; floats only */
  CNI_REDUCE_ABS,     /* a + |x|; floats only, as the next three */
  CNI_REDUCE_SQUARE,  /* a + x * x */
  CNI_REDUCE_ABS_MAX, /* max(a, |x|) */
  CNI_REDUCE_ABS_MIN,
  CNI_REDUCE_PROD,
  CNI_REDUCE_MAX, /* NaN wins */
  CNI_REDUCE_MIN,
  CNI_REDUCE_ANY, /* 1 if an element is not 0 */
  CNI_REDUCE_ALL,
  CNI_REDUCE_NONZERO, /* how many are not 0 */
  CNI_REDUCE_KINDS
};

/* Results and partial results are 8 bytes wide: double for the float classes, else int64_t or uint64_t. */
typedef union cni_wide {
  double f;
  int64_t i;
  uint64_t u;
} cni_wide;

/* The loops of one reduction in one compute type T (double, float, ...). */
typedef struct cni_reduce_loops {
  /* out[r]: the reduction of row r, n elements from x + r * stride on */
  void (*rows)(cni_wide *out, const void *x, int64_t nrows, int64_t stride, int64_t n);
  /* acc[j] (of type T): acc[j] reduced with column j of the rows */
  void (*columns)(void *acc, const void *x, int64_t nrows, int64_t stride, int64_t n);
  /* wide[j]: wide[j] joined with acc[j]; acc then starts afresh */
  void (*flush)(cni_wide *wide, void *acc, int64_t n);
  /* both set to the value that changes nothing; either may be NULL */
  void (*start)(cni_wide *wide, void *acc, int64_t n);
  cni_wide (*join)(cni_wide a, cni_wide b);
} cni_reduce_loops;

typedef struct cni_reduce_table {
  cni_reduce_loops loops[CNI_COMPUTES][CNI_REDUCE_KINDS];
  /* [class][0 max, 1 min]: best[j] and its row index[j], once row number `row` at x was seen */
  void (*arg_columns[CNI_COMPUTES][2])(void *best, int64_t *index, const void *x, int64_t row, int64_t n);
} cni_reduce_table;

CNI_DECLARE_BY_ISA(cni_reduce_table, cni_reduce_table);

const cni_reduce_table *cni_reduce_now(void); /* for this machine */

#endif
