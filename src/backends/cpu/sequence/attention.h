/* attention.h: the loops over rows of scores that attention needs between its matrix products, one table per
 * instruction set and type.
 *
 * Place in the flow: attention.c calls them per block; attention_isa.c has them. Invariant: sums over a row
 * are made in a fixed number of chains, so no bit depends on the instruction set. */
#ifndef CNI_CPU_ATTENTION_H
#define CNI_CPU_ATTENTION_H

#include <cairn/base.h>

#include "backends/cpu/isa.h"

enum { CNI_ATTENTION_QUERIES = 64 }; /* of a block */

/* All pointers are to the table's type; strides in elements. s: (rows, cols), dense; or, in the transposed tables, its
 * transpose with rows of CNI_ATTENTION_QUERIES, where lanes beyond `rows` may hold anything. */
typedef struct cni_attention_loops {
  /* s += mask, and -inf where the bool mask is 0. */
  void (*add_mask)(void *s, const void *mask, int64_t mask_row, int64_t mask_col, int64_t rows, int64_t cols);
  void (*bool_mask)(void *s, const uint8_t *mask, int64_t mask_row, int64_t mask_col, int64_t rows,
                    int64_t cols);
  /* -inf where the column is beyond first + row. */
  void (*causal)(void *s, int64_t first, int64_t rows, int64_t cols);
  /* One step of the running softmax: s becomes exp(s - max), o: (rows, width) and sum are brought to the new
   * max. */
  void (*step)(void *s, int64_t rows, int64_t cols, void *max, void *sum, void *o, int64_t width);
  /* out = o / sum (0 where sum is 0), lse = max + log(sum). */
  void (*finish)(void *out, int64_t out_row, int64_t out_col, void *lse, const void *o, const void *max,
                 const void *sum, int64_t rows, int64_t width);
  /* s = exp(s - lse), 0 where lse is -inf. */
  void (*weights)(void *s, const void *lse, int64_t rows, int64_t cols);
  /* d = s * (d - delta) */
  void (*score_grad)(void *d, const void *s, const void *delta, int64_t rows, int64_t cols);
  /* s * factor, and 0 where `kept` is, whose rows are kept_row apart; transposed: which lies as s does. */
  void (*thin)(void *s, const void *kept, int64_t kept_row, double factor, int64_t rows, int64_t cols);
  /* The sum of the products of two rows. */
  double (*dot)(const void *a, int64_t a_col, const void *b, int64_t b_col, int64_t n);
} cni_attention_loops;

/* [0] float, [1] double, [2] and [3] the same transposed */
CNI_DECLARE_BY_ISA(cni_attention_loops, cni_attention_loops, [4]);

#endif
