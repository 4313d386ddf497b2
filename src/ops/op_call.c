/* op_call.c: calling any op by row with generic values: the entry of bindings, graphs and tests.
 *
 * Place in the flow: checks and completes the arguments, then goes through apply like the generated functions.
 * Invariant: errors are reported by the returned code and do not stay pending across calls. */
#include "apply.h"
#include "families.h"

static bool is_list(const cn_value *v)
{
  return v->tag == CN_V_TENSORS || v->tag == CN_V_INTS || v->tag == CN_V_FLOATS;
}

static bool is_number(const cn_value *v)
{
  return v->tag == CN_V_FLOAT || v->tag == CN_V_INT || v->tag == CN_V_BOOL;
}

static bool fits(const cni_param *p, const cn_value *v)
{
  if (is_list(v) && (v->n < 0 || (v->n && !v->u.is))) return false;
  if (v->tag == CN_V_NONE) return p->optional || (p->has_default && p->def.tag != CN_V_NONE) || p->list;
  if (p->list)
    return p->type == CNI_T_TENSOR ? v->tag == CN_V_TENSORS
           : p->type == CNI_T_INT  ? v->tag == CN_V_INTS || v->tag == CN_V_INT
                                   : v->tag == CN_V_FLOATS;
  switch (p->type) {
  case CNI_T_TENSOR: return v->tag == CN_V_TENSOR || is_number(v);
  case CNI_T_INT: return v->tag == CN_V_INT || v->tag == CN_V_BOOL;
  case CNI_T_FLOAT:
  case CNI_T_SCALAR: return is_number(v);
  case CNI_T_BOOL: return v->tag == CN_V_BOOL || v->tag == CN_V_INT;
  case CNI_T_STR: return v->tag == CN_V_STR;
  case CNI_T_DTYPE:
  case CNI_T_DEVICE: return v->tag == CN_V_INT;
  }
  return false;
}

/* Numbers get the tag that the generated functions would give them, which is what rules look at. */
static void settle(const cni_param *p, cn_value *v)
{
  if (p->list && !p->optional && v->tag == CN_V_NONE) { /* an empty list */
    v->tag = p->type == CNI_T_TENSOR ? CN_V_TENSORS : p->type == CNI_T_INT ? CN_V_INTS : CN_V_FLOATS;
    v->n = 0;
  }
  if (p->list || v->tag == CN_V_NONE || v->tag == CN_V_FLOAT) return;
  if (p->type == CNI_T_INT) *v = cn_v_int(v->u.i);
  else if (p->type == CNI_T_BOOL) *v = cn_v_bool(v->u.i != 0);
  else if (p->type == CNI_T_FLOAT) *v = cn_v_float((double)v->u.i);
}

/* One int for an int[N] stands for all N; for an int[] it is a list of one. */
static void widen(const cni_param *p, cn_value *v, int64_t *room)
{
  int n = p->fixed ? p->fixed : 1;
  int64_t one = v->tag == CN_V_INT ? v->u.i : v->u.is[0];
  if (n > 3) n = 3;
  for (int i = 0; i < n; i++) room[i] = one;
  *v = cn_v_ints(room, (size_t)n);
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

static int complete(const cni_opinfo *info, cn_value *full, int64_t room[][3], const cn_value *args, size_t nargs)
{
  if (nargs > (size_t)info->nparams)
    return cni_fail(CN_ERR_TYPE, "%s: %zu arguments given, it takes %d", info->name, nargs, info->nparams);
  for (int i = 0; i < info->nparams; i++) {
    const cni_param *p = &info->params[i];
    bool given = (size_t)i < nargs;
    if (!given && !p->has_default && !p->optional)
      return cni_fail(CN_ERR_TYPE, "%s: argument '%s' is missing", info->name, p->name);
    full[i] = given ? args[i] : p->def;
    if (!fits(p, &full[i]))
      return cni_fail(CN_ERR_TYPE, "%s: argument '%s' is missing or of the wrong kind", info->name, p->name);
    if (full[i].tag == CN_V_NONE && p->has_default && !p->optional) full[i] = p->def;
    settle(p, &full[i]);
    if (p->type == CNI_T_INT && full[i].tag == CN_V_INT && full[i].u.i <= CN_NONE)
      return cni_fail(CN_ERR_VALUE, "%s: '%s' is %lld, a number that stands for none or zero in C", info->name, p->name,
                      (long long)full[i].u.i);
    bool ints = p->list && p->type == CNI_T_INT;
    if (ints && p->fixed && p->optional && full[i].tag == CN_V_INTS && !full[i].n) full[i] = cn_v_none(); /* () */
    if (ints && (full[i].tag == CN_V_INT || (full[i].tag == CN_V_INTS && full[i].n == 1 && p->fixed > 1)))
      widen(p, &full[i], room[i]);
    if (ints && p->fixed && full[i].tag == CN_V_INTS && full[i].n != p->fixed)
      return cni_fail(CN_ERR_VALUE, "%s: '%s' takes %d numbers, not %d", info->name, p->name, p->fixed, full[i].n);
  }
  return CN_OK;
}

int cn_op_call(cn_tensor **out, size_t *nout, const cn_op *op, const cn_value *args, size_t nargs, cn_tensor *dest)
{
  cn_value full[CN_MAX_ARGS];
  int64_t room[CN_MAX_ARGS][3];
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
  int status = complete(info, full, room, args, nargs);
  int nmade = status ? 0 : make_scalars(info, full, made);
  if (!status) status = cn_err();
  if (!status) status = cni_apply(info, full, info->nparams, dest, out, &n);
  for (int i = 0; i < nmade; i++) cni_tensor_release(made[i]);
  if (!status) *nout = (size_t)n;
  return status;
}
