/* control.h: nodes that hold graphs of their own (cond, while, scan, map), and nodes that call the host.
 *
 *     cond      (pred, operands...)                   two sub-graphs: the first one runs where pred is true
 *     while     (carried..., operands...)             a condition and a body, from (carried, operands) to (carried, ys)
 *     scan      (carried..., xs..., operands...)      a body from (carried, a row of each x, operands) to (carried, ys)
 *     map       (xs..., operands...)                  a body from (a row of each x, operands) to ys
 *     host_call (inputs...)                           no sub-graph: a C function
 *
 * Results are the last carried values, then ys with a row for each step. A while has ys only where max_steps bounds
 * them; its last result is then how many steps it took, and rows behind those are zero. A scan with `steps` does so
 * many of its steps, and its other rows are zero. In step s a sub-graph draws random numbers s times what it draws
 * behind the node's own draw; where `countdown` is set, steps are counted from the last one done (the backward of a
 * loop goes through the steps of its forward from the end).
 *
 * Place in the flow: compile/control.c captures functions as sub-graphs (inside.c) and records nodes that hold them;
 * infer.c, verify.c, plan.c and run.c ask here what such a node takes and makes; replay.c calls it as a program does
 * (compile/control_replay.c). Invariant: a sub-graph reads its inputs alone, and gives results alone: what it needs
 * from outside is an operand of its node, what it writes there one of its results. */
#ifndef CNI_GRAPH_CONTROL_H
#define CNI_GRAPH_CONTROL_H

#include <cairn/control.h>

#include "ir.h"

typedef enum cni_control_kind {
  CNI_CONTROL_NONE = -1, CNI_CONTROL_COND, CNI_CONTROL_WHILE, CNI_CONTROL_SCAN, CNI_CONTROL_MAP, CNI_CONTROL_HOST,
  CNI_CONTROL_COUNT
} cni_control_kind;

/* The row and signature of a kind; NULL with the error set when there is no memory for it. */
const cni_opinfo *cni_control_op(cni_control_kind kind);
/* An op that nodes may have, by name: a control op, or one of the table. NULL: there is none. */
const cni_opinfo *cni_graph_op(const char *name);
cni_control_kind cni_control_of(const cni_opinfo *info);
static inline bool cni_is_control(const cni_gnode *n) { return cni_control_of(n->info) != CNI_CONTROL_NONE; }

/* What a node takes, in the order of its inputs. */
typedef struct cni_control {
  cni_control_kind kind;
  int first;                    /* inputs in front of all others: 1 for cond's pred, else 0 */
  int ncarried, nxs, noperands;
  int steps;                    /* the input that says how many steps; -1: all */
  int64_t length;               /* rows; while: max_steps, 0: no bound */
  bool reverse, countdown;
} cni_control;
void cni_control_read(cni_control *c, const cni_gnode *n, const cn_value *args);

/* As infer: the results' types, from args with sizes filled in and the inputs' tensors. Says where a sub-graph does not
 * fit. */
int cni_control_infer(cn_spec *spec, cn_device *device, const cni_gnode *n, const cn_value *args, cn_tensor *const *in);
int cni_control_verify(const cn_graph *g, size_t node); /* its sub-graphs by themselves */
int64_t cni_graph_draws(const cn_graph *g);             /* random numbers that one run takes, at the traced sizes */
int64_t cni_control_draws(const cni_gnode *n);          /* ... that the node takes at most */
/* Flags of the node's op, with those of its sub-graphs' nodes that hold for a node around them: checks, effects. */
uint32_t cni_node_flags(const cni_gnode *n);
bool cni_subs_same(const cni_gnode *a, const cni_gnode *b); /* do they hold the same graphs? */

/* A branch or loop that is replayed (replay.c), through cni_hooks.replay_control: in: its inputs; args: with sizes
 * filled in. The thread's random numbers stand where the node's begin. */
typedef struct cni_replayed {
  const cni_gnode *node;
  const cn_value *args;
  cn_tensor *const *in;
  const cn_replay_opts *opts;
} cni_replayed;

/* ---- host calls ---- */
typedef struct cni_host {
  _Atomic int32_t refs;
  cn_host_fn fn;
  void *payload;
  void (*payload_free)(void *payload);
  char *name; /* owned */
  size_t nresults;
  cn_host_result *results; /* owned */
} cni_host;
void cni_host_release(cni_host *h);
cni_host *cni_host_keep(cni_host *h);
int cni_host_run(const cni_host *h, cn_tensor *const *in, int nin, cn_tensor *const *out);
/* The call itself: at once, or as a node of the graph that is captured. Borrowed results. */
int cni_host_call(cn_tensor **out, cni_host *h, cn_tensor *const *in, size_t nin);

#endif
