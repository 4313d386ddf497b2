/* count.c: results whose size depends on data, while a graph is captured: the size becomes one of the graph's, which
 * the node defines when it has run.
 *
 * Place in the flow: capture.c asks for such calls; the prober (probe.c) chooses what the sizes are taken for, so that
 * numbers which follow from them are found like those of the inputs' sizes. Of an op without a decomposition dim 0 is
 * the one that depends on data; others are captured as what they are made of, which is nonzero in the end. Invariant:
 * the same op on the same values has the same size. */
#include <string.h>

#include "capture.h"
#include "rewrite.h"
#include "tensor/tensor.h"

enum { HINT = 7, DEEP = 16 };

bool cni_has_unknown(const cn_call *c)
{
  for (int i = 0; i < c->nout; i++)
    if (c->spec[i].data_dependent) return true;
  return false;
}

/* The value that an expand to the same shape, or contiguous, shows again. */
static int seen_through(const cn_graph *g, int value)
{
  while (value >= 0 && g->values[value].kind == CNI_VALUE_RESULT) {
    const cni_gnode *n = &g->nodes[g->values[value].node];
    if (strcmp(n->info->name, "expand") && strcmp(n->info->name, "contiguous")) break;
    const cni_gvalue *v = &g->values[value], *of = &g->values[n->in[0]];
    if (!cni_same_shape(v->ndim, v->shape, of->ndim, of->shape)) break;
    value = n->in[0];
  }
  return value;
}

/* Are these the same value, computed twice? */
static bool same_value(const cn_graph *g, int a, int b, int depth)
{
  a = seen_through(g, a);
  b = seen_through(g, b);
  const cni_gvalue *x = a < 0 ? NULL : &g->values[a], *y = b < 0 ? NULL : &g->values[b];
  if (a == b) return true;
  if (!x || !y || x->kind != y->kind || x->index != y->index) return false;
  if (x->kind == CNI_VALUE_SCALAR)
    return x->dtype == y->dtype && x->integer == y->integer && !memcmp(&x->number, &y->number, sizeof x->number);
  if (x->kind != CNI_VALUE_RESULT || !depth) return false;
  const cni_gnode *m = &g->nodes[x->node], *n = &g->nodes[y->node];
  bool same = m->info == n->info && m->nin == n->nin && m->draw < 0 && n->draw < 0;
  for (int i = 0; same && i < m->nargs; i++)
    same = m->args[i].tag == n->args[i].tag && cni_same_value(&m->args[i], &n->args[i]);
  for (int k = 0; same && k < m->nin; k++) same = same_value(g, m->in[k], n->in[k], depth - 1);
  return same;
}

/* The count of an earlier call of the same op on the same values, from 0 on; -1: there is none. */
static int counted_before(const cn_graph *g, const cni_opinfo *info, const int *in, int nin)
{
  for (size_t i = 0; i < g->nnodes; i++) {
    const cni_gnode *n = &g->nodes[i];
    bool same = n->info == info && n->nin == nin && g->values[n->out[0]].count;
    for (int k = 0; same && k < nin; k++) same = same_value(g, n->in[k], in[k], DEEP);
    if (same) return g->values[n->out[0]].count - 1;
  }
  return -1;
}

/* The op as what it is made of: autograd, above, has recorded it as a whole. */
static int decomposed(cni_applying *a)
{
  cn_state *st = cni_state();
  bool no_grad = st->no_grad;
  size_t depth = cni_scope_push();
  st->no_grad = true;
  int status = a->info->row->decompose(&a->c);
  st->no_grad = no_grad;
  if (!status) status = cn_err();
  for (int i = 0; i < a->c.nout; i++)
    a->c.out[i] = !status && a->c.out[i] ? cni_scope_take_inside(depth, a->c.out[i]) : NULL;
  cni_scope_pop(depth);
  return status;
}

bool cni_capture_shortcut(bool could)
{
  const cni_capture *cap = cni_state()->capture;
  cni_shortcuts *s = cap && cap->counted ? cap->counted->shortcuts : NULL;
  if (!s) return false;
  if (s->fixed) {
    if (s->met >= s->n || s->all[s->met++] != CNI_SHORTCUT_TAKEN) return false;
    if (!could) s->all[s->met - 1] = CNI_SHORTCUT_REFUSED;
    s->refused = s->refused || !could;
    return could;
  }
  void *list = s->all;
  if (cni_grow(&list, &s->cap, s->n + 1, sizeof *s->all)) return false; /* the trace is the same without */
  s->all = list;
  if (s->n >= s->known || s->all[s->n] != CNI_SHORTCUT_REFUSED) s->all[s->n] = could;
  return s->all[s->n++] == CNI_SHORTCUT_TAKEN;
}

int cni_count_begin(cni_capture *cap, cni_applying *a, int *count)
{
  cn_call *c = &a->c;
  int in[CN_MAX_ARGS];
  if (!cap->counted)
    return cni_fail(CN_ERR_CAPTURE, "%s: the size of its result depends on data, which the graph of a branch or loop "
                                    "cannot hold", a->info->name);
  if (a->dest) return cni_fail(CN_ERR_CAPTURE, "%s: it cannot be written in place while it is captured", a->info->name);
  if (a->info->row->decompose) return decomposed(a);
  if (c->nin > CN_MAX_ARGS) return cni_fail(CN_ERR_CAPTURE, "%s: it has too many inputs to be captured", a->info->name);
  for (int i = 0; i < c->nin; i++)
    if ((in[i] = c->in[i] ? cni_capture_value(cap, c->in[i]) : -1) < 0 && c->in[i]) return cn_err();
  *count = counted_before(cap->g, a->info, in, c->nin);
  if (*count < 0) *count = (int)cap->counted->met++;
  int64_t size = (size_t)*count < cap->counted->n ? cap->counted->v[*count] : HINT + *count;
  for (int i = 0; i < c->nout; i++)
    if (c->spec[i].data_dependent) c->spec[i].shape[0] = size;
  return CN_OK;
}

void cni_count_end(cni_capture *cap, const cn_call *c, int node, int count)
{
  for (int i = 0; i < c->nout; i++)
    if (c->spec[i].data_dependent) cap->g->values[cap->g->nodes[node].out[i]].count = count + 1;
}
