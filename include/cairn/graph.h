/* graph.h: static graphs from the same code: record what a function computes, and run that again without it.
 *
 * While a function is traced no data moves: ops only infer shapes and types. What it reads from outside (parameters,
 * optimiser state) becomes the graph's state, bound to those very tensors; what it writes in place is written back to
 * them when the graph runs. Step counts, rates and random offsets that change from run to run must be tensors (or
 * random ops), which they are when the code uses them as tensors.
 */
#ifndef CAIRN_GRAPH_H
#define CAIRN_GRAPH_H

#include "tensor.h"

CN_BEGIN_DECLS

typedef struct cn_graph cn_graph;

/* Computes outputs (borrowed) from inputs with ops. 0 or a negative status. */
typedef int (*cn_graph_fn)(cn_tensor **outputs, cn_tensor *const *inputs, void *payload);

/* Records fn as a graph. Owned; NULL with the error set: reading a value inside fn is one, and names the place. */
CN_API CN_MUST_USE cn_graph *cn_trace(cn_graph_fn fn, size_t noutputs, cn_tensor *const *inputs, size_t ninputs,
                                      void *payload);
/* Records fn once per example (nexamples sets of ninputs tensors, one after another) that differ in some sizes. The
 * op lists must be the same; every integer that differs is solved in the sizes of the inputs. The graph then runs on
 * any sizes of that form without a new trace. */
CN_API CN_MUST_USE cn_graph *cn_trace_sizes(cn_graph_fn fn, size_t noutputs, cn_tensor *const *inputs, size_t ninputs,
                                            size_t nexamples, void *payload);
/* Is this thread tracing a function? */
CN_API bool cn_tracing(void);
/* While a function is traced: what follows is a part of the program called name ("layer1.0"), of some kind ("Conv2d"),
 * for whoever looks at the graph later. Modules do this around their forward. owner: whom cn_trace_scope_owner gives
 * until the end, may be NULL. Returns what cn_trace_scope_end takes; -1 where nothing is traced, or the error. */
CN_API CN_MUST_USE int cn_trace_scope_begin(const char *name, const char *kind, const void *owner);
CN_API void cn_trace_scope_end(int scope);
CN_API const void *cn_trace_scope_owner(void); /* of the innermost scope that has one; NULL: none */
CN_API void cn_graph_free(cn_graph *graph);

/* Runs it. Results belong to the innermost scope. Inputs must have the traced types, and the traced sizes where those
 * are fixed. */
CN_API int cn_graph_run(cn_tensor **outputs, cn_graph *graph, cn_tensor *const *inputs);

/* ---- looking in ---- */
CN_API size_t cn_graph_nodes(const cn_graph *graph);
CN_API size_t cn_graph_inputs(const cn_graph *graph);
CN_API size_t cn_graph_outputs(const cn_graph *graph);
CN_API size_t cn_graph_states(const cn_graph *graph);
/* Bytes that the last run's memory plan needed for values between nodes, and what it would be without reuse. */
CN_API void cn_graph_memory(const cn_graph *graph, size_t *planned, size_t *unplanned);
/* As text that cn_graph_parse reads back. Owned: cn_string_free. */
CN_API CN_MUST_USE char *cn_graph_to_string(const cn_graph *graph);
/* A graph from its text. Its states are not bound yet. Owned; NULL with the error set. */
CN_API CN_MUST_USE cn_graph *cn_graph_parse(const char *text);
/* The tensor of a state, borrowed; NULL while unbound. */
CN_API cn_tensor *cn_graph_state(const cn_graph *graph, size_t i);
CN_API int cn_graph_bind(cn_graph *graph, size_t i, cn_tensor *tensor);

/* ---- passes ---- */
CN_API int cn_graph_verify(const cn_graph *graph);    /* 0, or an error that says what is wrong where */
CN_API int cn_graph_remove_dead(cn_graph *graph);     /* drops nodes that nothing reads; returns how many */

CN_END_DECLS
#endif
