/* complex.c: calls with complex tensors become calls of real ops: by a rule of the op (complex_rules.def), or in one of
 * two general ways that its signature names.
 *
 *   complex_parts   the op is linear: it runs on real parts, on imaginary parts, and the results are put together
 *   complex_pairs   it works element by element and on both parts alike: it runs once, on pairs (..., 2)
 *
 * Place in the flow: apply -> cni_complex_lower -> the rule, as if it were the op's decomposition, above autograd and
 * capture. So gradients follow by composition: that of view_as_real is view_as_complex, which is PyTorch's convention
 * (dL/dRe + i dL/dIm), and graphs hold real ops alone. Invariant: an op whose row says nothing is refused. */
#include "complex.h"

#include <cairn/kw.h>

#include "api.gen.h"
#include "apply.h"

/* ---- what the rules share ---- */

cni_z cni_parts(cn_tensor *t)
{
  if (!t) return (cni_z){NULL, NULL};
  if (cni_is_z(t)) return (cni_z){cn_real(t), cn_imag(t)};
  return (cni_z){t, cn_zeros_like(t)};
}

cn_tensor *cni_from_pairs(cn_tensor *t)
{
  return cn_view_as_complex(t && !cni_is_pairs(t) ? cn_contiguous_copy(t) : t);
}

/* Zero-dimensional tensors of the host go along with any device, but not their parts. */
static cn_tensor *on_device(cn_tensor *t, cn_device device)
{
  return t && t->d.device != device ? cn_to_device(t, device) : t;
}

/* A complex number as a tensor, made of real ones, which graphs have. */
static cn_tensor *number_as_complex(const cn_tensor *t, int dtype, cn_device device)
{
  int from = cni_dtype_part(t->d.dtype);
  cn_dtype part = (cn_dtype)cni_dtype_part(dtype);
  double re = cni_load_f64(t->d.data, 0, from), im = cni_load_f64(t->d.data, 1, from);
  return cn_complex(cn_full(CN_SCALAR_SHAPE, re, .dtype = part, .device = device),
                    cn_full(CN_SCALAR_SHAPE, im, .dtype = part, .device = device));
}

cn_tensor *cni_as_complex(cn_tensor *t, int dtype, cn_device device)
{
  if (!t) return NULL;
  if (t->d.weak && cni_is_z(t)) return number_as_complex(t, dtype, device);
  return on_device(t->d.dtype != dtype || t->d.weak ? cn_cast(t, (cn_dtype)dtype) : t, device);
}

cn_tensor *cni_times_i(cn_tensor *a) { return cn_complex(cn_neg(cn_imag(a)), cn_real(a)); }

/* args with the tensors `in` in the places of the call's own; room: for the elements of lists. */
static void replace_tensors(const cni_opinfo *info, const cn_call *c, cn_tensor *const *in, cn_value *args,
                            cn_tensor **room)
{
  memcpy(args, c->args, (size_t)c->nargs * sizeof *args);
  for (int i = 0, k = 0; i < info->ntensors; i++) {
    cn_value *v = &args[info->tensors[i]];
    if (info->params[info->tensors[i]].list) {
      int n = v->n;
      memcpy(room + k, in + k, (size_t)n * sizeof *room);
      v->u.ts = room + k;
      k += n;
    } else *v = cn_v_tensor(in[k++]);
  }
}

enum { FEW = 32 };

/* Calls the op with other arguments; borrowed results in out. */
static int call_with(const cni_opinfo *info, const cn_value *args, const cn_call *c, cn_tensor **out)
{
  int n = c->nout, status = cn_err() ? cn_err() : cni_apply(info, args, c->nargs, NULL, out, &n);
  for (int i = 0; !status && i < n; i++)
    if (out[i] && !(out[i] = cni_scope_add(out[i]))) status = CN_ERR_MEMORY;
  return status;
}

cn_tensor *cni_call_again(const cn_call *c, cn_tensor *const *in)
{
  const cni_opinfo *info = cni_op_info(c->op);
  cn_value args[CN_MAX_ARGS];
  cn_tensor *room[FEW], *out[CNI_MAX_RESULTS] = {NULL};
  if (c->nin > FEW) {
    cn_call_fail(c, CN_ERR_UNSUPPORTED, "takes at most %d complex tensors at once", FEW);
    return NULL;
  }
  replace_tensors(info, c, in, args, room);
  return call_with(info, args, c, out) ? NULL : out[0];
}

/* ---- complex_parts ---- */

/* A dtype among the arguments: that of the parts. */
static int parts_of_dtypes(const cni_opinfo *info, const cn_call *c, cn_value *args)
{
  for (int i = 0; i < info->nparams; i++) {
    if (info->params[i].type != CNI_T_DTYPE || args[i].tag == CN_V_NONE) continue;
    if (!cni_dtype_valid(args[i].u.i) || !cni_dtype_is_complex((int)args[i].u.i))
      return cn_call_fail(c, CN_ERR_DTYPE, "complex numbers give no result of a real type; take cn_real first");
    args[i] = cn_v_int(cni_dtype_part((int)args[i].u.i));
  }
  return CN_OK;
}

/* What is not complex must be no tensor that the op adds or multiplies: indices and masks. */
static int check_real_inputs(const cn_call *c)
{
  for (int i = 0; i < c->nin; i++)
    if (c->in[i] && cni_dtype_is_float(c->in[i]->d.dtype) && !c->in[i]->d.weak)
      return cn_call_fail(c, CN_ERR_DTYPE, "its tensors must all be complex, or all real");
  return CN_OK;
}

/* Numbers stay numbers: a real one has an imaginary part of zero, as complex tensors meet it. */
static cn_tensor *part_of(cn_tensor *t, int part)
{
  if (!t || (!t->d.weak && !cni_is_z(t))) return t;
  if (!t->d.weak) return part ? cn_imag(t) : cn_real(t);
  if (cni_is_z(t)) return cn_num(cni_load_f64(t->d.data, part, cni_dtype_part(t->d.dtype)));
  return part ? cn_int(0) : t;
}

static int run_part(const cn_call *c, int part, cn_tensor **room, cn_tensor **out)
{
  const cni_opinfo *info = cni_op_info(c->op);
  cn_value args[CN_MAX_ARGS];
  cn_tensor **in = room, **lists = room + c->nin;
  for (int i = 0; i < c->nin; i++) in[i] = part_of(c->in[i], part);
  replace_tensors(info, c, in, args, lists);
  int status = parts_of_dtypes(info, c, args);
  return status ? status : call_with(info, args, c, out);
}

/* Of real numbers a complex result is wanted. */
static int with_complex_input(cn_call *c)
{
  cn_tensor *in[FEW];
  if (c->nin < 1 || c->nin > FEW) return cn_call_fail(c, CN_ERR_DTYPE, "makes no complex numbers of these inputs");
  memcpy(in, c->in, (size_t)c->nin * sizeof *in);
  in[0] = cn_cast(in[0], (cn_dtype)c->args[cni_op_info(c->op)->dtype_at - 1].u.i);
  c->out[0] = cni_call_again(c, in);
  return cn_err();
}

static int by_parts(cn_call *c)
{
  cn_tensor *re[CNI_MAX_RESULTS] = {NULL}, *im[CNI_MAX_RESULTS] = {NULL}, *few[2 * FEW], **room = few;
  size_t bytes = 2 * (size_t)c->nin * sizeof *room;
  bool any = false;
  for (int i = 0; i < c->nin; i++) any |= cni_is_z(c->in[i]);
  if (!any) return with_complex_input(c);
  int status = check_real_inputs(c);
  if (status) return status;
  if (c->nout > CNI_MAX_RESULTS) return cn_call_fail(c, CN_ERR_UNSUPPORTED, "too many results for complex numbers");
  if (c->nin > FEW && !(room = cni_alloc(bytes))) return CN_ERR_MEMORY;
  status = run_part(c, 0, room, re);
  if (!status) status = run_part(c, 1, room, im);
  for (int i = 0; i < c->nout && !status; i++) c->out[i] = cn_complex(re[i], im[i]);
  if (room != few) cni_free(room, bytes);
  return status ? status : cn_err();
}

/* ---- complex_pairs ---- */

/* Conditions and masks choose for both parts. */
static bool chooses(const cni_opinfo *info, int i)
{
  const char *name = i < info->ntensors ? info->params[info->tensors[i]].name : "";
  return !strcmp(name, "condition") || !strcmp(name, "mask");
}

int cni_on_pairs(cn_call *c)
{
  const cni_opinfo *info = cni_op_info(c->op);
  cn_tensor *values[FEW], *in[FEW];
  int n = 0;
  if (c->nin > FEW) return cn_call_fail(c, CN_ERR_UNSUPPORTED, "takes at most %d complex tensors at once", FEW);
  for (int i = 0; i < c->nin; i++)
    if (!chooses(info, i)) values[n++] = c->in[i];
  int dtype = cni_result_type(c, values, n);
  if (!dtype) return CN_ERR_DTYPE;
  for (int i = 0; i < c->nin; i++)
    in[i] = !c->in[i]          ? NULL
            : chooses(info, i) ? cn_unsqueeze(on_device(c->in[i], c->device), -1)
                               : cn_view_as_real(cni_as_complex(c->in[i], dtype, c->device));
  c->out[0] = cni_from_pairs(cni_call_again(c, in));
  return cn_err();
}

/* ---- which way ---- */

typedef struct rule {
  int (*lowered)(cn_call *call);
  bool (*when)(const cn_call *c); /* NULL: always */
  bool numbers;                   /* it reads complex Scalars */
} rule;

static const rule rules[CNI_OP_COUNT_BUILTIN] = {
#define RULE(name) [CNI_OP_##name] = {cni_complex_##name, NULL, false},
#define RULE_WHEN(name) [CNI_OP_##name] = {cni_complex_##name, cni_complex_##name##_when, false},
#define RULE_NUMBERS(name) [CNI_OP_##name] = {cni_complex_##name, NULL, true},
#include "complex_rules.def"
#undef RULE
#undef RULE_WHEN
#undef RULE_NUMBERS
};

static const rule *rule_of(const cni_opinfo *info)
{
  const rule *r = info->id < CNI_OP_COUNT_BUILTIN ? &rules[info->id] : NULL;
  return r && r->lowered ? r : NULL;
}

bool cni_complex_numbers(const cni_opinfo *info)
{
  const rule *r = rule_of(info);
  return r && r->numbers;
}

bool cni_has_complex_number(const cni_opinfo *info, const cn_value *args)
{
  for (int i = 0; i < info->nparams; i++)
    if (args[i].tag == CN_V_FLOATS && info->params[i].type == CNI_T_SCALAR && !info->params[i].list) return true;
  return false;
}

/* A real type is asked for: the tensors in it first, and then the op. */
static int cast_first(cn_call *c)
{
  cn_tensor *in[FEW];
  if (c->nin > FEW) return cn_call_fail(c, CN_ERR_UNSUPPORTED, "takes at most %d complex tensors at once", FEW);
  cn_dtype dtype = (cn_dtype)c->args[cni_op_info(c->op)->dtype_at - 1].u.i;
  for (int i = 0; i < c->nin; i++) in[i] = cni_is_z(c->in[i]) ? cn_cast(c->in[i], dtype) : c->in[i];
  c->out[0] = cni_call_again(c, in);
  return cn_err();
}

static bool asks_for_real(const cni_opinfo *info, const cn_call *c)
{
  const cn_value *v = info->dtype_at ? &c->args[info->dtype_at - 1] : NULL;
  return v && v->tag == CN_V_INT && cni_dtype_valid(v->u.i) && !cni_dtype_is_complex((int)v->u.i) && c->nout == 1;
}

int cni_complex_lower(const cni_opinfo *info, const cn_call *c, int (**lowered)(cn_call *call))
{
  const rule *r = rule_of(info);
  if (r && (!r->when || r->when(c))) {
    *lowered = r->lowered;
    return CN_OK;
  }
  if (info->complex == CNI_COMPLEX_PARTS) *lowered = by_parts;
  else if (info->complex == CNI_COMPLEX_PAIRS) *lowered = cni_on_pairs;
  else if (info->complex == CNI_COMPLEX_AS_IS || r || info->row->flags & (CN_OP_ANY_DTYPE | CN_OP_VIEW | CN_OP_SPARSE))
    return CN_OK;
  else if (asks_for_real(info, c)) *lowered = cast_first;
  else if (!(info->row->flags & CN_OP_SHAPE_ONLY))
    return cni_fail(CN_ERR_UNSUPPORTED, "%s: is not implemented for complex numbers", info->name);
  return CN_OK;
}
