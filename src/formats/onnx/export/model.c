/* model.c: a graph as a model: its inputs, outputs and states, and what stands around the nodes.
 *
 * Place in the flow: cn_onnx_save -> a copy of the graph, whose composite ops are whole again -> graph.c -> write.c.
 * Invariant: inputs and outputs are those of the graph, in its order, under names that differ. */
#include <cairn/cairn.h>
#include <string.h>

#include "save.h"
#include "walk.h"

/* ---- which calls stay whole ---- */

static bool is_wanted(const cn_op *op, void *payload)
{
  cn_op_info info;
  const cni_ox *x = payload;
  return !cn_op_describe(&info, op) && cni_ox_row(info.name, x->opset, NULL);
}

static cn_graph *prepared(cni_ox *x, const cn_graph *graph, const cn_onnx_save_opts *opts)
{
  cn_graph *g = cn_graph_copy(graph);
  int status = g ? cn_graph_lift(g, is_wanted, x) : cn_err();
  if (status >= 0 && !opts->no_folding) status = cn_graph_optimise(g);
  if (status >= 0) return g;
  cn_graph_free(g);
  return NULL;
}

/* ---- names ---- */

/* A name that the caller gave; the same twice is an error. */
static const char *given_name(cni_ox *x, const char *name)
{
  if (!*name || cni_ox_is_taken(x, name))
    cni_ox_fail(x, CN_ERR_VALUE, "the name '%s' is empty, or stands there twice", name);
  return cni_ox_word(x, name, strlen(name));
}

static const char *numbered_name(cni_ox *x, const char *stem, size_t i)
{
  cn_text t = {0};
  cn_text_putf(&t, "%s_%zu", stem, i);
  while (!t.failed && cni_ox_is_taken(x, t.s)) cn_text_put(&t, "_");
  const char *name = t.failed ? "" : cni_ox_word(x, t.s, t.n);
  if (t.failed) x->failed = true;
  cn_text_free(&t);
  return name;
}

static void put_shape(cni_ox *x, const cni_oxwalk *w, int id, int value, const cni_oxval *type)
{
  int64_t *shape = cni_arena_take(&x->arena, (size_t)type->ndim + 1, sizeof *shape);
  const char **symbols = cni_arena_take(&x->arena, (size_t)type->ndim + 1, sizeof *symbols);
  if (!shape || !symbols) {
    x->failed = true;
    return;
  }
  for (int k = 0; k < type->ndim; k++) {
    const char *symbol = type->open >> k & 1 ? cni_oxwalk_symbol(w, value, k) : NULL;
    shape[k] = type->shape[k];
    if (symbol) symbols[k] = cni_ox_word(x, symbol, strlen(symbol));
    else if (type->open >> k & 1) symbols[k] = "";
  }
  x->names[id].shape = shape, x->names[id].symbols = symbols;
  x->names[id].ndim = type->ndim, x->names[id].dtype = type->dtype;
}

/* ---- inputs ---- */

static void add_input(cni_oxsave *s, cni_oxwalk *w, int value, const char *name)
{
  cni_oxval type = cni_oxwalk_type(w, value);
  cni_oxval v = cni_ox_fresh(w->x, type.dtype, type.ndim, type.shape, type.open);
  if (v.id < 0) return;
  w->x->names[v.id].text = name, w->x->names[v.id].fixed = true;
  put_shape(w->x, w, v.id, value, &type);
  w->vals[value] = v;
  s->inputs[s->ninputs++] = v.id;
}

static void add_inputs(cni_oxsave *s, cni_oxwalk *w)
{
  const cn_onnx_save_opts *o = s->opts;
  size_t n = cn_graph_inputs(w->g);
  if (o->ninputs > n) cni_ox_fail(w->x, CN_ERR_VALUE, "%zu names for %zu inputs", o->ninputs, n);
  for (size_t i = 0; i < n && !w->x->failed; i++) {
    const char *name = i < o->ninputs ? given_name(w->x, o->inputs[i]) : numbered_name(w->x, "input", i);
    add_input(s, w, cn_graph_input(w->g, i), name);
  }
}

static void add_states(cni_oxsave *s, cni_oxwalk *w)
{
  char room[64];
  for (size_t i = 0; i < cn_graph_states(w->g) && !w->x->failed; i++) {
    int value = cn_graph_state_value(w->g, i);
    const char *name = s->opts->no_weights ? cn_graph_state_key(w->g, i, room, sizeof room) : NULL;
    if (name) {
      add_input(s, w, value, given_name(w->x, name));
    } else if (s->opts->weights_as_inputs) {
      cni_oxval v = cni_oxwalk_get(w, value);
      if (v.id >= 0) s->inputs[s->ninputs++] = v.id;
    }
  }
}

/* ---- outputs ---- */

/* The value under that name: renamed, or once more where it has a name already. */
static void add_output(cni_oxsave *s, cni_oxwalk *w, int value, const char *name)
{
  cni_ox *x = w->x;
  cni_oxval type = cni_oxwalk_type(w, value);
  cni_oxval v = cni_ox_solid(x, cni_oxwalk_get(w, value), type.dtype);
  if (v.id >= 0 && (x->names[v.id].fixed || !x->names[v.id].made)) v = cni_ox_identity(x, v);
  if (v.id < 0) return;
  x->names[v.id].text = name, x->names[v.id].fixed = true;
  put_shape(x, w, v.id, value, &type);
  s->outputs[s->noutputs++] = v.id;
}

static void add_outputs(cni_oxsave *s, cni_oxwalk *w)
{
  const cn_onnx_save_opts *o = s->opts;
  size_t n = cn_graph_outputs(w->g);
  if (o->noutputs > n) cni_ox_fail(w->x, CN_ERR_VALUE, "%zu names for %zu outputs", o->noutputs, n);
  for (size_t i = 0; i < n && !w->x->failed; i++) {
    const char *name = i < o->noutputs ? given_name(w->x, o->outputs[i]) : numbered_name(w->x, "output", i);
    add_output(s, w, cn_graph_output(w->g, i), name);
  }
}

static void add_write(cni_oxsave *s, cni_oxwalk *w, int value, const char *of)
{
  cn_text t = {0};
  if (value < 0 || w->x->failed) return;
  if (!s->opts->writes) {
    cni_ox_fail(w->x, CN_ERR_UNSUPPORTED, "a run writes to %s: models write nothing; `writes` makes it an output",
                of);
    return;
  }
  cn_text_putf(&t, "%s.next", of);
  if (t.failed) w->x->failed = true;
  else add_output(s, w, value, given_name(w->x, t.s));
  cn_text_free(&t);
}

static void add_writes(cni_oxsave *s, cni_oxwalk *w)
{
  char room[64];
  for (size_t i = 0; i < cn_graph_states(w->g) && !w->x->failed; i++) {
    const char *key = cn_graph_state_key(w->g, i, room, sizeof room);
    add_write(s, w, cn_graph_state_final(w->g, i), key ? key : "a state");
  }
  for (size_t i = 0; i < cn_graph_inputs(w->g) && !w->x->failed; i++)
    add_write(s, w, cn_graph_input_final(w->g, i), w->x->names[s->inputs[i]].text);
  if (cn_graph_gradients(w->g))
    cni_ox_fail(w->x, CN_ERR_UNSUPPORTED, "a run leaves gradients with tensors from outside, and models have none");
}

static void mark_wanted(cni_oxwalk *w)
{
  const cn_graph *g = w->g;
  for (size_t i = 0; i < cn_graph_outputs(g); i++) cni_oxwalk_mark(w, cn_graph_output(g, i));
  for (size_t i = 0; i < cn_graph_states(g); i++) cni_oxwalk_mark(w, cn_graph_state_final(g, i));
  for (size_t i = 0; i < cn_graph_inputs(g); i++) cni_oxwalk_mark(w, cn_graph_input_final(g, i));
}

/* ---- the model ---- */

static void write_all(cni_oxsave *s, cni_oxwalk *w)
{
  add_inputs(s, w);
  add_states(s, w);
  mark_wanted(w);
  cni_oxwalk_nodes(w);
  add_outputs(s, w);
  add_writes(s, w);
}

int cni_ox_make(cni_oxsave *s, const cn_graph *graph)
{
  cni_ox *x = &s->x;
  cni_oxwalk w = {0};
  const cn_onnx_save_opts *o = s->opts;
  x->opset = o->opset ? o->opset : CN_ONNX_OPSET;
  if (cn_err()) return cn_err();
  if (!graph) return cni_ox_fail(x, CN_ERR_VALUE, "there is no graph");
  if (x->opset < CN_ONNX_OPSET_LEAST || x->opset > CN_ONNX_OPSET_MOST)
    return cni_ox_fail(x, CN_ERR_VALUE, "opset %d: %d to %d can be written", x->opset, CN_ONNX_OPSET_LEAST,
                       CN_ONNX_OPSET_MOST);
  size_t most = cn_graph_inputs(graph) + 2 * cn_graph_states(graph) + cn_graph_outputs(graph) + 1;
  s->inputs = cni_arena_take(&x->arena, most, sizeof *s->inputs);
  s->outputs = cni_arena_take(&x->arena, most + cn_graph_inputs(graph), sizeof *s->outputs);
  x->ngraphs = 0;
  cni_ox_graph_begin(x); /* number 0: the model's own */
  x->depth = 0;
  cn_graph *g = s->inputs && s->outputs ? prepared(x, graph, o) : NULL;
  if (g && !cni_oxwalk_begin(&w, x, g)) write_all(s, &w);
  else x->failed = true;
  if (g) cni_oxwalk_end(&w);
  cn_graph_free(g);
  if (x->failed && !cn_err()) cn_err_set(CN_ERR_MEMORY, "onnx: out of memory");
  return cn_err();
}
