/* weights.c: what follows from weights alone in host memory (a batch norm folded into a convolution) is computed when
 * those change, not in every run.
 *
 * Place in the flow: the last pass of cn_graph_join. The nodes become a graph of their own, what others read of them
 * states of the graph, of which only it knows, so that kernels keep what they make of them (ops/prepared.c). run.c has
 * them made anew before a run that finds one of the weights written to, or another in its place. On devices nodes stay
 * where they are, see steady.c. Invariant: when the first node of a run begins, such a state is what its nodes give, to
 * the bit. Of weights whose address somebody has nobody knows when they change: there it is computed in every run. */
#include <string.h>

#include "base/dtype.h"
#include "graph/control.h"
#include "graph/extract.h"
#include "graph/passes/passes.h"
#include "graph/plan.h"
#include "graph/segments.h"
#include "join.h"
#include "ops/apply.h"
#include "tensor/tensor.h"

/* One weight, as it was when something was made of it. */
typedef struct source {
  size_t state;         /* which of the graph's */
  cni_storage *storage; /* owned; NULL: nothing was made yet */
  uint64_t version;
} source;

struct cni_weights {
  cn_graph *maker; /* owned: from the weights, its states, to its outputs */
  source *from;    /* per state of the maker */
  size_t nfrom;
  size_t *to;      /* per output of the maker: which of the graph's states it is */
  size_t nto;
  pthread_mutex_t lock;
};

void cni_weights_free(struct cni_weights *w)
{
  if (!w) return;
  for (size_t i = 0; w->from && i < w->nfrom; i++) cni_storage_release(w->from[i].storage);
  cni_free(w->from, w->nfrom * sizeof *w->from);
  cni_free(w->to, w->nto * sizeof *w->to);
  cn_graph_free(w->maker);
  pthread_mutex_destroy(&w->lock);
  cni_free(w, sizeof *w);
}

/* Takes the maker over, also where it fails. */
static struct cni_weights *new_weights(cn_graph *maker, size_t nto)
{
  struct cni_weights *w = cni_alloc_zero(sizeof *w);
  if (!w) {
    cn_graph_free(maker);
    return NULL;
  }
  pthread_mutex_init(&w->lock, NULL);
  w->maker = maker;
  w->nfrom = maker->nstates;
  w->nto = nto;
  w->from = cni_alloc_zero(w->nfrom * sizeof *w->from);
  w->to = cni_alloc_zero(nto * sizeof *w->to);
  if (w->from && w->to) return w;
  cni_weights_free(w);
  return NULL;
}

/* ---- the pass ---- */

/* Which nodes go, and whom they leave behind. */
typedef struct cutting {
  cn_graph *g;
  bool *apart;   /* per node: it follows from weights alone */
  bool *outside; /* per node: it stays */
  int64_t *size; /* per node: bytes of the largest weight behind it */
  int *out;      /* values that nodes outside read */
  size_t nout;
} cutting;

static bool is_view(const cni_gnode *n) { return n->info->row->flags & CN_OP_VIEW; }

static int64_t bytes_of(const cn_graph *g, int value)
{
  const cn_desc *d = &g->types.v[value].handle->d;
  return (int64_t)cni_dtype_bytes(d->dtype, d->numel);
}

/* Is what it gives for other nodes alone, and the same in each run that reads the same? */
static bool is_plain(cn_graph *g, const cni_gnode *n)
{
  const cn_graph_use *use;
  if (n->nsubs || n->host || n->draw >= 0 || n->syms.n || cni_node_flags(n) & (CN_OP_CHECKS | CN_OP_EFFECTS))
    return false;
  for (int k = 0; k < n->nout; k++) {
    const cni_gvalue *v = &g->values[n->out[k]];
    if (v->device != CN_CPU || g->types.v[n->out[k]].varies) return false;
    for (int u = 0, users = cn_graph_users(&use, g, n->out[k]); u < users; u++)
      if (use[u].kind != CN_USE_NODE) return false;
  }
  return true;
}

/* Does it read weights, or what follows from them, and numbers? *size: as above. */
static bool reads_weights(const cutting *c, const cni_gnode *n, int64_t *size)
{
  const cn_graph *g = c->g;
  *size = 0;
  for (int k = 0; k < n->nin; k++) {
    const cni_gvalue *v = n->in[k] < 0 ? NULL : &g->values[n->in[k]];
    if (!v || v->kind == CNI_VALUE_CONST || (v->kind == CNI_VALUE_SCALAR && !v->expr)) continue;
    const cni_gstate *s = v->kind == CNI_VALUE_STATE ? &g->states[v->index] : NULL;
    bool weight = s && s->tensor && s->final < 0 && !s->carried && v->device == CN_CPU;
    if (!weight && !(v->kind == CNI_VALUE_RESULT && c->apart[v->node])) return false;
    int64_t bytes = weight ? bytes_of(g, n->in[k]) : c->size[v->node];
    if (bytes > *size) *size = bytes;
  }
  return *size > 0;
}

static void find_apart(cutting *c)
{
  enum { MORE = 4, SOME = 1 << 16 }; /* what is far larger than its weight is not worth keeping */
  for (size_t i = 0; i < c->g->nnodes; i++) { /* makers stand before readers */
    const cni_gnode *n = &c->g->nodes[i];
    c->apart[i] = is_plain(c->g, n) && reads_weights(c, n, &c->size[i]);
    for (int k = 0; k < n->nout && c->apart[i] && !is_view(n); k++)
      c->apart[i] = bytes_of(c->g, n->out[k]) <= MORE * c->size[i] + SOME;
  }
}

static bool read_outside(const cutting *c, int value)
{
  const cn_graph_use *use;
  int users = cn_graph_users(&use, c->g, value);
  for (int u = 0; u < users; u++)
    if (c->outside[use[u].index]) return true;
  return false;
}

/* Views of what is kept are made in each run, as they take no time. */
static void find_outputs(cutting *c)
{
  for (size_t i = c->g->nnodes; i-- > 0;) {
    const cni_gnode *n = &c->g->nodes[i];
    c->outside[i] = !c->apart[i];
    for (int k = 0; c->apart[i] && k < n->nout; k++) {
      if (!read_outside(c, n->out[k])) continue;
      if (is_view(n)) c->outside[i] = true;
      else c->out[c->nout++] = n->out[k];
    }
  }
}

/* A state of the graph's own in the place of a value: its number; negative on failure. */
static int add_state(cn_graph *g, int value)
{
  const cn_desc d = g->types.v[value].handle->d;
  cn_tensor *t = cni_tensor_new(d.device, d.dtype, d.ndim, d.shape, d.strides);
  int state = t ? cn_graph_add_state(g, t) : CN_ERR_MEMORY;
  cni_tensor_release(t);
  if (state < 0) return state;
  cni_gvalue *v = &g->values[state];
  v->has_strides = !cni_is_contiguous(d.ndim, d.shape, d.strides);
  memcpy(v->strides, d.strides, (size_t)d.ndim * sizeof *v->strides);
  int status = cn_graph_replace(g, value, state);
  return status < 0 ? status : (int)g->nstates - 1;
}

/* Which of the graph's states each of the maker's is. */
static int find_sources(struct cni_weights *w, const cn_graph *g)
{
  for (size_t i = 0; i < w->nfrom; i++) {
    size_t k = 0;
    while (k < g->nstates && g->states[k].tensor != w->maker->states[i].tensor) k++;
    if (k == g->nstates) return cni_fail(CN_ERR_INTERNAL, "graph: a weight is none of the graph's");
    w->from[i].state = k;
  }
  return CN_OK;
}

static int cut_apart(cutting *c)
{
  cn_graph *g = c->g;
  find_apart(c);
  find_outputs(c);
  if (!c->nout) return 0;
  cn_graph *maker = cni_graph_extract(g, &(cni_part){.nodes = c->apart, .outputs = c->out, .noutputs = c->nout});
  if (!maker) return cn_err();
  struct cni_weights *w = new_weights(maker, c->nout);
  if (!w) return CN_ERR_MEMORY;
  int status = cni_pass_dead(maker) < 0 ? cn_err() : find_sources(w, g);
  for (size_t i = 0; i < c->nout && !status; i++) {
    int state = add_state(g, c->out[i]);
    if (state < 0) status = state;
    else w->to[i] = (size_t)state;
    if (!status) status = cni_types_fill(&g->types, g);
  }
  if (status) {
    cni_weights_free(w);
    return status;
  }
  g->weights = w;
  return cni_pass_dead(g) < 0 ? cn_err() : (int)c->nout;
}

int cni_weights_apart(cn_graph *g)
{
  if (g->weights || !g->nstates || cni_has_counts(g)) return 0; /* parts of a graph have no states of their own */
  int status = cni_types_fill(&g->types, g);
  if (status) return status;
  const size_t n = g->nnodes + 1, bytes = n * (2 * sizeof(bool) + sizeof(int64_t)), values = g->nvalues * sizeof(int);
  cutting c = {.g = g, .size = cni_alloc_zero(bytes), .out = cni_alloc(values)};
  c.apart = (bool *)(c.size + n);
  c.outside = c.apart + n;
  status = c.size && c.out ? cut_apart(&c) : CN_ERR_MEMORY;
  cni_free(c.size, bytes);
  cni_free(c.out, values);
  return status;
}

/* ---- copies ---- */

int cni_weights_copy(cn_graph *to, const cn_graph *g)
{
  const struct cni_weights *from = g->weights;
  cn_graph *maker = from ? cn_graph_copy(from->maker) : NULL;
  if (!maker) return from ? cn_err() : CN_OK;
  struct cni_weights *w = to->weights = new_weights(maker, from->nto);
  if (!w) return CN_ERR_MEMORY;
  for (size_t i = 0; i < w->nfrom; i++) w->from[i].state = from->from[i].state;
  for (size_t i = 0; i < w->nto; i++) {
    cni_gstate *s = &to->states[w->to[i] = from->to[i]];
    const cn_desc *d = &s->tensor->d;
    cn_tensor *own = cni_tensor_new(d->device, d->dtype, d->ndim, d->shape, d->strides);
    if (!own) return CN_ERR_MEMORY;
    cni_tensor_release(s->tensor);
    s->tensor = own;
  }
  return CN_OK;
}

/* ---- at a run ---- */

/* What a weight is now; 0: nobody knows, since somebody outside may write it unseen. */
static uint64_t version_of(const cni_storage *s)
{
  if (atomic_load_explicit(&s->shown, memory_order_relaxed)) return 0;
  return cni_storage_writes(s) + 1;
}

static bool is_fresh(const struct cni_weights *w, const cn_graph *g)
{
  for (size_t i = 0; i < w->nfrom; i++) {
    const cni_storage *s = g->states[w->from[i].state].tensor->storage;
    uint64_t now = version_of(s);
    if (!now || w->from[i].storage != s || w->from[i].version != now) return false;
  }
  return true;
}

/* Others may be reading what is there: it is written where it has changed alone. */
static int put(cn_tensor *to, const cn_tensor *made)
{
  const size_t bytes = cni_dtype_bytes(to->d.dtype, to->d.numel);
  bool alike = cni_same_layout(&to->d, &made->d) && cni_is_dense(to->d.ndim, to->d.shape, to->d.strides);
  if (alike && !memcmp(to->d.data, made->d.data, bytes)) return CN_OK;
  return cni_copy_elements(to, (cn_tensor *)(uintptr_t)made);
}

static int make_anew(struct cni_weights *w, const cn_graph *g)
{
  const size_t depth = cni_scope_push(), bytes = w->nto * sizeof(cn_tensor *);
  cn_tensor **made = cni_alloc(bytes);
  int status = made ? CN_OK : CN_ERR_MEMORY;
  for (size_t i = 0; i < w->nfrom && !status; i++) {
    source *s = &w->from[i];
    cn_tensor *t = g->states[s->state].tensor;
    cni_storage *before = s->storage;
    s->version = version_of(t->storage); /* as of before it is read */
    s->storage = cni_storage_keep(t->storage);
    cni_storage_release(before);
    if (w->maker->states[i].tensor != t) status = cn_graph_bind(w->maker, i, t);
  }
  if (!status) status = cn_graph_run(made, w->maker, NULL);
  for (size_t i = 0; i < w->nto && !status; i++) status = put(g->states[w->to[i]].tensor, made[i]);
  for (size_t i = 0; i < w->nfrom && status; i++) w->from[i].version = 0;
  cni_free(made, bytes);
  cni_scope_pop(depth);
  return status;
}

int cni_weights_refresh(const cn_graph *g)
{
  struct cni_weights *w = g->weights;
  if (!w) return CN_OK;
  pthread_mutex_lock(&w->lock);
  int status = is_fresh(w, g) ? CN_OK : make_anew(w, g);
  pthread_mutex_unlock(&w->lock);
  return status;
}
