/* table.c: the families of operators, and which row an operator means. See call.h.
 *
 * Invariant: rows of one name stand in one family; of several the newest that the opset has is meant. */
#include <string.h>

#include "call.h"

#define FAMILY(name, domain) extern const cni_onnx_op cni_onnx_##name##_ops[];
#include "families.def"
#undef FAMILY

const cni_onnx_family cni_onnx_families[] = {
#define FAMILY(name, domain) {#name, domain, cni_onnx_##name##_ops},
#include "families.def"
#undef FAMILY
    {NULL, NULL, NULL},
};

const cni_onnx_op *cni_onnx_find(const char *domain, const char *name, int64_t opset, bool *known)
{
  const cni_onnx_op *best = NULL;
  *known = false;
  for (const cni_onnx_family *f = cni_onnx_families; f->name; f++) {
    if (strcmp(f->domain, domain) != 0) continue;
    for (const cni_onnx_op *op = f->ops; op->name; op++) {
      if (strcmp(op->name, name) != 0) continue;
      *known = true;
      if (op->since <= opset && (!best || op->since > best->since)) best = op;
    }
  }
  return best;
}

const char *cn_onnx_operator_at(size_t i, const char **domain, int64_t *since)
{
  for (const cni_onnx_family *f = cni_onnx_families; f->name; f++)
    for (const cni_onnx_op *op = f->ops; op->name; op++)
      if (i-- == 0) {
        if (domain) *domain = f->domain;
        if (since) *since = op->since;
        return op->name;
      }
  return NULL;
}
