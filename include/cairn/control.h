/* control.h: branches and loops that graphs can hold: cn_cond, cn_while, cn_scan, cn_map; and cn_host_call, by which a
 * graph calls back.
 *
 * In eager code they are what they say: the predicate is read, the function called, the loop run; gradients flow as
 * through any code. While a graph is captured (cn_trace, cn_compile) each function is captured by itself, once, as a
 * sub-graph of one node, so that which branch is taken, and how often a loop goes round, is decided when the graph
 * runs. Functions may read any tensors from outside, and write to them in place: a run then does so behind the node.
 * What a loop hands to a step is not to be written to. Gradients of any order go through.
 *
 * Place in the flow: compile/control.c does it; a graph's nodes are described in ext/graph.h. Invariant: results,
 * gradients and random numbers of the graph are those of eager code, but for what COMPILE.md says of each.
 *
 *     static int step(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *cell)
 *     {
 *       out[0] = out[1] = cn_forward(cell, cn_add(in[0], in[1])); -- the next state, and what is kept of this step
 *       *nout = 2;
 *       return cn_err();
 *     }
 *
 *     cn_scan(&last, &states, &n, &h0, 1, &xs, 1, step, cell);
 */
#ifndef CAIRN_CONTROL_H
#define CAIRN_CONTROL_H

#include "graph.h"

CN_BEGIN_DECLS

/* Computes outputs (borrowed) from inputs with ops. *noutputs: how many there is room for, then how many there are. 0
 * or a negative status. */
typedef int (*cn_control_fn)(cn_tensor **outputs, size_t *noutputs, cn_tensor *const *inputs, size_t ninputs,
                             void *payload);

/* true_fn(operands) where pred, of one element, is not zero, else false_fn(operands). While a graph is captured both
 * are, and must give results of the same count, types and shapes; operands that the branch taken does not use then have
 * gradients of zeros. A pred that is a number (cn_num, cn_int) decides at once. *noutputs: room, then count. 0 or a
 * negative status. */
CN_API int cn_cond(cn_tensor **outputs, size_t *noutputs, cn_tensor *pred, cn_tensor *const *operands, size_t noperands,
                   cn_control_fn true_fn, cn_control_fn false_fn, void *payload);

typedef struct cn_while_opts {
  size_t size;
  const struct cn_guard *guard;
  int64_t max_steps; /* it ends after so many, whatever the condition says; 0: no bound. A graph needs one for
                      * gradients, and for random numbers inside */
} cn_while_opts;
/* carried = body_fn(carried) as long as cond_fn(carried), of one element, is not zero. Carried values keep their types
 * and shapes. outputs: n of them, the last ones. */
CN_API int cn_while_with(cn_tensor **outputs, cn_tensor *const *carried, size_t n, cn_control_fn cond_fn,
                         cn_control_fn body_fn, void *payload, const cn_while_opts *opts);

typedef struct cn_scan_opts {
  size_t size;
  const struct cn_guard *guard;
  int64_t dim;    /* of xs, and where it can be of ys: the one that steps go along */
  bool reverse;   /* from the last row to the first; row i of ys still belongs to row i of xs */
  int64_t length; /* how many steps where there are no xs; else 0, or what it must be */
} cn_scan_opts;
/* (carries, ys) = combine(carries, row of each x) for each row; inputs and outputs of combine stand in this order.
 * Carries keep their types and shapes. last: ncarries of them. ys: stacked along dim; *nys: room, then count. */
CN_API int cn_scan_with(cn_tensor **last, cn_tensor **ys, size_t *nys, cn_tensor *const *init, size_t ncarries,
                        cn_tensor *const *xs, size_t nxs, cn_control_fn combine, void *payload,
                        const cn_scan_opts *opts);

/* ys = fn(row of each x) for each row of the first dimension, stacked. *nys: room, then count. */
CN_API int cn_map(cn_tensor **ys, size_t *nys, cn_tensor *const *xs, size_t nxs, cn_control_fn fn, void *payload);

/* ---- calls of the host ---- */
/* Fills outputs from inputs: tensors of the host, row-major, whose data cn_data gives. 0 or a negative status, with the
 * error set by cn_err_set or not. */
typedef int (*cn_host_fn)(cn_tensor *const *outputs, size_t noutputs, cn_tensor *const *inputs, size_t ninputs,
                          void *payload);

/* What a result of a host call is. */
typedef struct cn_host_result {
  cn_dtype dtype;
  int ndim;
  int64_t shape[CN_MAX_DIMS];
} cn_host_result;

typedef struct cn_host_call_opts {
  size_t size;
  const struct cn_guard *guard;
  void (*payload_free)(void *payload); /* when nobody can call it any more; may be NULL */
  const char *name;                    /* for messages and the text of graphs; copied */
} cn_host_call_opts;
/* Calls a C function with the values of the inputs: at once, and, where a graph is captured, whenever the graph runs.
 * Such calls keep their order, and are made though nobody may use their results. Results carry no gradient; they are on
 * the device of the first input. A graph that has one lives in this process: files refuse it. At least one result. */
CN_API int cn_host_call_with(cn_tensor **outputs, const cn_host_result *results, size_t nresults,
                             cn_tensor *const *inputs, size_t ninputs, cn_host_fn fn, void *payload,
                             const cn_host_call_opts *opts);

CN_END_DECLS

#ifndef __cplusplus
#define cn_while(outputs, carried, n, cond_fn, body_fn, ...)                     \
  cn_while_with(outputs, carried, n, cond_fn, body_fn, CN_HEAD(__VA_ARGS__, ), \
                CN_OPTS(cn_while_opts, CN_TAIL(__VA_ARGS__, )))
#define cn_scan(last, ys, nys, init, ncarries, xs, nxs, combine, ...)                     \
  cn_scan_with(last, ys, nys, init, ncarries, xs, nxs, combine, CN_HEAD(__VA_ARGS__, ), \
               CN_OPTS(cn_scan_opts, CN_TAIL(__VA_ARGS__, )))
#define cn_host_call(outputs, results, nresults, inputs, ninputs, fn, ...)                     \
  cn_host_call_with(outputs, results, nresults, inputs, ninputs, fn, CN_HEAD(__VA_ARGS__, ), \
                    CN_OPTS(cn_host_call_opts, CN_TAIL(__VA_ARGS__, )))
#endif

#endif
