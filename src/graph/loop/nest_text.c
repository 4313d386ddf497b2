/* nest_text.c: the text of nests, written and read. nest.h has an example.
 *
 * Place in the flow: for people and tests; nest.c's functions build what is read, and nest_verify.c, not the reader,
 * says whether it may run. Invariant: what is written reads back as the same nest: the same text; any other text is
 * read or refused. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/state.h"
#include "nest.h"

/* ---- writing ---- */

static const char *const signs[] = {[CNI_EXPR_ADD] = " + ", [CNI_EXPR_SUB] = " - ", [CNI_EXPR_MUL] = " * ",
                                    [CNI_EXPR_DIV] = " // "};

/* outer: how tightly what stands around it binds. */
static void put_expr(cn_text *t, const cni_nest *n, int expr, int outer)
{
  const cni_expr *e = &n->exprs.v[expr];
  if (e->op == CNI_EXPR_CONST) cn_text_putf(t, "%lld", (long long)e->value);
  else if (e->op == CNI_EXPR_SIZE && e->value >= CNI_NEST_AXES) cn_text_putf(t, "#%d", (int)e->value - CNI_NEST_AXES);
  else if (e->op == CNI_EXPR_SIZE) cn_text_put(t, n->axis[e->value].name);
  else {
    int level = e->op == CNI_EXPR_ADD || e->op == CNI_EXPR_SUB ? 1 : 2;
    if (level < outer) cn_text_put(t, "(");
    put_expr(t, n, e->a, level);
    cn_text_put(t, signs[e->op]);
    put_expr(t, n, e->b, level + 1);
    if (level < outer) cn_text_put(t, ")");
  }
}

static void put_index(cn_text *t, const cni_nest *n, const int *index, int ndim)
{
  cn_text_put(t, "[");
  for (int k = 0; k < ndim; k++) {
    if (k) cn_text_put(t, ", ");
    put_expr(t, n, index[k], 0);
  }
  cn_text_put(t, "]");
}

static void put_load(cn_text *t, const cni_nest *n, const cni_load *l)
{
  char number[CN_NUMBER_TEXT];
  cn_text_putf(t, "%sload %s = ", l->late ? "then " : "", cni_compute_names[l->class]);
  if (l->operand >= 0) {
    cn_text_putf(t, "%%%d", l->operand);
    put_index(t, n, l->index, l->ndim);
  } else put_expr(t, n, l->index[0], 0);
  for (int k = 0; k < l->nguards; k++) {
    cn_text_put(t, k ? ", 0 <= " : " if 0 <= ");
    put_expr(t, n, l->guard[k].expr, 0);
    cn_text_putf(t, " < %lld", (long long)l->guard[k].below);
  }
  if (l->nguards) cn_text_putf(t, " else %s", cn_number_write(number, l->otherwise, false));
  cn_text_put(t, "\n");
}

static void put_axes(cn_text *t, const cni_nest *n, const char *word, int from, int to)
{
  for (int i = from; i < to; i++)
    cn_text_putf(t, "%s%s < %lld", i == from ? word : ", ", n->axis[i].name, (long long)n->axis[i].size);
  if (to > from) cn_text_put(t, "\n");
}

static void put_loads(cn_text *t, const cni_nest *n, bool late)
{
  for (size_t i = 0; i < n->nloads; i++)
    if (n->loads[i].late == late) put_load(t, n, &n->loads[i]);
}

char *cni_nest_to_string(const cni_nest *n)
{
  cn_text t = {0};
  char number[CN_NUMBER_TEXT];
  put_axes(&t, n, "for ", 0, n->nfor);
  put_axes(&t, n, "over ", n->nfor, n->naxes);
  put_loads(&t, n, false);
  cn_text_putf(&t, "do %s\n", n->body->text);
  for (int k = 0; n->then && k < n->body->nout; k++)
    cn_text_putf(&t, "%s %s from %s\n", cni_fold_names[n->fold[k].fold], cni_compute_names[n->fold[k].class],
                 cn_number_write(number, n->fold[k].from, false));
  put_loads(&t, n, true);
  if (n->then) cn_text_putf(&t, "then do %s\n", n->then->text);
  for (int i = 0; i < n->nstores; i++) {
    cn_text_putf(&t, "store %s ", cn_dtype_name((cn_dtype)n->store[i].dtype));
    put_index(&t, n, n->store[i].index, n->store[i].ndim);
    cn_text_put(&t, "\n");
  }
  return cn_text_take(&t);
}

/* ---- reading ---- */

typedef struct reader {
  const char *s;
  cni_nest *n;
  int depth;
} reader;

enum { DEPTH = 40, WORD = 32 };

static void blanks(reader *r) { r->s += strspn(r->s, " "); }

/* A sign or a word, with the blanks before it. */
static bool eat(reader *r, const char *what)
{
  size_t n = strlen(what);
  blanks(r);
  if (strncmp(r->s, what, n)) return false;
  if (isalnum((unsigned char)what[n - 1]) && (isalnum((unsigned char)r->s[n]) || r->s[n] == '_')) return false;
  r->s += n;
  return true;
}

static bool word(reader *r, char *to)
{
  size_t n = 0;
  blanks(r);
  while (n < WORD - 1 && (isalnum((unsigned char)r->s[n]) || r->s[n] == '_')) n++;
  memcpy(to, r->s, n);
  to[n] = 0;
  r->s += n;
  return n > 0;
}

static bool integer(reader *r, int64_t *v)
{
  char *end;
  blanks(r);
  if (!isdigit((unsigned char)*r->s) && *r->s != '-') return false;
  *v = strtoll(r->s, &end, 10);
  bool some = end != r->s;
  r->s = end;
  return some;
}

static bool number(reader *r, double *v)
{
  const char *end;
  blanks(r);
  *v = cn_number_read(r->s, &end);
  bool some = end != r->s;
  r->s = end;
  return some;
}

static bool class_name(reader *r, enum cni_compute *class)
{
  char name[WORD];
  if (!word(r, name)) return false;
  for (int i = 0; i < CNI_COMPUTES; i++)
    if (!strcmp(name, cni_compute_names[i])) {
      *class = (enum cni_compute)i;
      return true;
    }
  return false;
}

static int sum(reader *r);

/* An expression's number; 0 or less: there is none. */
static int leaf(reader *r)
{
  char name[WORD];
  int64_t v;
  if (eat(r, "(")) {
    int e = ++r->depth > DEPTH ? 0 : sum(r);
    r->depth--;
    return e > 0 && eat(r, ")") ? e : 0;
  }
  if (eat(r, "#")) return integer(r, &v) && v >= 0 && v < (int64_t)r->n->nloads ? cni_nest_gathered(r->n, (int)v) : 0;
  if (integer(r, &v)) return cni_expr_const(&r->n->exprs, v);
  if (!word(r, name)) return 0;
  for (int i = 0; i < r->n->naxes; i++)
    if (!strcmp(r->n->axis[i].name, name)) return cni_nest_variable(r->n, i);
  return 0;
}

static int product(reader *r)
{
  int a = leaf(r);
  while (a > 0) {
    enum cni_expr_op op = eat(r, "//") ? CNI_EXPR_DIV : eat(r, "*") ? CNI_EXPR_MUL : CNI_EXPR_NONE;
    if (op == CNI_EXPR_NONE) return a;
    int b = leaf(r);
    a = b > 0 ? cni_expr_make(&r->n->exprs, op, a, b) : 0;
  }
  return a;
}

static int sum(reader *r)
{
  int a = product(r);
  while (a > 0) {
    enum cni_expr_op op = eat(r, "+") ? CNI_EXPR_ADD : eat(r, "-") ? CNI_EXPR_SUB : CNI_EXPR_NONE;
    if (op == CNI_EXPR_NONE) return a;
    int b = product(r);
    a = b > 0 ? cni_expr_make(&r->n->exprs, op, a, b) : 0;
  }
  return a;
}

static bool index_list(reader *r, int *index, int *ndim)
{
  *ndim = 0;
  if (!eat(r, "[")) return false;
  while (!eat(r, "]")) {
    if (*ndim == CN_MAX_DIMS || (*ndim && !eat(r, ",")) || (index[(*ndim)++] = sum(r)) <= 0) return false;
  }
  return true;
}

static bool guards(reader *r, cni_load *l)
{
  if (!eat(r, "if")) return true;
  do {
    int64_t zero, below;
    if (!integer(r, &zero) || zero != 0 || !eat(r, "<=")) return false;
    int e = sum(r);
    if (e <= 0 || !eat(r, "<") || !integer(r, &below) || cni_nest_guard(l, e, below)) return false;
  } while (eat(r, ","));
  return eat(r, "else") && number(r, &l->otherwise);
}

static bool load(reader *r, bool late)
{
  enum cni_compute class;
  int64_t operand = -1;
  if (!class_name(r, &class) || !eat(r, "=")) return false;
  if (eat(r, "%") && (!integer(r, &operand) || operand < 0 || operand > INT32_MAX)) return false;
  cni_load l = {.operand = (int)operand, .class = class, .late = late, .ndim = 1};
  if (operand < 0 ? (l.index[0] = sum(r)) <= 0 : !index_list(r, l.index, &l.ndim)) return false;
  if (!guards(r, &l)) return false;
  cni_load *to = cni_nest_load(r->n, l.operand, class, late);
  if (to) *to = l;
  return to != NULL;
}

static bool axes(reader *r)
{
  do {
    char name[WORD];
    int64_t size;
    if (!word(r, name) || !isalpha((unsigned char)*name) || strlen(name) >= CNI_AXIS_NAME) return false;
    for (int i = 0; i < r->n->naxes; i++)
      if (!strcmp(r->n->axis[i].name, name)) return false;
    if (!eat(r, "<") || !integer(r, &size) || cni_nest_axis(r->n, name, size) < 0) return false;
  } while (eat(r, ","));
  return true;
}

/* Up to the line's end. */
static bool program(reader *r, const cni_program **to)
{
  blanks(r);
  size_t n = strcspn(r->s, "\n");
  char *text = *to ? NULL : cni_alloc(n + 1);
  if (!text) return false;
  memcpy(text, r->s, n);
  text[n] = 0;
  *to = cni_program_parse(text);
  cni_free(text, n + 1);
  r->s += n;
  return *to != NULL;
}

static bool reduction(reader *r, enum cni_fold fold, int *count)
{
  cni_accumulator *a = &r->n->fold[*count];
  if (!r->n->body || *count >= r->n->body->nout) return false;
  a->fold = fold;
  ++*count;
  return class_name(r, &a->class) && eat(r, "from") && number(r, &a->from);
}

static bool store(reader *r)
{
  char name[WORD];
  cni_store *s = &r->n->store[r->n->nstores];
  if (r->n->nstores == CNI_MAX_RESULTS || !word(r, name)) return false;
  s->dtype = (int)cn_dtype_find(name);
  r->n->nstores++;
  return s->dtype && index_list(r, s->index, &s->ndim);
}

static bool line(reader *r, int *folds)
{
  for (int i = 0; i < CNI_FOLDS; i++)
    if (eat(r, cni_fold_names[i])) return reduction(r, (enum cni_fold)i, folds);
  if (eat(r, "for")) return !r->n->naxes && axes(r) && (r->n->nfor = r->n->naxes) > 0;
  if (eat(r, "over")) return r->n->nfor == r->n->naxes && axes(r);
  if (eat(r, "load")) return load(r, false);
  if (eat(r, "do")) return program(r, &r->n->body);
  if (eat(r, "store")) return store(r);
  if (!eat(r, "then")) return false;
  return eat(r, "load") ? load(r, true) : eat(r, "do") && program(r, &r->n->then);
}

int cni_nest_parse(cni_nest *n, const char *text)
{
  reader r = {.s = text, .n = n};
  int lines = 0, folds = 0;
  while (*r.s) {
    lines++;
    if (!line(&r, &folds) || (blanks(&r), *r.s && *r.s++ != '\n'))
      return cn_err() ? cn_err() : cni_fail(CN_ERR_VALUE, "loop: line %d is not one of a nest", lines);
  }
  if (n->body && n->nstores && (!n->then || folds == n->body->nout)) return CN_OK;
  return cni_fail(CN_ERR_VALUE, "loop: the nest is not complete");
}
