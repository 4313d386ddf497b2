/* check.c: CAIRN_COMPILE=check: each call of a compiled function is held against the function itself, and the first
 * node that differs is named.
 *
 * Place in the flow: compile.c, before and around the run of a program. First the function is captured anew and
 * compared with the program node by node: what was baked in and is another now shows there (an attribute, a number of
 * Python's, a branch). Then the program runs, what it wrote is put back, the function runs as it is, and both have to
 * give and write the same, to the bit. Invariant: after a call that is right everything is as the function leaves
 * it. */
#include <cairn/autograd.h>
#include <cairn/ext/system.h>
#include <cairn/ops.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/convert.h"
#include "base/dtype.h"
#include "check.h"
#include "graph/extract.h"
#include "graph/plan.h"
#include "ops/apply.h"

enum { TEXT = 400 };

/* ---- words ---- */

/* "mul in fc1 (Linear)": a node's op and the innermost part of the program that it belongs to. */
static void name_node(char *text, size_t size, const cn_graph *g, int node)
{
  const cni_gnode *n = &g->nodes[node];
  int s = n->scope;
  while (s >= 0 && g->scopes[s].op) s = g->scopes[s].parent;
  if (s < 0) snprintf(text, size, "node %d, %s", node, n->info->name);
  else snprintf(text, size, "node %d, %s in '%s' (%s)", node, n->info->name, g->scopes[s].name, g->scopes[s].kind);
}

static void put_value(cn_text *t, const cn_value *v)
{
  switch (v->tag) {
  case CN_V_INT: cn_text_putf(t, "%" PRId64, v->u.i); break;
  case CN_V_BOOL: cn_text_put(t, v->u.i ? "true" : "false"); break;
  case CN_V_FLOAT: cn_text_putf(t, "%.9g", v->u.f); break;
  case CN_V_STR: cn_text_putf(t, "'%s'", v->u.s); break;
  case CN_V_INTS:
    for (int i = 0; i < v->n; i++) cn_text_putf(t, "%s%" PRId64, i ? ", " : "[", v->u.is[i]);
    cn_text_put(t, v->n ? "]" : "[]");
    break;
  case CN_V_FLOATS:
    for (int i = 0; i < v->n; i++) cn_text_putf(t, "%s%.9g", i ? ", " : "[", v->u.fs[i]);
    cn_text_put(t, v->n ? "]" : "[]");
    break;
  default: cn_text_put(t, "none");
  }
}

static bool same_value(const cn_value *a, const cn_value *b)
{
  if (a->tag != b->tag || a->n != b->n) return a->tag == CN_V_STR && b->tag == CN_V_STR && !strcmp(a->u.s, b->u.s);
  switch (a->tag) {
  case CN_V_NONE:
  case CN_V_TENSOR:
  case CN_V_TENSORS: return true;
  case CN_V_STR: return !strcmp(a->u.s, b->u.s);
  case CN_V_INTS: return !memcmp(a->u.is, b->u.is, (size_t)a->n * sizeof *a->u.is);
  case CN_V_FLOATS: return !memcmp(a->u.fs, b->u.fs, (size_t)a->n * sizeof *a->u.fs);
  default: return a->u.i == b->u.i; /* a float's bits, too */
  }
}

/* Says where two tensors differ first, in words that fit behind "differs". False: they do not. */
static bool tensors_differ(char *text, size_t size, cn_tensor *a, cn_tensor *b, const char *first, const char *second)
{
  if (a->d.dtype != b->d.dtype || !cni_same_shape(a->d.ndim, a->d.shape, b->d.ndim, b->d.shape)) {
    char x[CNI_SHAPE_TEXT], y[CNI_SHAPE_TEXT];
    snprintf(text, size, "it is %s %s %s, %s %s %s", cn_dtype_name((cn_dtype)a->d.dtype),
             cni_shape_text(x, sizeof x, a->d.ndim, a->d.shape), first, cn_dtype_name((cn_dtype)b->d.dtype),
             cni_shape_text(y, sizeof y, b->d.ndim, b->d.shape), second);
    return true;
  }
  int saved = cn_no_grad_begin();
  const char *p = cn_data_const(cn_contiguous(cn_to_device(a, CN_CPU)));
  const char *q = cn_data_const(cn_contiguous(cn_to_device(b, CN_CPU)));
  cn_no_grad_end(saved);
  size_t element = cni_dtype_size(a->d.dtype);
  for (int64_t i = 0; p && q && i < a->d.numel; i++) {
    if (!memcmp(p + (size_t)i * element, q + (size_t)i * element, element)) continue;
    double x = cni_load_f64(p, i, a->d.dtype), y = cni_load_f64(q, i, a->d.dtype);
    if (x != x && y != y) continue; /* a NaN is a NaN */
    snprintf(text, size, "element %" PRId64 " is %.9g %s, %.9g %s", i, x, first, y, second);
    return true;
  }
  return false;
}

/* ---- the program and what would be captured now ---- */

typedef struct comparing {
  const cn_graph *a, *b; /* the program's, and the new one */
  char what[TEXT];
} comparing;

static bool arguments_differ(comparing *c, const cni_gnode *n, const cni_gnode *m)
{
  for (int i = 0; i < n->info->nparams; i++) {
    if (same_value(&n->args[i], &m->args[i])) continue;
    cn_text t = {0};
    cn_text_putf(&t, "its argument '%s' was ", n->info->params[i].name);
    put_value(&t, &n->args[i]);
    cn_text_put(&t, ", and is now ");
    put_value(&t, &m->args[i]);
    snprintf(c->what, sizeof c->what, "%s", t.s ? t.s : "an argument is another");
    cn_text_free(&t);
    return true;
  }
  return false;
}

static bool numbers_differ(comparing *c, const cni_gvalue *v, const cni_gvalue *w)
{
  if (v->dtype == CN_F64 && w->dtype == CN_F64) {
    if (!memcmp(&v->number, &w->number, sizeof v->number)) return false;
    snprintf(c->what, sizeof c->what, "it reads the number %.9g, and now %.9g", v->number, w->number);
    return true;
  }
  if (v->dtype == w->dtype && v->integer == w->integer) return false;
  snprintf(c->what, sizeof c->what, "it reads the number %" PRId64 ", and now %" PRId64, v->integer, w->integer);
  return true;
}

/* Another tensor will do while it has the same elements, unless it is written: the function may make it itself. */
static bool tensor_differs(comparing *c, cn_tensor *a, cn_tensor *b, bool written)
{
  char detail[TEXT];
  if (a == b) return false;
  snprintf(c->what, sizeof c->what, "it reads another tensor, and writes it");
  if (written || !a || !b) return true;
  bool differ = tensors_differ(detail, sizeof detail, a, b, "in the program's", "in the one now");
  if (differ) snprintf(c->what, sizeof c->what, "it reads another tensor: %.300s", detail);
  return differ;
}

static bool state_differs(comparing *c, const cni_gstate *s, const cni_gstate *t)
{
  return tensor_differs(c, s->tensor, t->tensor, s->final >= 0 || t->final >= 0);
}

static bool input_differs(comparing *c, int v, int w)
{
  if (v < 0 || w < 0) return v != w;
  const cni_gvalue *x = &c->a->values[v], *y = &c->b->values[w];
  snprintf(c->what, sizeof c->what, "it reads another value");
  if (x->kind != y->kind || x->dtype != y->dtype) return true;
  switch (x->kind) {
  case CNI_VALUE_SCALAR: return numbers_differ(c, x, y);
  case CNI_VALUE_CONST: return tensor_differs(c, x->tensor, y->tensor, false);
  case CNI_VALUE_STATE: return state_differs(c, &c->a->states[x->index], &c->b->states[y->index]);
  case CNI_VALUE_RESULT: return x->node != y->node || x->index != y->index;
  default: return x->index != y->index;
  }
}

static bool nodes_differ(comparing *c, size_t node)
{
  const cni_gnode *n = &c->a->nodes[node], *m = &c->b->nodes[node];
  if (n->info != m->info) {
    snprintf(c->what, sizeof c->what, "there is now %s in its place", m->info->name);
    return true;
  }
  if (arguments_differ(c, n, m)) return true;
  snprintf(c->what, sizeof c->what, "it draws other random numbers");
  if (n->draw != m->draw) return true;
  snprintf(c->what, sizeof c->what, "it reads more or fewer tensors");
  if (n->nin != m->nin) return true;
  for (int k = 0; k < n->nin; k++)
    if (input_differs(c, n->in[k], m->in[k])) return true;
  return false;
}

/* Fails where the graphs are not the same. */
static int compare_graphs(const cni_check *k, const cni_executable *now, int half)
{
  const cn_graph *a = k->p->single[half], *b = now->single[half];
  const char *name = k->name;
  comparing c = {a, b, ""};
  char where[200];
  if (!a || !b) return CN_OK; /* a program that was made before checks were asked for has groups alone */
  size_t n = a->nnodes < b->nnodes ? a->nnodes : b->nnodes;
  for (size_t i = 0; i < n; i++) {
    if (!nodes_differ(&c, i)) continue;
    name_node(where, sizeof where, a, (int)i);
    return cni_fail(CN_ERR_CAPTURE, "compile: %s does not compute what was captured: %s: %s", name, where, c.what);
  }
  bool outputs = a->noutputs == b->noutputs;
  for (size_t i = 0; outputs && i < a->noutputs; i++) outputs = !input_differs(&c, a->outputs[i], b->outputs[i]);
  if (a->nnodes == b->nnodes && outputs) return CN_OK;
  bool more = b->nnodes > a->nnodes;
  if (a->nnodes != b->nnodes) {
    name_node(where, sizeof where, more ? b : a, (int)n);
    return cni_fail(CN_ERR_CAPTURE, "compile: %s does not compute what was captured: %s is %s", name, where,
                    more ? "new" : "gone");
  }
  return cni_fail(CN_ERR_CAPTURE, "compile: %s does not compute what was captured: a result is another value", name);
}

int cni_check_capture(const cni_check *k)
{
  bool retry;
  cni_by_value known = k->known;
  cni_executable *now = cni_executable_new(k->fn, k->call, &k->p->notes, false, &known, &retry);
  int status = now ? CN_OK : cn_err();
  if (!now && retry) {
    cn_err_clear();
    return cni_fail(CN_ERR_CAPTURE, "compile: %s now reads %s, and did not before", k->name,
                    known.leaves && !k->known.leaves ? "gradients of its inputs" : "a number among its inputs");
  }
  if (!status && now->why_eager)
    status = cni_fail(CN_ERR_CAPTURE, "compile: %s was captured, and cannot be now: %s", k->name, now->why_eager);
  for (int i = 0; i < 2 && !status; i++) status = compare_graphs(k, now, i);
  cni_executable_release(now);
  return status;
}

/* ---- the function beside its program ---- */

/* Everything that a program writes, at some time: copies of states and inputs, and gradients of leaves. */
typedef struct written {
  cn_tensor **states, **inputs, **grads; /* borrowed from the scope; NULL: it is not written, or there is none */
  cn_tensor **before; /* per leaf: the gradient itself */
} written;

static cn_tensor *input_at(const cni_check *k, size_t i) { return k->call->inputs[k->p->inputs[i]]; }

static int note_written(written *w, const cni_check *k, cn_tensor **room)
{
  const cn_graph *g = k->p->forward;
  int saved = cn_no_grad_begin();
  *w = (written){room, room + g->nstates, room + g->nstates + g->ninputs, room + g->nstates + g->ninputs + g->nleaves};
  for (size_t i = 0; i < g->nstates; i++) {
    const cni_gstate *state = &g->states[i];
    w->states[i] = state->final >= 0 && !state->carried ? cn_clone(state->tensor) : NULL;
  }
  for (size_t i = 0; i < g->ninputs; i++) w->inputs[i] = g->input_finals[i] >= 0 ? cn_clone(input_at(k, i)) : NULL;
  for (size_t i = 0; i < g->nleaves; i++) {
    w->before[i] = cn_grad_of(g->leaves[i].tensor);
    if (w->before[i]) cni_scope_add(cni_tensor_keep(w->before[i]));
    w->grads[i] = w->before[i] ? cn_clone(w->before[i]) : NULL;
  }
  cn_no_grad_end(saved);
  return cn_err();
}

static int put_back(const written *w, const cni_check *k)
{
  const cn_graph *g = k->p->forward;
  int status = CN_OK;
  for (size_t i = 0; i < g->nstates && !status; i++)
    if (w->states[i]) status = cni_copy_elements(g->states[i].tensor, w->states[i]);
  for (size_t i = 0; i < g->ninputs && !status; i++)
    if (w->inputs[i]) status = cni_copy_elements(input_at(k, i), w->inputs[i]);
  for (size_t i = 0; i < g->nleaves && !status; i++) {
    if (w->before[i]) status = cni_copy_elements(w->before[i], w->grads[i]);
    if (!status) status = cn_set_grad(g->leaves[i].tensor, w->before[i]);
  }
  return status;
}

static int differs(const cni_check *k, const char *what, size_t i, const char *detail)
{
  return cni_fail(CN_ERR_CAPTURE, "compile: %s, compiled, differs from the function itself: %s %zu: %s", k->name, what,
                  i, detail);
}

static int compare_lists(const cni_check *k, const char *what, cn_tensor *const *a, cn_tensor *const *b, size_t n)
{
  char detail[TEXT] = "one has it, and one has not";
  for (size_t i = 0; i < n; i++) {
    if (!a[i] && !b[i]) continue;
    if (!a[i] || !b[i] || tensors_differ(detail, sizeof detail, a[i], b[i], "compiled", "as it is"))
      return differs(k, what, i, detail);
    if (cn_err()) return cn_err();
  }
  return CN_OK;
}

static int compare_written(const cni_check *k, const written *a, const written *b)
{
  const cn_graph *g = k->p->forward;
  int status = compare_lists(k, "state", a->states, b->states, g->nstates);
  if (!status) status = compare_lists(k, "what it writes into input", a->inputs, b->inputs, g->ninputs);
  return status ? status : compare_lists(k, "the gradient of leaf", a->grads, b->grads, g->nleaves);
}

/* ---- the first node ---- */

/* The nodes that value needs, of a graph that is in order. */
static void mark_needed(bool *nodes, bool *values, const cn_graph *g, int value)
{
  memset(nodes, 0, g->nnodes);
  memset(values, 0, g->nvalues);
  values[value] = true;
  for (size_t i = g->nnodes; i-- > 0;) {
    const cni_gnode *n = &g->nodes[i];
    for (int k = 0; k < n->nout; k++) nodes[i] |= values[n->out[k]];
    for (int k = 0; nodes[i] && k < n->nin; k++)
      if (n->in[k] >= 0) values[n->in[k]] = true;
  }
}

/* Is value, compiled by itself, what its ops give one by one? *detail says where not. */
static bool holds(const cn_graph *g, const cni_part *part, cn_tensor *const *in, const uint64_t *at, char *detail)
{
  cn_tensor *a = NULL, *b = NULL;
  cn_graph *one = cni_graph_extract(g, part);
  bool same = !one || cni_graph_replay(&b, one, in, &(cni_replay){.opts.no_writes = true, .at = at}) ||
              cn_graph_optimise(one) < 0 || cn_graph_fuse(one, true) < 0 || cni_graph_run_at(&a, one, in, at) ||
              !tensors_differ(detail, TEXT, a, b, "compiled", "as it is");
  cn_graph_free(one);
  return same;
}

static bool find_node(const cn_graph *g, cn_tensor *const *in, const uint64_t *at, char *text, size_t size)
{
  bool *marks = cni_alloc(g->nnodes + g->nvalues + 1), found = false;
  char detail[TEXT], where[200];
  for (size_t i = 0; marks && i < g->nnodes && !found && !cn_err(); i++)
    for (int k = 0; k < g->nodes[i].nout && !found; k++) {
      int value = g->nodes[i].out[k];
      cni_part part = {marks, g->inputs, g->ninputs, &value, 1, false};
      size_t depth = cni_scope_push();
      mark_needed(marks, marks + g->nnodes, g, value);
      found = !holds(g, &part, in, at, detail);
      cni_scope_pop(depth);
      if (!found) continue;
      name_node(where, sizeof where, g, (int)i);
      snprintf(text, size, "%s: %.300s", where, detail);
    }
  cni_free(marks, g->nnodes + g->nvalues + 1);
  return found;
}

/* The pending error, with the first node that differs where one is found. Everything is as before the call. */
static int with_node(const cni_check *k, const uint64_t *at)
{
  cni_saved_error error;
  char text[TEXT + 200] = "";
  cni_error_take(&error);
  cn_graph *plain = cni_capture_plain(k->fn, k->call, &k->p->notes, k->known);
  size_t bytes = (k->p->ninputs + 1) * sizeof(cn_tensor *), depth = cni_scope_push();
  cn_tensor **in = cni_alloc(bytes);
  for (size_t i = 0; in && i < k->p->ninputs; i++) in[i] = input_at(k, i);
  bool found = plain && in && plain->ninputs == k->p->ninputs && find_node(plain, in, at, text, sizeof text);
  cni_scope_pop(depth);
  cni_free(in, bytes);
  cn_graph_free(plain);
  cn_err_clear();
  if (!found) {
    cni_error_restore(&error);
    return error.err;
  }
  return cni_fail(error.err, "%.500s; the first node that differs is %s", error.message, text);
}

/* ---- one call ---- */

static int run_both(const cni_check *k, cn_tensor **room, cn_tensor **eager)
{
  const cn_graph *g = k->p->forward;
  size_t n = g->nstates + g->ninputs + 2 * g->nleaves;
  written before, program, function;
  uint64_t at[2], after[2];
  cn_random_state(&at[0], &at[1]);
  int status = note_written(&before, k, room);
  if (!status) status = k->run(k->payload, k->call);
  if (!status) status = note_written(&program, k, room + n);
  if (!status) status = put_back(&before, k);
  if (status) return status;
  cn_random_state(&after[0], &after[1]);
  cn_random_set_state(at[0], at[1]);
  cn_compile_call call = *k->call;
  call.outputs = eager;
  call.noutputs = k->room;
  status = k->fn(&call);
  if (status && !cn_err()) cni_fail(status, "compile: the function failed");
  if (call.note && k->p->notes.free) k->p->notes.free(call.note);
  if (!status) status = note_written(&function, k, room + 2 * n);
  if (!status && call.noutputs != k->call->noutputs) status = differs(k, "the number of results,", call.noutputs, "");
  if (!status) status = compare_lists(k, "result", k->call->outputs, eager, k->call->noutputs);
  if (!status) status = compare_written(k, &program, &function);
  if (status != CN_ERR_CAPTURE) return status;
  cn_random_set_state(at[0], at[1]);
  cni_saved_error error;
  cni_error_take(&error);
  put_back(&before, k);
  cni_error_restore(&error);
  status = with_node(k, at);
  cn_random_set_state(after[0], after[1]);
  return status;
}

/* What a call of the host does must not be done twice. */
static bool calls_host(const cn_graph *g)
{
  for (size_t i = 0; i < g->nnodes; i++)
    if (g->nodes[i].host) return true;
  return false;
}

int cni_check_run(const cni_check *k)
{
  const cn_graph *g = k->p->forward;
  if (calls_host(g)) return k->run(k->payload, k->call);
  size_t n = 3 * (g->nstates + g->ninputs + 2 * g->nleaves), bytes = (n + k->room + 1) * sizeof(cn_tensor *);
  size_t depth = cni_scope_push();
  cn_tensor **room = cni_alloc_zero(bytes);
  int status = room ? run_both(k, room, room + n) : CN_ERR_MEMORY;
  for (size_t i = 0; i < k->call->noutputs && !status; i++) cni_tensor_keep(k->call->outputs[i]);
  cni_free(room, bytes);
  cni_scope_pop(depth);
  for (size_t i = 0; i < k->call->noutputs && !status; i++)
    if (!(k->call->outputs[i] = cni_scope_add(k->call->outputs[i]))) status = CN_ERR_MEMORY;
  return status;
}
