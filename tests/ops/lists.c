/* lists.c: the C API's lists of numbers: what is written is what happens. Every C function that takes a list (see
 * lists.h) is called with lists as they are, with zeros in them, of one element, too long, empty, and must do what the
 * generic entry does with the same list: give the same result, or fail with the same words.
 *
 * Invariant: nothing here knows an op or a class by name. */
#include "lists.h"

#include <cairn/ext/signature.h>
#include <cairn/optimiser.h>
#include <stdio.h>
#include <string.h>

#include "drivers.h"
#include "test.h"

enum { MOST = CNI_MAX_FIXED + 2, VARIANTS = 8 };

typedef struct numbers {
  int64_t i[MOST];
  double f[MOST];
} numbers;

/* What a list is begun with where nothing says it: numbers that differ. */
static void begin(numbers *x, const cn_value *v, int n)
{
  for (int k = 0; k < MOST; k++) {
    bool ints = v->tag == CN_V_INTS && k < v->n, floats = v->tag == CN_V_FLOATS && k < v->n;
    x->i[k] = ints ? v->u.is[k] : v->tag == CN_V_INT ? v->u.i : k % n + 1;
    x->f[k] = floats ? v->u.fs[k] : v->tag == CN_V_FLOAT ? v->u.f : 0.5 + 0.25 * k;
  }
}

static void zero(numbers *x, int first, int end)
{
  for (int k = first; k < end; k++) x->i[k] = 0, x->f[k] = 0;
}

/* Variant `which` of a list of n numbers, in x; its length. */
static size_t vary(numbers *x, const cn_value *v, int n, int which)
{
  begin(x, v, n);
  switch (which) {
  case 0: return (size_t)n;
  case 1: return 1; /* {a} */
  case 2: return zero(x, 1, n), (size_t)n; /* {a, 0} */
  case 3: return zero(x, 0, 1), (size_t)n; /* {0, b} */
  case 4: return zero(x, 0, n), (size_t)n; /* {0, 0} */
  case 5: return zero(x, 0, 1), 1;         /* {0} */
  case 6: return x->i[0] = CN_ZERO, (size_t)n;
  default: return (size_t)n + 1;
  }
}

static cn_value list_value(const numbers *x, size_t n, bool ints)
{
  return ints ? cn_v_ints(x->i, n) : cn_v_floats(x->f, n);
}

/* ---- ops ---- */

static const list_op *find_op(const char *name)
{
  for (const list_op *o = list_ops; o->name; o++)
    if (!strcmp(o->name, name)) return o;
  return NULL;
}

static enum outcome compare_call(const trial *t, const call *c, const list_op *op, const char *what)
{
  call_result want = {0}, have = {.nout = (size_t)t->s->info->nresults};
  char message[400], detail[300] = "";
  enum outcome o = PASS;
  cn_seed(1);
  int status = call_run(&want, c, NULL);
  snprintf(message, sizeof message, "%s", cn_err_message());
  cn_err_clear();
  cn_seed(1);
  int mine = op->call(have.out, c->args);
  if (mine != status || strncmp(cn_err_message(), message, sizeof message - 1))
    o = trial_fail(t, "%s: in C %d (%s), as a plain list %d (%s)", what, mine, cn_err_message(), status, message);
  else if (!status && !same_results(&have, &want, 0, detail, sizeof detail)) o = trial_fail(t, "%s: %s", what, detail);
  cn_err_clear();
  call_result_free(&want);
  return o;
}

/* The list that argument i is, in all variants; the others stay. */
static enum outcome vary_argument(const trial *t, const call *given, const list_op *op, int i)
{
  const cni_param *p = &t->s->info->params[i];
  cn_value v = given->args[i];
  int n = p->fixed ? p->fixed : v.tag == CN_V_INTS || v.tag == CN_V_FLOATS ? v.n : 1;
  if (n < 1 || n >= MOST) return PASS;
  for (int which = 0; which < VARIANTS; which++) {
    call c = *given;
    numbers x;
    char what[80];
    size_t length = vary(&x, &v, n, which);
    c.args[i] = list_value(&x, length, p->type == CNI_T_INT);
    snprintf(what, sizeof what, "variant %d of '%s'", which, p->name);
    enum outcome o = compare_call(t, &c, op, what);
    if (o != PASS) return o;
  }
  return PASS;
}

/* A number in a sample stands for a list of one; C has no numbers for lists. */
static void as_lists(call *c, numbers *rooms)
{
  for (int i = 0; i < c->nargs; i++) {
    const cni_param *p = &c->s->info->params[i];
    cn_value *v = &c->args[i];
    if (!p->list || (v->tag != CN_V_INT && v->tag != CN_V_FLOAT && v->tag != CN_V_BOOL)) continue;
    begin(&rooms[i], v, 1);
    *v = list_value(&rooms[i], 1, p->type == CNI_T_INT);
  }
}

enum outcome drive_lists(const trial *t)
{
  const list_op *op = find_op(t->s->info->name);
  numbers rooms[CN_MAX_ARGS];
  call c;
  if (!op || t->s->must_fail || t->s->large || sample_is_sparse(t->s)) return PASS;
  if (call_make(&c, t->s, &(call_setup){0})) return trial_fail(t, "inputs: %s", cn_err_message());
  as_lists(&c, rooms);
  enum outcome o = exception_for("lists", t->s) ? PASS : compare_call(t, &c, op, "as it is");
  for (int i = 0; o == PASS && i < c.nargs; i++) {
    const cni_param *p = &t->s->info->params[i];
    bool numeric = p->list && (p->type == CNI_T_INT || p->type == CNI_T_FLOAT);
    if (numeric && (p->fixed || p->has_default)) o = vary_argument(t, &c, op, i);
  }
  call_free(&c);
  return o;
}

/* ---- classes ---- */

/* One kind of class: its signature, how it is made, and what its arguments have become. */
typedef struct kind {
  const list_maker *rows;
  const char *(*signature)(const char *name);
  void *(*make)(const char *name, const cn_value *args, size_t n);
  const cn_args *(*args)(void *made);
  void (*destroy)(void *made);
} kind;

cn_module *list_net;

static bool same_value(const cn_value *a, const cn_value *b)
{
  if (a->tag == CN_V_NONE) return b->tag == CN_V_NONE;
  if (a->tag != b->tag || a->n != b->n) return false;
  if (a->tag == CN_V_STR) return !strcmp(a->u.s, b->u.s);
  if (a->tag == CN_V_INTS || a->tag == CN_V_FLOATS) return !memcmp(a->u.is, b->u.is, (size_t)a->n * sizeof *a->u.is);
  return a->u.i == b->u.i;
}

/* Makes one in both ways; says whether that worked. */
static bool compare_made(const kind *k, const list_maker *row, const cn_value *values, size_t n)
{
  char message[400];
  void *want = k->make(row->name, values, n);
  snprintf(message, sizeof message, "%s", cn_err_message());
  cn_err_clear();
  void *have = row->make(values);
  if (!have != !want || strncmp(cn_err_message(), message, sizeof message - 1))
    fail_msg("%s: in C '%s', from values '%s'", row->name, cn_err_message(), message);
  cn_err_clear();
  for (size_t i = 0; have && i < n; i++)
    if (!same_value(&cn_args_values(k->args(have))[i], &cn_args_values(k->args(want))[i]))
      fail_msg("%s: argument %zu differs", row->name, i);
  k->destroy(want);
  k->destroy(have);
  return want != NULL;
}

/* How many numbers a parameter wants; 0: it is no list. */
static int length_of(const cn_op_param *p)
{
  const char *bracket = strchr(p->type, '[');
  return !bracket ? 0 : bracket[1] == ']' ? 1 : bracket[1] - '0';
}

/* Its default; or something that a parameter without one may be. */
static cn_value something(const cn_op_param *p, numbers *room)
{
  bool ints = p->type[0] == 'i';
  if (p->default_text) return p->default_value;
  begin(room, &p->default_value, 2);
  if (length_of(p)) return list_value(room, (size_t)length_of(p), ints);
  return ints ? cn_v_int(4) : p->type[0] == 'f' ? cn_v_float(0.5) : cn_v_none();
}

static void sweep_class(const kind *k, const list_maker *row, const cn_signature *sig)
{
  cn_op_param params[CN_MAX_ARGS];
  numbers rooms[CN_MAX_ARGS], x;
  cn_value values[CN_MAX_ARGS];
  int worked = 0, n = cn_signature_size(sig);
  for (int i = 0; i < n; i++) {
    assert_int_equal(cn_signature_param(&params[i], sig, i), CN_OK);
    values[i] = something(&params[i], &rooms[i]);
  }
  for (int i = 0; i < n; i++) {
    cn_value kept = values[i];
    int length = length_of(&params[i]);
    for (int which = 0; length && which < VARIANTS; which++) {
      size_t count = vary(&x, &kept, length, which);
      values[i] = list_value(&x, count, params[i].type[0] == 'i');
      worked += compare_made(k, row, values, (size_t)n);
    }
    values[i] = kept;
  }
  if (!worked) fail_msg("%s: none of the variants could be made", row->name);
}

static void sweep(const kind *k)
{
  for (const list_maker *row = k->rows; row->name; row++) {
    cn_signature *sig = cn_signature_parse(k->signature(row->name));
    assert_non_null(sig);
    sweep_class(k, row, sig);
    cn_signature_free(sig);
  }
}

static const char *module_signature(const char *name) { return cn_module_class_find(name)->sig; }
static void *make_module(const char *name, const cn_value *args, size_t n) { return cn_module_make(name, args, n); }
static const cn_args *module_args(void *made) { return cn_module_args(made); }
static void module_destroy(void *made) { cn_module_release(made); }

static const char *optim_signature(const char *name)
{
  const char *each, *sig, *doc;
  for (size_t i = 0; cn_optim_class_at(i, &each, &sig, &doc); i++)
    if (!strcmp(each, name)) return sig;
  return NULL;
}
static void *make_optim(const char *name, const cn_value *args, size_t n)
{
  return cn_optim_make(name, list_net, args, n);
}
static const cn_args *optim_args(void *made) { return cn_optim_args(made, 0); }
static void optim_destroy(void *made) { cn_optim_free(made); }

void lists_of_modules(void **state)
{
  (void)state;
  sweep(&(kind){list_modules, module_signature, make_module, module_args, module_destroy});
}

void lists_of_optims(void **state)
{
  (void)state;
  list_net = cn_nn_linear(2, 2, .no_bias = true); /* for Muon, which takes matrices alone */
  sweep(&(kind){list_optims, optim_signature, make_optim, optim_args, optim_destroy});
  cn_module_release(list_net);
}

/* What is given in two ways at once is not one of the two. */
void lists_given_twice(void **state)
{
  (void)state;
  assert_null(cn_nn_conv2d(1, 2, 3, .kernel_size_each = CN_INTS(3, 1)));
  assert_non_null(strstr(cn_err_message(), "'kernel_size' is given twice"));
  cn_err_clear();
  assert_null(cn_nn_conv2d(1, 2, 3, .padding = CN_INTS(1), .padding_str = "same"));
  assert_non_null(strstr(cn_err_message(), "'padding' is given twice"));
  cn_err_clear();
}

/* The shape that a reader expects: rows are padded, columns are not. */
void lists_mean_what_they_say(void **state)
{
  (void)state;
  cn_scope *scope = cn_scope_begin();
  cn_tensor *x = cn_ones(CN_SHAPE(1, 1, 4, 4)), *w = cn_ones(CN_SHAPE(1, 1, 3, 3));
  cn_tensor *y = cn_conv2d(x, w, NULL, .padding = CN_INTS(1, 0));
  assert_int_equal(cn_size(y, 2), 4);
  assert_int_equal(cn_size(y, 3), 2);
  y = cn_conv2d(x, w, NULL, .padding = CN_INTS(1));
  assert_int_equal(cn_size(y, 3), 4);
  assert_null(cn_conv2d(x, w, NULL, .padding = CN_INTS(CN_ZERO, 1)));
  assert_non_null(strstr(cn_err_message(), "write 0"));
  cn_err_clear();
  assert_null(cn_conv2d(x, w, NULL, .padding = CN_INTS(1, 1, 1)));
  assert_non_null(strstr(cn_err_message(), "takes 2 numbers, not 3"));
  cn_err_clear();
  cn_scope_end(scope);
}
