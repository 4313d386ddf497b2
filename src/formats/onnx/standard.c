/* standard.c: operators of other domains that are one of the default domain, of inputs or attributes changed a little.
 * See call.h. Invariant: the call is left as it was found, but for its results. */
#include "call.h"

int cni_onnx_standard(cni_onnx_call *c, const char *name, int64_t opset)
{
  bool known;
  const cni_onnx_op *row = cni_onnx_find("", name, opset, &known);
  if (!row || !row->build) return cni_onnx_fail(c, CN_ERR_INTERNAL, "no builder of %s", name);
  int64_t own = c->opset;
  c->opset = opset;
  int status = row->build(c);
  c->opset = own;
  return status;
}

int cni_onnx_standard_of(cni_onnx_call *c, const char *name, int64_t opset, cn_tensor *const *t, size_t n)
{
  cn_onnx_value **made = cni_onnx_room(c, n + 1, sizeof *made), *const *given = c->in;
  size_t nin = c->nin;
  if (!made) return cn_err();
  for (size_t i = 0; i < n; i++) made[i] = t[i] ? cni_onnx_take(t[i]) : NULL;
  c->in = made;
  c->nin = n;
  int status = cn_err() ? cn_err() : cni_onnx_standard(c, name, opset);
  c->in = given;
  c->nin = nin;
  for (size_t i = 0; i < n; i++) cn_onnx_value_release(made[i]);
  return status;
}
