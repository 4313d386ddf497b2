/* parse.c: reads the text of text_form.c back into a graph. Survives any bytes: every error names its line.
 *
 * Place in the flow: cn_graph_parse, files -> lines, here -> calls (parse_call.c) -> words (parse_words.c) -> the
 * verifier. Invariant: a parsed graph has passed the verifier; value ids of the text are kept. */
#include "parse.h"

#include <string.h>

#include "base/alloc.h"
#include "base/convert.h"
#include "base/dtype.h"
#include "control.h"
#include "ops/families.h"
#include "tensor/args.h"
#include "tensor/tensor.h"

enum { DEEPEST = 32 }; /* graphs in graphs */

/* ---- values ---- */

static bool strides(cni_reader *r, cni_gvalue *v)
{
  if (!cni_eat(r, "strides [")) return true;
  v->has_strides = true;
  for (int i = 0; i < v->ndim; i++)
    if (!cni_read_integer(r, &v->strides[i]) || (i + 1 < v->ndim && !cni_eat(r, ","))) return false;
  return cni_eat(r, "]");
}

static bool type(cni_reader *r, cni_gvalue *v)
{
  char name[32];
  if (!cni_read_word(r, name, sizeof name)) return false;
  v->dtype = (int32_t)cn_dtype_find(name);
  v->device = CN_CPU;
  if (!v->dtype || !cni_eat(r, "[")) return false;
  while (!cni_eat(r, "]")) {
    int d = v->ndim++;
    if (d == CN_MAX_DIMS || !cni_read_sized_integer(r, &v->shape[d], &v->dims[d]) || v->shape[d] < 0) return false;
    if (v->dims[d] && v->kind != CNI_VALUE_INPUT && (v->kind != CNI_VALUE_RESULT || d)) return false;
    cni_eat(r, ",");
  }
  return !cni_eat(r, "on ") || (v->device = cni_read_device(r)) != 0;
}

enum { UNNAMED = -1 }; /* a scalar's index: a number that no line has named yet */

static bool is_named(const cn_graph *g, int id)
{
  return id < 0 || (size_t)id >= g->nvalues || g->values[id].kind != CNI_VALUE_SCALAR || g->values[id].index != UNNAMED;
}

/* Values may be named in any order: makes room up to id. */
static int put_value(cni_reader *r, int id, const cni_gvalue *v)
{
  cn_graph *g = r->g;
  if (id < 0 || (size_t)id > r->most) return cni_read_bad(r, "a value's number is out of range");
  while (g->nvalues <= (size_t)id) {
    cni_gvalue empty = {.kind = CNI_VALUE_SCALAR, .dtype = CN_F64, .weak = true, .index = UNNAMED};
    if (cni_graph_add_value(g, &empty) < 0) return CN_ERR_MEMORY;
  }
  cni_tensor_release(g->values[id].tensor);
  g->values[id] = *v;
  return CN_OK;
}

static int scalar_line(cni_reader *r, int id)
{
  cni_gvalue v = {.kind = CNI_VALUE_SCALAR, .device = CN_CPU};
  char name[32];
  if (!cni_read_word(r, name, sizeof name) || !(v.dtype = (int32_t)cn_dtype_find(name)))
    return cni_read_bad(r, "a type is missing");
  v.weak = cni_eat(r, "weak");
  bool there = v.dtype == CN_F64 ? cni_read_sized_number(r, &v.number, &v.expr)
                                 : cni_read_sized_integer(r, &v.integer, &v.expr);
  if (!there) return cni_read_bad(r, "a number is missing");
  if (v.dtype != CN_F64 && v.dtype != CN_I64 && v.dtype != CN_BOOL) return cni_read_bad(r, "not a type of numbers");
  return put_value(r, id, &v);
}

static bool element(cni_reader *r, void *data, int64_t i, int dtype)
{
  double f;
  int64_t n;
  if (i && !cni_eat(r, ",")) return false;
  if (cni_dtype_is_float(dtype)) return cni_read_number(r, &f) && (cni_store_f64(data, i, dtype, f), true);
  return cni_read_integer(r, &n) && (cni_store_i64(data, i, dtype, n), true);
}

static int const_line(cni_reader *r, int id)
{
  cni_gvalue v = {.kind = CNI_VALUE_CONST};
  int64_t n;
  if (!type(r, &v) || !cni_eat(r, "<") || !cni_dtype_computes(v.dtype))
    return cni_read_bad(r, "a type, shape or data are missing");
  if (!cni_shape_fits(v.ndim, v.shape, cni_dtype_size(v.dtype), &n) || n > CN_CONST_MOST)
    return cni_read_bad(r, "a constant is too large");
  if (!(v.tensor = cni_tensor_new(CN_CPU, v.dtype, v.ndim, v.shape, NULL))) return CN_ERR_MEMORY;
  bool good = true;
  for (int64_t i = 0; i < n && good; i++) good = element(r, v.tensor->d.data, i, v.dtype);
  int status = good && cni_eat(r, ">") ? put_value(r, id, &v) : cni_read_bad(r, "bad data");
  if (status) cni_tensor_release(v.tensor);
  return status;
}

static char *quoted(cni_reader *r)
{
  cn_value v;
  char *room = r->strings;
  return cni_eat(r, "'") && cni_read_string(r, &v, &room, r->strings + CNI_READ_MOST) ? cni_strdup(v.u.s) : NULL;
}

static int input_line(cni_reader *r, int id)
{
  cn_graph *g = r->g;
  cni_gvalue v = {.kind = CNI_VALUE_INPUT, .index = (int32_t)g->ninputs};
  if (g->ninputs && g->inputs[g->ninputs - 1] >= id)
    return cni_read_bad(r, "inputs are not in the order of their numbers");
  if (!type(r, &v)) return cni_read_bad(r, "a type and shape are missing");
  if (!strides(r, &v)) return cni_read_bad(r, "bad strides");
  bool number = !v.ndim && (v.dtype == CN_F64 || v.dtype == CN_I64 || v.dtype == CN_BOOL);
  if ((v.weak = cni_eat(r, "weak")) && !number) return cni_read_bad(r, "only a number can be weak");
  int status = put_value(r, id, &v);
  return status ? status : cni_graph_list_input(g, id);
}

static int state_line(cni_reader *r, int id)
{
  cn_graph *g = r->g;
  cni_gvalue v = {.kind = CNI_VALUE_STATE, .index = (int32_t)g->nstates};
  if (g->nstates && g->states[g->nstates - 1].value >= id)
    return cni_read_bad(r, "states are not in the order of their numbers");
  if (!type(r, &v) || !strides(r, &v)) return cni_read_bad(r, "a type and shape are missing");
  if (cni_grow((void **)&g->states, &g->states_cap, g->nstates + 1, sizeof *g->states)) return CN_ERR_MEMORY;
  g->states[g->nstates++] = (cni_gstate){NULL, id, -1, NULL, false};
  cni_blanks(r);
  if (*r->s == '\'') {
    char *name = quoted(r);
    int status = name       ? cn_graph_name_state(g, g->nstates - 1, name)
                 : cn_err() ? cn_err() : cni_read_bad(r, "bad name");
    cn_string_free(name);
    if (status) return status;
  }
  g->states[g->nstates - 1].trained = cni_eat(r, "requires_grad");
  return put_value(r, id, &v);
}

static int lines(cni_reader *r);

/* The graphs that a node holds, each in braces, from behind the first one's opening brace. */
static int sub_graphs(cni_reader *r, int node)
{
  cn_graph *subs[2] = {NULL, NULL};
  int n = 0, status = CN_OK;
  if (r->depth == DEEPEST) return cni_read_bad(r, "graphs in graphs, too deep");
  do {
    cni_reader inner = *r;
    inner.depth++;
    status = n == 2                                 ? cni_read_bad(r, "too many graphs")
           : (inner.g = subs[n] = cn_graph_new()) ? CN_OK : CN_ERR_MEMORY;
    if (!status) status = lines(&inner);
    r->s = inner.s;
    r->line = inner.line;
    n++;
  } while (!status && cni_eat(r, "{"));
  if (!status) status = cni_gnode_hold(&r->g->nodes[node], subs, n);
  for (int i = 0; i < 2 && status; i++) cn_graph_free(subs[i]);
  return status;
}

static int node_line(cni_reader *r, const int *out, int nout)
{
  cn_value args[CN_MAX_ARGS];
  cni_lists l;
  const cni_opinfo *info = cni_read_call(r, args, &l);
  if (!info) return cn_err();
  bool many = info->list_result && (nout <= CNI_MAX_RESULTS || cni_control_of(info) != CNI_CONTROL_NONE);
  if (!many && nout != info->nresults) return cni_read_bad(r, "wrong number of results");
  if (cni_control_of(info) == CNI_CONTROL_HOST)
    return cni_read_bad(r, "a host call belongs to the process that captured it,");
  for (int i = 0; i < l.nids; i++)
    if (!is_named(r->g, r->ids[i])) return cni_read_bad(r, "a value is read that no line before has named");
  int node = cni_graph_add_node(r->g, info, args, info->nparams, r->ids, l.nids, nout);
  if (node < 0) return node;
  if (cni_take_syms(r, &r->g->nodes[node].syms)) return CN_ERR_MEMORY;
  for (int k = 0; k < nout; k++) {
    cni_gvalue v = {.kind = CNI_VALUE_RESULT, .index = k, .node = node};
    if (!type(r, &v) || (k + 1 < nout && !cni_eat(r, ","))) return cni_read_bad(r, "a result's type is missing");
    int status = put_value(r, out[k], &v);
    if (status) return status;
    r->g->nodes[node].out[k] = out[k];
  }
  if (cni_eat(r, "draw ") && !cni_read_small(r, &r->g->nodes[node].draw)) return cni_read_bad(r, "bad draw");
  if (cni_eat(r, "in ") && !cni_read_small(r, &r->g->nodes[node].scope)) return cni_read_bad(r, "bad scope");
  return cni_eat(r, "{") ? sub_graphs(r, node) : CN_OK;
}

static int value_line(cni_reader *r)
{
  int *out = r->out, n = 0;
  do {
    if (n == CNI_READ_MOST || !cni_read_small(r, &out[n]) || out[n++] < 0) return cni_read_bad(r, "bad value");
  } while (cni_eat(r, ",") && cni_eat(r, "%"));
  if (!cni_eat(r, "=")) return cni_read_bad(r, "'=' is missing");
  if (n == 1 && cni_eat(r, "input ")) return input_line(r, out[0]);
  if (n == 1 && cni_eat(r, "state ")) return state_line(r, out[0]);
  if (n == 1 && cni_eat(r, "scalar ")) return scalar_line(r, out[0]);
  if (n == 1 && cni_eat(r, "const ")) return const_line(r, out[0]);
  return node_line(r, out, n);
}

/* ---- other lines ---- */

static int size_line(cni_reader *r)
{
  cn_graph *g = r->g;
  cni_gsize s;
  bool whole = cni_read_word(r, s.name, sizeof s.name) && cni_eat(r, "=") && cni_read_integer(r, &s.traced) &&
               cni_eat(r, "in") && cni_read_integer(r, &s.min) && cni_eat(r, "..") && cni_read_integer(r, &s.max);
  if (!whole || s.traced < s.min || s.traced > s.max || s.min < 0) return cni_read_bad(r, "bad size");
  for (size_t i = 0; i < g->nsizes; i++)
    if (!strcmp(g->sizes[i].name, s.name)) return cni_read_bad(r, "a size that there is already");
  if (cni_size_name_fault(s.name)) return cni_read_bad(r, "a size cannot have this name");
  return cni_graph_add_size(g, s.name, s.traced, s.min, s.max);
}

/* A call's scope, from its "=" on. */
static int scope_call(cni_reader *r, cni_gscope *s)
{
  cn_value args[CN_MAX_ARGS];
  int out[CNI_MAX_RESULTS], n = 0;
  cni_lists l;
  r->any_absent = true;
  s->op = cni_read_call(r, args, &l);
  r->any_absent = false;
  if (!s->op) return cn_err();
  s->nargs = s->op->nparams;
  if (cni_take_syms(r, &s->syms)) return CN_ERR_MEMORY;
  s->args_size = cni_args_bytes(args, s->nargs);
  if (!(s->args = cni_alloc(s->args_size))) return CN_ERR_MEMORY;
  if (!(s->in = cni_alloc((size_t)l.nids * sizeof *s->in))) return CN_ERR_MEMORY;
  cni_args_copy(s->args, args, s->nargs);
  memcpy(s->in, r->ids, (size_t)l.nids * sizeof *s->in);
  s->nin = l.nids;
  while (*r->s != '\n' && *r->s) {
    if (n == CNI_MAX_RESULTS || (n && !cni_eat(r, ",")) || !cni_read_value(r, &out[n++]))
      return cni_read_bad(r, "bad result");
    cni_blanks(r);
  }
  if (!(s->out = cni_alloc((size_t)n * sizeof *s->out))) return CN_ERR_MEMORY;
  memcpy(s->out, out, (size_t)n * sizeof *s->out);
  s->nout = n;
  return CN_OK;
}

static int scope_line(cni_reader *r)
{
  cn_graph *g = r->g;
  cni_gscope s = {.parent = -1};
  int id;
  if (!cni_read_small(r, &id) || id != (int)g->nscopes) return cni_read_bad(r, "scopes are numbered in order");
  if (cni_eat(r, "in ") && !cni_read_small(r, &s.parent)) return cni_read_bad(r, "bad scope");
  int status = CN_OK;
  if (cni_eat(r, "=")) status = scope_call(r, &s);
  else if (!(s.name = quoted(r)) || !(s.kind = quoted(r)))
    status = cn_err() ? cn_err() : cni_read_bad(r, "a name is missing");
  if (!status) status = cni_grow((void **)&g->scopes, &g->scopes_cap, g->nscopes + 1, sizeof *g->scopes);
  if (!status) g->scopes[g->nscopes++] = s;
  else cni_gscope_free(&s);
  return status;
}

static int draw_line(cni_reader *r)
{
  cn_graph *g = r->g;
  cni_gdraw draw;
  if (!cni_read_sized_integer(r, &draw.count, &draw.expr) || draw.count < 0) return cni_read_bad(r, "bad draw");
  if (cni_grow((void **)&g->draws, &g->draws_cap, g->ndraws + 1, sizeof *g->draws)) return CN_ERR_MEMORY;
  g->draws[g->ndraws++] = draw;
  return CN_OK;
}

static int gradient_line(cni_reader *r)
{
  cn_graph *g = r->g;
  cni_gleaf l = {.value = -1};
  if (!cni_read_small(r, &l.state) || l.state < 0 || (size_t)l.state >= g->nstates || !cni_eat(r, "from"))
    return cni_read_bad(r, "bad gradient");
  if (cni_eat(r, "absent")) l.before = CNI_GRAD_ABSENT;
  else if (cni_eat(r, "given")) l.before = CNI_GRAD_GIVEN;
  else if (cni_eat(r, "any")) l.before = CNI_GRAD_ANY;
  else return cni_read_bad(r, "bad gradient");
  if (!cni_eat(r, "to")) return cni_read_bad(r, "bad gradient");
  if (cni_eat(r, "same")) l.after = CNI_GRAD_KEPT;
  else if (cni_eat(r, "none")) l.after = CNI_GRAD_CLEARED;
  else if (cni_read_value(r, &l.value) && l.value >= 0) l.after = CNI_GRAD_VALUE;
  else return cni_read_bad(r, "bad gradient");
  if (cni_grow((void **)&g->leaves, &g->leaves_cap, g->nleaves + 1, sizeof *g->leaves)) return CN_ERR_MEMORY;
  g->leaves[g->nleaves++] = l;
  return CN_OK;
}

static int line(cni_reader *r)
{
  cn_graph *g = r->g;
  int id, state;
  if (cni_eat(r, "%")) return value_line(r);
  if (cni_eat(r, "size ")) return size_line(r);
  if (cni_eat(r, "draw ")) return draw_line(r);
  if (cni_eat(r, "scope ")) return scope_line(r);
  if (cni_eat(r, "gradient ")) return gradient_line(r);
  if (cni_eat(r, "output ")) {
    if (!cni_read_value(r, &id) || id < 0) return cni_read_bad(r, "bad output");
    return cni_graph_add_list(&g->outputs, &g->noutputs, &g->outputs_cap, id);
  }
  if (cni_eat(r, "write ")) {
    if (!cni_read_small(r, &state) || state < 0 || (size_t)state >= g->ninputs || !cni_read_value(r, &id) || id < 0)
      return cni_read_bad(r, "bad write");
    g->input_finals[state] = id;
    return CN_OK;
  }
  if (!cni_eat(r, "update ") || !cni_read_small(r, &state) || state < 0 || (size_t)state >= g->nstates ||
      !cni_read_value(r, &id) || id < 0)
    return cni_read_bad(r, "a line that is none of %, size, draw, scope, output, write, update, gradient");
  g->states[state].final = id;
  return CN_OK;
}

/* Up to the end of the text, or, of a graph that a node holds, of its block. */
static int lines(cni_reader *r)
{
  for (; *r->s; r->line++) {
    cni_blanks(r);
    if (r->depth && cni_eat(r, "}")) return CN_OK; /* verified with its node */
    int status = *r->s == '\n' ? CN_OK : line(r);
    if (status) return status;
    cni_blanks(r);
    if (*r->s && *r->s++ != '\n') return cni_read_bad(r, "more than a line should have");
  }
  return r->depth ? cni_read_bad(r, "a graph in braces does not end") : cn_graph_verify(r->g);
}

cn_graph *cn_graph_parse(const char *source)
{
  if (cn_err() || !source) return NULL;
  cni_init();
  cni_reader r = {.s = source, .most = strlen(source), .g = cn_graph_new(), .line = 1};
  r.ints = cni_alloc(CNI_READ_MOST * sizeof *r.ints);
  r.floats = cni_alloc(CNI_READ_MOST * sizeof *r.floats);
  r.ids = cni_alloc(CNI_READ_MOST * sizeof *r.ids);
  r.strings = cni_alloc(CNI_READ_MOST);
  r.syms = cni_alloc(CNI_READ_MOST * sizeof *r.syms);
  r.out = cni_alloc(CNI_READ_MOST * sizeof *r.out);
  bool room = r.g && r.ints && r.floats && r.ids && r.strings && r.syms && r.out;
  int status = room ? lines(&r) : CN_ERR_MEMORY;
  cni_free(r.ints, CNI_READ_MOST * sizeof *r.ints);
  cni_free(r.floats, CNI_READ_MOST * sizeof *r.floats);
  cni_free(r.ids, CNI_READ_MOST * sizeof *r.ids);
  cni_free(r.strings, CNI_READ_MOST);
  cni_free(r.syms, CNI_READ_MOST * sizeof *r.syms);
  cni_free(r.out, CNI_READ_MOST * sizeof *r.out);
  if (!status) return r.g;
  cn_graph_free(r.g);
  return NULL;
}
