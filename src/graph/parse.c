/* parse.c: reads the text of text_form.c back into a graph. Survives any bytes: every error names its line.
 *
 * Invariant: a parsed graph has passed the verifier; value ids of the text are kept. */
#include <cairn/ext/system.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "ir.h"
#include "ops/families.h"
#include "tensor/args.h"

enum { MOST = 4096 }; /* numbers in one list, tensors of one call */

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

static bool type(reader *r, cni_gvalue *v)
{
  char name[32];
  if (!word(r, name, sizeof name)) return false;
  v->dtype = (int32_t)cn_dtype_find(name);
  v->device = CN_CPU;
  if (!v->dtype || !eat(r, "[")) return false;
  while (!eat(r, "]")) {
    if (v->ndim == CN_MAX_DIMS || !integer(r, &v->shape[v->ndim]) || v->shape[v->ndim] < 0) return false;
    v->ndim++;
    eat(r, ",");
  }
  return true;
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
  g->values[id] = *v;
  return CN_OK;
}

static int scalar_line(reader *r, int id)
{
  cni_gvalue v = {.kind = CNI_VALUE_SCALAR, .device = CN_CPU};
  char name[32];
  if (!word(r, name, sizeof name) || !(v.dtype = (int32_t)cn_dtype_find(name))) return bad(r, "a type is missing");
  v.weak = eat(r, "weak");
  if (v.dtype == CN_F64 ? !number(r, &v.number) : !integer(r, &v.integer)) return bad(r, "a number is missing");
  if (v.dtype != CN_F64 && v.dtype != CN_I64 && v.dtype != CN_BOOL) return bad(r, "not a type of numbers");
  return put_value(r, id, &v);
}

static int input_line(reader *r, int id)
{
  cn_graph *g = r->g;
  cni_gvalue v = {.kind = CNI_VALUE_INPUT, .index = (int32_t)g->ninputs};
  int64_t free_dims = 0;
  if (!type(r, &v)) return bad(r, "a type and shape are missing");
  if (eat(r, "free") && (!integer(r, &free_dims) || free_dims < 0 || free_dims > 0xffff)) return bad(r, "bad dims");
  if (eat(r, "strides [")) {
    v.has_strides = true;
    for (int i = 0; i < v.ndim; i++)
      if (!integer(r, &v.strides[i]) || (i + 1 < v.ndim && !eat(r, ","))) return bad(r, "bad strides");
    if (!eat(r, "]")) return bad(r, "bad strides");
  }
  int status = put_value(r, id, &v);
  if (!status) status = cni_graph_list_input(g, id);
  if (!status) g->free_dims[g->ninputs - 1] = (uint32_t)free_dims;
  return status;
}

static int state_line(reader *r, int id)
{
  cn_graph *g = r->g;
  cni_gvalue v = {.kind = CNI_VALUE_STATE, .index = (int32_t)g->nstates};
  if (!type(r, &v)) return bad(r, "a type and shape are missing");
  if (cni_grow((void **)&g->states, &g->states_cap, g->nstates + 1, sizeof *g->states)) return CN_ERR_MEMORY;
  g->states[g->nstates++] = (cni_gstate){NULL, id, -1};
  return put_value(r, id, &v);
}

/* ---- calls ---- */

static bool value_ref(reader *r, int *id)
{
  *id = -1;
  if (eat(r, "none")) return true;
  return eat(r, "%") && small(r, id) && (size_t)*id < r->g->nvalues;
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

typedef struct lists {
  int nints, nfloats, nids;
  char *room;
  const char *room_end;
} lists;

static bool int_list(reader *r, cn_value *v, lists *l)
{
  int first = l->nints;
  while (!eat(r, "]")) {
    if (l->nints == MOST || !integer(r, &r->ints[l->nints++])) return false;
    eat(r, ",");
  }
  *v = cn_v_ints(r->ints + first, (size_t)(l->nints - first));
  return true;
}
static bool float_list(reader *r, cn_value *v, lists *l)
{
  int first = l->nfloats;
  while (!eat(r, ">")) {
    if (l->nfloats == MOST || !number(r, &r->floats[l->nfloats++])) return false;
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

static bool argument(reader *r, const cni_param *p, cn_value *v, lists *l)
{
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
    return p->list && p->type == CNI_T_INT && int_list(r, v, l) && (!p->fixed || v->n == p->fixed);
  if (eat(r, "<")) return p->list && p->type == CNI_T_FLOAT && float_list(r, v, l);
  if (p->list) return false;
  if (eat(r, "'")) return p->type == CNI_T_STR && string_arg(r, v, &l->room, l->room_end);
  if (p->type == CNI_T_STR) return false;
  bool truth = p->type == CNI_T_BOOL || p->type == CNI_T_SCALAR;
  if (truth && eat(r, "true")) return *v = cn_v_bool(true), true;
  if (truth && eat(r, "false")) return *v = cn_v_bool(false), true;
  if (p->type == CNI_T_BOOL) return false;
  blanks(r);
  const char *start = r->s;
  double f;
  int64_t i;
  if (integer(r, &i) && !strchr("x.pe", *r->s))
    return *v = p->type == CNI_T_FLOAT ? cn_v_float((double)i) : cn_v_int(i), true;
  r->s = start;
  if (p->type != CNI_T_FLOAT && p->type != CNI_T_SCALAR) return false;
  return number(r, &f) && (*v = cn_v_float(f), true);
}

/* "name(arguments) :". The op, and its arguments, which lie in the reader's room; NULL with the error set. */
static const cni_opinfo *call(reader *r, cn_value *args, lists *l)
{
  char name[CNI_NAME_MAX];
  *l = (lists){.room = r->strings, .room_end = r->strings + MOST};
  const cni_opinfo *info = word(r, name, sizeof name) && eat(r, "(") ? cni_op_by_name(name) : NULL;
  if (!info) return bad(r, "there is no such op"), NULL;
  for (int i = 0; i < info->nparams; i++) {
    if (i && !eat(r, ",")) return bad(r, "an argument is missing"), NULL;
    if (!argument(r, &info->params[i], &args[i], l)) return bad(r, "bad argument"), NULL;
  }
  if (!eat(r, ")") || !eat(r, ":")) return bad(r, "the call does not end"), NULL;
  return info;
}

static int node_line(reader *r, const int *out, int nout)
{
  cn_value args[CN_MAX_ARGS];
  lists l;
  const cni_opinfo *info = call(r, args, &l);
  if (!info) return cn_err();
  if (info->row->flags & CN_OP_COMPOSITE) return bad(r, "this op is made of others: it is no node");
  if (info->list_result ? nout > CNI_MAX_RESULTS : nout != info->nresults) return bad(r, "wrong number of results");
  int node = cni_graph_add_node(r->g, info, args, info->nparams, r->ids, l.nids, nout);
  if (node < 0) return node;
  for (int k = 0; k < nout; k++) {
    cni_gvalue v = {.kind = CNI_VALUE_RESULT, .index = k, .node = node};
    if (!type(r, &v) || (k + 1 < nout && !eat(r, ","))) return bad(r, "a result's type is missing");
    int status = put_value(r, out[k], &v);
    if (status) return status;
    r->g->nodes[node].out[k] = out[k];
  }
  if (eat(r, "draw ") && !small(r, &r->g->nodes[node].draw)) return bad(r, "bad draw");
  if (eat(r, "in ") && !small(r, &r->g->nodes[node].scope)) return bad(r, "bad scope");
  return CN_OK;
}

static int value_line(reader *r)
{
  int out[CNI_MAX_RESULTS], n = 0;
  do {
    if (n == CNI_MAX_RESULTS || !small(r, &out[n]) || out[n++] < 0) return bad(r, "bad value");
  } while (eat(r, ",") && eat(r, "%"));
  if (!eat(r, "=")) return bad(r, "'=' is missing");
  if (n == 1 && eat(r, "input ")) return input_line(r, out[0]);
  if (n == 1 && eat(r, "state ")) return state_line(r, out[0]);
  if (n == 1 && eat(r, "scalar ")) return scalar_line(r, out[0]);
  return node_line(r, out, n);
}

/* ---- other lines ---- */

static bool sym_fits(const cn_graph *g, const cni_sym_attr *s)
{
  for (int k = 0; k < 2; k++) {
    if (s->sym.input[k] < 0) continue;
    if ((size_t)s->sym.input[k] >= g->ninputs || s->sym.dim[k] < 0) return false;
    if (s->sym.dim[k] >= g->values[g->inputs[s->sym.input[k]]].ndim) return false;
  }
  if (s->sym.den < 1) return false;
  if (s->arg == -2) return s->node >= 0 && (size_t)s->node < g->ndraws;
  if (s->arg < 0) return s->node >= 0 && (size_t)s->node < g->nvalues && g->values[s->node].kind == CNI_VALUE_SCALAR;
  if (s->node < 0 || (size_t)s->node >= g->nnodes || s->arg >= g->nodes[s->node].nargs) return false;
  const cn_value *v = &g->nodes[s->node].args[s->arg];
  if (v->tag == CN_V_INTS) return s->element >= 0 && s->element < v->n;
  return v->tag == CN_V_INT || v->tag == CN_V_FLOAT;
}

static int sym_line(reader *r)
{
  cn_graph *g = r->g;
  cni_sym_attr s;
  cni_sym *y = &s.sym;
  bool ok = small(r, &s.node) && small(r, &s.arg) && small(r, &s.element) && eat(r, "=") && integer(r, &y->num);
  for (int k = 0; k < 2; k++)
    ok = ok && eat(r, "*") && eat(r, "size(") && small(r, &y->input[k]) && eat(r, ",") && small(r, &y->dim[k]) &&
         eat(r, ")");
  ok = ok && eat(r, "/") && integer(r, &y->den) && eat(r, "+") && integer(r, &y->add);
  if (!ok || !sym_fits(g, &s)) return bad(r, "bad sym line");
  if (cni_grow((void **)&g->syms, &g->syms_cap, g->nsyms + 1, sizeof *g->syms)) return CN_ERR_MEMORY;
  g->syms[g->nsyms++] = s;
  return CN_OK;
}

static char *quoted(reader *r)
{
  cn_value v;
  char *room = r->strings;
  return eat(r, "'") && string_arg(r, &v, &room, r->strings + MOST) ? cni_strdup(v.u.s) : NULL;
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
  int64_t count;
  if (!integer(r, &count) || count < 0) return bad(r, "bad draw");
  if (cni_grow((void **)&g->draws, &g->draws_cap, g->ndraws + 1, sizeof *g->draws)) return CN_ERR_MEMORY;
  g->draws[g->ndraws++] = count;
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
  if (eat(r, "sym ")) return sym_line(r);
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
    return bad(r, "a line that is none of %, sym, draw, scope, output, write, update, gradient");
  g->states[state].final = id;
  return CN_OK;
}

static int lines(reader *r)
{
  for (r->line = 1; *r->s; r->line++) {
    int status = *r->s == '\n' ? CN_OK : line(r);
    if (status) return status;
    blanks(r);
    if (*r->s && *r->s++ != '\n') return bad(r, "more than a line should have");
  }
  return cn_graph_verify(r->g);
}

cn_graph *cn_graph_parse(const char *source)
{
  if (cn_err() || !source) return NULL;
  cni_init();
  reader r = {.s = source, .most = strlen(source), .g = cni_graph_new()};
  r.ints = cni_alloc(MOST * sizeof *r.ints);
  r.floats = cni_alloc(MOST * sizeof *r.floats);
  r.ids = cni_alloc(MOST * sizeof *r.ids);
  r.strings = cni_alloc(MOST);
  bool room = r.g && r.ints && r.floats && r.ids && r.strings;
  int status = room ? lines(&r) : CN_ERR_MEMORY;
  cni_free(r.ints, MOST * sizeof *r.ints);
  cni_free(r.floats, MOST * sizeof *r.floats);
  cni_free(r.ids, MOST * sizeof *r.ids);
  cni_free(r.strings, MOST);
  if (!status) return r.g;
  cn_graph_free(r.g);
  return NULL;
}
