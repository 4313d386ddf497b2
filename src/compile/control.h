/* control.h: branches and loops while a graph is captured: functions as sub-graphs, nodes that hold them, and their
 * gradients.
 *
 * Place in the flow: control.c (the public functions; control_eager.c runs loops in eager code) -> control_capture.c,
 * which captures a function with its backward as one graph, again where it writes to tensors from outside
 * (control_states.c) -> control_cond.c and control_loop.c, which record the node, and, where results carry gradients,
 * do so as a custom function whose backward records another node. control_replay.c calls all of these for a graph that
 * is replayed, and for gradients of gradients. Invariant: sub-graphs read their inputs alone; what the functions read
 * outside is an operand of the node, in the same place for all of its sub-graphs, and what they write there is one of
 * its results. */
#ifndef CNI_COMPILE_CONTROL_H
#define CNI_COMPILE_CONTROL_H

#include <cairn/control.h>

#include "compile.h"
#include "graph/capture.h"
#include "graph/control.h"

enum { CNI_MOST_RESULTS = 1024 }; /* of a function that is given to a branch or loop */

/* ---- control_capture.c ---- */
/* A function that was captured. Inputs of the graph: those given, those met outside, then gradients of results that
 * carry some; outputs: results, then gradients of inputs. */
typedef struct cni_captured {
  cn_graph *g;       /* owned; NULL: it writes to tensors from outside that were not given as such */
  size_t ngiven, nresults;
  cn_tensor **met;   /* owned, and the tensors */
  size_t nmet;
  cn_tensor **written; /* owned, and the tensors: whole memories outside that it writes to, where there is no graph */
  size_t nwritten, written_cap;
  bool *carries;     /* per result: does it carry a gradient? */
  int *gradient;     /* per input, given or met: which gradient among the outputs behind results; -1: none flows */
  size_t ngradients;
} cni_captured;

/* What is captured: a function, with inputs like these; wants: which of them carry gradients (NULL: none is asked
 * for). */
typedef struct cni_to_capture {
  const char *who; /* for messages: "scan" */
  cn_control_fn fn;
  void *payload;
  const cn_desc *given;
  const bool *wants;
  size_t ngiven;
  cn_tensor *const *memory; /* per input given: the memory outside that it stands for, which the function may write to,
                             * and is not handed; NULL there, or at all: it is handed to the function */
  size_t finals_at;         /* what such memories hold at the end are results behind so many of the function's */
  cn_tensor *const *operands; /* tensors from outside that the function is handed as well */
  size_t noperands;
} cni_to_capture;
int cni_capture_function(cni_captured *f, const cni_to_capture *what);
void cni_captured_free(cni_captured *f);
/* Gives all of them the tensors that any of them met, in one order. */
int cni_captured_unite(cni_captured *const *all, int n);

/* ---- control_states.c ---- */
/* The memories outside that the functions of one call write to, found one capture after the other. */
typedef struct cni_states {
  cn_tensor **v; /* owned, and the tensors */
  bool *wants;   /* per memory: does its value carry a gradient into the functions? */
  size_t n, cap, wants_cap;
} cni_states;
bool cni_state_is_leaf(const cn_tensor *t); /* it requires gradients, and gets none through what is written to it */
int cni_states_add(cni_states *s, const cni_captured *f); /* how many were new; negative: an error */
/* Results that carry gradients into a memory that was thought to have none: did that happen? finals: those results. */
bool cni_states_widen(cni_states *s, const bool *finals);
int cni_states_write(const cni_states *s, cn_tensor *const *finals); /* as the functions did, behind the node */
void cni_states_free(cni_states *s);

/* ---- control_wire.c ---- */
/* A value of a graph, or, where value is -1, its stand-in: an input that nobody reads, or zeros. */
typedef struct cni_wire {
  int value;
  cn_graph_value type;
  bool weak; /* an input that is a number */
} cni_wire;
/* The graph with these inputs and outputs, tidied up; inputs that are left out nobody needs. Owned; g stays. NULL with
 * the error set. */
cn_graph *cni_arrange(cn_graph *g, const cni_wire *in, size_t nin, const cni_wire *out, size_t nout);
int cni_check_again(const char *who, const cn_graph *g); /* may all of it be computed again? 0 or the error */
cni_wire cni_wire_of(const cn_graph *g, int value);
cn_graph_value cni_type_of(const cn_graph *g, int value);
cn_graph_value cni_type_of_tensor(const cn_tensor *t);
/* Does carried value i keep its type? 0 or the error. */
int cni_carried_fits(const char *who, size_t i, const cn_graph_value *had, const cn_graph_value *made);
bool cni_type_same(const cn_graph_value *a, const cn_graph_value *b);
cn_tensor *cni_zeros_typed(const cn_graph_value *type, int64_t rows); /* rows -1: no such dimension. Borrowed */

/* ---- the nodes ---- */
/* A call under capture: borrowed results. Operands are brought inside, and are no numbers. */
int cni_capture_cond(cn_tensor **out, size_t *nout, cn_tensor *pred, cn_tensor *const *operands, size_t noperands,
                     cn_control_fn true_fn, cn_control_fn false_fn, void *payload);

typedef struct cni_loop {
  cni_control_kind kind;      /* while, scan or map */
  const char *who;
  cn_control_fn fn, cond;     /* cond: of while */
  void *payload;
  cn_tensor *const *in;       /* carried, then xs, with rows along their first dimension */
  size_t ncarried, nxs;
  int64_t length;             /* rows; while: max_steps, 0: none */
  bool reverse;
  /* What nodes can do besides (graph/control.h), for replays: */
  cn_tensor *steps;           /* of scan: so many; NULL: all */
  bool countdown;
  bool counts;                /* of while with a bound: it may give rows, and its last result is the count of steps */
  uint64_t draws;             /* random numbers of a step, each at its place; 0: they are drawn one after the other */
} cni_loop;
/* out: the last carried values, then ys; *nout: room, then count. */
int cni_capture_loop(cn_tensor **out, size_t *nout, const cni_loop *loop);
int cni_eager_loop(cn_tensor **out, size_t *nout, const cni_loop *loop); /* control_eager.c */
/* control.c: either, for inputs that have been checked by nobody; xs go along dim. */
int cni_run_loop(cn_tensor **out, size_t *nout, cni_loop *loop, cn_tensor *const *given, int64_t dim);
/* Calls fn in a scope of its own; results are owned, the first `carried` of them row-major. *n: room, then count. */
int cni_call_function(cn_tensor **out, size_t *n, const char *who, cn_control_fn fn, cn_tensor *const *in, size_t nin,
                      void *payload, size_t carried);
int cni_truth(const char *who, cn_tensor *pred); /* 1, 0 or an error */
int cni_hand_over(cn_tensor **t, size_t n);      /* owned tensors become the scope's */
void cni_release_all(cn_tensor **t, size_t n);

/* ---- control_replay.c ---- */
/* Graphs as functions: payload: a cni_graphs. A function's inputs, and `operands` behind them, are the graph's. */
typedef struct cni_graphs {
  cn_graph *const *g;
  cn_tensor *const *operands;
  size_t noperands;
  cn_replay_opts opts;
} cni_graphs;
/* Both passes of a function as a program: its graph is replayed and gone through backward, recorded, so that every
 * derivative has the next one. */
typedef struct cni_passes {
  const cn_graph *forward; /* from inputs to results */
  const int *gradient;     /* per input: negative where no gradient flows */
  const bool *carries;     /* per result */
} cni_passes;
/* seeds: per result, of those that carry gradients. grads: per input, zeros where none came; NULL where none flows.
 * Borrowed. */
int cni_both_passes(cn_tensor **grads, const cni_passes *p, cn_tensor *const *in, cn_tensor *const *seeds);
cn_graph *cni_forward_alone(const cni_captured *f); /* owned; NULL with the error set */
int cni_replay_first(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *graphs);
int cni_replay_second(cn_tensor **out, size_t *nout, cn_tensor *const *in, size_t nin, void *graphs);

#endif
