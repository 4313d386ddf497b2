/* lower.c: ops as nests: formulas, views, copies, joins, gathers; lower_reduce.c has what reduces.
 *
 * Place in the flow: whoever wants to compute an op without a kernel for it (C export) asks cni_lower with a call whose
 * results are there. Invariant: a nest of an op without sums gives what the CPU's kernel gives, to the bit; sums are in
 * another order. */
#include "lower.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "ops/infer.h"
#include "tensor/tensor.h"

/* ---- expressions ---- */

static int noted(cni_lowering *w, int expr)
{
  if (expr >= 0) return expr;
  w->status = cn_err() ? cn_err() : cni_fail(CN_ERR_UNSUPPORTED, "loop: an index that is too large an expression");
  return -1;
}

int cni_lw_const(cni_lowering *w, int64_t value)
{
  return w->status ? -1 : noted(w, cni_expr_const(&w->n->exprs, value));
}
int cni_lw_axis(cni_lowering *w, int axis) { return w->status ? -1 : noted(w, cni_nest_variable(w->n, axis)); }

int cni_lw_make(cni_lowering *w, enum cni_expr_op op, int a, int b)
{
  return w->status ? -1 : noted(w, cni_expr_make(&w->n->exprs, op, a, b));
}

int cni_lw_affine(cni_lowering *w, int axis, int64_t scale, int64_t shift)
{
  int e = cni_lw_axis(w, axis);
  if (scale != 1) e = cni_lw_make(w, CNI_EXPR_MUL, e, cni_lw_const(w, scale));
  if (shift > 0) e = cni_lw_make(w, CNI_EXPR_ADD, e, cni_lw_const(w, shift));
  if (shift < 0) e = cni_lw_make(w, CNI_EXPR_SUB, e, cni_lw_const(w, -shift));
  return e;
}

/* ---- parts ---- */

static int add_axis(cni_lowering *w, char letter, int64_t size)
{
  char name[CNI_AXIS_NAME];
  snprintf(name, sizeof name, "%c%d", letter, w->n->naxes);
  int axis = w->status ? -1 : cni_nest_axis(w->n, name, size);
  if (axis < 0 && !w->status) w->status = axis;
  return axis;
}

void cni_lw_results(cni_lowering *w)
{
  cni_store *s = &w->n->store[0];
  for (int k = 0; k < w->y->ndim; k++) add_axis(w, 'i', w->y->shape[k]);
  w->n->nfor = w->n->naxes;
  *s = (cni_store){.dtype = w->y->dtype, .ndim = w->y->ndim};
  for (int k = 0; k < w->y->ndim; k++) s->index[k] = cni_lw_axis(w, k);
  w->n->nstores = 1;
}

int cni_lw_reduced(cni_lowering *w, int64_t size) { return add_axis(w, 'k', size); }

static cni_load *add_load(cni_lowering *w, int operand, enum cni_compute class, bool late)
{
  cni_load *l = w->status ? NULL : cni_nest_load(w->n, operand, class, late);
  if (!l && !w->status) w->status = CN_ERR_MEMORY;
  return l ? l : &w->nowhere;
}

cni_load *cni_lw_load(cni_lowering *w, int operand, bool late)
{
  return add_load(w, operand, cni_compute_class(cni_lw_in(w, operand)->dtype), late);
}

void cni_lw_index(cni_lowering *w, cni_load *l, int expr)
{
  if (!w->status) l->index[l->ndim++] = expr;
}

void cni_lw_guard(cni_lowering *w, cni_load *l, int expr, int64_t below)
{
  if (!w->status) w->status = cni_nest_guard(l, expr, below);
}

cni_load *cni_lw_same(cni_lowering *w, int operand, enum cni_compute class, bool late)
{
  const cn_desc *x = cni_lw_in(w, operand);
  cni_load *l = add_load(w, operand, class, late);
  int lead = w->y->ndim - x->ndim;
  for (int k = 0; k < x->ndim; k++)
    cni_lw_index(w, l, x->shape[k] == 1 && w->y->shape[lead + k] != 1 ? cni_lw_const(w, 0) : cni_lw_axis(w, lead + k));
  return l;
}

static const cni_program *program(cni_lowering *w, const char *text)
{
  cn_text t = {0};
  for (; *text && !w->status; text++) {
    if (*text == '%' && text[1] == 'T') cn_text_put(&t, cn_dtype_name((cn_dtype)w->y->dtype)), text++;
    else if (*text == '%') cn_text_put(&t, cni_compute_names[cni_compute_class(w->y->dtype)]), text++;
    else cn_text_put_bytes(&t, text, 1);
  }
  const cni_program *p = w->status ? NULL : cni_program_parse(t.s);
  cn_text_free(&t);
  if (!p && !w->status) w->status = cn_err();
  return p;
}

void cni_lw_do(cni_lowering *w, const char *text) { w->n->body = program(w, text); }
void cni_lw_then(cni_lowering *w, const char *text) { w->n->then = program(w, text); }

void cni_lw_fold(cni_lowering *w, int i, enum cni_fold fold, double from)
{
  w->n->fold[i] = (cni_accumulator){fold, cni_compute_class(w->y->dtype), from};
}

/* ---- formulas ---- */

static int write_formula(cni_builder *b, const cn_call *c, const cni_program *p, enum cni_compute class, int *reg)
{
  double few[16], *consts = few;
  size_t bytes = (size_t)p->nconst * sizeof *consts;
  if (p->nconst > 16 && !(consts = cni_alloc(bytes))) return CN_ERR_MEMORY;
  int status = cni_program_consts(consts, c, p);
  for (int i = 0; i < p->nin && !status; i++)
    reg[i] = cni_program_rounds(c, i) ? cni_build_convert(b, i, class, c->compute) : i;
  for (int i = 0; i < p->nconst && !status; i++) reg[p->nin + i] = cni_build_const(b, consts[i]);
  for (int i = 0; i < p->nstep && !status; i++) {
    const cni_step *s = &p->steps[i];
    reg[p->nin + p->nconst + i] = cni_build_step(b, (enum cni_prim)s->prim, reg[s->arg[0]], reg[s->arg[1]],
                                                 reg[s->arg[2]]);
  }
  if (consts != few) cni_free(consts, bytes);
  return status;
}

static const cni_program *typed_formula(cni_lowering *w, const cni_program *p, enum cni_compute class)
{
  size_t nreg = (size_t)(p->nin + p->nconst + p->nstep), bytes = nreg * (sizeof(int) + sizeof(cni_prog_input));
  int *reg = cni_alloc(bytes);
  if (!reg) return NULL;
  cni_prog_input *in = (cni_prog_input *)(void *)(reg + nreg);
  cni_builder b;
  cni_build_begin(&b, p->nin);
  for (int i = 0; i < p->nin; i++) in[i] = (cni_prog_input){(uint8_t)cni_lw_in(w, i)->dtype, (uint8_t)class};
  b.typed = true;
  b.in = in;
  b.class = class;
  b.origin = cni_op_info(w->c->op)->name;
  int status = write_formula(&b, w->c, p, class, reg);
  for (int k = 0; k < p->nout && !status; k++) {
    b.out[b.nout] = reg[p->out[k]];
    b.out_dtype[b.nout++] = (uint8_t)cn_desc_of(w->c->out[k])->dtype;
  }
  const cni_program *made = status ? NULL : cni_build_end(&b);
  cni_build_drop(&b);
  cni_free(reg, bytes);
  return made;
}

static void lower_formula(cni_lowering *w)
{
  cn_spec spec[CNI_MAX_RESULTS] = {{0}};
  cn_call c = *w->c; /* its rule says what it computes in */
  c.spec = spec;
  if ((w->status = c.op->infer(&c))) return;
  w->c = &c;
  const cni_program *p = cni_program_of(&c);
  enum cni_compute class = cni_compute_class(c.compute);
  if (!p || p->typed) {
    w->status = p ? CN_REFUSED : cn_err();
    return;
  }
  cni_lw_results(w);
  for (int i = 0; i < c.nin; i++) cni_lw_same(w, i, class, false);
  if (!w->status && !(w->n->body = typed_formula(w, p, class))) w->status = cn_err();
  for (int k = 1; k < c.nout && !w->status; k++) {
    w->n->store[k] = w->n->store[0];
    w->n->store[k].dtype = cn_desc_of(c.out[k])->dtype;
    w->n->nstores++;
  }
}

/* ---- copies and views ---- */

/* The one input as it is: its own type in, the result's out. */
static void copy_through(cni_lowering *w, const cni_load *l)
{
  char text[80];
  const char *name = cni_compute_names[l->class];
  int dtype = l->operand < 0 ? CN_I64 : cni_lw_in(w, l->operand)->dtype;
  snprintf(text, sizeof text, "%s:%s|||0:%%T", cn_dtype_name((cn_dtype)dtype), name);
  cni_lw_do(w, text);
}

static void lower_copy(cni_lowering *w)
{
  int from = w->c->nin - 1;
  cni_lw_results(w);
  copy_through(w, cni_lw_same(w, from, cni_compute_class(cni_lw_in(w, from)->dtype), false));
}

/* Dim k of a row-major tensor at element `flat`: flat // stride, less the dims before it. */
static int dim_of(cni_lowering *w, const cn_desc *x, int flat, int k)
{
  int at = x->strides[k] == 1 ? flat : cni_lw_make(w, CNI_EXPR_DIV, flat, cni_lw_const(w, x->strides[k]));
  if (k == 0) return at;
  int size = cni_lw_const(w, x->shape[k]), whole = cni_lw_make(w, CNI_EXPR_DIV, at, size);
  return cni_lw_make(w, CNI_EXPR_SUB, at, cni_lw_make(w, CNI_EXPR_MUL, whole, size));
}

/* Any view of row-major memory: where its elements lie says where they come from. */
static void lower_view(cni_lowering *w)
{
  const cn_desc *x = cni_lw_in(w, 0), *y = w->y;
  bool same_type = y->dtype == x->dtype && x->numel > 0;
  if (!same_type || !cni_is_contiguous(x->ndim, x->shape, x->strides)) {
    w->status = CN_REFUSED;
    return;
  }
  cni_lw_results(w);
  cni_load *l = cni_lw_load(w, 0, false);
  int64_t first = ((const char *)y->data - (const char *)x->data) / (int64_t)cni_dtype_size(x->dtype);
  int flat = cni_lw_const(w, first);
  for (int k = 0; k < y->ndim; k++)
    if (y->shape[k] != 1 && y->strides[k])
      flat = cni_lw_make(w, CNI_EXPR_ADD, flat, cni_lw_affine(w, k, y->strides[k], 0));
  for (int k = 0; k < x->ndim; k++) {
    int e = x->shape[k] == 1 ? cni_lw_const(w, 0) : dim_of(w, x, flat, k);
    cni_lw_index(w, l, e);
    if (x->shape[k] != 1) cni_lw_guard(w, l, e, x->shape[k]); /* always holds, and says so */
  }
  copy_through(w, l);
}

static void lower_flip(cni_lowering *w)
{
  const cn_desc *x = cni_lw_in(w, 0);
  uint32_t mask;
  if ((w->status = cni_dims_mask(w->c, &w->c->args[1], x->ndim, &mask))) return;
  cni_lw_results(w);
  cni_load *l = cni_lw_load(w, 0, false);
  for (int k = 0; k < x->ndim; k++)
    cni_lw_index(w, l, mask >> k & 1 && x->ndim ? cni_lw_affine(w, k, -1, x->shape[k] - 1) : cni_lw_axis(w, k));
  copy_through(w, l);
}

/* constant_pad_nd(input, pad, value): pairs of the last dims first. */
static void lower_pad(cni_lowering *w)
{
  const cn_desc *x = cni_lw_in(w, 0);
  const cn_value *pad = &w->c->args[1];
  cni_lw_results(w);
  cni_load *l = cni_lw_load(w, 0, false);
  for (int k = 0; k < x->ndim; k++) {
    int pair = 2 * (x->ndim - 1 - k);
    int64_t before = pair < pad->n ? pad->u.is[pair] : 0;
    int e = cni_lw_affine(w, k, 1, -before);
    cni_lw_index(w, l, e);
    cni_lw_guard(w, l, e, x->shape[k]);
  }
  l->otherwise = cni_arg_float(w->c->args, 2);
  copy_through(w, l);
}

/* cat(tensors, dim): of each where it is, chosen by where the result is. */
static void lower_cat(cni_lowering *w)
{
  int dim = cn_call_dim(w->c, w->c->args[1].u.i, w->y->ndim), n = w->c->nin;
  enum cni_compute class = cni_compute_class(w->y->dtype);
  int64_t at = 0;
  cn_text text = {0};
  for (int i = 0; i < n; i++)
    if (dim < 0 || cni_lw_in(w, i)->dtype != w->y->dtype || cni_lw_in(w, i)->ndim != w->y->ndim) w->status = CN_REFUSED;
  cni_lw_results(w);
  cni_load *where = add_load(w, -1, CNI_C_I64, false);
  cni_lw_index(w, where, cni_lw_axis(w, dim));
  cn_text_put(&text, "int64:i64");
  for (int i = 0; i < n && !w->status; i++) {
    cni_load *l = add_load(w, i, class, false);
    int here = cni_lw_affine(w, dim, 1, -at);
    for (int k = 0; k < w->y->ndim; k++) cni_lw_index(w, l, k == dim ? here : cni_lw_axis(w, k));
    cni_lw_guard(w, l, here, cni_lw_in(w, i)->shape[dim]);
    at += cni_lw_in(w, i)->shape[dim];
    cn_text_put(&text, ",%T:%C");
  }
  cn_text_put(&text, "|");
  at = 0;
  for (int i = 0; i < n - 1 && !w->status; i++)
    cn_text_putf(&text, "%s%lld:i64", i ? "," : "", (long long)(at += cni_lw_in(w, i)->shape[dim]));
  cn_text_put(&text, "|");
  for (int i = n - 2; i >= 0; i--) { /* three steps each: is it before the end of part i? */
    int reg = n + 1 + n - 1 + 3 * (n - 2 - i), rest = i == n - 2 ? n : reg - 1;
    cn_text_putf(&text, "%slt:i64 0 %d;to:%%C %d;where:%%C %d %d %d", i == n - 2 ? "" : ";", n + 1 + i, reg, reg + 1,
                 i + 1, rest);
  }
  cn_text_putf(&text, "|%d:%%T", n == 1 ? 1 : n + 1 + n - 1 + 3 * (n - 1) - 1);
  if (!w->status) cni_lw_do(w, text.s);
  cn_text_free(&text);
}

/* ---- gathers ---- */

/* The integers of an index, which load 0 reads, as the number of a dim. */
static void gathered(cni_lowering *w, cni_load *l, int64_t size)
{
  int e = w->status ? -1 : cni_nest_gathered(w->n, 0);
  cni_lw_index(w, l, e);
  cni_lw_guard(w, l, e, size);
}

static void finish_gather(cni_lowering *w)
{
  char text[120];
  int index = w->n->loads && w->n->nloads > 1 ? w->n->loads[0].operand : 0, from = w->c->nin - 1 - index;
  snprintf(text, sizeof text, "%s:i64,%s:%%C|||1:%%T", cn_dtype_name((cn_dtype)cni_lw_in(w, index)->dtype),
           cn_dtype_name((cn_dtype)cni_lw_in(w, from)->dtype));
  if (!w->status) cni_lw_do(w, text);
}

/* gather(input, dim, index) and index_select(input, dim, index) */
static void lower_along(cni_lowering *w, bool select)
{
  const cn_desc *x = cni_lw_in(w, 0), *index = cni_lw_in(w, 1);
  int dim = cn_call_dim(w->c, w->c->args[1].u.i, x->ndim);
  if (dim < 0 || !x->ndim || (select ? index->ndim != 1 : index->ndim != x->ndim)) {
    w->status = dim < 0 ? dim : CN_REFUSED;
    return;
  }
  cni_lw_results(w);
  cni_load *at = add_load(w, 1, CNI_C_I64, false);
  for (int k = 0; k < index->ndim; k++) cni_lw_index(w, at, cni_lw_axis(w, select ? dim : k));
  cni_load *l = cni_lw_load(w, 0, false);
  for (int k = 0; k < x->ndim; k++)
    if (k == dim) gathered(w, l, x->shape[k]);
    else cni_lw_index(w, l, cni_lw_axis(w, k));
  finish_gather(w);
}

static void lower_gather(cni_lowering *w) { lower_along(w, false); }
static void lower_index_select(cni_lowering *w) { lower_along(w, true); }

/* embedding(input, weight) */
static void lower_embedding(cni_lowering *w)
{
  const cn_desc *index = cni_lw_in(w, 0), *weight = cni_lw_in(w, 1);
  cni_lw_results(w);
  cni_load *at = add_load(w, 0, CNI_C_I64, false);
  for (int k = 0; k < index->ndim; k++) cni_lw_index(w, at, cni_lw_axis(w, k));
  cni_load *l = cni_lw_load(w, 1, false);
  gathered(w, l, weight->shape[0]);
  cni_lw_index(w, l, cni_lw_axis(w, index->ndim));
  finish_gather(w);
}

/* ---- the table ---- */

static const struct row {
  const char *op;
  void (*lower)(cni_lowering *w);
} rows[] = {
  {"pointwise", lower_formula}, {"cast", lower_copy}, {"clone", lower_copy}, {"contiguous_copy", lower_copy},
  {"channels_last", lower_copy}, {"copy", lower_copy}, {"flip", lower_flip}, {"constant_pad_nd", lower_pad},
  {"cat", lower_cat}, {"gather", lower_gather}, {"index_select", lower_index_select}, {"embedding", lower_embedding},
  {"sum", cni_lower_sum}, {"mean", cni_lower_mean}, {"prod", cni_lower_prod}, {"amax", cni_lower_amax},
  {"amin", cni_lower_amin}, {"mm", cni_lower_product}, {"bmm", cni_lower_product}, {"linear", cni_lower_linear},
  {"conv2d", cni_lower_conv2d}, {"max_pool2d", cni_lower_max_pool2d}, {"avg_pool2d", cni_lower_avg_pool2d},
};

static void (*row_of(const cn_op *op))(cni_lowering *w)
{
  const cni_opinfo *info = cni_op_info(op);
  if (op->pointwise) return lower_formula;
  if (op->flags & CN_OP_VIEW) return lower_view;
  for (size_t i = 0; info && i < sizeof rows / sizeof *rows; i++)
    if (!strcmp(rows[i].op, info->name)) return rows[i].lower;
  return NULL;
}

bool cni_lowers(const cn_op *op) { return row_of(op) != NULL; }

int cni_lower(cni_nest *n, const cn_call *c)
{
  void (*lower)(cni_lowering *) = row_of(c->op);
  cni_lowering w = {.n = n, .c = c, .y = c->nout && c->out[0] ? cn_desc_of(c->out[0]) : NULL};
  memset(n, 0, sizeof *n);
  if (!lower || !w.y) return CN_REFUSED;
  for (int i = 0; i < c->nin; i++)
    if (c->in[i] && (!cni_dtype_computes(cni_lw_in(&w, i)->dtype) || cni_dtype_is_complex(cni_lw_in(&w, i)->dtype)))
      return CN_REFUSED;
  for (int i = 0; i < c->nout; i++)
    if (!cni_dtype_computes(cn_desc_of(c->out[i])->dtype) || cni_dtype_is_complex(cn_desc_of(c->out[i])->dtype))
      return CN_REFUSED;
  lower(&w);
  if (w.status) cni_nest_free(n);
  return w.status;
}
