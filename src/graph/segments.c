/* segments.c: graphs with sizes that only nodes know (how many elements nonzero finds): cut behind such nodes into
 * parts, each of which is planned for the sizes that are known when it begins.
 *
 * Place in the flow: run.c hands such a run over; a part is a graph of its own, whose plans are cached by sizes like
 * any other's. It is given the inputs of the whole, what the nodes before it counted, and values of earlier parts that
 * it reads; views it makes again, so that its nodes find the memory order that eager code has. Invariants: states and
 * inputs are written by the last part alone, so that a run that fails has changed nothing; all parts draw their random
 * numbers from where the run began. */
#include "segments.h"

#include <cairn/ops.h>
#include <string.h>

#include "base/limits.h"
#include "ops/apply.h"
#include "tensor/tensor.h"

typedef struct segment {
  cn_graph *part; /* owned */
  int *in, *out;  /* values of the whole: what it is given behind the whole's inputs, and what it gives */
  size_t nin, nout, in_cap, out_cap;
  int node;       /* of the whole: the one that counts, and runs behind it; -1: this is the last */
} segment;

struct cni_segments {
  segment *v;
  size_t n, cap;
  bool writes;
  pthread_mutex_t turn; /* held by a run that writes: its parts must see the same states */
};

bool cni_counts(const cn_graph *g, const cni_gnode *n)
{
  for (int k = 0; k < n->nout; k++)
    if (n->out[k] >= 0 && g->values[n->out[k]].dims[0]) return true;
  return false;
}

bool cni_has_counts(const cn_graph *g)
{
  for (size_t i = 0; g->nsizes && i < g->nnodes; i++)
    if (cni_counts(g, &g->nodes[i])) return true;
  return false;
}

void cni_segments_free(cni_segments *s)
{
  if (!s) return;
  for (size_t i = 0; i < s->n; i++) {
    cn_graph_free(s->v[i].part);
    cni_free(s->v[i].in, s->v[i].in_cap * sizeof *s->v[i].in);
    cni_free(s->v[i].out, s->v[i].out_cap * sizeof *s->v[i].out);
  }
  cni_free(s->v, s->cap * sizeof *s->v);
  pthread_mutex_destroy(&s->turn);
  cni_free(s, sizeof *s);
}

/* ---- what goes from part to part ---- */

typedef struct cutting {
  const cn_graph *g;
  cni_segments *s;
  int *at;    /* per node: its segment; a node that counts: the one that it stands behind */
  bool *read, *again; /* of one segment: per value, and per node: a view of an earlier one that it makes again */
  cni_types types;
} cutting;

/* The segment behind which a value is there; -1: from the beginning. */
static int made_at(const cutting *c, int value)
{
  const cni_gvalue *v = &c->g->values[value];
  return v->kind == CNI_VALUE_RESULT ? c->at[v->node] : -1;
}

static bool is_counted(const cutting *c, int value)
{
  const cni_gvalue *v = &c->g->values[value];
  return v->kind == CNI_VALUE_RESULT && cni_counts(c->g, &c->g->nodes[v->node]);
}

static void note_read(cutting *c, int value)
{
  if (value >= 0) c->read[value] = true;
}

static bool listed(const int *list, size_t n, int value)
{
  for (size_t i = 0; i < n; i++)
    if (list[i] == value) return true;
  return false;
}

/* Is it made in an earlier segment, as a view, and read in segment i, but not by the node behind that? */
static bool viewed_again(const cutting *c, int node, int i)
{
  const cni_gnode *n = &c->g->nodes[node], *behind = c->s->v[i].node < 0 ? NULL : &c->g->nodes[c->s->v[i].node];
  bool read = false;
  for (int k = 0; k < n->nout; k++) {
    if (c->types.v[n->out[k]].root == n->out[k] || (behind && listed(behind->in, (size_t)behind->nin, n->out[k])))
      return false;
    read |= c->read[n->out[k]];
  }
  return read && c->at[node] < i;
}

static void note_ends(cutting *c)
{
  const cn_graph *g = c->g;
  for (size_t k = 0; k < g->noutputs; k++) note_read(c, g->outputs[k]);
  for (size_t k = 0; k < g->nstates; k++) note_read(c, g->states[k].final);
  for (size_t k = 0; k < g->ninputs; k++) note_read(c, g->input_finals[k]);
  for (size_t k = 0; k < g->nleaves; k++) note_read(c, g->leaves[k].value);
}

/* What is read while segment i runs, and by the node behind it. */
static void note_reads(cutting *c, int i)
{
  const cn_graph *g = c->g;
  memset(c->read, 0, g->nvalues);
  memset(c->again, 0, g->nnodes);
  for (size_t n = 0; n < g->nnodes; n++)
    for (int k = 0; c->at[n] == i && k < g->nodes[n].nin; k++) note_read(c, g->nodes[n].in[k]);
  if (c->s->v[i].node < 0) note_ends(c);
  for (size_t n = g->nnodes; n-- > 0;) {
    if (!viewed_again(c, (int)n, i)) continue;
    c->again[n] = true;
    for (int k = 0; k < g->nodes[n].nout; k++) c->read[g->nodes[n].out[k]] = false;
    for (int k = 0; k < g->nodes[n].nin; k++) note_read(c, g->nodes[n].in[k]);
  }
}

/* Segment i is given what it reads of earlier ones, which give it, and all that was counted. The node behind a segment
 * finds what it reads among these, too. */
static int cross(cutting *c, int i)
{
  segment *to = &c->s->v[i];
  note_reads(c, i);
  for (int v = 0; v < (int)c->g->nvalues; v++) {
    int at = made_at(c, v);
    bool counted = is_counted(c, v);
    if (at < 0 || at > i || (at == i && counted) || (!c->read[v] && !(counted && c->g->values[v].dims[0]))) continue;
    segment *from = &c->s->v[at];
    bool own = at == i && !(to->node >= 0 && listed(c->g->nodes[to->node].in, (size_t)c->g->nodes[to->node].nin, v));
    if (!counted && !own && !listed(from->out, from->nout, v) &&
        cni_graph_add_list(&from->out, &from->nout, &from->out_cap, v))
      return CN_ERR_MEMORY;
    if (at < i && cni_graph_add_list(&to->in, &to->nin, &to->in_cap, v)) return CN_ERR_MEMORY;
  }
  return CN_OK;
}

static int find_segments(cutting *c)
{
  const cn_graph *g = c->g;
  cni_segments *s = c->s;
  int status = CN_OK;
  for (size_t i = 0; i <= g->nnodes; i++) {
    bool last = i == g->nnodes;
    if (!last) c->at[i] = (int)s->n;
    if (!last && !cni_counts(g, &g->nodes[i])) continue;
    if (cni_grow((void **)&s->v, &s->cap, s->n + 1, sizeof *s->v)) return CN_ERR_MEMORY;
    s->v[s->n++] = (segment){.node = last ? -1 : (int)i};
  }
  for (int i = 0; i < (int)s->n && !status; i++) status = cross(c, i);
  return status;
}

/* ---- a part as a graph ---- */

static void keep_nodes(cutting *c, cn_graph *part, int i)
{
  size_t n = 0;
  note_reads(c, i);
  for (size_t k = 0; k < c->g->nnodes; k++) {
    cni_gnode *node = &part->nodes[k];
    bool inside = c->again[k] || (c->at[k] == i && c->s->v[i].node != (int)k);
    for (int r = 0; r < node->nout; r++) {
      cni_gvalue *v = &part->values[node->out[r]];
      if (inside) v->node = (int)n;
      else if (!listed(c->s->v[i].in, c->s->v[i].nin, node->out[r]))
        *v = (cni_gvalue){.kind = CNI_VALUE_SCALAR, .dtype = CN_F64}; /* nobody reads it here */
    }
    if (inside) part->nodes[n++] = *node;
    else cni_gnode_free(node);
  }
  part->nnodes = n;
}

static int name_inputs(cn_graph *part, const segment *s)
{
  for (size_t k = 0; k < s->nin; k++) {
    cni_gvalue *v = &part->values[s->in[k]];
    v->kind = CNI_VALUE_INPUT;
    v->index = (int32_t)part->ninputs;
    v->node = 0;
    if (cni_graph_list_input(part, s->in[k])) return CN_ERR_MEMORY;
  }
  part->ninner = s->nin;
  return CN_OK;
}

/* Nothing is written before the last part. */
static int name_outputs(cn_graph *part, const segment *s)
{
  int status = CN_OK;
  part->noutputs = 0;
  for (size_t k = 0; k < s->nout && !status; k++)
    status = cni_graph_add_list(&part->outputs, &part->noutputs, &part->outputs_cap, s->out[k]);
  for (size_t k = 0; k < part->nstates; k++) part->states[k].final = -1;
  for (size_t k = 0; k < part->ninputs; k++) part->input_finals[k] = -1;
  for (; part->nleaves; part->nleaves--) {
    cni_tensor_release(part->leaves[part->nleaves - 1].tensor);
    cni_tensor_release(part->leaves[part->nleaves - 1].given);
  }
  return status;
}

static int make_part(cutting *c, int i)
{
  segment *s = &c->s->v[i];
  if (!(s->part = cn_graph_copy(c->g))) return cn_err();
  keep_nodes(c, s->part, i);
  int status = name_inputs(s->part, s);
  if (!status && s->node >= 0) status = name_outputs(s->part, s);
  int dropped = status ? status : cn_graph_remove_dead(s->part);
  return dropped < 0 ? dropped : CN_OK;
}

static bool writes(const cn_graph *g)
{
  bool any = g->nleaves > 0;
  for (size_t i = 0; i < g->nstates; i++) any |= g->states[i].final >= 0;
  for (size_t i = 0; i < g->ninputs; i++) any |= g->input_finals[i] >= 0;
  return any;
}

static cni_segments *cut(const cn_graph *g)
{
  cutting c = {.g = g, .s = cni_alloc_zero(sizeof *c.s)};
  if (!c.s) return NULL;
  pthread_mutex_init(&c.s->turn, NULL);
  c.s->writes = writes(g);
  size_t flags = g->nvalues + g->nnodes + 1;
  c.at = cni_alloc((g->nnodes + 1) * sizeof *c.at);
  c.read = c.at ? cni_alloc(flags) : NULL;
  c.again = c.read + g->nvalues;
  int status = c.read ? cni_types_fill(&c.types, g) : CN_ERR_MEMORY;
  if (!status) status = find_segments(&c);
  for (int i = 0; i < (int)c.s->n && !status; i++) status = make_part(&c, i);
  cni_types_free(&c.types);
  cni_free(c.at, (g->nnodes + 1) * sizeof *c.at);
  cni_free(c.read, flags);
  if (!status) return c.s;
  cni_segments_free(c.s);
  return NULL;
}

static cni_segments *segments_of(cn_graph *g)
{
  pthread_mutex_lock(&g->lock);
  if (!g->segments) g->segments = cut(g);
  cni_segments *s = g->segments;
  pthread_mutex_unlock(&g->lock);
  return s;
}

/* ---- a run ---- */

typedef struct going {
  const cn_graph *g;
  cn_tensor *const *inputs;
  cn_tensor **have; /* per value of the whole: owned, where it goes from part to part */
  cn_tensor **in;   /* room for a part's inputs */
  cn_tensor **out;  /* ... and outputs */
  uint64_t at[2];   /* where random numbers begin */
} going;

static int run_part(going *k, const segment *s, cn_tensor **out)
{
  memcpy(k->in, k->inputs, k->g->ninputs * sizeof *k->in);
  for (size_t i = 0; i < s->nin; i++) k->in[k->g->ninputs + i] = k->have[s->in[i]];
  return cni_graph_run_at(out, s->part, k->in, k->at);
}

/* A tensor that the node which counts reads. */
static cn_tensor *read_by_node(const going *k, int value)
{
  const cni_gvalue *v = &k->g->values[value];
  if (k->have[value]) return k->have[value];
  if (v->kind == CNI_VALUE_INPUT) return k->inputs[v->index];
  if (v->kind == CNI_VALUE_STATE) return k->g->states[v->index].tensor;
  return v->kind == CNI_VALUE_CONST ? v->tensor : cni_scope_add(cni_number_tensor(v));
}

/* The node that counts: as where the program itself runs, its kernel makes a result of the size that it finds. */
static int run_count(going *k, const cni_gnode *n)
{
  cn_state *st = cni_state();
  cn_tensor *in[CNI_FEW_INPUTS], *out[CNI_MAX_RESULTS] = {NULL};
  cn_value args[CN_MAX_ARGS];
  bool no_grad = st->no_grad;
  uint32_t modes = st->modes;
  int nout = n->nout;
  if (n->nin > CNI_FEW_INPUTS) return cni_fail(CN_ERR_UNSUPPORTED, "graph: %s has too many inputs", n->info->name);
  memset(args, 0, sizeof args);
  memcpy(args, n->args, (size_t)n->nargs * sizeof *args);
  for (int i = 0; i < n->nin; i++) in[i] = n->in[i] < 0 ? NULL : read_by_node(k, n->in[i]);
  cni_fill_slots(n->info, args, in);
  st->no_grad = true;
  st->modes = 0;
  int status = cn_err() ? cn_err() : cni_apply(n->info, args, n->nargs, NULL, out, &nout);
  st->no_grad = no_grad;
  st->modes = modes;
  for (int i = 0; i < n->nout; i++) k->have[n->out[i]] = out[i];
  return status;
}

/* The run has taken all the numbers that its parts drew, which the sizes of the last one tell. */
static int move_random(const going *k, const segment *last)
{
  const cn_graph *g = last->part;
  uint64_t seed, base, total = 0;
  int64_t *sizes = g->ndraws ? cni_size_values(g, k->in) : NULL;
  int status = g->ndraws && !sizes ? cn_err() : CN_OK;
  for (size_t i = 0; i < g->ndraws && !status; i++) {
    int64_t count = g->draws[i].count;
    if (g->draws[i].expr) status = cni_size_number(g, sizes, g->draws[i].expr, "a random draw", &count, NULL);
    total += (uint64_t)count;
  }
  cni_free(sizes, g->exprs.n * sizeof *sizes);
  if (!status && total) cni_random_take(&seed, &base, total);
  return status;
}

/* Every part but the last, and the node behind it. */
static int run_segment(going *k, const segment *s)
{
  size_t depth = cni_scope_push();
  int status = run_part(k, s, k->out);
  for (size_t i = 0; i < s->nout && !status; i++) k->have[s->out[i]] = cni_tensor_keep(k->out[i]);
  if (!status) status = cni_limits_hold(k->g->nodes[s->node].info->name);
  if (!status) status = run_count(k, &k->g->nodes[s->node]);
  cni_scope_pop(depth);
  return status;
}

static int run_all(going *k, cni_segments *s, cn_tensor **outputs, const uint64_t *at)
{
  const segment *last = &s->v[s->n - 1];
  int status = CN_OK;
  if (at) memcpy(k->at, at, sizeof k->at);
  else cn_random_state(&k->at[0], &k->at[1]);
  for (size_t i = 0; i + 1 < s->n && !status; i++) status = run_segment(k, &s->v[i]);
  if (!status) status = run_part(k, last, outputs);
  return status || at ? status : move_random(k, last);
}

int cni_segments_run(cn_tensor **outputs, cn_graph *g, cn_tensor *const *inputs, const uint64_t *at)
{
  cni_segments *s = segments_of(g);
  size_t n = 3 * g->nvalues + g->ninputs + 1;
  going k = {.g = g, .inputs = inputs, .have = s ? cni_alloc_zero(n * sizeof *k.have) : NULL};
  if (!k.have) return cn_err() ? cn_err() : CN_ERR_MEMORY;
  k.in = k.have + g->nvalues;
  k.out = k.in + g->nvalues + g->ninputs;
  int status = s->writes ? cni_limits_lock(&s->turn, "graph") : CN_OK;
  if (!status) {
    status = run_all(&k, s, outputs, at);
    if (s->writes) pthread_mutex_unlock(&s->turn);
  }
  for (size_t i = 0; i < g->nvalues; i++) cni_tensor_release(k.have[i]);
  cni_free(k.have, n * sizeof *k.have);
  return status;
}
