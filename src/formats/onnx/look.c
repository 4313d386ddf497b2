/* look.c: cairn/onnx.h: what a model says of itself: where it comes from, its opsets, weights and nodes.
 *
 * Place in the flow: behind check.c; commands and bindings ask. Invariant: the list of nodes is made when the model is
 * loaded, and never changes. */
#include <string.h>

#include "run.h"

/* A node, and how many graphs it stands in. */
typedef struct cni_onnx_place {
  const cni_onnx_node *node;
  int depth;
} cni_onnx_place;

static size_t count_nodes(const cni_onnx_graph *g)
{
  size_t n = g->nnodes;
  for (size_t i = 0; i < g->nnodes; i++)
    for (size_t k = 0; k < g->nodes[i].nattrs; k++)
      if (g->nodes[i].attrs[k].g) n += count_nodes(g->nodes[i].attrs[k].g);
  return n;
}

static void list_graph(cn_onnx *o, const cni_onnx_graph *g, int depth)
{
  for (size_t i = 0; i < g->nnodes; i++) {
    const cni_onnx_node *n = &g->nodes[i];
    o->nodes[o->nnodes++] = (cni_onnx_place){n, depth};
    for (size_t k = 0; k < n->nattrs; k++)
      if (n->attrs[k].g) list_graph(o, n->attrs[k].g, depth + 1);
  }
}

int cni_onnx_list_nodes(cn_onnx *o)
{
  cni_onnx_model *m = o->model;
  size_t n = count_nodes(&m->graph);
  for (size_t i = 0; i < m->nfunctions; i++) n += count_nodes(&m->functions[i].body);
  if (!(o->nodes = cni_arena_take(&m->arena, n + 1, sizeof *o->nodes))) return cn_err();
  list_graph(o, &m->graph, 0);
  for (size_t i = 0; i < m->nfunctions; i++) list_graph(o, &m->functions[i].body, 1);
  return CN_OK;
}

size_t cn_onnx_nodes(const cn_onnx *o) { return o->nnodes; }

int cn_onnx_node_at(cn_onnx_node *node, const cn_onnx *o, size_t i)
{
  if (i >= o->nnodes) return cn_err_set(CN_ERR_INDEX, "onnx: there is no node %zu", i);
  const cni_onnx_node *n = o->nodes[i].node;
  *node = (cn_onnx_node){.name = *n->name || !n->noutputs ? n->name : n->output_names[0],
                         .op = n->op,
                         .domain = n->domain,
                         .opset = n->opset,
                         .depth = o->nodes[i].depth,
                         .how = n->row ? n->row->text : NULL,
                         .function = n->function != NULL,
                         .problem = n->problem};
  return CN_OK;
}

/* ---- the model ---- */

static const char *said(const char *text) { return text ? text : ""; }

void cn_onnx_origin_of(cn_onnx_origin *origin, const cn_onnx *o)
{
  const cni_onnx_model *m = o->model;
  *origin = (cn_onnx_origin){.producer = said(m->producer),
                             .producer_version = said(m->producer_version),
                             .domain = said(m->domain),
                             .graph = said(m->graph.name),
                             .doc = said(m->doc),
                             .version = m->version,
                             .ir = m->ir};
}

const char *cn_onnx_opset_at(const cn_onnx *o, size_t i, int64_t *version)
{
  if (i >= o->model->nopsets) return NULL;
  *version = o->model->opsets[i].version;
  return o->model->opsets[i].domain;
}

int64_t cn_onnx_opset(const cn_onnx *o, const char *domain)
{
  const char *wanted = !strcmp(domain, "ai.onnx") ? "" : domain;
  for (size_t i = 0; i < o->model->nopsets; i++)
    if (!strcmp(o->model->opsets[i].domain, wanted)) return o->model->opsets[i].version;
  return 0;
}

const char *cn_onnx_metadata(const cn_onnx *o, const char *key)
{
  for (size_t i = 0; i < o->model->nmetadata; i++)
    if (!strcmp(o->model->metadata[2 * i], key)) return o->model->metadata[2 * i + 1];
  return NULL;
}

const char *cn_onnx_metadata_at(const cn_onnx *o, size_t i, const char **value)
{
  if (i >= o->model->nmetadata) return NULL;
  *value = o->model->metadata[2 * i + 1];
  return o->model->metadata[2 * i];
}

size_t cn_onnx_initials(const cn_onnx *o) { return o->model->graph.ninitials; }

int cn_onnx_initial_at(cn_onnx_info *info, const cn_onnx *o, size_t i)
{
  const cni_onnx_graph *g = &o->model->graph;
  if (i >= g->ninitials) return cn_err_set(CN_ERR_INDEX, "onnx: there is no initialiser %zu", i);
  const cni_onnx_tensor *t = &g->initials[i];
  *info = (cn_onnx_info){.name = t->name,
                         .kind = t->type == CNI_ONNX_STRING ? CN_ONNX_STRINGS : CN_ONNX_TENSOR,
                         .dtype = cni_onnx_dtype(t->type),
                         .ndim = (int)t->ndims};
  for (int d = 0; d < info->ndim && d < CN_MAX_DIMS; d++) info->shape[d] = t->dims[d];
  return CN_OK;
}
