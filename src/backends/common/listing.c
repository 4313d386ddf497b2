/* listing.c: which backends there are and what they run an op with, for people and tools.
 *
 * Place in the flow: reads what registry.c filled; nothing that runs an op comes here. Invariant: the order
 * of names is the order in which the dispatcher tries. */
#include <string.h>

#include "dispatch.h"
#include "ops/families.h"
#include "registry.h"

const char *cn_backend_name(int i)
{
  cni_init();
  const cn_backend *backend = i >= 0 ? cni_backend_at(i) : NULL;
  return backend ? backend->name : NULL;
}

size_t cn_op_kernels(const char **names, size_t capacity, const cn_op *op, const char *backend)
{
  cni_init();
  const cni_opinfo *info = op ? cni_op_info(op) : NULL;
  int b = 0;
  while (backend && cni_backend_at(b) && strcmp(cni_backend_at(b)->name, backend)) b++;
  if (!info || !backend || !cni_backend_at(b) || (info->row->flags & (CN_OP_COMPOSITE | CN_OP_VIEW))) return 0;
  const cni_kernel_list *list = cni_kernels_at(b, info);
  for (int i = 0; list && i < list->n && (size_t)i < capacity; i++) names[i] = list->items[i].name;
  return list ? (size_t)list->n : 0;
}
