/* op_call.c: calling any op by row with generic values: the entry of bindings, graphs and tests.
 *
 * Place in the flow: completes the arguments (arguments.c), then goes through apply like the generated functions.
 * Invariant: errors are reported by the returned code and do not stay pending across calls. */
#include "apply.h"
#include "complex.h"
#include "families.h"

static bool is_number(const cn_value *v)
{
  return v->tag == CN_V_FLOAT || v->tag == CN_V_INT || v->tag == CN_V_BOOL;
}

/* Numbers given for tensors become weak scalars, which the call owns: they are put in `made`. */
static int make_scalars(const cni_opinfo *info, cn_value *full, cn_tensor **made)
{
  int n = 0;
  for (int k = 0; k < info->ntensors; k++) {
    cn_value *v = &full[info->tensors[k]];
    if (!is_number(v)) continue;
    int dtype = v->tag == CN_V_FLOAT ? CN_F64 : v->tag == CN_V_INT ? CN_I64 : CN_BOOL;
    uint8_t truth = v->u.i != 0;
    cn_tensor *t = cni_weak_scalar(dtype, v->tag == CN_V_BOOL ? (const void *)&truth : (const void *)&v->u);
    if (!t) break; /* the error is set */
    *v = cn_v_tensor(made[n++] = t);
  }
  return n;
}

/* A complex number as alpha, beta or value is for complex tensors. */
static int check_complex(const cni_opinfo *info, const cn_value *full)
{
  bool complex = !info->ntensors || !cni_has_complex_number(info, full);
  for (int i = 0; i < info->ntensors; i++) {
    const cn_value *v = &full[info->tensors[i]];
    complex = complex || (v->tag == CN_V_TENSOR && cni_is_z(v->u.t));
  }
  return complex ? CN_OK : cni_fail(CN_ERR_TYPE, "%s: real tensors take no complex number as argument", info->name);
}

int cn_op_call(cn_tensor **out, size_t *nout, const cn_op *op, const cn_value *args, size_t nargs, cn_tensor *dest)
{
  cn_value full[CN_MAX_ARGS];
  cni_few room[CN_MAX_ARGS];
  cn_tensor *made[CN_MAX_ARGS];
  cn_err_clear();
  cni_init();
  const cni_opinfo *info = op ? cni_op_info(op) : NULL;
  if (!info) return cni_fail(CN_ERR_UNSUPPORTED, "op_call: there is no such op");
  size_t capacity = *nout;
  int n = capacity > INT32_MAX ? INT32_MAX : (int)capacity;
  *nout = 0;
  if (n < info->nresults && !info->list_result)
    return cni_fail(CN_ERR_VALUE, "%s: gives %d results, room was made for %d", info->name, info->nresults, n);
  int status = cni_complete(info, full, room, args, nargs);
  int nmade = status ? 0 : make_scalars(info, full, made);
  if (!status) status = cn_err();
  if (!status) status = check_complex(info, full);
  if (!status) status = cni_apply(info, full, info->nparams, dest, out, &n);
  for (int i = 0; i < nmade; i++) cni_tensor_release(made[i]);
  if (!status) *nout = (size_t)n;
  return status;
}
