/* picture.c: boxes of a graph's nodes, groups of its scopes, lines of its values. See picture.h.
 *
 * Invariant: numbers and states are no boxes: the box that reads them names them. */
#include "picture.h"

#include <stdio.h>
#include <string.h>

typedef struct making {
  picture *p;
  const cn_graph *g;
  const cn_cost *costs; /* per node */
  int depth;
  int root;            /* the group that what is in no scope is drawn in */
  int *group;          /* per scope: its group; -1: it is none, or not yet one */
  int *folded;         /* per scope: its box, where it is drawn as one; -1 */
  int *maker;          /* per value: the box it comes from; -1: none */
} making;

/* ---- what things cost ---- */

static double numel(const cn_value_info *v)
{
  double n = 1;
  for (int i = 0; i < v->ndim; i++) n *= (double)v->shape[i];
  return n;
}

double picture_share(const picture *p, const picture_box *b)
{
  double all = p->work + p->bytes / 8, own = b->work + b->bytes / 8; /* a byte moved weighs an eighth of a product */
  return all > 0 ? own / all : 0;
}

/* ---- texts ---- */

static void put_shape(char *text, size_t size, const char *before, const cn_value_info *v)
{
  int n = snprintf(text, size, "%s[", before);
  for (int i = 0; i < v->ndim && n > 0 && (size_t)n < size; i++)
    n += snprintf(text + n, size - (size_t)n, "%s%lld", i ? ", " : "", (long long)v->shape[i]);
  if (n > 0 && (size_t)n < size) snprintf(text + n, size - (size_t)n, "]");
}

static void put_type(char *text, size_t size, const cn_graph *g, int value)
{
  cn_value_info v = {sizeof v};
  char before[40] = "";
  *text = 0;
  if (cn_graph_value_at(&v, g, value)) return;
  if (v.dtype != CN_F32) snprintf(before, sizeof before, "%s ", cn_dtype_name((cn_dtype)v.dtype));
  put_shape(text, size, before, &v);
}

/* What a state is called by its module: "weight". */
static const char *state_name(const making *m, const cn_value_info *v)
{
  const char *name = v->kind == CN_VALUE_STATE ? cn_graph_state_name(m->g, (size_t)v->index) : "const";
  const char *dot = name ? strrchr(name, '.') : NULL;
  return dot ? dot + 1 : name ? name : "state";
}

static void add_detail(const making *m, picture_box *b, int value)
{
  cn_value_info v = {sizeof v};
  char text[PICTURE_TEXT], before[PICTURE_TEXT];
  size_t n = strlen(b->detail);
  if (cn_graph_value_at(&v, m->g, value) || (v.kind != CN_VALUE_STATE && v.kind != CN_VALUE_CONST)) return;
  snprintf(before, sizeof before, "%s%s ", n ? ", " : "", state_name(m, &v));
  put_shape(text, sizeof text, before, &v);
  if (n + strlen(text) < 44) snprintf(b->detail + n, sizeof b->detail - n, "%s", text); /* others are not shown */
}

/* ---- groups ---- */

static int add_group(picture *p, int parent, const char *label)
{
  if (cn_grow((void **)&p->groups, &p->groups_cap, p->ngroups + 1, sizeof *p->groups)) return CN_ERR_MEMORY;
  p->groups[p->ngroups] = (picture_group){.parent = parent};
  snprintf(p->groups[p->ngroups].label, PICTURE_TEXT, "%s", label);
  return (int)p->ngroups++;
}

static int add_box(picture *p, box_kind kind, int in, const char *label)
{
  if (cn_grow((void **)&p->boxes, &p->boxes_cap, p->nboxes + 1, sizeof *p->boxes)) return CN_ERR_MEMORY;
  p->boxes[p->nboxes] = (picture_box){.kind = kind, .group = in};
  snprintf(p->boxes[p->nboxes].label, PICTURE_TEXT, "%s", label);
  return (int)p->nboxes++;
}

static int scope_depth(const cn_graph *g, int scope)
{
  cn_graph_scope s = {sizeof s};
  int depth = 0;
  for (; scope >= 0 && !cn_graph_scope_at(&s, g, scope); scope = s.parent) depth++;
  return depth;
}

static void scope_label(char *label, const cn_graph_scope *s)
{
  cn_op_info info;
  if (s->op) snprintf(label, PICTURE_TEXT, "%s()", cn_op_describe(&info, s->op) ? "?" : info.name);
  else snprintf(label, PICTURE_TEXT, "%s%s%s", s->name, *s->name ? " " : "", s->kind);
}

/* The group of a scope, made with those around it when it is met first. */
static int group_of(making *m, int scope)
{
  cn_graph_scope s = {sizeof s};
  char label[PICTURE_TEXT];
  if (scope < 0) return m->root;
  if (m->group[scope] >= 0) return m->group[scope];
  int status = cn_graph_scope_at(&s, m->g, scope);
  int parent = status ? status : group_of(m, s.parent);
  if (parent < 0) return parent;
  scope_label(label, &s);
  return m->group[scope] = add_group(m->p, parent, label);
}

/* The box that a node is drawn in: its own, or that of a scope that is too deep. */
static int box_of(making *m, const cn_graph_node *n)
{
  cn_graph_scope s = {sizeof s};
  char label[PICTURE_TEXT];
  int scope = n->scope;
  for (int depth = scope_depth(m->g, scope); depth > m->depth; depth--) {
    if (cn_graph_scope_at(&s, m->g, scope)) return cn_err();
    if (depth == m->depth + 1) {
      int in = m->folded[scope] < 0 ? group_of(m, s.parent) : 0;
      scope_label(label, &s);
      if (in >= 0 && m->folded[scope] < 0) m->folded[scope] = add_box(m->p, BOX_FOLDED, in, label);
      return in < 0 ? in : m->folded[scope];
    }
    scope = s.parent;
  }
  int in = group_of(m, scope);
  return in < 0 ? in : add_box(m->p, BOX_OP, in, n->name);
}

/* ---- lines ---- */

static int add_line(making *m, int value, int to)
{
  picture *p = m->p;
  int from = value < 0 ? -1 : m->maker[value];
  if (from < 0 || from == to) return CN_OK;
  for (size_t i = p->nlines; i-- > 0 && p->lines[i].to == to;)
    if (p->lines[i].value == value) return CN_OK;
  if (cn_grow((void **)&p->lines, &p->lines_cap, p->nlines + 1, sizeof *p->lines)) return CN_ERR_MEMORY;
  picture_line *l = &p->lines[p->nlines++];
  *l = (picture_line){.from = from, .to = to, .value = value};
  put_type(l->label, sizeof l->label, m->g, value);
  return CN_OK;
}

static int draw(making *m);

/* The graph that node n holds, in a frame: its inputs are what the node was given, its outputs what it gives. */
static int add_held(making *m, const cn_graph_node *n, int sub, int frame)
{
  const cn_graph *g = n->subs[sub];
  size_t scopes = (cn_graph_scopes(g) + 1) * sizeof(int), values = (cn_graph_values(g) + 1) * sizeof(int);
  making inner = {.p = m->p, .g = g, .depth = m->depth, .root = frame, .group = cn_alloc(scopes),
                  .folded = cn_alloc(scopes), .maker = cn_alloc(values)};
  int status = inner.group && inner.folded && inner.maker ? CN_OK : CN_ERR_MEMORY;
  int first = !strcmp(n->name, "cond") ? 1 : 0; /* the predicate */
  if (!status) {
    memset(inner.group, -1, scopes);
    memset(inner.folded, -1, scopes);
    memset(inner.maker, -1, values);
    for (int i = 0; i < (int)cn_graph_inputs(g) && first + i < n->nin; i++)
      if (n->in[first + i] >= 0) inner.maker[cn_graph_input(g, (size_t)i)] = m->maker[n->in[first + i]];
    status = draw(&inner);
    for (int k = 0; k < n->nout && k < (int)cn_graph_outputs(g) && !status; k++) {
      int maker = inner.maker[cn_graph_output(g, (size_t)k)];
      if (maker >= 0) m->maker[n->out[k]] = maker;
    }
  }
  cn_free(inner.group, scopes);
  cn_free(inner.folded, scopes);
  cn_free(inner.maker, values);
  return status;
}

/* A branch or a loop: a box that says so, and a frame with what it holds. */
static int add_control(making *m, const cn_graph_node *n)
{
  static const char *const names[2][2] = {{"true", "false"}, {"condition", "body"}};
  int in = group_of(m, n->scope), frame = in < 0 ? in : add_group(m->p, in, n->name);
  int at = frame < 0 ? frame : add_box(m->p, BOX_OP, frame, n->name), status = at < 0 ? at : CN_OK;
  for (int k = 0; k < n->nin && !status; k++) status = add_line(m, n->in[k], at);
  for (int k = 0; k < n->nout && !status; k++) m->maker[n->out[k]] = at;
  for (int k = 0; k < n->nsubs && !status; k++) {
    int inner = n->nsubs < 2 ? frame : add_group(m->p, frame, names[!strcmp(n->name, "while")][k]);
    status = inner < 0 ? inner : add_held(m, n, k, inner);
  }
  return status;
}

static int add_node(making *m, int i)
{
  cn_graph_node n = {sizeof n};
  int status = cn_graph_node_at(&n, m->g, i);
  if (!status && n.nsubs) return add_control(m, &n);
  int at = status ? status : box_of(m, &n);
  if (at < 0) return at;
  picture_box *b = &m->p->boxes[at];
  b->work += m->costs[i].products / 2;
  b->bytes += m->costs[i].read + m->costs[i].written;
  for (int k = 0; k < n.nin; k++)
    if (b->kind == BOX_OP && n.in[k] >= 0) add_detail(m, b, n.in[k]);
  for (int k = 0; k < n.nin && !status; k++) status = add_line(m, n.in[k], at);
  for (int k = 0; k < n.nout; k++) m->maker[n.out[k]] = at;
  return status;
}

static int draw(making *m)
{
  size_t n = cn_graph_nodes(m->g), bytes = (n + 1) * sizeof(cn_cost);
  cn_cost *costs = cn_alloc(bytes);
  int status = costs ? cn_graph_costs(costs, m->g) : CN_ERR_MEMORY;
  m->costs = costs;
  for (size_t i = 0; i < n && !status; i++) status = add_node(m, (int)i);
  cn_free(costs, bytes);
  return status;
}

static int add_ends(making *m, bool inputs)
{
  size_t n = inputs ? cn_graph_inputs(m->g) : cn_graph_outputs(m->g);
  int status = CN_OK;
  for (size_t i = 0; i < n && !status; i++) {
    char label[PICTURE_TEXT], type[PICTURE_TEXT];
    int value = inputs ? cn_graph_input(m->g, i) : cn_graph_output(m->g, i);
    put_type(type, sizeof type, m->g, value);
    snprintf(label, sizeof label, n > 1 ? "%s %zu" : "%s", inputs ? "input" : "output", i);
    int at = add_box(m->p, inputs ? BOX_INPUT : BOX_OUTPUT, 0, label);
    if (at < 0) return at;
    snprintf(m->p->boxes[at].detail, PICTURE_TEXT, "%s", type);
    if (inputs) m->maker[value] = at;
    else status = add_line(m, value, at);
  }
  return status;
}

/* ---- groups of one ---- */

/* The only box of a group, where there is no group in it; -1: there is more in it. */
static int only_box(const picture *p, int g, const bool *gone)
{
  int found = -1;
  for (size_t i = 0; i < p->ngroups; i++)
    if (p->groups[i].parent == g && !gone[i]) return -1;
  for (size_t i = 0; i < p->nboxes; i++) {
    if (p->boxes[i].group != g) continue;
    if (found >= 0) return -1;
    found = (int)i;
  }
  return found;
}

/* "conv1" before "conv2d": of a part's label its name. */
static void put_name_before(picture_box *b, const char *label)
{
  char before[PICTURE_TEXT], old[PICTURE_TEXT];
  size_t n = strcspn(label, " ");
  if (!n || label[n] != ' ') return;
  snprintf(before, sizeof before, "%.*s", (int)n, label);
  snprintf(old, sizeof old, "%s", b->label);
  bool named = strstr(old, ": ") != NULL || b->kind == BOX_FOLDED;
  snprintf(b->label, sizeof b->label, "%.40s%s%.50s", before, named ? "." : ": ", old);
}

/* A module that is one op needs no frame: its box has its name. */
static int fold_groups_of_one(picture *p)
{
  size_t n = 1, all = p->ngroups;
  bool *gone = cn_alloc_zero(all);
  int *to = gone ? cn_alloc_zero(all * sizeof *to) : NULL;
  for (size_t g = all; to && g-- > 1;) {
    int one = only_box(p, (int)g, gone);
    if (one < 0) continue;
    put_name_before(&p->boxes[one], p->groups[g].label);
    p->boxes[one].group = p->groups[g].parent;
    gone[g] = true;
  }
  for (size_t g = 1; to && g < all; g++) {
    if (gone[g]) continue;
    p->groups[g].parent = to[p->groups[g].parent];
    to[g] = (int)n;
    p->groups[n++] = p->groups[g];
  }
  for (size_t i = 0; to && i < p->nboxes; i++) p->boxes[i].group = to[p->boxes[i].group];
  if (to) p->ngroups = n;
  bool done = to != NULL;
  cn_free(gone, all);
  cn_free(to, all * sizeof *to);
  return done ? CN_OK : CN_ERR_MEMORY;
}

static void add_up(making *m)
{
  cn_value_info v = {sizeof v};
  for (size_t i = 0; i < m->p->nboxes; i++) {
    m->p->work += m->p->boxes[i].work;
    m->p->bytes += m->p->boxes[i].bytes;
  }
  for (size_t i = 0; i < cn_graph_states(m->g); i++)
    if (!cn_graph_value_at(&v, m->g, cn_graph_state_value(m->g, i))) m->p->parameters += (int64_t)numel(&v);
}

int picture_of(picture *p, const cn_graph *g, int depth)
{
  size_t scopes = (cn_graph_scopes(g) + 1) * sizeof(int), values = (cn_graph_values(g) + 1) * sizeof(int);
  making m = {.p = p, .g = g, .depth = depth, .group = cn_alloc(scopes), .folded = cn_alloc(scopes),
              .maker = cn_alloc(values)};
  *p = (picture){NULL};
  int status = m.group && m.folded && m.maker ? CN_OK : CN_ERR_MEMORY;
  if (!status) {
    memset(m.group, -1, scopes);
    memset(m.folded, -1, scopes);
    memset(m.maker, -1, values);
    status = add_group(p, -1, "");
  }
  if (!status) status = add_ends(&m, true);
  if (!status) status = draw(&m);
  if (!status) status = add_ends(&m, false);
  if (!status) status = fold_groups_of_one(p);
  if (!status) add_up(&m);
  cn_free(m.group, scopes);
  cn_free(m.folded, scopes);
  cn_free(m.maker, values);
  return status;
}

void picture_free(picture *p)
{
  cn_free(p->boxes, p->boxes_cap * sizeof *p->boxes);
  cn_free(p->groups, p->groups_cap * sizeof *p->groups);
  cn_free(p->lines, p->lines_cap * sizeof *p->lines);
  cn_free(p->strokes, p->strokes_cap * sizeof *p->strokes);
}
