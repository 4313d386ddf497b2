/* args.h: copying argument lists, for records that outlive a call (views, autograd nodes, graphs, device queues).
 *
 * Invariant: a copy owns its lists and strings in one block behind the values; tensor slots keep their tag and lose
 * their pointer. */
#ifndef CNI_TENSOR_ARGS_H
#define CNI_TENSOR_ARGS_H

#include <cairn/ext/op.h>

size_t cni_args_bytes(const cn_value *args, int nargs); /* values and their lists */
void cni_args_copy(cn_value *to, const cn_value *args, int nargs); /* `to` has cni_args_bytes bytes */

#endif
