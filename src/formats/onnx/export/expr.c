/* expr.c: operators in words: "x = a * 2; Where(x > b, x, Exp(b))".
 *
 * Place in the flow: most rows, and every primitive of a pointwise program, are such a text. a, b, c, ... are the
 * operands. C's operators work element by element, ? chooses so, too; a number takes the type of what stands beside
 * it. f32(x) converts, T(x) to the type of the formula, R(x) to that of the row's result. A name that begins with a
 * capital is an operator of ONNX: behind its operands come its attributes, name=1, name=0.5, name='text', name=[1, 2],
 * or name=$dim for an argument of the op (name=.$alpha: as a float); $alpha among operands is that number. Other names
 * are formulas: formulas.def here, and what StableHLO's texts are made of (stablehlo/formulas.def), which means the
 * same in both. Invariant: a text that cannot be read is an error that shows the place. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/stablehlo/formulas.h"
#include "row.h"

enum { MOST_NAMES = 48, NAME = 24, MOST_ARGS = 40, DEEPEST = 24 };

typedef struct reading {
  cni_ox *x;
  cni_oxcall *call; /* of a row; NULL: a formula */
  const char *s, *text;
  int type; /* T */
  int nnames;
  char name[MOST_NAMES][NAME];
  cni_oxval value[MOST_NAMES];
  int depth;
} reading;

static const struct {
  const char *name, *floats, *doubles, *integers;
} formulas[] = {
#define BOTH(name, text) {#name, text, NULL, text},
#define FLOATS(name, text) {#name, text, NULL, NULL},
#define DOUBLES(name, text) {#name, NULL, text, NULL},
#define EACH(name, floats, integers) {#name, floats, NULL, integers},
#define INTEGERS(name, text) {#name, NULL, NULL, text},
#include "formulas.def"
};

static const struct {
  const char *name;
  int dtype;
} casts[] = {{"bool", CN_BOOL}, {"i32", CN_I32}, {"i64", CN_I64}, {"u32", CN_U32},   {"u64", CN_U64},
             {"f32", CN_F32},   {"f64", CN_F64}, {"u8", CN_U8},   {"bf16", CN_BF16}, {"f16", CN_F16}};

static cni_oxval expression(reading *r);

static const char *formula_of(const char *name, int type)
{
  const char *found = NULL;
  bool integers = !cni_ox_is_float(type);
  for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++) {
    if (strcmp(formulas[i].name, name) != 0) continue;
    if (type == CN_F64 && formulas[i].doubles) return formulas[i].doubles;
    if (!found) found = integers ? formulas[i].integers : formulas[i].floats;
  }
  return found ? found : cni_hlo_formula(name, integers);
}

static cni_oxval bad(reading *r, const char *what)
{
  cni_ox_fail(r->x, CN_ERR_INTERNAL, "formula: %s at \"%.20s\" of \"%.60s\"", what, r->s, r->text);
  r->s = "";
  return cni_ox_absent();
}

static void skip(reading *r)
{
  while (*r->s == ' ' || *r->s == '\n') r->s++;
}

static bool eat(reading *r, const char *token)
{
  size_t n = strlen(token);
  skip(r);
  if (strncmp(r->s, token, n) != 0) return false;
  r->s += n;
  return true;
}

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static cni_oxval solid(reading *r, cni_oxval v) { return cni_ox_solid(r->x, v, r->type); }

/* Bits of whole numbers have operators from opset 18 on. */
static bool has_bits(reading *r)
{
  if (r->x->opset < 18) cni_ox_fail(r->x, CN_ERR_UNSUPPORTED, "bits of whole numbers need opset 18");
  return r->x->opset >= 18;
}

static double value_of(const cni_oxval *v) { return v->dtype == CN_F64 ? v->f : (double)v->i; }

static cni_oxval number(reading *r)
{
  char *end;
  const char *behind;
  size_t n = strspn(r->s, "0123456789");
  bool whole = r->s[0] == '0' && r->s[1] == 'x' ? true : !r->s[n] || !strchr(".e", r->s[n]);
  cni_oxval v = whole ? cni_ox_whole((int64_t)strtoull(r->s, &end, 0)) : cni_ox_num(cn_number_read(r->s, &behind));
  r->s = whole ? end : behind;
  return v;
}

static bool word(reading *r, char *name)
{
  size_t n = 0;
  skip(r);
  if (!is_letter(*r->s)) return false;
  while (is_letter(r->s[n]) || is_digit(r->s[n])) n++;
  if (n >= NAME + 8) return false;
  memcpy(name, r->s, n);
  name[n] = 0;
  r->s += n;
  return true;
}

/* The place of the op's argument that a word behind $ names; negative on failure. */
static int argument(reading *r)
{
  char name[NAME + 8];
  int i = r->call && word(r, name) ? cni_oxarg_find(r->call, name) : -1;
  if (i < 0) bad(r, "no such argument");
  return i;
}

static cni_oxval given_number(reading *r)
{
  int i = argument(r);
  if (i < 0) return cni_ox_absent();
  const cn_value *v = &r->call->args[i];
  if (cni_oxarg_open(r->call, i)) return cni_oxarg_value(r->call, i, 0, r->type);
  return v->tag == CN_V_FLOAT ? cni_ox_num(v->u.f) : cni_ox_whole(v->u.i);
}

/* ---- attributes ---- */

static void put_given(reading *r, const char *name, bool real)
{
  int i = argument(r);
  if (i < 0) return;
  const cn_value *v = &r->call->args[i];
  int64_t list[CN_MAX_DIMS];
  if (v->tag == CN_V_NONE) return; /* ONNX's default */
  if (v->tag == CN_V_STR) cni_ox_text(r->x, name, v->u.s);
  else if (v->tag == CN_V_FLOAT || real) cni_ox_float(r->x, name, cni_oxarg_float(r->call, i));
  else if (v->tag == CN_V_INTS) {
    for (int k = 0; k < v->n && k < CN_MAX_DIMS; k++) list[k] = cni_oxarg_at(r->call, i, k);
    cni_ox_ints(r->x, name, list, v->n);
  } else cni_ox_int(r->x, name, cni_oxarg_int(r->call, i));
}

static void put_list(reading *r, const char *name)
{
  int64_t list[CN_MAX_DIMS];
  int n = 0;
  do {
    bool minus = eat(r, "-");
    skip(r);
    cni_oxval v = is_digit(*r->s) ? number(r) : bad(r, "no number");
    list[n++] = minus ? -v.i : v.i;
  } while (eat(r, ",") && n < CN_MAX_DIMS);
  if (!eat(r, "]")) bad(r, "no ]");
  cni_ox_ints(r->x, name, list, n);
}

static void put_text(reading *r, const char *name)
{
  char text[32];
  size_t n = strcspn(r->s, "'");
  if (n >= sizeof text || !r->s[n]) n = 0, bad(r, "a text without an end");
  memcpy(text, r->s, n);
  text[n] = 0;
  if (*r->s) r->s += n + 1;
  cni_ox_text(r->x, name, text);
}

static void attribute(reading *r, const char *name)
{
  bool real = eat(r, ".$");
  if (real || eat(r, "$")) put_given(r, name, real);
  else if (eat(r, "'")) put_text(r, name);
  else if (eat(r, "[")) put_list(r, name);
  else {
    bool minus = eat(r, "-");
    skip(r);
    cni_oxval v = is_digit(*r->s) ? number(r) : bad(r, "no number");
    if (v.dtype == CN_F64) cni_ox_float(r->x, name, minus ? -v.f : v.f);
    else cni_ox_int(r->x, name, minus ? -v.i : v.i);
  }
}

/* ---- calls ---- */

static cni_oxval run(cni_ox *x, cni_oxcall *call, const char *text, int type, int n, const cni_oxval *in, int depth);

/* horner(x, c3, c2, c1, c0) */
static cni_oxval horner(reading *r, int n, const cni_oxval *arg)
{
  cni_oxval y = arg[1];
  for (int k = 2; k < n && !r->x->failed; k++) {
    y = cni_ox_binary(r->x, "Mul", y, arg[0]);
    y = cni_ox_binary(r->x, "Add", y, arg[k]);
  }
  return y;
}

static cni_oxval convert(reading *r, cni_oxval v, int dtype)
{
  return v.number ? cni_ox_const(r->x, v, dtype) : cni_ox_cast(r->x, v, dtype);
}

static cni_oxval call(reading *r, const char *name, int n, cni_oxval *arg)
{
  if (n < 1) return bad(r, "no operands");
  for (size_t i = 0; i < sizeof casts / sizeof *casts; i++)
    if (!strcmp(name, casts[i].name)) return convert(r, arg[0], casts[i].dtype);
  if (!strcmp(name, "horner")) return horner(r, n, arg);
  int like = 0, type = r->type; /* what a part computes in is what its operands are */
  while (like < n - 1 && arg[like].number) like++;
  if (!arg[like].number && cni_ox_is_float(arg[like].dtype) && cni_ox_is_float(type)) type = arg[like].dtype;
  const char *formula = formula_of(name, type);
  if (!formula || r->depth == DEEPEST) {
    cni_ox_fail(r->x, CN_ERR_UNSUPPORTED, "%s: ONNX has no operator for it, nor is it made of others", name);
    r->s = "";
    return cni_ox_absent();
  }
  for (int k = 0; k < n; k++)
    if (arg[k].number) arg[k] = cni_ox_const(r->x, arg[k], arg[like].number ? type : arg[like].dtype);
  return run(r->x, NULL, formula, type, n, arg, r->depth + 1);
}

static cni_oxval operator_call(reading *r, const char *name)
{
  char attr[NAME + 8];
  cni_oxval arg[MOST_ARGS];
  cn_text attrs = {0};
  int n = 0;
  const char *op = cni_ox_word(r->x, name, strlen(name));
  while (!r->x->failed && !eat(r, ")")) {
    const char *before = r->s;
    if (word(r, attr) && eat(r, "=") && *r->s != '=') {
      attribute(r, attr);
      cn_text_put_bytes(&attrs, r->x->attrs.s ? r->x->attrs.s : "", r->x->attrs.n);
      cn_text_free(&r->x->attrs);
    } else {
      r->s = before;
      if (n == MOST_ARGS) bad(r, "too many operands");
      else arg[n++] = expression(r);
    }
    skip(r);
    if (!eat(r, ",") && *r->s != ')') bad(r, "no )");
  }
  r->x->attrs = attrs;
  return cni_ox_emit(r->x, op, n, arg);
}

static cni_oxval *find(reading *r, const char *name)
{
  for (int i = r->nnames - 1; i >= 0; i--)
    if (!strcmp(r->name[i], name)) return &r->value[i];
  return NULL;
}

static cni_oxval name_or_call(reading *r)
{
  char name[NAME + 8];
  cni_oxval arg[MOST_ARGS];
  int n = 0;
  if (!word(r, name)) return bad(r, "no operand");
  if (!eat(r, "(")) {
    cni_oxval *v = find(r, name);
    if (v) return *v;
    if (!strcmp(name, "inf")) return cni_ox_num(1.0 / 0.0);
    if (!strcmp(name, "nan")) return cni_ox_num(0.0 / 0.0);
    return bad(r, name);
  }
  if (*name >= 'A' && *name <= 'Z' && name[1]) return operator_call(r, name);
  do arg[n++] = expression(r);
  while (eat(r, ",") && n < MOST_ARGS);
  if (!eat(r, ")")) return bad(r, "no )");
  if (r->x->failed) return cni_ox_absent();
  if (!strcmp(name, "T")) return convert(r, arg[0], r->type);
  if (!strcmp(name, "R") && r->call) return convert(r, arg[0], r->call->out[0].dtype);
  return call(r, name, n, arg);
}

/* ---- operators ---- */

static cni_oxval negated(reading *r, cni_oxval v)
{
  if (v.number) {
    v.f = -v.f, v.i = (int64_t)(0 - (uint64_t)v.i);
    return v;
  }
  return cni_ox_is_signed(v.dtype) ? CNI_OX_EMIT(r->x, "Neg", v) : cni_ox_binary(r->x, "Sub", cni_ox_whole(0), v);
}

static cni_oxval unary(reading *r)
{
  skip(r);
  if (is_digit(*r->s)) return number(r);
  if (eat(r, "$")) return given_number(r);
  if (eat(r, "(")) {
    cni_oxval v = expression(r);
    return eat(r, ")") ? v : bad(r, "no )");
  }
  if (eat(r, "-")) return negated(r, unary(r));
  if (eat(r, "!") || eat(r, "~")) {
    cni_oxval v = solid(r, unary(r));
    if (v.dtype != CN_BOOL && has_bits(r)) return CNI_OX_EMIT(r->x, "BitwiseNot", v);
    return CNI_OX_EMIT(r->x, "Not", v);
  }
  return name_or_call(r);
}

static cni_oxval fold(char op, cni_oxval x, cni_oxval y)
{
  double a = value_of(&x), b = value_of(&y);
  return cni_ox_num(op == '+' ? a + b : op == '-' ? a - b : op == '*' ? a * b : a / b);
}

/* By rising strength. bits: of whole numbers, where `op` is of bools. */
static const struct {
  const char *sign, *op, *bits;
  int level;
} signs[] = {
    {"|", "Or", "BitwiseOr", 0}, {"^", "Xor", "BitwiseXor", 1},  {"&", "And", "BitwiseAnd", 2},
    {"==", "Equal", NULL, 3},    {"!=", "Equal", NULL, 3},       {"<<", "BitShift", NULL, 5},
    {">>", "BitShift", NULL, 5}, {"<=", "LessOrEqual", NULL, 4}, {">=", "GreaterOrEqual", NULL, 4},
    {"<", "Less", NULL, 4},      {">", "Greater", NULL, 4},      {"+", "Add", NULL, 6},
    {"-", "Sub", NULL, 6},       {"*", "Mul", NULL, 7},          {"/", "Div", NULL, 7},
    {"%", "Mod", NULL, 7},
};
enum { SIGNS = sizeof signs / sizeof *signs, STRONGEST = 8 };

static int sign_at(const char *s)
{
  for (int i = 0; i < SIGNS; i++)
    if (!strncmp(s, signs[i].sign, strlen(signs[i].sign))) return i;
  return -1;
}

static cni_oxval combined(reading *r, int o, cni_oxval a, cni_oxval b)
{
  const char *op = signs[o].op;
  int dtype = a.number ? b.dtype : a.dtype;
  if (r->x->failed) return cni_ox_absent();
  if (a.number && b.number && signs[o].level > 5) return fold(*signs[o].sign, a, b);
  if (a.number && b.number) a = solid(r, a);
  if (signs[o].bits && dtype != CN_BOOL) op = has_bits(r) ? signs[o].bits : "";
  if (!strcmp(op, "BitShift")) cni_ox_text(r->x, "direction", *signs[o].sign == '<' ? "LEFT" : "RIGHT");
  if (!strcmp(op, "Mod")) cni_ox_int(r->x, "fmod", 1);
  cni_oxval y = cni_ox_binary(r->x, op, a, b);
  return *signs[o].sign == '!' ? CNI_OX_EMIT(r->x, "Not", y) : y;
}

static cni_oxval chain(reading *r, int level)
{
  if (level == STRONGEST) return unary(r);
  cni_oxval x = chain(r, level + 1);
  for (int o;;) {
    skip(r);
    if ((o = sign_at(r->s)) < 0 || signs[o].level != level || r->x->failed) return x;
    r->s += strlen(signs[o].sign);
    x = combined(r, o, x, chain(r, level + 1));
  }
}

static cni_oxval expression(reading *r)
{
  cni_oxval p = chain(r, 0);
  if (!eat(r, "?")) return p;
  cni_oxval x = expression(r);
  if (!eat(r, ":")) return bad(r, "no :");
  cni_oxval y = expression(r);
  if (r->x->failed) return cni_ox_absent();
  p = cni_ox_cast(r->x, solid(r, p), CN_BOOL);
  if (x.number && y.number) x = solid(r, x);
  return cni_ox_where(r->x, p, x, y);
}

/* ---- texts ---- */

static void set(reading *r, const char *name, cni_oxval v)
{
  if (r->nnames == MOST_NAMES || strlen(name) >= NAME) {
    bad(r, "too many names");
    return;
  }
  snprintf(r->name[r->nnames], NAME, "%s", name);
  r->value[r->nnames++] = v;
}

/* "x = ...;" or the last expression. */
static cni_oxval statement(reading *r)
{
  char name[NAME + 8];
  const char *begin = r->s;
  if (word(r, name) && eat(r, "=") && *r->s != '=') {
    cni_oxval v = expression(r);
    set(r, name, v);
    return v;
  }
  r->s = begin;
  return expression(r);
}

static cni_oxval run(cni_ox *x, cni_oxcall *call, const char *text, int type, int n, const cni_oxval *in, int depth)
{
  reading *r = x->failed ? NULL : cn_alloc_zero(sizeof *r);
  cni_oxval v = cni_ox_absent();
  if (!r) {
    x->failed = true;
    return v;
  }
  r->x = x, r->call = call, r->s = r->text = text, r->type = type, r->depth = depth;
  for (int k = 0; k < n && k < 26; k++) set(r, (char[]){(char)('a' + k), 0}, in[k]);
  do {
    v = statement(r);
    skip(r);
  } while (eat(r, ";") && !x->failed);
  if (*r->s && !x->failed) bad(r, "more than expected");
  if (!depth && !x->failed) v = solid(r, v);
  cn_free(r, sizeof *r);
  return x->failed ? cni_ox_absent() : v;
}

bool cni_ox_has_primitive(const char *name, int type) { return formula_of(name, type) != NULL; }

cni_oxval cni_ox_primitive(cni_ox *x, const char *name, int type, int n, const cni_oxval *in)
{
  const char *formula = formula_of(name, type);
  if (formula) return run(x, NULL, formula, type, n, in, 0);
  cni_ox_fail(x, CN_ERR_UNSUPPORTED, "%s: ONNX has no operator for it, nor is it made of others", name);
  return cni_ox_absent();
}

cni_oxval cni_ox_expr(cni_ox *x, const char *text, int type, int n, const cni_oxval *in)
{
  return run(x, NULL, text, type, n, in, 0);
}

bool cni_ox_words(cni_oxcall *c)
{
  int type = c->nin && c->in[0].id >= 0 ? c->in[0].dtype : c->out[0].dtype;
  cni_ox_give(c, 0, run(c->x, c, c->text, type, c->nin, c->in, 0));
  return true;
}
