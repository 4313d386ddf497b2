/* compile.h: functions that are compiled at their first call: what they compute is captured as a graph, and later calls
 * of the same kind run the graph without the function.
 *
 * A call's kind is its key: types, sizes, memory order and devices of the inputs, which of them share memory and which
 * want gradients; of numbers (cn_num) the value, but of floats only where the function asks for it: others are inputs
 * like tensors; gradient mode, autocast, default type and device; modes of the modules that are called; and what the
 * function itself adds to the key. Each kind has a program of its own. What else the function reads is baked in. A
 * function may be a forward pass, whose results carry gradients as usual, or a whole training step: forward, backward,
 * update. Sizes that depend on data (nonzero) are found by each run; the function is then captured several times in one
 * call, at sizes of the library's choice (cn_trace_dynamic), and a run that finds a size for which its program does not
 * hold is a call of the function.
 *
 *     static int step(cn_compile_call *call)
 *     {
 *       trainer *t = call->payload;
 *       cn_tensor *loss = cn_cross_entropy(cn_forward(t->net, call->inputs[0]), call->inputs[1]);
 *       cn_backward(loss);
 *       cn_optim_step(t->optim);
 *       cn_optim_zero_grad(t->optim);
 *       call->outputs[0] = loss;
 *       call->noutputs = 1;
 *       return cn_err();
 *     }
 *
 *     cn_compiled *fast = cn_compile(step);
 *     cn_compiled_call(fast, &(cn_compile_call){.inputs = xy, .ninputs = 2, .outputs = &loss, .noutputs = 1,
 *                                               .payload = &trainer});
 */
#ifndef CAIRN_COMPILE_H
#define CAIRN_COMPILE_H

#include "graph.h"

CN_BEGIN_DECLS

typedef struct cn_compiled cn_compiled;
typedef struct cn_key cn_key;

/* One call. */
typedef struct cn_compile_call {
  cn_tensor *const *inputs;
  size_t ninputs;
  cn_tensor **outputs; /* room for results, which belong to the scope; inputs, and views of them, are just that */
  size_t noutputs;     /* how many there is room for, then how many there are */
  void *payload;       /* of this call: for the function and its key */
  void *note;          /* what the function said of its results when it was captured: calls of one kind share it, it is
                        * the program's, see note_free; the caller's where the call ran as it is */
  bool ran_as_is;      /* out: the function itself was run */
} cn_compile_call;

/* Computes outputs (borrowed) from inputs with ops. 0 or a negative status. */
typedef int (*cn_compile_fn)(cn_compile_call *call);

typedef struct cn_compile_opts {
  size_t size;
  const struct cn_guard *guard;
  bool fullgraph; /* code that cannot be captured is an error; otherwise such a call runs as it is, with one warning */
  /* What the function depends on besides its inputs: other bytes, another program. */
  void (*key)(cn_key *key, const cn_compile_call *call);
  void (*note_free)(void *note);
  const char *name; /* for messages; copied */
  /* A function with sizes that depend on data is captured at several: do two of its notes say the same? NULL: only
   * where they are the same pointer. */
  bool (*note_same)(const void *a, const void *b);
  /* Results, and gradients, may be rounded otherwise than the function's: cn_graph_optimise_fast, cn_graph_join
   * (ext/graph.h). CAIRN_COMPILE=exact and check say otherwise. */
  bool fast;
} cn_compile_opts;

CN_API CN_MUST_USE cn_compiled *cn_compile_with(cn_compile_fn fn, const cn_compile_opts *opts); /* owned */
CN_API void cn_compiled_free(cn_compiled *compiled);
/* Calls it. 0 or a negative status. From several threads at once, if the function can be. While a graph is captured it
 * is the function itself, which becomes part of that graph. */
CN_API int cn_compiled_call(cn_compiled *compiled, cn_compile_call *call);
/* Adds bytes to a key; what: names them in messages about why a program was made anew, a text that stays. */
CN_API void cn_key_put(cn_key *key, const void *bytes, size_t size, const char *what);

/* ---- looking in ---- */
typedef struct cn_compile_stats {
  size_t executables; /* programs made */
  size_t runs;        /* calls that ran one */
  size_t recompiles;  /* programs made because a call was of another kind than those before */
  size_t eager_calls; /* calls that ran as they are */
  size_t groups;      /* nodes in the programs made that do the work of several pointwise ones */
  size_t code;        /* different groups that run as machine code by now, made by the system's compiler */
} cn_compile_stats;
/* Of one function, or of all there were (NULL) since the process began or was reset. size: sizeof(cn_compile_stats). */
CN_API void cn_compile_stats_get(cn_compile_stats *stats, size_t size, const cn_compiled *compiled);
CN_API void cn_compile_stats_reset(void);
/* What would run for this call, as text: its graphs, or why there are none. Captures where that was not done yet.
 * Owned: cn_string_free. */
CN_API CN_MUST_USE char *cn_compiled_explain(cn_compiled *compiled, cn_compile_call *call);

CN_END_DECLS

#ifndef __cplusplus
#define cn_compile(...) cn_compile_with(CN_HEAD(__VA_ARGS__, ), CN_OPTS(cn_compile_opts, CN_TAIL(__VA_ARGS__, )))
#endif

#endif
