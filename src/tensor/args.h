/* args.h: copying argument lists, for records that outlive a call (views, autograd nodes, graphs, device queues).
 *
 * Invariant: a copy owns its lists and strings, but those that stay, in one block behind the values; tensor slots keep
 * their tag and lose their pointer. */
#ifndef CNI_TENSOR_ARGS_H
#define CNI_TENSOR_ARGS_H

#include <cairn/ext/op.h>

/* A text that lives as long as the process is marked by its address, in n, which is 1 for others: copies of the value
 * share it, and a copy of the text itself, made by someone who knows nothing of this, is not taken for it. */
static inline int32_t cni_text_mark(const char *text)
{
  return (int32_t)((uint64_t)(uintptr_t)text * 0x9e3779b97f4a7c15u >> 34) | 2;
}
static inline bool cni_text_stays(const cn_value *v) { return v->n != 1 && v->n == cni_text_mark(v->u.s); }

size_t cni_args_bytes(const cn_value *args, int nargs); /* values and their lists */
void cni_args_copy(cn_value *to, const cn_value *args, int nargs); /* `to` has cni_args_bytes bytes */

#endif
