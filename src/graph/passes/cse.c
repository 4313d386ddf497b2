/* cse.c: what is computed twice is computed once: nodes with the same op, arguments, inputs, draw and device.
 *
 * Place in the flow: a pass of optimise.c, behind fold.c, which makes equal constants; dead.c drops what nobody reads
 * any more. Invariant: different draws stay different, nodes with effects stay, and what a checkpoint computes again
 * stays: it is computed again so that nobody keeps it. */
#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "graph/control.h"
#include "graph/passes/passes.h"
#include "graph/rewrite.h"
#include "tensor/tensor.h"

/* ---- numbers and constants ---- */

static bool same_leaf(const cn_graph *g, int a, int b)
{
  const cni_gvalue *x = &g->values[a], *y = &g->values[b];
  if (x->kind != y->kind || x->dtype != y->dtype || x->device != y->device) return false;
  if (x->kind == CNI_VALUE_SCALAR)
    return x->weak == y->weak && x->integer == y->integer && !memcmp(&x->number, &y->number, sizeof x->number);
  if (x->kind != CNI_VALUE_CONST || x->device != CN_CPU) return false;
  return cni_same_shape(x->ndim, x->shape, y->ndim, y->shape) &&
         !memcmp(x->tensor->d.data, y->tensor->d.data, cni_dtype_bytes(x->dtype, x->tensor->d.numel));
}

/* ---- hashing ---- */

static uint64_t mix(uint64_t h, uint64_t x) { return (h ^ x) * 0x9e3779b97f4a7c15u ^ (h >> 29); }

static uint64_t hash_bytes(uint64_t h, const void *data, size_t n)
{
  const unsigned char *p = data;
  for (size_t i = 0; i < n; i++) h = mix(h, p[i]);
  return h;
}

static uint64_t hash_arg(uint64_t h, const cn_value *v)
{
  h = mix(h, (uint64_t)v->tag);
  if (v->tag == CN_V_STR) return hash_bytes(h, v->u.s, strlen(v->u.s));
  if (v->tag == CN_V_INTS) return hash_bytes(h, v->u.is, (size_t)v->n * sizeof *v->u.is);
  if (v->tag == CN_V_FLOATS) return hash_bytes(h, v->u.fs, (size_t)v->n * sizeof *v->u.fs);
  return v->tag == CN_V_INT || v->tag == CN_V_BOOL || v->tag == CN_V_FLOAT ? mix(h, (uint64_t)v->u.i) : h;
}

static uint64_t hash_leaf(const cn_graph *g, int value)
{
  const cni_gvalue *v = &g->values[value];
  uint64_t h = mix((uint64_t)v->kind, (uint64_t)v->dtype);
  if (v->kind == CNI_VALUE_CONST)
    return v->device == CN_CPU ? hash_bytes(h, v->tensor->d.data, cni_dtype_bytes(v->dtype, v->tensor->d.numel)) : h;
  return hash_bytes(mix(h, (uint64_t)v->integer), &v->number, sizeof v->number);
}

static uint64_t hash_node(const cn_graph *g, int node)
{
  const cni_gnode *n = &g->nodes[node];
  uint64_t h = mix((uint64_t)n->info->id, (uint64_t)(uint32_t)n->draw);
  for (int k = 0; k < n->nin; k++) h = mix(h, (uint64_t)(uint32_t)n->in[k]);
  for (int i = 0; i < n->nargs; i++) h = hash_arg(h, &n->args[i]);
  return h;
}

/* ---- nodes ---- */

/* The part that a checkpoint computes again, of which the node is; -1: none. */
static int recomputed(const cn_graph *g, int scope)
{
  int found = -1;
  for (; scope >= 0; scope = g->scopes[scope].parent)
    if (g->scopes[scope].kind && !strcmp(g->scopes[scope].kind, "recompute")) found = scope;
  return found;
}

static bool same_node(const cn_graph *g, int a, int b)
{
  const cni_gnode *x = &g->nodes[a], *y = &g->nodes[b];
  if (x->info != y->info || x->draw != y->draw || x->nin != y->nin || x->nout != y->nout) return false;
  if (memcmp(x->in, y->in, (size_t)x->nin * sizeof *x->in)) return false;
  const cni_gvalue *v = &g->values[x->out[0]], *w = &g->values[y->out[0]];
  if (v->device != w->device || v->dims[0] != w->dims[0]) return false; /* two sizes that depend on data stay two */
  for (int i = 0; i < x->nargs; i++)
    if (x->args[i].tag != y->args[i].tag || !cni_same_value(&x->args[i], &y->args[i])) return false;
  return recomputed(g, x->scope) == recomputed(g, y->scope) && cni_subs_same(x, y);
}

/* A row of chains: the newest item of each hash, and of each item the one before. */
typedef struct chains {
  int *head, *before;
  size_t nheads, nitems;
  bool (*same)(const cn_graph *g, int a, int b);
} chains;

static int chains_new(chains *c, size_t nitems, bool (*same)(const cn_graph *, int, int))
{
  *c = (chains){.nheads = 64, .nitems = nitems + 1, .same = same};
  while (c->nheads < nitems) c->nheads *= 2;
  c->head = cni_alloc(c->nheads * sizeof *c->head);
  c->before = c->head ? cni_alloc(c->nitems * sizeof *c->before) : NULL;
  for (size_t i = 0; c->before && i < c->nheads; i++) c->head[i] = -1;
  return c->before ? CN_OK : CN_ERR_MEMORY;
}

static void chains_free(chains *c)
{
  cni_free(c->head, c->nheads * sizeof *c->head);
  cni_free(c->before, c->nitems * sizeof *c->before);
}

/* An earlier item that is the same; -1: there is none, and this one is remembered. */
static int find_or_add(chains *c, const cn_graph *g, int item, uint64_t hash)
{
  int *head = &c->head[(hash ^ hash >> 32) & (c->nheads - 1)];
  for (int i = *head; i >= 0; i = c->before[i])
    if (c->same(g, i, item)) return i;
  c->before[item] = *head;
  *head = item;
  return -1;
}

static int merge_leaves(cn_graph *g)
{
  chains c;
  int status = chains_new(&c, g->nvalues, same_leaf);
  for (size_t i = 0; i < g->nvalues && !status; i++) {
    enum cni_value_kind kind = g->values[i].kind;
    if ((kind != CNI_VALUE_SCALAR && kind != CNI_VALUE_CONST) || g->values[i].expr) continue;
    int first = find_or_add(&c, g, (int)i, hash_leaf(g, (int)i));
    int done = first < 0 ? 0 : cn_graph_replace(g, (int)i, first);
    if (done < 0) status = done;
  }
  chains_free(&c);
  return status;
}

static int merge_node(cn_graph *g, int node, int first)
{
  int done = 0;
  for (int k = 0; k < g->nodes[node].nout && done >= 0; k++) {
    int users = cn_graph_replace(g, g->nodes[node].out[k], g->nodes[first].out[k]);
    done = users < 0 ? users : done + (users > 0);
  }
  return done < 0 ? done : done > 0;
}

int cni_pass_cse(cn_graph *g)
{
  chains c;
  int count = 0, status = cni_types_fill(&g->types, g);
  if (!status) status = merge_leaves(g);
  if (status) return status;
  status = chains_new(&c, g->nnodes, same_node);
  for (size_t i = 0; i < g->nnodes && !status; i++) {
    if (cni_node_flags(&g->nodes[i]) & (CN_OP_CHECKS | CN_OP_EFFECTS) || g->nodes[i].syms.n) continue;
    int first = find_or_add(&c, g, (int)i, hash_node(g, (int)i));
    int done = first < 0 ? 0 : merge_node(g, (int)i, first);
    if (done < 0) status = done;
    else count += done;
  }
  chains_free(&c);
  return status ? status : count;
}
