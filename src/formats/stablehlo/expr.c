/* expr.c: formulas in words as operations: "x = a * 2; x > b ? x : exp(b)".
 *
 * Place in the flow: most rows, and every primitive of a pointwise program, are such a text; formulas.def has those
 * that others are made of. a, b, c, ... are the operands, T their common type. Operators are C's, of tensors element by
 * element; ? chooses element by element, too. A number takes the type of what stands beside it. f32(x) converts,
 * as_u32(x) keeps the bits, T(x) converts to T. Invariant: what a text means depends on its operands' types alone; a
 * text that cannot be read is an error that shows the place. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "emit.h"
#include "formulas.h"

enum { MOST_NAMES = 48, NAME = 16, MOST_ARGS = 32, DEEPEST = 24 };

typedef struct reading {
  cni_hlo *h;
  const char *s, *text;
  int type; /* T */
  int nnames;
  char name[MOST_NAMES][NAME];
  cni_hval value[MOST_NAMES];
  int ndim; /* of everything */
  const int64_t *shape;
  int depth;
} reading;

/* Operations that have a name of their own here. A dot: of another dialect. b: gives a bool. */
static const struct {
  const char *name, *op;
  bool test;
} builtins[] = {
    {"exp", "exponential", false}, {"expm1", "exponential_minus_one", false}, {"log", "log", false},
    {"log1p", "log_plus_one", false}, {"sqrt", "sqrt", false}, {"rsqrt", "rsqrt", false}, {"sin", "sine", false},
    {"cos", "cosine", false}, {"tan", "chlo.tan", false}, {"tanh", "tanh", false}, {"logistic", "logistic", false},
    {"floor", "floor", false}, {"ceil", "ceil", false}, {"rint", "round_nearest_even", false}, {"abs", "abs", false},
    {"sgn", "sign", false}, {"max", "maximum", false}, {"min", "minimum", false}, {"power", "power", false},
    {"atan2", "atan2", false}, {"finite", "is_finite", true}, {"sra", "shift_right_arithmetic", false},
    {"erf", "chlo.erf", false}, {"erfc", "chlo.erfc", false}, {"erfinv", "chlo.erf_inv", false},
    {"lgamma", "chlo.lgamma", false}, {"digamma", "chlo.digamma", false}, {"polygamma", "chlo.polygamma", false},
    {"zeta", "chlo.zeta", false}, {"asin", "chlo.asin", false}, {"acos", "chlo.acos", false},
    {"atan", "chlo.atan", false}, {"sinh", "chlo.sinh", false}, {"cosh", "chlo.cosh", false},
    {"asinh", "chlo.asinh", false}, {"acosh", "chlo.acosh", false}, {"atanh", "chlo.atanh", false},
    {"bessel_i1e", "chlo.bessel_i1e", false}, {"not", "not", false}, {"clz", "count_leading_zeros", false},
    {"next_after", "chlo.next_after", false},
};

static const struct {
  const char *name;
  int dtype;
} casts[] = {{"bool", CN_BOOL}, {"i32", CN_I32}, {"i64", CN_I64},   {"u32", CN_U32}, {"u64", CN_U64},
             {"f32", CN_F32},   {"f64", CN_F64}, {"bf16", CN_BF16}, {"f16", CN_F16}};

static cni_hval expression(reading *r);

static cni_hval bad(reading *r, const char *what)
{
  cni_hlo_fail(r->h, CN_ERR_INTERNAL, "formula: %s at \"%.20s\" of \"%.60s\"", what, r->s, r->text);
  r->s = "";
  return (cni_hval){.id = -1};
}

static void skip(reading *r)
{
  while (*r->s == ' ' || *r->s == '\n') r->s++;
}

static bool eat(reading *r, const char *word)
{
  size_t n = strlen(word);
  skip(r);
  if (strncmp(r->s, word, n)) return false;
  r->s += n;
  return true;
}

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

/* A number as a tensor of T. */
static cni_hval solid(reading *r, cni_hval v)
{
  return v.number ? cni_hlo_splat(r->h, v, r->type, r->ndim, r->shape) : v;
}

static double value_of(const cni_hval *v) { return v->dtype == CN_F64 ? v->f : (double)v->i; }

static cni_hval number(reading *r)
{
  char *end;
  const char *behind;
  size_t n = strspn(r->s, "0123456789");
  bool whole = r->s[0] == '0' && (r->s[1] == 'x') ? true : !r->s[n] || !strchr(".e", r->s[n]);
  cni_hval v = whole ? cni_hlo_int((int64_t)strtoull(r->s, &end, 0)) : cni_hlo_num(cn_number_read(r->s, &behind));
  r->s = whole ? end : behind;
  return v;
}

/* ---- calls ---- */

static cni_hval run(cni_hlo *h, const char *text, int type, int n, const cni_hval *in, int depth);

/* horner(x, c3, c2, c1, c0) */
static cni_hval horner(reading *r, int n, const cni_hval *arg)
{
  cni_hval y = arg[1];
  for (int k = 2; k < n; k++) {
    y = k == 2 ? cni_hlo_binary(r->h, "multiply", arg[0], y) : cni_hlo_binary(r->h, "multiply", y, arg[0]);
    y = cni_hlo_binary(r->h, "add", y, arg[k]);
  }
  return y;
}

static cni_hval call(reading *r, const char *name, int n, cni_hval *arg)
{
  bool keeps = cn_string_starts(name, "as_");
  if (n < 1) return bad(r, "no operands");
  for (size_t i = 0; i < sizeof casts / sizeof *casts; i++) {
    if (strcmp(name + 3 * keeps, casts[i].name)) continue;
    if (keeps) return cni_hlo_bitcast(r->h, solid(r, arg[0]), casts[i].dtype);
    if (arg[0].number) return cni_hlo_splat(r->h, arg[0], casts[i].dtype, r->ndim, r->shape);
    return cni_hlo_convert(r->h, arg[0], casts[i].dtype);
  }
  if (!strcmp(name, "T")) return arg[0].number ? solid(r, arg[0]) : cni_hlo_convert(r->h, arg[0], r->type);
  if (!strcmp(name, "horner")) return horner(r, n, arg);
  if (!strcmp(name, "C")) return arg[0].number ? solid(r, arg[0]) : cni_hlo_cast(r->h, arg[0], r->type);
  for (size_t i = 0; i < sizeof builtins / sizeof *builtins; i++) {
    if (strcmp(name, builtins[i].name)) continue;
    int like = 0;
    while (like < n - 1 && arg[like].number) like++;
    for (int k = 0; k < n; k++)
      arg[k] = arg[like].number ? solid(r, arg[k])
               : arg[k].number ? cni_hlo_splat(r->h, arg[k], arg[like].dtype, arg[like].ndim, arg[like].shape) : arg[k];
    return cni_hlo_emit(r->h, builtins[i].op, NULL, builtins[i].test ? CN_BOOL : arg[0].dtype, arg[0].ndim,
                        arg[0].shape, n, arg);
  }
  const char *formula = cni_hlo_formula(name, !cni_hlo_is_float(r->type));
  if (!formula || r->depth == DEEPEST) return bad(r, name);
  for (int k = 0, like = 0; k < n; k++) {
    while (like < n - 1 && arg[like].number) like++;
    if (!arg[k].number) continue;
    arg[k] = arg[like].number ? solid(r, arg[k])
                              : cni_hlo_splat(r->h, arg[k], arg[like].dtype, arg[like].ndim, arg[like].shape);
  }
  return run(r->h, formula, r->type, n, arg, r->depth + 1);
}

static cni_hval *find(reading *r, const char *name)
{
  for (int i = r->nnames - 1; i >= 0; i--)
    if (!strcmp(r->name[i], name)) return &r->value[i];
  return NULL;
}

static bool word(reading *r, char *name)
{
  size_t n = 0;
  skip(r);
  if (!is_letter(*r->s)) return false;
  while (is_letter(r->s[n]) || (r->s[n] >= '0' && r->s[n] <= '9')) n++;
  if (n >= NAME + 8) return false;
  memcpy(name, r->s, n);
  name[n] = 0;
  r->s += n;
  return true;
}

static cni_hval name_or_call(reading *r)
{
  char name[NAME + 8];
  cni_hval arg[MOST_ARGS];
  int n = 0;
  if (!word(r, name)) return bad(r, "no operand");
  if (!eat(r, "(")) {
    cni_hval *v = find(r, name);
    if (v) return *v;
    if (!strcmp(name, "inf")) return cni_hlo_num(1.0 / 0.0);
    if (!strcmp(name, "nan")) return cni_hlo_num(0.0 / 0.0);
    return bad(r, name);
  }
  do arg[n++] = expression(r);
  while (eat(r, ",") && n < MOST_ARGS);
  if (!eat(r, ")")) return bad(r, "no )");
  return r->h->failed ? (cni_hval){.id = -1} : call(r, name, n, arg);
}

/* ---- operators ---- */

static cni_hval unary(reading *r)
{
  skip(r);
  if (*r->s >= '0' && *r->s <= '9') return number(r);
  if (eat(r, "(")) {
    cni_hval v = expression(r);
    return eat(r, ")") ? v : bad(r, "no )");
  }
  if (eat(r, "-")) {
    cni_hval v = unary(r);
    if (!v.number) return cni_hlo_unary(r->h, "negate", v);
    v.f = -v.f, v.i = (int64_t)(0 - (uint64_t)v.i);
    return v;
  }
  if (eat(r, "!") || eat(r, "~")) return cni_hlo_unary(r->h, "not", solid(r, unary(r)));
  return name_or_call(r);
}

static cni_hval fold(char op, cni_hval x, cni_hval y)
{
  double a = value_of(&x), b = value_of(&y);
  return cni_hlo_num(op == '+' ? a + b : op == '-' ? a - b : op == '*' ? a * b : a / b);
}

/* By rising strength; comparisons give a bool. */
static const struct {
  const char *sign;
  const char *op, *direction;
  int level;
} operators[] = {
    {"|", "or", NULL, 0},  {"^", "xor", NULL, 1}, {"&", "and", NULL, 2}, {"==", NULL, "EQ", 3}, {"!=", NULL, "NE", 3},
    {"<<", "shift_left", NULL, 5}, {">>", "shift_right_logical", NULL, 5}, {"<=", NULL, "LE", 4}, {">=", NULL, "GE", 4},
    {"<", NULL, "LT", 4},  {">", NULL, "GT", 4},  {"+", "add", NULL, 6}, {"-", "subtract", NULL, 6},
    {"*", "multiply", NULL, 7}, {"/", "divide", NULL, 7}, {"%", "remainder", NULL, 7},
};
enum { OPERATORS = sizeof operators / sizeof *operators, STRONGEST = 8 };

static int operator_at(const char *s)
{
  for (int i = 0; i < OPERATORS; i++)
    if (!strncmp(s, operators[i].sign, strlen(operators[i].sign))) return i;
  return -1;
}

static cni_hval chain(reading *r, int level)
{
  if (level == STRONGEST) return unary(r);
  cni_hval x = chain(r, level + 1);
  for (int o;; ) {
    skip(r);
    if ((o = operator_at(r->s)) < 0 || operators[o].level != level || r->h->failed) return x;
    r->s += strlen(operators[o].sign);
    cni_hval y = chain(r, level + 1);
    if (x.number && y.number && level > 5) x = fold(*operators[o].sign, x, y);
    else if (operators[o].op) x = cni_hlo_binary(r->h, operators[o].op, x, y);
    else x = cni_hlo_compare(r->h, operators[o].direction, x, y);
  }
}

static cni_hval expression(reading *r)
{
  cni_hval p = chain(r, 0);
  if (!eat(r, "?")) return p;
  cni_hval x = expression(r);
  if (!eat(r, ":")) return bad(r, "no :");
  cni_hval y = expression(r);
  if (r->h->failed) return (cni_hval){.id = -1};
  if (p.dtype != CN_BOOL || p.number) p = cni_hlo_compare(r->h, "NE", solid(r, p), cni_hlo_num(0));
  if (x.number && y.number) x = solid(r, x);
  return cni_hlo_select(r->h, p, x, y);
}

/* ---- texts ---- */

static void set(reading *r, const char *name, cni_hval v)
{
  size_t n = strlen(name);
  if (r->nnames == MOST_NAMES || n >= NAME) {
    bad(r, "too many names");
    return;
  }
  memcpy(r->name[r->nnames], name, n + 1);
  r->value[r->nnames++] = v;
}

/* "x = ...;" or the last expression. */
static cni_hval statement(reading *r)
{
  char name[NAME + 8];
  const char *begin = r->s;
  if (word(r, name) && eat(r, "=") && *r->s != '=') {
    cni_hval v = expression(r);
    set(r, name, v);
    return v;
  }
  r->s = begin;
  return expression(r);
}

static cni_hval run(cni_hlo *h, const char *text, int type, int n, const cni_hval *in, int depth)
{
  reading *r = h->failed ? NULL : cn_alloc_zero(sizeof *r);
  cni_hval v = {.id = -1};
  int like = 0;
  if (!r) return v;
  while (like < n - 1 && (in[like].number || !in[like].ndim)) like++;
  r->h = h, r->s = r->text = text, r->type = type, r->depth = depth;
  if (n) r->ndim = in[like].ndim, r->shape = in[like].shape;
  for (int k = 0; k < n; k++) set(r, (char[]){(char)('a' + k), 0}, in[k]);
  do {
    v = statement(r);
    skip(r);
  } while (eat(r, ";") && !h->failed);
  if (*r->s && !h->failed) bad(r, "more than expected");
  if (!depth && !h->failed) v = solid(r, v);
  cn_free(r, sizeof *r);
  return h->failed ? (cni_hval){.id = -1} : v;
}

/* pow where nothing is left to choose: the exponent, or a positive base, is known as the text is written; and in
 * float64, where XLA's own is good to the last bits. NULL: the formula has to choose. Bias corrections of optimisers
 * are powers of float64, two for each parameter, and a compiler for TPUs makes many steps of each operation on them. */
static const char *known_power(int type, const cni_hval *in)
{
  static const struct {
    double exponent;
    const char *text;
  } known[] = {{1, "a"}, {2, "a * a"}, {3, "a * a * a"}, {0.5, "abs(a) == inf ? a * a : a == 0 ? abs(a) : sqrt(a)"},
               {-1, "1 / a"}, {-2, "1 / (a * a)"}, {-3, "1 / (a * a * a)"}};
  double base = value_of(&in[0]), exponent = value_of(&in[1]);
  if (in[0].number && base > 0 && base < (double)INFINITY) return "power(a, b)";
  for (size_t i = 0; i < sizeof known / sizeof *known && in[1].number; i++)
    if (known[i].exponent == exponent) return known[i].text;
  return type == CN_F64 ? "power(a, b)" : NULL;
}

cni_hval cni_hlo_primitive(cni_hlo *h, const char *name, int type, int n, const cni_hval *in)
{
  static const char *const calls[] = {"%s(a)", "%s(a, b)", "%s(a, b, c)"};
  const char *formula = cni_hlo_formula(name, !cni_hlo_is_float(type));
  const char *known = !strcmp(name, "pow") && cni_hlo_is_float(type) ? known_power(type, in) : NULL;
  if (known) formula = known;
  cn_text t = {0};
  if (formula) return run(h, formula, type, n, in, 0);
  for (const char *s = calls[n - 1]; *s; s++) {
    if (*s == '%') cn_text_put(&t, name), s++;
    else cn_text_put_bytes(&t, s, 1);
  }
  cni_hval v = t.failed ? (cni_hval){.id = -1} : run(h, t.s, type, n, in, 0);
  cn_text_free(&t);
  return v;
}

cni_hval cni_hlo_expr(cni_hlo *h, const char *text, int type, int n, const cni_hval *in)
{
  return run(h, text, type, n, in, 0);
}
