/* product.h: which matrix products are small, for those who choose how they are done.
 *
 * Place in the flow: the CPU's gemm.c does small ones in place, without memory of its own; the graph's passes and plans
 * count on that. */
#ifndef CNI_OPS_PRODUCT_H
#define CNI_OPS_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

enum {
  CNI_SMALL_PRODUCT = 64 * 64 * 64, /* multiply-adds up to which strides cannot hurt, and nothing is packed */
  CNI_SMALL_DEPTH = 256             /* and how many of them make one chain in a register */
};

/* (m, k) by (k, n): is it done without memory that may be lacking, each element by one chain of multiply-adds that is
 * scaled and added to what is there in the end? Products with a vector are not. */
static inline bool cni_is_small_product(int64_t m, int64_t k, int64_t n)
{
  return m > 1 && n > 1 && k <= CNI_SMALL_DEPTH && (double)m * (double)k * (double)n <= CNI_SMALL_PRODUCT;
}

#endif
