/* weights.c: which of a model's tensors are weights: what training changes or moves. Files do not say it, so it follows
 * from who reads them. See model.h.
 *
 * Initialisers and Constant nodes of the model's graph hold weights, and settings: sizes, limits, scales of a picture.
 * A floating tensor that some node reads as a setting is none of the weights, nor is a number of no dimensions, nor one
 * alone that scales (as exporters write x * 0.5). Running means and variances are kept beside the weights.
 *
 * Place in the flow: behind check.c, once. Invariant: paths differ from one another where names do. */
#include <string.h>

#include "call.h"

enum { SETTING = 1, STATISTIC = 2, SCALE = 4, TRAINED = 8 };

/* Inputs that are no weights, as sets of bits: settings, statistics. Other operators have none. */
static const struct {
  const char *op;
  uint32_t settings, statistics;
} others[] = {
    {"BatchNormalization", 0, 3 << 3},
    {"Clip", 6, 0},
    {"DequantizeLinear", 6, 0},
    {"Dropout", 6, 0},
    {"DynamicQuantizeLinear", 1, 0},
    {"Equal", 3, 0},
    {"Greater", 3, 0},
    {"GreaterOrEqual", 3, 0},
    {"Less", 3, 0},
    {"LessOrEqual", 3, 0},
    {"NonMaxSuppression", 31, 0},
    {"OneHot", 7, 0},
    {"Pad", 4, 0},
    {"QLinearConv", 0xff, 0},
    {"QLinearMatMul", 0xff, 0},
    {"QuantizeLinear", 6, 0},
    {"Range", 7, 0},
    {"Resize", 6, 0},
    {"RoiAlign", 6, 0},
    {"STFT", 4, 0}, /* a window */
    {"Upsample", 2, 0},
};

/* What node n takes its input i for. */
static unsigned use_of(const cni_onnx_node *n, size_t i)
{
  static const char *const scales[] = {"Div", "Max", "Min", "Mul", "Pow", "Sub", "Where"};
  uint32_t bit = i < 32 ? (uint32_t)1 << i : 0;
  for (size_t k = 0; k < sizeof scales / sizeof *scales; k++)
    if (!strcmp(n->op, scales[k])) return SCALE;
  for (size_t k = 0; k < sizeof others / sizeof *others; k++)
    if (!strcmp(n->op, others[k].op))
      return others[k].settings & bit ? SETTING : others[k].statistics & bit ? STATISTIC : TRAINED;
  return TRAINED;
}

/* Adds up what slots of the model's graph are read for, which lies `up` graphs around g. */
static void look(unsigned *uses, const cni_onnx_graph *g, int32_t up)
{
  for (size_t i = 0; i < g->nnodes; i++) {
    const cni_onnx_node *n = &g->nodes[i];
    for (size_t k = 0; k < n->ninputs; k++)
      if (n->inputs[k].slot >= 0 && n->inputs[k].up == up) uses[n->inputs[k].slot] |= use_of(n, k);
    for (size_t k = 0; k < n->nattrs; k++)
      if (n->attrs[k].g) look(uses, n->attrs[k].g, up + 1);
  }
}

/* A name with dots is the path of a module's tensor, unless a part of it is empty or is the name of another value; what
 * is no path gets other characters for its dots. */
static const char *path_of(cni_onnx_model *m, const char *name)
{
  size_t n = strlen(name);
  bool good = n && name[0] != '.' && name[n - 1] != '.' && !strstr(name, "..");
  char *path = cni_arena_text(&m->arena, (cni_wire_bytes){(const unsigned char *)name, n});
  for (char *dot = path; good && dot && (dot = strchr(dot, '.')); dot++) {
    *dot = '\0';
    good = cni_onnx_slot_of(m, path) < 0;
    *dot = '.';
  }
  for (char *c = good ? NULL : path; c && *c; c++)
    if (*c == '.') *c = '_';
  return path;
}

static int add(cni_onnx_model *m, const unsigned *uses, const char *name, cn_onnx_value *value)
{
  int32_t slot = *name ? cni_onnx_slot_of(m, name) : -1;
  cn_tensor *t = value && slot >= 0 ? cn_onnx_value_as_tensor(value) : NULL;
  unsigned use = slot >= 0 ? uses[slot] : 0;
  if (!t || !use || use & SETTING || !cn_dtype_is_float(cn_dtype_of(t)) || cn_dtype_size(cn_dtype_of(t)) < 2)
    return CN_OK;
  if (!cn_ndim(t) || (cn_numel(t) == 1 && use & SCALE)) return CN_OK;
  const char *path = path_of(m, name);
  if (!path) return cn_err();
  m->weights[m->nweights++] = (cni_onnx_weight){name, path, value, !(use & STATISTIC)};
  return CN_OK;
}

/* What a Constant node holds; NULL: it is another node, or holds something else. */
static cn_onnx_value *constant(const cni_onnx_node *n)
{
  bool is = !*n->domain && !strcmp(n->op, "Constant") && n->nattrs == 1 && n->noutputs == 1;
  return is && n->attrs[0].kind == CNI_ATTR_TENSOR ? n->attrs[0].value : NULL;
}

int cni_onnx_find_weights(cni_onnx_model *m)
{
  const cni_onnx_graph *g = &m->graph;
  unsigned *uses = cni_arena_take(&m->arena, (size_t)g->nslots + 1, sizeof *uses);
  m->weights = cni_arena_take(&m->arena, g->ninitials + g->nsparses + g->nnodes + 1, sizeof *m->weights);
  if (!uses || !m->weights) return cn_err();
  look(uses, g, 0);
  int status = CN_OK;
  for (size_t i = 0; i < g->ninitials && !status; i++) status = add(m, uses, g->initials[i].name, g->values[i]);
  for (size_t i = 0; i < g->nnodes && !status; i++)
    if (constant(&g->nodes[i])) status = add(m, uses, g->nodes[i].output_names[0], constant(&g->nodes[i]));
  return status;
}
