/* pointwise.c: formulas' programs, step by step.
 *
 * Place in the flow: graph.c calls this for ops that have a program and no row; cn_graph_formula_at gives it as text,
 * each step is a primitive in the words of expr.c. Invariant: what is computed, and where it is rounded, is what the
 * CPU's loops do: small types are computed in float32 or int64. */
#include <string.h>

#include "formats/formula.h"
#include "row.h"

typedef struct program {
  cni_oxcall *c;
  cni_formula f;
  cni_oxval *reg;
  size_t nreg, cap;
  int type; /* of the registers of a program that has no types of its own */
} program;

static void put(program *p, cni_oxval v)
{
  if (cn_grow((void **)&p->reg, &p->cap, p->nreg + 1, sizeof *p->reg)) p->c->x->failed = true;
  else p->reg[p->nreg++] = v;
}

static cni_oxval get(program *p, int i)
{
  if (p->c->x->failed) return cni_ox_absent();
  if (!p->f.bad && i >= 0 && (size_t)i < p->nreg) return p->reg[i];
  cni_ox_fail(p->c->x, CN_ERR_INTERNAL, "%s: a program that is not understood", p->c->name);
  return cni_ox_absent();
}

/* ---- inputs ---- */

/* As it would be if it were stored in that type. */
static cni_oxval rounded(cni_ox *x, cni_oxval v, int dtype, int back)
{
  return cni_ox_cast(x, cni_ox_cast(x, v, dtype), back);
}

static cni_oxval load(program *p, int i, int type, const cn_graph_formula *f)
{
  cni_oxval v = p->c->in[i];
  bool rounds = i < 64 && f->rounded >> i & 1;
  if (v.number && !rounds) return v;
  if (rounds) return rounded(p->c->x, cni_ox_solid(p->c->x, v, type), f->compute, type);
  return cni_ox_cast(p->c->x, v, type);
}

static void load_all(program *p, const cn_graph_formula *f)
{
  const int n = p->c->nin;
  cni_formula_inputs(&p->f, n);
  for (int i = 0; i < n && !p->c->x->failed; i++) {
    const int own = cni_formula_input(&p->f, i), type = own ? own : p->type;
    cni_oxval v = load(p, i, type, f);
    if (v.number && v.dtype == CN_F64 && !cni_ox_is_float(type)) v = cni_ox_whole((int64_t)v.f);
    if (v.number && own) v = cni_ox_const(p->c->x, v, type);
    put(p, v);
  }
}

static void constants(program *p)
{
  const cn_value *args = p->c->args;
  bool own = p->c->op->pointwise != NULL;
  for (cni_formula_bar(&p->f); cni_formula_more(&p->f) && !p->c->x->failed; cni_formula_between(&p->f, ',')) {
    const cni_formula_constant k = cni_formula_read_constant(&p->f);
    cni_oxval number = cni_ox_num(k.value);
    if (k.k >= 0) {
      const int arg = own ? k.k : p->c->nargs - 1, element = own ? 0 : k.k;
      if (cni_oxarg_open(p->c, arg)) number = cni_oxarg_value(p->c, arg, element, p->type);
      else number = cni_ox_num(own ? cni_oxarg_float(p->c, k.k) : args[arg].u.fs[k.k]);
    }
    if (k.type) number = number.number ? cni_ox_const(p->c->x, number, k.type) : cni_ox_cast(p->c->x, number, k.type);
    put(p, number);
  }
}

/* ---- steps ---- */

static cni_oxval row_step(program *p, const char *name, int dims, cni_oxval v)
{
  static const struct {
    const char *name, *op;
  } folds[] = {
      {"row_sum", "ReduceSum"}, {"row_mean", "ReduceMean"}, {"row_max", "ReduceMax"}, {"row_min", "ReduceMin"}};
  uint32_t mask = 0;
  for (int k = v.ndim - dims; k < v.ndim; k++)
    if (k >= 0) mask |= 1u << k;
  for (int i = 0; i < 4; i++)
    if (!strcmp(name, folds[i].name)) return cni_ox_reduce(p->c->x, folds[i].op, v, mask, true);
  for (int k = 0; k < v.ndim; k++) /* row_first */
    if (mask >> k & 1) v = cni_ox_slice(p->c->x, v, k, cni_ox_whole(0), cni_ox_whole(1), 1);
  return v;
}

/* "to:f32:bfloat16 3": as another type, by way of a third. */
static cni_oxval converted(program *p, cni_oxval v, int type, int via)
{
  cni_ox *x = p->c->x;
  v = cni_ox_solid(x, v, p->type);
  if (via) v = cni_ox_cast(x, v, via);
  return cni_ox_cast(x, v, type);
}

static cni_oxval arithmetic(program *p, const char *name, int type, int n, cni_oxval *v)
{
  cni_ox *x = p->c->x;
  bool numbers = true;
  for (int k = 0; k < n; k++) numbers = numbers && v[k].number;
  if (!strcmp(name, "narrow")) {
    int drop = v[n - 1].number ? (int)v[n - 1].f : 0;
    return type == CN_F64 ? v[0] : rounded(x, cni_ox_solid(x, v[0], type), drop == 13 ? CN_F16 : CN_BF16, type);
  }
  for (int k = 0; k < n; k++)
    if (numbers || (v[k].number && !cni_ox_is_float(type))) v[k] = cni_ox_const(x, v[k], type);
  return cni_ox_primitive(x, name, type, n, v);
}

static void step(program *p)
{
  const cni_formula_step s = cni_formula_read_step(&p->f);
  const int type = s.type ? s.type : p->type;
  cni_oxval v[3];
  for (int i = 0; i < s.n; i++) v[i] = get(p, s.reg[i]);
  if (p->c->x->failed || !s.n) return;
  if (cn_string_starts(s.name, "row_")) put(p, row_step(p, s.name, s.dims, v[0]));
  else if (!strcmp(s.name, "to")) put(p, converted(p, v[0], type, s.via));
  else put(p, arithmetic(p, s.name, type, s.n, v));
}

/* ---- results ---- */

/* An operand that no step reads may have sizes that the result has: it is spread to those of all operands. */
static cni_oxval spread(program *p, cni_oxval v, const cni_oxval *out)
{
  cni_ox *x = p->c->x;
  cni_oxval all = cni_ox_absent();
  bool same = v.ndim == out->ndim;
  for (int k = 0; same && k < v.ndim; k++) same = v.shape[k] == out->shape[k];
  for (int i = 0; i < p->c->nin && !same; i++) {
    const cni_oxval *in = &p->c->in[i];
    if (in->id < 0 || !in->ndim) continue;
    cni_oxval part = CNI_OX_EMIT(x, "Expand", cni_ox_const(x, cni_ox_whole(0), CN_BOOL), cni_ox_shape(x, *in));
    part = cni_ox_shaped(part, in->ndim, in->shape, in->open);
    all = cni_ox_there(&all) ? CNI_OX_EMIT(x, "Or", all, part) : part;
  }
  return cni_ox_there(&all) ? cni_ox_where(x, all, v, v) : v;
}

static void result(program *p, int k, cni_oxval v)
{
  v = cni_ox_solid(p->c->x, v, p->type);
  if (v.id >= 0) v = spread(p, v, &p->c->out[k]);
  cni_ox_give(p->c, k, v);
}

/* One step of arithmetic that gives the same in a type as small as its operands'. */
static bool is_plain(const program *p, const cn_graph_formula *f)
{
  static const char *const plain[] = {"add", "sub", "mul", "neg", "maximum", "minimum", "abs", "relu"};
  const char *step = strrchr(f->text, '|');
  const char *begin = strchr(f->text, '|');
  if (!begin || !(begin = strchr(begin + 1, '|')) || memchr(begin, ';', (size_t)(step - begin))) return false;
  size_t n = strcspn(begin + 1, " ");
  for (int i = 0; i < p->c->nin; i++)
    if (p->c->in[i].number || p->c->in[i].dtype != f->compute) return false;
  if (p->c->out[0].dtype != f->compute || f->rounded || f->compute == CN_BF16) return false;
  for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
    if (strlen(plain[i]) == n && !strncmp(plain[i], begin + 1, n))
      return cni_ox_kernel_type(p->c->x, i == 7 ? "Relu" : i < 4 ? "Add" : "Max", f->compute) == f->compute;
  return false;
}

bool cni_ox_pointwise(cni_oxcall *c)
{
  cn_graph_formula f = {sizeof f};
  program p = {.c = c};
  if (cn_graph_formula_at(&f, c->graph, c->node)) {
    c->x->failed = true;
    return true;
  }
  p.f.s = f.text;
  p.type = is_plain(&p, &f) ? f.compute : cni_formula_register_type(f.compute);
  load_all(&p, &f);
  constants(&p);
  for (cni_formula_bar(&p.f); cni_formula_more(&p.f) && !c->x->failed; cni_formula_between(&p.f, ';')) step(&p);
  cni_formula_bar(&p.f);
  for (int k = 0; k < c->nout && !c->x->failed; k++) result(&p, k, get(&p, cni_formula_read_result(&p.f)));
  cn_free(p.reg, p.cap * sizeof *p.reg);
  return true;
}
