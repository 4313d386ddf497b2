/* graph_module.c: a graph as a module: its states are parameters and buffers, its forward computes the graph.
 *
 * Place in the flow: what was traced, loaded or imported as a graph is called, trained and moved like any module;
 * graph/replay.c computes it. Invariant: forward reads and writes what the slots hold, whatever the graph is bound
 * to. */
#include <cairn/ext/graph.h>
#include <string.h>

#include "nn.h"

enum { MOST_INPUTS = 16, MOST_RESULTS = 8, KEY_ROOM = 32 };

typedef struct graph_data {
  cn_graph *graph; /* owned */
} graph_data;

/* ---- slots ---- */

static int add_slot(cn_module *m, const cn_graph *g, size_t i)
{
  char room[KEY_ROOM];
  const char *name;
  cn_tensor *t = cn_graph_state(g, i);
  if (!t) return cn_err_set(CN_ERR_VALUE, "graph_module: state %zu is not bound", i);
  cn_module *owner = cn_module_reach(m, cn_graph_state_key(g, i, room, sizeof room), &name);
  int status = !owner ? cn_err()
             : cn_needs_grad(t) && cn_is_leaf(t) ? cn_module_add_parameter(owner, name, t)
                                                 : cn_module_add_buffer(owner, name, t, true);
  return status < 0 ? status : CN_OK;
}

/* ---- computing ---- */

/* What the slots hold now, for each state. */
static int read_slots(cn_tensor **states, cn_module *m, const cn_graph *g)
{
  for (size_t i = 0; i < cn_graph_states(g); i++) {
    char room[KEY_ROOM];
    const char *key = cn_graph_state_key(g, i, room, sizeof room);
    if (!(states[i] = cn_module_get(m, key)))
      return cn_err_set(CN_ERR_VALUE, "Graph: its parameter or buffer %.100s is gone", key);
  }
  return CN_OK;
}

static int graph_forward(cn_module *m, cn_module_call *call)
{
  cn_graph *g = ((graph_data *)m->data)->graph;
  cn_tensor *in[MOST_INPUTS], *out[MOST_RESULTS] = {NULL};
  size_t n = cn_graph_inputs(g), bytes = (cn_graph_states(g) + 1) * sizeof *out;
  for (size_t i = 0; i < call->nargs; i++) {
    bool given = call->args[i].tag == CN_V_TENSOR;
    if (given != (i < n)) return cn_err_set(CN_ERR_TYPE, "Graph: it takes %zu tensors", n);
    if (given) in[i] = call->args[i].u.t;
  }
  cn_tensor **states = cn_alloc_zero(bytes);
  int status = states ? read_slots(states, m, g) : CN_ERR_MEMORY;
  if (!status) status = cn_graph_call(out, g, in, states);
  cn_free(states, bytes);
  for (size_t i = 0; i < call->nout && !status; i++) call->out[i] = i < MOST_RESULTS ? out[i] : NULL;
  return status;
}

/* ---- life ---- */

static void graph_free(cn_module *m) { cn_graph_free(((graph_data *)m->data)->graph); }

/* Forward reads the copied slots; the graph's own states are the original's tensors. */
static int graph_copy(cn_module *to, const cn_module *from)
{
  cn_graph *copy = cn_graph_copy(((const graph_data *)from->data)->graph);
  ((graph_data *)to->data)->graph = copy;
  return copy ? CN_OK : cn_err();
}

static void graph_print(const cn_module *m, cn_text *t)
{
  const cn_graph *g = ((const graph_data *)m->data)->graph;
  cn_text_putf(t, "nodes=%zu, inputs=%zu, outputs=%zu", cn_graph_nodes(g), cn_graph_inputs(g), cn_graph_outputs(g));
}

static const cn_module_class graph_class = {
  CN_MODULE_CLASS, .name = "Graph",
  .call = "(Tensor? input0=None, Tensor? input1=None, Tensor? input2=None, Tensor? input3=None, Tensor? input4=None, "
          "Tensor? input5=None, Tensor? input6=None, Tensor? input7=None, Tensor? input8=None, Tensor? input9=None, "
          "Tensor? input10=None, Tensor? input11=None, Tensor? input12=None, Tensor? input13=None, "
          "Tensor? input14=None, Tensor? input15=None) -> Tensor",
  .data_size = sizeof(graph_data), .forward = graph_forward, .free = graph_free, .copy = graph_copy,
  .print = graph_print};

cn_module *cn_graph_module(cn_graph *graph)
{
  cn_module *m = NULL;
  if (!cn_err() && !graph) cn_err_set(CN_ERR_TYPE, "graph_module: the graph is NULL");
  if (!cn_err() && (cn_graph_inputs(graph) > MOST_INPUTS || cn_graph_outputs(graph) > MOST_RESULTS))
    cn_err_set(CN_ERR_UNSUPPORTED, "graph_module: at most %d inputs and %d results", MOST_INPUTS, MOST_RESULTS);
  if (cn_err() || !(m = cn_module_new(&graph_class))) {
    cn_graph_free(graph);
    return NULL;
  }
  ((graph_data *)m->data)->graph = graph;
  int status = CN_OK;
  for (size_t i = 0; i < cn_graph_states(graph) && !status; i++) status = add_slot(m, graph, i);
  if (!status) return m;
  cn_module_release(m);
  return NULL;
}
