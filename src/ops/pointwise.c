/* pointwise.c: the family of pointwise primitives (pointwise.def) and what all pointwise rows share: type and shape
 * inference, finding a call's program, and the gradient through the op "pointwise".
 *
 * Place in the flow: apply -> cni_pointwise_infer -> a backend's one kernel for "pointwise", which asks
 * cni_program_of. Invariant: no pointwise op has code of its own here or in any backend. */
#include "cost.h"
#include "pointwise.h"

#include <cairn/ops.h>
#include <string.h>

#include "api.gen.h"
#include "apply.h"
#include "families.h"
#include "hot.h"
#include "infer.h"
#include "pointwise_kinds.h"
#include "table.h"

/* ---- programs of calls ---- */

static const cni_program *build(const cni_pointwise *pw, int variant, int drop)
{
  cni_builder b;
  cni_build_begin(&b, pw->nin);
  b.drop = drop;
  b.nout = 1;
  b.out[0] = pw->build(&b, variant);
  return cni_build_end(&b);
}

static CNI_APART const cni_program *make_program(const cni_pointwise *pw, const cni_program **made, int variant,
                                                 int drop)
{
  const cni_program *p = build(pw, variant, drop);
  if (p) __atomic_store_n(made, p, __ATOMIC_RELEASE);
  return p;
}

static inline const cni_program *program_of_row(const cn_op *op, const cn_value *args, int compute)
{
  cni_pointwise *pw = (cni_pointwise *)op->pointwise;
  int variant = pw->variant ? pw->variant(args) : 0, drop = 0, set = 0;
  if (variant < 0) return NULL;
  if (CNI_UNLIKELY(compute == CN_F16 || compute == CN_BF16) && pw->kind != CNI_UPD) {
    drop = compute == CN_F16 ? 13 : 16;
    set = compute == CN_F16 ? 8 : 16;
  }
  const cni_program **made = &pw->made[variant + set];
  const cni_program *p = __atomic_load_n(made, __ATOMIC_ACQUIRE);
  return CNI_LIKELY(p) ? p : make_program(pw, made, variant, drop);
}

/* Parameters of the op "pointwise". */
enum { INPUTS, PROGRAM, CONSTS };

/* compute: the type computed for, where steps may round to it; 0: the formula alone, as gradients want it. */
static inline const cni_program *program_of(const cn_op *op, const cn_value *args, int compute)
{
  return op->pointwise ? program_of_row(op, args, compute) : cni_program_of_value(&args[PROGRAM]);
}

int cni_program_consts(double *consts, const cn_call *c, const cni_program *p)
{
  const cn_value *args = c->args;
  bool row = c->op->pointwise != NULL;
  for (int i = 0; i < p->nconst; i++) {
    int attr = p->consts[i].attr;
    if (attr < 0) consts[i] = p->consts[i].value;
    else if (row) consts[i] = cni_arg_float(args, attr);
    else if (attr < args[CONSTS].n) consts[i] = args[CONSTS].u.fs[attr];
    else
      return cni_fail(CN_ERR_VALUE, "pointwise: the program wants constant %d, only %d are given", attr,
                      args[CONSTS].n);
  }
  return CN_OK;
}

const cni_program *cni_program_of(const cn_call *c) { return program_of(c->op, c->args, c->compute); }

bool cni_program_rounds(const cn_call *c, int i)
{
  const cn_desc *d = &c->in[i]->d;
  const cni_pointwise *pw = c->op->pointwise;
  if (!pw || pw->kind == CNI_UPD || (c->compute != CN_F16 && c->compute != CN_BF16)) return false;
  if (d->dtype == c->compute || d->dtype == CN_BOOL) return false;
  const cni_opinfo *info = d->numel == 1 ? cni_op_info(c->op) : NULL;
  return !info || !info->params[info->tensors[i]].exact || !(d->weak || i == c->nin - 1);
}

/* ---- infer ---- */

/* What an op of this kind computes in, and what type its result has, where its inputs promote to dtype. */
static inline int choose_types(cn_call *c, enum cni_kind kind, int dtype, int *result)
{
  *result = dtype;
  switch (kind) {
  case CNI_FLT: *result = dtype = cni_float_type(dtype); break;
  case CNI_NUM:
  case CNI_UPD:
  case CNI_SEL: break;
  case CNI_INT:
    if (dtype == CN_BOOL) *result = dtype = CN_I64;
    break;
  case CNI_SGN:
  case CNI_QUO:
    if (dtype == CN_BOOL)
      return cn_call_fail(c, CN_ERR_DTYPE, "bool tensors are not supported; use logical_not, logical_xor or a cast");
    break;
  case CNI_CMP:
  case CNI_LOG:
  case CNI_FIT: *result = CN_BOOL; break;
  case CNI_BIT:
    if (cni_dtype_is_float(dtype))
      return cn_call_fail(c, CN_ERR_DTYPE, "takes integers or bool, not %s", cn_dtype_name((cn_dtype)dtype));
    break;
  }
  c->compute = dtype;
  return CN_OK;
}

/* Are all inputs tensors of the first one's type and shape? Then that is what they promote and broadcast to. */
static inline bool all_alike(const cn_call *c)
{
  const cn_desc *a = &c->in[0]->d;
  for (int i = 1; i < c->nin; i++) {
    const cn_desc *b = &c->in[i]->d;
    if (b->dtype != a->dtype || !cni_same_shape(a->ndim, a->shape, b->ndim, b->shape)) return false;
  }
  return a->ndim && cni_dtype_computes(a->dtype);
}

int cni_pointwise_infer(cn_call *c)
{
  const cni_pointwise *pw = c->op->pointwise;
  int ndim, dtype, status, skip = pw->kind == CNI_SEL;
  int64_t shape[CN_MAX_DIMS];
  if (CNI_LIKELY(all_alike(c))) {
    if ((status = choose_types(c, pw->kind, c->in[0]->d.dtype, &dtype))) return status;
    return cni_infer_like(c, 0, 0, dtype);
  }
  if (!(dtype = cni_result_type(c, c->in + skip, c->nin - skip))) return CN_ERR_DTYPE;
  if ((status = choose_types(c, pw->kind, dtype, &dtype))) return status;
  if ((status = cni_broadcast_inputs(c, c->in, c->nin, &ndim, shape))) return status;
  if ((status = cn_call_result(c, 0, dtype, ndim, shape))) return status;
  cni_follow_strides(c, 0, c->in, c->nin);
  return CN_OK;
}

/* A program may be anything: each step must exist for the type it computes in. */
static int check_steps(const cn_call *c, const cni_program *p, int dtype)
{
  bool is_float = cni_dtype_is_float(dtype);
  for (int i = 0; i < p->nstep; i++) {
    const cni_prim_info *prim = &cni_prims[p->steps[i].prim];
    if (is_float ? prim->kind == CNI_BIT : prim->kind == CNI_FLT)
      return cn_call_fail(c, CN_ERR_DTYPE, "its step %s does not take %s", prim->name,
                          cn_dtype_name((cn_dtype)dtype));
  }
  return CN_OK;
}

/* A program with types of its own takes these alone. */
static int check_types(cn_call *c, const cni_program *p)
{
  for (int i = 0; i < p->nin; i++)
    if (c->in[i]->d.dtype != p->in[i].dtype)
      return cn_call_fail(c, CN_ERR_DTYPE, "input %d is %s, the program takes %s", i,
                          cn_dtype_name((cn_dtype)c->in[i]->d.dtype), cn_dtype_name((cn_dtype)p->in[i].dtype));
  c->compute = p->out_dtype[0];
  return CN_OK;
}

/* Are the constants that it wants given? */
static int check_consts(const cn_call *c, const cni_program *p)
{
  for (int i = 0; i < p->nconst; i++)
    if (p->consts[i].attr >= c->args[CONSTS].n)
      return cn_call_fail(c, CN_ERR_VALUE, "the program wants constant %d, only %d are given", p->consts[i].attr,
                          c->args[CONSTS].n);
  return CN_OK;
}

/* Result i of a program with steps along rows: one value for each row, or dense rows. */
static int infer_row(cn_call *c, const cni_program *p, int i, int ndim, const int64_t *shape)
{
  int64_t size[CN_MAX_DIMS];
  for (int k = 0; k < ndim; k++) size[k] = p->row[p->out[i]] && k >= ndim - p->row_dims ? 1 : shape[k];
  return cn_call_result(c, i, p->out_dtype[i], ndim, size);
}

static int program_infer(cn_call *c)
{
  int ndim, dtype = 0, status;
  int64_t shape[CN_MAX_DIMS];
  const cni_program *p = cni_program_of(c);
  if (!p) return CN_ERR_VALUE;
  if (p->nin != c->nin) return cn_call_fail(c, CN_ERR_VALUE, "the program takes %d inputs, not %d", p->nin, c->nin);
  if (p->nout > c->nout) return cn_call_fail(c, CN_ERR_VALUE, "the program gives %d results", p->nout);
  if ((status = check_consts(c, p)) || (p->typed && (status = check_types(c, p)))) return status;
  if (!p->typed) {
    if (!(dtype = cni_result_type(c, c->in, c->nin))) return CN_ERR_DTYPE;
    if ((status = choose_types(c, CNI_NUM, dtype, &dtype)) || (status = check_steps(c, p, dtype))) return status;
  }
  if ((status = cni_broadcast_inputs(c, c->in, c->nin, &ndim, shape))) return status;
  if (p->row_dims > ndim)
    return cn_call_fail(c, CN_ERR_VALUE, "the program's rows have %d dims, its inputs %d", p->row_dims, ndim);
  c->nout = p->nout;
  for (int i = 0; p->row_dims && i < p->nout && !status; i++) status = infer_row(c, p, i, ndim, shape);
  for (int i = 0; !p->row_dims && i < p->nout && !status; i++) {
    status = cn_call_result(c, i, p->typed ? p->out_dtype[i] : dtype, ndim, shape);
    if (!status) cni_follow_strides(c, i, c->in, c->nin);
  }
  return status;
}

/* ---- gradient ---- */

/* Of programs with more inputs than a mask has bits, or more wanted gradients than an op has results: window by window,
 * chunk by chunk. */
static CNI_APART int64_t needs_of_many(const cn_call *c, const cni_program *p)
{
  int64_t needs = 0;
  for (int first = 0; first < c->nin; first += CNI_GRAD_WINDOW) {
    uint64_t want = 0;
    for (int i = first; i < c->nin && i < first + CNI_GRAD_WINDOW; i++)
      want |= (uint64_t)(c->in[i]->node || cni_tensor_stale(c->in[i])) << (i - first);
    while (want) {
      const cni_program_grad *grad = cni_program_gradient(c->op, c->args, p, first, cni_grad_chunk(&want), 0);
      if (!grad) return -1;
      needs |= grad->needs;
    }
  }
  return needs;
}

int64_t cni_pointwise_needs(const cn_call *c, uint64_t want)
{
  const cni_pointwise *pw = c->op->pointwise;
  unsigned numbers = 0;
  for (int i = 0; pw && pw->grad && i < c->nin; i++) numbers |= (c->in[i]->d.weak & 1) << i;
  const cni_program *p = program_of(c->op, c->args, 0);
  if (CNI_UNLIKELY(c->nin > CNI_MAX_RESULTS)) return p ? needs_of_many(c, p) : -1;
  const cni_program_grad *grad = p ? cni_program_gradient(c->op, c->args, p, 0, want, numbers) : NULL;
  return grad ? grad->needs : -1;
}

/* Results whose gradient is zero (NULL) get a zero tensor: programs have no absent inputs. */
static cn_tensor *gradient_or_zero(const cn_vjp *v, int i)
{
  if (v->g[i]) return v->g[i];
  for (int k = 0; k < v->nout; k++)
    if (v->g[k]) return cn_zeros_like_with(v->g[k], NULL);
  return NULL;
}

/* Wanted inputs, of those from `first` on. */
typedef struct wanted {
  int first;
  uint64_t mask;
} wanted;

/* Hands gradients out to the wanted inputs, in order. */
static void give(cn_vjp *v, wanted w, cn_tensor *const *g)
{
  for (; w.mask; w.mask &= w.mask - 1) v->gin[w.first + __builtin_ctzll(w.mask)] = *g++;
}

/* A program that hands one gradient through needs no pass over memory. */
static bool passes_through(const cni_program_grad *grad, cn_vjp *v, wanted w)
{
  const cni_program *p = grad->program;
  cn_tensor *g[CNI_MAX_RESULTS];
  for (int k = 0; k < p->nout; k++) {
    if (p->out[k] >= p->nin || grad->source[p->out[k]] >= v->nout) return false;
    g[k] = v->g[grad->source[p->out[k]]];
  }
  give(v, w, g);
  return true;
}

/* The constants of the gradient's call: for the op "pointwise" its own, for a row its attributes by parameter. */
static cn_value gradient_consts(const cn_vjp *v, double *room)
{
  if (!v->op->pointwise) return v->args[CONSTS];
  for (int i = 0; i < v->nargs; i++) {
    int tag = v->args[i].tag;
    room[i] = tag == CN_V_FLOAT || tag == CN_V_INT || tag == CN_V_BOOL ? cni_arg_float(v->args, i) : 0;
  }
  return cn_v_floats(room, (size_t)v->nargs);
}

/* One step of a program as a call of its own. NULL with the error set. */
static cn_tensor *run_step(const cni_step *s, cn_tensor *const *reg)
{
  cni_builder b;
  cn_tensor *in[3], *out;
  int arity = cni_prims[s->prim].arity;
  for (int k = 0; k < arity; k++) in[k] = reg[s->arg[k]];
  cni_build_begin(&b, arity);
  b.out[b.nout++] = cni_build_step(&b, (enum cni_prim)s->prim, 0, arity > 1 ? 1 : -1, arity > 2 ? 2 : -1);
  const cni_program *p = cni_build_end(&b);
  if (!p) return NULL;
  cn_value args[] = {[INPUTS] = cn_v_tensors(in, (size_t)arity), [PROGRAM] = cni_v_program(p),
                     [CONSTS] = cn_v_floats(NULL, 0)};
  return cni_apply_list(CNI_OP_pointwise, args, 3, &out, 1) < 0 ? NULL : out;
}

/* The gradient program p step by step, so that each step is recorded with a small gradient of its own. Results are
 * linear in the gradients that came in, in[0] among them: they have its shape by themselves, or are 0. */
static int run_steps(const cni_program *p, cn_tensor *const *in, const cn_value *consts, cn_tensor **out)
{
  int first = p->nin + p->nconst;
  size_t bytes = (size_t)(first + p->nstep) * sizeof(cn_tensor *);
  cn_tensor **reg = cni_alloc(bytes);
  if (!reg) return CN_ERR_MEMORY;
  for (int i = 0; i < p->nin; i++) reg[i] = in[i];
  for (int i = 0; i < p->nconst; i++) {
    int attr = p->consts[i].attr;
    reg[p->nin + i] = cn_num(attr < 0 ? p->consts[i].value : consts->u.fs[attr]);
  }
  for (int i = 0; i < p->nstep && !cn_err(); i++) reg[first + i] = run_step(&p->steps[i], reg);
  for (int k = 0; k < p->nout && !cn_err(); k++)
    out[k] = p->out[k] < p->nin || p->out[k] >= first ? reg[p->out[k]] : cn_zeros_like_with(in[0], NULL);
  cni_free(reg, bytes);
  return cn_err();
}

/* Runs the gradient program p: in one pass over memory, unless it is to be differentiated and is too large for that. */
static int run_gradient(const cni_program *p, cn_tensor *const *in, const cn_value *consts, cn_tensor **out)
{
  uint64_t want = 0;
  if (!cni_state()->no_grad)
    for (int k = 0; k < p->nin; k++)
      want |= (uint64_t)(in[k]->node || cni_tensor_stale(in[k])) << (k < CNI_GRAD_WINDOW ? k : CNI_GRAD_WINDOW - 1);
  int fits = want ? cni_program_has_gradient(p, want) : 1;
  if (fits < 1) return fits < 0 ? fits : run_steps(p, in, consts, out);
  cn_value args[] = {[INPUTS] = cn_v_tensors(in, (size_t)p->nin), [PROGRAM] = cni_v_program(p), [CONSTS] = *consts};
  int n = cni_apply_list(CNI_OP_pointwise, args, 3, out, CNI_MAX_RESULTS);
  return n < 0 ? n : CN_OK;
}

/* The gradients of some wanted inputs; in: room for the program's. */
static int gradients_of(cn_vjp *v, const cni_program *p, const cni_program_grad *grad, wanted w, cn_tensor **in)
{
  double room[CN_MAX_ARGS];
  cn_tensor *out[CNI_MAX_RESULTS];
  if (passes_through(grad, v, w)) return CN_OK;
  for (int k = 0; k < grad->program->nin; k++) {
    int s = grad->source[k];
    in[k] = s < p->nout ? gradient_or_zero(v, s) : s < p->nout + p->nin ? v->in[s - p->nout]
                                                                       : v->out[s - p->nout - p->nin];
  }
  cn_value consts = gradient_consts(v, room);
  int status = run_gradient(grad->program, in, &consts, out);
  if (!status) give(v, w, out);
  return status;
}

/* More inputs than a mask has bits, or more wanted than an op has results. */
static CNI_APART int vjp_of_many(cn_vjp *v, const cni_program *p)
{
  size_t bytes = (size_t)(2 * p->nout + p->nin) * sizeof(cn_tensor *);
  cn_tensor **in = cni_alloc(bytes);
  int status = in ? CN_OK : CN_ERR_MEMORY;
  for (int first = 0; first < v->nin && !status; first += CNI_GRAD_WINDOW) {
    uint64_t want = 0;
    for (int i = first; i < v->nin && i < first + CNI_GRAD_WINDOW; i++) want |= (uint64_t)v->need[i] << (i - first);
    while (want && !status) {
      wanted w = {first, cni_grad_chunk(&want)};
      const cni_program_grad *grad = cni_program_gradient(v->op, v->args, p, first, w.mask, 0);
      status = grad ? gradients_of(v, p, grad, w, in) : cn_err();
    }
  }
  cni_free(in, bytes);
  return status;
}

int cni_pointwise_vjp(cn_vjp *v)
{
  cn_tensor *in[3 * CNI_MAX_RESULTS];
  wanted w = {0, 0};
  unsigned numbers = 0;
  const cni_program *p = program_of(v->op, v->args, 0);
  if (!p) return cn_err();
  if (CNI_UNLIKELY(v->nin > CNI_MAX_RESULTS)) return vjp_of_many(v, p);
  for (int i = 0; i < v->nin; i++) {
    w.mask |= (uint64_t)v->need[i] << i;
    numbers |= (unsigned)v->in_meta[i].weak << i;
  }
  const cni_program_grad *grad = cni_program_gradient(v->op, v->args, p, 0, w.mask, numbers);
  return grad ? gradients_of(v, p, grad, w, in) : cn_err();
}

/* ---- rows ---- */

#define PWP1(...)
#define PWP2(...)
#define PWP3(...)
#define PW1(name, kind, ...) \
  static int build_##name(cni_builder *b, int variant) \
  { \
    (void)variant; \
    return cni_build_step(b, CNI_PW_##name, 0, -1, -1); \
  } \
  static cni_pointwise pw_##name = {CNI_##kind, 1, NULL, build_##name, NULL, {0}};
#define PW2(name, kind, ...) \
  static int build_##name(cni_builder *b, int variant) \
  { \
    (void)variant; \
    return cni_build_step(b, CNI_PW_##name, 0, 1, -1); \
  } \
  static cni_pointwise pw_##name = {CNI_##kind, 2, NULL, build_##name, NULL, {0}};
#include "pointwise.def"
#undef PW1
#undef PW2

/* clang-format off */
const cn_op cni_pointwise_ops[] = {
  {.sig = "pointwise(Tensor[] inputs, str program, float[] consts) -> Tensor[] ; grad_fn_MulBackward0",
   .doc = "Runs a pointwise program over broadcast inputs in one pass; what gradients of pointwise ops are made of.",
   .flags = CN_OP_ALIAS_SAFE, .cost = cni_cost_pointwise, .infer = program_infer, .vjp = cni_pointwise_vjp},
/* more: the tags at the end of the line, if any */
#define ROW(name, kind, operands, more) \
  CNI_POINTWISE_ROW(#name "(" operands ") -> Tensor ; method inplace " more, NULL, &pw_##name, FLAGS_##kind),
#define COPIED(name, kind, operands, more) \
  CNI_POINTWISE_COPIED(#name "(" operands ") -> Tensor ; method inplace " more, &pw_##name, FLAGS_##kind),
#define PW1(name, kind, formula, ga, ...) ROW(name, kind, PW_OPERANDS_1, __VA_ARGS__)
#define PW2(name, kind, formula, ga, gb, ...) ROW(name, kind, PW_OPERANDS_2, __VA_ARGS__)
#define PW2C(name, kind, formula, ga, gb, ...) COPIED(name, kind, PW_OPERANDS_2C, __VA_ARGS__)
#define PW2S(name, kind, formula, ga, gb, ...) ROW(name, kind, PW_OPERANDS_2S, __VA_ARGS__)
#define PW2SS(name, kind, formula, ga, gb, ...) ROW(name, kind, PW_OPERANDS_2SS, __VA_ARGS__)
#include "pointwise.def"
};
/* clang-format on */
CNI_FAMILY(pointwise);
