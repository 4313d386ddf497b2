/* ext/stablehlo.h: graphs as StableHLO, the text that XLA's compilers and its plugins (PJRT) take.
 *
 * The text is one function, `module { func.func public @main(...) }`, of the sizes that were traced; plugins refuse
 * open ones. It depends on nothing of cairn. What it computes is what a run of the graph does, random numbers included.
 *
 * Types: float32 is f32, float64 f64, float16 f16, bfloat16 bf16, int8 to int64 i8 to i64, uint8 to uint64 ui8 to ui64,
 * bool i1 (a byte in memory), float8 and smaller ones the types of MLIR that have their names. Every argument is a
 * tensor, one without dims too: tensor<f32>. A number that is given to each run (a weak scalar) is tensor<f64>,
 * tensor<i64> or tensor<i1>. Memory is row-major, whatever order the graph's tensors have.
 *
 * Arguments, in this order:
 *   1. states, in the order of cn_graph_state_at; none where `constants`, by which they become part of the text
 *   2. inputs, in the order of cn_graph_input_at
 *   3. if cn_graph_draws(graph) is not 0: the key and the offset of random numbers, tensor<ui64> each, which are
 *      cn_random_state's seed and offset, or those of a cn_graph_launch. A run uses cn_graph_draw_offset(graph,
 *      cn_graph_draws(graph)) counters behind the offset; whoever runs the text moves it on.
 * None is left out, used or not. Results, in this order:
 *   1. outputs
 *   2. what states hold after a run, of those that a run writes (cn_graph_state_final is not negative), in their order
 *   3. what inputs hold after it, of those that are written (cn_graph_input_final)
 *   4. gradients that a run leaves, of those of cn_graph_gradient_at that have a value
 * or, where values are `wanted`, those values alone, in their order. The same value may be several results.
 */
#ifndef CAIRN_EXT_STABLEHLO_H
#define CAIRN_EXT_STABLEHLO_H

#include "graph.h"
#include "mesh.h"

CN_BEGIN_DECLS

typedef struct cn_stablehlo_opts {
  size_t size;
  const struct cn_guard *guard;
  bool constants; /* states become constants of the text; those that a run writes still are results */
  size_t nstates; /* where not 0: as many states are arguments, and those behind them constants */
  /* Arguments whose new value is a result say so (tf.aliasing_output), so that it may take over their memory: states
   * and inputs that are written. The caller gives up what it hands in for them. */
  bool donate;
  const int *wanted; /* values of the graph (cn_graph_value_at) that are the results; NULL: those of a run */
  size_t nwanted;
  /* One program for all devices of a mesh: as many partitions, one replica, use_spmd_partitioning (CompileOptions).
   * What is said of arguments and results are texts of cn_stablehlo_sharding. An argument without one (NULL, or past
   * the end) is whole on each device; a result lies as the argument whose new value it is, else as the op shard says if
   * that makes it, else whole. mesh NULL: one device; the op shard is nothing then. */
  const cn_mesh *mesh;
  const char *const *shardings; /* per argument: states (none where `constants`), then inputs */
  size_t nshardings;
  const char *const *result_shardings;
  size_t nresult_shardings;
  /* The words of Shardy, which succeeds XLA's own partitioner (use_shardy_partitioner): @mesh with the names of its
   * axes, and attributes sdy.sharding. Texts of shardings are then cn_stablehlo_shardy's. */
  bool shardy;
} cn_stablehlo_opts;

/* Owned: cn_string_free. NULL with the error set: it names the op that has no form there, and says why. */
CN_API CN_MUST_USE char *cn_stablehlo_text_with(const cn_graph *graph, const cn_stablehlo_opts *opts);
/* How XLA's partitioner is told of a split, "{devices=[2,1]<=[2]}": the value of the attribute mhlo.sharding, of `size`
 * bytes at most; 512 are enough. Returns text. */
CN_API const char *cn_stablehlo_sharding(char *text, size_t size, const cn_mesh *mesh, const cn_partition *p, int ndim);
/* The same for Shardy, "<@mesh, [{"data"}, {}]>": what stands behind #sdy.sharding. */
CN_API const char *cn_stablehlo_shardy(char *text, size_t size, const cn_mesh *mesh, const cn_partition *p, int ndim);
/* Why an op cannot be part of such a text whatever it is called with: a sentence that stays. NULL: it can. Of branches
 * and loops, which are no ops, op is NULL: they can. */
CN_API const char *cn_stablehlo_problem(const cn_op *op);
/* How an op gets there: "row" (written directly), "formula" (step by step), "parts" (what it is made of), "no". */
CN_API const char *cn_stablehlo_way(const cn_op *op);

CN_END_DECLS

#ifndef __cplusplus
/* cn_stablehlo_text(graph, .donate = true) */
#define cn_stablehlo_text(...) \
  cn_stablehlo_text_with(CN_HEAD(__VA_ARGS__, ), CN_OPTS(cn_stablehlo_opts, CN_TAIL(__VA_ARGS__, )))
#endif

#endif
