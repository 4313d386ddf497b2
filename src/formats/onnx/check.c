/* check.c: from names to places: which slot a name means, which row an operator is, when a value is no longer needed.
 * It refuses what is no model: names that nothing defines before they are read (cycles among them), names that are
 * defined twice, operators that cairn has not, functions that call themselves. See model.h.
 *
 * Place in the flow: behind model.c, once; run.c relies on all of it. */
#include <string.h>

#include "run.h"
#include "template.h"

enum { NEWEST = 28 }; /* the opset of ONNX's own domain that rows were last held against */

/* Names of one graph, by hash; and the graph around. */
typedef struct cni_onnx_names {
  struct cni_onnx_names *outer;
  const char **keys;
  int32_t *slots;
  size_t mask, used;
  int32_t *last; /* of each slot: the node that reads it last, -1: none, INT32_MAX: a result */
  int32_t node;  /* where the check is */
} names;

typedef struct checker {
  cni_onnx_model *model;
  const cni_onnx_opset *opsets; /* of the model, or of a function */
  size_t nopsets;
} checker;

/* ---- names ---- */

static size_t place_of(const names *n, const char *key)
{
  uint64_t h = 1469598103934665603u;
  for (const char *c = key; *c; c++) h = (h ^ (unsigned char)*c) * 1099511628211u;
  size_t at = (size_t)(h ^ h >> 29) & n->mask;
  while (n->keys[at] && strcmp(n->keys[at], key) != 0) at = (at + 1) & n->mask;
  return at;
}

/* Room for as many names as a graph can have. */
static int names_begin(names *n, names *outer, cni_arena *arena, const cni_onnx_graph *g)
{
  size_t most = g->ninputs + g->ninitials + g->nsparses, size = 16;
  for (size_t i = 0; i < g->nnodes; i++) most += g->nodes[i].noutputs;
  while (size < 2 * most) size *= 2;
  *n = (names){.outer = outer, .mask = size - 1};
  n->keys = cni_arena_take(arena, size, sizeof *n->keys);
  n->slots = cni_arena_take(arena, size, sizeof *n->slots);
  n->last = cni_arena_take(arena, most + 1, sizeof *n->last);
  return n->keys && n->slots && n->last ? CN_OK : cn_err();
}

/* A new slot for the name; that which it has, with *there, where it has one. */
static int32_t add(names *n, const char *key, bool *there)
{
  size_t at = place_of(n, key);
  *there = n->keys[at] != NULL;
  if (*there) return n->slots[at];
  n->keys[at] = key;
  n->last[n->used] = n->node;
  return n->slots[at] = (int32_t)n->used++;
}

/* What the name means here or around; it is read by the node where each graph stands. slot -1: nothing. */
static cni_onnx_ref find(names *n, const char *key)
{
  for (int32_t up = 0; n; n = n->outer, up++) {
    size_t at = place_of(n, key);
    if (!n->keys[at]) continue;
    int32_t slot = n->slots[at];
    if (n->last[slot] < n->node) n->last[slot] = n->node;
    return (cni_onnx_ref){up, slot};
  }
  return (cni_onnx_ref){0, -1};
}

int32_t cni_onnx_slot_of(const cni_onnx_model *m, const char *name)
{
  size_t at = place_of(m->names, name);
  return m->names->keys[at] ? m->names->slots[at] : -1;
}

/* ---- operators ---- */

static int64_t opset_of(const checker *c, const char *domain)
{
  for (size_t i = 0; i < c->nopsets; i++)
    if (!strcmp(c->opsets[i].domain, domain)) return c->opsets[i].version;
  for (size_t i = 0; i < c->model->nopsets; i++)
    if (!strcmp(c->model->opsets[i].domain, domain)) return c->model->opsets[i].version;
  return *domain || c->model->ir < 3 ? 1 : 0;
}

static const cni_onnx_function *function_of(const cni_onnx_model *m, const cni_onnx_node *n)
{
  for (size_t i = 0; i < m->nfunctions; i++) {
    const cni_onnx_function *f = &m->functions[i];
    if (!strcmp(f->name, n->op) && !strcmp(f->domain, n->domain) && !strcmp(f->overload, n->overload)) return f;
  }
  return NULL;
}

static int bad_node(const checker *c, const cni_onnx_node *n, const char *what, const char *name)
{
  return cn_err_set(CN_ERR_UNSUPPORTED, "onnx: %s: node '%s' (%s%s%s, opset %lld): %s%s", c->model->source->name,
                    *n->name || !n->noutputs ? n->name : n->output_names[0], n->domain, *n->domain ? "." : "", n->op,
                    (long long)n->opset, what, name);
}

/* A template that nodes of this model share. */
typedef struct cni_onnx_parsed {
  struct cni_onnx_parsed *next;
  const char *text; /* the row's own */
  const cni_onnx_template *template;
} parsed;

static const cni_onnx_template *template_of(cni_onnx_model *m, const char *text)
{
  parsed *p = m->templates;
  for (; p; p = p->next)
    if (p->text == text) return p->template;
  if (!(p = cni_arena_take(&m->arena, 1, sizeof *p)) || !(p->template = cni_onnx_parse(&m->arena, text))) return NULL;
  p->text = text;
  p->next = m->templates;
  m->templates = p;
  return p->template;
}

static int resolve(const checker *c, cni_onnx_node *n)
{
  bool known;
  n->opset = opset_of(c, n->domain);
  if ((n->function = function_of(c->model, n))) return CN_OK;
  n->row = cni_onnx_find(n->domain, n->op, n->opset, &known);
  if (!*n->domain && !n->opset) n->problem = "the model does not say which opset it is of";
  else if (!*n->domain && n->opset > NEWEST) n->problem = "the opset is newer than those that cairn knows";
  else if (!n->row) n->problem = known ? "the operator is not in this opset" : "cairn does not have the operator";
  if (n->problem) return c->model->partial ? CN_OK : bad_node(c, n, n->problem, "");
  return n->row->text && !(n->template = template_of(c->model, n->row->text)) ? cn_err() : CN_OK;
}

/* ---- graphs ---- */

static int check_graph(checker *c, cni_onnx_graph *g, names *here, names *outer);

static int check_attrs(checker *c, cni_onnx_attr *attrs, size_t n, names *here)
{
  names inner;
  for (size_t i = 0; i < n; i++) {
    cni_onnx_attr *a = &attrs[i];
    if (a->kind == CNI_ATTR_GRAPH && a->g && check_graph(c, a->g, &inner, here)) return cn_err();
    if (a->kind == CNI_ATTR_TENSOR && !(a->value = cni_onnx_make(c->model, a->t))) return cn_err();
    if (a->kind == CNI_ATTR_SPARSE && !(a->value = cni_onnx_make_sparse(c->model, a->sparse))) return cn_err();
  }
  return CN_OK;
}

static int check_node(checker *c, cni_onnx_node *n, names *here)
{
  cni_arena *arena = &c->model->arena;
  bool there;
  n->inputs = cni_arena_take(arena, n->ninputs + 1, sizeof *n->inputs);
  n->outputs = cni_arena_take(arena, n->noutputs + 1, sizeof *n->outputs);
  if (!n->inputs || !n->outputs || resolve(c, n)) return cn_err();
  for (size_t i = 0; i < n->ninputs; i++) {
    n->inputs[i] = *n->input_names[i] ? find(here, n->input_names[i]) : (cni_onnx_ref){0, -1};
    if (*n->input_names[i] && n->inputs[i].slot < 0)
      return bad_node(c, n, "no node before it computes its input ", n->input_names[i]);
  }
  if (check_attrs(c, n->attrs, n->nattrs, here)) return cn_err();
  for (size_t i = 0; i < n->noutputs; i++) {
    n->outputs[i] = *n->output_names[i] ? add(here, n->output_names[i], &there) : -1;
    if (n->outputs[i] >= 0 && there)
      return bad_node(c, n, "something else is called as its output ", n->output_names[i]);
  }
  return CN_OK;
}

/* Inputs and initialisers get the first slots; an initialiser of an input's name is its default. */
static int check_given(checker *c, cni_onnx_graph *g, names *here)
{
  bool there;
  g->initial_slots = cni_arena_take(&c->model->arena, g->ninitials + 1, sizeof *g->initial_slots);
  g->sparse_slots = cni_arena_take(&c->model->arena, g->nsparses + 1, sizeof *g->sparse_slots);
  g->values = cni_arena_take(&c->model->arena, g->ninitials + g->nsparses + 1, sizeof(cn_onnx_value *));
  if (!g->initial_slots || !g->sparse_slots || !g->values) return cn_err();
  for (size_t i = 0; i < g->ninputs; i++) {
    g->inputs[i].initial = -1;
    g->inputs[i].slot = add(here, g->inputs[i].name, &there);
    if (there || !*g->inputs[i].name) return cni_onnx_bad(c->model, "two inputs are called '%s'", g->inputs[i].name);
  }
  for (size_t i = 0; i < g->ninitials + g->nsparses; i++) {
    bool sparse = i >= g->ninitials;
    const char *name = sparse ? g->sparses[i - g->ninitials].values.name : g->initials[i].name;
    int32_t slot = add(here, name, &there);
    if (there && (size_t)slot >= g->ninputs) return cni_onnx_bad(c->model, "two initialisers are called '%s'", name);
    if (there) g->inputs[slot].initial = (int32_t)i;
    *(sparse ? &g->sparse_slots[i - g->ninitials] : &g->initial_slots[i]) = slot;
    g->values[i] = sparse ? cni_onnx_make_sparse(c->model, &g->sparses[i - g->ninitials])
                          : cni_onnx_make(c->model, &g->initials[i]);
    if (!g->values[i]) return cn_err();
  }
  return CN_OK;
}

/* Hands each node the slots that are done with behind it. */
static int let_go(checker *c, cni_onnx_graph *g, const names *here)
{
  for (size_t s = 0; s < here->used; s++)
    if (here->last[s] >= 0 && here->last[s] < INT32_MAX) g->nodes[here->last[s]].ndone++;
  for (size_t i = 0; i < g->nnodes; i++) {
    g->nodes[i].done = cni_arena_take(&c->model->arena, g->nodes[i].ndone + 1, sizeof(int32_t));
    if (!g->nodes[i].done) return cn_err();
    g->nodes[i].ndone = 0;
  }
  for (size_t s = 0; s < here->used; s++)
    if (here->last[s] >= 0 && here->last[s] < INT32_MAX) {
      cni_onnx_node *n = &g->nodes[here->last[s]];
      n->done[n->ndone++] = (int32_t)s;
    }
  return CN_OK;
}

static int check_graph(checker *c, cni_onnx_graph *g, names *here, names *outer)
{
  if (g->nslots || g->nnodes >= INT32_MAX) return cni_onnx_bad(c->model, "graph '%s' stands in two places", g->name);
  if (names_begin(here, outer, &c->model->arena, g)) return cn_err();
  here->node = -1;
  if (check_given(c, g, here)) return cn_err();
  for (size_t i = 0; i < g->nnodes; i++) {
    here->node = (int32_t)i;
    if (check_node(c, &g->nodes[i], here)) return cn_err();
  }
  g->results = cni_arena_take(&c->model->arena, g->noutputs + 1, sizeof *g->results);
  if (!g->results) return cn_err();
  here->node = INT32_MAX;
  for (size_t i = 0; i < g->noutputs; i++) {
    g->results[i] = find(here, g->outputs[i].name);
    if (g->results[i].slot < 0 && *g->outputs[i].name)
      return cni_onnx_bad(c->model, "no node computes the output '%s' of graph '%s'", g->outputs[i].name, g->name);
  }
  g->nslots = (int32_t)here->used;
  return let_go(c, g, here);
}

/* ---- functions ---- */

enum { CALLS = 200 }; /* functions that wait for one another: more than any run goes into */

/* Whether a function is being looked at (1), or was (2). */
typedef struct seen {
  const cni_onnx_model *model;
  unsigned char *state;
  int depth;
} seen;

static int no_cycle(seen *s, const cni_onnx_function *f);

static int no_cycle_in(seen *s, const cni_onnx_graph *g)
{
  for (size_t i = 0; i < g->nnodes; i++) {
    const cni_onnx_node *n = &g->nodes[i];
    if (n->function && no_cycle(s, n->function)) return cn_err();
    for (size_t k = 0; k < n->nattrs; k++)
      if (n->attrs[k].g && no_cycle_in(s, n->attrs[k].g)) return cn_err();
  }
  return CN_OK;
}

static int no_cycle(seen *s, const cni_onnx_function *f)
{
  unsigned char *state = &s->state[f - s->model->functions];
  if (*state == 2) return CN_OK;
  if (*state == 1) return cni_onnx_bad(s->model, "function '%s' calls itself", f->name);
  if (s->depth == CALLS) return cni_onnx_bad(s->model, "functions call one another %d deep", CALLS + 1);
  *state = 1;
  s->depth++;
  if (no_cycle_in(s, &f->body)) return cn_err();
  s->depth--;
  *state = 2;
  return CN_OK;
}

int cni_onnx_check(cni_onnx_model *m)
{
  for (size_t i = 0; i < m->nfunctions; i++) {
    cni_onnx_function *f = &m->functions[i];
    checker c = {m, f->opsets, f->nopsets};
    names here;
    if (check_graph(&c, &f->body, &here, NULL) || check_attrs(&c, f->defaults, f->ndefaults, NULL)) return cn_err();
  }
  checker c = {m, m->opsets, m->nopsets};
  seen s = {m, cni_arena_take(&m->arena, m->nfunctions + 1, 1), 0};
  m->names = cni_arena_take(&m->arena, 1, sizeof *m->names);
  if (!s.state || !m->names || check_graph(&c, &m->graph, m->names, NULL)) return cn_err();
  for (size_t i = 0; i < m->nfunctions; i++)
    if (no_cycle(&s, &m->functions[i])) return cn_err();
  return CN_OK;
}
