/* pointwise.c: formulas' programs, step by step.
 *
 * Place in the flow: module.c calls this for every op that has a program; cn_graph_formula_at gives it as text, each
 * step is a primitive of formulas.def. Invariant: what is computed, and where it is rounded, is what the CPU's loops
 * do: small types are computed in float32 or int64, and stored as convert.h says. */
#include <stdio.h>
#include <string.h>

#include "formats/formula.h"
#include "rows.h"

typedef struct program {
  cni_hcall *c;
  cni_formula f;
  cni_hval *reg;
  size_t nreg, cap;
  int type; /* of the registers of a program that has no types of its own */
  int ndim; /* of everything that is computed */
  int64_t shape[CN_MAX_DIMS];
} program;

static const cni_hval absent = {.id = -1};

static void put(program *p, cni_hval v)
{
  if (cn_grow((void **)&p->reg, &p->cap, p->nreg + 1, sizeof *p->reg)) p->c->h->failed = true;
  else p->reg[p->nreg++] = v;
}

static cni_hval get(program *p, int i)
{
  if (p->c->h->failed) return absent;
  if (!p->f.bad && i >= 0 && (size_t)i < p->nreg) return p->reg[i];
  cni_hlo_fail(p->c->h, CN_ERR_INTERNAL, "%s: a program that is not understood", p->c->name);
  return absent;
}

/* ---- inputs ---- */

/* As it would be if it were stored as float16 or bfloat16. */
static cni_hval rounded(cni_hlo *h, cni_hval x, int dtype)
{
  char attrs[64];
  bool half = dtype == CN_F16;
  if (x.number) return cni_hlo_convert(h, cni_hlo_splat(h, x, dtype, 0, NULL), CN_F32);
  snprintf(attrs, sizeof attrs, "exponent_bits = %d : i32, mantissa_bits = %d : i32", half ? 5 : 8, half ? 10 : 7);
  return cni_hlo_emit(h, "reduce_precision", attrs, x.dtype, x.ndim, x.shape, 1, &x);
}

static cni_hval load(program *p, int i, int type, const cn_graph_formula *f)
{
  cni_hval x = p->c->in[i];
  if (x.number && !(i < 64 && f->rounded >> i & 1)) return x;
  if (!x.number) x = cni_hlo_cast(p->c->h, x, type);
  if (i < 64 && f->rounded >> i & 1) x = rounded(p->c->h, x, f->compute);
  return cni_hlo_expand(p->c->h, x, p->ndim, p->shape);
}

static void load_all(program *p, const cn_graph_formula *f)
{
  const int n = p->c->nin;
  cni_formula_inputs(&p->f, n);
  for (int i = 0; i < n; i++) {
    const int own = cni_formula_input(&p->f, i), type = own ? own : p->type;
    put(p, load(p, i, type, f));
    if (p->c->h->failed) return;
    if (!p->reg[i].number) continue;
    p->reg[i] =
        type == CN_F32 || type == CN_F64 || p->reg[i].dtype != CN_F64 ? p->reg[i] : cni_hlo_int((int64_t)p->reg[i].f);
    if (own) p->reg[i] = cni_hlo_splat(p->c->h, p->reg[i], type, p->ndim, p->shape);
  }
}

static void constants(program *p)
{
  const cn_value *args = p->c->args;
  bool own = p->c->op->pointwise != NULL;
  for (cni_formula_bar(&p->f); cni_formula_more(&p->f) && !p->c->h->failed; cni_formula_between(&p->f, ',')) {
    const cni_formula_constant k = cni_formula_read_constant(&p->f);
    const double v = k.k < 0 ? k.value : own ? cni_harg_float(p->c, k.k) : args[p->c->nargs - 1].u.fs[k.k];
    cni_hval number = cni_hlo_num(v);
    if (k.type) number = cni_hlo_splat(p->c->h, number, k.type, p->ndim, p->shape);
    number.f = v;
    put(p, number);
  }
}

/* ---- steps ---- */

static cni_hval row_step(program *p, const char *name, int dims, cni_hval x)
{
  static const struct {
    const char *name, *op;
  } folds[] = {{"row_sum", "add"}, {"row_mean", "add"}, {"row_max", "maximum"}, {"row_min", "minimum"}};
  cni_hlo *h = p->c->h;
  uint32_t mask = 0;
  int64_t first[CN_MAX_DIMS] = {0}, to[CN_MAX_DIMS], one[CN_MAX_DIMS], lead[CN_MAX_DIMS], n = 1;
  cni_hval y = absent;
  for (int k = 0; k < p->ndim; k++) {
    bool over = k >= p->ndim - dims;
    lead[k] = k, one[k] = 1, to[k] = over ? 1 : p->shape[k];
    if (over) mask |= 1u << k, n *= p->shape[k];
  }
  if (!strcmp(name, "row_first")) {
    y = cni_hlo_reshape(h, cni_hlo_slice(h, x, first, to, one), p->ndim - dims, p->shape);
  } else {
    for (int i = 0; i < 4; i++)
      if (!strcmp(name, folds[i].name)) y = cni_hlo_reduce(h, folds[i].op, x, mask);
    if (!strcmp(name, "row_mean")) y = cni_hlo_binary(h, "divide", y, cni_hlo_num((double)n));
  }
  return h->failed ? absent : cni_hlo_broadcast(h, y, p->ndim, p->shape, lead);
}

/* "to:f32:bfloat16 3": as another type, by way of a third. */
static cni_hval converted(program *p, cni_hval x, int type, int via)
{
  cni_hlo *h = p->c->h;
  if (via == CN_F16 || via == CN_BF16) x = rounded(h, cni_hlo_cast(h, x, CN_F32), via);
  else if (via) x = cni_hlo_cast(h, x, via);
  return cni_hlo_cast(h, x, type);
}

static cni_hval arithmetic(program *p, const char *name, int type, int n, cni_hval *x)
{
  cni_hlo *h = p->c->h;
  bool numbers = true;
  for (int k = 0; k < n; k++) numbers = numbers && x[k].number;
  if (!strcmp(name, "narrow") || !strcmp(name, "nextafter")) {
    int drop = x[n - 1].number ? (int)x[n - 1].f : 0;
    if (name[1] == 'a') return type == CN_F64 ? x[0] : rounded(h, x[0], drop == 13 ? CN_F16 : CN_BF16);
    if (type == CN_F64) return cni_hlo_expr(h, "next_after(a, b)", type, 2, x);
  }
  double sum = x[0].f + x[n - 1].f; /* of constants: what a polynomial's code is made of */
  cni_hval y;
  if (cni_hlo_steps(h, name, type, x, p->ndim, p->shape, &y)) return y;
  for (int k = 0; k < n; k++)
    if (numbers || !strcmp(name, "nextafter") || (x[k].number && n == 2 && !cni_hlo_is_float(type)))
      x[k] = cni_hlo_splat(h, x[k], type, p->ndim, p->shape);
  y = cni_hlo_primitive(h, name, type, n, x);
  if (!strcmp(name, "add")) y.f = sum;
  return y;
}

static void step(program *p)
{
  const cni_formula_step s = cni_formula_read_step(&p->f);
  const int type = s.type ? s.type : p->type;
  cni_hval x[3];
  for (int i = 0; i < s.n; i++) x[i] = get(p, s.reg[i]);
  if (p->c->h->failed || !s.n) return;
  if (cn_string_starts(s.name, "row_")) put(p, row_step(p, s.name, s.dims, x[0]));
  else if (!strcmp(s.name, "to")) put(p, converted(p, x[0], type, s.via));
  else put(p, arithmetic(p, s.name, type, s.n, x));
}

/* A result in the shape that it has: rows of one value are cut to it. */
static void result(program *p, int k, cni_hval v)
{
  cni_hlo *h = p->c->h;
  cni_hval *out = &p->c->out[k];
  int64_t from[CN_MAX_DIMS] = {0}, one[CN_MAX_DIMS];
  for (int i = 0; i < p->ndim; i++) one[i] = 1;
  if (v.number) v = cni_hlo_splat(h, v, p->type, p->ndim, p->shape);
  if (out->ndim == p->ndim) v = cni_hlo_slice(h, v, from, out->shape, one);
  *out = cni_hlo_cast(h, v, out->dtype);
}

/* The shape that all inputs broadcast to. */
static void find_shape(program *p)
{
  for (int i = 0; i < p->c->nin; i++)
    if (p->c->in[i].ndim > p->ndim) p->ndim = p->c->in[i].ndim;
  for (int k = 0; k < p->ndim; k++) p->shape[k] = 1;
  for (int i = 0; i < p->c->nin; i++) {
    const cni_hval *x = &p->c->in[i];
    for (int k = 0; k < x->ndim; k++)
      if (x->shape[k] != 1) p->shape[p->ndim - x->ndim + k] = x->shape[k];
  }
}

void cni_hlo_pointwise(cni_hcall *c)
{
  cn_graph_formula f = {sizeof f};
  program p = {.c = c};
  if (cn_graph_formula_at(&f, c->graph, c->node)) {
    c->h->failed = true;
    return;
  }
  p.f.s = f.text;
  p.type = cni_formula_register_type(f.compute);
  find_shape(&p);
  load_all(&p, &f);
  constants(&p);
  for (cni_formula_bar(&p.f); cni_formula_more(&p.f) && !c->h->failed; cni_formula_between(&p.f, ';')) step(&p);
  cni_formula_bar(&p.f);
  for (int k = 0; k < c->nout && !c->h->failed; k++) result(&p, k, get(&p, cni_formula_read_result(&p.f)));
  cn_free(p.reg, p.cap * sizeof *p.reg);
}
