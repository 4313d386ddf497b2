/* parse.c: reads the text of text_form.c back into a graph. Survives any bytes: every error names its line.
 *
 * Invariant: a parsed graph has passed the verifier; value ids of the text are kept. */
#include <cairn/device.h>
#include <cairn/ext/system.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/convert.h"
#include "base/dtype.h"
#include "control.h"
#include "ops/families.h"
#include "tensor/args.h"
#include "tensor/tensor.h"

enum { MOST = 4096 }; /* numbers in one list, tensors of one call, results */
enum { DEEPEST = 32 }; /* graphs in graphs */

typedef struct reader {
  const char *s;
  size_t most; /* values there can be: each takes some characters */
  int line;
  cn_graph *g;
  int64_t *ints;
  double *floats;
  int *ids;
  char *strings; /* room for the strings of one line */
  bool any_absent; /* in the call of a scope any tensor may be unknown */
  cni_gsym *syms; /* of one line */
  int nsyms;
  int *out;       /* results of one line */
  int depth;      /* of the graph that is read: it is held by a node */
} reader;

static int bad(const reader *r, const char *what)
{
  return cni_fail(CN_ERR_IO, "graph text, line %d: %s near \"%.20s\"", r->line, what, r->s);
}

static void blanks(reader *r)
{
  while (*r->s == ' ') r->s++;
}
static bool eat(reader *r, const char *word)
{
  size_t n = strlen(word);
  blanks(r);
  if (strncmp(r->s, word, n)) return false;
  r->s += n;
  return true;
}
static bool integer(reader *r, int64_t *v)
{
  char *end;
  blanks(r);
  if (*r->s != '-' && (*r->s < '0' || *r->s > '9')) return false;
  *v = strtoll(r->s, &end, 10);
  if (end == r->s) return false;
  r->s = end;
  return true;
}
static bool number(reader *r, double *v)
{
  const char *end;
  blanks(r);
  if (!strchr("-+0123456789in", *r->s) || !*r->s) return false;
  *v = cn_number_read(r->s, &end);
  if (end == r->s) return false;
  r->s = end;
  return true;
}
static bool word(reader *r, char *out, size_t size)
{
  blanks(r);
  size_t n = strspn(r->s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
  if (!n || n >= size) return false;
  memcpy(out, r->s, n);
  out[n] = 0;
  r->s += n;
  return true;
}
static bool small(reader *r, int *v)
{
  int64_t x;
  if (!integer(r, &x) || x < -2 || x > INT32_MAX) return false;
  *v = (int)x;
  return true;
}

/* ---- numbers that follow from sizes: see put_expr ---- */

static int expression(reader *r, int depth);

static int size_named(reader *r)
{
  char name[CNI_SIZE_NAME];
  if (!word(r, name, sizeof name)) return CN_ERR_VALUE;
  for (size_t i = 0; i < r->g->nsizes; i++)
    if (!strcmp(r->g->sizes[i].name, name)) return cni_expr_size(&r->g->exprs, (int)i);
  return CN_ERR_VALUE;
}

static int operand(reader *r, int depth)
{
  int64_t v;
  if (depth > CNI_EXPR_MOST) return CN_ERR_VALUE;
  if (integer(r, &v)) return cni_expr_const(&r->g->exprs, v);
  if (eat(r, "(")) {
    int e = expression(r, depth + 1);
    return e > 0 && !eat(r, ")") ? CN_ERR_VALUE : e;
  }
  bool min = eat(r, "min("), call = min || eat(r, "max(");
  if (!call) return size_named(r);
  int a = expression(r, depth + 1), b = a > 0 && eat(r, ",") ? expression(r, depth + 1) : CN_ERR_VALUE;
  int e = a < 0 ? a : cni_expr_make(&r->g->exprs, min ? CNI_EXPR_MIN : CNI_EXPR_MAX, a, b);
  return e > 0 && !eat(r, ")") ? CN_ERR_VALUE : e;
}

static int product(reader *r, int depth)
{
  int e = operand(r, depth);
  while (e > 0) {
    enum cni_expr_op op = eat(r, "//") ? CNI_EXPR_DIV : eat(r, "*") ? CNI_EXPR_MUL : eat(r, "/") ? CNI_EXPR_RATIO
                                                                                                 : CNI_EXPR_NONE;
    if (!op) break;
    e = cni_expr_make(&r->g->exprs, op, e, operand(r, depth));
  }
  return e;
}

static int expression(reader *r, int depth)
{
  int e = product(r, depth);
  while (e > 0) {
    enum cni_expr_op op = eat(r, "+") ? CNI_EXPR_ADD : eat(r, "-") ? CNI_EXPR_SUB : CNI_EXPR_NONE;
    if (!op) break;
    e = cni_expr_make(&r->g->exprs, op, e, product(r, depth));
  }
  return e;
}

int cni_expression_parse(cn_graph *g, const char *text)
{
  reader r = {.s = text, .g = g};
  int e = expression(&r, 0);
  blanks(&r);
  return e > 0 && *r.s ? CN_ERR_VALUE : e;
}

/* What follows a "$": the expression, and its value at the traced sizes. False: there is none. */
static bool sized(reader *r, int32_t *expr, int64_t *integer_value, double *number_value)
{
  bool open = eat(r, "(");
  int e = open ? expression(r, 0) : size_named(r);
  if (e <= 0 || (open && !eat(r, ")"))) return false;
  *expr = e;
  *integer_value = cni_expr_traced(r->g, e, number_value);
  return *number_value == *number_value; /* no number stands for "undefined" */
}

/* An integer, or an expression for one, which goes to *expr. */
static bool sized_integer(reader *r, int64_t *v, int32_t *expr)
{
  double number;
  *expr = 0;
  return eat(r, "$") ? sized(r, expr, v, &number) && r->g->exprs.v[*expr].op != CNI_EXPR_RATIO : integer(r, v);
}
static bool sized_number(reader *r, double *v, int32_t *expr)
{
  int64_t integer_value;
  *expr = 0;
  return eat(r, "$") ? sized(r, expr, &integer_value, v) : number(r, v);
}
static bool note(reader *r, int arg, int element, int32_t expr)
{
  if (expr && r->nsyms == MOST) return false;
  if (expr) r->syms[r->nsyms++] = (cni_gsym){arg, element, expr};
  return true;
}

/* ---- values ---- */

/* A device by its name, which ends at a blank, a comma or a quote; 0: there is none. */
static cn_device device(reader *r)
{
  char name[64];
  size_t n = strcspn(r->s, " ,'\n");
  if (n >= sizeof name) return 0;
  memcpy(name, r->s, n);
  name[n] = 0;
  r->s += n;
  cn_device found = cn_device_find(name);
  if (!found) cn_err_clear(); /* the line's error says where */
  return found;
}

static bool strides(reader *r, cni_gvalue *v)
{
  if (!eat(r, "strides [")) return true;
  v->has_strides = true;
  for (int i = 0; i < v->ndim; i++)
    if (!integer(r, &v->strides[i]) || (i + 1 < v->ndim && !eat(r, ","))) return false;
  return eat(r, "]");
}

static bool type(reader *r, cni_gvalue *v)
{
  char name[32];
  if (!word(r, name, sizeof name)) return false;
  v->dtype = (int32_t)cn_dtype_find(name);
  v->device = CN_CPU;
  if (!v->dtype || !eat(r, "[")) return false;
  while (!eat(r, "]")) {
    int d = v->ndim++;
    if (d == CN_MAX_DIMS || !sized_integer(r, &v->shape[d], &v->dims[d]) || v->shape[d] < 0) return false;
    if (v->dims[d] && v->kind != CNI_VALUE_INPUT && (v->kind != CNI_VALUE_RESULT || d)) return false;
    eat(r, ",");
  }
  return !eat(r, "on ") || (v->device = device(r)) != 0;
}

/* Values may be named in any order: makes room up to id. */
static int put_value(reader *r, int id, const cni_gvalue *v)
{
  cn_graph *g = r->g;
  if (id < 0 || (size_t)id > r->most) return bad(r, "a value's number is out of range");
  while (g->nvalues <= (size_t)id) {
    cni_gvalue empty = {.kind = CNI_VALUE_SCALAR, .dtype = CN_F64, .weak = true};
    if (cni_graph_add_value(g, &empty) < 0) return CN_ERR_MEMORY;
  }
  cni_tensor_release(g->values[id].tensor);
  g->values[id] = *v;
  return CN_OK;
}

static int scalar_line(reader *r, int id)
{
  cni_gvalue v = {.kind = CNI_VALUE_SCALAR, .device = CN_CPU};
  char name[32];
  if (!word(r, name, sizeof name) || !(v.dtype = (int32_t)cn_dtype_find(name))) return bad(r, "a type is missing");
  v.weak = eat(r, "weak");
  if (v.dtype == CN_F64 ? !sized_number(r, &v.number, &v.expr) : !sized_integer(r, &v.integer, &v.expr))
    return bad(r, "a number is missing");
  if (v.dtype != CN_F64 && v.dtype != CN_I64 && v.dtype != CN_BOOL) return bad(r, "not a type of numbers");
  return put_value(r, id, &v);
}

static bool element(reader *r, void *data, int64_t i, int dtype)
{
  double f;
  int64_t n;
  if (i && !eat(r, ",")) return false;
  if (cni_dtype_is_float(dtype)) return number(r, &f) && (cni_store_f64(data, i, dtype, f), true);
  return integer(r, &n) && (cni_store_i64(data, i, dtype, n), true);
}

static int const_line(reader *r, int id)
{
  cni_gvalue v = {.kind = CNI_VALUE_CONST};
  int64_t n;
  if (!type(r, &v) || !eat(r, "<") || !cni_dtype_computes(v.dtype)) return bad(r, "a type, shape or data are missing");
  if (!cni_shape_fits(v.ndim, v.shape, cni_dtype_size(v.dtype), &n) || n > CN_CONST_MOST)
    return bad(r, "a constant is too large");
  if (!(v.tensor = cni_tensor_new(CN_CPU, v.dtype, v.ndim, v.shape, NULL))) return CN_ERR_MEMORY;
  bool good = true;
  for (int64_t i = 0; i < n && good; i++) good = element(r, v.tensor->d.data, i, v.dtype);
  int status = good && eat(r, ">") ? put_value(r, id, &v) : bad(r, "bad data");
  if (status) cni_tensor_release(v.tensor);
  return status;
}

static bool string_arg(reader *r, cn_value *v, char **room, const char *room_end)
{
  char *start = *room;
  for (; *r->s && *r->s != '\'' && *r->s != '\n'; r->s++) {
    if (*r->s == '\\' && r->s[1]) r->s++;
    if (*room + 1 >= room_end) return false;
    *(*room)++ = *r->s;
  }
  if (*r->s != '\'' || *room + 1 >= room_end) return false;
  r->s++;
  *(*room)++ = 0;
  *v = cn_v_str(start);
  return true;
}

static char *quoted(reader *r)
{
  cn_value v;
  char *room = r->strings;
  return eat(r, "'") && string_arg(r, &v, &room, r->strings + MOST) ? cni_strdup(v.u.s) : NULL;
}

static int input_line(reader *r, int id)
{
  cn_graph *g = r->g;
  cni_gvalue v = {.kind = CNI_VALUE_INPUT, .index = (int32_t)g->ninputs};
  if (!type(r, &v)) return bad(r, "a type and shape are missing");
  if (!strides(r, &v)) return bad(r, "bad strides");
  bool number = !v.ndim && (v.dtype == CN_F64 || v.dtype == CN_I64 || v.dtype == CN_BOOL);
  if ((v.weak = eat(r, "weak")) && !number) return bad(r, "only a number can be weak");
  int status = put_value(r, id, &v);
  return status ? status : cni_graph_list_input(g, id);
}

static int state_line(reader *r, int id)
{
  cn_graph *g = r->g;
  cni_gvalue v = {.kind = CNI_VALUE_STATE, .index = (int32_t)g->nstates};
  if (!type(r, &v) || !strides(r, &v)) return bad(r, "a type and shape are missing");
  if (cni_grow((void **)&g->states, &g->states_cap, g->nstates + 1, sizeof *g->states)) return CN_ERR_MEMORY;
  g->states[g->nstates++] = (cni_gstate){NULL, id, -1, NULL, false};
  blanks(r);
  if (*r->s == '\'') {
    char *name = quoted(r);
    int status = name ? cn_graph_name_state(g, g->nstates - 1, name) : cn_err() ? cn_err() : bad(r, "bad name");
    cn_string_free(name);
    if (status) return status;
  }
  g->states[g->nstates - 1].trained = eat(r, "requires_grad");
  return put_value(r, id, &v);
}

/* ---- calls ---- */

static bool value_ref(reader *r, int *id)
{
  *id = -1;
  if (eat(r, "none")) return true;
  return eat(r, "%") && small(r, id) && (size_t)*id < r->g->nvalues;
}

typedef struct lists {
  int nints, nfloats, nids;
  char *room;
  const char *room_end;
} lists;

static bool int_list(reader *r, cn_value *v, lists *l, int arg)
{
  int first = l->nints;
  int32_t expr;
  while (!eat(r, "]")) {
    if (l->nints == MOST || !sized_integer(r, &r->ints[l->nints], &expr)) return false;
    if (!note(r, arg, l->nints++ - first, expr)) return false;
    eat(r, ",");
  }
  *v = cn_v_ints(r->ints + first, (size_t)(l->nints - first));
  return true;
}
static bool float_list(reader *r, cn_value *v, lists *l, int arg)
{
  int first = l->nfloats;
  int32_t expr;
  while (!eat(r, ">")) {
    if (l->nfloats == MOST || !sized_number(r, &r->floats[l->nfloats], &expr)) return false;
    if (!note(r, arg, l->nfloats++ - first, expr)) return false;
    eat(r, ",");
  }
  *v = cn_v_floats(r->floats + first, (size_t)(l->nfloats - first));
  return true;
}
static bool tensor_list(reader *r, cn_value *v, lists *l, bool absent)
{
  int first = l->nids;
  while (!eat(r, "}")) {
    if (l->nids == MOST || !value_ref(r, &r->ids[l->nids])) return false;
    if (r->ids[l->nids++] < 0 && !absent) return false;
    eat(r, ",");
  }
  *v = cn_v_tensors(NULL, (size_t)(l->nids - first));
  return true;
}

/* A plain number: of a Scalar both kinds may be one, and an expression is then an integer unless it is a ratio. */
static bool number_arg(reader *r, const cni_param *p, cn_value *v, int arg)
{
  bool real = p->type == CNI_T_FLOAT || p->type == CNI_T_SCALAR;
  int32_t expr = 0;
  int64_t i = 0;
  double f = 0;
  blanks(r);
  const char *start = r->s;
  if (eat(r, "$")) {
    if (!sized(r, &expr, &i, &f) || !note(r, arg, 0, expr)) return false;
    bool ratio = r->g->exprs.v[expr].op == CNI_EXPR_RATIO;
    *v = p->type == CNI_T_FLOAT || ratio ? cn_v_float(f) : cn_v_int(i);
    return real || !ratio;
  }
  if (integer(r, &i) && !strchr("x.pe", *r->s))
    return *v = p->type == CNI_T_FLOAT ? cn_v_float((double)i) : cn_v_int(i), true;
  r->s = start;
  return real && number(r, &f) && (*v = cn_v_float(f), true);
}

/* A type or a device; 0 stands for the default. */
static bool named_arg(reader *r, const cni_param *p, cn_value *v)
{
  char name[32];
  int64_t number = 0;
  blanks(r);
  if (*r->s == '0') {
    r->s++;
  } else if (p->type == CNI_T_DTYPE) {
    if (!word(r, name, sizeof name) || !(number = (int64_t)cn_dtype_find(name))) return false;
  } else if (!eat(r, "'") || !(number = device(r)) || !eat(r, "'")) return false;
  *v = cn_v_int(number);
  return true;
}

static bool argument(reader *r, const cni_opinfo *info, int arg, cn_value *v, lists *l)
{
  const cni_param *p = &info->params[arg];
  *v = cn_v_none();
  if (p->type == CNI_T_TENSOR && !p->list) {
    if (l->nids == MOST || !value_ref(r, &r->ids[l->nids])) return false;
    if (r->ids[l->nids] >= 0) *v = (cn_value){CN_V_TENSOR, 1, {0}};
    else if (!p->optional && !r->any_absent) return false;
    l->nids++;
    return true;
  }
  if (eat(r, "{")) return p->type == CNI_T_TENSOR && tensor_list(r, v, l, p->elem_optional || r->any_absent);
  if (p->type == CNI_T_TENSOR) return false;
  if (eat(r, "none")) return p->optional;
  if (eat(r, "["))
    return p->list && p->type == CNI_T_INT && int_list(r, v, l, arg) && (!p->fixed || v->n == p->fixed);
  if (eat(r, "<")) return p->list && p->type == CNI_T_FLOAT && float_list(r, v, l, arg);
  if (p->list) return false;
  if (p->type != CNI_T_DEVICE && eat(r, "'")) return p->type == CNI_T_STR && string_arg(r, v, &l->room, l->room_end);
  if (p->type == CNI_T_STR) return false;
  bool truth = p->type == CNI_T_BOOL || p->type == CNI_T_SCALAR;
  if (truth && eat(r, "true")) return *v = cn_v_bool(true), true;
  if (truth && eat(r, "false")) return *v = cn_v_bool(false), true;
  if (p->type == CNI_T_DTYPE || p->type == CNI_T_DEVICE) return named_arg(r, p, v);
  return p->type != CNI_T_BOOL && number_arg(r, p, v, arg);
}

/* Behind the last argument written: the op had fewer then, and what was added has a default. */
static bool default_arg(reader *r, const cni_param *p, cn_value *v, lists *l)
{
  bool tensor = p->type == CNI_T_TENSOR;
  *v = !tensor && p->has_default ? p->def : cn_v_none();
  if (tensor && !p->list && l->nids < MOST) r->ids[l->nids++] = -1;
  return tensor ? p->optional && !p->list && l->nids < MOST : p->has_default || p->optional;
}

/* A call means what its op meant when it was written: another version is another op. */
static int version(reader *r, const cni_opinfo *info)
{
  int64_t written = 1, own = cni_op_version(info);
  if (*r->s == '@' && (r->s++, !integer(r, &written) || written < 2)) return bad(r, "bad version of an op");
  if (written == own) return CN_OK;
  return cni_fail(CN_ERR_IO, "graph text, line %d: it calls %s of version %" PRId64 ", and this library's is %" PRId64
                  ": %s", r->line, info->name, written, own,
                  written > own ? "a newer library wrote it" : "trace the function again");
}

/* "name(arguments) :". The op, and its arguments, which lie in the reader's room; NULL with the error set. */
static const cni_opinfo *call(reader *r, cn_value *args, lists *l)
{
  char name[CNI_NAME_MAX];
  r->nsyms = 0;
  *l = (lists){.room = r->strings, .room_end = r->strings + MOST};
  const cni_opinfo *info = word(r, name, sizeof name) ? cni_graph_op(name) : NULL;
  if (!info) return cn_err() ? cn_err() : bad(r, "there is no such op"), NULL;
  if (version(r, info)) return NULL;
  if (!eat(r, "(")) return bad(r, "a call is missing"), NULL;
  for (int i = 0; i < info->nparams; i++) {
    if (i && !eat(r, ",")) {
      if (!default_arg(r, &info->params[i], &args[i], l)) return bad(r, "an argument is missing"), NULL;
    } else if (!argument(r, info, i, &args[i], l)) return bad(r, "bad argument"), NULL;
  }
  if (!eat(r, ")") || !eat(r, ":")) return bad(r, "the call does not end"), NULL;
  return info;
}

/* What was noted while the arguments were read. */
static int take_syms(const reader *r, cni_gsyms *syms)
{
  int status = CN_OK;
  for (int i = 0; i < r->nsyms && !status; i++)
    status = cni_syms_add(syms, r->syms[i].arg, r->syms[i].element, r->syms[i].expr);
  return status;
}

static int lines(reader *r);

/* The graphs that a node holds, each in braces, from behind the first one's opening brace. */
static int sub_graphs(reader *r, int node)
{
  cn_graph *subs[2] = {NULL, NULL};
  int n = 0, status = CN_OK;
  if (r->depth == DEEPEST) return bad(r, "graphs in graphs, too deep");
  do {
    reader inner = *r;
    inner.depth++;
    status = n == 2 ? bad(r, "too many graphs") : (inner.g = subs[n] = cn_graph_new()) ? CN_OK : CN_ERR_MEMORY;
    if (!status) status = lines(&inner);
    r->s = inner.s;
    r->line = inner.line;
    n++;
  } while (!status && eat(r, "{"));
  if (!status) status = cni_gnode_hold(&r->g->nodes[node], subs, n);
  for (int i = 0; i < 2 && status; i++) cn_graph_free(subs[i]);
  return status;
}

static int node_line(reader *r, const int *out, int nout)
{
  cn_value args[CN_MAX_ARGS];
  lists l;
  const cni_opinfo *info = call(r, args, &l);
  if (!info) return cn_err();
  bool many = info->list_result && (nout <= CNI_MAX_RESULTS || cni_control_of(info) != CNI_CONTROL_NONE);
  if (!many && nout != info->nresults) return bad(r, "wrong number of results");
  if (cni_control_of(info) == CNI_CONTROL_HOST) return bad(r, "a host call belongs to the process that captured it,");
  int node = cni_graph_add_node(r->g, info, args, info->nparams, r->ids, l.nids, nout);
  if (node < 0) return node;
  if (take_syms(r, &r->g->nodes[node].syms)) return CN_ERR_MEMORY;
  for (int k = 0; k < nout; k++) {
    cni_gvalue v = {.kind = CNI_VALUE_RESULT, .index = k, .node = node};
    if (!type(r, &v) || (k + 1 < nout && !eat(r, ","))) return bad(r, "a result's type is missing");
    int status = put_value(r, out[k], &v);
    if (status) return status;
    r->g->nodes[node].out[k] = out[k];
  }
  if (eat(r, "draw ") && !small(r, &r->g->nodes[node].draw)) return bad(r, "bad draw");
  if (eat(r, "in ") && !small(r, &r->g->nodes[node].scope)) return bad(r, "bad scope");
  return eat(r, "{") ? sub_graphs(r, node) : CN_OK;
}

static int value_line(reader *r)
{
  int *out = r->out, n = 0;
  do {
    if (n == MOST || !small(r, &out[n]) || out[n++] < 0) return bad(r, "bad value");
  } while (eat(r, ",") && eat(r, "%"));
  if (!eat(r, "=")) return bad(r, "'=' is missing");
  if (n == 1 && eat(r, "input ")) return input_line(r, out[0]);
  if (n == 1 && eat(r, "state ")) return state_line(r, out[0]);
  if (n == 1 && eat(r, "scalar ")) return scalar_line(r, out[0]);
  if (n == 1 && eat(r, "const ")) return const_line(r, out[0]);
  return node_line(r, out, n);
}

/* ---- other lines ---- */

static int size_line(reader *r)
{
  cn_graph *g = r->g;
  cni_gsize s;
  if (!word(r, s.name, sizeof s.name) || !eat(r, "=") || !integer(r, &s.traced) || !eat(r, "in") ||
      !integer(r, &s.min) || !eat(r, "..") || !integer(r, &s.max))
    return bad(r, "bad size");
  if (s.traced < s.min || s.traced > s.max || s.min < 0) return bad(r, "bad size");
  for (size_t i = 0; i < g->nsizes; i++)
    if (!strcmp(g->sizes[i].name, s.name)) return bad(r, "a size that there is already");
  if (cni_size_name_fault(s.name)) return bad(r, "a size cannot have this name");
  return cni_graph_add_size(g, s.name, s.traced, s.min, s.max);
}

/* A call's scope, from its "=" on. */
static int scope_call(reader *r, cni_gscope *s)
{
  cn_value args[CN_MAX_ARGS];
  int out[CNI_MAX_RESULTS], n = 0;
  lists l;
  r->any_absent = true;
  s->op = call(r, args, &l);
  r->any_absent = false;
  if (!s->op) return cn_err();
  s->nargs = s->op->nparams;
  if (take_syms(r, &s->syms)) return CN_ERR_MEMORY;
  s->args_size = cni_args_bytes(args, s->nargs);
  if (!(s->args = cni_alloc(s->args_size))) return CN_ERR_MEMORY;
  if (!(s->in = cni_alloc((size_t)l.nids * sizeof *s->in))) return CN_ERR_MEMORY;
  cni_args_copy(s->args, args, s->nargs);
  memcpy(s->in, r->ids, (size_t)l.nids * sizeof *s->in);
  s->nin = l.nids;
  while (*r->s != '\n' && *r->s) {
    if (n == CNI_MAX_RESULTS || (n && !eat(r, ",")) || !value_ref(r, &out[n++])) return bad(r, "bad result");
    blanks(r);
  }
  if (!(s->out = cni_alloc((size_t)n * sizeof *s->out))) return CN_ERR_MEMORY;
  memcpy(s->out, out, (size_t)n * sizeof *s->out);
  s->nout = n;
  return CN_OK;
}

static int scope_line(reader *r)
{
  cn_graph *g = r->g;
  cni_gscope s = {.parent = -1};
  int id;
  if (!small(r, &id) || id != (int)g->nscopes) return bad(r, "scopes are numbered in order");
  if (eat(r, "in ") && !small(r, &s.parent)) return bad(r, "bad scope");
  int status = CN_OK;
  if (eat(r, "=")) status = scope_call(r, &s);
  else if (!(s.name = quoted(r)) || !(s.kind = quoted(r))) status = cn_err() ? cn_err() : bad(r, "a name is missing");
  if (!status) status = cni_grow((void **)&g->scopes, &g->scopes_cap, g->nscopes + 1, sizeof *g->scopes);
  if (!status) g->scopes[g->nscopes++] = s;
  else cni_gscope_free(&s);
  return status;
}

static int draw_line(reader *r)
{
  cn_graph *g = r->g;
  cni_gdraw draw;
  if (!sized_integer(r, &draw.count, &draw.expr) || draw.count < 0) return bad(r, "bad draw");
  if (cni_grow((void **)&g->draws, &g->draws_cap, g->ndraws + 1, sizeof *g->draws)) return CN_ERR_MEMORY;
  g->draws[g->ndraws++] = draw;
  return CN_OK;
}

static int gradient_line(reader *r)
{
  cn_graph *g = r->g;
  cni_gleaf l = {.value = -1};
  if (!small(r, &l.state) || l.state < 0 || (size_t)l.state >= g->nstates || !eat(r, "from"))
    return bad(r, "bad gradient");
  if (eat(r, "absent")) l.before = CNI_GRAD_ABSENT;
  else if (eat(r, "given")) l.before = CNI_GRAD_GIVEN;
  else if (eat(r, "any")) l.before = CNI_GRAD_ANY;
  else return bad(r, "bad gradient");
  if (!eat(r, "to")) return bad(r, "bad gradient");
  if (eat(r, "same")) l.after = CNI_GRAD_KEPT;
  else if (eat(r, "none")) l.after = CNI_GRAD_CLEARED;
  else if (value_ref(r, &l.value) && l.value >= 0) l.after = CNI_GRAD_VALUE;
  else return bad(r, "bad gradient");
  if (cni_grow((void **)&g->leaves, &g->leaves_cap, g->nleaves + 1, sizeof *g->leaves)) return CN_ERR_MEMORY;
  g->leaves[g->nleaves++] = l;
  return CN_OK;
}

static int line(reader *r)
{
  cn_graph *g = r->g;
  int id, state;
  if (eat(r, "%")) return value_line(r);
  if (eat(r, "size ")) return size_line(r);
  if (eat(r, "draw ")) return draw_line(r);
  if (eat(r, "scope ")) return scope_line(r);
  if (eat(r, "gradient ")) return gradient_line(r);
  if (eat(r, "output ")) {
    if (!value_ref(r, &id) || id < 0) return bad(r, "bad output");
    return cni_graph_add_list(&g->outputs, &g->noutputs, &g->outputs_cap, id);
  }
  if (eat(r, "write ")) {
    if (!small(r, &state) || state < 0 || (size_t)state >= g->ninputs || !value_ref(r, &id) || id < 0)
      return bad(r, "bad write");
    g->input_finals[state] = id;
    return CN_OK;
  }
  if (!eat(r, "update ") || !small(r, &state) || state < 0 || (size_t)state >= g->nstates || !value_ref(r, &id) ||
      id < 0)
    return bad(r, "a line that is none of %, size, draw, scope, output, write, update, gradient");
  g->states[state].final = id;
  return CN_OK;
}

/* Up to the end of the text, or, of a graph that a node holds, of its block. */
static int lines(reader *r)
{
  for (; *r->s; r->line++) {
    blanks(r);
    if (r->depth && eat(r, "}")) return CN_OK; /* verified with its node */
    int status = *r->s == '\n' ? CN_OK : line(r);
    if (status) return status;
    blanks(r);
    if (*r->s && *r->s++ != '\n') return bad(r, "more than a line should have");
  }
  return r->depth ? bad(r, "a graph in braces does not end") : cn_graph_verify(r->g);
}

cn_graph *cn_graph_parse(const char *source)
{
  if (cn_err() || !source) return NULL;
  cni_init();
  reader r = {.s = source, .most = strlen(source), .g = cn_graph_new(), .line = 1};
  r.ints = cni_alloc(MOST * sizeof *r.ints);
  r.floats = cni_alloc(MOST * sizeof *r.floats);
  r.ids = cni_alloc(MOST * sizeof *r.ids);
  r.strings = cni_alloc(MOST);
  r.syms = cni_alloc(MOST * sizeof *r.syms);
  r.out = cni_alloc(MOST * sizeof *r.out);
  bool room = r.g && r.ints && r.floats && r.ids && r.strings && r.syms && r.out;
  int status = room ? lines(&r) : CN_ERR_MEMORY;
  cni_free(r.ints, MOST * sizeof *r.ints);
  cni_free(r.floats, MOST * sizeof *r.floats);
  cni_free(r.ids, MOST * sizeof *r.ids);
  cni_free(r.strings, MOST);
  cni_free(r.syms, MOST * sizeof *r.syms);
  cni_free(r.out, MOST * sizeof *r.out);
  if (!status) return r.g;
  cn_graph_free(r.g);
  return NULL;
}
