/* graph.c: a module's graph in a file of events, as TensorBoard's graph page draws it. See events.h.
 *
 * Place in the flow: the module is traced; the graph's scopes say which module a node belongs to; nodes are then named
 * "Net/Sequential[features]/Conv2d[0]/conv2d", and the page folds them by those slashes. Invariant: the module is not
 * changed. */
#include <cairn/autograd.h>
#include <cairn/ext/graph.h>
#include <string.h>

#include "tfrecord.h"

enum { PRODUCER = 22 }; /* the version of GraphDef that this is */

/* A module: what its nodes' names begin with. */
typedef struct place {
  cn_module *module;
  char *path, *scope; /* "features.0", "Net/Sequential[features]/Conv2d[0]" */
} place;

typedef struct drawing {
  place **places;
  size_t n, cap;
  cn_module *net;
  size_t ninputs;
  cn_tree *used; /* name -> how often it was wanted */
  cn_tree *named; /* value's number -> name of its node */
} drawing;

/* ---- places ---- */

/* The module whose path is the first n characters of this; NULL: none. */
static const place *place_at(const drawing *d, const char *path, size_t n)
{
  for (size_t i = 0; i < d->n; i++)
    if (strlen(d->places[i]->path) == n && !memcmp(d->places[i]->path, path, n)) return d->places[i];
  return NULL;
}

static const place *parent_of(const drawing *d, const char *path)
{
  const char *dot = strrchr(path, '.');
  return place_at(d, path, dot ? (size_t)(dot - path) : 0);
}

static char *scope_of(const drawing *d, const cn_module *m, const char *path)
{
  cn_text t = {0};
  const char *dot = strrchr(path, '.');
  const place *parent = *path ? parent_of(d, path) : NULL;
  if (parent) cn_text_putf(&t, "%s/%s[%s]", parent->scope, m->cls->name, dot ? dot + 1 : path);
  else cn_text_put(&t, m->cls->name);
  return cn_text_take(&t);
}

static int add_place(cn_module *m, const char *path, void *payload)
{
  drawing *d = payload;
  place *p = cn_alloc_zero(sizeof *p);
  if (!p || cn_grow((void **)&d->places, &d->cap, d->n + 1, sizeof *d->places)) {
    cn_free(p, sizeof *p);
    return CN_ERR_MEMORY;
  }
  d->places[d->n++] = p;
  *p = (place){.module = m, .path = cn_string_copy(path), .scope = scope_of(d, m, path)};
  return p->path && p->scope ? CN_OK : cn_err();
}

static void free_places(drawing *d)
{
  for (size_t i = 0; i < d->n; i++) {
    place *p = d->places[i];
    cn_string_free(p->path);
    cn_string_free(p->scope);
    cn_free(p, sizeof *p);
  }
  cn_free(d->places, d->cap * sizeof *d->places);
}

/* ---- names ---- */

/* A name that no node has yet. Owned. */
static char *unique(drawing *d, const char *scope, const char *name)
{
  cn_text t = {0};
  cn_text_putf(&t, "%s%s%s", scope, *scope ? "/" : "", name);
  int64_t count = t.s ? cn_tree_as_int(cn_tree_get(d->used, t.s), 0) : 0;
  if (t.s && cn_tree_put(d->used, t.s, cn_tree_int(count + 1))) t.failed = true;
  if (count) cn_text_putf(&t, "_%lld", (long long)count);
  return cn_text_take(&t);
}

/* A state's name: that of the parameter or buffer it is, in its owner's scope. */
static char *state_name(drawing *d, const cn_graph *g, size_t state, const cn_named_list *named)
{
  const cn_tensor *t = cn_graph_state(g, state);
  for (size_t i = 0; i < named->n; i++) {
    if (named->v[i].tensor != t) continue;
    const char *dot = strrchr(named->v[i].name, '.');
    for (size_t k = 0; k < d->n; k++)
      if (d->places[k]->module == named->v[i].owner)
        return unique(d, d->places[k]->scope, dot ? dot + 1 : named->v[i].name);
  }
  return unique(d, "", "constant");
}

static const char *name_of(const drawing *d, int value)
{
  return cn_tree_as_str(cn_tree_get_index(d->named, value), NULL);
}

/* ---- nodes ---- */

static void put_shapes(cn_text *attr, const cn_graph *g, const int *values, int n)
{
  cn_text list = {0};
  for (int k = 0; k < n; k++) {
    cn_value_info v = {sizeof v};
    cn_text shape = {0};
    if (cn_graph_value_at(&v, g, values[k])) break;
    for (int i = 0; i < v.ndim; i++) {
      cn_text dim = {0};
      cni_pb_int(&dim, 1 /* size */, v.shape[i]);
      cni_pb_message(&shape, 2 /* dim */, &dim);
    }
    cni_pb_message(&list, 7 /* shape */, &shape);
  }
  cni_pb_message(attr, 1 /* list */, &list);
}

static void put_attr(cn_text *node, const char *key, cn_text *value)
{
  cn_text entry = {0};
  cni_pb_str(&entry, 1 /* key */, key);
  cni_pb_message(&entry, 2 /* value */, value);
  cni_pb_message(node, 5 /* attr */, &entry);
}

static void put_number(cn_text *t, double v)
{
  char number[CN_NUMBER_TEXT];
  cn_text_put(t, cn_number_write(number, v, false));
}

/* The arguments that are no tensors: "stride=[1, 1] bias=true". */
static int describe(cn_text *t, const cn_graph_node *n)
{
  cn_op_info info;
  if (n->nsubs || !cn_op_find(n->name)) return CN_OK; /* a branch, a loop or a host call */
  int status = cn_op_describe(&info, n->op);
  for (int i = 0; !status && i < n->nargs; i++) {
    const cn_value *v = &n->args[i];
    if (v->tag == CN_V_NONE || v->tag == CN_V_TENSOR || v->tag == CN_V_TENSORS) continue;
    cn_text_putf(t, "%s%s=", t->n ? " " : "", info.params[i].name);
    if (v->tag == CN_V_INT) cn_text_putf(t, "%lld", (long long)v->u.i);
    else if (v->tag == CN_V_BOOL) cn_text_put(t, v->u.i ? "true" : "false");
    else if (v->tag == CN_V_FLOAT) put_number(t, v->u.f);
    else if (v->tag == CN_V_STR) cn_text_put(t, v->u.s);
    else {
      cn_text_put(t, "[");
      for (int k = 0; k < v->n; k++) {
        if (k) cn_text_put(t, ", ");
        if (v->tag == CN_V_INTS) cn_text_putf(t, "%lld", (long long)v->u.is[k]);
        else if (v->tag == CN_V_FLOATS) put_number(t, v->u.fs[k]);
      }
      cn_text_put(t, "]");
    }
  }
  return status;
}

/* A NodeDef that stands for `values`; takes name and text (may be NULL) over and remembers the name. */
static int put_node(cn_text *def, drawing *d, const cn_graph *g, char *name, const char *op, const int *in, int nin,
                    const int *values, int n, cn_text *text)
{
  cn_text node = {0}, shapes = {0};
  int status = name ? CN_OK : cn_err();
  for (int k = 0; !status && k < n; k++) {
    cn_text full = {0};
    cn_text_put(&full, name);
    if (k) cn_text_putf(&full, ":%d", k);
    status = full.failed ? CN_ERR_MEMORY : cn_tree_put_index(d->named, values[k], cn_tree_str(full.s));
    cn_text_free(&full);
  }
  if (!status) {
    cni_pb_str(&node, 1 /* name */, name);
    cni_pb_str(&node, 2 /* op */, op);
    for (int i = 0; i < nin; i++)
      if (in[i] >= 0 && name_of(d, in[i])) cni_pb_str(&node, 3 /* input */, name_of(d, in[i]));
    if (n) put_shapes(&shapes, g, values, n);
    if (n) put_attr(&node, "_output_shapes", &shapes);
    if (text && text->n) {
      cn_text value = {0};
      cni_pb_bytes(&value, 2 /* s */, text->s, text->n);
      put_attr(&node, "attr", &value);
    }
    cni_pb_message(def, 1 /* node */, &node);
  }
  if (text) cn_text_free(text);
  cn_string_free(name);
  return status;
}

static int put_states(cn_text *def, drawing *d, const cn_graph *g)
{
  cn_named_list named;
  int status = cn_module_named(&named, d->net, CN_PARAMETERS | CN_BUFFERS);
  if (status) return status;
  for (size_t i = 0; !status && i < cn_graph_states(g); i++) {
    int value = cn_graph_state_value(g, i);
    status = put_node(def, d, g, state_name(d, g, i, &named), "Parameter", NULL, 0, &value, 1, NULL);
  }
  cn_named_free(&named);
  return status;
}

/* The path of the module that a scope belongs to: the names of the modules around it, joined. */
static void put_path(cn_text *t, const cn_graph *g, int scope)
{
  cn_graph_scope s = {sizeof s};
  if (scope < 0 || cn_graph_scope_at(&s, g, scope)) return;
  put_path(t, g, s.parent);
  if (s.name && *s.name) cn_text_putf(t, "%s%s", t->n ? "." : "", s.name);
}

static const char *scope_of_node(const drawing *d, const cn_graph *g, const cn_graph_node *n)
{
  cn_text path = {0};
  put_path(&path, g, n->scope);
  const place *p = n->scope < 0 || path.failed ? NULL : place_at(d, path.s ? path.s : "", path.n);
  cn_text_free(&path);
  return p ? p->scope : "";
}

/* The whole GraphDef. */
static int put_graph(cn_text *def, drawing *d, const cn_graph *g)
{
  int status = CN_OK;
  for (size_t i = 0; !status && i < cn_graph_inputs(g); i++) {
    int value = cn_graph_input(g, i);
    status = put_node(def, d, g, unique(d, "", "input"), "Placeholder", NULL, 0, &value, 1, NULL);
  }
  if (!status) status = put_states(def, d, g);
  for (size_t i = 0; !status && i < cn_graph_nodes(g); i++) {
    cn_graph_node n = {sizeof n};
    cn_text text = {0};
    status = cn_graph_node_at(&n, g, (int)i);
    if (!status) status = describe(&text, &n);
    char *name = status ? NULL : unique(d, scope_of_node(d, g, &n), n.name);
    if (!status) status = put_node(def, d, g, name, n.name, n.in, n.nin, n.out, n.nout, &text);
    else cn_text_free(&text);
  }
  for (size_t i = 0; !status && i < cn_graph_outputs(g); i++) {
    int value = cn_graph_output(g, i);
    status = put_node(def, d, g, unique(d, "", "output"), "Output", &value, 1, NULL, 0, NULL);
  }
  cn_text versions = {0};
  cni_pb_int(&versions, 1 /* producer */, PRODUCER);
  cni_pb_message(def, 4 /* versions */, &versions);
  return status;
}

static int call_net(cn_tensor **outputs, cn_tensor *const *inputs, void *payload)
{
  drawing *d = payload;
  outputs[0] = cn_forward_one(d->net, inputs, d->ninputs);
  return outputs[0] ? CN_OK : cn_err();
}

int cn_events_graph(cn_events *events, cn_module *net, cn_tensor *const *inputs, size_t n)
{
  drawing d = {.net = net, .ninputs = n};
  cn_text def = {0};
  int status = cni_events_check(events, "events_graph", "-");
  if (status) return status;
  int saved = cn_no_grad_begin();
  d.used = cn_tree_dict();
  d.named = d.used ? cn_tree_dict() : NULL;
  status = d.named ? cn_module_visit(net, add_place, &d) : cn_err();
  cn_graph *g = status ? NULL : cn_trace(call_net, 1, inputs, n, &d);
  if (!status) status = g ? put_graph(&def, &d, g) : cn_err();
  if (!status) status = cni_events_put(events, 0, 4 /* graph_def */, &def);
  cn_text_free(&def);
  cn_graph_free(g);
  free_places(&d);
  cn_tree_free(d.used);
  cn_tree_free(d.named);
  cn_no_grad_end(saved);
  return status;
}
