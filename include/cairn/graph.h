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

/* Records fn as a graph. Owned; NULL with the error set: reading a value inside fn is one, and names the place. Where
 * the size of a result depends on data (nonzero), it becomes a size of the graph, and fn is traced at several, as by
 * cn_trace_dynamic: each run then finds it anew. */
CN_API CN_MUST_USE cn_graph *cn_trace(cn_graph_fn fn, size_t noutputs, cn_tensor *const *inputs, size_t ninputs,
                                      void *payload);
/* A dimension of an input whose size may vary from run to run. Dimensions with the same symbol (a name: "B") have the
 * same size. Instead of a name it may be an expression of names that other dimensions have: "T + 1", "2 * T", with
 * + - * // min( , ) max( , ). min, max: sizes for which the graph must hold; 0: whatever is found, CN_ZERO as min: 0 */
typedef struct cn_free_dim {
  size_t input;
  int dim;
  const char *symbol;
  int64_t min, max;
} cn_free_dim;
/* Records fn for all sizes of its free dimensions. Of inputs only the descriptions count. fn is traced, without data,
 * at a few dozen sizes of the library's choice; it must compute the same ops at all of them. Every number that differs
 * is solved as an expression of the sizes (+, -, *, division rounded down, min, max; ratios where it is a float), which
 * is then tried at further sizes, on both sides of every place where it rounds or bends. A number for which no
 * expression holds is an error that names it. Where no range is given, that in which the graph is the same is found by
 * trying, between 1 and 1048576; a run with a size out of the range is an error. */
CN_API CN_MUST_USE cn_graph *cn_trace_dynamic(cn_graph_fn fn, size_t noutputs, cn_tensor *const *inputs,
                                              size_t ninputs, const cn_free_dim *dims, size_t ndims, void *payload);
/* The same for examples (nexamples sets of ninputs tensors, one after another): the dimensions in which they differ are
 * free, and those that have the same sizes in all of them share one. */
CN_API CN_MUST_USE cn_graph *cn_trace_sizes(cn_graph_fn fn, size_t noutputs, cn_tensor *const *inputs, size_t ninputs,
                                            size_t nexamples, void *payload);
/* Is this thread tracing a function? */
CN_API bool cn_tracing(void);
/* ... for many sizes (cn_trace_dynamic, cn_trace_sizes)? Code that has a shortcut for one of them, a single step of a
 * sequence, say, leaves it out then, so that it computes the same ops at all sizes. */
CN_API bool cn_tracing_sizes(void);
/* While a function is traced: what follows is computed at once and not recorded, until resume is given what pause
 * returned. For things that begin with a value of their own and live on, such as an optimiser's state: tensors of the
 * trace have no values. */
CN_API CN_MUST_USE void *cn_trace_pause(void);
CN_API void cn_trace_resume(void *paused);
/* While a function is traced: what a tensor from outside holds when a run begins, whatever was written since. Borrowed;
 * NULL with the error set. */
CN_API cn_tensor *cn_trace_first(cn_tensor *t);
/* While a function is traced: what follows is a part of the program called name ("layer1.0"), of some kind ("Conv2d"),
 * for whoever looks at the graph later. Modules do this around their forward. owner: whom cn_trace_scope_owner gives
 * until the end, may be NULL. Returns what cn_trace_scope_end takes; -1 where nothing is traced, or the error. Profiles
 * that ask for modules (cairn/profile.h) have an entry for it, where nothing is traced. */
CN_API CN_MUST_USE int cn_trace_scope_begin(const char *name, const char *kind, const void *owner);
CN_API void cn_trace_scope_end(int scope);
CN_API const void *cn_trace_scope_owner(void); /* of the innermost scope that has one; NULL: none */
CN_API void cn_graph_free(cn_graph *graph);

/* Runs it. Results belong to the innermost scope. Inputs must have the traced types, the traced sizes where those are
 * fixed, and sizes in their range where they are free. */
CN_API int cn_graph_run(cn_tensor **outputs, cn_graph *graph, cn_tensor *const *inputs);
/* The same within limits (base.h: cn_limits, of which these are the fields) and in a stream of its device (device.h),
 * behind what is queued there: inputs and states must be ready in it. From any number of threads at once: they share
 * the graph's plans and weights, and each has memory of its own, which is kept for the next run. A run that is stopped
 * or fails has changed neither states nor random numbers; what it called on the host (cn_host_call) is done. */
typedef struct cn_run_opts {
  size_t size;
  const struct cn_guard *guard;
  double timeout; /* seconds; 0: no limit */
  int threads;    /* at most; 0: all. Results do not depend on it */
  bool (*cancelled)(void *payload);
  void *payload;
  struct cn_stream *stream; /* NULL: that in use */
} cn_run_opts;
CN_API int cn_graph_run_with(cn_tensor **outputs, cn_graph *graph, cn_tensor *const *inputs, const cn_run_opts *opts);

/* ---- looking in ---- */
CN_API size_t cn_graph_nodes(const cn_graph *graph);
CN_API size_t cn_graph_inputs(const cn_graph *graph);
CN_API size_t cn_graph_outputs(const cn_graph *graph);
CN_API size_t cn_graph_states(const cn_graph *graph);
/* Type, place and shape, as traced where it may vary, of an input, output or state. 0, or an error: there is none. */
typedef struct cn_graph_value {
  cn_dtype dtype;
  cn_device device;
  int ndim;
  int64_t shape[CN_MAX_DIMS];
} cn_graph_value;
CN_API int cn_graph_input_at(cn_graph_value *value, const cn_graph *graph, size_t i);
CN_API int cn_graph_output_at(cn_graph_value *value, const cn_graph *graph, size_t i);
CN_API int cn_graph_state_at(cn_graph_value *value, const cn_graph *graph, size_t i);
/* Bytes that the last run's memory plan needed for values between nodes, and what it would be without reuse. */
CN_API void cn_graph_memory(const cn_graph *graph, size_t *planned, size_t *unplanned);
/* What no plan for that order of nodes could do without: the bytes of values, and of what kernels take while they run,
 * that are needed at once at the fullest moment. */
CN_API size_t cn_graph_memory_least(const cn_graph *graph);
/* As text that cn_graph_parse reads back. Owned: cn_string_free. */
CN_API CN_MUST_USE char *cn_graph_to_string(const cn_graph *graph);
/* A graph from its text. Its states are not bound yet. Owned; NULL with the error set. */
CN_API CN_MUST_USE cn_graph *cn_graph_parse(const char *text);
/* The tensor of a state, borrowed; NULL while unbound. */
CN_API cn_tensor *cn_graph_state(const cn_graph *graph, size_t i);
CN_API int cn_graph_bind(cn_graph *graph, size_t i, cn_tensor *tensor);

/* ---- files ---- */
/* The name of a state, "fc1.weight", under which a file has it; NULL: none, it is "state.N" there. Distinct, and not
 * beginning with "state." or "__". See cn_module_name_states. */
CN_API const char *cn_graph_state_name(const cn_graph *graph, size_t i);
CN_API int cn_graph_name_state(cn_graph *graph, size_t i, const char *name); /* copied; NULL: none */
/* Writes the graph and its states as one safetensors file, whole or not at all: the states' tensors under their names,
 * the graph's text as metadata "cairn.graph", with calls of composite ops folded into one node each (cn_graph_lift).
 * Other programs read the weights as those of any such file. */
CN_API int cn_graph_save(const cn_graph *graph, const char *path);
/* A graph from such a file, its states bound to the file's tensors, which are mapped, and copied where a run writes.
 * Needs nothing of the program that wrote it. Any bytes are read or refused with an error: an op that a newer library
 * gave another meaning is one. Random numbers go on from where the thread's stand. Owned. */
CN_API CN_MUST_USE cn_graph *cn_graph_load(const char *path);
CN_API CN_MUST_USE cn_graph *cn_graph_load_memory(const void *bytes, size_t size); /* copies what it needs */

/* ---- passes ---- */
CN_API int cn_graph_verify(const cn_graph *graph);    /* 0, or an error that says what is wrong where */
CN_API int cn_graph_remove_dead(cn_graph *graph);     /* drops nodes that nothing reads; returns how many */
/* Computes what is constant once, and nothing twice or for nothing; results stay the same to the bit. Returns how many
 * changes that took. CAIRN_VERBOSE=graph says which. The passes, and how to add rewrites: ext/graph.h. */
CN_API int cn_graph_optimise(cn_graph *graph);
/* The same, and what changes how results, and gradients of a replay, are rounded: sums, quotients and powers that cost
 * less or lose less, and ops for what was made of simpler ones (a softmax, a layer norm, attention). docs/COMPILE.md
 * has the list. */
CN_API int cn_graph_optimise_fast(cn_graph *graph);

CN_END_DECLS
#endif
