/* module.c: a model as a module, which is trained, moved and saved like any; and as a graph for all sizes. See
 * cairn/onnx.h.
 *
 * Place in the flow: above api.c; weights.c says what the slots are. Invariant: the model never changes: slots are
 * copies of its weights, and each forward feeds them in their place. */
#include <string.h>

#include "run.h"

enum { MOST_INPUTS = 16, MOST_RESULTS = 8 };

/* ---- weights ---- */

size_t cn_onnx_weights(const cn_onnx *o) { return cni_onnx_model_of(o)->nweights; }

int cn_onnx_weight_at(cn_onnx_weight *weight, const cn_onnx *o, size_t i)
{
  const cni_onnx_model *m = cni_onnx_model_of(o);
  if (i >= m->nweights) return cn_err_set(CN_ERR_INDEX, "onnx: there is no weight %zu", i);
  const cni_onnx_weight *w = &m->weights[i];
  *weight = (cn_onnx_weight){w->name, w->path, cn_onnx_value_as_tensor(w->value), w->trained};
  return CN_OK;
}

/* ---- the module ---- */

typedef struct onnx_data {
  cn_onnx *model; /* owned */
} onnx_data;

static cn_onnx *model_in(const cn_module *m) { return ((const onnx_data *)m->data)->model; }

/* Inputs in order, then what the slots hold. 0 or an error; *n of them are made in any case. */
static int feed_all(cn_onnx_feed *feeds, size_t *n, cn_module *m, const cn_module_call *call)
{
  const cn_onnx *o = model_in(m);
  cn_onnx_info info;
  cn_onnx_weight w;
  for (size_t i = 0; i < call->nargs; i++) {
    if (call->args[i].tag != CN_V_TENSOR) continue;
    if (i >= cn_onnx_inputs(o)) return cn_err_set(CN_ERR_TYPE, "Onnx: it takes %zu tensors", cn_onnx_inputs(o));
    if (cn_onnx_input_at(&info, o, i)) return cn_err();
    feeds[*n] = (cn_onnx_feed){info.name, cn_onnx_value_tensor(call->args[i].u.t)};
    if (!feeds[(*n)++].value) return cn_err();
  }
  for (size_t i = 0; i < cn_onnx_weights(o); i++) {
    if (cn_onnx_weight_at(&w, o, i)) return cn_err();
    cn_tensor *t = cn_module_get(m, w.path);
    if (!t) return cn_err_set(CN_ERR_VALUE, "Onnx: its weight %.100s is gone", w.path);
    feeds[*n] = (cn_onnx_feed){w.name, cn_onnx_value_tensor(t)};
    if (!feeds[(*n)++].value) return cn_err();
  }
  return CN_OK;
}

static int onnx_forward(cn_module *m, cn_module_call *call)
{
  const cn_onnx *o = model_in(m);
  cni_arena room = {NULL};
  cn_onnx_feed *feeds = cni_arena_take(&room, MOST_INPUTS + cn_onnx_weights(o), sizeof *feeds);
  cn_onnx_value *made[MOST_RESULTS] = {NULL};
  size_t n = 0;
  int status = feeds ? feed_all(feeds, &n, m, call) : cn_err();
  if (!status) status = cn_onnx_run_named(made, NULL, 0, o, feeds, n);
  for (size_t i = 0; i < cn_onnx_outputs(o) && !status; i++) {
    cn_tensor *t = cn_onnx_value_as_tensor(made[i]);
    if (t && i < call->nout) call->out[i] = cn_scope_give(cn_keep(t));
    if (!t) status = cn_err_set(CN_ERR_TYPE, "Onnx: output %zu of the model is no tensor", i);
  }
  for (size_t i = 0; i < MOST_RESULTS; i++) cn_onnx_value_release(made[i]);
  for (size_t i = 0; i < n; i++) cn_onnx_value_release(feeds[i].value);
  cni_arena_free(&room);
  return status;
}

static void onnx_free(cn_module *m) { cn_onnx_free(model_in(m)); }

static int onnx_copy(cn_module *to, const cn_module *from)
{
  cn_onnx *again = cni_onnx_again(model_in(from));
  ((onnx_data *)to->data)->model = again;
  return again ? CN_OK : cn_err();
}

static void onnx_print(const cn_module *m, cn_text *t)
{
  const cni_onnx_model *model = cni_onnx_model_of(model_in(m));
  cn_text_putf(t, "nodes=%zu, inputs=%zu, outputs=%zu, opset=%lld", model->graph.nnodes, cn_onnx_inputs(model_in(m)),
               model->graph.noutputs, (long long)cn_onnx_opset(model_in(m), ""));
}

static const cn_module_class onnx_class = {
    CN_MODULE_CLASS,
    .name = "Onnx",
    .call = "(Tensor? input0=None, Tensor? input1=None, Tensor? input2=None, Tensor? input3=None, "
            "Tensor? input4=None, Tensor? input5=None, Tensor? input6=None, Tensor? input7=None, "
            "Tensor? input8=None, Tensor? input9=None, Tensor? input10=None, Tensor? input11=None, "
            "Tensor? input12=None, Tensor? input13=None, Tensor? input14=None, Tensor? input15=None) -> Tensor",
    .data_size = sizeof(onnx_data),
    .forward = onnx_forward,
    .free = onnx_free,
    .copy = onnx_copy,
    .print = onnx_print};

static int add_weight(cn_module *m, const cn_onnx_weight *w)
{
  const char *name;
  cn_scope *scope = cn_scope_begin();
  cn_module *owner = cn_module_reach(m, w->path, &name);
  cn_tensor *own = owner ? cn_clone(w->tensor) : NULL;
  int status = !own ? cn_err()
             : w->trained ? cn_module_add_parameter(owner, name, own)
                          : cn_module_add_buffer(owner, name, own, true);
  cn_scope_end(scope);
  return status < 0 ? status : CN_OK;
}

cn_module *cn_onnx_module(const cn_onnx *o)
{
  cn_onnx_weight w;
  if (!cn_err() && !o) cn_err_set(CN_ERR_TYPE, "onnx_module: the model is NULL");
  if (!cn_err() && (cn_onnx_inputs(o) > MOST_INPUTS || cn_onnx_outputs(o) > MOST_RESULTS))
    cn_err_set(CN_ERR_UNSUPPORTED, "onnx_module: at most %d inputs and %d results", MOST_INPUTS, MOST_RESULTS);
  cn_module *m = cn_err() ? NULL : cn_module_new(&onnx_class);
  if (!m) return NULL;
  if (!(((onnx_data *)m->data)->model = cni_onnx_again(o))) {
    cn_module_release(m);
    return NULL;
  }
  void *paused = cn_trace_pause();
  int status = CN_OK;
  for (size_t i = 0; i < cn_onnx_weights(o) && !status; i++)
    if (!(status = cn_onnx_weight_at(&w, o, i))) status = add_weight(m, &w);
  cn_trace_resume(paused);
  if (!status) return m;
  cn_module_release(m);
  return NULL;
}

/* ---- the graph ---- */

static bool is_word(const char *s)
{
  size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
  return n && !s[n] && (*s < '0' || *s > '9');
}

/* What the graph calls a size: as the model does, where that is a word; otherwise by the first place where the model
 * has that text, and by its own where it has none. Owned by the arena. */
static const char *symbol_of(cni_arena *room, const cn_onnx *o, const char *said, size_t input, int dim)
{
  cn_onnx_info info;
  size_t at = input;
  int d = dim;
  if (said && is_word(said)) return said;
  for (size_t i = 0; said && i < input && at == input && !cn_onnx_input_at(&info, o, i); i++)
    for (int k = 0; k < info.ndim && at == input; k++)
      if (info.symbols[k] && !strcmp(info.symbols[k], said)) at = i, d = k;
  cn_text t = {0};
  cn_text_putf(&t, "size_%zu_%d", at, d);
  char *made = t.s ? cni_arena_text(room, (cni_wire_bytes){(const unsigned char *)t.s, t.n}) : NULL;
  cn_text_free(&t);
  return made;
}

/* The dims that the model leaves open. 0 or an error. */
static int open_dims(cni_arena *room, cn_free_dim *dims, size_t *n, const cn_onnx *o, cn_tensor *const *inputs)
{
  cn_onnx_info info;
  for (size_t i = 0; i < cn_onnx_inputs(o); i++) {
    if (!inputs[i]) return cn_err_set(CN_ERR_TYPE, "onnx_graph: input %zu is missing (NULL)", i);
    if (cn_onnx_input_at(&info, o, i)) return cn_err();
    if (info.ndim >= 0 && info.ndim != cn_ndim(inputs[i]))
      return cn_err_set(CN_ERR_SHAPE, "onnx_graph: input '%s' has %d dimensions, it is given %d", info.name, info.ndim,
                        cn_ndim(inputs[i]));
    for (int d = 0; d < info.ndim; d++) {
      if (info.shape[d] >= 0) continue;
      dims[*n] = (cn_free_dim){.input = i, .dim = d, .symbol = symbol_of(room, o, info.symbols[d], i, d)};
      if (!dims[(*n)++].symbol) return cn_err();
    }
  }
  return CN_OK;
}

static int traced(cn_tensor **outputs, cn_tensor *const *inputs, void *payload)
{
  return cn_onnx_run(outputs, payload, inputs);
}

/* States that are weights get their names. */
static int name_states(cn_graph *g, const cn_onnx *o)
{
  const cni_onnx_model *m = cni_onnx_model_of(o);
  for (size_t i = 0; i < cn_graph_states(g); i++)
    for (size_t k = 0; k < m->nweights; k++)
      if (cn_onnx_value_as_tensor(m->weights[k].value) == cn_graph_state(g, i) &&
          cn_graph_name_state(g, i, m->weights[k].path))
        return cn_err();
  return CN_OK;
}

cn_graph *cn_onnx_graph(cn_onnx *o, cn_tensor *const *inputs)
{
  cni_arena room = {NULL};
  size_t n = 0, most = cn_onnx_inputs(o) * CN_MAX_DIMS + 1;
  cn_free_dim *dims = cni_arena_take(&room, most, sizeof *dims);
  cn_graph *g = NULL;
  if (dims && !open_dims(&room, dims, &n, o, inputs))
    g = n ? cn_trace_dynamic(traced, cn_onnx_outputs(o), inputs, cn_onnx_inputs(o), dims, n, o)
          : cn_trace(traced, cn_onnx_outputs(o), inputs, cn_onnx_inputs(o), o);
  cni_arena_free(&room);
  if (!g || !name_states(g, o)) return g;
  cn_graph_free(g);
  return NULL;
}
