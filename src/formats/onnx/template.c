/* template.c: see template.h. A template is parsed when a model is loaded, once a node, and evaluated at each run.
 *
 * Invariant: a parsed template fits its ops: names, numbers of arguments and words are looked up when it is parsed. */
#include "template.h"

#include <stdio.h>
#include <string.h>

enum { RESULTS = 8, NESTED = 16, LISTED = 16 };

typedef enum term_kind { INPUT, INPUTS, TYPE_OF, ATTR, VALUE, WORD, CALL } term_kind;

typedef struct term {
  term_kind kind;
  int i;                  /* of an input; of a call: which result, -1: all */
  bool optional;          /* an input that may be left out */
  const char *text;       /* an attribute's name, a word */
  cn_value value;         /* a literal; lists lie in the arena */
  struct term *otherwise; /* of an attribute that is left out; NULL: none */
  const cn_op *op;
  struct term **args; /* by the signature's parameters; NULL: not given */
  char (*types)[32];
  bool *may_miss; /* the parameter has a default, or may be None */
  int nargs, nresults;
} term;

struct cni_onnx_template {
  term root;
};

/* ---- parsing ---- */

typedef struct parser {
  cni_arena *arena;
  const char *text, *at;
  int depth;
} parser;

static term *fail(const parser *p, const char *what)
{
  cn_err_set(CN_ERR_INTERNAL, "onnx: template '%s': %s at '%s'", p->text, what, p->at);
  return NULL;
}

static void blanks(parser *p)
{
  while (*p->at == ' ') p->at++;
}

static bool take(parser *p, char c)
{
  blanks(p);
  if (*p->at != c) return false;
  p->at++;
  return true;
}

static bool is_word(char c)
{
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static const char *word(parser *p)
{
  const char *from = p->at;
  while (is_word(*p->at)) p->at++;
  return cni_arena_text(p->arena, (cni_wire_bytes){(const unsigned char *)from, (size_t)(p->at - from)});
}

static int small_number(parser *p)
{
  int n = 0;
  while (*p->at >= '0' && *p->at <= '9' && n < 1000) n = n * 10 + (*p->at++ - '0');
  return n;
}

static term *parse_term(parser *p);

/* A number, whole where it is written without a point. */
static bool number(parser *p, cn_value *v)
{
  const char *end;
  blanks(p);
  double f = cn_number_read(p->at, &end);
  if (end == p->at) return false;
  bool whole = true;
  for (const char *c = p->at; c < end; c++) whole = whole && ((*c >= '0' && *c <= '9') || *c == '-');
  *v = whole ? cn_v_int((int64_t)f) : cn_v_float(f);
  p->at = end;
  return true;
}

static term *parse_list(parser *p, term *t)
{
  int64_t *v = cni_arena_take(p->arena, LISTED, sizeof *v);
  size_t n = 0;
  cn_value one;
  if (!v) return NULL;
  while (!take(p, ']')) {
    if (n == LISTED || !number(p, &one) || one.tag != CN_V_INT) return fail(p, "no list of whole numbers");
    v[n++] = one.u.i;
    take(p, ',');
  }
  t->kind = VALUE;
  t->value = cn_v_ints(v, n);
  return t;
}

/* Room for the arguments of an op, with what its signature says of them. */
static term *prepare(parser *p, term *t, cn_op_info *info)
{
  if (!(t->op = cn_op_find(t->text))) return fail(p, "no such op");
  if (cn_op_describe(info, t->op)) return NULL;
  t->kind = CALL;
  t->i = -1;
  t->nargs = info->nparams;
  t->nresults = info->list_result ? RESULTS : info->nresults;
  t->args = cni_arena_take(p->arena, (size_t)t->nargs + 1, sizeof(term *));
  t->types = cni_arena_take(p->arena, (size_t)t->nargs + 1, sizeof *t->types);
  t->may_miss = cni_arena_take(p->arena, (size_t)t->nargs + 1, sizeof *t->may_miss);
  if (!t->args || !t->types || !t->may_miss) return NULL;
  for (int i = 0; i < t->nargs; i++) {
    memcpy(t->types[i], info->params[i].type, sizeof t->types[i]);
    t->may_miss[i] = info->params[i].optional || info->params[i].default_text;
  }
  return t;
}

/* The parameter that "word:" in front of an argument names; `next` where there is no word; -1: there is none. */
static int parameter(parser *p, const cn_op_info *info, int next)
{
  const char *c = p->at;
  while (is_word(*c)) c++;
  if (*c != ':') return next;
  for (int i = 0; i < info->nparams; i++)
    if (strlen(info->params[i].name) == (size_t)(c - p->at) &&
        !strncmp(info->params[i].name, p->at, (size_t)(c - p->at)))
      return p->at = c + 1, i;
  return -1;
}

static term *parse_call(parser *p, term *t)
{
  cn_op_info info;
  if (!prepare(p, t, &info)) return NULL;
  for (int next = 0; !take(p, ')'); next++) {
    blanks(p);
    int i = parameter(p, &info, next);
    if (i < 0 || i >= t->nargs || t->args[i]) return fail(p, "an argument that the op has not");
    if (!(t->args[i] = parse_term(p))) return NULL;
    if (!take(p, ',') && (blanks(p), *p->at != ')')) return fail(p, "no ')'");
  }
  for (int i = 0; i < t->nargs; i++)
    if (!t->args[i] && !t->may_miss[i]) return fail(p, "an argument is missing before");
  if (take(p, '[')) {
    t->i = small_number(p);
    if (!take(p, ']') || t->i >= t->nresults) return fail(p, "no such result");
  }
  return t;
}

static term *parse_text(parser *p, term *t)
{
  const char *from = p->at;
  while (*p->at && *p->at != '\'') p->at++;
  t->value =
      cn_v_str(cni_arena_text(p->arena, (cni_wire_bytes){(const unsigned char *)from, (size_t)(p->at - from)}));
  t->kind = VALUE;
  return take(p, '\'') ? t : fail(p, "a text without an end");
}

static term *parse_word(parser *p, term *t)
{
  if (!(t->text = word(p))) return NULL;
  if (*p->at == '(') return p->at++, parse_call(p, t);
  t->kind = VALUE;
  if (!strcmp(t->text, "true") || !strcmp(t->text, "false")) t->value = cn_v_bool(*t->text == 't');
  else if (!strcmp(t->text, "none")) t->value = cn_v_none();
  else if (cn_dtype_find(t->text)) t->value = cn_v_int(cn_dtype_find(t->text));
  else return fail(p, "an unknown word before");
  return t;
}

static term *parse_marked(parser *p, term *t, char mark)
{
  p->at++;
  if (mark == '\'') return parse_text(p, t);
  if (mark == '[') return parse_list(p, t);
  if (mark == '$') {
    t->kind = ATTR;
    if (!(t->text = word(p))) return NULL;
    if (take(p, '=') && !(t->otherwise = parse_term(p))) return NULL;
    return t;
  }
  t->kind = mark == '@' ? TYPE_OF : INPUT;
  if (mark == '%' && *p->at == '*') return p->at++, t->kind = INPUTS, t;
  if (*p->at < '0' || *p->at > '9') return fail(p, "no input's number");
  t->i = small_number(p);
  t->optional = mark == '%' && take(p, '?');
  return t;
}

static term *parse_term(parser *p)
{
  term *t = cni_arena_take(p->arena, 1, sizeof *t), *made;
  if (!t) return NULL;
  if (++p->depth > NESTED) return fail(p, "too deep");
  blanks(p);
  char c = *p->at;
  if (c && strchr("%@$'[", c)) made = parse_marked(p, t, c);
  else if ((c >= '0' && c <= '9') || c == '-')
    made = number(p, &t->value) ? (t->kind = VALUE, t) : fail(p, "no number");
  else made = is_word(c) ? parse_word(p, t) : fail(p, "nothing that can stand here");
  p->depth--;
  return made;
}

const cni_onnx_template *cni_onnx_parse(cni_arena *arena, const char *text)
{
  parser p = {arena, text, text, 0};
  term *t = parse_term(&p);
  if (t && *p.at) t = fail(&p, "more than one call");
  if (t && t->kind != CALL && t->kind != INPUT) t = fail(&p, "no call");
  return (const cni_onnx_template *)(const void *)t;
}

/* ---- evaluating ---- */

static int eval_call(cn_tensor **out, size_t *nout, cni_onnx_call *c, const term *t);

static bool is(const char *type, const char *what) { return !strncmp(type, what, strlen(what)); }

static int wants(const cni_onnx_call *c, const char *what, const char *type)
{
  return cni_onnx_fail(c, CN_ERR_TYPE, "%s is no %s", what, type);
}

/* The numbers of an input as an argument of this type. */
static int input_numbers(cn_value *v, cni_onnx_call *c, const term *t, const char *type)
{
  size_t i = (size_t)t->i;
  if (is(type, "int[")) {
    cni_onnx_ints list = cni_onnx_ints_in(c, i);
    *v = list.v ? cn_v_ints(list.v, list.n) : cn_v_none();
  } else if (is(type, "float[")) {
    cni_onnx_floats list = cni_onnx_floats_in(c, i);
    *v = list.v ? cn_v_floats(list.v, list.n) : cn_v_none();
  } else if (!cni_onnx_has(c, i)) *v = cn_v_none();
  else if (is(type, "bool")) *v = cn_v_bool(cni_onnx_int_in(c, i, 0) != 0);
  else if (is(type, "int")) *v = cn_v_int(cni_onnx_int_in(c, i, 0));
  else if (is(type, "dtype")) *v = cn_v_int(cni_onnx_dtype(cni_onnx_int_in(c, i, 0)));
  else if (is(type, "Scalar") && cn_dtype_is_int(cn_dtype_of(cni_onnx_in(c, i))))
    *v = cn_v_int(cni_onnx_int_in(c, i, 0));
  else *v = cn_v_float(cni_onnx_float_in(c, i, 0));
  if (v->tag == CN_V_NONE && !t->optional && !cn_err())
    return cni_onnx_fail(c, CN_ERR_VALUE, "input %zu is missing", i);
  return cn_err();
}

static int input(cn_value *v, cni_onnx_call *c, const term *t, const char *type)
{
  if (is(type, "Tensor[]")) {
    size_t n;
    cn_tensor *const *all = cni_onnx_rest(c, (size_t)t->i, &n);
    *v = cn_v_tensors(all, n);
    return cn_err();
  }
  if (!is(type, "Tensor")) return input_numbers(v, c, t, type);
  if (is(type, "Tensor|Scalar") && cni_onnx_has(c, (size_t)t->i))
    *v = cn_v_tensor(cni_onnx_operand(c, (size_t)t->i));
  else *v = cn_v_tensor(t->optional ? cni_onnx_maybe(c, (size_t)t->i) : cni_onnx_in(c, (size_t)t->i));
  return cn_err();
}

static int literal(cn_value *v, cni_onnx_call *c, cn_value from, const char *type)
{
  *v = from;
  if (from.tag == CN_V_INT && is(type, "int[")) {
    int64_t *one = cni_onnx_room(c, 1, sizeof *one);
    if (!one) return cn_err();
    *one = from.u.i;
    *v = cn_v_ints(one, 1);
  }
  if (from.tag == CN_V_INT && is(type, "float")) *v = cn_v_float((double)from.u.i);
  if (from.tag == CN_V_INT && is(type, "bool")) *v = cn_v_bool(from.u.i != 0);
  return CN_OK;
}

static int attribute(cn_value *v, cni_onnx_call *c, const cni_onnx_attr *a, const char *type)
{
  switch (a->kind) {
  case CNI_ATTR_FLOAT:
    *v = cn_v_float(a->f);
    return is(type, "int") || is(type, "dtype") ? wants(c, a->name, type) : CN_OK;
  case CNI_ATTR_INT:
    if (is(type, "dtype")) {
      *v = cn_v_int(cni_onnx_dtype_of(c, a->name, CN_DTYPE_NONE));
      return cn_err();
    }
    return literal(v, c, cn_v_int(a->i), type);
  case CNI_ATTR_STRING: *v = cn_v_str(a->s); return is(type, "str") ? CN_OK : wants(c, a->name, type);
  case CNI_ATTR_INTS: *v = cn_v_ints(a->is, a->n); return is(type, "int[") ? CN_OK : wants(c, a->name, type);
  case CNI_ATTR_FLOATS: *v = cn_v_floats(a->fs, a->n); return is(type, "float[") ? CN_OK : wants(c, a->name, type);
  default: return wants(c, a->name, type);
  }
}

static int eval_arg(cn_value *v, cni_onnx_call *c, const term *t, const char *type)
{
  cn_tensor *made[RESULTS];
  size_t n = RESULTS, which = t->i < 0 ? 0 : (size_t)t->i;
  const cni_onnx_attr *a;
  *v = cn_v_none();
  switch (t->kind) {
  case INPUT: return input(v, c, t, type);
  case INPUTS: return input(v, c, &(term){.kind = INPUT}, type);
  case TYPE_OF: *v = cn_v_int(cn_dtype_of(cni_onnx_in(c, (size_t)t->i))); return cn_err();
  case ATTR:
    a = cni_onnx_attr_of(c, t->text);
    if (a) return attribute(v, c, a, type);
    return t->otherwise ? eval_arg(v, c, t->otherwise, type) : CN_OK;
  case CALL:
    if (eval_call(made, &n, c, t)) return cn_err();
    *v = cn_v_tensor(which < n ? made[which] : NULL);
    return CN_OK;
  default: return literal(v, c, t->value, type);
  }
}

/* Results belong to the scope. */
static int eval_call(cn_tensor **out, size_t *nout, cni_onnx_call *c, const term *t)
{
  cn_value args[CN_MAX_ARGS];
  for (int i = 0; i < t->nargs; i++) {
    args[i] = cn_v_none();
    if (t->args[i] && eval_arg(&args[i], c, t->args[i], t->types[i])) return cn_err();
    if (args[i].tag == CN_V_NONE && t->args[i] && !t->may_miss[i])
      return cni_onnx_fail(c, CN_ERR_VALUE, "attribute or input '%s' is missing",
                           t->args[i]->text ? t->args[i]->text : "");
  }
  return cni_onnx_op_call(out, nout, t->op, args, (size_t)t->nargs);
}

int cni_onnx_eval(cni_onnx_call *c, const cni_onnx_template *template)
{
  const term *t = &template->root;
  cn_tensor *made[RESULTS];
  size_t n = RESULTS;
  if (t->kind == INPUT) return cni_onnx_out(c, 0, cni_onnx_in(c, (size_t)t->i));
  if (eval_call(made, &n, c, t)) return cn_err();
  if (t->i >= 0) return cni_onnx_out(c, 0, (size_t)t->i < n ? made[t->i] : NULL);
  for (size_t i = 0; i < n && i < c->nout; i++)
    if (cni_onnx_out(c, i, made[i])) return cn_err();
  return CN_OK;
}
